//! The value of a field, whatever format it was stored in and whether it still lies in the decoder or was kept aside.

use longpole_ctf::{CompoundKind, OwnedValue, WideText};
use std::borrow::Cow;

/// The value of a field. Numbers and texts are what rules and analyses look at; the rest is there to be shown.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    U64(u64),
    I64(i64),
    F64(f64),
    Bool(bool),
    /// An optional that is not there.
    Nothing,
    /// A text without its NUL, as it was recorded: usually, but not surely, UTF-8. See [`Value::text`].
    Str(&'a [u8]),
    /// The same of wider code units.
    Wide(WideText<'a>),
    /// An array of unsigned 8-bit integers, or a BLOB.
    Bytes(&'a [u8]),
    /// An enumeration's value with its label, the first of several; empty where the metadata has none for it.
    Enum {
        value: i128,
        label: &'a str,
    },
    /// Arrays, structures and variants.
    Nested(Nested<'a>),
}

impl<'a> Value<'a> {
    /// The value as a non-negative integer.
    #[inline]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::U64(value) => Some(*value),
            value => value.integer()?.try_into().ok(),
        }
    }

    /// The value as an integer that fits `i64`.
    #[inline]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::I64(value) => Some(*value),
            Value::U64(value) => (*value).try_into().ok(),
            value => value.integer()?.try_into().ok(),
        }
    }

    /// Any number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::F64(value) => Some(*value),
            value => value.integer().map(|value| value as f64),
        }
    }

    #[inline]
    fn integer(&self) -> Option<i128> {
        match self {
            Value::U64(value) => Some(i128::from(*value)),
            Value::I64(value) => Some(i128::from(*value)),
            Value::Enum { value, .. } => Some(*value),
            Value::Bool(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    /// The text, or an enumeration's label; what is not UTF-8 is replaced.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        match self {
            Value::Str(text) => Some(String::from_utf8_lossy(text)),
            Value::Wide(text) => Some(Cow::Owned(text.decode())),
            Value::Enum { label, .. } if !label.is_empty() => Some(Cow::Borrowed(label)),
            _ => None,
        }
    }
}

impl<'a> From<longpole_ctf::Value<'a>> for Value<'a> {
    #[inline]
    fn from(value: longpole_ctf::Value<'a>) -> Value<'a> {
        match value {
            longpole_ctf::Value::U64(value) => Value::U64(value),
            longpole_ctf::Value::I64(value) => Value::I64(value),
            longpole_ctf::Value::F64(value) => Value::F64(value),
            longpole_ctf::Value::Bool(value) => Value::Bool(value),
            longpole_ctf::Value::Nothing => Value::Nothing,
            longpole_ctf::Value::Wide(text) => Value::Wide(text),
            longpole_ctf::Value::Str(text) => Value::Str(text),
            longpole_ctf::Value::Bytes(bytes) => Value::Bytes(bytes),
            nested => Value::Nested(Nested(Place::Stored(nested))),
        }
    }
}

impl<'a> From<&'a OwnedValue> for Value<'a> {
    fn from(value: &'a OwnedValue) -> Value<'a> {
        match value {
            OwnedValue::U64(value) => Value::U64(*value),
            OwnedValue::I64(value) => Value::I64(*value),
            OwnedValue::F64(value) => Value::F64(*value),
            OwnedValue::Bool(value) => Value::Bool(*value),
            OwnedValue::Nothing => Value::Nothing,
            OwnedValue::Str(text) => Value::Str(text),
            OwnedValue::Bytes(bytes) => Value::Bytes(bytes),
            nested => Value::Nested(Nested(Place::Kept(nested))),
        }
    }
}

/// A value with parts.
#[derive(Clone, Copy, Debug)]
pub struct Nested<'a>(Place<'a>);

#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Stored(longpole_ctf::Value<'a>),
    Kept(&'a OwnedValue),
}

impl<'a> Nested<'a> {
    /// Whether the parts have names: a structure, or the chosen option of a variant.
    pub fn is_named(&self) -> bool {
        match self.0 {
            Place::Stored(longpole_ctf::Value::Compound(compound)) => compound.kind() != CompoundKind::Array,
            Place::Kept(OwnedValue::Fields(_)) => true,
            _ => false,
        }
    }

    /// Calls `visit` for each part in order, with its name where it has one, until it fails.
    pub fn each<E>(&self, mut visit: impl FnMut(Option<&str>, Value<'a>) -> Result<(), E>) -> Result<(), E> {
        match self.0 {
            Place::Stored(longpole_ctf::Value::Array(array)) => array.iter().try_for_each(|part| visit(None, part.into())),
            Place::Stored(longpole_ctf::Value::Compound(compound)) => {
                compound.iter().try_for_each(|(name, part)| visit(name.map(|name| &**name), part.into()))
            }
            Place::Kept(OwnedValue::List(parts)) => parts.iter().try_for_each(|part| visit(None, part.into())),
            Place::Kept(OwnedValue::Fields(parts)) => parts.iter().try_for_each(|(name, part)| visit(Some(name), part.into())),
            Place::Stored(_) | Place::Kept(_) => Ok(()),
        }
    }

    fn to_owned(self) -> OwnedValue {
        match self.0 {
            Place::Stored(value) => value.to_owned(),
            Place::Kept(value) => value.clone(),
        }
    }
}

/// A copy of a value, for items that are held back.
#[derive(Clone, Debug)]
pub(crate) enum Owned {
    Value(OwnedValue),
    Enum(i128, String),
}

impl Owned {
    pub fn of(value: &Value<'_>) -> Owned {
        Owned::Value(match *value {
            Value::U64(value) => OwnedValue::U64(value),
            Value::I64(value) => OwnedValue::I64(value),
            Value::F64(value) => OwnedValue::F64(value),
            Value::Bool(value) => OwnedValue::Bool(value),
            Value::Nothing => OwnedValue::Nothing,
            Value::Wide(text) => OwnedValue::Str(text.decode().into_bytes()),
            Value::Str(text) => OwnedValue::Str(text.to_vec()),
            Value::Bytes(bytes) => OwnedValue::Bytes(bytes.to_vec()),
            Value::Enum { value, label } => return Owned::Enum(value, label.to_owned()),
            Value::Nested(nested) => nested.to_owned(),
        })
    }

    pub fn value(&self) -> Value<'_> {
        match self {
            Owned::Value(value) => value.into(),
            Owned::Enum(value, label) => Value::Enum { value: *value, label },
        }
    }
}
