//! Tokens: what puts, gets, looks and reservations of room mean in every world.
//!
//! A get meets the put whose token it takes, even if the machine did not wait in the trace: in
//! another world the token may come later. The delay between the two is the link's, if the token
//! was carried, and the receiver's reaction otherwise.

use super::queue_uses::TokenOrigin;
use super::state::Translation;
use crate::critical_path::keys::key::{Key, Link, State};
use crate::what_if::operation::{Arrival, DelayKind, Operation};
use longpole_model::interaction::{MachineId, QueueId, Vocabulary};
use longpole_model::names::NameId;
use longpole_model::tokens::{Origin, Taken};

/// What an interaction did with a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Looked {
    Took,
    Peeked,
    Room,
}

impl Translation {
    /// Stores what the machine knows now in a slot, as the origin of a token or of room.
    pub fn publish(&mut self, vocabulary: &Vocabulary, machine: MachineId, link: Option<NameId>) -> TokenOrigin {
        let slot = self.replay.make_slot();
        let traced = self.machine(machine);
        // A thread of the kernel that acts at times of its own does not delay the receiver.
        let operation = match traced.acts_alone && traced.is_shared_worker {
            true => Operation::PublishPassed { slot, passed: traced.passed },
            false => Operation::Publish { slot, at: self.clock.now },
        };
        self.issue(machine, operation);
        TokenOrigin { slot, by: machine, t: self.clock.now, host: vocabulary.host_id(machine), link, paid: None }
    }

    pub fn unlock(&mut self, vocabulary: &Vocabulary, machine: MachineId, queue: QueueId, link: Option<NameId>) -> TokenOrigin {
        let slot = self.replay.make_slot();
        self.issue(machine, Operation::Unlock { queue, slot });
        TokenOrigin { slot, by: machine, t: self.clock.now, host: vocabulary.host_id(machine), link, paid: None }
    }

    pub fn update_holds(&mut self) {
        while let Some(from) = self.queues.copied.pop() {
            self.replay.hold_slot(from.slot);
        }
        while let Some(from) = self.queues.spent.pop() {
            self.replay.release_slot(from.slot);
        }
    }

    /// Takes room for a put, or reserves it.
    pub fn room(&mut self, vocabulary: &Vocabulary, machine: MachineId, queue: QueueId, n: u64, early: bool) {
        self.ensure_declared(vocabulary, queue);
        let taken = match early {
            true => self.queues.reserve(queue, machine, n),
            false => self.queues.take_space(queue, machine, n),
        };
        while let Some(from) = self.queues.copied.pop() {
            self.replay.hold_slot(from.slot);
        }
        let has_changed = self.queue_use(queue).has_changed_capacity;
        let capacity = if has_changed { self.replay.here().service.capacities.get_mut(&queue) } else { None };
        let changed = match capacity {
            Some(capacity) if early => Some(capacity.reserve(machine, n)),
            Some(capacity) => Some(capacity.take(machine, n)),
            None => None,
        };
        let block = self.machine(machine).block;
        if let (Some(_), Origin::From(_)) = (block, taken.cause) {
            self.full.waited(queue);
        }
        if changed.is_some() {
            self.issue(machine, Operation::RoomBegin { queue });
        }
        let asks = self.ask_for_room(machine, queue, n, early);
        let (ns, key, delay) = self.meet_taken(vocabulary, machine, queue, &taken, Looked::Room);
        // A put beyond the capacity had no room in the trace and needs none in a world.
        if let (Some(Some(unit)), 0) = (changed, taken.missing) {
            self.issue(machine, Operation::RoomEnd { queue, unit, ns, key, delay });
        }
        if let Some(operation) = asks {
            self.issue(machine, operation);
        }
        self.update_holds();
    }

    /// Frees room in a queue after a get.
    pub fn give(&mut self, vocabulary: &Vocabulary, machine: MachineId, queue: QueueId, n: u64) {
        let bounded = self.queues.is_bounded(queue);
        if !bounded && !self.queue_use(queue).has_changed_capacity {
            return;
        }
        let from = self.publish(vocabulary, machine, None);
        if self.queue_use(queue).has_changed_capacity {
            self.replay.here().give_room(queue, n, from.slot);
        }
        match bounded {
            true => self.queues.give_space(queue, n, from),
            false => self.replay.release_slot(from.slot),
        }
    }

    fn link_key(&mut self, vocabulary: &Vocabulary, queue: QueueId, from: TokenOrigin, host: Option<NameId>) -> (u32, bool) {
        let kind = match from.link {
            Some(link) => Link::Named(link),
            None if from.host == host => {
                if let Some(key) = self.queue_use(queue).queued {
                    return (key, false);
                }
                Link::Queued
            }
            None => Link::Wire,
        };
        let key = self.key(vocabulary, Key::Link { queue: Some(queue), kind });
        if let (Link::Queued, Some(known)) = (kind, self.uses.get_mut(queue)) {
            known.queued = Some(key);
        }
        (key, kind != Link::Queued)
    }

    /// The machine continues when all that it took has come. Returns the delay after the last
    /// arrival.
    pub fn meet_taken(
        &mut self,
        vocabulary: &Vocabulary,
        machine: MachineId,
        queue: QueueId,
        taken: &Taken<TokenOrigin>,
        looked: Looked,
    ) -> (f64, u32, DelayKind) {
        if taken.missing > 0 {
            self.contradictions += 1;
        }
        let host = vocabulary.host_id(machine);
        let mut wait = self.machine(machine).block.take().map(|block| (block.start, State::Blocked(block.why)));
        let context = self.machine(machine).stack.context.filter(|context| !context.caused && looked == Looked::Took && taken.units > 0);
        if let Some(context) = context {
            self.mark_caused(machine);
            if let (None, Origin::From(_)) = (wait, taken.cause) {
                wait = Some((context.idle_since, State::Unknown));
                self.issue(machine, Operation::CauseFollows);
            }
        }
        let mut found = (0.0, 0, DelayKind::Reaction);
        let mut last = None;
        match (wait, taken.cause) {
            (Some((since, state)), Origin::From(from)) => {
                found = self.delay(vocabulary, (machine, state), queue, from, since);
                // Room has no origin that matters.
                if looked != Looked::Room {
                    let context = self.machine(machine).stack.context.is_some();
                    if self.set_alone(machine, false) || context {
                        self.issue(machine, Operation::AllowSetBack);
                    }
                }
                self.meet_token(machine, (queue, looked), from, found);
                self.issue(machine, Operation::BeginWork);
                last = Some(from.slot);
            }
            (Some((_, state)), _) => {
                let key = self.state_key(vocabulary, machine, state);
                self.unexplained(machine, key);
            }
            (None, Origin::From(from)) => {
                self.meet_early(vocabulary, machine, (queue, looked), from, host);
                last = Some(from.slot);
            }
            (None, _) => {}
        }
        if looked == Looked::Took && matches!(taken.cause, Origin::None) && self.queue_use(queue).is_lock {
            self.issue(machine, Operation::TakeFreeLock { queue });
        }
        if looked != Looked::Peeked {
            for at in 0..self.queues.spent.len() {
                let from = self.queues.spent[at];
                if Some(from.slot) != last {
                    self.meet_early(vocabulary, machine, (queue, looked), from, host);
                }
            }
        }
        found
    }

    /// Returns the delay of what a machine waited for since `since`.
    fn delay(
        &mut self,
        vocabulary: &Vocabulary,
        (machine, state): (MachineId, State),
        queue: QueueId,
        from: TokenOrigin,
        since: u64,
    ) -> (f64, u32, DelayKind) {
        let (key, carried) = self.link_key(vocabulary, queue, from, vocabulary.host_id(machine));
        let (now, line) = (self.clock.now, self.clock.line);
        if !carried && from.t < since && since < now {
            // The wait began although the item was there: why it continued is unknown.
            let key = self.state_key(vocabulary, machine, state);
            self.states.first_unexplained.entry(key).or_insert(line);
            return ((now - since) as f64, key, DelayKind::AfterBoth);
        }
        let ns = now.saturating_sub(from.t.max(if carried { 0 } else { since })) as f64;
        let known = &mut self.states.delays[key as usize];
        (known.count, known.sum) = (known.count + 1.0, known.sum + ns);
        (ns, key, if carried { DelayKind::Carried } else { DelayKind::Reaction })
    }

    /// Meets an item that was taken without waiting: in the trace it was there early, in another
    /// world it may come later.
    fn meet_early(
        &mut self,
        vocabulary: &Vocabulary,
        machine: MachineId,
        (queue, looked): (QueueId, Looked),
        from: TokenOrigin,
        host: Option<NameId>,
    ) {
        let (key, carried) = self.link_key(vocabulary, queue, from, host);
        let known = self.states.delays[key as usize];
        let usual = if known.count > 0.0 { known.sum / known.count } else { 0.0 };
        let ns = usual.min(self.clock.now.saturating_sub(from.t) as f64);
        let delay = if carried { DelayKind::Carried } else { DelayKind::Reaction };
        let arrival = Arrival { slot: from.slot, ns, key };
        if looked == Looked::Took && self.machine(machine).stack.context.is_some() {
            self.issue(machine, Operation::BeginEarlier { arrival });
        }
        let traced = self.machine(machine);
        if looked == Looked::Took && traced.acts_alone && traced.is_shared_worker {
            let before = traced.passed.replace(arrival);
            self.replay.hold_slot(from.slot);
            if let Some(before) = before {
                self.replay.release_slot(before.slot);
            }
        }
        self.meet_token(machine, (queue, looked), from, (ns, key, delay));
    }

    fn meet_token(
        &mut self,
        machine: MachineId,
        (queue, looked): (QueueId, Looked),
        from: TokenOrigin,
        (ns, key, delay): (f64, u32, DelayKind),
    ) {
        let TokenOrigin { slot, by, paid, .. } = from;
        // The link of a token that is put within a state that is a call belongs to that state's
        // time.
        let paid = paid.filter(|paid| paid.state.is_none());
        self.connect(machine, by);
        let arrival = Arrival { slot, ns, key };
        let operation = match looked == Looked::Took && self.queue_use(queue).is_lock {
            true => Operation::TakeLock { queue, arrival, delay },
            false => Operation::Meet { arrival, delay, paid },
        };
        self.issue(machine, operation);
    }
}
