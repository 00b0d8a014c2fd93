//! What the parts of a trace say of themselves, for who wants to know what was opened: nothing of it decides how a part is read.

use longpole_ctf::EnvValue;
use std::path::PathBuf;

/// A CTF trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    pub path: PathBuf,
    /// CTF's identity of the trace, as text.
    pub uuid: Option<String>,
    /// What its metadata says of the traced system, in its order.
    pub environment: Vec<(String, EnvValue)>,
    pub clocks: Vec<PartClock>,
}

impl Part {
    /// A text of the environment.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.environment.iter().find(|(key, _)| key == name).and_then(|(_, value)| match value {
            EnvValue::Text(text) if !text.is_empty() => Some(text.as_str()),
            _ => None,
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartClock {
    pub name: String,
    pub description: String,
    pub uuid: Option<String>,
    pub frequency_hz: u64,
    /// Time of its 0 from its origin.
    pub offset_ns: i64,
}

/// What the packets of a stream are, as far as they were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    pub packets: u64,
    /// That are missing between those.
    pub lost: u64,
    /// Of the file.
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
