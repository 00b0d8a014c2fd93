//! Index of the packets of a stream file by time, so that reading a late part of a long trace does
//! not need to pass over all of it.
//!
//! An index is built once, by one pass over the packets' headers. It is stored in `derived/` next
//! to the stream, or in the user's cache folder if the trace's folder is not writable. It is used
//! only if it fits the file: size, modification time, metadata, and the headers of some packets,
//! which are read again, must match. It consists of blocks, each with a checksum of its own, so a
//! search reads one block per step. If anything about it is wrong, it is built again; if that is
//! impossible, the trace is read without an index.
//!
//! If a file is read as several [chains](packet_chains), its packets are listed by
//! chain, because each chain is searched and read separately.

pub(crate) mod packet_chains;

use crate::derived::{self, Place};
use crate::files::directory::is_recording;
use crate::files::file::StreamFile;
use longpole_ctf::{Metadata, Source, Step, StreamDecoder};
use packet_chains::{Chains, MAX_CHAINS};
use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Minimum size in bytes of a file that gets an index. A smaller file is read as fast as an index.
pub(crate) const MIN_FILE: u64 = 4 << 20;
/// Maximum number of entries of an index. A larger index would not be worth its size.
const MAX_ENTRIES: u64 = 1 << 24;
const MAGIC: u64 = u64::from_le_bytes(*b"LPINDEX2");
/// Bytes at a packet's begin that are part of the check, and the number of packets that are
/// checked.
const HEADER: usize = 64;
const CHECKED_PACKETS: usize = 16;

/// Words of an entry, and words of a block without its checksum.
const ENTRY: usize = 5;
const WORDS: usize = 511;
const BLOCK: usize = (WORDS + 1) * 8;
const IN_BLOCK: u64 = (WORDS / ENTRY) as u64;

type Words = [u64; WORDS];

/// Place at which decoding of a stream can continue: the begin of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Offset in the file in bytes.
    pub offset: u64,
    /// Index of the packet in the file.
    pub packet: u64,
    /// The clock's full value at the packet's begin.
    pub clock: u64,
}

/// Index entry of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Index of the packet in the file.
    pub packet: u64,
    /// Position of the previous packet of the same stream class, or of this packet if it is the
    /// first.
    pub before: Position,
    /// Latest end in ns of this packet and all packets before it in its chain.
    pub end_ns: i64,
}

/// Properties of the file as a whole.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    /// Size, modification time and metadata hash of the indexed file.
    identity: [u64; 3],
    /// Number of readers that the file needs: see [`Chains::readers`].
    readers: u64,
    /// Set if all packets of the file are listed. Otherwise the list ends before the first packet
    /// whose begin or end is unknown.
    complete: bool,
    /// Offsets of the packets whose headers are checked, and the hash of these headers.
    checked: Vec<u64>,
    headers: u64,
    /// Number of entries of each chain.
    entries: Vec<u64>,
}

struct Index {
    head: Head,
    blocks: Blocks,
    /// The block that was read last, with its number.
    last: RefCell<Option<(u64, Box<Words>)>>,
}

enum Blocks {
    Stored(File),
    /// The bytes of an index that was just built, in the same form as in the file.
    Built(Vec<u8>),
}

/// The index of a file, shared by all readers of that file.
pub(crate) struct FileIndex {
    file: StreamFile,
    metadata: Arc<Metadata>,
    /// Hash of the metadata's bytes.
    text: u64,
    /// Set if the tracer writes packets in the order of time, so that the file has one chain.
    ordered: bool,
    streams: usize,
    index: RefCell<Option<Rc<Index>>>,
    /// Set after building the index failed, so that it is not tried again.
    hopeless: Cell<bool>,
}

impl FileIndex {
    /// Returns `None` for a file shorter than [`MIN_FILE`].
    pub fn new(file: &StreamFile, metadata: &Arc<Metadata>, text: u64, ordered: bool, streams: usize) -> Option<Rc<FileIndex>> {
        let (file, metadata) = (file.clone(), metadata.clone());
        let index = FileIndex { file, metadata, text, ordered, streams, index: RefCell::default(), hopeless: Cell::default() };
        (index.file.length >= MIN_FILE).then(|| Rc::new(index))
    }

    /// Returns the number of readers that the file needs, if a stored index contains it. Does not
    /// build an index.
    pub fn readers_if_known(&self) -> Option<usize> {
        let mut index = self.index.borrow_mut();
        if index.is_none() {
            *index = self.read().map(Rc::new);
        }
        index.as_ref().map(|index| index.head.readers as usize)
    }

    /// Returns the number of chains in the index. Returns `None` if not all packets are listed,
    /// because then the chains cannot be read separately.
    pub fn chains(&self) -> Option<usize> {
        let index = self.get()?;
        (index.head.complete && index.head.entries.len() as u64 == index.head.readers).then_some(index.head.entries.len())
    }

    /// Returns the entry with this number in a chain.
    pub fn entry(&self, chain: usize, number: u64) -> Option<Entry> {
        self.ask(|index| index.entry(chain, number))?
    }

    /// Returns the number of a chain's first packet that ends at or after `begin_ns`, in O(log
    /// packets).
    pub fn first_from(&self, chain: usize, begin_ns: i64) -> u64 {
        self.ask(|index| index.first_from(chain, begin_ns)).unwrap_or(0)
    }

    /// Returns, for a file with one chain, the position of the packet before the first one that
    /// ends at or after `begin_ns`. Reading starts one packet early because the difference of the
    /// two packets' counters shows what was lost between them.
    pub fn position(&self, begin_ns: i64) -> Option<Position> {
        let index = self.get().filter(|index| index.head.readers == 1)?;
        let last = index.head.entries.first()?.checked_sub(1)?;
        Some(self.entry(0, self.first_from(0, begin_ns).min(last))?.before)
    }

    /// Evaluates `question` on the index. If a block of the stored index is damaged, builds the
    /// index again and evaluates it on the new one.
    fn ask<T>(&self, question: impl Fn(&Index) -> Result<T, Damaged>) -> Option<T> {
        question(&*self.get()?).or_else(|_| question(&*self.build().ok_or(Damaged)?)).ok()
    }

    fn get(&self) -> Option<Rc<Index>> {
        self.readers_if_known();
        let known = self.index.borrow().clone();
        known.or_else(|| self.build())
    }

    fn identity(&self, stream: &File) -> Option<[u64; 3]> {
        let facts = stream.metadata().ok()?;
        let changed = facts.mtime().wrapping_mul(1_000_000_000).wrapping_add(facts.mtime_nsec()) as u64;
        Some([self.file.length, changed, self.text])
    }

    fn read(&self) -> Option<Index> {
        let stream = File::open(&self.file.path).ok()?;
        let identity = self.identity(&stream)?;
        places(&self.file.path).iter().find_map(|place| Index::read(place, identity, &stream))
    }

    /// Builds the index in one pass over all packets. Stores it if one of the places is writable.
    fn build(&self) -> Option<Rc<Index>> {
        if self.hopeless.get() {
            return None;
        }
        let built = self.built();
        self.hopeless.set(built.is_none());
        *self.index.borrow_mut() = built.map(Rc::new);
        self.index.borrow().clone()
    }

    fn built(&self) -> Option<Index> {
        let stream = File::open(&self.file.path).ok()?;
        let identity = self.identity(&stream)?;
        let decoder = StreamDecoder::new(self.metadata.clone(), self.file.skim(self.streams).ok()?);
        let (readers, complete, lists) = pass(decoder, self.ordered);
        let index = Index::new(identity, &stream, (readers as u64, complete), lists);
        if let Blocks::Built(bytes) = &index.blocks {
            let _ = places(&self.file.path).iter().any(|place| place.store(|file| file.write_all(bytes)).is_ok());
        }
        Some(index)
    }
}

/// Returns the number of readers that the file needs, whether all packets are listed, and the
/// entries by chain.
fn pass<S: Source>(mut decoder: StreamDecoder<S>, ordered: bool) -> (usize, bool, Vec<Vec<Entry>>) {
    let (mut chains, mut lists, mut count) = (Chains::default(), vec![Vec::new()], 0);
    // Position of the previous packet, by stream class.
    let mut before: Vec<Option<Position>> = Vec::new();
    let mut complete = true;
    loop {
        match decoder.advance() {
            Ok(None) => break,
            // The reader of the events reports this error.
            Err(_) => {
                complete = false;
                break;
            }
            Ok(Some(Step::PacketBegin)) => {
                let packet = decoder.packet();
                let chain = if ordered { 0 } else { chains.of(packet) };
                complete &= packet.begin.is_some() && packet.end_ns.is_some() && count < MAX_ENTRIES;
                if let (true, Some(clock), Some(end_ns)) = (complete, packet.begin, packet.end_ns) {
                    let here = Position { offset: packet.offset, packet: packet.index, clock };
                    if before.len() <= packet.stream {
                        before.resize(packet.stream + 1, None);
                    }
                    let before = before[packet.stream].replace(here).unwrap_or(here);
                    if lists.len() <= chain {
                        lists.resize_with(chain + 1, Vec::new);
                    }
                    lists[chain].push(Entry { packet: packet.index, before, end_ns });
                    count += 1;
                }
                decoder.skip_packet();
            }
            Ok(Some(_)) => {}
        }
    }
    let readers = chains.readers();
    if readers == 1 && lists.len() > 1 {
        lists = vec![lists.concat()];
        lists[0].sort_unstable_by_key(|entry| entry.packet);
    }
    for list in &mut lists {
        list.iter_mut().fold(i64::MIN, |end_ns, entry| {
            entry.end_ns = entry.end_ns.max(end_ns);
            entry.end_ns
        });
    }
    (readers, complete, lists)
}

/// A block's content does not match its checksum.
struct Damaged;

impl Index {
    fn new(identity: [u64; 3], stream: &File, (readers, complete): (u64, bool), lists: Vec<Vec<Entry>>) -> Index {
        let count: usize = lists.iter().map(Vec::len).sum();
        let step = count.div_ceil(CHECKED_PACKETS).max(1);
        let checked: Vec<u64> = lists.iter().flatten().step_by(step).map(|entry| entry.before.offset).collect();
        let headers = headers(stream, &checked);
        let entries = lists.iter().map(|list| list.len() as u64).collect();
        let head = Head { identity, readers, complete, checked, headers, entries };
        let mut bytes = block(head.words());
        for list in lists {
            for part in list.chunks(IN_BLOCK as usize) {
                bytes.extend(block(part.iter().flat_map(|entry| entry.words())));
            }
        }
        Index { head, blocks: Blocks::Built(bytes), last: RefCell::default() }
    }

    fn read(place: &Place, identity: [u64; 3], stream: &File) -> Option<Index> {
        let file = place.open().ok()?;
        let facts = file.metadata().ok()?;
        let blocks = Blocks::Stored(file);
        let head = Head::of(&*blocks.read(0).ok()?)?;
        let fits = head.identity == identity && head.blocks() * BLOCK as u64 == facts.len();
        (fits && head.headers == headers(stream, &head.checked)).then(|| Index { head, blocks, last: RefCell::default() })
    }

    fn entry(&self, chain: usize, number: u64) -> Result<Option<Entry>, Damaged> {
        if self.head.entries.get(chain).is_none_or(|&entries| number >= entries) {
            return Ok(None);
        }
        let wanted = self.head.first_block(chain) + number / IN_BLOCK;
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_none_or(|(known, _)| *known != wanted) {
            *last = Some((wanted, self.blocks.read(wanted)?));
        }
        let at = (number % IN_BLOCK) as usize * ENTRY;
        let words = last.as_ref().and_then(|(_, words)| words[at..].first_chunk::<ENTRY>()).ok_or(Damaged)?;
        Ok(Some(Entry::of(words)))
    }

    fn first_from(&self, chain: usize, begin_ns: i64) -> Result<u64, Damaged> {
        let (mut low, mut high) = (0, self.head.entries.get(chain).copied().unwrap_or(0));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(chain, middle)? {
                Some(entry) if entry.end_ns < begin_ns => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }
}

impl Head {
    fn words(&self) -> Vec<u64> {
        let mut words = vec![MAGIC];
        words.extend(self.identity);
        words.extend([self.readers, self.complete.into(), self.headers, self.checked.len() as u64]);
        words.extend(&self.checked);
        words.push(self.entries.len() as u64);
        words.extend(&self.entries);
        words
    }

    fn of(words: &Words) -> Option<Head> {
        let ([magic, size, changed, text, readers, complete, headers, checked], rest) = words.split_first_chunk::<8>()?;
        let (checked, rest) = rest.split_at_checked(usize::try_from(*checked).ok().filter(|&n| n <= CHECKED_PACKETS + 1)?)?;
        let (&chains, rest) = rest.split_first()?;
        let entries = rest.get(..usize::try_from(chains).ok().filter(|&n| n <= MAX_CHAINS)?)?;
        let bounded = entries.iter().all(|&n| n <= MAX_ENTRIES) && (1..=MAX_CHAINS as u64).contains(readers);
        (*magic == MAGIC && bounded).then(|| Head {
            identity: [*size, *changed, *text],
            readers: *readers,
            complete: *complete != 0,
            checked: checked.to_vec(),
            headers: *headers,
            entries: entries.to_vec(),
        })
    }

    /// Returns the number of a chain's first block. Block 0 is the head.
    fn first_block(&self, chain: usize) -> u64 {
        1 + self.entries.iter().take(chain).map(|entries| entries.div_ceil(IN_BLOCK)).sum::<u64>()
    }

    fn blocks(&self) -> u64 {
        self.first_block(self.entries.len())
    }
}

impl Entry {
    fn words(&self) -> [u64; ENTRY] {
        [self.packet, self.before.offset, self.before.packet, self.before.clock, self.end_ns as u64]
    }

    fn of(&[packet, offset, before, clock, end_ns]: &[u64; ENTRY]) -> Entry {
        Entry { packet, before: Position { offset, packet: before, clock }, end_ns: end_ns as i64 }
    }
}

impl Blocks {
    fn read(&self, number: u64) -> Result<Box<Words>, Damaged> {
        let mut read = [0; BLOCK];
        match self {
            Blocks::Stored(file) => file.read_exact_at(&mut read, number * BLOCK as u64).map_err(|_| Damaged)?,
            Blocks::Built(bytes) => {
                let begin = number as usize * BLOCK;
                read.copy_from_slice(bytes.get(begin..begin + BLOCK).ok_or(Damaged)?);
            }
        }
        let (content, sum) = read.split_last_chunk::<8>().ok_or(Damaged)?;
        if hash(content) != u64::from_le_bytes(*sum) {
            return Err(Damaged);
        }
        let mut words = Box::new([0; WORDS]);
        for (word, bytes) in words.iter_mut().zip(content.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Ok(words)
    }
}

/// Encodes words as a block with its checksum.
fn block(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    bytes.resize(WORDS * 8, 0);
    let sum = hash(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Returns the hash of the headers of the packets at these offsets.
fn headers(stream: &File, offsets: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for offset in offsets {
        let mut header = [0; HEADER];
        let read = stream.read_at(&mut header, *offset).unwrap_or(0);
        hasher.write(&header[..read]);
    }
    hasher.finish()
}

pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Returns the paths at which an index may be stored: next to the stream, or in the cache folder
/// under a name derived from the stream's path.
fn places(stream: &Path) -> Vec<Place> {
    let mut places = Vec::new();
    if let (Some(directory), Some(name)) = (stream.parent(), stream.file_name()) {
        let mut name = name.to_owned();
        name.push(".index");
        // A recording keeps everything that may be deleted in one folder.
        let recording = directory.parent().filter(|recording| is_recording(recording));
        let derived = Path::new(derived::FOLDER);
        places.push(match (recording, directory.file_name()) {
            (Some(recording), Some(part)) => Place { base: recording.to_owned(), below: derived.join(part).join(name) },
            _ => Place { base: directory.to_owned(), below: derived.join(name) },
        });
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    if let (Some(cache), Ok(path)) = (cache, fs::canonicalize(stream)) {
        let name = format!("{:016x}", hash(path.as_os_str().as_encoded_bytes()));
        places.push(Place { base: cache, below: Path::new("longpole/index").join(name) });
    }
    places
}
