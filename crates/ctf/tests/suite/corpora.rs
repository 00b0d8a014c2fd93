//! Traces of other tools with their expected contents: every row of `expected.tsv`.

use crate::common;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use longpole_ctf::types::Type;
use longpole_ctf::{BytesSource, CompoundKind, DecodeError, FileSource, Metadata, Step, StreamDecoder, Value};

/// Rows that are known to fail, with the reason. A row that passes must be removed from this list.
const OPEN: [(&str, &str); 0] = [];

fn streams(trace: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(trace)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.is_file() && p.file_name().is_some_and(|n| n != "metadata" && !n.to_string_lossy().starts_with('.')))
        .collect();
    paths.sort();
    paths
}

fn metadata(trace: &Path) -> Result<Arc<Metadata>, String> {
    let bytes = std::fs::read(trace.join("metadata")).map_err(|e| e.to_string())?;
    Metadata::parse(&bytes).map(Arc::new).map_err(|e| e.to_string())
}

/// The number of events of all streams, including partial ones, and the errors that ended streams.
fn read(trace: &Path) -> Result<(u64, Vec<DecodeError>), String> {
    let metadata = metadata(trace)?;
    let (mut events, mut errors) = (0, Vec::new());
    for path in streams(trace) {
        let mut stream = StreamDecoder::new(metadata.clone(), BytesSource(std::fs::read(path).unwrap()));
        loop {
            match stream.advance() {
                Ok(None) => break,
                Ok(Some(Step::Event)) => {
                    events += 1;
                    stream.event().values().for_each(|v| drop(v.to_owned()));
                }
                Ok(Some(_)) => {}
                Err(e) => {
                    events += u64::from(stream.partial().is_some());
                    errors.push(*e);
                    break;
                }
            }
        }
    }
    Ok((events, errors))
}

fn check(trace: &Path, verdict: &str, count: Option<u64>) -> Result<(), String> {
    let found = read(trace);
    match (verdict, &found) {
        ("accept", Ok((events, errors))) if errors.is_empty() && count.is_none_or(|c| c == *events) => Ok(()),
        ("reject", Err(_)) => Ok(()),
        ("reject", Ok((events, errors))) if !errors.is_empty() && count.is_none_or(|c| c == *events) => Ok(()),
        ("error after events", Ok((1.., errors))) if !errors.is_empty() => Ok(()),
        _ => Err(format!("{verdict} {count:?}, found {found:?}")),
    }
}

#[test]
fn every_trace_yields_its_expected_number_of_events_and_errors() {
    let Some(corpora) = common::corpora("traces of other tools") else { return };
    let table = std::fs::read_to_string(corpora.join("expected.tsv")).unwrap();
    let mut wrong = String::new();
    let mut rows = 0;
    for line in table.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, "1.8" | "2", verdict, count, ..] = columns[..] else { continue };
        rows += 1;
        let result = check(&corpora.join(name), verdict, count.parse().ok());
        let open = OPEN.iter().find(|(row, _)| *row == name);
        match (result, open) {
            (Ok(()), Some((_, reason))) => writeln!(wrong, "{name}: listed as open ({reason}), but right").unwrap(),
            (Err(e), None) => writeln!(wrong, "{name}: {e}").unwrap(),
            _ => {}
        }
    }
    assert!(rows > 290, "only {rows} rows");
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn errors_have_the_bit_position_that_yactfr_reports() {
    let Some(corpora) = common::corpora("yactfr's cases") else { return };
    let mut count = 0;
    let cases = ["ctf-1", "ctf-2", "ctf-2/auto-translated"].map(|folder| corpora.join("yactfr/expanded").join(folder));
    for entry in cases.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()) {
        let case = entry.unwrap().path();
        if !case.file_name().unwrap().to_string_lossy().starts_with("fail-") {
            continue;
        }
        let expected = std::fs::read_to_string(case.join("expect.txt")).unwrap();
        let bit: u64 = expected.lines().last().unwrap().split_whitespace().next().unwrap().parse().unwrap();
        let (_, errors) = read(&case.join("trace")).unwrap();
        let error = &errors[0];
        assert_eq!(error.packet_offset * 8 + error.bit_offset, bit, "{}: {error}", case.display());
        count += 1;
    }
    assert!(count > 15);
}

/// A value in the notation of the expectations of babeltrace's field tests.
enum Shown {
    Leaf(String),
    Map(Vec<(String, Shown)>),
    List(Vec<Shown>),
}

fn shown(value: &Value<'_>, ty: &Type) -> Shown {
    let part = |index: usize| match ty {
        Type::Array(array) => array.element(),
        Type::Struct(s) => &s.fields()[index].ty,
        Type::Optional(optional) => optional.ty(),
        _ => ty,
    };
    let base = match ty {
        Type::Int(int) => int.base,
        Type::Enum(e) => e.int.base,
        Type::VarInt(int) => int.base,
        _ => 10,
    };
    Shown::Leaf(match value {
        Value::U64(v) if matches!(ty, Type::Optional(_)) => return shown(&Value::U64(*v), part(0)),
        Value::U64(v) if matches!(ty, Type::Bits(_)) => {
            let Type::Bits(bits) = ty else { unreachable!() };
            let digits: Vec<String> = (0..bits.int.size).rev().map(|bit| (v >> bit & 1).to_string()).collect();
            format!("[{}]", digits.join(", "))
        }
        Value::Bool(v) => if *v { "yes" } else { "no" }.to_owned(),
        Value::Nothing => "~".to_owned(),
        Value::Wide(v) => format!("\"{}\"", v.decode()),
        Value::U64(v) => match base {
            16 => format!("{v:#x}"),
            8 => format!("{v:#o}"),
            2 => format!("{v:#b}"),
            _ => v.to_string(),
        },
        Value::I64(v) => v.to_string(),
        Value::F64(v) => format!("{v:.6}"),
        Value::Str(v) => format!("\"{}\"", String::from_utf8_lossy(v)),
        Value::Bytes(v) if matches!(ty, Type::Blob(_)) && !v.is_empty() => {
            v.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
        }
        Value::Bytes(v) => return Shown::List(v.iter().map(|b| Shown::Leaf(b.to_string())).collect()),
        Value::Array(a) => return Shown::List(a.iter().map(|v| shown(&v, part(0))).collect()),
        Value::Compound(_) if matches!(ty, Type::Optional(_)) => return shown(value, part(0)),
        Value::Compound(c) => {
            let types = |index| match (ty, c.chosen()) {
                (Type::Variant(variant), Some(option)) => &variant.options()[option].ty,
                _ => part(index),
            };
            let parts = c.iter().enumerate().map(|(i, (n, v))| (n.map_or(String::new(), |n| n.to_string()), shown(&v, types(i))));
            return match c.kind() {
                CompoundKind::Struct => Shown::Map(parts.collect()),
                CompoundKind::Array => Shown::List(parts.map(|(_, v)| v).collect()),
                CompoundKind::Variant => parts.map(|(_, v)| v).next().unwrap(),
            };
        }
    })
}

impl Shown {
    fn insert(&mut self, path: &str, value: Shown) {
        let Shown::Map(map) = self else { panic!("{path} lies in no structure") };
        match path.split_once('.') {
            None => map.push((path.to_owned(), value)),
            Some((first, rest)) => {
                if map.last().is_none_or(|(n, _)| n != first) {
                    map.push((first.to_owned(), Shown::Map(Vec::new())));
                }
                map.last_mut().unwrap().1.insert(rest, value);
            }
        }
    }

    fn lines(&self) -> Vec<String> {
        let indented = |v: &Shown| v.lines().iter().map(|l| format!("  {l}")).collect::<Vec<_>>();
        match self {
            Shown::Leaf(text) => vec![text.clone()],
            Shown::Map(m) if m.is_empty() => vec!["∅".to_owned()],
            Shown::List(l) if l.is_empty() => vec!["∅".to_owned()],
            Shown::Map(m) => m
                .iter()
                .flat_map(|(name, value)| match value.lines() {
                    lines if lines.len() == 1 && !lines[0].starts_with("- ") && !matches!(value, Shown::Map(m) if !m.is_empty()) => {
                        vec![format!("{name}: {}", lines[0])]
                    }
                    _ => [vec![format!("{name}:")], indented(value)].concat(),
                })
                .collect(),
            Shown::List(l) => l
                .iter()
                .flat_map(|value| match value {
                    Shown::List(inner) if !inner.is_empty() => [vec!["-".to_owned()], indented(value)].concat(),
                    // The notation of a structure that contains only an array.
                    Shown::Map(inner) if matches!(&inner[..], [(_, Shown::List(list))] if !list.is_empty()) => {
                        [vec![format!("- {}:", inner[0].0)], indented(&inner[0].1)].concat()
                    }
                    _ => {
                        let mut lines = indented(value);
                        lines[0] = format!("- {}", &lines[0][2..]);
                        lines
                    }
                })
                .collect(),
        }
    }
}

#[test]
fn every_field_decodes_to_the_value_that_babeltrace_expects() {
    let Some(corpora) = common::corpora("babeltrace's field tests") else { return };
    let mut count = 0;
    let mut wrong = String::new();
    for entry in std::fs::read_dir(corpora.join("babeltrace/field-traces")).unwrap() {
        let case = entry.unwrap().path();
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        if !name.contains("-pass-") {
            continue;
        }
        count += 1;
        let metadata = metadata(&case.join("trace")).unwrap();
        let mut stream = StreamDecoder::new(metadata, BytesSource(std::fs::read(case.join("trace/data")).unwrap()));
        while !matches!(stream.advance().unwrap(), Some(Step::Event)) {}
        let event = stream.event();
        let mut root = Shown::Map(Vec::new());
        for (field, value) in event.fields().iter().zip(event.values()) {
            root.insert(&field.name, shown(&value, &field.ty));
        }
        let Shown::Map(mut fields) = root else { unreachable!() };
        let found = fields.remove(0).1.lines().join("\n");
        let expected = std::fs::read_to_string(case.join("expect.txt")).unwrap();
        if found.trim() != expected.trim() {
            writeln!(wrong, "{name}: expected\n{expected}\nfound\n{found}").unwrap();
        }
    }
    assert!(count > 190, "only {count} cases");
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn columns_hold_the_values_of_single_events() {
    let Some(corpora) = common::corpora("traces of other tools, by columns") else { return };
    let table = std::fs::read_to_string(corpora.join("expected.tsv")).unwrap();
    let mut events = 0;
    for name in table.lines().skip(1).filter_map(|line| line.split('\t').next()) {
        let trace = corpora.join(name);
        let Ok(metadata) = metadata(&trace) else { continue };
        for path in streams(&trace) {
            let whole = std::fs::read(&path).unwrap();
            let rows = common::dump_rows(&metadata, BytesSource(&whole));
            // From a whole buffer, and through a window that moves.
            let file = FileSource::new(std::fs::File::open(&path).unwrap()).unwrap();
            assert!(common::dump_columns(&metadata, BytesSource(&whole)) == rows, "{}", path.display());
            assert!(common::dump_headers(&metadata, BytesSource(&whole)) == common::headers_of(&rows), "{}", path.display());
            assert!(common::dump_columns(&metadata, file) == rows, "{} as a file", path.display());
            events += rows.0.len();
        }
    }
    assert!(events > 100_000, "only {events} events");
}

#[test]
fn metadata_of_lttng_kernel_traces_parses() {
    let Some(corpora) = common::corpora("metadata of LTTng kernel traces") else { return };
    let mut classes = 0;
    for version in ["2.6", "2.10"] {
        let mut folders = vec![corpora.join("lttng-kernel-metadata").join(version)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("metadata")) {
                    let metadata = Metadata::parse(&std::fs::read(&path).unwrap());
                    let metadata = metadata.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                    classes += metadata.streams.iter().map(|s| s.events.len()).sum::<usize>();
                }
            }
        }
    }
    assert!(classes >= 1398, "only {classes} event classes");
}

#[test]
fn traces_of_genodes_recorder_are_read_with_label_and_thread() {
    let Some(corpora) = common::corpora("traces in Genode's layout") else { return };
    for name in ["ctf", "nm", "tree/init/ping", "tree/init/nic_router"] {
        let trace = corpora.join("genode").join(name);
        let metadata = metadata(&trace).unwrap();
        let mut events = 0;
        for path in streams(&trace) {
            let mut stream = StreamDecoder::new(metadata.clone(), BytesSource(std::fs::read(path).unwrap()));
            while let Some(step) = stream.advance().unwrap() {
                events += u64::from(step == Step::Event);
                let text = |field: &str| stream.packet().field(field).and_then(|v| v.text().map(|t| t.into_owned()));
                assert!(text("session_label").is_some_and(|t| t.contains("init")), "{name}");
                assert!(text("thread_name").is_some_and(|t| !t.is_empty()), "{name}");
            }
        }
        assert!(events > 0, "{name}");
    }
}

/// babeltrace2 prints six digits, and no decimal point if it is not needed.
fn float(v: f64) -> String {
    if v.fract() == 0.0 && v.abs() < 1e6 {
        format!("{v}")
    } else {
        format!("{v:.3e}")
    }
}

/// Numbers and texts of an event, in order.
fn tokens(value: &Value<'_>, out: &mut Vec<String>) {
    match value {
        Value::U64(v) => out.push(v.to_string()),
        Value::I64(v) => out.push(v.to_string()),
        Value::F64(v) => out.push(float(*v)),
        Value::Bool(v) => out.push(v.to_string()),
        Value::Nothing => {}
        Value::Wide(v) => out.push(v.decode()),
        Value::Str(v) => out.push(String::from_utf8_lossy(v).into_owned()),
        Value::Bytes(v) => out.extend(v.iter().map(u8::to_string)),
        Value::Array(a) => a.iter().for_each(|v| tokens(&v, out)),
        Value::Compound(c) => c.iter().for_each(|(_, v)| tokens(&v, out)),
    }
}

/// The same for a line of babeltrace2, without names, array indices and labels.
fn babeltrace_tokens(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    let characters: Vec<char> = line.chars().collect();
    let mut at = 0;
    while at < characters.len() {
        match characters[at] {
            '"' => {
                let mut text = String::new();
                at += 1;
                while characters[at] != '"' {
                    if characters[at] == '\\' {
                        at += 1;
                    }
                    text.push(characters[at]);
                    at += 1;
                }
                at += 1;
                // A label is printed before its value.
                if characters[at..].starts_with(&[' ', ':']) || characters[at..].starts_with(&[',']) && characters[at + 2] == '"' {
                    continue;
                }
                out.push(text);
            }
            '[' => at = characters[at..].iter().position(|c| *c == ']' || *c == ' ').map_or(at + 1, |n| at + n + 1),
            c if c.is_ascii_alphanumeric() || c == '-' || c == '_' => {
                let end = characters[at..].iter().position(|c| " ,}".contains(*c)).map_or(characters.len(), |n| at + n);
                let word: String = characters[at..end].iter().collect();
                if characters[end..].starts_with(&[' ', '=']) {
                    // The name of a field.
                } else if let Some(hex) = word.strip_prefix("0x") {
                    out.push(u64::from_str_radix(hex, 16).unwrap().to_string());
                } else if let Some(octal) = word.strip_prefix('0').filter(|o| !o.is_empty() && o.chars().all(|c| c.is_digit(8))) {
                    out.push(u64::from_str_radix(octal, 8).unwrap().to_string());
                } else if word.contains('.') || word.contains("e+") || word.contains("e-") {
                    out.push(word.parse::<f64>().map_or(word, float));
                } else {
                    out.push(word);
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    out
}

#[test]
fn events_times_and_values_equal_those_of_babeltrace2() {
    let Some(corpora) = common::corpora("comparison with babeltrace2") else { return };
    if Command::new("babeltrace2").arg("--version").output().is_err() {
        eprintln!("skipped: comparison with babeltrace2 (it is not installed)");
        return;
    }
    for name in [
        "babeltrace/ctf-traces/1/succeed/wk-heartbeat-u",
        "babeltrace/ctf-traces/1/succeed/succeed1",
        "babeltrace/ctf-traces/1/succeed/session-rotation/a/1/ust/pid/10353",
        "babeltrace/ctf-traces/1/succeed/lf-metadata",
        "tracecompass-test-traces/context-switches/context-switches-ust",
        "tracecompass-test-traces/flipping-endianness",
        "tracecompass-test-traces/double_counters",
        "tracecompass-test-traces/ros2",
    ] {
        let trace = corpora.join(name);
        let text = Command::new("babeltrace2").args(["--clock-cycles", "--no-delta", "--fields="]).arg(&trace).output().unwrap();
        assert!(text.status.success(), "{name}");
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        // Only event contexts and payloads are compared; packet contexts come first, in their own
        // braces.
        let mut theirs: HashMap<String, i64> = HashMap::new();
        for line in text.lines() {
            let (time, rest) = line.strip_prefix('[').and_then(|l| l.split_once("] ")).unwrap_or(("0", line));
            let (event, fields) = rest.split_once(": {").unwrap_or((rest.trim_end_matches([' ', ':']), ""));
            // Host and process are printed before the name; no event of these traces has a space in
            // its name.
            let event = event.rsplit(' ').next().unwrap();
            *theirs.entry(format!("{} {event} {:?}", time.trim_start_matches('0'), babeltrace_tokens(fields))).or_default() += 1;
        }
        let metadata = metadata(&trace).unwrap();
        let mut missing = Vec::new();
        for path in streams(&trace) {
            let mut stream = StreamDecoder::new(metadata.clone(), BytesSource(std::fs::read(path).unwrap()));
            let mut context = Vec::new();
            while let Some(step) = stream.advance().unwrap() {
                if step == Step::PacketBegin {
                    context.clear();
                    for (field, value) in &stream.packet().context {
                        const KNOWN: [&str; 6] =
                            ["timestamp_begin", "timestamp_end", "content_size", "packet_size", "packet_seq_num", "events_discarded"];
                        if let (Some(v), false) = (value.as_i64(), KNOWN.contains(&&**field)) {
                            context.push(v.to_string());
                        }
                    }
                }
                if step != Step::Event {
                    continue;
                }
                let event = stream.event();
                let mut values = context.clone();
                event.values().for_each(|v| tokens(&v, &mut values));
                let clock = metadata.stream_clock(event.stream_index());
                let time = if clock.is_some() { event.cycles().to_string() } else { String::new() };
                let line = format!("{} {} {values:?}", time.trim_start_matches('0'), event.name());
                match theirs.get_mut(&line) {
                    Some(count) => *count -= 1,
                    None => missing.push(line),
                }
            }
        }
        let left: Vec<_> = theirs.iter().filter(|(_, c)| **c != 0).take(3).collect();
        assert!(
            missing.is_empty() && left.is_empty(),
            "{name}: {} of ours are not in babeltrace2's:\n{:#?}\nof its:\n{left:#?}",
            missing.len(),
            &missing[..missing.len().min(3)],
        );
    }
}
