//! Functions that a program generated itself, from the files that it writes for profilers: a list
//! of functions (`/tmp/perf-PID.map`), or a log of its code (`jit-PID.dump`), which can have lines.
//!
//! Anyone can create such a file. It must be a regular file that belongs to the process's user or
//! to root, and it is read up to a size limit.

mod dump;
mod list;
mod name;

use crate::open;
use crate::spaces::Module;
use crate::table::Function;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const MAX_LIST_BYTES: u64 = 256 << 20;
/// A log also contains the code.
const MAX_LOG_BYTES: u64 = 1 << 30;

/// Returns the functions at those `addresses` that the process's list or log contains. `owner` is
/// the process's user id and its process id in its own namespace.
pub fn functions(pid: i32, owner: Option<(u32, i32)>, log: Option<&Module>, addresses: &BTreeMap<u64, u64>) -> BTreeMap<u64, Function> {
    let own = rustix::process::geteuid().as_raw();
    let trusted = |found: &Metadata| {
        let uid = found.uid();
        uid == 0 || owner.map_or(uid == own, |(owner, _)| uid == owner)
    };
    let inner = owner.map_or(pid, |(_, inner)| inner);
    let name = format!("perf-{inner}.map");
    let list = open::below(pid, format!("/tmp/{name}").as_bytes()).or_else(|| open::list(&name));
    let list = list.and_then(|path| open::regular(path, trusted));
    let log = log.and_then(|log| {
        let is_it = |found: &Metadata| found.ino() == log.inode && trusted(found);
        let path = open::below(pid, &log.path).or_else(|| open::path(Path::new(OsStr::from_bytes(&log.path))));
        path.and_then(|path| open::regular(path, is_it))
    });
    let limited = |file: File, max: u64| BufReader::with_capacity(64 << 10, file.take(max));
    let mut found = list.map_or_else(BTreeMap::new, |file| list::read(limited(file, MAX_LIST_BYTES), addresses));
    // The log knows more of a function.
    found.extend(log.map_or_else(BTreeMap::new, |file| dump::read(limited(file, MAX_LOG_BYTES), addresses)));
    found
}

/// Returns the functions at those `addresses` that a list or a log with this content contains.
pub fn generated_functions(content: &[u8], addresses: &BTreeMap<u64, u64>) -> BTreeMap<u64, Function> {
    let mut found = list::read(content, addresses);
    found.extend(dump::read(content, addresses));
    found
}
