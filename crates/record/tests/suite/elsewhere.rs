//! Programs with a `/dev/shm` of their own: a recorder that runs as root finds them, and counts
//! their events like those of any other program.

use crate::support;
use crate::support::{numbered, sum, Place, Running};
use std::path::Path;
use std::process::Command;

fn live(what: &str) -> bool {
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let possible = root && Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !possible {
        println!("skipped: {what} (needs root and unshare)");
    }
    possible
}

/// Starts a program under `unshare FLAGS`, with a tmpfs of its own in place of the runtime
/// directory. `before` is a shell command that runs there first.
fn aside(place: &Place, flags: &[&str], before: &str, program: &Command) -> Running {
    let mut command = Command::new("unshare");
    command.args(flags).args(["--kill-child", "-f", "sh", "-c"]);
    command.arg(format!("mount -t tmpfs -o mode=0700 none \"$LONGPOLE_RUNTIME_DIR\" && {before} && exec \"$@\"")).arg("sh");
    command.arg(program.get_program()).args(program.get_args());
    command.env("LONGPOLE_RUNTIME_DIR", place.runtime()).env_remove("LONGPOLE_LABEL");
    Running::start(&mut command)
}

/// The only child of a process, by its pid in this namespace.
fn child(pid: i32) -> i32 {
    let path = format!("/proc/{pid}/task/{pid}/children");
    std::fs::read_to_string(path).unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

fn assert_exact(place: &Place, file: &str, pid: i32, recordings: &[&Path], threads: usize) {
    let counts = sum(recordings);
    for thread in 0..threads {
        let count = counts.get(&(pid, thread as u64)).copied().unwrap_or_default();
        let (told, met) = (count.recorded + count.lost, place.met(file, thread));
        // The thread may have been killed after it completed an event and before it counted it.
        assert!(count.recorded > 0 && (told == met || told == met + 1), "thread {thread}: {count:?} of {met}: {counts:?}");
    }
}

#[test]
fn a_killed_program_in_another_mount_namespace_is_recorded_next_to_one_in_this_namespace() {
    if !live("a program in another mount namespace") {
        return;
    }
    for (flags, late) in [(["-m", "-m"], true), (["-m", "-p"], true), (["-m", "-p"], false)] {
        let place = Place::new();
        let early = (!late).then(|| place.recorder("0", None));
        let other = aside(&place, &flags, "true", &place.numbered(3, 0, 200, 300, "other"));
        let own = Running::start(&mut place.numbered(2, 0, 200, 300, "own"));
        let turning = |file: &str, threads: usize| place.emitted(file).iter().take(threads).filter(|turns| **turns > 0).count() == threads;
        support::until(|| turning("other", 3) && turning("own", 2));
        let recorder = early.unwrap_or_else(|| place.recorder("0", None));
        support::until(|| (0..3).all(|thread| place.met("other", thread) > 2000) && (0..2).all(|thread| place.met("own", thread) > 2000));
        let (other_pid, own_pid) = (child(other.pid()), own.pid());
        let tasks = std::fs::read_dir(format!("/proc/{other_pid}/task")).unwrap();
        let threads: Vec<i32> = tasks.map(|task| task.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
        // SAFETY: signals a process that this test started.
        unsafe { libc::kill(other_pid, libc::SIGKILL) };
        std::thread::sleep(std::time::Duration::from_millis(300));
        own.kill();
        let ended = recorder.finish();
        assert_exact(&place, "other", other_pid, &[&ended.path], 3);
        assert_exact(&place, "own", own_pid, &[&ended.path], 2);
        let mut lanes = support::lanes(&ended.path).into_values().flatten().filter(|packet| packet.pid == other_pid);
        assert!(lanes.all(|packet| threads.contains(&packet.tid)), "threads are those that we know: {threads:?}");
        // Other tools see one trace with all events.
        if let Ok(output) = Command::new("babeltrace2").arg(ended.path.join("user")).output() {
            let events = String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains("mark:numbered")).count();
            let recorded: u64 = numbered(&ended.path).values().map(|count| count.recorded).sum();
            assert_eq!(events as u64, recorded, "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn events_in_another_mount_namespace_survive_a_killed_recorder() {
    if !live("another mount namespace and a killed recorder") {
        return;
    }
    let place = Place::new();
    let other = aside(&place, &["-m"], "true", &place.numbered(2, 0, 300, 200, "other"));
    support::until(|| place.begun("other", 2));
    let first = place.recorder("0", None);
    support::until(|| (0..2).all(|thread| place.met("other", thread) > 5000));
    let first = first.kill();
    let second = place.recorder("0", None);
    let met = place.met("other", 0);
    support::until(|| place.met("other", 0) > met + 5000);
    let pid = child(other.pid());
    // SAFETY: signals a process that this test started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    std::thread::sleep(std::time::Duration::from_millis(300));
    let second = second.finish();
    assert_exact(&place, "other", pid, &[&first, &second.path], 2);
}

#[test]
fn no_file_in_another_mount_namespace_misleads_the_recorder() {
    if !live("hostile directories in another mount namespace") {
        return;
    }
    // The directory is a link, holds files that lead out of it, or is accessible to everyone.
    for before in [
        "mkdir \"$LONGPOLE_RUNTIME_DIR/x\" && ln -s /etc/passwd \"$LONGPOLE_RUNTIME_DIR/session\"",
        "ln -s /etc/passwd \"$LONGPOLE_RUNTIME_DIR/sites\" && ln -s /etc/passwd \"$LONGPOLE_RUNTIME_DIR/1-a.control\" && mkfifo \"$LONGPOLE_RUNTIME_DIR/2-a.control\"",
        "head -c 8192 /dev/urandom > \"$LONGPOLE_RUNTIME_DIR/session\" && head -c 100000 /dev/urandom > \"$LONGPOLE_RUNTIME_DIR/sites\" && head -c 8192 /dev/urandom > \"$LONGPOLE_RUNTIME_DIR/1-a.control\"",
        "chmod 777 \"$LONGPOLE_RUNTIME_DIR\"",
        "umount \"$LONGPOLE_RUNTIME_DIR\" && rmdir \"$LONGPOLE_RUNTIME_DIR\" && ln -s /etc \"$LONGPOLE_RUNTIME_DIR\"",
    ] {
        let place = Place::new();
        let before = format!("mount -t tmpfs none \"$(dirname \"$LONGPOLE_RUNTIME_DIR\")\" && mkdir -m 700 \"$LONGPOLE_RUNTIME_DIR\" && mount -t tmpfs -o mode=0700 none \"$LONGPOLE_RUNTIME_DIR\" && {before}");
        let secret = std::fs::read("/etc/passwd").unwrap();
        let mut sleep = Command::new("sleep");
        sleep.arg("60");
        let other = aside(&place, &["-m"], &before, &sleep);
        support::until(|| std::fs::read(format!("/proc/{}/comm", child_or_none(other.pid()))).is_ok_and(|name| name == b"sleep\n"));
        let mut recorder = place.recorder("0", None);
        Running::start(&mut place.numbered(1, 1000, 0, 0, "own")).succeed();
        assert!(recorder.is_alive());
        let ended = recorder.finish();
        assert_eq!(numbered(&ended.path).values().map(|count| count.recorded + count.lost).sum::<u64>(), 1000);
        assert_eq!(std::fs::read("/etc/passwd").unwrap(), secret);
        assert!(!Path::new("/etc/session").exists());
    }
}

fn child_or_none(pid: i32) -> i32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().next().and_then(|pid| pid.parse().ok()).unwrap_or(0)
}
