//! Machines that have stopped. Only the latest of them may still be causes, so a system that starts
//! one short-lived thread after the other does not need memory for each.

use super::life::Replay;
use super::WhatIf;
use longpole_model::interaction::{MachineId, Vocabulary};
use std::collections::VecDeque;

/// The machines in the order in which they stopped, each with the number of its stop.
#[derive(Debug, Default)]
pub struct Stopped(VecDeque<(MachineId, u32)>);

/// Largest number of stopped machines that may still be causes, as in the critical path.
const MOST: usize = 1 << 14;

impl WhatIf {
    pub(super) fn has_stopped(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let life = self.life(machine);
        life.stops += 1;
        let stop = life.stops;
        self.stopped.0.push_back((machine, stop));
        if self.stopped.0.len() > MOST {
            self.forget_first(vocabulary);
        }
    }

    /// Forgets the machine that stopped first; not if it lives again, if its end may count, or if
    /// its operations still wait.
    fn forget_first(&mut self, vocabulary: &Vocabulary) {
        let Some((machine, stop)) = self.stopped.0.pop_front() else { return };
        let ends = self.end.as_ref().map(|end| end.machine);
        let life = self.life(machine);
        if life.exists || life.stops != stop {
            return;
        }
        let is_due = life.replay.pending.is_empty() && life.above == 0;
        if !is_due || [self.asked, self.last, ends].contains(&Some(machine)) {
            return self.stopped.0.push_back((machine, stop));
        }
        self.set_alone(machine, false);
        self.work_is_done(vocabulary, machine);
        self.life(machine).forget();
    }

    /// Restores a forgotten machine that does something again.
    pub(super) fn remember(&mut self, machine: MachineId) {
        let lanes = self.layout.len();
        let life = self.life(machine);
        if std::mem::take(&mut life.is_forgotten) {
            life.replay = Replay::new(lanes);
        }
    }
}
