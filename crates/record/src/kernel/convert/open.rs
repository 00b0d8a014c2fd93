//! Files beside the pages, which anybody may have put there: a link leads elsewhere, and a pipe would never end.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Larger than any text that a recorder writes there.
pub const MOST_BYTES: u64 = 16 << 20;

/// A regular file itself, no link to one; others fail at once.
pub fn regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// What is no UTF-8 is read as far as it is; what has more bytes than `most` is an error.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    if regular(path)?.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it has more than {most} bytes")));
    }
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
