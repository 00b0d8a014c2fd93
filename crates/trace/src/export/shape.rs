//! Shapes of an event's values: the types with which they are exported.
//!
//! A trace yields values and not types, because it may come from any format. Events of one class
//! whose values have equal shapes are exported with the same types. Numbers are 64 bits wide. The
//! length of an array is the value of the preceding field if that happens to be the length, as
//! tracers usually write it. Otherwise the length is fixed, or, if there were many different
//! lengths, stored in a field of its own.

use super::schema::Form;
use crate::event::ClassId;
use crate::value::{Nested, Value};
use longpole_ctf::write::Datum;
use longpole_ctf::OwnedValue;

/// Maximum number of parts of an event that become fields of their own.
const MAX_PARTS: u32 = 1 << 12;
/// Maximum number of elements of an array whose elements have no bits; events with more are
/// exported as JSON. No data backs such elements, so readers limit their number: `longpole-ctf`
/// accepts 65,536 per array (`MAX_EMPTY` in its `exec.rs`).
const MAX_EMPTY: u64 = 1 << 10;

/// Shape of a value: the type with which it is exported.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    Unsigned,
    Signed,
    /// An integer that may have labels.
    Labelled {
        signed: bool,
    },
    /// An integer whose bits have names.
    Flags,
    Real,
    Bool,
    Text,
    /// An optional that is absent.
    Nothing,
    Bytes(Length),
    /// An array of elements of one shape.
    List(Length, Box<Shape>),
    Fields(Vec<(String, Shape)>),
}

/// Place of an array's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// The value of the field before.
    Before,
    Fixed(u64),
    /// A field of its own.
    Own,
}

/// Everything that distinguishes events that are exported in different ways.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    pub class: ClassId,
    pub form: Form,
    pub context: Vec<Shape>,
    pub fields: Vec<Shape>,
}

/// The event has more parts than may become fields.
#[derive(Debug)]
pub struct TooMany;

/// Finds the shapes of an event's values. An array without elements gets the element shape that it
/// has in `like`. `many` means that arrays have had many lengths.
pub fn shapes(values: &[Value<'_>], like: &[Shape], many: bool, out: &mut Vec<Shape>) -> Result<(), TooMany> {
    let mut parts = MAX_PARTS;
    out.clear();
    for (at, value) in values.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &values[before]);
        let length = |length: u64| match before {
            Some(Value::U64(before)) if *before == length => Length::Before,
            _ if many => Length::Own,
            _ => Length::Fixed(length),
        };
        out.push(match value {
            Value::Bytes(bytes) => Shape::Bytes(length(bytes.len() as u64)),
            value => match shape(value, like.get(at), &mut parts)? {
                Shape::List(Length::Fixed(count), element) => Shape::List(length(count), element),
                shape => shape,
            },
        });
    }
    Ok(())
}

fn shape(value: &Value<'_>, like: Option<&Shape>, parts: &mut u32) -> Result<Shape, TooMany> {
    Ok(match value {
        Value::U64(_) => Shape::Unsigned,
        Value::I64(_) => Shape::Signed,
        Value::F64(_) => Shape::Real,
        Value::Bool(_) => Shape::Bool,
        Value::Nothing => Shape::Nothing,
        Value::Str(_) | Value::Wide(_) => Shape::Text,
        Value::Bytes(bytes) => Shape::Bytes(Length::Fixed(bytes.len() as u64)),
        Value::Enum { value, .. } | Value::Several { value, .. } => Shape::Labelled { signed: i64::try_from(*value).is_ok() },
        Value::Flags { .. } => Shape::Flags,
        Value::Nested(nested) if nested.is_named() => {
            let mut fields = Vec::new();
            nested.each(|name, part| {
                *parts = parts.checked_sub(1).ok_or(TooMany)?;
                fields.push((name.map_or_else(|| fields.len().to_string(), str::to_owned), shape(&part, None, parts)?));
                Ok(())
            })?;
            Shape::Fields(fields)
        }
        Value::Nested(nested) => list(nested, like, parts)?,
    })
}

/// Returns the shape of a list. If its elements have different shapes, they become fields with
/// numbers as names.
fn list(nested: &Nested<'_>, like: Option<&Shape>, parts: &mut u32) -> Result<Shape, TooMany> {
    let mut count = 0u64;
    let mut first: Option<Shape> = None;
    let mut rest: Vec<Shape> = Vec::new();
    nested.each(|_, part| {
        let left = *parts;
        let found = shape(&part, None, parts)?;
        match &first {
            None => first = Some(found),
            Some(first) if rest.is_empty() && *first == found => *parts = left,
            Some(first) => {
                if rest.is_empty() {
                    let alike = u32::try_from(count).map_err(|_| TooMany)?;
                    *parts = parts.checked_sub(alike).ok_or(TooMany)?;
                    rest.extend((1..count).map(|_| first.clone()));
                }
                *parts = parts.checked_sub(1).ok_or(TooMany)?;
                rest.push(found);
            }
        }
        count += 1;
        Ok(())
    })?;
    match first {
        Some(first) if rest.is_empty() && first.is_empty() && count > MAX_EMPTY => Err(TooMany),
        Some(first) if rest.is_empty() => Ok(Shape::List(Length::Fixed(count), Box::new(first))),
        Some(first) => {
            let all = std::iter::once(first).chain(rest).enumerate();
            Ok(Shape::Fields(all.map(|(at, shape)| (at.to_string(), shape)).collect()))
        }
        None => {
            let element = match like {
                Some(Shape::List(_, element)) => element.clone(),
                _ => Box::new(Shape::Unsigned),
            };
            Ok(Shape::List(Length::Fixed(0), element))
        }
    }
}

impl Shape {
    /// Returns true if values of this shape have no bits.
    fn is_empty(&self) -> bool {
        match self {
            Shape::Nothing | Shape::Bytes(Length::Fixed(0)) | Shape::List(Length::Fixed(0), _) => true,
            Shape::List(Length::Fixed(_), element) => element.is_empty(),
            Shape::Fields(fields) => fields.iter().all(|(_, shape)| shape.is_empty()),
            _ => false,
        }
    }

    /// Returns true if values of this shape, or parts of them, may have labels.
    pub fn has_names(&self) -> bool {
        match self {
            Shape::Labelled { .. } | Shape::Flags => true,
            Shape::List(_, element) => element.has_names(),
            Shape::Fields(fields) => fields.iter().any(|(_, shape)| shape.has_names()),
            _ => false,
        }
    }

    /// Returns true if a value of this shape is written as it was read.
    pub fn is_plain(&self) -> bool {
        !matches!(self, Shape::Nothing | Shape::Bytes(Length::Own) | Shape::List(..) | Shape::Fields(_))
    }
}

/// Returns the text up to its first NUL.
pub fn until_nul(text: &[u8]) -> &[u8] {
    &text[..text.iter().position(|byte| *byte == 0).unwrap_or(text.len())]
}

/// Converts a value of a plain shape.
#[inline]
pub fn plain<'v>(value: &Value<'v>) -> Datum<'v> {
    use longpole_ctf::Value as Stored;
    Datum::Value(match *value {
        Value::U64(value) | Value::Flags { value, .. } => Stored::U64(value),
        Value::I64(value) => Stored::I64(value),
        Value::F64(value) => Stored::F64(value),
        Value::Bool(value) => Stored::Bool(value),
        Value::Str(text) => Stored::Str(until_nul(text)),
        Value::Wide(text) => Stored::Wide(text),
        Value::Bytes(bytes) => Stored::Bytes(bytes),
        Value::Enum { value, .. } | Value::Several { value, .. } => i64::try_from(value).map_or(Stored::U64(value as u64), Stored::I64),
        Value::Nothing | Value::Nested(_) => Stored::Nothing,
    })
}

/// Appends the values of the fields to which a value is exported: none, one, or several.
pub fn spread(value: &Value<'_>, shape: &Shape, out: &mut Vec<OwnedValue>) {
    match (shape, value) {
        (Shape::Fields(fields), Value::Nested(nested)) if !fields.is_empty() => {
            each(nested, fields, |_, shape, part| spread(&part, shape, out));
        }
        (Shape::Bytes(Length::Own), Value::Bytes(bytes)) => {
            out.extend([OwnedValue::U64(bytes.len() as u64), OwnedValue::Bytes(bytes.to_vec())]);
        }
        (Shape::List(Length::Own, _), _) => {
            let list = one(value, shape);
            let length = if let OwnedValue::List(list) = &list { list.len() } else { 0 };
            out.extend([OwnedValue::U64(length as u64), list]);
        }
        _ => out.push(one(value, shape)),
    }
}

/// Converts a value to the value of one field or element.
fn one(value: &Value<'_>, shape: &Shape) -> OwnedValue {
    match (value, shape) {
        (Value::U64(value) | Value::Flags { value, .. }, _) => OwnedValue::U64(*value),
        (Value::I64(value), _) => OwnedValue::I64(*value),
        (Value::F64(value), _) => OwnedValue::F64(*value),
        (Value::Bool(value), _) => OwnedValue::Bool(*value),
        (Value::Str(text), _) => OwnedValue::Str(until_nul(text).to_vec()),
        (Value::Wide(text), _) => OwnedValue::Str(until_nul(text.decode().as_bytes()).to_vec()),
        (Value::Bytes(bytes), _) => OwnedValue::Bytes(bytes.to_vec()),
        (Value::Enum { value, .. } | Value::Several { value, .. }, _) => {
            i64::try_from(*value).map_or(OwnedValue::U64(*value as u64), OwnedValue::I64)
        }
        (Value::Nested(nested), Shape::List(_, element)) => {
            let mut list = Vec::new();
            let Ok(()) = nested.each(|_, part| {
                list.push(one(&part, element));
                Ok::<(), std::convert::Infallible>(())
            });
            OwnedValue::List(list)
        }
        (Value::Nested(nested), Shape::Fields(fields)) => {
            let mut parts = Vec::with_capacity(fields.len());
            each(nested, fields, |name, shape, part| parts.push((name.into(), one(&part, shape))));
            OwnedValue::Fields(parts)
        }
        // Exported as a structure without fields.
        (Value::Nothing | Value::Nested(_), _) => OwnedValue::Fields(Vec::new()),
    }
}

/// Calls `visit` with the name, shape and value of each part.
pub fn each<'v>(nested: &Nested<'v>, fields: &[(String, Shape)], mut visit: impl FnMut(&str, &Shape, Value<'v>)) {
    let mut fields = fields.iter();
    let Ok(()) = nested.each(|_, part| {
        if let Some((name, shape)) = fields.next() {
            visit(name, shape, part);
        }
        Ok::<(), std::convert::Infallible>(())
    });
}
