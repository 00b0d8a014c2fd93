//! One interaction of the trace, translated into operations of machines.
//!
//! This module decides what kind of interaction it is. What its parts mean is in the modules that
//! add methods to [`Translation`]: states, tokens, causes, contexts, CPUs, calls, servers.

use super::queue_uses::TokenOrigin;
use super::state::Translation;
use super::tokens::Looked;
use super::traced_machine::Block;
use crate::critical_path::interactions::machine_of;
use crate::stats::nearest::ends_nowhere;
use crate::what_if::operation::{Leaving, Operation};
use longpole_model::interaction::{Effect, Interaction, MachineId, QueueId, Vocabulary};
use longpole_model::names::NameId;
use longpole_model::tokens::Amount;

impl Translation {
    /// Translates the next interaction.
    pub fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) {
        let Interaction { t, line, effect } = *interaction;
        self.interactions += 1;
        if let Effect::Declare { queue, shape } = effect {
            self.declare(vocabulary, queue, shape);
            return self.queues.declare(queue, shape);
        }
        let begin = *self.clock.begin.get_or_insert(t.max(self.clock.requested_begin));
        self.clock.now = self.clock.now.max(t.saturating_sub(begin));
        self.clock.line = line;
        if t < begin && matches!(effect, Effect::End { .. }) {
            return;
        }
        self.step(vocabulary, effect);
        self.replay.end_interaction(self.end_machine.requested.or(self.end_machine.last));
    }

    fn step(&mut self, vocabulary: &Vocabulary, effect: Effect) {
        match effect {
            Effect::Declare { .. } | Effect::Now => return,
            Effect::End { machine } => return self.mark_end(vocabulary, machine),
            _ => {}
        }
        let machine = machine_of(effect);
        if !self.machine(machine).seen {
            self.meet_first(vocabulary, machine);
        }
        self.update_recorder(vocabulary, machine);
        match effect {
            Effect::Class { class, .. } => {
                self.charge(vocabulary, machine);
                self.machine(machine).class = Some(class);
                self.update_key(vocabulary, machine);
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
            self.end_machine.last = Some(machine);
        }
    }

    fn act(&mut self, vocabulary: &Vocabulary, machine: MachineId, effect: Effect) {
        match effect {
            Effect::State { state, .. } => self.state(vocabulary, machine, state),
            Effect::Block { why, .. } => self.block(vocabulary, machine, why),
            Effect::Put { queue, n, flow, link, .. } => self.put(vocabulary, machine, queue, (n, flow, link)),
            Effect::Get { queue, amount, flow, .. } => self.get(vocabulary, machine, queue, (amount, flow)),
            Effect::Peek { queue, amount, flow, .. } => {
                self.take_cpu(vocabulary, machine);
                self.ensure_declared(vocabulary, queue);
                let taken = self.queues.peek(queue, amount, flow);
                self.meet_taken(vocabulary, machine, queue, &taken, Looked::Peeked);
            }
            Effect::Reserve { queue, n, .. } => {
                self.take_cpu(vocabulary, machine);
                self.room(vocabulary, machine, queue, n, true);
            }
            Effect::Wake { cause, .. } => self.wake(vocabulary, machine, cause),
            Effect::Here { .. } | Effect::Remember { .. } => self.issue(machine, Operation::RememberMoment),
            _ => {}
        }
    }

    /// The machine begins to wait.
    fn block(&mut self, vocabulary: &Vocabulary, machine: MachineId, why: NameId) {
        self.take_cpu(vocabulary, machine);
        if self.machine(machine).cpu.has_cpu {
            self.leave_cpu(vocabulary, machine, Leaving::Done);
        }
        let (now, traced) = (self.clock.now, self.machine(machine));
        let begins = traced.block.is_none();
        match &mut traced.block {
            Some(block) => block.why = why,
            None => traced.block = Some(Block { why, start: now }),
        }
        if begins {
            self.end_service(machine);
            self.begin_wait(machine);
        }
    }

    fn put(&mut self, vocabulary: &Vocabulary, machine: MachineId, queue: QueueId, (n, flow, link): (u64, Option<NameId>, Option<NameId>)) {
        self.take_cpu(vocabulary, machine);
        self.room(vocabulary, machine, queue, n, false);
        let paid = self.pay(machine, queue, n);
        let from = match self.queue_use(queue).is_lock {
            true => self.unlock(vocabulary, machine, queue, link),
            false => self.publish(vocabulary, machine, link),
        };
        self.queues.put(queue, n, flow, TokenOrigin { paid, ..from });
        self.begin_call(machine, queue, paid);
        self.note_put(machine);
        self.update_holds();
    }

    fn get(&mut self, vocabulary: &Vocabulary, machine: MachineId, queue: QueueId, (amount, flow): (Amount, Option<NameId>)) {
        self.take_cpu(vocabulary, machine);
        self.ensure_declared(vocabulary, queue);
        let taken = self.queues.get(queue, amount, flow);
        let has_places = self.machine(machine).takes.has_places && self.takes_work_from(queue);
        if self.queue_use(queue).is_shared || has_places {
            self.end_service(machine);
        }
        if has_places {
            self.free_place(machine);
        }
        if !self.end_call(machine, queue, &taken) {
            self.meet_taken(vocabulary, machine, queue, &taken, Looked::Took);
        }
        self.begin_service(machine, queue, &taken);
        self.assign_work(machine, queue, &taken);
        if taken.units > 0 {
            self.give(vocabulary, machine, queue, taken.units);
        }
        self.update_holds();
    }

    /// Notes whether the machine is the one whose end is requested.
    fn meet_first(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        self.machine(machine).seen = true;
        self.remember(machine);
        let (host, name) = (vocabulary.host(machine).to_owned(), vocabulary.machine_name(machine).to_owned());
        let asked = self.end_machine.name.as_deref();
        if asked.is_some_and(|asked| asked == name || asked.strip_prefix(&host).and_then(|rest| rest.strip_prefix('/')) == Some(&name)) {
            match self.end_machine.requested {
                None => self.end_machine.requested = Some(machine),
                Some(_) => self.end_machine.namesake = Some(machine),
            }
        }
    }

    fn stop(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        if !self.machine(machine).exists {
            self.contradictions += 1;
            return;
        }
        self.charge(vocabulary, machine);
        if let Some(context) = self.machine(machine).stack.context {
            self.leave(vocabulary, machine, context);
        }
        self.vanish(vocabulary, machine);
        self.note_stopped(vocabulary, machine);
    }

    /// Marks the end at this machine, or at the requested one.
    pub fn mark_end(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        self.check_end(vocabulary, machine);
        let machine = match self.end_machine.name {
            Some(_) => self.end_machine.requested,
            None => Some(machine),
        };
        let Some(machine) = machine else { return };
        self.remember(machine);
        self.charge(vocabulary, machine);
        self.end_service(machine);
        self.free_place(machine);
        self.issue(machine, Operation::MarkEnd);
    }

    /// Notes a contradiction if the machine whose end counts has done nothing.
    fn check_end(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let seen = |id: &MachineId| self.known(*id).is_some_and(|traced| traced.seen);
        let is_absent = self.end_machine.name.is_none() && !seen(&machine);
        self.end_machine.no_end = is_absent.then(|| ends_nowhere(vocabulary, machine, seen));
        self.contradictions += u64::from(is_absent);
    }

    /// Marks the end at the last machine's last interaction if no end was marked, and ends all
    /// waits.
    pub fn finish(&mut self, vocabulary: &Vocabulary) {
        if let (None, Some(last)) = (&self.replay.here().end, self.end_machine.last.or(self.end_machine.requested)) {
            self.mark_end(vocabulary, last);
        }
        let replay = self.replay.here();
        if replay.held.count > 0 {
            replay.relax("deadlock in the replay: each machine waits for room that only a later interaction gives");
        }
        let made = std::mem::take(&mut replay.service.made);
        self.changes.mark_met(&made);
    }
}
