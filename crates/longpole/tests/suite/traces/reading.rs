//! The verbs that read traces: their answers, the form of the answers, and the exit status.

use crate::support::host::is_root;
use crate::support::program::copy_program;
use crate::support::schema;
use longpole_testing::user_trace::{babeltrace2, corpus, Fake, Field, Kind};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn longpole() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
    command.env_remove("LONGPOLE_ROOT");
    command
}

fn run(verb: &str, arguments: &[&str], trace: &Path) -> Output {
    longpole().arg(verb).args(arguments).arg(trace).output().unwrap()
}

fn json(verb: &str, arguments: &[&str], trace: &Path) -> Value {
    let output = run(verb, arguments, trace);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A recording of two threads with a loss and packets.
fn recording(directory: &Path) {
    let mut fake = Fake::new(directory);
    let begin = fake.class("span_begin:parse", &[]);
    let event = fake.class("event:mixed", &[("i", Kind::I64), ("f", Kind::F64), ("text", Kind::Text)]);
    let fields = [("direction", Kind::U32), ("length", Kind::U32), ("captured", Kind::U64), ("bytes", Kind::Bytes)];
    let packet = fake.class("packet:eth0", &fields);
    let mut first = fake.lane("init -> router", "ep", 10, 11);
    first.event(100, begin, &[]);
    first.packet();
    first.discarded = 7;
    first.event(900, event, &[Field::I64(-4), Field::F64(0.5), Field::Text("a \"b\"\n")]);
    first.finish();
    let mut second = fake.lane("init -> sink", "main", 20, 21);
    for n in 0..3 {
        let fields = [Field::U32(1), Field::U32(1400), Field::U64(3), Field::Bytes(&[1, 2, 255])];
        second.event(200 + 100 * n, packet, &fields);
    }
    second.finish();
    fake.finish();
    fake.describe(r#"{"host":"h","start_ns":5,"end_ns":6,"clock":{"source":"tsc","residual_ns":12.5}}"#);
}

#[test]
fn the_json_of_each_verb_conforms_to_its_schema() {
    let directory = TempDir::new().unwrap();
    recording(directory.path());
    let mut traces = vec![directory.path().to_owned()];
    for name in ["genode/ctf", "genode/a.pcapng", "tracecompass-test-traces/context-switches"] {
        traces.extend(corpus(name));
    }
    for trace in traces {
        schema::check(&schema::schema("info"), &json("info", &["--json", "--histogram"], &trace));
        schema::check(&schema::schema("packets"), &json("packets", &["--json"], &trace));
        let lines = schema::schema("print");
        for line in text(&run("print", &["--json"], &trace)).lines() {
            schema::check(&lines, &serde_json::from_str(line).unwrap());
        }
    }
}

#[test]
fn info_counts_the_same_events_as_babeltrace2() {
    let directory = TempDir::new().unwrap();
    recording(directory.path());
    let info = json("info", &["--json"], directory.path());
    assert_eq!((&info["events"], &info["lost"]), (&5.into(), &7.into()));
    assert_eq!(info["names"]["packet:eth0"], 3);
    assert_eq!(info["clock"]["residual_ns"], 12.5);
    assert_eq!(info["end_ns"].as_i64().unwrap() - info["start_ns"].as_i64().unwrap(), 800);
    if let Some((events, lost)) = babeltrace2(&directory.path().join("user")) {
        assert_eq!((info["events"].as_u64(), info["lost"].as_u64()), (Some(events), Some(lost)));
    }
}

#[test]
fn a_sum_of_losses_that_overflows_is_the_largest_number() {
    let directory = TempDir::new().unwrap();
    let mut fake = Fake::new(directory.path());
    let begin = fake.class("span_begin:parse", &[]);
    for (tid, lost) in [(11, u64::MAX - 1), (21, 7)] {
        let mut lane = fake.lane("init", "ep", 10, tid);
        lane.event(100, begin, &[]);
        lane.packet();
        lane.discarded = lost;
        lane.event(900, begin, &[]);
        lane.finish();
    }
    fake.finish();
    for verb in ["info", "check"] {
        assert_eq!(json(verb, &["--json"], directory.path())["lost"], u64::MAX, "{verb}");
    }
    assert_eq!(json("report", &["--json"], directory.path())["inputs"]["lost"], u64::MAX);
}

#[test]
fn print_shows_events_and_losses_as_lines_in_the_order_of_time() {
    let directory = TempDir::new().unwrap();
    recording(directory.path());
    let output = run("print", &[], directory.path());
    assert_eq!(
        text(&output),
        "[23:04:05.000000100] (+?.?????????) init -> router:ep(11) span_begin:parse: { }\n\
         [23:04:05.000000200] (+0.000000100) init -> sink:main(21) packet:eth0: { direction = 1, length = 1400, captured = 3, bytes = [ 01 02 ff ] }\n\
         [23:04:05.000000300] (+0.000000100) init -> sink:main(21) packet:eth0: { direction = 1, length = 1400, captured = 3, bytes = [ 01 02 ff ] }\n\
         [23:04:05.000000400] (+0.000000100) init -> sink:main(21) packet:eth0: { direction = 1, length = 1400, captured = 3, bytes = [ 01 02 ff ] }\n\
         [23:04:05.000000900] (+0.000000500) user/init_->_router-0: 7 events lost since [23:04:05.000000100]\n\
         [23:04:05.000000900] (+0.000000000) init -> router:ep(11) event:mixed: { i = -4, f = 0.5, text = \"a \\\"b\\\"\\n\" }\n"
    );
    let part = run("print", &["--begin", "+150ns", "--end", "23:04:05.0000003"], directory.path());
    // One packet event, and the loss that began before the end.
    assert_eq!(text(&part).lines().count(), 2, "{}", text(&part));
}

#[test]
fn print_into_a_pipe_that_is_closed_early_ends_quietly() {
    let directory = TempDir::new().unwrap();
    let mut fake = Fake::new(directory.path());
    let put = fake.class("queue_put:q", &[("count", Kind::U64)]);
    let mut lane = fake.lane("a", "t", 1, 1);
    for n in 0..50_000 {
        lane.event(n, put, &[Field::U64(n)]);
    }
    lane.finish();
    fake.finish();
    let mut child = longpole().arg("print").arg(directory.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(line.contains("queue_put:q"));
    assert!(output.status.success());
    assert!(!String::from_utf8_lossy(&output.stderr).contains("Broken pipe"));
}

#[test]
fn an_answer_into_a_closed_pipe_ends_quietly() {
    let directory = TempDir::new().unwrap();
    recording(directory.path());
    for verb in ["info", "report", "latency", "queues", "cpu", "packets", "check"] {
        for json in [&["--json"][..], &[]] {
            let mut gone = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
            let pipe = gone.stdin.take().unwrap();
            gone.wait().unwrap();
            let output = longpole().arg(verb).args(json).arg(directory.path()).stdout(pipe).stderr(Stdio::piped()).spawn();
            let output = output.unwrap().wait_with_output().unwrap();
            assert!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
            assert!(!String::from_utf8_lossy(&output.stderr).contains("ipe"), "{verb}");
        }
    }
}

#[test]
fn packets_are_counted_from_events_if_there_is_no_capture() {
    let directory = TempDir::new().unwrap();
    recording(directory.path());
    let answer = json("packets", &["--json"], directory.path());
    assert_eq!((&answer["losses"], &answer["journeys"]), (&Value::Null, &Value::Null));
    let packets = &answer["interfaces"];
    let way = &packets[0]["directions"][0];
    assert_eq!((&packets[0]["interface"], &packets[0]["capture"]), (&"eth0".into(), &Value::Null));
    assert_eq!((&way["direction"], &way["packets"], &way["bytes"]), (&"in".into(), &3.into(), &4200.into()));
    assert_eq!(way["captured_bytes"], 9);
    assert_eq!(packets[0]["dropped"], Value::Null);
}

#[test]
fn without_a_trace_the_newest_recording_under_the_root_is_read() {
    let root = TempDir::new().unwrap();
    for (name, start) in [("new", 200), ("old", 100)] {
        let mut fake = Fake::new(&root.path().join(name));
        let mark = fake.class(&format!("mark:{name}"), &[]);
        let mut lane = fake.lane("a", "t", 1, 1);
        lane.event(1, mark, &[]);
        lane.finish();
        fake.finish();
        fake.describe(&format!("{{\"start_ns\":{start},\"end_ns\":{start}}}"));
    }
    let output = longpole().arg("print").env("LONGPOLE_ROOT", root.path()).output().unwrap();
    assert!(text(&output).contains("mark:new"), "{output:?}");
    let none = longpole().arg("info").env("LONGPOLE_ROOT", root.path().join("nowhere")).output().unwrap();
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("no trace was named"));
}

const READING: [&str; 8] = ["info", "print", "report", "latency", "queues", "cpu", "packets", "check"];

/// The message for a path that cannot be read, which has at most `lines` lines.
fn refusal(verb: &str, output: Output, lines: usize) -> String {
    let talk = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{verb}: {talk}");
    assert!(output.stdout.is_empty(), "{verb}");
    assert!((1..=lines).contains(&talk.lines().count()), "{verb}: {talk}");
    talk
}

#[test]
fn a_path_that_is_no_trace_is_refused_with_the_formats_tried_and_advice() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::create_dir(path("empty")).unwrap();
    fs::write(path("zero"), "").unwrap();
    fs::write(path("text"), "hello\n").unwrap();
    fs::create_dir(path("other")).unwrap();
    fs::write(path("other/text"), "hello\n").unwrap();
    let cases = [
        ("missing", "No such file or directory", "longpole list --recordings"),
        ("empty", "the directory is empty", "name a recording"),
        ("zero", "the file is empty", "name a recording"),
        ("text", "pcapng          begins with 0a 0d 0d 0a", "name a recording"),
        ("other", "neither in it nor below", "name a recording"),
    ];
    for verb in READING {
        for (name, why, next) in cases {
            // The message has a line for each format if there are files that could be in one.
            let lines = if matches!(name, "text" | "other") { 20 } else { 1 };
            let talk = refusal(verb, run(verb, &[], &path(name)), lines);
            for part in [path(name).to_str().unwrap(), why, next] {
                assert_eq!(talk.matches(part).count(), 1, "{verb} {name}: {part:?} in {talk}");
            }
        }
    }
}

#[test]
fn a_path_without_read_permission_is_refused_in_one_line() {
    let directory = TempDir::new().unwrap();
    // The other user must be able to run the command, but not to read the recording.
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let command = directory.path().join("longpole");
    copy_program(env!("CARGO_BIN_EXE_longpole"), &command);
    let closed = directory.path().join("closed");
    recording(&closed);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let root = is_root();
    for verb in READING {
        let mut command = Command::new(&command);
        command.current_dir("/").arg(verb).arg(&closed);
        if root {
            command.uid(65_534).gid(65_534);
        }
        let talk = refusal(verb, command.output().unwrap(), 1);
        for part in [closed.to_str().unwrap(), "Permission denied", "run as"] {
            assert_eq!(talk.matches(part).count(), 1, "{verb}: {part:?} in {talk}");
        }
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_damaged_trace_is_shown_up_to_the_damage_and_fails() {
    let directory = TempDir::new().unwrap();
    let mut fake = Fake::new(directory.path());
    let mark = fake.class("mark:m", &[]);
    let mut lane = fake.lane("a", "t", 1, 1);
    lane.event(1, mark, &[]);
    lane.event(2, 99, &[]);
    lane.finish();
    fake.finish();
    for verb in ["info", "print"] {
        let output = run(verb, &[], directory.path());
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output).contains("mark:m"));
    }
    let wrong = run("print", &["--begin", "soon"], directory.path());
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn verbs_without_a_trace_end_quietly_into_a_closed_pipe_and_fail_on_a_full_disk() {
    let directory = TempDir::new().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    for arguments in [&["check"][..], &["check", "--json"], &["status"], &["status", "--json"], &["list", "--json"]] {
        let command = || {
            let mut command = longpole();
            command.args(arguments).env("LONGPOLE_RUNTIME_DIR", directory.path()).env("LONGPOLE_ROOT", directory.path());
            command.stderr(Stdio::piped());
            command
        };
        let mut gone = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let pipe = gone.stdin.take().unwrap();
        gone.wait().unwrap();
        let output = command().stdout(pipe).spawn().unwrap().wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command().stdout(full).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"), "{arguments:?}");
    }
}

#[test]
fn a_recording_that_was_changed_after_its_end_is_damaged() {
    let directory = TempDir::new().unwrap();
    let make = |name: &str| {
        let path = directory.path().join(name);
        fs::create_dir(&path).unwrap();
        let mut fake = Fake::new(&path);
        let mark = fake.class("mark:m", &[]);
        let mut lanes = Vec::new();
        for n in 0..2 {
            let mut lane = fake.lane("a", "t", 1, n);
            lane.event(1, mark, &[]);
            let path = lane.path.clone();
            lane.finish();
            let bytes = fs::metadata(&path).unwrap().len();
            lanes.push(serde_json::json!({ "file": format!("user/{}", path.file_name().unwrap().to_str().unwrap()), "bytes": bytes }));
        }
        fake.finish();
        let description = serde_json::json!({ "start_ns": 1, "end_ns": 2, "lanes": lanes });
        fs::write(path.join("longpole.json"), description.to_string()).unwrap();
        path
    };
    let lane = |path: &Path| {
        let mut all: Vec<_> = fs::read_dir(path.join("user")).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all.into_iter().find(|path| !path.ends_with("metadata")).unwrap()
    };
    assert_eq!(run("check", &[], &make("sound")).status.code(), Some(0));
    let short = make("short");
    let length = fs::metadata(lane(&short)).unwrap().len();
    fs::File::options().write(true).open(lane(&short)).unwrap().set_len(length - 8).unwrap();
    let missing = make("missing");
    fs::remove_file(lane(&missing)).unwrap();
    let nameless = make("nameless");
    fs::remove_file(nameless.join("user/metadata")).unwrap();
    for (path, why) in [(short, "its recorder left"), (missing, "is missing"), (nameless, "metadata is missing")] {
        let output = run("check", &[], &path);
        assert_eq!(output.status.code(), Some(1), "{why}");
        assert!(text(&output).contains(why), "{}", text(&output));
        assert_eq!(run("info", &[], &path).status.code(), Some(1), "{why}");
        let answer: Value = serde_json::from_slice(&run("check", &["--json"], &path).stdout).unwrap();
        assert_eq!(answer["damaged"], true);
        schema::check(&schema::schema("check"), &answer);
    }
}

#[test]
fn contradicting_arguments_are_wrong_usage() {
    let directory = TempDir::new().unwrap();
    recording(directory.path());
    let output = run("info", &["--begin", "+2s", "--end", "+1s"], directory.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--end is before --begin"));
    let output = longpole().args(["record", "--"]).env("LONGPOLE_RUNTIME_DIR", directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no command follows"));
}

/// A recording of one program, which either puts items into a queue or takes them.
fn side(directory: &Path, label: &str, pid: i32, (op, states, first): (&str, [&str; 2], u64)) {
    let mut fake = Fake::new(directory);
    let classes = states.map(|name| fake.class(name, &[]));
    let queue = fake.class(op, &[("count", Kind::U64)]);
    let mut lane = fake.lane(label, "main", pid, pid);
    for round in 0..3 {
        let begin = first + 1000 * round;
        lane.event(begin, classes[0], &[]);
        lane.event(begin + 400, queue, &[Field::U64(1)]);
        lane.event(begin + 450, classes[1], &[]);
    }
    lane.finish();
    fake.finish();
    fake.describe(r#"{"host":"h","start_ns":5,"end_ns":6}"#);
}

#[test]
fn several_recordings_of_one_run_are_read_as_one_trace() {
    let place = TempDir::new().unwrap();
    let [source, sink, whole] = ["source", "sink", "whole"].map(|name| place.path().join(name));
    side(&source, "source", 10, ("queue_put:q", ["span_begin:make", "span_end:make"], 100));
    side(&sink, "sink", 20, ("queue_get:q", ["span_begin:use", "span_end:use"], 300));
    let of = |verb: &str, arguments: &[&str], traces: &[&Path]| {
        let output = longpole().arg(verb).args(arguments).args(traces).output().unwrap();
        assert!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
        text(&output)
    };
    of("merge", &["-o", &whole.to_string_lossy()], &[&source, &sink]);
    for (verb, arguments) in [("path", &["--json"][..]), ("model", &[]), ("graph", &[]), ("what-if", &["cpus +1", "--json"])] {
        let both = of(verb, arguments, &[&source, &sink]);
        assert_eq!(both, of(verb, arguments, &[&whole]), "{verb}");
        if verb == "path" {
            let machines = ["source", "sink"].map(|label| both.contains(&format!("\"{label}")));
            assert_eq!(machines, [true; 2], "{both}");
        }
    }
    let log = place.path().join("log");
    fs::write(&log, "{\"t\":1,\"machine\":\"A\",\"state\":\"run\"}\n").unwrap();
    let output = longpole().arg("path").args([&source, &log]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is a machine log, which is a trace of its own"));
}

#[test]
fn a_pipe_that_is_named_like_a_rule_file_is_refused_without_waiting() {
    let place = TempDir::new().unwrap();
    let pipe = place.path().join("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let output = Command::new(env!("CARGO_BIN_EXE_longpole")).args(["rules", "check"]).arg(&pipe).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(said.contains("is no rule file"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}
