//! Pauses the tracer for a moment, so that all of its buffers can be emptied as of one point in
//! time.
//!
//! When recording to the disk, the content of the buffers goes to the recording like all pages
//! before. In a flight recorder nothing was read before, and the pages go to a snapshot. The
//! buffers are emptied in both cases, because the kernel's only way to read pages without consuming
//! them yields text. So the second of two snapshots of a flight recorder begins where the first one
//! ended. During the pause no event of the kernel is recorded; the length of the pause is reported.

use super::cpu_loss::CpuLoss;
use super::pages::PageFiles;
use super::KernelSource;
use crate::output::folder::Folder;
use longpole_ftrace::{CpuStats, Instance, RawReader};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{channel, Sender};
use std::time::{Duration, Instant};

/// Time limit for emptying all buffers. The pages of one buffer take some ten milliseconds.
const EMPTYING_TIMEOUT: Duration = Duration::from_secs(30);

/// Destination of the content of the buffers, including unfinished pages.
#[derive(Debug)]
pub(super) enum PageDestination {
    /// To the recording.
    Out,
    /// To these files, by CPU.
    Into(BTreeMap<u32, File>),
    /// What is there now to the recording, and everything that follows to these files.
    Shift(PageFiles),
}

/// Result of an order.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub bytes: u64,
    /// For a shift, the kernel's counters at that time.
    pub cpus: Vec<CpuLoss>,
}

/// An order to the thread that moves pages.
#[derive(Debug)]
pub(super) struct Order {
    what: PageDestination,
    done: Sender<io::Result<Moved>>,
}

impl Order {
    pub fn what(&mut self) -> &mut PageDestination {
        &mut self.what
    }

    /// Sends the result to the thread that gave the order.
    pub fn answer(self, moved: io::Result<Moved>) {
        let _ = self.done.send(moved);
    }
}

/// Moves the whole content of a buffer, including the unfinished page. Returns the bytes.
pub(super) fn empty(reader: &mut RawReader, file: &File) -> io::Result<usize> {
    reader.drain_to(file.as_fd())
}

/// A pause of the tracer. [`KernelSource::resume_after_snapshot`] or [`KernelSource::resume`] ends
/// it.
#[must_use = "the tracer records nothing until `resume_after_snapshot` or `resume` ends the pause"]
#[derive(Debug)]
pub struct Pause {
    since: Instant,
}

fn restart(instance: &Instance) -> Result<(), String> {
    instance.start().map_err(|error| format!("the kernel's tracer could not be started again: {error}"))
}

impl KernelSource {
    /// Pauses the tracer. `None` if there is no tracer or it cannot be paused.
    pub fn pause(&mut self) -> Option<Pause> {
        let since = Instant::now();
        self.instance.as_ref()?.stop().ok()?;
        Some(Pause { since })
    }

    /// Lets the tracer continue, and leaves its buffers as they are.
    pub fn resume(&self, _pause: Pause) -> Result<(), String> {
        self.instance.as_ref().map_or(Ok(()), restart)
    }

    /// Number of events that were lost until now. `None` for a flight recorder, which overwrites on
    /// purpose.
    pub fn lost(&self) -> Option<u64> {
        let instance = self.instance.as_ref().filter(|_| !self.overwrites)?;
        Some(self.cpus.iter().filter_map(|&cpu| instance.stats(cpu).ok()).map(|stats| stats.lost()).sum())
    }

    /// Empties the buffers and lets the tracer continue. The pages go to the recording, or to
    /// `snapshot` if this is a flight recorder. Returns what the description of a snapshot needs:
    /// the length of the pause, the end of the recorded time, and the counters and pages of each
    /// CPU.
    pub fn resume_after_snapshot(&mut self, pause: Pause, snapshot: &Path) -> Result<Value, String> {
        let end = self.clock.map(|clock| clock.now());
        let moved = self.empty_buffers(snapshot);
        let mut cpus = Vec::new();
        if let Some(instance) = &self.instance {
            for &cpu in &self.cpus {
                let Ok(stats) = instance.stats(cpu) else { continue };
                let reported = self.reported_cpus.entry(cpu).or_default();
                // A snapshot reports only its own losses; the earlier ones belong to the snapshots
                // before.
                let before = if self.overwrites { std::mem::replace(reported, stats) } else { *reported };
                cpus.push(CpuLoss { cpu, stats: since(stats, before) }.to_json());
            }
            restart(instance)?;
        }
        let gap = pause.since.elapsed();
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

    fn empty_buffers(&mut self, snapshot: &Path) -> io::Result<Moved> {
        let what = match self.overwrites {
            false => PageDestination::Out,
            true => {
                let raw = snapshot.join(crate::kernel::RAW);
                std::fs::create_dir_all(&raw)?;
                let raw = Folder::open(&raw)?;
                PageDestination::Into(self.cpus.iter().map(|cpu| Ok((*cpu, raw.create(&format!("cpu{cpu}"))?))).collect::<io::Result<_>>()?)
            }
        };
        self.carry_out(what)
    }

    /// Kernel counters that are reported elsewhere: by earlier chunks, or, for a flight recorder,
    /// the events that a snapshot took.
    pub(super) fn before(&self, cpu: u32) -> CpuStats {
        let reported = self.reported_cpus.get(&cpu).copied().unwrap_or_default();
        match self.overwrites {
            true => CpuStats { read: reported.read, ..CpuStats::default() },
            false => reported,
        }
    }

    /// Writes these counters into the description, for a process that saves the pages if this
    /// recorder is killed.
    pub(super) fn note_before(&mut self) {
        self.description["before"] = self.cpus.iter().map(|&cpu| CpuLoss { cpu, stats: self.before(cpu) }.to_json()).collect();
        if let Err(error) = self.describe() {
            self.shared.trouble(error.to_string());
        }
    }

    /// Moves all later pages to other files.
    pub(super) fn shift(&self, files: PageFiles) -> io::Result<Moved> {
        self.carry_out(PageDestination::Shift(files))
    }

    /// Gives an order to the thread and waits for its result, at most for [`EMPTYING_TIMEOUT`].
    fn carry_out(&self, what: PageDestination) -> io::Result<Moved> {
        let (done, answer) = channel();
        self.shared.order(Order { what, done }, &self.wake);
        answer.recv_timeout(EMPTYING_TIMEOUT).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Returns the difference of the counters between two moments.
pub(in crate::kernel) fn since(stats: CpuStats, before: CpuStats) -> CpuStats {
    CpuStats {
        overrun: stats.overrun.saturating_sub(before.overrun),
        commit_overrun: stats.commit_overrun.saturating_sub(before.commit_overrun),
        dropped: stats.dropped.saturating_sub(before.dropped),
        read: stats.read.saturating_sub(before.read),
        ..stats
    }
}

/// Returns the kernel's counters of the CPU that `reader` reads.
pub(super) fn counted(reader: &RawReader) -> Option<CpuStats> {
    let text = std::fs::read_to_string(reader.path().with_file_name("stats")).ok()?;
    CpuStats::parse(&text).ok()
}
