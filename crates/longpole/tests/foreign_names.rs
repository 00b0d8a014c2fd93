//! Names come from foreign programs: none of them steers the terminal of whoever reads an answer or an error.

use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const EVIL: &str = r"\u001b]0;owned\u0007\u001b[2J\u009b31m";

/// A machine with an evil name in an evil state that meets contradictions and is blocked for an evil reason.
fn log(place: &TempDir, name: &str, work: u64) -> std::path::PathBuf {
    let mut text = String::new();
    let mut t = 0;
    for _ in 0..30 {
        text += &format!("{{\"t\":{t},\"machine\":\"{EVIL}a\",\"state\":\"{EVIL}b\\n\"}}\n");
        t += work;
        text += &format!(
            "{{\"t\":{t},\"machine\":\"{EVIL}a\",\"get\":\"{EVIL}c\"}}\n{{\"t\":{t},\"machine\":\"{EVIL}a\",\"state\":\"rest\"}}\n"
        );
        t += 100;
    }
    text += &format!("{{\"t\":{t},\"machine\":\"{EVIL}a\",\"blocked\":\"{EVIL}d\"}}\n{{\"t\":{},\"end\":\"{EVIL}a\"}}\n", t + 50);
    let path = place.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

fn said(arguments: &[&str], logs: &[&Path]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_longpole")).env_remove("LONGPOLE_ROOT").args(arguments).args(logs).output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn no_answer_and_no_error_steers_the_terminal() {
    let place = TempDir::new().unwrap();
    let (one, other) = (log(&place, "one", 100), log(&place, "other", 300));
    let wrong = place.path().join("wrong");
    fs::write(&wrong, format!("{{\"t\":0,\"machine\":\"a\"}}\n{{\"t\":0,\"machine\":\"a\",\"blocked\":\"x\",\"for\":\"{EVIL}\"}}\n"))
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
        let text = said(arguments, logs);
        assert!(text.len() > 20, "{arguments:?}: {text:?}");
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(steers), "{arguments:?}: {text:?}");
    }
}
