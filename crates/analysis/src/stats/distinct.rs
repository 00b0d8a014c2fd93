//! A bound on the number of names. Memory per name must not grow without limit if a program makes a
//! new name for each of its items.
//!
//! The first names of a trace are always accepted. Of the later ones, each thread may have the same
//! number of spans and of states of its own, and the whole system the same number of calls,
//! signals, objects and queues. All others are replaced by one common name, and the replacements
//! are counted.

use longpole_model::actors::ActorId;
use longpole_model::hash::IdMap;
use longpole_model::interaction::QueueId;
use longpole_model::names::NameId;
use longpole_model::step::{Op, Step};
use longpole_model::system::{OTHER_NAME, OTHER_QUEUE};

pub use longpole_model::names::OTHER_NAMES;

/// Largest number of names of one kind, for each thread or for the whole system.
pub const MAX_NAMES: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Distinct {
    names: Firsts,
    queues: Firsts,
    known: IdMap<Key, ()>,
    counts: IdMap<(u32, u8), usize>,
    /// Number of events whose name was replaced.
    pub gathered: u64,
}

/// Thread (or [`ALL`]), kind, name.
type Key = (u32, u8, u32);

/// Placeholder for the thread of names that are common to all threads.
const ALL: u32 = u32::MAX;
const SPAN: u8 = 0;
const STATE: u8 = 1;
const CALL: u8 = 2;
const SIGNAL: u8 = 3;
const OBJECT: u8 = 4;
const DECLARED: u8 = 5;

/// The numbers that were among the first ones to occur.
#[derive(Debug, Default)]
struct Firsts {
    /// For each number, true if it was among the first; `None` if it has not occurred.
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
        let is_first = self.count < MAX_NAMES;
        self.count += usize::from(is_first);
        self.is_first[at] = Some(is_first);
        is_first
    }
}

impl Distinct {
    /// Returns the step, with a name beyond the bound replaced.
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
        if *count < MAX_NAMES {
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
