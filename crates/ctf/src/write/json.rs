//! Schema to text: the writer of CTF 2 metadata.
//!
//! Every function yields a fragment with the record separator before it and a line end behind it;
//! for very deep types the fragments of their aliases come first. So a recorder may write the first
//! fragments at its start and append an event record class whenever a new one appears. Types are
//! written in full where they are used. A schema of CTF 1.8 must be converted before
//! ([`to_ctf2`](super::to_ctf2)), because CTF 1.8 expresses roles by names and resolves references
//! differently.

use std::collections::HashMap;
use std::fmt;

use crate::clock::{Clock, Origin};
use crate::metadata::json::RECORD_SEPARATOR;
use crate::types::*;

/// The attribute namespace in which LTTng stores the log level and URI of an event.
const LTTNG: &str = "lttng.org,2009";

/// The metadata text of a whole schema.
pub fn metadata(schema: &Schema) -> String {
    let mut out = preamble(schema);
    for index in 0..schema.clocks.len() {
        out.push_str(&clock(schema, index));
    }
    out.push_str(&trace(schema));
    for stream in &schema.streams {
        out.push_str(&self::stream(schema, stream));
    }
    for stream in &schema.streams {
        for event in &stream.events {
            out.push_str(&self::event(stream.id, event));
        }
    }
    out
}

/// The preamble fragment, which must be the first one.
pub fn preamble(schema: &Schema) -> String {
    let mut out = Object::of("preamble");
    out.int("version", 2);
    out.opt("uuid", schema.trace.uuid.map(|uuid| Json::List(uuid.iter().map(|byte| Json::Int(i128::from(*byte))).collect())));
    out.fragment()
}

/// The fragment of the clock class with this index.
pub fn clock(schema: &Schema, index: usize) -> String {
    let Some(clock) = schema.clocks.get(index) else { return String::new() };
    let id = clock_id(schema, index);
    let mut out = Object::of("clock-class");
    if id != clock.name {
        out.text("name", &clock.name);
    }
    out.text("id", &id);
    let uid = clock.uuid.filter(|_| clock.identity.uid.is_none()).map(|uuid| super::tsdl::uuid(&uuid));
    out.identity(&Identity { uid: clock.identity.uid.clone().or(uid), ..clock.identity.clone() });
    if !clock.description.is_empty() {
        out.text("description", &clock.description);
    }
    out.int("frequency", clock.frequency);
    if clock.precision != 0 {
        out.int("precision", clock.precision);
    }
    out.opt("accuracy", clock.accuracy.map(|cycles| Json::Int(i128::from(cycles))));
    let (seconds, cycles) = clock.split_offset();
    if (seconds, cycles) != (0, 0) {
        let mut offset = Object::default();
        offset.int("seconds", seconds);
        offset.int("cycles", cycles);
        out.put("offset-from-origin", offset.into());
    }
    match &clock.origin {
        Origin::UnixEpoch => out.text("origin", "unix-epoch"),
        Origin::Custom { namespace, name, uid } => {
            let mut origin = Object::default();
            origin.opt_text("namespace", namespace.as_deref());
            origin.text("name", name);
            origin.text("uid", uid);
            out.put("origin", origin.into());
        }
        Origin::Unknown if clock.absolute => out.text("origin", "unix-epoch"),
        Origin::Unknown => {}
    }
    out.fragment()
}

/// The trace class fragment: environment and packet header.
pub fn trace(schema: &Schema) -> String {
    let trace = &schema.trace;
    let mut out = Object::of("trace-class");
    out.identity(&trace.identity);
    out.opt_text("name", trace.name.as_deref());
    if !trace.env.is_empty() {
        let mut env = Object::default();
        for (name, value) in &trace.env {
            let value = match value {
                EnvValue::Int(i) => Json::Int(i128::from(*i)),
                EnvValue::Text(text) => Json::Text(text.clone()),
            };
            env.put(name, value);
        }
        out.put("environment", env.once());
    }
    let mut aliases = Aliases::new("trace".to_owned());
    out.scope("packet-header-field-class", trace.packet_header.as_deref(), &mut aliases);
    aliases.text + &out.fragment()
}

/// The fragment of a data stream class. `schema` supplies only the ids of clocks.
pub fn stream(schema: &Schema, stream: &StreamClass) -> String {
    let mut out = Object::of("data-stream-class");
    if stream.id != 0 {
        out.int("id", stream.id);
    }
    out.identity(&stream.identity);
    out.opt_text("name", stream.name.as_deref());
    if let Some(clock) = stream.clock.filter(|&clock| clock < schema.clocks.len()) {
        out.text("default-clock-class-id", &clock_id(schema, clock));
    }
    let mut aliases = Aliases::new(format!("stream-{}", stream.id));
    out.scope("packet-context-field-class", stream.packet_context.as_deref(), &mut aliases);
    out.scope("event-record-header-field-class", stream.event_header.as_deref(), &mut aliases);
    out.scope("event-record-common-context-field-class", stream.event_context.as_deref(), &mut aliases);
    aliases.text + &out.fragment()
}

/// The fragment of an event record class.
pub fn event(stream_id: u64, event: &EventClass) -> String {
    let mut out = Object::of("event-record-class");
    if event.id != 0 {
        out.int("id", event.id);
    }
    if stream_id != 0 {
        out.int("data-stream-class-id", stream_id);
    }
    out.identity(&event.identity);
    if !event.name.is_empty() {
        out.text("name", &event.name);
    }
    // Attributes are written as they were read, if they are JSON.
    let attributes = event.attributes.as_ref().filter(|text| matches!(crate::metadata::json::syntax::sequence(text).as_deref(), Ok([_])));
    match attributes {
        Some(text) => out.put("attributes", Json::Raw(text.trim_start_matches(RECORD_SEPARATOR).to_owned())),
        None if event.loglevel.is_some() || event.model_emf_uri.is_some() => {
            let mut lttng = Object::default();
            lttng.opt("log-level", event.loglevel.map(|level| Json::Int(i128::from(level))));
            lttng.opt_text("emf-uri", event.model_emf_uri.as_deref());
            let mut attributes = Object::default();
            attributes.put(LTTNG, lttng.into());
            out.put("attributes", attributes.into());
        }
        None => {}
    }
    let mut aliases = Aliases::new(format!("event-{stream_id}-{}", event.id));
    out.scope("specific-context-field-class", event.context.as_deref(), &mut aliases);
    out.scope("payload-field-class", event.payload.as_deref(), &mut aliases);
    aliases.text + &out.fragment()
}

/// The name of a clock, made unique.
fn clock_id(schema: &Schema, index: usize) -> String {
    let name = |clock: &Clock| clock.name.clone();
    let own = schema.clocks.get(index).map_or(String::new(), name);
    let before = schema.clocks.iter().take(index).filter(|c| c.name == own).count();
    if before == 0 {
        return own;
    }
    (before..).map(|n| format!("{own}-{n}")).find(|id| schema.clocks.iter().all(|c| c.name != *id)).unwrap_or(own)
}

enum Json {
    Int(i128),
    Text(String),
    List(Vec<Json>),
    Object(Object),
    Raw(String),
}

#[derive(Default)]
struct Object(Vec<(String, Json)>);

impl From<Object> for Json {
    fn from(object: Object) -> Json {
        Json::Object(object)
    }
}

impl Object {
    fn of(of: &str) -> Object {
        Object(vec![("type".to_owned(), Json::Text(of.to_owned()))])
    }

    fn put(&mut self, name: &str, value: Json) {
        self.0.push((name.to_owned(), value));
    }

    fn text(&mut self, name: &str, text: &str) {
        self.put(name, Json::Text(text.to_owned()));
    }

    fn int(&mut self, name: &str, value: impl Into<i128>) {
        self.put(name, Json::Int(value.into()));
    }

    fn opt(&mut self, name: &str, value: Option<Json>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    fn opt_text(&mut self, name: &str, text: Option<&str>) {
        self.opt(name, text.map(|text| Json::Text(text.to_owned())));
    }

    fn identity(&mut self, identity: &Identity) {
        self.opt_text("namespace", identity.namespace.as_deref());
        self.opt_text("uid", identity.uid.as_deref());
    }

    fn scope(&mut self, name: &str, ty: Option<&StructType>, aliases: &mut Aliases) {
        self.opt(name, ty.map(|ty| structure(ty, aliases)));
    }

    /// The object without duplicate properties.
    fn once(self) -> Json {
        let mut said = std::collections::HashSet::new();
        Json::Object(Object(self.0.into_iter().filter(|(name, _)| said.insert(name.clone())).collect()))
    }

    fn fragment(self) -> String {
        format!("{RECORD_SEPARATOR}{}\n", Json::Object(self))
    }
}

/// Aliases for parts of types that are too deep for one JSON text: readers limit the depth of
/// nesting.
struct Aliases {
    /// Prefix of the names of the aliases.
    prefix: String,
    count: usize,
    /// Fragments that define the aliases.
    text: String,
}

/// Number of levels of types after which an alias is made. Each level has up to three levels of
/// JSON.
const LEVELS: u32 = 32;

impl Aliases {
    fn new(prefix: String) -> Aliases {
        Aliases { prefix, count: 0, text: String::new() }
    }

    /// Defines an alias for `class` and returns its name.
    fn add(&mut self, class: Json) -> Json {
        self.count += 1;
        let name = format!("{}-{}", self.prefix, self.count);
        let mut out = Object::of("field-class-alias");
        out.text("name", &name);
        out.put("field-class", class);
        self.text.push_str(&out.fragment());
        Json::Text(name)
    }
}

/// A field class, or the name of its alias.
fn class(ty: &Type, aliases: &mut Aliases) -> Json {
    let class = full_class(ty, aliases);
    match ty.depth() % LEVELS {
        0 => aliases.add(class),
        _ => class,
    }
}

fn structure(ty: &StructType, aliases: &mut Aliases) -> Json {
    let mut out = Object::of("structure");
    if ty.min_align() > 1 {
        out.int("minimum-alignment", ty.min_align());
    }
    if !ty.fields().is_empty() {
        let members = ty.fields().iter().map(|member| {
            let mut out = Object::default();
            out.text("name", &member.name);
            out.put("field-class", class(&member.ty, aliases));
            out.into()
        });
        out.put("member-classes", Json::List(members.collect()));
    }
    out.into()
}

fn full_class(ty: &Type, aliases: &mut Aliases) -> Json {
    let mut out;
    match ty {
        Type::Int(int) => out = integer(int, &[]),
        Type::Enum(e) => out = integer(&e.int, &e.mappings),
        Type::Bool(int) => out = bits("fixed-length-boolean", int),
        Type::Bits(b) if b.flags.is_empty() => out = bits("fixed-length-bit-array", &b.int),
        Type::Bits(b) => {
            out = bits("fixed-length-bit-map", &b.int);
            out.put("flags", mappings(&b.flags));
        }
        Type::Float(float) => {
            let FloatType { size, align, byte_order, reversed } = *float;
            out =
                bits("fixed-length-floating-point-number", &IntType { size, align, byte_order, reversed, base: 10, ..IntType::default() });
        }
        Type::VarInt(int) => {
            out = Object::of(if int.signed { "variable-length-signed-integer" } else { "variable-length-unsigned-integer" });
            base(&mut out, int.base);
            if !int.mappings.is_empty() {
                out.put("mappings", mappings(&int.mappings));
            }
            roles(&mut out, int.roles);
        }
        Type::String(encoding) => {
            out = Object::of("null-terminated-string");
            self::encoding(&mut out, *encoding);
        }
        Type::Text(text) => {
            out = sized("string", &text.length);
            encoding(&mut out, text.encoding);
        }
        Type::Blob(blob) => {
            out = sized("blob", &blob.length);
            if blob.media_type != "application/octet-stream" {
                out.text("media-type", &blob.media_type);
            }
            if matches!(blob.length, Length::Fixed(_)) {
                roles(&mut out, blob.roles);
            }
        }
        Type::Struct(s) => return structure(s, aliases),
        Type::Array(array) => {
            out = sized("array", array.length());
            if array.align() > array.element().align() {
                out.int("minimum-alignment", array.align());
            }
            out.put("element-field-class", class(array.element(), aliases));
        }
        Type::Variant(variant) => {
            out = Object::of("variant");
            out.put("selector-field-location", location(variant.tag()));
            let options = variant.options().iter().enumerate().map(|(index, option)| {
                let mut out = Object::default();
                if !option.name.is_empty() {
                    out.text("name", &option.name);
                }
                let ranges = variant.ranges().and_then(|ranges| ranges.get(index));
                out.put("selector-field-ranges", self::ranges(ranges.map_or(&[], Vec::as_slice)));
                out.put("field-class", class(&option.ty, aliases));
                out.into()
            });
            out.put("options", Json::List(options.collect()));
        }
        Type::Optional(optional) => {
            out = Object::of("optional");
            out.put("selector-field-location", location(optional.selector()));
            out.opt("selector-field-ranges", optional.ranges().map(|ranges| self::ranges(ranges)));
            out.put("field-class", class(optional.ty(), aliases));
        }
    }
    out.into()
}

/// The properties of a field class of fixed length.
fn bits(of: &str, int: &IntType) -> Object {
    let mut out = Object::of(of);
    out.int("length", int.size);
    let (order, usual) = match int.byte_order {
        ByteOrder::Little => ("little-endian", ["first-to-last", "last-to-first"]),
        ByteOrder::Big => ("big-endian", ["last-to-first", "first-to-last"]),
    };
    out.text("byte-order", order);
    if int.reversed {
        out.text("bit-order", usual[1]);
    }
    if int.align > 1 {
        out.int("alignment", int.align);
    }
    // Booleans and bit arrays have no base and no roles in CTF 2; those that were read are written
    // again.
    base(&mut out, int.base);
    roles(&mut out, int.roles);
    out
}

fn integer(int: &IntType, labels: &[Mapping]) -> Object {
    let mut out = bits(if int.signed { "fixed-length-signed-integer" } else { "fixed-length-unsigned-integer" }, int);
    if !labels.is_empty() {
        out.put("mappings", mappings(labels));
    }
    out
}

fn base(out: &mut Object, base: u8) {
    if matches!(base, 2 | 8 | 16) {
        out.int("preferred-display-base", base);
    }
}

fn sized(of: &str, length: &Length) -> Object {
    match length {
        Length::Fixed(length) => {
            let mut out = Object::of(&format!("static-length-{of}"));
            out.int("length", *length);
            out
        }
        Length::Field(path) => {
            let mut out = Object::of(&format!("dynamic-length-{of}"));
            out.put("length-field-location", location(path));
            out
        }
    }
}

fn encoding(out: &mut Object, encoding: Encoding) {
    let name = match encoding {
        Encoding::None | Encoding::Utf8 | Encoding::Ascii => return,
        Encoding::Utf16Be => "utf-16be",
        Encoding::Utf16Le => "utf-16le",
        Encoding::Utf32Be => "utf-32be",
        Encoding::Utf32Le => "utf-32le",
    };
    out.text("encoding", name);
}

const ROLES: [(Roles, &str); 11] = [
    (Roles::MAGIC, "packet-magic-number"),
    (Roles::UUID, "metadata-stream-uuid"),
    (Roles::STREAM_ID, "data-stream-class-id"),
    (Roles::STREAM_INSTANCE, "data-stream-id"),
    (Roles::PACKET_SIZE, "packet-total-length"),
    (Roles::CONTENT_SIZE, "packet-content-length"),
    (Roles::TIME, "default-clock-timestamp"),
    (Roles::END_TIME, "packet-end-default-clock-timestamp"),
    (Roles::DISCARDED, "discarded-event-record-counter-snapshot"),
    (Roles::SEQUENCE, "packet-sequence-number"),
    (Roles::EVENT_ID, "event-record-class-id"),
];

fn roles(out: &mut Object, roles: Roles) {
    let names: Vec<Json> = ROLES.iter().filter(|(role, _)| roles.has(*role)).map(|(_, name)| Json::Text((*name).to_owned())).collect();
    if !names.is_empty() {
        out.put("roles", Json::List(names));
    }
}

fn ranges(ranges: &[(i128, i128)]) -> Json {
    let range = |&(low, high): &(i128, i128)| Json::List(vec![Json::Int(low), Json::Int(high)]);
    Json::List(ranges.iter().map(range).collect())
}

/// Each label once, with all its ranges.
fn mappings(mappings: &[Mapping]) -> Json {
    let mut index: HashMap<&str, usize> = HashMap::new();
    let mut labels: Vec<(&str, Vec<(i128, i128)>)> = Vec::new();
    for Mapping { label, low, high } in mappings {
        let at = *index.entry(label).or_insert_with(|| {
            labels.push((label, Vec::new()));
            labels.len() - 1
        });
        if let Some((_, ranges)) = labels.get_mut(at) {
            ranges.push((*low, *high));
        }
    }
    let mut out = Object::default();
    for (label, ranges) in labels {
        out.put(label, self::ranges(&ranges));
    }
    out.into()
}

fn location(path: &FieldPath) -> Json {
    let mut out = Object::default();
    if let Some(scope) = path.scope {
        let origin = match scope {
            Scope::PacketHeader => "packet-header",
            Scope::PacketContext => "packet-context",
            Scope::EventHeader => "event-record-header",
            Scope::StreamEventContext => "event-record-common-context",
            Scope::EventContext => "event-record-specific-context",
            Scope::EventFields => "event-record-payload",
        };
        out.text("origin", origin);
    }
    let nulls = (0..path.up.unwrap_or(0)).map(|_| Json::Raw("null".to_owned()));
    let names = path.names.iter().map(|name| Json::Text(name.clone()));
    out.put("path", Json::List(nulls.chain(names).collect()));
    out.into()
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Int(i) => write!(f, "{i}"),
            Json::Text(text) => quoted(f, text),
            Json::Raw(text) => f.write_str(text),
            Json::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "[" } else { ", " })?;
                }
                f.write_str(if items.is_empty() { "[]" } else { "]" })
            }
            Json::Object(Object(members)) => {
                for (index, (name, value)) in members.iter().enumerate() {
                    f.write_str(if index == 0 { "{" } else { ", " })?;
                    quoted(f, name)?;
                    write!(f, ": {value}")?;
                }
                f.write_str(if members.is_empty() { "{}" } else { "}" })
            }
        }
    }
}

fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            c if (c as u32) < 0x20 || c as u32 == 0x7f => write!(f, "\\u{:04x}", c as u32)?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}
