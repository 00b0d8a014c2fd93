//! Names come from other programs: no name may send control sequences to the terminal of the user
//! who reads an answer or an error.

use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const CONTROL_SEQUENCES: &str = r"\u001b]0;owned\u0007\u001b[2J\u009b31m";

/// Writes the machine log of a machine whose name, states and reasons to block contain control
/// sequences, and whose gets contradict its queue.
fn log(place: &TempDir, name: &str, work: u64) -> std::path::PathBuf {
    let mut text = String::new();
    let mut t = 0;
    for _ in 0..30 {
        text += &format!("{{\"t\":{t},\"machine\":\"{CONTROL_SEQUENCES}a\",\"state\":\"{CONTROL_SEQUENCES}b\\n\"}}\n");
        t += work;
        text += &format!(
            "{{\"t\":{t},\"machine\":\"{CONTROL_SEQUENCES}a\",\"get\":\"{CONTROL_SEQUENCES}c\"}}\n{{\"t\":{t},\"machine\":\"{CONTROL_SEQUENCES}a\",\"state\":\"rest\"}}\n"
        );
        t += 100;
    }
    text += &format!("{{\"t\":{t},\"machine\":\"{CONTROL_SEQUENCES}a\",\"blocked\":\"{CONTROL_SEQUENCES}d\"}}\n{{\"t\":{},\"end\":\"{CONTROL_SEQUENCES}a\"}}\n", t + 50);
    let path = place.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

fn said(arguments: &[&str], logs: &[&Path]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_longpole")).env_remove("LONGPOLE_ROOT").args(arguments).args(logs).output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn no_answer_and_no_error_contains_control_characters() {
    let place = TempDir::new().unwrap();
    let (one, other) = (log(&place, "one", 100), log(&place, "other", 300));
    let wrong = place.path().join("wrong");
    fs::write(
        &wrong,
        format!("{{\"t\":0,\"machine\":\"a\"}}\n{{\"t\":0,\"machine\":\"a\",\"blocked\":\"x\",\"for\":\"{CONTROL_SEQUENCES}\"}}\n"),
    )
    .unwrap();
    let before: &[&Path] = &[&one];
    for (arguments, logs) in [
        (&["path", "--segments"][..], before),
        (&["path", "--segments", "--mode", "active", "--machine", "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31ma"], before),
        (&["path", "--machine", "\u{1b}[2Jnobody"], before),
        (&["graph"], before),
        (&["graph", "--format", "dot"], before),
        (&["graph", "--format", "svg"], before),
        (&["graph", "--waits"], before),
        (&["what-if"], before),
        (&["report"], before),
        (&["report"], &[&one, &other]),
        (&["diff"], &[&one, &other]),
        (&["diff", "--fail-if", "criticality(\"\u{1b}[2J\") > 1"], &[&one, &other]),
        (&["path"], &[&wrong]),
        (&["model"], &[&wrong]),
    ] {
        steers_nothing(arguments, &said(arguments, logs));
    }
}

fn steers_nothing(arguments: &[&str], text: &str) {
    assert!(text.len() > 20, "{arguments:?}: {text:?}");
    let steers = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(steers), "{arguments:?}: {text:?}");
}

#[test]
fn no_counter_name_of_a_recording_reaches_the_terminal_with_control_characters() {
    let place = TempDir::new().unwrap();
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/tests/fixtures/kernel/.");
    assert!(Command::new("cp").arg("-r").arg(fixture).arg(place.path()).status().unwrap().success());
    let recording = [place.path()];
    said(&["info"], &recording);
    let description = place.path().join("longpole.json");
    let mut changed: serde_json::Value = serde_json::from_slice(&fs::read(&description).unwrap()).unwrap();
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m";
    let row = |of: &str, interface: Option<&str>, counter: &str, delta: u64| serde_json::json!({ "of": of, "namespace": evil, "interface": interface, "counter": counter, "delta": delta });
    let rows = [
        row("link", Some(evil), "tx_dropped", 5),
        row("link", Some(evil), "rx_errors", 5),
        row("udp", None, &format!("{evil}x"), 6),
        row("udp", None, evil, 0),
        row(evil, None, "drops", 7),
    ];
    let names = serde_json::json!({ "count": 3, "names": [evil] });
    changed["kernel_events"]["counters"] =
        serde_json::json!({ "begin_ns": 1, "end_ns": 2, "left_out": 1, "not_read": names, "gone": names, "rows": rows });
    fs::write(&description, changed.to_string()).unwrap();
    let text = said(&["packets"], &recording);
    assert!(text.contains("than events show") && text.contains("owned"), "{text:?}");
    steers_nothing(&["packets"], &text);
}
