//! A folder by its descriptor, for work in folders that other users may change meanwhile.
//!
//! A path is looked up again at each use. The owner of a folder on the way can put a link there
//! between two uses, and so have files written or removed elsewhere. Here each step goes from a
//! descriptor by one name, and no link is followed.

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Depth below which folders are not removed.
const MAX_DEPTH: u32 = 16;

/// A folder that is held by its descriptor.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    /// Path for messages.
    path: PathBuf,
}

impl Folder {
    /// Opens a folder. The last component must not be a link.
    pub fn open(path: &Path) -> io::Result<Folder> {
        Folder::at(rustix::fs::CWD, path.as_os_str(), path.to_owned())
    }

    pub fn folder(&self, name: impl AsRef<OsStr>) -> io::Result<Folder> {
        let name = single(name.as_ref())?;
        Folder::at(self.fd.as_fd(), name, self.path.join(name))
    }

    fn at(from: BorrowedFd<'_>, name: &OsStr, path: PathBuf) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Folder { fd: rustix::fs::openat(from, name, flags, Mode::empty())?, path })
    }

    /// Makes a folder. Fails if the name exists.
    pub fn make(&self, name: &str) -> io::Result<Folder> {
        rustix::fs::mkdirat(&self.fd, single(name.as_ref())?, Mode::from_raw_mode(0o777))?;
        self.folder(name)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    pub fn owner(&self) -> io::Result<u32> {
        Ok(rustix::fs::fstat(&self.fd)?.st_uid)
    }

    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Returns whether the name exists, also as a link.
    pub fn holds(&self, name: &str) -> bool {
        rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Opens a regular file for reading. Fails for links and special files, without blocking.
    pub fn read(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.regular(name.as_ref(), OFlags::RDONLY)
    }

    /// Opens a regular file for writing, with the same checks.
    pub fn write(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.regular(name.as_ref(), OFlags::WRONLY)
    }

    fn regular(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.fd, single(name)?, flags, Mode::empty())?);
        let found = file.metadata()?;
        match found.is_file() {
            // Another hard link may be a file in a foreign folder.
            true if flags.contains(OFlags::WRONLY) && found.nlink() != 1 => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "it has other names"))
            }
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
        }
    }

    /// Reads a file as text. Invalid UTF-8 is replaced; more than `most` bytes are an error.
    pub fn text(&self, name: impl AsRef<OsStr>, most: u64) -> io::Result<String> {
        let mut bytes = Vec::new();
        if self.read(name)?.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it has more than {most} bytes")));
        }
        Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// Makes a file. Fails if the name exists.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.fd, single(name.as_ref())?, flags, Mode::from_raw_mode(0o644))?))
    }

    /// Replaces a file atomically.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        use std::io::Write as _;
        let hidden = format!(".{name}");
        self.remove(&hidden)?;
        self.create(&hidden)?.write_all(bytes)?;
        self.rename(&hidden, self, name)
    }

    pub fn rename(&self, name: impl AsRef<OsStr>, to: &Folder, new: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, single(name.as_ref())?, &to.fd, single(new.as_ref())?)?)
    }

    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    /// Removes a file, a link itself, or a folder with its contents. Succeeds if the name does not
    /// exist.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.remove_below(single(name.as_ref())?, MAX_DEPTH)
    }

    fn remove_below(&self, name: &OsStr, depth: u32) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) if depth > 0 => {}
            Err(error) => return Err(error.into()),
        }
        let inner = self.folder(name)?;
        for name in inner.names()? {
            inner.remove_below(&name, depth - 1)?;
        }
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Checks that a name is a single component, which cannot lead to another folder.
fn single(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_encoded_bytes();
    match bytes.is_empty() || bytes.contains(&b'/') || bytes == b"." || bytes == b".." {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a name in a folder")),
        false => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_link_is_followed_and_no_removal_leaves_the_folder() {
        let place = tempfile::tempdir().unwrap();
        let (inside, outside) = (place.path().join("inside"), place.path().join("outside"));
        fs::create_dir_all(inside.join("deep/deeper")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), b"kept").unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink(&outside, inside.join("deep/link")).unwrap();
        symlink(outside.join("kept"), inside.join("file")).unwrap();
        symlink(outside.join("kept"), inside.join(".file")).unwrap();
        fs::hard_link(outside.join("kept"), inside.join("second")).unwrap();
        let folder = Folder::open(&inside).unwrap();
        assert!(Folder::open(&inside.join("link")).is_err());
        assert!(folder.folder("link").is_err() && folder.folder("..").is_err() && folder.folder("deep/deeper").is_err());
        assert!(folder.read("file").is_err() && folder.write("file").is_err() && folder.create("file").is_err());
        assert!(folder.write("second").is_err() && folder.make("link").is_err());
        folder.replace("file", b"new").unwrap();
        assert_eq!(fs::read(inside.join("file")).unwrap(), b"new");
        for name in ["deep", "link", "missing"] {
            folder.remove(name).unwrap();
        }
        assert_eq!(folder.names().unwrap(), ["file", "second"]);
        assert_eq!(fs::read(outside.join("kept")).unwrap(), b"kept");
    }
}
