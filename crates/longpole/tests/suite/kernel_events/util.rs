//! `longpole util`: its figures for the threads of a command, compared with the command's own
//! clocks.

use crate::support::host::{can_trace, is_root};
use crate::support::place::{ok, stolen, Place};
use crate::support::schema;
use serde_json::Value;
use std::process::{Command, Stdio};

/// Two threads that work one after the other, and one process that works and ends in between. On
/// stderr it prints `used TID NS` for each thread and for the child, from the threads' own clocks.
const PROGRAM: &str = "
import os, resource, sys, threading, time
def work(seconds):
    begin = time.thread_time_ns()
    while time.thread_time_ns() - begin < seconds * 1e9: pass
    print('used', threading.get_native_id(), time.thread_time_ns(), file=sys.stderr, flush=True)
thread = threading.Thread(target=work, args=(0.2,))
thread.start(); thread.join()
child = os.fork()
if child == 0:
    work(0.1); os._exit(0)
os.waitpid(child, 0)
work(0.15)
sys.exit(5)
";

fn python() -> String {
    let output = ok(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Interrupt and softirq time of all CPUs in ns.
fn interrupts(answer: &Value) -> u64 {
    let cpus = answer["cpus"].as_array().unwrap();
    cpus.iter().flat_map(|cpu| [cpu["irq_ns"].as_u64(), cpu["softirq_ns"].as_u64()]).flatten().sum()
}

fn answer(command: &mut Command, source: &str) {
    let before = stolen();
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stolen = stolen() - before;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    schema::check(&schema::schema("util"), &answer);
    assert_eq!((answer["source"].as_str(), answer["status"].as_u64()), (Some(source), Some(5)), "{said}");
    let threads = answer["threads"].as_array().unwrap();
    let mut expected_sum = 0;
    let interrupts = interrupts(&answer);
    let used: Vec<Vec<&str>> = said.lines().filter(|line| line.starts_with("used ")).map(|line| line.split(' ').collect()).collect();
    assert_eq!(used.len(), 3, "{said}");
    for words in used {
        let (tid, used): (u64, u64) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        let thread = threads.iter().find(|thread| thread["tid"] == tid).unwrap_or_else(|| panic!("{tid}: {answer:#}"));
        let (running, cycles) = (thread["running_ns"].as_u64().unwrap(), thread["cycles"].as_u64());
        expected_sum += used;
        // The bounds allow for three differences. The kernel's clock of a thread includes
        // interrupts and, if the scheduler's clock is late at a switch, also time in which the
        // thread was only queued. Without the kernel's events the threads are read every 10 ms
        // only. A thread still works a little after it has printed its time.
        let queued = thread["runnable_ns"].as_u64().unwrap_or(0);
        let least = if source == "kernel" {
            (used - used / 100 - 1_000_000).saturating_sub(queued + interrupts)
        } else {
            used - used / 10 - 15_000_000
        };
        assert!((least..used + used / 20 + 20_000_000 + stolen).contains(&running), "{tid}: {used}, {stolen} stolen {thread:#}");
        if let (Some(cycles), Some(total)) = (cycles, answer["total_cycles"].as_u64()) {
            let rate = total as f64 / answer["total_ns"].as_u64().unwrap() as f64;
            assert!((cycles as f64 / running as f64 / rate - 1.0).abs() < 0.01, "{thread:#}");
        }
    }
    let all: u64 =
        threads.iter().map(|thread| thread["running_ns"].as_u64().unwrap()).sum::<u64>() + answer["unseen_ns"].as_u64().unwrap_or(0);
    assert!(all as f64 > 0.9 * expected_sum as f64, "{answer:#}");
    for cpu in answer["cpus"].as_array().unwrap() {
        let part = |name: &str| cpu[name].as_u64();
        let parts = ["idle_ns", "irq_ns", "softirq_ns", "thread_ns", "unknown_ns"].map(part);
        match parts.into_iter().collect::<Option<Vec<u64>>>() {
            Some(parts) => assert_eq!(Some(parts.into_iter().sum::<u64>()), part("total_ns")),
            None => assert!(source == "schedstat" && part("idle_ns") <= part("total_ns")),
        }
    }
}

#[test]
fn with_the_kernels_events_each_thread_has_the_time_of_its_own_clock() {
    if !can_trace("utilisation by the kernel's events") {
        return;
    }
    let place = Place::new();
    answer(place.longpole(&["util", "--json", "--"]).args([&python(), "-c", PROGRAM]), "kernel");
    assert!(place.recordings().is_empty());
    let kept = place.path("kept");
    let mut command = place.longpole(&["util", "-o", kept.to_str().unwrap(), "--", "true"]);
    let output = ok(command.output().unwrap());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("TSC cycles") && text.lines().any(|line| line.trim_start().starts_with("total")), "{text}");
    assert_eq!(std::fs::read_dir(kept).unwrap().count(), 1);
}

#[test]
fn a_process_lasts_until_its_last_thread_ends() {
    if !can_trace("threads that outlive the first one") {
        return;
    }
    let place = Place::new();
    let program = place.build("leaders", &[]);
    for what in ["exit", "exec"] {
        let before = stolen();
        let output = place.longpole(&["util", "--json", "--"]).args([&program, what]).output().unwrap();
        let stolen = stolen() - before;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{said}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["source"], "kernel", "{said}");
        let line = said.lines().find(|line| line.starts_with("used ")).unwrap();
        let words: Vec<u64> = line.split(' ').skip(1).map(|word| word.trim().parse().unwrap()).collect();
        let all = answer["threads"].as_array().unwrap().iter().filter(|thread| thread["tid"] == words[0]);
        let running: u64 = all.map(|thread| thread["running_ns"].as_u64().unwrap()).sum();
        // The thread's own clock includes the interrupts on top of it.
        let (own, interrupts) = (words[1], interrupts(&answer));
        let expected = own - own * 3 / 100 - interrupts..own + own * 3 / 100 + stolen;
        assert!(expected.contains(&running), "{what}: {running}, {interrupts} of interrupts, {stolen} stolen, {line}");
    }
}

#[test]
fn in_a_pid_namespace_the_threads_are_polled_and_the_status_is_the_commands() {
    if !can_trace("utilisation in a pid namespace") {
        return;
    }
    let place = Place::new();
    let mut command = place.command("unshare");
    command.args(["-p", "-f", "--mount-proc", env!("CARGO_BIN_EXE_longpole"), "util", "--json", "--", &python(), "-c", PROGRAM]);
    answer(&mut command, "schedstat");
    let mut command = place.command("unshare");
    command.args(["-p", "-f", "--mount-proc", env!("CARGO_BIN_EXE_longpole"), "record", "--kernel", "sched,syscall", "--stacks", "none"]);
    let output = command.args(["--", "sh", "-c", "exit 7"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert_eq!(said.matches("pid namespace of its own").count(), 1, "{said}");
    let info = place.answer("info", &place.newest());
    assert_eq!(info["names"]["lttng_statedump_process_state"].as_u64().unwrap_or(0), 0);
    assert!(info["names"]["sched_switch"].as_u64() > Some(0) && info["names"]["lttng_statedump_interrupt"].as_u64() > Some(0));
}

#[test]
fn without_the_kernels_events_the_threads_are_polled_while_they_run() {
    // Tracefs must be absent. As root the test uses a mount namespace of its own, and gives up the
    // right to mount tracefs there; other users cannot read tracefs anyway.
    let place = Place::new();
    let without = "umount -l /sys/kernel/tracing 2>/dev/null; umount -l /sys/kernel/debug 2>/dev/null; exec $LIMITED \"$@\"";
    let mut command = if is_root() { place.command("unshare") } else { place.command("sh") };
    if is_root() {
        command.env("LIMITED", "setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin").args(["-m", "sh"]);
    }
    command.args(["-c", without, "sh", env!("CARGO_BIN_EXE_longpole"), "util", "--json", "--", &python(), "-c", PROGRAM]);
    answer(&mut command, "schedstat");
}

#[test]
fn a_command_that_cannot_be_run_is_reported_and_leaves_nothing() {
    let place = Place::new();
    let output = place.longpole(&["util", "--", "/no/such/command"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/command"));
    assert_eq!(place.longpole(&["util"]).output().unwrap().status.code(), Some(2));
    let killed = place.longpole(&["util", "--", "sh", "-c", "kill -9 $$"]).output().unwrap();
    assert_eq!(killed.status.code(), Some(137));
}
