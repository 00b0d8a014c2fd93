//! Locks: queues of one unit that is there from the begin. In a world where somebody comes later than in the trace, the others do not wait for their turn
//! after it: the time for which the lock would lie idle is theirs, if their usual hold fits into it.

use super::lanes::Layout;
use longpole_model::hash::IdMap;
use longpole_model::interaction::MachineId;

/// Idle times that are remembered of a lock in each world.
const MOST_IDLE: usize = 16;

#[derive(Debug)]
pub struct Lock {
    /// Of each lane, when the lock is free for good, and times before when it is idle.
    end: Box<[f64]>,
    idle: Vec<Vec<(f64, f64)>>,
    /// How long a machine held it in each lane the last time.
    holds: IdMap<MachineId, Box<[f64]>>,
    /// When the one that holds it got it.
    got: Box<[f64]>,
}

impl Lock {
    pub fn new(layout: Layout) -> Lock {
        let none: Box<[f64]> = vec![0.0; layout.len()].into();
        Lock { end: none.clone(), idle: vec![Vec::new(); layout.len()], holds: IdMap::default(), got: none }
    }

    /// A machine that was ready at `own` gets the lock in this lane; in its turn that is at `turn`. Returns when it gets it.
    pub fn get(&mut self, machine: MachineId, lane: usize, own: f64, turn: f64) -> f64 {
        let idle = &mut self.idle[lane];
        if turn <= own {
            if self.end[lane] < own {
                if idle.len() >= MOST_IDLE {
                    idle.remove(0);
                }
                idle.push((self.end[lane], own));
            }
            return turn.max(own);
        }
        let Some(hold) = self.holds.get(&machine).map(|holds| holds[lane]) else { return turn };
        for at in 0..idle.len() {
            let (from, to) = idle[at];
            let start = from.max(own);
            if start + hold <= to {
                idle[at] = (start + hold, to);
                return start;
            }
        }
        turn
    }

    pub fn is_got(&mut self, v: &[f64]) {
        self.got.copy_from_slice(v);
    }

    /// The machine gives it back at `v`, which becomes the time from which on others have it in their turn.
    pub fn put(&mut self, machine: MachineId, v: &mut [f64]) {
        let holds = self.holds.entry(machine).or_insert_with(|| vec![0.0; v.len()].into());
        for (lane, v) in v.iter_mut().enumerate() {
            holds[lane] = *v - self.got[lane];
            self.end[lane] = self.end[lane].max(*v);
            *v = self.end[lane];
        }
    }
}
