//! Begins the next chunk of a recording with a limited size or age.

use super::sources::Target;
use super::Recorder;
use crate::chunks::{ChunkBytes, Step};
use crate::drain;
use crate::error::Error;
use crate::output::destination::{Destination, Facts};
use crate::output::files::Files;
use crate::output::recording::{self, Reserve};
use crate::output::recording_folder::RecordingFolder;
use crate::output::stream_files::StreamFiles;
use crate::recording::Recording;
use std::path::{Path, PathBuf};

impl Recorder {
    /// Starts a new chunk if the current one is large or old enough, and deletes the oldest ones
    /// beyond the limit.
    pub(super) fn rotate_if_due(&mut self) {
        let Recording { files, account, .. } = &self.recording;
        let written = ChunkBytes { streams: account.totals.written, kernel: self.sources.kernel.bytes(), captures: files.captures.bytes() };
        match self.chunks.step(&files.destination.path, written) {
            Step::Continue => return,
            Step::Empty => {}
            Step::Rotate => {
                if let Err(error) = self.rotate() {
                    self.recording.note(format!("cannot begin a new chunk: {error}"));
                    self.chunks.retry(&self.recording.account.totals);
                }
            }
        }
        let directories = &self.directories;
        let classes = || directories.iter().map(|directory| (directory.common.stream, directory.common.classes.clone())).collect();
        for diagnostic in self.chunks.remove_oldest(self.recording.now_ns(), classes) {
            self.recording.note(diagnostic);
        }
    }

    /// Starts a new chunk now. Returns the path of the one before, which is complete and belongs to
    /// the caller: the recorder never removes it. Its pages of the kernel are not converted yet.
    pub fn next_chunk(&mut self) -> Result<PathBuf, Error> {
        let complete = self.path().to_owned();
        self.rotate()?;
        self.chunks.give_away(&complete);
        Ok(complete)
    }

    fn rotate(&mut self) -> Result<(), Error> {
        let now = self.recording.now_ns();
        let root = self.path().parent().map_or_else(recording::root, Path::to_owned);
        let path = recording::create(&root, now)?;
        let next = self.next_destination(path, now)?;
        self.end_chunk(now);
        let Recorder { recording, sources, .. } = self;
        let restart = sources.rotate(&next.path, &recording.clock, &mut recording.account);
        recording.files.reserve.remove();
        if let Err(error) = self.describe(Some(now)) {
            self.recording.note(error.to_string());
        }
        let Recorder { recording, sources, .. } = self;
        let old = std::mem::replace(&mut recording.files.destination, next);
        let target = Target { destination: &recording.files.destination, clock: &recording.clock };
        sources.restart(restart, target, (&recording.rules.options, &recording.rules.config), &mut recording.account);
        recording.files.reserve = Reserve::make(&recording.files.destination.folder.path());
        recording.files.stream_files = StreamFiles::default();
        if let Err(diagnostic) = self.requests.move_to(&old.path, &recording.files.destination.path) {
            recording.note(diagnostic);
        }
        self.each(|visit| {
            let Recording { files, account, .. } = &mut *visit.recording;
            visit.directory.common.describe_again(&mut files.destination.metadata, account);
        });
        self.chunks.ended(old.path, (old.start_ns, now), &self.recording.account.totals, self.sources.kernel.bytes());
        let path = self.path().to_owned();
        self.each(|visit| visit.directory.common.held.set_path(&path));
        self.chunks.announce(&path);
        self.describe(None)
    }

    /// Makes the files of the next chunk that exist from its begin.
    fn next_destination(&self, path: PathBuf, now: u64) -> Result<Destination, Error> {
        let folder = RecordingFolder::open(&path)?;
        let steady = self.command.granted();
        let clock = &self.recording.clock;
        let facts = Facts { clock, probe_cost_ns: self.recording.rules.options.probe_cost_ns, steady: steady.as_deref() };
        Ok(Destination::begin(path.clone(), folder, now, facts).inspect_err(|_| {
            let _ = std::fs::remove_dir_all(&path);
        })?)
    }

    /// Empties every ring into the chunk, and closes the chunk's files.
    fn end_chunk(&mut self, now: u64) {
        self.each(|visit| {
            visit.visit();
            drain::take_now(visit.directory, visit.recording);
            visit.directory.leave_lanes();
        });
        self.write_outputs(true);
        self.command.outputs.leave_lanes();
        let Recording { files: Files { stream_files, captures, .. }, account, .. } = &mut self.recording;
        stream_files.close_all().into_iter().for_each(|diagnostic| account.note(diagnostic));
        std::mem::take(captures).finish(now, None, account);
    }
}
