//! Deviations from the specification that lose nothing: they are read, and each is reported with
//! its place. A strict reader refuses them.

use std::sync::Arc;

use longpole_ctf::{BytesSource, DecodeErrorKind, DiagnosticKind, Metadata, Step, StreamDecoder, Value};

const OWN: [u8; 16] = [0x11; 16];
const OTHER: [u8; 16] = [0x22; 16];

const TSDL: &str = "trace { major = 1; minor = 8; byte_order = le; uuid = \"11111111-1111-1111-1111-111111111111\";
    packet.header := struct { integer { size = 32; } magic; integer { size = 8; } uuid[16]; integer { size = 8; } stream_id; }; };
stream { id = 3; packet.context := struct { integer { size = 16; } packet_size; }; };
event { name = e; stream_id = 3; fields := struct { integer { size = 8; } n; }; };
";

/// Size of a packet of [`packet`] in bytes.
const PACKET: usize = 4 + 16 + 1 + 2 + 1;

fn packet(uuid: [u8; 16], n: u8) -> Vec<u8> {
    let mut bytes = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
    bytes.extend(uuid);
    bytes.push(3);
    bytes.extend((8 * PACKET as u16).to_le_bytes());
    bytes.push(n);
    bytes
}

/// The value of each event and whether its packet has another UUID, and the errors with their
/// packets.
fn read(bytes: &[u8], strict: bool) -> (Vec<(u64, bool)>, Vec<(u64, DecodeErrorKind)>) {
    let decoder = StreamDecoder::new(Arc::new(Metadata::from_text(TSDL).unwrap()), BytesSource(bytes));
    let mut decoder = if strict { decoder.strict() } else { decoder };
    let (mut values, mut errors) = (Vec::new(), Vec::new());
    loop {
        match decoder.advance() {
            Ok(None) => return (values, errors),
            Ok(Some(Step::Event)) => values.push((decoder.event().get("n").unwrap().as_u64().unwrap(), decoder.packet().other_uuid)),
            Ok(Some(_)) => {}
            Err(error) => {
                errors.push((error.packet, error.kind));
                decoder.skip_packet();
            }
        }
    }
}

#[test]
fn a_packet_with_another_uuid_is_decoded_unless_the_decoder_is_strict() {
    let bytes = [packet(OWN, 0), packet(OTHER, 1), packet(OWN, 2)].concat();
    assert_eq!(read(&bytes, false), (vec![(0, false), (1, true), (2, false)], vec![]));
    assert_eq!(read(&bytes, true), (vec![(0, false), (2, false)], vec![(1, DecodeErrorKind::WrongUuid)]));
}

#[test]
fn after_damage_a_packet_is_also_found_by_the_uuid_of_the_packets_before() {
    let mut bytes = [packet(OTHER, 0), packet(OTHER, 1), packet(OTHER, 2)].concat();
    bytes[PACKET] ^= 0xff;
    let (values, errors) = read(&bytes, false);
    assert_eq!(values, [(0, true), (2, true)]);
    assert!(matches!(errors[..], [(1, DecodeErrorKind::BadMagic { .. })]), "{errors:?}");
}

/// A packet of metadata with 8 bytes of padding.
fn metadata_packet(text: &[u8], version: [u8; 2]) -> Vec<u8> {
    let mut bytes = 0x75d1_1d57_u32.to_le_bytes().to_vec();
    bytes.extend([7; 16]);
    bytes.extend([0; 4]);
    let bits = 8 * (37 + text.len() as u32);
    bytes.extend([bits, bits + 64].map(u32::to_le_bytes).concat());
    bytes.extend([0, 0, 0]);
    bytes.extend(version);
    bytes.extend(text);
    bytes.extend([0; 8]);
    bytes
}

#[test]
fn bytes_after_the_last_packet_of_metadata_are_reported_if_no_text_can_be_in_them() {
    let whole = metadata_packet(TSDL.as_bytes(), [1, 8]);
    let expected = Metadata::parse(&whole).unwrap();
    assert!(expected.diagnostics().is_empty());
    // Less than a header, also if a header begins there, and preallocated space.
    for trailing in [vec![b'x'], whole[..36].to_vec(), vec![0; 4096]] {
        let found = Metadata::parse(&[whole.clone(), trailing.clone()].concat()).unwrap();
        assert_eq!(found.schema(), expected.schema());
        let [told] = found.diagnostics() else { panic!("{:?}", found.diagnostics()) };
        let bytes = trailing.len() as u64;
        assert_eq!((told.byte, told.times, told.kind), (whole.len() as u64, 1, DiagnosticKind::TrailingBytes { bytes }));
        assert!(told.error.to_string().contains(&format!("byte {}: {bytes} byte", whole.len())), "{}", told.error);
    }
    // Text may be lost in these.
    for trailing in [vec![b'x'; 37], whole[..80].to_vec(), [&[0; 100][..], &whole].concat()] {
        let error = Metadata::parse(&[whole.clone(), trailing].concat()).unwrap_err();
        assert!(error.message.contains(&format!("packet at byte {}", whole.len())), "{error}");
    }
}

/// Metadata with this header role, clock offset, type of enumeration, and places of fields.
fn ctf_2(role: &str, offset: &str, kind: &str, location: impl Fn(&str, &str) -> String) -> String {
    let uuid = format!("{:?}", [5; 16]);
    let preamble = if role == "metadata-stream-uuid" { format!(", \"uuid\": {uuid}") } else { String::new() };
    let (length, selector) = (location("event-record-payload", "n"), location("event-record-payload", "kind"));
    let int = r#""length": 8, "byte-order": "little-endian""#;
    let fragments = [
        format!(r#"{{"type": "preamble", "version": 2{preamble}}}"#),
        format!(
            r#"{{"type": "trace-class", "uuid": {uuid}, "environment": {{"type": "{kind}"}}, "packet-header-field-class": {{"type": "structure", "member-classes": [
            {{"name": "uuid", "field-class": {{"type": "static-length-blob", "length": 16, "roles": ["{role}"]}}}}]}}}}"#
        ),
        format!(r#"{{"type": "clock-class", "name": "monotonic", "frequency": 1000, "{offset}": {{"seconds": 7, "cycles": 5}}}}"#),
        r#"{"type": "data-stream-class", "id": 0, "default-clock-class-name": "monotonic"}"#.to_owned(),
        format!(
            r#"{{"type": "event-record-class", "id": 0, "data-stream-class-id": 0, "name": "e", "payload-field-class": {{"type": "structure", "member-classes": [
            {{"name": "n", "field-class": {{"type": "fixed-length-unsigned-integer", {int}}}}},
            {{"name": "kind", "field-class": {{"type": "{kind}", {int}, "mappings": {{"short": [[0, 0]], "long": [[1, 5]]}}}}}},
            {{"name": "again", "field-class": {{"type": "{kind}", {int}, "mappings": {{"any": [[0, 255]]}}}}}},
            {{"name": "list", "field-class": {{"type": "dynamic-length-array", "length-field-location": {length}, "element-field-class":
                {{"type": "fixed-length-unsigned-integer", {int}}}}}}},
            {{"name": "one", "field-class": {{"type": "variant", "selector-field-location": {selector}, "options": [
                {{"selector-field-ranges": [[0, 0]], "field-class": {{"type": "null-terminated-string"}}}},
                {{"selector-field-ranges": [[1, 5]], "field-class": {{"type": "fixed-length-unsigned-integer", {int}}}}}]}}}}]}}}}"#
        ),
    ];
    fragments.iter().map(|fragment| format!("\u{1e}{fragment}\n")).collect()
}

fn draft() -> String {
    ctf_2("trace-class-uuid", "offset", "fixed-length-unsigned-enumeration", |scope, name| format!(r#"["{scope}", "{name}"]"#))
}

#[test]
fn words_of_drafts_of_ctf_2_have_the_meaning_that_they_have_in_the_specification() {
    let standard = ctf_2("metadata-stream-uuid", "offset-from-origin", "fixed-length-unsigned-integer", |scope, name| {
        format!(r#"{{"origin": "{scope}", "path": ["{name}"]}}"#)
    });
    let mut expected = Metadata::from_text(&standard).unwrap();
    assert!(expected.diagnostics().is_empty(), "{:?}", expected.diagnostics());
    let text = draft();
    let found = Metadata::from_text(&text).unwrap();
    // The environment belongs to the user: the word of the draft in it is a value.
    assert_eq!(found.trace.env_text("type"), Some("fixed-length-unsigned-enumeration"));
    let mut schema = expected.schema().clone();
    schema.trace.env = found.trace.env.clone();
    expected = Metadata::from_schema(schema).unwrap();
    assert_eq!(found.schema(), expected.schema());
    let told: Vec<_> = found.diagnostics().iter().map(|told| (told.kind.to_string(), told.times, told.byte)).collect();
    let at = |what: &str| text.find(what).unwrap() as u64;
    let of = |what: &str| format!("{what} is of a draft of CTF 2; it is read as ");
    assert_eq!(
        told,
        [
            (of("trace-class-uuid") + "metadata-stream-uuid", 1, at("\"trace-class-uuid\"")),
            (of("`offset` of a clock class") + "`offset-from-origin`", 1, at("{\"seconds\"")),
            (
                of("fixed-length-unsigned-enumeration") + "fixed-length-unsigned-integer",
                2,
                at("\"fixed-length-unsigned-enumeration\", \"length\"")
            ),
            (of("a field location that is an array") + "one that is an object", 2, at("[\"event-record-payload\"")),
        ]
    );
    assert_eq!(found.diagnostics()[2].error.line, 8);
}

#[test]
fn the_events_of_a_trace_of_a_draft_are_decoded() {
    let metadata = Arc::new(Metadata::from_text(&draft()).unwrap());
    let stream = [&[5; 16][..], &[2, 3, 9, 10, 20, 77]].concat();
    let mut decoder = StreamDecoder::new(metadata, BytesSource(stream));
    while decoder.advance().unwrap().unwrap() != Step::Event {}
    let event = decoder.event();
    assert_eq!(event.get("kind").unwrap().as_u64(), Some(3));
    let Some(Value::Compound(one)) = event.get("one") else { panic!("{:?}", event.get("one")) };
    assert_eq!(one.iter().map(|(_, value)| value.as_u64()).collect::<Vec<_>>(), [Some(77)]);
    assert!(!decoder.packet().other_uuid);
}

#[test]
fn the_place_of_a_draft_is_a_byte_of_the_file_also_in_packets_and_after_invalid_text() {
    let text = draft().replace("\"name\": \"e\"", "\"name\": \"\u{1}\u{1}\"");
    // Two bytes that are no UTF-8 are read as replacement characters, which are longer.
    let bytes: Vec<u8> = text.bytes().map(|byte| if byte == 1 { 0xff } else { byte }).collect();
    let wanted = b"\"fixed-length-unsigned-enumeration\", \"length\"";
    let (one, two) = bytes.split_at(400);
    for file in [bytes.clone(), [metadata_packet(one, [2, 0]), metadata_packet(two, [2, 0])].concat()] {
        let found = Metadata::parse(&file).unwrap();
        let told = found.diagnostics().iter().find(|told| told.times == 2).unwrap();
        let place = file.windows(wanted.len()).position(|window| window == wanted).unwrap();
        assert_eq!(told.byte, place as u64, "{told}");
    }
}
