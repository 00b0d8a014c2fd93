//! The receiver of a simulation's effects.

use crate::system::{Id, System};

/// An effect of a machine, in the terms of the machine log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Here,
    State(Id),
    /// The machine waits for a CPU.
    Runnable,
    Blocked(Wait),
    Put(Id, u64),
    Get(Id, u64),
    Peek(Id, u64),
    Reserve(Id, u64),
    /// The reply to a call of a queue, sent to a caller ([`Effect::Reply`]: queue and caller) and
    /// received by the machine itself ([`Effect::Replied`]).
    Reply(Id, Id),
    Replied(Id),
    /// A timer that was set at this time ends the block.
    Timer(u64),
    Fork(Id),
    Stop,
    End,
}

/// What a blocked machine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Tokens(Id),
    Space(Id),
    Reply(Id),
    Sleep,
    Poll(Id),
}

/// Receives the effects of a simulation, in the order of time.
pub trait Sink {
    /// Called once, before the first effect.
    fn begin(&mut self, system: &System);
    fn effect(&mut self, t: u64, machine: Id, effect: Effect);
    /// True if each piece of work is to be reported, even if the state does not change.
    fn wants_all_work(&self) -> bool {
        false
    }
    /// True if no more effects are wanted.
    fn is_over(&self) -> bool;
}

/// A sink that ignores everything, for runs of which only the outcome is needed.
pub struct Nobody;

impl Sink for Nobody {
    fn begin(&mut self, _: &System) {}
    fn effect(&mut self, _: u64, _: Id, _: Effect) {}
    fn is_over(&self) -> bool {
        false
    }
}
