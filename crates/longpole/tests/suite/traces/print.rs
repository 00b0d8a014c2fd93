//! `print` and `check` on traces that other tracers wrote: the form of a line, the selection of
//! events and fields, and the reaction to damage.

use crate::support::plain_ctf;
use crate::support::plain_ctf::{packet, write, Payload::*};
use crate::support::schema;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn longpole(arguments: &[&str], traces: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longpole")).args(arguments).args(traces).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The lines on stdout of a command that must succeed.
fn lines(arguments: &[&str], trace: &Path) -> Vec<String> {
    let output = longpole(arguments, &[trace]);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    text(&output).lines().map(str::to_owned).collect()
}

/// A trace with four events on two CPUs. The last event of the first CPU has a packet of its own.
fn trace() -> TempDir {
    let directory = TempDir::new().unwrap();
    let first = vec![
        packet(0, &[(100, 7, Switch("kworker/0:1", -5, 2, (3, 4))), (200, 7, Rx(1500, 2, [10, 11]))]),
        packet(0, &[(500, 8, Switch("a \"b\"\n", 20, 9, (0, 65_535)))]),
    ];
    let second = vec![packet(1, &[(300, 9, Rx(60, 0, [1, 2]))])];
    write(directory.path(), &[("one", first), ("two", second)]);
    directory
}

#[test]
fn a_line_has_the_same_form_as_babeltrace2s() {
    let trace = trace();
    let expected = [
        "[22:13:20.000000100] (+?.?????????) far sched_switch: { cpu_id = 0 }, { vtid = 7, ip = 0xABC }, { prev_comm = \"kworker/0:1\", prev_prio = -5, state = ( \"blocked\" : container = 2 ), at = { x = 3, y = 4 } }",
        "[22:13:20.000000200] (+0.000000100) far net:rx: { cpu_id = 0 }, { vtid = 7, ip = 0xABC }, { len = 1500, n = 2, part = [ [0] = 10, [1] = 11 ] }",
        "[22:13:20.000000300] (+0.000000100) far net:rx: { cpu_id = 1 }, { vtid = 9, ip = 0xABC }, { len = 60, n = 0, part = [ [0] = 1, [1] = 2 ] }",
        "[22:13:20.000000500] (+0.000000200) far sched_switch: { cpu_id = 0 }, { vtid = 8, ip = 0xABC }, { prev_comm = \"a \\\"b\\\"\\n\", prev_prio = 20, state = ( <unknown> : container = 9 ), at = { x = 0, y = 65535 } }",
    ];
    assert_eq!(lines(&["print"], trace.path()), expected);
    let theirs = Command::new("babeltrace2").args(["--clock-gmt"]).arg(trace.path()).output();
    match theirs {
        Ok(theirs) => assert_eq!(text(&theirs).lines().collect::<Vec<_>>(), expected),
        Err(_) => eprintln!("babeltrace2 is not here; not compared"),
    }
}

/// Times of the printed events, in ns since 1,700,000,000 s.
fn shown(arguments: &[&str], trace: &Path) -> Vec<i64> {
    let arguments: Vec<&str> = ["print", "--json"].iter().chain(arguments).copied().collect();
    let times = lines(&arguments, trace).into_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap()["t_ns"].as_i64().unwrap());
    times.map(|t_ns| t_ns - 1_700_000_000_000_000_000).collect()
}

#[test]
fn events_are_selected_by_name_filter_and_from_the_end() {
    let trace = trace();
    let path = trace.path();
    assert_eq!(shown(&["--names", "net:*"], path), [200, 300]);
    assert_eq!(shown(&["--names", "sched_switch,net:r?"], path), [100, 200, 300, 500]);
    assert_eq!(shown(&["--filter", "cpu == 0 && name ~ \"sched*\""], path), [100, 500]);
    assert_eq!(shown(&["--filter", "state == 'blocked' || part[1] == 2"], path), [100, 300]);
    assert_eq!(shown(&["--filter", "at.y > 4"], path), [500]);
    assert_eq!(shown(&["--filter", "cpu_id == 1 && t_ns > 1700000000000000000"], path), [300]);
    assert_eq!(shown(&["--filter", "t > +150ns and t <= '1970-01-01T00:00Z'"], path), [0; 0]);
    assert_eq!(shown(&["--filter", "t > +150ns and t <= \"22:13:20.0000003\""], path), [300]);
    assert_eq!(shown(&["--filter", "vtid & 8"], path), [300, 500]);
    assert_eq!(shown(&["--tail", "2"], path), [300, 500]);
    assert_eq!(shown(&["--tail", "1", "--names", "net:rx"], path), [300]);
    assert_eq!(shown(&["--tail", "0"], path), [0; 0]);
    assert_eq!(shown(&["--tail", "99"], path), [100, 200, 300, 500]);
}

#[test]
fn a_wrong_filter_is_refused_with_the_position() {
    let trace = trace();
    let output = longpole(&["print", "--filter", "cpu == ) && x"], &[trace.path()]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("found `)`\n  cpu == ) && x\n         ^"), "{said}");
    let output = longpole(&["print", "--filter", "prev_com == 'x'"], &[trace.path()]);
    assert!(output.status.success() && output.stdout.is_empty());
    assert!(String::from_utf8(output.stderr).unwrap().contains("`prev_com`"));
    let output = longpole(&["print", "--names", "net:*,sched_wakeup"], &[trace.path()]);
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 2);
    assert_eq!(String::from_utf8(output.stderr).unwrap().matches("note: no event of this trace is called `sched_wakeup`").count(), 1);
}

#[test]
fn fields_and_contexts_are_selected_by_name() {
    let trace = trace();
    let shown = lines(&["print", "--fields", "at.y,prev_*,context.v*", "--names", "sched*", "--tail", "1"], trace.path());
    assert_eq!(
        shown,
        ["[22:13:20.000000500] (+0.000000400) far sched_switch: { cpu_id = 0 }, { vtid = 8 }, { prev_comm = \"a \\\"b\\\"\\n\", prev_prio = 20, at = { y = 65535 } }"]
    );
    let shown = lines(&["print", "--fields", "at", "--tail", "1"], trace.path());
    assert!(shown[0].ends_with(" far sched_switch: { cpu_id = 0 }, { at = { x = 0, y = 65535 } }"), "{shown:?}");
    let shown = lines(&["print", "--json", "--fields", "len", "--names", "net:rx", "--tail", "1"], trace.path());
    let line: Value = serde_json::from_str(&shown[0]).unwrap();
    assert_eq!((&line["fields"], &line["context"]), (&serde_json::json!({ "len": 60 }), &serde_json::json!({})));
}

/// A trace with two streams whose packet contexts describe their events. In the stream `named` the
/// packet context contains a thread, which is then the subject of the events.
fn told_by_packets() -> TempDir {
    let directory = TempDir::new().unwrap();
    let metadata = "/* CTF 1.8 */ typealias integer { size = 8; } := u8; typealias integer { size = 8; base = 16; } := x8;
        trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u8 stream_id; }; };
        clock { name = c; freq = 1000000000; }; typealias integer { size = 8; map = clock.c.value; } := stamp;
        stream { id = 0; event.header := struct { stamp t; };
            packet.context := struct { u8 packet_size; u8 cpu_id; x8 at; enum : u8 { idle, busy } mode; struct { u8 n; u8 each[n]; } list; string _text; }; };
        stream { id = 1; event.header := struct { stamp t; }; event.context := struct { u8 c; };
            packet.context := struct { u8 packet_size; string thread; u8 tid; u8 events_discarded; }; };
        event { name = a; stream_id = 0; fields := struct { u8 x; }; }; event { name = b; stream_id = 1; fields := struct { u8 text; }; };";
    std::fs::write(directory.path().join("metadata"), metadata).unwrap();
    let bits = |bytes: &[u8]| [&[bytes[0], bytes.len() as u8 * 8 + 8][..], &bytes[1..]].concat();
    let first = [bits(b"\0\x03\x2a\x01\x02\x07\x08hi\0\x04\x02\x05\x01"), bits(b"\0\x03\x2b\x09\0\0\x09\x03")].concat();
    std::fs::write(directory.path().join("plain"), first).unwrap();
    std::fs::write(directory.path().join("named"), bits(b"\x01worker\0\x2c\0\x06\x05\x09")).unwrap();
    directory
}

#[test]
fn the_packet_context_of_an_event_is_shown_next_to_the_cpu() {
    let trace = told_by_packets();
    let packet = r#"{ cpu_id = 3, at = 0x2A, mode = ( "busy" : container = 1 ), list = { n = 2, each = [ 07 08 ] }, text = "hi" }"#;
    let expected = [
        format!("[00:00:00.000000004] (+?.?????????) plain a: {packet}, {{ x = 2 }}"),
        format!("[00:00:00.000000005] (+0.000000001) plain a: {packet}, {{ x = 1 }}"),
        "[00:00:00.000000006] (+0.000000001) worker(44) b: { c = 5 }, { text = 9 }".to_owned(),
        "[00:00:00.000000009] (+0.000000003) plain a: { cpu_id = 3, at = 0x2B, mode = ( <unknown> : container = 9 ), list = { n = 0, each = [ ] }, text = \"\" }, { x = 3 }".to_owned(),
    ];
    assert_eq!(lines(&["print"], trace.path()), expected);
    let json: Vec<Value> = lines(&["print", "--json"], trace.path()).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    json.iter().for_each(|line| schema::check(&schema::schema("print"), line));
    let told = serde_json::json!({ "at": 42, "mode": "busy", "list.n": 2, "list.each": "0708", "text": "hi" });
    assert_eq!((&json[0]["packet"], &json[1]["packet"], json[2].get("packet")), (&told, &told, None));
    assert_eq!(json[3]["packet"]["mode"], 9);
    let chosen = |arguments: &[&str]| lines(&[&["print"], arguments].concat(), trace.path());
    assert_eq!(
        chosen(&["--fields", "packet.m*,x", "--tail", "1"])[0].split_once("a: ").unwrap().1,
        "{ cpu_id = 3, mode = ( <unknown> : container = 9 ) }, { x = 3 }"
    );
    assert!(chosen(&["--fields", "x", "--tail", "1"])[0].ends_with("a: { cpu_id = 3 }, { x = 3 }"));
    assert_eq!(chosen(&["--filter", "mode == 'busy' && packet.list.each[1] == 8"]).len(), 2);
    assert_eq!(chosen(&["--filter", "packet.text == 'hi' || text == 9"]).len(), 3);
    assert_eq!(chosen(&["--filter", "packet.at > 0x2a"]).len(), 1);
}

/// A trace in which the first packet of a stream is damaged after its first event. Another packet
/// follows, and another stream.
fn damaged() -> TempDir {
    let directory = TempDir::new().unwrap();
    let first = vec![
        packet(0, &[(100, 7, Rx(1, 1, [1, 1])), (200, 7, Unknown), (300, 7, Rx(2, 2, [2, 2]))]),
        packet(0, &[(500, 7, Rx(3, 3, [3, 3]))]),
    ];
    write(directory.path(), &[("one", first), ("two", vec![packet(1, &[(600, 7, Rx(4, 4, [4, 4]))])])]);
    directory
}

#[test]
fn print_continues_after_damage_and_with_strict_it_stops() {
    let trace = damaged();
    let times = |output: &Output| text(output).lines().map(|line| line[16..19].to_owned()).collect::<Vec<_>>();
    let output = longpole(&["print"], &[trace.path()]);
    assert_eq!((output.status.code(), times(&output)), (Some(1), vec!["100".to_owned(), "500".to_owned(), "600".to_owned()]));
    let output = longpole(&["print", "--strict"], &[trace.path()]);
    assert_eq!((output.status.code(), times(&output)), (Some(1), vec!["100".to_owned()]));
    let said = String::from_utf8(output.stderr).unwrap();
    // The bit is that after 36 bytes of packet header, an event of 10 + 8 + 7 bytes, and the header
    // of the next event: 568 bits in total.
    assert!(said.contains("one: packet 0 at byte 0, bit 568, event 1: "), "{said}");
}

#[test]
fn check_reads_each_stream_up_to_its_first_damage_and_reports_the_position() {
    let trace = damaged();
    let output = longpole(&["check", "--json"], &[trace.path()]);
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    schema::check(&schema::schema("check"), &answer);
    assert_eq!((&answer["events"], &answer["damaged"]), (&2.into(), &true.into()));
    let place = answer["places"].as_array().unwrap().iter().find(|place| place["damage"] == true).unwrap();
    assert_eq!((&place["packet"], &place["bit"], &place["event"]), (&0.into(), &568.into(), &1.into()));
    assert!(place["path"].as_str().unwrap().ends_with("/one"));
    let output = longpole(&["check"], &[trace.path()]);
    assert!(text(&output).ends_with("damaged: 2 events, 0 lost\n"), "{}", text(&output));
}

#[test]
fn check_requires_all_of_a_foreign_trace() {
    let trace = trace();
    assert_eq!(longpole(&["check"], &[trace.path()]).status.code(), Some(0));
    let stream = trace.path().join("two");
    let length = std::fs::metadata(&stream).unwrap().len();
    std::fs::File::options().write(true).open(&stream).unwrap().set_len(length - 3).unwrap();
    let output = longpole(&["check"], &[trace.path()]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("two ends inside a packet"), "{}", text(&output));
    // An unfinished packet, which a running tracer may still complete, does not keep the rest from
    // being shown.
    assert_eq!(longpole(&["print"], &[trace.path()]).status.code(), Some(0));
    assert_eq!(longpole(&["print", "--strict"], &[trace.path()]).status.code(), Some(1));
}

#[test]
fn check_shows_the_line_of_an_error_in_metadata() {
    let trace = trace();
    std::fs::write(trace.path().join("metadata"), "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = xx; };\n").unwrap();
    let output = longpole(&["check"], &[trace.path()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("metadata:2:") && text(&output).contains("byte_order = xx"), "{}", text(&output));
    assert!(text(&output).contains("damaged: 0 events"));
    assert_eq!(text(&output).matches("metadata").count(), 1);
    let output = longpole(&["check", "--json"], &[trace.path()]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    schema::check(&schema::schema("check"), &answer);
    assert_eq!(answer["places"][0]["line"], 2);
    assert!(answer["places"][0]["text"].as_str().unwrap().contains("byte_order = xx"));

    // A block that a recorder left unfinished.
    let trace = self::trace();
    let metadata = trace.path().join("metadata");
    let whole = std::fs::read_to_string(&metadata).unwrap() + "\nenv {\n\ta = 1;\n};\n";
    std::fs::write(&metadata, format!("{whole}event {{\n\tname = \"x\";\n")).unwrap();
    let output = longpole(&["check", "--json"], &[trace.path()]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    schema::check(&schema::schema("check"), &answer);
    let place = answer["places"].as_array().unwrap().iter().find(|place| place["damage"] == true).unwrap();
    assert_eq!(place["line"], whole.lines().count() + 1, "{answer}");
}

#[test]
fn the_error_of_an_input_that_cannot_be_opened_is_shown_on_lines_of_its_own() {
    let (parts, whole) = (TempDir::new().unwrap(), trace());
    std::fs::rename(whole.path(), parts.path().join("whole")).unwrap();
    std::fs::create_dir(parts.path().join("broken")).unwrap();
    std::fs::write(parts.path().join("broken/metadata"), "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = xx; };\n").unwrap();
    let broken = parts.path().join("broken/metadata");
    let drawn = format!("{}:2:44: ", broken.display());
    for arguments in [&["check"][..], &["print", "--tail", "0"], &["info"]] {
        let output = longpole(arguments, &[parts.path()]);
        let said = text(&output) + &String::from_utf8(output.stderr.clone()).unwrap();
        let at = said.find(&format!("broken cannot be opened and is left out: {drawn}")).unwrap_or_else(|| panic!("{arguments:?}: {said}"));
        let mut lines = said[at..].lines();
        let (line, mark) = (lines.nth(1).unwrap(), lines.next().unwrap());
        assert_eq!(line.find("xx"), mark.find("^~"), "{said}");
        assert!(line.starts_with("    ") && !said.contains("\\n"), "{said}");
        assert_eq!(said.matches(&*broken.to_string_lossy()).count(), 1, "{said}");
    }
    let answer: Value = serde_json::from_slice(&longpole(&["check", "--json"], &[parts.path()]).stdout).unwrap();
    assert!(answer["diagnostics"][0].as_str().unwrap().contains("byte_order = xx; };\n"));
}

#[test]
fn offsets_map_several_inputs_to_one_clock() {
    let (a, b) = (trace(), trace());
    let offset = format!("{}=-250ns", b.path().display());
    let output = longpole(&["print", "--offset", &offset], &[a.path(), b.path()]);
    let times: Vec<String> = text(&output).lines().map(|line| line[7..19].to_owned()).collect();
    let all =
        ["19.999999850", "19.999999950", "20.000000050", "20.000000100", "20.000000200", "20.000000250", "20.000000300", "20.000000500"];
    assert_eq!(times, all, "{}", String::from_utf8_lossy(&output.stderr));
    let output =
        longpole(&["print", "--offset", &offset, "--begin", "22:13:20.00000025", "--end", "22:13:20.0000003"], &[a.path(), b.path()]);
    assert_eq!(text(&output).lines().count(), 2);
    // A part of a trace can have an offset of its own.
    let part = a.path().join("two");
    let offset_of_part = format!("{}=1us", part.display());
    assert_eq!(shown(&["--offset", &offset_of_part], a.path()), [100, 200, 500, 1300]);
    let output = longpole(&["print", "--offset", &offset], &[a.path()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("neither one of the traces that are read nor a part of one"));
}

#[test]
fn info_shows_the_properties_of_a_foreign_trace() {
    let trace = trace();
    let output = longpole(&["info", "--json"], &[trace.path()]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    schema::check(&schema::schema("info"), &answer);
    let told = &answer["traces"][0];
    assert_eq!((&told["environment"]["hostname"], &told["environment"]["tracer_name"]), (&"far".into(), &"other".into()));
    let clock = &told["clocks"][0];
    assert_eq!((&clock["name"], &clock["frequency_hz"]), (&"c".into(), &1_000_000_000.into()));
    assert_eq!(clock["offset_ns"].as_i64(), Some(1_700_000_000_000_000_000));
    let stream = answer["streams"].as_array().unwrap().iter().find(|stream| stream["name"] == "one").unwrap();
    assert_eq!((&stream["packets"], &stream["packets_lost"], &stream["events"]), (&2.into(), &0.into(), &3.into()));
    assert_eq!(stream["bytes"].as_u64(), Some(std::fs::metadata(trace.path().join("one")).unwrap().len()));
    assert_eq!(stream["end_ns"].as_i64().unwrap() - stream["start_ns"].as_i64().unwrap(), 400);
    let text = text(&longpole(&["info"], &[trace.path()]));
    for part in ["hostname     far", "c, 1,000,000,000 Hz, 0 is 2023-11-14 22:13:20.000000000Z", "in 3 packets"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn values_of_ctf_2_have_their_labels_also_inside_of_other_values() {
    let directory = TempDir::new().unwrap();
    let class = |ty: &str, more: &str| format!(r#"{{"type":"{ty}","length":8,"byte-order":"little-endian","alignment":8{more}}}"#);
    let color = class("fixed-length-unsigned-integer", r#","mappings":{"red":[[1,1]],"blue":[[2,3]]}"#);
    let flags = class("fixed-length-bit-map", r#","flags":{"read":[[0,0]],"write":[[1,1]]}"#);
    let member = |name: &str, ty: &str| format!(r#"{{"name":"{name}","field-class":{ty}}}"#);
    let inner = format!(r#"{{"type":"structure","member-classes":[{},{}]}}"#, member("c", &color), member("f", &flags));
    let optional = format!(r#"{{"type":"optional","selector-field-location":{{"path":["is"]}},"field-class":{color}}}"#);
    let fields = [
        member("one", &color),
        member("flags", &flags),
        member("many", &format!(r#"{{"type":"static-length-array","length":2,"element-field-class":{inner}}}"#)),
        member("size", r#"{"type":"variable-length-unsigned-integer","mappings":{"huge":[[1000,9999]]}}"#),
        member("is", &class("fixed-length-boolean", "")),
        member("may", &optional),
        member("wide", r#"{"type":"null-terminated-string","encoding":"utf-16le"}"#),
    ];
    let metadata = format!(
        "\u{1e}{{\"type\":\"preamble\",\"version\":2}}\n\u{1e}{{\"type\":\"data-stream-class\"}}\n\u{1e}{{\"type\":\"event-record-class\",\"name\":\"e\",\"payload-field-class\":{{\"type\":\"structure\",\"member-classes\":[{}]}}}}\n",
        fields.join(",")
    );
    std::fs::write(directory.path().join("metadata"), metadata).unwrap();
    let first = [1, 0b11, 2, 0b101, 9, 0, 0xd0, 0x0f, 1, 3, 0xe9, 0, 0, 0];
    let second = [7, 0, 1, 2, 2, 1, 5, 0, 0, 0];
    std::fs::write(directory.path().join("stream"), [&first[..], &second].concat()).unwrap();
    let shown = lines(&["print"], directory.path());
    assert_eq!(
        shown[0].split_once("e: ").unwrap().1,
        r#"{ one = ( "red" : container = 1 ), flags = ( "read", "write" : container = 0x3 ), many = [ [0] = { c = ( "blue" : container = 2 ), f = ( "read" : container = 0x5 ) }, [1] = { c = ( <unknown> : container = 9 ), f = ( <unknown> : container = 0x0 ) } ], size = ( "huge" : container = 2000 ), is = true, may = ( "blue" : container = 3 ), wide = "é" }"#
    );
    let values: Vec<Value> = lines(&["print", "--json"], directory.path()).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = [
        r#"{"one":"red","flags":["read","write"],"many":[{"c":"blue","f":["read",4]},{"c":9,"f":[]}],"size":"huge","is":true,"may":"blue","wide":"é"}"#,
        r#"{"one":7,"flags":[],"many":[{"c":"red","f":["write"]},{"c":"blue","f":["read"]}],"size":5,"is":false,"may":null,"wide":""}"#,
    ];
    for (value, expected) in values.iter().zip(expected) {
        assert_eq!(value["fields"], serde_json::from_str::<Value>(expected).unwrap());
    }
}

#[test]
fn fields_with_similar_names_stay_distinct_and_empty_structures_are_shown() {
    let directory = TempDir::new().unwrap();
    let shown = |metadata: &str, stream: &[u8], filter: &str| {
        std::fs::write(directory.path().join("metadata"), metadata).unwrap();
        std::fs::write(directory.path().join("stream"), stream).unwrap();
        let text = lines(&["print", "--filter", filter], directory.path()).remove(0);
        (text.split_once("stream e: ").unwrap().1.to_owned(), lines(&["print", "--json"], directory.path()).remove(0))
    };
    let metadata = "/* CTF 1.8 */ typealias integer { size = 8; } := u8; trace { major = 1; minor = 8; byte_order = le; };
        stream { event.context := struct { u8 a; u8 b; }; };
        event { name = e; context := struct { u8 a; u8 c; }; fields := struct { u8 _len; struct { } none; u8 len; struct { u8 _x; } _s; }; };";
    let (text, json) = shown(metadata, &[1, 2, 3, 4, 5, 6, 7], "_len == 5 && len == 6 && event.a == 3 && s.x == 7 && none");
    assert_eq!(text, "{ a = 1, b = 2, event = { a = 3 }, c = 4 }, { _len = 5, none = { }, len = 6, s = { x = 7 } }");
    let told = r#""fields":{"_len":5,"none":{},"len":6,"s.x":7},"context":{"a":1,"b":2,"event.a":3,"c":4}}"#;
    assert!(json.ends_with(told), "{json}");
    let u8 = r#"{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian"}"#;
    let of = |members: &str| format!(r#"{{"type":"structure","member-classes":[{members}]}}"#);
    let member = |name: &str, ty: &str| format!(r#"{{"name":"{name}","field-class":{ty}}}"#);
    let payload = of(&[member("a.b", u8), member("a", &of(&member("b", u8))), member("none", &of(""))].join(","));
    let metadata = format!(
        "\u{1e}{{\"type\":\"preamble\",\"version\":2}}\n\u{1e}{{\"type\":\"data-stream-class\"}}\n\u{1e}{{\"type\":\"event-record-class\",\"name\":\"e\",\"payload-field-class\":{payload}}}\n"
    );
    let (text, json) = shown(&metadata, &[1, 2], r"`a\.b` == 1 && a.b == 2");
    assert_eq!(text, "{ a.b = 1, a = { b = 2 }, none = { } }");
    assert!(json.ends_with(r#""fields":{"a\\.b":1,"a.b":2,"none":{}},"context":{}}"#), "{json}");
}

#[test]
fn inputs_with_a_common_clock_use_the_first_inputs_description_of_it() {
    let (a, b) = (trace(), trace());
    let said = |offset: &str, uuid: &str| {
        plain_ctf::METADATA.replace("clock { name = c;", &format!("clock {{ name = c; uuid = \"{uuid}\"; offset = {offset};"))
    };
    let uuid = "f9888afb-e5cd-4d55-8592-e050aa5b9613";
    std::fs::write(a.path().join("metadata"), said("0", uuid)).unwrap();
    std::fs::write(b.path().join("metadata"), said("50", uuid)).unwrap();
    let times = |output: &Output| text(output).lines().map(|line| line[16..19].parse::<u32>().unwrap()).collect::<Vec<_>>();
    let output = longpole(&["print"], &[a.path(), b.path()]);
    assert_eq!(times(&output), [100, 100, 200, 200, 300, 300, 500, 500]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("its times are moved by -50 ns"));
    // An explicit offset has priority, and clocks with other UUIDs are different clocks.
    let output = longpole(&["print", "--offset", &format!("{}=+10ns", b.path().display())], &[a.path(), b.path()]);
    assert_eq!(times(&output), [100, 160, 200, 260, 300, 360, 500, 560]);
    std::fs::write(b.path().join("metadata"), said("50", "f9888afb-e5cd-4d55-8592-e050aa5b9614")).unwrap();
    assert_eq!(times(&longpole(&["print"], &[a.path(), b.path()])), [100, 150, 200, 250, 300, 350, 500, 550]);
}

#[test]
fn inputs_that_begin_days_apart_are_reported_because_their_clocks_probably_differ() {
    let (a, b) = (trace(), trace());
    let told = |offset: &str| {
        let offset = format!("{}={offset}", b.path().display());
        let output = longpole(&["print", "--offset", &offset], &[a.path(), b.path()]);
        String::from_utf8(output.stderr).unwrap().lines().find(|line| line.contains("different origins")).map(str::to_owned)
    };
    assert_eq!(told("+86399s"), None);
    let (begins, other) = (format!("{}: it begins 2 days after", b.path().display()), a.path().display().to_string());
    assert!(told("+200000s").is_some_and(|line| line.contains(&begins) && line.contains(&other)), "{:?}", told("+200000s"));
    assert!(told("-100000s").is_some_and(|line| line.contains("1 day before")));
}

/// A trace with one event class `e`; `streams` and `fields` are parts of its metadata.
fn small(streams: &str, fields: &str, stream: &[u8]) -> TempDir {
    let directory = TempDir::new().unwrap();
    let metadata = format!(
        "/* CTF 1.8 */ typealias integer {{ size = 8; }} := u8; trace {{ major = 1; minor = 8; byte_order = le; }}; {streams}
         event {{ name = e; fields := struct {{ {fields} }}; }};"
    );
    std::fs::write(directory.path().join("metadata"), metadata).unwrap();
    std::fs::write(directory.path().join("stream"), stream).unwrap();
    directory
}

fn json(arguments: &[&str], trace: &Path) -> Vec<Value> {
    let lines = lines(&[&["print", "--json"], arguments].concat(), trace);
    let schema = schema::schema("print");
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).inspect(|line| schema::check(&schema, line)).collect()
}

#[test]
fn a_value_in_the_ranges_of_several_labels_has_all_of_them() {
    let fields = "enum : integer { size = 8; signed = true; } { \"A\" = 0 ... 3, B = 3 ... 5, C = 3, \"A\" = 2 ... 4, B = -1 } v;
        enum : integer { size = 8; base = 16; } { N = 17 } w; u8 n; struct { enum : u8 { x = 0 ... 9, y = 1 } o; } list[n];";
    let trace = small("", fields, &[1, 17, 0, 3, 17, 2, 1, 2, 4, 18, 0, 9, 17, 0, 255, 17, 0]);
    let shown: Vec<String> = lines(&["print"], trace.path()).iter().map(|line| line.split_once("stream ").unwrap().1.to_owned()).collect();
    let expected = [
        r#"e: { v = ( "A" : container = 1 ), w = ( "N" : container = 0x11 ), n = 0, list = [ ] }"#,
        r#"e: { v = ( "A", "B", "C" : container = 3 ), w = ( "N" : container = 0x11 ), n = 2, list = [ [0] = { o = ( "x", "y" : container = 1 ) }, [1] = { o = ( "x" : container = 2 ) } ] }"#,
        r#"e: { v = ( "A", "B" : container = 4 ), w = ( <unknown> : container = 0x12 ), n = 0, list = [ ] }"#,
        r#"e: { v = ( <unknown> : container = 9 ), w = ( "N" : container = 0x11 ), n = 0, list = [ ] }"#,
        r#"e: { v = ( "B" : container = -1 ), w = ( "N" : container = 0x11 ), n = 0, list = [ ] }"#,
    ];
    assert_eq!(shown, expected);
    match Command::new("babeltrace2").arg(trace.path()).output() {
        Ok(theirs) => assert_eq!(text(&theirs).lines().collect::<Vec<_>>(), expected),
        Err(_) => eprintln!("babeltrace2 is not here; not compared"),
    }
    let events = json(&[], trace.path());
    assert_eq!(events[1]["fields"].to_string(), r#"{"list":[{"o":"x"},{"o":"x"}],"n":2,"v":"A","w":"N"}"#);
    assert_eq!(
        events[1]["labelled"].to_string(),
        r#"{"fields":{"list[0].o":{"labels":["x","y"],"value":1},"list[1].o":{"labels":["x"],"value":2},"v":{"labels":["A","B","C"],"value":3},"w":{"labels":["N"],"value":17}}}"#
    );
    assert_eq!(events[3]["labelled"]["fields"]["v"].to_string(), r#"{"labels":[],"value":9}"#);
    assert_eq!(json(&["--fields", "n"], trace.path())[0]["labelled"], Value::Null);
    let chosen = |filter: &str| {
        let events = json(&["--filter", filter], trace.path());
        events.iter().map(|event| event["labelled"]["fields"]["v"]["value"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(chosen("v == 'B'"), [3, 4, -1]);
    assert_eq!(chosen("v != 'B'"), [1, 9]);
    assert_eq!(chosen("v ~ 'C*' || v == 4"), [3, 4]);
    assert_eq!(chosen("v !~ '[AC]'"), [9, -1]);
    assert_eq!(chosen("v & 2 && 'B' == v"), [3, -1]);
    assert_eq!(chosen("list[0].o == 'y'"), [3]);
}

#[test]
fn a_converted_trace_has_all_labels_too() {
    let trace = small("", "enum : u8 { A = 0 ... 3, B = 3 ... 5 } v;", &[1, 3, 5, 7]);
    let folder = TempDir::new().unwrap();
    let copy = folder.path().join("copy");
    let log = folder.path().join("log");
    std::fs::write(&log, "{\"t\":5,\"machine\":\"m\"}\n").unwrap();
    // If there is an input in another format, the trace is written event by event and not copied.
    for inputs in [vec![trace.path()], vec![trace.path(), &log]] {
        let to = ["--to", "ctf2", "--output", copy.to_str().unwrap()];
        let verb = if inputs.len() > 1 { "merge" } else { "convert" };
        let merged = longpole(&[&[verb], &to[..]].concat(), &inputs);
        assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
        let shown = lines(&["print", "--names", "*e"], &copy).join("\n");
        assert!(shown.contains(r#"v = ( "A", "B" : container = 3 )"#) && shown.contains(r#"v = ( "B" : container = 5 )"#), "{shown}");
        std::fs::remove_dir_all(&copy).unwrap();
    }
}

#[test]
fn numbers_that_json_cannot_represent_are_shown_as_texts() {
    let float = "floating_point { exp_dig = 8; mant_dig = 24; align = 8; byte_order = le; }";
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.5];
    let trace = small("", &format!("{float} f;"), &values.map(f32::to_le_bytes).concat());
    let told: Vec<String> = json(&[], trace.path()).iter().map(|event| event["fields"]["f"].to_string()).collect();
    assert_eq!(told, ["\"NaN\"", "\"inf\"", "\"-inf\"", "0.5"]);
}

#[test]
fn the_subject_is_shown_next_to_a_context_that_does_not_contain_it() {
    let packet =
        "packet.context := struct { u8 content_size; string label; string thread; integer { size = 32; align = 8; } pid; u8 tid; };";
    let bytes = [136, b'p', b'r', 0, b't', 0, 7, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6];
    let context = |fields: &str| {
        let trace = small(&format!("stream {{ {packet} event.context := struct {{ {fields} }}; }};"), "u8 x;", &bytes);
        let event = &json(&[], trace.path())[0];
        (event["context"].to_string(), event["packet"].to_string())
    };
    assert_eq!(context("u8 mode;"), (r#"{"label":"pr","mode":1,"pid":7,"thread":"t","tid":9}"#.to_owned(), "null".to_owned()));
    // If the event's own context has a member of the subject, the packet's members are shown as the
    // packet context.
    let of_packet = r#"{"label":"pr","pid":7,"thread":"t","tid":9}"#.to_owned();
    assert_eq!(context("u8 vtid;"), (r#"{"vtid":1}"#.to_owned(), of_packet.clone()));
    assert_eq!(context("u8 vpid; u8 label;"), (r#"{"label":2,"vpid":1}"#.to_owned(), of_packet));
}
