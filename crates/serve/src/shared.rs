//! What all requests share: the traces, and who reads them.

use crate::reading::{Analyst, Phase, Reading};
use crate::roots::Roots;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use tokio::sync::Semaphore;

/// Number of answers that are computed at the same time; the others wait. The trace that is being
/// read needs CPUs, too.
const MAX_COMPUTED: usize = 4;

/// Number of answers that need seconds, such as replays, at the same time.
const MAX_LONG: usize = 4;

/// Maximum number of open traces. Each has its timeline in memory.
const MAX_TRACES: usize = 200;

/// Errors of opening a trace while the server runs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{MAX_TRACES} traces are open; delete some")]
    TooMany,
    #[error("the trace cannot be read now: {0}")]
    Thread(io::Error),
}

pub(crate) struct Shared {
    traces: RwLock<Vec<Arc<Reading>>>,
    /// Number of the trace that is opened next. Numbers of removed traces are not used again.
    next_id: AtomicU32,
    pub analyst: Arc<dyn Analyst>,
    pub roots: Roots,
    computing: Arc<Semaphore>,
    computing_long: Arc<Semaphore>,
}

impl Shared {
    /// Begins to read these traces, which stay open.
    pub fn new(paths: Vec<PathBuf>, roots: Roots, analyst: Arc<dyn Analyst>) -> io::Result<Shared> {
        let traces: Vec<Arc<Reading>> = (1..).zip(paths).map(|(id, path)| Arc::new(Reading::new(id, path))).collect();
        traces.iter().try_for_each(|reading| begin(reading, &analyst))?;
        let next_id = AtomicU32::new(traces.len() as u32 + 1);
        let (computing, computing_long) = (Arc::new(Semaphore::new(MAX_COMPUTED)), Arc::new(Semaphore::new(MAX_LONG)));
        Ok(Shared { traces: RwLock::new(traces), next_id, analyst, roots, computing, computing_long })
    }

    pub fn traces(&self) -> Vec<Arc<Reading>> {
        self.traces.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn trace(&self, id: u32) -> Option<Arc<Reading>> {
        self.traces().into_iter().find(|reading| reading.id == id)
    }

    /// Returns an open trace by its path. One that could not be read may be tried again, unless
    /// the command itself has opened it.
    pub fn with_path(&self, path: &Path) -> Option<Arc<Reading>> {
        let is_known = |reading: &Arc<Reading>| reading.is_kept || reading.phase() != Phase::Failed;
        self.traces().into_iter().find(|reading| is_known(reading) && (reading.path == path || reading.real_path == path))
    }

    /// Begins to read the trace with this real path, if it is not open yet. A trace that could not
    /// be read is read again, because it may be complete now, unless it is in use.
    pub fn open(&self, path: PathBuf, name: Option<String>, is_used: impl Fn(&Arc<Reading>) -> bool) -> Result<Arc<Reading>, OpenError> {
        let mut traces = self.traces.write().unwrap_or_else(PoisonError::into_inner);
        traces.retain(|reading| reading.is_kept || reading.phase() != Phase::Failed || is_used(reading));
        if let Some(open) = traces.iter().find(|reading| reading.real_path == path) {
            return Ok(open.clone());
        }
        if traces.len() >= MAX_TRACES {
            return Err(OpenError::TooMany);
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let reading = Arc::new(Reading::opened(id, path, name));
        begin(&reading, &self.analyst).map_err(OpenError::Thread)?;
        traces.push(reading.clone());
        Ok(reading)
    }

    /// Removes a trace. Its reading ends by itself.
    pub fn remove(&self, removed: &Arc<Reading>) {
        self.traces.write().unwrap_or_else(PoisonError::into_inner).retain(|reading| !Arc::ptr_eq(reading, removed));
    }

    /// Runs a computation in a thread for blocking work; `None` if it panicked. If the request is
    /// cancelled while it waits for its turn, it does not run.
    pub async fn run<T: Send + 'static>(&self, compute: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        in_turn(&self.computing, compute).await
    }

    /// Runs a computation of seconds in the same way, without taking a turn from the pictures.
    pub async fn run_long<T: Send + 'static>(&self, compute: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        in_turn(&self.computing_long, compute).await
    }
}

/// A computation that has begun keeps its turn to its end, also if nobody waits for it any more.
async fn in_turn<T: Send + 'static>(turns: &Arc<Semaphore>, compute: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let turn = turns.clone().acquire_owned().await.ok()?;
    let computed = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        compute()
    });
    computed.await.ok()
}

/// Reads a trace in a thread of its own.
fn begin(reading: &Arc<Reading>, analyst: &Arc<dyn Analyst>) -> io::Result<()> {
    let (reading, analyst) = (reading.clone(), analyst.clone());
    let named = thread::Builder::new().name(format!("trace {}", reading.id));
    named.spawn(move || reading.read(&*analyst)).map(|_| ())
}
