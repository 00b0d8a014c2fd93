//! The folder of the recording that is being written: its path, its descriptor, its identity and
//! its metadata.
//!
//! A recording with a limit has one destination per chunk; the next chunk replaces this value.

use crate::clock::Clock;
use crate::files::FileError;
use crate::output::metadata::{Metadata, Uuid};
use crate::output::recording;
use crate::output::recording_folder::RecordingFolder;
use std::path::PathBuf;

/// The folder of a recording or chunk.
#[derive(Debug)]
pub(crate) struct Destination {
    /// Path of the folder, for messages and other processes.
    pub path: PathBuf,
    /// Descriptor of the folder.
    pub folder: RecordingFolder,
    pub uuid: Uuid,
    pub metadata: Metadata,
    /// Unix time in ns at which it begins.
    pub start_ns: u64,
}

/// What the metadata says about the recording as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub clock: &'a Clock,
    /// Cost of one event for the thread that writes it, in nanoseconds, if it was measured.
    pub probe_cost_ns: Option<f64>,
    /// Scheduling that the command was granted.
    pub steady: Option<&'a str>,
}

impl Destination {
    /// Begins the recording in the folder `path`, which has `user/` but no metadata yet.
    pub fn begin(path: PathBuf, folder: RecordingFolder, start_ns: u64, facts: Facts<'_>) -> Result<Destination, FileError> {
        let uuid = Uuid::random().map_err(FileError::io("read", "/dev/urandom"))?;
        let env: Vec<(&str, String)> = facts.steady.iter().map(|granted| ("steady", (*granted).to_owned())).collect();
        let user = path.join("user");
        let metadata = Metadata::create(&user, &uuid, facts.clock, &recording::host(), facts.probe_cost_ns, &env)
            .map_err(FileError::io("make", user.join("metadata")))?;
        Ok(Destination { path, folder, uuid, metadata, start_ns })
    }

    /// Updates the path if the folder was moved. Returns the path before. Fails with `NotFound` if
    /// the folder was removed.
    pub fn follow(&mut self) -> Result<Option<PathBuf>, FileError> {
        let moved = self.folder.moved(&self.path).map_err(FileError::io("write", &self.path))?;
        Ok(moved.map(|path| std::mem::replace(&mut self.path, path)))
    }

    /// Folder of the stream files, through the descriptor.
    pub fn user(&self) -> PathBuf {
        self.folder.path().join("user")
    }
}
