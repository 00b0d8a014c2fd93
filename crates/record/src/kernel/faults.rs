//! What a page fault takes at least here and now: the kernel tells when one begins, and never when it ends.

use std::time::Instant;

/// Less than a huge page, so that each page is a fault.
const PAGES: usize = 64;
const ROUNDS: usize = 16;

/// The least mean of some rounds, in ns: pages of new memory are touched, one after the other. A page of a file, one that is copied, or memory that must be made
/// free first takes longer.
pub fn least_ns() -> Option<f64> {
    // SAFETY: asks for a number.
    let size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    (0..ROUNDS).filter_map(|_| round(size)).min_by(f64::total_cmp)
}

fn round(size: usize) -> Option<f64> {
    // SAFETY: a new mapping at an address that the kernel chooses; nothing that exists is touched.
    let memory = unsafe {
        libc::mmap(std::ptr::null_mut(), PAGES * size, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    if memory == libc::MAP_FAILED {
        return None;
    }
    let begin = Instant::now();
    for page in 0..PAGES {
        // SAFETY: within the mapping of `PAGES` pages, which may be written.
        unsafe { memory.cast::<u8>().add(page * size).write_volatile(1) };
    }
    let spent = begin.elapsed();
    // SAFETY: the mapping from above, of which no reference exists.
    unsafe { libc::munmap(memory, PAGES * size) };
    Some(spent.as_nanos() as f64 / PAGES as f64)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_page_fault_takes_a_time() {
        assert!(super::least_ns().is_some_and(|ns| ns > 0.0));
    }
}
