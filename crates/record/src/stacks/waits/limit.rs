//! Keeps the samples of waits within a limit of bytes per second, by the period of the sampling.

/// Bytes per second of all CPUs' samples of waits and wake-ups. Taking and storing them costs about
/// one percent of a CPU.
pub const BYTES_PER_SECOND: u64 = 8 << 20;
/// Time between two looks in ns. It is shorter if very many samples arrive.
const LOOK: u64 = 500_000_000;
const SHORTEST_LOOK: u64 = 10_000_000;
/// Largest factor by which the period grows at once.
const MAX_FACTOR: u128 = 16;

/// The period, and the bytes since it was last looked at.
#[derive(Debug)]
pub struct WaitLimit {
    /// The period in ns that was requested.
    requested: u32,
    period: u32,
    largest: u32,
    bytes: u64,
    /// Time of the last look in ns.
    since: u64,
}

impl WaitLimit {
    pub fn new(requested: u32, now: u64) -> WaitLimit {
        WaitLimit { requested, period: requested, largest: requested, bytes: 0, since: now }
    }

    pub fn requested(&self) -> u32 {
        self.requested
    }

    /// The largest period until now.
    pub fn largest(&self) -> u32 {
        self.largest
    }

    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Returns the new period if it has to change. `now` is in ns.
    pub fn look(&mut self, now: u64) -> Option<u32> {
        let elapsed = now.saturating_sub(self.since);
        let flood = self.bytes > BYTES_PER_SECOND / 2;
        if elapsed < if flood { SHORTEST_LOOK } else { LOOK } {
            return None;
        }
        let rate = (u128::from(self.bytes) * 1_000_000_000 / u128::from(elapsed)) as u64;
        (self.bytes, self.since) = (0, now);
        let (period, rate, limit) = (u128::from(self.period), u128::from(rate), u128::from(BYTES_PER_SECOND));
        let new = if rate > limit {
            // The samples of long waits do not become fewer, so the period grows by a quarter at
            // least.
            (period * rate / limit).clamp(period * 5 / 4 + 1, period * MAX_FACTOR)
        } else if rate * 5 < limit * 3 {
            // Toward four fifths of the limit.
            (period * rate * 5 / (limit * 4)).clamp(period / 2, period)
        } else {
            period
        };
        let new = new.clamp(u128::from(self.requested), u128::from(u32::MAX)) as u32;
        if new == self.period {
            return None;
        }
        self.period = new;
        self.largest = self.largest.max(new);
        Some(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_period_grows_above_the_limit_and_returns_to_the_requested_one() {
        let mut limit = WaitLimit::new(1_000_000, 0);
        limit.add(BYTES_PER_SECOND as usize * 7 / 10);
        assert_eq!(limit.look(SECOND), None);
        limit.add(4 * BYTES_PER_SECOND as usize);
        assert_eq!(limit.look(2 * SECOND), Some(4_000_000));
        // A flood is noticed early.
        limit.add(BYTES_PER_SECOND as usize);
        assert_eq!(limit.look(2 * SECOND + SECOND / 10), Some(40_000_000));
        let mut periods = Vec::new();
        (3..20).for_each(|second| periods.extend(limit.look(second * SECOND)));
        assert_eq!(periods, [20_000_000, 10_000_000, 5_000_000, 2_500_000, 1_250_000, 1_000_000]);
        assert_eq!((limit.requested(), limit.largest()), (1_000_000, 40_000_000));
    }

    #[test]
    fn a_period_that_is_too_large_is_reduced_to_what_the_limit_allows() {
        let mut limit = WaitLimit::new(1_000_000, 0);
        limit.add(10 * BYTES_PER_SECOND as usize);
        assert_eq!(limit.look(SECOND), Some(10_000_000));
        limit.add(BYTES_PER_SECOND as usize * 4 / 8);
        let period = limit.look(2 * SECOND).unwrap();
        assert!((6_200_000..6_300_000).contains(&period), "{period}");
    }

    #[test]
    fn the_period_has_an_upper_end() {
        let mut limit = WaitLimit::new(1_000_000_000, 0);
        for second in 1..5 {
            limit.add(100 * BYTES_PER_SECOND as usize);
            limit.look(second * SECOND);
        }
        assert_eq!(limit.largest(), u32::MAX);
        limit.add(100 * BYTES_PER_SECOND as usize);
        assert_eq!(limit.look(9 * SECOND), None);
    }
}
