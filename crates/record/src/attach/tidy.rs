//! Removes the files that dead processes left, and takes up the living ones.

use super::rings::rings_of;
use super::Visit;
use crate::error::Error;
use crate::runtime_dir::session::{self, Responsibility};
use crate::runtime_dir::Entry;

impl Visit<'_> {
    /// Removes files that dead processes left, and takes up the living ones. Runs before any order
    /// is published.
    pub fn tidy(&mut self) -> Result<(), Error> {
        // While no process can start, a control file that its process does not map has no owner. In
        // other users' directories nothing is removed, and no process there may block the recorder.
        // A recorder of a single process does not know whether another recorder uses the remaining
        // files.
        let own = self.directory.common.foreign_identity.is_none() && !self.directory.common.is_alone();
        let quiet =
            if own { self.directory.common.runtime.with_no_process_starting(|| self.directory.common.runtime.entries()) } else { None };
        let done = quiet.is_some();
        if !done && own {
            self.recording.note("the runtime directory stayed locked; stale files were not removed".to_owned());
        }
        let entries = quiet
            .unwrap_or_else(|| self.directory.common.runtime.entries())
            .map_err(Error::io("list", self.directory.common.runtime.path()))?;
        if own {
            session::tidy(&self.directory.common.runtime);
        }
        let rings = rings_of(&entries);
        let mut living = 0;
        let mut stems = Vec::new();
        for (name, entry) in &entries {
            match entry {
                // A living thread may be making its ring now.
                Entry::Temporary if done && !maker_lives(name) => self.directory.common.runtime.remove(name),
                Entry::Control { stem, pid } if self.admit(name, stem, *pid, &rings, true) => {
                    stems.push(stem.clone());
                    living += usize::from(self.directory.processes.get(stem).is_none_or(|subject| !subject.ended));
                }
                _ => {}
            }
        }
        // A ring without a control file has no owner.
        for (name, entry) in &entries {
            if let Entry::Ring { stem, .. } = entry {
                if done && !stems.contains(stem) {
                    self.directory.common.runtime.remove(name);
                }
            }
        }
        if living == 0 && done && self.directory.processes.is_empty() {
            // No process has the site table open, so the ids can start again. Otherwise the
            // programs that are built during a day would use up all ids.
            self.directory.common.runtime.with_no_process_starting(|| {
                let runtime = &self.directory.common.runtime;
                let nobody = runtime.entries().is_ok_and(|all| !all.iter().any(|(_, entry)| matches!(entry, Entry::Control { .. })))
                    && session::running(runtime).is_ok_and(|all| all.iter().all(|running| running.responsibility == Responsibility::All));
                if nobody {
                    self.directory.common.runtime.remove("sites");
                }
            });
        }
        Ok(())
    }
}

/// Returns whether the thread that makes the temporary file `.new-<tid>-<counter>` is alive.
fn maker_lives(name: &str) -> bool {
    let tid = name.strip_prefix(".new-").and_then(|rest| rest.split('-').next()).and_then(|tid| tid.parse::<u32>().ok());
    tid.is_some_and(|tid| std::path::Path::new("/proc").join(tid.to_string()).exists())
}
