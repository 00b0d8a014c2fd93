//! How machines use their queues: how often one takes, looks in vain, or waits. Locks and polling show here.

use longpole_model::hash::IdMap;
use longpole_model::interaction::{MachineId, QueueId};
use longpole_model::tokens::Shape;

/// Pairs of machine and queue that are told apart.
const MOST: usize = 1 << 16;
/// Times of waiting for a lock that are apart from each other; beyond, the oldest count as they stand.
const MOST_APART: usize = 1 << 12;

/// What one machine does with one queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Use {
    /// Units that it got.
    pub taken: u64,
    /// Looks (peeks, gets of all there is) that found nothing.
    pub vain: u64,
}

/// A queue of one unit that is there from the begin.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    pub takings: u64,
    /// Those that waited before.
    pub contended: u64,
    /// All waiting together, and the time in which anybody waited.
    pub waited_ns: u64,
    pub contended_ns: u64,
    /// When the most was waited.
    pub longest: (u64, u64),
    apart: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, Default)]
pub struct Uses {
    pub of: IdMap<(MachineId, QueueId), Use>,
    pub locks: IdMap<QueueId, Lock>,
}

impl Uses {
    pub fn declare(&mut self, queue: QueueId, shape: Shape) {
        if shape.capacity == Some(1) && shape.initial == 1 && self.locks.len() < MOST {
            self.locks.insert(queue, Lock::default());
        }
    }

    /// `units` were found; a look takes none.
    pub fn looked(&mut self, machine: MachineId, queue: QueueId, units: u64, takes: bool) {
        let room = self.of.len() < MOST;
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

    /// A lock is taken, after a wait since `blocked`.
    pub fn locked(&mut self, queue: QueueId, blocked: Option<u64>, now: u64) {
        let Some(lock) = self.locks.get_mut(&queue) else { return };
        lock.takings += 1;
        if let Some(since) = blocked.filter(|&since| since < now) {
            lock.waited(since, now, MOST_APART);
        }
    }
}

impl Lock {
    /// Waits end one after the other, but may have begun whenever.
    pub fn waited(&mut self, mut since: u64, now: u64, most_apart: usize) {
        self.contended += 1;
        self.waited_ns += now - since;
        if now - since > self.longest.1 - self.longest.0 {
            self.longest = (since, now);
        }
        while let Some(&(start, end)) = self.apart.last().filter(|last| last.1 >= since) {
            self.apart.pop();
            self.contended_ns -= end - start;
            since = since.min(start);
        }
        self.contended_ns += now - since;
        if self.apart.len() >= most_apart {
            self.apart.drain(..most_apart / 2);
        }
        self.apart.push((since, now));
    }
}
