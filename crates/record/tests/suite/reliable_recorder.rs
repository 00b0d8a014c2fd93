//! A recorder that is stopped, or killed and started again, in every mode: programs continue, and
//! every event is recorded once or counted as lost.

use crate::support::{figures, soak, sum, until, Count, Place, Recorder, Running};
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

const MODES: [&str; 3] = ["discard", "overwrite", "block"];

fn config(place: &Place, mode: &str) -> PathBuf {
    let path = place.directory.path().join(format!("{mode}.toml"));
    fs::write(&path, format!("mode = \"{mode}\"\nblock_limit = \"5ms\"\n")).unwrap();
    path
}

fn recorder(place: &Place, mode: &str) -> Recorder {
    place.recorder("64KiB", Some(&config(place, mode)))
}

/// A program that writes until it is killed.
fn endless(place: &Place, file: &str) -> Running {
    let program = Running::start(&mut place.numbered(3, 0, 300, 1000, file));
    until(|| place.begun(file, 3));
    program
}

/// Waits until each thread has written this number of further events: no thread is blocked.
fn gets_on(place: &Place, file: &str, by: u64) {
    let before = place.emitted(file);
    until(|| place.emitted(file).iter().zip(&before).take(3).all(|(now, before)| *now > before + by));
}

/// Compares the counts with the number of events that the programs wrote. For a killed program,
/// each thread may have completed one more event.
fn compare(place: &Place, what: &str, recordings: &[PathBuf], programs: &[(i32, &str, bool)], faults: u64) {
    let recordings: Vec<&std::path::Path> = recordings.iter().map(PathBuf::as_path).collect();
    let counts = sum(&recordings);
    let (mut tried, mut all) = (0, Count::default());
    for (pid, file, was_killed) in programs {
        for thread in 0..3u64 {
            let count = counts.get(&(*pid, thread)).copied().unwrap_or_default();
            let mut met = place.met(file, thread as usize);
            if *was_killed && count.recorded + count.lost == met + 1 {
                met += 1;
            }
            assert_eq!(count.recorded + count.lost, met, "{what}: {file}, thread {thread}: {count:?}");
            tried += met;
            all.add(count);
        }
    }
    assert!(all.recorded > 0);
    let known: Vec<&str> = programs.iter().map(|(_, file, _)| *file).chain(["discard.toml", "overwrite.toml", "block.toml"]).collect();
    figures(what, tried, all, faults, place.outside(&known));
}

#[test]
fn a_stopped_recorder_costs_events_and_blocks_no_program() {
    for mode in MODES {
        let place = Place::new();
        let recorder = recorder(&place, mode);
        let (stays, goes) = (endless(&place, "stays"), endless(&place, "goes"));
        let (stays_pid, goes_pid) = (stays.pid(), goes.pid());
        recorder.signal(libc::SIGSTOP);
        gets_on(&place, "stays", 20_000);
        // Meanwhile one program is killed, and another one starts and ends.
        let mut faults = goes.killed();
        let comes = Running::start(&mut place.numbered(3, 20_000, 300, 1000, "comes"));
        let comes_pid = comes.pid();
        faults += comes.ended();
        sleep(Duration::from_millis(if soak() { 5000 } else { 200 }));
        recorder.signal(libc::SIGCONT);
        gets_on(&place, "stays", 20_000);
        faults += stays.killed();
        let ended = recorder.finish();
        let programs = [(stays_pid, "stays", true), (goes_pid, "goes", true), (comes_pid, "comes", false)];
        compare(&place, &format!("{mode}: the recorder stands still"), &[ended.path], &programs, faults);
    }
}

#[test]
fn a_killed_recorder_blocks_no_program_and_the_next_one_takes_the_rest() {
    for mode in MODES {
        let place = Place::new();
        let mut recordings = Vec::new();
        let mut now = recorder(&place, mode);
        let stays = endless(&place, "stays");
        let pid = stays.pid();
        for _ in 0..if soak() { 20 } else { 2 } {
            gets_on(&place, "stays", 3_000);
            recordings.push(now.kill());
            // Also in the mode in which a full ring waits for a recorder.
            gets_on(&place, "stays", 20_000);
            now = recorder(&place, mode);
        }
        gets_on(&place, "stays", 3_000);
        let faults = stays.killed();
        recordings.push(now.finish().path);
        compare(
            &place,
            &format!("{mode}: the recorder is killed, {} recordings", recordings.len()),
            &recordings,
            &[(pid, "stays", true)],
            faults,
        );
    }
}
