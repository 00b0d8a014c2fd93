//! Wakes and ends a recording from outside, by signals.

use rustix::event::{eventfd, EventfdFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::OnceLock;

/// Newest ending signal; 0 if none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// True if the signal was sent to this process alone, not by the terminal to the whole group.
static DIRECTED: AtomicBool = AtomicBool::new(false);
/// Number of ending signals.
static COUNT: AtomicI32 = AtomicI32::new(0);
/// Descriptor of the eventfd that the handler writes to; -1 if none.
static WAKE: AtomicI32 = AtomicI32::new(-1);
/// Owner of that descriptor.
static OPEN: OnceLock<OwnedFd> = OnceLock::new();

/// True if SIGINT was ignored when this process started.
static INTERRUPT_IGNORED: AtomicBool = AtomicBool::new(false);

/// Bit mask of the signals for the command that arrived since the last call of [`Stop::passed`].
static PASSED: AtomicI32 = AtomicI32::new(0);

/// The signals that end a recording.
pub(crate) const END_SIGNALS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// Signals without a meaning for the recorder that may have one for its command.
const PASSED_ON: [i32; 2] = [libc::SIGUSR1, libc::SIGUSR2];

/// Returns whether the end was requested.
pub(crate) fn asked() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

/// Handle of the signals that end a recording and of SIGCHLD, which reports the end of a child.
#[derive(Clone, Copy, Debug)]
pub struct Stop;

impl Stop {
    /// Handles SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGCHLD of this process. SIGHUP, SIGQUIT or
    /// SIGTERM that was ignored at the start (for example by `nohup`) stays ignored.
    ///
    /// SIGINT is always handled: a shell script ignores it in each program that it starts with `&`,
    /// and a recording without a command would then have no documented end.
    pub fn install() -> io::Result<Stop> {
        if OPEN.get().is_none() {
            let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
            WAKE.store(wake.as_raw_fd(), Ordering::Release);
            // The descriptor of a second concurrent caller is dropped; the store below then
            // restores the first one.
            let _ = OPEN.set(wake);
            if let Some(wake) = OPEN.get() {
                WAKE.store(wake.as_raw_fd(), Ordering::Release);
            }
        }
        Stop::take_over(END_SIGNALS.into_iter().chain([libc::SIGCHLD]))?;
        Ok(Stop)
    }

    /// Handles SIGUSR1 and SIGUSR2 as well, for [`Stop::passed`].
    pub fn pass_on(&self) -> io::Result<()> {
        Stop::take_over(PASSED_ON.into_iter())
    }

    fn take_over(signals: impl Iterator<Item = i32>) -> io::Result<()> {
        for signal in signals {
            // SAFETY: a zeroed, then filled sigaction; the handler only stores to atomics and
            // writes to an eventfd.
            let result = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                libc::sigemptyset(&mut action.sa_mask);
                let mut before: libc::sigaction = std::mem::zeroed();
                let known = libc::sigaction(signal, std::ptr::null(), &mut before) == 0;
                if known && before.sa_sigaction == libc::SIG_IGN {
                    match signal {
                        libc::SIGINT => INTERRUPT_IGNORED.store(true, Ordering::Release),
                        libc::SIGCHLD => {}
                        _ => continue,
                    }
                }
                libc::sigaction(signal, &action, std::ptr::null_mut())
            };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Ignores SIGINT again if this process inherited that. A child calls it between fork and exec,
    /// so that a command finds its signals as they would be without the recorder.
    pub fn restore_inherited() {
        if INTERRUPT_IGNORED.load(Ordering::Acquire) {
            // SAFETY: changes the action of one signal, which is async-signal-safe.
            unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
        }
    }

    /// The signals for the command that arrived since the last call.
    pub fn passed(&self) -> impl Iterator<Item = i32> {
        let came = PASSED.swap(0, Ordering::AcqRel);
        PASSED_ON.into_iter().filter(move |signal| came & (1 << signal) != 0)
    }

    /// The newest signal that requested the end.
    pub fn signal(&self) -> Option<i32> {
        match SIGNAL.load(Ordering::Acquire) {
            0 => None,
            signal => Some(signal),
        }
    }

    /// Returns whether that signal was sent to this process alone.
    pub fn directed(&self) -> bool {
        DIRECTED.load(Ordering::Acquire)
    }

    /// Number of requests to end.
    pub fn count(&self) -> i32 {
        COUNT.load(Ordering::Acquire)
    }

    /// Descriptor that becomes readable at each signal.
    pub(crate) fn wake(&self) -> Option<BorrowedFd<'static>> {
        OPEN.get().map(AsFd::as_fd)
    }
}

/// Redirects the standard streams to /dev/null, for a recorder whose parent ends: writes would fail
/// then.
pub fn leave_streams() {
    let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") else { return };
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: replaces a descriptor by an open file.
        unsafe { libc::dup2(null.as_raw_fd(), stream) };
    }
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if PASSED_ON.contains(&signal) {
        PASSED.fetch_or(1 << signal, Ordering::AcqRel);
    } else if signal != libc::SIGCHLD {
        // SAFETY: the kernel passes a valid siginfo.
        let code = unsafe { (*info).si_code };
        DIRECTED.store(code <= 0, Ordering::Release);
        SIGNAL.store(signal, Ordering::Release);
        COUNT.fetch_add(1, Ordering::AcqRel);
    }
    let one = 1u64;
    // SAFETY: eight bytes of a local; write is async-signal-safe. errno is restored, because the
    // interrupted code may be about to read it.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(WAKE.load(Ordering::Acquire), (&one as *const u64).cast(), 8);
        *errno = before;
    }
}
