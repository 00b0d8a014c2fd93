//! Types of which the metadata of a recording is made. `longpole_ctf::write` turns them into text.

use super::metadata::Uuid;
use crate::clock::Clock;
use longpole_ctf::types::{ArrayType, ByteOrder, Encoding, FieldPath, FloatType, IntType, Length, Member, StructType, Type};
use longpole_ctf::Span;
use std::sync::Arc;

/// Byte order of this host.
pub const ORDER: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

/// An unsigned integer; size and alignment in bits.
pub fn unsigned(size: u32, align: u32) -> Type {
    Type::unsigned(size, align, ORDER)
}

/// A signed integer; size and alignment in bits.
pub fn signed(size: u32, align: u32) -> Type {
    Type::signed(size, align, ORDER)
}

/// An unsigned integer that is shown in hexadecimal; size and alignment in bits.
pub fn hexadecimal(size: u32, align: u32) -> Type {
    Type::Int(IntType { size, align, byte_order: ORDER, base: 16, ..IntType::default() })
}

/// The lowest `size` bits of the trace's only clock.
pub fn stamp(size: u32, align: u32) -> Type {
    Type::Int(IntType { size, align, byte_order: ORDER, base: 10, clock: Some(0), ..IntType::default() })
}

/// A floating point number that is aligned by its size in bits.
pub fn float(size: u32) -> Type {
    Type::Float(FloatType { size, align: size, byte_order: ORDER, ..FloatType::default() })
}

/// A text up to a NUL.
pub fn text() -> Type {
    Type::String(Encoding::Utf8)
}

/// A text in a field of `bytes` bytes.
pub fn characters(bytes: u64) -> Type {
    let byte = IntType { size: 8, align: 8, byte_order: ORDER, base: 10, encoding: Encoding::Utf8, ..IntType::default() };
    array(Type::Int(byte), bytes)
}

/// `length` elements.
pub fn array(element: Type, length: u64) -> Type {
    Type::Array(Arc::new(ArrayType::new(element, Length::Fixed(length), Span::default())))
}

/// A sequence whose length is the value of the preceding field `length`.
pub fn sequence(element: Type, length: &str) -> Type {
    let path = FieldPath { names: vec![length.to_owned()], ..FieldPath::default() };
    Type::Array(Arc::new(ArrayType::new(element, Length::Field(path), Span::default())))
}

/// An empty structure, which aligns the field after it; `align` in bits.
pub fn padding(align: u32) -> Type {
    Type::Struct(Arc::new(StructType::new(align, Vec::new())))
}

pub fn member(name: &str, ty: Type) -> Member {
    Member { name: name.to_owned(), ty }
}

/// A structure with at least this alignment in bits.
pub fn structure<'a>(align: u32, fields: impl IntoIterator<Item = (&'a str, Type)>) -> Option<Arc<StructType>> {
    let fields = fields.into_iter().map(|(name, ty)| member(name, ty)).collect();
    Some(Arc::new(StructType::new(align, fields)))
}

/// The clock of all traces of a recording. It is the same in each, so that readers compare their
/// times directly.
pub fn recording_clock(uuid: &Uuid, clock: &Clock) -> longpole_ctf::Clock {
    longpole_ctf::Clock {
        uuid: Some(uuid.0),
        description: clock.source.name().to_owned(),
        offset_s: clock.offset_s,
        offset: i64::try_from(clock.offset).unwrap_or(i64::MAX),
        absolute: true,
        ..longpole_ctf::Clock::new("longpole", clock.frequency)
    }
}

/// A text without control characters, which may come from a program and end up on a terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
