//! What a kernel event means, independent of the tracer that recorded it.
//!
//! Rules give events their meaning ([`super::kernel_rules`]), which moves the state machine
//! ([`crate::linux`], `apply.rs`).
//!
//! Example: `sched_waking` of LTTng and of ftrace are both [`Meaning::Waking`].

use crate::linux::watch::RequestStep;
use crate::linux::{Answer, Arguments};
use crate::names::NameId;

/// The meaning of one kernel event. Texts borrow from the event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Meaning<'a> {
    Switch {
        tid: i32,
        name: &'a [u8],
        state: i64,
        to: i32,
        to_name: &'a [u8],
        /// Priority of the thread that leaves the CPU, like `to_priority` of the next one; a
        /// smaller number is more important.
        priority: Option<i64>,
        to_priority: Option<i64>,
    },
    /// The wake-up of a thread begins; `cpu` is the thread's last CPU. `in_interrupt` is true if
    /// the event says that an interrupt of a device or a timer wakes the thread.
    Waking {
        tid: i32,
        name: &'a [u8],
        cpu: Option<u32>,
        in_interrupt: bool,
    },
    /// The thread is in the queue of `cpu` now; `new` if it was just created.
    Woken {
        tid: i32,
        name: &'a [u8],
        cpu: Option<u32>,
        new: bool,
        in_interrupt: bool,
    },
    Migrate {
        tid: i32,
        cpu: u32,
    },
    Fork {
        parent: Option<i32>,
        tid: i32,
        process: Option<i32>,
        name: &'a [u8],
    },
    /// A thread executes another program. `tid` is `None` if the event does not name the thread;
    /// then it is the one that runs.
    Exec {
        tid: Option<i32>,
        /// The thread's id before: a thread that is not the leader of its process takes the id of
        /// the leader.
        before: Option<i32>,
        file: &'a [u8],
    },
    Exit {
        tid: i32,
    },
    /// The thread runs on this CPU, although the trace has no switch to it.
    Running {
        tid: i32,
    },
    /// The CPUs on which a thread may run since its mask was changed.
    Allowed(Answer<'a>),
    /// The CPUs on which a thread may run when the recording ends; for thread 0, the CPUs that are
    /// online then.
    AllowedAtEnd(Answer<'a>),
    /// Events of these classes are no longer recorded; for system calls, only those in `calls` are
    /// still recorded.
    SwitchedOff {
        what: &'a [u8],
        classes: &'a [u8],
        calls: &'a [u8],
        /// Time in ns between the change and this event.
        ago_ns: i64,
    },
    /// A thread in the dump of the system's state at the begin of the recording.
    Process {
        tid: i32,
        process: Option<i32>,
        parent: Option<i32>,
        name: &'a [u8],
        status: Option<i64>,
        cpu: Option<u32>,
        kernel: bool,
        /// The CPUs on which the thread may run, as a list like `0-3,5`.
        allowed: &'a [u8],
        /// Level of its pid namespace; 0 is the initial one.
        level: Option<i64>,
        /// The system call in which the thread was waiting, and its first argument.
        call: Option<(&'a [u8], Option<i64>)>,
    },
    /// An open file in the dump.
    File {
        process: i32,
        fd: i64,
        path: &'a [u8],
        flags: Option<i64>,
    },
    /// The name of a block device, in the dump.
    BlockDevice {
        device: i64,
        name: &'a [u8],
    },
    /// The script that this process's interpreter runs.
    Script {
        process: i32,
        name: &'a [u8],
    },
    /// The title that the process gave itself.
    Title {
        process: i32,
        name: &'a [u8],
    },
    /// The control group of the process.
    Cgroup {
        process: i32,
        path: &'a [u8],
    },
    IrqName {
        number: i64,
        name: &'a [u8],
        allowed: &'a [u8],
    },
    Raise {
        number: i64,
    },
    Enter(Key, &'a [u8]),
    Leave(Key),
    SyscallEnter {
        name: NameId,
        arguments: Arguments,
    },
    /// A signal was sent to a thread, or to the process of that thread.
    Signal {
        tid: i32,
        signal: i64,
    },
    SyscallLeave {
        name: NameId,
        result: Option<i64>,
    },
    /// A page fault occurred; `name` is its kind.
    Fault {
        name: NameId,
    },
    /// The thread sent a request to a block device.
    Disk,
    /// A step of a request to a block device.
    DiskRequest {
        step: RequestStep,
        device: i64,
        sector: i64,
    },
    /// A work item, identified by its address, was queued for a kernel worker, or a worker begins
    /// with it ([`Meaning::WorkBegins`]).
    WorkQueued {
        work: u64,
    },
    WorkBegins {
        work: u64,
    },
    /// A timer, identified by its address, was set. `at` is the expiry time in ns of the timer's
    /// own clock; `None` for timers without such a clock.
    TimerStart {
        timer: u64,
        at: Option<i64>,
    },
    TimerCancel {
        timer: u64,
    },
    TimerEnter {
        timer: u64,
        function: Option<u64>,
        now: Option<i64>,
    },
    TimerLeave {
        timer: u64,
    },
    /// The address of a kernel function, in the dump.
    Function {
        address: u64,
        name: &'a [u8],
    },
    /// TCP sends a segment again.
    Retransmit,
    /// The thread begins to free memory itself because none is free, or has finished doing so.
    Reclaim {
        begins: bool,
    },
}

/// An interrupt context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    Irq(i64),
    Softirq(i64),
    /// A vector of the CPU's own interrupt controller.
    Vector(NameId),
}
