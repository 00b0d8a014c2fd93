//! Headers of links.

use super::{hex, mac, u16_at, Next, Packet};

const ETHERNET: u16 = 1;
const NULL: u16 = 0;
const LOOP: u16 = 108;
const RAW: [u16; 3] = [12, 14, 101];
const COOKED: u16 = 113;
const IPV4: u16 = 228;
const IPV6: u16 = 229;
const COOKED_2: u16 = 276;

pub(super) const ETHER_IPV4: u16 = 0x0800;
pub(super) const ETHER_IPV6: u16 = 0x86dd;

/// Reads the first header.
pub(super) fn first(packet: &mut Packet<'_>, link_type: u16) -> Next {
    match link_type {
        ETHERNET => ethernet(packet),
        COOKED => cooked(packet),
        COOKED_2 => cooked_2(packet),
        NULL | LOOP => loopback(packet, link_type == LOOP),
        IPV4 => Next::Ether(ETHER_IPV4),
        IPV6 => Next::Ether(ETHER_IPV6),
        _ if RAW.contains(&link_type) => bare_ip(packet),
        _ => Next::Data,
    }
    .unless_empty(packet)
}

impl Next {
    fn unless_empty(self, packet: &Packet<'_>) -> Next {
        if packet.bytes.is_empty() {
            Next::Nothing
        } else {
            self
        }
    }
}

fn bare_ip(packet: &mut Packet<'_>) -> Next {
    match packet.peek(1).map(|bytes| bytes[0] >> 4) {
        Some(4) => Next::Ether(ETHER_IPV4),
        Some(6) => Next::Ether(ETHER_IPV6),
        _ => Next::Data,
    }
}

fn ethernet(packet: &mut Packet<'_>) -> Next {
    let Some(bytes) = packet.header("Ethernet", 14) else { return Next::Data };
    packet.field("destination", (0, 6), mac(&bytes[..6]));
    packet.field("source", (6, 12), mac(&bytes[6..12]));
    let kind = u16_at(bytes, 12);
    // Smaller numbers are the length of a frame of IEEE 802.3.
    if kind < 0x600 {
        packet.field("length", (12, 14), kind);
        return Next::Data;
    }
    packet.field("type", (12, 14), hex(kind));
    Next::Ether(kind)
}

fn cooked(packet: &mut Packet<'_>) -> Next {
    let Some(bytes) = packet.header("Linux cooked", 16) else { return Next::Data };
    packet.field("packet type", (0, 2), u16_at(bytes, 0));
    packet.field("device type", (2, 4), u16_at(bytes, 2));
    let length = usize::from(u16_at(bytes, 4)).min(8);
    packet.field("source", (6, 6 + length), mac(&bytes[6..6 + length]));
    packet.field("type", (14, 16), hex(u16_at(bytes, 14)));
    Next::Ether(u16_at(bytes, 14))
}

fn cooked_2(packet: &mut Packet<'_>) -> Next {
    let Some(bytes) = packet.header("Linux cooked 2", 20) else { return Next::Data };
    packet.field("type", (0, 2), hex(u16_at(bytes, 0)));
    packet.field("interface", (4, 8), super::u32_at(bytes, 4));
    packet.field("device type", (8, 10), u16_at(bytes, 8));
    packet.field("packet type", (10, 11), bytes[10]);
    let length = usize::from(bytes[11]).min(8);
    packet.field("source", (12, 12 + length), mac(&bytes[12..12 + length]));
    Next::Ether(u16_at(bytes, 0))
}

/// The family is in the byte order of the capturing host, or in that of the network.
fn loopback(packet: &mut Packet<'_>, is_network_order: bool) -> Next {
    let Some(bytes) = packet.header("loopback", 4) else { return Next::Data };
    let family = match is_network_order || bytes[0] == 0 {
        true => super::u32_at(bytes, 0),
        false => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
    };
    packet.field("family", (0, 4), family);
    match family {
        2 => Next::Ether(ETHER_IPV4),
        10 | 24 | 28 | 30 => Next::Ether(ETHER_IPV6),
        _ => Next::Data,
    }
}
