//! Reads `trace_pipe_raw` of one CPU: complete pages by splice, the incomplete last page by read.
//!
//! Splice moves pages that the kernel has completed from the ring through a pipe into a file; the
//! data does not pass through this process. If the file accepts no more data (for example because
//! the disk is full), the data stays in the pipe, or in memory if it was read, and the next call
//! writes it first.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::pipe::{fcntl_setpipe_size, pipe_with, splice, PipeFlags, SpliceFlags};

use crate::error::TraceFsError;
use crate::tracefs::io_error;

/// Reads the pages of one CPU. While it is open, the kernel does not remove the instance.
#[derive(Debug)]
pub struct RawReader {
    cpu: u32,
    path: PathBuf,
    file: File,
    from: OwnedFd,
    to: OwnedFd,
    /// Number of bytes in the pipe.
    pending: usize,
    /// The page that was read last, and the number of its bytes that were written.
    page: Vec<u8>,
    written: usize,
    capacity: usize,
    page_size: usize,
}

impl RawReader {
    pub(crate) fn open(path: &Path, cpu: u32, page_size: usize) -> Result<RawReader, TraceFsError> {
        let wrap = |error: io::Error| io_error(path, error);
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(wrap)?;
        let (from, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(|e| wrap(e.into()))?;
        // A larger pipe means fewer and larger moves. If the user exceeds the limit for pipes, the
        // pipe keeps the standard size of 64 KiB.
        let capacity =
            [1 << 20, 256 << 10].into_iter().find_map(|size: usize| fcntl_setpipe_size(&to, size).ok().map(|_| size)).unwrap_or(64 << 10);
        Ok(RawReader { cpu, path: path.to_owned(), file, from, to, pending: 0, page: Vec::new(), written: 0, capacity, page_size })
    }

    /// Number of the CPU.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Size of a page in bytes.
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// File descriptor for poll: readable when `buffer_percent` of the buffer is filled.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Moves complete pages into `out`, at its file position, until none is left or `limit` bytes
    /// were moved. Returns the number of bytes moved.
    ///
    /// # Errors
    ///
    /// Errors of the ring and of `out`. An error of `out` loses no data: the data taken from the
    /// ring stays in the pipe for the next call.
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

    /// Writes what was taken from the ring and not written yet. A page is read only if the pipe is
    /// empty, so the bytes of such a page are older than those in the pipe.
    fn flush(&mut self, out: BorrowedFd<'_>) -> io::Result<usize> {
        let mut moved = 0;
        while self.written < self.page.len() {
            match rustix::io::write(out, &self.page[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.written += count;
                    moved += count;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
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

    /// Moves everything that is left, including the incomplete page, after tracing was stopped.
    /// Each read returns one page, which is filled up with zeros.
    pub fn drain_to(&mut self, out: BorrowedFd<'_>) -> io::Result<usize> {
        let mut moved = self.splice_to(out, usize::MAX)?;
        loop {
            match self.copy_page_to(out)? {
                0 => return Ok(moved),
                copied => moved += copied,
            }
        }
    }

    /// Copies the events of one page that are there now, also if the page is incomplete; events
    /// that follow in the same page are read later. Returns the number of bytes written: the size
    /// of the page, with what was taken before and not written, or 0 if there are no events.
    ///
    /// # Errors
    ///
    /// Errors of the ring and of `out`. An error of `out` loses no data, as in
    /// [`RawReader::splice_to`].
    pub fn copy_page_to(&mut self, out: BorrowedFd<'_>) -> io::Result<usize> {
        let moved = self.flush(out)?;
        self.page.clear();
        self.page.resize(self.page_size, 0);
        self.written = self.page_size;
        let mut filled = 0;
        while filled < self.page_size {
            match rustix::io::read(&self.file, &mut self.page[filled..]) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if filled == 0 {
            return Ok(moved);
        }
        self.written = 0;
        Ok(moved + self.flush(out)?)
    }

    /// Path of the file in tracefs.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
