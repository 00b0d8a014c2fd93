//! Reads rings whose threads overwrite the oldest events (flight recorder mode).
//!
//! Nothing is taken from such a ring while its thread writes normally. When the thread ends, the
//! recording ends, or a snapshot is requested, the remaining events are copied, oldest sub-buffer
//! first. The thread does not stop for that. Each sub-buffer stores its own position, which changes
//! when it is overwritten; a copy whose sub-buffer was overwritten meanwhile is detected and left
//! out. The ring counts its events, and each sub-buffer stores the count at its begin, so the
//! number of missing events is exact.

use super::Drain;
use crate::control::policy::{FullRingAction, Mode};
use crate::recording::larger_rings::{larger, FIRST_LARGER_BYTES};
use crate::ring::{Fault, Look};
use crate::runtime_dir::process::Process;
use crate::subjects::ring_source::{Decision, RingSource};
use crate::subjects::Subject;
use std::sync::atomic::Ordering;

/// Clock ticks of silence after which an overwriting thread must begin another sub-buffer, whose
/// header holds a full time. An event holds 48 bits of its time, so a gap of 2^48 ticks would be
/// ambiguous.
const SILENT_TICKS: u64 = 1 << 46;

impl Drain<'_> {
    /// Handles a ring of which nothing is taken: offers a larger one if it is too small for a
    /// useful history, and makes the thread begin another sub-buffer after a long silence.
    pub(super) fn watch_overwriting_ring(&mut self, subject: &mut Subject, at: usize, look: &Look) {
        let source = &mut subject.rings[at];
        let written = look.head - source.head_before.min(look.head);
        source.head_before = look.head;
        // The time between two events of a sub-buffer must fit into an event's time bits.
        let quiet_since = source.quiet_since.filter(|_| written == 0).unwrap_or(look.now);
        source.quiet_since = Some(quiet_since);
        if look.now.saturating_sub(quiet_since) >= SILENT_TICKS {
            source.quiet_since = None;
            source.ring.seal();
        }
        let filled = match look.head > source.ring.size && source.ring.size < FIRST_LARGER_BYTES {
            true => 1.0,
            false => written as f64 / source.ring.size as f64,
        };
        let larger = if filled > 0.5 { larger(source.ring.size) } else { None };
        self.offer_larger_ring(subject, at, larger);
    }

    /// Takes all events that an overwriting ring still holds, and counts those that were
    /// overwritten. Only for the end of a ring: its thread has ended, switched to another ring, or
    /// has no orders to record.
    pub(super) fn take_history(&mut self, process: &Process, source: &mut RingSource, look: &Look) {
        source.ring.tail = source.ring.oldest(look.head);
        loop {
            let previous = source.lane.and_then(|lane| self.recording.files.stream_files.get(lane)).map_or(0, |lane| lane.end);
            let slice = match source.ring.next(look, previous, true) {
                Ok(Some(slice)) => slice,
                Ok(None) => break,
                Err(Fault::Lapped) => {
                    source.ring.tail = source.ring.next_subbuffer(source.ring.tail);
                    continue;
                }
                Err(fault) => return self.give_up(source, &fault.to_string()),
            };
            self.update_writer(process, source, &slice);
            let (taken, extra) = (source.ring.taken, source.extra_lost);
            if slice.whole {
                source.extra_lost = extra.saturating_add(slice.events.saturating_sub(taken));
            }
            source.ring.taken = slice.events_after;
            if source.decision == Decision::NotRecorded {
                self.drop_slice(source, &slice);
                continue;
            }
            self.write_slice(process, source, slice);
            if source.broken {
                return;
            }
            if source.ring.tail != slice.tail {
                // The slice was overwritten after all: its events are counted with the next slice.
                (source.ring.taken, source.extra_lost) = (taken, extra);
                source.ring.tail = source.ring.next_subbuffer(source.ring.tail);
            }
        }
        source.extra_lost = source.extra_lost.saturating_add(look.events.saturating_sub(source.ring.taken));
        source.ring.taken = look.events;
        let reported = source.ring.reported;
        source.ring.release(look.head.max(source.ring.tail), reported);
    }
}

/// Applies the policy to a ring as far as that is possible while it is written. Returns true if
/// the policy needs another ring.
pub(super) fn apply_full_ring_action(source: &RingSource, action: FullRingAction) -> bool {
    let overwrites = action.mode == Mode::Overwrite;
    if overwrites != source.ring.overwrites {
        return true;
    }
    if !overwrites {
        let layout = source.ring.layout();
        layout.block_limit.store(action.limit(), Ordering::Relaxed);
        layout.mode.store(action.mode.number(), Ordering::Relaxed);
    }
    false
}
