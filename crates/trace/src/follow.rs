//! Reads a recording while its recorder still writes it: the streams of `user/`, packet by packet.
//!
//! The files are the buffer. A recorder writes a whole packet and then commits it, and every stream
//! file ends in an empty packet that covers the reserved space. A follower reads up to that packet
//! and continues there later. A slow or stopped follower costs the recorder nothing. It holds one
//! window for each stream that has new packets, however much data has gathered.
//!
//! Events of several streams are yielded in the order of time if the caller allows for the slowest
//! stream: see [`RecordingFollower::next_until`].
//!
//! The kernel's events are raw pages as long as the recording lasts. A caller that converts them
//! meanwhile adds their streams with [`RecordingFollower::add_kernel`].

pub(crate) mod ctf_live;

use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::event::{Catalogue, Item, StreamId, StreamKind};
use crate::files::directory::stream_files;
use crate::files::file::StreamFile;
use crate::formats::ctf::{decoder, read_metadata, CtfSource, Growth, Plan};
use crate::merge::{Heap, Key};
use crate::shared::Shared;
use crate::value_buffer::ValueBuffer;
use longpole_ctf::{Metadata, OwnedValue, Packet, Step};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Value of the field `position` in the empty packet that covers the reserved space.
const RESERVED_POSITION: OwnedValue = OwnedValue::U64(u64::MAX);
/// Time after a change in which a folder may change again without a new modification time, because
/// the file system's clock advances in ticks.
const TICK: Duration = Duration::from_secs(1);
/// Maximum number of diagnostics that are kept; each is reported once.
const MAX_DIAGNOSTICS: usize = 100;

/// Reads a recording while it is written. The module's documentation explains how.
pub struct RecordingFollower {
    user: PathBuf,
    shared: Shared,
    metadata: Arc<Metadata>,
    plan: Rc<Plan>,
    /// Metadata and plan of the kernel's streams.
    kernel: Option<(Arc<Metadata>, Rc<Plan>)>,
    /// Bytes of metadata that were read.
    length: u64,
    listed: Option<SystemTime>,
    known: HashSet<PathBuf>,
    tails: Vec<Tail>,
    /// Number of tails that are not closed.
    live: usize,
    /// Tails that have been read to the end of what is committed.
    idle: Vec<usize>,
    /// Tails of files whose recorder has cut off the reserved space, so no more packets are
    /// expected.
    closed: Vec<usize>,
    /// Set once the recorder has ended.
    ended: bool,
    heap: Heap,
    current: Option<usize>,
    value_buffer: ValueBuffer,
}

/// A stream file, and how much of it was read.
struct Tail {
    path: PathBuf,
    stream: StreamId,
    is_kernel: bool,
    /// Offset and index of the last packet that was read.
    last: Option<(u64, u64)>,
    /// Offset of the next packet.
    next: u64,
    /// Reader of the stream; it holds no window while the tail is idle. `None` before the first
    /// packet.
    source: Option<Box<CtfSource>>,
}

impl RecordingFollower {
    /// Opens a recording's directory. Events that were written earlier are read, too.
    pub fn open(recording: &Path) -> Result<RecordingFollower, Error> {
        let user = recording.join("user");
        let path = user.join("metadata");
        let length = fs::metadata(&path).map_err(Error::io(&path))?.len();
        let metadata = Arc::new(read_metadata(&path)?);
        let mut shared = Shared::default();
        let plan = Rc::new(Plan::grown(&metadata, &mut shared, None));
        Ok(RecordingFollower {
            user,
            shared,
            metadata,
            plan,
            kernel: None,
            length,
            listed: None,
            known: HashSet::new(),
            tails: Vec::new(),
            live: 0,
            idle: Vec::new(),
            closed: Vec::new(),
            ended: false,
            heap: Heap::default(),
            current: None,
            value_buffer: ValueBuffer::default(),
        })
    }

    /// Adds streams of the kernel, which are written in whole packets in the order of time.
    /// `metadata` describes them and does not grow; `streams` are their names and files. With
    /// `foreign_pids`, the kernel numbers threads differently from the programs.
    ///
    /// # Errors
    ///
    /// [`Error::Metadata`] if the metadata cannot be parsed.
    pub fn add_kernel(
        &mut self,
        metadata: &str,
        streams: impl Iterator<Item = (String, PathBuf)>,
        foreign_pids: bool,
    ) -> Result<(), Error> {
        let parsed =
            Metadata::parse(metadata.as_bytes()).map_err(|source| Error::Metadata { path: PathBuf::from("kernel/metadata"), source })?;
        let metadata = Arc::new(parsed);
        let plan = Rc::new(Plan::grown(&metadata, &mut self.shared, None));
        for (name, path) in streams {
            let stream = self.shared.stream(name, StreamKind::Kernel);
            self.add_tail(Tail { path, stream, is_kernel: true, last: None, next: 0, source: None });
        }
        self.shared.catalogue.foreign_pids |= foreign_pids;
        self.kernel = Some((metadata, plan));
        Ok(())
    }

    fn add_tail(&mut self, tail: Tail) {
        self.idle.push(self.tails.len());
        self.live += 1;
        self.tails.push(tail);
    }

    /// Returns metadata and plan of a stream.
    fn read_of(&self, tail: &Tail) -> (Arc<Metadata>, Rc<Plan>) {
        match &self.kernel {
            Some(kernel) if tail.is_kernel => kernel.clone(),
            _ => (self.metadata.clone(), self.plan.clone()),
        }
    }

    /// Looks at all streams once more, including those that seemed to have ended. To be called
    /// after the recorder has ended.
    pub fn refresh_all(&mut self) -> Result<(), Error> {
        self.ended = true;
        for index in std::mem::take(&mut self.closed) {
            self.live += 1;
            self.idle.push(index);
        }
        self.refresh()
    }

    /// Looks for what was written since the last call.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.list()?;
        // The recorder writes a stream's class to the metadata before it creates the stream's file,
        // so after listing the files the metadata describes all of them.
        self.learn()?;
        for index in std::mem::take(&mut self.idle) {
            self.decode(index)?;
        }
        self.shared.diagnostics.truncate(MAX_DIAGNOSTICS);
        Ok(())
    }

    /// Returns the next event or loss whose time is at most `until_ns`, or `None`. An event reaches
    /// its file some time after it happened, three periods of the recorder at most. If `until_ns`
    /// lies at least three periods before the last [`RecordingFollower::refresh`], all streams
    /// together are in the order of time.
    pub fn next_until(&mut self, until_ns: i64) -> Result<Option<(Item<'_>, &Catalogue)>, Error> {
        if let Some(current) = self.current.take() {
            self.decode(current)?;
        }
        let Some(key) = self.heap.peek().filter(|key| key.t_ns <= until_ns) else { return Ok(None) };
        self.heap.pop();
        let index = key.slot as usize;
        self.current = Some(index);
        match &self.tails[index].source {
            Some(source) => Ok(Some((source.item(&mut self.value_buffer), &self.shared.catalogue))),
            None => Ok(None),
        }
    }

    /// Returns what was wrong until now.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.shared.diagnostics
    }

    /// Decodes the next item of a stream from what was committed until now.
    fn decode(&mut self, index: usize) -> Result<(), Error> {
        loop {
            if let Some(source) = &mut self.tails[index].source {
                if let Some(t_ns) = source.advance(&mut self.shared)? {
                    self.heap.push(Key { t_ns, slot: index as u32 });
                    return Ok(());
                }
            }
            let look = self.committed(index)?;
            if let Look::News(end, last) = look {
                self.continue_to(index, end, last)?;
                continue;
            }
            let closed = matches!(look, Look::Closed);
            if let Some(source) = &mut self.tails[index].source {
                if (closed || self.ended) && source.end_growth() {
                    continue;
                }
                source.rest()?;
            }
            if closed {
                self.live -= 1;
                self.closed.push(index);
            } else {
                self.idle.push(index);
            }
            return Ok(());
        }
    }

    /// Continues reading up to the offset `end`, which is the end of the packet `last` (offset and
    /// index).
    fn continue_to(&mut self, index: usize, end: u64, last: (u64, u64)) -> Result<(), Error> {
        // The recorder writes an event's class to the metadata before it commits a packet with such
        // an event.
        if !self.tails[index].is_kernel {
            self.learn()?;
        }
        let read = self.read_of(&self.tails[index]);
        let tail = &mut self.tails[index];
        let file = StreamFile { path: tail.path.clone(), length: end };
        if tail.source.is_none() {
            let decoder = decoder(&read.0, &file, self.live)?;
            let source = CtfSource::new(decoder, read.1.clone(), tail.stream, tail.path.clone());
            tail.source = Some(Box::new(source.in_order(!tail.is_kernel)));
        }
        if let Some(source) = &mut tail.source {
            source.grow(&file, self.live, &read, Growth::Stream)?;
        }
        (tail.last, tail.next) = (Some(last), end);
        Ok(())
    }

    /// Takes up new stream files.
    fn list(&mut self) -> Result<(), Error> {
        let changed = fs::metadata(&self.user).and_then(|found| found.modified()).map_err(Error::io(&self.user))?;
        let settled = changed.elapsed().is_ok_and(|since| since > TICK);
        if settled && self.listed == Some(changed) {
            return Ok(());
        }
        for path in stream_files(&self.user)? {
            if self.known.contains(&path) {
                continue;
            }
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let stream = self.shared.stream(format!("user/{name}"), StreamKind::User);
            self.known.insert(path.clone());
            self.add_tail(Tail { path, stream, is_kernel: false, last: None, next: 0, source: None });
        }
        self.listed = settled.then_some(changed);
        Ok(())
    }

    /// Reads the metadata again if it has grown.
    fn learn(&mut self) -> Result<(), Error> {
        let path = self.user.join("metadata");
        let length = fs::metadata(&path).map_err(Error::io(&path))?.len();
        if length != self.length {
            self.metadata = Arc::new(read_metadata(&path)?);
            self.plan = Rc::new(Plan::grown(&self.metadata, &mut self.shared, Some(&self.plan)));
            self.length = length;
        }
        Ok(())
    }

    /// Finds the end of a stream's committed packets.
    fn committed(&self, index: usize) -> Result<Look, Error> {
        let tail = &self.tails[index];
        let Ok(file) = StreamFile::look(&tail.path) else { return Ok(Look::Closed) };
        // Only headers are read, so a small window is enough.
        let mut decoder = decoder(&self.read_of(tail).0, &file, usize::MAX)?;
        let after = tail.last.map_or(0, |(_, index)| index + 1);
        decoder.seek(tail.next, after);
        let (mut end, mut last) = (tail.next, None);
        loop {
            match decoder.advance() {
                Ok(Some(Step::PacketBegin)) => {
                    let packet = decoder.packet();
                    let next = packet.offset.saturating_add(packet.packet_bits / 8);
                    if covers(packet) && next >= file.length {
                        break;
                    }
                    (end, last) = (next, Some((packet.offset, packet.index)));
                    decoder.skip_packet();
                }
                Ok(Some(_)) => {}
                Ok(None) if !tail.is_kernel && last.is_none() && end >= file.length && file.length > 0 => return Ok(Look::Closed),
                // A header that cannot be decoded is being written; a later call reads it.
                Ok(None) | Err(_) => break,
            }
        }
        Ok(last.map_or(Look::Nothing, |last| Look::News(end, last)))
    }
}

enum Look {
    /// End offset of the committed packets, and offset and index of the last one.
    News(u64, (u64, u64)),
    Nothing,
    /// The recorder has cut off the reserved space, so no more packets follow.
    Closed,
}

/// Returns true for the empty packet that covers the reserved space.
fn covers(packet: &Packet) -> bool {
    packet.field("position") == Some(&RESERVED_POSITION)
}
