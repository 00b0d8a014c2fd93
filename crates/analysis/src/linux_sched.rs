//! From the wake-up of a thread to its start: how long, and who kept the CPU meanwhile.

use crate::histogram::Times;
use crate::linux_blocked::{Blocked, Blocks};
use crate::samples::Samples;
use longpole_model::linux::Linux;
use longpole_model::linux_watch::{Base, CpuId, Mode, Occupant, Start, ThreadId, Wait, Watch, Why};
use serde::Serialize;
use std::collections::{HashMap, VecDeque};

#[derive(Debug, Serialize)]
pub struct SchedLine {
    pub tid: i32,
    pub pid: Option<i32>,
    pub name: String,
    /// Of the delays from wake-up to running.
    #[serde(flatten)]
    pub delay: Times,
    pub worst: Option<Worst>,
    /// How long it was off its CPU after it had been put off.
    pub preempted: Times,
    /// Who ran on the CPU while it waited for it after wake-ups; the shares are of the time of all its delays.
    pub kept_by: Vec<Keeper>,
    /// What it was blocked on before its wake-ups.
    pub blocked: Vec<Blocked>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Worst {
    /// When it started.
    pub t_ns: i64,
    pub ns: u64,
    pub cpu: u32,
}

#[derive(Debug, Serialize)]
pub struct Keeper {
    pub kind: &'static str,
    pub name: String,
    pub tid: Option<i32>,
    pub ns: u64,
    pub share: f64,
}

#[derive(Debug, Default)]
pub struct Delays {
    threads: Vec<ThreadDelays>,
    cpus: Vec<VecDeque<Stay>>,
}

#[derive(Debug, Default)]
struct ThreadDelays {
    woken: Samples,
    preempted: Samples,
    worst: Option<(i64, u64, CpuId)>,
    kept: HashMap<Keeping, u64>,
    others_ns: u64,
    blocks: Blocks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Keeping {
    By(Occupant),
    /// Before what is remembered.
    Forgotten,
}

/// What a CPU did last.
#[derive(Clone, Copy, Debug)]
struct Stay {
    by: Occupant,
    begin_ns: i64,
    end_ns: i64,
}

/// Stays of a CPU that are remembered for those who wait for it.
const REMEMBERED: usize = 1 << 15;
/// Keepers of one thread by name; the rest is one sum.
const MOST_KEEPERS: usize = 256;
/// Keepers that are told.
const TOLD: usize = 8;

fn at<T: Default>(all: &mut Vec<T>, index: u32) -> &mut T {
    let index = index as usize;
    if all.len() <= index {
        all.resize_with(index + 1, T::default);
    }
    &mut all[index]
}

impl ThreadDelays {
    fn add(&mut self, keeping: Keeping, ns: u64) {
        if ns == 0 {
        } else if self.kept.len() < MOST_KEEPERS || self.kept.contains_key(&keeping) {
            *self.kept.entry(keeping).or_default() += ns;
        } else {
            self.others_ns += ns;
        }
    }
}

impl Delays {
    pub fn answer(&self, linux: &Linux) -> Vec<SchedLine> {
        let mut out = Vec::new();
        for (delays, thread) in self.threads.iter().zip(&linux.threads) {
            if delays.woken.is_empty() && delays.preempted.is_empty() {
                continue;
            }
            let total = delays.kept.values().sum::<u64>() + delays.others_ns;
            let share = |ns: u64| if total > 0 { ns as f64 / total as f64 } else { 0.0 };
            let mut kept_by: Vec<Keeper> = delays
                .kept
                .iter()
                .map(|(keeping, &ns)| {
                    let (kind, name, tid) = match keeping {
                        Keeping::By(Occupant::Thread(id)) => {
                            let thread = &linux.threads[id.0 as usize];
                            ("thread", thread.name(), Some(thread.tid))
                        }
                        Keeping::By(Occupant::Context(id)) => {
                            let context = &linux.contexts[id.0 as usize];
                            (if context.key.is_softirq() { "softirq" } else { "irq" }, context.name.clone(), None)
                        }
                        Keeping::By(Occupant::Idle) => ("idle", "idle".to_owned(), None),
                        Keeping::By(Occupant::Unclaimed | Occupant::Lost) | Keeping::Forgotten => ("unknown", "unknown".to_owned(), None),
                    };
                    Keeper { kind, name, tid, ns, share: share(ns) }
                })
                .collect();
            kept_by.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| (a.kind, &a.name, a.tid).cmp(&(b.kind, &b.name, b.tid))));
            let rest = kept_by.iter().skip(TOLD).map(|keeper| keeper.ns).sum::<u64>() + delays.others_ns;
            kept_by.truncate(TOLD);
            if rest > 0 {
                kept_by.push(Keeper { kind: "others", name: "others".to_owned(), tid: None, ns: rest, share: share(rest) });
            }
            out.push(SchedLine {
                tid: thread.tid,
                pid: thread.process,
                name: thread.name(),
                delay: delays.woken.times(),
                worst: delays.worst.map(|(t_ns, ns, cpu)| Worst { t_ns, ns, cpu: linux.cpus[cpu.0 as usize].number }),
                preempted: delays.preempted.times(),
                kept_by,
                blocked: delays.blocks.answer(linux),
            });
        }
        out.sort_by(|a, b| b.delay.total_ns.cmp(&a.delay.total_ns).then(a.tid.cmp(&b.tid)));
        out
    }
}

impl Watch for Delays {
    fn occupied(&mut self, cpu: CpuId, by: Occupant, _base: Base, _mode: Mode, begin_ns: i64, end_ns: i64) {
        let stays = at(&mut self.cpus, cpu.0);
        match stays.back_mut() {
            Some(last) if last.by == by && last.end_ns == begin_ns => last.end_ns = end_ns,
            _ => {
                if stays.len() == REMEMBERED {
                    stays.pop_front();
                }
                stays.push_back(Stay { by, begin_ns, end_ns });
            }
        }
    }

    fn claimed(&mut self, cpu: CpuId, base: Base, _ns: u64, _interrupts_ns: u64) {
        let by = match base {
            Base::Thread(id) => Occupant::Thread(id),
            Base::Idle => Occupant::Idle,
            Base::Unknown => return,
        };
        let last = at(&mut self.cpus, cpu.0).iter_mut().rev();
        for stay in last.take_while(|stay| matches!(stay.by, Occupant::Unclaimed | Occupant::Context(_))) {
            if stay.by == Occupant::Unclaimed {
                stay.by = by;
            }
        }
    }

    fn blocked(&mut self, id: ThreadId, why: Why, begin_ns: i64, end_ns: i64) {
        at(&mut self.threads, id.0).blocks.add(why, (end_ns - begin_ns) as u64);
    }

    fn waited(&mut self, wait: &Wait) {
        if wait.preempted {
            return;
        }
        let place = at(&mut self.threads, wait.thread.0);
        let mut left = (wait.end_ns - wait.begin_ns) as u64;
        let mut add = |by: Occupant, from: i64, to: i64| {
            let ns = to.min(wait.end_ns).saturating_sub(from.max(wait.begin_ns)).max(0) as u64;
            left = left.saturating_sub(ns);
            place.add(Keeping::By(by), ns);
        };
        add(wait.now, wait.now_since_ns, wait.end_ns);
        for stay in at(&mut self.cpus, wait.cpu.0).iter().rev().take_while(|stay| stay.end_ns > wait.begin_ns) {
            add(stay.by, stay.begin_ns, stay.end_ns);
        }
        place.add(Keeping::Forgotten, left);
    }

    fn started(&mut self, start: &Start) {
        let ns = start.t_ns.saturating_sub(start.ready_ns).max(0) as u64;
        let place = at(&mut self.threads, start.thread.0);
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
