//! Archives that are named as traces: unpacked once for all of a verb's readers, and gone when the command is.
//!
//! A command ends in many ways, by a signal or by `kill -9` too. So the folder is watched by a process of its own, which waits for the end of a
//! pipe that only the command holds, and removes the folder then.

use crate::render::table::bytes;
use longpole_trace::remove_if_left;
use longpole_trace::unpack;
use longpole_trace::Diagnostic;
use longpole_trace::Unpacked;
use std::io::{self, IsTerminal, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// First argument of the process that removes.
pub const VERB: &str = "--remove-afterwards";
/// Unpacking more than this takes time that somebody may wonder about.
const LARGE: u64 = 64 << 20;

/// What was unpacked, by the paths that were named.
static ALL: Mutex<Vec<(PathBuf, Unpacked, Option<ChildStdin>)>> = Mutex::new(Vec::new());

/// Where the content of a path lies: the path itself, if that is no archive.
pub fn content(path: &Path) -> anyhow::Result<PathBuf> {
    let mut all = ALL.lock().unwrap_or_else(|broken| broken.into_inner());
    if let Some((_, known, _)) = all.iter().find(|(named, ..)| named == path) {
        return Ok(known.content().to_owned());
    }
    // What is not there is said by who opens it.
    let Ok(found) = path.metadata() else { return Ok(path.to_owned()) };
    if !found.is_file() {
        return Ok(path.to_owned());
    }
    if found.len() > LARGE && io::stderr().is_terminal() {
        eprintln!("longpole: looking into {} ({})", path.display(), bytes(found.len()));
    }
    let Some(unpacked) = unpack(path)? else { return Ok(path.to_owned()) };
    let content = unpacked.content().to_owned();
    let watcher = watch(unpacked.root());
    all.push((path.to_owned(), unpacked, watcher));
    Ok(content)
}

/// What was odd about the archive whose content this is.
pub fn diagnostics(content: &Path) -> Vec<Diagnostic> {
    let all = ALL.lock().unwrap_or_else(|broken| broken.into_inner());
    all.iter().find(|(_, unpacked, _)| unpacked.content() == content).map_or(Vec::new(), |(_, unpacked, _)| unpacked.diagnostics.clone())
}

/// Removes everything now.
pub fn remove() {
    ALL.lock().unwrap_or_else(|broken| broken.into_inner()).clear();
}

/// A text in which archives are called as they were named.
pub fn renamed(text: String) -> String {
    let all = ALL.lock().unwrap_or_else(|broken| broken.into_inner());
    all.iter().fold(text, |text, (named, unpacked, _)| match unpacked.content().to_str() {
        Some(content) if text.contains(content) => text.replace(content, &named.display().to_string()),
        _ => text,
    })
}

/// Without it the folder is removed all the same, but when the command is killed only by the next one.
fn watch(root: &Path) -> Option<ChildStdin> {
    let mut command = Command::new("/proc/self/exe");
    command.arg(VERB).arg(root).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // What ends the command from a terminal must not end this.
    command.process_group(0).current_dir("/");
    command.spawn().ok()?.stdin
}

/// The process that watches: when nothing can come any more, the folder goes.
pub fn remove_afterwards() {
    let Some(root) = std::env::args_os().nth(2).map(PathBuf::from) else { return };
    let _ = io::stdin().read_to_end(&mut Vec::new());
    // A process that ends closes its files one after the other, and the lock on the folder may be behind the pipe.
    for _ in 0..200 {
        remove_if_left(&root);
        if !root.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
