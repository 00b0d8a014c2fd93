//! What a user's rules make of the kernel's events: who does it.
//!
//! Such an event names no thread: whatever its CPU does then does it, an interrupt or a softirq as well as a thread. It is told before what the event itself
//! changes, so that who is switched away, or ends, has done it before; only what begins a context is that context's own.

use super::contexts::Known;
use super::threads::{Kernel, Thread};
use super::Composer;
use crate::interaction::{Effect, MachineId};
use crate::linux::watch::{CpuId, ThreadId, Waker};
use crate::names::NameId;
use crate::step::{Op, Step};
use crate::system::actors::ActorId;
use longpole_trace::event::{Catalogue, Event};

/// What a rule says of an event of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    op: Op,
    /// The actor that the rule names.
    whom: Option<ActorId>,
    /// What the CPU did before the event, in how many contexts; switches between threads by then.
    by: Waker,
    deep: usize,
    switches: u64,
}

impl Composer {
    /// To be asked before the kernel's model knows of the event. None: no rule speaks of it.
    pub(super) fn said(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> Option<Said> {
        let (op, whom) = self.system.meaning(catalogue, event);
        if op == Op::Other {
            return None;
        }
        let cpu = event.cpu.and_then(|number| self.linux.cpu_of_number(number));
        let deep = cpu.map_or(0, |cpu| self.linux.cpus[cpu.0 as usize].open.len());
        let tid = catalogue.subjects.get(event.subject.0 as usize).and_then(|subject| subject.tid).filter(|tid| *tid > 0);
        let by = match (tid.and_then(|tid| self.linux.thread_of(tid)), cpu) {
            // The event itself says in which thread it was.
            (Some(thread), _) if deep == 0 => Waker::Thread(thread),
            (_, Some(cpu)) => self.linux.on(cpu),
            (_, None) => Waker::Unknown,
        };
        Some(Said { op, whom, by, deep, switches: self.linux.switches.in_all })
    }

    /// Tells it, before what the event has changed is told. What is left is to be told after that.
    pub(super) fn is_said(&mut self, catalogue: &Catalogue, cpu: Option<u32>, said: Said) -> Option<Said> {
        let Some(cpu) = cpu.and_then(|number| self.linux.cpu_of_number(number)) else { return Some(said) };
        let began = self.linux.cpus[cpu.0 as usize].open.len() > said.deep;
        match said.by {
            _ if said.whom.is_some() || began => return Some(said),
            Waker::Thread(thread) => self.thread_does(catalogue, thread, said.op),
            Waker::Context { id, .. } if self.is_open(cpu, id) => self.context_does(catalogue, cpu, said.by, said.op),
            _ => return Some(said),
        }
        None
    }

    /// Tells what is left after what the event has changed.
    pub(super) fn was_said(&mut self, catalogue: &Catalogue, event: &Event<'_>, said: Said) {
        let cpu = event.cpu.and_then(|number| self.linux.cpu_of_number(number)).filter(|_| said.whom.is_none());
        // Whom a switch has left is not known here, and the one who follows did not do it.
        let same = self.linux.switches.in_all == said.switches;
        match (cpu, cpu.map_or(Waker::Unknown, |cpu| self.linux.on(cpu))) {
            (_, Waker::Thread(thread)) if same => self.thread_does(catalogue, thread, said.op),
            (Some(cpu), by @ Waker::Context { id, .. }) if self.is_open(cpu, id) => self.context_does(catalogue, cpu, by, said.op),
            _ => {
                let actor = said.whom.unwrap_or_else(|| self.system.actor(catalogue, event));
                self.told_step(catalogue, &Step { t_ns: event.t_ns, actor, op: said.op });
            }
        }
    }

    fn thread_does(&mut self, catalogue: &Catalogue, thread: ThreadId, op: Op) {
        let at = self.thread_of_linux(thread);
        self.machine(catalogue, at);
        self.does(catalogue, at, op);
    }

    /// Contexts neither wait nor serve: what says so of one says nothing.
    fn context_does(&mut self, catalogue: &Catalogue, cpu: CpuId, by: Waker, op: Op) {
        let Waker::Context { id, .. } = by else { return };
        let takes = matches!(op, Op::Get { .. } | Op::Receive { .. });
        let Known { machine, state } = self.context(cpu, id);
        match op {
            Op::Wait | Op::WaitEmpty { .. } | Op::WaitFull { .. } | Op::Block { .. } => return,
            Op::Call { .. } | Op::Returned { .. } | Op::Dispatch { .. } | Op::Reply { .. } => return,
            // It is a cause: its own lineage must be known.
            Op::Put { .. } | Op::Submit { .. } | Op::Wake { .. } => _ = self.context_that_acts(cpu, id),
            _ => {}
        }
        let at = self.thread_of_context(machine, state);
        let before = self.ahead.interactions.len();
        self.does(catalogue, at, op);
        let took = |effect: &Effect| matches!(effect, Effect::Get { machine: by, .. } if *by == machine);
        if takes && self.ahead.interactions[before..].iter().any(|interaction| took(&interaction.effect)) {
            self.has_taken(Some(cpu), by);
        }
    }

    /// What rules have told of a context, as of a thread.
    fn thread_of_context(&mut self, machine: MachineId, state: NameId) -> u32 {
        if let Some(&at) = self.of_context.get(&machine) {
            return at;
        }
        let at = self.threads.len() as u32;
        let (declared, told) = (Some(state), Some(state));
        self.threads.push(Thread { machine: Some(machine), kernel: Kernel::Runs, declared, state: told, ..Thread::default() });
        self.of_context.insert(machine, at);
        at
    }

    /// Tells the state in which a context begins, or goes on once its cause is known.
    pub(super) fn is_in(&mut self, machine: MachineId, state: NameId, begins: bool) {
        let known = if self.of_context.is_empty() { None } else { self.of_context.get(&machine).copied() };
        let Some(at) = known else { return self.emit(Effect::State { machine, state }) };
        let thread = &mut self.threads[at as usize];
        if begins {
            (thread.frames, thread.too_deep, thread.declared) = (Vec::new(), 0, Some(state));
        }
        let state = thread.frames.last().or(thread.declared.as_ref()).copied().unwrap_or(state);
        thread.state = Some(state);
        self.emit(Effect::State { machine, state });
    }
}
