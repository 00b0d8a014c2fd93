//! `view`: pages of events, and the executions of threads.

use crate::support::place::Place;
use crate::support::plain_ctf::{packet, Payload, METADATA};
use crate::support::view::View;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

const EVENTS: u64 = 5000;

/// Returns the lines of `print --json`.
fn printed(place: &Place, trace: &Path, arguments: &[&str]) -> Vec<Value> {
    let output = place.longpole(&["print", "--json", "--no-pager"]).args(arguments).arg(trace).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(|line| serde_json::from_slice(line).unwrap()).collect()
}

fn opened(place: &Place, trace: &Path) -> View {
    let view = View::start(&mut place.longpole(&[]), &[trace.to_str().unwrap()]);
    assert_eq!(view.end()["phase"], "ready");
    view
}

/// Follows the pages from one end of the trace to the other. Returns times and names in the order
/// of time.
fn paged(view: &View, begin: &str, is_backwards: bool, others: &str) -> Vec<(i64, String)> {
    let mut all: Vec<Vec<(i64, String)>> = Vec::new();
    let mut from = begin.to_owned();
    loop {
        let page = view.get(&format!("/events?{from}&backwards={is_backwards}&limit=997{others}"));
        let lines = page["lines"].as_array().unwrap_or_else(|| panic!("{page}"));
        let line = |line: &Value| (line["t"].as_i64().unwrap(), line["name"].as_str().unwrap().to_owned());
        all.push(lines.iter().map(line).collect());
        match page[if is_backwards { "before" } else { "after" }].as_u64() {
            Some(next) => from = format!("from={next}"),
            None => break,
        }
    }
    if is_backwards {
        all.reverse();
    }
    all.concat()
}

#[test]
fn pages_of_events_in_both_directions_are_what_print_prints() {
    let place = Place::new();
    let trace = place.path("trace");
    fs::create_dir(&trace).unwrap();
    fs::write(trace.join("metadata"), METADATA).unwrap();
    let event = |t: u64| match t % 5 {
        0 => (1000 + t / 3 * 1000, 7, Payload::Rx(t as u16, 2, [3, 4])),
        _ => (1000 + t / 3 * 1000, 7, Payload::Switch("worker", 0, 0, (0, 0))),
    };
    let packets = (0..EVENTS / 100).map(|number| packet(0, &(0..100).map(|at| event(number * 100 + at)).collect::<Vec<_>>()));
    fs::write(trace.join("stream"), packets.collect::<Vec<_>>().concat()).unwrap();

    let view = opened(&place, &trace);
    let origin = view.origin();
    let expected = |arguments: &[&str]| -> Vec<(i64, String)> {
        let lines = printed(&place, &trace, arguments);
        lines.iter().map(|line| (line["t_ns"].as_i64().unwrap() - origin, line["name"].as_str().unwrap().to_owned())).collect()
    };
    let all = expected(&[]);
    assert_eq!(all.len() as u64, EVENTS);
    assert_eq!(paged(&view, "from=0", false, ""), all);
    assert_eq!(paged(&view, &format!("from={EVENTS}"), true, ""), all);
    let (filter, few) = ("&filter=name%20==%20%22net:rx%22", expected(&["--names", "net:rx"]));
    assert_eq!(few.len() as u64, EVENTS / 5);
    assert_eq!(paged(&view, "from=0", false, filter), few);
    assert_eq!(paged(&view, &format!("from={EVENTS}"), true, filter), few);
    // From a time on: all events at that time or later. Three events have each time.
    let t = all[2500].0;
    let later: Vec<_> = all.iter().filter(|event| event.0 >= t).cloned().collect();
    assert_eq!(paged(&view, &format!("at={t}"), false, ""), later);
}

#[test]
fn executions_of_threads_are_those_between_the_switches_of_the_trace() {
    let place = Place::new();
    let script = "for round in 1 2 3 4 5; do sleep 0.01; gzip < /proc/self/exe > /dev/null; done";
    let output = place
        .command(env!("CARGO_BIN_EXE_longpole"))
        .args(["record", "--kernel", "sched,irq", "--stacks", "none", "--", "sh", "-c", script])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let recording = place.newest();
    if !recording.join("kernel").exists() {
        println!("skipped: executions of threads (the kernel's events need root and tracefs)");
        return;
    }
    let view = opened(&place, &recording);
    let origin = view.origin();
    let rows = view.get("/rows")["rows"].clone();
    let row_of: HashMap<i64, u64> =
        rows.as_array().unwrap().iter().filter_map(|row| Some((row["tid"].as_i64()?, row["id"].as_u64()?))).collect();
    // The thread of each CPU, and since when.
    let mut running: HashMap<u64, (i64, i64)> = HashMap::new();
    let mut checked = 0;
    for switch in printed(&place, &recording, &["--names", "sched_switch"]) {
        let (t, cpu) = (switch["t_ns"].as_i64().unwrap(), switch["cpu"].as_u64().unwrap());
        let next = switch["fields"]["next_tid"].as_i64().unwrap();
        let Some((tid, since)) = running.insert(cpu, (next, t)) else { continue };
        // Some kernels do not record the switches away from some threads.
        let is_recorded = switch["fields"]["prev_tid"] == tid;
        let Some(row) = row_of.get(&tid).filter(|_| tid != 0 && is_recorded && since > origin && checked < 200) else { continue };
        // Rows of a thread id that was used again are not told apart here.
        let middle = (since + t) / 2 - origin;
        let instance = view.get(&format!("/instance?row={row}&at={middle}"))["instance"].clone();
        let found = ["begin", "end"].map(|key| instance[key].as_i64().map(|ns| ns + origin));
        assert_eq!((found, instance["cpu"].as_u64()), ([Some(since), Some(t)], Some(cpu)), "thread {tid} at {middle}: {instance}");
        checked += 1;
    }
    assert!(checked > 20, "{checked} executions");
}
