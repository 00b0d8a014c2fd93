//! Whoever takes what several machines put, each for itself: in which order, in a world?
//!
//! The replay keeps the order of the trace, so that one that comes sooner is served no sooner than whoever came before it in the trace. In the bare worlds, the other end of what
//! may be, the time in which such a taker would be idle is given to what is there already; what does not fit into it holds up what comes after. So the interval tells
//! how much of a prediction hangs on an order that nobody knows.
//!
//! Only where each taking is for itself: one that joins what it takes from several waits for all of them. It puts something after some takings and not after others.

use super::idle::Idle;
use super::lanes::Layout;
use super::what::What;
use super::{From, Kind, WhatIf};
use longpole_model::interaction::{MachineId, QueueId};
use longpole_model::tokens::{Origin, Taken};

/// What a machine does with what it takes, as the trace tells.
#[derive(Clone, Copy, Debug, Default)]
pub struct Takes {
    /// From a queue that several machines fill.
    shared: bool,
    /// It has put something since it took the last.
    put: bool,
    /// Whether it did after the takings before; none: it has not taken twice.
    puts: Option<bool>,
    joins: bool,
}

/// A machine that serves several, in the bare worlds.
#[derive(Debug)]
pub struct Server {
    lanes: Vec<Lane>,
    serves: bool,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    /// When it is free in its order, and times before when it is idle.
    free: f64,
    idle: Idle,
    /// It serves in an idle time, until then; and when it goes on in its order.
    within: Option<(f64, f64)>,
}

impl Lane {
    /// Something has come that it takes at `own` in its order. Returns when it takes it.
    fn takes(&mut self, came: f64, own: f64) -> f64 {
        if came > self.free {
            self.idle.add(self.free, came);
            return own;
        }
        // Where it lasts longer, it goes on so much later in its order.
        let Some((from, to, begin)) = self.idle.take(came, |begin, to| begin < to) else { return own };
        self.idle.add(from, begin);
        self.within = Some((to, own));
        begin
    }

    /// It has served, until then. Returns where it stands in its order.
    fn ends(&mut self, v: f64) -> f64 {
        self.free = match self.within.take() {
            Some((to, own)) => {
                self.idle.add(v, to);
                own + (v - to).max(0.0)
            }
            None => v,
        };
        self.free
    }
}

impl Server {
    fn new(layout: Layout) -> Server {
        Server { lanes: vec![Lane::default(); layout.bare().len()], serves: false }
    }
}

impl WhatIf {
    /// It puts something.
    pub(super) fn has_put(&mut self, machine: MachineId) {
        self.life(machine).takes.put = true;
    }

    /// Before it takes, or waits: what it took last is done.
    pub(super) fn has_served(&mut self, machine: MachineId) {
        if self.life(machine).takes.shared {
            self.op(machine, What::Served);
        }
    }

    /// It has taken something.
    pub(super) fn serves(&mut self, machine: MachineId, queue: QueueId, taken: &Taken<From>) {
        let Origin::From(from) = taken.cause else { return };
        let Some(known) = self.known.get_mut(queue.0 as usize) else { return };
        if known.is_lock || known.kind == Some(Kind::Signals) {
            return;
        }
        let before = *known.by.get_or_insert(from.by);
        known.is_shared |= before != from.by;
        let is_shared = known.is_shared;
        let several = self.queues.spent.iter().any(|spent| spent.by != from.by);
        let life = self.life(machine);
        let takes = &mut life.takes;
        let put = std::mem::take(&mut takes.put);
        if takes.puts.is_some_and(|puts| puts != put) || several {
            takes.joins = true;
        }
        // What it did before the first one was for nobody.
        takes.puts = takes.shared.then_some(put);
        takes.shared |= is_shared;
        if is_shared && !takes.joins && life.context.is_none() && !life.serves_anyone {
            self.op(machine, What::Serves { slot: from.slot });
        }
    }

    /// What it took last is done.
    pub(super) fn ends_serving(&mut self, machine: MachineId, t: u64) {
        let (bare, most) = (self.layout.bare(), self.most_past);
        let replay = &mut self.lives[machine.0 as usize].replay;
        let Some(server) = &mut replay.server else { return };
        if !std::mem::take(&mut server.serves) {
            return;
        }
        if server.lanes.iter().any(|lane| lane.within.is_some()) {
            replay.past.jump(replay.t, t, &replay.v, replay.node, most);
        }
        for (at, lane) in server.lanes.iter_mut().enumerate() {
            let v = &mut replay.v[bare.start + at];
            *v = lane.ends(*v);
        }
    }

    /// It takes what has come in that slot.
    pub(super) fn begins_serving(&mut self, machine: MachineId, t: u64, slot: u32) {
        let (layout, most) = (self.layout, self.most_past);
        let replay = &mut self.lives[machine.0 as usize].replay;
        let server = replay.server.get_or_insert_with(|| Box::new(Server::new(layout)));
        let (came, start) = (&self.slots.lanes(slot)[layout.bare()], layout.bare().start);
        let mut jumped = false;
        for (at, lane) in server.lanes.iter_mut().enumerate() {
            let own = replay.v[start + at];
            let begin = lane.takes(came[at], own);
            if begin < own {
                if !std::mem::replace(&mut jumped, true) {
                    replay.past.jump(replay.t, t, &replay.v, replay.node, most);
                }
                replay.v[start + at] = begin;
            }
        }
        server.serves = true;
    }
}
