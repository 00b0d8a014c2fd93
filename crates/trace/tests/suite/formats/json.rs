//! Chrome's JSON and machine logs as traces.

use longpole_trace::Diagnostic;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use proptest::prelude::*;
use std::fs;
use tempfile::TempDir;

fn open(text: &[u8]) -> Result<Trace, String> {
    let place = TempDir::new().unwrap();
    let path = place.path().join("x.json");
    fs::write(&path, text).unwrap();
    Trace::open(&[&path], Options::default()).map_err(|error| error.to_string())
}

/// Returns each event as `time subject name {fields}`, and the diagnostics.
fn told(text: impl AsRef<[u8]>) -> (Vec<String>, Vec<Diagnostic>) {
    let mut trace = open(text.as_ref()).unwrap_or_else(|error| panic!("{error}"));
    let mut lines = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        let Item::Event(event) = item else { continue };
        let class = &catalogue.classes[event.class.0 as usize];
        let who = &catalogue.subjects[event.subject.0 as usize];
        let value = |value: &longpole_trace::Value<'_>| match value.text() {
            Some(text) => format!("{text:?}"),
            None if value.as_i64().is_some() || value.as_u64().is_some() => {
                value.as_i64().map_or_else(|| value.as_u64().unwrap_or(0).to_string(), |number| number.to_string())
            }
            None => value.as_f64().map_or(format!("{value:?}"), |number| number.to_string()),
        };
        assert_eq!(class.fields.len(), event.fields.len());
        let fields: Vec<String> = class.fields.iter().zip(event.fields).map(|(name, field)| format!("{name}={}", value(field))).collect();
        lines.push(format!("{} {}:{} {} {}", event.t_ns, who.label, who.thread, class.event_name, fields.join(" ")));
    }
    let diagnostics = trace.diagnostics().to_vec();
    (lines, diagnostics)
}

#[test]
fn events_are_sorted_by_time_and_named_by_later_metadata() {
    let (lines, diagnostics) = told(
        r#"{ "metadata": {"clock": "x"}, "traceEvents" : [
        {"ph":"X","name":"work","cat":"c","ts":10.5,"dur":3.25,"pid":7,"tid":8,"args":{"n":-1,"s":"t"}},
        {"ph":"B","name":"b","ts":2,"pid":7,"tid":9},
        {"name":"E?","ph":"E","ts":"3","pid":"one","tid":"two"},
        {"ph":"M","name":"process_name","pid":7,"args":{"name":"prog"}},
        {"ph":"M","name":"thread_name","pid":7,"tid":8,"args":{"name":"main"}},
        {"ph":"C","name":"ctr","ts":1763679845000000.123,"pid":7,"args":{"a":1,"b":2.5}},
        {} ], "displayTimeUnit": "ns" }"#,
    );
    assert_eq!(
        lines,
        [
            r#"2000 prog: b ph="B""#,
            r#"3000 one:two E? ph="E""#,
            r#"10500 prog:main work ph="X" cat="c" dur=3.25 args.n=-1 args.s="t""#,
            r#"1763679845000000123 prog: ctr ph="C" args.a=1 args.b=2.5"#,
        ]
    );
    assert_eq!(diagnostics, []);
}

#[test]
fn list_need_not_be_closed_but_must_not_end_inside_an_event() {
    let whole = r#"[{"name":"a","ph":"i","ts":1},{"name":"b","ph":"i","ts":2}"#;
    for end in ["]", "", ",", ",\n", " ] \n"] {
        let (lines, diagnostics) = told(format!("\u{feff}{whole}{end}"));
        assert_eq!((lines.len(), diagnostics.len()), (2, 0), "{end:?}");
    }
    let (lines, diagnostics) = told(&whole[..whole.len() - 3]);
    assert_eq!(lines.len(), 1);
    assert!(matches!(diagnostics.as_slice(), [Diagnostic::Truncated { .. }]), "{diagnostics:?}");
    // In an object the list must be closed.
    let (lines, diagnostics) = told(format!("{{\"traceEvents\":{whole}"));
    assert_eq!(lines.len(), 2);
    assert!(matches!(diagnostics.as_slice(), [Diagnostic::Truncated { .. }]), "{diagnostics:?}");
    assert_eq!(told("[]").0.len() + told("[").0.len() + told(r#"{"traceEvents":[]}"#).0.len(), 0);
}

#[test]
fn invalid_event_is_reported_with_its_place_and_hides_no_other_event() {
    let (lines, diagnostics) =
        told(r#"[{"name":"a","ph":"i","ts":1},{"name":"b","ph":"i","ts":"soon"},{"ph" "i"},7,{"name":"c","ph":"i","ts":3}]"#);
    assert_eq!(lines.len(), 2);
    let places: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(places.len(), 3, "{places:?}");
    assert!(places[0].contains("at byte 30: `ts` is not a time: \"soon\""), "{places:?}");
    assert!(diagnostics.iter().all(Diagnostic::is_damage));
}

#[test]
fn numbers_keep_all_digits_and_no_number_hides_its_event() {
    let args = [
        (r#"{"id":9007199254740993,"most":18446744073709551615,"least":-9223372036854775808}"#, 0),
        (r#"{"v":1e400,"w":-18446744073709551616,"x":5}"#, 2),
        (r#"{"l":[1e999,{"k":12345678901234567890123,"s":"1e999"},null],"f":1e30}"#, 2),
        ("-1e999", 1),
    ];
    let events: Vec<String> = (1..).zip(args).map(|(t, (args, _))| format!(r#"{{"ph":"i","name":"n","ts":{t},"args":{args}}}"#)).collect();
    let (lines, diagnostics) = told(format!("[{}]", events.join(",")));
    assert_eq!(lines.len(), 4, "{diagnostics:?}");
    assert!(lines[0].ends_with("args.id=9007199254740993 args.most=18446744073709551615 args.least=-9223372036854775808"), "{lines:?}");
    assert!(lines[1].ends_with(r#"args.v="1e400" args.w="-18446744073709551616" args.x=5"#), "{lines:?}");
    for text in ["1e999", "12345678901234567890123"] {
        assert!(lines[2].contains(&format!("{:?}", text.as_bytes())), "{lines:?}");
    }
    assert!(lines[3].ends_with(r#"args="-1e999""#), "{lines:?}");
    let numbers: u64 = args.iter().map(|(_, numbers)| numbers).sum();
    assert!(
        matches!(diagnostics.as_slice(), [Diagnostic::NumbersOutOfRange { numbers: found, .. }] if *found == numbers),
        "{diagnostics:?}"
    );
    assert!(!diagnostics[0].is_damage());
    // The exact second pass has the same limit of nesting as the first.
    let deep = format!(r#"[{{"ph":"i","name":"n","ts":1,"args":{{"v":1e400,"d":{}1{}}}}}]"#, "[".repeat(100_000), "]".repeat(100_000));
    assert!(matches!(told(deep).1.as_slice(), [Diagnostic::UndecodableRecord { .. }]));
}

#[test]
fn json_of_other_kinds_is_refused_with_the_reason() {
    let refused = |text: &str| open(text.as_bytes()).err().unwrap_or_else(|| panic!("{text} is a trace"));
    assert!(refused(r#"{"a":1,"b":2}"#).contains("neither `traceEvents` nor `t`, only `a`, `b`"));
    assert!(refused(r#"[{"a":1}]"#).contains("the first has no `ph`, only `a`"));
    assert!(refused(r#"{"displayTimeUnit":"ms","traceEvents":7}"#).contains("traceEvents"));
    // An object over several lines is no line of a log.
    assert!(refused("{\n\"t\":1,\n\"x\":2}\n").contains("neither"));
}

#[test]
fn machine_log_lines_are_events_named_after_the_action() {
    let (lines, diagnostics) = told(
        "{\"queue\":\"q\",\"capacity\":2}\n\n{\"t\":3,\"host\":\"h\",\"machine\":\"A\",\"state\":\"run\"}\n{\"t\":4,\"machine\":\"A\",\"put\":\"q\",\"n\":2}\n{\"t\":9,\"end\":\"A\"}",
    );
    assert_eq!(
        lines,
        [
            r#"0 : queue queue="q" capacity=2"#,
            r#"3 A: state host="h" machine="A" state="run""#,
            r#"4 A: put machine="A" put="q" n=2"#,
            r#"9 A: end end="A""#,
        ]
    );
    assert_eq!(diagnostics, []);
}

#[test]
fn machine_log_ends_at_an_invalid_line() {
    let (lines, diagnostics) = told("{\"t\":3,\"machine\":\"A\"}\n{\"t\":2,\"machine\":\"A\"}\n{\"t\":4,\"machine\":\"A\"}\n");
    assert_eq!(lines.len(), 1);
    assert!(diagnostics[0].to_string().contains("line 2: `t` is 2 after 3") && diagnostics[0].is_damage(), "{diagnostics:?}");
    let (lines, diagnostics) = told("{\"t\":3,\"machine\":\"A\"}\nnonsense\n");
    assert_eq!(lines.len(), 1);
    assert!(diagnostics[0].to_string().contains("line 2"), "{diagnostics:?}");
    for (key, shown) in [("foo", "foo"), ("stateful", "stateful"), ("X_own", "X_own"), ("s\u{7}", "s\\u{7}")] {
        let (lines, diagnostics) = told(format!(
            "{{\"t\":3,\"machine\":\"A\",\"x_own\":{{\"foo\":1}}}}\n{{\"t\":4,\"machine\":\"A\",{}:1}}\n",
            serde_json::to_string(key).unwrap()
        ));
        assert_eq!(lines.len(), 1, "{lines:?}");
        let unknown = format!("line 2: unknown key `{shown}` (own keys begin with x_)");
        assert!(diagnostics[0].to_string().contains(&unknown) && diagnostics[0].is_damage(), "{diagnostics:?}");
    }
}

#[test]
fn truncated_list_of_events_is_reported_without_mentioning_packets() {
    let (lines, diagnostics) = told("{\"traceEvents\":[{\"ph\":\"i\",\"ts\":1,\"name\":\"a\",\"pid\":1,\"tid\":1},{\"ph\":\"i\",\"ts");
    assert_eq!(lines.len(), 1);
    assert!(diagnostics[0].to_string().contains("ends inside an entry (still being written"), "{diagnostics:?}");
}

#[test]
fn number_of_classes_is_limited_if_names_never_repeat() {
    let events: Vec<String> = (0..70_000).map(|n| format!(r#"{{"name":"e{n}","ph":"i","ts":{n},"args":{{"n":{n}}}}}"#)).collect();
    let mut trace = open(format!("[{}]", events.join(",")).as_bytes()).unwrap();
    let mut last = String::new();
    let mut count = 0;
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        if let Item::Event(event) = item {
            count += 1;
            last = format!("{} {:?}", catalogue.classes[event.class.0 as usize].event_name, event.fields[0].text());
        }
    }
    assert_eq!((count, last.as_str()), (70_000, r#"event Some("e69999")"#));
    assert!(trace.catalogue().classes.len() < 66_000);
}

/// Valid files, which the tests damage.
fn seeds() -> Vec<Vec<u8>> {
    let chrome = r#"{"displayTimeUnit":"ns","otherData":{"a":[1,2,{"b":"\u00e4\""}]},"traceEvents":[
        {"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"main"}},
        {"ph":"X","name":"w\u0000\"","ts":-10.5e1,"dur":3.25,"pid":1,"tid":2,"args":{"n":-1,"l":[true,null,{"k":1e300}]}},
        {"ph":"s","id":"0x1","name":"f","ts":2,"pid":1,"tid":2,"bp":"e"},{"ph":"i","name":"x","ts":18446744073709551616}],"stackFrames":{}}"#;
    let list = r#"[{"name":"b","ph":"i","ts":2,"args":7},{"name":"a","ph":"b","ts":1.25,"id2":{"local":"1"},"args":[1]},"#;
    let log = "{\"queue\":\"q\"}\n{\"t\":3,\"machine\":\"A\",\"put\":\"q\",\"x_y\":[1,{}]}\n{\"t\":4,\"machine\":\"A\",\"blocked\":\"w\"}\n{\"t\":5,\"machine\":\"A\",\"woken_by\":null}\n";
    [chrome, list, log].map(|text| text.as_bytes().to_vec()).to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_json_leads_to_an_error_or_to_events_and_never_to_a_panic(
        seed in 0usize..3,
        changes in prop::collection::vec((0usize..10_000, 0u8..6, any::<u8>(), 0usize..40), 0..6),
        cut in prop::option::of(0usize..10_000),
    ) {
        let mut bytes = seeds()[seed].clone();
        for (at, how, byte, length) in changes {
            let at = at % bytes.len();
            let end = (at + length).min(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes[at] ^= 1 << (byte & 7),
                2 => drop(bytes.drain(at..end)),
                3 => { let part = bytes[at..end].to_vec(); bytes.splice(at..at, part); }
                4 => { bytes.splice(at..at, *b"[{\"\\"); }
                _ => { bytes.splice(at..end, b"99999999999999999999e9".iter().copied()); }
            }
            if bytes.is_empty() {
                bytes.push(byte);
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut % bytes.len() + 1);
        }
        if let Ok(mut trace) = open(&bytes) {
            while let Ok(Some(item)) = trace.next_item() {
                if let Item::Event(event) = item {
                    let _ = format!("{:?}", event.fields);
                }
            }
            trace.diagnostics().iter().for_each(|diagnostic| drop(diagnostic.to_string()));
        }
    }

    #[test]
    fn every_event_is_yielded_once_and_in_order_whatever_its_place_in_the_file(times in prop::collection::vec(-1000i64..1000, 0..60)) {
        let events: Vec<String> = times.iter().map(|t| format!(r#"{{"ph":"i","name":"n","ts":{t},"args":{{"t":{t}}}}}"#)).collect();
        let (lines, diagnostics) = told(format!("[{}]", events.join(",\n")));
        let mut sorted = times.clone();
        sorted.sort_unstable();
        let expected: Vec<String> = sorted.iter().map(|t| format!("{} : n ph=\"i\" args.t={t}", t * 1000)).collect();
        prop_assert_eq!(lines, expected);
        prop_assert_eq!(diagnostics, []);
    }
}

/// Inputs that once failed in the tests with damaged files. They are checked in every run.
#[test]
fn inputs_that_once_failed_cause_no_panic() {
    let found: [&[u8]; 4] = [
        b"[{\"ph\":\"i\",\"ts\":\"\xc3\xa4aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}]",
        b"[}",
        b"{\"t\"",
        b"[{\"ph\":\"i\",\"ts\":1}}",
    ];
    for text in found {
        if let Ok(mut trace) = open(text) {
            while let Ok(Some(_)) = trace.next_item() {}
        }
    }
}

#[test]
fn reading_ends_at_the_first_damage_if_requested() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("x");
    let texts = [
        r#"[{"ph":"i","ts":1},{"ph" 7},{"ph":"i","ts":2}]"#,
        r#"[{"ph":"i","ts":9},{"ph":"i","ts":1},{"ph":"i","ts":{}},{"ph":"i","ts":2}]"#,
        "{\"t\":1,\"machine\":\"A\"}\n{\"t\":x}\n{\"t\":2,\"machine\":\"A\"}\n",
    ];
    for (text, before) in texts.iter().zip([1, 2, 1]) {
        fs::write(&path, text).unwrap();
        let options = Options { damage: longpole_trace::Damage::EndsStream, ..Options::default() };
        let mut trace = Trace::open(&[&path], options).unwrap();
        let mut events = 0;
        while trace.next_item().unwrap().is_some() {
            events += 1;
        }
        assert_eq!((events, trace.is_damaged_strictly()), (before, true), "{text}");
    }
}
