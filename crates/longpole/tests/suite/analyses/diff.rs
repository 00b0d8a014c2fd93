//! `diff` of machine logs and of recordings, from the files to the exit status.

use crate::support::schema;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Writes the machine log of a worker that handles 200 items. Each item takes `work` to `work` + 10
/// ns in the state `work` and 100 ns in the state `rest`.
fn log(place: &TempDir, name: &str, work: u64) -> PathBuf {
    let (mut text, mut t) = (String::from("{\"t\":0,\"machine\":\"worker\",\"state\":\"rest\"}\n"), 0);
    for item in 0..200 {
        let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"worker\",\"state\":\"work\"}}");
        t += work + item * 7 % 11;
        let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"worker\",\"state\":\"rest\"}}");
        t += 100;
    }
    let _ = writeln!(text, "{{\"t\":{t},\"end\":\"worker\"}}");
    let path = place.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

fn diff(a: &Path, b: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longpole")).env_remove("LONGPOLE_ROOT").arg("diff").args([a, b]).args(arguments).output().unwrap()
}

fn json(a: &Path, b: &Path, arguments: &[&str]) -> Value {
    let output = diff(a, b, &[&["--json"], arguments].concat());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_state_with_a_larger_share_is_reported_with_a_confidence_interval() {
    let place = TempDir::new().unwrap();
    let (before, after) = (log(&place, "before", 100), log(&place, "after", 300));
    let answer = json(&before, &after, &[]);
    schema::check(&schema::schema("diff"), &answer);
    assert_eq!(answer["verdict"]["kind"], "changed");
    let work = answer["states"].as_array().unwrap().iter().find(|line| line["state"] == "work").unwrap();
    // `work` has 105 of 205 ns in the first log, and 305 of 405 ns in the second one.
    let (low, high) = (work["low"].as_f64().unwrap(), work["high"].as_f64().unwrap());
    let truth = 305.0 / 405.0 - 105.0 / 205.0;
    assert!(low <= truth && truth <= high && high - low < 0.05, "{work}");
    assert_eq!(work["certain"], true);
}

#[test]
fn two_equal_logs_have_no_difference() {
    let place = TempDir::new().unwrap();
    let (one, other) = (log(&place, "one", 100), log(&place, "other", 100));
    let answer = json(&one, &other, &[]);
    assert_eq!(answer["verdict"]["kind"], "nothing");
    assert!(answer["states"].as_array().unwrap().iter().all(|line| line["certain"] == false));
}

#[test]
fn a_condition_that_holds_gives_exit_status_3() {
    let place = TempDir::new().unwrap();
    let (before, after) = (log(&place, "before", 100), log(&place, "after", 300));
    let status = |condition: &str| diff(&before, &after, &["--fail-if", condition]).status.code();
    assert_eq!(status("criticality(\"worker::work\") > 0.7"), Some(3));
    assert_eq!(status("criticality(\"worker::work\") > 0.8"), Some(0));
    assert_eq!(status("more_critical(\"worker::work\") > 0.2 && criticality(\"worker::rest\") < 0.3"), Some(3));
    // A condition on a state that does not exist can never hold, so it is an error.
    assert_eq!(status("criticality(\"nobody::work\") > 0"), Some(1));
    assert_eq!(status("criticality > 0"), Some(2));
    assert_eq!(status("mean < 1 || rate > 0"), Some(2));
    assert_eq!(status("criticality(\"\") > 0"), Some(2));
    let of_a_queue = diff(&before, &after, &["--fail-if", "rate(\"q\") > 5"]);
    assert_eq!(of_a_queue.status.code(), Some(1));
    let told = String::from_utf8(of_a_queue.stderr).unwrap();
    assert!(told.contains("queues and latencies are not compared for machine logs"), "{told}");
    assert_eq!(status("cost(\"worker::work\") > 0"), Some(2));
    assert_eq!(status("criticality(\"worker::work\" > 0"), Some(2));
    let failed = json(&before, &after, &["--fail-if", "criticality(\"worker::work\") > 0.7"]);
    schema::check(&schema::schema("diff"), &failed);
    assert_eq!(failed["failed"][0]["condition"], "criticality(\"worker::work\") > 0.7");
}

/// Writes the machine log of a worker that waits for items from a source. The put of every
/// hundredth item is missing.
fn damaged(place: &TempDir) -> PathBuf {
    let mut text = String::from("{\"t\":0,\"machine\":\"worker\",\"state\":\"rest\"}\n{\"t\":0,\"machine\":\"source\"}\n");
    for item in 0..200u64 {
        let t = 10 * item;
        let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"worker\",\"blocked\":\"item\",\"on\":\"belt\"}}");
        if item % 100 != 99 {
            let _ = writeln!(text, "{{\"t\":{},\"machine\":\"source\",\"put\":\"belt\",\"link\":\"way\"}}", t + 5);
        }
        let _ = writeln!(text, "{{\"t\":{},\"machine\":\"worker\",\"get\":\"belt\",\"state\":\"work\"}}", t + 5);
    }
    text += "{\"t\":2000,\"end\":\"worker\"}\n";
    let path = place.path().join("damaged");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn no_difference_is_certain_and_no_condition_is_evaluated_if_much_of_a_path_is_unknown() {
    let place = TempDir::new().unwrap();
    let (whole, damaged) = (log(&place, "whole", 100), damaged(&place));
    for (a, b, which) in [(&whole, &damaged, "second"), (&damaged, &whole, "first")] {
        let answer = json(a, b, &[]);
        schema::check(&schema::schema("diff"), &answer);
        assert_eq!(answer["verdict"]["kind"], "unsure", "{}", answer["verdict"]);
        assert!(answer["states"].as_array().unwrap().iter().all(|line| line["certain"] == false));
        let known = &answer[if which == "second" { "known_b" } else { "known_a" }];
        let path = Command::new(env!("CARGO_BIN_EXE_longpole")).args(["path", "--json"]).arg(&damaged).output().unwrap();
        let path: Value = serde_json::from_slice(&path.stdout).unwrap();
        let unknown = path["unknown_ns"].as_f64().unwrap() / path["length_ns"].as_f64().unwrap();
        assert!(unknown > 0.05 && known["unknown_share"].as_f64() == Some(unknown), "{known}");
        assert_eq!((known["contradictions"].as_u64(), path["contradictions"].as_u64()), (Some(2), Some(2)));
        for condition in ["criticality(\"worker::work\") > 0.9", "more_critical(\"worker::work\") < 0.5"] {
            let output = diff(a, b, &["--fail-if", condition]);
            assert_eq!(output.status.code(), Some(1), "{condition}");
            let told = String::from_utf8(output.stderr).unwrap();
            assert!(told.contains(&format!("of the {which} trace's critical path is unknown")), "{told}");
        }
    }
}

#[test]
fn a_state_or_link_that_is_never_on_the_path_has_share_0() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("off");
    let lines = [
        r#"{"t":0,"machine":"A","state":"work"}"#,
        r#"{"t":0,"host":"far","machine":"B","state":"idle"}"#,
        r#"{"t":2,"machine":"A","put":"q","link":"belt"}"#,
        r#"{"t":4,"machine":"A","get":"q"}"#,
        r#"{"t":9,"end":"A"}"#,
    ];
    fs::write(&path, lines.join("\n")).unwrap();
    let status = |condition: &str| diff(&path, &path, &["--fail-if", condition]).status.code();
    for name in ["far/B::idle", "B::idle", "q::belt", "q::queued", "q::wire", "A::runnable", "A::interrupted", "A::UNKNOWN", "link::wakeup"]
    {
        assert_eq!(status(&format!("criticality(\"{name}\") > 0")), Some(0), "{name}");
    }
    assert_eq!(status("criticality(\"A::work\") > 0.9"), Some(3));
    for name in ["A::idle", "near/B::idle", "q::belts", "C::run"] {
        assert_eq!(status(&format!("criticality(\"{name}\") > 0")), Some(1), "{name}");
    }
}

#[test]
fn the_shares_equal_those_of_the_path_verb_also_for_a_short_path() {
    let place = TempDir::new().unwrap();
    let log = place.path().join("short");
    let lines = [
        r#"{"t":0,"machine":"A","state":"run"}"#,
        r#"{"t":0,"machine":"B","state":"run"}"#,
        r#"{"t":3,"machine":"A","blocked":"wait"}"#,
        r#"{"t":6,"machine":"A","woken_by":"B","at":2}"#,
        r#"{"t":6,"machine":"A","state":"run"}"#,
        r#"{"t":9,"end":"A"}"#,
    ];
    fs::write(&log, lines.join("\n")).unwrap();
    let path = Command::new(env!("CARGO_BIN_EXE_longpole")).args(["path", "--json"]).arg(&log).output().unwrap();
    let path: Value = serde_json::from_slice(&path.stdout).unwrap();
    let answer = json(&log, &log, &[]);
    let states = answer["states"].as_array().unwrap();
    assert_eq!(states.len(), path["criticality"].as_array().unwrap().len());
    for row in path["criticality"].as_array().unwrap() {
        let line = states.iter().find(|line| line["machine"] == row["machine"] && line["state"] == row["state"]).unwrap();
        for share in [&line["share_a"], &line["share_b"]] {
            assert!((share.as_f64().unwrap() - row["share"].as_f64().unwrap()).abs() < 1e-12, "{line} {row}");
        }
    }
}

#[test]
fn machine_logs_can_be_read_from_pipes() {
    let place = TempDir::new().unwrap();
    let (before, after) = (log(&place, "before", 100), log(&place, "after", 300));
    let through = |log: &Path, name: &str| {
        let pipe = place.path().join(name);
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (from, to) = (log.to_owned(), pipe.clone());
        std::thread::spawn(move || fs::write(to, fs::read(from).unwrap()));
        pipe
    };
    let piped = json(&through(&before, "one"), &through(&after, "other"), &[]);
    assert_eq!(piped, json(&before, &after, &[]));
}

#[test]
fn an_input_that_cannot_be_opened_is_reported_once() {
    let place = TempDir::new().unwrap();
    let (whole, empty) = (log(&place, "whole", 100), place.path().join("empty"));
    fs::write(&empty, "").unwrap();
    let output = diff(&empty, &whole, &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.matches("the file is empty").count()), (Some(1), 1), "{said}");
}

#[test]
fn an_empty_range_is_refused() {
    let place = TempDir::new().unwrap();
    let log = log(&place, "log", 100);
    let output = diff(&log, &log, &["--begin", "+1s"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("there is nothing in this range"));
}

#[test]
fn a_condition_accepts_the_names_of_the_report_and_an_unknown_name_is_refused_with_the_nearest() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("pool");
    let mut text =
        String::from("{\"t\":0,\"machine\":\"w1\",\"class\":\"w\",\"state\":\"work\"}\n{\"t\":0,\"machine\":\"w2\",\"class\":\"w\"}\n");
    text += "{\"t\":0,\"machine\":\"w2\",\"blocked\":\"turn\"}\n";
    for n in 0..60u64 {
        let (one, other) = if n % 2 == 0 { ("w1", "w2") } else { ("w2", "w1") };
        let t = 10 * n + 10;
        let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"{one}\",\"put\":\"rpc:ask:reply:{n}\"}}");
        let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"{one}\",\"blocked\":\"turn\"}}");
        let _ = writeln!(text, "{{\"t\":{},\"machine\":\"{other}\",\"get\":\"rpc:ask:reply:{n}\",\"state\":\"work\"}}", t + 1);
    }
    text += "{\"t\":605,\"end\":\"w1\"}\n";
    fs::write(&path, text).unwrap();
    let report = Command::new(env!("CARGO_BIN_EXE_longpole")).args(["report", "--json"]).arg(&path).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let value = |name: &str| {
        let failed = json(&path, &path, &["--fail-if", &format!("criticality(\"{name}\") >= 0")]);
        failed["failed"][0]["values"][0][1].as_f64().unwrap_or_else(|| panic!("{name}: {failed}"))
    };
    let mut sums = std::collections::HashMap::<String, f64>::new();
    for row in report["criticality"].as_array().unwrap() {
        let [machine, class, state, share] = ["machine", "class", "state", "share"].map(|key| &row[key]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        assert!((value(&format!("{}::{}", text(machine), text(state))) - share.as_f64().unwrap()).abs() < 1e-9, "{row}");
        if class != "link" {
            *sums.entry(format!("{}::{}", text(class), text(state))).or_default() += share.as_f64().unwrap();
        }
    }
    for (name, sum) in &sums {
        assert!((value(name) - sum).abs() < 1e-9, "{name}");
    }
    for row in report["participation"]["rows"].as_array().unwrap() {
        value(&format!("{}::{}", row["machine"].as_str().unwrap(), row["state"].as_str().unwrap()));
    }
    assert!((value("rpc:ask::queued") - 60.0 / 605.0).abs() < 1e-9, "there and back");
    for (condition, near) in [
        ("criticality(\"w1::wrok\") > 0", "there is no \"w1::wrok\" in either trace; the nearest: \"w1::work\""),
        ("more_critical(\"v::work\") > 0", "the nearest: \"w::work\""),
    ] {
        let output = diff(&path, &path, &["--fail-if", condition]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && told.contains(near), "{told}");
    }
}
