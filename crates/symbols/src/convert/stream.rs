//! Stream files of `samples/`: reading the packets of one, and writing the packets of its
//! replacement.
//!
//! A packet whose events cannot be read to its end is a loss of at least one event from there on.
//! After bytes that are no packet, reading continues at the next packet.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Size of a packet's header and context in bytes.
pub const HEADER: usize = 76;
/// Alignment of packets in bytes.
const ALIGN: u64 = 128;
/// Size in bytes from which a packet is written.
const FULL: usize = 256 << 10;
/// Maximum size of a packet in bytes; the recorder writes smaller ones.
const MAX_PACKET: u64 = 64 << 20;
const MAGIC: u32 = 0xc1fc_1fc1;

/// Header of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    pub class: u32,
    pub begin: u64,
    pub end: u64,
    pub discarded: u64,
    /// CPU, or reserved.
    pub last: u32,
    /// Set if bytes that are no packet precede it.
    pub after_gap: bool,
    content: u64,
    size: u64,
}

impl Packet {
    fn parse(bytes: &[u8], uuid: &[u8; 16]) -> Option<Packet> {
        let half = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let word = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        if half(0)? != MAGIC || bytes.get(4..20)? != uuid {
            return None;
        }
        let (content, size) = (word(40)? / 8, word(48)? / 8);
        if content < HEADER as u64 || size < content {
            return None;
        }
        Some(Packet {
            class: half(20)?,
            begin: word(24)?,
            end: word(32)?,
            discarded: word(64)?,
            last: half(72)?,
            after_gap: false,
            content,
            size,
        })
    }
}

/// Reads packets one after another.
#[derive(Debug)]
pub struct Reader<'a> {
    file: &'a File,
    uuid: &'a [u8; 16],
    length: u64,
    at: u64,
    content: Vec<u8>,
}

impl<'a> Reader<'a> {
    pub fn new(file: &'a File, uuid: &'a [u8; 16]) -> io::Result<Reader<'a>> {
        Ok(Reader { file, uuid, length: file.metadata()?.len(), at: 0, content: Vec::new() })
    }

    /// Number of bytes that were read.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Returns the next packet and the bytes of its events.
    pub fn next(&mut self) -> io::Result<Option<(Packet, &[u8])>> {
        let Some((packet, content)) = self.packet()? else { return Ok(None) };
        self.content.resize((content.end - content.start) as usize, 0);
        self.file.read_exact_at(&mut self.content, content.start)?;
        Ok(Some((packet, &self.content)))
    }

    /// Returns the next packet and the positions of its events in the file.
    pub fn packet(&mut self) -> io::Result<Option<(Packet, Range<u64>)>> {
        let Some(packet) = self.header()? else { return Ok(None) };
        // The length is larger than a header, as is the content.
        let content = self.at + HEADER as u64..self.at + packet.content.min(self.length - self.at);
        self.at = self.at.saturating_add(packet.size).min(self.length);
        Ok(Some((packet, content)))
    }

    fn header(&mut self) -> io::Result<Option<Packet>> {
        let mut after_gap = false;
        while self.at + HEADER as u64 <= self.length {
            let mut bytes = [0; HEADER];
            self.file.read_exact_at(&mut bytes, self.at)?;
            match Packet::parse(&bytes, self.uuid).filter(|packet| packet.content <= MAX_PACKET) {
                Some(packet) => return Ok(Some(Packet { after_gap, ..packet })),
                None => {
                    after_gap = true;
                    self.at = (self.at + 1).next_multiple_of(ALIGN);
                }
            }
        }
        Ok(None)
    }
}

/// Writes a stream.
#[derive(Debug)]
pub struct Writer<'a> {
    file: &'a File,
    uuid: [u8; 16],
    packet: Packet,
    bytes: Vec<u8>,
    sequence: u64,
    /// Number of lost events in the last packet that was written.
    discarded: Option<u64>,
}

impl<'a> Writer<'a> {
    pub fn new(file: &'a File, uuid: &[u8; 16]) -> Writer<'a> {
        Writer { file, uuid: *uuid, packet: Packet::default(), bytes: vec![0; HEADER], sequence: 0, discarded: None }
    }

    /// Begins with a packet of the original. Its counter of lost events holds for the events that
    /// follow. A packet without events is written if it reports a loss.
    pub fn packet(&mut self, of: &Packet, is_empty: bool, lost: u64) -> io::Result<()> {
        let discarded = of.discarded.saturating_add(lost);
        if self.discarded != Some(discarded) || self.packet.last != of.last || self.packet.class != of.class {
            self.flush()?;
            self.packet = Packet { discarded, ..*of };
            if is_empty {
                self.write()?;
            }
        }
        Ok(())
    }

    pub fn event(&mut self, time: u64, bytes: &[u8]) -> io::Result<()> {
        if self.bytes.len() + bytes.len() > FULL {
            self.flush()?;
        }
        if self.bytes.len() == HEADER {
            self.packet.begin = time;
        }
        self.packet.end = time;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the rest, and a loss that no later packet reports. `lost` is the number of events
    /// that were lost in addition to those that the original's last packet reports.
    pub fn finish(&mut self, last: &Packet, lost: u64) -> io::Result<()> {
        let end = Packet { begin: last.end, ..*last };
        self.packet(&end, true, lost)?;
        self.flush()
    }

    /// Writes what was not written yet.
    fn flush(&mut self) -> io::Result<()> {
        if self.bytes.len() > HEADER {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let content = self.bytes.len() as u64;
        let size = content.next_multiple_of(ALIGN);
        let packet = &self.packet;
        self.bytes[0..4].copy_from_slice(&MAGIC.to_ne_bytes());
        self.bytes[4..20].copy_from_slice(&self.uuid);
        self.bytes[20..24].copy_from_slice(&packet.class.to_ne_bytes());
        let words = [packet.begin, packet.end, content * 8, size * 8, self.sequence, packet.discarded];
        for (at, word) in words.iter().enumerate() {
            self.bytes[24 + 8 * at..32 + 8 * at].copy_from_slice(&word.to_ne_bytes());
        }
        self.bytes[72..76].copy_from_slice(&packet.last.to_ne_bytes());
        self.bytes.resize(size as usize, 0);
        self.file.write_all(&self.bytes)?;
        self.bytes.truncate(HEADER);
        self.sequence += 1;
        self.discarded = Some(self.packet.discarded);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: [u8; 16] = [7; 16];

    /// Two packets with events, and a loss between them.
    fn written() -> File {
        let file = tempfile::tempfile().unwrap();
        let mut writer = Writer::new(&file, &UUID);
        let packet = Packet { last: 3, begin: 1, end: 1, ..Packet::default() };
        writer.packet(&packet, true, 0).unwrap();
        writer.packet(&packet, false, 0).unwrap();
        writer.event(10, b"first").unwrap();
        writer.packet(&Packet { begin: 10, end: 20, discarded: 5, ..packet }, true, 0).unwrap();
        writer.packet(&Packet { discarded: 5, ..packet }, false, 0).unwrap();
        writer.event(30, b"second").unwrap();
        writer.finish(&packet, 6).unwrap();
        file
    }

    fn read(file: &File) -> Vec<(u64, u64, u64, Vec<u8>)> {
        let mut reader = Reader::new(file, &UUID).unwrap();
        let mut found = Vec::new();
        while let Some((packet, bytes)) = reader.next().unwrap() {
            found.push((packet.begin, packet.end, packet.discarded, bytes.to_vec()));
        }
        found
    }

    #[test]
    fn packets_are_read_as_they_were_written() {
        let expected = [
            (1, 1, 0, Vec::new()),
            (10, 10, 0, b"first".to_vec()),
            (10, 20, 5, Vec::new()),
            (30, 30, 5, b"second".to_vec()),
            (1, 1, 6, Vec::new()),
        ];
        assert_eq!(read(&written()), expected);
    }

    #[test]
    fn reading_ends_whatever_the_bytes_are() {
        let file = written();
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        for (at, &byte) in bytes.iter().enumerate() {
            file.write_all_at(&[!byte], at as u64).unwrap();
            assert!(read(&file).len() <= 5);
            file.write_all_at(&[byte], at as u64).unwrap();
        }
        file.set_len(bytes.len() as u64 - 50).unwrap();
        assert_eq!(read(&file).len(), 5);
        file.set_len(HEADER as u64 - 1).unwrap();
        assert!(read(&file).is_empty());
    }
}
