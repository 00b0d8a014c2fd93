//! The comparison with a profiler in `report`, from machine logs and from sampled stacks.

use crate::support::host::{can_sample, can_trace};
use crate::support::place::{ok, Place};
use crate::support::schema;
use longpole_testing::user_trace::{Fake, Field, Kind};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

fn text(place: &Place, arguments: &[&str], trace: &Path) -> String {
    String::from_utf8(ok(place.longpole(arguments).arg(trace).output().unwrap()).stdout).unwrap()
}

/// A log of two workers of one class, a server and a decoy. The first worker and the server take
/// turns; the second worker and the decoy compute all the time. Each is in a state that has no name
/// of its own.
fn log(place: &Place) -> std::path::PathBuf {
    let mut lines = String::new();
    let mut line = |text: String| lines += &format!("{text}\n");
    for (machine, class) in [("w1", "worker"), ("w2", "worker"), ("s", "server"), ("hot", "decoy")] {
        line(format!(r#"{{"t":0,"machine":"{machine}","class":"{class}","state":"user"}}"#));
    }
    line(r#"{"t":0,"machine":"s","blocked":"idle"}"#.to_owned());
    for n in 0..100 {
        let t = n * 100;
        line(format!(r#"{{"t":{},"machine":"w1","put":"q"}}"#, t + 30));
        line(format!(r#"{{"t":{},"machine":"s","get":"q"}}"#, t + 30));
        line(format!(r#"{{"t":{},"machine":"w1","blocked":"reply"}}"#, t + 30));
        line(format!(r#"{{"t":{},"machine":"s","put":"r"}}"#, t + 100));
        line(format!(r#"{{"t":{},"machine":"w1","get":"r"}}"#, t + 100));
        line(format!(r#"{{"t":{},"machine":"s","blocked":"idle"}}"#, t + 100));
    }
    line(r#"{"t":10000,"end":"w1"}"#.to_owned());
    let path = place.path("turns.jsonl");
    fs::write(&path, lines).unwrap();
    path
}

#[test]
fn states_without_a_name_of_their_own_are_ranked_by_class() {
    let place = Place::new();
    let log = log(&place);
    for verb in ["path", "report"] {
        let answer = place.answer(verb, &log);
        schema::check(&schema::schema(verb), &answer);
        let row = |machine: &str| {
            let rows = answer["criticality"].as_array().unwrap();
            let row = rows.iter().find(|row| row["machine"] == machine && row["state"] == "user").unwrap_or_else(|| panic!("{rows:#?}"));
            (row["profile_rank"].as_u64().unwrap(), row["profile_share"].as_f64().unwrap(), row["share"].as_f64().unwrap())
        };
        // Running times: both workers 3,000 + 10,000 ns, the decoy 10,000 ns, the server 7,000 ns.
        for (machine, rank, profile, path) in [("w1", 1, 13.0 / 30.0, 0.3), ("s", 3, 7.0 / 30.0, 0.7)] {
            let (told, profiled, share) = row(machine);
            let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
            assert!(told == rank && near(profiled, profile) && near(share, path), "{verb} {machine}: {told} {profiled} {share}");
        }
    }
    let text = text(&place, &["report", "--full"], &log);
    assert!(
        text.contains("A profiler would point to worker::user (43.3 % of the running time), which has 30.0 % of the critical path.\n"),
        "{text}"
    );
    assert!(
        text.contains("critical, but lower in a profile: server::user (70.0 % of the path, rank 3 with 23.3 % of the running time)\n"),
        "{text}"
    );
    assert!(text.contains("busy, but hardly critical: decoy::user (33.3 % of the running time, 0.0 % of the path)\n"), "{text}");
}

#[test]
fn predictions_have_one_shape_in_both_verbs() {
    let place = Place::new();
    let log = log(&place);
    let keys = |rows: &Value| rows[0].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let (report, what_if) = (place.answer("report", &log), place.answer("what-if", &log));
    assert_eq!(keys(&report["predictions"]), keys(&what_if));
    assert!(report["predictions"].as_array().unwrap().iter().all(|row| row["step"].is_null()));
    schema::check(&schema::schema("what-if"), &report["predictions"]);
    let runs = ok(place.longpole(&["report", "--json"]).args([&log, &log]).output().unwrap());
    let runs: Value = serde_json::from_slice(&runs.stdout).unwrap();
    schema::check(&schema::schema("report-runs"), &runs);
    assert_eq!(keys(&runs["predictions"]), keys(&what_if));
}

#[test]
fn with_samples_the_profiler_points_to_functions() {
    if !can_sample("functions in the report") {
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]);
    let record = ["record", "--kernel", "sched,irq,softirq,syscall", "--stacks", "3989", "--", &program, "helped", "1"];
    ok(place.command(env!("CARGO_BIN_EXE_longpole")).args(record).output().unwrap());
    let recording = place.newest();
    let report = place.answer("report", &recording);
    schema::check(&schema::schema("report"), &report);
    let path = ok(place.longpole(&["path", "--functions", "--json"]).arg(&recording).output().unwrap());
    let path: Value = serde_json::from_slice(&path.stdout).unwrap();
    assert_eq!(report["functions"], path["functions"]);
    assert_eq!(report["criticality"], path["criticality"]);

    // The function with the most samples in itself, over all processes with one name, which is the
    // first line of a profiler.
    let mut samples: HashMap<(&str, &str, &str), u64> = HashMap::new();
    let cpu = place.answer("cpu", &recording);
    for row in cpu["functions"].as_array().unwrap() {
        let [process, function, module] = ["process", "function", "module"].map(|key| row[key].as_str().unwrap());
        *samples.entry((process, function, module)).or_default() += row["self_samples"].as_u64().unwrap();
    }
    let ((process, function, _), most) = samples.into_iter().max_by_key(|&(_, count)| count).unwrap();
    let share = most as f64 / cpu["samples"]["busy"].as_f64().unwrap();
    let text = text(&place, &["report", "--full", "--begin", "+0"], &recording);
    let line = format!("A profiler would point to {function} of {process} ({:.1} % of ", 100.0 * share);
    assert!(text.lines().any(|told| told.starts_with(&line)), "{line}\n{text}");
    // The report has no line about probes, because there are none.
    let foot = text.lines().last().unwrap();
    assert!(foot.contains(" events in the whole recording, ") && foot.contains("; none of probes: longpole cpu, sched"), "{foot}");
    assert!(!text.contains("a probe costs") && !text.contains("no queue probes") && !text.contains("begins and ends"), "{text}");
    // The helper's time in the state "user" is that of one function, even if the sampling interrupt
    // took it off the CPU.
    let rows = report["criticality"].as_array().unwrap();
    let helper = rows.iter().find(|row| row["state"] == "user" && row["function"]["function"] == "work_of_three");
    let helper = helper.unwrap_or_else(|| panic!("{rows:#?}"));
    let top = &helper["function"];
    assert!(top["samples"].as_f64().unwrap() > 0.8 * top["state_samples"].as_f64().unwrap(), "{helper}");
    // On a busy host, the function also waits for a CPU, in a row of its own.
    let runs = |row: &&Value| row["function"] == "work_of_three" && row["time"] == "running";
    let told = report["functions"].as_array().unwrap().iter().find(runs).unwrap();
    assert_eq!((&told["profile_rank"], &told["profile_share"]), (&top["profile_rank"], &top["profile_share"]));
    assert!(text.lines().any(|line| line.contains("::user ") && line.contains(" work_of_three ")), "{text}");
}

/// A trace of a server that polls in a function, without a probe that marks this as a wait, and
/// hands its items to another thread.
fn polling(place: &Place) -> std::path::PathBuf {
    let trace = place.path("polling");
    let mut fake = Fake::new(&trace);
    let mut edges = |name: &str| ["begin", "end"].map(|edge| fake.class(&format!("span_{edge}:{name}"), &[]));
    let (poll, work) = (edges("poll"), edges("work"));
    let (put, get) = (fake.class("queue_put:q", &[("count", Kind::U64)]), fake.class("queue_get:q", &[("count", Kind::U64)]));
    let wait = fake.class("queue_wait_empty:q", &[]);
    let (mut server, mut sink) = (fake.lane("server", "main", 10, 10), fake.lane("sink", "main", 20, 20));
    for t in (0..400).map(|n| n * 10_000) {
        server.event(t, poll[0], &[]);
        server.event(t + 8_000, poll[1], &[]);
        server.event(t + 8_100, put, &[Field::U64(1)]);
        sink.event(t + 100, wait, &[]);
        sink.event(t + 8_200, get, &[Field::U64(1)]);
        sink.event(t + 8_300, work[0], &[]);
        sink.event(t + 9_000, work[1], &[]);
    }
    server.finish();
    sink.finish();
    fake.finish();
    trace
}

#[test]
fn without_switches_and_samples_the_report_does_not_mention_running_time() {
    let place = Place::new();
    let trace = polling(&place);
    let report = place.answer("report", &trace);
    schema::check(&schema::schema("report"), &report);
    assert_eq!(report["inputs"]["tells_running"], false, "{}", report["inputs"]);
    let of_path = report["criticality"].as_array().unwrap().iter().find(|row| row["state"] == "poll").unwrap();
    assert_eq!(of_path["profile_rank"], 1, "{of_path}");
    let verdict = &report["verdict"];
    assert_eq!((&verdict["subject"]["name"], &verdict["state"]["name"]), (&"server".into(), &"poll".into()), "{verdict}");
    assert!(verdict["text"].as_str().unwrap().contains("; the trace does not show whether it runs or waits there"), "{verdict}");
    let said = text(&place, &["report", "--full"], &trace);
    for wrong in ["running time", "A profiler would", "thread-time rank", "busy, but"] {
        assert!(!said.contains(wrong), "{wrong}: {said}");
    }
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[1].contains("Predicted gain of server::poll x0.5: +") && lines[1].contains(", if that is work and no wait"), "{said}");
    assert!(lines[2].contains("is unknown: server::poll has most of the time") && lines[2].contains("--kernel sched`, as root"), "{said}");
    // Several recordings contain no more than one.
    let several = String::from_utf8(ok(place.longpole(&["report"]).args([&trace, &trace]).output().unwrap()).stdout).unwrap();
    assert!(!several.contains("thread-time rank") && several.contains(", if that is work and no wait"), "{several}");
    // In a machine log the waits are explicit.
    let log = log(&place);
    assert_eq!(place.answer("report", &log)["inputs"]["tells_running"], true);
}

#[test]
fn with_the_kernels_switches_the_report_compares_with_running_time() {
    if !can_trace("running time by the kernel's switches") {
        return;
    }
    let place = Place::new();
    let program = place.build("handover", &[]);
    for (kernel, tells) in [("sched", true), ("none", false)] {
        let mut record = place.command(env!("CARGO_BIN_EXE_longpole"));
        ok(record.args(["record", "--stacks", "none", "--kernel", kernel, "--", &program]).output().unwrap());
        let trace = place.newest();
        assert_eq!(place.answer("report", &trace)["inputs"]["tells_running"], tells, "{kernel}");
        assert_eq!(text(&place, &["report"], &trace).contains("A profiler would point to"), tells, "{kernel}");
    }
}
