//! Threads that poll for the end of another thread's work.
//!
//! A thread that sleeps and looks again, until another one has finished, is woken by its own timer
//! alone: no event leads from the work to the thread that waits for it. The two ends show the
//! connection. A *row* is a number of sleeps of one thread with nothing else between them. If
//! another thread works without waiting from the first sleep of a row on, and stops during the last
//! one, it may be the one that is waited for. A thread for which this holds in most rows is.
//!
//! Example: the virtual machine of Java stops all threads to collect garbage. A thread in a loop
//! without a safepoint stops late, and the virtual machine looks every millisecond whether it has.

use longpole_model::hash::IdMap;
use longpole_model::interaction::MachineId;
use std::collections::VecDeque;

/// Number of the newest stops that are remembered.
const MAX_STOPS: usize = 256;
/// Largest number of pairs of a polling thread and one that stopped.
const MAX_PAIRS: usize = 1 << 16;

/// Sleeps of one machine with nothing else between them.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    sleeps: u64,
    slept_ns: u64,
    /// End of the first sleep.
    first_end: u64,
    /// Begin and end of the last sleep.
    last: (u64, u64),
}

/// A moment at which a machine stopped to work.
#[derive(Clone, Copy, Debug)]
struct Stopped {
    machine: MachineId,
    /// Begin of the work: the machine has not waited since.
    since: u64,
    t: u64,
}

/// Rows of sleeps that ended when another machine had stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    pub count: u64,
    pub sleeps: u64,
    pub slept_ns: u64,
}

impl Rows {
    fn add(&mut self, row: &Row) {
        self.count += 1;
        self.sleeps += row.sleeps;
        self.slept_ns += row.slept_ns;
    }
}

/// The rows of all machines.
#[derive(Debug, Default)]
pub struct Polls {
    rows: Vec<Row>,
    stops: VecDeque<Stopped>,
    /// Rows of a machine (first) that ended when another one (second) had stopped.
    pairs: IdMap<(u32, u32), Rows>,
    /// All rows of several sleeps, by machine.
    all: IdMap<u32, Rows>,
}

impl Polls {
    /// Records that the machine slept until its own timer woke it.
    pub fn slept(&mut self, machine: MachineId, (since, t): (u64, u64)) {
        let at = machine.0 as usize;
        if self.rows.len() <= at {
            self.rows.resize(at + 1, Row::default());
        }
        // A thread that works for longer than it sleeps does more than to look.
        let is_next = since.saturating_sub(self.rows[at].last.1) <= t.saturating_sub(since);
        if !is_next {
            self.end(machine);
        }
        let row = &mut self.rows[at];
        if row.sleeps == 0 {
            row.first_end = t;
        }
        row.sleeps += 1;
        row.slept_ns += t.saturating_sub(since);
        row.last = (since, t);
    }

    /// Records that the machine has worked since `since` without waiting, and stops at `t`.
    pub fn stopped(&mut self, machine: MachineId, since: u64, t: u64) {
        if self.stops.len() >= MAX_STOPS {
            self.stops.pop_front();
        }
        self.stops.push_back(Stopped { machine, since, t });
    }

    /// Ends the machine's row of sleeps: it wakes another one, or another one wakes it.
    pub fn end(&mut self, machine: MachineId) {
        let Some(row) = self.rows.get_mut(machine.0 as usize).map(std::mem::take).filter(|row| row.sleeps > 1) else { return };
        self.all.entry(machine.0).or_default().add(&row);
        let (from, to) = row.last;
        for stopped in self.stops.iter().rev().skip_while(|stopped| stopped.t > to).take_while(|stopped| stopped.t > from) {
            let key = (machine.0, stopped.machine.0);
            let is_known = self.pairs.len() < MAX_PAIRS || self.pairs.contains_key(&key);
            if stopped.machine != machine && stopped.since <= row.first_end && is_known {
                self.pairs.entry(key).or_default().add(&row);
            }
        }
    }

    /// Returns the machine for whose stops this one polls most, if most of its rows end there,
    /// `most` being a majority; with these rows.
    pub fn waits_for(&self, machine: MachineId, most: f64) -> Option<(MachineId, Rows)> {
        let all = self.all.get(&machine.0)?;
        let of = self.pairs.iter().filter(|((poller, _), _)| *poller == machine.0);
        let (&(_, stopped), rows) = of.max_by_key(|&(&(_, stopped), rows)| (rows.slept_ns, std::cmp::Reverse(stopped)))?;
        let is_most = rows.count as f64 > most * all.count as f64 && rows.slept_ns as f64 > most * all.slept_ns as f64;
        is_most.then_some((MachineId(stopped), *rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLLER: MachineId = MachineId(0);
    const WORKER: MachineId = MachineId(1);

    /// Adds a row of three sleeps of 1 ms from `begin` on. The worker works from `since` to `stop`.
    fn add_row(polls: &mut Polls, begin: u64, (since, stop): (u64, u64)) {
        for sleep in 0..3 {
            let (from, to) = (begin + sleep * 1_010_000, begin + sleep * 1_010_000 + 1_000_000);
            if (from..to).contains(&stop) {
                polls.stopped(WORKER, since, stop);
            }
            polls.slept(POLLER, (from, to));
        }
        polls.end(POLLER);
    }

    #[test]
    fn a_thread_that_stops_in_the_last_sleep_of_each_row_is_waited_for() {
        let mut polls = Polls::default();
        for row in 0..10 {
            let begin = row * 10_000_000;
            add_row(&mut polls, begin, (begin, begin + 2_500_000));
        }
        let rows = Rows { count: 10, sleeps: 30, slept_ns: 30_000_000 };
        assert_eq!(polls.waits_for(POLLER, 0.5), Some((WORKER, rows)));
        assert_eq!(polls.waits_for(WORKER, 0.5), None);
    }

    #[test]
    fn a_thread_that_stops_earlier_or_has_begun_later_is_not() {
        for (since, stop) in [(0, 1_500_000), (1_200_000, 2_500_000)] {
            let mut polls = Polls::default();
            for row in 0..10 {
                let begin = row * 10_000_000;
                add_row(&mut polls, begin, (begin + since, begin + stop));
            }
            assert_eq!(polls.waits_for(POLLER, 0.5), None, "from {since} to {stop}");
        }
    }

    #[test]
    fn a_single_sleep_is_no_row() {
        let mut polls = Polls::default();
        for sleep in 0..10 {
            let from = sleep * 10_000_000;
            polls.stopped(WORKER, from, from + 500_000);
            polls.slept(POLLER, (from, from + 1_000_000));
        }
        polls.end(POLLER);
        assert_eq!(polls.waits_for(POLLER, 0.5), None);
    }
}
