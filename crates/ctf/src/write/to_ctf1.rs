//! Converts a schema of CTF 2 to CTF 1.8, and records where the values of the original fields go.
//!
//! Types that have the same meaning in both versions keep their place and size: integers, floating
//! point numbers, structures, arrays. Each other type becomes the most similar one:
//!
//! | CTF 2 | CTF 1.8 |
//! |---|---|
//! | variable-length integer | integer of 64 bits |
//! | boolean | enumeration of `false` and `true`, of the same size |
//! | array of bits, bit map | unsigned integer |
//! | reversed order of bits | the usual one |
//! | text of UTF-8 with a length | array or sequence of characters; a string if CTF 1.8 cannot refer to the length |
//! | text of UTF-16 or UTF-32 | string of UTF-8 |
//! | BLOB | array or sequence of bytes |
//! | optional | variant of `none` (an empty structure) and `content` |
//! | variant by ranges | variant by labels |
//! | packet without a size | packet with content and packet size |
//! | event header | an id and a time of full width, whatever the original header was |
//!
//! A variant needs a tag, and an array needs a length field if CTF 1.8 cannot refer to the original
//! one. Such a field is *made*: it is inserted before the field that needs it, as `tag_of_NAME` or
//! `length_of_NAME`; if there is no structure around that field, one is added. babeltrace2 does the
//! same. Callers supply no values for made fields; the writer computes them.
//!
//! A field with a role gets the name that has this role in CTF 1.8. Every other name gets an
//! underscore, which readers remove, and characters that are not allowed in identifiers become
//! underscores.

use std::collections::HashSet;
use std::sync::Arc;

use super::shape::{Made, MadeFields};
use super::tsdl::identifier;
use crate::error::{Span, SpanError};
use crate::plan::refs::{Frame, ReferenceSite, ELEMENT};
use crate::plan::roles_by_name;
use crate::types::type_limits::bounded;
use crate::types::*;
use crate::Clock;
use crate::Origin;

type Result<T> = std::result::Result<T, SpanError>;

/// Size in bits of the tag of a variant that represents an optional. Tags of other variants have
/// other sizes, so the size distinguishes them.
pub(super) const OPTIONAL_BITS: u8 = 8;

/// Converts a schema of CTF 2. Also returns the fields that were made.
pub(super) fn to_ctf1(schema: &Schema) -> Result<(Schema, MadeFields)> {
    let mut all = MadeFields::new();
    let mut converted = |key: (Option<usize>, Option<usize>), scope, clock, earlier: &[(Scope, &StructType)], ty: Option<&StructType>| {
        let Some(ty) = ty else { return Ok(None) };
        let mut converter =
            Ctf1Converter { scope, clock, earlier, frames: Vec::new(), place: Vec::new(), to: Vec::new(), made: Made::new() };
        let ty = converter.structure(ty)?;
        bounded(&Type::Struct(Arc::new(ty.clone())), Span::default())?;
        all.insert((key.0, key.1, scope), converter.made);
        Ok(Some(Arc::new(ty)))
    };
    let header = schema.trace.packet_header.as_deref();
    let mut out = Schema { version: Version::V1_8, ..schema.clone() };
    out.trace = TraceClass { name: None, identity: Identity::default(), ..schema.trace.clone() };
    out.trace.packet_header = converted((None, None), Scope::PacketHeader, None, &[], header)?;
    for (name, _) in &mut out.trace.env {
        *name = identifier(name);
    }
    out.clocks = clocks(&schema.clocks);
    for (index, (stream, out_stream)) in schema.streams.iter().zip(&mut out.streams).enumerate() {
        let mut scopes: Vec<(Scope, &StructType)> = header.map(|h| (Scope::PacketHeader, h)).into_iter().collect();
        let key = (Some(index), None);
        let context = stream.packet_context.as_deref();
        out_stream.packet_context = sized(converted(key, Scope::PacketContext, stream.clock, &scopes, context)?);
        scopes.extend(context.map(|ty| (Scope::PacketContext, ty)));
        let event_header = stream.event_header.as_deref();
        out_stream.event_header = event_header.map(|ty| Arc::new(plain_header(stream, ty)));
        scopes.extend(event_header.map(|ty| (Scope::EventHeader, ty)));
        let common = stream.event_context.as_deref();
        out_stream.event_context = converted(key, Scope::StreamEventContext, None, &scopes, common)?;
        scopes.extend(common.map(|ty| (Scope::StreamEventContext, ty)));
        for (class, (event, out_event)) in stream.events.iter().zip(&mut out_stream.events).enumerate() {
            let (mut scopes, key) = (scopes.clone(), (Some(index), Some(class)));
            out_event.context = converted(key, Scope::EventContext, None, &scopes, event.context.as_deref())?;
            scopes.extend(event.context.as_deref().map(|ty| (Scope::EventContext, ty)));
            out_event.payload = converted(key, Scope::EventFields, None, &scopes, event.payload.as_deref())?;
            (out_event.attributes, out_event.identity) = (None, Identity::default());
        }
        (out_stream.name, out_stream.identity, out_stream.clock) = (None, Identity::default(), None);
    }
    Ok((out, all))
}

/// Adds the fields for the sizes of a packet. Without them a packet ends with its file, so the last
/// event would have to end with the last byte of the file.
fn sized(context: Option<Arc<StructType>>) -> Option<Arc<StructType>> {
    let mut fields = context.as_ref().map_or(Vec::new(), |context| context.fields().to_vec());
    let before = fields.len();
    for name in ["content_size", "packet_size"] {
        if !fields.iter().any(|f| f.name == name) {
            fields.push(Member { name: name.to_owned(), ty: Type::unsigned(64, 8, ByteOrder::Little) });
        }
    }
    match fields.len() == before {
        true => context,
        false => Some(Arc::new(StructType::new(context.map_or(1, |context| context.min_align()), fields))),
    }
}

/// Clocks whose names are identifiers.
fn clocks(clocks: &[Clock]) -> Vec<Clock> {
    let mut taken = HashSet::new();
    let converted = |clock: &Clock| {
        let name = free(&identifier(&clock.name), &mut taken);
        let absolute = clock.absolute || clock.origin == Origin::UnixEpoch;
        Clock { name, absolute, identity: Identity::default(), origin: Origin::Unknown, accuracy: None, ..clock.clone() }
    };
    clocks.iter().map(converted).collect()
}

/// The name, with a number appended if it is in use.
fn free(name: &str, taken: &mut HashSet<String>) -> String {
    let mut free = name.to_owned();
    let mut number = 1u64;
    while !taken.insert(free.clone()) {
        number += 1;
        free = format!("{name}_{number}");
    }
    free
}

/// A header with the same roles as the original one, in as many bits as any value may need.
fn plain_header(stream: &StreamClass, ty: &StructType) -> StructType {
    fn roles(ty: &Type) -> Roles {
        match ty {
            Type::Int(int) => int.roles,
            Type::Enum(e) => e.int.roles,
            Type::VarInt(int) => int.roles,
            Type::Struct(s) => all(s.fields()),
            Type::Variant(variant) => all(variant.options()),
            Type::Optional(optional) => roles(optional.ty()),
            _ => Roles::NONE,
        }
    }
    fn all(members: &[Member]) -> Roles {
        members.iter().fold(Roles::NONE, |sum, member| sum.and(roles(&member.ty)))
    }
    let found = all(ty.fields());
    let mut fields = Vec::new();
    // A header needs at least some bits, in case an event has no other fields.
    if found.has(Roles::EVENT_ID) || !found.has(Roles::TIME) {
        let wide = stream.events.iter().any(|e| e.id > u64::from(u32::MAX));
        fields.push(Member { name: "id".to_owned(), ty: Type::unsigned(if wide { 64 } else { 32 }, 8, ByteOrder::Little) });
    }
    if found.has(Roles::TIME) {
        let int = IntType { size: 64, align: 8, base: 10, clock: stream.clock, ..IntType::default() };
        fields.push(Member { name: "timestamp".to_owned(), ty: Type::Int(int) });
    }
    StructType::new(8, fields)
}

/// The CTF 1.8 names of the fields of a structure, or of the options of a variant.
fn names(scope: Scope, members: &[Member]) -> Vec<String> {
    let mut taken = HashSet::new();
    let name = |member: &Member| {
        let plain = IntType::default();
        let (int, roles) = match &member.ty {
            Type::Int(int) => (int, int.roles),
            Type::Enum(e) => (&e.int, e.int.roles),
            Type::VarInt(int) => (&plain, int.roles),
            Type::Blob(blob) => (&plain, blob.roles),
            _ => (&plain, Roles::NONE),
        };
        if let Some((_, name)) = NAMES.iter().find(|(of, name)| roles.has(role(*of, name)) && *of == scope) {
            return free(name, &mut taken);
        }
        let mut name = format!("_{}", member.name);
        if !member.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') || member.name.is_empty() {
            name = format!("_{}", identifier(&member.name));
        }
        let roles = roles_by_name(scope, display_name(&name), int);
        // In both versions the CPU is recognized by the name `cpu_id`; some readers do not accept
        // it with an underscore.
        if roles.has(Roles::CPU) {
            name = member.name.clone();
        } else if !roles.is_empty() || scope == Scope::PacketHeader && name == "_uuid" {
            name.push('_');
        }
        free(&name, &mut taken)
    };
    members.iter().map(name).collect()
}

/// Names that have a role in CTF 1.8.
const NAMES: [(Scope, &str); 12] = [
    (Scope::PacketHeader, "magic"),
    (Scope::PacketHeader, "uuid"),
    (Scope::PacketHeader, "stream_id"),
    (Scope::PacketHeader, "stream_instance_id"),
    (Scope::PacketContext, "packet_size"),
    (Scope::PacketContext, "content_size"),
    (Scope::PacketContext, "timestamp_begin"),
    (Scope::PacketContext, "timestamp_end"),
    (Scope::PacketContext, "events_discarded"),
    (Scope::PacketContext, "packet_seq_num"),
    (Scope::EventHeader, "id"),
    (Scope::EventHeader, "timestamp"),
];

fn role(scope: Scope, name: &str) -> Roles {
    match name {
        "uuid" => Roles::UUID,
        name => roles_by_name(scope, name, &IntType::default()),
    }
}

/// The kind of field that must be made before another field.
enum Need {
    Presence,
    Tag(usize),
    Length,
}

struct Ctf1Converter<'s, 'e> {
    scope: Scope,
    /// Index of the clock for fields with times.
    clock: Option<usize>,
    earlier: &'e [(Scope, &'s StructType)],
    /// The current position, in the original schema and in the result.
    frames: Vec<Frame<'s>>,
    place: Vec<u32>,
    to: Vec<u32>,
    made: Made,
}

impl<'s> Ctf1Converter<'s, '_> {
    fn structure(&mut self, ty: &'s StructType) -> Result<StructType> {
        self.frames.push(Frame { ty, depth: self.place.len() });
        let mut fields = Vec::new();
        for (index, (name, member)) in names(self.scope, ty.fields()).into_iter().zip(ty.fields()).enumerate() {
            self.place.push(index as u32);
            let need = self.need(&member.ty);
            let path = need.map(|need| self.make(need, display_name(&name), &mut fields, &member.ty));
            self.to.push(fields.len() as u32);
            let ty = self.ty(&member.ty, path)?;
            self.to.pop();
            self.place.pop();
            fields.push(Member { name, ty });
        }
        self.frames.pop();
        Ok(StructType::new(ty.min_align(), fields))
    }

    /// Makes the field that another field needs before it.
    fn make(&mut self, need: Need, name: &str, fields: &mut Vec<Member>, of: &Type) -> FieldPath {
        self.to.push(fields.len() as u32);
        self.made.insert(self.to.clone());
        self.to.pop();
        let int = |size| IntType { size, align: 8, base: 10, ..IntType::default() };
        let tag = |size, labels: Vec<String>| {
            let mapping = |(value, label)| Mapping { label, low: value as i128, high: value as i128 };
            Type::Enum(Arc::new(EnumType { int: int(size), mappings: labels.into_iter().enumerate().map(mapping).collect() }))
        };
        let (kind, ty) = match (need, of) {
            (Need::Length, _) => ("length", Type::Int(int(64))),
            (Need::Tag(options), Type::Variant(variant)) => {
                let size = if options > 1 << 16 { 32 } else { 16 };
                ("tag", tag(size, names(self.scope, variant.options())))
            }
            _ => ("tag", tag(u32::from(OPTIONAL_BITS), vec!["none".to_owned(), "content".to_owned()])),
        };
        let name = format!("{kind}_of_{name}");
        fields.push(Member { name: name.clone(), ty });
        FieldPath { names: vec![name], ..FieldPath::default() }
    }

    fn need(&self, ty: &Type) -> Option<Need> {
        let length = |length: &Length| match length {
            Length::Field(path) if self.path(path).is_none() => Some(Need::Length),
            _ => None,
        };
        match ty {
            Type::Optional(_) => Some(Need::Presence),
            Type::Variant(variant) => Some(Need::Tag(variant.options().len())),
            Type::Array(array) => length(array.length()),
            Type::Blob(blob) => length(&blob.length),
            _ => None,
        }
    }

    /// Converts a type that is not the member of a structure: an element, an option, the content of
    /// an optional. If a field must be made for it, a structure is added around it.
    fn part(&mut self, from: u32, to: u32, ty: &'s Type) -> Result<Type> {
        self.place.push(from);
        self.to.push(to);
        let converted = match self.need(ty) {
            None => self.ty(ty, None)?,
            Some(need) => {
                self.made.insert(self.to.clone());
                let mut fields = Vec::new();
                let path = self.make(need, "content", &mut fields, ty);
                self.to.push(1);
                let ty = self.ty(ty, Some(path))?;
                self.to.pop();
                fields.push(Member { name: "content".to_owned(), ty });
                Type::Struct(Arc::new(StructType::new(1, fields)))
            }
        };
        self.to.pop();
        self.place.pop();
        Ok(converted)
    }

    /// Converts a type; `made` is the path of the field that was made for it.
    fn ty(&mut self, ty: &'s Type, made: Option<FieldPath>) -> Result<Type> {
        let array = |element, length| Type::Array(Arc::new(ArrayType::new(element, length, Span::default())));
        let byte = IntType { size: 8, align: 8, base: 10, ..IntType::default() };
        Ok(match ty {
            Type::Int(int) => Type::Int(self.integer(int)),
            Type::Enum(e) => enumeration(self.integer(&e.int), &e.mappings),
            Type::Bool(int) => {
                let most = i128::from(u64::MAX >> (64 - int.size.clamp(1, 64)));
                let mapping = |label: &str, low, high| Mapping { label: label.to_owned(), low, high };
                let int = IntType { signed: false, roles: Roles::NONE, ..self.integer(int) };
                enumeration(int, &[mapping("false", 0, 0), mapping("true", 1, most)])
            }
            Type::Bits(bits) => Type::Int(IntType { signed: false, roles: Roles::NONE, ..self.integer(&bits.int) }),
            Type::VarInt(int) => {
                let clock = self.clock_of(int.roles);
                enumeration(IntType { size: 64, signed: int.signed, base: int.base, clock, ..byte }, &int.mappings)
            }
            Type::Float(float) => Type::Float(FloatType { reversed: false, ..float.clone() }),
            Type::String(_) => Type::String(Encoding::Utf8),
            Type::Text(text) => match self.length(&text.length) {
                Some(length) if text.encoding.unit() == 1 => array(Type::Int(IntType { encoding: Encoding::Utf8, ..byte }), length),
                _ => Type::String(Encoding::Utf8),
            },
            Type::Blob(blob) => {
                let length = made.map(Length::Field).or_else(|| self.length(&blob.length));
                array(Type::Int(byte), length.unwrap_or(Length::Fixed(0)))
            }
            Type::Struct(s) => Type::Struct(Arc::new(self.structure(s)?)),
            Type::Array(of) => {
                let length = made.map(Length::Field).or_else(|| self.length(of.length()));
                array(self.part(ELEMENT, ELEMENT, of.element())?, length.unwrap_or(Length::Fixed(0)))
            }
            Type::Variant(variant) => {
                let mut options = Vec::with_capacity(variant.options().len());
                for (index, (name, option)) in names(self.scope, variant.options()).into_iter().zip(variant.options()).enumerate() {
                    options.push(Member { name, ty: self.part(index as u32, index as u32, &option.ty)? });
                }
                Type::Variant(Arc::new(VariantType::new(made.unwrap_or_default(), options)))
            }
            Type::Optional(optional) => {
                let none = Type::Struct(Arc::new(StructType::new(1, Vec::new())));
                let content = self.part(0, 1, optional.ty())?;
                let options = vec![Member { name: "none".to_owned(), ty: none }, Member { name: "content".to_owned(), ty: content }];
                Type::Variant(Arc::new(VariantType::new(made.unwrap_or_default(), options)))
            }
        })
    }

    fn clock_of(&self, roles: Roles) -> Option<usize> {
        self.clock.filter(|_| roles.has(Roles::TIME) || roles.has(Roles::END_TIME))
    }

    fn integer(&self, int: &IntType) -> IntType {
        let clock = self.clock_of(int.roles);
        IntType { reversed: false, encoding: Encoding::None, roles: Roles::NONE, clock, ..int.clone() }
    }

    fn length(&self, length: &Length) -> Option<Length> {
        match length {
            Length::Fixed(length) => Some(Length::Fixed(*length)),
            Length::Field(path) => self.path(path).map(Length::Field),
        }
    }

    /// The path by which CTF 1.8 finds the same field, or `None` if no path does.
    fn path(&self, path: &FieldPath) -> Option<FieldPath> {
        let standpoint = ReferenceSite { scope: self.scope, earlier: self.earlier, frames: &self.frames, place: &self.place };
        let target = standpoint.resolve(path, |_| true).ok()?;
        let [(scope, place, _)] = target.found.as_slice() else { return None };
        let Some(index) = target.frame else {
            // Fields of an event's header are not available, because the header was replaced.
            let (_, root) = self.earlier.iter().find(|(s, _)| s == scope && *s != Scope::EventHeader)?;
            return Some(FieldPath { scope: Some(*scope), names: down(*scope, root, place)?, ..FieldPath::default() });
        };
        let frame = self.frames.get(index)?;
        let names = down(*scope, frame.ty, place.get(frame.depth..)?)?;
        // CTF 1.8 searches outwards, so a nearer structure with a field of this name would be found
        // first.
        let has = |f: &Frame<'_>| names.first().is_some_and(|first| self::names(self.scope, f.ty.fields()).contains(first));
        let nearer = self.frames.iter().skip(index + 1).any(has);
        if !nearer {
            return Some(FieldPath { names, ..FieldPath::default() });
        }
        let root = self.frames.first()?;
        Some(FieldPath { scope: Some(*scope), names: down(*scope, root.ty, place)?, ..FieldPath::default() })
    }
}

/// The names on the way to a place; `None` if a type on the way is not a structure.
fn down(scope: Scope, root: &StructType, place: &[u32]) -> Option<Vec<String>> {
    let (mut at, mut path) = (Some(root), Vec::new());
    for &index in place {
        let ty = at?;
        path.push(names(scope, ty.fields()).into_iter().nth(index as usize)?);
        at = match &ty.fields().get(index as usize)?.ty {
            Type::Struct(inner) => Some(inner),
            _ => None,
        };
    }
    Some(path)
}

/// An enumeration of the labels that the integer can have; without labels the integer itself.
fn enumeration(int: IntType, mappings: &[Mapping]) -> Type {
    let bits = int.size.clamp(1, 64);
    let (least, most) = match int.signed {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    let within = mappings.iter().filter(|m| m.low <= most && m.high >= least);
    let mappings: Mappings = within.map(|m| Mapping { label: m.label.clone(), low: m.low.max(least), high: m.high.min(most) }).collect();
    match mappings.is_empty() {
        true => Type::Int(int),
        false => Type::Enum(Arc::new(EnumType { int, mappings })),
    }
}
