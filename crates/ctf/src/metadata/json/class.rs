//! Converts field classes, given as objects or as names of aliases, to types.

use super::syntax::{Json, Kind};
use super::value::{fail, list, mappings, ranges, text, Object, Result};
use crate::error::Span;
use crate::types::type_limits::bounded;
use crate::types::*;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The types that have names.
#[derive(Default)]
pub(super) struct Aliases(HashMap<String, Type>);

impl Aliases {
    pub fn add(&mut self, name: &Json, ty: Type) -> Result<()> {
        match self.0.insert(text(name, "name")?.to_owned(), ty) {
            Some(_) => fail(name.span, "a second field class alias with this name"),
            None => Ok(()),
        }
    }

    pub fn ty(&self, json: &Json) -> Result<Type> {
        let ty = match &json.kind {
            Kind::Text(name) => match self.0.get(name) {
                Some(ty) => ty.clone(),
                None => return fail(json.span, format!("there is no field class alias with the name `{name}` before this")),
            },
            _ => self.class(Object::of(json, "a field class")?)?,
        };
        bounded(&ty, json.span)?;
        Ok(ty)
    }

    /// The type of a scope, which must be a structure.
    pub fn structure(&self, json: &Json) -> Result<Arc<StructType>> {
        match self.ty(json)? {
            Type::Struct(s) => Ok(s),
            other => fail(json.span, format!("expected a structure, found a field class of kind {}", other.kind())),
        }
    }

    fn class(&self, object: Object<'_>) -> Result<Type> {
        let name = object.need("type")?;
        let of = text(name, "type")?;
        let object = object.called(of);
        object.plain()?;
        Ok(match of {
            "fixed-length-bit-array" => Type::Bits(Arc::new(BitsType { int: integer(object, false)?, flags: Vec::new() })),
            "fixed-length-bit-map" => {
                let flags = object.need("flags")?;
                let (int, bits) = (integer(object, false)?, Object::of(flags, "flags")?);
                let flags = mappings(bits)?;
                if flags.is_empty() {
                    return fail(bits.span, "a bit map has at least one flag");
                }
                if let Some(flag) = flags.iter().find(|flag| flag.low < 0 || flag.high >= i128::from(int.size)) {
                    return fail(bits.span, format!("flag `{}` has bits that are not in a map of {} bits", flag.label, int.size));
                }
                Type::Bits(Arc::new(BitsType { int, flags }))
            }
            "fixed-length-boolean" => Type::Bool(integer(object, false)?),
            "fixed-length-unsigned-integer" | "fixed-length-signed-integer" => {
                let int = integer(object, of == "fixed-length-signed-integer")?;
                match object.object("mappings")? {
                    Some(labels) => Type::Enum(Arc::new(EnumType { int, mappings: mappings(labels)?.into() })),
                    None => Type::Int(int),
                }
            }
            "fixed-length-floating-point-number" => {
                let IntType { size, align, byte_order, reversed, .. } = bits(object, 128)?;
                if !matches!(size, 16 | 32 | 64 | 128) {
                    return fail(object.need("length")?.span, "a floating point number has 16, 32, 64 or 128 bits here");
                }
                Type::Float(FloatType { size, align, byte_order, reversed })
            }
            "variable-length-unsigned-integer" | "variable-length-signed-integer" => {
                let signed = of == "variable-length-signed-integer";
                let mappings = object.object("mappings")?.map(mappings).transpose()?.unwrap_or_default().into();
                Type::VarInt(Arc::new(VarIntType { signed, base: base(object)?, mappings, roles: number_roles(object, signed)? }))
            }
            "null-terminated-string" => Type::String(encoding(object)?),
            "static-length-string" | "dynamic-length-string" => {
                let (length, span) = self.length(object, of == "static-length-string")?;
                Type::Text(Arc::new(TextType { length, encoding: encoding(object)?, span }))
            }
            "static-length-blob" | "dynamic-length-blob" => {
                let fixed = of == "static-length-blob";
                let (length, span) = self.length(object, fixed)?;
                let media_type = object.text("media-type")?.unwrap_or("application/octet-stream").to_owned();
                let roles = roles(object)?;
                if roles != Roles::NONE && (roles != Roles::UUID || !fixed) {
                    return fail(object.need("roles")?.span, "only a BLOB of static length has a role, which is `metadata-stream-uuid`");
                }
                if roles.has(Roles::UUID) && length != Length::Fixed(16) {
                    return fail(span, "the uuid of a metadata stream has 16 bytes");
                }
                Type::Blob(Arc::new(BlobType { length, media_type, roles, span }))
            }
            "structure" => Type::Struct(Arc::new(StructType::new(alignment(object, "minimum-alignment")?, self.members(object)?))),
            "static-length-array" | "dynamic-length-array" => {
                let (length, span) = self.length(object, of == "static-length-array")?;
                let element = self.ty(object.need("element-field-class")?)?;
                let array = ArrayType::new(element, length, span).aligned(alignment(object, "minimum-alignment")?);
                Type::Array(Arc::new(array))
            }
            "optional" => {
                let selector = location(object, "selector-field-location")?;
                let ranges = object.get("selector-field-ranges").map(|json| ranges(json, "selector-field-ranges")).transpose()?;
                Type::Optional(Arc::new(OptionalType::new(selector, ranges, self.ty(object.need("field-class")?)?)))
            }
            "variant" => self.variant(object)?,
            _ => return fail(name.span, format!("there is no field class of the type `{of}`")),
        })
    }

    fn length(&self, object: Object<'_>, fixed: bool) -> Result<(Length, Span)> {
        if fixed {
            return Ok((Length::Fixed(object.need_number("length")?), object.need("length")?.span));
        }
        let path = location(object, "length-field-location")?;
        let span = path.span;
        Ok((Length::Field(path), span))
    }

    fn members(&self, object: Object<'_>) -> Result<Vec<Member>> {
        let Some(items) = object.get("member-classes") else { return Ok(Vec::new()) };
        let mut taken = HashSet::new();
        let mut members = Vec::new();
        for item in list(items, "member-classes")? {
            let member = Object::of(item, "a structure's member class")?;
            member.plain()?;
            let name = member.need_text("name")?;
            if !taken.insert(name) {
                return fail(member.need("name")?.span, format!("a second member with the name `{name}`"));
            }
            members.push(Member { name: name.to_owned(), ty: self.ty(member.need("field-class")?)? });
        }
        Ok(members)
    }

    fn variant(&self, object: Object<'_>) -> Result<Type> {
        let selector = location(object, "selector-field-location")?;
        let list = list(object.need("options")?, "options")?;
        if list.is_empty() {
            return fail(object.need("options")?.span, "a variant needs at least one option");
        }
        let (mut options, mut chosen) = (Vec::new(), Vec::<Ranges>::new());
        let mut taken = HashSet::new();
        for item in list {
            let option = Object::of(item, "a variant's option")?;
            option.plain()?;
            let name = option.text("name")?;
            if name.is_some_and(|name| !taken.insert(name)) {
                return fail(option.need("name")?.span, "a second option with this name");
            }
            let json = option.need("selector-field-ranges")?;
            let ranges = ranges(json, "selector-field-ranges")?;
            let meets = |(low, high): (i128, i128)| chosen.iter().flatten().any(|&(l, h)| low <= h && l <= high);
            if ranges.iter().any(|range| meets(*range)) {
                return fail(json.span, "these ranges overlap with those of an option before");
            }
            chosen.push(ranges);
            options.push(Member { name: name.unwrap_or("").to_owned(), ty: self.ty(option.need("field-class")?)? });
        }
        Ok(Type::Variant(Arc::new(VariantType::new(selector, options).by_ranges(chosen))))
    }
}

/// The properties that all classes of fixed length have.
fn bits(object: Object<'_>, most: u32) -> Result<IntType> {
    let length = object.need("length")?;
    let size: u64 = super::value::number(length, "length")?;
    if size == 0 || size > u64::from(most) {
        return fail(length.span, format!("a length of 1 to {most} bits is read"));
    }
    let order = object.need("byte-order")?;
    let byte_order = match text(order, "byte-order")? {
        "little-endian" => ByteOrder::Little,
        "big-endian" => ByteOrder::Big,
        _ => return fail(order.span, "a byte order is `little-endian` or `big-endian`"),
    };
    let reversed = match object.text("bit-order")? {
        None => false,
        Some("first-to-last") => byte_order == ByteOrder::Big,
        Some("last-to-first") => byte_order == ByteOrder::Little,
        Some(_) => return fail(object.need("bit-order")?.span, "a bit order is `first-to-last` or `last-to-first`"),
    };
    Ok(IntType { size: size as u32, align: alignment(object, "alignment")?, byte_order, reversed, base: 10, ..IntType::default() })
}

fn integer(object: Object<'_>, signed: bool) -> Result<IntType> {
    Ok(IntType { signed, base: base(object)?, roles: number_roles(object, signed)?, ..bits(object, 64)? })
}

fn alignment(object: Object<'_>, name: &str) -> Result<u32> {
    match object.number::<u32>(name)? {
        None => Ok(1),
        Some(bits) if bits.is_power_of_two() => Ok(bits),
        Some(_) => fail(object.need(name)?.span, "an alignment is a power of two"),
    }
}

fn base(object: Object<'_>) -> Result<u8> {
    match object.number("preferred-display-base")? {
        None => Ok(10),
        Some(base @ (2 | 8 | 10 | 16)) => Ok(base),
        Some(_) => fail(object.need("preferred-display-base")?.span, "a base is 2, 8, 10 or 16"),
    }
}

fn encoding(object: Object<'_>) -> Result<Encoding> {
    Ok(match object.text("encoding")? {
        None | Some("utf-8") => Encoding::Utf8,
        Some("utf-16be") => Encoding::Utf16Be,
        Some("utf-16le") => Encoding::Utf16Le,
        Some("utf-32be") => Encoding::Utf32Be,
        Some("utf-32le") => Encoding::Utf32Le,
        Some(_) => return fail(object.need("encoding")?.span, "an encoding is `utf-8`, `utf-16be`, `utf-16le`, `utf-32be` or `utf-32le`"),
    })
}

/// The roles of a number.
fn number_roles(object: Object<'_>, signed: bool) -> Result<Roles> {
    let roles = roles(object)?;
    match object.get("roles") {
        Some(json) if signed && !roles.is_empty() => fail(json.span, "only an unsigned integer has roles"),
        Some(json) if roles.has(Roles::UUID) => fail(json.span, "a uuid is a BLOB of static length"),
        _ => Ok(roles),
    }
}

fn roles(object: Object<'_>) -> Result<Roles> {
    let Some(json) = object.get("roles") else { return Ok(Roles::NONE) };
    let mut roles = Roles::NONE;
    for item in list(json, "roles")? {
        roles = roles.and(match text(item, "role")? {
            "packet-magic-number" => Roles::MAGIC,
            "metadata-stream-uuid" => Roles::UUID,
            "data-stream-class-id" => Roles::STREAM_ID,
            "data-stream-id" => Roles::STREAM_INSTANCE,
            "packet-total-length" => Roles::PACKET_SIZE,
            "packet-content-length" => Roles::CONTENT_SIZE,
            "default-clock-timestamp" => Roles::TIME,
            "packet-end-default-clock-timestamp" => Roles::END_TIME,
            "discarded-event-record-counter-snapshot" => Roles::DISCARDED,
            "packet-sequence-number" => Roles::SEQUENCE,
            "event-record-class-id" => Roles::EVENT_ID,
            _ => return fail(item.span, "there is no such role"),
        });
    }
    Ok(roles)
}

/// The location of another field.
fn location(object: Object<'_>, name: &str) -> Result<FieldPath> {
    let json = object.need(name)?;
    let location = Object::of(json, "a field location")?;
    let scope = match location.text("origin")? {
        None => None,
        Some("packet-header") => Some(Scope::PacketHeader),
        Some("packet-context") => Some(Scope::PacketContext),
        Some("event-record-header") => Some(Scope::EventHeader),
        Some("event-record-common-context") => Some(Scope::StreamEventContext),
        Some("event-record-specific-context") => Some(Scope::EventContext),
        Some("event-record-payload") => Some(Scope::EventFields),
        Some(_) => return fail(location.need("origin")?.span, "there is no such origin"),
    };
    let path = location.need("path")?;
    let (mut up, mut names) = (0, Vec::new());
    let items = list(path, "path")?;
    if let Some(last) = items.last().filter(|last| matches!(last.kind, Kind::Null)) {
        return fail(last.span, "the last element of a path names a field");
    }
    for item in items {
        match &item.kind {
            Kind::Text(name) => names.push(name.clone()),
            // `null` leads to the outer structure: it cancels the name before it, if there is one.
            Kind::Null if names.pop().is_none() => up += 1,
            Kind::Null => {}
            _ => return fail(item.span, "a path holds texts and nulls"),
        }
    }
    if names.is_empty() {
        return fail(path.span, "this path leads to no field");
    }
    if scope.is_some() && up > 0 {
        return fail(path.span, "this path leads out of its origin");
    }
    Ok(FieldPath { scope, up: Some(up), names, span: json.span })
}
