//! Sources of the bytes of a stream: all at once in memory, or through a window that moves.
//!
//! Mapped files are fast, but if a file is truncated while it is mapped, the reader is killed by
//! SIGBUS. For files that another process may still change there is [`FileSource`], which reads
//! through a buffer of constant size; a file that shrinks then only looks like a stream that ends
//! early.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The bytes of one stream, seen through a window.
pub trait Source {
    /// Size of the whole stream, in bytes.
    fn len(&self) -> u64;

    /// Returns true if the stream has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that are visible at present.
    fn bytes(&self) -> &[u8];

    /// Byte of the stream at which the visible bytes begin.
    fn start(&self) -> u64;

    /// Moves the window so that it holds `want` bytes from byte `start` on; fewer only if the
    /// stream ends before.
    fn load(&mut self, start: u64, want: usize) -> io::Result<()>;
}

/// A stream that is in memory or mapped: `&[u8]`, `Vec<u8>`, `Arc<[u8]>`, a memory map.
#[derive(Debug)]
pub struct BytesSource<T>(pub T);

impl<T: AsRef<[u8]>> Source for BytesSource<T> {
    #[inline]
    fn len(&self) -> u64 {
        self.0.as_ref().len() as u64
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.0.as_ref()
    }

    #[inline]
    fn start(&self) -> u64 {
        0
    }

    fn load(&mut self, _: u64, _: usize) -> io::Result<()> {
        Ok(())
    }
}

/// A part of a file, read by `pread` into a buffer that is reused.
#[derive(Debug, Default)]
pub struct FileBuffer {
    start: u64,
    bytes: Vec<u8>,
}

impl FileBuffer {
    /// Reads `size` bytes from byte `start` on; fewer if the file ends before, for example because
    /// it was truncated in the meantime.
    pub fn load(&mut self, file: &File, start: u64, size: usize) -> io::Result<()> {
        self.start = start;
        self.bytes.resize(size, 0);
        let mut filled = 0;
        let outcome = loop {
            if filled == size {
                break Ok(());
            }
            match file.read_at(&mut self.bytes[filled..], start + filled as u64) {
                Ok(0) => break Ok(()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.bytes.truncate(filled);
        outcome
    }

    /// The bytes in the buffer.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Offset in the file of the first byte in the buffer.
    #[inline]
    pub fn start(&self) -> u64 {
        self.start
    }
}

/// A stream that is read by `pread` through a buffer.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    len: u64,
    buffer: FileBuffer,
}

/// Size of the window in bytes: fits the second-level cache, and makes the cost of the system call
/// negligible.
const WINDOW: usize = 256 << 10;

impl FileSource {
    /// Reads what the file contains now; data that is appended later is not seen.
    pub fn new(file: File) -> io::Result<FileSource> {
        let len = file.metadata()?.len();
        Ok(FileSource { file, len, buffer: FileBuffer::default() })
    }
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    #[inline]
    fn start(&self) -> u64 {
        self.buffer.start()
    }

    fn load(&mut self, start: u64, want: usize) -> io::Result<()> {
        let size = self.len.saturating_sub(start).min(want.max(WINDOW) as u64) as usize;
        self.buffer.load(&self.file, start, size)
    }
}
