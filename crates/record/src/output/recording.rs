//! The directory of a recording, and its description `longpole.json`.

use crate::files::FileError;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Default folder for recordings: `LONGPOLE_ROOT`, else `traces`.
pub fn root() -> PathBuf {
    match std::env::var_os("LONGPOLE_ROOT") {
        Some(root) if !root.is_empty() => PathBuf::from(root),
        _ => PathBuf::from("traces"),
    }
}

/// Makes the directory of a recording that begins at `unix_ns`, with `user/` in it.
pub fn create(root: &Path, unix_ns: u64) -> Result<PathBuf, FileError> {
    fs::create_dir_all(root).map_err(FileError::io("make", root))?;
    let root = fs::canonicalize(root).map_err(FileError::io("find", root))?;
    let name = name(unix_ns);
    for attempt in 1..1000 {
        let path = match attempt {
            1 => root.join(&name),
            attempt => root.join(format!("{name}-{attempt}")),
        };
        // Only the owner has access, because a recording may hold system calls and names of all
        // users.
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {
                let user = path.join("user");
                fs::create_dir(&user).map_err(FileError::io("make", user))?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(FileError::io("make", path)(error)),
        }
    }
    Err(FileError::io("make", root.join(name))(io::ErrorKind::AlreadyExists.into()))
}

/// Name of a recording's folder: its start in UTC, `2026-11-20T23-04-05.123Z`.
fn name(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let millis = unix_ns / 1_000_000 % 1000;
    let mut parts: libc::tm = {
        // SAFETY: all bits zero is a valid tm.
        unsafe { std::mem::zeroed() }
    };
    let time = seconds as libc::time_t;
    // SAFETY: both pointers refer to locals; the function stores neither.
    unsafe { libc::gmtime_r(&time, &mut parts) };
    format!(
        "{:04}-{:02}-{:02}T{:02}-{:02}-{:02}.{millis:03}Z",
        parts.tm_year + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec
    )
}

/// Disk space that is reserved for the end of a recording. If the disk is full by then, its losses
/// and its description can still be written.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
    file: Option<File>,
    length: u64,
}

/// Bytes reserved at the start.
const RESERVE: u64 = 256 << 10;
/// Bytes reserved for the description; the rest is for the losses of the streams.
const DESCRIPTION: u64 = 128 << 10;
/// Bytes released at a time.
const STEP: u64 = 16 << 10;

impl Reserve {
    /// Reserves the space. If the disk is already full, nothing is reserved.
    pub fn make(directory: &Path) -> Reserve {
        let path = directory.join(".reserve");
        let file = OpenOptions::new().write(true).create_new(true).open(&path).ok();
        if let Some(file) = &file {
            let _ = rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, RESERVE);
        }
        Reserve { path, file, length: RESERVE }
    }

    /// Releases some of the space. Returns false if none is left.
    pub fn give(&mut self) -> bool {
        let Some(file) = self.file.as_ref().filter(|_| self.length > DESCRIPTION) else { return false };
        self.length -= STEP;
        file.set_len(self.length).is_ok()
    }

    pub fn remove(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Replaces `longpole.json` atomically: a reader sees the old or the new one.
pub fn describe(directory: &Path, description: &serde_json::Value) -> io::Result<()> {
    let hidden = directory.join(".longpole.json");
    let mut text = serde_json::to_vec_pretty(description)?;
    text.push(b'\n');
    fs::write(&hidden, text)?;
    fs::rename(&hidden, directory.join("longpole.json"))
}

/// Turns a label into a part of a file name that cannot lead to another folder, hide the file, or
/// confuse a terminal.
pub fn component(label: &str) -> String {
    let mut out = String::new();
    for c in label.chars() {
        let c = match c {
            '/' | '\0' | '\\' | ':' | '\u{fffd}' => '_',
            c if c.is_control() || c.is_whitespace() => '_',
            // Invisible characters, and characters that change the direction of the text.
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => '_',
            c => c,
        };
        if out.len() + c.len_utf8() > 100 {
            break;
        }
        out.push(c);
    }
    // Leading dots hide a file; a leading hyphen is an option for commands.
    let out = out.trim_start_matches(['.', '-']).to_owned();
    if out.is_empty() || out.chars().all(|c| c == '.') {
        "unnamed".to_owned()
    } else {
        out
    }
}

/// Name of the host.
pub fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned()).unwrap_or_default()
}

/// Release of the running kernel.
pub fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").map(|name| name.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_named_by_its_utc_start_time() {
        assert_eq!(name(1_795_215_845_123_456_789), "2026-11-20T23-04-05.123Z");
        let root = tempfile::tempdir().unwrap();
        let first = create(root.path(), 5_000_000).unwrap();
        let second = create(root.path(), 5_000_000).unwrap();
        assert!(first.ends_with("1970-01-01T00-00-00.005Z"), "{first:?}");
        assert!(second.ends_with("1970-01-01T00-00-00.005Z-2"), "{second:?}");
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&first).unwrap());
        assert_eq!(mode & 0o777, 0o700, "others can look into it");
    }

    #[test]
    fn labels_cannot_lead_out_of_the_directory() {
        assert_eq!(component("../../etc/passwd"), "_.._etc_passwd");
        assert_eq!(component(".."), "unnamed");
        assert_eq!(component(""), "unnamed");
        assert_eq!(component("init -> nic_router"), "init_->_nic_router");
        assert_eq!(component("a\nb\0c"), "a_b_c");
        assert_eq!(component("--rf \u{202e}x"), "rf__x");
        assert_eq!(component(&"ä".repeat(200)).len(), 100);
    }
}
