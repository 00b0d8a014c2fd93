//! Conversion of copied stacks (`copied`) to addresses (`stack`), after the recording.
//!
//! The changes of all processes are collected from all streams first ([`timeline`]). Then each
//! stream is converted on its own, several at a time, each in a sandbox, because the files of
//! programs may be hostile. A converted stream replaces the original by a rename, so a conversion
//! that is interrupted continues with the remaining streams. If a module ends the sandbox, its
//! stream is converted again without that module.

mod excluded;
mod job;
mod layout;
mod memory;
mod remaining;
mod scan;
mod shared;
mod stream;
mod timeline;

use crate::error::CompleteError;
use crate::open::User;
use crate::sandbox::{run_in_sandbox, Why};
use crate::spaces::{ModuleId, Place, Spaces};
use crate::table::clean;
use excluded::{Excluded, Exclusion};
use job::Job;
use layout::Layout;
pub use remaining::count;
use rustix::fs::{open, Mode, OFlags};
use shared::Shared;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use timeline::Timeline;

/// Maximum number of bytes of metadata.
const MAX_METADATA: u64 = 1 << 20;
/// Maximum number of processes that are tried to open a module's file.
const MAX_USERS: usize = 8;
/// Longest time, and CPU time per stream: a basic time, and one for each MB.
const BASE: Duration = Duration::from_secs(60);
const PER_MB: Duration = Duration::from_millis(100);
/// Time between two reports of the progress.
const PAUSE: Duration = Duration::from_millis(20);

/// A stream with copied stacks.
struct Stream {
    path: PathBuf,
    file: File,
    bytes: u64,
    shared: Shared,
}

/// Replaces all copied stacks of a recording. `progress` is called with the number of bytes done
/// and in all. Returns messages for the user.
///
/// # Errors
///
/// Some streams still have copied stacks: a file could not be read or written, or `stopped`
/// returned true.
pub fn convert(recording: &Path, progress: &mut dyn FnMut(u64, u64), stopped: &dyn Fn() -> bool) -> Result<Vec<String>, CompleteError> {
    let folder = recording.join("samples");
    let Some(layout) = layout_of(&folder)? else { return Ok(Vec::new()) };
    let (streams, timeline) = survey(&folder, &layout)?;
    if streams.is_empty() {
        return Ok(Vec::new());
    }
    if stopped() {
        return Err(CompleteError::io("convert", &folder)(interrupted()));
    }
    let mut replay = timeline.replay(&layout);
    replay.advance(u64::MAX, &mut |_| {});
    let users = users(&replay.spaces);
    let work = Work { layout: &layout, timeline: &timeline, users, streams: &streams, state: State::default() };
    work.run(progress, stopped)?;
    let mut notes = work.state.notes.into_inner().unwrap_or_else(PoisonError::into_inner);
    if timeline.left_out > 0 {
        notes.push(format!("{} changes of processes were too many: stacks in what they map are incomplete", timeline.left_out));
    }
    Ok(notes)
}

/// Returns `None` if the recording has no copies of stacks, or a layout that is not known.
fn layout_of(folder: &Path) -> Result<Option<Layout>, CompleteError> {
    let metadata = folder.join("metadata");
    let text = open_regular(&metadata).and_then(|file| {
        let mut text = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, MAX_METADATA), &mut text).map(|_| text)
    });
    Ok(Layout::new(&text.map_err(CompleteError::io("read", &metadata))?))
}

fn interrupted() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "a signal ended the unwinding of its stacks")
}

fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::from(open(path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is no regular file"))
    }
}

/// Returns the files of all streams.
fn streams(folder: &Path) -> Result<Vec<PathBuf>, CompleteError> {
    let listed = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut paths: Vec<PathBuf> = listed.map_err(CompleteError::io("list", folder))?.iter().map(fs::DirEntry::path).collect();
    let hidden = |path: &Path| path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    paths.retain(|path| !path.ends_with("metadata") && !hidden(path));
    // The state at the begin comes first.
    paths.sort_by_key(|path| (!path.ends_with("begin"), path.clone()));
    Ok(paths)
}

/// Returns the streams with copied stacks, and the changes of all streams.
fn survey(folder: &Path, layout: &Layout) -> Result<(Vec<Stream>, Timeline), CompleteError> {
    let (mut found, mut timeline) = (Vec::new(), Timeline::default());
    for path in streams(folder)? {
        let file = open_regular(&path).map_err(CompleteError::io("open", &path))?;
        let copied = timeline.add(&file, layout).map_err(CompleteError::io("read", &path))?;
        if copied > 0 {
            let bytes = file.metadata().map_err(CompleteError::io("read", &path))?.len();
            let shared = Shared::new().map_err(CompleteError::io("convert", &path))?;
            found.push(Stream { path, file, bytes, shared });
        }
    }
    timeline.sort();
    Ok((found, timeline))
}

/// Returns living processes that have a module mapped, by module.
fn users(spaces: &Spaces) -> HashMap<ModuleId, Vec<User>> {
    let mut users: HashMap<ModuleId, Vec<User>> = HashMap::new();
    for (pid, module, range) in spaces.living() {
        let users = users.entry(module).or_default();
        if users.len() < MAX_USERS {
            users.push(User { pid, range });
        }
    }
    users
}

/// The conversion of all streams.
struct Work<'a> {
    layout: &'a Layout,
    timeline: &'a Timeline,
    users: HashMap<ModuleId, Vec<User>>,
    streams: &'a [Stream],
    state: State,
}

/// What several threads change.
#[derive(Default)]
struct State {
    /// Index of the next stream that no thread converts yet.
    next: AtomicUsize,
    stop: AtomicBool,
    excluded: Mutex<Excluded>,
    notes: Mutex<Vec<String>>,
    error: Mutex<Option<CompleteError>>,
}

fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Work<'_> {
    fn run(&self, progress: &mut dyn FnMut(u64, u64), stopped: &dyn Fn() -> bool) -> Result<(), CompleteError> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cpus.min(self.streams.len()).min(memory::sandboxes());
        let total = self.streams.iter().map(|stream| stream.bytes).sum();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| self.work())).collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                if stopped() {
                    self.state.stop.store(true, Relaxed);
                }
                progress(self.streams.iter().map(|stream| stream.shared.done()).sum(), total);
                std::thread::sleep(PAUSE);
            }
        });
        locked(&self.state.error).take().map_or(Ok(()), Err)
    }

    /// Converts streams until none is left. An error ends all threads.
    fn work(&self) {
        while let Some(stream) = self.streams.get(self.state.next.fetch_add(1, Relaxed)) {
            if let Err(error) = self.convert(stream) {
                locked(&self.state.error).get_or_insert(error);
                self.state.stop.store(true, Relaxed);
            }
        }
    }

    fn convert(&self, stream: &Stream) -> Result<(), CompleteError> {
        let name = stream.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let hidden = stream.path.with_file_name(format!(".{name}"));
        let mut by_chain = false;
        loop {
            // The modules that this attempt does not read; other threads may add some meanwhile.
            let excluded = locked(&self.state.excluded).clone();
            let failed = match self.attempt(stream, &hidden, &excluded, by_chain)? {
                Ok(()) => {
                    self.note_tables(&name, stream.shared.too_large());
                    return fs::rename(&hidden, &stream.path).map_err(CompleteError::io("replace", &stream.path));
                }
                Err(Why::Item(why)) if !by_chain => {
                    by_chain = !self.exclude(stream, &excluded, &why);
                    if by_chain {
                        self.note_chain(&name, &why);
                    }
                    continue;
                }
                // Frame pointers need no file that could be the reason.
                Err(Why::Failed(why) | Why::Limit(why)) if !by_chain => {
                    by_chain = true;
                    self.note_chain(&name, &why);
                    continue;
                }
                Err(Why::Item(why) | Why::Limit(why) | Why::Failed(why)) => {
                    io::Error::other(format!("the process that unwinds its stacks {why}"))
                }
                Err(Why::Stopped) => interrupted(),
            };
            let _ = fs::remove_file(&hidden);
            return Err(CompleteError::io("convert", &stream.path)(failed));
        }
    }

    fn note_tables(&self, stream: &str, modules: u64) {
        if modules > 0 {
            let most = job::MAX_TABLES >> 20;
            let note = format!(
                "stacks through {modules} modules in samples/{stream} are incomplete: all unwinding tables have more than {most} MiB"
            );
            locked(&self.state.notes).push(note);
        }
    }

    fn note_chain(&self, stream: &str, why: &str) {
        let note = format!("the stacks in samples/{stream} are those by frame pointers: the process that unwinds stacks {why}");
        locked(&self.state.notes).push(note);
    }

    fn attempt(&self, stream: &Stream, hidden: &Path, excluded: &Excluded, by_chain: bool) -> Result<Result<(), Why>, CompleteError> {
        let _ = fs::remove_file(hidden);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o644).open(hidden);
        let to = made.map_err(CompleteError::io("make", hidden))?;
        let job = Job { layout: self.layout, timeline: self.timeline, users: &self.users, excluded, by_chain };
        let limit = BASE + PER_MB * u32::try_from(stream.bytes >> 20).unwrap_or(u32::MAX);
        let stopped = || self.state.stop.load(Relaxed);
        let done =
            run_in_sandbox(|at| job::convert(&job, &stream.file, &to, &stream.shared, at), limit, Instant::now() + 4 * limit, &stopped);
        match done {
            Ok(()) => to.sync_all().map(Ok).map_err(CompleteError::io("write", hidden)),
            Err((_, why)) => match stream.shared.error() {
                // Another attempt would fail, too, e.g. because the disk is full.
                Some(error) => {
                    let _ = fs::remove_file(hidden);
                    Err(CompleteError::io("convert", &stream.path)(error))
                }
                None => Ok(Err(why)),
            },
        }
    }

    /// Excludes the module that ended the sandbox of an attempt. Returns false if a further attempt
    /// would not help.
    fn exclude(&self, stream: &Stream, attempted: &Excluded, why: &str) -> bool {
        let Some((time, pid, address)) = stream.shared.at() else { return false };
        let mut replay = self.timeline.replay(self.layout);
        replay.advance(time, &mut |_| {});
        let Place::File(id, _) = replay.spaces.place(pid, address) else { return false };
        let exclusion = locked(&self.state.excluded).add(id, attempted);
        if exclusion == Exclusion::New {
            let path = String::from_utf8_lossy(&replay.spaces.modules()[id.0 as usize].path).into_owned();
            let note = format!("stacks through {} are incomplete: the process that unwinds stacks {why}", clean(&path));
            locked(&self.state.notes).push(note);
        }
        exclusion != Exclusion::Useless
    }
}
