//! Why a trace cannot be opened or read further, with the file at which it happened.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} is no trace: {tried}", path.display())]
    NotATrace { path: PathBuf, tried: String },
    #[error("{} holds {count} recordings; name one, e.g. {}", path.display(), example.display())]
    SeveralRecordings { path: PathBuf, count: usize, example: PathBuf },
    #[error("{} cannot be unpacked: {what}{}", path.display(), entry.as_deref().map_or(String::new(), |entry| format!(" (in {entry})")))]
    Archive { path: PathBuf, entry: Option<String>, what: String },
    #[error("{}", source.in_file(path.display()))]
    Metadata { path: PathBuf, source: longpole_ctf::MetadataError },
    #[error("{}: {what}", path.display())]
    Recording { path: PathBuf, what: String },
    #[error("{} cannot be written anew: {source}", path.display())]
    Unwritable { path: PathBuf, source: Box<longpole_ctf::write::WriteError> },
    #[error("more than {limit} {what}")]
    TooMany { what: &'static str, limit: usize },
}

impl Error {
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
