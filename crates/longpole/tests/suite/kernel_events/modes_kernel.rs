//! Snapshots and chunks of the kernel's events.

use crate::support::commanded::{description, path, snapshot, CommandedProgram, Session};
use crate::support::host::{can_sample, can_trace};
use crate::support::place::{ok, signal, wait_for, Place, Running};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Starts a session that also records scheduling.
fn start<'a>(place: &'a Place, arguments: &[&str]) -> Session<'a> {
    let mut start = place.command(env!("CARGO_BIN_EXE_longpole"));
    ok(start.args(["start", "--stacks", "none", "--kernel", "sched"]).args(arguments).output().unwrap());
    Session::of(place)
}

/// Number of events in the kernel's trace, counted by babeltrace2.
fn kernel_events(recording: &Path) -> u64 {
    let output = ok(Command::new("babeltrace2").arg(recording.join("kernel")).output().unwrap());
    String::from_utf8(output.stdout).unwrap().lines().count() as u64
}

/// Numbers of events and lost events in the kernel's streams, from `longpole info`.
fn counted(place: &Place, recording: &Path) -> (u64, u64) {
    let info = place.answer("info", recording);
    let streams = info["streams"].as_array().unwrap().iter().filter(|stream| stream["kind"] == "kernel");
    streams.fold((0, 0), |sum, stream| (sum.0 + stream["events"].as_u64().unwrap(), sum.1 + stream["lost"].as_u64().unwrap()))
}

#[test]
fn with_overwrite_the_kernels_events_stay_in_the_kernel_until_a_snapshot_takes_them() {
    if !can_trace("a flight recorder of the kernel") {
        return;
    }
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let session = start(&place, &["--mode", "overwrite"]);
    let mut commanded = CommandedProgram::start(&place, &program);
    commanded.does("beats 50 1000");
    let running = place.newest();
    let pages: u64 =
        (0..).map_while(|cpu| std::fs::metadata(running.join(format!("kernel/raw/cpu{cpu}"))).ok()).map(|found| found.len()).sum();
    assert_eq!(pages, 0, "pages on the disk before anybody asked");
    let first = snapshot(&place, &[]);
    let from = description(&first)["snapshot"]["frozen_ns"].as_u64().unwrap();
    commanded.does("beats 50 1000");
    let second = snapshot(&place, &[]);
    for made in [&first, &second] {
        let (events, lost) = counted(&place, made);
        assert_eq!((kernel_events(made), lost), (events, 0));
        // Each beat is followed by a sleep, for which the thread leaves the CPU.
        assert!(events > 50, "{events}");
        assert!(description(made)["snapshot"]["kernel"]["gap_ns"].as_u64().is_some());
    }
    // The second snapshot begins where the first one ended.
    let begun = ok(place.longpole(&["print", "--json"]).arg(second.join("kernel")).output().unwrap());
    let line = String::from_utf8(begun.stdout).unwrap();
    let earliest = line
        .lines()
        .filter(|line| line.contains("\"sched_switch\""))
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["t_ns"].as_u64().unwrap());
    assert!(earliest.min().unwrap() >= from);
    commanded.end();
    session.stop();
}

#[test]
fn after_a_snapshot_that_cannot_be_written_the_kernels_events_are_recorded_again() {
    if !can_trace("a flight recorder of the kernel whose snapshot fails") {
        return;
    }
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let session = start(&place, &["--mode", "overwrite"]);
    let mut commanded = CommandedProgram::start(&place, &program);
    let no_folder = place.path("file");
    std::fs::write(&no_folder, "").unwrap();
    let refused = place.longpole(&["snapshot", "-o"]).arg(&no_folder).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
    commanded.does("beats 50 1000");
    let (events, _) = counted(&place, &snapshot(&place, &[]));
    assert!(events > 50, "{events}");
    commanded.end();
    session.stop();
}

/// Checks that no page of the recording is damaged, no event was lost, and babeltrace2 counts the
/// same number of events.
fn is_whole(place: &Place, recording: &Path) {
    assert_eq!(counted(place, recording).1, 0, "{}", recording.display());
    is_readable(place, recording);
}

/// Checks that no page of the recording is damaged, and babeltrace2 counts the same number of
/// events.
fn is_readable(place: &Place, recording: &Path) {
    // The first reader converts the pages.
    let (events, _) = counted(place, recording);
    assert_eq!(kernel_events(recording), events, "{}", recording.display());
    assert!(!recording.join("kernel/raw").exists() && !recording.join("kernel/damaged").exists());
    assert_eq!(place.answer("info", recording)["uncounted_losses"], 0, "{}", recording.display());
}

#[test]
fn a_snapshot_with_overwrite_reaches_back_beyond_the_current_chunk() {
    if !can_trace("a flight recorder of the kernel with a limit") {
        return;
    }
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let session = start(&place, &["--mode", "overwrite", "--max-age", "400ms"]);
    let first = place.newest();
    let begun = description(&first)["start_ns"].as_u64().unwrap();
    let mut commanded = CommandedProgram::start(&place, &program);
    commanded.does("beats 150 10000");
    // The program's last events go to the disk when it ends, so a new chunk begins.
    commanded.end();
    wait_for(|| !first.exists());
    let made = snapshot(&place, &["-o", place.path("elsewhere").to_str().unwrap()]);
    is_whole(&place, &made);
    let printed = ok(place.longpole(&["print", "--json"]).arg(made.join("kernel")).output().unwrap()).stdout;
    let printed = String::from_utf8(printed).unwrap();
    let earliest = printed.lines().find(|line| line.contains("\"sched_switch\"")).unwrap();
    let earliest = serde_json::from_str::<serde_json::Value>(earliest).unwrap()["t_ns"].as_u64().unwrap();
    assert!(earliest < begun + 1_000_000_000, "{} ns of it are missing", earliest - begun);
    session.stop();
}

#[test]
fn each_chunk_of_a_killed_recorder_counts_its_own_events() {
    if !can_trace("chunks of a killed recorder") {
        return;
    }
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let mut record = place.command(env!("CARGO_BIN_EXE_longpole"));
    record.args(["record", "--stacks", "none", "--kernel", "sched", "--max-age", "4s"]);
    let recorder = Running::start(record.stdout(Stdio::null()).stderr(Stdio::null()));
    let mut commanded = CommandedProgram::start(&place, &program);
    commanded.does("beats 100 1000");
    wait_for(|| place.recordings().get(1).is_some_and(|second| second.join("longpole.json").exists()));
    signal(&recorder, "-KILL");
    drop(recorder);
    commanded.end();
    // What the recorder had taken from the kernel when it was killed may be lost, and is counted.
    let chunks = place.recordings();
    let (last, before) = chunks.split_last().unwrap();
    before.iter().for_each(|chunk| is_whole(&place, chunk));
    is_readable(&place, last);
}

#[test]
fn chunks_of_the_kernels_events_follow_each_other_without_a_gap() {
    if !can_trace("chunks of the kernel's events") {
        return;
    }
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let session = start(&place, &["--max-age", "8s"]);
    let mut commanded = CommandedProgram::start(&place, &program);
    while place.recordings().len() < 2 {
        commanded.does("beats 20 1000");
        std::thread::sleep(Duration::from_millis(20));
    }
    let whole = snapshot(&place, &["-o", place.path("elsewhere").to_str().unwrap()]);
    // Reading a chunk converts its pages, so a snapshot can no longer contain them. The pages of
    // the other chunks still exist.
    place.answer("info", &place.recordings()[0]);
    let partial = snapshot(&place, &["-o", place.path("elsewhere").to_str().unwrap()]);
    commanded.end();
    session.stop();
    is_whole(&place, &whole);
    assert!(counted(&place, &partial).0 > 0);
    assert!(description(&partial)["diagnostics"].to_string().contains("its pages are gone, or were converted"));
    let mut beats = 0;
    for chunk in place.recordings() {
        is_whole(&place, &chunk);
        beats += place.answer("info", &chunk)["names"]["mark:beat"].as_u64().unwrap_or(0);
    }
    assert!(beats >= 40 && beats % 20 == 0, "{beats}");
}

#[test]
fn stacks_with_overwrite_stay_within_the_size_limit() {
    if !can_trace("stacks of a flight recorder") || !can_sample("stacks of a flight recorder") {
        return;
    }
    let place = Place::new();
    let mut start = place.command(env!("CARGO_BIN_EXE_longpole"));
    let session = start.args(["start", "--mode", "overwrite", "--stacks", "4999", "--kernel", "none", "--max-size", "4MiB"]);
    let first = path(&ok(session.output().unwrap()));
    let session = Session::of(&place);
    let busy = [(); 2].map(|()| Running::start(place.command("sh").args(["-c", "while :; do :; done"])));
    // The oldest chunk is removed when there is too much data.
    wait_for(|| !first.exists());
    let elsewhere = place.path("snapshots");
    std::fs::create_dir(&elsewhere).unwrap();
    let made = snapshot(&place, &["-o", elsewhere.to_str().unwrap()]);
    assert!(made.join("samples/metadata").exists());
    drop(busy);
    let newest = session.stop();
    let samples = |chunk: &std::path::PathBuf| std::fs::read_dir(chunk.join("samples")).into_iter().flatten().flatten();
    let bytes: u64 = place.recordings().iter().flat_map(samples).map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes < 5 << 20, "{bytes}");
    assert!(description(&newest)["chunk"]["removed"]["chunks"].as_u64().unwrap() >= 1);
}

#[test]
fn overwrite_with_stacks_has_a_default_size_limit() {
    if !can_sample("the limit of a flight recorder's stacks") {
        return;
    }
    let place = Place::new();
    let mut limits = Vec::new();
    for stacks in ["99", "none"] {
        let session = Session::start(&place, &["--mode", "overwrite", "--stacks", stacks]);
        limits.push(description(&place.newest())["chunk"]["max_size"].clone());
        // Nothing was recorded, so stopping the session would fail; it is dropped.
        drop(session);
    }
    assert_eq!(limits, [serde_json::json!(256 << 20), serde_json::Value::Null]);
}
