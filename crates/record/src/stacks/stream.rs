//! Writer of `samples/`: one stream per CPU, and one for who was there at the begin.
//!
//! The file is whole after every system call, so that a recorder may be killed between any two of them: its packets are whole pages, a new page
//! is an empty packet of its own, and a packet of several pages first covers them as an empty one, then gets its content, and its
//! header last.
//!
//! A loss is a packet without events, from the last event before it to the first moment after it; every stream begins with a packet
//! that says 0 (see [`crate::kernel`]).

use crate::metadata::Uuid;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of the packet's header and context, in the order of the metadata.
const HEADER: usize = 76;
const MAGIC: u32 = 0xc1fc_1fc1;
const PAGE: usize = 4096;
/// Bytes of the header of an event: its id and its time.
const EVENT: usize = 10;
/// A packet is written when it has so many bytes.
const FULL: usize = 256 << 10;

#[derive(Debug)]
pub struct Stream {
    file: File,
    uuid: [u8; 16],
    class: u32,
    cpu: u32,
    /// The packet that is being filled, header room included.
    packet: Vec<u8>,
    begin: u64,
    /// Time of the last event, or of the last packet's end.
    last: u64,
    sequence: u64,
    discarded: u64,
    /// Length of the file.
    length: u64,
    /// In the packet that is being filled.
    events: u64,
}

impl Stream {
    /// Makes the file, with the packet that says that nothing was lost by `start`. `class` is the stream's in the metadata.
    pub fn create(path: &Path, uuid: Uuid, class: u32, cpu: u32, start: u64) -> io::Result<Stream> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).custom_flags(libc::O_NOFOLLOW).open(path)?;
        let packet = vec![0; HEADER];
        let mut stream =
            Stream { file, uuid: uuid.0, class, cpu, packet, begin: start, last: start, sequence: 0, discarded: 0, length: 0, events: 0 };
        stream.write()?;
        Ok(stream)
    }

    /// Appends an event; `payload` is what the metadata says of its context and fields. What lies before its predecessor in time is moved to
    /// it.
    pub fn event(&mut self, time: u64, id: u16, payload: &[u8]) -> io::Result<()> {
        let flushed = if self.packet.len() + EVENT + payload.len() > FULL { self.flush() } else { Ok(()) };
        let time = time.max(self.last);
        if self.packet.len() == HEADER {
            self.begin = time;
        }
        self.last = time;
        self.events += 1;
        self.packet.extend_from_slice(&id.to_ne_bytes());
        self.packet.extend_from_slice(&time.to_ne_bytes());
        self.packet.extend_from_slice(payload);
        flushed
    }

    /// Events that are in no packet so far.
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Events were lost between the last one and `time`.
    pub fn loss(&mut self, time: u64, count: u64) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let flushed = self.flush();
        self.discarded = self.discarded.saturating_add(count);
        self.begin = self.last;
        self.last = self.last.max(time);
        flushed.and(self.write())
    }

    /// Writes what there is.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.packet.len() > HEADER {
            self.write()?;
        }
        Ok(())
    }

    /// The packet is gone from memory also where the disk takes it not; then its events are lost, and the next packet says so.
    fn write(&mut self) -> io::Result<()> {
        let content = self.packet.len();
        let size = content.next_multiple_of(PAGE);
        self.packet.resize(size, 0);
        let result = self.commit(content, size);
        self.packet.truncate(HEADER);
        if result.is_err() {
            self.discarded = self.discarded.saturating_add(self.events);
        }
        self.events = 0;
        result
    }

    fn commit(&mut self, content: usize, size: usize) -> io::Result<()> {
        let at = self.length;
        let first = self.header(self.begin, self.last, content, size, self.sequence);
        self.packet[..HEADER].copy_from_slice(&first);
        if size == PAGE {
            self.file.write_all_at(&self.packet, at)?;
        } else {
            let mut page = vec![0; PAGE];
            for index in 0..(size / PAGE) as u64 {
                let header = self.header(self.begin, self.begin, HEADER, PAGE, self.sequence + index);
                page[..HEADER].copy_from_slice(&header);
                if let Err(error) = self.file.write_all_at(&page, at + index * PAGE as u64) {
                    let _ = self.file.set_len(at);
                    return Err(error);
                }
            }
            let cover = self.header(self.begin, self.begin, HEADER, size, self.sequence);
            self.file.write_all_at(&cover, at)?;
            self.length = at + size as u64;
            self.file.write_all_at(&self.packet[HEADER..], at + HEADER as u64)?;
            self.file.write_all_at(&first, at)?;
        }
        self.length = at + size as u64;
        self.sequence += 1;
        Ok(())
    }

    fn header(&self, begin: u64, end: u64, content: usize, size: usize, sequence: u64) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..4].copy_from_slice(&MAGIC.to_ne_bytes());
        bytes[4..20].copy_from_slice(&self.uuid);
        bytes[20..24].copy_from_slice(&self.class.to_ne_bytes());
        let words = [begin, end, content as u64 * 8, size as u64 * 8, sequence, self.discarded];
        for (at, word) in words.iter().enumerate() {
            bytes[24 + 8 * at..32 + 8 * at].copy_from_slice(&word.to_ne_bytes());
        }
        bytes[72..76].copy_from_slice(&self.cpu.to_ne_bytes());
        bytes
    }
}
