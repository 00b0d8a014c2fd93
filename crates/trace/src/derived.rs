//! Files that are derived from a trace, and kept so that they need not be made again.
//!
//! They are in `derived/` of the trace's folder. Everything there may be deleted. Who derives a
//! file must be able to recognise that the trace has changed since; [`Fingerprint`] helps.

use rustix::fs::{AtFlags, Dir, Mode, OFlags, CWD};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Name of the folder.
pub const FOLDER: &str = "derived";

/// Maximum depth of folders in a trace, and maximum number of files and folders.
const MAX_DEPTH: usize = 8;
const MAX_ENTRIES: usize = 1_000_000;

/// The place of a derived file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A folder of the user's choice, such as that of the trace.
    pub base: PathBuf,
    /// Path below it. Its folders are made if necessary.
    pub below: PathBuf,
}

impl Place {
    /// Opens the file.
    ///
    /// # Errors
    ///
    /// If there is none. In a folder of another user the name may belong to anything: opening a
    /// pipe would block forever, and a link could point to any file. Both are errors.
    pub fn open(&self) -> io::Result<File> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.base.join(&self.below))?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        Ok(file)
    }

    /// Stores the file atomically: `write` fills a temporary file, which is then renamed.
    ///
    /// # Errors
    ///
    /// If a folder below the base belongs to another user or is a link, or if the file cannot be
    /// written. The old one remains.
    pub fn store(&self, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = self.below.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let folder = self.folder()?;
        let begin = format!(".{}-", name.to_string_lossy());
        let own = format!("{begin}{}-", std::process::id());
        remove_unfinished(&folder, &begin, &own);
        let made = format!("{own}{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&folder, &made, flags, Mode::from_raw_mode(0o666))?);
        let written = write(&mut file).and_then(|()| Ok(rustix::fs::renameat(&folder, &made, &folder, name)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&folder, &made, AtFlags::empty());
        }
        written
    }

    /// Opens the folder of the file, and makes it if necessary. Another user must not be able to
    /// redirect the write, so each step goes from a descriptor by one name, and each folder must be
    /// ours and no link.
    fn folder(&self) -> io::Result<OwnedFd> {
        let opened = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        fs::create_dir_all(&self.base)?;
        let mut folder = rustix::fs::openat(CWD, &self.base, opened, Mode::empty())?;
        for name in self.below.parent().into_iter().flat_map(Path::components) {
            let name: &Path = name.as_ref();
            match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = rustix::fs::openat(&folder, name, opened | OFlags::NOFOLLOW, Mode::empty())?;
            if rustix::fs::fstat(&folder)?.st_uid != geteuid().as_raw() {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
        }
        Ok(folder)
    }
}

/// Removes what a killed process left behind: names that begin with `begin` and not with `own`. A
/// living process that stores the same file at the same time fails, which leaves the file of this
/// process.
fn remove_unfinished(folder: &OwnedFd, begin: &str, own: &str) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    let names: Vec<OsString> = entries.flatten().map(|entry| OsString::from(entry.file_name().to_string_lossy().into_owned())).collect();
    for name in names {
        let text = name.to_string_lossy();
        if text.starts_with(begin) && !text.starts_with(own) {
            let _ = rustix::fs::unlinkat(folder, &name, AtFlags::empty());
        }
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
    /// Returns the fingerprint of a file, or of all files in a folder but the derived ones. Linked
    /// folders count as files.
    ///
    /// # Errors
    ///
    /// If a folder or file cannot be read, or if there are too many.
    pub fn of(path: &Path) -> io::Result<Fingerprint> {
        let mut found = Found::default();
        let facts = fs::metadata(path)?;
        match facts.is_dir() {
            true => found.folder(path, MAX_DEPTH)?,
            false => found.files.push((path.to_owned(), facts)),
        }
        found.files.sort_by(|a, b| a.0.cmp(&b.0));
        let (mut hasher, mut bytes) = (DefaultHasher::new(), 0);
        for (path, facts) in found.files {
            let changed = facts.mtime().wrapping_mul(1_000_000_000).wrapping_add(facts.mtime_nsec());
            hasher.write(path.as_os_str().as_encoded_bytes());
            [0, facts.len(), changed as u64].into_iter().for_each(|number| hasher.write_u64(number));
            bytes += facts.len();
        }
        Ok(Fingerprint { hash: hasher.finish(), bytes })
    }
}

#[derive(Default)]
struct Found {
    files: Vec<(PathBuf, fs::Metadata)>,
    entries: usize,
}

impl Found {
    fn folder(&mut self, path: &Path, depth: usize) -> io::Result<()> {
        let deeper = depth.checked_sub(1).ok_or(io::ErrorKind::InvalidInput)?;
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let path = entry.path();
            if !entry.file_type()?.is_dir() {
                // A link may lead to a folder, or to nothing.
                let file = fs::metadata(&path).ok().filter(fs::Metadata::is_file);
                let facts = file.map_or_else(|| fs::symlink_metadata(&path), Ok)?;
                self.files.push((path, facts));
            } else if entry.file_name() != FOLDER {
                self.folder(&path, deeper)?;
            }
        }
        Ok(())
    }
}
