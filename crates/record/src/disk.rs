//! How fast the disk takes what goes past the page cache.
//!
//! That way costs a third of the CPU time or less, but waits for the disk. A ring that is nearly full is emptied so as long as the disk is done before the
//! ring is full, and else through the page cache.

use std::time::Duration;

/// Packets of less tell of the call, not of the disk.
const LEAST: usize = 256 << 10;
/// What a packet moves the mean by.
const NEWEST: f64 = 0.125;
/// The disk may take this part of the time that is left: it takes longer now and then.
const SAFE: f64 = 0.5;

/// Ns a byte, as of late.
#[derive(Debug, Default)]
pub struct Disk(Option<f64>);

impl Disk {
    /// So long it took these bytes.
    pub fn took(&mut self, bytes: usize, took: Duration) {
        if bytes >= LEAST {
            let ns = took.as_nanos() as f64 / bytes as f64;
            self.0 = Some(self.0.map_or(ns, |mean| mean + NEWEST * (ns - mean)));
        }
    }

    /// Whether so many bytes would take it too long, where so much time is left. What it has not shown yet it is not trusted with.
    pub fn is_too_slow(&self, bytes: u64, left: Duration) -> bool {
        self.0.is_none_or(|ns| ns * bytes as f64 > SAFE * left.as_nanos() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_waited_for_as_long_as_it_is_fast_enough() {
        const MIB: u64 = 1 << 20;
        let (ms, mut disk) = (Duration::from_millis, Disk::default());
        let packet = |disk: &mut Disk, took| disk.took(MIB as usize, took);
        assert!(disk.is_too_slow(MIB, ms(1000)));
        disk.took(4096, ms(1));
        assert!(disk.is_too_slow(MIB, ms(1000)));
        packet(&mut disk, ms(1));
        assert_eq!([1, 3].map(|left| disk.is_too_slow(MIB, ms(left))), [true, false]);
        assert_eq!([7, 9].map(|left| disk.is_too_slow(4 * MIB, ms(left))), [true, false]);
        // One that is slow is none; a dozen are.
        packet(&mut disk, ms(2));
        assert!(!disk.is_too_slow(MIB, ms(3)));
        (0..12).for_each(|_| packet(&mut disk, ms(20)));
        assert!(disk.is_too_slow(MIB, ms(20)) && !disk.is_too_slow(MIB, ms(50)));
    }
}
