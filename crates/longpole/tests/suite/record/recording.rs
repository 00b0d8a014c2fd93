//! `longpole record` on real programs. Each event is recorded once and in order, or counted as
//! lost, even if threads, processes, libraries and recorders begin and end meanwhile.

use crate::support::place::{ok, signal, wait_for, Place, Running};
use longpole_trace::event::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::BufReader;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// True for the long form of the tests (`make soak`).
fn soak() -> bool {
    std::env::var_os("LONGPOLE_SOAK").is_some()
}

/// The numbers of the events with one name in one thread, summed up.
#[derive(Debug, Default, Clone, PartialEq)]
struct Thread {
    recorded: u64,
    first: u64,
    last: u64,
    /// Numbers that are missing between two recorded ones.
    missing: u64,
    /// Events whose number is not greater than the one before.
    disorder: u64,
}

/// Threads by (event name, pid, tid), and the number of lost events in the recording.
fn numbered(recording: &Path) -> (BTreeMap<(String, i32, i32), Thread>, u64) {
    let mut trace = Trace::open(&[recording], Options::default()).unwrap();
    let mut threads: BTreeMap<(String, i32, i32), Thread> = BTreeMap::new();
    let (mut lost, mut texts) = (0, 0);
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        match item {
            Item::Event(event) => {
                let name = &catalogue.classes[event.class.0 as usize].event_name;
                let subject = &catalogue.subjects[event.subject.0 as usize];
                // A text event has no number; the texts are counted instead.
                let number = event.fields[0].as_u64().unwrap_or(texts);
                texts += u64::from(event.fields[0].as_u64().is_none());
                let key = (name.strip_prefix("mark:").unwrap_or(name).to_owned(), subject.pid.unwrap(), subject.tid.unwrap());
                let thread = threads.entry(key).or_default();
                if thread.recorded == 0 {
                    thread.first = number;
                } else if number <= thread.last {
                    thread.disorder += 1;
                } else {
                    thread.missing += number - thread.last - 1;
                }
                thread.last = number;
                thread.recorded += 1;
            }
            Item::Loss(loss) => lost += loss.events.expect("a lane counts its losses"),
        }
    }
    assert!(!trace.is_damaged(), "{:?}", trace.diagnostics());
    (threads, lost)
}

/// A ring file as its program left it. This test reads it without the recorder's code. Each event
/// is 16 bytes long and ends with its number.
#[derive(Debug)]
struct RingFile {
    pid: i32,
    tid: i32,
    head: u64,
    tail: u64,
    lost: u64,
    size: u64,
    /// Number of the newest event.
    newest: Option<u64>,
    /// Events lost after the newest one. A loss closes the sub-buffer, and each sub-buffer contains
    /// the number of losses at its begin, so that this number is a difference.
    lost_after: u64,
    /// Events and losses that no recorder has taken.
    left: u64,
}

fn rings(place: &Place) -> Vec<RingFile> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(place.path("runtime")).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let Some(pid) = name.ends_with(".ring").then(|| name.split('-').next().unwrap().parse().unwrap()) else { continue };
        // A ring that was replaced by a larger one is removed; a ring that is being made has no
        // magic number yet.
        let Ok(bytes) = std::fs::read(entry.path()) else { continue };
        if bytes.len() <= 4096 || bytes[128..136] == [0; 8] {
            continue;
        }
        let word = |at: u64| u64::from_ne_bytes(bytes[at as usize..at as usize + 8].try_into().unwrap());
        let (head, lost, tail, reported, size, subbuffer) = (word(0), word(32), word(64), word(88), word(144), word(152));
        let place_of = |position: u64| 4096 + position % size;
        // The head is located behind the newest event, even if that event fills its sub-buffer.
        let begin = |position: u64| position - position % subbuffer;
        let current = begin(head.saturating_sub(1));
        let mut left = lost - reported;
        let mut at = tail;
        while at < head {
            let next = begin(at) + subbuffer;
            let end = if head > next { begin(at) + word(place_of(begin(at)) + 8) } else { head };
            left += end.saturating_sub(at.max(begin(at) + 256)) / 16;
            at = next;
        }
        all.push(RingFile {
            pid,
            tid: (word(160) >> 32) as i32,
            head,
            tail,
            lost,
            size,
            newest: (head > 0).then(|| word(place_of(head - 8))),
            lost_after: if head > 0 { lost - word(place_of(current) + 16) } else { 0 },
            left,
        });
    }
    all
}

/// Waits until at least `threads` threads have written an event.
fn begun(place: &Place, threads: usize) {
    wait_for(|| {
        rings(place).iter().filter(|ring| ring.head > 0).map(|ring| (ring.pid, ring.tid)).collect::<BTreeSet<_>>().len() >= threads
    });
}

/// Events that a thread wrote or lost, or several threads that continue one numbering from 0. The
/// ring with the newest number determines the result.
fn counted<'a>(rings: impl Iterator<Item = &'a RingFile>) -> Option<u64> {
    rings.filter_map(|ring| ring.newest.map(|newest| (newest, newest + 1 + ring.lost_after))).max().map(|(_, counted)| counted)
}

fn emitted(output: &Output) -> BTreeMap<i32, u64> {
    let text = String::from_utf8_lossy(&output.stdout);
    let words = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    words.filter(|words| words[0] == "emitted").map(|words| (words[1].parse().unwrap(), words[2].parse().unwrap())).collect()
}

#[test]
fn events_of_eight_threads_are_recorded_in_order_or_counted() {
    for buffer in ["64KiB", "4MiB"] {
        let place = Place::new();
        let program = place.build("numbered", &[]);
        let events = if soak() { "5000000" } else { "300000" };
        let output = ok(place.longpole(&["record", "--buffer", buffer, "--", &program, "8", events]).output().unwrap());
        let emitted = emitted(&output);
        assert_eq!(emitted.len(), 8);
        let (threads, lost) = numbered(&place.newest());
        let recorded: u64 = threads.values().map(|thread| thread.recorded).sum();
        assert_eq!(emitted.values().sum::<u64>(), recorded + lost, "{buffer}");
        for ((_, _, tid), thread) in &threads {
            assert_eq!(thread.disorder, 0);
            assert!(thread.last < emitted[tid], "no number that was never emitted");
        }
    }
}

/// Stops the recorder, kills the programs, reads their rings, and lets the recorder end. Returns
/// the rings as they were after the kill.
fn kill_programs(place: &Place, recorder: &mut Child, children: &mut [Running]) -> Vec<RingFile> {
    signal(recorder, "-STOP");
    let stat = format!("/proc/{}/stat", recorder.id());
    wait_for(|| std::fs::read_to_string(&stat).unwrap().rsplit(')').next().unwrap().trim_start().starts_with('T'));
    for child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let rings = rings(place);
    signal(recorder, "-CONT");
    signal(recorder, "-INT");
    assert!(recorder.wait().unwrap().success());
    rings
}

#[test]
fn a_killed_program_loses_no_event_that_it_wrote() {
    let millis: &[u64] = if soak() { &[5, 30, 60, 100, 150, 220, 280, 500, 700, 1100] } else { &[5, 150] };
    // Rings that lose events, and rings that are replaced by larger ones meanwhile.
    for (buffer, millis) in
        [&["--buffer", "64KiB"][..], &[]].into_iter().flat_map(|buffer| millis.iter().map(move |millis| (buffer, *millis)))
    {
        let place = Place::new();
        let program = place.build("numbered", &[]);
        let mut recorder = place.recorder(&[&["--all"], buffer].concat());
        let mut child = Running::start(place.command(&program).args(["4", "1000000000", "100", "5000"]).stdout(Stdio::null()));
        begun(&place, 1);
        sleep(Duration::from_millis(millis));
        let rings = kill_programs(&place, &mut recorder, std::slice::from_mut(&mut child));
        let (threads, lost) = numbered(&place.newest());
        let mut told = 0;
        for ((_, _, tid), thread) in &threads {
            let own = || rings.iter().filter(|ring| ring.tid == *tid);
            let newest = own().filter_map(|ring| ring.newest).max();
            assert_eq!(Some(thread.last), newest, "{tid}: the newest event is there: {:?}", own().collect::<Vec<_>>());
            assert_eq!(thread.disorder, 0);
            told += counted(own()).unwrap();
        }
        assert_eq!(threads.len(), rings.iter().filter(|ring| ring.newest.is_some()).map(|ring| ring.tid).collect::<BTreeSet<_>>().len());
        let recorded: u64 = threads.values().map(|thread| thread.recorded).sum();
        assert_eq!(told, recorded + lost, "{buffer:?} {millis}: {rings:?}");
    }
}

#[test]
fn a_program_killed_while_threads_begin_and_end_loses_no_event_that_it_wrote() {
    let millis: &[u64] = if soak() { &[3, 10, 20, 40, 80, 120, 170, 240, 300, 500] } else { &[20, 110] };
    for &millis in millis {
        let place = Place::new();
        let program = place.build("relay", &[]);
        let mut recorder = place.recorder(&["--all"]);
        // Threads that emit one event, threads that emit some, and threads that fill their ring.
        let relays = [["1", "0"], ["250", "100"], ["20000", "50"]];
        let mut children = relays.map(|words| Running::start(place.command(&program).args(words)));
        wait_for(|| children.iter().all(|child| rings(&place).iter().any(|ring| ring.pid == child.id() as i32 && ring.head > 0)));
        sleep(Duration::from_millis(millis));
        let rings = kill_programs(&place, &mut recorder, &mut children);
        let (threads, lost) = numbered(&place.newest());
        let told: u64 = children.iter().map(|child| counted(rings.iter().filter(|ring| ring.pid == child.id() as i32)).unwrap()).sum();
        let recorded: u64 = threads.values().map(|thread| thread.recorded).sum();
        assert_eq!(told, recorded + lost, "{millis}: {rings:?}");
        for (child, words) in children.iter().zip(relays) {
            let own = || threads.iter().filter(|((_, pid, _), _)| *pid == child.id() as i32).map(|(_, thread)| thread);
            let newest = rings.iter().filter(|ring| ring.pid == child.id() as i32).filter_map(|ring| ring.newest).max();
            assert_eq!(own().map(|thread| thread.last).max(), newest);
            // A thread takes over only a ring that has room, so its first event is never lost.
            let each: u64 = words[0].parse().unwrap();
            assert!(own().all(|thread| thread.disorder == 0 && thread.first % each == 0), "{words:?}");
        }
    }
}

#[test]
fn a_killed_recorder_and_the_next_one_together_have_all_events() {
    let millis: &[u64] = if soak() { &[1, 15, 30, 50, 70, 100, 120, 150, 180, 280] } else { &[20, 260] };
    for &millis in millis {
        let place = Place::new();
        let program = place.build("numbered", &[]);
        let mut first = place.recorder(&["--all"]);
        let child = Running::start(place.command(&program).args(["4", "200000", "200", "60"]).stdout(Stdio::piped()));
        // Events that are emitted while no recorder runs are in no recording, unless their thread
        // already had a ring. Therefore the kill waits until all four threads have one.
        begun(&place, 4);
        sleep(Duration::from_millis(millis));
        first.kill().unwrap();
        first.wait().unwrap();
        let killed = place.newest();
        if let Ok(run) = Command::new("babeltrace2").args(["-o", "dummy"]).arg(killed.join("user")).output() {
            assert!(run.status.success(), "after the kill: {}", String::from_utf8_lossy(&run.stderr));
        } else {
            println!("skipped: reading a killed recording with babeltrace2 (not installed)");
        }
        let mut second = place.recorder(&["--all"]);
        let emitted = emitted(&child.output());
        signal(&second, "-INT");
        assert!(second.wait().unwrap().success());
        let (mut recorded, mut lost) = (0, 0);
        for recording in place.recordings() {
            let (threads, missing) = numbered(&recording);
            assert!(threads.values().all(|thread| thread.disorder == 0));
            recorded += threads.values().map(|thread| thread.recorded).sum::<u64>();
            lost += missing;
        }
        assert_eq!(emitted.values().sum::<u64>(), recorded + lost);
    }
}

#[test]
fn threads_and_processes_are_recorded_from_their_first_event_on() {
    let place = Place::new();
    let program = place.build("churn", &[]);
    ok(place.longpole(&["record", "--", &program, "100", "40", "50"]).output().unwrap());
    let (threads, lost) = numbered(&place.newest());
    assert_eq!(lost, 0);
    // A child of fork and the program that it executes have the same thread id; each numbers its
    // events from 0.
    let recorded: u64 = threads.values().map(|thread| thread.recorded).sum();
    assert_eq!(recorded, 50 * (100 + 40 + 20));
    assert!(threads.values().all(|thread| thread.first == 0 && thread.last == 49 && thread.missing == 0));
}

#[test]
fn events_during_twenty_recordings_are_recorded_or_counted() {
    let place = Place::new();
    let program = place.build("numbered", &[]);
    let child = Running::start(place.command(&program).args(["2", "1000000000000", "200", "4000"]).stdout(Stdio::piped()));
    // From here on both threads run to the end. No recorder runs yet, so they have no rings.
    wait_for(|| std::fs::read_dir(format!("/proc/{}/task", child.id())).is_ok_and(|tasks| tasks.count() == 3));
    for cycle in 0..20 {
        // Half of the recordings use rings that lose events in every burst, the other half rings
        // that grow.
        let buffer: &[&str] = if cycle < 10 { &["--buffer", "32KiB"] } else { &[] };
        ok(place.longpole(&["record", "--all", "--for", "60ms"]).args(buffer).output().unwrap());
    }
    // After this time, each thread that saw its probe enabled has left the probe.
    sleep(Duration::from_millis(100));
    let left: u64 = rings(&place).iter().map(|ring| ring.left).sum();
    signal(&child, "-TERM");
    let emitted = emitted(&child.output());
    let recordings = place.recordings();
    assert_eq!(recordings.len(), 20);
    let (mut recorded, mut lost) = (0, 0);
    for recording in recordings {
        let (threads, uncounted) = numbered(&recording);
        assert_eq!(threads.len(), 2);
        let missing: u64 = threads.values().map(|thread| thread.missing).sum();
        assert!(threads.values().all(|thread| thread.disorder == 0));
        assert!(uncounted >= missing, "{uncounted} lost, {missing} missing");
        recorded += threads.values().map(|thread| thread.recorded).sum::<u64>();
        lost += uncounted;
    }
    assert!(lost > 0, "the small rings are too large");
    // A thread that saw its probe enabled, and was delayed until the last recording had ended, left
    // its event in the ring.
    assert_eq!(emitted.values().sum::<u64>(), recorded + lost + left);
}

#[test]
fn probes_in_signal_handlers_are_recorded_or_counted() {
    let place = Place::new();
    let program = place.build("handlers", &[]);
    // Small rings are replaced by larger ones while the handlers run.
    for buffer in [&["--buffer", "4MiB"][..], &[]] {
        let output = ok(place.longpole(&["record"]).args(buffer).args(["--", &program, "3000"]).output().unwrap());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let words: Vec<&str> = text.split_whitespace().collect();
        let (main, handler) = (words[1].parse::<u64>().unwrap(), words[3].parse::<u64>().unwrap());
        // Every tenth handler, from the first on, logs a text.
        let emitted = main + handler + handler.div_ceil(10);
        let (threads, lost) = numbered(&place.newest());
        assert!(threads.values().all(|thread| thread.disorder == 0), "{threads:?}");
        assert_eq!(threads.values().map(|thread| thread.recorded).sum::<u64>() + lost, emitted);
        if let Ok(run) = Command::new("babeltrace2").args(["-o", "dummy"]).arg(place.newest().join("user")).output() {
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        }
    }
}

#[test]
fn a_library_that_is_loaded_and_unloaded_shares_the_ring_of_its_thread() {
    let place = Place::new();
    let library = place.build("library", &["-shared", "-fPIC"]);
    let program = place.build("loader", &[]);
    ok(place.longpole(&["record", "--", &program, &library, "150"]).output().unwrap());
    let (threads, lost) = numbered(&place.newest());
    assert_eq!(lost, 0);
    let names: Vec<(&str, u64)> = threads.iter().map(|((name, _, _), thread)| (name.as_str(), thread.recorded)).collect();
    assert_eq!(names, [("library", 150), ("program", 150)]);
    let lanes = std::fs::read_dir(place.newest().join("user")).unwrap().count() - 1;
    assert_eq!(lanes, 1, "one thread, one lane");
}

#[test]
fn babeltrace2_counts_the_same_in_copies_made_during_and_after_a_recording() {
    let place = Place::new();
    if Command::new("babeltrace2").arg("--version").output().is_err() {
        println!("skipped: comparing counts with babeltrace2 (not installed)");
        return;
    }
    let program = place.build("numbered", &[]);
    let mut recorder = place.recorder(&["--all", "--buffer", "64KiB"]);
    let mut child = Running::start(place.command(&program).args(["4", "1000000000", "4000", "400"]).stdout(Stdio::null()));
    begun(&place, 4);
    sleep(Duration::from_millis(300));
    let copies = [place.path("during"), place.path("after")];
    let copy = |to: &Path| assert!(Command::new("cp").arg("-r").arg(place.newest()).arg(to).status().unwrap().success());
    copy(&copies[0]);
    child.kill().unwrap();
    child.wait().unwrap();
    signal(&recorder, "-INT");
    assert!(recorder.wait().unwrap().success());
    copy(&copies[1]);
    for path in copies {
        let info: serde_json::Value =
            serde_json::from_slice(&ok(place.longpole(&["info", "--json"]).arg(&path).output().unwrap()).stdout).unwrap();
        let read = ok(Command::new("babeltrace2").arg(path.join("user")).output().unwrap());
        let events = read.stdout.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let talk = String::from_utf8_lossy(&read.stderr).into_owned();
        let discarded: u64 = talk
            .lines()
            .filter_map(|line| line.split("Tracer discarded ").nth(1))
            .map(|rest| rest.split(' ').next().unwrap().parse::<u64>().unwrap())
            .sum();
        assert!(events > 0);
        assert_eq!(info["events"], events, "{}", path.display());
        assert_eq!(info["lost"], discarded, "{}: {talk}", path.display());
    }
}

#[test]
fn record_passes_on_the_status_of_its_command() {
    let place = Place::new();
    let run = place.longpole(&["record", "--", "sh", "-c", "exit 7"]).output().unwrap();
    assert_eq!(run.status.code(), Some(7));
    let run = place.longpole(&["record", "--", "/nonexistent/program"]).output().unwrap();
    assert_eq!(run.status.code(), Some(125));
}

#[test]
fn signals_that_are_sent_to_the_recorder_reach_its_command() {
    let place = Place::new();
    let script = "trap 'echo one' USR1; trap 'echo two' USR2; trap 'echo three; exit 3' QUIT; echo ready; while :; do sleep 0.01; done";
    let mut recorder = place.command("env");
    recorder.args([
        "--default-signal",
        env!("CARGO_BIN_EXE_longpole"),
        "record",
        "--kernel",
        "none",
        "--stacks",
        "none",
        "--",
        "bash",
        "-c",
        script,
    ]);
    let mut recorder = Running::start(recorder.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut lines = std::io::BufRead::lines(BufReader::new(recorder.stdout.take().unwrap()));
    let mut next = move || lines.next().unwrap().unwrap();
    assert_eq!(next(), "ready");
    for (name, said) in [("-USR1", "one"), ("-USR2", "two"), ("-QUIT", "three")] {
        signal(&recorder, name);
        assert_eq!(next(), said);
    }
    assert_eq!(recorder.wait().unwrap().code(), Some(3));
}

#[test]
fn an_error_in_a_configuration_is_shown_with_its_line_and_a_marker() {
    let place = Place::new();
    let config = place.path("bad.toml");
    std::fs::write(&config, "period = \"50ms\"\n[[policy]]\nevents = [\"queue\", \"spam\"]\n").unwrap();
    for (arguments, status) in [(&["--", "true"][..], 125), (&["--for", "1s"], 1)] {
        let refused = place.longpole(&["record", "-c"]).arg(&config).args(arguments).output().unwrap();
        assert_eq!(refused.status.code(), Some(status));
        let said = String::from_utf8(refused.stderr).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].contains("bad.toml:3:20: \"spam\" is not an event category"), "{said}");
        assert_eq!(lines[2..], [" 3 | events = [\"queue\", \"spam\"]", "   |                    ^^^^^^"]);
    }
    assert!(place.recordings().is_empty());
}

#[test]
fn a_command_may_have_arguments_that_are_not_utf_8_and_any_duration() {
    let place = Place::new();
    let script = r#"[ "$1" = "$(printf '0.1\377')" ] && exit 7"#;
    for verb in [&["record", "--for", "18446744073709551615s"][..], &["util"]] {
        let run = place.longpole(verb).args(["--", "sh", "-c", script, "sh"]).arg(OsStr::from_bytes(b"0.1\xff")).output().unwrap();
        assert_eq!(run.status.code(), Some(7), "{}", String::from_utf8_lossy(&run.stderr));
    }
    let told: serde_json::Value = serde_json::from_slice(&std::fs::read(place.newest().join("longpole.json")).unwrap()).unwrap();
    assert_eq!(told["command"][4], "0.1\u{fffd}");
}

#[test]
fn a_recording_without_an_event_fails_with_the_reason() {
    let place = Place::new();
    let run = place.longpole(&["record", "--for", "100ms"]).output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    let talk = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(talk.contains("no process with probes"), "{talk}");
}

/// Newest packet of each lane, by tid: its position in the ring, and the losses of the lane. The
/// layout is that of docs/formats/user-trace.md.
fn newest_packets(recording: &Path) -> BTreeMap<i32, (u64, u64)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(recording.join("user")).unwrap().map(Result::unwrap) {
        if entry.file_name() == "metadata" {
            continue;
        }
        let bytes = std::fs::read(entry.path()).unwrap();
        let mut at = 0;
        while at < bytes.len() {
            let word = |offset: usize| u64::from_ne_bytes(bytes[at + offset..at + offset + 8].try_into().unwrap());
            // The empty packet that covers the reserved range has no position.
            if word(80) != u64::MAX {
                all.insert((word(72) >> 32) as i32, (word(80), word(64)));
            }
            at += word(48) as usize / 8;
        }
    }
    all
}

#[test]
fn a_session_can_be_started_listed_and_stopped() {
    let place = Place::new();
    let program = place.build("numbered", &[]);
    // Threads that lose no event, and threads that lose some.
    for (buffer, events, losing) in [("4MiB", "1000", false), ("64KiB", "100000", true)] {
        ok(place.longpole(&["start", "--buffer", buffer]).output().unwrap());
        let status = ok(place.longpole(&["status", "--json"]).output().unwrap());
        assert!(String::from_utf8_lossy(&status.stdout).contains("traces"), "{status:?}");
        let child = Running::start(place.command(&program).args(["2", events, "0", "1", "linger"]).stdout(Stdio::piped()));
        let list = || -> serde_json::Value {
            let list = ok(place.longpole(&["list", "--json"]).output().unwrap());
            serde_json::from_slice(&list.stdout).unwrap()
        };
        let threads = |list: &serde_json::Value| list["subjects"][0]["threads"].as_array().cloned().unwrap_or_default();
        let number = |thread: &serde_json::Value, key: &str| thread[key].as_u64().unwrap();
        // Waits until both threads have emitted all events and the recorder has taken them.
        wait_for(|| {
            let files = rings(&place);
            let counts: Vec<u64> = files.iter().filter_map(|ring| counted(std::iter::once(ring))).collect();
            counts.len() == 2 && counts.iter().all(|count| count.to_string() == events) && files.iter().all(|ring| ring.head == ring.tail)
        });
        let recording = list();
        assert_eq!(recording["subjects"].as_array().unwrap().len(), 1, "{recording}");
        assert_eq!(recording["subjects"][0]["label"], "numbered");
        assert_eq!(recording["subjects"][0]["pid"], child.id());
        assert_eq!(recording["subjects"][0]["enabled"], true);
        assert_eq!(recording["subjects"][0]["refused"], 0);
        ok(place.longpole(&["stop"]).output().unwrap());
        let stopped = list();
        assert_eq!(stopped["subjects"][0]["enabled"], false);
        let files = rings(&place);
        let packets = newest_packets(&place.newest());
        for (list, state) in [(&recording, "recording"), (&stopped, "off")] {
            assert_eq!(threads(list).len(), 2, "{list}");
            for thread in threads(list) {
                assert_eq!(thread["state"], state, "{thread}");
                assert_eq!(thread["thread"], "numbered");
                let tid = thread["tid"].as_i64().unwrap() as i32;
                let file = files.iter().find(|ring| ring.tid == tid).unwrap();
                assert_eq!(number(&thread, "buffer"), file.size);
                // The recording itself contains the position that it has reached in this ring, and
                // the losses of the ring.
                assert_eq!((number(&thread, "recorded"), number(&thread, "lost")), packets[&tid], "{thread}");
                assert_eq!((number(&thread, "recorded"), number(&thread, "lost")), (file.tail, file.lost));
                assert_eq!(number(&thread, "pending"), 0);
            }
        }
        signal(&child, "-TERM");
        let emitted = emitted(&child.output());
        let (found, lost) = numbered(&place.newest());
        let recorded: u64 = found.values().map(|thread| thread.recorded).sum();
        assert_eq!(recorded + lost, emitted.values().sum::<u64>());
        assert_eq!(lost, threads(&stopped).iter().map(|thread| number(thread, "lost")).sum::<u64>());
        assert_eq!(lost > 0, losing, "{lost}");
        // The list of recordings shows the same numbers, in bytes.
        let list = ok(place.longpole(&["list", "--recordings", "--json"]).output().unwrap());
        let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
        let newest = list["recordings"].as_array().unwrap().last().unwrap();
        assert_eq!((number(newest, "recorded_bytes"), number(newest, "lost")), (recorded * 16, lost));
    }
}

#[test]
fn a_process_that_does_not_exist_is_refused() {
    let place = Place::new();
    let run = place.longpole(&["record", "--pid", "999999999"]).output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).contains("no process 999999999"));
    assert!(place.recordings().is_empty());
}

#[test]
fn recording_one_process_ends_with_it() {
    let place = Place::new();
    let program = place.build("numbered", &[]);
    let child = Running::start(place.command(&program).args(["1", "1500", "1000", "1"]).stdout(Stdio::piped()));
    let run = place.longpole(&["record", "--pid", &child.id().to_string()]).output().unwrap();
    child.output();
    assert!(ok(run).status.success());
    assert_eq!(numbered(&place.newest()).0.len(), 1);
}

#[test]
fn a_full_disk_costs_events_but_neither_the_recording_nor_the_status_of_the_command() {
    let place = Place::new();
    let program = place.build("frames", &[]);
    let (small, copy) = (place.path("small"), place.path("copy"));
    std::fs::create_dir(&small).unwrap();
    std::fs::create_dir(&copy).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=2m tmpfs {small} || exit 99
         LONGPOLE_ROOT={small} {longpole} record --kernel none --stacks none -- sh -c 'for i in 1 2 3; do echo 20000; sleep 0.2; done | {program}; exit 7'
         status=$?; cp -r {small}/* {copy}; exit $status",
        small = small.display(),
        copy = copy.display(),
        longpole = env!("CARGO_BIN_EXE_longpole"),
    );
    let run = place.command("unshare").args(["-r", "-m", "sh", "-c", &script]).output();
    let run = match run {
        Ok(run) if !matches!(run.status.code(), Some(1 | 99)) => run,
        _ => {
            println!("skipped: a recording on a full disk (no file system may be mounted here)");
            return;
        }
    };
    assert_eq!(run.status.code(), Some(7), "{}", String::from_utf8_lossy(&run.stderr));
    let recording = std::fs::read_dir(&copy).unwrap().next().unwrap().unwrap().path();
    let description: serde_json::Value = serde_json::from_slice(&std::fs::read(recording.join("longpole.json")).unwrap()).unwrap();
    assert!(description["end_ns"].is_u64(), "{description}");
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    assert!(number(&description["loss"]["packets"]) > 0, "{description}");
    // Each event was recorded or counted, both in the stream and in the description.
    let info = place.answer("info", &recording);
    assert!(number(&info["events"]) > 0);
    assert_eq!(number(&info["events"]) + number(&info["lost"]), 120_000, "{description}");
    assert_eq!(description["loss"]["events"], info["lost"]);
    // Each packet was captured, or counted as dropped at one of the interfaces. If a capture ended
    // inside a block, stderr would not be empty.
    let packets = ok(place.longpole(&["packets", "--json"]).arg(&recording).output().unwrap());
    assert_eq!(String::from_utf8_lossy(&packets.stderr), "");
    let packets: serde_json::Value = serde_json::from_slice(&packets.stdout).unwrap();
    let of = |interface: &serde_json::Value| {
        let ways = interface["directions"].as_array().unwrap();
        number(&interface["dropped"]) + ways.iter().map(|way| number(&way["packets"])).sum::<u64>()
    };
    assert_eq!(packets["interfaces"].as_array().unwrap().iter().map(of).sum::<u64>(), 120_000, "{packets}");
}

#[test]
fn a_recording_of_packets_only_that_captured_none_reports_this() {
    let place = Place::new();
    std::fs::write(place.path("policy.toml"), "[[policy]]\nglob = \"*\"\nbackends = [\"pcapng\"]\n").unwrap();
    let config = place.path("policy.toml");
    let record = ["record", "-c", config.to_str().unwrap(), "--"];
    let program = place.build("numbered", &[]);
    let run = place.longpole(&record).args([&program, "1", "50"]).output().unwrap();
    let told = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{told}");
    assert!(told.contains("nothing was recorded: no packet was captured"), "{told}");

    let program = place.build("frames", &[]);
    let run = ok(place.longpole(&record).args(["sh", "-c", &format!("echo 50 | {program}")]).output().unwrap());
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(told.contains("100 packets captured"), "{told}");
}

#[test]
fn a_thread_that_is_named_after_its_first_event_is_shown_with_its_name() {
    let place = Place::new();
    let program = place.build("named", &[]);
    for (name, events) in [("brief", 1u32), ("longer", 40)] {
        ok(place.longpole(&["record", "--", &program, name, &events.to_string()]).output().unwrap());
        let mut trace = Trace::open(&[place.newest()], Options::default()).unwrap();
        let mut names: BTreeMap<String, u32> = BTreeMap::new();
        while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
            let Item::Event(event) = item else { continue };
            *names.entry(catalogue.subjects[event.subject.0 as usize].thread.clone()).or_default() += 1;
        }
        // The event before the thread was named belongs to the same thread.
        assert_eq!(names, BTreeMap::from([(name.to_owned(), events + 1)]));
    }
}

#[test]
fn threads_do_not_wait_forever_for_the_table_of_their_process() {
    let place = Place::new();
    let program = place.build("stuck", &[]);
    // The program ends.
    let run = ok(place.longpole(&["record", "--", &program]).output().unwrap());
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(
        told.contains("1000 events had no ring and are lost: no ring was available: other threads of the process held the table of rings"),
        "{told}"
    );
    // The same holds if the recorder looks at the process only later.
    let mut recorder = place.recorder(&["--all"]);
    signal(&recorder, "-STOP");
    ok(place.command(&program).output().unwrap());
    signal(&recorder, "-CONT");
    wait_for(|| std::fs::read_dir(place.path("runtime")).unwrap().count() == 2);
    signal(&recorder, "-INT");
    recorder.wait().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&std::fs::read(place.newest().join("longpole.json")).unwrap()).unwrap();
    assert_eq!(told["loss"]["refused"], 1000);
}
