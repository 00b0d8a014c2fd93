//! The records of a perf.data in the order of time.
//!
//! perf drains the buffers of the CPUs one after the other, in rounds, and writes a record at the
//! end of each round. From then on, no record can come that is older than the newest record of the
//! round before, so records up to that time are yielded and later ones wait. In a file without
//! rounds, up to [`MAX_WAITING`] bytes of records wait.
//!
//! Compressed records are decompressed first. The decompressor holds back the last records until
//! its input ends, so the ends of rounds are ignored there.

use super::file::{word, FileHeader, MAX_FORMATS};
use super::sample::{trailer, RecordOrigin};
use longpole_ftrace::ByteOrder;
use ruzstd::decoding::FrameDecoder;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, Read};

pub(super) const SAMPLE: u32 = 9;
/// Lowest type of the records that perf itself writes.
const OWN: u32 = 64;
const HEADER_TRACING_DATA: u32 = 66;
const FINISHED_ROUND: u32 = 68;
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

pub(super) const MAX_WAITING: usize = 32 << 20;
/// Maximum number of records without a time that wait for the first record with a time.
const MAX_UNDATED: usize = 1 << 16;

/// A record as it was written, without its header.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub kind: u32,
    pub misc: u16,
    pub body: Vec<u8>,
    /// Index of the record's event, or 0 if the record does not name it.
    pub attribute: usize,
    pub place: RecordOrigin,
    /// Time on perf's clock.
    pub time: u64,
    /// Set if the record has no time of its own and was given that of the next record.
    pub is_undated: bool,
}

/// A problem, with the offset in the file in bytes.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The data ends within a record.
    Truncated {
        at: u64,
    },
    Damaged {
        at: u64,
        what: String,
    },
    Io(io::Error),
}

pub(super) struct Records<R> {
    input: R,
    at: u64,
    end: Option<u64>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    waiting_bytes: usize,
    most_waiting: usize,
    /// Records without a time, which perf created itself. They come first and get the time of the
    /// record that follows them.
    undated: VecDeque<Record>,
    undated_bytes: usize,
    following: Option<Record>,
    sequence: u64,
    newest: u64,
    /// Newest time of the round before the last; nothing older can come. `before` is the newest
    /// time when the last round ended.
    complete_until: Option<u64>,
    before: Option<u64>,
    unpacker: Option<Box<Unpacker>>,
    spare: Vec<Vec<u8>>,
    ended: bool,
    trouble: Option<Trouble>,
}

struct Waiting(u64, u64, Record);

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

impl<R: Read> Records<R> {
    /// Reads records from `input`, whose position is the byte `begin` of the file. At most
    /// `most_waiting` bytes of records wait for earlier ones.
    pub fn new(input: R, begin: u64, end: Option<u64>, most_waiting: usize) -> Records<R> {
        Records {
            input,
            at: begin,
            end,
            waiting: BinaryHeap::new(),
            waiting_bytes: 0,
            most_waiting,
            undated: VecDeque::new(),
            undated_bytes: 0,
            following: None,
            sequence: 0,
            newest: 0,
            complete_until: None,
            before: None,
            unpacker: None,
            spare: Vec::new(),
            ended: false,
            trouble: None,
        }
    }

    /// Returns the next record in the order of time. Records that perf wrote for its readers are
    /// passed to `header`. A problem is returned once, after all records before it.
    pub fn next(&mut self, header: &mut FileHeader) -> Result<Option<Record>, Trouble> {
        loop {
            if let Some(following) = &self.following {
                return Ok(match self.undated.pop_front() {
                    Some(record) => Some(Record { time: following.time, is_undated: true, ..record }),
                    None => self.following.take(),
                });
            }
            let is_due = self.waiting.peek().is_some_and(|Reverse(Waiting(time, ..))| {
                self.ended
                    || self.waiting_bytes > self.most_waiting
                    || self.complete_until.is_some_and(|complete_until| *time <= complete_until)
            });
            if is_due {
                let Some(Reverse(Waiting(_, _, record))) = self.waiting.pop() else { continue };
                self.waiting_bytes = self.waiting_bytes.saturating_sub(cost(&record));
                if record.time == 0 && self.undated.len() < MAX_UNDATED && self.undated_bytes < self.most_waiting {
                    self.undated_bytes += cost(&record);
                    self.undated.push_back(record);
                } else {
                    self.following = Some(record);
                }
                continue;
            }
            if self.ended {
                if let Some(record) = self.undated.pop_front() {
                    return Ok(Some(Record { is_undated: true, ..record }));
                }
                return match self.trouble.take() {
                    Some(trouble) => Err(trouble),
                    None => Ok(None),
                };
            }
            if let Err(trouble) = self.read(header) {
                self.trouble = Some(trouble);
                self.end_of_input(header);
            }
        }
    }

    /// Returns the memory of a processed record for reuse.
    pub fn recycle(&mut self, record: Record) {
        if self.spare.len() < 64 && record.body.capacity() <= 4096 {
            self.spare.push(record.body);
        }
    }

    fn end_of_input(&mut self, header: &mut FileHeader) {
        self.ended = true;
        if let Some(mut unpacker) = self.unpacker.take() {
            unpacker.finish();
            if let Err(what) = self.unpack(&mut unpacker, header) {
                self.trouble.get_or_insert(Trouble::Damaged { at: self.at, what });
            }
        }
    }

    /// Reads one record of the file.
    fn read(&mut self, header: &mut FileHeader) -> Result<(), Trouble> {
        let begin = self.at;
        let mut head = [0; 8];
        if self.end.is_some_and(|end| begin >= end) || !self.fill(&mut head, begin)? {
            self.end_of_input(header);
            return Ok(());
        }
        let order = header.order;
        let (kind, misc, size) = heads(&head, order);
        let damaged = |what: String| Trouble::Damaged { at: begin, what };
        if size < 8 {
            return Err(damaged(format!("a record claims to have {size} bytes")));
        }
        let mut body = self.spare.pop().unwrap_or_default();
        body.clear();
        body.resize(size - 8, 0);
        if !self.fill(&mut body, begin)? && size > 8 {
            return Err(Trouble::Truncated { at: begin });
        }
        match kind {
            HEADER_TRACING_DATA => {
                let length = body.get(..4).and_then(|length| order.unsigned(length)).unwrap_or(0);
                if length > MAX_FORMATS {
                    return Err(damaged(format!("the formats of its events claim to have {length} bytes")));
                }
                let mut formats = Vec::new();
                let read = (&mut self.input).take(length).read_to_end(&mut formats).map_err(Trouble::Io)?;
                self.at += read as u64;
                if (read as u64) < length {
                    return Err(Trouble::Truncated { at: begin });
                }
                header.tracing_data(&formats).map_err(damaged)?;
            }
            AUXTRACE => {
                let length = word(&body, 0, order).unwrap_or(0);
                let passed = io::copy(&mut (&mut self.input).take(length), &mut io::sink()).map_err(Trouble::Io)?;
                self.at += passed;
                if passed < length {
                    return Err(Trouble::Truncated { at: begin });
                }
            }
            FINISHED_ROUND if self.unpacker.is_none() => {
                self.complete_until = self.before;
                self.before = Some(self.newest);
            }
            COMPRESSED | COMPRESSED2 => {
                let packed = match kind {
                    COMPRESSED => &body[..],
                    _ => {
                        let length = word(&body, 0, order).and_then(|length| usize::try_from(length).ok());
                        let packed = length.and_then(|length| body.get(8..)?.get(..length));
                        packed.ok_or_else(|| damaged("compressed data is longer than its record".to_owned()))?
                    }
                };
                let mut unpacker = self.unpacker.take().unwrap_or_default();
                unpacker.packed.extend_from_slice(packed);
                let done = self.unpack(&mut unpacker, header);
                self.unpacker = Some(unpacker);
                done.map_err(damaged)?;
            }
            kind => self.take(kind, misc, body, header).map_err(damaged)?,
        }
        Ok(())
    }

    /// Fills the buffer. Returns false at the end of the file if not even a part was there.
    fn fill(&mut self, buffer: &mut [u8], begin: u64) -> Result<bool, Trouble> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Trouble::Io(error)),
            }
        }
        self.at += filled as u64;
        match filled {
            0 if self.end.is_none() => Ok(false),
            filled if filled == buffer.len() => Ok(true),
            _ => Err(Trouble::Truncated { at: begin }),
        }
    }

    /// Takes whole records from the decompressor's output.
    fn unpack(&mut self, unpacker: &mut Unpacker, header: &mut FileHeader) -> Result<(), String> {
        while unpacker.step()? {
            let mut at = 0;
            while let Some(head) = unpacker.plain.get(at..at + 8) {
                let (kind, misc, size) = heads(head, header.order);
                if size < 8 {
                    return Err(format!("a compressed record claims to have {size} bytes"));
                }
                let Some(content) = unpacker.plain.get(at + 8..at + size) else { break };
                let mut body = self.spare.pop().unwrap_or_default();
                body.clear();
                body.extend_from_slice(content);
                at += size;
                self.take(kind, misc, body, header)?;
            }
            unpacker.plain.drain(..at);
        }
        Ok(())
    }

    /// Processes a record: perf's own ones are learnt, others wait to be sorted.
    fn take(&mut self, kind: u32, misc: u16, body: Vec<u8>, header: &mut FileHeader) -> Result<(), String> {
        if kind >= OWN {
            header.learn(kind, &body)?;
            self.spare.push(body);
            self.spare.truncate(64);
            return Ok(());
        }
        let attribute = attribute(kind, &body, header);
        let place = header.attributes.get(attribute).map(|known| match kind {
            SAMPLE => RecordOrigin::of_sample(known, &body, header.order),
            _ => trailer(known, &body, header.order),
        });
        let place = place.unwrap_or_default();
        let record = Record { kind, misc, body, attribute, place, time: place.time.unwrap_or(0), is_undated: false };
        match place.time.filter(|time| *time > 0) {
            Some(time) => {
                self.newest = self.newest.max(time);
                self.wait(time, record);
            }
            None => self.wait(self.newest, record),
        }
        Ok(())
    }

    fn wait(&mut self, time: u64, record: Record) {
        self.waiting_bytes += cost(&record);
        self.sequence += 1;
        self.waiting.push(Reverse(Waiting(time, self.sequence, Record { time, ..record })));
    }
}

fn cost(record: &Record) -> usize {
    record.body.capacity() + size_of::<Waiting>()
}

fn heads(head: &[u8], order: ByteOrder) -> (u32, u16, usize) {
    let number = |range: std::ops::Range<usize>| head.get(range).and_then(|bytes| order.unsigned(bytes)).unwrap_or(0);
    (number(0..4) as u32, number(4..6) as u16, number(6..8) as usize)
}

/// Returns the index of the event that a record belongs to. The record's id is at the same position
/// for all events (begin of a sample, end of other records), or else where the layout of the first
/// event has it.
fn attribute(kind: u32, body: &[u8], header: &FileHeader) -> usize {
    if header.attributes.len() < 2 {
        return 0;
    }
    let id = super::sample::id_of(&header.attributes[0], kind == SAMPLE, body, header.order);
    id.and_then(|id| header.attribute_of(id)).unwrap_or(0)
}

/// A zstd stream in pieces. One block is decoded at a time, so that a small input cannot expand to
/// a large output at once.
#[derive(Default)]
struct Unpacker {
    decoder: Option<FrameDecoder>,
    packed: Vec<u8>,
    plain: Vec<u8>,
    finished: bool,
}

/// Longest header of a zstd frame in bytes.
const FRAME_HEAD: usize = 18;
const MAX_WINDOW: u64 = 64 << 20;

impl Unpacker {
    /// Ends the input. perf does not end its frame, so an empty last block is appended; then the
    /// decoder yields what it held back.
    fn finish(&mut self) {
        if self.decoder.is_some() {
            self.packed.clear();
            self.packed.extend([1, 0, 0, 0, 0, 0, 0]);
        }
        self.finished = true;
    }

    /// Decodes one block into `plain`. Returns false if more input is needed.
    fn step(&mut self) -> Result<bool, String> {
        let failed = |error: &dyn std::fmt::Display| format!("its compressed data is damaged: {error}");
        if self.decoder.is_none() {
            if self.packed.is_empty() || (self.packed.len() < FRAME_HEAD && !self.finished) {
                return Ok(false);
            }
            let mut decoder = FrameDecoder::new();
            decoder.set_max_window_size(MAX_WINDOW);
            let mut rest = &self.packed[..];
            decoder.init(&mut rest).map_err(|error| failed(&error))?;
            let head = self.packed.len() - rest.len();
            self.packed.drain(..head);
            self.decoder = Some(decoder);
        }
        let Some(decoder) = &mut self.decoder else { return Ok(false) };
        let Some(&[first, second, third]) = self.packed.first_chunk::<3>() else { return Ok(false) };
        let head = u32::from_le_bytes([first, second, third, 0]);
        let is_last = head & 1 != 0;
        let content = if head >> 1 & 3 == 1 { 1 } else { (head >> 3) as usize };
        let block = 3 + content;
        if self.packed.len() < block {
            return Ok(false);
        }
        // The checksum after the last block is skipped together with it.
        let block = if is_last { (block + 4).min(self.packed.len()) } else { block };
        let mut buffer = [0; 16 << 10];
        let (taken, mut count) = decoder.decode_from_to(&self.packed[..block], &mut buffer).map_err(|error| failed(&error))?;
        self.packed.drain(..taken.max(3).min(block));
        loop {
            self.plain.extend_from_slice(&buffer[..count]);
            if count == 0 {
                break;
            }
            count = decoder.read(&mut buffer).map_err(|error| failed(&error))?;
        }
        if is_last {
            self.decoder = None;
            if self.finished {
                self.packed.clear();
            }
        }
        Ok(true)
    }
}
