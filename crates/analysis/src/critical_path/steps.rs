//! The effect of each interaction on the paths of the machines and tokens.
//!
//! Each interaction is handled by one function: it charges the machine's time until now, updates
//! the machine's state and, if the interaction ends a block or begins a life, replaces the
//! machine's path. Contradictions of the known state are counted. If an interaction makes no sense
//! at all, such as the fork of a machine that exists, it has no other effect.

use super::key::State;
use super::life::{Block, Context, Tip};
use super::{segments, CriticalPath, EndMark, From, OptionalName, Total};
use crate::stats::nearest::ends_nowhere;
use longpole_model::interaction::{Cause, Effect, MachineId, QueueId, Vocabulary};
use longpole_model::kinds::LinkKind;
use longpole_model::names::NameId;
use longpole_model::tokens::{Origin, Taken};

/// What an interaction did with a queue.
enum Looked {
    /// Took tokens; a context without a cause takes the path of the first tokens that it takes.
    Took,
    Peeked,
    Space,
}

impl CriticalPath {
    pub(super) fn step(&mut self, vocabulary: &Vocabulary, line: u64, effect: Effect) {
        if !matches!(effect, Effect::Declare { .. } | Effect::Now | Effect::End { .. }) && !self.life(machine_of(effect)).seen {
            self.meet(vocabulary, machine_of(effect));
        }
        match effect {
            Effect::Declare { .. } | Effect::Now => return,
            // An end before the start of the range does not count.
            Effect::End { .. } if self.now < self.begin.unwrap_or(0) => return,
            Effect::End { machine } => {
                if self.options.machine.is_none() && !self.life(machine).seen {
                    let seen = |id: &MachineId| self.lives.get(id.0 as usize).is_some_and(|life| life.seen);
                    let what = ends_nowhere(vocabulary, machine, seen);
                    self.contradiction(line, what);
                }
                return self.mark_end(machine);
            }
            Effect::Fork { machine, cause } => self.fork(vocabulary, line, machine, cause),
            Effect::Class { machine, class } => self.class(machine, class),
            Effect::Push { machine, below, cause } => self.push(vocabulary, line, machine, below, cause),
            Effect::Pop { machine } => self.pop(vocabulary, line, machine),
            Effect::Stop { machine } => self.stop(vocabulary, line, machine),
            effect => {
                let machine = machine_of(effect);
                self.appear(machine);
                self.charge(machine);
                self.act(vocabulary, line, machine, effect);
            }
        }
        if !matches!(effect, Effect::Stop { .. }) {
            self.last = Some(machine_of(effect));
        }
        debug_assert!(matches!(self.store.sizes(), (nodes, tips, _) if nodes <= 2 * tips), "the tree coalesces");
    }

    fn act(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, effect: Effect) {
        match effect {
            Effect::Here { .. } => self.mark(machine),
            Effect::State { state, .. } => {
                let state = State::of(vocabulary, state);
                self.life(machine).state = state;
                match self.life(machine).block {
                    Some(_) => self.unblock(machine, Origin::None),
                    None => self.look(machine),
                }
            }
            Effect::Block { why, .. } => {
                if let Some(active) = &mut self.active {
                    active.blocked(machine, self.now);
                }
                let now = self.now;
                let life = self.life(machine);
                let segment = life.tip.map_or(segments::NONE, |tip| tip.segment);
                life.block = Some(match life.block {
                    Some(block) => Block { why, ..block },
                    None => Block { why, start: now, segment },
                });
                self.look(machine);
            }
            Effect::Put { queue, n, flow, link, .. } => self.put(vocabulary, line, machine, (queue, n), flow, link),
            Effect::Get { queue, amount, flow, .. } => {
                let taken = self.queues.get(queue, amount, flow);
                self.found(vocabulary, line, machine, queue, &taken, Looked::Took);
                if taken.units > 0 && self.queues.is_bounded(queue) {
                    let from = self.origin(vocabulary, machine, None);
                    if let Some(from) = from {
                        self.queues.give_space(queue, taken.units, from);
                    }
                }
                self.update_holds();
            }
            Effect::Peek { queue, amount, flow, .. } => {
                let taken = self.queues.peek(queue, amount, flow);
                self.found(vocabulary, line, machine, queue, &taken, Looked::Peeked);
            }
            Effect::Reserve { queue, n, .. } => {
                let taken = self.queues.reserve(queue, machine, n);
                self.found(vocabulary, line, machine, queue, &taken, Looked::Space);
                self.update_holds();
            }
            Effect::Wake { cause, .. } => self.wake(vocabulary, line, machine, cause),
            // `step` handles these.
            Effect::Declare { .. } | Effect::Now | Effect::End { .. } | Effect::Class { .. } => {}
            Effect::Fork { .. } | Effect::Push { .. } | Effect::Pop { .. } | Effect::Stop { .. } => {}
        }
    }

    /// A machine exists from its first interaction. If that has no cause, its path begins there.
    fn appear(&mut self, machine: MachineId) {
        if !self.life(machine).exists {
            self.charge(machine);
            let tip = self.unknown(machine, self.now);
            self.begin_life(machine, tip, None);
        }
    }

    /// Begins a new life with the path that ends at `tip`.
    fn begin_life(&mut self, machine: MachineId, tip: Tip, context: Option<Context>) {
        self.jump(machine, tip);
        let life = self.life(machine);
        (life.exists, life.block, life.state, life.context) = (true, None, State::Run, context);
        life.has_been_context |= context.is_some();
        self.look(machine);
        if let (Some(active), Some(segments)) = (&mut self.active, &self.segments) {
            active.explained(machine, |since| segments.back(tip.segment, since).into_iter().rev());
        }
    }

    fn vanish(&mut self, machine: MachineId) {
        if let Some(active) = &mut self.active {
            active.vanished(machine, self.now);
        }
        let life = self.life(machine);
        (life.exists, life.block, life.context) = (false, None, None);
        self.look(machine);
    }

    fn fork(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, cause: Cause) {
        if !self.life(machine).exists {
            self.charge(machine);
            let tip = self.born(vocabulary, line, machine, Some(cause));
            return self.begin_life(machine, tip, None);
        }
        let name = vocabulary.machine_name(machine);
        self.contradiction(line, format!("\"{name}\" was forked although it exists already"));
    }

    /// Returns the tip of the path of a machine that begins with this cause.
    fn born(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, cause: Option<Cause>) -> Tip {
        if let Some(cause) = cause {
            if let Some(tip) = self.caused(cause) {
                return tip;
            }
            self.nobody(vocabulary, line, machine, cause);
        }
        self.unknown(machine, self.now)
    }

    fn nobody(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, cause: Cause) {
        let (machine, by) = (vocabulary.machine_name(machine), vocabulary.machine_name(cause.by));
        self.contradiction(line, format!("the cause of \"{machine}\" is \"{by}\", which has not acted yet"));
    }

    fn class(&mut self, machine: MachineId, class: NameId) {
        self.charge(machine);
        self.life(machine).class = Some(class);
        self.look(machine);
    }

    /// Gives a context the path of its cause; its own time before that is not on the path.
    fn adopt(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, cause: Option<Cause>) {
        let tip = self.born(vocabulary, line, machine, cause);
        self.jump(machine, tip);
        if let Some(context) = &mut self.life(machine).context {
            context.caused = true;
        }
    }

    fn wake(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, cause: Option<Cause>) {
        if let Some(block) = self.life(machine).block {
            if let Some(at) = cause.and_then(|cause| self.is_loss(vocabulary, machine, cause)) {
                self.uncount_loss(machine, at, block.start);
            }
            let cause = match cause.map(|cause| self.caused(cause).ok_or(cause)) {
                Some(Ok(tip)) => Origin::From(tip),
                Some(Err(cause)) => {
                    self.nobody(vocabulary, line, machine, cause);
                    Origin::Unknown
                }
                None => Origin::Unknown,
            };
            let life = self.life(machine);
            life.state = State::Runnable;
            if let Some(context) = &mut life.context {
                context.caused = true;
            }
            return self.unblock(machine, cause);
        }
        match (self.life(machine).context, cause) {
            (Some(Context { caused: false, .. }), cause) => self.adopt(vocabulary, line, machine, cause),
            _ => self.counts.ignored_wakeups += 1,
        }
    }

    /// Returns the start of the loss in ns if the wake-up reports lost events of the machine
    /// itself.
    fn is_loss(&self, vocabulary: &Vocabulary, machine: MachineId, cause: Cause) -> Option<u64> {
        let is_unknown = cause.link.is_some_and(|link| vocabulary.names.link_kind(link) == LinkKind::Unknown);
        cause.at.filter(|_| is_unknown && cause.by == machine)
    }

    /// Takes back time that was counted over all machines before a loss was known. A loss is
    /// reported only when it is over; until then its time was charged to the last state that was
    /// seen, which may have ended long before.
    fn uncount_loss(&mut self, machine: MachineId, from: u64, to: u64) {
        let begin = self.begin.unwrap_or(0);
        let life = self.life(machine);
        let from = from.max(life.unsaid).max(begin);
        life.unsaid = life.unsaid.max(to);
        let charged: Vec<_> = life.past.charges(from, to).map(|(key, start, end)| (key, start.max(from), end)).collect();
        for (key, start, end) in charged {
            self.uncount(key, start, end);
        }
    }

    fn push(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, below: Option<MachineId>, cause: Option<Option<Cause>>) {
        if self.life(machine).context.is_some() {
            let name = vocabulary.machine_name(machine);
            return self.contradiction(line, format!("context \"{name}\" begins although it has not ended"));
        }
        self.charge(machine);
        if self.life(machine).exists {
            self.vanish(machine);
        }
        let mut there = below;
        if let Some(below) = below.filter(|&below| !self.life(below).exists) {
            let (name, below) = (vocabulary.machine_name(machine), vocabulary.machine_name(below));
            self.contradiction(line, format!("context \"{name}\" begins on top of \"{below}\", which does not run"));
            there = None;
        }
        let below = there;
        if let Some(below) = below {
            self.charge(below);
            self.life(below).above += 1;
            self.look(below);
        }
        let tip = self.born(vocabulary, line, machine, cause.flatten());
        self.begin_life(machine, tip, Some(Context { below, caused: cause.is_some() }));
    }

    fn pop(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId) {
        if self.life(machine).context.is_none() {
            let name = vocabulary.machine_name(machine);
            return self.contradiction(line, format!("\"{name}\" is popped, but is not a context"));
        }
        if self.life(machine).above > 0 {
            let name = vocabulary.machine_name(machine);
            return self.contradiction(line, format!("context \"{name}\" is popped below another one"));
        }
        self.charge(machine);
        self.leave(machine);
        self.vanish(machine);
    }

    fn stop(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId) {
        if !self.life(machine).exists {
            let name = vocabulary.machine_name(machine);
            return self.contradiction(line, format!("\"{name}\" is stopped, but does not exist"));
        }
        self.charge(machine);
        self.leave(machine);
        self.vanish(machine);
        let life = self.life(machine);
        life.lives += 1;
        let number = life.lives;
        self.stopped.push_back((machine, number));
        if self.stopped.len() > self.options.most_stopped {
            self.forget_one();
        }
    }

    /// Forgets the path of the machine that stopped first, so that it can no longer be a cause; not
    /// if it lives again, or if its end may be the one that counts.
    fn forget_one(&mut self) {
        let Some((machine, number)) = self.stopped.pop_front() else { return };
        if self.subject == Some(machine) || self.last == Some(machine) {
            return self.stopped.push_back((machine, number));
        }
        let life = self.life(machine);
        if life.exists || life.lives != number {
            return;
        }
        let tip = life.tip.take();
        let mut past = std::mem::take(&mut life.past);
        life.past.born = past.born;
        for tip in past.tips().map(|tip| *tip).chain(tip) {
            self.store.release(tip);
        }
    }

    /// Resumes the machine below a context.
    fn leave(&mut self, machine: MachineId) {
        let below = self.life(machine).context.and_then(|context| context.below);
        if let Some(below) = below {
            self.charge(below);
            let life = self.life(below);
            life.above = life.above.saturating_sub(1);
            self.look(below);
        }
    }

    fn put(
        &mut self,
        vocabulary: &Vocabulary,
        line: u64,
        machine: MachineId,
        (queue, n): (QueueId, u64),
        flow: Option<NameId>,
        link: Option<NameId>,
    ) {
        let taken = self.queues.take_space(queue, machine, n);
        self.found(vocabulary, line, machine, queue, &taken, Looked::Space);
        self.update_holds();
        if let Some(from) = self.origin(vocabulary, machine, link) {
            self.queues.put(queue, n, flow, from);
            self.update_holds();
        }
    }

    /// Origin of what the machine produces now, with a hold on the machine's path.
    #[inline(always)]
    fn origin(&mut self, vocabulary: &Vocabulary, machine: MachineId, link: Option<NameId>) -> Option<From> {
        let tip = self.life(machine).tip?;
        let tip = self.share(tip);
        Some(From { tip, t: self.now, host: OptionalName::of(vocabulary.host_id(machine)), link: OptionalName::of(link) })
    }

    /// Uses what was found in a queue: it ends a block, or counts as slack, or gives a context its
    /// path.
    fn found(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, queue: QueueId, taken: &Taken<From>, looked: Looked) {
        if taken.missing > 0 {
            let (machine, queue, missing) = (vocabulary.machine_name(machine), vocabulary.queue_name(queue), taken.missing);
            let what = match looked {
                Looked::Took => format!("\"{machine}\" gets {missing} from \"{queue}\", which does not hold them"),
                Looked::Peeked => format!("\"{machine}\" peeks at {missing} in \"{queue}\", which does not hold them"),
                Looked::Space => format!("\"{machine}\" puts {missing} into \"{queue}\" beyond its capacity"),
            };
            self.contradiction(line, what);
        }
        let host = vocabulary.host_id(machine);
        let first = matches!(looked, Looked::Took) && taken.units > 0 && self.life(machine).context.is_some_and(|context| !context.caused);
        // A context takes its path from what it waited for, as with a wake-up; tokens that it takes
        // afterwards are not its first ones.
        let mut has_cause = first;
        if self.life(machine).block.is_some() {
            has_cause |= !matches!(taken.cause, Origin::None);
            let cause = match taken.cause {
                Origin::None => Origin::None,
                Origin::Unknown => Origin::Unknown,
                Origin::From(from) => Origin::From(self.handed(from, queue, host)),
            };
            self.unblock(machine, cause);
        } else if let Origin::From(from) = taken.cause {
            // The token that gives a context its path has no slack: the context runs because of it.
            if first {
                let tip = self.handed(from, queue, host);
                self.jump(machine, tip);
            } else {
                let now = self.now;
                let life = self.life(machine);
                let (key, cycle) = (life.key, now - life.took.unwrap_or(now));
                self.slack_mut(key).took(now - from.t, cycle);
            }
        }
        if taken.units > 0 {
            self.life(machine).took = Some(self.now);
        }
        if has_cause {
            if let Some(context) = &mut self.life(machine).context {
                context.caused = true;
            }
        }
    }

    /// Compares a machine's name with [`super::Options::machine`] at its first interaction.
    fn meet(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        self.life(machine).seen = true;
        let Some(wanted) = &self.options.machine else { return };
        let (host, name) = (vocabulary.host(machine), vocabulary.machine_name(machine));
        let whole = wanted.strip_prefix(host).and_then(|rest| rest.strip_prefix('/'));
        if wanted != name && whole != Some(name) {
            return;
        }
        match self.subject {
            Some(_) => self.namesake = Some(machine),
            None => {
                self.subject = Some(machine);
                if let Some(active) = &mut self.active {
                    active.meet(machine);
                }
            }
        }
    }

    fn mark_end(&mut self, machine: MachineId) {
        let machine = match self.options.machine {
            Some(_) => self.subject,
            None => Some(machine),
        };
        if let Some(tip) = self.end.take().and_then(|old| old.tip) {
            self.store.release(tip);
        }
        let mut tip = None;
        if let Some(machine) = machine {
            self.charge(machine);
            tip = Some(match self.life(machine).tip {
                Some(tip) => self.share(tip),
                None => self.unknown(machine, self.now),
            });
            let unknown = self.state_key(machine, State::Unknown);
            if let Some(active) = &mut self.active {
                active.mark(self.now, unknown);
            }
        }
        self.marks += 1;
        self.end = Some(EndMark { t: self.now, machine, tip });
    }

    /// Returns each key's time over all machines until the end that counts, in ns.
    pub(super) fn totals_to_end(&self) -> Vec<u64> {
        let known = |total: &Total| total.ns - if total.mark == self.marks { total.behind } else { 0 };
        let mut totals: Vec<u64> = self.totals.iter().map(known).collect();
        let (begin, end) = (self.begin.unwrap_or(0), self.end.as_ref().map_or(0, |end| end.t));
        for life in self.lives.iter().filter(|life| life.tip.is_some()) {
            if let Some(total) = totals.get_mut(life.key as usize) {
                *total += end.saturating_sub(life.since.max(begin));
            }
        }
        totals
    }

    /// Marks the end at the last machine's last interaction if no end was marked.
    pub(super) fn finish(&mut self) {
        if let (None, Some(last)) = (&self.end, self.last.or(self.subject)) {
            self.mark_end(last);
        }
    }
}

#[inline]
pub(crate) fn machine_of(effect: Effect) -> MachineId {
    match effect {
        Effect::Here { machine }
        | Effect::Class { machine, .. }
        | Effect::Fork { machine, .. }
        | Effect::State { machine, .. }
        | Effect::Block { machine, .. }
        | Effect::Put { machine, .. }
        | Effect::Get { machine, .. }
        | Effect::Peek { machine, .. }
        | Effect::Reserve { machine, .. }
        | Effect::Wake { machine, .. }
        | Effect::Push { machine, .. }
        | Effect::Pop { machine }
        | Effect::Stop { machine }
        | Effect::End { machine } => machine,
        Effect::Declare { .. } | Effect::Now => MachineId(0),
    }
}
