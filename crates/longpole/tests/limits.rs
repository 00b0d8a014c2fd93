//! Machine logs at the limits of what is asked of them: parts of a block, many names, chains of any length.

use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn written(place: &TempDir, text: &str) -> PathBuf {
    let path = place.path().join("log.jsonl");
    std::fs::write(&path, text).unwrap();
    path
}

fn ask(log: &Path, arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_longpole")).args(arguments).arg("--json").arg(log).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn an_active_path_from_the_midst_of_a_block_without_cause_begins_there() {
    let place = TempDir::new().unwrap();
    let lines = [
        r#"{"t":0,"machine":"A","state":"run"}"#,
        r#"{"t":3,"machine":"A","blocked":"w"}"#,
        r#"{"t":6,"machine":"A","woken_by":null}"#,
        r#"{"t":6,"machine":"A","state":"run"}"#,
        r#"{"t":20,"machine":"A","state":"x"}"#,
    ];
    let path = ask(&written(&place, &lines.join("\n")), &["path", "--mode", "active", "--machine", "A", "--begin", "4"]);
    let told: Vec<Value> =
        path["segments"].as_array().unwrap().iter().map(|it| json!([it["start_ns"], it["end_ns"], it["state"]])).collect();
    assert_eq!(told, [json!([4, 6, "UNKNOWN"]), json!([6, 20, "run"])]);
    assert_eq!(path["unknown_ns"], 2);
}
