//! Translation of the trace's interactions into operations of machines ([`What`]).
//!
//! This module follows the state of each machine in the trace, and decides what each interaction
//! means in every world. It computes no times; [`super::ops`] does.

use super::batch::{Caller, Paid};
use super::cpus::Leaving;
use super::life::{Block, Context};
use super::scale::is_of;
use super::what::{How, Passed, What};
use super::{From, WhatIf};
use crate::critical_path::key::{Key, Link, State};
use crate::critical_path::steps::machine_of;
use longpole_model::interaction::{Cause, Effect, MachineId, QueueId, Vocabulary};
use longpole_model::kinds::StateKind;
use longpole_model::names::NameId;
use longpole_model::tokens::{Origin, Taken};

/// What an interaction did with a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    Took,
    Peeked,
    Room,
}

impl WhatIf {
    pub(super) fn step(&mut self, vocabulary: &Vocabulary, effect: Effect) {
        match effect {
            Effect::Declare { .. } | Effect::Now => return,
            Effect::End { machine } => return self.mark_end(vocabulary, machine),
            _ => {}
        }
        let machine = machine_of(effect);
        if !self.life(machine).seen {
            self.meet_first(vocabulary, machine);
        }
        self.look_who_records(vocabulary, machine);
        match effect {
            Effect::Class { class, .. } => {
                self.charge(vocabulary, machine);
                self.life(machine).class = Some(class);
                self.look(vocabulary, machine);
            }
            Effect::Fork { cause, .. } => self.fork(vocabulary, machine, cause),
            Effect::Push { below, cause, .. } => self.push(vocabulary, machine, below, cause),
            Effect::Pop { .. } => self.pop(vocabulary, machine),
            Effect::Stop { .. } => self.stop(vocabulary, machine),
            effect => {
                self.appear(vocabulary, machine);
                self.charge(vocabulary, machine);
                self.disturb(vocabulary, machine);
                self.act(vocabulary, machine, effect);
            }
        }
        if !matches!(effect, Effect::Stop { .. }) {
            self.last = Some(machine);
        }
    }

    fn act(&mut self, vocabulary: &Vocabulary, machine: MachineId, effect: Effect) {
        match effect {
            Effect::State { state, .. } => self.state(vocabulary, machine, state),
            Effect::Block { why, .. } => {
                self.run(vocabulary, machine);
                if self.life(machine).on_cpu {
                    self.leave_cpu(vocabulary, machine, Leaving::Done);
                }
                let (now, life) = (self.now, self.life(machine));
                let begins = life.block.is_none();
                match &mut life.block {
                    Some(block) => block.why = why,
                    None => life.block = Some(Block { why, start: now }),
                }
                if begins {
                    self.has_served(machine);
                    self.waits(machine);
                }
            }
            Effect::Put { queue, n, flow, link, .. } => {
                self.run(vocabulary, machine);
                self.room(vocabulary, machine, queue, n, false);
                let paid = self.pay(machine, queue, n);
                let from = match self.known(queue).is_lock {
                    true => self.unlock(vocabulary, machine, queue, link),
                    false => self.knows(vocabulary, machine, link),
                };
                self.queues.put(queue, n, flow, From { paid, ..from });
                self.begin_call(machine, queue, paid);
                self.has_put(machine);
                self.settle();
            }
            Effect::Get { queue, amount, flow, .. } => {
                self.run(vocabulary, machine);
                self.used(vocabulary, queue);
                let taken = self.queues.get(queue, amount, flow);
                let at_once = self.life(machine).takes.at_once && self.takes_work_from(queue);
                if self.known(queue).is_shared || at_once {
                    self.has_served(machine);
                }
                if at_once {
                    self.has_done(machine);
                }
                if !self.end_call(machine, queue, &taken) {
                    self.found(vocabulary, machine, queue, &taken, Looked::Took);
                }
                self.serves(machine, queue, &taken);
                self.serve(machine, queue, &taken);
                if taken.units > 0 {
                    self.give(vocabulary, machine, queue, taken.units);
                }
                self.settle();
            }
            Effect::Peek { queue, amount, flow, .. } => {
                self.run(vocabulary, machine);
                self.used(vocabulary, queue);
                let taken = self.queues.peek(queue, amount, flow);
                self.found(vocabulary, machine, queue, &taken, Looked::Peeked);
            }
            Effect::Reserve { queue, n, .. } => {
                self.run(vocabulary, machine);
                self.room(vocabulary, machine, queue, n, true);
            }
            Effect::Wake { cause, .. } => self.wake(vocabulary, machine, cause),
            Effect::Here { .. } => self.op(machine, What::Remember),
            _ => {}
        }
    }

    /// Ends the wait for a context if the interrupted machine does something all the same.
    fn disturb(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let life = self.life(machine);
        if life.above > 0 && life.block.is_none() && life.ready.is_none() {
            life.disturbed = true;
            let key = self.state_key(vocabulary, machine, State::Interrupted);
            self.op(machine, What::Own { key, paid: None });
        }
    }

    /// Adds the machine's own time until now.
    fn charge(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let now = self.now;
        let life = self.life(machine);
        if !life.works() || life.since >= now {
            return;
        }
        let key = life.key;
        let is_whole = life.calling.is_some() || life.inside.is_some() || life.round.is_some();
        let mut paid = life.serving.filter(|_| !is_whole);
        let (took, state) = (std::mem::take(&mut life.took), life.state);
        if let Some(caller) = &mut life.caller {
            if took {
                caller.takes(key);
            }
            let text = match state {
                State::Named(name) => vocabulary.names.text(name),
                _ => StateKind::Run.text().unwrap_or_default(),
            };
            if !is_whole && caller.pays(key, text) {
                paid = Some(Paid { by: machine, items: caller.items(), state: None });
            }
        }
        self.op(machine, What::Own { key, paid });
    }

    /// Recomputes the key of the machine's own time. Must be called after each change of its state.
    fn look(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let state = self.life(machine).state;
        let key = self.state_key(vocabulary, machine, state);
        self.life(machine).key = key;
    }

    /// A machine exists from its first interaction; why it did nothing until then is unknown.
    fn appear(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        if self.life(machine).exists {
            return;
        }
        let key = self.state_key(vocabulary, machine, State::Unknown);
        self.unexplained(machine, key);
        self.begin_life(vocabulary, machine, None);
    }

    fn begin_life(&mut self, vocabulary: &Vocabulary, machine: MachineId, context: Option<Context>) {
        let life = self.life(machine);
        (life.exists, life.block, life.ready, life.state, life.context) = (true, None, None, State::Run, context);
        life.has_been_context |= context.is_some();
        self.look(vocabulary, machine);
        let class = self.life(machine).class;
        let words = Key::State { machine, class, state: State::Run }.words(vocabulary);
        self.scale.machine(&words);
        let at_once = self.scale.at_once(&words);
        if !at_once.is_empty() {
            self.life(machine).takes.at_once = true;
            self.at_once.insert(machine, at_once);
        }
        if self.life(machine).caller.is_none() {
            self.life(machine).caller = Caller::of(&self.options.scenarios, |meant| is_of(&words, meant));
        }
    }

    fn unexplained(&mut self, machine: MachineId, key: u32) {
        let line = self.line;
        if self.life(machine).since < self.now {
            self.first_unexplained.entry(key).or_insert(line);
        }
        self.op(machine, What::Keep { key });
        self.op(machine, What::Began);
        self.set_alone(machine, true);
    }

    /// Sets whether the machine's work from here on has no cause by another machine. Returns the
    /// previous value.
    pub(super) fn set_alone(&mut self, machine: MachineId, alone: bool) -> bool {
        let life = self.life(machine);
        let (before, passed) = (std::mem::replace(&mut life.alone, alone), life.passed.take());
        if let Some(passed) = passed {
            self.slots.release(passed.slot);
        }
        before
    }

    /// Prepares the machine to meet what it waited for. Work that a machine does at times of its
    /// own does not delay what others have for it, if that comes earlier.
    fn anew(&mut self, machine: MachineId, by: MachineId) {
        let alone = self.set_alone(machine, by == machine);
        let life = self.life(machine);
        if alone || life.context.is_some() || life.is_shared_worker {
            self.op(machine, What::Anew);
        }
    }

    fn meet_first(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        self.life(machine).seen = true;
        self.remember(machine);
        let (host, name) = (vocabulary.host(machine).to_owned(), vocabulary.machine_name(machine).to_owned());
        let asked = self.options.machine.as_deref();
        if asked.is_some_and(|asked| asked == name || asked.strip_prefix(&host).and_then(|rest| rest.strip_prefix('/')) == Some(&name)) {
            match self.asked {
                None => self.asked = Some(machine),
                Some(_) => self.namesake = Some(machine),
            }
        }
    }

    fn state(&mut self, vocabulary: &Vocabulary, machine: MachineId, name: NameId) {
        let kind = vocabulary.names.state_kind(name);
        let (preempted, asleep) = (kind == StateKind::Preempted, kind == StateKind::Asleep);
        if kind == StateKind::Kernel && vocabulary.is_of_kernel(machine) {
            self.life(machine).is_shared_worker = true;
        }
        let state = if preempted { State::Runnable } else { State::of(vocabulary, name) };
        let block = self.life(machine).block.take();
        if let Some(block) = block {
            let key = self.state_key(vocabulary, machine, State::Blocked(block.why));
            self.unexplained(machine, key);
        }
        let now = self.now;
        if state == State::Runnable {
            if self.life(machine).ready.is_none() {
                // A machine that was blocked or asleep had no CPU.
                if block.is_none() && (self.life(machine).on_cpu || !self.life(machine).asleep) {
                    self.leave_cpu(vocabulary, machine, if preempted { Leaving::Taken } else { Leaving::PutOff });
                }
                self.life(machine).ready = Some(now);
                // The name of the wait for a CPU.
                self.life(machine).waits_as = if preempted { State::Named(name) } else { State::Runnable };
            }
        } else {
            self.run(vocabulary, machine);
            if self.is_batched && !asleep {
                self.enters(machine, name, vocabulary.names.text(name));
            }
            if asleep && self.life(machine).on_cpu {
                self.leave_cpu(vocabulary, machine, Leaving::Done);
            }
        }
        self.life(machine).asleep = asleep;
        self.life(machine).state = state;
        self.look(vocabulary, machine);
    }

    /// Stores what the machine knows now in a slot, as the origin of a token or of room.
    fn knows(&mut self, vocabulary: &Vocabulary, machine: MachineId, link: Option<NameId>) -> From {
        let slot = self.slots.make();
        let life = self.life(machine);
        // A thread of the kernel that acts at times of its own does not delay the receiver.
        let what = match life.alone && life.is_shared_worker {
            true => What::Leave { slot, passed: life.passed },
            false => What::Publish { slot, at: self.now },
        };
        self.op(machine, what);
        From { slot, by: machine, t: self.now, host: vocabulary.host_id(machine), link, paid: None }
    }

    fn unlock(&mut self, vocabulary: &Vocabulary, machine: MachineId, queue: QueueId, link: Option<NameId>) -> From {
        let slot = self.slots.make();
        self.op(machine, What::Unlock { queue, slot });
        From { slot, by: machine, t: self.now, host: vocabulary.host_id(machine), link, paid: None }
    }

    fn settle(&mut self) {
        while let Some(from) = self.queues.copied.pop() {
            self.slots.hold(from.slot);
        }
        while let Some(from) = self.queues.spent.pop() {
            self.slots.release(from.slot);
        }
    }

    /// Takes room for a put, or reserves it.
    fn room(&mut self, vocabulary: &Vocabulary, machine: MachineId, queue: QueueId, n: u64, early: bool) {
        self.used(vocabulary, queue);
        let taken = match early {
            true => self.queues.reserve(queue, machine, n),
            false => self.queues.take_space(queue, machine, n),
        };
        while let Some(from) = self.queues.copied.pop() {
            self.slots.hold(from.slot);
        }
        let room = if self.known(queue).has_room { self.rooms.get_mut(&queue) } else { None };
        let changed = match room {
            Some(room) if early => Some(room.reserve(machine, n)),
            Some(room) => Some(room.take(machine, n)),
            None => None,
        };
        let block = self.life(machine).block;
        if let (Some(_), Origin::From(_)) = (block, taken.cause) {
            self.full.waited(queue);
        }
        if changed.is_some() {
            self.op(machine, What::RoomBegin { queue });
        }
        let asks = self.may_ask(machine, queue, n, early);
        let (ns, key, how) = self.found(vocabulary, machine, queue, &taken, Looked::Room);
        // A put beyond the capacity had no room in the trace and needs none in a world.
        if let (Some(Some(unit)), 0) = (changed, taken.missing) {
            self.op(machine, What::RoomEnd { queue, unit, ns, key, how });
        }
        if let Some(what) = asks {
            self.op(machine, what);
        }
        self.settle();
    }

    /// Frees room in a queue after a get.
    fn give(&mut self, vocabulary: &Vocabulary, machine: MachineId, queue: QueueId, n: u64) {
        let bounded = self.queues.is_bounded(queue);
        if !bounded && !self.known(queue).has_room {
            return;
        }
        let from = self.knows(vocabulary, machine, None);
        let room = if self.known(queue).has_room { self.rooms.get_mut(&queue) } else { None };
        if let Some(room) = room {
            self.slots.hold(from.slot);
            let (waiting, old) = room.give(n, from.slot);
            if let Some(old) = old {
                self.slots.release(old);
            }
            self.wake_held(waiting);
        }
        match bounded {
            true => self.queues.give_space(queue, n, from),
            false => self.slots.release(from.slot),
        }
    }

    fn link_key(&mut self, vocabulary: &Vocabulary, queue: QueueId, from: From, host: Option<NameId>) -> (u32, bool) {
        let kind = match from.link {
            Some(link) => Link::Named(link),
            None if from.host == host => {
                if let Some(key) = self.known(queue).queued {
                    return (key, false);
                }
                Link::Queued
            }
            None => Link::Wire,
        };
        let key = self.key(vocabulary, Key::Link { queue: Some(queue), kind });
        if let (Link::Queued, Some(known)) = (kind, self.known.get_mut(queue.0 as usize)) {
            known.queued = Some(key);
        }
        (key, kind != Link::Queued)
    }

    /// The machine continues when all that it took has come. Returns the delay after the last
    /// arrival.
    fn found(
        &mut self,
        vocabulary: &Vocabulary,
        machine: MachineId,
        queue: QueueId,
        taken: &Taken<From>,
        looked: Looked,
    ) -> (f64, u32, How) {
        if taken.missing > 0 {
            self.counts.contradictions += 1;
        }
        let host = vocabulary.host_id(machine);
        let mut wait = self.life(machine).block.take().map(|block| (block.start, State::Blocked(block.why)));
        let context = self.life(machine).context.filter(|context| !context.caused && looked == Looked::Took && taken.units > 0);
        if let Some(context) = context {
            self.caused(machine);
            if let (None, Origin::From(_)) = (wait, taken.cause) {
                wait = Some((context.idle_since, State::Unknown));
                self.op(machine, What::Rebase);
            }
        }
        let mut delay = (0.0, 0, How::Reaction);
        let mut last = None;
        match (wait, taken.cause) {
            (Some((since, state)), Origin::From(from)) => {
                delay = self.delay(vocabulary, (machine, state), queue, from, since);
                let (ns, key, how) = delay;
                // Room has no origin that matters.
                if looked != Looked::Room {
                    let context = self.life(machine).context.is_some();
                    if self.set_alone(machine, false) || context {
                        self.op(machine, What::Anew);
                    }
                }
                self.meet_token(machine, (queue, looked), from, (ns, key, how));
                self.op(machine, What::Began);
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
        if looked == Looked::Took && matches!(taken.cause, Origin::None) && self.known(queue).is_lock {
            self.op(machine, What::Got { queue });
        }
        if looked != Looked::Peeked {
            for at in 0..self.queues.spent.len() {
                let from = self.queues.spent[at];
                if Some(from.slot) != last {
                    self.meet_early(vocabulary, machine, (queue, looked), from, host);
                }
            }
        }
        delay
    }

    /// Returns the delay of what a machine waited for since `since`.
    fn delay(
        &mut self,
        vocabulary: &Vocabulary,
        (machine, state): (MachineId, State),
        queue: QueueId,
        from: From,
        since: u64,
    ) -> (f64, u32, How) {
        let (key, carried) = self.link_key(vocabulary, queue, from, vocabulary.host_id(machine));
        let (now, line) = (self.now, self.line);
        if !carried && from.t < since && since < now {
            // The wait began although the item was there: why it continued is unknown.
            let key = self.state_key(vocabulary, machine, state);
            self.first_unexplained.entry(key).or_insert(line);
            return ((now - since) as f64, key, How::After);
        }
        let ns = now.saturating_sub(from.t.max(if carried { 0 } else { since })) as f64;
        let known = &mut self.delays[key as usize];
        (known.count, known.sum) = (known.count + 1.0, known.sum + ns);
        (ns, key, if carried { How::Carried } else { How::Reaction })
    }

    /// Meets an item that was taken without waiting: in the trace it was there early, in another
    /// world it may come later.
    fn meet_early(
        &mut self,
        vocabulary: &Vocabulary,
        machine: MachineId,
        (queue, looked): (QueueId, Looked),
        from: From,
        host: Option<NameId>,
    ) {
        let (key, carried) = self.link_key(vocabulary, queue, from, host);
        let known = self.delays[key as usize];
        let usual = if known.count > 0.0 { known.sum / known.count } else { 0.0 };
        let ns = usual.min(self.now.saturating_sub(from.t) as f64);
        let how = if carried { How::Carried } else { How::Reaction };
        if looked == Looked::Took && self.life(machine).context.is_some() {
            self.op(machine, What::Ahead { slot: from.slot, ns, key });
        }
        let life = self.life(machine);
        if looked == Looked::Took && life.alone && life.is_shared_worker {
            let before = life.passed.replace(Passed { slot: from.slot, ns, key });
            self.slots.hold(from.slot);
            if let Some(before) = before {
                self.slots.release(before.slot);
            }
        }
        self.meet_token(machine, (queue, looked), from, (ns, key, how));
    }

    fn meet_token(&mut self, machine: MachineId, (queue, looked): (QueueId, Looked), from: From, (ns, key, how): (f64, u32, How)) {
        let From { slot, by, paid, .. } = from;
        // The link of a token that is put within a state that is a call belongs to that state's
        // time.
        let paid = paid.filter(|paid| paid.state.is_none());
        self.have_to_do(machine, by);
        let what = match looked == Looked::Took && self.known(queue).is_lock {
            true => What::Lock { queue, slot, ns, key, how },
            false => What::Meet { slot, ns, key, how, paid },
        };
        self.op(machine, what);
    }

    /// Notes that a context's cause is known, or that it will never be known.
    fn caused(&mut self, machine: MachineId) {
        if let Some(context) = &mut self.life(machine).context {
            context.caused = true;
        }
    }

    /// The machine continues, or begins, when its cause has come. Returns false if the causing
    /// machine is unknown.
    fn meet_cause(&mut self, vocabulary: &Vocabulary, machine: MachineId, cause: Cause) -> bool {
        if !self.life(cause.by).seen {
            self.counts.too_old += u64::from(self.life(cause.by).is_forgotten);
            return false;
        }
        let begin = self.begin.unwrap_or(0);
        let at = cause.at.map_or(self.now, |at| at.saturating_sub(begin)).min(self.now);
        self.charge(vocabulary, cause.by);
        self.have_to_do(machine, cause.by);
        let slot = self.slots.make();
        self.op(cause.by, What::Publish { slot, at });
        let kind = cause.link.map_or(Link::Wakeup, Link::Named);
        let key = self.key(vocabulary, Key::Link { queue: None, kind });
        self.anew(machine, cause.by);
        self.op(machine, What::Meet { slot, ns: (self.now - at) as f64, key, how: How::Carried, paid: None });
        self.op(machine, What::Began);
        self.slots.release(slot);
        true
    }

    fn fork(&mut self, vocabulary: &Vocabulary, machine: MachineId, cause: Cause) {
        if self.life(machine).exists {
            self.counts.contradictions += 1;
            return;
        }
        if !self.life(cause.by).seen || cause.by == machine {
            return self.appear(vocabulary, machine);
        }
        self.op(machine, What::Fresh);
        self.meet_cause(vocabulary, machine, cause);
        self.begins_by(machine, cause.by);
        self.begin_life(vocabulary, machine, None);
    }

    fn wake(&mut self, vocabulary: &Vocabulary, machine: MachineId, cause: Option<Cause>) {
        let now = self.now;
        if let Some(block) = self.life(machine).block {
            self.op(machine, What::Wakes);
            if !cause.is_some_and(|cause| self.meet_cause(vocabulary, machine, cause)) {
                let key = self.state_key(vocabulary, machine, State::Blocked(block.why));
                self.unexplained(machine, key);
            }
            self.caused(machine);
            let life = self.life(machine);
            (life.block, life.ready, life.state, life.waits_as) = (None, Some(now), State::Runnable, State::Runnable);
            self.is_woken(machine);
            return self.look(vocabulary, machine);
        }
        if self.life(machine).context.is_some_and(|context| !context.caused) {
            self.caused(machine);
            if let Some(cause) = cause.filter(|cause| self.lives.get(cause.by.0 as usize).is_some_and(|life| life.seen)) {
                self.op(machine, What::Rebase);
                self.meet_cause(vocabulary, machine, cause);
            }
        }
    }

    fn push(&mut self, vocabulary: &Vocabulary, machine: MachineId, below: Option<MachineId>, cause: Option<Option<Cause>>) {
        if self.life(machine).context.is_some() {
            self.counts.contradictions += 1;
            return;
        }
        self.charge(vocabulary, machine);
        if self.life(machine).exists {
            self.vanish(vocabulary, machine);
        }
        let below = below.filter(|&below| self.life(below).exists);
        if let Some(below) = below {
            self.charge(vocabulary, below);
            self.life(below).above += 1;
        }
        let idle_since = self.life(machine).since;
        let context = Context { below, caused: cause.is_some(), idle_since };
        let known = cause.flatten().filter(|cause| cause.by != machine && self.life(cause.by).seen);
        let key = self.state_key(vocabulary, machine, State::Unknown);
        if let Some(cause) = known {
            self.op(machine, What::Work);
            self.meet_cause(vocabulary, machine, cause);
        } else {
            let slot = below.map(|below| {
                let slot = self.slots.make();
                self.op(below, What::Publish { slot, at: self.now });
                slot
            });
            self.op(machine, What::Arrive { below: slot, key, may_come: cause.is_none() });
            self.op(machine, What::Began);
            if let Some(slot) = slot {
                self.slots.release(slot);
            }
        }
        self.begin_life(vocabulary, machine, Some(context));
    }

    fn pop(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let Some(context) = self.life(machine).context.filter(|_| self.life_is_top(machine)) else {
            self.counts.contradictions += 1;
            return;
        };
        self.charge(vocabulary, machine);
        self.leave(vocabulary, machine, context);
        self.vanish(vocabulary, machine);
    }

    fn stop(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        if !self.life(machine).exists {
            self.counts.contradictions += 1;
            return;
        }
        self.charge(vocabulary, machine);
        if let Some(context) = self.life(machine).context {
            self.leave(vocabulary, machine, context);
        }
        self.vanish(vocabulary, machine);
        self.has_stopped(vocabulary, machine);
    }

    /// Resumes the machine below a context, later by the work of the context.
    fn leave(&mut self, vocabulary: &Vocabulary, machine: MachineId, context: Context) {
        let Some(below) = context.below else { return };
        let life = self.life(below);
        life.above = life.above.saturating_sub(1);
        if !life.works() {
            return;
        }
        let disturbed = std::mem::take(&mut life.disturbed);
        let key = self.state_key(vocabulary, below, State::Interrupted);
        if disturbed {
            return self.op(below, What::Own { key, paid: None });
        }
        let slot = self.slots.make();
        self.op(machine, What::PublishWork { slot });
        self.op(below, What::Interrupted { slot, key });
        self.slots.release(slot);
    }

    fn vanish(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        if self.life(machine).on_cpu {
            self.leave_cpu(vocabulary, machine, Leaving::Done);
        }
        if let Some(off) = self.life(machine).off.take() {
            self.forget_cpu(off);
        }
        let life = self.life(machine);
        (life.exists, life.block, life.ready, life.context) = (false, None, None, None);
    }

    pub(super) fn mark_end(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        self.check_end(vocabulary, machine);
        let machine = match self.options.machine {
            Some(_) => self.asked,
            None => Some(machine),
        };
        let Some(machine) = machine else { return };
        self.remember(machine);
        self.charge(vocabulary, machine);
        self.has_served(machine);
        self.has_done(machine);
        self.op(machine, What::End);
    }
}
