//! Sampled stacks of waits and wake-ups, of a program whose waits are known.

use crate::support::{live, tool, until, Place};
use longpole_ctf::{BytesSource, EventRef, Item, Metadata, StreamDecoder, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// Lock of the tests of this file, because they sample the whole host.
static ALONE: Mutex<()> = Mutex::new(());
const RUNNING: i64 = 0;
const WAITED: i64 = 1;
const WOKE: i64 = 2;
/// First number of the array on the stack of the thread that sleeps.
const MARK: u64 = 0x10e9_01e5_ca1a_b1e0;

/// Returns whether waits can be sampled here; otherwise prints that `what` is skipped.
fn can_sample_waits(what: &str) -> bool {
    let possible = live(what) && longpole_record::stacks::survey().is_ok_and(|found| found.ends_with("; stacks of waits"));
    if !possible {
        println!("skipped: {what} (needs root, BPF, and Linux 6.16)");
    }
    possible
}

/// A `copied` event.
#[derive(Debug)]
struct Copied {
    /// Period of the sampling of waits on the CPU at that time, in ns.
    period: u64,
    cause: i64,
    pid: i64,
    tid: i64,
    other: i64,
    kernel: Vec<u64>,
    user: Vec<u64>,
    ip: u64,
    stack: Vec<u8>,
}

/// Content of `samples/`.
#[derive(Debug, Default)]
struct Samples {
    copied: Vec<Copied>,
    /// Periods in ns of each CPU, in order.
    periods: BTreeMap<String, Vec<u64>>,
    lost: u64,
}

fn number(event: &EventRef<'_>, field: &str) -> i64 {
    event.get(field).and_then(|value| value.as_i64()).unwrap_or_else(|| panic!("{field} is no number"))
}

fn numbers(event: &EventRef<'_>, field: &str) -> Vec<u64> {
    let Some(Value::Array(array)) = event.get(field) else { panic!("{field} is no list") };
    array.iter().map(|value| value.as_u64().unwrap()).collect()
}

fn bytes(event: &EventRef<'_>, field: &str) -> Vec<u8> {
    let Some(Value::Bytes(bytes)) = event.get(field) else { panic!("{field} has no bytes") };
    bytes.to_vec()
}

fn read(recording: &Path) -> Samples {
    let folder = recording.join("samples");
    let metadata = Arc::new(Metadata::from_text(&fs::read_to_string(folder.join("metadata")).unwrap()).unwrap());
    let mut samples = Samples::default();
    for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        if !name.starts_with("cpu") {
            continue;
        }
        let mut decoder = StreamDecoder::new(metadata.clone(), BytesSource(fs::read(entry.path()).unwrap()));
        while let Some(item) = decoder.next().unwrap() {
            match item {
                Item::Event(event) => take(&event, &name, &mut samples),
                Item::DiscardedEvents(loss) => samples.lost += loss.count.unwrap(),
                Item::DiscardedPackets(_) => panic!("packets are missing"),
                _ => {}
            }
        }
    }
    samples
}

fn take(event: &EventRef<'_>, cpu: &str, samples: &mut Samples) {
    match event.name() {
        "waiting_rate" => samples.periods.entry(cpu.to_owned()).or_default().push(number(event, "period_ns") as u64),
        "copied" => {
            let period = *samples.periods.get(cpu).and_then(|periods| periods.last()).expect("the period is the first event");
            samples.copied.push(Copied {
                period,
                cause: number(event, "cause"),
                pid: number(event, "pid"),
                tid: number(event, "tid"),
                other: number(event, "other_tid"),
                kernel: numbers(event, "kernel"),
                user: numbers(event, "user"),
                ip: event.get("ip").unwrap().as_u64().unwrap(),
                stack: bytes(event, "stack"),
            });
        }
        _ => {}
    }
}

/// The waits of one thread, as the program counted them.
#[derive(Debug)]
struct Waits {
    tid: i64,
    count: f64,
    ns: f64,
}

/// Runs the program to its end. Returns its pid, and a line for each thread that waited.
fn run(place: &Place, mode: &str) -> (i64, Vec<Waits>) {
    let child = place.program("waits", &[mode]).stdout(Stdio::piped()).spawn().unwrap();
    let pid = i64::from(child.id());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let words: Vec<f64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        Waits { tid: words[0] as i64, count: words[1], ns: words[2] }
    };
    (pid, text.lines().map(line).collect())
}

#[test]
fn waits_are_sampled_by_their_length_and_wakers_with_the_thread_that_they_wake() {
    if !can_sample_waits("samples of known waits") {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let recorder = place.recorder_with(&["0", "-", "sched", "-", "99", "500"]);
    let (pid, threads) = run(&place, "known");
    let ended = recorder.finish();
    let samples = read(&ended.path);
    assert!(samples.periods.values().all(|periods| periods.first() == Some(&2_000_000)), "{:?}", samples.periods);
    // Other programs of a busy host may have enlarged the period meanwhile.
    let largest = samples.periods.values().flatten().copied().max().unwrap();
    let changes = samples.periods.values().map(|periods| periods.len() - 1).max().unwrap();
    let own: Vec<&Copied> = samples.copied.iter().filter(|sample| sample.pid == pid).collect();
    let of = |tid: i64, cause: i64| own.iter().filter(move |sample| sample.tid == tid && sample.cause == cause);
    let [sleeper, reader, long_sleeper] = &threads[..] else { panic!("{threads:?}") };

    // Each sample represents a period of waiting, because these waits are shorter. The bound is
    // six standard deviations of the estimate.
    for thread in [sleeper, reader] {
        let periods = || of(thread.tid, WAITED).map(|sample| sample.period as f64);
        let (estimate, variance) = (periods().sum::<f64>(), periods().map(|period| period * period).sum::<f64>());
        assert!((estimate - thread.ns).abs() < 6.0 * variance.sqrt(), "{estimate} of {thread:?}");
    }
    // Waits that are longer than the period are all sampled.
    if largest <= 10_000_000 && samples.lost == 0 {
        assert!(of(long_sleeper.tid, WAITED).count() as f64 >= long_sleeper.count, "{long_sleeper:?}");
    }

    // The first thread alone wakes the reader, and only waits that are sampled have a waker.
    let wakers: Vec<i64> = samples.copied.iter().filter(|sample| sample.other == reader.tid).map(|sample| sample.tid).collect();
    assert!(!wakers.is_empty() && wakers.iter().all(|tid| *tid == pid), "{wakers:?}");
    let waits_of_reader = of(reader.tid, WAITED).count();
    assert!(wakers.len() <= waits_of_reader + changes + samples.lost as usize, "{} {waits_of_reader}", wakers.len());
    assert!(samples.copied.iter().all(|sample| (sample.cause == WOKE) == (sample.other != 0)));

    // The stacks are those of the waits: in the kernel, and in the program.
    let marks: Vec<u8> = (0..4).flat_map(|at| (MARK + at).to_ne_bytes()).collect();
    for sample in of(sleeper.tid, WAITED) {
        assert!(sample.kernel.len() > 3 && sample.user.first() == Some(&sample.ip), "{sample:?}");
        assert!(sample.kernel.iter().all(|address| *address >> 63 == 1), "{sample:?}");
    }
    let with_marks = of(sleeper.tid, WAITED).filter(|sample| sample.stack.windows(marks.len()).any(|bytes| bytes == marks)).count();
    assert!(with_marks >= 1 && 2 * with_marks > of(sleeper.tid, WAITED).count(), "{with_marks}");

    // It does not print the events, which would be many megabytes.
    let arguments = [&ended.path.join("samples"), Path::new("-c"), Path::new("sink.utils.counter")];
    if let Some((success, text)) = tool("babeltrace2", &arguments) {
        assert!(success, "{text}");
    }
}

#[test]
fn a_flood_of_long_waits_enlarges_the_period_and_a_diagnostic_reports_it() {
    if !can_sample_waits("a flood of samples of waits") {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    // To count lost events, babeltrace2 would print each byte of the copies.
    place.damages();
    let recorder = place.recorder_with(&["0", "-", "sched", "-", "99", "999"]);
    let (pid, threads) = run(&place, "flood");
    let ended = recorder.finish();
    let samples = read(&ended.path);
    for periods in samples.periods.values() {
        assert_eq!(periods.first(), Some(&1_001_001));
        assert!(periods.iter().max() >= Some(&2_002_002), "{periods:?}");
    }
    assert!(
        ended.diagnostics.iter().any(|text| text.starts_with("stacks of waits were more than 8 MiB per second")),
        "{:?}",
        ended.diagnostics
    );
    // Without the limit, each wait would have been sampled.
    let waits: f64 = threads.iter().map(|thread| thread.count).sum();
    let sampled = samples.copied.iter().filter(|sample| sample.pid == pid && sample.cause == WAITED).count() as f64;
    assert!(sampled > 16.0 && sampled < 0.7 * waits, "{sampled} of {waits}");
}

/// Returns the numbers of the BPF programs that a process has loaded.
fn programs_of(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().flatten();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let mut programs: Vec<u32> =
        texts.filter_map(|text| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())).collect();
    programs.sort_unstable();
    programs.dedup();
    programs
}

/// Returns whether the kernel has a BPF program with this number.
fn is_loaded(program: u32) -> bool {
    const GET_BY_NUMBER: libc::c_int = 13;
    let attributes = [program, 0, 0];
    // SAFETY: the kernel reads 12 bytes, which live during the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, GET_BY_NUMBER, attributes.as_ptr(), 12) };
    if fd >= 0 {
        // SAFETY: a new descriptor, which has no other owner.
        unsafe { libc::close(fd as i32) };
    }
    fd >= 0
}

#[test]
fn a_killed_recorder_leaves_no_program_in_the_kernel_and_its_samples_are_readable() {
    if !can_sample_waits("a recorder of waits that is killed") {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let recorder = place.recorder_with(&["0", "-", "sched", "-", "99", "999"]);
    let programs = programs_of(recorder.pid());
    assert!(!programs.is_empty());
    assert!(programs.iter().all(|program| is_loaded(*program)));
    let samples = recorder.path.join("samples");
    let bytes = || fs::read_dir(&samples).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum::<u64>();
    let before = bytes();
    until(|| {
        Command::new("true").status().unwrap();
        bytes() > before + 100_000
    });
    let path = recorder.kill();
    // The kernel frees a program a moment after its last descriptor.
    until(|| !programs.iter().any(|program| is_loaded(*program)));
    let samples = read(&path);
    let [running, waited, woke] = [RUNNING, WAITED, WOKE].map(|cause| samples.copied.iter().filter(|sample| sample.cause == cause).count());
    assert!(waited > 0 && woke > 0, "{running} {waited} {woke}");
}
