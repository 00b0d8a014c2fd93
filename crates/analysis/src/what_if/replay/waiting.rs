//! Operations that wait: an operation runs as soon as what it needs is there.
//!
//! An operation may need something that another machine has not done yet in this replay, for
//! example room in a queue that is smaller than it was. It then waits in its machine's list
//! together with all later operations of the machine, and the slot or room that it needs remembers
//! the machine.

use super::replayed_machine::Pending;
use super::state::Replay;
use crate::what_if::operation::{CpuStart, Operation};
use longpole_model::interaction::MachineId;

impl Replay {
    /// Runs the machine's operation, which lasts until `t` in the trace, or holds it back.
    pub fn run(&mut self, machine: MachineId, t: u64, operation: &Operation) {
        for slot in operation.made_slots().into_iter().flatten() {
            self.slots.make(slot);
        }
        if !self.machine(machine).pending.is_empty() || !self.is_ready(machine, operation) {
            for slot in operation.slots().into_iter().flatten() {
                self.slots.hold(slot);
            }
            self.machine_mut(machine).pending.push_back(Pending { t, operation: *operation });
            self.held.count += 1;
            if self.held.count > self.held.most {
                self.relax("the others are too far ahead of it to be held back");
            }
            return;
        }
        let woken = self.execute(machine, t, operation);
        if !woken.is_empty() {
            self.wake_held(woken);
        }
    }

    /// Runs the waiting operations of these machines as far as possible, and of those that may
    /// continue after that.
    pub fn wake_held(&mut self, mut woken: Vec<u32>) {
        while let Some(machine) = woken.pop() {
            self.run_waiting(MachineId(machine), &mut woken);
        }
    }

    fn run_waiting(&mut self, machine: MachineId, woken: &mut Vec<u32>) {
        while let Some(&Pending { t, operation }) = self.machine(machine).pending.front() {
            if !self.is_ready(machine, &operation) {
                return;
            }
            self.machine_mut(machine).pending.pop_front();
            self.held.count -= 1;
            woken.extend(self.execute(machine, t, &operation));
            for slot in operation.slots().into_iter().flatten() {
                self.slots.release(slot);
            }
        }
    }

    /// Gives up worlds that wait for room that is never freed, until all operations can run.
    pub fn relax(&mut self, why: &'static str) {
        while self.held.count > 0 {
            let mut gone = self.give_up(true);
            if gone.is_empty() {
                gone = self.give_up(false);
            }
            for &scenario in &gone {
                self.held.given_up[scenario].get_or_insert(why);
            }
            let held = self.held.count;
            self.wake_held((0..self.machines.len() as u32).collect());
            if gone.is_empty() && self.held.count == held {
                return;
            }
        }
    }

    /// Gives up the worlds whose unit of room was never freed (`never`), or else those that wait
    /// for a machine that is itself waiting. Returns their scenarios.
    fn give_up(&mut self, never: bool) -> Vec<usize> {
        let mut gone = Vec::new();
        for machine in &self.machines {
            let Some(Pending { operation: Operation::RoomEnd { queue, unit, .. }, .. }) = machine.pending.front() else { continue };
            if let Some(capacity) = self.service.capacities.get_mut(queue) {
                gone.extend(capacity.give_up(*unit, never, &self.slots));
            }
        }
        gone
    }

    /// Returns whether an operation has all that it needs; if not, the machine is registered to be
    /// woken.
    fn is_ready(&mut self, machine: MachineId, operation: &Operation) -> bool {
        let needed = match *operation {
            Operation::Meet { arrival, .. } | Operation::BeginEarlier { arrival } | Operation::TakeLock { arrival, .. } => {
                Some(arrival.slot)
            }
            Operation::AddInterruption { slot, .. } => Some(slot),
            Operation::PublishPassed { passed, .. } => passed.map(|passed| passed.slot),
            Operation::StartOnCpu(CpuStart { left, .. }) => left.map(|left| left.slot),
            Operation::BeginContext { below, .. } => below,
            Operation::RoomEnd { queue, unit, .. } => {
                let capacity = self.service.capacities.get_mut(&queue);
                match capacity.map(|capacity| capacity.needed(unit, machine, &self.slots)) {
                    Some(Err(missing)) => {
                        if let Some(slot) = missing {
                            self.slots.wait(slot, machine.0);
                        }
                        return false;
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        match needed {
            Some(slot) if !self.slots.is_filled(slot) => {
                self.slots.wait(slot, machine.0);
                false
            }
            _ => true,
        }
    }
}
