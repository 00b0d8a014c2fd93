//! Interrupts, softirqs and timers: how often, how long, how late, and how long until the thread started that one of them woke.

use crate::stats::histogram::Times;
use crate::stats::samples::Samples;
use longpole_model::linux::kernel_rules::Key;
use longpole_model::linux::watch::{Expiry, Handling, Start, ThreadId, Waker, Watch};
use longpole_model::linux::Linux;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Debug, Serialize)]
pub struct IrqLine {
    /// `irq`, `softirq`, `vector`, `timer`.
    pub kind: &'static str,
    pub name: String,
    /// Of the interrupt or softirq; null for those of the processor's own controller, and for timers.
    pub number: Option<i64>,
    /// Of handling, without what interrupted it.
    #[serde(flatten)]
    pub handling: Times,
    pub cpus: Vec<u32>,
    /// From the raise of a softirq to its begin.
    pub raise: Times,
    /// Of a timer: from the moment that it was set for to the call of its function. Null: for all else, and where no start was seen.
    pub late: Option<Times>,
    /// From its begin to the start of the thread that it woke.
    pub start: Times,
    /// The longest of these.
    pub worst: Vec<WorstStart>,
    /// The same delay of each thread that it woke, the most often woken first.
    pub threads: Vec<WokenThread>,
}

#[derive(Debug, Serialize)]
pub struct WokenThread {
    pub pid: Option<i32>,
    pub tid: i32,
    pub name: String,
    #[serde(flatten)]
    pub start: Times,
    /// Where the thread started.
    pub cpus: Vec<u32>,
    /// Where the interrupt was.
    pub irq_cpus: Vec<u32>,
}

#[derive(Debug, Serialize)]
pub struct WorstStart {
    /// When the thread started.
    pub t_ns: i64,
    pub ns: u64,
    pub tid: i32,
    pub name: String,
    /// Where the thread started, and where the interrupt was.
    pub cpu: u32,
    pub irq_cpu: u32,
}

#[derive(Debug, Default)]
pub struct Interrupts {
    contexts: Vec<ContextTimes>,
    /// By whether they are fine, and function.
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
    /// By length; ties by time.
    worst: BTreeMap<(u64, i64), (ThreadId, u32, u32)>,
}

#[derive(Debug, Default)]
struct Woken {
    start: Samples,
    cpus: BTreeSet<u32>,
    irq_cpus: BTreeSet<u32>,
}

const MOST_WORST: usize = 5;

impl Interrupts {
    fn context(&mut self, index: u32) -> &mut ContextTimes {
        let index = index as usize;
        if self.contexts.len() <= index {
            self.contexts.resize_with(index + 1, ContextTimes::default);
        }
        &mut self.contexts[index]
    }

    /// The functions of timers, to be named.
    pub fn functions(&self) -> impl Iterator<Item = u64> + '_ {
        self.timers.keys().filter_map(|(_, function)| *function)
    }

    /// `symbol` names a function by its address.
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
                for (thread, woken) in &times.woken {
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
        if times.worst.len() < MOST_WORST || times.worst.first_key_value().is_some_and(|(&(least, _), _)| least < ns) {
            times.worst.insert((ns, start.t_ns), (start.thread, start.cpu.0, wake.cpu.0));
            if times.worst.len() > MOST_WORST {
                times.worst.pop_first();
            }
        }
    }
}
