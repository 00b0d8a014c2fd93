//! The order in which a server serves several machines, in each world.
//!
//! A server takes items that several machines put, each item for itself. In a world it serves them
//! in the order of their arrival there ([`Line`]): a machine that comes earlier than in the trace
//! is served before those that come later in that world, and gets room in a bounded queue before
//! them. What the server passes on reaches the receivers in that order, too.
//!
//! This applies only if the trace shows such an order. It does not apply if the server took an item
//! before another one that came earlier (priorities, several queues), for a last-in, first-out
//! queue, or if gets are not independent. A server that joins items of several machines waits for
//! all of them; it is recognized by putting something after some gets and not after others.
//!
//! The interval of a prediction includes the effect of the assumed order: the time that machines
//! waited when they came out of the trace's order, and the time that others waited for them.

use super::at_once::AtOnce;
use super::lanes::{Layout, KEPT};
use super::line::{self, Clients, Line, Waits};
use super::ops::is_long_ago;
use super::room::Room;
use super::trail::{self, Node};
use super::what::What;
use super::{EndMark, From, Kind, Known, WhatIf};
use longpole_model::hash::IdMap;
use longpole_model::interaction::{MachineId, QueueId};
use longpole_model::tokens::{Origin, Taken};
use std::collections::VecDeque;

/// Largest part of the time until the end that may depend on an order: what one machine waits less,
/// another one waits more.
const MOST_ORDER_DEPENDENT: f64 = 0.125;

/// Behaviour of a machine with what it takes, as seen in the trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Takes {
    /// The machine takes from a queue that several machines fill.
    shared: bool,
    /// In some scenario the machine does several pieces of work at once.
    pub(super) at_once: bool,
    /// The machine has taken an item in such a scenario, and nothing since.
    works: bool,
    /// The machine has put something since its last get.
    put: bool,
    /// Whether the machine put something after each of the gets before; `None` before its second
    /// get.
    puts: Option<bool>,
    joins: bool,
}

/// A machine that serves several others, in the worlds of the scenarios.
#[derive(Debug)]
pub struct Server {
    /// Two lines for each scenario, in the order of [`Layout::of`].
    lines: Vec<Line>,
    clients: Clients,
    /// Arrival of the last item in the unchanged world.
    came: f64,
    /// The server took a later item before an earlier one: it has an order of its own.
    chooses: bool,
    serves: Option<Serves>,
    /// Places at which the server serves several machines at once, in some scenarios.
    at_once: AtOnce,
}

/// Times at which machines asked for room in a queue: those that are asking, and those of puts that
/// are not yet taken.
#[derive(Debug, Default)]
pub struct Asked {
    asking: IdMap<MachineId, Box<[f64]>>,
    put: VecDeque<(u64, Box<[f64]>)>,
}

impl Asked {
    /// Returns when the machine that made this put asked for room, if it is known.
    fn taken(&mut self, number: u64) -> Option<Box<[f64]>> {
        while self.put.front().is_some_and(|put| put.0 < number) {
            self.put.pop_front();
        }
        match self.put.front() {
            Some(put) if put.0 == number => self.put.pop_front().map(|put| put.1),
            _ => None,
        }
    }
}

impl Waits {
    /// Replaces the room by that of a scenario that changes it.
    fn of(self, scenario: usize, changed: Option<&Room>) -> Waits {
        match (self, changed.and_then(|room| room.units(scenario))) {
            (Waits::Room(_), Some(units)) => Waits::Room(units),
            _ => self,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Serves {
    client: usize,
    waits: Waits,
    queue: Option<QueueId>,
    /// The server is at another position of the order in some world; and the end of its trail
    /// before that.
    moved: bool,
    node: u64,
}

impl Server {
    fn new(layout: Layout, at_once: AtOnce) -> Server {
        let lines = vec![Line::default(); 2 * layout.scenarios];
        Server { lines, clients: Clients::default(), came: 0.0, chooses: false, serves: None, at_once }
    }
}

impl Known {
    /// Items of the queue are work that is taken in the order of arrival.
    fn has_work(&self) -> bool {
        !self.is_lock && !self.is_lifo && !matches!(self.kind, Some(Kind::Signals | Kind::Replies))
    }
}

impl WhatIf {
    /// Returns how much of each scenario's end depends on the order of service among the machines
    /// that are connected with it, at most [`MOST_ORDER_DEPENDENT`] of the end.
    pub(super) fn hangs(&mut self, end: &EndMark) -> Vec<f64> {
        let root = self.together.find(end.machine.0);
        let mut hangs = vec![0.0; self.layout.scenarios];
        let layout = self.layout;
        let mut add = |lines: &[Line], at_once: Option<&AtOnce>| {
            lines.chunks_exact(2).zip(&mut hangs).for_each(|(line, hangs)| *hangs += line[0].hangs);
            let kept = at_once.into_iter().flat_map(AtOnce::hangs).filter(|(lane, _)| layout.kept().contains(lane));
            kept.for_each(|(lane, more)| hangs[layout.scenario_of(lane)] += more);
        };
        for at in 0..self.lives.len() {
            if self.together.find(at as u32) == root {
                self.lives[at].replay.server.iter().for_each(|server| add(&server.lines, Some(&server.at_once)));
            }
        }
        let together = &mut self.together;
        self.locks
            .values()
            .filter(|lock| lock.by.is_some_and(|by| together.find(by.0) == root))
            .for_each(|lock| add(&lock.lines, Some(&lock.at_once)));
        self.one_cpus.iter().for_each(|(_, one)| add(&one.lines, None));
        for (scenario, hangs) in hangs.iter_mut().enumerate() {
            *hangs = hangs.min(MOST_ORDER_DEPENDENT * end.v[self.layout.of(scenario)[0]]);
        }
        hangs
    }

    /// Accounts for the lines of one more server or lock, and adapts the length of all lines.
    pub(super) fn more_lines(&mut self) {
        self.lines_made += 2 * self.layout.scenarios;
        self.most_in_line = line::most(self.lines_made, self.options.most_bytes / 4);
    }

    /// Notes a put of the machine.
    pub(super) fn has_put(&mut self, machine: MachineId) {
        self.life(machine).takes.put = true;
    }

    /// Ends the work on the machine's last item. Called before it takes another one, or waits.
    pub(super) fn has_served(&mut self, machine: MachineId) {
        if self.life(machine).takes.shared {
            self.op(machine, What::Served);
        }
    }

    /// Returns true if items of this queue are work for the machine that takes them.
    pub(super) fn takes_work_from(&self, queue: QueueId) -> bool {
        self.known.get(queue.0 as usize).is_some_and(Known::has_work)
    }

    /// Ends the work on the last item with all its waits. Called before the next get.
    pub(super) fn has_done(&mut self, machine: MachineId) {
        if std::mem::take(&mut self.life(machine).takes.works) {
            self.op(machine, What::Done);
        }
    }

    /// Begins the work on what the machine took.
    pub(super) fn serves(&mut self, machine: MachineId, queue: QueueId, taken: &Taken<From>) {
        let Some(known) = self.known.get_mut(queue.0 as usize) else { return };
        known.takes += 1;
        // An order is only followed if each get is of one unit, by one machine.
        let is_one = taken.units == 1 && taken.missing == 0 && known.taker.is_none_or(|taker| taker == machine);
        (known.room, known.taker) = (known.room.filter(|_| is_one), Some(machine));
        let Origin::From(from) = taken.cause else { return };
        if !known.has_work() {
            return;
        }
        // A machine that passes on what several put passes it on in the order of their arrival.
        known.is_shared |= self.lives.get(from.by.0 as usize).is_some_and(|life| life.takes.shared && !life.takes.joins);
        let before = *known.by.get_or_insert(from.by);
        known.is_shared |= before != from.by;
        let is_shared = known.is_shared;
        let several = self.queues.spent.iter().any(|spent| spent.by != from.by);
        let (number, room) = (known.takes, known.room);
        let waits = match (known.kind, known.room) {
            (Some(Kind::Calls), _) => Waits::Done,
            (_, Some(room)) => Waits::Room(room),
            _ => Waits::No,
        };
        let life = self.life(machine);
        let takes = &mut life.takes;
        let put = std::mem::take(&mut takes.put);
        if takes.puts.is_some_and(|puts| puts != put) || several {
            takes.joins = true;
        }
        // The machine's puts before its first get are not for any item.
        takes.puts = takes.shared.then_some(put);
        takes.shared |= is_shared || takes.at_once;
        if (is_shared || takes.at_once) && !takes.joins && life.context.is_none() && !life.is_shared_worker {
            self.life(machine).takes.works = self.life(machine).takes.at_once;
            self.op(machine, What::Serves { slot: from.slot, by: from.by, waits, put: room.map(|_| (queue, number - 1)) });
        }
    }

    /// Notes that the machine puts something and may have to ask for room. Returns the operation to
    /// issue once it has room.
    pub(super) fn may_ask(&mut self, machine: MachineId, queue: QueueId, n: u64, early: bool) -> Option<What> {
        let known = self.known.get_mut(queue.0 as usize)?;
        known.room = known.room.filter(|_| n == 1 && !early);
        let put = known.puts;
        known.puts += 1;
        let (taker, taken) = (known.taker.filter(|_| known.is_shared && known.room.is_some())?, known.takes);
        if self.life(taker).takes.joins {
            return None;
        }
        self.op(machine, What::Asks { queue });
        Some(What::HasRoom { queue, taker, put, taken })
    }

    pub(super) fn asks(&mut self, machine: MachineId, queue: QueueId) {
        let replay = &self.lives[machine.0 as usize].replay;
        self.asked_room.entry(queue).or_default().asking.insert(machine, replay.v.clone());
    }

    /// Gives the machine room, in the order of the trace or earlier.
    pub(super) fn has_room(&mut self, machine: MachineId, t: u64, queue: QueueId, taker: MachineId, (put, taken): (u64, u64)) {
        let (layout, most) = (self.layout, self.most_past);
        let Some(space) = self.known[queue.0 as usize].room else { return };
        let Some(Asked { asking, put: pending }) = self.asked_room.get_mut(&queue) else { return };
        let Some(mut asked) = asking.remove(&machine) else { return };
        let Some(mut server) = self.lives[taker.0 as usize].replay.server.take() else { return };
        let replay = &mut self.lives[machine.0 as usize].replay;
        let client = server.clients.number(machine);
        let (mut moved, changed) = (false, self.rooms.get(&queue));
        for (at, line) in server.lines.iter_mut().enumerate() {
            let lane = layout.of(at / 2)[at % 2];
            let turn = replay.v[lane];
            let room = changed.and_then(|changed| changed.units(at / 2)).unwrap_or(space);
            let later = |own: f64| pending.iter().filter(|put| put.1[lane] > own).count() as u64;
            let (came, v) = line.asks(client, asked[lane], turn, room, put.saturating_sub(taken), later);
            asked[lane] = came;
            if v != turn {
                if !std::mem::replace(&mut moved, true) {
                    replay.past.jump(replay.t, t, &replay.v, replay.node, most);
                    replay.pauses();
                }
                replay.v[lane] = v;
            }
        }
        if moved {
            replay.resumes();
        }
        // A put that is as old as the capacity has been taken.
        while pending.front().is_some_and(|before| before.0.saturating_add(space) <= put) {
            pending.pop_front();
        }
        pending.push_back((put, asked));
        self.lives[taker.0 as usize].replay.server = Some(server);
    }

    /// Ends the work on the machine's last item.
    pub(super) fn ends_serving(&mut self, machine: MachineId, t: u64) {
        let (layout, most) = (self.layout, self.most_past);
        let replay = &mut self.lives[machine.0 as usize].replay;
        let Some(mut server) = replay.server.take() else { return };
        if let Some(Serves { client, waits, queue, moved, node }) = server.serves.take() {
            let changed = queue.and_then(|queue| self.rooms.get(&queue));
            if moved {
                replay.past.jump(replay.t, t, &replay.v, replay.node, most);
                replay.pauses();
                self.bits.fill(0);
            }
            for (at, line) in server.lines.iter_mut().enumerate() {
                let lane = layout.of(at / 2)[at % 2];
                if server.at_once.is_of(lane) {
                    continue;
                }
                let v = line.ends(client, replay.v[lane], waits.of(at / 2, changed));
                if v != replay.v[lane] {
                    replay.v[lane] = v;
                    mark(&mut self.bits, layout, lane);
                }
            }
            if moved {
                replay.resumes();
                let back = Node { before: replay.node, other: node, ns: 0.0, key: 0, kind: trail::Kind::Meet };
                replay.node = self.trail.meet(back, &self.bits);
            }
        }
        replay.server = Some(server);
    }

    /// Ends the work on the last item, with all its waits, in the worlds with several places.
    pub(super) fn places_are_free(&mut self, machine: MachineId) {
        let replay = &mut self.lives[machine.0 as usize].replay;
        if let Some(server) = &mut replay.server {
            server.at_once.ends(&replay.v);
        }
    }

    /// Begins the work on what came in that slot.
    pub(super) fn begins_serving(
        &mut self,
        machine: MachineId,
        t: u64,
        (slot, by): (u32, MachineId),
        waits: Waits,
        put: Option<(QueueId, u64)>,
    ) {
        let asked = put.and_then(|(queue, number)| self.asked_room.get_mut(&queue)?.taken(number));
        let (layout, most) = (self.layout, self.most_past);
        let replay = &mut self.lives[machine.0 as usize].replay;
        let mut server = match replay.server.take() {
            Some(server) => server,
            None => {
                self.more_lines();
                let asked = self.at_once.get(&machine).map_or(&[][..], Vec::as_slice);
                self.scale.are_met(asked);
                let at_once = AtOnce::new(layout, asked);
                Box::new(Server::new(layout, at_once))
            }
        };
        let (replay, most_in_line) = (&mut self.lives[machine.0 as usize].replay, self.most_in_line);
        let came = self.slots.lanes(slot);
        server.chooses |= came[KEPT] < server.came;
        server.came = came[KEPT];
        let (client, reorders) = (server.clients.number(by), !server.chooses);
        let (mut moved, node) = (false, replay.node);
        let queue = put.map(|put| put.0);
        let changed = queue.and_then(|queue| self.rooms.get(&queue));
        if !server.at_once.is_empty() {
            moved = true;
            replay.past.jump(replay.t, t, &replay.v, node, most);
            replay.pauses();
            self.bits.fill(0);
            let v = &replay.v;
            let comes = |lane: usize| if is_long_ago(came[lane]) { v[lane] } else { came[lane] };
            let began = server.at_once.begins(comes, |lane| v[lane]);
            for (lane, begin) in began {
                if begin < replay.v[lane] {
                    mark(&mut self.bits, layout, lane);
                }
                replay.v[lane] = begin;
            }
        }
        for (at, line) in server.lines.iter_mut().enumerate() {
            let lane = layout.of(at / 2)[at % 2];
            if server.at_once.is_of(lane) {
                continue;
            }
            let turn = replay.v[lane];
            // What delays no receiver has no position in the line.
            let came = if is_long_ago(came[lane]) { turn } else { came[lane] };
            let asked = asked.as_ref().map_or(came, |asked| asked[lane]);
            let begin = if reorders { line.takes(client, asked, came, turn, waits.of(at / 2, changed), most_in_line) } else { turn };
            if begin != turn || !line.is_last() {
                if !std::mem::replace(&mut moved, true) {
                    replay.past.jump(replay.t, t, &replay.v, node, most);
                    replay.pauses();
                    self.bits.fill(0);
                }
                replay.v[lane] = begin;
                if begin < turn {
                    mark(&mut self.bits, layout, lane);
                }
            }
        }
        if moved {
            replay.resumes();
            let before = Node { before: node, other: self.slots.node(slot), ns: 0.0, key: 0, kind: trail::Kind::Meet };
            replay.node = self.trail.meet(before, &self.bits);
        }
        server.serves = Some(Serves { client, waits, queue, moved, node });
        replay.server = Some(server);
    }
}

/// Notes that the other path was taken in this world, if its trail is recorded.
fn mark(bits: &mut [u64], layout: Layout, lane: usize) {
    if layout.kept().contains(&lane) {
        bits[(lane - KEPT) / 64] |= 1 << ((lane - KEPT) % 64);
    }
}
