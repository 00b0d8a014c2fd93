//! `report --html`: what is in the file, and how it is written. tests/viewer/html_report.js opens
//! such files in a browser.

use flate2::read::GzDecoder;
use serde_json::{json, Value};
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Time of the first line of the logs, in ns.
const ORIGIN: u64 = 1_764_000_000_000_000_000;
/// Size that no file exceeds.
const MAX_BYTES: usize = 1_000_000;

fn longpole(arguments: &[&str], trace: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longpole")).env_remove("LONGPOLE_ROOT").args(arguments).arg(trace).output().unwrap()
}

fn log(place: &TempDir, lines: &[Value]) -> PathBuf {
    let path = place.path().join("log.jsonl");
    let mut text = String::new();
    for line in lines {
        let mut line = line.clone();
        line["t"] = (ORIGIN + line["t"].as_u64().unwrap()).into();
        writeln!(text, "{line}").unwrap();
    }
    fs::write(&path, text).unwrap();
    path
}

/// A file of `report --html`, and the parts of its data. `None` if this program has no page.
struct Html {
    bytes: usize,
    trace: Value,
    report: Value,
    bins: Vec<u8>,
    states: Vec<u8>,
}

fn html(place: &TempDir, trace: &Path) -> Option<Html> {
    let file = place.path().join("report.html");
    let output = longpole(&["report", "--html", file.to_str().unwrap()], trace);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("built without the page") {
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(!file.exists());
        return None;
    }
    assert!(output.status.success(), "{said}");
    let text = fs::read_to_string(file).unwrap();
    let part = |name: &str| unpacked(&text, name);
    let json = |name: &str| serde_json::from_slice::<Value>(&part(name)).unwrap();
    Some(Html { bytes: text.len(), trace: json("trace"), report: json("report"), bins: part("bins"), states: part("states") })
}

fn unpacked(html: &str, name: &str) -> Vec<u8> {
    let begin = format!("<script type=\"text/plain\" id=\"longpole-{name}\">");
    let from = html.find(&begin).unwrap() + begin.len();
    let base64 = &html[from..from + html[from..].find('<').unwrap()];
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut packed, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for digit in base64.chars().filter(|&digit| digit != '=') {
        bits = bits << 6 | digits.find(digit).unwrap() as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            packed.push((bits >> held) as u8);
        }
    }
    let mut bytes = Vec::new();
    if !packed.is_empty() {
        GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
    }
    bytes
}

/// Reads the numbers of a part one by one.
struct Numbers<'a>(std::slice::Iter<'a, u8>);

impl Numbers<'_> {
    fn next(&mut self) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = *self.0.next().unwrap();
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    fn column(&mut self, count: u64) -> Vec<u64> {
        (0..count).map(|_| self.next()).collect()
    }

    /// Begin, end and state of each state.
    fn states(&mut self) -> Vec<(u64, u64, u64)> {
        let count = self.next();
        let [gaps, lengths, states, _path] = [(); 4].map(|()| self.column(count));
        let mut now = 0;
        let mut next = |(at, gap): (usize, &u64)| {
            let begin = now + gap;
            now = begin + lengths[at];
            (begin, now, states[at])
        };
        gaps.iter().enumerate().map(&mut next).collect()
    }
}

/// Machines that change their states at times that do not repeat.
fn busy(machines: u64, states: u64) -> Vec<Value> {
    let mut random = 7u64;
    let mut t = 0;
    let mut next = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    let mut lines = Vec::new();
    for at in 0..states {
        t += next(100_000);
        let machine = if at < machines { at } else { next(machines) };
        lines.push(json!({"t": t, "machine": format!("m{machine}"), "state": format!("s{}", next(40))}));
    }
    lines.push(json!({"t": t + 1, "end": "m0"}));
    lines
}

#[test]
fn a_small_trace_is_in_the_file_with_every_state() {
    let place = TempDir::new().unwrap();
    let lines = [
        json!({"t": 0, "machine": "a</script>", "state": "one"}),
        json!({"t": 0, "machine": "b", "blocked": "wait"}),
        json!({"t": 400, "machine": "a</script>", "state": "two"}),
        json!({"t": 900, "machine": "b", "woken_by": "a</script>"}),
        json!({"t": 900, "machine": "b", "state": "three"}),
        json!({"t": 1000, "end": "b"}),
    ];
    let trace = log(&place, &lines);
    let Some(html) = html(&place, &trace) else { return };
    assert_eq!((&html.trace["slice"], html.states.len()), (&Value::Null, 0));
    let report: Value = serde_json::from_slice(&longpole(&["report", "--json"], &trace).stdout).unwrap();
    for part in ["verdict", "criticality", "predictions", "findings"] {
        assert_eq!(html.report[part], report[part]);
    }
    let mut numbers = Numbers(html.bins.iter());
    let names: Vec<&str> = html.trace["states"].as_array().unwrap().iter().map(|state| state["name"].as_str().unwrap()).collect();
    for row in html.trace["rows"].as_array().unwrap().iter().filter(|row| row["states"] != 0) {
        assert_eq!(numbers.next(), 1, "all states are there");
        let states: Vec<(u64, u64, &str)> =
            numbers.states().into_iter().map(|(begin, end, state)| (begin, end, names[state as usize])).collect();
        match row["name"].as_str().unwrap() {
            "a</script>" => assert_eq!(&states[..2], [(0, 400, "one"), (400, 1000, "two")]),
            "b" => assert_eq!(states, [(0, 900, "wait"), (900, 1000, "three")]),
            _ => assert_eq!(row["kind"], "path"),
        }
    }
    assert_eq!(html.trace["trace"]["path"], "log.jsonl", "the file names no folder of the sender");
}

#[test]
fn of_a_large_trace_the_file_has_all_states_around_the_evidence() {
    let place = TempDir::new().unwrap();
    let Some(html) = html(&place, &log(&place, &busy(6, 300_000))) else { return };
    assert!(html.bytes <= MAX_BYTES, "{} bytes", html.bytes);
    assert!(html.bytes >= MAX_BYTES * 3 / 4, "{} bytes: the space is used", html.bytes);
    let [begin, end] = ["begin", "end"].map(|edge| html.trace["slice"][edge].as_u64().unwrap());
    let evidence = &html.report["verdict"]["evidence"];
    let [from, to] = ["start_ns", "end_ns"].map(|edge| evidence[edge].as_u64().unwrap().saturating_sub(ORIGIN));
    assert!(begin < to && from < end, "{begin} to {end} is around {from} to {to}");
    let mut numbers = Numbers(html.states.iter());
    for row in html.trace["rows"].as_array().unwrap().iter().filter(|row| row["states"] != 0) {
        let states = numbers.states();
        assert!(states.len() > 1000, "{row}");
        assert!(states[0].0 <= begin && states[states.len() - 1].1 >= end, "{row}");
        assert!(states.windows(2).all(|two| two[0].1 == two[1].0), "none is missing");
    }
}

#[test]
fn of_many_rows_the_file_has_those_that_matter_most() {
    let place = TempDir::new().unwrap();
    let Some(html) = html(&place, &log(&place, &busy(1500, 200_000))) else { return };
    assert!(html.bytes <= MAX_BYTES, "{} bytes", html.bytes);
    let rows = html.trace["rows"].as_array().unwrap();
    let with_states = rows.iter().filter(|row| row["states"] != 0).count();
    assert_eq!(html.trace["left_out"].as_u64(), Some(1501 - with_states as u64));
    assert!((100..=1000).contains(&with_states), "{with_states}");
    assert!(rows.iter().any(|row| row["kind"] == "path"));
    assert!(rows.iter().any(|row| row["name"] == "m0"), "the row at the end of the path");
}

#[test]
fn the_file_is_replaced_as_a_whole() {
    let place = TempDir::new().unwrap();
    let trace = log(&place, &busy(2, 100));
    let folder = place.path().join("out");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("report.html");
    fs::write(&file, "old").unwrap();
    let script = "umask 027; exec \"$0\" report --html \"$1\" \"$2\"";
    let output = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_longpole")]).args([&file, &trace]).output().unwrap();
    if String::from_utf8_lossy(&output.stderr).contains("built without the page") {
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        return;
    }
    assert!(output.status.success());
    assert!(fs::read_to_string(&file).unwrap().starts_with("<!doctype html>"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    let missing = place.path().join("missing/report.html");
    let output = longpole(&["report", "--html", missing.to_str().unwrap()], &trace);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("missing/report.html") && said.contains("--html"), "{said}");
}

#[test]
fn several_traces_are_refused() {
    let place = TempDir::new().unwrap();
    let trace = log(&place, &busy(2, 100));
    let file = place.path().join("report.html");
    let output = longpole(&["report", "--html", file.to_str().unwrap(), trace.to_str().unwrap()], &trace);
    assert_eq!(output.status.code(), Some(2));
    assert!(!file.exists());
}
