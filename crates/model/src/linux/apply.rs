//! How each meaning of a kernel event moves the state machine.

use super::calls::masks::{self, Mask};
use super::meaning::{Key, Meaning};
use super::net::{Hop, PacketStep};
use super::watch::{Base, CpuId, Moment, RequestStep, ThreadId, ThreadState, Wake, Waker, Watch};
use super::Linux;
use crate::names::NameId;

impl Linux {
    /// Moves the state machine by one event.
    pub(super) fn apply<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, meaning: Meaning<'_>, watch: &mut W) {
        match meaning {
            Meaning::Switch { .. } => self.switched(cpu, t_ns, meaning, watch),
            Meaning::Waking { tid, name, in_interrupt, .. } => {
                let wake = self.wake_up(cpu, t_ns, in_interrupt);
                let thread = self.thread(tid, name, false);
                self.waking(thread, wake, watch);
            }
            Meaning::Woken { tid, name, cpu: target, new, in_interrupt } => {
                let wake = self.wake_up(cpu, t_ns, in_interrupt);
                self.enters_queue(wake, (tid, name, new), target, watch);
            }
            Meaning::Migrate { tid, cpu: target } => {
                let thread = self.thread(tid, &[], false);
                if let Some(target) = self.known_cpu(target) {
                    self.queue_on(thread, target, t_ns, watch);
                }
            }
            Meaning::Fork { parent, tid, process, name } => self.forked(cpu, t_ns, (parent, tid, process), name, watch),
            Meaning::Exec { tid, before, file } => self.executes(cpu, t_ns, (tid, before), file, watch),
            Meaning::Exit { tid } => self.exits(cpu, t_ns, tid, watch),
            Meaning::Signal { tid, signal } => self.signalled(cpu, t_ns, tid, signal),
            Meaning::Running { tid } => {
                self.take_leader_id(cpu, tid, t_ns, watch);
                if matches!(self.cpus[cpu.0 as usize].base, Base::Thread(known) if self.threads[known.0 as usize].tid != tid) {
                    self.counts.unseen_switches += u64::from(self.covers(t_ns));
                    self.displace(cpu, t_ns, watch);
                }
                self.runs(cpu, t_ns, tid, watch);
            }
            Meaning::Allowed(answer) => self.answered(answer, t_ns, watch),
            Meaning::AllowedAtEnd(answer) => self.answered_at_end(&answer, t_ns),
            // Processed by the caller, because it needs the catalogue.
            Meaning::SwitchedOff { .. } => {}
            Meaning::Process { .. } => self.dumped(meaning, watch),
            Meaning::File { process, fd, path, flags } => self.files.dumped(process, fd, path, flags),
            Meaning::BlockDevice { device, name } => self.block_devices.dumped(device, name),
            Meaning::Script { process, name } => self.processes.set_script(process, name),
            Meaning::Title { process, name } => self.processes.add_title(process, name),
            Meaning::Cgroup { process, path } => self.processes.set_cgroup(process, path),
            Meaning::IrqName { number, name, allowed } => {
                let context = self.context(Key::Irq(number), name);
                self.contexts[context.0 as usize].allowed = masks::cpus(allowed);
            }
            Meaning::Fault { name } => self.faulted(cpu, t_ns, name, watch),
            Meaning::TimerStart { timer, at } => {
                self.timers.start(timer, at);
                watch.moment(Moment::TimerSet { cpu, timer, by: self.wake(cpu, t_ns).waker });
            }
            Meaning::TimerCancel { timer } => self.timers.cancel(timer),
            Meaning::TimerEnter { timer, function, now } => {
                self.timers.enter(cpu, t_ns, timer, function, now);
                let kind = self.timers.kind(function);
                watch.moment(Moment::TimerGoesOff { cpu, timer, by: self.wake(cpu, t_ns).waker, kind });
            }
            Meaning::TimerLeave { timer } => {
                if let Some(expiry) = self.timers.leave(cpu, t_ns, timer) {
                    let covers = self.covers(t_ns);
                    self.counts.expiries.add(covers);
                    if covers {
                        watch.expired(&expiry);
                    }
                }
            }
            Meaning::Function { address, name } => self.timers.function(address, self.classes.rules.timer(name)),
            Meaning::Reclaim { begins } => self.reclaims(cpu, t_ns, begins, watch),
            Meaning::Retransmit => watch.moment(Moment::Retransmitted { cpu }),
            Meaning::Disk => self.notes_disk_request(cpu),
            Meaning::DiskRequest { step, device, sector } => {
                if matches!(step, RequestStep::Allocate | RequestStep::Insert | RequestStep::Issue) {
                    self.notes_disk_request(cpu);
                }
                watch.moment(Moment::DiskRequest { cpu, step, device, sector, by: self.wake(cpu, t_ns).waker });
            }
            Meaning::WorkQueued { work } => watch.moment(Moment::WorkQueued { cpu, work, by: self.wake(cpu, t_ns).waker }),
            Meaning::WorkBegins { work } => {
                if let Base::Thread(thread) = self.cpus[cpu.0 as usize].base {
                    watch.moment(Moment::WorkBegins { thread, work });
                }
            }
            Meaning::Raise { number } => self.raised(cpu, t_ns, number, watch),
            Meaning::Enter(key, name) => self.enter(cpu, t_ns, key, name, watch),
            Meaning::Leave(key) => self.exit(cpu, t_ns, key, watch),
            Meaning::SyscallEnter { name, arguments } => self.call_begins(cpu, t_ns, name, arguments, watch),
            Meaning::SyscallLeave { name, result } => self.call_ends(cpu, t_ns, name, result, watch),
        }
    }

    fn set_priority(&mut self, thread: Option<ThreadId>, priority: Option<i64>) {
        if let (Some(thread), Some(priority)) = (thread, priority) {
            self.threads[thread.0 as usize].priority = i32::try_from(priority).ok();
        }
    }

    /// A CPU passes from one thread to another one.
    fn switched<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, meaning: Meaning<'_>, watch: &mut W) {
        let Meaning::Switch { tid, name, state, to, to_name, priority, to_priority } = meaning else { return };
        self.take_leader_id(cpu, tid, t_ns, watch);
        let from = (tid != 0).then(|| self.thread(tid, name, false));
        self.set_priority(from, priority);
        self.leave(cpu, t_ns, from, state, watch);
        if let (Some(thread), 0) = (from, to) {
            self.report_throttled(thread, watch);
        }
        let to = (to != 0).then(|| self.thread(to, to_name, true));
        self.set_priority(to, to_priority);
        self.take(cpu, t_ns, to, watch);
    }

    /// A woken or new thread enters the queue of the CPU `target`.
    fn enters_queue<W: Watch + ?Sized>(&mut self, wake: Wake, (tid, name, new): (i32, &[u8], bool), target: Option<u32>, watch: &mut W) {
        let thread = self.thread(tid, name, new);
        self.woken(thread, wake, new, watch);
        if let Some(target) = target.and_then(|number| self.known_cpu(number)) {
            self.queue_on(thread, target, wake.t_ns, watch);
            if self.threads[thread.0 as usize].state == ThreadState::Runnable {
                self.cpus[target.0 as usize].ready_ns.get_or_insert(wake.t_ns);
            }
        }
    }

    /// A thread is created.
    fn forked<W: Watch + ?Sized>(
        &mut self,
        cpu: CpuId,
        t_ns: i64,
        (parent, tid, process): (Option<i32>, i32, Option<i32>),
        name: &[u8],
        watch: &mut W,
    ) {
        if let Some(parent) = parent {
            self.runs(cpu, t_ns, parent, watch);
        }
        if let Some(old) = self.ids.threads.remove(&tid) {
            // The end of the former thread with this id was not seen.
            self.close(old, t_ns, watch);
            watch.moment(Moment::Left { thread: old, state: ThreadState::Dead });
            let old = &mut self.threads[old.0 as usize];
            (old.state, old.died_ns) = (ThreadState::Dead, old.died_ns.or(Some(t_ns)));
        }
        let parent = parent.and_then(|parent| self.thread_of(parent));
        let maker = parent.map(|maker| &self.threads[maker.0 as usize]);
        let (allowed, kernel, family, leader) =
            maker.map_or((None, false, None, None), |maker| (maker.mask.now(), maker.kernel, maker.process, maker.leader));
        let pid_namespace = parent.map(|maker| self.pid_namespace_of_child(maker)).unwrap_or_default();
        let of_process = |process| self.threads[self.thread_of(process)?.0 as usize].leader;
        let leader = leader.or_else(|| process.and_then(of_process));
        if let Some((from, to)) = family.zip(process) {
            self.files.forked(from, to);
            self.processes.set_parent(to, from);
            self.inherits_group(from, to);
        }
        let id = self.thread(tid, name, true);
        let thread = &mut self.threads[id.0 as usize];
        (thread.process, thread.born_ns, thread.since_ns) = (process, Some(t_ns), t_ns);
        thread.leader = if process == Some(tid) { Some(id) } else { leader };
        (thread.mask, thread.kernel, thread.pid_namespace) = (Mask::born(allowed), kernel, pid_namespace);
        watch.moment(Moment::Forked { thread: id, parent });
    }

    /// A thread executes another program.
    fn executes<W: Watch + ?Sized>(
        &mut self,
        cpu: CpuId,
        t_ns: i64,
        (tid, before): (Option<i32>, Option<i32>),
        file: &[u8],
        watch: &mut W,
    ) {
        if let Some((tid, before)) = tid.zip(before).filter(|(tid, before)| tid != before) {
            self.take_id(before, tid, t_ns, watch);
        }
        if let Some(tid) = tid {
            self.runs(cpu, t_ns, tid, watch);
        }
        if let Base::Thread(id) = self.cpus[cpu.0 as usize].base {
            let name = file.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            // The kernel stores 15 bytes of a thread's name.
            let thread = &mut self.threads[id.0 as usize];
            (thread.name, thread.kernel, thread.executed) = (name[..name.len().min(15)].to_vec(), false, true);
            if let Some(process) = thread.process {
                self.files.exec(process);
            }
            watch.moment(Moment::Mode { thread: id });
        }
    }

    /// A thread begins to exit.
    fn exits<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, tid: i32, watch: &mut W) {
        self.runs(cpu, t_ns, tid, watch);
        let thread = self.thread(tid, &[], false);
        self.thread_ends(thread, watch);
        self.threads[thread.0 as usize].exiting = true;
        self.files.process_ended(tid);
        self.end_mask_call(thread, false, t_ns, watch);
        let (by, covered) = (Waker::Thread(thread), self.covers(t_ns));
        watch.hopped(&Hop { t_ns, cpu, by, call: None, covered, step: PacketStep::Exit { thread } });
    }

    /// A page fault occurred.
    fn faulted<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, name: NameId, watch: &mut W) {
        let covers = self.covers(t_ns);
        self.counts.faults.add(covers);
        if let (Base::Thread(thread), true) = (self.cpus[cpu.0 as usize].base, self.names.text(name) == "user") {
            watch.moment(Moment::Faulted { thread });
        }
        if covers {
            let thread = match self.cpus[cpu.0 as usize].base {
                Base::Thread(thread) => Some(thread),
                Base::Unknown | Base::Idle => None,
            };
            watch.faulted(thread, name, t_ns);
        }
    }

    /// A thread begins to free memory, or has finished doing so.
    fn reclaims<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, begins: bool, watch: &mut W) {
        if let Base::Thread(id) = self.cpus[cpu.0 as usize].base {
            let since = &mut self.threads[id.0 as usize].reclaims_since;
            if begins {
                since.get_or_insert(t_ns);
            } else if let Some((begin, end)) = since.take().and_then(|since| self.clip(since, t_ns)) {
                watch.reclaimed(id, begin, end);
            }
        }
    }

    /// A softirq was raised.
    fn raised<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, number: i64, watch: &mut W) {
        if let Ok(number) = u8::try_from(number) {
            watch.moment(Moment::Raised { cpu, number, by: self.wake(cpu, t_ns).waker });
        }
        if let Some(raised) = usize::try_from(number).ok().and_then(|number| self.cpus[cpu.0 as usize].raised.get_mut(number)) {
            raised.get_or_insert(t_ns);
        }
    }

    /// Notes that the CPU's thread sent a request to a block device.
    fn notes_disk_request(&mut self, cpu: CpuId) {
        let place = &self.cpus[cpu.0 as usize];
        if let (true, Base::Thread(thread)) = (place.open.is_empty(), place.base) {
            self.threads[thread.0 as usize].requested_disk = true;
        }
    }
}
