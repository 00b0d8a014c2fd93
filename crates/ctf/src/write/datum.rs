//! Values that can be written: values that a reader yields, and values that a caller has made.

use std::borrow::Cow;
use std::sync::Arc;

use super::error::WriteErrorKind;
use crate::bits::{Leaf, LeafKind};
use crate::types::Encoding;
use crate::value::{Compound, CompoundKind, OwnedValue, Value};

/// A value to write. A structure is a list of one value per field; a variant is one value with the
/// name of its option.
#[derive(Clone, Copy, Debug)]
pub enum Datum<'v> {
    /// A value that a reader yields, or a scalar.
    Value(Value<'v>),
    /// The elements of an array.
    List(&'v [OwnedValue]),
    /// The fields of a structure.
    Fields(&'v [(Arc<str>, OwnedValue)]),
}

impl<'v> From<Value<'v>> for Datum<'v> {
    #[inline]
    fn from(value: Value<'v>) -> Datum<'v> {
        Datum::Value(value)
    }
}

impl<'v> From<&'v OwnedValue> for Datum<'v> {
    fn from(value: &'v OwnedValue) -> Datum<'v> {
        Datum::Value(match value {
            OwnedValue::U64(v) => Value::U64(*v),
            OwnedValue::I64(v) => Value::I64(*v),
            OwnedValue::F64(v) => Value::F64(*v),
            OwnedValue::Bool(v) => Value::Bool(*v),
            OwnedValue::Nothing => Value::Nothing,
            OwnedValue::Str(v) => Value::Str(v),
            OwnedValue::Bytes(v) => Value::Bytes(v),
            OwnedValue::List(list) => return Datum::List(list),
            OwnedValue::Fields(fields) => return Datum::Fields(fields),
        })
    }
}

type Result<T> = std::result::Result<T, WriteErrorKind>;

impl<'v> Datum<'v> {
    /// The word for the value in messages.
    fn kind(&self) -> &'static str {
        match self {
            Datum::Value(Value::U64(_) | Value::I64(_)) => "an integer",
            Datum::Value(Value::F64(_)) => "a floating point number",
            Datum::Value(Value::Bool(_)) => "a boolean",
            Datum::Value(Value::Nothing) => "nothing",
            Datum::Value(Value::Str(_) | Value::Wide(_)) => "a text",
            Datum::Value(Value::Bytes(_)) => "bytes",
            Datum::Value(Value::Array(_)) | Datum::List(_) => "a list",
            Datum::Fields(_) => "fields",
            Datum::Value(Value::Compound(c)) => match c.kind() {
                CompoundKind::Array => "a list",
                CompoundKind::Struct => "fields",
                CompoundKind::Variant => "an option",
            },
        }
    }

    pub(super) fn wrong<T>(&self, expected: &'static str) -> Result<T> {
        Err(WriteErrorKind::WrongKind { expected, found: self.kind() })
    }

    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Datum::Value(Value::Nothing))
    }

    /// The value as an integer of `bits` bits, in the lowest bits of the result.
    #[inline]
    pub(super) fn integer(&self, bits: u32, signed: bool) -> Result<u64> {
        let mask = u64::MAX >> (64 - bits);
        match *self {
            Datum::Value(Value::U64(v)) if v <= mask >> u32::from(signed) => Ok(v),
            Datum::Value(Value::I64(v)) if signed && v << (64 - bits) >> (64 - bits) == v => Ok(v as u64 & mask),
            Datum::Value(Value::I64(v)) if !signed && v >= 0 && v as u64 <= mask => Ok(v as u64),
            Datum::Value(Value::Bool(v)) if !signed || bits > 1 => Ok(u64::from(v)),
            Datum::Value(Value::U64(v)) => Err(WriteErrorKind::OutOfRange { value: i128::from(v), bits, signed }),
            Datum::Value(Value::I64(v)) => Err(WriteErrorKind::OutOfRange { value: i128::from(v), bits, signed }),
            _ => self.wrong("an integer"),
        }
    }

    /// The bits of a number of at most 64 bits that is not a floating point number.
    #[inline]
    pub(super) fn raw(&self, leaf: Leaf) -> Result<u64> {
        match leaf.kind {
            LeafKind::Unsigned | LeafKind::Named | LeafKind::Byte => self.integer(u32::from(leaf.bits), false),
            LeafKind::Signed => self.integer(u32::from(leaf.bits), true),
            LeafKind::Bool => match *self {
                Datum::Value(Value::Bool(v)) => Ok(u64::from(v)),
                Datum::Value(Value::U64(v)) => Ok(u64::from(v != 0)),
                Datum::Value(Value::I64(v)) => Ok(u64::from(v != 0)),
                _ => self.wrong("a boolean"),
            },
            LeafKind::Float => self.wrong("an integer"),
        }
    }

    pub(super) fn float(&self) -> Result<f64> {
        match *self {
            Datum::Value(Value::F64(v)) => Ok(v),
            _ => self.wrong("a floating point number"),
        }
    }

    /// The value as a text in this encoding, without a NUL at its end.
    pub(super) fn text(&self, encoding: Encoding) -> Result<Cow<'v, [u8]>> {
        match *self {
            Datum::Value(Value::Str(bytes)) if encoding.unit() == 1 => Ok(Cow::Borrowed(bytes)),
            Datum::Value(Value::Wide(wide)) if wide.encoding() == encoding => Ok(Cow::Borrowed(wide.bytes())),
            Datum::Value(Value::Str(bytes)) => Ok(Cow::Owned(encode(&String::from_utf8_lossy(bytes), encoding))),
            Datum::Value(Value::Wide(wide)) => Ok(Cow::Owned(encode(&wide.decode(), encoding))),
            _ => self.wrong("a text"),
        }
    }

    /// Number of elements.
    pub(super) fn len(&self) -> Result<u64> {
        match self {
            Datum::Value(Value::Str(bytes) | Value::Bytes(bytes)) => Ok(bytes.len() as u64),
            Datum::Value(Value::Array(array)) => Ok(array.len()),
            Datum::Value(Value::Compound(c)) if c.kind() == CompoundKind::Array => Ok(c.iter().count() as u64),
            Datum::List(list) => Ok(list.len() as u64),
            _ => self.wrong("a list"),
        }
    }

    /// The option of a variant: its index, if known, its name and its value.
    pub(super) fn option(&self) -> Result<(Option<usize>, &'v str, Datum<'v>)> {
        match *self {
            Datum::Fields([(name, value)]) => Ok((None, name, value.into())),
            Datum::Value(Value::Compound(c)) if c.kind() == CompoundKind::Variant => match c.iter().next() {
                Some((name, value)) => Ok((c.chosen(), name.map_or("", |n| n), value.into())),
                None => self.wrong("an option"),
            },
            _ => self.wrong("an option"),
        }
    }

    /// The fields of a structure.
    pub(super) fn fields(&self) -> Result<Fields<'v>> {
        match *self {
            Datum::Fields(fields) => Ok(Fields::Owned(fields.iter())),
            Datum::Value(Value::Compound(c)) if c.kind() == CompoundKind::Struct => Ok(Fields::Read(parts(c))),
            _ => self.wrong("fields"),
        }
    }
}

type Parts<'v> = Box<dyn Iterator<Item = (&'v str, Datum<'v>)> + 'v>;

fn parts(compound: Compound<'_>) -> Parts<'_> {
    Box::new(compound.iter().map(|(name, value)| (name.map_or("", |n| n), Datum::Value(value))))
}

pub(super) enum Fields<'v> {
    Owned(std::slice::Iter<'v, (Arc<str>, OwnedValue)>),
    Read(Parts<'v>),
}

impl<'v> Iterator for Fields<'v> {
    type Item = (&'v str, Datum<'v>);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Fields::Owned(fields) => fields.next().map(|(name, value)| (&**name, value.into())),
            Fields::Read(parts) => parts.next(),
        }
    }
}

fn encode(text: &str, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        Encoding::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        Encoding::Utf32Be => text.chars().flat_map(|c| (c as u32).to_be_bytes()).collect(),
        Encoding::Utf32Le => text.chars().flat_map(|c| (c as u32).to_le_bytes()).collect(),
        Encoding::None | Encoding::Utf8 | Encoding::Ascii => text.as_bytes().to_vec(),
    }
}
