//! `convert` and `merge -o`: the written trace has the same events and losses as the traces that
//! were read.

use crate::support::plain_ctf::{packet, write, Payload::*};
use crate::support::schema;
use longpole_testing::user_trace::{babeltrace2, corpus, Fake, Field, Kind};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn longpole(arguments: &[&str], paths: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longpole")).args(arguments).args(paths).output().unwrap()
}

/// The events and losses of a trace, without the names of streams, because these are file names and
/// change with the conversion.
fn printed(trace: &Path) -> Vec<Value> {
    let output = longpole(&["print", "--json"], &[trace]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter_mut().for_each(|line| drop(line.as_object_mut().unwrap().remove("stream")));
    lines
}

fn converted(to: &str, trace: &Path, directory: &Path) -> PathBuf {
    let out = directory.join(to);
    let output = longpole(&["convert", "--to", to, "-o", out.to_str().unwrap()], &[trace]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    out
}

/// Asserts that a conversion to either version of CTF changes no event and no number of lost
/// events.
fn assert_same(trace: &Path) {
    let directory = TempDir::new().unwrap();
    let expected = printed(trace);
    assert!(!expected.is_empty());
    for to in ["ctf", "ctf2"] {
        let out = converted(to, trace, directory.path());
        let found = printed(&out);
        let is_loss = |line: &&Value| line.get("since_ns").is_some();
        let (losses, expected_losses): (Vec<_>, Vec<_>) =
            (found.iter().filter(is_loss).collect(), expected.iter().filter(is_loss).collect());
        for (found, expected) in losses.iter().zip(&expected_losses) {
            // The output reports losses per packet. A loss that began before events that were not
            // lost is reported with the packet of these events; a loss that ended after the next
            // packet began is reported at that packet's begin. So times may be earlier.
            assert!(["since_ns", "t_ns"].iter().all(|time| found[time].as_i64() <= expected[time].as_i64()), "{found} {expected}");
            assert_eq!(found["lost"], expected["lost"], "{to} {}", trace.display());
        }
        // If the time of a loss changed, its position among the events changed too.
        let moved = losses != expected_losses;
        let all = |lines: &[Value]| lines.iter().filter(|line| !moved || !is_loss(line)).cloned().collect::<Vec<_>>();
        for (found, expected) in all(&found).iter().zip(&all(&expected)) {
            assert_eq!(found, expected, "{to} {}", trace.display());
        }
        assert_eq!(found.len(), expected.len(), "{to} {}", trace.display());
        let check = longpole(&["check"], &[&out]);
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
        // If babeltrace2 refuses the input, for example because packets overlap, it also refuses
        // the output.
        let is_read = || Command::new("babeltrace2").arg(trace).output().is_ok_and(|output| output.status.success());
        if to == "ctf" && is_read() {
            if let Some((events, lost)) = babeltrace2(&out) {
                let told = expected.iter().filter_map(|line| line["lost"].as_u64()).sum::<u64>();
                assert_eq!(events, expected.iter().filter(|line| line["name"].is_string()).count() as u64);
                assert_eq!(lost, told);
            }
        }
    }
}

#[test]
fn a_trace_of_another_tracer_is_unchanged_by_conversion() {
    let directory = TempDir::new().unwrap();
    let first = vec![
        packet(0, &[(100, 7, Switch("kworker/0:1", -5, 2, (3, 4))), (200, 7, Rx(1500, 2, [10, 11]))]),
        packet(0, &[(500, 8, Switch("a \"b\"\n", 20, 9, (0, 65_535))), (600, 8, Switch("", 0, 0, (1, 1)))]),
    ];
    write(directory.path(), &[("one", first), ("two", vec![packet(1, &[(300, 9, Rx(60, 0, [1, 2]))])])]);
    assert_same(directory.path());
    // CTF 2 can describe everything that CTF 1.8 can, so the packets stay the same byte by byte,
    // including field widths, padding and overlapping enumeration labels.
    let out = TempDir::new().unwrap();
    let other = converted("ctf2", directory.path(), out.path());
    for stream in ["one", "two"] {
        assert!(std::fs::read(other.join(stream)).unwrap() == std::fs::read(directory.path().join(stream)).unwrap());
    }
    // With a selection the events are exported by their values instead of converted packet by
    // packet; the result must be the same.
    let chosen = out.path().join("chosen");
    let output = longpole(&["convert", "--to", "ctf", "--names", "*", "-o", chosen.to_str().unwrap()], &[directory.path()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(printed(&chosen), printed(directory.path()));
}

#[test]
fn a_recording_is_unchanged_by_conversion_including_losses_and_threads() {
    let directory = TempDir::new().unwrap();
    let mut fake = Fake::new(directory.path());
    let begin = fake.class("span_begin:parse", &[]);
    let event = fake.class("event:mixed", &[("i", Kind::I64), ("f", Kind::F64), ("text", Kind::Text)]);
    let packet =
        fake.class("packet:eth0", &[("direction", Kind::U32), ("length", Kind::U32), ("captured", Kind::U64), ("bytes", Kind::Bytes)]);
    let mut first = fake.lane("init -> router", "ep", 10, 11);
    first.event(100, begin, &[]);
    first.packet();
    first.discarded = 7;
    first.event(900, event, &[Field::I64(-4), Field::F64(0.5), Field::Text("grün")]);
    first.finish();
    let mut second = fake.lane("init -> sink", "main", 20, 21);
    for n in 0..3 {
        second.event(200 + 100 * n, packet, &[Field::U32(1), Field::U32(60), Field::U64(n), Field::Bytes(&[1, 2, 255][..n as usize])]);
    }
    second.finish();
    fake.finish();
    fake.describe(r#"{"host":"h","start_ns":5,"end_ns":6}"#);
    assert_same(directory.path());
}

#[test]
fn traces_of_the_corpus_are_unchanged_by_conversion() {
    for name in [
        "tracecompass-test-traces/context-switches",
        "tracecompass-test-traces/hello-lost",
        "babeltrace/ctf-traces/1/succeed/wk-heartbeat-u",
        "genode/ctf",
    ] {
        if let Some(trace) = corpus(name) {
            assert_same(&trace);
        }
    }
}

#[test]
fn conversion_to_json_writes_the_lines_of_print() {
    let directory = TempDir::new().unwrap();
    let trace = directory.path().join("trace");
    write(&trace, &[("one", vec![packet(0, &[(100, 7, Rx(1, 2, [3, 4])), (200, 7, Switch("x", 1, 0, (0, 0)))])])]);
    let print = longpole(&["print", "--json"], &[&trace]).stdout;
    assert_eq!(longpole(&["convert", "--to", "json"], &[&trace]).stdout, print);
    let file = directory.path().join("lines.json");
    let arguments = ["convert", "--to", "json", "-o", file.to_str().unwrap()];
    assert!(longpole(&arguments, &[&trace]).status.success());
    assert_eq!(std::fs::read(&file).unwrap(), print);
    // An existing file is not overwritten.
    assert_eq!(longpole(&arguments, &[&trace]).status.code(), Some(1));
    let some = longpole(&["convert", "--to", "json", "--filter", "len == 1"], &[&trace]).stdout;
    assert_eq!(some, print[..print.iter().position(|byte| *byte == b'\n').unwrap() + 1]);
}

#[test]
fn a_folder_that_is_not_empty_is_refused_as_output() {
    let directory = TempDir::new().unwrap();
    let trace = directory.path().join("trace");
    write(&trace, &[("one", vec![packet(0, &[(100, 7, Rx(1, 2, [3, 4]))])])]);
    let output = longpole(&["convert", "--to", "ctf", "-o", directory.path().to_str().unwrap()], &[&trace]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("not empty"));
    assert_eq!(longpole(&["convert", "--to", "ctf"], &[&trace]).status.code(), Some(2));
}

#[test]
fn merged_traces_become_one_trace_with_one_clock() {
    let directory = TempDir::new().unwrap();
    let paths = ["a", "b"].map(|name| directory.path().join(name));
    for (path, at) in paths.iter().zip([0u64, 1_000]) {
        write(path, &[("one", vec![packet(0, &[(at + 100, 7, Rx(at as u16, 2, [3, 4])), (at + 200, 7, Switch("x", 1, 0, (0, 0)))])])]);
    }
    let out = directory.path().join("both");
    let offset = format!("{}=-950ns", paths[1].display());
    let arguments = ["merge", "--json", "-o", out.to_str().unwrap(), "--offset", &offset];
    let output = longpole(&arguments, &[&paths[0], &paths[1]]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    schema::check(&schema::schema("merge"), &answer);
    assert_eq!(answer["output"]["events"], 4);
    let expected =
        Command::new(env!("CARGO_BIN_EXE_longpole")).args(["print", "--json", "--offset", &offset]).args(&paths).output().unwrap();
    let mut expected: Vec<Value> =
        String::from_utf8(expected.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    expected.iter_mut().for_each(|line| drop(line.as_object_mut().unwrap().remove("stream")));
    assert_eq!(printed(&out), expected);
    let times: Vec<i64> = expected.iter().map(|line| line["t_ns"].as_i64().unwrap() - 1_700_000_000_000_000_000).collect();
    assert_eq!(times, [100, 150, 200, 250]);
    assert_eq!(longpole(&["merge"], &[&paths[0], &paths[1]]).status.code(), Some(2));
}

#[test]
fn events_out_of_order_are_sorted_and_a_note_reports_it() {
    let directory = TempDir::new().unwrap();
    let trace = directory.path().join("trace");
    let events = [300, 100, 200].map(|t_ns| (t_ns, 7, Rx(t_ns as u16, 2, [3, 4])));
    write(&trace, &[("one", vec![packet(0, &events)])]);
    let out = directory.path().join("out");
    let output = longpole(&["convert", "--to", "ctf", "-o", out.to_str().unwrap()], &[&trace]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("trace/one: its events are not in order of time"), "{said}");
    let times = |trace: &Path| printed(trace).iter().map(|line| line["t_ns"].as_i64().unwrap()).collect::<Vec<_>>();
    assert_eq!(times(&out), times(&trace));
    if let Some(found) = babeltrace2(&out) {
        assert_eq!(found, (3, 0));
    }
}

#[test]
fn an_output_inside_the_input_is_refused() {
    let directory = TempDir::new().unwrap();
    let (trace, other) = (directory.path().join("trace"), directory.path().join("other"));
    for path in [&trace, &other] {
        write(path, &[("one", vec![packet(0, &[(100, 7, Rx(1, 2, [3, 4]))])])]);
    }
    std::os::unix::fs::symlink(&trace, directory.path().join("link")).unwrap();
    for out in ["trace", "trace/out", "trace/a/b", "link/out"] {
        let out = directory.path().join(out);
        let out = out.to_str().unwrap();
        for arguments in [&["convert", "--to", "ctf", "-o", out][..], &["convert", "--to", "json", "-o", out]] {
            let output = longpole(arguments, &[&trace]);
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.code() == Some(1) && said.contains("would become a part of it"), "{arguments:?}: {said}");
        }
        assert_eq!(longpole(&["merge", "-o", out], &[&other, &trace]).status.code(), Some(1));
    }
    assert_eq!(std::fs::read_dir(&trace).unwrap().count(), 2);
}

#[test]
fn a_full_output_device_is_an_error() {
    let directory = TempDir::new().unwrap();
    let trace = directory.path().join("trace");
    write(&trace, &[("one", vec![packet(0, &[(100, 7, Rx(1, 2, [3, 4]))])])]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_longpole")).args(["convert", "--to", "json"]).arg(&trace).stdout(full).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("No space left"), "{said}");
}
