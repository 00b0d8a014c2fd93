//! Snapshots that wait for a condition. The recorder decodes the events of the rings only while
//! there is such a snapshot.
//!
//! At each turn it decodes the new events, before they are taken, from the position where it
//! stopped before. A ring that overwrites may be faster; events that were not seen are counted and
//! reported. Meanwhile there is a turn at least every two milliseconds.

use crate::clock::{following, Clock};
use crate::control::condition::Condition;
use crate::control::mailbox::Request;
use crate::control::trigger::{Cause, Fired, Seen, Trigger};
use crate::ring::class::Classes;
use crate::ring::{Fault, Look};
use crate::runtime_dir::process::Process;
use crate::subjects::ring_source::RingSource;
use longpole_abi::{FieldType, RING_IDLE};
use std::time::{Duration, Instant};

/// Longest time between two looks while a snapshot waits.
pub(crate) const MAX_LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// Interval at which the kernel's own counters are read.
const KERNEL: Duration = Duration::from_millis(50);

/// A request that waits for its condition.
#[derive(Debug)]
struct Watch {
    name: String,
    request: Request,
    trigger: Trigger,
    fired: Option<(Fired, u64)>,
}

/// All requests that wait for a condition.
#[derive(Debug, Default)]
pub(crate) struct Triggers {
    all: Vec<Watch>,
    /// Number of events that were overwritten before they were seen.
    unseen: u64,
    kernel_due: Option<Instant>,
    kernel_lost: Option<u64>,
}

/// A request whose snapshot is due.
#[derive(Debug)]
pub(crate) struct Due {
    pub name: String,
    pub request: Request,
    pub cause: Cause,
}

impl Triggers {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Names of the waiting requests.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|watch| watch.name.as_str())
    }

    /// Drops the requests that are not among `names`, because they were withdrawn.
    pub fn keep(&mut self, names: &[&str]) {
        self.all.retain(|watch| names.contains(&watch.name.as_str()));
    }

    /// Adds a request. If it is the first one, events that were written before do not count; the
    /// caller has set the positions of all rings ([`start_at_head`]).
    pub fn arm(&mut self, name: String, request: Request, condition: Condition, clock: &Clock) {
        if self.is_empty() {
            self.unseen = 0;
            self.kernel_lost = None;
        }
        let trigger = Trigger::new(condition, clock.frequency, clock.now());
        self.all.push(Watch { name, request, trigger, fired: None });
    }

    /// Passes the new events of a ring to the triggers. The classes of these events are already
    /// known. `scratch`: a buffer for copies of events.
    pub fn observe(&mut self, (classes, scratch): (&Classes, &mut Vec<u8>), process: &Process, source: &mut RingSource, look: &Look) {
        let mut thread = (process.pid, source.writer.tid);
        if look.lost > source.lost_before {
            let text = format!("{} events of thread {} were lost", look.lost - source.lost_before, source.writer.tid);
            for watch in &mut self.all {
                watch.trigger.lost(look.now, &text);
                watch.trigger.missed(thread);
            }
        }
        let mut at = source.watched.unwrap_or(source.ring.tail).max(source.ring.oldest(look.head).min(look.head));
        loop {
            let chunk = match source.ring.next_from(at, look, 0, true) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(Fault::Lapped) => {
                    at += source.ring.subbuffer() - at % source.ring.subbuffer();
                    continue;
                }
                // The error is reported when the events are taken.
                Err(_) => break,
            };
            let missed = if chunk.whole && source.ring.overwrites { chunk.events.saturating_sub(source.seen_events) } else { 0 };
            if missed > 0 && source.watched.is_some_and(|watched| watched < chunk.from - chunk.from % source.ring.subbuffer()) {
                self.unseen = self.unseen.saturating_add(missed);
                self.all.iter_mut().for_each(|watch| watch.trigger.missed(thread));
            }
            source.seen_events = chunk.events_after;
            if chunk.tid != thread.1 {
                // The former thread has ended, because a ring belongs to one living thread.
                self.all.iter_mut().for_each(|watch| watch.trigger.missed(thread));
                thread.1 = chunk.tid;
            }
            if source.ring.copy(&chunk, scratch) && source.ring.is_intact(&chunk) {
                self.show(classes, scratch, thread, chunk.begin);
            }
            at = chunk.tail;
        }
        source.watched = Some(at.max(source.watched.unwrap_or(0)));
        if look.state == RING_IDLE && at >= look.head {
            self.all.iter_mut().for_each(|watch| watch.trigger.missed(thread));
        }
    }

    /// Tells the triggers that a process has ended. All of its events have been seen.
    pub fn process_is_gone(&mut self, pid: i32) {
        self.all.iter_mut().for_each(|watch| watch.trigger.gone(pid));
    }

    fn show(&mut self, classes: &Classes, bytes: &[u8], thread: (i32, i32), begin: u64) {
        let (mut at, mut time) = (0, begin);
        while let Some(event) = bytes.get(at..).and_then(|rest| classes.event(rest)) {
            let word = |offset: usize| event.bytes.get(offset..offset + 8).and_then(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
            time = following(time, word(0).unwrap_or(0) >> 16);
            let value = match (event.class.fields.first().map(|field| field.kind), word(8)) {
                (Some(FieldType::F64), Some(word)) => f64::from_bits(word),
                (Some(FieldType::I64), Some(word)) => word as i64 as f64,
                (_, word) => word.unwrap_or(0) as f64,
            };
            let name = event.name();
            let seen = Seen { thread, time, kind: event.class.kind, name: &name, value, capacity: event.class.capacity };
            self.all.iter_mut().for_each(|watch| watch.trigger.event(seen));
            at += event.bytes.len();
        }
    }

    /// Checks all conditions after all rings were looked at. Returns the indices of the requests
    /// that are due, in ascending order.
    pub fn due(&mut self, clock: &Clock) -> Vec<usize> {
        let now = clock.now();
        let mut due = Vec::new();
        for (index, watch) in self.all.iter_mut().enumerate() {
            if let (None, Some(fired)) = (&watch.fired, watch.trigger.time(now)) {
                watch.fired = Some((fired, now));
            }
            let Some((fired, seen)) = &watch.fired else { continue };
            let post = clock.ticks(Duration::from_nanos(watch.request.post_ns));
            if now >= fired.event.unwrap_or(*seen).saturating_add(post) {
                due.push(index);
            }
        }
        due
    }

    /// Removes a request that is due. `None` if its condition has not become true.
    pub fn take(&mut self, index: usize) -> Option<Due> {
        let Watch { name, request, fired, .. } = self.all.remove(index);
        let (Fired { event, text }, seen) = fired?;
        Some(Due { name, request, cause: Cause { event, seen, text } })
    }

    /// Number of events that were overwritten before they were seen, since the last call.
    pub fn take_unseen(&mut self) -> u64 {
        std::mem::take(&mut self.unseen)
    }

    /// Returns whether the kernel's counters of lost events must be read now.
    pub fn reads_kernel(&mut self) -> bool {
        let now = Instant::now();
        if self.kernel_due.is_some_and(|due| now < due) {
            return false;
        }
        self.kernel_due = Some(now + KERNEL);
        true
    }

    /// Takes the number of events that the kernel has lost until now.
    pub fn kernel_has_lost(&mut self, lost: u64, clock: &Clock) {
        let before = self.kernel_lost.replace(lost);
        if before.is_some_and(|before| lost > before) {
            let text = format!("{} events of the kernel were lost", lost - before.unwrap_or(0));
            let now = clock.now();
            self.all.iter_mut().for_each(|watch| watch.trigger.lost(now, &text));
        }
    }
}

/// Makes triggers see only the events that the ring gets from now on.
pub(crate) fn start_at_head(source: &mut RingSource) {
    let look = source.ring.look().ok();
    source.watched = look.map(|look| look.head);
    source.seen_events = look.map_or(0, |look| look.events);
}
