//! A stream file that grows, and how far it was read.

use super::SETTLED;
use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::formats::ctf::{decoder, CtfSource, Growth, Plan};
use crate::open::file::StreamFile;
use crate::trace::{Shared, Slot, Source};
use longpole_ctf::{DecodeErrorKind, Metadata, Step};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Bytes at a file's begin by which it is known to be still the same.
const HEAD: u64 = 64;

/// A file, wherever it is. Numbers of files are used again.
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
    /// Bytes of the file at the last look.
    pub seen: u64,
    /// How many of them its reader was shown.
    shown: u64,
    /// Up to here there are whole packets.
    whole: u64,
    /// It is one packet without an end from there on, so that all that is there is shown.
    endless: bool,
    /// The bytes behind the whole packets begin with none, and among so many of them none was found.
    unclear: u64,
    head: Vec<u8>,
    /// By which it was read.
    metadata: Arc<Metadata>,
    /// Since when it has waited for metadata that knows what it holds.
    waits: Option<Instant>,
    state: State,
    /// All of it was shown that there will be.
    finished: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    There,
    /// It is not at its place: moved, or removed.
    Missing(Instant),
    /// Something else was written over it.
    Replaced,
    /// Nothing more is read of it.
    Ended,
}

/// What is known when a file is looked at.
pub struct Look<'a> {
    pub read: &'a (Arc<Metadata>, Rc<Plan>),
    /// How many files there are.
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

    /// It was found.
    pub fn is_at(&mut self, path: &Path) {
        if self.path != path {
            self.path = path.to_owned();
        }
        if matches!(self.state, State::Missing(_)) {
            self.state = State::There;
        }
    }

    /// Whether what is in the file now is to be read as another one.
    pub fn is_replaced(&self) -> bool {
        self.state == State::Replaced
    }

    /// Says at the end what was counted on the way.
    pub fn tell(&self, shared: &mut Shared) {
        if let Some(window) = &self.slot.window {
            window.tell(shared);
        }
        if let Some(source) = self.source() {
            source.tell(shared);
        }
    }

    /// Its reader has come to the end of what it was shown: shows it more, if there is more.
    pub fn go_on(&mut self, look: &Look<'_>, shared: &mut Shared) -> Result<bool, Error> {
        let Some(file) = self.look(look.last, shared) else { return self.rest() };
        let stuck = self.source().is_some_and(CtfSource::waits_for_metadata);
        let learned = !Arc::ptr_eq(&self.metadata, &look.read.0);
        if learned {
            (self.metadata, self.waits) = (look.read.0.clone(), None);
        } else if stuck {
            self.waits.get_or_insert_with(Instant::now);
        }
        if stuck && !learned && self.may_learn(look) {
            return self.rest();
        }
        if !self.endless && (file.length != self.seen || self.waits.is_some() || learned) {
            self.pass_packets(&file, look)?;
        }
        self.seen = file.length;
        let end = if self.endless || look.last { file.length } else { self.whole };
        if end <= self.shown && !stuck && (self.finished || !look.last) {
            return self.rest();
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

    /// It holds neither a file nor memory until there is more.
    fn rest(&mut self) -> Result<bool, Error> {
        if let Source::Ctf(source) = &mut self.slot.source {
            source.rest()?;
        }
        Ok(false)
    }

    /// Whether what the metadata does not know may be just being written there.
    fn may_learn(&self, look: &Look<'_>) -> bool {
        !look.last && self.waits.is_none_or(|since| since.elapsed() < SETTLED)
    }

    /// The file as it is now, if it is there and still the same.
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
            if last || since.elapsed() >= SETTLED {
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

    /// Finds how far whole packets reach; only headers are looked at. One that cannot be understood is passed over once another packet is found behind it.
    fn pass_packets(&mut self, file: &StreamFile, look: &Look<'_>) -> Result<(), Error> {
        // All of it is looked through again and again, so not for every byte that comes.
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
                // There is no way to find another one.
                _ => {
                    (self.whole, self.state) = (file.length, State::Ended);
                    return Ok(());
                }
            }
        }
    }
}

/// What stands at a file's begin.
fn head(path: &Path, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    let read = File::open(path).and_then(|file| file.read_at(&mut bytes, 0)).unwrap_or(0);
    bytes.truncate(read);
    bytes
}
