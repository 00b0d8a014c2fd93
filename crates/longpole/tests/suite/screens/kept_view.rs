//! `view` keeps what it has read of a trace, and uses it until the trace changes.

use crate::support::plain_ctf::{packet, Payload, METADATA};
use crate::support::view::View;
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

fn opened(trace: &Path, arguments: &[&str]) -> View {
    View::start(&mut Command::new(env!("CARGO_BIN_EXE_longpole")), &[arguments, &[trace.to_str().unwrap()]].concat())
}

/// Returns the trace, its rows and its report when all is known.
fn answers(view: &View) -> (Value, Value, Value) {
    let trace = view.end();
    assert_eq!(trace["phase"], "ready", "{trace}");
    (trace, view.get("/rows"), view.get("/report"))
}

/// Waits until the file is there; it is stored after the report is known.
fn wait_for(file: &Path) {
    for _ in 0..3000 {
        if file.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("there is no {}", file.display());
}

fn set_changed(file: &Path, time: SystemTime) {
    File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
}

const EVENTS: u64 = 130_000;

#[test]
fn a_trace_is_not_read_again_until_it_changes() {
    let place = TempDir::new().unwrap();
    let trace = place.path().join("trace");
    fs::create_dir(&trace).unwrap();
    fs::write(trace.join("metadata"), METADATA).unwrap();
    let switch = |t: u64| (t * 1000, 7, Payload::Switch("worker", 0, 0, (0, 0)));
    let packets: Vec<Vec<u8>> =
        (0..EVENTS / 1000).map(|number| packet(0, &(0..1000).map(|at| switch(number * 1000 + at)).collect::<Vec<_>>())).collect();
    let stream = trace.join("stream");
    fs::write(&stream, packets.concat()).unwrap();
    let changed = fs::metadata(&stream).unwrap().modified().unwrap();

    let view = opened(&trace, &[]);
    let first = answers(&view);
    assert_eq!(first.0["events"], EVENTS);
    wait_for(&trace.join("derived/timeline"));
    drop(view);

    // The same size and time, but only half of the events: what was kept is shown.
    let half = [packets[..packets.len() / 2].concat(), vec![0; packets[packets.len() / 2..].concat().len()]].concat();
    fs::write(&stream, &half).unwrap();
    set_changed(&stream, changed);
    assert_eq!(answers(&opened(&trace, &[])), first);
    // Another question is answered by reading the trace.
    assert_eq!(answers(&opened(&trace, &["--begin", "+0s"])).0["events"], EVENTS / 2);

    set_changed(&stream, changed + Duration::from_secs(1));
    assert_eq!(answers(&opened(&trace, &[])).0["events"], EVENTS / 2);
}

#[test]
fn next_to_a_small_trace_of_another_tracer_nothing_is_written() {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("metadata"), METADATA).unwrap();
    fs::write(place.path().join("stream"), packet(0, &[(1000, 7, Payload::Rx(1, 2, [3, 4]))])).unwrap();
    let view = opened(place.path(), &[]);
    assert_eq!(answers(&view).0["events"], 1);
    drop(view);
    assert!(!place.path().join("derived").exists());
}
