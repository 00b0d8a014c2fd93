//! Units of timestamps: the meaning of `if_tsresol` and `if_tsoffset`.
//!
//! The format counts 64-bit ticks from an epoch that may be shifted by whole seconds; a tick is a
//! second divided by any power of ten or two. Here timestamps are signed nanoseconds of 128 bits,
//! which is sufficient for every combination, so no conversion can overflow.

/// The length of a tick: the value of the option `if_tsresol`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// 10⁻ⁿ seconds, n ≤ 127.
    Decimal(u8),
    /// 2⁻ⁿ seconds, n ≤ 127.
    Binary(u8),
}

impl Resolution {
    /// The default, if an interface does not state a resolution.
    pub const MICROSECONDS: Resolution = Resolution::Decimal(6);
    /// Units of 1 ns.
    pub const NANOSECONDS: Resolution = Resolution::Decimal(9);

    /// Decodes the byte of the option: the top bit selects the base, the other bits are the negated
    /// exponent.
    pub fn from_option(byte: u8) -> Resolution {
        match byte & 0x80 {
            0 => Resolution::Decimal(byte),
            _ => Resolution::Binary(byte & 0x7f),
        }
    }

    /// The value for the option `if_tsresol`.
    pub fn to_option(self) -> u8 {
        match self {
            Resolution::Decimal(exponent) => exponent & 0x7f,
            Resolution::Binary(exponent) => exponent | 0x80,
        }
    }

    /// Converts ticks to nanoseconds, rounded down.
    pub fn ns(self, ticks: u64) -> i128 {
        const PER_SECOND: u128 = 1_000_000_000;
        let ticks = u128::from(ticks);
        let ns = match self {
            Resolution::Decimal(exponent @ 0..=9) => ticks * 10u128.pow(9 - u32::from(exponent)),
            // A divisor beyond 10³⁸ does not fit, and the quotient of 64-bit ticks is 0 anyway.
            Resolution::Decimal(exponent) => 10u128.checked_pow(u32::from(exponent) - 9).map_or(0, |divisor| ticks / divisor),
            // 64 bits of ticks times 10⁹ are below 2⁹⁴.
            Resolution::Binary(exponent) => (ticks * PER_SECOND) >> (exponent & 0x7f),
        };
        ns as i128
    }

    /// Like [`Resolution::ns`], with the interface's `if_tsoffset` in seconds.
    pub fn ns_with_offset(self, ticks: u64, offset_s: i64) -> i128 {
        self.ns(ticks) + i128::from(offset_s) * 1_000_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_power_of_ten_is_converted_to_nanoseconds() {
        assert_eq!(Resolution::Decimal(0).ns(3), 3_000_000_000);
        assert_eq!(Resolution::Decimal(6).ns(1_340_954_905_298_858), 1_340_954_905_298_858_000);
        assert_eq!(Resolution::Decimal(9).ns(u64::MAX), u64::MAX as i128);
        assert_eq!(Resolution::Decimal(12).ns(1_999), 1);
        assert_eq!(Resolution::Decimal(28).ns(u64::MAX), 1);
        assert_eq!(Resolution::Decimal(127).ns(u64::MAX), 0);
    }

    #[test]
    fn every_power_of_two_is_converted_to_nanoseconds() {
        assert_eq!(Resolution::Binary(0).ns(3), 3_000_000_000);
        assert_eq!(Resolution::Binary(1).ns(3), 1_500_000_000);
        assert_eq!(Resolution::Binary(32).ns(1 << 31), 500_000_000);
        assert_eq!(Resolution::Binary(127).ns(u64::MAX), 0);
    }

    #[test]
    fn extreme_ticks_and_offsets_do_not_overflow() {
        let most = Resolution::Decimal(0).ns_with_offset(u64::MAX, i64::MAX);
        assert_eq!(most, (u64::MAX as i128 + i64::MAX as i128) * 1_000_000_000);
        let least = Resolution::Decimal(0).ns_with_offset(0, i64::MIN);
        assert_eq!(least, i64::MIN as i128 * 1_000_000_000);
    }

    #[test]
    fn the_option_byte_survives_a_round_trip() {
        for byte in 0..=255 {
            assert_eq!(Resolution::from_option(byte).to_option(), byte);
        }
    }
}
