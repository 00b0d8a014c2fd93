//! The functions of programs in several languages, in real recordings: each program has places of
//! computing and waiting that are known, and measures their times itself.

use crate::support::host::{alone, can_sample, can_trace};
use crate::support::place::{ok, Place};
use crate::support::schema;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Time that each program runs, in seconds.
const SECONDS: &str = "1";
/// The time that a program measures includes its way into and out of a wait, the reading of its
/// clock, and what its runtime does at the begin. The sampled shares do not.
const SLACK: f64 = 0.03;

/// The file with the source of the program.
fn source(name: &str) -> String {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs").canonicalize().unwrap();
    programs.join(name).to_str().unwrap().to_owned()
}

/// Runs a program that builds another one. Returns false if it is not installed.
fn run(program: &str, arguments: &[&str]) -> bool {
    match Command::new(program).args(arguments).output() {
        Ok(output) => ok(output).status.success(),
        Err(_) => false,
    }
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Returns the version of Python that can name its functions, if one is installed.
fn python_with_names() -> Option<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let versions = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    let of_pyenv = versions.map(|version| version.path().join("bin/python3").to_string_lossy().into_owned());
    let of_system = ["python3", "python3.14", "python3.13", "python3.12"].map(|name| format!("/usr/bin/{name}"));
    let code = "import sys, sysconfig; sys.exit(not sysconfig.get_config_var('PY_HAVE_PERF_TRAMPOLINE'))";
    std::iter::once("python3".to_owned()).chain(of_system).chain(of_pyenv).find(|python| answers(python, &["-c", code]))
}

/// Records a program. Returns the recording and the program's output; `None` if this host does not
/// permit what is needed.
fn record(place: &Place, options: &[&str], program: &[&str], seconds: &str) -> Option<(PathBuf, String)> {
    let what = format!("functions of {}", program[0]);
    if !can_trace(&what) || !can_sample(&what) {
        return None;
    }
    let _alone = alone();
    let kernel = ["record", "--kernel", "sched,irq,softirq,timer,block,syscall", "--stacks", "999"];
    // The list of functions has the number of the process in its name.
    let shell = ["--", "sh", "-c", "echo pid $$; exec \"$0\" \"$@\""];
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    // Node writes a file into its folder.
    command.current_dir(place.path(""));
    let output = ok(command.args(kernel).args(options).args(shell).args(program).arg(seconds).output().unwrap());
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let pid = output.lines().find_map(|line| line.strip_prefix("pid ")).unwrap();
    let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
    let recording = place.newest();
    let names = &place.answer("info", &recording)["names"];
    if names.get("waiting_rate").is_none() || names.get("stack").is_none() {
        println!("skipped: functions of {} (this host samples no waits)", program[0]);
        return None;
    }
    Some((recording, output))
}

fn path(place: &Place, recording: &Path) -> Value {
    let output = ok(place.longpole(&["path", "--functions", "--json", "--no-segments"]).arg(recording).output().unwrap());
    let answer = serde_json::from_slice(&output.stdout).unwrap();
    schema::check(&schema::schema("path"), &answer);
    answer
}

/// Returns a function's name without namespaces and arguments.
fn own_name(row: &Value) -> &str {
    let function = row["function"].as_str().unwrap();
    let function = &function[..function.find('(').unwrap_or(function.len())];
    function.rsplit([':', '.']).next().unwrap()
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"))
}

/// What is known of the place of a function.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    Line,
    File,
    Nothing,
}

/// Recordings of a program, if other programs use the CPUs meanwhile.
const ATTEMPTS: usize = 3;

/// Records a program of places, and checks the functions of the answer.
fn check(place: &Place, program: &[&str], known: Known) {
    for _ in 0..ATTEMPTS {
        let Some((recording, output)) = record(place, &["--runtimes"], program, SECONDS) else { return };
        // The names are part of the recording, wherever it is.
        let moved = place.path("moved");
        std::fs::rename(&recording, &moved).unwrap();
        let verdict = place.answer("report", &moved)["verdict"].clone();
        let is_busy = verdict["caveats"].as_array().unwrap().iter().any(|caveat| caveat["kind"] == "bystanders");
        let result = compare(&path(place, &moved), (!is_busy).then_some(&verdict), &output, known);
        println!("{}: {}", program.join(" "), result.as_deref().unwrap_or_else(|difference| difference));
        match result {
            Ok(_) => return,
            Err(difference) => assert!(is_busy, "{difference}"),
        }
        std::fs::remove_dir_all(&moved).unwrap();
    }
    println!("skipped: functions of {} (this host is busy)", program[0]);
}

/// Compares an answer with what the program printed. Returns a text with both. `verdict` is `None`
/// if other programs are the bottleneck.
fn compare(answer: &Value, verdict: Option<&Value>, output: &str, known: Known) -> Result<String, String> {
    let length = number(answer, "length_ns");
    let rows = answer["functions"].as_array().unwrap();
    let (mut most, mut texts) = (("", 0.0), Vec::new());
    for line in output.lines().filter(|line| !line.starts_with("pid ")) {
        let (name, ns) = line.split_once(' ').unwrap();
        let measured = ns.parse::<f64>().unwrap() / length;
        let sum = |key: &str| rows.iter().filter(|row| own_name(row) == name).map(|row| number(row, key)).sum::<f64>();
        let (low, high) = (sum("low"), sum("high"));
        texts.push(format!("{name} {measured:.4} ({low:.4} to {high:.4})"));
        if low - SLACK > measured || measured > high + SLACK {
            return Err(format!("{name}: measured {measured}, sampled {low} to {high}: {}", answer["functions"]));
        }
        if measured > most.1 {
            most = (name, measured);
        }
    }
    let first = &rows[0];
    let (file, has_line) = (first["file"].as_str().unwrap_or_default(), first["line"].is_u64());
    let has_file = known == Known::Nothing || file.to_lowercase().contains("/places.");
    if own_name(first) != most.0 || !has_file || has_line != (known == Known::Line) {
        return Err(format!("{} has most of the path: {}", most.0, answer["functions"]));
    }
    // What Java executes at its begin is too short to be compiled.
    let unnamed = runtimes(answer, 0.05);
    if unnamed.iter().any(|code| code["runtime"] != "interpreted_java") {
        return Err(format!("{unnamed:?}"));
    }
    match verdict {
        Some(verdict) if verdict["code"].is_null() || own_name(&verdict["code"]) != most.0 => {
            Err(format!("{} has most of the path: {verdict}", most.0))
        }
        _ => Ok(texts.join(", ")),
    }
}

#[test]
fn functions_of_cpp_are_named_with_their_lines() {
    let place = Place::new();
    let program = place.path("places").to_str().unwrap().to_owned();
    let options = ["-std=gnu++17", "-Wall", "-Wextra", "-Werror", "-O2", "-g", "-fomit-frame-pointer", "-pthread", "-o", &program];
    assert!(run("c++", &[&options[..], &[&source("places.cc")]].concat()));
    check(&place, &[&program], Known::Line);
}

#[test]
fn functions_of_rust_are_named_with_their_lines() {
    let place = Place::new();
    let program = place.path("places").to_str().unwrap().to_owned();
    if !run("rustc", &["--edition", "2021", "-O", "-g", "-o", &program, &source("places.rs")]) {
        return println!("not at hand: rustc, whose programs would be recorded");
    }
    check(&place, &[&program], Known::Line);
}

#[test]
fn functions_of_go_are_named_with_their_lines() {
    let place = Place::new();
    let program = place.path("places").to_str().unwrap().to_owned();
    if !run("go", &["build", "-o", &program, &source("places.go")]) {
        return println!("not at hand: Go, whose programs would be recorded");
    }
    check(&place, &[&program], Known::Line);
}

#[test]
fn functions_of_python_are_named_with_their_files() {
    let place = Place::new();
    let Some(python) = python_with_names() else {
        return println!("not at hand: Python 3.12 or later, whose functions would be recorded");
    };
    check(&place, &[&python, &source("places.py")], Known::File);
}

#[test]
fn functions_of_node_are_named_with_their_lines() {
    let place = Place::new();
    if !answers("node", &["--version"]) {
        return println!("not at hand: Node, whose functions would be recorded");
    }
    check(&place, &["node", "--no-turbo-inlining", &source("places.js")], Known::Line);
}

/// Returns the lines of the function `computes` in a program.
fn lines_of_computes(program: &str) -> std::ops::RangeInclusive<u64> {
    let text = std::fs::read_to_string(program).unwrap();
    let line = |wanted: &str, from: usize| text.lines().skip(from).position(|line| line.starts_with(wanted)).unwrap() + from + 1;
    let first = line("function computes", 0);
    first as u64..=line("}", first) as u64
}

#[test]
fn instructions_of_node_have_lines_if_it_logs_its_code() {
    let place = Place::new();
    if !answers("node", &["--version"]) {
        return println!("not at hand: Node, whose functions would be recorded");
    }
    let program = source("places.js");
    let node = ["node", "--perf-prof", "--interpreted-frames-native-stack", &program];
    let Some((recording, _)) = record(&place, &[], &node, SECONDS) else { return };
    let within = lines_of_computes(&program);
    let answer = path(&place, &recording);
    let lines: Vec<u64> = answer["functions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| own_name(row) == "computes")
        .filter_map(|row| row["line"].as_u64())
        .collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| within.contains(line) && line > within.start()), "{lines:?}");
}

/// Compiles the program in Java. Returns the command; `None` if Java is missing or too old.
fn java(place: &Place) -> Option<Vec<String>> {
    let classes = place.path("").to_str().unwrap().to_owned();
    if !answers("java", &["-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-version"])
        || !run("javac", &["-d", &classes, &source("Places.java")])
    {
        println!("not at hand: Java 17 or later, whose functions would be recorded");
        return None;
    }
    // Once per second, Java stops all threads. If the program waits for that, the path leads to the
    // timer of the thread that does it.
    let options = ["-XX:+UnlockDiagnosticVMOptions", "-XX:GuaranteedSafepointInterval=0"];
    // Its list of functions does not contain those that it inlined.
    let inlining = ["-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Places::*"];
    let program = [&["java"], &options[..], &inlining, &["-cp", &classes, "Places"]].concat();
    Some(program.into_iter().map(str::to_owned).collect())
}

#[test]
fn functions_of_java_are_named() {
    let place = Place::new();
    let Some(program) = java(&place) else { return };
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    check(&place, &program, Known::Nothing);
}

#[test]
fn functions_of_java_are_named_if_it_outlives_the_recording() {
    let place = Place::new();
    let Some(program) = java(&place) else { return };
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let Some((recording, _)) = record(&place, &["--runtimes", "--for", "2s"], &program, "3") else { return };
    let functions = place.answer("cpu", &recording)["functions"].clone();
    let is_known = functions.as_array().unwrap().iter().any(|row| row["function"] == "Places.computes(long)");
    assert!(is_known, "{functions}");
}

/// Runtimes without names in at least this share of the stacks on the path.
fn runtimes(answer: &Value, least: f64) -> Vec<Value> {
    let unnamed = answer["stack_gaps"]["unnamed"].as_array().unwrap().iter();
    unnamed.filter(|code| !code["runtime"].is_null() && number(code, "share") >= least).cloned().collect()
}

#[test]
fn answers_state_what_brings_missing_names() {
    let old = "import sys; sys.exit(sys.version_info >= (3, 12))";
    let place = Place::new();
    let python = ["python3", "/usr/bin/python3"].into_iter().find(|python| answers(python, &["-c", old]));
    let javascript = source("places.js");
    let script = source("places.py");
    let programs = [
        python.map(|python| (["--runtimes"].as_slice(), [python, script.as_str()], "old_python", "3.12")),
        answers("node", &["--version"]).then_some((&[], ["node", javascript.as_str()], "node", "--runtimes")),
    ];
    for (options, program, runtime, remedy) in programs.into_iter().flatten() {
        let Some((recording, _)) = record(&place, options, &program, SECONDS) else { return };
        let unnamed = runtimes(&path(&place, &recording), 0.1);
        assert!(unnamed.iter().any(|code| code["runtime"] == runtime), "{unnamed:?}");
        let report = place.answer("report", &recording);
        schema::check(&schema::schema("report"), &report);
        assert_eq!(runtimes(&report, 0.1), unnamed);
        let text = ok(place.longpole(&["report"]).arg(&recording).output().unwrap());
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        let states = |line: &str| line.starts_with("without names: functions of ") && line.contains(remedy);
        assert!(text.lines().any(states), "{text}");
    }
}
