//! Damage to files of the runtime directory while they are in use. The recorder continues, names
//! the cause, and records the programs that behave correctly. Files that are damaged from the start
//! are in `hostile.rs`.

use crate::support;
use crate::support::{figures, soak, sum, until, Count, Place, Running};
use std::fs::{self, File};
use std::os::unix::fs::{symlink, FileExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// Counts of one program in a recording.
fn count(recording: &Path, pid: i32) -> Count {
    let mut all = Count::default();
    sum(&[recording]).into_iter().filter(|(key, _)| key.0 == pid).for_each(|(_, count)| all.add(count));
    all
}

/// Copy of a recording with only the lanes of one label; other lanes may hold anything.
fn lanes_of(recording: &Path, label: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    fs::create_dir(copy.path().join("user")).unwrap();
    for entry in fs::read_dir(recording.join("user")).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name == "metadata" || name.starts_with(label) {
            fs::copy(entry.path(), copy.path().join("user").join(name)).unwrap();
        }
    }
    copy
}

/// Records two correct programs while `meanwhile` causes damage, and checks their counts. Returns
/// the recorder's diagnostics. `known`: files that `meanwhile` makes.
fn behaves_next_to(what: &str, place: &Place, known: &[&str], meanwhile: impl FnOnce()) -> Vec<String> {
    // The lanes of the correct programs are compared below, without the others.
    place.damages();
    let mut recorder = place.recorder("0", None);
    let early = Running::start(&mut place.numbered(2, 0, 100, 1000, "early"));
    // Wait until the recorder has taken up the process and knows its class.
    until(|| place.begun("early", 2) && support::classes(&recorder.path).contains_key("mark:numbered"));
    meanwhile();
    let late = Running::start(&mut place.numbered(2, 30_000, 100, 1000, "late"));
    let (early_pid, late_pid) = (early.pid(), late.pid());
    let mut faults = late.ended();
    assert!(recorder.is_alive(), "{what}: the recorder died");
    faults += early.killed();
    let ended = recorder.finish();
    let clean = lanes_of(&ended.path, "numbered");
    let (early, late) = (count(clean.path(), early_pid), count(clean.path(), late_pid));
    let mut all = early;
    all.add(late);
    // Without a session file, the process may be recorded only some time after its start.
    let came = place.met("late", 0) + place.met("late", 1);
    assert_eq!(late.recorded + late.lost, came, "{what}: {:?}", ended.diagnostics);
    assert!(came > 0, "{what}: it was never recorded");
    let mut tried = place.met("early", 0) + place.met("early", 1);
    // Each of the killed program's threads may have completed one more event.
    let found = early.recorded + early.lost;
    if (1..=2).contains(&found.saturating_sub(tried)) {
        tried = found;
    }
    figures(what, tried + came, all, faults, place.outside(&[&["early", "late"], known].concat()));
    support::alike_except_damage(clean.path());
    ended.diagnostics
}

fn said(diagnostics: &[String], what: &str) {
    assert!(diagnostics.iter().any(|diagnostic| diagnostic.contains(what)), "{what}: {diagnostics:?}");
}

#[test]
fn a_program_that_overwrites_its_files_while_they_are_read_harms_only_itself() {
    for seed in 0..if soak() { 10 } else { 2 } {
        let place = Place::new();
        let millis = if soak() { "3000" } else { "300" };
        behaves_next_to("a program that scribbles into its control file and rings", &place, &[], || {
            let mut scribbler = place.program("scribbler", &[millis, &seed.to_string()]);
            // The program may crash because of its own rings.
            let _ = scribbler.status().unwrap();
        });
    }
}

#[test]
fn a_truncated_site_table_costs_only_the_classes_that_were_not_read_before() {
    let place = Place::new();
    let diagnostics = behaves_next_to("a site table that is cut off and put back", &place, &[], || {
        let path = place.runtime().join("sites");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut whole = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut whole, 0).unwrap();
        file.set_len(0).unwrap();
        // A program that reads the table now would be killed by SIGBUS, as by a truncated library.
        // The recorder reads it all the time.
        std::thread::sleep(std::time::Duration::from_millis(300));
        file.write_all_at(&whole, 0).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o400)).unwrap();
        assert!(place.program("packets", &["3"]).status().unwrap().success());
    });
    said(&diagnostics, "the site table was cut off");
}

#[test]
fn events_of_a_replaced_site_table_are_distinguished_or_left_out() {
    let place = Place::new();
    let diagnostics = behaves_next_to("a site table that is replaced", &place, &[], || {
        fs::remove_file(place.runtime().join("sites")).unwrap();
        // The program makes a new table, with classes that the first one does not have.
        assert!(place.program("packets", &["3"]).status().unwrap().success());
    });
    said(&diagnostics, "site table was replaced");
}

#[test]
fn a_recorder_without_a_site_table_leaves_out_events_of_unknown_classes() {
    let place = Place::new();
    let first = place.recorder("0", None);
    let early = Running::start(&mut place.numbered(2, 0, 100, 1000, "early"));
    until(|| place.begun("early", 2));
    first.kill();
    fs::remove_file(place.runtime().join("sites")).unwrap();
    let second = place.recorder("0", None);
    let before = place.met("early", 0);
    until(|| place.met("early", 0) > before + 1000);
    early.kill();
    let ended = second.finish();
    // The recording is readable, although events are missing.
    assert!(ended.lost > 0 && ended.recorded == 0, "{:?}", ended.diagnostics);
    if let Some((read, said)) = support::tool("babeltrace2", &[Path::new("-o"), Path::new("dummy"), &ended.path.join("user")]) {
        assert!(read, "{said}");
    }
    said(&ended.diagnostics, "an event of an unknown class");
}

#[test]
fn truncating_or_removing_the_session_file_does_not_change_the_recording() {
    for remove in [false, true] {
        let place = Place::new();
        let path = place.runtime().join("session");
        behaves_next_to("a session file that is cut off or removed", &place, &[], || {
            if remove {
                fs::remove_file(&path).unwrap();
            } else {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
                File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
            }
        });
        // The next recorder restores the file.
        let next = place.recorder("0", None);
        assert_eq!(fs::metadata(&path).unwrap().len(), 4096);
        next.finish();
    }
}

#[test]
fn files_of_other_kinds_with_names_of_the_layout_are_left_unchanged() {
    let place = Place::new();
    let runtime = place.runtime();
    let own = std::process::id();
    let precious = place.directory.path().join("precious");
    fs::write(&precious, "do not touch").unwrap();
    fs::set_permissions(&precious, fs::Permissions::from_mode(0o640)).unwrap();
    let name = |number: u32, kind: &str| runtime.join(format!("{own}-0000000{number}.{kind}"));
    let listener = std::cell::RefCell::new(None);
    let diagnostics = behaves_next_to("sockets, devices, pipes, folders, links of both kinds", &place, &["precious"], || {
        // Hard links to a foreign file: as a control file, as a ring, and as a file that a thread
        // is making.
        for path in [name(1, "control"), name(1, "0.ring"), runtime.join(".new-1-abc")] {
            fs::hard_link(&precious, path).unwrap();
        }
        *listener.borrow_mut() = Some(UnixListener::bind(name(2, "control")).unwrap());
        assert!(Command::new("mkfifo").arg(name(3, "control")).status().unwrap().success());
        symlink(&precious, name(4, "control")).unwrap();
        symlink("/dev/zero", name(5, "0.ring")).unwrap();
        fs::create_dir(name(6, "control")).unwrap();
        if is_root() {
            for (number, minor) in [(7, "5"), (8, "3")] {
                assert!(Command::new("mknod").arg(name(number, "control")).args(["c", "1", minor]).status().unwrap().success());
            }
        } else {
            println!("skipped: device nodes in the runtime directory (needs root)");
        }
        std::thread::sleep(std::time::Duration::from_millis(250));
    });
    assert_eq!(fs::read_to_string(&precious).unwrap(), "do not touch");
    assert_eq!(fs::metadata(&precious).unwrap().mode() & 0o777, 0o640, "{diagnostics:?}");
    said(&diagnostics, "was ignored");
    for path in [name(1, "control"), name(2, "control"), name(4, "control"), name(6, "control")] {
        assert!(fs::symlink_metadata(&path).is_ok(), "{} is gone", path.display());
    }
}

#[test]
fn files_that_grow_or_are_replaced_while_mapped_affect_no_other_program() {
    let place = Place::new();
    behaves_next_to("rings and control files that grow, are replaced, or removed", &place, &["victim"], || {
        let victim = Running::start(&mut place.numbered(3, 0, 100, 1000, "victim"));
        until(|| place.begun("victim", 3));
        let stem = format!("{}-", victim.pid());
        let files = fs::read_dir(place.runtime()).unwrap().map(|entry| entry.unwrap().path());
        let own: Vec<_> = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&stem)).collect();
        assert!(own.len() >= 4, "{own:?}");
        for (number, path) in own.iter().enumerate() {
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
            match number % 3 {
                0 => File::options().write(true).open(path).unwrap().set_len(1 << 20).unwrap(),
                1 => fs::remove_file(path).unwrap(),
                _ => {
                    fs::remove_file(path).unwrap();
                    fs::write(path, vec![0xff; 5000]).unwrap();
                }
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(250));
        victim.kill();
    });
}

#[test]
fn a_runtime_directory_of_another_user_is_refused() {
    if !is_root() {
        println!("skipped: a runtime directory of somebody else (needs root)");
        return;
    }
    let place = Place::new();
    std::os::unix::fs::chown(place.runtime(), Some(65_534), None).unwrap();
    let refused = std::panic::catch_unwind(|| place.recorder("0", None));
    assert!(refused.is_err());
    assert!(!place.root().exists() && fs::read_dir(place.runtime()).unwrap().next().is_none());
    // Programs make no files there either.
    Running::start(&mut place.numbered(1, 100, 0, 0, "p")).succeed();
    assert_eq!(fs::read_dir(place.runtime()).unwrap().count(), 0);
}
