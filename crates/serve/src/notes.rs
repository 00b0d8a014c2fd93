//! Notes that the user placed on a trace, stored with it.
//!
//! They are in `derived/notes.json` of a recording, and next to other traces as `NAME.notes.json`.

use longpole_trace::derived::{self, Place};
use serde_json::{json, Value};
use std::io::{self, Read, Write};
use std::path::Path;

/// Maximum size in bytes.
pub(crate) const MAX_NOTES: usize = 1 << 20;

fn place(trace: &Path) -> Place {
    if trace.is_dir() {
        return Place { base: trace.to_owned(), below: Path::new(derived::FOLDER).join("notes.json") };
    }
    let mut name = trace.file_name().unwrap_or_default().to_owned();
    name.push(".notes.json");
    let base = trace.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Place { base: base.to_owned(), below: name.into() }
}

/// Returns the notes of a trace; none if there is no file of them.
///
/// # Errors
///
/// If there is a file that cannot be read, or has no notes in it.
pub(crate) fn read(trace: &Path) -> io::Result<Value> {
    let file = match place(trace).open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(json!({"notes": []})),
        opened => opened?,
    };
    let mut text = Vec::new();
    if file.take(MAX_NOTES as u64 + 1).read_to_end(&mut text)? > MAX_NOTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("the file has more than {MAX_NOTES} bytes")));
    }
    let notes: Value = serde_json::from_slice(&text)?;
    match notes["notes"].is_array() {
        true => Ok(notes),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "the file has no list of notes")),
    }
}

/// Replaces the notes of a trace. A symbolic link that a foreign trace contains is never followed.
pub(crate) fn write(trace: &Path, notes: &Value) -> io::Result<()> {
    place(trace).store(|file| file.write_all(&serde_json::to_vec(notes)?))
}
