//! Adds the names of the functions in its samples to a recording: `symbols/functions.jsonl`.
//!
//! This is done when the recording ends, or else by the first command that reads it, on the
//! recorded host, because only that host has the files. The files are read in a sandbox
//! ([`crate::sandbox`]), so a file that is broken, endless or vanishing costs only its own names.

use crate::collect::{collect, Places};
use crate::convert::{self, convert};
use crate::error::CompleteError;
use crate::jit;
use crate::open::{self, User};
use crate::resolve;
use crate::sandbox::{run_in_sandbox, Why, MAX_CPU};
use crate::spaces::ModuleId;
use crate::table::{clean, write, Line, FILE, VERSION};
use rustix::fs::{flock, FlockOperation};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest time for looking into all files.
pub(crate) const SEARCH_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of processes that are tried to open a module's file.
const MAX_USERS: usize = 8;
/// Number of files that could not be read after which looking up ends.
pub(crate) const MAX_FAILURES: usize = 16;

/// Result of [`complete`].
#[derive(Clone, Debug, Default)]
pub struct Completed {
    /// Number of different places that were looked up, and number of addresses beyond the limit.
    pub places: usize,
    pub left_out: u64,
    /// Messages for the user, one sentence each.
    pub diagnostics: Vec<String>,
}

/// Returns true if the recording has samples whose functions were not looked up yet, and this host
/// is the recorded one, where that is possible.
pub fn is_pending(recording: &Path) -> bool {
    recording.join("samples/metadata").is_file() && !recording.join(FILE).exists() && is_of_here(recording)
}

/// Copied stacks, which may hold secrets, and the host that can unwind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remaining {
    pub stacks: u64,
    pub host: Option<String>,
}

/// Returns what is left of copied stacks, because no host or only another one can unwind them, or
/// because that was interrupted. Reads all samples, unless their functions were looked up or
/// another process records or completes them.
pub fn remaining(recording: &Path) -> Option<Remaining> {
    if !recording.join("samples/metadata").is_file() || recording.join(FILE).exists() {
        return None;
    }
    let is_free = |lock: File| flock(&lock, FlockOperation::NonBlockingLockShared) != Err(rustix::io::Errno::WOULDBLOCK);
    if !File::open(recording.join("samples")).is_ok_and(is_free) {
        return None;
    }
    let stacks = convert::count(recording);
    let host = || longpole_trace::Recording::read(recording).ok().flatten().and_then(|recording| recording.host);
    (stacks > 0).then(|| Remaining { stacks, host: host() })
}

pub(crate) fn is_of_here(recording: &Path) -> bool {
    let text = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
    let Ok(Some(said)) = longpole_trace::Recording::read(recording) else { return false };
    said.host == text("/proc/sys/kernel/hostname") && said.kernel == text("/proc/sys/kernel/osrelease")
}

/// Unwinds all copied stacks, looks up all places and writes the result.
/// `stopped` is called often; once it returns true, looking up ends with what is known, and
/// unwinding is left to the next call. `progress` is called with the number of bytes of stacks that
/// are unwound, and in all.
pub fn complete(recording: &Path, progress: &mut dyn FnMut(u64, u64), stopped: &dyn Fn() -> bool) -> Result<Completed, CompleteError> {
    let samples = recording.join("samples");
    let lock = File::open(&samples).map_err(CompleteError::io("open", &samples))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(CompleteError::Busy { path: samples }),
        Err(error) => return Err(CompleteError::io("lock", &samples)(error.into())),
    }
    if recording.join(FILE).exists() {
        return Ok(Completed::default());
    }
    let notes = convert(recording, progress, stopped)?;
    let places = collect(recording)?;
    let folder = recording.join("symbols");
    fs::create_dir_all(&folder).map_err(CompleteError::io("make", &folder))?;
    let hidden = folder.join(".functions.jsonl");
    let _ = fs::remove_file(&hidden);
    let file = OpenOptions::new().append(true).create_new(true).mode(0o644).open(&hidden).map_err(CompleteError::io("make", &hidden))?;
    let mut done = Completed { places: places.count, left_out: places.left_out, diagnostics: notes };
    if places.spaces.left_out() > 0 {
        done.diagnostics.push(format!("{} mappings of processes were too many: code in them has no name", places.spaces.left_out()));
    }
    if places.left_out > 0 {
        done.diagnostics.push(format!("addresses of stacks beyond {} different ones are shown without their functions", places.count));
    }
    let mut first = Vec::new();
    let begun = write(&mut first, &Line { version: Some(VERSION), ..Line::default() }).and_then(|()| (&file).write_all(&first));
    let notes = begun.and_then(|()| look_up(&places, &file, stopped)).map_err(CompleteError::io("write", &hidden))?;
    done.diagnostics.extend(notes);
    let end = Line { lookup_addresses: Some(places.count as u64), left_out: Some(places.left_out), ..Line::default() };
    // The sandbox may have been killed in the middle of a line.
    let mut last = b"\n".to_vec();
    write(&mut last, &end).and_then(|()| (&file).write_all(&last)).map_err(CompleteError::io("write", &hidden))?;
    let seen = recording.join(FILE);
    file.sync_all().and_then(|()| fs::rename(&hidden, &seen)).map_err(CompleteError::io("write", &seen))?;
    Ok(done)
}

/// A source of names: a process's list of functions, or a module's file.
#[derive(Clone, Copy, Debug)]
enum Item {
    Made(i32),
    Module(ModuleId),
}

/// Returns all sources: first the lists, then the modules with the most samples first, so that
/// those are complete if time or memory runs out.
fn items(places: &Places) -> Vec<Item> {
    let mut modules: Vec<_> = places.files.iter().map(|(id, offsets)| (offsets.values().sum::<u64>(), *id)).collect();
    modules.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut made: Vec<i32> = places.made.keys().copied().collect();
    made.sort_unstable();
    made.into_iter().map(Item::Made).chain(modules.into_iter().map(|(_, id)| Item::Module(id))).collect()
}

/// Reads all sources and skips those that cannot be read. Returns what went wrong.
fn look_up(places: &Places, file: &File, stopped: &dyn Fn() -> bool) -> io::Result<Vec<String>> {
    let (items, end) = (items(places), Instant::now() + SEARCH_TIMEOUT);
    let mut notes = Vec::new();
    let (mut from, mut failures) = (0, 0);
    while from < items.len() {
        let Err((at, why)) = run_in_sandbox(|at| look_into(places, file, &items, from, at), MAX_CPU, end, stopped) else { break };
        // The sandbox may have been killed in the middle of a line.
        let mut lines = b"\n".to_vec();
        let item = at.and_then(|at| items.get(at).copied());
        match (why, item) {
            (Why::Item(why) | Why::Limit(why), Some(item)) => {
                let name = match item {
                    Item::Made(pid) => format!("the functions that process {pid} generated"),
                    Item::Module(id) => {
                        let module = &places.spaces.modules()[id.0 as usize];
                        let path = String::from_utf8_lossy(&module.path).into_owned();
                        let (inode, trouble) = (Some(module.inode), Some(format!("what looked into it {why}")));
                        write(&mut lines, &Line { module: Some(id.0), path: Some(path.clone()), inode, trouble, ..Line::default() })?;
                        clean(&path)
                    }
                };
                notes.push(format!("some functions of stacks in {name} are unknown: the process that reads the programs' files {why}"));
            }
            (Why::Stopped, _) => {
                notes.push("some functions of stacks are unknown: a signal ended the search".to_owned());
                break;
            }
            (Why::Item(why) | Why::Limit(why) | Why::Failed(why), _) => {
                notes.push(format!("some functions of stacks are unknown: the process that reads the programs' files {why}"));
                break;
            }
        }
        { file }.write_all(&lines)?;
        failures += 1;
        if failures >= MAX_FAILURES {
            notes.push(format!("some functions of stacks are unknown: {failures} files could not be read"));
            break;
        }
        from = at.map_or(items.len(), |at| at.saturating_add(1));
    }
    Ok(notes)
}

/// Reads the sources from number `from` on; runs in the sandbox. Output is flushed before each
/// source, so that it remains if the next one kills the sandbox.
fn look_into(places: &Places, file: &File, items: &[Item], from: usize, at: &mut dyn FnMut(usize)) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(64 << 10, file);
    let mut users: HashMap<ModuleId, Vec<User>> = HashMap::new();
    for (pid, module, range) in places.spaces.living() {
        if places.files.contains_key(&module) {
            let users = users.entry(module).or_default();
            if users.len() < MAX_USERS {
                users.push(User { pid, range });
            }
        }
    }
    for (number, item) in items.iter().enumerate().skip(from) {
        out.flush()?;
        at(number);
        match *item {
            Item::Made(pid) => {
                let Some(addresses) = places.made.get(&pid) else { continue };
                let log = places.code_logs.get(&pid).map(|log| &places.spaces.modules()[log.0 as usize]);
                for (address, function) in jit::functions(pid, places.owners.get(&pid).copied(), log, addresses) {
                    write(&mut out, &Line { pid: Some(pid), address: Some(address), functions: vec![function], ..Line::default() })?;
                }
            }
            Item::Module(id) => {
                let users = users.get(&id).map_or(&[][..], Vec::as_slice);
                module(places, id, users, &mut out, &mut || at(number))?;
            }
        }
    }
    out.flush()
}

fn module(places: &Places, id: ModuleId, users: &[User], out: &mut impl Write, progress: &mut dyn FnMut()) -> io::Result<()> {
    let Some(offsets) = places.files.get(&id) else { return Ok(()) };
    let module = &places.spaces.modules()[id.0 as usize];
    let of = |line: Line| Line { module: Some(id.0), ..line };
    let path = Some(String::from_utf8_lossy(&module.path).into_owned());
    let opened = match module.path.as_slice() {
        b"[vdso]" => resolve::vdso(),
        path => open::module(path, module.inode, users, places.end_ns),
    };
    let Some(opened) = opened else {
        let trouble = Some("the file is missing or was changed".to_owned());
        return write(out, &of(Line { path, inode: Some(module.inode), trouble, ..Line::default() }));
    };
    write(out, &of(Line { path: path.clone(), inode: Some(module.inode), ..Line::default() }))?;
    let offsets: Vec<u64> = offsets.keys().copied().collect();
    let mut written = Ok(());
    let resolved = resolve::functions(&opened, &offsets, progress, |offset, functions| {
        let line = of(Line { offset: Some(offset), functions, ..Line::default() });
        written = std::mem::replace(&mut written, Ok(())).and_then(|()| write(out, &line));
    });
    written?;
    if let Err(trouble) = resolved {
        write(out, &of(Line { path, inode: Some(module.inode), trouble: Some(trouble), ..Line::default() }))?;
    }
    Ok(())
}
