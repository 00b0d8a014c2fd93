//! Names of states and links in interactions: those of the model itself, and those that are made
//! from names of system calls and probes.

use crate::hash::IdMap;
use crate::interaction::Vocabulary;
use crate::kinds::{state_label, LinkKind, NameKind, StateKind};
use crate::linux::watch::BlockReason;
use crate::linux::Linux;
use crate::names::{NameId, Names};
use std::ops::Index;

/// Names of states of which there is one in each trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    pub user: NameId,
    pub run: NameId,
    pub kernel: NameId,
    pub runnable: NameId,
    pub preempted: NameId,
    pub unknown: NameId,
    pub throttled: NameId,
    pub page_fault: NameId,
    pub asleep: NameId,
    pub outside: NameId,
    /// Reasons of blocks.
    pub lost: NameId,
    pub signal: NameId,
    pub work: NameId,
    pub workqueue: NameId,
    pub links: Links,
}

/// Names of links, by their kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links([NameId; LinkKind::ALL.len()]);

impl Index<LinkKind> for Links {
    type Output = NameId;

    #[inline]
    fn index(&self, kind: LinkKind) -> &NameId {
        &self.0[kind as usize]
    }
}

impl Links {
    fn new(names: &mut Names) -> Links {
        let mut links = [NameId(u32::MAX); LinkKind::ALL.len()];
        // Only links of machine logs have names of their own, which the log's reader makes.
        for (kind, text) in LinkKind::ALL.into_iter().filter_map(|kind| Some((kind, kind.text()?))) {
            links[kind as usize] = names.intern_as(text, NameKind::Link(kind));
        }
        Links(links)
    }
}

impl Words {
    pub fn new(vocabulary: &mut Vocabulary) -> Words {
        let names = &mut vocabulary.names;
        let links = Links::new(names);
        let mut reason = |text| names.intern_as(text, NameKind::State(StateKind::Waits));
        let (lost, signal, work, workqueue) = (reason("lost"), reason("signal"), reason("work"), reason("workqueue"));
        let mut state = |kind: StateKind| names.intern_as(kind.text().unwrap_or_default(), NameKind::State(kind));
        Words {
            user: state(StateKind::User),
            run: state(StateKind::Run),
            kernel: state(StateKind::Kernel),
            runnable: state(StateKind::Runnable),
            preempted: state(StateKind::Preempted),
            unknown: state(StateKind::Unknown),
            throttled: state(StateKind::Throttled),
            page_fault: state(StateKind::Fault),
            asleep: state(StateKind::Asleep),
            outside: state(StateKind::Outside),
            lost,
            signal,
            work,
            workqueue,
            links,
        }
    }
}

/// Names of states, by what they are made from.
#[derive(Debug, Default)]
pub(super) struct StateNames {
    /// States of threads in system calls, by the call's name in the kernel's model.
    system_calls: Vec<Option<NameId>>,
    /// States of threads that wait, by the reason that a probe or a rule gives.
    reasons: Vec<Option<NameId>>,
    spans: Vec<Option<NameId>>,
    services: Vec<Option<NameId>>,
    /// States of blocked threads.
    blocks: IdMap<BlockReason, NameId>,
}

impl StateNames {
    /// The state of a thread in this system call.
    #[inline]
    pub fn system_call(&mut self, name: NameId, linux: &Linux, vocabulary: &mut Vocabulary) -> NameId {
        translated(&mut self.system_calls, name, vocabulary, StateKind::SystemCall, |_| linux.names.text(name).to_owned())
    }

    /// A reason to wait that probes or a user's rule gave.
    #[inline]
    pub fn reason(&mut self, name: NameId, vocabulary: &mut Vocabulary) -> NameId {
        translated(&mut self.reasons, name, vocabulary, StateKind::Waits, |names| names.text(name).to_owned())
    }

    /// The state of a thread whose innermost open span has this name.
    #[inline]
    pub fn span(&mut self, name: NameId, vocabulary: &mut Vocabulary) -> NameId {
        let label = |names: &Names| state_label(names.text(name)).into_owned();
        translated(&mut self.spans, name, vocabulary, StateKind::Span, label)
    }

    /// The state of a thread that serves the call with this name.
    #[inline]
    pub fn service(&mut self, name: NameId, vocabulary: &mut Vocabulary) -> NameId {
        let label = |names: &Names| state_label(names.text(name)).into_owned();
        translated(&mut self.services, name, vocabulary, StateKind::Call, label)
    }

    /// The state of a thread that is blocked for this reason.
    pub fn block(&mut self, why: BlockReason, linux: &Linux, vocabulary: &mut Vocabulary) -> NameId {
        let name = || vocabulary.names.intern_as(&linux.reason_text(why), NameKind::State(StateKind::Waits));
        *self.blocks.entry(why).or_insert_with(name)
    }
}

/// The name of this kind that corresponds to `name`: the known one, or one with the given text.
#[inline]
fn translated(
    known: &mut Vec<Option<NameId>>,
    name: NameId,
    into: &mut Vocabulary,
    kind: StateKind,
    text: impl Fn(&Names) -> String,
) -> NameId {
    let at = name.0 as usize;
    if let Some(Some(known)) = known.get(at) {
        return *known;
    }
    if known.len() <= at {
        known.resize(at + 1, None);
    }
    let text = text(&into.names);
    *known[at].insert(into.names.intern_as(&text, NameKind::State(kind)))
}
