//! The files behind modules and lists of functions: found where the process saw them, and only if they are those that it had.
//!
//! Whoever is recorded chooses these paths, and opening a device can do something. So a path is looked at first, and opened only if it leads to a
//! regular file; nothing waits, and what lies below a process's root stays below it.

use rustix::fs::{open, openat2, Mode, OFlags, ResolveFlags};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// To look at it only.
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// The file system's clock goes by ticks.
const TOLERANCE_NS: i64 = 10_000_000;
const DELETED: &[u8] = b" (deleted)";

/// A process that has the module mapped, and where.
#[derive(Clone, Copy, Debug)]
pub struct User {
    pub pid: i32,
    pub range: (u64, u64),
}

/// The module's file: the one with its inode, and nothing about it changed after `end_ns`, for numbers of inodes are used again. The path may
/// lead elsewhere by now; then a living process has it still.
pub fn module(path: &[u8], inode: u64, users: &[User], end_ns: i64) -> Option<File> {
    let path = path.strip_suffix(DELETED).unwrap_or(path);
    let changed = |found: &Metadata| found.ctime().saturating_mul(1_000_000_000).saturating_add(found.ctime_nsec());
    let is_it = |found: &Metadata| found.ino() == inode && changed(found) <= end_ns.saturating_add(TOLERANCE_NS);
    let same = |path: OwnedFd| regular(path, is_it);
    let seen = |user: &User| below(user.pid, path).and_then(same);
    let direct = || path.starts_with(b"/").then(|| open(OsStr::from_bytes(path), LOOK, Mode::empty()).ok()).flatten();
    let held = |user: &User| {
        // For a process without privileges only its own.
        let (start, end) = user.range;
        open(format!("/proc/{}/map_files/{start:x}-{end:x}", user.pid), LOOK, Mode::empty()).ok().and_then(same)
    };
    users.iter().find_map(seen).or_else(|| direct().and_then(same)).or_else(|| users.iter().find_map(held))
}

/// A path as a process sees it, for [`regular`].
pub fn below(pid: i32, path: &[u8]) -> Option<OwnedFd> {
    let root = open(format!("/proc/{pid}/root"), OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let relative = path.strip_prefix(b"/")?;
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(root.as_fd(), OsStr::from_bytes(relative), LOOK, Mode::empty(), how).ok()
}

/// A list of functions in /tmp, of this machine's own.
pub fn list(name: &str) -> Option<OwnedFd> {
    open(format!("/tmp/{name}"), LOOK | OFlags::NOFOLLOW, Mode::empty()).ok()
}

/// Opens what was only looked at, if it is a regular file and the one that is wanted.
pub fn regular(path: OwnedFd, wanted: impl Fn(&Metadata) -> bool) -> Option<File> {
    let path = File::from(path);
    let found = path.metadata().ok()?;
    if !found.is_file() || !wanted(&found) {
        return None;
    }
    open(format!("/proc/self/fd/{}", path.as_raw_fd()), FLAGS, Mode::empty()).ok().map(File::from)
}
