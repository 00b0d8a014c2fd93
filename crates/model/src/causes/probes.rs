//! Interactions that follow from probes: states and spans, queues, calls, signals.

use super::threads::{Kernel, Thread};
use super::waits::For;
use super::{translated, Composer};
use crate::actors::{Actor, ActorId};
use crate::interaction::Cause;
use crate::kinds::{state_label, NameKind, StateKind};
use crate::linux::watch::ThreadId;
use crate::names::{NameId, Names};
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
        self.probed(at);
        self.machine(catalogue, at);
        self.does(catalogue, at, step.op);
    }

    pub(super) fn does(&mut self, catalogue: &Catalogue, at: u32, op: Op) {
        match op {
            Op::Wait => self.explicit(catalogue, at, For::Signal),
            Op::WaitEmpty { queue } => {
                self.meets(queue);
                self.explicit(catalogue, at, For::Tokens(queue));
            }
            Op::WaitFull { queue } => {
                self.meets(queue);
                self.explicit(catalogue, at, For::Space(queue));
            }
            // These describe something and do not end a wait.
            Op::Mark { .. } | Op::Counter { .. } | Op::Flow { .. } | Op::Other => {}
            Op::Size { queue, count } => {
                self.meets(queue);
                self.counters.size_mismatches += u64::from(!self.level(queue).can_be(count, at));
            }
            Op::Put { queue, count } if count > 0 => {
                self.meets(queue);
                self.gives(catalogue, at, For::Space(queue));
                let machine = self.machine(catalogue, at);
                self.threads[at as usize].blocked = false;
                self.put(at, machine, queue, count);
            }
            Op::Reserve { queue, count } if count > 0 => {
                self.meets(queue);
                self.gives(catalogue, at, For::Space(queue));
                let machine = self.machine(catalogue, at);
                self.threads[at as usize].blocked = false;
                self.emit(crate::interaction::Effect::Reserve { machine, queue, n: count });
            }
            Op::Get { queue, count } if count > 0 => {
                self.meets(queue);
                self.takes_tokens(catalogue, at, queue);
                self.get(catalogue, at, queue, count, false);
            }
            Op::Peek { queue, count } if count > 0 => {
                self.meets(queue);
                self.takes_tokens(catalogue, at, queue);
                self.get(catalogue, at, queue, count, true);
            }
            Op::Put { .. } | Op::Reserve { .. } | Op::Get { .. } | Op::Peek { .. } => {}
            Op::Submit { context, count } => {
                self.gives(catalogue, at, For::Signal);
                let machine = self.machine(catalogue, at);
                let queue = self.signal(context);
                self.put(at, machine, queue, count.max(1));
            }
            Op::Receive { context, count } => self.receive(catalogue, at, context, count),
            Op::Call { name, id } => {
                self.ends_wait(catalogue, at);
                self.calls(catalogue, at, name, id);
            }
            Op::Returned { name, id } => {
                if self.returned(catalogue, at, name, id) {
                    self.takes(at);
                } else if let Some(super::waits::Wait { what: For::Reply(_), .. }) = self.threads[at as usize].wait {
                    // The answering thread has no probes.
                    self.end_wait_by_last_wakeup(catalogue, at, "probes");
                }
            }
            Op::Dispatch { name, id } => {
                match self.dispatches(catalogue, at, name, id) {
                    Some(slot) => {
                        self.takes(at);
                        self.threads[at as usize].serving.push((name, slot));
                    }
                    None => self.ends_wait(catalogue, at),
                }
                self.threads[at as usize].serves = true;
                let service = self.service(name);
                self.open(at, service);
            }
            Op::Reply { name, .. } => {
                self.ends_wait(catalogue, at);
                let serving = &mut self.threads[at as usize].serving;
                if let Some(place) = serving.iter().rposition(|(known, _)| *known == name) {
                    let (_, slot) = serving.remove(place);
                    self.replies(catalogue, at, slot);
                }
                let service = self.service(name);
                self.close(at, service);
            }
            Op::Begin { name } => {
                self.ends_wait(catalogue, at);
                let span = self.span(name);
                self.open(at, span);
            }
            Op::End { name } => {
                self.ends_wait(catalogue, at);
                let span = self.span(name);
                self.close(at, span);
            }
            Op::Block { why } => {
                self.ends_wait(catalogue, at);
                let why = self.reason_of_system(why);
                self.begins_to_wait(catalogue, at, For::Event(why));
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
        self.look(catalogue, at);
        self.may_be_idle(catalogue, at, op);
    }

    /// Ends the block of the thread of `actor`, because a rule says that the thread `at` wakes it.
    fn wakes(&mut self, catalogue: &Catalogue, at: u32, actor: ActorId) {
        let woken = self.thread_of_actor(actor);
        if woken != at && self.threads[woken as usize].blocked {
            let by = self.machine(catalogue, at);
            self.takes(woken);
            self.unblock(catalogue, woken, Some(Cause { by, at: None, link: None }));
            self.look(catalogue, woken);
        }
    }

    fn explicit(&mut self, catalogue: &Catalogue, at: u32, what: For) {
        self.threads[at as usize].waits_explicitly = true;
        self.begins_to_wait(catalogue, at, what);
    }

    /// Notes that the thread gives something. That ends a wait for `what` because it got what it
    /// waited for, and any other wait as well.
    fn gives(&mut self, catalogue: &Catalogue, at: u32, what: For) {
        match self.threads[at as usize].wait {
            Some(super::waits::Wait { what: For::Space(queue), .. }) if what == For::Space(queue) => self.takes_space(catalogue, at, queue),
            _ => self.ends_wait(catalogue, at),
        }
    }

    fn receive(&mut self, catalogue: &Catalogue, at: u32, context: NameId, count: u64) {
        let queue = self.signal(context);
        let level = *self.level(queue);
        let wait = self.threads[at as usize].wait;
        if let Some(wait) = wait.filter(|wait| wait.what == For::Work && level.units > 0 && level.opened <= wait.since) {
            // The signal was there before the wait began, so the thread was at work.
            debug_assert_eq!(wait.what, For::Work);
            self.ends_wait(catalogue, at);
        }
        if level.units > 0 {
            self.takes_signal(catalogue, at, queue);
        }
        self.threads[at as usize].serves = true;
        self.get(catalogue, at, queue, level.units.max(1), false);
        // A signal whose submit was still in progress is put back now, for the next receive.
        let on_its_way = level.put_after(count.max(1), at, self.now);
        let alive = |by: u32| self.threads[by as usize].machine.filter(|_| !self.threads[by as usize].blocked);
        if let Some((by, machine, left)) = on_its_way.and_then(|(by, left)| Some((by, alive(by)?, left))) {
            self.put(by, machine, queue, left);
        }
    }

    /// A server without probes for its waits may now wait for its next work. If it then does
    /// something else, it did not wait.
    fn may_be_idle(&mut self, catalogue: &Catalogue, at: u32, op: Op) {
        let thread = &self.threads[at as usize];
        if thread.kernel != Kernel::Silent
            || !thread.serves
            || thread.waits_explicitly
            || thread.wait.is_some()
            || !thread.frames.is_empty()
        {
            return;
        }
        if !matches!(op, Op::Mark { .. } | Op::Counter { .. } | Op::Flow { .. } | Op::Size { .. }) {
            self.begins_to_wait(catalogue, at, For::Work);
        }
    }

    fn open(&mut self, at: u32, name: NameId) {
        let thread = &mut self.threads[at as usize];
        match thread.frames.len() < MAX_FRAMES {
            true => thread.frames.push(name),
            false => thread.too_deep += 1,
        }
    }

    /// Ends the innermost open frame with this name, and all that were opened within it. An end
    /// without a begin is ignored.
    fn close(&mut self, at: u32, name: NameId) {
        let thread = &mut self.threads[at as usize];
        if thread.too_deep > 0 {
            thread.too_deep -= 1;
        } else if let Some(place) = thread.frames.iter().rposition(|frame| *frame == name) {
            thread.frames.truncate(place);
        }
    }

    /// The state of a thread whose innermost open span has this name.
    fn span(&mut self, name: NameId) -> NameId {
        let label = |names: &Names| state_label(names.text(name)).into_owned();
        translated(&mut self.span_names, name, &mut self.system.vocabulary, StateKind::Span, label)
    }

    /// The state of a thread that serves the call with this name.
    fn service(&mut self, name: NameId) -> NameId {
        let label = |names: &Names| state_label(names.text(name)).into_owned();
        translated(&mut self.service_names, name, &mut self.system.vocabulary, StateKind::Call, label)
    }

    fn declared(&mut self, at: u32, machine: NameId, state: NameId) {
        let label = self.actor_of(at).map_or("", |actor| actor.label.as_str());
        let names = &self.system.vocabulary.names;
        let (of, state_name) = (names.text(machine), names.text(state));
        let name = if of == label { state_label(state_name).into_owned() } else { format!("{of}::{state_name}") };
        self.threads[at as usize].declared = Some(self.system.vocabulary.names.intern_as(&name, NameKind::State(StateKind::Declared)));
    }

    /// The actor that belongs to a thread, if probes have shown one.
    pub(super) fn actor_of(&self, at: u32) -> Option<&Actor> {
        self.threads[at as usize].actor.and_then(|id| self.system.vocabulary.actors.get(id))
    }

    fn thread_of_actor(&mut self, id: ActorId) -> u32 {
        let known = self.of_actor.get(id.0 as usize).copied().flatten();
        match known {
            // A reused thread id belongs to another thread.
            Some(at) if self.threads[at as usize].machine.is_some() || self.linux_of(id) == self.threads[at as usize].linux => at,
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
                self.threads.push(Thread::default());
                let at = self.threads.len() as u32 - 1;
                if let Some(tid) = self.tid_here(id) {
                    self.probed.insert(tid, at);
                }
                at
            }
        };
        self.threads[at as usize].actor = Some(id);
        if self.of_actor.len() <= id.0 as usize {
            self.of_actor.resize(id.0 as usize + 1, None);
        }
        self.of_actor[id.0 as usize] = Some(at);
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
            let Some(at) = actor.and_then(|id| self.of_actor.get(id.0 as usize).copied().flatten()) else { continue };
            // Other tracers report a loss for a whole packet that also has events. These events are
            // used, and the end of the loss corrects the rest.
            if u64::try_from(loss.begin_ns).is_ok_and(|begin_ns| begin_ns < self.now) {
                continue;
            }
            self.at(loss.begin_ns);
            self.threads[at as usize].silent = true;
            self.look(catalogue, at);
        }
    }

    /// Processes a loss of events from the probes of this actor.
    pub(super) fn probes_lost(&mut self, catalogue: &Catalogue, id: ActorId, begin_ns: i64) {
        let Some(at) = self.of_actor.get(id.0 as usize).copied().flatten() else { return };
        let thread = &mut self.threads[at as usize];
        thread.frames.clear();
        thread.serving.clear();
        thread.too_deep = 0;
        let was_silent = std::mem::take(&mut thread.silent);
        let kernel = thread.kernel;
        if thread.wait.take().is_some() && kernel != Kernel::Blocked {
            let cause = self.unknown("lost");
            self.unblock(catalogue, at, cause);
        }
        match kernel {
            Kernel::Silent => {
                self.lost(catalogue, at, begin_ns);
                self.threads[at as usize].kernel = Kernel::Silent;
            }
            // The span in which the thread was at the begin of the loss may have ended at any time
            // since.
            Kernel::Runs if !was_silent && !self.threads[at as usize].blocked => self.emit_unknown(catalogue, at, begin_ns),
            _ => {}
        }
        self.look(catalogue, at);
    }
}
