//! Reads numbers of any size at any bit. Reads never leave the given bytes: bits beyond them read
//! as zero. The executor checks once per run of fields that the fields lie within the packet, so
//! this module does not check it again.

use crate::types::ByteOrder;

/// A part of a packet: `bytes[0]` is located `base` bits after the start of the packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<'a> {
    pub bytes: &'a [u8],
    pub base: u64,
}

/// The meaning of the bits of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafKind {
    Unsigned,
    /// An unsigned element of an array whose values have names; therefore the array is not one of
    /// bytes.
    Named,
    /// A byte of a text or a BLOB. Such a field is present as a whole or not at all.
    Byte,
    Signed,
    Float,
    Bool,
}

/// A number of 1 to 64 bits, or a wide floating point number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub bits: u8,
    pub order: ByteOrder,
    pub kind: LeafKind,
    /// See [`IntType::reversed`](crate::types::IntType::reversed).
    pub reversed: bool,
}

impl Leaf {
    #[inline(always)]
    fn lower(self, high: u64, unused: u32) -> u64 {
        match self.kind {
            LeafKind::Signed => ((high as i64) >> unused) as u64,
            _ => high >> unused,
        }
    }
}

impl<'a> Window<'a> {
    /// The bits of a leaf of at most 64 bits, sign-extended if the leaf is signed.
    #[inline(always)]
    pub(crate) fn raw(&self, at: u64, leaf: Leaf) -> u64 {
        if leaf.reversed {
            return self.raw_reversed(at, leaf);
        }
        let relative = at.wrapping_sub(self.base);
        let (index, shift) = ((relative >> 3) as usize, (relative & 7) as u32);
        let unused = 64 - u32::from(leaf.bits);
        let end = index.wrapping_add(8);
        let word = match self.bytes.get(index..end).and_then(|b| b.first_chunk::<8>()) {
            Some(bytes) if shift <= unused => u64::from_le_bytes(*bytes),
            _ => return self.raw_slowly(index, shift, leaf),
        };
        // The value, moved to the upper end of the word.
        let high = match leaf.order {
            ByteOrder::Little => (word >> shift) << unused,
            ByteOrder::Big => word.swap_bytes() << shift,
        };
        leaf.lower(high, unused)
    }

    #[cold]
    #[inline(never)]
    fn raw_reversed(&self, at: u64, leaf: Leaf) -> u64 {
        let usual = self.raw(at, Leaf { kind: LeafKind::Unsigned, reversed: false, ..leaf });
        leaf.lower(usual.reverse_bits(), 64 - u32::from(leaf.bits))
    }

    /// A floating point number of any size.
    pub(crate) fn float(&self, at: u64, leaf: Leaf) -> f64 {
        match leaf.bits {
            16 => half(self.raw(at, leaf) as u16),
            32 => f64::from(f32::from_bits(self.raw(at, leaf) as u32)),
            64 => f64::from_bits(self.raw(at, leaf)),
            bits => {
                // Two parts: the lower 64 bits and the rest. The byte order decides which one comes
                // first.
                let low_bits = 64;
                let high_bits = bits.saturating_sub(low_bits).clamp(1, 64);
                let part = |at, bits| self.raw(at, Leaf { bits, kind: LeafKind::Unsigned, reversed: false, ..leaf });
                let (high, low) = match leaf.order {
                    ByteOrder::Little => (part(at + u64::from(low_bits), high_bits), part(at, low_bits)),
                    ByteOrder::Big => (part(at, high_bits), part(at + u64::from(high_bits), low_bits)),
                };
                let mut all = u128::from(high) << 64 | u128::from(low);
                if leaf.reversed {
                    all = all.reverse_bits() >> (128 - u32::from(bits));
                }
                match bits {
                    80 => extended(all),
                    _ => quadruple(all),
                }
            }
        }
    }

    /// The slow path of `raw`: near the end of the bytes, or if the number spans nine bytes.
    #[cold]
    #[inline(never)]
    fn raw_slowly(&self, index: usize, shift: u32, leaf: Leaf) -> u64 {
        let unused = 64 - u32::from(leaf.bits);
        let word = self.word_at_end(index);
        let ninth = u128::from(self.bytes.get(index.wrapping_add(8)).copied().unwrap_or(0));
        let high = match leaf.order {
            ByteOrder::Little => ((ninth << 64 | u128::from(word)) >> shift << unused) as u64,
            ByteOrder::Big => ((u128::from(word.swap_bytes()) << 8 | ninth) << shift >> 8) as u64,
        };
        leaf.lower(high, unused)
    }

    /// Eight bytes as a little-endian number; bytes beyond the end are zero.
    fn word_at_end(&self, index: usize) -> u64 {
        let tail = self.bytes.get(index..).unwrap_or(&[]);
        tail.iter().take(8).enumerate().fold(0, |word, (i, b)| word | u64::from(*b) << (8 * i))
    }

    /// Index of the byte that contains bit `at` of the packet.
    #[inline(always)]
    pub(crate) fn index(&self, at: u64) -> usize {
        (at.wrapping_sub(self.base) >> 3) as usize
    }

    /// Whole bytes; `at` must be a multiple of 8.
    #[inline]
    pub(crate) fn slice(&self, at: u64, bytes: u64) -> &'a [u8] {
        let start = (at.wrapping_sub(self.base) >> 3) as usize;
        start.checked_add(bytes as usize).and_then(|end| self.bytes.get(start..end)).unwrap_or(&[])
    }

    /// Number of bytes before the first NUL, searched from `at` to `limit`, which are both
    /// multiples of 8. `None` if there is no NUL.
    #[inline]
    pub(crate) fn text_len(&self, at: u64, limit: u64) -> Option<u64> {
        nul(self.slice(at, limit.saturating_sub(at) >> 3)).map(|len| len as u64)
    }

    /// Like `text_len`, for a NUL of `unit` bytes at a multiple of `unit`. The result is in bytes.
    pub(crate) fn wide_text_len(&self, at: u64, limit: u64, unit: u64) -> Option<u64> {
        let bytes = self.slice(at, limit.saturating_sub(at) >> 3);
        bytes.chunks_exact(unit as usize).position(|unit| unit.iter().all(|b| *b == 0)).map(|index| index as u64 * unit)
    }

    /// The bytes before the first NUL, or all `bytes` bytes if there is none; `at` must be a
    /// multiple of 8.
    #[inline]
    pub(crate) fn text(&self, at: u64, bytes: u64) -> &'a [u8] {
        let bytes = self.slice(at, bytes);
        nul(bytes).map_or(bytes, |end| &bytes[..end])
    }
}

/// Converts IEEE 754 half precision (16 bits: 5 of exponent, 10 of fraction).
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// Converts IEEE 754 quadruple precision (128 bits: 15 of exponent, 112 of fraction), rounded to
/// the nearest `f64`.
fn quadruple(bits: u128) -> f64 {
    let fraction = bits & ((1 << 112) - 1);
    let exponent = (bits >> 112 & 0x7fff) as i32;
    // Subnormal numbers of this format are far below the smallest `f64`.
    let significand = if exponent == 0 { 0 } else { fraction | 1 << 112 };
    wide(bits >> 127 == 1, exponent, fraction == 0, significand, 112)
}

/// Converts an x87 extended number (80 bits: 15 of exponent, 64 of significand with an explicit
/// leading one).
fn extended(bits: u128) -> f64 {
    let significand = bits & u128::from(u64::MAX);
    wide(bits >> 79 & 1 == 1, (bits >> 64 & 0x7fff) as i32, significand << 1 & u128::from(u64::MAX) == 0, significand, 63)
}

fn wide(negative: bool, exponent: i32, no_fraction: bool, significand: u128, point: i32) -> f64 {
    let value = match exponent {
        0x7fff if no_fraction => f64::INFINITY,
        0x7fff => f64::NAN,
        // The scale is applied in two steps, so that neither factor is outside the range of `f64`.
        // The conversion of the integer rounds once; if the result is a subnormal `f64`, the second
        // rounding may change its last bit.
        _ => {
            let scale = (exponent - 16383 - point).clamp(-2000, 2000);
            significand as f64 * 2f64.powi(scale / 2) * 2f64.powi(scale - scale / 2)
        }
    };
    if negative {
        -value
    } else {
        value
    }
}

/// Index of the first NUL.
#[inline]
fn nul(bytes: &[u8]) -> Option<usize> {
    // Searches eight bytes at a time. The lowest byte marked in `zero` is always a NUL; higher ones
    // may be false.
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let zero = word.wrapping_sub(LOW) & !word & HIGH;
        if zero != 0 {
            return Some(at * 8 + zero.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|b| *b == 0).map(|at| words.len() * 8 + at)
}

/// A precomputed load of a number at a constant distance from a byte boundary, if eight consecutive
/// bytes contain the number. This is the common case; it takes one load and two shifts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Distance from the byte boundary to the first of the eight bytes, in bytes.
    byte: u32,
    /// Left shift that moves the number to the upper end of the word.
    left: u8,
    /// Number of bits of the word that the number does not use.
    unused: u8,
    big: bool,
}

impl Load {
    /// Returns `None` if the number may span nine bytes, or if its bits are reversed.
    pub(crate) fn new(offset: u64, leaf: Leaf) -> Option<Load> {
        if leaf.reversed || leaf.bits > 64 {
            return None;
        }
        let (shift, unused) = ((offset % 8) as u8, 64 - leaf.bits);
        let byte = u32::try_from(offset / 8).ok()?;
        let big = leaf.order == ByteOrder::Big;
        let left = if big { shift } else { unused.checked_sub(shift)? };
        (shift <= unused).then_some(Load { byte, left, unused, big })
    }

    /// The number at the upper end of a word; `index` is the byte from which distances count.
    /// `None` near the end of the bytes.
    #[inline(always)]
    pub(crate) fn high(&self, bytes: &[u8], index: usize) -> Option<u64> {
        let start = index.wrapping_add(self.byte as usize);
        let mut word = u64::from_le_bytes(*bytes.get(start..start.wrapping_add(8))?.first_chunk::<8>()?);
        if self.big {
            word = word.swap_bytes();
        }
        Some(word << (self.left & 63))
    }

    #[inline(always)]
    pub(crate) fn unsigned(&self, high: u64) -> u64 {
        high >> (self.unused & 63)
    }

    #[inline(always)]
    pub(crate) fn signed(&self, high: u64) -> i64 {
        (high as i64) >> (self.unused & 63)
    }
}

/// The next multiple of `align`, a power of two.
#[inline]
pub(crate) fn align_up(at: u64, align: u32) -> u64 {
    let mask = u64::from(align) - 1;
    at.wrapping_add(mask) & !mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads bit by bit, in the words of the specification.
    fn slow(bytes: &[u8], at: u64, leaf: Leaf) -> u64 {
        let bit = |i: u64| {
            let byte = u64::from(bytes.get((i / 8) as usize).copied().unwrap_or(0));
            match leaf.order {
                ByteOrder::Little => byte >> (i % 8) & 1,
                ByteOrder::Big => byte >> (7 - i % 8) & 1,
            }
        };
        let bits = u64::from(leaf.bits);
        let value = (0..bits).fold(0, |v, i| match leaf.order {
            ByteOrder::Little => v | bit(at + i) << i,
            ByteOrder::Big => v << 1 | bit(at + i),
        });
        if leaf.kind == LeafKind::Signed && bits < 64 && value >> (bits - 1) == 1 {
            value | u64::MAX << bits
        } else {
            value
        }
    }

    proptest! {
        #[test]
        fn a_prepared_load_reads_the_same_as_a_bitwise_read(
            bytes in proptest::collection::vec(any::<u8>(), 8..40), offset in 0u64..160, bits in 1u8..=64, big: bool,
        ) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let leaf = Leaf { bits, order, kind: LeafKind::Unsigned, reversed: false };
            let load = Load::new(offset, leaf);
            prop_assert_eq!(load.is_some(), offset % 8 + u64::from(bits) <= 64);
            if let Some((load, high)) = load.and_then(|l| l.high(&bytes, 1).map(|h| (l, h))) {
                prop_assert_eq!(load.unsigned(high), slow(&bytes, offset + 8, leaf));
                let signed = slow(&bytes, offset + 8, Leaf { kind: LeafKind::Signed, ..leaf });
                prop_assert_eq!(load.signed(high) as u64, signed);
            }
        }

        #[test]
        fn numbers_of_every_size_at_every_bit_read_as_bit_by_bit(
            bytes in proptest::collection::vec(any::<u8>(), 0..24), at in 0u64..200, bits in 1u8..=64, big: bool, signed: bool,
        ) {
            let leaf = Leaf {
                bits,
                order: if big { ByteOrder::Big } else { ByteOrder::Little },
                kind: if signed { LeafKind::Signed } else { LeafKind::Unsigned },
                reversed: false,
            };
            prop_assert_eq!(Window { bytes: &bytes, base: 0 }.raw(at, leaf), slow(&bytes, at, leaf));
        }

        #[test]
        fn reversed_bits_are_read_in_reverse_order(
            bytes in proptest::collection::vec(any::<u8>(), 0..24), at in 0u64..200, bits in 1u8..=64, big: bool,
        ) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let leaf = Leaf { bits, order, kind: LeafKind::Unsigned, reversed: false };
            let window = Window { bytes: &bytes, base: 0 };
            let usual = window.raw(at, leaf);
            let backwards = (0..bits).fold(0, |value, bit| value << 1 | usual >> bit & 1);
            prop_assert_eq!(window.raw(at, Leaf { reversed: true, ..leaf }), backwards);
            let signed = window.raw(at, Leaf { reversed: true, kind: LeafKind::Signed, ..leaf });
            prop_assert_eq!(signed << (64 - bits), backwards << (64 - bits));
            prop_assert_eq!((signed as i64) < 0, backwards >> (bits - 1) & 1 == 1);
        }

        #[test]
        fn a_half_precision_number_has_the_same_value_in_wider_formats(fraction in 0u32..1024, exponent in 1u32..31, negative: bool) {
            // The same value, composed from the definition of each format.
            let sign = u32::from(negative);
            let half = (sign << 15 | exponent << 10 | fraction) as u16;
            let single = f32::from_bits(sign << 31 | (exponent + 112) << 23 | fraction << 13);
            prop_assert_eq!(super::half(half), f64::from(single));
            let quad = u128::from(sign) << 127 | u128::from(exponent + 16368) << 112 | u128::from(fraction) << 102;
            prop_assert_eq!(super::quadruple(quad), f64::from(single));
            let x87 = u128::from(sign) << 79 | u128::from(exponent + 16368) << 64 | 1 << 63 | u128::from(fraction) << 53;
            prop_assert_eq!(super::extended(x87), f64::from(single));
        }

        #[test]
        fn the_first_nul_ends_a_text(bytes in proptest::collection::vec(0u8..3, 0..40)) {
            let window = Window { bytes: &bytes, base: 0 };
            let expected = bytes.iter().position(|b| *b == 0).map(|i| i as u64);
            prop_assert_eq!(window.text_len(0, bytes.len() as u64 * 8), expected);
        }
    }
}
