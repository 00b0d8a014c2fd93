//! A ring of a process, with the recorder's decisions and counters.

use crate::output::disk::Waiting;
use crate::ring::{Look, Ring};
use crate::runtime_dir::process::Process;
use crate::subjects::writer::Writer;
use longpole_abi::RING_OWNED;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A ring of a process, with the recorder's decisions and counters.
#[derive(Debug)]
pub struct RingSource {
    /// The ring that is being read.
    pub ring: Ring,
    pub resize: Resize,
    /// True if a larger ring was refused for lack of memory; the diagnostic is written only once.
    pub denied: bool,
    /// Index of the ring's stream file; `None` before its first packet.
    pub lane: Option<usize>,
    /// Decision whether the events of the ring are recorded.
    pub decision: Decision,
    pub writer: Writer,
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
    /// True if the ring cannot be read any further.
    pub broken: bool,
    /// True if the packets go through the page cache, because direct I/O is too slow for this ring.
    pub uses_page_cache: bool,
    /// True if the ring is not nearly full and loses nothing.
    pub has_room: bool,
    /// Time of the newest look.
    pub looked: Instant,
    /// True if the ring is ended, empty, and has no replacement.
    pub over: bool,
    /// State of the ring at this turn's look.
    pub look: Option<Look>,
    /// Bytes of events taken in this turn.
    pub content: u64,
    /// Number of periods in which the ring was looked at.
    pub periods: u32,
    /// Time from which the events of an unfinished sub-buffer are taken as well.
    pub take_partial_at: Instant,
    /// Begin of the sub-buffer that contained `tail` when `take_partial_at` was last reached.
    pub subbuffer_at_partial: u64,
}

/// State of the replacement of a ring by a larger one.
#[derive(Debug)]
pub enum Resize {
    /// The thread may be offered a larger ring.
    Possible,
    /// The larger ring replaces the ring once the thread has switched.
    Offered { larger: Ring, answer: Answer },
    /// The thread did not take a larger ring, or none could be made. It is not offered another.
    Refused,
}

/// Reaction of the thread to the offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The thread has not read the number of the larger ring.
    Unread,
    /// The thread has read the number.
    Read,
    /// The number had been read one turn earlier; `head` is the ring's head at that time. If the
    /// head moves, the thread has refused.
    ReadAndStillWriting { head: u64 },
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
        let writer = Writer::new(ring.tid(), thread);
        let lost_before = ring.reported;
        RingSource {
            ring,
            resize: Resize::Possible,
            denied: false,
            lane: None,
            decision: Decision::Undecided,
            writer,
            extra_lost: 0,
            captured: 0,
            lost_before,
            head_before: 0,
            quiet_since: None,
            watched: None,
            seen_events: 0,
            broken: false,
            uses_page_cache: false,
            has_room: false,
            looked: Instant::now(),
            over: false,
            look: None,
            content: 0,
            periods: 0,
            take_partial_at: Instant::now(),
            subbuffer_at_partial: 0,
        }
    }

    /// The larger ring to which the thread is about to switch.
    pub fn larger(&self) -> Option<&Ring> {
        match &self.resize {
            Resize::Offered { larger, .. } => Some(larger),
            Resize::Possible | Resize::Refused => None,
        }
    }

    /// Takes the larger ring. The thread may be offered a further one.
    pub fn take_larger(&mut self) -> Option<Ring> {
        match std::mem::replace(&mut self.resize, Resize::Possible) {
            Resize::Offered { larger, .. } => Some(larger),
            other => {
                self.resize = other;
                None
            }
        }
    }

    /// Takes the larger ring if the thread will not switch to it; to be called once a turn. The
    /// thread has read the number of the larger ring and still writes here, so it could not map the
    /// file. It is not asked again.
    pub fn take_refused(&mut self) -> Option<Ring> {
        let Resize::Offered { answer, .. } = &mut self.resize else { return None };
        if self.ring.layout().successor.load(Ordering::Acquire) != 0 {
            return None;
        }
        let now = self.ring.layout().head.load(Ordering::Acquire);
        match *answer {
            Answer::Unread => *answer = Answer::Read,
            Answer::Read => *answer = Answer::ReadAndStillWriting { head: now },
            Answer::ReadAndStillWriting { head } if now != head && !self.ring.is_ended() => {
                let refused = self.take_larger();
                self.resize = Resize::Refused;
                return refused;
            }
            Answer::ReadAndStillWriting { .. } => {}
        }
        None
    }

    /// Bytes of its larger rings: of those that a recorder made.
    pub fn larger_rings(&self) -> u64 {
        let rings = [Some(&self.ring), self.larger()];
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
        let ended = self.larger().is_some() && self.ring.is_ended();
        ended || self.ring.layout().head.load(Ordering::Acquire) != self.ring.tail
    }

    /// Reads the thread's name if that is due. Returns whether it has changed. `news`: the ring has
    /// new events, whose policy depends on the name.
    pub fn refresh_name(&mut self, process: &Process, period: Duration, news: bool, last: bool) -> bool {
        if !self.writer.is_due(period, news, last) {
            return false;
        }
        let layout = self.ring.layout();
        if layout.state.load(Ordering::Relaxed) != RING_OWNED || self.ring.tid() != self.writer.tid {
            return false;
        }
        self.writer.read_name(process)
    }
}
