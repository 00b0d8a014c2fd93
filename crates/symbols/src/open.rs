//! Opens the files behind modules and lists of functions, at the path that the recorded process
//! used, and only if they are still the same files.
//!
//! The recorded program chooses these paths, and opening a device can have side effects. Therefore
//! a path is first opened with `O_PATH`, and opened for reading only if it leads to a regular file.
//! Opening never blocks, and a path below a process's root cannot lead out of it.

use rustix::fs::{open, openat2, Mode, OFlags, ResolveFlags, CWD};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Flags to examine a file without opening it for reading.
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// Tolerance in ns for change times, because the file system's clock advances in ticks.
const TOLERANCE_NS: i64 = 10_000_000;
const DELETED: &[u8] = b" (deleted)";

/// A process that has the module mapped, and the address range of the mapping.
#[derive(Clone, Copy, Debug)]
pub struct User {
    pub pid: i32,
    pub range: (u64, u64),
}

/// Opens the module's file. The file must have the module's inode and must not have changed after
/// `end_ns`, because inode numbers are reused. If the path leads elsewhere by now, the file is
/// opened through a living process that still has it mapped.
pub fn module(path: &[u8], inode: u64, users: &[User], end_ns: i64) -> Option<File> {
    let path = path.strip_suffix(DELETED).unwrap_or(path);
    let changed = |found: &Metadata| found.ctime().saturating_mul(1_000_000_000).saturating_add(found.ctime_nsec());
    let is_it = |found: &Metadata| found.ino() == inode && changed(found) <= end_ns.saturating_add(TOLERANCE_NS);
    let same = |path: OwnedFd| regular(path, is_it);
    let seen = |user: &User| below(user.pid, path).and_then(same);
    let direct = || path.starts_with(b"/").then(|| open(OsStr::from_bytes(path), LOOK, Mode::empty()).ok()).flatten();
    let held = |user: &User| {
        // A process without privileges can only open its own mappings.
        let (start, end) = user.range;
        open(format!("/proc/{}/map_files/{start:x}-{end:x}", user.pid), LOOK, Mode::empty()).ok().and_then(same)
    };
    users.iter().find_map(seen).or_else(|| direct().and_then(same)).or_else(|| users.iter().find_map(held))
}

/// Opens a path as the process sees it, for [`regular`].
pub fn below(pid: i32, path: &[u8]) -> Option<OwnedFd> {
    let root = open(format!("/proc/{pid}/root"), OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let relative = path.strip_prefix(b"/")?;
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(root.as_fd(), OsStr::from_bytes(relative), LOOK, Mode::empty(), how).ok()
}

/// Opens a path of this host, for [`regular`].
pub fn path(path: &Path) -> Option<OwnedFd> {
    open(path, LOOK, Mode::empty()).ok()
}

/// Opens a path of this host that contains no symbolic links, for [`regular`]. Users may write into
/// its folders, and a link there could lead to files of the kernel.
pub fn without_links(path: &Path) -> Option<OwnedFd> {
    openat2(CWD, path, LOOK, Mode::empty(), ResolveFlags::NO_SYMLINKS).ok()
}

/// Opens a list of functions in this host's /tmp, for [`regular`].
pub fn list(name: &str) -> Option<OwnedFd> {
    open(format!("/tmp/{name}"), LOOK | OFlags::NOFOLLOW, Mode::empty()).ok()
}

/// Opens a file for reading that was opened with `O_PATH`, if it is a regular file and `wanted`
/// accepts it.
pub fn regular(path: OwnedFd, wanted: impl Fn(&Metadata) -> bool) -> Option<File> {
    let path = File::from(path);
    let found = path.metadata().ok()?;
    if !found.is_file() || !wanted(&found) {
        return None;
    }
    open(format!("/proc/self/fd/{}", path.as_raw_fd()), FLAGS, Mode::empty()).ok().map(File::from)
}
