//! Who was there when the sampling began: names of threads, and what code each process had mapped where.
//!
//! It is read from /proc beside the sampling, a process at a time, and stands in a stream of its own, dated to the begin: what changes
//! meanwhile is in the kernel's own records, which come later.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};

/// Of one process; more than this maps no sane program.
const MOST_LINES: usize = 1 << 16;
const LONGEST_LINE: u64 = 8192;

/// A piece of executable memory, named as the kernel's records name it.
#[derive(Debug, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub length: u64,
    pub offset: u64,
    pub inode: u64,
    pub path: Vec<u8>,
}

/// Code that a program made itself.
pub const ANONYMOUS: &[u8] = b"//anon";

/// Whether the program may have written this code itself, and a list of its functions for profilers.
pub fn is_made(path: &[u8]) -> bool {
    path == ANONYMOUS || path.starts_with(b"/memfd:")
}

/// Processes that are still to be looked at.
pub fn processes() -> VecDeque<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Thread ids with their names.
pub fn threads(pid: i32) -> Vec<(i32, Vec<u8>)> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let name = |tid: i32| {
        let mut name = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
        name.truncate(name.iter().position(|byte| matches!(byte, b'\n' | 0)).unwrap_or(name.len()));
        Some((tid, name))
    };
    ids.filter_map(name).collect()
}

/// Executable memory of a process.
pub fn mappings(pid: i32) -> Vec<Mapping> {
    let Ok(file) = File::open(format!("/proc/{pid}/maps")) else { return Vec::new() };
    let mut lines = BufReader::new(file);
    let mut found = Vec::new();
    let mut line = Vec::new();
    for _ in 0..MOST_LINES {
        line.clear();
        match lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => found.extend(mapping(&line)),
        }
    }
    found
}

/// A line of `maps`: `start-end rwxp offset dev inode path`.
fn mapping(line: &[u8]) -> Option<Mapping> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut words = line.splitn(6, |byte| *byte == b' ');
    let mut word = || std::str::from_utf8(words.next()?).ok();
    let (start, end) = word()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    if word()?.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let offset = u64::from_str_radix(word()?, 16).ok()?;
    word()?;
    let inode = word()?.parse().ok()?;
    let path = words.next().unwrap_or(&[]).trim_ascii_start();
    let path = match path {
        b"[vdso]" | b"[vsyscall]" => path.to_vec(),
        _ if inode == 0 => ANONYMOUS.to_vec(),
        path => unescaped(path),
    };
    Some(Mapping { start, length: end.checked_sub(start)?, offset, inode, path })
}

/// The kernel writes a line's end in a path as `\012`.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, after)) = rest.split_first() {
        match rest.strip_prefix(b"\\012") {
            Some(after) => {
                out.push(b'\n');
                rest = after;
            }
            None => {
                out.push(first);
                rest = after;
            }
        }
    }
    out
}

/// Effective user, and the pid in the process's own namespace.
pub fn owner(pid: i32) -> Option<(u32, i32)> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let uid = field("Uid:")?.split_whitespace().nth(1)?.parse().ok()?;
    let inner = field("NSpid:").and_then(|pids| pids.split_whitespace().last()?.parse().ok());
    Some((uid, inner.unwrap_or(pid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_memory_is_taken_and_named_as_the_kernel_does() {
        let line = |text: &str| mapping(text.as_bytes());
        assert_eq!(line("00400000-00452000 r--p 00000000 08:02 173521 /usr/bin/dbus-daemon\n"), None);
        let found = line("00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a b\\012c (deleted)\n").unwrap();
        assert_eq!((found.start, found.length, found.offset, found.inode), (0x40_0000, 0x5_2000, 0x1000, 173_521));
        assert_eq!(found.path, b"/usr/bin/a b\nc (deleted)");
        assert_eq!(line("7f00-7f10 rwxp 00000000 00:00 0 \n").unwrap().path, ANONYMOUS);
        assert_eq!(line("7f00-7f10 r-xp 00000000 00:00 0 [anon:code]\n").unwrap().path, ANONYMOUS);
        assert_eq!(line("7f00-7f10 r-xp 00000000 00:00 0                [vdso]\n").unwrap().path, b"[vdso]");
        for wrong in ["", "x", "1-2", "2-1 r-xp 0 0 0 /a", "1-2 r-xp 0 0:0 x /a"] {
            assert_eq!(line(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn this_process_has_its_own_code_mapped() {
        let own = std::process::id() as i32;
        let program = fs::read_link("/proc/self/exe").unwrap();
        let mappings = mappings(own);
        assert!(mappings.iter().any(|mapping| mapping.path == program.as_os_str().as_encoded_bytes() && mapping.inode != 0));
        assert!(threads(own).iter().any(|(tid, _)| *tid == own));
        assert_eq!(owner(own).unwrap().1, own);
    }
}
