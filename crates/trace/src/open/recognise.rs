//! Detection of what a path holds, by content: a recording, CTF traces at any depth below it, files
//! of other formats, or several of these.
//!
//! File names matter only if the format defines them (`metadata` next to its streams,
//! `longpole.json`). Directories are searched to a fixed depth and a fixed number of entries, and
//! links to directories are not followed, so that a wrong path (such as `/`) is refused soon.

use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::files::directory::is_recording;
use crate::files::head::Head;
use crate::files::recording;
use crate::formats::archive;
use crate::formats::perf_data;
use crate::formats::trace_dat;
use crate::open::format::{self, Format};
use std::fs;
use std::path::{Path, PathBuf};

const MAX_DEPTH: usize = 16;
const MAX_ENTRIES: usize = 1_000_000;
/// Maximum number of files that belong to no trace and are named in a diagnostic.
const MAX_EXAMPLES: usize = 4;

/// The parts that were found, in the order of their paths.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Directory of `longpole.json`, if the path is a recording.
    pub recording: Option<PathBuf>,
    /// Directories with a CTF `metadata` file.
    pub ctf: Vec<PathBuf>,
    /// Files that are a trace each.
    pub files: Vec<(Format, PathBuf)>,
    /// A folder of files copied from the kernel's tracer.
    pub copied_from_tracer: Option<PathBuf>,
    /// Raw pages of the kernel's tracer in a recording that were not converted to a trace yet.
    pub unconverted: Option<PathBuf>,
    /// Diagnostic for files that belong to no trace.
    pub unrelated: Option<Diagnostic>,
}

impl Found {
    fn is_empty(&self) -> bool {
        self.ctf.is_empty() && self.files.is_empty()
    }

    fn file(format: Format, path: &Path) -> Found {
        Found { files: vec![(format, path.to_owned())], ..Found::default() }
    }
}

pub(crate) fn recognise(path: &Path) -> Result<Found, Error> {
    let meta = fs::metadata(path).map_err(Error::io(path))?;
    if !meta.is_dir() {
        if !meta.is_file() {
            let tried =
                "it is a pipe or a device, but a trace is read more than once; write it to a file first, and name that file".to_owned();
            return Err(Error::NotATrace { path: path.to_owned(), tried });
        }
        return file(path);
    }
    if is_recording(path) {
        return in_recording(path);
    }
    if trace_dat::is_raw(path) {
        return Ok(Found { copied_from_tracer: Some(path.to_owned()), ..Found::default() });
    }
    let mut walk = Walk::default();
    walk.directory(path, 0)?;
    match walk.recordings.as_slice() {
        [] => {}
        [one] if walk.found.is_empty() => return in_recording(one),
        [one, ..] => {
            let (count, example) = (walk.recordings.len(), one.clone());
            return Err(Error::SeveralRecordings { path: path.to_owned(), count, example });
        }
    }
    if walk.found.is_empty() {
        let tried = match (walk.entries, walk.examples.as_slice()) {
            (0, _) => "the directory is empty".to_owned(),
            (_, []) => "neither in it nor below is a recording (longpole.json), a CTF trace (metadata), or any file".to_owned(),
            (_, examples) => format!(
                "neither in it nor below is a recording (longpole.json), a CTF trace (metadata), or a file that is a trace by itself. Of {}:\n  {}",
                if walk.others == 1 { "one file".to_owned() } else { format!("{} files", walk.others) },
                examples.join("\n  "),
            ),
        };
        return Err(Error::NotATrace { path: path.to_owned(), tried });
    }
    if walk.others > 0 {
        let more = if walk.others > walk.examples.len() as u64 { ", …" } else { "" };
        let examples = walk.examples.join(", ") + more;
        walk.found.unrelated = Some(Diagnostic::UnrelatedFiles { path: path.to_owned(), files: walk.others, examples });
    }
    Ok(walk.found)
}

/// Returns the directory of the recording that a path leads to, if there is one.
pub fn recording_at(path: &Path) -> Option<PathBuf> {
    recognise(path).ok()?.recording
}

fn in_recording(directory: &Path) -> Result<Found, Error> {
    let mut walk = Walk::default();
    for part in ["user", "packets"] {
        let part = directory.join(part);
        if part.is_dir() {
            walk.directory(&part, 0)?;
        }
    }
    walk.found.files.retain(|(format, _)| *format == Format::Capture);
    // Next to the kernel's trace there may be its raw pages, or a part of the trace that is being
    // converted. It is a trace once it has metadata.
    let kernel = directory.join("kernel");
    if kernel.join("metadata").is_file() {
        walk.found.ctf.push(kernel);
    } else if kernel.join("raw").is_dir() {
        walk.found.unconverted = Some(kernel.join("raw"));
    }
    let samples = directory.join("samples");
    if samples.join("metadata").is_file() {
        walk.found.ctf.push(samples);
    }
    walk.found.ctf.sort();
    Ok(Found { recording: Some(directory.to_owned()), ..walk.found })
}

fn file(path: &Path) -> Result<Found, Error> {
    let head = Head::of(path)?;
    if let Some(format) = format::of(&head) {
        return Ok(Found::file(format, path));
    }
    let parent = path.parent().unwrap_or(Path::new("."));
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    if path.file_name().is_some_and(|name| name == recording::FILE_NAME) {
        return in_recording(parent);
    }
    if path.file_name().is_some_and(|name| name == "metadata") {
        return Ok(Found { ctf: vec![parent.to_owned()], ..Found::default() });
    }
    Err(Error::NotATrace { path: path.to_owned(), tried: format::why_none(&head) })
}

#[derive(Default)]
struct Walk {
    found: Found,
    recordings: Vec<PathBuf>,
    entries: usize,
    /// Number of files that belong to no trace.
    others: u64,
    examples: Vec<String>,
}

impl Walk {
    fn directory(&mut self, path: &Path, depth: usize) -> Result<(), Error> {
        if path.join("metadata").is_file() {
            self.found.ctf.push(path.to_owned());
            return Ok(());
        }
        if perf_data::is_folder(path) {
            self.found.files.push((Format::Perf, path.to_owned()));
            return Ok(());
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(path).map_err(Error::io(path))? {
            entries.push(entry.map_err(Error::io(path))?);
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(Error::TooMany { what: "files below the path", limit: MAX_ENTRIES });
            }
        }
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let below = entry.path();
            let kind = entry.file_type().map_err(Error::io(&below))?;
            if kind.is_dir() && is_recording(&below) {
                self.recordings.push(below);
            } else if kind.is_dir() && depth < MAX_DEPTH {
                self.directory(&below, depth + 1)?;
            } else if kind.is_file() {
                self.file(below);
            }
        }
        Ok(())
    }

    fn file(&mut self, path: PathBuf) {
        let head = Head::of_many(&path);
        if let Some(format) = head.as_ref().ok().and_then(format::of) {
            self.found.files.push((format, path));
            return;
        }
        self.others += 1;
        if self.examples.len() < MAX_EXAMPLES {
            let why = match head {
                Ok(head) if archive::packing(&head).is_some() => "an archive: name it by itself".to_owned(),
                Ok(head) => format::in_short(&head),
                Err(error) => error.to_string(),
            };
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.examples.push(format!("{name} ({why})"));
        }
    }
}
