//! Invalid bytes and metadata: for any input the result is a value or an error, never a panic or an
//! endless loop.

use crate::common;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use longpole_ctf::write::{self, Layout, StreamWriter};
use longpole_ctf::{BytesSource, DecodeErrorKind, FileSource, Metadata, OwnedValue, Source, Step, StreamDecoder};
use proptest::prelude::*;

/// Metadata with a type of every kind. Mutated bytes produce absurd lengths and tags.
const METADATA: &str = r#"/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 32; } magic; integer { size = 8; } stream_id; }; };
clock { name = c; freq = 1234567; offset_s = 9; };
typealias integer { size = 64; } := u64;
typealias integer { size = 8; } := u8;
typealias integer { size = 27; align = 1; map = clock.c.value; } := stamp;
stream {
    id = 0;
    packet.context := struct { u64 packet_size; u64 content_size; u64 timestamp_begin; u8 events_discarded; u8 packet_seq_num; };
    event.header := struct {
        enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;
        variant <id> { struct { stamp timestamp; } compact; struct { u8 id; u64 timestamp; } extended; } v;
    } align(8);
    event.context := struct { u8 n; };
};
stream { id = 1; event.header := struct { u8 id; }; };
event { name = a; stream_id = 0; id = 0; fields := struct { u64 n; u64 list[n]; string s; }; };
event { name = b; stream_id = 0; id = 1; fields := struct { u8 n; struct { u8 m; struct { } inner[m]; string names[m]; } list[n]; }; };
event { name = c; stream_id = 0; id = 2; fields := struct { integer { size = 3; } x; integer { size = 61; align = 1; } y; enum : u8 { A = 0 ... 99, B } t; variant <t> { u8 A; string B; } v; }; };
event { name = d; stream_id = 0; id = 3; fields := struct { u64 n; struct { } list[n]; integer { size = 8; encoding = UTF8; } text[1000000000000]; }; };
event { name = e; stream_id = 1; id = 7; fields := struct { u8 a; floating_point { exp_dig = 8; mant_dig = 24; align = 32; } f; }; };
"#;

fn packet(sized: bool, stream: u8, rest: &[u8]) -> Vec<u8> {
    let mut out = vec![0xc1, 0x1f, 0xfc, 0xc1, stream];
    if stream == 0 {
        let bits = if sized { (39 - 8 + rest.len() as u64) * 8 } else { u64::MAX - 7 };
        out.extend_from_slice(&bits.to_le_bytes());
        out.extend_from_slice(&bits.to_le_bytes());
        out.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    }
    out.extend_from_slice(rest);
    out
}

/// All valid metadata of the golden files.
fn golden_metadata() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut texts: Vec<String> = std::fs::read_dir(folder).unwrap().map(|e| std::fs::read_to_string(e.unwrap().path()).unwrap()).collect();
    texts.sort();
    texts.iter_mut().for_each(|text| text.truncate(text.find("\n--- ").unwrap()));
    texts.push(METADATA.to_owned());
    texts
}

/// Applies every operation to a schema: writes it as text and converts it to the other version,
/// reads both again, and writes random values.
fn everything(metadata: Metadata, values: &[OwnedValue]) -> Result<(), TestCaseError> {
    let metadata = Arc::new(metadata);
    let own = Layout::new(metadata.clone());
    for layout in [own, Layout::to_ctf1(&metadata), Layout::to_ctf2(&metadata)].into_iter().flatten() {
        let layout = Arc::new(layout);
        let text = write::metadata(layout.metadata());
        let read = Metadata::from_text(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(read.streams.len(), metadata.streams.len());
        for stream in 0..metadata.streams.len() {
            let mut writer = StreamWriter::new(layout.clone(), stream).limit(1 << 16);
            for class in 0..metadata.streams[stream].events.len() {
                let _ = writer.event(class, class as u64, values);
                let _ = writer.event(class, u64::MAX, &[] as &[OwnedValue]);
            }
            let _ = writer.end();
            let bytes = writer.take();
            prop_assert!(bytes.len() <= 1 << 20);
            let _ = common::dump(layout.metadata(), BytesSource(&bytes));
        }
    }
    Ok(())
}

/// An open file that is already deleted.
fn tempfile() -> File {
    let path = std::env::temp_dir().join(format!("longpole-ctf-hostile-{}", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

fn value() -> impl Strategy<Value = OwnedValue> {
    let leaf = prop_oneof![
        (0u64..6).prop_map(OwnedValue::U64),
        any::<u64>().prop_map(OwnedValue::U64),
        any::<i64>().prop_map(OwnedValue::I64),
        any::<f64>().prop_map(OwnedValue::F64),
        any::<bool>().prop_map(OwnedValue::Bool),
        Just(OwnedValue::Nothing),
        "[a-z]{0,4}".prop_map(|text| OwnedValue::Str(text.into_bytes())),
        proptest::collection::vec(any::<u8>(), 0..5).prop_map(OwnedValue::Bytes),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(OwnedValue::List),
            proptest::collection::vec(("[a-d]?", inner), 0..4)
                .prop_map(|fields| OwnedValue::Fields(fields.into_iter().map(|(name, v)| (Arc::from(name), v)).collect())),
        ]
    })
}

#[test]
fn many_large_types_are_refused_together() {
    let mut text = String::from("trace { major = 1; minor = 8; byte_order = le; };\nstruct t0 { integer { size = 8; } x; };\n");
    for level in 1..4 {
        let fields: String = (0..16).map(|i| format!("struct t{} f{i};", level - 1)).collect();
        text.push_str(&format!("struct t{level} {{ {fields} }};\n"));
    }
    for id in 0..300 {
        text.push_str(&format!("event {{ name = e; id = {id}; fields := struct {{ struct t3 x; }}; }};\n"));
    }
    let error = Metadata::from_text(&text).unwrap_err();
    assert!(error.to_string().contains("in all events together"), "{error}");
}

/// Packets of one byte of payload, with the trace's UUID or without; `damage` replaces these bytes
/// of the file.
fn packets(uuid: bool, order: &str, count: u8, damage: &[(usize, u8)]) -> (Arc<Metadata>, Vec<u8>, usize) {
    let (told, member) = match uuid {
        true => ("uuid = \"00112233-4455-6677-8899-aabbccddeeff\";", "integer { size = 8; } uuid[16];"),
        false => ("", ""),
    };
    let text = format!(
        "trace {{ major = 1; minor = 8; byte_order = {order}; {told}
            packet.header := struct {{ integer {{ size = 32; }} magic; {member} integer {{ size = 8; }} stream_id; }}; }};
         stream {{ id = 3; packet.context := struct {{ integer {{ size = 16; }} packet_size; }}; }};
         event {{ name = e; stream_id = 3; fields := struct {{ integer {{ size = 8; }} n; }}; }};"
    );
    let mut bytes = Vec::new();
    for n in 0..count {
        let magic = 0xc1fc_1fc1u32;
        bytes.extend_from_slice(&if order == "le" { magic.to_le_bytes() } else { magic.to_be_bytes() });
        if uuid {
            bytes.extend((0..16).map(|n| n * 0x11));
        }
        bytes.push(3);
        let size = (8 + if uuid { 16u16 } else { 0 }) * 8;
        bytes.extend_from_slice(&if order == "le" { size.to_le_bytes() } else { size.to_be_bytes() });
        bytes.push(n);
    }
    for (at, value) in damage {
        bytes[*at] = *value;
    }
    let length = bytes.len() / usize::from(count);
    (Arc::new(Metadata::from_text(&text).unwrap()), bytes, length)
}

/// The values of the events, and the errors, each with the place of the packet that was found after
/// it.
fn going_on(metadata: &Arc<Metadata>, source: impl Source) -> (Vec<u64>, Vec<(DecodeErrorKind, Option<u64>)>) {
    let mut stream = StreamDecoder::new(metadata.clone(), source).strict();
    let (mut values, mut errors) = (Vec::new(), Vec::new());
    loop {
        match stream.advance() {
            Ok(None) => return (values, errors),
            Ok(Some(Step::Event)) => values.push(stream.event().get("n").unwrap().as_u64().unwrap()),
            Ok(Some(_)) => {}
            Err(error) => {
                errors.push((error.kind, stream.next_packet()));
                stream.skip_packet();
            }
        }
    }
}

#[test]
fn after_an_unreadable_header_the_next_packet_is_found_by_magic_number_and_uuid() {
    let (metadata, bytes, length) = packets(true, "le", 4, &[]);
    assert_eq!(going_on(&metadata, BytesSource(&bytes)), (vec![0, 1, 2, 3], vec![]));
    let third = 2 * length as u64;
    // Damage in the magic number, the UUID, the stream id and the size.
    let size = DecodeErrorKind::PacketTooSmall { bits: 8 };
    let kinds = [
        (0, DecodeErrorKind::BadMagic { found: 0xc1fc_1f08 }),
        (9, DecodeErrorKind::WrongUuid),
        (20, DecodeErrorKind::UnknownStream { id: 8 }),
        (21, size),
    ];
    for (at, kind) in kinds {
        let (_, bytes, _) = packets(true, "le", 4, &[(length + at, 8)]);
        assert_eq!(going_on(&metadata, BytesSource(&bytes)), (vec![0, 2, 3], vec![(kind, Some(third))]), "byte {at}");
    }
    // A magic number without the UUID does not begin a packet of this trace, and no packet follows
    // the last one.
    let (_, mut bytes, _) = packets(true, "le", 4, &[(3 * length, 0)]);
    bytes.extend_from_slice(&[0xc1, 0x1f, 0xfc, 0xc1]);
    let last = (DecodeErrorKind::BadMagic { found: 0xc1fc_1f00 }, None);
    assert_eq!(going_on(&metadata, BytesSource(&bytes)), (vec![0, 1, 2], vec![last]));
}

#[test]
fn a_magic_number_behind_another_field_of_the_header_also_finds_the_next_packet() {
    let text = "trace { major = 1; minor = 8; byte_order = le;
            packet.header := struct { integer { size = 32; } stream_id; integer { size = 32; } magic; }; };
        stream { id = 3; packet.context := struct { integer { size = 8; } packet_size; }; };
        event { name = e; stream_id = 3; fields := struct { integer { size = 8; } n; }; };";
    let metadata = Arc::new(Metadata::from_text(text).unwrap());
    let packet = |n| [3, 0, 0, 0, 0xc1, 0x1f, 0xfc, 0xc1, 80, n];
    let mut bytes = [packet(0), packet(1), packet(2)].concat();
    bytes[10 + 4] = 0;
    let error = DecodeErrorKind::BadMagic { found: 0xc1fc_1f00 };
    assert_eq!(going_on(&metadata, BytesSource(&bytes)), (vec![0, 2], vec![(error, Some(20))]));
}

#[test]
fn a_magic_number_at_a_variable_place_does_not_find_the_next_packet() {
    let text = "trace { major = 1; minor = 8; byte_order = le; packet.header := struct {
            integer { size = 8; } n; integer { size = 8; } list[n]; integer { size = 32; } magic; }; };
        stream { packet.context := struct { integer { size = 8; } packet_size; }; };
        event { name = e; fields := struct { integer { size = 8; } n; }; };";
    let metadata = Arc::new(Metadata::from_text(text).unwrap());
    let packet = |n| [1, 0, 0xc1, 0x1f, 0xfc, 0xc1, 64, n];
    let mut bytes = [packet(0), packet(1), packet(2)].concat();
    assert_eq!(going_on(&metadata, BytesSource(&bytes)), (vec![0, 1, 2], vec![]));
    bytes[8 + 2] = 0;
    let error = DecodeErrorKind::BadMagic { found: 0xc1fc_1f00 };
    assert_eq!(going_on(&metadata, BytesSource(&bytes)), (vec![0], vec![(error, None)]));
}

#[test]
fn without_magic_number_and_uuid_the_rest_of_the_file_is_skipped() {
    let text = "trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 8; } stream_id; }; };
        stream { id = 3; packet.context := struct { integer { size = 8; } packet_size; }; };
        event { name = e; stream_id = 3; fields := struct { integer { size = 8; } n; }; };";
    let metadata = Arc::new(Metadata::from_text(text).unwrap());
    let found = going_on(&metadata, BytesSource([3, 24, 1, 4, 24, 2, 3, 24, 3]));
    assert_eq!(found, (vec![1], vec![(DecodeErrorKind::UnknownStream { id: 4 }, None)]));
}

#[test]
fn the_search_ends_after_too_many_unreadable_headers() {
    let (metadata, bytes, length) = packets(false, "be", 1, &[]);
    let mut many = bytes.clone();
    let mut wrong = bytes.clone();
    wrong[4] = 9;
    many.extend(wrong.repeat(1000));
    many.extend(&bytes);
    let (values, errors) = going_on(&metadata, BytesSource(&many));
    assert_eq!(values, [0]);
    assert!(errors.len() < 100, "{} attempts", errors.len());
    assert_eq!(errors[0], (DecodeErrorKind::UnknownStream { id: 9 }, Some(2 * length as u64)));
    assert_eq!(errors.last().unwrap().1, None);
}

proptest! {
    #[test]
    fn damage_in_a_header_does_not_affect_other_packets(
        uuid: bool, big: bool, gap in 0usize..200_000, at in 0usize..4, value: u8, noise: u8,
    ) {
        let (metadata, bytes, length) = packets(uuid, if big { "be" } else { "le" }, 5, &[]);
        prop_assume!(bytes[length + at] != value && noise != 0xc1);
        // Also inserts bytes between two packets, more than a window holds.
        let mut damaged = bytes[..2 * length].to_vec();
        damaged[length + at] = value;
        damaged.resize(damaged.len() + gap, noise);
        damaged.extend_from_slice(&bytes[2 * length..]);
        let (values, errors) = going_on(&metadata, BytesSource(&damaged));
        prop_assert_eq!(&values, &[0, 2, 3, 4]);
        prop_assert_eq!(errors.len(), 1);
        let mut file = tempfile();
        file.write_all(&damaged).unwrap();
        prop_assert_eq!(going_on(&metadata, FileSource::new(file).unwrap()), (values, errors));
    }

    #[test]
    fn any_metadata_is_written_and_no_value_crashes_the_writer(
        index: prop::sample::Index, values in proptest::collection::vec(value(), 0..12),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), "[0-9a-z\"{},:]{0,2}"), 0..3),
    ) {
        let texts = golden_metadata();
        let mut text = index.get(&texts).clone();
        for (at, with) in &edits {
            let at = (0..=at.index(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            let end = (at + 1..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
            text.replace_range(at..end, with);
        }
        if let Ok(metadata) = Metadata::from_text(&text) {
            everything(metadata, &values)?;
        }
    }

    #[test]
    fn random_content_never_panics_and_always_ends(
        rest in proptest::collection::vec(prop_oneof![3 => 0u8..5, 1 => any::<u8>()], 0..300), sized: bool, stream in 0u8..3,
    ) {
        let metadata = Arc::new(Metadata::from_text(METADATA).unwrap());
        let bytes = packet(sized, stream, &rest);
        let _ = common::dump(&metadata, BytesSource(&bytes));
    }

    #[test]
    fn random_files_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let metadata = Arc::new(Metadata::from_text(METADATA).unwrap());
        let _ = common::dump(&metadata, BytesSource(&bytes));
        let _ = Metadata::parse(&bytes);
    }

    #[test]
    fn mutated_metadata_never_panics(
        at in 0usize..2000, len in 0usize..40, with in "[a-z0-9{}<>\\[\\];:=.,\" *-]{0,12}", bytes in proptest::collection::vec(0u8..9, 0..100),
    ) {
        let mut text = METADATA.to_owned();
        let start = at.min(text.len());
        let end = (start + len).min(text.len());
        text.replace_range(start..end, &with);
        if let Ok(metadata) = Metadata::from_text(&text) {
            let _ = common::dump(&Arc::new(metadata), BytesSource(&packet(true, 0, &bytes)));
        }
    }

    #[test]
    fn mutated_packetised_metadata_never_panics(at in 0usize..37, value: u8) {
        let mut bytes = vec![0x57, 0x1d, 0xd1, 0x75];
        bytes.extend_from_slice(&[0; 20]);
        let bits = ((37 + METADATA.len()) * 8) as u32;
        bytes.extend_from_slice(&bits.to_le_bytes());
        bytes.extend_from_slice(&bits.to_le_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 1, 8]);
        bytes.extend_from_slice(METADATA.as_bytes());
        prop_assert!(Metadata::parse(&bytes).is_ok());
        bytes[at] = value;
        let _ = Metadata::parse(&bytes);
    }
}
