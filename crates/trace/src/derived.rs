//! Files that are derived from a trace, and kept so that they need not be made again.
//!
//! They are in `derived/` of the trace's folder. Everything there may be deleted. Who derives a
//! file must be able to recognise that the trace has changed since; [`Fingerprint`] helps.

use rustix::fs::OFlags;
use rustix::process::geteuid;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Name of the folder.
pub const FOLDER: &str = "derived";

/// Maximum depth of folders in a trace, and maximum number of its files.
const MAX_DEPTH: usize = 8;
const MAX_FILES: usize = 1_000_000;

/// Opens a derived file.
///
/// # Errors
///
/// If there is none. In a folder of another user the name may belong to anything: opening a pipe
/// would block forever, and a link could point to any file. Both are errors.
pub fn open(place: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(place)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(file)
}

/// Stores a derived file atomically: `write` fills a temporary file, which is then renamed.
///
/// # Errors
///
/// If the folder belongs to another user, or if the file cannot be written. The old one remains.
pub fn store(place: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let folder = place.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Another user must not be able to redirect the write, so the folder must be ours and no link.
    let facts = fs::symlink_metadata(folder)?;
    if !facts.is_dir() || facts.uid() != geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let begin = format!(".{}-", place.file_name().unwrap_or_default().to_string_lossy());
    remove_unfinished(folder, &begin);
    let made = folder.join(format!("{begin}{}", std::process::id()));
    let written = File::create_new(&made).and_then(|mut file| write(&mut file)).and_then(|()| fs::rename(&made, place));
    if written.is_err() {
        let _ = fs::remove_file(&made);
    }
    written
}

/// Removes what a killed process left behind. A living one that stores the same file at the same
/// time fails, which leaves the file of this process.
fn remove_unfinished(folder: &Path, begin: &str) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(begin)) {
        let _ = fs::remove_file(entry.path());
    }
}

/// What changes if any file of a trace changes: a hash of their names, sizes and times of
/// modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    pub hash: u64,
    /// Sum of the sizes in bytes.
    pub bytes: u64,
}

impl Fingerprint {
    /// Returns the fingerprint of a file, or of all files in a folder but the derived ones.
    ///
    /// # Errors
    ///
    /// If a folder or file cannot be read, or if there are too many.
    pub fn of(path: &Path) -> io::Result<Fingerprint> {
        let mut files = Vec::new();
        collect(path, MAX_DEPTH, &mut files)?;
        files.sort();
        let (mut hasher, mut bytes) = (DefaultHasher::new(), 0);
        for (path, size, changed) in files {
            hasher.write(path.as_os_str().as_encoded_bytes());
            [0, size, changed as u64].into_iter().for_each(|number| hasher.write_u64(number));
            bytes += size;
        }
        Ok(Fingerprint { hash: hasher.finish(), bytes })
    }
}

fn collect(path: &Path, depth: usize, files: &mut Vec<(PathBuf, u64, i64)>) -> io::Result<()> {
    let facts = fs::metadata(path)?;
    if !facts.is_dir() {
        let changed = facts.mtime().wrapping_mul(1_000_000_000).wrapping_add(facts.mtime_nsec());
        files.push((path.to_owned(), facts.len(), changed));
        return if files.len() > MAX_FILES { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(()) };
    }
    let deeper = depth.checked_sub(1).ok_or(io::ErrorKind::InvalidInput)?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() != FOLDER {
            collect(&entry.path(), deeper, files)?;
        }
    }
    Ok(())
}
