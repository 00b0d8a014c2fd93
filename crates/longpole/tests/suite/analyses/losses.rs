//! Lost events: the time in which events are missing is unknown, and answers that depend on it
//! contain a warning.

use crate::support::schema;
use longpole_testing::user_trace::{Fake, Field, Kind};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn text(arguments: &[&str], trace: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
    let output = command.env_remove("LONGPOLE_ROOT").args(arguments).arg(trace).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(verb: &str, trace: &Path) -> Value {
    let answer = serde_json::from_str(&text(&[verb, "--json"], trace)).unwrap();
    schema::check(&schema::schema(verb), &answer);
    answer
}

/// Writes a trace of a thread whose ring is full several times. Returns the total time of the gaps
/// in ns. `older`: the trace is that of an older recorder, which ended packets at the begin of the
/// next one.
fn overloaded(directory: &Path, older: bool) -> u64 {
    let mut fake = Fake::new(directory);
    let (begin, end) = (fake.class("span_begin:work", &[]), fake.class("span_end:work", &[]));
    let mut lane = fake.lane("p", "main", 10, 10);
    let (mut t, mut gaps) = (1_000, 0);
    for turn in 0..20u64 {
        let first = t;
        for _ in 0..10 {
            lane.event(t, begin, &[]);
            t += 1_000;
            lane.event(t, end, &[]);
        }
        // The last known event is that the thread begins to work.
        lane.event(t, begin, &[]);
        let gap = 5_000 + 1_000 * turn;
        lane.packet_at(first, if older { t + gap } else { t });
        lane.discarded += 100;
        gaps += gap;
        t += gap;
    }
    lane.event(t, begin, &[]);
    lane.event(t + 700, end, &[]);
    lane.finish();
    fake.finish();
    gaps
}

#[test]
fn the_time_from_the_last_event_before_a_loss_to_the_first_after_it_is_unknown_to_the_nanosecond() {
    for older in [false, true] {
        let directory = TempDir::new().unwrap();
        let gaps = overloaded(directory.path(), older);
        let cpu = json("cpu", directory.path());
        let states = cpu["threads"][0]["states"].as_array().unwrap();
        let lost = states.iter().find(|row| row["state"] == "lost").unwrap();
        assert_eq!((lost["ns"].as_u64(), &cpu["threads"][0]["lost"]), (Some(gaps), &2_000.into()), "older: {older}");
        let path = json("path", directory.path());
        let rows = path["criticality"].as_array().unwrap();
        let time = |row: &Value| row["ns"].as_u64().unwrap();
        assert_eq!(rows.iter().map(time).sum::<u64>(), path["length_ns"].as_u64().unwrap());
        assert_eq!(path["unknown_ns"].as_u64(), Some(gaps), "older: {older}: {rows:?}");
    }
}

/// A source of items and a sink, of which the source is slow. An unrelated thread loses most of its
/// events.
fn slow_source(directory: &Path, lost: u64, ring: u64) {
    let mut fake = Fake::new(directory);
    let put = fake.class("queue_put:q", &[("count", Kind::U64)]);
    let get = fake.class("queue_get:q", &[("count", Kind::U64)]);
    let wait = fake.class("queue_wait_empty:q", &[]);
    let [make, take] = ["make", "take"].map(|name| ["begin", "end"].map(|edge| fake.class(&format!("span_{edge}:{name}"), &[])));
    let mut source = fake.lane("source", "main", 10, 10);
    let mut sink = fake.lane("sink", "main", 20, 20);
    for n in 0..400u64 {
        let t = 10_000 * n;
        source.event(t, make[0], &[]);
        source.event(t + 9_000, make[1], &[]);
        source.event(t + 9_100, put, &[Field::U64(1)]);
        sink.event(t + 200, wait, &[]);
        sink.event(t + 9_200, get, &[Field::U64(1)]);
        sink.event(t + 9_300, take[0], &[]);
        sink.event(t + 9_900, take[1], &[]);
    }
    source.finish();
    sink.finish();
    let mut other = fake.lane("other", "main", 30, 30);
    for n in 0..10u64 {
        other.event(100_000 * n, make[0], &[]);
        other.event(100_000 * n + 100, make[1], &[]);
        other.packet();
        other.discarded += lost;
    }
    other.event(1_000_000, make[0], &[]);
    other.finish();
    fake.finish();
    fake.describe(&format!(r#"{{"host":"h","start_ns":5,"end_ns":6,"lanes":[{{"lost_ring_bytes":null}},{{"lost_ring_bytes":{ring}}}]}}"#));
}

#[test]
fn a_bottleneck_and_a_prediction_mention_many_lost_events() {
    for lost in [0, 10_000] {
        let directory = TempDir::new().unwrap();
        slow_source(directory.path(), lost, 256 << 10);
        let report = json("report", directory.path());
        let verdict = &report["verdict"];
        assert_eq!((&verdict["outcome"], &verdict["lost"]), (&"bottleneck".into(), &(10 * lost).into()), "{verdict}");
        let said = verdict["text"].as_str().unwrap();
        assert_eq!(said.contains("record again with --buffer 4MiB"), lost > 0, "{said}");
        let head = text(&["report"], directory.path());
        assert_eq!(head.contains("lost events are not included"), lost > 0 && head.contains("Predicted gain of "), "{head}");
        let predicted = text(&["what-if", "source::make x0.5"], directory.path());
        assert_eq!(predicted.contains("100,000 events are lost"), lost > 0, "{predicted}");
    }
}

#[test]
fn larger_rings_are_advised_only_if_the_rings_that_lost_events_were_smaller() {
    for (ring, advice) in [(2 << 20, "record again with --buffer 4MiB"), (4 << 20, "rings of 4 MiB were full: record fewer events")] {
        let directory = TempDir::new().unwrap();
        slow_source(directory.path(), 10_000, ring);
        let verdict = json("report", directory.path())["verdict"]["text"].clone();
        assert!(verdict.as_str().unwrap().contains(advice), "{verdict}");
        let predicted = text(&["what-if", "source::make x0.5"], directory.path());
        assert!(predicted.contains(advice), "{predicted}");
    }
}

#[test]
fn a_span_that_was_open_when_a_loss_began_gets_no_running_time_from_the_loss() {
    let directory = TempDir::new().unwrap();
    let mut fake = Fake::new(directory.path());
    let edges = |fake: &mut Fake, name: &str| ["begin", "end"].map(|edge| fake.class(&format!("span_{edge}:{name}"), &[]));
    let [configure, serve, leave] = ["configure", "serve", "leave"].map(|name| edges(&mut fake, name));
    let mut master = fake.lane("master", "main", 10, 10);
    // The end of the span is lost, and the thread emits no further event until the very end.
    master.event(0, configure[0], &[]);
    master.event(1_000, configure[0], &[]);
    master.packet();
    master.discarded += 50;
    master.event(1_000_000, leave[0], &[]);
    master.event(1_001_000, leave[1], &[]);
    master.finish();
    let mut worker = fake.lane("worker", "main", 20, 20);
    for n in 0..100 {
        worker.event(n * 10_000, serve[0], &[]);
        worker.event(n * 10_000 + 9_000, serve[1], &[]);
    }
    worker.finish();
    fake.finish();
    let path = json("path", directory.path());
    let share = |state: &str| {
        let profile = path["profile"].as_array().unwrap();
        profile.iter().find(|row| row["state"] == state).map_or(0.0, |row| row["share"].as_f64().unwrap())
    };
    assert!(share("configure") < 0.01 && share("serve") > 0.8, "{}", path["profile"]);
    let configure: u64 = path["criticality"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["state"] == "configure")
        .map(|row| row["ns"].as_u64().unwrap())
        .sum();
    assert_eq!((configure, path["unknown_ns"].as_u64()), (1_000, Some(999_000)), "{path}");
}
