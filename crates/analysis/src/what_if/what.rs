//! The operations that machines are told of, and what they need.

use super::batch::Paid;
use super::cpus::Left;
use super::life::Mark;
use super::line::Waits;
use longpole_model::interaction::{MachineId, QueueId};
use longpole_model::names::NameId;

/// An operation that lasts until `t` in the trace; since when, its machine knows.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub t: u64,
    pub what: What,
}

#[derive(Clone, Copy, Debug)]
pub enum What {
    /// Time of its own.
    Own {
        key: u32,
        /// It belongs to a call.
        paid: Option<Paid>,
    },
    /// A wait of which no cause is known.
    Keep {
        key: u32,
    },
    /// It begins anew; nothing of what it was counts.
    Fresh,
    /// What it knows at a moment of the trace, for whoever takes it up.
    Publish {
        slot: u32,
        at: u64,
    },
    /// As `Publish`, by one that keeps times of its own and holds up nobody: what it passes on comes when it had come to it.
    Leave {
        slot: u32,
        passed: Option<Passed>,
    },
    /// It goes on when this has come, too; the delay may belong to a call.
    Meet {
        slot: u32,
        ns: f64,
        key: u32,
        how: How,
        paid: Option<Paid>,
    },
    /// A context takes this, too: if that has come before what the context began for, the context begins for it.
    Ahead {
        slot: u32,
        ns: f64,
        key: u32,
    },
    /// As `Meet`, for a lock.
    Lock {
        queue: QueueId,
        slot: u32,
        ns: f64,
        key: u32,
        how: How,
    },
    /// It has a lock that was free from the begin.
    Got {
        queue: QueueId,
    },
    /// As `Publish`, for a lock.
    Unlock {
        queue: QueueId,
        slot: u32,
    },
    /// It gets a CPU: the one that was left with this, or one that nobody had. It may have been put off one before.
    Start {
        left: Option<Left>,
        off: Option<Left>,
        ns: f64,
        key: u32,
        host: Option<NameId>,
    },
    /// A context begins, whose cause may still come.
    Arrive {
        below: Option<u32>,
        key: u32,
        may_come: bool,
    },
    /// A context begins, whose cause is known.
    Work,
    /// The cause of a context has come after all.
    Rebase,
    /// What it meets next may come before what it did last, and is then not held up by that.
    Anew,
    /// It has met what it waited for.
    Began,
    /// Somebody may come back to this moment.
    Remember,
    /// What it does from here on may belong to a call.
    Mark(Mark),
    /// All that it did since then belongs to this call.
    Less {
        since: Mark,
        paid: Paid,
        key: u32,
    },
    /// What it did itself since it began.
    PublishWork {
        slot: u32,
    },
    /// It leaves its CPU.
    LeaveCpu {
        left: Left,
    },
    /// From here on it records, or no longer.
    Records(bool),
    /// What it sleeps for is met next.
    Wakes,
    /// A context on top of it has ended, which did so much.
    Interrupted {
        slot: u32,
        key: u32,
    },
    /// The next meetings are about room in this queue, in those worlds where it is as observed.
    RoomBegin {
        queue: QueueId,
    },
    /// In the others, the unit of this number is needed.
    RoomEnd {
        queue: QueueId,
        unit: u64,
        ns: f64,
        key: u32,
        how: How,
    },
    /// It serves whoever put this, and may wait for it, until `Served`.
    Serves {
        slot: u32,
        by: MachineId,
        waits: Waits,
        /// The queue, and the how many-eth put, if whoever put it may have asked for room.
        put: Option<(QueueId, u64)>,
    },
    Served,
    /// What it took last is done, with all that it waited for meanwhile.
    Done,
    /// It asks for room in a queue that several fill, and has it: in the order of the trace, or as soon as one is taken by this machine who came before it.
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

/// How a delay counts after what was waited for has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// What is taken needs it to get there.
    Carried,
    /// So long the machine took to notice.
    Reaction,
    /// It had been there already; why the wait went on is not known.
    After,
}

/// What was taken, and the link on which it came.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    pub slot: u32,
    pub ns: f64,
    pub key: u32,
}

impl What {
    /// It lasts until where it comes in the trace; all else is done in no time.
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

    /// The slots that it reads or fills.
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
