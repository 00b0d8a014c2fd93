//! The settings of a critical path.

use crate::critical_path::storage::segments::Spill;

/// Settings of an analysis: the question, and limits of memory.
#[derive(Clone, Debug)]
pub struct Options {
    pub mode: Mode,
    /// Name of the machine whose end counts, or whose active path is computed: MACHINE or
    /// HOST/MACHINE. With `None`, the global mode uses the machine of the last end that the trace
    /// marks (`Effect::End`) or, without one, the last machine that did something.
    pub machine: Option<String>,
    /// Stores the segments of the path, not only its profile.
    pub segments: bool,
    /// Largest number of tokens whose origin is remembered.
    pub most_tokens: usize,
    /// Largest number of state changes that are remembered, over all machines, for causes that
    /// happened earlier than the interaction that names them.
    pub most_past: usize,
    /// Largest number of stopped machines that may still be causes.
    pub most_stopped: usize,
    /// Interactions per window; windows are charged independently of each other. With `None`, each
    /// interaction is charged at once. Ignored for active paths, which have no windows.
    pub window: Option<usize>,
    /// Number of threads that charge windows.
    pub jobs: usize,
    /// Destination of the segments of a long path; with `None` they stay in memory.
    pub spill: Option<Spill>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: Mode::Global,
            machine: None,
            segments: false,
            most_tokens: 1 << 20,
            most_past: 1 << 20,
            most_stopped: 1 << 14,
            window: None,
            jobs: 1,
            spill: None,
        }
    }
}

/// Kind of path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The path from the end back to the cause of each block, never returning to the blocked
    /// machine.
    Global,
    /// One machine's own time, with each block replaced by the activity that it waited for.
    Active,
}
