//! Sorts a stream whose events are not in the order of time, within a bounded look-ahead.
//!
//! Tracers that write a thread's ring in order need no sorting, and a decoder's borrowed values need no copy. For all others the
//! last items are kept as copies, and the earliest of them comes out next. What comes later than the window is long comes out
//! late, with its own time, and is counted: moving it would be a lie, and holding everything back would need memory without end.

use crate::error::Error;
use crate::event::{Event, Item, Loss, StreamId};
use crate::oddity::Oddity;
use crate::shelf::Shelf;
use crate::trace::{Shared, Source};
use crate::value::Owned;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Items that are held back: enough for what nested interrupts and several writers of one stream mix up.
const ITEMS: usize = 1024;

#[derive(Default)]
pub(crate) struct Window {
    /// (time, sequence, place) of what is held.
    order: BinaryHeap<Reverse<(i64, u64, usize)>>,
    /// The items; places are used again, with their memory.
    held: Vec<Held>,
    free: Vec<usize>,
    sequence: u64,
    current: Option<usize>,
    ended: bool,
    stream: Option<StreamId>,
    /// Time of the last item that came in, and of the last that went out.
    last_in: Option<i64>,
    last_out: Option<i64>,
    sorted: u64,
    late: u64,
}

struct Held {
    head: HeldHead,
    fields: Vec<Owned>,
    context: Vec<Owned>,
}

#[derive(Clone, Copy)]
enum HeldHead {
    /// The event without its values.
    Event(Event<'static>),
    Loss(Loss),
}

impl Window {
    pub fn advance(&mut self, source: &mut Source, shared: &mut Shared, shelf: &mut Shelf) -> Result<Option<i64>, Error> {
        self.free.extend(self.current.take());
        while !self.ended && self.order.len() < ITEMS {
            match source.advance(shared)? {
                None => self.ended = true,
                Some(t_ns) => {
                    let place = self.keep(&source.item(shelf));
                    self.order.push(Reverse((t_ns, self.sequence, place)));
                    self.sequence += 1;
                    if self.last_in.is_some_and(|last| t_ns < last) {
                        self.sorted += 1;
                    }
                    self.last_in = Some(self.last_in.map_or(t_ns, |last| last.max(t_ns)));
                }
            }
        }
        let Some(Reverse((t_ns, _, place))) = self.order.pop() else { return Ok(None) };
        if self.last_out.is_some_and(|last| t_ns < last) {
            self.sorted = self.sorted.saturating_sub(1);
            self.late += 1;
        }
        self.last_out = Some(self.last_out.map_or(t_ns, |last| last.max(t_ns)));
        self.current = Some(place);
        Ok(Some(t_ns))
    }

    fn keep(&mut self, item: &Item<'_>) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            let nothing = Loss { stream: StreamId(0), begin_ns: 0, end_ns: 0, events: None };
            self.held.push(Held { head: HeldHead::Loss(nothing), fields: Vec::new(), context: Vec::new() });
            self.held.len() - 1
        });
        let held = &mut self.held[place];
        match item {
            Item::Loss(loss) => {
                self.stream = Some(loss.stream);
                held.head = HeldHead::Loss(*loss);
            }
            Item::Event(Event { t_ns, stream, subject, class, cpu, fields, context }) => {
                self.stream = Some(*stream);
                held.fields.clear();
                held.fields.extend(fields.iter().map(Owned::of));
                held.context.clear();
                held.context.extend(context.iter().map(Owned::of));
                let (t_ns, stream, subject, class, cpu) = (*t_ns, *stream, *subject, *class, *cpu);
                held.head = HeldHead::Event(Event { t_ns, stream, subject, class, cpu, fields: &[], context: &[] });
            }
        }
        place
    }

    pub fn item<'a>(&'a self, shelf: &'a mut Shelf) -> Item<'a> {
        // The trace asks for an item only after `advance` found one, which set `current`.
        let held = &self.held[self.current.unwrap_or(0)];
        match held.head {
            HeldHead::Loss(loss) => Item::Loss(loss),
            HeldHead::Event(event) => {
                let values = shelf.put(held.fields.iter().chain(&held.context).map(Owned::value));
                let (fields, context) = values.split_at(held.fields.len());
                Item::Event(Event { fields, context, ..event })
            }
        }
    }

    /// Says at the end what had to be sorted.
    pub fn tell(&self, shared: &mut Shared) {
        let Some(stream) = self.stream else { return };
        let stream = shared.stream_name(stream);
        if self.sorted > 0 {
            shared.oddities.push(Oddity::Sorted { stream: stream.clone(), events: self.sorted });
        }
        if self.late > 0 {
            shared.oddities.push(Oddity::Late { stream, events: self.late });
        }
    }
}
