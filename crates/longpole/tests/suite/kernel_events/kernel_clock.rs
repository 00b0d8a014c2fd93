//! Probes and the kernel's events use one clock: the times of a system call between two probes lie
//! between the times of the probes, on any CPU.

use crate::support::host::can_trace;
use crate::support::place::{ok, Place};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const THREADS: usize = 2;

/// Times of the events of one thread's current bracket, in this order: span begin, system call
/// entry, system call exit. `complete` counts the brackets with all events.
#[derive(Default)]
struct Thread {
    times: Vec<i64>,
    complete: usize,
    cpus: BTreeSet<u64>,
}

/// Records brackets around system calls. Returns the number of complete brackets, the times of
/// those in which begin < entry < exit < end does not hold, and the number of CPUs on which each
/// thread ran.
fn brackets(calls: usize, clock: &str) -> (usize, Vec<Vec<i64>>, Vec<usize>) {
    let place = Place::new();
    let program = place.build("bracket", &[]);
    let arguments = ["record", "--kernel", "sched,syscall", "--context", "pid", "--buffer", "4MiB", "--", &program];
    let mut record = place.command(env!("CARGO_BIN_EXE_longpole"));
    record.args(arguments).args([(calls / THREADS).to_string(), THREADS.to_string()]).env("LONGPOLE_CLOCK", clock);
    ok(record.output().unwrap());
    let info = place.answer("info", &place.newest());
    assert_eq!(info["lost"], 0, "{info}");

    let mut print = place.longpole(&["print", "--json"]).arg(place.newest()).stdout(Stdio::piped()).spawn().unwrap();
    let mut threads: HashMap<i64, Thread> = HashMap::new();
    let mut wrong = Vec::new();
    // Lines are sorted by time, so equal times would hide a wrong order; therefore the times
    // themselves are compared.
    for line in BufReader::new(print.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if !line.contains(":bracket\"") && !line.contains("_getppid\"") {
            continue;
        }
        let event: Value = serde_json::from_str(&line).unwrap();
        let (t, context) = (event["t_ns"].as_i64().unwrap(), &event["context"]);
        let name = event["name"].as_str().unwrap();
        let thread = match threads.get_mut(&context["tid"].as_i64().unwrap()) {
            Some(thread) => thread,
            None if name == "span_begin:bracket" => threads.entry(context["tid"].as_i64().unwrap()).or_default(),
            // Other programs on this host make this call too.
            None => continue,
        };
        thread.cpus.extend(event["cpu"].as_u64());
        match (name, thread.times.len()) {
            ("span_begin:bracket", 0) | ("syscall_entry_getppid", 1) | ("syscall_exit_getppid", 2) => thread.times.push(t),
            ("span_end:bracket", 3) => {
                thread.times.push(t);
                thread.complete += 1;
                if !thread.times.is_sorted_by(|a, b| a < b) {
                    wrong.push(std::mem::take(&mut thread.times));
                }
                thread.times.clear();
            }
            (_, have) => {
                // The events are in the wrong order.
                wrong.push(std::mem::take(&mut thread.times));
                assert!(wrong.len() < 100, "{name} comes after {have} of the bracket's events");
            }
        }
    }
    assert!(print.wait().unwrap().success());
    let cpus = threads.values().map(|thread| thread.cpus.len()).collect();
    (threads.values().map(|thread| thread.complete).sum(), wrong, cpus)
}

#[test]
fn each_system_call_is_between_the_probes_around_it_on_all_cpus() {
    if !can_trace("probes and system calls on one clock") {
        return;
    }
    let several = std::thread::available_parallelism().unwrap().get().min(2);
    for (clock, calls) in [("", 100_000), ("mono_raw", 20_000)] {
        let (complete, wrong, cpus) = brackets(calls, clock);
        println!("{complete} brackets, {} of them wrong, clock {clock:?}", wrong.len());
        assert_eq!((complete, &wrong[..wrong.len().min(5)]), (calls, &[][..]), "{clock}");
        assert_eq!(cpus.len(), THREADS);
        assert!(cpus.iter().all(|&cpus| cpus >= several), "the threads wandered: {cpus:?}");
    }
}
