//! The recorder's description of a recording: `longpole.json`.
//!
//! All of its content is optional. A recording whose recorder was killed has an early version of
//! the file or none, and must still be readable; a later recorder may write more. Therefore the
//! streams describe themselves. This file decides only whether a capture is read, the range of the
//! loss for pages of the kernel that are not converted, and whether pids are those of another
//! namespace.

use crate::diagnostic::{Diagnostic, MAX_ERRORS};
use crate::error::Error;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Name of the description in a recording's directory.
pub const FILE_NAME: &str = "longpole.json";

/// Maximum number of bytes of a description. A larger file is refused.
const MAX_BYTES: u64 = 64 << 20;

/// Description of a recording. Unknown keys of the file are ignored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Recording {
    pub host: Option<String>,
    pub kernel: Option<String>,
    pub clock: Clock,
    /// Begin of the recording in ns of Unix time.
    pub start_ns: Option<i64>,
    /// End of the recording in ns; absent while it is being recorded, or if the recorder was
    /// killed.
    pub end_ns: Option<i64>,
    pub sources: Vec<serde_json::Value>,
    pub policies: serde_json::Value,
    pub loss: Losses,
    /// Cost of one probe in ns on the recorded host.
    pub probe_cost_ns: Option<f64>,
    pub version: Option<String>,
    pub command: serde_json::Value,
    /// Process in which the command was started.
    pub command_pid: Option<i32>,
    /// Process of the recorder.
    pub recorder_pid: Option<i32>,
    /// Counts of the stream files in `user/`.
    pub lanes: Vec<Lane>,
    pub interface_packets: Option<InterfacePackets>,
    pub kernel_events: Option<KernelEvents>,
    /// Position in a recording that has a size limit.
    pub chunk: Option<Chunk>,
    /// Trigger of a snapshot, if the recording is one.
    pub snapshot: Option<Snapshot>,
}

/// Number of this chunk of a limited recording, and counts of the chunks that were removed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Chunk {
    /// Number of the chunk.
    pub number: u64,
    pub removed: Removed,
}

/// Counts of the chunks that were removed because of the size limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Removed {
    /// Number of removed chunks.
    pub chunks: u64,
    /// Number of the programs' events.
    pub events: u64,
    /// Number of events that the removed chunks reported as lost.
    pub lost: u64,
    /// Number of the kernel's events; `None` if not all could be counted.
    pub kernel_events: Option<u64>,
    /// End in ns of the newest removed chunk.
    pub until_ns: Option<i64>,
}

/// Snapshot of a recording: what it contains, and why.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Path of the recording of which this is a snapshot.
    pub of: Option<String>,
    /// Condition for which the snapshot waited.
    pub when: Option<String>,
    /// Description of the event that met the condition.
    pub cause: Option<String>,
    /// Time of that event in ns.
    pub event_ns: Option<i64>,
    /// Time in ns at which the recording paused for the snapshot.
    #[serde(rename = "frozen_ns")]
    pub paused_ns: Option<i64>,
    /// Delay in ns of the pause after the requested time.
    pub latency_ns: Option<u64>,
}

/// Description of the kernel's events, if they were recorded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct KernelEvents {
    /// Set if the kernel's events and the probes number threads differently, because they are in
    /// different pid namespaces.
    pub foreign_pids: bool,
    /// Minimum duration of a page fault in ns, if page faults were recorded.
    pub page_fault_ns: Option<f64>,
    /// Packet counters of the kernel, as JSON of any shape.
    pub counters: serde_json::Value,
    /// Events that the groups would have contained if they had been requested by name; `None` if
    /// they were requested by name.
    pub left_out: Option<LeftOut>,
    /// Events that the recorder stopped recording, in the order of time.
    pub switched_off: Vec<SwitchedOff>,
}

/// Events of the recorded groups that are left out by default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LeftOut {
    /// Names of events and system calls, by group.
    pub of: BTreeMap<String, Vec<String>>,
}

/// Events that the recorder stopped recording because more came than could be stored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SwitchedOff {
    /// Description for people.
    pub what: String,
    /// Time in ns from which on these events are missing.
    pub since_ns: Option<i64>,
}

/// Capture of the packets of network interfaces, if there is one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct InterfacePackets {
    pub file: Option<String>,
}

/// Conversion of counter values to Unix time.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Clock {
    /// Name of the clock.
    pub source: Option<String>,
    /// Frequency of the counter.
    pub frequency_hz: Option<u64>,
    /// Unix time in ns of the counter's value 0.
    pub offset_ns: Option<i64>,
    /// Largest difference in ns between the clock and the pairs sampled during the recording.
    pub residual_ns: Option<f64>,
}

/// Losses of the programs' events.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Losses {
    pub events: Option<u64>,
}

/// Counts of the recorder for one stream file of `user/`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Lane {
    /// Path of the file.
    pub file: Option<String>,
    pub label: Option<String>,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    pub thread: Option<String>,
    /// Bytes of events in the file.
    pub recorded_bytes: Option<u64>,
    /// Length of the file in bytes.
    pub bytes: Option<u64>,
    /// Number of events lost.
    pub lost: Option<u64>,
    /// Size in bytes of the largest of the stream's rings that lost events.
    pub lost_ring_bytes: Option<u64>,
}

impl Recording {
    /// Returns true if the capture holds the packets of network interfaces. No program recorded
    /// these packets, so they are in no other stream.
    pub fn is_of_interfaces(&self, capture: &Path) -> bool {
        let file = self.interface_packets.as_ref().and_then(|packets| packets.file.as_deref());
        file.is_some_and(|file| Path::new(file).file_name() == capture.file_name())
    }

    /// Returns diagnostics for files of a finished recording that differ from what the recorder
    /// left.
    pub fn altered(&self, directory: &Path) -> Vec<Diagnostic> {
        if self.end_ns.is_none() {
            return Vec::new();
        }
        let mut out = Vec::new();
        let user = directory.join("user");
        let length = |path: &Path| fs::metadata(path).ok().map(|found| found.len());
        for lane in &self.lanes {
            // The path in the description is not trusted; only its last component is used.
            let Some(name) = lane.file.as_deref().and_then(|file| Path::new(file).file_name()) else { continue };
            let path = user.join(name);
            let found = length(&path);
            match (found, lane.bytes) {
                (Some(found), Some(left)) if found == left => {}
                (Some(_), None) => {}
                (_, left) => out.push(Diagnostic::Altered { path, left: left.unwrap_or(0), found }),
            }
        }
        let metadata = user.join("metadata");
        if !self.lanes.is_empty() && !metadata.exists() {
            out.push(Diagnostic::Altered { path: metadata, left: 0, found: None });
        }
        out.truncate(MAX_ERRORS as usize);
        out
    }

    /// Reads the description in `directory`. Returns `None` if there is none.
    pub fn read(directory: &Path) -> Result<Option<Recording>, Error> {
        let path = directory.join(FILE_NAME);
        let text = match fs::metadata(&path) {
            Ok(found) if !found.is_file() => {
                return Err(Error::Recording { path, what: "it is no regular file".to_owned() });
            }
            Ok(found) if found.len() > MAX_BYTES => {
                return Err(Error::Recording { path, what: format!("{} bytes are too many", found.len()) })
            }
            Ok(_) => fs::read(&path).map_err(Error::io(&path))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::Io { path, source: error }),
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| Error::Recording { path, what: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_with_few_fields_is_read() {
        let read: Recording = serde_json::from_str(r#"{"start_ns":5,"lanes":[{"file":"a-0"}],"future":[1]}"#).unwrap();
        assert_eq!(read.start_ns, Some(5));
        assert_eq!(read.end_ns, None);
        assert_eq!(read.lanes[0].file.as_deref(), Some("a-0"));
        assert_eq!(read.clock, Clock::default());
    }
}
