//! What the Linux state machine reports while it runs: complete intervals of time, and the moments
//! at which something happened.
//!
//! An interval is reported when it is over, because only then it is fully known. Times are clipped
//! to the requested range; empty intervals are not reported. An analysis implements [`Watch`] and
//! sums up what it receives; at the end it looks up names in [`crate::linux::Linux`].

use crate::linux::meaning::Key;
use crate::linux::net::Hop;
use crate::linux::{Arguments, FileKind};
use crate::names::NameId;
use std::sync::Arc;

/// A thread: an index into [`crate::linux::Linux::threads`]. If the kernel reuses a thread id, the
/// later thread has another `ThreadId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

/// An interrupt vector or softirq: an index into [`crate::linux::Linux::contexts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u32);

/// A CPU: an index into [`crate::linux::Linux::cpus`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuId(pub u32);

/// What a CPU runs below all interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// A thread or idleness; the next switch names it.
    Unknown,
    Idle,
    Thread(ThreadId),
}

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Occupant {
    Idle,
    Thread(ThreadId),
    /// The innermost of the open interrupts and softirqs.
    Context(ContextId),
    /// Time of a thread that is not known yet; [`Watch::claimed`] names the thread later, or never.
    Unclaimed,
    /// Events are missing.
    Lost,
}

/// Program or kernel: the part in which a thread executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// No system call of this thread has been seen.
    #[default]
    Unknown,
    User,
    Syscall,
}

/// The scheduling state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ThreadState {
    #[default]
    Unknown,
    /// The thread has a CPU, also while an interrupt runs on top of it.
    Running,
    /// The thread was woken and waits for its CPU.
    Runnable,
    /// The scheduler took the CPU from the thread although the thread was ready to run.
    Preempted,
    Blocked(TaskState),
    Dead,
}

/// The kernel's task state of a blocked thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskState {
    Interruptible,
    /// Usually a wait for a device or for a lock of the kernel.
    Uninterruptible,
    Stopped,
    /// A kernel thread is parked or idle.
    Parked,
}

/// Why a thread is blocked, as far as the events show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockReason {
    pub state: TaskState,
    pub cause: BlockCause,
}

/// What a thread did when it blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockCause {
    Unknown,
    /// The thread is in a system call. The second value is the kind of the file that the call is
    /// about, if it is about a file whose kind is known.
    Call(NameId, Option<FileKind>),
    /// The thread is blocked after a request to a block device.
    Disk(Option<NameId>),
    /// The thread is in no system call and not stopped: it waits for a page.
    Fault,
    /// The blocked thread is a kernel thread.
    Kernel,
}

/// A change of the set of CPUs on which a thread may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskChange {
    pub t_ns: i64,
    /// The allowed CPUs, ascending; `None` if only the address of the mask is known, from the call,
    /// and the kernel was not asked.
    pub cpus: Option<Arc<[u32]>>,
    /// Why the mask is unknown, if the trace says why.
    pub why: Option<UnknownReason>,
    /// The thread that set the mask.
    pub by: Option<ThreadId>,
}

/// Why a mask is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownReason {
    /// The mask changed again before the kernel answered.
    Again,
    /// The mask changed while the kernel was asked.
    Changing,
    /// The thread had ended when the kernel was asked.
    Gone,
    /// The answer is not a valid list of CPUs.
    Damaged,
    /// At the end the mask was a different one, and no call in the trace changed it.
    AtEnd,
    /// A process in another pid namespace changed the mask of one of its threads, and no event says
    /// which thread.
    ForeignRuntime,
}

/// What ended a wait, or acts on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    Thread(ThreadId),
    Context {
        id: ContextId,
        began_ns: i64,
    },
    /// An interrupt that is not traced: the CPU was idle, or the event has that flag.
    UntracedInterrupt,
    Unknown,
}

/// A wake-up: when, where and by which waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    pub t_ns: i64,
    /// The CPU on which the waker ran.
    pub cpu: CpuId,
    pub waker: Waker,
}

/// An interval in which a thread waited in a CPU's queue.
#[derive(Clone, Copy, Debug)]
pub struct CpuWait {
    pub thread: ThreadId,
    pub tid: i32,
    pub cpu: CpuId,
    pub preempted: bool,
    pub begin_ns: i64,
    pub end_ns: i64,
    /// What the CPU has done since the end of the last reported interval, as far as known now. This
    /// interval is not reported yet because events of that CPU may be missing.
    pub now: Occupant,
    pub now_since_ns: i64,
}

/// A thread got its CPU after waiting for it.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub t_ns: i64,
    pub thread: ThreadId,
    pub cpu: CpuId,
    /// Time from which the thread was ready to run.
    pub ready_ns: i64,
    /// True if the thread waited because another one was preferred, false if it waited because it
    /// was woken.
    pub preempted: bool,
    pub wake: Option<Wake>,
}

/// A finished run of an interrupt or softirq handler.
#[derive(Clone, Copy, Debug)]
pub struct Handling {
    pub context: ContextId,
    pub cpu: CpuId,
    pub begin_ns: i64,
    pub end_ns: i64,
    /// Duration without the contexts that ran on top of this one.
    pub own_ns: u64,
    /// Time of the raise; only for a softirq whose raise was seen.
    pub raised_ns: Option<i64>,
    /// What the context ran on top of, below all interrupts.
    pub base: Base,
}

/// A finished call of a timer's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    pub cpu: CpuId,
    /// Address of the function.
    pub function: Option<u64>,
    /// True for high-resolution timers (hrtimers), false for timers that count ticks.
    pub fine: bool,
    pub begin_ns: i64,
    pub end_ns: i64,
    /// Delay from the time for which the timer was set; `None` if its start was not seen, or is
    /// given in ticks.
    pub late_ns: Option<i64>,
}

/// A finished system call.
#[derive(Clone, Copy, Debug)]
pub struct FinishedCall {
    /// The calling thread; `None` if no switch has named it yet.
    pub thread: Option<ThreadId>,
    pub name: NameId,
    /// Time of entry; `None` if it was before the trace began, or where events are missing.
    pub begin_ns: Option<i64>,
    pub end_ns: i64,
    pub result: Option<i64>,
    pub arguments: Arguments,
}

/// A step of a request to a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestStep {
    /// Its owner got the memory for it.
    Allocate,
    /// Its owner put it into the queue in front of the device.
    Insert,
    /// The device got it, from its owner or from the thread that emptied the queue.
    Issue,
    /// It was merged into another request in the queue.
    Merge,
    /// The device did not accept it, and it is in the queue again.
    Requeue,
    Complete,
}

/// What a kernel timer is for, derived from its function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimerKind {
    /// The trace does not name the function.
    #[default]
    Unknown,
    /// Wakes a thread, or sends it a signal, at a time that a thread set.
    Own,
    DelayedAck,
    /// TCP sends again, or probes whether the receiver's window is still closed; both use the same
    /// function.
    Transmission,
    Retransmission,
    Keepalive,
    Pacing,
    RateLimit,
    QuotaRefill,
    IoQuota,
    DelayedWork,
    /// Another timer of the kernel itself.
    Kernel,
}

impl TimerKind {
    /// The names of the kinds in `rules/linux.toml`.
    pub(crate) const RULES: [(&'static str, TimerKind); 10] = [
        ("own", TimerKind::Own),
        ("delayed ACK", TimerKind::DelayedAck),
        ("transmission", TimerKind::Transmission),
        ("retransmission", TimerKind::Retransmission),
        ("keepalive", TimerKind::Keepalive),
        ("pacing", TimerKind::Pacing),
        ("rate limit", TimerKind::RateLimit),
        ("quota refill", TimerKind::QuotaRefill),
        ("disk quota", TimerKind::IoQuota),
        ("delayed work", TimerKind::DelayedWork),
    ];
}

/// Something that happens now, for analyses of which machine causes what. Reported for the whole
/// trace, also before the requested range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The thread has a CPU. `wake` is the wake-up that made it ready, if that was not reported
    /// before.
    Runs {
        thread: ThreadId,
        wake: Option<Wake>,
    },
    /// The thread has left its CPU, or is known to have left it before the trace began.
    Left {
        thread: ThreadId,
        state: ThreadState,
    },
    /// The thread is no longer blocked.
    Woken {
        thread: ThreadId,
        wake: Wake,
    },
    /// The thread entered a system call, returned from one, or executes another program.
    Mode {
        thread: ThreadId,
    },
    /// From now on it is unknown what the thread does.
    Unsure {
        thread: ThreadId,
    },
    /// Events of the thread's CPU are missing, from `begin_ns` until now.
    Lost {
        thread: ThreadId,
        begin_ns: i64,
    },
    Forked {
        thread: ThreadId,
        parent: Option<ThreadId>,
    },
    /// The thread ends because of a signal that the thread `by` sent at `t_ns`.
    Killed {
        thread: ThreadId,
        by: ThreadId,
        t_ns: i64,
    },
    /// A softirq is to be handled on this CPU.
    Raised {
        cpu: CpuId,
        number: u8,
        by: Waker,
    },
    /// A step of a request to a block device.
    DiskRequest {
        cpu: CpuId,
        step: RequestStep,
        device: i64,
        sector: i64,
        by: Waker,
    },
    /// Work was queued for a kernel worker ([`Moment::WorkQueued`]), or a worker begins with it
    /// ([`Moment::WorkBegins`]).
    WorkQueued {
        cpu: CpuId,
        work: u64,
        by: Waker,
    },
    WorkBegins {
        thread: ThreadId,
        work: u64,
    },
    /// A timer of the kernel was set ([`Moment::TimerSet`]), or its function is called
    /// ([`Moment::TimerGoesOff`]).
    TimerSet {
        cpu: CpuId,
        timer: u64,
        by: Waker,
    },
    TimerGoesOff {
        cpu: CpuId,
        timer: u64,
        by: Waker,
        kind: TimerKind,
    },
    /// The thread's code has accessed a page that is not present.
    Faulted {
        thread: ThreadId,
    },
    /// TCP has sent a segment again.
    Retransmitted {
        cpu: CpuId,
    },
    /// The thread was ready to run and left its CPU idle: its share of CPU time is used up.
    Throttled {
        thread: ThreadId,
    },
    /// Events of packets or of work items are no longer recorded. What is in flight or queued now
    /// arrives without an event.
    SwitchedOff {
        packets: bool,
        works: bool,
    },
}

/// A receiver of what the state machine reports. All methods do nothing by default.
pub trait Watch {
    /// Reports a moment, in the order in which moments happen; all moments of one event have its
    /// time.
    #[inline]
    fn moment(&mut self, _moment: Moment) {}

    /// Reports what a CPU did. `base` is what runs below the interrupts; `mode` is the mode of the
    /// thread.
    fn occupied(&mut self, _cpu: CpuId, _by: Occupant, _base: Base, _mode: Mode, _begin_ns: i64, _end_ns: i64) {}

    /// Reports that `base` had `ns` of the time that was reported as unclaimed on this CPU, and
    /// `interrupts_ns` of the interrupts that were reported on an unknown base.
    fn claimed(&mut self, _cpu: CpuId, _base: Base, _ns: u64, _interrupts_ns: u64) {}

    /// Withdraws an interval that was reported as occupied: a loss that was reported late lies in
    /// it.
    fn retracted(&mut self, _cpu: CpuId, _by: Occupant, _base: Base, _mode: Mode, _begin_ns: i64, _end_ns: i64) {}

    /// Reports that a thread was in a state other than running.
    fn was(&mut self, _thread: ThreadId, _state: ThreadState, _begin_ns: i64, _end_ns: i64) {}

    /// Reports that a thread was blocked: the same interval as in [`Watch::was`], with its reason.
    fn blocked(&mut self, _thread: ThreadId, _why: BlockReason, _begin_ns: i64, _end_ns: i64) {}

    /// Reports that a thread waited in the queue of a CPU, for its whole wait or up to a migration.
    fn waited(&mut self, _wait: &CpuWait) {}

    fn started(&mut self, _start: &Start) {}

    /// Reports that a thread left its CPU; not called if the begin of that stay was not seen.
    /// `own_ns` is the duration of the stay without interrupts.
    fn stopped(&mut self, _thread: ThreadId, _cpu: CpuId, _begin_ns: i64, _end_ns: i64, _own_ns: u64) {}

    fn woken(&mut self, _thread: ThreadId, _wake: &Wake) {}

    fn handled(&mut self, _handling: &Handling) {}

    fn entered(&mut self, _thread: Option<ThreadId>, _name: NameId, _t_ns: i64) {}

    fn returned(&mut self, _call: &FinishedCall) {}

    /// Reports a change of the CPUs on which the thread may run: the newest of the changes of
    /// [`crate::linux::Thread::mask`], or the first one beyond the limit of recorded changes.
    fn allowed(&mut self, _thread: ThreadId, _t_ns: i64) {}

    /// Withdraws the newest of those changes: it was not a change of this thread.
    fn disallowed(&mut self, _thread: ThreadId) {}

    /// Reports a page fault.
    fn faulted(&mut self, _thread: Option<ThreadId>, _name: NameId, _t_ns: i64) {}

    /// Reports that a thread freed memory itself because none was free: direct reclaim, or
    /// compaction.
    fn reclaimed(&mut self, _thread: ThreadId, _begin_ns: i64, _end_ns: i64) {}

    /// Reports a call of a timer's function.
    fn expired(&mut self, _expiry: &Expiry) {}

    /// Reports a step of a packet, also before the requested range.
    fn hopped(&mut self, _hop: &Hop<'_>) {}
}

/// Ignores all reports.
impl Watch for () {}

/// The methods of a [`Watch`] that passes each report on. For each of them, the macro `$each` gets
/// the call `self.method(arguments)` and expands to the calls of that method of the receivers.
macro_rules! pass_on {
    ($each:ident) => {
        #[inline]
        fn moment(&mut self, moment: Moment) {
            $each!(self.moment(moment));
        }

        #[inline]
        fn occupied(&mut self, cpu: CpuId, by: Occupant, base: Base, mode: Mode, begin_ns: i64, end_ns: i64) {
            $each!(self.occupied(cpu, by, base, mode, begin_ns, end_ns));
        }

        #[inline]
        fn claimed(&mut self, cpu: CpuId, base: Base, ns: u64, interrupts_ns: u64) {
            $each!(self.claimed(cpu, base, ns, interrupts_ns));
        }

        #[inline]
        fn retracted(&mut self, cpu: CpuId, by: Occupant, base: Base, mode: Mode, begin_ns: i64, end_ns: i64) {
            $each!(self.retracted(cpu, by, base, mode, begin_ns, end_ns));
        }

        #[inline]
        fn was(&mut self, thread: ThreadId, state: ThreadState, begin_ns: i64, end_ns: i64) {
            $each!(self.was(thread, state, begin_ns, end_ns));
        }

        #[inline]
        fn blocked(&mut self, thread: ThreadId, why: BlockReason, begin_ns: i64, end_ns: i64) {
            $each!(self.blocked(thread, why, begin_ns, end_ns));
        }

        #[inline]
        fn waited(&mut self, wait: &CpuWait) {
            $each!(self.waited(wait));
        }

        #[inline]
        fn started(&mut self, start: &Start) {
            $each!(self.started(start));
        }

        #[inline]
        fn stopped(&mut self, thread: ThreadId, cpu: CpuId, begin_ns: i64, end_ns: i64, own_ns: u64) {
            $each!(self.stopped(thread, cpu, begin_ns, end_ns, own_ns));
        }

        #[inline]
        fn woken(&mut self, thread: ThreadId, wake: &Wake) {
            $each!(self.woken(thread, wake));
        }

        #[inline]
        fn handled(&mut self, handling: &Handling) {
            $each!(self.handled(handling));
        }

        #[inline]
        fn entered(&mut self, thread: Option<ThreadId>, name: NameId, t_ns: i64) {
            $each!(self.entered(thread, name, t_ns));
        }

        #[inline]
        fn returned(&mut self, call: &FinishedCall) {
            $each!(self.returned(call));
        }

        #[inline]
        fn allowed(&mut self, thread: ThreadId, t_ns: i64) {
            $each!(self.allowed(thread, t_ns));
        }

        #[inline]
        fn disallowed(&mut self, thread: ThreadId) {
            $each!(self.disallowed(thread));
        }

        #[inline]
        fn faulted(&mut self, thread: Option<ThreadId>, name: NameId, t_ns: i64) {
            $each!(self.faulted(thread, name, t_ns));
        }

        #[inline]
        fn reclaimed(&mut self, thread: ThreadId, begin_ns: i64, end_ns: i64) {
            $each!(self.reclaimed(thread, begin_ns, end_ns));
        }

        #[inline]
        fn expired(&mut self, expiry: &Expiry) {
            $each!(self.expired(expiry));
        }

        #[inline]
        fn hopped(&mut self, hop: &Hop<'_>) {
            $each!(self.hopped(hop));
        }
    };
}

macro_rules! to_both {
    ($self:ident.$method:ident($($argument:ident),*)) => {
        $self.0.$method($($argument),*);
        $self.1.$method($($argument),*);
    };
}

/// Passes each report to two receivers.
impl<A: Watch, B: Watch> Watch for (A, B) {
    pass_on!(to_both);
}

macro_rules! to_borrowed {
    ($self:ident.$method:ident($($argument:ident),*)) => {
        (**$self).$method($($argument),*)
    };
}

impl<W: Watch> Watch for &mut W {
    pass_on!(to_borrowed);
}

macro_rules! to_present {
    ($self:ident.$method:ident($($argument:ident),*)) => {
        if let Some(watch) = $self {
            watch.$method($($argument),*);
        }
    };
}

/// Passes the reports on if there is a receiver.
impl<W: Watch> Watch for Option<W> {
    pass_on!(to_present);
}

/// The kernel's name of the softirq with this number.
pub(crate) fn softirq_name(number: i64) -> Option<&'static str> {
    const NAMES: [&str; 10] = ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    usize::try_from(number).ok().and_then(|number| NAMES.get(number).copied())
}

impl Key {
    /// The softirq in which the kernel receives packets.
    pub const NET_RX_SOFTIRQ: Key = Key::Softirq(3);
    /// Numbers of softirqs, as in the kernel's `enum` of them.
    pub(crate) const TIMER_SOFTIRQ: i64 = 1;
    pub(crate) const HRTIMER_SOFTIRQ: i64 = 8;
    pub(crate) const RCU_SOFTIRQ: i64 = 9;

    pub fn is_softirq(self) -> bool {
        matches!(self, Key::Softirq(_))
    }
}
