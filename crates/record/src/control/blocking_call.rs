//! The system call in which a thread of this process waits, and whether it is on a file of a given
//! directory.
//!
//! The kernel shows the call as its number and its arguments (`/proc/self/task/TID/syscall`). The
//! file is found without asking its file system, which may not answer: by the link of the
//! descriptor, or by the path that the call was given.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A call with its arguments, or what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockingCall {
    /// Number and the first two arguments. The number is -1 outside of calls.
    Known { number: i64, arguments: [u64; 2] },
    /// The thread no longer waits.
    Running,
    /// The kernel does not show it.
    Unknown,
}

/// The argument that identifies the file of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileArgument {
    /// The first argument is a descriptor.
    Descriptor,
    /// The first argument is the address of a path.
    Path,
    /// The first argument is the descriptor of a directory, the second the address of a path.
    DirectoryAndPath,
}

/// Longest path that is read, in bytes (`PATH_MAX`).
const MAX_PATH_BYTES: usize = 4096;

impl BlockingCall {
    /// `text` is the content of the kernel's file, for example `1 0x5 0x7f00 0x1000 …`.
    pub fn of(text: &str) -> BlockingCall {
        let mut words = text.split_whitespace();
        if text.trim() == "running" {
            return BlockingCall::Running;
        }
        let Some(number) = words.next().and_then(|number| number.parse().ok()) else { return BlockingCall::Unknown };
        let mut argument = || words.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).unwrap_or(0);
        BlockingCall::Known { number, arguments: [argument(), argument()] }
    }

    /// Returns true if the call is on a file in this directory or below. Also true if the kernel
    /// does not show the call: the recorder mostly works on its files.
    pub fn is_on_file_in(self, directory: &Path) -> bool {
        let (number, [first, second]) = match self {
            BlockingCall::Known { number, arguments } => (number, arguments),
            BlockingCall::Running => return false,
            BlockingCall::Unknown => return true,
        };
        let path = match file_argument(number) {
            None => return false,
            Some(FileArgument::Descriptor) => descriptor_path(first),
            Some(FileArgument::Path) => path_at(first),
            Some(FileArgument::DirectoryAndPath) => path_at(second).map(|path| match path.is_absolute() {
                true => path,
                false => descriptor_path(first).unwrap_or_default().join(path),
            }),
        };
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        path.is_ok_and(|path| absolute(&path).starts_with(absolute(directory)))
    }
}

/// Returns which argument identifies the file; `None` if the call is on no file.
fn file_argument(number: i64) -> Option<FileArgument> {
    let by_descriptor = [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_pread64,
        libc::SYS_pwrite64,
        libc::SYS_readv,
        libc::SYS_writev,
        libc::SYS_preadv,
        libc::SYS_pwritev,
        libc::SYS_pwritev2,
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        libc::SYS_ftruncate,
        libc::SYS_fallocate,
        libc::SYS_fstat,
        libc::SYS_getdents64,
        libc::SYS_copy_file_range,
        libc::SYS_fstatfs,
        libc::SYS_close,
    ];
    let by_directory = [
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_mkdirat,
        libc::SYS_unlinkat,
        libc::SYS_renameat,
        libc::SYS_renameat2,
        libc::SYS_linkat,
        libc::SYS_readlinkat,
        libc::SYS_faccessat,
    ];
    #[cfg(target_arch = "x86_64")]
    let by_path = [
        libc::SYS_open,
        libc::SYS_stat,
        libc::SYS_lstat,
        libc::SYS_mkdir,
        libc::SYS_rmdir,
        libc::SYS_unlink,
        libc::SYS_rename,
        libc::SYS_link,
        libc::SYS_readlink,
        libc::SYS_access,
        libc::SYS_statfs,
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let by_path = [libc::SYS_statfs];
    match number {
        number if by_descriptor.contains(&number) => Some(FileArgument::Descriptor),
        number if by_directory.contains(&number) => Some(FileArgument::DirectoryAndPath),
        number if by_path.contains(&number) => Some(FileArgument::Path),
        _ => None,
    }
}

/// Returns the path of an open file. `AT_FDCWD` is the current directory.
fn descriptor_path(descriptor: u64) -> io::Result<PathBuf> {
    match descriptor as i32 {
        libc::AT_FDCWD => std::env::current_dir(),
        descriptor => std::fs::read_link(format!("/proc/self/fd/{descriptor}")),
    }
}

/// Returns the path at this address. The kernel copies it, because the call may end meanwhile, and
/// its memory be freed.
fn path_at(address: u64) -> io::Result<PathBuf> {
    let mut bytes = vec![0u8; MAX_PATH_BYTES];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // One piece for each page: the kernel copies whole pieces, and the next page may not exist.
    let page = 4096;
    let first = page - address % page;
    let piece = |from: u64, length: u64| libc::iovec { iov_base: from as *mut libc::c_void, iov_len: length as usize };
    let remote = [piece(address, first), piece(address.wrapping_add(first), page - first)];
    // SAFETY: `local` is a buffer of that size; the kernel checks the addresses of `remote`.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, remote.as_ptr(), 2, 0) };
    let copied = usize::try_from(copied).map_err(|_| io::Error::last_os_error())?;
    let end = bytes[..copied].iter().position(|&byte| byte == 0).ok_or(io::ErrorKind::InvalidData)?;
    Ok(PathBuf::from(OsStr::from_bytes(&bytes[..end])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::fd::AsRawFd;

    fn call(number: i64, arguments: &[u64]) -> BlockingCall {
        let arguments: Vec<String> = arguments.iter().map(|argument| format!("{argument:#x}")).collect();
        BlockingCall::of(&format!("{number} {} 0x7ffd 0x7f00\n", arguments.join(" ")))
    }

    #[test]
    fn calls_on_files_of_the_directory_are_found_by_descriptor_and_by_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("stream")).unwrap();
        let (inside, outside) = (folder.path(), Path::new("/proc/self"));
        let on_file = [call(libc::SYS_write, &[file.as_raw_fd() as u64, 0x1000, 16]), call(libc::SYS_fsync, &[file.as_raw_fd() as u64])];
        let text = CString::new(folder.path().join("metadata").as_os_str().as_bytes()).unwrap();
        let here = libc::AT_FDCWD as u64;
        let on_path = call(libc::SYS_openat, &[here, text.as_ptr() as u64, 0]);
        let directory = std::fs::File::open(folder.path()).unwrap();
        let name = CString::new("metadata").unwrap();
        let in_directory = call(libc::SYS_unlinkat, &[directory.as_raw_fd() as u64, name.as_ptr() as u64, 0]);
        for call in [on_file[0], on_file[1], on_path, in_directory] {
            assert!(call.is_on_file_in(inside) && !call.is_on_file_in(outside), "{call:?}");
        }
    }

    #[test]
    fn other_calls_are_on_no_file_and_a_call_that_is_not_shown_may_be() {
        let folder = tempfile::tempdir().unwrap();
        for call in [call(libc::SYS_membarrier, &[1, 0, 0]), call(libc::SYS_close, &[9999]), call(libc::SYS_openat, &[0, 8, 0])] {
            assert!(!call.is_on_file_in(folder.path()), "{call:?}");
        }
        assert!(!BlockingCall::of("running\n").is_on_file_in(folder.path()));
        assert!(BlockingCall::of("").is_on_file_in(folder.path()));
    }
}
