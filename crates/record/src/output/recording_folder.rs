//! The folder of the recording, which stays known if its path changes meanwhile.
//!
//! A user may move or remove the folder, or put a link in its place. New files are made through the
//! folder's descriptor, so they cannot end up anywhere else. A folder that was moved is found
//! again; a folder that was removed ends the recording.

use crate::files::FileError;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Descriptor of the recording's folder.
#[derive(Debug)]
pub(crate) struct RecordingFolder(OwnedFd);

impl RecordingFolder {
    pub fn open(path: &Path) -> Result<RecordingFolder, FileError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        opened.map(RecordingFolder).map_err(|error| FileError::io("open", path)(error.into()))
    }

    /// Path through the descriptor, valid as long as this value lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// The new path, if the folder is no longer at `path`. Fails with `NotFound` if it was removed.
    pub fn moved(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let own = rustix::fs::fstat(&self.0)?;
        let there = rustix::fs::lstat(path);
        if there.is_ok_and(|there| (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)) {
            return Ok(None);
        }
        let now = std::fs::read_link(self.path())?;
        // Some file systems change device or inode numbers of a file, so the paths decide.
        if std::path::absolute(path).is_ok_and(|path| path == now) {
            return Ok(None);
        }
        if own.st_nlink == 0 || now.as_os_str().to_string_lossy().ends_with(" (deleted)") {
            return Err(io::Error::new(io::ErrorKind::NotFound, "its folder was removed during the recording"));
        }
        Ok(Some(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_folder_is_found_at_its_new_path_and_a_removed_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        std::fs::create_dir(&first).unwrap();
        let home = RecordingFolder::open(&first).unwrap();
        assert_eq!(home.moved(&first).unwrap(), None);
        std::fs::rename(&first, &second).unwrap();
        std::os::unix::fs::symlink("/tmp", &first).unwrap();
        assert_eq!(home.moved(&first).unwrap(), Some(second.canonicalize().unwrap()));
        std::fs::write(home.path().join("file"), "there").unwrap();
        assert_eq!(std::fs::read_to_string(second.join("file")).unwrap(), "there");
        std::fs::remove_dir_all(&second).unwrap();
        assert_eq!(home.moved(&second).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
