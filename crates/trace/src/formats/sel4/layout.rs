//! The layout of entries in memory, and the part of a file that they use.

use super::{Dump, Log, Word};
use crate::error::Error;
use longpole_ftrace::ByteOrder;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Maximum number of bytes of a file: the size of the largest frame.
const MAX_BYTES: u64 = 1 << 30;
/// Limit of tracepoint numbers, above that of any kernel configuration.
const MAX_TRACEPOINTS: u64 = 1 << 16;
/// Entries that are examined to find the size of an entry.
const EXAMINED_ENTRIES: u64 = 64;

/// Number of the kernel path for system calls.
pub const SYSCALL: u8 = 5;

/// An entry, with times in cycles.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Begin of the entry; 0 for tracepoints, whose log has no times.
    pub start: u64,
    pub duration: u64,
    pub kind: EntryKind,
}

/// Kind of an entry, with its fields.
#[derive(Clone, Copy, Debug)]
pub enum EntryKind {
    Syscall { number: u64, cap_type: u64, is_fastpath: u64, tag: u64 },
    Interrupt { core: u64, word: u64 },
    Other { path: u8, word: u64 },
    Tracepoint { id: u64 },
}

/// Length of the file, and the offset after its last byte that is not zero.
#[derive(Clone, Copy)]
pub struct Extent {
    pub length: u64,
    written: u64,
}

impl Extent {
    pub fn look(file: &mut File, path: &Path) -> Result<Extent, Error> {
        let refused = |what: String| Error::Recording { path: path.to_owned(), what };
        let data = file.metadata().map_err(Error::io(path))?;
        if !data.is_file() {
            return Err(refused("what a kernel logged is read from a file".to_owned()));
        }
        let length = data.len();
        match length {
            0 => return Err(refused("the file is empty".to_owned())),
            1..=MAX_BYTES => {}
            _ => return Err(refused(format!("it has {length} bytes, and no frame of a kernel's log has more than {MAX_BYTES}"))),
        }
        let written = written(file, length).map_err(Error::io(path))?;
        match written {
            0 => Err(refused(format!(
                "all of its {length} bytes are zero: nothing was logged (seL4_BenchmarkSetLogBuffer, seL4_BenchmarkResetLog)"
            ))),
            _ => Ok(Extent { length, written }),
        }
    }

    /// Returns the number of entries up to the last one that was written, even if that one is
    /// incomplete.
    pub fn used(&self, layout: Layout) -> u64 {
        self.written.div_ceil(layout.bytes)
    }
}

/// Finds the end of the written part. Searches from the end, so that an almost full frame takes
/// little time.
fn written(file: &mut File, length: u64) -> std::io::Result<u64> {
    let mut bytes = vec![0; 1 << 16];
    let mut end = length;
    while end > 0 {
        let begin = end.saturating_sub(bytes.len() as u64);
        let part = &mut bytes[..(end - begin) as usize];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(part)?;
        if let Some(last) = part.iter().rposition(|&byte| byte != 0) {
            return Ok(begin + last as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

/// Layout of an entry in memory.
#[derive(Clone, Copy)]
pub struct Layout {
    log: Log,
    word: Word,
    order: ByteOrder,
    pub bytes: u64,
}

impl Layout {
    fn new(dump: &Dump, bytes: u64) -> Layout {
        Layout { log: dump.log, word: dump.word, order: dump.order, bytes }
    }

    /// Finds the layout. The only thing that the options leave open is the size of a kernel entry
    /// with 32-bit words, because x86 aligns a `uint64_t` to 4 bytes. The size with the longer run
    /// of ascending entries is chosen.
    pub fn find(file: &mut BufReader<File>, dump: &Dump, extent: &Extent) -> std::io::Result<Layout> {
        let found = match (dump.log, dump.word) {
            (Log::Tracepoints, Word::Bits32) => Layout::new(dump, 8),
            (Log::Tracepoints, Word::Bits64) => Layout::new(dump, 16),
            (Log::KernelEntries, Word::Bits64) => Layout::new(dump, 24),
            (Log::KernelEntries, Word::Bits32) => {
                let (most, x86) = (Layout::new(dump, 24), Layout::new(dump, 20));
                if x86.fitting(file, extent)? > most.fitting(file, extent)? {
                    x86
                } else {
                    most
                }
            }
        };
        file.seek(SeekFrom::Start(0))?;
        Ok(found)
    }

    /// Returns true if all durations are 0. This means that 64-bit words are read as 32-bit words:
    /// they then alternate between durations without a number and numbers without a duration.
    pub fn lasts_nothing(self, file: &mut BufReader<File>, extent: &Extent) -> std::io::Result<bool> {
        let mut bytes = [0; 24];
        let count = self.used_at_most(extent);
        let mut lasts = count < 2;
        for _ in 0..count {
            let bytes = &mut bytes[..self.bytes as usize];
            file.read_exact(bytes)?;
            lasts |= self.entry(bytes).map_or(true, |entry| entry.duration > 0);
        }
        file.seek(SeekFrom::Start(0))?;
        Ok(!lasts)
    }

    fn fitting(self, file: &mut BufReader<File>, extent: &Extent) -> std::io::Result<u64> {
        file.seek(SeekFrom::Start(0))?;
        let (mut bytes, mut last) = ([0; 24], 0);
        let count = self.used_at_most(extent);
        for fitting in 0..count {
            let bytes = &mut bytes[..self.bytes as usize];
            file.read_exact(bytes)?;
            match self.entry(bytes) {
                Ok(entry) if entry.start >= last => last = entry.start.saturating_add(entry.duration),
                _ => return Ok(fitting),
            }
        }
        Ok(count)
    }

    fn used_at_most(self, extent: &Extent) -> u64 {
        extent.used(self).min(extent.length / self.bytes).min(EXAMINED_ENTRIES)
    }

    /// Decodes an entry. `bytes` must have the length of an entry.
    pub fn entry(self, bytes: &[u8]) -> Result<Entry, String> {
        let number = |at: usize, size: usize| bytes.get(at..at + size).and_then(|bytes| self.order.unsigned(bytes)).unwrap_or(0);
        if self.log == Log::Tracepoints {
            let size = if self.word == Word::Bits32 { 4 } else { 8 };
            let (id, duration) = (number(0, size), number(size, size));
            return match id {
                0..MAX_TRACEPOINTS => Ok(Entry { start: 0, duration, kind: EntryKind::Tracepoint { id } }),
                _ => Err(format!("{id:#x} is not the number of a tracepoint; check --word-size and --byte-order")),
            };
        }
        let (start, duration) = (number(0, 8), number(8, 4));
        // Compilers fill bit fields from the lowest bit on little-endian hosts and from the highest
        // bit on big-endian hosts. After the first 3 bits, a union of bit fields begins at the next
        // byte.
        let (first, bits) = (number(12, 1), number(13, 4));
        let little = self.order == ByteOrder::Little;
        let (path, rest) = if little { (first & 7, first >> 3) } else { (first >> 5, first & 31) };
        let field = |from: u32, size: u32| {
            let shift = if little { from } else { 32 - from - size };
            bits >> shift & ((1 << size) - 1)
        };
        if rest != 0 || field(29, 3) != 0 {
            return Err("its bits are not those of a kernel entry; check --format, --word-size and --byte-order".to_owned());
        }
        let word = field(3, 26);
        let kind = match path as u8 {
            0 => EntryKind::Interrupt { core: field(0, 3), word },
            SYSCALL => EntryKind::Syscall { number: field(0, 4), cap_type: field(4, 5), is_fastpath: field(9, 1), tag: field(10, 19) },
            path => EntryKind::Other { path, word },
        };
        Ok(Entry { start, duration, kind })
    }
}
