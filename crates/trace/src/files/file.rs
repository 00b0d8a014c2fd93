//! The bytes of a stream file, through a window that moves.
//!
//! Files are not mapped into memory. A recording may be copied, truncated or deleted while it is
//! read, and this must lead to an error or an early end, not to a signal. A trace may have more
//! streams than a process may have open files, and the windows of all streams add up. With many
//! streams, files are therefore opened again for each load, and windows are small.

use longpole_ctf::{FileBuffer, Source};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Maximum number of files that are kept open.
const MAX_OPEN: usize = 256;
/// Size in bytes of all windows together, unless the least size of a window requires more.
const ALL_WINDOWS: usize = 64 << 20;
const MIN_WINDOW: usize = 16 << 10;
const MAX_WINDOW: usize = 256 << 10;

/// A file with its length when the trace was opened. Data appended later is not read.
#[derive(Clone, Debug)]
pub(crate) struct StreamFile {
    pub path: PathBuf,
    pub length: u64,
}

impl StreamFile {
    /// Returns the file with its current length.
    pub fn look(path: &Path) -> io::Result<StreamFile> {
        Ok(StreamFile { path: path.to_owned(), length: path.metadata()?.len() })
    }

    /// Returns a window on the file, for one of `streams` files that are read at the same time.
    pub fn window(&self, streams: usize) -> io::Result<FileWindow> {
        self.open(streams, (ALL_WINDOWS / streams.max(1)).clamp(MIN_WINDOW, MAX_WINDOW))
    }

    /// Like [`StreamFile::window`], for reading only packet headers, which are far apart. The
    /// window has the least size.
    pub fn skim(&self, streams: usize) -> io::Result<FileWindow> {
        self.open(streams, MIN_WINDOW)
    }

    fn open(&self, streams: usize, size: usize) -> io::Result<FileWindow> {
        let file = if streams <= MAX_OPEN { Some(Rc::new(File::open(&self.path)?)) } else { None };
        Ok(FileWindow { path: self.path.clone(), file, length: self.length, size, buffer: Rc::default(), pair: None })
    }
}

#[derive(Debug)]
pub(crate) struct FileWindow {
    path: PathBuf,
    file: Option<Rc<File>>,
    length: u64,
    size: usize,
    buffer: Rc<FileBuffer>,
    pair: Option<Rc<RefCell<Pair>>>,
}

/// State shared by two windows on a file, one of which follows the other and needs the same bytes a
/// little later.
#[derive(Debug, Default)]
struct Pair {
    /// Buffer that was read last.
    latest: Rc<FileBuffer>,
    /// Buffer that neither window shows, to be reused.
    spare: Rc<FileBuffer>,
}

impl FileWindow {
    /// Returns another window on the file. What one of the two has read last, the other one does
    /// not read again.
    pub fn twin(&mut self) -> FileWindow {
        let pair = self.pair.get_or_insert_default().clone();
        FileWindow { path: self.path.clone(), file: self.file.clone(), buffer: Rc::default(), pair: Some(pair), ..*self }
    }

    fn show(&mut self, buffer: Rc<FileBuffer>, spare: &mut Rc<FileBuffer>) {
        let before = std::mem::replace(&mut self.buffer, buffer);
        if Rc::strong_count(&before) == 1 {
            *spare = before;
        }
    }

    fn read(&self, buffer: &mut Rc<FileBuffer>, start: u64, want: usize) -> io::Result<()> {
        let opened;
        let file = match &self.file {
            Some(file) => file.as_ref(),
            None => {
                opened = File::open(&self.path)?;
                &opened
            }
        };
        let size = self.length.saturating_sub(start).min(want.max(self.size) as u64) as usize;
        if Rc::get_mut(buffer).is_none() {
            *buffer = Rc::default();
        }
        // The buffer was replaced above if it was shared, so this is its only owner.
        Rc::get_mut(buffer).map_or(Ok(()), |buffer| buffer.load(file, start, size))
    }
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
        let Some(pair) = self.pair.clone() else {
            let mut buffer = std::mem::take(&mut self.buffer);
            let read = self.read(&mut buffer, start, want);
            self.buffer = buffer;
            return read;
        };
        let Pair { latest, spare } = &mut *pair.borrow_mut();
        let end = start.saturating_add(want as u64).min(self.length);
        if start < latest.start() || end > latest.start() + latest.bytes().len() as u64 {
            self.read(spare, start, want)?;
            *latest = std::mem::take(spare);
        }
        self.show(latest.clone(), spare);
        Ok(())
    }
}
