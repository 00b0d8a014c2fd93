//! Takes a snapshot of the recording, which continues.

use super::Recorder;
use crate::control::mailbox::Request;
use crate::control::trigger::Cause;
use crate::drain;
use crate::error::Error;
use crate::output::recording;
use crate::snapshot::{look_back, LookBack, Recorded, Snapshot};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A snapshot without the kernel's events and without its description.
struct Copied {
    snapshot: Snapshot,
    path: PathBuf,
    /// The time that the snapshot shows.
    at_ns: u64,
}

impl Recorder {
    /// Takes the snapshot. Returns the answer for the process that requested it: path, recording
    /// and time taken.
    ///
    /// The kernel's tracer pauses while the rings of the programs are copied. It continues also if
    /// the copy fails.
    pub(super) fn snapshot(&mut self, request: &Request, cause: Option<Cause>) -> Result<Value, Error> {
        let begun = Instant::now();
        let pause = self.sources.kernel.pause();
        let copied = self.copy_rings(request, cause.as_ref());
        let took = begun.elapsed();
        let (Copied { snapshot, path, at_ns }, kernel) = match (copied, pause) {
            (Ok(mut copied), Some(pause)) => {
                let Copied { snapshot, path, .. } = &mut copied;
                let entry = self.sources.kernel.resume_after_snapshot(pause, path, &mut snapshot.notes, &mut self.recording.account);
                (copied, Some(entry))
            }
            (Ok(copied), None) => (copied, None),
            (Err(error), pause) => {
                if let Some(pause) = pause {
                    self.sources.kernel.resume(pause, &mut self.recording.account);
                }
                return Err(error);
            }
        };
        let recorded = Recorded { files: &self.recording.files, chunks: &self.chunks, clock: &self.recording.clock };
        let description = snapshot.describe(self.description(Some(at_ns)), recorded, (request, cause), (at_ns, took), kernel);
        recording::describe(&path, &description).map_err(Error::io("write", path.join("longpole.json")))?;
        Ok(json!({ "path": path, "session": self.path(), "took_ns": took.as_nanos() as u64 }))
    }

    /// Copies what the rings of the programs hold into a new folder.
    fn copy_rings(&mut self, request: &Request, cause: Option<&Cause>) -> Result<Copied, Error> {
        let (at, at_ns) = (self.recording.clock.now(), self.recording.now_ns());
        let mut looks = self.look_back();
        self.recording.files.captures.flush(&mut self.recording.account);
        let path = recording::create(&self.snapshot_root(request), at_ns)?;
        let moment = cause.and_then(|cause| cause.event).unwrap_or(at);
        let window = request.pre_ns.map_or(0, |pre| moment.saturating_sub(self.recording.clock.ticks(Duration::from_nanos(pre))));
        let begin = looks.values().flatten().map(|look| look.first).min().unwrap_or(at);
        let mut snapshot = Snapshot::begin(path.clone(), (at, window, begin), &self.recording.files)?;
        let copied = self.try_each(|visit| {
            let looks = looks.remove(&visit.directory.common.stream).unwrap_or_default();
            snapshot.copy_histories(visit.directory, visit.recording, &looks)
        });
        snapshot.finish_captures(at_ns);
        copied?;
        Ok(Copied { snapshot, path, at_ns })
    }

    /// Empties the rings that do not overwrite, and looks at the others. Returns what they hold, by
    /// the stream class of their directory.
    fn look_back(&mut self) -> HashMap<u32, Vec<LookBack>> {
        // Events in rings that do not overwrite are all written to the recording's own files.
        let mut looks = HashMap::new();
        self.each(|visit| {
            visit.visit();
            drain::take_now(visit.directory, visit.recording);
            looks.insert(visit.directory.common.stream, look_back(visit.directory));
            visit.learn_sites();
        });
        looks
    }

    /// Folder in which the snapshot's directory is made.
    fn snapshot_root(&self, request: &Request) -> PathBuf {
        match (&request.output, self.path().parent()) {
            (Some(root), _) => root.clone(),
            (None, Some(parent)) => parent.to_owned(),
            (None, None) => recording::root(),
        }
    }
}
