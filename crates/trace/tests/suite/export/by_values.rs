//! Export of a CTF trace by its values, in both versions: labels within fields and the values of
//! packet contexts are preserved.

use longpole_trace::Catalogue;
use longpole_trace::CtfWriter;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use longpole_trace::Value;
use longpole_trace::Version;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; }; };
env { procname = "p"; vpid = 9; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := stamp;
typealias enum : u8 { idle = 0, busy = 1, full = 2 ... 9 } := mode;
stream { id = 0;
    packet.context := struct { u32 content_size; u32 packet_size; stamp timestamp_begin; stamp timestamp_end;
        mode mode; struct { u8 n; string label; mode each[2]; } user; u8 last; };
    event.header := struct { u8 id; stamp timestamp; }; };
event { id = 0; name = e; stream_id = 0; fields := struct {
    mode each[3]; u8 n; mode some[n]; struct { mode inner; u8 plain; } of[2]; enum : u8 { one = 1, two = 2 } tag;
    variant <tag> { mode one; struct { mode deep[2]; } two; } chosen; struct { } nothing; }; };
"#;

fn packet(mode: u8, text: &str, events: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut body = vec![mode, 5];
    body.extend(text.as_bytes());
    body.extend([0, 1, 7, 77]);
    for (t, fields) in events {
        body.push(0);
        body.extend(t.to_le_bytes());
        body.extend(fields);
    }
    let bits = ((8 + 8 + 16 + body.len()) * 8) as u32;
    let mut packet = Vec::new();
    for word in [0xC1FC_1FC1, 0, bits, bits] {
        packet.extend(u32::to_le_bytes(word));
    }
    packet.extend([events[0].0.to_le_bytes(), events[events.len() - 1].0.to_le_bytes()].concat());
    packet.extend(body);
    packet
}

fn text(value: &Value<'_>) -> String {
    match value {
        Value::Enum { value, label: "" } => value.to_string(),
        Value::Enum { label, .. } => (*label).to_owned(),
        Value::U64(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::Str(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Bytes(bytes) => format!("{bytes:?}"),
        Value::Nested(nested) => {
            let mut parts = Vec::new();
            let Ok(()) = nested.each(|name, part| {
                parts.push(format!("{}{}", name.map(|name| format!("{name}=")).unwrap_or_default(), text(&part)));
                Ok::<(), std::convert::Infallible>(())
            });
            format!("[{}]", parts.join(" "))
        }
        other => format!("{other:?}"),
    }
}

fn line(item: &Item<'_>, catalogue: &Catalogue) -> String {
    let Item::Event(event) = item else { return String::new() };
    let class = &catalogue.classes[event.class.0 as usize];
    let pairs = |names: &[String], values: Vec<Value<'_>>| -> Vec<String> {
        names.iter().zip(&values).map(|(name, value)| format!("{name}={}", text(value))).collect()
    };
    let packet = pairs(&class.packet, event.packet.iter().collect());
    let who = &catalogue.subjects[event.subject.0 as usize];
    format!(
        "{:?} {:?} {} {} {:?} {packet:?}",
        (&who.label, &who.thread),
        (who.pid, who.tid),
        event.t_ns,
        class.event_name,
        pairs(&class.fields, event.fields.to_vec())
    )
}

fn read(path: &Path) -> Vec<String> {
    let mut trace = Trace::open(&[path], Options::default()).unwrap();
    let mut lines = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        lines.push(line(&item, catalogue));
    }
    assert!(!trace.is_damaged(), "{:?}", trace.diagnostics());
    lines
}

/// Exports a trace by its values. Returns the number of packets.
fn written(path: &Path, to: &Path, version: Version) -> u64 {
    let mut trace = Trace::open(&[path], Options::default()).unwrap();
    let mut writer = CtfWriter::create(to, version, 0, Vec::new()).unwrap();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        writer.item(&item, catalogue).unwrap();
    }
    writer.finish().unwrap();
    let mut again = Trace::open(&[to], Options::default()).unwrap();
    while again.next_item().unwrap().is_some() {}
    (0..again.catalogue().streams.len()).map(|stream| again.packets(longpole_trace::StreamId(stream as u32)).packets).sum()
}

#[test]
fn labels_within_fields_and_packet_contexts_are_preserved() {
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("metadata"), METADATA).unwrap();
    let one = vec![0, 1, 12, 2, 1, 0, 1, 3, 9, 4, 1, 2];
    let two = vec![1, 1, 1, 3, 5, 5, 0, 9, 0, 1, 0, 2, 1, 11];
    let packets = [packet(1, "first", &[(100, one.clone()), (110, two.clone())]), packet(12, "", &[(200, two)])];
    fs::write(source.join("a"), packets.concat()).unwrap();
    fs::write(source.join("b"), packet(0, "other", &[(105, one)])).unwrap();
    let expected = read(&source);
    assert_eq!(expected.len(), 4);
    let all = expected.concat();
    for part in ["each=[idle busy 12]", "some=[busy idle]", "of=[[inner=busy plain=3] [inner=full plain=4]]", "deep=[busy 11]"] {
        assert!(all.contains(part), "{part} {all}");
    }
    assert!(
        all.contains("mode=busy")
            && all.contains("user.label=first")
            && all.contains("(Some(9), None)")
            && all.contains("user.each=[busy full]"),
        "{all}"
    );
    for version in [Version::One, Version::Two] {
        let to = directory.path().join(format!("{version:?}"));
        written(&source, &to, version);
        // An exported structure is read back as flat fields.
        let flat = |line: &String| {
            line.replace("chosen=[one=full]", "chosen.one=full").replace("chosen=[two=[deep=[busy 11]]]", "chosen.two.deep=[busy 11]")
        };
        assert_eq!(read(&to), expected.iter().map(flat).collect::<Vec<_>>(), "{version:?}");
    }
}

#[test]
fn alternating_threads_do_not_lead_to_packets_of_one_event() {
    let directory = TempDir::new().unwrap();
    let events: Vec<String> =
        (0..20_000).map(|n| format!(r#"{{"name":"e","ph":"i","ts":{n},"pid":1,"tid":{},"args":{{"n":{n}}}}}"#, n % 50)).collect();
    let source = directory.path().join("a.json");
    fs::write(&source, format!("[{}]", events.join(",\n"))).unwrap();
    let to = directory.path().join("to");
    let packets = written(&source, &to, Version::One);
    assert!(packets < 1_000, "{packets} packets");
    let count = |lines: &[String]| {
        lines.iter().fold(HashMap::new(), |mut all, line| {
            *all.entry(line.clone()).or_insert(0) += 1;
            all
        })
    };
    assert_eq!(count(&read(&to)), count(&read(&source)));
}
