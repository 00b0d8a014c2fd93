//! Finds better names for processes than the kernel's, which have at most 15 bytes: the title that
//! a program gives itself, the script of an interpreter, and the control group.
//!
//! `postgres: walwriter` and `python3 orders.py` say more than `postgres` and `python3`. No event
//! of the kernel contains the arguments of a program, so a thread reads them from /proc. Only
//! processes that live long enough to matter are found: the thread looks soon after the begin, then
//! less and less often, and once more at the end. Titles change; each new one is recorded, up to a
//! limit.
//!
//! Arguments may contain secrets. Only the last component of a script's path, and the words of a
//! title before the first option, are recorded.

mod cgroup;
mod script;
mod title;

use super::state_reader::numbers;
use script::Interpreters;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time before the first look. It doubles after each look.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest time between two looks. With hundreds of processes, looking takes a thousandth of a CPU
/// then.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Bytes of a command line that are read.
const LONGEST_ARGUMENTS: usize = 4096;
/// Largest number of titles that are recorded for one process. A server may show in its title what
/// it does at the moment.
const MAX_TITLES: usize = 8;

/// The thread that looks for names. It ends when this is dropped, after a last look.
#[derive(Debug)]
pub struct Names {
    is_over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Names {
    /// Starts the thread. It writes the names to `file`, one JSON object per line as in the state
    /// dump.
    pub fn begin(file: File) -> io::Result<Names> {
        let is_over = Arc::new((Mutex::new(false), Condvar::new()));
        let ends = Arc::clone(&is_over);
        let work = move || {
            let (mut out, mut looks) = (BufWriter::new(file), Looks::default());
            let mut pause = FIRST_PAUSE;
            loop {
                let guard = ends.0.lock().unwrap_or_else(PoisonError::into_inner);
                let (guard, _) = ends.1.wait_timeout_while(guard, pause, |over| !*over).unwrap_or_else(PoisonError::into_inner);
                let over = *guard;
                drop(guard);
                // On a full disk, only names are lost.
                if looks.look(&mut out).and_then(|()| out.flush()).is_err() || over {
                    return;
                }
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
        };
        let thread = thread::Builder::new().name("longpole-names".to_owned()).spawn(work)?;
        Ok(Names { is_over, thread: Some(thread) })
    }
}

/// Ends the thread after a last look.
impl Drop for Names {
    fn drop(&mut self) {
        *self.is_over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.is_over.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, only names are lost.
            let _ = thread.join();
        }
    }
}

/// Looks once, and writes the names of all present processes to `file`.
pub fn write(file: File) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    Looks::default().look(&mut out)?;
    out.flush()
}

/// Names of a process that were written already.
#[derive(Debug, Default)]
struct Known {
    /// Hash of the command line at the last look.
    arguments: u64,
    titles: Vec<String>,
    script: Option<String>,
    cgroup: Option<String>,
}

/// The names that were found by all looks.
#[derive(Debug, Default)]
struct Looks {
    known: HashMap<i32, Known>,
    interpreters: Interpreters,
}

impl Looks {
    /// Looks once, and writes the names that are new.
    fn look(&mut self, out: &mut impl Write) -> io::Result<()> {
        let pids = numbers("/proc");
        self.known.retain(|pid, _| pids.binary_search(pid).is_ok());
        for pid in pids {
            let known = self.known.entry(pid).or_default();
            let Some(arguments) = arguments(pid) else { continue };
            let mut hasher = DefaultHasher::new();
            hasher.write(&arguments);
            let hash = hasher.finish();
            if hash == known.arguments {
                continue;
            }
            known.arguments = hash;
            // A process that starts a service or a container sets the control group before it
            // executes the program, so the group is final when the command line has changed.
            if let Some(path) = cgroup::of(pid).filter(|path| known.cgroup.as_ref() != Some(path)) {
                writeln!(out, "{}", line("cgroup", pid, &path))?;
                known.cgroup = Some(path);
            }
            if let Some(title) = title::of(pid, &arguments) {
                if known.titles.len() < MAX_TITLES && !known.titles.contains(&title) {
                    writeln!(out, "{}", line("title", pid, &title))?;
                    known.titles.push(title);
                }
            } else if let Some(name) = self.interpreters.script(pid, &arguments).filter(|name| known.script.as_ref() != Some(name)) {
                writeln!(out, "{}", line("script", pid, &name))?;
                known.script = Some(name);
            }
        }
        Ok(())
    }
}

/// Returns the begin of the command line. `None` for a kernel thread, and for a process that has
/// ended.
fn arguments(pid: i32) -> Option<Vec<u8>> {
    let mut arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    arguments.truncate(LONGEST_ARGUMENTS);
    (!arguments.is_empty()).then_some(arguments)
}

/// Makes a line in the form of the state dump.
fn line(kind: &str, pid: i32, name: &str) -> Value {
    json!({ "kind": kind, "pid": pid, "name": name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    /// Returns the process id and the names that are found for the process while it waits for its
    /// input.
    fn names_of(mut command: Command) -> (i32, String) {
        let mut child: Child = command.stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        // The process exists before its program has its arguments.
        while !waits(pid) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        drop(Names::begin(file.reopen().unwrap()).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        (pid, fs::read_to_string(file.path()).unwrap())
    }

    /// Returns whether a process has its arguments and waits.
    fn waits(pid: i32) -> bool {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap();
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        !read("cmdline").is_empty() && stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    }

    fn has(names: &str, kind: &str, pid: i32, name: &str) -> bool {
        let line = line(kind, pid, name).to_string();
        names.lines().any(|name| name == line)
    }

    fn has_any(names: &str, kind: &str, pid: i32) -> bool {
        let is_such = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|line| line["kind"] == kind && line["pid"] == pid);
        names.lines().any(is_such)
    }

    #[test]
    fn a_script_is_found_while_its_interpreter_lives() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("orders.sh"), "read line\n").unwrap();
        let mut shell = Command::new("sh");
        shell.arg("orders.sh").current_dir(folder.path());
        let (pid, names) = names_of(shell);
        assert!(has(&names, "script", pid, "orders.sh"), "{names}");
        assert!(!has_any(&names, "title", pid), "{names}");
    }

    #[test]
    fn a_text_that_a_program_reads_is_no_script() {
        let folder = tempfile::tempdir().unwrap();
        // The text even names an interpreter.
        fs::write(folder.path().join("orders.sh"), "#!/bin/sh\nread line\n").unwrap();
        let mut reader = Command::new("tail");
        reader.args(["-f", "orders.sh"]).current_dir(folder.path()).stdout(Stdio::null());
        let (pid, names) = names_of(reader);
        assert!(!has_any(&names, "script", pid), "{names}");
    }

    #[test]
    fn a_title_is_found_without_its_options() {
        let mut command = Command::new("cat");
        command.arg0("shop: worker process --key secret");
        let (pid, names) = names_of(command);
        assert!(has(&names, "title", pid, "shop: worker process"), "{names}");
        assert!(!has_any(&names, "script", pid), "{names}");
    }
}
