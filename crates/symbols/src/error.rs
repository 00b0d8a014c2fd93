//! Errors.

use std::io;
use std::path::PathBuf;

/// Reason why a recording could not be completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompleteError {
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("another process records or completes {}", path.display())]
    Busy { path: PathBuf },
    #[error(transparent)]
    Trace(#[from] longpole_trace::Error),
}

impl CompleteError {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> CompleteError {
        let path = path.into();
        move |source| CompleteError::Io { what, path, source }
    }
}
