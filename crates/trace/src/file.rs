//! The bytes of a stream file through a window that moves.
//!
//! Nothing is mapped: a recording may be copied, truncated or deleted while it is read, and then there must be an error or an early
//! end and no signal. A trace may have more streams than a process may have open files, and their windows add up; so where there
//! are many, files are opened for each window anew and windows are small.

use longpole_ctf::{FileBuffer, Source};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Files that are kept open.
const MOST_OPEN: usize = 256;
/// Bytes of all windows together, as far as the least size of one allows.
const ALL_WINDOWS: usize = 64 << 20;
const LEAST_WINDOW: usize = 16 << 10;
const MOST_WINDOW: usize = 256 << 10;

/// What a file held when the trace was opened; what is appended later is not seen.
#[derive(Clone, Debug)]
pub(crate) struct StreamFile {
    pub path: PathBuf,
    pub length: u64,
}

impl StreamFile {
    pub fn look(path: &Path) -> io::Result<StreamFile> {
        Ok(StreamFile { path: path.to_owned(), length: path.metadata()?.len() })
    }

    /// A window on the file, one of `streams` that are read at once.
    pub fn window(&self, streams: usize) -> io::Result<FileWindow> {
        let file = if streams <= MOST_OPEN { Some(File::open(&self.path)?) } else { None };
        let size = (ALL_WINDOWS / streams.max(1)).clamp(LEAST_WINDOW, MOST_WINDOW);
        Ok(FileWindow { path: self.path.clone(), file, length: self.length, size, buffer: FileBuffer::default() })
    }
}

#[derive(Debug)]
pub(crate) struct FileWindow {
    path: PathBuf,
    file: Option<File>,
    length: u64,
    size: usize,
    buffer: FileBuffer,
}

impl Source for FileWindow {
    fn len(&self) -> u64 {
        self.length
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
        let opened;
        let file = match &self.file {
            Some(file) => file,
            None => {
                opened = File::open(&self.path)?;
                &opened
            }
        };
        let size = self.length.saturating_sub(start).min(want.max(self.size) as u64) as usize;
        self.buffer.load(file, start, size)
    }
}
