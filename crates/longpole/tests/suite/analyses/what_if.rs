//! `what-if`, from the file to the answer.

use crate::support::schema;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A log of a maker that needs 10 ns for an item and a taker that needs 30 ns, with a queue of
/// capacity 1 between them.
fn pair(items: u64) -> String {
    let mut log = String::from("{\"queue\":\"q\",\"capacity\":1}\n{\"t\":0,\"machine\":\"maker\",\"state\":\"make\"}\n");
    log += "{\"t\":0,\"machine\":\"taker/1\",\"class\":\"taker\",\"blocked\":\"empty\",\"on\":\"q\"}\n";
    log += "{\"t\":10,\"machine\":\"maker\",\"put\":\"q\"}\n{\"t\":10,\"machine\":\"taker/1\",\"get\":\"q\",\"state\":\"take it\"}\n";
    for item in 1..items {
        let (made, taken) = (10 + 30 * (item - 1) + 10, 10 + 30 * item);
        if item == 1 {
            log += &format!("{{\"t\":{made},\"machine\":\"maker\",\"put\":\"q\"}}\n");
        }
        if item + 1 < items {
            let blocked = if item == 1 { made + 10 } else { made };
            log += &format!("{{\"t\":{blocked},\"machine\":\"maker\",\"blocked\":\"full\",\"on\":\"q\",\"for\":\"space\"}}\n");
        }
        log += &format!("{{\"t\":{taken},\"machine\":\"taker/1\",\"get\":\"q\",\"state\":\"take it\"}}\n");
        if item + 1 < items {
            log += &format!("{{\"t\":{taken},\"machine\":\"maker\",\"put\":\"q\",\"state\":\"make\"}}\n");
        }
    }
    log + &format!("{{\"t\":{},\"end\":\"taker/1\"}}\n", 10 + 30 * items)
}

fn run(arguments: &[&str], log: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longpole")).env_remove("LONGPOLE_ROOT").arg("what-if").arg(log).args(arguments).output().unwrap()
}

fn log(place: &TempDir, text: &str) -> PathBuf {
    let path = place.path().join("log.jsonl");
    fs::write(&path, text).unwrap();
    path
}

fn json(arguments: &[&str], log: &Path) -> Value {
    let output = run(&[&["--json"], arguments].concat(), log);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer = serde_json::from_slice(&output.stdout).unwrap();
    schema::check(&schema::schema("what-if"), &answer);
    answer
}

fn refusal(arguments: &[&str], log: &Path) -> (Option<i32>, String) {
    let output = run(arguments, log);
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8(output.stderr).unwrap().trim().to_owned())
}

#[test]
fn each_scenario_is_answered_with_its_gain_and_the_next_bottleneck() {
    let place = TempDir::new().unwrap();
    let log = log(&place, &pair(100));
    let answer = json(&["taker::\"take it\" x0.5", "\"taker/1\"::\"take it\" x0 and maker::make x3", "maker::make x0.1"], &log);
    let told = |at: usize, key: &str| answer[at][key].clone();
    assert_eq!((told(0, "baseline_ns"), told(0, "baseline_error"), told(0, "predicted_ns")), (3010.into(), 0.0.into(), 1510.into()));
    assert_eq!(told(0, "next")["state"], "take it");
    assert_eq!((told(1, "predicted_ns"), &told(1, "next")["machine"]), (3000.into(), &"maker".into()));
    assert_eq!(told(2, "predicted_ns"), 3001);
    assert!(told(2, "gain").as_f64().unwrap() < 0.01);
}

#[test]
fn without_a_scenario_fixes_are_proposed_in_order() {
    let place = TempDir::new().unwrap();
    let log = log(&place, &pair(100));
    let answer = json(&[], &log);
    let steps: Vec<(u64, &str)> =
        answer.as_array().unwrap().iter().filter_map(|it| Some((it["step"].as_u64()?, it["change"].as_str()?))).collect();
    assert_eq!(steps[0], (1, "taker::\"take it\" x0.5"));
    let text = String::from_utf8(run(&[], &log).stdout).unwrap();
    assert!(text.contains("FIX THESE IN THIS ORDER\n"), "{text}");
    assert!(text.contains("to the end of taker/1: 3.01 us; the unchanged replay differs by +0.0 %"), "{text}");
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest_known_name() {
    let place = TempDir::new().unwrap();
    let log = log(&place, &pair(5));
    for (change, said) in [
        ("maker::mak x0.5", "no state \"maker::mak\" occurs; the nearest: maker::make"),
        ("queue qq capacity 3", "no queue \"qq\" occurs; the nearest: q"),
        ("batch makr 3", "no machine \"makr\" occurs; the nearest: maker"),
        ("maker::blocked:full x0.5", "maker::blocked:full is a wait: its time depends on what it waits for"),
    ] {
        let (status, error) = refusal(&[change], &log);
        assert!(status == Some(1) && error.contains(said), "{change}: {error}");
    }
    let (status, error) = refusal(&["maker::make 0.5"], &log);
    assert!(status == Some(2) && error.contains("\"0.5\" is not a factor, such as x0.5"), "{error}");
    let (status, error) = refusal(&["--machine", "Z", "maker::make x0.5"], &log);
    assert!(status == Some(1) && error.contains("there is no machine \"Z\" in it; the nearest: "), "{error}");
    let (status, error) = refusal(&["--machine", "maker/2", "maker::make x0.5"], &log);
    assert!(status == Some(1) && error.contains("there is no machine \"maker/2\" in it; the nearest: maker"), "{error}");
}

#[test]
fn a_machine_that_neither_calls_nor_signals_has_nothing_to_batch() {
    let place = TempDir::new().unwrap();
    let log = log(&place, &pair(50));
    let answer = json(&["batch maker 3"], &log);
    assert_eq!(answer[0]["refused"], "maker makes no calls and sends no signals, so there is nothing to batch");
    assert!(answer[0]["gain"].is_null());
}

#[test]
fn hidden_causes_are_refused_with_the_machine_that_waited() {
    let place = TempDir::new().unwrap();
    // The same log without the puts, so that nothing shows what moved from the maker to the taker.
    let hidden: String =
        pair(50).lines().filter(|line| !line.contains("\"put\"")).map(|line| line.replace("\"get\":\"q\",", "") + "\n").collect();
    let hidden =
        hidden.replace("\"state\":\"take it\"}\n", "\"state\":\"take it\"}\n{\"t\":T,\"machine\":\"taker/1\",\"blocked\":\"more\"}\n");
    let mut log_text = String::new();
    let mut t = 0;
    for line in hidden.lines() {
        if let Some(at) = line.find("\"t\":").filter(|_| !line.contains("\"t\":T")) {
            let digits: String = line[at + 4..].chars().take_while(char::is_ascii_digit).collect();
            t = digits.parse().unwrap();
        }
        log_text += &line.replace("\"t\":T", &format!("\"t\":{t}"));
        log_text += "\n";
    }
    let log = log(&place, &log_text);
    let answer = json(&["taker::\"take it\" x0.5"], &log);
    let refused = answer[0]["refused"].as_str().unwrap();
    assert!(refused.contains("shorter than what was observed") && refused.contains("taker/1::blocked:"), "{refused}");
    assert!(answer[0]["gain"].is_null() && answer[0]["predicted_ns"].is_null());
    let text = String::from_utf8(run(&["taker::\"take it\" x0.5"], &log).stdout).unwrap();
    assert!(text.contains("cannot be predicted: the replay of the unchanged trace is "), "{text}");
}

#[test]
fn scenarios_and_proposals_are_answered_from_a_pipe() {
    use std::io::Write;
    use std::process::Stdio;
    let run = |arguments: &[&str]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longpole"))
            .args(["what-if", "--json", "/dev/stdin"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(pair(10).as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let answer: Value = serde_json::from_slice(&run(&["maker::make x2"]).stdout).unwrap();
    assert_eq!(answer[0]["baseline_ns"], 310);
    // Proposals need several rounds over the log, and work from a pipe, too.
    let place = TempDir::new().unwrap();
    let answer: Value = serde_json::from_slice(&run(&[]).stdout).unwrap();
    assert!(answer.as_array().unwrap().iter().any(|row| row["step"] == 1), "{answer}");
    assert_eq!(answer, json(&[], &log(&place, &pair(10))));
}

/// Random systems with everything that a machine log can contain. The replay of the unchanged log
/// must reach the observed end.
#[test]
fn random_systems_are_replayed_to_their_observed_end() {
    let systems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/systems.py");
    let place = TempDir::new().unwrap();
    let (count, mut exact, mut others) = (40, 0, Vec::new());
    for seed in 1..=count {
        let made = match Command::new("python3").env("PYTHONDONTWRITEBYTECODE", "1").arg(&systems).arg(seed.to_string()).output() {
            Ok(made) => made,
            Err(error) => return println!("skipped: python3: {error}"),
        };
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let log = place.path().join("system.jsonl");
        fs::write(&log, &made.stdout).unwrap();
        let answer = json(&["cpus +1"], &log);
        match answer[0]["replayed_ns"] == answer[0]["baseline_ns"] {
            true => exact += 1,
            false => others.push((seed, answer[0]["replayed_ns"].clone(), answer[0]["baseline_ns"].clone())),
        }
    }
    assert!(exact * 100 >= count * 95, "{exact} of {count}: {others:?}");
}
