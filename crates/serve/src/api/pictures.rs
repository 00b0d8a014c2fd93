//! Requests for what is shown in addition to the states: sampled stacks, latencies, queues, who
//! waits for whom, and the folded graph of the critical path.

use super::{bad, of, row_list, Answer, Refused};
use crate::picture_answers::{flame_graph, PictureAnswers};
use crate::reading::Phase;
use crate::shared::Shared;
use axum::extract::{Path, Query, State};
use axum::http::{header, StatusCode};
use axum::response::IntoResponse;
use axum::Json;
use longpole_analysis::pipeline::samples::SampleScope;
use longpole_analysis::timeline::RowId;
use serde::Deserialize;
use serde_json::json;
use std::ops::Range;
use std::sync::Arc;

/// Answers from the pictures; 202 and TRACE until they are known.
fn answered(shared: &Shared, id: u32, answer: impl FnOnce(&PictureAnswers) -> Result<String, Refused>) -> Answer {
    let reading = of(shared, id)?;
    let text = match reading.pictures() {
        Some(pictures) => answer(pictures)?,
        // Of a trace that could not be read, nothing will ever be known.
        None if reading.phase() == Phase::Failed => answer(&PictureAnswers::default())?,
        None => return Ok((StatusCode::ACCEPTED, Json(reading.described())).into_response()),
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

fn at(texts: &[String], place: usize, what: &str, list: &str) -> Result<String, Refused> {
    let unknown = || Refused(StatusCode::NOT_FOUND, format!("there is no {what} {place}; GET {list} lists them"));
    texts.get(place).cloned().ok_or_else(unknown)
}

/// A range in ns since the timeline's begin, and rows; without them, the whole is asked for.
#[derive(Deserialize)]
pub(super) struct StacksRequest {
    begin: Option<u64>,
    end: Option<u64>,
    rows: Option<String>,
}

pub(super) async fn stacks(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, Query(request): Query<StacksRequest>) -> Answer {
    match (request.begin, request.end) {
        (Some(begin), Some(end)) => stacks_of(&shared, id, begin..end, row_list(request.rows.as_deref().unwrap_or_default())?).await,
        (None, None) => answered(&shared, id, |pictures| Ok(pictures.stacks.clone())),
        _ => Err(bad("name both ends of the range: begin=B&end=E")),
    }
}

/// Answers with the stacks of some rows in a range, which are read from the trace.
async fn stacks_of(shared: &Shared, id: u32, range: Range<u64>, rows: Vec<RowId>) -> Answer {
    let (reading, analyst) = (of(shared, id)?, shared.analyst.clone());
    if !reading.is_over() {
        return Ok((StatusCode::ACCEPTED, Json(reading.described())).into_response());
    }
    let read = move || {
        let mut scope = SampleScope::default();
        for row in reading.timeline.listing().rows.iter().filter(|row| rows.contains(&row.id)) {
            scope.tids.extend(row.tid);
            scope.cpus.extend(row.cpu);
        }
        let on_clock = |t: u64| reading.origin().saturating_add(t);
        analyst.stacks(&reading.path, on_clock(range.start)..on_clock(range.end), scope)
    };
    match shared.run_long(read).await {
        Some(Ok(graph)) => Ok(Json(json!({"all": graph.as_ref().map(flame_graph), "path": null})).into_response()),
        Some(Err(error)) => Err(bad(error)),
        None => Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, "internal error: the stacks were not read".to_owned())),
    }
}

pub(super) async fn latencies(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    answered(&shared, id, |pictures| Ok(pictures.latencies.clone()))
}

pub(super) async fn latency(State(shared): State<Arc<Shared>>, Path((id, place)): Path<(u32, usize)>) -> Answer {
    answered(&shared, id, |pictures| at(&pictures.cases, place, "latency", "latency"))
}

pub(super) async fn queues(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    answered(&shared, id, |pictures| Ok(pictures.queues.clone()))
}

pub(super) async fn queue(State(shared): State<Arc<Shared>>, Path((id, place)): Path<(u32, usize)>) -> Answer {
    answered(&shared, id, |pictures| at(&pictures.depths, place, "queue", "queues"))
}

pub(super) async fn waits(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    answered(&shared, id, |pictures| Ok(pictures.waits.clone()))
}

pub(super) async fn graph(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    answered(&shared, id, |pictures| Ok(pictures.graph.clone()))
}
