//! The recorder is not part of the analysed system: in worlds without recording it delays no
//! machine and uses no CPU.
//!
//! Its work stays as it was where the trace itself is judged ([`super::lanes`]: observed, gate,
//! whole). In all other worlds a machine that depends on the recorder does not wait for it. A CPU
//! that the recorder leaves is handed on as the recorder got it: the machine before still has it as
//! long as it had it, so that machines that share a CPU exclude each other as before.

use super::cpus::LeftCpu;
use super::lanes::OBSERVED;
use super::ops::NEVER_DELAYS;
use super::what::What;
use super::{trail, WhatIf};
use longpole_model::interaction::{MachineId, Vocabulary};

/// The state of a CPU when the recorder got it: when it was left, when the previous machine had got
/// it, how long it had been in use, and the previous machine's trail.
#[derive(Debug)]
pub struct Under {
    left: Box<[f64]>,
    came: Box<[f64]>,
    busy: Box<[f64]>,
    node: u64,
}

impl WhatIf {
    /// Updates whether a machine is the recorder, as far as is known. A machine whose end is
    /// requested is part of the system.
    pub(super) fn look_who_records(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let records = vocabulary.is_recorder(machine) && self.asked != Some(machine);
        if self.life(machine).records != records {
            self.life(machine).records = records;
            self.op(machine, What::Records(records));
        }
    }

    /// Makes a machine that the recorder starts begin when it did in the trace.
    pub(super) fn begins_by(&mut self, machine: MachineId, by: MachineId) {
        if self.life(by).records {
            let records = self.life(machine).records;
            self.op(machine, What::Records(records));
        }
    }

    /// Makes the machine the recorder, or an ordinary machine; its time becomes that of the trace.
    pub(super) fn records(&mut self, machine: MachineId, t: u64, records: bool) {
        let replay = &mut self.lives[machine.0 as usize].replay;
        replay.records = records;
        for lane in self.layout.unrecorded() {
            (replay.v[lane], replay.works_since[lane]) = (t as f64, t as f64);
        }
    }

    /// Removes the effect of what the recorder just did from the worlds without recording.
    pub(super) fn leave_out(&mut self, machine: MachineId) {
        let replay = &mut self.lives[machine.0 as usize].replay;
        self.layout.unrecorded().for_each(|lane| replay.v[lane] = NEVER_DELAYS);
    }

    /// Notes that the recorder takes this CPU: the machine that was put off it would have
    /// continued.
    pub(super) fn gives_way(&mut self, left: LeftCpu) {
        if let Some(off) = self.life(left.by).off.as_mut().filter(|off| off.slot == left.slot) {
            off.to_recorder = true;
        }
    }

    /// Notes that the recorder has got a CPU.
    pub(super) fn takes_over(&mut self, machine: MachineId, left: Option<LeftCpu>) {
        let under = left.map(|left| {
            let lanes = |slot: u32| self.slots.lanes(slot).into();
            Box::new(Under { left: lanes(left.slot), came: lanes(left.came), busy: lanes(left.busy), node: self.slots.node(left.slot) })
        });
        self.lives[machine.0 as usize].replay.under = under;
    }

    /// Leaves the CPU: fills the slots with when the machine had got it, how long it worked there,
    /// and how long the CPU has been in use. Returns the machines that may continue.
    pub(super) fn leaves_cpu(&mut self, machine: MachineId, t: u64, left: LeftCpu) -> Vec<u32> {
        let unrecorded = self.layout.unrecorded();
        let replay = &mut self.lives[machine.0 as usize].replay;
        let under = replay.under.take();
        replay.leaves_cpu(&mut self.scratch);
        let mut woken = self.slots.fill(left.stay, &self.scratch, trail::NONE);
        // The trace does not show when the machine got the CPU; that was not before the machine
        // began to work.
        let since = if replay.came[OBSERVED] > 0.0 { &replay.came } else { replay.began.as_ref().unwrap_or(&replay.came) };
        self.scratch.copy_from_slice(since);
        let is_left_out = replay.records;
        if is_left_out {
            for lane in unrecorded {
                self.scratch[lane] = under.as_ref().map_or(NEVER_DELAYS, |under| under.came[lane]);
                replay.busy[lane] = under.as_ref().map_or(0.0, |under| under.busy[lane]);
            }
        }
        woken.extend(self.slots.fill(left.came, &self.scratch, trail::NONE));
        woken.extend(self.slots.fill(left.busy, &replay.busy, trail::NONE));
        replay.came.fill(0.0);
        let mut node = self.times_at(machine, t);
        if let Some(under) = under.filter(|_| is_left_out) {
            self.layout.unrecorded().for_each(|lane| self.scratch[lane] = under.left[lane]);
            node = under.node;
        }
        self.leaves_one_cpu(machine, left);
        woken.extend(self.slots.fill(left.slot, &self.scratch, node));
        woken
    }
}
