//! What /proc says of a process.

use std::fs;

/// The thread's name, if it lives and is visible.
pub fn thread_name(pid: i32, tid: i32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(printable(text.strip_suffix(b"\n").unwrap_or(&text)))
}

/// Whether process `pid` maps the file with this inode. None: it may, but one cannot see. The path would not do: a control file is
/// mapped before it has its name.
pub fn maps(pid: i32, inode: u64) -> Option<bool> {
    let text = match fs::read(format!("/proc/{pid}/maps")) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(false),
        Err(_) => return None,
    };
    let inode = inode.to_string();
    Some(String::from_utf8_lossy(&text).lines().any(|line| line.split_whitespace().nth(4) == Some(inode.as_str())))
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

pub fn alive(pid: i32) -> bool {
    // SAFETY: signal 0 only asks.
    let result = unsafe { libc::kill(pid, 0) };
    result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

pub fn printable(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
