//! The immutable description of a trace: what its metadata says, freed from the syntax it was said in.
//!
//! A *schema* is what every metadata front end (the text of CTF 1.8, later the JSON of CTF 2) produces and what the plan
//! compiler and the writer consume. It must not know text positions beyond the [`Span`]s that make good errors, and it
//! must not know how bytes are decoded.

use std::sync::Arc;

use crate::clock::Clock;
use crate::error::Span;

/// Order of the bytes, and with it of the bits, of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    Little,
    Big,
}

/// Whether an integer is a character of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    None,
    Utf8,
    Ascii,
}

/// An integer of 1 to 64 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntType {
    /// Size in bits, 1 to 64.
    pub size: u32,
    /// Alignment in bits, a power of two, relative to the begin of the packet.
    pub align: u32,
    pub signed: bool,
    pub byte_order: ByteOrder,
    /// Preferred base for display: 2, 8, 10 or 16.
    pub base: u8,
    pub encoding: Encoding,
    /// Index into [`Schema::clocks`] of the clock whose value this is.
    pub clock: Option<usize>,
}

/// An IEEE 754 number of 32 or 64 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloatType {
    pub size: u32,
    pub align: u32,
    pub byte_order: ByteOrder,
}

/// A label and the values it stands for, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub label: String,
    pub low: i128,
    pub high: i128,
}

/// An integer with names for some of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumType {
    pub int: IntType,
    pub mappings: Vec<Mapping>,
}

impl EnumType {
    /// The labels of `value`, in the order of the metadata; a value may have none or several.
    pub fn labels(&self, value: i128) -> impl Iterator<Item = &str> {
        self.mappings.iter().filter(move |m| m.low <= value && value <= m.high).map(|m| m.label.as_str())
    }
}

/// A field of a structure, or an option of a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The name as the metadata has it. See [`display_name`].
    pub name: String,
    pub ty: Type,
}

/// What is known of a type at once. Named types can be nested in each other line by line, so a small text can describe
/// something huge; sums that are made with the type keep every later question cheap.
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

/// How many elements an array has.
#[derive(Clone, Debug, PartialEq)]
pub enum Length {
    Fixed(u64),
    /// The value of an unsigned integer decoded before.
    Field(FieldPath),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ArrayType {
    element: Type,
    length: Length,
    span: Span,
    measure: Measure,
}

impl ArrayType {
    /// `span` is the place of the length in the metadata.
    pub fn new(element: Type, length: Length, span: Span) -> ArrayType {
        let inner = element.measure();
        let measure = Measure { align: inner.align, depth: inner.depth + 1, weight: inner.weight.saturating_add(1) };
        ArrayType { element, length, span, measure }
    }

    pub fn element(&self) -> &Type {
        &self.element
    }

    pub fn length(&self) -> &Length {
        &self.length
    }

    pub fn span(&self) -> Span {
        self.span
    }
}

/// One of several types, by the label of an enumeration decoded before.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantType {
    tag: FieldPath,
    options: Vec<Member>,
    measure: Measure,
}

impl VariantType {
    pub fn new(tag: FieldPath, options: Vec<Member>) -> VariantType {
        let measure = Measure { align: 1, ..Measure::of(&options) };
        VariantType { tag, options, measure }
    }

    pub fn tag(&self) -> &FieldPath {
        &self.tag
    }

    pub fn options(&self) -> &[Member] {
        &self.options
    }
}

/// The dynamic scopes of CTF, in the order in which they are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    PacketHeader,
    PacketContext,
    EventHeader,
    StreamEventContext,
    EventContext,
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

/// A reference to a field: absolute in a scope, or relative to where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldPath {
    pub scope: Option<Scope>,
    pub names: Vec<String>,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    Int(IntType),
    Float(FloatType),
    Enum(Arc<EnumType>),
    /// Bytes up to a NUL.
    String(Encoding),
    Struct(Arc<StructType>),
    Array(Arc<ArrayType>),
    Variant(Arc<VariantType>),
}

impl Type {
    fn measure(&self) -> Measure {
        let leaf = |align| Measure { align, depth: 1, weight: 1 };
        match self {
            Type::Int(int) => leaf(int.align),
            Type::Float(float) => leaf(float.align),
            Type::Enum(e) => leaf(e.int.align),
            Type::String(_) => leaf(8),
            Type::Struct(s) => s.measure,
            Type::Array(a) => a.measure,
            Type::Variant(v) => v.measure,
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

    /// How many types this one is made of, arrays counted once; saturates.
    pub fn weight(&self) -> u32 {
        self.measure().weight
    }

    /// What to call this type in a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Type::Int(_) => "integer",
            Type::Float(_) => "floating point number",
            Type::Enum(_) => "enumeration",
            Type::String(_) => "string",
            Type::Struct(_) => "structure",
            Type::Array(a) if matches!(a.length, Length::Fixed(_)) => "array",
            Type::Array(_) => "sequence",
            Type::Variant(_) => "variant",
        }
    }

    /// An unsigned decimal integer.
    pub fn unsigned(size: u32, align: u32, byte_order: ByteOrder) -> Type {
        Type::Int(IntType { size, align, signed: false, byte_order, base: 10, encoding: Encoding::None, clock: None })
    }

    /// A signed decimal integer.
    pub fn signed(size: u32, align: u32, byte_order: ByteOrder) -> Type {
        Type::Int(IntType { size, align, signed: true, byte_order, base: 10, encoding: Encoding::None, clock: None })
    }
}

impl StructType {
    /// `min_align` is the least alignment in bits; that of the fields may raise it.
    pub fn new(min_align: u32, fields: Vec<Member>) -> StructType {
        let mut measure = Measure::of(&fields);
        measure.align = measure.align.max(min_align);
        StructType { min_align, fields, measure }
    }

    pub fn fields(&self) -> &[Member] {
        &self.fields
    }

    /// The alignment it declares, in bits.
    pub fn min_align(&self) -> u32 {
        self.min_align
    }

    /// Alignment in bits: the greatest of the declared one and those of the fields.
    pub fn align(&self) -> u32 {
        self.measure.align
    }
}

/// The name to show for a field: LTTng and babeltrace put one underscore before names so that they cannot clash with
/// keywords, and readers take it off again.
pub fn display_name(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    Int(i64),
    Text(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct EventClass {
    pub id: u64,
    pub name: String,
    pub loglevel: Option<i64>,
    pub model_emf_uri: Option<String>,
    pub context: Option<Arc<StructType>>,
    pub payload: Option<Arc<StructType>>,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct StreamClass {
    pub id: u64,
    pub packet_context: Option<Arc<StructType>>,
    pub event_header: Option<Arc<StructType>>,
    pub event_context: Option<Arc<StructType>>,
    pub events: Vec<EventClass>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TraceClass {
    pub uuid: Option<[u8; 16]>,
    pub byte_order: ByteOrder,
    pub packet_header: Option<Arc<StructType>>,
    /// Facts about the traced system, in the order of the metadata.
    pub env: Vec<(String, EnvValue)>,
}

impl TraceClass {
    pub fn env(&self, name: &str) -> Option<&EnvValue> {
        self.env.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    pub fn env_text(&self, name: &str) -> Option<&str> {
        match self.env(name) {
            Some(EnvValue::Text(text)) => Some(text),
            _ => None,
        }
    }
}

/// Everything the metadata says.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    pub trace: TraceClass,
    pub clocks: Vec<Clock>,
    pub streams: Vec<StreamClass>,
}
