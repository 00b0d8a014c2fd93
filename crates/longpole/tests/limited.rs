//! The verdict on live programs without probes that have one known bottleneck: who is named, how it
//! limits the system, and what ends the run.

#[path = "support/place.rs"]
#[allow(dead_code)]
mod place;
#[path = "support/schema.rs"]
mod schema;

use place::{ok, Place};
use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// What `report` says of the program, recorded with the default groups. None: it cannot be recorded
/// here.
fn report(means: &str) -> Option<Value> {
    reports(means, &[&[]]).map(|mut reports| reports.remove(0))
}

/// The same of one recording with different options.
fn reports(means: &str, options: &[&[&str]]) -> Option<Vec<Value>> {
    // Each records the whole host: two at once would be in each other's recordings.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let possible = rustix::process::geteuid().is_root() && std::fs::read_dir("/sys/kernel/tracing/instances").is_ok();
    if !possible {
        println!("skipped: the verdict on a live program (needs root and tracefs)");
        return None;
    }
    let place = Place::new();
    let program = place.build("limited", &[]);
    let mut record = place.command(env!("CARGO_BIN_EXE_longpole"));
    // However busy the machine is.
    ok(record.args(["record", "--", "nice", "-n", "-15", &program, means]).output().unwrap());
    let of = |options: &&[&str]| {
        let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
        let output = ok(command.args(["report", "--json"]).args(*options).arg(place.newest()).output().unwrap());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        schema::check(&schema::schema("report"), &report);
        report
    };
    Some(options.iter().map(of).collect())
}

/// Outcome, subject and mechanism.
fn named(report: &Value) -> [&str; 3] {
    let verdict = &report["verdict"];
    [&verdict["outcome"], &verdict["subject"]["name"], &verdict["mechanism"]].map(|value| value.as_str().unwrap_or("none"))
}

#[test]
fn a_request_in_two_writes_waits_for_a_delayed_acknowledgement_and_one_in_one_write_does_not() {
    let Some(writes) = report("writes") else { return };
    assert_eq!(named(&writes), ["bottleneck", "limited", "delayed_ack"], "{}", writes["verdict"]["text"]);
    let whole = report("whole").unwrap();
    assert_ne!(whole["verdict"]["mechanism"], "delayed_ack", "{}", whole["verdict"]["text"]);
}

#[test]
fn processes_that_sleep_in_a_lock_are_a_convoy() {
    let Some(lock) = report("lock") else { return };
    assert_eq!(named(&lock), ["bottleneck", "limited", "lock_convoy"], "{}", lock["verdict"]["text"]);
    let convoy = lock["verdict"]["because"].as_array().unwrap().iter().find(|because| because["kind"] == "convoy").unwrap();
    assert_eq!(convoy["members"], 4, "{convoy}");
}

#[test]
fn two_sides_that_sleep_and_look_poll() {
    let Some(polls) = report("polls") else { return };
    assert_eq!(named(&polls), ["bottleneck", "limited", "polling"], "{}", polls["verdict"]["text"]);
}

#[test]
fn a_small_receive_buffer_is_the_window() {
    let Some(window) = report("window") else { return };
    assert_eq!(named(&window)[2], "window_limited", "{}", window["verdict"]["text"]);
}

#[test]
fn a_run_that_a_timer_ends_is_judged_by_its_replies() {
    let progress = ["--progress", "name ~ \"syscall_exit_*\" && ret > 0"];
    let Some(reports) = reports("timed", &[&[], &progress]) else { return };
    let [timed, progressed] = reports.try_into().unwrap();
    let verdict = &timed["verdict"];
    assert_eq!(named(&timed)[..2], ["bottleneck", "limited"], "{}", verdict["text"]);
    assert_eq!(timed["run"]["kind"], "fixed_time", "{}", timed["run"]);
    // Half of the server's sleep nearly doubles the rate of replies; it moves no end.
    assert_eq!(verdict["gain"]["of"], "rate", "{}", verdict["gain"]);
    assert!(verdict["gain"]["gain"].as_f64().unwrap() > 0.5, "{}", verdict["gain"]);
    // Named by the user, any event counts as progress.
    let run = &progressed["run"];
    assert!(run["progress"].as_str().unwrap().starts_with("name ~ \"syscall_exit_*\" && ret > 0 of limited"), "{run}");
    assert_eq!(progressed["verdict"]["gain"]["of"], "rate", "{}", progressed["verdict"]["gain"]);
}
