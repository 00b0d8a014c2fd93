//! Kernel events to which a user's rule gives a meaning, and the machine that acts in them.
//!
//! Such an event names no thread: its cause is the machine that acts on its CPU, which may be an
//! interrupt or a softirq as well as a thread. The meaning is emitted before the change that the
//! event itself makes, so that a thread which leaves its CPU or ends is still the one that acts.
//! The exception is an event that begins a context: it belongs to that context.

use super::contexts::ContextMachine;
use super::thread_table::{KernelState, ProbeState, ThreadMachine};
use super::Composer;
use crate::actors::ActorId;
use crate::interaction::{Effect, MachineId};
use crate::linux::watch::{CpuId, ThreadId, Waker};
use crate::names::NameId;
use crate::step::{Op, Step};
use longpole_trace::event::{Catalogue, Event};

/// The meaning that a rule gives to a kernel event.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleMeaning {
    op: Op,
    /// The actor that the rule names.
    as_actor: Option<ActorId>,
    /// The machine that acted on the CPU before the event, the number of open contexts on it, and
    /// the number of switches until then.
    by: Waker,
    deep: usize,
    switches: u64,
}

impl Composer {
    /// The meaning of a kernel event; `None` if no rule matches it. Must be called before the
    /// kernel's model processes the event.
    pub(super) fn rule_meaning(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> Option<RuleMeaning> {
        let (op, as_actor) = self.system.meaning(catalogue, event);
        if op == Op::Other {
            return None;
        }
        let cpu = event.cpu.and_then(|number| self.linux.cpu_of_number(number));
        let deep = cpu.map_or(0, |cpu| self.linux.cpus[cpu.0 as usize].open.len());
        let tid = catalogue.subjects.get(event.subject.0 as usize).and_then(|subject| subject.tid).filter(|tid| *tid > 0);
        let by = match (tid.and_then(|tid| self.linux.thread_of(tid)), cpu) {
            // The event itself names its thread.
            (Some(thread), _) if deep == 0 => Waker::Thread(thread),
            (_, Some(cpu)) => self.linux.waker_on(cpu),
            (_, None) => Waker::Unknown,
        };
        Some(RuleMeaning { op, as_actor, by, deep, switches: self.linux.counts.switches.in_all })
    }

    /// Emits the meaning before the change that the event itself makes. Returns the meaning if it
    /// must be emitted after that change instead.
    pub(super) fn emit_before(&mut self, catalogue: &Catalogue, cpu: Option<u32>, meaning: RuleMeaning) -> Option<RuleMeaning> {
        let Some(cpu) = cpu.and_then(|number| self.linux.cpu_of_number(number)) else { return Some(meaning) };
        let began = self.linux.cpus[cpu.0 as usize].open.len() > meaning.deep;
        match meaning.by {
            _ if meaning.as_actor.is_some() || began => return Some(meaning),
            Waker::Thread(thread) => self.thread_does(catalogue, thread, meaning.op),
            Waker::Context { id, .. } if self.is_open(cpu, id) => self.context_does(catalogue, cpu, meaning.by, meaning.op),
            _ => return Some(meaning),
        }
        None
    }

    /// Emits a meaning that [`Composer::emit_before`] has returned, after the change that the event
    /// itself made.
    pub(super) fn emit_after(&mut self, catalogue: &Catalogue, event: &Event<'_>, meaning: RuleMeaning) {
        let cpu = event.cpu.and_then(|number| self.linux.cpu_of_number(number)).filter(|_| meaning.as_actor.is_none());
        // After a switch it is unknown which thread has left, and the next one is not the one that
        // acted.
        let same = self.linux.counts.switches.in_all == meaning.switches;
        match (cpu, cpu.map_or(Waker::Unknown, |cpu| self.linux.waker_on(cpu))) {
            (_, Waker::Thread(thread)) if same => self.thread_does(catalogue, thread, meaning.op),
            (Some(cpu), by @ Waker::Context { id, .. }) if self.is_open(cpu, id) => self.context_does(catalogue, cpu, by, meaning.op),
            _ => {
                let actor = meaning.as_actor.unwrap_or_else(|| self.system.actor(catalogue, event));
                self.apply_step(catalogue, &Step { t_ns: event.t_ns, actor, op: meaning.op });
            }
        }
    }

    fn thread_does(&mut self, catalogue: &Catalogue, thread: ThreadId, op: Op) {
        let at = self.thread_of_linux(thread);
        self.machine(catalogue, at);
        self.apply_op(catalogue, at, op);
    }

    /// Applies a meaning to a context. Contexts neither wait nor serve calls, so such meanings are
    /// ignored.
    fn context_does(&mut self, catalogue: &Catalogue, cpu: CpuId, by: Waker, op: Op) {
        let Waker::Context { id, .. } = by else { return };
        let takes = matches!(op, Op::Get { .. } | Op::Receive { .. });
        let ContextMachine { machine, state } = self.context(cpu, id);
        match op {
            Op::Wait | Op::WaitEmpty { .. } | Op::WaitFull { .. } | Op::Block { .. } => return,
            Op::Call { .. } | Op::Returned { .. } | Op::Dispatch { .. } | Op::Reply { .. } => return,
            // The context is a cause here, so its own path must be known.
            Op::Put { .. } | Op::Submit { .. } | Op::Wake { .. } => _ = self.context_that_acts(cpu, id),
            _ => {}
        }
        let at = self.thread_of_context(machine, state);
        let before = self.ahead.interactions.len();
        self.apply_op(catalogue, at, op);
        let took = |effect: &Effect| matches!(effect, Effect::Get { machine: by, .. } if *by == machine);
        if takes && self.ahead.interactions[before..].iter().any(|interaction| took(&interaction.effect)) {
            self.note_taken(Some(cpu), by);
        }
    }

    /// The place of a context in the list of threads, where the state that rules give it is stored.
    fn thread_of_context(&mut self, machine: MachineId, state: NameId) -> u32 {
        if let Some(at) = self.threads.of_context(machine) {
            return at;
        }
        let state = Some(state);
        let probes = ProbeState { declared: state, ..ProbeState::default() };
        let at = self.threads.push(ThreadMachine {
            machine: Some(machine),
            kernel: KernelState::Runs,
            probes,
            state,
            ..ThreadMachine::default()
        });
        self.threads.set_context(machine, at);
        at
    }

    /// Emits the state of a context that begins, or continues after its cause has become known.
    pub(super) fn emit_context_state(&mut self, machine: MachineId, state: NameId, begins: bool) {
        let Some(at) = self.threads.of_context(machine) else { return self.emit(Effect::State { machine, state }) };
        let thread = &mut self.threads[at];
        if begins {
            (thread.probes.frames, thread.probes.too_deep, thread.probes.declared) = (Vec::new(), 0, Some(state));
        }
        let state = thread.probes.frames.last().or(thread.probes.declared.as_ref()).copied().unwrap_or(state);
        thread.state = Some(state);
        self.emit(Effect::State { machine, state });
    }
}
