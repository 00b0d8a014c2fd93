//! The critical path through each means by which the kernel lets one thread wait for another, for a
//! device, for a timer or for a CPU, on live programs whose slow part is known.

use crate::support::host::{alone, can_trace};
use crate::support::place::{ok, stolen, Place};
use crate::support::schema;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

/// The output of the command, and the recording.
fn recorded(place: &Place, options: &[&str], command: &[&str]) -> (Output, PathBuf) {
    let mut record = place.command(env!("CARGO_BIN_EXE_longpole"));
    let output = ok(record.args(["record", "--stacks", "none"]).args(options).arg("--").args(command).output().unwrap());
    (output, place.newest())
}

fn rows(answer: &Value) -> &[Value] {
    answer["criticality"].as_array().unwrap()
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap()
}

/// Time on the path, in ns, of the rows whose machine and state `wanted` accepts.
fn time(answer: &Value, wanted: impl Fn(&str, &str) -> bool) -> u64 {
    let wanted = |row: &&Value| wanted(text(row, "machine"), text(row, "state"));
    rows(answer).iter().filter(wanted).map(|row| row["ns"].as_u64().unwrap()).sum()
}

fn is_code(state: &str) -> bool {
    !matches!(state, "runnable" | "preempted" | "interrupted" | "UNKNOWN") && !state.starts_with("blocked:")
}

fn path(place: &Place, trace: &Path) -> Value {
    let answer = place.answer("path", trace);
    schema::check(&schema::schema("path"), &answer);
    assert_eq!(answer["contradictions"], 0, "{}", answer["contradiction_list"]);
    let (unknown, length) = (answer["unknown_ns"].as_u64().unwrap(), answer["length_ns"].as_u64().unwrap());
    assert!(unknown * 20 <= length, "{unknown} of {length} ns are unknown: {}", answer["unknown_by"]);
    answer
}

#[test]
fn the_slower_thread_is_found_for_every_means_of_handing_over_items() {
    let _alone = alone();
    if !can_trace("the path through futexes, epoll, pipes, sockets and io_uring") {
        return;
    }
    for means in ["futex", "epoll", "pipe", "unix", "tcp", "io_uring"] {
        let place = Place::new();
        let program = place.build("edges", &[]);
        let before = stolen();
        let (output, trace) = recorded(&place, &[], &[&program, means]);
        let stolen = stolen() - before;
        if !output.stdout.is_empty() {
            println!("skipped: the path through {means} ({})", String::from_utf8_lossy(&output.stdout).trim());
            continue;
        }
        let answer = path(&place, &trace);
        assert_eq!(answer["end_machine"], "edges", "{means}");
        let maker = time(&answer, |machine, state| machine == "edges/maker" && is_code(state));
        let taker = time(&answer, |machine, state| machine == "edges" && is_code(state));
        // While the taker had work and did not run, the maker continued: its CPU was stolen, or
        // another program had it.
        let late = stolen + time(&answer, |machine, state| machine.starts_with("edges") && matches!(state, "runnable" | "preempted"));
        // The maker works for 100 ms in 400 units. Of the taker's work, only that for the last item
        // is on the path.
        let has_most = maker + late >= 80_000_000 && maker + 5 * late > 4 * taker;
        assert!(has_most, "{means}: maker {maker} ns, taker {taker} ns, {late} ns without a CPU: {answer}");
        if means == "tcp" {
            let log = String::from_utf8(ok(place.longpole(&["model"]).arg(&trace).output().unwrap()).stdout).unwrap();
            let count = |wanted: &str| log.lines().filter(|line| line.contains(wanted)).count();
            assert!(count("\"put\":\"net lo\"") >= 100 && count("\"machine\":\"edges\",\"woken_by\":\"softirq NET_RX cpu") >= 10);
        }
    }
}

#[test]
fn a_disk_and_a_timer_have_the_time_for_which_a_program_waited_for_them() {
    let _alone = alone();
    if !can_trace("the path through a disk and a timer") {
        return;
    }
    for (means, link) in [("fsync", "disk"), ("timerfd", "timer")] {
        // The current directory is on a real disk, unlike the test's place.
        let place = Place::new();
        let program = place.build("edges", &[]);
        let file = std::env::current_dir().unwrap().join(format!("edges.{}", std::process::id()));
        let (output, trace) = recorded(&place, &[], &[&program, means, file.to_str().unwrap()]);
        let _ = std::fs::remove_file(&file);
        let waited: u64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        let answer = path(&place, &trace);
        let told = time(&answer, |_, state| state.split(" ").next() == Some(link));
        if means == "fsync" && told == 0 && waited < 10_000_000 {
            println!("skipped: the path through a disk (writing here waits for none)");
            continue;
        }
        // The rest of the wait is for kernel threads and, especially on a busy host, for CPUs.
        let for_cpus = time(&answer, |_, state| matches!(state, "runnable" | "preempted"));
        assert!(told <= waited + waited / 4 && told > 0 && told + for_cpus >= waited / 3, "{means}: {told} of {waited} ns: {answer}");
        if means == "timerfd" {
            assert!(told >= 150_000_000, "{told} ns of 200 ms");
        }
    }
}

#[test]
fn the_thread_that_had_the_cpu_while_another_waited_for_it_is_listed() {
    let _alone = alone();
    if !can_trace("who had the CPU") {
        return;
    }
    let place = Place::new();
    let program = place.build("edges", &[]);
    let both = format!("nice -n -8 sh -c 'while :; do :; done' & hog=$!; {program} pipe; kill $hog");
    let (_, trace) = recorded(&place, &[], &["taskset", "-c", "0", "sh", "-c", &both]);
    let answer = path(&place, &trace);
    let (mut waited, mut by_hog) = (0, 0);
    for row in rows(&answer) {
        let waits = text(row, "class") != "link" && matches!(text(row, "state"), "runnable" | "preempted");
        assert!(waits || row["kept_by"].is_null(), "{row}");
        // The maker and the taker share the CPU, so only the maker's waits are compared.
        if waits && text(row, "machine") == "edges/maker" {
            let kept = row["kept_by"].as_array().unwrap();
            let ns: u64 = kept.iter().map(|keeper| keeper["ns"].as_u64().unwrap()).sum();
            assert_eq!(ns, row["ns"].as_u64().unwrap(), "{row}");
            waited += ns;
            by_hog += kept.iter().filter(|keeper| keeper["name"] == "sh").map(|keeper| keeper["ns"].as_u64().unwrap()).sum::<u64>();
        }
    }
    // Other programs on this host may have the CPU too; on a busy host they have it most of the
    // time.
    assert!(waited > 10_000_000 && by_hog * 10 > waited, "{by_hog} of {waited} ns: {answer}");
    let said = String::from_utf8(ok(place.longpole(&["path"]).arg(&trace).output().unwrap()).stdout).unwrap();
    assert!(
        said.lines().any(|line| line.starts_with("during edges/maker::") && line.contains("the CPU had: ") && line.contains("sh ")),
        "{said}"
    );
}

#[test]
fn an_interrupt_from_one_cpu_to_another_runs_on_top_of_the_thread_that_it_interrupts() {
    let _alone = alone();
    if !can_trace("interrupts between CPUs") {
        return;
    }
    let place = Place::new();
    let program = place.build("edges", &[]);
    let (_, trace) = recorded(&place, &["--kernel", "sched,irq,softirq,ipi,syscall"], &["nice", "-n", "-15", &program, "ipi"]);
    let interrupting = interrupts_while_running(&place, &trace, "edges");
    if interrupting == 0 {
        println!("skipped: interrupts between CPUs (none arrived while a thread of the program ran)");
        return;
    }
    let log = String::from_utf8(ok(place.longpole(&["model"]).arg(&trace).output().unwrap()).stdout).unwrap();
    let on_top = |line: &&str| line.contains("\"machine\":\"call_function") && line.contains("\"on_top_of\":\"edges");
    assert!(log.lines().any(|line| on_top(&line)), "{interrupting} interrupts, and none lies on top of the program");
}

/// Counts the calls from other CPUs that began while a thread of this name had the CPU, from the
/// events alone. On a loaded host the threads may share a CPU, and then there is none.
fn interrupts_while_running(place: &Place, trace: &Path, name: &str) -> usize {
    let names = "sched_switch,*call_function*_entry";
    let printed = ok(place.longpole(&["print", "--json", "--names", names]).arg(trace).output().unwrap()).stdout;
    let mut running = std::collections::HashMap::new();
    let mut count = 0;
    for line in String::from_utf8(printed).unwrap().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let cpu = event["cpu"].as_u64();
        match event["name"].as_str() {
            Some("sched_switch") => drop(running.insert(cpu, event["fields"]["next_comm"] == name)),
            Some(_) => count += usize::from(running.get(&cpu) == Some(&true)),
            None => {}
        }
    }
    count
}

#[test]
fn the_kernels_work_for_a_thread_is_a_system_call_in_the_graph() {
    let _alone = alone();
    if !can_trace("system calls in the graph") {
        return;
    }
    let place = Place::new();
    let (_, trace) = recorded(&place, &[], &["dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=400"]);
    let graph = place.answer("graph", &trace);
    let kind = |state: &str| {
        let nodes = graph["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["class"] == "dd" && node["state"] == state).map(|node| node["kind"].clone())
    };
    assert_eq!(kind("read"), Some("system_call".into()), "{graph}");
    assert_eq!(kind("user"), Some("running".into()), "{graph}");
}
