//! The difference between two runs: the change of a mean, with its 95 % confidence interval.
//!
//! Each run is a small number of values, one per window of equal width or per repeated recording.
//! Single events of a run are correlated and would make any difference look certain. Welch's
//! interval does not assume that both runs have the same variance.

use serde::Serialize;

/// Increase of a value from the first run to the second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    pub change: f64,
    /// Bounds of the 95 % interval; `None` if there are too few values.
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl Change {
    /// Returns the change of the mean; `None` if one side has no value.
    pub fn of(a: &[f64], b: &[f64]) -> Option<Change> {
        let even = |values: &[f64]| values.iter().map(|&value| (value, 1.0)).collect::<Vec<_>>();
        Change::weighted(&even(a), &even(b))
    }

    /// Returns the change of the weighted mean: windows in which more happened count more.
    pub fn weighted(a: &[(f64, f64)], b: &[(f64, f64)]) -> Option<Change> {
        let (from, to) = (Moments::of(a)?, Moments::of(b)?);
        let change = to.mean - from.mean;
        let half = from.error_squared.zip(to.error_squared).map(|(x, y)| {
            let sum = x + y;
            let freedom = match sum > 0.0 {
                true => sum * sum / (x * x / (a.len() - 1) as f64 + y * y / (b.len() - 1) as f64),
                false => f64::INFINITY,
            };
            t_95(freedom) * sum.sqrt()
        });
        Some(Change { change, low: half.map(|half| change - half), high: half.map(|half| change + half) })
    }

    /// Returns true if 0 is outside of the interval.
    pub fn is_certain(&self) -> bool {
        self.low.is_some_and(|low| low > 0.0) || self.high.is_some_and(|high| high < 0.0)
    }
}

struct Moments {
    mean: f64,
    /// Squared standard error of the mean; `None` for a single value.
    error_squared: Option<f64>,
}

impl Moments {
    fn of(values: &[(f64, f64)]) -> Option<Moments> {
        let all: f64 = values.iter().map(|(_, weight)| weight).sum();
        if all <= 0.0 {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().map(|(value, weight)| value * weight).sum::<f64>() / all;
        let squares: f64 = values.iter().map(|(value, weight)| (weight * (value - mean) / all).powi(2)).sum();
        Some(Moments { mean, error_squared: (values.len() > 1).then(|| squares * count / (count - 1.0)) })
    }
}

/// Returns half the width of the 95 % interval of the mean; `None` for a single value.
pub fn half_95(values: &[f64]) -> Option<f64> {
    let even: Vec<(f64, f64)> = values.iter().map(|&value| (value, 1.0)).collect();
    let freedom = values.len().checked_sub(1)? as f64;
    Some(t_95(freedom) * Moments::of(&even)?.error_squared?.sqrt())
}

/// Two-sided 95 % quantile of Student's t distribution.
fn t_95(freedom: f64) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101,
        2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    match freedom {
        few if few < 1.0 => TABLE[0],
        // Between two rows the larger value, so that the interval is never too narrow.
        some if some < 31.0 => TABLE[some as usize - 1],
        many => 1.96 + 2.5 / many,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_matches_welchs_formula() {
        // Welch's formula yields 5.82 degrees of freedom and a standard error of 1.2708; t for 5 is
        // 2.571.
        let a = [19.8, 20.4, 19.6, 17.8, 18.5, 18.9, 18.3];
        let b = [28.2, 26.6, 20.1, 23.3, 25.2, 22.1];
        let change = Change::of(&a, &b).unwrap();
        assert!((change.change - 5.2071).abs() < 1e-3, "{change:?}");
        assert!(change.is_certain());
        assert!((change.low.unwrap() - 1.940).abs() < 0.001 && (change.high.unwrap() - 8.474).abs() < 0.001, "{change:?}");
    }

    #[test]
    fn a_single_value_has_no_interval_and_no_value_has_no_change() {
        assert_eq!(Change::of(&[], &[1.0]), None);
        let single = Change::of(&[1.0], &[3.0]).unwrap();
        assert_eq!((single.change, single.low, single.is_certain()), (2.0, None, false));
        let equal = Change::of(&[1.0, 1.0], &[1.0, 1.0]).unwrap();
        assert!(!equal.is_certain());
    }
}
