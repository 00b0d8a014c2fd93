//! CPUs in the trace: which machine takes the CPU that another one left, and which machine is the
//! recorder.
//!
//! The trace does not tell which CPU a machine has. A machine takes the CPU that was left at the
//! same moment, or else the one that has been free the longest; the machines that had one CPU in
//! this way are its chain.

use super::state::Translation;
use crate::what_if::operation::{CpuStart, Leaving, LeftCpu, Operation};
use longpole_model::interaction::{MachineId, Vocabulary};

/// Largest number of free CPUs that are remembered for a host.
const MAX_CPUS: usize = 1024;

impl Translation {
    /// Gives a CPU to a machine that waited for one and does something. It is the one that was left
    /// at this moment, or else the one that has been free the longest.
    pub fn take_cpu(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let Some(ready) = self.machine(machine).cpu.ready.take() else { return };
        let (now, host) = (self.clock.now, vocabulary.host_id(machine));
        let free = self.free_cpus.of(host, Vec::new);
        let found = free.iter().rposition(|cpu| cpu.1 == now).or_else(|| (0..free.len()).min_by_key(|&at| free[at].1));
        let cpu = found.map(|at| free.remove(at));
        if let Some((left, _)) = cpu.filter(|_| self.machine(machine).is_recorder) {
            self.note_recorder_follows(left);
        }
        let ns = now - cpu.map_or(ready, |cpu| cpu.1.max(ready)).min(now);
        let waits_as = self.machine(machine).cpu.waits_as;
        let key = self.state_key(vocabulary, machine, waits_as);
        let awaited = cpu.filter(|cpu| cpu.1 == now).map_or(0, |_| now - ready.min(now));
        if !self.machine(machine).cpu.has_cpu {
            self.replay.use_cpu(host, now, Some(awaited));
        }
        let (left, off) = (cpu.map(|cpu| cpu.0), self.machine(machine).cpu.off.take());
        self.issue(machine, Operation::StartOnCpu(CpuStart { left, off, ns: ns as f64, key, host }));
        if let Some(off) = off {
            self.forget_cpu(off);
        }
        let chain = left.map_or_else(|| self.new_chain(), |left| left.chain);
        if let Some(left) = left {
            self.forget_cpu(left);
        }
        let traced = self.machine(machine);
        (traced.cpu.has_cpu, traced.cpu.chain) = (true, chain);
        traced.stack.disturbed |= traced.stack.above > 0;
    }

    fn new_chain(&mut self) -> u32 {
        self.chains = self.chains.wrapping_add(1);
        self.chains
    }

    /// The machine leaves its CPU, which is free for another one.
    pub fn leave_cpu(&mut self, vocabulary: &Vocabulary, machine: MachineId, why: Leaving) {
        let had = std::mem::take(&mut self.machine(machine).cpu.has_cpu);
        // Which CPU it was is unknown.
        match had {
            true => self.replay.use_cpu(vocabulary.host_id(machine), self.clock.now, None),
            false => self.machine(machine).cpu.chain = self.new_chain(),
        }
        let (now, host) = (self.clock.now, vocabulary.host_id(machine));
        let (chain, by_recorder) = (self.machine(machine).cpu.chain, self.machine(machine).is_recorder);
        let [slot, got_at, stay, busy] = std::array::from_fn(|_| self.replay.make_slot());
        let left = LeftCpu { slot, got_at, stay, busy, chain, why, by: machine, by_recorder, to_recorder: false };
        self.issue(machine, Operation::LeaveCpu { left });
        if why != Leaving::Done {
            self.replay.hold_cpu(left);
            self.machine(machine).cpu.off = Some(left);
        }
        let free = self.free_cpus.of(host, Vec::new);
        free.push((left, now));
        if free.len() > MAX_CPUS {
            let (left, _) = free.remove(0);
            self.forget_cpu(left);
        }
    }

    /// Releases the slots of a CPU that was left.
    pub fn forget_cpu(&mut self, left: LeftCpu) {
        self.replay.release_cpu(left);
    }

    /// Updates whether a machine is the recorder, as far as is known. A machine whose end is
    /// requested is part of the system.
    pub fn update_recorder(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let records = vocabulary.is_recorder(machine) && self.end_machine.requested != Some(machine);
        if self.machine(machine).is_recorder != records {
            self.machine(machine).is_recorder = records;
            self.issue(machine, Operation::SetRecorder(records));
        }
    }

    /// Makes a machine that the recorder starts begin when it did in the trace.
    pub fn begin_by(&mut self, machine: MachineId, by: MachineId) {
        if self.machine(by).is_recorder {
            let records = self.machine(machine).is_recorder;
            self.issue(machine, Operation::SetRecorder(records));
        }
    }

    /// Notes that the recorder takes this CPU: the machine that was put off it would have
    /// continued.
    fn note_recorder_follows(&mut self, left: LeftCpu) {
        if let Some(off) = self.machine(left.by).cpu.off.as_mut().filter(|off| off.slot == left.slot) {
            off.to_recorder = true;
        }
    }
}
