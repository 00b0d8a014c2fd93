//! The folder of files that exist only while a trace is read.
//!
//! Such files may be as long as the trace, and `/tmp` is often in memory. Therefore `/var/tmp` is
//! preferred to `/tmp`, and `TMPDIR` to both.

use std::env;
use std::fs::File;
use std::io;
use std::path::PathBuf;

pub(crate) fn folder() -> PathBuf {
    if let Some(named) = env::var_os("TMPDIR").filter(|named| !named.is_empty()) {
        return PathBuf::from(named);
    }
    let large = PathBuf::from("/var/tmp");
    if large.is_dir() {
        large
    } else {
        env::temp_dir()
    }
}

/// Returns an unnamed file. It disappears with the process, however the process ends.
pub(crate) fn file() -> io::Result<File> {
    tempfile::tempfile_in(folder()).or_else(|_| tempfile::tempfile())
}
