//! Threads that wait for a CPU while another CPU, on which they may run, is idle.
//!
//! A CPU needs some 10 µs from its wake-up until it runs anything, and a thread that waits for its
//! own CPU to wake up waits for no other thread. Therefore only longer idle times count, and only
//! while another thread has the waiting thread's CPU. If no thread has that CPU for a while, the
//! waiting thread is *held*: it is not allowed to run.

use super::{largest, ClassesOnPath};
use crate::findings::{Facts, Scope};
use crate::stats::evidence::Evidence;
use longpole_model::hash::IdMap;
use longpole_model::linux::watch::{Base, CpuId, CpuWait, ThreadId};
use longpole_model::linux::Linux;
use std::collections::{HashMap, VecDeque};

/// Shortest idle time during a wait that is counted, in nanoseconds: ten times what a CPU needs to
/// wake up.
const MIN_NS: i64 = 100_000;
/// Shortest idle time of the thread's own CPU from which the thread counts as held, in nanoseconds.
/// A virtual CPU takes some time to wake up as well.
const MIN_HELD_NS: i64 = 500_000;
/// Number of stays that are remembered per CPU.
const MAX_STAYS: usize = 1 << 12;

/// Collects waits for a CPU and the times at which CPUs were idle.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// The last stays of each CPU, the newest last.
    cpus: Vec<VecDeque<Stay>>,
    /// Long waits that the current event has ended.
    waits: Vec<CpuWait>,
    /// Waits of each thread while another CPU was idle.
    threads: IdMap<ThreadId, Missed>,
    /// Threads that were ready to run while no thread had their own CPU.
    held: IdMap<ThreadId, Missed>,
}

/// A time for which a CPU was idle or busy, without regard to interrupts.
#[derive(Clone, Copy, Debug)]
struct Stay {
    idle: bool,
    begin_ns: i64,
    end_ns: i64,
}

/// Waits of a thread, or of a class of threads, and the idle time that they did not use.
#[derive(Clone, Copy, Debug, Default)]
struct Missed {
    waited_ns: u64,
    /// Part of `waited_ns` in which a CPU was idle.
    missed_ns: u64,
    /// Number of waits with such a part.
    count: u64,
    /// Begin and end of the longest such part.
    longest: (i64, i64),
}

impl Missed {
    fn of(wait: &CpuWait, pieces: Vec<(i64, i64)>) -> Missed {
        let ns: i64 = pieces.iter().map(|(begin, end)| end - begin).sum();
        Missed {
            waited_ns: (wait.end_ns - wait.begin_ns) as u64,
            missed_ns: ns as u64,
            count: u64::from(ns > 0),
            longest: pieces.into_iter().max_by_key(|(begin, end)| end - begin).unwrap_or_default(),
        }
    }

    fn add(&mut self, other: &Missed) {
        self.waited_ns += other.waited_ns;
        self.missed_ns += other.missed_ns;
        self.count += other.count;
        if other.longest.1 - other.longest.0 > self.longest.1 - self.longest.0 {
            self.longest = other.longest;
        }
    }
}

impl Idle {
    pub fn occupied(&mut self, cpu: CpuId, base: Base, begin_ns: i64, end_ns: i64) {
        let idle = match base {
            Base::Idle => true,
            Base::Thread(_) => false,
            Base::Unknown => return,
        };
        let at = cpu.0 as usize;
        if self.cpus.len() <= at {
            self.cpus.resize_with(at + 1, VecDeque::new);
        }
        let stays = &mut self.cpus[at];
        match stays.back_mut() {
            Some(last) if last.idle == idle && last.end_ns == begin_ns => last.end_ns = end_ns,
            _ => {
                if stays.len() == MAX_STAYS {
                    stays.pop_front();
                }
                stays.push_back(Stay { idle, begin_ns, end_ns });
            }
        }
    }

    pub fn waited(&mut self, wait: &CpuWait) {
        if wait.end_ns - wait.begin_ns >= MIN_NS {
            return self.waits.push(*wait);
        }
        let waited_ns = (wait.end_ns - wait.begin_ns).max(0) as u64;
        for of in [&mut self.threads, &mut self.held] {
            of.entry(wait.thread).or_default().waited_ns += waited_ns;
        }
    }

    #[inline]
    pub fn after(&mut self, linux: &Linux) {
        while let Some(wait) = self.waits.pop() {
            let mut held = self.stays(linux, wait.cpu, &wait, true);
            held.retain(|(begin, end)| end - begin >= MIN_HELD_NS);
            let missed = Missed::of(&wait, self.missed(linux, &wait));
            self.threads.entry(wait.thread).or_default().add(&missed);
            self.held.entry(wait.thread).or_default().add(&Missed::of(&wait, held));
        }
    }

    /// Returns the times of the wait at which another CPU was idle on which the thread may run;
    /// they do not overlap.
    fn missed(&self, linux: &Linux, wait: &CpuWait) -> Vec<(i64, i64)> {
        let Some(thread) = linux.threads.get(wait.thread.0 as usize) else { return Vec::new() };
        let allowed = thread.mask.now();
        let busy = self.stays(linux, wait.cpu, wait, false);
        let mut pieces: Vec<(i64, i64)> = Vec::new();
        for (at, cpu) in linux.cpus.iter().enumerate() {
            let id = CpuId(at as u32);
            // If it is unknown on which CPUs the thread may run, no time counts.
            if id == wait.cpu || !allowed.as_ref().is_some_and(|allowed| allowed.contains(&cpu.number)) {
                continue;
            }
            for (begin, end) in self.stays(linux, id, wait, true) {
                let both = busy.iter().map(|&(from, to)| (from.max(begin), to.min(end)));
                pieces.extend(both.filter(|(from, to)| to - from >= MIN_NS));
            }
        }
        pieces.sort_unstable();
        let mut disjoint: Vec<(i64, i64)> = Vec::new();
        for (begin, end) in pieces {
            match disjoint.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => disjoint.push((begin, end)),
            }
        }
        disjoint
    }

    /// Returns the times during the wait for which the CPU was idle, or had a thread.
    fn stays(&self, linux: &Linux, cpu: CpuId, wait: &CpuWait, idle: bool) -> Vec<(i64, i64)> {
        let stays = self.cpus.get(cpu.0 as usize);
        // The current stay of the CPU is reported only after it ends.
        let mut newest = linux.idle_since(cpu).filter(|_| idle);
        let mut out: Vec<(i64, i64)> = newest.map(|since| (since, wait.end_ns)).into_iter().collect();
        for stay in stays.into_iter().flatten().rev().take_while(|stay| stay.end_ns > wait.begin_ns) {
            match out.last_mut() {
                Some(last) if stay.idle == idle && newest == Some(stay.end_ns) => last.0 = stay.begin_ns,
                _ if stay.idle == idle => out.push((stay.begin_ns, stay.end_ns)),
                _ => {}
            }
            newest = None;
        }
        for piece in &mut out {
            *piece = (piece.0.max(wait.begin_ns), piece.1.min(wait.end_ns));
        }
        out.retain(|(begin, end)| begin < end);
        out
    }

    pub fn facts(&self, linux: &Linux, path: &ClassesOnPath) -> Vec<Facts> {
        let mut facts = Self::of_classes(Scope::Idle, &self.threads, linux, path);
        facts.extend(Self::of_classes(Scope::Held, &self.held, linux, path));
        facts
    }

    fn of_classes(scope: Scope, threads: &IdMap<ThreadId, Missed>, linux: &Linux, path: &ClassesOnPath) -> Vec<Facts> {
        let mut classes: HashMap<&str, Missed> = HashMap::new();
        for (id, of) in threads {
            if let Some(class) = path.class(linux, *id) {
                classes.entry(class).or_default().add(of);
            }
        }
        largest(classes.into_iter().filter(|(_, of)| of.count > 0).map(|(class, of)| {
            let part = of.missed_ns as f64 / of.waited_ns.max(1) as f64;
            let numbers = vec![("share", path.shares(class).runnable * part), ("count", of.count as f64), ("part", part)];
            let evidence = Evidence { start_ns: of.longest.0, end_ns: of.longest.1 };
            Facts::new(scope, vec![("machine", class.to_owned())], numbers, evidence)
        }))
    }
}
