//! The tracer's instance while it records: its begin, its description and its end.
//!
//! `prepare` makes it; the thread of `pages` moves the events to the disk; `pause` and `rotate`
//! serve snapshots and chunks. A buffer that fills up overwrites its oldest page and counts the
//! lost events. The next page contains that count, so the trace shows where the loss was.

mod buffers;
pub(super) mod cpu_loss;
pub(super) mod pages;
pub(super) mod pause;
mod prepare;
mod rotate;

use super::counters::Counters;
use super::exclude_self::{SelfExclusion, CALLS, SINGLE_CALLS};
use super::importance::Step;
use super::masks::{self, Masks};
use super::names::Names;
use super::overload::{narrowed, Buffer, OverloadThread, SwitchedOff, Work};
use super::plan::KernelError;
use super::reap;
use super::single_calls::abridged;
use super::state_reader;
use crate::clock::{Clock, ClockSource};
use crate::output::folder::Folder;
use crate::output::recording::Reserve;
use cpu_loss::{CpuLoss, Drained};
use longpole_ftrace::{CpuStats, Instance};
use pages::{CpuReader, Shared};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Free bytes on the disk from which the symbols are saved at the end. Less free space is left for
/// the conversion of the pages.
const MIN_FREE_BYTES: u64 = 16 << 20;

/// The kernel as a source of events: an instance of its tracer and the thread that empties the
/// instance's buffers into a recording.
#[derive(Debug)]
pub struct KernelSource {
    /// The tracer's instance. `None` after the end of the recording.
    instance: Option<Instance>,
    /// Folder of the pages, open. A path would not do: the owner of a folder above it could put
    /// another folder there.
    raw: Folder,
    cpus: Vec<u32>,
    /// True for a flight recorder: the pages stay in the kernel, the oldest are overwritten, and a
    /// snapshot takes them when asked for.
    overwrites: bool,
    /// The kernel's counters at the begin of this chunk. For a flight recorder, at the newest
    /// snapshot.
    reported_cpus: BTreeMap<u32, CpuStats>,
    /// Readers and page files of the CPUs. Empty after the begin, because the thread owns them
    /// then.
    readers: Vec<CpuReader>,
    thread: Option<JoinHandle<()>>,
    wake: Arc<OwnedFd>,
    shared: Arc<Shared>,
    description: Value,
    /// Space reserved on the disk, so that the description can be completed at the end even on a
    /// full disk.
    reserve: Reserve,
    /// The recording's clock. `None` before the begin.
    clock: Option<ClockSource>,
    /// The kernel's packet counters at the begin.
    counters: Option<Counters>,
    /// True if system calls are recorded by the kernel's events of single calls.
    single_calls: bool,
    /// The instance by which affinity masks will be recorded. `None` after the begin, and if system
    /// calls are not recorded.
    mask_calls: Option<Instance>,
    /// Records affinity masks. `None` if system calls are not recorded.
    masks: Option<Masks>,
    names: Option<Names>,
    /// Steps by which events are given up if there are more than can be stored, in order.
    steps: Vec<Step>,
    /// The thread that switches off kinds of events when buffers overflow. `None` before the begin,
    /// after [`KernelSource::stop_overload_thread`], and if there are no steps.
    overload_thread: Option<OverloadThread>,
    /// For each CPU, the size of its buffer in bytes and the number of bytes that were moved from
    /// it.
    buffers: BTreeMap<u32, (u64, Arc<AtomicU64>)>,
    /// Lock on the pages, by which other processes see that this recorder lives.
    lock: Option<reap::Lock>,
    pub diagnostics: Vec<String>,
}

impl KernelSource {
    /// Saves the kernel's symbols. A kernel that hides its addresses has no address in its events
    /// to be looked up, so nothing is saved then.
    fn symbols(&self, recording: &Path) {
        if let Err(error) = state_reader::symbols(recording) {
            self.shared.trouble(format!("the kernel's symbols could not be saved: {error}"));
        }
    }

    /// Returns what the recording's own description contains about the kernel: the requested
    /// events, those that were given up, and the bytes recorded until now.
    pub fn description(&self, clock: &Clock) -> Value {
        let said = |key: &str| self.description[key].clone();
        let off = |off: &SwitchedOff| json!({ "what": off.step.what, "since_ns": clock.unix_ns(off.begin), "events": off.step.events, "calls": off.step.calls });
        json!({
            "groups": said("groups"),
            "names": abridged(said("events").as_array().into_iter().flatten().filter_map(Value::as_str)),
            "filters": said("filters"),
            "left_out": said("left_out"),
            "switched_off": self.switched_off().iter().map(off).collect::<Vec<_>>(),
            "page_fault_ns": said("page_fault_ns"),
            "foreign_pids": said("foreign_pids"),
            "recorded_bytes": self.bytes(),
        })
    }

    /// Starts recording. When this function returns, all events are recorded, and the state from
    /// before is saved.
    pub fn begin(&mut self, clock: ClockSource) -> Result<(), KernelError> {
        let Some(instance) = &self.instance else { return Ok(()) };
        let exclusion = self.exclude_self(instance);
        // Time before the tracer starts. Pages outlive chunks and snapshots, and none of their
        // events is earlier than this.
        self.description["begin"] = json!(clock.now());
        instance.start()?;
        self.clock = Some(clock);
        let readers = std::mem::take(&mut self.readers);
        let (wake, shared) = (Arc::clone(&self.wake), Arc::clone(&self.shared));
        let joins = exclusion.clone();
        let overwrites = self.overwrites;
        let work = move || {
            joins.join();
            pages::move_all(readers, &wake, &shared, overwrites);
        };
        let thread = std::thread::Builder::new().name("longpole-kernel".to_owned()).spawn(work);
        self.thread = Some(thread.map_err(KernelError::io("start", "a thread"))?);
        if let Some(calls) = self.mask_calls.take() {
            match Masks::begin(calls, instance, clock) {
                Ok(masks) => self.masks = Some(masks),
                Err(error) => self.diagnostics.push(format!("{}: {error}", masks::MISSING)),
            }
        }
        // Dump the state after the tracer was started: a thread that begins meanwhile is then in
        // the dump, in the events, or in both.
        let begin = clock.now();
        let dumped = self.raw.create("state.jsonl").and_then(|file| state_reader::write(file, super::has_foreign_pids(), &|| clock.now()));
        dumped.map_err(KernelError::io("write", self.raw.join("state.jsonl")))?;
        self.description["state_dump"] = json!({ "begin": begin, "end": clock.now() });
        if !super::has_foreign_pids() {
            let begun = self.raw.create("names.jsonl").and_then(Names::begin);
            match begun {
                Ok(names) => self.names = Some(names),
                Err(error) => self.diagnostics.push(format!("titles and scripts of processes are not recorded: {error}")),
            }
        }
        self.counters = Some(Counters::read(&|| clock.now()));
        exclusion.end().map_err(KernelError::io("set the filters of", instance.path()))?;
        // The overload thread changes filters itself, so it begins only when the user's filters are
        // restored.
        if !self.steps.is_empty() {
            match self.start_overload_thread(instance, clock) {
                Ok(thread) => self.overload_thread = Some(thread),
                Err(error) => self.diagnostics.push(format!("it is not checked whether the kernel's events can be stored: {error}")),
            }
        }
        self.describe()
    }

    fn start_overload_thread(&self, instance: &Instance, clock: ClockSource) -> io::Result<OverloadThread> {
        let buffer = |(cpu, (size, taken)): (&u32, &(u64, Arc<AtomicU64>))| {
            let stats = File::open(instance.path().join(format!("per_cpu/cpu{cpu}/stats")))?;
            Ok(Buffer { stats, size: *size, taken: Arc::clone(taken) })
        };
        OverloadThread::begin(Work {
            buffers: self.buffers.iter().map(buffer).collect::<io::Result<_>>()?,
            steps: self.steps.iter().cloned().collect(),
            instance: instance.path().to_owned(),
            filters: self.description["filters"].clone(),
            clock,
            shared: Arc::clone(&self.shared),
        })
    }

    /// Returns the events that were given up until now because there were more than could be
    /// stored.
    pub fn switched_off(&self) -> Vec<SwitchedOff> {
        self.shared.switched_off()
    }

    /// Ends the thread that switches off kinds of events.
    pub fn stop_overload_thread(&mut self) {
        self.overload_thread = None;
    }

    /// Adds the events that were given up since the last call to the description, so that they are
    /// known even if this recorder is killed. Returns true if there were any.
    pub fn note_switched_off(&mut self) -> bool {
        let known = self.description["switched_off"].as_array().map_or(0, Vec::len);
        let all = self.switched_off();
        if all.len() <= known {
            return false;
        }
        self.description["switched_off"] = all.iter().map(SwitchedOff::to_json).collect();
        if let Err(error) = self.describe() {
            self.shared.trouble(error.to_string());
        }
        true
    }

    /// True if this event is recorded.
    fn records_event(&self, event: &str) -> bool {
        self.description["events"].as_array().is_some_and(|names| names.iter().any(|known| known == event))
    }

    /// Excludes this thread's system calls, and those of the threads that join, from the trace.
    fn exclude_self(&self, instance: &Instance) -> SelfExclusion {
        let off = self.switched_off();
        let asked = |name: &'static str| {
            let asked = self.description["filters"][name].as_str();
            let since = off.iter().filter(|off| off.step.events.iter().any(|event| event == name)).find_map(|off| off.step.filter.as_ref());
            (name, since.map(|filter| narrowed(asked, filter)).or_else(|| asked.map(str::to_owned)))
        };
        let mut events: Vec<_> = CALLS.into_iter().filter(|name| self.records_event(name)).map(asked).collect();
        if self.single_calls {
            events.push((SINGLE_CALLS, None));
        }
        SelfExclusion::begin(instance, events)
    }

    /// Begins to move all events that were recorded until now, also those in pages that are not
    /// full. Returns the number of this flush. The events of a flight recorder stay in the kernel.
    pub fn flush(&self) -> u64 {
        if self.overwrites {
            return 0;
        }
        self.shared.begin_flush(&self.wake)
    }

    /// Number of the last flush that is complete.
    pub fn flushed(&self) -> u64 {
        self.shared.flushed()
    }

    /// Bytes of pages that were moved until now.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes()
    }

    /// Ends the recording. Afterwards all pages that the disk accepted are on it, their description
    /// is complete, and the instance is removed.
    pub fn stop(mut self) -> Drained {
        self.end()
    }

    fn end(&mut self) -> Drained {
        let mut drained = Drained { diagnostics: std::mem::take(&mut self.diagnostics), ..Drained::default() };
        let Some(instance) = self.instance.take() else { return drained };
        self.stop_overload_thread();
        self.note_switched_off();
        if let Some(clock) = self.clock {
            // In force until the instance is removed.
            let _exclusion = self.exclude_self(&instance);
            if let Some(masks) = &mut self.masks {
                drained.diagnostics.extend(masks.end(&instance, clock));
            }
            drained.grown = self.counters.take().map(|begin| begin.grown(&Counters::read(&|| clock.now())));
        }
        if let Err(error) = instance.stop() {
            drained.diagnostics.push(error.to_string());
        }
        self.description["end"] = json!(self.clock.map(|clock| clock.now()));
        self.masks = None;
        self.names = None;
        self.shared.stop(&self.wake);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            drained.diagnostics.push("the thread that moves the kernel's pages ended early".to_owned());
        }
        self.readers.clear();
        for &cpu in &self.cpus {
            match instance.stats(cpu) {
                Ok(stats) => {
                    let stats = pause::since(stats, self.before(cpu));
                    drained.cpus.push(CpuLoss { cpu, stats });
                }
                Err(error) => drained.diagnostics.push(error.to_string()),
            }
        }
        let name = instance.name();
        match instance.remove() {
            Ok(()) => reap::forget(&name),
            Err(error) => drained.diagnostics.push(format!("cannot remove the tracer's instance: {error}")),
        }
        if let Some(recording) = self.raw.path().parent().and_then(Path::parent) {
            if !recording.join("symbols/kallsyms").exists() && room(self.raw.path()).is_none_or(|room| room >= MIN_FREE_BYTES) {
                self.symbols(recording);
            }
        }
        drained.diagnostics.extend(self.shared.take_troubles());
        drained.bytes = self.bytes();
        self.description["cpus"] = drained.cpus_json();
        self.reserve.remove();
        if let Err(error) = self.describe() {
            drained.diagnostics.push(error.to_string());
        }
        self.lock = None;
        drained
    }

    /// Reserves space in another recording instead of the current one.
    fn reserve_in(&mut self, recording: &Path) {
        self.reserve.remove();
        self.reserve = Reserve::make(&recording.join(super::RAW));
    }

    /// Writes the description next to the pages.
    fn describe(&self) -> Result<(), KernelError> {
        describe(&self.raw, &self.description).map_err(KernelError::io("write", self.raw.join(super::DESCRIPTION)))
    }
}

impl Drop for KernelSource {
    fn drop(&mut self) {
        self.end();
    }
}

/// Replaces the description atomically.
pub(super) fn describe(raw: &Folder, description: &Value) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(description)?;
    text.push(b'\n');
    raw.replace(super::DESCRIPTION, &text)
}

/// Returns the bytes that are free on the disk.
fn room(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests;
