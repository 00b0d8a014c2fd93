//! What follows an IP header.

use super::internet::names;
use super::link::{ETHER_IPV4, ETHER_IPV6};
use super::{hex, u16_at, u32_at, Next, Packet};

const TCP_FLAGS: [(u16, &str); 9] =
    [(2, "SYN"), (1, "FIN"), (4, "RST"), (8, "PSH"), (16, "ACK"), (32, "URG"), (64, "ECE"), (128, "CWR"), (256, "AE")];

pub(super) fn after_ip(packet: &mut Packet<'_>, number: u8) -> Next {
    match number {
        // Extension headers of IPv6: hop by hop, routing, destination; fragment.
        0 | 43 | 60 => extension(packet),
        44 => fragment(packet),
        1 => icmp(packet, "ICMP"),
        58 => icmp(packet, "ICMPv6"),
        4 => Next::Ether(ETHER_IPV4),
        41 => Next::Ether(ETHER_IPV6),
        6 => tcp(packet),
        17 => udp(packet),
        _ => Next::Data,
    }
}

fn extension(packet: &mut Packet<'_>) -> Next {
    let Some(length) = packet.peek(2).map(|bytes| (usize::from(bytes[1]) + 1) * 8) else { return Next::Data };
    let Some(bytes) = packet.header("IPv6 extension", length) else { return Next::Data };
    packet.field("next header", (0, 1), bytes[0]);
    packet.field("length", (1, 2), length);
    Next::Ip(bytes[0])
}

fn fragment(packet: &mut Packet<'_>) -> Next {
    let Some(bytes) = packet.header("IPv6 fragment", 8) else { return Next::Data };
    packet.field("next header", (0, 1), bytes[0]);
    packet.field("offset", (2, 4), u16_at(bytes, 2) & 0xfff8);
    packet.field("more fragments", (3, 4), bytes[3] & 1);
    packet.field("identification", (4, 8), u32_at(bytes, 4));
    match u16_at(bytes, 2) & 0xfff8 {
        0 => Next::Ip(bytes[0]),
        _ => {
            packet.summary("IPv6 fragment");
            Next::Data
        }
    }
}

fn icmp(packet: &mut Packet<'_>, name: &'static str) -> Next {
    let Some(bytes) = packet.header(name, 8) else { return Next::Data };
    packet.field("type", (0, 1), bytes[0]);
    packet.field("code", (1, 2), bytes[1]);
    packet.field("ICMP checksum", (2, 4), hex(u16_at(bytes, 2)));
    let echo = match (name, bytes[0]) {
        ("ICMP", 8) | ("ICMPv6", 128) => Some("echo request"),
        ("ICMP", 0) | ("ICMPv6", 129) => Some("echo reply"),
        _ => None,
    };
    if echo.is_some() {
        packet.field("identifier", (4, 6), u16_at(bytes, 4));
        packet.field("sequence", (6, 8), u16_at(bytes, 6));
    }
    packet.summary(echo.map_or_else(|| format!("{name} type {}", bytes[0]), |echo| format!("{name} {echo}")));
    Next::Data
}

fn udp(packet: &mut Packet<'_>) -> Next {
    let Some(bytes) = packet.header("UDP", 8) else { return Next::Data };
    let (source, destination) = (u16_at(bytes, 0), u16_at(bytes, 2));
    packet.field("source port", (0, 2), source);
    packet.field("destination port", (2, 4), destination);
    packet.field("length", (4, 6), u16_at(bytes, 4));
    packet.field("UDP checksum", (6, 8), hex(u16_at(bytes, 6)));
    packet.ports(source, destination);
    packet.summary("UDP");
    Next::Data
}

fn tcp(packet: &mut Packet<'_>) -> Next {
    let Some(length) = packet.peek(20).map(|bytes| usize::from(bytes[12] >> 4) * 4).filter(|&length| length >= 20) else {
        return Next::Data;
    };
    // Options that were not captured are left out.
    let Some(bytes) = packet.header("TCP", length.min(packet.bytes.len() - packet.at)) else { return Next::Data };
    let (source, destination) = (u16_at(bytes, 0), u16_at(bytes, 2));
    let flags = u16_at(bytes, 12) & 0x1ff;
    packet.field("source port", (0, 2), source);
    packet.field("destination port", (2, 4), destination);
    packet.field("sequence", (4, 8), u32_at(bytes, 4));
    packet.field("acknowledgement", (8, 12), u32_at(bytes, 8));
    packet.field("header length", (12, 13), length);
    packet.field("flags", (12, 14), names(flags, &TCP_FLAGS));
    packet.field("window", (14, 16), u16_at(bytes, 14));
    packet.field("TCP checksum", (16, 18), hex(u16_at(bytes, 16)));
    packet.field("urgent", (18, 20), u16_at(bytes, 18));
    if bytes.len() > 20 {
        options(packet, bytes);
    }
    packet.ports(source, destination);
    let set: Vec<&str> = TCP_FLAGS.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect();
    packet.summary(format!("TCP {}", set.join(" ")).trim_end().to_owned());
    Next::Data
}

fn options(packet: &mut Packet<'_>, bytes: &[u8]) {
    let mut at = 20;
    while let Some(&kind) = bytes.get(at).filter(|&&kind| kind != 0) {
        if kind == 1 {
            at += 1;
            continue;
        }
        let Some(length) = bytes.get(at + 1).map(|&length| usize::from(length)).filter(|&length| length >= 2) else { return };
        let Some(option) = bytes.get(at..at + length) else { return };
        match (kind, length) {
            (2, 4) => packet.field("maximum segment size", (at, at + 4), u16_at(option, 2)),
            (3, 3) => packet.field("window scale", (at, at + 3), option[2]),
            (4, 2) => packet.field("selective acknowledgements", (at, at + 2), "permitted"),
            (8, 10) => packet.field("timestamps", (at, at + 10), format!("{}, {}", u32_at(option, 2), u32_at(option, 6))),
            _ => packet.field("option", (at, at + length), kind),
        }
        at += length;
    }
}
