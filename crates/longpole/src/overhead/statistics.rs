//! Medians with an interval that assumes nothing about the distribution of the noise: the order
//! statistics that enclose the median in 95 of 100 cases.

use serde::Serialize;

/// A median and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    /// Returns the estimate. `None` for fewer than six values, whose extremes do not enclose the
    /// median with that certainty.
    pub fn of(mut values: Vec<f64>) -> Option<Estimate> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let outside = values_outside(values.len())?;
        Some(Estimate { median: middle(&values)?, low: values[outside], high: values[values.len() - 1 - outside] })
    }
}

/// Returns the median of sorted values.
fn middle(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[half - 1] + upper) / 2.0 })
}

/// Returns the number of values to skip at each end: the largest k for which P(at most k of n fair
/// coins show heads) ≤ 2.5 %. `None` if there is no such k.
fn values_outside(n: usize) -> Option<usize> {
    let mut chance = 0.5f64.powi(i32::try_from(n).ok()?);
    let mut sum = chance;
    let mut outside = None;
    for k in 0..n {
        if sum > 0.025 {
            break;
        }
        outside = Some(k);
        chance *= (n - k) as f64 / (k + 1) as f64;
        sum += chance;
    }
    outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_fifteen_values_reaches_from_the_fourth_to_the_twelfth() {
        let estimate = Estimate::of((1..=15).rev().map(f64::from).collect()).unwrap();
        assert_eq!(estimate, Estimate { median: 8.0, low: 4.0, high: 12.0 });
    }

    #[test]
    fn five_values_are_too_few_for_an_interval_and_six_are_enough() {
        assert_eq!(Estimate::of((1..=5).map(f64::from).collect()), None);
        assert_eq!(Estimate::of((1..=6).map(f64::from).collect()), Some(Estimate { median: 3.5, low: 1.0, high: 6.0 }));
    }

    #[test]
    fn values_that_are_not_finite_are_ignored() {
        let mut values: Vec<f64> = (1..=15).map(f64::from).collect();
        values.extend([f64::NAN, f64::INFINITY]);
        assert_eq!(Estimate::of(values).unwrap().median, 8.0);
    }
}
