//! Machines that have stopped. Only the latest of them may still be causes, so a system that starts
//! one short-lived thread after the other does not need memory for each.

use super::state::Translation;
use longpole_model::interaction::{MachineId, Vocabulary};

/// Largest number of stopped machines that may still be causes, as in the critical path.
const MAX_STOPPED: usize = 1 << 14;

impl Translation {
    /// Notes that the machine has stopped.
    pub fn note_stopped(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let traced = self.machine(machine);
        traced.stops += 1;
        let stop = traced.stops;
        self.stopped.push_back((machine, stop));
        if self.stopped.len() > MAX_STOPPED {
            self.forget_first(vocabulary);
        }
    }

    /// Forgets the machine that stopped first; not if it lives again, if its end may count, or if
    /// its operations still wait.
    fn forget_first(&mut self, vocabulary: &Vocabulary) {
        let Some((machine, stop)) = self.stopped.pop_front() else { return };
        let traced = self.machine(machine);
        if traced.exists || traced.stops != stop {
            return;
        }
        let is_top = traced.stack.above == 0;
        let replay = self.replay.here();
        let ends = replay.end.as_ref().map(|end| end.machine);
        let is_due = replay.machine(machine).pending.is_empty() && is_top;
        if !is_due || [self.end_machine.requested, self.end_machine.last, ends].contains(&Some(machine)) {
            return self.stopped.push_back((machine, stop));
        }
        self.set_alone(machine, false);
        let group = self.groups.find(machine.0);
        let replay = self.replay.here();
        replay.forgotten.add(vocabulary.host_id(machine), group, &replay.machines[machine.0 as usize]);
        replay.forget(machine);
        self.machine(machine).forget();
    }

    /// Restores a forgotten machine that does something again.
    pub fn remember(&mut self, machine: MachineId) {
        if std::mem::take(&mut self.machine(machine).is_forgotten) {
            self.replay.here().restore(machine);
        }
    }
}
