//! The changes of all processes in all streams, in the order of time, so that each stream can be
//! converted on its own.

use super::layout::{Kind, Layout, Parsed};
use super::scan::scan;
use crate::spaces::Spaces;
use std::fs::File;
use std::io;

/// Maximum number of bytes of changes. Further ones are left out, and stacks in what they map are
/// truncated. Each sandbox inherits them, within its limit of memory.
const MAX_BYTES: usize = 256 << 20;

/// Number of changes between two signs of progress.
const STEP: usize = 4096;

/// The changes.
#[derive(Debug, Default)]
pub struct Timeline {
    /// Time, and begin and end in `bytes`.
    changes: Vec<(u64, usize, usize)>,
    bytes: Vec<u8>,
    /// Number of changes beyond [`MAX_BYTES`].
    pub left_out: u64,
    /// Time of the last event.
    pub end: u64,
}

impl Timeline {
    /// Adds a stream's changes. Returns the number of copied stacks in the stream.
    pub fn add(&mut self, file: &File, layout: &Layout) -> io::Result<u64> {
        let (mut copied, mut last) = (0, 0);
        let mut add = |event: &Parsed<'_>| {
            self.end = self.end.max(event.time);
            match event.kind {
                Kind::Copied | Kind::Other => {}
                _ if self.bytes() + event.bytes.len() > MAX_BYTES => self.left_out += 1,
                _ => {
                    let begin = self.bytes.len();
                    self.bytes.extend_from_slice(event.bytes);
                    self.changes.push((event.time, begin, self.bytes.len()));
                }
            }
        };
        scan(file, layout, &mut add, &mut |time| {
            copied += 1;
            last = last.max(time);
        })?;
        self.end = self.end.max(last);
        Ok(copied)
    }

    fn bytes(&self) -> usize {
        self.bytes.len() + self.changes.len() * size_of::<(u64, usize, usize)>()
    }

    /// Sorts the changes after all streams were added. Changes of the same time keep the order of
    /// their streams.
    pub fn sort(&mut self) {
        self.changes.sort_by_key(|(time, ..)| *time);
        self.bytes.shrink_to_fit();
        self.changes.shrink_to_fit();
    }

    /// Returns the processes before the first change.
    pub fn replay<'a>(&'a self, layout: &'a Layout) -> Replay<'a> {
        Replay { timeline: self, layout, next: 0, spaces: Spaces::default() }
    }
}

/// The processes at a time that advances.
#[derive(Debug)]
pub struct Replay<'a> {
    timeline: &'a Timeline,
    layout: &'a Layout,
    next: usize,
    pub spaces: Spaces,
}

impl Replay<'_> {
    /// Applies all changes up to a time. `at` is called now and then, as a sign of progress.
    pub fn advance(&mut self, to: u64, at: &mut dyn FnMut(usize)) {
        while let Some(&(time, begin, end)) = self.timeline.changes.get(self.next) {
            if time > to {
                break;
            }
            self.next += 1;
            if self.next.is_multiple_of(STEP) {
                at(0);
            }
            let Some(event) = self.layout.parse(&self.timeline.bytes[begin..end]) else { continue };
            let mut name = String::new();
            if let Some(change) = event.change(&mut name) {
                self.spaces.apply(event.pid, event.tid, change);
            }
        }
    }
}
