//! What the values of an event look like: the types with which they are written.
//!
//! A trace tells values and not types, since it may come from any format. Numbers become 64 bits wide and keep base and labels. An array's length is that of a field before it
//! that has its value anyway, as tracers write it; or else it is fixed; or, of one that has many lengths, it is in a field of its own.

use crate::value::Value;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// Labels of an enumeration that are kept.
const MOST_LABELS: usize = 1 << 16;

#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Unsigned,
    Signed,
    Real,
    Bool,
    Text,
    /// Optional, and not there.
    Nothing,
    Bytes,
    /// Elements of one shape; of an empty one it is not known.
    List(Option<Box<Shape>>),
    Fields(Vec<(String, Shape)>),
}

impl Shape {
    fn of(value: &Value<'_>) -> Shape {
        match value {
            Value::U64(_) | Value::Flags { .. } => Shape::Unsigned,
            Value::I64(_) => Shape::Signed,
            Value::F64(_) => Shape::Real,
            Value::Bool(_) => Shape::Bool,
            Value::Nothing => Shape::Nothing,
            Value::Str(_) | Value::Wide(_) => Shape::Text,
            Value::Bytes(_) => Shape::Bytes,
            Value::Enum { value, .. } if i64::try_from(*value).is_ok() => Shape::Signed,
            Value::Enum { .. } => Shape::Unsigned,
            Value::Nested(_) => {
                let parts = parts(value);
                match parts.iter().all(|(name, _)| name.is_none()) {
                    true => {
                        let mut shapes = parts.iter().map(|(_, part)| Shape::inner(part));
                        match shapes.next() {
                            None => Shape::List(None),
                            Some(first) if shapes.all(|shape| shape == first) => Shape::List(Some(Box::new(first))),
                            Some(_) => Shape::Fields(numbered(&parts)),
                        }
                    }
                    false => Shape::Fields(numbered(&parts)),
                }
            }
        }
    }

    /// Within another value: what has no fixed number of parts there has numbered ones.
    fn inner(value: &Value<'_>) -> Shape {
        match value {
            Value::Bytes(bytes) => Shape::Fields((0..bytes.len()).map(|at| (at.to_string(), Shape::Unsigned)).collect()),
            Value::Nested(_) => Shape::Fields(numbered(&parts(value))),
            value => Shape::of(value),
        }
    }

    /// Whether the value can be written so.
    fn fits(&self, value: &Value<'_>) -> bool {
        match (self, value) {
            (Shape::Unsigned, Value::U64(_) | Value::Flags { .. })
            | (Shape::Signed, Value::I64(_))
            | (Shape::Real, Value::F64(_))
            | (Shape::Bool, Value::Bool(_))
            | (Shape::Nothing, Value::Nothing)
            | (Shape::Text, Value::Str(_) | Value::Wide(_))
            | (Shape::Bytes, Value::Bytes(_)) => true,
            (Shape::Signed, Value::Enum { value, .. }) => i64::try_from(*value).is_ok(),
            (Shape::Unsigned, Value::Enum { value, .. }) => u64::try_from(*value).is_ok(),
            (shape, Value::Nested(_)) => match (shape, Shape::of(value)) {
                (Shape::List(_), Shape::List(None)) => true,
                (shape, found) => *shape == found,
            },
            _ => false,
        }
    }

    fn put(&self, value: &Value<'_>, out: &mut Vec<u8>) {
        match value {
            Value::U64(value) | Value::Flags { value, .. } => out.extend(value.to_le_bytes()),
            Value::I64(value) => out.extend(value.to_le_bytes()),
            Value::F64(value) => out.extend(value.to_le_bytes()),
            Value::Bool(value) => out.push(u8::from(*value)),
            Value::Nothing => {}
            Value::Enum { value, .. } => out.extend((*value as u64).to_le_bytes()),
            Value::Str(text) => put_text(text, out),
            Value::Wide(text) => put_text(text.decode().as_bytes(), out),
            Value::Bytes(bytes) if *self == Shape::Bytes => out.extend_from_slice(bytes),
            Value::Bytes(bytes) => bytes.iter().for_each(|byte| out.extend(u64::from(*byte).to_le_bytes())),
            Value::Nested(nested) => {
                let mut index = 0;
                let done: Result<(), Infallible> = nested.each(|_, part| {
                    match self {
                        Shape::Fields(fields) => fields.get(index).into_iter().for_each(|(_, shape)| shape.put(&part, out)),
                        Shape::List(Some(shape)) => shape.put(&part, out),
                        _ => {}
                    }
                    index += 1;
                    Ok(())
                });
                let Ok(()) = done;
            }
        }
    }
}

/// A text ends at its first NUL.
pub fn put_text(text: &[u8], out: &mut Vec<u8>) {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    out.extend_from_slice(&text[..end]);
    out.push(0);
}

fn parts<'a>(value: &Value<'a>) -> Vec<(Option<String>, Value<'a>)> {
    let mut parts = Vec::new();
    if let Value::Nested(nested) = value {
        let done: Result<(), Infallible> = nested.each(|name, part| {
            parts.push((name.map(str::to_owned), part));
            Ok(())
        });
        let Ok(()) = done;
    }
    parts
}

fn numbered(parts: &[(Option<String>, Value<'_>)]) -> Vec<(String, Shape)> {
    parts.iter().enumerate().map(|(at, (name, part))| (name.clone().unwrap_or_else(|| at.to_string()), Shape::inner(part))).collect()
}

fn length(value: &Value<'_>) -> Option<usize> {
    match value {
        Value::Bytes(bytes) => Some(bytes.len()),
        Value::Nested(_) => Some(parts(value).len()),
        _ => None,
    }
}

/// Where the length of an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// It is no array.
    None,
    /// The value of another field.
    Of(usize),
    Fixed(usize),
    /// A field of its own.
    Own,
}

/// A field of a class, as it is written.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    pub shape: Shape,
    pub base: u8,
    pub length: Length,
    pub labels: BTreeMap<i128, String>,
    pub is_enum: bool,
}

/// The fields of an event, or its context.
#[derive(Clone, Debug, Default)]
pub struct Fields(pub Vec<Field>);

impl Fields {
    /// `many`: arrays have had many lengths.
    pub fn of(names: &[String], bases: &[u8], values: &[Value<'_>], many: bool) -> Fields {
        let mut fields: Vec<Field> = Vec::with_capacity(values.len());
        for (at, value) in values.iter().enumerate() {
            let name = names.get(at).cloned().unwrap_or_else(|| at.to_string());
            let shape = Shape::of(value);
            let before = || {
                let before = at.checked_sub(1).filter(|before| fields[*before].shape == Shape::Unsigned && !fields[*before].is_enum)?;
                (values[before].as_u64() == length(value).map(|length| length as u64)).then_some(Length::Of(before))
            };
            let length = match shape {
                Shape::Bytes | Shape::List(_) => {
                    before().unwrap_or(if many { Length::Own } else { Length::Fixed(length(value).unwrap_or(0)) })
                }
                _ => Length::None,
            };
            fields.push(Field {
                name,
                shape,
                base: bases.get(at).copied().unwrap_or(10),
                length,
                labels: BTreeMap::new(),
                is_enum: matches!(value, Value::Enum { .. }),
            });
        }
        Fields(fields)
    }

    pub fn fit(&self, values: &[Value<'_>]) -> bool {
        let one = |(field, value): (&Field, &Value<'_>)| {
            field.shape.fits(value)
                && field.is_enum == matches!(value, Value::Enum { .. })
                && match field.length {
                    Length::Of(at) => values[at].as_u64() == length(value).map(|length| length as u64),
                    Length::Fixed(fixed) => length(value) == Some(fixed),
                    Length::None | Length::Own => true,
                }
        };
        self.0.len() == values.len() && self.0.iter().zip(values).all(one)
    }

    pub fn put(&mut self, values: &[Value<'_>], out: &mut Vec<u8>) {
        for (field, value) in self.0.iter_mut().zip(values) {
            if field.length == Length::Own {
                out.extend((length(value).unwrap_or(0) as u32).to_le_bytes());
            }
            if let Value::Enum { value, label } = value {
                if !label.is_empty() && field.labels.len() < MOST_LABELS && !field.labels.contains_key(value) {
                    field.labels.insert(*value, (*label).to_owned());
                }
            }
            field.shape.put(value, out);
        }
    }
}
