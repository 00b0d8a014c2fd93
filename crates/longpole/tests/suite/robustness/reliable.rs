//! Probes in a program's difficult situations: signals, jumps out of handlers, forks, threads that
//! are cancelled, libraries that are unloaded.
//!
//! Each event that was tried is recorded or counted as lost, and none is torn. The program behaves
//! as it would without probes, and nothing is written outside of the runtime directory and the
//! recording. `make soak` runs the long forms and prints figures; docs/internals/reliability.md has
//! a table of them.

use crate::support::commanded::{description, CommandedProgram, Session};
use crate::support::place::{signal, wait_for, Place, Running};
use crate::support::tried::{left_behind, long_or_short, soak, Held, Tried};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// Options for rings so large that no event is lost. Every event must then be recorded.
const ROOM: &[&str] = &["--buffer", "4MiB"];

#[test]
fn ten_thousand_signals_a_second_into_a_thread_with_probes_cost_no_event() {
    let place = Place::new();
    for (language, by, options) in [("c", "timer", ROOM), ("c", "thread", &[]), ("cpp", "thread", ROOM), ("cpp", "timer", &[])] {
        let program = place.build_as(language, "reliable", &[]);
        let wanted = long_or_short(100_000, 1000);
        let tried = Tried::record(&place, options, &[&program, "signals", by, &wanted]);
        let (delivered, asked) = (tried.said["handler"], tried.said["asked"]);
        if soak() {
            println!("figures: signals, {language}, by {by}: {delivered} of {asked} delivered");
        }
        tried.assert_all_counted(&format!("signals, {language}, by {by}"), &["main", "handler", "log"], 0);
        assert!(delivered >= wanted.parse().unwrap(), "{delivered} of {asked}");
    }
}

#[test]
fn a_handler_that_leaves_an_interrupted_probe_by_a_jump_costs_only_that_event() {
    let place = Place::new();
    for (language, stack) in [("c", "plain"), ("cpp", "stack")] {
        let program = place.build_as(language, "reliable", &[]);
        let tried = Tried::record(&place, ROOM, &[&program, "jumps", stack, &long_or_short(20_000, 1000)]);
        let left = tried.said["left"];
        tried.assert_all_counted(&format!("jumps, {language}, {stack}"), &["main", "handler"], left);
        assert!(left > 10, "{left}: the handlers came too seldom");
        // Events of handlers that were set aside are not lost with the interrupted probe.
        let handlers = tried.held.of("handler").recorded;
        assert!(handlers == tried.said["handler"] || handlers + tried.held.lost >= tried.said["handler"], "{handlers}: {:?}", tried.said);
    }
}

#[test]
fn a_probe_that_begins_a_sub_buffer_may_be_left_after_any_instruction() {
    let place = Place::new();
    for language in ["c", "cpp"] {
        let program = place.build_as(language, "reliable", &[]);
        // The ring keeps its first size: a thread that changes to a larger ring blocks signals, and
        // a single-step trap would then end the program.
        let tried = Tried::record(&place, &["--buffer", "32KiB"], &[&program, "steps", "400"]);
        let left = tried.said["left"];
        tried.assert_all_counted(&format!("steps, {language}"), &["main", "handler"], left);
        assert!(left > 100 || cfg!(not(target_arch = "x86_64")), "{left}: a probe that begins a sub-buffer has more instructions");
    }
}

#[test]
fn handlers_that_interrupt_a_probe_after_any_two_instructions_keep_the_order_of_their_events() {
    let place = Place::new();
    for language in ["c", "cpp"] {
        let program = place.build_as(language, "reliable", &[]);
        // As above, the ring keeps its first size.
        let tried = Tried::record(&place, &["--buffer", "32KiB"], &[&program, "interrupts", "400"]);
        tried.assert_all_counted(&format!("interrupts, {language}"), &["main", "handler"], 0);
    }
}

#[test]
fn children_of_every_kind_of_fork_write_into_rings_of_their_own() {
    let place = Place::new();
    let ways = ["fork", "clone", "clone3", "files", "vfork", "shared", "exec", "spawn"];
    for (nth, way) in ways.into_iter().enumerate() {
        let program = place.build_as(if nth % 2 == 0 { "c" } else { "cpp" }, "reliable", &[]);
        let tried = Tried::record(&place, ROOM, &[&program, "forks", way, &long_or_short(2000, 40), "100"]);
        let names: &[&str] = if way == "exec" { &["main", "other", "child", "before"] } else { &["main", "other", "child"] };
        tried.assert_all_counted(&format!("forks, {way}"), names, 0);
        let pids = |name: &str| tried.held.of(name).threads.keys().map(|thread| thread.0).collect::<std::collections::BTreeSet<_>>();
        // A child that shares its parent's memory counts as its parent. The parent has emitted one
        // event "child" as well.
        let children = if matches!(way, "vfork" | "shared") { 1 } else { 1 + long_or_short(2000, 40).parse::<usize>().unwrap() };
        assert_eq!((pids("main").len(), pids("other").len(), pids("child").len()), (1, 1, children), "{way}");
        let parent = tried.held.of("child").threads.iter().find(|(thread, _)| pids("main").contains(&thread.0)).map(|(_, count)| *count);
        assert_eq!(parent, Some(if children == 1 { tried.said["child"] } else { 1 }), "{way}");
    }
}

#[test]
fn a_handler_that_forks_in_a_probe_leaves_the_parents_ring_to_the_parent() {
    let place = Place::new();
    let program = place.build("reliable", &[]);
    for way in ["fork", "clone"] {
        let mut tried = Tried::record(&place, ROOM, &[&program, "handler", way, &long_or_short(2000, 100)]);
        // A child that was made at the begin of a probe emits that event, too, as its own.
        let main = tried.held.of("main");
        let twice = main.recorded - main.threads.values().max().unwrap();
        assert!(twice <= tried.said["child"] / 20, "{main:?}");
        // An event of the child may have had no ring, if the child was made just after the lookup
        // of its parent's ring.
        tried.said.insert("twice".to_owned(), twice + tried.refused);
        tried.assert_all_counted(&format!("fork in a handler, {way}"), &["main", "child", "twice"], 0);
    }
}

#[test]
fn events_of_a_vfork_child_belong_to_the_thread_that_waits_for_it() {
    let place = Place::new();
    let program = place.build("reliable", &[]);
    let tried = Tried::record(&place, ROOM, &[&program, "first"]);
    let tid = tried.said["tid"] as i32;
    assert_eq!(tried.held.of("child").threads, [((tid, tid), 10)].into());
    assert_eq!(tried.held.of("main").threads, [((tid, tid), 20)].into());
    assert_eq!((tried.held.of("main").recorded, tried.held.of("child").recorded, tried.held.torn()), (20, 10, 0));
    let tried = Tried::record(&place, ROOM, &[&program, "ended"]);
    tried.assert_all_counted("children of vfork that are killed in a probe", &["main"], 0);
    assert_eq!(tried.held.lost, 0);
}

#[test]
fn short_lived_threads_share_rings_and_memory_stays_bounded() {
    let place = Place::new();
    let program = place.build_as("cpp", "reliable", &[]);
    for (count, at_once) in if soak() { [(10_000, 40), (10_000, 2000)] } else { [(1000, 40), (600, 200)] } {
        let (threads, once) = (count.to_string(), at_once.to_string());
        let tried = Tried::record(&place, &[], &[&program, "threads", &threads, &once, "30"]);
        tried.assert_all_counted(&format!("threads, {at_once} at once"), &["thread"], 0);
        assert_eq!(tried.held.lost, 0);
        if soak() {
            println!("figures: threads, {at_once} at once: {} events had no ring", tried.refused);
        }
        let lanes = std::fs::read_dir(tried.recording.join("user")).unwrap().count() - 1;
        let (half, last) = (tried.said["resident_half"], tried.said["resident_last"]);
        if soak() {
            println!("figures: threads, {at_once} at once: {lanes} lanes; program {half} KiB after half of them, {last} KiB at the end");
        }
        // A thread does not take over a ring that the recorder has not emptied yet, and on a busy
        // host the recorder comes late.
        assert!(lanes <= 8 * at_once, "{lanes} lanes");
        assert!(last < half + 4096, "{half} KiB, then {last} KiB");
        assert!(
            tried.files < 64 + 8 * at_once && tried.resident_kib < 65_536 + 200 * at_once as u64,
            "{} {}",
            tried.files,
            tried.resident_kib
        );
    }
}

#[test]
fn threads_that_end_in_any_way_leave_their_events_and_their_rings() {
    let place = Place::new();
    let program = place.build("reliable", &[]);
    let tried = Tried::record(&place, &[], &[&program, "silent", &long_or_short(5000, 300), "30"]);
    // The last thread may have emitted something before the process ended.
    let more = tried.held.of("thread").recorded.saturating_sub(tried.said["thread"]);
    assert!(more <= 30, "{more}");
    assert_eq!((tried.held.of("thread").recorded - more, tried.held.lost, tried.outside), (tried.said["thread"], 0, 0));
    let lanes = std::fs::read_dir(tried.recording.join("user")).unwrap().count() - 1;
    // Until the recorder looks at it, a ring has room for the events of four threads. Rings that
    // were not returned are found when there are twice as many rings as before.
    let threads = tried.held.of("thread").series.len();
    assert!(lanes < 16 + threads / 2, "{lanes} lanes of {threads} threads");
    if soak() {
        println!(
            "figures: threads without a word: {} events tried, all recorded, {lanes} lanes, {} KiB",
            tried.said["thread"], tried.said["resident_last"]
        );
    }
}

#[test]
fn threads_that_are_cancelled_in_a_probe_cost_only_that_event() {
    let place = Place::new();
    for language in ["c", "cpp"] {
        let program = place.build_as(language, "reliable", &[]);
        let tried = Tried::record(&place, ROOM, &[&program, "cancelled", &long_or_short(10_000, 60)]);
        tried.assert_all_counted(&format!("cancelled threads, {language}"), &["thread"], tried.said["left"]);
    }
}

#[test]
fn destructors_that_emit_after_the_ring_was_returned_are_recorded() {
    let place = Place::new();
    let program = place.build("reliable", &[]);
    let tried = Tried::record(&place, &[], &[&program, "destructors", &long_or_short(5000, 300)]);
    let recorded = |name: &str| tried.held.of(name).recorded;
    assert_eq!((recorded("destructor"), recorded("thread"), tried.held.lost), (tried.said["destructor"], tried.said["thread"], 0));
    let lanes = std::fs::read_dir(tried.recording.join("user")).unwrap().count() - 1;
    // A thread that returns its ring after each event takes a part of a ring each time.
    assert!(
        (lanes as u64) < 16 + (tried.said["destructor"] + tried.said["thread"]) / 3,
        "{lanes} lanes of threads that lived one after the other"
    );
}

#[test]
fn a_library_that_is_loaded_and_unloaded_leaves_its_names_and_the_ring_of_its_thread() {
    let place = Place::new();
    for language in ["c", "cpp"] {
        let library = place.build_as("c", "library", &["-shared", "-fPIC"]);
        let program = place.build_as(language, "reliable", &["-ldl"]);
        let tried = Tried::record(&place, &[], &[&program, "library", &library, &long_or_short(2000, 200)]);
        tried.assert_all_counted(&format!("a library, {language}"), &["library", "main", "many", "other"], 0);
        // A library that was unloaded does not keep the thread from getting a larger ring.
        assert!(tried.said["ring"] > 32768, "{:?}", tried.said);
        let lanes = std::fs::read_dir(tried.recording.join("user")).unwrap().count() - 1;
        assert!(lanes <= 4, "three threads, {lanes} lanes");
    }
}

#[test]
fn a_thread_with_probes_in_two_libraries_gets_a_larger_ring_like_any_other() {
    let place = Place::new();
    for (language, other) in [("c", "cpp"), ("cpp", "c")] {
        let library = place.build_as(other, "library", &["-shared", "-fPIC"]);
        let program = place.build_as(language, "reliable", &["-ldl"]);
        let tried = Tried::record(&place, &[], &[&program, "libraries", &library, &long_or_short(1_000_000, 50_000)]);
        tried.assert_all_counted(&format!("two libraries, {language}"), &["main", "library"], 0);
        assert!(tried.said["ring"] > 32768, "{:?}", tried.said);
    }
}

#[test]
fn processes_that_begin_and_end_leave_their_events_and_nothing_else() {
    let place = Place::new();
    let program = place.build_as("cpp", "reliable", &[]);
    let count = long_or_short(10_000, 400);
    let tried = Tried::record(&place, &[], &[&program, "processes", &count, "20"]);
    tried.assert_all_counted("processes", &["child"], 0);
    assert_eq!((tried.held.lost, tried.held.of("child").threads.len().to_string()), (0, count));
    assert!(tried.files < 1000 && tried.resident_kib < 200_000, "{} files, {} KiB", tried.files, tried.resident_kib);
    // The same with an executed program in each process.
    let count = long_or_short(3000, 100);
    let tried = Tried::record(&place, &[], &[&program, "forks", "spawn", &count, "5"]);
    tried.assert_all_counted("processes that are executed", &["main", "other", "child"], 0);
    assert!(tried.files < 1000, "{}", tried.files);
}

#[test]
fn programs_that_end_return_the_memory_of_their_larger_rings() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let session = Session::start(&place, &[]);
    let largest_of = |stem: &str| {
        let entries = std::fs::read_dir(place.path("runtime")).unwrap().flatten();
        let its = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(stem));
        its.filter_map(|entry| Some(entry.metadata().ok()?.len())).max()
    };
    // Together the programs have more memory in rings than one session may have at a time.
    for nth in 0..130 {
        let mut program = CommandedProgram::start(&place, &program);
        let stem = format!("{}-", program.pid());
        let grown = (0..2000).any(|_| {
            program.does("marks 10000");
            sleep(Duration::from_millis(2));
            largest_of(&stem) > Some(4 << 20)
        });
        assert!(grown, "program {nth} had no larger ring");
        program.end();
    }
    let diagnostics = description(&session.stop())["diagnostics"].to_string();
    assert!(!diagnostics.contains("larger rings together may use"), "{diagnostics}");
}

#[test]
fn a_stopped_program_continues_where_it_was_and_also_in_the_next_recording() {
    let place = Place::new();
    let program = place.build("numbered", &[]);
    let child = Running::start(place.command(&program).args(["3", "1000000000000", "100", "50"]).stdout(Stdio::piped()));
    wait_for(|| std::fs::read_dir(format!("/proc/{}/task", child.id())).is_ok_and(|tasks| tasks.count() == 4));
    let (mut recorded, mut lost, mut torn) = (0, 0, 0);
    let rounds = if soak() { 20 } else { 4 };
    for round in 0..rounds {
        let mut recorder = place.recorder(&["--all"]);
        wait_for(|| left_behind(&place).iter().any(|name| name.ends_with(".ring")));
        sleep(Duration::from_millis(60));
        signal(&child, "-STOP");
        sleep(Duration::from_millis(if soak() { 500 } else { 60 }));
        // Every other recording ends while the program is stopped, possibly in the middle of a
        // probe, and the next recording begins in this state.
        if round % 2 == 0 {
            signal(&child, "-CONT");
            sleep(Duration::from_millis(60));
        }
        signal(&recorder, "-INT");
        assert!(recorder.wait().unwrap().success());
        let held = Held::read(&place.newest());
        (recorded, lost, torn) = (recorded + held.recorded(), lost + held.lost, torn + held.torn());
        if round % 2 == 1 && round + 1 < rounds {
            let continued = place.recorder(&["--all"]);
            signal(&child, "-CONT");
            sleep(Duration::from_millis(60));
            let mut continued = continued;
            signal(&continued, "-INT");
            assert!(continued.wait().unwrap().success());
            let held = Held::read(&place.newest());
            (recorded, lost, torn) = (recorded + held.recorded(), lost + held.lost, torn + held.torn());
        }
    }
    signal(&child, "-CONT");
    sleep(Duration::from_millis(60));
    signal(&child, "-TERM");
    let output = child.output();
    let said = String::from_utf8(output.stdout).unwrap();
    let tried: u64 = said.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    let faults = u64::from(!output.status.success());
    if soak() {
        println!(
            "figures: a program that is stopped: {tried} events tried, {recorded} recorded, {lost} lost, {torn} torn, {faults} faults"
        );
    }
    assert_eq!((torn, faults), (0, 0));
    // A probe that was stopped until its recording had ended left its event in the ring: at most
    // one event per thread and stop.
    let difference = tried - recorded - lost;
    assert!(difference <= 3 * rounds, "{tried} tried, {recorded} recorded, {lost} lost");
}
