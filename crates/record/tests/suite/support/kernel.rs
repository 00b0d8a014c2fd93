//! A recorder of the kernel's events, in a process of its own.

use super::Place;
use longpole_record::kernel::PREFIX;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub const TRACEFS: &str = "/sys/kernel/tracing";

pub struct Recorder {
    pub child: Child,
    pub path: PathBuf,
}

impl Recorder {
    /// Starts a recorder. `wrap`: a command that runs its remaining arguments, or nothing.
    pub fn start(place: &Place, wrap: &[&str]) -> Recorder {
        let own = std::env::current_exe().unwrap();
        let example = own.parent().unwrap().parent().unwrap().join("examples/recorder");
        let mut words: Vec<&str> = wrap.to_vec();
        words.push(example.to_str().unwrap());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(place.root()).args(["0", "-", "sched,syscall"]);
        let mut child = command.env("LONGPOLE_RUNTIME_DIR", place.runtime()).stdout(Stdio::piped()).spawn().unwrap();
        let mut path = String::new();
        BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).read_line(&mut path).unwrap();
        Recorder { child, path: PathBuf::from(path.trim_end()) }
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: signals a child that has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Interrupts the recorder. Returns its output.
    pub fn interrupt(mut self) -> String {
        self.signal(libc::SIGINT);
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success());
        text
    }

    pub fn instances(&self) -> Vec<String> {
        let own = format!("{PREFIX}-{}-", self.child.id());
        let entries = fs::read_dir(Path::new(TRACEFS).join("instances")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).filter(|name| name.starts_with(&own)).collect()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
