//! Where threads may run after it was changed: `longpole cpu` beside what the threads themselves were told.

#[path = "support/place.rs"]
#[allow(dead_code)]
mod place;
#[path = "support/schema.rs"]
mod schema;

use place::{wait_for, Place, Running};
use serde_json::{json, Value};
use std::path::Path;
use std::process::{Command, Stdio};

const INSTANCES: &str = "/sys/kernel/tracing/instances";
const KERNEL: [&str; 5] = ["record", "--kernel", "sched,syscall", "--stacks", "none"];

fn possible(test: &str) -> bool {
    let possible =
        rustix::process::geteuid().is_root() && Path::new(INSTANCES).is_dir() && Command::new("taskset").arg("-V").output().is_ok();
    if !possible {
        println!("skipped: {test} (needs root, tracefs and `taskset`)");
    }
    possible
}

/// Instances of a process's recorder.
fn instances(pid: u32) -> Vec<String> {
    let mut found: Vec<String> =
        std::fs::read_dir(INSTANCES).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.retain(|name| name.contains(&format!("-{pid}-")));
    found.sort();
    found
}

fn masks(answer: &Value, tid: u64) -> Vec<Value> {
    let thread = answer["threads"].as_array().unwrap().iter().find(|thread| thread["tid"] == tid).unwrap();
    thread["kernel"]["allowed_changes"].as_array().unwrap().iter().map(|change| change["allowed_cpus"].clone()).collect()
}

#[test]
fn each_change_of_a_mask_is_told_with_the_mask_that_the_kernel_then_had() {
    if !possible("masks of CPUs at each change") {
        return;
    }
    let place = Place::new();
    let program = place.build("masks", &[]);
    // A thread that changes its own, and one that another process changes; the system's own text of it as the witness.
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
    assert_eq!(masks(&answer, own), said, "{output}");
    let other = output.lines().find_map(|line| line.strip_prefix("sleeper ")).unwrap().parse().unwrap();
    let bits = |text: &str| u64::from_str_radix(&text.replace(',', ""), 16).unwrap();
    let cpus = |mask: u64| (0..64).filter(|cpu| mask >> cpu & 1 == 1).collect::<Vec<u64>>();
    let seen: Vec<Value> =
        output.lines().filter_map(|line| line.strip_prefix("Cpus_allowed:")).map(|text| json!(cpus(bits(text.trim())))).collect();
    assert_eq!((masks(&answer, other), seen.len()), (seen, 2), "{output}");
}

#[test]
fn the_second_instance_of_a_killed_recorder_goes_with_the_first() {
    if !possible("instances of a killed recorder") {
        return;
    }
    let place = Place::new();
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    let mut recorder = Running::start(command.args(KERNEL).args(["--for", "60s"]).stdout(Stdio::null()).stderr(Stdio::null()));
    let pid = recorder.id();
    wait_for(|| instances(pid).len() == 2 && place.recordings().len() == 1 && place.newest().join("longpole.json").exists());
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    assert_eq!(instances(pid).len(), 2);
    place.longpole(&["info"]).arg(place.newest()).output().unwrap();
    assert_eq!(instances(pid), Vec::<String>::new());
}
