//! A second decoder that is slow and simple: it reads bit by bit, in the words of the
//! specifications, directly from the types. It shares nothing with the crate except the description
//! of types. Names of lengths and tags must be unique in a schema.

use std::collections::HashMap;
use std::sync::Arc;

use longpole_ctf::types::*;
use longpole_ctf::OwnedValue;

/// The content of a stream: class index, time, and values of contexts and payload of each event.
pub type Events = Vec<(usize, u64, Vec<OwnedValue>)>;

/// Reads the events of a stream up to its end, or up to the first error; the flag is `true` if
/// there was no error.
pub fn events(schema: &Schema, bytes: &[u8]) -> (Events, bool) {
    let mut oracle = Oracle { schema, bytes, start: 0, at: 0, content: 0, env: HashMap::new(), told: HashMap::new(), clock: 0 };
    let mut events = Vec::new();
    let good = oracle.stream(&mut events).is_some();
    (events, good)
}

struct Oracle<'b> {
    schema: &'b Schema,
    bytes: &'b [u8],
    /// Start of the packet, current position, and end of the content, in bits.
    start: u64,
    at: u64,
    content: u64,
    env: HashMap<String, i128>,
    /// Values of the fields with roles, with their widths in bits.
    told: HashMap<&'static str, (u64, u32)>,
    clock: u64,
}

/// Names in CTF 1.8 and roles in CTF 2.
const KNOWN: [(&str, Roles); 7] = [
    ("stream_id", Roles::STREAM_ID),
    ("packet_size", Roles::PACKET_SIZE),
    ("content_size", Roles::CONTENT_SIZE),
    ("timestamp_begin", Roles::TIME),
    ("timestamp_end", Roles::END_TIME),
    ("id", Roles::EVENT_ID),
    ("timestamp", Roles::TIME),
];

impl Oracle<'_> {
    fn stream(&mut self, events: &mut Events) -> Option<()> {
        while self.start < self.bytes.len() as u64 * 8 {
            (self.at, self.content) = (0, self.bytes.len() as u64 * 8 - self.start);
            self.told.clear();
            if let Some(header) = self.schema.trace.packet_header.clone() {
                self.flat(&header, &mut Vec::new(), true)?;
            }
            let (id, _) = self.told.get("stream_id").copied().unwrap_or((0, 0));
            let schema = self.schema;
            let stream = schema.streams.iter().find(|s| s.id == id)?;
            if let Some(context) = &stream.packet_context {
                self.flat(context, &mut Vec::new(), true)?;
            }
            self.time("timestamp_begin");
            let total = self.told.get("packet_size").map_or(self.content, |(size, _)| *size);
            let content = self.told.get("content_size").map_or(total, |(size, _)| *size);
            if !total.is_multiple_of(8) || content > total || content < self.at || total == 0 {
                return None;
            }
            self.content = content;
            let align = stream.event_header.as_ref().map_or(1, |h| h.align());
            while self.at < content {
                // Succeeds if only padding is left.
                let aligned = self.at.next_multiple_of(u64::from(align));
                self.event(stream, events).or((aligned == content).then_some(()))?;
                if aligned == content {
                    break;
                }
            }
            self.start += total;
        }
        Some(())
    }

    fn event(&mut self, stream: &StreamClass, events: &mut Events) -> Option<()> {
        let begin = self.at;
        self.told.clear();
        if let Some(header) = &stream.event_header {
            self.flat(header, &mut Vec::new(), true)?;
        }
        let class = match self.told.get("id") {
            Some((id, _)) => stream.events.iter().position(|e| e.id == *id)?,
            None => 0,
        };
        let time = self.told.get("timestamp").copied();
        let mut values = Vec::new();
        let event = &stream.events[class];
        for scope in [&stream.event_context, &event.context, &event.payload].into_iter().flatten() {
            self.flat(scope, &mut values, false)?;
        }
        if begin == self.at {
            return None;
        }
        if let Some(time) = time {
            self.told.insert("timestamp", time);
            self.time("timestamp");
        }
        events.push((class, self.clock, values));
        Some(())
    }

    /// Advances the clock to the next value with these lowest bits.
    fn time(&mut self, name: &str) {
        let Some(&(low, bits)) = self.told.get(name) else { return };
        if bits >= 64 {
            self.clock = low;
            return;
        }
        let wrap = 1u128 << bits;
        let mut value = u128::from(self.clock) / wrap * wrap + u128::from(low);
        if value < u128::from(self.clock) {
            value += wrap;
        }
        self.clock = value as u64;
    }

    fn align(&mut self, align: u32) {
        self.at = self.at.next_multiple_of(u64::from(align));
    }

    /// Reads the next bits as a number. The first bit is the least significant one in little-endian
    /// data and the most significant one in big-endian data, or the other way round if `reversed`.
    fn number(&mut self, bits: u32, align: u32, order: ByteOrder, reversed: bool) -> Option<u128> {
        self.align(align);
        if self.at + u64::from(bits) > self.content {
            return None;
        }
        let mut value = 0u128;
        for i in 0..bits {
            let at = self.start + self.at + u64::from(i);
            let byte = *self.bytes.get((at / 8) as usize)?;
            let bit = match order {
                ByteOrder::Little => byte >> (at % 8) & 1,
                ByteOrder::Big => byte >> (7 - at % 8) & 1,
            };
            let place = if (order == ByteOrder::Little) != reversed { i } else { bits - 1 - i };
            value |= u128::from(bit) << place;
        }
        self.at += u64::from(bits);
        Some(value)
    }

    fn flat(&mut self, ty: &StructType, out: &mut Vec<OwnedValue>, head: bool) -> Option<()> {
        self.align(ty.align());
        for field in ty.fields() {
            match &field.ty {
                Type::Struct(inner) if !inner.fields().is_empty() || inner.align() > 1 => self.flat(inner, out, head)?,
                ty => {
                    let value = self.value(&field.name, ty, head)?;
                    out.push(value);
                }
            }
        }
        Some(())
    }

    fn bytes(&mut self, len: u64) -> Option<Vec<u8>> {
        self.align(8);
        (len <= self.bytes.len() as u64).then_some(())?;
        (0..len).map(|_| self.number(8, 8, ByteOrder::Little, false).map(|b| b as u8)).collect()
    }

    fn len(&self, length: &Length) -> Option<u64> {
        match length {
            Length::Fixed(length) => Some(*length),
            Length::Field(path) => self.env.get(path.names.last()?).map(|v| *v as u64),
        }
    }

    fn integer(&mut self, name: &str, int: &IntType, head: bool) -> Option<OwnedValue> {
        let raw = self.number(int.size, int.align, int.byte_order, int.reversed)?;
        let signed = if int.signed && raw >> (int.size - 1) == 1 { raw as i128 - (1 << int.size) } else { raw as i128 };
        self.env.insert(name.to_owned(), signed);
        self.tell(name, int.roles, raw as u64, int.size, head);
        Some(if int.signed { OwnedValue::I64(signed as i64) } else { OwnedValue::U64(raw as u64) })
    }

    fn tell(&mut self, name: &str, roles: Roles, value: u64, bits: u32, head: bool) {
        let v2 = self.schema.version == Version::V2;
        // The roles of times are distinguished by names, which the generator uses in both versions.
        if let Some((known, _)) = KNOWN.iter().find(|(known, role)| head && *known == name && (!v2 || roles.has(*role))) {
            self.told.insert(known, (value, bits));
        }
    }

    fn text(bytes: &[u8], encoding: Encoding) -> OwnedValue {
        let unit = match encoding {
            Encoding::Utf16Be | Encoding::Utf16Le => 2,
            Encoding::Utf32Be | Encoding::Utf32Le => 4,
            _ => 1,
        };
        let end = bytes.chunks(unit).take_while(|c| c.len() < unit || c.iter().any(|b| *b != 0)).map(<[u8]>::len).sum();
        let bytes = &bytes[..end];
        let whole = |bytes: &[u8], big: bool| {
            let fold = |value: u32, b: &u8| value << 8 | u32::from(*b);
            if big {
                bytes.iter().fold(0, fold)
            } else {
                bytes.iter().rev().fold(0, fold)
            }
        };
        let units = |big| bytes.chunks(unit).filter(|c| c.len() == unit).map(|c| whole(c, big)).collect::<Vec<u32>>();
        let wide = |units: Vec<u32>| match unit {
            2 => String::from_utf16_lossy(&units.into_iter().map(|u| u as u16).collect::<Vec<u16>>()),
            _ => units.into_iter().map(|u| char::from_u32(u).unwrap_or('\u{fffd}')).collect(),
        };
        OwnedValue::Str(match encoding {
            Encoding::Utf16Be | Encoding::Utf32Be => wide(units(true)).into_bytes(),
            Encoding::Utf16Le | Encoding::Utf32Le => wide(units(false)).into_bytes(),
            _ => bytes.to_vec(),
        })
    }

    fn value(&mut self, name: &str, ty: &Type, head: bool) -> Option<OwnedValue> {
        Some(match ty {
            Type::Int(int) => self.integer(name, int, head)?,
            Type::Enum(e) => self.integer(name, &e.int, head)?,
            Type::Bits(bits) => self.integer(name, &bits.int, head)?,
            Type::Bool(int) => {
                let raw = self.number(int.size, int.align, int.byte_order, int.reversed)?;
                OwnedValue::Bool(raw != 0)
            }
            Type::Float(float) => OwnedValue::F64(self.float(float)?),
            Type::VarInt(int) => {
                let (mut value, mut bits) = (0i128, 0);
                loop {
                    let byte = self.bytes(1)?[0];
                    if bits >= 70 {
                        return None;
                    }
                    value |= i128::from(byte & 127) << bits;
                    bits += 7;
                    if byte < 128 {
                        break;
                    }
                }
                if int.signed && value >> (bits - 1) & 1 == 1 {
                    value -= 1 << bits;
                }
                let fits = if int.signed { i64::try_from(value).is_ok() } else { u64::try_from(value).is_ok() };
                fits.then_some(())?;
                self.env.insert(name.to_owned(), value);
                self.tell(name, int.roles, value as u64, bits.min(64), head);
                if int.signed {
                    OwnedValue::I64(value as i64)
                } else {
                    OwnedValue::U64(value as u64)
                }
            }
            Type::String(encoding) => {
                let unit = encoding.unit();
                let mut text = Vec::new();
                loop {
                    let next = self.bytes(unit)?;
                    if next.iter().all(|b| *b == 0) {
                        break Self::text(&text, *encoding);
                    }
                    text.extend(next);
                }
            }
            Type::Text(text) => {
                let len = self.len(&text.length)?;
                Self::text(&self.bytes(len)?, text.encoding)
            }
            Type::Blob(blob) => {
                let len = self.len(&blob.length)?;
                OwnedValue::Bytes(self.bytes(len)?)
            }
            Type::Struct(s) => {
                self.align(s.align());
                let fields: Option<Vec<_>> =
                    s.fields().iter().map(|f| Some((Arc::from(&*f.name), self.value(&f.name, &f.ty, head)?))).collect();
                OwnedValue::Fields(fields?)
            }
            Type::Array(array) => {
                self.align(array.align());
                // Alignment alone must not lead out of the packet.
                (self.at <= self.content).then_some(())?;
                let len = self.len(array.length())?;
                match array.element() {
                    Type::Int(int) if int.encoding != Encoding::None => Self::text(&self.bytes(len)?, int.encoding),
                    element => {
                        let mut list = Vec::new();
                        for _ in 0..len {
                            (list.len() < 5000).then_some(())?;
                            list.push(self.value("", element, head)?);
                        }
                        OwnedValue::List(list)
                    }
                }
            }
            Type::Variant(variant) => {
                let tag = *self.env.get(variant.tag().names.last()?)?;
                let option = match variant.ranges() {
                    Some(all) => {
                        let index = all.iter().position(|ranges| ranges.iter().any(|(low, high)| *low <= tag && tag <= *high))?;
                        &variant.options()[index]
                    }
                    None => {
                        let name = variant.tag().names.last()?;
                        // The generator names the labels in one way; the header of LTTng uses
                        // another.
                        let label = match (name.as_str(), tag) {
                            ("id", tag) if self.extended(tag) => "extended",
                            ("id", _) => "compact",
                            (_, 5) => "o2",
                            (_, tag) if !(-5..=3).contains(&tag) => return None,
                            (_, tag) => self.label(name, tag),
                        };
                        variant.options().iter().find(|o| o.name == label)?
                    }
                };
                let value = self.value("", &option.ty, head)?;
                OwnedValue::Fields(vec![(Arc::from(&*option.name), value)])
            }
            Type::Optional(optional) => {
                let tag = *self.env.get(optional.selector().names.last()?)?;
                match optional.ranges()?.iter().any(|(low, high)| *low <= tag && tag <= *high) {
                    true => self.value("", optional.ty(), head)?,
                    false => OwnedValue::Nothing,
                }
            }
        })
    }

    fn extended(&self, tag: i128) -> bool {
        tag == 31 && self.tag("id").is_some_and(|e| e.int.size == 5) || tag == 65535
    }

    /// The first label that is the name of an option.
    fn label(&self, name: &str, tag: i128) -> &'static str {
        let found = self.tag(name).and_then(|e| e.mappings.iter().find(|m| m.low <= tag && tag <= m.high).map(|m| m.label.clone()));
        match found.as_deref() {
            Some("o0") => "o0",
            Some("o1") => "o1",
            Some("o2") => "o2",
            _ => "",
        }
    }

    fn tag(&self, name: &str) -> Option<Arc<EnumType>> {
        fn find(ty: &Type, name: &str) -> Option<Arc<EnumType>> {
            let members = |members: &[Member]| {
                members.iter().find_map(|m| match &m.ty {
                    Type::Enum(e) if m.name == name => Some(e.clone()),
                    ty => find(ty, name),
                })
            };
            match ty {
                Type::Struct(s) => members(s.fields()),
                Type::Array(array) => find(array.element(), name),
                Type::Variant(variant) => members(variant.options()),
                _ => None,
            }
        }
        let stream = &self.schema.streams[0];
        let events = stream.events.iter().flat_map(|e| [&e.context, &e.payload]);
        let shared = [&stream.packet_context, &stream.event_header, &stream.event_context];
        shared.into_iter().chain(events).flatten().find_map(|s| find(&Type::Struct(s.clone()), name))
    }

    /// A floating point number from its definition: sign, exponent, fraction.
    fn float(&mut self, float: &FloatType) -> Option<f64> {
        let bits = self.number(float.size, float.align, float.byte_order, float.reversed)?;
        let (exponent_bits, fraction_bits) = match float.size {
            16 => (5, 10),
            32 => return Some(f64::from(f32::from_bits(bits as u32))),
            64 => return Some(f64::from_bits(bits as u64)),
            // This format stores the leading one of the fraction.
            80 => (15, 64),
            _ => (15, 112),
        };
        let sign = if bits >> (float.size - 1) & 1 == 1 { -1.0 } else { 1.0 };
        let exponent = (bits >> fraction_bits & ((1 << exponent_bits) - 1)) as i32;
        let fraction = bits & ((1 << fraction_bits) - 1);
        let most = (1 << exponent_bits) - 1;
        let said = float.size == 80;
        let plain = if said { fraction & ((1 << 63) - 1) } else { fraction };
        Some(match (exponent, plain) {
            (e, 0) if e == most => sign * f64::INFINITY,
            (e, _) if e == most => f64::NAN,
            _ => {
                let bias = (1 << (exponent_bits - 1)) - 1;
                let point = if said { 63 } else { fraction_bits };
                let lead = if said || exponent == 0 { 0 } else { 1u128 << fraction_bits };
                let mut scale = exponent.max(1) - bias - point;
                let mut value = (fraction | lead) as f64;
                while scale != 0 && value != 0.0 && value.is_finite() {
                    let step = scale.clamp(-900, 900);
                    value *= 2f64.powi(step);
                    scale -= step;
                }
                sign * value
            }
        })
    }
}
