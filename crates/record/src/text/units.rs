//! Sizes and times with units, as the command line and the configuration file have them.

use serde::de::{self, Deserializer};
use serde::Deserialize;
use std::time::Duration;

/// Bytes recorded of a packet by default.
pub const DEFAULT_SNAPLEN: u32 = 100;

/// Parses a size in bytes: `4MiB`, `64k`, `4096`.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..split].parse().ok()?;
    let factor = match text[split..].trim() {
        "" | "B" => 1,
        "k" | "K" | "Ki" | "KiB" => 1 << 10,
        "M" | "Mi" | "MiB" => 1 << 20,
        "G" | "Gi" | "GiB" => 1 << 30,
        "T" | "Ti" | "TiB" => 1 << 40,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Parses a duration: `100ms`, `1.5s`, `2min`, `10` (seconds). The maximum is 2^64 - 1 ns, about
/// 584 years, which can be added to any time.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    let unit_ns = match unit {
        "" | "s" | "sec" => 1_000_000_000u128,
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    // Exact to the nanosecond for any size; a double would round.
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = &fraction[..fraction.len().min(18)];
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    let ns = digits(whole)?.checked_mul(unit_ns)?.checked_add(digits(fraction)? * unit_ns / 10u128.pow(fraction.len() as u32))?;
    Some(Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)))
}

pub(crate) fn optional_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_size(&text).map(Some).ok_or_else(|| de::Error::custom(format!("{text:?} is not a size; write, for example, \"4MiB\"")))
}

pub(crate) fn snaplen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let snaplen = u32::deserialize(deserializer)?;
    if snaplen == 0 || snaplen > 65_536 {
        return Err(de::Error::custom("snaplen must be between 1 and 65536"));
    }
    Ok(snaplen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(parse_size("4MiB"), Some(4 << 20));
        assert_eq!(parse_size("64k"), Some(64 << 10));
        assert_eq!(parse_size("1 GB"), Some(1_000_000_000));
        assert_eq!(parse_size("-1"), None);
        assert_eq!(parse_duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_duration("100ms"), Some(Duration::from_millis(100)));
        assert_eq!(parse_duration("2min"), Some(Duration::from_secs(120)));
        assert_eq!(parse_duration("18446744073709551615s"), Some(Duration::from_nanos(u64::MAX)));
        assert_eq!(parse_duration("x"), None);
    }
}
