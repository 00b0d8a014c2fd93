//! Which thread had a CPU at a time, for events that tell only their CPU.

use super::rows::RowKind;
use super::state_names::StateId;
use super::store::RowId;
use super::Timeline;
use std::collections::HashMap;
use std::io;

/// Answers who had a CPU of a timeline.
pub struct ThreadsOnCpus<'a> {
    timeline: &'a Timeline,
    /// Rows by the numbers of their CPUs.
    cpus: HashMap<u32, RowId>,
}

/// What had a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnCpu {
    /// Row of the CPU.
    pub row: RowId,
    /// Name of the state of that row.
    pub name: String,
    /// The thread; `None` for an interrupt, or if nothing is known.
    pub tid: Option<i32>,
}

impl Timeline {
    /// Returns the thread of a state of a CPU; `None` for interrupts and the like.
    pub fn thread_of_cpu_state(&self, state: StateId) -> Option<i32> {
        self.read().rows.thread_of_cpu_state(state)
    }

    /// Prepares to answer who had a CPU.
    pub fn threads_on_cpus(&self) -> ThreadsOnCpus<'_> {
        let content = self.read();
        let rows = content.rows.all(&content.store);
        let cpus = rows.iter().filter(|row| row.kind == RowKind::Cpu).filter_map(|row| Some((row.cpu?, row.id))).collect();
        ThreadsOnCpus { timeline: self, cpus }
    }
}

impl ThreadsOnCpus<'_> {
    /// Returns what had a CPU at a time; `None` if the timeline has no state of the CPU then.
    ///
    /// # Errors
    ///
    /// If the file of the states cannot be read.
    pub fn at(&self, cpu: u32, t: u64) -> io::Result<Option<OnCpu>> {
        let Some(&row) = self.cpus.get(&cpu) else { return Ok(None) };
        let (states, _) = self.timeline.states(row, (t, t.saturating_add(1)), 1)?;
        let content = self.timeline.read();
        Ok(states.first().map(|it| OnCpu {
            row,
            name: content.names.name(it.state).to_owned(),
            tid: content.rows.thread_of_cpu_state(it.state),
        }))
    }
}
