//! `longpole record --steady`: the scheduling parameters that the command really has, and their
//! effect on preemption.

use crate::support::place::{ok, Place};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Prints policy, priority and slice as the kernel returns them, and the number of preemptions. The
/// number is 0 unless the program is asked to use half a second of CPU time while a busy loop runs
/// on the same CPU.
const PROGRAM: &str = "
import ctypes, os, platform, struct, subprocess, sys, time
call = {'x86_64': 315, 'aarch64': 275}[platform.machine()]
buffer = ctypes.create_string_buffer(56)
assert ctypes.CDLL(None).syscall(call, 0, buffer, 56, 0) == 0
_, policy, _, nice, priority, runtime = struct.unpack('IIQiIQ', buffer.raw[:32])
preempted = 0
if sys.argv[1] == 'together':
    cpu = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})
    def plain(): os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    other = subprocess.Popen([sys.executable, '-c', 'while True: pass'], preexec_fn=plain)
    begin = time.process_time()
    while time.process_time() - begin < 0.5: pass
    other.kill()
    text = open('/proc/self/status').read()
    preempted = int(text.split('nonvoluntary_ctxt_switches:')[1])
print(policy, priority, runtime, preempted)
";

fn record(place: &Place, steady: &[&str], work: &str) -> (Vec<u64>, Value, String) {
    let mut command = place.longpole(&["record"]);
    let output = command.args(steady).args(["--", "python3", "-c", PROGRAM, work]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let told = serde_json::from_slice(&std::fs::read(place.newest().join("longpole.json")).unwrap()).unwrap();
    (numbers, told, said)
}

fn metadata(place: &Place) -> String {
    std::fs::read_to_string(place.newest().join("user/metadata")).unwrap()
}

#[test]
fn the_command_has_the_scheduling_parameters_that_the_recording_contains() {
    let place = Place::new();
    let (plain, told, _) = record(&place, &[], "alone");
    assert_eq!((plain[0], &told["steady"]), (0, &Value::Null));
    assert!(!metadata(&place).contains("steady"));
    let (slice, told, said) = record(&place, &["--steady"], "alone");
    assert_eq!(told["steady"]["asked"], "slice");
    match told["steady"]["slice_ns"].as_u64() {
        Some(ns) => {
            assert_eq!((ns, slice[2]), (100_000_000, 100_000_000));
            assert!(metadata(&place).contains("steady = \"SCHED_OTHER, slice 100000 us\";"));
        }
        None => assert!(said.contains("6.12"), "{said}"),
    }
    let (fifo, told, said) = record(&place, &["--steady=fifo"], "alone");
    match told["steady"]["policy"].as_str() {
        Some(policy) => assert_eq!((policy, fifo[0], fifo[1]), ("SCHED_FIFO", 1, told["steady"]["priority"].as_u64().unwrap())),
        None => assert!(said.contains("CAP_SYS_NICE") && fifo[0] == 0, "{said}"),
    }
}

#[test]
fn a_command_under_sched_fifo_is_hardly_preempted() {
    let place = Place::new();
    let (fifo, told, _) = record(&place, &["--steady=fifo"], "together");
    if told["steady"]["policy"] != "SCHED_FIFO" {
        println!("skipped: preemption under SCHED_FIFO (needs root)");
        return;
    }
    let (plain, _, _) = record(&place, &[], "together");
    // The plain command is preempted hundreds of times, the other only a few times.
    assert!(plain[3] > 4 * fifo[3].max(5), "{plain:?} {fifo:?}");
}

#[test]
fn steady_without_a_command_or_of_an_unknown_kind_is_wrong_usage() {
    let place = Place::new();
    for arguments in [["record", "--steady", "--for", "1ms"], ["record", "--steady=quite", "--", "true"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_longpole")).args(arguments).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
    }
    ok(place.longpole(&["record", "--help"]).output().unwrap());
}
