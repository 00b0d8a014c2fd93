//! Runs: stretches of the path that have been written to a file because they are old and have no
//! branches.
//!
//! A run is a list of (key, length in ns), both as numbers of variable size: seven bits per byte,
//! lowest first, with the top bit set in all but the last byte. The start of a run, and its end if
//! it is cut off, are stored by the caller. The file belongs to the caller too, which makes it so
//! that it vanishes with the process.

use crate::critical_path::active::Piece;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// All runs, in one file that is made with the first run.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    file: Option<Arc<File>>,
    /// Offset of each run in the file, in bytes.
    offsets: Vec<u64>,
    end: u64,
}

impl Runs {
    /// Appends a run of pieces without gaps. Returns its number.
    pub fn write(&mut self, make: fn() -> io::Result<File>, pieces: impl Iterator<Item = Piece>) -> io::Result<u32> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => {
                let file = Arc::new(make()?);
                self.file = Some(file.clone());
                file
            }
        };
        let begin = self.end;
        let mut buffer = Vec::with_capacity(CHUNK + 32);
        let mut open: Option<(u32, u64)> = None;
        for (key, start, end) in pieces {
            match &mut open {
                Some((last, ns)) if *last == key => *ns += end - start,
                _ => {
                    if let Some((key, ns)) = open.replace((key, end - start)) {
                        put(&mut buffer, u64::from(key));
                        put(&mut buffer, ns);
                    }
                }
            }
            if buffer.len() >= CHUNK {
                self.append(&file, &mut buffer)?;
            }
        }
        if let Some((key, ns)) = open {
            put(&mut buffer, u64::from(key));
            put(&mut buffer, ns);
        }
        self.append(&file, &mut buffer)?;
        self.offsets.push(begin);
        Ok(self.offsets.len() as u32 - 1)
    }

    fn append(&mut self, file: &File, buffer: &mut Vec<u8>) -> io::Result<()> {
        file.write_all_at(buffer, self.end)?;
        self.end += buffer.len() as u64;
        buffer.clear();
        Ok(())
    }

    /// Returns the pieces of a run from `start` to `end`; fewer if the file cannot be read.
    /// `buffer` is memory that may be reused.
    pub fn read(&self, run: u32, start: u64, end: u64, mut buffer: Vec<u8>) -> Reading {
        buffer.clear();
        let offset = self.offsets.get(run as usize).copied().unwrap_or(self.end);
        let until = self.offsets.get(run as usize + 1).copied().unwrap_or(self.end);
        Reading { file: self.file.clone(), offset, until, buffer, at: 0, now: start, end }
    }
}

const CHUNK: usize = 1 << 16;

/// Largest size of a number in bytes.
const MAX_NUMBER_BYTES: usize = 10;

fn put(buffer: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        buffer.push(number as u8 | 0x80);
        number >>= 7;
    }
    buffer.push(number as u8);
}

/// Returns a number and its size in bytes; `None` if it is not complete.
#[inline]
fn number_in(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (at, &byte) in bytes.iter().take(MAX_NUMBER_BYTES).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some((number, at + 1));
        }
    }
    None
}

/// Iterator over the pieces of a run.
#[derive(Debug)]
pub struct Reading {
    file: Option<Arc<File>>,
    offset: u64,
    /// Offset at which the run ends in the file.
    until: u64,
    buffer: Vec<u8>,
    at: usize,
    now: u64,
    end: u64,
}

impl Reading {
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Reads the key and the length of a piece that lies in the buffer as a whole.
    #[inline]
    fn whole(&mut self) -> Option<(u64, u64)> {
        let rest = self.buffer.get(self.at..self.at + 2 * MAX_NUMBER_BYTES)?;
        let (key, first) = number_in(rest)?;
        let (ns, second) = number_in(&rest[first..])?;
        self.at += first + second;
        Some((key, ns))
    }

    #[inline]
    fn byte(&mut self) -> Option<u8> {
        if self.at == self.buffer.len() {
            self.fill()?;
        }
        let byte = *self.buffer.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[cold]
    fn fill(&mut self) -> Option<()> {
        let count = usize::try_from(self.until.saturating_sub(self.offset)).unwrap_or(CHUNK).min(CHUNK);
        self.buffer.resize(count, 0);
        let count = self.file.as_ref()?.read_at(&mut self.buffer, self.offset).unwrap_or(0);
        self.buffer.truncate(count);
        self.offset += count as u64;
        self.at = 0;
        Some(())
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Some(first.into());
        }
        let mut number = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

impl Iterator for Reading {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.now >= self.end {
            return None;
        }
        let (key, ns) = match self.whole() {
            Some(piece) => piece,
            None => (self.number()?, self.number()?),
        };
        let start = self.now;
        self.now = start.saturating_add(ns).min(self.end);
        Some((key as u32, start, self.now))
    }
}
