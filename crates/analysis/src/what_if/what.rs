//! Operations of machines in a replay, and what each of them needs before it can run.

use super::batch::Paid;
use super::cpus::LeftCpu;
use super::life::Mark;
use super::line::Waits;
use longpole_model::interaction::{MachineId, QueueId};
use longpole_model::names::NameId;

/// An operation. It lasts until `t` in the trace; the machine knows when it began.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub t: u64,
    pub what: What,
}

/// The kinds of operations. A slot holds the times of another machine, or will hold this one's.
#[derive(Clone, Copy, Debug)]
pub enum What {
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
        passed: Option<Passed>,
    },
    /// The machine continues when the slot's times have come, too. `paid` is the call that the
    /// delay belongs to.
    Meet {
        slot: u32,
        ns: f64,
        key: u32,
        how: How,
        paid: Option<Paid>,
    },
    /// A context also takes this. If it arrives before the context's first cause, the context
    /// begins for it.
    Ahead {
        slot: u32,
        ns: f64,
        key: u32,
    },
    /// Like `Meet`, for a lock.
    Lock {
        queue: QueueId,
        slot: u32,
        ns: f64,
        key: u32,
        how: How,
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
    /// The machine gets a CPU: the one that was left as `left`, or one that was not in use. `off`
    /// is the CPU that it was put off before.
    Start {
        left: Option<LeftCpu>,
        off: Option<LeftCpu>,
        ns: f64,
        key: u32,
        host: Option<NameId>,
    },
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
        how: How,
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

/// When a delay starts to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// From the put: the link needs this time to deliver what is taken.
    Carried,
    /// From the arrival: the machine took this time to notice it.
    Reaction,
    /// After both have come: the item was there already, and why the wait continued is unknown.
    After,
}

/// A token that was taken, and the link on which it came.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    pub slot: u32,
    pub ns: f64,
    pub key: u32,
}

impl What {
    /// The operation lasts until its position in the trace. All others take no time.
    pub fn takes_time(&self) -> bool {
        !matches!(
            self,
            What::Publish { .. }
                | What::Leave { .. }
                | What::Unlock { .. }
                | What::PublishWork { .. }
                | What::LeaveCpu { .. }
                | What::Records(_)
                | What::Wakes
                | What::RoomBegin { .. }
                | What::Got { .. }
                | What::Work
                | What::Rebase
                | What::Anew
                | What::Began
                | What::Ahead { .. }
                | What::Remember
                | What::Mark(_)
                | What::Less { .. }
                | What::Serves { .. }
                | What::Served
                | What::Done
                | What::Asks { .. }
                | What::HasRoom { .. }
                | What::End
        )
    }

    /// The slots that the operation reads or fills.
    pub fn slots(&self) -> [Option<u32>; 5] {
        let first = match *self {
            What::Publish { slot, .. }
            | What::Unlock { slot, .. }
            | What::Meet { slot, .. }
            | What::Ahead { slot, .. }
            | What::Lock { slot, .. }
            | What::PublishWork { slot }
            | What::Serves { slot, .. }
            | What::Interrupted { slot, .. } => Some(slot),
            What::Leave { slot, passed } => return [Some(slot), passed.map(|passed| passed.slot), None, None, None],
            What::LeaveCpu { left } => return [Some(left.slot), Some(left.came), Some(left.stay), Some(left.busy), None],
            What::Start { left, off, .. } => {
                let (left, off) = (left.map(|left| [left.slot, left.came, left.busy]), off.map(|off| [off.stay, off.busy]));
                let of_left = |at: usize| left.map(|left| left[at]);
                return [of_left(0), of_left(1), of_left(2), off.map(|off| off[0]), off.map(|off| off[1])];
            }
            What::Arrive { below, .. } => below,
            _ => None,
        };
        [first, None, None, None, None]
    }
}
