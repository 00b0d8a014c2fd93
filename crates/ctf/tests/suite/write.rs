//! Metadata that the writer writes must be read back as the same schema.

use crate::common;
use std::sync::Arc;

use longpole_ctf::types::*;
use longpole_ctf::write::Layout;
use longpole_ctf::{write, BytesSource, Clock, Metadata, Span};
use proptest::prelude::*;

fn member(name: &str, ty: Type) -> Member {
    Member { name: name.to_owned(), ty }
}

fn schema(name: &str, env: &str, payload: Vec<Member>) -> Schema {
    let mut clock = Clock::new("longpole", 2_500_000_000);
    (clock.offset_s, clock.offset, clock.uuid) = (1_700_000_000, -5, Some([7; 16]));
    clock.description = "raw \"counter\"".to_owned();
    let order = ByteOrder::Little;
    let time = |size, align| {
        let Type::Int(int) = Type::unsigned(size, align, order) else { unreachable!() };
        Type::Int(IntType { clock: Some(0), ..int })
    };
    let text = |length| {
        let Type::Int(int) = Type::unsigned(8, 8, order) else { unreachable!() };
        let element = Type::Int(IntType { encoding: Encoding::Utf8, ..int });
        Type::Array(Arc::new(ArrayType::new(element, Length::Fixed(length), Span::default())))
    };
    let header = StructType::new(64, vec![member("id", Type::unsigned(16, 64, order)), member("timestamp", time(48, 8))]);
    let context = vec![member("timestamp_begin", time(64, 8)), member("label", text(128))];
    let event = EventClass {
        id: 3,
        name: name.to_owned(),
        loglevel: Some(-1),
        model_emf_uri: Some("http://example.org/?a=\"b\"".to_owned()),
        payload: Some(Arc::new(StructType::new(64, payload))),
        ..EventClass::default()
    };
    Schema {
        version: Version::V1_8,
        trace: TraceClass {
            uuid: Some([0xab; 16]),
            byte_order: order,
            packet_header: Some(Arc::new(StructType::new(1, vec![member("magic", Type::unsigned(32, 8, order))]))),
            env: vec![("hostname".to_owned(), EnvValue::Text(env.to_owned())), ("n".to_owned(), EnvValue::Int(i64::MIN))],
            ..TraceClass::default()
        },
        clocks: vec![clock],
        streams: vec![StreamClass {
            id: 4,
            packet_context: Some(Arc::new(StructType::new(1, context))),
            event_header: Some(Arc::new(header)),
            events: vec![event],
            ..StreamClass::default()
        }],
    }
}

fn everything() -> Vec<Member> {
    let order = ByteOrder::Big;
    let path = |name: &str| FieldPath { names: vec![name.to_owned()], ..FieldPath::default() };
    let Type::Int(int) = Type::signed(5, 1, order) else { unreachable!() };
    let tag = EnumType {
        int: IntType { base: 16, ..int },
        mappings: vec![Mapping { label: "one".to_owned(), low: -3, high: 1 }, Mapping { label: "two".to_owned(), low: 2, high: 2 }].into(),
    };
    let options = vec![
        member("one", Type::String(Encoding::Utf8)),
        member("two", Type::Struct(Arc::new(StructType::new(1, vec![member("x", Type::unsigned(8, 8, order))])))),
    ];
    let sequence = ArrayType::new(Type::String(Encoding::Ascii), Length::Field(path("n")), Span::default());
    vec![
        member("n", Type::unsigned(8, 8, order)),
        member("tag", Type::Enum(Arc::new(tag))),
        member("v", Type::Variant(Arc::new(VariantType::new(path("tag"), options)))),
        member("f", Type::Float(FloatType { size: 64, align: 32, byte_order: order, reversed: false })),
        member("grid", Type::Array(Arc::new(ArrayType::new(Type::Array(Arc::new(sequence)), Length::Fixed(2), Span::default())))),
    ]
}

proptest! {
    #[test]
    fn a_schema_survives_being_written_and_read(name in "\\PC{0,20}|[\\x00-\\x7f]{0,20}", env in "\\PC{0,20}|[\\x00-\\x7f]{0,20}") {
        let schema = schema(&name, &env, everything());
        let text = write::metadata(&schema);
        let read = Metadata::from_text(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(read.schema(), &schema);
    }
}

#[test]
fn events_can_be_appended_block_by_block() {
    let mut schema = schema("span_begin:find", "host", everything());
    let mut text = write::metadata(&schema);
    let more = EventClass { id: 9, name: "queue_put:a b".to_owned(), ..schema.streams[0].events[0].clone() };
    text.push_str(&write::tsdl::event(&schema, 4, &more));
    schema.streams[0].events.push(more);
    assert_eq!(Metadata::from_text(&text).unwrap().schema(), &schema);
}

#[test]
fn a_schema_made_in_memory_decodes_without_text() {
    let payload = vec![member("a", Type::unsigned(64, 64, ByteOrder::Little))];
    let mut schema = schema("e", "", payload);
    schema.trace.packet_header = None;
    schema.streams[0].packet_context = None;
    schema.streams[0].id = 0;
    let metadata = Arc::new(Metadata::from_schema(schema).unwrap());
    let mut bytes = (3u64 | 250 << 16).to_le_bytes().to_vec();
    bytes.extend_from_slice(&42u64.to_le_bytes());
    let (dump, end) = common::dump(&metadata, BytesSource(bytes));
    assert!(end.is_ok(), "{dump}");
    assert!(dump.contains("event 3 e at 250 = 1700000000000000098 ns, a: 42"), "{dump}");
}

#[test]
fn a_large_offset_in_cycles_becomes_seconds_in_ctf_2() {
    // LTTng writes the clock's offset in this form.
    let text = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        clock { name = monotonic; freq = 1000000000; offset = 1326476837897235420; };
        stream { event.header := struct { integer { size = 64; map = clock.monotonic.value; } timestamp; }; };
        event { name = e; };";
    let metadata = Arc::new(Metadata::from_text(text).unwrap());
    let raised = Metadata::from_text(&write::metadata(Layout::to_ctf2(&metadata).unwrap().metadata())).unwrap();
    let clock = &raised.clocks[0];
    assert_eq!((clock.offset_s, clock.offset), (1_326_476_837, 897_235_420));
    assert_eq!(clock.ns(5), metadata.clocks[0].ns(5));
}

/// CTF 2 rejects a UUID role if the preamble has no UUID.
#[test]
fn a_uuid_in_packets_is_a_blob_in_ctf_2_if_the_metadata_has_none() {
    for (said, has_uuid) in [("uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\";", true), ("", false)] {
        let text = format!(
            "/* CTF 1.8 */\ntrace {{ major = 1; minor = 8; byte_order = le; {said}\n\tpacket.header := struct {{ \
             integer {{ size = 8; align = 8; }} uuid[16]; }};\n}};\n"
        );
        let metadata = Arc::new(Metadata::from_text(&text).unwrap());
        let raised = write::metadata(Layout::to_ctf2(&metadata).unwrap().metadata());
        assert_eq!(raised.contains("metadata-stream-uuid"), has_uuid, "{raised}");
        Metadata::from_text(&raised).unwrap();
    }
}

#[test]
fn ctf_2_states_an_alignment_only_if_it_is_stricter_than_that_of_the_parts() {
    let metadata = r#"{"type": "preamble", "version": 2}
{"type": "data-stream-class"}
{"type": "event-record-class", "payload-field-class": {"type": "structure", "member-classes": [
  {"name": "a", "field-class": {"type": "static-length-array", "length": 2, ALIGN
    "element-field-class": {"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian", "alignment": 8}}},
  {"name": "b", "field-class": {"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian"}},
  {"name": "c", "field-class": {"type": "structure", ALIGN "member-classes": [
    {"name": "d", "field-class": {"type": "null-terminated-string"}}]}}]}}"#;
    for (stated, aligned) in [("", 0), (r#""minimum-alignment": 32,"#, 2)] {
        let metadata = Metadata::from_text(&metadata.replace("ALIGN", stated)).unwrap();
        let text = write::metadata(&metadata);
        assert_eq!(text.matches("minimum-alignment").count(), aligned, "{text}");
        assert_eq!(text.matches("\"alignment\"").count(), 1, "{text}");
        assert_eq!(Metadata::from_text(&text).unwrap().schema(), metadata.schema());
    }
}
