//! The options `--process`, `--thread`, `--port` and `--progress`, which select whose path is
//! computed.

use crate::input::progress::Progress;
use crate::WrongUsage;
use anyhow::bail;
use longpole_analysis::stats::nearest::suggestion;
use longpole_analysis::verdict::exchanges::SocketActivities;
use longpole_analysis::verdict::subjects::{Subjects, Thread};
use longpole_model::interaction::{MachineId, Vocabulary};
use std::collections::HashSet;

#[derive(clap::Args, Clone, Debug, Default)]
pub struct SubjectArgs {
    /// Path to the replies that this process receives: its name, title or id
    #[arg(long, value_name = "NAME|PID")]
    pub process: Option<String>,

    /// Path to the replies that this thread receives: its name or id
    #[arg(long, value_name = "NAME|TID")]
    pub thread: Option<String>,

    /// Path to the replies that the process serving this port receives
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,

    /// Path to the last of these events; gains are gains of their rate: a name with * and ?, or a
    /// filter as for print
    #[arg(long, value_name = "EVENT", value_parser = Progress::parse, conflicts_with_all = ["process", "thread", "port"])]
    pub progress: Option<Progress>,
}

impl SubjectArgs {
    pub fn is_given(&self) -> bool {
        self.process.is_some() || self.thread.is_some() || self.port.is_some() || self.progress.is_some()
    }

    /// Returns the machines of the selected threads; `None` if the user selected none. An error if
    /// no thread matches.
    pub fn machines(
        &self,
        subjects: &Subjects,
        conducts: &SocketActivities,
        vocabulary: &Vocabulary,
    ) -> anyhow::Result<Option<HashSet<MachineId>>> {
        if !self.is_given() || self.progress.is_some() {
            return Ok(None);
        }
        let is_meant = |thread: &Thread| {
            let name = self.thread.as_ref().is_none_or(|asked| *asked == thread.name || *asked == thread.tid.to_string());
            let port = self.port.is_none_or(|port| conducts.port(thread.pid) == Some(port));
            self.is_of_process(thread) && name && port && !thread.is_recorder
        };
        let meant: HashSet<&str> = subjects.threads().filter(|(_, thread)| is_meant(thread)).map(|(name, _)| name).collect();
        if meant.is_empty() {
            bail!(WrongUsage(format!("the trace has no thread of {}{}", self.said(), self.nearest(subjects))));
        }
        Ok(Some(vocabulary.machines().filter(|&machine| meant.contains(vocabulary.machine_name(machine))).collect()))
    }

    /// Returns true if the thread is of the selected process, or if none is selected.
    fn is_of_process(&self, thread: &Thread) -> bool {
        let title = thread.title.as_ref();
        let names = |asked: &String| *asked == thread.program || Some(asked) == title || *asked == thread.pid.to_string();
        self.process.as_ref().is_none_or(names)
    }

    /// Returns the nearest names: of processes if the process does not occur, else of its threads.
    fn nearest(&self, subjects: &Subjects) -> String {
        let threads = || subjects.threads().map(|(_, thread)| thread).filter(|thread| !thread.is_recorder);
        let of_process = || threads().filter(|thread| self.is_of_process(thread));
        match (&self.process, &self.thread) {
            (Some(process), _) if of_process().next().is_none() => {
                let names = threads().flat_map(|thread| [Some(&thread.program), thread.title.as_ref()]).flatten();
                suggestion(process, names.map(String::as_str))
            }
            (_, Some(thread)) => suggestion(thread, of_process().map(|thread| thread.name.as_str())),
            _ => String::new(),
        }
    }

    /// Returns the options as the user gave them.
    pub fn said(&self) -> String {
        let process = self.process.iter().map(|process| format!("--process {process}"));
        let thread = self.thread.iter().map(|thread| format!("--thread {thread}"));
        let port = self.port.iter().map(|port| format!("--port {port}"));
        let progress = self.progress.iter().map(|progress| format!("--progress {}", progress.text));
        process.chain(thread).chain(port).chain(progress).collect::<Vec<_>>().join(" ")
    }
}
