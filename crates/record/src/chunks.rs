//! A recording with a limited size or age: it consists of chunks, of which the oldest is deleted.
//!
//! A chunk is a complete recording in a directory of its own, with metadata, clock and description.
//! A reader needs nothing else, and a recorder that is killed leaves all chunks readable. At a
//! boundary every ring is emptied into the old chunk; later events go to the new one. Nothing stops
//! meanwhile, except the sources of stacks and interface packets for a moment. The contents of each
//! deleted chunk are counted, and the description of every later chunk holds the sums.

//!
//! This room has the limit, the completed chunks and their sums. The recorder makes the new chunk.

mod count;

use crate::output::account::Totals;
use crate::ring::class::Classes;
use serde_json::{json, Value};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Number of chunks that fit into the limit. With 4, at least three quarters of the limit are
/// available at any time.
const PARTS: u32 = 4;
/// Limit in bytes that overwrite mode implies for sources that cannot overwrite: stacks and packets
/// of network devices.
pub(crate) const OVERWRITE_LIMIT: u64 = 256 << 20;
/// Smallest chunk in bytes.
const MIN_CHUNK_BYTES: u64 = 64 << 10;
/// Shortest duration of a chunk by its age, and shortest time between two reads of the file sizes.
const MIN_CHUNK_TIME: Duration = Duration::from_millis(100);

/// Sums over the deleted chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Removed {
    chunks: u64,
    events: u64,
    lost: u64,
    kernel_events: u64,
    /// Some events of the deleted chunks could not be counted.
    uncounted: bool,
    until_ns: u64,
}

impl Removed {
    fn add(&mut self, other: Removed) {
        self.chunks += other.chunks;
        self.events = self.events.saturating_add(other.events);
        self.lost = self.lost.saturating_add(other.lost);
        self.kernel_events += other.kernel_events;
        self.uncounted |= other.uncounted;
        self.until_ns = self.until_ns.max(other.until_ns);
    }

    fn to_json(self) -> Value {
        json!({
            "chunks": self.chunks,
            "events": self.events,
            "lost": self.lost,
            "kernel_events": if self.uncounted { Value::Null } else { self.kernel_events.into() },
            "until_ns": (self.chunks > 0).then_some(self.until_ns),
        })
    }
}

/// A completed chunk.
#[derive(Debug)]
struct Done {
    path: PathBuf,
    bytes: u64,
    begin_ns: u64,
    end_ns: u64,
}

/// The chunks of a recording, and the limit of their size or age.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// Limit of the bytes of all chunks.
    max_size: Option<u64>,
    /// Limit of the age of the oldest event.
    max_age: Option<Duration>,
    /// Number of the current chunk, from 1.
    number: u64,
    begun: Instant,
    /// Sums of the recording when this chunk began.
    before: Totals,
    /// Bytes of the kernel's pages in the chunks before.
    kernel_before: u64,
    /// Bytes of stacks and of packets of network devices in this chunk, at the newest look.
    context: u64,
    looked: Instant,
    done: VecDeque<Done>,
    removed: Removed,
    /// Threads that are deleting a chunk.
    removing: Vec<JoinHandle<Removed>>,
    /// Channel for the path of each new chunk.
    announced_to: Option<Sender<PathBuf>>,
}

/// What the current chunk has, in bytes since the begin of the recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkBytes {
    /// Bytes of stream files.
    pub streams: u64,
    /// Bytes of the kernel's pages.
    pub kernel: u64,
    /// Bytes of the capture files of this chunk.
    pub captures: u64,
}

/// What is to be done about the current chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The chunk is neither large nor old enough.
    Continue,
    /// The chunk is complete.
    Rotate,
    /// The chunk is old and empty and continues. An empty chunk would hold no information.
    Empty,
}

impl Chunks {
    pub fn new(max_size: Option<u64>, max_age: Option<Duration>) -> Chunks {
        Chunks {
            max_size,
            max_age,
            number: 1,
            begun: Instant::now(),
            before: Totals::default(),
            kernel_before: 0,
            context: 0,
            looked: Instant::now(),
            done: VecDeque::new(),
            removed: Removed::default(),
            removing: Vec::new(),
            announced_to: None,
        }
    }

    pub fn max_size(&self) -> Option<u64> {
        self.max_size
    }

    /// Sums of this chunk alone.
    pub fn own(&self, total: &Totals) -> Totals {
        Totals {
            lost: total.lost - self.before.lost,
            refused: total.refused - self.before.refused,
            packets_refused: total.packets_refused - self.before.packets_refused,
            ..*total
        }
    }

    /// Begin of the oldest existing chunk. `now`: the begin of the current one, which has no entry.
    pub fn first_ns(&self, now: u64) -> u64 {
        self.done.front().map_or(now, |oldest| oldest.begin_ns)
    }

    /// Paths of the completed chunks that end at or after a time, oldest first.
    pub fn since(&self, unix_ns: u64) -> Vec<&Path> {
        self.done.iter().filter(|chunk| chunk.end_ns >= unix_ns).map(|chunk| chunk.path.as_path()).collect()
    }

    /// Bytes of the kernel's pages in this chunk.
    pub fn own_kernel(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.kernel_before)
    }

    /// Entry in the description; null if the recording has no limit.
    pub fn to_json(&self) -> Value {
        match self.max_size.is_some() || self.max_age.is_some() {
            true => json!({
                "number": self.number,
                "max_size": self.max_size,
                "max_age_ns": self.max_age.map(|age| age.as_nanos() as u64),
                "removed": self.removed.to_json(),
            }),
            false => Value::Null,
        }
    }

    fn join(&mut self, all: bool) {
        let mut at = 0;
        while at < self.removing.len() {
            if all || self.removing[at].is_finished() {
                let removed = self.removing.swap_remove(at).join();
                self.removed.add(removed.unwrap_or(Removed { chunks: 1, uncounted: true, ..Removed::default() }));
            } else {
                at += 1;
            }
        }
    }

    /// Decides what is to be done about the chunk at `path`.
    pub fn step(&mut self, path: &Path, written: ChunkBytes) -> Step {
        if self.max_size.is_none() && self.max_age.is_none() {
            return Step::Continue;
        }
        self.join(false);
        if self.looked.elapsed() >= MIN_CHUNK_TIME {
            // Their own threads write these files.
            self.looked = Instant::now();
            self.context = count::context(path);
        }
        let ChunkBytes { streams, kernel, captures } = written;
        let bytes = streams - self.before.written + kernel.saturating_sub(self.kernel_before) + captures + self.context;
        let large = self.max_size.is_some_and(|most| bytes >= (most / u64::from(PARTS)).max(MIN_CHUNK_BYTES));
        let old = self.max_age.is_some_and(|most| self.begun.elapsed() >= (most / PARTS).max(MIN_CHUNK_TIME));
        match (large || old, bytes) {
            (false, _) => Step::Continue,
            (true, 0) => {
                self.begun = Instant::now();
                Step::Empty
            }
            (true, _) => Step::Rotate,
        }
    }

    /// Continues the current chunk after an error; the next attempt is made when it has grown as
    /// much again.
    pub fn retry(&mut self, total: &Totals) {
        self.begun = Instant::now();
        self.before.written = total.written;
    }

    /// Adds the chunk that ended, and begins to count the next one. `kernel`: bytes of the kernel's
    /// pages until now.
    pub fn ended(&mut self, path: PathBuf, (begin_ns, end_ns): (u64, u64), total: &Totals, kernel: u64) {
        self.done.push_back(Done { bytes: count::size(&path), path, begin_ns, end_ns });
        (self.before, self.begun, self.context) = (*total, Instant::now(), 0);
        self.number += 1;
        self.kernel_before = kernel;
    }

    /// Forgets a completed chunk.
    pub fn give_away(&mut self, path: &Path) {
        self.done.retain(|chunk| chunk.path != path);
    }

    /// Deletes the oldest chunks beyond the limit. `classes`: returns the event classes of each
    /// stream class. Returns diagnostics.
    pub fn remove_oldest(&mut self, now_ns: u64, classes: impl Fn() -> HashMap<u32, Classes>) -> Vec<String> {
        let mut diagnostics = Vec::new();
        let (max_size, max_age) = (self.max_size, self.max_age);
        let reserved = max_size.map_or(0, |most| most / u64::from(PARTS));
        loop {
            let sum: u64 = self.done.iter().map(|chunk| chunk.bytes).sum();
            let Some(oldest) = self.done.front() else { break };
            let large = max_size.is_some_and(|most| sum + reserved > most);
            let old = max_age.is_some_and(|most| oldest.end_ns.saturating_add(most.as_nanos() as u64) < now_ns);
            if !(large || old) {
                break;
            }
            let Some(oldest) = self.done.pop_front() else { break };
            let classes = classes();
            // Counting takes longer than a turn may take.
            let work = move || count::remove(&oldest.path, oldest.end_ns, &classes);
            match std::thread::Builder::new().name("longpole-chunks".to_owned()).spawn(work) {
                Ok(thread) => self.removing.push(thread),
                Err(error) => diagnostics.push(format!("an old chunk could not be removed: {error}")),
            }
        }
        diagnostics
    }

    /// Waits for the threads that delete chunks.
    pub fn end(&mut self) {
        self.join(true);
    }

    /// Returns a channel that receives the path of each further chunk.
    pub fn receiver(&mut self) -> Receiver<PathBuf> {
        let (sender, chunks) = channel();
        self.announced_to = Some(sender);
        chunks
    }

    /// Sends the path of a new chunk, if there is a receiver.
    pub fn announce(&self, path: &Path) {
        if let Some(sender) = &self.announced_to {
            // The receiver may be gone.
            let _ = sender.send(path.to_owned());
        }
    }
}
