//! Counts the memory that is in use, and gives no more than [`MOST`]: whoever takes memory by a length in the input fails here, with its place.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// An input has 256 KiB; what is kept of it, and what reading needs at all, is far below.
pub const MOST: usize = 512 << 20;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static BOUNDED: AtomicBool = AtomicBool::new(false);

pub struct Counting;

// SAFETY: the system's allocator does it; what is refused is null, as an allocator may answer.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        if used > MOST && BOUNDED.load(Ordering::Relaxed) {
            USED.fetch_sub(layout.size(), Ordering::Relaxed);
            return std::ptr::null_mut();
        }
        PEAK.fetch_max(used, Ordering::Relaxed);
        // SAFETY: as our caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as our caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

/// From now on there is no more than [`MOST`].
pub fn bound() {
    BOUNDED.store(true, Ordering::Relaxed);
}

/// The most that was in use since the last call.
pub fn take_peak() -> usize {
    PEAK.swap(USED.load(Ordering::Relaxed), Ordering::Relaxed)
}
