//! A snapshot: everything that a running recording holds at one moment, as a recording of its own.
//! The running recording continues.
//!
//! A snapshot is made in two halves. The recorder does what cannot wait: it pauses the kernel's
//! tracer for an instant, copies the contents of overwriting rings, and stores the current lengths
//! of its own files ([`Snapshot`]). The process that requested the snapshot copies these
//! files into it ([`complete`]). They may be gigabytes, and a recorder that copied them would lose
//! events meanwhile.

mod complete;
mod histories;

pub use complete::{complete, Completed};
pub(crate) use histories::{look_back, LookBack};

use crate::chunks::Chunks;
use crate::clock::Clock;
use crate::control::mailbox::Request;
use crate::control::trigger::Cause;
use crate::error::Error;
use crate::output::captures::Captures;
use crate::output::files::Files;
use crate::output::recording_folder::RecordingFolder;
use crate::stacks;
use serde_json::{json, Value};
use std::path::PathBuf;
use std::time::Duration;

/// A snapshot that is being written.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub path: PathBuf,
    /// Descriptor of its folder.
    folder: RecordingFolder,
    /// Captured packets that only overwriting rings hold.
    captures: Captures,
    /// Time of the pause in clock ticks: the snapshot holds nothing later.
    pub paused_at: u64,
    /// Time in clock ticks before which nothing is requested; 0 without a limit.
    window: u64,
    /// Time in clock ticks of the oldest event.
    begin: u64,
    next_lane: u32,
    lanes: Vec<Value>,
    lost: u64,
    recorded: u64,
    pub notes: Vec<String>,
}

/// The recording of which a snapshot is a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded<'a> {
    pub files: &'a Files,
    pub chunks: &'a Chunks,
    pub clock: &'a Clock,
}

impl Snapshot {
    /// Begins a snapshot of a recording in the new folder `path`.
    ///
    /// `paused_at` is the time of the pause, `window` the one before which nothing is requested,
    /// and `begin` that of the oldest event in overwriting rings, all in clock ticks.
    pub fn begin(path: PathBuf, (paused_at, window, begin): (u64, u64, u64), files: &Files) -> Result<Snapshot, Error> {
        // Copied first, because it describes the classes of all events that follow.
        let metadata = path.join("user/metadata");
        std::fs::copy(files.destination.user().join("metadata"), &metadata).map_err(Error::io("write", metadata))?;
        let folder = RecordingFolder::open(&path)?;
        Ok(Snapshot {
            path,
            folder,
            captures: Captures::default(),
            paused_at,
            window,
            begin: begin.max(window),
            next_lane: files.stream_files.next() as u32,
            lanes: Vec::new(),
            lost: 0,
            recorded: 0,
            notes: Vec::new(),
        })
    }

    /// Completes the capture files with the packets of overwriting rings.
    pub fn finish_captures(&mut self, now_ns: u64) {
        let captures = std::mem::take(&mut self.captures);
        let errors = captures.finish_copy(now_ns).into_iter();
        self.notes.extend(errors.map(|error| format!("captured packets are not in it: {error}")));
    }

    /// Contents of the snapshot's `longpole.json`: those of the recording, `description`, and the
    /// entry `snapshot`.
    pub fn describe(
        &self,
        mut description: Value,
        recorded: Recorded<'_>,
        (request, cause): (&Request, Option<Cause>),
        (paused_ns, took): (u64, Duration),
        kernel: Option<Value>,
    ) -> Value {
        let (clock, path) = (recorded.clock, &recorded.files.destination.path);
        let ns = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / u128::from(clock.frequency.max(1))) as u64;
        let start_ns = match self.window {
            0 => recorded.chunks.first_ns(recorded.files.destination.start_ns),
            window => (clock.unix_ns(window).max(0) as u64).max(recorded.chunks.first_ns(recorded.files.destination.start_ns)),
        };
        let mut files: Vec<Value> = Vec::new();
        for lane in description["lanes"].as_array().into_iter().flatten() {
            files.push(json!({ "file": lane["file"], "bytes": lane["bytes"] }));
        }
        for entry in std::fs::read_dir(path.join(stacks::FOLDER)).into_iter().flatten().flatten() {
            let (name, bytes) = (entry.file_name(), entry.metadata().map_or(0, |found| found.len()));
            files.push(json!({ "file": format!("{}/{}", stacks::FOLDER, name.to_string_lossy()), "bytes": bytes }));
        }
        let earlier = recorded.chunks.since(start_ns);
        for capture in recorded.files.captures.iter() {
            let name = capture.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push(json!({ "file": format!("packets/{name}"), "bytes": capture.length() }));
        }
        let interfaces = path.join("packets/interfaces.pcapng");
        if let Ok(found) = std::fs::metadata(interfaces) {
            files.push(json!({ "file": "packets/interfaces.pcapng", "bytes": found.len() }));
        }
        description["start_ns"] = start_ns.into();
        let mut diagnostics = description["diagnostics"].as_array().cloned().unwrap_or_default();
        diagnostics.extend(self.notes.iter().map(|note| json!(note)));
        description["diagnostics"] = diagnostics.into();
        description["loss"]["events"] = self.lost.into();
        if let Some(kernel) = &kernel {
            description["kernel_events"]["recorded_bytes"] = kernel["bytes"].clone();
        }
        description["lanes"] = self.lanes.clone().into();
        description["snapshot"] = json!({
            "of": path,
            "when": request.when,
            "cause": cause.as_ref().map(|cause| &cause.text),
            "event_ns": cause.as_ref().and_then(|cause| cause.event).map(|event| clock.unix_ns(event)),
            "latency_ns": cause.as_ref().map(|cause| {
                let wanted = cause.event.unwrap_or(cause.seen) + clock.ticks(Duration::from_nanos(request.post_ns));
                ns(self.paused_at.saturating_sub(wanted))
            }),
            "frozen_ns": paused_ns,
            "took_ns": took.as_nanos() as u64,
            "pre_ns": request.pre_ns,
            "post_ns": request.post_ns,
            "window": self.window,
            "begin": self.begin,
            "kernel": kernel,
            "earlier": earlier,
            // The process that requested the snapshot copies these files and removes this entry.
            "pending": files,
        });
        description
    }
}
