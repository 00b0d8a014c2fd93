//! Descriptions that CTF traces contain, which are shown to users. Of them only the clocks affect
//! reading: traces with one clock are shifted to one offset (`merge/common_clock.rs`).

use longpole_ctf::EnvValue;
use std::path::PathBuf;

/// Description of a CTF trace, which may be one of several that are read as one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CtfTrace {
    /// Directory of the trace.
    pub path: PathBuf,
    /// CTF's identifier of the trace, as text.
    pub uuid: Option<String>,
    /// Environment of the traced system, in the order of the metadata.
    pub environment: Vec<(String, EnvValue)>,
    pub clocks: Vec<CtfClock>,
}

impl CtfTrace {
    /// Returns a text of the environment, unless it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.environment.iter().find(|(key, _)| key == name).and_then(|(_, value)| match value {
            EnvValue::Text(text) if !text.is_empty() => Some(text.as_str()),
            _ => None,
        })
    }
}

/// Description of a clock in the metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CtfClock {
    pub name: String,
    pub description: String,
    /// CTF's identifier of the clock, as text. Traces with the same clock have the same identifier.
    pub uuid: Option<String>,
    pub frequency_hz: u64,
    /// Time of the clock's value 0, in ns since its origin.
    pub offset_ns: i64,
}

/// Counts of a stream's packets, up to where the stream was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    pub packets: u64,
    /// Number of packets that are missing between those.
    pub lost: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
}

pub(crate) fn uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
