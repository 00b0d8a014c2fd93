//! Errors of opening, reading and exporting a trace, with the file in which they occurred.

use std::io;
use std::path::PathBuf;

/// Reason why a trace cannot be opened, read or exported. Each names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A file cannot be created or written.
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// A path holds no trace. `tried` explains why each format does not fit.
    #[error("{} is not a trace: {tried}", path.display())]
    NotATrace { path: PathBuf, tried: String },
    /// A path holds several recordings or other traces next to a recording, and only one can be
    /// opened.
    #[error("{} contains {count} recordings; name one of them, for example {}", path.display(), example.display())]
    SeveralRecordings { path: PathBuf, count: usize, example: PathBuf },
    /// An archive cannot be unpacked. `entry` is the entry at which it failed.
    #[error("{} cannot be unpacked: {what}{}", path.display(), entry.as_deref().map_or(String::new(), |entry| format!(" (in {entry})")))]
    Archive { path: PathBuf, entry: Option<String>, what: String },
    /// The metadata of a CTF trace are invalid.
    #[error("{}", source.in_file(path.display()))]
    Metadata { path: PathBuf, source: longpole_ctf::MetadataError },
    /// The content of a file is invalid. `what` describes the problem.
    #[error("{}: {what}", path.display())]
    Recording { path: PathBuf, what: String },
    /// A packet cannot be encoded in the requested version of CTF.
    #[error("{} cannot be written again: {source}", path.display())]
    Unwritable { path: PathBuf, source: Box<longpole_ctf::write::WriteError> },
    /// The trace is damaged, and [`Damage::IsError`](crate::Damage::IsError) was requested. The
    /// diagnostic is the first damage.
    #[error("{0}")]
    Damaged(Box<crate::diagnostic::Diagnostic>),
    /// A directory or file exceeds a limit of the reader.
    #[error("more than {limit} {what}")]
    TooMany { what: &'static str, limit: usize },
}

impl Error {
    /// Returns true if the message has several lines, because it draws the place in the input.
    pub fn is_multiline(&self) -> bool {
        self.to_string().contains('\n')
    }

    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { path, source }
    }

    pub(crate) fn write(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Write { path, source }
    }

    pub(crate) fn metadata(path: impl Into<PathBuf>) -> impl FnOnce(longpole_ctf::MetadataError) -> Error {
        let path = path.into();
        move |source| Error::Metadata { path, source }
    }
}
