//! The tracer stands still for an instant, so that its buffers can be taken as of one moment.
//!
//! Recording to the disk, what the buffers hold goes where the rest went; overwriting, nobody has taken anything, and the pages go to a snapshot. In
//! both cases the buffers are emptied: what this kernel offers to read without emptying them is text. So of two snapshots of a flight
//! recorder the second begins where the first one ended. While the tracer stands still, nothing of the kernel is recorded; how long is told.

use super::source::{CpuLanes, CpuLoss, Shared, Source};
use crate::output::folder::Folder;
use longpole_ftrace::{CpuStats, RawReader};
use rustix::fd::OwnedFd;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{channel, Sender};
use std::time::{Duration, Instant};

/// The pages of one buffer take some ten milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where all that is in the buffers goes, unfinished pages included.
#[derive(Debug)]
pub(super) enum What {
    /// To the recording.
    Out,
    /// To these.
    Into(BTreeMap<u32, File>),
    /// The finished pages to the recording, and all that follows to these.
    Shift(CpuLanes),
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub bytes: u64,
    /// Of a shift: what the kernel had counted then.
    pub cpus: Vec<CpuLoss>,
}

/// What the thread that moves pages is asked for.
#[derive(Debug)]
pub(super) struct Order {
    what: What,
    done: Sender<io::Result<Moved>>,
}

impl Order {
    pub fn what(&mut self) -> &mut What {
        &mut self.what
    }

    pub fn answer(self, moved: io::Result<Moved>) {
        let _ = self.done.send(moved);
    }
}

/// All that is in a buffer, the unfinished page included.
pub(super) fn empty(reader: &mut RawReader, file: &File) -> io::Result<usize> {
    reader.drain_to(file.as_fd())
}

/// A tracer that stands still.
#[derive(Debug)]
pub struct Frozen {
    since: Instant,
}

impl Source {
    pub fn freeze(&mut self) -> Option<Frozen> {
        let since = Instant::now();
        self.instance.as_ref()?.stop().ok()?;
        Some(Frozen { since })
    }

    /// Events that were lost so far; overwriting, none is.
    pub fn lost(&self) -> Option<u64> {
        let instance = self.instance.as_ref().filter(|_| !self.overwrites)?;
        Some(self.cpus.iter().filter_map(|&cpu| instance.stats(cpu).ok()).map(|stats| stats.lost()).sum())
    }

    /// Empties the buffers, into the recording or, overwriting, into `snapshot`, and lets the tracer go on. Returns what a snapshot has to know.
    pub fn thaw(&mut self, frozen: Frozen, snapshot: &Path) -> Result<Value, String> {
        let end = self.clock.map(|clock| clock.now());
        let moved = self.emptied(snapshot);
        let mut cpus = Vec::new();
        if let Some(instance) = &self.instance {
            for &cpu in &self.cpus {
                let Ok(stats) = instance.stats(cpu) else { continue };
                let told = self.told_cpus.entry(cpu).or_default();
                // A snapshot's own: what was lost and read before belongs to those before.
                let before = if self.overwrites { std::mem::replace(told, stats) } else { *told };
                cpus.push(CpuLoss { cpu, stats: since(stats, before) }.to_json());
            }
            instance.start().map_err(|error| format!("the kernel's tracer could not go on: {error}"))?;
        }
        let gap = frozen.since.elapsed();
        if self.overwrites {
            self.note_before();
        }
        let moved = moved.map_err(|error| format!("the kernel's pages could not be taken: {error}"))?;
        let mut lengths = serde_json::Map::new();
        for &cpu in self.cpus.iter().filter(|_| !self.overwrites) {
            let name = format!("cpu{cpu}");
            let length = self.raw.read(&name).and_then(|file| file.metadata()).map_or(0, |found| found.len());
            lengths.insert(name, length.into());
        }
        Ok(json!({
            "overwrite": self.overwrites,
            "gap_ns": gap.as_nanos() as u64,
            "end": end,
            "bytes": if self.overwrites { moved.bytes } else { self.bytes() },
            "cpus": cpus,
            "pages": lengths,
        }))
    }

    fn emptied(&mut self, snapshot: &Path) -> io::Result<Moved> {
        let what = match self.overwrites {
            false => What::Out,
            true => {
                let raw = snapshot.join(super::RAW);
                std::fs::create_dir_all(&raw)?;
                let raw = Folder::open(&raw)?;
                What::Into(self.cpus.iter().map(|cpu| Ok((*cpu, raw.create(&format!("cpu{cpu}"))?))).collect::<io::Result<_>>()?)
            }
        };
        self.ordered(what)
    }

    /// What the kernel has counted and is told elsewhere: by the chunks before, or what a snapshot took of a flight recorder's pages.
    pub(super) fn before(&self, cpu: u32) -> CpuStats {
        let told = self.told_cpus.get(&cpu).copied().unwrap_or_default();
        match self.overwrites {
            true => CpuStats { read: told.read, ..CpuStats::default() },
            false => told,
        }
    }

    /// Writes it down for whoever saves the pages if this recorder is killed.
    pub(super) fn note_before(&mut self) {
        self.description["before"] = self.cpus.iter().map(|&cpu| CpuLoss { cpu, stats: self.before(cpu) }.to_json()).collect();
        if let Err(error) = self.describe() {
            self.shared.trouble(error.to_string());
        }
    }

    /// Pages go to other files from here on.
    pub(super) fn shift(&self, files: CpuLanes) -> io::Result<Moved> {
        self.ordered(What::Shift(files))
    }

    fn ordered(&self, what: What) -> io::Result<Moved> {
        let (done, answer) = channel();
        self.shared.order(Order { what, done }, &self.wake);
        answer.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// What was counted between two moments.
pub(super) fn since(stats: CpuStats, before: CpuStats) -> CpuStats {
    CpuStats {
        overrun: stats.overrun.saturating_sub(before.overrun),
        commit_overrun: stats.commit_overrun.saturating_sub(before.commit_overrun),
        dropped: stats.dropped.saturating_sub(before.dropped),
        read: stats.read.saturating_sub(before.read),
        ..stats
    }
}

/// What the kernel counts of the CPU that `reader` reads.
pub(super) fn counted(reader: &RawReader) -> Option<CpuStats> {
    let text = std::fs::read_to_string(reader.path().with_file_name("stats")).ok()?;
    CpuStats::parse(&text).ok()
}

impl Shared {
    fn order(&self, order: Order, wake: &OwnedFd) {
        *self.order.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(order);
        let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
    }

    pub(super) fn ordered(&self) -> Option<Order> {
        self.order.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}
