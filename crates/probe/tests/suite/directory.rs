//! Programs with probes and the runtime directory: nothing in it blocks them, they leave nothing
//! behind, and they find it from any directory and after a change of their user id. Each test runs
//! a program in C and one in Rust.

use crate::support::{example, ok, repository, Place};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

fn programs(place: &Place) -> [PathBuf; 2] {
    [place.compile(&repository().join("tests/programs/directory.c"), "directory", &[]), example("directory")]
}

fn files(place: &Place, end: &str) -> Vec<std::fs::Metadata> {
    let all = std::fs::read_dir(place.path("runtime")).unwrap().map(Result::unwrap);
    all.filter(|entry| entry.file_name().to_str().unwrap().ends_with(end)).map(|entry| entry.metadata().unwrap()).collect()
}

fn number(text: &[u8]) -> u64 {
    String::from_utf8_lossy(text).trim().parse().unwrap()
}

/// Checks that nothing was lost, except for the mark at which the process connects: it precedes any
/// request to record it.
fn assert_recorded(place: &Place, met: u64, what: &str) {
    let (counts, lost) = place.counts();
    let recorded = counts.get("mark:numbered").copied().unwrap_or(0);
    assert!(lost == 0 && (recorded == met || recorded + 1 == met), "{what}: {met} met, {recorded} recorded, {lost} lost");
}

#[test]
fn a_lock_or_a_pipe_in_the_directory_does_not_block_a_program() {
    for trap in ["session", "sites", "lock"] {
        let place = Place::new();
        let runtime = place.path("runtime");
        if trap != "lock" {
            ok(Command::new("mkfifo").arg(runtime.join(trap)).output().unwrap());
        }
        for program in programs(&place) {
            // A program that blocks is killed by `timeout`.
            let mut command = place.command("timeout");
            command.arg("60");
            if trap == "lock" {
                command.args(["flock", "--exclusive"]).arg(&runtime);
            }
            ok(command.arg(program).args(["marks", "10"]).output().unwrap());
        }
    }
}

#[test]
fn children_that_are_not_recorded_leave_no_files() {
    for nth in 0..2 {
        let place = Place::new();
        let program = &programs(&place)[nth];
        ok(place.command(program).args(["forks", "300", "quiet"]).output().unwrap());
        assert_eq!(files(&place, ".control").len(), 0);
        // The files of children that reached a probe are removed by their siblings, many at a time.
        ok(place.command(program).args(["forks", "600", "probe"]).output().unwrap());
        let left = files(&place, ".control").len();
        assert!(left < 300, "{left} of 600");
    }
}

#[test]
fn a_child_that_started_unrecorded_is_recorded_once_a_recorder_starts() {
    let place = Place::new();
    for program in programs(&place) {
        let mut child = place.command(program).args(["later", "100"]).stdout(Stdio::piped()).spawn().unwrap();
        child.wait().unwrap();
        ok(place.recorder(&["--for", "1s"]).output().unwrap());
        let mut told = Vec::new();
        std::io::Read::read_to_end(&mut child.stdout.take().unwrap(), &mut told).unwrap();
        assert_recorded(&place, number(&told), "a child");
    }
}

#[test]
fn threads_that_start_and_end_after_the_recorder_was_killed_take_bounded_memory() {
    for nth in 0..2 {
        let place = Place::new();
        let program = &programs(&place)[nth];
        let mut recorder = place.recorder(&["--all", "--buffer", "4MiB"]);
        let mut recorder = recorder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let wait_for_one = |end: &str| {
            while files(&place, end).is_empty() {
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        wait_for_one("session");
        let mut child =
            place.command(program).args(["churn", "30", "300000"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        wait_for_one(".ring");
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        drop(child.stdin.take());
        let output = ok(child.wait_with_output().unwrap());
        assert_eq!(number(&output.stdout), 1 + 30 * 300_000);
        let bytes: u64 = files(&place, ".ring").iter().map(std::fs::Metadata::len).sum();
        assert!(bytes < 40 << 20, "{bytes} bytes of rings");
    }
}

#[test]
fn a_relative_path_refers_to_the_directory_in_which_the_program_started() {
    let place = Place::new();
    let root = || std::fs::read_dir("/").unwrap().count();
    let before = root();
    for program in programs(&place) {
        for shell in ["cd /; exec \"$0\" marks 10", "exec \"$0\" moved 10"] {
            let mut command = place.recorder(&["--", "sh", "-c", shell]);
            ok(command.arg(&program).current_dir(place.path("")).env("LONGPOLE_RUNTIME_DIR", "runtime").output().unwrap());
            assert_eq!(place.counts().0.get("mark:numbered"), Some(&10));
        }
        let script = "LONGPOLE_RUNTIME_DIR=runtime exec \"$0\" moved 10";
        ok(place.recorder(&["--", "sh", "-c", script]).arg(&program).current_dir(place.path("")).output().unwrap());
        assert_eq!(place.counts().0.get("mark:numbered"), Some(&10));
    }
    assert_eq!(root(), before);
}

#[test]
fn a_path_that_programs_cannot_use_is_rejected() {
    let place = Place::new();
    let long = place.path(&"x".repeat(210));
    for verb in [&["check"][..], &["record", "--kernel", "none", "--", "true"]] {
        let run = place.longpole(verb).env("LONGPOLE_RUNTIME_DIR", &long).output().unwrap();
        let told = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && told.contains("up to 207 bytes"), "{told}");
    }
}

#[test]
fn a_process_that_changes_its_user_is_recorded_as_the_new_user_or_reports_why_not() {
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    if !root || !Command::new("unshare").args(["-m", "-p", "-f", "true"]).status().is_ok_and(|status| status.success()) {
        println!("skipped: programs that become another user (needs root and unshare)");
        return;
    }
    let place = Place::new();
    for program in programs(&place) {
        let record = |arguments: &str| {
            let mut command = place.recorder(&["--", program.to_str().unwrap()]);
            let inner: Vec<String> =
                command.args(arguments.split(' ')).get_args().map(|word| word.to_string_lossy().into_owned()).collect();
            let script = "mount -t tmpfs -o mode=1777 none /dev/shm; exec \"$@\"";
            let mut outer = place.command("unshare");
            outer.args(["-m", "-p", "-f", "--kill-child", "--mount-proc", "sh", "-c", script, "-"]).arg(command.get_program()).args(inner);
            outer.env_remove("LONGPOLE_RUNTIME_DIR").output().unwrap()
        };
        let run = record("user 3000");
        let told = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success() && number(&run.stdout) > 100, "{told}");
        assert_recorded(&place, number(&run.stdout), &told);
        let run = record("late 100");
        let told = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(place.counts().0.get("mark:numbered"), Some(&100), "{told}");
        assert!(
            told.contains("100 events had no ring and are lost: the runtime directory was not accessible: the process changed its user"),
            "{told}"
        );
        let run = record("kept 40");
        let told = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(told.contains("a thread could not change to a larger ring, and keeps its ring of 32 KiB"), "{told}");
    }
}
