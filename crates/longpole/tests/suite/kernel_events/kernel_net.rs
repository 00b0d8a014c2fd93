//! Net times of spans, without the time that the scheduler and interrupts took, compared with the
//! thread's own CPU clock while another thread computes on the same CPU.

use crate::support::host::can_trace;
use crate::support::place::{ok, stolen, Place};
use serde_json::Value;

/// Total of one part of a span, in ms.
fn part(line: &Value, part: &str) -> f64 {
    line["parts"][part]["total_ns"].as_f64().unwrap() / 1e6
}

#[test]
fn the_net_time_of_a_span_on_a_shared_cpu_equals_the_thread_s_cpu_clock() {
    if !can_trace("spans net of preemption") {
        return;
    }
    let place = Place::new();
    let program = place.build("preempted", &[]);
    let mut record = place.command(env!("CARGO_BIN_EXE_longpole"));
    let before = stolen();
    let run = ok(record.args(["record", "--kernel", "sched,irq,softirq,syscall", "--", &program, "20", "10000"]).output().unwrap());
    let stolen = (stolen() - before) as f64 / 1e6;
    let printed = String::from_utf8(run.stdout).unwrap();
    let sums: Vec<f64> = printed.split_whitespace().map(|sum| sum.parse::<f64>().unwrap() / 1e6).collect();
    let recording = place.newest();
    let answer = place.answer("latency", &recording);
    let span = |name: &str| answer.as_array().unwrap().iter().find(|line| line["kind"] == "span" && line["name"] == name).unwrap();

    let computes = span("computes");
    assert_eq!(computes["count"], 20);
    let gross = computes["total_ns"].as_f64().unwrap() / 1e6;
    // The other thread had its share of the CPU.
    assert!(gross > 1.3 * sums[0], "{gross} ms next to {printed}");
    assert!((gross - sums[1]).abs() < 0.02 * gross, "{gross} ms next to {printed}");
    // The thread's own clock includes interrupts that ran on top of the thread.
    let net = part(computes, "net") + part(computes, "interrupted");
    assert!((net - sums[0]).abs() < 0.03 * sums[0] + stolen, "{net} ms, {stolen} stolen, next to {printed}: {computes}");
    let waited = 0.9 * (sums[1] - sums[0]) - stolen;
    assert!(part(computes, "runnable") > waited && part(computes, "unknown") < 0.01 * gross, "{stolen} ms stolen: {computes}");

    let sleeps = span("sleeps");
    assert!(part(sleeps, "blocked") > 0.95 * 20.0 * 10.0, "{sleeps}");
    assert!((part(sleeps, "net") + part(sleeps, "interrupted") - sums[2]).abs() < 5.0, "{sleeps} next to {printed}");
    for line in [computes, sleeps] {
        let whole: f64 = ["net", "interrupted", "runnable", "blocked", "unknown"].iter().map(|name| part(line, name)).sum();
        let total = line["total_ns"].as_f64().unwrap() / 1e6;
        assert!((whole - total).abs() < 1e-5 * total, "{line}");
    }
}
