//! Execution of one operation in all worlds.

use super::state::{EndMark, Replay};
use crate::what_if::operation::{Arrival, Operation};
use crate::what_if::worlds::paths::{self, Node, NodeKind};
use crate::what_if::worlds::time_vector::{self, NEVER_DELAYS, UNCHANGED};
use longpole_model::interaction::{MachineId, QueueId};

impl Replay {
    /// Runs an operation that lasts until `t` in the trace. Returns the machines that may continue
    /// now. The caller of a waiting operation holds its slots.
    pub fn execute(&mut self, machine: MachineId, t: u64, operation: &Operation) -> Vec<u32> {
        let woken = match self.execute_lasting(machine, t, operation) {
            true => {
                self.advance(machine, t);
                Vec::new()
            }
            false => self.execute_instant(machine, t, operation),
        };
        if self.machines[machine.0 as usize].is_recorder {
            self.leave_out(machine);
        }
        woken
    }

    /// Runs the operation if it lasts until its position in the trace; returns false if not.
    fn execute_lasting(&mut self, machine: MachineId, t: u64, operation: &Operation) -> bool {
        match *operation {
            Operation::OwnTime { key, paid } => self.own_time(machine, t, key, paid),
            Operation::UnexplainedWait { key } => self.unexplained_wait(machine, t, key),
            Operation::Reset => {
                let (most, replayed) = (self.most_past, &mut self.machines[machine.0 as usize]);
                replayed.past.jump(replayed.t, t, &replayed.v, replayed.node, most);
                replayed.v.fill(0.0);
                (replayed.work, replayed.before_context, replayed.node) = (None, None, paths::NONE);
            }
            Operation::Meet { arrival, delay, paid } => {
                self.set_back(machine, arrival);
                match paid {
                    None => self.meet(machine, t, arrival, delay),
                    Some(paid) => self.meet_paid(machine, t, arrival, delay, paid),
                }
            }
            Operation::BeginEarlier { arrival } => self.begin_earlier(machine, arrival),
            Operation::TakeLock { queue, arrival, delay } => {
                self.set_back(machine, arrival);
                self.lock(machine, t, queue, arrival, delay);
            }
            Operation::StartOnCpu(start) => self.start(machine, t, &start),
            Operation::BeginContext { below, key, cause_may_follow } => self.begin_context(machine, t, (below, key), cause_may_follow),
            Operation::AddInterruption { slot, key } => self.add_interruption(machine, t, slot, key),
            Operation::RoomEnd { queue, unit, ns, key, delay } => self.room_end(machine, (queue, unit), (ns, key), delay),
            _ => return false,
        }
        true
    }

    /// Runs an operation that takes no time. Returns the machines that may continue now.
    fn execute_instant(&mut self, machine: MachineId, t: u64, operation: &Operation) -> Vec<u32> {
        let replayed = &mut self.machines[machine.0 as usize];
        match *operation {
            Operation::Publish { slot, at } => {
                let node = self.times_at(machine, at);
                return self.slots.fill(slot, &self.scratch.times, node);
            }
            Operation::PublishPassed { slot, passed } => return self.publish_passed(machine, t, slot, passed),
            Operation::TakeFreeLock { queue } => {
                if let Some(lock) = self.service.locks.get_mut(&queue) {
                    let (own, most) = (&mut self.scratch.times, self.service.most_remembered);
                    own.copy_from_slice(&replayed.v);
                    lock.take(machine, self.layout, own, &mut replayed.v, most, |_| {});
                }
            }
            Operation::Unlock { queue, slot } => return self.unlock(machine, t, queue, slot),
            Operation::BeginCausedContext => {
                replayed.end_context_work();
                replayed.work = Some(vec![0.0; self.layout.len()].into());
                replayed.before_context = None;
            }
            Operation::CauseFollows => {
                if let Some((v, t)) = replayed.before_context.take() {
                    replayed.v = v;
                    replayed.t = t;
                    std::mem::swap(&mut replayed.work_began, &mut replayed.earlier_work_began);
                }
            }
            Operation::AllowSetBack => replayed.may_set_back = true,
            Operation::BeginWork => replayed.begin_work(),
            Operation::RememberMoment => {
                let node = self.times_at(machine, t);
                self.machines[machine.0 as usize].past.mark(t, &self.scratch.times, node, self.most_past);
            }
            Operation::MarkCall(which) => replayed.mark_call(which),
            Operation::ReduceSince { since, paid, key } => self.pay_less_since(machine, since, paid, key),
            Operation::PublishContextWork { slot } => {
                let work = replayed.work.take();
                match &work {
                    Some(work) => self.scratch.times.copy_from_slice(work),
                    None => self.scratch.times.fill(0.0),
                }
                return self.slots.fill(slot, &self.scratch.times, paths::NONE);
            }
            Operation::LeaveCpu { left } => return self.leave_cpu(machine, t, left),
            Operation::SetRecorder(records) => self.set_recorder(machine, t, records),
            Operation::WakeUp => replayed.wake_up(),
            Operation::RoomBegin { queue } => {
                let capacity = self.service.capacities.get(&queue);
                let lanes = capacity.into_iter().flat_map(|capacity| capacity.lanes(self.layout));
                replayed.saved.clear();
                replayed.saved.extend(lanes.map(|lane| (lane, replayed.v[lane])));
            }
            Operation::BeginService { slot, by, waits, put } => self.begin_service(machine, t, (slot, by), waits, put),
            Operation::EndService => self.end_service(machine, t),
            Operation::FreePlace => self.free_place(machine),
            Operation::AskForRoom { queue } => self.ask_for_room(machine, queue),
            Operation::GetRoom { queue, taker, put, taken } => self.get_room(machine, t, queue, taker, (put, taken)),
            Operation::MarkEnd => self.end = Some(EndMark { machine, v: replayed.v.clone(), node: replayed.node }),
            // These last until their position; `execute_lasting` has run them.
            Operation::OwnTime { .. }
            | Operation::UnexplainedWait { .. }
            | Operation::Reset
            | Operation::Meet { .. }
            | Operation::BeginEarlier { .. }
            | Operation::TakeLock { .. }
            | Operation::StartOnCpu(_)
            | Operation::BeginContext { .. }
            | Operation::AddInterruption { .. }
            | Operation::RoomEnd { .. } => {}
        }
        Vec::new()
    }

    /// Adds a wait without a known cause, in the worlds where it keeps its duration.
    fn unexplained_wait(&mut self, machine: MachineId, t: u64, key: u32) {
        let replayed = &mut self.machines[machine.0 as usize];
        let since = replayed.t;
        let elapsed = t.saturating_sub(since) as f64;
        if elapsed > 0.0 {
            replayed.past.jump(since, t, &replayed.v, replayed.node, self.most_past);
            replayed.v[self.layout.kept()].iter_mut().for_each(|v| *v += elapsed);
            replayed.node = self.paths.own(replayed.node, key, elapsed);
        }
    }

    /// Stores in the slot when the machine itself received what it passes on; a machine that passes
    /// nothing on delays no receiver.
    fn publish_passed(&mut self, machine: MachineId, t: u64, slot: u32, passed: Option<Arrival>) -> Vec<u32> {
        let mut node = self.times_at(machine, t);
        match passed {
            Some(Arrival { slot, ns, key }) => {
                let (other, row) = (self.slots.lanes(slot), &self.factors[key as usize]);
                for (lane, v) in self.scratch.times.iter_mut().enumerate().skip(UNCHANGED) {
                    *v = other[lane] + ns * row.as_ref().map_or(1.0, |row| row[lane]);
                }
                node = self.paths.own(self.slots.node(slot), key, ns);
            }
            None => self.scratch.times[UNCHANGED..].fill(NEVER_DELAYS),
        }
        self.slots.fill(slot, &self.scratch.times, node)
    }

    /// Stores in the slot when the machine returns the lock.
    fn unlock(&mut self, machine: MachineId, t: u64, queue: QueueId, slot: u32) -> Vec<u32> {
        let node = self.times_at(machine, t);
        if let Some(lock) = self.service.locks.get_mut(&queue) {
            lock.release(machine, self.layout, &mut self.scratch.times);
        }
        self.slots.fill(slot, &self.scratch.times, node)
    }

    /// A context begins on top of the machine whose times are in the slot `below`, or on an idle
    /// CPU.
    fn begin_context(&mut self, machine: MachineId, t: u64, (below, key): (Option<u32>, u32), cause_may_follow: bool) {
        let kept = self.layout.kept();
        let replayed = &mut self.machines[machine.0 as usize];
        let since = replayed.t;
        let elapsed = t.saturating_sub(since) as f64;
        replayed.end_context_work();
        replayed.work = Some(vec![0.0; self.layout.len()].into());
        replayed.before_context = cause_may_follow.then(|| (replayed.v.clone(), since));
        replayed.past.jump(since, t, &replayed.v, replayed.node, self.most_past);
        match below {
            Some(below) => {
                let other = &self.slots.lanes(below)[kept.clone()];
                let any = time_vector::won(&replayed.v[kept.clone()], other, 0.0, None, &mut self.scratch.bits);
                time_vector::later(&mut replayed.v[kept], other, 0.0);
                if any {
                    let node = Node { before: replayed.node, other: self.slots.node(below), ns: 0.0, key, kind: NodeKind::Meet };
                    replayed.node = self.paths.meet(node, &self.scratch.bits);
                }
            }
            None => {
                replayed.v[kept].iter_mut().for_each(|v| *v += elapsed);
                replayed.node = self.paths.own(replayed.node, key, elapsed);
            }
        }
    }

    /// A context on top of the machine has ended; the machine is later by its work.
    fn add_interruption(&mut self, machine: MachineId, t: u64, slot: u32, key: u32) {
        let replayed = &mut self.machines[machine.0 as usize];
        let elapsed = t.saturating_sub(replayed.t) as f64;
        replayed.past.jump(replayed.t, t, &replayed.v, replayed.node, self.most_past);
        let work = self.slots.lanes(slot);
        time_vector::add_all(&mut replayed.v, work);
        if let Some(own) = &mut replayed.work {
            time_vector::add_all(own, work);
        }
        replayed.node = self.paths.own(replayed.node, key, elapsed);
    }
}
