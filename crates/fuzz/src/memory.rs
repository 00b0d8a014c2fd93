//! An allocator that counts the memory in use and provides at most [`MAX_BYTES`] bytes. A reader
//! that allocates by a length in the input fails in this allocator, with a stack trace that shows
//! the place.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Limit in bytes. An input has at most 256 KiB; what readers store of it, and what reading needs
/// in any case, is far below this limit.
pub const MAX_BYTES: usize = 512 << 20;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static BOUNDED: AtomicBool = AtomicBool::new(false);

/// The global allocator of this program.
pub struct Counting;

// SAFETY: The system's allocator does the work. A rejected allocation returns null, which an
// allocator is allowed to do.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        if used > MAX_BYTES && BOUNDED.load(Ordering::Relaxed) {
            USED.fetch_sub(layout.size(), Ordering::Relaxed);
            return std::ptr::null_mut();
        }
        PEAK.fetch_max(used, Ordering::Relaxed);
        // SAFETY: guaranteed by our caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: guaranteed by our caller.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Enforces the limit from now on.
pub fn bound() {
    BOUNDED.store(true, Ordering::Relaxed);
}

/// The largest memory use since the last call, in bytes.
pub fn take_peak() -> usize {
    PEAK.swap(USED.load(Ordering::Relaxed), Ordering::Relaxed)
}
