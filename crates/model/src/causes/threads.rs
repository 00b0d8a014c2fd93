//! Threads as machines: the interactions that follow from the kernel's events about threads.

use super::ending::Relation;
use super::waits::Wait;
use super::Composer;
use crate::actors::ActorId;
use crate::interaction::{Cause, Effect, MachineId};
use crate::kinds::{LinkKind, NameKind, StateKind};
use crate::linux::watch::{BlockCause, BlockReason, Mode, Moment, TaskState, ThreadId, ThreadState, Wake, Waker};
use crate::linux::Arguments;
use crate::names::NameId;
use crate::system_calls::{sleeps_without_files, takes_a_timeout, CallFamily};
use longpole_trace::event::Catalogue;

/// The state of a thread according to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kernel {
    /// The trace has no kernel events of this thread.
    #[default]
    Silent,
    Runs,
    Ready,
    Preempted,
    /// The thread could run, but its control group has used up its share of CPU time.
    Throttled,
    Blocked,
    /// The thread sleeps until a time that it has set itself.
    Asleep,
    /// Events are missing.
    Unsure,
}

/// A thread as a machine, and what is known about it.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// The thread's machine while the thread lives.
    pub machine: Option<MachineId>,
    pub linux: Option<ThreadId>,
    pub actor: Option<ActorId>,
    /// The kernel's name of the thread, as used in the name of its machine.
    pub comm: Vec<u8>,
    pub renames: u8,
    pub recorder: bool,
    pub forked_by_recorder: bool,
    /// Relation to the recorded command, known from its birth.
    pub kin: Relation,
    pub kernel: Kernel,
    /// True if the thread is blocked according to the emitted interactions.
    pub blocked: bool,
    pub since: u64,
    /// Time at which the last block ended.
    pub resumed: u64,
    /// The state that was emitted last.
    pub state: Option<NameId>,
    /// True if events were lost while it was blocked.
    pub gap: bool,
    /// True if a loss of its probes' events has begun: the span that it was in may end at any time.
    pub silent: bool,
    /// Open spans and services, according to the probes.
    pub frames: Vec<NameId>,
    /// Number of open spans and services beyond the limit of `frames`.
    pub too_deep: usize,
    pub declared: Option<NameId>,
    pub wait: Option<Wait>,
    /// The last effects on queues.
    pub effects: [Option<super::waits::Done>; 4],
    /// The machine that ended its last block, and when, if the thread has done nothing for others
    /// since then.
    pub woken: Option<(MachineId, u64)>,
    /// The last thread that woke it, and when. Only recorded for threads that end RCU grace
    /// periods, which several threads wake to request one.
    pub asked_by: Option<(u32, u64)>,
    /// Calls that the thread serves, with their slots.
    pub serving: Vec<(NameId, u32)>,
    pub serves: bool,
    pub waits_explicitly: bool,
}

impl Composer {
    /// The thread that has this id in the kernel's model.
    #[inline]
    pub(super) fn thread_of_linux(&mut self, id: ThreadId) -> u32 {
        match self.of_linux.get(id.0 as usize) {
            Some(Some(at)) => *at,
            _ => self.meet(id),
        }
    }

    #[cold]
    fn meet(&mut self, id: ThreadId) -> u32 {
        let tid = self.linux.threads[id.0 as usize].tid;
        // Events of its probes may have come before its first kernel event.
        let known = self.probed.remove(&tid).filter(|&at| self.threads[at as usize].machine.is_some()).map(|at| at as usize);
        let at = known.unwrap_or(self.threads.len());
        if known.is_none() {
            self.threads.push(Thread::default());
        }
        self.threads[at].linux = Some(id);
        if self.of_linux.len() <= id.0 as usize {
            self.of_linux.resize(id.0 as usize + 1, None);
        }
        self.of_linux[id.0 as usize] = Some(at as u32);
        at as u32
    }

    pub(super) fn moment(&mut self, catalogue: &Catalogue, moment: Moment) {
        match moment {
            Moment::Mode { thread } => {
                let at = self.thread_of_linux(thread);
                if self.threads[at as usize].machine.is_none() {
                    self.runs(catalogue, at, None);
                }
                self.continue_path(catalogue, at);
                self.look(catalogue, at);
                self.lives_on(at);
            }
            Moment::Runs { thread, wake } => {
                let at = self.thread_of_linux(thread);
                self.runs(catalogue, at, wake);
                self.continue_path(catalogue, at);
            }
            Moment::Left { thread, state } => {
                let at = self.thread_of_linux(thread);
                self.continue_path(catalogue, at);
                self.left(catalogue, at, thread, state);
            }
            Moment::Woken { thread, wake } => {
                let at = self.thread_of_linux(thread);
                self.woken(catalogue, at, wake);
            }
            Moment::Unsure { thread } => {
                let at = self.thread_of_linux(thread);
                self.threads[at as usize].kernel = Kernel::Unsure;
                self.look(catalogue, at);
            }
            Moment::Lost { thread, begin_ns } => {
                let at = self.thread_of_linux(thread);
                self.lost(catalogue, at, begin_ns);
                self.forget_timers();
            }
            Moment::Forked { thread, parent } => self.forked(catalogue, thread, parent),
            Moment::Killed { thread, by, t_ns } => self.killed(catalogue, thread, by, t_ns),
            Moment::Raised { cpu, number, by } => self.raised(catalogue, cpu, number, by),
            Moment::Issued { cpu, device, sector, by } => self.issued(catalogue, cpu, device, sector, by),
            Moment::WorkQueued { cpu, work, by } => self.work_queued(catalogue, cpu, work, by),
            Moment::WorkBegins { thread, work } => self.work_begins(catalogue, thread, work),
            Moment::TimerSet { cpu, timer, by } => self.timer_is_set(catalogue, cpu, timer, by),
            Moment::TimerGoesOff { cpu, timer, by, kind } => self.timer_goes_off(cpu, timer, by, kind),
            Moment::Faulted { thread } => self.faulted(catalogue, thread),
            Moment::Retransmitted { cpu } => self.retransmitted(cpu),
            Moment::SwitchedOff { packets, works } => {
                if packets {
                    self.forget_packets();
                }
                if works {
                    self.works.forget();
                }
            }
            Moment::Throttled { thread } => {
                let at = self.thread_of_linux(thread);
                self.threads[at as usize].kernel = Kernel::Throttled;
                self.look(catalogue, at);
            }
            Moment::Completed { cpu, device, sector, by } => self.completed(catalogue, cpu, device, sector, by),
        }
    }

    fn runs(&mut self, catalogue: &Catalogue, at: u32, wake: Option<Wake>) {
        let thread = &mut self.threads[at as usize];
        thread.kernel = Kernel::Runs;
        if let (true, None) = (thread.blocked, &thread.wait) {
            match wake {
                Some(wake) => self.wake(catalogue, at, wake),
                None => {
                    let group = if thread.gap { "lost" } else { "sched" };
                    let cause = self.unknown(group);
                    self.unblock(catalogue, at, cause);
                }
            }
        }
        self.look(catalogue, at);
    }

    fn left(&mut self, catalogue: &Catalogue, at: u32, id: ThreadId, state: ThreadState) {
        match state {
            ThreadState::Dead => return self.dies(catalogue, at),
            ThreadState::Blocked(reason) => {
                self.threads[at as usize].kernel = Kernel::Blocked;
                self.rests(catalogue, at);
                if self.threads[at as usize].wait.is_some() {
                    self.blocks_in_wait(catalogue, at);
                } else if self.sleeps(at) {
                    // No other machine ends this wait: the sleep is something that the thread does,
                    // within its span if it has one.
                    self.threads[at as usize].kernel = Kernel::Asleep;
                } else {
                    let why = BlockReason { state: reason, cause: self.linux.block_cause(id) };
                    self.block(catalogue, at, why);
                }
            }
            ThreadState::Preempted => self.threads[at as usize].kernel = Kernel::Preempted,
            ThreadState::Runnable => self.threads[at as usize].kernel = Kernel::Ready,
            ThreadState::Running | ThreadState::Unknown => self.threads[at as usize].kernel = Kernel::Unsure,
        }
        self.look(catalogue, at);
    }

    fn block(&mut self, catalogue: &Catalogue, at: u32, why: BlockReason) {
        let machine = self.machine(catalogue, at);
        let why = self.reason(why);
        let now = self.now;
        let thread = &mut self.threads[at as usize];
        if !thread.blocked {
            (thread.blocked, thread.since, thread.gap) = (true, now, false);
        }
        self.emit(Effect::Block { machine, why, on: None, wants: None });
    }

    fn reason(&mut self, why: BlockReason) -> NameId {
        if let Some(&name) = self.reasons.get(&why) {
            return name;
        }
        let name = self.system.vocabulary.names.intern_as(&self.linux.reason_text(why), NameKind::State(StateKind::Waits));
        self.reasons.insert(why, name);
        name
    }

    fn woken(&mut self, catalogue: &Catalogue, at: u32, wake: Wake) {
        let thread = &mut self.threads[at as usize];
        thread.kernel = Kernel::Ready;
        if thread.blocked && thread.wait.is_some() {
            return self.woken_while_waiting(catalogue, at, wake);
        }
        if !thread.blocked && thread.machine.is_none() {
            // What it did before was not seen, but it was blocked.
            let why = BlockReason {
                state: TaskState::Interruptible,
                cause: thread.linux.map_or(BlockCause::Unknown, |id| self.linux.block_cause(id)),
            };
            self.block(catalogue, at, why);
        }
        if self.threads[at as usize].blocked {
            self.wake(catalogue, at, wake);
        }
        self.look(catalogue, at);
    }

    /// Ends the block with this wake-up as its cause.
    pub(super) fn wake(&mut self, catalogue: &Catalogue, at: u32, wake: Wake) {
        let cause = self.cause(catalogue, at, wake);
        self.unblock(catalogue, at, cause);
    }

    pub(super) fn unblock(&mut self, catalogue: &Catalogue, at: u32, cause: Option<Cause>) {
        let machine = self.machine(catalogue, at);
        let state = self.words.runnable;
        match cause {
            Some(_) => self.emit(Effect::Wake { machine, cause }),
            // The time of the block is unknown, and the machine's own path continues.
            None => self.emit(Effect::State { machine, state }),
        }
        let now = self.now;
        let thread = &mut self.threads[at as usize];
        (thread.blocked, thread.state, thread.resumed) = (false, Some(state), now);
        thread.woken = cause.map(|cause| (cause.by, cause.at.unwrap_or(now)));
    }

    fn cause(&mut self, catalogue: &Catalogue, at: u32, wake: Wake) -> Option<Cause> {
        let t = u64::try_from(wake.t_ns).unwrap_or(0);
        let when = (t < self.now).then_some(t);
        let sleeps = self.sleeps(at);
        match wake.waker {
            // Only time, or a signal, ends a sleep.
            _ if sleeps => self.timer(catalogue, at),
            // Code of a program wakes no kernel thread: an untraced interrupt ran on top of the
            // program. (For example, the report of a CPU that it has no RCU references, to a thread
            // that waits for such reports of all CPUs.) What is waited for is time.
            Waker::Thread(id) if self.is_kernel_thread(at) && self.linux.runs_a_program(id) => {
                if let Some(group) = self.linux.missing_context_group() {
                    return self.untold(at, group);
                }
                let (by, since) = (self.machine(catalogue, at), self.threads[at as usize].since);
                Some(Cause { by, at: Some(since), link: Some(self.words.links.interrupt) })
            }
            Waker::Thread(id) if !self.waits_for_all_cpus(at) && self.lets_grace_periods_pass(id) => self.grace_period(catalogue, at),
            Waker::Context { id, .. } if !self.is_kernel_thread(at) && self.is_rcu(id) => self.grace_period(catalogue, at),
            Waker::Thread(id) => {
                // The thread that an untraced interrupt interrupted has nothing to do with this
                // wake-up.
                if let Some(group) = self.linux.missing_context_group_for(id) {
                    return self.untold(at, group);
                }
                let other = self.thread_of_linux(id);
                if self.waits_for_all_cpus(at) {
                    // A wake-up is also such a report if the CPU does something for itself while
                    // the thread that asked for the grace period still waits for it.
                    let asked = self.threads[at as usize].asked_by.filter(|&(asked, _)| asked != other);
                    let waits = |of: &Thread, t| of.blocked && of.resumed <= t;
                    if asked.is_some_and(|(asked, t)| waits(&self.threads[asked as usize], t)) {
                        let (by, since) = (self.machine(catalogue, at), self.threads[at as usize].since);
                        return Some(Cause { by, at: Some(since), link: Some(self.words.links.interrupt) });
                    }
                    self.threads[at as usize].asked_by = Some((other, self.now));
                }
                let by = self.machine(catalogue, other);
                Some(Cause { by, at: when, link: None })
            }
            Waker::Context { id, .. } => {
                let its_own = self.timer_of(wake.cpu, id).is_some_and(|by| Some(by) == self.threads[at as usize].machine);
                // A wake-up within the interrupt of a timer is one by a timer of the woken thread;
                // timers of others raise softirqs there.
                if its_own || self.is_hard_timer(id) && self.can_time_out(at) || self.is_timed(wake.cpu, id) {
                    return self.timer(catalogue, at);
                }
                let by = self.context_that_acts(wake.cpu, id);
                Some(Cause { by, at: when, link: None })
            }
            Waker::Idle => match self.linux.missing_context_group() {
                None if self.can_time_out(at) => self.timer(catalogue, at),
                None => self.unknown("irq"),
                Some(group) => self.untold(at, group),
            },
            Waker::Unknown => self.unknown("sched"),
        }
    }

    /// The cause of a wake-up whose waker is in no event of this trace: unknown.
    ///
    /// A kernel thread does one thing after another for many others, so what it did before is not
    /// the cause of what follows. For such a thread the cause is therefore the machine that
    /// represents all machines whose events are missing.
    fn untold(&mut self, at: u32, group: &'static str) -> Option<Cause> {
        let cause = self.unknown(group);
        if !self.is_kernel_thread(at) {
            return cause;
        }
        let by = self.nobody();
        Some(Cause { by, at: None, link: None })
    }

    /// The cause is a timer that the thread itself set before it blocked.
    fn timer(&mut self, catalogue: &Catalogue, at: u32) -> Option<Cause> {
        if self.threads[at as usize].gap {
            return self.unknown("lost");
        }
        self.in_call(catalogue, at, LinkKind::Timer, self.words.links.timer)
    }

    /// The cause of a wake-up by the kernel's RCU: the grace period for which the thread waited. It
    /// lasts until every CPU has been through the scheduler and is nobody's work. What the RCU
    /// thread did before this thread asked has nothing to do with this wait.
    fn grace_period(&mut self, catalogue: &Catalogue, at: u32) -> Option<Cause> {
        self.in_call(catalogue, at, LinkKind::GracePeriod, self.words.links.grace_period)
    }

    /// The cause of the end of a wait that the thread itself began. The link is named by its kind
    /// and the call in which the thread waits, or is `plain` if no call is known.
    fn in_call(&mut self, catalogue: &Catalogue, at: u32, kind: LinkKind, plain: NameId) -> Option<Cause> {
        let link = self.link_in_call(at, kind).unwrap_or(plain);
        let (by, since) = (self.machine(catalogue, at), self.threads[at as usize].since);
        Some(Cause { by, at: Some(since), link: Some(link) })
    }

    fn link_in_call(&mut self, at: u32, kind: LinkKind) -> Option<NameId> {
        let BlockCause::Call(call, _) = self.linux.block_cause(self.threads[at as usize].linux?) else { return None };
        let known = self.timers.of_calls.iter().find(|&&(name, of, _)| (name, of) == (call, kind));
        if let Some(&(_, _, link)) = known {
            return Some(link);
        }
        let text = format!("{} {}", kind.text()?, self.linux.names.text(call));
        let link = self.system.vocabulary.names.intern_as(&text, NameKind::Link(kind));
        self.timers.of_calls.push((call, kind, link));
        Some(link)
    }

    fn call(&self, at: u32) -> Option<&str> {
        let id = self.threads[at as usize].linux?;
        match self.linux.block_cause(id) {
            BlockCause::Call(name, _) => Some(self.linux.names.text(name)),
            _ => None,
        }
    }

    /// True for a thread that ends the kernel's grace periods (RCU).
    fn waits_for_all_cpus(&self, at: u32) -> bool {
        self.is_kernel_thread(at) && self.threads[at as usize].comm.starts_with(b"rcu")
    }

    /// True for a thread of the kernel that lets grace periods pass. The threads for expedited ones
    /// work for the thread that asked, so the path goes through them.
    fn lets_grace_periods_pass(&mut self, id: ThreadId) -> bool {
        let at = self.thread_of_linux(id);
        self.waits_for_all_cpus(at) && !self.threads[at as usize].comm.starts_with(b"rcu_exp")
    }

    fn is_kernel_thread(&self, at: u32) -> bool {
        self.threads[at as usize].linux.is_some_and(|id| self.linux.threads[id.0 as usize].kernel)
    }

    /// True if only a timer or a signal ends the thread's wait: a sleep, also by a call that would
    /// wait for files and is given none. Without a timeout (a null pointer or a negative time), it
    /// waits for a signal.
    pub(super) fn sleeps(&self, at: u32) -> bool {
        let arguments = || self.linux.threads[self.threads[at as usize].linux?.0 as usize].call.map(|call| call.arguments);
        self.call(at).is_some_and(|call| {
            let only_times_out = |of: Arguments| of.second == Some(0) && of.third.is_none_or(|timeout| timeout > 0);
            CallFamily::of(call) == CallFamily::Sleep || sleeps_without_files(call) && arguments().is_some_and(only_times_out)
        })
    }

    fn can_time_out(&self, at: u32) -> bool {
        self.call(at).is_some_and(takes_a_timeout)
    }

    /// Makes the sender of the signal the cause of the thread's end. Without the signal the thread
    /// would have continued; its work since the signal was sent only delays that end. A thread that
    /// waits for this end thus waited for the sender.
    fn killed(&mut self, catalogue: &Catalogue, id: ThreadId, by: ThreadId, t_ns: i64) {
        let (at, by) = (self.thread_of_linux(id), self.thread_of_linux(by));
        let (thread, killer) = (&self.threads[at as usize], self.threads[by as usize].machine);
        let (Some(machine), Some(by), false) = (thread.machine, killer, thread.blocked || thread.wait.is_some()) else { return };
        let (why, link) = (self.words.signal, Some(self.words.links.signal));
        let when = u64::try_from(t_ns).unwrap_or(0).min(self.now);
        self.emit(Effect::Block { machine, why, on: None, wants: None });
        self.emit(Effect::Wake { machine, cause: Some(Cause { by, at: Some(when), link }) });
        self.threads[at as usize].state = None;
        self.look(catalogue, at);
    }

    fn dies(&mut self, catalogue: &Catalogue, at: u32) {
        let Some(machine) = self.threads[at as usize].machine.or_else(|| self.is_main(at).then(|| self.machine(catalogue, at))) else {
            return;
        };
        self.may_be_the_end(catalogue, at);
        self.emit(Effect::Stop { machine });
        self.gone(machine);
        self.forget_waits(at);
        let thread = &mut self.threads[at as usize];
        *thread = Thread { linux: thread.linux, actor: thread.actor, renames: thread.renames, ..Thread::default() };
    }

    fn forked(&mut self, catalogue: &Catalogue, id: ThreadId, parent: Option<ThreadId>) {
        let at = self.thread_of_linux(id);
        let parent = parent.map(|parent| self.thread_of_linux(parent)).filter(|&parent| parent != at);
        if self.threads[at as usize].machine.is_some() {
            return;
        }
        if parent.is_some_and(|parent| self.kin(parent) != Relation::Stranger) {
            self.threads[at as usize].kin = Relation::Started;
        }
        let by = parent.map(|parent| self.machine(catalogue, parent));
        self.threads[at as usize].forked_by_recorder =
            self.about.recorder.is_some() && parent.is_some_and(|parent| self.threads[parent as usize].recorder);
        let machine = self.named(catalogue, at);
        match by {
            Some(by) => self.emit(Effect::Fork { machine, cause: Cause { by, at: None, link: None } }),
            None => self.emit(Effect::Here { machine }),
        }
        self.threads[at as usize].kernel = Kernel::Ready;
        self.look(catalogue, at);
    }

    /// If the name of the thread has changed, another machine continues its path.
    fn continue_path(&mut self, catalogue: &Catalogue, at: u32) {
        if self.threads[at as usize].forked_by_recorder {
            self.is_own_program(at);
        }
        if !self.has_other_name(at) {
            return;
        }
        let Some(by) = self.threads[at as usize].machine.take() else { return };
        let thread = &mut self.threads[at as usize];
        if thread.blocked {
            thread.machine = Some(by);
            return;
        }
        thread.state = None;
        self.gone(by);
        let machine = self.named(catalogue, at);
        if machine == by {
            return;
        }
        self.emit(Effect::Fork { machine, cause: Cause { by, at: None, link: None } });
        self.emit(Effect::Stop { machine: by });
        self.look(catalogue, at);
    }

    /// What the thread did since `begin_ns` is unknown.
    pub(super) fn lost(&mut self, catalogue: &Catalogue, at: u32, begin_ns: i64) {
        let thread = &mut self.threads[at as usize];
        if thread.machine.is_none() {
            return;
        }
        thread.kernel = Kernel::Unsure;
        if thread.blocked {
            thread.gap = true;
            return;
        }
        self.emit_unknown(catalogue, at, begin_ns);
        self.look(catalogue, at);
    }

    /// What the thread did since `begin_ns` is unknown, except that it was not blocked after it was
    /// last woken.
    pub(super) fn emit_unknown(&mut self, catalogue: &Catalogue, at: u32, begin_ns: i64) {
        let thread = &self.threads[at as usize];
        let begin = u64::try_from(begin_ns).unwrap_or(0).max(thread.since).max(thread.resumed);
        let machine = self.machine(catalogue, at);
        if begin < self.now {
            let (why, link) = (self.words.lost, Some(self.words.links.unknown));
            self.emit(Effect::Block { machine, why, on: None, wants: None });
            self.emit(Effect::Wake { machine, cause: Some(Cause { by: machine, at: Some(begin), link }) });
            self.threads[at as usize].state = Some(self.words.runnable);
        }
    }

    /// Emits the thread's state if it differs from the last one emitted.
    pub(super) fn look(&mut self, catalogue: &Catalogue, at: u32) {
        let thread = &self.threads[at as usize];
        if thread.blocked {
            return;
        }
        let state = match thread.kernel {
            Kernel::Ready => self.words.runnable,
            Kernel::Preempted => self.words.preempted,
            Kernel::Throttled => self.words.throttled,
            Kernel::Unsure => self.words.unknown,
            Kernel::Runs | Kernel::Asleep if thread.silent => self.words.unknown,
            Kernel::Blocked => return,
            Kernel::Silent | Kernel::Runs | Kernel::Asleep => {
                if let (Kernel::Runs, false, Some(id)) = (thread.kernel, thread.recorder, thread.linux) {
                    if !self.linux.threads[id.0 as usize].kernel {
                        self.ran(at);
                    }
                }
                self.works_in(at)
            }
        };
        if self.threads[at as usize].state == Some(state) {
            return;
        }
        let machine = self.machine(catalogue, at);
        if state == self.words.kernel {
            self.system.vocabulary.mark_kernel_thread(machine);
        }
        self.emit(Effect::State { machine, state });
        self.threads[at as usize].state = Some(state);
    }

    /// The state of a thread that runs or sleeps.
    pub(super) fn works_in(&mut self, at: u32) -> NameId {
        let thread = &self.threads[at as usize];
        if let Some(wait) = &thread.wait {
            return wait.why;
        }
        if let Some(&name) = thread.frames.last().or(thread.declared.as_ref()) {
            return name;
        }
        if thread.kernel == Kernel::Asleep {
            return self.words.asleep;
        }
        let Some(id) = thread.linux.filter(|_| thread.kernel != Kernel::Silent) else { return self.words.run };
        let of_kernel = &self.linux.threads[id.0 as usize];
        match (of_kernel.kernel, of_kernel.mode, of_kernel.call) {
            (true, ..) => self.words.kernel,
            (_, Mode::Syscall, Some(call)) => self.system_call(call.name),
            (_, Mode::User, _) => self.words.user,
            _ => self.words.run,
        }
    }
}
