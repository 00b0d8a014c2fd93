//! Locks: queues of one unit that is there from the begin. In a world where somebody comes later than in the trace, the others do not wait for their turn
//! after it: the time for which the lock would lie idle is theirs, if their usual hold fits into it. If it then lasts longer, the lock is
//! free so much later: it is never held for more than all of the time.

use super::idle::Idle;
use super::lanes::Layout;
use longpole_model::hash::IdMap;
use longpole_model::interaction::MachineId;

#[derive(Debug)]
pub struct Lock {
    lanes: Vec<Lane>,
    /// How long a machine held it in each lane the last time.
    holds: IdMap<MachineId, Box<[f64]>>,
    /// When the one that holds it got it.
    got: Box<[f64]>,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    /// When it is free for good, and times before when it is idle.
    end: f64,
    idle: Idle,
    /// Until when the idle time lasts in which it is held now.
    within: Option<f64>,
}

impl Lock {
    pub fn new(layout: Layout) -> Lock {
        Lock { lanes: vec![Lane::default(); layout.len()], holds: IdMap::default(), got: vec![0.0; layout.len()].into() }
    }

    /// A machine that was ready at `own` gets the lock in this lane; in its turn that is at `turn`. Returns when it gets it.
    pub fn get(&mut self, machine: MachineId, lane: usize, own: f64, turn: f64) -> f64 {
        let holds = self.holds.get(&machine).map(|holds| holds[lane]);
        let lane = &mut self.lanes[lane];
        lane.within = None;
        if turn <= own {
            lane.idle.add(lane.end, own);
            return own;
        }
        let Some(hold) = holds else { return turn };
        let Some((from, to, start)) = lane.idle.take(own, |start, to| start + hold <= to) else { return turn };
        if from + hold <= start {
            lane.idle.add(from, start);
        }
        lane.within = Some(to);
        start
    }

    pub fn is_got(&mut self, v: &[f64]) {
        self.got.copy_from_slice(v);
    }

    /// The machine gives it back at `v`, which becomes the time from which on others have it in their turn.
    pub fn put(&mut self, machine: MachineId, v: &mut [f64]) {
        let holds = self.holds.entry(machine).or_insert_with(|| vec![0.0; v.len()].into());
        for (at, (v, lane)) in v.iter_mut().zip(&mut self.lanes).enumerate() {
            holds[at] = *v - self.got[at];
            match lane.within.take() {
                Some(to) if *v <= to => lane.idle.add(*v, to),
                Some(to) => lane.end += *v - to,
                None => lane.end = lane.end.max(*v),
            }
            *v = lane.end;
        }
    }
}
