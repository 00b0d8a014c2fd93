//! The demand for changed states: how long the states that some scenario changes were occupied, by
//! parts of the time.
//!
//! Example: 16 threads are in `commit` for 3 ms each, four of them at once at the busiest time. If
//! nothing else limits them, a `commit` of half the length lets at most 4 / 1.5 ms of them end.

use longpole_model::hash::IdMap;

/// Number of equal parts of the time; their width doubles as the trace grows.
const PARTS: usize = 256;
const FIRST_WIDTH_NS: u64 = 1 << 16;

/// Durations of the states that some scenario changes, by parts of the time.
#[derive(Debug)]
pub struct Demand {
    width: u64,
    of: IdMap<u32, Vec<u64>>,
}

impl Default for Demand {
    fn default() -> Demand {
        Demand { width: FIRST_WIDTH_NS, of: IdMap::default() }
    }
}

impl Demand {
    /// Adds an interval of the state with this key, in ns since the start.
    pub fn add(&mut self, key: u32, mut from: u64, to: u64) {
        while to / self.width >= PARTS as u64 {
            self.width *= 2;
            for parts in self.of.values_mut() {
                *parts = parts.chunks(2).map(|two| two.iter().sum()).collect();
            }
        }
        let parts = self.of.entry(key).or_default();
        while from < to {
            let part = (from / self.width) as usize;
            if parts.len() <= part {
                parts.resize(part + 1, 0);
            }
            let until = to.min((part as u64 + 1) * self.width);
            parts[part] += until - from;
            from = until;
        }
    }

    /// Returns the largest factor of the rate if each key's time is multiplied by its factor;
    /// `None` if no time is left of the changed states.
    pub fn most(&self, factors: impl Fn(u32) -> f64, length: f64) -> Option<f64> {
        let mut sums = [0u64; PARTS];
        let mut left = 0.0;
        for (&key, parts) in &self.of {
            let factor = factors(key);
            if factor == 1.0 {
                continue;
            }
            for (sum, &ns) in sums.iter_mut().zip(parts) {
                *sum += ns;
                left += factor * ns as f64;
            }
        }
        let at_once = sums.into_iter().max().unwrap_or(0) as f64 / self.width as f64;
        (left > 0.0).then(|| at_once * length / left)
    }
}
