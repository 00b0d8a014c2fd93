//! Values of options that have a unit: times, sizes, and sizes of rings.

use longpole_record::{parse_duration, parse_size};
use std::time::Duration;

/// Returns true if the text is a number without a unit. An option with such a value is refused,
/// because a guessed unit ends a recording too early, or removes most of it.
fn lacks_unit(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

pub fn duration(text: &str) -> Result<Duration, String> {
    if lacks_unit(text) {
        return Err(format!("{text:?} has no unit; write ns, us, ms, s, min, h or d after the number, for example 10s or 500ms"));
    }
    parse_duration(text).ok_or_else(|| format!("{text:?} is not a time; write, for example, 10s or 500ms"))
}

pub fn bytes(text: &str) -> Result<u64, String> {
    if lacks_unit(text) {
        let units = "B, KiB, MiB, GiB, TiB, kB, MB, GB or TB";
        return Err(format!("{text:?} has no unit; write {units} after the number, for example 500MiB or 10GiB"));
    }
    parse_size(text).ok_or_else(|| format!("{text:?} is not a size; write, for example, 500MiB or 10GiB"))
}

pub fn size(text: &str) -> Result<u64, String> {
    match parse_size(text).and_then(longpole_record::ring_size) {
        Some(size) => Ok(size),
        None => Err(format!("{text:?} is not a size of a ring; write, for example, 256KiB or 4MiB (at most 1GiB)")),
    }
}
