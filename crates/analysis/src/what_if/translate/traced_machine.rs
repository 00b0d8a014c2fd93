//! A machine's state in the trace: what it does at the position that the translation has reached.

use super::caller::{Caller, SelfSignal};
use crate::critical_path::keys::key::State;
use crate::what_if::operation::{Arrival, LeftCpu, PaidCall};
use longpole_model::interaction::MachineId;
use longpole_model::names::NameId;

/// A machine's state in the trace.
#[derive(Debug)]
pub struct TracedMachine {
    /// True between the machine's first interaction and its stop.
    pub exists: bool,
    pub seen: bool,
    pub class: Option<NameId>,
    /// State when the machine neither waits nor is interrupted.
    pub state: State,
    pub block: Option<Block>,
    /// The machine is the recorder.
    pub is_recorder: bool,
    /// Key of the machine's own time; and the time in the trace up to which its operations reach.
    pub key: u32,
    pub since: u64,
    pub cpu: CpuState,
    pub stack: Stack,
    pub calls: CallState,
    /// The machine's work since its last wait was not caused by another machine: it came by a
    /// timer, or its cause is unknown.
    pub acts_alone: bool,
    /// The last item of another machine that the machine took since then, which it passes on.
    pub passed: Option<Arrival>,
    /// The machine is a thread of the kernel that works for others, one item after the other and
    /// each for itself.
    pub is_shared_worker: bool,
    pub takes: Takes,
    /// Class under which the scenarios' changes of the machine were looked up last; `None` if they
    /// were not yet.
    pub looked_up_as: Option<Option<NameId>>,
    /// Number of times that the machine has stopped.
    pub stops: u32,
    pub is_forgotten: bool,
}

/// The CPU of a machine, and its wait for one.
#[derive(Debug)]
pub struct CpuState {
    /// Start of the machine's wait for a CPU.
    pub ready: Option<u64>,
    /// Name of that wait.
    pub waits_as: State,
    /// The machine has left its CPU until a time that it set itself.
    pub asleep: bool,
    /// The machine is known to have a CPU.
    pub has_cpu: bool,
    /// The CPU that the machine was put off although it could have continued.
    pub off: Option<LeftCpu>,
    /// Chain number of the CPU that the machine has, or had last.
    pub chain: u32,
}

/// The contexts on top of a machine, and the machine as a context itself.
#[derive(Debug, Default)]
pub struct Stack {
    /// Number of contexts on top of the machine.
    pub above: u32,
    /// The machine did something while it was interrupted.
    pub disturbed: bool,
    pub context: Option<Context>,
    /// The machine has been a context at least once.
    pub has_been_context: bool,
}

/// Calls and signals of a machine, for the worlds with fewer of them.
#[derive(Debug)]
pub struct CallState {
    /// Present if the machine makes fewer calls in some world.
    pub caller: Option<Box<Caller>>,
    /// The machine has taken an item, and no time has passed since.
    pub has_taken: bool,
    /// The call that the machine's work belongs to.
    pub serving: Option<PaidCall>,
    /// The call for whose reply the machine waits without doing anything else, as far as is known.
    pub calling: Option<PaidCall>,
    /// The call that the machine's current state is.
    pub state_call: Option<PaidCall>,
    /// The signal that the machine sent to itself and has not yet taken.
    pub self_signal: Option<SelfSignal>,
    /// The machine has done something else while it waited for a reply, at least once.
    pub asynchronous: bool,
    /// The machine's work since it was woken.
    pub work: WorkSinceWake,
}

/// What a machine's work since it was woken is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WorkSinceWake {
    Unknown,
    /// The machine has taken nothing yet.
    Woken,
    /// A call to which the machine has not replied.
    Serves(PaidCall),
    /// A call to which the machine has replied, or a signal.
    Served(PaidCall),
}

/// A wait that has not ended: its reason, and its start in the trace.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub why: NameId,
    pub start: u64,
}

/// Properties of a machine that runs on top of another one, or on an idle CPU (an interrupt).
#[derive(Clone, Copy, Debug)]
pub struct Context {
    pub below: Option<MachineId>,
    /// The cause is known, or will never be known.
    pub caused: bool,
    /// End of the context's previous life.
    pub idle_since: u64,
}

/// Behaviour of a machine with what it takes, as seen in the trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Takes {
    /// The machine takes from a queue that several machines fill.
    pub is_shared: bool,
    /// In some scenario the machine does several pieces of work at once.
    pub has_places: bool,
    /// The machine has taken an item in such a scenario, and nothing since.
    pub has_open_work: bool,
    /// The machine has put something since its last get.
    pub has_put: bool,
    /// True if the machine put something after each of its earlier gets; `None` before its second
    /// get.
    pub put_after_each: Option<bool>,
    /// The machine puts something after some gets and not after others: it joins items of several
    /// machines, and waits for all of them.
    pub joins: bool,
}

impl Default for TracedMachine {
    fn default() -> TracedMachine {
        TracedMachine {
            exists: false,
            seen: false,
            class: None,
            state: State::Run,
            block: None,
            is_recorder: false,
            key: 0,
            since: 0,
            cpu: CpuState { ready: None, waits_as: State::Runnable, asleep: false, has_cpu: false, off: None, chain: 0 },
            stack: Stack::default(),
            calls: CallState {
                caller: None,
                has_taken: false,
                serving: None,
                calling: None,
                state_call: None,
                self_signal: None,
                asynchronous: false,
                work: WorkSinceWake::Unknown,
            },
            acts_alone: false,
            passed: None,
            is_shared_worker: false,
            takes: Takes::default(),
            looked_up_as: None,
            stops: 0,
            is_forgotten: false,
        }
    }
}

impl TracedMachine {
    /// Forgets a machine that stopped long ago and can no longer be a cause. If it lives again, it
    /// is as new.
    pub fn forget(&mut self) {
        let (class, stops) = (self.class, self.stops);
        *self = TracedMachine { class, stops, is_forgotten: true, ..TracedMachine::default() };
    }

    /// Returns true if the machine's time goes to its own state.
    pub fn works(&self) -> bool {
        self.exists && self.block.is_none() && self.cpu.ready.is_none() && self.stack.above == 0
    }
}
