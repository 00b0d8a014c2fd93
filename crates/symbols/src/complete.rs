//! Completes a recording with the names of the functions that its samples hit: `symbols/functions.jsonl`.
//!
//! Done when the recording ends, else by the first verb that reads it: on the machine that was recorded, for only there the files are. They are
//! looked into by a process of its own, so that one that is broken, endless or vanishing costs its names and nothing else. What it
//! found by then stays.

use crate::collect::{collect, Places};
use crate::open::{self, User};
use crate::spaces::ModuleId;
use crate::table::{write, Line, FILE, VERSION};
use crate::{jit, resolve};
use rustix::fs::{flock, FlockOperation};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Of the process that looks into files: seconds of CPU, and bytes of memory beside what is mapped.
const MOST_SECONDS: u64 = 60;
const MOST_MEMORY: u64 = 2 << 30;
/// For it to end.
const PATIENCE: Duration = Duration::from_secs(120);
/// Processes of which a module is asked for.
const MOST_USERS: usize = 8;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompleteError {
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("another process records or completes {}", path.display())]
    Busy { path: PathBuf },
    #[error(transparent)]
    Trace(#[from] longpole_trace::Error),
}

impl CompleteError {
    fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> CompleteError {
        let path = path.into();
        move |source| CompleteError::Io { what, path, source }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Completed {
    /// Different places that the samples have, and those that were too many.
    pub places: usize,
    pub left_out: u64,
    pub oddities: Vec<String>,
}

/// Whether a recording has samples whose functions nobody has looked up, and this is the machine where that can be done.
pub fn is_pending(recording: &Path) -> bool {
    recording.join("samples/metadata").is_file() && !recording.join(FILE).exists() && is_of_here(recording)
}

fn is_of_here(recording: &Path) -> bool {
    let text = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
    let Ok(Some(said)) = longpole_trace::Recording::read(recording) else { return false };
    said.host == text("/proc/sys/kernel/hostname") && said.kernel == text("/proc/sys/kernel/osrelease")
}

/// Looks all places up and writes what they mean.
pub fn complete(recording: &Path) -> Result<Completed, CompleteError> {
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
    let places = collect(recording)?;
    let folder = recording.join("symbols");
    fs::create_dir_all(&folder).map_err(CompleteError::io("make", &folder))?;
    let hidden = folder.join(".functions.jsonl");
    let _ = fs::remove_file(&hidden);
    let file = OpenOptions::new().append(true).create_new(true).mode(0o644).open(&hidden).map_err(CompleteError::io("make", &hidden))?;
    let mut done = Completed { places: places.count, left_out: places.left_out, oddities: Vec::new() };
    if places.left_out > 0 {
        done.oddities.push(format!("addresses of stacks beyond {} different ones are shown without their functions", places.count));
    }
    if let Err(why) = apart(|| look_up(&places, &file)) {
        done.oddities.push(format!("functions of stacks are not all known: what looks into the programs' files {why}"));
    }
    let end = Line { looked_up: Some(places.count as u64), left_out: Some(places.left_out), ..Line::default() };
    // After a process that was ended in the middle of a line.
    let mut last = b"\n".to_vec();
    write(&mut last, &end).and_then(|()| (&file).write_all(&last)).map_err(CompleteError::io("write", &hidden))?;
    let seen = recording.join(FILE);
    file.sync_all().and_then(|()| fs::rename(&hidden, &seen)).map_err(CompleteError::io("write", &seen))?;
    Ok(done)
}

/// Does something in a process of its own. The error says how that ended.
fn apart(work: impl FnOnce() -> io::Result<()>) -> Result<(), String> {
    // SAFETY: the child touches only what it got from this thread, its memory and the files that it opens, and leaves by _exit.
    match unsafe { libc::fork() } {
        -1 => Err(format!("could not be started: {}", io::Error::last_os_error())),
        0 => {
            confine();
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            let status = match ended {
                Ok(Ok(())) => 0,
                Ok(Err(_)) => 2,
                Err(_) => 3,
            };
            // SAFETY: ends this process without what belongs to its parent.
            unsafe { libc::_exit(status) }
        }
        child => wait(child),
    }
}

/// Of the child.
fn confine() {
    let limit = |resource, most: u64| {
        let limit = libc::rlimit { rlim_cur: most as libc::rlim_t, rlim_max: most as libc::rlim_t };
        // SAFETY: reads the limits that it is given.
        unsafe { libc::setrlimit(resource, &limit) };
    };
    limit(libc::RLIMIT_CPU, MOST_SECONDS);
    limit(libc::RLIMIT_DATA, MOST_MEMORY);
    limit(libc::RLIMIT_CORE, 0);
    // SAFETY: asks to end with the parent; no memory is touched.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    std::panic::set_hook(Box::new(|_| {}));
}

fn wait(child: libc::pid_t) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    let mut pause = Duration::from_micros(200);
    loop {
        let mut status = 0;
        // SAFETY: writes the status of a child of ours.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if Instant::now() < end => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
            0 => {
                // SAFETY: a child that nobody has waited for yet, so the number is its own.
                unsafe { libc::kill(child, libc::SIGKILL) };
            }
            -1 => return Err(format!("cannot be waited for: {}", io::Error::last_os_error())),
            _ if libc::WIFEXITED(status) => {
                return match libc::WEXITSTATUS(status) {
                    0 => Ok(()),
                    2 => Err("could not write them".to_owned()),
                    _ => Err("failed on one of them".to_owned()),
                }
            }
            _ => return Err(format!("was ended by signal {}", libc::WTERMSIG(status))),
        }
    }
}

/// Modules with the most samples first: where time or memory ends, they are there.
fn look_up(places: &Places, file: &File) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(64 << 10, file);
    write(&mut out, &Line { version: Some(VERSION), ..Line::default() })?;
    for (&pid, addresses) in &places.made {
        for (address, function) in jit::functions(pid, places.owners.get(&pid).copied(), addresses) {
            write(&mut out, &Line { pid: Some(pid), address: Some(address), functions: vec![function], ..Line::default() })?;
        }
    }
    let mut users: HashMap<ModuleId, Vec<User>> = HashMap::new();
    for (pid, module, range) in places.spaces.living() {
        let users = users.entry(module).or_default();
        if users.len() < MOST_USERS {
            users.push(User { pid, range });
        }
    }
    let mut modules: Vec<_> = places.files.iter().map(|(id, offsets)| (offsets.values().sum::<u64>(), *id, offsets)).collect();
    modules.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, id, offsets) in modules {
        // What is written by now stays, whatever the next file does.
        out.flush()?;
        let module = &places.spaces.modules()[id.0 as usize];
        let of = |line: Line| Line { module: Some(id.0), ..line };
        let path = Some(String::from_utf8_lossy(&module.path).into_owned());
        let opened = match module.path.as_slice() {
            b"[vdso]" => resolve::vdso(),
            path => open::module(path, module.inode, users.get(&id).map_or(&[], Vec::as_slice), places.end_ns),
        };
        let Some(opened) = opened else {
            let trouble = Some("the file is not there, or not as it was".to_owned());
            write(&mut out, &of(Line { path, inode: Some(module.inode), trouble, ..Line::default() }))?;
            continue;
        };
        write(&mut out, &of(Line { path: path.clone(), inode: Some(module.inode), ..Line::default() }))?;
        let offsets: Vec<u64> = offsets.keys().copied().collect();
        let mut written = Ok(());
        let resolved = resolve::functions(&opened, &offsets, |offset, functions| {
            let line = of(Line { offset: Some(offset), functions, ..Line::default() });
            written = std::mem::replace(&mut written, Ok(())).and_then(|()| write(&mut out, &line));
        });
        written?;
        if let Err(trouble) = resolved {
            write(&mut out, &of(Line { path, inode: Some(module.inode), trouble: Some(trouble), ..Line::default() }))?;
        }
    }
    out.flush()
}
