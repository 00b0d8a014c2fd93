//! Cross-check of the writer with babeltrace2, where it is installed: it reads generated traces of
//! CTF 1.8, some of them lowered from CTF 2, and must print the same events with the same values.

use crate::common;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::common::generate::case;
use longpole_ctf::types::*;
use longpole_ctf::write::{self, Layout, StreamWriter};
use longpole_ctf::{Metadata, OwnedValue, Packet};

/// A pseudo-random tape for a seed. Tapes are the same in each run and differ in length.
fn tape(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..100 + seed * 7).map(|_| next()).collect()
}

/// Returns `true` if babeltrace2 can read the type. It reads only floating point numbers of 32 and
/// 64 bits, and prints integers of 61 to 63 bits in base 16 as 0.
fn is_readable(ty: &Type) -> bool {
    let all = |members: &[Member]| members.iter().all(|m| is_readable(&m.ty));
    match ty {
        Type::Int(int) => !(matches!(int.size, 61..=63) && int.base == 16),
        Type::Enum(e) => !(matches!(e.int.size, 61..=63) && e.int.base == 16),
        Type::Float(float) => matches!(float.size, 32 | 64),
        Type::Struct(s) => all(s.fields()),
        Type::Array(array) => is_readable(array.element()),
        Type::Variant(variant) => all(variant.options()),
        _ => true,
    }
}

fn structures(schema: &Schema) -> impl Iterator<Item = &Arc<StructType>> {
    let stream = &schema.streams[0];
    let own = stream.events.iter().flat_map(|e| [&e.context, &e.payload]);
    [&schema.trace.packet_header, &stream.packet_context, &stream.event_header, &stream.event_context].into_iter().chain(own).flatten()
}

/// The parts of a value, in order. Floating point numbers are not compared, because babeltrace2
/// prints too few digits.
#[derive(Debug, PartialEq)]
enum Leaf {
    Number(i128),
    Text(String),
    Float,
}

fn leaves(value: &OwnedValue, out: &mut Vec<Leaf>) {
    match value {
        OwnedValue::U64(v) => out.push(Leaf::Number(i128::from(*v))),
        OwnedValue::I64(v) => out.push(Leaf::Number(i128::from(*v))),
        OwnedValue::Bool(v) => out.push(Leaf::Number(i128::from(*v))),
        OwnedValue::F64(_) => out.push(Leaf::Float),
        OwnedValue::Str(text) => out.push(Leaf::Text(String::from_utf8_lossy(text).into_owned())),
        OwnedValue::Bytes(bytes) => out.extend(bytes.iter().map(|b| Leaf::Number(i128::from(*b)))),
        OwnedValue::List(list) => list.iter().for_each(|v| leaves(v, out)),
        OwnedValue::Fields(fields) => fields.iter().for_each(|(_, v)| leaves(v, out)),
        OwnedValue::Nothing => {}
    }
}

/// The texts that babeltrace2 prints after each `=`, without the fields that were made when the
/// trace was lowered.
fn printed(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut name = "";
    let mut rest = line;
    let mut skip = false;
    while let Some(at) = rest.find(['=', '"']) {
        if rest.as_bytes()[at] == b'"' {
            rest = &rest[at + 1..];
            rest = &rest[rest.find('"').unwrap() + 1..];
            continue;
        }
        let before = rest[..at].trim_end().rsplit(' ').next().unwrap();
        if before != "container" {
            name = before;
            skip = name.starts_with("tag_of_") || name.starts_with("length_of_");
        }
        rest = rest[at + 1..].trim_start();
        // An option that is not a structure has no name.
        while rest.starts_with('{') {
            let inner = rest[1..].trim_start();
            let word = inner.split(' ').next().unwrap();
            let text = inner.starts_with('"');
            if !inner.starts_with('{') && !text && (inner[word.len()..].starts_with(" =") || word.starts_with(['}', '(', '['])) {
                break;
            }
            rest = inner;
        }
        let end = match rest.as_bytes()[0] {
            b'"' => rest[1..].find('"').unwrap() + 2,
            b'{' | b'[' | b'(' => continue,
            _ => rest.find([' ', ',']).unwrap_or(rest.len()),
        };
        if !skip {
            out.push(rest[..end].to_owned());
        }
        rest = &rest[end..];
    }
    let _ = name;
    out
}

/// Returns `true` if `text` is how babeltrace2 prints this value.
fn is(leaf: &Leaf, text: &str) -> bool {
    let number = |text: &str| match text.as_bytes() {
        [b'0', b'x', ..] => u64::from_str_radix(&text[2..], 16).map(i128::from).ok(),
        [b'0', b'b', ..] => u64::from_str_radix(&text[2..], 2).map(i128::from).ok(),
        // babeltrace2 prints one digit more than necessary for a signed integer of 64 bits.
        [b'0', _, ..] => u128::from_str_radix(text, 8).map(|v| i128::from(v as u64)).ok(),
        _ => text.parse().ok(),
    };
    match leaf {
        Leaf::Float => true,
        // For an empty array of characters babeltrace2 prints the text of the previous event.
        Leaf::Text(wanted) if wanted.is_empty() => text.starts_with('"'),
        Leaf::Text(wanted) => text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) == Some(wanted),
        Leaf::Number(wanted) => {
            let Some(found) = number(text) else { return false };
            // In other bases than ten babeltrace2 prints negative numbers as their bits.
            let bits = 128 - (found as u128).leading_zeros();
            found == *wanted || *wanted < 0 && found > 0 && *wanted as u128 & (u128::MAX >> (128 - bits)) == found as u128
        }
    }
}

fn write_trace(folder: &Path, schema: &Schema, layout: Arc<Layout>, case: &common::generate::Case) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("metadata"), write::metadata(schema)).unwrap();
    let mut writer = StreamWriter::new(layout, 0);
    let begin = case.events.first().map_or(0, |(_, time, _)| *time);
    writer.begin(&Packet { begin: Some(begin), context: case.context.clone(), ..Packet::default() }).unwrap();
    for (class, time, values) in &case.events {
        writer.event(*class, *time, values).unwrap();
    }
    writer.end().unwrap();
    std::fs::write(folder.join("stream"), writer.take()).unwrap();
}

/// Messages of babeltrace2 about schemas that it cannot read: it fails an assertion of its own,
/// finds relative paths in fewer places than the specification allows, and accepts only single
/// names as tags.
const LIMITS: [&str; 3] = ["Assertion `tgt_fc` failed", "Cannot get relative field path", "expecting IDENTIFIER or ID_TYPE"];

#[test]
fn babeltrace2_reads_generated_traces_with_the_same_values() {
    if Command::new("babeltrace2").arg("--version").output().is_err() {
        eprintln!("not at hand: babeltrace2");
        return;
    }
    let root = std::env::temp_dir().join(format!("longpole-ctf-babeltrace-{}", std::process::id()));
    let (mut compared, mut lowered, mut limits) = (0, 0, 0);
    for (seed, version) in (0..100).flat_map(|seed| [(seed, Version::V1_8), (seed, Version::V2)]) {
        let mut case = case(version, &tape(seed));
        case.schema.clocks[0].frequency = 1_000_000_000;
        // babeltrace2 stops if time runs backwards.
        let mut times: Vec<u64> = case.events.iter().map(|e| e.1).collect();
        times.sort_unstable();
        case.events.iter_mut().zip(times).for_each(|(event, time)| event.1 = time);
        let layout = Arc::new(match version {
            Version::V1_8 => Layout::new(Arc::new(Metadata::from_schema(case.schema.clone()).unwrap())).unwrap(),
            Version::V2 => Layout::to_ctf1(&case.schema).unwrap(),
        });
        let schema = layout.metadata().schema().clone();
        if !structures(&schema).all(|s| is_readable(&Type::Struct(s.clone()))) {
            continue;
        }
        let folder = root.join(format!("{seed}-{version:?}"));
        write_trace(&folder, &schema, layout, &case);
        let output = Command::new("babeltrace2").arg(&folder).output().unwrap();
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() && LIMITS.iter().any(|limit| errors.contains(limit)) {
            limits += 1;
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        assert!(output.status.success() && lines.len() == case.events.len(), "{}: {errors}", folder.display());
        for (line, (_, _, values)) in lines.iter().zip(&case.events) {
            let mut wanted = Vec::new();
            case.context.iter().for_each(|(_, value)| leaves(value, &mut wanted));
            values.iter().for_each(|value| leaves(value, &mut wanted));
            let found = printed(line.split_once(": ").unwrap().1);
            let same = wanted.len() == found.len() && wanted.iter().zip(&found).all(|(leaf, text)| is(leaf, text));
            assert!(same, "{}: {line}\n{wanted:?}\n{found:?}", folder.display());
            compared += 1;
        }
        lowered += usize::from(version == Version::V2);
    }
    let _ = std::fs::remove_dir_all(&root);
    assert!(
        compared > 200 && lowered > 15 && limits < 25,
        "{compared} events, {lowered} lowered traces, {limits} that babeltrace2 does not read"
    );
}

#[test]
fn babeltrace2_reads_streams_without_a_field_for_their_id() {
    if Command::new("babeltrace2").arg("--version").output().is_err() {
        eprintln!("not at hand: babeltrace2");
        return;
    }
    let metadata = Metadata::from_text(
        r#"{"type": "preamble", "version": 2}
{"type": "data-stream-class"}
{"type": "event-record-class", "name": "e", "payload-field-class": {"type": "structure", "member-classes": [
  {"name": "s", "field-class": {"type": "null-terminated-string"}}]}}"#,
    );
    let layout = Arc::new(Layout::to_ctf1(&metadata.unwrap()).unwrap());
    let folder = std::env::temp_dir().join(format!("longpole-ctf-babeltrace-no-id-{}", std::process::id()));
    let text = |text: &str| vec![OwnedValue::Str(text.as_bytes().to_vec())];
    let schema = layout.metadata().schema().clone();
    let case = common::generate::Case { schema: schema.clone(), events: vec![(0, 0, text("x")), (0, 0, text("y"))], context: Vec::new() };
    write_trace(&folder, &schema, layout, &case);
    let output = Command::new("babeltrace2").arg(&folder).output().unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    let lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines, [r#"e: { s = "x" }"#, r#"e: { s = "y" }"#], "{}", String::from_utf8_lossy(&output.stderr));
}
