//! Sorts a stream whose events are not in the order of time, within a bounded window.
//!
//! Longpole's own recorder writes in order, so its streams need no sorting and no copies of the
//! decoder's borrowed values. Neither do other streams while a [`Lookahead`] sees that the next
//! window of events is in order. Otherwise the window holds copies of the last items and yields the
//! earliest.
//!
//! An item that is later than the window is long comes out late, with its own time, and is counted.
//! Changing its time would falsify the trace, and holding back everything would need unlimited
//! memory.

use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::event::{Event, Item, Loss, StreamId};
use crate::index::Position;
use crate::merge::lookahead::Lookahead;
use crate::shared::Shared;
use crate::value::{Owned, PacketValues, SharedValues};
use crate::value_buffer::ValueBuffer;
use longpole_ctf::Headers;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Maximum number of items that are held back. This is enough for what nested interrupts and
/// several writers of one stream mix up.
const ITEMS: usize = 1024;
/// Maximum number of bytes that are held back. If items are large, fewer of them are held.
const BYTES: usize = 64 << 20;

/// One sequence of items, which a window may sort.
pub(crate) trait Sequence {
    /// Decodes the next item and returns its time. Returns `None` at the end of the stream, or at
    /// the end of what can be read of a damaged stream.
    fn advance(&mut self, shared: &mut Shared) -> Result<Option<i64>, Error>;

    /// Returns the item that was decoded last.
    fn item<'a>(&'a self, value_buffer: &'a mut ValueBuffer) -> Item<'a>;

    /// Returns true if the item that was decoded last is an event.
    fn has_event(&self) -> bool;
}

#[derive(Default)]
pub(crate) struct Window {
    /// Lookahead of the source. `None` means that every item must be sorted.
    lookahead: Option<Box<Lookahead>>,
    /// Number of events taken from the source, as the lookahead counts them.
    taken: u64,
    /// (time, sequence, place) of each item that is held.
    order: BinaryHeap<Reverse<(i64, u64, usize)>>,
    /// Items that are held, by place. Places are reused with their memory.
    held: Vec<Held>,
    free: Vec<usize>,
    /// Approximate number of bytes that are held.
    bytes: usize,
    sequence: u64,
    /// Place of the item that was yielded last, if it is a held one.
    current: Option<usize>,
    ended: bool,
    stream: Option<StreamId>,
    /// Latest time of an item that came in, and of an item that went out.
    last_in: Option<i64>,
    last_out: Option<i64>,
    sorted: u64,
    late: u64,
}

struct Held {
    head: HeldHead,
    bytes: usize,
    fields: Vec<Owned>,
    context: Vec<Owned>,
    packet: SharedValues,
}

#[derive(Clone, Copy)]
enum HeldHead {
    /// An event without its values.
    Event(Event<'static>),
    Loss(Loss),
}

impl Window {
    pub fn new(lookahead: Option<Box<Lookahead>>) -> Window {
        Window { lookahead, ..Window::default() }
    }

    #[inline]
    pub fn advance(
        &mut self,
        source: &mut impl Sequence,
        shared: &mut Shared,
        value_buffer: &mut ValueBuffer,
    ) -> Result<Option<i64>, Error> {
        if let Some(place) = self.current.take() {
            self.let_go(place);
        }
        if !self.order.is_empty() || self.is_mixed() {
            return self.sort(source, shared, value_buffer);
        }
        let advanced = source.advance(shared)?;
        if let Some(t_ns) = advanced {
            self.comes_in(t_ns, source, value_buffer);
            self.goes_out(t_ns);
        }
        Ok(advanced)
    }

    /// Returns true if no item is held and the next `events` events of the source are in order, so
    /// that they can be taken from it directly. Each item that is taken must be reported by
    /// [`Window::passed`] or [`Window::all_passed`]. The current item ends.
    pub fn is_clear(&mut self, events: u64) -> bool {
        if let Some(place) = self.current.take() {
            self.let_go(place);
        }
        self.order.is_empty() && !self.is_mixed_within(events)
    }

    /// Notes an item that was taken from the source directly.
    pub fn passed(&mut self, t_ns: i64, is_event: bool, stream: StreamId) {
        self.arrives(t_ns, is_event, || stream);
        self.goes_out(t_ns);
    }

    /// Like [`Window::passed`], for the events of `headers`.
    pub fn all_passed(&mut self, headers: &Headers, stream: StreamId) {
        let (Some(first_ns), Some(last_ns)) = (headers.ns(0), headers.ns(headers.len() - 1)) else { return };
        if headers.is_ordered() && self.last_in.is_none_or(|last| last <= first_ns) && self.last_out.is_none_or(|last| last <= first_ns) {
            self.taken += headers.len() as u64;
            (self.last_in, self.last_out) = (Some(last_ns), Some(last_ns));
            return;
        }
        (0..headers.len()).filter_map(|index| headers.ns(index)).for_each(|t_ns| self.passed(t_ns, true, stream));
    }

    /// Returns true if the next item may belong after an item that follows it.
    #[inline]
    fn is_mixed(&mut self) -> bool {
        self.is_mixed_within(0)
    }

    /// Returns true if the next item, or one of the `events` events after it, may belong after an
    /// item that follows it.
    #[inline]
    fn is_mixed_within(&mut self, events: u64) -> bool {
        match &mut self.lookahead {
            Some(lookahead) => lookahead.mixed(self.taken + events + ITEMS as u64) > self.taken,
            None => true,
        }
    }

    #[inline(never)]
    fn sort(&mut self, source: &mut impl Sequence, shared: &mut Shared, value_buffer: &mut ValueBuffer) -> Result<Option<i64>, Error> {
        while !self.ended && self.order.len() < ITEMS && self.bytes < BYTES && self.is_mixed() {
            match source.advance(shared)? {
                None => self.ended = true,
                Some(t_ns) => {
                    let place = self.keep(&source.item(value_buffer));
                    self.order.push(Reverse((t_ns, self.sequence, place)));
                    self.sequence += 1;
                    self.comes_in(t_ns, source, value_buffer);
                }
            }
        }
        let Some(Reverse((t_ns, _, place))) = self.order.pop() else { return Ok(None) };
        self.goes_out(t_ns);
        self.current = Some(place);
        Ok(Some(t_ns))
    }

    #[inline]
    fn comes_in(&mut self, t_ns: i64, source: &impl Sequence, value_buffer: &mut ValueBuffer) {
        self.arrives(t_ns, source.has_event(), || source.item(value_buffer).stream());
    }

    #[inline]
    fn arrives(&mut self, t_ns: i64, is_event: bool, stream: impl FnOnce() -> StreamId) {
        self.taken += u64::from(is_event);
        if self.last_in.is_some_and(|last| t_ns < last) {
            self.sorted += 1;
            self.stream = Some(stream());
        } else {
            self.last_in = Some(t_ns);
        }
    }

    #[inline]
    fn goes_out(&mut self, t_ns: i64) {
        if self.last_out.is_some_and(|last| t_ns < last) {
            self.sorted = self.sorted.saturating_sub(1);
            self.late += 1;
        } else {
            self.last_out = Some(t_ns);
        }
    }

    /// Continues after the source's end, because the source has grown.
    pub fn resume(&mut self) {
        self.ended = false;
    }

    /// Follows the source, which skips packets after the packet `behind` that end before
    /// `begin_ns`.
    pub fn skip(&mut self, begin_ns: i64, behind: u64) {
        if let Some(lookahead) = &mut self.lookahead {
            lookahead.skip(begin_ns, behind);
        }
    }

    /// Follows the source to this packet.
    pub fn restart_at(&mut self, to: Position) {
        if let Some(lookahead) = &mut self.lookahead {
            lookahead.restart_at(to.offset, to.packet, to.clock);
            self.taken = 0;
        }
    }

    fn keep(&mut self, item: &Item<'_>) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            let nothing = Loss { stream: StreamId(0), begin_ns: 0, end_ns: 0, events: None };
            self.held.push(Held { head: HeldHead::Loss(nothing), bytes: 0, fields: Vec::new(), context: Vec::new(), packet: None });
            self.held.len() - 1
        });
        let held = &mut self.held[place];
        match item {
            Item::Loss(loss) => held.head = HeldHead::Loss(*loss),
            Item::Event(Event { t_ns, stream, subject, class, cpu, fields, context, packet }) => {
                held.fields.extend(fields.iter().map(Owned::of));
                held.context.extend(context.iter().map(Owned::of));
                held.bytes = held.fields.iter().chain(&held.context).map(Owned::size).sum();
                self.bytes += held.bytes;
                held.packet = packet.share();
                let (t_ns, stream, subject, class, cpu) = (*t_ns, *stream, *subject, *class, *cpu);
                let packet = PacketValues::default();
                held.head = HeldHead::Event(Event { t_ns, stream, subject, class, cpu, fields: &[], context: &[], packet });
            }
        }
        place
    }

    /// Frees a place, so that it can be reused.
    fn let_go(&mut self, place: usize) {
        if let Some(held) = self.held.get_mut(place) {
            self.bytes -= std::mem::take(&mut held.bytes);
            held.fields.clear();
            held.context.clear();
        }
        self.free.push(place);
    }

    /// Returns the current item.
    #[inline]
    pub fn item<'a>(&'a self, source: &'a impl Sequence, value_buffer: &'a mut ValueBuffer) -> Item<'a> {
        let Some(held) = self.current.and_then(|place| self.held.get(place)) else { return source.item(value_buffer) };
        match held.head {
            HeldHead::Loss(loss) => Item::Loss(loss),
            HeldHead::Event(event) => {
                let values = value_buffer.put(held.fields.iter().chain(&held.context).map(Owned::value));
                let (fields, context) = values.split_at(held.fields.len());
                Item::Event(Event { fields, context, packet: PacketValues::of(&held.packet), ..event })
            }
        }
    }

    /// Reports at the end what was sorted and what came too late.
    pub fn report(&self, shared: &mut Shared) {
        let Some(stream) = self.stream else { return };
        let stream = shared.stream_name(stream);
        if self.sorted > 0 {
            shared.diagnostics.push(Diagnostic::Sorted { stream: stream.clone(), events: self.sorted });
        }
        if self.late > 0 {
            shared.diagnostics.push(Diagnostic::Late { stream, events: self.late });
        }
    }
}
