//! A runtime directory that is being recorded, with its processes.
//!
//! There is the user's own directory. A recorder that runs as root also records the directories of
//! other users and of mount namespaces in which programs have a `/dev/shm` of their own (see
//! [`crate::runtime_dir::foreign`]). Each directory has its own site table, so the same class id
//! has another meaning in each. Therefore the events of each directory have a stream class of their
//! own. All stream classes are in one metadata file, so `user/` is one trace.

use crate::error::Error;
use crate::files::wakeups::{Wakeup, Wakeups};
use crate::output::account::Account;
use crate::output::metadata::Metadata;
use crate::ring::class::Classes;
use crate::ring::sites::Sites;
use crate::runtime_dir::foreign::Identity;
use crate::runtime_dir::session::{HeldSession, Responsibility};
use crate::runtime_dir::{Entry, RuntimeDir, CONTROL};
use crate::subjects::Subject;
use rustix::fs::inotify;
use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

/// Limit of the number of waiting names.
const MAX_REPORTED: usize = 1 << 16;

/// A runtime directory that is being recorded.
#[derive(Debug)]
pub(crate) struct RecordedRuntimeDir {
    pub common: DirectoryState,
    /// The processes, by the stem of their file names.
    pub processes: HashMap<String, Subject>,
    pub arrivals: Arrivals,
}

/// What all processes of a runtime directory have in common.
#[derive(Debug)]
pub(crate) struct DirectoryState {
    pub runtime: RuntimeDir,
    pub held: HeldSession,
    /// Number of the CTF stream class of its streams.
    pub stream: u32,
    /// Identity of the directory; `None` for the recorder's own directory.
    pub foreign_identity: Option<Identity>,
    /// Event classes of the site table.
    pub classes: Classes,
    pub sites: Option<Sites>,
}

/// Control files of a runtime directory that are not taken up yet.
#[derive(Debug)]
pub(crate) struct Arrivals {
    watch: Option<OwnedFd>,
    /// Names of control files that the watch has reported and that have not been looked at.
    pub reported: Vec<String>,
    /// True if reports were lost or too many, so that the whole directory must be listed.
    pub missed: bool,
    /// Stems of control files whose processes cannot be identified from this namespace; their files
    /// are left alone.
    pub unknown: HashSet<String>,
    /// Number of looks at each control file that had two names, by stem.
    pub awaiting_final_name: HashMap<String, u32>,
}

impl RecordedRuntimeDir {
    pub fn new(
        runtime: RuntimeDir,
        held: HeldSession,
        stream: u32,
        foreign_identity: Option<Identity>,
        wakeups: &Wakeups,
    ) -> RecordedRuntimeDir {
        let watch = watch(&runtime);
        if let Some(watch) = &watch {
            let _ = wakeups.watch(watch, Wakeup::Directory);
        }
        RecordedRuntimeDir {
            common: DirectoryState { runtime, held, stream, foreign_identity, classes: Classes::new(), sites: None },
            processes: HashMap::new(),
            arrivals: Arrivals { watch, reported: Vec::new(), missed: false, unknown: HashSet::new(), awaiting_final_name: HashMap::new() },
        }
    }

    /// Returns whether a control file with this stem is to be looked at.
    pub fn is_new(&self, stem: &str) -> bool {
        !self.processes.contains_key(stem) && !self.arrivals.unknown.contains(stem)
    }

    /// Marks the processes that have ended. Must run before their rings are listed and looked at;
    /// then the rings found are complete.
    pub fn mark_dead(&mut self) {
        for subject in self.processes.values_mut() {
            subject.ended |= !subject.process.handle_lives();
        }
    }

    /// Makes the rings' next packets open new lanes in the next chunk.
    pub fn leave_lanes(&mut self) {
        for source in self.processes.values_mut().flat_map(|subject| &mut subject.rings) {
            source.lane = None;
            source.ring.layout().lane.store(0, Ordering::Relaxed);
            if let Some(larger) = source.larger() {
                larger.layout().lane.store(0, Ordering::Relaxed);
            }
        }
    }
}

impl DirectoryState {
    /// Returns whether this recorder gives orders only to a single process or to the processes of
    /// its command.
    pub fn is_alone(&self) -> bool {
        self.held.responsibility() != Responsibility::All
    }

    /// The files of the directory, by name.
    pub fn entries(&self) -> Result<Vec<(String, Entry)>, Error> {
        self.runtime.entries().map_err(Error::io("list", self.runtime.path()))
    }

    /// Marks the recording as complete, so that no later recorder tries to recover it.
    pub fn mark_finished(&self) {
        self.held.mark_finished(&self.runtime);
    }

    /// Reads new event classes into the metadata. Must run before a packet is written that uses
    /// them.
    pub fn learn_sites(&mut self, metadata: &mut Metadata, account: &mut Account) {
        if self.sites.is_none() {
            match Sites::open(&self.runtime) {
                Ok(sites) => self.sites = sites,
                Err(error) => account.note(format!("the site table cannot be read: {error}")),
            }
        }
        let Some(sites) = &mut self.sites else { return };
        let mut text = String::new();
        let mut complaints = Vec::new();
        sites.update(self.stream, &mut self.classes, &mut text, &mut complaints);
        for complaint in complaints {
            account.note(complaint);
        }
        if !text.is_empty() || metadata.is_behind() {
            if let Err(error) = metadata.append(&text) {
                account.note(format!("the metadata cannot be extended: {error}"));
            }
        }
    }

    /// Describes all classes again, in the metadata of a new chunk.
    pub fn describe_again(&mut self, metadata: &mut Metadata, account: &mut Account) {
        if self.sites.as_ref().is_some_and(|sites| sites.is_second) {
            // The classes of the replaced table are in no file any more.
            self.classes = Classes::new();
            self.classes.invalid = true;
        }
        self.sites = Sites::open(&self.runtime).ok().flatten();
        if self.stream > 0 {
            let mut text = String::new();
            crate::output::metadata::further_runtime_directory(&mut text, self.stream);
            let _ = metadata.append(&text);
        }
        self.learn_sites(metadata, account);
    }
}

impl Arrivals {
    /// Returns whether reports are missing since the last call.
    pub fn take_missed(&mut self) -> bool {
        std::mem::take(&mut self.missed)
    }

    /// Reads the reports of the directory watch. Only control files count; the number of rings is
    /// in the control file.
    pub fn read_reports(&mut self) {
        let Some(watch) = &self.watch else { return };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(watch, &mut buffer);
        while let Ok(event) = reader.next() {
            self.missed |= event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) || self.reported.len() >= MAX_REPORTED;
            let name = event.file_name().and_then(|name| name.to_str().ok());
            if let Some(name) = name.filter(|name| name.ends_with(CONTROL) && self.reported.len() < MAX_REPORTED) {
                self.reported.push(name.to_owned());
            }
        }
    }
}

fn watch(runtime: &RuntimeDir) -> Option<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).ok()?;
    // In another mount namespace the path may denote another directory; the descriptor does not.
    let path = format!("/proc/self/fd/{}", runtime.directory().as_raw_fd());
    inotify::add_watch(&watch, path, inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO).ok()?;
    Some(watch)
}
