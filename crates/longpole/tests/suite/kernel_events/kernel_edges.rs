//! Edge cases of recordings and answers: gaps, ranges without events, signals at unusual moments,
//! killed helpers.

use crate::support::host::{can_trace, is_root};
use crate::support::place::{ok, signal, wait_for, Place, Running};
use crate::support::schema;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A copy of a recording of the kernel whose pages are not converted yet. With `uncounted` the
/// number of lost events is unknown, as if the recorder had been killed before it could write it.
fn fixture(place: &Place, uncounted: bool) -> PathBuf {
    let path = place.path("fixture");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/tests/fixtures/kernel");
    assert!(Command::new("cp").arg("-r").arg(from).arg(&path).status().unwrap().success());
    if uncounted {
        for name in ["kernel/raw/source.json", "longpole.json"] {
            let file = path.join(name);
            let mut text: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            let of = if name == "longpole.json" { &mut text["kernel_events"] } else { &mut text };
            of["cpus"] = Value::Null;
            std::fs::write(&file, text.to_string()).unwrap();
        }
    }
    path
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn check_reports_gaps_with_an_unknown_number_of_lost_events() {
    for uncounted in [false, true] {
        let place = Place::new();
        let trace = fixture(&place, uncounted);
        place.answer("info", &trace);
        let output = ok(place.longpole(&["check", "--json"]).arg(&trace).output().unwrap());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        schema::check(&schema::schema("check"), &answer);
        assert_eq!(answer["uncounted_losses"].as_u64().unwrap() > 0, uncounted, "{answer}");
        let text = said(&ok(place.longpole(&["check"]).arg(&trace).output().unwrap()));
        assert_eq!((text.contains("sound, with gaps"), text.contains("gaps of unknown size")), (uncounted, uncounted), "{text}");
    }
}

#[test]
fn the_nearest_names_are_suggested_for_a_process_thread_or_machine_that_does_not_occur() {
    let place = Place::new();
    let trace = fixture(&place, false);
    for (options, code, what) in [
        (&["--process", "treu"][..], 2, "the trace has no thread of --process treu; the nearest: true"),
        (&["--thread", "kthread"], 2, "the trace has no thread of --thread kthread; the nearest: kthreadd"),
        (&["--process", "true", "--thread", "kthreadd"], 2, "--process true --thread kthreadd; the nearest: true\n"),
        (&["--machine", "treu"], 1, "there is no machine \"treu\" in it; the nearest: true"),
    ] {
        for verb in ["path", "what-if"] {
            let output = place.longpole(&[verb]).args(options).arg(&trace).output().unwrap();
            assert!(output.status.code() == Some(code) && said(&output).contains(what), "{verb} {options:?}: {}", said(&output));
        }
    }
}

#[test]
fn cpu_refuses_a_range_without_switches_and_options_that_need_samples() {
    let place = Place::new();
    let trace = fixture(&place, false);
    let output = place.longpole(&["cpu", "--begin", "+1000s"]).arg(&trace).output().unwrap();
    assert!(
        output.status.code() == Some(1) && said(&output).contains("there is nothing in this range; the trace begins at "),
        "{}",
        said(&output)
    );
    for options in [["--pid", "1"], ["-n", "3"]] {
        let output = place.longpole(&["cpu"]).args(options).arg(&trace).output().unwrap();
        assert!(output.status.code() == Some(2) && said(&output).contains("--functions"), "{}", said(&output));
    }
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let place = Place::new();
    // The command sends HUP to the recorder, which would pass it on to the command.
    let program = "import os, signal, sys, time\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)\nos.kill(os.getppid(), signal.SIGHUP)\ntime.sleep(0.3)\nsys.exit(7)";
    let mut command = place.command("sh");
    command.args([
        "-c",
        "trap '' HUP; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_longpole"),
        "record",
        "--kernel",
        "none",
        "--stacks",
        "none",
    ]);
    let output = command.args(["--", "python3", "-c", program]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
}

#[test]
fn files_of_a_killed_util_are_removed_by_the_next_util() {
    let place = Place::new();
    let temporary = place.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let left = || std::fs::read_dir(&temporary).unwrap().count();
    let mut command = place.longpole(&["util", "--", "sleep", "5"]);
    let mut child = Running::start(command.env("TMPDIR", &temporary).stdout(Stdio::null()).stderr(Stdio::null()));
    wait_for(|| left() == 1);
    signal(&child, "-KILL");
    child.wait().unwrap();
    assert_eq!(left(), 1);
    ok(place.longpole(&["util", "--", "true"]).env("TMPDIR", &temporary).output().unwrap());
    assert_eq!(left(), 0);
}

#[test]
fn a_signal_ends_the_conversion_and_the_next_verb_repeats_it() {
    if !can_trace("a signal during the conversion") {
        return;
    }
    let place = Place::new();
    for _ in 0..5 {
        let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
        command.args([
            "record",
            "--kernel",
            "syscall",
            "--stacks",
            "none",
            "--",
            "dd",
            "if=/dev/zero",
            "of=/dev/null",
            "bs=1",
            "count=500000",
        ]);
        let before = place.recordings().len();
        let mut child = Running::start(command.stderr(Stdio::piped()));
        wait_for(|| place.recordings().len() > before);
        let kernel = place.newest().join("kernel");
        wait_for(|| kernel.join(".converting").exists() || kernel.join("metadata").exists());
        signal(&child, "-TERM");
        let code = child.wait().unwrap().code();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut text).unwrap();
        if kernel.join("metadata").exists() {
            // The signal came after the conversion.
            continue;
        }
        assert!(code == Some(128 + 15) && text.contains("the next verb that reads the recording converts them"), "{code:?}: {text}");
        assert!(kernel.join("raw/cpu0").exists() && !kernel.join(".converting").exists());
        let info = place.answer("info", &place.newest());
        let known = |value: &Value| value.as_u64().unwrap_or(0);
        assert!(known(&info["names"]["syscall_entry_write"]) + known(&info["lost"]) >= 500_000, "{info}");
        return;
    }
    println!("skipped: a signal during the conversion (it was over each time)");
}

#[test]
fn an_orphan_in_another_mount_namespace_is_recorded_with_its_command() {
    let live = is_root() && Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|ran| ran.success());
    if !live {
        println!("skipped: an orphan in another mount namespace (needs root and unshare)");
        return;
    }
    let place = Place::new();
    let program = place.build("numbered", &[]);
    let told = place.path("told");
    let inner = format!("mount -t tmpfs -o mode=0700 none \"$LONGPOLE_RUNTIME_DIR\" && exec {program} 1 3000 1000 1 > {}", told.display());
    // The command keeps running, but the shell that started the program ends.
    let outer =
        format!("(setsid unshare -m sh -c '{inner}' &); while ! grep -q emitted {} 2>/dev/null; do sleep 0.05; done", told.display());
    ok(place.longpole(&["record", "--", "sh", "-c", &outer]).stdout(Stdio::null()).output().unwrap());
    let met: u64 = std::fs::read_to_string(&told).unwrap().trim().rsplit(' ').next().unwrap().parse().unwrap();
    let info = place.answer("info", &place.newest());
    let marks = info["names"].as_object().unwrap().iter().filter(|(name, _)| name.contains("numbered"));
    let recorded: u64 = marks.map(|(_, count)| count.as_u64().unwrap()).sum();
    assert!(recorded > 0 && recorded + info["lost"].as_u64().unwrap() == met, "{recorded} of {met}: {info}");
}
