//! Operations: what a machine does in a replay, and what each operation needs before it can run.
//!
//! The translation turns an interaction of the trace into operations; the replay runs them in all
//! worlds. An operation names slots, queues and machines, never times, so it means the same in
//! every world.
//!
//! Example: a get for which the machine had to wait becomes `Meet` with the slot of the put, and
//! `Began`.

use super::service::arrival_order::Waits;
use longpole_model::interaction::{MachineId, QueueId};
use longpole_model::names::NameId;

/// Time that belongs to a call: the calling machine and the number of items of the call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paid {
    pub by: MachineId,
    pub items: f64,
    /// The state that is the call, if one was named.
    pub state: Option<NameId>,
}

/// A moment from which a machine's work may belong to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Woken,
    Called,
    Entered,
    Signalled,
}

/// A CPU that a machine has left: slots with the times of that machine then, and when it had got
/// the CPU.
#[derive(Clone, Copy, Debug)]
pub struct LeftCpu {
    pub slot: u32,
    pub came: u32,
    /// Slot with the time that the machine worked there.
    pub stay: u32,
    /// Slot with the time that the CPU has been in use since it is known.
    pub busy: u32,
    /// Number of the CPU's chain: the CPU itself has no known number.
    pub chain: u32,
    pub why: Leaving,
    /// The machine that left it.
    pub by: MachineId,
    pub by_recorder: bool,
    /// The recorder took the CPU next.
    pub to_recorder: bool,
}

impl LeftCpu {
    pub fn slots(&self) -> [u32; 4] {
        [self.slot, self.came, self.stay, self.busy]
    }
}

/// The reason why a machine leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The machine has nothing more to do.
    Done,
    /// The machine continues later.
    PutOff,
    /// The kernel gave the CPU to another machine.
    Taken,
}

/// The machine gets a CPU: the one that was left as `left`, or one that was not in use.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub left: Option<LeftCpu>,
    /// The CPU that the machine was put off before.
    pub off: Option<LeftCpu>,
    /// Delay of the start after both the machine and the CPU were ready, and the key of the wait.
    pub ns: f64,
    pub key: u32,
    pub host: Option<NameId>,
}

/// A token that a machine meets: the slot with the times at which it was made, the delay of its
/// link in the trace, and the link's key.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub slot: u32,
    pub ns: f64,
    pub key: u32,
}

/// When a delay starts to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayKind {
    /// From the put: the link needs this time to deliver what is taken.
    Carried,
    /// From the arrival: the machine took this time to notice it.
    Reaction,
    /// After both have come: the item was there already, and why the wait continued is unknown.
    After,
}

/// The kinds of operations. A slot holds the times of another machine, or will hold this one's.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// The machine's own time, in the state `key`.
    Own {
        key: u32,
        /// The call that the time belongs to.
        paid: Option<Paid>,
    },
    /// A wait whose cause is unknown.
    Keep {
        key: u32,
    },
    /// The machine begins anew; its previous time does not count.
    Fresh,
    /// Stores the machine's times at the moment `at` of the trace in the slot, for a later
    /// receiver.
    Publish {
        slot: u32,
        at: u64,
    },
    /// Like `Publish`, by a machine that acts at times of its own and delays no receiver. What it
    /// passes on arrives when the machine received it itself.
    Leave {
        slot: u32,
        passed: Option<Arrival>,
    },
    /// The machine continues when the slot's times have come, too. `paid` is the call that the
    /// delay belongs to.
    Meet {
        arrival: Arrival,
        delay: DelayKind,
        paid: Option<Paid>,
    },
    /// A context also takes this. If it arrives before the context's first cause, the context
    /// begins for it.
    Ahead {
        arrival: Arrival,
    },
    /// Like `Meet`, for a lock.
    Lock {
        queue: QueueId,
        arrival: Arrival,
        delay: DelayKind,
    },
    /// The machine has a lock that was free from the start.
    Got {
        queue: QueueId,
    },
    /// Like `Publish`, for a lock.
    Unlock {
        queue: QueueId,
        slot: u32,
    },
    Start(Start),
    /// A context begins; its cause may still follow.
    Arrive {
        below: Option<u32>,
        key: u32,
        may_come: bool,
    },
    /// A context begins; its cause is known.
    Work,
    /// The cause of a context has followed after all.
    Rebase,
    /// What the machine meets next may come before its last work began, and that work does not
    /// delay it.
    Anew,
    /// The machine has met what it waited for.
    Began,
    /// A later cause may name this moment.
    Remember,
    /// The machine's work from here on may belong to a call.
    Mark(Mark),
    /// All work since that mark belongs to this call.
    Less {
        since: Mark,
        paid: Paid,
        key: u32,
    },
    /// The work of a context since it began is stored in the slot.
    PublishWork {
        slot: u32,
    },
    /// The machine leaves its CPU.
    LeaveCpu {
        left: LeftCpu,
    },
    /// The machine is the recorder from here on, or no longer is.
    Records(bool),
    /// The machine meets next what it was asleep for.
    Wakes,
    /// A context on top of the machine has ended; the slot has its work.
    Interrupted {
        slot: u32,
        key: u32,
    },
    /// The next meetings are about room in this queue, in the worlds where the queue is as
    /// observed.
    RoomBegin {
        queue: QueueId,
    },
    /// In the other worlds, the unit with this number is needed.
    RoomEnd {
        queue: QueueId,
        unit: u64,
        ns: f64,
        key: u32,
        delay: DelayKind,
    },
    /// The machine serves the machine that put this, which may wait for it, until `Served`.
    Serves {
        slot: u32,
        by: MachineId,
        waits: Waits,
        /// The queue and the number of the put, if the putting machine may have asked for room.
        put: Option<(QueueId, u64)>,
    },
    Served,
    /// The work on the last token is done, with all that the machine waited for meanwhile.
    Done,
    /// The machine asks for room in a queue that several machines fill, and gets it: in the order
    /// of the trace, or as soon as `taker` takes from a machine that came earlier.
    Asks {
        queue: QueueId,
    },
    HasRoom {
        queue: QueueId,
        taker: MachineId,
        put: u64,
        taken: u64,
    },
    End,
}

impl Operation {
    /// The operation lasts until its position in the trace. All others take no time.
    pub fn takes_time(&self) -> bool {
        !matches!(
            self,
            Operation::Publish { .. }
                | Operation::Leave { .. }
                | Operation::Unlock { .. }
                | Operation::PublishWork { .. }
                | Operation::LeaveCpu { .. }
                | Operation::Records(_)
                | Operation::Wakes
                | Operation::RoomBegin { .. }
                | Operation::Got { .. }
                | Operation::Work
                | Operation::Rebase
                | Operation::Anew
                | Operation::Began
                | Operation::Ahead { .. }
                | Operation::Remember
                | Operation::Mark(_)
                | Operation::Less { .. }
                | Operation::Serves { .. }
                | Operation::Served
                | Operation::Done
                | Operation::Asks { .. }
                | Operation::HasRoom { .. }
                | Operation::End
        )
    }

    /// The slots that the operation reads or fills.
    pub fn slots(&self) -> [Option<u32>; 5] {
        let first = match *self {
            Operation::Publish { slot, .. }
            | Operation::Unlock { slot, .. }
            | Operation::Meet { arrival: Arrival { slot, .. }, .. }
            | Operation::Ahead { arrival: Arrival { slot, .. } }
            | Operation::Lock { arrival: Arrival { slot, .. }, .. }
            | Operation::PublishWork { slot }
            | Operation::Serves { slot, .. }
            | Operation::Interrupted { slot, .. } => Some(slot),
            Operation::Leave { slot, passed } => return [Some(slot), passed.map(|passed| passed.slot), None, None, None],
            Operation::LeaveCpu { left } => return [Some(left.slot), Some(left.came), Some(left.stay), Some(left.busy), None],
            Operation::Start(Start { left, off, .. }) => {
                let (left, off) = (left.map(|left| [left.slot, left.came, left.busy]), off.map(|off| [off.stay, off.busy]));
                let of_left = |at: usize| left.map(|left| left[at]);
                return [of_left(0), of_left(1), of_left(2), off.map(|off| off[0]), off.map(|off| off[1])];
            }
            Operation::Arrive { below, .. } => below,
            _ => None,
        };
        [first, None, None, None, None]
    }
}
