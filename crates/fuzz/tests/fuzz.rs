//! The short form of `make fuzz`: each target runs without coverage for one second. The long form
//! counts edges and runs for any time.

use std::process::Command;

#[test]
fn no_target_fails_on_malformed_inputs() {
    let findings = tempfile::tempdir().unwrap();
    let fuzz = || Command::new(env!("CARGO_BIN_EXE_longpole-fuzz"));
    let list = fuzz().arg("list").output().unwrap();
    let targets = String::from_utf8_lossy(&list.stdout).lines().count();
    assert!(targets >= 15, "{list:?}");
    let run = fuzz().args(["fuzz", "--seconds", "1", "--seed", "1", "--findings"]).arg(findings.path()).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    print!("{said}");
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(said.lines().count(), targets);
}

#[test]
fn a_failing_input_is_stored_and_fails_again() {
    let findings = tempfile::tempdir().unwrap();
    let fuzz = || Command::new(env!("CARGO_BIN_EXE_longpole-fuzz"));
    for (target, what) in [("panics", "cannot be"), ("hangs", "computed for"), ("eats", "memory allocation")] {
        let run = fuzz().args(["fuzz", target, "--seconds", "20", "--longest", "1", "--findings"]).arg(findings.path()).output().unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert_eq!(run.status.code(), Some(1), "{said}");
        assert!(said.contains(what), "{said}");
        let again = said.split("again: ").nth(1).unwrap();
        assert!(again.contains(&format!("run {target} ")), "{said}");
        if target != "hangs" {
            let input = again.split_whitespace().last().unwrap();
            assert!(!fuzz().args(["run", target, input]).output().unwrap().status.success());
        }
    }
}
