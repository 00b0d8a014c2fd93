//! Diagnostics: what metadata contain that the specification does not allow, and that is read
//! nevertheless because nothing is lost by it.
//!
//! A reader that must refuse such metadata returns [`Diagnostic::error`] as its error. Example:
//! metadata whose file was preallocated end with bytes of 0; the text before them is complete.

use std::fmt;

use crate::error::MetadataError;

/// A deviation from the specification that does not change what the metadata mean.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diagnostic {
    /// Kind of the deviation.
    pub kind: DiagnosticKind,
    /// Byte of the metadata file at which it is found first.
    pub byte: u64,
    /// Number of places at which it is found.
    pub times: u64,
    /// The same as an error, with the line of the first place.
    pub error: MetadataError,
}

/// The kinds of deviations that are accepted in metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiagnosticKind {
    /// Bytes behind the last packet of the metadata: fewer than a packet's header has, or only
    /// zeros.
    TrailingBytes {
        /// Number of bytes.
        bytes: u64,
    },
    /// A word or form of a release candidate of CTF 2 (CTF2-SPECRC), which early tools wrote.
    Draft {
        /// Name in the release candidate.
        found: &'static str,
        /// Name in CTF2-SPEC-2.0, as which it is read.
        read_as: &'static str,
    },
}

impl fmt::Display for DiagnosticKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiagnosticKind::TrailingBytes { bytes: 1 } => write!(f, "1 byte follows the last packet of the metadata"),
            DiagnosticKind::TrailingBytes { bytes } => write!(f, "{bytes} bytes follow the last packet of the metadata"),
            DiagnosticKind::Draft { found, read_as } => write!(f, "{found} is of a draft of CTF 2; it is read as {read_as}"),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.byte, self.kind)?;
        match self.times {
            1 => Ok(()),
            times => write!(f, "; {times} times in these metadata"),
        }
    }
}
