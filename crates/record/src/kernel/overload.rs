//! Whether the kernel's events come faster than they can be stored, and what is given up then.
//!
//! Each CPU's buffer fills while the system works and is emptied by the thread that moves its
//! pages. Where the pages go to a disk that is slower than the system, or that thread has no CPU, a
//! buffer fills up, and the kernel overwrites its oldest page: of every CPU, and of all events
//! alike, so that hardly a wait has both of its ends. A second thread looks at the fill of the
//! buffers, which costs a few reads of counters. When a buffer loses events, or will be full sooner
//! than something could be done about it, the thread switches events off in the tracer's instance,
//! by the order in [`importance`](super::importance): one [`Step`] at a time, and the next one only
//! if that is not enough although the reader has taken pages since, or has let the time go by in
//! which a buffer filled when most came. What was switched off stays off: a recording whose meaning
//! changes twice is worse than one that holds less from some moment on.
//!
//! [`Overload`] decides, from numbers alone; [`Relief`] is the thread. Nothing here is done for a
//! flight recorder, whose buffers overwrite on purpose.

use super::importance::Step;
use super::source::Shared;
use crate::clock::Source as ClockSource;
use longpole_ftrace::CpuStats;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags};
use serde_json::{json, Value};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest time between two looks: that of the reader, which a calm buffer waits for as well.
const LONGEST: Duration = Duration::from_millis(100);
/// Shortest time between two looks. A look takes some 10 µs for each CPU, and a buffer of 20 MiB
/// fills in no less than 50 ms.
const SHORTEST: Duration = Duration::from_millis(5);

/// How full a CPU's buffer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Bytes that it can hold.
    pub size: u64,
    /// Bytes in it that nobody has taken yet.
    pub held: u64,
    /// Bytes that the reader has taken since the begin.
    pub taken: u64,
    /// Events that were lost since the begin.
    pub lost: u64,
}

/// What to do after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Look again after this time.
    Look(Duration),
    /// Switch the next events off, and say when that is done ([`Overload::switched_off`]).
    SwitchOff,
}

/// Decides when events are given up.
#[derive(Debug, Default)]
pub struct Overload {
    last: Option<(Duration, Vec<Fill>)>,
    /// Of each CPU: what the reader had taken when events were switched off last.
    taken: Vec<u64>,
    /// When that was.
    stepped: Duration,
    /// How long the longest switching off took. An event takes 0.1 ms, one that others use, too, up
    /// to 5.
    took: Duration,
    /// The shortest time so far in which a buffer would have been filled by what came between two
    /// looks. Fewer events fill it more slowly, so this is the least that another buffer takes.
    fills_in: Option<Duration>,
}

impl Overload {
    /// The buffers at a time of any clock that does not jump. The fills are of the same CPUs each
    /// time.
    pub fn look(&mut self, now: Duration, fills: &[Fill]) -> Advice {
        let Some((then, before)) = self.last.replace((now, fills.to_vec())) else { return Advice::Look(SHORTEST) };
        let spent = now.saturating_sub(then);
        // After the next look it may be too late for two steps: each takes its time, and between
        // them lie two looks that tell whether one is enough.
        let late = 3 * SHORTEST + 2 * self.took;
        let mut soonest = LONGEST * 2;
        for (fill, before) in fills.iter().zip(&before) {
            let filled = full_in(&Fill { held: 0, taken: fill.taken + fill.held, ..*fill }, before, spent);
            self.fills_in = Some(self.fills_in.map_or(filled, |known| known.min(filled)));
        }
        // A reader that stands still takes no more of fewer events. It may be a moment, or not.
        let another = self.fills_in.is_some_and(|filled| now.saturating_sub(self.stepped) >= filled);
        for (cpu, (fill, before)) in fills.iter().zip(&before).enumerate() {
            let full_in = full_in(fill, before, spent);
            soonest = soonest.min(full_in);
            let loses = fill.lost > before.lost;
            // The reader is woken at a quarter: at a half it has let as much time pass again as it
            // took until then.
            let fills_up = fill.held > before.held && fill.held >= fill.size / 2 && full_in <= late;
            // What was lost before the reader came again is no reason for another step.
            let reads = self.taken.get(cpu).is_none_or(|taken| before.taken > *taken);
            if (loses || fills_up) && (reads || another) {
                return Advice::SwitchOff;
            }
        }
        Advice::Look((soonest / 2).clamp(SHORTEST, LONGEST))
    }

    /// The events that were advised to are off; that took so long, and the reader has taken so much
    /// by now of each CPU.
    pub fn switched_off(&mut self, took: Duration, taken: impl IntoIterator<Item = u64>) {
        self.took = self.took.max(took);
        let last = self.last.as_ref().map_or(Duration::ZERO, |(last, _)| *last);
        self.stepped = last + took;
        self.taken = taken.into_iter().collect();
        // How fast buffers fill from now on says nothing but what comes from now on.
        self.last = None;
    }
}

/// The time until the buffer is full, if it goes on as since the look before and nobody takes
/// anything.
fn full_in(now: &Fill, before: &Fill, spent: Duration) -> Duration {
    let came = (now.held + now.taken).saturating_sub(before.held + before.taken);
    match came {
        0 => Duration::MAX,
        came => spent.mul_f64((now.size.saturating_sub(now.held) as f64 / came as f64).min(1e6)),
    }
}

/// Events that are not recorded from some moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchedOff {
    pub step: Step,
    /// In ticks: the first event may be missing from the one moment on, and all are from the other
    /// one on.
    pub begin: u64,
    pub end: u64,
}

impl SwitchedOff {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "what": self.step.what,
            "events": self.step.events,
            "calls": self.step.calls,
            "filter": self.step.filter,
            "begin": self.begin,
            "end": self.end,
        })
    }
}

/// The buffer of a CPU, as this thread sees it.
#[derive(Debug)]
pub(super) struct Buffer {
    /// `per_cpu/cpuN/stats`. Its being open keeps the instance from being removed.
    pub stats: File,
    pub size: u64,
    /// Counted by the reader.
    pub taken: Arc<AtomicU64>,
}

impl Buffer {
    fn fill(&self) -> io::Result<Fill> {
        let mut bytes = [0; 512];
        let count = self.stats.read_at(&mut bytes, 0)?;
        let text = String::from_utf8_lossy(&bytes[..count]);
        let stats = CpuStats::parse(&text).map_err(|line| io::Error::new(io::ErrorKind::InvalidData, line))?;
        Ok(Fill { size: self.size, held: stats.bytes, taken: self.taken.load(Ordering::Relaxed), lost: stats.lost() })
    }
}

/// The thread that looks at the buffers.
#[derive(Debug)]
pub(super) struct Relief {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
}

/// What the thread works with.
pub(super) struct Work {
    pub buffers: Vec<Buffer>,
    pub steps: VecDeque<Step>,
    /// Of the tracer's instance.
    pub instance: PathBuf,
    /// Filters of the events, as they were recorded until then.
    pub filters: Value,
    pub clock: ClockSource,
    pub shared: Arc<Shared>,
}

impl Relief {
    pub fn begin(work: Work) -> io::Result<Relief> {
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let stop = Arc::new(AtomicBool::new(false));
        let (waking, stopping) = (Arc::clone(&wake), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("longpole-relief".to_owned()).spawn(move || work.run(&waking, &stopping))?;
        Ok(Relief { thread: Some(thread), stop, wake })
    }
}

impl Drop for Relief {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Work {
    fn run(mut self, wake: &OwnedFd, stop: &AtomicBool) {
        let begin = Instant::now();
        let mut overload = Overload::default();
        while !stop.load(Ordering::Acquire) {
            let Ok(fills) = self.buffers.iter().map(Buffer::fill).collect::<io::Result<Vec<Fill>>>() else { return };
            match overload.look(begin.elapsed(), &fills) {
                Advice::Look(after) => {
                    let after = rustix::time::Timespec { tv_sec: after.as_secs() as i64, tv_nsec: i64::from(after.subsec_nanos()) };
                    let _ = poll(&mut [PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN)], Some(&after));
                }
                Advice::SwitchOff => {
                    let Some(step) = self.steps.pop_front() else { return };
                    let since = Instant::now();
                    self.switch_off(step);
                    let taken = self.buffers.iter().map(|buffer| buffer.taken.load(Ordering::Relaxed));
                    overload.switched_off(since.elapsed(), taken);
                }
            }
        }
    }

    fn switch_off(&self, step: Step) {
        let begin = self.clock.now();
        let mut events = Vec::new();
        for event in &step.events {
            let folder = self.instance.join("events").join(event.replace(':', "/"));
            let written = match &step.filter {
                None => fs::write(folder.join("enable"), "0"),
                Some(filter) => fs::write(folder.join("filter"), narrowed(self.filters[event].as_str(), filter)),
            };
            match written {
                Ok(()) => events.push(event.clone()),
                Err(error) => {
                    self.shared.trouble(format!("more events come than can be stored, and {event} cannot be switched off: {error}"))
                }
            }
        }
        let off = SwitchedOff { step: Step { events, ..step }, begin, end: self.clock.now() };
        self.shared.switched_off.lock().unwrap_or_else(PoisonError::into_inner).push(off);
    }
}

/// What fits both filters.
pub(super) fn narrowed(before: Option<&str>, filter: &str) -> String {
    match before {
        Some(before) => format!("({before}) && ({filter})"),
        None => filter.to_owned(),
    }
}
