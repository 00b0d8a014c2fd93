//! The options `--process`, `--thread`, `--port` and `--progress`, which select whose path is
//! computed.

use crate::input::progress::Progress;
use crate::WrongUsage;
use anyhow::bail;
use longpole_analysis::stats::nearest::nearest;
use longpole_analysis::verdict::exchanges::SocketActivities;
use longpole_analysis::verdict::subjects::{Subjects, Thread};
use longpole_model::interaction::{MachineId, Vocabulary};
use std::collections::HashSet;

/// Number of names that are suggested if the given one does not occur.
const SUGGESTED: usize = 3;

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
            let title = thread.title.as_ref();
            let names = |asked: &String| *asked == thread.program || Some(asked) == title || *asked == thread.pid.to_string();
            let process = self.process.as_ref().is_none_or(names);
            let name = self.thread.as_ref().is_none_or(|asked| *asked == thread.name || *asked == thread.tid.to_string());
            let port = self.port.is_none_or(|port| conducts.port(thread.pid) == Some(port));
            process && name && port && !thread.is_recorder
        };
        let meant: HashSet<&str> = subjects.threads().filter(|(_, thread)| is_meant(thread)).map(|(name, _)| name).collect();
        if meant.is_empty() {
            let mut names: Vec<&str> = match &self.thread {
                Some(_) => subjects.threads().map(|(_, thread)| thread.name.as_str()).collect(),
                None => subjects.threads().map(|(_, thread)| thread.program.as_str()).collect(),
            };
            names.sort_unstable();
            names.dedup();
            let asked = self.thread.as_ref().or(self.process.as_ref());
            let near = asked.map(|asked| nearest(asked, names.iter().copied(), SUGGESTED)).unwrap_or_default();
            let near = if near.is_empty() { String::new() } else { format!("; the nearest: {}", near.join(", ")) };
            bail!(WrongUsage(format!("the trace has no thread of {}{near}", self.said())));
        }
        Ok(Some(vocabulary.machines().filter(|&machine| meant.contains(vocabulary.machine_name(machine))).collect()))
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
