//! Places for what is thrown away at the end, also where that end is a kill: whoever comes next removes what a dead process left.
//!
//! The owner holds a lock on the folder, which the kernel releases at its death.

use crate::output::folder::Folder;
use rustix::fs::{flock, FlockOperation};
use std::io;
use std::path::{Path, PathBuf};

/// What the names of all such folders begin with.
const PREFIX: &str = "longpole-scratch-";
/// More of them are left to the next time.
const MOST: usize = 64;

#[derive(Debug)]
pub struct Scratch {
    /// Held open for its lock.
    folder: tempfile::TempDir,
    _lock: Folder,
}

impl Scratch {
    /// Makes one, and removes those of dead processes.
    pub fn new() -> io::Result<Scratch> {
        tidy();
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
            let lock = Folder::open(folder.path())?;
            flock(&lock, FlockOperation::LockExclusive)?;
            // Somebody may have taken it for a dead one's before it was locked.
            if folder.path().exists() {
                return Ok(Scratch { folder, _lock: lock });
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes what dead processes of this user left.
pub fn tidy() {
    let place: PathBuf = std::env::temp_dir();
    let Ok(all) = Folder::open(&place) else { return };
    let left = all.names().unwrap_or_default().into_iter().filter(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    for name in left.take(MOST) {
        let Ok(found) = all.folder(&name) else { continue };
        let own = found.owner().is_ok_and(|owner| owner == rustix::process::geteuid().as_raw());
        if own && flock(&found, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Whatever stays is looked at again.
            let _ = all.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_removed_and_what_lives_stays() {
        let living = Scratch::new().unwrap();
        std::fs::write(living.path().join("file"), b"kept").unwrap();
        let dead = tempfile::Builder::new().prefix(PREFIX).tempdir().unwrap().keep();
        std::fs::write(dead.join("file"), b"left").unwrap();
        tidy();
        assert!(!dead.exists() && living.path().join("file").exists());
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }
}
