//! Finds out what could be recorded from this kernel, without recording anything.

use super::groups::Group;
use super::plan::{choose, clock, Request};
use crate::clock::ClockSource;
use longpole_ftrace::TraceFsError;
use std::path::PathBuf;

/// What can be recorded on this host.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Path of the tracer's folder; `None` if tracefs is not mounted, so that each recorder mounts
    /// it for itself.
    pub path: Option<PathBuf>,
    pub clock: &'static str,
    /// Groups of which this kernel has at least one event.
    pub groups: Vec<Group>,
    /// Groups of which this kernel has no event.
    pub absent: Vec<Group>,
}

/// Reason why nothing can be recorded, with the remedy.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub what: String,
    pub remedy: String,
}

/// Looks at the tracer and changes nothing.
pub fn survey() -> Result<Survey, Trouble> {
    let tracefs = super::available().map_err(trouble)?;
    let clock = clock(&tracefs.read("trace_clock").map_err(trouble)?, ClockSource::choose())
        .map_err(|error| Trouble { what: error.to_string(), remedy: "run a kernel from 3.17 on".to_owned() })?;
    let events = tracefs.events().map_err(trouble)?;
    let has = |group: &Group| {
        let request = Request { groups: vec![*group], ..Request::default() };
        let without = choose(&Request::default(), &events).wanted.len();
        choose(&request, &events).wanted.len() > without
    };
    let (groups, absent) = Group::ALL.into_iter().partition(has);
    let path = if tracefs.is_private() { None } else { Some(tracefs.path().to_owned()) };
    Ok(Survey { path, clock: clock.0, groups, absent })
}

fn trouble(error: TraceFsError) -> Trouble {
    let (what, remedy) = match &error {
        TraceFsError::NotMounted => ("tracefs is not mounted".to_owned(), "as root: mount -t tracefs nodev /sys/kernel/tracing".to_owned()),
        TraceFsError::MountRefused { error } => (
            format!("tracefs is not mounted, and the kernel refuses to mount it for this process ({error})"),
            "as root: mount -t tracefs nodev /sys/kernel/tracing".to_owned(),
        ),
        TraceFsError::NoPermission { path } => (
            format!("{} may not be used by this user", path.display()),
            "run as root, or as root: mount -o remount,uid=USER,mode=700 /sys/kernel/tracing (the number of one user; that user then sees the events of the whole host)".to_owned(),
        ),
        other => (other.to_string(), "run a kernel with CONFIG_EVENT_TRACING, as root".to_owned()),
    };
    Trouble { what, remedy }
}
