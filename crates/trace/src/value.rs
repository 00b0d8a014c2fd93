//! Values of fields, independent of the format in which they were stored and of where they are: in
//! the decoder's buffer or in an owned copy.

use longpole_ctf::types::{display_name, BitsType, Mapping, Mappings, Type};
use longpole_ctf::{CompoundKind, OwnedValue, WideText};
use std::borrow::Cow;
use std::sync::Arc;

/// The value of a field. Rules and analyses use numbers and texts; the other kinds exist for
/// display.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    U64(u64),
    I64(i64),
    F64(f64),
    Bool(bool),
    /// An optional that is absent.
    Nothing,
    /// A text without its NUL, as recorded. It is usually UTF-8, but this is not guaranteed. See
    /// [`Value::text`].
    Str(&'a [u8]),
    /// A text of UTF-16 or UTF-32 code units.
    Wide(WideText<'a>),
    /// An array of unsigned 8-bit integers, or a BLOB.
    Bytes(&'a [u8]),
    /// An enumeration's value with its label. The label is empty if the metadata has none for the
    /// value.
    Enum {
        value: i128,
        label: &'a str,
    },
    /// An enumeration's value that has several labels. The value's labels are those of the mappings
    /// that hold the value; the first mapping of the slice always does.
    Several {
        value: i128,
        mappings: &'a [Mapping],
    },
    /// A bit map in which ranges of bits have names.
    Flags {
        value: u64,
        flags: &'a BitsType,
    },
    /// An array, a structure or a variant.
    Nested(Nested<'a>),
}

impl<'a> Value<'a> {
    /// Returns the value as a non-negative integer.
    #[inline]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::U64(value) => Some(*value),
            value => value.integer()?.try_into().ok(),
        }
    }

    /// Returns the value as an integer, if it fits `i64`.
    #[inline]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::I64(value) => Some(*value),
            Value::U64(value) => (*value).try_into().ok(),
            value => value.integer()?.try_into().ok(),
        }
    }

    /// Returns any number as floating point.
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
            Value::Enum { value, .. } | Value::Several { value, .. } => Some(*value),
            Value::Bool(value) => Some(i128::from(*value)),
            Value::Flags { value, .. } => Some(i128::from(*value)),
            _ => None,
        }
    }

    /// Returns the labels of an enumeration's value in the order of the metadata, or the names of
    /// the bits that are set in a bit map.
    pub fn labels(&self) -> impl Iterator<Item = &'a str> {
        let (one, several, flags) = match *self {
            Value::Enum { label, .. } => (Some(label), None, None),
            Value::Several { value, mappings } => (None, Some((value, mappings)), None),
            Value::Flags { value, flags } => (None, None, Some((value, flags))),
            _ => (None, None, None),
        };
        let several = several.into_iter().flat_map(|(value, mappings)| mappings.iter().filter(move |mapping| mapping.holds(value)));
        let flags = flags.into_iter().flat_map(|(value, flags)| flags.set(value));
        one.into_iter().filter(|label| !label.is_empty()).chain(several.map(|mapping| mapping.label.as_str())).chain(flags)
    }

    /// Returns the text, or an enumeration's first label. Bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        match self {
            Value::Str(text) => Some(String::from_utf8_lossy(text)),
            Value::Wide(text) => Some(Cow::Owned(text.decode())),
            Value::Enum { .. } | Value::Several { .. } => self.labels().next().map(Cow::Borrowed),
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
            nested => Value::Nested(Nested(Place::Stored(nested, None))),
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
            nested => Value::Nested(Nested(Place::Owned(nested, None))),
        }
    }
}

impl<'a> Value<'a> {
    /// Returns the value of a field of type `ty`, with the labels that the type defines, also for
    /// nested values.
    #[inline]
    pub(crate) fn of(stored: longpole_ctf::Value<'a>, ty: &'a Type) -> Value<'a> {
        Value::from(stored).named(ty)
    }

    /// Like [`Value::of`], for an owned copy.
    pub(crate) fn kept(value: &'a OwnedValue, ty: Option<&'a Type>) -> Value<'a> {
        let value = Value::from(value);
        ty.map_or(value, |ty| value.named(ty))
    }

    #[inline]
    fn named(self, ty: &'a Type) -> Value<'a> {
        let labelled = |mappings: &'a Mappings| match self.integer() {
            Some(value) if mappings.overlapping().is_empty() => {
                let label = mappings.iter().find(|mapping| mapping.holds(value));
                Value::Enum { value, label: label.map_or("", |mapping| &mapping.label) }
            }
            Some(value) => Value::labelled(value, mappings.overlapping()),
            None => self,
        };
        match (ty, self) {
            (Type::Enum(e), _) => labelled(&e.mappings),
            (Type::VarInt(int), _) if !int.mappings.is_empty() => labelled(&int.mappings),
            (Type::Bits(bits), Value::U64(value)) if !bits.flags.is_empty() => Value::Flags { value, flags: bits },
            (Type::Optional(_), Value::Nothing) => self,
            // An optional that is present is represented by its content.
            (Type::Optional(optional), _) => self.named(optional.ty()),
            (_, Value::Nested(Nested(Place::Stored(stored, _)))) => Value::Nested(Nested(Place::Stored(stored, Some(ty)))),
            (_, Value::Nested(Nested(Place::Owned(kept, _)))) => Value::Nested(Nested(Place::Owned(kept, Some(ty)))),
            _ => self,
        }
    }
}

impl<'a> Value<'a> {
    /// Returns the value of an enumeration whose ranges overlap.
    fn labelled(value: i128, mappings: &'a [Mapping]) -> Value<'a> {
        let holds = |mapping: &Mapping| mapping.holds(value);
        let Some(first) = mappings.iter().position(holds) else { return Value::Enum { value, label: "" } };
        match mappings[first + 1..].iter().any(holds) {
            true => Value::Several { value, mappings: &mappings[first..] },
            false => Value::Enum { value, label: &mappings[first].label },
        }
    }
}

/// Returns true if values of this type, or parts of them, can have labels.
pub(crate) fn has_names(ty: &Type) -> bool {
    match ty {
        Type::Struct(s) => s.fields().iter().any(|field| has_names(&field.ty)),
        Type::Variant(variant) => variant.options().iter().any(|option| has_names(&option.ty)),
        Type::Array(array) => has_names(array.element()),
        Type::Optional(optional) => has_names(optional.ty()),
        ty => ty.has_names(),
    }
}

/// A value with parts: an array, a structure or a variant.
#[derive(Clone, Copy, Debug)]
pub struct Nested<'a>(Place<'a>);

#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    /// A value in the decoder's buffer, with its type if its parts can have labels.
    Stored(longpole_ctf::Value<'a>, Option<&'a Type>),
    /// An owned copy, with its type if its parts can have labels.
    Owned(&'a OwnedValue, Option<&'a Type>),
}

impl<'a> Nested<'a> {
    /// Returns true if the parts have names, as in a structure or the chosen option of a variant.
    pub fn is_named(&self) -> bool {
        match self.0 {
            Place::Stored(longpole_ctf::Value::Compound(compound), _) => compound.kind() != CompoundKind::Array,
            Place::Owned(OwnedValue::Fields(_), _) => true,
            _ => false,
        }
    }

    /// Returns true if the value may contain labels, at any depth.
    #[inline]
    pub fn may_have_labels(&self) -> bool {
        self.ty().is_some()
    }

    /// Calls `visit` for each part in order, with the part's name if it has one. Stops at the first
    /// error.
    pub fn each<E>(&self, mut visit: impl FnMut(Option<&str>, Value<'a>) -> Result<(), E>) -> Result<(), E> {
        let value = |part, ty: Option<&'a Type>| ty.map_or_else(|| Value::from(part), |ty| Value::of(part, ty));
        match self.0 {
            Place::Stored(longpole_ctf::Value::Array(array), ty) => {
                let ty = ty.and_then(|ty| part_of(ty, 0, None));
                array.iter().try_for_each(|part| visit(None, value(part, ty)))
            }
            Place::Stored(longpole_ctf::Value::Compound(compound), ty) => {
                compound.iter().enumerate().try_for_each(|(index, (name, part))| {
                    let ty = ty.and_then(|ty| part_of(ty, index, compound.chosen()));
                    visit(name.map(|name| &**name), value(part, ty))
                })
            }
            Place::Owned(OwnedValue::List(parts), ty) => {
                let ty = ty.and_then(|ty| part_of(ty, 0, None));
                parts.iter().try_for_each(|part| visit(None, Value::kept(part, ty)))
            }
            Place::Owned(OwnedValue::Fields(parts), ty) => parts.iter().enumerate().try_for_each(|(index, (name, part))| {
                let chosen = match ty {
                    Some(Type::Variant(variant)) => {
                        let is = |shown: fn(&str) -> &str| variant.options().iter().position(|option| shown(&option.name) == &**name);
                        is(|name| name).or_else(|| is(display_name))
                    }
                    _ => None,
                };
                visit(Some(name), Value::kept(part, ty.and_then(|ty| part_of(ty, index, chosen))))
            }),
            Place::Stored(..) | Place::Owned(..) => Ok(()),
        }
    }

    fn ty(&self) -> Option<&'a Type> {
        match self.0 {
            Place::Stored(_, ty) | Place::Owned(_, ty) => ty,
        }
    }

    fn to_owned(self) -> OwnedValue {
        match self.0 {
            Place::Stored(value, _) => value.to_owned(),
            Place::Owned(value, _) => value.clone(),
        }
    }
}

/// Returns the type of a part of a value.
fn part_of(ty: &Type, index: usize, chosen: Option<usize>) -> Option<&Type> {
    match ty {
        Type::Array(array) => Some(array.element()),
        Type::Struct(s) => s.fields().get(index).map(|field| &field.ty),
        Type::Variant(variant) => variant.options().get(chosen?).map(|option| &option.ty),
        _ => None,
    }
}

/// An owned copy of a value, for items that are held back.
#[derive(Clone, Debug)]
pub(crate) enum Owned {
    Value(OwnedValue),
    Enum(i128, String),
    /// An enumeration's value with all mappings that hold it.
    Several(i128, Vec<Mapping>),
    Flags(u64, Arc<BitsType>),
    /// A nested value whose parts have labels by this type.
    Parts(OwnedValue, Type),
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
            Value::Several { value, mappings } => {
                return Owned::Several(value, mappings.iter().filter(|mapping| mapping.holds(value)).cloned().collect());
            }
            Value::Flags { value, flags } => return Owned::Flags(value, Arc::new(flags.clone())),
            Value::Nested(nested) => match nested.ty() {
                Some(ty) => return Owned::Parts(nested.to_owned(), ty.clone()),
                None => nested.to_owned(),
            },
        })
    }

    /// Returns the approximate size in bytes.
    pub fn size(&self) -> usize {
        let more = match self {
            Owned::Value(value) | Owned::Parts(value, _) => size_below(value),
            Owned::Enum(_, label) => label.len(),
            Owned::Several(_, mappings) => mappings.iter().map(|mapping| size_of::<Mapping>() + mapping.label.len()).sum(),
            Owned::Flags(..) => 0,
        };
        size_of::<Owned>() + more
    }

    pub fn value(&self) -> Value<'_> {
        match self {
            Owned::Value(value) => value.into(),
            Owned::Enum(value, label) => Value::Enum { value: *value, label },
            Owned::Several(value, mappings) => Value::Several { value: *value, mappings },
            Owned::Flags(value, flags) => Value::Flags { value: *value, flags },
            Owned::Parts(value, ty) => Value::kept(value, Some(ty)),
        }
    }
}

fn size_below(value: &OwnedValue) -> usize {
    match value {
        OwnedValue::Str(bytes) | OwnedValue::Bytes(bytes) => bytes.len(),
        OwnedValue::List(parts) => parts.iter().map(|part| size_of::<OwnedValue>() + size_below(part)).sum(),
        OwnedValue::Fields(parts) => parts.iter().map(|(_, part)| size_of::<OwnedValue>() + size_below(part)).sum(),
        _ => 0,
    }
}

/// The values of a packet's context, decoded once for all of its events. `None` if the packet has
/// no such values.
pub(crate) type SharedValues = Option<Arc<[Owned]>>;

/// The values of the context of an event's packet. All events of the packet refer to the same ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketValues<'a>(Option<&'a Arc<[Owned]>>);

impl<'a> PacketValues<'a> {
    #[inline]
    pub(crate) fn of(values: &'a SharedValues) -> PacketValues<'a> {
        PacketValues(values.as_ref())
    }

    pub(crate) fn share(&self) -> SharedValues {
        self.0.cloned()
    }

    /// Returns true if both refer to the same packet's values.
    pub(crate) fn are(&self, other: &SharedValues) -> bool {
        match (self.0, other) {
            (Some(values), Some(other)) => Arc::ptr_eq(values, other),
            (None, None) => true,
            _ => false,
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        self.0?.get(index).map(Owned::value)
    }

    /// Iterates over the values in the order of [`Class::packet`](crate::Class::packet).
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        self.0.into_iter().flat_map(|values| values.iter()).map(Owned::value)
    }
}
