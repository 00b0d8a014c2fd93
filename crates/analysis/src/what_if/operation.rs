//! Operations: what a machine does in a replay, and what each operation needs before it can run.
//!
//! The translation turns an interaction of the trace into operations; the replay runs them in all
//! worlds. An operation names slots, queues and machines, never times, so it means the same in
//! every world.
//!
//! Example: a get for which the machine had to wait becomes `Meet` with the slot of the put, and
//! `BeginWork`.

use super::service::arrival_order::Waits;
use longpole_model::interaction::{MachineId, QueueId};
use longpole_model::names::NameId;

/// The call to which a piece of time belongs: the calling machine and the number of items of the
/// call. In worlds with fewer calls, only a part of that time is paid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaidCall {
    pub by: MachineId,
    pub items: f64,
    /// The state that is the call, if one was named.
    pub state: Option<NameId>,
}

/// A moment from which a machine's work may belong to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMark {
    Woken,
    Called,
    Entered,
    Signalled,
}

/// A CPU that a machine has left. The slots have times in every world.
#[derive(Clone, Copy, Debug)]
pub struct LeftCpu {
    /// Slot with the time at which the machine left the CPU.
    pub slot: u32,
    /// Slot with the time at which the machine had got the CPU.
    pub got_at: u32,
    /// Slot with the time that the machine worked there.
    pub stay: u32,
    /// Slot with the time that the CPU has been in use since it is known.
    pub busy: u32,
    /// Number of the sequence of machines that had this CPU one after the other. It identifies the
    /// CPU, whose own number is not in the trace.
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
        [self.slot, self.got_at, self.stay, self.busy]
    }
}

/// The reason why a machine leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The machine has nothing more to do: it waits, sleeps or ends.
    Done,
    /// The machine could continue, and waits for a CPU from now on.
    StillRunnable,
    /// Like `StillRunnable`, because the kernel gave the CPU to another machine.
    Preempted,
}

/// The machine gets a CPU: the one that was left as `left`, or one that was not in use.
#[derive(Clone, Copy, Debug)]
pub struct CpuStart {
    pub left: Option<LeftCpu>,
    /// The CPU that the machine left before, although it could have continued.
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
    /// At the put: the link needs this time to deliver what is taken.
    Carried,
    /// At the arrival: the machine took this time to notice it.
    Reaction,
    /// When both are there: the item was there already, and why the wait continued is unknown.
    AfterBoth,
}

/// The kinds of operations. A slot holds the times of another machine, or will hold this one's.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// The machine's own time, in the state `key`.
    OwnTime {
        key: u32,
        /// The call that the time belongs to.
        paid: Option<PaidCall>,
    },
    /// A wait whose cause is unknown.
    UnexplainedWait { key: u32 },
    /// The machine begins a new life: its times start at 0, so its previous life delays nothing.
    Reset,
    /// Stores the machine's times at the moment `at` of the trace in the slot, for a later
    /// receiver.
    Publish { slot: u32, at: u64 },
    /// Like `Publish`, by a machine that acts at times of its own and delays no receiver. What it
    /// passes on arrives when the machine received it itself.
    PublishPassed { slot: u32, passed: Option<Arrival> },
    /// The machine continues when the slot's times have come, too. `paid` is the call that the
    /// delay belongs to.
    Meet { arrival: Arrival, delay: DelayKind, paid: Option<PaidCall> },
    /// The context takes this in addition to its cause. In worlds where it arrives before the
    /// cause, the context begins for it, and therefore earlier.
    BeginEarlier { arrival: Arrival },
    /// Like `Meet`, for a lock that another machine returned.
    TakeLock { queue: QueueId, arrival: Arrival, delay: DelayKind },
    /// The machine takes a lock that no machine has had before.
    TakeFreeLock { queue: QueueId },
    /// The machine returns a lock; like `Publish` otherwise.
    Unlock { queue: QueueId, slot: u32 },
    /// The machine gets a CPU.
    StartOnCpu(CpuStart),
    /// A context begins without a known cause, on top of the machine whose times are in the slot
    /// `below`, or on an idle CPU.
    BeginContext { below: Option<u32>, key: u32, cause_may_follow: bool },
    /// A context begins; a `Meet` with its cause follows directly.
    BeginCausedContext,
    /// The cause of a context that began without one has become known; a `Meet` with it follows.
    /// The context's times are set back to those before it began.
    CauseFollows,
    /// The machine's last work does not delay the next meeting: in worlds where that comes before
    /// the work began, the machine is set back to it.
    AllowSetBack,
    /// The machine has met what it waited for; its work begins.
    BeginWork,
    /// A later cause may name this moment, so the machine's times are remembered.
    RememberMoment,
    /// The machine's work from here on may belong to a call.
    MarkCall(CallMark),
    /// All work since that mark belongs to this call, and is reduced in worlds with fewer calls.
    ReduceSince { since: CallMark, paid: PaidCall, key: u32 },
    /// The work of a context since it began is stored in the slot.
    PublishContextWork { slot: u32 },
    /// The machine leaves its CPU.
    LeaveCpu { left: LeftCpu },
    /// The machine is the recorder from here on, or no longer is.
    SetRecorder(bool),
    /// The machine meets next what it slept for.
    WakeUp,
    /// A context on top of the machine has ended; the slot has its work.
    AddInterruption { slot: u32, key: u32 },
    /// The meetings from here to `RoomEnd` are about room in this queue. They hold in the worlds
    /// that do not change its capacity.
    RoomBegin { queue: QueueId },
    /// In the other worlds, the machine meets the get that frees the unit with this number.
    RoomEnd { queue: QueueId, unit: u64, ns: f64, key: u32, delay: DelayKind },
    /// The machine serves the machine `by`, which put this and may wait for it, until `EndService`.
    BeginService {
        slot: u32,
        by: MachineId,
        waits: Waits,
        /// The queue and the number of the put, if the putting machine may have asked for room.
        put: Option<(QueueId, u64)>,
    },
    /// The work on the last token is done, without the waits that follow.
    EndService,
    /// The work on the last token is done, with all that the machine waited for meanwhile.
    FreePlace,
    /// The machine asks for room in a queue that several machines fill.
    AskForRoom { queue: QueueId },
    /// The machine gets the room that it asked for: in the order of the trace, or as soon as
    /// `taker` takes from a machine that came earlier.
    GetRoom {
        queue: QueueId,
        taker: MachineId,
        /// Numbers of puts and of gets of the queue before this put.
        put: u64,
        taken: u64,
    },
    /// The end that counts is here.
    MarkEnd,
}

impl Operation {
    /// Returns true if the operation lasts until its position in the trace. All others take no
    /// time.
    pub fn takes_time(&self) -> bool {
        !matches!(
            self,
            Operation::Publish { .. }
                | Operation::PublishPassed { .. }
                | Operation::Unlock { .. }
                | Operation::PublishContextWork { .. }
                | Operation::LeaveCpu { .. }
                | Operation::SetRecorder(_)
                | Operation::WakeUp
                | Operation::RoomBegin { .. }
                | Operation::TakeFreeLock { .. }
                | Operation::BeginCausedContext
                | Operation::CauseFollows
                | Operation::AllowSetBack
                | Operation::BeginWork
                | Operation::BeginEarlier { .. }
                | Operation::RememberMoment
                | Operation::MarkCall(_)
                | Operation::ReduceSince { .. }
                | Operation::BeginService { .. }
                | Operation::EndService
                | Operation::FreePlace
                | Operation::AskForRoom { .. }
                | Operation::GetRoom { .. }
                | Operation::MarkEnd
        )
    }

    /// The slots that the operation fills, which are made for it.
    pub fn made_slots(&self) -> [Option<u32>; 4] {
        match *self {
            Operation::Publish { slot, .. }
            | Operation::PublishPassed { slot, .. }
            | Operation::Unlock { slot, .. }
            | Operation::PublishContextWork { slot } => [Some(slot), None, None, None],
            Operation::LeaveCpu { left } => left.slots().map(Some),
            _ => [None; 4],
        }
    }

    /// The slots that the operation reads or fills.
    pub fn slots(&self) -> [Option<u32>; 5] {
        let first = match *self {
            Operation::Publish { slot, .. }
            | Operation::Unlock { slot, .. }
            | Operation::Meet { arrival: Arrival { slot, .. }, .. }
            | Operation::BeginEarlier { arrival: Arrival { slot, .. } }
            | Operation::TakeLock { arrival: Arrival { slot, .. }, .. }
            | Operation::PublishContextWork { slot }
            | Operation::BeginService { slot, .. }
            | Operation::AddInterruption { slot, .. } => Some(slot),
            Operation::PublishPassed { slot, passed } => return [Some(slot), passed.map(|passed| passed.slot), None, None, None],
            Operation::LeaveCpu { left } => return [Some(left.slot), Some(left.got_at), Some(left.stay), Some(left.busy), None],
            Operation::StartOnCpu(CpuStart { left, off, .. }) => {
                let (left, off) = (left.map(|left| [left.slot, left.got_at, left.busy]), off.map(|off| [off.stay, off.busy]));
                let of_left = |at: usize| left.map(|left| left[at]);
                return [of_left(0), of_left(1), of_left(2), off.map(|off| off[0]), off.map(|off| off[1])];
            }
            Operation::BeginContext { below, .. } => below,
            _ => None,
        };
        [first, None, None, None, None]
    }
}
