//! The immutable description of a trace: the content of its metadata, independent of the metadata's
//! syntax.
//!
//! A [`Schema`] is what every metadata parser (the TSDL text of CTF 1.8, the JSON of CTF 2)
//! produces, and what the plan compiler and the writer consume. It holds no positions in the text
//! except the [`Span`]s that error messages need, and it does not know how bytes are decoded.

mod mappings;
mod schema;
mod shown_names;
pub(crate) mod type_limits;

pub use crate::byte_order::ByteOrder;
pub use crate::identity::Identity;
pub use mappings::{Mapping, Mappings};
pub use schema::{EnvValue, EventClass, Schema, StreamClass, TraceClass, Version};
pub use shown_names::display_name;
pub(crate) use shown_names::{display_names, undotted_names};

use crate::error::Span;
use std::sync::Arc;

/// Character encoding of a text. An integer has one too: its encoding if it is a character, else
/// [`Encoding::None`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// The field is not a text.
    #[default]
    None,
    /// UTF-8.
    Utf8,
    /// ASCII.
    Ascii,
    /// UTF-16, the most significant byte first.
    Utf16Be,
    /// UTF-16, the least significant byte first.
    Utf16Le,
    /// UTF-32, the most significant byte first.
    Utf32Be,
    /// UTF-32, the least significant byte first.
    Utf32Le,
}

impl Encoding {
    /// Size of a code unit in bytes, which is also the size of the NUL that ends a text.
    pub fn unit(self) -> u64 {
        match self {
            Encoding::None | Encoding::Utf8 | Encoding::Ascii => 1,
            Encoding::Utf16Be | Encoding::Utf16Le => 2,
            Encoding::Utf32Be | Encoding::Utf32Le => 4,
        }
    }
}

/// The meanings of a field for the decoder, a set. In CTF 2 the metadata states them with each
/// field; in CTF 1.8 the field's name and scope decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Roles(u16);

impl Roles {
    /// No role.
    pub const NONE: Roles = Roles(0);
    /// Magic number of a packet.
    pub const MAGIC: Roles = Roles(1);
    /// UUID of the trace.
    pub const UUID: Roles = Roles(1 << 1);
    /// Id of the stream class.
    pub const STREAM_ID: Roles = Roles(1 << 2);
    /// Id of the stream within its class.
    pub const STREAM_INSTANCE: Roles = Roles(1 << 3);
    /// Size of the packet in bits.
    pub const PACKET_SIZE: Roles = Roles(1 << 4);
    /// Size of the packet's content in bits.
    pub const CONTENT_SIZE: Roles = Roles(1 << 5);
    /// The lowest bits of the clock: in the context of a packet at its start, in the header of an
    /// event at the event.
    pub const TIME: Roles = Roles(1 << 6);
    /// The lowest bits of the clock at the end of the packet.
    pub const END_TIME: Roles = Roles(1 << 7);
    /// Counter of discarded events.
    pub const DISCARDED: Roles = Roles(1 << 8);
    /// Sequence number of the packet.
    pub const SEQUENCE: Roles = Roles(1 << 9);
    /// Id of the event class.
    pub const EVENT_ID: Roles = Roles(1 << 10);
    /// The CPU on which the packet was recorded. Derived from the name of the field, because CTF 2
    /// defines no such role.
    pub const CPU: Roles = Roles(1 << 11);
    /// All roles that only fields of packets have.
    pub(crate) const OF_PACKETS: Roles = Roles(!(Roles::TIME.0 | Roles::EVENT_ID.0));

    /// Returns true if the two sets have at least one role in common.
    #[inline]
    pub const fn has(self, role: Roles) -> bool {
        self.0 & role.0 != 0
    }

    /// Returns true if the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The union of both sets.
    #[must_use]
    pub const fn and(self, other: Roles) -> Roles {
        Roles(self.0 | other.0)
    }

    /// The intersection of both sets.
    #[must_use]
    pub const fn within(self, other: Roles) -> Roles {
        Roles(self.0 & other.0)
    }
}

/// An integer of 1 to 64 bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntType {
    /// Size in bits, 1 to 64.
    pub size: u32,
    /// Alignment in bits, a power of two, relative to the start of the packet.
    pub align: u32,
    /// True if the integer has a sign.
    pub signed: bool,
    /// Byte order.
    pub byte_order: ByteOrder,
    /// True if the bits are numbered against the usual order: the least significant bit comes
    /// first in big-endian data, or the most significant bit comes first in little-endian data.
    pub reversed: bool,
    /// Preferred base for display: 2, 8, 10 or 16.
    pub base: u8,
    /// Encoding, if the integer is a character.
    pub encoding: Encoding,
    /// Index into [`Schema::clocks`] of the clock whose value this integer is.
    pub clock: Option<usize>,
    /// Roles, where the metadata states them.
    pub roles: Roles,
}

/// An IEEE 754 number of 16, 32, 64 or 128 bits, or an x87 number of 80 bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FloatType {
    /// Size in bits.
    pub size: u32,
    /// Alignment in bits.
    pub align: u32,
    /// Byte order.
    pub byte_order: ByteOrder,
    /// See [`IntType::reversed`].
    pub reversed: bool,
}

/// Bits that are not a number. All of them are one word, whose ranges of bits may have names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitsType {
    /// The word, unsigned.
    pub int: IntType,
    /// Names of ranges of bits, counted from the least significant one; empty for a plain array of
    /// bits.
    pub flags: Vec<Mapping>,
}

impl BitsType {
    /// The names of the ranges in which at least one bit is set, each once.
    pub fn set(&self, value: u64) -> impl Iterator<Item = &str> {
        let mut last = "";
        let names = self.flags.iter().filter(move |flag| value & flag.mask() != 0).map(|flag| flag.label.as_str());
        names.filter(move |name| std::mem::replace(&mut last, *name) != *name)
    }
}

/// An integer of as many bytes as its value needs (LEB128), up to 64 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VarIntType {
    /// True if the integer has a sign.
    pub signed: bool,
    /// Preferred base for display: 2, 8, 10 or 16.
    pub base: u8,
    /// Names of values.
    pub mappings: Mappings,
    /// Roles, where the metadata states them.
    pub roles: Roles,
}

/// An integer with names for some of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumType {
    /// The integer.
    pub int: IntType,
    /// Names of its values.
    pub mappings: Mappings,
}

/// A field of a structure, or an option of a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The name as in the metadata. See [`display_name`] for the name to show.
    pub name: String,
    /// Type of the member.
    pub ty: Type,
}

/// Properties of a type that are computed when it is made. Named types can be nested in each other
/// line by line, so a small text can describe a huge type; sums computed at construction keep every
/// later query cheap.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measure {
    align: u32,
    depth: u32,
    weight: u32,
}

impl Measure {
    fn of(members: &[Member]) -> Measure {
        members.iter().fold(Measure { align: 1, depth: 1, weight: 1 }, |m, member| {
            let inner = member.ty.measure();
            Measure { align: m.align.max(inner.align), depth: m.depth.max(inner.depth + 1), weight: m.weight.saturating_add(inner.weight) }
        })
    }
}

/// Fields one after another.
#[derive(Clone, Debug, PartialEq)]
pub struct StructType {
    min_align: u32,
    fields: Vec<Member>,
    measure: Measure,
}

/// Source of the number of elements of an array.
#[derive(Clone, Debug, PartialEq)]
pub enum Length {
    /// A number that the metadata states.
    Fixed(u64),
    /// The value of an unsigned integer decoded before.
    Field(FieldPath),
}

/// Elements of one type, one after another.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayType {
    element: Type,
    length: Length,
    span: Span,
    measure: Measure,
}

impl ArrayType {
    /// Creates an array; `span` is the place of the length in the metadata.
    pub fn new(element: Type, length: Length, span: Span) -> ArrayType {
        let inner = element.measure();
        let measure = Measure { align: inner.align, depth: inner.depth + 1, weight: inner.weight.saturating_add(1) };
        ArrayType { element, length, span, measure }
    }

    /// The same array with at least this alignment, in bits.
    #[must_use]
    pub fn aligned(mut self, min_align: u32) -> ArrayType {
        self.measure.align = self.measure.align.max(min_align);
        self
    }

    /// Alignment of the start, in bits.
    pub fn align(&self) -> u32 {
        self.measure.align
    }

    /// Type of the elements.
    pub fn element(&self) -> &Type {
        &self.element
    }

    /// Number of elements.
    pub fn length(&self) -> &Length {
        &self.length
    }

    /// Place of the length in the metadata.
    pub fn span(&self) -> Span {
        self.span
    }
}

/// A text in a field of fixed or computed length in bytes; it ends at its NUL if it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct TextType {
    /// Length in bytes.
    pub length: Length,
    /// Encoding of the text.
    pub encoding: Encoding,
    /// Place of the length in the metadata.
    pub span: Span,
}

/// Bytes that this crate does not interpret.
#[derive(Clone, Debug, PartialEq)]
pub struct BlobType {
    /// Length in bytes.
    pub length: Length,
    /// IANA media type of the bytes.
    pub media_type: String,
    /// Roles, where the metadata states them.
    pub roles: Roles,
    /// Place of the length in the metadata.
    pub span: Span,
}

/// Ranges of values, each from the first to the second, both included.
pub type Ranges = Vec<(i128, i128)>;

/// A value that is present or absent, depending on a boolean or an integer decoded before.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionalType {
    selector: FieldPath,
    ranges: Option<Ranges>,
    ty: Type,
    measure: Measure,
}

impl OptionalType {
    /// Creates an optional. `ranges` are the values of the selector with which the value is
    /// present; `None` if the selector is a boolean.
    pub fn new(selector: FieldPath, ranges: Option<Ranges>, ty: Type) -> OptionalType {
        let inner = ty.measure();
        let measure = Measure { align: 1, depth: inner.depth + 1, weight: inner.weight.saturating_add(1) };
        OptionalType { selector, ranges, ty, measure }
    }

    /// The field that decides if the value is present.
    pub fn selector(&self) -> &FieldPath {
        &self.selector
    }

    /// The values of the selector with which the value is present; `None` if the selector is a
    /// boolean.
    pub fn ranges(&self) -> Option<&Ranges> {
        self.ranges.as_ref()
    }

    /// Type of the value.
    pub fn ty(&self) -> &Type {
        &self.ty
    }
}

/// One of several types, selected by an integer decoded before.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantType {
    tag: FieldPath,
    options: Vec<Member>,
    ranges: Option<Vec<Ranges>>,
    measure: Measure,
}

impl VariantType {
    /// Creates a variant whose options are selected by the labels of its tag.
    pub fn new(tag: FieldPath, options: Vec<Member>) -> VariantType {
        let measure = Measure { align: 1, ..Measure::of(&options) };
        VariantType { tag, options, ranges: None, measure }
    }

    /// The same variant with options that are selected by values of the tag instead of its labels:
    /// one list of ranges for each option.
    #[must_use]
    pub fn by_ranges(mut self, ranges: Vec<Ranges>) -> VariantType {
        self.ranges = Some(ranges);
        self
    }

    /// Values of the tag for each option; `None` if the labels select.
    pub fn ranges(&self) -> Option<&[Ranges]> {
        self.ranges.as_deref()
    }

    /// The field that selects the option.
    pub fn tag(&self) -> &FieldPath {
        &self.tag
    }

    /// The options.
    pub fn options(&self) -> &[Member] {
        &self.options
    }
}

/// The dynamic scopes of CTF, in the order in which they are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Header of a packet.
    PacketHeader,
    /// Context of a packet.
    PacketContext,
    /// Header of an event.
    EventHeader,
    /// Context that all events of a stream class have.
    StreamEventContext,
    /// Context of an event class.
    EventContext,
    /// Fields of an event.
    EventFields,
}

impl Scope {
    /// The path that names this scope in metadata text.
    pub fn path(self) -> &'static str {
        match self {
            Scope::PacketHeader => "trace.packet.header",
            Scope::PacketContext => "stream.packet.context",
            Scope::EventHeader => "stream.event.header",
            Scope::StreamEventContext => "stream.event.context",
            Scope::EventContext => "event.context",
            Scope::EventFields => "event.fields",
        }
    }
}

/// A reference to a field: absolute in a scope, or relative to the place of the reference.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldPath {
    /// Scope of an absolute path; `None` if the path is relative.
    pub scope: Option<Scope>,
    /// Number of structures outwards at which a relative path starts; 0 is the structure that
    /// contains the reference. `None` if the metadata does not state it: then the path starts in
    /// the nearest structure in which it leads to a field.
    pub up: Option<usize>,
    /// Names from the start to the field.
    pub names: Vec<String>,
    /// Place of the path in the metadata.
    pub span: Span,
}

/// Type of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// An integer.
    Int(IntType),
    /// A floating point number.
    Float(FloatType),
    /// An integer with named values.
    Enum(Arc<EnumType>),
    /// An integer that is true if it is not 0.
    Bool(IntType),
    /// Bits that are not a number.
    Bits(Arc<BitsType>),
    /// An integer of variable length.
    VarInt(Arc<VarIntType>),
    /// Bytes up to a NUL.
    String(Encoding),
    /// A text in a field whose length is stated or computed.
    Text(Arc<TextType>),
    /// Opaque bytes.
    Blob(Arc<BlobType>),
    /// Fields one after another.
    Struct(Arc<StructType>),
    /// Elements of one type.
    Array(Arc<ArrayType>),
    /// One of several types.
    Variant(Arc<VariantType>),
    /// A value that may be absent.
    Optional(Arc<OptionalType>),
}

impl Type {
    /// Returns true if values of this type can have names.
    pub fn has_names(&self) -> bool {
        match self {
            Type::Enum(_) => true,
            Type::VarInt(int) => !int.mappings.is_empty(),
            Type::Bits(bits) => !bits.flags.is_empty(),
            _ => false,
        }
    }

    /// Returns true if this type, or a type in it, has one of these roles.
    pub(crate) fn has_roles(&self, roles: Roles) -> bool {
        match self {
            Type::Int(int) => int.roles.has(roles),
            Type::Enum(labelled) => labelled.int.roles.has(roles),
            Type::VarInt(int) => int.roles.has(roles),
            Type::Blob(blob) => blob.roles.has(roles),
            Type::Struct(inner) => inner.has_roles(roles),
            Type::Variant(variant) => variant.options().iter().any(|option| option.ty.has_roles(roles)),
            Type::Optional(optional) => optional.ty.has_roles(roles),
            Type::Array(array) => array.element().has_roles(roles),
            _ => false,
        }
    }

    fn measure(&self) -> Measure {
        let leaf = |align| Measure { align, depth: 1, weight: 1 };
        match self {
            Type::Int(int) | Type::Bool(int) => leaf(int.align),
            Type::Float(float) => leaf(float.align),
            Type::Enum(e) => leaf(e.int.align),
            Type::Bits(bits) => leaf(bits.int.align),
            Type::VarInt(_) | Type::String(_) | Type::Text(_) | Type::Blob(_) => leaf(8),
            Type::Struct(s) => s.measure,
            Type::Array(a) => a.measure,
            Type::Variant(v) => v.measure,
            Type::Optional(o) => o.measure,
        }
    }

    /// Alignment in bits, by the rules of CTF 1.8 section 4.
    pub fn align(&self) -> u32 {
        self.measure().align
    }

    /// Levels of nesting, 1 for a leaf.
    pub fn depth(&self) -> u32 {
        self.measure().depth
    }

    /// Number of types in this one, itself included; the element of an array counts once.
    /// Saturates.
    pub fn weight(&self) -> u32 {
        self.measure().weight
    }

    /// The word for this type in a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Type::Int(_) => "integer",
            Type::Float(_) => "floating point number",
            Type::Enum(_) => "enumeration",
            Type::Bool(_) => "boolean",
            Type::Bits(bits) if bits.flags.is_empty() => "bit array",
            Type::Bits(_) => "bit map",
            Type::VarInt(_) => "variable-length integer",
            Type::String(_) | Type::Text(_) => "string",
            Type::Blob(_) => "BLOB",
            Type::Struct(_) => "structure",
            Type::Array(a) if matches!(a.length, Length::Fixed(_)) => "array",
            Type::Array(_) => "sequence",
            Type::Variant(_) => "variant",
            Type::Optional(_) => "optional",
        }
    }

    /// An unsigned decimal integer.
    pub fn unsigned(size: u32, align: u32, byte_order: ByteOrder) -> Type {
        Type::Int(IntType { size, align, byte_order, base: 10, ..IntType::default() })
    }

    /// A signed decimal integer.
    pub fn signed(size: u32, align: u32, byte_order: ByteOrder) -> Type {
        Type::Int(IntType { size, align, signed: true, byte_order, base: 10, ..IntType::default() })
    }
}

impl StructType {
    /// Creates a structure. `min_align` is the least alignment in bits; the fields may raise it.
    pub fn new(min_align: u32, fields: Vec<Member>) -> StructType {
        let mut measure = Measure::of(&fields);
        measure.align = measure.align.max(min_align);
        StructType { min_align, fields, measure }
    }

    /// The fields, in order.
    pub fn fields(&self) -> &[Member] {
        &self.fields
    }

    /// The declared alignment, in bits.
    pub fn min_align(&self) -> u32 {
        self.min_align
    }

    /// Alignment in bits: the maximum of the declared one and those of the fields.
    pub fn align(&self) -> u32 {
        self.measure.align
    }

    /// Returns true if a field, or a type in one, has one of these roles.
    pub(crate) fn has_roles(&self, roles: Roles) -> bool {
        self.fields.iter().any(|field| field.ty.has_roles(roles))
    }

    /// Returns true if a field has a role for a value of the stream's clock.
    pub(crate) fn has_time(&self) -> bool {
        self.has_roles(Roles::TIME.and(Roles::END_TIME))
    }
}
