//! The recorder is not part of the analysed system: in worlds without recording it delays no
//! machine and uses no CPU.
//!
//! Its work stays as it was where the trace itself is judged
//! ([`crate::what_if::worlds::time_vector`]: observed, gate, with recording). In all other worlds a
//! machine that depends on the recorder does not wait for it. A CPU that the recorder leaves is
//! handed on in the state in which the recorder got it, as if the machine before had just left it,
//! so that machines that share a CPU exclude each other as before.

use super::replayed_machine::UnderRecorder;
use super::state::Replay;
use crate::what_if::operation::{Leaving, LeftCpu};
use crate::what_if::worlds::paths;
use crate::what_if::worlds::time_vector::{NEVER_DELAYS, OBSERVED};
use longpole_model::interaction::MachineId;

impl Replay {
    /// Makes the machine the recorder, or an ordinary machine; its time becomes that of the trace.
    pub fn set_recorder(&mut self, machine: MachineId, t: u64, records: bool) {
        let replayed = &mut self.machines[machine.0 as usize];
        replayed.is_recorder = records;
        for lane in self.layout.unrecorded() {
            (replayed.v[lane], replayed.cpu.works_since[lane]) = (t as f64, t as f64);
        }
    }

    /// Removes the effect of what the recorder just did from the worlds without recording.
    pub fn leave_out(&mut self, machine: MachineId) {
        let replayed = &mut self.machines[machine.0 as usize];
        self.layout.unrecorded().for_each(|lane| replayed.v[lane] = NEVER_DELAYS);
    }

    /// Notes that the recorder has got a CPU.
    pub fn recorder_takes_cpu(&mut self, machine: MachineId, left: Option<LeftCpu>) {
        let under = left.map(|left| {
            let lanes = |slot: u32| self.slots.lanes(slot).into();
            Box::new(UnderRecorder {
                left: lanes(left.slot),
                got_at: lanes(left.got_at),
                busy: lanes(left.busy),
                node: self.slots.node(left.slot),
            })
        });
        self.machines[machine.0 as usize].cpu.under = under;
    }

    /// Leaves the CPU: fills the slots with when the machine had got it, how long it worked there,
    /// and how long the CPU has been in use. Returns the machines that may continue.
    pub fn leave_cpu(&mut self, machine: MachineId, t: u64, left: LeftCpu) -> Vec<u32> {
        let unrecorded = self.layout.unrecorded();
        let replayed = &mut self.machines[machine.0 as usize];
        let under = replayed.cpu.under.take();
        replayed.leave_cpu(&mut self.scratch.times);
        let mut woken = self.slots.fill(left.stay, &self.scratch.times, paths::NONE);
        // The trace does not show when the machine got the CPU; that was not before the machine
        // began to work.
        let since = if replayed.cpu.got_at[OBSERVED] > 0.0 {
            &replayed.cpu.got_at
        } else {
            replayed.work_began.as_ref().unwrap_or(&replayed.cpu.got_at)
        };
        self.scratch.times.copy_from_slice(since);
        let is_left_out = replayed.is_recorder;
        if is_left_out {
            for lane in unrecorded {
                self.scratch.times[lane] = under.as_ref().map_or(NEVER_DELAYS, |under| under.got_at[lane]);
                replayed.cpu.busy[lane] = under.as_ref().map_or(0.0, |under| under.busy[lane]);
            }
        }
        woken.extend(self.slots.fill(left.got_at, &self.scratch.times, paths::NONE));
        woken.extend(self.slots.fill(left.busy, &replayed.cpu.busy, paths::NONE));
        replayed.cpu.got_at.fill(0.0);
        let mut node = self.times_at(machine, t);
        if let Some(under) = under.filter(|_| is_left_out) {
            self.layout.unrecorded().for_each(|lane| self.scratch.times[lane] = under.left[lane]);
            node = under.node;
        }
        let replayed = &mut self.machines[machine.0 as usize];
        if let Some(one) = replayed.cpu.host.take().and_then(|host| self.cpus.one.get_mut(host)) {
            let worlds = (self.layout, self.cpus.more.as_slice());
            one.leave(machine, worlds, left.why == Leaving::Done, &replayed.v, &mut self.scratch.times);
        }
        woken.extend(self.slots.fill(left.slot, &self.scratch.times, node));
        woken
    }
}
