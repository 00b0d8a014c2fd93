//! `path`, `model` and `rules` on real recordings: the answers must match what the recorded
//! programs are known to do, for example which thread waits for which.

use crate::support::host::{alone, can_trace};
use crate::support::place::{ok, Place, Running};
use crate::support::schema;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Records a command together with the kernel's events.
fn recorded(place: &Place, command: &[&str]) -> PathBuf {
    let mut record = place.command(env!("CARGO_BIN_EXE_longpole"));
    ok(record.args(["record", "--stacks", "none", "--"]).args(command).output().unwrap());
    place.newest()
}

fn path(place: &Place, trace: &Path) -> Value {
    let answer = place.answer("path", trace);
    schema::check(&schema::schema("path"), &answer);
    let rows = answer["criticality"].as_array().unwrap();
    let sum: u64 = rows.iter().map(|row| row["ns"].as_u64().unwrap()).sum();
    assert_eq!(sum, answer["length_ns"].as_u64().unwrap());
    answer
}

/// Sum of the time, in ns, of the path's rows that `wanted` accepts by machine and state.
fn time(answer: &Value, wanted: impl Fn(&str, &str) -> bool) -> u64 {
    let rows = answer["criticality"].as_array().unwrap().iter();
    rows.filter(|row| wanted(row["machine"].as_str().unwrap(), row["state"].as_str().unwrap())).map(|row| row["ns"].as_u64().unwrap()).sum()
}

fn is_known(answer: &Value) {
    let (unknown, length) = (answer["unknown_ns"].as_u64().unwrap(), answer["length_ns"].as_u64().unwrap());
    assert!(unknown * 20 <= length, "{unknown} of {length} ns are unknown: {}", answer["unknown_by"]);
}

/// Asserts that the machine log of a recording has the same path as the whole recording, both in
/// Longpole and in the oracle, an independent implementation that walks backwards.
fn assert_same_path_as_log(place: &Place, trace: &Path) {
    let whole = ok(place.longpole(&["path", "--json", "--begin", "+0"]).arg(trace).output().unwrap());
    let answer: Value = serde_json::from_slice(&whole.stdout).unwrap();
    let log = place.path("log.jsonl");
    std::fs::write(&log, ok(place.longpole(&["model"]).arg(trace).output().unwrap()).stdout).unwrap();
    let of_log = place.answer("path", &log);
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/oracle.py");
    let walked = ok(Command::new("python3").arg("-B").arg(oracle).arg(&log).output().unwrap());
    let walked: Value = serde_json::from_slice(&walked.stdout).unwrap();
    for (other, name) in [(&of_log, "the log's path"), (&walked, "the oracle's path")] {
        for key in ["start_ns", "end_ns", "length_ns", "segments", "end_machine"] {
            assert_eq!(other[key], answer[key], "{name}: {key}");
        }
    }
}

#[test]
fn the_path_is_mostly_in_the_slower_of_two_threads_with_pipes_also_in_a_machine_log() {
    let _alone = alone();
    if !can_trace("the path of threads that pipes connect") {
        return;
    }
    let place = Place::new();
    let program = place.build("handover", &[]);
    let trace = recorded(&place, &[&program, "pipes"]);
    let answer = path(&place, &trace);
    is_known(&answer);
    assert_eq!(answer["end_machine"], "handover");
    let code = |state: &str| !matches!(state, "runnable" | "preempted" | "interrupted" | "UNKNOWN") && !state.starts_with("blocked:");
    let worker = time(&answer, |machine, state| machine == "handover/worker" && code(state));
    let feeder = time(&answer, |machine, state| machine == "handover" && code(state));
    // If both threads share a CPU, a part of the feeder's work happens while the worker is
    // preempted, so the path shows it as preemption.
    assert!(worker > 2 * feeder && worker < 8 * feeder, "worker {worker} ns, feeder {feeder} ns");
    assert_eq!(answer["contradictions"], 0, "{}", answer["contradiction_list"]);
    assert_same_path_as_log(&place, &trace);
}

#[test]
fn the_span_of_the_slow_stage_dominates_the_path_with_and_without_kernel_events() {
    let _alone = alone();
    let place = Place::new();
    let program = place.build("handover", &[]);
    let mut traces = vec![];
    ok(place.longpole(&["record", "--", &program]).output().unwrap());
    traces.push(place.newest());
    if can_trace("the path of probes and the kernel") {
        traces.push(recorded(&place, &[&program]));
    }
    for trace in traces {
        let answer = path(&place, &trace);
        is_known(&answer);
        let [grind, wrap] = ["grind", "wrap"].map(|span| time(&answer, |_, state| state == span));
        assert!(grind > 10 * wrap, "grind {grind} ns, wrap {wrap} ns");
        assert!(answer["criticality"].as_array().unwrap().iter().any(|row| row["machine"] == "handover/worker" && row["state"] == "grind"));
    }
}

#[test]
fn a_program_that_computes_is_not_the_bottleneck_of_a_writer_if_interrupts_are_not_recorded() {
    let _alone = alone();
    if !can_trace("a writer next to programs that compute") {
        return;
    }
    let place = Place::new();
    let busy = place.path("busybee");
    std::os::unix::fs::symlink("/bin/sh", &busy).unwrap();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let _busy: Vec<Running> = (0..cpus).map(|_| Running::start(Command::new(&busy).args(["-c", "while :; do :; done"]))).collect();
    let (mut record, file) = (place.command(env!("CARGO_BIN_EXE_longpole")), format!("of={}", place.path("file").display()));
    record.args(["record", "--stacks", "none", "--kernel", "sched,block,syscall", "--", "dd", "if=/dev/zero", &file]);
    ok(record.args(["bs=4k", "count=200", "oflag=dsync"]).output().unwrap());
    let trace = place.newest();
    let verdict = &place.answer("report", &trace)["verdict"];
    assert_ne!(verdict["subject"]["name"], "busybee", "{verdict}");
    let answer = path(&place, &trace);
    let (of_busy, length) = (time(&answer, |machine, _| machine.starts_with("busybee")), answer["length_ns"].as_u64().unwrap());
    assert!(of_busy * 20 <= length, "{of_busy} of {length} ns: {verdict}");
}

#[test]
fn a_sleeping_program_has_its_sleep_on_its_own_path() {
    let _alone = alone();
    if !can_trace("the path of a sleeper") {
        return;
    }
    let place = Place::new();
    let answer = path(&place, &recorded(&place, &["sleep", "0.3"]));
    is_known(&answer);
    let asleep = time(&answer, |machine, state| machine.starts_with("sleep") && state == "asleep");
    assert!(asleep >= 300_000_000, "{asleep} ns of the path are its sleep");
    // Another process named `sleep` may run on this host; then the name in the answer has a number.
    assert!(answer["end_machine"].as_str().unwrap().starts_with("sleep"), "{}", answer["end_machine"]);
}

fn rules(place: &Place, text: &str, more: &[&str]) -> Output {
    let file = place.path("mine.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = place.longpole(&["rules", "check"]);
    command.env("XDG_CONFIG_HOME", place.path("none")).arg(file).args(more).output().unwrap()
}

#[test]
fn a_wrong_rule_is_reported_with_its_line_and_the_expected_values() {
    let place = Place::new();
    let right = rules(&place, "[[rule]]\nevent = \"a\"\ndo = \"block\"\nname = \"gate\"\nas = \"@who\"\n", &[]);
    assert_eq!(right.status.code(), Some(0));
    let wrong = rules(&place, "[[rule]]\nevent = \"a\"\ndo = \"blok\"\n", &[]);
    assert_eq!(wrong.status.code(), Some(1));
    let said = String::from_utf8(wrong.stdout).unwrap();
    assert!(said.contains("mine.toml:3: unknown action \"blok\": expected one of state"), "{said}");
}

#[test]
fn a_user_rule_changes_the_meaning_of_events_and_a_rule_that_never_matches_is_reported() {
    let _alone = alone();
    let place = Place::new();
    let program = place.build("handover", &[]);
    ok(place.longpole(&["record", "--", &program]).output().unwrap());
    let trace = place.newest();
    let text = "[[rule]]\nevent = \"span_begin:grind\"\ndo = \"begin\"\nname = \"pulverise\"\n\n\
                [[rule]]\nevent = \"span_end:grind\"\ndo = \"end\"\nname = \"pulverise\"\n\n\
                [[rule]]\nevent = \"no_such_event\"\ndo = \"wait\"\n";
    let checked = ok(rules(&place, text, &[trace.to_str().unwrap(), "--json"]));
    let answer: Value = serde_json::from_slice(&checked.stdout).unwrap();
    schema::check(&schema::schema("rules"), &answer);
    let events: Vec<u64> = answer["trace"]["matched"].as_array().unwrap().iter().map(|rule| rule["events"].as_u64().unwrap()).collect();
    assert_eq!(events, [200, 200, 0]);
    let file = place.path("mine.toml");
    let path = ok(place.longpole(&["path", "--json", "--rules"]).arg(&file).arg(&trace).output().unwrap());
    let path: Value = serde_json::from_slice(&path.stdout).unwrap();
    assert!(time(&path, |_, state| state == "pulverise") > 0);
    assert_eq!(time(&path, |_, state| state == "grind"), 0);
}

#[test]
fn a_user_rule_makes_a_queue_from_kernel_events_and_a_missing_field_is_reported() {
    let _alone = alone();
    if !can_trace("rules on the kernel's events") {
        return;
    }
    let place = Place::new();
    let trace = recorded(&place, &["dd", "if=/dev/zero", "of=/dev/null", "bs=7777", "count=50"]);
    let text = "[[rule]]\nevent = \"syscall_exit_read\"\nwhen = \"ret == 7777\"\ndo = \"put\"\nname = \"blocks\"\n\n\
                [[rule]]\nevent = \"syscall_exit_write\"\nwhen = \"ret == 7777\"\ndo = \"get\"\nname = \"blocks\"\n\n\
                [[rule]]\nevent = \"syscall_exit_*\"\ndo = \"begin\"\nname = \"@colour\"\n\n\
                [[rule]]\nevent = \"no_such_event\"\ndo = \"wait\"\n";
    let checked = ok(rules(&place, text, &[trace.to_str().unwrap(), "--json"]));
    let answer: Value = serde_json::from_slice(&checked.stdout).unwrap();
    schema::check(&schema::schema("rules"), &answer);
    let never: Vec<Option<&str>> = answer["trace"]["matched"].as_array().unwrap().iter().map(|rule| rule["never"].as_str()).collect();
    let lacks = Some("no event \"syscall_exit_*\" of the trace has the field \"colour\"");
    assert_eq!(never, [None, None, lacks, Some("no event \"no_such_event\" is in the trace")]);
    let file = place.path("mine.toml");
    let model = ok(place.longpole(&["model", "--rules"]).arg(&file).arg(&trace).output().unwrap());
    let model = String::from_utf8(model.stdout).unwrap();
    let of = |what: &str| model.lines().filter(|line| line.contains("\"dd") && line.contains(what)).count();
    assert_eq!((of("\"put\":\"blocks\""), of("\"get\":\"blocks\"")), (50, 50));
    let queues = ok(place.longpole(&["queues", "--json", "--rules"]).arg(&file).arg(&trace).output().unwrap());
    let queues: Value = serde_json::from_slice(&queues.stdout).unwrap();
    schema::check(&schema::schema("queues"), &queues);
    assert_eq!((queues[0]["name"].as_str(), queues[0]["puts"].as_u64(), queues[1].is_null()), (Some("blocks"), Some(50), true), "{queues}");
}

/// All events with this name, with their fields.
fn events(place: &Place, trace: &Path, name: &str) -> Vec<Value> {
    let printed = ok(place.longpole(&["print", "--json"]).arg(trace).output().unwrap()).stdout;
    let lines = printed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()).filter(|event| event["name"] == name).collect()
}

#[test]
fn the_path_of_a_command_ends_with_its_exit_and_not_with_threads_killed_by_the_exit() {
    let _alone = alone();
    if !can_trace("who is killed by an exit") {
        return;
    }
    let place = Place::new();
    let sleeper = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\ntime.sleep(0.1)\nprint()";
    let trace = recorded(&place, &["python3", "-c", sleeper]);
    // The threads of the command are named PROGRAM/THREAD, except for the first one. That one has
    // its pid in its name if another program with the same name runs.
    let end = path(&place, &trace)["end_machine"].as_str().unwrap().to_owned();
    assert!(end.starts_with("python3") && !end.contains('/'), "{end}");
}

#[test]
fn the_path_of_a_command_begins_at_its_exec_and_no_change_to_the_recorder_is_recommended() {
    let _alone = alone();
    if !can_trace("where the path of a command begins") {
        return;
    }
    let place = Place::new();
    let trace = recorded(&place, &["sh", "-c", "for n in 1 2 3; do sleep 0.01; done"]);
    let told: Value = serde_json::from_slice(&std::fs::read(trace.join("longpole.json")).unwrap()).unwrap();
    let is_command = |event: &&Value| event["fields"]["tid"] == told["command_pid"];
    let executed = events(&place, &trace, "sched_process_exec").iter().find(is_command).unwrap()["t_ns"].clone();
    let answer = path(&place, &trace);
    assert_eq!(answer["start_ns"], executed);
    for verb in ["path", "report", "graph", "what-if", "diff"] {
        let traces = vec![&trace; if verb == "diff" { 2 } else { 1 }];
        let output = ok(place.longpole(&[verb, "--json", "--verbose"]).args(traces).output().unwrap());
        let said = String::from_utf8(output.stderr).unwrap();
        let notes = said.lines().filter(|line| line.contains("the path begins with the command")).count();
        assert_eq!(notes, if verb == "diff" { 2 } else { 1 }, "{verb}: {said}");
        if verb == "graph" {
            let graph: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(graph["start_ns"], executed);
        }
    }
    // With `--begin +0` the path covers the whole trace, including the start of the recorder. No
    // prediction recommends a change to the recorder.
    let whole = ok(place.longpole(&["path", "--json", "--begin", "+0"]).arg(&trace).output().unwrap());
    let whole: Value = serde_json::from_slice(&whole.stdout).unwrap();
    assert!(whole["start_ns"].as_u64() < executed.as_u64(), "{whole}");
    assert!(time(&whole, |machine, _| machine.starts_with("longpole")) > 0, "{}", whole["criticality"]);
    for verb in ["report", "what-if"] {
        let output = ok(place.longpole(&[verb, "--json", "--begin", "+0"]).arg(&trace).output().unwrap());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = if verb == "report" { &answer["predictions"] } else { &answer };
        for row in rows.as_array().unwrap() {
            assert!(!row["change"].as_str().unwrap().starts_with("longpole"), "{verb}: {row}");
        }
    }
}
