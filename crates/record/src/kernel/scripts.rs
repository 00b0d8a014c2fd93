//! Which script the interpreters run: `python3 orders.py` tells more than `python3`.
//!
//! No event of the kernel bears the arguments of a program, so they are looked at in /proc, for
//! those who live long enough to matter: soon after the begin, then less and less often, and at the
//! end. Arguments may hold secrets; what is kept is the last part of the first argument that is no
//! option, and only if it is a file.

use super::dump::numbers;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Of hundreds of processes it takes a thousandth of a CPU.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Of a command line.
const LONGEST_ARGUMENTS: usize = 4096;
/// Longer names are no names.
const LONGEST_NAME: usize = 64;

/// Looks for them until it is ended.
#[derive(Debug)]
pub struct Scripts {
    is_over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Scripts {
    /// What is found goes to `file`, a JSON object a line as in the state dump.
    pub fn begin(file: File) -> io::Result<Scripts> {
        let is_over = Arc::new((Mutex::new(false), Condvar::new()));
        let ends = Arc::clone(&is_over);
        let work = move || {
            let (mut out, mut known) = (BufWriter::new(file), HashMap::new());
            let mut pause = FIRST_PAUSE;
            loop {
                let guard = ends.0.lock().unwrap_or_else(PoisonError::into_inner);
                let (guard, _) = ends.1.wait_timeout_while(guard, pause, |over| !*over).unwrap_or_else(PoisonError::into_inner);
                let over = *guard;
                drop(guard);
                // A disk that is full costs names.
                if look(&mut out, &mut known).and_then(|()| out.flush()).is_err() || over {
                    return;
                }
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
        };
        let thread = thread::Builder::new().name("longpole-scripts".to_owned()).spawn(work)?;
        Ok(Scripts { is_over, thread: Some(thread) })
    }
}

/// A last look, and no more.
impl Drop for Scripts {
    fn drop(&mut self) {
        *self.is_over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.is_over.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // Names are all that it could have lost.
            let _ = thread.join();
        }
    }
}

fn look(out: &mut impl Write, known: &mut HashMap<i32, String>) -> io::Result<()> {
    for pid in numbers("/proc") {
        let Some(name) = script(pid).filter(|name| known.get(&pid) != Some(name)) else { continue };
        writeln!(out, "{}", line(pid, &name))?;
        known.insert(pid, name);
    }
    Ok(())
}

/// As the state dump has it.
fn line(pid: i32, name: &str) -> Value {
    json!({ "kind": "script", "pid": pid, "name": name })
}

/// The file that a process got as its first argument, without its folders.
fn script(pid: i32) -> Option<String> {
    let mut arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    arguments.truncate(LONGEST_ARGUMENTS);
    let first = first_argument(&arguments)?;
    // An absolute path replaces the folder in which the process works.
    let path = Path::new(&format!("/proc/{pid}/cwd")).join(first);
    let name = path.file_name()?.to_str()?.to_owned();
    (name.len() <= LONGEST_NAME && fs::metadata(&path).is_ok_and(|file| file.is_file())).then_some(name)
}

/// The first one that is no option; each ends with a zero.
fn first_argument(arguments: &[u8]) -> Option<&str> {
    let mut arguments = arguments.split(|&byte| byte == 0).skip(1);
    let first = arguments.find(|argument| !argument.starts_with(b"-"))?;
    std::str::from_utf8(first).ok().filter(|first| !first.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_argument_that_is_no_option_is_meant() {
        assert_eq!(first_argument(b"python3\0-u\0orders.py\0--port\x001\0"), Some("orders.py"));
        assert_eq!(first_argument(b"nginx: worker process\0\0\0"), None);
        assert_eq!(first_argument(b"sleep\0"), None);
        assert_eq!(first_argument(b""), None);
    }

    #[test]
    fn no_script_is_found_where_the_argument_is_no_file() {
        let known = &mut HashMap::new();
        let mut out = Vec::new();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        look(&mut out, known).unwrap();
        assert!(!known.contains_key(&(child.id() as i32)), "{known:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_script_is_found_while_its_interpreter_lives() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("orders.sh"), "read line\n").unwrap();
        let mut shell = std::process::Command::new("sh");
        let mut child = shell.arg("orders.sh").current_dir(folder.path()).stdin(std::process::Stdio::piped()).spawn().unwrap();
        let file = folder.path().join("scripts.jsonl");
        drop(Scripts::begin(File::create(&file).unwrap()).unwrap());
        let told = std::fs::read_to_string(&file).unwrap();
        let expected = line(child.id() as i32, "orders.sh").to_string();
        assert!(told.lines().any(|line| line == expected), "{told}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
