//! Where files lie that are only there while a trace is read.
//!
//! They may be as long as the trace, and `/tmp` is often memory; so `/var/tmp` comes first, and `TMPDIR` before all.

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

/// A file without a name: it is gone with the process, however that ends.
pub(crate) fn file() -> io::Result<File> {
    tempfile::tempfile_in(folder()).or_else(|_| tempfile::tempfile())
}
