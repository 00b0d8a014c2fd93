//! What a path holds, judged by content: a recording, CTF traces at any depth below it, captures.
//!
//! File names decide only where the format itself does so (`metadata` beside its streams, `longpole.json`). Directories are
//! walked to a fixed depth and a fixed number of entries, and links are not followed into directories, so that a wrong path
//! (say, `/`) is refused soon instead of searched for long.

use crate::error::Error;
use crate::{perf, recording};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

const MOST_DEPTH: usize = 16;
const MOST_ENTRIES: usize = 1_000_000;

/// The parts that were found, in the order of their paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The directory of `longpole.json`, if this is a recording.
    pub recording: Option<PathBuf>,
    /// Directories with a CTF `metadata` file.
    pub ctf: Vec<PathBuf>,
    /// pcapng and pcap files.
    pub captures: Vec<PathBuf>,
    /// A perf.data.
    pub perf: Option<PathBuf>,
    /// Pages of the kernel that are no trace yet.
    pub raw: Option<PathBuf>,
}

pub(crate) fn recognise(path: &Path) -> Result<Found, Error> {
    let meta = fs::metadata(path).map_err(Error::io(path))?;
    if !meta.is_dir() {
        return file(path);
    }
    if is_recording(path) {
        return in_recording(path);
    }
    let mut walk = Walk::default();
    walk.directory(path, 0)?;
    match walk.recordings.as_slice() {
        [] => {}
        [one] if walk.found.ctf.is_empty() && walk.found.captures.is_empty() => return in_recording(one),
        [one, ..] => {
            let (count, example) = (walk.recordings.len(), one.clone());
            return Err(Error::SeveralRecordings { path: path.to_owned(), count, example });
        }
    }
    if walk.found.ctf.is_empty() && walk.found.captures.is_empty() {
        let tried = match walk.entries {
            0 => "the directory is empty",
            _ => "neither in it nor below is a recording (longpole.json), a CTF trace (metadata) or a capture (pcapng, pcap)",
        };
        return Err(Error::NotATrace { path: path.to_owned(), tried: tried.to_owned() });
    }
    Ok(walk.found)
}

/// The recording that a path leads to, if it leads to one.
pub fn recording_at(path: &Path) -> Option<PathBuf> {
    recognise(path).ok()?.recording
}

/// Also what a recorder left that was killed before it wrote its first description.
pub fn is_recording(directory: &Path) -> bool {
    directory.join(recording::FILE_NAME).is_file() || directory.join("user").join("metadata").is_file()
}

fn in_recording(directory: &Path) -> Result<Found, Error> {
    let mut walk = Walk::default();
    for part in ["user", "packets"] {
        let part = directory.join(part);
        if part.is_dir() {
            walk.directory(&part, 0)?;
        }
    }
    // Beside the kernel's trace its pages may lie, or a part of what they become; it is a trace once it has metadata.
    let kernel = directory.join("kernel");
    if kernel.join("metadata").is_file() {
        walk.found.ctf.push(kernel);
    } else if kernel.join("raw").is_dir() {
        walk.found.raw = Some(kernel.join("raw"));
    }
    let samples = directory.join("samples");
    if samples.join("metadata").is_file() {
        walk.found.ctf.push(samples);
    }
    walk.found.ctf.sort();
    Ok(Found { recording: Some(directory.to_owned()), ..walk.found })
}

fn file(path: &Path) -> Result<Found, Error> {
    let first = first_bytes(path)?;
    let parent = path.parent().unwrap_or(Path::new("."));
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    if is_capture(&first) {
        return Ok(Found { captures: vec![path.to_owned()], ..Found::default() });
    }
    if perf::is_perf(&first) {
        return Ok(Found { perf: Some(path.to_owned()), ..Found::default() });
    }
    if path.file_name().is_some_and(|name| name == recording::FILE_NAME) {
        return in_recording(parent);
    }
    if path.file_name().is_some_and(|name| name == "metadata") {
        return Ok(Found { ctf: vec![parent.to_owned()], ..Found::default() });
    }
    let tried = match first.as_slice() {
        [0xc1, 0xfc, 0x1f, 0xc1] | [0xc1, 0x1f, 0xfc, 0xc1] => "it is a CTF stream; name its directory".to_owned(),
        [b'{', ..] => "it looks like JSON lines; only verbs that analyse machines read a machine log".to_owned(),
        [] => "the file is empty".to_owned(),
        first => format!("the file begins with \"{}\": it is neither perf.data nor pcapng nor pcap", first.escape_ascii()),
    };
    Err(Error::NotATrace { path: path.to_owned(), tried })
}

#[derive(Default)]
struct Walk {
    found: Found,
    recordings: Vec<PathBuf>,
    entries: usize,
}

impl Walk {
    fn directory(&mut self, path: &Path, depth: usize) -> Result<(), Error> {
        if path.join("metadata").is_file() {
            self.found.ctf.push(path.to_owned());
            return Ok(());
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(path).map_err(Error::io(path))? {
            entries.push(entry.map_err(Error::io(path))?);
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                return Err(Error::TooMany { what: "files below the path", limit: MOST_ENTRIES });
            }
        }
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let below = entry.path();
            let kind = entry.file_type().map_err(Error::io(&below))?;
            if kind.is_dir() && is_recording(&below) {
                self.recordings.push(below);
            } else if kind.is_dir() && depth < MOST_DEPTH {
                self.directory(&below, depth + 1)?;
            } else if kind.is_file() && first_bytes(&below).is_ok_and(|first| is_capture(&first)) {
                self.found.captures.push(below);
            }
        }
        Ok(())
    }
}

fn first_bytes(path: &Path) -> Result<Vec<u8>, Error> {
    let mut first = Vec::with_capacity(4);
    File::open(path).and_then(|file| file.take(4).read_to_end(&mut first)).map_err(Error::io(path))?;
    Ok(first)
}

/// The magic numbers of pcapng, and of pcap in both byte orders with microseconds and nanoseconds.
fn is_capture(first: &[u8]) -> bool {
    matches!(
        first,
        [0x0a, 0x0d, 0x0d, 0x0a]
            | [0xa1, 0xb2, 0xc3, 0xd4]
            | [0xd4, 0xc3, 0xb2, 0xa1]
            | [0xa1, 0xb2, 0x3c, 0x4d]
            | [0x4d, 0x3c, 0xb2, 0xa1]
    )
}

/// The files of a CTF directory that hold streams: all but the metadata, indexes and hidden ones.
pub(crate) fn stream_files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(Error::io(directory))? {
        let path = entry.map_err(Error::io(directory))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name != "metadata" && !name.starts_with('.') && path.is_file() {
            files.push(path);
        }
        if files.len() > MOST_ENTRIES {
            return Err(Error::TooMany { what: "stream files", limit: MOST_ENTRIES });
        }
    }
    files.sort();
    Ok(files)
}
