//! Ends a recorder whose disk blocks it forever.
//!
//! A write to a file system that does not answer (a server that is gone, or a FUSE daemon that
//! hangs) returns only when the file system answers, and no signal handler runs until then. A user
//! who wants to stop such a recorder would see no reaction. Therefore a thread checks once a
//! second. If the end was requested and the recorder has been in the same call on a file next to
//! the recording for some seconds, the thread prints a message and ends the process, as a kill
//! would. The recording is readable up to the last write, and the next recorder takes the events
//! that are still in the rings. If the kernel does not even let a killed process leave its wait for
//! that file system, the process ends at the file system's first answer.
//!
//! Other calls may last for seconds, too, if the CPUs are overloaded: `membarrier`, the end of a
//! watch of directories or the removal of a tracefs instance wait until each CPU has been through
//! the scheduler (an RCU grace period). They are no waits for a disk.

use super::blocking_call::BlockingCall;
use crate::control::stop::{asked, END_SIGNALS};
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

const PAUSE: Duration = Duration::from_secs(1);
/// Number of consecutive checks in which the recorder has not run.
const MAX_MISSED_CHECKS: u32 = 5;

static BEGUN: Once = Once::new();

/// Watches the calling thread as long as the process lives.
pub(crate) fn watch(recording: &Path) {
    BEGUN.call_once(|| {
        let (tid, recording) = (rustix::thread::gettid().as_raw_nonzero(), recording.to_owned());
        // Without the watchdog, the recorder works as before.
        let _ = std::thread::Builder::new().name("longpole-stuck".to_owned()).spawn(move || look(tid.get(), &recording));
    });
}

fn look(tid: i32, recording: &Path) {
    let files = recording.parent().unwrap_or(recording);
    // Signals must be delivered to the watched thread.
    // SAFETY: a filled set that belongs to this thread.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
    let (mut before, mut times) = (None, 0);
    loop {
        std::thread::sleep(PAUSE);
        let read = |name: &str| std::fs::read_to_string(format!("/proc/self/task/{tid}/{name}")).unwrap_or_default();
        let now = UninterruptibleWait::of(&read("status"));
        times = if now.is_some() && now == before { times + 1 } else { 0 };
        before = now;
        if times >= MAX_MISSED_CHECKS && !BlockingCall::of(&read("syscall")).is_on_file_in(files) {
            times = 0;
        }
        if times >= MAX_MISSED_CHECKS {
            eprintln!(
                "longpole: the disk of {} does not answer, and the end was requested: the recording ends here. Events that programs still hold will be in the next recording",
                recording.display()
            );
            // SAFETY: ends the process at once; none of its state is needed any more.
            unsafe { libc::_exit(128 + libc::SIGINT) };
        }
    }
}

/// State of a thread that waits uninterruptibly although its end was requested.
#[derive(Debug, PartialEq, Eq)]
struct UninterruptibleWait {
    switches: u64,
}

impl UninterruptibleWait {
    /// `None` if the thread does not wait uninterruptibly, or if no end was requested.
    fn of(status: &str) -> Option<UninterruptibleWait> {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let pending = u64::from_str_radix(field("ShdPnd:")?, 16).ok()?;
        let asked = asked() || END_SIGNALS.iter().any(|signal| pending >> (signal - 1) & 1 != 0);
        let waits = field("State:")?.starts_with('D');
        let switches = field("voluntary_ctxt_switches:")?.parse().ok()?;
        (asked && waits).then_some(UninterruptibleWait { switches })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_uninterruptible_wait_after_a_request_to_end_counts_as_stuck() {
        let status = |state, pending| {
            format!("Name:\tx\nState:\t{state}\nShdPnd:\t{pending}\nvoluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t3\n")
        };
        let stuck = |state, pending| UninterruptibleWait::of(&status(state, pending));
        assert_eq!(stuck("D (disk sleep)", "0000000000000002"), Some(UninterruptibleWait { switches: 17 }));
        assert_eq!(stuck("D (disk sleep)", "0000000000004000"), Some(UninterruptibleWait { switches: 17 }));
        assert_eq!(stuck("D (disk sleep)", "0000000000000000"), None);
        assert_eq!(stuck("S (sleeping)", "0000000000000002"), None);
        assert_eq!(UninterruptibleWait::of(""), None);
    }
}
