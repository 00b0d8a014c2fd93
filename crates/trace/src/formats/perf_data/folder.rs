//! The files of one recording: a single perf.data, or a folder from `perf record --threads`. In a
//! folder, the file `data` has the header and the records that perf wrote itself; each of `data.0`,
//! `data.1`, … has the records of one buffer and no header.

use super::file::FileHeader;
use super::records::{Record, Records, Trouble, MAX_WAITING};
use crate::error::Error;
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Maximum number of files of a folder; no host has more buffers.
const MAX_FILES: usize = 4096;
/// Maximum and minimum number of bytes that are read at a time from one file, and minimum number of
/// bytes of its records that wait to be sorted. The actual values shrink with the number of files,
/// because the totals are limited.
const BUFFER: usize = 1 << 20;
const MIN_BUFFER: usize = 16 << 10;
const MIN_WAITING: usize = 256 << 10;

/// Returns true if the folder is such a recording. This is judged by file names, because a perf
/// that was killed has not noted it in the file.
pub(crate) fn is_folder(path: &Path) -> bool {
    let is_file = |name: &str| fs::symlink_metadata(path.join(name)).is_ok_and(|found| found.is_file());
    let mut first = [0; 8];
    is_file("data")
        && is_file("data.0")
        && File::open(path.join("data")).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && super::is_perf(&first)
}

/// Returns the files next to the one with the header, sorted by number.
fn data_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let entry = entry.map_err(Error::io(folder))?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("data.")?.parse::<u32>().ok());
        if let Some(number) = number.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_file())) {
            numbers.push((number, entry.path()));
        }
        if numbers.len() > MAX_FILES {
            return Err(Error::TooMany { what: "files of a folder of perf", limit: MAX_FILES });
        }
    }
    numbers.sort();
    Ok(numbers.into_iter().map(|(_, path)| path).collect())
}

/// The files' records, in the order of time.
pub(super) struct Files {
    parts: Vec<Part>,
    /// Index of the file from which the last record came.
    last: usize,
}

struct Part {
    path: PathBuf,
    records: Records<BufReader<File>>,
    next: Option<Record>,
    ended: bool,
}

impl Files {
    /// Opens a file or a folder. If `path` is the file with the header of a folder, the folder's
    /// other files are opened as well.
    pub fn open(path: &Path) -> Result<(FileHeader, Files), Error> {
        let main = if path.is_dir() { path.join("data") } else { path.to_owned() };
        let mut reader = BufReader::with_capacity(BUFFER, File::open(&main).map_err(Error::io(&main))?);
        let header = FileHeader::read(&mut reader, &main)?;
        reader.seek(SeekFrom::Start(header.begin)).map_err(Error::io(&main))?;
        let others = match main.parent().filter(|_| path.is_dir() || header.has_others) {
            Some(folder) => data_files(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?,
            None => Vec::new(),
        };
        let count = others.len() + 1;
        let waiting = (4 * MAX_WAITING / count).clamp(MIN_WAITING, MAX_WAITING);
        let mut parts = vec![Part::new(main, Records::new(reader, header.begin, header.end, waiting))];
        for other in others {
            let file = File::open(&other).map_err(Error::io(&other))?;
            let reader = BufReader::with_capacity((4 * BUFFER / count).clamp(MIN_BUFFER, BUFFER), file);
            parts.push(Part::new(other, Records::new(reader, 0, None, waiting)));
        }
        Ok((header, Files { parts, last: 0 }))
    }

    /// Returns the next record in the order of time. An error names the file and the problem.
    pub fn next(&mut self, header: &mut FileHeader) -> Result<Option<Record>, (PathBuf, Trouble)> {
        let alone = self.parts.len() == 1;
        for part in &mut self.parts {
            if part.next.is_none() && !part.ended {
                part.next = part.records.next(header).map_err(|trouble| (part.path.clone(), trouble))?;
                part.ended = part.next.is_none();
            }
        }
        if alone {
            return Ok(self.parts[0].next.take());
        }
        let waiting = || self.parts.iter().enumerate().filter_map(|(index, part)| Some((index, part.next.as_ref()?)));
        let earliest = waiting().filter(|(_, record)| !record.is_undated).map(|(index, record)| (record.time, index)).min();
        // Records that perf created itself come before all recorded ones, in whichever file they
        // are.
        let undated = waiting().find(|(_, record)| record.is_undated).map(|(index, _)| index);
        let Some(index) = undated.or(earliest.map(|(_, index)| index)) else { return Ok(None) };
        self.last = index;
        let Some(record) = self.parts[index].next.take() else { return Ok(None) };
        // Such a record gets the time of the next record, in its own or another file.
        let times = [record.time, earliest.map_or(0, |(time, _)| time)];
        let time = times.into_iter().filter(|time| *time > 0).min().unwrap_or(0);
        Ok(Some(Record { time, ..record }))
    }

    /// Returns the memory of a processed record for reuse.
    pub fn recycle(&mut self, record: Record) {
        self.parts[self.last].records.recycle(record);
    }
}

impl Part {
    fn new(path: PathBuf, records: Records<BufReader<File>>) -> Part {
        Part { path, records, next: None, ended: false }
    }
}
