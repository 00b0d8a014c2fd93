//! Logs of seL4's kernel: every layout that compilers make of an entry, the answers of the verbs,
//! and inputs that are not such a log.
//!
//! A compiler made the logs of `fixtures/sel4`. This test makes the others, from the same
//! description of the layout.

use crate::support::schema;
use serde_json::{json, Value};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const ENTRIES: [&str; 2] = ["--format", "sel4-kernel-entries"];
const POINTS: [&str; 2] = ["--format", "sel4-tracepoints"];

fn run(verb: &str, arguments: &[&str], log: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longpole")).arg(verb).args(arguments).arg(log).env_remove("LONGPOLE_ROOT").output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn answer(verb: &str, arguments: &[&str], log: &Path) -> Value {
    let output = run(verb, &[arguments, &["--json"]].concat(), log);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = serde_json::from_slice(&output.stdout).unwrap();
    schema::check(&schema::schema(verb), &answer);
    answer
}

/// The events as `print --json` prints them.
fn events(output: &Output) -> Vec<Value> {
    let lines = schema::schema("print");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    events.iter().for_each(|event| schema::check(&lines, event));
    events
}

fn printed(arguments: &[&str], log: &Path) -> Vec<Value> {
    let output = run("print", &[arguments, &["--json"]].concat(), log);
    assert!(output.status.success(), "{}", stderr(&output));
    events(&output)
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/fixtures/sel4").join(name)
}

/// A system call: its number, the type of the capability, 1 if it took the fast path, and its
/// invocation tag.
fn call(number: u32, cap: u32, fast: u32, tag: u32) -> (u8, [(u32, u32); 4]) {
    (5, [(number, 4), (cap, 5), (fast, 1), (tag, 19)])
}

fn irq(number: u32) -> (u8, [(u32, u32); 4]) {
    (0, [(0, 3), (number, 26), (0, 0), (0, 0)])
}

/// An entry with 64-bit words in little-endian byte order.
fn entry(start: u64, duration: u32, (path, fields): (u8, [(u32, u32); 4])) -> Vec<u8> {
    let (mut bits, mut at) = (0u32, 0);
    for (value, size) in fields {
        bits |= value.checked_shl(at).unwrap_or(0);
        at += size;
    }
    let mut bytes = [start.to_le_bytes().as_slice(), &duration.to_le_bytes(), &[path], &bits.to_le_bytes()].concat();
    bytes.resize(24, 0);
    bytes
}

fn point(id: u64, duration: u64) -> Vec<u8> {
    [id.to_le_bytes(), duration.to_le_bytes()].concat()
}

/// A log in a frame of `bytes` bytes, filled up with zeros.
fn frame(folder: &TempDir, entries: &[Vec<u8>], bytes: usize) -> PathBuf {
    let path = folder.path().join("log");
    let mut log = entries.concat();
    log.resize(bytes.max(log.len()), 0);
    fs::write(&path, log).unwrap();
    path
}

/// The options for each layout, and the name of its fixtures.
const LAYOUTS: [(&str, &[&str]); 7] = [
    ("x86_64", &[]),
    ("aarch64", &["--word-size", "64", "--byte-order", "little"]),
    ("aarch64_be", &["--byte-order", "big"]),
    ("i386", &["--word-size", "32"]),
    ("armv7", &["--word-size", "32"]),
    ("armeb", &["--word-size", "32", "--byte-order", "big"]),
    ("riscv32", &["--word-size", "32"]),
];

#[test]
fn kernel_entries_are_the_same_in_every_layout_that_compilers_make() {
    let event = |t_ns: u64, duration: u64, fields: &[(&str, Value)]| {
        let mut all: serde_json::Map<String, Value> = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        all.insert("start_time".to_owned(), t_ns.into());
        all.insert("duration".to_owned(), duration.into());
        (t_ns, Value::Object(all))
    };
    let call = |name: &str, number: u64, cap: u64, fast: u64, tag: u64| {
        [
            ("path", json!("Syscall")),
            ("syscall", name.into()),
            ("syscall_no", number.into()),
            ("cap_type", cap.into()),
            ("is_fastpath", fast.into()),
            ("invocation_tag", tag.into()),
        ]
    };
    let other = |path: &str, word: u64| [("path", path.into()), ("word", word.into())];
    let truth = [
        event(1000, 100, &call("Call", 1, 4, 1, 7)),
        event(1500, 200, &[("path", json!("Interrupt")), ("core", 3.into()), ("word", 36.into())]),
        event(2000, 300, &call("Recv", 5, 31, 0, 0x7ffff)),
        event(3000, 50, &other("VMFault", 0x3ff_ffff)),
        event(3050, 450, &other("UnknownSyscall", 9)),
        event(5_000_000_000, 1000, &other("VCPUFault or VMExit", 1)),
    ];
    for (target, options) in LAYOUTS {
        let events = printed(&[&ENTRIES, options].concat(), &fixture(&format!("{target}.entries")));
        let events: Vec<_> = events.iter().map(|event| (event["t_ns"].as_u64().unwrap(), event["fields"].clone())).collect();
        assert_eq!(events, truth, "{target}");
    }
}

#[test]
fn tracepoints_are_the_same_in_every_layout_and_follow_each_other() {
    let truth = [(0, 1, 300), (300, 0, 700), (1000, 1, 500), (1500, 65535, 100)];
    for (target, options) in LAYOUTS {
        let events = printed(&[&POINTS, options].concat(), &fixture(&format!("{target}.points")));
        let number = |value: &Value| value.as_u64().unwrap();
        let events: Vec<_> = events
            .iter()
            .map(|event| (number(&event["t_ns"]), number(&event["fields"]["id"]), number(&event["fields"]["duration"])))
            .collect();
        assert_eq!(events, truth, "{target}");
    }
}

/// A log of 1,000 rounds, in cycles: a call (3 on the fast path, then 7 outside of the kernel), a
/// receive (20, then 50 outside), and an interrupt (5, then 15 outside).
fn rounds() -> Vec<Vec<u8>> {
    let round = |n: u64| {
        let t = 10_000 + 100 * n;
        [entry(t, 3, call(1, 2, 1, 0)), entry(t + 10, 20, call(5, 2, 0, 0)), entry(t + 80, 5, irq(30 + (n % 2) as u32))]
    };
    (0..1000).flat_map(round).collect()
}

#[test]
fn the_processor_is_in_the_states_of_the_entries_and_otherwise_outside() {
    let folder = TempDir::new().unwrap();
    let log = frame(&folder, &rounds(), 1 << 20);
    // At 500 MHz a cycle takes 2 ns. The last round ends with its interrupt.
    let arguments = [&ENTRIES[..], &["--frequency", "500000000"]].concat();
    let path = answer("path", &arguments, &log);
    assert_eq!((path["length_ns"].as_u64(), path["unknown_ns"].as_u64()), (Some(2 * (100_000 - 15)), Some(0)));
    let mut states: Vec<(&str, u64)> = path["criticality"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            assert_eq!(row["machine"], "cpu");
            (row["state"].as_str().unwrap(), row["ns"].as_u64().unwrap())
        })
        .collect();
    states.sort();
    let outside = 2 * (7 + 50 + 15) * 1000 - 2 * 15;
    let truth = [("Recv", 40_000), ("fastpath Call", 6_000), ("irq 30", 5_000), ("irq 31", 5_000), ("user or idle", outside)];
    assert_eq!(states, truth);

    let latency = answer("latency", &arguments, &log);
    let of = |name: &str| latency.as_array().unwrap().iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("{name}")).clone();
    for (name, count, ns) in [("fastpath Call", 1000, 6), ("Recv", 1000, 40), ("irq 30", 500, 10), ("irq 31", 500, 10)] {
        let line = of(name);
        assert_eq!((line["count"].as_u64(), line["min_ns"].as_u64(), line["max_ns"].as_u64()), (Some(count), Some(ns), Some(ns)), "{name}");
    }

    let cpu = String::from_utf8(run("cpu", &arguments, &log).stdout).unwrap();
    assert!(cpu.lines().any(|line| line.contains("user or idle") && line.contains("72.0 %")), "{cpu}");

    let report = answer("report", &arguments, &log);
    let verdict = &report["verdict"];
    assert_eq!(verdict["outcome"], "spread", "that a processor is busy holds nobody back, as far as the log tells: {verdict}");
    assert!(verdict["text"].as_str().unwrap().contains("no machine waits for another"), "{verdict}");
    let info = answer("info", &arguments, &log);
    assert_eq!((info["events"].as_u64(), info["lost"].as_u64(), info["uncounted_losses"].as_u64()), (Some(3000), Some(0), Some(0)));
    assert_eq!(info["clock"]["frequency_hz"], 500_000_000);

    let model = run("model", &arguments, &log);
    let log = folder.path().join("machines.jsonl");
    fs::write(&log, &model.stdout).unwrap();
    assert_eq!(answer("path", &[], &log)["criticality"], path["criticality"], "the machine log says the same");
}

#[test]
fn limits_of_a_log_are_reported_once() {
    let folder = TempDir::new().unwrap();
    let log = frame(&folder, &rounds(), 1 << 20);
    for verb in ["report", "path", "model", "latency"] {
        let said = stderr(&run(verb, &ENTRIES, &log));
        assert_eq!(said.matches("names no thread and no wake-up").count(), 1, "{verb}: {said}");
        assert_eq!(said.matches("times are cycles").count(), 1, "{verb}: {said}");
    }
    let log = frame(&folder, &[point(0, 5), point(1, 6)], 4096);
    let said = stderr(&run("path", &POINTS, &log));
    assert_eq!(said.matches("and not their time").count(), 1, "{said}");
    let info = answer("info", &POINTS, &log);
    assert!(info["diagnostics"].to_string().contains("and not their time"), "{info}");
    assert_eq!(info["clock"]["frequency_hz"], Value::Null);
}

#[test]
fn a_range_of_a_log_contains_only_its_events() {
    let folder = TempDir::new().unwrap();
    let log = frame(&folder, &rounds(), 1 << 20);
    let part = [&ENTRIES[..], &["--begin", "15000", "--end", "15099"]].concat();
    let times: Vec<u64> = printed(&part, &log).iter().map(|event| event["t_ns"].as_u64().unwrap()).collect();
    assert_eq!(times, [15_000, 15_010, 15_080]);
    assert_eq!(answer("path", &part, &log)["length_ns"], 85, "to the last end in it");
}

#[test]
fn the_names_of_calls_are_those_of_the_kernels_configuration() {
    let folder = TempDir::new().unwrap();
    let calls: Vec<Vec<u8>> = (1..=12).map(|number| entry(100 * u64::from(number), 1, call(number, 0, 0, 0))).collect();
    let log = frame(&folder, &calls, 4096);
    let names = |more: &[&str]| -> Vec<String> {
        printed(&[&ENTRIES, more].concat(), &log).iter().map(|event| event["fields"]["syscall"].as_str().unwrap().to_owned()).collect()
    };
    let master = "Call ReplyRecv Send NBSend Recv Reply Yield NBRecv call 9 call 10 call 11 call 12";
    assert_eq!(names(&[]).join(" "), master);
    let mcs = "Call ReplyRecv NBSendRecv NBSendWait Send NBSend Recv NBRecv Wait NBWait Yield call 12";
    assert_eq!(names(&["--mcs"]).join(" "), mcs);
    assert!(stderr(&run("print", &ENTRIES, &log)).contains("4 system calls have numbers that this kernel does not have"));
}

/// Diagnostics of `info` about saturation, counted losses, and losses without a count.
fn saturation(arguments: &[&str], log: &Path) -> (usize, u64, u64) {
    let info = answer("info", arguments, log);
    let saturated = info["diagnostics"].as_array().unwrap().iter().filter(|text| text.as_str().unwrap().contains("saturated")).count();
    (saturated, info["lost"].as_u64().unwrap(), info["uncounted_losses"].as_u64().unwrap())
}

#[test]
fn a_full_buffer_is_reported_as_saturated_and_one_with_room_is_not() {
    let folder = TempDir::new().unwrap();
    // A buffer of 1 MiB has room for 43,690 entries of 24 bytes. A frame may be larger than the
    // part of it that the kernel uses.
    let full: Vec<Vec<u8>> = (0..43_690).map(|n| entry(10 * n + 1, 5, call(1, 2, 1, 0))).collect();
    for bytes in [1 << 20, 2 << 20] {
        let log = frame(&folder, &full, bytes);
        assert_eq!(saturation(&ENTRIES, &log), (1, 0, 1));
        assert_eq!(saturation(&[&ENTRIES[..], &["--entries", "43690"]].concat(), &log), (1, 0, 1));
        assert_eq!(saturation(&[&ENTRIES[..], &["--entries", "43689"]].concat(), &log), (0, 0, 0));
    }
    for verb in ["path", "report", "print", "model"] {
        let said = stderr(&run(verb, &ENTRIES, &frame(&folder, &full, 1 << 20)));
        assert_eq!(said.matches("the log is saturated").count(), 1, "{verb}: {said}");
    }
    for verb in ["info", "check"] {
        let said = run(verb, &ENTRIES, &frame(&folder, &full, 1 << 20)).stdout;
        assert_eq!(String::from_utf8_lossy(&said).matches("the log is saturated").count(), 1, "{verb}");
    }
    assert_eq!(saturation(&ENTRIES, &frame(&folder, &full[1..], 1 << 20)), (0, 0, 0));

    // The kernel also counts the tracepoint entries for which there was no room.
    let full: Vec<Vec<u8>> = (0..65_536).map(|n| point(n % 4, 5)).collect();
    let log = frame(&folder, &full, 1 << 20);
    assert_eq!(saturation(&POINTS, &log), (1, 0, 1));
    assert_eq!(saturation(&[&POINTS[..], &["--entries", "70000"]].concat(), &log), (1, 70_000 - 65_536, 0));
    assert_eq!(saturation(&POINTS, &frame(&folder, &full[1..], 1 << 20)), (0, 0, 0));
    // A file that was cut to its entries is no whole frame, so it is not saturated.
    assert_eq!(saturation(&POINTS, &frame(&folder, &full[..100], 0)), (0, 0, 0));
}

#[test]
fn entries_of_an_earlier_run_are_recognised() {
    let folder = TempDir::new().unwrap();
    let mut entries: Vec<Vec<u8>> = (0..10).map(|n| entry(1000 + 100 * n, 5, call(1, 2, 1, 0))).collect();
    entries.extend((0..5).map(|n| entry(500 + 10 * n, 5, call(1, 2, 1, 0))));
    let log = frame(&folder, &entries, 4096);
    let output = run("print", &[&ENTRIES[..], &["--json"]].concat(), &log);
    assert_eq!((output.status.code(), events(&output).len()), (Some(1), 10));
    let said = stderr(&output);
    assert!(said.contains("entry 10, at byte 240: it starts at 500") && said.contains("--entries 10"), "{said}");
    assert_eq!(printed(&[&ENTRIES[..], &["--entries", "10"]].concat(), &log).len(), 10);
    // A number of entries greater than the file contains is an error and is not reduced.
    let output = run("check", &[&ENTRIES[..], &["--entries", "200"]].concat(), &frame(&folder, &entries[..10], 0));
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("entry 10, at byte 240: the file ends within it, at byte 240"), "{said}");
}

#[test]
fn a_counter_of_32_bits_that_wraps_around_continues() {
    let folder = TempDir::new().unwrap();
    let times = [0xffff_ff00u64, 0xffff_fff0, 0x20, 0x90];
    let entries: Vec<Vec<u8>> = times.iter().map(|&t| entry(t, 0x10, call(1, 2, 1, 0))).collect();
    let log = frame(&folder, &entries, 4096);
    let narrow = [&ENTRIES[..], &["--word-size", "32"]].concat();
    let told: Vec<u64> = printed(&narrow, &log).iter().map(|event| event["t_ns"].as_u64().unwrap()).collect();
    assert_eq!(told, [0xffff_ff00, 0xffff_fff0, 0x1_0000_0020, 0x1_0000_0090]);
    assert_eq!(run("print", &ENTRIES, &log).status.code(), Some(1), "one of 64 bits does not");
}

#[test]
fn entries_of_several_cores_that_overlap_are_cut_and_counted() {
    let folder = TempDir::new().unwrap();
    let log = frame(&folder, &[entry(100, 50, call(1, 2, 1, 0)), entry(120, 10, irq(1)), entry(200, 7, irq(1))], 4096);
    let output = run("path", &[&ENTRIES[..], &["--json"]].concat(), &log);
    assert!(output.status.success());
    assert!(stderr(&output).contains("1 entry begins before the end of the entry before"), "{}", stderr(&output));
    let path: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ns = |state: &str| path["criticality"].as_array().unwrap().iter().find(|row| row["state"] == state).unwrap()["ns"].as_u64();
    assert_eq!((ns("fastpath Call"), ns("irq 1"), ns("user or idle")), (Some(20), Some(17), Some(70)));
}

#[test]
fn a_file_that_is_no_log_is_refused_with_the_position() {
    let folder = TempDir::new().unwrap();
    let refused = |options: &[&str], bytes: &[u8], why: &str| {
        let path = folder.path().join("log");
        fs::write(&path, bytes).unwrap();
        for verb in ["info", "print", "report", "path", "model", "check", "latency"] {
            let output = run(verb, options, &path);
            assert_eq!(output.status.code(), Some(1), "{verb} {why}: {}", stderr(&output));
            assert!(stderr(&output).contains(why), "{verb}: {}", stderr(&output));
        }
    };
    refused(&ENTRIES, &[], "the file is empty");
    refused(&POINTS, &[0; 4096], "all of its 4096 bytes are zero");
    refused(&ENTRIES, &entry(1, 1, irq(1))[..20], "entry 0, at byte 0: the file ends within it, at byte 20");
    refused(&ENTRIES, &[0xff; 4096], "entry 0, at byte 0: its bits are not those of a kernel entry");
    refused(&POINTS, b"a text is a number of tracepoint", "entry 0, at byte 0: 0x6920747865742061 is not the number of a tracepoint");
    // Logs that are read with the wrong layout.
    let points: Vec<u8> = (0..9).flat_map(|n| point(n, 1000)).collect();
    refused(&[&POINTS[..], &["--word-size", "32"]].concat(), &points, "every duration is 0; check --word-size");
    refused(&[&POINTS[..], &["--byte-order", "big"]].concat(), &[point(1, 7), points].concat(), "check --word-size and --byte-order");
    let call = entry(1, 1, call(1, 2, 1, 0));
    refused(&[&ENTRIES[..], &["--byte-order", "big"]].concat(), &call, "its bits are not those of a kernel entry");
    let output = run("print", &ENTRIES, Path::new("/dev/zero"));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let output = run("print", &["--word-size", "32"], Path::new("/dev/zero"));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn a_log_that_is_cut_anywhere_is_read_up_to_the_cut() {
    let folder = TempDir::new().unwrap();
    let whole: Vec<u8> = rounds()[..9].concat();
    for cut in (25..whole.len()).step_by(7) {
        let path = folder.path().join("log");
        fs::write(&path, &whole[..cut]).unwrap();
        let output = run("print", &[&ENTRIES[..], &["--json"]].concat(), &path);
        // The last bytes of an entry are unused, so the rest of a cut entry may be all zero. Then
        // it is taken for unused space.
        let shown = events(&output).len();
        assert_eq!(shown, cut / 24, "cut at {cut}");
        let said = stderr(&output);
        match output.status.code() {
            Some(1) => assert!(said.contains(&format!("at byte {}: the file ends within it, at byte {cut}", shown * 24)), "{said}"),
            code => assert_eq!((code, cut % 24), (Some(0), 0), "cut at {cut}: {said}"),
        }
    }
}

#[test]
fn random_bytes_are_an_error_and_never_a_crash() {
    let folder = TempDir::new().unwrap();
    let (mut state, path) = (0x9e37_79b9_7f4a_7c15u64, folder.path().join("log"));
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let log: Vec<u8> = rounds()[..60].concat();
    for round in 0..60 {
        let mut noise = log.clone();
        for _ in 0..=round % 7 {
            let at = random() as usize % noise.len();
            noise[at] = random() as u8;
        }
        if round % 3 == 0 {
            noise = (0..200).flat_map(|_| random().to_le_bytes()).collect();
        }
        fs::write(&path, &noise).unwrap();
        for options in [&ENTRIES, &POINTS] {
            let output = run("report", options, &path);
            assert!(matches!(output.status.code(), Some(0 | 1)), "{:?}: {}", output.status, stderr(&output));
            assert!(!stderr(&output).contains("internal error"), "{}", stderr(&output));
        }
    }
}

#[test]
fn other_verbs_and_rules_accept_such_logs_too() {
    let folder = TempDir::new().unwrap();
    let log = frame(&folder, &rounds(), 1 << 20);
    let text = log.to_str().unwrap();
    let output = run("diff", &[&ENTRIES[..], &["--json", text]].concat(), &log);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = run("graph", &["--input-format", "sel4-kernel-entries", "--format", "dot"], &log);
    assert!(output.status.success() && output.stdout.starts_with(b"digraph"), "{}", stderr(&output));
    let rules = folder.path().join("mine.toml");
    fs::write(&rules, "[[rule]]\nevent = \"kernel_entry\"\nwhen = \"path == 5\"\ndo = \"mark\"\nname = \"of cap @cap_type\"\n").unwrap();
    let output = run("rules", &[&["check"], &ENTRIES[..], &["--json", rules.to_str().unwrap()]].concat(), &log);
    assert!(output.status.success(), "{}", stderr(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["trace"]["matched"][0]["events"], 2000);
    let output = run("what-if", &[&ENTRIES[..], &["--json", "cpu::Recv x0.5"]].concat(), &log);
    assert!(output.status.success(), "{}", stderr(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told[0]["baseline_ns"], 100_000 - 15);
    assert_eq!(told[0]["predicted_ns"], 100_000 - 15 - 10_000);
}
