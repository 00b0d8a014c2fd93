//! Causes: a machine is woken or created by another one, and continues when that has happened.

use super::state::Translation;
use crate::critical_path::keys::key::{Key, Link, State};
use crate::what_if::operation::{Arrival, DelayKind, Operation};
use longpole_model::interaction::{Cause, MachineId, Vocabulary};

impl Translation {
    /// Prepares the machine to meet what it waited for. Work that a machine does at times of its
    /// own does not delay what others have for it, if that comes earlier.
    fn allow_set_back(&mut self, machine: MachineId, by: MachineId) {
        let alone = self.set_alone(machine, by == machine);
        let traced = self.machine(machine);
        if alone || traced.stack.context.is_some() || traced.is_shared_worker {
            self.issue(machine, Operation::AllowSetBack);
        }
    }

    /// Notes that a context's cause is known, or that it will never be known.
    pub fn mark_caused(&mut self, machine: MachineId) {
        if let Some(context) = &mut self.machine(machine).stack.context {
            context.caused = true;
        }
    }

    /// The machine continues, or begins, when its cause has come. Returns false if the causing
    /// machine is unknown.
    pub fn meet_cause(&mut self, vocabulary: &Vocabulary, machine: MachineId, cause: Cause) -> bool {
        if !self.machine(cause.by).seen {
            self.forgotten_causes += u64::from(self.machine(cause.by).is_forgotten);
            return false;
        }
        let begin = self.clock.begin.unwrap_or(0);
        let at = cause.at.map_or(self.clock.now, |at| at.saturating_sub(begin)).min(self.clock.now);
        self.charge(vocabulary, cause.by);
        self.connect(machine, cause.by);
        let slot = self.replay.make_slot();
        self.issue(cause.by, Operation::Publish { slot, at });
        let kind = cause.link.map_or(Link::Wakeup, Link::Named);
        let key = self.key(vocabulary, Key::Link { queue: None, kind });
        self.allow_set_back(machine, cause.by);
        let arrival = Arrival { slot, ns: (self.clock.now - at) as f64, key };
        self.issue(machine, Operation::Meet { arrival, delay: DelayKind::Carried, paid: None });
        self.issue(machine, Operation::BeginWork);
        self.replay.release_slot(slot);
        true
    }

    pub fn fork(&mut self, vocabulary: &Vocabulary, machine: MachineId, cause: Cause) {
        if self.machine(machine).exists {
            self.contradictions += 1;
            return;
        }
        if !self.machine(cause.by).seen || cause.by == machine {
            return self.appear(vocabulary, machine);
        }
        self.issue(machine, Operation::Reset);
        self.meet_cause(vocabulary, machine, cause);
        self.begin_by(machine, cause.by);
        self.begin_life(vocabulary, machine, None);
    }

    pub fn wake(&mut self, vocabulary: &Vocabulary, machine: MachineId, cause: Option<Cause>) {
        let now = self.clock.now;
        if let Some(block) = self.machine(machine).block {
            self.issue(machine, Operation::WakeUp);
            if !cause.is_some_and(|cause| self.meet_cause(vocabulary, machine, cause)) {
                let key = self.state_key(vocabulary, machine, State::Blocked(block.why));
                self.unexplained(machine, key);
            }
            self.mark_caused(machine);
            let traced = self.machine(machine);
            (traced.block, traced.cpu.ready, traced.state, traced.cpu.waits_as) = (None, Some(now), State::Runnable, State::Runnable);
            self.note_woken(machine);
            return self.update_key(vocabulary, machine);
        }
        if self.machine(machine).stack.context.is_some_and(|context| !context.caused) {
            self.mark_caused(machine);
            if let Some(cause) = cause.filter(|cause| self.known(cause.by).is_some_and(|traced| traced.seen)) {
                self.issue(machine, Operation::CauseFollows);
                self.meet_cause(vocabulary, machine, cause);
            }
        }
    }
}
