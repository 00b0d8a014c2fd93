//! Schema to text: the writer of CTF 1.8 metadata.
//!
//! Every function yields whole blocks, so a recorder may write the first part at its start and
//! append the block of an event whenever a new class appears; the file can be read at any moment.
//! Types are written in full where they are used: longer than with aliases, but a block needs
//! nothing before it. A schema that uses types of CTF 2 must be lowered before.

use std::fmt::Write;

pub use super::keywords::is_keyword;
use super::keywords::Keywords;
use crate::clock::Clock;
use crate::types::*;

/// The first line of metadata, by which other tools recognize the format.
pub const HEAD: &str = "/* CTF 1.8 */\n";

/// The metadata text of a whole schema.
pub fn metadata(schema: &Schema) -> String {
    let words = Keywords::of(schema);
    let mut out = format!("{HEAD}\n{}\n", trace_block(Out::new(schema, &words)));
    if !schema.trace.env.is_empty() {
        out.push_str(&env(&schema.trace.env));
        out.push('\n');
    }
    for clock in &schema.clocks {
        out.push_str(&self::clock(clock));
        out.push('\n');
    }
    for stream in &schema.streams {
        out.push_str(&stream_block(Out::new(schema, &words), stream));
        out.push('\n');
    }
    for stream in &schema.streams {
        for event in &stream.events {
            out.push_str(&event_block(Out::new(schema, &words), stream.id, event));
            out.push('\n');
        }
    }
    out
}

/// The trace block.
pub fn trace(schema: &Schema) -> String {
    trace_block(Out::new(schema, &Keywords::default()))
}

fn trace_block(mut out: Out<'_>) -> String {
    let schema = out.schema;
    out.open("trace {");
    out.line("major = 1;");
    out.line("minor = 8;");
    if let Some(uuid) = schema.trace.uuid {
        out.line(&format!("uuid = \"{}\";", self::uuid(&uuid)));
    }
    out.line(&format!("byte_order = {};", order(schema.trace.byte_order)));
    out.structure("packet.header", schema.trace.packet_header.as_deref());
    out.close("};")
}

/// The env block.
pub fn env(env: &[(String, EnvValue)]) -> String {
    let mut out = "env {\n".to_owned();
    for (name, value) in env {
        let value = match value {
            EnvValue::Int(i) => i.to_string(),
            EnvValue::Text(text) => quote(text),
        };
        let _ = writeln!(out, "\t{} = {value};", identifier(name));
    }
    out + "};\n"
}

/// A clock block.
pub fn clock(clock: &Clock) -> String {
    let mut out = format!("clock {{\n\tname = \"{}\";\n", identifier(&clock.name));
    if let Some(uuid) = clock.uuid {
        let _ = writeln!(out, "\tuuid = \"{}\";", self::uuid(&uuid));
    }
    if !clock.description.is_empty() {
        let _ = writeln!(out, "\tdescription = {};", quote(&clock.description));
    }
    let _ = writeln!(out, "\tfreq = {};", clock.frequency);
    if clock.precision != 0 {
        let _ = writeln!(out, "\tprecision = {};", clock.precision);
    }
    let _ = writeln!(out, "\toffset_s = {};\n\toffset = {};", clock.offset_s, clock.offset);
    let _ = writeln!(out, "\tabsolute = {};\n}};", clock.absolute);
    out
}

/// A stream block.
pub fn stream(schema: &Schema, stream: &StreamClass) -> String {
    stream_block(Out::new(schema, &Keywords::default()), stream)
}

fn stream_block(mut out: Out<'_>, stream: &StreamClass) -> String {
    let schema = out.schema;
    out.open("stream {");
    // babeltrace2 rejects an id if no field of the packet header holds it.
    let has_id = schema.trace.packet_header.as_ref().is_some_and(|h| h.fields().iter().any(|f| display_name(&f.name) == "stream_id"));
    if has_id || stream.id != 0 {
        out.line(&format!("id = {};", stream.id));
    }
    out.structure("packet.context", stream.packet_context.as_deref());
    out.structure("event.header", stream.event_header.as_deref());
    out.structure("event.context", stream.event_context.as_deref());
    out.close("};")
}

/// An event block. `schema` supplies only the names of clocks.
pub fn event(schema: &Schema, stream_id: u64, event: &EventClass) -> String {
    event_block(Out::new(schema, &Keywords::default()), stream_id, event)
}

fn event_block(mut out: Out<'_>, stream_id: u64, event: &EventClass) -> String {
    out.open("event {");
    out.line(&format!("name = {};", quote(&event.name)));
    out.line(&format!("id = {};", event.id));
    out.line(&format!("stream_id = {stream_id};"));
    if let Some(loglevel) = event.loglevel {
        out.line(&format!("loglevel = {loglevel};"));
    }
    if let Some(uri) = &event.model_emf_uri {
        out.line(&format!("model.emf.uri = {};", quote(uri)));
    }
    out.structure("context", event.context.as_deref());
    out.structure("fields", event.payload.as_deref());
    out.close("};")
}

/// A text literal that every reader decodes to exactly this text.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            // Three octal digits are the longest form, so a digit that follows is not taken as part
            // of the escape.
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                let _ = write!(out, "\\{:03o}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// An identifier that is as similar to `name` as possible: characters that are not allowed become
/// underscores.
pub fn identifier(name: &str) -> String {
    let mut out: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

/// An identifier for a field, with the leading underscore that readers remove, so that no name is a
/// keyword.
pub fn field_identifier(name: &str) -> String {
    format!("_{}", identifier(name).trim_start_matches('_'))
}

/// The usual text form of a uuid.
pub fn uuid(uuid: &[u8; 16]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |s, b| s + &format!("{b:02x}"));
    [&uuid[..4], &uuid[4..6], &uuid[6..8], &uuid[8..10], &uuid[10..]].map(hex).join("-")
}

fn order(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "le",
        ByteOrder::Big => "be",
    }
}

struct Out<'s> {
    schema: &'s Schema,
    words: &'s Keywords,
    text: String,
    indent: usize,
}

impl<'s> Out<'s> {
    fn new(schema: &'s Schema, words: &'s Keywords) -> Out<'s> {
        Out { schema, words, text: String::new(), indent: 0 }
    }

    fn line(&mut self, line: &str) {
        self.text.extend(std::iter::repeat_n('\t', self.indent));
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn open(&mut self, line: &str) {
        self.line(line);
        self.indent += 1;
    }

    fn close(mut self, line: &str) -> String {
        self.indent -= 1;
        self.line(line);
        self.text
    }

    fn structure(&mut self, left: &str, ty: Option<&StructType>) {
        if let Some(ty) = ty {
            let ty = self.struct_type(ty);
            self.line(&format!("{left} := {ty};"));
        }
    }

    /// A structure on several lines, at the current indent.
    fn struct_type(&mut self, ty: &StructType) -> String {
        let align = if ty.min_align() > 1 { format!(" align({})", ty.min_align()) } else { String::new() };
        format!("struct {}{align}", self.members(ty.fields()))
    }

    fn members(&mut self, members: &[Member]) -> String {
        self.indent += 1;
        let tabs = "\t".repeat(self.indent);
        let mut out = "{\n".to_owned();
        for Member { name, ty } in members {
            let mut element = ty;
            let mut lengths = String::new();
            while let Type::Array(array) = element {
                let _ = match array.length() {
                    Length::Fixed(length) => write!(lengths, "[{length}]"),
                    Length::Field(path) => write!(lengths, "[{}]", self.field_path(path)),
                };
                element = array.element();
            }
            let element = self.ty(element);
            let _ = writeln!(out, "{tabs}{element} {}{lengths};", self.words.name(name));
        }
        self.indent -= 1;
        out + &"\t".repeat(self.indent) + "}"
    }

    fn ty(&mut self, ty: &Type) -> String {
        match ty {
            Type::Int(int) | Type::Bool(int) => self.integer(int),
            Type::Bits(bits) => self.integer(&bits.int),
            Type::Float(float) => {
                let (exponent, mantissa) = match float.size {
                    16 => (5, 11),
                    32 => (8, 24),
                    80 => (15, 64),
                    128 => (15, 113),
                    _ => (11, 53),
                };
                format!(
                    "floating_point {{ exp_dig = {exponent}; mant_dig = {mantissa}; align = {}; byte_order = {}; }}",
                    float.align,
                    order(float.byte_order)
                )
            }
            Type::Enum(e) => {
                let mappings = e.mappings.iter().map(|m| format!("{} = {} ... {}", quote(&m.label), m.low, m.high));
                let mappings: Vec<String> = mappings.collect();
                format!("enum : {} {{ {} }}", self.integer(&e.int), mappings.join(", "))
            }
            Type::String(Encoding::Ascii) => "string { encoding = ASCII; }".to_owned(),
            Type::String(_) => "string".to_owned(),
            Type::Struct(s) => self.struct_type(s),
            Type::Variant(v) => format!("variant <{}> {}", self.field_path(v.tag()), self.members(v.options())),
            // An array can be written only as a member.
            Type::Array(array) => self.ty(array.element()),
            // Types that CTF 1.8 does not have; see the start of this file.
            Type::VarInt(_) | Type::Text(_) | Type::Blob(_) | Type::Optional(_) => "string".to_owned(),
        }
    }

    fn integer(&self, int: &IntType) -> String {
        let mut out = format!("integer {{ size = {}; align = {}; signed = {};", int.size, int.align, int.signed);
        if int.byte_order != self.schema.trace.byte_order {
            let _ = write!(out, " byte_order = {};", order(int.byte_order));
        }
        if int.base != 10 {
            let _ = write!(out, " base = {};", int.base);
        }
        match int.encoding {
            Encoding::None => {}
            Encoding::Ascii => out.push_str(" encoding = ASCII;"),
            _ => out.push_str(" encoding = UTF8;"),
        }
        if let Some(clock) = int.clock.and_then(|c| self.schema.clocks.get(c)) {
            let _ = write!(out, " map = clock.{}.value;", identifier(&clock.name));
        }
        out + " }"
    }

    fn field_path(&self, path: &FieldPath) -> String {
        let scope = path.scope.map_or(String::new(), |s| format!("{}.", s.path()));
        let names: Vec<String> = path.names.iter().map(|name| self.words.name(name)).collect();
        scope + &names.join(".")
    }
}
