//! Parts of a ring for rings whose threads overwrite the oldest events (flight recorder mode).
//!
//! The thread does not stop while it is read. Each sub-buffer stores its own position, which
//! changes when it is overwritten; a copy whose sub-buffer was overwritten meanwhile is detected.

use crate::output::stream::Body;
use crate::ring::{Chunk, Ring};
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

    /// The word that holds the position of the chunk's sub-buffer, and the value that it must have.
    /// `None` for rings that do not overwrite.
    pub fn identity(&self, chunk: &Chunk) -> Option<(&AtomicU64, u64)> {
        let begin = chunk.from - chunk.from % self.subbuffer();
        self.overwrites.then(|| Some((&self.subbuffer_at(begin).ok()?.position, begin))).flatten()
    }

    /// A chunk's events, to be written directly from the ring.
    pub fn body(&self, chunk: &Chunk) -> Body<'_> {
        Body {
            mapping: self.mapping(),
            offset: self.offset(chunk.from),
            length: (chunk.to - chunk.from) as usize,
            aligned: chunk.whole,
            identity: self.identity(chunk),
        }
    }

    /// Returns whether the thread has not overwritten the chunk meanwhile, so that a copy of it is
    /// valid.
    pub fn intact(&self, chunk: &Chunk) -> bool {
        fence(Ordering::Acquire);
        self.identity(chunk).is_none_or(|(word, begin)| word.load(Ordering::Relaxed) == begin)
    }
}
