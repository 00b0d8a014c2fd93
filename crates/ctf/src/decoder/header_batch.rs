//! The headers of many events: which class each event has, and when it happened. Reading only these
//! is the fastest way through a stream, because no field is looked at.

use crate::clock::Converter;
use crate::decoder::batch::Gather;
use crate::decoder::event::EventRef;
use crate::metadata::StreamPlan;
use std::sync::Arc;

/// Classes and times of consecutive events of one packet, filled by
/// [`StreamDecoder::advance_headers`](crate::StreamDecoder::advance_headers), which reuses its
/// memory.
#[derive(Debug, Default)]
pub struct Headers {
    stream_index: usize,
    /// One element for each event there is room for; the first `len` are in use.
    classes: Vec<u32>,
    cycles: Vec<u64>,
    len: usize,
    ordered: bool,
    converter: Option<Converter>,
}

impl Headers {
    /// Greatest number of events at once.
    pub const CAPACITY: usize = Self::MAX_EVENTS;

    /// Creates an empty list.
    pub fn new() -> Headers {
        Headers::default()
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no events.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes all events.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Index of the stream class in the schema.
    pub fn stream_index(&self) -> usize {
        self.stream_index
    }

    /// The index of each event's class in its stream class.
    pub fn classes(&self) -> &[u32] {
        self.classes.get(..self.len).unwrap_or(&[])
    }

    /// The full value of the clock for each event.
    pub fn cycles(&self) -> &[u64] {
        self.cycles.get(..self.len).unwrap_or(&[])
    }

    /// The nanoseconds from the clock's origin for the event at `index`.
    #[inline]
    pub fn ns(&self, index: usize) -> Option<i64> {
        let cycles = *self.cycles().get(index)?;
        self.converter.map(|converter| converter.ns(cycles))
    }

    /// Returns true if no event is earlier than the one before it.
    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Makes room for [`Gather::MAX_EVENTS`] events and returns the places that are not in use, as
    /// many of classes as of cycles.
    #[inline]
    pub(crate) fn room(&mut self) -> (&mut [u32], &mut [u64]) {
        if self.cycles.len() < Self::MAX_EVENTS {
            self.cycles.resize(Self::MAX_EVENTS, 0);
            self.classes.resize(Self::MAX_EVENTS, 0);
        }
        (&mut self.classes[self.len..], &mut self.cycles[self.len..])
    }

    /// Takes the first `count` places of [`room`](Self::room) into use.
    #[inline]
    pub(crate) fn add(&mut self, count: usize) {
        self.len += count;
    }
}

impl Gather for Headers {
    // Small enough that classes and times stay in the first-level cache.
    const MAX_EVENTS: usize = 1 << 10;

    fn begin(&mut self, _: &Arc<StreamPlan>, index: usize) {
        (self.len, self.stream_index) = (0, index);
    }

    fn len(&self) -> usize {
        self.len
    }

    fn push(&mut self, event: &EventRef<'_>) {
        if let ([class, ..], [cycles, ..]) = self.room() {
            (*class, *cycles) = (event.class as u32, event.cycles);
            self.len += 1;
        }
    }

    fn awaits(&self, _: usize) -> bool {
        false
    }

    fn take(&mut self, _: &[u8]) {}

    fn finish(&mut self, converter: &Converter) {
        self.ordered = self.cycles().is_sorted();
        self.converter = Some(*converter);
    }
}
