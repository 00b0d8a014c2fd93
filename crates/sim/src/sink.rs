//! What a simulation tells while it runs.

use crate::system::{Id, System};

/// One deed of a machine, in the terms of the machine log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Here,
    State(Id),
    /// It has no CPU, though it would use one.
    Runnable,
    Blocked(Wait),
    Put(Id, u64),
    Get(Id, u64),
    Peek(Id, u64),
    Reserve(Id, u64),
    /// A call of a queue, its reply, and their ends; the other machine is the caller.
    Reply(Id, Id),
    Replied(Id),
    /// A timer that was armed at this time ends the block.
    Timer(u64),
    Fork(Id),
    Stop,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Tokens(Id),
    Space(Id),
    Reply(Id),
    Sleep,
    Poll(Id),
}

pub trait Sink {
    /// Before anything happens.
    fn begin(&mut self, system: &System);
    fn effect(&mut self, t: u64, machine: Id, effect: Effect);
    /// Whether each piece of work is told, also where the state was the same before.
    fn wants_all_work(&self) -> bool {
        false
    }
    /// Nobody listens any more.
    fn is_over(&self) -> bool;
}

/// For runs of which only the end counts.
pub struct Nobody;

impl Sink for Nobody {
    fn begin(&mut self, _: &System) {}
    fn effect(&mut self, _: u64, _: Id, _: Effect) {}
    fn is_over(&self) -> bool {
        false
    }
}
