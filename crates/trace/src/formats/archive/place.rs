//! The folder into which an archive is unpacked, and its removal.
//!
//! The folder is removed when its [`Unpacked`] is dropped. A killed process drops nothing.
//! Therefore each folder holds a locked file; the kernel releases the lock with its process, and
//! the next process that unpacks removes folders whose lock is free. A folder has another name
//! until it is locked, so that it is not removed too early.

use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::files::scratch;
use rustix::fs::{flock, FlockOperation};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Prefix of the names of these folders.
pub const PREFIX: &str = "longpole-unpacked-";
const LOCK: &str = ".lock";

/// An unpacked archive. The unpacked files are removed when this is dropped.
#[derive(Debug)]
pub struct Unpacked {
    root: PathBuf,
    content: PathBuf,
    pub(super) alone: Option<PathBuf>,
    archive: PathBuf,
    /// Diagnostics about the archive.
    pub diagnostics: Vec<Diagnostic>,
    /// Lock on the folder, held until this is dropped.
    _lock: File,
}

impl Unpacked {
    pub(super) fn new(archive: &Path) -> Result<Unpacked, Error> {
        let folder = scratch::folder();
        sweep(&folder);
        let failed = |what: &str| {
            let (what, folder) = (what.to_owned(), folder.clone());
            move |source: io::Error| Error::Archive {
                path: archive.to_owned(),
                entry: None,
                what: format!("{what} in {}: {source} (TMPDIR names another place)", folder.display()),
            }
        };
        let own = tempfile::Builder::new()
            .prefix(".longpole-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(&folder)
            .map_err(failed("cannot make a folder"))?;
        let lock = File::create(own.path().join(LOCK)).map_err(failed("cannot make a file"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| failed("cannot lock a file")(error.into()))?;
        let name = own.path().file_name().unwrap_or_default().to_string_lossy().replace(".longpole-", PREFIX);
        let root = folder.join(name);
        fs::rename(own.path(), &root).map_err(failed("cannot make a folder"))?;
        // The folder was renamed, so the temporary name must not be removed.
        let _ = own.keep();
        let name = archive.file_name().map_or_else(|| "archive".into(), PathBuf::from);
        let content = root.join(name);
        let unpacked = Unpacked { root, content, alone: None, archive: archive.to_owned(), diagnostics: Vec::new(), _lock: lock };
        fs::DirBuilder::new().mode(0o700).create(&unpacked.content).map_err(failed("cannot make a folder"))?;
        Ok(unpacked)
    }

    /// Returns the folder that is removed on drop.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the content of the archive: a folder, or the one file that was compressed.
    pub fn content(&self) -> &Path {
        self.alone.as_deref().unwrap_or(&self.content)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.content
    }

    /// Returns the path of the archive.
    pub fn archive(&self) -> &Path {
        &self.archive
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Removes the folders of processes that have ended.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let own = fs::metadata("/proc/self").map(|data| data.uid()).ok();
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|data| data.is_dir() && Some(data.uid()) == own);
        if is_ours {
            remove_if_left(&entry.path());
        }
    }
}

/// Removes the folder of an archive, unless it is in use.
pub fn remove_if_left(root: &Path) {
    let named = root.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    let free = || File::open(root.join(LOCK)).is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok());
    if named && free() {
        let _ = fs::remove_dir_all(root);
    }
}
