//! A timeline in a file, so that a trace that was read once is shown at once.
//!
//! The parts of the file: the data of the store, its tables, the rows and names in JSON, the
//! attachment, the key, and the lengths of these five parts before a mark. The data are the first
//! part, so that they are read from the file as from the store's own one.
//!
//! The key says what the timeline was made of, and how. A file with another key is not used. A file
//! with the right key may still be damaged, or made by anyone: then it is refused, or its data
//! yield wrong states, but always states of the row and the time that are asked for.

use super::rows::Rows;
use super::sampled_waits::Waits;
use super::state_names::StateNames;
use super::store::tables::MAX_TIME;
use super::store::{RowId, Store};
use super::{Content, Timeline};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

const MARK: &[u8; 8] = b"LPTIME03";

/// Number of parts, and size of their lengths with the mark.
const PARTS: usize = 5;
const FOOTER: u64 = PARTS as u64 * 8 + 8;

/// Maximum size in bytes of the parts that are read as a whole.
const MAX_WHOLE: u64 = 256 << 20;

/// Everything but the states.
#[derive(Serialize, Deserialize)]
struct Head<R, N, W> {
    rows: R,
    names: N,
    waits: W,
    path: Option<RowId>,
    begin: u64,
    end: u64,
    version: u64,
}

impl Timeline {
    /// Writes the timeline with an attachment to the begin of a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or the file of the states cannot be read.
    pub fn write_file(&self, file: &mut File, key: &[u8], attachment: &[u8]) -> io::Result<()> {
        let content = self.read();
        let Content { store, names, rows, waits, path, begin, end, version, .. } = &*content;
        let mut lengths = vec![store.write_data(file)?];
        let mut out = Counted { out: BufWriter::new(file), count: 0 };
        store.write_tables(&mut out)?;
        lengths.push(out.taken());
        let head = Head { rows, names, waits, path: *path, begin: *begin, end: *end, version: *version };
        serde_json::to_writer(&mut out, &head)?;
        lengths.push(out.taken());
        for part in [attachment, key] {
            out.write_all(part)?;
            lengths.push(out.taken());
        }
        lengths.iter().try_for_each(|length| out.write_all(&length.to_le_bytes()))?;
        out.write_all(MARK)?;
        out.flush()
    }

    /// Replaces the content of the timeline by that of a file, and returns the attachment as
    /// `parse` understands it; `None` if the file has another key.
    ///
    /// # Errors
    ///
    /// `InvalidData` if it is no such file or contradicts itself, or if `parse` does not understand
    /// the attachment. The timeline is as before then.
    pub fn read_file<T>(&self, mut file: File, key: &[u8], parse: impl FnOnce(&[u8]) -> Option<T>) -> io::Result<Option<T>> {
        let [data, tables, head, attachment, key_length] = lengths(&mut file)?;
        if key_length != key.len() as u64 {
            return Ok(None);
        }
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        if tables > MAX_WHOLE {
            return Err(invalid());
        }
        file.seek(SeekFrom::Start(data))?;
        let mut source = BufReader::new(file.try_clone()?);
        source.seek(SeekFrom::Start(data + tables + head + attachment))?;
        if whole(&mut source, key_length)? != key {
            return Ok(None);
        }
        source.seek(SeekFrom::Start(data + tables))?;
        let head: Head<Rows, StateNames, Waits> = serde_json::from_slice(&whole(&mut source, head)?)?;
        let attachment = parse(&whole(&mut source, attachment)?).ok_or_else(invalid)?;
        source.seek(SeekFrom::Start(data))?;
        let Head { rows, names, waits, path, begin, end, version } = head;
        let count = rows.stored_count();
        let is_stored = path.is_none_or(|path| (path.0 as usize) < count);
        if begin > end || end - begin > MAX_TIME || !is_stored || !rows.is_sound(count) {
            return Err(invalid());
        }
        let store = Store::read(file, data, &mut source.take(tables), (count, names.all().len() as u32))?;
        *self.write() = Content { store, names, rows, packet_groups: Default::default(), path, waits, begin, end, version, generation: 0 };
        Ok(Some(attachment))
    }
}

/// Returns the lengths of the parts, which fill the file.
fn lengths(file: &mut File) -> io::Result<[u64; PARTS]> {
    let size = file.metadata()?.len();
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let rest = size.checked_sub(FOOTER).ok_or_else(invalid)?;
    file.seek(SeekFrom::Start(rest))?;
    let mut lengths = [0; PARTS];
    for length in &mut lengths {
        let mut bytes = [0; 8];
        file.read_exact(&mut bytes)?;
        *length = u64::from_le_bytes(bytes);
    }
    let mut mark = [0; 8];
    file.read_exact(&mut mark)?;
    let sum = lengths.iter().try_fold(0u64, |sum, &length| sum.checked_add(length));
    if mark != *MARK || sum != Some(rest) {
        return Err(invalid());
    }
    Ok(lengths)
}

/// Reads a part that is needed as a whole.
fn whole(source: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    if length > MAX_WHOLE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    source.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Counts the bytes that are written.
struct Counted<W> {
    out: W,
    count: u64,
}

impl<W> Counted<W> {
    /// Returns the number of bytes since the last call.
    fn taken(&mut self) -> u64 {
        std::mem::take(&mut self.count)
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.count += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
