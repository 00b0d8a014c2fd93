//! Measures how fast the disk takes writes that bypass the page cache, and decides which rings may
//! wait for it.
//!
//! Such a write costs at most a third of the CPU time of a write through the page cache, but it
//! waits for the disk, and rings are emptied one after the other. A ring that is nearly full must
//! be emptied before it is full. So it and the rings before it bypass the page cache only if the
//! disk can write all of them in that time.

use longpole_abi::RING_SUBBUFFERS;
use std::time::{Duration, Instant};

/// Smallest packet in bytes whose time counts; a smaller one measures the system call, not the
/// disk.
const MIN_MEASURED_BYTES: usize = 32 << 10;
/// Interval at which one packet is tried on a disk that was too slow or whose speed is unknown.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Weight of the newest packet in the running mean.
const NEWEST_WEIGHT: f64 = 0.125;
/// Share of the remaining time that the disk may use, because it is slower now and then.
const DISK_TIME_SHARE: f64 = 0.5;
/// Fill level from which a ring counts as nearly full.
pub const NEARLY_FULL: f64 = 0.6;
/// Assumed speed of an unmeasured disk, in ns per byte: so slow that no ring waits for it.
const UNMEASURED_SPEED: f64 = 1e9;

/// Estimate of the disk's speed, and the time that each ring may wait for it.
#[derive(Debug, Default)]
pub struct Disk {
    /// Running mean of the disk's speed, in ns per byte.
    pace: Option<f64>,
    /// Time at which the rings were looked at.
    since: Option<Instant>,
    /// Time of the newest measurement or attempt.
    tried: Option<Instant>,
    /// Time in ns that may pass before each ring is emptied, the last ring first.
    spare: Vec<f64>,
}

/// State of a ring at a look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    pub size: u64,
    /// Bytes to be written.
    pub content: u64,
    /// Time in which these bytes arrived.
    pub since: Duration,
    pub is_full: bool,
}

impl Waiting {
    /// Time in ns until the ring is full if it fills at the same rate; `None` if it is not nearly
    /// full.
    fn left(&self) -> Option<f64> {
        let filled = self.content as f64 / self.size.max(1) as f64;
        let left = self.since.as_nanos() as f64 * (1.0 - filled).max(0.0) / filled;
        (filled > NEARLY_FULL).then_some(if self.is_full { 0.0 } else { left })
    }
}

impl Disk {
    /// Adds a measurement: the write of `bytes` took this time.
    pub fn add_measurement(&mut self, bytes: usize, took: Duration) {
        if bytes >= MIN_MEASURED_BYTES {
            let ns = took.as_nanos() as f64 / bytes as f64;
            self.pace = Some(self.pace.map_or(ns, |mean| mean + NEWEST_WEIGHT * (ns - mean)));
            self.tried = Some(Instant::now());
        }
    }

    /// Sets the rings of a turn, in the order in which they will be emptied.
    pub fn set_waiting_rings(&mut self, rings: impl Iterator<Item = Waiting>) {
        let mut rings: Vec<Waiting> = rings.collect();
        let pace = self.pace.unwrap_or(UNMEASURED_SPEED);
        let mut behind = f64::INFINITY;
        self.spare.clear();
        while let Some(ring) = rings.pop() {
            behind -= pace * ring.content as f64;
            if let Some(left) = ring.left() {
                // The ring has room again after its first sub-buffer.
                behind = behind.min(DISK_TIME_SHARE * left - pace * (ring.size / RING_SUBBUFFERS) as f64);
            }
            self.spare.push(behind);
        }
        self.since = Some(Instant::now());
    }

    /// Returns whether the next ring must not wait for the disk. Called once per ring, in the order
    /// in which [`Disk::set_waiting_rings`] got them.
    pub fn is_too_slow(&mut self) -> bool {
        let now = Instant::now();
        let passed = self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let too_slow = self.spare.pop().is_some_and(|spare| spare < DISK_TIME_SHARE * passed.as_nanos() as f64);
        let due = too_slow && now.saturating_duration_since(*self.tried.get_or_insert(now)) >= RETRY_INTERVAL;
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

    /// A ring of 4 MiB, filled to this percentage, that will be full in `ms` milliseconds.
    fn ring(percent: u64, ms: u64) -> Waiting {
        let since = Duration::from_millis(ms * percent / (100 - percent));
        Waiting { size: 4 * MIB, content: 4 * MIB * percent / 100, since, is_full: false }
    }

    /// For each ring, whether it must not wait.
    fn too_slow(disk: &mut Disk, rings: &[Waiting]) -> Vec<bool> {
        disk.set_waiting_rings(rings.iter().copied());
        // The time that this test takes must not count.
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
        disk.add_measurement(MIB as usize, Duration::from_millis(ms));
        disk
    }

    #[test]
    fn a_nearly_full_ring_waits_for_the_disk_only_if_the_disk_is_fast_enough() {
        let mut disk = Disk::default();
        disk.add_measurement(4096, Duration::from_millis(1));
        assert_eq!(too_slow(&mut disk, &[ring(80, 1000)]), [true]);
        assert_eq!(too_slow(&mut disk, &[ring(50, 1000)]), [false]);
        let mut disk = of(1);
        assert_eq!([1, 3].map(|left| too_slow(&mut disk, &[ring(80, left)])[0]), [true, false]);
        assert_eq!(too_slow(&mut disk, &[Waiting { is_full: true, ..ring(80, 1000) }]), [true]);
        assert_eq!(too_slow(&mut disk, &[ring(50, 1)]), [false]);
        // One slow packet does not make a disk too slow; a dozen does.
        disk.add_measurement(MIB as usize, Duration::from_millis(2));
        assert_eq!(too_slow(&mut disk, &[ring(80, 3)]), [false]);
        (0..12).for_each(|_| disk.add_measurement(MIB as usize, Duration::from_millis(20)));
        assert_eq!([20, 50].map(|left| too_slow(&mut disk, &[ring(80, left)])[0]), [true, false]);
    }

    #[test]
    fn a_ring_leaves_a_nearly_full_ring_after_it_enough_time() {
        let mut disk = of(1);
        // 2 ms of disk time for the first ring, 1 ms for the room of the second.
        assert_eq!(too_slow(&mut disk, &[ring(50, 100), ring(75, 5)]), [true, false]);
        assert_eq!(too_slow(&mut disk, &[ring(50, 100), ring(75, 9)]), [false, false]);
        assert_eq!(too_slow(&mut disk, &[ring(75, 5), ring(50, 100)]), [false, false]);
        // The last of four rings waits for 10 ms of disk time before it.
        assert_eq!(too_slow(&mut disk, &[ring(75, 13); 4]), [true, true, false, false]);
        assert_eq!(too_slow(&mut disk, &[]), [] as [bool; 0]);
    }

    #[test]
    fn a_disk_that_was_too_slow_is_tried_again() {
        let mut disk = of(1000);
        assert_eq!(too_slow(&mut disk, &[ring(80, 100); 2]), [true, true]);
        disk.tried = Instant::now().checked_sub(RETRY_INTERVAL);
        assert_eq!(too_slow(&mut disk, &[ring(80, 100); 2]), [false, true]);
        // A disk that was never tried is tried, too.
        let mut disk = Disk::default();
        assert_eq!(too_slow(&mut disk, &[ring(80, 100)]), [true]);
        disk.tried = Instant::now().checked_sub(RETRY_INTERVAL);
        assert_eq!(too_slow(&mut disk, &[ring(80, 100)]), [false]);
    }

    #[test]
    fn elapsed_time_reduces_the_time_that_is_left() {
        let mut disk = of(1);
        disk.set_waiting_rings([ring(80, 40)].into_iter());
        disk.since = Instant::now().checked_sub(Duration::from_millis(39));
        assert!(disk.is_too_slow());
    }
}
