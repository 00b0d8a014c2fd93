//! The machine log as text: what is read, what is refused with line and reason, and that what is written says the same.

use longpole_model::interaction::{Deed, Interaction};
use longpole_model::machine_log::{opens_like_one, LogError, Reader, Writer, LONGEST_LINE};
use proptest::prelude::*;
use std::io::{BufRead, BufReader};

fn read(log: impl BufRead) -> Result<(Vec<Interaction>, usize), LogError> {
    let mut reader = Reader::new(log);
    let mut all = Vec::new();
    while let Some(interaction) = reader.next_interaction()? {
        all.push(interaction);
    }
    Ok((all, reader.vocabulary().names.len()))
}

fn refusal(log: &str) -> String {
    read(log.as_bytes()).unwrap_err().to_string()
}

fn written(log: &str) -> String {
    let mut reader = Reader::new(log.as_bytes());
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    while let Some(interaction) = reader.next_interaction().unwrap() {
        writer.write(reader.vocabulary(), &interaction).unwrap();
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn a_refused_line_is_told_with_its_number_and_what_was_expected() {
    let a = "{\"t\":5,\"machine\":\"A\"}\n";
    for (line, reason) in [
        ("{\"t\":4,\"machine\":\"A\"}", "line 2: `t` is 4 after 5: the time of lines never decreases"),
        ("{\"t\":-1,\"machine\":\"A\"}", "line 2: `t`: invalid type: integer `-1`, expected an integer from 0 to 2^63 - 1"),
        ("{\"t\":5.5,\"machine\":\"A\"}", "line 2: `t`: invalid type: floating point `5.5`, expected an integer from 0 to 2^63 - 1"),
        ("{\"t\":\"5\",\"machine\":\"A\"}", "line 2: `t`: invalid type: string \"5\", expected an integer from 0 to 2^63 - 1"),
        ("{\"machine\":\"A\"}", "line 2: `t` is missing: the time in ns"),
        ("{\"t\":5}", "line 2: neither `machine`, `queue` nor `end`: whose line is this?"),
        ("{\"t\":5,\"machine\":\"A\",\"stat\":\"x\"}", "line 2: unknown key `stat` (own keys begin with x_), at column 27"),
        ("{\"t\":5,\"t\":5,\"machine\":\"A\"}", "line 2: key `t` twice, at column 10"),
        ("{\"t\":5,\"machine\":7}", "line 2: `machine`: invalid type: integer `7`, expected a string"),
        ("{\"t\":5,\"machine\":\"A\",\"put\":\"q\",\"get\":\"q\"}", "line 2: `put` and `get` in one line; write two lines of the same `t`"),
        (
            "{\"t\":5,\"machine\":\"A\",\"put\":\"q\",\"n\":0}",
            "line 2: `n`: invalid value: integer `0`, expected an integer from 1 to 2^63 - 1, or \"all\"",
        ),
        ("{\"t\":5,\"machine\":\"A\",\"put\":\"q\",\"n\":\"all\"}", "line 2: `n` is \"all\", which only a get or peek may say"),
        ("{\"t\":5,\"machine\":\"A\",\"state\":\"x\",\"n\":1}", "line 2: `n` without put, get, peek or reserve"),
        ("{\"t\":5,\"machine\":\"A\",\"get\":\"q\",\"link\":\"l\"}", "line 2: `link` without put, woken_by or forked_by"),
        ("{\"t\":5,\"machine\":\"A\",\"stop\":false}", "line 2: `stop`: invalid value: boolean `false`, expected true"),
        (
            "{\"t\":5,\"machine\":\"A\",\"blocked\":\"x\",\"for\":\"luck\"}",
            "line 2: `for` is \"luck\"; a block is for \"tokens\" or \"space\"",
        ),
        ("{\"queue\":\"q\",\"order\":\"sorted\"}", "line 2: `order` is \"sorted\"; a queue is \"fifo\" or \"lifo\""),
        ("{\"queue\":\"q\",\"capacity\":1,\"initial\":2}", "line 2: `initial` is 2, beyond the capacity of 1"),
        ("{\"queue\":\"q\",\"machine\":\"A\"}", "line 2: `machine` does not go with `queue`"),
        ("[1]", "line 2: invalid type: sequence, expected a JSON object, at column 0"),
        ("{\"t\":5,\"machine\":\"A\"", "line 2: EOF while parsing an object, at column 20"),
        ("{\"t\":5,\"machine\":\"A\"} {}", "line 2: trailing characters, at column 23"),
    ] {
        let said = refusal(&format!("{a}{line}\n"));
        assert_eq!(said.replace(", at column 0", ""), reason.replace(", at column 0", ""), "{line}");
    }
    let late = "{\"t\":0,\"machine\":\"A\",\"put\":\"q\"}\n{\"queue\":\"q\"}";
    assert_eq!(refusal(late), "line 2: queue \"q\" was used or declared before; it is declared once, before its first use");
}

#[test]
fn own_keys_blank_lines_escapes_and_a_missing_last_newline_are_fine() {
    let log = "\n{\"t\":0,\"machine\":\"\\u0041\",\"x_note\":{\"a\":[1,2]}}\r\n\n{\"t\":0,\"machine\":\"A\",\"state\":\"s\"}";
    let (all, names) = read(log.as_bytes()).unwrap();
    // No host, A, and the state.
    assert_eq!((all.len(), names), (2, 3));
    assert_eq!(all.iter().map(|it| it.line).collect::<Vec<_>>(), [2, 4]);
}

#[test]
fn a_line_is_the_same_however_the_input_comes_in_pieces() {
    let log =
        "{\"queue\":\"q\",\"capacity\":4}\n{\"t\":1,\"machine\":\"A\",\"put\":\"q\",\"n\":3,\"flow\":7,\"link\":\"dma\",\"state\":\"s\"}\n";
    let whole = read(log.as_bytes()).unwrap();
    for size in 1..40 {
        assert_eq!(read(BufReader::with_capacity(size, log.as_bytes())).unwrap(), whole);
    }
}

#[test]
fn a_line_without_end_is_refused_and_not_kept() {
    let mut long = vec![b' '; LONGEST_LINE + 10];
    long.splice(0..1, *b"{");
    assert_eq!(read(&long[..]).unwrap_err().to_string(), format!("line 1: longer than {LONGEST_LINE} bytes"));
    long.push(b'\n');
    assert_eq!(
        read(BufReader::with_capacity(1 << 22, &long[..])).unwrap_err().to_string(),
        format!("line 1: longer than {LONGEST_LINE} bytes")
    );
}

#[test]
fn a_log_is_recognised_by_its_first_line() {
    for begin in ["{\"t\":0,\"machine\":\"A\"}\n", "\n {\"queue\":\"q\"}", "{\"machine\":\"A\",\"t\":5}", "{\"t\":\"wrong\"}"] {
        assert!(opens_like_one(begin.as_bytes()), "{begin}");
    }
    for begin in ["", "/* CTF 1.8 */", "{\"type\":\"trace-class\"}", "\u{0}\u{1}", "[{\"t\":0}]"] {
        assert!(!opens_like_one(begin.as_bytes()), "{begin}");
    }
}

const ALL: &str = r#"{"queue":"q \"1\"","capacity":4,"order":"lifo","unit":"bytes","initial":1,"merge":true}
{"queue":"later","t":0}
{"t":0,"host":"h","machine":"A","class":"c","state":"s"}
{"t":1,"host":"h","machine":"B","class":"c","forked_by":"A","at":0,"link":"exec"}
{"t":1,"machine":"C"}
{"t":2,"host":"h","machine":"A","blocked":"x","on":"q \"1\"","for":"space"}
{"t":3,"host":"h","machine":"A","put":"q \"1\"","n":2,"flow":"f","link":"dma"}
{"t":3,"host":"h","machine":"A","get":"q \"1\"","n":"all","flow":7}
{"t":3,"host":"h","machine":"A","peek":"q \"1\"","flow":-7}
{"t":3,"host":"h","machine":"A","reserve":"later","n":9}
{"t":4,"host":"h","machine":"irq","class":"i","on_top_of":"A","forked_by":"B","at":2}
{"t":5,"host":"h","machine":"irq","pop":true}
{"t":5,"host":"h","machine":"irq","on_top_of":null}
{"t":6,"host":"h","machine":"A","woken_by":null}
{"t":6,"host":"h","machine":"A","woken_by":"B","at":3,"link":"timer"}
{"t":7,"host":"h","machine":"B","stop":true}
{"t":7,"machine":"K","state":"kernel","x_kernel":true}
{"t":8,"machine":"K","state":"kernel"}
{"t":8,"host":"h","end":"A"}
"#;

#[test]
fn what_is_written_is_what_was_read() {
    assert_eq!(written(ALL), ALL);
}

#[test]
fn a_state_beside_a_deed_happens_after_it() {
    let (all, _) = read(&b"{\"t\":1,\"machine\":\"A\",\"state\":\"s\",\"get\":\"q\"}"[..]).unwrap();
    assert!(matches!((all[0].deed, all[1].deed), (Deed::Get { .. }, Deed::State { .. })));
}

proptest! {
    /// Whatever is in the file, there is an answer or a refusal, in bounded time.
    #[test]
    fn a_hostile_log_is_refused_and_never_panics(cuts in proptest::collection::vec((0usize..2000, any::<u8>()), 1..6)) {
        let mut bytes = ALL.as_bytes().to_vec();
        for (at, byte) in cuts {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let _ = read(&bytes[..]);
    }
}

#[test]
fn replies_of_many_calls_cost_no_memory_and_keep_their_names() {
    let mut log = String::new();
    let mut line = |t: u64, text: String| log += &format!("{{\"t\":{t},\"machine\":\"A\",{text}}}\n");
    for call in 0..200_000u64 {
        line(call, format!("\"put\":\"rpc:X:reply:{call}\""));
        // Three calls are under way at any time.
        if call >= 2 {
            line(call, format!("\"get\":\"rpc:X:reply:{}\"", call - 2));
        }
    }
    let mut reader = Reader::new(log.as_bytes());
    let mut queues = std::collections::HashSet::new();
    while let Some(interaction) = reader.next_interaction().unwrap() {
        if let Deed::Put { queue, .. } = interaction.deed {
            queues.insert(queue);
        }
    }
    assert!(reader.vocabulary().names.len() < 70_000, "{}", reader.vocabulary().names.len());
    assert!(queues.len() < 70_000, "{}", queues.len());
    assert_eq!(written(&log), log);
}

#[test]
fn a_flow_that_begins_with_nul_is_itself_and_no_number() {
    let log = [
        r#"{"t":0,"machine":"A","put":"q","flow":"\u00005"}"#,
        r#"{"t":1,"machine":"A","put":"q","flow":5}"#,
        r#"{"t":2,"machine":"A","put":"q","flow":"\u0000\u0000"}"#,
        r#"{"t":3,"machine":"A","put":"q","flow":"5"}"#,
        r#"{"t":4,"machine":"A","put":"q","flow":-5}"#,
    ];
    let log = log.join("\n") + "\n";
    assert_eq!(written(&log), log);
}

#[test]
fn a_reply_queue_in_which_a_token_is_left_is_not_handed_on() {
    let mut log = String::new();
    // So many keep their names.
    for call in 0..1 << 16 {
        log += &format!(
            "{{\"t\":0,\"machine\":\"S\",\"put\":\"rpc:X:reply:{call}\"}}\n{{\"t\":0,\"machine\":\"C\",\"get\":\"rpc:X:reply:{call}\"}}\n"
        );
    }
    log += "{\"t\":1,\"machine\":\"S\",\"put\":\"rpc:X:reply:a\",\"flow\":1}\n{\"t\":2,\"machine\":\"C\",\"get\":\"rpc:X:reply:a\",\"flow\":2}\n";
    log += "{\"t\":3,\"machine\":\"S\",\"put\":\"rpc:X:reply:b\"}\n{\"t\":4,\"machine\":\"S\",\"put\":\"rpc:X:reply:b\",\"flow\":1}\n";
    log +=
        "{\"t\":5,\"machine\":\"C\",\"get\":\"rpc:X:reply:b\",\"n\":2,\"flow\":1}\n{\"t\":6,\"machine\":\"S\",\"put\":\"rpc:X:reply:c\"}\n";
    let (all, _) = read(log.as_bytes()).unwrap();
    let queues: Vec<_> = all[2 * (1 << 16)..]
        .iter()
        .filter_map(|it| match it.deed {
            Deed::Put { queue, .. } => Some(queue),
            _ => None,
        })
        .collect();
    let [a, b, _, c] = queues[..] else { panic!("{queues:?}") };
    assert!(a != b && b != c && a != c, "{queues:?}");
}
