//! A machine's own states: time that it adds in each world, and waits whose cause is unknown.

use super::caller::Caller;
use super::state::Translation;
use super::traced_machine::Context;
use crate::critical_path::keys::key::{Key, State};
use crate::what_if::operation::{Leaving, Operation, PaidCall};
use longpole_model::interaction::{MachineId, Vocabulary};
use longpole_model::kinds::StateKind;
use longpole_model::names::NameId;

impl Translation {
    /// Adds the machine's own time until now.
    pub fn charge(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let now = self.clock.now;
        let traced = self.machine(machine);
        if !traced.works() || traced.since >= now {
            return;
        }
        let key = traced.key;
        let is_whole = traced.calls.calling.is_some() || traced.calls.state_call.is_some() || traced.calls.self_signal.is_some();
        let mut paid = traced.calls.serving.filter(|_| !is_whole);
        let (took, state) = (std::mem::take(&mut traced.calls.has_taken), traced.state);
        if let Some(caller) = &mut traced.calls.caller {
            if took {
                caller.count_get(key);
            }
            let text = match state {
                State::Named(name) => vocabulary.names.text(name),
                _ => StateKind::Run.text().unwrap_or_default(),
            };
            if !is_whole && caller.pays(key, text) {
                paid = Some(PaidCall { by: machine, items: caller.items(), state: None });
            }
        }
        self.issue(machine, Operation::OwnTime { key, paid });
    }

    /// Recomputes the key of the machine's own time. Must be called after each change of its state.
    pub fn update_key(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let state = self.machine(machine).state;
        let key = self.state_key(vocabulary, machine, state);
        self.machine(machine).key = key;
    }

    /// A machine exists from its first interaction; why it did nothing until then is unknown.
    pub fn appear(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        if self.machine(machine).exists {
            return;
        }
        let key = self.state_key(vocabulary, machine, State::Unknown);
        self.unexplained(machine, key);
        self.begin_life(vocabulary, machine, None);
    }

    /// Begins the machine's life, or that of a context.
    pub fn begin_life(&mut self, vocabulary: &Vocabulary, machine: MachineId, context: Option<Context>) {
        let traced = self.machine(machine);
        (traced.exists, traced.block, traced.cpu.ready, traced.state, traced.stack.context) = (true, None, None, State::Run, context);
        traced.stack.has_been_context |= context.is_some();
        self.update_key(vocabulary, machine);
        self.look_up_changes(vocabulary, machine);
    }

    /// Finds the scenarios that change the machine, under its name and its class. An interrupt
    /// begins a life each time, so this is done again only if the class is another one, or if the
    /// machine's places begin anew.
    fn look_up_changes(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let traced = self.machine(machine);
        let (class, has_places) = (traced.class, traced.takes.has_places);
        if traced.looked_up_as.replace(class) == Some(class) && !has_places {
            return;
        }
        let words = Key::State { machine, class, state: State::Run }.words(vocabulary);
        self.changes.machine(&words);
        let places = self.changes.places(&words);
        if !places.is_empty() {
            self.machine(machine).takes.has_places = true;
            self.replay.here().service.set_places(machine, places);
        }
        if self.machine(machine).calls.caller.is_none() {
            let batches = self.changes.batches(&words);
            if !batches.is_empty() {
                self.machine(machine).calls.caller = Some(Box::new(Caller::new(&batches)));
                self.replay.here().calls.add(machine, batches);
            }
        }
    }

    /// The machine continues, or begins, for an unknown reason; `key` is what it did until now.
    pub fn unexplained(&mut self, machine: MachineId, key: u32) {
        let line = self.clock.line;
        if self.machine(machine).since < self.clock.now {
            self.states.first_unexplained.entry(key).or_insert(line);
        }
        self.issue(machine, Operation::UnexplainedWait { key });
        self.issue(machine, Operation::BeginWork);
        self.set_alone(machine, true);
    }

    /// Sets whether the machine's work from here on has no cause by another machine. Returns the
    /// previous value.
    pub fn set_alone(&mut self, machine: MachineId, alone: bool) -> bool {
        let traced = self.machine(machine);
        let (before, passed) = (std::mem::replace(&mut traced.acts_alone, alone), traced.passed.take());
        if let Some(passed) = passed {
            self.replay.release_slot(passed.slot);
        }
        before
    }

    /// The machine enters the state `name`.
    pub fn state(&mut self, vocabulary: &Vocabulary, machine: MachineId, name: NameId) {
        let kind = vocabulary.names.state_kind(name);
        let (preempted, asleep) = (kind == StateKind::Preempted, kind == StateKind::Asleep);
        if kind == StateKind::Kernel && vocabulary.is_kernel_thread(machine) {
            self.machine(machine).is_shared_worker = true;
        }
        let state = if preempted { State::Runnable } else { State::of(vocabulary, name) };
        let block = self.machine(machine).block.take();
        if let Some(block) = block {
            let key = self.state_key(vocabulary, machine, State::Blocked(block.why));
            self.unexplained(machine, key);
        }
        let now = self.clock.now;
        if state == State::Runnable {
            if self.machine(machine).cpu.ready.is_none() {
                // A machine that was blocked or asleep had no CPU.
                if block.is_none() && (self.machine(machine).cpu.has_cpu || !self.machine(machine).cpu.asleep) {
                    self.leave_cpu(vocabulary, machine, if preempted { Leaving::Preempted } else { Leaving::StillRunnable });
                }
                self.machine(machine).cpu.ready = Some(now);
                // The name of the wait for a CPU.
                self.machine(machine).cpu.waits_as = if preempted { State::Named(name) } else { State::Runnable };
            }
        } else {
            self.take_cpu(vocabulary, machine);
            if self.is_batched && !asleep {
                self.enter_state(machine, name, vocabulary.names.text(name));
            }
            if asleep && self.machine(machine).cpu.has_cpu {
                self.leave_cpu(vocabulary, machine, Leaving::Done);
            }
        }
        self.machine(machine).cpu.asleep = asleep;
        self.machine(machine).state = state;
        self.update_key(vocabulary, machine);
    }

    /// Ends the machine's life, or that of a context.
    pub fn vanish(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        if self.machine(machine).cpu.has_cpu {
            self.leave_cpu(vocabulary, machine, Leaving::Done);
        }
        if let Some(off) = self.machine(machine).cpu.off.take() {
            self.forget_cpu(off);
        }
        let traced = self.machine(machine);
        (traced.exists, traced.block, traced.cpu.ready, traced.stack.context) = (false, None, None, None);
    }
}
