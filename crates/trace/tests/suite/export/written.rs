//! Export to CTF: whatever is exported is read back unchanged.

use longpole_ctf::OwnedValue;
use longpole_testing::user_trace;
use longpole_trace::Catalogue;
use longpole_trace::Class;
use longpole_trace::ClassId;
use longpole_trace::CtfWriter;
use longpole_trace::Diagnostic;
use longpole_trace::Event;
use longpole_trace::ExportCounts;
use longpole_trace::Item;
use longpole_trace::Loss;
use longpole_trace::Options;
use longpole_trace::PacketValues;
use longpole_trace::Stream;
use longpole_trace::StreamId;
use longpole_trace::StreamKind;
use longpole_trace::Subject;
use longpole_trace::SubjectId;
use longpole_trace::Trace;
use longpole_trace::Value;
use longpole_trace::Version;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

#[derive(Clone, Debug)]
enum Made {
    Unsigned(u64),
    Signed(i64),
    Real(f64),
    Text(Vec<u8>),
    Bytes(Vec<u8>),
    Enum(i64),
    Parts(OwnedValue),
}

impl Made {
    fn value<'a>(&'a self, label: &'a str) -> Value<'a> {
        match self {
            Made::Unsigned(value) => Value::U64(*value),
            Made::Signed(value) => Value::I64(*value),
            Made::Real(value) => Value::F64(*value),
            Made::Text(text) => Value::Str(text),
            Made::Bytes(bytes) => Value::Bytes(bytes),
            Made::Enum(value) => Value::Enum { value: i128::from(*value), label },
            Made::Parts(value) => value.into(),
        }
    }

    /// Returns the value's label. Equal values have equal labels, and some values have none.
    fn label(&self) -> String {
        match self {
            Made::Enum(value) if value % 3 != 0 => format!("l{value}"),
            _ => String::new(),
        }
    }
}

fn made() -> impl Strategy<Value = Made> {
    prop_oneof![
        any::<u64>().prop_map(Made::Unsigned),
        (0u64..4).prop_map(Made::Unsigned),
        any::<i64>().prop_map(Made::Signed),
        any::<f64>().prop_filter("NaN is like no other", |value| !value.is_nan()).prop_map(Made::Real),
        prop::collection::vec(1u8..=255, 0..9).prop_map(Made::Text),
        prop::collection::vec(any::<u8>(), 0..14).prop_map(Made::Bytes),
        (-4i64..4).prop_map(Made::Enum),
        parts().prop_map(Made::Parts),
    ]
}

/// Makes nested values, mostly lists of one type.
fn parts() -> impl Strategy<Value = OwnedValue> {
    let leaf = prop_oneof![
        any::<u64>().prop_map(OwnedValue::U64),
        any::<i64>().prop_map(OwnedValue::I64),
        any::<bool>().prop_map(OwnedValue::Bool),
        "[a-z]{0,3}".prop_map(|text| OwnedValue::Str(text.into_bytes())),
        prop::collection::vec(any::<u8>(), 0..3).prop_map(OwnedValue::Bytes),
        Just(OwnedValue::List(Vec::new())),
    ];
    let list = |element: BoxedStrategy<OwnedValue>| prop::collection::vec(element, 0..4).prop_map(OwnedValue::List);
    // Two of these names are equal after conversion to identifiers of CTF 1.8.
    let fields = |part: BoxedStrategy<OwnedValue>| {
        prop::collection::vec(part, 3)
            .prop_map(|parts| OwnedValue::Fields(["a b", "a-b", "c"].into_iter().map(Arc::from).zip(parts).collect()))
    };
    let numbers = prop_oneof![
        prop::collection::vec(any::<u64>().prop_map(OwnedValue::U64), 0..5).prop_map(OwnedValue::List),
        prop::collection::vec("[a-z]{0,3}".prop_map(|text| OwnedValue::Str(text.into_bytes())), 0..4).prop_map(OwnedValue::List),
        fields(any::<bool>().prop_map(OwnedValue::Bool).boxed()).prop_map(|one| OwnedValue::List(vec![one; 2])),
    ];
    prop_oneof![3 => numbers, 1 => leaf.prop_recursive(3, 12, 4, move |part| prop_oneof![list(part.clone()), fields(part)]).prop_filter("no leaf", |value| matches!(value, OwnedValue::List(_) | OwnedValue::Fields(_)))]
}

/// Collects the plain values in a value. Only these are compared, because structures are read back
/// as flat fields, and a list with elements of several types as a structure.
fn plain(value: &Value<'_>, leaves: &mut Vec<String>) {
    match value {
        Value::Nested(nested) => {
            let Ok(()) = nested.each(|_, part| {
                plain(&part, leaves);
                Ok::<(), std::convert::Infallible>(())
            });
        }
        // CTF 1.8 represents it as an enumeration.
        Value::Bool(value) => leaves.push(u8::from(*value).to_string()),
        Value::Enum { value, label: "true" | "false" } => leaves.push(value.to_string()),
        // If none of an enumeration's values has a label, it is read back as an integer.
        Value::Enum { value, label: "" } => leaves.push(value.to_string()),
        Value::I64(value) => leaves.push(value.to_string()),
        Value::U64(value) => leaves.push(value.to_string()),
        // In a list, bytes are exported as an array of integers.
        Value::Bytes(bytes) => leaves.extend(bytes.iter().map(u8::to_string)),
        value => leaves.push(format!("{value:?}")),
    }
}

#[derive(Clone, Debug)]
struct Happened {
    gap_ns: i64,
    class: usize,
    stream: u32,
    subject: u32,
    cpu: Option<u32>,
    values: Vec<Made>,
    lost: Option<Option<u64>>,
}

fn happened() -> impl Strategy<Value = Happened> {
    let lost = prop_oneof![8 => Just(None), 1 => (1u64..9).prop_map(|lost| Some(Some(lost))), 1 => Just(Some(None))];
    (1i64..1_000_000, 0usize..3, 0u32..2, 0u32..3, prop::option::of(0u32..2), prop::collection::vec(made(), 6), lost)
        .prop_map(|(gap_ns, class, stream, subject, cpu, values, lost)| Happened { gap_ns, class, stream, subject, cpu, values, lost })
}

/// Makes a catalogue with dotted names, which become structures, and with names that are no
/// identifiers.
fn catalogue() -> Catalogue {
    let class = |name: &str, fields: &[&str], context: &[&str]| Class {
        event_name: name.to_owned(),
        fields: fields.iter().map(|name| (*name).to_owned()).collect(),
        bases: vec![16; fields.len()],
        context: context.iter().map(|name| (*name).to_owned()).collect(),
        ..Class::default()
    };
    let subject = |label: &str, ids: Option<i32>| Subject {
        label: label.to_owned(),
        thread: "t".to_owned(),
        pid: ids,
        tid: ids,
        ..Subject::default()
    };
    Catalogue {
        classes: vec![
            class("a \"b\"\\", &["x", "at.x", "at.y", "at.deep.z", "_x_length", "struct"], &[]),
            class("b", &["n", "array", "_array", "e"], &["vpid", "c.d"]),
            class("", &[], &[]),
        ],
        streams: ["one/metadata", ".two"].map(|name| Stream { name: name.to_owned(), kind: StreamKind::User }).to_vec(),
        subjects: vec![subject("p", Some(3)), subject("q", None), Subject { host: "h".to_owned(), ..Subject::default() }],
        ..Catalogue::default()
    }
}

/// Describes an event: its properties, its values, and, if it has no nested values, its values with
/// their names.
fn described(event: &Event<'_>, catalogue: &Catalogue) -> [String; 3] {
    let class = &catalogue.classes[event.class.0 as usize];
    let shown = |names: &[String], values: &[Value<'_>], with_names: bool| {
        // Skips lengths that the export adds, and fields with such a name.
        let all = names.iter().zip(values).filter(|(name, _)| !name.split('.').any(|name| name.trim_end_matches('_').ends_with("_length")));
        let mut leaves = Vec::new();
        for (name, value) in all {
            if with_names {
                leaves.push(name.clone());
            }
            plain(value, &mut leaves);
        }
        leaves.join(" ")
    };
    let subject = &catalogue.subjects[event.subject.0 as usize];
    let who = if event.context.is_empty() { format!("{subject:?}") } else { subject.host.clone() };
    let values = |names| format!("[{}] [{}]", shown(&class.fields, event.fields, names), shown(&class.context, event.context, names));
    let nested = event.fields.iter().chain(event.context).any(|value| matches!(value, Value::Nested(_)));
    let named = if nested { String::new() } else { values(true) };
    [format!("{} {:?} {:?} {who}", event.t_ns, event.cpu, class.event_name), values(false), named]
}

fn checked(all: &[Happened], version: Version) -> Result<(), TestCaseError> {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("out");
    let catalogue = catalogue();
    let begin = 1_700_000_000_123_456_789;
    let mut writer = CtfWriter::create(&path, version, begin, Vec::new()).unwrap();
    let (mut expected, mut lost, mut gaps, mut t_ns) = (Vec::new(), 0, 0, begin);
    let mut has_events = [false; 2];
    for one in all {
        t_ns += one.gap_ns;
        let class = &catalogue.classes[one.class];
        let labels: Vec<String> = one.values.iter().map(Made::label).collect();
        let values: Vec<Value<'_>> = one.values.iter().zip(&labels).map(|(made, label)| made.value(label)).collect();
        let (fields, rest) = values.split_at(class.fields.len().min(values.len()));
        let stream = StreamId(one.stream);
        let context = &rest[..class.context.len()];
        let event = Event {
            t_ns,
            stream,
            subject: SubjectId(one.subject),
            class: ClassId(one.class as u32),
            cpu: one.cpu,
            fields,
            context,
            packet: Default::default(),
        };
        writer.item(&Item::Event(event), &catalogue).unwrap();
        expected.push(described(&event, &catalogue));
        has_events[one.stream as usize] = true;
        if let Some(events) = one.lost {
            t_ns += 5;
            writer.item(&Item::Loss(Loss { stream, begin_ns: t_ns - 4, end_ns: t_ns, events }), &catalogue).unwrap();
            lost += events.unwrap_or(0);
            gaps += u64::from(events.is_none());
        }
    }
    let written = writer.finish().unwrap();
    prop_assert_eq!((written.events, written.lost, written.uncounted), (all.len() as u64, lost, gaps));
    if all.is_empty() {
        return Ok(());
    }
    let mut trace = Trace::open(&[&path], Options::default()).unwrap();
    let mut found = Vec::new();
    let (mut found_lost, mut found_gaps) = (0, 0);
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        match item {
            Item::Event(event) => found.push(described(&event, catalogue)),
            Item::Loss(loss) => {
                found_lost += loss.events.unwrap_or(0);
                found_gaps += u64::from(loss.events.is_none());
            }
        }
    }
    prop_assert!(!trace.diagnostics().iter().any(|diagnostic| diagnostic.is_damage() || diagnostic.is_cut()), "{:?}", trace.diagnostics());
    prop_assert_eq!((found_lost, found_gaps), (lost, gaps));
    // A name that is no identifier, or not unique in CTF 1.8, may be changed. In that case only
    // values are compared.
    for (found, expected) in found.iter().zip(&expected) {
        let same = if expected[2].is_empty() { 2 } else { 3 };
        prop_assert_eq!(&found[..same], &expected[..same]);
    }
    prop_assert_eq!(found.len(), expected.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn events_and_losses_are_read_back_from_ctf_1_8(all in prop::collection::vec(happened(), 0..60)) {
        checked(&all, Version::One)?;
    }

    #[test]
    fn events_and_losses_are_read_back_from_ctf_2(all in prop::collection::vec(happened(), 0..60)) {
        checked(&all, Version::Two)?;
    }
}

#[test]
fn export_without_events_is_a_valid_trace() {
    for version in [Version::One, Version::Two] {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("out");
        let written = write(&path, version, &catalogue(), std::iter::empty());
        assert_eq!((written, read(&path)), (ExportCounts::default(), (Vec::new(), Vec::new())));
    }
}

#[test]
fn folder_that_is_not_empty_is_refused() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("x"), "").unwrap();
    assert!(CtfWriter::create(directory.path(), Version::One, 0, Vec::new()).is_err());
}

/// Time, name and fields of an event.
type Described = (i64, String, Vec<String>);

/// Reads all events, and the diagnostics.
fn read(path: &Path) -> (Vec<Described>, Vec<Diagnostic>) {
    let mut trace = Trace::open(&[path], Options::default()).unwrap();
    let mut found = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        if let Item::Event(event) = item {
            let name = catalogue.classes[event.class.0 as usize].event_name.clone();
            let fields = event.fields.iter().map(|value| value.text().map_or(format!("{value:?}"), |text| text.into_owned()));
            found.push((event.t_ns, name, fields.collect()));
        }
    }
    (found, trace.diagnostics().to_vec())
}

/// Writes events of the catalogue's first class.
fn write(path: &Path, version: Version, catalogue: &Catalogue, events: impl Iterator<Item = (i64, Vec<OwnedValue>)>) -> ExportCounts {
    let mut writer = CtfWriter::create(path, version, 0, Vec::new()).unwrap();
    for (t_ns, values) in events {
        let values: Vec<Value<'_>> = values.iter().map(Value::from).collect();
        let (stream, subject, class) = (StreamId(0), SubjectId(2), ClassId(0));
        let event = Event { t_ns, stream, subject, class, cpu: None, fields: &values, context: &[], packet: PacketValues::default() };
        writer.item(&Item::Event(event), catalogue).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn unordered_events_are_written_to_several_files_that_are_each_in_order() {
    let times = [10, 20, 15, 30, 5, 12, 13, 40, 11, 41];
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("out");
    let values = |t_ns: i64| [OwnedValue::I64(t_ns)].into_iter().collect::<Vec<_>>();
    let written = write(&path, Version::One, &catalogue(), times.iter().map(|&t_ns| (t_ns, values(t_ns))));
    assert_eq!((written.events, written.late), (10, 0));
    let (found, diagnostics) = read(&path);
    let mut expected = times.to_vec();
    expected.sort_unstable();
    assert_eq!(found.iter().map(|(t_ns, ..)| *t_ns).collect::<Vec<_>>(), expected);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    if let Some((events, lost)) = user_trace::babeltrace2(&path) {
        assert_eq!((events, lost), (10, 0));
    }
    // The number of files is limited. Events beyond the limit are counted.
    let backwards = directory.path().join("backwards");
    let written = write(&backwards, Version::One, &catalogue(), (0..40).rev().map(|t_ns| (t_ns, values(t_ns))));
    assert_eq!((written.events, written.late), (40, 24));
    assert_eq!(read(&backwards).0.len(), 40);
}

#[test]
fn events_of_too_many_shapes_are_written_as_text_and_none_is_lost() {
    let names: Vec<String> = (0..12).map(|bit| format!("f{bit}")).collect();
    let class = Class { event_name: "e".to_owned(), fields: names, ..Class::default() };
    let catalogue = Catalogue { classes: vec![class], ..catalogue() };
    let value = |n: i64, bit: i64| match n >> bit & 1 {
        0 => OwnedValue::I64(n),
        _ => OwnedValue::Str(format!("{n}").into_bytes()),
    };
    for version in [Version::One, Version::Two] {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("out");
        write(&path, version, &catalogue, (0..4096).map(|n| (n, (0..12).map(|bit| value(n, bit)).collect())));
        let metadata = std::fs::read(path.join("metadata")).unwrap();
        let schema = longpole_ctf::Metadata::parse(&metadata).unwrap();
        assert_eq!(schema.streams[0].events.len(), 1025);
        let (found, diagnostics) = read(&path);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        assert_eq!(found.len(), 4096);
        for (n, (t_ns, name, fields)) in (0..).zip(found) {
            assert_eq!((t_ns, name.as_str()), (n, "e"));
            let expected = (0..12).map(|bit| match value(n, bit) {
                OwnedValue::I64(n) => (format!("I64({n})"), format!("\"f{bit}\":{n}")),
                _ => (n.to_string(), format!("\"f{bit}\":\"{n}\"")),
            });
            let (values, members): (Vec<String>, Vec<String>) = expected.unzip();
            let text = vec![format!("{{{}}}", members.join(","))];
            assert!(fields == if n < 1024 { values } else { text }, "{fields:?}");
        }
    }
}

#[test]
fn late_event_keeps_its_time() {
    let directory = TempDir::new().unwrap();
    let (path, catalogue) = (directory.path().join("out"), catalogue());
    let mut writer = CtfWriter::create(&path, Version::One, 2_000_000_000, Vec::new()).unwrap();
    for t_ns in [2_000_000_000, 5, 3_000_000_000] {
        let event = Event {
            t_ns,
            stream: StreamId(0),
            subject: SubjectId(0),
            class: ClassId(2),
            cpu: None,
            fields: &[],
            context: &[],
            packet: PacketValues::default(),
        };
        writer.item(&Item::Event(event), &catalogue).unwrap();
    }
    assert_eq!(writer.finish().unwrap().moved, 0);
    let times: Vec<i64> = read(&path).0.into_iter().map(|(t_ns, ..)| t_ns).collect();
    assert_eq!(times, [5, 2_000_000_000, 3_000_000_000]);
}

#[test]
fn losses_beyond_the_range_of_the_counter_are_written_without_a_count() {
    for version in [Version::One, Version::Two] {
        let directory = TempDir::new().unwrap();
        let (path, catalogue) = (directory.path().join("out"), catalogue());
        let mut writer = CtfWriter::create(&path, version, 0, Vec::new()).unwrap();
        let (stream, subject, class) = (StreamId(0), SubjectId(2), ClassId(2));
        for t_ns in [100, 200, 300] {
            let event = Event { t_ns, stream, subject, class, cpu: None, fields: &[], context: &[], packet: PacketValues::default() };
            writer.item(&Item::Event(event), &catalogue).unwrap();
            let loss = Loss { stream, begin_ns: t_ns + 1, end_ns: t_ns + 2, events: Some(u64::MAX - 2) };
            writer.item(&Item::Loss(loss), &catalogue).unwrap();
        }
        let written = writer.finish().unwrap();
        assert_eq!((written.events, written.lost), (3, u64::MAX));
        let mut trace = Trace::open(&[&path], Options::default()).unwrap();
        let mut losses = Vec::new();
        while let Some(item) = trace.next_item().unwrap() {
            if let Item::Loss(loss) = item {
                losses.push(loss.events);
            }
        }
        assert_eq!(losses, [Some(u64::MAX - 2), None, None], "{version:?}");
    }
}
