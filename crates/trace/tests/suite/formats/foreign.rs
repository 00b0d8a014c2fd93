//! Traces of other tools, and captures.

use longpole_pcapng::{Direction, Interface, Packet, Section, Writer};
use longpole_testing::user_trace;
use longpole_testing::user_trace::corpus;
use longpole_trace::Diagnostic;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::StreamKind;
use longpole_trace::Trace;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Returns the number of events, the number of counted losses, and whether a time was before the
/// previous one.
fn count(trace: &mut Trace) -> (u64, u64, bool) {
    let (mut events, mut lost, mut backwards, mut last) = (0, 0, false, i64::MIN);
    while let Some(item) = trace.next_item().unwrap() {
        match item {
            Item::Event(event) => {
                events += 1;
                backwards |= event.t_ns < last;
                last = event.t_ns;
            }
            Item::Loss(loss) => lost += loss.events.unwrap_or(0),
        }
    }
    (events, lost, backwards)
}

fn open(path: &Path) -> Trace {
    Trace::open(&[path], Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_valid_trace_of_the_corpora_has_the_expected_number_of_events() {
    let Some(root) = corpus(".") else { return };
    let table = fs::read_to_string(root.join("expected.tsv")).unwrap();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for line in table.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [folder, version, verdict, events, ..] = columns[..] else { continue };
        let Ok(expected) = events.parse::<u64>() else { continue };
        if !matches!(version, "1.8" | "2") || verdict != "accept" {
            continue;
        }
        let found = match Trace::open(&[root.join(folder)], Options::default()) {
            Ok(mut trace) => {
                let (events, ..) = count(&mut trace);
                if events != expected || trace.is_damaged() {
                    wrong.push(format!("{folder}: {events} instead of {expected} {:?}", trace.diagnostics()));
                }
                Some(events)
            }
            Err(error) => {
                wrong.push(format!("{folder}: {error}"));
                None
            }
        };
        compared += u64::from(found.is_some());
    }
    assert!(compared > 0, "no trace was compared");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn genode_subjects_are_sessions_and_threads() {
    let Some(root) = corpus("genode") else { return };
    for folder in ["ctf", "tree"] {
        let mut trace = open(&root.join(folder));
        let (_, _, backwards) = count(&mut trace);
        assert!(!backwards);
        let labels: Vec<&str> = trace.catalogue().subjects.iter().map(|subject| subject.label.as_str()).collect();
        assert!(labels.contains(&"init -> nic_router") && labels.contains(&"init -> ping"), "{labels:?}");
        assert!(trace.catalogue().subjects.iter().all(|subject| subject.thread == "ep"));
    }
}

#[test]
fn packets_of_two_threads_in_one_file_are_sorted_by_time() {
    let Some(root) = corpus("genode/nm") else { return };
    let mut trace = open(&root);
    let (events, _, backwards) = count(&mut trace);
    assert!(events > 6);
    assert!(!backwards);
    assert!(matches!(trace.diagnostics(), [Diagnostic::Uncounted { .. }]), "{:?}", trace.diagnostics());
}

#[test]
fn lttng_subjects_come_from_event_contexts() {
    let Some(root) = corpus("tracecompass-test-traces/context-switches") else { return };
    let mut trace = open(&root);
    assert_eq!(count(&mut trace).0, 3934);
    let subject = trace.catalogue().subjects.iter().find(|subject| subject.tid == Some(589)).unwrap();
    assert_eq!((subject.label.as_str(), subject.host.as_str()), ("lemon_server", "qemu1"));
}

/// Writes a capture with two interfaces, three packets out of order, and one drop.
fn capture(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer = Writer::new(fs::File::create(path).unwrap(), &Section::default()).unwrap();
    let up = writer.add_interface(&Interface::ethernet("up", 100)).unwrap();
    let down = writer.add_interface(&Interface::ethernet("down", 100)).unwrap();
    let frame = [0u8; 60];
    writer.packet(&Packet { direction: Direction::Inbound, original_len: 1400, ..Packet::new(up, 3000, &frame) }).unwrap();
    writer.packet(&Packet { direction: Direction::Outbound, ..Packet::new(down, 2000, &frame) }).unwrap();
    writer.packet(&Packet { drop_count: Some(5), ..Packet::new(up, 4000, &frame) }).unwrap();
}

#[test]
fn capture_is_a_stream_of_packets_in_the_order_of_time() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("x.pcapng");
    capture(&path);
    let mut trace = open(&path);
    let mut seen = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        seen.push(match item {
            Item::Event(event) => {
                assert_eq!(catalogue.classes[event.class.0 as usize].event_name, "packet");
                assert_eq!(catalogue.streams[event.stream.0 as usize].kind, StreamKind::Packets);
                let numbers: Vec<u64> = event.fields[1..].iter().filter_map(|value| value.as_u64()).collect();
                format!("{} {} {numbers:?}", event.t_ns, event.fields[0].text().unwrap())
            }
            Item::Loss(loss) => format!("{} lost {:?}", loss.end_ns, loss.events),
        });
    }
    assert_eq!(seen, ["2000 down [2, 60, 60]", "3000 up [1, 1400, 60]", "4000 lost Some(5)", "4000 up [0, 60, 60]"]);
    assert!(matches!(trace.diagnostics(), [Diagnostic::Sorted { events: 1, .. }]), "{:?}", trace.diagnostics());
}

#[test]
fn packets_of_a_recording_are_counted_but_are_no_events() {
    let directory = TempDir::new().unwrap();
    let mut fake = user_trace::Fake::new(directory.path());
    let mark = fake.class("mark:m", &[]);
    let mut lane = fake.lane("a", "t", 1, 1);
    lane.event(1, mark, &[]);
    lane.finish();
    fake.finish();
    fs::create_dir(directory.path().join("packets")).unwrap();
    capture(&directory.path().join("packets/a.pcapng"));
    let mut trace = open(directory.path());
    assert_eq!(count(&mut trace).0, 1);
    let (interfaces, diagnostics) = trace.captures()[0].count(i64::MIN, i64::MAX).unwrap();
    assert_eq!(diagnostics, []);
    let up = interfaces.iter().find(|interface| interface.name == "up").unwrap();
    assert_eq!((up.directions[1].packets, up.directions[1].bytes, up.directions[1].captured), (1, 1400, 60));
    assert_eq!(up.directions[0].packets, 1);
    assert_eq!(up.dropped, Some(5));
    let (part, _) = trace.captures()[0].count(2500, 3500).unwrap();
    assert_eq!(part.iter().flat_map(|interface| interface.directions).map(|traffic| traffic.packets).sum::<u64>(), 1);
}

#[test]
fn interface_with_different_ids_in_two_sections_keeps_its_packets() {
    let Some(path) = corpus("genode/a.pcapng") else { return };
    let mut trace = open(&path);
    assert_eq!(count(&mut trace).0, 4);
    let (interfaces, _) = trace.captures()[0].count(i64::MIN, i64::MAX).unwrap();
    assert_eq!(interfaces.len(), 2);
    assert!(interfaces.iter().all(|interface| interface.directions.iter().map(|t| t.packets).sum::<u64>() == 2));
}

#[test]
fn trace_without_loss_counters_is_reported() {
    let directory = TempDir::new().unwrap();
    for (context, counted) in [
        ("u8 packet_size;", false),
        ("u8 packet_size; u8 cpu_id;", false),
        ("u8 packet_size; u8 events_discarded;", true),
        ("u8 packet_size; struct { u8 packet_seq_num; } inner;", true),
    ] {
        let metadata = format!(
            "/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = le; }}; typealias integer {{ size = 8; }} := u8;
             stream {{ packet.context := struct {{ {context} }}; }}; event {{ name = e; fields := struct {{ u8 x; }}; }};"
        );
        fs::write(directory.path().join("metadata"), metadata).unwrap();
        fs::write(directory.path().join("stream"), [24, 0, 7]).unwrap();
        let mut trace = open(directory.path());
        count(&mut trace);
        let says = trace.diagnostics().iter().any(|diagnostic| matches!(diagnostic, Diagnostic::Uncounted { .. }));
        assert_eq!(says, !counted, "{context}: {:?}", trace.diagnostics());
        assert!(!trace.is_damaged());
    }
}

#[test]
fn several_paths_form_one_trace() {
    let directory = TempDir::new().unwrap();
    let paths: Vec<PathBuf> = ["x.pcapng", "y.pcapng"].iter().map(|name| directory.path().join(name)).collect();
    paths.iter().for_each(|path| capture(path));
    let mut trace = Trace::open(&paths, Options::default()).unwrap();
    assert_eq!(count(&mut trace), (6, 10, false));
    assert_eq!(count(&mut open(directory.path())), (6, 10, false));
}

/// Makes a CTF trace with one event at each of these times.
fn ctf(place: &Path, times: &[u64]) {
    let recorded = place.with_extension("recorded");
    let mut fake = user_trace::Fake::new(&recorded);
    let mark = fake.class("mark:m", &[]);
    let mut lane = fake.lane("a", "t", 1, 1);
    times.iter().for_each(|&t| lane.event(t, mark, &[]));
    lane.finish();
    fake.finish();
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::rename(recorded.join("user"), place).unwrap();
    fs::remove_dir(recorded).unwrap();
}

#[test]
fn folder_with_several_formats_is_one_trace_and_other_files_are_reported() {
    let place = TempDir::new().unwrap();
    let root = place.path().join("session");
    // The layout that LTTng uses for rotated chunks of several hosts.
    for (chunk, times) in [(1, [1, 5]), (2, [7, 9])] {
        for host in ["a", "b"] {
            ctf(&root.join(format!("{host}/archives/chunk-{chunk}/ust/uid/0/64-bit")), &times);
        }
    }
    capture(&root.join("net/x.pcapng"));
    fs::write(root.join("net/trace.json"), r#"[{"ph":"i","name":"j","ts":1}]"#).unwrap();
    fs::write(root.join("notes.txt"), "hello").unwrap();
    fs::write(root.join("large.json"), format!("{{\"text\":\"{}\"}}", "x".repeat(100_000))).unwrap();
    fs::create_dir_all(root.join("c/damaged")).unwrap();
    fs::write(root.join("c/damaged/metadata"), "/* CTF 1.8 */ trace { nonsense").unwrap();
    let mut trace = open(&root);
    assert_eq!(count(&mut trace), (8 + 3 + 1, 5, false));
    let diagnostics: Vec<String> =
        trace.diagnostics().iter().filter(|diagnostic| !matches!(diagnostic, Diagnostic::Sorted { .. })).map(ToString::to_string).collect();
    assert_eq!(diagnostics.len(), 3, "{diagnostics:?}");
    assert!(
        diagnostics.iter().any(|diagnostic| diagnostic.contains("large.json: 1 file is of no trace") && diagnostic.contains("traceEvents")),
        "{diagnostics:?}"
    );
    assert!(
        diagnostics
            .iter()
            .any(|diagnostic| diagnostic.contains("1 file is of no trace") && diagnostic.contains("notes.txt (begins with \"hello\")")),
        "{diagnostics:?}"
    );
    assert!(
        diagnostics.iter().any(|diagnostic| diagnostic.contains("c/damaged cannot be opened and is left out: ")
            && diagnostic.contains("c/damaged/metadata:1:")),
        "{diagnostics:?}"
    );
    assert!(trace.is_damaged());
    // If the damaged trace is the only one, its error is returned.
    assert!(matches!(Trace::open(&[root.join("c")], Options::default()), Err(longpole_trace::Error::Metadata { .. })));
    let names: Vec<&str> = trace.catalogue().streams.iter().map(|stream| stream.name.as_str()).collect();
    assert!(names.contains(&"a/archives/chunk-1/ust/uid/0/64-bit/a-0") && names.contains(&"net/trace.json"), "{names:?}");
}

#[test]
fn folder_without_a_trace_is_refused_with_a_list_of_its_files() {
    let place = TempDir::new().unwrap();
    fs::create_dir(place.path().join("below")).unwrap();
    fs::write(place.path().join("below/a.txt"), "hello").unwrap();
    fs::write(place.path().join("b.json"), r#"{"x":1}"#).unwrap();
    fs::write(place.path().join("c.zip"), b"PK\x03\x04").unwrap();
    fs::write(place.path().join("d"), b"").unwrap();
    let error = Trace::open(&[place.path()], Options::default()).err().unwrap().to_string();
    for part in [
        "Of 4 files",
        "a.txt (begins with \"hello\")",
        "b.json (it is an object of JSON",
        "c.zip (an archive: name it by itself)",
        "d (empty)",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}
