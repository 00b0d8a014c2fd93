//! Sampled stacks, from `record --stacks` to the answer, on programs whose shares are known.

use crate::support::host::can_sample;
use crate::support::place::{ok, signal, wait_for, Place, Running};
use crate::support::program::copy_program;
use crate::support::schema;
use longpole_symbols::{Origin, Stacks};
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::StreamKind;
use longpole_trace::Trace;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A rate that is no multiple or divisor of the rate of anything in the programs.
const HZ: &str = "3989";
const FRAMES: [&str; 2] = ["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Records a command. Returns the output of `record`, and the recording.
fn record(place: &Place, hz: &str, command: &[&str]) -> (Output, PathBuf) {
    let output = ok(place.longpole(&["record", "--stacks", hz, "--"]).args(command).output().unwrap());
    (output, place.newest())
}

/// Half the number of samples that `seconds` of CPU time should have, at the rate that the kernel
/// allowed.
fn half_of(recording: &Path, seconds: f64) -> f64 {
    let description: Value = serde_json::from_str(&fs::read_to_string(recording.join("longpole.json")).unwrap()).unwrap();
    description["samples"]["hz"].as_f64().unwrap() * seconds / 2.0
}

/// The number of samples in an answer of `info`: those with addresses only, and those with a copied
/// stack, before and after the conversion.
fn sample_events(info: &Value) -> u64 {
    ["sample", "copied", "stack"].iter().filter_map(|name| info["names"][name].as_u64()).sum()
}

/// The pid of the test's program, which is the last line that it prints.
fn pid(output: &Output) -> i64 {
    text(&output.stdout).lines().last().unwrap().parse().unwrap()
}

/// The rows of a process by function: (module, samples in the function itself, samples in it and
/// its callees).
fn functions(place: &Place, recording: &Path, pid: i64) -> BTreeMap<String, (String, u64, u64)> {
    let answer = place.answer("cpu", recording);
    schema::check(&schema::schema("cpu"), &answer);
    let rows = answer["functions"].as_array().unwrap().iter().filter(|row| row["pid"] == pid);
    let take = |row: &Value| {
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        let number = |key: &str| row[key].as_u64().unwrap();
        assert!(row["self_low"].as_f64() <= row["self_share"].as_f64() && row["self_share"].as_f64() <= row["self_high"].as_f64());
        (text("function"), (text("module"), number("self_samples"), number("samples")))
    };
    rows.map(take).collect()
}

const WORK: [&str; 3] = ["work_of_six", "work_of_three", "work_of_one"];

/// Shares of the three functions in their sum, and the number of their samples.
fn shares_of<'a>(samples: impl Iterator<Item = (&'a str, u64)>) -> ([f64; 3], f64) {
    let counts: HashMap<&str, u64> = samples.collect();
    let of = WORK.map(|name| counts.get(name).copied().unwrap_or(0) as f64);
    let all: f64 = of.iter().sum();
    (of.map(|count| count / all.max(1.0)), all)
}

/// The shares that the program measured itself.
fn expected(output: &Output) -> [f64; 3] {
    let stdout = text(&output.stdout);
    let used: Vec<f64> = stdout.lines().next().unwrap().split(' ').map(|number| number.parse().unwrap()).collect();
    let all: f64 = used.iter().sum();
    [used[0] / all, used[1] / all, used[2] / all]
}

#[test]
fn functions_have_the_shares_that_the_program_measured_and_perf_agrees() {
    if !can_sample("shares of functions") {
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &FRAMES);
    let (output, recording) = record(&place, HZ, &[&program, "shares", "1.5"]);
    let expected = expected(&output);
    let found = functions(&place, &recording, pid(&output));
    let (shares, samples) = shares_of(found.iter().map(|(name, (_, own, _))| (name.as_str(), *own)));
    assert!(samples > half_of(&recording, 1.5), "{samples} {found:?}");
    for (at, name) in WORK.iter().enumerate() {
        assert!((shares[at] - expected[at]).abs() < 0.03, "{name}: {shares:?}, measured {expected:?}");
        assert_eq!(found[*name].0, "sampled");
    }
    // All samples have their caller `main`.
    let (_, own, all) = &found["main"];
    assert!(*all as f64 > 0.98 * samples && (*own as f64) < 0.02 * samples, "{found:?}");

    // The same stacks in folded form: the outermost frame first.
    let folded = ok(place.longpole(&["cpu", "--folded", "--pid", &pid(&output).to_string()]).arg(&recording).output().unwrap());
    let folded = text(&folded.stdout);
    let mut sums: HashMap<&str, u64> = HashMap::new();
    let mut without_main = 0;
    for line in folded.lines() {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        // Before it executed the program, the process was a child of the recorder.
        assert!(stack.starts_with("sampled;") || stack.starts_with("longpole;"), "{line}");
        let leaf = stack.rsplit(';').next().unwrap();
        *sums.entry(leaf).or_default() += count.parse::<u64>().unwrap();
        if WORK.contains(&leaf) && !stack.contains(";main;") {
            without_main += count.parse::<u64>().unwrap();
        }
    }
    // At the first and last instructions of a function its frame is incomplete, and the stack lacks
    // the caller.
    assert!((without_main as f64) < 0.02 * samples, "{without_main} of {samples}");
    assert_eq!(shares_of(sums.into_iter()).1, samples);

    perf(&place, &program, expected);
}

/// Compares the measured shares with those of perf, in a run of its own.
fn perf(place: &Place, program: &str, expected: [f64; 3]) {
    let data = place.path("perf.data");
    let run = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-F", HZ, "-g", "-o"])
        .arg(&data)
        .args(["--", program, "shares", "1"])
        .output();
    let missing = match run {
        Ok(run) if run.status.success() => None,
        Ok(run) => Some(format!("it cannot record here: {}", text(&run.stderr).trim().lines().last().unwrap_or_default())),
        Err(error) => Some(format!("it cannot be run: {error}")),
    };
    if let Some(missing) = missing {
        println!("skipped: comparison with perf ({missing})");
        return;
    }
    let report = Command::new("perf").args(["script", "-F", "comm,ip,sym", "-i"]).arg(&data).stderr(Stdio::null()).output().unwrap();
    let report = text(&report.stdout);
    let mut leaves: HashMap<&str, u64> = HashMap::new();
    for sample in report.split("\n\n") {
        if let Some(leaf) = sample.lines().nth(1).and_then(|frame| frame.split_whitespace().nth(1)) {
            *leaves.entry(leaf).or_default() += 1;
        }
    }
    let (shares, samples) = shares_of(leaves.into_iter());
    assert!(samples > 1000.0, "{report:.1000}");
    for (at, name) in WORK.iter().enumerate() {
        assert!((shares[at] - expected[at]).abs() < 0.05, "{name}: perf {shares:?}, here {expected:?}");
    }
}

#[test]
fn functions_of_a_stripped_program_are_one_function_of_its_module() {
    if !can_sample("a stripped program") {
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &[FRAMES[0], FRAMES[1], "-s"]);
    let (output, recording) = record(&place, HZ, &[&program, "shares", "0.5"]);
    let found = functions(&place, &recording, pid(&output));
    let of_program: u64 = found.get("sampled").map_or(0, |(_, own, _)| *own);
    assert!(of_program as f64 > half_of(&recording, 0.5), "{found:?}");
    assert!(WORK.iter().all(|name| !found.contains_key(*name)), "{found:?}");
}

#[test]
fn generated_code_has_the_names_of_the_programs_perf_map() {
    if !can_sample("code made at run time") || !cfg!(target_arch = "x86_64") {
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &FRAMES);
    let (output, recording) = record(&place, HZ, &[&program, "made", "0.5"]);
    let list = format!("/tmp/perf-{}.map", pid(&output));
    fs::remove_file(&list).unwrap();
    let found = functions(&place, &recording, pid(&output));
    let (first, second) = (&found["made first"], &found["made second"]);
    assert_eq!(first.0, "[jit]");
    let share = first.1 as f64 / (first.1 + second.1) as f64;
    assert!((first.1 + second.1) as f64 > half_of(&recording, 0.5) && (share - 0.75).abs() < 0.06, "{found:?}");
    assert!(found["main"].2 > first.1, "{found:?}");

    // A map that another user has created is ignored.
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) != 0) {
        println!("skipped: a list of another user (needs root)");
        return;
    }
    fs::remove_file(recording.join("symbols/functions.jsonl")).unwrap();
    let lines = "0 7fffffffffffffff wrong name\n";
    fs::write(&list, lines).unwrap();
    std::os::unix::fs::chown(&list, Some(54321), None).unwrap();
    let found = functions(&place, &recording, pid(&output));
    fs::remove_file(&list).unwrap();
    assert!(!found.contains_key("wrong name") && found.contains_key("[jit]"), "{found:?}");
}

#[test]
fn functions_of_the_kernel_have_names() {
    if !can_sample("the kernel's functions") {
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &FRAMES);
    let (output, recording) = record(&place, HZ, &[&program, "kernel", "0.5"]);
    if !recording.join("symbols/kallsyms").exists() {
        println!("skipped: names of the kernel's functions (needs kernel.kptr_restrict=0 or root)");
        return;
    }
    let pid = pid(&output);
    let found = functions(&place, &recording, pid);
    let own = |named: bool| {
        let rows = found.iter().filter(|(name, (module, ..))| module.starts_with('[') && (*name != module) == named);
        rows.map(|(_, (_, own, _))| *own).sum::<u64>()
    };
    assert!(own(true) as f64 > half_of(&recording, 0.5) && own(false) * 20 < own(true), "{found:?}");
    // Tracing of system calls takes a part of the time, if another program does that meanwhile.
    assert!(found["vfs_read"].2 * 2 > own(true), "{found:?}");
    let folded = ok(place.longpole(&["cpu", "--folded", "--pid", &pid.to_string()]).arg(&recording).output().unwrap());
    assert!(text(&folded.stdout).lines().any(|line| line.contains(";vfs_read_[k];")), "{}", text(&folded.stdout));
}

#[test]
fn samples_in_a_function_lie_between_the_probes_around_it() {
    if !can_sample("the common clock of samples and probes") {
        return;
    }
    for clock in ["", "mono_raw"] {
        let place = Place::new();
        let program = place.build("sampled", &FRAMES);
        let mut command = place.longpole(&["record", "--stacks", HZ, "--", &program, "span", "0.7"]);
        let output = ok(command.env("LONGPOLE_CLOCK", clock).output().unwrap());
        let recording = place.newest();
        let (inside, wrong, outside) = bracketed(&recording, pid(&output));
        let enough = half_of(&recording, 0.7) as u64;
        assert!(inside > enough / 3 && outside > enough / 5, "{clock}: {inside} {outside}");
        assert_eq!(wrong, 0, "{clock}: of {inside} samples");
    }
}

/// Three numbers of samples: those in the span's function while the span is open; those in the
/// wrong place, which are in the span's function while the span is closed, or in the other function
/// while it is open; and those in the other function while the span is closed.
fn bracketed(recording: &Path, pid: i64) -> (u64, u64, u64) {
    let mut trace = Trace::open(&[recording], Options::default()).unwrap();
    let mut stacks = Stacks::open(Some(recording));
    let (mut open, mut inside, mut wrong, mut outside) = (false, 0, 0, 0);
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        let Item::Event(event) = item else { continue };
        let name = &catalogue.classes[event.class.0 as usize].event_name;
        match name.as_str() {
            "span_begin:busy" => open = true,
            "span_end:busy" => open = false,
            _ => {}
        }
        let Some(stack) = stacks.follow(catalogue, &event) else { continue };
        let (sampled, frames) = (i64::from(stack.pid), stack.frames.to_vec());
        if sampled != pid {
            continue;
        }
        let has = |name: &str| frames.iter().any(|frame| stacks.frame(*frame).function == name);
        match (has("work_in_span"), has("work_outside")) {
            (true, _) if open => inside += 1,
            (true, _) => wrong += 1,
            (_, true) if open => wrong += 1,
            (_, true) => outside += 1,
            _ => {}
        }
    }
    (inside, wrong, outside)
}

#[test]
fn a_killed_recorder_leaves_samples_that_babeltrace2_reads_and_the_next_verb_names() {
    if !can_sample("a killed recorder of samples") {
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &FRAMES);
    // The rate fills more than a packet of one page.
    let mut recorder = place.recorder(&["--stacks", "1999", "--for", "60s"]);
    let busy = Running::start(place.command(&program).args(["shares", "60"]).stdout(Stdio::null()));
    let recording = place.newest();
    // On a busy host, the program may take long to begin with its work.
    let worked = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", busy.id())).unwrap_or_default();
        let mut fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
        fields.nth(11).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0)
    };
    wait_for(|| worked() > 30);
    let written = || fs::metadata(recording.join("samples/cpu0")).map_or(0, |found| found.len());
    let before = written();
    wait_for(|| written() > before + 150_000);
    signal(&recorder, "-KILL");
    recorder.wait().unwrap();
    assert!(!recording.join("symbols/functions.jsonl").exists());
    match Command::new("babeltrace2").arg(recording.join("samples")).output() {
        Ok(read) => {
            assert!(read.status.success() && !text(&read.stderr).contains("ERROR"), "{}", text(&read.stderr));
            let lines = text(&read.stdout);
            let is_sample = |line: &&str| [" sample: ", " copied: "].iter().any(|name| line.contains(name));
            let samples = lines.lines().filter(is_sample).count() as u64;
            assert_eq!(sample_events(&place.answer("info", &recording)), samples);
            // Each sample has at most some 17 KiB.
            assert!(samples >= 8, "{samples}");
        }
        Err(_) => println!("skipped: babeltrace2 is not installed"),
    }
    let found = functions(&place, &recording, i64::from(busy.id()));
    assert!(found.contains_key("work_of_six"), "{found:?}");
    assert!(recording.join("symbols/functions.jsonl").exists());
}

#[test]
fn functions_of_programs_damaged_during_the_recording_are_shown_as_offsets() {
    if !can_sample("spoilt programs") {
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &FRAMES);
    let whole = fs::read(&program).unwrap();
    let mut recorder = place.recorder(&["--stacks", "999", "--for", "60s"]);
    // A file cut short, one with only its first 64 bytes, one with a wrong content, an empty file,
    // and an unchanged one.
    let contents = [&whole[..whole.len() / 3], &whole[..64], b"\x7fELF\x02\x01\x01nonsense".as_slice(), &[], &whole];
    let pids = contents.map(|content| {
        let copy = place.path(&format!("copy of {}", content.len()));
        copy_program(&program, &copy);
        let output = ok(place.command(&copy).args(["shares", "0.1"]).output().unwrap());
        let mut file = fs::OpenOptions::new().write(true).truncate(true).open(&copy).unwrap();
        std::io::Write::write_all(&mut file, content).unwrap();
        pid(&output)
    });
    // A program that is sampled after the others were damaged.
    ok(place.command(&program).args(["shares", "0.1"]).output().unwrap());
    signal(&recorder, "-INT");
    assert!(recorder.wait().unwrap().success());
    for (content, pid) in contents.iter().zip(pids) {
        let found = functions(&place, &place.newest(), pid);
        let named = found.contains_key("work_of_six");
        let offsets = found.contains_key(&format!("copy of {}", content.len()));
        assert_eq!((named, offsets), (*content == whole, *content != whole), "{} bytes: {found:?}", content.len());
    }
}

#[test]
fn a_program_that_was_replaced_after_the_recording_gives_no_names() {
    if !can_sample("a replaced program") {
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &FRAMES);
    let (output, recording) = record(&place, "999", &[&program, "shares", "0.3"]);
    fs::remove_file(recording.join("symbols/functions.jsonl")).unwrap();
    let whole = fs::read(&program).unwrap();
    fs::remove_file(&program).unwrap();
    fs::write(&program, &whole).unwrap();
    let found = functions(&place, &recording, pid(&output));
    assert!(!found.contains_key("work_of_six") && found.contains_key("sampled"), "{found:?}");
}

#[test]
fn a_deleted_program_gives_its_names_while_it_runs() {
    if !can_sample("a deleted program") || !fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        println!("skipped: a deleted program (needs root)");
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &FRAMES);
    let busy = Running::start(place.command(&program).args(["shares", "60"]).stdout(Stdio::null()));
    wait_for(|| fs::read_link(format!("/proc/{}/exe", busy.id())).is_ok_and(|exe| exe == Path::new(&program)));
    fs::remove_file(&program).unwrap();
    ok(place.longpole(&["record", "--stacks", "999", "--for", "500ms"]).output().unwrap());
    let found = functions(&place, &place.newest(), i64::from(busy.id()));
    assert!(found.contains_key("work_of_six"), "{found:?}");
}

/// A link in the program's file, and the file name with " (deleted)", lead to pipes that have no
/// writer. A reader that opened one would wait forever.
#[test]
fn a_reader_of_a_program_does_not_follow_links_to_pipes() {
    let has_objcopy = Command::new("objcopy").arg("--version").output().is_ok();
    if !can_sample("links to pipes") || !has_objcopy {
        println!("skipped: links to pipes (needs `objcopy`)");
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &FRAMES);
    let debug = format!("{program}.debug");
    fs::write(&debug, [0; 1000]).unwrap();
    ok(Command::new("objcopy").arg(format!("--add-gnu-debuglink={debug}")).arg(&program).output().unwrap());
    fs::remove_file(&debug).unwrap();
    let busy = Running::start(place.command(&program).args(["shares", "60"]).stdout(Stdio::null()));
    wait_for(|| fs::read_link(format!("/proc/{}/exe", busy.id())).is_ok_and(|exe| exe == Path::new(&program)));
    fs::remove_file(&program).unwrap();
    for pipe in [debug, format!("{program} (deleted)")] {
        ok(Command::new("mkfifo").arg(pipe).output().unwrap());
    }
    let output = ok(place.longpole(&["record", "--stacks", "999", "--for", "500ms"]).output().unwrap());
    assert!(!text(&output.stderr).contains("functions of stacks are unknown"), "{}", text(&output.stderr));
    let found = functions(&place, &place.newest(), i64::from(busy.id()));
    assert!(found.contains_key("work_of_six"), "{found:?}");
}

#[test]
fn a_recording_can_be_read_where_the_files_of_its_programs_do_not_exist() {
    if !can_sample("a recording on another machine") {
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &FRAMES);
    let (output, recording) = record(&place, "999", &[&program, "shares", "0.3"]);
    let here = functions(&place, &recording, pid(&output));
    fs::remove_file(&program).unwrap();
    let copy = place.path("elsewhere");
    ok(Command::new("cp").arg("-r").arg(&recording).arg(&copy).output().unwrap());
    assert_eq!(functions(&place, &copy, pid(&output)), here);
    assert!(here.contains_key("work_of_six"));
    // If the recording has no names and is from another host, functions are shown as module and
    // offset, and the files of this host are not read.
    fs::remove_file(copy.join("symbols/functions.jsonl")).unwrap();
    let description = fs::read_to_string(copy.join("longpole.json")).unwrap();
    let mut description: Value = serde_json::from_str(&description).unwrap();
    description["host"] = "another".into();
    fs::write(copy.join("longpole.json"), description.to_string()).unwrap();
    let there = functions(&place, &copy, pid(&output));
    assert!(there.contains_key("sampled"), "{there:?}");
    assert!(!copy.join("symbols/functions.jsonl").exists());
}

#[test]
fn samples_have_streams_of_their_own_and_their_losses_are_counted() {
    if !can_sample("streams of samples") {
        return;
    }
    let place = Place::new();
    let (output, recording) = record(
        &place,
        "499",
        &["sh", "-c", "for i in 1 2 3 4; do true | cat; done; (i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done); sleep 0.3"],
    );
    assert!(text(&output.stderr).contains(" stacks of "), "{}", text(&output.stderr));
    let info = place.answer("info", &recording);
    schema::check(&schema::schema("info"), &info);
    let streams = info["streams"].as_array().unwrap();
    let samples: Vec<_> = streams.iter().filter(|stream| stream["kind"] == "samples").collect();
    assert!(samples.len() >= 2 && samples.iter().any(|stream| stream["name"] == "samples/begin"), "{streams:?}");
    let description: Value = serde_json::from_str(&fs::read_to_string(recording.join("longpole.json")).unwrap()).unwrap();
    assert!(description["sources"].as_array().unwrap().contains(&"samples".into()), "{description}");
    assert_eq!(description["samples"]["samples"], sample_events(&info));
    assert_eq!(description["samples"]["hz"], 499);
    assert_eq!(description["samples"]["lost"], 0);
    // Short-lived processes have names if they lived long enough for a sample.
    let names: Vec<String> = place.answer("cpu", &recording)["functions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["process"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.iter().any(|name| name == "sh") || names.iter().any(|name| name == "cat"), "{names:?}");
    // Other verbs ignore the samples.
    let trace = Trace::open(&[&recording], Options::default()).unwrap();
    assert!(trace.catalogue().streams.iter().any(|stream| stream.kind == StreamKind::Samples));
    assert_eq!(place.answer("latency", &recording).as_array().map(Vec::len), Some(0));
}

#[test]
fn a_wrong_rate_is_wrong_usage_and_a_trace_without_samples_explains_how_to_get_them() {
    let place = Place::new();
    for rate in ["0", "-1", "fast", "100001"] {
        let output = place.longpole(&["record", &format!("--stacks={rate}"), "--for", "1ms"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{rate}: {}", text(&output.stderr));
    }
    // Without the switches between threads, nobody knows how long a wait was.
    let arguments = ["record", "--kernel=block", "--stacks-waiting=249", "--for", "1ms"];
    let output = place.command(env!("CARGO_BIN_EXE_longpole")).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("add the group sched"), "{}", text(&output.stderr));
    let program = place.build("sampled", &FRAMES);
    ok(place.longpole(&["record", "--stacks", "none", "--", &program, "span", "0.01"]).output().unwrap());
    let output = place.longpole(&["cpu", "--functions"]).arg(place.newest()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--stacks 99"), "{}", text(&output.stderr));
    assert!(place.answer("cpu", &place.newest()).get("functions").is_none());
}

#[test]
fn a_reader_waits_until_another_process_has_looked_up_the_functions() {
    if !can_sample("a second reader") {
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &FRAMES);
    let (output, recording) = record(&place, "999", &[&program, "shares", "0.3"]);
    let names = recording.join("symbols/functions.jsonl");
    let hidden = recording.join("symbols/.functions.jsonl");
    // The other process has begun, and holds the lock.
    fs::rename(&names, &hidden).unwrap();
    let lock = fs::File::open(recording.join("samples")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut reader = place.longpole(&["cpu", "--json"]);
    let mut reader = reader.arg(&recording).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(reader.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("another process looks up the functions"), "{line}");
    fs::rename(&hidden, &names).unwrap();
    drop(lock);
    let answer: Value = serde_json::from_slice(&ok(reader.wait_with_output().unwrap()).stdout).unwrap();
    let rows = answer["functions"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["pid"] == pid(&output) && row["function"] == "work_of_six"), "{rows:?}");
}

#[test]
fn frames_of_the_kernel_are_distinguished_from_those_of_programs() {
    if !can_sample("origins of frames") {
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &FRAMES);
    let (output, recording) = record(&place, "999", &[&program, "kernel", "0.3"]);
    let mut trace = Trace::open(&[&recording], Options::default()).unwrap();
    let mut stacks = Stacks::open(Some(&recording));
    let mut mixed = 0;
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        let Item::Event(event) = item else { continue };
        let Some(stack) = stacks.follow(catalogue, &event) else { continue };
        if i64::from(stack.pid) != pid(&output) {
            continue;
        }
        let frames = stack.frames.to_vec();
        let origins: Vec<Origin> = frames.iter().map(|frame| stacks.frame(*frame).origin).collect();
        // The innermost frame is the first. No frame of the kernel follows one of the program.
        assert!(origins.is_sorted_by_key(|origin| *origin != Origin::Kernel), "{origins:?}");
        mixed += u64::from(origins.first() == Some(&Origin::Kernel) && origins.last() == Some(&Origin::File));
    }
    assert!(mixed as f64 > half_of(&recording, 0.3) / 2.0, "{mixed}");
}

#[test]
fn functions_on_the_critical_path_are_shown_with_their_rank_in_the_profile() {
    if !can_sample("functions on the critical path") {
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &FRAMES);
    let record = ["record", "--kernel", "sched,irq,softirq,syscall", "--stacks", HZ, "--", &program, "helped", "1.5"];
    ok(place.command(env!("CARGO_BIN_EXE_longpole")).args(record).output().unwrap());
    let recording = place.newest();
    let answer: Value =
        serde_json::from_slice(&ok(place.longpole(&["path", "--functions", "--json"]).arg(&recording).output().unwrap()).stdout).unwrap();
    schema::check(&schema::schema("path"), &answer);
    let rows = answer["functions"].as_array().unwrap();
    let row = |name: &str| {
        let is_it = |row: &&Value| row["process"] == "sampled" && row["function"] == name && row["time"] == "running";
        rows.iter().find(is_it).unwrap_or_else(|| panic!("{name}: {rows:?}"))
    };
    let (three, one, six) = (row("work_of_three"), row("work_of_one"), row("work_of_six"));
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap();
    let part = number(three, "share") / (number(three, "share") + number(one, "share"));
    // On a busy host the helper may still process its last item when the next one is ready. The
    // critical path then does not contain the wait for this next item.
    assert!((0.7..0.92).contains(&part), "{part} {three} {one}");
    assert!(number(three, "low") < number(three, "share") && number(three, "share") < number(three, "high"), "{three}");
    assert!(number(six, "share") < 0.05 && number(six, "profile_share") > number(one, "profile_share"), "{six} {one}");
    let shown = ok(place.longpole(&["path", "--functions"]).arg(&recording).output().unwrap());
    // On a busy host, the program also waits for a CPU.
    let first = text(&shown.stdout).lines().find(|line| line.contains(" runs ")).map(str::to_owned);
    assert!(first.is_some_and(|line| line.contains("work_of_three")), "{}", text(&shown.stdout));
    // On a busy host the function may have had too small a share to be mentioned.
    let told = number(six, "profile_rank") > 5.0
        || number(six, "profile_share") < 0.05
        || text(&shown.stdout)
            .lines()
            .any(|line| line.contains("busy, but hardly critical: ") && line.contains("work_of_six of sampled ("));
    assert!(told, "{}", text(&shown.stdout));
}
