//! Replaces a ring that is too small by a larger one.
//!
//! Until its thread has switched to the larger ring, nothing is taken from that one, because the
//! remaining events of the old ring come first. How a ring is made is in `ring::resize`; how much
//! memory larger rings may use is in `recording::larger_rings`.

use super::history::apply_full_ring_action;
use super::Drain;
use crate::recording::larger_rings::{MAX_LARGER_BYTES, MAX_SESSION_BYTES};
use crate::ring::resize;
use crate::subjects::ring_source::{Answer, Decision, Resize, RingSource};
use crate::subjects::Subject;

/// Number of periods after which a thread may get a larger ring before it is busy, subject to the
/// two limits below.
const MIN_PERIODS: u32 = 1;
/// Required free memory for such a ring, as a multiple of its size.
const FREE_MEMORY_FACTOR: u64 = 16;

impl Drain<'_> {
    /// Size of a larger ring for a thread that is not busy yet; called once a period.
    ///
    /// A thread's first ring fills within milliseconds, but the recorder looks at a nearly empty
    /// ring only once a period. A thread that suddenly becomes busy would lose most of the events
    /// of that period. Therefore the first threads get the larger ring in advance, within the
    /// limits above.
    pub(super) fn early(&self, source: &mut RingSource) -> Option<u64> {
        source.periods = source.periods.saturating_add(1);
        let may = source.periods > MIN_PERIODS
            && source.ring.size < MAX_LARGER_BYTES
            && !source.ring.overwrites
            && matches!(source.resize, Resize::Possible);
        let has_room =
            || self.recording.larger_rings.has_room_early() && self.common.runtime.free_memory() / FREE_MEMORY_FACTOR >= MAX_LARGER_BYTES;
        (may && has_room()).then_some(MAX_LARGER_BYTES)
    }

    /// Offers a larger ring to a thread if its ring should be larger or has the wrong mode.
    pub(super) fn offer_larger_ring(&mut self, subject: &mut Subject, at: usize, larger: Option<u64>) {
        let requested = subject.buffer;
        let source = &mut subject.rings[at];
        if let Some(refused) = source.take_refused() {
            self.common.runtime.remove(&refused.name);
            let (label, size) = (&subject.process.label, source.ring.size >> 10);
            let text = format!("{label}: a thread could not change to a larger ring, and keeps its ring of {size} KiB; --buffer sets a larger initial size");
            self.recording.note(text);
        }
        let action = self.recording.rules.full_ring_action_of(source.decision);
        let other = apply_full_ring_action(source, action);
        if !matches!(source.resize, Resize::Possible) || source.decision == Decision::NotRecorded {
            return;
        }
        let size = match requested {
            Some(requested) => requested,
            None if other => source.ring.size,
            None => match larger {
                Some(size) => size,
                None => return,
            },
        };
        if size <= source.ring.size && !other {
            return;
        }
        let size = size.max(source.ring.size);
        if requested.is_none() && !self.recording.larger_rings.has_room_for(size) {
            // Memory becomes free when other threads end.
            if !std::mem::replace(&mut source.denied, true) {
                let (label, most) = (&subject.process.label, MAX_SESSION_BYTES >> 20);
                let text = format!("{label}: events may be lost, because all larger rings together may use at most {most} MiB; record fewer programs, or set --buffer");
                self.recording.note(text);
            }
            return;
        }
        let number = subject.process.next_larger;
        // The number came from a foreign file name. The ring stores the number plus 1, which would
        // overflow.
        let Some(next) = number.checked_add(1) else {
            source.resize = Resize::Refused;
            return;
        };
        subject.process.next_larger = next;
        match resize::make(&self.common.runtime, &subject.process.stem, number, &source.ring, (size, action)) {
            Ok(ring) => {
                self.recording.larger_rings.add(self.common.stream, size);
                source.resize = Resize::Offered { larger: ring, answer: Answer::Unread };
            }
            Err(error) => {
                source.resize = Resize::Refused;
                self.recording.note(format!("{}: no larger ring: {error}", source.ring.name));
            }
        }
    }
}
