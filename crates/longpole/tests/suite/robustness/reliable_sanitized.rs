//! The programs of `reliable.rs`, built with the sanitizers of gcc and clang, as C and as C++, and
//! recorded. The sanitizers report nothing, and the numbers of events are the same.

use crate::support::place::Place;
use crate::support::tried::{long_or_short, soak, Tried};
use std::process::Command;

/// Compilers: the name for the program that each makes, and its command.
const COMPILERS: [(&str, &[&str]); 4] = [
    ("gcc", &["gcc", "-std=gnu11"]),
    ("g++", &["g++", "-std=gnu++17", "-xc++"]),
    ("clang", &["clang", "-std=gnu11"]),
    ("clang++", &["clang++", "-std=gnu++17", "-xc++"]),
];

/// True if a compiler has the library of a sanitizer.
fn has(place: &Place, compiler: &str, sanitizer: &str) -> bool {
    let (source, program) = (place.path("empty.c"), place.path("empty"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let run = Command::new(compiler).arg(sanitizer).arg("-xc").arg(&source).arg("-o").arg(&program).output();
    let possible = run.is_ok_and(|run| run.status.success());
    if !possible {
        println!("skipped: {sanitizer} of {compiler} (not installed)");
    }
    possible
}

fn run(place: &Place, compiler: &(&str, &[&str]), sanitizer: &str, runs: &[(&[&str], &[&str])]) {
    let (name, words) = compiler;
    if !has(place, words[0], sanitizer) {
        return;
    }
    let library = place.build("library", &["-shared", "-fPIC"]);
    // With -O1, frames and memory accesses remain as they are in the source.
    let options = ["-g", "-O1", "-fno-omit-frame-pointer", sanitizer, "-fno-sanitize-recover=all", "-ldl"];
    let program = place.build_with(words, "reliable", &format!("reliable-{name}"), &options);
    for (arguments, names) in runs {
        let arguments = arguments.iter().map(|word| if *word == "LIBRARY" { library.as_str() } else { *word });
        let command: Vec<&str> = std::iter::once(program.as_str()).chain(arguments).collect();
        // A report of a sanitizer ends the program with a status of its own.
        let tried = Tried::record(place, &["--buffer", "4MiB"], &command);
        let left = tried.said.get("left").copied().unwrap_or(0);
        tried.assert_all_counted(&format!("{name} {sanitizer} {}", command[1..].join(" ")), names, left);
    }
}

#[test]
fn sanitizers_find_nothing_in_a_recorded_program() {
    let place = Place::new();
    let (signals, jumps, forks) = (long_or_short(20_000, 1000), long_or_short(2000, 200), long_or_short(200, 10));
    let (threads, cycles) = (long_or_short(2000, 200), long_or_short(200, 20));
    let address: &[(&[&str], &[&str])] = &[
        (&["signals", "thread", &signals], &["main", "handler", "log"]),
        (&["jumps", "plain", &jumps], &["main", "handler"]),
        (&["forks", "fork", &forks, "50"], &["main", "other", "child"]),
        (&["forks", "clone", &forks, "50"], &["main", "other", "child"]),
        (&["threads", &threads, "40", "50"], &["thread"]),
        (&["library", "LIBRARY", &cycles], &["library", "main", "many", "other"]),
    ];
    // The thread sanitizer calls signal handlers at times of its choice, also inside handlers, so
    // the numbers of the programs with signals would prove nothing.
    let thread: &[(&[&str], &[&str])] = &[
        (&["threads", &threads, "40", "50"], &["thread"]),
        (&["forks", "fork", &forks, "50"], &["main", "other", "child"]),
        (&["library", "LIBRARY", &cycles], &["library", "main", "many", "other"]),
    ];
    let all: Vec<usize> = if soak() { vec![0, 1, 2, 3] } else { vec![0, 3] };
    for nth in all {
        run(&place, &COMPILERS[nth], "-fsanitize=address,undefined", address);
        run(&place, &COMPILERS[(nth + 1) % 4], "-fsanitize=thread", thread);
    }
}
