//! Open-file-description locks, which mark a file as in use. The kernel releases such a lock with
//! the last descriptor, so also if its holder is killed.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

fn request(kind: i32) -> libc::flock {
    // SAFETY: all bits zero is a valid flock: the whole file from its begin.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = kind as i16;
    request.l_whence = libc::SEEK_SET as i16;
    request
}

/// Takes the lock. Returns false if another process holds it.
pub fn take(file: &OwnedFd) -> io::Result<bool> {
    let request = request(libc::F_WRLCK);
    // SAFETY: a valid descriptor and a valid request.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &request) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            error => Err(error),
        },
    }
}

/// Returns whether another descriptor holds the lock.
pub fn is_taken(file: &OwnedFd) -> bool {
    found(file) == Some(libc::F_WRLCK)
}

/// Returns whether certainly no other descriptor holds the lock; false also if the file system has
/// no locks.
pub fn is_free(file: &OwnedFd) -> bool {
    found(file) == Some(libc::F_UNLCK)
}

fn found(file: &OwnedFd) -> Option<i32> {
    let mut request = request(libc::F_RDLCK);
    // SAFETY: as above; the kernel writes the answer into the request.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut request) };
    (result == 0).then_some(i32::from(request.l_type))
}

/// Releases the lock.
pub fn leave(file: &OwnedFd) {
    let request = request(libc::F_UNLCK);
    // SAFETY: a valid descriptor and a valid request; it can only fail where nothing was held.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &request) };
}
