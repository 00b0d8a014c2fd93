//! What threads wait for according to their probes: tokens, space, signals, replies.
//!
//! This module also decides if a wake-up by the kernel is the one that such a thread waits for.

mod calls;

use super::thread_table::KernelState;
use super::{Composer, Slots};
use crate::interaction::{Cause, Effect, MachineId, QueueId, Wants};
use crate::kinds::{LinkKind, NameKind, QueueKind, StateKind};
use crate::linux::watch::{Wake, Waker};
use crate::names::NameId;
use crate::step::SOON_NS;
use crate::tokens::dense::Dense;
use crate::tokens::{Amount, Shape};
use longpole_trace::event::Catalogue;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitTarget {
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
    pub what: WaitTarget,
    pub since: u64,
    /// The name of the block, and of the state of a thread that does not block in this wait.
    pub why: NameId,
    /// True if the block was emitted.
    reported: bool,
    /// True if, in this wait, the thread also waits for a signal according to its probes.
    signals: bool,
    /// The last wake-up by the kernel, if it was not the one that the thread waits for.
    woken: Option<Wake>,
}

/// An effect of a thread on a queue: it gave or took something at time `t`.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueEffect {
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
    put: Option<RecentUse>,
    taken: Option<RecentUse>,
}

/// An operation that may still be in progress: its thread, the number of units, and its time in ns.
#[derive(Clone, Copy, Debug)]
struct RecentUse {
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
        let of_others = |recent: Option<RecentUse>| recent.filter(|recent| recent.at != at).map_or(0, |recent| recent.n);
        count.saturating_add(of_others(self.put)) >= self.units && count <= self.units.saturating_add(of_others(self.taken))
    }

    /// The other thread whose put was not complete when this thread found `count` units, and the
    /// number of units that were missing then. `None` if there is none, or if that put is more than
    /// [`SOON_NS`] old.
    pub fn put_after(&self, count: u64, at: u32, now: u64) -> Option<(u32, u64)> {
        let left = self.units.checked_sub(count).filter(|&left| left > 0)?;
        let of_other = self.put.filter(|put| put.at != at && put.n >= left && now - put.t <= SOON_NS.unsigned_abs());
        of_other.map(|put| (put.at, left))
    }
}

/// The machines that have taken from a queue.
#[derive(Clone, Copy, Debug, Default)]
enum Taker {
    #[default]
    None,
    One(MachineId),
    Several,
}

impl Taker {
    fn note(&mut self, machine: MachineId) {
        *self = match *self {
            Taker::None => Taker::One(machine),
            Taker::One(one) if one == machine => return,
            _ => Taker::Several,
        };
    }
}

/// The queues of probes, and the calls that have not returned.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Queues of the probes' signals, by name; `calls` has those of calls.
    signals: Dense<QueueId>,
    /// The queues of signals as a set, to test if a queue is one of them.
    of_signals: HashSet<QueueId>,
    calls: Dense<QueueId>,
    /// Contents of queues.
    levels: Dense<Level>,
    /// Queues of replies, by the name of the call and its slot.
    replies: HashMap<u32, HashMap<u32, QueueId>>,
    /// Calls that have not returned, by slot.
    under_way: HashMap<u32, PendingCall>,
    /// Slots of the calls that have an id.
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
struct PendingCall {
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
    pub(super) fn declare_if_new(&mut self, queue: QueueId) {
        if self.waits.levels.get(queue.0).is_none() {
            self.declare(queue, self.system.vocabulary.shape(queue));
        }
    }

    fn declare(&mut self, queue: QueueId, shape: Shape) {
        *self.waits.levels.slot(queue.0) = Some(Level { capacity: shape.capacity, ..Level::default() });
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
        *self.waits.signals.slot(context.0) = Some(queue);
        self.waits.of_signals.insert(queue);
        self.declare(queue, Shape { merge: true, ..Shape::default() });
        queue
    }

    pub(super) fn level(&mut self, queue: QueueId) -> &mut Level {
        self.waits.levels.slot(queue.0).get_or_insert_default()
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
            let machine = self.lost_events_machine();
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
        level.put = Some(RecentUse { at, n, t: now });
        self.note_queue_effect(at, queue, true);
        self.emit(Effect::Put { machine, queue, n, flow: None, link: None });
    }

    /// Takes at most the units that are present. The cause of units that were put before the trace
    /// began is unknown.
    pub(super) fn get(&mut self, catalogue: &Catalogue, at: u32, queue: QueueId, n: u64, peeks: bool) {
        let (machine, now) = (self.machine(catalogue, at), self.now);
        let level = self.level(queue);
        let units = n.min(level.units);
        if !peeks {
            level.units -= units;
            level.room = Some((machine, now));
            level.taker.note(machine);
            level.taken = Some(RecentUse { at, n, t: now });
        }
        if units < n && !peeks {
            self.counters.from_before += n - units;
        }
        if units == 0 {
            return self.end_wait_by_last_wakeup(catalogue, at, "before");
        }
        let amount = Amount::Units(units);
        self.emit(match peeks {
            true => Effect::Peek { machine, queue, amount, flow: None },
            false => Effect::Get { machine, queue, amount, flow: None },
        });
        self.threads[at].end_block_by_queue();
        if !peeks {
            self.note_queue_effect(at, queue, false);
        }
    }

    fn note_queue_effect(&mut self, at: u32, queue: QueueId, gave: bool) {
        let t = self.now;
        let effects = &mut self.threads[at].probes.effects;
        let same = effects.iter().position(|done| done.is_some_and(|done| done.queue == queue && done.gave == gave));
        let place = same.unwrap_or(effects.len() - 1);
        effects[place] = Some(QueueEffect { queue, gave, t });
        effects[..=place].rotate_right(1);
    }

    /// Notes that the thread waits, according to its probes.
    pub(super) fn begins_to_wait(&mut self, catalogue: &Catalogue, at: u32, what: WaitTarget) {
        let thread = &self.threads[at];
        let (since, signals) = match (thread.wait, what) {
            // Waiting for a signal because a queue is empty or full is a wait for the queue.
            (Some(Wait { what: WaitTarget::Tokens(_) | WaitTarget::Space(_), .. }), WaitTarget::Signal) => {
                if let Some(wait) = &mut self.threads[at].wait {
                    wait.signals = true;
                }
                return;
            }
            // The same wait continues with another reason.
            (Some(wait), _) if wait.what != WaitTarget::Work => (wait.since, wait.signals),
            _ => (self.now, false),
        };
        let why = match what {
            WaitTarget::Tokens(queue) => self.named_wait("empty ", queue),
            WaitTarget::Space(queue) => self.named_wait("full ", queue),
            WaitTarget::Signal => self.words.signal,
            WaitTarget::Event(why) => why,
            WaitTarget::Work => self.words.work,
            WaitTarget::Reply(slot) => {
                let call = self.waits.under_way.get(&slot);
                let name = call.map_or(String::new(), |call| format!("rpc {}", self.system.vocabulary.names.text(call.name)));
                self.reason_called(&name)
            }
        };
        let thread = &mut self.threads[at];
        thread.wait = Some(Wait { what, since, why, reported: false, signals: signals || what == WaitTarget::Signal, woken: None });
        // If the trace has kernel events of this thread, the block begins when the kernel blocks
        // it: until then the thread may still be running, or may poll.
        if thread.kernel == KernelState::Silent {
            self.blocks_in_wait(catalogue, at);
        }
    }

    pub(super) fn blocks_in_wait(&mut self, catalogue: &Catalogue, at: u32) {
        let thread = &mut self.threads[at];
        let Some(wait) = thread.wait.as_mut().filter(|wait| !wait.reported) else { return };
        wait.reported = true;
        let Wait { what, why, .. } = *wait;
        thread.begin_block(self.now);
        let (on, wants) = match what {
            WaitTarget::Tokens(queue) => (Some(queue), Some(Wants::Tokens)),
            WaitTarget::Space(queue) => (Some(queue), Some(Wants::Space)),
            WaitTarget::Reply(slot) => (self.waits.under_way.get(&slot).map(|call| call.reply), Some(Wants::Tokens)),
            WaitTarget::Signal | WaitTarget::Work | WaitTarget::Event(_) => (None, None),
        };
        let machine = self.machine(catalogue, at);
        self.emit(Effect::Block { machine, why, on, wants });
    }

    /// Emits the block of a thread that polled, if what it takes now arrived after its wait began.
    fn emit_polled_block(&mut self, catalogue: &Catalogue, at: u32, what: WaitTarget, arrived: u64) {
        let wait = self.threads[at].wait.filter(|wait| wait.what == what && !wait.reported && arrived > wait.since);
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
    fn is_present(&mut self, at: u32, what: WaitTarget) -> bool {
        match what {
            WaitTarget::Tokens(queue) => self.level(queue).units > 0,
            WaitTarget::Space(queue) => {
                let level = self.level(queue);
                level.capacity.is_none_or(|capacity| level.units < capacity)
            }
            WaitTarget::Reply(slot) => self.waits.under_way.get(&slot).is_some_and(|call| call.replied && call.caller == at),
            WaitTarget::Signal | WaitTarget::Work => true,
            WaitTarget::Event(_) => false,
        }
    }

    /// Processes a wake-up by the kernel of a thread that waits according to its probes.
    pub(super) fn woken_while_waiting(&mut self, catalogue: &Catalogue, at: u32, wake: Wake) {
        let Some(wait) = self.threads[at].wait else { return };
        let is_it = match wake.waker {
            // Only time ends a sleep: the thread sleeps in a loop that polls.
            _ if self.sleeps(at) => false,
            Waker::Context { id, .. } => !self.is_timed(wake.cpu, id) && wait.what != WaitTarget::Signal && self.is_present(at, wait.what),
            Waker::Thread(id) => {
                let by = self.thread_of_linux(id);
                let signalled = wait.signals && self.has_done(by, WaitTarget::Signal, wait.since);
                signalled || self.is_present(at, wait.what) && self.has_done(by, wait.what, wait.since)
            }
            Waker::UntracedInterrupt | Waker::Unknown => false,
        };
        if is_it {
            self.wake(catalogue, at, wake);
            self.threads[at].wait = None;
            self.emit_state(catalogue, at);
        } else if let Some(wait) = &mut self.threads[at].wait {
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
        let woken = self.threads[at].wait.take().and_then(|wait| wait.woken);
        if !self.threads[at].blocked {
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
    fn has_done(&self, by: u32, what: WaitTarget, since: u64) -> bool {
        let effects = &self.threads[by].probes.effects;
        let did = |wanted: &dyn Fn(&QueueEffect) -> bool| effects.iter().flatten().any(|done| done.t >= since && wanted(done));
        match what {
            WaitTarget::Tokens(queue) => did(&|done| done.queue == queue && done.gave),
            WaitTarget::Space(queue) => did(&|done| done.queue == queue && !done.gave),
            WaitTarget::Reply(slot) => {
                let reply = self.waits.under_way.get(&slot).map(|call| call.reply);
                did(&|done| Some(done.queue) == reply && done.gave)
            }
            WaitTarget::Signal => did(&|done| done.gave && self.waits.of_signals.contains(&done.queue)),
            WaitTarget::Work => did(&|done| done.gave),
            WaitTarget::Event(_) => false,
        }
    }

    /// Ends the wait of a thread that does something other than taking what it waited for.
    pub(super) fn ends_wait(&mut self, catalogue: &Catalogue, at: u32) {
        let Some(wait) = self.threads[at].wait else { return };
        if !self.threads[at].blocked {
            self.threads[at].wait = None;
            return;
        }
        let machine = self.machine(catalogue, at);
        let there = self.is_present(at, wait.what);
        let cause = match wait.what {
            WaitTarget::Tokens(queue) if there => {
                self.clear_wait(at);
                return self.get(catalogue, at, queue, 1, true);
            }
            WaitTarget::Space(queue) if there => {
                self.level(queue).room.filter(|room| room.1 >= wait.since).map(|(by, t)| Cause { by, at: Some(t), link: None })
            }
            // The thread continues without the reply, or did not wait at all.
            WaitTarget::Reply(_) | WaitTarget::Work => {
                Some(Cause { by: machine, at: Some(wait.since), link: Some(self.words.links[LinkKind::Run]) })
            }
            WaitTarget::Tokens(_) | WaitTarget::Space(_) | WaitTarget::Signal | WaitTarget::Event(_) => None,
        };
        if cause.is_none() {
            return self.end_wait_by_last_wakeup(catalogue, at, "probes");
        }
        self.clear_wait(at);
        self.unblock(catalogue, at, cause);
    }

    /// Forgets the wait; the caller emits the effect that ends it.
    pub(super) fn clear_wait(&mut self, at: u32) {
        self.threads[at].wait = None;
    }

    /// Ends a wait for units of the queue, which the thread now takes.
    pub(super) fn end_wait_for_tokens(&mut self, catalogue: &Catalogue, at: u32, queue: QueueId) {
        let Level { opened: arrived, units, .. } = *self.level(queue);
        if units == 0 {
            return;
        }
        self.end_wait_for(catalogue, at, WaitTarget::Tokens(queue), arrived);
    }

    /// Ends a wait for room in the queue, which the thread now uses.
    pub(super) fn end_wait_for_space(&mut self, catalogue: &Catalogue, at: u32, queue: QueueId) {
        let arrived = self.level(queue).room.map_or(0, |room| room.1);
        self.end_wait_for(catalogue, at, WaitTarget::Space(queue), arrived);
    }

    /// Ends a wait for a signal, which the thread now receives from this queue.
    pub(super) fn end_wait_for_signal(&mut self, catalogue: &Catalogue, at: u32, queue: QueueId) {
        let arrived = self.level(queue).opened;
        self.end_wait_for(catalogue, at, WaitTarget::Signal, arrived);
    }

    fn end_wait_for(&mut self, catalogue: &Catalogue, at: u32, what: WaitTarget, arrived: u64) {
        self.emit_polled_block(catalogue, at, what, arrived);
        self.clear_wait(at);
    }

    /// Ends the call for whose reply a thread waits that has ended.
    pub(super) fn end_awaited_call(&mut self, at: u32) {
        if let Some(Wait { what: WaitTarget::Reply(slot), .. }) = self.threads[at].wait {
            self.end_call(slot);
        }
    }
}
