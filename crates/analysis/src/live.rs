//! What a live view shows of one period of a running system, and of the periods before.
//!
//! A period is a short recording of its own, which was read like any other. [`Period::new`] reduces
//! the answers about it to shares of the period; it measures nothing itself. [`history`] stores the
//! shares of the last periods, and [`order`] sorts and selects threads.

pub mod history;
pub mod order;

use crate::critical_path::rows_by_class;
use crate::latency::Kind;
use crate::report::Report;
use crate::scheduling::probed::{Cpu, CpuTime, ThreadTime};
use order::Order;
use serde::Serialize;
use std::collections::HashMap;

/// One period. Shares are of the length of the period, 0 to 1.
#[derive(Clone, Debug, Serialize)]
pub struct Period {
    /// Number of the period since the begin, from 1.
    pub number: u64,
    /// Number of periods directly before this one that were recorded and not analysed.
    pub skipped: u64,
    /// Unix times in ns.
    pub begin_ns: i64,
    pub end_ns: i64,
    pub events: Events,
    /// The CPUs, by number. `None` without events of the kernel.
    pub cpus: Option<Vec<CpuUse>>,
    /// The threads that existed, those with the most CPU time first.
    pub threads: Vec<ThreadUse>,
    pub queues: Vec<QueueLevel>,
    /// Calls, spans, signals and activities of probes, those with the most time first.
    pub latencies: Vec<Latency>,
    /// The first entry of the critical path. `None` if there is no path.
    pub path: Option<OnPath>,
    /// The text of the verdict.
    pub verdict: String,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Events {
    /// Number of events of probes.
    pub probes: u64,
    pub probes_lost: u64,
    pub kernel: u64,
    pub kernel_lost: u64,
}

/// The use of one CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuUse {
    pub cpu: u32,
    /// Share in which the CPU was not idle, as far as known.
    pub busy: f64,
    pub irq: f64,
    pub softirq: f64,
    pub unknown: f64,
    /// The threads with the most time on this CPU, at most [`MAX_CONSUMERS`].
    pub consumers: Vec<Consumer>,
}

/// Number of threads that are listed for a CPU.
pub const MAX_CONSUMERS: usize = 64;

/// A thread on a CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Consumer {
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    pub process: String,
    pub name: String,
    pub share: f64,
}

/// The times of one thread, as shares of the period.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadUse {
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    /// Name of the process; empty if it is that of the thread.
    pub process: String,
    pub name: String,
    /// Share in which it ran. Without events of the kernel, that in which its probes show no wait.
    pub running: f64,
    /// Part of `running` in system calls; `None` if it is unknown.
    pub calls: Option<f64>,
    /// Share in which it was ready without a CPU; `None` if it is unknown.
    pub runnable: Option<f64>,
    /// Share in which it waited.
    pub blocked: f64,
    pub state: LiveState,
    /// What it waited for, for the longest time: a system call, a lock, a disk. Without events of
    /// the kernel, the state of its probes with the most time.
    pub detail: Option<String>,
    /// Name of the state of its probes with the most time; `None` without probes.
    pub probe_state: Option<String>,
    pub lost: u64,
}

/// What a thread did for most of the period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LiveState {
    Running,
    /// Running, for the most part in system calls.
    Call,
    Runnable,
    Blocked,
    Unknown,
}

impl LiveState {
    pub fn name(self) -> &'static str {
        match self {
            LiveState::Running => "running",
            LiveState::Call => "in calls",
            LiveState::Runnable => "runnable",
            LiveState::Blocked => "blocked",
            LiveState::Unknown => "unknown",
        }
    }
}

/// The level of a queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueLevel {
    pub name: String,
    pub capacity: Option<u64>,
    pub unit: &'static str,
    pub mean: Option<f64>,
    pub max: Option<u64>,
    pub full: Option<f64>,
    pub empty: Option<f64>,
    pub puts: u64,
    pub gets: u64,
}

/// Times of one call, span, signal or activity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    pub kind: Kind,
    pub name: String,
    pub machine: Option<String>,
    pub peer: Option<String>,
    pub count: u64,
    pub mean_ns: Option<f64>,
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub max_ns: Option<u64>,
    pub total_ns: u64,
}

/// An entry of the critical path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OnPath {
    pub machine: String,
    pub state: String,
    /// Share of the path.
    pub share: f64,
}

/// Begin and end of a period, in Unix times in ns.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    pub begin_ns: i64,
    pub end_ns: i64,
}

impl Length {
    fn ns(self) -> f64 {
        (self.end_ns.saturating_sub(self.begin_ns)).max(1) as f64
    }
}

/// Number of a period, and of the periods directly before it that were not analysed.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    pub number: u64,
    pub skipped: u64,
}

impl Period {
    /// Returns the period with these numbers. `recorded` is the time that its recording covers;
    /// `cpu` and `report` are the answers about it.
    pub fn new(numbers: Numbers, recorded: Length, cpu: &Cpu, report: &Report) -> Period {
        // Events of the kernel show the time exactly for which the CPUs are known.
        let period_ns = cpu.cpus.iter().map(|cpu| cpu.total_ns).max().filter(|&ns| ns > 0).map_or(recorded.ns(), |ns| ns as f64);
        let of_kernel = !cpu.cpus.is_empty();
        let processes = processes(&cpu.threads);
        let thread = |thread: &ThreadTime| ThreadUse::new(thread, &processes, (period_ns, of_kernel));
        let mut threads: Vec<ThreadUse> = cpu.threads.iter().map(thread).collect();
        order::sort(&mut threads, order::Order::Running);
        let inputs = &report.inputs;
        let mut latencies: Vec<Latency> = report.latency.iter().map(Latency::new).collect();
        latencies.sort_by(|a, b| (a.kind as u8, b.total_ns, &a.name).cmp(&(b.kind as u8, a.total_ns, &b.name)));
        Period {
            number: numbers.number,
            skipped: numbers.skipped,
            begin_ns: recorded.begin_ns,
            end_ns: recorded.end_ns,
            events: Events {
                probes: inputs.events,
                probes_lost: inputs.lost,
                kernel: inputs.kernel_events,
                kernel_lost: inputs.kernel_lost,
            },
            cpus: of_kernel.then(|| cpu.cpus.iter().map(|of| CpuUse::new(of, &cpu.threads, &processes)).collect()),
            threads,
            queues: report.queues.iter().map(QueueLevel::new).collect(),
            latencies,
            path: report.criticality.as_deref().and_then(OnPath::first),
            verdict: report.verdict.text(),
        }
    }

    /// Adds what the probes of the same period show, if they were recorded elsewhere.
    pub fn with_probes(mut self, probes: Period) -> Period {
        self.events.probes = probes.events.probes;
        self.events.probes_lost = probes.events.probes_lost;
        for of_probes in probes.threads {
            let is_same = |thread: &&mut ThreadUse| thread.tid.is_some() && thread.pid == of_probes.pid && thread.tid == of_probes.tid;
            match self.threads.iter_mut().find(is_same) {
                Some(thread) => (thread.probe_state, thread.lost) = (of_probes.probe_state, of_probes.lost),
                None => self.threads.push(of_probes),
            }
        }
        order::sort(&mut self.threads, Order::Running);
        Period { queues: probes.queues, latencies: probes.latencies, ..self }
    }

    /// Length of the period in seconds.
    pub fn seconds(&self) -> f64 {
        Length { begin_ns: self.begin_ns, end_ns: self.end_ns }.ns() / 1e9
    }
}

/// Names of processes: that of the thread with the number of the process.
fn processes(threads: &[ThreadTime]) -> HashMap<i32, &str> {
    let main = threads.iter().filter(|thread| thread.pid.is_some() && thread.pid == thread.tid);
    main.filter_map(|thread| Some((thread.pid?, process_in_name(thread).unwrap_or(&thread.name)))).collect()
}

/// Returns the name of the process in the name of a thread with probes: `process/thread`. `None`
/// for a thread that only the kernel's events name.
fn process_in_name(thread: &ThreadTime) -> Option<&str> {
    let (process, _) = thread.name.split_once('/').filter(|_| !thread.states.is_empty())?;
    Some(process)
}

/// Returns the name of the thread's process; empty if the name of the thread has it already.
fn process<'a>(thread: &ThreadTime, processes: &HashMap<i32, &'a str>) -> &'a str {
    let name = thread.pid.and_then(|pid| processes.get(&pid)).copied().unwrap_or("");
    if name == thread.name || process_in_name(thread).is_some() {
        return "";
    }
    name
}

impl ThreadUse {
    fn new(thread: &ThreadTime, processes: &HashMap<i32, &str>, (period_ns, of_kernel): (f64, bool)) -> ThreadUse {
        let share = |ns: u64| (ns as f64 / period_ns).min(1.0);
        let (running, blocked) = (share(thread.running_ns.unwrap_or(0)), share(thread.blocked_ns.unwrap_or(0)));
        let runnable = thread.runnable_ns.map(share);
        let calls = thread.kernel.as_ref().and_then(|kernel| kernel.syscall_ns).map(share);
        let waits_for = thread.blocked.as_ref().and_then(|all| all.first()).filter(|_| blocked > 0.0).map(|blocked| blocked.reason.clone());
        let probe_state = thread.states.first().map(|state| state.state.clone());
        let known = running + blocked + runnable.unwrap_or(0.0);
        let state = [
            (running, if calls.is_some_and(|calls| calls > running / 2.0) { LiveState::Call } else { LiveState::Running }),
            (runnable.unwrap_or(0.0), LiveState::Runnable),
            (blocked, LiveState::Blocked),
            (share(thread.total_ns) - known, LiveState::Unknown),
        ];
        let most = state.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or(LiveState::Unknown, |(_, state)| state);
        ThreadUse {
            pid: thread.pid,
            tid: thread.tid,
            process: process(thread, processes).to_owned(),
            name: thread.name.clone(),
            running,
            calls,
            runnable,
            blocked,
            state: most,
            detail: if of_kernel { waits_for } else { probe_state.clone() },
            probe_state,
            lost: thread.lost,
        }
    }
}

impl CpuUse {
    fn new(of: &CpuTime, threads: &[ThreadTime], processes: &HashMap<i32, &str>) -> CpuUse {
        let share = |ns: u64| ns as f64 / of.total_ns.max(1) as f64;
        let on = |thread: &ThreadTime| {
            let by_cpu = &thread.kernel.as_ref()?.cpu_ns;
            let ns = by_cpu.iter().find(|(cpu, _)| *cpu == of.cpu)?.1;
            let process = process(thread, processes).to_owned();
            Some(Consumer { pid: thread.pid, tid: thread.tid, process, name: thread.name.clone(), share: share(ns) })
        };
        let mut consumers: Vec<Consumer> = threads.iter().filter_map(on).collect();
        consumers.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| (&a.name, a.tid).cmp(&(&b.name, b.tid))));
        consumers.truncate(MAX_CONSUMERS);
        CpuUse {
            cpu: of.cpu,
            busy: share(of.irq_ns + of.softirq_ns + of.thread_ns),
            irq: share(of.irq_ns),
            softirq: share(of.softirq_ns),
            unknown: share(of.unknown_ns),
            consumers,
        }
    }
}

impl QueueLevel {
    fn new(queue: &crate::queues::QueueAnswer) -> QueueLevel {
        QueueLevel {
            name: queue.name.clone(),
            capacity: queue.capacity,
            unit: queue.unit,
            mean: queue.depth.mean,
            max: queue.depth.max,
            full: queue.full_share,
            empty: queue.empty_share,
            puts: queue.puts,
            gets: queue.gets,
        }
    }
}

impl Latency {
    fn new(latency: &crate::latency::Latency) -> Latency {
        let times = &latency.times;
        Latency {
            kind: latency.kind,
            name: latency.name.clone(),
            machine: latency.machine.clone(),
            peer: latency.peer.clone(),
            count: times.count,
            mean_ns: times.mean_ns,
            p50_ns: times.p50_ns,
            p99_ns: times.p99_ns,
            max_ns: times.max_ns,
            total_ns: times.total_ns,
        }
    }
}

impl OnPath {
    fn first(rows: &[crate::critical_path::Row]) -> Option<OnPath> {
        let first = rows_by_class(rows).into_iter().next()?;
        Some(OnPath { machine: first.machine, state: first.state, share: first.share })
    }
}
