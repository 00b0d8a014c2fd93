//! Changes of the CPUs that a thread may run on: the answer of `longpole cpu`, compared with the
//! affinity masks that the threads themselves read from the kernel.

use crate::support::host::is_root;
use crate::support::place::{wait_for, Place, Running};
use crate::support::program::copy_program;
use crate::support::schema;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const INSTANCES: &str = "/sys/kernel/tracing/instances";
const KERNEL: [&str; 5] = ["record", "--kernel", "sched,syscall", "--stacks", "none"];

fn possible(test: &str) -> bool {
    let possible = is_root() && Path::new(INSTANCES).is_dir() && Command::new("taskset").arg("-V").output().is_ok();
    if !possible {
        println!("skipped: {test} (needs root, tracefs and `taskset`)");
    }
    possible
}

/// Tracing instances that the recorder with this pid created.
fn instances(pid: u32) -> Vec<String> {
    let mut found: Vec<String> =
        std::fs::read_dir(INSTANCES).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.retain(|name| name.contains(&format!("-{pid}-")));
    found.sort();
    found
}

/// CPUs in a mask as the kernel prints it: hexadecimal, for as many CPUs as the host could ever
/// have, the last one first.
fn cpus(text: &str) -> Vec<u64> {
    let digits = text.chars().rev().filter(|digit| *digit != ',').map(|digit| digit.to_digit(16).unwrap());
    digits.zip(0..).flat_map(|(digit, at)| (0..4).filter(move |bit| digit >> bit & 1 == 1).map(move |bit| 4 * at + bit)).collect()
}

fn of_thread(answer: &Value, tid: u64) -> &Value {
    answer["threads"].as_array().unwrap().iter().find(|thread| thread["tid"] == tid).unwrap()
}

fn masks(answer: &Value, tid: u64) -> Vec<Value> {
    of_thread(answer, tid)["kernel"]["allowed_changes"].as_array().unwrap().iter().map(|change| change["allowed_cpus"].clone()).collect()
}

#[test]
fn each_change_of_a_mask_is_listed_with_the_mask_that_the_kernel_then_had() {
    if !possible("masks of CPUs at each change") {
        return;
    }
    let place = Place::new();
    let program = place.build("masks", &[]);
    // One thread changes its own mask, and another process changes that of a second thread.
    // /proc/PID/status has the expected masks.
    let script = format!(
        "{program}; sleep 20 & P=$!; echo sleeper $P
         taskset -p 1 $P > /dev/null; sleep 0.2; grep Cpus_allowed: /proc/$P/status
         taskset -p $ALL $P > /dev/null; sleep 0.2; grep Cpus_allowed: /proc/$P/status
         kill $P"
    );
    let all = Command::new("sh").args(["-c", "taskset -p $$ | sed 's/.*: //'"]).output().unwrap();
    let all = String::from_utf8(all.stdout).unwrap().trim().to_owned();
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    let output = command.args(KERNEL).args(["--", "sh", "-ec", &script]).env("ALL", all).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout).unwrap();
    let answer = place.answer("cpu", &place.newest());
    schema::check(&schema::schema("cpu"), &answer);

    let mut lines = output.lines();
    let mut number = |word: &str| lines.next().unwrap().strip_prefix(word).unwrap().trim().parse::<u64>().unwrap();
    let own = number("pid");
    let said: Vec<Value> =
        output.lines().skip(1).take(3).map(|line| line.split_whitespace().map(|cpu| cpu.parse::<u64>().unwrap()).collect()).collect();
    assert_alike(&masks(&answer, own), &said, &output);
    let other = output.lines().find_map(|line| line.strip_prefix("sleeper ")).unwrap().parse().unwrap();
    let seen: Vec<Value> =
        output.lines().filter_map(|line| line.strip_prefix("Cpus_allowed:")).map(|text| json!(cpus(text.trim()))).collect();
    assert_eq!(seen.len(), 2, "{output}");
    assert_alike(&masks(&answer, other), &seen, &output);
}

/// Compares masks. At most one may be unknown: the recorder reads a mask after its change, and if
/// it gets a CPU only after the next change, the mask in between is unknown.
fn assert_alike(found: &[Value], said: &[Value], output: &str) {
    let known = found.iter().filter(|mask| !mask.is_null()).count();
    let alike = found.iter().zip(said).all(|(found, said)| found.is_null() || found == said);
    assert!(alike && found.len() == said.len() && known + 1 >= said.len(), "{found:?} {output}");
}

#[test]
fn no_wrong_mask_is_listed_for_a_thread_whose_mask_changes_without_pause() {
    if !possible("masks that are changed without pause") {
        return;
    }
    let place = Place::new();
    let program = place.build("masks", &[]);
    // A mask may include CPUs that do not exist; the result of a call does not.
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let all: Vec<u64> = (0..1024).filter(|cpu| allowed.is_set(*cpu as usize)).collect();
    if all.len() < 2 {
        println!("skipped: masks that are changed without pause (needs two CPUs)");
        return;
    }
    const CHANGES: u64 = 3000;
    // Several programs run at once, so that the recorder's thread is late.
    let script = "for n in 1 2 3; do $MASKS $CHANGES & done; wait; $MASKS $CHANGES";
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    command.args(KERNEL).args(["--", "sh", "-ec", script]).env("MASKS", program).env("CHANGES", CHANGES.to_string());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout).unwrap();
    let whole = place.answer("cpu", &place.newest());
    let mut known = 0;
    for tid in output.lines().filter_map(|line| line.strip_prefix("pid ")?.parse().ok()) {
        let thread = of_thread(&whole, tid);
        assert_eq!(thread["kernel"]["allowed_change_count"], CHANGES);
        let changes = masks(&whole, tid);
        assert_eq!(changes.len(), 64);
        for (at, mask) in changes.iter().enumerate().filter(|(_, mask)| !mask.is_null()) {
            assert_eq!(*mask, if at % 2 == 0 { json!(all[..1]) } else { json!(all) }, "change {at} of {tid}");
            known += 1;
        }
    }
    println!("{known} of 256 masks are known");
}

#[test]
fn a_call_from_another_pid_namespace_refers_to_the_thread_with_that_number_there() {
    if !possible("masks in a pid namespace") || Command::new("unshare").arg("-V").output().is_err() {
        return;
    }
    let place = Place::new();
    let (program, sleeper) = (place.build("masks", &[]), place.path("nsleeper"));
    copy_program("/bin/sleep", &sleeper);
    // The sleeper has number 2 in the namespace, which is the number of a kernel thread outside of
    // it.
    let script = "$SLEEPER 60 & echo sleeper $!; $MASKS 3 $!; kill $!";
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    command.args(KERNEL).args(["--", "unshare", "-pf", "--mount-proc", "sh", "-ec", script]).env("MASKS", program).env("SLEEPER", sleeper);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout).unwrap();
    let number = output.lines().find_map(|line| line.strip_prefix("sleeper ")?.parse::<u64>().ok()).unwrap();
    let digits = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let said: Vec<Value> =
        output.lines().filter(digits).map(|line| line.split_whitespace().map(|cpu| cpu.parse::<u64>().unwrap()).collect()).collect();
    let answer = place.answer("cpu", &place.newest());
    let threads = answer["threads"].as_array().unwrap();
    let meant = threads.iter().find(|thread| thread["name"] == "nsleeper").unwrap();
    let found = masks(&answer, meant["tid"].as_u64().unwrap());
    // Before Linux 6.11 no event contains the thread that such a number refers to.
    let known: Vec<(usize, &Value)> = found.iter().enumerate().filter(|(_, mask)| !mask.is_null()).collect();
    assert!(known.iter().all(|(at, mask)| said[*at] == **mask) && (found.is_empty() || known.len() == said.len()), "{found:?} {output}");
    if let Some(outside) = threads.iter().find(|thread| thread["tid"] == number) {
        assert_eq!(outside["kernel"]["allowed_change_count"], 0);
    }
}

/// A cpuset for a process of this test; it is removed when dropped.
struct Cpuset(PathBuf);

impl Cpuset {
    /// `None` if this host has no cpusets of cgroups version 1.
    fn new(cpu: u64) -> Option<Cpuset> {
        let path = Path::new("/sys/fs/cgroup/cpuset").join(format!("longpole-test-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        let set = Cpuset(path);
        std::fs::write(set.0.join("cpuset.cpus"), cpu.to_string()).ok()?;
        std::fs::write(set.0.join("cpuset.mems"), "0").ok()?;
        Some(set)
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        for pid in std::fs::read_to_string(self.0.join("tasks")).unwrap_or_default().lines() {
            let _ = std::fs::write("/sys/fs/cgroup/cpuset/tasks", pid);
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_mask_that_a_cpuset_changed_becomes_unknown() {
    if !possible("masks that a cpuset changes") {
        return;
    }
    let allowed = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let all = cpus(allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed:")).unwrap().trim());
    let Some(set) = (all.len() > 1).then(|| Cpuset::new(all[0])).flatten() else {
        println!("skipped: masks that a cpuset changes (needs two CPUs and cpusets of cgroups version 1)");
        return;
    };
    let place = Place::new();
    let moved = Running::start(Command::new("sleep").arg("60"));
    let stays = Running::start(Command::new("sleep").arg("60"));
    let script = format!("echo {} > {}/tasks", moved.id(), set.0.display());
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    let output = command.args(KERNEL).args(["--", "sh", "-ec", &script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer = place.answer("cpu", &place.newest());
    schema::check(&schema::schema("cpu"), &answer);
    let moved = of_thread(&answer, moved.id().into());
    assert_eq!((&moved["allowed_cpus"], &moved["kernel"]["allowed_change_count"]), (&Value::Null, &json!(0)));
    assert!(moved["kernel"]["allowed_why_unknown"].as_str().unwrap().contains("cpuset"), "{moved}");
    let stays = of_thread(&answer, stays.id().into());
    assert_eq!((&stays["allowed_cpus"], &stays["kernel"]["allowed_why_unknown"]), (&json!(all), &Value::Null));
}

/// Counters of the kernel for an instance: events that are in its buffers or were read from them,
/// and events that it lost.
fn counted(instance: &Path) -> (u64, u64) {
    let cpus = std::fs::read_dir(instance.join("per_cpu")).unwrap().map(|cpu| cpu.unwrap().path().join("stats"));
    let text: String = cpus.map(|stats| std::fs::read_to_string(stats).unwrap()).collect();
    let sum = |names: &[&str]| {
        let of = |line: &str| Some(line.split_once(": ").filter(|(name, _)| names.contains(name))?.1.trim().parse::<u64>().unwrap());
        text.lines().filter_map(of).sum::<u64>()
    };
    (sum(&["entries", "read events"]), sum(&["overrun", "commit overrun", "dropped events"]))
}

#[test]
fn a_killed_recorders_recording_is_completed_by_the_next_verb_and_can_then_be_copied() {
    if !possible("what a killed recorder left") {
        return;
    }
    let place = Place::new();
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    let mut recorder = Running::start(command.args(KERNEL).args(["--for", "60s"]).stdout(Stdio::null()).stderr(Stdio::null()));
    let pid = recorder.id();
    wait_for(|| instances(pid).len() == 2 && place.recordings().len() == 1 && place.newest().join("longpole.json").exists());
    // These are more events than the kernel buffers before it wakes the recorder, so some pages are
    // on the disk and some still in the kernel's buffers.
    let mut busy = Running::start(Command::new("dd").args(["if=/dev/zero", "of=/dev/null", "bs=1", "count=400000"]).stderr(Stdio::null()));
    busy.wait().unwrap();
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let left = instances(pid);
    assert_eq!(left.len(), 2);
    let main = Path::new(INSTANCES).join(left.iter().find(|name| !name.starts_with("longpole_masks")).unwrap());
    // The instance continues without its recorder. It is switched off here so that the counters do
    // not change any more.
    assert!(Command::new("true").status().unwrap().success());
    std::fs::write(main.join("tracing_on"), "0").unwrap();
    let (held, lost) = counted(&main);
    let path = place.newest();
    let info = place.answer("info", &path);
    assert_eq!(instances(pid), Vec::<String>::new());
    let count = |name: &str| info["names"][name].as_u64().unwrap_or(0);
    let kernel = info["streams"].as_array().unwrap().iter().filter(|stream| stream["kind"] == "kernel");
    let (events, missing) =
        kernel.fold((0, 0), |sum, stream| (sum.0 + stream["events"].as_u64().unwrap(), sum.1 + stream["lost"].as_u64().unwrap()));
    let is_own =
        |name: &str| name.starts_with("lttng_statedump_") || (name.starts_with("longpole_") && !name.starts_with("longpole_affinity"));
    let own: u64 = info["names"].as_object().unwrap().keys().filter(|name| is_own(name)).map(|name| count(name)).sum();
    // Events that the recorder had read but not yet written when it was killed are lost, and
    // counted.
    assert_eq!((events - own + missing, missing >= lost), (held + lost, true));
    assert!(count("syscall_entry_write") + missing >= 400_000, "{} and {missing} lost", count("syscall_entry_write"));
    assert!(!path.join("kernel/raw").exists());
    // A copy, after the recording and the tracing instances are gone.
    let elsewhere = place.path("elsewhere");
    assert!(Command::new("cp").arg("-r").arg(&path).arg(&elsewhere).status().unwrap().success());
    std::fs::remove_dir_all(&path).unwrap();
    let copy = place.answer("info", &elsewhere);
    assert_eq!((&copy["names"], &copy["streams"]), (&info["names"], &info["streams"]));
    assert!(place.answer("cpu", &elsewhere)["threads"].as_array().unwrap().iter().any(|thread| thread["tid"] == busy.id()));
}
