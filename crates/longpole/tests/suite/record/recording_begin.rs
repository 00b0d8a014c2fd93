//! How a recording begins: what `longpole record` announces, which wrong requests it refuses before
//! a command runs, its limit, and the tracer of a host without a mounted tracefs.

use crate::support::host::can_trace;
use crate::support::place::{ok, signal, wait_for, Place, Running};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const LIMIT: u64 = 10 << 30;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// `longpole record` without the options that [`Place::longpole`] adds.
fn record(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    command.arg("record").args(arguments);
    command
}

/// A shell that runs `script` and then replaces itself with `longpole record ARGUMENTS`.
fn record_after(place: &Place, script: &str, arguments: &[&str]) -> Command {
    let mut command = place.command("sh");
    command.args(["-c", &format!("{script}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_longpole"), "record"]).args(arguments);
    command
}

/// Limit of size in the description of a recording; `None` if it has no limit.
fn limit_of(recording: &Path) -> Option<u64> {
    let text = std::fs::read(recording.join("longpole.json")).unwrap();
    serde_json::from_slice::<serde_json::Value>(&text).unwrap()["chunk"]["max_size"].as_u64()
}

#[test]
fn a_recording_announces_at_once_what_it_records_where_to_and_how_it_ends() {
    let place = Place::new();
    let mut recorder = Running::start(place.longpole(&["record"]).stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut lines = BufReader::new(recorder.stderr.take().unwrap()).lines().map(Result::unwrap);
    let (what, how) = (lines.next().unwrap(), lines.next().unwrap());
    assert_eq!(what, "longpole: recording all programs with probes");
    let begin = format!("longpole: writing to {} until Ctrl-C (kill -INT {}); limit 10.0 GiB", place.newest().display(), recorder.id());
    assert!(how.starts_with(&begin) && how.contains("--max-size"), "{how}");
    assert!(recorder.try_wait().unwrap().is_none(), "the recording continues after it was announced");
    signal(&recorder, "-INT");
    recorder.wait().unwrap();
}

#[test]
fn the_announcement_comes_before_the_command_and_names_every_end() {
    let place = Place::new();
    let output = place.longpole(&["record", "--for", "20s", "--", "sh", "-c", "echo the command >&2; exit 7"]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    let text = said(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "longpole: recording the programs with probes that sh starts");
    assert!(lines[1].contains(" until sh ends, or 20s have passed, or Ctrl-C (kill -INT "), "{text}");
    assert!(!lines[1].contains("limit"), "{text}");
    assert_eq!(lines[2], "the command", "{text}");
}

#[test]
fn the_announcement_names_the_kernel_only_if_it_is_recorded() {
    if !can_trace("the announcement of the kernel's events") {
        return;
    }
    let place = Place::new();
    let output = ok(record(&place, &["--kernel", "sched", "--stacks", "none", "--", "true"]).output().unwrap());
    assert!(said(&output).lines().next().unwrap().ends_with("; of the whole host: the kernel's events"), "{}", said(&output));
}

#[test]
fn a_command_needs_no_dashes_before_it_and_gets_all_words_after_its_name() {
    let place = Place::new();
    for arguments in [
        &["sh", "-c", "exit 7"][..],
        &["--", "sh", "-c", "exit 7"],
        &["--for", "20s", "sh", "-c", "test \"$*\" = '--for 1 -- --help' && exit 7", "sh", "--for", "1", "--", "--help"],
    ] {
        let output = place.longpole(&["record"]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{arguments:?}: {}", said(&output));
    }
    let wrong = place.longpole(&["record", "--no-such-option", "true"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "an unknown option is no command: {}", said(&wrong));
}

#[test]
fn a_time_or_size_without_a_unit_is_wrong_usage_and_the_units_are_listed() {
    let place = Place::new();
    for verb in ["record", "start"] {
        for (option, value, unit) in [("--for", "10", "ms, s, min"), ("--for", "0.5", "ms, s, min"), ("--max-size", "10", "MiB, GiB")] {
            let output = place.longpole(&[verb, option, value]).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{verb} {option} {value}: {}", said(&output));
            assert!(said(&output).contains("has no unit") && said(&output).contains(unit), "{}", said(&output));
        }
    }
    assert!(place.recordings().is_empty());
}

#[test]
fn an_event_that_this_kernel_does_not_have_is_refused_before_the_command_starts() {
    if !can_trace("an unknown event") {
        return;
    }
    let place = Place::new();
    let trace = place.path("started");
    for (event, hint) in [
        ("sched:sched_swich", "did you mean sched:sched_switch?"),
        ("no_such_system:event", "available_events"),
        ("no_such_system:*", "available_events"),
    ] {
        let output = record(&place, &["--event", event, "--", "touch"]).arg(&trace).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{event}: {}", said(&output));
        assert!(said(&output).contains(&format!("--event {event}: this kernel has no such event")), "{}", said(&output));
        assert!(said(&output).contains(hint), "{}", said(&output));
        let output = place.command(env!("CARGO_BIN_EXE_longpole")).args(["start", "--event", event]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "start, {event}: {}", said(&output));
    }
    assert!(!trace.exists(), "the command ran");
    assert!(place.recordings().is_empty());
}

#[test]
fn a_pid_that_is_no_process_is_refused_before_the_command_starts() {
    let place = Place::new();
    let trace = place.path("started");
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    for (arguments, status) in [(&[][..], 1), (&["--", "touch", trace.to_str().unwrap()], 125)] {
        let output = place.longpole(&["record", "--pid", &ended.id().to_string()]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", said(&output));
        assert!(said(&output).contains(&format!("there is no process {}", ended.id())), "{}", said(&output));
    }
    // Another thread than the main one, which lives until its channel is closed.
    let (tids, told) = std::sync::mpsc::channel();
    let (keep, kept) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tids.send(rustix::thread::gettid().as_raw_pid()).unwrap();
        kept.recv().unwrap_err();
    });
    let (this, tid) = (std::process::id(), told.recv().unwrap());
    let output = place.longpole(&["record", "--pid", &tid.to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains(&format!("is a thread of process {this}")), "{}", said(&output));
    drop(keep);
    thread.join().unwrap();
    assert!(!trace.exists(), "the command ran");
    assert!(place.recordings().is_empty());
}

#[test]
fn sigint_ends_a_recording_that_inherited_it_as_ignored() {
    let place = Place::new();
    let mut command = record_after(&place, "trap '' INT", &["--kernel", "none", "--stacks", "none"]);
    let mut recorder = Running::start(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut lines = BufReader::new(recorder.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("writing to") {
        assert!(lines.read_line(&mut text).unwrap() > 0, "it did not begin: {text}");
    }
    signal(&recorder, "-INT");
    wait_for(|| recorder.try_wait().unwrap().is_some());
    lines.read_to_string(&mut text).unwrap();
    assert!(text.contains("longpole: recording: "), "{text}");
}

#[test]
fn a_command_finds_sigint_as_it_was_before_the_recorder() {
    let place = Place::new();
    let show = ["--kernel", "none", "--stacks", "none", "--", "grep", "SigIgn", "/proc/self/status"];
    for (script, expected) in [("trap '' INT", 1), ("trap - INT", 0)] {
        let output = record_after(&place, script, &show).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mask = u64::from_str_radix(text.trim().trim_start_matches("SigIgn:").trim(), 16).unwrap();
        assert_eq!(mask >> (libc::SIGINT - 1) & 1, expected, "{script}: {text}");
    }
}

#[test]
fn only_a_recording_of_everything_without_an_end_gets_a_limit() {
    let place = Place::new();
    let config = place.path("policies.toml");
    std::fs::write(&config, "max_age = \"1h\"\n").unwrap();
    for (arguments, expected) in [
        (&[][..], Some(LIMIT)),
        (&["--max-size", "1GiB"], Some(1 << 30)),
        (&["--max-age", "1h"], None),
        (&["--config", config.to_str().unwrap()], None),
        (&["--mode", "overwrite"], None),
        (&["--for", "1h"], None),
    ] {
        let mut recorder = place.recorder(arguments);
        assert_eq!(limit_of(&place.newest()), expected, "{arguments:?}");
        signal(&recorder, "-INT");
        recorder.wait().unwrap();
    }
    ok(place.longpole(&["start"]).output().unwrap());
    assert_eq!(limit_of(&place.newest()), Some(LIMIT));
    place.longpole(&["stop"]).output().unwrap();
}

/// True if a process can get a mount namespace in which tracefs is not mounted.
fn can_hide_tracefs() -> bool {
    let possible = can_trace("a host without a mounted tracefs") && Command::new("setpriv").arg("-V").output().is_ok();
    possible && Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|ran| ran.success())
}

const HIDE: &str = "umount -l /sys/kernel/tracing; umount -l /sys/kernel/debug 2>/dev/null";

/// `longpole record ARGUMENTS` in a mount namespace without tracefs. `prefix` is the command that
/// executes it. Afterwards it prints the number of mounted tracefs.
fn hidden(place: &Place, prefix: &str, arguments: &[&str]) -> Output {
    let script = format!("{HIDE}; {prefix} \"$@\"; code=$?; grep -c ' tracefs ' /proc/self/mounts; exit $code");
    let mut command = place.command("unshare");
    command.args(["-m", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_longpole"), "record"]).args(arguments);
    command.output().unwrap()
}

#[test]
fn root_records_the_kernel_also_where_tracefs_is_not_mounted_and_leaves_no_mount() {
    if !can_hide_tracefs() {
        return;
    }
    let place = Place::new();
    let output = hidden(&place, "", &["--kernel", "sched,syscall", "--stacks", "none", "--", "sh", "-c", "exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains(" kernel events on ") && !said(&output).contains("note:"), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0", "a tracefs is mounted afterwards");
    let recording = place.newest();
    let info = place.answer("info", &recording);
    assert!(info["names"]["sched_switch"].as_u64() > Some(0), "{info}");
    let told: serde_json::Value = serde_json::from_slice(&std::fs::read(recording.join("longpole.json")).unwrap()).unwrap();
    let instance = told["kernel_events"]["instance"].as_str().unwrap_or_default().to_owned();
    assert!(instance.is_empty() || !Path::new("/sys/kernel/tracing/instances").join(&instance).exists(), "{instance} is left");
}

#[test]
fn where_the_mount_of_tracefs_is_refused_one_line_names_the_remedy_and_the_rest_is_recorded() {
    if !can_hide_tracefs() {
        return;
    }
    let place = Place::new();
    let without = "setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin";
    let output = hidden(&place, without, &["--stacks", "none", "--", "sh", "-c", "exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let text = said(&output);
    let notes: Vec<&str> = text.lines().filter(|line| line.contains("tracefs")).collect();
    assert_eq!(notes.len(), 1, "{text}");
    assert!(notes[0].contains("the kernel refuses to mount it") && notes[0].contains("mount -t tracefs"), "{text}");
    assert!(text.contains("longpole: recording: "), "{text}");
}
