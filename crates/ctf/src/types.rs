//! The immutable description of a trace: what its metadata says, freed from the syntax it was said in.
//!
//! A *schema* is what every metadata front end (the text of CTF 1.8, the JSON of CTF 2) produces and what the plan
//! compiler and the writer consume. It must not know text positions beyond the [`Span`]s that make good errors, and it
//! must not know how bytes are decoded.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use crate::clock::Clock;
use crate::error::Span;
pub use crate::mappings::Mappings;

/// Order of the bytes, and with it of the bits, of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// The least significant byte first.
    #[default]
    Little,
    /// The most significant byte first.
    Big,
}

/// How a text is stored; for an integer, whether it is a character of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// No text.
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
    /// Bytes of a code unit: also of the NUL that ends a text.
    pub fn unit(self) -> u64 {
        match self {
            Encoding::None | Encoding::Utf8 | Encoding::Ascii => 1,
            Encoding::Utf16Be | Encoding::Utf16Le => 2,
            Encoding::Utf32Be | Encoding::Utf32Le => 4,
        }
    }
}

/// What a field tells the reader of a stream. CTF 2 says so with each field; in CTF 1.8 names and places decide.
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
    /// The lowest bits of the clock's value: in a packet's context at its begin, in an event's header at the event.
    pub const TIME: Roles = Roles(1 << 6);
    /// The lowest bits of the clock's value at the packet's end.
    pub const END_TIME: Roles = Roles(1 << 7);
    /// Counter of discarded events.
    pub const DISCARDED: Roles = Roles(1 << 8);
    /// Sequence number of the packet.
    pub const SEQUENCE: Roles = Roles(1 << 9);
    /// Id of the event class.
    pub const EVENT_ID: Roles = Roles(1 << 10);
    /// The CPU on which the packet was recorded: by name, CTF 2 has no such role.
    pub const CPU: Roles = Roles(1 << 11);
    /// Those that only packets have.
    pub(crate) const OF_PACKETS: Roles = Roles(!(Roles::TIME.0 | Roles::EVENT_ID.0));

    /// At least one of these roles is among them.
    #[inline]
    pub const fn has(self, role: Roles) -> bool {
        self.0 & role.0 != 0
    }

    /// There is no role.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The roles of both.
    #[must_use]
    pub const fn and(self, other: Roles) -> Roles {
        Roles(self.0 | other.0)
    }

    /// Only those that are in `other` as well.
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
    /// Alignment in bits, a power of two, relative to the begin of the packet.
    pub align: u32,
    /// The integer has a sign.
    pub signed: bool,
    /// Byte order.
    pub byte_order: ByteOrder,
    /// Whether the first bit is the least significant one in big-endian data, the most significant one in little-endian data: the other
    /// way round than usual.
    pub reversed: bool,
    /// Preferred base for display: 2, 8, 10 or 16.
    pub base: u8,
    /// Encoding, if the integer is a character.
    pub encoding: Encoding,
    /// Index into [`Schema::clocks`] of the clock whose value this is.
    pub clock: Option<usize>,
    /// What it tells, where the metadata says so itself.
    pub roles: Roles,
}

/// An IEEE 754 number of 16, 32, 64 or 128 bits, or the 80 bits of x87.
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

/// Bits that are no number: all of them as one word, of which ranges may have names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitsType {
    /// Unsigned.
    pub int: IntType,
    /// Names of ranges of bits, counted from the least significant one; empty for a plain array of bits.
    pub flags: Vec<Mapping>,
}

impl BitsType {
    /// The names of which at least one bit is set, each once.
    pub fn set(&self, value: u64) -> impl Iterator<Item = &str> {
        let mut last = "";
        self.flags.iter().filter_map(move |flag| {
            (value & flag.mask() != 0 && last != flag.label).then(|| {
                last = &flag.label;
                last
            })
        })
    }
}

/// An integer of as many bytes as its value needs (LEB128), up to 64 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VarIntType {
    /// The integer has a sign.
    pub signed: bool,
    /// Preferred base for display: 2, 8, 10 or 16.
    pub base: u8,
    /// Names of values.
    pub mappings: Mappings,
    /// What the field means, where the metadata says so.
    pub roles: Roles,
}

/// A label and the values it stands for, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The label.
    pub label: String,
    /// Least value.
    pub low: i128,
    /// Greatest value.
    pub high: i128,
}

impl Mapping {
    /// The value is in the range.
    #[inline]
    pub fn holds(&self, value: i128) -> bool {
        self.low <= value && value <= self.high
    }

    /// Of a flag, whose range is one of bits: these bits.
    pub fn mask(&self) -> u64 {
        let (low, high) = (self.low.clamp(0, 64) as u32, self.high.clamp(-1, 63) as i64);
        let bits = (high + 1 - i64::from(low)).clamp(0, 64) as u32;
        u64::MAX.checked_shr(64 - bits).unwrap_or(0).checked_shl(low).unwrap_or(0)
    }
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
    /// The name as the metadata has it. See [`display_name`].
    pub name: String,
    /// Type of the member.
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
    /// `span` is the place of the length in the metadata.
    pub fn new(element: Type, length: Length, span: Span) -> ArrayType {
        let inner = element.measure();
        let measure = Measure { align: inner.align, depth: inner.depth + 1, weight: inner.weight.saturating_add(1) };
        ArrayType { element, length, span, measure }
    }

    /// With at least this alignment, in bits.
    #[must_use]
    pub fn aligned(mut self, min_align: u32) -> ArrayType {
        self.measure.align = self.measure.align.max(min_align);
        self
    }

    /// Alignment of its begin, in bits.
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

/// A text of so many bytes, up to its NUL if it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct TextType {
    /// In bytes.
    pub length: Length,
    /// Encoding of the text.
    pub encoding: Encoding,
    /// Place of the length in the metadata.
    pub span: Span,
}

/// Bytes that are opaque here.
#[derive(Clone, Debug, PartialEq)]
pub struct BlobType {
    /// Length in bytes.
    pub length: Length,
    /// IANA media type of the bytes.
    pub media_type: String,
    /// What the field means, where the metadata says so.
    pub roles: Roles,
    /// Place of the length in the metadata.
    pub span: Span,
}

/// Values from the first to the second, both included.
pub type Ranges = Vec<(i128, i128)>;

/// A type that is there or not, by a boolean or an integer decoded before.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionalType {
    selector: FieldPath,
    ranges: Option<Ranges>,
    ty: Type,
    measure: Measure,
}

impl OptionalType {
    /// `ranges` are the values with which it is there; none if the selector is a boolean.
    pub fn new(selector: FieldPath, ranges: Option<Ranges>, ty: Type) -> OptionalType {
        let inner = ty.measure();
        let measure = Measure { align: 1, depth: inner.depth + 1, weight: inner.weight.saturating_add(1) };
        OptionalType { selector, ranges, ty, measure }
    }

    /// The field that decides whether there is a value.
    pub fn selector(&self) -> &FieldPath {
        &self.selector
    }

    /// Values of the selector with which there is one; `None` if the selector is a boolean.
    pub fn ranges(&self) -> Option<&Ranges> {
        self.ranges.as_ref()
    }

    /// Type of the value.
    pub fn ty(&self) -> &Type {
        &self.ty
    }
}

/// One of several types, by an integer decoded before.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantType {
    tag: FieldPath,
    options: Vec<Member>,
    ranges: Option<Vec<Ranges>>,
    measure: Measure,
}

impl VariantType {
    /// A variant whose options are chosen by the labels of its tag.
    pub fn new(tag: FieldPath, options: Vec<Member>) -> VariantType {
        let measure = Measure { align: 1, ..Measure::of(&options) };
        VariantType { tag, options, ranges: None, measure }
    }

    /// Whose options are chosen by values of the tag, not by its labels: one list for each option.
    #[must_use]
    pub fn by_ranges(mut self, ranges: Vec<Ranges>) -> VariantType {
        self.ranges = Some(ranges);
        self
    }

    /// Values of the tag for each option; `None` if labels choose.
    pub fn ranges(&self) -> Option<&[Ranges]> {
        self.ranges.as_deref()
    }

    /// The field that chooses the option.
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

/// A reference to a field: absolute in a scope, or relative to where it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldPath {
    /// Scope of an absolute path; `None`: the path is relative.
    pub scope: Option<Scope>,
    /// Of a relative path, from how many structures outwards it starts, 0 being the one it stands in; if not said, from the nearest in
    /// which it leads to something.
    pub up: Option<usize>,
    /// Names from there to the field.
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
    /// An integer that is true where it is not 0.
    Bool(IntType),
    /// Bits that are no number.
    Bits(Arc<BitsType>),
    /// An integer of variable length.
    VarInt(Arc<VarIntType>),
    /// Bytes up to a NUL.
    String(Encoding),
    /// A text of a stated length.
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
    /// Whether values of this type itself have names.
    pub fn has_names(&self) -> bool {
        match self {
            Type::Enum(_) => true,
            Type::VarInt(int) => !int.mappings.is_empty(),
            Type::Bits(bits) => !bits.flags.is_empty(),
            _ => false,
        }
    }

    /// Whether it, or anything in it, has one of these roles.
    pub(crate) fn tells(&self, roles: Roles) -> bool {
        match self {
            Type::Int(int) => int.roles.has(roles),
            Type::Enum(labelled) => labelled.int.roles.has(roles),
            Type::VarInt(int) => int.roles.has(roles),
            Type::Blob(blob) => blob.roles.has(roles),
            Type::Struct(inner) => inner.tells(roles),
            Type::Variant(variant) => variant.options().iter().any(|option| option.ty.tells(roles)),
            Type::Optional(optional) => optional.ty.tells(roles),
            Type::Array(array) => array.element().tells(roles),
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
    /// `min_align` is the least alignment in bits; that of the fields may raise it.
    pub fn new(min_align: u32, fields: Vec<Member>) -> StructType {
        let mut measure = Measure::of(&fields);
        measure.align = measure.align.max(min_align);
        StructType { min_align, fields, measure }
    }

    /// The fields in their order.
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

    /// Whether a field, or anything in one, has one of these roles.
    pub(crate) fn tells(&self, roles: Roles) -> bool {
        self.fields.iter().any(|field| field.ty.tells(roles))
    }

    /// Whether by its roles a field tells a value of the stream's clock.
    pub(crate) fn tells_time(&self) -> bool {
        self.tells(Roles::TIME.and(Roles::END_TIME))
    }
}

/// The name to show for a field: LTTng and babeltrace put one underscore before names so that they cannot clash with
/// keywords, and readers take it off again.
pub fn display_name(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

/// The names to show for all fields of a structure or options of a variant of CTF 1.8: an underscore stays where another one is shown by the
/// name without it, as `len` beside `_len`.
pub(crate) fn display_names(members: &[Member]) -> Vec<&str> {
    let names = || members.iter().map(|member| member.name.as_str());
    let all: HashSet<&str> = names().filter(|name| name.starts_with('_')).collect();
    let mut kept = HashSet::new();
    for plain in names().filter(|name| !all.is_empty() && !name.starts_with('_')) {
        let mut longer = format!("_{plain}");
        while let Some(name) = all.get(longer.as_str()) {
            kept.insert(*name);
            longer.insert(0, '_');
        }
    }
    names().map(|name| if kept.contains(name) { name } else { display_name(name) }).collect()
}

/// Dots of one name at which it is looked for a structure of the name before.
const MOST_DOTS: usize = 64;

/// The names to show for all fields of a structure of CTF 2. Fields of structures are flat, with a dot: the dots of a field `a.b` beside a
/// structure `a`, which may have a field `b`, are `\.`.
pub(crate) fn undotted_names(fields: &[Member]) -> Vec<Cow<'_, str>> {
    let structures: HashSet<&str> = fields.iter().filter(|f| matches!(f.ty, Type::Struct(_))).map(|f| f.name.as_str()).collect();
    let context = |name: &str| name.match_indices('.').take(MOST_DOTS).any(|(dot, _)| structures.contains(&name[..dot]));
    let names = fields.iter().map(|field| field.name.as_str());
    let shown = names.map(|name| match !structures.is_empty() && context(name) {
        true => Cow::Owned(name.replace('.', "\\.")),
        false => Cow::Borrowed(name),
    });
    shown.collect()
}

/// A value of the trace's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// An integer.
    Int(i64),
    /// A text.
    Text(String),
}

impl EnvValue {
    /// Its digits where it is too large.
    pub(crate) fn integer(value: i128) -> EnvValue {
        i64::try_from(value).map_or_else(|_| EnvValue::Text(value.to_string()), EnvValue::Int)
    }
}

/// The events of one kind: their id, name and fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventClass {
    /// Id in the events' headers.
    pub id: u64,
    /// Empty where CTF 2 gives none.
    pub name: String,
    /// Identity of the class, in CTF 2.
    pub identity: Identity,
    /// Log level.
    pub loglevel: Option<i64>,
    /// URI of the model (EMF).
    pub model_emf_uri: Option<String>,
    /// What CTF 2 attaches to it, as JSON.
    pub attributes: Option<String>,
    /// Context of its events.
    pub context: Option<Arc<StructType>>,
    /// Fields of its events.
    pub payload: Option<Arc<StructType>>,
}

/// What makes a CTF 2 name unique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Namespace of the name.
    pub namespace: Option<String>,
    /// Unique id in the namespace.
    pub uid: Option<String>,
}

/// The streams of one kind: their headers, contexts and event classes.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct StreamClass {
    /// Id in the packets' headers.
    pub id: u64,
    /// Name of the class.
    pub name: Option<String>,
    /// Identity of the class, in CTF 2.
    pub identity: Identity,
    /// Index of the clock of its timestamps, where the metadata says so itself.
    pub clock: Option<usize>,
    /// Type of the packets' contexts.
    pub packet_context: Option<Arc<StructType>>,
    /// Type of the events' headers.
    pub event_header: Option<Arc<StructType>>,
    /// Type of the context that all its events have.
    pub event_context: Option<Arc<StructType>>,
    /// Its event classes.
    pub events: Vec<EventClass>,
}

/// What all streams of the trace share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceClass {
    /// Of the metadata and its streams.
    pub uuid: Option<[u8; 16]>,
    /// Name of the trace.
    pub name: Option<String>,
    /// Identity of the trace, in CTF 2.
    pub identity: Identity,
    /// Byte order of fields that state none.
    pub byte_order: ByteOrder,
    /// Type of the packets' headers.
    pub packet_header: Option<Arc<StructType>>,
    /// Facts about the traced system, in the order of the metadata.
    pub env: Vec<(String, EnvValue)>,
}

impl TraceClass {
    /// A value of the environment.
    pub fn env(&self, name: &str) -> Option<&EnvValue> {
        self.env.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// A text of the environment.
    pub fn env_text(&self, name: &str) -> Option<&str> {
        match self.env(name) {
            Some(EnvValue::Text(text)) => Some(text),
            _ => None,
        }
    }
}

/// Which metadata language, and with it which rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Names decide what fields of packets and event headers tell, and hide one leading underscore.
    #[default]
    V1_8,
    /// Roles do, and names are as they are.
    V2,
}

/// Everything the metadata says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// Version of the format.
    pub version: Version,
    /// What all streams share.
    pub trace: TraceClass,
    /// The clocks.
    pub clocks: Vec<Clock>,
    /// The stream classes.
    pub streams: Vec<StreamClass>,
}
