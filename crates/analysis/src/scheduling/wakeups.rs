//! Delays from the wake-up of a thread to its start, and the occupants of the CPU meanwhile.

use crate::scheduling::blocked::{Blocked, Blocks};
use crate::scheduling::occupancy::{CpuHolder, Holders, Occupancy};
use crate::stats::growing::entry;
use crate::stats::histogram::Times;
use crate::stats::samples::Samples;
use longpole_model::linux::watch::{Base, BlockReason, CpuId, CpuWait, Mode, Occupant, Start, ThreadId, Watch};
use longpole_model::linux::Linux;
use serde::Serialize;

/// The delays of one thread.
#[derive(Debug, Serialize)]
pub struct SchedLine {
    pub tid: i32,
    pub pid: Option<i32>,
    pub name: String,
    /// Delays from wake-up to running.
    #[serde(flatten)]
    pub delay: Times,
    pub worst: Option<Worst>,
    /// Times without a CPU after preemptions.
    pub preempted: Times,
    /// Occupants of the CPU for which the thread waited after wake-ups; shares refer to the sum of
    /// its delays.
    pub kept_by: Vec<CpuHolder>,
    /// Reasons for which the thread was blocked before its wake-ups.
    pub blocked: Vec<Blocked>,
}

/// The longest delay of a thread.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Worst {
    /// Time at which the thread started.
    pub t_ns: i64,
    pub ns: u64,
    pub cpu: u32,
}

/// Collects the delays during the pass.
#[derive(Debug, Default)]
pub struct Delays {
    threads: Vec<ThreadDelays>,
    occupancy: Occupancy,
}

#[derive(Debug, Default)]
struct ThreadDelays {
    woken: Samples,
    preempted: Samples,
    worst: Option<(i64, u64, CpuId)>,
    holders: Holders,
    blocks: Blocks,
}

impl Delays {
    pub fn answer(&self, linux: &Linux) -> Vec<SchedLine> {
        let mut out = Vec::new();
        for (delays, thread) in self.threads.iter().zip(&linux.threads) {
            if delays.woken.is_empty() && delays.preempted.is_empty() {
                continue;
            }
            out.push(SchedLine {
                tid: thread.tid,
                pid: thread.process,
                name: thread.name(),
                delay: delays.woken.times(),
                worst: delays.worst.map(|(t_ns, ns, cpu)| Worst { t_ns, ns, cpu: linux.cpus[cpu.0 as usize].number }),
                preempted: delays.preempted.times(),
                kept_by: delays.holders.answer(linux),
                blocked: delays.blocks.answer(linux),
            });
        }
        out.sort_by(|a, b| b.delay.total_ns.cmp(&a.delay.total_ns).then(a.tid.cmp(&b.tid)));
        out
    }
}

impl Watch for Delays {
    fn occupied(&mut self, cpu: CpuId, by: Occupant, _base: Base, _mode: Mode, begin_ns: i64, end_ns: i64) {
        self.occupancy.occupied(cpu, by, begin_ns, end_ns);
    }

    fn claimed(&mut self, cpu: CpuId, base: Base, _ns: u64, _interrupts_ns: u64) {
        self.occupancy.claimed(cpu, base);
    }

    fn blocked(&mut self, id: ThreadId, why: BlockReason, begin_ns: i64, end_ns: i64) {
        entry(&mut self.threads, id.0).blocks.add(why, (end_ns - begin_ns) as u64);
    }

    fn waited(&mut self, wait: &CpuWait) {
        if wait.preempted {
            return;
        }
        let holders = &mut entry(&mut self.threads, wait.thread.0).holders;
        self.occupancy.add(wait, wait.begin_ns, wait.end_ns, holders);
    }

    fn started(&mut self, start: &Start) {
        let ns = start.t_ns.saturating_sub(start.ready_ns).max(0) as u64;
        let place = entry(&mut self.threads, start.thread.0);
        if start.preempted {
            place.preempted.record(ns);
            return;
        }
        place.woken.record(ns);
        if place.worst.is_none_or(|(_, worst, _)| worst < ns) {
            place.worst = Some((start.t_ns, ns, start.cpu));
        }
    }
}
