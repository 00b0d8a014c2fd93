//! Traces: the list of them, opening and closing.

use super::parameters::Parameters;
use super::reply::{self, Answer, Refused};
use super::Protocol;
use crate::reading::{Phase, Reading};
use crate::roots::Refusal;
use crate::shared::{OpenError, Shared};
use axum::http::StatusCode;
use serde_json::{json, Value};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a client waits for the first states of a trace. Then it gets the trace as it is, and
/// asks again.
const MAX_WAIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// Returns begin and end of a trace in ns on its clock; both are 0 while nothing is known. A trace
/// without states, such as a capture of packets, has the range of its events.
pub(crate) fn range(reading: &Reading) -> (u64, u64) {
    let of_states = reading.timeline.range();
    let of_events = || {
        let report = reading.report()?;
        let time = |key: &str| report["inputs"][key].as_u64();
        Some((time("start_ns")?, time("end_ns")?))
    };
    if of_states.0 < of_states.1 {
        of_states
    } else {
        of_events().unwrap_or(of_states)
    }
}

/// Returns a trace as clients know it.
pub(crate) fn described(reading: &Reading) -> Value {
    let (begin, end) = range(reading);
    let counts = reading.counts();
    let report = reading.report();
    let lost = report.as_ref().and_then(|report| report["inputs"]["lost"].as_u64()).unwrap_or(counts.lost);
    let mut properties = json!({"lost events": lost.to_string()});
    if let Some(verdict) = report.as_ref().and_then(|report| report["verdict"]["text"].as_str()) {
        properties["verdict"] = verdict.into();
    }
    if let Some(error) = reading.error() {
        properties["error"] = error.into();
    }
    json!({
        "UUID": reading.uuid, "name": reading.name, "path": reading.real_path.to_string_lossy(),
        "start": begin, "end": end, "nbEvents": counts.events, "properties": properties,
        "indexingStatus": indexing_status(&[reading.phase()]),
    })
}

/// Returns the status of traces: running while one of them is being read. A trace that could not be
/// read to its end is closed.
pub(crate) fn indexing_status(phases: &[Phase]) -> &'static str {
    if phases.iter().any(|phase| matches!(phase, Phase::Live | Phase::Reading | Phase::Analysing)) {
        "RUNNING"
    } else if phases.contains(&Phase::Failed) {
        "CLOSED"
    } else {
        "COMPLETED"
    }
}

pub(crate) fn all(shared: &Shared) -> Answer {
    let all: Vec<Value> = shared.traces().iter().map(|reading| described(reading)).collect();
    reply::plain(&all)
}

pub(crate) fn one(shared: &Shared, uuid: &str) -> Answer {
    reply::plain(&described(&*find(shared, uuid)?))
}

/// Returns the trace with this identifier.
pub(crate) fn find(shared: &Shared, uuid: &str) -> Result<Arc<Reading>, Refused> {
    let found = shared.traces().into_iter().find(|reading| reading.uuid == uuid);
    found.ok_or_else(|| Refused::not_found("No such trace", format!("there is no trace {uuid}; GET traces lists them")))
}

/// Opens the trace that the request names. The same trace is opened once, whatever its name is.
pub(crate) async fn open(protocol: &Arc<Protocol>, body: &[u8]) -> Answer {
    let parameters = Parameters::read(body)?;
    let uri = parameters.text("uri")?.to_owned();
    let name = parameters.optional_text("name").map(str::to_owned);
    let opening = protocol.clone();
    // Looking through a directory may take time.
    let opened = tokio::task::spawn_blocking(move || begin(&opening, &uri, name)).await;
    let reading = opened.map_err(|_| Refused::internal("the trace was not opened"))??;
    let mut waited = Duration::ZERO;
    while !reading.has_begun() && waited < MAX_WAIT {
        tokio::time::sleep(PAUSE).await;
        waited += PAUSE;
    }
    match reading.error() {
        Some(error) => {
            if !reading.is_kept && protocol.experiments.using(&reading).is_none() {
                protocol.shared.remove(&reading);
            }
            Err(Refused::new(StatusCode::NOT_ACCEPTABLE, "Cannot read this trace", error))
        }
        None => reply::plain(&described(&reading)),
    }
}

fn begin(Protocol { shared, experiments }: &Protocol, uri: &str, name: Option<String>) -> Result<Arc<Reading>, Refused> {
    // What the command itself opened is known already, also if it is not below a root.
    if let Some(known) = shared.with_path(Path::new(uri.strip_prefix("file://").unwrap_or(uri))) {
        return Ok(known);
    }
    let resolved = shared.roots.resolve(uri).map(|path| {
        let whole = shared.analyst.whole(&path);
        // The whole of a part may be outside the roots, or have links that lead out; then only the
        // part may be read.
        let whole = if whole == path { Ok(whole) } else { shared.roots.resolve_path(&whole) };
        whole.unwrap_or(path)
    });
    let path = resolved.map_err(|refusal| {
        let (status, title) = match refusal {
            Refusal::Outside(_) | Refusal::Upwards(_) | Refusal::Link(_) => (StatusCode::FORBIDDEN, "Path outside the roots"),
            Refusal::Missing(_) => (StatusCode::NOT_FOUND, "No such trace"),
            Refusal::Special(_) | Refusal::TooLarge(_) | Refusal::Unreadable { .. } => {
                (StatusCode::NOT_ACCEPTABLE, "Cannot read this trace")
            }
        };
        Refused::new(status, title, refusal.to_string())
    })?;
    shared.open(path, name, |reading| experiments.using(reading).is_some()).map_err(|error| match error {
        OpenError::TooMany => Refused::new(StatusCode::SERVICE_UNAVAILABLE, "Too many traces", error.to_string()),
        OpenError::Thread(_) => Refused::internal(error.to_string()),
    })
}

/// Closes a trace. Its files stay where they are.
pub(crate) fn close(Protocol { shared, experiments }: &Protocol, uuid: &str, query: &str) -> Answer {
    let reading = find(shared, uuid)?;
    let forbidden = |why: &str| Refused::new(StatusCode::FORBIDDEN, "The trace is not removed", why);
    if query.split('&').any(|parameter| parameter == "deleteTrace=true") {
        return Err(forbidden("the server deletes no files; leave out deleteTrace to close the trace"));
    }
    if reading.is_kept {
        return Err(forbidden("the trace was named when the server was started, and stays open until it ends"));
    }
    if let Some(experiment) = experiments.using(&reading) {
        let detail = format!("the experiment {:?} uses it; delete that one first", experiment.name);
        return Err(Refused::conflict("The trace is in use", detail, ("trace", described(&reading))));
    }
    shared.remove(&reading);
    reply::plain(&described(&reading))
}
