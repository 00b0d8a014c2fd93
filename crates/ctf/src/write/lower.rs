/// Bits of the tag of a variant that stands for an optional; those of other variants have others.
pub(super) const OPTIONAL_BITS: u8 = 8;
