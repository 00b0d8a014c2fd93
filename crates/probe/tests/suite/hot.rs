//! The effect of a probe on its program: nothing except what is documented.

use crate::support::{example, ok, repository, Place};
use std::process::Command;

/// The instructions of a function up to its first return: the path of an event that finds room.
fn hot_path(program: &std::path::Path, function: &str) -> Option<Vec<String>> {
    let options = ["-d", "--no-show-raw-insn", &format!("--disassemble={function}")].map(str::to_owned);
    let Ok(dump) = Command::new("objdump").args(options).arg(program).output() else {
        println!("skipped: looking at a probe's instructions (objdump is not installed)");
        return None;
    };
    let text = String::from_utf8(ok(dump).stdout).unwrap();
    let body = text.lines().skip_while(|line| !line.contains(&format!("<{function}>:"))).skip(1);
    let instructions = body.filter_map(|line| line.split('\t').nth(1).map(str::to_owned));
    let mut until_return = Vec::new();
    for instruction in instructions {
        let last = instruction.starts_with("ret");
        until_return.push(instruction);
        if last {
            return Some(until_return);
        }
    }
    panic!("{function} does not return:\n{text}");
}

#[test]
fn a_mark_makes_no_call_and_takes_no_lock_on_the_fast_path() {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: looking at a probe's instructions (written for x86-64)");
        return;
    }
    let Some(instructions) = hot_path(&example("librust_library.so"), "probe_of_library") else { return };
    let text = instructions.join("\n");
    assert_eq!(instructions.iter().filter(|i| i.starts_with("rdtsc")).count(), 1, "{text}");
    for instruction in &instructions {
        let word = instruction.split_whitespace().next().unwrap();
        assert!(!["lock", "call", "callq", "syscall", "push", "xchg", "mfence", "cpuid"].contains(&word), "{instruction}\n{text}");
    }
    // One load decides if anything is done at all.
    assert!(instructions[0].contains("longpole_page"), "{text}");
    assert!(instructions[1].starts_with("test") && instructions[2].starts_with('j'), "{text}");
}

/// The system calls of a program between its writes "begin" and "end".
fn calls_between(place: &Place, trace: &std::path::Path, program: &[&str]) -> Option<Vec<String>> {
    let Ok(version) = Command::new("strace").arg("-V").output() else {
        println!("skipped: watching a program's system calls (strace is not installed)");
        return None;
    };
    ok(version);
    let (first, rest) = program.split_first().unwrap();
    ok(place.command("strace").arg("-f").arg("-o").arg(trace).arg(first).args(rest).output().unwrap());
    let text = std::fs::read_to_string(trace).unwrap();
    let subject: Vec<&str> = text.lines().collect();
    let at = |word: &str| subject.iter().position(|line| line.contains("write(1,") && line.contains(word)).unwrap();
    let pid = subject[at("\"begin")].split(' ').next().unwrap();
    let between = &subject[at("\"begin") + 1..at("\"end")];
    Some(between.iter().filter(|line| line.starts_with(pid) && !line.contains("resumed>")).map(|line| (*line).to_owned()).collect())
}

#[test]
fn a_probe_makes_no_system_call_whether_recorded_or_not() {
    let place = Place::new();
    let program = example("subject");
    let program = program.to_str().unwrap();
    let Some(calls) = calls_between(&place, &place.path("off"), &[program, "quiet", "100000"]) else { return };
    assert_eq!(calls, [""; 0], "off");
    // strace runs as the command of the recorder, so the recorder itself is not traced. The events
    // fit one ring, and each site was hit before.
    let recorder = place.recorder(&["--buffer", "4MiB"]);
    let words: Vec<&str> = std::iter::once(recorder.get_program()).chain(recorder.get_args()).map(|word| word.to_str().unwrap()).collect();
    let calls = calls_between(&place, &place.path("on"), &[&words[..], &["--", program, "quiet", "1000"]].concat()).unwrap();
    let text = std::fs::read_to_string(place.path("on")).unwrap();
    assert!(text.contains("end on"), "it was recorded");
    // The first hit of a site looks it up in the table, which is mapped.
    assert_eq!(calls, [""; 0], "on");
    assert_eq!(place.counts().1, 0);
}

#[test]
fn a_program_that_is_not_recorded_leaves_nothing_behind() {
    let place = Place::new();
    let output = ok(place.command(example("subject")).args(["quiet", "1000"]).output().unwrap());
    assert_eq!(output.stdout, b"begin\nend off\n");
    let left: Vec<String> =
        std::fs::read_dir(place.path("runtime")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(left, ["sites"], "the control file went with its process");
    // The same if there is no runtime directory.
    let output = Command::new(example("subject")).args(["quiet", "1000"]).env("LONGPOLE_RUNTIME_DIR", "/proc/nowhere").output().unwrap();
    assert_eq!(ok(output).stdout, b"begin\nend off\n");
}

/// Builds a crate of one file that depends on this one; returns the compiler's messages if that
/// fails.
fn build(place: &Place, name: &str, features: &str, text: &str) -> Result<std::path::PathBuf, String> {
    let folder = place.path(name);
    std::fs::create_dir_all(folder.join("src")).unwrap();
    let probe = repository().join("crates/probe");
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n[dependencies]\n\
         longpole = {{ package = \"longpole-probe\", path = {:?}, {features} }}\n\n[profile.dev]\npanic = \"abort\"\n",
        probe.canonicalize().unwrap()
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(folder.join("src/main.rs"), text).unwrap();
    std::fs::copy(repository().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--offline", "--quiet", "--config", "build.rustflags=[\"-Dwarnings\"]", "--target-dir"]);
    let output = command.arg(place.path("target")).current_dir(&folder).env_remove("RUSTFLAGS").output().unwrap();
    if output.status.success() {
        Ok(place.path("target/debug").join(name))
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

/// Every probe, with arguments that count their evaluations.
const UNEVALUATED: &str = include_str!("../programs/unevaluated.rs");

#[test]
fn a_disabled_probe_evaluates_none_of_its_arguments_and_leaves_nothing() {
    let place = Place::new();
    let program = build(&place, "unevaluated", "features = [\"disable\"]", UNEVALUATED).unwrap();
    let output = ok(place.command(&program).arg("counters").output().unwrap());
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"0\n"[..], &b""[..]));
    assert_eq!(std::fs::read_dir(place.path("runtime")).unwrap().count(), 0);
    let symbols = ok(Command::new("nm").arg(&program).output().unwrap()).stdout;
    assert!(!String::from_utf8(symbols).unwrap().contains("longpole_page"));
    // Without the feature, the same program evaluates nothing while nothing is recorded, and
    // everything once it is.
    let program = build(&place, "evaluated", "default-features = false, features = [\"std\"]", UNEVALUATED).unwrap();
    assert_eq!(ok(place.command(&program).output().unwrap()).stdout, b"0\n");
    assert_eq!(place.record(&[], &program, &[]), "70\n");
}

#[test]
fn misused_probes_are_rejected_by_the_compiler_with_one_sentence() {
    let place = Place::new();
    let cases = [
        ("let number = 5; longpole::mark!(number);", "is not the name of a probe"),
        ("longpole::counter!(\"text\", \"text\");", "Value` is not satisfied"),
        ("longpole::event!(\"field\", field = ());", "`()` is not a field of an event"),
        ("longpole::begin!(\"argument\", &5);", "is not a number that a probe records"),
        (
            "fn send(_: impl Send) {} send(async { longpole::span!(\"waits\"); std::future::ready(()).await });",
            "cannot be sent between threads safely",
        ),
    ];
    for (statement, message) in cases {
        let text = format!("fn main() {{\n    {statement}\n}}\n");
        let error = build(&place, "refused", "features = []", &text).expect_err(statement);
        assert!(error.contains(message), "{statement}: {error}");
    }
}
