//! Writes numbers of any size at any bit: the inverse of the module `bits`.

use crate::bits::{Leaf, LeafKind};
use crate::types::ByteOrder;

/// Packets that are being written. Bits are counted from the start of the open packet.
#[derive(Debug, Default)]
pub(super) struct BitBuffer {
    bytes: Vec<u8>,
    /// Index of the byte at which the open packet begins.
    start: usize,
}

impl BitBuffer {
    /// The bytes before the open packet.
    pub fn closed(&self) -> &[u8] {
        self.bytes.get(..self.start).unwrap_or(&[])
    }

    pub fn take(&mut self) -> Vec<u8> {
        let open = self.bytes.split_off(self.start);
        self.start = 0;
        std::mem::replace(&mut self.bytes, open)
    }

    /// Ends the open packet with `bytes` bytes; the next packet begins there.
    pub fn close(&mut self, bytes: usize) {
        self.bytes.resize(self.start + bytes, 0);
        self.start = self.bytes.len();
    }

    /// Discards the open packet from bit `at` on.
    pub fn truncate(&mut self, at: u64) {
        let whole = self.start + (at / 8) as usize;
        self.bytes.truncate(whole + usize::from(!at.is_multiple_of(8)));
    }

    /// The byte that contains bit `at`, as it is now. [`restore`](Self::restore) needs it to undo
    /// later writes.
    pub fn byte(&self, at: u64) -> u8 {
        self.bytes.get(self.start + (at / 8) as usize).copied().unwrap_or(0)
    }

    pub fn restore(&mut self, at: u64, byte: u8) {
        self.truncate(at);
        if !at.is_multiple_of(8) {
            if let Some(last) = self.bytes.last_mut() {
                *last = byte;
            }
        }
    }

    /// Extends the buffer up to this bit.
    #[inline]
    fn reach(&mut self, bit: u64) {
        let len = self.start + bit.div_ceil(8) as usize;
        if len > self.bytes.len() {
            self.bytes.resize(len, 0);
        }
    }

    /// Writes whole bytes; `at` must be a byte boundary.
    #[inline]
    pub fn put_bytes(&mut self, at: u64, bytes: &[u8]) {
        let index = self.start + (at / 8) as usize;
        if index == self.bytes.len() {
            self.bytes.extend_from_slice(bytes);
            return;
        }
        self.reach(at + bytes.len() as u64 * 8);
        if let Some(room) = self.bytes.get_mut(index..index + bytes.len()) {
            room.copy_from_slice(bytes);
        }
    }

    /// Writes up to 64 bits; `value` must have no more bits than the leaf.
    #[inline]
    pub fn put(&mut self, at: u64, leaf: Leaf, value: u64) {
        let bits = u32::from(leaf.bits);
        let value = if leaf.reversed { value.reverse_bits() >> (64 - bits) } else { value };
        let shift = (at % 8) as u32;
        let little = leaf.order == ByteOrder::Little;
        if shift == 0 && bits % 8 == 0 {
            let bytes = (bits / 8) as usize;
            match little {
                true => self.put_bytes(at, &value.to_le_bytes()[..bytes]),
                false => self.put_bytes(at, &value.to_be_bytes()[8 - bytes..]),
            }
            return;
        }
        self.reach(at + u64::from(bits));
        let mask = u128::from(u64::MAX >> (64 - bits));
        let len = (shift + bits).div_ceil(8);
        let index = self.start + (at / 8) as usize;
        let left = if little { shift } else { len * 8 - shift - bits };
        let (word, mask) = ((u128::from(value) & mask) << left, mask << left);
        let Some(room) = self.bytes.get_mut(index..index + len as usize) else { return };
        for (i, byte) in room.iter_mut().enumerate() {
            let down = 8 * if little { i as u32 } else { len - 1 - i as u32 };
            *byte = *byte & !((mask >> down) as u8) | (word >> down) as u8;
        }
    }

    /// Writes a floating point number of any size.
    pub fn put_float(&mut self, at: u64, leaf: Leaf, value: f64) {
        let all = match leaf.bits {
            16 => return self.put(at, leaf, u64::from(to_half(value))),
            32 => return self.put(at, leaf, u64::from((value as f32).to_bits())),
            64 => return self.put(at, leaf, value.to_bits()),
            80 => to_extended(value),
            _ => to_quadruple(value),
        };
        let bits = u32::from(leaf.bits).clamp(65, 128);
        let all = if leaf.reversed { all.reverse_bits() >> (128 - bits) } else { all };
        let (high, high_bits) = ((all >> 64) as u64, (bits - 64) as u8);
        let part = |bits| Leaf { bits, kind: LeafKind::Unsigned, reversed: false, ..leaf };
        match leaf.order {
            ByteOrder::Little => {
                self.put(at, part(64), all as u64);
                self.put(at + 64, part(high_bits), high);
            }
            ByteOrder::Big => {
                self.put(at, part(high_bits), high);
                self.put(at + u64::from(high_bits), part(64), all as u64);
            }
        }
    }
}

/// Sign, unbiased exponent, and significand with its leading one at bit 52, of a number that is
/// neither 0 nor infinite.
fn parts(value: f64) -> (bool, i32, u64) {
    let bits = value.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    let negative = bits >> 63 == 1;
    match exponent {
        // A subnormal number, normalized as if the exponent had a larger range.
        0 => {
            let up = fraction.leading_zeros() as i32 - 11;
            (negative, -1022 - up, fraction << up)
        }
        _ => (negative, exponent - 1023, fraction | 1 << 52),
    }
}

/// Converts to half precision (5 bits of exponent, 10 of fraction), rounded to the nearest, ties to
/// even.
fn to_half(value: f64) -> u16 {
    let sign = u16::from(value.is_sign_negative()) << 15;
    if value.is_nan() {
        return sign | 0x7e00;
    }
    if value == 0.0 {
        return sign;
    }
    if value.is_infinite() {
        return sign | 0x7c00;
    }
    let (_, exponent, significand) = parts(value);
    // Number of bits to drop from the significand; more for subnormal numbers.
    let down = if exponent >= -14 { 42 } else { (42 - 14 - exponent).min(60) };
    let kept = significand >> down;
    let rest = significand & ((1 << down) - 1);
    let half = 1u64 << (down - 1);
    let rounded = kept + u64::from(rest > half || rest == half && kept & 1 == 1);
    // A carry out of the fraction increments the exponent, which is the correct result.
    let base = if exponent >= -14 { (i64::from(exponent) + 14) << 10 } else { 0 };
    sign | (base as u64 + rounded).min(0x7c00) as u16
}

/// Converts to quadruple precision (15 bits of exponent, 112 of fraction).
fn to_quadruple(value: f64) -> u128 {
    let sign = u128::from(value.is_sign_negative()) << 127;
    if value.is_nan() {
        return sign | 0x7fff << 112 | 1 << 111;
    }
    if value == 0.0 {
        return sign;
    }
    if value.is_infinite() {
        return sign | 0x7fff << 112;
    }
    let (_, exponent, significand) = parts(value);
    let fraction = u128::from(significand & ((1 << 52) - 1)) << 60;
    sign | ((exponent + 16383) as u128) << 112 | fraction
}

/// Converts to the 80 bits of x87: 15 of exponent, 64 of significand with an explicit leading one.
fn to_extended(value: f64) -> u128 {
    let sign = u128::from(value.is_sign_negative()) << 79;
    if value.is_nan() {
        return sign | 0x7fff << 64 | 3 << 62;
    }
    if value == 0.0 {
        return sign;
    }
    if value.is_infinite() {
        return sign | 0x7fff << 64 | 1 << 63;
    }
    let (_, exponent, significand) = parts(value);
    sign | ((exponent + 16383) as u128) << 64 | u128::from(significand) << 11
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::Window;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_written_number_is_read_back_and_the_bits_around_it_stay(
            at in 0u64..80, bits in 1u8..=64, value: u64, big: bool, reversed: bool, signed: bool, ones: bool,
        ) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let kind = if signed { LeafKind::Signed } else { LeafKind::Unsigned };
            let leaf = Leaf { bits, order, kind, reversed };
            let mut buffer = BitBuffer::default();
            buffer.put_bytes(0, &[if ones { 0xff } else { 0 }; 20]);
            buffer.put(at, leaf, value & u64::MAX >> (64 - bits));
            let window = Window { bytes: &buffer.bytes, base: 0 };
            let shifted = value << (64 - bits);
            let expected = if signed { ((shifted as i64) >> (64 - bits)) as u64 } else { shifted >> (64 - bits) };
            prop_assert_eq!(window.raw(at, leaf), expected);
            let bit = |i| window.raw(i, Leaf { bits: 1, order, kind: LeafKind::Unsigned, reversed: false });
            for i in (0..at).chain(at + u64::from(bits)..160) {
                prop_assert_eq!(bit(i), u64::from(ones));
            }
        }

        #[test]
        fn floating_point_numbers_of_all_sizes_are_read_back(value: f64, single: f32, at in 0u64..9, big: bool, reversed: bool) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            for (bits, value) in [(32, f64::from(single)), (64, value), (80, value), (128, value)] {
                let leaf = Leaf { bits, order, kind: LeafKind::Float, reversed };
                let mut buffer = BitBuffer::default();
                buffer.put_float(at, leaf, value);
                let read = Window { bytes: &buffer.bytes, base: 0 }.float(at, leaf);
                // Subnormal `f64` numbers may be rounded when they are read back from wider
                // formats.
                if value.is_nan() || bits > 64 && value.abs() < f64::MIN_POSITIVE {
                    prop_assert!(read.is_nan() == value.is_nan());
                } else {
                    prop_assert_eq!(read.to_bits(), value.to_bits());
                }
            }
        }

        #[test]
        fn each_half_is_read_back_and_other_numbers_become_the_nearest_half(half: u16, value in -70000f64..70000.0) {
            let leaf = Leaf { bits: 16, order: ByteOrder::Little, kind: LeafKind::Float, reversed: false };
            let read = |bits: u16| Window { bytes: &bits.to_le_bytes(), base: 0 }.float(0, leaf);
            if !read(half).is_nan() {
                prop_assert_eq!(to_half(read(half)), half);
            }
            let near = read(to_half(value));
            for other in [to_half(value).wrapping_add(1), to_half(value).wrapping_sub(1)].map(read) {
                prop_assert!(!other.is_finite() || !near.is_finite() || (near - value).abs() <= (other - value).abs());
            }
        }
    }
}
