//! Detects that the kernel's events come faster than they can be stored, and gives up some kinds of
//! events then.
//!
//! Each CPU's buffer fills while the system works and is emptied by the thread that moves its
//! pages. If the disk is slower than the system, or that thread gets no CPU, a buffer fills up and
//! the kernel overwrites its oldest page. This happens on every CPU and to all kinds of events
//! alike, so that hardly any wait has both of its ends in the trace.
//!
//! To avoid that, a second thread looks at the fill of the buffers, which costs a few reads of
//! counters. When a buffer loses events, or will be full before anything could be done about it,
//! the thread switches events off in the tracer's instance, in the order of
//! [`importance`](super::importance). It takes one [`Step`] at a time. The next step follows only
//! if the first was not enough, and only after the reader has taken pages since then, or after the
//! time in which a buffer filled at the highest rate seen. What was switched off stays off: a
//! recording whose meaning changes twice is worse than one that holds less from some moment on.
//!
//! [`Overload`] decides, from numbers alone; [`OverloadThread`] is the thread. Nothing here is used
//! for a flight recorder, whose buffers overwrite on purpose.

use super::importance::Step;
use super::single_calls::abridged;
use super::source::cpu_loss::stats;
use super::source::pages::Shared;
use crate::clock::ClockSource;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags};
use serde_json::{json, Value};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest time between two looks. The reader of the pages uses the same time when a buffer fills
/// slowly.
const MAX_LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Shortest time between two looks. A look takes some 10 µs for each CPU, and a buffer of 20 MiB
/// fills in no less than 50 ms.
const MIN_LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Fill of a CPU's buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Size of the buffer in bytes.
    pub size: u64,
    /// Bytes in the buffer that were not taken yet.
    pub held: u64,
    /// Bytes that the reader has taken since the begin.
    pub taken: u64,
    /// Number of events that were lost since the begin.
    pub lost: u64,
}

/// What to do after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Look again after this time.
    Look(Duration),
    /// Switch the next events off, and call [`Overload::switched_off`] when that is done.
    SwitchOff,
}

/// Decides when events are given up.
#[derive(Debug, Default)]
pub struct Overload {
    /// Time of the last look, and the fills at that time.
    last: Option<(Duration, Vec<Fill>)>,
    /// For each CPU, the bytes that the reader had taken when events were switched off last.
    taken: Vec<u64>,
    /// Time at which events were switched off last.
    stepped: Duration,
    /// Longest time that switching off took. One event takes 0.1 ms; an event that other users of
    /// the tracer have enabled as well takes up to 5 ms.
    took: Duration,
    /// Shortest time in which a buffer would have been filled at the rate between two looks. Fewer
    /// events fill it more slowly, so a buffer needs at least this time to fill again.
    fills_in: Option<Duration>,
}

impl Overload {
    /// Looks at the buffers. `now` is the time of any clock that does not jump; `fills` must be of
    /// the same CPUs in each call.
    pub fn look(&mut self, now: Duration, fills: &[Fill]) -> Advice {
        let Some((then, before)) = self.last.replace((now, fills.to_vec())) else { return Advice::Look(MIN_LOOK_INTERVAL) };
        let spent = now.saturating_sub(then);
        // If a buffer is full within this time, there may be no time left for two steps. Each step
        // takes its time, and two looks between them are needed to see if one is enough.
        let late = 3 * MIN_LOOK_INTERVAL + 2 * self.took;
        let mut soonest = MAX_LOOK_INTERVAL * 2;
        for (fill, before) in fills.iter().zip(&before) {
            let filled = full_in(&Fill { held: 0, taken: fill.taken + fill.held, ..*fill }, before, spent);
            self.fills_in = Some(self.fills_in.map_or(filled, |known| known.min(filled)));
        }
        // A reader that is blocked takes nothing, even if fewer events come; it may be blocked only
        // for a moment. So after this time another step is allowed although nothing was taken.
        let another = self.fills_in.is_some_and(|filled| now.saturating_sub(self.stepped) >= filled);
        for (cpu, (fill, before)) in fills.iter().zip(&before).enumerate() {
            let full_in = full_in(fill, before, spent);
            soonest = soonest.min(full_in);
            let loses = fill.lost > before.lost;
            // The reader is woken at a quarter of the buffer. At a half, it has let as much time
            // pass again as the first quarter took.
            let fills_up = fill.held > before.held && fill.held >= fill.size / 2 && full_in <= late;
            // If the reader has not taken anything since the last step, events that are lost may be
            // due to the time before that step.
            let reads = self.taken.get(cpu).is_none_or(|taken| before.taken > *taken);
            if (loses || fills_up) && (reads || another) {
                return Advice::SwitchOff;
            }
        }
        Advice::Look((soonest / 2).clamp(MIN_LOOK_INTERVAL, MAX_LOOK_INTERVAL))
    }

    /// Must be called when the events are switched off. `took` is the time that this needed,
    /// `taken` the bytes that the reader has taken until now from each CPU.
    pub fn switched_off(&mut self, took: Duration, taken: impl IntoIterator<Item = u64>) {
        self.took = self.took.max(took);
        let last = self.last.as_ref().map_or(Duration::ZERO, |(last, _)| *last);
        self.stepped = last + took;
        self.taken = taken.into_iter().collect();
        // The fill rate from before does not apply to the events that are still recorded.
        self.last = None;
    }
}

/// Returns the time until the buffer is full, if events keep coming at the rate since the last look
/// and no page is taken.
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
    /// Time in ticks before the first event was switched off: events may be missing from here on.
    pub begin: u64,
    /// Time in ticks at which all events were switched off.
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

/// The buffer of a CPU, as the overload thread sees it.
#[derive(Debug)]
pub(super) struct Buffer {
    /// The file `per_cpu/cpuN/stats`. While it is open, the instance cannot be removed.
    pub stats: File,
    pub size: u64,
    /// Bytes that the reader has taken; the reader counts them.
    pub taken: Arc<AtomicU64>,
}

impl Buffer {
    fn fill(&self) -> io::Result<Fill> {
        let stats = stats(&self.stats)?;
        Ok(Fill { size: self.size, held: stats.bytes, taken: self.taken.load(Ordering::Relaxed), lost: stats.lost() })
    }
}

/// Handle of the thread that looks at the buffers. The thread ends when this is dropped.
#[derive(Debug)]
pub(super) struct OverloadThread {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
}

/// Everything that the thread needs.
pub(super) struct Work {
    pub buffers: Vec<Buffer>,
    pub steps: VecDeque<Step>,
    /// Folder of the tracer's instance.
    pub instance: PathBuf,
    /// Filters of the events as they were recorded until then, by event name.
    pub filters: Value,
    pub clock: ClockSource,
    pub shared: Arc<Shared>,
}

impl OverloadThread {
    /// Starts the thread.
    pub fn begin(work: Work) -> io::Result<OverloadThread> {
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let stop = Arc::new(AtomicBool::new(false));
        let (waking, stopping) = (Arc::clone(&wake), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("longpole-relief".to_owned()).spawn(move || work.run(&waking, &stopping))?;
        Ok(OverloadThread { thread: Some(thread), stop, wake })
    }
}

impl Drop for OverloadThread {
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

    /// Switches the events of a step off, and notes it. Events that cannot be switched off are
    /// reported and left out of the note.
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
                Err(error) => self
                    .shared
                    .trouble(format!("the kernel emits more events than can be stored, and {event} cannot be switched off: {error}")),
            }
        }
        let events = abridged(events.iter().map(String::as_str));
        let off = SwitchedOff { step: Step { events, ..step }, begin, end: self.clock.now() };
        self.shared.switched_off.lock().unwrap_or_else(PoisonError::into_inner).push(off);
    }
}

/// Returns a filter for events that match both filters.
pub(super) fn narrowed(before: Option<&str>, filter: &str) -> String {
    match before {
        Some(before) => format!("({before}) && ({filter})"),
        None => filter.to_owned(),
    }
}
