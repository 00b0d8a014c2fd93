//! `longpole record` and the kernel: each requested event is recorded, refused, or reported as
//! missing.

use crate::support::host::{can_trace, is_root};
use crate::support::program::copy_program;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        std::fs::create_dir(place.runtime()).unwrap();
        std::fs::set_permissions(place.runtime(), std::fs::Permissions::from_mode(0o700)).unwrap();
        place
    }

    fn runtime(&self) -> PathBuf {
        self.0.path().join("runtime")
    }

    fn record(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
        command.arg("record").args(arguments).stdin(Stdio::null());
        command.env("LONGPOLE_RUNTIME_DIR", self.runtime()).env("LONGPOLE_ROOT", self.0.path().join("traces")).output().unwrap()
    }

    fn recordings(&self) -> usize {
        std::fs::read_dir(self.0.path().join("traces")).map_or(0, Iterator::count)
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_wrong_group_event_or_context_is_wrong_usage_and_valid_ones_are_listed() {
    let place = Place::new();
    for (arguments, expected) in [
        (["--kernel", "sched,shed"], "sched, irq, softirq"),
        (["--event", "sched_switch"], "SUBSYSTEM:NAME"),
        (["--context", "pid,mood"], "pid, ppid, comm, prio"),
    ] {
        let output = place.record(&[arguments[0], arguments[1], "--for", "1ms"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(expected), "{}", said(&output));
    }
    assert_eq!(place.recordings(), 0);
}

#[test]
fn a_command_without_probes_gives_a_recording_of_the_kernel() {
    if !can_trace("the kernel's events next to a command") {
        return;
    }
    let place = Place::new();
    let output = place.record(&["--kernel", "sched", "--", "sh", "-c", "exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains(" kernel events on "), "{}", said(&output));
}

/// Looking into another network namespace needs a thread of its own and the call setns, which
/// hardly any other program makes.
#[test]
fn no_system_call_of_the_recorder_s_helper_threads_is_in_the_trace() {
    if !can_trace("the recorder's own calls") {
        return;
    }
    let Ok(mut other) = Command::new("unshare").args(["-n", "sleep", "60"]).spawn() else {
        println!("skipped: the recorder's own calls (needs `unshare`)");
        return;
    };
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    for _ in 0..1000 {
        if namespace(&other.id().to_string()) != namespace("self") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let place = Place::new();
    let output = place.record(&["--kernel", "sched,syscall", "--stacks", "none", "--", "true"]);
    let _ = other.kill();
    let _ = other.wait();
    assert!(output.status.success(), "{}", said(&output));
    let mut reader = Command::new(env!("CARGO_BIN_EXE_longpole"));
    let traces = place.0.path().join("traces");
    let output =
        reader.args(["info", "--json"]).env("LONGPOLE_RUNTIME_DIR", place.runtime()).env("LONGPOLE_ROOT", traces).output().unwrap();
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(info["names"]["syscall_entry_execve"].as_u64() >= Some(1), "{info}");
    assert_eq!(info["names"]["syscall_entry_setns"], serde_json::Value::Null);
}

#[test]
fn a_refused_filter_is_reported_with_the_kernel_s_message_and_nothing_is_recorded() {
    if !can_trace("a refused filter") {
        return;
    }
    let place = Place::new();
    let output = place.record(&["--event", "sched:sched_switch:prev_pid = 5", "--", "true"]);
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    // The kernel's error log has a caret under the wrong operator.
    assert!(said(&output).contains("Invalid operator") && said(&output).contains('^'), "{}", said(&output));
    assert_eq!(place.recordings(), 0);
}

#[test]
fn a_command_without_probes_and_kernel_events_is_reported_as_captured_nothing() {
    let place = Place::new();
    let output = place.record(&["--kernel", "none", "--", "true"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("nothing was recorded"), "{}", said(&output));
}

/// A copy of a recording whose kernel pages are not converted yet.
fn pending() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/tests/fixtures/kernel/.");
    assert!(Command::new("cp").arg("-r").arg(fixture).arg(directory.path()).status().unwrap().success());
    directory
}

fn verb(words: &[&str], recording: &std::path::Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longpole")).args(words).arg(recording).stdin(Stdio::null()).output().unwrap()
}

fn hold(recording: &std::path::Path) -> std::fs::File {
    let held = std::fs::File::open(recording.join("kernel/raw")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    held
}

#[test]
fn an_answer_without_the_kernel_events_fails_and_reports_an_uncounted_loss() {
    let recording = pending();
    let _held = hold(recording.path());
    let output = verb(&["info", "--json"], recording.path());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("are not in this answer"), "{}", said(&output));
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(info["uncounted_losses"], 1, "{info}");
}

#[test]
fn a_verb_waits_for_another_verb_that_converts() {
    let recording = pending();
    let held = hold(recording.path());
    std::fs::create_dir(recording.path().join("kernel/.converting")).unwrap();
    let mut waiting = Command::new(env!("CARGO_BIN_EXE_longpole"));
    waiting.args(["info", "--json"]).arg(recording.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut waiting = waiting.spawn().unwrap();
    let mut told = String::new();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap());
    while !told.contains("waiting for it") {
        assert!(lines.read_line(&mut told).unwrap() > 0, "it did not wait: {told}");
    }
    drop(held);
    let status = waiting.wait().unwrap();
    lines.read_to_string(&mut told).unwrap();
    assert_eq!(status.code(), Some(0), "{told}");
    assert!(!recording.path().join("kernel/raw").exists());
}

#[test]
fn damaged_pages_are_reported_by_every_later_verb() {
    let recording = pending();
    let pages = recording.path().join("kernel/raw/cpu0");
    let mut bytes = std::fs::read(&pages).unwrap();
    bytes[5 * 4096 + 5] ^= 0x40;
    std::fs::write(&pages, bytes).unwrap();
    for verb_name in ["cpu", "cpu", "sched", "info", "print"] {
        let output = verb(&[verb_name], recording.path());
        assert_eq!(output.status.code(), Some(1), "{verb_name}: {}", said(&output));
        // `info` reports it on stdout.
        let all = said(&output) + &String::from_utf8_lossy(&output.stdout);
        assert!(all.contains("1 page of the kernel was damaged"), "{verb_name}: {all}");
    }
}

#[test]
fn a_context_without_kernel_events_is_wrong_usage() {
    let place = Place::new();
    let output = place.record(&["--kernel", "none", "--context", "pid", "--", "true"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("--context"), "{}", said(&output));
}

#[test]
fn an_ordinary_user_gets_a_note_that_the_kernel_is_not_recorded_unless_it_is_turned_off() {
    if !is_root() {
        println!("skipped: what a recording of an ordinary user says (needs root)");
        return;
    }
    let place = Place::new();
    for path in [place.0.path().to_owned(), place.runtime()] {
        std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
    }
    let program = place.0.path().join("longpole");
    copy_program(env!("CARGO_BIN_EXE_longpole"), &program);
    for (words, told) in [(&["--for", "10ms"][..], true), (&["--kernel", "none", "--for", "10ms"], false)] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&program).arg("record").args(words);
        command.env("LONGPOLE_RUNTIME_DIR", place.runtime()).env("LONGPOLE_ROOT", place.0.path().join("traces"));
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(said(&output).contains("the kernel is not recorded: needs root"), told, "{}", said(&output));
    }
    let notes = std::fs::read_dir(place.0.path().join("traces")).unwrap().filter(|recording| {
        let path = recording.as_ref().unwrap().path();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::read_to_string(path.join("longpole.json")).unwrap().contains("the kernel is not recorded")
    });
    assert_eq!(notes.count(), 1);
}
