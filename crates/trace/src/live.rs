//! Reads CTF traces while their tracers still write them: more packets in files that are there, files and traces that come, more metadata.
//!
//! Nothing of a tracer is known but its files. A packet that says how long it is is read once it is there as a whole; in a stream that is one packet without an end
//! each event is. What is new at one look comes in the order of time. A tracer may write what happened before later than that: then it comes later, with its own
//! time. For Longpole's own recordings, of which more is known, see [`crate::Follower`].

use crate::ctf::{decoder, read_metadata, CtfSource, Plan};
use crate::error::Error;
use crate::event::{Catalogue, Item, StreamId, StreamKind};
use crate::file::StreamFile;
use crate::merge::{Heap, Key};
use crate::oddity::Oddity;
use crate::recognise::{recognise, stream_files};
use crate::shelf::Shelf;
use crate::shift::{Shift, Shifts};
use crate::trace::{stream_name, Shared};
use longpole_ctf::{Metadata, Step};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks for new traces.
const SEARCH: Duration = Duration::from_millis(500);
/// Things that were wrong, of which each is told once.
const MOST_ODDITIES: usize = 100;

/// See the module.
pub struct Live {
    paths: Vec<PathBuf>,
    shifts: Shifts,
    shared: Shared,
    searched: Option<Instant>,
    traces: Vec<Growing>,
    tails: Vec<Tail>,
    /// A file stays the same one where its tracer moves it (as LTTng does with what it has rotated).
    known: HashMap<(u64, u64), usize>,
    idle: Vec<usize>,
    heap: Heap,
    current: Option<usize>,
    shelf: Shelf,
}

/// A CTF directory.
struct Growing {
    directory: PathBuf,
    /// Index of the path below which it was found.
    root: usize,
    /// Bytes of metadata that were looked at.
    length: u64,
    /// None: nothing of it can be read yet.
    read: Option<(Arc<Metadata>, Rc<Plan>)>,
    shift: Shift,
}

/// A stream file, and how far it was read.
struct Tail {
    trace: usize,
    path: PathBuf,
    stream: StreamId,
    /// Bytes at the last look.
    length: u64,
    /// Offset and index of the last packet that was read.
    last: Option<(u64, u64)>,
    /// Where the next one begins.
    next: u64,
    /// It is one packet without an end, of which so many events were read.
    endless: Option<u64>,
    source: Option<Box<CtfSource>>,
}

impl Live {
    /// What was written before is read, too. One of the paths at least must hold a CTF trace.
    pub fn open<P: AsRef<Path>>(paths: &[P], shifts: Shifts) -> Result<Live, Error> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        let mut live = Live {
            paths,
            shifts,
            shared: Shared::default(),
            searched: None,
            traces: Vec::new(),
            tails: Vec::new(),
            known: HashMap::new(),
            idle: Vec::new(),
            heap: Heap::default(),
            current: None,
            shelf: Shelf::default(),
        };
        for path in &live.paths {
            let found = recognise(path)?;
            if found.ctf.is_empty() || found.recording.is_some() {
                let tried = "only a CTF trace can be followed while it is written".to_owned();
                return Err(Error::NotATrace { path: path.clone(), tried });
            }
        }
        live.refresh()?;
        Ok(live)
    }

    /// Looks for what has been written since the last time.
    pub fn refresh(&mut self) -> Result<(), Error> {
        if self.searched.is_none_or(|searched| searched.elapsed() >= SEARCH) {
            self.searched = Some(Instant::now());
            self.search();
        }
        for trace in 0..self.traces.len() {
            self.learn(trace);
            self.list(trace)?;
        }
        for index in std::mem::take(&mut self.idle) {
            self.decode(index)?;
        }
        self.shared.oddities.truncate(MOST_ODDITIES);
        Ok(())
    }

    /// The next of what was there at the last look.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(Item<'_>, &Catalogue)>, Error> {
        if let Some(current) = self.current.take() {
            self.decode(current)?;
        }
        let Some(key) = self.heap.pop() else { return Ok(None) };
        let index = key.stream as usize;
        self.current = Some(index);
        let tail = &self.tails[index];
        let shift = self.traces[tail.trace].shift;
        Ok(tail.source.as_ref().map(|source| (shift.item(source.item(&mut self.shelf)), &self.shared.catalogue)))
    }

    /// What was wrong.
    pub fn oddities(&self) -> &[Oddity] {
        &self.shared.oddities
    }

    /// Nobody will look again: says which files end in something that is no whole packet.
    pub fn end(&mut self) {
        for tail in &self.tails {
            let length = fs::metadata(&tail.path).map_or(tail.length, |found| found.len());
            if tail.endless.is_none() && length > tail.next {
                let place = format!("{} bytes behind byte {} are no whole packet", length - tail.next, tail.next);
                self.shared.oddities.push(Oddity::Truncated { path: tail.path.clone(), place, at: None });
            }
        }
    }

    /// Takes up traces that are new. What is being moved or removed just now is seen the next time.
    fn search(&mut self) {
        for root in 0..self.paths.len() {
            let Ok(found) = recognise(&self.paths[root]) else { continue };
            for directory in found.ctf {
                if !self.traces.iter().any(|trace| trace.directory == directory) {
                    let shift = self.shifts.of(&directory);
                    self.traces.push(Growing { directory, root, length: 0, read: None, shift });
                }
            }
        }
    }

    /// Reads the metadata of a trace again if there is more of it. What cannot be understood is just being written.
    fn learn(&mut self, index: usize) {
        let trace = &mut self.traces[index];
        let path = trace.directory.join("metadata");
        let Ok(length) = fs::metadata(&path).map(|found| found.len()) else { return };
        if length == trace.length {
            return;
        }
        if let Ok(metadata) = read_metadata(&path) {
            let before = trace.read.as_ref().map(|(_, plan)| &**plan);
            let plan = Rc::new(Plan::grown(&metadata, &mut self.shared, before));
            trace.read = Some((Arc::new(metadata), plan));
            trace.length = length;
        }
    }

    /// Takes up the stream files of a trace.
    fn list(&mut self, index: usize) -> Result<(), Error> {
        let trace = &self.traces[index];
        if trace.read.is_none() {
            return Ok(());
        }
        let Ok(files) = stream_files(&trace.directory) else { return Ok(()) };
        for path in files {
            let Ok(found) = fs::metadata(&path) else { continue };
            match self.known.get(&(found.dev(), found.ino())) {
                Some(&known) if self.tails[known].path == path => {}
                Some(&known) => self.tails[known].path = path,
                None => {
                    let name = stream_name(&self.paths[trace.root], &path, self.paths.len() > 1);
                    let stream = self.shared.stream(name, StreamKind::User);
                    self.known.insert((found.dev(), found.ino()), self.tails.len());
                    self.idle.push(self.tails.len());
                    let (last, endless, source) = (None, None, None);
                    self.tails.push(Tail { trace: index, path, stream, length: 0, last, next: 0, endless, source });
                }
            }
        }
        Ok(())
    }

    /// Decodes the next item of a stream, of what was there at the last look.
    fn decode(&mut self, index: usize) -> Result<(), Error> {
        loop {
            let tail = &mut self.tails[index];
            if let Some(source) = &mut tail.source {
                if let Some(t_ns) = source.advance(&mut self.shared)? {
                    if let Some(events) = tail.endless.as_mut().filter(|_| source.has_event()) {
                        *events += 1;
                    }
                    self.heap.push(Key { t_ns: self.traces[tail.trace].shift.apply(t_ns), stream: index as u32 });
                    return Ok(());
                }
                tail.source = None;
            }
            if !self.go_on(index)? {
                self.idle.push(index);
                return Ok(());
            }
        }
    }

    /// Reads on if there is more than at the last look.
    fn go_on(&mut self, index: usize) -> Result<bool, Error> {
        let streams = self.tails.len();
        let tail = &mut self.tails[index];
        let Some((metadata, plan)) = &self.traces[tail.trace].read else { return Ok(false) };
        // It may be gone, or about to be found elsewhere.
        let Ok(file) = StreamFile::look(&tail.path) else { return Ok(false) };
        if file.length <= tail.length {
            return Ok(false);
        }
        tail.length = file.length;
        let mut end = tail.next;
        let mut last = None;
        if tail.endless.is_none() {
            // Only headers are looked at.
            let mut headers = decoder(metadata, &file, streams)?;
            headers.seek(tail.next, tail.last.map_or(0, |(_, index)| index + 1));
            // One that cannot be understood is just being written.
            while let Ok(Some(step)) = headers.advance() {
                if step != Step::PacketBegin {
                    continue;
                }
                let packet = headers.packet();
                if !packet.sized {
                    tail.endless = Some(0);
                    break;
                }
                let behind = packet.offset.saturating_add(packet.packet_bits / 8);
                if behind > file.length {
                    break;
                }
                (end, last) = (behind, Some((packet.offset, packet.index)));
                headers.skip_packet();
            }
        }
        let source = |end| -> Result<CtfSource, Error> {
            let file = StreamFile { path: tail.path.clone(), length: end };
            let mut source = CtfSource::new(decoder(metadata, &file, streams)?, plan.clone(), tail.stream, tail.path.clone());
            source.grows = true;
            Ok(source)
        };
        match (tail.endless, last) {
            (Some(events), _) => {
                let mut source = source(file.length)?;
                let mut before = 0;
                while before < events && source.advance(&mut self.shared)?.is_some() {
                    before += u64::from(source.has_event());
                }
                tail.source = Some(Box::new(source));
            }
            (None, Some(_)) => {
                let mut source = source(end)?;
                if let Some(before) = tail.last {
                    source.resume_behind(before);
                }
                (tail.last, tail.next, tail.source) = (last, end, Some(Box::new(source)));
            }
            (None, None) => return Ok(false),
        }
        Ok(true)
    }
}
