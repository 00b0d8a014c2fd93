//! A stream file that grows, and how much of it was read.

use super::SETTLE_TIME;
use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::files::file::StreamFile;
use crate::formats::ctf::{decoder, CtfSource, Growth, Plan};
use crate::formats::source::Source;
use crate::shared::Shared;
use crate::trace::Slot;
use longpole_ctf::{DecodeErrorKind, Metadata, Step};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Bytes at a file's begin that are compared to detect that another file was written over it.
const HEAD: u64 = 64;

/// Identity of a file, independent of its path. The creation time is included because inode numbers
/// are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    number: u64,
    born: Option<SystemTime>,
}

impl Identity {
    pub fn of(found: &fs::Metadata) -> Identity {
        Identity { device: found.dev(), number: found.ino(), born: found.created().ok() }
    }
}

pub(crate) struct Tail {
    /// Index of the trace.
    pub trace: usize,
    pub path: PathBuf,
    identity: Identity,
    pub slot: Slot,
    /// Size of the file in bytes at the last look.
    pub seen: u64,
    /// Number of bytes that were made available to the reader.
    shown: u64,
    /// Offset up to which the file consists of whole packets.
    whole: u64,
    /// Set if the rest of the file is one packet without an end, so that all of it is made
    /// available.
    endless: bool,
    /// Number of bytes after the whole packets if they do not begin with a packet and no packet was
    /// found among them; otherwise 0.
    unclear: u64,
    head: Vec<u8>,
    /// Metadata with which the file was read.
    metadata: Arc<Metadata>,
    /// Time since which the file has waited for metadata that describes its content.
    waits: Option<Instant>,
    state: State,
    /// Set if the reader was given everything for the last time.
    finished: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    There,
    /// The file is not at its path: it was moved or removed.
    Missing(Instant),
    /// Another file was written over it.
    Replaced,
    /// No more of the file is read.
    Ended,
}

/// Context of one look at a file.
pub struct Look<'a> {
    pub read: &'a (Arc<Metadata>, Rc<Plan>),
    /// Number of stream files.
    pub streams: usize,
    pub last: bool,
}

impl Tail {
    pub fn new(trace: usize, path: PathBuf, identity: Identity, slot: Slot, metadata: Arc<Metadata>) -> Tail {
        Tail {
            trace,
            path,
            identity,
            slot,
            seen: 0,
            shown: 0,
            whole: 0,
            endless: false,
            unclear: 0,
            head: Vec::new(),
            metadata,
            waits: None,
            state: State::There,
            finished: false,
        }
    }

    /// Sets the path at which the file was found; it is no longer missing.
    pub fn set_path(&mut self, path: &Path) {
        if self.path != path {
            self.path = path.to_owned();
        }
        if matches!(self.state, State::Missing(_)) {
            self.state = State::There;
        }
    }

    /// Returns true if the content of the file must be read as that of a new file.
    pub fn is_replaced(&self) -> bool {
        self.state == State::Replaced
    }

    /// Reports at the end what was counted while reading.
    pub fn report(&self, shared: &mut Shared) {
        if let Some(window) = &self.slot.window {
            window.report(shared);
        }
        if let Some(source) = self.source() {
            source.report(shared);
        }
    }

    /// Gives the reader more of the file, after it reached the end of what it had. Returns false if
    /// there is no more.
    pub fn read_more(&mut self, look: &Look<'_>, shared: &mut Shared) -> Result<bool, Error> {
        let Some(file) = self.look(look.last, shared) else { return self.rest().map(|()| false) };
        let stuck = self.source().is_some_and(CtfSource::waits_for_metadata);
        let learned = !Arc::ptr_eq(&self.metadata, &look.read.0);
        if learned {
            (self.metadata, self.waits) = (look.read.0.clone(), None);
        } else if stuck {
            self.waits.get_or_insert_with(Instant::now);
        }
        if stuck && !learned && self.may_learn(look) {
            return self.rest().map(|()| false);
        }
        if !self.endless && (file.length != self.seen || self.waits.is_some() || learned) {
            self.pass_packets(&file, look)?;
        }
        self.seen = file.length;
        let end = if self.endless || look.last { file.length } else { self.whole };
        if end <= self.shown && !stuck && (self.finished || !look.last) {
            return self.rest().map(|()| false);
        }
        let growth = match (look.last, self.may_learn(look)) {
            (true, _) => Growth::None,
            (_, false) => Growth::Stream,
            (_, true) => Growth::Both,
        };
        self.show(StreamFile { length: end, ..file }, look, growth)?;
        Ok(true)
    }

    fn show(&mut self, file: StreamFile, look: &Look<'_>, growth: Growth) -> Result<(), Error> {
        if self.head.is_empty() {
            self.head = head(&file.path, HEAD.min(file.length));
        }
        (self.shown, self.finished) = (file.length, look.last);
        if let Source::Ctf(source) = &mut self.slot.source {
            source.grow(&file, look.streams, look.read, growth)?;
        }
        if let Some(window) = &mut self.slot.window {
            window.resume();
        }
        Ok(())
    }

    fn source(&self) -> Option<&CtfSource> {
        match &self.slot.source {
            Source::Ctf(source) => Some(source),
            _ => None,
        }
    }

    /// Releases the reader's file and memory until there is more.
    fn rest(&mut self) -> Result<(), Error> {
        match &mut self.slot.source {
            Source::Ctf(source) => source.rest(),
            _ => Ok(()),
        }
    }

    /// Returns true if metadata that describes unknown content may still be written.
    fn may_learn(&self, look: &Look<'_>) -> bool {
        !look.last && self.waits.is_none_or(|since| since.elapsed() < SETTLE_TIME)
    }

    /// Returns the file as it is now, if it exists and is still the same.
    fn look(&mut self, last: bool, shared: &mut Shared) -> Option<StreamFile> {
        if matches!(self.state, State::Replaced | State::Ended) {
            return None;
        }
        let found = fs::metadata(&self.path).ok().filter(|found| Identity::of(found) == self.identity);
        let Some(length) = found.map(|found| found.len()) else {
            let since = match self.state {
                State::Missing(since) => since,
                _ => Instant::now(),
            };
            self.state = State::Missing(since);
            if last || since.elapsed() >= SETTLE_TIME {
                self.removed(State::Ended, shared);
            }
            return None;
        };
        if length != self.seen && !self.begins_as_before(length) {
            self.removed(State::Replaced, shared);
            return None;
        }
        if length < self.shown {
            self.state = State::Ended;
            shared.diagnostics.push(Diagnostic::Shortened { path: self.path.clone(), from: self.seen, to: length });
            return None;
        }
        Some(StreamFile { path: self.path.clone(), length })
    }

    fn begins_as_before(&self, length: u64) -> bool {
        let now = head(&self.path, length.min(self.head.len() as u64));
        self.head.starts_with(&now) && (self.head.is_empty() || !now.is_empty())
    }

    fn removed(&mut self, state: State, shared: &mut Shared) {
        self.state = state;
        shared.diagnostics.push(Diagnostic::Removed { path: self.path.clone(), seen: self.seen });
    }

    /// Finds the end of the whole packets. Only headers are read. A packet whose header cannot be
    /// decoded is skipped if another packet is found after it.
    fn pass_packets(&mut self, file: &StreamFile, look: &Look<'_>) -> Result<(), Error> {
        // Each search reads all unclear bytes again, so it is repeated only after they have grown
        // by an eighth.
        if file.length.saturating_sub(self.whole) < self.unclear + self.unclear / 8 {
            return Ok(());
        }
        self.unclear = 0;
        let mut headers = decoder(&look.read.0, file, look.streams)?;
        headers.seek(self.whole, 0);
        loop {
            let error = match headers.advance() {
                Ok(Some(Step::PacketBegin)) => {
                    let packet = headers.packet();
                    let behind = packet.offset.saturating_add(packet.packet_bits / 8);
                    self.endless = !packet.sized;
                    if self.endless || behind > file.length {
                        return Ok(());
                    }
                    self.whole = behind;
                    headers.skip_packet();
                    continue;
                }
                Ok(Some(_)) => continue,
                Ok(None) => return Ok(()),
                Err(error) => error,
            };
            match error.kind {
                DecodeErrorKind::Truncated { .. } => return Ok(()),
                DecodeErrorKind::UnknownStream { .. } if self.may_learn(look) => {
                    self.waits.get_or_insert_with(Instant::now);
                    return Ok(());
                }
                _ if headers.next_packet().is_some() => headers.skip_packet(),
                _ if headers.finds_packets() => {
                    self.unclear = file.length - self.whole;
                    return Ok(());
                }
                // No further packet can be found.
                _ => {
                    (self.whole, self.state) = (file.length, State::Ended);
                    return Ok(());
                }
            }
        }
    }
}

/// Returns the first bytes of a file.
fn head(path: &Path, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    let read = File::open(path).and_then(|file| file.read_at(&mut bytes, 0)).unwrap_or(0);
    bytes.truncate(read);
    bytes
}
