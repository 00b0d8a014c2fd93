//! `queues` and `latency` on machine logs, with figures that were computed by hand.

use crate::support::schema;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn written(place: &TempDir, lines: &[&str]) -> PathBuf {
    let path = place.path().join("log.jsonl");
    std::fs::write(&path, lines.join("\n")).unwrap();
    path
}

fn ask(verb: &str, log: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longpole")).env_remove("LONGPOLE_ROOT").arg(verb).arg(log).args(options).output().unwrap()
}

fn json(verb: &str, log: &Path, options: &[&str]) -> Vec<Value> {
    let output = ask(verb, log, &[&["--json"], options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    schema::check(&schema::schema(verb), &answer);
    answer.as_array().unwrap().clone()
}

/// A log of a queue with capacity 2. The tokens stay in it for 30, 40, 20 and 0 ns; the producer
/// waits for space for 10 ns, the consumer for tokens for 20 ns.
const QUEUE: [&str; 12] = [
    r#"{"queue":"q","capacity":2}"#,
    r#"{"t":0,"machine":"maker","state":"make"}"#,
    r#"{"t":0,"machine":"taker","state":"take"}"#,
    r#"{"t":0,"machine":"maker","put":"q"}"#,
    r#"{"t":10,"machine":"maker","put":"q"}"#,
    r#"{"t":20,"machine":"maker","blocked":"full","on":"q","for":"space"}"#,
    r#"{"t":30,"machine":"taker","get":"q"}"#,
    r#"{"t":30,"machine":"maker","put":"q"}"#,
    r#"{"t":50,"machine":"taker","get":"q","n":"all"}"#,
    r#"{"t":60,"machine":"taker","blocked":"empty"}"#,
    r#"{"t":80,"machine":"maker","put":"q"}"#,
    r#"{"t":80,"machine":"taker","get":"q"}"#,
];

#[test]
fn the_depth_of_a_queue_is_the_number_of_tokens_put_and_not_yet_taken() {
    let place = TempDir::new().unwrap();
    let mut lines = QUEUE.to_vec();
    lines.push(r#"{"t":100,"end":"taker"}"#);
    let answer = json("queues", &written(&place, &lines), &[]);
    assert_eq!(answer.len(), 1);
    let queue = &answer[0];
    assert_eq!((&queue["name"], &queue["capacity"]), (&Value::from("q"), &Value::from(2)));
    assert_eq!((&queue["puts"], &queue["gets"], &queue["put_units"], &queue["get_units"]), (&4.into(), &3.into(), &4.into(), &4.into()));
    // The depth is 1 from 0 to 10 ns, then 2 until 50 ns, since the third token is put when the
    // first is taken, then 0.
    let share = |key: &str| queue[key].as_f64().unwrap();
    assert!((share("full_share") - 0.4).abs() < 1e-9 && (share("empty_share") - 0.5).abs() < 1e-9, "{queue}");
    assert!((queue["depth"]["mean"].as_f64().unwrap() - 0.9).abs() < 1e-9, "{queue}");
    assert_eq!((&queue["wait_full_ns"], &queue["wait_empty_ns"]), (&10.into(), &20.into()));
    // Stays of 30, 40, 20 and 0 ns.
    assert_eq!((&queue["residence_ns"]["count"], &queue["residence_ns"]["total_ns"]), (&4.into(), &90.into()));
    assert_eq!((&queue["batch"]["count"], &queue["batch"]["max"]), (&2.into(), &3.into()));
    assert_eq!(queue["producers"], serde_json::json!(["maker"]));
}

#[test]
fn a_range_of_a_log_begins_with_the_depth_reached_by_then() {
    let place = TempDir::new().unwrap();
    let log = written(&place, &QUEUE);
    let queue = &json("queues", &log, &["--begin", "30", "--end", "60"])[0];
    assert_eq!((&queue["puts"], &queue["gets"], &queue["depth"]["max"]), (&1.into(), &2.into(), &2.into()));
    assert!((queue["full_share"].as_f64().unwrap() - 20.0 / 30.0).abs() < 1e-9, "{queue}");
    let nothing = ask("queues", &log, &["--begin", "+1s"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("there is nothing in this range"));
}

#[test]
fn a_call_is_split_into_parts_and_two_open_calls_are_distinguished_by_their_replies() {
    let place = TempDir::new().unwrap();
    let log = written(
        &place,
        &[
            r#"{"t":0,"machine":"one","put":"rpc:ask"}"#,
            r#"{"t":5,"machine":"other","put":"rpc:ask"}"#,
            r#"{"t":10,"machine":"server","get":"rpc:ask"}"#,
            r#"{"t":40,"machine":"server","put":"rpc:ask:reply:1"}"#,
            r#"{"t":41,"machine":"one","get":"rpc:ask:reply:1"}"#,
            r#"{"t":50,"machine":"server","get":"rpc:ask"}"#,
            r#"{"t":70,"machine":"server","put":"rpc:ask:reply:2"}"#,
            r#"{"t":75,"machine":"other","get":"rpc:ask:reply:2"}"#,
        ],
    );
    let answer = json("latency", &log, &[]);
    let calls: Vec<&Value> = answer.iter().filter(|line| line["kind"] == "rpc").collect();
    assert_eq!(calls.len(), 2);
    for (call, caller, times) in [(calls[0], "other", [70, 45, 20, 5]), (calls[1], "one", [41, 10, 30, 1])] {
        let part = |name: &str| call["parts"][name]["total_ns"].as_u64().unwrap();
        assert_eq!((&call["name"], &call["machine"], &call["peer"]), (&"ask".into(), &caller.into(), &"server".into()));
        assert_eq!([call["total_ns"].as_u64().unwrap(), part("dispatch"), part("service"), part("return")], times);
    }
    // The queue of the calls is listed. The queues of the replies are a part of the calls.
    let queues = json("queues", &log, &[]);
    assert_eq!(queues.iter().map(|queue| queue["name"].as_str().unwrap()).collect::<Vec<_>>(), ["rpc:ask"]);
}

#[test]
fn a_span_includes_its_blocks_and_merged_signals_count_as_one() {
    let place = TempDir::new().unwrap();
    let log = written(
        &place,
        &[
            r#"{"queue":"signal:go","merge":true}"#,
            r#"{"t":0,"machine":"a","state":"work"}"#,
            r#"{"t":0,"machine":"b","state":"run"}"#,
            r#"{"t":10,"machine":"a","blocked":"lock"}"#,
            r#"{"t":30,"machine":"a","woken_by":"b"}"#,
            r#"{"t":35,"machine":"a","state":"work"}"#,
            r#"{"t":60,"machine":"a","state":"rest"}"#,
            r#"{"t":70,"machine":"a","put":"signal:go"}"#,
            r#"{"t":80,"machine":"a","put":"signal:go"}"#,
            r#"{"t":90,"machine":"b","get":"signal:go","n":"all"}"#,
            r#"{"t":95,"machine":"a","blocked":"end"}"#,
        ],
    );
    let answer = json("latency", &log, &[]);
    let line = |kind: &str, name: &str| answer.iter().find(|line| line["kind"] == kind && line["name"] == name).unwrap();
    let work = line("span", "work");
    let part = |name: &str| work["parts"][name]["total_ns"].as_u64().unwrap();
    assert_eq!((&work["count"], &work["total_ns"]), (&1.into(), &60.into()));
    assert_eq!([part("net"), part("runnable"), part("blocked"), part("interrupted")], [35, 5, 20, 0]);
    let go = line("signal", "go");
    assert_eq!((&go["count"], &go["total_ns"], &go["machine"], &go["peer"]), (&1.into(), &20.into(), &"b".into(), &"a".into()));
    assert_eq!((&go["parts"]["submits"], &go["parts"]["merged"]), (&2.into(), &1.into()));
    assert_eq!(line("activity", "a")["total_ns"], 65);
}

#[test]
fn a_machine_log_can_be_a_pipe_and_has_no_events_to_pair() {
    let place = TempDir::new().unwrap();
    let log = written(&place, &QUEUE);
    for verb in ["queues", "latency"] {
        let mut piped = Command::new(env!("CARGO_BIN_EXE_longpole"));
        piped.env_remove("LONGPOLE_ROOT").args([verb, "--json", "/dev/stdin"]).stdin(std::process::Stdio::piped());
        let mut piped = piped.stdout(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut piped.stdin.take().unwrap(), &std::fs::read(&log).unwrap()).unwrap();
        assert_eq!(piped.wait_with_output().unwrap().stdout, ask(verb, &log, &["--json"]).stdout, "{verb}");
    }
    let refused = ask("latency", &log, &["--from", "a", "--to", "b"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("holds no events"));
}
