//! The purpose of each system call, as far as an analysis depends on it.
//!
//! The kernel's interface identifies a call by its name. Names of calls are compared only here and
//! where the model follows what a call changes (`linux/calls/files.rs`, `linux/calls/masks.rs`,
//! `linux/calls/pid_namespace.rs`); all others compare families. For example, `epoll_wait` and
//! `select` are both [`CallFamily::WaitForEvents`].

/// A group of calls that an analysis treats alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallFamily {
    /// Returns at a time that the caller sets, or at a signal.
    Sleep,
    /// Returns when one of several files or timers is ready.
    WaitForEvents,
    /// Waits for, or wakes, threads of a program by an address: locks and conditions.
    Futex,
    /// Locks a file, among other operations.
    FileLock,
    /// Returns when written data is on the disk.
    Sync,
    /// Returns when a signal has arrived.
    WaitForSignal,
    /// Returns when a child has changed its state.
    WaitForChild,
    /// Sets a timer that sends a signal when it expires.
    SetTimer,
    /// Any other call.
    Other,
}

impl CallFamily {
    /// The family of the call with this name.
    pub fn of(name: &str) -> CallFamily {
        match name {
            "nanosleep" | "clock_nanosleep" => CallFamily::Sleep,
            "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" | "select" | "pselect6" => CallFamily::WaitForEvents,
            "futex" | "futex_wait" | "futex_waitv" | "futex_wake" | "futex_requeue" => CallFamily::Futex,
            "flock" | "fcntl" => CallFamily::FileLock,
            "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync" => CallFamily::Sync,
            "pause" | "rt_sigsuspend" | "rt_sigtimedwait" => CallFamily::WaitForSignal,
            "wait4" | "waitid" => CallFamily::WaitForChild,
            "alarm" | "setitimer" | "timer_settime" => CallFamily::SetTimer,
            _ => CallFamily::Other,
        }
    }
}

/// True if the caller can limit the wait by a timeout.
pub fn takes_a_timeout(name: &str) -> bool {
    let is_waker = matches!(name, "futex_wake" | "futex_requeue");
    match CallFamily::of(name) {
        CallFamily::WaitForEvents => true,
        CallFamily::Futex => !is_waker,
        _ => matches!(
            name,
            "rt_sigtimedwait"
                | "io_getevents"
                | "io_pgetevents"
                | "io_uring_enter"
                | "semtimedop"
                | "mq_timedreceive"
                | "mq_timedsend"
                | "recvmmsg"
        ),
    }
}

/// What a call can send a signal to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalTarget {
    Thread,
    ProcessOrGroup,
}

/// What a call with this name can send a signal to; `None` if it sends none.
pub fn signal_target(name: &str) -> Option<SignalTarget> {
    match name {
        "kill" => Some(SignalTarget::ProcessOrGroup),
        "tkill" | "tgkill" => Some(SignalTarget::Thread),
        _ => None,
    }
}

/// True if the call ends its thread or process.
pub fn ends_the_caller(name: &str) -> bool {
    matches!(name, "exit" | "exit_group")
}

/// True if the first argument may be a file descriptor, and is not a process, an address or the
/// like.
pub fn may_be_about_a_file(name: &str) -> bool {
    let is_about_a_process = matches!(name, "kill" | "tkill" | "tgkill" | "sched_setaffinity" | "sched_getaffinity" | "prlimit64");
    !is_about_a_process && !matches!(CallFamily::of(name), CallFamily::Futex | CallFamily::WaitForChild)
}

/// True if a call with this name only sleeps when it is given no files, for example `select` with
/// zero files.
pub fn sleeps_without_files(name: &str) -> bool {
    matches!(name, "select" | "pselect6" | "poll" | "ppoll")
}

/// True if the second argument is an operation on a futex (`FUTEX_WAIT`, `FUTEX_WAKE`, …). Each of
/// the newer calls does one operation.
pub fn takes_a_futex_operation(name: &str) -> bool {
    name == "futex"
}
