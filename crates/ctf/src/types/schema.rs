//! The whole content of the metadata: the trace, its clocks, streams and events.

use super::{ByteOrder, StructType};
use crate::clock::Clock;
use crate::identity::Identity;
use std::sync::Arc;

/// A value of the trace's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// An integer.
    Int(i64),
    /// A text.
    Text(String),
}

impl EnvValue {
    /// The integer, or its digits as a text if it does not fit `i64`.
    pub(crate) fn integer(value: i128) -> EnvValue {
        i64::try_from(value).map_or_else(|_| EnvValue::Text(value.to_string()), EnvValue::Int)
    }
}

/// The events of one class: their id, name and fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventClass {
    /// Id in the events' headers.
    pub id: u64,
    /// Name; empty if CTF 2 metadata has none.
    pub name: String,
    /// Identity of the class, in CTF 2.
    pub identity: Identity,
    /// Log level.
    pub loglevel: Option<i64>,
    /// URI of the model (EMF).
    pub model_emf_uri: Option<String>,
    /// Attributes that CTF 2 attaches to the class, as JSON.
    pub attributes: Option<String>,
    /// Type of the context of its events.
    pub context: Option<Arc<StructType>>,
    /// Type of the payload of its events.
    pub payload: Option<Arc<StructType>>,
}

/// The streams of one class: their headers, contexts and event classes.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct StreamClass {
    /// Id in the packets' headers.
    pub id: u64,
    /// Name of the class.
    pub name: Option<String>,
    /// Identity of the class, in CTF 2.
    pub identity: Identity,
    /// Index of the clock of the timestamps, if the metadata states it for the whole class.
    pub clock: Option<usize>,
    /// Type of the packets' contexts.
    pub packet_context: Option<Arc<StructType>>,
    /// Type of the events' headers.
    pub event_header: Option<Arc<StructType>>,
    /// Type of the context that all its events have.
    pub event_context: Option<Arc<StructType>>,
    /// The event classes.
    pub events: Vec<EventClass>,
}

/// Properties that all streams of the trace share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceClass {
    /// UUID of the metadata and of the packets that belong to it.
    pub uuid: Option<[u8; 16]>,
    /// Name of the trace.
    pub name: Option<String>,
    /// Identity of the trace, in CTF 2.
    pub identity: Identity,
    /// Byte order of fields that do not state one.
    pub byte_order: ByteOrder,
    /// Type of the packets' headers.
    pub packet_header: Option<Arc<StructType>>,
    /// Facts about the traced system, in the order of the metadata.
    pub env: Vec<(String, EnvValue)>,
}

impl TraceClass {
    /// A value of the environment.
    pub fn env(&self, name: &str) -> Option<&EnvValue> {
        self.env.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// A text of the environment.
    pub fn env_text(&self, name: &str) -> Option<&str> {
        match self.env(name) {
            Some(EnvValue::Text(text)) => Some(text),
            _ => None,
        }
    }
}

/// Version of the metadata language, which decides the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// CTF 1.8: names decide the roles of the fields of packets and event headers, and one leading
    /// underscore of a name is not shown.
    #[default]
    V1_8,
    /// CTF 2: the metadata states the roles, and names are shown unchanged.
    V2,
}

/// The whole content of the metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// Version of the format.
    pub version: Version,
    /// Properties that all streams share.
    pub trace: TraceClass,
    /// The clocks.
    pub clocks: Vec<Clock>,
    /// The stream classes.
    pub streams: Vec<StreamClass>,
}
