//! What a recorder that was killed leaves in the kernel: its instance, with the pages that nobody has taken.
//!
//! Whoever comes next saves the pages into that recording and removes the instance. Only our own instances are touched, and of
//! those only the ones whose recorder is gone. A living recorder holds a lock on its folder of pages, which the kernel releases
//! at its death; it holds across namespaces, where pids say nothing.

use super::masks;
use super::pause::since;
use super::source::{describe, CpuLoss};
use crate::output::folder::Folder;
use longpole_ftrace::{DeadInstance, Instance, TraceFs};
use rustix::fs::{flock, FlockOperation};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// For each instance a file that names its recording. The tracer is one for the whole machine, so this place is, too.
const PLACE: &str = "/run/longpole";
const LONGEST_PATH: u64 = 4096;
const LARGEST_DESCRIPTION: u64 = 4 << 20;

/// Holds a recording's pages for this process.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] Folder);

/// Takes the pages of a recording, to record, save or convert them. None: there are none, or a living process has them.
pub fn lock(recording: &Path) -> Option<Lock> {
    let folder = open_raw(recording)?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(Lock(folder))
}

/// Whether a living process records or converts its kernel events.
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

/// The pages' folder, to write to: it and those above it must be this user's, since others would have files written where they like.
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

/// Says whose an instance is. Without that, only a reader of the recording itself finds it.
pub(super) fn announce(instance: &str, recording: &Path) {
    if let Some(place) = place() {
        // If this fails, the instance is tidied all the same, and its last pages by whoever reads the recording.
        let _ = fs::write(place.join(instance), recording.as_os_str().as_bytes());
    }
}

pub(super) fn forget(instance: &str) {
    if let Some(place) = place() {
        let _ = fs::remove_file(place.join(instance));
    }
}

/// A folder that only this user can write to.
fn place() -> Option<PathBuf> {
    let place = PathBuf::from(PLACE);
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

/// Brings what dead recorders left to its end. Returns what should be told of it.
pub fn all() -> Vec<String> {
    crate::output::scratch::tidy();
    let Ok(tracefs) = super::available() else { return Vec::new() };
    helpers(&tracefs);
    let Ok(dead) = Instance::dead(&tracefs, super::PREFIX) else { return Vec::new() };
    let told = dead.into_iter().filter_map(|dead| one(dead, None)).collect();
    // A name is written after its instance was made, so one without an instance is of the past.
    for entry in place().and_then(|place| fs::read_dir(place).ok()).into_iter().flatten().flatten() {
        if !tracefs.path().join("instances").join(entry.file_name()).exists() {
            let _ = fs::remove_file(entry.path());
        }
    }
    told
}

/// Removes the instances that only helped dead recorders.
fn helpers(tracefs: &TraceFs) {
    for dead in Instance::dead(tracefs, masks::PREFIX).unwrap_or_default() {
        // If it stays, the next one removes it.
        let _ = dead.remove();
    }
}

/// Instances that dead recorders left and that nobody has tidied yet.
pub fn left() -> Vec<String> {
    let dead = super::available().and_then(|tracefs: TraceFs| Instance::dead(&tracefs, super::PREFIX));
    dead.unwrap_or_default().into_iter().map(|dead| dead.name).collect()
}

/// Saves what the kernel still holds of this recording, if its recorder is dead. Returns what should be told of it.
pub fn recording(path: &Path) -> Option<String> {
    let name = read_description(path)?.get("instance")?.as_str()?.to_owned();
    let tracefs = super::available().ok()?;
    helpers(&tracefs);
    let dead = Instance::dead(&tracefs, super::PREFIX).ok()?;
    one(dead.into_iter().find(|dead| dead.name == name)?, Some(path.to_owned()))
}

fn one(dead: DeadInstance, known: Option<PathBuf>) -> Option<String> {
    let name = dead.name.clone();
    let announced = known.or_else(|| recording_of(&name));
    let recording = announced.clone().filter(|path| names_instance(path, &name));
    let told = match recording {
        Some(recording) => {
            // A recorder of another namespace lives, or somebody else is saving it.
            let lock = lock(&recording)?;
            if !dead.exists() {
                // Somebody else was faster.
                return None;
            }
            let saved = save(dead, &recording);
            drop(lock);
            match saved {
                Ok(0) => None,
                Ok(bytes) => {
                    Some(format!("saved {} KiB of kernel pages that a killed recorder had left, to {}", bytes >> 10, recording.display()))
                }
                Err(error) => return Some(format!("what the killed recorder of {} left cannot be saved: {error}", recording.display())),
            }
        }
        None => match dead.remove() {
            Ok(true) => Some(match announced.filter(|path| path.is_dir()) {
                None => format!("removed the tracer's instance {name} of a killed recorder, whose recording is gone"),
                Some(path) => match clear(&path) {
                    true => {
                        format!("removed the tracer's instance {name} and {}: their recorder was killed before it began", path.display())
                    }
                    false => format!("removed the tracer's instance {name} of a killed recorder; {} does not know of it", path.display()),
                },
            }),
            Ok(false) => return None,
            Err(error) => return Some(error.to_string()),
        },
    };
    forget(&name);
    told
}

/// Removes a recording that had not begun, so that no verb can read it. Who lives in it holds its lock.
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

/// Returns the bytes of pages that were saved.
fn save(dead: DeadInstance, recording: &Path) -> Result<u64, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let raw = own_raw(recording).map_err(|error| text(&error))?;
    let mut description = read_description(recording).ok_or("its description cannot be read")?;
    let instance = dead.adopt().map_err(|error| text(&error))?;
    let mut saved = 0;
    let before: Vec<CpuLoss> = description["before"].as_array().into_iter().flatten().filter_map(CpuLoss::from_json).collect();
    let mut cpus = Vec::new();
    let drained: Result<(), String> = (|| {
        for cpu in instance.cpus().map_err(|error| text(&error))? {
            let name = format!("cpu{cpu}");
            // Its recorder took only the CPUs that are there.
            let Ok(mut file) = raw.write(&name) else { continue };
            let mut reader = instance.reader(cpu).map_err(|error| text(&error))?;
            let page = reader.page_size() as u64;
            let length = file.metadata().map_err(|error| text(&error))?.len();
            // Killed in the middle of a move, it left a part of a page.
            let whole = length - length % page;
            file.set_len(whole).map_err(|error| text(&error))?;
            file.seek(SeekFrom::Start(whole)).map_err(|error| text(&error))?;
            saved += reader.drain_to(file.as_fd()).map_err(|error| format!("{}: {error}", raw.join(&name).display()))? as u64;
            let told = before.iter().find(|before| before.cpu == cpu).map(|before| before.stats).unwrap_or_default();
            let stats = since(instance.stats(cpu).map_err(|error| text(&error))?, told);
            cpus.push(CpuLoss { cpu, stats }.to_json());
        }
        Ok(())
    })();
    if let Err(error) = drained {
        // Once there is room, the next one can save the rest.
        instance.leave();
        return Err(error);
    }
    description["cpus"] = cpus.into();
    description["killed"] = true.into();
    describe(&raw, &description).map_err(|error| text(&error))?;
    instance.remove().map_err(|error| text(&error))?;
    Ok(saved)
}
