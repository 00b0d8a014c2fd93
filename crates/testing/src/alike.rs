//! Checks that babeltrace2 reads a recording as `longpole info` does: the same number of events and
//! of lost events, in the traces of programs, of the kernel and of call stacks.
//!
//! The `Place` of a test makes this check at its end for all recordings that are left in it, so no
//! test needs to call it. A test whose recordings are damaged on purpose turns the check off.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of streams that babeltrace2 merges at once. It looks at all of its streams for each
/// event, so it would take hours for a trace of thousands of streams.
const MERGED: usize = 32;
/// Number of events in a trace above which only the presence of lost events is compared.
/// babeltrace2 reports their number only if it prints every event, at half a million events per
/// second.
const PRINTED: u64 = 2_000_000;

/// Number of events and number of lost events.
pub type Counts = (u64, u64);

/// Asserts that babeltrace2 and `longpole info` count the same in one recording. Returns `None` if
/// babeltrace2 is not installed.
pub fn hold(longpole: &Path, recording: &Path) -> Option<()> {
    let output = Command::new(longpole).args(["info", "--json"]).arg(recording).output().unwrap();
    assert!(output.status.success(), "{}: {}", recording.display(), String::from_utf8_lossy(&output.stderr));
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (kind, folder) in [("user", "user"), ("kernel", "kernel"), ("samples", "samples")] {
        let trace = recording.join(folder);
        if !trace.join("metadata").exists() {
            continue;
        }
        let of = |key: &str| {
            let streams = info["streams"].as_array().unwrap().iter().filter(|stream| stream["kind"] == kind);
            streams.map(|stream| stream[key].as_u64().unwrap()).sum::<u64>()
        };
        let ours = (of("events"), of("lost"));
        let theirs = counted(&trace, ours)?;
        assert_eq!(ours, theirs, "events and lost events of {}: we, and babeltrace2", trace.display());
    }
    Some(())
}

/// The counts of babeltrace2 for a trace in which `longpole info` counted `told`; `None` if
/// babeltrace2 is not installed.
fn counted(trace: &Path, told: Counts) -> Option<Counts> {
    let entries = std::fs::read_dir(trace).unwrap().map(|entry| entry.unwrap().path());
    let is_stream =
        |path: &PathBuf| path.is_file() && !path.file_name().unwrap().to_string_lossy().starts_with(['.']) && !path.ends_with("metadata");
    let streams: Vec<PathBuf> = entries.filter(is_stream).collect();
    if streams.len() <= MERGED {
        return of_part(trace, told);
    }
    let mut sum = (0, 0);
    for some in streams.chunks(MERGED) {
        let part = tempfile::tempdir().unwrap();
        for path in some.iter().chain([&trace.join("metadata")]) {
            std::os::unix::fs::symlink(path.canonicalize().unwrap(), part.path().join(path.file_name().unwrap())).unwrap();
        }
        let (events, lost) = of_part(part.path(), told)?;
        // Above `PRINTED`, `of_part` returns the lost events of the whole trace for each part with
        // a loss, so the maximum is the result and not the sum.
        let lost = if told.0 > PRINTED { lost.max(sum.1) } else { sum.1 + lost };
        sum = (sum.0 + events, lost);
    }
    Some(sum)
}

fn of_part(trace: &Path, told: Counts) -> Option<Counts> {
    if told.1 > 0 && told.0 <= PRINTED {
        return printed(trace);
    }
    let run = Command::new("babeltrace2").arg(trace).args(["-c", "sink.utils.counter"]).output().ok()?;
    assert!(run.status.success(), "{}: {}", trace.display(), String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let number = |what: &str| {
        let line = text.lines().rev().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{text}"));
        line.trim().split(' ').next().unwrap().replace(',', "").parse::<u64>().unwrap()
    };
    let (events, losses) = (number(" Event message"), number(" Discarded event message"));
    // The counter sink counts the places at which events were lost, not the lost events.
    Some((events, if told.1 > 0 && losses > 0 { told.1 } else { losses }))
}

/// The counts from what babeltrace2 prints: a line on stdout per event, a warning on stderr per
/// loss. `None` if babeltrace2 is not installed.
fn printed(trace: &Path) -> Option<Counts> {
    let run = Command::new("babeltrace2").arg(trace).output().ok()?;
    let talk = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}: {talk}", trace.display());
    let lost = |line: &str| {
        let (_, rest) = line.split_once("Tracer discarded ").or_else(|| line.split_once("Tracer may have discarded "))?;
        rest.split(' ').next()?.parse::<u64>().ok()
    };
    Some((run.stdout.iter().filter(|byte| **byte == b'\n').count() as u64, talk.lines().filter_map(lost).sum()))
}

/// Checks all recordings in a folder.
pub fn check_all_with_babeltrace2(longpole: &Path, recordings: &Path) {
    for entry in std::fs::read_dir(recordings).into_iter().flatten().flatten() {
        if entry.path().join("longpole.json").is_file() && hold(longpole, &entry.path()).is_none() {
            println!("skipped: comparing recordings with babeltrace2 (it is not installed)");
            return;
        }
    }
}
