//! Interactions that follow from probes: states and spans, queues, calls, signals. A step comes
//! from `Composer::probe` (`early.rs`), which holds it until it is due.
//!
//! The critical path is made of these. The times of `stages` and `cpu` come from
//! `system::activity`, which follows the same steps; a new [`Op`] must be handled in both.

use super::thread_table::{KernelState, ThreadMachine};
use super::waits::{Wait, WaitTarget};
use super::{Composer, RunsOn};
use crate::actors::{Actor, ActorId};
use crate::interaction::{Cause, Effect, MachineId, QueueId};
use crate::kinds::{state_label, NameKind, StateKind};
use crate::linux::watch::ThreadId;
use crate::names::NameId;
use crate::step::{Op, Step};
use longpole_trace::event::{Catalogue, Loss};

/// Limit of open spans, because a malicious trace may open spans endlessly.
const MAX_FRAMES: usize = 1024;

impl Composer {
    pub(super) fn apply_step(&mut self, catalogue: &Catalogue, step: &Step) {
        let at = self.thread_of_actor(step.actor);
        if step.op == Op::Other {
            return;
        }
        self.note_probe(at);
        self.machine(catalogue, at);
        self.apply_op(catalogue, at, step.op);
    }

    /// Applies an operation of the thread `at`.
    pub(super) fn apply_op(&mut self, catalogue: &Catalogue, at: u32, op: Op) {
        match op {
            // These describe something and do not end a wait.
            Op::Mark { .. } | Op::Counter { .. } | Op::Flow { .. } | Op::Other => {}
            Op::Size { queue, .. }
            | Op::WaitEmpty { queue }
            | Op::WaitFull { queue }
            | Op::Put { queue, .. }
            | Op::Reserve { queue, .. }
            | Op::Get { queue, .. }
            | Op::Peek { queue, .. } => self.apply_queue_op(catalogue, at, queue, op),
            Op::Call { .. } | Op::Returned { .. } | Op::Dispatch { .. } | Op::Reply { .. } => self.apply_call_op(catalogue, at, op),
            Op::Wait => self.begins_explicit_wait(catalogue, at, WaitTarget::Signal),
            Op::Submit { context, count } => {
                self.ends_wait(catalogue, at);
                let machine = self.machine(catalogue, at);
                let queue = self.signal(context);
                self.put(at, machine, queue, count.max(1));
            }
            Op::Receive { context, count } => self.receive(catalogue, at, context, count),
            Op::Begin { name } => {
                self.ends_wait(catalogue, at);
                let span = self.span(name);
                self.open_frame(at, span);
            }
            Op::End { name } => {
                self.ends_wait(catalogue, at);
                let span = self.span(name);
                self.close_frame(at, span);
            }
            Op::Block { why } => {
                self.ends_wait(catalogue, at);
                let why = self.reason_of_system(why);
                self.begins_to_wait(catalogue, at, WaitTarget::Event(why));
                self.blocks_in_wait(catalogue, at);
            }
            Op::Wake { actor } => {
                self.ends_wait(catalogue, at);
                self.wakes(catalogue, at, actor);
            }
            Op::State { machine, state } => {
                self.ends_wait(catalogue, at);
                self.declared(at, machine, state);
            }
        }
        self.emit_state(catalogue, at);
        self.may_be_idle(catalogue, at, op);
    }

    /// Applies an operation on a queue.
    fn apply_queue_op(&mut self, catalogue: &Catalogue, at: u32, queue: QueueId, op: Op) {
        if let Op::Put { count: 0, .. } | Op::Reserve { count: 0, .. } | Op::Get { count: 0, .. } | Op::Peek { count: 0, .. } = op {
            return;
        }
        self.declare_if_new(queue);
        match op {
            Op::WaitEmpty { .. } => self.begins_explicit_wait(catalogue, at, WaitTarget::Tokens(queue)),
            Op::WaitFull { .. } => self.begins_explicit_wait(catalogue, at, WaitTarget::Space(queue)),
            Op::Size { count, .. } => self.counters.size_mismatches += u64::from(!self.level(queue).can_be(count, at)),
            Op::Put { count, .. } | Op::Reserve { count, .. } => {
                // A thread that puts something waits for nothing any more. If it waited for room in
                // this queue, it got that.
                match self.threads[at].wait {
                    Some(wait) if wait.what == WaitTarget::Space(queue) => self.end_wait_for_space(catalogue, at, queue),
                    _ => self.ends_wait(catalogue, at),
                }
                let machine = self.machine(catalogue, at);
                self.threads[at].end_block_by_queue();
                match op {
                    Op::Put { .. } => self.put(at, machine, queue, count),
                    _ => self.emit(Effect::Reserve { machine, queue, n: count }),
                }
            }
            Op::Get { count, .. } | Op::Peek { count, .. } => {
                self.end_wait_for_tokens(catalogue, at, queue);
                self.get(catalogue, at, queue, count, matches!(op, Op::Peek { .. }));
            }
            _ => {}
        }
    }

    /// Applies an operation on a call between threads.
    fn apply_call_op(&mut self, catalogue: &Catalogue, at: u32, op: Op) {
        match op {
            Op::Call { name, id } => {
                self.ends_wait(catalogue, at);
                self.calls(catalogue, at, name, id);
            }
            Op::Returned { name, id } => {
                if self.returned(catalogue, at, name, id) {
                    self.clear_wait(at);
                } else if let Some(Wait { what: WaitTarget::Reply(_), .. }) = self.threads[at].wait {
                    // The answering thread has no probes.
                    self.end_wait_by_last_wakeup(catalogue, at, "probes");
                }
            }
            Op::Dispatch { name, id } => {
                match self.dispatches(catalogue, at, name, id) {
                    Some(slot) => {
                        self.clear_wait(at);
                        self.threads[at].probes.serving.push((name, slot));
                    }
                    None => self.ends_wait(catalogue, at),
                }
                self.threads[at].probes.is_server = true;
                let service = self.service(name);
                self.open_frame(at, service);
            }
            Op::Reply { name, .. } => {
                self.ends_wait(catalogue, at);
                let serving = &mut self.threads[at].probes.serving;
                if let Some(place) = serving.iter().rposition(|(known, _)| *known == name) {
                    let (_, slot) = serving.remove(place);
                    self.replies(catalogue, at, slot);
                }
                let service = self.service(name);
                self.close_frame(at, service);
            }
            _ => {}
        }
    }

    /// Ends the block of the thread of `actor`, because a rule says that the thread `at` wakes it.
    fn wakes(&mut self, catalogue: &Catalogue, at: u32, actor: ActorId) {
        let woken = self.thread_of_actor(actor);
        if woken != at && self.threads[woken].blocked {
            let by = self.machine(catalogue, at);
            self.clear_wait(woken);
            self.unblock(catalogue, woken, Some(Cause { by, at: None, link: None }));
            self.emit_state(catalogue, woken);
        }
    }

    fn begins_explicit_wait(&mut self, catalogue: &Catalogue, at: u32, what: WaitTarget) {
        self.threads[at].probes.waits_explicitly = true;
        self.begins_to_wait(catalogue, at, what);
    }

    fn receive(&mut self, catalogue: &Catalogue, at: u32, context: NameId, count: u64) {
        let queue = self.signal(context);
        let level = *self.level(queue);
        let wait = self.threads[at].wait;
        if wait.is_some_and(|wait| wait.what == WaitTarget::Work && level.units > 0 && level.opened <= wait.since) {
            // The signal was there before the wait began, so the thread was at work.
            self.ends_wait(catalogue, at);
        }
        if level.units > 0 {
            self.end_wait_for_signal(catalogue, at, queue);
        }
        self.threads[at].probes.is_server = true;
        self.get(catalogue, at, queue, level.units.max(1), false);
        // A signal whose submit was still in progress is put back now, for the next receive.
        let on_its_way = level.put_after(count.max(1), at, self.now);
        let alive = |by: u32| self.threads[by].machine.filter(|_| !self.threads[by].blocked);
        if let Some((by, machine, left)) = on_its_way.and_then(|(by, left)| Some((by, alive(by)?, left))) {
            self.put(by, machine, queue, left);
        }
    }

    /// A server without probes for its waits may now wait for its next work. If it then does
    /// something else, it did not wait.
    fn may_be_idle(&mut self, catalogue: &Catalogue, at: u32, op: Op) {
        let thread = &self.threads[at];
        if thread.kernel != KernelState::Silent
            || !thread.probes.is_server
            || thread.probes.waits_explicitly
            || thread.wait.is_some()
            || !thread.probes.frames.is_empty()
        {
            return;
        }
        if !matches!(op, Op::Mark { .. } | Op::Counter { .. } | Op::Flow { .. } | Op::Size { .. }) {
            self.begins_to_wait(catalogue, at, WaitTarget::Work);
        }
    }

    fn open_frame(&mut self, at: u32, name: NameId) {
        let thread = &mut self.threads[at];
        match thread.probes.frames.len() < MAX_FRAMES {
            true => thread.probes.frames.push(name),
            false => thread.probes.too_deep += 1,
        }
    }

    /// Ends the innermost open frame with this name, and all that were opened within it. An end
    /// without a begin is ignored.
    fn close_frame(&mut self, at: u32, name: NameId) {
        let thread = &mut self.threads[at];
        if thread.probes.too_deep > 0 {
            thread.probes.too_deep -= 1;
        } else if let Some(place) = thread.probes.frames.iter().rposition(|frame| *frame == name) {
            thread.probes.frames.truncate(place);
        }
    }

    fn span(&mut self, name: NameId) -> NameId {
        self.names.span(name, &mut self.system.vocabulary)
    }

    fn service(&mut self, name: NameId) -> NameId {
        self.names.service(name, &mut self.system.vocabulary)
    }

    fn declared(&mut self, at: u32, machine: NameId, state: NameId) {
        let label = self.actor_of(at).map_or("", |actor| actor.label.as_str());
        let names = &self.system.vocabulary.names;
        let (of, state_name) = (names.text(machine), names.text(state));
        let name = if of == label { state_label(state_name).into_owned() } else { format!("{of}::{state_name}") };
        self.threads[at].probes.declared = Some(self.system.vocabulary.names.intern_as(&name, NameKind::State(StateKind::Declared)));
    }

    /// The actor that belongs to a thread, if probes have shown one.
    pub(super) fn actor_of(&self, at: u32) -> Option<&Actor> {
        self.threads[at].actor.and_then(|id| self.system.vocabulary.actors.get(id))
    }

    /// Returns the machine of an actor's thread: the last one, if it had several.
    pub fn machine_of_actor(&self, id: ActorId) -> Option<MachineId> {
        let living = self.threads.of_actor(id).and_then(|at| self.threads[at].machine);
        let ended = || {
            let tid = self.tid_here(id)?;
            self.runs_on().iter().rev().find(|(_, on)| *on == RunsOn::Thread(tid)).map(|(machine, _)| *machine)
        };
        living.or_else(ended)
    }

    fn thread_of_actor(&mut self, id: ActorId) -> u32 {
        let known = self.threads.of_actor(id);
        match known {
            // A reused thread id belongs to another thread.
            Some(at) if self.threads[at].machine.is_some() || self.linux_of(id) == self.threads[at].linux => at,
            _ => self.meet_probes(id),
        }
    }

    /// True if the actor is on the host whose kernel events the trace has.
    fn is_here(&self, actor: &Actor) -> bool {
        self.naming.host(&actor.host).is_empty()
    }

    /// The actor's thread id, if it is on the host whose kernel events the trace has.
    fn tid_here(&self, id: ActorId) -> Option<i32> {
        self.system.vocabulary.actors.get(id).filter(|actor| self.is_here(actor)).and_then(|actor| actor.tid)
    }

    fn linux_of(&self, id: ActorId) -> Option<ThreadId> {
        self.tid_here(id).and_then(|tid| self.linux.thread_of(tid))
    }

    #[cold]
    fn meet_probes(&mut self, id: ActorId) -> u32 {
        let at = match self.linux_of(id) {
            Some(linux) => self.thread_of_linux(linux),
            None => {
                let at = self.threads.push(ThreadMachine::default());
                if let Some(tid) = self.tid_here(id) {
                    self.threads.set_probed(tid, at);
                }
                at
            }
        };
        self.threads.set_actor(id, at);
        at
    }

    /// Marks the threads whose losses of probe events begin until `t_ns`: from the begin of the
    /// loss the thread's state is unknown. For a thread without kernel events, the loss is emitted
    /// at its next event instead.
    #[cold]
    pub(super) fn losses_begin(&mut self, catalogue: &Catalogue, t_ns: i64) {
        self.losses_ahead.extend(&catalogue.losses_ahead);
        let mut begun: Vec<Loss> = self.losses_ahead.extract_if(.., |loss| loss.begin_ns <= t_ns).collect();
        begun.sort_by_key(|loss| loss.begin_ns);
        for loss in begun {
            let actor = self.system.actor_of_stream(loss.stream);
            let Some(at) = actor.and_then(|id| self.threads.of_actor(id)) else { continue };
            // Other tracers report a loss for a whole packet that also has events. These events are
            // used, and the end of the loss corrects the rest.
            if u64::try_from(loss.begin_ns).is_ok_and(|begin_ns| begin_ns < self.now) {
                continue;
            }
            self.advance_to(loss.begin_ns);
            self.threads[at].probes.silent = true;
            self.emit_state(catalogue, at);
        }
    }

    /// Processes a loss of events from the probes of this actor.
    pub(super) fn probes_lost(&mut self, catalogue: &Catalogue, id: ActorId, begin_ns: i64) {
        let Some(at) = self.threads.of_actor(id) else { return };
        let thread = &mut self.threads[at];
        thread.probes.frames.clear();
        thread.probes.serving.clear();
        thread.probes.too_deep = 0;
        let was_silent = std::mem::take(&mut thread.probes.silent);
        let kernel = thread.kernel;
        if thread.wait.take().is_some() && kernel != KernelState::Blocked {
            let cause = self.unknown("lost");
            self.unblock(catalogue, at, cause);
        }
        match kernel {
            KernelState::Silent => {
                self.lost(catalogue, at, begin_ns);
                self.threads[at].kernel = KernelState::Silent;
            }
            // The span in which the thread was at the begin of the loss may have ended at any time
            // since.
            KernelState::Runs if !was_silent && !self.threads[at].blocked => self.emit_unknown(catalogue, at, begin_ns),
            _ => {}
        }
        self.emit_state(catalogue, at);
    }
}
