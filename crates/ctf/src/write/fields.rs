//! Writes values into the bits of their fields, one after another.

use std::sync::Arc;

use super::bit_buffer::BitBuffer;
use super::datum::Datum;
use super::error::{WriteError, WriteErrorKind};
use super::shape::{Layout, Part, Shape};
use crate::bits::{align_up, Leaf, LeafKind};
use crate::clock::{extend, low_bits};
use crate::packet::Packet;
use crate::plan::Count;
use crate::types::*;
use crate::value::{OwnedValue, Value};

pub(super) type Result<T> = std::result::Result<T, Box<WriteError>>;

/// First bytes of a packet, as a number.
const MAGIC: u64 = 0xC1FC_1FC1;

/// Maximum number of elements without any bits in an array; a reader accepts no more.
const MAX_EMPTY: u64 = 1 << 16;

/// Size in bytes of a variable-length integer that can hold any 64-bit value.
const MAX_VARINT_BYTES: usize = 10;

/// A number whose value is known only when the packet ends. Its place is reserved and filled in
/// then.
#[derive(Debug)]
pub(super) struct DeferredField {
    pub at: u64,
    /// `None` for a variable-length integer.
    pub leaf: Option<Leaf>,
    pub roles: Roles,
    /// The value that fields which depend on this number have used, if there are such fields.
    pub saved: Option<u64>,
}

/// Encodes a variable-length integer in the full [`MAX_VARINT_BYTES`] bytes, so that any value fits
/// its place.
pub(super) fn padded(value: u64) -> [u8; MAX_VARINT_BYTES] {
    let mut bytes = [0x80; MAX_VARINT_BYTES];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte |= (value >> (7 * index)) as u8 & 0x7f;
    }
    bytes[MAX_VARINT_BYTES - 1] &= 0x7f;
    bytes
}

/// Values for the roles of a packet's header and context.
pub(super) struct RoleValues<'p> {
    pub packet: &'p Packet,
    pub sequence: Option<u64>,
    pub stream: u64,
    pub begin: u64,
    /// Value of the clock after the first and after the last field with a time.
    pub times: Option<(u64, u64)>,
}

/// Values for the roles of an event's header.
pub(super) struct Header {
    pub id: u64,
    pub cycles: u64,
    /// The way to write the header that is tried: 0 writes the id as the tag, `n` selects option `n
    /// - 1`.
    pub attempt: usize,
    /// True if there are other ways to write it.
    pub more: bool,
    pub reported_id: Option<u64>,
    /// Value of the clock after the header.
    pub reported_time: Option<u64>,
}

/// Source of the numbers that the caller does not supply.
pub(super) enum FilledIn<'w> {
    Nothing,
    Packet(RoleValues<'w>),
    Header(Header, &'w Layout),
}

/// Roles whose values are known only when the packet ends.
const LATE_ROLES: Roles = Roles::PACKET_SIZE.and(Roles::CONTENT_SIZE).and(Roles::END_TIME).and(Roles::DISCARDED);

/// Source of the values that the caller supplies.
pub(super) trait Feed<'v> {
    fn enter(&mut self, _: &str) {}
    fn leave(&mut self) {}
    /// The next value; `None` if the field is to be zero.
    fn take(&mut self, name: &str) -> std::result::Result<Option<Datum<'v>>, WriteErrorKind>;
}

pub(super) struct InOrder<'i, V>(pub &'i mut dyn Iterator<Item = V>);

impl<'v, V: Into<Datum<'v>>> Feed<'v> for InOrder<'_, V> {
    #[inline]
    fn take(&mut self, _: &str) -> std::result::Result<Option<Datum<'v>>, WriteErrorKind> {
        match self.0.next() {
            Some(value) => Ok(Some(value.into())),
            None => Err(WriteErrorKind::MissingValue),
        }
    }
}

/// The fields of a packet, found by their names.
pub(super) struct Named<'v> {
    pub fields: &'v [(Arc<str>, OwnedValue)],
    pub uuid: Option<(&'v Arc<str>, &'v [u8; 16])>,
    pub path: String,
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
        // When a schema was converted, the name may have become a different identifier.
        let alike = || self.fields.iter().find(|(full, _)| same(full, &format!("{}{name}", self.path)));
        Ok(found.or_else(alike).map(|(_, value)| value.into()))
    }
}

/// Writes values one after another.
pub(super) struct FieldWriter<'w> {
    pub buffer: &'w mut BitBuffer,
    pub at: u64,
    pub last: ByteOrder,
    pub slots: &'w mut [u64],
    pub late: &'w mut Vec<DeferredField>,
    /// Maximum size of the packet, in bits.
    pub limit: u64,
    pub clock: u64,
    pub auto: FilledIn<'w>,
}

impl FieldWriter<'_> {
    /// The bit at which the next field of this alignment begins. Returns an error if `bits` bits
    /// from there exceed the limit.
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

    /// Writes a structure whose fields, and those of nested structures, have their values one after
    /// another.
    pub fn flat<'v>(&mut self, shape: &Shape, feed: &mut dyn Feed<'v>) -> Result<()> {
        let Shape::Struct { align, parts } = shape else {
            let datum = feed.take("")?;
            return self.walk(shape, datum);
        };
        self.at = self.aligned(*align, 0)?;
        let mut next = None;
        for (index, part) in parts.iter().enumerate() {
            let result = match &part.shape {
                Shape::Struct { parts, align } if !parts.is_empty() || *align > 1 => {
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

    /// Writes a number that follows from the value of the next part, for example the length of an
    /// array.
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

    /// Writes any shape. Without a datum all its fields are zero, except those that the writer
    /// fills in by their roles.
    pub fn walk(&mut self, shape: &Shape, datum: Option<Datum<'_>>) -> Result<()> {
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
            (FilledIn::Nothing, _) => None,
            (FilledIn::Packet(_), true) => None,
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
        self.fill_role(roles, raw, u32::from(leaf.bits), at, Some(leaf), saves);
        Ok(())
    }

    fn in_order(&self, at: u64, leaf: Leaf) -> Result<()> {
        match !at.is_multiple_of(8) && self.last != leaf.order {
            true => Err(WriteErrorKind::MixedByteOrder { from: self.last, to: leaf.order }.into()),
            false => Ok(()),
        }
    }

    /// The value of a field that the writer fills in by its role, or an error if the field cannot
    /// hold it.
    fn known(&mut self, bits: u32, signed: bool, saves: &[u32], roles: Roles) -> Result<Option<u64>> {
        let most = low_bits(bits) >> u32::from(signed);
        match &mut self.auto {
            FilledIn::Nothing => Ok(None),
            FilledIn::Packet(values) => Ok(match roles {
                roles if roles.has(Roles::MAGIC) => Some(MAGIC),
                roles if roles.has(Roles::STREAM_ID) => {
                    if values.stream > most {
                        return Err(WriteErrorKind::OutOfRange { value: i128::from(values.stream), bits, signed }.into());
                    }
                    Some(values.stream)
                }
                roles if roles.has(Roles::STREAM_INSTANCE) => Some(values.packet.stream_instance.unwrap_or(0)),
                roles if roles.has(Roles::TIME) => Some(values.begin),
                roles if roles.has(Roles::SEQUENCE) => Some(values.sequence.unwrap_or(0)),
                roles if roles.has(Roles::CPU) => values.packet.cpu_id,
                // A provisional value; the final one is written at the end of the packet.
                roles if roles.has(Roles::DISCARDED) => Some(values.packet.discarded.unwrap_or(0)),
                roles if roles.has(Roles::END_TIME) => Some(values.packet.end.unwrap_or(values.begin)),
                roles => (!roles.within(LATE_ROLES).is_empty()).then_some(0),
            }),
            FilledIn::Header(header, layout) => {
                let choices = saves.iter().find_map(|slot| layout.tags.get(slot));
                if let Some(choices) = choices {
                    // The id itself is tried first, then each option.
                    header.more |= header.attempt < choices.len();
                    let by_id = header.attempt == 0 && roles.has(Roles::EVENT_ID);
                    let chosen = header.attempt.saturating_sub(1).min(choices.len().saturating_sub(1));
                    let least = if signed { -i128::from(most) - 1 } else { 0 };
                    return match choices.get(chosen) {
                        _ if by_id && header.id <= most => Ok(Some(header.id)),
                        _ if by_id => Err(WriteErrorKind::IdTooLarge { id: header.id }.into()),
                        Some((low, high)) if *high >= least => Ok(Some((*low).max(least) as u64)),
                        _ => Ok(None),
                    };
                }
                match roles {
                    roles if roles.has(Roles::EVENT_ID) && header.id > most => Err(WriteErrorKind::IdTooLarge { id: header.id }.into()),
                    roles if roles.has(Roles::EVENT_ID) => Ok(Some(header.id)),
                    roles if roles.has(Roles::TIME) => Ok(Some(header.cycles)),
                    _ => Ok(None),
                }
            }
        }
    }

    /// Records the value that a reader will decode from a field with a role.
    fn fill_role(&mut self, roles: Roles, value: u64, bits: u32, at: u64, leaf: Option<Leaf>, saves: &[u32]) {
        match &mut self.auto {
            FilledIn::Nothing => {}
            FilledIn::Packet(values) => {
                if roles.has(Roles::TIME) {
                    let (first, clock) = values.times.unwrap_or((self.clock, self.clock));
                    let clock = extend(clock, value, low_bits(bits));
                    values.times = Some((values.times.map_or(clock, |_| first), clock));
                }
                let roles = roles.within(LATE_ROLES);
                if !roles.is_empty() {
                    let saved = (!saves.is_empty()).then_some(value);
                    self.late.push(DeferredField { at, leaf, roles, saved });
                }
            }
            FilledIn::Header(header, _) => {
                if roles.has(Roles::EVENT_ID) {
                    header.reported_id = Some(value);
                }
                if roles.has(Roles::TIME) {
                    let clock = header.reported_time.unwrap_or(self.clock);
                    header.reported_time = Some(extend(clock, value, low_bits(bits)));
                }
            }
        }
    }

    fn var_int(&mut self, signed: bool, saves: &[u32], roles: Roles, datum: Option<Datum<'_>>) -> Result<()> {
        let at = self.aligned(8, MAX_VARINT_BYTES as u64 * 8)?;
        let known = match self.auto {
            FilledIn::Nothing => None,
            _ => self.known(64, signed, saves, roles)?,
        };
        let value = match (known, datum) {
            (Some(value), _) => value,
            (None, Some(datum)) => datum.integer(64, signed)?,
            (None, None) => 0,
        };
        let wide = if signed { i128::from(value as i64) } else { i128::from(value) };
        let (mut bytes, mut len, mut rest) = ([0u8; MAX_VARINT_BYTES], 0, wide);
        loop {
            let byte = rest as u8 & 0x7f;
            rest >>= 7;
            // A signed integer ends with the first byte whose bit 6 equals the sign of the rest.
            let done = match signed {
                true => rest == 0 && byte & 0x40 == 0 || rest == -1 && byte & 0x40 != 0,
                false => rest == 0,
            };
            bytes[len] = byte | u8::from(!done) << 7;
            len += 1;
            if done || len == MAX_VARINT_BYTES {
                break;
            }
        }
        let late = matches!(self.auto, FilledIn::Packet(_)) && !roles.within(LATE_ROLES).is_empty();
        let short = roles.has(Roles::TIME) && extend(self.clock, value, low_bits(7 * len as u32)) != value;
        if late || short {
            (bytes, len) = (padded(value), MAX_VARINT_BYTES);
        }
        self.buffer.put_bytes(at, &bytes[..len]);
        self.at = at + len as u64 * 8;
        self.save(saves, value);
        self.fill_role(roles, value, (7 * len as u32).min(64), at, None, saves);
        Ok(())
    }

    fn text(&mut self, encoding: Encoding, datum: Option<Datum<'_>>) -> Result<()> {
        let unit = encoding.unit() as usize;
        let mut text = datum.map_or(Ok(Vec::new().into()), |d| d.text(encoding))?;
        // Drops an incomplete code unit at the end of a text.
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
        let Shape::Array { align, count, element, text, plain } = shape else { return Ok(()) };
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
            let mut nothing = 0;
            let mut one = |datum: Option<Datum<'_>>| {
                let begin = self.at;
                self.walk(element, datum)?;
                nothing += u64::from(self.at == begin);
                match nothing > MAX_EMPTY {
                    true => Err(WriteErrorKind::UnbackedLength { length: count }.into()),
                    false => Ok(()),
                }
            };
            let Some(datum) = datum else { return (0..count).try_for_each(|_| one(None)) };
            fits(datum.len()?)?;
            return each(datum, |datum| one(Some(datum)));
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
                // The NULs that fill the rest of the field.
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

/// Calls `f` for each element of a list.
pub(super) fn each<'v>(datum: Datum<'v>, mut f: impl FnMut(Datum<'v>) -> Result<()>) -> Result<()> {
    match datum {
        Datum::List(list) => list.iter().try_for_each(|value| f(value.into())),
        Datum::Value(Value::Array(array)) => array.iter().try_for_each(|value| f(value.into())),
        Datum::Value(Value::Compound(compound)) => compound.iter().try_for_each(|(_, value)| f(value.into())),
        Datum::Value(Value::Str(bytes) | Value::Bytes(bytes)) => bytes.iter().try_for_each(|byte| f(Value::U64(u64::from(*byte)).into())),
        _ => Ok(()),
    }
}

/// Returns true if two names denote the same field. One may be an identifier made from the other,
/// with a number added if the identifier was already in use.
pub(super) fn same(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let (mut a, mut b) = (without_edges(a).chars(), without_edges(b).chars());
    loop {
        match (a.as_str(), b.as_str()) {
            ("", rest) | (rest, "") => return without_edges(rest).bytes().all(|byte| byte.is_ascii_digit()),
            _ if a.next().map(in_identifier) == b.next().map(in_identifier) => {}
            _ => return false,
        }
    }
}

fn in_identifier(c: char) -> char {
    if c.is_ascii_alphanumeric() {
        c
    } else {
        '_'
    }
}

fn without_edges(name: &str) -> &str {
    name.trim_matches(|c| in_identifier(c) == '_')
}
