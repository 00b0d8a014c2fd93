//! The replay: runs each machine's operations in their order, those of different machines as soon
//! as what they need is there.
//!
//! Times are vectors with one entry per world ([`super::lanes`]), so an operation is executed once
//! for all worlds. An operation that is not ready waits in its machine's list, and the slot or room
//! that it needs remembers the machine.

use super::lanes::{self, GATE, KEPT, OBSERVED, WHOLE};
use super::trail::{self, Kind, Node};
use super::what::{How, Op, Passed, What};
use super::{EndMark, WhatIf};
use longpole_model::interaction::{MachineId, QueueId};

/// The arrival time, in every world, of something that delays no receiver.
pub(super) const NEVER_DELAYS: f64 = -1e18;

/// Returns true for [`NEVER_DELAYS`], also after some delays were added.
pub(super) fn is_long_ago(v: f64) -> bool {
    v < 0.5 * NEVER_DELAYS
}

/// Largest number of waiting operations, over all machines.
const MOST_HELD: usize = 1 << 20;

impl WhatIf {
    pub(super) fn op(&mut self, machine: MachineId, what: What) {
        let t = self.now;
        let life = self.life(machine);
        if what.takes_time() {
            life.since = t;
        }
        if !life.replay.pending.is_empty() || !self.is_ready(machine, &what) {
            for slot in what.slots().into_iter().flatten() {
                self.slots.hold(slot);
            }
            self.life(machine).replay.pending.push_back(Op { t, what });
            self.held += 1;
            if self.held > (self.options.most_bytes / (8 * self.layout.len())).clamp(1 << 10, MOST_HELD) {
                self.relax("the others are too far ahead of it to be held back");
            }
            return;
        }
        let woken = self.exec(machine, t, &what);
        if !woken.is_empty() {
            self.wake_held(woken);
        }
    }

    pub(super) fn wake_held(&mut self, mut woken: Vec<u32>) {
        while let Some(machine) = woken.pop() {
            self.run_waiting(MachineId(machine), &mut woken);
        }
    }

    /// Runs the machine's waiting operations as far as possible.
    fn run_waiting(&mut self, machine: MachineId, woken: &mut Vec<u32>) {
        while let Some(&op) = self.life(machine).replay.pending.front() {
            if !self.is_ready(machine, &op.what) {
                return;
            }
            self.life(machine).replay.pending.pop_front();
            self.held -= 1;
            woken.extend(self.exec(machine, op.t, &op.what));
            for slot in op.what.slots().into_iter().flatten() {
                self.slots.release(slot);
            }
        }
    }

    /// Gives up worlds that wait for room that is never freed, until all operations can run.
    pub(super) fn relax(&mut self, why: &'static str) {
        while self.held > 0 {
            let mut gone = self.give_up(true);
            if gone.is_empty() {
                gone = self.give_up(false);
            }
            for &scenario in &gone {
                self.still[scenario].get_or_insert(why);
            }
            let held = self.held;
            self.wake_held((0..self.lives.len() as u32).collect());
            if gone.is_empty() && self.held == held {
                return;
            }
        }
    }

    /// Gives up the worlds whose unit of room was never freed (`never`), or else those that wait
    /// for a machine that is itself waiting. Returns their scenarios.
    fn give_up(&mut self, never: bool) -> Vec<usize> {
        let mut gone = Vec::new();
        for life in &self.lives {
            let Some(Op { what: What::RoomEnd { queue, unit, .. }, .. }) = life.replay.pending.front() else { continue };
            if let Some(room) = self.rooms.get_mut(queue) {
                gone.extend(room.give_up(*unit, never, &self.slots));
            }
        }
        gone
    }

    /// Returns whether an operation has all that it needs; if not, the machine is registered to be
    /// woken.
    fn is_ready(&mut self, machine: MachineId, what: &What) -> bool {
        let needed = match *what {
            What::Meet { slot, .. } | What::Ahead { slot, .. } | What::Lock { slot, .. } | What::Interrupted { slot, .. } => Some(slot),
            What::Leave { passed, .. } => passed.map(|passed| passed.slot),
            What::Start { left, .. } => left.map(|left| left.slot),
            What::Arrive { below, .. } => below,
            What::RoomEnd { queue, unit, .. } => match self.rooms.get_mut(&queue).map(|room| room.needed(unit, machine, &self.slots)) {
                Some(Err(missing)) => {
                    if let Some(slot) = missing {
                        self.slots.wait(slot, machine.0);
                    }
                    return false;
                }
                _ => None,
            },
            _ => None,
        };
        match needed {
            Some(slot) if !self.slots.is_filled(slot) => {
                self.slots.wait(slot, machine.0);
                false
            }
            _ => true,
        }
    }

    /// Runs an operation that lasts until `t` in the trace. Returns the machines that may continue
    /// now. The caller of a waiting operation holds its slots.
    fn exec(&mut self, machine: MachineId, t: u64, what: &What) -> Vec<u32> {
        let woken = self.exec_recorded(machine, t, what);
        if self.lives[machine.0 as usize].replay.records {
            self.leave_out(machine);
        }
        woken
    }

    /// Like [`WhatIf::exec`], without the exception for the recorder.
    fn exec_recorded(&mut self, machine: MachineId, t: u64, what: &What) -> Vec<u32> {
        let (mut woken, mut bits) = (Vec::new(), Vec::new());
        let most = self.most_past;
        let layout = self.layout;
        let replay = &mut self.lives[machine.0 as usize].replay;
        let since = replay.t;
        let elapsed = t.saturating_sub(since) as f64;
        match *what {
            What::Own { key, paid } => {
                if elapsed > 0.0 {
                    let part = paid.map(|paid| self.part(paid, &mut bits));
                    let replay = &mut self.lives[machine.0 as usize].replay;
                    let row = &self.rows[key as usize];
                    if row.is_some() {
                        self.demand.add(key, since, t);
                    }
                    // The state ended with an event, whose recording took part of its time.
                    let recorded = self.options.probe_ns.min(elapsed);
                    let elapsed = elapsed - recorded;
                    lanes::add(&mut replay.v, elapsed, row);
                    replay.v[GATE] += recorded;
                    replay.v[WHOLE] += recorded;
                    if let Some(work) = &mut replay.work {
                        lanes::add(work, elapsed, row);
                    }
                    for &(lane, part) in part.iter().flatten() {
                        let less = elapsed * row.as_ref().map_or(1.0, |row| row[lane]) * (part - 1.0);
                        replay.v[lane] += less;
                        if let Some(work) = &mut replay.work {
                            work[lane] += less;
                        }
                    }
                    replay.past.own(since, t, key, most);
                    replay.node = match part {
                        None => self.trail.own(replay.node, key, elapsed),
                        Some(_) => {
                            self.trail.meet(Node { before: replay.node, other: replay.node, ns: elapsed, key, kind: Kind::Meet }, &bits)
                        }
                    };
                }
            }
            What::Keep { key } => {
                if elapsed > 0.0 {
                    replay.past.jump(since, t, &replay.v, replay.node, most);
                    replay.v[layout.kept()].iter_mut().for_each(|v| *v += elapsed);
                    replay.node = self.trail.own(replay.node, key, elapsed);
                }
            }
            What::Fresh => {
                replay.past.jump(since, t, &replay.v, replay.node, most);
                replay.v.fill(0.0);
                (replay.work, replay.base, replay.node) = (None, None, trail::NONE);
            }
            What::Publish { slot, at } => {
                let node = self.times_at(machine, at);
                woken = self.slots.fill(slot, &self.scratch, node);
                // Publishing is no work of its own: the machine's time stays as it was.
                debug_assert!(self.lives[machine.0 as usize].replay.t <= t);
                return woken;
            }
            What::Leave { slot, passed } => {
                let mut node = self.times_at(machine, t);
                match passed {
                    Some(Passed { slot, ns, key }) => {
                        let (other, row) = (self.slots.lanes(slot), &self.rows[key as usize]);
                        for (lane, v) in self.scratch.iter_mut().enumerate().skip(KEPT) {
                            *v = other[lane] + ns * row.as_ref().map_or(1.0, |row| row[lane]);
                        }
                        node = self.trail.own(self.slots.node(slot), key, ns);
                    }
                    None => self.scratch[KEPT..].fill(NEVER_DELAYS),
                }
                woken = self.slots.fill(slot, &self.scratch, node);
                return woken;
            }
            What::Meet { slot, ns, key, how, paid } => {
                self.set_back(machine, slot, ns, key);
                if paid.is_none() {
                    self.meet(machine, t, slot, ns, key, how);
                    return self.advance(machine, t, woken);
                }
                let mut part = paid.filter(|_| how != How::After).map_or_else(Vec::new, |paid| self.part(paid, &mut bits));
                // In the bare worlds nothing is noticed late anyway.
                part.retain(|&(lane, _)| how == How::Carried || !layout.bare().contains(&lane));
                let replay = &self.lives[machine.0 as usize].replay;
                let own: Vec<f64> = part.iter().map(|&(lane, _)| replay.v[lane]).collect();
                self.meet(machine, t, slot, ns, key, how);
                let (other, row) = (self.slots.lanes(slot), self.rows[key as usize].as_ref().filter(|_| how == How::Carried));
                let v = &mut self.lives[machine.0 as usize].replay.v;
                for (&(lane, part), own) in part.iter().zip(own) {
                    v[lane] = own.max(other[lane] + ns * row.map_or(1.0, |row| row[lane]) * part);
                }
            }
            What::Ahead { slot, ns, key } => self.go_ahead(machine, slot, ns, key),
            What::Lock { queue, slot, ns, key, how } => {
                self.set_back(machine, slot, ns, key);
                self.lock(machine, t, queue, slot, ns, key, how);
            }
            What::Got { queue } => {
                if let Some(lock) = self.locks.get_mut(&queue) {
                    self.scratch.copy_from_slice(&replay.v);
                    lock.is_got(machine, layout, &self.scratch, &mut replay.v, self.most_in_line, |_| {});
                }
                return woken;
            }
            What::Unlock { queue, slot } => {
                let node = self.times_at(machine, t);
                if let Some(lock) = self.locks.get_mut(&queue) {
                    lock.put(machine, layout, &mut self.scratch);
                }
                woken = self.slots.fill(slot, &self.scratch, node);
                return woken;
            }
            What::Start { left, off, ns, key, host } => {
                self.start(machine, t, (left, off), (ns, key), host);
                self.lives[machine.0 as usize].replay.works_from_here();
                if self.lives[machine.0 as usize].replay.records {
                    self.takes_over(machine, left);
                }
            }
            What::Arrive { below, key, may_come } => {
                replay.ends();
                replay.work = Some(vec![0.0; layout.len()].into());
                replay.base = may_come.then(|| (replay.v.clone(), since));
                replay.past.jump(since, t, &replay.v, replay.node, most);
                match below {
                    Some(below) => {
                        let other = &self.slots.lanes(below)[layout.kept()];
                        let any = lanes::won(&replay.v[layout.kept()], other, 0.0, None, &mut self.bits);
                        lanes::later(&mut replay.v[layout.kept()], other, 0.0);
                        if any {
                            let node = Node { before: replay.node, other: self.slots.node(below), ns: 0.0, key, kind: Kind::Meet };
                            replay.node = self.trail.meet(node, &self.bits);
                        }
                    }
                    None => {
                        replay.v[layout.kept()].iter_mut().for_each(|v| *v += elapsed);
                        replay.node = self.trail.own(replay.node, key, elapsed);
                    }
                }
            }
            What::Work => {
                replay.ends();
                replay.work = Some(vec![0.0; layout.len()].into());
                replay.base = None;
                return woken;
            }
            What::Rebase => {
                if let Some((v, t)) = replay.base.take() {
                    replay.v = v;
                    replay.t = t;
                    std::mem::swap(&mut replay.began, &mut replay.formerly);
                }
                return woken;
            }
            What::Anew => {
                replay.anew = true;
                return woken;
            }
            What::Began => {
                replay.begins();
                return woken;
            }
            What::Remember => {
                let node = self.times_at(machine, t);
                let (most, times) = (self.most_past, &self.scratch);
                self.lives[machine.0 as usize].replay.past.mark(t, times, node, most);
                return woken;
            }
            What::Mark(which) => {
                replay.marks(which);
                return woken;
            }
            What::Less { since, paid, key } => {
                self.pay_part(machine, since, paid, key);
                return woken;
            }
            What::PublishWork { slot } => {
                match &replay.work {
                    Some(work) => self.scratch.copy_from_slice(work),
                    None => self.scratch.fill(0.0),
                }
                woken = self.slots.fill(slot, &self.scratch, trail::NONE);
                replay.work = None;
                return woken;
            }
            What::LeaveCpu { left } => return self.leaves_cpu(machine, t, left),
            What::Records(records) => {
                self.records(machine, t, records);
                return woken;
            }
            What::Wakes => {
                replay.wakes();
                return woken;
            }
            What::Interrupted { slot, key } => {
                replay.past.jump(since, t, &replay.v, replay.node, most);
                let work = self.slots.lanes(slot);
                lanes::add_all(&mut replay.v, work);
                if let Some(own) = &mut replay.work {
                    lanes::add_all(own, work);
                }
                replay.node = self.trail.own(replay.node, key, elapsed);
            }
            What::RoomBegin { queue } => {
                let lanes = self.rooms.get(&queue).into_iter().flat_map(|room| room.lanes(layout));
                replay.saved.clear();
                replay.saved.extend(lanes.map(|lane| (lane, replay.v[lane])));
                return woken;
            }
            What::RoomEnd { queue, unit, ns, key, how } => self.room_end(machine, (queue, unit), ns, key, how),
            What::Serves { slot, by, waits, put } => {
                self.begins_serving(machine, t, (slot, by), waits, put);
                return woken;
            }
            What::Served => {
                self.ends_serving(machine, t);
                return woken;
            }
            What::Done => {
                self.places_are_free(machine);
                return woken;
            }
            What::Asks { queue } => {
                self.asks(machine, queue);
                return woken;
            }
            What::HasRoom { queue, taker, put, taken } => {
                self.has_room(machine, t, queue, taker, (put, taken));
                return woken;
            }
            What::End => self.end = Some(EndMark { machine, v: replay.v.clone(), node: replay.node }),
        }
        match *what {
            What::End => woken,
            _ => self.advance(machine, t, woken),
        }
    }

    /// Advances the machine to `t` in the trace.
    fn advance(&mut self, machine: MachineId, t: u64, woken: Vec<u32>) -> Vec<u32> {
        let replay = &mut self.lives[machine.0 as usize].replay;
        replay.t = t;
        replay.v[OBSERVED] = t as f64;
        woken
    }

    /// Sets the machine back if what it meets now comes before its last work began, in worlds where
    /// that is so; the work then does not delay it.
    fn set_back(&mut self, machine: MachineId, slot: u32, ns: f64, key: u32) {
        let replay = &mut self.lives[machine.0 as usize].replay;
        let (true, Some(began)) = (std::mem::take(&mut replay.anew), &replay.began) else { return };
        let (other, row) = (self.slots.lanes(slot), &self.rows[key as usize]);
        for lane in KEPT..self.layout.len() {
            let come = other[lane] + ns * row.as_ref().map_or(1.0, |row| row[lane]);
            // What delays no receiver does not set it back either.
            if come < began[lane] && !is_long_ago(other[lane]) {
                // Any time before the arrival, so that the arrival decides.
                replay.v[lane] = come - ns - 1.0;
            }
        }
    }

    /// Lets a context that began for something else, or for something later, begin earlier for what
    /// is already there. In each world the context begins as long after the first item that it
    /// takes as in the trace, but not before the end of its previous work.
    fn go_ahead(&mut self, machine: MachineId, slot: u32, ns: f64, key: u32) {
        let layout = self.layout;
        let replay = &mut self.lives[machine.0 as usize].replay;
        let (Some(began), Some(ended)) = (&mut replay.began, &replay.ended) else { return };
        let formerly = replay.formerly.as_deref();
        let (other, row) = (self.slots.lanes(slot), &self.rows[key as usize]);
        if is_long_ago(other[KEPT]) {
            return;
        }
        let free = |lane: usize| {
            let come = other[lane] + ns * row.as_ref().map_or(1.0, |row| row[lane]);
            // In this world its previous work may be later than this item.
            let before = formerly.is_some_and(|formerly| come < formerly[lane]);
            if before {
                come
            } else {
                come.max(ended[lane])
            }
        };
        let late = |unchanged: usize| (began[unchanged] - free(unchanged)).max(0.0);
        let late = [late(KEPT), late(layout.bare().start)];
        self.early.fill(0);
        let mut any = false;
        for lane in KEPT + 1..layout.len() {
            let is_kept = layout.kept().contains(&lane);
            let begin = free(lane) + late[usize::from(!is_kept)];
            if begin < began[lane] {
                replay.v[lane] -= began[lane] - begin;
                began[lane] = begin;
                if is_kept {
                    self.early[(lane - KEPT) / 64] |= 1 << ((lane - KEPT) % 64);
                    any = true;
                }
            }
        }
        if any {
            let node = Node { before: replay.node, other: self.slots.node(slot), ns, key, kind: Kind::Meet };
            replay.node = self.trail.meet(node, &self.early);
        }
    }

    fn meet(&mut self, machine: MachineId, t: u64, slot: u32, ns: f64, key: u32, how: How) {
        let (layout, most) = (self.layout, self.most_past);
        let replay = &mut self.lives[machine.0 as usize].replay;
        let (other, row) = (self.slots.lanes(slot), &self.rows[key as usize]);
        let kept = layout.kept();
        let (at_once, scaled) = match how {
            How::After => (0.0, None),
            How::Reaction => (ns, None),
            How::Carried => (ns, row.as_deref()),
        };
        let any = lanes::won(&replay.v[kept.clone()], &other[kept.clone()], at_once, scaled.map(|row| &row[kept.clone()]), &mut self.bits);
        if any || t > replay.t {
            replay.past.jump(replay.t, t, &replay.v, replay.node, most);
        }
        let kind = if how == How::After { Kind::After } else { Kind::Meet };
        if any || how == How::After {
            let node = Node { before: replay.node, other: self.slots.node(slot), ns, key, kind };
            replay.node = self.trail.meet(node, &self.bits);
        }
        let (known, bare) = (..layout.bare().start, layout.bare());
        replay.pauses();
        match (how, row) {
            (How::Carried, Some(row)) => {
                self.demand.add(key, t.saturating_sub(ns as u64), t);
                lanes::later_scaled(&mut replay.v, other, ns, row);
            }
            (How::Carried, None) => lanes::later(&mut replay.v, other, ns),
            _ => {
                lanes::later(&mut replay.v[known], &other[known], at_once);
                lanes::later(&mut replay.v[bare.clone()], &other[bare], 0.0);
            }
        }
        if how == How::After {
            replay.v[kept].iter_mut().for_each(|v| *v += ns);
        }
        replay.resumes();
    }

    /// Gives the machine a lock: in the order of the trace, or when the machine comes if that is
    /// earlier in this world than in the trace.
    #[allow(clippy::too_many_arguments)]
    fn lock(&mut self, machine: MachineId, t: u64, queue: QueueId, slot: u32, ns: f64, key: u32, how: How) {
        let own = self.lives[machine.0 as usize].replay.v.clone();
        self.meet(machine, t, slot, ns, key, how);
        let layout = self.layout;
        let Some(lock) = self.locks.get_mut(&queue) else { return };
        let v = &mut self.lives[machine.0 as usize].replay.v;
        lock.is_got(machine, layout, &own, v, self.most_in_line, |lane| {
            if layout.kept().contains(&lane) {
                self.trail.unset(lane - KEPT);
            }
        });
    }

    /// Applies the room of a queue in the worlds that change its capacity: there it comes from
    /// another get.
    fn room_end(&mut self, machine: MachineId, (queue, unit): (QueueId, u64), ns: f64, key: u32, how: How) {
        let layout = self.layout;
        let Some(room) = self.rooms.get_mut(&queue) else { return };
        let replay = &mut self.lives[machine.0 as usize].replay;
        let saved = std::mem::take(&mut replay.saved);
        replay.pauses();
        for &(lane, own) in &saved {
            let Some(scenario) = room.scenario_of(lane, layout) else { continue };
            let is_kept = layout.kept().contains(&lane);
            replay.v[lane] = own;
            let Some(slot) = room.unit(scenario, unit) else { continue };
            let come = self.slots.lanes(slot)[lane];
            let (before, after) = match how {
                How::Carried => (ns * self.rows[key as usize].as_ref().map_or(1.0, |row| row[lane]), 0.0),
                _ if !is_kept => (0.0, 0.0),
                How::After => (0.0, ns),
                _ => (ns, 0.0),
            };
            replay.v[lane] = own.max(come + before);
            if come + before > own {
                replay.v[lane] += after;
                if is_kept {
                    self.bits.fill(0);
                    self.bits[(lane - KEPT) / 64] |= 1 << ((lane - KEPT) % 64);
                    let node = Node { before: replay.node, other: self.slots.node(slot), ns, key, kind: Kind::Meet };
                    replay.node = self.trail.meet(node, &self.bits);
                }
            }
        }
        replay.resumes();
        replay.saved = saved;
        for slot in room.forget(unit) {
            self.slots.release(slot);
        }
    }

    /// Writes the machine's times at a moment of the trace into `scratch`. Returns the trail's
    /// node.
    pub(super) fn times_at(&mut self, machine: MachineId, at: u64) -> u64 {
        let kept = self.layout.kept();
        let replay = &self.lives[machine.0 as usize].replay;
        let past = &replay.past;
        if at < replay.t {
            if let Ok(marked) = past.marks.binary_search_by_key(&at, |mark| mark.t) {
                self.scratch.copy_from_slice(&past.marks[marked].v);
                return past.marks[marked].node;
            }
        }
        let later = match past.jumps.back() {
            Some(last) if last.t > at => past.jumps.partition_point(|jump| jump.t <= at),
            _ => past.jumps.len(),
        };
        let (v, t, node) = match past.jumps.get(later) {
            Some(jump) => (&jump.v, jump.since, jump.node),
            None => (&replay.v, replay.t, replay.node),
        };
        self.scratch.copy_from_slice(v);
        if at >= t {
            // The machine was waiting then, and its cause had not come.
            self.scratch[kept].iter_mut().for_each(|v| *v += (at - t) as f64);
            self.scratch[OBSERVED] = at as f64;
            return node;
        }
        let mut reached = t;
        for &(from, to, key) in past.own.iter().rev() {
            if to <= at {
                break;
            }
            let ns = to.min(t).saturating_sub(from.max(at));
            if ns > 0 {
                lanes::add(&mut self.scratch, -(ns as f64), &self.rows[key as usize]);
                reached = from.max(at);
            }
        }
        if reached > at && past.jumps.front().is_some_and(|first| first.t > at) {
            self.counts.too_old += 1;
            self.scratch.iter_mut().for_each(|v| *v = (*v - (reached - at) as f64).max(0.0));
        }
        self.scratch[OBSERVED] = at as f64;
        node
    }
}
