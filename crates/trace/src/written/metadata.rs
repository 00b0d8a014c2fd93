//! The metadata of a trace that is written: the text of CTF 1.8, or the JSON of CTF 2.

use super::shape::{Field, Fields, Length, Shape};
use longpole_ctf::write::tsdl as write;
use longpole_ctf::EnvValue;
use serde_json::{json, Map, Value};
use std::collections::HashSet;

/// A kind of packets: which of these their context names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Form {
    pub cpu: bool,
    pub names: bool,
    pub ids: bool,
}

impl Form {
    pub fn id(self) -> u32 {
        u32::from(self.cpu) + 2 * u32::from(self.names) + 4 * u32::from(self.ids)
    }
}

/// A class of events as it is written.
pub struct Class {
    pub form: Form,
    pub id: u32,
    pub name: String,
    pub attributes: Vec<(String, String)>,
    pub context: Fields,
    pub fields: Fields,
}

pub struct Described<'a> {
    pub environment: &'a [(String, EnvValue)],
    /// Unix time of the clock's 0.
    pub base_s: i64,
    pub forms: &'a [Form],
    pub classes: &'a [Class],
}

/// `longpole:site?file=a%20b&line=3`, as pairs become an address.
fn address(attributes: &[(String, String)]) -> String {
    let coded = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/:".contains(&byte);
        text.bytes()
            .fold(String::new(), |out, byte| if plain(byte) { out + &char::from(byte).to_string() } else { out + &format!("%{byte:02X}") })
    };
    let pairs: Vec<String> = attributes.iter().map(|(key, value)| format!("{}={}", coded(key), coded(value))).collect();
    format!("longpole:site?{}", pairs.join("&"))
}

/// Members of a structure: nested structures come flat, with dotted names, and are nested again.
enum Member<'a> {
    /// With the path of the field that has its length, if it is an array.
    Field(String, &'a Field, Option<Vec<String>>),
    Structure {
        name: String,
        /// The name that it had.
        of: String,
        inside: Vec<Member<'a>>,
    },
}

/// A name that no other one of its structure has.
fn free(taken: &mut HashSet<Vec<String>>, path: &[String], name: String) -> String {
    let mut path: Vec<String> = path.iter().cloned().chain([name]).collect();
    while !taken.insert(path.clone()) {
        path.last_mut().into_iter().for_each(|name| name.push('_'));
    }
    path.pop().unwrap_or_default()
}

/// `named`: how a name is written.
fn members<'a>(fields: &'a Fields, named: &dyn Fn(&str) -> String) -> Vec<Member<'a>> {
    // The path of each field, to which others may refer.
    let mut written: Vec<Vec<String>> = Vec::new();
    let mut taken = HashSet::new();
    let mut out: Vec<Member<'a>> = Vec::new();
    for field in &fields.0 {
        let mut outer: Vec<&str> = field.name.split('.').collect();
        if outer.iter().any(|part| part.is_empty()) {
            outer = vec![&field.name];
        }
        let inner = outer.pop().unwrap_or_default();
        let mut level = &mut out;
        let mut path: Vec<String> = Vec::new();
        for part in outer {
            if !matches!(level.last(), Some(Member::Structure { of, .. }) if of == part) {
                let name = free(&mut taken, &path, named(part));
                level.push(Member::Structure { name, of: part.to_owned(), inside: Vec::new() });
            }
            level = match level.last_mut() {
                Some(Member::Structure { name, inside, .. }) => {
                    path.push(name.clone());
                    inside
                }
                _ => return out,
            };
        }
        let name = free(&mut taken, &path, named(inner));
        let beside = |name: String| path.iter().cloned().chain([name]).collect::<Vec<String>>();
        let length = match field.length {
            Length::Of(at) => written.get(at).cloned(),
            Length::Own => Some(beside(free(&mut taken, &path, format!("{name}_length")))),
            Length::None | Length::Fixed(_) => None,
        };
        written.push(beside(name.clone()));
        level.push(Member::Field(name, field, length));
    }
    out
}

/// CTF 1.8.
pub fn text(described: &Described<'_>) -> String {
    let mut out = format!("{}\n", write::HEAD);
    out.push_str("trace {\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = le;\n\tpacket.header := struct {\n");
    out.push_str(&format!("\t\t{} magic;\n\t\t{} stream_id;\n\t}};\n}};\n\n", integer(32), integer(32)));
    out.push_str(&write::env(described.environment));
    out.push_str(&format!(
        "\nclock {{\n\tname = \"monotonic\";\n\tdescription = \"ns\";\n\tfreq = 1000000000;\n\toffset_s = {};\n\toffset = 0;\n\tabsolute = true;\n}};\n",
        described.base_s
    ));
    const STAMP: &str = "integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; }";
    for form in described.forms {
        out.push_str(&format!("\nstream {{\n\tid = {};\n\tpacket.context := struct {{\n", form.id()));
        out.push_str(&format!("\t\t{STAMP} timestamp_begin;\n\t\t{STAMP} timestamp_end;\n"));
        for name in ["content_size", "packet_size", "packet_seq_num", "events_discarded"] {
            out.push_str(&format!("\t\t{} {name};\n", integer(64)));
        }
        if form.cpu {
            out.push_str(&format!("\t\t{} cpu_id;\n", integer(32)));
        }
        if form.names {
            out.push_str("\t\tstring label;\n\t\tstring thread;\n");
        }
        if form.ids {
            let id = "integer { size = 32; align = 8; signed = true; }";
            out.push_str(&format!("\t\t{id} pid;\n\t\t{id} tid;\n"));
        }
        out.push_str(&format!("\t}};\n\tevent.header := struct {{\n\t\t{} id;\n\t\t{STAMP} timestamp;\n\t}};\n}};\n", integer(32)));
    }
    for class in described.classes {
        out.push_str(&format!(
            "\nevent {{\n\tname = {};\n\tid = {};\n\tstream_id = {};\n",
            write::quote(&class.name),
            class.id,
            class.form.id()
        ));
        if !class.attributes.is_empty() {
            out.push_str(&format!("\tmodel.emf.uri = {};\n", write::quote(&address(&class.attributes))));
        }
        for (scope, fields) in [("context", &class.context), ("fields", &class.fields)] {
            if scope == "fields" || !fields.0.is_empty() {
                out.push_str(&format!("\t{scope} := struct {{\n"));
                text_members(&members(fields, &identifier), (scope, &[]), 2, &mut out);
                out.push_str("\t};\n");
            }
        }
        out.push_str("};\n");
    }
    out
}

/// A field's name with the underscore that readers take off.
fn identifier(name: &str) -> String {
    format!("_{}", write::identifier(name))
}

fn integer(size: u32) -> String {
    format!("integer {{ size = {size}; align = 8; signed = false; }}")
}

/// `place`: the scope, and the structures in which these are.
fn text_members(members: &[Member<'_>], place: (&str, &[String]), depth: usize, out: &mut String) {
    let tabs = "\t".repeat(depth);
    let (scope, path) = place;
    for member in members {
        match member {
            Member::Structure { name, inside, .. } => {
                out.push_str(&format!("{tabs}struct {{\n"));
                let path: Vec<String> = path.iter().chain([name]).cloned().collect();
                text_members(inside, (scope, &path), depth + 1, out);
                out.push_str(&format!("{tabs}}} {name};\n"));
            }
            Member::Field(name, field, length) => {
                if let (Some([.., own]), Length::Own) = (length.as_deref(), field.length) {
                    out.push_str(&format!("{tabs}{} {own};\n", integer(32)));
                }
                let ty = match &field.shape {
                    Shape::Bytes => integer(8),
                    Shape::List(element) => text_type(element.as_deref().unwrap_or(&Shape::Unsigned), field),
                    shape => text_type(shape, field),
                };
                let of = match (field.length, length.as_deref()) {
                    (Length::Fixed(length), _) => format!("[{length}]"),
                    (_, Some([beside @ .., length])) if beside == path => format!("[{length}]"),
                    (_, Some(length)) => format!("[event.{scope}.{}]", length.join(".")),
                    (_, None) => String::new(),
                };
                out.push_str(&format!("{tabs}{ty} {name}{of};\n"));
            }
        }
    }
}

fn text_type(shape: &Shape, field: &Field) -> String {
    let integer = |signed: bool| {
        let base = if field.base == 10 { String::new() } else { format!(" base = {};", field.base) };
        format!("integer {{ size = 64; align = 8; signed = {signed};{base} }}")
    };
    match shape {
        Shape::Unsigned | Shape::Signed if !field.labels.is_empty() => {
            let labels: Vec<String> = field.labels.iter().map(|(value, label)| format!("{} = {value}", write::quote(label))).collect();
            format!("enum : {} {{ {} }}", integer(*shape == Shape::Signed), labels.join(", "))
        }
        Shape::Unsigned => integer(false),
        Shape::Signed => integer(true),
        // CTF 1.8 has no truth.
        Shape::Bool => "integer { size = 8; align = 8; signed = false; }".to_owned(),
        Shape::Real => "floating_point { exp_dig = 11; mant_dig = 53; align = 8; byte_order = le; }".to_owned(),
        Shape::Text => "string".to_owned(),
        Shape::Nothing => "struct { }".to_owned(),
        Shape::Bytes | Shape::List(_) => self::integer(8),
        Shape::Fields(fields) => {
            let inside: Vec<String> =
                fields.iter().map(|(name, shape)| format!("{} {};", text_type(shape, field), identifier(name))).collect();
            format!("struct {{ {} }}", inside.join(" "))
        }
    }
}

/// CTF 2: fragments of JSON.
pub fn fragments(described: &Described<'_>) -> String {
    let unsigned = |length: u32, roles: &[&str]| {
        let mut class = json!({ "type": "fixed-length-unsigned-integer", "length": length, "byte-order": "little-endian", "alignment": 8 });
        if !roles.is_empty() {
            class["roles"] = json!(roles);
        }
        class
    };
    let structure = |members: Vec<(&str, Value)>| {
        let members: Vec<Value> = members.into_iter().map(|(name, class)| json!({ "name": name, "field-class": class })).collect();
        json!({ "type": "structure", "member-classes": members })
    };
    let environment: Map<String, Value> = described
        .environment
        .iter()
        .map(|(name, value)| {
            let value = match value {
                EnvValue::Int(value) => json!(value),
                EnvValue::Text(text) => json!(text),
            };
            (name.clone(), value)
        })
        .collect();
    let mut all = vec![
        json!({ "type": "preamble", "version": 2 }),
        json!({
            "type": "trace-class",
            "environment": environment,
            "packet-header-field-class": structure(vec![
                ("magic", unsigned(32, &["packet-magic-number"])),
                ("stream_id", unsigned(32, &["data-stream-class-id"])),
            ]),
        }),
        json!({
            "type": "clock-class",
            "id": "monotonic",
            "name": "monotonic",
            "frequency": 1_000_000_000u64,
            "origin": "unix-epoch",
            "offset-from-origin": { "seconds": described.base_s, "cycles": 0 },
        }),
    ];
    for form in described.forms {
        let mut context = vec![
            ("timestamp_begin", unsigned(64, &["default-clock-timestamp"])),
            ("timestamp_end", unsigned(64, &["packet-end-default-clock-timestamp"])),
            ("content_size", unsigned(64, &["packet-content-length"])),
            ("packet_size", unsigned(64, &["packet-total-length"])),
            ("packet_seq_num", unsigned(64, &["packet-sequence-number"])),
            ("events_discarded", unsigned(64, &["discarded-event-record-counter-snapshot"])),
        ];
        if form.cpu {
            context.push(("cpu_id", unsigned(32, &[])));
        }
        if form.names {
            context.extend(["label", "thread"].map(|name| (name, json!({ "type": "null-terminated-string" }))));
        }
        if form.ids {
            let id = json!({ "type": "fixed-length-signed-integer", "length": 32, "byte-order": "little-endian", "alignment": 8 });
            context.extend(["pid", "tid"].map(|name| (name, id.clone())));
        }
        all.push(json!({
            "type": "data-stream-class",
            "id": form.id(),
            "default-clock-class-id": "monotonic",
            "packet-context-field-class": structure(context),
            "event-record-header-field-class": structure(vec![
                ("id", unsigned(32, &["event-record-class-id"])),
                ("timestamp", unsigned(64, &["default-clock-timestamp"])),
            ]),
        }));
    }
    for class in described.classes {
        let mut fragment = json!({
            "type": "event-record-class",
            "id": class.id,
            "data-stream-class-id": class.form.id(),
            "name": class.name,
            "payload-field-class": json_members(&members(&class.fields, &str::to_owned), "event-record-payload"),
        });
        if !class.context.0.is_empty() {
            fragment["specific-context-field-class"] =
                json_members(&members(&class.context, &str::to_owned), "event-record-specific-context");
        }
        if !class.attributes.is_empty() {
            // Where LTTng keeps what CTF 1.8 has as `model.emf.uri`.
            fragment["attributes"] = json!({ "lttng.org,2009": { "emf-uri": address(&class.attributes) } });
        }
        all.push(fragment);
    }
    all.iter().map(|fragment| format!("\u{1e}{fragment}\n")).collect()
}

fn json_members(members: &[Member<'_>], scope: &str) -> Value {
    let mut out = Vec::new();
    for member in members {
        match member {
            Member::Structure { name, inside, .. } => out.push(json!({ "name": name, "field-class": json_members(inside, scope) })),
            Member::Field(name, field, length) => {
                if let (Some([.., own]), Length::Own) = (length.as_deref(), field.length) {
                    let class =
                        json!({ "type": "fixed-length-unsigned-integer", "length": 32, "byte-order": "little-endian", "alignment": 8 });
                    out.push(json!({ "name": own, "field-class": class }));
                }
                let mut class = match &field.shape {
                    Shape::Bytes => json!({ "type": "blob" }),
                    Shape::List(element) => {
                        json!({ "type": "array", "element-field-class": json_type(element.as_deref().unwrap_or(&Shape::Unsigned), field) })
                    }
                    shape => json_type(shape, field),
                };
                let kind = class["type"].as_str().unwrap_or("").to_owned();
                match (field.length, length) {
                    (Length::Fixed(length), _) => {
                        class["type"] = json!(format!("static-length-{kind}"));
                        class["length"] = json!(length);
                    }
                    (_, Some(length)) => {
                        class["type"] = json!(format!("dynamic-length-{kind}"));
                        class["length-field-location"] = json!({ "origin": scope, "path": length });
                    }
                    (_, None) => {}
                }
                out.push(json!({ "name": name, "field-class": class }));
            }
        }
    }
    json!({ "type": "structure", "member-classes": out })
}

fn json_type(shape: &Shape, field: &Field) -> Value {
    let fixed = |kind: &str, length: u32| json!({ "type": kind, "length": length, "byte-order": "little-endian", "alignment": 8 });
    let integer = |kind: &str| {
        let mut class = fixed(kind, 64);
        if field.base != 10 {
            class["preferred-display-base"] = json!(field.base);
        }
        if !field.labels.is_empty() {
            let mut mappings: Map<String, Value> = Map::new();
            for (value, label) in &field.labels {
                // Beyond 64 bits there is no value.
                let value = u64::try_from(*value).map_or_else(|_| json!(*value as i64), |value| json!(value));
                let ranges = mappings.entry(label.clone()).or_insert_with(|| json!([]));
                if let Value::Array(ranges) = ranges {
                    ranges.push(json!([value, value]));
                }
            }
            class["mappings"] = Value::Object(mappings);
        }
        class
    };
    match shape {
        Shape::Unsigned => integer("fixed-length-unsigned-integer"),
        Shape::Signed => integer("fixed-length-signed-integer"),
        Shape::Bool => fixed("fixed-length-boolean", 8),
        Shape::Real => fixed("fixed-length-floating-point-number", 64),
        Shape::Text => json!({ "type": "null-terminated-string" }),
        Shape::Nothing | Shape::Bytes | Shape::List(_) => json!({ "type": "structure", "member-classes": [] }),
        Shape::Fields(fields) => {
            let inside: Vec<Value> =
                fields.iter().map(|(name, shape)| json!({ "name": name, "field-class": json_type(shape, field) })).collect();
            json!({ "type": "structure", "member-classes": inside })
        }
    }
}
