//! The options `--process`, `--thread` and `--port`: whose path is asked for.

use crate::input::progress::Progress;
use crate::WrongUsage;
use anyhow::bail;
use longpole_analysis::stats::nearest::nearest;
use longpole_analysis::verdict::exchanges::Conducts;
use longpole_analysis::verdict::subjects::{Subjects, Thread};
use longpole_model::interaction::{MachineId, Vocabulary};
use std::collections::HashSet;

/// Names that are suggested where one does not occur.
const SUGGESTED: usize = 3;

#[derive(clap::Args, Clone, Debug, Default)]
pub struct Whom {
    /// The path to the replies that this process gets: its name, its title or its id
    #[arg(long, value_name = "NAME|PID")]
    pub process: Option<String>,

    /// The same of a thread: its name or its id
    #[arg(long, value_name = "NAME|TID")]
    pub thread: Option<String>,

    /// The same of the process that is asked on this port
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,

    /// The path to the last of these events, whose rate is what a change makes larger: a name with
    /// * and ?, or a filter as that of print
    #[arg(long, value_name = "EVENT", value_parser = Progress::parse, conflicts_with_all = ["process", "thread", "port"])]
    pub progress: Option<Progress>,
}

impl Whom {
    pub fn is_given(&self) -> bool {
        self.process.is_some() || self.thread.is_some() || self.port.is_some() || self.progress.is_some()
    }

    /// The machines of the threads that are meant; none: nobody was named.
    pub fn machines(
        &self,
        subjects: &Subjects,
        conducts: &Conducts,
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

    /// As it was asked for.
    pub fn said(&self) -> String {
        let process = self.process.iter().map(|process| format!("--process {process}"));
        let thread = self.thread.iter().map(|thread| format!("--thread {thread}"));
        let port = self.port.iter().map(|port| format!("--port {port}"));
        let progress = self.progress.iter().map(|progress| format!("--progress {}", progress.text));
        process.chain(thread).chain(port).chain(progress).collect::<Vec<_>>().join(" ")
    }
}
