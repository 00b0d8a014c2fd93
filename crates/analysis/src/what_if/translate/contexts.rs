//! Contexts: machines that run on top of another one or on an idle CPU, such as interrupts.
//!
//! A context delays the machine below by its own work. Its cause may be known when it begins, may
//! follow later, or may stay unknown.

use super::state::Translation;
use super::traced_machine::Context;
use crate::critical_path::keys::key::State;
use crate::what_if::operation::Operation;
use longpole_model::interaction::{Cause, MachineId, Vocabulary};

impl Translation {
    /// Ends the wait for a context if the interrupted machine does something all the same.
    pub fn disturb(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let traced = self.machine(machine);
        if traced.stack.above > 0 && traced.block.is_none() && traced.cpu.ready.is_none() {
            traced.stack.disturbed = true;
            let key = self.state_key(vocabulary, machine, State::Interrupted);
            self.issue(machine, Operation::OwnTime { key, paid: None });
        }
    }

    pub fn push(&mut self, vocabulary: &Vocabulary, machine: MachineId, below: Option<MachineId>, cause: Option<Option<Cause>>) {
        if self.machine(machine).stack.context.is_some() {
            self.contradictions += 1;
            return;
        }
        self.charge(vocabulary, machine);
        if self.machine(machine).exists {
            self.vanish(vocabulary, machine);
        }
        let below = below.filter(|&below| self.machine(below).exists);
        if let Some(below) = below {
            self.charge(vocabulary, below);
            self.machine(below).stack.above += 1;
        }
        let idle_since = self.machine(machine).since;
        let context = Context { below, caused: cause.is_some(), idle_since };
        let known = cause.flatten().filter(|cause| cause.by != machine && self.machine(cause.by).seen);
        let key = self.state_key(vocabulary, machine, State::Unknown);
        if let Some(cause) = known {
            self.issue(machine, Operation::BeginCausedContext);
            self.meet_cause(vocabulary, machine, cause);
        } else {
            let slot = below.map(|below| {
                let slot = self.replay.make_slot();
                self.issue(below, Operation::Publish { slot, at: self.clock.now });
                slot
            });
            self.issue(machine, Operation::BeginContext { below: slot, key, cause_may_follow: cause.is_none() });
            self.issue(machine, Operation::BeginWork);
            if let Some(slot) = slot {
                self.replay.release_slot(slot);
            }
        }
        self.begin_life(vocabulary, machine, Some(context));
    }

    pub fn pop(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let Some(context) = self.machine(machine).stack.context.filter(|_| self.is_top(machine)) else {
            self.contradictions += 1;
            return;
        };
        self.charge(vocabulary, machine);
        self.leave(vocabulary, machine, context);
        self.vanish(vocabulary, machine);
    }

    /// Resumes the machine below a context, later by the work of the context.
    pub fn leave(&mut self, vocabulary: &Vocabulary, machine: MachineId, context: Context) {
        let Some(below) = context.below else { return };
        let traced = self.machine(below);
        traced.stack.above = traced.stack.above.saturating_sub(1);
        if !traced.works() {
            return;
        }
        let disturbed = std::mem::take(&mut traced.stack.disturbed);
        let key = self.state_key(vocabulary, below, State::Interrupted);
        if disturbed {
            return self.issue(below, Operation::OwnTime { key, paid: None });
        }
        let slot = self.replay.make_slot();
        self.issue(machine, Operation::PublishContextWork { slot });
        self.issue(below, Operation::AddInterruption { slot, key });
        self.replay.release_slot(slot);
    }
}
