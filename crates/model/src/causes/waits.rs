//! What threads wait for according to their probes: tokens, space, signals, replies.
//!
//! This module also decides if a wake-up by the kernel is the one that such a thread waits for.

mod calls;

use super::threads::Kernel;
use super::{Composer, Slots};
use crate::interaction::{Cause, Effect, MachineId, QueueId, Wants};
use crate::kinds::{NameKind, QueueKind, StateKind};
use crate::linux::watch::{Wake, Waker};
use crate::names::NameId;
use crate::step::SOON_NS;
use crate::tokens::dense::Dense;
use crate::tokens::{Amount, Shape};
use longpole_trace::event::Catalogue;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    Tokens(QueueId),
    Space(QueueId),
    Signal,
    /// The reply to the call in this slot.
    Reply(u32),
    /// The reason that a rule names.
    Event(NameId),
    /// The next work of a server that has no probes for its waits.
    Work,
}

/// A wait that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub what: For,
    pub since: u64,
    /// The name of the block, and of the state of a thread that does not block in this wait.
    pub why: NameId,
    /// True if the block was emitted.
    reported: bool,
    /// True if the thread said that it waits for a signal because of this wait.
    signals: bool,
    /// The last wake-up by the kernel, if it was not the one that the thread waits for.
    woken: Option<Wake>,
}

/// What a thread did to a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    queue: QueueId,
    gave: bool,
    t: u64,
}

/// The content of a queue, from its puts and gets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    pub units: u64,
    pub capacity: Option<u64>,
    /// The last machine that made room, and when.
    pub room: Option<(MachineId, u64)>,
    /// Time at which the queue became non-empty.
    pub opened: u64,
    /// The machine or machines that take from it.
    taker: Taker,
    /// The last put and the last get. Either may not have happened yet, because a probe comes
    /// before the operation that it describes.
    put: Option<InHand>,
    taken: Option<InHand>,
}

/// An operation that may still be in progress: its thread, the number of units, and its time in ns.
#[derive(Clone, Copy, Debug)]
struct InHand {
    at: u32,
    n: u64,
    t: u64,
}

impl Level {
    pub fn was_put(&self) -> bool {
        self.put.is_some()
    }

    pub fn was_taken(&self) -> bool {
        self.taken.is_some()
    }

    /// Number of units beyond the capacity if `n` more were put.
    pub fn above(&self, n: u64) -> u64 {
        self.capacity.map_or(0, |capacity| self.units.saturating_add(n).saturating_sub(capacity))
    }

    /// True if the thread can have found `count` units in the queue.
    pub fn can_be(&self, count: u64, at: u32) -> bool {
        let of_others = |hand: Option<InHand>| hand.filter(|hand| hand.at != at).map_or(0, |hand| hand.n);
        count.saturating_add(of_others(self.put)) >= self.units && count <= self.units.saturating_add(of_others(self.taken))
    }

    /// The other thread whose put was not complete when this thread found `count` units, and the
    /// number of units that were missing then. `None` if there is none, or if that put is more than
    /// [`SOON_NS`] old.
    pub fn put_after(&self, count: u64, at: u32, now: u64) -> Option<(u32, u64)> {
        let left = self.units.checked_sub(count).filter(|&left| left > 0)?;
        let of_other = self.put.filter(|hand| hand.at != at && hand.n >= left && now - hand.t <= SOON_NS.unsigned_abs());
        of_other.map(|hand| (hand.at, left))
    }
}

/// The machines that have taken from a queue.
#[derive(Clone, Copy, Debug, Default)]
enum Taker {
    #[default]
    Nobody,
    One(MachineId),
    Several,
}

impl Taker {
    fn takes(&mut self, machine: MachineId) {
        *self = match *self {
            Taker::Nobody => Taker::One(machine),
            Taker::One(one) if one == machine => return,
            _ => Taker::Several,
        };
    }
}

#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Queues of the probes' signals, by name; `calls` has those of calls.
    signals: Dense<QueueId>,
    /// The queues of signals as a set, to test if a queue is one of them.
    of_signals: HashSet<QueueId>,
    calls: Dense<QueueId>,
    levels: Dense<Level>,
    replies: HashMap<u32, HashMap<u32, QueueId>>,
    under_way: HashMap<u32, Call>,
    by_id: HashMap<(NameId, u64), u32>,
    /// Calls without an id that no server has taken yet.
    unnamed: HashMap<NameId, VecDeque<u32>>,
    /// Slots of the calls that are not finished, the oldest first.
    order: BTreeMap<u64, u32>,
    serial: u64,
    slots: Slots,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// Number of this call. Unlike a slot it is never reused.
    serial: u64,
    name: NameId,
    id: Option<u64>,
    caller: u32,
    request: QueueId,
    reply: QueueId,
    taken: bool,
    replied: bool,
}

impl Composer {
    /// Declares a program's queue before its first use.
    #[inline]
    pub(super) fn meets(&mut self, queue: QueueId) {
        if self.waits.levels.get(queue.0).is_none() {
            self.declare(queue, self.system.vocabulary.shape(queue));
        }
    }

    fn declare(&mut self, queue: QueueId, shape: Shape) {
        *self.waits.levels.place(queue.0) = Some(Level { capacity: shape.capacity, ..Level::default() });
        if shape != Shape::default() {
            self.emit(Effect::Declare { queue, shape });
        }
    }

    pub(super) fn signal(&mut self, context: NameId) -> QueueId {
        if let Some(&queue) = self.waits.signals.get(context.0) {
            return queue;
        }
        let of = self.system.vocabulary.names.text(context).to_owned();
        let queue = self.system.vocabulary.queue_as(&format!("signal:{of}"), QueueKind::Signals, &of);
        *self.waits.signals.place(context.0) = Some(queue);
        self.waits.of_signals.insert(queue);
        self.declare(queue, Shape { merge: true, ..Shape::default() });
        queue
    }

    pub(super) fn level(&mut self, queue: QueueId) -> &mut Level {
        self.waits.levels.place(queue.0).get_or_insert_default()
    }

    /// The content of a queue; `None` if the queue was not used yet.
    pub(super) fn level_of(&self, queue: QueueId) -> Option<&Level> {
        self.waits.levels.get(queue.0)
    }

    pub(super) fn put(&mut self, at: u32, machine: MachineId, queue: QueueId, n: u64) {
        let now = self.now;
        let level = *self.level(queue);
        let above = level.above(n).min(level.units);
        if above > 0 && self.counters.lost.saturating_add(self.counters.uncounted_losses) > 0 {
            // The missing units were taken where events are missing. If only one machine ever takes
            // from this queue, it was that one.
            let machine = self.nobody();
            if let Taker::One(by) = level.taker {
                self.emit(Effect::Block { machine, why: self.words.lost, on: None, wants: None });
                self.emit(Effect::Wake { machine, cause: Some(Cause { by, at: None, link: None }) });
                self.emit(Effect::State { machine, state: self.words.unknown });
            }
            self.emit(Effect::Get { machine, queue, amount: Amount::Units(above), flow: None });
            self.level(queue).units -= above;
        }
        let level = self.level(queue);
        if level.units == 0 {
            level.opened = now;
        }
        level.units = level.units.saturating_add(n);
        level.put = Some(InHand { at, n, t: now });
        self.did(at, queue, true);
        self.emit(Effect::Put { machine, queue, n, flow: None, link: None });
    }

    /// Takes at most the units that are present. The cause of units that were put before the trace
    /// began is unknown.
    pub(super) fn get(&mut self, catalogue: &Catalogue, at: u32, queue: QueueId, n: u64, looks: bool) {
        let (machine, now) = (self.machine(catalogue, at), self.now);
        let level = self.level(queue);
        let units = n.min(level.units);
        if !looks {
            level.units -= units;
            level.room = Some((machine, now));
            level.taker.takes(machine);
            level.taken = Some(InHand { at, n, t: now });
        }
        if units < n && !looks {
            self.counters.from_before += n - units;
        }
        if units == 0 {
            return self.end_wait_by_last_wakeup(catalogue, at, "before");
        }
        let amount = Amount::Units(units);
        self.emit(match looks {
            true => Effect::Peek { machine, queue, amount, flow: None },
            false => Effect::Get { machine, queue, amount, flow: None },
        });
        self.threads[at as usize].blocked = false;
        if !looks {
            self.did(at, queue, false);
        }
    }

    fn did(&mut self, at: u32, queue: QueueId, gave: bool) {
        let t = self.now;
        let effects = &mut self.threads[at as usize].effects;
        let same = effects.iter().position(|done| done.is_some_and(|done| done.queue == queue && done.gave == gave));
        let place = same.unwrap_or(effects.len() - 1);
        effects[place] = Some(Done { queue, gave, t });
        effects[..=place].rotate_right(1);
    }

    /// Notes that the thread waits, according to its probes.
    pub(super) fn begins_to_wait(&mut self, catalogue: &Catalogue, at: u32, what: For) {
        let thread = &self.threads[at as usize];
        let (since, signals) = match (thread.wait, what) {
            // Waiting for a signal because a queue is empty or full is a wait for the queue.
            (Some(Wait { what: For::Tokens(_) | For::Space(_), .. }), For::Signal) => {
                if let Some(wait) = &mut self.threads[at as usize].wait {
                    wait.signals = true;
                }
                return;
            }
            // The same wait continues with another reason.
            (Some(wait), _) if wait.what != For::Work => (wait.since, wait.signals),
            _ => (self.now, false),
        };
        let why = match what {
            For::Tokens(queue) => self.named_wait("empty ", queue),
            For::Space(queue) => self.named_wait("full ", queue),
            For::Signal => self.words.signal,
            For::Event(why) => why,
            For::Work => self.words.work,
            For::Reply(slot) => {
                let call = self.waits.under_way.get(&slot);
                let name = call.map_or(String::new(), |call| format!("rpc {}", self.system.vocabulary.names.text(call.name)));
                self.reason_called(&name)
            }
        };
        let thread = &mut self.threads[at as usize];
        thread.wait = Some(Wait { what, since, why, reported: false, signals: signals || what == For::Signal, woken: None });
        // If the trace has kernel events of this thread, the block begins when the kernel blocks
        // it: until then the thread may still be running, or may poll.
        if thread.kernel == Kernel::Silent {
            self.blocks_in_wait(catalogue, at);
        }
    }

    pub(super) fn blocks_in_wait(&mut self, catalogue: &Catalogue, at: u32) {
        let now = self.now;
        let thread = &mut self.threads[at as usize];
        let Some(wait) = thread.wait.as_mut().filter(|wait| !wait.reported) else { return };
        wait.reported = true;
        let Wait { what, why, .. } = *wait;
        if !thread.blocked {
            (thread.blocked, thread.since, thread.gap) = (true, now, false);
        }
        let (on, wants) = match what {
            For::Tokens(queue) => (Some(queue), Some(Wants::Tokens)),
            For::Space(queue) => (Some(queue), Some(Wants::Space)),
            For::Reply(slot) => (self.waits.under_way.get(&slot).map(|call| call.reply), Some(Wants::Tokens)),
            For::Signal | For::Work | For::Event(_) => (None, None),
        };
        let machine = self.machine(catalogue, at);
        self.emit(Effect::Block { machine, why, on, wants });
    }

    /// Emits the block of a thread that polled, if what it takes now arrived after its wait began.
    fn polled(&mut self, catalogue: &Catalogue, at: u32, what: For, came: u64) {
        let wait = self.threads[at as usize].wait.filter(|wait| wait.what == what && !wait.reported && came > wait.since);
        if wait.is_some() {
            self.blocks_in_wait(catalogue, at);
        }
    }

    fn named_wait(&mut self, what: &str, queue: QueueId) -> NameId {
        let text = format!("{what}{}", self.system.vocabulary.queue_name(queue));
        self.reason_called(&text)
    }

    fn reason_called(&mut self, text: &str) -> NameId {
        self.system.vocabulary.names.intern_as(text, NameKind::State(StateKind::Waits))
    }

    /// True if what the thread waits for is present.
    fn is_there(&mut self, at: u32, what: For) -> bool {
        match what {
            For::Tokens(queue) => self.level(queue).units > 0,
            For::Space(queue) => {
                let level = self.level(queue);
                level.capacity.is_none_or(|capacity| level.units < capacity)
            }
            For::Reply(slot) => self.waits.under_way.get(&slot).is_some_and(|call| call.replied && call.caller == at),
            For::Signal | For::Work => true,
            For::Event(_) => false,
        }
    }

    /// Processes a wake-up by the kernel of a thread that waits according to its probes.
    pub(super) fn woken_while_waiting(&mut self, catalogue: &Catalogue, at: u32, wake: Wake) {
        let Some(wait) = self.threads[at as usize].wait else { return };
        let is_it = match wake.waker {
            // Only time ends a sleep: the thread sleeps in a loop that polls.
            _ if self.sleeps(at) => false,
            Waker::Context { id, .. } => !self.is_timed(wake.cpu, id) && wait.what != For::Signal && self.is_there(at, wait.what),
            Waker::Thread(id) => {
                let by = self.thread_of_linux(id);
                let signalled = wait.signals && self.has_done(by, For::Signal, wait.since);
                signalled || self.is_there(at, wait.what) && self.has_done(by, wait.what, wait.since)
            }
            Waker::Idle | Waker::Unknown => false,
        };
        if is_it {
            self.wake(catalogue, at, wake);
            self.threads[at as usize].wait = None;
            self.look(catalogue, at);
        } else if let Some(wait) = &mut self.threads[at as usize].wait {
            wait.woken = Some(wake);
            self.remember_waker(catalogue, wake);
        }
    }

    /// Makes analyses remember this moment of the waker, which may turn out to be the cause only
    /// after it has done much else.
    fn remember_waker(&mut self, catalogue: &Catalogue, wake: Wake) {
        if let Waker::Thread(id) = wake.waker {
            let by = self.thread_of_linux(id);
            let machine = self.machine(catalogue, by);
            self.emit(Effect::Remember { machine });
        }
    }

    /// Ends the block of a wait if what was waited for does not show the cause; the last wake-up by
    /// the kernel may be it.
    pub(super) fn end_wait_by_last_wakeup(&mut self, catalogue: &Catalogue, at: u32, group: &'static str) {
        let woken = self.threads[at as usize].wait.take().and_then(|wait| wait.woken);
        if !self.threads[at as usize].blocked {
            return;
        }
        match woken {
            Some(wake) => self.wake(catalogue, at, wake),
            None => {
                self.unknown(group);
                self.unblock(catalogue, at, None);
            }
        }
    }

    /// True if the thread has done something since `since` that ends such a wait.
    fn has_done(&self, by: u32, what: For, since: u64) -> bool {
        let effects = &self.threads[by as usize].effects;
        let did = |wanted: &dyn Fn(&Done) -> bool| effects.iter().flatten().any(|done| done.t >= since && wanted(done));
        match what {
            For::Tokens(queue) => did(&|done| done.queue == queue && done.gave),
            For::Space(queue) => did(&|done| done.queue == queue && !done.gave),
            For::Reply(slot) => {
                let reply = self.waits.under_way.get(&slot).map(|call| call.reply);
                did(&|done| Some(done.queue) == reply && done.gave)
            }
            For::Signal => did(&|done| done.gave && self.waits.of_signals.contains(&done.queue)),
            For::Work => did(&|done| done.gave),
            For::Event(_) => false,
        }
    }

    /// Ends the wait of a thread that does something other than taking what it waited for.
    pub(super) fn ends_wait(&mut self, catalogue: &Catalogue, at: u32) {
        let Some(wait) = self.threads[at as usize].wait else { return };
        if !self.threads[at as usize].blocked {
            self.threads[at as usize].wait = None;
            return;
        }
        let machine = self.machine(catalogue, at);
        let there = self.is_there(at, wait.what);
        let cause = match wait.what {
            For::Tokens(queue) if there => {
                self.takes(at);
                return self.get(catalogue, at, queue, 1, true);
            }
            For::Space(queue) if there => {
                self.level(queue).room.filter(|room| room.1 >= wait.since).map(|(by, t)| Cause { by, at: Some(t), link: None })
            }
            // The thread continues without the reply, or did not wait at all.
            For::Reply(_) | For::Work => Some(Cause { by: machine, at: Some(wait.since), link: Some(self.words.links.run) }),
            For::Tokens(_) | For::Space(_) | For::Signal | For::Event(_) => None,
        };
        if cause.is_none() {
            return self.end_wait_by_last_wakeup(catalogue, at, "probes");
        }
        self.takes(at);
        self.unblock(catalogue, at, cause);
    }

    /// Notes that the thread takes what it waited for, with the effect that follows.
    pub(super) fn takes(&mut self, at: u32) {
        self.threads[at as usize].wait = None;
    }

    pub(super) fn takes_tokens(&mut self, catalogue: &Catalogue, at: u32, queue: QueueId) {
        let Level { opened: came, units, .. } = *self.level(queue);
        if units == 0 {
            return;
        }
        self.polled(catalogue, at, For::Tokens(queue), came);
        self.takes(at);
    }

    pub(super) fn takes_space(&mut self, catalogue: &Catalogue, at: u32, queue: QueueId) {
        let came = self.level(queue).room.map_or(0, |room| room.1);
        self.polled(catalogue, at, For::Space(queue), came);
        self.takes(at);
    }

    pub(super) fn takes_signal(&mut self, catalogue: &Catalogue, at: u32, queue: QueueId) {
        let came = self.level(queue).opened;
        self.polled(catalogue, at, For::Signal, came);
        self.takes(at);
    }

    /// Ends the call of a thread that has ended.
    pub(super) fn forget_waits(&mut self, at: u32) {
        let ended: Vec<u32> = match self.threads[at as usize].wait {
            Some(Wait { what: For::Reply(slot), .. }) => vec![slot],
            _ => Vec::new(),
        };
        ended.into_iter().for_each(|slot| self.end_call(slot));
    }
}
