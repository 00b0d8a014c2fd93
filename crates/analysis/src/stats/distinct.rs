//! A bound for names: what is measured per name must not grow with a program that makes a name for each of its items.
//!
//! The first names of a trace are always kept; of the later ones each thread may have as many spans and states of its own, and the whole
//! system as many calls, signals, objects and queues. All others are gathered under one name, and how often that happened is counted.

use longpole_model::hash::IdMap;
use longpole_model::interaction::QueueId;
use longpole_model::names::NameId;
use longpole_model::step::{Op, Step};
use longpole_model::system::actors::ActorId;
use longpole_model::system::{OTHER_NAME, OTHER_QUEUE};

pub use longpole_model::names::OTHER_NAMES;

pub const MOST_NAMES: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Distinct {
    names: Firsts,
    queues: Firsts,
    known: IdMap<Key, ()>,
    counts: IdMap<(u32, u8), usize>,
    /// Events whose name was left out.
    pub gathered: u64,
}

/// Thread (or all), kind, name.
type Key = (u32, u8, u32);

/// In place of a thread where a name belongs to all of them.
const ALL: u32 = u32::MAX;
const SPAN: u8 = 0;
const STATE: u8 = 1;
const CALL: u8 = 2;
const SIGNAL: u8 = 3;
const OBJECT: u8 = 4;
const DECLARED: u8 = 5;

/// Which numbers were among the first that occurred.
#[derive(Debug, Default)]
struct Firsts {
    /// By number; none: it has not occurred.
    is_first: Vec<Option<bool>>,
    count: usize,
}

impl Firsts {
    #[inline]
    fn has(&mut self, number: u32) -> bool {
        match self.is_first.get(number as usize) {
            Some(&Some(is_first)) => is_first,
            _ => self.occurs(number),
        }
    }

    #[cold]
    fn occurs(&mut self, number: u32) -> bool {
        let at = number as usize;
        if self.is_first.len() <= at {
            self.is_first.resize(at + 1, None);
        }
        let is_first = self.count < MOST_NAMES;
        self.count += usize::from(is_first);
        self.is_first[at] = Some(is_first);
        is_first
    }
}

impl Distinct {
    /// The step, with a name that is one too many replaced.
    #[inline]
    pub fn bound(&mut self, mut step: Step) -> Step {
        let ActorId(thread) = step.actor;
        let before = self.gathered;
        match &mut step.op {
            Op::Begin { name } | Op::End { name } => self.name(thread, SPAN, name),
            Op::Mark { name, .. } | Op::Counter { name, .. } => self.name(ALL, OBJECT, name),
            Op::Call { name, .. } | Op::Returned { name, .. } | Op::Dispatch { name, .. } | Op::Reply { name, .. } => {
                self.name(ALL, CALL, name);
            }
            Op::Submit { context, .. } | Op::Receive { context, .. } => self.name(ALL, SIGNAL, context),
            Op::State { machine, state } => {
                self.name(ALL, DECLARED, machine);
                self.name(thread, STATE, state);
            }
            Op::Put { queue, .. }
            | Op::Get { queue, .. }
            | Op::Peek { queue, .. }
            | Op::Reserve { queue, .. }
            | Op::WaitEmpty { queue }
            | Op::WaitFull { queue }
            | Op::Size { queue, .. } => self.queue(queue),
            Op::Block { why } => self.name(thread, STATE, why),
            Op::Wait | Op::Flow { .. } | Op::Wake { .. } | Op::Other => {}
        }
        self.gathered = self.gathered.min(before + 1);
        step
    }

    #[inline]
    fn name(&mut self, thread: u32, kind: u8, name: &mut NameId) {
        if !self.names.has(name.0) {
            self.later_name(thread, kind, name);
        }
    }

    #[cold]
    fn later_name(&mut self, thread: u32, kind: u8, name: &mut NameId) {
        if self.known.contains_key(&(thread, kind, name.0)) {
            return;
        }
        let count = self.counts.entry((thread, kind)).or_default();
        if *count < MOST_NAMES {
            *count += 1;
            self.known.insert((thread, kind, name.0), ());
        } else if *name != OTHER_NAME {
            *name = OTHER_NAME;
            self.gathered += 1;
        }
    }

    #[inline]
    fn queue(&mut self, queue: &mut QueueId) {
        if !self.queues.has(queue.0) && *queue != OTHER_QUEUE {
            *queue = OTHER_QUEUE;
            self.gathered += 1;
        }
    }
}
