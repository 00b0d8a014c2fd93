//! The program `tests/programs/commanded.c`, which takes commands from a test, a recording session
//! that runs at the same time, and the events that babeltrace2 counts in the recording.

use super::place::{ok, Place, Running};
use longpole_trace::event::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A running `tests/programs/commanded.c`.
pub struct CommandedProgram {
    child: Running,
    out: BufReader<std::process::ChildStdout>,
}

impl CommandedProgram {
    pub fn start(place: &Place, program: &str) -> CommandedProgram {
        CommandedProgram::of(&mut place.command(program))
    }

    pub fn of(command: &mut Command) -> CommandedProgram {
        let mut child = Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let out = BufReader::new(child.stdout.take().unwrap());
        CommandedProgram { child, out }
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Sends a command without waiting for the answer.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits for the answer to a command. Returns the number of marks since the start of the
    /// program.
    pub fn done(&mut self) -> u64 {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim().strip_prefix("done ").unwrap_or_else(|| panic!("{line:?}")).parse().unwrap()
    }

    /// Sends a command and waits for the answer, like [`CommandedProgram::done`].
    pub fn does(&mut self, line: &str) -> u64 {
        self.tell(line);
        self.done()
    }

    /// Ends the program as a crash would, without destructors, and waits for its end.
    pub fn end(mut self) {
        self.tell("end");
        self.child.wait().unwrap();
    }
}

/// A recording session; stopped at the latest when the value is dropped. The second field is true
/// while the session runs.
pub struct Session<'a>(&'a Place, bool);

impl<'a> Session<'a> {
    pub fn start(place: &'a Place, arguments: &[&str]) -> Session<'a> {
        ok(place.longpole(&["start"]).args(arguments).output().unwrap());
        Session(place, true)
    }

    /// Takes over a session that is already running.
    pub fn of(place: &'a Place) -> Session<'a> {
        Session(place, true)
    }

    /// Stops the session. Returns the path of its newest recording.
    pub fn stop(mut self) -> PathBuf {
        self.1 = false;
        path(&ok(self.0.longpole(&["stop"]).output().unwrap()))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if self.1 {
            let _ = self.0.longpole(&["stop"]).output();
        }
    }
}

/// The path that a command printed.
pub fn path(output: &Output) -> PathBuf {
    PathBuf::from(String::from_utf8(output.stdout.clone()).unwrap().trim())
}

/// Takes a snapshot of the session. Returns its path.
pub fn snapshot(place: &Place, arguments: &[&str]) -> PathBuf {
    path(&ok(place.longpole(&["snapshot"]).args(arguments).output().unwrap()))
}

/// Number of events with this name, and number of lost events, as babeltrace2 counts them.
pub fn counted(recording: &Path, name: &str) -> (u64, u64) {
    let output = Command::new("babeltrace2").arg(recording.join("user")).output().expect("babeltrace2 is installed");
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{talk}");
    let events = String::from_utf8(output.stdout).unwrap().lines().filter(|line| line.contains(name)).count();
    let lost = talk.lines().filter_map(|line| line.split_once("Tracer discarded ")?.1.split(' ').next()?.parse::<u64>().ok()).sum();
    (events as u64, lost)
}

/// The numbers that the marks carry, in the order of the trace.
pub fn numbers(recording: &Path) -> Vec<u64> {
    let mut trace = Trace::open(&[recording], Options::default()).unwrap();
    let mut numbers = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        if let Item::Event(event) = item {
            if catalogue.classes[event.class.0 as usize].event_name == "mark:numbered" {
                numbers.push(event.fields[0].as_u64().unwrap());
            }
        }
    }
    assert!(!trace.is_damaged(), "{:?}", trace.diagnostics());
    numbers
}

/// The recording's longpole.json.
pub fn description(recording: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(recording.join("longpole.json")).unwrap()).unwrap()
}
