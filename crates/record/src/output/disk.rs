//! How fast the disk takes what goes past the page cache, and which rings may wait for it.
//!
//! That way costs a third of the CPU time or less, but waits for the disk, and rings are emptied one after the other. A ring that is nearly full must have room
//! again before it is full: whoever is emptied until then, itself included, goes past the page cache as long as the disk is done in time, and else through it.

use longpole_abi::RING_SUBBUFFERS;
use std::time::{Duration, Instant};

/// Packets of less tell of the call, not of the disk.
const LEAST: usize = 32 << 10;
/// A disk that was too slow, or has not shown how fast it is, is tried with one packet so often.
const AGAIN: Duration = Duration::from_secs(1);
/// What a packet moves the mean by.
const NEWEST: f64 = 0.125;
/// The disk may take this part of the time that is left: it takes longer now and then.
const SAFE: f64 = 0.5;
/// A ring that is filled to this is nearly full.
pub const NEARLY: f64 = 0.6;
/// Ns a byte of a disk that has not shown any yet: it is not trusted with anything.
const UNKNOWN: f64 = 1e9;

#[derive(Debug, Default)]
pub struct Disk {
    /// Ns a byte, as of late.
    pace: Option<f64>,
    /// Since the rings were looked at.
    since: Option<Instant>,
    /// When it last took something, or was to be tried.
    tried: Option<Instant>,
    /// Ns that the disk may take before each ring's turn comes, the last ring first.
    spare: Vec<f64>,
}

/// A ring as it was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    pub size: u64,
    /// Bytes that are to be written.
    pub content: u64,
    /// In which they came.
    pub since: Duration,
    pub is_full: bool,
}

impl Waiting {
    /// Until it is full, if it goes on so; none: it is far from that.
    fn left(&self) -> Option<f64> {
        let filled = self.content as f64 / self.size.max(1) as f64;
        let left = self.since.as_nanos() as f64 * (1.0 - filled).max(0.0) / filled;
        (filled > NEARLY).then_some(if self.is_full { 0.0 } else { left })
    }
}

impl Disk {
    /// So long it took these bytes.
    pub fn took(&mut self, bytes: usize, took: Duration) {
        if bytes >= LEAST {
            let ns = took.as_nanos() as f64 / bytes as f64;
            self.pace = Some(self.pace.map_or(ns, |mean| mean + NEWEST * (ns - mean)));
            self.tried = Some(Instant::now());
        }
    }

    /// These were looked at now, and are emptied in this order.
    pub fn looked(&mut self, rings: impl Iterator<Item = Waiting>) {
        let mut rings: Vec<Waiting> = rings.collect();
        let pace = self.pace.unwrap_or(UNKNOWN);
        let mut behind = f64::INFINITY;
        self.spare.clear();
        while let Some(ring) = rings.pop() {
            behind -= pace * ring.content as f64;
            if let Some(left) = ring.left() {
                // It has room again with its first sub-buffer.
                behind = behind.min(SAFE * left - pace * (ring.size / RING_SUBBUFFERS) as f64);
            }
            self.spare.push(behind);
        }
        self.since = Some(Instant::now());
    }

    /// Whether the next ring must not wait for the disk.
    pub fn is_too_slow(&mut self) -> bool {
        let now = Instant::now();
        let passed = self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let too_slow = self.spare.pop().is_some_and(|spare| spare < SAFE * passed.as_nanos() as f64);
        let due = too_slow && now.saturating_duration_since(*self.tried.get_or_insert(now)) >= AGAIN;
        if due {
            self.tried = Some(now);
        }
        too_slow && !due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Of 4 MiB, filled to so many percent, and full in so many ms.
    fn ring(percent: u64, ms: u64) -> Waiting {
        let since = Duration::from_millis(ms * percent / (100 - percent));
        Waiting { size: 4 * MIB, content: 4 * MIB * percent / 100, since, is_full: false }
    }

    /// Which of them must not wait.
    fn too_slow(disk: &mut Disk, rings: &[Waiting]) -> Vec<bool> {
        disk.looked(rings.iter().copied());
        // However long this test takes.
        let start = Instant::now() + Duration::from_secs(1);
        rings
            .iter()
            .map(|_| {
                disk.since = Some(start);
                disk.is_too_slow()
            })
            .collect()
    }

    fn of(ms: u64) -> Disk {
        let mut disk = Disk::default();
        disk.took(MIB as usize, Duration::from_millis(ms));
        disk
    }

    #[test]
    fn a_ring_that_is_nearly_full_waits_as_long_as_the_disk_is_fast_enough() {
        let mut disk = Disk::default();
        disk.took(4096, Duration::from_millis(1));
        assert_eq!(too_slow(&mut disk, &[ring(80, 1000)]), [true]);
        assert_eq!(too_slow(&mut disk, &[ring(50, 1000)]), [false]);
        let mut disk = of(1);
        assert_eq!([1, 3].map(|left| too_slow(&mut disk, &[ring(80, left)])[0]), [true, false]);
        assert_eq!(too_slow(&mut disk, &[Waiting { is_full: true, ..ring(80, 1000) }]), [true]);
        assert_eq!(too_slow(&mut disk, &[ring(50, 1)]), [false]);
        // One that is slow is none; a dozen are.
        disk.took(MIB as usize, Duration::from_millis(2));
        assert_eq!(too_slow(&mut disk, &[ring(80, 3)]), [false]);
        (0..12).for_each(|_| disk.took(MIB as usize, Duration::from_millis(20)));
        assert_eq!([20, 50].map(|left| too_slow(&mut disk, &[ring(80, left)])[0]), [true, false]);
    }

    #[test]
    fn whoever_is_emptied_before_a_ring_that_is_nearly_full_leaves_it_its_time() {
        let mut disk = of(1);
        // 2 ms for the first, 1 for the room of the second.
        assert_eq!(too_slow(&mut disk, &[ring(50, 100), ring(75, 5)]), [true, false]);
        assert_eq!(too_slow(&mut disk, &[ring(50, 100), ring(75, 9)]), [false, false]);
        assert_eq!(too_slow(&mut disk, &[ring(75, 5), ring(50, 100)]), [false, false]);
        // The last of four has 10 ms of disk before it.
        assert_eq!(too_slow(&mut disk, &[ring(75, 13); 4]), [true, true, false, false]);
        assert_eq!(too_slow(&mut disk, &[]), [] as [bool; 0]);
    }

    #[test]
    fn a_disk_that_was_too_slow_is_tried_again() {
        let mut disk = of(1000);
        assert_eq!(too_slow(&mut disk, &[ring(80, 100); 2]), [true, true]);
        disk.tried = Instant::now().checked_sub(AGAIN);
        assert_eq!(too_slow(&mut disk, &[ring(80, 100); 2]), [false, true]);
        // Nor is one that nobody has tried yet.
        let mut disk = Disk::default();
        assert_eq!(too_slow(&mut disk, &[ring(80, 100)]), [true]);
        disk.tried = Instant::now().checked_sub(AGAIN);
        assert_eq!(too_slow(&mut disk, &[ring(80, 100)]), [false]);
    }

    #[test]
    fn time_that_passes_is_not_left() {
        let mut disk = of(1);
        disk.looked([ring(80, 40)].into_iter());
        disk.since = Instant::now().checked_sub(Duration::from_millis(39));
        assert!(disk.is_too_slow());
    }
}
