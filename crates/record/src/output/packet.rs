//! The packet header and context of `user/`: 256 bytes, in the order of docs/formats/user-trace.md.

use crate::output::metadata::Uuid;

pub const HEADER: usize = 256;
/// Packets are padded to this; a write of one such page commits a packet.
pub const PAGE: usize = 4096;
/// What hostile rings claim to have lost adds up to no more than this: babeltrace2 takes a counter of 2^64 - 1 for none, and aborts.
pub const MOST_DISCARDED: u64 = u64::MAX - 1;
/// Where the thread's name stands in it.
pub const THREAD: u64 = 216;
pub const CTF_MAGIC: u32 = 0xc1fc_1fc1;
/// `position` of the empty packet that covers what is reserved: no ring gets there.
pub const NOWHERE: u64 = u64::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub begin: u64,
    pub end: u64,
    /// Bytes, header included.
    pub content: u64,
    /// Bytes.
    pub size: u64,
    pub sequence: u64,
    pub discarded: u64,
    pub pid: i32,
    pub tid: i32,
    pub position: u64,
    pub label: [u8; 128],
    pub thread: [u8; 32],
    pub lane: u32,
    pub ring: u32,
    /// Stream class.
    pub stream: u32,
}

impl Header {
    pub fn encode(&self, uuid: &Uuid) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..4].copy_from_slice(&CTF_MAGIC.to_ne_bytes());
        bytes[4..20].copy_from_slice(&uuid.0);
        bytes[20..24].copy_from_slice(&self.stream.to_ne_bytes());
        let words = [self.begin, self.end, self.content * 8, self.size * 8, self.sequence, self.discarded.min(MOST_DISCARDED)];
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

    /// `None` if these bytes are no header of this trace.
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
        let plausible = header.content >= HEADER as u64 && header.size >= header.content && header.size % PAGE as u64 == 0;
        plausible.then_some(header)
    }
}

/// `text` cut to `N` bytes at a character's end, NUL-padded.
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
