//! Samples the stacks of all CPUs. With `--stacks HZ`, each CPU records the kernel and user stack
//! of the code that it runs, HZ times per second.
//!
//! The kernel takes the samples, for the whole host (perf_event_open(2) with its CPU clock, which
//! every host has). It also records new processes, their names and the code that they map, so that
//! addresses can be resolved when the process has long ended. One small thread moves all of this
//! into `samples/`, a CTF trace next to the other ones, on the recording's clock. Addresses are
//! resolved after the recording (`longpole-symbols`); no code here interprets one.
//!
//! For root, a sample also has the registers and a copy of the stack, and the stacks of waits and
//! wake-ups can be sampled, too ([`waits`]).
//!
//! The perf events end with their descriptors, so a recorder that is killed leaves none behind.

mod existing;
mod metadata;
mod mover;
mod parse;
mod perf;
mod samples;
mod stream;
mod waits;

use crate::clock::Clock;
use crate::files::cpus;
use crate::kernel::Trouble;
use crate::output::metadata::Uuid;
use crate::output::recording;
use metadata::{CPU_STREAM, OF_BEGIN};
use mover::{CpuStream, Mover};
use perf::{Ring, SampleKind};
use rustix::event::{eventfd, EventfdFlags};
use rustix::fs::{flock, FlockOperation};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use waits::limit::WaitLimit;
use waits::{Waits, WaitsError};

/// Folder of the samples in a recording.
pub const FOLDER: &str = "samples";
/// Size of each CPU's ring in bytes: what an ordinary user may lock for each CPU.
const RING: usize = 512 << 10;
/// Size of each CPU's ring with copied stacks, and of all rings together on hosts with many CPUs.
const COPY_RING: usize = 2 << 20;
const COPY_RINGS: usize = 256 << 20;
/// Bytes of the stack that a timer's sample copies. Stacks of compilers and interpreters are
/// often longer than half of that; those of most other programs are shorter.
const COPY: u32 = 32 << 10;
/// Bytes of the stack that a sample of a wait copies: fewer, because these samples are many, and
/// their bytes are limited.
const WAIT_COPY: u32 = 16 << 10;
/// Bytes that the timer's samples of each CPU copy per second at most: at rates above 1 kHz, the
/// copies become smaller.
const COPY_PER_SECOND: u32 = 32 << 20;
/// File with the largest number of samples per second that the kernel allows.
const MAX_HZ: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

/// How often stacks are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Samples per second of each CPU while it runs something.
    pub running: u32,
    /// Samples per second of a thread that waits; `None` if waits are not sampled.
    pub waiting: Option<u32>,
}

/// Reason why no stacks are sampled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StacksError {
    #[error("this kernel has no perf events; run a kernel with CONFIG_PERF_EVENTS")]
    NoPerf,
    #[error("perf events of all CPUs are not allowed ({}); run as root, or as root: sysctl kernel.perf_event_paranoid=0", paranoid())]
    NotAllowed,
    #[error("cannot open a perf event: {0}")]
    Open(io::Error),
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

impl StacksError {
    fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> StacksError {
        let path = path.into();
        move |source| StacksError::Io { what, path, source }
    }

    fn open(error: io::Error) -> StacksError {
        match error.raw_os_error() {
            Some(libc::ENOSYS | libc::ENOENT | libc::EOPNOTSUPP) => StacksError::NoPerf,
            Some(libc::EACCES | libc::EPERM) => StacksError::NotAllowed,
            _ => StacksError::Open(error),
        }
    }
}

fn paranoid() -> String {
    match fs::read_to_string("/proc/sys/kernel/perf_event_paranoid") {
        Ok(level) => format!("perf_event_paranoid is {}", level.trim()),
        Err(_) => "perf_event_paranoid cannot be read".to_owned(),
    }
}

/// Finds out what could be sampled on this host, and changes nothing. Returns a text for people.
pub fn survey() -> Result<String, Trouble> {
    let cpus = online();
    let first = cpus.first().copied().unwrap_or(0);
    match Ring::open(first, 1, SampleKind::Addresses, 1) {
        Ok(_) => {
            let most = fs::read_to_string(MAX_HZ).map_or_else(|_| String::new(), |most| format!(", up to {} Hz", most.trim()));
            Ok(format!("perf events of all {} CPUs, with kernel stacks{most}{}", cpus.len(), survey_waits(first)))
        }
        Err(error) => Err(match StacksError::open(error) {
            StacksError::NoPerf => Trouble {
                what: "this kernel has no perf events, so no stacks can be sampled".to_owned(),
                remedy: "run a kernel with CONFIG_PERF_EVENTS".to_owned(),
            },
            StacksError::NotAllowed => Trouble {
                what: format!("perf events of all CPUs are not allowed ({})", paranoid()),
                remedy: "run as root, or as root: sysctl kernel.perf_event_paranoid=0".to_owned(),
            },
            other => {
                Trouble { what: other.to_string(), remedy: "run as root, outside of a container that forbids perf_event_open".to_owned() }
            }
        }),
    }
}

/// Finds out whether waits could be sampled. Returns the end of a text for people.
fn survey_waits(cpu: u32) -> String {
    if !rustix::process::geteuid().is_root() {
        return "; stacks of waits only for root".to_owned();
    }
    let prepared = Ring::open(cpu, 1, SampleKind::Copy { bytes: COPY }, 1)
        .map_err(|_| WaitsError::NoCopies)
        .and_then(|ring| Waits::prepare(&mut [(cpu, ring)], WAIT_COPY, 1));
    match prepared {
        Ok(_) => "; stacks of waits".to_owned(),
        Err(error) => format!("; no stacks of waits: {error}"),
    }
}

fn online() -> Vec<u32> {
    let found = cpus::listed("/sys/devices/system/cpu/online");
    if found.is_empty() {
        vec![0]
    } else {
        found
    }
}

/// Opens the rings of all CPUs. Root gets copies of the stacks, because they may hold secrets and
/// need larger rings than others may lock.
fn rings(hz: u32, shared: &Shared) -> Result<Vec<(u32, Ring)>, StacksError> {
    let cpus = online();
    let plain = || open_rings(&cpus, hz, SampleKind::Addresses, RING).map_err(StacksError::open);
    if !rustix::process::geteuid().is_root() {
        return plain();
    }
    let bytes = COPY.min(COPY_PER_SECOND / hz.max(1));
    let size = COPY_RING.min(COPY_RINGS / cpus.len().max(1)).max(RING);
    open_rings(&cpus, hz, SampleKind::Copy { bytes }, size).or_else(|error| {
        let rings = plain()?;
        shared.trouble(format!("stacks hold only functions with frame pointers, because copies of the stacks are not possible: {error}"));
        Ok(rings)
    })
}

fn open_rings(cpus: &[u32], hz: u32, kind: SampleKind, size: usize) -> io::Result<Vec<(u32, Ring)>> {
    let mut rings = Vec::new();
    for &cpu in cpus {
        match Ring::open(cpu, hz, kind, size) {
            Ok(ring) => rings.push((cpu, ring)),
            // The CPU just went offline.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(rings)
}

fn prepare_waits(rings: &mut [(u32, Ring)], hz: u32) -> Result<Waits, WaitsError> {
    match rings.first() {
        Some((_, ring)) if ring.kind() != SampleKind::Addresses => Waits::prepare(rings, WAIT_COPY, period_ns(hz)),
        _ => Err(WaitsError::NoCopies),
    }
}

fn no_waits(rates: &mut Rates, shared: &Shared, error: &WaitsError) {
    rates.waiting = None;
    shared.trouble(format!("stacks of waits are not sampled: {error}"));
}

fn period_ns(hz: u32) -> u32 {
    1_000_000_000 / hz.max(1)
}

/// Result of the sampling.
#[derive(Clone, Copy, Debug)]
pub struct SampleOutcome {
    pub samples: u64,
    /// Number of those samples that are of waits and wake-ups.
    pub waits: u64,
    /// Number of samples and other records that were lost by the kernel or because of the disk.
    pub lost: u64,
    pub cpus: usize,
}

/// Data shared with the thread that moves the samples.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    samples: AtomicU64,
    /// Number of samples of waits and wake-ups, which are included in `samples`.
    waits: AtomicU64,
    lost: AtomicU64,
    /// Number of samples that were not taken because the kernel throttled the event. They are
    /// included in `lost`.
    throttled: AtomicU64,
    troubles: Mutex<BTreeMap<String, u64>>,
}

impl Shared {
    fn trouble(&self, text: String) {
        *self.troubles.lock().unwrap_or_else(PoisonError::into_inner).entry(text).or_insert(0) += 1;
    }
}

/// The sampling of all CPUs.
#[derive(Debug)]
pub struct Stacks {
    rings: Vec<(u32, Ring)>,
    /// The programs that sample waits, until they run.
    waits: Option<Waits>,
    rates: Rates,
    cpus: usize,
    thread: Option<JoinHandle<()>>,
    wake: Arc<OwnedFd>,
    shared: Arc<Shared>,
    /// Lock on the folder, by which other processes see that this recorder lives.
    lock: Option<File>,
}

impl Stacks {
    /// Opens the perf events of all CPUs. Nothing is sampled yet. The rate is limited to what the
    /// kernel allows. Waits are not sampled if that is not possible.
    pub fn prepare(rates: Rates) -> Result<Stacks, StacksError> {
        let shared = Shared::default();
        let most = fs::read_to_string(MAX_HZ).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u32::MAX);
        let hz = rates.running;
        if hz > most {
            shared.trouble(format!(
                "stacks are sampled {most} times a second instead of {hz}: the kernel's limit (kernel.perf_event_max_sample_rate)"
            ));
        }
        let hz = hz.clamp(1, most.max(1));
        let mut rates = Rates { running: hz, ..rates };
        if crate::kernel::has_foreign_pids() {
            shared.trouble(
                "in a container, samples of processes outside of it have no process: run longpole outside of the container".to_owned(),
            );
        }
        let mut rings = rings(hz, &shared)?;
        let waits = rates.waiting.map(|hz| prepare_waits(&mut rings, hz)).transpose().unwrap_or_else(|error| {
            no_waits(&mut rates, &shared, &error);
            None
        });
        let wake =
            eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(|error| StacksError::io("make", "eventfd")(error.into()))?;
        let cpus = rings.len();
        Ok(Stacks { rings, waits, rates, cpus, thread: None, wake: Arc::new(wake), shared: Arc::new(shared), lock: None })
    }

    /// Starts the sampling. When this function returns, all CPUs are sampled.
    pub(crate) fn begin(&mut self, recording: &Path, uuid: &Uuid, clock: &Clock) -> Result<(), StacksError> {
        let folder = recording.join(FOLDER);
        fs::create_dir(&folder).map_err(StacksError::io("make", &folder))?;
        let lock = File::open(&folder).map_err(StacksError::io("open", &folder))?;
        let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        self.lock = Some(lock);
        if !recording.join("symbols/kallsyms").exists() {
            if let Err(error) = crate::kernel::save_symbols(recording) {
                self.shared.trouble(format!("the kernel's symbols could not be saved: {error}"));
            }
        }
        // Readers take traces with the same UUID for parts of one trace, so this trace gets its
        // own.
        let own = Uuid::random().map_err(StacksError::io("read", "/dev/urandom"))?;
        let start = clock.now();
        let stream = |name: &str, class, cpu| {
            let path = folder.join(name);
            stream::Stream::create(&path, own, class, cpu, start).map_err(StacksError::io("make", path))
        };
        let begin = stream("begin", OF_BEGIN, 0)?;
        let mut streams = Vec::new();
        for (cpu, ring) in self.rings.drain(..) {
            streams.push(CpuStream::new(stream(&format!("cpu{cpu}"), CPU_STREAM, cpu)?, ring));
        }
        // The metadata is complete before it is visible.
        let (hidden, seen) = (folder.join(".metadata"), folder.join("metadata"));
        let text = metadata::text(&own, uuid, clock, &recording::host(), self.rates.running);
        fs::write(&hidden, text).and_then(|()| fs::rename(&hidden, &seen)).map_err(StacksError::io("make", &seen))?;
        for stream in &streams {
            stream.enable().map_err(StacksError::open)?;
        }
        let waits = self.waits.take().map(Waits::start).transpose().unwrap_or_else(|error| {
            no_waits(&mut self.rates, &self.shared, &error);
            None
        });
        let waits = waits.zip(self.rates.waiting).map(|(running, hz)| (running, WaitLimit::new(period_ns(hz), clock.raw_pair().1)));
        let mover = Mover::new(streams, (begin, start), *clock, self.rates.running, waits, Arc::clone(&self.shared));
        let wake = Arc::clone(&self.wake);
        let thread = std::thread::Builder::new().name("longpole-stacks".to_owned()).spawn(move || mover.run(&wake));
        self.thread = Some(thread.map_err(StacksError::io("start", "a thread"))?);
        Ok(())
    }

    /// Returns the part of the recording's description about samples.
    pub fn describe(&self) -> Value {
        let outcome = self.outcome();
        json!({
            "hz": self.rates.running,
            "waiting_hz": self.rates.waiting,
            "cpus": self.cpus,
            "samples": outcome.samples,
            "waits": outcome.waits,
            "lost": outcome.lost,
            "held_back": self.shared.throttled.load(Ordering::Relaxed),
        })
    }

    fn outcome(&self) -> SampleOutcome {
        SampleOutcome {
            samples: self.shared.samples.load(Ordering::Relaxed),
            waits: self.shared.waits.load(Ordering::Relaxed),
            lost: self.shared.lost.load(Ordering::Relaxed),
            cpus: self.cpus,
        }
    }

    /// Ends the sampling. Afterwards all samples are on the disk. Returns the result, the part of
    /// the recording's description, and diagnostics.
    pub fn stop(mut self) -> (SampleOutcome, Value, Vec<String>) {
        self.end();
        let troubles = std::mem::take(&mut *self.shared.troubles.lock().unwrap_or_else(PoisonError::into_inner));
        let diagnostics = troubles.into_iter().map(|(text, count)| match count {
            1 => text,
            count => format!("{text} ({count} times)"),
        });
        (self.outcome(), self.describe(), diagnostics.collect())
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            self.shared.trouble("the thread that takes the samples ended early".to_owned());
        }
        self.lock = None;
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        self.end();
    }
}
