//! What every packet of a trace begins with: a magic number, and the uuid of its trace. By these the next packet is found behind one whose
//! header cannot be read.

use crate::bits::Leaf;
use crate::plan::{Block, Op, Shape};
use crate::types::{ByteOrder, Roles};

/// First bytes of a packet, as a number.
pub(crate) const MAGIC: u64 = 0xC1FC_1FC1;

/// Bytes that stand at the same place of each packet's header.
#[derive(Debug)]
pub(crate) struct Sign {
    /// Where they begin in the header, and what they are.
    parts: Vec<(usize, Vec<u8>)>,
    len: usize,
}

impl Sign {
    /// None if packets have neither at a constant place. The uuid is told by the index of its field and what it is.
    pub(crate) fn of(header: &Block, uuid: Option<(usize, [u8; 16])>) -> Option<Sign> {
        let Some(Op::Run { mark: first, .. }) = header.ops.first() else { return None };
        let magic = header.ops.iter().find_map(|op| match op {
            Op::Tell { roles, mark, offset, leaf } if roles.has(Roles::MAGIC) && mark == first => Some((byte(*offset)?, magic(leaf)?)),
            _ => None,
        });
        let uuid = uuid.and_then(|(field, uuid)| {
            let field = header.fields.get(field).filter(|field| field.mark == *first && field.is_bytes())?;
            matches!(field.shape, Shape::Array { count: 16, .. }).then_some((byte(field.offset)?, uuid.to_vec()))
        });
        let parts: Vec<(usize, Vec<u8>)> = magic.into_iter().chain(uuid).collect();
        let len = parts.iter().map(|(at, bytes)| at + bytes.len()).max()?;
        Some(Sign { parts, len })
    }

    /// Bytes of a header that must be seen.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first place in these bytes where a packet may begin.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<usize> {
        let (skip, wanted) = self.parts.first()?;
        let first = wanted.first()?;
        let begins = |header: &[u8]| self.parts.iter().all(|(at, part)| header.get(*at..).is_some_and(|rest| rest.starts_with(part)));
        let last = bytes.len().checked_sub(self.len)?;
        let candidates = bytes.get(*skip..=skip + last)?.iter().enumerate();
        candidates.filter(|(_, byte)| *byte == first).map(|(at, _)| at).find(|at| begins(&bytes[*at..]))
    }
}

fn byte(bit: u64) -> Option<usize> {
    (bit % 8 == 0).then_some((bit / 8) as usize)
}

fn magic(leaf: &Leaf) -> Option<Vec<u8>> {
    let magic = MAGIC as u32;
    (leaf.bits == 32 && !leaf.reversed).then(|| match leaf.order {
        ByteOrder::Little => magic.to_le_bytes().to_vec(),
        ByteOrder::Big => magic.to_be_bytes().to_vec(),
    })
}
