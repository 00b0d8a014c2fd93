//! The runtime directory, where the programs with probes of one user and their recorder meet.
//!
//! It is a directory on a tmpfs, by default `/dev/shm/longpole-<uid>`. Each process with probes
//! makes a control file there and one ring file per thread; each recorder makes a session file. The
//! directory must belong to the user alone. Nevertheless its contents are not trusted: a file is
//! opened without following links, must be a regular file of the same user, and must have a name of
//! the layout. Files with other names are left alone.
//!
//! ```text
//! session                 the recorder's orders for new processes
//! sites                   the site table of all programs
//! 4711-0a1b2c3d.control   process 4711: its label and orders
//! 4711-0a1b2c3d.0.ring    the first ring that the process made
//! 4711-0a1b2c3d.s0.ring   a larger ring that the recorder made
//! ```
//!
//! This folder holds what concerns the directory and its files: control files (`process`), session
//! files (`session`, `claim`), the directories of other users (`foreign`, `watch`), and facts from
//! /proc. Rings belong in `ring`; taking up processes belongs in `attach`.

pub(crate) mod claim;
pub mod family;
pub(crate) mod foreign;
pub(crate) mod proc_status;
pub(crate) mod process;
pub mod session;
pub(crate) mod watch;

use crate::error::Error;
use crate::files::mapping::Mapping;
use crate::runtime_dir::proc_status::Mapped;
use rustix::fs::{self, AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// An open runtime directory.
#[derive(Debug)]
pub struct RuntimeDir {
    path: PathBuf,
    directory: OwnedFd,
    /// Uid of the owner of the directory and of all files in it.
    owner: u32,
    /// Device of the directory's files in /proc/PID/maps.
    device: OnceLock<String>,
}

/// Longest path of a runtime directory in bytes; programs with probes accept no longer one.
const LONGEST_PATH: usize = 207;

/// Parent of the users' runtime directories.
pub(crate) const USERS: &str = "/dev/shm";

/// The uid in the name of a runtime directory.
pub(crate) fn user_of(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    let user = name.strip_prefix("longpole-")?.parse::<u32>().ok()?;
    (name == format!("longpole-{user}")).then_some(user)
}

/// Kind of a file in the directory, from its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Control file of a process.
    Control { stem: String, pid: i32 },
    /// `own`: made by a thread of the process. Otherwise a recorder made it to replace a smaller
    /// ring.
    Ring { stem: String, number: u32, own: bool },
    /// File that a process was making when it died.
    Temporary,
    /// File with a name that does not belong to the layout.
    Foreign,
}

/// An open file that was checked to be a regular file of this user.
#[derive(Debug)]
pub struct Opened {
    pub file: OwnedFd,
    pub size: u64,
    pub inode: u64,
    /// Number of hard links.
    pub links: u64,
}

impl RuntimeDir {
    /// Path of the directory: `LONGPOLE_RUNTIME_DIR`, made absolute, else the user's own.
    pub fn default_path() -> PathBuf {
        match std::env::var_os("LONGPOLE_RUNTIME_DIR") {
            Some(path) if !path.is_empty() => std::path::absolute(&path).unwrap_or_else(|_| PathBuf::from(path)),
            _ => PathBuf::from(format!("{USERS}/longpole-{}", rustix::process::geteuid().as_raw())),
        }
    }

    /// The directories that the caller may inspect: its own, if it exists, and for root those of
    /// all users, unless `LONGPOLE_RUNTIME_DIR` names one. Fails if the caller's own directory is
    /// unsafe.
    pub fn all() -> Result<Vec<RuntimeDir>, Error> {
        let own = RuntimeDir::default_path();
        let mut all = if own.exists() { vec![RuntimeDir::open(&own)?] } else { Vec::new() };
        let named = std::env::var_os("LONGPOLE_RUNTIME_DIR").is_some_and(|path| !path.is_empty());
        if named || !rustix::process::geteuid().is_root() {
            return Ok(all);
        }
        let entries = std::fs::read_dir(USERS).into_iter().flatten().flatten();
        let mut users: Vec<(u32, PathBuf)> = entries.filter_map(|entry| Some((user_of(&entry.path())?, entry.path()))).collect();
        users.sort();
        for (user, path) in users.into_iter().filter(|(_, path)| *path != own) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            // Any user can make an entry with such a name, so an unsafe directory of another user
            // is skipped.
            let found = fs::open(&path, flags, Mode::empty()).ok().and_then(|directory| RuntimeDir::at(directory, &path, user).ok());
            all.extend(found);
        }
        Ok(all)
    }

    /// Uid of the owner.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Fails if programs with probes could not use this path.
    pub fn check_length(path: &Path) -> Result<(), Error> {
        match path.as_os_str().len() {
            ..=LONGEST_PATH => Ok(()),
            _ => Err(Error::Unsafe { path: path.to_owned(), why: "programs with probes accept paths of up to 207 bytes" }),
        }
    }

    /// Opens the directory and makes it if it does not exist.
    pub fn create(path: &Path) -> Result<RuntimeDir, Error> {
        RuntimeDir::check_length(path)?;
        match fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => RuntimeDir::open(path),
            Err(error) => Err(Error::io("make", path)(error.into())),
        }
    }

    /// Opens the caller's own directory. Fails if it does not belong to the user alone.
    pub fn open(path: &Path) -> Result<RuntimeDir, Error> {
        RuntimeDir::check_length(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match fs::open(path, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(Error::Unsafe { path: path.to_owned(), why: "it is not a directory, or it is a link" });
            }
            Err(error) => return Err(Error::io("open", path)(error.into())),
        };
        RuntimeDir::at(directory, path, rustix::process::geteuid().as_raw())
    }

    /// Uses an open directory. `path` is only for messages.
    pub fn at(directory: OwnedFd, path: &Path, owner: u32) -> Result<RuntimeDir, Error> {
        let found = fs::fstat(&directory).map_err(|error| Error::io("look at", path)(error.into()))?;
        if found.st_uid != owner {
            return Err(Error::Unsafe { path: path.to_owned(), why: "it belongs to another user" });
        }
        if found.st_mode & 0o077 != 0 {
            return Err(Error::Unsafe { path: path.to_owned(), why: "other users may enter it (its mode must be 0700)" });
        }
        Ok(RuntimeDir { path: path.to_owned(), directory, owner, device: OnceLock::new() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Files of the directory by name, without the session files and the site table.
    pub fn entries(&self) -> io::Result<Vec<(String, Entry)>> {
        let mut all = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            match name.to_str() {
                Ok("." | ".." | "sites") => {}
                Ok(name) if session::parse_name(name).is_some() => {}
                Ok(name) => all.push((name.to_owned(), classify(name))),
                Err(_) => all.push((String::new(), Entry::Foreign)),
            }
        }
        Ok(all)
    }

    /// Names and owners of the session files.
    pub fn sessions(&self) -> io::Result<Vec<(String, session::Responsibility)>> {
        let mut all = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            all.extend(session::parse_name(&name).map(|whose| (name, whose)));
        }
        Ok(all)
    }

    /// Opens a file for reading. Fails if it is not a regular file of the directory's owner.
    pub fn open_readable(&self, name: &str) -> io::Result<Opened> {
        self.checked(name, OFlags::RDONLY)
    }

    /// Opens a file for writing. The mode 0400 of the files forbids writing, except for the moment
    /// in which a program or the recorder opens them.
    pub fn open_writable(&self, name: &str) -> io::Result<Opened> {
        for _ in 0..100 {
            let readable = self.checked(name, OFlags::RDONLY)?;
            // Either a file from another directory, which is none of this layout, or a file that is
            // just getting its final name and soon has only that one.
            if readable.links > 1 {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, "it has other names"));
            }
            fs::fchmod(&readable.file, Mode::RUSR | Mode::WUSR)?;
            let writable = self.checked(name, OFlags::RDWR);
            fs::fchmod(&readable.file, Mode::RUSR)?;
            match writable {
                // A program opened the file at the same time and restored the mode between the two
                // calls.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Ok(writable) if writable.inode == readable.inode => return Ok(writable),
                Ok(_) => return Err(io::Error::other("another process replaced the file while it was opened")),
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn checked(&self, name: &str, access: OFlags) -> io::Result<Opened> {
        // NONBLOCK: opening a pipe of that name must not block.
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = fs::openat(&self.directory, name, flags, Mode::empty())?;
        let found = fs::fstat(&file)?;
        if found.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(io::Error::other("no regular file"));
        }
        if found.st_uid != self.owner {
            return Err(io::Error::other("the file of another user"));
        }
        Ok(Opened { file, size: found.st_size as u64, inode: found.st_ino, links: found.st_nlink as u64 })
    }

    /// Makes a new file with allocated memory.
    pub fn make(&self, name: &str, size: u64) -> io::Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&self.directory, name, flags, Mode::RUSR)?;
        // Programs accept only files of their own user.
        let owner = (self.owner != rustix::process::geteuid().as_raw()).then(|| fs::Uid::from_raw(self.owner));
        let made = owner.map_or(Ok(()), |owner| fs::fchown(&file, Some(owner), None));
        match made.and_then(|()| fs::fallocate(&file, fs::FallocateFlags::empty(), 0, size)) {
            Ok(()) => Ok(file),
            Err(error) => {
                self.remove(name);
                Err(error.into())
            }
        }
    }

    pub fn remove(&self, name: &str) {
        // The file may be gone already.
        let _ = fs::unlinkat(&self.directory, name, AtFlags::empty());
    }

    /// Runs `work` while no process can start. Returns `None` without running it if the lock is not
    /// available within about a second.
    pub fn with_no_process_starting<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        for attempt in 0..200 {
            if attempt > 0 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            if fs::flock(&self.directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
                let result = work();
                let _ = fs::flock(&self.directory, FlockOperation::Unlock);
                return Some(result);
            }
        }
        None
    }

    /// Identity of a file of the directory in /proc/PID/maps. All files are on one device, which is
    /// read from the first mapping.
    pub fn mapped(&self, inode: u64, mapping: &Mapping) -> Mapped {
        let device = self.device.get_or_init(|| {
            let found = proc_status::mapped_at(mapping.address()).filter(|found| found.inode == inode).map(|found| found.device);
            found.unwrap_or_else(|| {
                let device = fs::fstat(&self.directory).map_or(0, |found| found.st_dev);
                format!("{:02x}:{:02x}", fs::major(device), fs::minor(device))
            })
        });
        Mapped { device: device.clone(), inode }
    }

    /// Free bytes of the directory's file system.
    pub fn free_memory(&self) -> u64 {
        match fs::fstatvfs(&self.directory) {
            Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
            Err(_) => 0,
        }
    }
}

/// End of the names of control files.
pub(crate) const CONTROL: &str = ".control";

/// Kind of a file, from its name.
pub(crate) fn classify(name: &str) -> Entry {
    if name.starts_with(".new-") {
        return Entry::Temporary;
    }
    let mut parts = name.split('.');
    let stem = parts.next().unwrap_or("");
    let Some(pid) = pid_of(stem) else { return Entry::Foreign };
    let stem = stem.to_owned();
    match (parts.next(), parts.next(), parts.next()) {
        (Some("control"), None, None) => Entry::Control { stem, pid },
        (Some(number), Some("ring"), None) => {
            let (own, digits) = match number.strip_prefix('s') {
                Some(digits) => (false, digits),
                None => (true, number),
            };
            match digits.parse::<u32>() {
                Ok(number) if digits == number.to_string() => Entry::Ring { stem, number, own },
                _ => Entry::Foreign,
            }
        }
        _ => Entry::Foreign,
    }
}

/// The pid in `<pid>-<tag>`.
fn pid_of(stem: &str) -> Option<i32> {
    let (pid, tag) = stem.split_once('-')?;
    let number: i32 = pid.parse().ok()?;
    let plain = number > 0 && pid == number.to_string();
    let tag = !tag.is_empty() && tag.len() <= 32 && tag.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (plain && tag).then_some(number)
}

/// Name of a ring file. `own`: made by a thread of the process.
pub fn ring_name(stem: &str, number: u32, own: bool) -> String {
    match own {
        true => format!("{stem}.{number}.ring"),
        false => format!("{stem}.s{number}.ring"),
    }
}

/// For tests: opens a directory after making it accessible to its owner only.
#[cfg(test)]
pub fn private(path: &Path) -> RuntimeDir {
    fs::chmod(path, Mode::RWXU).expect("a directory of our own");
    RuntimeDir::open(path).expect("a safe directory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, PermissionsExt};

    #[test]
    fn only_names_of_the_layout_are_accepted() {
        let stem = "12-0a0b0c0d".to_owned();
        assert_eq!(classify("12-0a0b0c0d.control"), Entry::Control { stem: stem.clone(), pid: 12 });
        assert_eq!(classify("12-0a0b0c0d.7.ring"), Entry::Ring { stem: stem.clone(), number: 7, own: true });
        assert_eq!(classify("12-0a0b0c0d.s7.ring"), Entry::Ring { stem, number: 7, own: false });
        assert_eq!(classify(".new-5-1"), Entry::Temporary);
        for name in [
            "x.control",
            "-1-a.control",
            "0-a.control",
            "012-a.control",
            "12-.control",
            "12-a.07.ring",
            "12-a.ring",
            "12-a.1.ring.x",
            "12-a/../b.control",
        ] {
            assert_eq!(classify(name), Entry::Foreign, "{name}");
        }
    }

    #[test]
    fn only_directories_named_by_a_uid_belong_to_users() {
        let user = |name: &str| user_of(&Path::new(USERS).join(name));
        assert_eq!((user("longpole-0"), user("longpole-1000")), (Some(0), Some(1000)));
        assert_eq!((user("longpole-"), user("longpole-01"), user("longpole-x"), user("other-1")), (None, None, None, None));
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(RuntimeDir::open(directory.path()), Err(Error::Unsafe { .. })));
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(RuntimeDir::open(directory.path()).is_ok());
        let link = directory.path().join("link");
        symlink(directory.path(), &link).unwrap();
        assert!(matches!(RuntimeDir::open(&link), Err(Error::Unsafe { .. })));
    }

    #[test]
    fn links_pipes_and_directories_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = crate::runtime_dir::private(directory.path());
        symlink("/etc/passwd", directory.path().join("1-a.control")).unwrap();
        std::fs::create_dir(directory.path().join("2-a.control")).unwrap();
        rustix::fs::mknodat(runtime.directory(), "3-a.control", rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for name in ["1-a.control", "2-a.control", "3-a.control"] {
            assert!(runtime.open_writable(name).is_err(), "{name}");
        }
    }
}
