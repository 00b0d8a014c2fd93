//! Tests that compare the tables with the metadata of real LTTng traces, and the table in the
//! documentation with these tables.

use super::super::ctf::{self, Preamble};
use super::{Layout, Transform, ValueSource};
use crate::kernel::convert::statedump_classes;
use longpole_ctf::types::{Member, StructType};
use longpole_ctf::Metadata;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const CLOCK: &str = "clock {\n\tname = \"longpole\";\n\tfreq = 1000000000;\n};";

/// Metadata with all classes in the tables.
fn ours() -> Metadata {
    let layout = Layout::new("x86_64").unwrap();
    let uuid = "00000000-0000-0000-0000-000000000001".to_owned();
    let mut text =
        ctf::preamble(&Preamble { uuid, host: "h", kernel: "k", clock_source: "tsc", clock: CLOCK, context: &[], damaged_pages: 0 });
    let mut id = 0;
    let mut class = |name: &str, fields: Vec<(String, super::Kind)>| {
        ctf::class(&mut text, id, name, &fields, None);
        id += 1;
    };
    for row in &layout.events {
        class(&row.name, row.fields.iter().map(|field| (field.name.clone(), field.kind.clone())).collect());
    }
    for row in layout.calls.iter().filter(|row| row.like.is_some()) {
        class(&format!("syscall_entry_{}", row.name), row.args.iter().map(|field| (field.name.clone(), field.kind.clone())).collect());
    }
    for (name, fields) in statedump_classes() {
        class(&name, fields);
    }
    Metadata::from_text(&text).unwrap()
}

fn reference(version: &str) -> Option<Metadata> {
    let Some(corpora) = std::env::var_os("LONGPOLE_CORPORA") else {
        println!("skipped: comparing the tables with LTTng's metadata (LONGPOLE_CORPORA is not set)");
        return None;
    };
    let path = PathBuf::from(corpora).join("lttng-kernel-metadata").join(version).join("metadata");
    Some(Metadata::parse(&std::fs::read(path).unwrap()).unwrap())
}

fn payloads(metadata: &Metadata) -> BTreeMap<String, StructType> {
    let events = metadata.streams.iter().flat_map(|stream| &stream.events);
    events.filter_map(|event| Some((event.name.clone(), StructType::clone(event.payload.as_ref()?)))).collect()
}

/// Returns name and type of a member, without the positions in the metadata text that a type
/// contains.
fn text(member: &Member) -> String {
    let text = format!("{} {:?}", member.name, member.ty);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("span: Span {") {
        out.push_str(&rest[..at]);
        rest = &rest[at + rest[at..].find('}').unwrap_or(0) + 1..];
    }
    out + rest
}

#[test]
fn every_mapped_event_has_lttngs_name_fields_types_and_order() {
    let (Some(new), Some(old)) = (reference("2.10"), reference("2.6")) else { return };
    let references = BTreeMap::from([("2.10", payloads(&new)), ("2.6", payloads(&old))]);
    let ours = payloads(&ours());
    let layout = Layout::new("x86_64").unwrap();
    let mut wanted: Vec<(String, String, bool)> = layout.events.iter().map(|row| (row.name.clone(), row.like.clone(), true)).collect();
    for row in &layout.calls {
        wanted.extend(row.like.clone().map(|like| (format!("syscall_entry_{}", row.name), like, true)));
    }
    // Our state dump has more fields after LTTng's, and more classes.
    let likewise = statedump_classes().into_iter().filter(|(name, _)| name.starts_with("lttng_"));
    wanted.extend(likewise.map(|(name, _)| (name, "2.10".to_owned(), false)));
    let mut compared = 0;
    let mut differ = Vec::new();
    for (name, like, exact) in wanted {
        let Some(reference) = references.get(like.as_str()) else {
            assert!(like.contains('/'), "{name}: {like} is neither a reference nor a public source");
            assert!(references.values().all(|known| !known.contains_key(&name)), "{name} has a reference");
            continue;
        };
        let theirs: Vec<String> =
            reference.get(&name).unwrap_or_else(|| panic!("{name}: no such event")).fields().iter().map(text).collect();
        let mut own: Vec<String> = ours[&name].fields().iter().map(text).collect();
        if !exact {
            own.truncate(theirs.len());
        }
        if own != theirs {
            differ.push(format!("{name}: {own:#?} instead of {theirs:#?}"));
        }
        compared += 1;
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(compared > 350, "{compared}");
    println!("{compared} event classes are LTTng's");
}

#[test]
fn header_and_packet_context_are_the_same_as_lttngs() {
    let Some(theirs) = reference("2.10") else { return };
    let ours = ours();
    let scrub = |members: &[Member]| members.iter().map(text).collect::<Vec<_>>();
    let context = |metadata: &Metadata| scrub(metadata.streams[0].packet_context.as_ref().unwrap().fields());
    assert_eq!(context(&ours), context(&theirs));
    let header = |metadata: &Metadata| scrub(metadata.trace.packet_header.as_ref().unwrap().fields());
    assert_eq!(header(&ours), header(&theirs));
}

/// Returns the documentation's table: event of the kernel, event in the trace, what it was compared
/// with, and fields that are not simply copied.
fn table() -> String {
    let layout = Layout::new("x86_64").unwrap();
    let mut text =
        String::from("| kernel | in the trace | compared with, or source | fields that differ from the kernel's |\n|---|---|---|---|\n");
    for row in &layout.events {
        let differ: Vec<String> = row
            .fields
            .iter()
            .chain(&row.more)
            .filter_map(|field| {
                let what = match field.transform {
                    Transform::Plain => String::new(),
                    Transform::Prio => " − 100".to_owned(),
                    Transform::State => ", low 8 bits".to_owned(),
                    Transform::Rwbs => " as flags".to_owned(),
                    Transform::Process => "'s process".to_owned(),
                    Transform::ChildProcess => "'s process".to_owned(),
                    Transform::Micro => " ÷ 1000".to_owned(),
                };
                match &field.source {
                    ValueSource::Constant(value) => Some(format!("`{}` = {value}", field.name)),
                    ValueSource::Field(source) if *source != field.name || !what.is_empty() => {
                        Some(format!("`{}` = `{source}`{what}", field.name))
                    }
                    ValueSource::Field(_) => None,
                }
            })
            .collect();
        let like = if row.like.contains('/') { row.like.clone() } else { format!("lttng-modules {}", row.like) };
        // Writing into a String cannot fail.
        let _ = writeln!(text, "| `{}` | `{}` | {like} | {} |", row.from.replace('/', ":"), row.name, differ.join(", "));
    }
    text
}

#[test]
fn the_documentation_shows_the_table() {
    const BEGIN: &str = "<!-- made from crates/record/src/kernel/layout/events.toml; LONGPOLE_WRITE_DOCS=1 makes it anew -->\n";
    const END: &str = "<!-- end -->";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/kernel-trace.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let begin = text.find(BEGIN).unwrap() + BEGIN.len();
    let end = begin + text[begin..].find(END).unwrap();
    if std::env::var_os("LONGPOLE_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{}{}{}", &text[..begin], table(), &text[end..])).unwrap();
    } else {
        assert_eq!(&text[begin..end], table());
    }
}
