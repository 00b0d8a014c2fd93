//! What all rooms need for files: an error that names the file, and locks that mark a file as in
//! use.

pub(crate) mod lock;

use std::io;
use std::path::PathBuf;

/// Failed operation on a file.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {}: {source}", path.display())]
pub struct FileError {
    /// The operation, a verb: `open`.
    pub what: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl FileError {
    /// Returns the conversion of an [`io::Error`] of this operation.
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> FileError {
        let path = path.into();
        move |source| FileError { what, path, source }
    }
}
