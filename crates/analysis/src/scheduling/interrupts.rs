//! Interrupts, softirqs and timers: their number, times, delays, and the time until a thread that
//! they woke started.

use crate::stats::growing::entry;
use crate::stats::histogram::Times;
use crate::stats::samples::Samples;
use longpole_model::linux::meaning::Key;
use longpole_model::linux::watch::{Expiry, Handling, Start, ThreadId, Waker, Watch};
use longpole_model::linux::Linux;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The times of one interrupt, softirq, vector or timer function.
#[derive(Debug, Serialize)]
pub struct IrqLine {
    /// One of `irq`, `softirq`, `vector`, `timer`.
    pub kind: &'static str,
    pub name: String,
    /// Number of the interrupt or softirq; null for interrupts of the processor's own controller,
    /// and for timers.
    pub number: Option<i64>,
    /// Times of handling, without what interrupted it.
    #[serde(flatten)]
    pub handling: Times,
    pub cpus: Vec<u32>,
    /// Times from the raise of a softirq to its begin.
    pub raise: Times,
    /// Times from a timer's expiry time to the call of its function. Null for all other kinds, and
    /// if no start of the timer was seen.
    pub late: Option<Times>,
    /// Times from the begin of the interrupt to the start of the thread that it woke.
    pub start: Times,
    /// The longest of these times.
    pub worst: Vec<WorstStart>,
    /// The same times per thread that the interrupt woke, the most often woken first.
    pub threads: Vec<WokenThread>,
}

/// A thread that an interrupt woke, with the delays until it started.
#[derive(Debug, Serialize)]
pub struct WokenThread {
    pub pid: Option<i32>,
    pub tid: i32,
    pub name: String,
    #[serde(flatten)]
    pub start: Times,
    /// CPUs on which the thread started.
    pub cpus: Vec<u32>,
    /// CPUs on which the interrupt ran.
    pub irq_cpus: Vec<u32>,
}

/// One of the longest delays from an interrupt to the start of the thread that it woke.
#[derive(Debug, Serialize)]
pub struct WorstStart {
    /// Time at which the thread started.
    pub t_ns: i64,
    pub ns: u64,
    pub tid: i32,
    pub name: String,
    /// CPU on which the thread started; `irq_cpu` is that of the interrupt.
    pub cpu: u32,
    pub irq_cpu: u32,
}

/// Collects the times of interrupts and timers during the pass.
#[derive(Debug, Default)]
pub struct Interrupts {
    contexts: Vec<ContextTimes>,
    /// Timers, by whether they are high-resolution timers, and by function.
    timers: BTreeMap<(bool, Option<u64>), TimerTimes>,
}

#[derive(Debug, Default)]
struct TimerTimes {
    handling: Samples,
    late: Samples,
    cpus: BTreeSet<u32>,
}

#[derive(Debug, Default)]
struct ContextTimes {
    handling: Samples,
    raise: Samples,
    cpus: BTreeSet<u32>,
    woken: HashMap<ThreadId, Woken>,
    /// Longest delays, by length and then by time.
    worst: BTreeMap<(u64, i64), (ThreadId, u32, u32)>,
}

#[derive(Debug, Default)]
struct Woken {
    start: Samples,
    cpus: BTreeSet<u32>,
    irq_cpus: BTreeSet<u32>,
}

const MAX_WORST: usize = 5;

impl Interrupts {
    fn context(&mut self, index: u32) -> &mut ContextTimes {
        entry(&mut self.contexts, index)
    }

    /// Returns the addresses of the timers' functions, to be resolved to names.
    pub fn functions(&self) -> impl Iterator<Item = u64> + '_ {
        self.timers.keys().filter_map(|(_, function)| *function)
    }

    /// Returns the table. `symbol` resolves the address of a function to its name.
    pub fn answer(&self, linux: &Linux, symbol: impl Fn(u64) -> Option<String>) -> Vec<IrqLine> {
        let number = |cpu: u32| linux.cpus[cpu as usize].number;
        let numbers = |cpus: &BTreeSet<u32>| {
            let mut cpus: Vec<u32> = cpus.iter().map(|&cpu| number(cpu)).collect();
            cpus.sort_unstable();
            cpus
        };
        let mut out: Vec<IrqLine> = self
            .contexts
            .iter()
            .zip(&linux.contexts)
            .filter(|(times, _)| !times.handling.is_empty() || !times.woken.is_empty())
            .map(|(times, context)| {
                let (kind, key) = match context.key {
                    Key::Irq(number) => ("irq", Some(number)),
                    Key::Softirq(number) => ("softirq", Some(number)),
                    Key::Vector(_) => ("vector", None),
                };
                let worst = times.worst.iter().rev().map(|(&(ns, t_ns), &(thread, cpu, irq_cpu))| {
                    let thread = &linux.threads[thread.0 as usize];
                    WorstStart { t_ns, ns, tid: thread.tid, name: thread.name(), cpu: number(cpu), irq_cpu: number(irq_cpu) }
                });
                let mut start = Samples::default();
                let mut threads: Vec<WokenThread> = Vec::with_capacity(times.woken.len());
                // In a fixed order: the sum of their spreads depends on it in its last digits.
                let mut woken: Vec<_> = times.woken.iter().collect();
                woken.sort_unstable_by_key(|(thread, _)| thread.0);
                for (thread, woken) in woken {
                    start.add(&woken.start);
                    let thread = &linux.threads[thread.0 as usize];
                    threads.push(WokenThread {
                        pid: thread.process,
                        tid: thread.tid,
                        name: thread.name(),
                        start: woken.start.times(),
                        cpus: numbers(&woken.cpus),
                        irq_cpus: numbers(&woken.irq_cpus),
                    });
                }
                threads.sort_by(|a, b| b.start.count.cmp(&a.start.count).then_with(|| a.tid.cmp(&b.tid)));
                IrqLine {
                    kind,
                    name: context.name.clone(),
                    number: key,
                    handling: times.handling.times(),
                    cpus: numbers(&times.cpus),
                    raise: times.raise.times(),
                    late: None,
                    start: start.times(),
                    worst: worst.collect(),
                    threads,
                }
            })
            .collect();
        out.extend(self.timers.iter().map(|(&(fine, function), times)| {
            let name =
                function.map_or_else(|| "(unknown)".to_owned(), |address| symbol(address).unwrap_or_else(|| format!("{address:#x}")));
            IrqLine {
                kind: "timer",
                name: format!("{} {name}", if fine { "hrtimer" } else { "timer" }),
                number: None,
                handling: times.handling.times(),
                cpus: numbers(&times.cpus),
                raise: Samples::default().times(),
                late: (!times.late.is_empty()).then(|| times.late.times()),
                start: Samples::default().times(),
                worst: Vec::new(),
                threads: Vec::new(),
            }
        }));
        out.sort_by(|a, b| b.handling.total_ns.cmp(&a.handling.total_ns).then_with(|| a.name.cmp(&b.name)));
        out
    }
}

impl Watch for Interrupts {
    fn handled(&mut self, handling: &Handling) {
        let times = self.context(handling.context.0);
        times.handling.record(handling.own_ns);
        times.cpus.insert(handling.cpu.0);
        if let Some(raised) = handling.raised_ns {
            times.raise.record(handling.begin_ns.saturating_sub(raised).max(0) as u64);
        }
    }

    fn expired(&mut self, expiry: &Expiry) {
        let times = self.timers.entry((expiry.fine, expiry.function)).or_default();
        times.handling.record(expiry.end_ns.saturating_sub(expiry.begin_ns).max(0) as u64);
        times.cpus.insert(expiry.cpu.0);
        if let Some(late) = expiry.late_ns {
            times.late.record(late.max(0) as u64);
        }
    }

    fn started(&mut self, start: &Start) {
        let Some(wake) = start.wake.filter(|_| !start.preempted) else { return };
        let Waker::Context { id, began_ns } = wake.waker else { return };
        let ns = start.t_ns.saturating_sub(began_ns).max(0) as u64;
        let times = self.context(id.0);
        let woken = times.woken.entry(start.thread).or_default();
        woken.start.record(ns);
        woken.cpus.insert(start.cpu.0);
        woken.irq_cpus.insert(wake.cpu.0);
        if times.worst.len() < MAX_WORST || times.worst.first_key_value().is_some_and(|(&(least, _), _)| least < ns) {
            times.worst.insert((ns, start.t_ns), (start.thread, start.cpu.0, wake.cpu.0));
            if times.worst.len() > MAX_WORST {
                times.worst.pop_first();
            }
        }
    }
}
