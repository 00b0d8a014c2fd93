//! The state machine of a Linux system: what each CPU and each thread does at each moment, computed
//! from the kernel's events.
//!
//! [`Linux`] reads the events once, in the order of time, and reports each interval to a [`Watch`]
//! when the interval is over. Memory grows with the number of threads and CPUs, never with the
//! number of events. Nothing is assumed: what a CPU did before its first switch is reported when
//! that switch names the thread; what a thread did before its first event stays unknown, and so
//! does what happened during a loss of events.
//!
//! Facts about the kernel that the code relies on:
//!
//! - A wake-up begins with `sched_waking`. The waker is the context of that event: the innermost
//!   open interrupt on that CPU, else its thread. The event may come before the woken thread has
//!   left its CPU, and also for threads that are not blocked.
//! - Some traces do not contain the switches of the idle thread, or of some other threads. Idleness
//!   therefore ends at the latest with an event of another thread. If the next switch is from a
//!   thread that waited in the idle CPU's queue, that thread has run since it entered the queue.
//! - A thread that is ready may not have a CPU: ready is not running.

mod apply;
mod block_devices;
mod calls;
mod counts;
mod cpus;
pub mod kernel_rules;
mod known;
pub(crate) mod loss;
pub mod meaning;
pub mod net;
mod processes;
mod state;
mod switched_off;
mod threads;
pub(crate) mod timers;
pub mod watch;

pub use block_devices::BlockDevices;
pub use calls::files::{Arguments, FileKind};
pub use calls::masks::{Answer, CallerNamespace, CpuSet, Mask};
pub use counts::{Count, Counts};
pub use processes::{Process, Processes};
use state::state_of;
pub(crate) use state::Unclaimed;
pub use state::{Context, Cpu, Thread};
pub use switched_off::SwitchedOff;

use crate::hash::IdMap;
use crate::linux::calls::{files, masks, pid_namespace, signals};
use crate::linux::kernel_rules::{KernelPlan, LinuxRules};
use crate::linux::meaning::{Key, Meaning};
use crate::linux::net::{Hop, HopPlan, HopRules};
use crate::linux::timers::Timers;
use crate::linux::watch::{Base, BlockCause, ContextId, CpuId, Mode, ThreadId, ThreadState, Waker, Watch};
use crate::names::{NameId, Names};
use crate::rules::RuleError;
use longpole_trace::event::{Catalogue, Class, Event, Loss, StreamKind};

/// The state machine; see the [module](self). Create it, pass it all events and losses in order,
/// then call [`Linux::finish`].
#[derive(Debug)]
pub struct Linux {
    classes: Classes,
    pub names: Names,
    pub cpus: Vec<Cpu>,
    pub processes: Processes,
    pub block_devices: BlockDevices,
    ids: Ids,
    /// Losses on streams whose CPU is not known yet.
    pub(crate) early_losses: IdMap<u32, Loss>,
    pub threads: Vec<Thread>,
    /// Threads that are not known to be dead. A dead one is removed with the next loss.
    pub(crate) living: Vec<ThreadId>,
    pub contexts: Vec<Context>,
    files: files::Files,
    signals: signals::PendingSignals,
    pub(crate) timers: Timers,
    missing: switched_off::Missing,
    /// Begin and end in ns of the requested range.
    pub(crate) requested: (i64, i64),
    /// Time of the first kernel event.
    begin_ns: Option<i64>,
    masks: masks::MaskCalls,
    call_names: CallNames,
    /// Time of the last kernel event, or of the end of a later loss.
    pub(crate) last_ns: i64,
    /// The filter by which the recorder selected switches. With a filter it is unknown which thread
    /// has a CPU, so the recorded switches are ignored.
    pub switch_filter: Option<String>,
    pub counts: Counts,
}

/// The meaning of the trace's event classes.
#[derive(Debug)]
struct Classes {
    rules: LinuxRules,
    hop_rules: HopRules,
    plans: Vec<Option<ClassPlan>>,
    /// True if the trace has an event for each thread that runs without a recorded switch; that
    /// event comes before the thread's next event.
    has_running_events: bool,
    /// Two flags: the trace has events of interrupts, and of softirqs. They are derived from the
    /// first `seen` event classes.
    has_context_events: [bool; 2],
    seen: usize,
}

impl Classes {
    fn new(rules: LinuxRules, hop_rules: HopRules) -> Classes {
        Classes { rules, hop_rules, plans: Vec::new(), has_running_events: false, has_context_events: [false; 2], seen: 0 }
    }
}

/// Ids of this model, by the numbers in events.
#[derive(Debug, Default)]
struct Ids {
    /// The CPUs, by the kernel's number.
    cpus: Vec<Option<CpuId>>,
    /// The CPU of each stream.
    cpu_of_stream: Vec<Option<CpuId>>,
    /// The newest thread with each thread id.
    threads: IdMap<i32, ThreadId>,
    contexts: IdMap<Key, ContextId>,
}

/// Names of system calls after whose return more is known about a thread or its process.
#[derive(Debug)]
struct CallNames {
    sched_setaffinity: NameId,
    /// Calls that change the group of a process.
    group_calls: [NameId; 2],
    namespace_calls: pid_namespace::NamespaceCalls,
}

impl CallNames {
    fn new(names: &mut Names) -> CallNames {
        CallNames {
            sched_setaffinity: names.intern("sched_setaffinity"),
            group_calls: ["setpgid", "setsid"].map(|name| names.intern(name)),
            namespace_calls: pid_namespace::NamespaceCalls::new(names),
        }
    }
}

/// The compiled meaning of an event class.
#[derive(Clone, Copy, Debug, Default)]
struct ClassPlan {
    kernel: Option<KernelPlan>,
    hop: Option<HopPlan>,
    /// True if the class does not belong to a kernel trace.
    foreign: bool,
    /// True if the subject of the event is the thread below all interrupts.
    names_thread: bool,
}

impl Linux {
    /// Creates a state machine that accounts the time between the two moments, in ns.
    ///
    /// All events from the begin of the trace on must be passed in, because they determine the
    /// state at the begin of the range.
    pub fn new(begin_ns: i64, end_ns: i64) -> Result<Linux, RuleError> {
        Ok(Linux::with_rules(LinuxRules::built_in()?, HopRules::built_in()?, begin_ns, end_ns))
    }

    /// Like [`Linux::new`], with other rules than the built-in ones.
    pub fn with_rules(rules: LinuxRules, hop_rules: HopRules, begin_ns: i64, end_ns: i64) -> Linux {
        let mut names = Names::default();
        let call_names = CallNames::new(&mut names);
        Linux {
            classes: Classes::new(rules, hop_rules),
            names,
            cpus: Vec::new(),
            processes: Processes::default(),
            block_devices: BlockDevices::default(),
            ids: Ids::default(),
            early_losses: IdMap::default(),
            threads: Vec::new(),
            living: Vec::new(),
            contexts: Vec::new(),
            files: files::Files::default(),
            signals: signals::PendingSignals::default(),
            timers: Timers::default(),
            missing: switched_off::Missing::default(),
            requested: (begin_ns, end_ns),
            begin_ns: None,
            masks: masks::MaskCalls::default(),
            call_names,
            last_ns: i64::MIN,
            switch_filter: None,
            counts: Counts::default(),
        }
    }

    /// The accounted interval: from the first kernel event or the requested begin, whichever is
    /// later, to the last kernel event or the requested end, whichever is earlier. `None` before
    /// the first kernel event.
    pub fn range(&self) -> Option<(i64, i64)> {
        let begin = self.begin_ns?.max(self.requested.0);
        Some((begin, self.last_ns.min(self.requested.1).max(begin)))
    }

    /// True if the moment lies in the requested range.
    pub fn covers(&self, t_ns: i64) -> bool {
        t_ns >= self.requested.0 && t_ns <= self.requested.1
    }

    pub(crate) fn cpu_of_number(&self, number: u32) -> Option<CpuId> {
        self.known_cpu(number)
    }

    /// The reason of the thread's last block, as far as the events show.
    pub fn block_cause(&self, thread: ThreadId) -> BlockCause {
        self.threads[thread.0 as usize].block_cause
    }

    /// The kind of the file behind a file descriptor of a process, as far as the events show.
    pub fn file_kind(&self, process: i32, fd: i64) -> Option<FileKind> {
        self.files.kind(process, fd)
    }

    /// The inode of a socket that a process had open when the recording began, or of a copy of its
    /// descriptor.
    pub fn older_socket(&self, process: i32, fd: i64) -> Option<u32> {
        self.files.older_socket(process, fd)
    }

    /// The number of CPUs on which a thread may run now; `None` if unknown.
    pub fn cpus_of(&self, tid: i32) -> Option<u64> {
        let thread = &self.threads[self.thread_of(tid)?.0 as usize];
        Some(thread.mask.now()?.len() as u64)
    }

    /// True if a thread ran by reservation (`SCHED_DEADLINE`) at its last switch: only such threads
    /// have a priority below 0 (include/linux/sched/deadline.h).
    pub fn is_reserved(&self, tid: i32) -> bool {
        self.priority(tid).is_some_and(|priority| priority < 0)
    }

    /// Priority of a thread at its last switch, as in `Thread::priority`.
    pub fn priority(&self, tid: i32) -> Option<i32> {
        self.threads[self.thread_of(tid)?.0 as usize].priority
    }

    /// Id of the thread that has a CPU now; `None` if unknown.
    pub fn tid_on(&self, cpu: u32) -> Option<i32> {
        let Base::Thread(thread) = self.cpus.get(cpu as usize)?.base else { return None };
        Some(self.threads[thread.0 as usize].tid)
    }

    /// The newest thread with this thread id.
    pub fn thread_of(&self, tid: i32) -> Option<ThreadId> {
        self.ids.threads.get(&tid).copied()
    }

    /// Processes the next event. Events that are not from a kernel trace are ignored.
    #[inline]
    pub fn event<W: Watch + ?Sized>(&mut self, catalogue: &Catalogue, event: &Event<'_>, watch: &mut W) {
        let at = event.class.0 as usize;
        let foreign = match self.classes.plans.get(at) {
            Some(Some(plan)) => plan.foreign,
            _ => self.compile(catalogue, event),
        };
        if foreign {
            return;
        }
        let Some(cpu) = event.cpu.and_then(|number| self.cpu(number, event)) else { return };
        let t_ns = event.t_ns;
        if self.cpu_of_stream(event.stream).is_none() {
            self.meet_stream(cpu, event, watch);
        }
        self.last_ns = self.last_ns.max(t_ns);
        if self.covers(t_ns) {
            self.counts.events += 1;
        }
        self.apply_event(catalogue, event, cpu, watch);
        self.cpus[cpu.0 as usize].seen_ns = t_ns;
    }

    #[inline]
    fn apply_event<W: Watch + ?Sized>(&mut self, catalogue: &Catalogue, event: &Event<'_>, cpu: CpuId, watch: &mut W) {
        let t_ns = event.t_ns;
        // Borrow the plan instead of copying it: it is large.
        let Some(Some(plan)) = self.classes.plans.get(event.class.0 as usize) else { return };
        if let Some(hop) = plan.hop {
            self.hop(cpu, t_ns, hop, event, watch);
            return;
        }
        let Some(plan_of_kernel) = &plan.kernel else { return };
        let Some(meaning) = plan_of_kernel.meaning(event) else { return };
        let names_thread = plan.names_thread;
        if plan_of_kernel.is_switch() {
            self.counts.switches.add(self.covers(t_ns));
        }
        if names_thread && !matches!(meaning, Meaning::Switch { .. }) {
            if let Some(tid) = catalogue.subjects.get(event.subject.0 as usize).and_then(|subject| subject.tid) {
                self.runs(cpu, t_ns, tid, watch);
            }
        }
        let place = &mut self.cpus[cpu.0 as usize];
        if self.classes.has_running_events
            && place.base == Base::Idle
            && !matches!(meaning, Meaning::Switch { .. } | Meaning::Running { .. })
        {
            // The CPU was idle until now, even if a thread waits in its queue.
            place.ready_ns = place.ready_ns.map(|ready| ready.max(t_ns));
        }
        if let Meaning::SwitchedOff { what, classes, calls, ago_ns } = meaning {
            return self.switch_off(catalogue, (t_ns, ago_ns), (what, classes, calls), watch);
        }
        self.apply(cpu, t_ns, meaning, watch);
        self.cpus[cpu.0 as usize].fresh = false;
    }

    /// Reports a step of a packet, with the thread or context that made it.
    fn hop<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, plan: HopPlan, event: &Event<'_>, watch: &mut W) {
        if let Some(tid) = plan.tid(event.fields) {
            self.runs(cpu, t_ns, tid, watch);
        }
        let Some(step) = plan.step(event.fields) else { return };
        let covered = self.covers(t_ns);
        self.counts.hops.add(covered);
        let by = self.wake(cpu, t_ns).waker;
        let call = match by {
            Waker::Thread(thread) => self.threads[thread.0 as usize].call,
            Waker::Unknown => self.cpus[cpu.0 as usize].unclaimed.mode.and_then(|(_, call)| call),
            Waker::Context { .. } | Waker::UntracedInterrupt => None,
        };
        let call = call.and_then(|call| Some((call.name, call.t_ns?)));
        watch.hopped(&Hop { t_ns, cpu, by, call, covered, step });
    }

    /// Reports what the thread `tid` has done until now, although it may continue to do the same.
    ///
    /// For callers that sum up times; a caller that counts intervals would count this one twice.
    pub fn report_until<W: Watch + ?Sized>(&mut self, tid: i32, t_ns: i64, watch: &mut W) -> Option<ThreadId> {
        let id = self.thread_of(tid)?;
        let thread = &self.threads[id.0 as usize];
        match (thread.state, thread.cpu) {
            (ThreadState::Running, Some(cpu)) => self.report_cpu_until(cpu, t_ns, watch),
            _ => self.close(id, t_ns, watch),
        }
        Some(id)
    }

    /// Time since which a CPU is idle, or the end of its last reported interval if that is later.
    /// `None` if it is not idle, or if a thread waits in its queue.
    pub fn idle_since(&self, cpu: CpuId) -> Option<i64> {
        let cpu = self.cpus.get(cpu.0 as usize).filter(|cpu| cpu.base == Base::Idle && cpu.ready_ns.is_none())?;
        Some(cpu.since_ns)
    }

    /// True if the thread executes code of its program: it is no kernel thread, is not known to be
    /// in a system call, and is not exiting, which is work of the kernel.
    pub fn runs_a_program(&self, id: ThreadId) -> bool {
        let thread = &self.threads[id.0 as usize];
        !thread.kernel && !thread.exiting && thread.mode != Mode::Syscall
    }

    /// True if the thread is known to be in no system call. If the trace contains system calls,
    /// that includes a thread that has made none yet.
    pub fn calls_nothing(&self, id: ThreadId) -> bool {
        let known = self.threads[id.0 as usize].mode != Mode::Unknown || self.counts.system_calls.in_all > 0 && !self.misses_calls();
        known && self.runs_a_program(id)
    }

    /// The event group that is missing for a complete record of interrupts and softirqs; `None` if
    /// the record is complete.
    pub fn missing_context_group(&self) -> Option<&'static str> {
        match self.classes.has_context_events {
            [true, true] => None,
            [false, _] => Some("irq"),
            [true, false] => Some("softirq"),
        }
    }

    /// The same group, if its absence leaves open which machine does what this thread seems to do.
    /// That is so if the thread is in no system call: then an interrupt on top of it is the one
    /// that acts.
    pub fn missing_context_group_for(&self, id: ThreadId) -> Option<&'static str> {
        self.missing_context_group().filter(|_| self.calls_nothing(id))
    }

    /// Reports all open intervals. Must be called once, after the last event.
    pub fn finish<W: Watch + ?Sized>(&mut self, watch: &mut W) {
        let Some((_, end)) = self.range() else { return };
        if !self.masks.foreign_changes.is_empty() {
            self.masks.foreign_changes.clear();
            self.forget_foreign_masks();
        }
        for cpu in 0..self.cpus.len() {
            self.report_cpu_until(CpuId(cpu as u32), end, watch);
        }
        for thread in 0..self.threads.len() {
            self.close(ThreadId(thread as u32), end, watch);
        }
        if self.counts.switches.in_all == 0 {
            // Without any recorded switch, each change from one thread to another is to be expected
            // and not a contradiction.
            (self.counts.contradictions, self.counts.unseen_switches, self.counts.unseen_idle_ends) = (0, 0, 0);
        }
    }

    /// The part of an interval that lies in the range; `None` if that part is empty.
    #[inline]
    pub(crate) fn clip(&self, begin_ns: i64, end_ns: i64) -> Option<(i64, i64)> {
        let (begin, end) = (begin_ns.max(self.requested.0), end_ns.min(self.requested.1));
        (begin < end).then_some((begin, end))
    }

    /// Compiles the plan of an event class. Returns true if the class does not belong to a kernel
    /// trace.
    #[cold]
    fn compile(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> bool {
        let at = event.class.0 as usize;
        let unknown = Class::default();
        let class = catalogue.classes.get(at).unwrap_or(&unknown);
        let stream = catalogue.streams.get(event.stream.0 as usize);
        let foreign = stream.is_none_or(|stream| stream.kind != StreamKind::Kernel);
        self.classes.has_running_events |= self.classes.rules.has_running_events(catalogue);
        let more = catalogue.classes.get(self.classes.seen..).unwrap_or_default();
        for (has, also) in self.classes.has_context_events.iter_mut().zip(self.classes.rules.has_context_events(more)) {
            *has |= also;
        }
        self.classes.seen = catalogue.classes.len();
        let mut kernel = if foreign { None } else { self.classes.rules.compile(class, &mut self.names) };
        let filter = class.attributes.iter().find(|(key, _)| key == "filter");
        if let (Some(true), Some((_, filter))) = (kernel.as_ref().map(KernelPlan::is_switch), filter) {
            self.switch_filter = Some(filter.clone());
            kernel = None;
        }
        let hop = if foreign { None } else { self.classes.hop_rules.compile(class) };
        let plan = ClassPlan {
            kernel,
            hop,
            foreign,
            names_thread: class.context.iter().any(|name| matches!(name.as_str(), "tid" | "_tid" | "common_pid")),
        };
        let plan = self.without_missing(class, plan);
        if at < catalogue.classes.len() {
            if self.classes.plans.len() <= at {
                self.classes.plans.resize(at + 1, None);
            }
            self.classes.plans[at] = Some(plan);
        }
        foreign
    }
}
