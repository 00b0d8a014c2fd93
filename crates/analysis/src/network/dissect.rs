//! The headers of a packet: names and values of their fields, and the places of their bytes.
//!
//! Knows the layers that a capture of a network device begins with: Ethernet with VLAN tags,
//! Linux's cooked headers, loopback and bare IP; ARP, IPv4, IPv6 with extension headers; TCP, UDP,
//! ICMP. What follows is data. A packet that was cut off yields the fields that are there.
//!
//! Example: a TCP segment yields the layers `Ethernet`, `IPv4`, `TCP` and `data`.

mod internet;
mod link;
mod transport;

use serde::Serialize;
use std::fmt::Write as _;

/// Largest number of layers of a packet, so that a crafted one ends.
const MAX_LAYERS: usize = 16;

/// A header, or the data after the headers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layer {
    pub name: &'static str,
    /// Places of the first byte and of the one after the last.
    pub begin: usize,
    pub end: usize,
    pub fields: Vec<Field>,
}

/// A field of a header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    pub name: &'static str,
    pub value: String,
    pub begin: usize,
    pub end: usize,
}

/// The headers of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dissection {
    pub layers: Vec<Layer>,
    /// Protocol with its flags or type, such as `TCP SYN ACK`.
    pub summary: String,
    /// Source and destination with their ports; `None` if the packet has no addresses.
    #[serde(skip)]
    pub ends: Option<(String, String)>,
}

/// What comes after a header.
enum Next {
    /// The protocol with this number in Ethernet.
    Ether(u16),
    /// The protocol with this number in IP.
    Ip(u8),
    Data,
    /// The rest of the packet is not a part of what the headers describe.
    Nothing,
}

/// Returns the headers of a packet. `link_type` is the number of its first header from
/// tcpdump.org/linktypes.html.
pub fn dissect(link_type: u16, bytes: &[u8]) -> Dissection {
    let mut packet = Packet { bytes, at: 0, limit: bytes.len(), found: Dissection::default(), addresses: None };
    let mut next = link::first(&mut packet, link_type);
    while packet.found.layers.len() < MAX_LAYERS {
        next = match next {
            Next::Ether(number) => internet::after_ethernet(&mut packet, number),
            Next::Ip(number) => transport::after_ip(&mut packet, number),
            Next::Data | Next::Nothing => break,
        };
    }
    packet.finish(&next)
}

/// A packet that is being dissected.
struct Packet<'a> {
    bytes: &'a [u8],
    /// Place of the next header.
    at: usize,
    /// Place after the last byte that the headers describe; padding follows.
    limit: usize,
    found: Dissection,
    /// Source and destination address.
    addresses: Option<(String, String)>,
}

impl<'a> Packet<'a> {
    /// Begins a layer of `length` bytes, and returns its bytes; `None` if some were not captured.
    fn header(&mut self, name: &'static str, length: usize) -> Option<&'a [u8]> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        let (begin, end) = (self.at, self.at + length);
        self.found.layers.push(Layer { name, begin, end, fields: Vec::new() });
        self.at = end;
        Some(bytes)
    }

    /// Returns the next bytes without entering them.
    fn peek(&self, length: usize) -> Option<&'a [u8]> {
        self.bytes.get(self.at..self.at.checked_add(length)?)
    }

    /// Adds a field of the last layer. `begin` and `end` are places in the layer.
    fn field(&mut self, name: &'static str, (begin, end): (usize, usize), value: impl ToString) {
        if let Some(layer) = self.found.layers.last_mut() {
            let value = value.to_string();
            layer.fields.push(Field { name, value, begin: layer.begin + begin, end: layer.begin + end });
        }
    }

    fn summary(&mut self, text: impl Into<String>) {
        self.found.summary = text.into();
    }

    /// Sets the addresses with the ports.
    fn ports(&mut self, source: u16, destination: u16) {
        let with =
            |address: &str, port: u16| if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
        self.found.ends = self.addresses.as_ref().map(|(from, to)| (with(from, source), with(to, destination)));
    }

    /// Adds what follows the headers.
    fn finish(mut self, next: &Next) -> Dissection {
        let limit = self.limit.clamp(self.at.min(self.bytes.len()), self.bytes.len());
        let rest = |name, begin: usize, end: usize| Layer { name, begin, end, fields: Vec::new() };
        if self.at < limit && !matches!(next, Next::Nothing) {
            self.found.layers.push(rest("data", self.at, limit));
            self.at = limit;
        }
        if self.at < self.bytes.len() {
            self.found.layers.push(rest("padding", self.at, self.bytes.len()));
        }
        if self.found.ends.is_none() {
            self.found.ends = self.addresses.take();
        }
        if self.found.summary.is_empty() {
            self.found.summary = self.found.layers.first().map_or("packet", |layer| layer.name).to_owned();
        }
        self.found
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Returns the address of a device.
fn mac(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        let _ = write!(text, "{}{byte:02x}", if at == 0 { "" } else { ":" });
    }
    text
}

fn hex(number: impl Into<u64>) -> String {
    format!("{:#x}", number.into())
}

#[cfg(test)]
mod tests;
