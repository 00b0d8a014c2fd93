//! Unexpected labels and names of threads and probes: paths, NUL, control characters, bytes that
//! are not UTF-8, ten thousand letters.
//!
//! Such names are data. No file outside of the recording is created from them, every reader reads
//! the trace, and no output contains control characters that a terminal would obey.

use crate::support::place::{ok, Place};
use crate::support::tried::{left_behind, Held};
use std::path::Path;
use std::process::Command;

fn names_below(folder: &Path, all: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        all.push(entry.file_name().into_string().expect("a name in UTF-8"));
        if entry.path().is_dir() {
            names_below(&entry.path(), all);
        }
    }
}

#[test]
fn unexpected_names_are_data_and_create_no_file() {
    let place = Place::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/unusual_names.cc");
    // The program's own name is also unexpected.
    let (own, program) = (place.path("own"), place.path("own").join("-x\n\u{1b}[31m\u{202e}"));
    std::fs::create_dir(&own).unwrap();
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-O2", "-pthread", "-I"]).arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include"));
    ok(compiler.arg(source).arg("-o").arg(&program).output().unwrap());
    let mut record = place.longpole(&["record", "--buffer", "1MiB", "--"]);
    let run = record.arg(&program).current_dir(&own).env("HOME", &own).env("TMPDIR", &own).output().unwrap();
    let faults = u64::from(!run.status.success());
    let tried: u64 = String::from_utf8(run.stdout).unwrap().trim().parse().unwrap();
    let recording = place.newest();
    let held = Held::read(&recording);
    // Nothing was written next to the program.
    let context = std::fs::read_dir(&own).unwrap().map(Result::unwrap).filter(|entry| entry.path() != program);
    let outside: u64 = context.map(|entry| entry.metadata().unwrap().len().max(1)).sum();
    let (recorded, lost, torn) = (held.recorded(), held.lost, held.torn());
    println!(
        "figures: names that nobody expects: {tried} events tried, {recorded} recorded, {lost} lost, {torn} torn, {faults} faults, {outside} bytes outside"
    );
    assert_eq!((recorded, lost, torn, faults, outside), (tried, 0, 0, 0, 0));

    // Every file has a name that can be typed.
    assert!(left_behind(&place).is_empty());
    let mut names = Vec::new();
    names_below(&place.path("traces"), &mut names);
    let plain = |name: &String| {
        !name.starts_with(['-', '.']) && name.len() < 128 && name.chars().all(|c| !c.is_control() && !c.is_whitespace() && c != '\u{202e}')
    };
    assert!(names.iter().all(plain), "{names:?}");

    // Each line of output is plain text, or one JSON value.
    for (verb, more) in
        [("info", None), ("print", None), ("queues", None), ("path", None), ("report", None), ("graph", None), ("print", Some("--json"))]
    {
        let mut answer = place.longpole(&[verb]);
        let output = ok(answer.args(more).arg(&recording).output().unwrap());
        let text = String::from_utf8(output.stdout).unwrap_or_else(|error| panic!("{verb}: {error}"));
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{verb}: {text:?}");
        if verb == "print" {
            assert_eq!(text.lines().count() as u64, tried, "{verb} {more:?}");
        }
        if more.is_some() {
            for line in text.lines() {
                serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            }
        }
    }
}
