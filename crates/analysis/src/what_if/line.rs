//! Who stands in line, in one world: what a server, or a lock, has done there and will do, in the order of arrival.
//!
//! The trace tells of the takings in its own order. In a world where somebody comes sooner than others who were told of before, its place is before them: it is served as soon as those are done
//! who came earlier, and what it takes longer than there was idle time delays those behind it. They were told of already, so they feel it when they come the next time.
//!
//! Whoever waits for its reply comes so much later: all that was after it moves. Whoever does not wait comes when it came, and what is idle between makes up for it.

use longpole_model::hash::IdMap;
use longpole_model::interaction::MachineId;
use std::collections::VecDeque;

/// So many takings are remembered, or fewer, where there are many lines. Who falls back further finds what it found on the average before.
pub const MOST: usize = 64;
const LEAST: usize = 16;

/// So many clients are told from each other.
const MOST_CLIENTS: usize = 256;

/// How many takings each of so many lines remembers within these bytes.
pub fn most(lines: usize, bytes: usize) -> usize {
    (bytes / size_of::<Taking>() / lines.max(1)).clamp(LEAST, MOST)
}

#[derive(Clone, Copy, Debug)]
struct Taking {
    client: u32,
    /// When its client came, and when it had room for what is taken.
    asked: f64,
    came: f64,
    /// So long it took to begin when it could.
    late: f64,
    begin: f64,
    end: f64,
}

/// One that comes again and again, as far as is told.
#[derive(Clone, Copy, Debug, Default)]
struct Client {
    /// When it was last done.
    done: f64,
    /// How much later that is than what it has been told.
    owed: f64,
    /// How much later it comes than was known, in [`Line::shifts`].
    shift: f64,
    /// When it came out of the trace's order: how often, how long it waited, and how long others did for it.
    moved: f64,
    waited: f64,
    delayed: f64,
    /// The same of room.
    asked: f64,
    stood: f64,
}

/// What a client does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// It does not wait.
    No,
    /// Until it is done.
    Done,
    /// Until so many before it are taken, at the latest.
    Room(u64),
}

#[derive(Clone, Copy, Debug)]
enum Within {
    /// At the end of the line.
    Last,
    /// Before that many.
    Before { at: usize, asked: f64, came: f64, late: f64, begin: f64 },
    /// Before all that are remembered.
    LongAgo,
}

#[derive(Clone, Debug)]
pub struct Line {
    takings: VecDeque<Taking>,
    /// Some were forgotten.
    is_cut: bool,
    /// Somebody came out of the trace's order.
    is_other: bool,
    /// When the first one could be served at the soonest, and when the last one in line is done.
    opens: f64,
    free: f64,
    within: Within,
    /// What others did meanwhile, for those who came out of the trace's order, and what others waited for them: so much hangs on whether that is the order.
    pub hangs: f64,
    clients: Vec<Client>,
}

/// The numbers of clients in all worlds.
#[derive(Debug, Default)]
pub struct Clients(IdMap<MachineId, usize>);

impl Clients {
    pub fn number(&mut self, client: MachineId) -> usize {
        let next = self.0.len();
        match next < MOST_CLIENTS {
            true => *self.0.entry(client).or_insert(next),
            false => self.0.get(&client).copied().unwrap_or(client.0 as usize % MOST_CLIENTS),
        }
    }
}

impl Default for Line {
    fn default() -> Line {
        Line {
            takings: VecDeque::new(),
            is_cut: false,
            is_other: false,
            opens: 0.0,
            free: 0.0,
            within: Within::Last,
            hangs: 0.0,
            clients: Vec::new(),
        }
    }
}

impl Line {
    fn client(&mut self, client: usize) -> &mut Client {
        if client >= self.clients.len() {
            self.clients.resize(client + 1, Client::default());
        }
        &mut self.clients[client]
    }

    fn forget(&mut self, most: usize) {
        while self.takings.len() >= most {
            self.takings.pop_front();
            self.is_cut = true;
        }
        if self.takings.capacity() > 2 * most {
            self.takings.shrink_to(most);
        }
    }

    /// How many before whoever asks then.
    fn before(&self, asked: f64) -> usize {
        match self.takings.back() {
            Some(last) if last.asked > asked => self.takings.partition_point(|taking| taking.asked <= asked),
            _ => self.takings.len(),
        }
    }

    /// A client asks for room, of which there is so much; in the order of the trace it has it at `turn`. So many are put and not taken, and so many of them
    /// have asked later. Returns when it asked, and when it has it.
    pub fn asks(&mut self, client: usize, asked: f64, turn: f64, room: u64, put: u64, later: impl Fn(f64) -> u64) -> (f64, f64) {
        let asked = asked + std::mem::take(&mut self.client(client).owed);
        let later = later(asked);
        let before = self.before(asked);
        if before == self.takings.len() && later == 0 && !self.is_other {
            return (asked, turn.max(asked));
        }
        self.is_other = true;
        let behind = put.saturating_sub(later);
        let known = &mut self.clients[client];
        let came = match (before as u64 + behind).checked_sub(room) {
            Some(needed) => self.takings.get(needed as usize).map_or(asked, |taking| taking.begin.max(asked)),
            None if self.is_cut => asked + known.stood / known.asked.max(1.0),
            None => asked,
        };
        (known.asked, known.stood) = (known.asked + 1.0, known.stood + came - asked);
        self.hangs += came - asked;
        (asked, came)
    }

    /// What a client had when it came is taken; in the order of the trace that is at `turn`. Returns when it is. So many are
    /// remembered.
    pub fn takes(&mut self, client: usize, asked: f64, came: f64, turn: f64, waits: Waits, most: usize) -> f64 {
        let owed = if let Waits::Room(_) = waits { 0.0 } else { std::mem::take(&mut self.client(client).owed) };
        let late = (turn - if came > self.free { came } else { self.free }).max(0.0);
        let (asked, came) = (asked + owed, came + owed);
        self.within = Within::Last;
        let at = self.before(asked);
        if at == self.takings.len() {
            let turn = turn.max(came);
            if at == 0 && turn > came {
                self.opens = turn;
            }
            self.forget(most);
            self.takings.push_back(Taking { client: client as u32, asked, came, late, begin: turn, end: turn });
            return turn;
        }
        self.is_other = true;
        let known = self.client(client);
        let usual = known.waited / known.moved.max(1.0);
        let begin = match at.checked_sub(1) {
            Some(before) => came.max(self.takings[before].end),
            None if self.is_cut => {
                self.within = Within::LongAgo;
                self.hangs += usual;
                return came + usual;
            }
            None => came.max(self.opens),
        };
        let begin = begin + late;
        let known = &mut self.clients[client];
        (known.moved, known.waited) = (known.moved + 1.0, known.waited + begin - came);
        self.hangs += begin - came;
        self.within = Within::Before { at, asked, came, late, begin };
        begin
    }

    /// It was served in its turn.
    pub fn is_last(&self) -> bool {
        matches!(self.within, Within::Last)
    }

    /// It is done at `v`. Returns when the line is, for who comes next in the order of the trace.
    pub fn ends(&mut self, client: usize, v: f64, waits: Waits) -> f64 {
        self.client(client);
        match std::mem::replace(&mut self.within, Within::Last) {
            Within::Last => {
                if let Some(last) = self.takings.back_mut() {
                    last.end = v;
                }
                self.free = v;
                self.client(client).done = v;
            }
            Within::LongAgo => self.delays(client, v),
            Within::Before { at, asked, came, late, begin } => {
                let overlaps = v > self.takings[at].begin;
                self.takings.insert(at, Taking { client: client as u32, asked, came, late, begin, end: v });
                if overlaps {
                    let delayed = self.shifts(at + 1, v, waits);
                    self.clients[client].delayed += delayed;
                    self.hangs += delayed;
                }
                self.forget(2 * MOST);
            }
        }
        self.free
    }

    /// The takings from there on, where the one before them is done at `free`. Returns how much later their clients are told.
    fn shifts(&mut self, at: usize, mut free: f64, waits: Waits) -> f64 {
        self.clients.iter_mut().for_each(|client| client.shift = 0.0);
        for at in at..self.takings.len() {
            let asked = |taking: &Taking| taking.asked + self.clients[taking.client as usize].shift;
            // Who comes later now may come after the next one.
            if self.takings.get(at + 1).is_some_and(|next| asked(next) < asked(&self.takings[at])) {
                self.takings.swap(at, at + 1);
            }
            let asked = asked(&self.takings[at]);
            let room = match waits {
                Waits::Room(room) => at.checked_sub(room as usize),
                _ => None,
            };
            let room = room.and_then(|needed| self.takings.get(needed)).map_or(asked, |needed| needed.begin);
            let taking = &mut self.takings[at];
            let (was, lasts) = (*taking, taking.end - taking.begin);
            taking.came = if waits == Waits::No || asked > room { asked } else { room };
            taking.asked = asked;
            taking.begin = if taking.came > free { taking.came } else { free } + taking.late;
            taking.end = taking.begin + lasts;
            free = taking.end;
            self.clients[taking.client as usize].shift = match waits {
                Waits::No => 0.0,
                Waits::Done => taking.end - was.end,
                Waits::Room(_) => taking.came - was.came,
            };
            if waits == Waits::No && taking.end == was.end {
                return 0.0;
            }
        }
        self.free = free;
        for client in &mut self.clients {
            client.done += client.shift;
            client.owed += client.shift;
        }
        self.clients.iter().map(|client| client.shift).sum()
    }

    /// One is served at a time of which nothing is known any more: others wait for it as they did for others.
    fn delays(&mut self, client: usize, v: f64) {
        let ahead = |(number, other): (usize, &Client)| number != client && other.done > v;
        let count = self.clients.iter().enumerate().filter(|&other| ahead(other)).count();
        let of = self.clients[client];
        let each = of.delayed / (of.moved * count as f64).max(1.0);
        for (number, other) in self.clients.iter_mut().enumerate() {
            if ahead((number, other)) {
                other.done += each;
                other.owed += each;
                self.hangs += each;
            }
        }
    }
}
