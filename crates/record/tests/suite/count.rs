//! Every event is recorded once or counted as lost.

use crate::support;
use crate::support::{numbered, sum, Count, Place, Running};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Asserts that all events of each thread are recorded or lost. Only for threads that live as long
/// as the recording, because a loss at a thread's end is reported before the first event of the
/// next thread in the same ring.
fn assert_complete(place: &Place, file: &str, pid: i32, recordings: &[&Path], threads: usize) {
    let counts = sum(recordings);
    let emitted = place.emitted(file);
    for (thread, emitted) in emitted.iter().enumerate().take(threads) {
        let count = counts.get(&(pid, thread as u64)).copied().unwrap_or_default();
        assert_eq!(count.recorded + count.lost, *emitted, "thread {thread}: {count:?}");
    }
}

#[test]
fn every_event_of_a_thread_is_recorded_or_counted_as_lost() {
    for (buffer, burst, pause) in [("64KiB", 0, 0), ("4MiB", 0, 0), ("0", 500, 300)] {
        let place = Place::new();
        let recorder = place.recorder(buffer, None);
        Running::start(&mut place.numbered(8, 100_000, burst, pause, "p")).succeed();
        let ended = recorder.finish();
        let total: Count = numbered(&ended.path).values().fold(Count::default(), |mut sum, count| {
            sum.add(*count);
            sum
        });
        assert_eq!((total.recorded * 16, total.lost), (ended.recorded, ended.lost), "{:?}", ended.diagnostics);
        assert_eq!(total.recorded + total.lost, 800_000, "{buffer}: {:?}", ended.diagnostics);
        assert!(total.recorded > 0);
    }
}

#[test]
fn nothing_is_lost_if_the_rings_are_large_enough() {
    let place = Place::new();
    let recorder = place.recorder("4MiB", None);
    let program = Running::start(&mut place.numbered(4, 20_000, 1000, 2000, "p"));
    let pid = program.pid();
    program.succeed();
    let ended = recorder.finish();
    assert_eq!(ended.lost, 0, "{:?}", ended.diagnostics);
    assert_complete(&place, "p", pid, &[&ended.path], 4);
    for packets in support::lanes(&ended.path).values() {
        let last = packets.last().unwrap();
        assert!(last.thread.starts_with("worker "), "{last:?}");
        assert!(last.label.starts_with("numbered"), "{last:?}");
    }
}

#[test]
fn events_of_a_killed_program_are_recorded() {
    for wait in [5, 40, 130] {
        let place = Place::new();
        let recorder = place.recorder("0", None);
        let program = Running::start(&mut place.numbered(3, 0, 200, 100, "p"));
        let pid = program.pid();
        support::until(|| place.begun("p", 3));
        sleep(Duration::from_millis(wait));
        program.kill();
        let ended = recorder.finish();
        let counts = numbered(&ended.path);
        for (thread, emitted) in place.emitted("p").iter().enumerate().take(3) {
            let count = counts.get(&(pid, thread as u64)).copied().unwrap_or_default();
            // The thread may have been killed after it completed an event and before it counted it.
            let told = count.recorded + count.lost;
            assert!(told == *emitted || told == emitted + 1, "thread {thread}: {count:?} of {emitted}: {:?} {counts:?}", ended.diagnostics);
        }
        let mut left: Vec<_> = std::fs::read_dir(place.runtime()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["session", "sites"], "{:?}", ended.diagnostics);
    }
}

#[test]
fn events_that_a_killed_recorder_had_not_taken_are_in_the_next_recording() {
    for (waits, buffer) in [([3, 20, 50], "0"), ([11, 35, 7], "64KiB"), ([30, 60, 5], "1MiB")] {
        let place = Place::new();
        let mut killed = Vec::new();
        let recorder = place.recorder(buffer, None);
        let program = Running::start(&mut place.numbered(3, 150_000, 300, 200, "p"));
        // The first process starts while a recorder is running; otherwise its events would not be
        // recorded.
        support::until(|| place.begun("p", 3));
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
        assert_eq!(told, 450_000, "{buffer}: {:?} {:?} {all:?}", sum(&all), ended.diagnostics);
    }
}

/// State of one thread's event numbers across recordings.
#[derive(Clone, Copy, Default)]
struct Numbers {
    /// Number after the newest recorded one.
    next: u64,
    /// Number of events lost since then.
    lost: u64,
}

/// Checks one recording of a `numbered` program: between any two events, exactly as many numbers
/// are missing as were counted as lost there.
fn follow(recording: &Path, threads: &mut [Numbers]) {
    for (name, packets) in support::lanes(recording) {
        let (mut discarded, mut owner) = (0, None);
        for packet in &packets {
            let lost = packet.discarded - discarded;
            discarded = packet.discarded;
            let word = |event: &[u8]| u64::from_ne_bytes(event[8..16].try_into().unwrap());
            if let Some(event) = packet.events.chunks_exact(16).next() {
                owner = Some((word(event) >> 40) as usize);
            }
            // If the thread wrote no event into the lane, its name identifies it.
            let thread = owner.unwrap_or_else(|| packet.thread.strip_prefix("worker ").unwrap().parse().unwrap());
            let numbers = &mut threads[thread];
            numbers.lost += lost;
            // The lost events lie between the event before and the next event, so no packet extends
            // into that time.
            if let Some(event) = packet.events.chunks_exact(16).last() {
                let last = u64::from_ne_bytes(event[..8].try_into().unwrap()) >> 16;
                assert_eq!(packet.end & 0xffff_ffff_ffff, last, "{name}: a packet ends with its last event");
            }
            for event in packet.events.chunks_exact(16) {
                let number = word(event) & 0xff_ffff_ffff;
                assert_eq!(number, numbers.next + numbers.lost, "{name}: {number} after {} and {} lost", numbers.next, numbers.lost);
                *numbers = Numbers { next: number + 1, lost: 0 };
            }
        }
    }
}

#[test]
fn over_twenty_recordings_every_missing_number_is_counted_where_it_was_lost() {
    // Rings that are too small for each burst, and rings that begin small and are replaced.
    for buffers in [["32KiB"; 20], ["0"; 20]] {
        let place = Place::new();
        let program = Running::start(&mut place.numbered(3, 0, 4000, 300, "p"));
        support::until(|| place.begun("p", 3));
        let mut threads = [Numbers::default(); 3];
        let (mut recorded, mut lost, mut met) = (0, 0, 0);
        for buffer in buffers {
            let recorder = place.recorder(buffer, None);
            let before = place.emitted("p");
            support::until(|| place.emitted("p").iter().zip(&before).take(3).all(|(now, before)| *now > before + 20_000));
            let ended = recorder.finish();
            follow(&ended.path, &mut threads);
            recorded += ended.recorded / 16;
            lost += ended.lost;
        }
        // Wait until each thread has left the probe that was enabled.
        let before = place.emitted("p");
        support::until(|| place.emitted("p").iter().zip(&before).take(3).all(|(now, before)| *now > before + 20_000));
        for (thread, numbers) in threads.iter().enumerate() {
            assert!(numbers.next > 0);
            met += place.met("p", thread);
            assert!(place.met("p", thread) >= numbers.next + numbers.lost);
            assert!(place.met("p", thread) < place.emitted("p")[thread], "between the recordings the probes were off");
        }
        // A thread may have seen its probe enabled and then been delayed until the recording had
        // ended. Its event is still in the ring.
        assert_eq!(met, recorded + lost + place.left_in_rings(program.pid()), "{buffers:?}");
        assert!(buffers[0] == "0" || lost > 0, "the small rings are too large");
        program.kill();
    }
}

#[test]
fn the_first_events_of_processes_and_threads_born_during_a_recording_are_recorded() {
    let place = Place::new();
    let recorder = place.recorder("0", None);
    let mut pids = Vec::new();
    for round in 0..5 {
        let name = format!("p{round}");
        let progress = place.progress(&name);
        // The threads run one after the other and reuse one ring.
        let mut command = place.program("numbered", &["4", "20", "0", "0", progress.to_str().unwrap(), "wait"]);
        let program = Running::start(&mut command);
        pids.push(program.pid());
        program.succeed();
    }
    let ended = recorder.finish();
    let counts = numbered(&ended.path);
    for pid in pids {
        for thread in 0..4 {
            assert_eq!(counts.get(&(pid, thread)), Some(&Count { recorded: 20, ..Count::default() }), "{counts:?}");
        }
    }
}

#[test]
fn events_that_a_signal_handler_set_aside_count_as_lost_if_the_program_is_killed() {
    for (before, nested) in [(1u64, 1u64), (100, 7), (100, 16), (100, 30)] {
        let place = Place::new();
        let recorder = place.recorder("0", None);
        let status = place.program("aside", &[&before.to_string(), &nested.to_string()]).status().unwrap();
        assert!(!status.success());
        let ended = recorder.finish();
        assert_eq!((ended.recorded, ended.lost), (before * 16, nested), "{:?}", ended.diagnostics);
    }
}

#[test]
fn the_first_threads_get_larger_rings_before_they_are_busy() {
    let place = Place::new();
    let recorder = place.recorder("0", None);
    let program = Running::start(&mut place.numbered(20, 0, 1, 20_000, "p"));
    let larger = || {
        let rings =
            std::fs::read_dir(place.runtime()).unwrap().flatten().filter(|entry| entry.file_name().to_string_lossy().ends_with(".ring"));
        rings.filter(|ring| ring.metadata().is_ok_and(|found| found.len() > 4 << 20)).count()
    };
    // The number of CPUs, and at least four.
    let most = std::thread::available_parallelism().map_or(4, |cpus| cpus.get().max(4));
    support::until(|| larger() == most.min(20));
    sleep(Duration::from_millis(300));
    assert_eq!(larger(), most.min(20));
    program.kill();
    assert_eq!(recorder.finish().lost, 0);
}

#[test]
fn a_larger_ring_that_its_thread_could_not_take_is_removed() {
    let place = Place::new();
    let recorder = place.recorder("0", None);
    let program = Running::start(&mut place.program("staying", &[]));
    let larger = || {
        let entries = std::fs::read_dir(place.runtime()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        entries.filter(|name| name.contains(".s") && name.ends_with(".ring")).count()
    };
    support::until(|| larger() == 1);
    support::until(|| larger() == 0);
    // The thread is not offered another ring.
    sleep(Duration::from_millis(100));
    assert_eq!(larger(), 0);
    let pid = program.pid();
    program.kill();
    let ended = recorder.finish();
    let counts = numbered(&ended.path);
    let count = counts[&(pid, 0)];
    assert_eq!((count.recorded * 16, count.lost), (ended.recorded, ended.lost), "{:?}", ended.diagnostics);
    assert!(
        count.lost > 0 && ended.diagnostics.iter().all(|text| text.contains("could not change to a larger ring")),
        "{:?}",
        ended.diagnostics
    );
}
