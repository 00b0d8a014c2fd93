//! Errors that prevent or end a recording.

use crate::control::policy::PolicyError;
use crate::files::FileError;
use crate::output::pcap::CaptureError;
use std::io;
use std::path::PathBuf;

/// Error that prevents or ends a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Io(#[from] FileError),
    /// Other users could put files into the runtime directory.
    #[error("{} is not a safe runtime directory: {why}", path.display())]
    Unsafe { path: PathBuf, why: &'static str },
    /// Another recorder of the same kind is running.
    #[error("a recording is running already: {}", first(*pid, path))]
    Busy { pid: i32, path: String },
    /// Another recorder records this process.
    #[error("process {process} is recorded already: {}", first(*pid, path))]
    Taken { process: i32, pid: i32, path: String },
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("a file of the runtime directory is invalid or of another version of Longpole: {0}")]
    Foreign(String),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Kernel(#[from] crate::kernel::KernelError),
    #[error(transparent)]
    Interfaces(#[from] crate::interfaces::InterfaceError),
}

/// Description of the recorder that was first. `pid` 0: a recorder that is starting or ending has
/// not published its identity.
fn first(pid: i32, path: &str) -> String {
    match pid {
        0 => "by a recorder that has not written its process id; it may be starting or ending".to_owned(),
        pid => format!("process {pid} writes {path} (`longpole stop` ends it)"),
    }
}

impl Error {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io(FileError { what, path, source })
    }
}
