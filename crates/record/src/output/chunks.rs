//! A recording with a limited size or age: it consists of chunks, of which the oldest is deleted.
//!
//! A chunk is a complete recording in a directory of its own, with metadata, clock and description.
//! A reader needs nothing else, and a recorder that is killed leaves all chunks readable. At a
//! boundary every ring is emptied into the old chunk; later events go to the new one. Nothing stops
//! meanwhile, except the sources of stacks and interface packets for a moment. The contents of each
//! deleted chunk are counted, and the description of every later chunk holds the sums.

mod count;

use crate::error::Error;
use crate::output::metadata::Uuid;
use crate::output::recording::{self, Reserve};
use crate::recorder::{Recorder, RecordingFolder, Totals};
use crate::ring::class::Classes;
use crate::ring::sites::Sites;
use serde_json::{json, Value};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Number of chunks that fit into the limit. With 4, at least three quarters of the limit are
/// available at any time.
const PARTS: u32 = 4;
/// Limit in bytes that overwrite mode implies for sources that cannot overwrite: stacks and packets
/// of network devices.
pub(crate) const FLIGHT: u64 = 256 << 20;
/// Smallest chunk in bytes.
const SMALLEST: u64 = 64 << 10;
/// Shortest duration of a chunk by its age, and shortest time between two reads of the file sizes.
const SHORTEST: Duration = Duration::from_millis(100);

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
    pub told: Option<Sender<PathBuf>>,
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
            told: None,
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
}

impl Recorder {
    /// Starts a new chunk if the current one is large or old enough, and deletes the oldest ones
    /// beyond the limit.
    pub(crate) fn rotate_if_due(&mut self) {
        let kernel = self.kernel_bytes();
        let chunks = &mut self.chunks;
        if chunks.max_size.is_none() && chunks.max_age.is_none() {
            return;
        }
        chunks.join(false);
        if chunks.looked.elapsed() >= SHORTEST {
            // Their own threads write these files.
            chunks.looked = Instant::now();
            chunks.context = count::context(&self.path);
        }
        let captures: u64 = self.captures.values().map(|capture| capture.length()).sum();
        let bytes = self.total.written - chunks.before.written + kernel.saturating_sub(chunks.kernel_before) + captures + chunks.context;
        let large = chunks.max_size.is_some_and(|most| bytes >= (most / u64::from(PARTS)).max(SMALLEST));
        let old = chunks.max_age.is_some_and(|most| chunks.begun.elapsed() >= (most / PARTS).max(SHORTEST));
        if !(large || old) {
            return;
        }
        if bytes == 0 {
            // An empty chunk would hold no information.
            chunks.begun = Instant::now();
        } else if let Err(error) = self.rotate() {
            self.diagnostic(format!("no new chunk could be begun: {error}"));
            self.chunks.begun = Instant::now();
            self.chunks.before.written = self.total.written;
        }
        self.remove_oldest();
    }

    fn remove_oldest(&mut self) {
        let now = self.now_ns();
        let Chunks { max_size, max_age, .. } = self.chunks;
        let reserved = max_size.map_or(0, |most| most / u64::from(PARTS));
        loop {
            let sum: u64 = self.chunks.done.iter().map(|chunk| chunk.bytes).sum();
            let Some(oldest) = self.chunks.done.front() else { break };
            let large = max_size.is_some_and(|most| sum + reserved > most);
            let old = max_age.is_some_and(|most| oldest.end_ns.saturating_add(most.as_nanos() as u64) < now);
            if !(large || old) {
                break;
            }
            let Some(oldest) = self.chunks.done.pop_front() else { break };
            let mut classes = HashMap::new();
            let _ = self.in_each_directory(|recorder| {
                classes.insert(recorder.place.stream, recorder.place.classes.clone());
                Ok::<(), ()>(())
            });
            // Counting takes longer than a turn may take.
            let work = move || count::remove(&oldest.path, oldest.end_ns, &classes);
            match std::thread::Builder::new().name("longpole-chunks".to_owned()).spawn(work) {
                Ok(thread) => self.chunks.removing.push(thread),
                Err(error) => self.diagnostic(format!("an old chunk could not be removed: {error}")),
            }
        }
    }

    /// Waits for the threads that delete chunks.
    pub(crate) fn end_chunks(&mut self) {
        self.chunks.join(true);
    }

    fn rotate(&mut self) -> Result<(), Error> {
        let now = self.now_ns();
        let root = self.path.parent().map_or_else(recording::root, Path::to_owned);
        let path = recording::create(&root, now)?;
        let home = RecordingFolder::open(&path)?;
        let uuid = Uuid::random().map_err(Error::io("read", "/dev/urandom"))?;
        let metadata = match self.new_metadata(&path, &uuid) {
            Ok(metadata) => metadata,
            Err(error) => {
                let _ = std::fs::remove_dir_all(&path);
                return Err(error);
            }
        };
        let _ = self.in_each_directory(|recorder| {
            recorder.visit();
            recorder.take_now();
            recorder.leave_lanes();
            Ok::<(), ()>(())
        });
        self.leave_output_lanes();
        for index in 0..self.lanes.len() {
            self.close_lane(index, true);
        }
        for mut capture in std::mem::take(&mut self.captures).into_values() {
            let result = capture.finish(now).map_err(|error| error.to_string());
            self.capture_written(&mut capture, result);
            self.total.packets += capture.packets();
        }
        let context = self.rotate_sources(&path, &uuid);
        self.reserve.remove();
        if let Err(error) = self.describe(Some(now)) {
            self.diagnostic(error.to_string());
        }
        let old = std::mem::replace(&mut self.path, path);
        self.home = home;
        self.begin_with(context);
        (self.uuid, self.metadata, self.reserve) = (uuid, metadata, Reserve::make(&self.home.path()));
        self.move_mailbox(&old);
        self.lanes.clear();
        self.closed.clear();
        let _ = self.in_each_directory(|recorder| {
            if recorder.place.sites.as_ref().is_some_and(|sites| sites.is_second) {
                // The classes of the replaced table are in no file any more.
                recorder.place.classes = Classes::new();
                recorder.place.classes.invalid = true;
            }
            // The new metadata must describe every class again.
            recorder.place.sites = Sites::open(&recorder.place.runtime).ok().flatten();
            if recorder.place.stream > 0 {
                let mut text = String::new();
                crate::output::metadata::place(&mut text, recorder.place.stream);
                let _ = recorder.metadata.append(&text);
            }
            recorder.learn_sites();
            Ok::<(), ()>(())
        });
        let begin_ns = self.start_ns();
        let chunks = &mut self.chunks;
        chunks.done.push_back(Done { bytes: count::size(&old), path: old, begin_ns, end_ns: now });
        (chunks.before, chunks.begun, chunks.context) = (self.total, Instant::now(), 0);
        chunks.number += 1;
        self.chunks.kernel_before = self.kernel_bytes();
        self.begins(now);
        let path = self.path.clone();
        let _ = self.in_each_directory(|recorder| {
            recorder.place.held.moves(&path);
            Ok::<(), ()>(())
        });
        if let Some(told) = &self.chunks.told {
            // The receiver may be gone.
            let _ = told.send(self.path.clone());
        }
        self.describe(None)
    }

    /// Makes the rings' next packets open new lanes in the next chunk.
    fn leave_lanes(&mut self) {
        for source in self.place.subjects.values_mut().flat_map(|subject| &mut subject.sources) {
            source.lane = None;
            source.ring.layout().lane.store(0, Ordering::Relaxed);
            if let Some(successor) = &source.successor {
                successor.layout().lane.store(0, Ordering::Relaxed);
            }
        }
    }
}
