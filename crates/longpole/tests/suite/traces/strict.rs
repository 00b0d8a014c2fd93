//! `--strict`: what a reading verb accepts with a diagnostic is an error.

use crate::support::plain_ctf;
use crate::support::plain_ctf::Payload;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn longpole(words: &[&str], traces: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
    command.args(words).args(traces).env_remove("LONGPOLE_ROOT").output().unwrap()
}

/// A trace whose metadata is one packet, followed by 5 bytes. Returns it with the offset of these.
fn with_trailing_bytes() -> (TempDir, usize) {
    let place = tempfile::tempdir().unwrap();
    let events = [(100, 8, Payload::Switch("a", 20, 0, (0, 0))), (300, 8, Payload::Rx(60, 0, [1, 2]))];
    plain_ctf::write(place.path(), &[("one", vec![plain_ctf::packet(0, &events)])]);
    let mut bytes = 0x75d1_1d57_u32.to_le_bytes().to_vec();
    bytes.extend([0; 20]);
    bytes.extend([8 * (37 + plain_ctf::METADATA.len() as u32); 2].map(u32::to_le_bytes).concat());
    bytes.extend([0, 0, 0, 1, 8]);
    bytes.extend(plain_ctf::METADATA.as_bytes());
    let at = bytes.len();
    bytes.extend(b"tail\n");
    std::fs::write(place.path().join("metadata"), bytes).unwrap();
    (place, at)
}

/// The verbs that read a trace. `merge` and `diff` take two.
const VERBS: [&[&str]; 15] = [
    &["info"],
    &["print"],
    &["report"],
    &["path"],
    &["graph"],
    &["latency"],
    &["queues"],
    &["cpu"],
    &["irq"],
    &["sched"],
    &["syscalls"],
    &["packets"],
    &["model"],
    &["convert", "--to", "json"],
    &["rules", "check"],
];

#[test]
fn with_strict_every_verb_refuses_what_it_reads_with_a_diagnostic_otherwise() {
    let (trace, at) = with_trailing_bytes();
    let told = format!("metadata: byte {at}: 5 bytes follow the last packet of the metadata");
    for verb in VERBS {
        let output = longpole(&[verb, &["--strict"]].concat(), &[trace.path()]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), true), "{verb:?}: {stderr}");
        assert!(stderr.contains(&told), "{verb:?}: {stderr}");
    }
    let what_if = longpole(&["what-if", "--strict", "cpus +1"], &[trace.path()]);
    assert!(String::from_utf8_lossy(&what_if.stderr).contains(&told), "{what_if:?}");
    for verb in [&["diff", "--strict"][..], &["merge", "--strict", "-o", "unwritten"]] {
        let other = with_trailing_bytes().0;
        let output = longpole(verb, &[trace.path(), other.path()]);
        assert_eq!(output.status.code(), Some(1), "{verb:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(&told), "{verb:?}: {output:?}");
    }
    let output = longpole(&["print"], &[trace.path()]);
    assert_eq!((output.status.code(), output.stdout.iter().filter(|byte| **byte == b'\n').count()), (Some(0), 2));
    assert!(String::from_utf8(output.stderr).unwrap().contains(&told));
}

#[test]
fn with_strict_damage_leaves_no_answer() {
    let place = tempfile::tempdir().unwrap();
    let events = [(100, 8, Payload::Switch("a", 20, 0, (0, 0))), (300, 8, Payload::Unknown)];
    plain_ctf::write(place.path(), &[("one", vec![plain_ctf::packet(0, &events)])]);
    for verb in ["info", "cpu", "report", "latency"] {
        let output = longpole(&[verb, "--json"], &[place.path()]);
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), false), "{verb}: {output:?}");
        let output = longpole(&[verb, "--json", "--strict"], &[place.path()]);
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), true), "{verb}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("one: packet 0 at byte 0, bit"), "{verb}: {output:?}");
    }
}
