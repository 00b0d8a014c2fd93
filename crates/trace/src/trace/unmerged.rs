//! Reads a trace for callers that count its events: without their fields, and one stream after the
//! other instead of merged by time.
//!
//! The fields of an event and its place among the events of other streams cost several times as
//! much as its header. [`Trace::read_unmerged`] leaves out both. A stream whose events must be
//! sorted is read event by event where the lookahead sees that, so that what is reported about its
//! order does not depend on how the trace is read.

use crate::error::Error;
use crate::event::{ClassId, Event, Item, Loss, StreamId};
use crate::formats::ctf::ClassPlan;
use crate::merge::clock_shift::Shift;
use crate::shared::Shared;
use crate::trace::{Slot, Source, Trace};
use crate::value_buffer::ValueBuffer;
use longpole_ctf::Headers;

/// Events or a loss, as passed on by [`Trace::read_unmerged`].
pub enum Unmerged<'a> {
    /// Consecutive events of one stream.
    Events(Run<'a>),
    /// A loss.
    Loss(Loss),
}

/// Consecutive events of one stream: at least one, without their fields.
pub struct Run<'a> {
    stream: StreamId,
    events: Events<'a>,
}

enum Events<'a> {
    One { class: ClassId, t_ns: i64 },
    Many { headers: &'a Headers, classes: &'a [ClassPlan], shift: &'a Shift },
}

#[allow(clippy::len_without_is_empty)]
impl<'a> Run<'a> {
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Number of events, at least 1.
    pub fn len(&self) -> usize {
        match &self.events {
            Events::One { .. } => 1,
            Events::Many { headers, .. } => headers.len(),
        }
    }

    /// Returns true if no event is earlier than the one before it.
    pub fn is_ordered(&self) -> bool {
        match &self.events {
            Events::One { .. } => true,
            Events::Many { headers, .. } => headers.is_ordered(),
        }
    }

    /// Returns the time of the event at `index`, in ns. An index behind the last event stands for
    /// the last one.
    pub fn t_ns(&self, index: usize) -> i64 {
        match &self.events {
            Events::One { t_ns, .. } => *t_ns,
            Events::Many { headers, shift, .. } => shift.apply(headers.ns(index.min(headers.len().saturating_sub(1))).unwrap_or(0)),
        }
    }

    /// Calls `see` with the class of each event, or with a class and the number of events that
    /// follow each other with it.
    #[inline]
    pub fn each_class(&self, mut see: impl FnMut(ClassId, u64)) {
        match &self.events {
            Events::One { class, .. } => see(*class, 1),
            Events::Many { headers, classes, .. } => {
                let (all, id) = (headers.classes(), |class: &u32| classes[*class as usize].id());
                match all.first() {
                    // Some tracers have one class. Comparing all costs much less than seeing all.
                    Some(first) if all.iter().all(|class| class == first) => see(id(first), all.len() as u64),
                    _ => all.iter().for_each(|class| see(id(class), 1)),
                }
            }
        }
    }
}

impl<'a> From<Item<'a>> for Unmerged<'a> {
    fn from(item: Item<'a>) -> Unmerged<'a> {
        match item {
            Item::Loss(loss) => Unmerged::Loss(loss),
            Item::Event(Event { stream, class, t_ns, .. }) => Unmerged::Events(Run { stream, events: Events::One { class, t_ns } }),
        }
    }
}

impl Slot {
    /// Like [`Slot::advance`], but decodes many events into `headers` where that is possible. If
    /// `headers` is empty afterwards, the slot has one item. The returned time is the latest one.
    fn advance_headers(
        &mut self,
        headers: &mut Headers,
        shared: &mut Shared,
        value_buffer: &mut ValueBuffer,
    ) -> Result<Option<i64>, Error> {
        headers.clear();
        let source = match &mut self.source {
            Source::Ctf(source) if self.window.as_mut().is_none_or(|window| window.is_clear(Headers::CAPACITY as u64)) => source,
            _ => return self.advance(shared, value_buffer),
        };
        let advanced = source.advance_headers(headers, shared)?;
        if let (Some(window), Some(t_ns)) = (&mut self.window, advanced) {
            match headers.is_empty() {
                true => window.passed(t_ns, source.has_event(), source.stream()),
                false => window.all_passed(headers, source.stream()),
            }
        }
        Ok(advanced.map(|t_ns| self.shift.apply(t_ns)))
    }

    fn unmerged<'a>(&'a self, headers: &'a Headers, value_buffer: &'a mut ValueBuffer) -> Unmerged<'a> {
        match &self.source {
            Source::Ctf(source) if !headers.is_empty() => {
                let events = Events::Many { headers, classes: source.classes(headers.stream_index()), shift: &self.shift };
                Unmerged::Events(Run { stream: source.stream(), events })
            }
            _ => self.item(value_buffer).into(),
        }
    }

    /// Returns true if no other slot reads the same stream.
    fn is_whole_stream(&self) -> bool {
        match &self.source {
            Source::Ctf(source) => source.is_whole_stream(),
            _ => true,
        }
    }
}

impl Trace {
    /// Reads everything that was not yielded yet, and passes it on without fields. The items of a
    /// stream come in the same order as from [`Trace::next_item`], and so does the first event of
    /// the trace, but otherwise the order of streams is not that of time. Diagnostics are the same.
    ///
    /// # Errors
    ///
    /// Those of [`Trace::next_item`].
    pub fn read_unmerged(&mut self, mut see: impl FnMut(&Unmerged<'_>)) -> Result<(), Error> {
        loop {
            let Some(item) = self.next_item()? else { return Ok(()) };
            let is_event = matches!(item, Item::Event(_));
            see(&item.into());
            if is_event && self.can_be_unmerged() {
                break;
            }
        }
        let known = self.shared.diagnostics.len();
        // Place in the merged trace of each diagnostic that follows: the latest time that its
        // stream had reached, and the stream.
        let mut places: Vec<(i64, usize)> = Vec::new();
        let (heap, current) = (std::mem::take(&mut self.heap), self.current.take());
        let mut headers = Headers::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let waiting = heap.keys().iter().find(|key| key.slot as usize == index);
            let Some(mut latest_ns) = waiting.map(|key| key.t_ns).or((current == Some(index)).then_some(i64::MIN)) else { continue };
            if waiting.is_some() {
                see(&slot.item(&mut self.value_buffer).into());
            }
            loop {
                let advanced = slot.advance_headers(&mut headers, &mut self.shared, &mut self.value_buffer)?;
                places.resize(self.shared.diagnostics.len() - known, (latest_ns, index));
                let Some(t_ns) = advanced else { break };
                latest_ns = latest_ns.max(t_ns);
                see(&slot.unmerged(&headers, &mut self.value_buffer));
            }
        }
        let mut found: Vec<_> = places.into_iter().zip(self.shared.diagnostics.drain(known..)).collect();
        found.sort_by_key(|(place, _)| *place);
        self.shared.diagnostics.extend(found.into_iter().map(|(_, diagnostic)| diagnostic));
        self.finish()?;
        Ok(())
    }

    /// Returns true if nothing but the order of streams changes when they are not merged: the whole
    /// trace is read, no two slots read the same stream, and at most one slot may add streams to
    /// the catalogue.
    fn can_be_unmerged(&self) -> bool {
        let others = self.slots.iter().filter(|slot| !matches!(slot.source, Source::Ctf(_))).count();
        self.range() == (i64::MIN, i64::MAX) && !self.shared.strict && others <= 1 && self.slots.iter().all(Slot::is_whole_stream)
    }
}
