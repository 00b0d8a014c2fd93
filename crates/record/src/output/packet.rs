//! The packet header and packet context of `user/`: 256 bytes, in the order of
//! docs/formats/user-trace.md.

use crate::output::metadata::Uuid;

/// Bytes of the packet header and context.
pub const HEADER: usize = 256;
/// Packets are padded to this size in bytes. A write of one such page commits a packet.
pub const PAGE: usize = 4096;
/// Limit of the reported losses, which hostile rings can claim to be anything: babeltrace2 takes a
/// counter of 2^64 - 1 for a missing one, and aborts.
pub const MAX_DISCARDED: u64 = u64::MAX - 1;
/// Offset of the thread's name in the header.
pub const THREAD: u64 = 216;
pub const CTF_MAGIC: u32 = 0xc1fc_1fc1;
/// `position` of the empty packet that covers reserved bytes. No ring reaches this position.
pub const RESERVED_POSITION: u64 = u64::MAX;

/// Decoded packet header and context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Time of the packet's begin, in clock ticks.
    pub begin: u64,
    /// Time of the packet's end, in clock ticks.
    pub end: u64,
    /// Bytes in use, including the header.
    pub content: u64,
    /// Bytes including the padding.
    pub size: u64,
    /// Number of the packet in its stream file, from 0.
    pub sequence: u64,
    /// Number of events lost since the begin of the stream file.
    pub discarded: u64,
    pub pid: i32,
    pub tid: i32,
    /// The ring's tail after this packet, or [`RESERVED_POSITION`].
    pub position: u64,
    /// Label of the process, padded with NUL.
    pub label: [u8; 128],
    /// Name of the thread, padded with NUL.
    pub thread: [u8; 32],
    /// Number of the stream file.
    pub lane: u32,
    /// Number of the ring, see [`crate::ring::Ring::packet_number`].
    pub ring: u32,
    /// Number of the CTF stream class.
    pub stream: u32,
}

impl Header {
    pub fn encode(&self, uuid: &Uuid) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..4].copy_from_slice(&CTF_MAGIC.to_ne_bytes());
        bytes[4..20].copy_from_slice(&uuid.0);
        bytes[20..24].copy_from_slice(&self.stream.to_ne_bytes());
        let words = [self.begin, self.end, self.content * 8, self.size * 8, self.sequence, self.discarded.min(MAX_DISCARDED)];
        for (at, word) in words.iter().enumerate() {
            bytes[24 + 8 * at..32 + 8 * at].copy_from_slice(&word.to_ne_bytes());
        }
        bytes[72..76].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[76..80].copy_from_slice(&self.tid.to_ne_bytes());
        bytes[80..88].copy_from_slice(&self.position.to_ne_bytes());
        bytes[88..216].copy_from_slice(&self.label);
        bytes[216..248].copy_from_slice(&self.thread);
        bytes[248..252].copy_from_slice(&self.lane.to_ne_bytes());
        bytes[252..256].copy_from_slice(&self.ring.to_ne_bytes());
        bytes
    }

    /// `None` if these bytes are not a header of the trace with this UUID.
    pub fn decode(bytes: &[u8; HEADER], uuid: &Uuid) -> Option<Header> {
        let word = |at: usize| u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i: usize| bytes[at + i]));
        let half = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i: usize| bytes[at + i]));
        if half(0) != CTF_MAGIC || bytes[4..20] != uuid.0 {
            return None;
        }
        let mut header = Header {
            begin: word(24),
            end: word(32),
            content: word(40) / 8,
            size: word(48) / 8,
            sequence: word(56),
            discarded: word(64),
            pid: half(72) as i32,
            tid: half(76) as i32,
            position: word(80),
            label: [0; 128],
            thread: [0; 32],
            lane: half(248),
            ring: half(252),
            stream: half(20),
        };
        header.label.copy_from_slice(&bytes[88..216]);
        header.thread.copy_from_slice(&bytes[216..248]);
        let plausible = header.content >= HEADER as u64 && header.size >= header.content && header.size.is_multiple_of(PAGE as u64);
        plausible.then_some(header)
    }
}

/// `text` cut to `N` bytes at a character boundary and padded with NUL.
pub fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut cut = text.len().min(N);
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    let mut bytes = [0; N];
    bytes[..cut].copy_from_slice(&text.as_bytes()[..cut]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_as_it_was_written() {
        let header = Header {
            begin: 1,
            end: 2,
            content: 300,
            size: 4096,
            sequence: 5,
            discarded: 6,
            pid: 7,
            tid: -8,
            position: 9,
            label: padded("label"),
            thread: padded("thread"),
            lane: 10,
            ring: 11,
            stream: 12,
        };
        let uuid = Uuid([3; 16]);
        assert_eq!(Header::decode(&header.encode(&uuid), &uuid), Some(header.clone()));
        assert_eq!(Header::decode(&header.encode(&uuid), &Uuid([4; 16])), None);
        assert_eq!(Header::decode(&[0; HEADER], &uuid), None);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(padded::<4>("aäöü"), [b'a', 0xc3, 0xa4, 0]);
    }
}
