//! Threads as machines: the interactions that follow from the kernel's events about threads.

use super::ending::Relation;
use super::thread_table::{KernelState, RcuThread, ThreadMachine};
use super::Composer;
use crate::interaction::{Cause, Effect};
use crate::kinds::{LinkKind, NameKind};
use crate::linux::watch::{BlockCause, BlockReason, ContextId, Mode, Moment, TaskState, ThreadId, ThreadState, Wake, Waker};
use crate::linux::Arguments;
use crate::names::NameId;
use crate::system_calls::{sleeps_without_files, takes_a_timeout, CallFamily};
use longpole_trace::event::Catalogue;

impl Composer {
    /// The thread that has this id in the kernel's model.
    #[inline]
    pub(super) fn thread_of_linux(&mut self, id: ThreadId) -> u32 {
        match self.threads.of_linux(id) {
            Some(at) => at,
            None => self.meet(id),
        }
    }

    #[cold]
    fn meet(&mut self, id: ThreadId) -> u32 {
        let tid = self.linux.threads[id.0 as usize].tid;
        // Events of its probes may have come before its first kernel event.
        let at = self.threads.take_probed(tid).unwrap_or_else(|| self.threads.push(ThreadMachine::default()));
        self.threads.set_linux(id, at);
        at
    }

    pub(super) fn moment(&mut self, catalogue: &Catalogue, moment: Moment) {
        match moment {
            Moment::Mode { thread } => {
                let at = self.thread_of_linux(thread);
                if self.threads[at].machine.is_none() {
                    self.runs(catalogue, at, None);
                }
                self.continue_path(catalogue, at);
                self.emit_state(catalogue, at);
                self.note_call(at);
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
                self.threads[at].kernel = KernelState::Unsure;
                self.emit_state(catalogue, at);
            }
            Moment::Lost { thread, begin_ns } => {
                let at = self.thread_of_linux(thread);
                self.lost(catalogue, at, begin_ns);
                self.forget_timers();
            }
            Moment::Forked { thread, parent } => self.forked(catalogue, thread, parent),
            Moment::Killed { thread, by, t_ns } => self.killed(catalogue, thread, by, t_ns),
            Moment::Raised { cpu, number, by } => self.raised(catalogue, cpu, number, by),
            Moment::DiskRequest { cpu, step, device, sector, by } => self.disk_request(catalogue, cpu, step, (device, sector), by),
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
                self.threads[at].kernel = KernelState::Throttled;
                self.emit_state(catalogue, at);
            }
        }
    }

    fn runs(&mut self, catalogue: &Catalogue, at: u32, wake: Option<Wake>) {
        let thread = &mut self.threads[at];
        thread.kernel = KernelState::Runs;
        if let (true, None) = (thread.blocked, &thread.wait) {
            match wake {
                Some(wake) => self.wake(catalogue, at, wake),
                None => {
                    let group = if thread.lost_while_blocked { "lost" } else { "sched" };
                    let cause = self.unknown(group);
                    self.unblock(catalogue, at, cause);
                }
            }
        }
        self.emit_state(catalogue, at);
    }

    fn left(&mut self, catalogue: &Catalogue, at: u32, id: ThreadId, state: ThreadState) {
        match state {
            ThreadState::Dead => return self.dies(catalogue, at),
            ThreadState::Blocked(reason) => {
                self.threads[at].kernel = KernelState::Blocked;
                self.note_block(catalogue, at);
                if self.threads[at].wait.is_some() {
                    self.blocks_in_wait(catalogue, at);
                } else if self.sleeps(at) {
                    // No other machine ends this wait: the sleep is something that the thread does,
                    // within its span if it has one.
                    self.threads[at].kernel = KernelState::Asleep;
                } else {
                    let why = BlockReason { state: reason, cause: self.linux.block_cause(id) };
                    self.block(catalogue, at, why);
                }
            }
            ThreadState::Preempted => self.threads[at].kernel = KernelState::Preempted,
            ThreadState::Runnable => self.threads[at].kernel = KernelState::Ready,
            ThreadState::Running | ThreadState::Unknown => self.threads[at].kernel = KernelState::Unsure,
        }
        self.emit_state(catalogue, at);
    }

    /// Emits that the thread blocks for this reason.
    fn block(&mut self, catalogue: &Catalogue, at: u32, why: BlockReason) {
        let machine = self.machine(catalogue, at);
        let interruptible = why.state == TaskState::Interruptible && !matches!(why.cause, BlockCause::Disk(_));
        let why = self.reason(why);
        self.threads[at].begin_block(self.now);
        self.threads[at].interruptible = interruptible;
        self.emit(Effect::Block { machine, why, on: None, wants: None });
    }

    fn reason(&mut self, why: BlockReason) -> NameId {
        self.names.block(why, &self.linux, &mut self.system.vocabulary)
    }

    fn woken(&mut self, catalogue: &Catalogue, at: u32, wake: Wake) {
        let thread = &mut self.threads[at];
        thread.kernel = KernelState::Ready;
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
        if self.threads[at].blocked {
            self.wake(catalogue, at, wake);
        }
        self.emit_state(catalogue, at);
    }

    /// Ends the block with this wake-up as its cause.
    pub(super) fn wake(&mut self, catalogue: &Catalogue, at: u32, wake: Wake) {
        let cause = self.cause_of_wakeup(catalogue, at, wake);
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
        let thread = &mut self.threads[at];
        (thread.blocked, thread.state, thread.block_ended) = (false, Some(state), now);
        thread.woken_by = cause.map(|cause| (cause.by, cause.at.unwrap_or(now)));
    }

    fn cause_of_wakeup(&mut self, catalogue: &Catalogue, at: u32, wake: Wake) -> Option<Cause> {
        // Only time, or a signal, ends a sleep.
        if self.sleeps(at) {
            return self.own_timer(catalogue, at);
        }
        match wake.waker {
            Waker::Thread(id) if self.is_kernel_thread(at) && self.linux.runs_a_program(id) => self.untraced_interrupt(catalogue, at),
            Waker::Thread(id) if !self.waits_for_all_cpus(at) && self.lets_grace_periods_pass(id) => self.grace_period(catalogue, at),
            Waker::Thread(id) => self.waker_thread(catalogue, at, id, wake),
            Waker::Context { id, .. } if !self.is_kernel_thread(at) && self.is_rcu(id) => self.grace_period(catalogue, at),
            Waker::Context { id, .. } => self.waker_context(catalogue, at, id, wake),
            Waker::UntracedInterrupt => match self.linux.missing_context_group() {
                None if self.can_time_out(at) => self.own_timer(catalogue, at),
                None => self.unknown("irq"),
                Some(group) => self.unseen_waker(at, group),
            },
            Waker::Unknown => self.unknown("sched"),
        }
    }

    /// The cause of a wake-up of a kernel thread by a thread that runs code of a program: an
    /// interrupt without events, on top of the program, which itself wakes no kernel thread. An
    /// example is the report of a CPU that it has no RCU references, to a thread that waits for
    /// such reports of all CPUs. The cause is then the time of the wait itself.
    fn untraced_interrupt(&mut self, catalogue: &Catalogue, at: u32) -> Option<Cause> {
        match self.linux.missing_context_group() {
            Some(group) => self.unseen_waker(at, group),
            None => Some(self.since_block(catalogue, at, self.words.links[LinkKind::Interrupt])),
        }
    }

    /// The cause of a wake-up by another thread.
    fn waker_thread(&mut self, catalogue: &Catalogue, at: u32, id: ThreadId, wake: Wake) -> Option<Cause> {
        // The thread that an untraced interrupt interrupted has nothing to do with this wake-up.
        if let Some(group) = self.linux.missing_context_group_for(id) {
            return self.unseen_waker(at, group);
        }
        let other = self.thread_of_linux(id);
        if self.waits_for_all_cpus(at) {
            // A thread that ends grace periods waits until each CPU has reported. While the thread
            // that asked for the grace period is still blocked, a wake-up by another thread is such
            // a report, and no new request.
            let asked = self.threads[at].asked_by.filter(|&(asked, _)| asked != other);
            let waits = |of: &ThreadMachine, t| of.blocked && of.block_ended <= t;
            if asked.is_some_and(|(asked, t)| waits(&self.threads[asked], t)) {
                return Some(self.since_block(catalogue, at, self.words.links[LinkKind::Interrupt]));
            }
            self.threads[at].asked_by = Some((other, self.now));
        }
        let by = self.machine(catalogue, other);
        Some(Cause { by, at: self.earlier(wake.t_ns), link: None })
    }

    /// The cause of a wake-up in an interrupt or softirq, or by work that a kernel thread does for
    /// others.
    fn waker_context(&mut self, catalogue: &Catalogue, at: u32, id: ContextId, wake: Wake) -> Option<Cause> {
        let its_own = self.timer_of(wake.cpu, id).is_some_and(|by| Some(by) == self.threads[at].machine);
        // A wake-up within the interrupt of a timer is one by a timer of the woken thread; timers
        // of others raise softirqs there.
        if its_own || self.is_hard_timer(id) && self.can_time_out(at) || self.is_timed(wake.cpu, id) {
            return self.own_timer(catalogue, at);
        }
        let waits_for_input = self.threads[at].interruptible && !self.is_kernel_thread(at);
        if let Some(link) = self.outside_link(wake.cpu, id).filter(|_| waits_for_input) {
            return self.device_wait(catalogue, at, link);
        }
        let by = self.context_that_acts(wake.cpu, id);
        Some(Cause { by, at: self.earlier(wake.t_ns), link: None })
    }

    /// Returns the time if it is before that of the current event.
    fn earlier(&self, t_ns: i64) -> Option<u64> {
        Some(u64::try_from(t_ns).unwrap_or(0)).filter(|t| *t < self.now)
    }

    /// The cause is the time since the thread blocked, which this link has.
    fn since_block(&mut self, catalogue: &Catalogue, at: u32, link: NameId) -> Cause {
        let (by, since) = (self.machine(catalogue, at), self.threads[at].blocked_since);
        Cause { by, at: Some(since), link: Some(link) }
    }

    /// The cause of a wake-up whose waker is in no event of this trace: unknown.
    ///
    /// A kernel thread does one thing after another for many others, so what it did before is not
    /// the cause of what follows. For such a thread the cause is therefore the machine that
    /// represents all machines whose events are missing.
    fn unseen_waker(&mut self, at: u32, group: &'static str) -> Option<Cause> {
        let cause = self.unknown(group);
        if !self.is_kernel_thread(at) {
            return cause;
        }
        let by = self.lost_events_machine();
        Some(Cause { by, at: None, link: None })
    }

    /// The cause is a timer that the thread itself set before it blocked.
    fn own_timer(&mut self, catalogue: &Catalogue, at: u32) -> Option<Cause> {
        if self.threads[at].lost_while_blocked {
            return self.unknown("lost");
        }
        self.in_call(catalogue, at, LinkKind::Timer, self.words.links[LinkKind::Timer])
    }

    /// The cause of a wake-up by a device, for what comes from outside of the trace: the time of
    /// the wait itself. What the device did before this thread began to wait has nothing to do with
    /// it; a reply to this thread's own request, for example, began with that request.
    fn device_wait(&mut self, catalogue: &Catalogue, at: u32, link: NameId) -> Option<Cause> {
        if self.threads[at].lost_while_blocked {
            return self.unknown("lost");
        }
        Some(self.since_block(catalogue, at, link))
    }

    /// The cause of a wake-up by the kernel's RCU: the grace period for which the thread waited. It
    /// lasts until every CPU has been through the scheduler, so no thread works on it. What the RCU
    /// thread did before this thread asked has nothing to do with this wait.
    fn grace_period(&mut self, catalogue: &Catalogue, at: u32) -> Option<Cause> {
        self.in_call(catalogue, at, LinkKind::GracePeriod, self.words.links[LinkKind::GracePeriod])
    }

    /// The cause of the end of a wait that the thread itself began. The link is named by its kind
    /// and the call in which the thread waits, or is `plain` if no call is known.
    fn in_call(&mut self, catalogue: &Catalogue, at: u32, kind: LinkKind, plain: NameId) -> Option<Cause> {
        let link = self.link_in_call(at, kind).unwrap_or(plain);
        Some(self.since_block(catalogue, at, link))
    }

    fn link_in_call(&mut self, at: u32, kind: LinkKind) -> Option<NameId> {
        let BlockCause::Call(call, _) = self.linux.block_cause(self.threads[at].linux?) else { return None };
        let known = self.timers.of_calls.iter().find(|&&(name, of, _)| (name, of) == (call, kind));
        if let Some(&(_, _, link)) = known {
            return Some(link);
        }
        let text = format!("{} {}", kind.text()?, self.linux.names.text(call));
        let link = self.system.vocabulary.names.intern_as(&text, NameKind::Link(kind));
        self.timers.of_calls.push((call, kind, link));
        Some(link)
    }

    /// The system call in which the thread blocked last.
    fn call(&self, at: u32) -> Option<&str> {
        let id = self.threads[at].linux?;
        match self.linux.block_cause(id) {
            BlockCause::Call(name, _) => Some(self.linux.names.text(name)),
            _ => None,
        }
    }

    /// True for a thread that ends the kernel's grace periods (RCU).
    fn waits_for_all_cpus(&self, at: u32) -> bool {
        self.is_kernel_thread(at) && self.threads[at].comm.rcu().is_some()
    }

    /// True for a thread of the kernel that lets grace periods pass. The threads for expedited ones
    /// work for the thread that asked, so the path goes through them.
    fn lets_grace_periods_pass(&mut self, id: ThreadId) -> bool {
        let at = self.thread_of_linux(id);
        self.is_kernel_thread(at) && self.threads[at].comm.rcu() == Some(RcuThread::GracePeriods)
    }

    fn is_kernel_thread(&self, at: u32) -> bool {
        self.threads[at].linux.is_some_and(|id| self.linux.threads[id.0 as usize].kernel)
    }

    /// True if only a timer or a signal ends the thread's wait: a sleep, also by a call that would
    /// wait for files and is given none. Without a timeout (a null pointer or a negative time), it
    /// waits for a signal.
    pub(super) fn sleeps(&self, at: u32) -> bool {
        let arguments = || self.linux.threads[self.threads[at].linux?.0 as usize].call.map(|call| call.arguments);
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
        let (thread, killer) = (&self.threads[at], self.threads[by].machine);
        let (Some(machine), Some(by), false) = (thread.machine, killer, thread.blocked || thread.wait.is_some()) else { return };
        let (why, link) = (self.words.signal, Some(self.words.links[LinkKind::Signal]));
        let when = u64::try_from(t_ns).unwrap_or(0).min(self.now);
        self.emit(Effect::Block { machine, why, on: None, wants: None });
        self.emit(Effect::Wake { machine, cause: Some(Cause { by, at: Some(when), link }) });
        self.threads[at].state = None;
        self.emit_state(catalogue, at);
    }

    fn dies(&mut self, catalogue: &Catalogue, at: u32) {
        let Some(machine) = self.threads[at].machine.or_else(|| self.is_main(at).then(|| self.machine(catalogue, at))) else {
            return;
        };
        self.note_end_of_thread(catalogue, at);
        self.emit(Effect::Stop { machine });
        self.free_name(machine);
        self.end_awaited_call(at);
        let thread = &mut self.threads[at];
        *thread = ThreadMachine { linux: thread.linux, actor: thread.actor, renames: thread.renames, ..ThreadMachine::default() };
    }

    fn forked(&mut self, catalogue: &Catalogue, id: ThreadId, parent: Option<ThreadId>) {
        let at = self.thread_of_linux(id);
        let parent = parent.map(|parent| self.thread_of_linux(parent)).filter(|&parent| parent != at);
        if self.threads[at].machine.is_some() {
            return;
        }
        if parent.is_some_and(|parent| self.relation(parent) != Relation::Stranger) {
            self.threads[at].relation = Relation::Started;
        }
        let by = parent.map(|parent| self.machine(catalogue, parent));
        self.threads[at].forked_by_recorder = self.about.recorder.is_some() && parent.is_some_and(|parent| self.threads[parent].recorder);
        let machine = self.assign_machine(catalogue, at);
        match by {
            Some(by) => self.emit(Effect::Fork { machine, cause: Cause { by, at: None, link: None } }),
            None => self.emit(Effect::Here { machine }),
        }
        self.threads[at].kernel = KernelState::Ready;
        self.emit_state(catalogue, at);
    }

    /// If the name of the thread has changed, another machine continues its path.
    fn continue_path(&mut self, catalogue: &Catalogue, at: u32) {
        if self.threads[at].forked_by_recorder {
            self.leave_recorder(at);
        }
        if !self.takes_new_name(at) {
            return;
        }
        let Some(by) = self.threads[at].machine.take() else { return };
        let thread = &mut self.threads[at];
        if thread.blocked {
            thread.machine = Some(by);
            return;
        }
        thread.state = None;
        self.free_name(by);
        let machine = self.assign_machine(catalogue, at);
        if machine == by {
            return;
        }
        self.emit(Effect::Fork { machine, cause: Cause { by, at: None, link: None } });
        self.emit(Effect::Stop { machine: by });
        self.emit_state(catalogue, at);
    }

    /// What the thread did since `begin_ns` is unknown.
    pub(super) fn lost(&mut self, catalogue: &Catalogue, at: u32, begin_ns: i64) {
        let thread = &mut self.threads[at];
        if thread.machine.is_none() {
            return;
        }
        thread.kernel = KernelState::Unsure;
        if thread.blocked {
            thread.lost_while_blocked = true;
            return;
        }
        self.emit_unknown(catalogue, at, begin_ns);
        self.emit_state(catalogue, at);
    }

    /// What the thread did since `begin_ns` is unknown, except that it was not blocked after it was
    /// last woken.
    pub(super) fn emit_unknown(&mut self, catalogue: &Catalogue, at: u32, begin_ns: i64) {
        let thread = &self.threads[at];
        let begin = u64::try_from(begin_ns).unwrap_or(0).max(thread.blocked_since).max(thread.block_ended);
        let machine = self.machine(catalogue, at);
        if begin < self.now {
            let (why, link) = (self.words.lost, Some(self.words.links[LinkKind::Unknown]));
            self.emit(Effect::Block { machine, why, on: None, wants: None });
            self.emit(Effect::Wake { machine, cause: Some(Cause { by: machine, at: Some(begin), link }) });
            self.threads[at].state = Some(self.words.runnable);
        }
    }

    /// Emits the thread's state if it differs from the last one emitted.
    pub(super) fn emit_state(&mut self, catalogue: &Catalogue, at: u32) {
        let thread = &self.threads[at];
        if thread.blocked {
            return;
        }
        let state = match thread.kernel {
            KernelState::Ready => self.words.runnable,
            KernelState::Preempted => self.words.preempted,
            KernelState::Throttled => self.words.throttled,
            KernelState::Unsure => self.words.unknown,
            KernelState::Runs | KernelState::Asleep if thread.probes.silent => self.words.unknown,
            KernelState::Blocked => return,
            KernelState::Silent | KernelState::Runs | KernelState::Asleep => {
                if let (KernelState::Runs, false, Some(id)) = (thread.kernel, thread.recorder, thread.linux) {
                    if !self.linux.threads[id.0 as usize].kernel {
                        self.note_run(at);
                    }
                }
                self.running_state(at)
            }
        };
        if self.threads[at].state == Some(state) {
            return;
        }
        let machine = self.machine(catalogue, at);
        if state == self.words.kernel {
            self.system.vocabulary.mark_kernel_thread(machine);
        }
        self.emit(Effect::State { machine, state });
        self.threads[at].state = Some(state);
    }

    /// The state of a thread that runs or sleeps.
    pub(super) fn running_state(&mut self, at: u32) -> NameId {
        let thread = &self.threads[at];
        if let Some(wait) = &thread.wait {
            return wait.why;
        }
        if let Some(&name) = thread.probes.frames.last().or(thread.probes.declared.as_ref()) {
            return name;
        }
        if thread.kernel == KernelState::Asleep {
            return self.words.asleep;
        }
        let Some(id) = thread.linux.filter(|_| thread.kernel != KernelState::Silent) else { return self.words.run };
        let of_kernel = &self.linux.threads[id.0 as usize];
        match (of_kernel.kernel, of_kernel.mode, of_kernel.call) {
            (true, ..) => self.words.kernel,
            (_, Mode::Syscall, Some(call)) => self.system_call(call.name),
            (_, Mode::User, _) => self.words.user,
            _ => self.words.run,
        }
    }
}
