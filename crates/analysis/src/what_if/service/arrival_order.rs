//! The order of arrival at a server or lock in one world: what it has done and will do there.
//!
//! The trace reports gets in its own order. In a world, a machine may come earlier than others
//! whose gets were processed before; its position is then before them. It is served when those that
//! came earlier are done, and its service delays those behind it, except for idle time in between.
//! Since these have already been processed, the delay is added when they come the next time
//! (`Client::owed`).
//!
//! A machine that waits for its reply comes later by the whole delay: everything after it moves. A
//! machine that does not wait comes when it came, and idle time makes up for the delay.
//!
//! Example: in the trace A comes at 1 ms and B at 2 ms, and each needs 2 ms. In a world B comes at
//! 0 ms. A was processed first, with the service 1..3. B is then inserted before it, with the
//! service 0..2; A moves to 2..4, and the delay of 1 ms is added to A's next arrival.

use longpole_model::hash::IdMap;
use longpole_model::interaction::MachineId;
use std::collections::VecDeque;

/// Largest number of gets that one order remembers; fewer if there are many orders. A machine that
/// comes before all remembered gets waits for the mean of its previous waits.
pub const MAX_REMEMBERED: usize = 64;
const MIN_REMEMBERED: usize = 16;

/// Largest number of clients with an entry of their own; further ones share these entries.
const MAX_CLIENTS: usize = 256;

/// Number of gets that each of `orders` orders may remember within `bytes` bytes.
pub fn most(orders: usize, bytes: usize) -> usize {
    (bytes / size_of::<Taking>() / orders.max(1)).clamp(MIN_REMEMBERED, MAX_REMEMBERED)
}

#[derive(Clone, Copy, Debug)]
struct Taking {
    client: u32,
    /// Times at which the client came, and at which it had room for the item.
    asked: f64,
    came: f64,
    /// Time from when the service could begin until it began.
    start_delay: f64,
    begin: f64,
    end: f64,
}

/// A client, which comes repeatedly.
#[derive(Clone, Copy, Debug, Default)]
struct Client {
    /// End of its last service.
    done: f64,
    /// Delay of that end which the client has not yet received.
    owed: f64,
    /// Delay of its next arrival, within one call of [`ArrivalOrder::shift_later`].
    shift: f64,
    /// When it came out of the trace's order: how often, its total wait, and the total delay of
    /// others.
    reordered: f64,
    waited: f64,
    delayed: f64,
    /// The same for its waits for room: how often, and the total wait.
    room_waits: f64,
    waited_for_room: f64,
}

/// What a client does while it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// The client does not wait.
    No,
    /// The client waits until it is done.
    Done,
    /// The client waits for room in a queue of this capacity: until the item that many positions
    /// before its own has been taken.
    Room(u64),
}

impl Waits {
    /// Replaces the capacity by that of a scenario, if the scenario changes it.
    pub fn with_capacity(self, changed: Option<u64>) -> Waits {
        match (self, changed) {
            (Waits::Room(_), Some(units)) => Waits::Room(units),
            _ => self,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Within {
    /// After all others.
    Last,
    /// Before the gets from this index on.
    Before { at: usize, asked: f64, came: f64, start_delay: f64, begin: f64 },
    /// Before all remembered gets.
    LongAgo,
}

/// The gets of one server or lock, in the order in which they were requested.
#[derive(Clone, Debug)]
pub struct ArrivalOrder {
    takings: VecDeque<Taking>,
    /// True if some gets were forgotten.
    has_forgotten: bool,
    /// True if a client came out of the trace's order.
    is_reordered: bool,
    /// Earliest time of the first service, and end of the last one.
    opens: f64,
    free: f64,
    within: Within,
    /// Time that clients waited when they came out of the trace's order, and that others waited for
    /// them. This much depends on whether the assumed order is the true one.
    pub order_dependent: f64,
    clients: Vec<Client>,
}

/// Numbers of the clients, the same in all worlds.
#[derive(Debug, Default)]
pub struct Clients(IdMap<MachineId, usize>);

impl Clients {
    /// Returns the client's number, below [`MAX_CLIENTS`].
    pub fn number(&mut self, client: MachineId) -> usize {
        let next = self.0.len();
        match next < MAX_CLIENTS {
            true => *self.0.entry(client).or_insert(next),
            false => self.0.get(&client).copied().unwrap_or(client.0 as usize % MAX_CLIENTS),
        }
    }
}

impl Default for ArrivalOrder {
    fn default() -> ArrivalOrder {
        ArrivalOrder {
            takings: VecDeque::new(),
            has_forgotten: false,
            is_reordered: false,
            opens: 0.0,
            free: 0.0,
            within: Within::Last,
            order_dependent: 0.0,
            clients: Vec::new(),
        }
    }
}

impl ArrivalOrder {
    fn client(&mut self, client: usize) -> &mut Client {
        if client >= self.clients.len() {
            self.clients.resize(client + 1, Client::default());
        }
        &mut self.clients[client]
    }

    fn forget(&mut self, most: usize) {
        while self.takings.len() >= most {
            self.takings.pop_front();
            self.has_forgotten = true;
        }
        if self.takings.capacity() > 2 * most {
            self.takings.shrink_to(most);
        }
    }

    /// Returns the number of gets that were requested no later than `asked`.
    fn before(&self, asked: f64) -> usize {
        match self.takings.back() {
            Some(last) if last.asked > asked => self.takings.partition_point(|taking| taking.asked <= asked),
            _ => self.takings.len(),
        }
    }

    /// Asks for room in a queue with `room` units; in the order of the trace the client gets it at
    /// `turn`. `put` units are put and not taken, and `later` returns how many of them were
    /// requested later. Returns the times at which the client asked and at which it has room.
    pub fn ask_for_room(&mut self, client: usize, asked: f64, turn: f64, room: u64, put: u64, later: impl Fn(f64) -> u64) -> (f64, f64) {
        let asked = asked + std::mem::take(&mut self.client(client).owed);
        let later = later(asked);
        let before = self.before(asked);
        if before == self.takings.len() && later == 0 && !self.is_reordered {
            return (asked, turn.max(asked));
        }
        self.is_reordered = true;
        let behind = put.saturating_sub(later);
        let known = &mut self.clients[client];
        let came = match (before as u64 + behind).checked_sub(room) {
            Some(needed) => self.takings.get(needed as usize).map_or(asked, |taking| taking.begin.max(asked)),
            None if self.has_forgotten => asked + known.waited_for_room / known.room_waits.max(1.0),
            None => asked,
        };
        (known.room_waits, known.waited_for_room) = (known.room_waits + 1.0, known.waited_for_room + came - asked);
        self.order_dependent += came - asked;
        (asked, came)
    }

    /// Takes the client's item; in the order of the trace that happens at `turn`. Returns when it
    /// happens in this world. At most `most` gets are remembered.
    pub fn take(&mut self, client: usize, asked: f64, came: f64, turn: f64, waits: Waits, most: usize) -> f64 {
        let owed = if let Waits::Room(_) = waits { 0.0 } else { std::mem::take(&mut self.client(client).owed) };
        let start_delay = (turn - if came > self.free { came } else { self.free }).max(0.0);
        let (asked, came) = (asked + owed, came + owed);
        self.within = Within::Last;
        let at = self.before(asked);
        if at == self.takings.len() {
            let turn = turn.max(came);
            if at == 0 && turn > came {
                self.opens = turn;
            }
            self.forget(most);
            self.takings.push_back(Taking { client: client as u32, asked, came, start_delay, begin: turn, end: turn });
            return turn;
        }
        self.is_reordered = true;
        let known = self.client(client);
        let usual = known.waited / known.reordered.max(1.0);
        let begin = match at.checked_sub(1) {
            Some(before) => came.max(self.takings[before].end),
            None if self.has_forgotten => {
                self.within = Within::LongAgo;
                self.order_dependent += usual;
                return came + usual;
            }
            None => came.max(self.opens),
        };
        let begin = begin + start_delay;
        let known = &mut self.clients[client];
        (known.reordered, known.waited) = (known.reordered + 1.0, known.waited + begin - came);
        self.order_dependent += begin - came;
        self.within = Within::Before { at, asked, came, start_delay, begin };
        begin
    }

    /// Returns true if the last client was served in the order of the trace.
    pub fn is_last(&self) -> bool {
        matches!(self.within, Within::Last)
    }

    /// Ends the service at `v`. Returns when the server is free for the next client in the order of
    /// the trace.
    pub fn end_service(&mut self, client: usize, v: f64, waits: Waits) -> f64 {
        self.client(client);
        match std::mem::replace(&mut self.within, Within::Last) {
            Within::Last => {
                if let Some(last) = self.takings.back_mut() {
                    last.end = v;
                }
                self.free = v;
                self.client(client).done = v;
            }
            Within::LongAgo => self.delay_others(client, v),
            Within::Before { at, asked, came, start_delay, begin } => {
                let overlaps = v > self.takings[at].begin;
                self.takings.insert(at, Taking { client: client as u32, asked, came, start_delay, begin, end: v });
                if overlaps {
                    let delayed = self.shift_later(at + 1, v, waits);
                    self.clients[client].delayed += delayed;
                    self.order_dependent += delayed;
                }
                self.forget(2 * MAX_REMEMBERED);
            }
        }
        self.free
    }

    /// Moves the gets from `at` on, since the one before them ends at `free`. Returns the total
    /// delay of their clients.
    fn shift_later(&mut self, at: usize, mut free: f64, waits: Waits) -> f64 {
        self.clients.iter_mut().for_each(|client| client.shift = 0.0);
        for at in at..self.takings.len() {
            let asked = |taking: &Taking| taking.asked + self.clients[taking.client as usize].shift;
            // A client that comes later now may come after the next one.
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
            taking.begin = if taking.came > free { taking.came } else { free } + taking.start_delay;
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

    /// Serves a client at a time that is no longer remembered: others wait for it as long as they
    /// did on average before.
    fn delay_others(&mut self, client: usize, v: f64) {
        let ahead = |(number, other): (usize, &Client)| number != client && other.done > v;
        let count = self.clients.iter().enumerate().filter(|&other| ahead(other)).count();
        let of = self.clients[client];
        let each = of.delayed / (of.reordered * count as f64).max(1.0);
        for (number, other) in self.clients.iter_mut().enumerate() {
            if ahead((number, other)) {
                other.done += each;
                other.owed += each;
                self.order_dependent += each;
            }
        }
    }
}
