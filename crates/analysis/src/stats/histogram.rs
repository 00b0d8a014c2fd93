//! A log-linear histogram with 64 linear buckets per power of two.
//!
//! A value is known to within 1/128 of itself (0.8 %), and exactly below 128. Minimum, maximum, sum
//! and mean are exact. The size is bounded by the range of u64 (about 3,800 buckets); only buckets
//! up to the largest value are allocated. Values may be weighted, for example by their duration.

use serde::Serialize;

const BITS: u32 = 6;
const BUCKETS: u64 = 1 << BITS;

/// The histogram. `weight` is the number of values, or the sum of their weights.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    weight: u64,
    min: u64,
    max: u64,
    sum: u128,
    mean: f64,
    spread: f64,
}

/// Count, extremes, mean and percentiles of times. The names of the fields are part of the `--json`
/// format.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    pub count: u64,
    pub min_ns: Option<u64>,
    pub mean_ns: Option<f64>,
    pub stddev_ns: Option<f64>,
    pub p50_ns: Option<u64>,
    pub p90_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub max_ns: Option<u64>,
    pub total_ns: u64,
}

impl Histogram {
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_weighted(value, 1);
    }

    #[inline]
    pub fn record_weighted(&mut self, value: u64, weight: u64) {
        if weight == 0 {
            return;
        }
        let at = bucket(value);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += weight;
        if self.weight == 0 || value < self.min {
            self.min = value;
        }
        self.max = self.max.max(value);
        self.weight = self.weight.saturating_add(weight);
        self.sum += u128::from(value) * u128::from(weight);
        // Welford's method, weighted: sums of squares of ns would lose the deviation of long,
        // similar times.
        let distance = value as f64 - self.mean;
        self.mean += distance * weight as f64 / self.weight as f64;
        self.spread += weight as f64 * distance * (value as f64 - self.mean);
    }

    /// Adds another histogram's values.
    pub fn add(&mut self, other: &Histogram) {
        if other.weight == 0 {
            return;
        }
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.min = if self.weight == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        // Chan's formula for joining means and deviations.
        let (mine, theirs) = (self.weight as f64, other.weight as f64);
        let distance = other.mean - self.mean;
        self.spread += other.spread + distance * distance * mine * theirs / (mine + theirs);
        self.mean += distance * theirs / (mine + theirs);
        self.weight = self.weight.saturating_add(other.weight);
    }

    pub fn count(&self) -> u64 {
        self.weight
    }

    pub fn is_empty(&self) -> bool {
        self.weight == 0
    }

    pub fn sum(&self) -> u64 {
        u64::try_from(self.sum).unwrap_or(u64::MAX)
    }

    pub fn min(&self) -> Option<u64> {
        (self.weight > 0).then_some(self.min)
    }

    pub fn max(&self) -> Option<u64> {
        (self.weight > 0).then_some(self.max)
    }

    pub fn mean(&self) -> Option<f64> {
        (self.weight > 0).then(|| self.sum as f64 / self.weight as f64)
    }

    pub fn stddev(&self) -> Option<f64> {
        (self.weight > 0).then(|| (self.spread / self.weight as f64).max(0.0).sqrt())
    }

    /// Returns the smallest value that at least this share of the weight does not exceed.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        if self.weight == 0 {
            return None;
        }
        let rank = ((share * self.weight as f64).ceil() as u64).clamp(1, self.weight);
        let mut seen = 0;
        for (at, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(middle(at).clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }

    /// Returns the share of the weight at values of at least `value`.
    pub fn share_from(&self, value: u64) -> Option<f64> {
        if self.weight == 0 {
            return None;
        }
        let from: u64 = self.counts.iter().skip(bucket(value)).sum();
        Some(from as f64 / self.weight as f64)
    }

    /// Returns the middle and the weight of each bucket that is not empty.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, &count)| count > 0).map(|(at, &count)| (middle(at), count))
    }

    pub fn times(&self) -> Times {
        Times {
            count: self.weight,
            min_ns: self.min(),
            mean_ns: self.mean(),
            stddev_ns: self.stddev(),
            p50_ns: self.quantile(0.5),
            p90_ns: self.quantile(0.9),
            p99_ns: self.quantile(0.99),
            max_ns: self.max(),
            total_ns: self.sum(),
        }
    }
}

fn bucket(value: u64) -> usize {
    let octave = (64 - value.leading_zeros()).saturating_sub(BITS + 1);
    ((u64::from(octave) << BITS) + (value >> octave)) as usize
}

fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let octave = (bucket >> BITS).saturating_sub(1);
    let low = (bucket - (octave << BITS)) << octave;
    debug_assert!(octave == 0 || low >> octave >= BUCKETS);
    low + ((1u64 << octave) - 1) / 2
}

/// Time in ns from the begin to the end; 0 if the end is before the begin.
pub(crate) fn since(begin_ns: i64, end_ns: i64) -> u64 {
    end_ns.saturating_sub(begin_ns).max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_values_are_exact() {
        for value in 0..128 {
            assert_eq!(middle(bucket(value)), value);
        }
    }

    #[test]
    fn an_empty_histogram_has_no_values() {
        let times = Histogram::default().times();
        assert_eq!((times.count, times.min_ns, times.p50_ns), (0, None, None));
    }

    proptest! {
        #[test]
        fn a_bucket_is_within_one_percent(value in any::<u64>()) {
            let found = middle(bucket(value));
            prop_assert!(found.abs_diff(value) as f64 <= value as f64 * 0.01);
        }

        #[test]
        fn quantiles_are_within_one_percent_of_the_sorted_values(
            mut values in proptest::collection::vec(0u64..10_000_000_000, 1..300), share in 0.0..1.0f64
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.record(value));
            values.sort_unstable();
            let rank = ((share * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let truth = values[rank - 1];
            let found = histogram.quantile(share).unwrap();
            prop_assert!(found.abs_diff(truth) as f64 <= truth as f64 * 0.01, "{found} {truth}");
            prop_assert_eq!(histogram.sum(), values.iter().sum::<u64>());
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            let variance = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum::<f64>() / values.len() as f64;
            prop_assert!((histogram.stddev().unwrap() - variance.sqrt()).abs() <= 1.0 + variance.sqrt() * 1e-6);
        }
    }
}
