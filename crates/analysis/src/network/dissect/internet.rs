//! What follows a link header: VLAN tags, ARP, IP.

use super::link::{ETHER_IPV4, ETHER_IPV6};
use super::{hex, mac, u16_at, Next, Packet};
use std::net::{Ipv4Addr, Ipv6Addr};

const ARP: u16 = 0x0806;
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];

pub(super) fn after_ethernet(packet: &mut Packet<'_>, kind: u16) -> Next {
    match kind {
        ETHER_IPV4 => ipv4(packet),
        ETHER_IPV6 => ipv6(packet),
        ARP => arp(packet),
        _ if VLAN.contains(&kind) => vlan(packet),
        _ => Next::Data,
    }
}

fn vlan(packet: &mut Packet<'_>) -> Next {
    let Some(bytes) = packet.header("VLAN", 4) else { return Next::Data };
    packet.field("priority", (0, 1), bytes[0] >> 5);
    packet.field("id", (0, 2), u16_at(bytes, 0) & 0xfff);
    packet.field("type", (2, 4), hex(u16_at(bytes, 2)));
    Next::Ether(u16_at(bytes, 2))
}

fn arp(packet: &mut Packet<'_>) -> Next {
    let is_usual = packet.peek(8).is_some_and(|bytes| u16_at(bytes, 2) == ETHER_IPV4 && bytes[4] == 6 && bytes[5] == 4);
    let Some(bytes) = is_usual.then(|| packet.header("ARP", 28)).flatten() else { return Next::Data };
    let operation = match u16_at(bytes, 6) {
        1 => "request",
        2 => "reply",
        _ => "other",
    };
    packet.field("operation", (6, 8), format!("{} ({operation})", u16_at(bytes, 6)));
    packet.field("sender", (8, 14), mac(&bytes[8..14]));
    packet.field("sender address", (14, 18), ipv4_at(bytes, 14));
    packet.field("target", (18, 24), mac(&bytes[18..24]));
    packet.field("target address", (24, 28), ipv4_at(bytes, 24));
    packet.addresses = Some((ipv4_at(bytes, 14).to_string(), ipv4_at(bytes, 24).to_string()));
    packet.summary(format!("ARP {operation}"));
    // What remains is padding to the least length of a frame.
    Next::Nothing
}

fn ipv4_at(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}

fn ipv4(packet: &mut Packet<'_>) -> Next {
    let begin = packet.at;
    let Some(length) = packet.peek(20).map(|bytes| usize::from(bytes[0] & 15) * 4).filter(|&length| length >= 20) else {
        return Next::Data;
    };
    let Some(bytes) = packet.header("IPv4", length.min(packet.bytes.len() - begin)) else { return Next::Data };
    let total = u16_at(bytes, 2);
    packet.field("header length", (0, 1), length);
    packet.field("service", (1, 2), hex(bytes[1]));
    packet.field("total length", (2, 4), total);
    packet.field("identification", (4, 6), hex(u16_at(bytes, 4)));
    let fragment = u16_at(bytes, 6);
    let flags = [(0x4000, "don't fragment"), (0x2000, "more fragments")];
    packet.field("flags", (6, 7), names(fragment, &flags));
    packet.field("fragment offset", (6, 8), u32::from(fragment & 0x1fff) * 8);
    packet.field("time to live", (8, 9), bytes[8]);
    packet.field("protocol", (9, 10), protocol(bytes[9]));
    packet.field("header checksum", (10, 12), hex(u16_at(bytes, 10)));
    packet.field("source", (12, 16), ipv4_at(bytes, 12));
    packet.field("destination", (16, 20), ipv4_at(bytes, 16));
    packet.addresses = Some((ipv4_at(bytes, 12).to_string(), ipv4_at(bytes, 16).to_string()));
    packet.summary(format!("IPv4 {}", protocol(bytes[9])));
    // A length of 0 is that of a segment that the device will split.
    if total > 0 {
        packet.limit = begin.saturating_add(total.into());
    }
    match fragment & 0x1fff {
        0 => Next::Ip(bytes[9]),
        _ => {
            packet.summary("IPv4 fragment");
            Next::Data
        }
    }
}

fn ipv6(packet: &mut Packet<'_>) -> Next {
    let Some(bytes) = packet.header("IPv6", 40) else { return Next::Data };
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&bytes[at..at + 16]);
        Ipv6Addr::from(octets)
    };
    let length = u16_at(bytes, 4);
    packet.field("traffic class", (0, 2), hex(u16_at(bytes, 0) >> 4 & 0xff));
    packet.field("flow label", (1, 4), hex(super::u32_at(bytes, 0) & 0xf_ffff));
    packet.field("payload length", (4, 6), length);
    packet.field("next header", (6, 7), protocol(bytes[6]));
    packet.field("hop limit", (7, 8), bytes[7]);
    packet.field("source", (8, 24), address(8));
    packet.field("destination", (24, 40), address(24));
    packet.addresses = Some((address(8).to_string(), address(24).to_string()));
    packet.summary(format!("IPv6 {}", protocol(bytes[6])));
    if length > 0 {
        packet.limit = packet.at.saturating_add(length.into());
    }
    Next::Ip(bytes[6])
}

/// Returns the names of the bits that are set.
pub(super) fn names(bits: u16, all: &[(u16, &str)]) -> String {
    let set: Vec<&str> = all.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    if set.is_empty() {
        "none".to_owned()
    } else {
        set.join(", ")
    }
}

fn protocol(number: u8) -> String {
    let name = match number {
        1 => "ICMP",
        2 => "IGMP",
        6 => "TCP",
        17 => "UDP",
        41 => "IPv6",
        47 => "GRE",
        50 => "ESP",
        58 => "ICMPv6",
        132 => "SCTP",
        _ => return number.to_string(),
    };
    name.to_owned()
}
