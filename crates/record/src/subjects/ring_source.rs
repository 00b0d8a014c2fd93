//! A ring of a process, with the recorder's decisions and counters.

use crate::output::disk::Waiting;
use crate::output::packet::padded;
use crate::ring::{Look, Ring};
use crate::runtime_dir::proc_status;
use crate::runtime_dir::process::Process;
use crate::text::printable;
use longpole_abi::RING_OWNED;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time after which a thread's name is read for the second time.
const FIRST_NAME: Duration = Duration::from_millis(1);

/// Number of periods between two reads of the name of a thread that writes nothing. With hundreds
/// of such threads, more frequent reads would be most of an idle recorder's work.
const SILENT: u32 = 64;

/// A ring of a process, with the recorder's decisions and counters.
#[derive(Debug)]
pub struct RingSource {
    /// The ring that is being read.
    pub ring: Ring,
    /// Larger ring that replaces `ring` once the thread has switched.
    pub successor: Option<Ring>,
    /// The thread did not take a larger ring; it is not offered another.
    pub settled: bool,
    /// A larger ring was refused for lack of memory; the diagnostic is written only once.
    pub denied: bool,
    /// Index of the ring's stream file; `None` before its first packet.
    pub lane: Option<usize>,
    /// Decision whether the events of the ring are recorded.
    pub decision: Decision,
    /// Name of the thread, padded with NUL.
    pub thread: [u8; 32],
    /// Time of the next read of the thread's name. Afterwards the interval doubles, up to one
    /// period, or up to [`SILENT`] periods while the thread writes nothing, because most names are
    /// set soon after the start of a thread.
    name_due: Instant,
    name_step: Duration,
    /// Tid of the thread, in its own pid namespace.
    pub tid: i32,
    /// Number of lost events that are in none of the ring's counters.
    pub extra_lost: u64,
    /// Number of lost events that are already in the capture file but not yet in the stream file.
    pub captured: u64,
    /// The ring's `lost` counter at the previous look.
    pub lost_before: u64,
    /// The head at the newest look; only for rings that overwrite.
    pub head_before: u64,
    /// Clock at the last look that found new events; only for rings that overwrite.
    pub quiet_since: Option<u64>,
    /// Position up to which triggers have seen the ring; `None` while there are no triggers.
    pub watched: Option<u64>,
    /// The ring's `events` counter at `watched`.
    pub seen_events: u64,
    /// State of the offer of a larger ring: the thread was seen to have read it, and then the head
    /// one turn later.
    pub answered: Option<Option<u64>>,
    /// The ring cannot be read any further.
    pub broken: bool,
    /// The disk is too slow for this ring, so its packets go through the page cache.
    pub hurried: bool,
    /// The ring is not nearly full and loses nothing.
    pub has_room: bool,
    /// Time of the newest look.
    pub looked: Instant,
    /// The ring is ended, empty, and has no replacement.
    pub over: bool,
    /// State of the ring at this turn's look.
    pub look: Option<Look>,
    /// Bytes of events taken in this turn.
    pub content: u64,
    /// Number of periods in which the ring was looked at.
    pub periods: u32,
    /// Time from which the events of an unfinished sub-buffer are taken as well.
    pub partial: Instant,
    /// Begin of the sub-buffer that contained `tail` when `partial` was last reached.
    pub begun: u64,
}

/// Decision whether the events of a ring are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Undecided,
    /// Recorded, because there are no policies.
    Everything,
    /// Recorded by the policy with this index.
    Policy(usize),
    NotRecorded,
}

impl RingSource {
    pub fn new(ring: Ring) -> RingSource {
        let mut thread = [0; 32];
        for (byte, from) in thread.iter_mut().zip(&ring.layout().thread) {
            *byte = from.load(Ordering::Relaxed);
        }
        let tid = ring.tid();
        let lost_before = ring.reported;
        RingSource {
            ring,
            successor: None,
            settled: false,
            denied: false,
            lane: None,
            decision: Decision::Undecided,
            thread,
            name_due: Instant::now(),
            name_step: FIRST_NAME,
            tid,
            extra_lost: 0,
            captured: 0,
            lost_before,
            head_before: 0,
            quiet_since: None,
            watched: None,
            seen_events: 0,
            answered: None,
            broken: false,
            hurried: false,
            has_room: false,
            looked: Instant::now(),
            over: false,
            look: None,
            content: 0,
            periods: 0,
            partial: Instant::now(),
            begun: 0,
        }
    }

    /// Bytes of its larger rings: of those that a recorder made.
    pub fn larger_rings(&self) -> u64 {
        let rings = [Some(&self.ring), self.successor.as_ref()];
        rings.into_iter().flatten().filter(|ring| !ring.own).map(|ring| ring.size).sum()
    }

    /// The ring's state for the estimate of the disk's speed, from the newest look.
    pub fn waiting(&mut self, now: Instant) -> Waiting {
        let since = now.duration_since(std::mem::replace(&mut self.looked, now));
        match &self.look {
            Some(look) if !self.ring.overwrites && self.decision != Decision::NotRecorded => {
                let content = look.head - self.ring.tail;
                Waiting { size: self.ring.size, content, since, is_full: look.lost > self.lost_before }
            }
            _ => Waiting::default(),
        }
    }

    /// Returns whether there is something that the newest look did not show, because the ring has
    /// changed since.
    pub fn fresh_since_look(&self) -> bool {
        let ended = self.successor.is_some() && self.ring.is_ended();
        ended || self.ring.layout().head.load(Ordering::Acquire) != self.ring.tail
    }

    /// Assigns the ring to another thread that has taken it over.
    pub fn taken(&mut self, tid: i32, thread: [u8; 32]) {
        (self.tid, self.thread, self.name_step) = (tid, thread, FIRST_NAME);
        self.name_due = Instant::now();
    }

    /// Reads the thread's name if that is due. The ring holds the name at the thread's first event,
    /// and threads are often named later. Returns whether the name has changed. `news`: the ring
    /// has new events, whose policy depends on the name.
    pub fn refresh_name(&mut self, process: &Process, period: Duration, news: bool, last: bool) -> bool {
        let now = Instant::now();
        let overdue = news && self.name_step > period;
        if now < self.name_due && !overdue && !last {
            return false;
        }
        let longest = if news { period } else { period * SILENT };
        self.name_step = self.name_step.min(longest);
        self.name_due = now + self.name_step;
        self.name_step = (self.name_step * 2).min(longest);
        let layout = self.ring.layout();
        if layout.state.load(Ordering::Relaxed) != RING_OWNED || self.ring.tid() != self.tid {
            return false;
        }
        let Some(name) = proc_status::thread_name(process.pid, process.tid(self.tid)) else { return false };
        let before = std::mem::replace(&mut self.thread, padded(&name));
        before != self.thread
    }

    pub fn thread_name(&self) -> String {
        printable(&self.thread)
    }
}
