//! The effect of each interaction on the paths of the machines and tokens.
//!
//! Each interaction is handled by one function: it charges the machine's time until now, updates
//! the machine's state and, if the interaction ends a block or begins a life, replaces the
//! machine's path. Contradictions of the known state are counted. If an interaction makes no sense
//! at all, such as the fork of a machine that exists, it has no other effect.

use super::machine::{Block, Context, Tip};
use super::{CriticalPath, EndMark, PackedName, PathOrigin};
use crate::critical_path::keys::key::State;
use crate::critical_path::storage::segments;
use crate::stats::nearest::ends_nowhere;
use longpole_model::interaction::{Cause, Effect, MachineId, QueueId, Vocabulary};
use longpole_model::kinds::LinkKind;
use longpole_model::names::NameId;
use longpole_model::tokens::{Origin, Taken};

/// What a machine got from a queue.
enum FromQueue {
    /// Tokens; a context without a cause takes the path of the first tokens that it takes.
    Tokens,
    /// Tokens that stay in the queue.
    Peeked,
    Space,
}

impl CriticalPath {
    pub(super) fn dispatch(&mut self, vocabulary: &Vocabulary, line: u64, effect: Effect) {
        if !matches!(effect, Effect::Declare { .. } | Effect::Now | Effect::End { .. }) && !self.machine(machine_of(effect)).has_acted {
            self.note_first(vocabulary, machine_of(effect));
        }
        match effect {
            Effect::Declare { .. } | Effect::Now => return,
            // An end before the start of the range does not count.
            Effect::End { .. } if self.clock.now < self.clock.begin.unwrap_or(0) => return,
            Effect::End { machine } => {
                if self.options.machine.is_none() && !self.machine(machine).has_acted {
                    let seen = |id: &MachineId| self.machines.get(id.0 as usize).is_some_and(|tracked| tracked.has_acted);
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
                self.apply(vocabulary, line, machine, effect);
            }
        }
        if !matches!(effect, Effect::Stop { .. }) {
            self.last = Some(machine_of(effect));
        }
        debug_assert!(matches!(self.store.sizes(), (nodes, tips, _) if nodes <= 2 * tips), "the tree coalesces");
    }

    fn apply(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, effect: Effect) {
        match effect {
            Effect::Here { .. } | Effect::Remember { .. } => self.remember_path(machine),
            Effect::State { state, .. } => {
                let state = State::of(vocabulary, state);
                self.machine(machine).state = state;
                match self.machine(machine).block {
                    Some(_) => self.unblock(machine, Origin::None),
                    None => self.update_key(machine),
                }
            }
            Effect::Block { why, .. } => {
                if let Some(active) = &mut self.active {
                    active.begin_block(machine, self.clock.now);
                }
                let now = self.clock.now;
                let tracked = self.machine(machine);
                let segment = tracked.tip.map_or(segments::NONE, |tip| tip.segment);
                tracked.block = Some(match tracked.block {
                    Some(block) => Block { why, ..block },
                    None => Block { why, start: now, segment },
                });
                self.update_key(machine);
            }
            Effect::Put { queue, n, flow, link, .. } => self.put(vocabulary, line, machine, (queue, n), flow, link),
            Effect::Get { queue, amount, flow, .. } => {
                let taken = self.queues.get(queue, amount, flow);
                self.use_taken(vocabulary, line, machine, queue, &taken, FromQueue::Tokens);
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
                self.use_taken(vocabulary, line, machine, queue, &taken, FromQueue::Peeked);
            }
            Effect::Reserve { queue, n, .. } => {
                let taken = self.queues.reserve(queue, machine, n);
                self.use_taken(vocabulary, line, machine, queue, &taken, FromQueue::Space);
                self.update_holds();
            }
            Effect::Wake { cause, .. } => self.wake(vocabulary, line, machine, cause),
            // The begin of this function, and the one that calls it, handle these.
            Effect::Declare { .. } | Effect::Now | Effect::End { .. } | Effect::Class { .. } => {}
            Effect::Fork { .. } | Effect::Push { .. } | Effect::Pop { .. } | Effect::Stop { .. } => {}
        }
    }

    /// A machine exists from its first interaction. If that has no cause, its path begins there.
    fn appear(&mut self, machine: MachineId) {
        if !self.machine(machine).exists {
            self.charge(machine);
            let tip = self.unknown_path(machine, self.clock.now);
            self.begin_life(machine, tip, None);
        }
    }

    /// Begins a new life with the path that ends at `tip`.
    fn begin_life(&mut self, machine: MachineId, tip: Tip, context: Option<Context>) {
        self.jump(machine, tip);
        let tracked = self.machine(machine);
        (tracked.exists, tracked.block, tracked.state, tracked.context) = (true, None, State::Run, context);
        tracked.has_been_context |= context.is_some();
        self.update_key(machine);
        if let (Some(active), Some(segments)) = (&mut self.active, &self.segments) {
            active.replace_block(machine, |since| segments.back(tip.segment, since).into_iter().rev());
        }
    }

    fn vanish(&mut self, machine: MachineId) {
        if let Some(active) = &mut self.active {
            active.end_life(machine, self.clock.now);
        }
        let tracked = self.machine(machine);
        (tracked.exists, tracked.block, tracked.context) = (false, None, None);
        self.update_key(machine);
    }

    fn fork(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, cause: Cause) {
        if !self.machine(machine).exists {
            self.charge(machine);
            let tip = self.first_tip(vocabulary, line, machine, Some(cause));
            return self.begin_life(machine, tip, None);
        }
        let name = vocabulary.machine_name(machine);
        self.contradiction(line, format!("\"{name}\" was forked although it exists already"));
    }

    /// Returns the tip of the path of a machine that begins with this cause.
    fn first_tip(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, cause: Option<Cause>) -> Tip {
        if let Some(cause) = cause {
            if let Some(tip) = self.tip_after_cause(cause) {
                return tip;
            }
            self.report_absent_cause(vocabulary, line, machine, cause);
        }
        self.unknown_path(machine, self.clock.now)
    }

    fn report_absent_cause(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, cause: Cause) {
        let (machine, by) = (vocabulary.machine_name(machine), vocabulary.machine_name(cause.by));
        self.contradiction(line, format!("the cause of \"{machine}\" is \"{by}\", which has not acted yet"));
    }

    fn class(&mut self, machine: MachineId, class: NameId) {
        self.charge(machine);
        self.machine(machine).class = Some(class);
        self.update_key(machine);
    }

    /// Gives a context the path of its cause; its own time before that is not on the path.
    fn adopt(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, cause: Option<Cause>) {
        let tip = self.first_tip(vocabulary, line, machine, cause);
        self.jump(machine, tip);
        if let Some(context) = &mut self.machine(machine).context {
            context.caused = true;
        }
    }

    fn wake(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, cause: Option<Cause>) {
        if let Some(block) = self.machine(machine).block {
            if let Some(at) = cause.and_then(|cause| self.loss_start(vocabulary, machine, cause)) {
                self.uncount_loss(machine, at, block.start);
            }
            let cause = match cause.map(|cause| self.tip_after_cause(cause).ok_or(cause)) {
                Some(Ok(tip)) => Origin::From(tip),
                Some(Err(cause)) => {
                    self.report_absent_cause(vocabulary, line, machine, cause);
                    Origin::Unknown
                }
                None => Origin::Unknown,
            };
            let tracked = self.machine(machine);
            tracked.state = State::Runnable;
            if let Some(context) = &mut tracked.context {
                context.caused = true;
            }
            return self.unblock(machine, cause);
        }
        match (self.machine(machine).context, cause) {
            (Some(Context { caused: false, .. }), cause) => self.adopt(vocabulary, line, machine, cause),
            _ => self.counts.ignored_wakeups += 1,
        }
    }

    /// Returns the start of the loss in ns if the wake-up reports lost events of the machine
    /// itself.
    fn loss_start(&self, vocabulary: &Vocabulary, machine: MachineId, cause: Cause) -> Option<u64> {
        let is_unknown = cause.link.is_some_and(|link| vocabulary.names.link_kind(link) == LinkKind::Unknown);
        cause.at.filter(|_| is_unknown && cause.by == machine)
    }

    /// Takes back time that was counted over all machines before a loss was known. A loss is
    /// reported only when it is over; until then its time was charged to the last state that was
    /// seen, which may have ended long before.
    fn uncount_loss(&mut self, machine: MachineId, from: u64, to: u64) {
        let begin = self.clock.begin.unwrap_or(0);
        let tracked = self.machine(machine);
        let from = from.max(tracked.lost_until).max(begin);
        tracked.lost_until = tracked.lost_until.max(to);
        let charged: Vec<_> = tracked.past.charges(from, to).map(|(key, start, end)| (key, start.max(from), end)).collect();
        for (key, start, end) in charged {
            self.keys.uncount(key, start, end);
        }
    }

    fn push(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId, below: Option<MachineId>, cause: Option<Option<Cause>>) {
        if self.machine(machine).context.is_some() {
            let name = vocabulary.machine_name(machine);
            return self.contradiction(line, format!("context \"{name}\" begins although it has not ended"));
        }
        self.charge(machine);
        if self.machine(machine).exists {
            self.vanish(machine);
        }
        let mut there = below;
        if let Some(below) = below.filter(|&below| !self.machine(below).exists) {
            let (name, below) = (vocabulary.machine_name(machine), vocabulary.machine_name(below));
            self.contradiction(line, format!("context \"{name}\" begins on top of \"{below}\", which does not run"));
            there = None;
        }
        let below = there;
        if let Some(below) = below {
            self.charge(below);
            self.machine(below).contexts_above += 1;
            self.update_key(below);
        }
        let tip = self.first_tip(vocabulary, line, machine, cause.flatten());
        self.begin_life(machine, tip, Some(Context { below, caused: cause.is_some() }));
    }

    fn pop(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId) {
        if self.machine(machine).context.is_none() {
            let name = vocabulary.machine_name(machine);
            return self.contradiction(line, format!("\"{name}\" is popped, but is not a context"));
        }
        if self.machine(machine).contexts_above > 0 {
            let name = vocabulary.machine_name(machine);
            return self.contradiction(line, format!("context \"{name}\" is popped below another one"));
        }
        self.charge(machine);
        self.leave(machine);
        self.vanish(machine);
    }

    fn stop(&mut self, vocabulary: &Vocabulary, line: u64, machine: MachineId) {
        if !self.machine(machine).exists {
            let name = vocabulary.machine_name(machine);
            return self.contradiction(line, format!("\"{name}\" is stopped, but does not exist"));
        }
        self.charge(machine);
        self.leave(machine);
        self.vanish(machine);
        let tracked = self.machine(machine);
        tracked.stops += 1;
        let number = tracked.stops;
        self.stopped.push_back((machine, number));
        if self.stopped.len() > self.options.most_stopped {
            self.forget_one();
        }
    }

    /// Forgets the path of the machine that stopped first, so that it can no longer be a cause; not
    /// if it lives again, or if its end may be the one that counts.
    fn forget_one(&mut self) {
        let Some((machine, number)) = self.stopped.pop_front() else { return };
        if self.requested.machine == Some(machine) || self.last == Some(machine) {
            return self.stopped.push_back((machine, number));
        }
        let tracked = self.machine(machine);
        if tracked.exists || tracked.stops != number {
            return;
        }
        let tip = tracked.tip.take();
        let mut past = std::mem::take(&mut tracked.past);
        tracked.past.born = past.born;
        for tip in past.tips().map(|tip| *tip).chain(tip) {
            self.store.release(tip);
        }
    }

    /// Resumes the machine below a context.
    fn leave(&mut self, machine: MachineId) {
        let below = self.machine(machine).context.and_then(|context| context.below);
        if let Some(below) = below {
            self.charge(below);
            let tracked = self.machine(below);
            tracked.contexts_above = tracked.contexts_above.saturating_sub(1);
            self.update_key(below);
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
        self.use_taken(vocabulary, line, machine, queue, &taken, FromQueue::Space);
        self.update_holds();
        if let Some(from) = self.origin(vocabulary, machine, link) {
            self.queues.put(queue, n, flow, from);
            self.update_holds();
        }
    }

    /// Origin of what the machine produces now, with a hold on the machine's path.
    #[inline(always)]
    fn origin(&mut self, vocabulary: &Vocabulary, machine: MachineId, link: Option<NameId>) -> Option<PathOrigin> {
        let tip = self.machine(machine).tip?;
        let tip = self.held(tip);
        Some(PathOrigin { tip, t: self.clock.now, host: PackedName::of(vocabulary.host_id(machine)), link: PackedName::of(link) })
    }

    /// Uses what was found in a queue: it ends a block, or counts as slack, or gives a context its
    /// path.
    fn use_taken(
        &mut self,
        vocabulary: &Vocabulary,
        line: u64,
        machine: MachineId,
        queue: QueueId,
        taken: &Taken<PathOrigin>,
        looked: FromQueue,
    ) {
        if taken.missing > 0 {
            let (machine, queue, missing) = (vocabulary.machine_name(machine), vocabulary.queue_name(queue), taken.missing);
            let what = match looked {
                FromQueue::Tokens => format!("\"{machine}\" gets {missing} from \"{queue}\", which does not hold them"),
                FromQueue::Peeked => format!("\"{machine}\" peeks at {missing} in \"{queue}\", which does not hold them"),
                FromQueue::Space => format!("\"{machine}\" puts {missing} into \"{queue}\" beyond its capacity"),
            };
            self.contradiction(line, what);
        }
        let host = vocabulary.host_id(machine);
        let first =
            matches!(looked, FromQueue::Tokens) && taken.units > 0 && self.machine(machine).context.is_some_and(|context| !context.caused);
        // A context takes its path from what it waited for, as with a wake-up; tokens that it takes
        // afterwards are not its first ones.
        let mut has_cause = first;
        if self.machine(machine).block.is_some() {
            has_cause |= !matches!(taken.cause, Origin::None);
            let cause = match taken.cause {
                Origin::None => Origin::None,
                Origin::Unknown => Origin::Unknown,
                Origin::From(from) => Origin::From(self.tip_through_queue(from, queue, host)),
            };
            self.unblock(machine, cause);
        } else if let Origin::From(from) = taken.cause {
            // The token that gives a context its path has no slack: the context runs because of it.
            if first {
                let tip = self.tip_through_queue(from, queue, host);
                self.jump(machine, tip);
            } else {
                let now = self.clock.now;
                let tracked = self.machine(machine);
                let (key, cycle) = (tracked.key, now - tracked.last_get.unwrap_or(now));
                self.keys.slack_mut(key).record(now - from.t, cycle);
            }
        }
        if taken.units > 0 {
            self.machine(machine).last_get = Some(self.clock.now);
        }
        if has_cause {
            if let Some(context) = &mut self.machine(machine).context {
                context.caused = true;
            }
        }
    }

    /// Compares a machine's name with [`super::Options::machine`] at its first interaction.
    fn note_first(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        self.machine(machine).has_acted = true;
        let Some(wanted) = &self.options.machine else { return };
        let (host, name) = (vocabulary.host(machine), vocabulary.machine_name(machine));
        let whole = wanted.strip_prefix(host).and_then(|rest| rest.strip_prefix('/'));
        if wanted != name && whole != Some(name) {
            return;
        }
        match self.requested.machine {
            Some(_) => self.requested.namesake = Some(machine),
            None => {
                self.requested.machine = Some(machine);
                if let Some(active) = &mut self.active {
                    active.set_machine(machine);
                }
            }
        }
    }

    fn mark_end(&mut self, machine: MachineId) {
        let machine = match self.options.machine {
            Some(_) => self.requested.machine,
            None => Some(machine),
        };
        if let Some(tip) = self.end.take().and_then(|old| old.tip) {
            self.store.release(tip);
        }
        let mut tip = None;
        if let Some(machine) = machine {
            self.charge(machine);
            tip = Some(match self.machine(machine).tip {
                Some(tip) => self.held(tip),
                None => self.unknown_path(machine, self.clock.now),
            });
            let unknown = self.state_key(machine, State::Unknown);
            if let Some(active) = &mut self.active {
                active.mark_end(self.clock.now, unknown);
            }
        }
        self.keys.mark_end(self.clock.now);
        self.end = Some(EndMark { t: self.clock.now, machine, tip });
    }

    /// Returns each key's time over all machines until the end that counts, in ns.
    pub(super) fn totals_to_end(&self) -> Vec<u64> {
        let mut totals = self.keys.totals_to_end();
        let (begin, end) = (self.clock.begin.unwrap_or(0), self.end.as_ref().map_or(0, |end| end.t));
        for tracked in self.machines.iter().filter(|tracked| tracked.tip.is_some()) {
            if let Some(total) = totals.get_mut(tracked.key as usize) {
                *total += end.saturating_sub(tracked.charged_until.max(begin));
            }
        }
        totals
    }

    /// Marks the end at the last machine's last interaction if no end was marked.
    pub(super) fn finish(&mut self) {
        if let (None, Some(last)) = (&self.end, self.last.or(self.requested.machine)) {
            self.mark_end(last);
        }
    }
}

#[inline]
pub(crate) fn machine_of(effect: Effect) -> MachineId {
    match effect {
        Effect::Here { machine }
        | Effect::Remember { machine }
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
