//! Machine logs at the limits of the analyses: ranges that begin inside of a block, very many
//! names, and very long chains.

use crate::support::schema;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn written(place: &TempDir, text: &str) -> PathBuf {
    let path = place.path().join("log.jsonl");
    std::fs::write(&path, text).unwrap();
    path
}

fn ask(log: &Path, arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_longpole")).args(arguments).arg("--json").arg(log).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn an_active_path_that_begins_inside_a_block_without_cause_begins_there() {
    let place = TempDir::new().unwrap();
    let lines = [
        r#"{"t":0,"machine":"A","state":"run"}"#,
        r#"{"t":3,"machine":"A","blocked":"w"}"#,
        r#"{"t":6,"machine":"A","woken_by":null}"#,
        r#"{"t":6,"machine":"A","state":"run"}"#,
        r#"{"t":20,"machine":"A","state":"x"}"#,
    ];
    let path = ask(&written(&place, &lines.join("\n")), &["path", "--mode", "active", "--machine", "A", "--begin", "4"]);
    let told: Vec<Value> =
        path["segments"].as_array().unwrap().iter().map(|it| json!([it["start_ns"], it["end_ns"], it["state"]])).collect();
    assert_eq!(told, [json!([4, 6, "UNKNOWN"]), json!([6, 20, "run"])]);
    assert_eq!(path["unknown_ns"], 2);
}

#[test]
fn each_of_very_many_states_is_listed_once_in_less_than_quadratic_time() {
    // Comparing each state with each other would be 10^10 comparisons of names.
    let (place, count) = (TempDir::new().unwrap(), 100_000u64);
    let mut log: String = (0..count).map(|at| format!("{{\"t\":{},\"machine\":\"A\",\"state\":\"s{at}\"}}\n", 10 * at)).collect();
    log += &format!("{{\"t\":{},\"end\":\"A\"}}\n", 10 * count);
    let log = written(&place, &log);
    let path = ask(&log, &["path"]);
    assert_eq!(path["criticality"].as_array().unwrap().len() as u64, count);
    assert!(path["criticality"].as_array().unwrap().iter().all(|row| row["ns"] == 10 && row["profile_rank"] == 1));
    let graph = ask(&log, &["graph"]);
    // One node sums up the rare states.
    assert_eq!(graph["rare_nodes"].as_u64().unwrap() + graph["nodes"].as_array().unwrap().len() as u64, count + 1);
    let rows = ask(&log, &["report"])["criticality"].as_array().unwrap().len() as u64;
    assert_eq!(rows, count);
}

/// A log in which each machine waits from the begin until the previous one wakes it.
fn chain(count: u64) -> String {
    let mut log = String::from("{\"t\":0,\"machine\":\"m0\",\"state\":\"run\"}\n");
    log.extend((1..count).map(|at| format!("{{\"t\":0,\"machine\":\"m{at}\",\"blocked\":\"w\"}}\n")));
    log.extend((1..count).map(|at| {
        let (t, before) = (10 * at, at - 1);
        format!("{{\"t\":{t},\"machine\":\"m{at}\",\"woken_by\":\"m{before}\"}}\n{{\"t\":{t},\"machine\":\"m{at}\",\"state\":\"run\"}}\n")
    }));
    log + &format!("{{\"t\":{},\"end\":\"m{}\"}}\n", 10 * count, count - 1)
}

#[test]
fn a_chain_of_very_many_machines_is_cut_and_all_of_its_time_is_accounted_for() {
    // Following each of them through 4,096 blocks would be 4 * 10^8 steps.
    let (place, count) = (TempDir::new().unwrap(), 100_000);
    let log = written(&place, &chain(count));
    let answer = ask(&log, &["graph", "--waits"]);
    schema::check(&schema::schema("graph-waits"), &answer);
    assert!(answer["cut"].as_u64().unwrap() > count / 2, "{}", answer["cut"]);
    let mut untold = 0;
    for waiter in answer["waiters"].as_array().unwrap() {
        let ends: u64 = waiter["ends"].as_array().unwrap().iter().map(|end| end["ns"].as_u64().unwrap()).sum();
        assert_eq!(ends + waiter["untold_ns"].as_u64().unwrap(), waiter["waited_ns"].as_u64().unwrap());
        untold += waiter["untold_ns"].as_u64().unwrap();
    }
    assert_eq!(answer["untold_ns"], untold);
    let waited: u64 = answer["waiters"].as_array().unwrap().iter().map(|waiter| waiter["waited_ns"].as_u64().unwrap()).sum();
    assert_eq!(waited, (1..count).map(|at| 10 * at).sum::<u64>());
}

#[test]
fn a_chain_within_the_limit_is_followed_to_its_end_and_report_counts_chains_that_were_cut() {
    let place = TempDir::new().unwrap();
    let short = written(&place, &chain(300));
    let answer = ask(&short, &["graph", "--waits"]);
    assert_eq!((&answer["cut"], &answer["untold_ns"], &answer["untold_edges_ns"]), (&json!(0), &json!(0), &json!(0)));
    let last = answer["waiters"].as_array().unwrap().iter().find(|waiter| waiter["machine"] == "m299").unwrap();
    assert_eq!(last["ends"].as_array().unwrap().len(), 299);
    assert_eq!(ask(&short, &["report"])["inputs"]["cut_waits"], 0);
    let long = written(&place, &chain(6_000));
    let report = ask(&long, &["report"]);
    schema::check(&schema::schema("report"), &report);
    assert!(report["inputs"]["cut_waits"].as_u64().unwrap() > 100, "{}", report["inputs"]);
}
