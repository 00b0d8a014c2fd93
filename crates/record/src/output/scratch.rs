//! Temporary folders that are removed also if their process is killed: the next process removes
//! what a dead one left.
//!
//! The owner holds a lock on the folder, which the kernel releases when the owner dies.

use crate::output::folder::Folder;
use rustix::fs::{flock, FlockOperation};
use std::io;
use std::path::Path;

/// Begin of the names of all such folders.
const PREFIX: &str = "longpole-scratch-";
/// Limit of the folders removed at a time; the next call removes more.
const MAX_REMOVED: usize = 64;

/// A temporary folder, removed when this value is dropped.
#[derive(Debug)]
pub struct Scratch {
    /// The folder; removed when this value is dropped.
    folder: tempfile::TempDir,
    _lock: Folder,
}

/// Folder in memory, for files that exist for seconds.
const MEMORY: &str = "/dev/shm";

impl Scratch {
    /// Makes a folder, and removes those of dead processes.
    pub fn new() -> io::Result<Scratch> {
        tidy();
        Scratch::new_in(&std::env::temp_dir())
    }

    /// Makes a folder in memory, or where there is no such place, as [`Scratch::new`]. Removes
    /// those of dead processes.
    pub fn in_memory() -> io::Result<Scratch> {
        tidy();
        Scratch::new_in(Path::new(MEMORY)).or_else(|_| Scratch::new_in(&std::env::temp_dir()))
    }

    fn new_in(place: &Path) -> io::Result<Scratch> {
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
            let lock = Folder::open(folder.path())?;
            flock(&lock, FlockOperation::LockExclusive)?;
            // Another process may have removed the folder before it was locked.
            if folder.path().exists() {
                return Ok(Scratch { folder, _lock: lock });
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders that dead processes of this user left.
pub fn tidy() {
    tidy_in(&std::env::temp_dir());
    tidy_in(Path::new(MEMORY));
}

fn tidy_in(place: &Path) {
    let Ok(all) = Folder::open(place) else { return };
    let left = all.names().unwrap_or_default().into_iter().filter(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    for name in left.take(MAX_REMOVED) {
        let Ok(found) = all.folder(&name) else { continue };
        let own = found.owner().is_ok_and(|owner| owner == rustix::process::geteuid().as_raw());
        if own && flock(&found, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // If something remains, the next call tries again.
            let _ = all.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_nobody_locks_are_removed_and_locked_folders_stay() {
        let living = Scratch::new().unwrap();
        std::fs::write(living.path().join("file"), b"kept").unwrap();
        let places = [std::env::temp_dir(), MEMORY.into()];
        let dead = places.map(|place| tempfile::Builder::new().prefix(PREFIX).tempdir_in(place).unwrap().keep());
        dead.iter().for_each(|dead| std::fs::write(dead.join("file"), b"left").unwrap());
        tidy();
        assert!(dead.iter().all(|dead| !dead.exists()) && living.path().join("file").exists());
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }
}
