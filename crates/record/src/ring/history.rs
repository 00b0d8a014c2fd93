//! What a ring holds whose thread overwrites the oldest: a flight recorder's memory.
//!
//! Nothing is taken from such a ring while its thread writes. When the thread goes away, or the recording ends, or somebody wants a
//! snapshot, what it still holds is copied, oldest sub-buffer first. The thread does not stop for that: each sub-buffer says
//! which one it is before and after it is overwritten, so that a copy that was overtaken is seen and left out. The ring counts its events, and
//! each sub-buffer knows the count at its begin: what is missing is known exactly.

use crate::control::policy::{Manner, Mode, Policy};
use crate::output::stream::Body;
use crate::recorder::{Recorder, Subject};
use crate::ring::resize;
use crate::ring::{Chunk, Fault, Look, Ring};
use crate::runtime_dir::process::{Process, Source, Verdict};
use std::sync::atomic::{fence, AtomicU64, Ordering};

/// Ticks of silence after which a thread that overwrites is made to begin another sub-buffer, which has a whole time stamp: 2^48 are too many.
const QUIET: u64 = 1 << 46;

impl Ring {
    /// The next event begins another sub-buffer. These two words are the thread's own, and only limits: a smaller one is always right.
    fn seal(&self) {
        let layout = self.layout();
        layout.limit.store(0, Ordering::Relaxed);
        layout.end.store(0, Ordering::Relaxed);
    }

    /// Where the oldest sub-buffer begins that can still be there, given the head; or `tail`, if that is later.
    pub fn oldest(&self, head: u64) -> u64 {
        let newest = head.saturating_sub(1);
        let current = newest - newest % self.subbuffer();
        current.saturating_sub(self.size - self.subbuffer()).max(self.tail)
    }

    /// Nanoseconds that its thread has waited for room in this recording.
    pub fn waited(&self) -> u64 {
        self.layout().waited.load(Ordering::Relaxed).saturating_sub(self.waited_before)
    }

    /// The word that says which sub-buffer a chunk's place holds, and what it must be.
    pub fn identity(&self, chunk: &Chunk) -> Option<(&AtomicU64, u64)> {
        let begin = chunk.from - chunk.from % self.subbuffer();
        self.overwrites.then(|| Some((&self.subbuffer_at(begin).ok()?.position, begin))).flatten()
    }

    /// A chunk's events, to be written from where they are.
    pub fn body(&self, chunk: &Chunk) -> Body<'_> {
        Body {
            mapping: self.mapping(),
            offset: self.offset(chunk.from),
            length: (chunk.to - chunk.from) as usize,
            aligned: chunk.whole,
            identity: self.identity(chunk),
        }
    }

    /// Whether what was copied of a chunk is what it held: its thread has not begun anew there.
    pub fn intact(&self, chunk: &Chunk) -> bool {
        fence(Ordering::Acquire);
        self.identity(chunk).is_none_or(|(word, begin)| word.load(Ordering::Relaxed) == begin)
    }
}

impl Recorder {
    /// The policy that wants a ring.
    pub(crate) fn policy_of(&self, verdict: Verdict) -> Option<&Policy> {
        match verdict {
            Verdict::Policy(index) => self.config.policy.get(index),
            _ => None,
        }
    }

    /// What a full ring does.
    pub(crate) fn manner_of(&self, verdict: Verdict) -> Manner {
        self.manner(self.config.manner(self.policy_of(verdict)))
    }

    /// The same, as the options have it.
    pub(crate) fn manner(&self, manner: Manner) -> Manner {
        Manner { mode: self.options.mode.unwrap_or(manner.mode), ..manner }
    }

    /// A ring of which nothing is taken: it may be too small to remember anything.
    pub(crate) fn keep(&mut self, subject: &mut Subject, at: usize, look: &Look) {
        let source = &mut subject.sources[at];
        let written = look.head - source.head_before.min(look.head);
        source.head_before = look.head;
        // Between two events of a sub-buffer no more time may pass than an event's time bits can tell.
        let quiet_since = source.quiet_since.filter(|_| written == 0).unwrap_or(look.now);
        source.quiet_since = Some(quiet_since);
        if look.now.saturating_sub(quiet_since) >= QUIET {
            source.quiet_since = None;
            source.ring.seal();
        }
        let filled = match look.head > source.ring.size && source.ring.size < resize::BUSY {
            true => 1.0,
            false => written as f64 / source.ring.size as f64,
        };
        let larger = if filled > 0.5 { resize::larger(source.ring.size) } else { None };
        self.consider_successor(subject, at, larger);
    }

    /// Takes all that an overwriting ring holds, and counts what it no longer does. For the end: its thread has ended, gone over, or was told to
    /// write no more.
    pub(crate) fn take_history(&mut self, process: &Process, source: &mut Source, look: &Look) {
        source.ring.tail = source.ring.oldest(look.head);
        loop {
            let previous = source.lane.and_then(|lane| self.lanes[lane].as_ref()).map_or(0, |lane| lane.end);
            let chunk = match source.ring.next(look, previous, true) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(Fault::Lapped) => {
                    source.ring.tail = source.ring.begun() + source.ring.subbuffer();
                    continue;
                }
                Err(fault) => return self.give_up(source, &fault.to_string()),
            };
            self.belongs(process, source, &chunk);
            let (taken, extra) = (source.ring.taken, source.extra_lost);
            if chunk.whole {
                source.extra_lost = extra.saturating_add(chunk.events.saturating_sub(taken));
            }
            source.ring.taken = chunk.events_after;
            if source.verdict == Verdict::Unwanted {
                self.drop_chunk(source, &chunk);
                continue;
            }
            self.packet(process, source, chunk);
            if source.broken {
                return;
            }
            if source.ring.tail != chunk.tail {
                // Lapped after all: what is missing is counted with the next one.
                (source.ring.taken, source.extra_lost) = (taken, extra);
                source.ring.tail = source.ring.begun() + source.ring.subbuffer();
            }
        }
        source.extra_lost = source.extra_lost.saturating_add(look.events.saturating_sub(source.ring.taken));
        source.ring.taken = look.events;
        let reported = source.ring.reported;
        source.ring.release(look.head.max(source.ring.tail), reported);
    }

    /// Has a ring do what its policy says as far as it can while it is written; true: it takes another ring.
    pub(crate) fn adjust(&self, source: &Source, manner: Manner) -> bool {
        let overwrites = manner.mode == Mode::Overwrite;
        if overwrites != source.ring.overwrites {
            return true;
        }
        if !overwrites {
            let layout = source.ring.layout();
            layout.block_limit.store(manner.limit(), Ordering::Relaxed);
            layout.mode.store(manner.mode.number(), Ordering::Relaxed);
        }
        false
    }
}
