//! The shares of the last periods: of each CPU and of each thread.
//!
//! A period without data of a thread counts as 0: it did not run. A period that was not analysed is
//! a gap. Threads that did not run in any stored period are forgotten.

use super::{Period, ThreadUse};
use std::collections::{HashMap, VecDeque};

/// Shares of a row, the oldest period first; `None` is a gap.
pub type Shares = VecDeque<Option<f64>>;

/// Identity of a thread: process, thread and name. Numbers alone are reused.
type ThreadKey = (Option<i32>, Option<i32>, String);

/// The last periods.
#[derive(Debug)]
pub struct History {
    capacity: usize,
    /// Number of stored periods, with gaps.
    length: usize,
    cpus: HashMap<u32, Shares>,
    threads: HashMap<ThreadKey, Shares>,
}

impl History {
    /// Returns a history of at most this many periods.
    pub fn new(capacity: usize) -> History {
        History { capacity: capacity.max(1), length: 0, cpus: HashMap::new(), threads: HashMap::new() }
    }

    /// Adds a period.
    pub fn push(&mut self, period: &Period) {
        for _ in 0..period.skipped.min(self.capacity as u64) {
            self.step(None);
        }
        self.step(Some(0.0));
        let length = self.length;
        for cpu in period.cpus.iter().flatten() {
            set(self.cpus.entry(cpu.cpu).or_insert_with(|| before(length)), cpu.busy);
        }
        for thread in period.threads.iter().filter(|thread| thread.running > 0.0) {
            set(self.threads.entry(key(thread)).or_insert_with(|| before(length)), thread.running);
        }
        self.threads.retain(|_, shares| shares.iter().flatten().any(|&share| share > 0.0));
    }

    /// Adds the same share to all rows.
    fn step(&mut self, share: Option<f64>) {
        self.length = (self.length + 1).min(self.capacity);
        for shares in self.cpus.values_mut().chain(self.threads.values_mut()) {
            shares.push_back(share);
            while shares.len() > self.capacity {
                shares.pop_front();
            }
        }
    }

    pub fn cpu(&self, cpu: u32) -> Option<&Shares> {
        self.cpus.get(&cpu)
    }

    pub fn thread(&self, thread: &ThreadUse) -> Option<&Shares> {
        self.threads.get(&key(thread))
    }
}

fn key(thread: &ThreadUse) -> ThreadKey {
    (thread.pid, thread.tid, thread.name.clone())
}

/// The shares of a row that is new: it did not run before.
fn before(length: usize) -> Shares {
    std::iter::repeat_n(Some(0.0), length).collect()
}

fn set(shares: &mut Shares, share: f64) {
    if let Some(last) = shares.back_mut() {
        *last = Some(share);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Events, LiveState};
    use super::*;

    fn thread(tid: i32, running: f64) -> ThreadUse {
        ThreadUse {
            pid: Some(1),
            tid: Some(tid),
            process: String::new(),
            name: "worker".to_owned(),
            running,
            calls: None,
            runnable: None,
            blocked: 0.0,
            state: LiveState::Running,
            detail: None,
            probe_state: None,
            lost: 0,
        }
    }

    fn period(skipped: u64, threads: Vec<ThreadUse>) -> Period {
        Period {
            number: 1,
            skipped,
            begin_ns: 0,
            end_ns: 1_000_000_000,
            events: Events::default(),
            cpus: None,
            threads,
            queues: Vec::new(),
            latencies: Vec::new(),
            path: None,
            verdict: String::new(),
        }
    }

    #[test]
    fn a_thread_that_appears_later_has_zeros_before_and_a_skipped_period_is_a_gap() {
        let mut history = History::new(4);
        history.push(&period(0, vec![thread(1, 0.5)]));
        history.push(&period(1, vec![thread(1, 0.25), thread(2, 1.0)]));
        let shares = |tid| history.thread(&thread(tid, 0.0)).unwrap().iter().copied().collect::<Vec<_>>();
        assert_eq!(shares(1), [Some(0.5), None, Some(0.25)]);
        assert_eq!(shares(2), [Some(0.0), Some(0.0), Some(1.0)]);
    }

    #[test]
    fn only_the_last_periods_are_stored_and_threads_that_do_not_run_in_them_are_forgotten() {
        let mut history = History::new(2);
        history.push(&period(0, vec![thread(1, 0.5)]));
        history.push(&period(0, vec![thread(2, 0.5)]));
        assert_eq!(history.thread(&thread(1, 0.0)).map(VecDeque::len), Some(2));
        history.push(&period(0, vec![thread(2, 0.5)]));
        assert!(history.thread(&thread(1, 0.0)).is_none());
    }
}
