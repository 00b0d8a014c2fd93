//! Recordings in Longpole's own layout, intact and damaged.

use longpole_testing::user_trace::{babeltrace2, Fake, Field, Kind, EPOCH_S};
use longpole_trace::Diagnostic;
use longpole_trace::Error;
use longpole_trace::Item;
use longpole_trace::Moment;
use longpole_trace::Options;
use longpole_trace::StreamKind;
use longpole_trace::Trace;
use longpole_trace::Value;
use std::fs::OpenOptions;
use std::path::Path;
use tempfile::TempDir;

const EPOCH: i64 = EPOCH_S * 1_000_000_000;

/// Shows an item as `+time name thread fields`, or `+time lost n since +time`.
fn lines(trace: &mut Trace) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        lines.push(match item {
            Item::Event(event) => {
                let class = &catalogue.classes[event.class.0 as usize];
                let subject = &catalogue.subjects[event.subject.0 as usize];
                let mut line = format!("+{} {} {}", event.t_ns - EPOCH, class.event_name, subject.thread);
                for (name, value) in class.fields.iter().zip(event.fields) {
                    line += &match value {
                        Value::U64(value) => format!(" {name}={value}"),
                        Value::I64(value) => format!(" {name}={value}"),
                        Value::F64(value) => format!(" {name}={value}"),
                        Value::Bytes(bytes) => format!(" {name}={bytes:?}"),
                        other => format!(" {name}={}", other.text().unwrap_or_default()),
                    };
                }
                line
            }
            Item::Loss(loss) => {
                format!("+{} lost {:?} since +{}", loss.end_ns - EPOCH, loss.events, loss.begin_ns - EPOCH)
            }
        });
    }
    lines
}

fn open(path: &Path) -> Trace {
    Trace::open(&[path], Options::default()).unwrap()
}

/// Writes two threads with fields of all kinds, and seven events lost on the first.
fn small(directory: &Path) -> Fake {
    let mut fake = Fake::new(directory);
    let begin = fake.class_at("span_begin:parse", &[], Some("longpole:site?file=router.cpp&line=120"));
    let put = fake.class("queue_put:a.submit", &[("count", Kind::U64)]);
    let event = fake.class("event:mixed", &[("i", Kind::I64), ("f", Kind::F64), ("text", Kind::Text)]);
    let fields = [("direction", Kind::U32), ("length", Kind::U32), ("captured", Kind::U64), ("bytes", Kind::Bytes)];
    let packet = fake.class("packet:eth0", &fields);
    let mut first = fake.lane("init -> router", "ep", 10, 11);
    first.event(100, begin, &[]);
    first.event(300, put, &[Field::U64(3)]);
    first.packet();
    first.discarded = 7;
    first.event(900, event, &[Field::I64(-4), Field::F64(0.5), Field::Text("grün")]);
    first.finish();
    let mut second = fake.lane("init -> sink", "main", 20, 21);
    second.event(200, put, &[Field::U64(1)]);
    second.event(300, packet, &[Field::U32(1), Field::U32(1400), Field::U64(3), Field::Bytes(&[1, 2, 3])]);
    second.finish();
    fake.finish();
    fake
}

#[test]
fn events_of_all_streams_are_in_the_order_of_time_and_a_loss_comes_at_its_end() {
    let directory = TempDir::new().unwrap();
    small(directory.path());
    let mut trace = open(directory.path());
    assert_eq!(
        lines(&mut trace),
        [
            "+100 span_begin:parse ep",
            "+200 queue_put:a.submit main count=1",
            "+300 queue_put:a.submit ep count=3",
            "+300 packet:eth0 main direction=1 length=1400 captured=3 bytes=[1, 2, 3]",
            "+900 lost Some(7) since +300",
            "+900 event:mixed ep i=-4 f=0.5 text=grün",
        ]
    );
    assert_eq!(trace.start_ns(), Some(EPOCH + 100));
    assert_eq!(trace.producers(), ["longpole"]);
    assert_eq!(trace.clock().frequency_hz, Some(1_000_000_000));
    assert_eq!(trace.probe_cost_ns(), Some(9.8));
    let catalogue = trace.catalogue();
    assert_eq!(catalogue.classes[0].attributes[0], ("file".to_owned(), "router.cpp".to_owned()));
    assert_eq!(catalogue.streams.len(), 2);
    assert!(catalogue.streams.iter().all(|stream| stream.kind == StreamKind::User));
    let subject = catalogue.subjects.iter().find(|subject| subject.thread == "ep").unwrap();
    assert_eq!((subject.label.as_str(), subject.pid, subject.tid), ("init -> router", Some(10), Some(11)));
    assert_eq!(subject.host, "testhost");
}

#[test]
fn loss_lies_between_the_surrounding_events_for_any_packet_times() {
    let directory = TempDir::new().unwrap();
    let mut fake = Fake::new(directory.path());
    let put = fake.class("queue_put:q", &[("count", Kind::U64)]);
    let mut lane = fake.lane("a", "t", 1, 1);
    lane.event(100, put, &[Field::U64(1)]);
    lane.event(200, put, &[Field::U64(2)]);
    // Older recorders ended a packet where the next one begins.
    lane.packet_at(100, 500);
    lane.discarded += 3;
    lane.event(500, put, &[Field::U64(3)]);
    lane.event(800, put, &[Field::U64(4)]);
    lane.packet_at(500, 800);
    // What a ring lost before its thread changed to a larger ring follows directly after its last
    // event, in a packet without events.
    lane.discarded += 4;
    lane.packet_at(800, 800);
    lane.event(1_000, put, &[Field::U64(5)]);
    lane.packet_at(1_000, 1_000);
    // The events that were lost at the very end.
    lane.discarded += 5;
    lane.packet_at(1_300, 1_300);
    lane.finish();
    fake.finish();
    assert_eq!(
        lines(&mut open(directory.path())),
        [
            "+100 queue_put:q t count=1",
            "+200 queue_put:q t count=2",
            "+500 lost Some(3) since +200",
            "+500 queue_put:q t count=3",
            "+800 queue_put:q t count=4",
            "+1000 lost Some(4) since +800",
            "+1000 queue_put:q t count=5",
            "+1300 lost Some(5) since +1000",
        ]
    );
}

#[test]
fn events_and_losses_equal_those_that_babeltrace2_counts() {
    let directory = TempDir::new().unwrap();
    let mut fake = Fake::new(directory.path());
    let put = fake.class("queue_put:q", &[("count", Kind::U64)]);
    for lane in 0..3 {
        let mut lane = fake.lane(&format!("label {lane}"), "t", lane, lane);
        for n in 0..20_000u64 {
            lane.event(1000 + 10 * n + lane.pid as u64, put, &[Field::U64(n)]);
            if n % 5000 == 4999 {
                lane.packet();
                lane.discarded += n / 1000;
            }
        }
        lane.packet();
        lane.finish();
    }
    fake.finish();
    let (mut events, mut lost) = (0, 0);
    let mut trace = open(directory.path());
    let mut last = i64::MIN;
    while let Some(item) = trace.next_item().unwrap() {
        match item {
            Item::Event(event) => {
                assert!(event.t_ns >= last);
                last = event.t_ns;
                events += 1;
            }
            Item::Loss(loss) => lost += loss.events.unwrap(),
        }
    }
    assert_eq!(events, 60_000);
    assert_eq!(lost, 3 * (4 + 9 + 14 + 19));
    if let Some(told) = babeltrace2(&directory.path().join("user")) {
        assert_eq!((events, lost), told);
    }
}

#[test]
fn part_selected_by_absolute_and_relative_times_includes_its_losses() {
    let directory = TempDir::new().unwrap();
    small(directory.path());
    let part = |begin, end| lines(&mut Trace::open(&[directory.path()], Options { begin, end, ..Options::default() }).unwrap());
    let chosen = part(Some(Moment::AfterStart(100)), Some(Moment::At(EPOCH + 300)));
    let expected = [
        "+200 queue_put:a.submit main count=1",
        "+300 queue_put:a.submit ep count=3",
        "+300 packet:eth0 main direction=1 length=1400 captured=3 bytes=[1, 2, 3]",
        "+900 lost Some(7) since +300",
    ];
    assert_eq!(chosen, expected);
    assert_eq!(part(Some(Moment::AfterStart(700)), None), ["+900 lost Some(7) since +300", "+900 event:mixed ep i=-4 f=0.5 text=grün"]);
    assert_eq!(part(None, Some(Moment::AfterStart(-1))), Vec::<String>::new());
}

#[test]
fn file_that_ends_inside_a_packet_is_read_up_to_its_end_and_reported() {
    let directory = TempDir::new().unwrap();
    let mut fake = Fake::new(directory.path());
    let put = fake.class("queue_put:q", &[("count", Kind::U64)]);
    let mut lane = fake.lane("a", "t", 1, 1);
    for n in 0..10 {
        lane.event(1000 + n, put, &[Field::U64(n)]);
    }
    lane.packet();
    for n in 10..20 {
        lane.event(1000 + n, put, &[Field::U64(n)]);
    }
    let path = lane.finish();
    fake.finish();
    // After the first two packets of 4 KiB: a header of 256 bytes, three events of 16 bytes, and
    // half an event.
    OpenOptions::new().write(true).open(&path).unwrap().set_len(2 * 4096 + 256 + 3 * 16 + 8).unwrap();
    let mut trace = open(directory.path());
    assert_eq!(lines(&mut trace).len(), 13);
    assert!(!trace.is_damaged());
    assert!(trace.diagnostics().iter().any(|diagnostic| matches!(diagnostic, Diagnostic::Truncated { .. })), "{:?}", trace.diagnostics());
}

#[test]
fn space_reserved_by_a_live_recorder_contains_no_events() {
    let directory = TempDir::new().unwrap();
    let mut fake = Fake::new(directory.path());
    let put = fake.class("queue_put:q", &[("count", Kind::U64)]);
    let mut lane = fake.lane("a", "t", 1, 1);
    lane.event(1000, put, &[Field::U64(0)]);
    lane.packet();
    let begin = lane.bytes.len();
    lane.packet_at(1000, 1000);
    // The empty packet covers a mebibyte that is a hole in the file.
    lane.bytes[begin + 48..begin + 56].copy_from_slice(&(8u64 << 20).to_le_bytes());
    let path = lane.finish();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(begin as u64 + (1 << 20)).unwrap();
    fake.finish();
    let mut trace = open(directory.path());
    assert_eq!(lines(&mut trace), ["+1000 queue_put:q t count=0"]);
    assert!(matches!(trace.diagnostics(), [Diagnostic::Unfinished { .. }]), "{:?}", trace.diagnostics());
}

#[test]
fn metadata_with_an_unfinished_last_block_is_read_up_to_that_block() {
    let directory = TempDir::new().unwrap();
    let fake = small(directory.path());
    let path = directory.path().join("user/metadata");
    let block = "event {\n\tname = \"mark:n\";\n\tid = 4000; /* \\n */\n\tfields := struct { integer { size = 0x10; } a[2]; };\n};\n";
    for end in 1..block.len() {
        std::fs::write(&path, fake.metadata() + &block[..end]).unwrap();
        let mut trace = open(directory.path());
        assert_eq!(lines(&mut trace).len(), 6, "{}", &block[..end]);
        // Without its final newline the block is complete.
        let line = 1 + fake.metadata().lines().count();
        let cut = (end < block.len() - 1).then(|| Diagnostic::CutMetadata { path: path.clone(), line, bytes: end as u64 });
        let told = trace.diagnostics().iter().find(|diagnostic| matches!(diagnostic, Diagnostic::CutMetadata { .. }));
        assert_eq!(told, cut.as_ref(), "{}", &block[..end]);
    }
    let refused = |metadata: &str| {
        std::fs::write(&path, metadata).unwrap();
        let refused = Trace::open(&[directory.path()], Options::default()).err().unwrap().to_string();
        assert!(refused.contains("user/metadata"), "{refused}");
    };
    refused("/* CTF 1.8 */\ntrace {\n};\nnonsense");
    // A complete but invalid block is not taken for the work of a killed recorder.
    for wrong in ["typedef integer { size = 8; } a[-1];\n", "struct s {\n\tunknown a;\n};", "event {\n\tname = \"b;\n\tid = 1;\n};"] {
        refused(&(fake.metadata() + wrong));
    }
}

#[test]
fn missing_packets_are_a_loss_without_a_count() {
    let directory = TempDir::new().unwrap();
    let mut fake = Fake::new(directory.path());
    let mark = fake.class("mark:m", &[]);
    let mut lane = fake.lane("a", "t", 1, 1);
    lane.event(10, mark, &[]);
    lane.packet();
    let begin = lane.bytes.len();
    lane.event(20, mark, &[]);
    lane.packet();
    lane.bytes.truncate(begin);
    lane.event(30, mark, &[]);
    lane.finish();
    fake.finish();
    let mut trace = open(directory.path());
    assert_eq!(lines(&mut trace), ["+10 mark:m t", "+30 lost None since +10", "+30 mark:m t"]);
    assert!(trace.diagnostics().iter().any(|diagnostic| matches!(diagnostic, Diagnostic::PacketsLost { packets: 1, .. })));
}

#[test]
fn damaged_packet_hides_neither_the_next_packet_nor_other_streams() {
    let directory = TempDir::new().unwrap();
    let mut fake = Fake::new(directory.path());
    let put = fake.class("queue_put:q", &[("count", Kind::U64)]);
    let mut broken = fake.lane("broken", "a", 1, 1);
    broken.event(1, put, &[Field::U64(1)]);
    broken.event(2, 77, &[Field::U64(2)]);
    broken.packet();
    broken.event(5, put, &[Field::U64(5)]);
    broken.finish();
    let mut whole = fake.lane("whole", "b", 2, 2);
    whole.event(3, put, &[Field::U64(3)]);
    whole.finish();
    fake.finish();
    let mut trace = open(directory.path());
    assert_eq!(lines(&mut trace), ["+1 queue_put:q a count=1", "+3 queue_put:q b count=3", "+5 queue_put:q a count=5"]);
    assert!(trace.is_damaged());
    let told = trace.diagnostics().iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains("broken-0") && told.contains("77") && told.contains("bit"), "{told}");
}

#[test]
fn path_without_a_trace_is_refused_with_the_formats_that_were_tried() {
    let directory = TempDir::new().unwrap();
    let refused = |path: &Path| Trace::open(&[path], Options::default()).err().unwrap().to_string();
    assert!(refused(directory.path()).contains("the directory is empty"));
    std::fs::create_dir(directory.path().join("below")).unwrap();
    assert!(refused(directory.path()).contains("longpole.json"));
    assert!(refused(&directory.path().join("nowhere")).contains("nowhere"));
    let text = directory.path().join("notes.txt");
    std::fs::write(&text, "hello").unwrap();
    assert!(refused(&text).contains("perf.data       begins with PERFILE2"));
    for name in ["a", "b"] {
        small(&directory.path().join(name));
    }
    let several = Trace::open(&[directory.path()], Options::default()).err().unwrap();
    assert!(matches!(several, Error::SeveralRecordings { count: 2, .. }), "{several}");
}

#[test]
fn description_of_a_recording_contains_clock_probe_cost_and_end() {
    let directory = TempDir::new().unwrap();
    let fake = small(directory.path());
    fake.describe(
        r#"{"host":"h","start_ns":1,"end_ns":2,"probe_cost_ns":11.5,
            "clock":{"source":"tsc","frequency_hz":2500000000,"offset_ns":3,"residual_ns":40}}"#,
    );
    let trace = open(directory.path());
    assert_eq!(trace.diagnostics(), []);
    assert_eq!(trace.clock().source.as_deref(), Some("tsc"));
    assert_eq!(trace.clock().residual_ns, Some(40.0));
    assert_eq!(trace.probe_cost_ns(), Some(11.5));
    assert_eq!(trace.recordings()[0].host.as_deref(), Some("h"));
    fake.describe("{");
    let refused = Trace::open(&[directory.path()], Options::default()).err().unwrap().to_string();
    assert!(refused.contains("longpole.json"), "{refused}");
}

#[test]
fn randomly_changed_bytes_never_make_the_reader_panic_or_hang() {
    let directory = TempDir::new().unwrap();
    let fake = small(directory.path());
    let paths: Vec<_> = std::fs::read_dir(fake.directory.join("user")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..300 {
        let path = &paths[random() as usize % paths.len()];
        let whole = std::fs::read(path).unwrap();
        let mut changed = whole.clone();
        for _ in 0..1 + random() % 4 {
            // Mostly in the first packet's header and events, where a byte matters.
            let at = random() as usize % changed.len().min(4096 + 600);
            changed[at] = random() as u8;
        }
        std::fs::write(path, &changed).unwrap();
        if let Ok(mut trace) = Trace::open(&[directory.path()], Options::default()) {
            let mut items = 0;
            while let Ok(Some(_)) = trace.next_item() {
                items += 1;
                assert!(items < 100_000);
            }
        }
        std::fs::write(path, &whole).unwrap();
    }
}

/// Makes a kernel trace with one event at each of these times.
fn kernel(directory: &Path, times: &[u64]) {
    let kernel = directory.join("kernel");
    std::fs::create_dir_all(&kernel).unwrap();
    let metadata = format!(
        "/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = le; }};\n\
         env {{ domain = \"kernel\"; tracer_name = \"lttng-modules\"; }};\n\
         clock {{ name = \"c\"; freq = 1000000000; offset_s = {EPOCH_S}; }};\n\
         stream {{ event.header := struct {{ integer {{ size = 8; }} id; integer {{ size = 64; align = 8; map = clock.c.value; }} timestamp; }}; }};\n\
         event {{ name = \"sched_switch\"; id = 1; fields := struct {{ integer {{ size = 8; }} _n; }}; }};\n"
    );
    std::fs::write(kernel.join("metadata"), metadata).unwrap();
    let mut bytes = Vec::new();
    for time in times {
        bytes.push(1);
        bytes.extend_from_slice(&time.to_le_bytes());
        bytes.push(7);
    }
    std::fs::write(kernel.join("cpu0"), bytes).unwrap();
}

#[test]
fn kernel_events_are_merged_with_those_of_programs() {
    let directory = TempDir::new().unwrap();
    small(directory.path());
    kernel(directory.path(), &[50, 500]);
    // The remains of a conversion are no trace.
    for part in ["raw", ".converting"] {
        let part = directory.path().join("kernel").join(part);
        std::fs::create_dir_all(&part).unwrap();
        std::fs::write(part.join("cpu0"), b"pages").unwrap();
        std::fs::write(part.join("metadata"), b"half of it").unwrap();
    }
    let mut trace = open(directory.path());
    let lines = lines(&mut trace);
    assert_eq!(lines[0], "+50 sched_switch  n=7");
    let at = lines.iter().position(|line| line == "+500 sched_switch  n=7").unwrap();
    assert!(lines[at - 1].starts_with("+300 ") && at + 1 < lines.len(), "{lines:#?}");
    let kinds: Vec<StreamKind> = trace.catalogue().streams.iter().map(|stream| stream.kind).collect();
    assert!(kinds.contains(&StreamKind::Kernel) && kinds.contains(&StreamKind::User));
    assert!(!trace.diagnostics().iter().any(|diagnostic| matches!(diagnostic, Diagnostic::Unconverted { .. })));
}

#[test]
fn unconverted_pages_are_reported_and_the_rest_is_read() {
    let directory = TempDir::new().unwrap();
    small(directory.path());
    let before = lines(&mut open(directory.path()));
    let raw = directory.path().join("kernel/raw");
    std::fs::create_dir_all(&raw).unwrap();
    std::fs::create_dir_all(directory.path().join("kernel/.converting")).unwrap();
    std::fs::write(directory.path().join("kernel/.converting/metadata"), b"half of it").unwrap();
    let mut trace = open(directory.path());
    assert_eq!(lines(&mut trace), before);
    assert!(trace.diagnostics().contains(&Diagnostic::Unconverted { path: raw }));
    // Without the kernel's events the result is incomplete, so the trace counts as damaged.
    assert!(trace.is_damaged());
}
