//! `view --live`: the picture of a recording while it is made, and after its end.

use crate::support::host::can_trace;
use crate::support::place::{signal, wait_for, Place, Running};
use crate::support::view::View;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn opened(place: &Place, arguments: &[&str]) -> View {
    View::start(&mut place.longpole(&[]), arguments)
}

/// The picture of a recording that is being made.
impl View {
    /// Waits until the picture of the running recording covers this time from its begin on.
    fn live_until(&self, ns: u64) -> Value {
        self.wait(|trace| {
            assert!(trace["phase"] == "live" || trace["end"] == 0, "{trace}");
            trace["end"].as_u64().unwrap() > ns
        })
    }

    /// Returns the states that begin after `begin` and end by `end`, of the rows that are wanted,
    /// by the row's kind, name and detail.
    fn states(&self, begin: i64, end: i64, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, Vec<String>> {
        let origin = self.origin();
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        let key = |row: &Value| format!("{} {} {}", text(row, "kind"), text(row, "name"), text(row, "detail"));
        let listed = self.get("/rows")["rows"].clone();
        let rows = listed.as_array().unwrap().iter().filter(|row| row["states"] != 0 && wanted(&key(row)));
        let states = rows.map(|row| {
            let path = format!("/states?row={}&begin={}&end={}&limit=100000", row["id"], (begin - origin).max(0), end - origin);
            let states = self.get(&path);
            assert_eq!(states["more"], false);
            (key(row), states["states"].clone())
        });
        let states: Vec<(String, Value)> = states.collect();
        // The names are asked for last, so that all of these states have one.
        let names = self.get("/rows")["states"].clone();
        let texts = |states: &Value| {
            let texts = states.as_array().unwrap().iter().filter_map(|state| {
                let time = |key: &str| state[key].as_i64().unwrap() + origin;
                let is_inside = begin < time("begin") && time("end") <= end;
                is_inside.then(|| format!("{} {} {}", time("begin"), time("end"), names[state["state"].as_u64().unwrap() as usize]))
            });
            texts.collect()
        };
        states.iter().map(|(key, states)| (key.clone(), texts(states))).collect()
    }
}

/// A recording of `until_closed` that is being made.
struct Recording {
    recorder: Running,
    directory: PathBuf,
}

impl Recording {
    fn begin(place: &Place, arguments: &[&str]) -> Recording {
        let program = place.build("until_closed", &[]);
        Recording::by(place.longpole(&["record"]).args(arguments), place, &program)
    }

    /// Begins to record the kernel's events, too.
    fn begin_with_kernel(place: &Place) -> Recording {
        let program = place.build("until_closed", &[]);
        Recording::by(
            place.command(env!("CARGO_BIN_EXE_longpole")).args(["record", "--kernel", "sched,irq", "--stacks", "none"]),
            place,
            &program,
        )
    }

    fn by(record: &mut Command, place: &Place, program: &str) -> Recording {
        record.args(["--", program]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let recorder = Running::start(record);
        let status = || -> Value { serde_json::from_slice(&place.longpole(&["status", "--json"]).output().unwrap().stdout).unwrap() };
        wait_for(|| status()["recording"]["pid"] == recorder.id());
        Recording { recorder, directory: PathBuf::from(status()["recording"]["path"].as_str().unwrap()) }
    }

    fn end(mut self) {
        drop(self.recorder.stdin.take());
        assert!(self.recorder.wait().unwrap().success());
    }
}

/// Ends the recording, and compares what was shown before with the finished recording: the states
/// of these rows, from the begin of the finished timeline on.
fn assert_same_states(view: &View, recording: Recording, wanted: impl Fn(&str) -> bool + Copy) {
    let shown = view.origin() + view.trace()["end"].as_i64().unwrap();
    let live = view.states(view.origin(), shown, wanted);
    recording.end();
    let trace = view.end();
    assert_eq!(trace["phase"], "ready", "{trace}");
    // What lies before the begin of the command is not in the timeline of its recording.
    let begin = view.origin();
    let is_after = |state: &&String| state.split(' ').next().unwrap().parse::<i64>().unwrap() > begin;
    let finished = view.states(begin, shown, wanted);
    let mut compared = 0;
    for (row, states) in live {
        let states: Vec<&String> = states.iter().filter(is_after).collect();
        // The state that is cut at the end of the picture lasts longer in the finished recording.
        let until = states.len().saturating_sub(1);
        if until == 0 {
            continue;
        }
        let Some(of_finished) = finished.get(&row) else { panic!("{row} is not in {:?}", finished.keys()) };
        let of_finished: Vec<&String> = of_finished.iter().take(until).collect();
        // A thread on a CPU has the name that it had last, so only its number is compared.
        let compared_part = |text: &str| {
            let times = text.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" ");
            let name = if row.starts_with("cpu ") { text.rsplit(' ').next() } else { text.splitn(3, ' ').nth(2) };
            (times, name.map(str::to_owned))
        };
        let differ = states[..until].iter().zip(&of_finished).position(|(one, other)| compared_part(one) != compared_part(other));
        assert!(
            differ.is_none() && of_finished.len() == until,
            "{row}: {differ:?} of {until}: {:?}",
            differ.map(|at| (states[at], of_finished[at]))
        );
        compared += until;
    }
    assert!(compared > 200, "{compared} states");
}

#[test]
fn the_states_of_a_running_recording_are_those_of_the_finished_one() {
    let place = Place::new();
    let recording = Recording::begin(&place, &[]);
    let view = opened(&place, &["--live"]);
    let trace = view.live_until(1_500_000_000);
    assert!(trace["events"].as_u64().unwrap() > 200, "{trace}");
    assert!(trace["live"]["behind_ns"].as_u64().unwrap() < 60_000_000_000, "{trace}");
    let directory = recording.directory.clone();
    // The worker is named after its begin, so its row is named in the finished recording.
    assert_same_states(&view, recording, |row| row == "machine until_closed ");

    let kept = directory.join("derived/timeline");
    wait_for(|| kept.exists());
    fs::remove_dir_all(directory.join("derived")).unwrap();
    let again = opened(&place, &[directory.to_str().unwrap()]);
    assert_eq!(again.end()["end"], view.trace()["end"]);
    let (rows, rows_again) = (view.get("/rows"), again.get("/rows"));
    for part in ["rows", "states", "path"] {
        assert_eq!(rows[part], rows_again[part], "{part}");
    }
    assert_eq!(view.get("/report")["verdict"], again.get("/report")["verdict"]);
    let ids: Vec<String> = rows["rows"].as_array().unwrap().iter().map(|row| row["id"].to_string()).collect();
    for level in [14, 20, 24] {
        let path = format!("/tiles?level={level}&first=0&count=512&rows={}", ids.join(","));
        // Bytes 8 to 12 are the version, which counts the changes.
        let (tile, again) = (view.bytes(&path), again.bytes(&path));
        assert_eq!((&tile[..8], &tile[12..]), (&again[..8], &again[12..]), "level {level}");
        assert!(tile.len() > 100, "level {level}");
    }
}

#[test]
fn threads_cpus_and_interrupts_of_a_running_recording_are_those_of_the_finished_one() {
    if !can_trace("following the kernel's events") {
        return;
    }
    let place = Place::new();
    let recording = Recording::begin_with_kernel(&place);
    let view = opened(&place, &["--live", recording.directory.to_str().unwrap()]);
    view.live_until(1_000_000_000);
    let has = |kind: &str| view.get("/rows")["rows"].as_array().unwrap().iter().any(|row| row["kind"] == kind);
    // The groups are made after a stretch of the recording was read.
    view.wait(|_| has("cpus"));
    for kind in ["process", "thread", "cpu", "interrupts", "interrupt"] {
        assert!(has(kind), "{kind}");
    }
    assert_eq!(view.trace()["phase"], "live");
    // A thread that ends early may have another one's row in the finished recording, so only those
    // of the command are compared.
    let wanted = |row: &str| row.starts_with("cpu ") || row.starts_with("interrupt ") || row.starts_with("thread until_closed ");
    assert_same_states(&view, recording, wanted);
}

#[test]
fn a_recording_whose_recorder_is_killed_is_read_to_its_end() {
    let place = Place::new();
    place.damages();
    let mut recording = Recording::begin(&place, &[]);
    let view = opened(&place, &["--live"]);
    view.live_until(1_000_000_000);
    signal(&recording.recorder, "-KILL");
    recording.recorder.wait().unwrap();
    let trace = view.end();
    assert_eq!((&trace["phase"], &trace["live"]), (&"ready".into(), &Value::Null), "{trace}");
    assert!(trace["events"].as_u64().unwrap() > 200);
}

#[test]
fn what_was_read_of_a_recording_whose_directory_is_removed_stays() {
    let place = Place::new();
    place.damages();
    let mut recording = Recording::begin(&place, &[]);
    let view = opened(&place, &["--live"]);
    view.live_until(1_000_000_000);
    fs::remove_dir_all(&recording.directory).unwrap();
    let trace = view.end();
    assert_eq!(trace["phase"], "failed");
    assert!(trace["error"].as_str().unwrap().contains("was removed"), "{trace}");
    let rows = view.get("/rows")["rows"].clone();
    assert!(rows.as_array().unwrap().iter().any(|row| row["states"].as_u64() > Some(100)), "{rows}");
    drop(recording.recorder.stdin.take());
    let _ = recording.recorder.wait();
}

#[test]
fn without_a_running_recording_the_error_names_the_command_that_begins_one() {
    let place = Place::new();
    let said = |arguments: &[&str]| {
        let output = place.longpole(&["view", "--live", "--no-open"]).args(arguments).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&[]).contains("`longpole record`"), "{}", said(&[]));
    assert!(said(&["--begin", "+1s"]).contains("leave --begin"), "{}", said(&["--begin", "+1s"]));
    let recording = Recording::begin(&place, &[]);
    let other = said(&[place.path("other").to_str().unwrap()]);
    assert!(other.contains("nothing is being recorded in") && other.contains(recording.directory.to_str().unwrap()), "{other}");
    recording.end();
}

#[test]
fn a_flight_recorder_is_refused_because_its_recording_does_not_grow() {
    let place = Place::new();
    let recording = Recording::begin(&place, &["--mode", "overwrite"]);
    let output = place.longpole(&["view", "--live", "--no-open"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("longpole snapshot"), "{said}");
    recording.end();
}

#[test]
fn a_chunk_of_a_recording_is_followed_to_its_end() {
    let place = Place::new();
    let recording = Recording::begin(&place, &["--max-age", "16s"]);
    let first = recording.directory.clone();
    let view = opened(&place, &["--live", first.to_str().unwrap()]);
    view.live_until(1_000_000_000);
    let trace = view.end();
    assert_eq!(trace["phase"], "ready", "{trace}");
    assert_eq!(Path::new(trace["path"].as_str().unwrap()), first);
    let note = trace["note"].as_str().unwrap();
    assert!(note.contains("continues in") && !note.contains(first.to_str().unwrap()), "{note}");
    recording.end();
}
