//! Where the packets of a stream file are in time, so that who asks for a late part of a long trace need not pass all of it.
//!
//! An index is built once, by one pass over the packets' headers, and kept in `derived/` beside the stream, or in the user's cache folder where
//! nothing can be written there. It is believed only if it fits the file: its size, its time of change, its metadata, and the headers of some
//! packets, which are read again. Whatever is wrong with it, the trace is read without it.

use crate::file::{FileWindow, StreamFile};
use crate::recognise::is_recording;
use longpole_ctf::{Metadata, Step, StreamDecoder};
use rustix::process::geteuid;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Smaller files are passed as soon as an index is read.
const LEAST_FILE: u64 = 4 << 20;
/// More entries would be no index any more: 24 bytes each.
const MOST_ENTRIES: usize = 1 << 24;
const MAGIC: &[u8; 8] = b"LPINDEX1";
/// Bytes of a packet that are its header for the check, and of how many packets.
const HEADER: usize = 64;
const CHECKED: usize = 16;
const FIXED: usize = 8 + 4 * 8;
const ENTRY: usize = 3 * 8;

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// In bytes of the file.
    offset: u64,
    /// The clock's full value when it begins.
    begin: u64,
    /// When it, or one before it, ends at the latest.
    end_ns: i64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Index {
    entries: Vec<Entry>,
}

/// Where to go on with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub offset: u64,
    /// Number of the packet in the file.
    pub packet: u64,
    pub clock: u64,
}

/// What an index must fit.
struct Identity {
    size: u64,
    changed: u64,
    metadata: u64,
}

impl Index {
    /// That of a stream file, read or built; none if it is short or nothing can be said of the times of its packets.
    pub fn of(file: &StreamFile, metadata: &Arc<Metadata>, source: impl FnOnce() -> io::Result<FileWindow>) -> Option<Index> {
        if file.length < LEAST_FILE {
            return None;
        }
        let stream = File::open(&file.path).ok()?;
        let facts = stream.metadata().ok()?;
        let text = fs::read(file.path.parent()?.join("metadata")).ok()?;
        let changed = facts.mtime().wrapping_mul(1_000_000_000).wrapping_add(facts.mtime_nsec()) as u64;
        let identity = Identity { size: file.length, changed, metadata: hash(&text) };
        let places = places(&file.path);
        if let Some(known) = places.iter().find_map(|place| Index::read(place, &identity, &stream)) {
            return known.usable();
        }
        let built = Index::build(metadata, source().ok()?);
        let bytes = built.bytes(&identity, &stream);
        let _ = places.iter().any(|place| store(place, &bytes).is_ok());
        built.usable()
    }

    /// The last packet before which nothing ends at `begin_ns` or later, or the one before that: by its counters the next one tells what was
    /// lost. In O(log packets).
    pub fn position(&self, begin_ns: i64) -> Option<Position> {
        let first = self.entries.partition_point(|entry| entry.end_ns < begin_ns);
        let packet = first.checked_sub(1)?;
        let entry = self.entries.get(packet)?;
        Some(Position { offset: entry.offset, packet: packet as u64, clock: entry.begin })
    }

    fn usable(self) -> Option<Index> {
        (self.entries.len() > 1).then_some(self)
    }

    /// Up to the first packet of which something is not known; empty if packets of several classes are in the file, each of which counts for
    /// itself.
    fn build(metadata: &Arc<Metadata>, source: FileWindow) -> Index {
        let mut decoder = StreamDecoder::new(metadata.clone(), source);
        let (mut entries, mut end_ns, mut class) = (Vec::new(), i64::MIN, None);
        while let Ok(Some(step)) = decoder.advance() {
            if step != Step::PacketBegin {
                continue;
            }
            let packet = decoder.packet();
            let (Some(begin), Some(end)) = (packet.begin, packet.end_ns) else { break };
            if class.replace(packet.stream).is_some_and(|class| class != packet.stream) || entries.len() == MOST_ENTRIES {
                return Index { entries: Vec::new() };
            }
            end_ns = end_ns.max(end);
            entries.push(Entry { offset: packet.offset, begin, end_ns });
            decoder.skip_packet();
        }
        Index { entries }
    }

    fn bytes(&self, identity: &Identity, stream: &File) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED + self.entries.len() * ENTRY + 8);
        bytes.extend_from_slice(MAGIC);
        for value in [identity.size, identity.changed, identity.metadata, self.headers(stream)] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        for entry in &self.entries {
            for value in [entry.offset, entry.begin, entry.end_ns as u64] {
                bytes.extend_from_slice(&value.to_le_bytes());
            }
        }
        let sum = hash(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn read(place: &Path, identity: &Identity, stream: &File) -> Option<Index> {
        // In a foreign folder anything may lie: a pipe would never end, a link lead elsewhere.
        let facts = fs::symlink_metadata(place).ok()?;
        if !facts.is_file() || facts.len() > (FIXED + MOST_ENTRIES * ENTRY + 8) as u64 {
            return None;
        }
        let bytes = fs::read(place).ok()?;
        let (content, sum) = bytes.split_last_chunk::<8>()?;
        if hash(content) != u64::from_le_bytes(*sum) {
            return None;
        }
        let (words, []) = content.strip_prefix(MAGIC)?.as_chunks::<8>() else { return None };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let ([size, changed, metadata, headers], entries) = words.split_first_chunk::<4>()?;
        let (entries, []) = entries.as_chunks::<3>() else { return None };
        let entries = entries.iter().map(|&[offset, begin, end]| Entry { offset, begin, end_ns: end as i64 }).collect();
        let index = Index { entries };
        let fits = [*size, *changed, *metadata] == [identity.size, identity.changed, identity.metadata];
        (fits && *headers == index.headers(stream)).then_some(index)
    }

    /// Of the headers of some packets, spread over the file.
    fn headers(&self, stream: &File) -> u64 {
        let mut hasher = DefaultHasher::new();
        let step = self.entries.len().div_ceil(CHECKED).max(1);
        for entry in self.entries.iter().step_by(step).chain(self.entries.last()) {
            let mut header = [0; HEADER];
            let read = stream.read_at(&mut header, entry.offset).unwrap_or(0);
            hasher.write(&header[..read]);
        }
        hasher.finish()
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Where an index may lie: beside the stream, else in the cache folder under a name made of the stream's path.
fn places(stream: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let (Some(directory), Some(name)) = (stream.parent(), stream.file_name()) {
        let mut name = name.to_owned();
        name.push(".index");
        // A recording has one folder for all that may be deleted.
        let recording = directory.parent().filter(|recording| is_recording(recording));
        places.push(match (recording, directory.file_name()) {
            (Some(recording), Some(part)) => recording.join("derived").join(part).join(name),
            _ => directory.join("derived").join(name),
        });
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    if let (Some(cache), Ok(path)) = (cache, fs::canonicalize(stream)) {
        places.push(cache.join("longpole/index").join(format!("{:016x}", hash(path.as_os_str().as_encoded_bytes()))));
    }
    places
}

/// In one piece or not at all.
fn store(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = place.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Nobody else chooses where we write.
    let facts = fs::symlink_metadata(folder)?;
    if !facts.is_dir() || facts.uid() != geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let made = folder.join(format!(".{}-{}", place.file_name().unwrap_or_default().to_string_lossy(), std::process::id()));
    let written = File::create_new(&made).and_then(|mut file| file.write_all(bytes)).and_then(|()| fs::rename(&made, place));
    if written.is_err() {
        let _ = fs::remove_file(&made);
    }
    written
}
