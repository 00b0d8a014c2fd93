//! Which of the recordings that are in progress is meant. There may be several: one of all programs, and some of single processes.

use crate::table::plain;
use anyhow::bail;
use longpole_record::session::{self, Running};
use longpole_record::Runtime;

/// All of them, and where their recorders and programs meet.
pub fn all() -> anyhow::Result<(Vec<Running>, Option<Runtime>)> {
    let path = Runtime::default_path();
    if !path.exists() {
        return Ok((Vec::new(), None));
    }
    let runtime = Runtime::open(&path)?;
    Ok((session::running(&runtime)?, Some(runtime)))
}

/// The one of a process, or whose recorder that is; of nobody: the only one. `none` says what to do where nothing is recorded.
pub fn one(pid: Option<i32>, none: &str) -> anyhow::Result<(Running, Runtime)> {
    let (all, runtime) = all()?;
    let Some(runtime) = runtime.filter(|_| !all.is_empty()) else { bail!("{none}") };
    let meant = |running: &&Running| pid.is_none_or(|pid| running.of == Some(pid) || running.pid == pid);
    let mut found = all.iter().filter(meant);
    match (found.next(), found.next()) {
        (Some(running), None) => Ok((running.clone(), runtime)),
        (Some(_), Some(_)) => bail!("several recordings are in progress; say which one with --pid:{}", list(&all)),
        (None, _) => bail!("no recording of process {} is in progress; there are:{}", pid.unwrap_or_default(), list(&all)),
    }
}

/// What it is now: one with a limit may have gone on to another chunk. None: it has ended.
pub fn again(running: &Running, runtime: &Runtime) -> anyhow::Result<Option<Running>> {
    Ok(session::running(runtime)?.into_iter().find(|now| now.session == running.session))
}

/// What is recorded, in words.
pub fn of(running: &Running) -> String {
    match running.of {
        Some(pid) => format!("process {pid}"),
        None => "all programs that it is to record".to_owned(),
    }
}

fn list(all: &[Running]) -> String {
    all.iter()
        .map(|running| {
            format!("\n  --pid {}  {} ({})", running.of.unwrap_or(running.pid), plain(running.path.display().to_string()), of(running))
        })
        .collect()
}
