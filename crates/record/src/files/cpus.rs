//! Lists of CPUs in the format of sysfs, for example `0-3,8`.

use std::fs;

/// CPUs in a file such as /sys/devices/system/cpu/online; empty if it cannot be read.
pub fn listed(path: &str) -> Vec<u32> {
    parse(&fs::read_to_string(path).unwrap_or_default())
}

/// Larger than the number of CPUs of any kernel; bounds the list that a damaged file can produce.
const MAX_CPUS: u32 = 1 << 16;

fn parse(text: &str) -> Vec<u32> {
    text.trim().split(',').filter_map(range).flat_map(|(first, last)| first..=last.min(MAX_CPUS)).collect()
}

fn range(text: &str) -> Option<(u32, u32)> {
    match text.split_once('-') {
        Some((first, last)) => Some((first.parse().ok()?, last.parse().ok()?)),
        None => text.parse().ok().map(|only| (only, only)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_single_cpus_are_listed() {
        assert_eq!(parse("0-2,8\n"), [0, 1, 2, 8]);
        assert!(parse("").is_empty());
    }
}
