//! The CPUs of each host: those that the trace shows in use, and those that scenarios add.

use crate::what_if::service::one_cpu::OneCpu;
use crate::what_if::worlds::small_map::SmallMap;
use longpole_model::names::NameId;

/// A host, by its name; `None` is the only host of a trace.
pub type Host = Option<NameId>;

/// The CPUs of all hosts.
#[derive(Debug)]
pub struct Cpus {
    pub used: SmallMap<Host, CpusInUse>,
    /// The order in which threads get the CPU of a host that has a single one.
    pub one: SmallMap<Host, OneCpu>,
    /// For each host and scenario, the CPUs that the scenario adds: the times at which they become
    /// free.
    pub extra: SmallMap<(Host, usize), Vec<f64>>,
    /// Number of CPUs that each scenario adds to each host.
    pub more: Vec<u32>,
    /// Scenarios that add CPUs, with the number of CPUs.
    pub added: Vec<(usize, u32)>,
    /// Largest factor of any state in each world.
    pub most: Vec<f64>,
}

impl Cpus {
    /// `more` are the CPUs that each scenario adds; `most` is the largest factor of a state in each
    /// world.
    pub fn new(more: Vec<u32>, most: Vec<f64>) -> Cpus {
        let added = more.iter().copied().enumerate().filter(|&(_, more)| more > 0).collect();
        Cpus { used: SmallMap::default(), one: SmallMap::default(), extra: SmallMap::default(), more, added, most }
    }
}

/// The CPUs of a host as the trace shows them.
#[derive(Debug, Default)]
pub struct CpusInUse {
    had: u32,
    since: u64,
    most: u32,
    /// Total time that machines waited until one of `most` CPUs in use was left.
    awaited: u64,
}

/// If machines waited for less than this share of the time, they did not wait because all CPUs were
/// in use, as far as is known.
const MIN_WAITS: f64 = 0.01;

impl CpusInUse {
    /// Notes that a CPU is in use from now on. `awaited` is the time that its new owner waited
    /// until it was left.
    pub fn take(&mut self, now: u64, awaited: u64) {
        self.go_to(now);
        self.had += 1;
        if self.had >= self.most {
            self.awaited += awaited;
        }
    }

    pub fn leave(&mut self, now: u64) {
        self.go_to(now);
        self.had = self.had.saturating_sub(1);
    }

    fn go_to(&mut self, now: u64) {
        if now > self.since && self.had > self.most {
            (self.most, self.awaited) = (self.had, 0);
        }
        self.since = now;
    }

    pub fn has_several(&self) -> bool {
        self.most > 1
    }

    /// Returns the number of CPUs, if it is known.
    pub fn count(&self, until: f64) -> Option<u32> {
        (self.most > 0 && self.awaited as f64 >= MIN_WAITS * until).then_some(self.most)
    }
}
