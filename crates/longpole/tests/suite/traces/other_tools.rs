//! Reads every trace of other tools that is listed in `expected.tsv` with the command. A trace that
//! must be accepted is read to its end and has the listed number of events. A trace that must be
//! refused fails with an error that contains the file, the position and the reason.

use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Rows that fail at present, with the reason. A row that passes must be removed from this list.
const OPEN: [(&str, &str); 0] = [];

/// Time limit for a reader that never ends. It is long because a slow host must not fail the test.
const LONG: Duration = Duration::from_secs(60);

struct Ran {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(arguments: &[&str], trace: &Path) -> Result<Ran, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
    command.args(arguments).arg(trace).env_remove("LONGPOLE_ROOT").stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (ended, end) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut stderr = Vec::new();
        err.read_to_end(&mut stderr).unwrap();
        stderr
    });
    std::thread::spawn(move || {
        let mut stdout = Vec::new();
        out.read_to_end(&mut stdout).unwrap();
        let _ = ended.send(stdout);
    });
    let Ok(stdout) = end.recv_timeout(LONG) else {
        child.kill().unwrap();
        child.wait().unwrap();
        return Err(format!("{arguments:?} does not end"));
    };
    let status = child.wait().unwrap().code();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ran { status, stdout: text(stdout), stderr: text(reader.join().unwrap()) })
}

fn printed(trace: &Path, verdict: &str, count: Option<u64>) -> Result<(), String> {
    let Ran { status, stdout, stderr } = run(&["print", "--strict", "--json"], trace)?;
    let events = stdout.lines().filter(|line| line.contains("\"name\":")).count() as u64;
    let said = || format!("print: status {status:?}, {events} events, {verdict} {count:?}\n{stderr}");
    match verdict {
        "accept" if status == Some(0) && count.is_none_or(|count| count == events) => Ok(()),
        "reject" if status == Some(1) && count.is_none_or(|count| count == events) => refused(trace, &stderr),
        "error after events" if status == Some(1) && events > 0 => refused(trace, &stderr),
        _ => Err(said()),
    }
}

fn checked(trace: &Path, verdict: &str) -> Result<(), String> {
    let Ran { status, stdout, stderr } = run(&["check"], trace)?;
    match (verdict, status) {
        ("accept", Some(0)) => Ok(()),
        ("reject" | "error after events", Some(1)) => refused(trace, &(stdout + &stderr)),
        _ => Err(format!("check: status {status:?}, {verdict}\n{stdout}{stderr}")),
    }
}

/// Checks that the error names a file in the trace and a position in it: a line and column, a
/// packet and bit, or a byte.
fn refused(trace: &Path, said: &str) -> Result<(), String> {
    let file = said.lines().any(|line| line.contains(&format!("{}/", trace.display())));
    let place = ["metadata:", "bit ", "byte "].iter().any(|place| said.contains(place));
    match file && place {
        true => Ok(()),
        false => Err(format!("refused without file or place:\n{said}")),
    }
}

#[test]
fn traces_of_other_tools_are_accepted_or_refused_as_their_table_requires() {
    let Some(corpora) = std::env::var_os("LONGPOLE_CORPORA").map(PathBuf::from) else {
        eprintln!("not at hand: traces of other tools (LONGPOLE_CORPORA): each row of their table by the command");
        return;
    };
    let help = Command::new(env!("CARGO_BIN_EXE_longpole")).args(["print", "--help"]).output().unwrap().stdout;
    if !String::from_utf8_lossy(&help).contains("--strict") {
        println!("skipped: each row of the table of other tools' traces by the command (print has no --strict)");
        return;
    }
    let table = std::fs::read_to_string(corpora.join("expected.tsv")).unwrap();
    let mut wrong = String::new();
    let mut rows = 0;
    for line in table.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, _, verdict, count, ..] = columns[..] else { panic!("{line}") };
        rows += 1;
        let trace = corpora.join(name);
        let result = printed(&trace, verdict, count.parse().ok()).and_then(|()| checked(&trace, verdict));
        match (result, OPEN.iter().find(|(row, _)| *row == name)) {
            (Ok(()), Some((_, reason))) => writeln!(wrong, "{name}: listed as open ({reason}), but right").unwrap(),
            (Err(error), None) => writeln!(wrong, "{name}: {error}").unwrap(),
            _ => {}
        }
    }
    assert!(rows > 200, "only {rows} rows");
    assert!(wrong.is_empty(), "\n{wrong}");
}
