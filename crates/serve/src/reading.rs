//! A trace of the server, and how far its reading is.

use crate::events::{EventLine, EventLines, EventQuery};
use crate::path_walk::PathIndex;
use crate::picture_answers::PictureAnswers;
use crate::uuid;
use longpole_analysis::pipeline::samples::SampleScope;
use longpole_analysis::pipeline::wait_stacks::WaitStack;
use longpole_analysis::scheduling::flame_graph::FlameGraph;
use longpole_analysis::scheduling::sampled_waits::SampledWait;
use longpole_analysis::timeline::{PacketAt, Timeline};
use longpole_trace::EventIndex;
use serde::Serialize;
use serde_json::{json, Value};
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What reads traces for the server: the command, which knows formats and analyses.
pub trait Analyst: Send + Sync + 'static {
    /// Reads a trace into the timeline of `reading`, and returns the report on it. Called in a
    /// thread of its own.
    ///
    /// # Errors
    ///
    /// A text for people that says what is wrong with the trace, and what to do next.
    fn read(&self, path: &Path, reading: &Reading) -> Result<Value, String>;

    /// Keeps what was read, so that it need not be read again. Called once the report is shown.
    fn keep(&self, _path: &Path, _reading: &Reading, _report: &Value) {}

    /// Predicts the effects of these changes.
    ///
    /// # Errors
    ///
    /// A text for people, such as that a change is not understood.
    fn what_if(&self, path: &Path, changes: &[String]) -> Result<Value, String>;

    /// Returns what changed from one trace to another one, as `longpole diff --json` prints it.
    /// Both were read before.
    ///
    /// # Errors
    ///
    /// A text for people, such as that a trace has gone.
    fn diff(&self, base: &Path, new: &Path) -> Result<Value, String>;

    /// Returns lines of events of a trace that was read, by its index. `complete` adds to a line
    /// what the trace itself does not tell, and returns true if the line is asked for.
    ///
    /// # Errors
    ///
    /// A text for people, such as that the filter is not understood.
    fn events(
        &self,
        path: &Path,
        reading: &Reading,
        query: &EventQuery,
        complete: &dyn Fn(&mut EventLine) -> bool,
    ) -> Result<EventLines, String>;

    /// Returns the sampled stacks of running code and of waits in a range of a trace that was read,
    /// in ns on the trace's clock; `None` if the trace has none.
    ///
    /// # Errors
    ///
    /// A text for people, such as that the trace has gone.
    fn stacks(&self, path: &Path, reading: &Reading, range: Range<i64>, scope: SampleScope) -> Result<Option<FlameGraph>, String>;

    /// Returns the stacks of a sampled wait of the timeline; `None` if the trace does not have
    /// them.
    ///
    /// # Errors
    ///
    /// A text for people, such as that the trace has gone.
    fn wait_stack(&self, _path: &Path, _reading: &Reading, _wait: &SampledWait) -> Result<Option<WaitStack>, String> {
        Ok(None)
    }

    /// Returns a packet of a row of packets: its path through the kernel, and its bytes.
    ///
    /// # Errors
    ///
    /// A text for people, such as that the trace has gone.
    fn packet(&self, _path: &Path, _reading: &Reading, _packet: &PacketAt) -> Result<Value, String> {
        Err("the packets of this trace cannot be read again".to_owned())
    }

    /// Returns the trace to which a path belongs, for a part of a recording the whole recording.
    /// Some clients name each directory with metadata as a trace of its own.
    fn whole(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
}

/// How far the reading of a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The trace is still being recorded, and its states are read meanwhile.
    Live,
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

/// Returns how much of a trace has been read, 0 to 1.
type Progress = Box<dyn Fn() -> f64 + Send + Sync>;

/// A trace that is being read, or was read.
pub struct Reading {
    pub(crate) id: u32,
    pub(crate) path: PathBuf,
    /// The path without links, and an identifier made from it.
    pub(crate) real_path: PathBuf,
    pub(crate) uuid: String,
    pub(crate) name: String,
    /// The trace stays open until the server ends.
    pub(crate) is_kept: bool,
    pub timeline: Arc<Timeline>,
    state: Mutex<State>,
    path_index: OnceLock<Arc<PathIndex>>,
    pictures: OnceLock<PictureAnswers>,
    event_index: OnceLock<EventIndex>,
    progress: OnceLock<Progress>,
}

/// What is known only of a trace that is still being recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LiveState {
    /// Time in ns by which the picture is older than the recording.
    pub behind_ns: u64,
}

struct State {
    phase: Phase,
    live: Option<LiveState>,
    note: Option<String>,
    counts: TraceCounts,
    report: Option<Arc<Value>>,
    error: Option<String>,
}

impl Reading {
    pub(crate) fn new(id: u32, path: PathBuf) -> Reading {
        let state = State { phase: Phase::Reading, live: None, note: None, counts: TraceCounts::default(), report: None, error: None };
        let real_path = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let uuid = uuid::of([b"trace".as_slice(), real_path.as_os_str().as_bytes()]);
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let timeline = Arc::default();
        let (path_index, pictures, event_index, progress) = Default::default();
        let state = Mutex::new(state);
        Reading { id, path, real_path, uuid, name, is_kept: true, timeline, state, path_index, pictures, event_index, progress }
    }

    /// Returns a trace that a client opens, under the name that it chose.
    pub(crate) fn opened(id: u32, path: PathBuf, name: Option<String>) -> Reading {
        let reading = Reading::new(id, path);
        Reading { name: name.unwrap_or_else(|| reading.name.clone()), is_kept: false, ..reading }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what tells how much of the trace has been read; without it, this is not known.
    pub fn measure(&self, progress: impl Fn() -> f64 + Send + Sync + 'static) {
        drop(self.progress.set(Box::new(progress)));
    }

    /// Notes how far the reading of a trace is that is still being recorded.
    pub fn follows(&self, counts: TraceCounts, live: LiveState) {
        let mut state = self.state();
        (state.phase, state.counts, state.live) = (Phase::Live, counts, Some(live));
    }

    /// Sets what people should know of the recording, or of what is missing in the picture.
    pub fn set_note(&self, note: Option<String>) {
        self.state().note = note;
    }

    /// Notes that the trace is no longer being recorded, and is now read as a whole.
    pub fn ends_live(&self) {
        let mut state = self.state();
        (state.phase, state.live) = (Phase::Reading, None);
    }

    /// Notes that all states are read.
    pub fn analyses(&self, counts: TraceCounts) {
        let mut state = self.state();
        (state.phase, state.counts) = (Phase::Analysing, counts);
    }

    /// Keeps what is shown in addition to the states, and the places of the events, once.
    pub fn keep(&self, pictures: PictureAnswers, index: EventIndex) {
        self.pictures.get_or_init(|| pictures);
        self.event_index.get_or_init(|| index);
    }

    /// Returns the places of the events, as soon as they are known.
    pub fn event_index(&self) -> Option<&EventIndex> {
        self.event_index.get()
    }

    /// Returns what is shown in addition to the states, as soon as it is known.
    pub fn pictures(&self) -> Option<&PictureAnswers> {
        self.pictures.get()
    }

    /// Reads the trace.
    pub(crate) fn read(&self, analyst: &dyn Analyst) {
        // Clients ask again until the reading is over, so it must not end silently.
        let outcome = catch_unwind(AssertUnwindSafe(|| analyst.read(&self.path, self)));
        let outcome = outcome.unwrap_or_else(|_| Err("internal error: reading the trace was given up".to_owned()));
        let mut state = self.state();
        match outcome {
            Ok(report) => (state.phase, state.report) = (Phase::Ready, Some(Arc::new(report))),
            Err(error) => (state.phase, state.error) = (Phase::Failed, Some(error)),
        }
        drop(state);
        if let Some(report) = self.report() {
            analyst.keep(&self.path, self, &report);
        }
    }

    /// Returns the report as soon as it is known.
    pub(crate) fn report(&self) -> Option<Arc<Value>> {
        self.state().report.clone()
    }

    pub(crate) fn is_reading(&self) -> bool {
        matches!(self.phase(), Phase::Live | Phase::Reading)
    }

    /// Returns true if nothing more will be known of the trace.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase(), Phase::Ready | Phase::Failed)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state().phase
    }

    /// Returns the numbers of events that were read until now.
    pub fn counts(&self) -> TraceCounts {
        self.state().counts
    }

    /// Returns the reason for which the trace could not be read to its end.
    pub(crate) fn error(&self) -> Option<String> {
        self.state().error.clone()
    }

    /// Returns true if a part of the trace is known, or nothing ever will be.
    pub(crate) fn has_begun(&self) -> bool {
        let (begin, end) = self.timeline.range();
        !self.is_reading() || begin < end
    }

    /// Returns the places of the segments of the critical path, which is known from the end of the
    /// reading on.
    pub(crate) fn path_index(&self) -> io::Result<Arc<PathIndex>> {
        if let Some(index) = self.path_index.get() {
            return Ok(index.clone());
        }
        let is_final = self.is_over();
        let index = Arc::new(PathIndex::new(&self.timeline)?);
        Ok(if is_final { self.path_index.get_or_init(|| index).clone() } else { index })
    }

    pub(crate) fn origin(&self) -> u64 {
        self.timeline.range().0
    }

    pub(crate) fn described(&self) -> Value {
        let (begin, end) = self.timeline.range();
        let (version, generation) = (self.timeline.version(), self.timeline.generation());
        let state = self.state();
        let progress = self.progress.get().filter(|_| state.phase == Phase::Reading).map(|progress| progress());
        json!({
            "id": self.id, "name": self.name, "path": self.path.to_string_lossy(), "origin_ns": begin.to_string(), "end": end - begin,
            "phase": state.phase, "progress": progress, "events": state.counts.events, "lost": state.counts.lost, "version": version,
            "generation": generation, "live": state.live, "note": state.note,
            "error": state.error,
        })
    }
}
