//! Steps: what an event means to the model, with all names resolved to numbers. The vocabulary is
//! that of the probes (docs/guides/probes.md); events of other tracers are mapped onto it by rules.

use crate::actors::ActorId;
use crate::ids::QueueId;
use crate::names::NameId;

/// Time in ns by which the timestamp of a step may be too late or too early compared to its
/// consequence: CPUs read the clock ahead of the data they load, and the clocks of CPUs differ.
pub const SOON_NS: i64 = 1_000;

/// The meaning of one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub t_ns: i64,
    pub actor: ActorId,
    pub op: Op,
}

/// What an actor does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// A machine that the program declares enters a state.
    State { machine: NameId, state: NameId },
    /// A span begins.
    Begin { name: NameId },
    /// A span ends.
    End { name: NameId },
    /// A mark; the actor's state is independent of it.
    Mark { name: NameId, object: u64, kind: MarkKind },
    /// A new value of a counter.
    Counter { name: NameId, value: f64 },
    /// The actor calls a server and waits for the reply. `id` identifies the call in its other
    /// events; without it, a dispatch takes the oldest call of this name that no server has taken.
    Call { name: NameId, id: Option<u64> },
    /// The call has returned to the actor.
    Returned { name: NameId, id: Option<u64> },
    /// The actor, a server, begins to serve a call.
    Dispatch { name: NameId, id: Option<u64> },
    /// The actor, a server, replies to a call.
    Reply { name: NameId, id: Option<u64> },
    /// The actor sends a signal `count` times.
    Submit { context: NameId, count: u64 },
    /// The actor receives a signal, into which `count` submits were merged.
    Receive { context: NameId, count: u64 },
    /// The actor waits for a signal.
    Wait,
    /// The actor puts units into a queue.
    Put { queue: QueueId, count: u64 },
    /// The actor takes units from a queue.
    Get { queue: QueueId, count: u64 },
    /// The actor reads units in a queue and leaves them there.
    Peek { queue: QueueId, count: u64 },
    /// The actor takes space in a queue for a later put.
    Reserve { queue: QueueId, count: u64 },
    /// The actor waits because the queue is empty.
    WaitEmpty { queue: QueueId },
    /// The actor waits because the queue is full.
    WaitFull { queue: QueueId },
    /// The actor has found `count` units in the queue. Used only to check the recorded puts and
    /// gets.
    Size { queue: QueueId, count: u64 },
    /// An id by which the program marks events that belong together.
    Flow { id: u64 },
    /// The actor waits for the reason in `why` until it does something else or is woken.
    Block { why: NameId },
    /// Ends the block of another actor.
    Wake { actor: ActorId },
    /// An event without a meaning for the state of its actor.
    Other,
}

/// The meaning of a mark, by the numbers from `LONGPOLE_PLAIN` on in `longpole.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    Plain,
    ObjectNew,
    ObjectDelete,
    ObjectState,
    Exception,
    Failure,
}
