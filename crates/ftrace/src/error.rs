//! Errors of format texts, pages, trace.dat files and the kernel's files, with their positions.

use std::io;
use std::path::PathBuf;

/// A format text that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct FormatError {
    /// Line of the text, from 1; the last line if something is missing.
    pub line: usize,
    /// Kind of the error.
    pub kind: FormatErrorKind,
}

/// The kinds of errors in a text that describes formats.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatErrorKind {
    /// A line is missing; the text with which it begins.
    #[error("no line `{0}`")]
    Missing(&'static str),
    /// There is a text where a number is expected.
    #[error("`{0}` is not a number")]
    Number(String),
    /// A line that is not the description of a field.
    #[error("`{0}` is not a field (`field:TYPE NAME; offset:N; size:N; signed:N;`)")]
    Field(String),
    /// The kernel uses another layout of events than all known kernels.
    #[error("a header of {what} {value} is not known")]
    Header {
        /// The part that differs.
        what: &'static str,
        /// Value of the part that differs.
        value: u64,
    },
}

/// A field that cannot be read from a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// The field ends behind the end of the record.
    #[error("the field ends at byte {end}, the record has {have}")]
    BeyondRecord {
        /// End of the field, in bytes from the record's start.
        end: u64,
        /// Size of the record in bytes.
        have: usize,
    },
    /// The integer has a size other than 1, 2, 4 and 8 bytes.
    #[error("an integer of {size} bytes is not known")]
    IntegerSize {
        /// Size of the integer in bytes.
        size: u32,
    },
    /// The field has no elements.
    #[error("the field is neither a string nor an array")]
    NotAnArray,
}

/// A page that cannot be decoded, or not further.
#[derive(Clone, Debug, thiserror::Error)]
#[error("page {page} at byte {page_offset}, byte {offset} in it: {kind}")]
pub struct PageError {
    /// Index of the page in its stream, from 0.
    pub page: u64,
    /// Byte of the stream at which the page begins.
    pub page_offset: u64,
    /// Offset in the page, in bytes.
    pub offset: usize,
    /// Kind of the error.
    pub kind: PageErrorKind,
}

/// The kinds of errors in a page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageErrorKind {
    /// The page is truncated.
    #[error("the page has {have} of {need} bytes")]
    Truncated {
        /// Number of bytes needed.
        need: usize,
        /// Number of bytes available.
        have: usize,
    },
    /// The page states more bytes of events than fit into it.
    #[error("{commit} bytes of events do not fit into the {room} of the page")]
    CommitBeyondPage {
        /// Number of bytes of events that the page states.
        commit: usize,
        /// Number of bytes that fit into the page.
        room: usize,
    },
    /// An event is longer than the rest of the page.
    #[error("the event needs {need} bytes, {have} are left in the page")]
    EventBeyondCommit {
        /// Size of the event in bytes.
        need: u64,
        /// Number of bytes left.
        have: usize,
    },
    /// The length of an event is impossible.
    #[error("an event of {length} bytes cannot be")]
    EventLength {
        /// The length.
        length: u32,
    },
    /// A time contradicts the times around it.
    #[error("the time {time} is impossible: it must be between {earliest} and {latest}")]
    Time {
        /// The time.
        time: u64,
        /// Earliest time that is possible.
        earliest: u64,
        /// Latest time that is possible.
        latest: u64,
    },
    /// The number of lost events is impossible.
    #[error("{count} lost events cannot be: at most {most} are missing")]
    Lost {
        /// Number of lost events.
        count: u64,
        /// Maximum number that is possible.
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
    /// Offset in the file, or in a decompressed section.
    pub offset: u64,
    /// Kind of the error.
    pub kind: DatErrorKind,
}

/// The kinds of errors in a trace.dat file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatErrorKind {
    /// The file cannot be read.
    #[error("cannot read: {0}")]
    Io(#[source] io::Error),
    /// The file is of another format.
    #[error("this is not a trace.dat file")]
    NotADat,
    /// The version of the format is unknown.
    #[error("version {0:?} of trace.dat is not known (6 and 7 are)")]
    Version(String),
    /// The byte order, or the size of `long`, is unknown.
    #[error("byte order {0} or long size is not known")]
    Head(u8),
    /// The file is truncated.
    #[error("the file ends here, {need} bytes more are needed")]
    Truncated {
        /// Number of missing bytes.
        need: u64,
    },
    /// An expected text is missing.
    #[error("`{expected}` is expected here")]
    Expected {
        /// The text.
        expected: &'static str,
    },
    /// A part is longer than the reader accepts.
    #[error("a part of {length} bytes is longer than the {limit} that are accepted")]
    TooLong {
        /// Length of the part in bytes.
        length: u64,
        /// Maximum length that is accepted.
        limit: u64,
    },
    /// The compression method is not built in; the name of the method.
    #[error("the file is compressed by {0}, which is not built in; `trace-cmd convert --compression none -i FILE -o NEW` decompresses it")]
    Compression(String),
    /// Compressed data cannot be decompressed; the reason.
    #[error("the compressed data is damaged: {0}")]
    Damaged(String),
    /// A section has another kind than expected.
    #[error("a section of kind {expected} is expected, this is kind {found}")]
    Section {
        /// Expected kind.
        expected: u16,
        /// Actual kind.
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
        /// Length of the option in bytes.
        length: usize,
    },
    /// The format of an event cannot be read.
    #[error("{what}: {error}")]
    Format {
        /// Name of the described object.
        what: String,
        /// Error in its text.
        error: FormatError,
    },
    /// The data of two CPUs overlaps.
    #[error("the data of cpu {cpu} is also that of another cpu")]
    Shared {
        /// Number of the second CPU.
        cpu: u32,
    },
    /// A buffer contains a CPU twice.
    #[error("a buffer has data of cpu {cpu} twice")]
    Twice {
        /// Number of the CPU.
        cpu: u32,
    },
    /// The caller requested data that does not exist.
    #[error("there is no buffer {buffer} or no data of its cpu {cpu}")]
    NoSuchStream {
        /// Index of the buffer.
        buffer: usize,
        /// Number of the CPU.
        cpu: u32,
    },
}

/// An error while accessing the kernel's tracing files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceFsError {
    /// tracefs is not mounted.
    #[error("tracefs is not mounted; as root: mount -t tracefs nodev /sys/kernel/tracing")]
    NotMounted,
    /// tracefs is not mounted, and the kernel refused to mount it for this process.
    #[error("tracefs is not mounted, and the kernel refuses to mount it for this process ({error}); as root: mount -t tracefs nodev /sys/kernel/tracing")]
    MountRefused {
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The user has no permission to access a file.
    #[error("{path} may not be used by this user; run as root, or let root give it to this user: mount -o remount,uid=USER,mode=700 /sys/kernel/tracing")]
    NoPermission {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be accessed.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The kernel refused a text. `said` is the entry in its error log, which marks the place with
    /// a caret.
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
    /// The kernel has none of the requested clocks.
    #[error("this kernel has none of the clocks {wanted}; it has {has}")]
    NoClock {
        /// Requested clocks, in the order of preference.
        wanted: String,
        /// Clocks of this kernel.
        has: String,
    },
    /// A text that describes a format cannot be parsed.
    #[error("{path}: {error}")]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// Error in its text.
        error: FormatError,
    },
    /// A line of a CPU's statistics cannot be parsed.
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
