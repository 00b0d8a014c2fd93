//! Snapshots that wait for a condition. The recorder decodes the events of the rings only while
//! there is such a snapshot.
//!
//! At each turn it decodes the new events, before they are taken, from the position where it
//! stopped before. A ring that overwrites may be faster; events that were not seen are counted and
//! reported. Meanwhile there is a turn at least every two milliseconds.

use crate::clock::following;
use crate::control::condition::Condition;
use crate::control::mailbox::{Mailbox, Request};
use crate::control::trigger::{Fired, Seen, Trigger};
use crate::recorder::Recorder;
use crate::ring::{Fault, Look};
use crate::runtime_dir::process::{Process, Source};
use crate::snapshot::Cause;
use longpole_abi::{FieldType, RING_IDLE};
use std::time::{Duration, Instant};

/// Longest time between two looks.
const LONGEST: Duration = Duration::from_millis(2);
/// Interval at which the kernel's own counters are read.
const KERNEL: Duration = Duration::from_millis(50);

/// A request that waits for its condition.
#[derive(Debug)]
pub(crate) struct Watch {
    name: String,
    request: Request,
    trigger: Trigger,
    fired: Option<(Fired, u64)>,
}

/// All requests that wait for a condition.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    all: Vec<Watch>,
    /// Number of events that were overwritten before they were seen.
    unseen: u64,
    kernel_due: Option<Instant>,
    kernel_lost: Option<u64>,
}

impl Watches {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl Recorder {
    /// Takes up new requests, and drops those that were withdrawn.
    pub(crate) fn answer_requests(&mut self) {
        let Some(mailbox) = self.mailbox.take() else { return };
        mailbox.heard();
        let requests = mailbox.requests();
        self.watches.all.retain(|watch| requests.iter().any(|(name, _)| *name == watch.name));
        for (name, request) in requests {
            if self.watches.all.iter().any(|watch| watch.name == name) {
                continue;
            }
            match &request.when {
                None => {
                    let answer = self.snapshot(&request, None).map_err(|error| error.to_string());
                    mailbox.answer(&name, &answer);
                }
                Some(when) => match when.parse::<Condition>() {
                    Ok(condition) => self.arm(name, request.clone(), condition),
                    Err(error) => mailbox.answer(&name, &Err(error)),
                },
            }
        }
        self.mailbox = Some(mailbox);
    }

    /// Removes requests whose process was killed.
    pub(crate) fn forget_the_dead(&mut self) {
        let Some(mailbox) = &self.mailbox else { return };
        for watch in &self.watches.all {
            mailbox.remove_if_left(&watch.name);
        }
    }

    fn arm(&mut self, name: String, request: Request, condition: Condition) {
        if self.watches.is_empty() {
            // Earlier events do not count.
            let _ = self.in_each_directory(|recorder| {
                for source in recorder.place.subjects.values_mut().flat_map(|subject| &mut subject.sources) {
                    let look = source.ring.look().ok();
                    source.watched = look.map(|look| look.head);
                    source.seen_events = look.map_or(0, |look| look.events);
                }
                Ok::<(), ()>(())
            });
            self.watches.unseen = 0;
            self.watches.kernel_lost = None;
        }
        let trigger = Trigger::new(condition, self.clock.frequency, self.clock.now());
        self.watches.all.push(Watch { name, request, trigger, fired: None });
    }

    /// Passes the new events of a ring to the triggers. The classes of these events are already
    /// known.
    pub(crate) fn observe(&mut self, process: &Process, source: &mut Source, look: &Look) {
        let mut thread = (process.pid, source.tid);
        if look.lost > source.lost_before {
            let told = format!("{} events of thread {} were lost", look.lost - source.lost_before, source.tid);
            for watch in &mut self.watches.all {
                watch.trigger.lost(look.now, &told);
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
                self.watches.unseen = self.watches.unseen.saturating_add(missed);
                self.watches.all.iter_mut().for_each(|watch| watch.trigger.missed(thread));
            }
            source.seen_events = chunk.events_after;
            if chunk.tid != thread.1 {
                // The former thread has ended, because a ring belongs to one living thread.
                self.watches.all.iter_mut().for_each(|watch| watch.trigger.missed(thread));
                thread.1 = chunk.tid;
            }
            let mut bytes = std::mem::take(&mut self.scratch);
            if source.ring.copy(&chunk, &mut bytes) && source.ring.intact(&chunk) {
                self.show(&bytes, thread, chunk.begin);
            }
            self.scratch = bytes;
            at = chunk.tail;
        }
        source.watched = Some(at.max(source.watched.unwrap_or(0)));
        if look.state == RING_IDLE && at >= look.head {
            self.watches.all.iter_mut().for_each(|watch| watch.trigger.missed(thread));
        }
    }

    /// Tells the triggers that a process has ended. All of its events have been seen.
    pub(crate) fn watched_process_is_gone(&mut self, pid: i32) {
        self.watches.all.iter_mut().for_each(|watch| watch.trigger.gone(pid));
    }

    fn show(&mut self, bytes: &[u8], thread: (i32, i32), begin: u64) {
        let (mut at, mut time) = (0, begin);
        while let Some(event) = bytes.get(at..).and_then(|rest| self.place.classes.event(rest)) {
            let word = |offset: usize| event.bytes.get(offset..offset + 8).and_then(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
            time = following(time, word(0).unwrap_or(0) >> 16);
            let value = match (event.class.fields.first().map(|field| field.kind), word(8)) {
                (Some(FieldType::F64), Some(word)) => f64::from_bits(word),
                (Some(FieldType::I64), Some(word)) => word as i64 as f64,
                (_, word) => word.unwrap_or(0) as f64,
            };
            let name = event.name();
            let seen = Seen { thread, time, kind: event.class.kind, name: &name, value, capacity: event.class.capacity };
            self.watches.all.iter_mut().for_each(|watch| watch.trigger.event(seen));
            at += event.bytes.len();
        }
    }

    /// Checks all conditions after all rings were looked at, and takes the snapshots that are due.
    /// Returns the longest time until the next look; `None` without waiting requests.
    pub(crate) fn watch(&mut self) -> Option<Duration> {
        if self.watches.is_empty() {
            return None;
        }
        self.watch_kernel();
        let now = self.clock.now();
        let mut due = Vec::new();
        for (index, watch) in self.watches.all.iter_mut().enumerate() {
            if let (None, Some(fired)) = (&watch.fired, watch.trigger.time(now)) {
                watch.fired = Some((fired, now));
            }
            let Some((fired, seen)) = &watch.fired else { continue };
            let post = self.clock.ticks(Duration::from_nanos(watch.request.post_ns));
            if now >= fired.event.unwrap_or(*seen).saturating_add(post) {
                due.push(index);
            }
        }
        let mailbox: Option<Mailbox> = self.mailbox.take();
        for index in due.into_iter().rev() {
            let Watch { name, request, fired, .. } = self.watches.all.remove(index);
            let Some((Fired { event, told }, seen)) = fired else { continue };
            if self.watches.unseen > 0 {
                self.diagnostic(format!("{} events were overwritten before a trigger saw them", self.watches.unseen));
                self.watches.unseen = 0;
            }
            let answer = self.snapshot(&request, Some(Cause { event, seen, told })).map_err(|error| error.to_string());
            if let Some(mailbox) = &mailbox {
                mailbox.answer(&name, &answer);
            }
        }
        self.mailbox = mailbox;
        Some(LONGEST)
    }

    /// Reads the kernel's counters of lost events.
    fn watch_kernel(&mut self) {
        let now = Instant::now();
        if self.watches.kernel_due.is_some_and(|due| now < due) {
            return;
        }
        self.watches.kernel_due = Some(now + KERNEL);
        let Some(lost) = self.kernel_lost() else { return };
        let before = self.watches.kernel_lost.replace(lost);
        if before.is_some_and(|before| lost > before) {
            let told = format!("{} events of the kernel were lost", lost - before.unwrap_or(0));
            let now = self.clock.now();
            self.watches.all.iter_mut().for_each(|watch| watch.trigger.lost(now, &told));
        }
    }
}
