//! Lost events: the number from which they matter, and what reduces them.

use super::limits::MAX_LOST_SHARE;

/// Returns whether so large a part of the events is missing that a verdict must mention it.
/// `recorded` is the number of the others, or where that is unknown, of the interactions that were
/// composed from them.
pub fn too_many_lost(lost: u64, recorded: u64) -> bool {
    lost as f64 > MAX_LOST_SHARE * (lost as f64 + recorded as f64)
}

/// Ring size in bytes that the recorder gives to a busy thread. If a ring of this size was full, a
/// larger one does not help: with four threads of 8 M events/s, rings of 16 MiB lost more.
const BUSY_RING_BYTES: u64 = 4 << 20;

/// Returns advice to lose fewer events in another recording. `full` is the size in bytes of the
/// largest ring that lost events, if known.
pub fn remedy(full: Option<u64>) -> String {
    match full {
        Some(size @ BUSY_RING_BYTES..) => {
            format!("rings of {} MiB were full: record fewer events, or into memory (-o /dev/shm)", size >> 20)
        }
        _ => "record again with --buffer 4MiB".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_rings_are_advised_only_if_the_rings_that_lost_events_were_small() {
        for small in [None, Some(32 << 10), Some(2 << 20)] {
            assert_eq!(remedy(small), "record again with --buffer 4MiB");
        }
        assert!(remedy(Some(4 << 20)).starts_with("rings of 4 MiB were full: record fewer events"));
        assert!(remedy(Some(1 << 30)).starts_with("rings of 1024 MiB were full"));
    }
}
