//! Writes the content of an archive, as long as it is in proportion to the archive's size.

use super::place::Unpacked;
use crate::diagnostic::Diagnostic;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Component, Path, PathBuf};

/// Maximum number of files and folders; no reader accepts more.
const MAX_ENTRIES: u64 = 1_000_000;
/// Maximum number of bytes that are not holes: a base, and a factor per byte of the archive. Real
/// traces stay below a factor of 200.
const MAX_BYTES: (u64, u64) = (256 << 20, 2000);
/// Maximum number of bytes including holes, which take no room: a base, and a factor per byte of
/// the archive.
const MAX_LENGTH: (u64, u64) = (16 << 30, 20_000);
/// Bytes that must remain free on the disk.
const KEPT_FREE: u64 = 256 << 20;
/// Bytes after which the free space of the disk is checked again.
const LOOK: u64 = 64 << 20;
const PIECE: usize = 128 << 10;
const BLOCK: usize = 4096;
/// Maximum number of links that are followed from one link to a file.
const MAX_LINKED: u32 = 8;
/// Maximum number of refused entries that are reported.
const MAX_REPORTED: usize = 8;

/// Reason why unpacking ends before the archive does.
pub enum Stop {
    /// A limit was exceeded.
    Limit(String),
    Write(io::Error),
    /// The archive cannot be read further.
    Damaged(String),
}

impl Stop {
    pub fn damaged(error: impl std::fmt::Display) -> Stop {
        Stop::Damaged(error.to_string())
    }
}

pub struct Fill {
    content: PathBuf,
    archive: PathBuf,
    most_bytes: u64,
    most_length: u64,
    packed: u64,
    bytes: u64,
    length: u64,
    looked: u64,
    entries: u64,
    files: u64,
    entry: Option<String>,
    others: u64,
    other: String,
    refused: Vec<String>,
    /// Path of each link, and path of its target.
    links: Vec<(PathBuf, PathBuf)>,
    buffer: Vec<u8>,
    /// Path of the file that was compressed without an archive.
    pub alone: Option<PathBuf>,
}

impl Fill {
    pub fn new(unpacked: &Unpacked, packed: u64) -> Fill {
        let most = |(base, ratio): (u64, u64)| base.saturating_add(packed.saturating_mul(ratio));
        Fill {
            content: unpacked.folder().to_owned(),
            archive: unpacked.archive().to_owned(),
            most_bytes: most(MAX_BYTES),
            most_length: most(MAX_LENGTH),
            packed,
            bytes: 0,
            length: 0,
            looked: 0,
            entries: 0,
            files: 0,
            entry: None,
            others: 0,
            other: String::new(),
            refused: Vec::new(),
            links: Vec::new(),
            buffer: vec![0; PIECE],
            alone: None,
        }
    }

    /// Returns the name of the entry that was begun last.
    pub fn entry(&self) -> Option<String> {
        self.entry.clone()
    }

    /// Returns the number of files that were unpacked.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Returns true if the unpacked files are all empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn diagnostics(&self, archive: &Path) -> Vec<Diagnostic> {
        let mut out: Vec<Diagnostic> =
            self.refused.iter().map(|error| Diagnostic::UndecodableRecord { path: archive.to_owned(), error: error.clone() }).collect();
        if self.others > 0 {
            out.push(Diagnostic::NotUnpacked { path: archive.to_owned(), entries: self.others, example: self.other.clone() });
        }
        out
    }

    fn enter(&mut self, name: &[u8]) -> Result<(), Stop> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(Stop::Limit(format!("it has more than {MAX_ENTRIES} entries")));
        }
        self.entry = Some(String::from_utf8_lossy(name).into_owned());
        Ok(())
    }

    fn refuse(&mut self, what: impl std::fmt::Display) {
        if self.refused.len() < MAX_REPORTED {
            self.refused.push(format!("entry {} is left out: {what}", self.entry.as_deref().unwrap_or("?")));
        }
    }

    /// Counts an entry that is neither a file nor a folder.
    pub fn other(&mut self, name: &[u8], what: &str) {
        self.others += 1;
        if self.others == 1 {
            self.other = format!("{} ({what})", String::from_utf8_lossy(name));
        }
    }

    pub fn folder(&mut self, name: &[u8]) -> Result<(), Stop> {
        self.enter(name)?;
        match inside(name) {
            None => self.refuse("its name leads outside of the archive"),
            Some(below) => {
                if let Err(error) = make(&self.content.join(below)) {
                    self.refuse(error);
                }
            }
        }
        Ok(())
    }

    pub fn file(&mut self, name: &[u8], from: &mut impl Read) -> Result<(), Stop> {
        self.enter(name)?;
        let Some(below) = inside(name).filter(|below| !below.as_os_str().is_empty()) else {
            self.refuse("its name leads outside of the archive");
            return Ok(());
        };
        let path = self.content.join(below);
        match path.parent().map_or(Ok(()), make).and_then(|()| File::create(&path)) {
            Ok(into) => self.copy(from, &into),
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Err(Stop::Write(error)),
            Err(error) => {
                self.refuse(error);
                Ok(())
            }
        }
    }

    /// Adds a link. If its target is a file of the archive, which may come later, the link becomes
    /// that file. No other links are made.
    pub fn link(&mut self, name: &[u8], target: &[u8], symbolic: bool) -> Result<(), Stop> {
        self.enter(name)?;
        let below = inside(name);
        let target = match &below {
            Some(below) if symbolic => led(below, Path::new(OsStr::from_bytes(target))),
            _ => inside(target),
        };
        match below.zip(target) {
            Some(link) => self.links.push(link),
            None => self.other(name, "a link"),
        }
        Ok(())
    }

    /// Creates the files for links, after all other files exist.
    pub fn finish_links(&mut self) -> Result<(), Stop> {
        let mut left = std::mem::take(&mut self.links);
        // A link may lead to another link, up to a fixed number of steps.
        for _ in 0..MAX_LINKED {
            if left.is_empty() {
                break;
            }
            for (link, target) in std::mem::take(&mut left) {
                let (path, from) = (self.content.join(&link), self.content.join(&target));
                let length = from.symlink_metadata().ok().filter(|found| found.is_file()).map(|found| found.len());
                let made = path.parent().map_or(Ok(()), make).and_then(|()| fs::hard_link(&from, &path));
                match length.filter(|_| made.is_ok()) {
                    Some(length) => {
                        self.files += 1;
                        self.length = self.length.saturating_add(length);
                        if self.length > self.most_length {
                            return Err(self.too_much(self.most_length));
                        }
                    }
                    None => left.push((link, target)),
                }
            }
        }
        left.iter().for_each(|(link, _)| self.other(link.as_os_str().as_bytes(), "a link"));
        Ok(())
    }

    /// Unpacks the one file that was compressed without an archive. Its name is that of the input
    /// without the last extension.
    pub fn alone(&mut self, mut from: impl Read) -> Result<(), Stop> {
        let name = self.archive.file_stem().map_or_else(|| b"content".to_vec(), |stem| stem.as_bytes().to_vec());
        self.alone = Some(self.content.join(OsStr::from_bytes(&name)));
        self.file(&name, &mut from)?;
        self.entry = None;
        Ok(())
    }

    fn copy(&mut self, from: &mut impl Read, into: &File) -> Result<(), Stop> {
        self.files += 1;
        let mut at = 0;
        let ended = loop {
            let count = match from.read(&mut self.buffer) {
                Ok(0) => break Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => break Err(Stop::Damaged(format!("{error}, after {at} bytes"))),
            };
            self.length += count as u64;
            if self.length > self.most_length {
                break Err(self.too_much(self.most_length));
            }
            let mut piece = at;
            for block in self.buffer[..count].chunks(BLOCK) {
                if block.iter().any(|byte| *byte != 0) {
                    into.write_all_at(block, piece).map_err(Stop::Write)?;
                    self.bytes += block.len() as u64;
                }
                piece += block.len() as u64;
            }
            at = piece;
            if self.bytes > self.most_bytes {
                break Err(self.too_much(self.most_bytes));
            }
            self.look()?;
        };
        // A hole at the end was not written, so the file's length is set.
        into.set_len(at).map_err(Stop::Write)?;
        ended
    }

    fn too_much(&self, most: u64) -> Stop {
        Stop::Limit(format!(
            "its {} bytes unpack to more than {most}, more than any trace; unpack it yourself if it is a trace",
            self.packed
        ))
    }

    /// Checks that the disk has room.
    fn look(&mut self) -> Result<(), Stop> {
        if self.bytes < self.looked {
            return Ok(());
        }
        self.looked = self.bytes + LOOK;
        let Ok(found) = rustix::fs::statvfs(&self.content) else { return Ok(()) };
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        match free < KEPT_FREE + LOOK {
            true => Err(Stop::Limit(format!(
                "the disk of {} has {free} bytes left after {} were unpacked; TMPDIR names another place",
                self.content.parent().unwrap_or(&self.content).display(),
                self.bytes
            ))),
            false => Ok(()),
        }
    }
}

/// Returns the path below the folder for an entry's name, or `None` if it leads out of the folder.
/// A leading `/` is dropped, as tar does.
fn inside(name: &[u8]) -> Option<PathBuf> {
    let mut below = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(name)).components() {
        match part {
            Component::Normal(part) => below.push(part),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(below)
}

/// Returns the target of a symbolic link, or `None` if it is outside of the folder.
fn led(link: &Path, target: &Path) -> Option<PathBuf> {
    let mut below = link.parent()?.to_owned();
    for part in target.components() {
        match part {
            Component::Normal(part) => below.push(part),
            Component::CurDir => {}
            Component::ParentDir if below.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(below)
}

fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        assert_eq!(inside(b"./a//b"), Some("a/b".into()));
        assert_eq!(inside(b"/etc/passwd"), Some("etc/passwd".into()));
        assert_eq!(inside(b"a/../../b"), None);
        assert_eq!(inside(b".."), None);
        let led = |link: &str, target: &str| led(Path::new(link), Path::new(target));
        assert_eq!(led("a/b", "../c/./d"), Some("c/d".into()));
        assert_eq!((led("a/b", "../../c"), led("a/b", "/c"), led("b", "..")), (None, None, None));
    }
}
