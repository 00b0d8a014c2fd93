//! What the state machine remembers about each CPU, thread and interrupt context between two
//! events.

use super::calls::files::Arguments;
use super::calls::masks::{CpuSet, Mask};
use super::calls::pid_namespace::PidNamespace;
use crate::linux::loss::Silences;
use crate::linux::meaning::Key;
use crate::linux::watch::{Base, BlockCause, ContextId, CpuId, Mode, Occupant, TaskState, ThreadId, ThreadState, Wake};
use crate::names::NameId;

/// The state of a CPU: its base (a thread or idleness), and the open interrupts on top of it.
#[derive(Debug)]
pub struct Cpu {
    pub number: u32,
    /// End of the last reported interval.
    pub(crate) since_ns: i64,
    pub(crate) base: Base,
    pub(crate) open: Vec<OpenContext>,
    /// Time of the CPU's last event of any kind, in ns like all times here.
    pub(super) seen_ns: i64,
    /// Time since the base became unknown, which is not assigned to a thread yet.
    pub(crate) unclaimed: Unclaimed,
    /// True if nothing has been seen since the trace began, or since a loss.
    pub(crate) fresh: bool,
    /// Times at which softirqs were raised that have not run yet, by the softirq's number.
    pub(crate) raised: [Option<i64>; 32],
    pub(crate) silences: Silences,
    /// For an idle CPU: the time since which a thread waits in its queue. From then on that thread
    /// may already be running.
    pub(crate) ready_ns: Option<i64>,
    /// True if the CPU was idle and its base is unknown only because a thread has waited in its
    /// queue since (see `ready_ns`).
    pub(crate) inferred_busy: bool,
    pub lost: u64,
}

impl Cpu {
    pub(super) fn occupant(&self) -> Occupant {
        match (self.open.last(), self.base) {
            (Some(open), _) => Occupant::Context(open.id),
            (None, Base::Unknown) => Occupant::Unclaimed,
            (None, Base::Idle) => Occupant::Idle,
            (None, Base::Thread(thread)) => Occupant::Thread(thread),
        }
    }
}

/// Time of a CPU that is not assigned to a thread yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unclaimed {
    pub since_ns: i64,
    /// Time of the base, and of interrupts on top of it, that was reported since.
    pub(super) ns: u64,
    pub(super) interrupts_ns: u64,
    pub(super) mode: Option<(Mode, Option<OpenCall>)>,
}

impl Unclaimed {
    pub fn since(since_ns: i64) -> Unclaimed {
        Unclaimed { since_ns, ..Unclaimed::default() }
    }
}

/// A system call that has not returned yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenCall {
    pub name: NameId,
    /// Time of entry; `None` if it was before the trace began.
    pub t_ns: Option<i64>,
    pub arguments: Arguments,
}

/// A context that is open on a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenContext {
    pub(crate) id: ContextId,
    pub(super) began_ns: i64,
    /// Time that it had without the contexts on top of it.
    pub(super) own_ns: u64,
    pub(super) raised_ns: Option<i64>,
    /// True if its begin was seen.
    pub(super) seen: bool,
}

/// An interrupt vector or softirq.
#[derive(Clone, Debug)]
pub struct Context {
    pub key: Key,
    /// Name like `irq 36 eth0`, `softirq NET_RX`, `local_timer`.
    pub name: String,
    /// True if timers run in it. For an interrupt, only its name shows that.
    pub(crate) runs_timers: bool,
    /// The CPUs on which it may be handled, from the dump of the system's state.
    pub allowed: Option<CpuSet>,
}

impl Context {
    /// Returns true if timers run in it.
    pub fn runs_timers(&self) -> bool {
        self.runs_timers
    }
}

/// The state of a thread.
#[derive(Debug)]
pub struct Thread {
    pub tid: i32,
    /// The id of its process, if known.
    pub process: Option<i32>,
    /// The first thread of its process, if its birth was seen; needed because process ids are
    /// reused. `None` if the process existed when the trace began.
    pub leader: Option<ThreadId>,
    pub name: Vec<u8>,
    /// Time of birth; `None` if the thread existed when the trace began.
    pub born_ns: Option<i64>,
    pub died_ns: Option<i64>,
    pub(crate) state: ThreadState,
    /// Time since which it is in this state, or the end of the last reported interval.
    pub(crate) since_ns: i64,
    /// The CPU on which it runs or last ran, or in whose queue it waits.
    pub(crate) cpu: Option<CpuId>,
    /// Time at which it entered the queue of `cpu`.
    pub(super) queued_ns: i64,
    /// The wake-up that made it runnable.
    pub(crate) wake: Option<Wake>,
    /// A wake-up that came while the thread was not known to be blocked.
    pub(crate) early_wake: Option<Wake>,
    pub(crate) mode: Mode,
    pub(crate) call: Option<OpenCall>,
    /// Time at which it got its CPU, if that was seen, and its time there without interrupts.
    pub(crate) began_ns: Option<i64>,
    pub(super) own_ns: u64,
    pub(super) exiting: bool,
    /// True if it executes another program than its parent.
    pub(crate) executed: bool,
    /// True for a kernel thread.
    pub kernel: bool,
    /// The CPUs on which it may run.
    pub mask: Mask,
    /// Its priority at the last switch to or from it; a smaller number is more important. The
    /// kernel's own numbers and LTTng's differ by a constant.
    pub priority: Option<i32>,
    /// Time at which it began to free memory.
    pub(crate) reclaims_since: Option<i64>,
    /// The pid namespace in which it numbers other threads.
    pub(super) pid_namespace: PidNamespace,
    /// The reason of its block.
    pub(super) block_cause: BlockCause,
    /// True if it has sent a request to a block device since it got its CPU.
    pub(super) requested_disk: bool,
}

impl Default for Thread {
    fn default() -> Thread {
        Thread {
            tid: 0,
            process: None,
            leader: None,
            name: Vec::new(),
            born_ns: None,
            died_ns: None,
            state: ThreadState::Unknown,
            since_ns: 0,
            cpu: None,
            queued_ns: 0,
            wake: None,
            early_wake: None,
            mode: Mode::Unknown,
            call: None,
            began_ns: None,
            own_ns: 0,
            exiting: false,
            executed: false,
            kernel: false,
            mask: Mask::default(),
            priority: None,
            reclaims_since: None,
            pid_namespace: PidNamespace::default(),
            block_cause: BlockCause::Unknown,
            requested_disk: false,
        }
    }
}

impl Thread {
    pub fn name(&self) -> String {
        match self.name.as_slice() {
            [] => format!("tid {}", self.tid),
            name => String::from_utf8_lossy(name).into_owned(),
        }
    }
}

/// The state that `prev_state` of a switch means, as LTTng writes it: 0 for a thread that is ready
/// to run, else the task state of the kernel, possibly with further bits.
pub(super) fn state_of(state: i64, exiting: bool) -> ThreadState {
    match state & 0xff {
        // A thread that exits may still wait for something. (Kernels before 4.14 use other numbers
        // for the end of a thread.)
        state if exiting && state & 0xff != 0 && state & 0x0f == 0 => ThreadState::Dead,
        0 => ThreadState::Preempted,
        state if state & 0x30 != 0 => ThreadState::Dead,
        state if state & 0x02 != 0 => ThreadState::Blocked(TaskState::Uninterruptible),
        state if state & 0x0c != 0 => ThreadState::Blocked(TaskState::Stopped),
        state if state & 0x01 != 0 => ThreadState::Blocked(TaskState::Interruptible),
        _ => ThreadState::Blocked(TaskState::Parked),
    }
}
