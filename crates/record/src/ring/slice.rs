//! The next events of a ring that can be taken, and their times.
//!
//! The header of a sub-buffer holds the time of its first event, and an event only the lower bits
//! of its own, so the time of a slice's begin and end is found without decoding the events between.
//!
//! Each sub-buffer stores its own position, which changes when its thread overwrites it; a copy
//! whose sub-buffer was overwritten meanwhile is detected.

use super::{Fault, Look, Ring};
use crate::clock::{extend, newest};
use crate::output::stream::Body;
use longpole_abi::{Subbuffer, SUBBUFFER_HEADER};
use std::sync::atomic::{fence, AtomicU64, Ordering};

/// Contiguous events of one sub-buffer that become one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSlice {
    /// Position of the first event.
    pub from: u64,
    /// Position after the last event.
    pub to: u64,
    /// New value of `tail` once the slice has been taken.
    pub tail: u64,
    /// Time of the packet's begin, in clock ticks.
    pub begin: u64,
    /// Time of the packet's end, in clock ticks.
    pub end: u64,
    /// The ring's `lost` counter when the sub-buffer was begun.
    pub lost: u64,
    /// Pid of the writer, in its own pid namespace.
    pub pid: i32,
    /// Tid of the writer, in its own pid namespace.
    pub tid: i32,
    /// Name of the writer, padded with NUL.
    pub thread: [u8; 32],
    /// True if the slice begins at the begin of its sub-buffer.
    pub whole: bool,
    /// The ring's `events` counter at `from`; valid only if `whole`.
    pub events: u64,
    /// The ring's `events` counter at `tail`.
    pub events_after: u64,
}

/// The part of a sub-buffer that holds the next events.
struct Extent<'a> {
    header: &'a Subbuffer,
    /// Position of the sub-buffer.
    begin: u64,
    from: u64,
    to: u64,
    /// True if the thread writes to a later sub-buffer.
    complete: bool,
}

impl Extent<'_> {
    /// Returns true if the extent begins at the begin of its sub-buffer.
    fn is_whole(&self) -> bool {
        self.from == self.begin + SUBBUFFER_HEADER
    }
}

impl Ring {
    /// Returns the next events that can be taken; `None` if there are none yet. Without `partial`,
    /// a sub-buffer is left alone until it is complete. `previous` is the end time of the previous
    /// packet: the new packet does not begin before it.
    pub fn next(&self, look: &Look, previous: u64, partial: bool) -> Result<Option<RingSlice>, Fault> {
        self.next_from(self.tail, look, previous, partial)
    }

    /// Does the same as [`next`](Ring::next) if everything before `tail` has been taken. For a ring
    /// that overwrites, the result is valid only if the slice is [`intact`](Ring::is_intact) after
    /// it was copied.
    pub fn next_from(&self, tail: u64, look: &Look, previous: u64, partial: bool) -> Result<Option<RingSlice>, Fault> {
        let Some(extent) = self.extent(tail, look)?.filter(|extent| extent.complete || partial) else { return Ok(None) };
        let next = extent.begin + self.subbuffer();
        let (started, first) = self.begin_times(&extent, look);
        let Some(end) = self.end_time(&extent, look, (started, first))? else { return Ok(None) };
        let events_after = match extent.complete {
            true => self.subbuffer_at(next)?.events.load(Ordering::Relaxed),
            false => look.events,
        };
        if self.mapping().poisoned() {
            return Err(Fault::Gone);
        }
        // A ring that a correct program writes needs none of these corrections.
        let begin = started.clamp(previous, first.max(previous));
        let Extent { header, from, to, complete, .. } = extent;
        let mut thread = [0; 32];
        for (byte, from) in thread.iter_mut().zip(&header.thread) {
            *byte = from.load(Ordering::Relaxed);
        }
        Ok(Some(RingSlice {
            from,
            to,
            tail: if complete { next } else { to },
            begin,
            end: end.max(begin),
            lost: header.lost.load(Ordering::Relaxed),
            pid: header.pid.load(Ordering::Relaxed),
            tid: header.tid.load(Ordering::Relaxed),
            thread,
            whole: extent.is_whole(),
            events: header.events.load(Ordering::Relaxed),
            events_after,
        }))
    }

    /// Finds the next events at or after `tail`.
    fn extent(&self, mut tail: u64, look: &Look) -> Result<Option<Extent<'_>>, Fault> {
        while tail < look.head {
            let begin = tail - tail % self.subbuffer();
            let next = begin + self.subbuffer();
            let header = self.subbuffer_at(begin)?;
            if self.overwrites && header.position.load(Ordering::Acquire) != begin {
                return Err(Fault::Lapped);
            }
            let from = tail.max(begin + SUBBUFFER_HEADER);
            // A sub-buffer becomes visible together with its first event.
            let complete = look.head > next + SUBBUFFER_HEADER;
            let to = match complete {
                true => {
                    let content = header.content.load(Ordering::Relaxed);
                    if !(SUBBUFFER_HEADER..=self.subbuffer()).contains(&content) || content % 8 != 0 {
                        return Err(Fault::Content);
                    }
                    begin + content
                }
                false if look.head > next => return Err(Fault::Head),
                false => look.head,
            };
            if to > from {
                return Ok(Some(Extent { header, begin, from, to, complete }));
            }
            // An incomplete sub-buffer without a new event contradicts `tail < head`.
            if !complete {
                return Err(Fault::Head);
            }
            tail = next;
        }
        Ok(None)
    }

    /// Returns the time from which the extent may begin, and the time of its first event.
    ///
    /// The header's begin is the time of the sub-buffer's first event. An extent that starts in the
    /// middle of a sub-buffer may begin any time later, because the previous slice may have ended
    /// at the head of an idle thread. But its events are not older than the previous look.
    fn begin_times(&self, extent: &Extent<'_>, look: &Look) -> (u64, u64) {
        let low = self.low_time(extent.from);
        if !extent.is_whole() {
            let first = newest(look.now, low);
            return (first, first);
        }
        let near = extent.header.begin.load(Ordering::Relaxed);
        let first = extend(near, low);
        (near.min(first), first)
    }

    /// Returns the time of the extent's last event; `None` if the newest event could not be read
    /// yet.
    ///
    /// Losses lie between the last event of a complete sub-buffer and the first event of the next
    /// one. Programs built with an older header do not store the time of the last event.
    fn end_time(&self, extent: &Extent<'_>, look: &Look, (started, first): (u64, u64)) -> Result<Option<u64>, Fault> {
        if !extent.complete {
            return Ok(look.last.map(|last| extend(started, last >> 16)));
        }
        let next = extent.begin + self.subbuffer();
        let near = self.subbuffer_at(next)?.begin.load(Ordering::Relaxed);
        let bound = near.min(extend(near, self.low_time(next + SUBBUFFER_HEADER)));
        Ok(Some(match extent.header.last.load(Ordering::Relaxed) {
            0 => bound,
            last => newest(bound, last >> 16).max(first).min(bound),
        }))
    }

    /// Time of the first event of a ring of which nothing has been taken; `None` if it holds no
    /// event.
    pub fn first_time(&self) -> Option<u64> {
        if self.tail != 0 || self.layout().head.load(Ordering::Acquire) <= SUBBUFFER_HEADER {
            return None;
        }
        let near = self.subbuffer_at(0).ok()?.begin.load(Ordering::Relaxed);
        Some(near.min(extend(near, self.low_time(SUBBUFFER_HEADER)))).filter(|_| !self.mapping().poisoned())
    }

    /// Time bits of the event at `position`: the lower 48 bits of its time.
    fn low_time(&self, position: u64) -> u64 {
        let word = self.mapping().get::<AtomicU64>(self.offset(position));
        word.map_or(0, |word| word.load(Ordering::Relaxed) >> 16)
    }

    /// Copies a slice's events to `to`. Returns false if the file shrank.
    pub fn copy(&self, slice: &RingSlice, to: &mut Vec<u8>) -> bool {
        to.resize((slice.to - slice.from) as usize, 0);
        self.mapping().copy(self.offset(slice.from), to) && !self.mapping().poisoned()
    }

    /// The word that holds the position of the slice's sub-buffer, and the value that it must have.
    /// `None` for rings that do not overwrite.
    pub fn identity(&self, slice: &RingSlice) -> Option<(&AtomicU64, u64)> {
        let begin = slice.from - slice.from % self.subbuffer();
        self.overwrites.then(|| Some((&self.subbuffer_at(begin).ok()?.position, begin))).flatten()
    }

    /// A slice's events, to be written directly from the ring.
    pub fn body(&self, slice: &RingSlice) -> Body<'_> {
        Body {
            mapping: self.mapping(),
            offset: self.offset(slice.from),
            length: (slice.to - slice.from) as usize,
            aligned: slice.whole,
            identity: self.identity(slice),
        }
    }

    /// Returns whether the thread has not overwritten the slice meanwhile, so that a copy of it is
    /// valid.
    pub fn is_intact(&self, slice: &RingSlice) -> bool {
        fence(Ordering::Acquire);
        self.identity(slice).is_none_or(|(word, begin)| word.load(Ordering::Relaxed) == begin)
    }
}
