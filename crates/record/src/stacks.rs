//! Samples the stacks of all CPUs. With `--stacks HZ`, each CPU records the kernel and user stack
//! of the code that it runs, HZ times per second.
//!
//! The kernel takes the samples, for the whole host (perf_event_open(2) with its CPU clock, which
//! every host has). It also records new processes, their names and the code that they map, so that
//! addresses can be resolved when the process has long ended. One small thread moves all of this
//! into `samples/`, a CTF trace next to the other ones, on the recording's clock. Addresses are
//! resolved after the recording (`longpole-symbols`); no code here interprets one.
//!
//! The perf events end with their descriptors, so a recorder that is killed leaves none behind.

mod metadata;
mod parse;
mod people;
mod perf;
mod stream;

use crate::clock::Clock;
use crate::cpus;
use crate::kernel::Trouble;
use crate::output::metadata::Uuid;
use crate::output::recording;
use metadata::{COMM, CPU_STREAM, EXIT, FORK, MAPPING, OF_BEGIN, PROCESS, SAMPLE};
use parse::{parse, Record, What};
use perf::Ring;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags};
use rustix::fs::{flock, FlockOperation};
use serde_json::{json, Value};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Folder of the samples in a recording.
pub const FOLDER: &str = "samples";
/// Size of each CPU's ring in bytes: what an ordinary user may lock for each CPU.
const RING: usize = 512 << 10;
/// Longest time that a sample waits in the ring.
const PERIOD: Duration = Duration::from_millis(100);
/// Longest time of one look at existing processes, so that the rings do not fill up meanwhile.
const LOOK: Duration = Duration::from_millis(20);
/// File with the largest number of samples per second that the kernel allows.
const MOST_HZ: &str = "/proc/sys/kernel/perf_event_max_sample_rate";
/// Link of the initial pid namespace, which contains the processes of the whole host
/// (`PROC_PID_INIT_INO` in `linux/proc_ns.h`).
const FIRST_PIDS: &str = "pid:[4026531836]";
/// Largest number of processes that are remembered as makers of code.
const MOST_MAKERS: usize = 1 << 16;

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
    match Ring::open(cpus.first().copied().unwrap_or(0), 1, 1) {
        Ok(_) => Ok(match fs::read_to_string(MOST_HZ) {
            Ok(most) => format!("perf events of all {} CPUs, with kernel stacks, up to {} Hz", cpus.len(), most.trim()),
            Err(_) => format!("perf events of all {} CPUs, with kernel stacks", cpus.len()),
        }),
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

fn online() -> Vec<u32> {
    let found = cpus::listed("/sys/devices/system/cpu/online");
    if found.is_empty() {
        vec![0]
    } else {
        found
    }
}

/// Result of the sampling.
#[derive(Clone, Copy, Debug)]
pub struct SampleOutcome {
    pub samples: u64,
    /// Number of samples and other records that were lost by the kernel or because of the disk.
    pub lost: u64,
    pub cpus: usize,
}

/// Data shared with the thread that moves the samples.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    samples: AtomicU64,
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
    hz: u32,
    cpus: usize,
    thread: Option<JoinHandle<()>>,
    wake: Arc<OwnedFd>,
    shared: Arc<Shared>,
    /// Lock on the folder, by which other processes see that this recorder lives.
    lock: Option<File>,
}

impl Stacks {
    /// Opens the perf events of all CPUs. Nothing is sampled yet. `hz` is limited to what the
    /// kernel allows.
    pub fn prepare(hz: u32) -> Result<Stacks, StacksError> {
        let shared = Shared::default();
        let most = fs::read_to_string(MOST_HZ).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u32::MAX);
        if hz > most {
            shared.trouble(format!(
                "stacks are sampled {most} times a second instead of {hz}: the kernel allows no more (kernel.perf_event_max_sample_rate)"
            ));
        }
        let hz = hz.clamp(1, most.max(1));
        if fs::read_link("/proc/self/ns/pid").is_ok_and(|space| space.as_os_str() != FIRST_PIDS) {
            shared.trouble(
                "in a container, samples of processes outside of it are those of an unknown process: run longpole outside".to_owned(),
            );
        }
        let mut rings = Vec::new();
        for cpu in online() {
            match Ring::open(cpu, hz, RING) {
                Ok(ring) => rings.push((cpu, ring)),
                // The CPU just went offline.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(StacksError::open(error)),
            }
        }
        let wake =
            eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(|error| StacksError::io("make", "eventfd")(error.into()))?;
        let cpus = rings.len();
        Ok(Stacks { rings, hz, cpus, thread: None, wake: Arc::new(wake), shared: Arc::new(shared), lock: None })
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
        let mut lanes = Vec::new();
        for (cpu, ring) in self.rings.drain(..) {
            lanes.push(Lane { stream: stream(&format!("cpu{cpu}"), CPU_STREAM, cpu)?, ring, lost: 0, throttled_since: None });
        }
        // The metadata is complete before it is visible.
        let (hidden, seen) = (folder.join(".metadata"), folder.join("metadata"));
        let text = metadata::text(&own, uuid, clock, &recording::host(), self.hz);
        fs::write(&hidden, text).and_then(|()| fs::rename(&hidden, &seen)).map_err(StacksError::io("make", &seen))?;
        for lane in &lanes {
            lane.ring.enable().map_err(StacksError::open)?;
        }
        let mover = Mover {
            lanes,
            begin,
            start,
            waiting: people::processes(),
            makers: HashSet::new(),
            clock: *clock,
            hz: self.hz,
            scratch: Vec::new(),
            payload: Vec::new(),
            chain: (Vec::new(), Vec::new()),
            shared: Arc::clone(&self.shared),
        };
        let wake = Arc::clone(&self.wake);
        let thread = std::thread::Builder::new().name("longpole-stacks".to_owned()).spawn(move || mover.run(&wake));
        self.thread = Some(thread.map_err(StacksError::io("start", "a thread"))?);
        Ok(())
    }

    /// Returns the part of the recording's description about samples.
    pub fn describe(&self) -> Value {
        let outcome = self.outcome();
        json!({
            "hz": self.hz,
            "cpus": self.cpus,
            "samples": outcome.samples,
            "lost": outcome.lost,
            "held_back": self.shared.throttled.load(Ordering::Relaxed),
        })
    }

    fn outcome(&self) -> SampleOutcome {
        SampleOutcome {
            samples: self.shared.samples.load(Ordering::Relaxed),
            lost: self.shared.lost.load(Ordering::Relaxed),
            cpus: self.cpus,
        }
    }

    /// Ends the sampling. Afterwards all samples are on the disk. Returns the result, the part of
    /// the recording's description, and diagnostics.
    pub fn stop(mut self) -> (SampleOutcome, Value, Vec<String>) {
        self.end();
        let troubles = std::mem::take(&mut *self.shared.troubles.lock().unwrap_or_else(PoisonError::into_inner));
        let told = troubles.into_iter().map(|(text, count)| match count {
            1 => text,
            count => format!("{text} ({count} times)"),
        });
        (self.outcome(), self.describe(), told.collect())
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

/// One CPU.
struct Lane {
    stream: stream::Stream,
    ring: Ring,
    /// Number of lost records that are already in the stream's count.
    lost: u64,
    /// Time since which the kernel takes no samples because they took too much time. `None` while
    /// it takes them.
    throttled_since: Option<u64>,
}

/// State of the thread that moves the samples.
struct Mover {
    lanes: Vec<Lane>,
    /// Stream of the processes that existed at the begin.
    begin: stream::Stream,
    start: u64,
    /// Processes that existed at the begin and were not looked at yet.
    waiting: VecDeque<i32>,
    /// Processes that generate code at run time, such as JIT compilers, and whose owner is already
    /// in the trace.
    makers: HashSet<i32>,
    clock: Clock,
    hz: u32,
    scratch: Vec<u8>,
    payload: Vec<u8>,
    chain: (Vec<u64>, Vec<u64>),
    shared: Arc<Shared>,
}

impl Mover {
    fn run(mut self, wake: &OwnedFd) {
        loop {
            let stop = self.shared.stop.load(Ordering::Acquire);
            if stop {
                for lane in &self.lanes {
                    let _ = lane.ring.disable();
                }
            }
            let mut lanes = std::mem::take(&mut self.lanes);
            // Samples have times of CLOCK_MONOTONIC_RAW, which runs evenly. A pair of clock
            // readings that is not older than one turn of this loop converts them exactly enough.
            let pair = self.clock.raw_pair();
            for lane in &mut lanes {
                self.drain(lane, pair, stop);
            }
            self.lanes = lanes;
            self.count_lost();
            self.look(stop);
            if stop {
                break;
            }
            let mut ready: Vec<PollFd<'_>> = vec![PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN)];
            ready.extend(self.lanes.iter().map(|lane| PollFd::from_borrowed_fd(lane.ring.as_fd(), PollFlags::IN)));
            let longest = if self.waiting.is_empty() { PERIOD } else { Duration::ZERO };
            let longest = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(longest.subsec_nanos()) };
            let _ = poll(&mut ready, Some(&longest));
        }
    }

    fn drain(&mut self, lane: &mut Lane, pair: (u64, u64), last: bool) {
        let Lane { stream, ring, lost, throttled_since } = lane;
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut result = Ok(());
        ring.drain(&mut scratch, |bytes| {
            let Some(record) = parse(bytes) else {
                self.shared.trouble("the kernel wrote a record of samples that is too short".to_owned());
                return;
            };
            let time = self.clock.of_raw(pair, record.time);
            let moved = match record.what {
                What::Lost(count) => {
                    *lost += count;
                    stream.loss(time, count)
                }
                What::Throttled(true) => {
                    throttled_since.get_or_insert(record.time);
                    Ok(())
                }
                What::Throttled(false) => {
                    let missed = self.missed(throttled_since.take(), record.time);
                    stream.loss(time, missed)
                }
                _ => self.record(stream, time, &record),
            };
            if moved.is_err() {
                result = moved;
            }
        });
        self.scratch = scratch;
        if last {
            // Losses after the last record that was stored.
            let rest = ring.lost().map_or(0, |all| all.saturating_sub(*lost));
            result = result.and(stream.loss(pair.0, rest));
            // The event was still throttled at the end, so the pause is counted until now.
            let missed = self.missed(throttled_since.take(), pair.1);
            result = result.and(stream.loss(pair.0, missed));
        }
        result = result.and(if last { stream.finish() } else { stream.flush() });
        if let Err(error) = result {
            self.shared.trouble(format!("cannot write the samples: {error}; they count as lost"));
        }
    }

    /// Counts the samples that were not taken while the event was throttled, from `since` to
    /// `until` in ns.
    fn missed(&self, since: Option<u64>, until: u64) -> u64 {
        let ns = since.map_or(0, |since| until.saturating_sub(since));
        let missed = (u128::from(ns) * u128::from(self.hz) / 1_000_000_000) as u64;
        self.shared.throttled.fetch_add(missed, Ordering::Relaxed);
        missed
    }

    /// Updates the number of losses, so that the recording's description is correct at any time.
    fn count_lost(&self) {
        let lost = self.lanes.iter().map(|lane| lane.stream.discarded()).sum();
        self.shared.lost.store(lost, Ordering::Relaxed);
    }

    fn record(&mut self, stream: &mut stream::Stream, time: u64, record: &Record<'_>) -> io::Result<()> {
        self.payload.clear();
        self.payload.extend_from_slice(&record.pid.to_ne_bytes());
        self.payload.extend_from_slice(&record.tid.to_ne_bytes());
        let id = match record.what {
            What::Sample(chain) => {
                self.shared.samples.fetch_add(1, Ordering::Relaxed);
                let (kernel, user) = &mut self.chain;
                kernel.clear();
                user.clear();
                chain.split(kernel, user);
                for addresses in [kernel, user] {
                    addresses.truncate(usize::from(u16::MAX));
                    self.payload.extend_from_slice(&(addresses.len() as u16).to_ne_bytes());
                    addresses.iter().for_each(|address| self.payload.extend_from_slice(&address.to_ne_bytes()));
                }
                SAMPLE
            }
            What::Mapping { start, length, offset, inode, path } => {
                mapping(&mut self.payload, [start, length, offset, inode], path);
                if people::is_made(path) {
                    self.maker(stream, time, record.pid)?;
                }
                MAPPING
            }
            What::Comm { exec, comm } => {
                self.payload.push(u8::from(exec));
                text(&mut self.payload, comm);
                COMM
            }
            What::Fork { parent_pid, parent_tid } => {
                self.payload.extend_from_slice(&parent_pid.to_ne_bytes());
                self.payload.extend_from_slice(&parent_tid.to_ne_bytes());
                FORK
            }
            What::Exit => {
                if record.pid == record.tid {
                    self.makers.remove(&record.pid);
                }
                EXIT
            }
            _ => return Ok(()),
        };
        stream.event(time, id, &self.payload)
    }

    /// Writes the owner of a process that generates code. The list of functions that such a process
    /// provides is accepted only if it belongs to the same user.
    fn maker(&mut self, stream: &mut stream::Stream, time: u64, pid: i32) -> io::Result<()> {
        if self.makers.len() >= MOST_MAKERS || !self.makers.insert(pid) {
            return Ok(());
        }
        let Some((uid, inner)) = people::owner(pid) else { return Ok(()) };
        let mut payload = Vec::with_capacity(16);
        for id in [pid, pid, uid as i32, inner] {
            payload.extend_from_slice(&id.to_ne_bytes());
        }
        stream.event(time, PROCESS, &payload)
    }

    /// Looks at processes that existed at the begin: all of them if `all` is set, otherwise for a
    /// limited time.
    fn look(&mut self, all: bool) {
        let begin = Instant::now();
        let mut payload = Vec::new();
        let looked = !self.waiting.is_empty();
        let mut result = Ok(());
        while all || begin.elapsed() < LOOK {
            let Some(pid) = self.waiting.pop_front() else { break };
            result = result.and(self.look_at(pid, &mut payload));
        }
        if all {
            result = result.and(self.begin.finish());
        } else if looked {
            result = result.and(self.begin.flush());
        }
        if let Err(error) = result {
            self.shared.trouble(format!("cannot write who was there when the sampling began: {error}"));
        }
    }

    fn look_at(&mut self, pid: i32, payload: &mut Vec<u8>) -> io::Result<()> {
        let start = self.start;
        let whose = |payload: &mut Vec<u8>, tid: i32| {
            payload.clear();
            payload.extend_from_slice(&pid.to_ne_bytes());
            payload.extend_from_slice(&tid.to_ne_bytes());
        };
        for (tid, name) in people::threads(pid) {
            whose(payload, tid);
            payload.push(0);
            text(payload, &name);
            self.begin.event(start, COMM, payload)?;
        }
        let mut makes = false;
        for found in people::mappings(pid) {
            whose(payload, pid);
            mapping(payload, [found.start, found.length, found.offset, found.inode], &found.path);
            makes |= people::is_made(&found.path);
            self.begin.event(start, MAPPING, payload)?;
        }
        if makes && self.makers.len() < MOST_MAKERS && self.makers.insert(pid) {
            if let Some((uid, inner)) = people::owner(pid) {
                whose(payload, pid);
                payload.extend_from_slice(&uid.to_ne_bytes());
                payload.extend_from_slice(&inner.to_ne_bytes());
                self.begin.event(start, PROCESS, payload)?;
            }
        }
        Ok(())
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.count_lost();
    }
}

fn mapping(payload: &mut Vec<u8>, words: [u64; 4], path: &[u8]) {
    words.iter().for_each(|word| payload.extend_from_slice(&word.to_ne_bytes()));
    text(payload, path);
}

fn text(payload: &mut Vec<u8>, text: &[u8]) {
    payload.extend_from_slice(text);
    payload.push(0);
}
