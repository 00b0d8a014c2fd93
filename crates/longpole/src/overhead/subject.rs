//! Runs the measuring program in directories of its own, which are removed afterwards.

use anyhow::{bail, Context};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/subject"));
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/subject.so"));

pub fn run_all(rounds: u32, turns: u32) -> anyhow::Result<String> {
    let files = files()?;
    let library = files.path().join("subject.so");
    fs::write(&library, LIBRARY).with_context(|| format!("cannot write {}", library.display()))?;
    run(&files, library.as_os_str(), rounds, turns)
}

pub fn run_quick(rounds: u32, turns: u32) -> anyhow::Result<String> {
    run(&files()?, "quick".as_ref(), rounds, turns)
}

/// Makes a directory that only this user can access. Probes refuse a runtime directory that others
/// can access.
fn private(place: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("longpole-overhead-").permissions(Permissions::from_mode(0o700)).tempdir_in(place)
}

/// Makes a directory from which programs can be started, and writes the measuring program into it.
fn files() -> anyhow::Result<TempDir> {
    let directory = private(&std::env::temp_dir()).context("cannot make a temporary directory")?;
    let program = directory.path().join("subject");
    fs::write(&program, PROGRAM).with_context(|| format!("cannot write {}", program.display()))?;
    fs::set_permissions(&program, Permissions::from_mode(0o700))?;
    Ok(directory)
}

fn run(files: &TempDir, what: &std::ffi::OsStr, rounds: u32, turns: u32) -> anyhow::Result<String> {
    // Rings are in memory in real recordings, too. On a disk, its writeback would be measured.
    let runtime =
        private(Path::new("/dev/shm")).or_else(|_| private(&std::env::temp_dir())).context("cannot make a private runtime directory")?;
    let output = Command::new(files.path().join("subject"))
        .arg(what)
        .args([rounds.to_string(), turns.to_string()])
        .env("LONGPOLE_RUNTIME_DIR", runtime.path())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start the measuring program in {}", files.path().display()))?;
    if !output.status.success() {
        bail!("the measuring program failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("the measuring program printed no text")
}
