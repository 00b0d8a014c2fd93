//! Lost events: from when on they matter, and what helps.

/// Share of the events. If more of them are lost, that nothing is found says nothing.
const MOST_LOST: f64 = 0.01;

/// Whether nothing should be said that rests on these events without saying that many are missing.
pub fn too_many_lost(lost: u64, events: u64) -> bool {
    lost as f64 > MOST_LOST * (lost as f64 + events as f64)
}

/// Size of a ring in bytes: that which the recorder gives to a busy thread. Where a ring of this
/// size is full, it is not room that is missing: four threads of 8 M events/s lost more with rings
/// of 16 MiB.
const LARGE: u64 = 4 << 20;

/// What loses fewer events in another recording. `full`: the size in bytes of the largest ring that
/// lost some, if that is known.
pub fn remedy(full: Option<u64>) -> String {
    match full {
        Some(size @ LARGE..) => format!("rings of {} MiB were full: record fewer events, or into memory (-o /dev/shm)", size >> 20),
        _ => "record again with --buffer 4MiB".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_rings_are_advised_where_those_that_lost_were_small() {
        for small in [None, Some(32 << 10), Some(2 << 20)] {
            assert_eq!(remedy(small), "record again with --buffer 4MiB");
        }
        assert!(remedy(Some(4 << 20)).starts_with("rings of 4 MiB were full: record fewer events"));
        assert!(remedy(Some(1 << 30)).starts_with("rings of 1024 MiB were full"));
    }
}
