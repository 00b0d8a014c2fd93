//! Work that does not belong to what is predicted: threads of the kernel with times of their own,
//! machines with missing events, and the cost of probes.

use crate::worlds::{ask, ask_recorded, ns};
use std::fmt::Write;

/// A kernel worker that a timer started puts something into a queue. A machine that takes it later
/// continues without it if it comes sooner after a change.
#[test]
fn work_of_a_kernel_thread_at_fixed_times_delays_no_machine() {
    let text = |state: &str| {
        [
            format!(r#"{{"t":0,"machine":"k","state":"{state}"}}"#),
            r#"{"t":0,"machine":"w","state":"work"}"#.to_owned(),
            r#"{"t":5,"machine":"k","blocked":"idle"}"#.to_owned(),
            r#"{"t":100,"machine":"k","woken_by":"k","at":5,"link":"timer"}"#.to_owned(),
            format!(r#"{{"t":100,"machine":"k","state":"{state}","x_kernel":true}}"#),
            r#"{"t":102,"machine":"k","put":"q"}"#.to_owned(),
            r#"{"t":110,"machine":"w","get":"q"}"#.to_owned(),
            r#"{"t":200,"end":"w"}"#.to_owned(),
        ]
        .join("\n")
    };
    assert_eq!((ns(&text("kernel"), "w::work x0.5"), ns(&text("deliver"), "w::work x0.5")), (100, 102 + 45));
}

/// The time of a lost get is unknown: a machine that needed the room continues without it.
#[test]
fn a_machine_with_missing_events_delays_no_other() {
    let text = |machine: &str| {
        [
            r#"{"queue":"q","capacity":1}"#.to_owned(),
            r#"{"t":0,"machine":"w","state":"work"}"#.to_owned(),
            format!(r#"{{"t":0,"machine":"{machine}","state":"UNKNOWN"}}"#),
            r#"{"t":20,"machine":"w","put":"q"}"#.to_owned(),
            format!(r#"{{"t":110,"machine":"{machine}","get":"q"}}"#),
            r#"{"t":110,"machine":"w","put":"q"}"#.to_owned(),
            r#"{"t":200,"end":"w"}"#.to_owned(),
        ]
        .join("\n")
    };
    assert_eq!((ns(&text("lost events"), "w::work x0.5"), ns(&text("somebody"), "w::work x0.5")), (100, 110 + 45));
}

#[test]
fn the_cost_of_probes_is_no_part_of_a_prediction() {
    // Ten items, of 100 and 20 ns each; the begin of each state costs 10 ns more. The last stay is
    // shorter than the cost of a probe.
    let item = |at: u64| {
        format!(
            "{{\"t\":{},\"machine\":\"a\",\"state\":\"work\"}}\n{{\"t\":{},\"machine\":\"a\",\"state\":\"rest\"}}\n",
            140 * at,
            140 * at + 110
        )
    };
    let log: String =
        (0..10).map(item).collect::<String>() + "{\"t\":1400,\"machine\":\"a\",\"state\":\"over\"}\n{\"t\":1405,\"end\":\"a\"}\n";
    let of = |probe_ns: f64| ask_recorded(&log, &["a::work x0.5"], probe_ns).unwrap().predictions.remove(0);
    assert_eq!(of(0.0).gain, Some(1405.0 / 855.0 - 1.0));
    assert_eq!(of(10.0).gain, Some(1200.0 / 700.0 - 1.0));
    // The trace itself is judged as it is.
    assert_eq!((of(10.0).baseline_ns, of(10.0).baseline_error, of(10.0).replayed_ns), (1405, 0.0, 1200));
}

/// A kernel thread works for two threads, one after the other. After a change, the thread that
/// comes earlier does not wait for the other one, which keeps its times.
#[test]
fn a_kernel_thread_serves_the_first_request_first() {
    let mut text = String::new();
    for machine in ["a", "b", "k"] {
        let _ = writeln!(text, "{{\"t\":0,\"machine\":\"{machine}\",\"state\":\"{}\"}}", if machine == "k" { "kernel" } else { "work" });
    }
    text += "{\"t\":0,\"machine\":\"k\",\"blocked\":\"work\"}\n";
    for round in 0..4u64 {
        let mut say = |after: u64, machine: &str, what: &str| {
            let _ = writeln!(text, "{{\"t\":{},\"machine\":\"{machine}\",{what}}}", 100 * round + after);
        };
        for (from, of) in [(40, "b"), (90, "a")] {
            say(from, of, "\"blocked\":\"k\"");
            say(from, "k", &format!("\"woken_by\":\"{of}\""));
            say(from, "k", "\"state\":\"kernel\",\"x_kernel\":true");
            say(from + 10, of, "\"woken_by\":\"k\"");
            say(from + 10, "k", "\"blocked\":\"work\"");
            say(from + 10, of, "\"state\":\"work\"");
        }
    }
    text += "{\"t\":400,\"end\":\"a\"}\n";
    // The first time, the kernel thread is busy with the other request for 5 ns.
    assert_eq!((ns(&text, "a::work x1"), ns(&text, "a::work x0.5")), (400, 4 * 55 + 5));
}

/// A softirq that a worker raises at times of its own takes what others have sent before. If that
/// had come earlier, it would have raised a softirq itself.
#[test]
fn a_softirq_begins_with_the_first_arrival() {
    let mut text = String::from("{\"t\":0,\"machine\":\"a\",\"state\":\"work\"}\n{\"t\":0,\"machine\":\"k\",\"blocked\":\"timer\"}\n");
    for round in 0..5u64 {
        let mut say = |after: u64, machine: &str, what: &str| {
            let _ = writeln!(text, "{{\"t\":{},\"machine\":\"{machine}\",{what}}}", 100 * round + after);
        };
        say(90, "a", "\"put\":\"net\"");
        say(90, "a", "\"blocked\":\"reply\"");
        say(98, "k", &format!("\"woken_by\":\"k\",\"at\":{},\"link\":\"timer\"", 100 * round));
        say(98, "k", "\"state\":\"kernel\",\"x_kernel\":true");
        say(99, "rx", "\"on_top_of\":\"k\",\"forked_by\":\"k\",\"link\":\"raise\"");
        say(99, "rx", "\"get\":\"net\",\"state\":\"receive\"");
        say(100, "a", "\"woken_by\":\"rx\"");
        say(100, "rx", "\"pop\":true");
        say(100, "k", "\"blocked\":\"timer\"");
        say(100, "a", "\"state\":\"work\"");
    }
    text += "{\"t\":500,\"end\":\"a\"}\n";
    assert_eq!((ns(&text, "a::work x1"), ns(&text, "a::work x0.5"), ns(&text, "a::work x0")), (500, 275, 50));
}

/// A worker that sends something at a time of its own also sends what another thread has queued
/// before. If that had come earlier, another thread would have sent it.
#[test]
fn an_item_that_a_worker_passes_on_leaves_when_it_arrived() {
    let mut text = String::from("{\"t\":0,\"machine\":\"a\",\"state\":\"work\"}\n{\"t\":0,\"machine\":\"k\",\"blocked\":\"timer\"}\n");
    // The machine that waits for arrivals on the wire shows how long the wire takes.
    text += "{\"t\":0,\"machine\":\"c\",\"blocked\":\"empty\",\"on\":\"device\"}\n{\"t\":10,\"machine\":\"a\",\"put\":\"device\",\"link\":\"wire\"}\n";
    text += "{\"t\":28,\"machine\":\"c\",\"get\":\"device\"}\n{\"t\":28,\"machine\":\"c\",\"stop\":true}\n";
    for round in 0..5u64 {
        let mut say = |after: u64, machine: &str, what: &str| {
            let _ = writeln!(text, "{{\"t\":{},\"machine\":\"{machine}\",{what}}}", 100 * round + after);
        };
        say(80, "a", "\"put\":\"device\",\"link\":\"wire\"");
        say(80, "a", "\"blocked\":\"reply\"");
        say(98, "k", &format!("\"woken_by\":\"k\",\"at\":{},\"link\":\"timer\"", 100 * round));
        say(98, "k", "\"state\":\"kernel\",\"x_kernel\":true");
        say(98, "k", "\"get\":\"device\"");
        say(98, "k", "\"put\":\"net\"");
        say(99, "rx", &format!("\"on_top_of\":\"k\",\"forked_by\":\"k\",\"at\":{},\"link\":\"raise\"", 100 * round + 98));
        say(99, "rx", "\"get\":\"net\",\"state\":\"receive\"");
        say(100, "a", "\"woken_by\":\"rx\"");
        say(100, "rx", "\"pop\":true");
        say(100, "k", "\"blocked\":\"timer\"");
        say(100, "a", "\"state\":\"work\"");
    }
    text += "{\"t\":500,\"end\":\"a\"}\n";
    let changes = ["a::work x0.5", "device::wire x0.5", "device::wire x1", "k::kernel x1"];
    let predictions = ask(&text, &changes).unwrap().predictions;
    let gains: Vec<f64> = predictions.iter().map(|it| (1e3 * it.gain.unwrap()).round()).collect();
    // 300 and 455 ns instead of 500.
    assert_eq!(gains, [667.0, 99.0, 0.0, 0.0]);
}
