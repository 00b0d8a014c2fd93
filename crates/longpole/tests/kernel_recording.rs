//! `longpole record` and the kernel: what is asked for is recorded, refused, or said to be missing.

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

fn live(what: &str) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status.lines().any(|line| line.starts_with("Uid:\t0\t0\t"));
    let possible = root && std::fs::read_dir("/sys/kernel/tracing/instances").is_ok();
    if !possible {
        println!("skipped: {what} (needs root and tracefs)");
    }
    possible
}

#[test]
fn a_wrong_group_event_or_context_is_wrong_usage_and_the_right_ones_are_told() {
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
fn a_command_without_probes_leaves_a_recording_of_the_kernel() {
    if !live("the kernel's events beside a command") {
        return;
    }
    let place = Place::new();
    let output = place.record(&["--kernel", "sched", "--event", "no_such:event", "--", "sh", "-c", "exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains(" kernel events on "), "{}", said(&output));
    assert!(said(&output).contains("this kernel has no event no_such:event"), "{}", said(&output));
}

#[test]
fn a_refused_filter_is_told_in_the_kernel_s_own_words_and_nothing_is_recorded() {
    if !live("a refused filter") {
        return;
    }
    let place = Place::new();
    let output = place.record(&["--event", "sched:sched_switch:prev_pid = 5", "--", "true"]);
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    // The caret of its error log stands under the place.
    assert!(said(&output).contains("Invalid operator") && said(&output).contains('^'), "{}", said(&output));
    assert_eq!(place.recordings(), 0);
}

#[test]
fn without_the_kernel_a_command_without_probes_captured_nothing() {
    let place = Place::new();
    let output = place.record(&["--kernel", "none", "--", "true"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("captured nothing"), "{}", said(&output));
}
