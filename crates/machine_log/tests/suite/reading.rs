//! What is read, what is refused with place and reason, and that neither depends on how the input
//! arrives.

use longpole_machine_log::{
    is_machine_log, Action, Amount, Cause, Content, Error, Flow, Line, LineError, LineErrorKind, Machine, Next, Reader, Repeats, Wants,
    LONGEST_LINE,
};
use proptest::prelude::*;
use std::io::{self, Read};

fn read(log: impl Read) -> Result<Vec<(u64, Line<'static>)>, Error> {
    let mut reader = Reader::new(log);
    let mut lines = Vec::new();
    while let Some((number, line)) = reader.next_line()? {
        lines.push((number, line.into_owned()));
    }
    Ok(lines)
}

fn one(line: &str) -> Line<'static> {
    read(line.as_bytes()).unwrap().remove(0).1
}

fn refused(log: &[u8]) -> LineError {
    match read(log) {
        Err(Error::Line(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// An input that comes a few bytes at a time.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(into.len());
        self.0.read(&mut into[..count])
    }
}

#[test]
fn a_refused_line_is_reported_with_its_place_and_what_was_expected() {
    let first = "{\"t\":5,\"machine\":\"A\"}\n";
    for (line, reason) in [
        ("{\"t\":4,\"machine\":\"A\"}", "`t` is 4 after 5: the time of lines never decreases"),
        ("{\"t\":-1,\"machine\":\"A\"}", "`t`: invalid type: integer `-1`, expected an integer from 0 to 2^63 - 1, at column 7"),
        ("{\"t\":5.5,\"machine\":\"A\"}", "`t`: invalid type: floating point `5.5`, expected an integer from 0 to 2^63 - 1, at column 8"),
        ("{\"t\":\"5\",\"machine\":\"A\"}", "`t`: invalid type: string \"5\", expected an integer from 0 to 2^63 - 1, at column 8"),
        ("{\"machine\":\"A\"}", "`t` is missing: the time in ns"),
        ("{\"t\":5}", "the line has neither `machine`, `queue` nor `end`"),
        ("{\"t\":5,\"machine\":\"A\",\"stat\":\"x\"}", "unknown key `stat` (own keys begin with x_), at column 27"),
        ("{\"t\":5,\"t\":5,\"machine\":\"A\"}", "key `t` twice, at column 10"),
        ("{\"t\":5,\"machine\":7}", "`machine`: invalid type: integer `7`, expected a string, at column 18"),
        ("{\"t\":5,\"machine\":\"A\",\"put\":\"q\",\"get\":\"q\"}", "`put` and `get` in one line; write two lines of the same `t`"),
        (
            "{\"t\":5,\"machine\":\"A\",\"put\":\"q\",\"n\":0}",
            "`n`: invalid value: integer `0`, expected an integer from 1 to 2^63 - 1, or \"all\", at column 36",
        ),
        ("{\"t\":5,\"machine\":\"A\",\"put\":\"q\",\"n\":\"all\"}", "`n` is \"all\", which only a get or peek may say"),
        ("{\"t\":5,\"machine\":\"A\",\"state\":\"x\",\"n\":1}", "`n` without put, get, peek or reserve"),
        ("{\"t\":5,\"machine\":\"A\",\"get\":\"q\",\"link\":\"l\"}", "`link` without put, woken_by or forked_by"),
        ("{\"t\":5,\"machine\":\"A\",\"stop\":false}", "`stop`: invalid value: boolean `false`, expected true, at column 33"),
        ("{\"t\":5,\"machine\":\"A\",\"blocked\":\"x\",\"for\":\"luck\"}", "`for` is \"luck\"; a block is for \"tokens\" or \"space\""),
        ("{\"t\":5,\"machine\":\"A\",\"blocked\":\"x\",\"state\":\"y\"}", "`state` does not go with `blocked`"),
        ("{\"t\":5,\"machine\":\"A\",\"pop\":true,\"forked_by\":\"B\"}", "`pop` does not go with `on_top_of` or `forked_by`"),
        (
            "{\"t\":5,\"machine\":\"A\",\"put\":\"q\",\"forked_by\":\"B\",\"link\":\"l\"}",
            "`at` or `link` with two causes in one line; write two lines of the same `t`",
        ),
        ("{\"t\":5,\"machine\":\"A\",\"end\":\"B\"}", "`machine` does not go with `end`"),
        ("{\"t\":5,\"machine\":\"A\",\"capacity\":1}", "`capacity` does not go with `machine`"),
        ("{\"queue\":\"q\",\"order\":\"sorted\"}", "`order` is \"sorted\"; a queue is \"fifo\" or \"lifo\""),
        ("{\"queue\":\"q\",\"unit\":\"kg\"}", "`unit` is \"kg\"; a queue holds \"items\" or \"bytes\""),
        ("{\"queue\":\"q\",\"capacity\":0}", "`capacity` is 0: nothing could ever be put"),
        ("{\"queue\":\"q\",\"capacity\":1,\"initial\":2}", "`initial` is 2, beyond the capacity of 1"),
        ("{\"queue\":\"q\",\"machine\":\"A\"}", "`machine` does not go with `queue`"),
        ("[1]", "invalid type: sequence, expected a JSON object"),
        ("{\"t\":5,\"machine\":\"A\"", "EOF while parsing an object, at column 20"),
        ("{\"t\":5,\"machine\":\"A\"} {}", "trailing characters, at column 23"),
    ] {
        let error = refused(format!("{first}{line}\n").as_bytes());
        assert_eq!(error.to_string(), format!("line 2: {reason}"), "{line}");
        assert_eq!((error.line, error.byte), (2, first.len() as u64 + error.column.saturating_sub(1)), "{line}");
    }
}

#[test]
fn the_kind_of_an_error_needs_no_look_at_its_text() {
    assert_eq!(refused(b"{\"t\":1,\"x\":2}").kind, LineErrorKind::UnknownKey("x".to_owned()));
    assert_eq!(refused(b"{\"t\":1,\"t\":2}").kind, LineErrorKind::KeyTwice("t"));
    let late = refused(b"\n{\"t\":2,\"end\":\"A\"}\n{\"t\":1,\"end\":\"A\"}");
    assert_eq!((late.kind, late.line, late.byte), (LineErrorKind::TimeDecreases { t: 1, before: 2 }, 3, 19));
}

#[test]
fn each_key_is_where_it_belongs() {
    let mut machine = Machine::new("A");
    machine.class = Some("C".into());
    machine.action = Some(Action::Put { queue: "q".into(), n: 3, flow: Some(Flow::Number(7)), link: Some("dma".into()) });
    machine.state = Some("s".into());
    (machine.kind, machine.is_kernel_thread) = (Some("span".into()), true);
    let line = one(
        r#"{"t":1,"host":"h","machine":"A","class":"C","put":"q","n":3,"flow":7,"link":"dma","state":"s","x_kind":"span","x_kernel":true}"#,
    );
    assert_eq!(line, Line { t: Some(1), host: "h".into(), content: Content::Machine(machine) });

    let cause = || Cause { machine: "B".into(), at: Some(2), link: Some("timer".into()) };
    let woken = one(r#"{"t":4,"machine":"A","woken_by":"B","at":2,"link":"timer"}"#);
    assert_eq!(woken, Line::action(4, "A", Action::WokenBy(Some(cause()))));
    assert_eq!(one(r#"{"t":4,"machine":"A","woken_by":null}"#), Line::action(4, "A", Action::WokenBy(None)));

    let mut context = Machine::new("irq");
    (context.on_top_of, context.forked_by) = (Some(None), Some(Some(cause())));
    let line = one(r#"{"t":4,"machine":"irq","on_top_of":null,"forked_by":"B","at":2,"link":"timer"}"#);
    assert_eq!(line, Line::of_machine(4, context));

    let blocked = Action::Blocked { why: "full".into(), on: Some("q".into()), wants: Some(Wants::Space) };
    assert_eq!(one(r#"{"t":4,"machine":"A","blocked":"full","on":"q","for":"space"}"#), Line::action(4, "A", blocked));
    let get = Action::Get { queue: "q".into(), amount: Amount::All, flow: Some(Flow::Text("7".into())) };
    assert_eq!(one(r#"{"t":4,"machine":"A","get":"q","n":"all","flow":"7"}"#), Line::action(4, "A", get));
    assert_eq!(one(r#"{"t":9,"end":"A"}"#), Line::end(9, "A"));
}

#[test]
fn own_keys_blank_lines_escapes_and_a_missing_last_newline_are_fine() {
    let log = "\n{\"t\":0,\"machine\":\"\\u0041\",\"x_note\":{\"a\":[1,2]}}\r\n \t\n{\"t\":0,\"machine\":\"A\",\"state\":\"s\"}";
    let lines = read(log.as_bytes()).unwrap();
    assert_eq!(lines, [(2, Line::of_machine(0, Machine::new("A"))), (4, Line::state(0, "A", "s"))]);
}

#[test]
fn lines_are_the_same_however_the_input_comes_in_pieces() {
    let mut log = "{\"queue\":\"q\",\"capacity\":4}\n".to_owned();
    for t in 0..3000 {
        log += &format!("{{\"t\":{t},\"machine\":\"A\",\"put\":\"q\",\"n\":3,\"flow\":{t},\"link\":\"dma\",\"state\":\"s\"}}\n");
    }
    let whole = read(log.as_bytes()).unwrap();
    assert_eq!(whole.len(), 3001);
    for size in [1, 2, 3, 7, 64, 1000, 1 << 16, (1 << 16) + 1] {
        assert_eq!(read(Pieces(log.as_bytes(), size)).unwrap(), whole);
    }
}

#[test]
fn a_line_without_end_is_refused_and_not_kept() {
    let mut long = vec![b' '; LONGEST_LINE + 10];
    long[0] = b'{';
    assert_eq!(refused(&long).to_string(), format!("line 1: longer than {LONGEST_LINE} bytes"));
    long.push(b'\n');
    assert_eq!(refused(&long).kind, LineErrorKind::TooLong);
    /// An endless line. The reader must give up when it is too long.
    struct Endless(usize);
    impl Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            into.fill(b'x');
            self.0 += into.len();
            assert!(self.0 <= 4 * LONGEST_LINE, "{} bytes", self.0);
            Ok(into.len())
        }
    }
    assert!(read(Endless(0)).is_err());
}

#[test]
fn a_line_of_the_most_bytes_is_read() {
    let mut long = b"{\"t\":0,\"machine\":\"A\",\"x_pad\":\"".to_vec();
    long.resize(LONGEST_LINE - 2, b'x');
    long.extend_from_slice(b"\"}\n{\"t\":1,\"end\":\"A\"}\n");
    assert_eq!(read(&long[..]).unwrap().len(), 2);
}

#[test]
fn after_an_error_there_are_no_more_lines() {
    let mut reader = Reader::new("{\"t\":1}\n{\"t\":2,\"end\":\"A\"}\n".as_bytes());
    assert!(reader.next_line().is_err());
    assert!(reader.next_line().unwrap().is_none());
}

#[test]
fn an_input_that_fails_is_an_error_and_an_interrupted_one_is_not() {
    struct Fails(Vec<io::Result<&'static [u8]>>);
    impl Read for Fails {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let next = self.0.remove(0)?;
            into[..next.len()].copy_from_slice(next);
            Ok(next.len())
        }
    }
    let interrupted = || Err(io::ErrorKind::Interrupted.into());
    let end: io::Result<&[u8]> = Ok(&[]);
    let lines = read(Fails(vec![interrupted(), Ok(b"{\"t\":1,\"end\""), interrupted(), Ok(b":\"A\"}"), end]));
    assert_eq!(lines.unwrap(), [(1, Line::end(1, "A"))]);
    let failed = read(Fails(vec![Ok(b"{\"t\":1"), Err(io::Error::other("gone"))]));
    assert_eq!(failed.unwrap_err().to_string(), "cannot be read: gone");
}

#[test]
fn a_log_is_recognised_by_its_first_line() {
    for begin in ["{\"t\":0,\"machine\":\"A\"}\n", "\n {\"queue\":\"q\"}", "{\"machine\":\"A\",\"t\":5}", "{\"t\":\"wrong\"}"] {
        assert!(is_machine_log(begin.as_bytes()), "{begin}");
    }
    for begin in ["", "/* CTF 1.8 */", "{\"type\":\"trace-class\"}", "\u{0}\u{1}", "[{\"t\":0}]", "{}"] {
        assert!(!is_machine_log(begin.as_bytes()), "{begin}");
    }
}

#[test]
fn a_repeated_line_has_what_was_kept_of_the_first_one_and_its_own_time_and_number() {
    let log = "{\"t\":1,\"machine\":\"A\"}\n{\"t\":1,\"machine\":\"B\"}\n{\"t\":2,\"machine\":\"A\"}\n{\"t\": 3,\"machine\":\"A\"}\n{\"t\":3, \"machine\":\"A\"}\n{\"t\":4,\"machine\":\"B\"}";
    let (mut reader, mut repeats) = (Reader::new(log.as_bytes()), Repeats::default());
    let mut seen = Vec::new();
    while let Some(next) = reader.next_with(&mut repeats).unwrap() {
        seen.push(match next {
            Next::Line { number, line, slot } => {
                // Nothing is kept of B.
                if line == Line::of_machine(line.t.unwrap(), Machine::new("A")) {
                    slot.keep(10 * number);
                }
                (number, line.t.unwrap(), None)
            }
            Next::Repeat { number, t, value } => (number, t, Some(*value)),
        });
    }
    assert_eq!(seen, [(1, 1, None), (2, 1, None), (3, 2, Some(10)), (4, 3, Some(10)), (5, 3, None), (6, 4, None)]);
}

#[test]
fn the_time_of_a_repeated_line_does_not_decrease_either() {
    let log = "{\"t\":5,\"machine\":\"A\"}\n{\"t\":6,\"machine\":\"A\"}\n{\"t\":5,\"machine\":\"A\"}\n";
    let (mut reader, mut repeats) = (Reader::new(log.as_bytes()), Repeats::<()>::default());
    let Ok(Some(Next::Line { slot, .. })) = reader.next_with(&mut repeats) else { panic!() };
    slot.keep(());
    assert!(matches!(reader.next_with(&mut repeats), Ok(Some(Next::Repeat { t: 6, .. }))));
    let error = reader.next_with(&mut repeats).unwrap_err();
    assert_eq!(error.to_string(), "line 3: `t` is 5 after 6: the time of lines never decreases");
}

/// Lines of the format's own words, well-formed or nearly so.
fn nearly_a_line() -> impl Strategy<Value = String> {
    let keys = [&longpole_machine_log::KEYS[..], &["x_own", "x_kind", "x_kernel", "stat", ""]].concat();
    let values = "0|7|12|012|-1|1.5|1e3|999999999999999999|9223372036854775807|9223372036854775808|\"A\"|\"all\"|\"\"|\"a b\"|\"\\u0041\"|\"ä\"|\"\u{7f}\"|\"\u{1}\"|null|true|false|tru|[1]|{\"a\":1}|\"fifo\"|\"space\"|";
    let value = proptest::sample::select(values.split('|').collect::<Vec<_>>());
    let space = proptest::sample::select(&["", "", "", " ", "\t", "\r", "\u{b}"][..]);
    let member = (proptest::sample::select(keys), value, space);
    let member = member.prop_map(|(key, value, space)| format!("{space}\"{key}\"{space}:{space}{value}"));
    let end = proptest::sample::select(&["}", "}", "}", "} ", "}}", "", ",}", "} x"][..]);
    (proptest::collection::vec(member, 0..5), end).prop_map(|(members, end)| format!("{{{}{end}", members.join(",")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    /// An escape in a key of its own makes the reader of all JSON read the line.
    #[test]
    fn a_line_of_the_common_shape_is_read_as_by_the_reader_of_all_json(text in nearly_a_line()) {
        let fast = read(text.as_bytes());
        let slow = read(text.replacen('{', "{\"x\\u005f\":0,", 1).as_bytes());
        if let Ok(lines) = fast {
            // The braces may be empty, and then the comma is one too many.
            prop_assert_eq!(lines, slow.unwrap());
        }
    }
}

proptest! {
    #[test]
    fn whatever_the_bytes_are_there_is_an_answer(
        lines in proptest::collection::vec(nearly_a_line(), 1..5),
        cuts in proptest::collection::vec((0usize..500, any::<u8>()), 0..6),
    ) {
        let mut bytes = lines.join("\n").into_bytes();
        for (at, byte) in cuts {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let _ = is_machine_log(&bytes);
        let _ = read(&bytes[..]);
    }
}
