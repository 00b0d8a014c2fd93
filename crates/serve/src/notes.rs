//! Notes that the user placed on a trace, stored with it.
//!
//! They are in `derived/notes.json` of a recording, and next to other traces as `NAME.notes.json`.

use serde_json::{json, Value};
use std::ffi::OsString;
use std::fs;
use std::io;
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
    let text = fs::read(place(trace)).ok().filter(|text| text.len() <= MAX_NOTES);
    let notes = text.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    notes.filter(|notes| notes["notes"].is_array()).unwrap_or_else(|| json!({"notes": []}))
}

/// Replaces the notes of a trace. They are written to a file of their own first, so that a failure
/// leaves the old ones.
pub(crate) fn write(trace: &Path, notes: &Value) -> io::Result<()> {
    let place = place(trace);
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut new_place = place.clone().into_os_string();
    new_place.push(".new");
    fs::write(&new_place, serde_json::to_vec_pretty(notes)?)?;
    fs::rename(new_place, place)
}
