//! What is remembered of each CPU, thread and interrupt context between two events.

use super::files::Arguments;
use super::masks::{Cpus, Mask};
use super::numbers::Numbers;
use crate::linux::kernel_rules::Key;
use crate::linux::loss::Silences;
use crate::linux::watch::{Base, Cause, ContextId, CpuId, Mode, Occupant, Reason, ThreadId, ThreadState, Wake};
use crate::names::NameId;

#[derive(Debug)]
pub struct Cpu {
    pub number: u32,
    pub(crate) since_ns: i64,
    pub(crate) base: Base,
    pub(crate) open: Vec<Open>,
    /// Of its last event, whatever that told.
    pub(super) seen_ns: i64,
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
    pub(super) fn occupant(&self) -> Occupant {
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
    pub(super) ns: u64,
    pub(super) interrupts_ns: u64,
    pub(super) mode: Option<(Mode, Option<Entered>)>,
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
    pub(crate) id: ContextId,
    pub(super) began_ns: i64,
    pub(super) own_ns: u64,
    pub(super) raised_ns: Option<i64>,
    pub(super) seen: bool,
}

#[derive(Clone, Debug)]
pub struct Context {
    pub key: Key,
    /// `irq 36 eth0`, `softirq NET_RX`, `local_timer`.
    pub name: String,
    /// The CPUs on which it may be handled, as the dump told.
    pub allowed: Option<Cpus>,
}

#[derive(Debug)]
pub struct Thread {
    pub tid: i32,
    /// The id of its process, if anything told it.
    pub process: Option<i32>,
    /// The first thread of its process, where its birth was seen: process ids are used again. None: the process was there when the trace began.
    pub leader: Option<ThreadId>,
    pub name: Vec<u8>,
    /// None: it was there when the trace began.
    pub born_ns: Option<i64>,
    pub died_ns: Option<i64>,
    pub(crate) state: ThreadState,
    pub(crate) since_ns: i64,
    /// Where it runs, ran, or stands in the queue.
    pub(crate) cpu: Option<CpuId>,
    pub(super) queued_ns: i64,
    pub(crate) wake: Option<Wake>,
    /// A wake-up of a thread that is not known to be blocked.
    pub(crate) early: Option<Wake>,
    pub(crate) mode: Mode,
    pub(crate) call: Option<Entered>,
    pub(crate) began_ns: Option<i64>,
    pub(super) own_ns: u64,
    pub(super) exiting: bool,
    /// Another program than its parent.
    pub(crate) executed: bool,
    /// One of the kernel's own.
    pub kernel: bool,
    /// On which CPUs it may run.
    pub mask: Mask,
    /// Its priority at the last switch to or from it, the smaller the more important. The kernel's
    /// own numbers and LTTng's differ by a constant.
    pub priority: Option<i32>,
    /// When it began to free memory.
    pub(crate) reclaims_since: Option<i64>,
    /// By whose numbers it knows other threads.
    pub(super) numbers: Numbers,
    /// Why it is blocked.
    pub(super) cause: Cause,
    /// It has asked a block device for something since it has its CPU.
    pub(super) asked_disk: bool,
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
            early: None,
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
            numbers: Numbers::default(),
            cause: Cause::Unknown,
            asked_disk: false,
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

/// `prev_state` of a switch, as LTTng writes it: 0 for a thread that could go on, else the kernel's task state, maybe with bits that say more.
pub(super) fn state_of(state: i64, exiting: bool) -> ThreadState {
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
