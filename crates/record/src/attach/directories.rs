//! All runtime directories that are being recorded: the recorder's own, and, as root, those of
//! other users and mount namespaces.
//!
//! A search once a second, and whenever the watch reports something, finds the directories of the
//! processes that are to be recorded. Directories whose processes are gone are left.

use super::{Intake, Visit};
use crate::control::options::Scope;
use crate::error::Error;
use crate::files::wakeups::Wakeups;
use crate::output::metadata;
use crate::recording::Recording;
use crate::runtime_dir::claim;
use crate::runtime_dir::foreign::{identity_of, open, path_for, Descent, Found};
use crate::runtime_dir::watch::RuntimeWatch;
use crate::runtime_dir::RuntimeDir;
use crate::subjects::directory::RecordedRuntimeDir;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Limit of the number of other directories.
const MAX_DIRECTORIES: usize = 256;

/// The runtime directories that are being recorded.
#[derive(Debug)]
pub(crate) struct Directories {
    /// The recorder's own directory, which is always there, and then the others.
    all: Vec<RecordedRuntimeDir>,
    /// Watch of other users' runtime directories; `None` if they are not recorded.
    watch: Option<RuntimeWatch>,
    /// Number of the newest CTF stream class.
    streams: u32,
}

impl Directories {
    pub fn new(own: RecordedRuntimeDir) -> Directories {
        Directories { all: vec![own], watch: None, streams: 0 }
    }

    /// The recorder's own directory.
    pub fn own(&self) -> &RecordedRuntimeDir {
        &self.all[0]
    }

    fn others(&self) -> impl Iterator<Item = &RecordedRuntimeDir> {
        self.all.iter().skip(1)
    }

    pub fn iter(&self) -> impl Iterator<Item = &RecordedRuntimeDir> {
        self.all.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut RecordedRuntimeDir> {
        self.all.iter_mut()
    }

    /// Marks the recording as complete, so that no later recorder tries to recover it.
    pub fn mark_finished(&self) {
        self.all.iter().for_each(|directory| directory.common.mark_finished());
    }

    /// Reads the reports of new control files in all directories.
    pub fn read_reports(&mut self) {
        self.all.iter_mut().for_each(|directory| directory.arrivals.read_reports());
    }

    /// Watches for further directories from now on.
    pub fn watch(&mut self, wakeups: &Wakeups) {
        self.watch = RuntimeWatch::new(wakeups);
    }

    /// Reads the reports about directories of other users.
    pub fn read_reports_of_others(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let taken: Vec<_> = self.all.iter().map(|directory| directory.common.runtime.path()).collect();
        watch.read_reports(|path| taken.iter().any(|other| other.ends_with(path.strip_prefix("/").unwrap_or(path))));
    }

    /// Longest time until the next search; `None` if none is needed.
    pub fn time_until_search(&self, now: Instant) -> Option<Duration> {
        self.watch.as_ref()?.time_until_search(now)
    }

    /// Searches the runtime directories of other users after a process appeared in one of them.
    pub fn search_if_reported(&mut self, recording: &mut Recording, intake: &mut Intake) {
        let began = Instant::now();
        if !self.watch.as_mut().is_some_and(|watch| watch.take_due(began)) {
            return;
        }
        if let Err(error) = self.search(false, recording, intake) {
            recording.note(error.to_string());
        }
        intake.list_again = true;
        if let Some(watch) = &mut self.watch {
            watch.set_next_search(began);
        }
    }

    /// Takes up the runtime directories of other users and mount namespaces, and leaves those whose
    /// processes are gone. `start`: nothing has been recorded yet.
    pub fn search(&mut self, start: bool, recording: &mut Recording, intake: &mut Intake) -> Result<(), Error> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let own = identity_of(&self.own().common.runtime);
        let (name, session) = recording.rules.environment();
        intake.search.look((name, &session));
        let mut descent = recording.rules.ancestor.map(Descent::from);
        let (mut namespaces, mut living) = (HashSet::new(), HashSet::new());
        for (pid, owner, namespace, ours) in intake.search.processes_of_other_directories() {
            let wanted = match recording.rules.options.scope {
                Scope::Everything => true,
                Scope::Process(wanted) => pid == wanted,
                // A process whose parents are gone is recognized by its environment.
                Scope::Descendants => ours || descent.as_mut().is_some_and(|descent| descent.holds(pid)),
            };
            if !wanted {
                continue;
            }
            // All processes of a user in a namespace see the same directory.
            if namespaces.contains(&(namespace, owner)) {
                continue;
            }
            let Some(path) = path_for(pid, owner) else { continue };
            let Some(found) = open(pid, &path, owner) else { continue };
            namespaces.insert((namespace, owner));
            living.insert(found.identity);
            let known =
                Some(found.identity) == own || self.others().any(|directory| directory.common.foreign_identity == Some(found.identity));
            if known || intake.search.refused.contains(&found.identity) {
                continue;
            }
            let (identity, path) = (found.identity, found.path.clone());
            if let Err(error) = self.attach_directory(found, start, recording, intake) {
                let (again, is_known) = match error {
                    Error::Busy { .. } => (true, !intake.search.busy.insert(identity)),
                    _ => (false, !intake.search.refused.insert(identity)),
                };
                if !is_known {
                    let until = if again { " until that recording ends" } else { "" };
                    recording.note(format!(
                        "programs of user {owner} (as process {pid} sees them) are not recorded{until}: {}: {error}",
                        path.display()
                    ));
                }
            }
        }
        // The directory's memory is freed when no process has it open.
        let gone = |directory: &RecordedRuntimeDir| {
            directory.processes.is_empty() && directory.common.foreign_identity.is_some_and(|identity| !living.contains(&identity))
        };
        self.all.retain(|directory| {
            let leave = gone(directory);
            if leave {
                directory.common.mark_finished();
                recording.larger_rings.forget(directory.common.stream);
            }
            !leave
        });
        Ok(())
    }

    fn attach_directory(&mut self, found: Found, start: bool, recording: &mut Recording, intake: &mut Intake) -> Result<(), Error> {
        if self.others().count() >= MAX_DIRECTORIES {
            return Err(Error::Foreign(format!("there are more than {MAX_DIRECTORIES} such directories")));
        }
        let runtime = RuntimeDir::at(found.directory, &found.path, found.owner)?;
        let (held, _) = claim::hold(&runtime, recording.rules.options.scope, recording.rules.session)?;
        self.streams += 1;
        let mut text = String::new();
        metadata::further_runtime_directory(&mut text, self.streams);
        // If the disk does not accept the metadata now, it is written later, and packets wait until
        // then.
        if let Err(error) = recording.files.destination.metadata.append(&text) {
            recording.note(format!("the metadata cannot be extended: {error}"));
        }
        let mut directory = RecordedRuntimeDir::new(runtime, held, self.streams, Some(found.identity), &intake.wakeups);
        let taken = Visit { directory: &mut directory, recording, intake }.tidy();
        directory.common.held.publish(&recording.files.destination.path, &recording.rules.default_order());
        self.all.push(directory);
        intake.list_again |= !start;
        taken
    }
}
