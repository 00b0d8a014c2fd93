//! Handles files that shrink under their mapping.
//!
//! A load from a mapped page whose file was truncated raises SIGBUS, and any program of the user
//! may truncate a file. Each mapping is registered here. The handler maps zeroed anonymous memory
//! over the range of the fault and marks the range, so that the load completes and the owner sees
//! the mark at its next look. A fault outside of all ranges has another cause and gets the default
//! action: the process ends.
//!
//! The handler may only load, store and call `mmap`, because it can interrupt any code.

use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, Once};

/// Limit of the number of mappings. The handler searches without a lock, so the table must not
/// move.
const MAX_RANGES: usize = 1 << 16;

struct Range {
    base: AtomicUsize,
    length: AtomicUsize,
    hit: AtomicBool,
}

#[allow(clippy::declare_interior_mutable_const)] // The initial value of each element, not a shared one.
const EMPTY: Range = Range { base: AtomicUsize::new(0), length: AtomicUsize::new(0), hit: AtomicBool::new(false) };

static RANGES: [Range; MAX_RANGES] = [EMPTY; MAX_RANGES];
/// Index after the last range that was ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static INSTALLED: Once = Once::new();

/// Registration of one mapping; dropping the value ends it.
#[derive(Debug)]
pub struct Guard(usize);

impl Guard {
    /// Registers `length` bytes at `base`, which must stay mapped as long as the guard lives.
    pub fn new(base: *const u8, length: usize) -> io::Result<Guard> {
        INSTALLED.call_once(install);
        let mut free = FREE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let index = match free.pop() {
            Some(index) => index,
            None => {
                let index = USED.load(Ordering::Relaxed);
                if index == MAX_RANGES {
                    return Err(io::Error::other("too many rings are mapped"));
                }
                USED.store(index + 1, Ordering::Release);
                index
            }
        };
        let range = &RANGES[index];
        range.hit.store(false, Ordering::Relaxed);
        range.base.store(base as usize, Ordering::Relaxed);
        range.length.store(length, Ordering::Release);
        Ok(Guard(index))
    }

    /// Returns whether memory of the range was replaced because its file had shrunk.
    pub fn hit(&self) -> bool {
        RANGES[self.0].hit.load(Ordering::Relaxed)
    }
}

impl Guard {
    /// Ends the handling of the range before it is unmapped.
    pub fn disarm(&self) {
        RANGES[self.0].length.store(0, Ordering::Release);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.disarm();
        FREE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(self.0);
    }
}

fn install() {
    // SAFETY: `action` is a zeroed, then filled sigaction; the handler has the three-argument form
    // that SA_SIGINFO requires and is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
    }
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo; si_addr is set for SIGBUS.
    let address = unsafe { (*info).si_addr() } as usize;
    let used = USED.load(Ordering::Acquire).min(MAX_RANGES);
    for range in &RANGES[..used] {
        let length = range.length.load(Ordering::Acquire);
        let base = range.base.load(Ordering::Relaxed);
        if length == 0 || address < base || address - base >= length {
            continue;
        }
        // SAFETY: the range is one mapping of this process (the guard's contract). Only raw or
        // atomic loads and stores access it, for which zeros are as valid as any bytes.
        let mapped = unsafe {
            libc::mmap(
                base as *mut libc::c_void,
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if mapped != libc::MAP_FAILED {
            range.hit.store(true, Ordering::Relaxed);
            return;
        }
    }
    // SAFETY: resetting to the default is async-signal-safe; the faulting instruction runs again
    // and ends the process as it would have without this handler.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}
