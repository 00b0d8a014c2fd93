//! Measures how long a page fault takes at least on this host. The kernel has an event for the
//! begin of a page fault and none for its end, so its duration cannot be taken from a trace.

use std::time::Instant;

/// Fewer pages than a huge page has, so that each page causes a fault of its own.
const PAGES: usize = 64;
const ROUNDS: usize = 16;

/// Returns the shortest mean duration of a page fault among several rounds, in ns, or `None` if no
/// memory could be mapped. A round touches pages of new memory one after the other. A fault takes
/// longer than this if its page comes from a file or is copied, or if memory must be freed first.
pub fn least_ns() -> Option<f64> {
    // SAFETY: `sysconf` takes and returns a number; no memory is passed.
    let size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    (0..ROUNDS).filter_map(|_| round(size)).min_by(f64::total_cmp)
}

fn round(size: usize) -> Option<f64> {
    // SAFETY: this makes a new mapping at an address that the kernel chooses; no existing memory is
    // changed.
    let memory = unsafe {
        libc::mmap(std::ptr::null_mut(), PAGES * size, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    if memory == libc::MAP_FAILED {
        return None;
    }
    let begin = Instant::now();
    for page in 0..PAGES {
        // SAFETY: the address is inside the writable mapping of `PAGES` pages.
        unsafe { memory.cast::<u8>().add(page * size).write_volatile(1) };
    }
    let spent = begin.elapsed();
    // SAFETY: this is the mapping made above, and no reference to it exists.
    unsafe { libc::munmap(memory, PAGES * size) };
    Some(spent.as_nanos() as f64 / PAGES as f64)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_page_fault_takes_time() {
        assert!(super::least_ns().is_some_and(|ns| ns > 0.0));
    }
}
