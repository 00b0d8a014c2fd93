//! Parts of a ring for rings whose threads overwrite the oldest events (flight recorder mode). The
//! thread does not stop while it is read; [`Ring::is_intact`] detects what it overwrote meanwhile.

use crate::ring::Ring;
use std::sync::atomic::Ordering;

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
}
