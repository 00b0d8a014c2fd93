//! A bound for names: what is measured per name must not grow with a program that makes a name for each of its items.
//!
//! The first names of a trace are always kept; of the later ones each thread may have as many spans and states of its own, and the whole
//! system as many calls, signals, objects and queues. All others are gathered under one name, and how often that happened is counted.

use longpole_model::hash::IdMap;
use longpole_model::names::{NameId, Names};
use longpole_model::step::{MachineId, Op, QueueId, Step};
use longpole_model::system::{Queue, System};

pub use longpole_model::names::OTHER_NAMES;

pub const MOST_NAMES: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Distinct {
    known: IdMap<Key, ()>,
    counts: IdMap<(u32, u8), usize>,
    others: Option<NameId>,
    other_queue: Option<QueueId>,
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

impl Distinct {
    /// The step, with a name that is one too many replaced.
    #[inline]
    pub fn bound(&mut self, step: Step, system: &mut System) -> Step {
        let largest = match step.op {
            Op::Begin { name: NameId(id) }
            | Op::End { name: NameId(id) }
            | Op::Mark { name: NameId(id), .. }
            | Op::Counter { name: NameId(id), .. }
            | Op::Call { name: NameId(id), .. }
            | Op::Returned { name: NameId(id), .. }
            | Op::Dispatch { name: NameId(id), .. }
            | Op::Reply { name: NameId(id), .. }
            | Op::Submit { context: NameId(id), .. }
            | Op::Receive { context: NameId(id), .. } => id,
            Op::State { machine, state } => machine.0.max(state.0),
            Op::Put { queue: QueueId(id), .. }
            | Op::Get { queue: QueueId(id), .. }
            | Op::Peek { queue: QueueId(id), .. }
            | Op::Reserve { queue: QueueId(id), .. }
            | Op::WaitEmpty { queue: QueueId(id) }
            | Op::WaitFull { queue: QueueId(id) }
            | Op::Size { queue: QueueId(id), .. } => id,
            Op::Block { why: NameId(id) } => id,
            Op::Wait | Op::Flow { .. } | Op::Wake { .. } | Op::Other => 0,
        };
        if (largest as usize) < MOST_NAMES {
            return step;
        }
        self.replace(step, system)
    }

    fn replace(&mut self, mut step: Step, system: &mut System) -> Step {
        let MachineId(thread) = step.machine;
        let before = step.op;
        match &mut step.op {
            Op::Begin { name } | Op::End { name } => *name = self.name(thread, SPAN, *name, &mut system.names),
            Op::Mark { name, .. } | Op::Counter { name, .. } => *name = self.name(ALL, OBJECT, *name, &mut system.names),
            Op::Call { name, .. } | Op::Returned { name, .. } | Op::Dispatch { name, .. } | Op::Reply { name, .. } => {
                *name = self.name(ALL, CALL, *name, &mut system.names);
            }
            Op::Submit { context, .. } | Op::Receive { context, .. } => *context = self.name(ALL, SIGNAL, *context, &mut system.names),
            Op::State { machine, state } => {
                *machine = self.name(ALL, DECLARED, *machine, &mut system.names);
                *state = self.name(thread, STATE, *state, &mut system.names);
            }
            Op::Put { queue, .. }
            | Op::Get { queue, .. }
            | Op::Peek { queue, .. }
            | Op::Reserve { queue, .. }
            | Op::WaitEmpty { queue }
            | Op::WaitFull { queue }
            | Op::Size { queue, .. } => *queue = self.queue(*queue, system),
            Op::Block { why } => *why = self.name(thread, STATE, *why, &mut system.names),
            Op::Wait | Op::Flow { .. } | Op::Wake { .. } | Op::Other => {}
        }
        self.gathered += u64::from(step.op != before);
        step
    }

    fn name(&mut self, thread: u32, kind: u8, name: NameId, names: &mut Names) -> NameId {
        if (name.0 as usize) < MOST_NAMES || self.known.contains_key(&(thread, kind, name.0)) {
            return name;
        }
        let count = self.counts.entry((thread, kind)).or_default();
        if *count < MOST_NAMES {
            *count += 1;
            self.known.insert((thread, kind, name.0), ());
            return name;
        }
        *self.others.get_or_insert_with(|| names.intern(OTHER_NAMES))
    }

    fn queue(&mut self, queue: QueueId, system: &mut System) -> QueueId {
        if (queue.0 as usize) < MOST_NAMES || self.other_queue == Some(queue) {
            return queue;
        }
        *self.other_queue.get_or_insert_with(|| {
            let name = system.names.intern(OTHER_NAMES);
            system.queues.push(Queue { name, capacity: None, lifo: false, bytes: false });
            QueueId(system.queues.len() as u32 - 1)
        })
    }
}
