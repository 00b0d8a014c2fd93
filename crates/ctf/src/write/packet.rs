//! Converts values to packets.
//!
//! A [`StreamWriter`] takes the events of one stream in their order and yields the bytes of its
//! packets. It fills in the fields of headers and contexts that have a role (sizes, times, ids,
//! counters); the caller supplies their other fields with the packet, or they are 0. Each value is
//! checked against its field and against the fields on which it depends: an array against its
//! length, an option against its tag. A value that does not fit is an error, and nothing of its
//! event is written.

use std::sync::Arc;

use super::bit_buffer::BitBuffer;
use super::datum::Datum;
use super::error::{WriteError, WriteErrorKind};
use super::fields::{padded, DeferredField, FieldWriter, FilledIn, Header, InOrder, Named, Result, RoleValues};
use super::shape::{EventLayout, Layout, Shape, StreamLayout};
use crate::bits::align_up;
use crate::clock::{extend, low_bits};
use crate::packet::Packet;
use crate::types::*;

/// Maximum size of a packet in bytes, unless [`StreamWriter::limit`] changes it.
const LIMIT: u64 = 256 << 20;

/// Number of ways to write the header of an event that are tried.
const MAX_ATTEMPTS: usize = 64;

/// Writes the packets of one stream.
#[derive(Debug)]
pub struct StreamWriter {
    layout: Arc<Layout>,
    stream: usize,
    buffer: BitBuffer,
    limit: u64,
    packet: Packet,
    open: bool,
    /// Position in the open packet, in bits from its start.
    at: u64,
    last: ByteOrder,
    /// Full value of the clock, as a reader will reconstruct it.
    clock: u64,
    /// Time of the last event of the packet.
    last_time: Option<u64>,
    /// Number of packets that were begun because an event's header could not represent its time.
    extra: u64,
    /// True if a packet without a recorded size was closed: no packet can follow it.
    endless: bool,
    slots: Vec<u64>,
    late: Vec<DeferredField>,
}

/// Position at which an event begins, with the byte that contains it, so that the event can be
/// undone.
#[derive(Clone, Copy, Debug)]
struct UndoPoint {
    at: u64,
    last: ByteOrder,
    byte: u8,
}

impl StreamWriter {
    /// Creates a writer for a stream of the class with index `stream`.
    pub fn new(layout: Arc<Layout>, stream: usize) -> StreamWriter {
        StreamWriter {
            slots: vec![0; layout.slots],
            layout,
            stream,
            buffer: BitBuffer::default(),
            limit: LIMIT,
            packet: Packet::default(),
            open: false,
            at: 0,
            last: ByteOrder::Little,
            clock: 0,
            last_time: None,
            extra: 0,
            endless: false,
            late: Vec::new(),
        }
    }

    /// Limits packets to `bytes` bytes instead of 256 MiB.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> StreamWriter {
        self.limit = bytes.min(u64::MAX >> 4);
        self
    }

    /// The bytes of all closed packets that were not taken.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.closed()
    }

    /// Takes the bytes of all closed packets.
    pub fn take(&mut self) -> Vec<u8> {
        self.buffer.take()
    }

    /// Number of bits in the open packet; 0 if none is open.
    pub fn packet_bits(&self) -> u64 {
        if self.open {
            self.at
        } else {
            0
        }
    }

    /// The properties that are written at the end of the open packet. Until then a caller may set
    /// the time of its end, if it differs from the time of its last event, and the counter of
    /// discarded events.
    pub fn packet_mut(&mut self) -> &mut Packet {
        &mut self.packet
    }

    /// Begins a packet; an open one is ended. The times, numbers and context fields of `packet` are
    /// written, as far as there are fields for them. Without a start time in `packet`, the last
    /// time that was written is used.
    pub fn begin(&mut self, packet: &Packet) -> Result<()> {
        if self.open {
            self.end()?;
        }
        if self.endless {
            return Err(WriteErrorKind::NoPacketSize.into());
        }
        let layout = self.layout.clone();
        let Some(stream) = layout.streams.get(self.stream) else {
            return Err(WriteErrorKind::UnknownStream { index: self.stream }.into());
        };
        self.packet = packet.clone();
        (self.at, self.last, self.last_time) = (0, ByteOrder::Little, None);
        self.late.clear();
        self.open = true;
        let written = self.head(&layout, &stream.context, packet);
        if written.is_err() {
            self.buffer.truncate(0);
            self.open = false;
        }
        written
    }

    fn head(&mut self, layout: &Layout, context: &Shape, packet: &Packet) -> Result<()> {
        let schema = layout.metadata.schema();
        let begin = packet.begin.unwrap_or(self.clock);
        let values = RoleValues {
            packet,
            sequence: packet.sequence.map(|n| n.wrapping_add(self.extra)),
            stream: schema.streams.get(self.stream).map_or(0, |s| s.id),
            begin,
            times: None,
        };
        let clock = self.clock;
        let mut put = self.put(clock, FilledIn::Packet(values));
        let uuid = layout.uuid.as_ref().zip(schema.trace.uuid.as_ref());
        put.flat(&layout.packet_header, &mut Named { fields: &[], uuid, path: String::new() })?;
        put.flat(context, &mut Named { fields: &packet.context, uuid: None, path: String::new() })?;
        let (at, last) = (put.at, put.last);
        let times = match put.auto {
            FilledIn::Packet(values) => values.times,
            _ => None,
        };
        (self.at, self.last) = (at, last);
        if let Some((first, last)) = times {
            if first != begin {
                return Err(WriteErrorKind::TimeTooLarge { last: clock, cycles: begin }.into());
            }
            self.clock = last;
        }
        Ok(())
    }

    /// Writes an event of the class with index `class`. If no packet is open, one is begun. If the
    /// time field of the header cannot represent how much later (or earlier) than the last event
    /// this one was, another packet is begun.
    ///
    /// The values are those of [`Metadata::fields`](crate::Metadata::fields) in their order, as
    /// [`EventRef::values`](crate::EventRef::values) yields them.
    pub fn event<'v, V: Into<Datum<'v>>>(&mut self, class: usize, cycles: u64, values: impl IntoIterator<Item = V>) -> Result<()> {
        let layout = self.layout.clone();
        let Some(stream) = layout.streams.get(self.stream) else {
            return Err(WriteErrorKind::UnknownStream { index: self.stream }.into());
        };
        let Some(event) = stream.events.get(class) else { return Err(WriteErrorKind::UnknownClass { index: class }.into()) };
        let only = layout.metadata.plan.streams.get(self.stream).is_some_and(|plan| plan.class_of(None) == Some(class));
        self.event_of(&layout, stream, event, only, cycles, &mut values.into_iter())
    }

    /// Like [`event`](Self::event), for a class that the schema does not have and that
    /// [`Layout::event`] has prepared.
    pub fn new_event<'v, V: Into<Datum<'v>>>(
        &mut self,
        class: &EventLayout,
        cycles: u64,
        values: impl IntoIterator<Item = V>,
    ) -> Result<()> {
        let layout = self.layout.clone();
        let Some(stream) = layout.streams.get(self.stream) else {
            return Err(WriteErrorKind::UnknownStream { index: self.stream }.into());
        };
        let slots = class.first_slot + class.slots;
        if self.slots.len() < slots {
            self.slots.resize(slots, 0);
        }
        self.event_of(&layout, stream, class, false, cycles, &mut values.into_iter())
    }

    /// `only` is true if a reader assigns an event without an id to this class.
    fn event_of<'v, V: Into<Datum<'v>>>(
        &mut self,
        layout: &Layout,
        stream: &StreamLayout,
        class: &EventLayout,
        only: bool,
        cycles: u64,
        values: &mut dyn Iterator<Item = V>,
    ) -> Result<()> {
        if !self.open {
            self.begin(&Packet { begin: Some(cycles), ..Packet::default() })?;
        }
        let mut before = self.undo_point();
        let mut header = self.header(layout, stream, class.id, only, cycles);
        // The start of a packet may represent a time that the header of an event cannot.
        if header.as_ref().is_err_and(|e| is_time(e)) && stream.roles.has(Roles::TIME) {
            let mut next = self.packet.clone();
            self.packet.end = None;
            self.end()?;
            self.extra += u64::from(next.sequence.is_some());
            next.begin = Some(cycles);
            self.begin(&next)?;
            before = self.undo_point();
            header = self.header(layout, stream, class.id, only, cycles);
        }
        let written = header.and_then(|timed| {
            self.body(stream, class, values)?;
            match self.at == before.at {
                true => Err(WriteErrorKind::EmptyEvent.into()),
                false => Ok(timed),
            }
        });
        match written {
            Ok(timed) => {
                if timed {
                    self.clock = cycles;
                    self.last_time = Some(cycles);
                }
                Ok(())
            }
            Err(e) => {
                self.go_back(&before);
                Err(e)
            }
        }
    }

    fn undo_point(&self) -> UndoPoint {
        UndoPoint { at: self.at, last: self.last, byte: self.buffer.byte(self.at) }
    }

    /// Discards everything that was written since `place`.
    fn go_back(&mut self, place: &UndoPoint) {
        (self.at, self.last) = (place.at, place.last);
        self.buffer.restore(place.at, place.byte);
    }

    /// Writes a header. Returns true if it contains the time.
    fn header(&mut self, layout: &Layout, stream: &StreamLayout, id: u64, only: bool, cycles: u64) -> Result<bool> {
        let Some(shape) = &stream.event_header else {
            return match only {
                true => Ok(false),
                false => Err(WriteErrorKind::IdTooLarge { id }.into()),
            };
        };
        let (before, clock) = (self.undo_point(), self.clock);
        let mut failure: Option<Box<WriteError>> = None;
        for attempt in 0..MAX_ATTEMPTS {
            let header = Header { id, cycles, attempt, more: false, reported_id: None, reported_time: None };
            let mut put = self.put(clock, FilledIn::Header(header, layout));
            let result = put.walk(shape, None);
            let (at, last_order) = (put.at, put.last);
            let FilledIn::Header(header, _) = put.auto else { break };
            let wrong = match (result, header.reported_id, header.reported_time) {
                (Err(e), ..) => e,
                (Ok(()), reported, _) if reported.is_some_and(|reported| reported != id) || reported.is_none() && !only => {
                    WriteErrorKind::IdTooLarge { id }.into()
                }
                (Ok(()), _, Some(time)) if time != cycles => WriteErrorKind::TimeTooLarge { last: clock, cycles }.into(),
                // Another way to write the header may contain the time.
                (Ok(()), _, None) if clock != cycles && header.more => WriteErrorKind::TimeTooLarge { last: clock, cycles }.into(),
                (Ok(()), _, time) => {
                    (self.at, self.last) = (at, last_order);
                    return Ok(time.is_some());
                }
            };
            self.go_back(&before);
            // An error about the time is kept in preference to others, because a new packet may
            // resolve it.
            match &failure {
                Some(known) if is_time(known) || !is_time(&wrong) => {}
                _ => failure = Some(wrong),
            }
            if !header.more {
                break;
            }
        }
        Err(failure.unwrap_or_else(|| WriteErrorKind::IdTooLarge { id }.into()))
    }

    fn body<'v, V: Into<Datum<'v>>>(
        &mut self,
        stream: &StreamLayout,
        class: &EventLayout,
        values: &mut dyn Iterator<Item = V>,
    ) -> Result<()> {
        let clock = self.clock;
        let mut put = self.put(clock, FilledIn::Nothing);
        if let Some(shape) = &stream.event_context {
            put.flat(shape, &mut InOrder(values))?;
        }
        if class.first_slot > 0 {
            let slots = std::mem::take(&mut put.slots);
            put.slots = slots.get_mut(class.first_slot..).unwrap_or_default();
        }
        for shape in &class.scopes {
            put.flat(shape, &mut InOrder(values))?;
        }
        let (at, last) = (put.at, put.last);
        if values.next().is_some() {
            return Err(WriteErrorKind::TooManyValues.into());
        }
        (self.at, self.last) = (at, last);
        Ok(())
    }

    /// Ends the packet, if one is open.
    pub fn end(&mut self) -> Result<()> {
        if !self.open {
            return Ok(());
        }
        self.open = false;
        let roles = self.layout.streams.get(self.stream).map_or(Roles::NONE, |s| s.roles);
        let aligned = self.layout.metadata.plan.streams.get(self.stream).map_or(1, |s| s.event_align) >= 8;
        let (content, total) = (self.at, align_up(self.at, 8));
        let is_unknown = !roles.has(Roles::CONTENT_SIZE) && content != total && !aligned;
        let end = self.packet.end.or(self.last_time).unwrap_or(self.clock);
        let mut wrong = is_unknown.then_some(WriteErrorKind::NoPacketSize);
        for late in std::mem::take(&mut self.late) {
            let value = match late.roles {
                roles if roles.has(Roles::PACKET_SIZE) => total,
                roles if roles.has(Roles::CONTENT_SIZE) => content,
                roles if roles.has(Roles::END_TIME) => end,
                _ => self.packet.discarded.unwrap_or(0),
            };
            let bits = late.leaf.map_or(64, |leaf| u32::from(leaf.bits));
            let sizes = late.roles.has(Roles::PACKET_SIZE) || late.roles.has(Roles::CONTENT_SIZE);
            let low = value & low_bits(bits);
            if sizes && low != value {
                wrong = Some(WriteErrorKind::OutOfRange { value: i128::from(value), bits, signed: false });
            }
            let begin = self.packet.begin.unwrap_or(self.clock);
            if late.roles.has(Roles::END_TIME) && extend(begin, low, low_bits(bits)) != value {
                wrong = Some(WriteErrorKind::TimeTooLarge { last: begin, cycles: value });
            }
            if late.saved.is_some_and(|saved| saved != low) {
                wrong = Some(WriteErrorKind::LateValue);
            }
            match late.leaf {
                Some(leaf) => self.buffer.put(late.at, leaf, low),
                None => self.buffer.put_bytes(late.at, &padded(low)),
            }
        }
        if let Some(kind) = wrong {
            self.buffer.truncate(0);
            return Err(kind.into());
        }
        self.endless = !roles.has(Roles::CONTENT_SIZE) && !roles.has(Roles::PACKET_SIZE);
        self.buffer.close((total / 8) as usize);
        Ok(())
    }

    fn put<'w>(&'w mut self, clock: u64, auto: FilledIn<'w>) -> FieldWriter<'w> {
        FieldWriter {
            buffer: &mut self.buffer,
            at: self.at,
            last: self.last,
            slots: &mut self.slots,
            late: &mut self.late,
            limit: self.limit * 8,
            clock,
            auto,
        }
    }
}

fn is_time(error: &WriteError) -> bool {
    matches!(error.kind, WriteErrorKind::TimeTooLarge { .. })
}
