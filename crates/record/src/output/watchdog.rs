//! Ends a recorder that its disk holds for good.
//!
//! A write to a file system that does not answer (a server that went away, a daemon of FUSE that stands still) returns when it answers, and until
//! then no handler of a signal runs: whoever wants such a recorder to end would see nothing happen. So a thread looks once a second. Where the end was asked
//! for and the recorder has not run at all for some seconds, it says so and ends the process, as a kill would: the recording can be read as far as it
//! was written, and the next recorder takes up what programs still hold. Where the kernel lets nobody go who waits for that file system, not even
//! who is killed, the process is gone at its first answer.

use crate::control::stop::{asked, ENDING};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

const PAUSE: Duration = Duration::from_secs(1);
/// Looks at which it stood at the same place.
const PATIENCE: u32 = 5;

static BEGUN: Once = Once::new();

/// Watches the thread that calls it, for as long as the process lives.
pub(crate) fn watch(recording: &Path) {
    BEGUN.call_once(|| {
        let (tid, recording) = (rustix::thread::gettid().as_raw_nonzero(), recording.to_owned());
        // Without it the recorder is as it was.
        let _ = std::thread::Builder::new().name("longpole-stuck".to_owned()).spawn(move || look(tid.get(), &recording));
    });
}

fn look(tid: i32, recording: &PathBuf) {
    // Signals are for the thread that is watched.
    // SAFETY: a filled set of this thread's own.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
    let (mut before, mut times) = (None, 0);
    loop {
        std::thread::sleep(PAUSE);
        let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap_or_default();
        let now = Standing::of(&text);
        times = if now.is_some() && now == before { times + 1 } else { 0 };
        before = now;
        if times >= PATIENCE {
            eprintln!(
                "longpole: the disk of {} does not answer, and the end was asked for: the recording ends where it is. What programs still hold is in \
                 the next one",
                recording.display()
            );
            // SAFETY: ends the process at once; nothing of it is needed any more.
            unsafe { libc::_exit(128 + libc::SIGINT) };
        }
    }
}

/// Where a thread stands that waits uninterruptibly although it was told to end.
#[derive(Debug, PartialEq, Eq)]
struct Standing {
    switches: u64,
}

impl Standing {
    /// None: it does not.
    fn of(status: &str) -> Option<Standing> {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let pending = u64::from_str_radix(field("ShdPnd:")?, 16).ok()?;
        let told = asked() || ENDING.iter().any(|signal| pending >> (signal - 1) & 1 != 0);
        let waits = field("State:")?.starts_with('D');
        let switches = field("voluntary_ctxt_switches:")?.parse().ok()?;
        (told && waits).then_some(Standing { switches })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_told_to_end_and_waits_uninterruptibly_stands() {
        let status = |state, pending| {
            format!("Name:\tx\nState:\t{state}\nShdPnd:\t{pending}\nvoluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t3\n")
        };
        assert_eq!(Standing::of(&status("D (disk sleep)", "0000000000000002")), Some(Standing { switches: 17 }));
        assert_eq!(Standing::of(&status("D (disk sleep)", "0000000000004000")), Some(Standing { switches: 17 }));
        assert_eq!(Standing::of(&status("D (disk sleep)", "0000000000000000")), None);
        assert_eq!(Standing::of(&status("S (sleeping)", "0000000000000002")), None);
        assert_eq!(Standing::of(""), None);
    }
}
