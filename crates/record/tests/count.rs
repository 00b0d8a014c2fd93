//! Every event is recorded once or counted as lost.

mod support;

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;
use support::{numbered, sum, Count, Place, Running};

/// For threads that live as long as the recording: a loss at a thread's end stands before the next one's first event.
fn assert_complete(place: &Place, file: &str, pid: i32, recordings: &[&Path], threads: usize) {
    let counts = sum(recordings);
    let emitted = place.emitted(file);
    for (thread, emitted) in emitted.iter().enumerate().take(threads) {
        let count = counts.get(&(pid, thread as u64)).copied().unwrap_or_default();
        assert_eq!(count.recorded + count.lost, *emitted, "thread {thread}: {count:?}");
    }
}

#[test]
fn what_threads_emit_is_recorded_or_counted_as_lost() {
    for (buffer, burst, pause) in [("64KiB", 0, 0), ("4MiB", 0, 0), ("0", 500, 300)] {
        let place = Place::new();
        let recorder = place.recorder(buffer, None);
        Running::start(&mut place.numbered(8, 100_000, burst, pause, "p")).succeed();
        let ended = recorder.finish();
        let total: Count = numbered(&ended.path).values().fold(Count::default(), |sum, count| Count {
            recorded: sum.recorded + count.recorded,
            lost: sum.lost + count.lost,
        });
        assert_eq!((total.recorded * 16, total.lost), (ended.recorded, ended.lost), "{:?}", ended.oddities);
        assert_eq!(total.recorded + total.lost, 800_000, "{buffer}: {:?}", ended.oddities);
        assert!(total.recorded > 0);
    }
}

#[test]
fn nothing_is_lost_where_the_rings_are_large_enough() {
    let place = Place::new();
    let recorder = place.recorder("4MiB", None);
    let program = Running::start(&mut place.numbered(4, 20_000, 1000, 2000, "p"));
    let pid = program.pid();
    program.succeed();
    let ended = recorder.finish();
    assert_eq!(ended.lost, 0, "{:?}", ended.oddities);
    assert_complete(&place, "p", pid, &[&ended.path], 4);
    for packets in support::lanes(&ended.path).values() {
        let last = packets.last().unwrap();
        assert!(last.thread.starts_with("worker "), "{last:?}");
        assert!(last.label.starts_with("numbered"), "{last:?}");
    }
}

#[test]
fn what_a_killed_program_wrote_is_recorded() {
    for wait in [5, 40, 130] {
        let place = Place::new();
        let recorder = place.recorder("0", None);
        let program = Running::start(&mut place.numbered(3, 0, 200, 100, "p"));
        let pid = program.pid();
        support::until(|| place.emitted("p").iter().take(3).all(|count| *count > 0));
        sleep(Duration::from_millis(wait));
        program.kill();
        let ended = recorder.finish();
        let counts = numbered(&ended.path);
        for (thread, emitted) in place.emitted("p").iter().enumerate().take(3) {
            let count = counts.get(&(pid, thread as u64)).copied().unwrap_or_default();
            // The one event more was complete, but not yet counted by its thread.
            let told = count.recorded + count.lost;
            assert!(told == *emitted || told == emitted + 1, "thread {thread}: {count:?} of {emitted}: {:?} {counts:?}", ended.oddities);
        }
        let mut left: Vec<_> = std::fs::read_dir(place.runtime()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["session", "sites"], "{:?}", ended.oddities);
    }
}

#[test]
fn what_a_killed_recorder_had_not_taken_is_in_the_next_recording() {
    for (waits, buffer) in [([3, 20, 50], "0"), ([11, 35, 7], "64KiB"), ([30, 60, 5], "1MiB")] {
        let place = Place::new();
        let mut killed = Vec::new();
        let recorder = place.recorder(buffer, None);
        let program = Running::start(&mut place.numbered(3, 150_000, 300, 200, "p"));
        // Born under a recorder, it is recorded; without one, it would not be.
        support::until(|| place.emitted("p").iter().take(3).all(|count| *count > 0));
        let mut recorder = Some(recorder);
        for wait in waits {
            sleep(Duration::from_millis(wait));
            killed.extend(recorder.take().map(support::Recorder::kill));
            sleep(Duration::from_millis(wait / 3));
            recorder = Some(place.recorder(buffer, None));
        }
        program.succeed();
        let ended = recorder.unwrap().finish();
        let mut all: Vec<&Path> = killed.iter().map(|path| path.as_path()).collect();
        all.push(&ended.path);
        let told: u64 = sum(&all).values().map(|count| count.recorded + count.lost).sum();
        assert_eq!(told, 450_000, "{buffer}: {:?} {:?} {all:?}", sum(&all), ended.oddities);
    }
}

#[test]
fn recordings_can_be_started_and_stopped_any_number_of_times() {
    let place = Place::new();
    let program = Running::start(&mut place.numbered(2, 0, 50, 100, "p"));
    support::until(|| place.emitted("p").iter().take(2).all(|count| *count > 0));
    for cycle in 0..6 {
        let recorder = place.recorder("0", None);
        let emitted = place.emitted("p")[0];
        support::until(|| place.emitted("p")[0] > emitted + 2000);
        let ended = recorder.finish();
        let counts = numbered(&ended.path);
        assert_eq!(counts.len(), 2, "cycle {cycle}: {:?} {:?}", ended.oddities, ended.empty);
        let told: u64 = counts.values().map(|count| count.recorded + count.lost).sum();
        assert!(told >= 1000, "cycle {cycle}: {counts:?}");
    }
    program.kill();
}

#[test]
fn the_first_events_of_processes_and_threads_born_meanwhile_are_recorded() {
    let place = Place::new();
    let recorder = place.recorder("0", None);
    let mut pids = Vec::new();
    for round in 0..5 {
        let name = format!("p{round}");
        let progress = place.progress(&name);
        // One thread after the other: they hand on one ring.
        let mut command = place.program("numbered", &["4", "20", "0", "0", progress.to_str().unwrap(), "wait"]);
        let program = Running::start(&mut command);
        pids.push(program.pid());
        program.succeed();
    }
    let ended = recorder.finish();
    let counts = numbered(&ended.path);
    for pid in pids {
        for thread in 0..4 {
            assert_eq!(counts.get(&(pid, thread)), Some(&Count { recorded: 20, lost: 0 }), "{counts:?}");
        }
    }
}
