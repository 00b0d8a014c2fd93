//! Finds the recording in progress that the user means. There may be several at once: one of all
//! programs, some of single processes, some of commands.

use crate::render::table::plain;
use anyhow::bail;
use longpole_record::runtime_dir::session::{self, Responsibility, RunningRecording};
use longpole_record::RuntimeDir;
use serde_json::Value;
use std::path::Path;

/// Returns all recordings in progress, and the runtime directory; `None` if it does not exist.
pub fn all() -> anyhow::Result<(Vec<RunningRecording>, Option<RuntimeDir>)> {
    let path = RuntimeDir::default_path();
    if !path.exists() {
        return Ok((Vec::new(), None));
    }
    let runtime = RuntimeDir::open(&path)?;
    Ok((session::running(&runtime)?, Some(runtime)))
}

/// Returns the recording of the process `pid`, or the one whose recorder has that pid. Without
/// `pid`, returns the only recording. `none` is the error message if nothing is being recorded.
pub fn one(pid: Option<i32>, none: &str) -> anyhow::Result<(RunningRecording, RuntimeDir)> {
    let (all, runtime) = all()?;
    let Some(runtime) = runtime.filter(|_| !all.is_empty()) else { bail!("{none}") };
    let meant = |running: &&RunningRecording| pid.is_none_or(|pid| running.of() == Some(pid) || running.pid == pid);
    let mut found = all.iter().filter(meant);
    match (found.next(), found.next()) {
        (Some(running), None) => Ok((running.clone(), runtime)),
        (Some(_), Some(_)) => bail!("several recordings are in progress; say which one with --pid:{}", list(&all)),
        (None, _) => bail!("no recording of process {} is in progress; there are:{}", pid.unwrap_or_default(), list(&all)),
    }
}

/// Returns the recording that is being made in this directory; without one, the only recording.
/// `none` is the error message if nothing is being recorded.
pub fn in_directory(directory: Option<&Path>, none: &str) -> anyhow::Result<(RunningRecording, RuntimeDir)> {
    let (all, runtime) = all()?;
    let Some(runtime) = runtime.filter(|_| !all.is_empty()) else { bail!("{none}") };
    let meant = |running: &&RunningRecording| directory.is_none_or(|directory| is_same(directory, &running.path));
    let mut found = all.iter().filter(meant);
    match (found.next(), found.next(), directory) {
        (Some(running), None, _) => Ok((running.clone(), runtime)),
        (Some(_), Some(_), _) => bail!("several recordings are in progress; name the directory of one:{}", list_directories(&all)),
        (None, _, directory) => bail!(
            "nothing is being recorded in {}; recordings in progress:{}",
            plain(directory.unwrap_or(Path::new("")).display().to_string()),
            list_directories(&all)
        ),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Returns the recording's current state, because a recording with a limit may have begun another
/// chunk. `None` if it has ended.
pub fn again(running: &RunningRecording, runtime: &RuntimeDir) -> anyhow::Result<Option<RunningRecording>> {
    Ok(session::running(runtime)?.into_iter().find(|now| now.session == running.session))
}

/// Returns what is being recorded, in words.
pub fn of(running: &RunningRecording) -> String {
    match (running.responsibility, command(running)) {
        (Responsibility::Process(pid), _) => format!("process {pid}"),
        (_, Some(command)) => format!("the command {command}"),
        (Responsibility::Command(_), None) => "a command".to_owned(),
        (Responsibility::All, None) => "all programs".to_owned(),
    }
}

/// Returns the recording's description (`longpole.json`).
pub fn description(running: &RunningRecording) -> Value {
    let text = std::fs::read(running.path.join("longpole.json")).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or(Value::Null)
}

/// Returns the recorded command; `None` if the recording is not one of a command.
pub fn command(running: &RunningRecording) -> Option<String> {
    let description = description(running);
    let words: Vec<&str> = description["command"].as_array()?.iter().filter_map(Value::as_str).collect();
    (!words.is_empty()).then(|| plain(words.join(" ")))
}

fn list_directories(all: &[RunningRecording]) -> String {
    all.iter().map(|running| format!("\n  {}  ({})", plain(running.path.display().to_string()), of(running))).collect()
}

fn list(all: &[RunningRecording]) -> String {
    all.iter()
        .map(|running| {
            format!("\n  --pid {}  {} ({})", running.of().unwrap_or(running.pid), plain(running.path.display().to_string()), of(running))
        })
        .collect()
}
