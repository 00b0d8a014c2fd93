//! Times of CPUs and threads, from the kernel's own events.
//!
//! Each nanosecond of a CPU belongs to exactly one part. A thread's running time excludes the
//! interrupts on top of it, which are reported separately.

use crate::scheduling::blocked::{Blocked, Blocks};
use crate::scheduling::probed::{CpuTime, Instances};
use crate::stats::growing::entry;
use crate::stats::samples::Samples;
use longpole_model::linux::watch::{
    Base, BlockReason, ContextId, CpuId, MaskChange, Mode, Occupant, Start, TaskState, ThreadId, ThreadState, UnknownReason, Wake, Waker,
    Watch,
};
use longpole_model::linux::{Linux, Thread};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Collects the times of CPUs and threads during the pass.
#[derive(Debug, Default)]
pub struct CpuTimes {
    cpus: Vec<Parts>,
    threads: Vec<ThreadParts>,
}

/// Time of a CPU by part, in nanoseconds.
#[derive(Debug, Default)]
struct Parts {
    idle: u64,
    thread: u64,
    unclaimed: u64,
    lost: u64,
    contexts: Vec<u64>,
}

/// Time of a thread by state, in nanoseconds, and its CPUs.
#[derive(Debug, Default)]
struct ThreadParts {
    /// Running time with unknown mode, in the thread's own code, and in system calls.
    running: [u64; 3],
    interrupted: u64,
    runnable: u64,
    preempted: u64,
    blocked: u64,
    uninterruptible: u64,
    instances: Samples,
    used: BTreeSet<CpuId>,
    /// Running time on each CPU, by the index of the CPU.
    by_cpu: Vec<u64>,
    /// CPUs that were used since each change of the affinity mask.
    used_since: Vec<BTreeSet<CpuId>>,
    woken_by: BTreeMap<ContextId, (u64, BTreeSet<CpuId>)>,
    blocks: Blocks,
    last: Option<CpuId>,
    migrations: u64,
}

impl ThreadParts {
    fn runs_on(&mut self, cpu: CpuId) {
        if self.last != Some(cpu) {
            self.migrations += u64::from(self.last.is_some());
            self.last = Some(cpu);
            self.used.insert(cpu);
        }
        if let Some(since) = self.used_since.last_mut() {
            since.insert(cpu);
        }
    }
}

impl ThreadParts {
    fn cpu_ns(&self, linux: &Linux) -> Vec<(u32, u64)> {
        let of = self.by_cpu.iter().zip(&linux.cpus).map(|(ns, cpu)| (cpu.number, *ns));
        of.filter(|(_, ns)| *ns > 0).collect()
    }

    fn changes(&self, thread: &Thread, linux: &Linux, numbers: &dyn Fn(&BTreeSet<CpuId>) -> Vec<u32>) -> Vec<AllowedChange> {
        let why = |change: &MaskChange| match (&change.cpus, change.why) {
            (Some(_), _) => None,
            (None, Some(why)) if linux.has_mask_answers() => Some(reason(why)),
            (None, None) if linux.has_mask_answers() => {
                Some("the recorder did not ask: it does not watch these calls while many events come")
            }
            (None, _) => Some("unknown"),
        };
        let allowed_change = |(change, used): (&MaskChange, &BTreeSet<CpuId>)| AllowedChange {
            t_ns: change.t_ns,
            allowed_cpus: change.cpus.as_ref().map(|cpus| cpus.to_vec()),
            why_unknown: why(change),
            used_cpus: numbers(used),
            by_tid: change.by.map(|by| linux.threads[by.0 as usize].tid),
        };
        thread.mask.changes().iter().zip(&self.used_since).map(allowed_change).collect()
    }

    /// Returns the interrupts and softirqs that woke the thread, the most frequent first.
    fn wakers(&self, linux: &Linux, numbers: &dyn Fn(&BTreeSet<CpuId>) -> Vec<u32>) -> Vec<WakerLine> {
        let line = |(id, (count, cpus)): (&ContextId, &(u64, BTreeSet<CpuId>))| {
            let context = &linux.contexts[id.0 as usize];
            let allowed_cpus = context.allowed.as_ref().map(|cpus| cpus.to_vec());
            WakerLine { name: context.name.clone(), count: *count, cpus: numbers(cpus), allowed_cpus }
        };
        let mut lines: Vec<WakerLine> = self.woken_by.iter().map(line).collect();
        lines.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        lines
    }
}

/// The times of one thread, with its ids.
#[derive(Debug)]
pub struct KernelThread {
    pub tid: i32,
    pub pid: Option<i32>,
    pub name: String,
    pub total_ns: u64,
    pub running_ns: u64,
    /// Time in system calls; `None` if the trace holds none.
    pub syscall_ns: Option<u64>,
    pub interrupted_ns: u64,
    pub runnable_ns: u64,
    pub preempted_ns: u64,
    pub blocked_ns: u64,
    pub uninterruptible_ns: u64,
    pub unknown_ns: u64,
    pub instances: u64,
    pub instance_ns: Option<Instances>,
    pub used_cpus: Vec<u32>,
    /// Running time on each CPU that the thread used, by the number of the CPU.
    pub cpu_ns: Vec<(u32, u64)>,
    pub interrupt_cpus: Vec<u32>,
    pub wakers: Vec<WakerLine>,
    pub migrations: u64,
    pub allowed_cpus: Option<Vec<u32>>,
    pub allowed_why_unknown: Option<&'static str>,
    pub allowed_change_count: u64,
    pub allowed_changes: Vec<AllowedChange>,
    pub blocked: Vec<Blocked>,
}

/// An interrupt or softirq that woke a thread.
#[derive(Debug, Serialize)]
pub struct WakerLine {
    pub name: String,
    pub count: u64,
    /// CPUs on which it ran at these times.
    pub cpus: Vec<u32>,
    /// CPUs on which it may run; null for those without such a mask.
    pub allowed_cpus: Option<Vec<u32>>,
}

/// Returns a reason as text for people.
fn reason(why: UnknownReason) -> &'static str {
    match why {
        UnknownReason::Gone => "the thread was gone before it could be asked",
        UnknownReason::Again => "it was changed again before the thread answered",
        UnknownReason::Changing => "it was being changed when the thread was asked",
        UnknownReason::Damaged => "the answer of the thread is damaged",
        UnknownReason::AtEnd => "it was different at the end of the recording, without a call: a cpuset changed, or a CPU went offline",
        UnknownReason::ForeignRuntime => "the mask of an unknown thread in another pid namespace was changed later",
    }
}

/// A change of the CPUs on which a thread may run.
#[derive(Debug, Serialize)]
pub struct AllowedChange {
    pub t_ns: i64,
    /// The new mask; null if it is unknown.
    pub allowed_cpus: Option<Vec<u32>>,
    /// Reason for which the mask is unknown.
    pub why_unknown: Option<&'static str>,
    /// CPUs that the thread used from then on, until the next change.
    pub used_cpus: Vec<u32>,
    /// Thread that changed the mask; null if unknown.
    pub by_tid: Option<i32>,
}

impl CpuTimes {
    fn thread(&mut self, id: ThreadId) -> &mut ThreadParts {
        entry(&mut self.threads, id.0)
    }

    /// Returns the sum to which such a piece is added.
    fn place(&mut self, cpu: CpuId, by: Occupant) -> &mut u64 {
        let parts = entry(&mut self.cpus, cpu.0);
        match by {
            Occupant::Idle => &mut parts.idle,
            Occupant::Thread(_) => &mut parts.thread,
            Occupant::Context(id) => entry(&mut parts.contexts, id.0),
            Occupant::Unclaimed => &mut parts.unclaimed,
            Occupant::Lost => &mut parts.lost,
        }
    }

    /// Returns the parts of each CPU, in the order of CPU numbers.
    pub fn cpus(&self, linux: &Linux) -> Vec<CpuTime> {
        let total_ns = linux.range().map_or(0, |(begin, end)| (end - begin) as u64);
        let none = Parts::default();
        let mut out: Vec<CpuTime> = linux
            .cpus
            .iter()
            .enumerate()
            .map(|(at, cpu)| {
                let parts = self.cpus.get(at).unwrap_or(&none);
                let contexts = |softirq: bool| {
                    let of_kind = parts.contexts.iter().zip(&linux.contexts).filter(|(_, context)| context.key.is_softirq() == softirq);
                    of_kind.map(|(ns, _)| ns).sum()
                };
                CpuTime {
                    cpu: cpu.number,
                    total_ns,
                    idle_ns: parts.idle,
                    irq_ns: contexts(false),
                    softirq_ns: contexts(true),
                    thread_ns: parts.thread,
                    unknown_ns: parts.unclaimed + parts.lost,
                    lost: cpu.lost,
                }
            })
            .collect();
        out.sort_by_key(|cpu| cpu.cpu);
        out
    }

    /// Returns the threads that existed at some time of the range, without the idle threads.
    pub fn threads(&self, linux: &Linux) -> Vec<KernelThread> {
        let Some((begin, end)) = linux.range() else { return Vec::new() };
        let none = ThreadParts::default();
        let numbers = |cpus: &BTreeSet<CpuId>| {
            let mut numbers: Vec<u32> = cpus.iter().map(|cpu| linux.cpus[cpu.0 as usize].number).collect();
            numbers.sort_unstable();
            numbers
        };
        let mut out = Vec::new();
        for (at, thread) in linux.threads.iter().enumerate() {
            let parts = self.threads.get(at).unwrap_or(&none);
            let (born, died) = (thread.born_ns.unwrap_or(begin).max(begin), thread.died_ns.unwrap_or(end).min(end));
            if born > end || died < begin {
                continue;
            }
            let total_ns = died.saturating_sub(born).max(0) as u64;
            let running_ns: u64 = parts.running.iter().sum();
            let known = running_ns + parts.interrupted + parts.runnable + parts.preempted + parts.blocked;
            let times = parts.instances.times();
            let instance_ns = times.min_ns.zip(times.mean_ns).zip(times.max_ns);
            out.push(KernelThread {
                tid: thread.tid,
                pid: thread.process,
                name: thread.name(),
                total_ns,
                running_ns,
                syscall_ns: (linux.counts.system_calls.in_all > 0).then_some(parts.running[2]),
                interrupted_ns: parts.interrupted,
                runnable_ns: parts.runnable + parts.preempted,
                preempted_ns: parts.preempted,
                blocked_ns: parts.blocked,
                uninterruptible_ns: parts.uninterruptible,
                unknown_ns: total_ns.saturating_sub(known),
                instances: parts.instances.count(),
                instance_ns: instance_ns.map(|((min, mean), max)| Instances { min, mean, max }),
                used_cpus: numbers(&parts.used),
                cpu_ns: parts.cpu_ns(linux),
                wakers: parts.wakers(linux, &numbers),
                allowed_cpus: thread.mask.at_begin().map(|cpus| cpus.to_vec()),
                allowed_why_unknown: thread.mask.why().map(reason),
                allowed_change_count: thread.mask.count(),
                allowed_changes: parts.changes(thread, linux, &numbers),
                blocked: parts.blocks.answer(linux),
                interrupt_cpus: numbers(&parts.woken_by.values().flat_map(|(_, cpus)| cpus.iter().copied()).collect()),
                migrations: parts.migrations,
            });
        }
        out
    }
}

impl Watch for CpuTimes {
    fn occupied(&mut self, cpu: CpuId, by: Occupant, base: Base, mode: Mode, begin_ns: i64, end_ns: i64) {
        let ns = (end_ns - begin_ns) as u64;
        *self.place(cpu, by) += ns;
        match (by, base) {
            (Occupant::Thread(id), _) => {
                let thread = self.thread(id);
                thread.running[mode as usize] += ns;
                *entry(&mut thread.by_cpu, cpu.0) += ns;
                thread.runs_on(cpu);
            }
            (Occupant::Context(_), Base::Thread(id)) => self.thread(id).interrupted += ns,
            _ => {}
        }
    }

    fn claimed(&mut self, cpu: CpuId, base: Base, ns: u64, interrupts_ns: u64) {
        let unclaimed = self.place(cpu, Occupant::Unclaimed);
        *unclaimed = unclaimed.saturating_sub(ns);
        match base {
            Base::Thread(id) => {
                *self.place(cpu, Occupant::Thread(id)) += ns;
                let thread = self.thread(id);
                thread.running[Mode::Unknown as usize] += ns;
                *entry(&mut thread.by_cpu, cpu.0) += ns;
                thread.interrupted += interrupts_ns;
                thread.runs_on(cpu);
            }
            Base::Idle => *self.place(cpu, Occupant::Idle) += ns,
            Base::Unknown => *self.place(cpu, Occupant::Unclaimed) += ns,
        }
    }

    fn retracted(&mut self, cpu: CpuId, by: Occupant, base: Base, mode: Mode, begin_ns: i64, end_ns: i64) {
        let ns = (end_ns - begin_ns) as u64;
        // A piece that has been claimed since then belongs to another occupant and remains.
        let place = self.place(cpu, by);
        if *place < ns {
            return;
        }
        *place -= ns;
        *self.place(cpu, Occupant::Lost) += ns;
        match (by, base) {
            (Occupant::Thread(id), _) => {
                let thread = self.thread(id);
                for sum in [&mut thread.running[mode as usize], entry(&mut thread.by_cpu, cpu.0)] {
                    *sum = sum.saturating_sub(ns);
                }
            }
            (Occupant::Context(_), Base::Thread(id)) => {
                let thread = self.thread(id);
                thread.interrupted = thread.interrupted.saturating_sub(ns);
            }
            _ => {}
        }
    }

    fn was(&mut self, id: ThreadId, state: ThreadState, begin_ns: i64, end_ns: i64) {
        let ns = (end_ns - begin_ns) as u64;
        let thread = self.thread(id);
        match state {
            ThreadState::Runnable => thread.runnable += ns,
            ThreadState::Preempted => thread.preempted += ns,
            ThreadState::Blocked(reason) => {
                thread.blocked += ns;
                if reason == TaskState::Uninterruptible {
                    thread.uninterruptible += ns;
                }
            }
            ThreadState::Unknown | ThreadState::Running | ThreadState::Dead => {}
        }
    }

    fn allowed(&mut self, id: ThreadId, _t_ns: i64) {
        self.thread(id).used_since.push(BTreeSet::new());
    }

    fn disallowed(&mut self, id: ThreadId) {
        let since = &mut self.thread(id).used_since;
        if let (Some(none), Some(before)) = (since.pop(), since.last_mut()) {
            before.extend(none);
        }
    }

    fn blocked(&mut self, id: ThreadId, why: BlockReason, begin_ns: i64, end_ns: i64) {
        self.thread(id).blocks.add(why, (end_ns - begin_ns) as u64);
    }

    fn stopped(&mut self, id: ThreadId, _cpu: CpuId, _begin_ns: i64, _end_ns: i64, own_ns: u64) {
        self.thread(id).instances.record(own_ns);
    }

    fn started(&mut self, start: &Start) {
        if let Some(Wake { cpu, waker: Waker::Context { id, .. }, .. }) = start.wake {
            let (count, cpus) = self.thread(start.thread).woken_by.entry(id).or_default();
            *count += 1;
            cpus.insert(cpu);
        }
    }
}
