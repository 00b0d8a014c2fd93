//! Which thread runs on which CPU: switches, wake-ups, queues, and what an event shows about a CPU
//! whose thread was not known.

use super::{state_of, Linux, Unclaimed};
use crate::linux::watch::{Base, BlockReason, CpuId, CpuWait, Mode, Moment, Start, ThreadId, ThreadState, Wake, Watch};

impl Linux {
    /// The current thread of the CPU leaves; `None` is the idle thread.
    pub(super) fn leave<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, from: Option<ThreadId>, state: i64, watch: &mut W) {
        self.outside_contexts(cpu, t_ns, watch);
        if self.cpus[cpu.0 as usize].base == Base::Idle {
            self.report_cpu_until(cpu, t_ns, watch);
        }
        let truth = from.map_or(Base::Idle, Base::Thread);
        match self.cpus[cpu.0 as usize].base {
            known if known == truth => {}
            Base::Unknown => self.claim(cpu, t_ns, truth, watch),
            // The switch to this thread was not seen.
            Base::Idle => self.idle_ended(cpu, t_ns, truth, watch),
            Base::Thread(before) => {
                // It is unknown when the one thread followed the other, and thus which of them used
                // the time since the switch to the former.
                self.counts.contradictions += u64::from(self.covers(t_ns));
                let began_ns = self.threads[before.0 as usize].began_ns;
                self.unseat(cpu, t_ns, watch);
                self.report_cpu_until(cpu, t_ns, watch);
                self.cpus[cpu.0 as usize].unclaimed = Unclaimed::since(began_ns.unwrap_or(t_ns));
                self.claim(cpu, t_ns, truth, watch);
            }
        }
        self.report_cpu_until(cpu, t_ns, watch);
        let Some(id) = from else { return };
        let thread = &mut self.threads[id.0 as usize];
        let begin = thread.began_ns.take();
        let own_ns = std::mem::take(&mut thread.own_ns);
        thread.state = state_of(state, thread.exiting);
        (thread.since_ns, thread.queued_ns, thread.cpu, thread.wake) = (t_ns, t_ns, Some(cpu), None);
        if thread.state == ThreadState::Dead {
            thread.died_ns = Some(t_ns);
        }
        if let ThreadState::Blocked(state) = thread.state {
            self.threads[id.0 as usize].block_cause = self.determine_block_cause(id, state);
        }
        self.threads[id.0 as usize].requested_disk = false;
        watch.moment(Moment::Left { thread: id, state: self.threads[id.0 as usize].state });
        if let Some(begin_ns) = begin.filter(|_| self.covers(t_ns)) {
            watch.stopped(id, cpu, begin_ns, t_ns, own_ns);
        }
    }

    /// Reports a thread as throttled if it has left its CPU idle although it was ready: it was not
    /// allowed to run because the CPU quota of its control group is used up.
    pub(super) fn report_throttled<W: Watch + ?Sized>(&mut self, id: ThreadId, watch: &mut W) {
        let thread = &self.threads[id.0 as usize];
        if thread.state == ThreadState::Preempted && !thread.kernel {
            watch.moment(Moment::Throttled { thread: id });
        }
    }

    /// The CPU takes a thread; `None` is the idle thread.
    pub(super) fn take<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, to: Option<ThreadId>, watch: &mut W) {
        let Some(id) = to else {
            let place = &mut self.cpus[cpu.0 as usize];
            (place.base, place.ready_ns) = (Base::Idle, None);
            return;
        };
        self.off_other_cpus(id, cpu, t_ns, watch);
        let thread = &mut self.threads[id.0 as usize];
        // No switch has named the thread, so it was not running: the wake-up made it ready.
        if let (ThreadState::Unknown | ThreadState::Blocked(_), Some(early)) = (thread.state, thread.early_wake) {
            let ready_ns = match thread.state {
                ThreadState::Unknown => early.t_ns,
                _ => thread.since_ns.max(early.t_ns),
            };
            (thread.wake, thread.queued_ns, thread.cpu) = (Some(early), ready_ns, thread.cpu.or(Some(cpu)));
            (thread.state, thread.since_ns) = (ThreadState::Runnable, ready_ns);
        }
        self.queue_on(id, cpu, t_ns, watch);
        let thread = &self.threads[id.0 as usize];
        let (state, ready_ns, wake) = (thread.state, thread.since_ns, thread.wake);
        self.close(id, t_ns, watch);
        if matches!(state, ThreadState::Runnable | ThreadState::Preempted) && self.covers(t_ns) {
            watch.started(&Start { t_ns, thread: id, cpu, ready_ns, preempted: state == ThreadState::Preempted, wake });
        }
        let thread = &mut self.threads[id.0 as usize];
        (thread.state, thread.since_ns, thread.cpu) = (ThreadState::Running, t_ns, Some(cpu));
        (thread.began_ns, thread.own_ns, thread.early_wake, thread.wake) = (Some(t_ns), 0, None, None);
        self.cpus[cpu.0 as usize].base = Base::Thread(id);
        watch.moment(Moment::Runs { thread: id, wake });
    }

    /// Assigns the CPU's time since its base became unknown to `base`.
    pub(super) fn claim<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, base: Base, watch: &mut W) {
        self.report_cpu_until(cpu, t_ns, watch);
        let place = &mut self.cpus[cpu.0 as usize];
        let unclaimed = std::mem::replace(&mut place.unclaimed, Unclaimed::since(t_ns));
        place.base = base;
        let inferred_busy = std::mem::take(&mut place.inferred_busy);
        place.ready_ns = None;
        if inferred_busy && base != Base::Idle {
            self.counts.unseen_idle_ends += u64::from(self.covers(t_ns));
        }
        let mut whole = true;
        if let Base::Thread(id) = base {
            self.off_other_cpus(id, cpu, t_ns, watch);
            // If the thread is known to have been elsewhere in the meantime, the remaining time
            // stays unknown.
            let thread = &self.threads[id.0 as usize];
            whole = thread.state == ThreadState::Unknown || thread.since_ns <= unclaimed.since_ns;
            if whole {
                self.close(id, unclaimed.since_ns, watch);
            }
            let thread = &mut self.threads[id.0 as usize];
            watch.moment(Moment::Runs { thread: id, wake: thread.early_wake.or(thread.wake) });
            (thread.state, thread.since_ns, thread.cpu) = (ThreadState::Running, t_ns, Some(cpu));
            (thread.began_ns, thread.early_wake, thread.wake) = (None, None, None);
            if let Some((mode, call)) = unclaimed.mode {
                (thread.mode, thread.call) = (mode, call);
            }
        }
        if whole && (unclaimed.ns > 0 || unclaimed.interrupts_ns > 0) {
            watch.claimed(cpu, base, unclaimed.ns, unclaimed.interrupts_ns);
        }
    }

    /// Processes an event which shows that idleness has ended without a recorded switch.
    pub(super) fn idle_ended<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, truth: Base, watch: &mut W) {
        self.report_cpu_until(cpu, t_ns, watch);
        if self.cpus[cpu.0 as usize].base == Base::Unknown {
            // The idleness has ended earlier, when a thread entered the queue.
            if truth != Base::Unknown {
                self.claim(cpu, t_ns, truth, watch);
            }
            return;
        }
        self.counts.unseen_idle_ends += u64::from(self.covers(t_ns));
        let place = &mut self.cpus[cpu.0 as usize];
        (place.base, place.unclaimed, place.inferred_busy) = (Base::Unknown, Unclaimed::since(t_ns), false);
        if truth != Base::Unknown {
            self.claim(cpu, t_ns, truth, watch);
        }
    }

    /// Notes that the thread which was believed to run on the CPU does not run there any more. When
    /// it left is unknown.
    pub(super) fn unseat<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, watch: &mut W) {
        let place = &mut self.cpus[cpu.0 as usize];
        let since = place.since_ns;
        if let Base::Thread(id) = place.base {
            let thread = &mut self.threads[id.0 as usize];
            (thread.state, thread.since_ns, thread.began_ns) = (ThreadState::Unknown, since, None);
            (thread.call, thread.mode) = (None, Mode::Unknown);
            watch.moment(Moment::Unsure { thread: id });
        }
        (place.base, place.unclaimed, place.inferred_busy) = (Base::Unknown, Unclaimed::since(since.min(t_ns)), false);
    }

    /// Replaces the thread that was believed to run, because another thread caused an event. It is
    /// unknown which of the two had the CPU since the previous event.
    pub(super) fn displace<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, watch: &mut W) {
        let seen_ns = self.cpus[cpu.0 as usize].seen_ns.min(t_ns);
        self.report_cpu_until(cpu, seen_ns, watch);
        self.unseat(cpu, t_ns, watch);
        self.report_cpu_until(cpu, t_ns, watch);
        // The other thread gets no part of the time that was reported just now.
        self.cpus[cpu.0 as usize].unclaimed = Unclaimed::since(seen_ns);
    }

    /// Removes the thread from the CPU where it was believed to run: a thread runs on one CPU only.
    pub(super) fn off_other_cpus<W: Watch + ?Sized>(&mut self, id: ThreadId, cpu: CpuId, t_ns: i64, watch: &mut W) {
        let thread = &self.threads[id.0 as usize];
        let (ThreadState::Running, Some(other)) = (thread.state, thread.cpu) else { return };
        if other != cpu && self.cpus[other.0 as usize].base == Base::Thread(id) {
            // The time at which it left is unknown, but not before the end of the last reported
            // interval.
            self.counts.contradictions += u64::from(self.covers(t_ns));
            self.unseat(other, t_ns, watch);
        }
    }

    /// Processes an event on this CPU that only the thread `tid` can have caused.
    pub(super) fn runs<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, tid: i32, watch: &mut W) {
        self.take_leader_id(cpu, tid, t_ns, watch);
        let truth = if tid == 0 { Base::Idle } else { Base::Thread(self.thread(tid, &[], false)) };
        match self.cpus[cpu.0 as usize].base {
            known if known == truth => {}
            Base::Unknown => self.claim(cpu, t_ns, truth, watch),
            Base::Idle => self.idle_ended(cpu, t_ns, truth, watch),
            Base::Thread(before) => {
                self.counts.contradictions += u64::from(self.covers(t_ns));
                // What was taken for a system call of the one thread was a call of the other,
                // unless that one is in a call itself.
                let before = &self.threads[before.0 as usize];
                let mode = (before.mode, before.call);
                self.displace(cpu, t_ns, watch);
                self.claim(cpu, t_ns, truth, watch);
                if let Base::Thread(id) = truth {
                    let thread = &mut self.threads[id.0 as usize];
                    if thread.call.is_none() {
                        (thread.mode, thread.call) = mode;
                    }
                }
            }
        }
    }

    /// Gives the thread `before` the id `tid` of the leader of its process. The kernel does that
    /// when a thread executes another program.
    pub(super) fn take_id<W: Watch + ?Sized>(&mut self, before: i32, tid: i32, t_ns: i64, watch: &mut W) {
        let Some(id) = self.ids.threads.remove(&before) else { return };
        if let Some(leader) = self.ids.threads.insert(tid, id) {
            self.close(leader, t_ns, watch);
            watch.moment(Moment::Left { thread: leader, state: ThreadState::Dead });
            let leader = &mut self.threads[leader.0 as usize];
            (leader.state, leader.died_ns) = (ThreadState::Dead, leader.died_ns.or(Some(t_ns)));
        }
        self.threads[id.0 as usize].tid = tid;
    }

    /// If an event names the ended leader of a process while another thread of this process has the
    /// CPU, that thread has taken the leader's id.
    pub(super) fn take_leader_id<W: Watch + ?Sized>(&mut self, cpu: CpuId, tid: i32, t_ns: i64, watch: &mut W) {
        let Base::Thread(id) = self.cpus[cpu.0 as usize].base else { return };
        let thread = &self.threads[id.0 as usize];
        if thread.tid == tid || thread.process != Some(tid) {
            return;
        }
        let ended = |leader: ThreadId| self.threads[leader.0 as usize].state == ThreadState::Dead;
        if self.thread_of(tid).is_some_and(ended) {
            let before = thread.tid;
            self.take_id(before, tid, t_ns, watch);
        }
    }

    pub(super) fn waking<W: Watch + ?Sized>(&mut self, id: ThreadId, wake: Wake, watch: &mut W) {
        let thread = &mut self.threads[id.0 as usize];
        match thread.state {
            ThreadState::Blocked(_) => self.becomes_runnable(id, wake, wake.t_ns, watch),
            ThreadState::Running => thread.early_wake = Some(wake),
            ThreadState::Unknown => {
                thread.early_wake.get_or_insert(wake);
            }
            // The thread was woken before.
            ThreadState::Runnable | ThreadState::Preempted | ThreadState::Dead => {}
        }
    }

    pub(super) fn woken<W: Watch + ?Sized>(&mut self, id: ThreadId, wake: Wake, new: bool, watch: &mut W) {
        let thread = &mut self.threads[id.0 as usize];
        match thread.state {
            ThreadState::Unknown if new => self.becomes_runnable(id, wake, wake.t_ns, watch),
            ThreadState::Blocked(_) => {
                // The thread was woken while it was leaving its CPU, or the trace has no
                // `sched_waking`.
                let early = thread.early_wake.unwrap_or(wake);
                self.becomes_runnable(id, early, wake.t_ns, watch);
            }
            ThreadState::Running => thread.early_wake = None,
            ThreadState::Unknown => {
                thread.early_wake.get_or_insert(wake);
            }
            ThreadState::Runnable | ThreadState::Preempted | ThreadState::Dead => {}
        }
    }

    pub(super) fn becomes_runnable<W: Watch + ?Sized>(&mut self, id: ThreadId, wake: Wake, t_ns: i64, watch: &mut W) {
        self.close(id, t_ns, watch);
        let covers = self.covers(t_ns);
        let thread = &mut self.threads[id.0 as usize];
        (thread.state, thread.since_ns, thread.queued_ns) = (ThreadState::Runnable, t_ns, t_ns);
        (thread.wake, thread.early_wake) = (Some(wake), None);
        thread.cpu = thread.cpu.or(Some(wake.cpu));
        watch.moment(Moment::Woken { thread: id, wake });
        if covers {
            watch.woken(id, &wake);
        }
    }

    /// Notes the CPU in whose queue a thread waits, or will wait when it is woken.
    pub(super) fn queue_on<W: Watch + ?Sized>(&mut self, id: ThreadId, cpu: CpuId, t_ns: i64, watch: &mut W) {
        let thread = &mut self.threads[id.0 as usize];
        if thread.state == ThreadState::Running || thread.cpu == Some(cpu) {
            return;
        }
        let before = thread.cpu.replace(cpu);
        let queued = thread.queued_ns;
        if matches!(thread.state, ThreadState::Runnable | ThreadState::Preempted) {
            thread.queued_ns = t_ns;
            let preempted = thread.state == ThreadState::Preempted;
            self.waited(id, before, preempted, (queued, t_ns), watch);
        }
    }

    pub(super) fn waited<W: Watch + ?Sized>(
        &self,
        thread: ThreadId,
        cpu: Option<CpuId>,
        preempted: bool,
        (from, to): (i64, i64),
        watch: &mut W,
    ) {
        let Some((cpu, (begin_ns, end_ns))) = cpu.zip(self.clip(from, to)) else { return };
        let place = &self.cpus[cpu.0 as usize];
        let tid = self.threads[thread.0 as usize].tid;
        watch.waited(&CpuWait { thread, tid, cpu, preempted, begin_ns, end_ns, now: place.occupant(), now_since_ns: place.since_ns });
    }

    /// Ends the interval of a thread's state. Intervals of running are reported by CPU instead.
    pub(crate) fn close<W: Watch + ?Sized>(&mut self, id: ThreadId, t_ns: i64, watch: &mut W) {
        let thread = &mut self.threads[id.0 as usize];
        let (state, since) = (thread.state, thread.since_ns);
        thread.since_ns = thread.since_ns.max(t_ns);
        if !matches!(state, ThreadState::Running | ThreadState::Dead | ThreadState::Unknown) {
            if let Some((begin, end)) = self.clip(since, t_ns) {
                watch.was(id, state, begin, end);
                if let ThreadState::Blocked(state) = state {
                    let cause = self.threads[id.0 as usize].block_cause;
                    watch.blocked(id, BlockReason { state, cause }, begin, end);
                }
            }
            if matches!(state, ThreadState::Runnable | ThreadState::Preempted) {
                let thread = &self.threads[id.0 as usize];
                let (cpu, queued) = (thread.cpu, thread.queued_ns);
                self.waited(id, cpu, state == ThreadState::Preempted, (queued, t_ns), watch);
            }
        }
    }
}
