//! Walks along the critical path, and finds its n-th segment.

use longpole_analysis::timeline::{PathSegment, Timeline};
use std::io;

/// Number of segments that are read at once.
const CHUNK: usize = 4096;

/// The segments of the path that overlap a range, one after the other.
pub(crate) struct PathWalk<'a> {
    timeline: &'a Timeline,
    begin: u64,
    end: u64,
    chunk: std::vec::IntoIter<PathSegment>,
    is_over: bool,
}

impl<'a> PathWalk<'a> {
    pub fn new(timeline: &'a Timeline, (begin, end): (u64, u64)) -> PathWalk<'a> {
        PathWalk { timeline, begin, end, chunk: Vec::new().into_iter(), is_over: false }
    }
}

impl Iterator for PathWalk<'_> {
    type Item = io::Result<PathSegment>;

    fn next(&mut self) -> Option<io::Result<PathSegment>> {
        if let Some(segment) = self.chunk.next() {
            return Some(Ok(segment));
        }
        if self.is_over {
            return None;
        }
        match self.timeline.path((self.begin, self.end), CHUNK) {
            Ok((segments, more)) => {
                self.is_over = !more;
                self.begin = segments.last().map_or(self.end, |last| last.interval.end);
                self.chunk = segments.into_iter();
                self.chunk.next().map(Ok)
            }
            Err(error) => {
                self.is_over = true;
                Some(Err(error))
            }
        }
    }
}

/// Where the segments of a path are: the begin of each [`CHUNK`]th one, in ns since the trace's
/// begin.
#[derive(Debug, Default)]
pub(crate) struct PathIndex {
    begins: Vec<u64>,
    pub segments: u64,
}

impl PathIndex {
    pub fn new(timeline: &Timeline) -> io::Result<PathIndex> {
        let mut index = PathIndex::default();
        for segment in PathWalk::new(timeline, (0, u64::MAX)) {
            let segment = segment?;
            if index.segments.is_multiple_of(CHUNK as u64) {
                index.begins.push(segment.interval.begin);
            }
            index.segments += 1;
        }
        Ok(index)
    }

    /// Walks from the segment with this number on, to the end.
    pub fn walk<'a>(&self, timeline: &'a Timeline, from: u64) -> impl Iterator<Item = io::Result<PathSegment>> + 'a {
        let chunk = (from / CHUNK as u64) as usize;
        let begin = self.begins.get(chunk).copied().unwrap_or(u64::MAX);
        PathWalk::new(timeline, (begin, u64::MAX)).skip((from % CHUNK as u64) as usize)
    }

    /// Returns the number of the first segment that ends after a time, in ns since the trace's
    /// begin.
    pub fn at(&self, timeline: &Timeline, t: u64) -> io::Result<u64> {
        let chunk = self.begins.partition_point(|&begin| begin <= t).saturating_sub(1);
        let from = (chunk * CHUNK) as u64;
        let mut before = 0;
        for segment in self.walk(timeline, from) {
            if segment?.interval.end > t {
                break;
            }
            before += 1;
        }
        Ok(from + before)
    }
}
