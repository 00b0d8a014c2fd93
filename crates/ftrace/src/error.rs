//! What can be wrong with a format text, a page, a trace.dat file or the kernel's files, and where.

use std::io;
use std::path::PathBuf;

/// A format text that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct FormatError {
    /// Line of the text, from 1; the last one where something is missing.
    pub line: usize,
    pub kind: FormatErrorKind,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatErrorKind {
    #[error("no line `{0}`")]
    Missing(&'static str),
    #[error("`{0}` is not a number")]
    Number(String),
    #[error("`{0}` is no field (`field:TYPE NAME; offset:N; size:N; signed:N;`)")]
    Field(String),
    #[error("a header of {what} {value} is not known")]
    Header { what: &'static str, value: u64 },
}

/// A field that a record does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    #[error("the field ends at byte {end}, the record has {have}")]
    BeyondRecord { end: u64, have: usize },
    #[error("an integer of {size} bytes is not known")]
    IntegerSize { size: u32 },
    #[error("the field is no string or array")]
    NotAnArray,
}

/// A page that cannot be decoded (further).
#[derive(Clone, Debug, thiserror::Error)]
#[error("page {page} at byte {page_offset}, byte {offset} in it: {kind}")]
pub struct PageError {
    /// Index of the page in its stream, from 0.
    pub page: u64,
    /// Where the page begins in its stream, in bytes.
    pub page_offset: u64,
    /// Where in the page.
    pub offset: usize,
    pub kind: PageErrorKind,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageErrorKind {
    #[error("the page has {have} of {need} bytes")]
    Truncated { need: usize, have: usize },
    #[error("{commit} bytes of events do not fit into the {room} of the page")]
    CommitBeyondPage { commit: usize, room: usize },
    #[error("the event needs {need} bytes, {have} are left in the page")]
    EventBeyondCommit { need: u64, have: usize },
    #[error("an event of {length} bytes cannot be")]
    EventLength { length: u32 },
    #[error("the time {time} cannot be: what is around it says {earliest} to {latest}")]
    Time { time: u64, earliest: u64, latest: u64 },
    #[error("{count} lost events cannot be: at most {most} are missing")]
    Lost { count: u64, most: u64 },
    #[error("reading failed: {0}")]
    Io(String),
}

/// A trace.dat file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("at byte {offset}: {kind}")]
pub struct DatError {
    /// Offset in the file, or in the decompressed section where the section is compressed.
    pub offset: u64,
    pub kind: DatErrorKind,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatErrorKind {
    #[error("cannot read: {0}")]
    Io(#[source] io::Error),
    #[error("this is no trace.dat file")]
    NotADat,
    #[error("version {0:?} of trace.dat is not known (6 and 7 are)")]
    Version(String),
    #[error("byte order {0} or long size is not known")]
    Head(u8),
    #[error("the file ends here, {need} bytes more are needed")]
    Truncated { need: u64 },
    #[error("`{expected}` is expected here")]
    Expected { expected: &'static str },
    #[error("a part of {length} bytes is longer than the {limit} that are accepted")]
    TooLong { length: u64, limit: u64 },
    #[error("the file is compressed by {0}, which is not built in; `trace-cmd convert --compression none -i FILE -o NEW` decompresses it")]
    Compression(String),
    #[error("the compressed data is damaged: {0}")]
    Damaged(String),
    #[error("a section of kind {expected} is expected, this is kind {found}")]
    Section { expected: u16, found: u16 },
    #[error("several options lead to one section")]
    Loop,
    #[error("option {id} has {length} bytes, too few")]
    Option { id: u16, length: usize },
    #[error("{what}: {error}")]
    Format { what: String, error: FormatError },
    #[error("the data of cpu {cpu} is also that of another cpu")]
    Shared { cpu: u32 },
    #[error("a buffer has data of cpu {cpu} twice")]
    Twice { cpu: u32 },
    #[error("there is no buffer {buffer} or no data of its cpu {cpu}")]
    NoSuchStream { buffer: usize, cpu: u32 },
}

/// A failure in the kernel's tracing files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceFsError {
    #[error("tracefs is not mounted; as root: mount -t tracefs nodev /sys/kernel/tracing")]
    NotMounted,
    #[error("{path} may not be used by this user; run as root, or let root give it to this user: mount -o remount,uid=USER,mode=700 /sys/kernel/tracing")]
    NoPermission { path: PathBuf },
    #[error("{path}: {error}")]
    Io {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// The kernel refused a text; `said` is what its error log says about it, a caret under the place.
    #[error("the kernel refuses `{text}` for {path}: {error}{}", said_note(.said))]
    Refused { path: PathBuf, text: String, error: io::Error, said: String },
    #[error("there is no event {0}")]
    NoSuchEvent(String),
    #[error("this kernel has none of the clocks {wanted}; it has {has}")]
    NoClock { wanted: String, has: String },
    #[error("{path}: {error}")]
    Format { path: PathBuf, error: FormatError },
    #[error("{path}: `{line}` is not understood")]
    Stats { path: PathBuf, line: String },
}

fn said_note(said: &str) -> String {
    if said.is_empty() {
        String::new()
    } else {
        format!("\n{said}")
    }
}
