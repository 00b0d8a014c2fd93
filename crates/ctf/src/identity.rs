//! Identity of an object of CTF 2: a trace, a clock, or a class of streams or events.

/// Identifies a CTF 2 object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Namespace of the name.
    pub namespace: Option<String>,
    /// Unique id in the namespace.
    pub uid: Option<String>,
}
