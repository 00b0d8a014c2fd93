//! The options `--process`, `--thread`, `--port` and `--progress`, which select whose path is
//! computed.

use crate::input::progress::Progress;
use longpole_analysis::pipeline::{ProgressTimes, Selection};

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
        !self.selection().is_empty() || self.progress.is_some()
    }

    /// Returns the threads that the user selected.
    pub fn selection(&self) -> Selection {
        Selection { process: self.process.clone(), thread: self.thread.clone(), port: self.port }
    }

    /// Returns an empty collection of the times of the events that the user named as progress.
    pub fn progress_times(&self) -> Option<ProgressTimes<'static>> {
        self.progress.as_ref().map(Progress::times)
    }
}

/// Returns the options with which the user makes this selection.
pub fn options(selection: &Selection, progress: Option<&str>) -> String {
    let process = selection.process.iter().map(|process| format!("--process {process}"));
    let thread = selection.thread.iter().map(|thread| format!("--thread {thread}"));
    let port = selection.port.iter().map(|port| format!("--port {port}"));
    let progress = progress.iter().map(|progress| format!("--progress {progress}"));
    process.chain(thread).chain(port).chain(progress).collect::<Vec<_>>().join(" ")
}
