//! Queues of tokens, and of the free space in them. They answer the question which put caused a
//! get.
//!
//! Each queue, lock, credit, call and signal is represented by such a queue. A token has a size and
//! an origin. This module does not interpret origins, it only returns them: origins that are in no
//! queue any more are listed in [`Queues::spent`]. Free space is a queue of its own, whose tokens
//! come from the gets that made it. For example, a put into a full queue gets a token of space,
//! whose origin is the get that made room.
//!
//! Tokens that are never taken must not use up the memory. Beyond the limit given to
//! [`Queues::new`], the fullest queues forget the origins of the older half of their tokens, which
//! then count as unknown, until there is room for some time. [`Queues::forgotten`] counts them.

pub(crate) mod dense;
mod queued;

use crate::hash::IdMap;
use crate::ids::{MachineId, QueueId};
use crate::names::NameId;
use queued::QueuedTokens;
use std::collections::VecDeque;

/// The properties of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Capacity in units; `None` means unlimited.
    pub capacity: Option<u64>,
    pub order: Order,
    pub unit: Unit,
    /// Units that are in the queue from the begin and have no cause.
    pub initial: u64,
    /// True if the cause of a get is the put that made the queue non-empty.
    pub merge: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { capacity: None, order: Order::Fifo, unit: Unit::Items, initial: 0, merge: false }
    }
}

/// The order in which tokens are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Fifo,
    Lifo,
}

/// The unit of a queue's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Items,
    Bytes,
}

/// A number of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Units(u64),
    All,
}

/// The origin of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<O> {
    /// The unit was there from the begin.
    None,
    /// The unit had an origin, which was forgotten or never known.
    Unknown,
    From(O),
}

/// A run of units with one origin. `seq` grows with each arrival and is 0 for units that were there
/// from the begin.
#[derive(Clone, Copy, Debug)]
struct Token<O> {
    n: u64,
    seq: u64,
    origin: Origin<O>,
}

/// The result of a get, peek, put or reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken<O> {
    pub units: u64,
    /// Units that should have been there and were not, which is a contradiction in the input.
    pub missing: u64,
    /// The origin of the unit that arrived last.
    pub cause: Origin<O>,
}

impl<O> Taken<O> {
    const NOTHING: Taken<O> = Taken { units: 0, missing: 0, cause: Origin::None };
}

#[derive(Clone, Debug)]
struct Queue<O> {
    shape: Shape,
    tokens: QueuedTokens<O>,
    /// In a merge queue, the put that made it non-empty.
    opener: Origin<O>,
    space: VecDeque<Token<O>>,
    space_units: u64,
    /// Space that machines have reserved.
    reserved: IdMap<MachineId, VecDeque<Token<O>>>,
    reserved_units: u64,
    /// Sequence number of the latest arrival.
    newest: u64,
}

/// All queues of a system.
#[derive(Clone, Debug)]
pub struct Queues<O> {
    queues: Vec<Option<Queue<O>>>,
    /// Sequence number of the latest arrival.
    seq: u64,
    /// Number of tokens that have an origin, and its limit.
    known: usize,
    most: usize,
    forgotten: u64,
    /// Origins that no token has any more. A caller that counts references must empty this list
    /// after each call.
    pub spent: Vec<O>,
    /// Origins with one more token because a token was split. They must be counted before the spent
    /// ones.
    pub copied: Vec<O>,
}

impl<O: Copy> Queues<O> {
    /// Creates queues in which at most `most` tokens retain their origin.
    pub fn new(most: usize) -> Queues<O> {
        Queues { queues: Vec::new(), seq: 0, known: 0, most: most.max(1), forgotten: 0, spent: Vec::new(), copied: Vec::new() }
    }

    /// Number of tokens whose origin was forgotten.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Number of tokens, of items and of space, that have an origin.
    pub fn known(&self) -> usize {
        self.known
    }

    pub fn declare(&mut self, queue: QueueId, shape: Shape) {
        let made = Queue::new(shape);
        *self.slot(queue) = Some(made);
    }

    pub fn is_bounded(&mut self, queue: QueueId) -> bool {
        self.queue(queue).0.shape.capacity.is_some()
    }

    /// Takes the space for a put: first what the machine has reserved, then free space.
    pub fn take_space(&mut self, queue: QueueId, machine: MachineId, n: u64) -> Taken<O> {
        let (queue, mut count) = self.queue(queue);
        if queue.shape.capacity.is_none() {
            return Taken::NOTHING;
        }
        let mut take = Taking::new(n);
        if let Some(reserved) = queue.reserved.get_mut(&machine) {
            take.from(reserved, Order::Fifo, &mut count);
            queue.reserved_units -= take.units;
            if reserved.is_empty() {
                queue.reserved.remove(&machine);
            }
        }
        let early = take.units;
        take.from(&mut queue.space, Order::Fifo, &mut count);
        queue.space_units -= take.units - early;
        take.taken()
    }

    /// Adds a token. The caller has taken its space before.
    pub fn put(&mut self, queue: QueueId, n: u64, flow: Option<NameId>, origin: O) {
        self.seq += 1;
        let seq = self.seq;
        let (queue, count) = self.queue(queue);
        queue.newest = seq;
        if queue.shape.merge {
            if queue.tokens.units() == 0 {
                queue.opener = Origin::From(origin);
                *count.known += 1;
            } else {
                count.spent.push(origin);
            }
            queue.tokens.add(Token { n, seq, origin: Origin::None }, flow, queue.shape.order, true);
        } else {
            queue.tokens.add(Token { n, seq, origin: Origin::From(origin) }, flow, queue.shape.order, false);
            *count.known += 1;
        }
        self.keep_within_limit();
    }

    /// Takes units, of a flow or of all flows.
    pub fn get(&mut self, queue: QueueId, amount: Amount, flow: Option<NameId>) -> Taken<O> {
        let (queue, mut count) = self.queue(queue);
        let mut take = Taking::new(queue.amount(amount, flow));
        queue.tokens.take(&mut take, flow, queue.shape.order, &mut count);
        let mut taken = take.taken();
        if queue.shape.merge && taken.units > 0 {
            if taken.missing == 0 {
                taken.cause = queue.opener;
            }
            if queue.tokens.units() == 0 {
                count.drop(std::mem::replace(&mut queue.opener, Origin::None));
            }
        }
        taken
    }

    /// Like [`Queues::get`], but takes nothing.
    pub fn peek(&mut self, queue: QueueId, amount: Amount, flow: Option<NameId>) -> Taken<O> {
        let (queue, _) = self.queue(queue);
        let mut take = Taking::new(queue.amount(amount, flow));
        queue.tokens.peek(&mut take, flow, queue.shape.order);
        let mut taken = take.taken();
        if queue.shape.merge && taken.units > 0 && taken.missing == 0 {
            taken.cause = queue.opener;
        }
        taken
    }

    /// Returns the space of `n` units that were taken, but no more than fits into the capacity:
    /// units that were put beyond it had no space.
    pub fn give_space(&mut self, queue: QueueId, n: u64, origin: O) {
        self.seq += 1;
        let seq = self.seq;
        let (queue, count) = self.queue(queue);
        let capacity = queue.shape.capacity.unwrap_or(0);
        let used = queue.tokens.units().saturating_add(queue.reserved_units).saturating_add(queue.space_units);
        let n = n.min(capacity.saturating_sub(used));
        if n == 0 {
            count.spent.push(origin);
        } else {
            queue.space_units += n;
            queue.newest = seq;
            append(&mut queue.space, Token { n, seq, origin: Origin::From(origin) });
            *count.known += 1;
        }
        self.keep_within_limit();
    }

    /// Takes space for a later put of the machine.
    pub fn reserve(&mut self, queue: QueueId, machine: MachineId, n: u64) -> Taken<O> {
        let (queue, mut count) = self.queue(queue);
        if queue.shape.capacity.is_none() {
            return Taken::NOTHING;
        }
        let mut take = Taking::new(n);
        let mut moved = Vec::new();
        take.parts(&mut queue.space, &mut moved, &mut count);
        queue.space_units -= take.units;
        queue.reserved_units += take.units;
        if !moved.is_empty() {
            queue.reserved.entry(machine).or_default().extend(moved);
        }
        take.taken()
    }

    /// Empties both lists, for callers that do not count references.
    #[inline]
    pub fn ignore_spent(&mut self) {
        for list in [&mut self.spent, &mut self.copied] {
            list.clear();
            if list.capacity() > MAX_IDLE {
                list.shrink_to(MAX_IDLE);
            }
        }
    }

    /// Visits all origins in the queues, so that they can be renumbered.
    pub fn each_origin(&mut self, mut visit: impl FnMut(&mut O)) {
        for queue in self.queues.iter_mut().flatten() {
            let reserved = queue.reserved.values_mut().flatten();
            let tokens = queue.space.iter_mut().chain(reserved).map(|token| &mut token.origin);
            let origins = tokens.chain(std::iter::once(&mut queue.opener));
            for origin in origins {
                if let Origin::From(origin) = origin {
                    visit(origin);
                }
            }
            queue.tokens.each_origin(&mut visit);
        }
    }

    fn slot(&mut self, queue: QueueId) -> &mut Option<Queue<O>> {
        let at = queue.0 as usize;
        if at >= self.queues.len() {
            self.queues.resize_with(at + 1, || None);
        }
        &mut self.queues[at]
    }

    fn queue(&mut self, queue: QueueId) -> (&mut Queue<O>, OriginCounts<'_, O>) {
        self.slot(queue);
        let made = self.queues[queue.0 as usize].get_or_insert_with(|| Queue::new(Shape::default()));
        (made, OriginCounts { known: &mut self.known, spent: &mut self.spent, copied: &mut self.copied })
    }

    /// Forgets origins if there are too many. All queues are visited for that, so afterwards a part
    /// of the limit is free.
    fn keep_within_limit(&mut self) {
        if self.known <= self.most {
            return;
        }
        let enough = self.most - self.most / ROOM;
        let queues = self.queues.iter().enumerate().filter_map(|(at, queue)| Some((at, queue.as_ref()?)));
        let mut fullest: Vec<(usize, u64, usize)> =
            queues.map(|(at, queue)| (queue.runs(), queue.newest, at)).filter(|(runs, ..)| *runs > 0).collect();
        // Of equally full queues, the one that was used last retains its origins longest.
        fullest.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let before = self.known;
        for (.., at) in fullest {
            if self.known <= enough {
                break;
            }
            let Some(queue) = &mut self.queues[at] else { continue };
            queue.forget(&mut OriginCounts { known: &mut self.known, spent: &mut self.spent, copied: &mut self.copied });
        }
        self.forgotten += (before - self.known) as u64;
    }
}

/// One part in this many of the limit is free after origins were forgotten.
const ROOM: usize = 8;

/// Number of origins for which unneeded memory is retained.
const MAX_IDLE: usize = 1 << 10;

/// Appends a token. Long queues grow by an eighth instead of doubling, because they are the ones
/// that need most of the memory.
fn append<O>(tokens: &mut VecDeque<Token<O>>, token: Token<O>) {
    if tokens.len() == tokens.capacity() && tokens.len() >= LONG {
        tokens.reserve_exact(tokens.len() / 8);
    }
    tokens.push_back(token);
}

const LONG: usize = 1 << 16;

impl<O: Copy> Queue<O> {
    fn new(shape: Shape) -> Queue<O> {
        let mut queue = Queue {
            shape,
            tokens: QueuedTokens::default(),
            opener: Origin::None,
            space: VecDeque::new(),
            space_units: 0,
            reserved: IdMap::default(),
            reserved_units: 0,
            newest: 0,
        };
        let run = |n| Token { n, seq: 0, origin: Origin::None };
        if shape.initial > 0 {
            queue.tokens.add(run(shape.initial), None, shape.order, false);
        }
        queue.space_units = shape.capacity.map_or(0, |capacity| capacity.saturating_sub(shape.initial));
        if queue.space_units > 0 {
            queue.space.push_back(run(queue.space_units));
        }
        queue
    }

    fn amount(&self, amount: Amount, flow: Option<NameId>) -> u64 {
        match amount {
            Amount::Units(n) => n,
            Amount::All => self.tokens.units_of(flow),
        }
    }

    fn runs(&self) -> usize {
        let opener = usize::from(matches!(self.opener, Origin::From(_)));
        self.tokens.runs() + self.space.len() + self.reserved.values().map(VecDeque::len).sum::<usize>() + opener
    }

    fn forget(&mut self, count: &mut OriginCounts<'_, O>) {
        self.tokens.forget(count);
        self.tokens.index(self.shape.order);
        forget(&mut self.space, count);
        self.reserved.values_mut().for_each(|reserved| forget(reserved, count));
        if matches!(self.opener, Origin::From(_)) {
            count.drop(std::mem::replace(&mut self.opener, Origin::Unknown));
        }
    }
}

/// The counters of origins that enter or leave the queues.
struct OriginCounts<'a, O> {
    known: &'a mut usize,
    spent: &'a mut Vec<O>,
    copied: &'a mut Vec<O>,
}

impl<O> OriginCounts<'_, O> {
    fn drop(&mut self, origin: Origin<O>) {
        if let Origin::From(origin) = origin {
            *self.known -= 1;
            self.spent.push(origin);
        }
    }
}

/// A get or peek in progress.
struct Taking<O> {
    wanted: u64,
    /// Units that were found by now.
    units: u64,
    /// Arrival and origin of the latest of them.
    last: Option<(u64, Origin<O>)>,
}

impl<O: Copy> Taking<O> {
    fn new(wanted: u64) -> Taking<O> {
        Taking { wanted, units: 0, last: None }
    }

    fn open(&self) -> u64 {
        self.wanted - self.units
    }

    /// Counts units of this token, as many as are still wanted, and returns their number.
    fn note(&mut self, token: &Token<O>) -> u64 {
        let n = token.n.min(self.open());
        self.units += n;
        if n > 0 && self.last.is_none_or(|(seq, _)| token.seq >= seq) {
            self.last = Some((token.seq, token.origin));
        }
        n
    }

    fn from(&mut self, tokens: &mut VecDeque<Token<O>>, order: Order, count: &mut OriginCounts<'_, O>) {
        while self.open() > 0 {
            let head = match order {
                Order::Fifo => tokens.front_mut(),
                Order::Lifo => tokens.back_mut(),
            };
            let Some(token) = head else { return };
            let n = self.note(token);
            token.n -= n;
            if token.n == 0 {
                count.drop(token.origin);
                match order {
                    Order::Fifo => tokens.pop_front(),
                    Order::Lifo => tokens.pop_back(),
                };
            }
        }
    }

    /// Moves units with their origins. A token that is split becomes two tokens with one origin.
    fn parts(&mut self, tokens: &mut VecDeque<Token<O>>, to: &mut Vec<Token<O>>, count: &mut OriginCounts<'_, O>) {
        while self.open() > 0 {
            let Some(token) = tokens.front_mut() else { return };
            let n = self.note(token);
            if n == token.n {
                to.extend(tokens.pop_front());
            } else {
                token.n -= n;
                to.push(Token { n, ..*token });
                if let Origin::From(origin) = token.origin {
                    *count.known += 1;
                    count.copied.push(origin);
                }
            }
        }
    }

    fn taken(self) -> Taken<O> {
        let missing = self.wanted - self.units;
        let cause = match self.last {
            _ if missing > 0 => Origin::Unknown,
            Some((_, origin)) => origin,
            None => Origin::None,
        };
        Taken { units: self.units, missing, cause }
    }
}

/// Makes the origins of the older half of the tokens that have one unknown, and merges adjacent
/// tokens of unknown origin.
fn forget<O: Copy>(tokens: &mut VecDeque<Token<O>>, count: &mut OriginCounts<'_, O>) {
    let has_origin = |token: &Token<O>| matches!(token.origin, Origin::From(_));
    let mut older = tokens.iter().filter(|token| has_origin(token)).count().div_ceil(2);
    if older == 0 {
        return;
    }
    count.spent.reserve_exact(older);
    // The tokens are compacted in place: a second queue of this size would be the peak of memory
    // use.
    let mut end = 0usize;
    for at in 0..tokens.len() {
        let mut token = tokens[at];
        if older > 0 && has_origin(&token) {
            older -= 1;
            count.drop(std::mem::replace(&mut token.origin, Origin::Unknown));
        }
        match end.checked_sub(1).map(|last| &mut tokens[last]) {
            Some(last) if matches!((last.origin, token.origin), (Origin::Unknown, Origin::Unknown)) => {
                last.n = last.n.saturating_add(token.n);
                last.seq = token.seq;
            }
            _ => {
                tokens[end] = token;
                end += 1;
            }
        }
    }
    tokens.truncate(end);
}
