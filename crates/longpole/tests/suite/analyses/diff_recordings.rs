//! `diff` of recordings of probes: pids and tids are not compared, and a condition that cannot be
//! evaluated is refused with the reason.

use crate::support::schema;
use longpole_testing::user_trace::{Fake, Field, Kind};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A thread that handles `items` items at equal intervals, each in a span of `each_ns`.
struct Worker {
    tid: i32,
    items: u64,
    each_ns: u64,
}

#[derive(Default)]
struct Run {
    workers: Vec<Worker>,
    /// Queue that the items are put into; no queue if `None`.
    queue: Option<&'static str>,
    /// Name of the span; `grind` if `None`.
    span: Option<&'static str>,
    lost: u64,
}

const LENGTH_NS: u64 = 1_200_000;

impl Run {
    fn of(workers: &[(i32, u64, u64)]) -> Run {
        Run { workers: workers.iter().map(|&(tid, items, each_ns)| Worker { tid, items, each_ns }).collect(), ..Run::default() }
    }

    fn written(&self, place: &TempDir, name: &str) -> PathBuf {
        let trace = place.path().join(name);
        let mut fake = Fake::new(&trace);
        let span = self.span.unwrap_or("grind");
        let (begin, end) = (fake.class(&format!("span_begin:{span}"), &[]), fake.class(&format!("span_end:{span}"), &[]));
        let put = fake.class(&format!("queue_put:{}", self.queue.unwrap_or("none")), &[("count", Kind::U64)]);
        for worker in &self.workers {
            // Each worker is a process of its own, like the processes of a program that forks.
            let mut lane = fake.lane("mill", "mill", worker.tid, worker.tid);
            let apart = LENGTH_NS / worker.items;
            assert!(worker.each_ns < apart);
            for item in 0..worker.items {
                let t = item * apart + item * 7 % 11;
                lane.event(t, begin, &[]);
                lane.event(t + worker.each_ns, end, &[]);
                if self.queue.is_some() {
                    lane.event(t + worker.each_ns, put, &[Field::U64(1)]);
                }
            }
            lane.packet();
            lane.discarded = self.lost;
            lane.event(LENGTH_NS, begin, &[]);
            lane.finish();
        }
        fake.finish();
        trace
    }
}

fn diff(a: &Path, b: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longpole")).env_remove("LONGPOLE_ROOT").arg("diff").args([a, b]).args(arguments).output().unwrap()
}

fn json(a: &Path, b: &Path) -> Value {
    let output = diff(a, b, &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer = serde_json::from_slice(&output.stdout).unwrap();
    schema::check(&schema::schema("diff"), &answer);
    answer
}

/// Exit status of `--fail-if`, and the text on stderr.
fn asked(a: &Path, b: &Path, condition: &str) -> (Option<i32>, String) {
    let output = diff(a, b, &["--fail-if", condition]);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn two_equal_recordings_have_no_difference_even_with_different_pids() {
    let place = TempDir::new().unwrap();
    let one = Run::of(&[(100, 300, 2_000), (101, 300, 2_000), (102, 300, 2_000)]).written(&place, "one");
    let other = Run::of(&[(10_642, 300, 2_000), (10_643, 300, 2_000), (10_644, 300, 2_000)]).written(&place, "other");
    let answer = json(&one, &other);
    assert_eq!(answer["verdict"]["kind"], "nothing", "{}", answer["verdict"]);
    for line in answer["latency"].as_array().unwrap() {
        assert!(line["count_a"] == line["count_b"] && line["count_a"].as_u64() > Some(0), "{line}");
    }
    for line in answer["states"].as_array().unwrap() {
        assert!(line["certain"] == false && (line["machine"] == "mill" || line["machine"] == "link"), "{line}");
    }
    // The findings are the same too.
    let told = answer["findings"].as_array().unwrap();
    assert!(told.iter().all(|line| line["share_a"] == line["share_b"]), "{told:?}");
}

#[test]
fn machines_of_one_class_are_compared_as_one_also_in_machine_logs() {
    let place = TempDir::new().unwrap();
    let log = |name: &str, pid: u32| {
        let path = place.path().join(name);
        let mut text = format!("{{\"t\":0,\"machine\":\"fixwork.{pid}\",\"class\":\"fixwork\",\"state\":\"user\"}}\n");
        for n in 0..120u64 {
            text += &format!("{{\"t\":{},\"machine\":\"fixwork.{pid}\",\"state\":\"preempted\"}}\n", 100 * n + 90);
            text += &format!("{{\"t\":{},\"machine\":\"fixwork.{pid}\",\"state\":\"user\"}}\n", 100 * n + 100);
        }
        text += &format!("{{\"t\":12050,\"end\":\"fixwork.{pid}\"}}\n");
        std::fs::write(&path, text).unwrap();
        path
    };
    let (one, other) = (log("one", 10_642), log("other", 10_656));
    let answer = json(&one, &other);
    assert_eq!(answer["verdict"]["kind"], "nothing", "{}", answer["verdict"]);
    let user = answer["states"].as_array().unwrap().iter().find(|line| line["state"] == "user").unwrap();
    assert_eq!((user["machine"].as_str(), user["change"].as_f64()), (Some("fixwork"), Some(0.0)));
    assert_eq!(asked(&one, &other, "more_critical(\"fixwork::user\") > 0.05").0, Some(0));
    // A condition may name a machine of the class by its own name if the machine is in the trace
    // that the condition is about; otherwise the condition cannot be evaluated.
    assert_eq!(asked(&one, &other, "criticality(\"fixwork.10656::user\") > 0.5").0, Some(3));
    let (status, said) = asked(&one, &other, "criticality(\"fixwork.10642::user\") > 0.5");
    assert!(status == Some(1) && said.contains("nothing in the second trace has the name"), "{said}");
}

#[test]
fn a_condition_on_a_name_that_is_gone_is_an_error() {
    let place = TempDir::new().unwrap();
    let with = Run { queue: Some("bin"), ..Run::of(&[(7, 300, 2_000)]) }.written(&place, "with");
    let without = Run { queue: Some("sack"), span: Some("mill"), ..Run::of(&[(7, 300, 2_000)]) }.written(&place, "without");
    for condition in [
        "rate(\"bin\") < 10000",
        "rate(\"bin\") > 10000",
        "less_rate(\"bin\") > 0.1",
        "mean(\"grind\") > 5000",
        "p99(\"grind\") > 5000",
        "slower(\"grind\") > 0.5",
        "!(slower(\"grind\") < 0.5)",
    ] {
        let (status, said) = asked(&with, &without, condition);
        assert!(status == Some(1) && said.contains("it is not in the second trace"), "{condition}: {status:?} {said}");
    }
    // A condition on the second trace alone needs the name only there; a comparison needs it in
    // both.
    assert_eq!(asked(&without, &with, "rate(\"bin\") < 10000").0, Some(0));
    assert_eq!(asked(&without, &with, "mean(\"grind\") > 1000").0, Some(3));
    for condition in ["less_rate(\"bin\") > 0.1", "slower(\"grind\") > 0.5"] {
        let (status, said) = asked(&without, &with, condition);
        assert!(status == Some(1) && said.contains("it is not in the first trace"), "{condition}: {said}");
    }
}

#[test]
fn no_condition_on_times_or_rates_is_evaluated_if_events_are_lost() {
    let place = TempDir::new().unwrap();
    let whole = Run { queue: Some("bin"), ..Run::of(&[(7, 300, 1_000)]) }.written(&place, "whole");
    let lossy = Run { queue: Some("bin"), lost: 1_000, ..Run::of(&[(7, 300, 3_000)]) }.written(&place, "lossy");
    for condition in
        ["slower(\"grind\") > 0.5", "mean(\"grind\") > 1", "p99(\"grind\") > 1", "rate(\"bin\") > 1", "less_rate(\"bin\") > 0.5"]
    {
        for (a, b, which) in [(&whole, &lossy, "second"), (&lossy, &whole, "first")] {
            let (status, said) = asked(a, b, condition);
            assert!(status == Some(1) && said.contains(&format!("in the {which} trace 1,000 events are lost")), "{condition}: {said}");
        }
    }
    assert_eq!(asked(&whole, &whole, "slower(\"grind\") > 0.5").0, Some(0));
}

#[test]
fn a_slower_thread_is_noticed_even_if_another_thread_handles_most_items() {
    let place = TempDir::new().unwrap();
    let before = Run::of(&[(7, 300, 1_000), (8, 120, 1_000)]).written(&place, "before");
    let after = Run::of(&[(7, 300, 1_000), (8, 120, 9_000)]).written(&place, "after");
    // (300 x 1 us + 120 x 9 us) / 420 = 3.286 us, instead of 1 us.
    assert_eq!(asked(&before, &after, "slower(\"grind\") > 2.2 && slower(\"grind\") < 2.4").0, Some(3));
    assert_eq!(asked(&before, &after, "mean(\"grind\") > 3280 && mean(\"grind\") < 3290").0, Some(3));
    assert_eq!(asked(&before, &after, "p99(\"grind\") > 8900").0, Some(3));
    assert_eq!(asked(&before, &before, "slower(\"grind\") > 0.02").0, Some(0));
}
