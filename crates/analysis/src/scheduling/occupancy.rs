//! The recent occupancy of each CPU: the occupants of a CPU while a thread waited for it.

use crate::stats::growing::entry;
use longpole_model::hash::IdMap;
use longpole_model::linux::watch::{Base, CpuId, CpuWait, Occupant};
use longpole_model::linux::Linux;
use serde::Serialize;
use std::collections::VecDeque;

/// An occupant of a CPU for which another thread waited.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuHolder {
    pub kind: &'static str,
    pub name: String,
    pub tid: Option<i32>,
    pub ns: u64,
    pub share: f64,
}

/// A time for which one occupant had a CPU.
#[derive(Clone, Copy, Debug)]
struct Stay {
    by: Occupant,
    begin_ns: i64,
    end_ns: i64,
}

/// The last stays of each CPU.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    cpus: Vec<VecDeque<Stay>>,
}

/// An occupant, or unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    By(Occupant),
    /// Time before the first remembered stay.
    Forgotten,
}

/// Occupants of CPUs for which threads waited, each with its time in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holders {
    by: IdMap<Holder, u64>,
    others_ns: u64,
}

/// Number of stays that are remembered per CPU.
const REMEMBERED: usize = 1 << 15;
/// Largest number of occupants of one thread's CPU that are distinguished; the rest is one sum.
const MAX_CPU_HOLDERS: usize = 256;
/// Number of occupants that are reported.
const MAX_LISTED: usize = 8;

impl Occupancy {
    fn of(&mut self, cpu: CpuId) -> &mut VecDeque<Stay> {
        entry(&mut self.cpus, cpu.0)
    }

    pub fn occupied(&mut self, cpu: CpuId, by: Occupant, begin_ns: i64, end_ns: i64) {
        let stays = self.of(cpu);
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

    pub fn claimed(&mut self, cpu: CpuId, base: Base) {
        let by = match base {
            Base::Thread(id) => Occupant::Thread(id),
            Base::Idle => Occupant::Idle,
            Base::Unknown => return,
        };
        let last = self.of(cpu).iter_mut().rev();
        for stay in last.take_while(|stay| matches!(stay.by, Occupant::Unclaimed | Occupant::Context(_))) {
            if stay.by == Occupant::Unclaimed {
                stay.by = by;
            }
        }
    }

    /// Adds the occupants of the CPU during this part of a wait.
    pub fn add(&mut self, wait: &CpuWait, begin_ns: i64, end_ns: i64, holders: &mut Holders) {
        let mut left = (end_ns - begin_ns).max(0) as u64;
        let mut add = |by: Occupant, from: i64, to: i64| {
            let ns = to.min(end_ns).saturating_sub(from.max(begin_ns)).max(0) as u64;
            left = left.saturating_sub(ns);
            holders.add(Holder::By(by), ns);
        };
        add(wait.now, wait.now_since_ns, wait.end_ns);
        for stay in self.of(wait.cpu).iter().rev().take_while(|stay| stay.end_ns > begin_ns) {
            add(stay.by, stay.begin_ns, stay.end_ns);
        }
        holders.add(Holder::Forgotten, left);
    }
}

impl Holders {
    fn add(&mut self, holder: Holder, ns: u64) {
        if ns == 0 {
        } else if self.by.len() < MAX_CPU_HOLDERS || self.by.contains_key(&holder) {
            *self.by.entry(holder).or_default() += ns;
        } else {
            self.others_ns += ns;
        }
    }

    /// Adds time of unknown occupants, so that the sum is `ns`.
    pub fn filled_up_to(mut self, ns: u64) -> Holders {
        let known = self.by.values().sum::<u64>() + self.others_ns;
        self.add(Holder::Forgotten, ns.saturating_sub(known));
        self
    }

    /// Returns the occupants, the largest first; shares refer to the whole sum.
    pub fn answer(&self, linux: &Linux) -> Vec<CpuHolder> {
        let total = self.by.values().sum::<u64>() + self.others_ns;
        let share = |ns: u64| if total > 0 { ns as f64 / total as f64 } else { 0.0 };
        let mut cpu_holders: Vec<CpuHolder> = self
            .by
            .iter()
            .map(|(holder, &ns)| {
                let (kind, name, tid) = match holder {
                    Holder::By(Occupant::Thread(id)) => {
                        let thread = &linux.threads[id.0 as usize];
                        ("thread", thread.name(), Some(thread.tid))
                    }
                    Holder::By(Occupant::Context(id)) => {
                        let context = &linux.contexts[id.0 as usize];
                        (if context.key.is_softirq() { "softirq" } else { "irq" }, context.name.clone(), None)
                    }
                    Holder::By(Occupant::Idle) => ("idle", "idle".to_owned(), None),
                    Holder::By(Occupant::Unclaimed | Occupant::Lost) | Holder::Forgotten => ("unknown", "unknown".to_owned(), None),
                };
                CpuHolder { kind, name, tid, ns, share: share(ns) }
            })
            .collect();
        cpu_holders.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| (a.kind, &a.name, a.tid).cmp(&(b.kind, &b.name, b.tid))));
        let rest = cpu_holders.iter().skip(MAX_LISTED).map(|holder| holder.ns).sum::<u64>() + self.others_ns;
        cpu_holders.truncate(MAX_LISTED);
        if rest > 0 {
            cpu_holders.push(CpuHolder { kind: "others", name: "others".to_owned(), tid: None, ns: rest, share: share(rest) });
        }
        cpu_holders
    }
}
