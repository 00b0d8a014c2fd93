//! Paths as their segments only. A profile follows from the segments of the path that counts, so no
//! tree with the times of all paths is needed.

use crate::critical_path::machine::Tip;
use crate::critical_path::storage::segments::{Segments, Spill, NONE};
use crate::critical_path::window::{Op, Ops, Slot};

/// The segments of all paths, and the last segment of each path that exists.
#[derive(Clone, Debug)]
pub struct PathLog {
    segments: Segments,
    /// By the path's number; [`NONE`] for a path without a segment.
    tips: Vec<u32>,
}

impl PathLog {
    pub fn new(spill: Spill) -> PathLog {
        let mut segments = Segments::default();
        segments.spill(spill);
        PathLog { segments, tips: Vec::new() }
    }

    /// Applies the operations of the window that follows directly.
    pub fn charge(&mut self, ops: &Ops) {
        for op in &ops.list {
            match *op {
                Op::Root { to } => self.set(to, NONE),
                Op::Extend { of, to, key, from, until } => {
                    let segment = self.segments.add(key, from, until, self.segment(of));
                    self.set(to, segment);
                }
                Op::Past { of, to, at, .. } => {
                    let segment = self.segments.past(self.segment(of), at);
                    self.set(to, segment);
                }
                Op::End { of } => self.set(of, NONE),
            }
        }
    }

    fn segment(&self, slot: Slot) -> u32 {
        self.tips.get(slot as usize).copied().unwrap_or(NONE)
    }

    fn set(&mut self, slot: Slot, segment: u32) {
        let at = slot as usize;
        if at >= self.tips.len() {
            self.tips.resize(at + 1, NONE);
        }
        self.tips[at] = segment;
    }

    /// Drops the segments that no path leads to.
    pub fn clear_segments(&mut self) {
        if self.segments.is_due() {
            self.segments.clear(0, |visit| self.tips.iter_mut().for_each(visit));
        }
    }

    /// Returns the tip of the path with this number, and the segments.
    pub fn finish(self, slot: Slot) -> (Tip, Segments) {
        (Tip { node: slot, segment: self.segment(slot) }, self.segments)
    }
}
