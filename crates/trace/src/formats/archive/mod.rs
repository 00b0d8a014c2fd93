//! Traces in archives: tar and zip archives, also compressed by gzip or zstd, and single compressed
//! files.
//!
//! Readers seek, and a trace has many files. Therefore an archive is unpacked into a folder that is
//! removed afterwards, and the result is opened like any other path. An archive is not trusted:
//! names and links must not lead out of the folder, and an archive that expands out of proportion
//! or fills the disk ends with an error. Holes in files remain holes, because the half-empty
//! packets of LTTng consist mostly of zeros.

mod fill;
mod place;
mod sparse;
mod zstd;

pub use place::{remove_if_left, Unpacked};

use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::files::head::Head;
use fill::{Fill, Stop};
use flate2::bufread::MultiGzDecoder;
use sparse::Sparse;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

/// Format of an archive or compressed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Tar,
    Zip,
    Gzip,
    Zstd,
}

const TAR_BLOCK: usize = 512;
const BUFFER: usize = 256 << 10;
/// Maximum number of bytes of headers before an entry of a tar, enough for names of any sensible
/// length.
const MAX_HEADERS: u64 = 1 << 20;
/// Maximum number of bytes of a link's target.
const MAX_TARGET: u64 = 4096;
/// Maximum number of bytes after the end of a tar that are read.
const MAX_BEHIND: u64 = 16 << 20;

pub(crate) fn packing(head: &Head) -> Option<Packing> {
    match head.bytes.as_slice() {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(Packing::Zip),
        [0x1f, 0x8b, 8, ..] => Some(Packing::Gzip),
        // A frame, or a frame to be skipped.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Packing::Zstd),
        bytes => is_tar(bytes).then_some(Packing::Tar),
    }
}

/// Checks the checksum of a tar header. Even the oldest archives have one.
fn is_tar(bytes: &[u8]) -> bool {
    const SUM: std::ops::Range<usize> = 148..156;
    let Some(header) = bytes.first_chunk::<TAR_BLOCK>() else { return false };
    let digits = header[SUM].iter().skip_while(|byte| **byte == b' ').take_while(|byte| (b'0'..=b'7').contains(*byte));
    let (count, said) = digits.fold((0, 0u32), |(count, sum), digit| (count + 1, sum * 8 + u32::from(digit - b'0')));
    let sum: u32 = header.iter().enumerate().map(|(at, byte)| if SUM.contains(&at) { 32 } else { u32::from(*byte) }).sum();
    count > 0 && header[0] != 0 && said == sum
}

/// Returns, for other packed formats, the name and the command that unpacks a file.
pub(crate) fn other_packing(head: &Head) -> Option<(&'static str, &'static str)> {
    match head.bytes.as_slice() {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(("xz", "xz -dk FILE")),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some(("bzip2", "bzip2 -dk FILE")),
        [0x04, 0x22, 0x4d, 0x18, ..] => Some(("lz4", "lz4 -d FILE")),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => Some(("a 7z archive", "7z x FILE")),
        [b'R', b'a', b'r', b'!', 0x1a, ..] => Some(("a rar archive", "unrar x FILE")),
        [b'x', b'a', b'r', b'!', ..] => Some(("a xar archive", "xar -xf FILE")),
        _ => None,
    }
}

/// Unpacks the file at `path` if it is an archive or a compressed file. Returns `None` if it is
/// not.
pub fn unpack(path: &Path) -> Result<Option<Unpacked>, Error> {
    if !path.metadata().map_err(Error::io(path))?.is_file() {
        return Ok(None);
    }
    match packing(&Head::of(path)?) {
        None => Ok(None),
        Some(packing) => unpacked(path, packing).map(Some),
    }
}

fn unpacked(path: &Path, packing: Packing) -> Result<Unpacked, Error> {
    let file = File::open(path).map_err(Error::io(path))?;
    let length = file.metadata().map_err(Error::io(path))?.len();
    let mut unpacked = Unpacked::new(path)?;
    let mut fill = Fill::new(&unpacked, length);
    let ended = Rc::new(Cell::new(false));
    let read = BufReader::with_capacity(BUFFER, Ending { input: file, ended: ended.clone() });
    let done = match packing {
        Packing::Zip => zip(path, &mut fill, &ended),
        Packing::Tar => tar(read, &mut fill),
        Packing::Gzip => stream(MultiGzDecoder::new(read), &mut fill),
        Packing::Zstd => stream(zstd::Frames::new(read), &mut fill),
    };
    let done = fill.finish_links().and(done);
    let refused = |what: String, entry: Option<String>| Error::Archive { path: path.to_owned(), entry, what };
    let failed = match done {
        Ok(()) => None,
        Err(Stop::Limit(what)) => return Err(refused(what, fill.entry())),
        Err(Stop::Write(source)) => return Err(refused(format!("cannot write to {}: {source}", unpacked.root().display()), fill.entry())),
        Err(Stop::Damaged(what)) if ended.get() => Some(format!("it ends at byte {length}, too soon: {what}")),
        Err(Stop::Damaged(what)) => Some(what),
    };
    if fill.files() == 0 || failed.is_some() && fill.is_empty() {
        return Err(refused(failed.unwrap_or_else(|| "it holds no file".to_owned()), fill.entry()));
    }
    unpacked.alone = fill.alone.take();
    let diagnostics = fill.diagnostics(path);
    unpacked.diagnostics.extend(diagnostics);
    if let Some(what) = failed {
        let entry = fill.entry().map_or(String::new(), |entry| format!(" (in {entry})"));
        let error = format!("{what}{entry}; what follows there is not unpacked");
        unpacked.diagnostics.push(Diagnostic::UndecodableRecord { path: path.to_owned(), error });
    }
    Ok(unpacked)
}

/// Unpacks a compressed tar or another compressed file.
fn stream(mut unpacked: impl Read, fill: &mut Fill) -> Result<(), Stop> {
    let mut head = Vec::new();
    let begin = unpacked.by_ref().take(TAR_BLOCK as u64).read_to_end(&mut head);
    let mut whole = io::Cursor::new(head.clone()).chain(Broken(begin.err())).chain(unpacked);
    if is_tar(&head) {
        tar(&mut whole, fill)?;
        // What follows the end of the tar is padding. It is read because only the end of the
        // compressed data shows whether the file is complete.
        io::copy(&mut whole.take(MAX_BEHIND), &mut io::sink()).map(drop).map_err(Stop::damaged)
    } else {
        fill.alone(whole)
    }
}

/// Fails once with the error that occurred after the first bytes of a file.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

fn tar(input: impl Read, fill: &mut Fill) -> Result<(), Stop> {
    let (budget, ended) = (Rc::new(Cell::new(MAX_HEADERS)), Rc::new(Cell::new(false)));
    let mut archive = ::tar::Archive::new(Headers { input: Ending { input, ended: ended.clone() }, budget: budget.clone() });
    let mut entries = archive.entries().map_err(Stop::damaged)?;
    loop {
        // The tar library holds a whole name in memory, so its length must be limited.
        budget.set(MAX_HEADERS);
        let Some(entry) = entries.next() else {
            return if ended.get() { Err(Stop::damaged("a tar has empty blocks at its end")) } else { Ok(()) };
        };
        let mut entry = entry.map_err(Stop::damaged)?;
        budget.set(u64::MAX);
        let kind = entry.header().entry_type();
        let name = entry.path_bytes().into_owned();
        if kind.is_dir() {
            fill.folder(&name)?;
        } else if let Some(sparse) = sparse(&mut entry)?.filter(|_| kind.is_file()) {
            let name = if sparse.name.is_empty() { name } else { sparse.name.clone() };
            fill.file(&name, &mut sparse.read(&mut entry).map_err(Stop::damaged)?)?;
        } else if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
            fill.file(&name, &mut entry)?;
        } else if kind.is_symlink() || kind.is_hard_link() {
            let target = entry.link_name_bytes().map_or(Vec::new(), |target| target.into_owned());
            fill.link(&name, &target, kind.is_symlink())?;
        } else if !kind.is_pax_global_extensions() {
            fill.other(&name, "a device");
        }
    }
}

fn sparse(entry: &mut ::tar::Entry<'_, impl Read>) -> Result<Option<Sparse>, Stop> {
    let Some(extensions) = entry.pax_extensions().map_err(Stop::damaged)? else { return Ok(None) };
    let pairs: Vec<_> = extensions.filter_map(Result::ok).collect();
    Ok(Sparse::of(pairs.iter().filter_map(|pair| Some((pair.key().ok()?, pair.value_bytes())))))
}

/// Records that more bytes were requested than the file has.
struct Ending<R> {
    input: R,
    ended: Rc<Cell<bool>>,
}

impl<R: Read> Read for Ending<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(into)?;
        if count == 0 && !into.is_empty() {
            self.ended.set(true);
        }
        Ok(count)
    }
}

/// Limits the number of bytes that can be read, until the limit is raised.
struct Headers<R> {
    input: R,
    budget: Rc<Cell<u64>>,
}

impl<R: Read> Read for Headers<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.budget.get();
        if left == 0 {
            return Err(io::Error::other(format!("the headers of an entry are longer than {MAX_HEADERS} bytes")));
        }
        let most = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = self.input.read(&mut into[..most])?;
        if left != u64::MAX {
            self.budget.set(left - count as u64);
        }
        Ok(count)
    }
}

fn zip(path: &Path, fill: &mut Fill, ended: &Cell<bool>) -> Result<(), Stop> {
    let open = || File::open(path).map(|file| BufReader::with_capacity(BUFFER, file)).map_err(Stop::damaged);
    let mut archive = match ::zip::ZipArchive::new(open()?) {
        Ok(archive) => archive,
        // The directory of a zip is at its end. If that is missing, the entries may still be
        // readable in sequence.
        Err(error) => {
            ended.set(true);
            let mut input = open()?;
            while let Ok(Some(mut entry)) = ::zip::read::read_zipfile_from_stream(&mut input) {
                zip_entry(&mut entry, fill)?;
            }
            return Err(Stop::damaged(error));
        }
    };
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(Stop::damaged)?;
        zip_entry(&mut entry, fill)?;
    }
    Ok(())
}

fn zip_entry<R: Read>(entry: &mut ::zip::read::ZipFile<'_, R>, fill: &mut Fill) -> Result<(), Stop> {
    let name = entry.name_raw().to_vec();
    if entry.is_symlink() {
        let mut target = Vec::new();
        entry.take(MAX_TARGET).read_to_end(&mut target).map_err(Stop::damaged)?;
        fill.link(&name, &target, true)
    } else if entry.is_dir() {
        fill.folder(&name)
    } else {
        fill.file(&name, entry)
    }
}
