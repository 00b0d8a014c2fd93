//! What the Linux state machine tells while it runs: whole pieces of time, and the moments at which something ended.
//!
//! Everything is told when it is over, since only then it is known. Times are clipped to the range that was asked for; pieces of no length are
//! not told. An analysis keeps sums of what it hears; names are looked up in [`crate::linux::Linux`] at the end.

use crate::linux::kernel_rules::Key;
use crate::linux::net::Hop;
use crate::linux::{Arguments, FileKind};
use crate::names::NameId;
use std::sync::Arc;

/// A thread. Index into [`crate::linux::Linux::threads`]. A thread id that the kernel gives away a second time is a second thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

/// An interrupt vector or softirq. Index into [`crate::linux::Linux::contexts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u32);

/// Index into [`crate::linux::Linux::cpus`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuId(pub u32);

/// What a CPU runs below all interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// Some thread or idleness; the next switch will tell which.
    Unknown,
    Idle,
    Thread(ThreadId),
}

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Occupant {
    Idle,
    Thread(ThreadId),
    /// The innermost of the open ones.
    Context(ContextId),
    /// Whose time it was is told later by [`Watch::claimed`], or never.
    Unclaimed,
    /// Events are missing.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// No system call of this thread has been seen.
    #[default]
    Unknown,
    User,
    Syscall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ThreadState {
    #[default]
    Unknown,
    /// Also while an interrupt lies on top.
    Running,
    /// Woken and waiting for its CPU.
    Runnable,
    /// Put off its CPU although it could go on.
    Preempted,
    Blocked(Reason),
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    Interruptible,
    /// Mostly for a device or a lock of the kernel.
    Uninterruptible,
    Stopped,
    /// Of the kernel's own threads: parked or idle.
    Parked,
}

/// Why a thread does not go on, as far as the events tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Why {
    pub state: Reason,
    pub cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    Unknown,
    /// In a system call, about a file of this kind if it is about one that is known.
    Call(NameId, Option<FileKind>),
    /// After a request to a block device.
    Disk(Option<NameId>),
    /// In no system call, and not stopped: a page is missing.
    Fault,
    /// A thread of the kernel's own.
    Kernel,
}

/// A mask of CPUs was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowing {
    pub t_ns: i64,
    /// None: the call told an address only, and nobody could be asked.
    pub cpus: Option<Arc<[u32]>>,
    /// Why not, where something told.
    pub why: Option<Untold>,
    /// Who set it.
    pub by: Option<ThreadId>,
}

/// Why a mask is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untold {
    /// Changed again before there was an answer.
    Again,
    /// While the thread was asked.
    Changing,
    /// The thread was asked, and was gone.
    Gone,
    /// The answer is none.
    Damaged,
    /// At the end it was another one, and no call told.
    AtEnd,
    /// Somebody in another pid namespace has changed the mask of one of its threads, and nothing tells which.
    ForeignRuntime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    Thread(ThreadId),
    Context {
        id: ContextId,
        began_ns: i64,
    },
    /// In the idle thread: an interrupt that is not traced.
    Idle,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    pub t_ns: i64,
    /// Where the waker ran.
    pub cpu: CpuId,
    pub waker: Waker,
}

/// A thread stood in a CPU's queue.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    pub thread: ThreadId,
    pub tid: i32,
    pub cpu: CpuId,
    pub preempted: bool,
    pub begin_ns: i64,
    pub end_ns: i64,
    /// What the CPU does, by what is known now, since the end of the last piece that was told of it. To tell it would be too early: events of that
    /// CPU may be missing.
    pub now: Occupant,
    pub now_since_ns: i64,
}

/// A thread got its CPU after it had waited for it.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub t_ns: i64,
    pub thread: ThreadId,
    pub cpu: CpuId,
    /// When it could have run.
    pub ready_ns: i64,
    /// It waited because another was preferred, not because it had been woken.
    pub preempted: bool,
    pub wake: Option<Wake>,
}

/// One handling of an interrupt or softirq, over.
#[derive(Clone, Copy, Debug)]
pub struct Handling {
    pub context: ContextId,
    pub cpu: CpuId,
    pub begin_ns: i64,
    pub end_ns: i64,
    /// Without the contexts that lay on top of it.
    pub own_ns: u64,
    /// For a softirq whose raise was seen.
    pub raised_ns: Option<i64>,
    /// What it lay on, below all interrupts.
    pub base: Base,
}

/// One call of a timer's function, over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    pub cpu: CpuId,
    /// Its address.
    pub function: Option<u64>,
    /// Of the kernel's fine timers (hrtimers), not of those that count ticks.
    pub fine: bool,
    pub begin_ns: i64,
    pub end_ns: i64,
    /// From the moment that it was set for. None: its start was not seen, or is told in ticks.
    pub late_ns: Option<i64>,
}

/// One system call, over.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// None: by a thread that no switch has named yet.
    pub thread: Option<ThreadId>,
    pub name: NameId,
    /// None: it was entered before the trace began, or where events are missing.
    pub begin_ns: Option<i64>,
    pub end_ns: i64,
    pub result: Option<i64>,
    pub arguments: Arguments,
}

/// What a timer of the kernel's is for, by its function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimerKind {
    /// The trace does not name the function.
    #[default]
    Unknown,
    /// It wakes a thread, or sends it a signal, at a time that a thread has set.
    Own,
    DelayedAck,
    /// TCP sends again, or asks whether the receiver's window is still closed; the function is the same.
    Transmission,
    Retransmission,
    Keepalive,
    Pacing,
    RateLimit,
    QuotaRefill,
    IoQuota,
    DelayedWork,
    /// Another one of the kernel's own.
    Kernel,
}

impl TimerKind {
    /// As `rules/linux.toml` names them.
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

/// What happens now, for those who ask who moves whom. Told for all of the trace, also before the range that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The thread has a CPU. `wake`: by what it could run, where that was not told before.
    Runs {
        thread: ThreadId,
        wake: Option<Wake>,
    },
    /// It has left its CPU, or is known to have left it before the trace began.
    Left {
        thread: ThreadId,
        state: ThreadState,
    },
    /// It is blocked no more.
    Woken {
        thread: ThreadId,
        wake: Wake,
    },
    /// It entered a system call, or returned, or executes another program.
    Mode {
        thread: ThreadId,
    },
    /// What it does is not known from here on.
    Unsure {
        thread: ThreadId,
    },
    /// Events of its CPU are missing, from then until now.
    Lost {
        thread: ThreadId,
        begin_ns: i64,
    },
    Forked {
        thread: ThreadId,
        parent: Option<ThreadId>,
    },
    /// It ends because of a signal that another one sent at that time.
    Killed {
        thread: ThreadId,
        by: ThreadId,
        t_ns: i64,
    },
    /// A softirq shall be handled on this CPU.
    Raised {
        cpu: CpuId,
        number: u8,
        by: Waker,
    },
    /// A request goes to a block device, or is done.
    Issued {
        cpu: CpuId,
        device: i64,
        sector: i64,
        by: Waker,
    },
    Completed {
        cpu: CpuId,
        device: i64,
        sector: i64,
        by: Waker,
    },
    /// A worker of the kernel shall do something, or begins with it.
    WorkQueued {
        cpu: CpuId,
        work: u64,
        by: Waker,
    },
    WorkBegins {
        thread: ThreadId,
        work: u64,
    },
    /// A timer of the kernel's, or its function is called.
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
    /// Its code has touched a page that is missing.
    Faulted {
        thread: ThreadId,
    },
    /// TCP has sent a segment again.
    Retransmitted {
        cpu: CpuId,
    },
    /// It could go on and has left its CPU to nobody: its share of CPU time is used up.
    Throttled {
        thread: ThreadId,
    },
    /// What is under way now arrives without an event: no more of these are recorded.
    SwitchedOff {
        packets: bool,
        works: bool,
    },
}

/// One who listens. All that it does not care for is empty.
pub trait Watch {
    /// In the order in which they happen; all of an event have its time.
    #[inline]
    fn moment(&mut self, _moment: Moment) {}

    /// `base` is what lies below the interrupts. `mode` is that of the thread.
    fn occupied(&mut self, _cpu: CpuId, _by: Occupant, _base: Base, _mode: Mode, _begin_ns: i64, _end_ns: i64) {}

    /// So much of what was told as unclaimed on this CPU, and of what interrupts lay on unknown ground, belongs to `base`.
    fn claimed(&mut self, _cpu: CpuId, _base: Base, _ns: u64, _interrupts_ns: u64) {}

    /// A loss that was told late lies in this piece, which was told as somebody's.
    fn retracted(&mut self, _cpu: CpuId, _by: Occupant, _base: Base, _mode: Mode, _begin_ns: i64, _end_ns: i64) {}

    /// A thread was in a state other than running.
    fn was(&mut self, _thread: ThreadId, _state: ThreadState, _begin_ns: i64, _end_ns: i64) {}

    /// A thread was blocked: what [`Watch::was`] tells, with its reason.
    fn blocked(&mut self, _thread: ThreadId, _why: Why, _begin_ns: i64, _end_ns: i64) {}

    /// A thread stood in the queue of a CPU, for the whole of its wait or up to a migration.
    fn waited(&mut self, _wait: &Wait) {}

    fn started(&mut self, _start: &Start) {}

    /// A thread left its CPU. `own_ns`: its stay without interrupts; none if its begin was not seen.
    fn stopped(&mut self, _thread: ThreadId, _cpu: CpuId, _begin_ns: i64, _end_ns: i64, _own_ns: u64) {}

    fn woken(&mut self, _thread: ThreadId, _wake: &Wake) {}

    fn handled(&mut self, _handling: &Handling) {}

    fn entered(&mut self, _thread: Option<ThreadId>, _name: NameId, _t_ns: i64) {}

    fn returned(&mut self, _call: &Call) {}

    /// It was told where the thread may run; the newest of the changes of [`crate::linux::Thread::mask`], or the first one that is not kept.
    fn allowed(&mut self, _thread: ThreadId, _t_ns: i64) {}

    /// The newest of those changes was none of this thread.
    fn disallowed(&mut self, _thread: ThreadId) {}

    /// A page was missing.
    fn faulted(&mut self, _thread: Option<ThreadId>, _name: NameId, _t_ns: i64) {}

    /// A thread freed memory itself, since there was none: direct reclaim, or compaction.
    fn reclaimed(&mut self, _thread: ThreadId, _begin_ns: i64, _end_ns: i64) {}

    /// A timer's function was called.
    fn expired(&mut self, _expiry: &Expiry) {}

    /// A packet made a step. Told also where it lies before the range that was asked for.
    fn hopped(&mut self, _hop: &Hop<'_>) {}
}

/// Nobody listens.
impl Watch for () {}

/// Two who listen to the same.
impl<A: Watch, B: Watch> Watch for (&mut A, &mut B) {
    #[inline]
    fn moment(&mut self, moment: Moment) {
        self.0.moment(moment);
        self.1.moment(moment);
    }

    fn occupied(&mut self, cpu: CpuId, by: Occupant, base: Base, mode: Mode, begin_ns: i64, end_ns: i64) {
        self.0.occupied(cpu, by, base, mode, begin_ns, end_ns);
        self.1.occupied(cpu, by, base, mode, begin_ns, end_ns);
    }

    fn claimed(&mut self, cpu: CpuId, base: Base, ns: u64, interrupts_ns: u64) {
        self.0.claimed(cpu, base, ns, interrupts_ns);
        self.1.claimed(cpu, base, ns, interrupts_ns);
    }

    fn retracted(&mut self, cpu: CpuId, by: Occupant, base: Base, mode: Mode, begin_ns: i64, end_ns: i64) {
        self.0.retracted(cpu, by, base, mode, begin_ns, end_ns);
        self.1.retracted(cpu, by, base, mode, begin_ns, end_ns);
    }

    fn was(&mut self, thread: ThreadId, state: ThreadState, begin_ns: i64, end_ns: i64) {
        self.0.was(thread, state, begin_ns, end_ns);
        self.1.was(thread, state, begin_ns, end_ns);
    }

    fn blocked(&mut self, thread: ThreadId, why: Why, begin_ns: i64, end_ns: i64) {
        self.0.blocked(thread, why, begin_ns, end_ns);
        self.1.blocked(thread, why, begin_ns, end_ns);
    }

    fn waited(&mut self, wait: &Wait) {
        self.0.waited(wait);
        self.1.waited(wait);
    }

    fn started(&mut self, start: &Start) {
        self.0.started(start);
        self.1.started(start);
    }

    fn stopped(&mut self, thread: ThreadId, cpu: CpuId, begin_ns: i64, end_ns: i64, own_ns: u64) {
        self.0.stopped(thread, cpu, begin_ns, end_ns, own_ns);
        self.1.stopped(thread, cpu, begin_ns, end_ns, own_ns);
    }

    fn woken(&mut self, thread: ThreadId, wake: &Wake) {
        self.0.woken(thread, wake);
        self.1.woken(thread, wake);
    }

    fn handled(&mut self, handling: &Handling) {
        self.0.handled(handling);
        self.1.handled(handling);
    }

    fn entered(&mut self, thread: Option<ThreadId>, name: NameId, t_ns: i64) {
        self.0.entered(thread, name, t_ns);
        self.1.entered(thread, name, t_ns);
    }

    fn returned(&mut self, call: &Call) {
        self.0.returned(call);
        self.1.returned(call);
    }

    fn allowed(&mut self, thread: ThreadId, t_ns: i64) {
        self.0.allowed(thread, t_ns);
        self.1.allowed(thread, t_ns);
    }

    fn disallowed(&mut self, thread: ThreadId) {
        self.0.disallowed(thread);
        self.1.disallowed(thread);
    }

    fn faulted(&mut self, thread: Option<ThreadId>, name: NameId, t_ns: i64) {
        self.0.faulted(thread, name, t_ns);
        self.1.faulted(thread, name, t_ns);
    }

    fn reclaimed(&mut self, thread: ThreadId, begin_ns: i64, end_ns: i64) {
        self.0.reclaimed(thread, begin_ns, end_ns);
        self.1.reclaimed(thread, begin_ns, end_ns);
    }

    fn expired(&mut self, expiry: &Expiry) {
        self.0.expired(expiry);
        self.1.expired(expiry);
    }

    fn hopped(&mut self, hop: &Hop<'_>) {
        self.0.hopped(hop);
        self.1.hopped(hop);
    }
}

/// What a context is called.
pub(crate) fn softirq_name(number: i64) -> Option<&'static str> {
    const NAMES: [&str; 10] = ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    usize::try_from(number).ok().and_then(|number| NAMES.get(number).copied())
}

impl Key {
    pub fn is_softirq(self) -> bool {
        matches!(self, Key::Softirq(_))
    }
}
