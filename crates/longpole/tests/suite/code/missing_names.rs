//! What the answers say about code without names, and that this brings the names.

use crate::support::place::{ok, Place};
use crate::support::schema;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn live(what: &str, tools: &[&str]) -> bool {
    let missing = tools.iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    let possible = longpole_record::stacks::survey().is_ok() && missing.is_none();
    if !possible {
        println!("skipped: {what} (needs root, or kernel.perf_event_paranoid=0, and {tools:?})");
    }
    possible
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Records a command whose last line of output is its pid. Returns the answer of `cpu` about that
/// process, and the lines about names for people.
fn record(place: &Place, options: &[&str], command: &[&str], cache: &Path) -> (Value, Vec<String>) {
    let record = [&["record", "--stacks", "1999"], options, &["--"], command].concat();
    // Node writes a file into its folder.
    let folder = place.path("");
    let output = ok(place.longpole(&record).env("DEBUGINFOD_CACHE_PATH", cache).current_dir(folder).output().unwrap());
    let pid = text(&output.stdout).lines().last().unwrap().to_owned();
    let ask = |options: &[&str]| {
        let ask = [&["cpu", "--functions", "--pid", &pid], options].concat();
        text(&ok(place.longpole(&ask).arg(place.newest()).output().unwrap()).stdout)
    };
    let answer = serde_json::from_str(&ask(&["--json"])).unwrap();
    schema::check(&schema::schema("cpu"), &answer);
    let lines = ask(&[]).lines().filter(|line| line.contains("without names:")).map(str::to_owned).collect();
    (answer, lines)
}

/// The share of the stacks that go through code of a module without names.
fn unnamed(answer: &Value, module: &str, remedy: &str) -> f64 {
    let rows = answer["stack_gaps"]["unnamed"].as_array().unwrap().iter();
    rows.filter(|row| row["module"] == module && row["remedy"] == remedy).map(|row| row["share"].as_f64().unwrap()).sum()
}

/// The path of a program's debug information in the cache of debuginfod.
fn cached(cache: &Path, program: &str) -> PathBuf {
    let Output { stdout, .. } = ok(Command::new("readelf").args(["--notes", program]).output().unwrap());
    let notes = text(&stdout);
    let id = notes.split("Build ID: ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    cache.join(id).join("debuginfo")
}

#[test]
fn debug_information_in_the_cache_of_debuginfod_names_the_functions_of_a_stripped_program() {
    if !live("debug information of a stripped program", &["objcopy", "readelf"]) {
        return;
    }
    let place = Place::new();
    let program = place.build("sampled", &["-g", "-fno-omit-frame-pointer", "-Wl,--build-id"]);
    let cache = place.path("cache");
    let debug = cached(&cache, &program);
    ok(Command::new("objcopy").args(["--only-keep-debug", &program]).arg(place.path("kept")).output().unwrap());
    ok(Command::new("objcopy").args(["--strip-all", &program]).output().unwrap());
    let command = [program.as_str(), "shares", "0.3"];
    let (answer, lines) = record(&place, &[], &command, &cache);
    assert!(unnamed(&answer, "sampled", "debug_information") > 0.5, "{}", answer["stack_gaps"]);
    let of_program =
        |lines: &[String]| lines.iter().any(|line| line.contains("sampled (") && line.contains("debuginfod-find debuginfo FILE"));
    assert!(of_program(&lines), "{lines:?}");

    fs::create_dir_all(debug.parent().unwrap()).unwrap();
    fs::rename(place.path("kept"), debug).unwrap();
    let (answer, lines) = record(&place, &[], &command, &cache);
    assert!(answer["functions"].as_array().unwrap().iter().any(|row| row["function"] == "work_of_six"), "{answer}");
    assert_eq!(unnamed(&answer, "sampled", "debug_information"), 0.0, "{}", answer["stack_gaps"]);
    assert!(!of_program(&lines), "{lines:?}");
}

#[test]
fn runtimes_that_list_their_functions_name_the_code_that_they_generate() {
    if !live("functions of Node", &["node"]) {
        return;
    }
    let place = Place::new();
    let script = place.path("script.js");
    let source = "function hot(n) { let sum = 0; for (let i = 0; i < n; i++) sum += Math.sqrt(i) % 7; return sum; }
        const end = Date.now() + 700; while (Date.now() < end) hot(100000); console.log(process.pid);";
    fs::write(&script, source).unwrap();
    let command = ["node", script.to_str().unwrap()];
    let cache = place.path("cache");
    let (answer, lines) = record(&place, &[], &command, &cache);
    let before = unnamed(&answer, "Node", "runtime");
    assert!(before > 0.1, "{}", answer["stack_gaps"]);
    // The functions of Node are not those of the program.
    let verdict = &place.answer("report", &place.newest())["verdict"];
    assert!(verdict["code"].is_null(), "{verdict}");
    assert!(lines.iter().any(|line| line.contains("functions of Node in ") && line.contains("record --runtimes")), "{lines:?}");

    let (answer, _) = record(&place, &["--runtimes"], &command, &cache);
    assert!(answer["functions"].as_array().unwrap().iter().any(|row| row["function"] == "hot"), "{answer}");
    assert!(unnamed(&answer, "Node", "runtime") < before / 2.0, "{before}: {}", answer["stack_gaps"]);
}
