//! Recording the kernel's events with a whole recorder, as root: however it ends, the tracer's
//! instance is removed and the pages remain.

use crate::support;
use crate::support::kernel::{Recorder, TRACEFS};
use crate::support::{live, Place};
use longpole_record::kernel::{reap, RAW};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Lock of the tests of this file. Each recorder removes what dead ones left, also that of another
/// test.
static ALONE: Mutex<()> = Mutex::new(());

fn work() {
    for _ in 0..20 {
        Command::new("true").status().unwrap();
    }
}

fn description(recording: &Path) -> Value {
    serde_json::from_slice(&fs::read(recording.join(RAW).join("source.json")).unwrap_or_default()).unwrap_or_default()
}

#[test]
fn after_an_interrupt_the_instance_is_gone_and_the_description_holds_the_counts() {
    if !live("a recorder that is interrupted") {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let recorder = Recorder::start(&place, &[]);
    let (path, instance) = (recorder.path.clone(), recorder.instances());
    assert_eq!(instance.len(), 1);
    work();
    let said = recorder.interrupt();
    assert!(!Path::new(TRACEFS).join("instances").join(&instance[0]).exists());
    let told: Value = serde_json::from_slice(&fs::read(path.join("longpole.json")).unwrap()).unwrap();
    assert_eq!(told["sources"], serde_json::json!(["user", "kernel"]), "{said}");
    assert!(told["kernel_events"]["events"].as_u64().unwrap() > 1000, "{told}");
    assert!(said.lines().next().unwrap().ends_with(" -"), "a recording with kernel events is not empty: {said}");
}

#[test]
fn pages_that_a_killed_recorder_left_in_the_tracer_are_saved_and_its_instance_is_removed() {
    if !live("a recorder that is killed") {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let mut recorder = Recorder::start(&place, &[]);
    let (path, instance) = (recorder.path.clone(), recorder.instances().remove(0));
    work();
    assert!(reap::is_going_on(&path));
    recorder.child.kill().unwrap();
    recorder.child.wait().unwrap();
    assert!(!reap::is_going_on(&path));
    // No recorder takes these events.
    work();
    let before: u64 = pages(&path);
    reap::all();
    // Another recorder on this host may have been faster.
    support::until(|| description(&path)["cpus"].is_array());
    assert!(!Path::new(TRACEFS).join("instances").join(&instance).exists());
    assert!(pages(&path) > before, "{} {before}", pages(&path));
    assert_eq!(description(&path)["killed"], true);
    let told = description(&path);
    let read: u64 = told["cpus"].as_array().unwrap().iter().map(|cpu| cpu["read"].as_u64().unwrap()).sum();
    assert!(read > 100, "{told}");
}

fn pages(recording: &Path) -> u64 {
    let entries = fs::read_dir(recording.join(RAW)).unwrap().map(|entry| entry.unwrap());
    let lanes = entries.filter(|entry| entry.file_name().to_str().unwrap().starts_with("cpu"));
    lanes.map(|entry| entry.metadata().unwrap().len()).sum()
}

#[test]
fn if_tracefs_cannot_be_mounted_the_rest_is_recorded_and_a_message_names_the_remedy() {
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let without = "umount -l /sys/kernel/tracing 2>/dev/null; umount -l /sys/kernel/debug 2>/dev/null; \
                   exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin \"$@\"";
    let possible = root && Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !possible {
        println!("skipped: a machine without tracefs (needs root and unshare)");
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let recorder = Recorder::start(&place, &["unshare", "-m", "sh", "-c", without, "sh"]);
    let path = recorder.path.clone();
    let said = recorder.interrupt();
    assert!(said.contains("no kernel events are recorded") && said.contains("mount -t tracefs"), "{said}");
    assert!(path.join("user/metadata").exists() && !path.join(RAW).exists());
}
