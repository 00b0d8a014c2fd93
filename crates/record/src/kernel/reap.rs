//! Saves what a killed recorder leaves in the kernel: the tracer's instance, with the pages that
//! were not read.
//!
//! The next process of this tool saves the pages into that recording and removes the instance. Only
//! our own instances are touched, and only those whose recorder is dead. A living recorder holds a
//! lock on its folder of pages, which the kernel releases when the recorder ends. The lock works
//! across pid namespaces, where a pid proves nothing.

use super::convert::full;
use super::masks;
use super::source::cpu_loss::CpuLoss;
use super::source::describe;
use super::source::pause::since;
use crate::output::folder::Folder;
use longpole_ftrace::{CpuStats, DeadInstance, Instance, TraceFs};
use rustix::fs::{flock, FlockOperation};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Folder with a file per instance, which contains the path of the instance's recording. There is
/// one tracer for the whole host, so there is one such folder.
const INSTANCE_FILES: &str = "/run/longpole";
const LONGEST_PATH: u64 = 4096;
const LARGEST_DESCRIPTION: u64 = 4 << 20;

/// A lock on the pages of a recording. While it is held, no other process records, saves or
/// converts them.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] Folder);

/// Locks the pages of a recording, to record, save or convert them. `None` if there are none, or if
/// a living process holds the lock.
pub fn lock(recording: &Path) -> Option<Lock> {
    let folder = open_raw(recording)?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(Lock(folder))
}

/// True if a living process records or converts the kernel events of this recording.
pub fn is_going_on(recording: &Path) -> bool {
    open_raw(recording).is_some_and(|folder| flock(&folder, FlockOperation::NonBlockingLockShared).is_err())
}

fn open_raw(recording: &Path) -> Option<Folder> {
    let mut folder = Folder::open(recording).ok()?;
    for name in Path::new(super::RAW) {
        folder = folder.folder(name).ok()?;
    }
    Some(folder)
}

/// Opens the folder of the pages to write into it. It and the folders above it in the recording
/// must belong to this user, because another owner could make us write files to other places.
pub(super) fn own_raw(recording: &Path) -> io::Result<Folder> {
    let mut folder = Folder::open(recording)?;
    for name in Path::new(super::RAW).iter().map(Some).chain([None]) {
        let owner = folder.owner()?;
        if owner != rustix::process::geteuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} belongs to user {owner}", folder.path().display())));
        }
        if let Some(name) = name {
            folder = folder.folder(name)?;
        }
    }
    Ok(folder)
}

/// Records to which recording an instance belongs. If that fails, only a process that reads the
/// recording itself finds the instance.
pub(super) fn announce(instance: &str, recording: &Path) {
    if let Some(place) = place() {
        // A failure is harmless: the instance is removed anyway, and its last pages are saved when
        // the recording is read.
        let _ = fs::write(place.join(instance), recording.as_os_str().as_bytes());
    }
}

/// Removes the file that names the recording of an instance.
pub(super) fn forget(instance: &str) {
    if let Some(place) = place() {
        let _ = fs::remove_file(place.join(instance));
    }
}

/// Returns the folder of the instances' files, if only this user can write to it.
fn place() -> Option<PathBuf> {
    let place = PathBuf::from(INSTANCE_FILES);
    let _ = fs::DirBuilder::new().mode(0o700).create(&place);
    let found = fs::symlink_metadata(&place).ok()?;
    let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0;
    own.then_some(place)
}

fn recording_of(instance: &str) -> Option<PathBuf> {
    use std::io::Read;
    let file = File::open(place()?.join(instance)).ok()?;
    let mut bytes = Vec::new();
    file.take(LONGEST_PATH).read_to_end(&mut bytes).ok()?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
    path.is_absolute().then_some(path)
}

/// Saves and removes everything that dead recorders left. Returns messages for the user.
pub fn all() -> Vec<String> {
    crate::output::scratch::tidy();
    let Ok(tracefs) = super::available() else { return Vec::new() };
    helpers(&tracefs);
    let Ok(dead) = Instance::dead(&tracefs, super::PREFIX) else { return Vec::new() };
    let diagnostics = dead.into_iter().filter_map(|dead| one(dead, None).unwrap_or_else(Some)).collect();
    // The file is written after the instance was made, so a file without an instance is old.
    for entry in place().and_then(|place| fs::read_dir(place).ok()).into_iter().flatten().flatten() {
        if !tracefs.path().join("instances").join(entry.file_name()).exists() {
            let _ = fs::remove_file(entry.path());
        }
    }
    diagnostics
}

/// Removes the instances that dead recorders used only for masks.
fn helpers(tracefs: &TraceFs) {
    for dead in Instance::dead(tracefs, masks::PREFIX).unwrap_or_default() {
        // If it cannot be removed, the next process tries again.
        let _ = dead.remove();
    }
}

/// Returns the names of instances that dead recorders left and that are not removed yet.
pub fn left() -> Vec<String> {
    let dead = super::available().and_then(|tracefs: TraceFs| Instance::dead(&tracefs, super::PREFIX));
    dead.unwrap_or_default().into_iter().map(|dead| dead.name).collect()
}

/// Saves what the kernel still holds of this recording, if its recorder is dead. Returns a message
/// for the user. The error is a message as well: pages are left that could not be saved.
pub fn recording(path: &Path) -> Result<Option<String>, String> {
    let dead = || {
        let name = read_description(path)?.get("instance")?.as_str()?.to_owned();
        let tracefs = super::available().ok()?;
        helpers(&tracefs);
        Instance::dead(&tracefs, super::PREFIX).ok()?.into_iter().find(|dead| dead.name == name)
    };
    dead().map_or(Ok(None), |dead| one(dead, Some(path.to_owned())))
}

/// Saves and removes one instance. `known` is its recording, if the caller knows it. Returns a
/// message for the user, as an error if the pages could not be saved because the disk is full.
fn one(dead: DeadInstance, known: Option<PathBuf>) -> Result<Option<String>, String> {
    let name = dead.name.clone();
    let announced = known.or_else(|| recording_of(&name));
    let recording = announced.clone().filter(|path| names_instance(path, &name));
    let diagnostic = match recording {
        Some(recording) => {
            // The lock is held if a recorder of another pid namespace lives, or if another process
            // is saving the pages.
            let Some(lock) = lock(&recording) else { return Ok(None) };
            if !dead.exists() {
                // Another process was faster.
                return Ok(None);
            }
            let saved = save(dead, &recording);
            drop(lock);
            match saved {
                Ok(0) => None,
                Ok(bytes) => {
                    Some(format!("saved {} KiB of kernel pages that a killed recorder had left, to {}", bytes >> 10, recording.display()))
                }
                Err(NotSaved { what, is_full }) => {
                    let what = format!("cannot save the kernel pages that the killed recorder of {} left: {what}", recording.display());
                    return if is_full { Err(what) } else { Ok(Some(what)) };
                }
            }
        }
        None => match dead.remove() {
            Ok(true) => Some(match announced.filter(|path| path.is_dir()) {
                None => format!("removed the tracer's instance {name} of a killed recorder; its recording no longer exists"),
                Some(path) => match clear(&path) {
                    true => {
                        format!("removed the tracer's instance {name} and {}: their recorder was killed before it began", path.display())
                    }
                    false => format!("removed the tracer's instance {name} of a killed recorder; {} does not mention it", path.display()),
                },
            }),
            Ok(false) => return Ok(None),
            Err(error) => return Ok(Some(error.to_string())),
        },
    };
    forget(&name);
    Ok(diagnostic)
}

/// Removes a recording that had not begun and that no verb can read. A process that still uses it
/// holds its lock, and then it is not removed.
fn clear(recording: &Path) -> bool {
    let begun = ["longpole.json", "user/metadata"].iter().any(|name| fs::symlink_metadata(recording.join(name)).is_ok());
    let held = lock(recording);
    !begun && held.is_some() && own_raw(recording).is_ok() && remove(recording).is_ok()
}

fn remove(recording: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (recording.parent(), recording.file_name()) else { return Err(io::ErrorKind::InvalidInput.into()) };
    Folder::open(parent)?.remove(name)
}

fn names_instance(recording: &Path, name: &str) -> bool {
    read_description(recording).is_some_and(|description| description["instance"] == name)
}

fn read_description(recording: &Path) -> Option<Value> {
    let file = open_raw(recording)?.read(super::DESCRIPTION).ok()?;
    if file.metadata().ok()?.len() > LARGEST_DESCRIPTION {
        return None;
    }
    serde_json::from_reader(io::BufReader::new(file)).ok()
}

/// In the description, instead of the counters before this recording: the recorder was killed
/// between two recordings.
pub const BEFORE_UNKNOWN: &str = "unknown";

/// The reason why pages were not saved.
struct NotSaved {
    what: String,
    /// The disk is full: the pages can be saved later.
    is_full: bool,
}

impl NotSaved {
    fn new(error: &dyn std::error::Error) -> NotSaved {
        NotSaved { what: error.to_string(), is_full: false }
    }
}

/// Saves the pages. Returns their size in bytes.
fn save(dead: DeadInstance, recording: &Path) -> Result<u64, NotSaved> {
    let text = NotSaved::new;
    let raw = own_raw(recording).map_err(|error| text(&error))?;
    let unreadable = || NotSaved { what: "its description cannot be read".to_owned(), is_full: false };
    let mut description = read_description(recording).ok_or_else(unreadable)?;
    let instance = dead.adopt().map_err(|error| text(&error))?;
    let mut saved = 0;
    let before: Vec<CpuLoss> = description["before"].as_array().into_iter().flatten().filter_map(CpuLoss::from_json).collect();
    let mut cpus = Vec::new();
    let drained: Result<(), NotSaved> = (|| {
        for cpu in instance.cpus().map_err(|error| text(&error))? {
            let name = format!("cpu{cpu}");
            // The recorder took only the CPUs that are present.
            let Ok(mut file) = raw.write(&name) else { continue };
            let mut reader = instance.reader(cpu).map_err(|error| text(&error))?;
            let page = reader.page_size() as u64;
            let length = file.metadata().map_err(|error| text(&error))?.len();
            // A recorder that was killed while it moved pages left an incomplete page.
            let whole = length - length % page;
            file.set_len(whole).map_err(|error| text(&error))?;
            file.seek(SeekFrom::Start(whole)).map_err(|error| text(&error))?;
            let failed = |error: io::Error| NotSaved { what: format!("{}: {error}", raw.join(&name).display()), is_full: full(&error) };
            // What is taken from the ring cannot be put back.
            let needed = instance.stats(cpu).map_err(|error| text(&error))?.bytes + 2 * page;
            let space = rustix::fs::fstatvfs(&file).map_err(|error| failed(error.into()))?;
            if space.f_bavail.saturating_mul(space.f_frsize) < needed {
                return Err(failed(io::Error::from_raw_os_error(libc::ENOSPC)));
            }
            saved += reader.drain_to(file.as_fd()).map_err(failed)? as u64;
            let before = before.iter().find(|before| before.cpu == cpu).map(|before| before.stats).unwrap_or_default();
            let stats = match description["before"] == BEFORE_UNKNOWN {
                // The pages themselves state what was lost before them.
                true => CpuStats::default(),
                false => since(instance.stats(cpu).map_err(|error| text(&error))?, before),
            };
            cpus.push(CpuLoss { cpu, stats }.to_json());
        }
        Ok(())
    })();
    if let Err(error) = drained {
        // The instance stays: when there is space on the disk, the next process can save the rest.
        instance.leave();
        return Err(error);
    }
    description["cpus"] = cpus.into();
    description["killed"] = true.into();
    describe(&raw, &description).map_err(|error| text(&error))?;
    instance.remove().map_err(|error| text(&error))?;
    Ok(saved)
}
