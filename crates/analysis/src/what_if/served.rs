//! Whoever takes what several machines put, each for itself: in which order, in a world?
//!
//! In the order in which they come ([`Line`]): whoever comes sooner than in the trace is served before those who come later in that world, and has room in a bounded queue before them. What such a
//! taker passes on to others comes to them in that order, too.
//!
//! Only where the trace tells of such an order: not where one is taken before another that came sooner (priorities, several queues), from a last-in, first-out queue, or where each taking
//! is not for itself. One that joins what it takes from several waits for all of them; it puts something after some takings and not after others.
//!
//! How much hangs on that order is in the interval of a prediction: what those who came out of the trace's order waited, and what others waited for them.

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

/// Of the time until the end, more does not hang on an order: what one waits less for, another one waits more.
const MOST_HANGS: f64 = 0.125;

/// What a machine does with what it takes, as the trace tells.
#[derive(Clone, Copy, Debug, Default)]
pub struct Takes {
    /// From a queue that several machines fill.
    shared: bool,
    /// In some scenario it does several pieces of work at once.
    pub(super) at_once: bool,
    /// It has taken something then, and nothing after that.
    works: bool,
    /// It has put something since it took the last.
    put: bool,
    /// Whether it did after the takings before; none: it has not taken twice.
    puts: Option<bool>,
    joins: bool,
}

/// A machine that serves several, in the worlds of scenarios.
#[derive(Debug)]
pub struct Server {
    /// Two of each scenario, as in [`Layout::of`].
    lines: Vec<Line>,
    clients: Clients,
    /// When what it took last came, in the unchanged world.
    came: f64,
    /// It has taken what came later before what came sooner: it has an order of its own.
    chooses: bool,
    serves: Option<Serves>,
    /// It serves several at once in some scenarios.
    at_once: AtOnce,
}

/// Who asks for room in a queue; and who has put something there that is not taken, when it asked.
#[derive(Debug, Default)]
pub struct Asked {
    asking: IdMap<MachineId, Box<[f64]>>,
    put: VecDeque<(u64, Box<[f64]>)>,
}

impl Asked {
    /// When whoever put this asked, if it is known.
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
    /// In a scenario there may be more room, or less.
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
    /// It stands elsewhere in some world; and the end of its trail before.
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
    /// What is taken from it is work, in the order in which it came.
    fn has_work(&self) -> bool {
        !self.is_lock && !self.is_lifo && !matches!(self.kind, Some(Kind::Signals | Kind::Replies))
    }
}

impl WhatIf {
    /// How much of each scenario's end hangs on the order in which those who have to do with it were served, up to a part of it.
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
            *hangs = hangs.min(MOST_HANGS * end.v[self.layout.of(scenario)[0]]);
        }
        hangs
    }

    /// There are those of one more server, or lock.
    pub(super) fn more_lines(&mut self) {
        self.lines_made += 2 * self.layout.scenarios;
        self.most_in_line = line::most(self.lines_made, self.options.most_bytes / 4);
    }

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

    /// Whether what lies in this queue is work for whoever takes it.
    pub(super) fn takes_work_from(&self, queue: QueueId) -> bool {
        self.known.get(queue.0 as usize).is_some_and(Known::has_work)
    }

    /// Before it takes the next: what it took last is done, with all that it waited for.
    pub(super) fn has_done(&mut self, machine: MachineId) {
        if std::mem::take(&mut self.life(machine).takes.works) {
            self.op(machine, What::Done);
        }
    }

    /// It has taken something.
    pub(super) fn serves(&mut self, machine: MachineId, queue: QueueId, taken: &Taken<From>) {
        let Some(known) = self.known.get_mut(queue.0 as usize) else { return };
        known.takes += 1;
        // In its order goes what is one thing at a time.
        let is_one = taken.units == 1 && taken.missing == 0 && known.taker.is_none_or(|taker| taker == machine);
        (known.room, known.taker) = (known.room.filter(|_| is_one), Some(machine));
        let Origin::From(from) = taken.cause else { return };
        if !known.has_work() {
            return;
        }
        // Who passes on what several put passes it on in the order in which they came.
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
        // What it did before the first one was for nobody.
        takes.puts = takes.shared.then_some(put);
        takes.shared |= is_shared || takes.at_once;
        if (is_shared || takes.at_once) && !takes.joins && life.context.is_none() && !life.serves_anyone {
            self.life(machine).takes.works = self.life(machine).takes.at_once;
            self.op(machine, What::Serves { slot: from.slot, by: from.by, waits, put: room.map(|_| (queue, number - 1)) });
        }
    }

    /// It puts something into a queue, for which it may have to ask for room. What tells of that, once it has it.
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

    /// It has room in the order of the trace.
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
        // What was put so long ago is taken.
        while pending.front().is_some_and(|before| before.0.saturating_add(space) <= put) {
            pending.pop_front();
        }
        pending.push_back((put, asked));
        self.lives[taker.0 as usize].replay.server = Some(server);
    }

    /// What it took last is done.
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

    /// What it took last is done, with all that it waited for meanwhile.
    pub(super) fn places_are_free(&mut self, machine: MachineId) {
        let replay = &mut self.lives[machine.0 as usize].replay;
        if let Some(server) = &mut replay.server {
            server.at_once.ends(&replay.v);
        }
    }

    /// It takes what has come in that slot.
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
            // What holds up nobody has no place in line.
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

/// In the worlds that are walked back the other way was taken.
fn mark(bits: &mut [u64], layout: Layout, lane: usize) {
    if layout.kept().contains(&lane) {
        bits[(lane - KEPT) / 64] |= 1 << ((lane - KEPT) % 64);
    }
}
