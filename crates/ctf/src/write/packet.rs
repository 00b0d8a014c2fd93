//! Values to packets.
//!
//! A [`StreamWriter`] takes the events of one stream in their order and yields the bytes of its packets. What headers and contexts tell of
//! the stream (sizes, times, ids, counters) it fills in itself, by the roles of their fields; what their other fields hold is given with the
//! packet, or 0. A value is checked against its field and against the fields that it hangs on: an array against its length, an option
//! against its tag. What does not fit is an error, and the event that it is of leaves no trace.

use std::sync::Arc;

use super::datum::Datum;
use super::error::{WriteError, WriteErrorKind};
use super::put::Buffer;
use super::shape::{Layout, Part, Shape};
use crate::bits::{align_up, Leaf, LeafKind};
use crate::clock::{extend, low_bits};
use crate::packet::Packet;
use crate::plan::Count;
use crate::types::*;
use crate::value::Value;

type Result<T> = std::result::Result<T, Box<WriteError>>;

/// What the first bytes of a packet are as a number.
const MAGIC: u64 = 0xC1FC_1FC1;

/// Packets are not larger than this unless it is said.
const LIMIT: u64 = 256 << 20;

/// An array whose elements have no bits has no more of them than a reader takes.
const MAX_UNBACKED: u64 = 1 << 12;

/// Bytes of a variable-length integer that has room for any of 64 bits.
const WIDEST: usize = 10;

/// So many ways to write an event's header are tried.
const MAX_ATTEMPTS: usize = 64;

/// Writes the packets of one stream.
#[derive(Debug)]
pub struct StreamWriter {
    layout: Arc<Layout>,
    stream: usize,
    buffer: Buffer,
    limit: u64,
    packet: Packet,
    open: bool,
    /// Bits from the packet's begin.
    at: u64,
    last: ByteOrder,
    /// Full value of the clock, as a reader will have it.
    clock: u64,
    /// Of the last event of the packet.
    last_time: Option<u64>,
    /// Packets that were begun because a time could not be told.
    extra: u64,
    /// A packet was closed that nothing can follow.
    endless: bool,
    slots: Vec<u64>,
    late: Vec<Late>,
}

/// Where an event begins, and the bits before it in the same byte.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u64,
    last: ByteOrder,
    byte: u8,
}

/// A number that is known when the packet ends.
#[derive(Debug)]
struct Late {
    at: u64,
    /// None of a variable-length integer.
    leaf: Option<Leaf>,
    roles: Roles,
    /// What else depends on it was written with this value.
    saved: Option<u64>,
}

impl StreamWriter {
    /// For streams of the class with this index.
    pub fn new(layout: Arc<Layout>, stream: usize) -> StreamWriter {
        StreamWriter {
            slots: vec![0; layout.slots],
            layout,
            stream,
            buffer: Buffer::default(),
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

    /// With packets of at most so many bytes instead of 256 MiB.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> StreamWriter {
        self.limit = bytes.min(u64::MAX >> 4);
        self
    }

    /// The bytes of all packets that are closed and were not taken.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.closed()
    }

    /// Takes the bytes of all packets that are closed.
    pub fn take(&mut self) -> Vec<u8> {
        self.buffer.take()
    }

    /// Bits of the open packet so far.
    pub fn packet_bits(&self) -> u64 {
        if self.open {
            self.at
        } else {
            0
        }
    }

    /// What the open packet tells at its end: the time of its end, if it is not that of its last event, and the counter of discarded events
    /// may be set until then.
    pub fn packet_mut(&mut self) -> &mut Packet {
        &mut self.packet
    }

    /// Begins a packet; an open one ends. Of `packet` its times, numbers and the fields of its context are told, as far as there are fields
    /// for them. Without a time of its begin it is the last that was told.
    pub fn begin(&mut self, packet: &Packet) -> Result<()> {
        if self.open {
            self.end()?;
        }
        if self.endless {
            return Err(WriteErrorKind::UntoldEnd.into());
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
        let told = Told {
            packet,
            sequence: packet.sequence.map(|n| n.wrapping_add(self.extra)),
            stream: schema.streams.get(self.stream).map_or(0, |s| s.id),
            begin,
            time: None,
        };
        let clock = self.clock;
        let mut put = self.put(clock, Auto::Packet(told));
        let uuid = layout.uuid.as_ref().zip(schema.trace.uuid.as_ref());
        put.flat(&layout.packet_header, &mut Named { fields: &[], uuid, path: String::new() })?;
        put.flat(context, &mut Named { fields: &packet.context, uuid: None, path: String::new() })?;
        let (at, last) = (put.at, put.last);
        let time = match put.auto {
            Auto::Packet(told) => told.time,
            _ => None,
        };
        (self.at, self.last) = (at, last);
        if let Some((low, bits)) = time {
            if extend(clock, low, low_bits(bits)) != begin {
                return Err(WriteErrorKind::UntoldTime { last: clock, cycles: begin }.into());
            }
            self.clock = begin;
        }
        Ok(())
    }

    /// Writes an event of the class with this index. Outside of a packet one begins; where the header's time cannot tell how much later
    /// (or earlier) than the last this event was, another one.
    ///
    /// The values are those of [`Metadata::fields`](crate::Metadata::fields) in their order, as
    /// [`EventRef::values`](crate::EventRef::values) yields them.
    pub fn event<'v, V: Into<Datum<'v>>>(&mut self, class: usize, cycles: u64, values: impl IntoIterator<Item = V>) -> Result<()> {
        let layout = self.layout.clone();
        let Some(stream) = layout.streams.get(self.stream) else {
            return Err(WriteErrorKind::UnknownStream { index: self.stream }.into());
        };
        let Some(scopes) = stream.events.get(class) else { return Err(WriteErrorKind::UnknownClass { index: class }.into()) };
        if !self.open {
            self.begin(&Packet { begin: Some(cycles), ..Packet::default() })?;
        }
        let mut before = self.place();
        let mut header = self.header(&layout, class, cycles);
        // A packet's begin may tell what an event's header cannot.
        if header.as_ref().is_err_and(|e| is_time(e)) && stream.told.has(Roles::TIME) {
            let mut next = self.packet.clone();
            self.packet.end = None;
            self.end()?;
            self.extra += u64::from(next.sequence.is_some());
            next.begin = Some(cycles);
            self.begin(&next)?;
            before = self.place();
            header = self.header(&layout, class, cycles);
        }
        let written = header.and_then(|timed| {
            self.body(scopes, &mut values.into_iter())?;
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

    fn place(&self) -> Place {
        Place { at: self.at, last: self.last, byte: self.buffer.byte(self.at) }
    }

    /// Forgets what was written since.
    fn go_back(&mut self, place: &Place) {
        (self.at, self.last) = (place.at, place.last);
        self.buffer.restore(place.at, place.byte);
    }

    /// Writes a header; whether it tells the time.
    fn header(&mut self, layout: &Layout, class: usize, cycles: u64) -> Result<bool> {
        let stream = &layout.streams[self.stream];
        let id = layout.metadata.schema().streams[self.stream].events[class].id;
        let plan = &layout.metadata.plan.streams[self.stream];
        let Some(shape) = &stream.event_header else {
            return match plan.class_of(None) == Some(class) {
                true => Ok(false),
                false => Err(WriteErrorKind::UntoldId { id }.into()),
            };
        };
        let (before, clock) = (self.place(), self.clock);
        let mut untold: Option<Box<WriteError>> = None;
        for attempt in 0..MAX_ATTEMPTS {
            let header = Header { id, cycles, attempt, more: false, told_id: None, told_time: None };
            let mut put = self.put(clock, Auto::Header(header, layout));
            let result = put.walk(shape, None);
            let (at, last_order) = (put.at, put.last);
            let Auto::Header(header, _) = put.auto else { break };
            let wrong = match (result, header.told_id, header.told_time) {
                (Err(e), ..) => e,
                (Ok(()), told, _) if told.is_some_and(|told| told != id) || told.is_none() && plan.class_of(None) != Some(class) => {
                    WriteErrorKind::UntoldId { id }.into()
                }
                (Ok(()), _, Some((low, bits))) if extend(clock, low, low_bits(bits)) != cycles => {
                    WriteErrorKind::UntoldTime { last: clock, cycles }.into()
                }
                (Ok(()), _, time) => {
                    (self.at, self.last) = (at, last_order);
                    return Ok(time.is_some());
                }
            };
            self.go_back(&before);
            // A time that cannot be told is what another packet may help with.
            match &untold {
                Some(known) if is_time(known) || !is_time(&wrong) => {}
                _ => untold = Some(wrong),
            }
            if !header.more {
                break;
            }
        }
        Err(untold.unwrap_or_else(|| WriteErrorKind::UntoldId { id }.into()))
    }

    fn body<'v, V: Into<Datum<'v>>>(&mut self, scopes: &[Shape], values: &mut dyn Iterator<Item = V>) -> Result<()> {
        let clock = self.clock;
        let mut put = self.put(clock, Auto::Nothing);
        for shape in scopes {
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
        let told = self.layout.streams.get(self.stream).map_or(Roles::NONE, |s| s.told);
        let aligned = self.layout.metadata.plan.streams.get(self.stream).map_or(1, |s| s.event_align) >= 8;
        let (content, total) = (self.at, align_up(self.at, 8));
        let untold = !told.has(Roles::CONTENT_SIZE) && content != total && !aligned;
        let end = self.packet.end.or(self.last_time).unwrap_or(self.clock);
        let mut wrong = untold.then_some(WriteErrorKind::UntoldEnd);
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
                wrong = Some(WriteErrorKind::UntoldTime { last: begin, cycles: value });
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
        self.endless = !told.has(Roles::CONTENT_SIZE) && !told.has(Roles::PACKET_SIZE);
        self.buffer.close((total / 8) as usize);
        Ok(())
    }

    fn put<'w>(&'w mut self, clock: u64, auto: Auto<'w>) -> Put<'w> {
        Put {
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
    matches!(error.kind, WriteErrorKind::UntoldTime { .. })
}

/// A variable-length integer with bytes for any value.
fn padded(value: u64) -> [u8; WIDEST] {
    let mut bytes = [0x80; WIDEST];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte |= (value >> (7 * index)) as u8 & 0x7f;
    }
    bytes[WIDEST - 1] &= 0x7f;
    bytes
}

/// What a packet's header and context tell.
struct Told<'p> {
    packet: &'p Packet,
    sequence: Option<u64>,
    stream: u64,
    begin: u64,
    time: Option<(u64, u32)>,
}

/// What an event's header tells.
struct Header {
    id: u64,
    cycles: u64,
    /// Which of the ways to write it: 0 with the id as its tag, then with each option.
    attempt: usize,
    /// There are other ways.
    more: bool,
    told_id: Option<u64>,
    told_time: Option<(u64, u32)>,
}

/// Where numbers come from that nobody gives.
enum Auto<'w> {
    Nothing,
    Packet(Told<'w>),
    Header(Header, &'w Layout),
}

const LATE: Roles = Roles::PACKET_SIZE.and(Roles::CONTENT_SIZE).and(Roles::END_TIME).and(Roles::DISCARDED);

/// Where values come from.
trait Feed<'v> {
    fn enter(&mut self, _: &str) {}
    fn leave(&mut self) {}
    /// Nothing if the field is to be zero.
    fn take(&mut self, name: &str) -> std::result::Result<Option<Datum<'v>>, WriteErrorKind>;
}

struct InOrder<'i, V>(&'i mut dyn Iterator<Item = V>);

impl<'v, V: Into<Datum<'v>>> Feed<'v> for InOrder<'_, V> {
    #[inline]
    fn take(&mut self, _: &str) -> std::result::Result<Option<Datum<'v>>, WriteErrorKind> {
        match self.0.next() {
            Some(value) => Ok(Some(value.into())),
            None => Err(WriteErrorKind::MissingValue),
        }
    }
}

/// The fields of a packet by their names.
struct Named<'v> {
    fields: &'v [(Arc<str>, crate::value::OwnedValue)],
    uuid: Option<(&'v Arc<str>, &'v [u8; 16])>,
    path: String,
}

impl<'v> Feed<'v> for Named<'v> {
    fn enter(&mut self, name: &str) {
        self.path.push_str(name);
        self.path.push('.');
    }

    fn leave(&mut self) {
        self.path.pop();
        self.path.truncate(self.path.rfind('.').map_or(0, |dot| dot + 1));
    }

    fn take(&mut self, name: &str) -> std::result::Result<Option<Datum<'v>>, WriteErrorKind> {
        let is = |full: &str| full.strip_prefix(self.path.as_str()) == Some(name);
        if let Some((_, uuid)) = self.uuid.filter(|(full, _)| is(full)) {
            return Ok(Some(Datum::Value(Value::Bytes(uuid))));
        }
        let found = self.fields.iter().find(|(full, _)| is(full));
        // It may have become another one's identifier.
        let alike = || self.fields.iter().find(|(full, _)| same(full, &format!("{}{name}", self.path)));
        Ok(found.or_else(alike).map(|(_, value)| value.into()))
    }
}

/// Puts values one after another.
struct Put<'w> {
    buffer: &'w mut Buffer,
    at: u64,
    last: ByteOrder,
    slots: &'w mut [u64],
    late: &'w mut Vec<Late>,
    /// In bits.
    limit: u64,
    clock: u64,
    auto: Auto<'w>,
}

impl Put<'_> {
    /// Where the next field of this alignment begins, and that so many bits of it are within the limit.
    #[inline]
    fn aligned(&self, align: u32, bits: u64) -> Result<u64> {
        let at = align_up(self.at, align);
        if at.saturating_add(bits) > self.limit {
            return Err(WriteErrorKind::TooLarge { limit: self.limit / 8 }.into());
        }
        Ok(at)
    }

    fn save(&mut self, slots: &[u32], value: u64) {
        for &slot in slots {
            if let Some(s) = self.slots.get_mut(slot as usize) {
                *s = value;
            }
        }
    }

    fn saved(&self, slot: u32) -> u64 {
        self.slots.get(slot as usize).copied().unwrap_or(0)
    }

    /// A structure whose fields, and those of the structures in it, have their values one after another.
    fn flat<'v>(&mut self, shape: &Shape, feed: &mut dyn Feed<'v>) -> Result<()> {
        let Shape::Struct { align, parts } = shape else {
            let datum = feed.take("")?;
            return self.walk(shape, datum);
        };
        self.at = self.aligned(*align, 0)?;
        let mut next = None;
        for (index, part) in parts.iter().enumerate() {
            let result = match &part.shape {
                Shape::Struct { .. } => {
                    feed.enter(&part.name);
                    let result = self.flat(&part.shape, feed);
                    feed.leave();
                    result
                }
                shape if part.made => {
                    let following = parts.get(index + 1);
                    let datum = feed.take(following.map_or("", |f| &f.name)).map_err(Box::from);
                    datum.and_then(|datum| {
                        next = Some(datum);
                        self.made(shape, following, datum)
                    })
                }
                shape => match next.take() {
                    Some(datum) => self.walk(shape, datum),
                    None => feed.take(&part.name).map_err(Box::from).and_then(|datum| self.walk(shape, datum)),
                },
            };
            if let Err(e) = result {
                return Err(e.within(&part.name));
            }
        }
        Ok(())
    }

    /// A number that follows from the value of what comes next.
    fn made(&mut self, shape: &Shape, following: Option<&Part>, datum: Option<Datum<'_>>) -> Result<()> {
        let value = match (following.map(|f| &f.shape), datum) {
            (_, None) => 0,
            (Some(Shape::Variant { optional: true, .. }), Some(datum)) => u64::from(!datum.is_nothing()),
            (Some(Shape::Variant { options, .. }), Some(datum)) => {
                let (index, name, _) = datum.option()?;
                let index = index.or_else(|| options.iter().position(|o| same(&o.name, name)));
                match index.filter(|index| *index < options.len()) {
                    Some(index) => index as u64,
                    None => return Err(WriteErrorKind::UnknownOption { name: name.to_owned() }.into()),
                }
            }
            (_, Some(datum)) => datum.len()?,
        };
        self.walk(shape, Some(Datum::Value(Value::U64(value))))
    }

    /// Anything; without a datum all of it is zero, but for what is told by itself.
    fn walk(&mut self, shape: &Shape, datum: Option<Datum<'_>>) -> Result<()> {
        match shape {
            Shape::Number { leaf, align, saves, roles } => self.number(*leaf, *align, saves, *roles, datum),
            Shape::VarInt { signed, saves, roles } => self.var_int(*signed, saves, *roles, datum),
            Shape::Text(encoding) => self.text(*encoding, datum),
            Shape::Struct { align, parts } => {
                self.at = self.aligned(*align, 0)?;
                let mut fields = datum.map(|d| d.fields()).transpose()?;
                let mut next: Option<Option<Datum<'_>>> = None;
                for (index, part) in parts.iter().enumerate() {
                    let mut take = |part: &Part| match fields.as_mut().map(Iterator::next) {
                        None => Ok(None),
                        Some(None) => Err(WriteErrorKind::MissingValue),
                        Some(Some((name, _))) if !same(name, &part.name) => Err(WriteErrorKind::WrongField { found: name.to_owned() }),
                        Some(Some((_, datum))) => Ok(Some(datum)),
                    };
                    let result = match parts.get(index + 1).filter(|_| part.made) {
                        Some(following) => take(following).map_err(Box::from).and_then(|datum| {
                            next = Some(datum);
                            self.made(&part.shape, Some(following), datum)
                        }),
                        None => match next.take() {
                            Some(datum) => self.walk(&part.shape, datum),
                            None => take(part).map_err(Box::from).and_then(|datum| self.walk(&part.shape, datum)),
                        },
                    };
                    result.map_err(|e| e.within(&part.name))?;
                }
                match fields.as_mut().and_then(Iterator::next) {
                    Some((name, _)) => Err(WriteErrorKind::WrongField { found: name.to_owned() }.into()),
                    None => Ok(()),
                }
            }
            Shape::Wrapped { align, parts } => {
                self.at = self.aligned(*align, 0)?;
                let Some((last, before)) = parts.split_last() else { return Ok(()) };
                for part in before {
                    self.made(&part.shape, Some(last), datum)?;
                }
                self.walk(&last.shape, datum)
            }
            Shape::Array { .. } => self.array(shape, datum),
            Shape::Variant { slot, choices, options, optional } => {
                let tag = choices.value(self.saved(*slot));
                let chosen = choices.find(tag).and_then(|option| Some((option as usize, options.get(option as usize)?)));
                let Some((index, part)) = chosen else { return Err(WriteErrorKind::NoOption { tag }.into()) };
                let inner = match datum {
                    None => None,
                    Some(_) if *optional && index == 0 => None,
                    Some(datum) if *optional => Some(datum),
                    Some(datum) => {
                        let (option, name, inner) = datum.option()?;
                        if option != Some(index) && !same(name, &part.name) {
                            let (selected, found) = (part.name.to_string(), name.to_owned());
                            return Err(WriteErrorKind::WrongOption { selected, found }.into());
                        }
                        Some(inner)
                    }
                };
                self.walk(&part.shape, inner).map_err(|e| e.within(&part.name))
            }
            Shape::Optional { slot, choices, inner } => {
                let there = choices.find(choices.value(self.saved(*slot))).is_some();
                match datum {
                    Some(datum) if datum.is_nothing() == there && !(there && inner.is_optional()) => {
                        Err(WriteErrorKind::WrongPresence { there }.into())
                    }
                    _ if there => self.walk(inner, datum),
                    _ => Ok(()),
                }
            }
        }
    }

    #[inline]
    fn number(&mut self, leaf: Leaf, align: u32, saves: &[u32], roles: Roles, datum: Option<Datum<'_>>) -> Result<()> {
        let bits = u64::from(leaf.bits);
        let at = self.aligned(align, bits)?;
        self.in_order(at, leaf)?;
        self.at = at + bits;
        self.last = leaf.order;
        if leaf.kind == LeafKind::Float {
            let value = datum.map_or(Ok(0.0), |d| d.float())?;
            self.buffer.put_float(at, leaf, value);
            return Ok(());
        }
        let known = match (&self.auto, roles.is_empty()) {
            (Auto::Nothing, _) => None,
            (Auto::Packet(_), true) => None,
            _ => self.known(u32::from(leaf.bits), leaf.kind == LeafKind::Signed, saves, roles)?,
        };
        let raw = match (known, datum) {
            (Some(value), _) => value & low_bits(u32::from(leaf.bits)),
            (None, Some(datum)) => datum.raw(leaf)?,
            (None, None) => 0,
        };
        self.buffer.put(at, leaf, raw);
        if !saves.is_empty() {
            let unused = 64 - u32::from(leaf.bits);
            let signed = leaf.kind == LeafKind::Signed;
            self.save(saves, if signed { ((raw << unused) as i64 >> unused) as u64 } else { raw });
        }
        self.tell(roles, raw, u32::from(leaf.bits), at, Some(leaf), saves);
        Ok(())
    }

    fn in_order(&self, at: u64, leaf: Leaf) -> Result<()> {
        match at % 8 != 0 && self.last != leaf.order {
            true => Err(WriteErrorKind::MixedByteOrder { from: self.last, to: leaf.order }.into()),
            false => Ok(()),
        }
    }

    /// The value of what is told by itself; errors where it cannot be.
    fn known(&mut self, bits: u32, signed: bool, saves: &[u32], roles: Roles) -> Result<Option<u64>> {
        let most = low_bits(bits) >> u32::from(signed);
        match &mut self.auto {
            Auto::Nothing => Ok(None),
            Auto::Packet(told) => Ok(match roles {
                roles if roles.has(Roles::MAGIC) => Some(MAGIC),
                roles if roles.has(Roles::STREAM_ID) => {
                    if told.stream > most {
                        return Err(WriteErrorKind::OutOfRange { value: i128::from(told.stream), bits, signed }.into());
                    }
                    Some(told.stream)
                }
                roles if roles.has(Roles::STREAM_INSTANCE) => told.packet.stream_instance,
                roles if roles.has(Roles::TIME) => Some(told.begin),
                roles if roles.has(Roles::SEQUENCE) => told.sequence,
                roles if roles.has(Roles::CPU) => told.packet.cpu_id,
                roles if roles.has(Roles::DISCARDED) => told.packet.discarded,
                _ => None,
            }),
            Auto::Header(header, layout) => {
                let choices = saves.iter().find_map(|slot| layout.tags.get(slot));
                if let Some(choices) = choices {
                    // The id itself is tried first, then each option.
                    header.more |= header.attempt < choices.len();
                    let by_id = header.attempt == 0 && roles.has(Roles::EVENT_ID);
                    let chosen = header.attempt.saturating_sub(1).min(choices.len().saturating_sub(1));
                    let least = if signed { -i128::from(most) - 1 } else { 0 };
                    return match choices.get(chosen) {
                        _ if by_id && header.id <= most => Ok(Some(header.id)),
                        _ if by_id => Err(WriteErrorKind::UntoldId { id: header.id }.into()),
                        Some((low, high)) if *high >= least => Ok(Some((*low).max(least) as u64)),
                        _ => Ok(None),
                    };
                }
                match roles {
                    roles if roles.has(Roles::EVENT_ID) && header.id > most => Err(WriteErrorKind::UntoldId { id: header.id }.into()),
                    roles if roles.has(Roles::EVENT_ID) => Ok(Some(header.id)),
                    roles if roles.has(Roles::TIME) => Ok(Some(header.cycles)),
                    _ => Ok(None),
                }
            }
        }
    }

    /// Remembers what a reader will be told.
    fn tell(&mut self, roles: Roles, value: u64, bits: u32, at: u64, leaf: Option<Leaf>, saves: &[u32]) {
        match &mut self.auto {
            Auto::Nothing => {}
            Auto::Packet(told) => {
                if roles.has(Roles::TIME) {
                    told.time = Some((value, bits));
                }
                let roles = roles.within(LATE);
                if !roles.is_empty() {
                    let saved = (!saves.is_empty()).then_some(value);
                    self.late.push(Late { at, leaf, roles, saved });
                }
            }
            Auto::Header(header, _) => {
                if roles.has(Roles::EVENT_ID) {
                    header.told_id = Some(value);
                }
                if roles.has(Roles::TIME) {
                    header.told_time = Some((value, bits));
                }
            }
        }
    }

    fn var_int(&mut self, signed: bool, saves: &[u32], roles: Roles, datum: Option<Datum<'_>>) -> Result<()> {
        let at = self.aligned(8, WIDEST as u64 * 8)?;
        let known = match self.auto {
            Auto::Nothing => None,
            _ => self.known(64, signed, saves, roles)?,
        };
        let value = match (known, datum) {
            (Some(value), _) => value,
            (None, Some(datum)) => datum.integer(64, signed)?,
            (None, None) => 0,
        };
        let wide = if signed { i128::from(value as i64) } else { i128::from(value) };
        let (mut bytes, mut len, mut rest) = ([0u8; WIDEST], 0, wide);
        loop {
            let byte = rest as u8 & 0x7f;
            rest >>= 7;
            // A signed one ends where its sign is said.
            let done = match signed {
                true => rest == 0 && byte & 0x40 == 0 || rest == -1 && byte & 0x40 != 0,
                false => rest == 0,
            };
            bytes[len] = byte | u8::from(!done) << 7;
            len += 1;
            if done || len == WIDEST {
                break;
            }
        }
        let late = matches!(self.auto, Auto::Packet(_)) && !roles.within(LATE).is_empty();
        let short = roles.has(Roles::TIME) && extend(self.clock, value, low_bits(7 * len as u32)) != value;
        if late || short {
            (bytes, len) = (padded(value), WIDEST);
        }
        self.buffer.put_bytes(at, &bytes[..len]);
        self.at = at + len as u64 * 8;
        self.save(saves, value);
        self.tell(roles, value, (7 * len as u32).min(64), at, None, saves);
        Ok(())
    }

    fn text(&mut self, encoding: Encoding, datum: Option<Datum<'_>>) -> Result<()> {
        let unit = encoding.unit() as usize;
        let mut text = datum.map_or(Ok(Vec::new().into()), |d| d.text(encoding))?;
        // Half a unit at the end of what is no character.
        let whole = text.len() / unit * unit;
        if text.len() != whole {
            text.to_mut().truncate(whole);
        }
        if text.chunks_exact(unit).any(|unit| unit.iter().all(|b| *b == 0)) {
            return Err(WriteErrorKind::NulInText.into());
        }
        let at = self.aligned(8, (text.len() + unit) as u64 * 8)?;
        self.buffer.put_bytes(at, &text);
        let end = at + text.len() as u64 * 8;
        self.buffer.put_bytes(end, &[0; 4][..unit]);
        self.at = end + unit as u64 * 8;
        Ok(())
    }

    fn array(&mut self, shape: &Shape, datum: Option<Datum<'_>>) -> Result<()> {
        let Shape::Array { align, count, element, text, plain, empty } = shape else { return Ok(()) };
        let count = match count {
            Count::Fixed(count) => *count,
            Count::Slot(slot) => self.saved(*slot),
        };
        let at = self.aligned(*align, 0)?;
        let fits = |found: u64| match found == count {
            true => Ok(()),
            false => Err(Box::<WriteError>::from(WriteErrorKind::WrongLength { length: count, found })),
        };
        let Some((leaf, stride)) = *plain else {
            self.at = at;
            if *empty && count > MAX_UNBACKED {
                return Err(WriteErrorKind::UnbackedLength { length: count }.into());
            }
            let Some(datum) = datum else { return (0..count).try_for_each(|_| self.walk(element, None)) };
            fits(datum.len()?)?;
            return each(datum, |datum| self.walk(element, Some(datum)));
        };
        let bits = match count {
            0 => 0,
            _ => stride.saturating_mul(count - 1).saturating_add(u64::from(leaf.bits)),
        };
        self.aligned(*align, bits)?;
        if count > 0 {
            self.in_order(at, leaf)?;
            self.last = leaf.order;
        }
        self.at = at.saturating_add(bits);
        let bytes = leaf.bits == 8 && stride == 8 && at % 8 == 0 && !leaf.reversed;
        match datum {
            Some(Datum::Value(Value::Str(_) | Value::Wide(_))) | None if bytes => {
                let encoding = if *text == Encoding::None { Encoding::Utf8 } else { *text };
                let given = datum.map_or(Ok(Vec::new().into()), |d| d.text(encoding))?;
                let len = given.len() as u64;
                if *text == Encoding::None && datum.is_some() || len > count {
                    fits(len)?;
                }
                if given.chunks_exact(encoding.unit() as usize).any(|unit| unit.iter().all(|b| *b == 0)) && *text != Encoding::None {
                    return Err(WriteErrorKind::NulInText.into());
                }
                self.buffer.put_bytes(at, &given);
                // The NULs that fill it up.
                if len < count {
                    self.buffer.put_bytes(at + (count - 1) * 8, &[0]);
                }
                Ok(())
            }
            Some(Datum::Value(Value::Bytes(given))) if bytes && leaf.kind != LeafKind::Signed => {
                fits(given.len() as u64)?;
                self.buffer.put_bytes(at, given);
                Ok(())
            }
            None if count == 0 => Ok(()),
            None => {
                let zero = Leaf { bits: 1, ..leaf };
                self.buffer.put(at + bits - 1, zero, 0);
                Ok(())
            }
            Some(datum) => {
                fits(datum.len()?)?;
                let mut at = at;
                each(datum, |datum| {
                    match leaf.kind {
                        LeafKind::Float => self.buffer.put_float(at, leaf, datum.float()?),
                        _ => self.buffer.put(at, leaf, datum.raw(leaf)?),
                    }
                    at += stride;
                    Ok(())
                })
            }
        }
    }
}

/// All elements of a list.
fn each<'v>(datum: Datum<'v>, mut f: impl FnMut(Datum<'v>) -> Result<()>) -> Result<()> {
    match datum {
        Datum::List(list) => list.iter().try_for_each(|value| f(value.into())),
        Datum::Value(Value::Array(array)) => array.iter().try_for_each(|value| f(value.into())),
        Datum::Value(Value::Compound(compound)) => compound.iter().try_for_each(|(_, value)| f(value.into())),
        Datum::Value(Value::Str(bytes) | Value::Bytes(bytes)) => bytes.iter().try_for_each(|byte| f(Value::U64(u64::from(*byte)).into())),
        _ => Ok(()),
    }
}

/// Whether two names mean the same field: one may be an identifier made of the other.
fn same(a: &str, b: &str) -> bool {
    a == b || super::tsdl::field_identifier(a) == super::tsdl::field_identifier(b)
}
