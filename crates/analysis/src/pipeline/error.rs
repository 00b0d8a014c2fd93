//! Errors of reading a trace through its analyses.

use super::selection::Selection;
use crate::machine_log::LogError;
use crate::{critical_path, what_if};
use longpole_model::rules::RuleError;
use longpole_trace::Options;
use std::io;
use std::path::PathBuf;

/// Reason why a trace has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace cannot be read further.
    #[error(transparent)]
    Trace(#[from] longpole_trace::Error),
    /// The machine log cannot be read further. `name` is the name of the log.
    #[error("{name}: {source}")]
    Log { name: String, source: LogError },
    /// A file of rules or limits that is part of the program is invalid.
    #[error("a built-in rule file is wrong: {0}")]
    Rules(#[from] RuleError),
    /// Several of the traces that were opened as one have kernel events, whose threads and clocks
    /// differ. The field is their number.
    #[error(
        "the kernel's events of {0} recordings cannot be analysed together, because their threads and clocks differ; name one recording"
    )]
    SeveralKernels(usize),
    /// The requested part of the trace begins or ends at a time of day, but a machine log has a
    /// clock of its own.
    #[error("a machine log has no time of day; give the range relative to its begin (+1.5s)")]
    TimeOfDay,
    /// The requested part ends before it begins.
    #[error("the requested part ends before it begins")]
    EndsBeforeBegin,
    /// The trace has interactions or events, but none in the requested part.
    #[error("{}: there is nothing in this range", names(paths))]
    NothingInPart {
        /// Paths of the trace.
        paths: Vec<PathBuf>,
        /// Requested part.
        part: Box<Options>,
    },
    /// The trace has no critical path. `name` is the name of the trace.
    #[error("{name}: {source}")]
    NoPath { name: String, source: critical_path::NoAnswer },
    /// The replay of the trace predicts nothing. `name` is the name of the trace.
    #[error("{name}: {source}")]
    NoPrediction { name: String, source: what_if::NoAnswer },
    /// No thread of the trace matches the selection. `nearest` is empty, or a clause with the
    /// nearest names.
    #[error("the trace has no thread of {selection}{nearest}")]
    NoSuchThread { selection: Selection, nearest: String },
    /// Nothing happens to the selected threads, or no progress is made, in the requested part, so
    /// no path leads to an end of it.
    #[error("nothing happens to {} in this part of the trace", progress.clone().unwrap_or_else(|| selection.to_string()))]
    NothingHappens {
        selection: Selection,
        /// Name of the events that count as progress.
        progress: Option<String>,
    },
    /// No thread has one of the events that count as progress. `why` explains it.
    #[error("{event}: {why}")]
    NoProgress { event: String, why: String },
    /// Events count as progress, but a machine log has no events.
    #[error("progress is counted by events of a trace, and a machine log has none")]
    ProgressOfLog,
    /// Interactions, or CPU occupancy, that were written to a temporary file cannot be read again.
    #[error("{name} cannot be read again: {source}")]
    Spool { name: String, source: io::Error },
    /// The machine log cannot be written.
    #[error("the machine log cannot be written: {0}")]
    Write(#[source] io::Error),
    /// An analysis panicked in its thread.
    #[error("internal error: an analysis of the trace panicked")]
    Panicked,
    /// The path was computed without the segments that this question needs.
    #[error("internal error: a path without segments")]
    NoSegments,
}

/// Returns the paths in one line.
pub(super) fn names(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
}
