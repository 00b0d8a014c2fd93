//! Machine logs as interactions: the meaning of lines, and that written lines have the same
//! meaning.

use longpole_analysis::machine_log::{LogError, Reader, Writer};
use longpole_model::interaction::{Effect, Interaction};
use proptest::prelude::*;
use std::io::Read;

fn read(log: impl Read) -> Result<(Vec<Interaction>, usize), LogError> {
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
fn errors_of_the_format_and_of_a_lines_meaning_name_the_line() {
    assert_eq!(refusal("{\"t\":5,\"end\":\"A\"}\n{\"t\":4,\"end\":\"A\"}"), "line 2: `t` is 4 after 5: the time of lines never decreases");
    let late = "{\"t\":0,\"machine\":\"A\",\"put\":\"q\"}\n{\"queue\":\"q\"}";
    assert_eq!(refusal(late), "line 2: queue \"q\" was used or declared before; it is declared once, before its first use");
}

#[test]
fn interactions_have_the_numbers_and_names_of_their_lines() {
    let log = "\n{\"t\":0,\"machine\":\"\\u0041\",\"x_note\":{\"a\":[1,2]}}\r\n\n{\"t\":0,\"machine\":\"A\",\"state\":\"s\"}";
    let (all, names) = read(log.as_bytes()).unwrap();
    // No host, A, and the state.
    assert_eq!((all.len(), names), (2, 3));
    assert_eq!(all.iter().map(|it| it.line).collect::<Vec<_>>(), [2, 4]);
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
fn a_written_log_equals_the_log_that_was_read() {
    assert_eq!(written(ALL), ALL);
}

#[test]
fn the_state_of_a_line_begins_after_its_effect() {
    let (all, _) = read(&b"{\"t\":1,\"machine\":\"A\",\"state\":\"s\",\"get\":\"q\"}"[..]).unwrap();
    assert!(matches!((all[0].effect, all[1].effect), (Effect::Get { .. }, Effect::State { .. })));
}

proptest! {
    /// Any file yields an answer or a refusal, in bounded time.
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
fn a_repeated_line_has_the_same_meaning_as_a_new_one() {
    let bodies = [
        r#""machine":"A","state":"run"}"#,
        r#""machine":"B","class":"C","state":"run"}"#,
        r#""machine":"A","get":"q","state":"go"}"#,
        r#" "host": "h", "machine": "A", "put": "q", "n": 3, "flow": 7}"#,
        r#""machine":"A","put":"rpc:X:reply:1"}"#,
        r#""machine":"B","get":"rpc:X:reply:1"}"#,
        r#""machine":"A","woken_by":"B","at":0,"link":"l","state":"a"}"#,
        r#""end":"A"}"#,
    ];
    let log = |order: &[usize]| -> String { order.iter().map(|&at| format!("{{\"t\":{},{}\n", 3 + at / 8, bodies[at % 8])).collect() };
    let shown = |text: &str| -> Vec<String> { read(text.as_bytes()).unwrap().0.iter().map(|it| format!("{it:?}")).collect() };
    // In the second half, each line except for its time repeats one of the first half; with a blank
    // it is a different text.
    let twice: Vec<usize> = (0..16).collect();
    let again = log(&twice);
    let other = again.replace("\":", "\" :");
    assert_eq!(shown(&again), shown(&other));
    assert_eq!(shown(&again).len(), 2 * shown(&log(&twice[..8])).len());
}

#[test]
fn replies_of_many_calls_need_no_memory_and_keep_their_names() {
    let mut log = String::new();
    let mut line = |t: u64, text: String| log += &format!("{{\"t\":{t},\"machine\":\"A\",{text}}}\n");
    for call in 0..200_000u64 {
        line(call, format!("\"put\":\"rpc:X:reply:{call}\""));
        // Three calls are open at any time.
        if call >= 2 {
            line(call, format!("\"get\":\"rpc:X:reply:{}\"", call - 2));
        }
    }
    let mut reader = Reader::new(log.as_bytes());
    let mut queues = std::collections::HashSet::new();
    while let Some(interaction) = reader.next_interaction().unwrap() {
        if let Effect::Put { queue, .. } = interaction.effect {
            queues.insert(queue);
        }
    }
    assert!(reader.vocabulary().names.len() < 70_000, "{}", reader.vocabulary().names.len());
    assert!(queues.len() < 70_000, "{}", queues.len());
    assert_eq!(written(&log), log);
}

#[test]
fn a_flow_that_begins_with_nul_is_a_text_and_no_number() {
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
fn a_reply_queue_with_a_remaining_token_is_not_reused() {
    let mut log = String::new();
    // This number of queues keep their names.
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
        .filter_map(|it| match it.effect {
            Effect::Put { queue, .. } => Some(queue),
            _ => None,
        })
        .collect();
    let [a, b, _, c] = queues[..] else { panic!("{queues:?}") };
    assert!(a != b && b != c && a != c, "{queues:?}");
}
