//! The packet writer: the fields that it fills in, and the values that it rejects.

use crate::common;
use std::sync::Arc;

use longpole_ctf::write::{self, Layout, StreamWriter, WriteErrorKind};
use longpole_ctf::{BytesSource, Item, Metadata, OwnedValue, Packet, StreamDecoder};

use OwnedValue::{Bool, Fields, List, Nothing, Str, F64, I64, U64};

fn text(text: &str) -> OwnedValue {
    Str(text.as_bytes().to_vec())
}

fn layout(metadata: &str) -> Arc<Layout> {
    let metadata = Metadata::from_text(metadata).unwrap_or_else(|e| panic!("{e}"));
    Arc::new(Layout::new(Arc::new(metadata)).unwrap())
}

/// A layout for an event of CTF 1.8 with these fields.
fn fields(fields: &str) -> Arc<Layout> {
    layout(&format!(
        "trace {{ major = 1; minor = 8; byte_order = le; }};
         typealias integer {{ size = 8; }} := u8; typealias integer {{ size = 8; signed = true; }} := s8;
         event {{ name = e; fields := struct {{ {fields} }}; }};"
    ))
}

/// The bytes of one event, or the error of its values.
fn one(layout: &Arc<Layout>, values: &[OwnedValue]) -> Result<Vec<u8>, String> {
    let mut writer = StreamWriter::new(layout.clone(), 0);
    writer.event(0, 0, values).map_err(|e| e.to_string())?;
    writer.end().map_err(|e| e.to_string())?;
    Ok(writer.take())
}

#[test]
fn values_that_do_not_fit_are_rejected_with_the_name_of_their_field() {
    let cases = [
        ("u8 a;", vec![U64(256)], "field `a`: 256 does not fit an unsigned integer of 8 bits"),
        ("u8 a;", vec![I64(-1)], "field `a`: -1 does not fit an unsigned integer of 8 bits"),
        ("s8 a;", vec![U64(128)], "field `a`: 128 does not fit a signed integer of 8 bits"),
        ("struct { u8 in; } a;", vec![text("x")], "field `a.in`: expected an integer, found a text"),
        ("u8 a; u8 b;", vec![U64(1)], "field `b`: there is no value for this"),
        ("u8 a;", vec![U64(1), U64(2)], "there are more values than fields"),
        ("string a;", vec![text("a\0b")], "field `a`: a NUL within a text that ends with one"),
        ("u8 n; u8 a[n];", vec![U64(2), OwnedValue::Bytes(vec![1, 2, 3])], "field `a`: 3 elements where the length is 2"),
        ("u8 n; string a[n];", vec![U64(2), List(vec![text("x")])], "field `a`: 1 elements where the length is 2"),
        ("integer { size = 8; encoding = UTF8; } a[2];", vec![text("abc")], "field `a`: 3 elements where the length is 2"),
        (
            "enum : u8 { x, y } t; variant <t> { u8 x; string y; } v;",
            vec![U64(7), Fields(vec![("x".into(), U64(1))])],
            "field `v`: no option of the variant is selected by the tag value 7",
        ),
        (
            "enum : u8 { x, y } t; variant <t> { u8 x; string y; } v;",
            vec![U64(1), Fields(vec![("x".into(), U64(1))])],
            "field `v`: the option is `x` where the tag selects `y`",
        ),
        (
            "struct { u8 x; u8 y; } a[1];",
            vec![List(vec![Fields(vec![("y".into(), U64(1)), ("x".into(), U64(1))])])],
            "field `a.x`: `y` is at the position of this field",
        ),
        (
            "integer { size = 3; byte_order = be; align = 1; } a; integer { size = 5; align = 1; } b;",
            vec![U64(1), U64(1)],
            "field `b`: byte order changes from big to little endian within a byte",
        ),
        ("struct { } a;", vec![Fields(vec![])], "an event of no bits"),
        ("struct { } a; u8 b;", vec![U64(1)], "field `a`: expected fields, found an integer"),
    ];
    for (members, values, expected) in cases {
        assert_eq!(one(&fields(members), &values).unwrap_err(), expected, "{members}");
    }
}

#[test]
fn an_optional_must_be_present_exactly_if_its_selector_states_it() {
    let metadata = r#"{"type": "preamble", "version": 2}
{"type": "data-stream-class"}
{"type": "event-record-class", "payload-field-class": {"type": "structure", "member-classes": [
  {"name": "is", "field-class": {"type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian", "alignment": 8}},
  {"name": "o", "field-class": {"type": "optional", "selector-field-location": {"path": ["is"]}, "field-class": {"type": "variable-length-unsigned-integer"}}}]}}"#;
    let layout = layout(metadata);
    assert_eq!(one(&layout, &[Bool(true), U64(300)]).unwrap(), [1, 0xac, 2]);
    assert_eq!(one(&layout, &[Bool(false), Nothing]).unwrap(), [0]);
    assert_eq!(one(&layout, &[Bool(true), Nothing]).unwrap_err(), "field `o`: no value, although the selector selects one");
    assert_eq!(one(&layout, &[Bool(false), U64(1)]).unwrap_err(), "field `o`: a value, although the selector selects none");
    assert_eq!(one(&layout, &[F64(1.0), U64(1)]).unwrap_err(), "field `is`: expected a boolean, found a floating point number");
}

#[test]
fn an_integer_may_be_given_as_a_boolean_and_a_boolean_as_an_integer() {
    let boolean = layout(
        r#"{"type": "preamble", "version": 2}
{"type": "data-stream-class"}
{"type": "event-record-class", "payload-field-class": {"type": "structure", "member-classes": [
  {"name": "is", "field-class": {"type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian", "alignment": 8}}]}}"#,
    );
    for (value, byte) in [(Bool(true), 1), (Bool(false), 0), (U64(2), 1), (U64(0), 0), (I64(-1), 1), (I64(0), 0)] {
        assert_eq!(one(&boolean, std::slice::from_ref(&value)).unwrap(), [byte], "{value:?}");
    }
    assert_eq!(one(&boolean, &[text("x")]).unwrap_err(), "field `is`: expected a boolean, found a text");
    let bit = |signed| fields(&format!("integer {{ size = 1; signed = {signed}; }} a; integer {{ size = 7; align = 1; }} rest;"));
    assert_eq!(one(&bit(false), &[Bool(true), U64(0)]).unwrap(), [1]);
    assert_eq!(one(&fields("s8 a;"), &[Bool(true)]).unwrap(), [1]);
    // A signed integer of one bit is 0 or -1.
    assert_eq!(one(&bit(true), &[Bool(true), U64(0)]).unwrap_err(), "field `a`: expected an integer, found a boolean");
}

#[test]
fn a_text_fills_an_array_of_characters_with_nuls_and_an_array_of_bytes_exactly() {
    let characters = fields("integer { size = 8; encoding = UTF8; } a[4];");
    for (given, bytes) in [("", b"\0\0\0\0"), ("ab", b"ab\0\0"), ("abc", b"abc\0"), ("abcd", b"abcd")] {
        assert_eq!(one(&characters, &[text(given)]).unwrap(), bytes, "{given}");
    }
    assert_eq!(one(&characters, &[text("a\0b")]).unwrap_err(), "field `a`: a NUL within a text that ends with one");
    let bytes = fields("u8 a[3];");
    assert_eq!(one(&bytes, &[text("a\0b")]).unwrap(), b"a\0b");
    assert_eq!(one(&bytes, &[text("ab")]).unwrap_err(), "field `a`: 2 elements where the length is 3");
    assert_eq!(one(&bytes, &[text("abcd")]).unwrap_err(), "field `a`: 4 elements where the length is 3");
}

#[test]
fn bytes_are_written_to_arrays_of_signed_integers_only_within_their_range() {
    let signed = fields("s8 a[2];");
    assert_eq!(one(&signed, &[OwnedValue::Bytes(vec![1, 127])]).unwrap(), [1, 127]);
    let error = one(&signed, &[OwnedValue::Bytes(vec![1, 200])]).unwrap_err();
    assert_eq!(error, "field `a`: 200 does not fit a signed integer of 8 bits");
    assert_eq!(one(&fields("u8 a[2];"), &[OwnedValue::Bytes(vec![1, 200])]).unwrap(), [1, 200]);
    // The elements do not follow each other byte by byte.
    let apart = fields("integer { size = 8; align = 16; } a[2];");
    assert_eq!(one(&apart, &[OwnedValue::Bytes(vec![1, 200])]).unwrap(), [1, 0, 200]);
}

const LTTNG: &str = "
trace { major = 1; minor = 8; byte_order = le; uuid = \"0a0b0c0d-0102-0304-0506-0708090a0b0c\";
  packet.header := struct { integer { size = 32; } magic; integer { size = 8; } uuid[16]; integer { size = 32; } stream_id; }; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; map = clock.c.value; } := t64;
typealias integer { size = 64; } := u64;
stream { id = 5;
  packet.context := struct { t64 timestamp_begin; t64 timestamp_end; u64 content_size; u64 packet_size; u64 packet_seq_num;
    integer { size = 16; } events_discarded; integer { size = 32; } cpu_id; };
  event.header := struct {
    enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;
    variant <id> {
      struct { integer { size = 27; align = 1; map = clock.c.value; } timestamp; } compact;
      struct { integer { size = 32; } id; t64 timestamp; } extended;
    } v;
  } align(8);
};
event { name = small; id = 3; stream_id = 5; fields := struct { integer { size = 8; } x; }; };
event { name = large; id = 3000; stream_id = 5; fields := struct { integer { size = 8; } x; }; };
";

/// Start, end, number, counter and CPU of each packet, and its events.
fn packets(layout: &Layout, bytes: &[u8]) -> Vec<String> {
    let mut stream = StreamDecoder::new(layout.metadata().clone(), BytesSource(bytes));
    let mut out = Vec::new();
    loop {
        match stream.next().unwrap() {
            None => return out,
            Some(Item::PacketBegin(p)) => {
                out.push(format!(
                    "{:?}-{:?} #{:?} lost {:?} cpu {:?}:",
                    p.begin.unwrap(),
                    p.end.unwrap(),
                    p.sequence.unwrap(),
                    p.discarded.unwrap(),
                    p.cpu_id.unwrap()
                ));
            }
            Some(Item::Event(event)) => {
                let line = format!(" {}@{}={}", event.name(), event.cycles(), event.value(0).unwrap().as_u64().unwrap());
                out.last_mut().unwrap().push_str(&line);
            }
            Some(_) => {}
        }
    }
}

#[test]
fn the_header_form_that_can_hold_id_and_time_is_chosen_or_a_packet_begins() {
    let layout = layout(LTTNG);
    let mut writer = StreamWriter::new(layout.clone(), 0);
    let mut packet = Packet::default();
    (packet.begin, packet.sequence, packet.cpu_id) = (Some(1 << 40), Some(7), Some(2));
    writer.begin(&packet).unwrap();
    let mut time = 1 << 40;
    for (class, step, x) in [(0, 5, 1u64), (1, 6, 2), (0, (1 << 27) - 1, 3), (0, 1 << 27, 4), (0, 0, 5)] {
        time += step;
        writer.event(class, time, &[U64(x)]).unwrap();
    }
    // A time before the last one needs 64 bits.
    writer.event(1, 1 << 40, &[U64(6)]).unwrap();
    writer.packet_mut().discarded = Some(9);
    writer.end().unwrap();
    let bytes = writer.take();
    let begin = 1u64 << 40;
    let expected = format!(
        "{begin}-{begin} #7 lost 9 cpu 2: small@{}=1 large@{}=2 small@{}=3 small@{}=4 small@{}=5 large@{begin}=6",
        begin + 5,
        begin + 11,
        begin + 10 + (1 << 27),
        begin + 10 + (2 << 27),
        begin + 10 + (2 << 27)
    );
    assert_eq!(packets(&layout, &bytes), [expected]);
    // Compact: 5 bits of id and 27 of time; extended: 5 bits, an id of 4 bytes and a time of 8;
    // then the field.
    assert_eq!(bytes.len(), 24 + 46 + 3 * 5 + 3 * 14);
}

#[test]
fn a_header_without_a_time_is_not_used_for_a_later_event() {
    // The compact form for small ids has no time here.
    let layout = layout(&LTTNG.replace("integer { size = 27; align = 1; map = clock.c.value; } timestamp;", ""));
    let mut writer = StreamWriter::new(layout.clone(), 0);
    for (time, x) in [(100, 1u64), (107, 2), (107, 3)] {
        writer.event(0, time, &[U64(x)]).unwrap();
    }
    writer.end().unwrap();
    assert_eq!(packets(&layout, writer.bytes()), ["100-107 #0 lost 0 cpu 0: small@100=1 small@107=2 small@107=3"]);
}

#[test]
fn a_packet_begins_if_a_header_cannot_hold_the_time() {
    let short = "event.header := struct { integer { size = 8; } id; integer { size = 24; map = clock.c.value; } timestamp; }; };";
    let (head, rest) = LTTNG.split_once("event.header").unwrap();
    let (_, events) = rest.split_once("event {").unwrap();
    let layout = layout(&format!("{head}{short} event {{{}", events.replace("3000", "200")));
    let mut writer = StreamWriter::new(layout.clone(), 0);
    let mut packet = Packet::default();
    (packet.begin, packet.sequence, packet.discarded) = (Some(100), Some(1), Some(3));
    writer.begin(&packet).unwrap();
    writer.event(0, 100, &[U64(1)]).unwrap();
    writer.event(0, 100 + (1 << 24), &[U64(2)]).unwrap();
    writer.event(1, 50, &[U64(3)]).unwrap();
    // Sequence numbers continue after those of the packets that the writer added.
    packet.sequence = Some(2);
    packet.begin = Some(60);
    writer.begin(&packet).unwrap();
    writer.event(1, 60, &[U64(4)]).unwrap();
    writer.end().unwrap();
    assert_eq!(
        packets(&layout, writer.bytes()),
        [
            "100-100 #1 lost 3 cpu 0: small@100=1",
            "16777316-16777316 #2 lost 3 cpu 0: small@16777316=2",
            "50-50 #3 lost 3 cpu 0: large@50=3",
            "60-60 #4 lost 3 cpu 0: large@60=4"
        ]
    );
}

#[test]
fn a_failed_event_or_packet_writes_nothing() {
    let layout = layout(LTTNG);
    let mut writer = StreamWriter::new(layout.clone(), 0);
    writer.event(0, 10, &[U64(1)]).unwrap();
    assert_eq!(writer.event(1, 20, &[U64(256)]).unwrap_err().kind, WriteErrorKind::OutOfRange { value: 256, bits: 8, signed: false });
    assert_eq!(writer.event(7, 20, &[U64(2)]).unwrap_err().kind, WriteErrorKind::UnknownClass { index: 7 });
    assert!(writer.event(0, 20, &[] as &[OwnedValue]).is_err());
    writer.event(0, 30, &[U64(3)]).unwrap();
    writer.end().unwrap();
    assert_eq!(packets(&layout, writer.bytes()), ["10-30 #0 lost 0 cpu 0: small@10=1 small@30=3"]);
}

#[test]
fn a_packet_has_a_size_limit_and_one_without_sizes_must_be_the_last() {
    let layout = fields("string s;");
    let mut writer = StreamWriter::new(layout.clone(), 0).limit(8);
    writer.event(0, 0, &[text("abc")]).unwrap();
    assert_eq!(writer.event(0, 0, &[text("abcd")]).unwrap_err().kind, WriteErrorKind::TooLarge { limit: 8 });
    writer.event(0, 0, &[text("def")]).unwrap();
    writer.end().unwrap();
    assert_eq!(writer.bytes(), b"abc\0def\0");
    assert_eq!(writer.event(0, 0, &[text("x")]).unwrap_err().kind, WriteErrorKind::NoPacketSize);
}

#[test]
fn names_that_are_keywords_of_ctf_1_are_written_and_read_back() {
    let metadata = r#"{"type": "preamble", "version": 2}
{"type": "clock-class", "id": "my clock", "frequency": 1000000000, "origin": "unix-epoch"}
{"type": "trace-class", "environment": {"some thing": "x\"y"}}
{"type": "data-stream-class", "default-clock-class-id": "my clock", "event-record-header-field-class": {"type": "structure", "member-classes": [
  {"name": "when", "field-class": {"type": "variable-length-unsigned-integer", "roles": ["default-clock-timestamp"]}}]}}
{"type": "event-record-class", "name": "e", "payload-field-class": {"type": "structure", "member-classes": [
  {"name": "struct", "field-class": {"type": "variable-length-signed-integer", "mappings": {"minus": [[-1, -1]]}}},
  {"name": "a b", "field-class": {"type": "null-terminated-string", "encoding": "utf-16le"}},
  {"name": "a-b", "field-class": {"type": "static-length-blob", "length": 2}},
  {"name": "_x", "field-class": {"type": "variant", "selector-field-location": {"path": ["struct"]}, "options": [
    {"selector-field-ranges": [[-5, -1]], "field-class": {"type": "null-terminated-string"}},
    {"name": "stream", "selector-field-ranges": [[0, 9]], "field-class": {"type": "structure"}}]}}]}}"#;
    let schema = Metadata::from_text(metadata).unwrap().schema().clone();
    let layout = Arc::new(Layout::to_ctf1(&schema).unwrap());
    let text = write::metadata(layout.metadata());
    let read = Arc::new(Metadata::from_text(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
    let mut writer = StreamWriter::new(layout, 0);
    let option = Fields(vec![("_".into(), Str(b"opt".to_vec()))]);
    writer.event(0, 77, &[I64(-1), self::text("hé"), OwnedValue::Bytes(vec![1, 2]), option]).unwrap();
    writer.end().unwrap();
    let (dump, end) = common::dump(&read, BytesSource(writer.take()));
    assert!(end.is_ok(), "{dump}");
    let expected = "at 77 = 77 ns, struct: -1, a_b: \"hé\", a_b_2: bytes [01, 02], tag_of__x: 0, _x: <_: \"opt\">";
    assert!(dump.contains(expected), "{dump}\n{text}");
}

#[test]
fn names_that_are_no_identifiers_become_different_identifiers_in_ctf_1() {
    let member = |name: &str| format!("{{\"name\": \"{name}\", \"field-class\": {{\"type\": \"null-terminated-string\"}}}}");
    let members = ["plain", "a b", "a-b", "a_b", "é", "9", ""].map(member).join(", ");
    let metadata = format!(
        r#"{{"type": "preamble", "version": 2}} {{"type": "data-stream-class"}}
{{"type": "event-record-class", "name": "e", "payload-field-class": {{"type": "structure", "member-classes": [{members}]}}}}"#
    );
    let layout = Layout::to_ctf1(Metadata::from_text(&metadata).unwrap().schema()).unwrap();
    let payload = layout.metadata().streams[0].events[0].payload.clone().unwrap();
    let names: Vec<_> = payload.fields().iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["_plain", "_a_b", "_a_b_2", "_a_b_3", "__", "_9", "___2"]);
    let text = write::metadata(layout.metadata());
    assert_eq!(Metadata::from_text(&text).unwrap().schema(), layout.metadata().schema());
}

#[test]
fn log_levels_and_clocks_are_converted_to_ctf_2_and_fragments_are_appended() {
    let text = "trace { major = 1; minor = 8; byte_order = be; };
        clock { name = c; uuid = \"0a0b0c0d-0102-0304-0506-0708090a0b0c\"; freq = 1000; offset_s = 5; offset = -300; absolute = true; precision = 4; };
        stream { event.header := struct { integer { size = 8; } id; integer { size = 32; map = clock.c.value; } timestamp; }; };
        event { name = \"a:b\"; id = 1; loglevel = 13; model.emf.uri = \"http://example.org\"; fields := struct { string _struct; }; };";
    let old = Metadata::from_text(text).unwrap();
    let mut raised = write::to_ctf2(&old).unwrap();
    let last = raised.streams[0].events.pop().unwrap();
    let mut json = write::metadata(&raised);
    json.push_str(&write::json::event(0, &last));
    let new = Metadata::from_text(&json).unwrap_or_else(|e| panic!("{e}\n{json}"));
    let event = &new.streams[0].events[0];
    assert_eq!((event.loglevel, event.model_emf_uri.as_deref(), event.name.as_str()), (Some(13), Some("http://example.org"), "a:b"));
    assert_eq!(event.payload.as_ref().unwrap().fields()[0].name, "struct");
    for cycles in [0, 1, 299, 301, u64::from(u32::MAX)] {
        assert_eq!(new.clocks[0].ns(cycles), old.clocks[0].ns(cycles));
    }
    assert_eq!((new.clocks[0].uuid, new.clocks[0].absolute, new.clocks[0].precision), (old.clocks[0].uuid, true, 4));
    // Back to CTF 1.8: other names, the same meaning.
    let back = Layout::to_ctf1(&new).unwrap();
    let event = &back.metadata().streams[0].events[0];
    assert_eq!((event.loglevel, event.payload.as_ref().unwrap().fields()[0].name.as_str()), (Some(13), "_struct"));
    assert_eq!(back.metadata().clocks[0].ns(301), old.clocks[0].ns(301));
}

#[test]
fn fields_with_roles_are_converted_to_the_names_of_ctf_1() {
    // Every packet field of CTF 2, whatever its name is, gets the name of its role in CTF 1.8.
    let metadata = r#"{"type": "preamble", "version": 2, "uuid": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]}
{"type": "clock-class", "id": "c", "frequency": 1000000000}
{"type": "trace-class", "packet-header-field-class": {"type": "structure", "member-classes": [
  {"name": "m", "field-class": {"type": "fixed-length-unsigned-integer", "length": 32, "byte-order": "big-endian", "alignment": 8, "roles": ["packet-magic-number"]}},
  {"name": "u", "field-class": {"type": "static-length-blob", "length": 16, "roles": ["metadata-stream-uuid"]}},
  {"name": "s", "field-class": {"type": "variable-length-unsigned-integer", "roles": ["data-stream-class-id"]}},
  {"name": "i", "field-class": {"type": "variable-length-unsigned-integer", "roles": ["data-stream-id"]}}]}}
{"type": "data-stream-class", "id": 300, "default-clock-class-id": "c", "packet-context-field-class": {"type": "structure", "member-classes": [
  {"name": "p", "field-class": {"type": "variable-length-unsigned-integer", "roles": ["packet-total-length"]}},
  {"name": "c", "field-class": {"type": "variable-length-unsigned-integer", "roles": ["packet-content-length"]}},
  {"name": "b", "field-class": {"type": "variable-length-unsigned-integer", "roles": ["default-clock-timestamp"]}},
  {"name": "e", "field-class": {"type": "variable-length-unsigned-integer", "roles": ["packet-end-default-clock-timestamp"]}},
  {"name": "d", "field-class": {"type": "variable-length-unsigned-integer", "roles": ["discarded-event-record-counter-snapshot"]}},
  {"name": "q", "field-class": {"type": "variable-length-unsigned-integer", "roles": ["packet-sequence-number"]}},
  {"name": "packet_size", "field-class": {"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "big-endian"}},
  {"name": "cpu_id", "field-class": {"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "big-endian"}}]},
  "event-record-header-field-class": {"type": "structure", "member-classes": [
  {"name": "t", "field-class": {"type": "variable-length-unsigned-integer", "roles": ["default-clock-timestamp"]}}]}}
{"type": "event-record-class", "data-stream-class-id": 300, "name": "e", "payload-field-class": {"type": "structure", "member-classes": [
  {"name": "x", "field-class": {"type": "fixed-length-unsigned-integer", "length": 3, "byte-order": "big-endian"}}]}}"#;
    let schema = Metadata::from_text(metadata).unwrap().schema().clone();
    for layout in [Layout::new(Arc::new(Metadata::from_text(metadata).unwrap())), Layout::to_ctf1(&schema)] {
        let layout = Arc::new(layout.unwrap());
        let mut writer = StreamWriter::new(layout.clone(), 0);
        let mut packet = Packet::default();
        (packet.begin, packet.end, packet.sequence) = (Some(1000), Some(5000), Some(3));
        (packet.discarded, packet.stream_instance) = (Some(12), Some(4));
        packet.context = vec![("packet_size".into(), U64(99)), ("cpu_id".into(), U64(6))];
        for round in 0..2 {
            writer.begin(&packet).unwrap();
            writer.event(0, 2000, &[U64(5 + round)]).unwrap();
        }
        writer.end().unwrap();
        let bytes = writer.take();
        let mut stream = StreamDecoder::new(layout.metadata().clone(), BytesSource(&bytes));
        let mut count = 0;
        while let Some(item) = stream.next().unwrap() {
            if let Item::PacketBegin(p) = item {
                assert_eq!((p.begin, p.end, p.sequence, p.discarded), (Some(1000), Some(5000), Some(3), Some(12)));
                assert_eq!((p.stream_instance, p.sized), (Some(4), true));
                let plain = p.context.iter().filter(|(name, _)| name.starts_with("packet_size") || **name == *"cpu_id");
                assert!(plain.map(|(_, value)| value).any(|value| *value == U64(6)), "{:?}", p.context);
                assert_eq!(p.content_bits % 8, 3);
                count += 1;
            }
        }
        assert_eq!(count, 2);
    }
}

#[test]
fn fields_without_roles_have_none_in_ctf_1_whatever_their_names_are() {
    let member = |name: &str, class: &str| format!(r#"{{"name": "{name}", "field-class": {{"type": {class}}}}}"#);
    let structure = |members: &[String]| format!(r#"{{"type": "structure", "member-classes": [{}]}}"#, members.join(", "));
    let byte = r#""fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian", "alignment": 8"#;
    let header = structure(&[
        member("magic", byte),
        member("uuid", r#""static-length-blob", "length": 16"#),
        member("stream_id", byte),
        member("other", byte),
    ]);
    let counters = ["timestamp_begin", "timestamp_end", "events_discarded", "packet_seq_num"];
    let context = structure(&counters.map(|name| member(name, byte)));
    // Only a name or role of its own scope has a meaning.
    let misplaced = format!(r#"{byte}, "roles": ["packet-sequence-number"]"#);
    let payload = structure(&[member("uuid", byte), member("timestamp", byte), member("number", &misplaced)]);
    let metadata = format!(
        r#"{{"type": "preamble", "version": 2, "uuid": {:?}}}
{{"type": "trace-class", "packet-header-field-class": {header}}}
{{"type": "data-stream-class", "packet-context-field-class": {context}}}
{{"type": "event-record-class", "name": "e", "payload-field-class": {payload}}}"#,
        [5; 16]
    );
    let layout = Arc::new(Layout::to_ctf1(Metadata::from_text(&metadata).unwrap().schema()).unwrap());
    let names = |ty: &longpole_ctf::types::StructType| ty.fields().iter().map(|field| field.name.clone()).collect::<Vec<_>>();
    let schema = layout.metadata().schema();
    assert_eq!(names(schema.trace.packet_header.as_ref().unwrap()), ["_magic_", "_uuid_", "_stream_id_", "_other"]);
    assert_eq!(names(schema.streams[0].events[0].payload.as_ref().unwrap()), ["_uuid", "_timestamp", "_number"]);
    let mut writer = StreamWriter::new(layout.clone(), 0);
    let context = counters.map(|name| (name.into(), U64(7))).to_vec();
    writer.begin(&Packet { context, ..Packet::default() }).unwrap();
    writer.event(0, 0, &[U64(1), U64(2), U64(3)]).unwrap();
    writer.end().unwrap();
    let mut stream = StreamDecoder::new(layout.metadata().clone(), BytesSource(writer.take()));
    let Some(Item::PacketBegin(packet)) = stream.next().unwrap() else { panic!("no packet") };
    assert_eq!((packet.begin, packet.end, packet.discarded, packet.sequence), (None, None, None, None));
    assert!(!packet.other_uuid);
    for name in counters {
        assert!(packet.context.contains(&(format!("{name}_").into(), U64(7))), "{:?}", packet.context);
    }
}

#[test]
fn types_of_maximum_depth_are_written_in_both_versions() {
    // Runs with the stack size of a program's main thread, because unoptimised code needs it.
    let deep = || {
        let (open, close) = ("struct { ".repeat(256), "} s;".repeat(256));
        let old = Metadata::from_text(&format!(
            "trace {{ major = 1; minor = 8; byte_order = le; }};
             event {{ name = e; fields := struct {{ {open} integer {{ size = 8; }} x; {close} }}; }};"
        ));
        let schema = old.unwrap().schema().clone();
        for layout in [Layout::to_ctf1(&schema), Layout::to_ctf2(&schema)] {
            let layout = Arc::new(layout.unwrap());
            let text = write::metadata(layout.metadata());
            let read = Metadata::from_text(&text).unwrap_or_else(|e| panic!("{}", e.message));
            assert_eq!(read.schema(), layout.metadata().schema());
            assert_eq!(one(&layout, &[U64(7)]).unwrap(), [7]);
        }
    };
    std::thread::Builder::new().stack_size(8 << 20).spawn(deep).unwrap().join().unwrap();
}

/// Writes the same events with classes of the schema and with classes that are added one by one,
/// and compares the results.
fn assert_appended(schema: &longpole_ctf::Schema, prepared: fn(&longpole_ctf::Schema) -> Layout, events: &[(usize, u64, Vec<OwnedValue>)]) {
    let mut bare = schema.clone();
    let classes = std::mem::take(&mut bare.streams[0].events);
    let (whole, bare) = (Arc::new(prepared(schema)), Arc::new(prepared(&bare)));
    let mut writers = [StreamWriter::new(whole, 0), StreamWriter::new(bare.clone(), 0)];
    for (class, cycles, values) in events {
        writers[0].event(*class, *cycles, values).unwrap();
        let class = bare.event(&classes[*class]).unwrap();
        writers[1].new_event(&class, *cycles, values).unwrap();
    }
    writers.iter_mut().for_each(|writer| writer.end().unwrap());
    assert!(!writers[0].bytes().is_empty());
    assert_eq!(writers[0].bytes(), writers[1].bytes());
}

#[test]
fn a_class_that_is_added_later_is_written_like_one_of_the_schema() {
    let old = Metadata::from_text(LTTNG).unwrap().schema().clone();
    let layout = |schema: &longpole_ctf::Schema| Layout::new(Arc::new(Metadata::from_schema(schema.clone()).unwrap())).unwrap();
    assert_appended(&old, layout, &[(0, 5, vec![U64(1)]), (1, 6, vec![U64(2)]), (0, 7, vec![U64(3)])]);
    assert_appended(&old, |schema| Layout::to_ctf2(schema).unwrap(), &[(1, 6, vec![U64(2)])]);
    let metadata = r#"{"type": "preamble", "version": 2}
{"type": "data-stream-class", "packet-context-field-class": {"type": "structure", "member-classes": [
    {"name": "n", "field-class": {"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian"}}]},
  "event-record-header-field-class": {"type": "structure", "member-classes": [
    {"name": "i", "field-class": {"type": "variable-length-unsigned-integer", "roles": ["event-record-class-id"]}}]},
  "event-record-common-context-field-class": {"type": "structure", "member-classes": [
    {"name": "l", "field-class": {"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian"}},
    {"name": "b", "field-class": {"type": "dynamic-length-blob", "length-field-location": {"path": ["l"]}}}]}}
{"type": "event-record-class", "id": 70, "specific-context-field-class": {"type": "structure", "member-classes": [
    {"name": "is", "field-class": {"type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian"}}]},
  "payload-field-class": {"type": "structure", "member-classes": [
    {"name": "o", "field-class": {"type": "optional", "selector-field-location": {"origin": "event-record-specific-context", "path": ["is"]},
      "field-class": {"type": "null-terminated-string"}}}]}}
{"type": "event-record-class", "id": 71, "payload-field-class": {"type": "structure", "member-classes": [
    {"name": "o", "field-class": {"type": "dynamic-length-blob", "length-field-location": {"origin": "packet-context", "path": ["n"]}}}]}}"#;
    let mut schema = Metadata::from_text(metadata).unwrap().schema().clone();
    // A class that depends on a packet field cannot be added later.
    let class = schema.streams[0].events.pop().unwrap();
    assert!(layout(&schema).event(&class).is_err());
    let blob = || [U64(2), OwnedValue::Bytes(vec![7, 8])];
    let events = [(0, 0, [&blob()[..], &[Bool(true), text("x")]].concat()), (0, 0, [&blob()[..], &[Bool(false), Nothing]].concat())];
    assert_appended(&schema, layout, &events);
    assert_appended(&schema, |schema| Layout::to_ctf1(schema).unwrap(), &events);
}
