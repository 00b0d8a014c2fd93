//! Opens the rings of a process.

use super::Attach;
use crate::files::mapping::Access;
use crate::ring::Ring;
use crate::runtime_dir::{ring_name, Entry};
use crate::subjects::ring_source::{Answer, Resize, RingSource};
use crate::subjects::Subject;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;

/// Number of turns after which an announced ring file is no longer expected.
pub(super) const MAX_WAITING_TURNS: u32 = 100;
/// Limit of the number of rings of a process.
pub(super) const MAX_RINGS: usize = 1 << 16;

/// The rings of each process: (made by the process itself, number). Built once per listing, not
/// once per process, because thousands of processes may appear together.
pub(super) type Rings<'a> = HashMap<&'a str, Vec<(bool, u32)>>;

/// The rings in a listing of a runtime directory.
pub(super) fn rings_of(entries: &[(String, Entry)]) -> Rings<'_> {
    let mut rings: Rings = HashMap::new();
    for (_, entry) in entries {
        if let Entry::Ring { stem, number, own } = entry {
            rings.entry(stem).or_default().push((*own, *number));
        }
    }
    rings
}

impl Attach<'_> {
    /// Opens the existing rings of a process.
    pub(super) fn take_rings(&mut self, subject: &mut Subject, rings: &Rings, before: bool, continued: bool) {
        let mut rings = rings.get(subject.process.stem.as_str()).cloned().unwrap_or_default();
        rings.sort_unstable();
        for (own, number) in rings.iter().copied() {
            if !own {
                subject.process.next_larger = subject.process.next_larger.max(number.saturating_add(1));
            }
            // A ring that is just getting its name, and the rings after it, are taken at the next
            // visit of the process.
            if !self.take_ring(subject, number, own, before, continued) && own {
                break;
            }
            subject.process.rings_seen = if own { number.saturating_add(1) } else { 0 };
        }
        attach_larger_rings(&mut subject.rings);
    }

    /// Opens a ring and skips the events in it that were written before this recording. Returns
    /// false if the file does not exist yet.
    pub(super) fn take_ring(&mut self, subject: &mut Subject, number: u32, own: bool, before: bool, continued: bool) -> bool {
        let name = ring_name(&subject.process.stem, number, own);
        if subject.rings.len() >= MAX_RINGS {
            self.recording.note(format!("{}: more than {MAX_RINGS} rings; the others are not read", subject.process.stem));
            return true;
        }
        let mut ring = match Ring::open(&self.common.runtime, &name, number, own, Access::Write) {
            Ok(ring) => ring,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ResourceBusy) => return false,
            Err(error) => {
                self.recording.note(format!("{name} was ignored: {error}"));
                if subject.ignored.len() < MAX_RINGS {
                    subject.ignored.push(name);
                }
                return true;
            }
        };
        if continued {
            if let Some(predecessor) = &self.intake.predecessor {
                predecessor.set_tail(&mut ring);
            }
        }
        let mut source = RingSource::new(ring);
        if before && !continued {
            self.skip_leftovers(&mut source);
        }
        if source.ring.clock != self.recording.clock.source.number() && !source.broken {
            source.broken = true;
            self.recording.note(format!("{name} was ignored: its events have another clock than this recording"));
        }
        source.ring.layout().session.store(self.recording.rules.session, Ordering::Relaxed);
        source.ring.layout().lane.store(0, Ordering::Relaxed);
        subject.rings.push(source);
        true
    }

    /// Skips events that a thread wrote after the previous recording had ended: too late for that
    /// recording and too early for this one. They are counted as lost in this one.
    fn skip_leftovers(&mut self, source: &mut RingSource) {
        let Ok(mut look) = source.ring.look() else { return };
        look.last = look.last.or(Some(0));
        self.drain().learn_sites();
        let mut events = 0;
        if source.ring.overwrites {
            // The thread itself counts the events of such a ring.
            events = look.events.saturating_sub(source.ring.taken);
            source.ring.taken = look.events;
            source.ring.tail = look.head;
        }
        while let Ok(Some(chunk)) = source.ring.next(&look, 0, true) {
            let bytes = &mut self.recording.scratch;
            let counted = if source.ring.copy(&chunk, bytes) { self.common.classes.count(bytes) } else { Err(1) };
            events += counted.unwrap_or_else(|least| least);
            if counted.is_err() {
                self.recording
                    .note(format!("{}: more events of an earlier recording were left over than are counted as lost", source.ring.name));
            }
            source.ring.tail = chunk.tail;
        }
        let reported = source.ring.reported;
        source.ring.release(look.head.max(source.ring.tail), reported);
        source.extra_lost = events;
    }
}

/// Attaches each ring that a recorder made to the ring that names it.
fn attach_larger_rings(rings: &mut Vec<RingSource>) {
    let mut at = 0;
    while at < rings.len() {
        let offered = rings[at].ring.layout().successor.load(Ordering::Relaxed);
        let next = offered
            .checked_sub(1)
            .and_then(|number| rings.iter().position(|source| !source.ring.own && source.ring.number == number && source.ring.tail == 0));
        match next {
            Some(next) if next != at && rings[next].larger().is_none() => {
                let taken = rings.remove(next);
                let at_now = if next < at { at - 1 } else { at };
                rings[at_now].resize = Resize::Offered { larger: taken.ring, answer: Answer::Unread };
                at = at_now + 1;
            }
            _ => at += 1,
        }
    }
}
