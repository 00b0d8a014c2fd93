//! Types of fixed layout: all their parts are at constant distances from their start. An array of
//! such elements needs only one record of its place, however many elements it has.

use crate::bits::align_up;
use crate::byte_order::ByteOrder;

/// Layout of such a type, relative to a start that is aligned to `align` bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedLayout {
    pub align: u32,
    pub bits: u64,
    /// Byte order of all its bits. `None` if the order changes, but only between whole bytes,
    /// provided that the type begins at a byte boundary.
    pub order: Option<ByteOrder>,
}

impl FixedLayout {
    /// Distance between the elements of an array, in bits.
    pub fn stride(&self) -> u64 {
        align_up(self.bits, self.align)
    }

    /// Returns the layout of a structure whose fields have the layouts `parts`, or `None` if it is
    /// not fixed.
    pub fn of_structure(align: u32, parts: impl IntoIterator<Item = Option<FixedLayout>>) -> Option<FixedLayout> {
        let (mut whole, mut bytewise) = (FixedLayout { align, bits: 0, order: None }, true);
        for part in parts {
            let part = part.filter(|part| part.align <= align)?;
            let at = align_up(whole.bits, part.align);
            let order = match whole.bits {
                0 => part.order,
                _ => whole.order.filter(|order| part.order == Some(*order)),
            };
            bytewise &= at.is_multiple_of(8) && part.bits % 8 == 0;
            if order.is_none() && !bytewise {
                return None;
            }
            whole = FixedLayout { align, bits: at.checked_add(part.bits).filter(|bits| *bits < 1 << 48)?, order };
        }
        (whole.bits > 0).then_some(whole)
    }

    /// Returns the layout of an array of `count` elements, or `None` if it is not fixed.
    pub fn of_array(align: u32, count: u64, element: FixedLayout) -> Option<FixedLayout> {
        let bits = element.stride().checked_mul(count.checked_sub(1)?)?.checked_add(element.bits)?;
        // An element in which the order changes has whole bytes, and so has the distance between
        // elements: the order changes at a byte boundary in all of them.
        (bits < 1 << 48).then_some(FixedLayout { align: align.max(element.align), bits, ..element })
    }
}
