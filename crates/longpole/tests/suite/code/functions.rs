//! Programs whose functions are recorded (`longpole/auto.h`), programs to which other tools attach
//! (`longpole/sdt.h`), and a loop of probes, which must make no system call.

use crate::support::host::is_root;
use crate::support::place;
use crate::support::place::{ok, Place};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(command: &mut Command) {
    ok(command.output().unwrap());
}

/// Builds the program whose functions are recorded. Only one source file, in another language (C),
/// includes the header.
fn build(place: &Place, options: &[&str]) -> PathBuf {
    let (hooks, object, program) = (place.path("hooks.c"), place.path("hooks.o"), place.path("functions"));
    std::fs::write(&hooks, "#include <longpole/auto.h>\n").unwrap();
    run(Command::new("cc").args(["-std=c11", "-O2", "-c", "-I"]).arg(repository().join("include")).arg(&hooks).arg("-o").arg(&object));
    let source = repository().join("tests/programs/functions.cc");
    let how = ["-std=c++17", "-O2", "-pthread", "-finstrument-functions", "-finstrument-functions-exclude-file-list=/usr/"];
    run(Command::new("g++").args(how).args(options).args([&source, &object]).arg("-o").arg(&program));
    program
}

/// Records the program. Returns the number of calls that it reports for each function.
fn record(place: &Place, program: &Path, environment: &[(&str, &str)]) -> (BTreeMap<String, i64>, Output) {
    let mut command = place.longpole(&["record", "--buffer", "4MiB", "--"]);
    let output = ok(command.arg(program).arg("50").envs(environment.iter().copied()).output().unwrap());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let calls = text.lines().map(|line| line.split_once(' ').unwrap()).map(|(name, count)| (name.to_owned(), count.parse().unwrap()));
    (calls.collect(), output)
}

/// Number of spans by function. Asserts that each begin has its end, and that spans of a thread are
/// nested.
fn spans(place: &Place, recording: &Path) -> BTreeMap<String, i64> {
    let output = ok(place.longpole(&["print", "--json"]).arg(recording).output().unwrap());
    let mut counts = BTreeMap::new();
    let mut open: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let tid = event["context"]["tid"].as_i64().unwrap_or_else(|| panic!("{event}"));
        let stack = open.entry(tid).or_default();
        let (kind, name) = event["name"].as_str().unwrap().split_once(':').unwrap();
        match kind {
            "span_begin" => {
                *counts.entry(name.to_owned()).or_default() += 1;
                stack.push(name.to_owned());
            }
            "span_end" => assert_eq!(stack.pop().as_deref(), Some(name), "{event}"),
            // The function is left out of the recording from here on.
            "event" => assert!(event["fields"]["left_out_ns"].is_u64(), "{event}"),
            _ => panic!("{event}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    counts
}

#[test]
fn recorded_functions_are_spans_with_the_names_of_the_functions() {
    for options in [&["-g"][..], &[], &["-no-pie"]] {
        let place = Place::new();
        let program = build(&place, options);
        let (calls, _) = record(&place, &program, &[]);
        assert_eq!(spans(&place, &place.newest()), calls, "{options:?}");
        if let Ok(run) = Command::new("babeltrace2").arg(place.newest().join("user")).output() {
            let text = String::from_utf8(ok(run).stdout).unwrap();
            assert_eq!(text.matches("span_begin:shop::Till::sum:").count() as i64, calls["shop::Till::sum"]);
        } else {
            println!("skipped: names of functions read by babeltrace2 (not installed)");
        }
    }
}

#[test]
fn functions_are_left_out_by_name_and_by_depth() {
    let place = Place::new();
    let program = build(&place, &[]);
    let recorded = |environment: &[(&str, &str)]| {
        record(&place, &program, environment);
        spans(&place, &place.newest())
    };
    let names = |counts: &BTreeMap<String, i64>| counts.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&recorded(&[("LONGPOLE_AUTO_INCLUDE", "shop::*,main")])),
        ["main", "shop::Till::beep", "shop::Till::sum", "shop::refuse"]
    );
    let without = recorded(&[("LONGPOLE_AUTO_EXCLUDE", "depth,*Till*,t?rns")]);
    assert_eq!(names(&without), ["main", "shop::refuse"]);
    // In the main thread the depth includes main, turns, and the functions that turns calls; in the
    // other thread it begins with turns.
    let shallow = recorded(&[("LONGPOLE_AUTO_DEPTH", "3")]);
    assert_eq!(shallow["depth"], 1 + 2, "{shallow:?}");
    assert_eq!((shallow["shop::Till::sum"], shallow["shop::Till::beep"]), (100, 50), "{shallow:?}");
    // A function that is left out does not count as a level.
    let both = recorded(&[("LONGPOLE_AUTO_DEPTH", "1"), ("LONGPOLE_AUTO_EXCLUDE", "main,turns")]);
    assert_eq!((both["depth"], both.get("shop::Till::beep")), (2, None), "{both:?}");
}

#[test]
fn functions_with_many_short_calls_are_left_out_and_reported() {
    let place = Place::new();
    let (hooks, program) = (repository().join("include"), place.path("short"));
    // Here every file includes the header, before the program's own code.
    let how = ["-std=c11", "-O1", "-pthread", "-finstrument-functions", "-include", "longpole/auto.h", "-I"];
    run(Command::new("cc").args(how).arg(hooks).arg(repository().join("tests/programs/short.c")).arg("-o").arg(&program));
    let (calls, _) = record(&place, &program, &[]);
    // Each begin has its end, also if functions were left out in between, or if a function was left
    // by a jump.
    let counts = spans(&place, &place.newest());
    let report = place.answer("report", &place.newest());
    let lost = report["inputs"]["lost"].as_i64().unwrap();
    let told: Vec<&str> = report["inputs"]["left_out"].as_array().unwrap().iter().map(|it| it["function"].as_str().unwrap()).collect();
    assert!(told.contains(&"tiny") && !told.contains(&"long_one"), "{report}");
    assert!(counts["tiny"] >= 256 && counts["tiny"] < calls["tiny"] / 4, "{counts:?}");
    // `grown` was left out while its calls were short. Later one call in some thousands is
    // measured, which shows that the calls have become long, so they are recorded.
    let grown = calls["grown"];
    assert!(told.contains(&"grown") && counts["grown"] > 256 && counts["grown"] < grown / 4 + 100_000, "{counts:?} {told:?}");
    assert!(counts["grown"] > 10_000 - lost, "{counts:?}");
    for name in ["long_one", "left", "jumped"] {
        assert!((calls[name] - lost..=calls[name]).contains(&counts[name]), "{name}: {counts:?}");
    }
    let human = ok(place.longpole(&["latency"]).arg(place.newest()).output().unwrap());
    assert!(String::from_utf8_lossy(&human.stdout).contains("not recorded, because their calls are short and many"));
}

#[test]
fn leaving_functions_by_longjmp_does_not_increase_the_depth() {
    let place = Place::new();
    let (include, program) = (repository().join("include"), place.path("jumps"));
    let how = ["-std=c11", "-O1", "-finstrument-functions", "-include", "longpole/auto.h", "-I"];
    run(Command::new("cc").args(how).arg(include).arg(repository().join("tests/programs/jumps.c")).arg("-o").arg(&program));
    for (depth, names) in [("2", &["jumps", "main"][..]), ("9", &["jumps", "leaves", "main", "returns", "within"])] {
        let mut command = place.longpole(&["record", "--buffer", "4MiB", "--"]);
        command.arg(&program).arg("500").env("LONGPOLE_AUTO_DEPTH", depth).env("LONGPOLE_AUTO_SHORT", "0");
        ok(command.output().unwrap());
        // Each begin has its end: if only some levels are recorded, a function that was left by a
        // jump ends together with the function around it.
        let counts = spans(&place, &place.newest());
        assert_eq!(counts.keys().map(String::as_str).collect::<Vec<_>>(), names, "{depth}");
        for (name, count) in counts {
            assert_eq!(count, if name == "main" { 1 } else { 500 }, "{name} {depth}");
        }
    }
}

#[test]
fn no_function_is_left_out_if_the_user_requests_it() {
    let place = Place::new();
    let program = build(&place, &["-g"]);
    for request in [("LONGPOLE_AUTO_SHORT", "0"), ("LONGPOLE_AUTO_INCLUDE", "*")] {
        let rounds = "3000";
        let mut command = place.longpole(&["record", "--buffer", "4MiB", "--"]);
        let output = ok(command.arg(&program).arg(rounds).env(request.0, request.1).output().unwrap());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let calls: i64 = text.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<i64>().ok()).sum();
        let told = place.answer("report", &place.newest());
        assert_eq!(told["inputs"]["left_out"], serde_json::json!([]), "{request:?}");
        assert_eq!(told["inputs"]["events"].as_i64().unwrap() + told["inputs"]["lost"].as_i64().unwrap(), 2 * calls, "{request:?}");
    }
}

#[test]
fn a_stripped_or_changed_program_gives_no_function_names() {
    let place = Place::new();
    let program = build(&place, &[]);
    let stripped = place.path("stripped");
    run(Command::new("strip").arg(&program).arg("-o").arg(&stripped));
    record(&place, &stripped, &[]);
    let names = spans(&place, &place.newest());
    // Functions that the dynamic linker needs have names; the others are shown as addresses.
    assert_eq!(names.values().sum::<i64>(), 3 * 100 + 20 + 2 + 1, "{names:?}");
    assert!(names.keys().any(|name| name.starts_with("stripped+0x")), "{names:?}");

    // A recorder that was killed has resolved no names. The next verb resolves them, but not from a
    // file that has changed since.
    for changed in [false, true] {
        let mut recorder = place.recorder(&["--all"]);
        ok(place.command(&program).arg("50").output().unwrap());
        let recording = place.newest();
        let metadata = || std::fs::read_to_string(recording.join("user/metadata")).unwrap();
        place::wait_for(|| metadata().contains("span_end:functions+0x"));
        assert!(!metadata().contains("shop::"));
        std::thread::sleep(std::time::Duration::from_millis(300));
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        if changed {
            std::fs::copy(&program, place.path("copy")).unwrap();
            std::fs::rename(place.path("copy"), &program).unwrap();
        }
        let said = ok(place.longpole(&["info"]).arg(&recording).output().unwrap());
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(metadata().contains("span_begin:shop::Till::sum\""), !changed, "{said}");
        assert_eq!(said.contains("the file is missing or was changed"), changed, "{said}");
        let again = ok(place.longpole(&["info"]).arg(&recording).output().unwrap());
        assert!(!String::from_utf8_lossy(&again.stderr).contains("was changed"), "said once");
    }
}

/// Returns whether this tool can attach to a program. If it cannot, prints the reason.
fn may_attach(tool: &str) -> bool {
    let missing = match Command::new(tool).arg("--version").output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => format!("{tool} is not installed"),
        Err(error) => format!("{tool} cannot be run: {error}"),
        Ok(_) if !is_root() => "needs root".to_owned(),
        Ok(_) => return true,
    };
    println!("skipped: USDT probes with {tool} ({missing})");
    false
}

#[test]
fn bpftrace_lists_every_probe_and_receives_its_events() {
    let place = Place::new();
    let program = place.path("every_probe");
    let source = repository().join("tests/programs/every_probe.c");
    let how = ["-std=c11", "-O2", "-DLONGPOLE_SDT", "-I"];
    run(Command::new("cc").args(how).arg(repository().join("include")).arg(source).arg("-o").arg(&program));
    let notes = ok(Command::new("readelf").arg("-n").arg(&program).output().unwrap());
    let kinds = longpole_abi_kinds();
    for kind in &kinds {
        assert_eq!(String::from_utf8_lossy(&notes.stdout).matches(&format!("Name: {kind}\n")).count(), 1, "{kind}");
    }
    if !may_attach("bpftrace") {
        return;
    }
    let on = |what: &str| format!("usdt:{}:longpole:{what}", program.display());
    let listed = ok(Command::new("bpftrace").args(["-l", &on("*")]).output().unwrap());
    assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), kinds.len());
    let script = format!(
        "{} {{ printf(\"mark %s %d\\n\", str(arg0, arg1), arg2); }} {} {{ printf(\"put %s %d\\n\", str(arg0, arg1), arg2); }} \
         {} {{ printf(\"log %s\\n\", str(arg0)); }} {} {{ printf(\"link %d %d\\n\", arg0, arg1); }}",
        on("mark"),
        on("queue_put"),
        on("log"),
        on("link")
    );
    let taken = place.command("bpftrace").args(["-e", &script, "-c", program.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8_lossy(&taken.stdout).into_owned();
    for (line, count) in [("mark mark 1", 30), ("mark turn 4", 10), ("put made at run time 1", 10), ("log text", 10), ("link 1 2", 10)] {
        assert_eq!(text.lines().filter(|said| *said == line).count(), count, "{line}: {text}{}", String::from_utf8_lossy(&taken.stderr));
    }
    // A recording with Longpole has the same events as before.
    ok(place.longpole(&["record", "--", program.to_str().unwrap()]).output().unwrap());
    let info = place.answer("info", &place.newest());
    assert_eq!(info["names"]["mark:mark"], 40, "{info}");
}

/// An event that perf made for a probe; deleted when the value is dropped.
struct PerfProbe(String);

impl Drop for PerfProbe {
    fn drop(&mut self) {
        let _ = Command::new("perf").args(["probe", "-q", "-d", &self.0]).output();
    }
}

#[test]
fn perf_lists_every_probe_and_records_its_events() {
    let perf = |arguments: &[&str]| Command::new("perf").args(arguments).output();
    if !may_attach("perf") {
        return;
    }
    let place = Place::new();
    let (program, cache, data) = (place.path("every_probe"), place.path("cache"), place.path("data"));
    let [program, cache, data] = [&program, &cache, &data].map(|path| path.to_str().unwrap());
    let source = repository().join("tests/programs/every_probe.c");
    run(Command::new("cc")
        .args(["-std=c11", "-O2", "-DLONGPOLE_SDT", "-I"])
        .arg(repository().join("include"))
        .arg(source)
        .args(["-o", program]));
    ok(perf(&["--buildid-dir", cache, "buildid-cache", "--add", program]).unwrap());
    let listed = ok(perf(&["--buildid-dir", cache, "list", "sdt"]).unwrap());
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for kind in longpole_abi_kinds() {
        assert!(listed.contains(&format!("sdt_longpole:{kind} ")), "{kind}: {listed}");
    }
    if std::fs::metadata("/sys/kernel/tracing/uprobe_events").is_err() {
        println!("skipped: attaching perf to USDT probes (the kernel has no uprobe events, or no tracefs is mounted)");
        return;
    }
    // perf does not allow another name for such an event. Events exist for the whole host, so the
    // name may be taken by another process; then `-f` adds an event with another number.
    let made = perf(&["--buildid-dir", cache, "probe", "-f", "-x", program, "%sdt_longpole:mark"]).unwrap();
    let told = String::from_utf8_lossy(&made.stderr).into_owned() + &String::from_utf8_lossy(&made.stdout);
    let probe = PerfProbe(event_made(&told).unwrap_or_else(|| panic!("perf made no event: {told}")));
    ok(perf(&["record", "-q", "-o", data, "-e", &probe.0, "--", program]).unwrap());
    let script = ok(perf(&["script", "-i", data]).unwrap());
    let text = String::from_utf8_lossy(&script.stdout).into_owned();
    assert_eq!(text.lines().filter(|line| line.contains(&probe.0)).count(), 50, "{text}");
    // The second argument is the length of the mark's name.
    assert_eq!(text.lines().filter(|line| line.contains(" arg2=4 ")).count(), 50, "{text}");
}

/// Name of the event that perf reports to have made, in the line
/// `  sdt_longpole:mark    (on %mark in PROGRAM)`.
fn event_made(told: &str) -> Option<String> {
    let line = told.lines().find(|line| line.contains("(on %mark in "))?;
    line.split_whitespace().next().map(str::to_owned)
}

/// Names of all probe kinds.
fn longpole_abi_kinds() -> Vec<String> {
    longpole_abi::Kind::ALL.iter().map(|kind| kind.name().to_owned()).collect()
}

#[test]
fn a_loop_of_probes_makes_no_system_call() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: system calls of probes (strace is not installed)");
        return;
    }
    let place = Place::new();
    let (program, calls) = (place.build("still", &[]), place.path("calls"));
    let arguments = ["record", "--buffer", "16MiB", "--", "strace", "-o", calls.to_str().unwrap(), &program];
    let output = place.longpole(&arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("ptrace") {
        println!("skipped: system calls of probes (strace may not trace here)");
        return;
    }
    ok(output);
    let text = std::fs::read_to_string(&calls).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let marks: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].starts_with("getppid(")).collect();
    assert_eq!(marks.len(), 2, "{text}");
    assert_eq!(&lines[marks[0] + 1..marks[1]], &[] as &[&str]);
    // The thread's ring was made before the loop, and the events of the loop were recorded.
    assert!(lines[..marks[0]].iter().any(|line| line.contains(".ring")), "{text}");
    let info = place.answer("info", &place.newest());
    assert_eq!((&info["names"]["mark:mark"], &info["lost"]), (&Value::from(5001), &Value::from(0)), "{info}");
}
