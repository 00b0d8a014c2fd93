//! Facts about processes and threads from /proc.

use std::fs;

/// Name of a thread; `None` if the thread has ended or is not visible.
pub fn thread_name(pid: i32, tid: i32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(crate::text::printable(text.strip_suffix(b"\n").unwrap_or(&text)))
}

/// Identity of a file in /proc/PID/maps. The device may differ from the one of `stat`: a file
/// system that consists of several others shows the device of one of those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// `major:minor`
    pub device: String,
    pub inode: u64,
}

/// Returns whether process `pid` maps this file; `None` if that cannot be seen. Paths are not
/// compared, because a control file is mapped before it gets its name.
pub fn maps(pid: i32, file: &Mapped) -> Option<bool> {
    match fs::read(format!("/proc/{pid}/maps")) {
        Ok(text) => Some(mappings(&text).any(|(_, mapped)| mapped == *file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(false),
        Err(_) => None,
    }
}

/// File that is mapped at an address of this process.
pub fn mapped_at(address: usize) -> Option<Mapped> {
    let text = fs::read("/proc/self/maps").ok()?;
    let found = mappings(&text).find(|(begin, _)| *begin == address);
    found.map(|(_, mapped)| mapped)
}

/// First address and file of each mapping.
fn mappings(text: &[u8]) -> impl Iterator<Item = (usize, Mapped)> + '_ {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        // The path at the end of a line may hold any bytes.
        let mut words = line.split(|byte| *byte == b' ').map(|word| std::str::from_utf8(word).unwrap_or(""));
        let begin = usize::from_str_radix(words.next()?.split('-').next()?, 16).ok()?;
        let device = words.nth(2)?.to_owned();
        Some((begin, Mapped { device, inode: words.next()?.parse().ok()? }))
    })
}

/// Pid of the process's parent.
pub fn parent(pid: i32) -> Option<i32> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name in parentheses may hold any characters.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// Returns whether `pid` is `ancestor` or descends from it. A parent that has ended interrupts the
/// chain.
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

/// Number of a process or thread in this pid namespace and in its own, from the text of its status
/// file.
fn numbers(status: &str) -> Option<(i32, i32)> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let mut all = line.split_whitespace().filter_map(|number| number.parse().ok());
    let outer = all.next()?;
    Some((outer, all.next_back().unwrap_or(outer)))
}

/// Processes of other pid namespaces: (pid here, pid in their namespace).
pub fn namespaced() -> Vec<(i32, i32)> {
    let status = |pid: i32| fs::read_to_string(format!("/proc/{pid}/status")).ok();
    processes().filter_map(|pid| numbers(&status(pid)?)).filter(|(outer, inner)| outer != inner).collect()
}

/// Threads of a process: (tid in its namespace, tid here).
pub fn threads_by_inner_tid(pid: i32) -> Vec<(i32, i32)> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let statuses = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    statuses.filter_map(|status| numbers(&status)).map(|(outer, inner)| (inner, outer)).collect()
}

/// Pids of all visible processes.
pub fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns whether a process with this pid exists, also as a zombie.
pub fn alive(pid: i32) -> bool {
    // SAFETY: signal 0 only checks for existence.
    let result = unsafe { libc::kill(pid, 0) };
    result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_is_identified_by_device_and_inode() {
        let text =
            b"7f00-8f00 rw-s 00000000 00:1a 77     /dev/shm/x y\n9000-a000 r--p 00000000 08:01 78\nb000-c000 rw-p 00000000 00:00 0 \n";
        let all: Vec<(usize, Mapped)> = mappings(text).collect();
        let file = |device: &str, inode| Mapped { device: device.to_owned(), inode };
        assert_eq!(all, [(0x7f00, file("00:1a", 77)), (0x9000, file("08:01", 78)), (0xb000, file("00:00", 0))]);
    }

    #[test]
    fn a_file_of_another_device_with_the_same_inode_is_not_mapped() {
        use crate::files::mapping::{Access, Mapping};
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
