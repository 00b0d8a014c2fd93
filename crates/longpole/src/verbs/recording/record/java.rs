//! Lets Java processes that outlive the recording list their compiled functions now, as they
//! otherwise do when they end.
//!
//! Java listens for such requests on a socket that it opens after SIGQUIT, if a file for it exists
//! (as `jcmd` does). A process that does not handle SIGQUIT would end by it, so only those that do
//! get it.

use rustix::process::{kill_process, Pid, Signal};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest time until Java listens, and until it answers.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// Version of the protocol, command, and its three arguments, each ended by a zero.
const REQUEST: &[u8] = b"1\0jcmd\0Compiler.perfmap\0\0\0";
/// Name of the library of Java's virtual machine.
const LIBRARY: &str = "libjvm.so";

/// Asks a process and its descendants. Processes that do not answer keep their functions unnamed.
pub fn list_functions(pid: u32) {
    for pid in family(pid).into_iter().filter(|&pid| is_java(pid)) {
        let _ = ask(pid);
    }
}

/// Returns a process and its descendants.
fn family(pid: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(pid) = all.get(at) {
        // Each process has one parent, so none is added twice.
        all.extend(children.remove(pid).unwrap_or_default());
        at += 1;
    }
    all
}

fn is_java(pid: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| line.rsplit('/').next() == Some(LIBRARY)) && handles_sigquit(pid)
}

fn status(pid: u32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix(field))?.trim().to_owned())
}

fn handles_sigquit(pid: u32) -> bool {
    let caught = status(pid, "SigCgt:").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    caught.is_some_and(|mask| mask & 1 << (Signal::QUIT.as_raw() - 1) != 0)
}

fn ask(pid: u32) -> std::io::Result<()> {
    let inner = status(pid, "NSpid:").and_then(|pids| pids.split_whitespace().last().map(str::to_owned));
    let inner = inner.unwrap_or_else(|| pid.to_string());
    let socket = PathBuf::from(format!("/proc/{pid}/root/tmp/.java_pid{inner}"));
    if !socket.exists() {
        listen(pid, Path::new(&format!("/proc/{pid}/root/tmp/.attach_pid{inner}")), &socket)?;
    }
    let mut stream = UnixStream::connect(&socket)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(REQUEST)?;
    // The list is complete when the answer is.
    let mut answer = Vec::new();
    stream.take(1 << 16).read_to_end(&mut answer).map(|_| ())
}

/// Lets Java open its socket.
fn listen(pid: u32, request: &Path, socket: &Path) -> std::io::Result<()> {
    let made: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(request)?;
    drop(made);
    let begin = Instant::now();
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, Signal::QUIT);
    }
    while !socket.exists() && begin.elapsed() < LISTEN_TIMEOUT {
        std::thread::sleep(PAUSE);
    }
    fs::remove_file(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_java_is_asked() {
        let own = std::process::id();
        assert!(family(own).contains(&own) && !is_java(own) && !is_java(0));
    }
}
