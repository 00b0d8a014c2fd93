//! A full ring in the modes discard, overwrite and block, and snapshots of a running recording.
//!
//! In each test the number of events tried equals the number recorded plus the number lost, as
//! babeltrace2 counts them, which is independent of this recorder.

use crate::support::commanded::{counted, description, numbers, snapshot, CommandedProgram, Session};
use crate::support::place;
use crate::support::place::{ok, wait_for, Place};
use serde_json::Value;
use std::path::Path;

/// Checks that each tried event is recorded or lost and that the recorded events are the newest
/// ones. Returns the number of recorded events.
fn is_the_newest_of(recording: &Path, tried: u64) -> u64 {
    let (recorded, lost) = counted(recording, "mark:numbered");
    assert_eq!(recorded + lost, tried, "{recorded} recorded, {lost} lost");
    let numbers = numbers(recording);
    assert_eq!(numbers, (tried - recorded..tried).collect::<Vec<u64>>());
    assert_eq!(description(recording)["loss"]["events"], lost);
    recorded
}

#[test]
fn overwriting_keeps_the_newest_events_and_counts_the_others_and_a_snapshot_changes_nothing() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let session = Session::start(&place, &["--mode", "overwrite", "--buffer", "64KiB"]);
    let mut commanded = CommandedProgram::start(&place, &program);
    let few = commanded.does("marks 10");
    let first = snapshot(&place, &[]);
    assert_eq!(is_the_newest_of(&first, few), 10);
    let many = commanded.does("marks 100000");
    let second = snapshot(&place, &[]);
    let third = snapshot(&place, &[]);
    let kept = is_the_newest_of(&second, many);
    assert!((2500..=4096).contains(&kept), "{kept} events of 16 bytes in three to four parts of 16 KiB");
    assert_eq!(is_the_newest_of(&third, many), kept, "the first took nothing away");
    // Nothing was written to the disk meanwhile.
    let status = ok(place.longpole(&["status", "--json"]).output().unwrap());
    assert_eq!(serde_json::from_slice::<Value>(&status.stdout).unwrap()["recording"]["recorded_bytes"], 0);
    let more = commanded.does("marks 5");
    commanded.end();
    let whole = session.stop();
    assert!(is_the_newest_of(&whole, more) > 0);
    for recording in [&first, &second, &whole] {
        let info = place.answer("info", recording);
        let (recorded, lost) = counted(recording, "mark:numbered");
        assert_eq!((info["events"].as_u64(), info["lost"].as_u64()), (Some(recorded), Some(lost)));
    }
    // The description contains the size of the ring that was too small, for the advice to use a
    // larger one.
    let description: Value = serde_json::from_slice(&std::fs::read(whole.join("longpole.json")).unwrap()).unwrap();
    assert!(description["lanes"].as_array().unwrap().iter().any(|lane| lane["lost_ring_bytes"] == 64 << 10), "{description}");
}

#[test]
fn events_of_threads_and_programs_that_have_ended_are_in_a_snapshot() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let session = Session::start(&place, &["--mode", "overwrite"]);
    let mut commanded = CommandedProgram::start(&place, &program);
    commanded.does("marks 3");
    commanded.does("thread 3");
    let tried = commanded.does("thread 3");
    commanded.end();
    let recording = place.newest();
    // The recorder soon notices that the program has ended.
    wait_for(|| std::fs::read_dir(place.path("runtime")).unwrap().count() == 2);
    assert_eq!(is_the_newest_of(&snapshot(&place, &[]), tried), tried);
    assert_eq!(session.stop(), recording);
    assert_eq!(is_the_newest_of(&recording, tried), tried);
}

#[test]
fn a_snapshot_of_a_discarding_recording_contains_the_events_recorded_until_then() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let session = Session::start(&place, &[]);
    let mut commanded = CommandedProgram::start(&place, &program);
    let tried = commanded.does("marks 1000");
    let made = snapshot(&place, &[]);
    assert_eq!(counted(&made, "mark:numbered"), (tried, 0));
    std::thread::sleep(std::time::Duration::from_millis(700));
    commanded.does("marks 7");
    let late = snapshot(&place, &["--pre", "300ms", "-o", place.path("elsewhere").to_str().unwrap()]);
    assert!(late.starts_with(place.path("elsewhere")));
    assert_eq!(numbers(&late), (tried..tried + 7).collect::<Vec<u64>>());
    assert_eq!(counted(&session.stop(), "mark:numbered"), (tried + 7, 0));
}

#[test]
fn a_thread_that_may_block_loses_nothing_while_the_recorder_takes_its_events() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    // The ring is small, and the recorder must read it more often than usual.
    let session = Session::start(&place, &["--mode", "block", "--buffer", "32KiB"]);
    let mut commanded = CommandedProgram::start(&place, &program);
    let tried = commanded.does("marks 100000");
    commanded.end();
    assert_eq!(is_the_newest_of(&session.stop(), tried), tried);
}

#[test]
fn a_thread_waits_no_longer_than_the_limit_and_only_once_for_a_stopped_recorder() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let config = place.path("block.toml");
    std::fs::write(&config, "mode = \"block\"\nblock_limit = \"5ms\"\n[[policy]]\nbuffer = \"32KiB\"\n").unwrap();
    let mut recorder = place.recorder(&["-c", config.to_str().unwrap()]);
    let mut commanded = CommandedProgram::start(&place, &program);
    commanded.does("marks 1");
    wait_for(|| description(&place.newest())["lanes"].as_array().is_some_and(|lanes| !lanes.is_empty()));
    place::signal(&recorder, "-STOP");
    // If the thread waited at each event, this would take 25 minutes.
    let tried = commanded.does("marks 300000");
    let waited = waited(&place);
    place::signal(&recorder, "-CONT");
    assert!(waited >= 5_000_000, "{waited} ns of 5 ms");
    commanded.end();
    place::signal(&recorder, "-INT");
    assert!(recorder.wait().unwrap().success());
    let (recorded, lost) = counted(&place.newest(), "mark:numbered");
    assert!(lost > 0);
    assert_eq!(recorded + lost, tried);
}

/// Time in ns for which threads have waited for room, from the counters in their rings.
fn waited(place: &Place) -> u64 {
    let rings = std::fs::read_dir(place.path("runtime")).unwrap().map(|entry| entry.unwrap().path());
    let rings = rings.filter(|path| path.extension().is_some_and(|extension| extension == "ring"));
    rings.map(|path| u64::from_ne_bytes(std::fs::read(path).unwrap()[224..232].try_into().unwrap())).sum()
}

#[test]
fn a_new_thread_is_read_as_often_as_needed_even_after_a_quiet_time() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    std::fs::write(place.path("calm.toml"), "period = \"1s\"\n").unwrap();
    let session = Session::start(&place, &["--config", place.path("calm.toml").to_str().unwrap()]);
    let mut commanded = CommandedProgram::start(&place, &program);
    commanded.does("marks 1");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    // The program emits for at least half a second, and its first ring would be full after a tenth
    // of a second.
    let tried = commanded.does("slowly 32000");
    commanded.end();
    let (recorded, lost) = counted(&session.stop(), "mark:numbered");
    assert_eq!(recorded + lost, tried);
    assert!(lost < tried / 4, "{lost} of {tried}");
}
