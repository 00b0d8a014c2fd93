//! The state of one machine during the pass: its current state, the tip of its path, its recent
//! past.

use crate::critical_path::keys::key::State;
use crate::critical_path::storage::tree::NodeId;
use longpole_model::interaction::MachineId;
use longpole_model::names::NameId;
use std::collections::VecDeque;

/// The newest end of a path: a hold on a node of the tree, and an index into the log of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    pub node: NodeId,
    pub segment: u32,
}

/// Everything that the pass knows of one machine.
#[derive(Clone, Debug)]
pub struct PathMachine {
    /// The end of the machine's path. `None` before its first interaction, and after the machine
    /// was forgotten.
    pub tip: Option<Tip>,
    /// True between the machine's first interaction and its stop.
    pub exists: bool,
    /// The machine has had an interaction of its own.
    pub has_acted: bool,
    pub class: Option<NameId>,
    /// State when the machine is neither blocked nor interrupted.
    pub state: State,
    pub block: Option<Block>,
    /// Number of contexts on top of this machine.
    pub contexts_above: u32,
    pub context: Option<Context>,
    /// The machine has been a context at least once.
    pub has_been_context: bool,
    /// Number of times that the machine has stopped.
    pub stops: u32,
    /// End of the time that is already charged, in ns.
    pub charged_until: u64,
    /// Key of the time after that.
    pub key: u32,
    pub past: Past,
    /// Time of the last successful get in ns.
    pub last_get: Option<u64>,
    /// End of the latest loss of events whose time was taken back from the totals, in ns.
    pub lost_until: u64,
}

/// A block that has not ended.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub why: NameId,
    pub start: u64,
    /// The machine's last segment when the block began.
    pub segment: u32,
}

/// Properties of a machine that runs on top of another one, or on an idle CPU (an interrupt).
#[derive(Clone, Copy, Debug)]
pub struct Context {
    pub below: Option<MachineId>,
    /// The path already has a cause, or is known to have none.
    pub caused: bool,
}

impl Default for PathMachine {
    fn default() -> PathMachine {
        PathMachine {
            tip: None,
            exists: false,
            has_acted: false,
            class: None,
            state: State::Run,
            block: None,
            contexts_above: 0,
            context: None,
            has_been_context: false,
            stops: 0,
            charged_until: 0,
            key: 0,
            past: Past::default(),
            last_get: None,
            lost_until: 0,
        }
    }
}

impl PathMachine {
    /// Returns the state to which the machine's time belongs now.
    pub fn current_state(&self) -> State {
        match self.block {
            _ if !self.exists => State::Unknown,
            _ if self.contexts_above > 0 => State::Interrupted,
            Some(block) => State::Blocked(block.why),
            None => self.state,
        }
    }
}

/// The recent past of a machine. It is needed because a cause may have happened before the
/// interaction that names it. Entries beyond the bound are forgotten, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// Start and key of the machine's own spans of time; each lasts until the next one.
    pub spans: VecDeque<(u64, u32)>,
    /// Times at which the machine's path was replaced, each with the tip until then. The tip is
    /// `None` if there was no path.
    pub jumps: VecDeque<(u64, Option<Tip>)>,
    /// Moments to remember (`Effect::Remember`, and `Effect::Here`), each with the machine's tip
    /// then. They answer causes at these moments however much the machine does afterwards.
    pub marks: VecDeque<(u64, Tip)>,
    /// Time of the first interaction, in ns. A later moment that is not known has been forgotten.
    pub born: Option<u64>,
}

impl Past {
    /// Adds a span of the machine's own time, unless the last span has the same key.
    pub fn span(&mut self, start: u64, key: u32, most: usize) {
        if self.spans.back().is_some_and(|last| last.1 == key) {
            return;
        }
        if self.spans.len() >= most {
            self.spans.pop_front();
        }
        self.spans.push_back((start, key));
    }

    /// Returns the oldest tip if it was dropped to make space.
    pub fn jump(&mut self, t: u64, before: Option<Tip>, most: usize) -> Option<Tip> {
        self.born.get_or_insert(t);
        self.jumps.push_back((t, before));
        if self.jumps.len() > most {
            return self.jumps.pop_front().and_then(|oldest| oldest.1);
        }
        None
    }

    /// Returns the oldest tip if it was dropped to make space.
    pub fn mark(&mut self, t: u64, tip: Tip, most: usize) -> Option<Tip> {
        let forgotten = if self.marks.len() >= most { self.marks.pop_front() } else { None };
        self.marks.push_back((t, tip));
        forgotten.map(|mark| mark.1)
    }

    /// Removes the mark made at this moment, and returns its tip.
    pub fn unmark(&mut self, t: u64) -> Option<Tip> {
        let marked = self.marks.back().is_some_and(|last| last.0 == t);
        marked.then(|| self.marks.pop_back()).flatten().map(|mark| mark.1)
    }

    /// Returns the tip of a marked moment.
    pub fn marked(&self, at: u64) -> Option<Tip> {
        let found = self.marks.binary_search_by_key(&at, |mark| mark.0).ok()?;
        Some(self.marks[found].1)
    }

    /// All tips that hold a path.
    pub fn tips(&mut self) -> impl Iterator<Item = &mut Tip> {
        let jumps = self.jumps.iter_mut().filter_map(|jump| jump.1.as_mut());
        jumps.chain(self.marks.iter_mut().map(|mark| &mut mark.1))
    }

    /// Returns the tip of the path that the machine had at `at`, `None` for the current path, and
    /// the time until which that path grew.
    pub fn path_at(&self, at: u64, now: u64) -> Option<(Option<Tip>, u64)> {
        let later = self.jumps.partition_point(|jump| jump.0 <= at);
        // Nothing is known before the first remembered jump.
        if later == 0 {
            return None;
        }
        match self.jumps.get(later) {
            None => Some((None, now)),
            Some((until, tip)) => tip.map(|tip| (Some(tip), *until)),
        }
    }

    /// Returns true if the machine's own time from `at` on is remembered.
    pub fn remembers(&self, at: u64) -> bool {
        self.spans.front().is_some_and(|first| first.0 <= at)
    }

    /// Returns the machine's own time from `at` to `end` as (key, from, to), newest first.
    pub fn charges(&self, at: u64, end: u64) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        let mut until = end;
        let spans = self.spans.iter().rev().map(move |&(start, key)| {
            let to = until;
            until = until.min(start);
            (key, start, to)
        });
        spans.take_while(move |&(_, _, to)| to > at)
    }
}
