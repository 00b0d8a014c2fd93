//! Recordings of the kernel that are large or contain many processes: no event is lost without
//! being counted, and memory stays bounded.

use crate::support::host::{alone, can_trace};
use crate::support::place::{ok, signal, Place, Running};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;

fn record(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    command.arg("record").args(arguments);
    command
}

fn count(info: &Value, name: &str) -> u64 {
    info["names"][name].as_u64().unwrap_or(0)
}

/// Asserts that the trace contains the events that the kernel reports to have handed out, and lacks
/// those that the kernel reports as lost. The kernel's counts do not depend on the conversion.
fn assert_kernel_counts(path: &std::path::Path, info: &Value) {
    let told: Value = serde_json::from_slice(&std::fs::read(path.join("longpole.json")).unwrap()).unwrap();
    let told = &told["kernel_events"];
    let of = |name: &str| told["cpus"].as_array().unwrap().iter().map(|cpu| cpu[name].as_u64().unwrap()).sum::<u64>();
    let streams = info["streams"].as_array().unwrap().iter().filter(|stream| stream["kind"] == "kernel");
    let (events, lost) =
        streams.fold((0, 0), |sum, stream| (sum.0 + stream["events"].as_u64().unwrap(), sum.1 + stream["lost"].as_u64().unwrap()));
    // Events that the recorder made itself were in no page: the dump of the initial state, and
    // threads that occur in no switch. Affinity events were in the pages, as text of the kernel.
    let is_own =
        |name: &str| name.starts_with("lttng_statedump_") || (name.starts_with("longpole_") && !name.starts_with("longpole_affinity"));
    let names = info["names"].as_object().unwrap().iter().filter(|(name, _)| is_own(name));
    let own: u64 = names.map(|(_, count)| count.as_u64().unwrap()).sum();
    let missed = ["overrun", "commit_overrun", "dropped", "entries"].map(of).into_iter().sum::<u64>();
    assert_eq!((events - own, lost), (of("read"), missed), "{told}");
    assert_eq!(told["damaged_pages"], 0);
}

#[test]
fn ten_thousand_short_lived_processes_are_all_recorded() {
    const PROCESSES: u64 = 10_000;
    if !can_trace("short-lived processes in the kernel's events") {
        return;
    }
    let _alone = alone();
    let place = Place::new();
    let program = place.build("births", &[]);
    let arguments = ["--kernel", "sched,syscall", "--context", "ppid", "--", &program, &PROCESSES.to_string()];
    ok(record(&place, &arguments).stdout(Stdio::null()).output().unwrap());
    let path = place.newest();
    let info = place.answer("info", &path);
    assert_eq!(info["lost"], 0, "{info}");
    assert_kernel_counts(&path, &info);
    for name in ["sched_process_fork", "sched_process_exec", "sched_process_exit", "sched_process_free"] {
        // The kernel may free the last processes after the end of the recording.
        let least = if name == "sched_process_free" { PROCESSES * 9 / 10 } else { PROCESSES };
        assert!(count(&info, name) >= least, "{name}: {}", count(&info, name));
    }
    // Each process appears as a thread of its own that ran, although the kernel reuses tids.
    let cpu = place.answer("cpu", &path);
    let born =
        cpu["threads"].as_array().unwrap().iter().filter(|thread| thread["name"] == "births" && thread["running_ns"].as_u64() > Some(0));
    let born = born.count() as u64;
    assert!((PROCESSES..=PROCESSES + 2).contains(&born), "{born}");
    // Each process wrote one byte.
    let calls = place.answer("syscalls", &path);
    let write = calls.as_array().unwrap().iter().find(|call| call["name"] == "write").unwrap();
    assert!(write["count"].as_u64() >= Some(PROCESSES), "{write}");
}

/// A memory cgroup of this test, version 1 or 2; removed when the value is dropped.
struct Memory(std::path::PathBuf);

impl Memory {
    fn new(bytes: u64) -> Option<Memory> {
        let name = format!("longpole-test-{}", std::process::id());
        for (root, limit) in [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")] {
            let path = std::path::Path::new(root).join(&name);
            if std::fs::create_dir(&path).is_err() {
                continue;
            }
            let memory = Memory(path);
            if std::fs::write(memory.0.join(limit), bytes.to_string()).is_ok() {
                return Some(memory);
            }
        }
        None
    }

    fn take(&self, pid: u32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    fn killed(&self) -> u64 {
        let text = ["memory.oom_control", "memory.events"].iter().find_map(|name| std::fs::read_to_string(self.0.join(name)).ok()).unwrap();
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")).map_or(0, |count| count.trim().parse().unwrap())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Part of `make soak` only. The limit also includes the page cache of the recorded pages.
#[test]
fn two_gigabytes_are_recorded_converted_and_read_with_512_mib_of_memory() {
    if std::env::var_os("LONGPOLE_SOAK").is_none() || !can_trace("a large recording in little memory") {
        return;
    }
    let _alone = alone();
    let Some(memory) = Memory::new(512 << 20) else {
        println!("skipped: a large recording in little memory (no memory cgroup can be made)");
        return;
    };
    let place = Place::new();
    // The process must be in the group before it begins, so a shell waits for a line on stdin and
    // then executes it.
    let within = |command: &[&str]| {
        let mut shell = place.command("sh");
        shell.args(["-c", "read go; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_longpole")]).args(command);
        let mut child = Running::start(shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()));
        memory.take(child.id());
        use std::io::Write;
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        child
    };
    let mut recorder = within(&["record", "--kernel", "sched,irq,softirq,net,block,syscall"]);
    let mut loads: Vec<Running> = (0..2)
        .map(|_| {
            let mut load = Command::new("dd");
            load.args(["if=/dev/zero", "of=/dev/null", "bs=1"]).stderr(Stdio::null());
            Running::start(&mut load)
        })
        .collect();
    let pages = || -> u64 {
        let Some(raw) = place.recordings().pop().map(|path| path.join("kernel/raw")) else { return 0 };
        (0..).map_while(|cpu| std::fs::metadata(raw.join(format!("cpu{cpu}"))).ok()).map(|found| found.len()).sum()
    };
    while pages() < 2 << 30 {
        assert!(recorder.try_wait().unwrap().is_none(), "it records until there is enough");
        std::thread::sleep(Duration::from_millis(100));
    }
    signal(&recorder, "-INT");
    assert!(recorder.wait().unwrap().success());
    loads.clear();
    let path = place.newest();
    let told: Value = serde_json::from_slice(&std::fs::read(path.join("longpole.json")).unwrap()).unwrap();
    let (bytes, events, lost) =
        (&told["kernel_events"]["recorded_bytes"], &told["kernel_events"]["events"], &told["kernel_events"]["lost"]);
    println!("{bytes} bytes of pages, {events} events, {lost} lost");
    for verb in ["info", "cpu", "syscalls"] {
        let mut reader = within(&[verb, "--json", path.to_str().unwrap()]);
        let answer: Value = serde_json::from_reader(reader.stdout.take().unwrap()).unwrap();
        assert!(reader.wait().unwrap().success());
        if verb == "info" {
            assert_kernel_counts(&path, &answer);
        }
    }
    assert_eq!(memory.killed(), 0, "nothing was killed for want of memory");
}
