//! Takes the session file for a recording, unless another recorder already records the process in
//! question.
//!
//! `attach::claim` explains what it means to claim a process. A recorder of a single process does
//! not begin if another one holds that process.

use crate::control::options::Scope;
use crate::error::Error;
use crate::files::mapping::Access;
use crate::runtime_dir::process::Process;
use crate::runtime_dir::session::{self, HeldSession, Responsibility, RunningRecording, Unfinished};
use crate::runtime_dir::{Entry, RuntimeDir};
use std::time::Duration;

/// Number of attempts to wait for a recorder that is just releasing a process.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// The running recording with this number.
pub(crate) fn holder(runtime: &RuntimeDir, number: u64) -> Option<RunningRecording> {
    session::running(runtime).ok()?.into_iter().find(|running| running.session == number)
}

/// Takes the session file for a scope. `number`: the number of the recording.
pub(crate) fn hold(runtime: &RuntimeDir, scope: Scope, number: u64) -> Result<(HeldSession, Option<Unfinished>), Error> {
    match scope {
        Scope::Everything => HeldSession::take(runtime, Responsibility::All),
        Scope::Process(pid) => HeldSession::take(runtime, Responsibility::Process(pid)),
        // With `session`, the recorder also finds programs of the command that do not store its
        // number. With `session-c<number>`, it finds those only through their parents.
        Scope::Descendants => match HeldSession::take(runtime, Responsibility::All) {
            Err(Error::Busy { .. }) => HeldSession::take(runtime, Responsibility::Command(number)),
            other => other,
        },
    }
}

/// Takes the session file for a scope. Fails if another recorder already records the process in
/// question.
pub(crate) fn take(runtime: &RuntimeDir, scope: Scope, number: u64) -> Result<(HeldSession, Option<Unfinished>), Error> {
    let Scope::Process(wanted) = scope else { return hold(runtime, scope, number) };
    let taken = match hold(runtime, scope, number) {
        Err(Error::Busy { pid, path }) => return Err(Error::Taken { process: wanted, pid, path }),
        other => other?,
    };
    match other_recorder(runtime, wanted)? {
        None => Ok(taken),
        Some(running) => {
            taken.0.mark_finished(runtime);
            Err(Error::Taken {
                process: wanted,
                pid: running.as_ref().map_or(0, |running| running.pid),
                path: running.map_or_else(String::new, |running| running.path.display().to_string()),
            })
        }
    }
}

/// Waits a moment for another recorder to release a process. Returns that recorder if it does not;
/// the inner `None` means that it cannot be identified.
fn other_recorder(runtime: &RuntimeDir, wanted: i32) -> Result<Option<Option<RunningRecording>>, Error> {
    let mut number = None;
    for _ in 0..TRIES {
        let entries = runtime.entries().map_err(Error::io("list", runtime.path()))?;
        number = entries.iter().find_map(|(name, entry)| match entry {
            Entry::Control { stem, pid } if *pid == wanted => {
                let process = Process::open(runtime, name, stem, *pid, Access::Read).ok()?;
                process.is_taken().then(|| process.session())
            }
            _ => None,
        });
        if number.is_none() {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(number.map(|number| holder(runtime, number)))
}
