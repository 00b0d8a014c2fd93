//! The bytes with which every packet of a trace begins: a magic number and the UUID of the trace.
//! With them the next packet is found after one whose header cannot be read.

use crate::bits::Leaf;
use crate::plan::{Block, Op, Shape};
use crate::types::{ByteOrder, Roles};

/// First bytes of a packet, as a number.
pub(crate) const MAGIC: u64 = 0xC1FC_1FC1;

/// Constant bytes at constant places of each packet header.
#[derive(Debug)]
pub(crate) struct PacketSignature {
    /// Byte offset of each part in the header, and the bytes expected there.
    parts: Vec<(usize, Vec<u8>)>,
    /// True if the first part is the magic number and the second one the UUID.
    is_both: bool,
    len: usize,
}

impl PacketSignature {
    /// Returns `None` if packets have neither a magic number nor a UUID at a constant place. `uuid`
    /// is the index of the UUID's field and its value.
    pub(crate) fn of(header: &Block, uuid: Option<(usize, [u8; 16])>) -> Option<PacketSignature> {
        let Some(Op::Run { mark: first, .. }) = header.ops.first() else { return None };
        let magic = header.ops.iter().find_map(|op| match op {
            Op::SetRole { roles, mark, offset, leaf } if roles.has(Roles::MAGIC) && mark == first => Some((byte(*offset)?, magic(leaf)?)),
            _ => None,
        });
        let uuid = uuid.and_then(|(field, uuid)| {
            let field = header.fields.get(field).filter(|field| field.mark == *first && field.is_bytes())?;
            matches!(field.shape, Shape::Array { count: 16, .. }).then_some((byte(field.offset)?, uuid.to_vec()))
        });
        let is_both = magic.is_some() && uuid.is_some();
        let parts: Vec<(usize, Vec<u8>)> = magic.into_iter().chain(uuid).collect();
        let len = parts.iter().map(|(at, bytes)| at + bytes.len()).max()?;
        Some(PacketSignature { parts, is_both, len })
    }

    /// Size in bytes of the part of a header that must be visible for a comparison.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first offset in `bytes` at which a packet may begin. `other` is a UUID that packets of
    /// the stream have instead of the metadata's. With it alone, without a magic number, too much
    /// would look like a packet.
    pub(crate) fn find(&self, bytes: &[u8], other: Option<[u8; 16]>) -> Option<usize> {
        let (skip, wanted) = self.parts.first()?;
        let first = wanted.first()?;
        let has = |header: &[u8], at: usize, part: &[u8]| header.get(at..).is_some_and(|rest| rest.starts_with(part));
        let own = |header: &[u8]| self.parts.iter().all(|(at, part)| has(header, *at, part));
        let others = |header: &[u8]| match (other, &self.parts[..]) {
            (Some(uuid), [(magic_at, magic), (uuid_at, _)]) if self.is_both => {
                has(header, *magic_at, magic) && has(header, *uuid_at, &uuid)
            }
            _ => false,
        };
        let begins = |header: &[u8]| own(header) || others(header);
        let last = bytes.len().checked_sub(self.len)?;
        let candidates = bytes.get(*skip..=skip + last)?.iter().enumerate();
        candidates.filter(|(_, byte)| *byte == first).map(|(at, _)| at).find(|at| begins(&bytes[*at..]))
    }
}

fn byte(bit: u64) -> Option<usize> {
    bit.is_multiple_of(8).then_some((bit / 8) as usize)
}

fn magic(leaf: &Leaf) -> Option<Vec<u8>> {
    let magic = MAGIC as u32;
    (leaf.bits == 32 && !leaf.reversed).then(|| match leaf.order {
        ByteOrder::Little => magic.to_le_bytes().to_vec(),
        ByteOrder::Big => magic.to_be_bytes().to_vec(),
    })
}
