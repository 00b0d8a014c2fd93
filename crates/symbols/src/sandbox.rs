//! A sandbox: processes foreign files in a separate process, item by item. Whatever a file does to
//! that process, only its own item is lost.
//!
//! The process reports the item that it works on. It is killed if it waits for something (a pipe, a
//! server that is gone) or works on one item for too long. The kernel ends it if it uses too much
//! CPU time or memory.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Usual limit of CPU time.
pub const MAX_CPU: Duration = Duration::from_secs(60);
/// Limit of the sandbox: bytes of memory except mapped files.
const MAX_MEMORY: u64 = 2 << 30;
/// Longest time without progress: if the process does not use the CPU, which may be due to a slow
/// disk, and if it does.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// CPU time since the last progress from which on the process counts as using the CPU.
const WORK_NS: i64 = 500_000_000;
/// Time between two checks of the process.
const PAUSE: Duration = Duration::from_millis(20);
/// Longest time for the process to end after it was killed.
const GRACE: Duration = Duration::from_secs(1);

/// Reason why the process did not finish.
#[derive(Debug, PartialEq, Eq)]
pub enum Why {
    /// The current item caused it.
    Item(String),
    /// The kernel ended it, because all items together used too much CPU time, or because the host
    /// has no memory left.
    Limit(String),
    /// The caller stopped it.
    Stopped,
    /// An error that further items would also cause.
    Failed(String),
}

/// Runs `work` in a separate process. `work` calls its argument with the number of each item that
/// it begins or makes progress with. An error contains the last of these numbers. `max_cpu` is the
/// limit of its CPU time.
pub fn run_in_sandbox(
    work: impl FnOnce(&mut dyn FnMut(usize)) -> io::Result<()>,
    max_cpu: Duration,
    end: Instant,
    stopped: &dyn Fn() -> bool,
) -> Result<(), (Option<usize>, Why)> {
    let (mut here, mut there) = UnixStream::pair().map_err(|error| (None, Why::Failed(format!("could not be started: {error}"))))?;
    // SAFETY: the child uses only this thread's memory and the files that it opens, and ends with
    // `_exit`.
    match unsafe { libc::fork() } {
        -1 => Err((None, Why::Failed(format!("could not be started: {}", io::Error::last_os_error())))),
        0 => {
            confine(max_cpu);
            let mut at = |item: usize| {
                let _ = there.write_all(&(item as u64).to_ne_bytes());
            };
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut at)));
            let status = match ended {
                Ok(Ok(())) => 0,
                Ok(Err(_)) => 2,
                Err(_) => 3,
            };
            // SAFETY: ends this process without running the parent's exit handlers.
            unsafe { libc::_exit(status) }
        }
        child => {
            drop(there);
            watch(child, &mut here, end, stopped)
        }
    }
}

/// Sets the limits of the child.
fn confine(max_cpu: Duration) {
    let limit = |resource, most: u64, hard: u64| {
        let limit = libc::rlimit { rlim_cur: most as libc::rlim_t, rlim_max: hard as libc::rlim_t };
        // SAFETY: only reads the limits that it is given.
        unsafe { libc::setrlimit(resource, &limit) };
    };
    // The hard limit sends the same signal as a host without memory.
    limit(libc::RLIMIT_CPU, max_cpu.as_secs(), max_cpu.as_secs() + 5);
    limit(libc::RLIMIT_DATA, MAX_MEMORY, MAX_MEMORY);
    limit(libc::RLIMIT_CORE, 0, 0);
    // SAFETY: requests a signal when the parent ends; touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    std::panic::set_hook(Box::new(|_| {}));
}

fn watch(child: libc::pid_t, channel: &mut UnixStream, end: Instant, stopped: &dyn Fn() -> bool) -> Result<(), (Option<usize>, Why)> {
    let _ = channel.set_read_timeout(Some(PAUSE));
    let (mut at, mut since, mut used, mut pending) = (None, Instant::now(), cpu_ns(child), Vec::new());
    loop {
        let mut bytes = [0; 4096];
        match channel.read(&mut bytes) {
            // The child closed its end, so it is about to exit.
            Ok(0) => std::thread::sleep(PAUSE / 10),
            Ok(count) => {
                pending.extend_from_slice(&bytes[..count]);
                let whole = pending.len() / 8 * 8;
                if let Some(item) = pending[..whole].last_chunk() {
                    at = usize::try_from(u64::from_ne_bytes(*item)).ok();
                    (since, used) = (Instant::now(), cpu_ns(child));
                }
                pending.drain(..whole);
            }
            Err(_) => {}
        }
        if let Some(status) = ended(child) {
            let why = match status {
                Ok(status) if libc::WIFEXITED(status) => match libc::WEXITSTATUS(status) {
                    0 => return Ok(()),
                    2 => Why::Failed("could not write them".to_owned()),
                    _ => Why::Item("failed on it".to_owned()),
                },
                Ok(status) => match libc::WTERMSIG(status) {
                    libc::SIGXCPU => Why::Limit("used up its CPU time".to_owned()),
                    libc::SIGKILL => Why::Limit("was killed".to_owned()),
                    signal => Why::Item(format!("was ended by signal {signal}")),
                },
                Err(error) => Why::Failed(format!("cannot be waited for: {error}")),
            };
            return Err((at, why));
        }
        let (waited, worked) = (since.elapsed(), cpu_ns(child).saturating_sub(used) > WORK_NS);
        let why = if stopped() {
            Why::Stopped
        } else if Instant::now() > end {
            Why::Failed("took too long".to_owned())
        } else if waited > BUSY_TIMEOUT || waited > IDLE_TIMEOUT && !worked {
            Why::Item(format!("made no progress for {} seconds", waited.as_secs()))
        } else {
            continue;
        };
        // SAFETY: the child was not waited for yet, so its pid cannot belong to another process.
        unsafe { libc::kill(child, libc::SIGKILL) };
        let killed = Instant::now();
        while ended(child).is_none() {
            if killed.elapsed() > GRACE {
                return Err((at, Why::Failed("cannot be ended: it waits for a file in the kernel".to_owned())));
            }
            std::thread::sleep(PAUSE / 10);
        }
        return Err((at, why));
    }
}

/// Returns the status of the child, if it has ended.
fn ended(child: libc::pid_t) -> Option<io::Result<libc::c_int>> {
    let mut status = 0;
    // SAFETY: writes the status of our own child to a local variable.
    match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
        0 => None,
        -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => None,
        -1 => Some(Err(io::Error::last_os_error())),
        _ => Some(Ok(status)),
    }
}

/// Returns the CPU time in ns that the child has used.
fn cpu_ns(child: libc::pid_t) -> i64 {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write only to the variables that they are given.
    let known = unsafe { libc::clock_getcpuclockid(child, &mut clock) == 0 && libc::clock_gettime(clock, &mut time) == 0 };
    if known {
        time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn failing_item_is_reported() {
        assert_eq!(run_in_sandbox(|_| Ok(()), MAX_CPU, soon(), &|| false), Ok(()));
        let crash = |at: &mut dyn FnMut(usize)| {
            at(6);
            at(7);
            std::process::abort()
        };
        assert_eq!(run_in_sandbox(crash, MAX_CPU, soon(), &|| false), Err((Some(7), Why::Item("was ended by signal 6".to_owned()))));
        let sleep = |at: &mut dyn FnMut(usize)| {
            at(3);
            std::thread::sleep(Duration::from_secs(1000));
            Ok(())
        };
        let Err((Some(3), Why::Item(why))) = run_in_sandbox(sleep, MAX_CPU, soon(), &|| false) else { panic!() };
        assert!(why.starts_with("made no progress for "), "{why}");
        let work = |at: &mut dyn FnMut(usize)| loop {
            at(4);
        };
        let spent = run_in_sandbox(work, Duration::from_secs(1), soon(), &|| false);
        assert_eq!(spent, Err((Some(4), Why::Limit("used up its CPU time".to_owned()))));
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };
        assert_eq!(run_in_sandbox(sleep, MAX_CPU, soon(), &stop), Err((Some(3), Why::Stopped)));
    }
}
