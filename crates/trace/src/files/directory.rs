//! What a directory with a trace holds.

use super::recording;
use crate::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of files in a directory.
const MAX_ENTRIES: usize = 1_000_000;

/// Returns true if the directory is a recording, including one whose recorder was killed before it
/// wrote `longpole.json`.
pub fn is_recording(directory: &Path) -> bool {
    directory.join(recording::FILE_NAME).is_file() || directory.join("user").join("metadata").is_file()
}

/// Returns the stream files of a CTF directory: all files except metadata, indexes and hidden
/// files.
pub(crate) fn stream_files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(Error::io(directory))? {
        let path = entry.map_err(Error::io(directory))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name != "metadata" && !name.starts_with('.') && path.is_file() {
            files.push(path);
        }
        if files.len() > MAX_ENTRIES {
            return Err(Error::TooMany { what: "stream files", limit: MAX_ENTRIES });
        }
    }
    files.sort();
    Ok(files)
}
