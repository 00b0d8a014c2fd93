//! `path` and `model` on machine logs, from the file to the answer.

use crate::support::schema;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const WAKE: &str = r#"{"t":1000,"machine":"A","state":"run"}
{"t":1000,"machine":"B","state":"run"}
{"t":1003,"machine":"A","blocked":"wait"}
{"t":1006,"machine":"A","woken_by":"B","at":1002}
{"t":1006,"machine":"A","state":"run"}
{"t":1009,"end":"A"}
"#;

fn run(verb: &str, arguments: &[&str], log: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longpole")).env_remove("LONGPOLE_ROOT").arg(verb).args(arguments).arg(log).output().unwrap()
}

fn log(place: &TempDir, text: &str) -> PathBuf {
    let path = place.path().join("log.jsonl");
    fs::write(&path, text).unwrap();
    path
}

fn json(arguments: &[&str], log: &Path) -> Value {
    let output = run("path", arguments, log);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Exit status and the one line on stderr.
fn refusal(verb: &str, arguments: &[&str], log: &Path) -> (Option<i32>, String) {
    let output = run(verb, arguments, log);
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8(output.stderr).unwrap().trim().to_owned())
}

fn drawn(answer: &Value) -> String {
    let segment =
        |it: &Value| format!("{}-{} {}::{}", it["start_ns"], it["end_ns"], it["machine"].as_str().unwrap(), it["state"].as_str().unwrap());
    answer["segments"].as_array().unwrap().iter().map(segment).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_path_as_json_conforms_to_its_schema() {
    let place = TempDir::new().unwrap();
    let log = log(&place, WAKE);
    let schema = schema::schema("path");
    let global = json(&["--json"], &log);
    schema::check(&schema, &global);
    assert_eq!(drawn(&global), "1000-1002 B::run, 1002-1006 link::wakeup, 1006-1009 A::run");
    let shares: f64 = global["criticality"].as_array().unwrap().iter().map(|row| row["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9);
    let active = json(&["--json", "--mode", "active", "--machine", "A"], &log);
    schema::check(&schema, &active);
    assert_eq!(drawn(&active), "1000-1003 A::run, 1003-1006 link::wakeup, 1006-1009 A::run");
}

#[test]
fn the_table_shows_each_state_and_segments_only_if_asked_for() {
    let place = TempDir::new().unwrap();
    let log = log(&place, WAKE);
    let text = String::from_utf8(run("path", &[], &log).stdout).unwrap();
    assert!(text.contains("link::wakeup         44.4 %  4 ns                 -"), "{text}");
    assert!(text.contains("A::run               33.3 %  3 ns                 2"), "{text}");
    assert!(!text.contains("SEGMENTS"), "{text}");
    let text = String::from_utf8(run("path", &["--segments"], &log).stdout).unwrap();
    assert!(text.contains("1,002 - 1,006 ns  link::wakeup"), "{text}");
}

#[test]
fn a_range_is_given_on_the_logs_own_clock() {
    let place = TempDir::new().unwrap();
    let log = log(&place, &format!("{{\"queue\":\"q\"}}\n{WAKE}"));
    assert_eq!(drawn(&json(&["--json", "--begin", "+1ns"], &log)), "1001-1002 B::run, 1002-1006 link::wakeup, 1006-1009 A::run");
    assert_eq!(drawn(&json(&["--json", "--begin", "1004"], &log)), "1004-1006 link::wakeup, 1006-1009 A::run");
    assert_eq!(drawn(&json(&["--json", "--machine", "B", "--end", "+7ns"], &log)), "1000-1007 B::run");
    let (status, said) = refusal("path", &["--begin", "23:04:05"], &log);
    assert_eq!(
        (status, said.as_str()),
        (Some(2), "longpole: a machine log has a clock of its own: --begin and --end are ns, or +1.5s from its begin")
    );
}

#[test]
fn an_error_in_a_log_is_reported_with_its_line() {
    let place = TempDir::new().unwrap();
    let path = log(&place, &format!("{WAKE}{{\"t\":7,\"machine\":\"A\"}}\n"));
    let (status, said) = refusal("path", &[], &path);
    assert_eq!(status, Some(1));
    assert!(said.ends_with("log.jsonl: line 7: `t` is 7 after 1009: the time of lines never decreases"), "{said}");
    let path = log(&place, WAKE);
    let (status, said) = refusal("path", &["--machine", "Z"], &path);
    assert!(status == Some(1) && said.ends_with("log.jsonl: there is no machine \"Z\" in it; the nearest: A, B"), "{said}");
    assert_eq!(refusal("path", &["--mode", "active"], &path).0, Some(2));
    let path = log(&place, "{\"queue\":\"q\"}\n");
    let (status, said) = refusal("path", &[], &path);
    assert!(status == Some(1) && said.ends_with("it has no interactions"), "{said}");
}

#[test]
fn machines_with_one_name_on_two_hosts_are_distinguished() {
    let place = TempDir::new().unwrap();
    let log = log(&place, "{\"t\":0,\"host\":\"h1\",\"machine\":\"A\"}\n{\"t\":2,\"host\":\"h2\",\"machine\":\"A\"}\n{\"t\":5,\"host\":\"h2\",\"end\":\"A\"}\n");
    let (_, said) = refusal("path", &["--machine", "A"], &log);
    assert!(said.ends_with("\"A\" is both h1/A and h2/A; name it as HOST/MACHINE"), "{said}");
    let answer = json(&["--json", "--machine", "h1/A"], &log);
    assert_eq!((drawn(&answer).as_str(), &answer["end_host"]), ("0-5 A::run", &Value::from("h1")));
}

#[test]
fn verbs_for_recordings_and_verbs_for_machine_logs_refuse_each_others_input() {
    let place = TempDir::new().unwrap();
    let path = log(&place, WAKE);
    for verb in ["sched", "irq", "cpu"] {
        let (status, said) = refusal(verb, &[], &path);
        assert!(status == Some(1) && said.contains("is a machine log") && said.contains("longpole path"), "{verb}: {said}");
    }
    fs::write(&path, "nothing of the kind").unwrap();
    for verb in ["path", "model"] {
        let (status, said) = refusal(verb, &[], &path);
        assert!(status == Some(1) && said.contains("machine log"), "{verb}: {said}");
    }
    let missing = place.path().join("missing");
    assert_eq!(refusal("path", &[], &missing).0, Some(1));
}

#[test]
fn an_end_of_a_machine_on_another_host_is_reported_with_its_line_and_the_likely_machine() {
    let place = TempDir::new().unwrap();
    let text = "{\"t\":0,\"host\":\"h1\",\"machine\":\"A\"}\n{\"t\":0,\"host\":\"h2\",\"machine\":\"C\"}\n{\"t\":9,\"end\":\"C\"}\n";
    let log = log(&place, text);
    let told = "\"C\" has not acted before that time, so the path cannot end there; the nearest machine is \"h2/C\"";
    let said = String::from_utf8(run("path", &[], &log).stdout).unwrap();
    assert!(said.contains("1 contradiction; their effects are unknown:\n  line 3: "), "{said}");
    assert!(said.contains(told), "{said}");
    assert_eq!(json(&["--json"], &log)["contradiction_list"][0]["line"], 3);
    let predicted = String::from_utf8(run("what-if", &["A::run x0.5"], &log).stdout).unwrap();
    assert!(predicted.contains(&format!("cannot be predicted: {told}")), "{predicted}");
    let report = String::from_utf8(run("report", &[], &log).stdout).unwrap();
    assert!(report.contains("`longpole path` lists the contradictions"), "{report}");
}

#[test]
fn options_that_need_samples_are_refused_for_a_machine_log() {
    let place = TempDir::new().unwrap();
    let log = log(&place, WAKE);
    for arguments in [&["--functions"][..], &["--folded"], &["--flame", "/dev/null"]] {
        let wanted = format!("longpole: {} needs the samples of a recording: a machine log has none", arguments[0]);
        assert_eq!(refusal("path", arguments, &log), (Some(1), wanted));
    }
}

#[test]
fn a_log_can_be_read_from_a_pipe() {
    use std::io::Write;
    use std::process::Stdio;
    let mut child = Command::new(env!("CARGO_BIN_EXE_longpole"))
        .args(["path", "--json", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(WAKE.as_bytes()).unwrap();
    let answer: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(answer["length_ns"], 9);
}

#[test]
fn a_report_of_a_pipe_equals_that_of_the_file() {
    use std::io::Write;
    use std::process::Stdio;
    let place = TempDir::new().unwrap();
    let mut text = String::from("{\"queue\":\"q\",\"capacity\":2}\n{\"t\":0,\"machine\":\"B\",\"blocked\":\"empty\",\"on\":\"q\"}\n");
    // More data than one read of the pipe returns.
    for item in 0..5000 {
        let t = 10 * item;
        text += &format!(
            "{{\"t\":{t},\"machine\":\"A\",\"state\":\"make {}\"}}\n{{\"t\":{},\"machine\":\"A\",\"put\":\"q\"}}\n",
            item % 7,
            t + 9
        );
        text += &format!("{{\"t\":{},\"machine\":\"B\",\"get\":\"q\",\"state\":\"take\"}}\n", t + 9);
        text += &format!("{{\"t\":{},\"machine\":\"B\",\"blocked\":\"empty\",\"on\":\"q\"}}\n", t + 10);
    }
    let file = log(&place, &text);
    let of_file = run("report", &["--json"], &file);
    assert!(of_file.status.success(), "{}", String::from_utf8_lossy(&of_file.stderr));
    let mut child = Command::new(env!("CARGO_BIN_EXE_longpole"))
        .args(["report", "--json", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let of_pipe: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    assert!(of_pipe["predictions"].as_array().is_some_and(|it| !it.is_empty()), "{of_pipe}");
    assert_eq!(of_pipe, serde_json::from_slice::<Value>(&of_file.stdout).unwrap());
}

#[test]
fn a_model_that_is_written_again_has_the_same_path() {
    let place = TempDir::new().unwrap();
    let first = log(&place, WAKE);
    let copy = place.path().join("copy.jsonl");
    let written = run("model", &[], &first);
    assert!(written.status.success());
    fs::write(&copy, &written.stdout).unwrap();
    assert_eq!(String::from_utf8(written.stdout).unwrap(), WAKE);
    assert_eq!(json(&["--json"], &first), json(&["--json"], &copy));
}

#[test]
fn an_empty_range_is_refused_and_an_end_before_the_range_is_ignored() {
    let place = TempDir::new().unwrap();
    let log = log(&place, WAKE);
    for (verb, more) in [("path", &[][..]), ("path", &["--mode", "active", "--machine", "A"]), ("graph", &[]), ("graph", &["--waits"])] {
        for range in [&["--begin", "+1us"][..], &["--end", "3"], &["--begin", "+2ns", "--end", "1002"]] {
            let (status, said) = refusal(verb, &[more, range].concat(), &log);
            assert_eq!(status, Some(1), "{verb} {more:?} {range:?}: {said}");
            let own = "there is nothing in this range; the log begins at 1000 ns, ends at 1009 ns and is 9 ns long";
            assert!(said.contains(own), "{verb} {more:?} {range:?}: {said}");
        }
        let (status, said) = refusal(verb, &[more, &["--begin", "+8ns", "--end", "1002"]].concat(), &log);
        assert_eq!((status, said.as_str()), (Some(2), "longpole: --end is before --begin"));
    }
    let (status, said) = refusal("what-if", &["--begin", "+1us"], &log);
    assert_eq!(status, Some(1), "{said}");
    // The machine continues after its end line, and the range selects the time after it.
    let longer =
        format!("{WAKE}{{\"t\":1012,\"machine\":\"A\",\"state\":\"more\"}}\n{{\"t\":1020,\"machine\":\"A\",\"state\":\"last\"}}\n");
    fs::write(&log, longer).unwrap();
    assert_eq!(drawn(&json(&["--json"], &log)), "1000-1002 B::run, 1002-1006 link::wakeup, 1006-1009 A::run");
    assert_eq!(drawn(&json(&["--json", "--begin", "1010"], &log)), "1010-1012 A::run, 1012-1020 A::more");
}
