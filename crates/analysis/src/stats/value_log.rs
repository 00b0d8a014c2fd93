//! A log of the changes of a value, a few bytes each, which is read once it is complete.
//!
//! A log keeps its last bytes in memory, and those before them in a file without a name, which many
//! logs share.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of bytes of a log that are kept in memory before they are written to the file.
const MAX_HELD: usize = 32 << 10;

/// The file that logs share. It is made when the first log needs it.
#[derive(Clone, Debug, Default)]
pub struct LogFile(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    file: Option<File>,
    length: u64,
    /// Set if the file cannot be made or written, for example on a full disk. The logs then stay in
    /// memory.
    is_full: bool,
}

impl LogFile {
    /// Appends bytes and returns their place; `None` if they cannot be written.
    fn append(&self, bytes: &[u8]) -> Option<u64> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if written.is_full {
            return None;
        }
        let place = written.length;
        let done = written.write(bytes);
        written.is_full = done.is_err();
        done.ok().map(|()| place)
    }

    fn read(&self, place: u64, bytes: &mut [u8]) -> io::Result<()> {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.file.as_ref().map_or(Ok(()), |file| file.read_exact_at(bytes, place))
    }
}

impl Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile()?),
        };
        file.write_all_at(bytes, self.length)?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// The changes of one value, in the order in which they are recorded.
#[derive(Debug)]
pub struct ValueLog {
    file: LogFile,
    /// Place and length in bytes of the parts in the file.
    parts: Vec<(u64, usize)>,
    held: Vec<u8>,
    last_ns: i64,
    count: u64,
}

impl ValueLog {
    pub fn new(file: LogFile) -> ValueLog {
        ValueLog { file, parts: Vec::new(), held: Vec::new(), last_ns: 0, count: 0 }
    }

    /// Returns the number of changes.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn record(&mut self, t_ns: i64, value: f64) {
        let since = t_ns.wrapping_sub(self.last_ns);
        // Times rarely decrease; the sign is the lowest bit.
        put(&mut self.held, ((since << 1) ^ (since >> 63)) as u64);
        // A small whole number has zeros in its last bytes, which become the first ones.
        put(&mut self.held, value.to_bits().swap_bytes());
        self.last_ns = t_ns;
        self.count += 1;
        if self.held.len() >= MAX_HELD {
            if let Some(place) = self.file.append(&self.held) {
                self.parts.push((place, self.held.len()));
                self.held.clear();
            }
        }
    }

    /// Passes each change.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn each(&self, mut visit: impl FnMut(i64, f64)) -> io::Result<()> {
        let mut t_ns = 0i64;
        let mut pass = |bytes: &[u8]| {
            let mut bytes = bytes.iter();
            while let (Some(since), Some(value)) = (number(&mut bytes), number(&mut bytes)) {
                t_ns = t_ns.wrapping_add((since >> 1) as i64 ^ -((since & 1) as i64));
                visit(t_ns, f64::from_bits(value.swap_bytes()));
            }
        };
        let mut bytes = Vec::new();
        for &(place, length) in &self.parts {
            bytes.resize(length, 0);
            self.file.read(place, &mut bytes)?;
            pass(&bytes);
        }
        pass(&self.held);
        Ok(())
    }
}

/// Appends a number, seven bits per byte, lowest first; all bytes but the last have the top bit.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn number(bytes: &mut std::slice::Iter<'_, u8>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.next()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_that_share_a_file_yield_their_changes_in_order() {
        let file = LogFile::default();
        let mut logs = [ValueLog::new(file.clone()), ValueLog::new(file)];
        let change = |log: usize, i: i64| (i * 1000 - (i % 7) * 1500, (i % 100 - 50) as f64 * if log == 0 { 1.0 } else { 0.1 });
        for i in 0..100_000 {
            for (at, log) in logs.iter_mut().enumerate() {
                let (t_ns, value) = change(at, i);
                log.record(t_ns, value);
            }
        }
        for (at, log) in logs.iter().enumerate() {
            assert!(!log.parts.is_empty() && log.held.len() < 2 * MAX_HELD);
            let mut i = 0;
            log.each(|t_ns, value| {
                assert_eq!((t_ns, value), change(at, i));
                i += 1;
            })
            .unwrap();
            assert_eq!((i, log.count()), (100_000, 100_000));
        }
    }
}
