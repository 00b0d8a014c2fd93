//! Reads what programs write to a recording while its recorder still records: the streams of `user/`, packet by packet.
//!
//! The files are the buffer. A recorder writes a packet whole and then commits it, and every stream file ends in an empty packet that covers what is
//! reserved; so whoever follows reads up to that packet, and later goes on where it stood. A follower that is slow, or that stands still, costs the
//! recorder nothing, and holds one window of each stream that has news, whatever has gathered meanwhile.
//!
//! Events of several streams come in the order of time as far as the caller waits for the slowest: see [`Follower::next_until`].

pub(crate) mod ctf_live;

use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::event::{Catalogue, Item, StreamId, StreamKind};
use crate::formats::ctf::{decoder, read_metadata, CtfSource, Plan};
use crate::merge::{Heap, Key};
use crate::open::file::StreamFile;
use crate::open::recognise::stream_files;
use crate::trace::Shared;
use crate::value_buffer::ValueBuffer;
use longpole_ctf::{Metadata, OwnedValue, Packet, Step};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// `position` of the empty packet that covers what is reserved.
const NOWHERE: OwnedValue = OwnedValue::U64(u64::MAX);
/// A folder that was changed so short a time ago may have been changed again within the same tick of the file system's clock.
const TICK: Duration = Duration::from_secs(1);
/// Things that were wrong, of which each is told once.
const MOST_DIAGNOSTICS: usize = 100;

/// See the module.
pub struct Follower {
    user: PathBuf,
    shared: Shared,
    metadata: Arc<Metadata>,
    plan: Rc<Plan>,
    /// Bytes of metadata that were read.
    length: u64,
    listed: Option<SystemTime>,
    known: HashSet<PathBuf>,
    tails: Vec<Tail>,
    /// Tails that are not closed.
    live: usize,
    /// Tails of which everything was read that was there.
    idle: Vec<usize>,
    /// Tails of which there seems to be no more.
    closed: Vec<usize>,
    heap: Heap,
    current: Option<usize>,
    value_buffer: ValueBuffer,
}

/// A stream file, and how far it was read.
struct Tail {
    path: PathBuf,
    stream: StreamId,
    /// Offset and index of the last packet that was read.
    last: Option<(u64, u64)>,
    /// Where the next one begins.
    next: u64,
    /// Packets that are being read.
    source: Option<Box<CtfSource>>,
}

impl Follower {
    /// A recording's directory. What was written before is read, too.
    pub fn open(recording: &Path) -> Result<Follower, Error> {
        let user = recording.join("user");
        let path = user.join("metadata");
        let length = fs::metadata(&path).map_err(Error::io(&path))?.len();
        let metadata = Arc::new(read_metadata(&path)?);
        let mut shared = Shared::default();
        let plan = Rc::new(Plan::grown(&metadata, &mut shared, None));
        Ok(Follower {
            user,
            shared,
            metadata,
            plan,
            length,
            listed: None,
            known: HashSet::new(),
            tails: Vec::new(),
            live: 0,
            idle: Vec::new(),
            closed: Vec::new(),
            heap: Heap::default(),
            current: None,
            value_buffer: ValueBuffer::default(),
        })
    }

    /// The recorder has ended: looks at all streams once more, also at those that seemed to have ended.
    pub fn refresh_all(&mut self) -> Result<(), Error> {
        for index in std::mem::take(&mut self.closed) {
            self.live += 1;
            self.idle.push(index);
        }
        self.refresh()
    }

    /// Looks for what has been written since the last time.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.list()?;
        // A stream's class stands in the metadata before the stream is there.
        self.learn()?;
        for index in std::mem::take(&mut self.idle) {
            self.decode(index)?;
        }
        self.shared.diagnostics.truncate(MOST_DIAGNOSTICS);
        Ok(())
    }

    /// The next event or loss, if it is of this time or before. What is written at a time reaches the files a while later (three periods of the recorder
    /// at most): who asks for the time that long before the last [`Follower::refresh`] gets all streams in the order of time.
    pub fn next_until(&mut self, until_ns: i64) -> Result<Option<(Item<'_>, &Catalogue)>, Error> {
        if let Some(current) = self.current.take() {
            self.decode(current)?;
        }
        let Some(key) = self.heap.peek().filter(|key| key.t_ns <= until_ns) else { return Ok(None) };
        self.heap.pop();
        let index = key.stream as usize;
        self.current = Some(index);
        match &self.tails[index].source {
            Some(source) => Ok(Some((source.item(&mut self.value_buffer), &self.shared.catalogue))),
            None => Ok(None),
        }
    }

    /// What was wrong.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.shared.diagnostics
    }

    /// Decodes the next item of a stream, of what was written until now.
    fn decode(&mut self, index: usize) -> Result<(), Error> {
        loop {
            if let Some(source) = &mut self.tails[index].source {
                if let Some(t_ns) = source.advance(&mut self.shared)? {
                    self.heap.push(Key { t_ns, stream: index as u32 });
                    return Ok(());
                }
                self.tails[index].source = None;
            }
            match self.committed(index)? {
                Look::News(end, last) => self.go_on(index, end, last)?,
                Look::Nothing => {
                    self.idle.push(index);
                    return Ok(());
                }
                Look::Closed => {
                    self.live -= 1;
                    self.closed.push(index);
                    return Ok(());
                }
            }
        }
    }

    /// Reads on up to `end`, which is that of the packet `last`.
    fn go_on(&mut self, index: usize, end: u64, last: (u64, u64)) -> Result<(), Error> {
        // An event's class stands in the metadata before its packet is committed.
        self.learn()?;
        let tail = &mut self.tails[index];
        let file = StreamFile { path: tail.path.clone(), length: end };
        let decoder = decoder(&self.metadata, &file, self.live)?;
        let mut source = CtfSource::new(decoder, self.plan.clone(), tail.stream, tail.path.clone());
        if let Some(before) = tail.last {
            source.resume_behind(before);
        }
        (tail.last, tail.next, tail.source) = (Some(last), end, Some(Box::new(source)));
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
            self.idle.push(self.tails.len());
            self.live += 1;
            self.tails.push(Tail { path: path.clone(), stream, last: None, next: 0, source: None });
            self.known.insert(path);
        }
        self.listed = settled.then_some(changed);
        Ok(())
    }

    /// Reads the metadata again if there is more of it.
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

    /// How far a stream is committed.
    fn committed(&self, index: usize) -> Result<Look, Error> {
        let tail = &self.tails[index];
        let Ok(file) = StreamFile::look(&tail.path) else { return Ok(Look::Closed) };
        // Only headers are looked at, so a small window does.
        let mut decoder = decoder(&self.metadata, &file, usize::MAX)?;
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
                Ok(None) if last.is_none() && end >= file.length && file.length > 0 => return Ok(Look::Closed),
                // A header that cannot be understood is just being written: it is one later.
                Ok(None) | Err(_) => break,
            }
        }
        Ok(last.map_or(Look::Nothing, |last| Look::News(end, last)))
    }
}

enum Look {
    /// Up to here there are packets, and this is the last of them.
    News(u64, (u64, u64)),
    Nothing,
    /// The recorder has cut off what was reserved: there will be no more.
    Closed,
}

/// Whether it is the empty packet that covers what is reserved.
fn covers(packet: &Packet) -> bool {
    packet.field("position") == Some(&NOWHERE)
}
