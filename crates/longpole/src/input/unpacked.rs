//! Archives that are named as traces. They are unpacked once for all readers in a command, and
//! removed when the command ends.
//!
//! A command can end in many ways, also by a signal or `kill -9`. A separate process therefore
//! waits for the end of a pipe whose other end only the command holds, and then removes the
//! directory.

pub use crate::render::shown_paths::renamed;

use crate::render::shown_paths;
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

/// First argument of the process that removes the directory.
pub const VERB: &str = "--remove-afterwards";
/// Archive size in bytes from which on a message explains the wait.
const LARGE_ARCHIVE: u64 = 64 << 20;

/// All unpacked archives, with the paths that were named, and the pipe to the process that removes
/// each.
static ALL: Mutex<Vec<(PathBuf, Unpacked, Option<ChildStdin>)>> = Mutex::new(Vec::new());

/// Returns the path of the archive's contents, or the path itself if it is no archive.
pub fn content(path: &Path) -> anyhow::Result<PathBuf> {
    let mut all = ALL.lock().unwrap_or_else(|broken| broken.into_inner());
    if let Some((_, known, _)) = all.iter().find(|(named, ..)| named == path) {
        return Ok(known.content().to_owned());
    }
    // A missing file is reported by the code that opens it.
    let Ok(found) = path.metadata() else { return Ok(path.to_owned()) };
    if !found.is_file() {
        return Ok(path.to_owned());
    }
    if found.len() > LARGE_ARCHIVE && io::stderr().is_terminal() {
        eprintln!("longpole: looking into {} ({})", path.display(), bytes(found.len()));
    }
    let Some(unpacked) = unpack(path)? else { return Ok(path.to_owned()) };
    let content = unpacked.content().to_owned();
    shown_paths::add(&content, path);
    let watcher = watch(unpacked.root());
    all.push((path.to_owned(), unpacked, watcher));
    Ok(content)
}

/// Returns the diagnostics of the archive that was unpacked to `content`.
pub fn diagnostics(content: &Path) -> Vec<Diagnostic> {
    let all = ALL.lock().unwrap_or_else(|broken| broken.into_inner());
    all.iter().find(|(_, unpacked, _)| unpacked.content() == content).map_or(Vec::new(), |(_, unpacked, _)| unpacked.diagnostics.clone())
}

/// Removes all unpacked directories now.
pub fn remove() {
    ALL.lock().unwrap_or_else(|broken| broken.into_inner()).clear();
}

/// Starts the process that removes the directory after this command. If it cannot be started, the
/// directory is still removed at the end of the command; after a kill it stays until the next
/// command that unpacks an archive.
fn watch(root: &Path) -> Option<ChildStdin> {
    let mut command = Command::new("/proc/self/exe");
    command.arg(VERB).arg(root).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // Signals from the terminal end the command, but must not end this process.
    command.process_group(0).current_dir("/");
    command.spawn().ok()?.stdin
}

/// Main function of the removing process: waits for the end of the pipe, then removes the
/// directory.
pub fn remove_afterwards() {
    let Some(root) = std::env::args_os().nth(2).map(PathBuf::from) else { return };
    let _ = io::stdin().read_to_end(&mut Vec::new());
    // A process that ends closes its files one after the other, so the lock on the directory may be
    // released shortly after the pipe is closed.
    for _ in 0..200 {
        remove_if_left(&root);
        if !root.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
