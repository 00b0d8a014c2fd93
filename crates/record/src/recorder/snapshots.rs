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

impl Recorder {
    /// Takes the snapshot. Returns the answer for the process that requested it: path, recording
    /// and time taken.
    pub(super) fn snapshot(&mut self, request: &Request, cause: Option<Cause>) -> Result<Value, Error> {
        let begun = Instant::now();
        let kernel = self.sources.kernel.pause();
        let (frozen, frozen_ns) = (self.recording.clock.now(), self.recording.now_ns());
        let mut looks = self.look_back();
        self.recording.files.captures.flush(&mut self.recording.account);
        let path = recording::create(&self.snapshot_root(request), frozen_ns)?;
        let moment = cause.as_ref().and_then(|cause| cause.event).unwrap_or(frozen);
        let window = request.pre_ns.map_or(0, |pre| moment.saturating_sub(self.recording.clock.ticks(Duration::from_nanos(pre))));
        let begin = looks.values().flatten().map(|look| look.first).min().unwrap_or(frozen);
        let mut snapshot = Snapshot::begin(path.clone(), (frozen, window, begin), &self.recording.files)?;
        let copied = self.try_each(|visit| {
            let looks = looks.remove(&visit.directory.common.stream).unwrap_or_default();
            snapshot.copy_histories(visit.directory, visit.recording, &looks)
        });
        snapshot.finish_captures(frozen_ns);
        copied?;
        let took = begun.elapsed();
        let kernel = kernel.map(|kernel| self.sources.kernel.thaw(kernel, &path, &mut snapshot.notes, &mut self.recording.account));
        let recorded = Recorded { files: &self.recording.files, chunks: &self.chunks, clock: &self.recording.clock };
        let told = snapshot.describe(self.description(Some(frozen_ns)), recorded, (request, cause), (frozen_ns, took), kernel);
        recording::describe(&path, &told).map_err(Error::io("write", path.join("longpole.json")))?;
        Ok(json!({ "path": path, "session": self.path(), "took_ns": took.as_nanos() as u64 }))
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
