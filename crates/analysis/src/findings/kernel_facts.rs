//! Facts from kernel events about faults that no state on the critical path shows by itself, for
//! the rules of findings ([`crate::findings`]): CPUs that were idle while a thread waited for
//! another CPU, interrupts on another CPU than the thread that they wake, page faults, and locks
//! that pass from thread to thread.
//!
//! The facts are collected for all threads in the pass that reads the trace anyway. The critical
//! path then shows which of them matter ([`ClassesOnPath`]).

mod away;
mod futexes;
mod idle;

use crate::critical_path::{Kind, Path};
use crate::findings::{Facts, Scope};
use crate::stats::evidence::Evidence;
use away::Away;
use futexes::Futexes;
use idle::Idle;
use longpole_model::causes::RunsOn;
use longpole_model::hash::IdMap;
use longpole_model::linux::watch::{Base, CpuId, CpuWait, FinishedCall, Mode, Moment, Occupant, Start, ThreadId, Watch};
use longpole_model::linux::Linux;
use longpole_model::names::NameId;
use std::collections::HashMap;

/// Waits of one process for a lock, which is identified by its futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contention {
    pub process: i32,
    pub address: i64,
    /// True if the futex is private to its process: processes that use the same address then do not
    /// share the lock.
    pub is_private: bool,
    /// Waiting time of all threads together.
    pub waited_ns: u64,
}

/// Least time that a page fault takes: the exception, the page table entry, and the return. No
/// trace contains the true time.
const MIN_FAULT_NS: u64 = 500;
/// Largest number of facts of one kind: those with the largest shares.
const MAX_FACTS: usize = 64;

/// Collects the facts of all threads during the pass.
#[derive(Debug, Default)]
pub struct KernelFacts {
    idle: Idle,
    away: Away,
    futexes: Futexes,
    threads: IdMap<ThreadId, PageFaults>,
    /// Idle time and total time of each CPU.
    cpus: Vec<(u64, u64)>,
}

/// Running time and page faults of a thread, or of a class of threads.
#[derive(Clone, Copy, Debug, Default)]
struct PageFaults {
    running_ns: u64,
    count: u64,
    /// Times of the last fault and of the one before it.
    last: Option<(i64, i64)>,
}

impl KernelFacts {
    /// Processes what was collected during an event, with the state of the model after that event.
    /// Must be called after each event.
    #[inline]
    pub fn after(&mut self, linux: &Linux) {
        self.idle.after(linux);
        self.away.after(linux);
        self.futexes.after(linux);
    }

    /// Returns the number of CPUs, and the share of their time in which they were idle.
    pub fn cpus(&self) -> (u64, Option<f64>) {
        let (idle, all) = self.cpus.iter().fold((0, 0), |(idle, all), cpu| (idle + cpu.0, all + cpu.1));
        (self.cpus.iter().filter(|cpu| cpu.1 > 0).count() as u64, (all > 0).then(|| idle as f64 / all as f64))
    }

    /// Returns the locks that pass from thread to thread, as far as kernel events show them.
    pub fn contention(&self) -> Vec<Contention> {
        self.futexes.contention().collect()
    }

    /// Returns the facts about the threads on the path.
    pub(crate) fn facts(&self, linux: &Linux, path: &ClassesOnPath) -> Vec<Facts> {
        let mut out = self.idle.facts(linux, path);
        out.extend(self.away.facts(linux, path));
        out.extend(self.futexes.facts(linux, path));
        out.extend(self.page_faults(linux, path));
        out
    }

    fn page_faults(&self, linux: &Linux, path: &ClassesOnPath) -> Vec<Facts> {
        let mut classes: HashMap<&str, PageFaults> = HashMap::new();
        for (id, of) in &self.threads {
            let Some(class) = path.class(linux, *id) else { continue };
            let sum = classes.entry(class).or_default();
            sum.running_ns += of.running_ns;
            sum.count += of.count;
            sum.last = sum.last.or(of.last);
        }
        let facts = classes.into_iter().filter(|(_, of)| of.count > 0 && of.running_ns > 0).map(|(class, of)| {
            let part = (of.count * MIN_FAULT_NS) as f64 / of.running_ns as f64;
            let (start_ns, end_ns) = of.last.unwrap_or_default();
            let numbers = vec![
                ("share", path.shares(class).running * part.min(1.0)),
                ("count", of.count as f64),
                ("per_ms", of.count as f64 * 1e6 / of.running_ns as f64),
            ];
            Facts::new(Scope::Fault, vec![("machine", class.to_owned())], numbers, Evidence { start_ns, end_ns })
        });
        largest(facts)
    }
}

/// Sorts facts by their share, and then by their texts, so that the order does not depend on a hash
/// table's.
fn largest(facts: impl Iterator<Item = Facts>) -> Vec<Facts> {
    let mut facts: Vec<Facts> = facts.collect();
    let share = |facts: &Facts| facts.numbers.first().map_or(0.0, |&(_, share)| share);
    facts.sort_by(|a, b| share(b).total_cmp(&share(a)).then_with(|| a.texts.cmp(&b.texts)));
    facts.truncate(MAX_FACTS);
    facts
}

impl Watch for KernelFacts {
    #[inline]
    fn moment(&mut self, moment: Moment) {
        if let Moment::Raised { cpu, number, by } = moment {
            self.away.raised(cpu, number, by);
        }
    }

    fn occupied(&mut self, cpu: CpuId, by: Occupant, base: Base, _mode: Mode, begin_ns: i64, end_ns: i64) {
        self.idle.occupied(cpu, base, begin_ns, end_ns);
        let at = cpu.0 as usize;
        if self.cpus.len() <= at {
            self.cpus.resize(at + 1, (0, 0));
        }
        let ns = (end_ns - begin_ns).max(0) as u64;
        self.cpus[at].0 += if by == Occupant::Idle { ns } else { 0 };
        self.cpus[at].1 += ns;
        if let Occupant::Thread(id) = by {
            self.threads.entry(id).or_default().running_ns += (end_ns - begin_ns).max(0) as u64;
        }
    }

    fn waited(&mut self, wait: &CpuWait) {
        self.idle.waited(wait);
    }

    fn started(&mut self, start: &Start) {
        self.away.started(start);
    }

    fn returned(&mut self, call: &FinishedCall) {
        self.futexes.returned(call);
    }

    fn faulted(&mut self, thread: Option<ThreadId>, _name: NameId, t_ns: i64) {
        if let Some(id) = thread {
            let of = self.threads.entry(id).or_default();
            of.count += 1;
            of.last = Some((of.last.map_or(t_ns, |(_, last)| last), t_ns));
        }
    }
}

/// Shares of the path by class of threads, and the class of each thread.
#[derive(Debug, Default)]
pub struct ClassesOnPath {
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
    /// Class of each thread on the path in which it has the largest share.
    classes: HashMap<i32, String>,
    shares: HashMap<String, PathShares>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathShares {
    pub running: f64,
    pub runnable: f64,
    /// Share in all states.
    pub all: f64,
}

impl ClassesOnPath {
    /// Computes the shares. `runs_on` maps the names of machines to their threads and
    /// CPUs.
    pub fn new(path: &Path, (start, length): (u64, u64), runs_on: &HashMap<&str, Vec<RunsOn>>) -> ClassesOnPath {
        let mut out = ClassesOnPath { start_ns: start as i64, end_ns: start.saturating_add(length) as i64, ..ClassesOnPath::default() };
        let mut of_threads: HashMap<(i32, &str), u64> = HashMap::new();
        for (of, &ns) in (0..).zip(path.times()).filter(|&(of, &ns)| ns > 0 && path.kind(of) != Kind::Link) {
            let (class, _) = path.class_and_state(of);
            let share = ns as f64 / length.max(1) as f64;
            let shares = out.shares.entry(class.to_owned()).or_default();
            shares.all += share;
            match path.kind(of) {
                Kind::Running | Kind::SystemCall => shares.running += share,
                Kind::Runnable => shares.runnable += share,
                _ => {}
            }
            for place in runs_on.get(path.machine(of)).into_iter().flatten() {
                if let RunsOn::Thread(tid) = place {
                    *of_threads.entry((*tid, class)).or_default() += ns;
                }
            }
        }
        let mut of_threads: Vec<((i32, &str), u64)> = of_threads.into_iter().collect();
        of_threads.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        for ((tid, class), _) in of_threads {
            out.classes.entry(tid).or_insert_with(|| class.to_owned());
        }
        out
    }

    /// Returns the class of a thread that is on the path.
    pub(crate) fn class(&self, linux: &Linux, id: ThreadId) -> Option<&str> {
        let thread = linux.threads.get(id.0 as usize)?;
        self.classes.get(&thread.tid).map(String::as_str)
    }

    /// Returns the shares of a class; 0 for a class that is not on the path.
    pub(crate) fn shares(&self, class: &str) -> PathShares {
        self.shares.get(class).copied().unwrap_or_default()
    }

    /// Returns a time as a share of the path's length.
    pub(crate) fn share_of(&self, ns: u64) -> f64 {
        ns as f64 / (self.end_ns - self.start_ns).max(1) as f64
    }
}
