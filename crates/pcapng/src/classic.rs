//! The classic pcap format: a file header, then the records of one interface.

use crate::block::{InterfaceInfo, LinkType};
use crate::byte_order::ByteOrder;
use crate::time::Resolution;

pub(crate) const FILE_HEADER_LEN: usize = 24;
pub(crate) const RECORD_HEADER_LEN: usize = 16;

/// Byte order and resolution of a classic file, from its first four bytes.
pub(crate) fn recognise(magic: [u8; 4]) -> Option<(ByteOrder, Resolution)> {
    let orders = [(ByteOrder::Little, u32::from_le_bytes(magic)), (ByteOrder::Big, u32::from_be_bytes(magic))];
    orders.into_iter().find_map(|(order, number)| match number {
        0xa1b2_c3d4 => Some((order, Resolution::MICROSECONDS)),
        0xa1b2_3c4d => Some((order, Resolution::NANOSECONDS)),
        _ => None,
    })
}

/// The only interface, from the file header.
pub(crate) fn interface(header: &[u8], order: ByteOrder, resolution: Resolution) -> InterfaceInfo {
    InterfaceInfo {
        // The upper half of the word describes the frame check sequence.
        link_type: LinkType(order.u32(header, 20) as u16),
        snaplen: order.u32(header, 16),
        name: None,
        description: None,
        resolution,
        offset_s: 0,
    }
}

/// Converts seconds and fraction to ticks of the file's resolution. Some tools write fractions of
/// more than one second, which are carried over.
pub(crate) fn ticks(seconds: u32, fraction: u32, resolution: Resolution) -> u64 {
    let per_second = if resolution == Resolution::NANOSECONDS { 1_000_000_000 } else { 1_000_000 };
    u64::from(seconds) * per_second + u64::from(fraction)
}
