//! Takes up the process of a control file.
//!
//! A control file may be older than this recording, its process may be dead, and its pid may belong
//! to another process or to another namespace. What cannot be seen from here is left alone.

use super::rings::{Rings, MAX_RINGS, MAX_WAITING_TURNS};
use super::Visit;
use crate::files::mapping::Access;
use crate::files::wakeups::Wakeup;
use crate::runtime_dir::foreign::outer_pid;
use crate::runtime_dir::process::Process;
use crate::runtime_dir::ring_name;
use crate::subjects::Subject;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Visit<'_> {
    /// Takes up the process of a control file. `before`: the file existed before this recording.
    /// Returns false if the process is gone and its files have no owner.
    pub(super) fn admit(&mut self, name: &str, stem: &str, pid: i32, rings: &Rings, before: bool) -> bool {
        let mut process = match Process::open(&self.directory.common.runtime, name, stem, pid, Access::Write) {
            Ok(process) => process,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return false,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && self.is_being_named(name, stem) => return true,
            Err(error) => {
                self.recording.note(format!("{name} was ignored: {error}"));
                return false;
            }
        };
        if self.directory.common.foreign_identity.is_some() || self.intake.search.pid_namespaces {
            // In another pid namespace, the process knows itself by another pid.
            match outer_pid(pid, |pid| process.maps_as(pid)) {
                Some(outer) => process.set_pid(outer),
                // A process that has this pid here is a different one.
                None if self.directory.common.foreign_identity.is_some() => process.set_pid(-pid),
                None => {}
            }
        }
        // For an old control file, the process may have ended and its pid may belong to another
        // process. A new process may not have mapped its file yet, so only the pid is checked.
        let lives = if before { process.lives() } else { process.handle_lives() };
        let continued = self
            .intake
            .predecessor
            .as_ref()
            .is_some_and(|predecessor| process.control().orders.session.load(Ordering::Relaxed) == predecessor.session);
        if !lives && before && !continued && self.directory.common.foreign_identity.is_some() {
            // Nothing in this namespace shows if the process is alive.
            self.directory.arrivals.unknown.insert(stem.to_owned());
            return true;
        }
        let strange = self.recording.rules.options.scope.alone().is_some_and(|wanted| wanted != process.pid);
        if !lives && !continued && (strange || process.is_taken() || self.processes().1.is_of_another_command(&process)) {
            // The recorder that holds the process takes its last events and removes its files.
            return true;
        }
        if !lives && before && !continued {
            // A recorder of all programs may be running that has not seen this process yet.
            if !self.directory.common.is_alone() {
                drop(process);
                self.remove_files(name, stem, rings);
            }
            return false;
        }
        if before {
            process.forget_refused();
        } else {
            self.intake.newest = Instant::now();
            self.suspect_exec(process.pid);
        }
        if let Some(handle) = &process.handle {
            let _ = self.intake.wakeups.watch_once(handle, Wakeup::Process);
        }
        self.recording.account.totals.processes += 1;
        let mut subject = Subject::new(process, lives);
        let (processes, mut attach) = self.processes();
        attach.decide(&mut subject);
        if attach.claim(&mut subject) {
            attach.take_rings(&mut subject, rings, before, continued);
        }
        processes.insert(stem.to_owned(), subject);
        true
    }

    /// Returns whether a file with two names may soon have only one; the file is then looked at
    /// again.
    fn is_being_named(&mut self, name: &str, stem: &str) -> bool {
        if self.directory.arrivals.awaiting_final_name.len() >= MAX_RINGS {
            return false;
        }
        let looks = self.directory.arrivals.awaiting_final_name.entry(stem.to_owned()).or_insert(0);
        *looks += 1;
        if *looks >= MAX_WAITING_TURNS {
            return false;
        }
        self.directory.arrivals.reported.push(name.to_owned());
        self.intake.newest = Instant::now();
        true
    }

    /// A new control file with the pid of a known process: the known process has executed another
    /// program.
    fn suspect_exec(&mut self, pid: i32) {
        for subject in self.directory.processes.values_mut().filter(|subject| subject.process.pid == pid) {
            subject.ended |= subject.process.maps() == Some(false);
        }
    }

    fn remove_files(&self, control: &str, stem: &str, rings: &Rings) {
        for (own, number) in rings.get(stem).into_iter().flatten() {
            self.directory.common.runtime.remove(&ring_name(stem, *number, *own));
        }
        self.directory.common.runtime.remove(control);
    }
}
