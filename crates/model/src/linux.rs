//! The state machine of a Linux system: what each CPU and each thread does at each moment, by the kernel's own events.
//!
//! It goes through the events once and tells a [`Watch`] every piece of time when it is over. Memory grows with the number of threads and CPUs,
//! never with the number of events. Nothing is assumed: what a CPU did before its first switch is told when that switch names the
//! thread, what a thread did before it was seen stays unknown, and so does what lies in a loss.
//!
//! Facts that it keeps to:
//! - A wake-up begins with `sched_waking`, whose context is the waker: the innermost open interrupt on that CPU, else its thread. It may come before the
//!   woken thread has left its CPU, and for threads that are not blocked.
//! - Some machines do not trace the idle thread, or some other: idleness ends at the latest with an event of another thread, and where the next switch
//!   is from a thread that stood in the idle CPU's queue, that thread has run since it stood there.
//! - A thread that is ready and does not run is not running.

mod files;
mod reasons;
mod threads;

pub use files::{Arguments, FileKind};

use crate::hash::IdMap;
use crate::linux_loss::{Piece, Silences};
use crate::linux_net::{Hop, HopPlan, HopRules};
use crate::linux_rules::{Fact, KernelPlan, Key, LinuxRules};
use crate::linux_watch::{
    softirq_name, Allowing, Base, Call, Cause, ContextId, CpuId, Handling, Mode, Occupant, Reason, ThreadId, ThreadState, Wake, Waker,
    Watch,
};
use crate::names::{NameId, Names};
use crate::rules::RuleError;
use longpole_trace::event::{Catalogue, Class, Event, Loss, StreamKind};
use std::collections::HashMap;
use std::rc::Rc;

#[derive(Debug)]
pub struct Linux {
    rules: LinuxRules,
    hop_rules: HopRules,
    plans: Vec<Option<Plan>>,
    pub names: Names,
    pub cpus: Vec<Cpu>,
    cpu_ids: Vec<Option<CpuId>>,
    pub(crate) cpu_of_stream: Vec<Option<CpuId>>,
    /// Of streams whose CPU is not known yet.
    pub(crate) early_losses: IdMap<u32, Loss>,
    pub threads: Vec<Thread>,
    thread_ids: IdMap<i32, ThreadId>,
    pub contexts: Vec<Context>,
    context_ids: HashMap<Key, ContextId>,
    files: files::Files,
    pub(crate) asked: (i64, i64),
    begin_ns: Option<i64>,
    /// The trace tells of every thread that no switch told of, before its next event.
    tells_unseen: bool,
    pub(crate) last_ns: i64,
    /// Events of the kernel within the range.
    pub events: u64,
    /// Of them, those of the scheduler: without any there is no account of CPUs.
    pub scheduling: u64,
    pub system_calls: u64,
    pub interrupts: u64,
    /// Events that tell of packets.
    pub hops: u64,
    pub faults: u64,
    pub lost: u64,
    pub uncounted_losses: u64,
    /// Events that cannot follow from what came before them, although no loss was told.
    pub contradictions: u64,
    /// Idleness whose end the trace does not hold.
    pub unseen_idle_ends: u64,
    /// Switches between threads that the trace does not hold.
    pub unseen_switches: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    kernel: Option<KernelPlan>,
    hop: Option<HopPlan>,
    /// Of no kernel's trace.
    foreign: bool,
    /// Its subject is the thread below all interrupts.
    names_thread: bool,
}

#[derive(Debug)]
pub struct Cpu {
    pub number: u32,
    pub(crate) since_ns: i64,
    pub(crate) base: Base,
    pub(crate) open: Vec<Open>,
    /// Since the base is unknown.
    pub(crate) unclaimed: Unclaimed,
    /// Nothing has been seen since the trace began, or since a loss.
    pub(crate) fresh: bool,
    pub(crate) raised: [Option<i64>; 32],
    pub(crate) silences: Silences,
    /// While it is idle: since when a thread stands in its queue. From then on it may be running already.
    pub(crate) ready_ns: Option<i64>,
    /// The base is unknown only because of that.
    pub(crate) doubt: bool,
    pub lost: u64,
}

impl Cpu {
    fn occupant(&self) -> Occupant {
        match (self.open.last(), self.base) {
            (Some(open), _) => Occupant::Context(open.id),
            (None, Base::Unknown) => Occupant::Unclaimed,
            (None, Base::Idle) => Occupant::Idle,
            (None, Base::Thread(thread)) => Occupant::Thread(thread),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unclaimed {
    pub since_ns: i64,
    ns: u64,
    interrupts_ns: u64,
    mode: Option<(Mode, Option<Entered>)>,
}

impl Unclaimed {
    pub fn since(since_ns: i64) -> Unclaimed {
        Unclaimed { since_ns, ..Unclaimed::default() }
    }
}

/// A system call that has not returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    pub name: NameId,
    /// None: before the trace began.
    pub t_ns: Option<i64>,
    pub arguments: Arguments,
}

/// A context that is open on a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    id: ContextId,
    began_ns: i64,
    own_ns: u64,
    raised_ns: Option<i64>,
    seen: bool,
}

#[derive(Clone, Debug)]
pub struct Context {
    pub key: Key,
    /// `irq 36 eth0`, `softirq NET_RX`, `local_timer`.
    pub name: String,
    /// The CPUs on which it may be handled, as the dump told.
    pub allowed: Option<Rc<[u32]>>,
}

#[derive(Debug)]
pub struct Thread {
    pub tid: i32,
    /// The id of its process, if anything told it.
    pub process: Option<i32>,
    pub name: Vec<u8>,
    /// None: it was there when the trace began.
    pub born_ns: Option<i64>,
    pub died_ns: Option<i64>,
    pub(crate) state: ThreadState,
    pub(crate) since_ns: i64,
    /// Where it runs, ran, or stands in the queue.
    pub(crate) cpu: Option<CpuId>,
    queued_ns: i64,
    pub(crate) wake: Option<Wake>,
    /// A wake-up of a thread that is not known to be blocked.
    pub(crate) early: Option<Wake>,
    pub(crate) mode: Mode,
    pub(crate) call: Option<Entered>,
    pub(crate) began_ns: Option<i64>,
    own_ns: u64,
    exiting: bool,
    /// One of the kernel's own.
    pub kernel: bool,
    /// On which CPUs it may run: at its birth or the trace's begin. None: nothing told.
    pub allowed: Option<Rc<[u32]>>,
    /// The changes of it since.
    pub allowings: Vec<Allowing>,
    /// Why it is blocked.
    cause: Cause,
    /// It has asked a block device for something since it has its CPU.
    asked_disk: bool,
}

impl Default for Thread {
    fn default() -> Thread {
        Thread {
            tid: 0,
            process: None,
            name: Vec::new(),
            born_ns: None,
            died_ns: None,
            state: ThreadState::Unknown,
            since_ns: 0,
            cpu: None,
            queued_ns: 0,
            wake: None,
            early: None,
            mode: Mode::Unknown,
            call: None,
            began_ns: None,
            own_ns: 0,
            exiting: false,
            kernel: false,
            allowed: None,
            allowings: Vec::new(),
            cause: Cause::Unknown,
            asked_disk: false,
        }
    }
}

impl Thread {
    /// On which CPUs it might run at a time.
    pub fn allowed_at(&self, t_ns: i64) -> Option<Rc<[u32]>> {
        let before = self.allowings.iter().take_while(|change| change.t_ns < t_ns).last();
        before.map_or_else(|| self.allowed.clone(), |last| last.cpus.clone())
    }

    /// On which CPUs it may run now.
    fn allowed_now(&self) -> Option<Rc<[u32]>> {
        self.allowings.last().map_or_else(|| self.allowed.clone(), |last| last.cpus.clone())
    }

    pub fn name(&self) -> String {
        match self.name.as_slice() {
            [] => format!("tid {}", self.tid),
            name => String::from_utf8_lossy(name).into_owned(),
        }
    }
}

/// More CPUs no kernel supports.
const MOST_CPUS: u32 = 1 << 16;
/// Deeper no contexts nest.
const MOST_OPEN: usize = 64;

impl Linux {
    /// Of a trace's events, accounts what lies between the two moments. All events from the trace's begin on must be given, since
    /// they tell the state at the begin of the range.
    pub fn new(begin_ns: i64, end_ns: i64) -> Result<Linux, RuleError> {
        Ok(Linux::with_rules(LinuxRules::built_in()?, HopRules::built_in()?, begin_ns, end_ns))
    }

    pub fn with_rules(rules: LinuxRules, hop_rules: HopRules, begin_ns: i64, end_ns: i64) -> Linux {
        Linux {
            rules,
            hop_rules,
            plans: Vec::new(),
            names: Names::default(),
            cpus: Vec::new(),
            cpu_ids: Vec::new(),
            cpu_of_stream: Vec::new(),
            early_losses: IdMap::default(),
            threads: Vec::new(),
            thread_ids: IdMap::default(),
            contexts: Vec::new(),
            context_ids: HashMap::new(),
            files: files::Files::default(),
            asked: (begin_ns, end_ns),
            begin_ns: None,
            tells_unseen: false,
            last_ns: i64::MIN,
            events: 0,
            scheduling: 0,
            system_calls: 0,
            interrupts: 0,
            hops: 0,
            faults: 0,
            lost: 0,
            uncounted_losses: 0,
            contradictions: 0,
            unseen_idle_ends: 0,
            unseen_switches: 0,
        }
    }

    /// What is accounted: from the first kernel event or the begin that was asked for, to the last one or the end.
    pub fn range(&self) -> Option<(i64, i64)> {
        let begin = self.begin_ns?.max(self.asked.0);
        Some((begin, self.last_ns.min(self.asked.1).max(begin)))
    }

    /// Whether the moment lies in the range.
    pub fn covers(&self, t_ns: i64) -> bool {
        t_ns >= self.asked.0 && t_ns <= self.asked.1
    }

    pub fn thread_of(&self, tid: i32) -> Option<ThreadId> {
        self.thread_ids.get(&tid).copied()
    }

    /// Events of other sources are passed over.
    #[inline]
    pub fn event<W: Watch + ?Sized>(&mut self, catalogue: &Catalogue, event: &Event<'_>, watch: &mut W) {
        let at = event.class.0 as usize;
        let plan = match self.plans.get(at) {
            Some(Some(plan)) => *plan,
            _ => self.compile(catalogue, event),
        };
        if plan.foreign {
            return;
        }
        let Some(cpu) = event.cpu.and_then(|number| self.cpu(number, event)) else { return };
        let t_ns = event.t_ns;
        if self.cpu_of_stream(event.stream).is_none() {
            self.meet_stream(cpu, event, watch);
        }
        self.last_ns = self.last_ns.max(t_ns);
        if self.covers(t_ns) {
            self.events += 1;
        }
        if let Some(hop) = plan.hop {
            self.hop(cpu, t_ns, hop, event, watch);
            return;
        }
        let Some(plan_of_kernel) = plan.kernel else { return };
        let Some(fact) = plan_of_kernel.fact(event) else { return };
        if plan_of_kernel.is_scheduling() {
            self.scheduling += 1;
        }
        if plan.names_thread && !matches!(fact, Fact::Switch { .. }) {
            if let Some(tid) = catalogue.subjects.get(event.subject.0 as usize).and_then(|subject| subject.tid) {
                self.runs(cpu, t_ns, tid, watch);
            }
        }
        let place = &mut self.cpus[cpu.0 as usize];
        if self.tells_unseen && place.base == Base::Idle && !matches!(fact, Fact::Switch { .. } | Fact::Running { .. }) {
            // Nobody took the CPU by now, whoever stands in its queue.
            place.ready_ns = place.ready_ns.map(|ready| ready.max(t_ns));
        }
        self.apply(cpu, t_ns, fact, watch);
        self.cpus[cpu.0 as usize].fresh = false;
    }

    /// Passes a step of a packet on, with who made it.
    fn hop<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, plan: HopPlan, event: &Event<'_>, watch: &mut W) {
        if let Some(tid) = plan.tid(event.fields) {
            self.runs(cpu, t_ns, tid, watch);
        }
        let Some(step) = plan.step(event.fields) else { return };
        let covered = self.covers(t_ns);
        self.hops += u64::from(covered);
        let by = self.wake(cpu, t_ns).waker;
        let call = match by {
            Waker::Thread(thread) => self.threads[thread.0 as usize].call,
            Waker::Unknown => self.cpus[cpu.0 as usize].unclaimed.mode.and_then(|(_, call)| call),
            Waker::Context { .. } | Waker::Idle => None,
        };
        let call = call.and_then(|call| Some((call.name, call.t_ns?)));
        watch.hopped(&Hop { t_ns, cpu, by, call, covered, step });
    }

    fn apply<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, fact: Fact<'_>, watch: &mut W) {
        match fact {
            Fact::Switch { tid, name, state, to, to_name } => {
                let from = (tid != 0).then(|| self.thread(tid, name, false));
                self.leave(cpu, t_ns, from, state, watch);
                let to = (to != 0).then(|| self.thread(to, to_name, true));
                self.take(cpu, t_ns, to, watch);
            }
            Fact::Waking { tid, name, .. } => {
                let wake = self.wake(cpu, t_ns);
                let thread = self.thread(tid, name, false);
                self.waking(thread, wake, watch);
            }
            Fact::Woken { tid, name, cpu: target, new } => {
                let wake = self.wake(cpu, t_ns);
                let thread = self.thread(tid, name, new);
                self.woken(thread, wake, new, watch);
                if let Some(target) = target.and_then(|number| self.known_cpu(number)) {
                    self.queue_on(thread, target, t_ns, watch);
                    if self.threads[thread.0 as usize].state == ThreadState::Runnable {
                        self.cpus[target.0 as usize].ready_ns.get_or_insert(t_ns);
                    }
                }
            }
            Fact::Migrate { tid, cpu: target } => {
                let thread = self.thread(tid, &[], false);
                if let Some(target) = self.known_cpu(target) {
                    self.queue_on(thread, target, t_ns, watch);
                }
            }
            Fact::Fork { parent, tid, process, name } => {
                if let Some(parent) = parent {
                    self.runs(cpu, t_ns, parent, watch);
                }
                if let Some(old) = self.thread_ids.remove(&tid) {
                    // Its end was not seen.
                    self.close(old, t_ns, watch);
                    let old = &mut self.threads[old.0 as usize];
                    (old.state, old.died_ns) = (ThreadState::Dead, old.died_ns.or(Some(t_ns)));
                }
                let maker = parent.and_then(|parent| self.thread_of(parent)).map(|maker| &self.threads[maker.0 as usize]);
                let (allowed, kernel, family) =
                    maker.map_or((None, false, None), |maker| (maker.allowed_now(), maker.kernel, maker.process));
                if let Some((from, to)) = family.zip(process) {
                    self.files.forked(from, to);
                }
                let thread = self.thread(tid, name, true);
                let thread = &mut self.threads[thread.0 as usize];
                (thread.process, thread.born_ns, thread.since_ns) = (process, Some(t_ns), t_ns);
                (thread.allowed, thread.kernel) = (allowed, kernel);
            }
            Fact::Exec { tid, file } => {
                if let Some(tid) = tid {
                    self.runs(cpu, t_ns, tid, watch);
                }
                if let Base::Thread(thread) = self.cpus[cpu.0 as usize].base {
                    let name = file.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
                    // As much of it as the kernel keeps.
                    let thread = &mut self.threads[thread.0 as usize];
                    (thread.name, thread.kernel) = (name[..name.len().min(15)].to_vec(), false);
                    if let Some(process) = thread.process {
                        self.files.exec(process);
                    }
                }
            }
            Fact::Exit { tid } => {
                self.runs(cpu, t_ns, tid, watch);
                let thread = self.thread(tid, &[], false);
                self.threads[thread.0 as usize].exiting = true;
                self.files.gone(tid);
            }
            Fact::Running { tid } => {
                if matches!(self.cpus[cpu.0 as usize].base, Base::Thread(known) if self.threads[known.0 as usize].tid != tid) {
                    self.unseen_switches += 1;
                    self.settle(cpu, t_ns, watch);
                    self.unseat(cpu, t_ns);
                }
                self.runs(cpu, t_ns, tid, watch);
            }
            Fact::Process { .. } => self.dumped(fact),
            Fact::File { process, fd, path, flags } => self.files.dumped(process, fd, path, flags),
            Fact::IrqName { number, name, allowed } => {
                let context = self.context(Key::Irq(number), name);
                self.contexts[context.0 as usize].allowed = reasons::cpus(allowed);
            }
            Fact::Fault { name } => {
                let covers = self.covers(t_ns);
                self.faults += u64::from(covers);
                if covers {
                    let thread = match self.cpus[cpu.0 as usize].base {
                        Base::Thread(thread) => Some(thread),
                        Base::Unknown | Base::Idle => None,
                    };
                    watch.faulted(thread, name, t_ns);
                }
            }
            Fact::Disk => {
                let place = &self.cpus[cpu.0 as usize];
                if let (true, Base::Thread(thread)) = (place.open.is_empty(), place.base) {
                    self.threads[thread.0 as usize].asked_disk = true;
                }
            }
            Fact::Raise { number } => {
                if let Some(raised) = usize::try_from(number).ok().and_then(|number| self.cpus[cpu.0 as usize].raised.get_mut(number)) {
                    raised.get_or_insert(t_ns);
                }
            }
            Fact::Enter(key, name) => self.enter(cpu, t_ns, key, name, watch),
            Fact::Leave(key) => self.exit(cpu, t_ns, key, watch),
            Fact::SyscallEnter { name, arguments } => {
                self.in_thread(cpu, t_ns, watch);
                self.system_calls += 1;
                let call = (Mode::Syscall, Some(Entered { name, t_ns: Some(t_ns), arguments }));
                let thread = self.set_mode(cpu, call);
                if self.covers(t_ns) {
                    watch.entered(thread, name, t_ns);
                }
            }
            Fact::SyscallLeave { name, result } => {
                self.in_thread(cpu, t_ns, watch);
                self.system_calls += 1;
                let entered = match self.cpus[cpu.0 as usize].base {
                    Base::Thread(thread) => self.threads[thread.0 as usize].call,
                    _ => self.cpus[cpu.0 as usize].unclaimed.mode.and_then(|(_, call)| call),
                };
                let entered = entered.filter(|call| call.name == name || self.names.text(name) == "unknown");
                let thread = self.set_mode(cpu, (Mode::User, None));
                if let Some((call, result)) = entered.zip(result) {
                    self.has_returned(thread, &call, result, t_ns);
                }
                if self.covers(t_ns) {
                    let (name, begin_ns) = entered.map_or((name, None), |call| (call.name, call.t_ns));
                    watch.returned(&Call { thread, name, begin_ns, end_ns: t_ns, result });
                }
            }
        }
    }

    /// What a call has done to what is known of its thread.
    fn has_returned(&mut self, thread: Option<ThreadId>, call: &Entered, result: i64, t_ns: i64) {
        let process = thread.and_then(|thread| self.threads[thread.0 as usize].process);
        if let Some(process) = process {
            self.files.returned(process, call.name, &self.names, call.arguments, result);
        }
        if result >= 0 && self.names.text(call.name) == "sched_setaffinity" {
            self.allowed(thread, call.arguments.about, t_ns);
        }
    }

    /// Tells what the thread `tid` did until now, although it may go on with it. For those who sum times and do not count pieces.
    pub fn tell_until<W: Watch + ?Sized>(&mut self, tid: i32, t_ns: i64, watch: &mut W) -> Option<ThreadId> {
        let id = self.thread_of(tid)?;
        let thread = &self.threads[id.0 as usize];
        match (thread.state, thread.cpu) {
            (ThreadState::Running, Some(cpu)) => self.settle(cpu, t_ns, watch),
            _ => self.close(id, t_ns, watch),
        }
        Some(id)
    }

    /// To be called once, after the last event.
    pub fn finish<W: Watch + ?Sized>(&mut self, watch: &mut W) {
        let Some((_, end)) = self.range() else { return };
        for cpu in 0..self.cpus.len() {
            self.settle(CpuId(cpu as u32), end, watch);
        }
        for thread in 0..self.threads.len() {
            self.close(ThreadId(thread as u32), end, watch);
        }
    }

    /// The part of an interval that lies in the range.
    #[inline]
    pub(crate) fn clip(&self, begin_ns: i64, end_ns: i64) -> Option<(i64, i64)> {
        let (begin, end) = (begin_ns.max(self.asked.0), end_ns.min(self.asked.1));
        (begin < end).then_some((begin, end))
    }

    /// Tells what the CPU did until now.
    pub(crate) fn settle<W: Watch + ?Sized>(&mut self, id: CpuId, t_ns: i64, watch: &mut W) {
        let cpu = &mut self.cpus[id.0 as usize];
        if t_ns <= cpu.since_ns {
            return;
        }
        if cpu.base == Base::Idle {
            // An idle CPU takes a thread as soon as one stands in its queue; the switch tells whether it has, but some are not traced.
            if let Some(ready) = cpu.ready_ns.filter(|ready| *ready < t_ns) {
                cpu.ready_ns = None;
                self.settle(id, ready, watch);
                let cpu = &mut self.cpus[id.0 as usize];
                (cpu.base, cpu.doubt, cpu.unclaimed) = (Base::Unknown, true, Unclaimed::since(cpu.since_ns));
            }
        }
        let cpu = &mut self.cpus[id.0 as usize];
        let begin_ns = std::mem::replace(&mut cpu.since_ns, t_ns);
        let spent = (t_ns - begin_ns) as u64;
        let base = cpu.base;
        let by = cpu.occupant();
        if let Some(open) = cpu.open.last_mut() {
            open.own_ns += spent;
        }
        let mode = match base {
            Base::Thread(thread) => {
                let thread = &mut self.threads[thread.0 as usize];
                if let Occupant::Thread(_) = by {
                    thread.own_ns += spent;
                }
                thread.mode
            }
            Base::Unknown | Base::Idle => Mode::Unknown,
        };
        self.cpus[id.0 as usize].silences.note(Piece { by, base, mode, begin_ns, end_ns: t_ns });
        let Some((begin, end)) = self.clip(begin_ns, t_ns) else { return };
        if base == Base::Unknown {
            let unclaimed = &mut self.cpus[id.0 as usize].unclaimed;
            match by {
                Occupant::Unclaimed => unclaimed.ns += (end - begin) as u64,
                _ => unclaimed.interrupts_ns += (end - begin) as u64,
            }
        }
        watch.occupied(id, by, base, mode, begin, end);
    }

    /// This event happened in a thread, and not in the idle one.
    fn in_thread<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, watch: &mut W) {
        self.outside_contexts(cpu, t_ns, watch);
        self.settle(cpu, t_ns, watch);
        // (With a thread in its queue the idle CPU's base is unknown by now.)
        if self.cpus[cpu.0 as usize].base == Base::Idle {
            self.idle_ended(cpu, t_ns, Base::Unknown, watch);
        }
    }

    /// No interrupt is open where this event happened.
    fn outside_contexts<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, watch: &mut W) {
        if !self.cpus[cpu.0 as usize].open.is_empty() {
            self.contradictions += 1;
            self.settle(cpu, t_ns, watch);
            self.cpus[cpu.0 as usize].open.clear();
        }
    }

    fn set_mode(&mut self, cpu: CpuId, (mode, call): (Mode, Option<Entered>)) -> Option<ThreadId> {
        let place = &mut self.cpus[cpu.0 as usize];
        match place.base {
            Base::Thread(id) => {
                let thread = &mut self.threads[id.0 as usize];
                (thread.mode, thread.call) = (mode, call);
                Some(id)
            }
            Base::Unknown | Base::Idle => {
                place.unclaimed.mode = Some((mode, call));
                None
            }
        }
    }

    fn wake(&self, cpu: CpuId, t_ns: i64) -> Wake {
        let place = &self.cpus[cpu.0 as usize];
        let waker = match (place.open.last(), place.base) {
            (Some(open), _) => Waker::Context { id: open.id, began_ns: open.began_ns },
            (None, Base::Thread(thread)) => Waker::Thread(thread),
            (None, Base::Idle) => Waker::Idle,
            (None, Base::Unknown) => Waker::Unknown,
        };
        Wake { t_ns, cpu, waker }
    }

    fn enter<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, key: Key, name: &[u8], watch: &mut W) {
        self.settle(cpu, t_ns, watch);
        let id = self.context(key, name);
        let covers = self.covers(t_ns);
        self.interrupts += u64::from(covers);
        let place = &mut self.cpus[cpu.0 as usize];
        if place.open.len() >= MOST_OPEN {
            self.contradictions += 1;
            place.open.clear();
        }
        let raised_ns = match key {
            Key::Softirq(number) => usize::try_from(number).ok().and_then(|at| place.raised.get_mut(at)).and_then(Option::take),
            Key::Irq(_) | Key::Vector(_) => None,
        };
        place.open.push(Open { id, began_ns: t_ns, own_ns: 0, raised_ns, seen: true });
    }

    fn exit<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, key: Key, watch: &mut W) {
        let id = self.context(key, &[]);
        let place = &mut self.cpus[cpu.0 as usize];
        let Some(at) = place.open.iter().rposition(|open| open.id == id) else {
            if place.fresh {
                // It has been open since before the CPU's first event.
                place.open.push(Open { id, began_ns: place.since_ns, own_ns: 0, raised_ns: None, seen: false });
                self.settle(cpu, t_ns, watch);
                self.cpus[cpu.0 as usize].open.clear();
            } else {
                self.contradictions += 1;
            }
            return;
        };
        self.settle(cpu, t_ns, watch);
        let place = &mut self.cpus[cpu.0 as usize];
        if at + 1 < place.open.len() {
            self.contradictions += 1;
        }
        let (open, base) = (place.open[at], place.base);
        place.open.truncate(at);
        if open.seen && self.covers(t_ns) {
            let Open { own_ns, raised_ns, began_ns: begin_ns, .. } = open;
            watch.handled(&Handling { context: id, cpu, begin_ns, end_ns: t_ns, own_ns, raised_ns, base });
        }
    }

    /// The dump of the system's state knows what no event has told, and nothing better.
    fn dumped(&mut self, fact: Fact<'_>) {
        let Fact::Process { tid, process, name, status, cpu, kernel, allowed, call } = fact else { return };
        if tid == 0 {
            return;
        }
        let call = call.map(|(name, about)| (self.names.intern(&String::from_utf8_lossy(name)), about));
        let cpu = cpu.and_then(|number| self.known_cpu(number));
        let begin = self.begin_ns.unwrap_or(0);
        let id = self.thread(tid, &[], false);
        let thread = &mut self.threads[id.0 as usize];
        thread.process = thread.process.or(process);
        if thread.name.is_empty() {
            thread.name = name.to_vec();
        }
        // 5: it waits for something (`enum lttng_process_status`).
        if thread.state == ThreadState::Unknown && thread.early.is_none() && status == Some(5) && thread.cpu.is_none() {
            (thread.state, thread.since_ns) = (ThreadState::Blocked(Reason::Interruptible), begin);
            if let Some((name, about)) = call {
                let arguments = Arguments { about, ..Arguments::default() };
                (thread.mode, thread.call) = (Mode::Syscall, Some(Entered { name, t_ns: None, arguments }));
            }
        }
        thread.kernel |= kernel;
        if thread.allowed.is_none() && thread.allowings.is_empty() {
            thread.allowed = reasons::cpus(allowed);
        }
        thread.cpu = thread.cpu.or(cpu);
        let (state, unexplained) = (thread.state, thread.cause == Cause::Unknown);
        if let (ThreadState::Blocked(state), true) = (state, unexplained) {
            self.threads[id.0 as usize].cause = self.cause(id, state);
        }
    }

    /// The thread of this id; another one than before if that one is dead and `fresh` says that this one lives.
    fn thread(&mut self, tid: i32, name: &[u8], fresh: bool) -> ThreadId {
        let next = ThreadId(self.threads.len() as u32);
        let id = *self.thread_ids.entry(tid).or_insert(next);
        if id == next {
            self.threads.push(Thread { tid, name: name.to_vec(), since_ns: self.begin_ns.unwrap_or(0), ..Thread::default() });
            return id;
        }
        let thread = &mut self.threads[id.0 as usize];
        if fresh && thread.state == ThreadState::Dead {
            self.thread_ids.remove(&tid);
            return self.thread(tid, name, false);
        }
        if !name.is_empty() && thread.name != name {
            thread.name.clear();
            thread.name.extend_from_slice(name);
        }
        id
    }

    fn context(&mut self, key: Key, name: &[u8]) -> ContextId {
        let next = ContextId(self.contexts.len() as u32);
        let id = *self.context_ids.entry(key).or_insert(next);
        if id == next {
            let name = String::from_utf8_lossy(name);
            let name = match key {
                Key::Irq(number) => format!("irq {number} {name}").trim_end().to_owned(),
                Key::Softirq(number) => softirq_name(number).map_or_else(|| format!("softirq {number}"), |name| format!("softirq {name}")),
                Key::Vector(name) => self.names.text(name).to_owned(),
            };
            self.contexts.push(Context { key, name, allowed: None });
        }
        id
    }

    fn known_cpu(&self, number: u32) -> Option<CpuId> {
        self.cpu_ids.get(number as usize).copied().flatten()
    }

    #[inline]
    fn cpu(&mut self, number: u32, event: &Event<'_>) -> Option<CpuId> {
        match self.cpu_ids.get(number as usize) {
            Some(Some(id)) => Some(*id),
            _ => self.meet(number, event),
        }
    }

    #[cold]
    fn meet(&mut self, number: u32, event: &Event<'_>) -> Option<CpuId> {
        if number >= MOST_CPUS {
            return None;
        }
        let begin = *self.begin_ns.get_or_insert(event.t_ns);
        let id = CpuId(self.cpus.len() as u32);
        self.cpus.push(Cpu {
            number,
            since_ns: begin,
            base: Base::Unknown,
            open: Vec::new(),
            unclaimed: Unclaimed::since(begin),
            fresh: true,
            raised: [None; 32],
            silences: Silences::default(),
            ready_ns: None,
            doubt: false,
            lost: 0,
        });
        if self.cpu_ids.len() <= number as usize {
            self.cpu_ids.resize(number as usize + 1, None);
        }
        self.cpu_ids[number as usize] = Some(id);
        Some(id)
    }

    #[cold]
    fn meet_stream<W: Watch + ?Sized>(&mut self, cpu: CpuId, event: &Event<'_>, watch: &mut W) {
        let at = event.stream.0 as usize;
        if self.cpu_of_stream.len() <= at {
            self.cpu_of_stream.resize(at + 1, None);
        }
        self.cpu_of_stream[at] = Some(cpu);
        if let Some(loss) = self.early_losses.remove(&event.stream.0) {
            self.lose(cpu, loss, watch);
        }
    }

    #[cold]
    fn compile(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> Plan {
        let at = event.class.0 as usize;
        let unknown = Class::default();
        let class = catalogue.classes.get(at).unwrap_or(&unknown);
        let stream = catalogue.streams.get(event.stream.0 as usize);
        let foreign = stream.is_none_or(|stream| stream.kind != StreamKind::Kernel);
        self.tells_unseen |= self.rules.tells_unseen(catalogue);
        let kernel = if foreign { None } else { self.rules.compile(class, &mut self.names) };
        let hop = if foreign { None } else { self.hop_rules.compile(class) };
        let plan = Plan { kernel, hop, foreign, names_thread: class.context.iter().any(|name| name == "tid" || name == "_tid") };
        if at < catalogue.classes.len() {
            if self.plans.len() <= at {
                self.plans.resize(at + 1, None);
            }
            self.plans[at] = Some(plan);
        }
        plan
    }
}

/// `prev_state` of a switch, as LTTng writes it: 0 for a thread that could go on, else the kernel's task state, maybe with bits that say more.
fn state_of(state: i64, exiting: bool) -> ThreadState {
    match state & 0xff {
        // On its way out a thread may still wait for something. (Kernels before 4.14 have numbers of their own for the end.)
        state if exiting && state & 0xff != 0 && state & 0x0f == 0 => ThreadState::Dead,
        0 => ThreadState::Preempted,
        state if state & 0x30 != 0 => ThreadState::Dead,
        state if state & 0x02 != 0 => ThreadState::Blocked(Reason::Uninterruptible),
        state if state & 0x0c != 0 => ThreadState::Blocked(Reason::Stopped),
        state if state & 0x01 != 0 => ThreadState::Blocked(Reason::Interruptible),
        _ => ThreadState::Blocked(Reason::Parked),
    }
}
