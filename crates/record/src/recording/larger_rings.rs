//! How large rings may become, and the memory that the larger ones use.
//!
//! A thread's first ring is small. The recorder replaces it by a larger one that it pays for, so
//! all larger rings together are limited.

use std::collections::HashMap;
use std::sync::OnceLock;

/// Size in bytes of the first larger ring of a busy thread.
pub const FIRST_LARGER_BYTES: u64 = 256 << 10;
/// Largest size in bytes that a thread gets without a request of the user.
pub const MAX_LARGER_BYTES: u64 = 4 << 20;
/// Number of such rings that are always allowed; more are allowed up to the number of CPUs.
const EARLY_RINGS: u64 = 4;
/// Bytes of memory that all larger rings of a session may use together.
pub const MAX_SESSION_BYTES: u64 = 512 << 20;

/// Limit in bytes for larger rings of threads that are not busy yet. The number of CPUs is
/// determined only once, because that reads files of control groups.
fn most_early() -> u64 {
    static MOST: OnceLock<u64> = OnceLock::new();
    *MOST.get_or_init(|| EARLY_RINGS.max(std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64)) * MAX_LARGER_BYTES)
}

/// Next size in bytes for a ring of `size` bytes that was too small; `None` if it is the largest.
pub fn larger(size: u64) -> Option<u64> {
    match size {
        size if size < FIRST_LARGER_BYTES => Some(FIRST_LARGER_BYTES),
        // Each change of size costs events, so the next size is the largest one.
        size if size < MAX_LARGER_BYTES => Some(MAX_LARGER_BYTES),
        _ => None,
    }
}

/// Bytes of the larger rings in each runtime directory.
#[derive(Debug, Default)]
pub(crate) struct LargerRings {
    /// Bytes, by the number of the directory's stream class.
    by_directory: HashMap<u32, u64>,
}

impl LargerRings {
    /// Sets the bytes of a directory, as of this turn.
    pub fn set(&mut self, stream: u32, bytes: u64) {
        self.by_directory.insert(stream, bytes);
    }

    /// Adds a ring of `bytes` in a directory.
    pub fn add(&mut self, stream: u32, bytes: u64) {
        *self.by_directory.entry(stream).or_insert(0) += bytes;
    }

    /// Forgets a directory.
    pub fn forget(&mut self, stream: u32) {
        self.by_directory.remove(&stream);
    }

    fn sum(&self) -> u64 {
        self.by_directory.values().sum()
    }

    /// Returns whether a thread that is not busy yet may get a ring of the largest size.
    pub fn has_room_early(&self) -> bool {
        self.sum() + MAX_LARGER_BYTES <= most_early()
    }

    /// Returns whether there may be another ring of `bytes`.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        self.sum() + bytes <= MAX_SESSION_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_for_the_larger_rings_of_all_directories_together() {
        let mut rings = LargerRings::default();
        rings.set(0, MAX_SESSION_BYTES / 2);
        rings.add(1, MAX_SESSION_BYTES / 2 - MAX_LARGER_BYTES);
        assert!(rings.has_room_for(MAX_LARGER_BYTES) && !rings.has_room_for(MAX_LARGER_BYTES + 1));
        rings.add(0, MAX_LARGER_BYTES);
        assert!(!rings.has_room_for(1) && !rings.has_room_early());
        rings.forget(0);
        assert!(rings.has_room_for(MAX_SESSION_BYTES / 2));
        rings.set(1, 0);
        assert!(rings.has_room_early());
    }

    #[test]
    fn a_ring_grows_twice_at_most() {
        assert_eq!(larger(32 << 10), Some(FIRST_LARGER_BYTES));
        assert_eq!(larger(FIRST_LARGER_BYTES), Some(MAX_LARGER_BYTES));
        assert_eq!(larger(MAX_LARGER_BYTES), None);
    }
}
