//! Bytes and metadata that nobody meant: whatever they are, there is an answer or an error.

mod common;

use std::sync::Arc;

use longpole_ctf::write::{self, Layout, StreamWriter};
use longpole_ctf::{BytesSource, Metadata, OwnedValue};
use proptest::prelude::*;

/// Something of everything, with lengths and tags that mutated bytes will make absurd.
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

/// All metadata of the golden files that are good.
fn golden_metadata() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut texts: Vec<String> = std::fs::read_dir(folder).unwrap().map(|e| std::fs::read_to_string(e.unwrap().path()).unwrap()).collect();
    texts.sort();
    texts.iter_mut().for_each(|text| text.truncate(text.find("\n--- ").unwrap()));
    texts.push(METADATA.to_owned());
    texts
}

/// Whatever can be done with a schema: as text and in terms of the other version, read again, and with random values written.
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

proptest! {
    #[test]
    fn whatever_metadata_says_is_written_and_no_value_harms_the_writer(
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
