//! What can be wrong with a format text, a page, a trace.dat file or the kernel's files, and where.

use std::io;
use std::path::PathBuf;

/// A format text that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct FormatError {
    /// Line of the text, from 1; the last one where something is missing.
    pub line: usize,
    /// What is wrong.
    pub kind: FormatErrorKind,
}

/// What can be wrong with a text that describes formats.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatErrorKind {
    /// A line is missing; its begin.
    #[error("no line `{0}`")]
    Missing(&'static str),
    /// A text stands where a number is expected.
    #[error("`{0}` is not a number")]
    Number(String),
    /// A line is no description of a field.
    #[error("`{0}` is no field (`field:TYPE NAME; offset:N; size:N; signed:N;`)")]
    Field(String),
    /// The kernel divides events otherwise than all known ones.
    #[error("a header of {what} {value} is not known")]
    Header {
        /// The part that differs.
        what: &'static str,
        /// Its value.
        value: u64,
    },
}

/// A field that a record does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// The field lies behind the end of the record.
    #[error("the field ends at byte {end}, the record has {have}")]
    BeyondRecord {
        /// End of the field, in bytes from the record's begin.
        end: u64,
        /// Bytes of the record.
        have: usize,
    },
    /// The integer has an unusual size.
    #[error("an integer of {size} bytes is not known")]
    IntegerSize {
        /// Its size in bytes.
        size: u32,
    },
    /// The field has no elements.
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
    /// What is wrong.
    pub kind: PageErrorKind,
}

/// What can be wrong with a page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageErrorKind {
    /// The page is cut.
    #[error("the page has {have} of {need} bytes")]
    Truncated {
        /// Bytes that are needed.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// The page states more events than it has room for.
    #[error("{commit} bytes of events do not fit into the {room} of the page")]
    CommitBeyondPage {
        /// Bytes of events that it states.
        commit: usize,
        /// Bytes of room.
        room: usize,
    },
    /// An event is longer than the rest of the page.
    #[error("the event needs {need} bytes, {have} are left in the page")]
    EventBeyondCommit {
        /// Bytes of the event.
        need: u64,
        /// Bytes that are left.
        have: usize,
    },
    /// An event has a length that none can have.
    #[error("an event of {length} bytes cannot be")]
    EventLength {
        /// The length.
        length: u32,
    },
    /// A time lies outside of what its neighbours allow.
    #[error("the time {time} cannot be: what is around it says {earliest} to {latest}")]
    Time {
        /// The time.
        time: u64,
        /// Earliest time that is possible.
        earliest: u64,
        /// Latest time that is possible.
        latest: u64,
    },
    /// More events are said to be lost than can be.
    #[error("{count} lost events cannot be: at most {most} are missing")]
    Lost {
        /// Number of lost events.
        count: u64,
        /// Most that are possible.
        most: u64,
    },
    /// The input cannot be read.
    #[error("reading failed: {0}")]
    Io(String),
}

/// A trace.dat file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("at byte {offset}: {kind}")]
pub struct DatError {
    /// Offset in the file, or in the decompressed section where the section is compressed.
    pub offset: u64,
    /// What is wrong.
    pub kind: DatErrorKind,
}

/// What can be wrong with a trace.dat file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatErrorKind {
    /// The file cannot be read.
    #[error("cannot read: {0}")]
    Io(#[source] io::Error),
    /// The file is of another format.
    #[error("this is no trace.dat file")]
    NotADat,
    /// The version is not known.
    #[error("version {0:?} of trace.dat is not known (6 and 7 are)")]
    Version(String),
    /// The byte order, or the size of `long`, is not known.
    #[error("byte order {0} or long size is not known")]
    Head(u8),
    /// The file is cut.
    #[error("the file ends here, {need} bytes more are needed")]
    Truncated {
        /// Bytes that are missing.
        need: u64,
    },
    /// Something else stands where a text is expected.
    #[error("`{expected}` is expected here")]
    Expected {
        /// The text.
        expected: &'static str,
    },
    /// A part is longer than is accepted.
    #[error("a part of {length} bytes is longer than the {limit} that are accepted")]
    TooLong {
        /// Its length.
        length: u64,
        /// Most that is accepted.
        limit: u64,
    },
    /// The compression method is not built in; its name.
    #[error("the file is compressed by {0}, which is not built in; `trace-cmd convert --compression none -i FILE -o NEW` decompresses it")]
    Compression(String),
    /// Compressed data cannot be decompressed; why.
    #[error("the compressed data is damaged: {0}")]
    Damaged(String),
    /// A section is of another kind.
    #[error("a section of kind {expected} is expected, this is kind {found}")]
    Section {
        /// Kind that is expected.
        expected: u16,
        /// Kind that is there.
        found: u16,
    },
    /// Several options lead to one section.
    #[error("several options lead to one section")]
    Loop,
    /// An option is too short.
    #[error("option {id} has {length} bytes, too few")]
    Option {
        /// Id of the option.
        id: u16,
        /// Its bytes.
        length: usize,
    },
    /// The format of an event cannot be read.
    #[error("{what}: {error}")]
    Format {
        /// What it describes.
        what: String,
        /// What is wrong with it.
        error: FormatError,
    },
    /// Two CPUs have the same data.
    #[error("the data of cpu {cpu} is also that of another cpu")]
    Shared {
        /// Number of the second one.
        cpu: u32,
    },
    /// A buffer has a CPU twice.
    #[error("a buffer has data of cpu {cpu} twice")]
    Twice {
        /// Number of the CPU.
        cpu: u32,
    },
    /// The caller asked for data that is not there.
    #[error("there is no buffer {buffer} or no data of its cpu {cpu}")]
    NoSuchStream {
        /// Index of the buffer.
        buffer: usize,
        /// Number of the CPU.
        cpu: u32,
    },
}

/// A failure in the kernel's tracing files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceFsError {
    /// tracefs is not mounted.
    #[error("tracefs is not mounted; as root: mount -t tracefs nodev /sys/kernel/tracing")]
    NotMounted,
    /// The user may not use a file.
    #[error("{path} may not be used by this user; run as root, or let root give it to this user: mount -o remount,uid=USER,mode=700 /sys/kernel/tracing")]
    NoPermission {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be used.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The kernel refused a text; `said` is what its error log says about it, a caret under the place.
    #[error("the kernel refuses `{text}` for {path}: {error}{}", said_note(.said))]
    Refused {
        /// The file.
        path: PathBuf,
        /// The text.
        text: String,
        /// The system's error.
        error: io::Error,
        /// The kernel's own explanation; may be empty.
        said: String,
    },
    /// The kernel has no such event.
    #[error("there is no event {0}")]
    NoSuchEvent(String),
    /// The kernel has none of the clocks.
    #[error("this kernel has none of the clocks {wanted}; it has {has}")]
    NoClock {
        /// The clocks, in the order of preference.
        wanted: String,
        /// The clocks of this kernel.
        has: String,
    },
    /// A description of a format cannot be read.
    #[error("{path}: {error}")]
    Format {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        error: FormatError,
    },
    /// A line of a CPU's statistics cannot be read.
    #[error("{path}: `{line}` is not understood")]
    Stats {
        /// The file.
        path: PathBuf,
        /// The line.
        line: String,
    },
}

fn said_note(said: &str) -> String {
    if said.is_empty() {
        String::new()
    } else {
        format!("\n{said}")
    }
}
