//! Values of fields. A value is decoded when a caller asks for it, and borrows from the bytes of
//! the packet where possible.

use std::borrow::Cow;
use std::sync::Arc;

use crate::bits::{align_up, Leaf, LeafKind, Window};
use crate::plan::exec::{Mark, Record};
use crate::plan::{stride, Count, FastKind, Field, Node, Shape};
use crate::types::Encoding;

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// An unsigned integer.
    U64(u64),
    /// An integer with a sign.
    I64(i64),
    /// A floating point number.
    F64(f64),
    /// A boolean.
    Bool(bool),
    /// The absent value of an optional.
    Nothing,
    /// A text without its NUL, as recorded: usually UTF-8, but not guaranteed. See [`Value::text`].
    Str(&'a [u8]),
    /// A text in UTF-16 or UTF-32.
    Wide(WideText<'a>),
    /// An array of unsigned 8-bit integers, or a BLOB.
    Bytes(&'a [u8]),
    /// An array of other numbers.
    Array(Array<'a>),
    /// A structure in an array, an array whose elements are not numbers, or a variant.
    Compound(Compound<'a>),
}

/// A value that owns its data.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnedValue {
    /// An unsigned integer.
    U64(u64),
    /// An integer with a sign.
    I64(i64),
    /// A floating point number.
    F64(f64),
    /// A boolean.
    Bool(bool),
    /// The absent value of an optional.
    Nothing,
    /// A text; UTF-16 and UTF-32 were converted to UTF-8.
    Str(Vec<u8>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// The elements of an array.
    List(Vec<OwnedValue>),
    /// The fields of a structure, with their names.
    Fields(Vec<(Arc<str>, OwnedValue)>),
}

impl OwnedValue {
    /// See [`Value::as_u64`].
    pub fn as_u64(&self) -> Option<u64> {
        self.scalar()?.as_u64()
    }

    /// See [`Value::as_i64`].
    pub fn as_i64(&self) -> Option<i64> {
        self.scalar()?.as_i64()
    }

    /// See [`Value::text`].
    pub fn text(&self) -> Option<Cow<'_, str>> {
        self.scalar()?.text()
    }

    fn scalar(&self) -> Option<Value<'_>> {
        match self {
            OwnedValue::U64(v) => Some(Value::U64(*v)),
            OwnedValue::I64(v) => Some(Value::I64(*v)),
            OwnedValue::F64(v) => Some(Value::F64(*v)),
            OwnedValue::Bool(v) => Some(Value::Bool(*v)),
            OwnedValue::Nothing => Some(Value::Nothing),
            OwnedValue::Str(v) => Some(Value::Str(v)),
            OwnedValue::Bytes(v) => Some(Value::Bytes(v)),
            OwnedValue::List(_) | OwnedValue::Fields(_) => None,
        }
    }
}

impl<'a> Value<'a> {
    /// The value as a non-negative integer; `None` for other values.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::U64(v) => Some(*v),
            Value::I64(v) => u64::try_from(*v).ok(),
            _ => None,
        }
    }

    /// The value as an integer; `None` for other values and for those that do not fit `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::U64(v) => i64::try_from(*v).ok(),
            Value::I64(v) => Some(*v),
            _ => None,
        }
    }

    /// The value as a floating point number; `None` if it is not a number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::U64(v) => Some(*v as f64),
            Value::I64(v) => Some(*v as f64),
            Value::F64(v) => Some(*v),
            _ => None,
        }
    }

    /// The text, with invalid sequences replaced; `None` if the value is not a text.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        match self {
            Value::Str(v) => Some(String::from_utf8_lossy(v)),
            Value::Wide(v) => Some(Cow::Owned(v.decode())),
            _ => None,
        }
    }

    /// A copy of the value that owns its data.
    pub fn to_owned(&self) -> OwnedValue {
        match self {
            Value::U64(v) => OwnedValue::U64(*v),
            Value::I64(v) => OwnedValue::I64(*v),
            Value::F64(v) => OwnedValue::F64(*v),
            Value::Bool(v) => OwnedValue::Bool(*v),
            Value::Nothing => OwnedValue::Nothing,
            Value::Wide(v) => OwnedValue::Str(v.decode().into_bytes()),
            Value::Str(v) => OwnedValue::Str(v.to_vec()),
            Value::Bytes(v) => OwnedValue::Bytes(v.to_vec()),
            Value::Array(a) => OwnedValue::List(a.iter().map(|v| v.to_owned()).collect()),
            Value::Compound(c) => match c.kind() {
                CompoundKind::Array => OwnedValue::List(c.iter().map(|(_, v)| v.to_owned()).collect()),
                _ => OwnedValue::Fields(c.iter().map(|(n, v)| (n.cloned().unwrap_or_else(|| Arc::from("")), v.to_owned())).collect()),
            },
        }
    }
}

/// A text of code units wider than a byte, without its NUL.
#[derive(Clone, Copy, Debug)]
pub struct WideText<'a> {
    bytes: &'a [u8],
    encoding: Encoding,
}

impl<'a> WideText<'a> {
    /// The bytes as recorded.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Encoding of the text.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The text as UTF-8, with invalid characters replaced.
    pub fn decode(&self) -> String {
        let replaced = |c: Option<char>| c.unwrap_or(char::REPLACEMENT_CHARACTER);
        match self.encoding {
            Encoding::Utf16Be | Encoding::Utf16Le => {
                let little = self.encoding == Encoding::Utf16Le;
                let units =
                    self.bytes.as_chunks::<2>().0.iter().map(|b| if little { u16::from_le_bytes(*b) } else { u16::from_be_bytes(*b) });
                char::decode_utf16(units).map(|c| replaced(c.ok())).collect()
            }
            Encoding::Utf32Be | Encoding::Utf32Le => {
                let little = self.encoding == Encoding::Utf32Le;
                let units =
                    self.bytes.as_chunks::<4>().0.iter().map(|b| if little { u32::from_le_bytes(*b) } else { u32::from_be_bytes(*b) });
                units.map(|unit| replaced(char::from_u32(unit))).collect()
            }
            Encoding::None | Encoding::Utf8 | Encoding::Ascii => String::from_utf8_lossy(self.bytes).into_owned(),
        }
    }
}

fn number<'a>(window: Window<'a>, at: u64, leaf: Leaf) -> Value<'a> {
    match leaf.kind {
        LeafKind::Unsigned | LeafKind::Named | LeafKind::Byte => Value::U64(window.raw(at, leaf)),
        LeafKind::Signed => Value::I64(window.raw(at, leaf) as i64),
        LeafKind::Bool => Value::Bool(window.raw(at, leaf) != 0),
        LeafKind::Float => Value::F64(window.float(at, leaf)),
    }
}

fn var_int<'a>(signed: bool, value: u64) -> Value<'a> {
    if signed {
        Value::I64(value as i64)
    } else {
        Value::U64(value)
    }
}

fn text<'a>(bytes: &'a [u8], encoding: Encoding) -> Value<'a> {
    match encoding.unit() {
        1 => Value::Str(bytes),
        _ => Value::Wide(WideText { bytes, encoding }),
    }
}

fn array<'a>(window: Window<'a>, at: u64, len: u64, leaf: Leaf, stride: u64, encoding: Encoding) -> Value<'a> {
    let bytes = leaf.bits == 8 && stride == 8 && at.is_multiple_of(8) && !leaf.reversed;
    match (encoding, encoding.unit()) {
        (Encoding::None, _) if bytes && matches!(leaf.kind, LeafKind::Unsigned | LeafKind::Byte) => Value::Bytes(window.slice(at, len)),
        (Encoding::None, _) => Value::Array(Array { window, at, len, leaf, stride }),
        _ if !bytes => Value::Array(Array { window, at, len, leaf, stride }),
        (_, 1) => Value::Str(window.text(at, len)),
        (_, unit) => {
            let end = at.saturating_add(len.saturating_mul(8));
            let len = window.wide_text_len(at, end, unit).unwrap_or(len);
            text(window.slice(at, len), encoding)
        }
    }
}

/// An array of numbers that are not bytes.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    window: Window<'a>,
    at: u64,
    len: u64,
    leaf: Leaf,
    stride: u64,
}

impl<'a> Array<'a> {
    /// Number of elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The element at `index`.
    pub fn get(&self, index: u64) -> Option<Value<'a>> {
        (index < self.len).then(|| number(self.window, self.at + index * self.stride, self.leaf))
    }

    /// The elements.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let array = *self;
        (0..array.len).map_while(move |i| array.get(i))
    }
}

/// The kind of a compound value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompoundKind {
    /// Named fields.
    Struct,
    /// Elements without names.
    Array,
    /// One named value: the option that was recorded.
    Variant,
}

/// A value that consists of parts.
#[derive(Clone, Copy, Debug)]
pub struct Compound<'a> {
    window: Window<'a>,
    node: &'a Node,
    parts: Parts<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Parts<'a> {
    /// The record of the value and those of all nodes below it.
    Noted(&'a [Record]),
    /// `len` elements or fields at constant distances, from bit `at` of the packet on.
    FixedLayout { at: u64, len: u64 },
}

impl<'a> Compound<'a> {
    /// Structure, variant or array.
    pub fn kind(&self) -> CompoundKind {
        match self.node {
            Node::Array { .. } => CompoundKind::Array,
            Node::Variant { .. } => CompoundKind::Variant,
            _ => CompoundKind::Struct,
        }
    }

    /// Index of the option that was recorded; `None` if this is not a variant.
    pub fn chosen(&self) -> Option<usize> {
        match (self.node, self.parts) {
            (Node::Variant { .. }, Parts::Noted(records)) => records.first().map(|record| record.len as usize),
            _ => None,
        }
    }

    /// The parts in order, with their names if they have any.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&'a Arc<str>>, Value<'a>)> + use<'a> {
        let Compound { window, node, mut parts } = *self;
        let chosen = self.chosen().unwrap_or(0);
        if let Parts::Noted(records) = &mut parts {
            *records = records.get(1..).unwrap_or(&[]);
        }
        let mut index = 0;
        std::iter::from_fn(move || {
            let (name, child) = match node {
                Node::Struct { children, .. } => children.get(index).map(|c| (Some(&c.name), &c.node))?,
                Node::Array { element, .. } => (None, &**element),
                Node::Variant { options, .. } => options.get(chosen).map(|c| (Some(&c.name), &c.node))?,
                _ => return None,
            };
            index += 1;
            let value = match &mut parts {
                Parts::Noted(rest) => {
                    let size = rest.first()?.size as usize;
                    let (records, after) = rest.split_at_checked(size.max(1))?;
                    *rest = after;
                    tree(window, child, records)
                }
                Parts::FixedLayout { at, len } => {
                    *len = len.checked_sub(1)?;
                    let layout = child.fixed_layout()?;
                    let begin = align_up(*at, layout.align);
                    *at = begin + layout.bits;
                    fixed_layout(window, child, begin)
                }
            };
            Some((name, value))
        })
    }
}

/// The value of a node that was walked.
fn tree<'a>(window: Window<'a>, node: &'a Node, records: &'a [Record]) -> Value<'a> {
    let Record { at, len, .. } = records.first().copied().unwrap_or_default();
    match node {
        Node::Number { leaf, .. } => number(window, at, *leaf),
        Node::VarInt(int) => var_int(int.signed, len),
        Node::Text(encoding) => text(window.slice(at, len), *encoding),
        Node::Array { element, text, .. } => elements(window, node, element, *text, at, len, records),
        Node::Struct { .. } | Node::Variant { .. } => Value::Compound(Compound { window, node, parts: Parts::Noted(records) }),
        Node::Optional { .. } if len == 0 => Value::Nothing,
        Node::Optional { inner, .. } => tree(window, inner, records.get(1..).unwrap_or(&[])),
    }
}

/// The value of a node of fixed layout that begins at bit `at`.
fn fixed_layout<'a>(window: Window<'a>, node: &'a Node, at: u64) -> Value<'a> {
    match node {
        Node::Number { leaf, .. } => number(window, at, *leaf),
        Node::Array { element, text, count: Count::Fixed(len), .. } => elements(window, node, element, *text, at, *len, &[]),
        Node::Struct { children, .. } => {
            Value::Compound(Compound { window, node, parts: Parts::FixedLayout { at, len: children.len() as u64 } })
        }
        // All other nodes have no fixed layout.
        _ => Value::Nothing,
    }
}

/// The value of an array. `records` are those of the array if the places of its elements depend on
/// the data.
fn elements<'a>(
    window: Window<'a>,
    node: &'a Node,
    element: &'a Node,
    text: Encoding,
    at: u64,
    len: u64,
    records: &'a [Record],
) -> Value<'a> {
    if let Some((leaf, align)) = element.plain_leaf() {
        return array(window, at, len, leaf, stride(leaf, align), text);
    }
    let parts = match element.fixed_layout() {
        Some(_) => Parts::FixedLayout { at, len },
        None => Parts::Noted(records),
    };
    Value::Compound(Compound { window, node, parts })
}

/// The data from which values are made: the bytes, and the marks and records of the event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located<'a> {
    pub window: Window<'a>,
    pub marks: &'a [Mark],
    pub records: &'a [Record],
}

impl<'a> Located<'a> {
    #[inline]
    pub(crate) fn value(&self, field: &'a Field) -> Value<'a> {
        self.with(field, |value| value)
    }

    /// Passes the value of a field to `f`. `f` is compiled once for each kind of number, so that no
    /// [`Value`] has to be built in memory.
    #[inline(always)]
    pub(crate) fn with<T>(&self, field: &'a Field, f: impl FnOnce(Value<'a>) -> T) -> T {
        let fast = &field.fast;
        let at = self.marks.get(field.mark as usize).map_or(0, |m| m.at);
        if let (FastKind::Text, Shape::Array { count, .. }) = (fast.kind, &field.shape) {
            let at = at + field.offset;
            if at.is_multiple_of(8) {
                return f(Value::Str(self.window.text(at, *count)));
            }
        }
        if let Some(high) = fast.load.high(self.window.bytes, self.window.index(at)) {
            if fast.kind == FastKind::Unsigned {
                return f(Value::U64(fast.load.unsigned(high)));
            }
            if fast.kind == FastKind::Signed {
                return f(Value::I64(fast.load.signed(high)));
            }
        }
        f(self.long_value(field))
    }

    /// The value of a field of a fixed-layout event that begins at bit `at`.
    pub(crate) fn fixed(window: Window<'a>, at: u64, field: &'a Field) -> Value<'a> {
        let at = at + field.offset;
        match &field.shape {
            Shape::Number(leaf) => number(window, at, *leaf),
            Shape::Array { leaf, stride, count, text } => array(window, at, *count, *leaf, *stride, *text),
            // No run contains other shapes.
            Shape::Sequence { .. } | Shape::Text(_) | Shape::VarInt { .. } | Shape::Tree(_) => Value::Nothing,
        }
    }

    /// The value of a field without a fast path. Takes `self` by value, so that the fast path does
    /// not have to keep it in memory.
    #[inline(never)]
    fn long_value(self, field: &'a Field) -> Value<'a> {
        let mark = self.marks.get(field.mark as usize).copied().unwrap_or_default();
        match &field.shape {
            Shape::Number(leaf) => number(self.window, mark.at + field.offset, *leaf),
            Shape::Array { leaf, stride, count, text } => array(self.window, mark.at + field.offset, *count, *leaf, *stride, *text),
            Shape::Sequence { leaf, stride, text } => array(self.window, mark.at, mark.len, *leaf, *stride, *text),
            Shape::Text(encoding) => text(self.window.slice(mark.at, mark.len), *encoding),
            Shape::VarInt { signed } => var_int(*signed, mark.len),
            Shape::Tree(node) => {
                let (start, len) = (mark.at as usize, mark.len as usize);
                let records = self.records.get(start..start.saturating_add(len)).unwrap_or(&[]);
                tree(self.window, node, records)
            }
        }
    }
}

/// The values of the fields of an event, in order.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    pub(crate) located: Located<'a>,
    pub(crate) fields: std::slice::Iter<'a, Field>,
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        self.fields.next().map(|f| self.located.value(f))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fields.size_hint()
    }
}

impl ExactSizeIterator for Values<'_> {}
