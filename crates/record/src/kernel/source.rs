//! The tracer's instance while it records. One thread moves whole pages of events of every CPU to
//! the disk.
//!
//! The kernel wakes the thread when a quarter of a buffer is full; otherwise the thread looks ten
//! times a second. Pages are moved by splice(2), so recording costs the host one copy into the page
//! cache and no work per event. A buffer that fills up overwrites its oldest page and counts the
//! lost events. The next page contains that count, so the trace shows where the loss was.

use super::counters::{Counters, Grown};
use super::dump;
use super::exclude_self::{SelfExclusion, CALLS};
use super::faults;
use super::groups::EventRequest;
use super::importance::{self, Step};
use super::masks::{self, Masks};
use super::names::Names;
use super::overload::{narrowed, Buffer, Relief, SwitchedOff, Work};
use super::pause::{self, Moved, Order, What};
use super::plan::{KernelError, Plan, Request};
use super::reap;
use crate::clock::{Clock, Source as ClockSource};
use crate::output::folder::Folder;
use crate::output::recording::Reserve;
use longpole_ftrace::{CpuStats, EventName, Instance, RawReader};
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Size of each CPU's buffer in bytes, unless the user chose one.
const BUFFER: u64 = 20 << 20;
/// Divisor of the free memory: all buffers together take at most a quarter of it.
const SHARE: u64 = 4;
/// Smallest size of each CPU's buffer in bytes.
const SMALLEST_BUFFER: u64 = 1 << 20;
/// Longest time that a finished page waits in the kernel.
const PERIOD: Duration = Duration::from_millis(100);
/// Fill at which the kernel wakes the thread, in percent of the buffer.
const WAKE_AT: &str = "25";
/// The event for page faults of programs.
const USER_FAULT: &str = "exceptions:page_fault_user";
/// Bytes moved by one splice: what the reader's pipe holds. After each of them, the thread updates
/// its byte counters.
const CHUNK: usize = 1 << 20;
/// Pause after a wake-up that brought no page (for example because a CPU went offline), so that the
/// thread does not spin.
const PAUSE: Duration = Duration::from_millis(10);

/// Free bytes on the disk from which the kernel's symbols (some 5 MiB) are saved at the start.
const SYMBOLS_FIRST_ROOM: u64 = 128 << 20;
/// Free bytes on the disk from which the symbols are saved at the end. Less free space is left for
/// the conversion of the pages.
const ENOUGH: u64 = 16 << 20;

/// The kernel's counters of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuLoss {
    pub cpu: u32,
    pub stats: CpuStats,
}

impl CpuLoss {
    /// Returns the counters in the form of `source.json`.
    pub(super) fn to_json(self) -> Value {
        let CpuStats { entries, overrun, commit_overrun, dropped, read, .. } = self.stats;
        json!({ "cpu": self.cpu, "entries": entries, "overrun": overrun, "commit_overrun": commit_overrun, "dropped": dropped, "read": read })
    }

    /// Reads what [`CpuLoss::to_json`] wrote. A counter that is missing there is 0.
    pub(super) fn from_json(told: &Value) -> Option<CpuLoss> {
        let count = |key: &str| told[key].as_u64().unwrap_or(0);
        let stats = CpuStats {
            entries: count("entries"),
            overrun: count("overrun"),
            commit_overrun: count("commit_overrun"),
            dropped: count("dropped"),
            bytes: 0,
            read: count("read"),
        };
        Some(CpuLoss { cpu: u32::try_from(told["cpu"].as_u64()?).ok()?, stats })
    }
}

/// Result of a finished recording of the kernel.
#[derive(Debug, Default)]
pub struct Drained {
    pub cpus: Vec<CpuLoss>,
    /// Bytes of pages that were moved.
    pub bytes: u64,
    /// Growth of the kernel's own packet counters during the recording.
    pub grown: Option<Grown>,
    pub diagnostics: Vec<String>,
}

impl Drained {
    /// Number of events in the pages.
    pub fn events(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.stats.read).sum()
    }

    /// Number of events that are in no page.
    pub fn lost(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.stats.lost().saturating_add(cpu.stats.entries)).sum()
    }

    /// Returns the counters of all CPUs in the form of `source.json`.
    pub fn cpus_json(&self) -> Value {
        self.cpus.iter().map(|cpu| cpu.to_json()).collect()
    }
}

/// Page files by CPU, with their paths.
pub(super) type CpuLanes = BTreeMap<u32, (File, PathBuf)>;

/// Data shared with the thread that moves the pages and the thread that gives events up.
#[derive(Debug, Default)]
pub(super) struct Shared {
    stop: AtomicBool,
    pub(super) order: Mutex<Option<Order>>,
    bytes: AtomicU64,
    troubles: Mutex<BTreeMap<String, u64>>,
    /// Steps by which events were given up, in order of time.
    pub(super) switched_off: Mutex<Vec<SwitchedOff>>,
}

impl Shared {
    /// Notes a problem, to be reported once with its count at the end.
    pub(super) fn trouble(&self, text: String) {
        *self.troubles.lock().unwrap_or_else(PoisonError::into_inner).entry(text).or_insert(0) += 1;
    }
}

/// Reader and page file of one CPU.
#[derive(Debug)]
struct Lane {
    reader: RawReader,
    file: File,
    path: PathBuf,
    /// Size of the buffer in bytes. At most this much is moved before the next CPU is served.
    most: usize,
    /// Bytes that were moved.
    taken: Arc<AtomicU64>,
}

/// The kernel as a source of events: an instance of its tracer and the thread that empties the
/// instance's buffers into a recording.
#[derive(Debug)]
pub struct Source {
    /// The tracer's instance. `None` after the end of the recording.
    pub(super) instance: Option<Instance>,
    /// Folder of the pages, open. A path would not do: the owner of a folder above it could put
    /// another folder there.
    pub(super) raw: Folder,
    pub(super) cpus: Vec<u32>,
    /// True for a flight recorder: the pages stay in the kernel, the oldest are overwritten, and a
    /// snapshot takes them when asked for.
    pub(super) overwrites: bool,
    /// The kernel's counters at the begin of this chunk. For a flight recorder, at the newest
    /// snapshot.
    pub(super) reported_cpus: BTreeMap<u32, CpuStats>,
    /// Readers and page files of the CPUs. Empty after the begin, because the thread owns them
    /// then.
    lanes: Vec<Lane>,
    thread: Option<JoinHandle<()>>,
    pub(super) wake: Arc<OwnedFd>,
    pub(super) shared: Arc<Shared>,
    pub(super) description: Value,
    /// Space reserved on the disk, so that the description can be completed at the end even on a
    /// full disk.
    reserve: Reserve,
    /// The recording's clock. `None` before the begin.
    pub(super) clock: Option<ClockSource>,
    /// The kernel's packet counters at the begin.
    counters: Option<Counters>,
    /// Records affinity masks. `None` if system calls are not recorded.
    masks: Option<Masks>,
    names: Option<Names>,
    /// Steps by which events are given up if there are more than can be stored, in order.
    steps: Vec<Step>,
    /// The thread that gives events up. `None` before the begin, after [`Source::calm`], and if
    /// there are no steps.
    relief: Option<Relief>,
    /// For each CPU, the size of its buffer in bytes and the number of bytes that were moved from
    /// it.
    buffers: BTreeMap<u32, (u64, Arc<AtomicU64>)>,
    /// Lock on the pages, by which other processes see that this recorder lives.
    pub(super) lock: Option<reap::Lock>,
    pub diagnostics: Vec<String>,
}

impl Source {
    /// Makes the instance and saves the formats that explain its pages. Recording does not begin
    /// yet.
    pub fn prepare(plan: Plan, recording: &Path) -> Result<Source, KernelError> {
        let Plan { tracefs, request, wanted, missing, clock } = plan;
        let raw = recording.join(super::RAW);
        fs::create_dir_all(&raw).map_err(KernelError::io("make", &raw))?;
        let raw = reap::own_raw(recording).map_err(KernelError::io("open", &raw))?;
        let lock = reap::lock(recording);
        let instance = Instance::create(&tracefs, super::PREFIX)?;
        // From here on, a process that finds the instance also finds its recording.
        reap::announce(&instance.name(), recording);
        let mut diagnostics = Vec::new();
        instance.set_clock(&[clock.0])?;
        // Keep the newest events: in this mode only, the pages contain where events are missing.
        // Names of threads come with the events, so the kernel need not record them separately.
        instance.set_option("overwrite", true)?;
        let _ = instance.set_option("record-cmd", false);
        let _ = instance.set("buffer_percent", WAKE_AT);
        let cpus = present(instance.cpus()?);
        let (size, note) = size_buffers(&instance, &request, cpus.len() as u64)?;
        diagnostics.extend(note);
        // Measured before the tracer makes page faults slower.
        let faults = wanted.iter().any(|wanted| wanted.event.to_string() == USER_FAULT);
        let page_fault_ns = faults.then(faults::least_ns).flatten();
        let mut enabled = Vec::new();
        let mut may_go = Vec::new();
        let mut filters = serde_json::Map::new();
        let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let events = raw.make("events").map_err(KernelError::io("make", raw.join("events")))?;
        for wanted in &wanted {
            let name = wanted.event.to_string();
            let done = instance.enable(&wanted.event, wanted.filter.as_deref());
            match (done, &wanted.asked) {
                (Ok(()), _) => {}
                (Err(source), Some(request)) if !request.is_pattern() => {
                    return Err(KernelError::Event { request: request.to_string(), source });
                }
                // A pattern means all matching events that can be recorded with this filter, so one
                // refusal is no error.
                (Err(error), _) => {
                    let text = error.to_string();
                    refused.entry(text.lines().last().unwrap_or("").to_owned()).or_default().push(name);
                    continue;
                }
            }
            let text = tracefs.format_text(&wanted.event)?;
            let (system, event) = (&wanted.event.system, &wanted.event.name);
            let place = if events.holds(system) { events.folder(system) } else { events.make(system) };
            let written = place.and_then(|place| place.create(event)?.write_all(text.as_bytes()));
            written.map_err(KernelError::io("write", events.join(system).join(event)))?;
            if let Some(filter) = &wanted.filter {
                filters.insert(name.clone(), json!(filter));
            }
            // An event that the user requested by its full name is never given up.
            if wanted.asked.as_ref().is_none_or(EventRequest::is_pattern) {
                may_go.push(name.clone());
            }
            enabled.push(name);
        }
        if !missing.is_empty() {
            diagnostics.push(format!("this kernel has no event {}", missing.join(", ")));
        }
        for (why, names) in refused {
            diagnostics.push(format!("the kernel does not let these events be recorded: {} ({why})", names.join(", ")));
        }
        for name in ["header_page", "header_event"] {
            let path = format!("events/{name}");
            // Older kernels have this file only for all instances together.
            let text = instance.get(&path).or_else(|_| tracefs.read(&path))?;
            raw.create(name).and_then(|mut file| file.write_all(text.as_bytes())).map_err(KernelError::io("write", raw.join(name)))?;
        }
        let (system, event) = masks::MARKER;
        if let Ok(text) = tracefs.format_text(&EventName::new(system, event)) {
            if !events.holds(system) {
                let written = events.make(system).and_then(|place| place.create(event)?.write_all(text.as_bytes()));
                written.map_err(KernelError::io("write", events.join(system).join(event)))?;
            }
        }
        let (mut lanes, mut buffers) = (Vec::new(), BTreeMap::new());
        for &cpu in &cpus {
            let name = format!("cpu{cpu}");
            let path = raw.join(&name);
            let file = raw.create(&name).map_err(KernelError::io("make", &path))?;
            let taken = Arc::<AtomicU64>::default();
            buffers.insert(cpu, (size, Arc::clone(&taken)));
            let most = usize::try_from(size).unwrap_or(usize::MAX);
            lanes.push(Lane { reader: instance.reader(cpu)?, file, path, most, taken });
        }
        let page_size = instance.layout()?.page_size();
        let groups: Vec<&'static str> = request.groups.iter().map(|group| group.name()).collect();
        let context: Vec<&str> = request.context.iter().map(|context| context.name()).collect();
        let description = json!({
            "version": 1,
            "arch": std::env::consts::ARCH,
            "clock": clock.0,
            "page_size": page_size,
            "groups": groups,
            "left_out": if request.light { super::light::left_out(&request.groups) } else { Value::Null },
            "page_fault_ns": page_fault_ns,
            "events": enabled,
            "filters": filters,
            "switched_off": [],
            "context": context,
            "missing": missing,
            "instance": instance.name(),
            "foreign_pids": super::has_foreign_pids(),
            "begin": null,
            "before": null,
            "state_dump": null,
            "end": null,
            "cpus": null,
        });
        let wake =
            eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(|error| KernelError::io("make", "eventfd")(error.into()))?;
        let reserve = Reserve::make(raw.path());
        let source = Source {
            instance: Some(instance),
            raw,
            cpus,
            overwrites: request.overwrite,
            reported_cpus: BTreeMap::new(),
            lanes,
            thread: None,
            wake: Arc::new(wake),
            shared: Arc::default(),
            description,
            reserve,
            clock: None,
            counters: None,
            masks: None,
            names: None,
            steps: if request.keep_all || request.overwrite { Vec::new() } else { importance::steps(may_go.iter().map(String::as_str)) },
            relief: None,
            buffers,
            lock,
            diagnostics,
        };
        source.describe()?;
        // The symbols come last on a disk that is nearly full, if at all: otherwise they would take
        // the space of the events.
        if room(source.raw.path()).is_none_or(|room| room >= SYMBOLS_FIRST_ROOM) {
            source.symbols(recording);
        }
        Ok(source)
    }

    /// Saves the kernel's symbols. A kernel that hides its addresses has no address in its events
    /// to be looked up, so nothing is saved then.
    fn symbols(&self, recording: &Path) {
        if let Err(error) = dump::symbols(recording) {
            self.shared.trouble(format!("the kernel's symbols could not be saved: {error}"));
        }
    }

    /// Returns what the recording's own description contains about the kernel: the requested
    /// events, those that were given up, and the bytes recorded until now.
    pub fn told(&self, clock: &Clock) -> Value {
        let said = |key: &str| self.description[key].clone();
        let off = |off: &SwitchedOff| json!({ "what": off.step.what, "since_ns": clock.unix_ns(off.begin), "events": off.step.events, "calls": off.step.calls });
        json!({
            "groups": said("groups"),
            "names": said("events"),
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
        let quiet = self.quiet(instance);
        // Time before the tracer starts. Pages outlive chunks and snapshots, and none of their
        // events is earlier than this.
        self.description["begin"] = json!(clock.now());
        instance.start()?;
        self.clock = Some(clock);
        let lanes = std::mem::take(&mut self.lanes);
        let (wake, shared) = (Arc::clone(&self.wake), Arc::clone(&self.shared));
        let joins = quiet.clone();
        let overwrites = self.overwrites;
        let work = move || {
            joins.join();
            drain(lanes, &wake, &shared, overwrites);
        };
        let thread = std::thread::Builder::new().name("longpole-kernel".to_owned()).spawn(work);
        self.thread = Some(thread.map_err(KernelError::io("start", "a thread"))?);
        if self.records_event(CALLS[1]) && !super::has_foreign_pids() {
            let begun = super::available().map_err(KernelError::from).and_then(|tracefs| Masks::begin(&tracefs, instance, clock));
            match begun {
                Ok(masks) => self.masks = Some(masks),
                Err(error) => self.diagnostics.push(format!("where threads may run is not known after it is changed: {error}")),
            }
        }
        // Dump the state after the tracer was started: a thread that begins meanwhile is then in
        // the dump, in the events, or in both.
        let begin = clock.now();
        let dumped = self.raw.create("state.jsonl").and_then(|file| dump::write(file, super::has_foreign_pids(), &|| clock.now()));
        dumped.map_err(KernelError::io("write", self.raw.join("state.jsonl")))?;
        self.description["state_dump"] = json!({ "begin": begin, "end": clock.now() });
        if !super::has_foreign_pids() {
            let begun = self.raw.create("names.jsonl").and_then(Names::begin);
            match begun {
                Ok(names) => self.names = Some(names),
                Err(error) => self.diagnostics.push(format!("titles and scripts of processes are not known: {error}")),
            }
        }
        self.counters = Some(Counters::read(&|| clock.now()));
        quiet.end().map_err(KernelError::io("set the filters of", instance.path()))?;
        // The relief thread changes filters itself, so it begins only when the user's filters are
        // restored.
        if !self.steps.is_empty() {
            match self.start_relief(instance, clock) {
                Ok(relief) => self.relief = Some(relief),
                Err(error) => self.diagnostics.push(format!("nobody watches whether the kernel's events can be stored: {error}")),
            }
        }
        self.describe()
    }

    fn start_relief(&self, instance: &Instance, clock: ClockSource) -> io::Result<Relief> {
        let buffer = |(cpu, (size, taken)): (&u32, &(u64, Arc<AtomicU64>))| {
            let stats = File::open(instance.path().join(format!("per_cpu/cpu{cpu}/stats")))?;
            Ok(Buffer { stats, size: *size, taken: Arc::clone(taken) })
        };
        Relief::begin(Work {
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
        self.shared.switched_off.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops giving up events.
    pub fn calm(&mut self) {
        self.relief = None;
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
    fn quiet(&self, instance: &Instance) -> SelfExclusion {
        let off = self.switched_off();
        let asked = |name: &'static str| {
            let asked = self.description["filters"][name].as_str();
            let since = off.iter().filter(|off| off.step.events.iter().any(|event| event == name)).find_map(|off| off.step.filter.as_ref());
            (name, since.map(|filter| narrowed(asked, filter)).or_else(|| asked.map(str::to_owned)))
        };
        SelfExclusion::begin(instance, CALLS.into_iter().filter(|name| self.records_event(name)).map(asked).collect())
    }

    /// Bytes of pages that were moved until now.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Ends the recording. Afterwards all pages are on the disk, their description is complete, and
    /// the instance is removed.
    pub fn stop(mut self) -> Drained {
        self.end()
    }

    fn end(&mut self) -> Drained {
        let mut drained = Drained { diagnostics: std::mem::take(&mut self.diagnostics), ..Drained::default() };
        let Some(instance) = self.instance.take() else { return drained };
        self.calm();
        self.note_switched_off();
        if let Some(clock) = self.clock {
            // In force until the instance is removed.
            let _quiet = self.quiet(&instance);
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
        self.shared.stop.store(true, Ordering::Release);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            drained.diagnostics.push("the thread that moves the kernel's pages ended early".to_owned());
        }
        self.lanes.clear();
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
            Err(error) => drained.diagnostics.push(format!("the tracer's instance stays: {error}")),
        }
        if let Some(recording) = self.raw.path().parent().and_then(Path::parent) {
            if !recording.join("symbols/kallsyms").exists() && room(self.raw.path()).is_none_or(|room| room >= ENOUGH) {
                self.symbols(recording);
            }
        }
        let troubles = std::mem::take(&mut *self.shared.troubles.lock().unwrap_or_else(PoisonError::into_inner));
        drained.diagnostics.extend(troubles.into_iter().map(|(text, count)| match count {
            1 => text,
            count => format!("{text} ({count} times)"),
        }));
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
    pub(super) fn reserve_in(&mut self, recording: &Path) {
        self.reserve.remove();
        self.reserve = Reserve::make(&recording.join(super::RAW));
    }

    /// Writes the description next to the pages.
    pub(super) fn describe(&self) -> Result<(), KernelError> {
        describe(&self.raw, &self.description).map_err(KernelError::io("write", self.raw.join(super::DESCRIPTION)))
    }
}

impl Drop for Source {
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

/// Body of the thread that moves the pages, until it is stopped. A flight recorder's pages are
/// moved only by order.
fn drain(mut lanes: Vec<Lane>, wake: &OwnedFd, shared: &Shared, overwrites: bool) {
    let period = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(PERIOD.subsec_nanos()) };
    while !shared.stop.load(Ordering::Acquire) {
        let mut ready: Vec<PollFd<'_>> = vec![PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN)];
        ready.extend(lanes.iter().filter(|_| !overwrites).map(|lane| PollFd::from_borrowed_fd(lane.reader.as_fd(), PollFlags::IN)));
        let woken = poll(&mut ready, Some(&period)).unwrap_or(0);
        drop(ready);
        if woken > 0 {
            let _ = rustix::io::read(wake, &mut [0u8; 8]);
        }
        if let Some(order) = shared.ordered() {
            let mut order = order;
            let mut all = Moved::default();
            let moved = lanes.iter_mut().try_for_each(|lane| lane.emptied(shared, order.what(), overwrites, &mut all));
            order.answer(moved.map(|()| all));
            continue;
        }
        let mut moved = 0;
        for lane in lanes.iter_mut().filter(|_| !overwrites) {
            moved += lane.turn(shared);
        }
        if woken > 0 && moved == 0 && !shared.stop.load(Ordering::Acquire) {
            std::thread::sleep(PAUSE);
        }
    }
    for lane in &mut lanes {
        lane.moved(shared, |reader, file| reader.drain_to(file.as_fd()));
        lane.close();
    }
}

impl Lane {
    /// Moves the finished pages, at most as much as a full buffer holds.
    fn turn(&mut self, shared: &Shared) -> usize {
        let mut all = 0;
        while all < self.most {
            match self.moved(shared, |reader, file| reader.splice_to(file.as_fd(), CHUNK)) {
                0 => break,
                moved => all += moved,
            }
        }
        all
    }

    fn moved(&mut self, shared: &Shared, by: impl FnOnce(&mut RawReader, &File) -> io::Result<usize>) -> usize {
        match by(&mut self.reader, &self.file) {
            Ok(moved) => {
                shared.bytes.fetch_add(moved as u64, Ordering::Relaxed);
                self.taken.fetch_add(moved as u64, Ordering::Relaxed);
                moved
            }
            Err(error) => {
                // The reader keeps the pages that it took, and the kernel counts what it overwrites
                // meanwhile.
                shared.trouble(format!("cannot write the kernel's pages to {}: {error}; the pages before are kept", self.path.display()));
                0
            }
        }
    }

    /// Carries out an order for this CPU, and adds the result to `all`.
    fn emptied(&mut self, shared: &Shared, what: &mut What, overwrites: bool, all: &mut Moved) -> io::Result<()> {
        let moved = match what {
            What::Out => self.moved(shared, pause::empty),
            What::Into(files) => match files.get(&self.reader.cpu()) {
                Some(file) => pause::empty(&mut self.reader, file)?,
                None => 0,
            },
            What::Shift(files) => {
                let moved = match overwrites {
                    true => 0,
                    false => self.turn(shared),
                };
                if let Some((file, path)) = files.remove(&self.reader.cpu()) {
                    self.close();
                    (self.file, self.path) = (file, path);
                }
                // Only this thread reads pages, so the counters fit what was moved.
                all.cpus.extend(pause::counted(&self.reader).map(|stats| CpuLoss { cpu: self.reader.cpu(), stats }));
                moved
            }
        };
        all.bytes += moved as u64;
        Ok(())
    }

    /// Cuts off an incomplete page at the end of the file, which is left when the disk is full.
    fn close(&self) {
        let page = self.reader.page_size() as u64;
        if let Ok(found) = self.file.metadata() {
            if found.len() % page != 0 {
                let _ = self.file.set_len(found.len() - found.len() % page);
            }
        }
    }
}

/// Returns the bytes that are free on the disk.
fn room(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Sets the size of the buffers. Returns the size in bytes, and a diagnostic if it is less than
/// wanted.
fn size_buffers(instance: &Instance, request: &Request, cpus: u64) -> Result<(u64, Option<String>), KernelError> {
    let wanted = request.buffer.unwrap_or(BUFFER);
    let most = match request.buffer {
        Some(_) => u64::MAX,
        None => available_memory().map_or(u64::MAX, |free| (free / SHARE / cpus.max(1)).max(SMALLEST_BUFFER)),
    };
    let mut size = wanted.min(most);
    loop {
        match instance.set_buffer_size_kb(size >> 10) {
            Ok(()) => break,
            Err(_) if size / 2 >= SMALLEST_BUFFER => size /= 2,
            Err(error) => return Err(error.into()),
        }
    }
    let note = || format!("the kernel's buffers have {} KiB per CPU instead of {}: memory is scarce", size >> 10, wanted >> 10);
    Ok((size, (size < wanted).then(note)))
}

fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}

/// Returns the CPUs that are present. The tracer has folders for all CPUs that could ever be.
fn present(cpus: Vec<u32>) -> Vec<u32> {
    let present = crate::cpus::listed("/sys/devices/system/cpu/present");
    let found: Vec<u32> = cpus.iter().copied().filter(|cpu| present.contains(cpu)).collect();
    if found.is_empty() {
        cpus
    } else {
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Group;
    use longpole_ftrace::{ByteOrder, EventFormat, Item, PageLayout, PageStream};

    /// Counts the events in the pages of a CPU, and the missing events that the pages contain a
    /// count of.
    fn count(raw: &Path, cpu: u32, page_size: usize) -> (u64, u64) {
        let text = fs::read_to_string(raw.join("header_page")).unwrap();
        let mut layout = PageLayout::parse(&text, ByteOrder::NATIVE).unwrap().with_page_size(page_size);
        for system in fs::read_dir(raw.join("events")).unwrap().map(Result::unwrap) {
            for event in fs::read_dir(system.path()).unwrap().map(Result::unwrap) {
                let text = fs::read_to_string(event.path()).unwrap();
                layout = layout.with_ids_of(&EventFormat::parse(system.file_name().to_str().unwrap(), &text).unwrap());
            }
        }
        let file = File::open(raw.join(format!("cpu{cpu}"))).unwrap();
        let (mut events, mut lost) = (0, 0);
        PageStream::new(file, layout).for_each(
            |item| match item {
                Item::Event(_) => events += 1,
                Item::Loss { loss, .. } => lost += loss.count.unwrap_or(0),
            },
            |error| panic!("{error}"),
        );
        (events, lost)
    }

    fn work(rounds: u32) {
        for _ in 0..rounds {
            std::process::Command::new("true").status().unwrap();
            for _ in 0..500 {
                std::thread::yield_now();
            }
        }
    }

    fn live(what: &str) -> bool {
        let possible = rustix::process::geteuid().is_root() && crate::kernel::available().is_ok();
        if !possible {
            println!("skipped: {what} (needs root and tracefs)");
        }
        possible
    }

    #[test]
    fn the_pages_hold_what_the_kernel_counted_and_the_instance_is_removed() {
        if !live("recording the kernel") {
            return;
        }
        // A buffer that holds all events, and one that loses some.
        for (buffer, rounds) in [(4 << 20, 20), (64 << 10, 60)] {
            let recording = tempfile::tempdir().unwrap();
            let request = Request { groups: vec![Group::Sched, Group::Syscall], buffer: Some(buffer), ..Request::default() };
            let plan = Plan::make(&request, ClockSource::choose()).unwrap();
            let clock = plan.clock.1;
            let mut source = Source::prepare(plan, recording.path()).unwrap();
            let instance = source.instance.as_ref().unwrap().path().to_owned();
            assert!(reap::is_going_on(recording.path()));
            source.begin(clock).unwrap();
            work(rounds);
            let drained = source.stop();
            assert!(!instance.exists());
            assert!(!reap::is_going_on(recording.path()));
            assert!(drained.diagnostics.iter().all(|note| note.starts_with("this kernel has no event")), "{:?}", drained.diagnostics);
            let raw = recording.path().join(crate::kernel::RAW);
            let description: Value = serde_json::from_slice(&fs::read(raw.join("source.json")).unwrap()).unwrap();
            let page_size = description["page_size"].as_u64().unwrap() as usize;
            for cpu in &drained.cpus {
                let (events, lost) = count(&raw, cpu.cpu, page_size);
                assert_eq!((events, cpu.stats.entries), (cpu.stats.read, 0), "{cpu:?}");
                assert!(lost <= cpu.stats.lost(), "{lost} {cpu:?}");
            }
            assert!(drained.events() > 1000, "{drained:?}");
            assert_eq!(description["cpus"].as_array().unwrap().len(), drained.cpus.len());
            assert!(raw.join("state.jsonl").exists() && raw.join("events/sched/sched_switch").exists());
        }
    }

    #[test]
    fn events_that_cannot_be_stored_are_given_up_in_order_and_switches_are_recorded_to_the_end() {
        if !live("an overload") {
            return;
        }
        let recording = tempfile::tempdir().unwrap();
        let request = Request { groups: Group::DEFAULT.to_vec(), light: true, buffer: Some(1 << 20), ..Request::default() };
        let plan = Plan::make(&request, ClockSource::choose()).unwrap();
        let clock = plan.clock.1;
        let mut source = Source::prepare(plan, recording.path()).unwrap();
        let instance = source.instance.as_ref().unwrap().path().to_owned();
        let expected: Vec<&str> = source.steps.iter().map(|step| step.what).collect();
        // Pipes that nobody reads act as a disk that takes nothing.
        let mut disks = Vec::new();
        for lane in &mut source.lanes {
            let (disk, to) = io::pipe().unwrap();
            lane.file = File::from(OwnedFd::from(to));
            disks.push((lane.reader.cpu(), disk));
        }
        source.begin(clock).unwrap();
        let mut rounds = 0;
        while source.switched_off().len() < 2 {
            work(1);
            rounds += 1;
            assert!(rounds < 100_000, "nothing is given up");
        }
        // From here on the disk takes everything.
        let raw = recording.path().join(crate::kernel::RAW);
        let stored: Vec<_> = disks
            .into_iter()
            .map(|(cpu, mut disk)| {
                let mut file = File::create(raw.join(format!("cpu{cpu}"))).unwrap();
                std::thread::spawn(move || io::copy(&mut disk, &mut file).unwrap())
            })
            .collect();
        work(20);
        source.calm();
        let off = source.switched_off();
        let enabled = |event: &str| fs::read_to_string(instance.join("events").join(event.replace(':', "/")).join("enable")).unwrap();
        for event in off.iter().filter(|off| off.step.filter.is_none()).flat_map(|off| &off.step.events) {
            assert_eq!(enabled(event).trim(), "0", "{event}");
        }
        assert_eq!(enabled("sched:sched_switch").trim(), "1");
        let told = source.told(&crate::clock::Calibration::begin(clock).finish());
        let drained = source.stop();
        stored.into_iter().for_each(|thread| assert!(thread.join().unwrap() > 0));
        let whats: Vec<&str> = off.iter().map(|off| off.step.what).collect();
        assert_eq!(whats, expected[..whats.len()]);
        assert_eq!(told["switched_off"].as_array().unwrap().len(), whats.len());
        assert!(drained.lost() > 0, "{drained:?}");
        let description: Value = serde_json::from_slice(&fs::read(raw.join("source.json")).unwrap()).unwrap();
        assert_eq!(description["switched_off"].as_array().unwrap().len(), whats.len());
        assert_eq!(description["switched_off"][0]["what"], "page faults");
    }

    #[test]
    fn with_keep_all_no_kind_of_event_is_given_up() {
        if !live("a refused relief") {
            return;
        }
        let recording = tempfile::tempdir().unwrap();
        let request =
            Request { groups: Group::DEFAULT.to_vec(), light: true, buffer: Some(64 << 10), keep_all: true, ..Request::default() };
        let plan = Plan::make(&request, ClockSource::choose()).unwrap();
        let clock = plan.clock.1;
        let mut source = Source::prepare(plan, recording.path()).unwrap();
        source.begin(clock).unwrap();
        work(1);
        assert!(source.relief.is_none());
        source.stop();
    }

    #[test]
    fn the_recorders_own_calls_are_excluded_and_the_users_filters_are_restored_afterwards() {
        if !live("filters while the state is dumped") {
            return;
        }
        let recording = tempfile::tempdir().unwrap();
        let events = vec!["raw_syscalls:sys_exit:id != 9999".parse().unwrap(), "raw_syscalls:sys_enter".parse().unwrap()];
        let plan = Plan::make(&Request { events, ..Request::default() }, ClockSource::choose()).unwrap();
        let clock = plan.clock.1;
        let mut source = Source::prepare(plan, recording.path()).unwrap();
        let filter = |source: &Source, name: &str| {
            source.instance.as_ref().unwrap().get(&format!("events/raw_syscalls/{name}/filter")).unwrap().trim().to_owned()
        };
        let quiet = source.quiet(source.instance.as_ref().unwrap());
        let tid = rustix::thread::gettid().as_raw_nonzero();
        assert_eq!(filter(&source, "sys_exit"), format!("(id != 9999) && common_pid != {tid}"));
        assert_eq!(filter(&source, "sys_enter"), format!("common_pid != {tid}"));
        let helper = SelfExclusion::here().unwrap();
        let other = std::thread::spawn(move || {
            helper.join();
            rustix::thread::gettid().as_raw_nonzero()
        });
        let other = other.join().unwrap();
        assert_eq!(filter(&source, "sys_enter"), format!("common_pid != {tid} && common_pid != {other}"));
        let late = quiet.clone();
        quiet.end().unwrap();
        late.join();
        assert_eq!((filter(&source, "sys_exit").as_str(), filter(&source, "sys_enter").as_str()), ("id != 9999", "none"));
        source.begin(clock).unwrap();
        assert_eq!((filter(&source, "sys_exit").as_str(), filter(&source, "sys_enter").as_str()), ("id != 9999", "none"));
        source.stop();
    }

    #[test]
    fn a_refused_filter_is_reported_with_the_kernels_message() {
        if !live("a refused filter") {
            return;
        }
        let recording = tempfile::tempdir().unwrap();
        let events = vec!["sched:sched_switch:no_such_field == 1".parse().unwrap()];
        let plan = Plan::make(&Request { events, ..Request::default() }, ClockSource::choose()).unwrap();
        let error = Source::prepare(plan, recording.path()).unwrap_err();
        assert!(error.is_wrong_request());
        assert!(error.to_string().contains("Field not found"), "{error}");
    }

    #[test]
    fn a_full_disk_keeps_the_pages_that_are_there_and_is_reported() {
        if !live("pages on a full disk") {
            return;
        }
        let recording = tempfile::tempdir().unwrap();
        let request = Request { groups: vec![Group::Sched, Group::Syscall], ..Request::default() };
        let plan = Plan::make(&request, ClockSource::choose()).unwrap();
        let clock = plan.clock.1;
        let mut source = Source::prepare(plan, recording.path()).unwrap();
        let page = source.lanes[0].reader.page_size();
        // A file that cannot grow beyond three pages acts as a full disk.
        let small = File::from(rustix::fs::memfd_create("small", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap());
        small.set_len(3 * page as u64).unwrap();
        rustix::fs::fcntl_add_seals(&small, rustix::fs::SealFlags::GROW).unwrap();
        let held = small.try_clone().unwrap();
        source.lanes[0].file = small;
        let mut there = rustix::thread::CpuSet::new();
        there.set(source.lanes[0].reader.cpu() as usize);
        source.begin(clock).unwrap();
        // Work on the CPU whose file is full, even if the rest of the host works elsewhere.
        rustix::thread::sched_setaffinity(None, &there).unwrap();
        work(20);
        let drained = source.stop();
        assert!(
            drained.diagnostics.iter().any(|note| note.starts_with("cannot write") && note.contains("cpu0")),
            "{:?}",
            drained.diagnostics
        );
        let mut times = [0; 3];
        for (index, time) in times.iter_mut().enumerate() {
            let mut bytes = [0; 8];
            std::os::unix::fs::FileExt::read_exact_at(&held, &mut bytes, (index * page) as u64).unwrap();
            *time = u64::from_ne_bytes(bytes);
        }
        assert!(0 < times[0] && times.is_sorted(), "{times:?}");
        for cpu in &drained.cpus[1..] {
            let length = fs::metadata(recording.path().join(crate::kernel::RAW).join(format!("cpu{}", cpu.cpu))).unwrap().len();
            assert_eq!(length % page as u64, 0);
        }
    }
}
