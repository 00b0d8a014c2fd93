//! A trace of the server, and how far its reading is.

use longpole_analysis::timeline::Timeline;
use serde::Serialize;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What reads traces for the server: the command, which knows formats and analyses.
pub trait Analyst: Send + Sync + 'static {
    /// Reads a trace into the timeline of `reading`, and returns the report on it. Called in a
    /// thread of its own.
    ///
    /// # Errors
    ///
    /// A text for people that says what is wrong with the trace, and what to do next.
    fn read(&self, path: &Path, reading: &Reading) -> Result<Value, String>;

    /// Predicts the effects of these changes.
    ///
    /// # Errors
    ///
    /// A text for people, such as that a change is not understood.
    fn what_if(&self, path: &Path, changes: &[String]) -> Result<Value, String>;
}

/// How far the reading of a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The states are being read.
    Reading,
    /// All states are known; the path and the verdict are being computed.
    Analysing,
    Ready,
    Failed,
}

/// Numbers of events in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    pub events: u64,
    pub lost: u64,
}

/// A trace that is being read, or was read.
pub struct Reading {
    pub(crate) id: u32,
    pub(crate) path: PathBuf,
    pub timeline: Arc<Timeline>,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    counts: TraceCounts,
    report: Option<Arc<Value>>,
    error: Option<String>,
}

impl Reading {
    pub(crate) fn new(id: u32, path: PathBuf) -> Reading {
        let state = State { phase: Phase::Reading, counts: TraceCounts::default(), report: None, error: None };
        Reading { id, path, timeline: Arc::default(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that all states are read.
    pub fn analyses(&self, counts: TraceCounts) {
        let mut state = self.state();
        (state.phase, state.counts) = (Phase::Analysing, counts);
    }

    /// Reads the trace.
    pub(crate) fn read(&self, analyst: &dyn Analyst) {
        let outcome = analyst.read(&self.path, self);
        let mut state = self.state();
        match outcome {
            Ok(report) => (state.phase, state.report) = (Phase::Ready, Some(Arc::new(report))),
            Err(error) => (state.phase, state.error) = (Phase::Failed, Some(error)),
        }
    }

    /// Returns the report as soon as it is known.
    pub(crate) fn report(&self) -> Option<Arc<Value>> {
        self.state().report.clone()
    }

    pub(crate) fn is_reading(&self) -> bool {
        self.state().phase == Phase::Reading
    }

    pub(crate) fn described(&self) -> Value {
        let (begin, end) = self.timeline.range();
        let version = self.timeline.version();
        let state = self.state();
        let name = self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy();
        json!({
            "id": self.id, "name": name, "path": self.path.to_string_lossy(), "origin_ns": begin.to_string(), "end": end - begin,
            "phase": state.phase, "progress": null, "events": state.counts.events, "lost": state.counts.lost, "version": version,
            "error": state.error,
        })
    }
}
