//! `view` keeps what it has read of a trace, and uses it until the trace changes.

#[path = "support/plain_ctf.rs"]
mod plain_ctf;

use plain_ctf::{packet, Payload, METADATA};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// A running `longpole view`, which ends when it is dropped.
struct View {
    server: Child,
    port: String,
    /// The part of the address after the port.
    place: String,
}

impl View {
    fn of(trace: &Path, arguments: &[&str]) -> View {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
        let mut server = command.args(["view", "--no-open"]).args(arguments).arg(trace).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let (port, place) = address.trim().strip_prefix("http://127.0.0.1:").unwrap().split_once('/').unwrap();
        View { server, port: port.to_owned(), place: format!("/{place}") }
    }

    fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port.parse().unwrap())).unwrap();
        write!(stream, "GET {}{path} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\n\r\n", self.place, self.port).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Returns the trace, its rows and its report when all is known.
    fn answers(&self) -> (Value, Value, Value) {
        loop {
            let trace = self.get("api/traces/1");
            match trace["phase"].as_str().unwrap() {
                "ready" => return (trace, self.get("api/traces/1/rows"), self.get("api/traces/1/report")),
                "failed" => panic!("{trace}"),
                _ => thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
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

    let view = View::of(&trace, &[]);
    let first = view.answers();
    assert_eq!(first.0["events"], EVENTS);
    wait_for(&trace.join("derived/timeline"));
    drop(view);

    // The same size and time, but only half of the events: what was kept is shown.
    let half = [packets[..packets.len() / 2].concat(), vec![0; packets[packets.len() / 2..].concat().len()]].concat();
    fs::write(&stream, &half).unwrap();
    set_changed(&stream, changed);
    assert_eq!(View::of(&trace, &[]).answers(), first);
    // Another question is answered by reading the trace.
    assert_eq!(View::of(&trace, &["--begin", "+0s"]).answers().0["events"], EVENTS / 2);

    set_changed(&stream, changed + Duration::from_secs(1));
    assert_eq!(View::of(&trace, &[]).answers().0["events"], EVENTS / 2);
}

#[test]
fn next_to_a_small_trace_of_another_tracer_nothing_is_written() {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("metadata"), METADATA).unwrap();
    fs::write(place.path().join("stream"), packet(0, &[(1000, 7, Payload::Rx(1, 2, [3, 4]))])).unwrap();
    let view = View::of(place.path(), &[]);
    assert_eq!(view.answers().0["events"], 1);
    drop(view);
    assert!(!place.path().join("derived").exists());
}
