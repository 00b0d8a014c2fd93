//! `trace_pipe_raw` of one CPU: whole pages by splice, the unfinished last one by read.
//!
//! Splice moves pages that the kernel has finished from the ring through a pipe into a file; no byte passes through this process.
//! What is in the pipe when the file takes no more (a full disk) stays there, and the next call tries it first.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::pipe::{fcntl_setpipe_size, pipe_with, splice, PipeFlags, SpliceFlags};

use crate::error::TraceFsError;
use crate::tracefs::io_error;

/// Reads the pages of one CPU. Its being open keeps the instance from being removed.
#[derive(Debug)]
pub struct RawReader {
    cpu: u32,
    path: PathBuf,
    file: File,
    from: OwnedFd,
    to: OwnedFd,
    /// Bytes in the pipe.
    pending: usize,
    capacity: usize,
    page_size: usize,
}

impl RawReader {
    pub(crate) fn open(path: &Path, cpu: u32, page_size: usize) -> Result<RawReader, TraceFsError> {
        let wrap = |error: io::Error| io_error(path, error);
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(wrap)?;
        let (from, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(|e| wrap(e.into()))?;
        // Fewer, larger moves; a user over the limit for pipes keeps the standard 64 KiB.
        let capacity =
            [1 << 20, 256 << 10].into_iter().find_map(|size: usize| fcntl_setpipe_size(&to, size).ok().map(|_| size)).unwrap_or(64 << 10);
        Ok(RawReader { cpu, path: path.to_owned(), file, from, to, pending: 0, capacity, page_size })
    }

    /// Number of the CPU.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// For poll: readable when the instance's `buffer_percent` of the buffer is filled.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Moves the finished pages into `out`, at its position, until none is left or `limit` bytes were moved. Returns the bytes.
    /// An error of `out` loses nothing: what was taken from the ring stays in the pipe for the next call.
    pub fn splice_to(&mut self, out: BorrowedFd<'_>, limit: usize) -> io::Result<usize> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let mut moved = self.flush(out)?;
        while moved < limit {
            let want = self.capacity.min(limit - moved).max(self.page_size) / self.page_size * self.page_size;
            match splice(&self.file, None, &self.to, None, want, flags) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(count) => self.pending = count,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            moved += self.flush(out)?;
        }
        Ok(moved)
    }

    fn flush(&mut self, out: BorrowedFd<'_>) -> io::Result<usize> {
        let mut moved = 0;
        while self.pending > 0 {
            match splice(&self.from, None, out, None, self.pending, SpliceFlags::MOVE) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.pending -= count;
                    moved += count;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(moved)
    }

    /// Takes everything that is left, the unfinished page included, after tracing was stopped. Each read yields one page,
    /// filled up with zeroes.
    pub fn drain_to(&mut self, out: BorrowedFd<'_>) -> io::Result<usize> {
        let mut moved = self.splice_to(out, usize::MAX)?;
        let mut page = vec![0; self.page_size];
        loop {
            let mut filled = 0;
            while filled < page.len() {
                match rustix::io::read(&self.file, &mut page[filled..]) {
                    Ok(0) | Err(Errno::AGAIN) => break,
                    Ok(count) => filled += count,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if filled == 0 {
                return Ok(moved);
            }
            page[filled..].fill(0);
            let mut written = 0;
            while written < page.len() {
                match rustix::io::write(out, &page[written..]) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => written += count,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            moved += page.len();
        }
    }

    /// The file in the kernel's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
