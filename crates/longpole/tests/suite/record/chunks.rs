//! A recording with a limit on its size or age: it is written as chunks, each of which can be read
//! alone. The oldest chunk is removed at the limit, and its events are counted.

use crate::support::commanded::{counted, description, numbers, path, snapshot, CommandedProgram, Session};
use crate::support::place::{ok, signal, wait_for, Place, Running};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

/// Asserts that the events in the chunks, the events lost there, and those counted as removed sum
/// up to `tried`. Returns the number of lost events in the chunks and the number of removed chunks.
fn are_exact(place: &Place, chunks: &[PathBuf], tried: u64) -> (u64, u64) {
    let newest = place.answer("info", chunks.last().unwrap());
    let removed = &newest["chunk"]["removed"];
    let gone = removed["events"].as_u64().unwrap() + removed["lost"].as_u64().unwrap();
    let (mut recorded, mut lost) = (0, 0);
    for chunk in chunks {
        let of_chunk = counted(chunk, "mark:numbered");
        let info = place.answer("info", chunk);
        assert_eq!((info["events"].as_u64(), info["lost"].as_u64()), (Some(of_chunk.0), Some(of_chunk.1)));
        recorded += of_chunk.0;
        lost += of_chunk.1;
    }
    assert_eq!(gone + recorded + lost, tried, "{removed}");
    (lost, removed["chunks"].as_u64().unwrap())
}

/// Asserts the same, and that the numbers of one thread's events increase across the chunks up to
/// the last one. Returns the number of removed chunks.
fn assert_continuous(place: &Place, chunks: &[PathBuf], tried: u64) -> u64 {
    let (lost, removed) = are_exact(place, chunks, tried);
    let all: Vec<u64> = chunks.iter().flat_map(|chunk| numbers(chunk)).collect();
    assert!(all.is_sorted(), "a chunk has what is another's");
    // On a busy host the newest event may be a lost one.
    assert!(lost > 0 || all.last() == Some(&(tried - 1)));
    removed
}

#[test]
fn the_oldest_chunk_is_removed_at_the_size_limit_and_its_events_are_counted() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let session = Session::start(&place, &["--max-size", "1MiB", "--buffer", "64KiB"]);
    let mut commanded = CommandedProgram::start(&place, &program);
    let mut tried = 0;
    for _ in 0..150 {
        tried = commanded.does("marks 1500");
        std::thread::sleep(Duration::from_millis(10));
    }
    commanded.end();
    let newest = session.stop();
    let chunks = place.recordings();
    assert_eq!(chunks.last(), Some(&newest));
    let removed = assert_continuous(&place, &chunks, tried);
    assert!(removed > 2 && chunks.len() >= 2, "{removed} removed of 3.6 MB, {} left", chunks.len());
    // Only the events are measured; each chunk also has metadata and a description.
    let bytes: u64 = chunks
        .iter()
        .flat_map(|chunk| std::fs::read_dir(chunk.join("user")).unwrap())
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes < 1_300_000, "{bytes}");
    assert_eq!(description(&newest)["chunk"]["number"], removed + chunks.len() as u64);
}

#[test]
fn the_size_limit_counts_disk_blocks_also_if_many_threads_write_few_events() {
    let place = Place::new();
    let program = place.build("numbered", &[]);
    // The recorder drains every 10 ms and a thread emits a mark every 15 ms, so each mark becomes a
    // packet of one page.
    std::fs::write(place.path("often.toml"), "period = \"10ms\"\n").unwrap();
    let session = Session::start(&place, &["--max-size", "1MiB", "--config", place.path("often.toml").to_str().unwrap()]);
    ok(place.command(&program).args(["20", "60", "15000"]).output().unwrap());
    let last = session.stop();
    let chunks = place.recordings();
    are_exact(&place, &chunks, 20 * 60);
    // 1,200 pages were written, one per mark.
    let blocks = |file: std::io::Result<std::fs::DirEntry>| file.unwrap().metadata().unwrap().blocks();
    let bytes: u64 = chunks.iter().flat_map(|chunk| std::fs::read_dir(chunk.join("user")).unwrap()).map(blocks).sum::<u64>() * 512;
    assert!(bytes < 1_500_000, "{bytes} in {} chunks", chunks.len());
    assert!(description(&last)["chunk"]["number"].as_u64().unwrap() > 4);
}

#[test]
fn a_snapshot_contains_events_of_earlier_chunks() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let session = Session::start(&place, &["--max-age", "4s", "--max-size", "100MiB"]);
    let mut commanded = CommandedProgram::start(&place, &program);
    let mut tried = 0;
    while place.recordings().len() < 3 {
        tried = commanded.does("marks 10");
        std::thread::sleep(Duration::from_millis(50));
    }
    let whole = snapshot(&place, &["-o", place.path("elsewhere").to_str().unwrap()]);
    assert_eq!(counted(&whole, "mark:numbered"), (tried, 0));
    assert_eq!(numbers(&whole), (0..tried).collect::<Vec<u64>>());
    commanded.end();
    session.stop();
}

#[test]
fn a_chunk_beyond_the_age_limit_is_removed() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let session = Session::start(&place, &["--max-age", "400ms"]);
    let mut commanded = CommandedProgram::start(&place, &program);
    let mut tried = 0;
    for _ in 0..30 {
        tried = commanded.does("marks 10");
        std::thread::sleep(Duration::from_millis(50));
    }
    commanded.end();
    session.stop();
    assert!(assert_continuous(&place, &place.recordings(), tried) > 2);
}

#[test]
fn chunks_of_a_killed_recorder_are_readable_and_the_next_recorder_takes_the_remaining_events() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let recorder = place.recorder(&["--max-size", "100MiB", "--max-age", "500ms"]);
    let mut commanded = CommandedProgram::start(&place, &program);
    let mut tried = 0;
    while place.recordings().len() < 3 {
        tried = commanded.does("marks 100");
        std::thread::sleep(Duration::from_millis(20));
    }
    // A chunk whose description is not written yet has no counts.
    wait_for(|| place.newest().join("longpole.json").exists());
    signal(&recorder, "-KILL");
    drop(recorder);
    let before = place.recordings();
    for chunk in &before {
        assert_eq!(counted(chunk, "mark:numbered").1, 0);
    }
    tried = commanded.does("marks 100").max(tried);
    let session = Session::start(&place, &[]);
    commanded.end();
    wait_for(|| std::fs::read_dir(place.path("runtime")).unwrap().count() == 2);
    session.stop();
    let chunks = place.recordings();
    assert_eq!(chunks.len(), before.len() + 1);
    let removed = description(&before[before.len() - 1])["chunk"]["removed"].clone();
    let recorded: u64 = chunks.iter().map(|chunk| counted(chunk, "mark:numbered")).map(|(recorded, lost)| recorded + lost).sum();
    assert_eq!(recorded + removed["events"].as_u64().unwrap(), tried, "{removed}");
}

#[test]
fn the_log_has_the_events_of_all_chunks() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let log = std::fs::File::create(place.path("log")).unwrap();
    let arguments = ["record", "--log", "--max-size", "4MiB", "--buffer", "256KiB"];
    let mut recorder = Running::start(place.longpole(&arguments).stdout(log).stderr(std::process::Stdio::null()));
    let mut commanded = CommandedProgram::start(&place, &program);
    let mut tried = 0;
    for _ in 0..100 {
        tried = commanded.does("marks 1500");
        std::thread::sleep(Duration::from_millis(5));
    }
    commanded.end();
    signal(&recorder, "-INT");
    recorder.wait().unwrap();
    let chunks = place.recordings();
    assert!(chunks.len() >= 2, "{}", chunks.len());
    let recorded: u64 = chunks.iter().map(|chunk| counted(chunk, "mark:numbered").0).sum();
    let text = std::fs::read_to_string(place.path("log")).unwrap();
    let printed = text.lines().filter(|line| line.contains("mark:numbered")).count() as u64;
    assert_eq!(printed, recorded);
    assert!(recorded > tried / 2, "{recorded} of {tried}");
}

/// A recorder that begins another chunk first moves the folder for requests there, and then tells
/// others the chunk's path.
#[test]
fn a_snapshot_waits_for_a_recorder_that_is_between_two_chunks() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let session = Session::start(&place, &[]);
    let mut commanded = CommandedProgram::start(&place, &program);
    let tried = commanded.does("marks 3");
    let (requests, elsewhere) = (place.newest().join(".requests"), place.newest().join("elsewhere"));
    std::fs::rename(&requests, &elsewhere).unwrap();
    let asking = Running::start(place.longpole(&["snapshot"]).stdout(Stdio::piped()));
    std::thread::sleep(Duration::from_millis(100));
    std::fs::rename(&elsewhere, &requests).unwrap();
    let made = path(&ok(asking.output()));
    assert_eq!(counted(&made, "mark:numbered"), (tried, 0));
    commanded.end();
    session.stop();
}
