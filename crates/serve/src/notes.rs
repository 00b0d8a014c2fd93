//! Notes that the user placed on a trace, stored with it.
//!
//! They are in `derived/notes.json` of a recording, and next to other traces as `NAME.notes.json`.

use serde_json::{json, Value};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Maximum size in bytes.
pub(crate) const MAX_NOTES: usize = 1 << 20;

fn place(trace: &Path) -> PathBuf {
    if trace.is_dir() {
        return trace.join("derived/notes.json");
    }
    let mut name = OsString::from(trace);
    name.push(".notes.json");
    name.into()
}

/// Returns the notes of a trace; none if there is no readable file of them.
pub(crate) fn read(trace: &Path) -> Value {
    let mut text = Vec::new();
    let size = File::open(place(trace)).and_then(|file| file.take(MAX_NOTES as u64 + 1).read_to_end(&mut text));
    let notes = size.ok().filter(|&size| size <= MAX_NOTES).and_then(|_| serde_json::from_slice::<Value>(&text).ok());
    notes.filter(|notes| notes["notes"].is_array()).unwrap_or_else(|| json!({"notes": []}))
}

/// Replaces the notes of a trace. They are written to a file of their own first, so that a failure
/// leaves the old ones. A symbolic link that a foreign trace contains is never followed.
pub(crate) fn write(trace: &Path, notes: &Value) -> io::Result<()> {
    let place = place(trace);
    if let Some(folder) = place.parent().filter(|_| trace.is_dir()) {
        fs::create_dir_all(folder)?;
        if fs::symlink_metadata(folder)?.is_symlink() {
            return Err(io::Error::other(format!("{} is a symbolic link", folder.display())));
        }
    }
    let mut new_place = place.clone().into_os_string();
    new_place.push(".new");
    match fs::remove_file(&new_place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).open(&new_place)?.write_all(&serde_json::to_vec_pretty(notes)?)?;
    fs::rename(new_place, place)
}
