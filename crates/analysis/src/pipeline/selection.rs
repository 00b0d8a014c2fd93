//! The threads for which an answer is computed: those of a process, a thread, or a port.

use super::Error;
use crate::stats::nearest::suggestion;
use crate::verdict::facts::exchanges::SocketActivities;
use crate::verdict::subjects::{Subjects, Thread};
use longpole_model::interaction::{MachineId, Vocabulary};
use std::collections::HashSet;
use std::fmt;

/// Selects threads. A thread is selected if it fits every field that is set; a selection without
/// any field selects nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Name, title or id of the process.
    pub process: Option<String>,
    /// Name or id of the thread.
    pub thread: Option<String>,
    /// Port that the process serves.
    pub port: Option<u16>,
}

impl Selection {
    /// Returns true if no field is set.
    pub fn is_empty(&self) -> bool {
        *self == Selection::default()
    }

    /// Returns the machines of the selected threads; `None` for a selection without any field. The
    /// recorder's threads are never selected.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchThread`] if no thread fits.
    pub fn machines(
        &self,
        subjects: &Subjects,
        activities: &SocketActivities,
        vocabulary: &Vocabulary,
    ) -> Result<Option<HashSet<MachineId>>, Error> {
        if self.is_empty() {
            return Ok(None);
        }
        let is_selected = |thread: &Thread| {
            let name = self.thread.as_ref().is_none_or(|wanted| *wanted == thread.name || *wanted == thread.tid.to_string());
            let port = self.port.is_none_or(|port| activities.port(thread.pid) == Some(port));
            self.is_of_process(thread) && name && port && !thread.is_recorder
        };
        let selected: HashSet<&str> = subjects.threads().filter(|(_, thread)| is_selected(thread)).map(|(name, _)| name).collect();
        if selected.is_empty() {
            return Err(Error::NoSuchThread { selection: self.clone(), nearest: self.nearest(subjects) });
        }
        Ok(Some(vocabulary.machines().filter(|&machine| selected.contains(vocabulary.machine_name(machine))).collect()))
    }

    /// Returns true if the thread is of the selected process, or if none is selected.
    fn is_of_process(&self, thread: &Thread) -> bool {
        let title = thread.title.as_ref();
        let names = |wanted: &String| *wanted == thread.program || Some(wanted) == title || *wanted == thread.pid.to_string();
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
}

/// Writes the fields that are set: `process nginx port 80`.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = self.process.iter().map(|process| format!("process {process}"));
        let thread = self.thread.iter().map(|thread| format!("thread {thread}"));
        let port = self.port.iter().map(|port| format!("port {port}"));
        f.write_str(&process.chain(thread).chain(port).collect::<Vec<_>>().join(" "))
    }
}
