//! Files and descriptors: an error that names the file, locks that mark a file as in use, files in
//! memory that other programs share, the descriptors that wake the recorder, and the lists of CPUs
//! in sysfs.
//!
//! All other rooms may use this one; it knows none of them.

pub(crate) mod cpus;
pub(crate) mod lock;
pub(crate) mod mapping;
pub(crate) mod wakeups;

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
