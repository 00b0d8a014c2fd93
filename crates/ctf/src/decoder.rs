//! Decodes a stream file into packets, the events in them, and the losses between them, one item at
//! a time.
//!
//! The decoder holds the properties of one packet and the marks of one event, so its memory does
//! not grow with the length of the stream. Conditions that a valid recording may contain (time that
//! runs backwards, lost packets, empty packets) do not stop it. If the bytes cannot be understood,
//! it returns one error with the position, and can continue with the next packet.

pub(crate) mod batch;
mod columns;
pub(crate) mod event;
pub(crate) mod header_batch;
mod packet_head;
mod resume;
mod search;
pub(crate) mod source;

use std::sync::Arc;

use crate::bits::{align_up, Window};
use crate::clock::extend;
use crate::decoder::event::{EventRef, Item};
use crate::decoder::source::Source;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::metadata::{marks, FastClass, Metadata, StreamPlan};
use crate::packet::{discarded_events, discarded_packets, Loss, Packet};
use crate::plan::exec::{Executor, Mark, Record, RoleValues, Stop};
use crate::plan::{Beyond, Field};
use crate::types::ByteOrder;
use crate::value::Located;

/// Id of the last event while there is none.
const NO_ID: u64 = u64::MAX;

/// The next item of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Events were discarded. This step precedes the packet whose counter shows it.
    DiscardedEvents(Box<Loss>),
    /// Packets are missing. This step precedes the packet whose sequence number shows it.
    DiscardedPackets(Box<Loss>),
    /// A packet begins; see [`StreamDecoder::packet`].
    PacketBegin,
    /// An event; see [`StreamDecoder::event`].
    Event,
    /// The packet ends.
    PacketEnd,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Before a packet.
    Between,
    /// The packet's header and context were read. The number counts the steps that precede its
    /// events: discarded events, discarded packets, start of the packet.
    Announce(u8),
    Events,
    /// An error was returned.
    Broken,
}

/// Decodes one stream file.
#[derive(Debug)]
pub struct StreamDecoder<S> {
    metadata: Arc<Metadata>,
    source: S,
    state: State,
    packet: Packet,
    /// The plan of the packet's stream class.
    stream: Option<Arc<StreamPlan>>,
    /// Byte of the file at which the next packet begins.
    next: u64,
    next_index: u64,
    /// Packets in a row whose header could not be read.
    unreadable: u32,
    /// True if the header of the packet could not be read and the next packet was not searched
    /// for yet.
    lost: bool,
    /// True if a packet with another UUID than the metadata's is an error.
    strict: bool,
    /// UUID of the last packet whose UUID is not the metadata's.
    other_uuid: Option<[u8; 16]>,
    /// The last packet of each stream class, without its context: only sizes, times and counters.
    previous: Vec<Option<Packet>>,
    /// Position of the cursor, in bits from the start of the packet.
    at: u64,
    /// First bit that must not be read at present: the end of the content or the end of the window.
    limit: u64,
    /// End of the data as far as known, in bytes of the file.
    data_end: u64,
    last: ByteOrder,
    /// Id of the last event of fixed layout, and below it its class. The start of the next event
    /// depends on the class of this one. While the class stays the same, the processor predicts the
    /// branch and does not wait for the lookup in the table.
    last_id: u64,
    last_class: FastClass,
    /// Full value of the stream's clock.
    clock: u64,
    /// Index of the current event's class.
    class: usize,
    /// Time of the current event, in nanoseconds from the origin of the clock.
    ns: i64,
    /// Number of decoded fields of the event in which decoding failed.
    partial: Option<usize>,
    /// Error to be returned after the events of the last batch.
    waiting: Option<Box<DecodeError>>,
    /// Index in its packet of the event that is decoded next.
    event_index: u64,
    marks: Vec<Mark>,
    slots: Vec<u64>,
    records: Vec<Record>,
}

impl<S: Source> StreamDecoder<S> {
    /// Creates a decoder at the start of a stream.
    pub fn new(metadata: Arc<Metadata>, source: S) -> StreamDecoder<S> {
        StreamDecoder {
            state: State::Between,
            packet: Packet::default(),
            stream: None,
            next: 0,
            next_index: 0,
            unreadable: 0,
            lost: false,
            strict: false,
            other_uuid: None,
            previous: vec![None; metadata.streams.len()],
            at: 0,
            limit: 0,
            data_end: source.len(),
            last: ByteOrder::Little,
            last_id: NO_ID,
            last_class: FastClass::NONE,
            clock: 0,
            class: 0,
            ns: 0,
            partial: None,
            waiting: None,
            event_index: 0,
            marks: marks(&metadata.plan),
            slots: vec![0; metadata.plan.slots],
            records: Vec::new(),
            metadata,
            source,
        }
    }

    /// The same decoder, for which a packet with another UUID than the metadata's is an error
    /// ([`DecodeErrorKind::WrongUuid`]). Otherwise the packet is decoded, and
    /// [`Packet::other_uuid`] is set.
    #[must_use]
    pub fn strict(mut self) -> StreamDecoder<S> {
        self.strict = true;
        self
    }

    /// The metadata by which the stream is decoded.
    pub fn metadata(&self) -> &Arc<Metadata> {
        &self.metadata
    }

    /// The current packet, from its start until the next packet begins.
    #[inline]
    pub fn packet(&self) -> &Packet {
        &self.packet
    }

    /// Number of events of the current packet that were decoded.
    pub fn events(&self) -> u64 {
        self.event_index
    }

    /// Returns true if the packet that begins has no events.
    pub fn packet_is_empty(&self) -> bool {
        self.at >= self.packet.content_bits
    }

    /// Returns the next item, or `None` at the end of the stream. After an error it returns `None`,
    /// unless [`skip_packet`](Self::skip_packet) moves the decoder behind the packet.
    ///
    /// # Errors
    ///
    /// Bytes that do not match the metadata, and failures to read the source, with the position.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Item<'_>>, Box<DecodeError>> {
        let Some(step) = self.advance()? else { return Ok(None) };
        Ok(Some(match step {
            Step::DiscardedEvents(loss) => Item::DiscardedEvents(loss),
            Step::DiscardedPackets(loss) => Item::DiscardedPackets(loss),
            Step::PacketBegin => Item::PacketBegin(&self.packet),
            Step::Event => Item::Event(self.event()),
            Step::PacketEnd => Item::PacketEnd(&self.packet),
        }))
    }

    /// Like [`next`](Self::next), but borrows nothing: for readers that hold several streams and
    /// look at the item later.
    #[inline]
    pub fn advance(&mut self) -> Result<Option<Step>, Box<DecodeError>> {
        if self.state == State::Events && self.at < self.packet.content_bits {
            if self.decode_fast() {
                return Ok(Some(Step::Event));
            }
            return self.advance_in_packet();
        }
        self.between()
    }

    /// Decodes the common kind of event in as few instructions as possible: header and event of
    /// fixed layout, both entirely in the window. For every other event it returns `false` and
    /// changes no position.
    #[inline(always)]
    fn decode_fast(&mut self) -> bool {
        let Some(stream) = &self.stream else { return false };
        let Some(header) = &stream.fast_header else { return false };
        let window = window(&self.source, self.packet.offset);
        let at = align_up(self.at, header.align);
        let index = window.index(at);
        let (Some(id), Some(time)) = (header.id.high(window.bytes, index), header.time.high(window.bytes, index)) else {
            return false;
        };
        let id = header.id.unsigned(id);
        if id != self.last_id {
            let Some(found) = stream.ids.fast_class(id).filter(|_| header.ids.contains(&id)) else { return false };
            (self.last_id, self.last_class) = (id, found);
        }
        let FastClass { index: class, align, bits } = self.last_class;
        let begin = align_up(at + header.bits, align);
        let end = begin + bits;
        if end > self.limit {
            return false;
        }
        self.marks[0] = Mark { at: begin, len: 0 };
        self.at = end;
        self.clock = extend(self.clock, header.time.unsigned(time), header.time_mask);
        self.ns = stream.converter.ns(self.clock);
        self.class = class;
        self.event_index += 1;
        true
    }

    #[inline(never)]
    fn advance_in_packet(&mut self) -> Result<Option<Step>, Box<DecodeError>> {
        match self.decode_event() {
            Ok(()) => Ok(Some(Step::Event)),
            Err(stop) => match self.event_stopped(stop)? {
                Some(step) => Ok(Some(step)),
                None => Ok(Some(self.end_packet())),
            },
        }
    }

    /// The current event. Valid after [`Step::Event`], until the next step.
    #[inline]
    pub fn event(&self) -> EventRef<'_> {
        let fields = self.stream.as_ref().and_then(|s| s.events.get(self.class));
        EventRef {
            metadata: &self.metadata,
            stream: self.packet.stream,
            class: self.class,
            cycles: self.clock,
            ns: self.ns,
            located: Located { window: window(&self.source, self.packet.offset), marks: &self.marks, records: &self.records },
            fields: fields.map_or(&[], |b| &b.fields),
        }
    }

    /// The event in which decoding failed, with the fields before the damage. `None` if its class
    /// is not known, or if the error did not occur in an event.
    pub fn partial(&self) -> Option<EventRef<'_>> {
        let event = self.event();
        self.partial
            .filter(|_| self.state == State::Broken)
            .map(|fields| EventRef { fields: event.fields.get(..fields).unwrap_or(&[]), ..event })
    }

    /// Moves behind the current packet without decoding its remaining events. After an error,
    /// continues with the [next packet](Self::next_packet).
    pub fn skip_packet(&mut self) {
        match self.state {
            State::Events | State::Announce(_) => {
                self.leave_packet();
            }
            State::Broken => {
                self.next_packet();
                self.state = State::Between;
            }
            State::Between => {}
        }
    }

    /// Continues with the packet at byte `offset` of the file, a value of [`Packet::offset`].
    /// Losses before that packet are not reported.
    pub fn seek(&mut self, offset: u64, index: u64) {
        self.seek_at(offset, index, 0);
    }

    /// Like [`seek`](Self::seek), with the full value of the clock at or before the start of the
    /// packet. Streams that record only the lowest bits of the clock need it.
    pub fn seek_at(&mut self, offset: u64, index: u64, clock: u64) {
        self.next = offset;
        self.next_index = index;
        self.previous.iter_mut().for_each(|p| *p = None);
        self.clock = clock;
        self.waiting = None;
        self.state = State::Between;
    }

    /// The source of the bytes.
    pub fn source(&self) -> &S {
        &self.source
    }

    #[cold]
    fn between(&mut self) -> Result<Option<Step>, Box<DecodeError>> {
        loop {
            match self.state {
                State::Between => {
                    if self.next >= self.data_end {
                        return Ok(None);
                    }
                    self.begin_packet()?;
                    self.state = State::Announce(0);
                }
                State::Announce(turn) => {
                    let previous = self.previous.get(self.packet.stream).and_then(Option::as_ref);
                    let loss = match turn {
                        0 => discarded_events(previous, &self.packet).map(|l| Step::DiscardedEvents(Box::new(l))),
                        1 => discarded_packets(previous, &self.packet).map(|l| Step::DiscardedPackets(Box::new(l))),
                        _ => {
                            self.state = State::Events;
                            return Ok(Some(Step::PacketBegin));
                        }
                    };
                    self.state = State::Announce(turn + 1);
                    if loss.is_some() {
                        return Ok(loss);
                    }
                }
                // Only padding is left in the packet, or nothing.
                State::Events if self.at >= self.packet.content_bits => return Ok(Some(self.end_packet())),
                State::Events => return self.advance(),
                State::Broken => return Ok(None),
            }
        }
    }

    #[cold]
    fn end_packet(&mut self) -> Step {
        self.leave_packet();
        Step::PacketEnd
    }

    fn leave_packet(&mut self) {
        let packet = Packet { context: Vec::new(), ..self.packet };
        if let Some(previous) = self.previous.get_mut(packet.stream) {
            *previous = Some(packet);
        }
        self.state = State::Between;
    }

    /// Prepares to decode the event at the cursor: returns the plan of its stream and an executor.
    #[inline]
    fn begin_event(&mut self) -> Option<(&StreamPlan, Executor<'_, '_>)> {
        let Self { stream, source, packet, marks, slots, records, .. } = self;
        if !records.is_empty() {
            records.clear();
        }
        let window = window(source, packet.offset);
        let role_values = RoleValues::new(self.clock);
        Some((stream.as_deref()?, Executor { window, at: self.at, limit: self.limit, last: self.last, marks, slots, records, role_values }))
    }

    fn decode_event(&mut self) -> Result<(), Stop> {
        let Some((stream, mut x)) = self.begin_event() else { return Ok(()) };
        stream.header.decode(&mut x)?;
        let class = stream.class_of(x.role_values.id).ok_or(Stop::UnknownEvent { at: x.at, id: x.role_values.id.unwrap_or(0) })?;
        let ran = x.run(&stream.events[class].ops);
        let (at, last, clock) = (x.at, x.last, x.role_values.time.map(|_| (x.role_values.clock, stream.converter.ns(x.role_values.clock))));
        // Also set for an event that does not end before the limit: the class is needed to find the
        // field that does not fit.
        self.class = class;
        ran?;
        if at == self.at {
            return Err(Stop::Empty { at });
        }
        (self.at, self.last) = (at, last);
        if let Some(clock) = clock {
            (self.clock, self.ns) = clock;
        }
        self.event_index += 1;
        Ok(())
    }

    /// Moves the window and tries again. Returns `None` if only padding was left in the packet, or
    /// an error.
    #[cold]
    fn event_stopped(&mut self, stop: Stop) -> Result<Option<Step>, Box<DecodeError>> {
        let mut stop = stop;
        while let Stop::Limit { at, bits, .. } = stop {
            let align = self.stream.as_ref().map_or(1, |s| s.event_align);
            if align_up(self.at, align) == self.packet.content_bits {
                return Ok(None);
            }
            let want = at.saturating_add(bits);
            if want > self.packet.content_bits || !self.more(self.at, want)? {
                break;
            }
            match self.decode_event() {
                Ok(()) => return Ok(Some(Step::Event)),
                Err(again) => stop = again,
            }
        }
        // `class` is the class of this event, unless its header did not fit.
        let fields = self.stream.as_ref().and_then(|s| s.events.get(self.class)).map_or(&[][..], |b| &b.fields);
        let stop = first_beyond(stop, fields, self.limit);
        // An event without bits would be returned again and again.
        self.partial = if matches!(stop, Stop::Empty { .. }) { None } else { self.decode_partly() };
        Err(self.fail(stop, Some(self.event_index)))
    }

    /// Decodes the start of an event that cannot be decoded as a whole; returns the number of its
    /// complete fields.
    fn decode_partly(&mut self) -> Option<usize> {
        let (begin, limit) = (self.at, self.limit);
        let (stream, mut x) = self.begin_event()?;
        stream.header.decode(&mut x).ok()?;
        let headless = x.at == begin;
        let class = stream.class_of(x.role_values.id)?;
        let plan = &stream.events[class];
        let progress = x.run_partly(&plan.ops);
        if headless && progress.nothing {
            return None;
        }
        let there = |field: &&Field| match progress.open {
            Some((mark, at)) if field.mark == mark => field.first_beyond(at, limit).is_none(),
            _ => field.mark < progress.marks,
        };
        let fields = plan.fields.iter().take_while(there).count();
        let clock = x.role_values.time.map(|_| (x.role_values.clock, stream.converter.ns(x.role_values.clock)));
        self.class = class;
        if let Some(clock) = clock {
            (self.clock, self.ns) = clock;
        }
        Some(fields)
    }

    /// Moves the window so that it begins at bit `from` and extends beyond the limit. Returns
    /// false if there is no more data.
    fn more(&mut self, from: u64, want: u64) -> Result<bool, Box<DecodeError>> {
        let begin = self.packet.offset + from / 8;
        let had = (self.limit / 8).saturating_sub(from / 8);
        let needed = (want / 8 + 1).saturating_sub(from / 8);
        // Doubling keeps the number of attempts small where the needed size is not known, as for
        // texts.
        let size = needed.max(had.saturating_mul(2)).min(self.data_end.saturating_sub(begin));
        self.load(begin, size)?;
        let before = self.limit;
        self.set_limit();
        Ok(self.limit > before)
    }

    fn load(&mut self, begin: u64, size: u64) -> Result<(), Box<DecodeError>> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let visible = self.source.start()..self.source.start() + self.source.bytes().len() as u64;
        if visible.start <= begin && begin.saturating_add(size as u64) <= visible.end {
            return Ok(());
        }
        if let Err(e) = self.source.load(begin, size) {
            self.state = State::Broken;
            self.next = self.data_end;
            let bit_offset = (begin - self.packet.offset) * 8;
            return Err(self.error(bit_offset, None, DecodeErrorKind::Io(e.to_string())));
        }
        let end = self.source.start() + self.source.bytes().len() as u64;
        if end < begin.saturating_add(size as u64) {
            self.data_end = self.data_end.min(end);
        }
        Ok(())
    }

    fn set_limit(&mut self) {
        let end = self.source.start() + self.source.bytes().len() as u64;
        let visible = end.saturating_sub(self.packet.offset).saturating_mul(8);
        self.limit = visible.min(self.packet.content_bits);
    }

    fn error(&self, bit_offset: u64, event: Option<u64>, kind: DecodeErrorKind) -> Box<DecodeError> {
        Box::new(DecodeError { packet: self.packet.index, packet_offset: self.packet.offset, bit_offset, event, kind })
    }

    /// Turns a stop into an error and puts the decoder into the failed state.
    fn fail(&mut self, stop: Stop, event: Option<u64>) -> Box<DecodeError> {
        self.leave_packet();
        self.state = State::Broken;
        self.error_of(stop, event)
    }

    fn error_of(&self, stop: Stop, event: Option<u64>) -> Box<DecodeError> {
        let content = self.packet.content_bits;
        let data = self.data_end.saturating_sub(self.packet.offset).saturating_mul(8);
        let (at, kind) = match stop {
            Stop::Limit { at, bits, opaque, .. } if self.packet.sized && at.saturating_add(bits) > content => {
                let (at, bits) = opaque.unwrap_or((at, bits));
                (at, DecodeErrorKind::BeyondContent { bits, remaining: content.saturating_sub(at) })
            }
            Stop::Limit { at, bits, .. } => (at, DecodeErrorKind::Truncated { bits: at.saturating_add(bits).saturating_sub(data) }),
            Stop::MixedOrder { at, from, to } => (at, DecodeErrorKind::MixedByteOrder { from, to }),
            Stop::NoOption { at, tag } => (at, DecodeErrorKind::NoOption { tag }),
            Stop::Unbacked { at, length } => (at, DecodeErrorKind::UnbackedLength { length }),
            Stop::CutUnit { at, unit } => (at, DecodeErrorKind::CutUnit { unit }),
            Stop::UnknownEvent { at, id } => {
                let stream = self.metadata.streams.get(self.packet.stream).map_or(0, |s| s.id);
                (at, DecodeErrorKind::UnknownEvent { stream, id })
            }
            Stop::Oversized { at } => (at, DecodeErrorKind::OversizedInteger),
            Stop::Empty { at } => (at, DecodeErrorKind::EmptyEvent),
            Stop::TooMany { at } => (at, DecodeErrorKind::TooManyParts),
        };
        self.error(at, event, kind)
    }
}

/// Narrows the place of a run that does not fit to the first field that does not fit.
fn first_beyond(stop: Stop, fields: &[Field], limit: u64) -> Stop {
    let Stop::Limit { at, run: Some(mark), .. } = stop else { return stop };
    let mut end = at;
    let beyond = fields.iter().filter(|f| f.mark == mark).find_map(|f| {
        // The run begins before the limit, but the padding before one of its fields may already
        // extend beyond it.
        let padding = at + f.offset > limit && end <= limit;
        let beyond = match padding {
            true => Some(Beyond { at: limit, bits: at + f.offset - limit, opaque: Some((end, at + f.offset - end)) }),
            false => f.first_beyond(at, limit),
        };
        end = f.end(at).unwrap_or(end);
        beyond
    });
    beyond.map_or(stop, |Beyond { at, bits, opaque }| Stop::Limit { at, bits, run: None, opaque })
}

/// The visible bytes of the packet that begins at byte `offset` of the stream.
#[inline]
fn window<S: Source>(source: &S, offset: u64) -> Window<'_> {
    let (bytes, start) = (source.bytes(), source.start());
    match offset.checked_sub(start) {
        Some(skip) => Window { bytes: bytes.get(skip as usize..).unwrap_or(&[]), base: 0 },
        None => Window { bytes, base: (start - offset) * 8 },
    }
}
