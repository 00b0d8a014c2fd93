//! The metadata of `user/`: CTF 1.8, written by `longpole_ctf::write`. It begins with everything
//! that is known in advance, and whole event classes are appended.

use super::types::{
    array, characters, float, hexadecimal, member, padding, printable, recording_clock, sequence, signed, stamp, structure, text as string,
    unsigned, ORDER,
};
use crate::clock::Clock;
use longpole_abi::{Element, Field, FieldType, Kind, Site, Width};
use longpole_ctf::types::{EnumType, EventClass, Mapping, Schema, StreamClass, StructType, TraceClass, Type};
use longpole_ctf::write::tsdl;
use longpole_ctf::EnvValue;
use std::fmt::Write as _;
use std::fs;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// A UUID in the order of its printed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Makes a random UUID (version 4).
    pub fn random() -> io::Result<Uuid> {
        let mut bytes = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Ok(Uuid(bytes))
    }

    pub fn parse(text: &str) -> Option<Uuid> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
        if digits.len() != 32 {
            return None;
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| (digit as char).to_digit(16);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Some(Uuid(bytes))
    }
}

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The writer of the metadata file.
#[derive(Debug)]
pub struct Metadata {
    file: File,
    /// Bytes in the file.
    length: u64,
    /// Text that the disk has not taken yet.
    waiting: String,
}

impl Metadata {
    /// Makes the file. `env`: further entries of the trace's environment.
    pub fn create(
        directory: &Path,
        uuid: &Uuid,
        clock: &Clock,
        host: &str,
        probe_cost_ns: Option<f64>,
        env: &[(&str, String)],
    ) -> io::Result<Metadata> {
        let hidden = directory.join(".metadata");
        let mut file = OpenOptions::new().append(true).create_new(true).mode(0o644).open(&hidden)?;
        let mut text = preamble(uuid, clock, host, probe_cost_ns, env);
        overflow_classes(&mut text, 0);
        file.write_all(text.as_bytes())?;
        fs::rename(&hidden, directory.join("metadata"))?;
        Ok(Metadata { file, length: text.len() as u64, waiting: String::new() })
    }

    /// Appends whole classes in one write, together with those that could not be written before.
    /// After an error the file is unchanged, and the text waits for the next call.
    pub fn append(&mut self, text: &str) -> io::Result<()> {
        self.waiting.push_str(text);
        match self.file.write_all(self.waiting.as_bytes()) {
            Ok(()) => {
                self.length += self.waiting.len() as u64;
                self.waiting.clear();
                Ok(())
            }
            Err(error) => {
                // An incomplete class would make the whole trace unreadable.
                self.file.set_len(self.length)?;
                Err(error)
            }
        }
    }

    /// Returns whether classes wait to be written. Packets that may use them must not be written
    /// until then.
    pub fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }
}

/// Appends the class of a site.
pub fn site(text: &mut String, stream: u32, id: u16, site: &Site) {
    let mut uri = format!("longpole:site?file={}&line={}", encoded(&site.file, ""), site.line);
    if !site.attributes.is_empty() {
        uri.push('&');
        uri.push_str(&encoded(&site.attributes, "&="));
    }
    class(text, stream, id, &site.event_name(), site.kind, &site.fields, &uri);
}

/// Appends the class of an id whose entry cannot be understood. No packet with such an event is
/// written.
pub fn invalid(text: &mut String, stream: u32, id: u16) {
    class(text, stream, id, &format!("invalid:{id}"), Kind::Event, &[], "");
}

fn preamble(uuid: &Uuid, clock: &Clock, host: &str, probe_cost_ns: Option<f64>, env: &[(&str, String)]) -> String {
    let probe_cost_ps = (probe_cost_ns.unwrap_or(0.0) * 1000.0).round() as i64;
    let text = |text: &str| EnvValue::Text(printable(text));
    let mut facts: Vec<(String, EnvValue)> = [
        ("hostname", text(host)),
        ("domain", text("longpole-user")),
        ("tracer_name", text("longpole")),
        ("tracer_major", version(env!("CARGO_PKG_VERSION_MAJOR"))),
        ("tracer_minor", version(env!("CARGO_PKG_VERSION_MINOR"))),
        ("probe_cost_ps", EnvValue::Int(probe_cost_ps)),
        ("clock_source", text(clock.source.name())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    facts.extend(env.iter().map(|(name, value)| ((*name).to_owned(), text(value))));
    let schema = schema(Some(uuid), recording_clock(uuid, clock));
    [
        tsdl::HEAD.to_owned(),
        tsdl::trace(&schema),
        tsdl::env(&facts),
        schema.clocks.iter().map(tsdl::clock).collect(),
        tsdl::stream(&schema, &stream_class(0)),
    ]
    .concat()
}

/// A part of the tracer's version.
pub fn version(part: &str) -> EnvValue {
    part.parse().map_or_else(|_| EnvValue::Text(part.to_owned()), EnvValue::Int)
}

/// The header of packets and the clock, which all parts of the metadata refer to.
pub fn schema(uuid: Option<&Uuid>, clock: longpole_ctf::Clock) -> Schema {
    let header = [("magic", 32), ("uuid", 8), ("stream_id", 32)].map(|(name, bits)| {
        let number = unsigned(bits, bits);
        (name, if name == "uuid" { array(number, 16) } else { number })
    });
    let trace =
        TraceClass { uuid: uuid.map(|uuid| uuid.0), byte_order: ORDER, packet_header: structure(1, header), ..TraceClass::default() };
    Schema { trace, clocks: vec![clock], ..Schema::default() }
}

/// The schema for a part that is appended: only the name of the clock matters.
fn appended() -> Schema {
    schema(None, longpole_ctf::Clock::new("longpole", 1))
}

/// A stream class: the classes of the rings of one runtime directory. Each directory has a site
/// table, and so class ids, of its own.
fn stream_class(number: u32) -> StreamClass {
    let context = [
        ("timestamp_begin", stamp(64, 64)),
        ("timestamp_end", stamp(64, 64)),
        ("content_size", unsigned(64, 64)),
        ("packet_size", unsigned(64, 64)),
        ("packet_seq_num", unsigned(64, 64)),
        ("events_discarded", unsigned(64, 64)),
        ("pid", signed(32, 32)),
        ("tid", signed(32, 32)),
        ("position", unsigned(64, 64)),
        ("label", characters(128)),
        ("thread", characters(32)),
        ("lane", unsigned(32, 32)),
        ("ring", unsigned(32, 32)),
    ];
    StreamClass {
        id: number.into(),
        packet_context: structure(1, context),
        event_header: structure(64, [("id", unsigned(16, 16)), ("timestamp", stamp(48, 16))]),
        ..StreamClass::default()
    }
}

/// Appends the stream class of a further runtime directory, with its overflow classes.
pub fn further_runtime_directory(text: &mut String, stream: u32) {
    text.push_str(&tsdl::stream(&appended(), &stream_class(stream)));
    overflow_classes(text, stream);
}

fn overflow_classes(text: &mut String, stream: u32) {
    for kind in Kind::ALL {
        let fields = longpole_abi::fields::parse(kind.overflow_fields()).unwrap_or_default();
        class(text, stream, *kind as u16, kind.name(), *kind, &fields, "");
    }
}

fn class(text: &mut String, stream: u32, id: u16, name: &str, kind: Kind, fields: &[Field], uri: &str) {
    let mut members = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let name = identifier(&field.name);
        let ty = match field.kind {
            FieldType::U64 => unsigned(64, 64),
            FieldType::Hex => hexadecimal(64, 64),
            FieldType::I64 => signed(64, 64),
            FieldType::F64 => float(64),
            FieldType::MarkKind => enumeration(unsigned(64, 64), MARK_KINDS.map(|(label, value)| (label.to_owned(), value))),
            FieldType::U32 => unsigned(32, 32),
            FieldType::Text => string(),
            FieldType::Bytes => {
                let length = match kind {
                    Kind::Packet => "captured".to_owned(),
                    _ => identifier(&format!("{}_length", field.name)),
                };
                members.push(member(&length, unsigned(64, 64)));
                sequence(unsigned(8, 8), &length)
            }
            FieldType::Array(element) => {
                let length = identifier(&length_name(fields, &field.name));
                members.push(member(&length, unsigned(64, 64)));
                sequence(element_type(element), &length)
            }
            FieldType::Enumeration => {
                let labels = field.labels.iter().map(|(label, value)| (printable(label), i128::from(*value)));
                enumeration(signed(64, 64), labels)
            }
        };
        members.push(member(&name, ty));
        // The next field or event begins at a multiple of 8 bytes; the empty structure aligns the
        // reader.
        if matches!(field.kind, FieldType::Text | FieldType::Bytes | FieldType::Array(_)) {
            members.push(member(&format!("_align{at}"), padding(64)));
        }
    }
    let class = EventClass {
        id: id.into(),
        name: printable(name),
        model_emf_uri: (!uri.is_empty()).then(|| printable(uri)),
        payload: Some(Arc::new(StructType::new(1, members))),
        ..EventClass::default()
    };
    text.push_str(&tsdl::event(&appended(), stream.into(), &class));
}

/// Labels of the kinds of marks, in the order of `longpole.h`.
const MARK_KINDS: [(&str, i128); 6] =
    [("plain", 0), ("object_new", 1), ("object_delete", 2), ("object_state", 3), ("exception", 4), ("failure", 5)];

/// An enumeration with one value for each label.
fn enumeration(int: Type, labels: impl IntoIterator<Item = (String, i128)>) -> Type {
    let mappings: Vec<Mapping> = labels.into_iter().map(|(label, value)| Mapping { label, low: value, high: value }).collect();
    match int {
        Type::Int(int) => Type::Enum(Arc::new(EnumType { int, mappings: mappings.into() })),
        other => other,
    }
}

fn element_type(element: Element) -> Type {
    match element {
        Element::Unsigned(width) => unsigned(bits(width), bits(width)),
        Element::Signed(width) => signed(bits(width), bits(width)),
        Element::F32 => float(32),
        Element::F64 => float(64),
    }
}

fn bits(width: Width) -> u32 {
    match width {
        Width::One => 8,
        Width::Two => 16,
        Width::Four => 32,
        Width::Eight => 64,
    }
}

/// Name of the length field of an array, different from all other names. Readers strip a leading
/// underscore, so it makes no difference between names.
fn length_name(fields: &[Field], name: &str) -> String {
    let mut length = format!("{name}_length");
    while fields.iter().any(|field| field.name.trim_start_matches('_') == length.trim_start_matches('_')) {
        length.push('_');
    }
    length
}

/// A field's name such that readers show it unchanged: they strip one leading underscore, and
/// keywords need one.
fn identifier(name: &str) -> String {
    if name.starts_with('_') || tsdl::is_keyword(name) {
        format!("_{name}")
    } else {
        name.to_owned()
    }
}

/// Contents of a string literal, escaped.
pub fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Percent-encodes all but letters, digits, `-._~/` and the characters in `also`.
pub(crate) fn encoded(text: &str, also: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) || also.as_bytes().contains(&byte) || (byte == b'%' && !also.is_empty())
        {
            out.push(byte as char);
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_end_their_literal() {
        assert_eq!(literal("a\"; } \\ \n"), "a\\\"; } \\\\ \u{fffd}");
        assert_eq!(encoded("a b&c.cpp", ""), "a%20b%26c.cpp");
        assert_eq!(encoded("capacity=5&order=fifo", "&="), "capacity=5&order=fifo");
    }

    #[test]
    fn keywords_are_escaped_as_field_names() {
        assert_eq!(identifier("string"), "_string");
        assert_eq!(identifier("value"), "value");
    }

    #[test]
    fn a_printed_uuid_is_parsed_to_the_same_value() {
        let uuid = Uuid::random().unwrap();
        assert_eq!(Uuid::parse(&uuid.to_string()), Some(uuid));
        assert_eq!(Uuid::parse("0"), None);
    }
}
