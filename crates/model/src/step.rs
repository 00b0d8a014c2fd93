//! Steps: what an event means to the model, with all names resolved to numbers. The vocabulary is
//! that of the probes (docs/probes.md); other tracers' events are mapped onto it by rules.

use crate::interaction::QueueId;
use crate::names::NameId;
use crate::system::actors::ActorId;

/// So much earlier than what it follows from a step may seem to be: processors read the clock
/// ahead of what they load, and their clocks differ.
pub const SOON_NS: i64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub t_ns: i64,
    pub actor: ActorId,
    pub op: Op,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    State {
        machine: NameId,
        state: NameId,
    },
    Begin {
        name: NameId,
    },
    End {
        name: NameId,
    },
    Mark {
        name: NameId,
        object: u64,
        kind: MarkKind,
    },
    Counter {
        name: NameId,
        value: f64,
    },
    Call {
        name: NameId,
        id: Option<u64>,
    },
    Returned {
        name: NameId,
        id: Option<u64>,
    },
    Dispatch {
        name: NameId,
        id: Option<u64>,
    },
    Reply {
        name: NameId,
        id: Option<u64>,
    },
    Submit {
        context: NameId,
        count: u64,
    },
    Receive {
        context: NameId,
        count: u64,
    },
    Wait,
    Put {
        queue: QueueId,
        count: u64,
    },
    Get {
        queue: QueueId,
        count: u64,
    },
    Peek {
        queue: QueueId,
        count: u64,
    },
    Reserve {
        queue: QueueId,
        count: u64,
    },
    WaitEmpty {
        queue: QueueId,
    },
    WaitFull {
        queue: QueueId,
    },
    Size {
        queue: QueueId,
        count: u64,
    },
    Flow {
        id: u64,
    },
    /// It waits, for what its rule says, until it does something else or is woken.
    Block {
        why: NameId,
    },
    /// It ends the block of another.
    Wake {
        actor: ActorId,
    },
    /// Happened, and says nothing of its actor's state.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    Plain,
    ObjectNew,
    ObjectDelete,
    ObjectState,
    Exception,
    Failure,
}
