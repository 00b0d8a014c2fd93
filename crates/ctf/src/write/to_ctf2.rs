//! Converts a schema of CTF 1.8 to CTF 2: the same fields at the same bits, described in the terms
//! of the other version.
//!
//! Names become roles, the labels that select the options of a variant become ranges of its tag,
//! and references become exact locations. Names are as readers show them, without the underscore
//! that separates them from keywords. Packets of both schemas are the same bytes, except for
//! floating point numbers of 80 bits, which CTF 2 does not have: they become 128 bits.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{MetadataError, SpanError};
use crate::metadata::stream_clock;
use crate::plan::refs::{by_labels, Choice, Frame, ReferenceSite, ELEMENT};
use crate::plan::roles_by_name;
use crate::types::*;
use crate::Clock;

type Result<T> = std::result::Result<T, SpanError>;

/// Converts a schema to CTF 2; a schema of CTF 2 is returned unchanged.
///
/// # Errors
///
/// A reference that leads to no field.
pub fn to_ctf2(schema: &Schema) -> std::result::Result<Schema, MetadataError> {
    convert(schema).map_err(|e| MetadataError::whole(e.message))
}

fn convert(schema: &Schema) -> Result<Schema> {
    if schema.version == Version::V2 {
        return Ok(schema.clone());
    }
    let mut out = Schema { version: Version::V2, ..schema.clone() };
    // In CTF 2 each number states its own byte order.
    out.trace.byte_order = ByteOrder::default();
    let header = schema.trace.packet_header.as_deref();
    let mut scopes: Vec<(Scope, &StructType)> = Vec::new();
    let raised = |scopes: &[(Scope, &StructType)], scope, ty: Option<&StructType>| -> Result<Option<Arc<StructType>>> {
        let Some(ty) = ty else { return Ok(None) };
        let has_uuid = schema.trace.uuid.is_some();
        let mut converter = Ctf2Converter { scope, has_uuid, earlier: scopes, frames: Vec::new(), place: Vec::new() };
        Ok(Some(Arc::new(converter.structure(ty)?)))
    };
    out.trace.packet_header = raised(&scopes, Scope::PacketHeader, header)?;
    scopes.extend(header.map(|h| (Scope::PacketHeader, h)));
    for (stream, out_stream) in schema.streams.iter().zip(&mut out.streams) {
        let mut scopes = scopes.clone();
        for (scope, ty, to) in [
            (Scope::PacketContext, &stream.packet_context, &mut out_stream.packet_context),
            (Scope::EventHeader, &stream.event_header, &mut out_stream.event_header),
            (Scope::StreamEventContext, &stream.event_context, &mut out_stream.event_context),
        ] {
            *to = raised(&scopes, scope, ty.as_deref())?;
            scopes.extend(ty.as_deref().map(|ty| (scope, ty)));
        }
        for (event, out_event) in stream.events.iter().zip(&mut out_stream.events) {
            let mut scopes = scopes.clone();
            out_event.context = raised(&scopes, Scope::EventContext, event.context.as_deref())?;
            scopes.extend(event.context.as_deref().map(|ty| (Scope::EventContext, ty)));
            out_event.payload = raised(&scopes, Scope::EventFields, event.payload.as_deref())?;
        }
        out_stream.clock = stream_clock(stream, schema.clocks.len());
    }
    // Times without a clock are interpreted as nanoseconds. CTF 2 has no times without a clock, so
    // a clock is added.
    let clock = out.clocks.len();
    for stream in &mut out.streams {
        let times = [&stream.packet_context, &stream.event_header].into_iter().flatten().any(|s| s.has_time());
        if times && stream.clock.is_none() {
            stream.clock = Some(clock);
        }
    }
    if out.streams.iter().any(|s| s.clock == Some(clock)) {
        out.clocks.push(Clock::new("nanoseconds", 1_000_000_000));
    }
    for clock in &mut out.clocks {
        (clock.offset_s, clock.offset) = clock.split_offset();
        if clock.absolute {
            clock.origin = crate::Origin::UnixEpoch;
        }
    }
    Ok(out)
}

struct Ctf2Converter<'s, 'e> {
    scope: Scope,
    /// True if the metadata has a UUID. Without one, a UUID in the packets is a BLOB without a
    /// role.
    has_uuid: bool,
    earlier: &'e [(Scope, &'s StructType)],
    frames: Vec<Frame<'s>>,
    place: Vec<u32>,
}

impl<'s> Ctf2Converter<'s, '_> {
    fn structure(&mut self, ty: &'s StructType) -> Result<StructType> {
        self.frames.push(Frame { ty, depth: self.place.len() });
        let fields = self.members(ty.fields())?;
        self.frames.pop();
        Ok(StructType::new(ty.min_align(), fields))
    }

    fn members(&mut self, members: &'s [Member]) -> Result<Vec<Member>> {
        let named = display_names(members).into_iter().zip(members).enumerate();
        named
            .map(|(index, (name, member))| {
                let ty = self.within(index as u32, &member.ty, name, index == 0)?;
                Ok(Member { name: name.to_owned(), ty })
            })
            .collect()
    }

    fn within(&mut self, part: u32, ty: &'s Type, name: &str, first: bool) -> Result<Type> {
        self.place.push(part);
        let ty = self.ty(ty, name, first)?;
        self.place.pop();
        Ok(ty)
    }

    fn ty(&mut self, ty: &'s Type, name: &str, first: bool) -> Result<Type> {
        Ok(match ty {
            Type::Int(int) => Type::Int(self.integer(int, name, first)),
            Type::Enum(e) => Type::Enum(Arc::new(EnumType { int: self.integer(&e.int, name, first), mappings: e.mappings.clone() })),
            Type::Float(float) if float.size == 80 => Type::Float(FloatType { size: 128, ..float.clone() }),
            Type::String(encoding) if encoding.unit() == 1 => Type::String(Encoding::Utf8),
            Type::Struct(s) => Type::Struct(Arc::new(self.structure(s)?)),
            Type::Array(array) => self.array(array, name)?,
            Type::Variant(variant) => self.variant(variant)?,
            Type::Text(text) => Type::Text(Arc::new(TextType { length: self.length(&text.length)?, ..(**text).clone() })),
            Type::Blob(blob) => Type::Blob(Arc::new(BlobType { length: self.length(&blob.length)?, ..(**blob).clone() })),
            Type::Optional(optional) => {
                let selector = self.path(optional.selector(), |_| true)?;
                let inner = self.within(0, optional.ty(), name, false)?;
                Type::Optional(Arc::new(OptionalType::new(selector, optional.ranges().cloned(), inner)))
            }
            Type::Float(_) | Type::Bool(_) | Type::Bits(_) | Type::VarInt(_) | Type::String(_) => ty.clone(),
        })
    }

    fn integer(&self, int: &IntType, name: &str, first: bool) -> IntType {
        let mut roles = roles_by_name(self.scope, name, int);
        // CTF 2 has no role for a CPU, and it requires that the magic number is the first field of
        // the packet.
        let magic = roles.has(Roles::MAGIC) && !(first && self.place.len() == 1 && int.size == 32);
        if roles.has(Roles::CPU) || magic {
            roles = Roles::NONE;
        }
        let signed = int.signed && roles.is_empty();
        IntType { signed, encoding: Encoding::None, clock: None, roles, ..int.clone() }
    }

    fn array(&mut self, array: &'s ArrayType, name: &str) -> Result<Type> {
        let length = self.length(array.length())?;
        let bytes = match array.element() {
            Type::Int(int) if int.size == 8 && int.align == 8 && !int.reversed && array.align() == 8 => Some(int),
            _ => None,
        };
        let span = array.span();
        match bytes {
            Some(int) if int.encoding != Encoding::None => Ok(Type::Text(Arc::new(TextType { length, encoding: Encoding::Utf8, span }))),
            Some(int) if self.scope == Scope::PacketHeader && name == "uuid" && length == Length::Fixed(16) && !int.signed => {
                let media_type = "application/octet-stream".to_owned();
                let roles = if self.has_uuid { Roles::UUID } else { Roles::NONE };
                Ok(Type::Blob(Arc::new(BlobType { length, media_type, roles, span })))
            }
            _ => {
                let element = self.within(ELEMENT, array.element(), "", false)?;
                Ok(Type::Array(Arc::new(ArrayType::new(element, length, span).aligned(array.align()))))
            }
        }
    }

    fn length(&self, length: &Length) -> Result<Length> {
        Ok(match length {
            Length::Fixed(length) => Length::Fixed(*length),
            Length::Field(path) => Length::Field(self.path(path, |ty| match ty {
                Type::Int(int) => !int.signed,
                Type::Enum(e) => !e.int.signed,
                Type::VarInt(int) => !int.signed,
                _ => false,
            })?),
        })
    }

    fn variant(&mut self, variant: &'s VariantType) -> Result<Type> {
        let fits = |ty: &Type| matches!(ty, Type::Enum(_)) || variant.ranges().is_some() && matches!(ty, Type::Int(_) | Type::VarInt(_));
        let tag = self.path(variant.tag(), fits)?;
        let options = self.members(variant.options())?;
        let ranges = match variant.ranges() {
            Some(ranges) => ranges.to_vec(),
            None => {
                let found = self.standpoint().resolve(variant.tag(), fits)?.found;
                disjoint_ranges(&by_labels(variant.tag(), &found, variant.options())?.list, options.len())
            }
        };
        // An option that no value of the tag selects is dropped.
        let (options, ranges) = options.into_iter().zip(ranges).filter(|(_, ranges)| !ranges.is_empty()).unzip();
        Ok(Type::Variant(Arc::new(VariantType::new(tag, options).by_ranges(ranges))))
    }

    fn standpoint(&self) -> ReferenceSite<'s, '_> {
        ReferenceSite { scope: self.scope, earlier: self.earlier, frames: &self.frames, place: &self.place }
    }

    /// The exact location of the field to which a path leads.
    fn path(&self, path: &FieldPath, fits: impl Fn(&Type) -> bool) -> Result<FieldPath> {
        let target = self.standpoint().resolve(path, fits)?;
        let Some((scope, place, _)) = target.found.first() else { return Ok(path.clone()) };
        let frame = target.frame.and_then(|frame| self.frames.get(frame).map(|f| (frame, f)));
        let (root, from) = match frame {
            Some((_, frame)) => (Some(frame.ty), frame.depth),
            None => (self.earlier.iter().find(|(s, _)| s == scope).map(|(_, ty)| *ty), 0),
        };
        let names = root.map_or(Vec::new(), |root| down(root, place.get(from..).unwrap_or(&[])));
        Ok(match frame {
            Some((frame, _)) => FieldPath { scope: None, up: Some(self.frames.len() - 1 - frame), names, span: path.span },
            None => FieldPath { scope: Some(*scope), up: Some(0), names, span: path.span },
        })
    }
}

/// The names on the way to a place. Options of variants add no name.
fn down(root: &StructType, place: &[u32]) -> Vec<String> {
    let Some((&first, mut rest)) = place.split_first() else { return Vec::new() };
    let Some(field) = root.fields().get(first as usize) else { return Vec::new() };
    let mut path: Vec<String> = display_names(root.fields()).into_iter().nth(first as usize).map(str::to_owned).into_iter().collect();
    let mut ty = &field.ty;
    while let (Type::Variant(variant), Some((&option, after))) = (ty, rest.split_first()) {
        let Some(option) = variant.options().get(option as usize) else { return path };
        (ty, rest) = (&option.ty, after);
    }
    if let Type::Struct(inner) = ty {
        path.extend(down(inner, rest));
    }
    path
}

/// The values that select each option. Where ranges overlap, the first choice in the list applies.
fn disjoint_ranges(choices: &[Choice], options: usize) -> Vec<Ranges> {
    // Values that earlier choices have taken, as merged ranges: start → end.
    let mut taken: BTreeMap<i128, i128> = BTreeMap::new();
    let mut ranges: Vec<Ranges> = vec![Vec::new(); options];
    for choice in choices {
        let (mut at, mut begin, mut end) = (choice.low, choice.low, choice.high);
        let mut free = Vec::new();
        if let Some((&low, &high)) = taken.range(..choice.low).next_back().filter(|(_, high)| **high >= choice.low - 1) {
            (at, begin, end) = (at.max(high + 1), low, end.max(high));
        }
        let met: Vec<(i128, i128)> = taken.range(begin..=choice.high).map(|(low, high)| (*low, *high)).collect();
        for (low, high) in met {
            if low > at {
                free.push((at, low - 1));
            }
            (at, end) = (at.max(high + 1), end.max(high));
            taken.remove(&low);
        }
        if at <= choice.high {
            free.push((at, choice.high));
        }
        taken.insert(begin, end);
        if let Some(ranges) = ranges.get_mut(choice.option as usize) {
            ranges.extend(free);
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn separated_ranges_select_the_same_option_for_each_value(
            choices in proptest::collection::vec((0i128..30, 0i128..8, 0u32..4), 0..12),
        ) {
            let choices: Vec<Choice> =
                choices.into_iter().map(|(low, len, option)| Choice { low, high: low + len, option }).collect();
            let ranges = disjoint_ranges(&choices, 4);
            for value in -1..40i128 {
                let first = choices.iter().find(|c| c.low <= value && value <= c.high).map(|c| c.option as usize);
                let now: Vec<usize> = ranges
                    .iter()
                    .enumerate()
                    .flat_map(|(option, ranges)| ranges.iter().filter(|(l, h)| *l <= value && value <= *h).map(move |_| option))
                    .collect();
                prop_assert_eq!(now, first.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
