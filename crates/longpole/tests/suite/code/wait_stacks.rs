//! Stacks of waits in real recordings, of programs that measure their own times.

use crate::support::host::{alone, can_sample, can_trace};
use crate::support::place::{ok, Place};
use crate::support::schema;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// As distributions build their programs: optimised, and without frame pointers.
const HOW: [&str; 5] = ["-O2", "-g", "-fomit-frame-pointer", "-pthread", "-fno-optimize-sibling-calls"];

/// Records the program `places`. Returns the recording and the program's output; `None` if this
/// host does not permit what is needed.
fn record(place: &Place, mode: &str, seconds: &str) -> Option<(PathBuf, String)> {
    if !can_trace("stacks of waits") || !can_sample("stacks of waits") {
        return None;
    }
    let program = place.build("places", &HOW);
    let _alone = alone();
    let arguments = ["record", "--kernel", "sched,irq,softirq,timer,syscall", "--stacks", "999", "--", &program, mode, seconds];
    let output = ok(place.command(env!("CARGO_BIN_EXE_longpole")).args(arguments).output().unwrap());
    let recording = place.newest();
    // Until they are unwound, stacks of programs without frame pointers end early.
    let names = &place.answer("info", &recording)["names"];
    if names.get("waiting_rate").is_none() || names.get("stack").is_none() {
        println!("skipped: stacks of waits (none are recorded, or unwound, on this host)");
        return None;
    }
    Some((recording, String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn path(place: &Place, recording: &Path) -> Value {
    let output = ok(place.longpole(&["path", "--functions", "--json", "--no-segments"]).arg(recording).output().unwrap());
    let answer = serde_json::from_slice(&output.stdout).unwrap();
    schema::check(&schema::schema("path"), &answer);
    answer
}

/// Returns true if other programs used the CPUs, so that the program also waited for these.
fn is_busy(what: &str, report: &Value) -> bool {
    let verdict = &report["verdict"];
    let entries = |list: &str, kind: &'static str| verdict[list].as_array().unwrap().iter().filter(move |entry| entry["kind"] == kind);
    let mut most = entries("because", "cpu_users").map(|reason| &reason["users"][0][0]["name"]);
    let is_busy = entries("caveats", "bystanders").next().is_some() || most.any(|name| name != "places");
    if is_busy {
        println!("skipped: {what} (this host is busy: {})", verdict["text"]);
    }
    is_busy
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"))
}

#[test]
fn functions_that_compute_and_wait_have_the_shares_that_the_program_measured() {
    let place = Place::new();
    let Some((recording, output)) = record(&place, "alone", "2") else { return };
    let answer = path(&place, &recording);
    let length = number(&answer, "length_ns");
    // The samples have the same correction of their times as the kernel's events.
    let offset = format!("--offset={}=+10s", recording.display());
    let shifted = ok(place.longpole(&["path", "--functions", "--json", "--no-segments", &offset]).arg(&recording).output().unwrap());
    let shifted: Value = serde_json::from_slice(&shifted.stdout).unwrap();
    assert_eq!(shifted["functions"], answer["functions"]);
    for line in output.lines() {
        let (name, ns) = line.split_once(' ').unwrap();
        let expected = ns.parse::<f64>().unwrap() / length;
        let rows = answer["functions"].as_array().unwrap().iter().filter(|row| row["function"] == name && row["process"] == "places");
        let (mut low, mut high) = (0.0, 0.0);
        for row in rows {
            low += number(row, "low");
            high += number(row, "high");
            if row["time"] == "timer" {
                assert!(row["file"].as_str().unwrap().ends_with("places.c") && row["line"].is_u64(), "{row}");
            }
        }
        // The time that the program measures includes its way into and out of the wait.
        assert!(low - 0.02 < expected && expected < high + 0.02, "{name}: {expected}, {low} to {high}: {}", answer["functions"]);
    }
    let report = place.answer("report", &recording);
    schema::check(&schema::schema("report"), &report);
    if is_busy("the function of the verdict", &report) {
        return;
    }
    let code = &report["verdict"]["code"];
    assert_eq!(code["function"], "waits_long", "{}", report["verdict"]);
    assert!(number(code, "share_low") <= number(code, "share") && number(code, "share") <= number(code, "share_high"), "{code}");
}

#[test]
fn a_lock_has_the_place_where_threads_wait_and_the_place_of_its_release() {
    let place = Place::new();
    let Some((recording, _)) = record(&place, "lock", "1") else { return };
    let answer = path(&place, &recording);
    let found = answer["ended_waits"].as_array().unwrap();
    let first = found.first().unwrap_or_else(|| panic!("{answer}"));
    assert_eq!((first["waiter"]["function"].as_str(), first["waker"]["function"].as_str()), (Some("takes_lock"), Some("releases_lock")));
    if is_busy("the share of a lock", &place.answer("report", &recording)) {
        return;
    }
    // While one thread waits for the lock, the other one holds it: that is nearly always.
    assert!(number(first, "share") > 0.5, "{first}");
    // Without a subject, functions are not looked up in a part of the trace.
    let output = place.longpole(&["what-if", "--begin", "+0s", "holds_lock x0.5"]).arg(&recording).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("functions are looked up only without --begin, --end and --machine"), "{error}");
}

/// Both waits are in the same function, which therefore says nothing.
#[test]
fn a_wait_counts_for_the_function_that_waits_for_one_kind_of_thing() {
    let place = Place::new();
    let Some((recording, _)) = record(&place, "helper", "1") else { return };
    let answer = path(&place, &recording);
    let functions = answer["functions"].as_array().unwrap();
    let timer = functions.iter().find(|row| row["time"] == "timer" && row["process"] == "places").unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(timer["function"], "pauses", "{timer}");
    assert!(timer["file"].as_str().unwrap().ends_with("places.c") && timer["line"].is_u64(), "{timer}");
    let ended = answer["ended_waits"].as_array().unwrap();
    let of_answer = ended.iter().find(|row| row["waker"]["function"] == "answerer").unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(of_answer["waiter"]["function"], "asks", "{of_answer}");
}

#[test]
fn without_the_switches_between_threads_waits_are_not_sampled() {
    if !can_trace("stacks without switches") || !can_sample("stacks without switches") {
        return;
    }
    let _alone = alone();
    let place = Place::new();
    let arguments = ["record", "--kernel", "block", "--stacks", "99", "--", "sleep", "0.1"];
    ok(place.command(env!("CARGO_BIN_EXE_longpole")).args(arguments).output().unwrap());
    let names = &place.answer("info", &place.newest())["names"];
    assert!(names.get("waiting_rate").is_none(), "{names}");
}
