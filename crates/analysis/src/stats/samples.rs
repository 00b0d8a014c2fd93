//! Samples of times, stored as values while they are few and as a histogram when they are many.
//! There are many sets of samples: ten thousand threads with three wake-ups each must cost little.

use crate::stats::histogram::{Histogram, Times};

const FEW: usize = 48;

/// A set of times in ns.
#[derive(Clone, Debug)]
pub enum Samples {
    Few(Vec<u64>),
    Many(Box<Histogram>),
}

impl Default for Samples {
    fn default() -> Samples {
        Samples::Few(Vec::new())
    }
}

impl Samples {
    #[inline]
    pub fn record(&mut self, value: u64) {
        match self {
            Samples::Many(histogram) => histogram.record(value),
            Samples::Few(values) if values.len() < FEW => values.push(value),
            Samples::Few(_) => {
                let mut histogram = self.histogram();
                histogram.record(value);
                *self = Samples::Many(Box::new(histogram));
            }
        }
    }

    pub fn count(&self) -> u64 {
        match self {
            Samples::Few(values) => values.len() as u64,
            Samples::Many(histogram) => histogram.count(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    pub fn sum(&self) -> u64 {
        match self {
            Samples::Few(values) => values.iter().fold(0, |sum: u64, value| sum.saturating_add(*value)),
            Samples::Many(histogram) => histogram.sum(),
        }
    }

    pub fn add(&mut self, other: &Samples) {
        match (&mut *self, other) {
            (_, Samples::Few(values)) => values.iter().for_each(|&value| self.record(value)),
            (Samples::Many(histogram), Samples::Many(more)) => histogram.add(more),
            (Samples::Few(_), Samples::Many(more)) => {
                let mut histogram = self.histogram();
                histogram.add(more);
                *self = Samples::Many(Box::new(histogram));
            }
        }
    }

    pub fn times(&self) -> Times {
        match self {
            Samples::Few(_) => self.histogram().times(),
            Samples::Many(histogram) => histogram.times(),
        }
    }

    /// Returns the samples as a histogram.
    pub fn histogram(&self) -> Histogram {
        match self {
            Samples::Many(histogram) => (**histogram).clone(),
            Samples::Few(values) => {
                let mut histogram = Histogram::default();
                values.iter().for_each(|&value| histogram.record(value));
                histogram
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_samples_have_the_same_statistics() {
        for count in [0, 1, FEW as u64, FEW as u64 + 1, 1000] {
            let (mut samples, mut histogram) = (Samples::default(), Histogram::default());
            for value in (0..count).map(|n| n * n) {
                samples.record(value);
                histogram.record(value);
            }
            assert_eq!((samples.times(), samples.count(), samples.sum()), (histogram.times(), count, histogram.sum()));
        }
    }
}
