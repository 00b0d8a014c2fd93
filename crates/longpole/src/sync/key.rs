//! Identity of a packet on two hosts: a hash of everything that routers and network cards do not
//! change on the way (they change hardware addresses, hop counts, and checksums).

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// Number of payload bytes that are compared, if the capture contains them.
const PAYLOAD: usize = 64;

const ETHERNET: u16 = 1;
const NULL: u16 = 0;
const LINUX_COOKED: u16 = 113;
const LINUX_COOKED_2: u16 = 276;
/// Link types for bare IP packets; there are several numbers for it.
const RAW: [u16; 5] = [12, 14, 101, 228, 229];

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A TCP segment or UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub hash: u64,
    /// Hash of the source address.
    pub source: u64,
    /// True if the packet was sent by the capturing host; `None` if the link header does not tell.
    pub outbound: Option<bool>,
}

/// Returns the key of a TCP or UDP packet. `None` for all other packets, and if too few bytes were
/// captured.
pub fn of(link_type: u16, bytes: &[u8]) -> Option<Key> {
    let (protocol, rest, outbound) = network(link_type, bytes)?;
    let (addresses, source, transport, rest) = match protocol {
        IPV4 => ipv4(rest)?,
        IPV6 => ipv6(rest)?,
        _ => return None,
    };
    let mut hasher = DefaultHasher::new();
    addresses.hash(&mut hasher);
    transport.hash(&mut hasher);
    match transport {
        TCP => {
            let header = usize::from(rest.get(12)? >> 4) * 4;
            // Ports, sequence and acknowledgement numbers, header length, flags, and window; not
            // the checksum.
            rest.get(..16)?.hash(&mut hasher);
            payload(rest, header)?.hash(&mut hasher);
        }
        UDP => {
            // Ports and length.
            rest.get(..6)?.hash(&mut hasher);
            payload(rest, 8)?.hash(&mut hasher);
        }
        _ => return None,
    }
    let mut of_source = DefaultHasher::new();
    source.hash(&mut of_source);
    Some(Key { hash: hasher.finish(), source: of_source.finish(), outbound })
}

/// Returns the captured part of the payload, limited to a length that both hosts should have
/// captured.
fn payload(transport: &[u8], header: usize) -> Option<&[u8]> {
    let all = transport.get(header..)?;
    Some(&all[..all.len().min(PAYLOAD)])
}

/// Returns the protocol inside the link layer, its bytes, and the direction if the link header has
/// it.
fn network(link_type: u16, bytes: &[u8]) -> Option<(u16, &[u8], Option<bool>)> {
    let number = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    // Packet types of Linux "cooked" captures: 0 was sent to this host, 4 was sent by it.
    let way = |kind: u16| match kind {
        0 => Some(false),
        4 => Some(true),
        _ => None,
    };
    match link_type {
        ETHERNET => {
            let mut at = 12;
            // VLAN tags.
            while matches!(number(at)?, 0x8100 | 0x88a8) && at < 28 {
                at += 4;
            }
            Some((number(at)?, bytes.get(at + 2..)?, None))
        }
        LINUX_COOKED => Some((number(14)?, bytes.get(16..)?, way(number(0)?))),
        LINUX_COOKED_2 => Some((number(0)?, bytes.get(20..)?, way(u16::from(*bytes.get(10)?)))),
        NULL => Some((version(bytes.get(4..)?)?, bytes.get(4..)?, None)),
        raw if RAW.contains(&raw) => Some((version(bytes)?, bytes, None)),
        _ => None,
    }
}

fn version(bytes: &[u8]) -> Option<u16> {
    match bytes.first()? >> 4 {
        4 => Some(IPV4),
        6 => Some(IPV6),
        _ => None,
    }
}

type Network<'a> = (Vec<u8>, &'a [u8], u8, &'a [u8]);

/// Returns the bytes that identify the packet, the source address, the transport protocol, and the
/// transport header with its payload. `None` for fragments, which have no ports.
fn ipv4(bytes: &[u8]) -> Option<Network<'_>> {
    let header = usize::from(bytes.first()? & 15) * 4;
    let fragment = u16::from_be_bytes(*bytes.get(6..)?.first_chunk()?);
    if fragment & 0x3fff != 0 || header < 20 {
        return None;
    }
    let length = usize::from(u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?));
    // Frames may have padding after the packet. A length of 0 means that the network card fills it
    // in.
    let end = if length == 0 { bytes.len() } else { length.min(bytes.len()) };
    let source = bytes.get(12..16)?;
    // Loopback packets never leave a host, and every host has the same loopback addresses.
    if source[0] == 127 {
        return None;
    }
    let mut identity = bytes.get(4..6)?.to_vec();
    identity.extend_from_slice(bytes.get(12..20)?);
    Some((identity, source, *bytes.get(9)?, bytes.get(header..end)?))
}

fn ipv6(bytes: &[u8]) -> Option<Network<'_>> {
    let length = usize::from(u16::from_be_bytes(*bytes.get(4..)?.first_chunk()?));
    let end = if length == 0 { bytes.len() } else { (40 + length).min(bytes.len()) };
    let source = bytes.get(8..24)?;
    if source[..15].iter().all(|byte| *byte == 0) {
        return None;
    }
    // Skips the traffic class and the hop limit, which routers change. The flow label stays the
    // same.
    let mut identity = bytes.get(1..4)?.to_vec();
    identity[0] &= 15;
    identity.extend_from_slice(bytes.get(8..40)?);
    Some((identity, source, *bytes.get(6)?, bytes.get(40..end)?))
}
