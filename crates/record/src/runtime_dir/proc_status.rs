//! What /proc says of a process.

use std::fs;

/// The thread's name, if it lives and is visible.
pub fn thread_name(pid: i32, tid: i32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(printable(text.strip_suffix(b"\n").unwrap_or(&text)))
}

/// A file as the kernel tells it in lists of mappings. The device is not always the one that `stat` tells: file systems made of others
/// name one of those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// `major:minor`
    pub device: String,
    pub inode: u64,
}

/// Whether process `pid` maps this file. None: it may, but one cannot see. The path would not do: a control file is mapped before it has
/// its name.
pub fn maps(pid: i32, file: &Mapped) -> Option<bool> {
    match fs::read(format!("/proc/{pid}/maps")) {
        Ok(text) => Some(mappings(&text).any(|(_, mapped)| mapped == *file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(false),
        Err(_) => None,
    }
}

/// What is mapped at an address of this process.
pub fn mapped_at(address: usize) -> Option<Mapped> {
    let text = fs::read("/proc/self/maps").ok()?;
    let found = mappings(&text).find(|(begin, _)| *begin == address);
    found.map(|(_, mapped)| mapped)
}

/// Begin and file of each mapping.
fn mappings(text: &[u8]) -> impl Iterator<Item = (usize, Mapped)> + '_ {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        // The path at a line's end may hold anything.
        let mut words = line.split(|byte| *byte == b' ').map(|word| std::str::from_utf8(word).unwrap_or(""));
        let begin = usize::from_str_radix(words.next()?.split('-').next()?, 16).ok()?;
        let device = words.nth(2)?.to_owned();
        Some((begin, Mapped { device, inode: words.next()?.parse().ok()? }))
    })
}

/// The process's parent.
pub fn parent(pid: i32) -> Option<i32> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name in parentheses may hold anything.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// Whether `pid` is `ancestor` or was started by it, as far as the chain of parents is intact.
pub fn descends(pid: i32, ancestor: i32) -> bool {
    let mut current = pid;
    for _ in 0..64 {
        if current == ancestor {
            return true;
        }
        match parent(current) {
            Some(next) if next > 1 => current = next,
            _ => return false,
        }
    }
    false
}

/// The pids and tids of a thread, from our namespace to its own.
fn numbers(status: &str) -> Option<(i32, i32)> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let mut all = line.split_whitespace().filter_map(|number| number.parse().ok());
    let outer = all.next()?;
    Some((outer, all.next_back().unwrap_or(outer)))
}

/// Processes that call themselves by another pid than we do: (ours, theirs).
pub fn namespaced() -> Vec<(i32, i32)> {
    let status = |pid: i32| fs::read_to_string(format!("/proc/{pid}/status")).ok();
    processes().filter_map(|pid| numbers(&status(pid)?)).filter(|(outer, inner)| outer != inner).collect()
}

/// The threads of a process: what they call themselves, and what we do.
pub fn threads_by_inner_tid(pid: i32) -> Vec<(i32, i32)> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let statuses = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    statuses.filter_map(|status| numbers(&status)).map(|(outer, inner)| (inner, outer)).collect()
}

/// All processes that we see.
pub fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

pub fn alive(pid: i32) -> bool {
    // SAFETY: signal 0 only asks.
    let result = unsafe { libc::kill(pid, 0) };
    result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

pub fn printable(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_is_told_by_device_and_inode() {
        let text =
            b"7f00-8f00 rw-s 00000000 00:1a 77     /dev/shm/x y\n9000-a000 r--p 00000000 08:01 78\nb000-c000 rw-p 00000000 00:00 0 \n";
        let all: Vec<(usize, Mapped)> = mappings(text).collect();
        let file = |device: &str, inode| Mapped { device: device.to_owned(), inode };
        assert_eq!(all, [(0x7f00, file("00:1a", 77)), (0x9000, file("08:01", 78)), (0xb000, file("00:00", 0))]);
    }

    #[test]
    fn a_file_of_another_device_with_the_same_inode_is_not_mapped() {
        use crate::runtime_dir::mapping::{Access, Mapping};
        use std::os::fd::AsFd;
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let mapping = Mapping::new(file.as_fd(), 4096, Access::Read).unwrap();
        let mapped = mapped_at(mapping.address()).unwrap();
        let own = std::process::id() as i32;
        assert_eq!(maps(own, &mapped), Some(true));
        assert_eq!(maps(own, &Mapped { device: "ff:ff".to_owned(), ..mapped.clone() }), Some(false));
        assert_eq!(maps(own, &Mapped { inode: mapped.inode ^ (1 << 40), ..mapped }), Some(false));
        assert_eq!(maps(i32::MAX, &Mapped { device: String::new(), inode: 0 }), Some(false));
    }
}
