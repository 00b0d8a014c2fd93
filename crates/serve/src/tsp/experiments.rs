//! Experiments: one or several traces that are looked at together.

use super::bookmarks::Bookmarks;
use super::parameters::Parameters;
use super::reply::{self, Answer, Refused, Status};
use super::traces;
use crate::reading::{Phase, Reading};
use crate::shared::Shared;
use crate::uuid;
use axum::http::StatusCode;
use serde_json::{json, Value};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Maximum number of experiments, so that a client that loops does not fill the memory.
const MAX_EXPERIMENTS: usize = 1000;

/// All experiments of the server.
pub(crate) struct Experiments(RwLock<Vec<Arc<Experiment>>>);

/// One or several traces under a name.
pub(crate) struct Experiment {
    pub uuid: String,
    pub name: String,
    pub traces: Vec<Arc<Reading>>,
    pub bookmarks: Bookmarks,
}

impl Experiment {
    fn new(name: &str, traces: Vec<Arc<Reading>>) -> Experiment {
        let parts = traces.iter().map(|reading| reading.uuid.as_bytes());
        let uuid = uuid::of([b"experiment".as_slice(), name.as_bytes()].into_iter().chain(parts));
        Experiment { uuid, name: name.to_owned(), traces, bookmarks: Bookmarks::default() }
    }

    /// Returns begin and end of all traces in ns on their clock; both are 0 while nothing is known.
    pub fn range(&self) -> (u64, u64) {
        let ranges = self.traces.iter().map(|reading| traces::range(reading)).filter(|(begin, end)| begin < end);
        ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default()
    }

    fn phases(&self) -> Vec<Phase> {
        self.traces.iter().map(|reading| reading.phase()).collect()
    }

    /// Returns how complete what is known about the traces is.
    pub fn status(&self) -> Status {
        let phases = self.phases();
        if phases.iter().any(|phase| matches!(phase, Phase::Live | Phase::Reading | Phase::Analysing)) {
            return Status::Running;
        }
        let errors: Vec<String> = self.traces.iter().filter_map(|reading| reading.error()).collect();
        if errors.is_empty() {
            Status::Completed
        } else {
            Status::Failed(errors.join("; "))
        }
    }

    fn described(&self) -> Value {
        let (start, end) = self.range();
        let events: u64 = self.traces.iter().map(|reading| reading.counts().events).sum();
        let traces: Vec<Value> = self.traces.iter().map(|reading| traces::described(reading)).collect();
        json!({
            "UUID": self.uuid, "name": self.name, "start": start, "end": end, "nbEvents": events,
            "indexingStatus": traces::indexing_status(&self.phases()), "traces": traces,
        })
    }
}

impl Experiments {
    fn read(&self) -> RwLockReadGuard<'_, Vec<Arc<Experiment>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Arc<Experiment>>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an experiment of each trace, with the trace's name, so that clients see the traces
    /// that the command opened.
    pub fn of(traces: &[Arc<Reading>]) -> Experiments {
        let experiment = |reading: &Arc<Reading>| Arc::new(Experiment::new(&reading.name, vec![reading.clone()]));
        Experiments(RwLock::new(traces.iter().map(experiment).collect()))
    }

    pub fn find(&self, uuid: &str) -> Result<Arc<Experiment>, Refused> {
        let found = self.read().iter().find(|experiment| experiment.uuid == uuid).cloned();
        found.ok_or_else(|| Refused::not_found("No such experiment", format!("there is no experiment {uuid}; GET experiments lists them")))
    }

    /// Returns an experiment with this trace.
    pub fn using(&self, reading: &Arc<Reading>) -> Option<Arc<Experiment>> {
        self.read().iter().find(|experiment| experiment.traces.iter().any(|trace| Arc::ptr_eq(trace, reading))).cloned()
    }

    pub fn all(&self) -> Answer {
        let all: Vec<Value> = self.read().iter().map(|experiment| experiment.described()).collect();
        reply::plain(&all)
    }

    pub fn one(&self, uuid: &str) -> Answer {
        reply::plain(&self.find(uuid)?.described())
    }

    /// Makes an experiment of opened traces. The same name with the same traces is the same
    /// experiment.
    pub fn create(&self, shared: &Shared, body: &[u8]) -> Answer {
        let parameters = Parameters::read(body)?;
        let name = parameters.text("name")?;
        let uuids = parameters.texts("traces").filter(|uuids| !uuids.is_empty());
        let uuids = uuids.ok_or_else(|| Refused::bad("`parameters` has no list `traces` with the UUIDs of opened traces"))?;
        let mut traces: Vec<Arc<Reading>> = Vec::new();
        for uuid in uuids {
            let reading = traces::find(shared, uuid)?;
            // Parts of one recording are opened as the whole, which is shown once.
            if !traces.iter().any(|trace| Arc::ptr_eq(trace, &reading)) {
                traces.push(reading);
            }
        }
        let new = Experiment::new(name, traces);
        let mut all = self.write();
        if let Some(same) = all.iter().find(|experiment| experiment.uuid == new.uuid) {
            return reply::plain(&same.described());
        }
        if let Some(other) = all.iter().find(|experiment| experiment.name == new.name) {
            let detail = format!("the experiment {name:?} exists with other traces; choose another name");
            return Err(Refused::conflict("The experiment exists", detail, ("experiment", other.described())));
        }
        if all.len() >= MAX_EXPERIMENTS {
            let detail = format!("there are {MAX_EXPERIMENTS} experiments; delete some");
            return Err(Refused::new(StatusCode::SERVICE_UNAVAILABLE, "Too many experiments", detail));
        }
        let answer = reply::plain(&new.described());
        all.push(Arc::new(new));
        answer
    }

    pub fn delete(&self, uuid: &str) -> Answer {
        let found = self.find(uuid)?;
        self.write().retain(|experiment| experiment.uuid != uuid);
        reply::plain(&found.described())
    }
}
