//! Disks that fail, fill up, stop answering, or disappear during a recording. Events of the
//! programs are recorded or counted as lost, the programs continue, and the problem is reported.

use crate::support::faulty::FaultyMount;
use crate::support::figures::{soak, Figures};
use crate::support::place::{ok, signal, wait_for, Place, Running};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// A program whose threads write for a while and then wait for SIGTERM.
fn busy(place: &Place, events: &str) -> Running {
    let program = place.build("numbered", &[]);
    Running::start(place.command(program).args(["3", events, "1000", "40", "linger"]).stdout(Stdio::piped()))
}

/// Ends a program and adds its own numbers to the figures.
fn end(program: Running, figures: &mut Figures) {
    signal(&program, "-TERM");
    figures.ended(&program.output());
}

/// A recorder that writes to `target`. Its messages are read after its end.
fn recorder(place: &Place, target: &Path, more: &[&str]) -> Running {
    let arguments = [&["--all", "-o", target.to_str().unwrap()], more].concat();
    place.recorder(&arguments)
}

fn said(mut recorder: Running) -> String {
    let mut said = String::new();
    std::io::Read::read_to_string(&mut recorder.stderr.take().unwrap(), &mut said).unwrap();
    said + &format!("{}", recorder.wait().unwrap())
}

fn only(folder: &Path) -> PathBuf {
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// Number of events that the threads of a program have emitted until now, from the counters in
/// their rings.
fn emitted(place: &Place) -> u64 {
    let rings = fs::read_dir(place.path("runtime"))
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "ring"));
    rings
        .filter_map(|entry| fs::read(entry.path()).ok())
        .filter(|bytes| bytes.len() > 4096)
        .map(|bytes| {
            let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
            word(56) + word(32)
        })
        .sum()
}

#[test]
fn a_disk_that_stops_answering_costs_events_but_no_time_of_the_programs() {
    let place = Place::new();
    let Some(disk) = FaultyMount::mount(&place.path("backing"), &place.path("disk"), "a disk that stands still") else { return };
    let mut figures = Figures::default();
    let recorder = recorder(&place, &place.path("disk"), &[]);
    let early = busy(&place, "2000000000");
    wait_for(|| emitted(&place) > 10_000);
    disk.fault.stall(true);
    wait_for(|| disk.fault.hits() > 0);
    // A program that begins now has no recorder at first, and ends before the disk answers.
    let program = place.build("numbered", &[]);
    let late = Running::start(place.command(&program).args(["2", "300000", "200", "40"]).stdout(Stdio::piped()));
    figures.ended(&late.output());
    let before = emitted(&place);
    wait_for(|| emitted(&place) > before + 10_000);
    sleep(Duration::from_secs(if soak() { 10 } else { 1 }));
    disk.fault.stall(false);
    end(early, &mut figures);
    signal(&recorder, "-INT");
    let said = said(recorder);
    assert!(said.contains("exit status: 0"), "{said}");
    figures.add(Figures::of(&only(&place.path("disk"))));
    figures.add_bytes_outside(&place, &["backing", "disk", "numbered"]);
    assert!(figures.lost > 0, "the disk stood still for too short a time");
    figures.hold("a disk that stands still");
}

#[test]
fn a_recorder_whose_disk_does_not_answer_ends_on_a_signal_and_the_next_one_continues() {
    let place = Place::new();
    let Some(disk) = FaultyMount::mount(&place.path("backing"), &place.path("disk"), "a disk that does not answer") else { return };
    let mut figures = Figures::default();
    let recorder = recorder(&place, &place.path("disk"), &[]);
    let program = busy(&place, "2000000000");
    wait_for(|| emitted(&place) > 10_000);
    disk.fault.stall(true);
    wait_for(|| disk.fault.hits() > 0);
    signal(&recorder, "-INT");
    // The recorder prints what it waits for. It ends as soon as the kernel permits that: at the
    // first answer of the disk, success or error.
    let mut recorder = recorder;
    let mut lines = BufReader::new(recorder.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("does not answer, and the end was requested")), "it ended without a word");
    disk.fault.stall(false);
    assert_eq!(recorder.wait().unwrap().code(), Some(130));
    let next = place.recorder(&["--all"]);
    let before = emitted(&place);
    wait_for(|| emitted(&place) > before + 10_000);
    end(program, &mut figures);
    signal(&next, "-INT");
    assert!(said_well(next));
    figures.add(Figures::of(&only(&place.path("disk"))));
    figures.add(Figures::of(&place.newest()));
    figures.add_bytes_outside(&place, &["backing", "disk", "numbered"]);
    figures.hold("a recorder whose disk does not answer, and its successor");
}

fn said_well(recorder: Running) -> bool {
    let said = said(recorder);
    said.contains("exit status: 0") || panic!("{said}")
}

#[test]
fn errors_of_the_disk_cost_events_only_while_they_last() {
    for (errno, what) in [(libc::EIO, "Input/output error"), (libc::EROFS, "Read-only file system"), (libc::ENOSPC, "No space left")] {
        let place = Place::new();
        let Some(disk) = FaultyMount::mount(&place.path("backing"), &place.path("disk"), "a disk that fails") else { return };
        let mut figures = Figures::default();
        let recorder = recorder(&place, &place.path("disk"), &[]);
        let early = busy(&place, "2000000000");
        wait_for(|| emitted(&place) > 10_000);
        disk.fault.fail(errno);
        wait_for(|| disk.fault.hits() > 5);
        // This program's probe sites are new, so the metadata would have to grow, which fails as
        // well.
        let other = place.build("named", &[]);
        ok(place.command(other).args(["brief", "20"]).output().unwrap());
        sleep(Duration::from_millis(if soak() { 3000 } else { 300 }));
        disk.fault.fail(0);
        let before = emitted(&place);
        wait_for(|| emitted(&place) > before + 10_000);
        end(early, &mut figures);
        signal(&recorder, "-INT");
        let said = said(recorder);
        assert!(said.contains("exit status: 0") && said.contains(what), "{said}");
        let recording = only(&place.path("disk"));
        figures.add(of_numbered(&recording));
        figures.add_bytes_outside(&place, &["backing", "disk", "numbered", "named"]);
        assert!(figures.lost > 0);
        figures.hold(what);
    }
}

/// Figures of the program "numbered", without the losses of other programs.
fn of_numbered(recording: &Path) -> Figures {
    let mut figures = Figures::of(recording);
    let description: serde_json::Value = serde_json::from_slice(&fs::read(recording.join("longpole.json")).unwrap()).unwrap();
    let lanes = description["lanes"].as_array().unwrap();
    let others: u64 = lanes.iter().filter(|lane| lane["label"] != "numbered").map(|lane| lane["lost"].as_u64().unwrap()).sum();
    figures.lost -= others;
    figures
}

#[test]
fn a_target_that_cannot_be_written_is_refused_before_anything_runs() {
    let place = Place::new();
    let (target, ran) = (place.path("disk"), place.path("ran"));
    fs::create_dir(&target).unwrap();
    let script = format!(
        "mount -t tmpfs -o ro tmpfs {target} || exit 99
         {longpole} record --kernel none --stacks none -o {target} -- touch {ran}; echo $?
         {longpole} record --kernel none --stacks none -o {target} --for 10s; echo $?",
        target = target.display(),
        ran = ran.display(),
        longpole = env!("CARGO_BIN_EXE_longpole"),
    );
    let run = place.command("unshare").args(["-r", "-m", "sh", "-c", &script]).output().unwrap();
    if run.status.code() == Some(99) || !run.status.success() {
        println!("skipped: a read-only target (no file system may be mounted here)");
        return;
    }
    let told = String::from_utf8_lossy(&run.stderr);
    assert_eq!(String::from_utf8_lossy(&run.stdout), "125\n1\n", "{told}");
    assert_eq!(told.matches("Read-only file system").count(), 2, "{told}");
    assert!(told.contains(target.to_str().unwrap()) && !ran.exists(), "{told}");
}

#[test]
fn a_recording_that_is_moved_continues_in_its_new_place_and_writes_nowhere_else() {
    let place = Place::new();
    let mut figures = Figures::default();
    let recorder = place.recorder(&["--all"]);
    let early = busy(&place, "2000000000");
    wait_for(|| emitted(&place) > 10_000);
    let (before, after, elsewhere) = (place.newest(), place.path("moved"), place.path("elsewhere"));
    // The old path is now a link to a folder with the same subfolders.
    fs::create_dir_all(elsewhere.join("user")).unwrap();
    fs::create_dir_all(elsewhere.join("packets")).unwrap();
    fs::rename(&before, &after).unwrap();
    symlink(&elsewhere, &before).unwrap();
    // This program needs new lanes.
    let program = place.build("numbered", &[]);
    figures.ended(&place.command(&program).args(["4", "5000", "100", "10"]).output().unwrap());
    wait_for(|| {
        let status = ok(place.longpole(&["status", "--json"]).output().unwrap());
        String::from_utf8_lossy(&status.stdout).contains(after.to_str().unwrap())
    });
    end(early, &mut figures);
    signal(&recorder, "-INT");
    let said = said(recorder);
    assert!(said.contains("exit status: 0") && said.contains(&format!(" to {}", after.display())), "{said}");
    assert!(said.contains(&format!("recording: {}", after.display())), "{said}");
    figures.add(Figures::of(&after));
    let strangers = |folder: &str| fs::read_dir(elsewhere.join(folder)).unwrap().count() as u64;
    figures.outside += strangers("") - 2 + strangers("user") + strangers("packets");
    figures.add_bytes_outside(&place, &["moved", "elsewhere", "numbered"]);
    let description: serde_json::Value = serde_json::from_slice(&fs::read(after.join("longpole.json")).unwrap()).unwrap();
    assert!(description["end_ns"].is_u64(), "{description}");
    figures.hold("a recording that is moved");
}

#[test]
fn a_recording_that_is_removed_ends_with_a_message() {
    let place = Place::new();
    let program = place.build("numbered", &[]);
    // The recorder nevertheless exits with the command's status.
    let script = format!("{program} 2 200000 1000 40; exit 7");
    let recorder = Running::start(place.longpole(&["record", "--", "sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped()));
    wait_for(|| emitted(&place) > 1000);
    fs::remove_dir_all(place.newest()).unwrap();
    let said = said(recorder);
    assert!(said.contains("its folder was removed") && said.contains("continues without being recorded"), "{said}");
    assert!(said.contains("exit status: 7"), "{said}");
    let mut figures = Figures::default();
    figures.add_bytes_outside(&place, &["numbered"]);
    assert_eq!((figures.outside, place.recordings().len()), (0, 0));
}

#[test]
fn a_small_shared_memory_costs_events_but_no_fault() {
    let place = Place::new();
    let program = place.build("numbered", &[]);
    // Three cases: rings of 4 MiB, of which three fit; a memory that fills up while rings exist; a
    // memory that is full from the beginning.
    let events = if soak() { "2000000" } else { "100000" };
    let script = format!(
        "mount -t tmpfs -o size=16m tmpfs /dev/shm || exit 99
         {longpole} record --kernel none --stacks none --buffer 4MiB -- {program} 8 {events} 100 10 > {out}/large || exit 1
         {longpole} record --kernel none --stacks none -- sh -c '{program} 4 {events} 100 10 > {out}/filling & sleep 0.2; cat /dev/zero > /dev/shm/fill 2>/dev/null; {program} 2 1000 > {out}/late; wait $!; test $? = 0; rm /dev/shm/fill; {program} 2 1000 > {out}/after' || exit 2
         cat /dev/zero > /dev/shm/fill 2>/dev/null
         {longpole} record --kernel none --stacks none -- {program} 2 1000 > {out}/full; echo $? > {out}/status",
        longpole = env!("CARGO_BIN_EXE_longpole"),
        out = place.path("").display(),
    );
    let run = place.command("unshare").args(["-r", "-m", "sh", "-c", &script]).env_remove("LONGPOLE_RUNTIME_DIR").output().unwrap();
    let told = String::from_utf8_lossy(&run.stderr).into_owned();
    if run.status.code() == Some(99) || told.contains("unshare failed") {
        println!("skipped: a shared memory of 16 MiB (no file system may be mounted here)");
        return;
    }
    assert!(run.status.success(), "{}: {told}", run.status);
    let recordings = place.recordings();
    let tried = |name: &str| {
        let mut figures = Figures::default();
        figures.ended(&std::process::Output {
            status: Default::default(),
            stdout: fs::read(place.path(name)).unwrap(),
            stderr: Vec::new(),
        });
        figures.tried
    };
    let check = |recording: &Path, tried: u64, what: &str| {
        let mut figures = Figures::of(recording);
        let description: serde_json::Value = serde_json::from_slice(&fs::read(recording.join("longpole.json")).unwrap()).unwrap();
        // Events for which there was no ring are in no stream.
        let refused = description["loss"]["refused"].as_u64().unwrap();
        figures.tried = tried;
        figures.lost += refused;
        figures.hold(&format!("{what} ({refused} events had no ring)"));
        refused
    };
    assert!(check(&recordings[0], tried("large"), "eight rings of 4 MiB in 16 MiB") > 0, "{told}");
    assert_eq!(told.matches("no memory for a ring (No space left on device").count(), 1, "{told}");
    check(&recordings[1], tried("filling") + tried("late") + tried("after"), "a memory that fills up and is emptied");
    assert_eq!(tried("after"), 2000);
    // No program could be recorded, and the reason is printed.
    let full = told.rsplit("recording: ").next().unwrap_or_default();
    println!("{full}");
    assert_eq!(fs::read_to_string(place.path("status")).unwrap(), "1\n", "{told}");
}
