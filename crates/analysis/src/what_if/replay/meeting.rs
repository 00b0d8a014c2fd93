//! Meetings: a machine continues when both it and something else are there, a token, a lock or a
//! unit of room.
//!
//! The later of the two decides, in each world by itself; a bit for each world says which one it
//! was, so that the path to the end can be followed back.
//!
//! Example: in the trace the server waits for a request that comes at 5 ms. In a world where the
//! client is twice as fast it comes at 2.5 ms, but the server is busy until 3 ms and continues
//! then.

use super::state::Replay;
use crate::what_if::operation::{Arrival, DelayKind};
use crate::what_if::worlds::paths::{Node, NodeKind};
use crate::what_if::worlds::time_vector::{self, is_long_ago, UNCHANGED};
use longpole_model::interaction::{MachineId, QueueId};

impl Replay {
    /// Sets the machine back if what it meets now comes before its last work began, in worlds where
    /// that is so; the work then does not delay it.
    pub fn set_back(&mut self, machine: MachineId, Arrival { slot, ns, key }: Arrival) {
        let replayed = &mut self.machines[machine.0 as usize];
        let (true, Some(work_began)) = (std::mem::take(&mut replayed.may_set_back), &replayed.work_began) else { return };
        let (other, row) = (self.slots.lanes(slot), &self.factors[key as usize]);
        for lane in UNCHANGED..self.layout.len() {
            let come = other[lane] + ns * row.as_ref().map_or(1.0, |row| row[lane]);
            // What delays no receiver does not set it back either.
            if come < work_began[lane] && !is_long_ago(other[lane]) {
                // Any time before the arrival, so that the arrival decides.
                replayed.v[lane] = come - ns - 1.0;
            }
        }
    }

    /// Lets a context that began for something else, or for something later, begin earlier for what
    /// is already there. In each world the context begins as long after the first item that it
    /// takes as in the trace, but not before the end of its previous work.
    pub fn begin_earlier(&mut self, machine: MachineId, Arrival { slot, ns, key }: Arrival) {
        let layout = self.layout;
        let replayed = &mut self.machines[machine.0 as usize];
        let (Some(began), Some(ended)) = (&mut replayed.work_began, &replayed.context_ended) else { return };
        let earlier = replayed.earlier_work_began.as_deref();
        let (other, row) = (self.slots.lanes(slot), &self.factors[key as usize]);
        if is_long_ago(other[UNCHANGED]) {
            return;
        }
        let free = |lane: usize| {
            let come = other[lane] + ns * row.as_ref().map_or(1.0, |row| row[lane]);
            // In this world its previous work may be later than this item.
            let before = earlier.is_some_and(|earlier| come < earlier[lane]);
            if before {
                come
            } else {
                come.max(ended[lane])
            }
        };
        let late = |unchanged: usize| (began[unchanged] - free(unchanged)).max(0.0);
        let late = [late(UNCHANGED), late(layout.bare().start)];
        self.scratch.early.fill(0);
        let mut any = false;
        for lane in UNCHANGED + 1..layout.len() {
            let is_kept = layout.kept().contains(&lane);
            let begin = free(lane) + late[usize::from(!is_kept)];
            if begin < began[lane] {
                replayed.v[lane] -= began[lane] - begin;
                began[lane] = begin;
                if is_kept {
                    time_vector::set_bit(&mut self.scratch.early, lane);
                    any = true;
                }
            }
        }
        if any {
            let node = Node { before: replayed.node, other: self.slots.node(slot), ns, key, kind: NodeKind::Meet };
            replayed.node = self.paths.meet(node, &self.scratch.early);
        }
    }

    pub fn meet(&mut self, machine: MachineId, t: u64, Arrival { slot, ns, key }: Arrival, delay: DelayKind) {
        let (layout, most) = (self.layout, self.most_past);
        let replayed = &mut self.machines[machine.0 as usize];
        let (other, row) = (self.slots.lanes(slot), &self.factors[key as usize]);
        let kept = layout.kept();
        let (at_once, scaled) = match delay {
            DelayKind::AfterBoth => (0.0, None),
            DelayKind::Reaction => (ns, None),
            DelayKind::Carried => (ns, row.as_deref()),
        };
        let any = time_vector::won(
            &replayed.v[kept.clone()],
            &other[kept.clone()],
            at_once,
            scaled.map(|row| &row[kept.clone()]),
            &mut self.scratch.bits,
        );
        if any || t > replayed.t {
            replayed.past.jump(replayed.t, t, &replayed.v, replayed.node, most);
        }
        let kind = if delay == DelayKind::AfterBoth { NodeKind::AfterBoth } else { NodeKind::Meet };
        if any || delay == DelayKind::AfterBoth {
            let node = Node { before: replayed.node, other: self.slots.node(slot), ns, key, kind };
            replayed.node = self.paths.meet(node, &self.scratch.bits);
        }
        let (known, bare) = (..layout.bare().start, layout.bare());
        replayed.pause_cpu_work();
        match (delay, row) {
            (DelayKind::Carried, Some(row)) => {
                self.demand.add(key, t.saturating_sub(ns as u64), t);
                time_vector::later_scaled(&mut replayed.v, other, ns, row);
            }
            (DelayKind::Carried, None) => time_vector::later(&mut replayed.v, other, ns),
            _ => {
                time_vector::later(&mut replayed.v[known], &other[known], at_once);
                time_vector::later(&mut replayed.v[bare.clone()], &other[bare], 0.0);
            }
        }
        if delay == DelayKind::AfterBoth {
            replayed.v[kept].iter_mut().for_each(|v| *v += ns);
        }
        replayed.resume_cpu_work();
    }

    /// Gives the machine a lock: in the order of the trace, or when the machine comes if that is
    /// earlier in this world than in the trace.
    pub fn lock(&mut self, machine: MachineId, t: u64, queue: QueueId, arrival: Arrival, delay: DelayKind) {
        let own = self.machines[machine.0 as usize].v.clone();
        self.meet(machine, t, arrival, delay);
        let layout = self.layout;
        let Some(lock) = self.service.locks.get_mut(&queue) else { return };
        let v = &mut self.machines[machine.0 as usize].v;
        lock.take(machine, layout, &own, v, self.service.most_remembered, |lane| {
            if layout.kept().contains(&lane) {
                self.paths.unset(lane - UNCHANGED);
            }
        });
    }

    /// Applies the room of a queue in the worlds that change its capacity: there it comes from
    /// another get.
    pub fn room_end(&mut self, machine: MachineId, (queue, unit): (QueueId, u64), (ns, key): (f64, u32), delay: DelayKind) {
        let layout = self.layout;
        let Some(capacity) = self.service.capacities.get_mut(&queue) else { return };
        let replayed = &mut self.machines[machine.0 as usize];
        let saved = std::mem::take(&mut replayed.saved);
        replayed.pause_cpu_work();
        for &(lane, own) in &saved {
            let Some(scenario) = capacity.scenario_of(lane, layout) else { continue };
            let is_kept = layout.kept().contains(&lane);
            replayed.v[lane] = own;
            let Some(slot) = capacity.unit(scenario, unit) else { continue };
            let come = self.slots.lanes(slot)[lane];
            let (before, after) = match delay {
                DelayKind::Carried => (ns * self.factors[key as usize].as_ref().map_or(1.0, |row| row[lane]), 0.0),
                _ if !is_kept => (0.0, 0.0),
                DelayKind::AfterBoth => (0.0, ns),
                _ => (ns, 0.0),
            };
            replayed.v[lane] = own.max(come + before);
            if come + before > own {
                replayed.v[lane] += after;
                if is_kept {
                    self.scratch.bits.fill(0);
                    time_vector::set_bit(&mut self.scratch.bits, lane);
                    let node = Node { before: replayed.node, other: self.slots.node(slot), ns, key, kind: NodeKind::Meet };
                    replayed.node = self.paths.meet(node, &self.scratch.bits);
                }
            }
        }
        replayed.resume_cpu_work();
        replayed.saved = saved;
        for slot in capacity.forget(unit) {
            self.slots.release(slot);
        }
    }
}
