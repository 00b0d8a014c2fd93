//! Converts the kernel's raw pages to CTF, after the recording.
//!
//! `kernel/raw` (pages, formats, state dump) is read once, page by page, all CPUs together in order
//! of time. Only in that order is it known to which process a thread belongs when it forks. The
//! result is written to `kernel/.converting` and moved to `kernel/` when it is complete and
//! durable, `metadata` last; the pages are removed only after that. So a conversion that is
//! interrupted at any point is either repeated, or only the removal of the pages is left to do; and
//! on a disk that is too full nothing is lost but the attempt.
//!
//! Nothing in the directory is trusted: pages may be damaged, formats missing, descriptions false.
//! Data that cannot be decoded is either kept as bytes and counted, or counted as lost. Memory use
//! is limited to a read buffer per CPU and a packet per stream.

mod calls;
mod classes;
mod conversion;
mod cpu_pages;
mod event_writer;
mod follow;
mod live;
mod marks;
mod source;
mod state_events;

use super::ctf;
use super::layout::LayoutError;
use crate::output::folder::Folder;
use conversion::pages_to_ctf;
use longpole_ftrace::FormatError;
use rustix::fs::FlockOperation;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

pub use live::LivePages;
#[cfg(test)]
pub(crate) use state_events::classes as statedump_classes;

/// Folder in `kernel/` of a conversion that is not complete.
const BUILDING_FOLDER: &str = ".converting";
/// Largest number of diagnostics that a conversion returns.
const MAX_MESSAGES: usize = 20;
/// Bytes of pages after which `progress` is called again.
const PROGRESS_STEP: u64 = 4 << 20;
/// Limit for text files, larger than any that a recorder writes.
const MAX_BYTES: u64 = 16 << 20;

/// Error of a conversion. The conversion can be repeated, because the pages are removed only after
/// a complete one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    #[error("cannot {what} {}: {error}", path.display())]
    Io { what: &'static str, path: PathBuf, error: io::Error },
    #[error("the disk is too full to convert the kernel's pages ({} in {}); the pages stay: free some space and read the recording again", size(*bytes), path.display())]
    Full { path: PathBuf, bytes: u64 },
    #[error("{0}; they stay: free some space and read the recording again")]
    NotSaved(String),
    #[error("another process records or converts {}", path.display())]
    Busy { path: PathBuf },
    #[error("{} belongs to user {owner}, and root converts no pages of other users in place; run `longpole check {}` as that user, or copy the recording and read the copy", path.display(), path.display())]
    Foreign { path: PathBuf, owner: u32 },
    #[error("{}: {error}", path.display())]
    Format { path: PathBuf, error: FormatError },
    #[error("{}: {what}", path.display())]
    Description { path: PathBuf, what: String },
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error("the conversion was ended by a signal; the pages stay, and the next verb that reads the recording converts them")]
    Ended,
}

fn size(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

impl ConvertError {
    fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ConvertError {
        let path = path.into();
        move |error| ConvertError::Io { what, path, error }
    }
}

/// Result of a conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// Number of events in the pages.
    pub events: u64,
    /// Number of events of each class. Classes without events are left out.
    pub names: BTreeMap<String, u64>,
    /// Number of events that the kernel lost, by its own count if that is known.
    pub lost: u64,
    pub cpus: usize,
    /// Bytes of pages that were read.
    pub raw_bytes: u64,
    /// Bytes of CTF that were written.
    pub bytes: u64,
    /// Number of pages that could not be read completely.
    pub damaged_pages: u64,
    /// Number of events whose format was not saved. They are kept as bytes.
    pub unknown: u64,
    /// Number of records that contradict their format.
    pub short: u64,
    /// Number of events that were earlier than their predecessor and got its time instead.
    pub moved: u64,
    pub diagnostics: Vec<String>,
}

impl Converted {
    fn note(&mut self, text: String) {
        if self.diagnostics.len() < MAX_MESSAGES {
            self.diagnostics.push(text);
        }
    }
}

/// True if the recording has pages that are not yet converted, or not yet removed after the
/// conversion.
pub fn is_pending(recording: &Path) -> bool {
    recording.join("kernel/raw").is_dir()
}

/// Converts the raw pages of a recording; without any, nothing happens. `progress` gets the bytes
/// done and the total.
pub fn convert(recording: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Converted, ConvertError> {
    convert_while(recording, &mut |done, total| {
        progress(done, total);
        true
    })
}

/// Like [`convert`], but ends with [`ConvertError::Ended`] when `progress` returns false.
pub fn convert_while(recording: &Path, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Converted, ConvertError> {
    if !is_pending(recording) {
        return Ok(Converted::default());
    }
    let open = |path: &Path| Folder::open(path).map_err(ConvertError::io("open", path));
    let inner = |folder: &Folder, name: &str| folder.folder(name).map_err(ConvertError::io("open", folder.join(name)));
    let recording = open(recording)?;
    let kernel = inner(&recording, "kernel")?;
    let raw = inner(&kernel, "raw")?;
    for folder in [&recording, &kernel, &raw] {
        let owner = folder.owner().map_err(ConvertError::io("look at", folder.path()))?;
        if owner != 0 && rustix::process::geteuid().is_root() {
            return Err(ConvertError::Foreign { path: recording.path().to_owned(), owner });
        }
    }
    // Two processes may try to convert at the same time. The kernel releases the lock when its
    // holder ends.
    match rustix::fs::flock(&raw, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(ConvertError::Busy { path: raw.path().to_owned() }),
        Err(error) => return Err(ConvertError::io("lock", raw.path())(error.into())),
    }
    let done = match kernel.holds("metadata") {
        // Another process converted the pages, or a conversion was interrupted before it removed
        // them.
        true => Converted::default(),
        false => {
            remove(&kernel, BUILDING_FOLDER)?;
            let building = kernel.make(BUILDING_FOLDER).map_err(ConvertError::io("make", kernel.join(BUILDING_FOLDER)))?;
            let mut done = pages_to_ctf(&recording, &raw, &building, progress).map_err(|error| {
                let _ = kernel.remove(BUILDING_FOLDER);
                match error {
                    ConvertError::Io { error, path, .. } if full(&error) => ConvertError::Full { path, bytes: bytes_of(&raw) },
                    error => error,
                }
            })?;
            publish(&building, &kernel)?;
            if done.damaged_pages > 0 {
                let damaged = kernel.join("damaged");
                done.diagnostics.push(format!("{} damaged pages of the kernel stay in {}", done.damaged_pages, damaged.display()));
            }
            done
        }
    };
    let path = kernel.join("metadata");
    let metadata = kernel.text("metadata", MAX_BYTES).map_err(ConvertError::io("read", &path))?;
    if !metadata.contains(ctf::OWN) {
        let what = "no conversion wrote this; the pages stay in raw".to_owned();
        return Err(ConvertError::Description { path, what });
    }
    // The metadata has this field if pages are missing in the trace.
    if metadata.contains(&format!("\n\t{} = ", ctf::DAMAGED)) {
        // Pages that could not be read here may be readable with another tool, so they are kept.
        kernel.rename("raw", &kernel, "damaged").map_err(ConvertError::io("move the damaged pages to", kernel.join("damaged")))?;
        return Ok(done);
    }
    remove(&kernel, "raw")?;
    Ok(done)
}

/// Returns whether a write failed because the disk, or a quota, is full.
pub(super) fn full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
}

fn bytes_of(raw: &Folder) -> u64 {
    let names = raw.names().unwrap_or_default().into_iter();
    names.filter_map(|name| Some(raw.read(name).ok()?.metadata().ok()?.len())).sum()
}

fn remove(folder: &Folder, name: &str) -> Result<(), ConvertError> {
    folder.remove(name).map_err(ConvertError::io("remove", folder.join(name)))
}

/// Moves the streams first and the metadata last, so a directory with metadata is complete.
fn publish(building: &Folder, kernel: &Folder) -> Result<(), ConvertError> {
    let sync = |folder: &Folder| folder.sync().map_err(ConvertError::io("sync", folder.path()));
    let mut names = building.names().map_err(ConvertError::io("read", building.path()))?;
    names.sort_by_key(|name| name == "metadata");
    sync(building)?;
    for name in names {
        if name == "metadata" {
            sync(kernel)?;
        }
        building.rename(&name, kernel, &name).map_err(ConvertError::io("move a file to", kernel.join(&name)))?;
    }
    sync(kernel)?;
    let _ = kernel.remove(BUILDING_FOLDER);
    Ok(())
}
