//! Single cases of latencies, for a picture of them over time: a sample that is evenly spread over
//! the cases, and the longest ones.
//!
//! Each [`stride`](Cases::stride)-th case is sampled. When there are too many, every second one is
//! dropped and the stride is doubled. Example: of 5,000 cases, each eighth one is kept, and in
//! addition the 32 longest.

use super::Latency;
use crate::stats::histogram::since;
use longpole_model::actors::ActorId;
use longpole_model::hash::IdMap;
use longpole_model::names::NameId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Largest number of sampled cases of one latency, and number of the longest ones.
const MAX_SAMPLED: usize = 1024;
const LONGEST: usize = 32;
/// Largest number of latencies whose cases are kept; ten thousand threads may have some each.
const MAX_LATENCIES: usize = 2048;

/// A case: its begin on the trace's clock, and its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    pub begin_ns: i64,
    pub ns: u64,
}

/// A row of the answer with some of its cases.
#[derive(Clone, Debug)]
pub struct LatencyCases {
    pub latency: Latency,
    /// The thread on which the cases are; `None` for objects.
    pub actor: Option<ActorId>,
    /// In the order of time. Fewer than the latency's count if there are many.
    pub cases: Vec<Case>,
    /// Middle and number of times of each bucket of the histogram that is not empty, in ns.
    pub buckets: Vec<(u64, u64)>,
}

/// Identity of a latency: its name and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key<W> {
    Call(NameId, W, Option<W>),
    Span(W, NameId),
    Signal(NameId, W, W),
    Activity(W),
    Object(NameId),
}

impl<W> Key<W> {
    /// The thread on which the latency's cases are: the caller, or the receiver.
    pub fn machine(self) -> Option<W> {
        match self {
            Key::Call(_, machine, _) | Key::Span(machine, _) | Key::Signal(_, _, machine) | Key::Activity(machine) => Some(machine),
            Key::Object(_) => None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct AllCases(IdMap<Key<ActorId>, Cases>);

impl AllCases {
    pub fn record(&mut self, key: Key<ActorId>, begin_ns: i64, end_ns: i64) {
        let case = Case { begin_ns, ns: since(begin_ns, end_ns) };
        let is_full = self.0.len() >= MAX_LATENCIES;
        match self.0.get_mut(&key) {
            Some(cases) => cases.record(case),
            None if is_full => {}
            None => self.0.entry(key).or_default().record(case),
        }
    }

    pub fn of(&self, key: Key<ActorId>) -> Vec<Case> {
        self.0.get(&key).map_or_else(Vec::new, Cases::kept)
    }
}

#[derive(Debug)]
struct Cases {
    seen: u64,
    stride: u64,
    sampled: Vec<Case>,
    longest: BinaryHeap<Reverse<(u64, i64)>>,
}

impl Default for Cases {
    fn default() -> Cases {
        Cases { seen: 0, stride: 1, sampled: Vec::new(), longest: BinaryHeap::new() }
    }
}

impl Cases {
    fn record(&mut self, case: Case) {
        if self.seen.is_multiple_of(self.stride) {
            if self.sampled.len() == MAX_SAMPLED {
                let mut at = 0;
                self.sampled.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.stride *= 2;
            }
            if self.seen.is_multiple_of(self.stride) {
                self.sampled.push(case);
            }
        }
        self.seen += 1;
        let is_long = self.longest.len() < LONGEST || self.longest.peek().is_some_and(|shortest| shortest.0 .0 < case.ns);
        if is_long {
            self.longest.push(Reverse((case.ns, case.begin_ns)));
            if self.longest.len() > LONGEST {
                self.longest.pop();
            }
        }
    }

    fn kept(&self) -> Vec<Case> {
        let longest = self.longest.iter().map(|&Reverse((ns, begin_ns))| Case { begin_ns, ns });
        let mut kept: Vec<Case> = self.sampled.iter().copied().chain(longest).collect();
        kept.sort_unstable();
        // A case may be both sampled and among the longest.
        kept.dedup();
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_cases_are_all_kept() {
        let mut cases = Cases::default();
        let all: Vec<Case> = (0..MAX_SAMPLED as u64).map(|at| Case { begin_ns: at as i64, ns: 5 + at % 7 }).collect();
        all.iter().for_each(|&case| cases.record(case));
        assert_eq!(cases.kept(), all);
    }

    #[test]
    fn of_many_cases_an_even_sample_and_the_longest_are_kept() {
        let mut cases = Cases::default();
        let long = |at: i64| at % 9973 == 77;
        for at in 0..100_000 {
            cases.record(Case { begin_ns: at, ns: if long(at) { 1_000_000 } else { 10 } });
        }
        let kept = cases.kept();
        assert!(kept.len() <= MAX_SAMPLED + LONGEST, "{}", kept.len());
        let found = kept.iter().filter(|case| case.ns > 10).count();
        assert_eq!(found, (0..100_000).filter(|&at| long(at)).count());
        let even: Vec<i64> = kept.iter().filter(|case| case.begin_ns % 128 == 0).map(|case| case.begin_ns).collect();
        assert_eq!(even, (0..100_000).step_by(128).collect::<Vec<i64>>());
    }
}
