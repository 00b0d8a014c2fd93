//! Where the bytes of a stream come from: all at once, or through a window that moves.
//!
//! Mapped files are fast, but a file that is truncated while it is mapped kills the reader with a signal. For files that
//! somebody may still touch there is [`FileSource`], which reads through a buffer of constant size; a file that shrinks
//! is then only a stream that ends early.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The bytes of one stream, seen through a window.
pub trait Source {
    /// Bytes in the whole stream.
    fn len(&self) -> u64;

    /// The source has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that are visible now.
    fn bytes(&self) -> &[u8];

    /// Where in the stream they begin.
    fn start(&self) -> u64;

    /// Moves the window so that it holds `want` bytes from `start` on; fewer only if the stream ends before.
    fn load(&mut self, start: u64, want: usize) -> io::Result<()>;
}

/// A stream that is in memory or mapped: `&[u8]`, `Vec<u8>`, `Arc<[u8]>`, a map.
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

/// A part of a file, read by `pread` into a buffer that is used again.
#[derive(Debug, Default)]
pub struct FileBuffer {
    start: u64,
    bytes: Vec<u8>,
}

impl FileBuffer {
    /// Reads `size` bytes from `start` on; fewer if the file ends before, as one that was truncated meanwhile does.
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

    /// The bytes that are held.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Offset of their first one in the file.
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

/// Fits the second-level cache, and is large enough to forget the system call's cost.
const WINDOW: usize = 256 << 10;

impl FileSource {
    /// Reads what the file holds now; what is appended later is not seen.
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
