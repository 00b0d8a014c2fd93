//! Records of a name resolution block: an address and its names at the time of the capture.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::byte_order::ByteOrder;
use crate::error::{Error, ErrorKind};

const END: u16 = 0;
const IPV4: u16 = 1;
const IPV6: u16 = 2;

/// One record. Kinds other than IPv4 and IPv6 have no address and no names here, only their value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRecord<'a> {
    /// Kind of the record.
    pub kind: u16,
    /// The address; `None` in records of other kinds.
    pub address: Option<IpAddr>,
    /// The whole value, including the address.
    pub value: &'a [u8],
    names: &'a [u8],
}

impl<'a> NameRecord<'a> {
    /// The names, without the zero bytes that end them.
    pub fn names(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.names.split(|&byte| byte == 0).filter(|name| !name.is_empty())
    }
}

/// The records of one block. They were checked when the block was read.
#[derive(Clone, Copy, Debug)]
pub struct NameRecords<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> NameRecords<'a> {
    /// Checks the records at the start of `bytes`, which are located at byte `offset` of the input.
    /// Also returns where the options begin.
    pub(crate) fn parse(bytes: &'a [u8], order: ByteOrder, offset: u64) -> Result<(NameRecords<'a>, usize), Error> {
        let mut at = 0;
        while let Some(header) = bytes.get(at..at + 4) {
            let (kind, length) = (order.u16(header, 0), order.u16(header, 2));
            let room = bytes.len() - at - 4;
            if usize::from(length) > room {
                return Err(Error::new(offset + at as u64, ErrorKind::NameRecord { length, room }));
            }
            let next = at + 4 + usize::from(length).next_multiple_of(4);
            if kind == END {
                return Ok((NameRecords { bytes: &bytes[..at], order }, next));
            }
            at = next;
        }
        Ok((NameRecords { bytes, order }, bytes.len()))
    }

    /// The records in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = NameRecord<'a>> + use<'a> {
        let NameRecords { bytes, order } = *self;
        let mut at = 0;
        std::iter::from_fn(move || {
            let header = bytes.get(at..at + 4)?;
            let (kind, length) = (order.u16(header, 0), usize::from(order.u16(header, 2)));
            let value = bytes.get(at + 4..at + 4 + length)?;
            at += 4 + length.next_multiple_of(4);
            Some(record(kind, value))
        })
    }
}

fn record(kind: u16, value: &[u8]) -> NameRecord<'_> {
    let (address, names): (Option<IpAddr>, &[u8]) = match kind {
        IPV4 => value.split_first_chunk().map_or((None, &[]), |(raw, names)| (Some(Ipv4Addr::from(*raw).into()), names)),
        IPV6 => value.split_first_chunk::<16>().map_or((None, &[]), |(raw, names)| (Some(Ipv6Addr::from(*raw).into()), names)),
        _ => (None, &[]),
    };
    NameRecord { kind, address, value, names }
}
