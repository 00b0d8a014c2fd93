//! What the recorder says of its recording: `longpole.json`.
//!
//! Everything in it is optional. A recording whose recorder was killed has an early version of the file or none, and must still
//! be readable; a later recorder may say more. So nothing here decides how streams are read: that the streams say themselves.

use crate::diagnostic::{Diagnostic, MOST_ERRORS};
use crate::error::Error;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

pub const FILE_NAME: &str = "longpole.json";

/// A file larger than this is no description of a recording.
const MOST_BYTES: u64 = 64 << 20;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Recording {
    pub host: Option<String>,
    pub kernel: Option<String>,
    pub clock: Clock,
    pub start_ns: Option<i64>,
    /// Not there while the recording goes on, or when the recorder was killed.
    pub end_ns: Option<i64>,
    pub sources: Vec<serde_json::Value>,
    pub policies: serde_json::Value,
    pub loss: Losses,
    pub probe_cost_ns: Option<f64>,
    pub version: Option<String>,
    pub command: serde_json::Value,
    /// The process in which the command was started.
    pub command_pid: Option<i32>,
    /// The process that recorded.
    pub recorder_pid: Option<i32>,
    pub lanes: Vec<Lane>,
    pub interface_packets: Option<InterfacePackets>,
    pub kernel_events: Option<KernelEvents>,
    /// Of a recording that has a limit.
    pub chunk: Option<Chunk>,
    /// Of a snapshot.
    pub snapshot: Option<Snapshot>,
}

/// Which part of a recording it is, and what those held that were removed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Chunk {
    pub number: u64,
    pub removed: Removed,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Removed {
    pub chunks: u64,
    /// Of programs.
    pub events: u64,
    pub lost: u64,
    /// None: not all could be counted.
    pub kernel_events: Option<u64>,
    pub until_ns: Option<i64>,
}

/// What was frozen, and why.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    pub of: Option<String>,
    pub when: Option<String>,
    pub cause: Option<String>,
    pub event_ns: Option<i64>,
    pub frozen_ns: Option<i64>,
    pub latency_ns: Option<u64>,
}

/// The kernel's events, if they were recorded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct KernelEvents {
    /// They name threads by other numbers than the probes: those of another pid namespace.
    pub foreign_pids: bool,
    /// What a page fault takes at least, where those are recorded.
    pub page_fault_ns: Option<f64>,
    /// What the kernel counted of packets by itself; of any form.
    pub counters: serde_json::Value,
    /// What the groups would hold besides if they had been asked for by name. None: they were.
    pub left_out: Option<LeftOut>,
    /// What was given up while it was recorded, in the order of time.
    pub switched_off: Vec<SwitchedOff>,
}

/// What the default does not record of its groups.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LeftOut {
    /// By group: events, and system calls by their names.
    pub of: BTreeMap<String, Vec<String>>,
}

/// Events that were not recorded any more, since more came than could be stored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SwitchedOff {
    /// For people.
    pub what: String,
    pub since_ns: Option<i64>,
}

/// The packets of network interfaces, if they were captured.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct InterfacePackets {
    pub file: Option<String>,
}

/// How counter values became Unix time.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Clock {
    pub source: Option<String>,
    pub frequency_hz: Option<u64>,
    pub offset_ns: Option<i64>,
    /// Largest difference between the clock and the pairs sampled during the recording.
    pub residual_ns: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Losses {
    pub events: Option<u64>,
}

/// What the recorder counted for one stream file of `user/`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Lane {
    pub file: Option<String>,
    pub label: Option<String>,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    pub thread: Option<String>,
    pub recorded_bytes: Option<u64>,
    /// Length of the file.
    pub bytes: Option<u64>,
    pub lost: Option<u64>,
    /// The largest of its rings that lost events.
    pub lost_ring_bytes: Option<u64>,
}

impl Recording {
    /// Whether a capture holds the packets of interfaces: no program told them, so they are in no other stream.
    pub fn is_of_interfaces(&self, capture: &Path) -> bool {
        let file = self.interface_packets.as_ref().and_then(|packets| packets.file.as_deref());
        file.is_some_and(|file| Path::new(file).file_name() == capture.file_name())
    }

    /// Files of an ended recording that are not as their recorder left them.
    pub fn altered(&self, directory: &Path) -> Vec<Diagnostic> {
        if self.end_ns.is_none() {
            return Vec::new();
        }
        let mut out = Vec::new();
        let user = directory.join("user");
        let length = |path: &Path| fs::metadata(path).ok().map(|found| found.len());
        for lane in &self.lanes {
            // What the description says of a path is not trusted.
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
        out.truncate(MOST_ERRORS as usize);
        out
    }

    /// Reads the description in `directory`; none is no error.
    pub fn read(directory: &Path) -> Result<Option<Recording>, Error> {
        let path = directory.join(FILE_NAME);
        let text = match fs::metadata(&path) {
            Ok(found) if !found.is_file() => {
                return Err(Error::Recording { path, what: "it is no regular file".to_owned() });
            }
            Ok(found) if found.len() > MOST_BYTES => {
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
    fn a_description_that_says_little_is_enough() {
        let read: Recording = serde_json::from_str(r#"{"start_ns":5,"lanes":[{"file":"a-0"}],"future":[1]}"#).unwrap();
        assert_eq!(read.start_ns, Some(5));
        assert_eq!(read.end_ns, None);
        assert_eq!(read.lanes[0].file.as_deref(), Some("a-0"));
        assert_eq!(read.clock, Clock::default());
    }
}
