//! Upper bounds of a change's effect, by the work that remains for each item (operational laws).
//!
//! A replay preserves the order of the trace: machines still wait for the same machines. The
//! changed system need not: threads that queued for one lock may run at the same time once its
//! holder is fast. The replay alone is therefore no upper end of a prediction. The throughput in
//! any order is bounded by the remaining demand (Denning and Buzen, 1978): with a demand of `d`
//! seconds per item, a resource with `n` parallel units passes at most `n / d` items per second.
//! Three kinds of resources are considered, and the scarcest one counts:
//!
//! - the changed state itself, with as many parallel threads as were in it at the busiest time of
//!   the trace;
//! - the CPUs of the host;
//! - each thread whose work is mostly on the path already, since it does one thing at a time.
//!
//! Example: sixteen requests sleep 3 ms one after the other. Halving the sleep brings +100 % at
//! most, since one sleeps at a time; removing it brings as much as the CPUs allow.

use super::lanes::KEPT;
use super::{EndMark, WhatIf};
use crate::critical_path::key::Key;
use longpole_model::hash::IdMap;
use longpole_model::interaction::{MachineId, Vocabulary};
use longpole_model::names::NameId;

/// Number of equal parts of the time; their width doubles as the trace grows.
const PARTS: usize = 256;
const FIRST_WIDTH_NS: u64 = 1 << 16;

/// A thread with at least this share of its work on the path is needed for each item.
const MOSTLY: f64 = 0.5;
/// Programs with less than this share of the running time on the path do not count for the CPUs'
/// work.
const LEAST_SHARE: f64 = 0.01;

/// The resource that bounds the rate after a change.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// The changed state itself, in as many threads at once as in the trace.
    Changed,
    Cpus,
    /// A thread, by its name, that does one thing at a time.
    Thread(String),
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::Changed => write!(f, "the changed state itself"),
            Bound::Cpus => write!(f, "the work of the CPUs"),
            Bound::Thread(name) => write!(f, "the work of {name}"),
        }
    }
}

/// Largest possible factors of the rate in any order of execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Bound by the CPUs; `None` if it is unknown.
    pub cpus: Option<f64>,
    /// Bounds by the threads whose work is mostly on the path, with their names.
    pub threads: Vec<(String, f64)>,
    /// Share of the CPUs' time that other programs use, which have nothing to do with the path. It
    /// is not available to the path, but a thread that is ready gets as much CPU as each of theirs.
    pub taken: f64,
}

/// Durations of the states that some scenario changes, by parts of the time.
#[derive(Debug)]
pub struct Demand {
    width: u64,
    of: IdMap<u32, Vec<u64>>,
}

impl Default for Demand {
    fn default() -> Demand {
        Demand { width: FIRST_WIDTH_NS, of: IdMap::default() }
    }
}

impl Demand {
    /// Adds an interval of the state with this key, in ns since the start.
    pub fn add(&mut self, key: u32, mut from: u64, to: u64) {
        while to / self.width >= PARTS as u64 {
            self.width *= 2;
            for parts in self.of.values_mut() {
                *parts = parts.chunks(2).map(|two| two.iter().sum()).collect();
            }
        }
        let parts = self.of.entry(key).or_default();
        while from < to {
            let part = (from / self.width) as usize;
            if parts.len() <= part {
                parts.resize(part + 1, 0);
            }
            let until = to.min((part as u64 + 1) * self.width);
            parts[part] += until - from;
            from = until;
        }
    }

    /// Returns the largest factor of the rate if each key's time is multiplied by its factor;
    /// `None` if no time is left of the changed states.
    fn most(&self, factors: impl Fn(u32) -> f64, length: f64) -> Option<f64> {
        let mut sums = [0u64; PARTS];
        let mut left = 0.0;
        for (&key, parts) in &self.of {
            let factor = factors(key);
            if factor == 1.0 {
                continue;
            }
            for (sum, &ns) in sums.iter_mut().zip(parts) {
                *sum += ns;
                left += factor * ns as f64;
            }
        }
        let at_once = sums.into_iter().max().unwrap_or(0) as f64 / self.width as f64;
        (left > 0.0).then(|| at_once * length / left)
    }
}

impl WhatIf {
    /// Returns the largest possible factor of the rate for each scenario, `None` if nothing bounds
    /// it; and the bounds of the unchanged system.
    pub(super) fn most_by_demand(
        &mut self,
        vocabulary: &Vocabulary,
        end: &EndMark,
        on_path: &[f64],
    ) -> (Vec<Option<(f64, Bound)>>, Bounds) {
        // A simulated system has no other order than that of its trace.
        if self.options.cpus == 0 {
            return (vec![None; self.layout.scenarios], Bounds::default());
        }
        let length = end.v[KEPT];
        let root = self.together.find(end.machine.0);
        let roots: Vec<u32> = (0..self.lives.len() as u32).map(|at| self.together.find(at)).collect();
        let lanes = self.layout.len();
        let mut of_hosts: IdMap<Option<NameId>, Vec<f64>> = IdMap::default();
        let mut longest = vec![(0.0, 0); lanes];
        let mut threads = Vec::new();
        // Work of all programs, and of those that work for the path.
        let gone = self.gone.values().map(|gone| gone.worked[KEPT].max(0.0));
        let (mut worked, mut meant) = (gone.sum::<f64>(), 0.0);
        let own = self.own_on_path(vocabulary, on_path);
        let class = |machine: u32| self.lives[machine as usize].class.ok_or(machine);
        let mut of_classes: IdMap<Result<NameId, u32>, f64> = IdMap::default();
        for (&machine, ns) in &own {
            *of_classes.entry(class(machine)).or_default() += ns;
        }
        let all_own: f64 = own.values().sum();
        for at in 0..self.lives.len() as u32 {
            let replay = &self.lives[at as usize].replay;
            // A program with hardly any time on the path does not work for these items.
            let is_meant = of_classes.get(&class(at)).is_some_and(|ns| *ns >= LEAST_SHARE * all_own);
            if !replay.records {
                worked += replay.worked(KEPT).max(0.0);
            }
            if replay.records || !is_meant || roots[at as usize] != root {
                continue;
            }
            meant += replay.worked(KEPT).max(0.0);
            let needed = own.get(&at).is_some_and(|own| *own >= MOSTLY * replay.worked(KEPT));
            if needed && replay.worked(KEPT) > 0.0 {
                threads.push((vocabulary.machine_name(MachineId(at)).to_owned(), length / replay.worked(KEPT)));
            }
            let all = of_hosts.entry(vocabulary.host_id(MachineId(at))).or_insert_with(|| vec![0.0; lanes]);
            for (lane, all) in all.iter_mut().enumerate() {
                let ns = replay.worked(lane).max(0.0);
                *all += ns;
                if needed && ns > longest[lane].0 {
                    longest[lane] = (ns, at);
                }
            }
        }
        let bound = |scenario: usize| {
            let [lane, _] = self.layout.of(scenario);
            let more = f64::from(self.scale.cpus(scenario));
            let factor = |key: u32| self.rows[key as usize].as_ref().map_or(1.0, |row| row[lane]);
            let cpus = f64::from(self.options.cpus) + more;
            let of_cpus = of_hosts.values().filter(|work| work[lane] > 0.0).map(|work| (cpus * length / work[lane], Bound::Cpus));
            let (ns, thread) = longest[lane];
            let of_thread = (ns > 0.0).then(|| (length / ns, Bound::Thread(vocabulary.machine_name(MachineId(thread)).to_owned())));
            let of_changed = self.demand.most(factor, length).map(|most| (most, Bound::Changed));
            of_cpus.chain(of_thread).chain(of_changed).min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let cpus = f64::from(self.options.cpus);
        let unchanged = of_hosts.values().filter(|work| work[KEPT] > 0.0).map(|work| cpus * length / work[KEPT]);
        let others = ((worked - meant) / (cpus * length).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        let taken = others.min(1.0 - 1.0 / (others * cpus + 1.0));
        let bounds = Bounds { cpus: unchanged.reduce(f64::min), threads, taken };
        ((0..self.layout.scenarios).map(bound).collect(), bounds)
    }

    /// Returns the running time of each machine on the path, in ns.
    fn own_on_path(&self, vocabulary: &Vocabulary, on_path: &[f64]) -> IdMap<u32, f64> {
        let mut own: IdMap<u32, f64> = IdMap::default();
        for (key, ns) in self.keys.iter().zip(on_path) {
            match *key {
                Key::State { machine, state, .. } if state.kind(vocabulary).is_code() => *own.entry(machine.0).or_default() += ns,
                _ => {}
            }
        }
        own
    }
}
