//! How much memory the conversion may use.

use std::fs;

/// Memory of one sandbox that reads its largest amount of unwinding tables, in bytes.
const SANDBOX: u64 = 1 << 30;

/// Returns the number of sandboxes that may run at a time: together they use at most half of the
/// memory that the host can give.
pub fn sandboxes() -> usize {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    number(available(&text).unwrap_or(0))
}

fn number(available: u64) -> usize {
    usize::try_from(available / 2 / SANDBOX).unwrap_or(usize::MAX).max(1)
}

/// Returns the available bytes that the kernel reports.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandboxes_use_at_most_half_of_the_memory() {
        let text = "MemTotal:       24684096 kB\nMemFree:         9701992 kB\nMemAvailable:   21459948 kB\n";
        assert_eq!(number(available(text).unwrap()), 10);
        assert_eq!([number(0), number(3 << 30), number(4 << 30)], [1, 1, 2]);
        assert_eq!([available(""), available("MemAvailable: x kB")], [None; 2]);
    }
}
