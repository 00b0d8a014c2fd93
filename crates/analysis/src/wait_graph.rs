//! The wait-for graph of machines, computed in one pass over the interactions.
//!
//! A block that ended with a cause is time that its machine waited for the machine that caused the
//! end. If that machine was itself blocked in the meantime, this part of the time is passed on to
//! the machine that *it* waited for, and so on to the end of the chain (the cascaded redistribution
//! of wPerf, OSDI 2018). Each ns of a block is therefore charged once, to the machine or link at
//! the end of its chain. The sum agrees with the active path of the waiting machine. The last edge
//! of a chain is the one that counts: shortening it helps all machines that wait through it.
//!
//! Example: A waits 10 ms for B; during the first 8 ms B waits for C, which works. C is charged
//! with 8 ms of A's wait, and B with 2 ms. The last edge of the chain is B -> C for the 8 ms, and A
//! -> B for the 2 ms.
//!
//! A system without a natural end (a server, a pipeline that runs for ever) is limited by a *mutual
//! wait* in this graph ([`mutual_waits`]): machines that wait for each other and for no machine
//! outside.
//!
//! Memory: each machine remembers its latest blocks, fewer if there are many machines, and a chain
//! is followed through a limited number of blocks. What lies beyond is unknown, and is counted.
//!
//! Time: if each of many machines waits for the one before, all chains together grow with the
//! square of the number of machines. All chains therefore share a budget, to which every
//! interaction adds. While the budget is low, chains are cut shorter, so the cost grows linearly
//! with the trace.

mod answer;
pub mod blame;
mod mutual_waits;
pub(crate) mod uses;

pub use answer::{Answer, Edge, End, EndKind, Member, MutualWait, Waiter, Who};

use crate::critical_path::interactions::machine_of;
use crate::what_if::{FullQueue, FullQueues};
use longpole_model::hash::IdMap;
use longpole_model::interaction::{Cause, Effect, Interaction, MachineId, QueueId, Vocabulary};
use longpole_model::names::NameId;
use longpole_model::tokens::{Origin, Queues, Taken};
use std::collections::VecDeque;
use uses::Uses;

/// Largest number of blocks that are remembered, over all machines.
const MAX_PAST: usize = 1 << 19;
/// Largest number of tokens whose origin is remembered.
const MAX_TOKENS: usize = 1 << 20;
/// Largest past of a stopped machine whose memory is reduced to what it needs.
const SMALL_PAST: usize = 2;
/// Largest number of blocks through which one chain is followed.
const MAX_HOPS: usize = 4096;
/// Budget for all chains, in blocks: its initial value, and what each interaction adds.
const FIRST_HOPS: u64 = 1 << 22;
const MORE_HOPS: u64 = 32;
/// One chain may use this fraction of the budget, plus a fixed number of blocks in any case.
const PART_OF_HOPS: u64 = 64;
const MIN_HOPS: u64 = 64;
/// Largest number of pairs of machines that are counted separately; and of pairs of a waiter and an
/// end of its chain, which need more memory in the answer.
const MAX_PAIRS: usize = 1 << 20;
const MAX_ENDS: usize = 1 << 18;

/// A machine at a moment, with the number of its entries until then.
#[derive(Clone, Copy, Debug)]
struct Moment {
    by: MachineId,
    t: u64,
    /// Number of entries of its past before the moment, including the forgotten ones.
    upto: u64,
    /// Time since which the machine did not exist, if it did not.
    gone: Option<u64>,
}

/// The cause of a block's end, and the queue of the link; the queue is `None` for a wake-up or a
/// fork.
type Reason = (Moment, Option<QueueId>, Option<NameId>);

/// Origin of a token or of a unit of space in a queue.
#[derive(Clone, Copy, Debug)]
struct PutOrigin {
    moment: Moment,
    link: Option<NameId>,
}

/// The end of a chain, where time is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum ChainEnd {
    Machine(MachineId),
    /// The chain led to this machine, about which nothing more is known.
    Unknown(MachineId),
    /// The link from a cause to its effect; the queue is `None` for a wake-up or a fork.
    Link(Option<QueueId>, Option<NameId>),
}

/// An event that made a machine continue, or begin.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Start of the block. `None` if the time before is not the machine's own (a fork, the cause of
    /// a context).
    start: Option<u64>,
    end: u64,
    /// `None` if the cause is unknown.
    cause: Option<Reason>,
}

/// A machine with its waits.
#[derive(Clone, Debug, Default)]
struct WaitingMachine {
    /// True between the machine's first interaction and its stop.
    exists: bool,
    /// Time of the last stop, in ns.
    gone: Option<u64>,
    /// Start of the current block, in ns.
    blocked: Option<u64>,
    /// Present if the machine is a context; true if its cause is known, or will never be known.
    context: Option<bool>,
    past: VecDeque<Entry>,
    /// Number of older entries that are no longer in `past`.
    forgotten: u64,
    explained_ns: u64,
    unexplained_ns: u64,
    /// Part of the explained time whose chain ends are not stored, because there are too many.
    untold_ns: u64,
    /// Time that others waited with this machine at the end of their chain.
    waited_for_ns: u64,
}

/// Collector of the waits; it sees each interaction.
pub struct Waits {
    machines: Vec<WaitingMachine>,
    queues: Queues<PutOrigin>,
    now: u64,
    begin: Option<u64>,
    requested_begin: u64,
    /// Time that a machine waited, by the end of its chain.
    ends: IdMap<(MachineId, ChainEnd), u64>,
    /// Time that a machine waited for another one that unblocked it.
    direct: IdMap<(MachineId, MachineId), u64>,
    /// Time that all machines waited in chains with this last edge.
    last: IdMap<(MachineId, MachineId), u64>,
    /// Number of chains that were too long, or that lead further back than is remembered.
    cut: u64,
    /// Budget of the chains, in blocks.
    hop_budget: u64,
    /// Waiting time in chains whose last edge is left out because there are too many edges.
    untold_edges_ns: u64,
    uses: Uses,
    full: FullQueues,
    interactions: u64,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits {
            machines: Vec::new(),
            queues: Queues::new(MAX_TOKENS),
            now: 0,
            begin: None,
            requested_begin: 0,
            ends: IdMap::default(),
            direct: IdMap::default(),
            last: IdMap::default(),
            cut: 0,
            hop_budget: FIRST_HOPS,
            untold_edges_ns: 0,
            uses: Uses::default(),
            full: FullQueues::default(),
            interactions: 0,
        }
    }
}

/// State of the walk before it entered a block; the walk returns to it afterwards.
struct Frame {
    by: MachineId,
    upto: u64,
    at: u64,
    low: u64,
    via: MachineId,
}

impl Waits {
    /// Sets the start of the range to `t` ns; earlier time is left out. Must be called before the
    /// first interaction.
    pub fn begin_at(&mut self, t: u64) {
        self.requested_begin = t;
    }

    /// Advances the clock to `t` ns without an interaction.
    pub fn until(&mut self, t: u64) {
        self.now = self.now.max(t);
    }

    /// Processes the next interaction; interactions must be in the order of time.
    pub fn interaction(&mut self, _vocabulary: &Vocabulary, interaction: &Interaction) {
        let Interaction { t, effect, .. } = *interaction;
        self.interactions += 1;
        self.hop_budget += MORE_HOPS;
        if let Effect::Declare { queue, shape } = effect {
            self.uses.declare(queue, shape);
            self.full.declare(queue, shape);
            return self.queues.declare(queue, shape);
        }
        let requested = self.requested_begin;
        self.begin.get_or_insert(t.max(requested));
        self.now = self.now.max(t);
        match effect {
            Effect::Declare { .. } | Effect::Now | Effect::End { .. } | Effect::Class { .. } => return,
            Effect::Fork { machine, cause } => {
                if !self.machine(machine).exists {
                    self.begin_life(machine, Some(cause), None);
                }
                return;
            }
            Effect::Push { machine, cause, .. } => {
                if self.machine(machine).context.is_none() {
                    self.begin_life(machine, cause.flatten(), Some(cause.is_some()));
                }
                return;
            }
            Effect::Pop { machine } | Effect::Stop { machine } => {
                let now = self.now;
                let waiting = self.machine(machine);
                if !waiting.exists || matches!(effect, Effect::Pop { .. }) && waiting.context.is_none() {
                    return;
                }
                if let Some(start) = waiting.blocked.take() {
                    waiting.unexplained_ns += now - start;
                }
                (waiting.exists, waiting.gone, waiting.context) = (false, Some(now), None);
                // A machine that lives once and briefly is remembered for ever, and there may be
                // millions of them.
                if waiting.past.len() <= SMALL_PAST {
                    waiting.past.shrink_to_fit();
                }
                return;
            }
            _ => {}
        }
        let machine = machine_of(effect);
        if !self.machine(machine).exists {
            self.begin_life(machine, None, None);
        }
        self.apply(machine, effect);
    }

    fn apply(&mut self, machine: MachineId, effect: Effect) {
        match effect {
            Effect::State { .. } => self.unblock(machine, Origin::None),
            Effect::Block { .. } => {
                let now = self.now;
                self.machine(machine).blocked.get_or_insert(now);
            }
            Effect::Put { queue, n, flow, link, .. } => {
                let taken = self.queues.take_space(queue, machine, n);
                self.room(machine, queue, &taken);
                let from = PutOrigin { moment: self.moment(machine), link };
                self.queues.put(queue, n, flow, from);
            }
            Effect::Get { queue, amount, flow, .. } => {
                let (taken, now) = (self.queues.get(queue, amount, flow), self.now);
                self.uses.count_look(machine, queue, taken.units, true);
                let blocked = self.machine(machine).blocked;
                self.uses.count_lock(queue, blocked, now);
                self.use_taken(machine, queue, &taken, true);
                if taken.units > 0 && self.queues.is_bounded(queue) {
                    let from = PutOrigin { moment: self.moment(machine), link: None };
                    self.queues.give_space(queue, taken.units, from);
                }
            }
            Effect::Peek { queue, amount, flow, .. } => {
                let taken = self.queues.peek(queue, amount, flow);
                self.uses.count_look(machine, queue, taken.units, false);
                self.use_taken(machine, queue, &taken, false);
            }
            Effect::Reserve { queue, n, .. } => {
                let taken = self.queues.reserve(queue, machine, n);
                self.room(machine, queue, &taken);
            }
            Effect::Wake { cause, .. } => self.wake(machine, cause),
            _ => {}
        }
        // Origins need no release here, since they hold nothing.
        self.queues.ignore_spent();
    }

    fn machine(&mut self, machine: MachineId) -> &mut WaitingMachine {
        let at = machine.0 as usize;
        if at >= self.machines.len() {
            self.machines.resize_with(at + 1, WaitingMachine::default);
        }
        &mut self.machines[at]
    }

    /// Returns this machine at the current moment.
    fn moment(&mut self, machine: MachineId) -> Moment {
        let t = self.now;
        let waiting = self.machine(machine);
        Moment { by: machine, t, upto: waiting.forgotten + waiting.past.len() as u64, gone: waiting.gone.filter(|_| !waiting.exists) }
    }

    /// Returns the moment of a cause; `None` if the causing machine never appeared.
    fn reason(&mut self, cause: Cause) -> Option<Reason> {
        let mut moment = self.moment(cause.by);
        let waiting = self.machine(cause.by);
        moment.gone = moment.gone.filter(|&gone| cause.at.is_none_or(|at| gone < at));
        if waiting.forgotten == 0 && waiting.past.is_empty() {
            return None;
        }
        if let Some(at) = cause.at.filter(|&at| at < moment.t) {
            moment = Moment { t: at, upto: waiting.forgotten + waiting.past.partition_point(|entry| entry.end <= at) as u64, ..moment };
        }
        Some((moment, None, cause.link))
    }

    /// Begins a life of the machine with this cause. `context` is `Some` for a context; true if its
    /// cause is known.
    fn begin_life(&mut self, machine: MachineId, cause: Option<Cause>, context: Option<bool>) {
        let cause = cause.and_then(|cause| self.reason(cause));
        let end = self.now;
        self.remember(machine, Entry { start: None, end, cause });
        let waiting = self.machine(machine);
        if let Some(start) = waiting.blocked.take() {
            waiting.unexplained_ns += end - start;
        }
        (waiting.exists, waiting.context) = (true, context);
    }

    fn wake(&mut self, machine: MachineId, cause: Option<Cause>) {
        let blocked = self.machine(machine).blocked.is_some();
        let adopts = self.machine(machine).context == Some(false);
        if !blocked && !adopts {
            return;
        }
        let cause = cause.and_then(|cause| self.reason(cause));
        if adopts {
            self.machine(machine).context = Some(true);
        }
        match blocked {
            true => self.unblock(machine, cause.map_or(Origin::Unknown, Origin::From)),
            false => self.adopt(machine, cause),
        }
    }

    /// Replaces a context's past by its cause: what it did before does not count for those that
    /// wait for it.
    fn adopt(&mut self, machine: MachineId, cause: Option<Reason>) {
        let end = self.now;
        self.remember(machine, Entry { start: None, end, cause });
    }

    fn room(&mut self, machine: MachineId, queue: QueueId, taken: &Taken<PutOrigin>) {
        if let (Some(_), Origin::From(_)) = (self.machine(machine).blocked, taken.cause) {
            self.full.waited(queue);
        }
        self.use_taken(machine, queue, taken, false);
    }

    /// Queues in which machines waited for room.
    pub fn full(&self, vocabulary: &Vocabulary) -> Vec<FullQueue> {
        self.full.full(vocabulary)
    }

    /// Uses what was taken from a queue, or found in it: it ends a block, or is a context's cause.
    fn use_taken(&mut self, machine: MachineId, queue: QueueId, taken: &Taken<PutOrigin>, took: bool) {
        let cause = match taken.cause {
            Origin::None => Origin::None,
            Origin::Unknown => Origin::Unknown,
            Origin::From(from) => Origin::From((from.moment, Some(queue), from.link)),
        };
        let first = took && taken.units > 0 && self.machine(machine).context == Some(false);
        let mut has_cause = first;
        if self.machine(machine).blocked.is_some() {
            has_cause |= !matches!(cause, Origin::None);
            self.unblock(machine, cause);
        } else if let (true, Origin::From(cause)) = (first, cause) {
            self.adopt(machine, Some(cause));
        }
        let waiting = self.machine(machine);
        waiting.context = waiting.context.map(|before| before || has_cause);
    }

    fn remember(&mut self, machine: MachineId, entry: Entry) {
        let most = (MAX_PAST / self.machines.len().max(1)).clamp(16, MAX_HOPS);
        let waiting = self.machine(machine);
        if waiting.past.len() >= most {
            waiting.past.pop_front();
            waiting.forgotten += 1;
        }
        waiting.past.push_back(entry);
    }

    fn unblock(&mut self, machine: MachineId, cause: Origin<Reason>) {
        let (end, begin) = (self.now, self.begin.unwrap_or(0));
        let Some(start) = self.machine(machine).blocked.take() else { return };
        let start = start.max(begin);
        if start >= end {
            return;
        }
        let cause = match cause {
            // What the machine waited for is unknown; the time stays its own.
            Origin::None => {
                self.machine(machine).unexplained_ns += end - start;
                return;
            }
            Origin::Unknown => None,
            Origin::From(cause) => Some(cause),
        };
        self.remember(machine, Entry { start: Some(start), end, cause });
        match cause {
            None => self.machine(machine).unexplained_ns += end - start,
            Some((moment, ..)) => {
                self.machine(machine).explained_ns += end - start;
                bump(&mut self.direct, (machine, moment.by), end - start, MAX_PAIRS);
                self.walk(machine, start, end, cause);
            }
        }
    }

    /// Charges the block of `waiter` to the ends of its chain, backwards from the end of the block.
    fn walk(&mut self, waiter: MachineId, start: u64, end: u64, cause: Option<Reason>) {
        let mut stack: Vec<Frame> = Vec::new();
        let (mut by, mut upto, mut at, mut low, mut via) = (waiter, 0, end, start, waiter);
        let mut next = Some(Entry { start: None, end, cause });
        let most = (MIN_HOPS + self.hop_budget / PART_OF_HOPS).min(MAX_HOPS as u64);
        let mut hops = 0;
        loop {
            if at <= low {
                let Some(frame) = stack.pop() else { return };
                (by, upto, at, low, via) = (frame.by, frame.upto, frame.at, frame.low, frame.via);
                continue;
            }
            hops += 1;
            self.hop_budget = self.hop_budget.saturating_sub(1);
            let entry = match next.take() {
                Some(entry) => entry,
                None => match self.entry(by, upto) {
                    // The chain leads beyond what is remembered, or beyond its budget.
                    _ if hops > most => {
                        self.cut += 1;
                        self.charge(waiter, via, ChainEnd::Unknown(by), low, at);
                        // About the remaining time in the frames nothing more is known.
                        while let Some(frame) = stack.pop() {
                            self.charge(waiter, frame.via, ChainEnd::Unknown(frame.by), frame.low, frame.at);
                        }
                        return;
                    }
                    Err(()) => {
                        self.cut += 1;
                        self.charge(waiter, via, ChainEnd::Unknown(by), low, at);
                        at = low;
                        continue;
                    }
                    // The machine did not exist yet.
                    Ok(None) => {
                        self.charge(waiter, via, ChainEnd::Unknown(by), low, at);
                        at = low;
                        continue;
                    }
                    Ok(Some(entry)) => {
                        self.charge(waiter, via, ChainEnd::Machine(by), entry.end.max(low), at);
                        at = at.min(entry.end);
                        upto -= 1;
                        if at <= low {
                            continue;
                        }
                        entry
                    }
                },
            };
            if let Some(start) = entry.start {
                let start = start.max(low);
                stack.push(Frame { by, upto, at: start, low, via });
                low = start;
            }
            match entry.cause {
                None => {
                    self.charge(waiter, via, ChainEnd::Unknown(by), low, at);
                    at = low;
                }
                Some((moment, queue, link)) => {
                    let from = moment.t.min(at);
                    if from < at {
                        self.add_last(by, moment.by, at - from.max(low));
                        self.add_end(waiter, ChainEnd::Link(queue, link), at - from.max(low));
                    }
                    (via, by, upto, at) = (by, moment.by, moment.upto, from);
                    if let Some(gone) = moment.gone.filter(|&gone| gone < at) {
                        self.charge(waiter, via, ChainEnd::Unknown(by), gone.max(low), at);
                        at = gone;
                    }
                }
            }
        }
    }

    /// Returns the latest of the machine's first `upto` entries. The error means that it is
    /// forgotten.
    fn entry(&mut self, machine: MachineId, upto: u64) -> Result<Option<Entry>, ()> {
        let waiting = self.machine(machine);
        match upto.checked_sub(1) {
            None => Ok(None),
            Some(at) => match at.checked_sub(waiting.forgotten) {
                None => Err(()),
                Some(at) => Ok(waiting.past.get(at as usize).copied()),
            },
        }
    }

    fn charge(&mut self, waiter: MachineId, via: MachineId, place: ChainEnd, from: u64, to: u64) {
        if from >= to {
            return;
        }
        if let ChainEnd::Machine(by) | ChainEnd::Unknown(by) = place {
            self.add_last(via, by, to - from);
        }
        self.add_end(waiter, place, to - from);
    }

    fn add_end(&mut self, waiter: MachineId, place: ChainEnd, ns: u64) {
        if let ChainEnd::Machine(by) = place {
            self.machine(by).waited_for_ns += ns;
        }
        if !bump(&mut self.ends, (waiter, place), ns, MAX_ENDS) {
            self.machine(waiter).untold_ns += ns;
        }
    }

    fn add_last(&mut self, via: MachineId, by: MachineId, ns: u64) {
        if via != by && !bump(&mut self.last, (via, by), ns, MAX_PAIRS) {
            self.untold_edges_ns += ns;
        }
    }
}

/// Adds time to an entry. Returns false if there is no space for a new one; its time is then only
/// counted for the machines.
fn bump<K: std::hash::Hash + Eq>(map: &mut IdMap<K, u64>, key: K, ns: u64, most: usize) -> bool {
    if let Some(known) = map.get_mut(&key) {
        *known += ns;
    } else if map.len() < most {
        map.insert(key, ns);
    } else {
        return false;
    }
    true
}
