//! The threads that an answer is about: those of the recorded command, unless `--all` asks for the
//! whole host. The recorder's own threads never belong to it.
//!
//! A thread belongs to the command if its process is the command's or descends from it. A recording
//! without a command, and a foreign trace, is about the whole host.

use crate::input::Input;
use longpole_analysis::pipeline::has_kernel_ids;
use longpole_model::linux::Linux;
use longpole_trace::Trace;

/// Maximum number of generations between a process and the command.
const MAX_GENERATIONS: usize = 64;

/// The selection of threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope {
    command: Option<i32>,
    recorder: Option<i32>,
}

impl Scope {
    pub fn of(input: &Input, trace: &Trace) -> Scope {
        // Numbers of several recordings cannot be told apart, and those of another namespace are
        // not those in the events.
        let [recording] = trace.recordings() else { return Scope::default() };
        if !has_kernel_ids(trace.recordings()) {
            return Scope::default();
        }
        Scope { command: recording.command_pid.filter(|_| !input.all), recorder: recording.recorder_pid }
    }

    /// Returns true if the answer leaves out other programs.
    pub fn is_command(self) -> bool {
        self.command.is_some()
    }

    /// Returns true if the answer leaves out any thread.
    pub fn leaves_out(self) -> bool {
        self.command.is_some() || self.recorder.is_some()
    }

    /// Returns true if the thread belongs to the answer. `process` is `None` if it is unknown.
    pub fn covers(self, linux: &Linux, process: Option<i32>, tid: i32) -> bool {
        let process = process.unwrap_or(tid);
        if self.recorder == Some(process) {
            return false;
        }
        self.command.is_none_or(|command| descends(linux, process, command))
    }
}

fn descends(linux: &Linux, process: i32, from: i32) -> bool {
    let mut process = process;
    for _ in 0..MAX_GENERATIONS {
        if process == from {
            return true;
        }
        match linux.processes.get(process).and_then(|it| it.parent) {
            Some(parent) => process = parent,
            None => return false,
        }
    }
    false
}
