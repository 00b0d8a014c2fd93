//! The files behind modules and lists of functions: found where the process saw them, and only if they are those that it had.
//!
//! Whoever is recorded chooses these paths. So nothing but a regular file is opened, nothing waits, and what lies below a process's root
//! stays below it.

use rustix::fs::{open, openat2, Mode, OFlags, ResolveFlags};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

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
    let is_it = |found: Metadata| found.ino() == inode && changed(&found) <= end_ns.saturating_add(TOLERANCE_NS);
    let same = |file: File| regular(file).filter(|file| file.metadata().is_ok_and(is_it));
    let seen = |user: &User| below(user.pid, path).and_then(same);
    let direct = || path.starts_with(b"/").then(|| open(OsStr::from_bytes(path), FLAGS, Mode::empty()).ok()).flatten();
    let held = |user: &User| {
        // For a process without privileges only its own.
        let (start, end) = user.range;
        open(format!("/proc/{}/map_files/{start:x}-{end:x}", user.pid), FLAGS, Mode::empty()).ok().map(File::from).and_then(same)
    };
    users.iter().find_map(seen).or_else(|| direct().map(File::from).and_then(same)).or_else(|| users.iter().find_map(held))
}

/// A path as a process sees it.
pub fn below(pid: i32, path: &[u8]) -> Option<File> {
    let root = open(format!("/proc/{pid}/root"), OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let relative = path.strip_prefix(b"/")?;
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(root.as_fd(), OsStr::from_bytes(relative), FLAGS, Mode::empty(), how).ok().map(File::from)
}

/// A list of functions in /tmp, of this machine's own.
pub fn list(name: &str) -> Option<File> {
    open(format!("/tmp/{name}"), FLAGS | OFlags::NOFOLLOW, Mode::empty()).ok().map(File::from)
}

pub fn regular(file: File) -> Option<File> {
    file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
}
