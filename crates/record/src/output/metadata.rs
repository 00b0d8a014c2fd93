//! The metadata of `user/`: TSDL text of CTF 1.8. It begins with everything that is known in
//! advance, and whole event classes are appended.

use crate::clock::Clock;
use longpole_abi::{Element, Field, FieldType, Kind, Site, Width};
use std::fmt::Write as _;
use std::fs;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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
    let probe_cost_ps = (probe_cost_ns.unwrap_or(0.0) * 1000.0).round() as u64;
    let order = if cfg!(target_endian = "big") { "be" } else { "le" };
    let more: String = env.iter().map(|(name, value)| format!("\n\t{name} = \"{}\";", literal(value))).collect();
    let version = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    format!(
        r#"/* CTF 1.8 */
typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 16; align = 16; signed = false; }} := uint16_t;
typealias integer {{ size = 32; align = 32; signed = false; }} := uint32_t;
typealias integer {{ size = 8; align = 8; signed = true; }} := int8_t;
typealias integer {{ size = 16; align = 16; signed = true; }} := int16_t;
typealias integer {{ size = 32; align = 32; signed = true; }} := int32_t;
typealias integer {{ size = 64; align = 64; signed = false; }} := uint64_t;
typealias integer {{ size = 64; align = 64; signed = false; base = 16; }} := hex64_t;
typealias integer {{ size = 64; align = 64; signed = true; }} := int64_t;
typealias floating_point {{ exp_dig = 8; mant_dig = 24; align = 32; }} := float_t;
typealias floating_point {{ exp_dig = 11; mant_dig = 53; align = 64; }} := double_t;
typealias integer {{ size = 8; align = 8; signed = false; encoding = UTF8; }} := char_t;
typealias enum : uint64_t {{ "plain" = 0, "object_new" = 1, "object_delete" = 2, "object_state" = 3, "exception" = 4, "failure" = 5 }} := mark_kind_t;
trace {{
	major = 1;
	minor = 8;
	uuid = "{uuid}";
	byte_order = {order};
	packet.header := struct {{
		uint32_t magic;
		uint8_t uuid[16];
		uint32_t stream_id;
	}};
}};
env {{
	hostname = "{host}";
	domain = "longpole-user";
	tracer_name = "longpole";
	tracer_major = {major};
	tracer_minor = {minor};
	probe_cost_ps = {probe_cost_ps};
	clock_source = "{source}";{more}
}};
{clock}typealias integer {{ size = 64; align = 64; signed = false; map = clock.longpole.value; }} := time64_t;
typealias integer {{ size = 48; align = 16; signed = false; map = clock.longpole.value; }} := time48_t;
{stream}"#,
        stream = stream_class(0),
        host = literal(host),
        major = version.0,
        minor = version.1,
        source = clock.source.name(),
        clock = clock_block(uuid, clock),
    )
}

/// The clock of all traces of a recording. It is the same text in each, so that readers compare
/// their times directly.
pub fn clock_block(uuid: &Uuid, clock: &Clock) -> String {
    format!(
        r#"clock {{
	name = "longpole";
	uuid = "{uuid}";
	description = "{source}";
	freq = {frequency};
	offset_s = {offset_s};
	offset = {offset};
	absolute = true;
}};
"#,
        source = clock.source.name(),
        frequency = clock.frequency,
        offset_s = clock.offset_s,
        offset = clock.offset,
    )
}

/// A stream class: the classes of the rings of one runtime directory. Each directory has a site
/// table, and so class ids, of its own.
fn stream_class(number: u32) -> String {
    format!(
        r#"stream {{
	id = {number};
	event.header := struct {{
		uint16_t id;
		time48_t timestamp;
	}} align(64);
	packet.context := struct {{
		time64_t timestamp_begin;
		time64_t timestamp_end;
		uint64_t content_size;
		uint64_t packet_size;
		uint64_t packet_seq_num;
		uint64_t events_discarded;
		int32_t pid;
		int32_t tid;
		uint64_t position;
		char_t label[128];
		char_t thread[32];
		uint32_t lane;
		uint32_t ring;
	}};
}};
"#
    )
}

/// Appends the stream class of a further runtime directory, with its overflow classes.
pub fn place(text: &mut String, stream: u32) {
    text.push_str(&stream_class(stream));
    overflow_classes(text, stream);
}

fn overflow_classes(text: &mut String, stream: u32) {
    for kind in Kind::ALL {
        let fields = longpole_abi::fields::parse(kind.overflow_fields()).unwrap_or_default();
        class(text, stream, *kind as u16, kind.name(), *kind, &fields, "");
    }
}

fn class(text: &mut String, stream: u32, id: u16, name: &str, kind: Kind, fields: &[Field], uri: &str) {
    // Writing into a String cannot fail.
    let _ = write!(text, "event {{\n\tname = \"{}\";\n\tid = {id};\n\tstream_id = {stream};\n", literal(name));
    if !uri.is_empty() {
        let _ = writeln!(text, "\tmodel.emf.uri = \"{}\";", literal(uri));
    }
    text.push_str("\tfields := struct {\n");
    for (at, field) in fields.iter().enumerate() {
        let name = identifier(&field.name);
        let _ = match field.kind {
            FieldType::U64 => writeln!(text, "\t\tuint64_t {name};"),
            FieldType::Hex => writeln!(text, "\t\thex64_t {name};"),
            FieldType::I64 => writeln!(text, "\t\tint64_t {name};"),
            FieldType::F64 => writeln!(text, "\t\tdouble_t {name};"),
            FieldType::MarkKind => writeln!(text, "\t\tmark_kind_t {name};"),
            FieldType::U32 => writeln!(text, "\t\tuint32_t {name};"),
            // The next field or event begins at a multiple of 8 bytes; the empty structure aligns
            // the reader.
            FieldType::Text => writeln!(text, "\t\tstring {name};\n\t\tstruct {{ }} align(64) _align{at};"),
            FieldType::Bytes => {
                let length = match kind {
                    Kind::Packet => "captured".to_owned(),
                    _ => identifier(&format!("{}_length", field.name)),
                };
                writeln!(text, "\t\tuint64_t {length};\n\t\tuint8_t {name}[{length}];\n\t\tstruct {{ }} align(64) _align{at};")
            }
            FieldType::Array(element) => {
                let (element, length) = (element_type(element), identifier(&length_name(fields, &field.name)));
                writeln!(text, "\t\tuint64_t {length};\n\t\t{element} {name}[{length}];\n\t\tstruct {{ }} align(64) _align{at};")
            }
            FieldType::Enumeration => {
                let values: Vec<String> = field.labels.iter().map(|(label, value)| format!("\"{}\" = {value}", literal(label))).collect();
                writeln!(text, "\t\tenum : int64_t {{ {} }} {name};", values.join(", "))
            }
        };
    }
    text.push_str("\t};\n};\n");
}

fn element_type(element: Element) -> &'static str {
    match element {
        Element::Unsigned(Width::One) => "uint8_t",
        Element::Unsigned(Width::Two) => "uint16_t",
        Element::Unsigned(Width::Four) => "uint32_t",
        Element::Unsigned(Width::Eight) => "uint64_t",
        Element::Signed(Width::One) => "int8_t",
        Element::Signed(Width::Two) => "int16_t",
        Element::Signed(Width::Four) => "int32_t",
        Element::Signed(Width::Eight) => "int64_t",
        Element::F32 => "float_t",
        Element::F64 => "double_t",
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
    const KEYWORDS: [&str; 27] = [
        "align",
        "callsite",
        "char",
        "clock",
        "const",
        "double",
        "enum",
        "env",
        "event",
        "float",
        "floating_point",
        "int",
        "integer",
        "long",
        "short",
        "signed",
        "stream",
        "string",
        "struct",
        "trace",
        "typealias",
        "typedef",
        "unsigned",
        "variant",
        "void",
        "_Bool",
        "_Complex",
    ];
    if name.starts_with('_') || KEYWORDS.contains(&name) {
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
