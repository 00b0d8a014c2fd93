//! Writes `samples/`: one stream per CPU, and one for the processes that existed at the begin.
//!
//! The file is a valid stream after every system call, so the recorder may be killed between any
//! two of them. To achieve that, the file always ends with an empty packet that covers the reserved
//! space. The events of a new packet are written into this space, which a reader does not look at,
//! and after them the header of the next empty packet. Only then the header of the new packet
//! replaces that of the old empty one. Space is reserved page by page, each page an empty packet of
//! its own, until one of them covers them all. (The streams of `user/` do the same for much larger
//! rings.)
//!
//! A loss is written as a packet without events, from the last event before the loss to the first
//! moment after it. Every stream begins with an empty packet whose count of lost events is 0,
//! because readers see only increases of that count.

use crate::output::metadata::Uuid;
use crate::output::packet::CTF_MAGIC;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Size of the packet's header and context in bytes, in the order of the metadata.
const HEADER: usize = 76;
/// Alignment of packets in bytes. No header crosses a page boundary, so the kernel writes each
/// header as a whole.
const ALIGN: usize = 128;
const PAGE: usize = 4096;
/// Bytes by which a file is extended.
const STEP: usize = 64 << 10;
/// Size of an event's header in bytes: its id and its time.
const EVENT: usize = 10;
/// Size in bytes from which a packet is written.
const FULL: usize = 256 << 10;

/// A stream of `samples/`.
#[derive(Debug)]
pub struct Stream {
    file: File,
    uuid: [u8; 16],
    class: u32,
    cpu: u32,
    /// The packet that is being filled. Its first [`HEADER`] bytes are reserved for the header.
    packet: Vec<u8>,
    /// Number of events in `packet`.
    events: u64,
    begin: u64,
    /// Time of the last event, or of the end of the last packet.
    last: u64,
    sequence: u64,
    discarded: u64,
    /// Position of the empty packet at the end of the file.
    at: usize,
    /// Length of the file.
    length: usize,
    #[cfg(test)]
    seen: std::cell::RefCell<Vec<Vec<u8>>>,
}

impl Stream {
    /// Makes the file, with a packet that says that nothing was lost until `start`. `class` is the
    /// stream's id in the metadata.
    pub fn create(path: &Path, uuid: Uuid, class: u32, cpu: u32, start: u64) -> io::Result<Stream> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).custom_flags(libc::O_NOFOLLOW).open(path)?;
        let mut stream = Stream {
            file,
            uuid: uuid.0,
            class,
            cpu,
            packet: vec![0; HEADER],
            events: 0,
            begin: start,
            last: start,
            sequence: 0,
            discarded: 0,
            at: 0,
            length: 0,
            #[cfg(test)]
            seen: Default::default(),
        };
        stream.write()?;
        Ok(stream)
    }

    /// Appends an event. `payload` is its context and fields, in the layout of the metadata. An
    /// event that is earlier than its predecessor gets its predecessor's time.
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

    /// Number of events that were lost until now.
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Writes that `count` events were lost between the last event and `time`.
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

    /// Writes the events that are not in the file yet.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.packet.len() > HEADER {
            self.write()?;
        }
        Ok(())
    }

    /// Writes the rest, and releases the reserved space.
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.set_len(self.at as u64)?;
        self.length = self.at;
        Ok(())
    }

    /// Writes the packet and forgets it, even if the disk does not take it. In that case its events
    /// are counted as lost, and the next packet contains that count.
    fn write(&mut self) -> io::Result<()> {
        let result = self.commit();
        self.packet.truncate(HEADER);
        if result.is_err() {
            self.discarded = self.discarded.saturating_add(self.events);
        }
        self.events = 0;
        result
    }

    fn commit(&mut self) -> io::Result<()> {
        let content = self.packet.len();
        let size = content.next_multiple_of(ALIGN);
        self.reserve(size)?;
        let next = self.at + size;
        self.packet.resize(size, 0);
        self.packet.extend_from_slice(&self.header((self.last, self.last), HEADER, self.length - next, self.sequence + 1));
        self.put(&self.packet[HEADER..], self.at + HEADER)?;
        self.put(&self.header((self.begin, self.last), content, size, self.sequence), self.at)?;
        self.at = next;
        self.sequence += 1;
        Ok(())
    }

    /// Reserves space for a packet and the header of the next one. The previous empty packet
    /// remains in the file.
    fn reserve(&mut self, size: usize) -> io::Result<()> {
        if self.at + size + HEADER <= self.length {
            return Ok(());
        }
        // At the very begin there is no previous packet.
        let first = self.sequence + u64::from(self.length > 0);
        let begin = self.length;
        let step = STEP.max((size + HEADER).next_multiple_of(PAGE));
        let mut page = [0; PAGE];
        for index in 0..step / PAGE {
            page[..HEADER].copy_from_slice(&self.header((self.begin, self.begin), HEADER, PAGE, first + index as u64));
            if let Err(error) = self.put(&page, begin + index * PAGE) {
                let _ = self.file.set_len(begin as u64);
                return Err(error);
            }
        }
        self.put(&self.header((self.begin, self.begin), HEADER, step, first), begin)?;
        (self.at, self.length, self.sequence) = (begin, begin + step, first);
        Ok(())
    }

    fn put(&self, bytes: &[u8], at: usize) -> io::Result<()> {
        let result = self.file.write_all_at(bytes, at as u64);
        #[cfg(test)]
        self.look();
        result
    }

    fn header(&self, (begin, end): (u64, u64), content: usize, size: usize, sequence: u64) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..4].copy_from_slice(&CTF_MAGIC.to_ne_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Calibration;
    use crate::clock::ClockSource;
    use crate::stacks::metadata;
    use longpole_ctf::{BytesSource, Item, Metadata, StreamDecoder};
    use std::sync::Arc;

    impl Stream {
        /// Notes the content of the file after a system call.
        pub(super) fn look(&self) {
            let mut bytes = vec![0; self.file.metadata().unwrap().len() as usize];
            self.file.read_exact_at(&mut bytes, 0).unwrap();
            self.seen.borrow_mut().push(bytes);
        }
    }

    /// Returns the parent pids of the forks and the number of lost events. Panics if the stream is
    /// not valid.
    fn read(metadata: &Arc<Metadata>, bytes: Vec<u8>) -> (Vec<i64>, u64) {
        let mut decoder = StreamDecoder::new(metadata.clone(), BytesSource(bytes));
        let (mut found, mut lost) = (Vec::new(), 0);
        while let Some(item) = decoder.next().unwrap() {
            match item {
                Item::Event(event) => found.push(event.get("parent_pid").unwrap().as_i64().unwrap()),
                Item::DiscardedEvents(loss) => lost += loss.count.unwrap(),
                Item::DiscardedPackets(_) => panic!("packets are missing"),
                _ => {}
            }
        }
        (found, lost)
    }

    #[test]
    fn the_file_is_valid_after_every_system_call() {
        let clock = Calibration::begin(ClockSource::MonoRaw).finish();
        let uuid = Uuid::random().unwrap();
        let metadata = Arc::new(Metadata::from_text(&metadata::text(&uuid, &uuid, &clock, "h", 99)).unwrap());
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("cpu0");
        let mut stream = Stream::create(&path, uuid, metadata::CPU_STREAM, 0, 1000).unwrap();
        let mut written = 0i32;
        for round in [1, 3, 100, 2000, 1, 4000, 20_000] {
            for _ in 0..round {
                let payload: Vec<u8> = [7, 7, written, 0].iter().flat_map(|word: &i32| word.to_ne_bytes()).collect();
                // Some events are earlier than their predecessor.
                stream.event(2000 + written as u64 - u64::from(written % 7 == 0), metadata::FORK, &payload).unwrap();
                written += 1;
            }
            stream.flush().unwrap();
            stream.loss(2000 + written as u64, 5).unwrap();
            stream.loss(2000 + written as u64, 0).unwrap();
        }
        stream.finish().unwrap();
        stream.look();
        assert_eq!(stream.discarded(), 35);
        let seen = std::mem::take(&mut *stream.seen.borrow_mut());
        assert!(seen.len() > 200, "{}", seen.len());
        let mut before = 0;
        for bytes in seen {
            let (found, _) = read(&metadata, bytes);
            assert!(found.iter().copied().eq(0..found.len() as i64) && found.len() >= before);
            before = found.len();
        }
        assert_eq!(read(&metadata, std::fs::read(&path).unwrap()), ((0..i64::from(written)).collect(), 35));
    }

    #[test]
    fn events_that_the_disk_does_not_take_are_counted_as_lost() {
        let clock = Calibration::begin(ClockSource::MonoRaw).finish();
        let uuid = Uuid::random().unwrap();
        let metadata = Arc::new(Metadata::from_text(&metadata::text(&uuid, &uuid, &clock, "h", 99)).unwrap());
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("cpu0");
        let mut stream = Stream::create(&path, uuid, metadata::CPU_STREAM, 0, 1000).unwrap();
        let good = std::mem::replace(&mut stream.file, File::open("/dev/null").unwrap());
        let payload = [0; 16];
        for time in 0..10_000 {
            let _ = stream.event(2000 + time, metadata::FORK, &payload);
        }
        assert!(stream.flush().is_err());
        stream.file = good;
        stream.event(90_000, metadata::FORK, &payload).unwrap();
        stream.finish().unwrap();
        assert_eq!(read(&metadata, std::fs::read(&path).unwrap()), (vec![0], 10_000));
    }
}
