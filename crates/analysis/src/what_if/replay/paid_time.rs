//! Time of a machine that may belong to a call, which some worlds make less often.

use super::state::Replay;
use crate::what_if::operation::{Arrival, CallMark, DelayKind, PaidCall};
use crate::what_if::worlds::paths::{Node, NodeKind};
use crate::what_if::worlds::time_vector::{self, GATE, WITH_RECORDING};
use longpole_model::interaction::MachineId;

impl Replay {
    /// Adds the machine's own time in a state; `paid` is the call that the time belongs to.
    pub fn own_time(&mut self, machine: MachineId, t: u64, key: u32, paid: Option<PaidCall>) {
        let since = self.machines[machine.0 as usize].t;
        let elapsed = t.saturating_sub(since) as f64;
        if elapsed <= 0.0 {
            return;
        }
        let mut bits = Vec::new();
        let part = paid.map(|paid| self.calls.part(paid, &mut bits));
        let replayed = &mut self.machines[machine.0 as usize];
        let row = &self.factors[key as usize];
        if row.is_some() {
            self.demand.add(key, since, t);
        }
        // The state ended with an event, whose recording took part of its time.
        let recorded = self.probe_ns.min(elapsed);
        let elapsed = elapsed - recorded;
        time_vector::add(&mut replayed.v, elapsed, row);
        replayed.v[GATE] += recorded;
        replayed.v[WITH_RECORDING] += recorded;
        if let Some(work) = &mut replayed.work {
            time_vector::add(work, elapsed, row);
        }
        for &(lane, part) in part.iter().flatten() {
            let less = elapsed * row.as_ref().map_or(1.0, |row| row[lane]) * (part - 1.0);
            replayed.v[lane] += less;
            if let Some(work) = &mut replayed.work {
                work[lane] += less;
            }
        }
        replayed.past.own(since, t, key, self.most_past);
        replayed.node = match part {
            None => self.paths.own(replayed.node, key, elapsed),
            Some(_) => {
                let node = Node { before: replayed.node, other: replayed.node, ns: elapsed, key, kind: NodeKind::Meet };
                self.paths.meet(node, &bits)
            }
        };
    }

    /// Like `meet`, with a delay that belongs to a call. Some worlds make fewer calls.
    pub fn meet_paid(&mut self, machine: MachineId, t: u64, arrival: Arrival, delay: DelayKind, paid: PaidCall) {
        let Arrival { slot, ns, key } = arrival;
        let mut part = match delay {
            DelayKind::AfterBoth => Vec::new(),
            _ => self.calls.part(paid, &mut Vec::new()),
        };
        // In the bare worlds nothing is noticed late anyway.
        part.retain(|&(lane, _)| delay == DelayKind::Carried || !self.layout.bare().contains(&lane));
        let replayed = &self.machines[machine.0 as usize];
        let own: Vec<f64> = part.iter().map(|&(lane, _)| replayed.v[lane]).collect();
        self.meet(machine, t, arrival, delay);
        let (other, row) = (self.slots.lanes(slot), self.factors[key as usize].as_ref().filter(|_| delay == DelayKind::Carried));
        let v = &mut self.machines[machine.0 as usize].v;
        for (&(lane, part), own) in part.iter().zip(own) {
            v[lane] = own.max(other[lane] + ns * row.map_or(1.0, |row| row[lane]) * part);
        }
    }

    /// Reduces the machine's time since the mark, in the worlds with fewer calls.
    pub fn pay_less_since(&mut self, machine: MachineId, since: CallMark, paid: PaidCall, key: u32) {
        let part = self.calls.part(paid, &mut Vec::new());
        let kept = self.layout.kept();
        let replayed = &mut self.machines[machine.0 as usize];
        let Some((mark, node)) = &replayed.call_marks[since as usize] else { return };
        let early = &mut self.scratch.early;
        early.fill(0);
        let mut left = 0.0;
        for &(lane, part) in part.iter().filter(|part| part.1 < 1.0) {
            let ns = part * (replayed.v[lane] - mark[lane]).max(0.0);
            replayed.v[lane] = mark[lane] + ns;
            if kept.contains(&lane) {
                time_vector::set_bit(early, lane);
                left = ns;
            }
        }
        let meeting = Node { before: replayed.node, other: *node, ns: left, key, kind: NodeKind::Meet };
        replayed.node = self.paths.meet(meeting, early);
    }
}
