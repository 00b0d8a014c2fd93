//! Tables of the names that LTTng's kernel tracer gives to the kernel's events and their fields.
//! Other tools know this layout.
//!
//! The tables are data (`layout/*.toml`), because they are compared row by row with the metadata of
//! real LTTng traces, and because the documentation's table is made from them. This module parses
//! them and turns them into TSDL and, together with the formats that the kernel states, into a plan
//! per event class (see [`encode`]). Events and fields without a row keep the kernel's own names,
//! so a table that is older than the kernel loses names, never content.

pub(crate) mod encode;
pub(crate) mod known_threads;
#[cfg(test)]
mod reference;

use serde::Deserialize;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

pub use longpole_ftrace::format::Label;

/// The version of lttng-modules whose layout is followed. Readers choose their behaviour by it.
pub const VERSION: (u32, u32, u32) = (2, 10, 0);

/// Type of thread ids and of other signed numbers of 32 bits.
pub(super) const I32: Int = Int { signed: true, ..Int::unsigned(32) };
/// Number that the kernel adds to real-time priorities.
pub(super) const MAX_RT_PRIO: i64 = 100;

const EVENTS: &str = include_str!("layout/events.toml");
const CALLS_X86_64: &str = include_str!("layout/syscalls-x86_64.toml");

/// An event class of the kernel, with its name and fields in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// `system/name` in the kernel.
    pub from: String,
    pub name: String,
    /// The version of lttng-modules that the row was compared with, or the public source of the
    /// row.
    pub like: String,
    pub fields: Vec<FieldRow>,
    /// Our own fields, after all others.
    pub more: Vec<FieldRow>,
}

/// A system call: its name, and its arguments as fields. The source of a field is the index of the
/// argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRow {
    pub number: u32,
    pub name: String,
    /// Same as [`EventRow::like`]. `None` if LTTng's fields need memory of the program, so that
    /// ours differ.
    pub like: Option<String>,
    pub args: Vec<FieldRow>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRow {
    pub name: String,
    pub kind: Kind,
    pub source: ValueSource,
    pub transform: Transform,
}

/// Origin of a field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// A field of the kernel's event, by its name.
    Field(String),
    Constant(u64),
}

/// The type of a field. All types are aligned to bytes, as LTTng aligns them on processors that can
/// load unaligned words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Int(Int),
    /// Numbers with the names by which the kernel prints them.
    Enum(Int, Arc<[Label]>),
    /// An array of this length.
    Ints(Int, u32),
    /// Characters in an array of this length, padded with zero bytes.
    Text(u32),
    String,
    /// A sequence. The first number is the size in bits of its length field.
    List(u32, Int),
    /// A sequence of characters. The number is the size in bits of its length field.
    Chars(u32),
    /// The header of a packet in network events. Only its first byte is written: 0, for "unknown".
    Network,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Int {
    pub bits: u32,
    pub signed: bool,
    /// Base in which readers print the number: 8, 10 or 16.
    pub base: u8,
    /// True for network byte order.
    pub big: bool,
}

/// Conversion of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    Plain,
    /// The kernel's events have `p->prio`, LTTng has `p->prio - MAX_RT_PRIO`.
    Prio,
    /// `prev_state` without the bits that only mean "preempted".
    State,
    /// The letters of a block request (`WFS`) as LTTng's flags.
    Rwbs,
    /// The process of a thread, if the trace has contained it until now.
    Process,
    /// The process of a thread that was just made.
    ChildProcess,
    /// Nanoseconds to microseconds.
    Micro,
}

/// All tables.
#[derive(Debug)]
pub struct Layout {
    pub events: Vec<EventRow>,
    /// System calls, sorted by number.
    pub calls: Vec<CallRow>,
    by_event: HashMap<String, usize>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LayoutError(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsFile {
    event: Vec<EventText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventText {
    from: String,
    name: Option<String>,
    like: String,
    fields: Vec<String>,
    #[serde(default)]
    more: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallsFile {
    call: Vec<CallText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallText {
    number: u32,
    name: String,
    like: Option<String>,
    args: Vec<String>,
}

impl Layout {
    /// Returns the tables for kernels of this architecture, in Rust's spelling. On architectures
    /// without a table of system calls, calls keep their numbers.
    pub fn new(arch: &str) -> Result<Layout, LayoutError> {
        let wrong = |what: &str, error: toml::de::Error| LayoutError(format!("{what}: {error}"));
        let file: EventsFile = toml::from_str(EVENTS).map_err(|e| wrong("events.toml", e))?;
        let mut events = Vec::new();
        let mut by_event = HashMap::new();
        for text in file.event {
            let own = text.from.rsplit('/').next().unwrap_or("").to_owned();
            let rows = |fields: &[String]| fields.iter().map(|f| FieldRow::parse(f)).collect::<Result<_, _>>();
            let (fields, more) = (rows(&text.fields)?, rows(&text.more)?);
            by_event.insert(text.from.clone(), events.len());
            events.push(EventRow { from: text.from, name: text.name.unwrap_or(own), like: text.like, fields, more });
        }
        let mut calls = Vec::new();
        if arch == "x86_64" {
            let file: CallsFile = toml::from_str(CALLS_X86_64).map_err(|e| wrong("syscalls-x86_64.toml", e))?;
            for text in file.call {
                let args = text.args.iter().map(|f| FieldRow::parse(f)).collect::<Result<_, _>>()?;
                calls.push(CallRow { number: text.number, name: text.name, like: text.like, args });
            }
            calls.sort_by_key(|call| call.number);
        }
        Ok(Layout { events, calls, by_event })
    }

    pub fn event(&self, system: &str, name: &str) -> Option<&EventRow> {
        Some(&self.events[*self.by_event.get(&format!("{system}/{name}"))?])
    }
}

impl FieldRow {
    fn parse(text: &str) -> Result<FieldRow, LayoutError> {
        let wrong = || LayoutError(format!("`{text}` is no NAME TYPE [SOURCE [TRANSFORM]]"));
        let mut words = text.split_whitespace();
        let (Some(name), Some(kind)) = (words.next(), words.next()) else { return Err(wrong()) };
        let source = match words.next() {
            None => ValueSource::Field(name.to_owned()),
            Some(source) => match source.strip_prefix('=') {
                Some(constant) => ValueSource::Constant(constant.parse().map_err(|_| wrong())?),
                None => ValueSource::Field(source.to_owned()),
            },
        };
        let transform = match words.next() {
            None => Transform::Plain,
            Some("prio") => Transform::Prio,
            Some("state") => Transform::State,
            Some("rwbs") => Transform::Rwbs,
            Some("process") => Transform::Process,
            Some("child_process") => Transform::ChildProcess,
            Some("micro") => Transform::Micro,
            Some(_) => return Err(wrong()),
        };
        let kind = Kind::parse(kind).ok_or_else(wrong)?;
        Ok(FieldRow { name: name.to_owned(), kind, source, transform })
    }
}

impl Kind {
    fn parse(text: &str) -> Option<Kind> {
        if text == "string" {
            return Some(Kind::String);
        }
        if text == "network" {
            return Some(Kind::Network);
        }
        if let Some(count) = text.strip_prefix("text") {
            return Some(Kind::Text(count.parse().ok()?));
        }
        if let Some(bits) = text.strip_prefix("chars") {
            return Some(Kind::Chars(bits.parse().ok()?));
        }
        if let Some((bits, element)) = text.strip_prefix("list").and_then(|t| t.split_once(':')) {
            return Some(Kind::List(bits.parse().ok()?, Int::parse(element)?));
        }
        if let Some((element, count)) = text.strip_suffix(']').and_then(|t| t.split_once('[')) {
            return Some(Kind::Ints(Int::parse(element)?, count.parse().ok()?));
        }
        Some(Kind::Int(Int::parse(text)?))
    }

    /// Appends the declaration of a field. Its leading underscore separates names from keywords;
    /// readers remove it.
    pub fn declare(&self, name: &str, text: &mut String) {
        // Writing into a String cannot fail.
        let _ = match self {
            Kind::Int(int) => writeln!(text, "\t\t{} _{name};", int.tsdl()),
            Kind::Enum(int, labels) => {
                let labels: Vec<String> = labels.iter().map(|label| format!("\"{}\" = {}", label.name, label.value)).collect();
                writeln!(text, "\t\tenum : {} {{ {} }} _{name};", int.tsdl(), labels.join(", "))
            }
            Kind::Ints(int, count) => writeln!(text, "\t\t{} _{name}[{count}];", int.tsdl()),
            Kind::Text(count) => writeln!(text, "\t\t{} _{name}[{count}];", character(false)),
            Kind::String => writeln!(text, "\t\tstring _{name};"),
            Kind::List(bits, element) => {
                writeln!(text, "\t\t{} __{name}_length;\n\t\t{} _{name}[ __{name}_length ];", Int::unsigned(*bits).tsdl(), element.tsdl())
            }
            Kind::Chars(bits) => {
                writeln!(text, "\t\t{} __{name}_length;\n\t\t{} _{name}[ __{name}_length ];", Int::unsigned(*bits).tsdl(), character(true))
            }
            Kind::Network => writeln!(text, "{}", network(name)),
        };
    }
}

impl Int {
    pub const fn unsigned(bits: u32) -> Int {
        Int { bits, signed: false, base: 10, big: false }
    }

    fn parse(text: &str) -> Option<Int> {
        let (big, text) = match text.strip_prefix("be") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (letter, rest) = text.split_at_checked(1)?;
        let (bits, base) = match rest.split_at_checked(rest.len().checked_sub(1)?)? {
            (bits, "h") => (bits, 16),
            (bits, "o") => (bits, 8),
            _ => (rest, if letter == "x" { 16 } else { 10 }),
        };
        let bits: u32 = bits.parse().ok()?;
        if !matches!(bits, 8 | 16 | 32 | 64) || !matches!(letter, "i" | "u" | "x") {
            return None;
        }
        Some(Int { bits, signed: letter == "i", base, big })
    }

    fn tsdl(&self) -> String {
        format!(
            "integer {{ size = {}; align = 8; signed = {}; encoding = none; base = {};{} }}",
            self.bits,
            u8::from(self.signed),
            self.base,
            if self.big { " byte_order = be;" } else { "" }
        )
    }
}

fn character(signed: bool) -> String {
    format!("integer {{ size = 8; align = 8; signed = {}; encoding = UTF8; base = 10; }}", u8::from(signed))
}

/// Returns the declaration of a packet's header in the form of lttng-modules 2.10: a kind, and the
/// fields of that kind.
fn network(name: &str) -> String {
    let int = |bits: u32, align: u32, base: u32| {
        format!("integer {{ size = {bits}; align = {align}; signed = 0; encoding = none; base = {base}; byte_order = be; }}")
    };
    let (four, byte, byte_hex) = (int(4, 4, 10), int(8, 8, 10), int(8, 8, 16));
    let (half, half_hex, word) = (int(16, 8, 10), int(16, 8, 16), int(32, 8, 10));
    let protocol = format!("enum : {byte} {{ \"_unknown\" = 0 ... 5, \"_tcp\" = 6, \"_unknown\" = 7 ... 255, }}");
    let transport = |tag: &str| {
        format!(
            "variant <{tag}> {{ struct {{ }} _unknown; struct {{ {half} _source_port; {half} _dest_port; {word} _seq; {word} _ack_seq; \
             {four} _data_offset; {three} _reserved; {nine} _flags; {half} _window_size; {half_hex} _checksum; {half} _urg_ptr; }} _tcp; }} _transport_header;",
            three = int(3, 1, 10),
            nine = int(9, 1, 16),
        )
    };
    format!(
        "\t\tenum : {kind} {{ \"_unknown\" = 0, \"_ipv4\" = 1, \"_ipv6\" = 2, }} _{name}_type;\n\
         \t\tvariant <_{name}_type> {{ struct {{ }} _unknown;\n\
         \t\tstruct {{ {four} _version; {four} _ihl; {byte} _tos; {half} _tot_len; {half_hex} _id; {half} _frag_off; {byte} _ttl; {protocol} _protocol; \
         {half_hex} _checksum; struct {{ }} align(8) _saddr_padding; {byte} _saddr[4]; struct {{ }} align(8) _daddr_padding; {byte} _daddr[4]; {ipv4} }} _ipv4;\n\
         \t\tstruct {{ {four} _version; {four} _prio; struct {{ }} align(8) _flow_lbl_padding; {byte_hex} _flow_lbl[3]; {half} _payload_len; {protocol} _nexthdr; \
         {byte} _hop_limit; struct {{ }} align(8) _saddr_padding; {half_hex} _saddr[8]; struct {{ }} align(8) _daddr_padding; {half_hex} _daddr[8]; {ipv6} }} _ipv6;\n\
         \t\t}} _{name};",
        kind = Int::unsigned(8).tsdl(),
        ipv4 = transport("_protocol"),
        ipv6 = transport("_nexthdr"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_well_formed() {
        let layout = Layout::new("x86_64").unwrap();
        assert!(layout.events.len() > 140 && layout.calls.len() > 300);
        let switch = layout.event("sched", "sched_switch").unwrap();
        assert_eq!(switch.fields[3].transform, Transform::State);
        for call in &layout.calls {
            for arg in &call.args {
                let ValueSource::Field(number) = &arg.source else { panic!("{}: a constant", call.name) };
                assert!(number.parse::<usize>().unwrap() < 6, "{}", call.name);
                assert!(matches!(arg.kind, Kind::Int(_)), "{}", call.name);
            }
        }
        assert!(Layout::new("aarch64").unwrap().calls.is_empty());
    }
}
