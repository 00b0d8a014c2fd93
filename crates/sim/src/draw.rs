//! Random numbers that are the same on every host and in every version.
//!
//! The durations in a simulation are a function of (seed, machine, step, count), so the k-th item
//! has the same cost whatever else was changed. Parameters are drawn one after the other from a
//! [`Pick`]. Only integer arithmetic and the four exact operations of floating point are used, and
//! no libm, because the last bit of its results differs between hosts.

/// The finaliser of splitmix64 (Steele, Lea and Flood 2014).
pub fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The random word of the `count`-th execution of a step.
pub fn word(stream: u64, count: u64) -> u64 {
    mix(stream ^ mix(count))
}

/// Uniform in (0, 1].
fn unit(word: u64) -> f64 {
    ((word >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// A distribution of durations, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dist {
    Fixed(u64),
    /// Uniform between two values, both included.
    Uniform(u64, u64),
    /// Exponential with this mean.
    Exponential(u64),
}

impl Dist {
    /// Uniform around this mean; `spread` is the largest deviation as a part of the mean.
    pub fn around(mean: u64, spread: f64) -> Dist {
        let by = (mean as f64 * spread) as u64;
        Dist::Uniform(mean - by.min(mean), mean + by)
    }

    pub fn at(self, word: u64) -> u64 {
        match self {
            Dist::Fixed(ns) => ns,
            Dist::Uniform(low, high) => low + ((u128::from(word) * u128::from(high - low + 1)) >> 64) as u64,
            Dist::Exponential(mean) => (-(mean as f64) * ln(unit(word))).round() as u64,
        }
    }
}

/// The natural logarithm of a positive normal number, by the series of the inverse hyperbolic
/// tangent.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut m = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        m /= 2.0;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let (mut term, mut sum, mut k) = (s, 0.0, 1.0);
    while k < 40.0 {
        sum += term / k;
        term *= s * s;
        k += 2.0;
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * sum
}

/// A source of parameters, drawn one after the other.
#[derive(Clone, Debug)]
pub struct Pick(u64);

impl Pick {
    pub fn new(seed: u64, what: &str) -> Pick {
        Pick(what.bytes().fold(mix(seed), |hash, byte| mix(hash ^ u64::from(byte))))
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A uniform integer, both ends included.
    pub fn int(&mut self, low: u64, high: u64) -> u64 {
        Dist::Uniform(low, high).at(self.number())
    }

    pub fn real(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * unit(self.number())
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.int(0, at as u64) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_equals_that_of_the_library_except_for_the_last_digits() {
        for k in 1..2000u32 {
            let x = f64::from(k) / 1000.0;
            assert!((ln(x) - x.ln()).abs() <= 1e-14 * x.ln().abs().max(1.0), "{x}");
        }
    }

    #[test]
    fn the_mean_of_draws_is_that_of_the_distribution() {
        for (dist, mean) in [(Dist::Fixed(70), 70.0), (Dist::Uniform(50, 150), 100.0), (Dist::Exponential(1000), 1000.0)] {
            let sum: u64 = (0..100_000).map(|k| dist.at(word(7, k))).sum();
            assert!((sum as f64 / 1e5 / mean - 1.0).abs() < 0.02, "{dist:?} {sum}");
        }
    }
}
