//! Numbers of any size at any bit. Reads never leave the given bytes: what lies beyond reads as zero, and whether a field
//! lies within the packet is the executor's question, asked once per run of fields.

use crate::types::ByteOrder;

/// A part of a packet: `bytes[0]` lies `base` bits after the packet's begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<'a> {
    pub bytes: &'a [u8],
    pub base: u64,
}

/// What a leaf's bits mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafKind {
    Unsigned,
    Signed,
    Float,
}

/// A number of 1 to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub bits: u8,
    pub order: ByteOrder,
    pub kind: LeafKind,
}

impl<'a> Window<'a> {
    /// The bits of a leaf, sign-extended where it is signed.
    #[inline]
    pub(crate) fn raw(&self, at: u64, leaf: Leaf) -> u64 {
        let relative = at.wrapping_sub(self.base);
        let (index, shift) = ((relative >> 3) as usize, (relative & 7) as u32);
        let unused = 64 - u32::from(leaf.bits);
        let word = self.word(index);
        let high = if shift <= unused {
            // The value, moved to the upper end of the word.
            match leaf.order {
                ByteOrder::Little => (word >> shift) << unused,
                ByteOrder::Big => word.swap_bytes() << shift,
            }
        } else {
            let ninth = u64::from(self.bytes.get(index.wrapping_add(8)).copied().unwrap_or(0));
            match leaf.order {
                ByteOrder::Little => ((word >> shift) | (ninth << (64 - shift))) << unused,
                ByteOrder::Big => (word.swap_bytes() << shift) | (ninth >> (8 - shift)),
            }
        };
        match leaf.kind {
            LeafKind::Signed => ((high as i64) >> unused) as u64,
            _ => high >> unused,
        }
    }

    /// Eight bytes as a little-endian number.
    #[inline]
    fn word(&self, index: usize) -> u64 {
        match self.bytes.get(index..).and_then(|b| b.first_chunk::<8>()) {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => self.word_at_end(index),
        }
    }

    #[cold]
    fn word_at_end(&self, index: usize) -> u64 {
        let tail = self.bytes.get(index..).unwrap_or(&[]);
        tail.iter().take(8).enumerate().fold(0, |word, (i, b)| word | u64::from(*b) << (8 * i))
    }

    /// Whole bytes; `at` is a multiple of 8.
    #[inline]
    pub(crate) fn slice(&self, at: u64, bytes: u64) -> &'a [u8] {
        let start = (at.wrapping_sub(self.base) >> 3) as usize;
        start.checked_add(bytes as usize).and_then(|end| self.bytes.get(start..end)).unwrap_or(&[])
    }

    /// How many bytes lie before the first NUL from `at` on and before `limit`, both multiples of 8.
    #[inline]
    pub(crate) fn text_len(&self, at: u64, limit: u64) -> Option<u64> {
        let bytes = self.slice(at, limit.saturating_sub(at) >> 3);
        // Eight bytes at a time: the lowest marked byte of a word is exact.
        const LOW: u64 = 0x0101_0101_0101_0101;
        const HIGH: u64 = 0x8080_8080_8080_8080;
        let mut words = bytes.chunks_exact(8);
        let mut len = 0;
        for chunk in words.by_ref() {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            let word = u64::from_le_bytes(word);
            let zero = word.wrapping_sub(LOW) & !word & HIGH;
            if zero != 0 {
                return Some(len + u64::from(zero.trailing_zeros() / 8));
            }
            len += 8;
        }
        words.remainder().iter().position(|b| *b == 0).map(|i| len + i as u64)
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

    /// Bit by bit, as the specification words it.
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
        fn every_size_at_every_bit_in_both_orders_reads_as_bit_by_bit(
            bytes in proptest::collection::vec(any::<u8>(), 0..24), at in 0u64..200, bits in 1u8..=64, big: bool, signed: bool,
        ) {
            let leaf = Leaf {
                bits,
                order: if big { ByteOrder::Big } else { ByteOrder::Little },
                kind: if signed { LeafKind::Signed } else { LeafKind::Unsigned },
            };
            prop_assert_eq!(Window { bytes: &bytes, base: 0 }.raw(at, leaf), slow(&bytes, at, leaf));
        }

        #[test]
        fn the_first_nul_ends_a_text(bytes in proptest::collection::vec(0u8..3, 0..40)) {
            let window = Window { bytes: &bytes, base: 0 };
            let expected = bytes.iter().position(|b| *b == 0).map(|i| i as u64);
            prop_assert_eq!(window.text_len(0, bytes.len() as u64 * 8), expected);
        }
    }
}
