//! How machines use queues: gets, looks in vain, and waits. These show contended locks and polling.

use longpole_model::hash::IdMap;
use longpole_model::interaction::{MachineId, QueueId};
use longpole_model::tokens::Shape;

/// Largest number of pairs of machine and queue that are counted.
const MAX_PAIRS: usize = 1 << 16;
/// Largest number of disjoint intervals of waiting for a lock; beyond it, the oldest are no longer
/// merged with later ones.
const MAX_INTERVALS: usize = 1 << 12;

/// Use of one queue by one machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Use {
    /// Units that the machine got.
    pub taken: u64,
    /// Looks (peeks, and gets of everything available) that found nothing.
    pub vain: u64,
}

/// A lock: a queue with one unit that is there from the start.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    pub takings: u64,
    /// Gets after a wait.
    pub contended: u64,
    /// Sum of all waits in ns, and the time in ns in which at least one machine waited.
    pub waited_ns: u64,
    pub contended_ns: u64,
    /// Start and end of the longest wait in ns.
    pub longest: (u64, u64),
    /// Disjoint intervals in which at least one machine waited, in ns, the latest last.
    intervals: Vec<(u64, u64)>,
}

/// Uses of all queues, and of locks.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    pub of: IdMap<(MachineId, QueueId), Use>,
    pub locks: IdMap<QueueId, Lock>,
}

impl Uses {
    pub fn declare(&mut self, queue: QueueId, shape: Shape) {
        if shape.capacity == Some(1) && shape.initial == 1 && self.locks.len() < MAX_PAIRS {
            self.locks.insert(queue, Lock::default());
        }
    }

    /// Notes a look that found `units`; with `takes` it was a get.
    pub fn count_look(&mut self, machine: MachineId, queue: QueueId, units: u64, takes: bool) {
        let room = self.of.len() < MAX_PAIRS;
        let known = self.of.get_mut(&(machine, queue));
        let mut new = Use::default();
        let this = known.unwrap_or(&mut new);
        this.vain += u64::from(units == 0);
        this.taken += if takes { units } else { 0 };
        let new = new;
        if (new.vain > 0 || new.taken > 0) && room {
            self.of.insert((machine, queue), new);
        }
    }

    /// Notes that a lock is taken, after a wait since `blocked`.
    pub fn count_lock(&mut self, queue: QueueId, blocked: Option<u64>, now: u64) {
        let Some(lock) = self.locks.get_mut(&queue) else { return };
        lock.takings += 1;
        if let Some(since) = blocked.filter(|&since| since < now) {
            lock.add_wait(since, now, MAX_INTERVALS);
        }
    }
}

impl Lock {
    /// Adds a wait. Waits come in the order of their ends, but may have begun at any time.
    pub fn add_wait(&mut self, mut since: u64, now: u64, most_intervals: usize) {
        self.contended += 1;
        self.waited_ns += now - since;
        if now - since > self.longest.1 - self.longest.0 {
            self.longest = (since, now);
        }
        while let Some(&(start, end)) = self.intervals.last().filter(|last| last.1 >= since) {
            self.intervals.pop();
            self.contended_ns -= end - start;
            since = since.min(start);
        }
        self.contended_ns += now - since;
        if self.intervals.len() >= most_intervals {
            self.intervals.drain(..most_intervals / 2);
        }
        self.intervals.push((since, now));
    }
}
