//! Clocks: exact conversion of counter cycles to nanoseconds.
//!
//! The value of a clock at `cycles` is `offset_s + (offset + cycles) / frequency` seconds from its
//! origin. The conversion runs once per event, so it must not divide 128-bit numbers. It must also
//! be exact; otherwise events of two traces that share a clock could change their order. Therefore
//! the conversion multiplies by the reciprocal of the frequency and corrects the result exactly.

use crate::identity::Identity;

/// The point in time at which a clock is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Not stated: times are comparable only between clocks of the same identity.
    #[default]
    Unknown,
    /// 1970-01-01 00:00:00 UTC.
    UnixEpoch,
    /// An origin that all clocks share which state the same namespace, name and id.
    Custom {
        /// Namespace of the name.
        namespace: Option<String>,
        /// Name of the origin.
        name: String,
        /// Unique id of the origin in its namespace.
        uid: String,
    },
}

/// A clock of the metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clock {
    /// Name of the clock.
    pub name: String,
    /// UUID of the clock.
    pub uuid: Option<[u8; 16]>,
    /// Identity of the clock, in CTF 2.
    pub identity: Identity,
    /// Point in time of its value 0.
    pub origin: Origin,
    /// Text for people.
    pub description: String,
    /// Cycles per second; never 0.
    pub frequency: u64,
    /// Uncertainty in cycles.
    pub precision: u64,
    /// Greatest systematic error in cycles; `None` if unknown.
    pub accuracy: Option<u64>,
    /// Offset from the origin in seconds.
    pub offset_s: i64,
    /// Offset from the origin in cycles, in addition to the offset in seconds.
    pub offset: i64,
    /// True if the origin is shared by all clocks for which this is `true`: usually the Unix
    /// epoch.
    pub absolute: bool,
}

impl Clock {
    /// Creates a clock of `frequency` Hz without offset.
    pub fn new(name: &str, frequency: u64) -> Clock {
        Clock { name: name.to_owned(), frequency: frequency.max(1), ..Clock::default() }
    }

    /// The offset in whole seconds, and the rest in cycles, which is less than a second, as CTF 2
    /// requires.
    pub(crate) fn split_offset(&self) -> (i64, i64) {
        let (cycles, frequency) = (i128::from(self.offset), i128::from(self.frequency.max(1)));
        (self.offset_s.saturating_add(cycles.div_euclid(frequency) as i64), cycles.rem_euclid(frequency) as i64)
    }

    /// Nanoseconds from the origin, rounded down. Saturates at the limits of `i64`.
    pub fn ns(&self, cycles: u64) -> i64 {
        Converter::new(self).ns(cycles)
    }
}

const NANO: u64 = 1_000_000_000;
/// Greatest absolute value of the base, and greatest time added to it: their sum fits `i64`.
const QUARTER: u64 = (1 << 62) - 1;

/// A clock prepared for conversion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Converter {
    frequency: u64,
    /// Cycles to add, less than those of one second.
    offset: u64,
    /// Nanoseconds to add after the conversion.
    base_ns: i128,
    /// The same value if it fits, so that the common case needs no 128-bit addition; otherwise 0.
    base_ns_small: i64,
    /// floor(10⁹ · 2⁶⁴ / frequency), for frequencies above 1 GHz.
    reciprocal: u64,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// 1 GHz: a cycle is a nanosecond.
    Identity,
    /// Above 1 GHz and below 2⁶³ Hz: multiply by the reciprocal.
    Multiply,
    /// Below 1 GHz: two 64-bit divisions.
    Divide,
    /// 128-bit arithmetic, for results near the limits of `i64` and for frequencies of 2⁶³ Hz or
    /// more.
    Wide,
}

impl Converter {
    pub(crate) fn new(clock: &Clock) -> Converter {
        let frequency = clock.frequency.max(1);
        let seconds = i128::from(clock.offset).div_euclid(i128::from(frequency));
        let base_ns = (i128::from(clock.offset_s) + seconds) * i128::from(NANO);
        // If the base uses at most a quarter of the range, the sum in `ns` cannot overflow.
        let narrow = base_ns.unsigned_abs() <= u128::from(QUARTER);
        Converter {
            frequency,
            offset: i128::from(clock.offset).rem_euclid(i128::from(frequency)) as u64,
            base_ns,
            base_ns_small: if narrow { base_ns as i64 } else { 0 },
            reciprocal: ((u128::from(NANO) << 64) / u128::from(frequency)).min(u128::from(u64::MAX)) as u64,
            way: match frequency {
                f if !narrow || f >> 63 != 0 => Way::Wide,
                NANO => Way::Identity,
                f if f > NANO => Way::Multiply,
                _ => Way::Divide,
            },
        }
    }

    /// Nanoseconds from the origin, rounded down. Saturates at the limits of `i64`.
    #[inline]
    pub(crate) fn ns(&self, cycles: u64) -> i64 {
        if let (Way::Multiply, Some(total)) = (self.way, cycles.checked_add(self.offset)) {
            // The estimate is at most one too small: the reciprocal is less than one too small, and
            // total < 2⁶⁴. So the true remainder is below 2 · frequency, which fits 64 bits; this
            // is why frequencies of 2⁶³ Hz or more are excluded.
            let estimate = ((u128::from(total) * u128::from(self.reciprocal)) >> 64) as u64;
            let rest = total.wrapping_mul(NANO).wrapping_sub(estimate.wrapping_mul(self.frequency));
            let ns = estimate + u64::from(rest >= self.frequency);
            if ns <= QUARTER {
                return self.base_ns_small + ns as i64;
            }
        }
        if let (Way::Identity, Some(total @ 0..=QUARTER)) = (self.way, cycles.checked_add(self.offset)) {
            return self.base_ns_small + total as i64;
        }
        self.slower(cycles)
    }

    /// Appends the nanoseconds of each value.
    pub(crate) fn ns_of_all(&self, cycles: &[u64], ns: &mut Vec<i64>) {
        const FEW: u64 = 1 << 61;
        // If no value is near the limits, the loop needs neither a division nor a branch per value.
        if self.way == Way::Identity && self.offset < FEW && cycles.iter().fold(0, |all, cycles| all | cycles) < FEW {
            let base_ns = self.base_ns_small + self.offset as i64;
            ns.extend(cycles.iter().map(|cycles| base_ns + *cycles as i64));
        } else {
            ns.extend(cycles.iter().map(|cycles| self.ns(*cycles)));
        }
    }

    fn slower(&self, cycles: u64) -> i64 {
        let Some(total) = cycles.checked_add(self.offset) else { return self.wide(cycles) };
        let ns = match self.way {
            Way::Divide => {
                let seconds = total / self.frequency;
                let rest = (total % self.frequency) * NANO / self.frequency;
                match seconds.checked_mul(NANO).and_then(|s| s.checked_add(rest)) {
                    Some(ns) => ns,
                    None => return self.wide(cycles),
                }
            }
            Way::Identity | Way::Multiply | Way::Wide => return self.wide(cycles),
        };
        if ns <= QUARTER {
            self.base_ns_small + ns as i64
        } else {
            self.wide(cycles)
        }
    }

    #[cold]
    fn wide(&self, cycles: u64) -> i64 {
        let total = u128::from(cycles) + u128::from(self.offset);
        let ns = (total / u128::from(self.frequency)) * u128::from(NANO)
            + (total % u128::from(self.frequency)) * u128::from(NANO) / u128::from(self.frequency);
        let sum = i128::try_from(ns).unwrap_or(i128::MAX).saturating_add(self.base_ns);
        sum.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

/// A mask of the lowest `size` bits, 1 to 64.
#[inline(always)]
pub(crate) fn low_bits(size: u32) -> u64 {
    u64::MAX >> (64 - size.clamp(1, 64))
}

/// The full value of a counter, given its last full value and the recorded bits (those in `mask`):
/// the smallest value that has these bits and is not less than the last one. If all bits were
/// recorded, they are the value.
#[inline(always)]
pub(crate) fn extend(last: u64, low: u64, mask: u64) -> u64 {
    let candidate = (last & !mask) | (low & mask);
    if candidate < last {
        // The carry. It is zero if the mask has all bits.
        candidate.wrapping_add(mask.wrapping_add(1))
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_time_beyond_64_bits_is_the_limit() {
        // A base of exactly 2^62 ns, to which as much is added.
        let clock = Clock { offset_s: 4_611_686_018, offset: 427_387_904, ..Clock::new("far", 1_000_000_000) };
        assert_eq!(clock.ns(0), 1 << 62);
        assert_eq!(clock.ns((1 << 62) - 1), i64::MAX);
        assert_eq!(clock.ns(1 << 62), i64::MAX);
    }

    #[test]
    fn a_short_counter_is_extended_over_its_wraps() {
        assert_eq!(extend(0x1_0005, 0x0004, low_bits(16)), 0x2_0004);
        assert_eq!(extend(0x1_0005, 0x0005, low_bits(16)), 0x1_0005);
        assert_eq!(extend(19717, 4, low_bits(8)), 19972);
        assert_eq!(extend(77, 12, low_bits(64)), 12);
    }

    #[test]
    fn offsets_are_added_before_rounding() {
        let mut clock = Clock::new("tsc", 2_500_000_000);
        clock.offset_s = 1_700_000_000;
        clock.offset = 4;
        // 4 + 1 cycles of 0.4 ns are 2 ns; rounding each term separately would yield 1 + 0.
        assert_eq!(clock.ns(1), 1_700_000_000_000_000_002);
        clock.offset = -1;
        assert_eq!(clock.ns(0), 1_699_999_999_999_999_999);
    }

    proptest! {
        #[test]
        fn conversion_is_exact_for_every_frequency_and_value(
            cycles: u64, frequency in prop_oneof![1u64..10_000_000_000, Just(1_000_000_000u64), any::<u64>()],
            offset_s in -4_000_000_000i64..4_000_000_000, offset: i64,
        ) {
            let mut clock = Clock::new("c", frequency);
            clock.offset_s = offset_s;
            clock.offset = offset;
            let f = i128::from(clock.frequency);
            let total = i128::from(offset_s) * f + i128::from(offset) + i128::from(cycles);
            let (s, rest) = (total.div_euclid(f), total.rem_euclid(f));
            let exact = s * 1_000_000_000 + rest * 1_000_000_000 / f;
            prop_assert_eq!(i128::from(clock.ns(cycles)), exact.clamp(i128::from(i64::MIN), i128::from(i64::MAX)));
        }
    }
}
