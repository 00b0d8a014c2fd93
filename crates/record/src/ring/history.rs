//! Parts of a ring for rings whose threads overwrite the oldest events (flight recorder mode).
//!
//! The thread does not stop while it is read. Each sub-buffer stores its own position, which
//! changes when it is overwritten; a copy whose sub-buffer was overwritten meanwhile is detected.

use crate::output::stream::Body;
use crate::ring::{Ring, RingSlice};
use std::sync::atomic::{fence, AtomicU64, Ordering};

impl Ring {
    /// Makes the next event begin another sub-buffer. The thread owns these two words, but they are
    /// only limits, and a smaller limit is always valid.
    pub fn seal(&self) {
        let layout = self.layout();
        layout.limit.store(0, Ordering::Relaxed);
        layout.end.store(0, Ordering::Relaxed);
    }

    /// Position of the oldest sub-buffer that can still exist if the head is `head`, or `tail` if
    /// that is later.
    pub fn oldest(&self, head: u64) -> u64 {
        let newest = head.saturating_sub(1);
        let current = newest - newest % self.subbuffer();
        current.saturating_sub(self.size - self.subbuffer()).max(self.tail)
    }

    /// Nanoseconds that the thread has waited for room during this recording.
    pub fn waited(&self) -> u64 {
        self.layout().waited.load(Ordering::Relaxed).saturating_sub(self.waited_before)
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
    pub fn intact(&self, slice: &RingSlice) -> bool {
        fence(Ordering::Acquire);
        self.identity(slice).is_none_or(|(word, begin)| word.load(Ordering::Relaxed) == begin)
    }
}
