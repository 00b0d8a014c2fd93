//! Conversion of CTF traces to CTF: packet times that babeltrace2 refuses are corrected.

use longpole_testing::user_trace;
use longpole_trace::rewrite;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Rewritten;
use longpole_trace::Trace;
use longpole_trace::Value;
use longpole_trace::Version;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const METADATA: &str = "/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := t64;
typealias integer { size = 64; align = 8; } := u64;
stream {
  packet.context := struct { t64 timestamp_begin; t64 timestamp_end; u64 content_size; u64 packet_size; };
  event.header := struct { t64 timestamp; };
};
event { name = e; fields := struct { integer { size = 16; align = 8; signed = true; } n; }; };
";

/// Makes a trace of packets, each with its begin, its end, and the times of its events.
fn trace(place: &Path, packets: &[(u64, u64, &[u64])]) -> PathBuf {
    let path = place.join("trace");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("metadata"), METADATA).unwrap();
    let mut bytes = Vec::new();
    for (begin, end, times) in packets {
        let bits = 8 * (32 + 10 * times.len() as u64);
        [*begin, *end, bits, bits].iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        for time in *times {
            bytes.extend(time.to_le_bytes());
            bytes.extend((*time as i16).to_le_bytes());
        }
    }
    fs::write(path.join("stream"), bytes).unwrap();
    path
}

#[test]
fn packet_that_ends_after_the_next_begins_gets_an_earlier_end() {
    let place = TempDir::new().unwrap();
    let source = trace(place.path(), &[(10, 30, &[11, 12]), (20, 22, &[21, 25]), (26, 40, &[])]);
    for (version, name) in [(Version::One, "1"), (Version::Two, "2")] {
        let out = place.path().join(name);
        let Rewritten::Done(written, diagnostics) = rewrite(&source, &out, version).unwrap() else { panic!("it is not written") };
        assert_eq!((written.events, diagnostics.len()), (4, 0));
        let read = fs::read(out.join("stream")).unwrap();
        // Only these bytes have changed.
        let before = fs::read(source.join("stream")).unwrap();
        let changed: Vec<usize> = (0..before.len()).filter(|at| before[*at] != read[*at]).collect();
        assert_eq!((before.len(), changed), (read.len(), vec![8, 52 + 8]));
        assert_eq!((read[8], read[52 + 8]), (20, 25));
        if version == Version::One {
            if let Some(found) = user_trace::babeltrace2(&out) {
                assert_eq!(found, (4, 0));
            }
        }
    }
}

#[test]
fn unordered_events_are_left_to_the_export_that_sorts() {
    let place = TempDir::new().unwrap();
    let times: [&[(u64, u64, &[u64])]; 3] = [&[(10, 30, &[12, 11])], &[(10, 30, &[11, 12]), (11, 40, &[13])], &[(10, 30, &[9])]];
    for packets in times {
        let source = trace(place.path(), packets);
        let out = place.path().join("out");
        let done = rewrite(&source, &out, Version::One).unwrap();
        assert!(matches!(&done, Rewritten::Disordered(stream) if *stream == source.join("stream")), "{done:?}");
        // The folder is left empty, so the export by values can use it.
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
        fs::remove_dir_all(source).unwrap();
    }
}

fn events(path: &Path) -> u64 {
    let mut trace = Trace::open(&[path], Options::default()).unwrap();
    let mut events = 0;
    while let Some(item) = trace.next_item().unwrap() {
        events += u64::from(matches!(item, Item::Event(_)));
    }
    events
}

#[test]
fn every_valid_trace_of_other_tools_is_converted_to_both_versions_and_back() {
    let Some(corpora) = user_trace::corpus("") else { return };
    let rows = fs::read_to_string(corpora.join("expected.tsv")).unwrap();
    let mut traces = 0;
    for row in rows.lines().map(|row| row.split('\t').collect::<Vec<_>>()).filter(|row| row[2] == "accept") {
        let source = corpora.join(row[0]);
        if !source.is_dir() {
            continue;
        }
        let expected = events(&source);
        for [first, second] in [[Version::One, Version::Two], [Version::Two, Version::One]] {
            let place = TempDir::new().unwrap();
            let (there, back) = (place.path().join("there"), place.path().join("back"));
            for (from, to, version) in [(&source, &there, first), (&there, &back, second)] {
                let done = rewrite(from, to, version).unwrap_or_else(|error| panic!("{}: {error}", row[0]));
                assert!(matches!(&done, Rewritten::Done(written, _) if written.events == expected), "{}: {done:?}", row[0]);
                assert_eq!(events(to), expected, "{}", row[0]);
            }
        }
        traces += 1;
    }
    assert!(traces > 200, "{traces}");
}

/// Names of fields that are keywords of TSDL, in a file with packets of two stream classes.
const UNUSUAL: &str = "/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 8; } stream_id; }; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 8; } := u8;
typealias integer { size = 8; map = clock.c.value; } := time;
stream { id = 0; packet.context := struct { u8 content_size; u8 packet_size; }; event.header := struct { time timestamp; }; };
stream { id = 1; packet.context := struct { u8 content_size; u8 packet_size; u8 signed; }; event.header := struct { time timestamp; }; };
event { name = one; id = 0; stream_id = 0; fields := struct { u8 int; u8 double[int]; struct { u8 x; u8 y; } float; }; };
event { name = two; id = 0; stream_id = 1; fields := struct { enum : u8 { a = 0, b } short; variant <short> { u8 a; u8 b; } long; }; };
";

#[test]
fn packets_of_several_classes_and_names_that_are_keywords_are_readable_by_other_tools() {
    let place = TempDir::new().unwrap();
    let source = place.path().join("trace");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("metadata"), UNUSUAL).unwrap();
    let packets =
        [[0, 72, 72, 1, 2, 8, 9, 1, 2].as_slice(), &[1, 56, 56, 7, 2, 1, 33], &[0, 56, 56, 3, 0, 3, 4], &[1, 56, 56, 6, 4, 0, 44]];
    fs::write(source.join("stream"), packets.concat()).unwrap();
    // A file with the name that would be chosen for another stream.
    fs::write(source.join("stream.2"), packets[1]).unwrap();
    let shown = |path: &Path| {
        let mut trace = Trace::open(&[path], Options::default()).unwrap();
        let mut lines = Vec::new();
        while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
            let Item::Event(event) = item else { continue };
            let class = &catalogue.classes[event.class.0 as usize];
            let packet: Vec<_> = event.packet.iter().collect();
            let mut parts = Vec::new();
            for value in event.fields {
                match value {
                    Value::Nested(nested) => nested
                        .each(|name, part| {
                            parts.push(format!("{name:?} {part:?}"));
                            Ok::<(), ()>(())
                        })
                        .unwrap(),
                    value => parts.push(format!("{value:?}")),
                }
            }
            lines.push(format!("{} {:?} {:?} {parts:?} {packet:?}", class.event_name, class.fields, class.packet));
        }
        assert!(!trace.is_damaged());
        lines.sort();
        lines
    };
    let expected = shown(&source);
    assert_eq!(expected.len(), 5);
    let out = place.path().join("out");
    let Rewritten::Done(written, diagnostics) = rewrite(&source, &out, Version::One).unwrap() else { panic!("it is not written") };
    assert_eq!((written.events, diagnostics.len()), (5, 0));
    assert_eq!(shown(&out), expected);
    assert_eq!(fs::read(out.join("stream")).unwrap(), [packets[0], packets[2]].concat());
    assert_eq!(fs::read(out.join("stream.3")).unwrap(), [packets[1], packets[3]].concat());
    if let Some(found) = user_trace::babeltrace2(&out) {
        assert_eq!(found, (5, 0));
    }
}

#[test]
fn packets_of_a_class_without_times_stay_in_their_file() {
    let place = TempDir::new().unwrap();
    let source = place.path().join("trace");
    fs::create_dir(&source).unwrap();
    let header = " event.header := struct { time timestamp; };";
    let at = UNUSUAL.rfind(header).unwrap();
    fs::write(source.join("metadata"), [&UNUSUAL[..at], &UNUSUAL[at + header.len()..]].concat()).unwrap();
    let packets = [[0, 72, 72, 1, 2, 8, 9, 1, 2].as_slice(), &[1, 48, 48, 7, 1, 33], &[0, 56, 56, 3, 0, 3, 4]].concat();
    fs::write(source.join("stream"), &packets).unwrap();
    let out = place.path().join("out");
    assert!(matches!(rewrite(&source, &out, Version::One).unwrap(), Rewritten::Done(written, _) if written.events == 3));
    assert_eq!(fs::read(out.join("stream")).unwrap(), packets);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 2);
}
