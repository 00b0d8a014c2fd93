//! Takes up processes as they come, tells each of them what to record, and lets them go.
//!
//! A [`Visit`] is one runtime directory during a turn, with the recording and the state that taking
//! up processes needs ([`Intake`]). It works on the whole directory: `scan` finds new processes,
//! `admit` takes one up, `visit` writes orders and takes up new rings, `tidy` removes what dead
//! processes left, `reap` lets go of processes that have ended. An [`Attach`] is the same for a
//! single process: `claim` decides which recorder has it, `rings` opens its rings. All directories
//! together are in `directories`.

mod admit;
mod claim;
pub(crate) mod directories;
mod reap;
mod rings;
mod scan;
mod tidy;
mod visit;

use crate::drain::Drain;
use crate::files::wakeups::Wakeups;
use crate::recording::Recording;
use crate::recovery::KilledRecording;
use crate::runtime_dir::foreign::Search;
use crate::subjects::directory::{DirectoryState, RecordedRuntimeDir};
use crate::subjects::Subject;
use std::collections::HashMap;
use std::time::Instant;

/// State of taking up processes that all runtime directories share.
#[derive(Debug)]
pub(crate) struct Intake {
    pub wakeups: Wakeups,
    /// Facts about all processes of the host, for the directories of other users.
    pub search: Search,
    /// Recording of a killed recorder that is being recovered; only during the start.
    pub predecessor: Option<KilledRecording>,
    /// Time at which the newest process appeared.
    pub newest: Instant,
    /// True if the runtime directories must be listed in the next turn.
    pub list_again: bool,
    /// True if some process may have ended.
    pub deaths: bool,
}

/// One runtime directory during a turn.
#[derive(Debug)]
pub(crate) struct Visit<'a> {
    pub directory: &'a mut RecordedRuntimeDir,
    pub recording: &'a mut Recording,
    pub intake: &'a mut Intake,
}

/// What taking up or letting go of one process needs.
#[derive(Debug)]
struct Attach<'a> {
    common: &'a mut DirectoryState,
    recording: &'a mut Recording,
    intake: &'a mut Intake,
}

impl Intake {
    /// Returns whether the directories must be listed and whether some process may have ended,
    /// since the last call.
    pub fn take_reports(&mut self) -> (bool, bool) {
        (std::mem::take(&mut self.list_again), std::mem::take(&mut self.deaths))
    }
}

impl Visit<'_> {
    /// The processes, and what handling one of them needs.
    fn processes(&mut self) -> (&mut HashMap<String, Subject>, Attach<'_>) {
        let RecordedRuntimeDir { common, processes, .. } = &mut *self.directory;
        (processes, Attach { common, recording: self.recording, intake: self.intake })
    }

    /// Reads new event classes into the metadata.
    pub fn learn_sites(&mut self) {
        self.directory.common.learn_sites(&mut self.recording.files.destination.metadata, &mut self.recording.account);
    }
}

impl Attach<'_> {
    fn drain(&mut self) -> Drain<'_> {
        Drain { common: self.common, recording: self.recording }
    }
}
