//! Requests for what is shown in addition to the states: sampled stacks, latencies, queues, who
//! waits for whom, and the folded graph of the critical path.

use super::{bad, computed, of, row_list, Answer, Refused};
use crate::picture_answers::{flame_graph, PictureAnswers};
use crate::reading::Phase;
use crate::shared::Shared;
use axum::extract::{Path, Query, State};
use axum::http::{header, StatusCode};
use axum::response::IntoResponse;
use axum::Json;
use longpole_analysis::pipeline::samples::SampleScope;
use longpole_analysis::timeline::{RowId, StateId, StateTimes};
use serde::Deserialize;
use serde_json::{json, Value};
use std::collections::HashSet;
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

/// A range in ns since the timeline's begin, rows, and a state of them. Without any of these, the
/// stacks that were counted during the reading are asked for.
#[derive(Deserialize)]
pub(super) struct StacksRequest {
    begin: Option<u64>,
    end: Option<u64>,
    rows: Option<String>,
    state: Option<u32>,
}

pub(super) async fn stacks(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, Query(request): Query<StacksRequest>) -> Answer {
    let range = match (request.begin, request.end) {
        (Some(begin), Some(end)) => begin..end,
        (None, None) if request.rows.is_none() && request.state.is_none() => {
            return answered(&shared, id, |pictures| Ok(pictures.stacks.clone()));
        }
        (None, None) => 0..u64::MAX,
        _ => return Err(bad("name both ends of the range: begin=B&end=E")),
    };
    let rows = request.rows.as_deref().map(row_list).transpose()?;
    if request.state.is_some() && rows.is_none() {
        return Err(bad("name the rows of the state: rows=R,R…"));
    }
    stacks_of(&shared, id, range, rows, request.state.map(StateId)).await
}

/// Answers with the stacks of some rows (or all) in a range, which are read from the trace.
async fn stacks_of(shared: &Shared, id: u32, range: Range<u64>, rows: Option<Vec<RowId>>, state: Option<StateId>) -> Answer {
    let (reading, analyst) = (of(shared, id)?, shared.analyst.clone());
    if !reading.is_over() {
        return Ok((StatusCode::ACCEPTED, Json(reading.described())).into_response());
    }
    let read = move || {
        let timeline = &reading.timeline;
        let scope = rows.map_or_else(SampleScope::default, |mut rows| {
            let groups = timeline.group_rows(&rows);
            rows.extend(groups.into_values().flatten());
            let (mut tids, mut cpus) = (HashSet::new(), HashSet::new());
            for row in timeline.listing().rows.iter().filter(|row| rows.contains(&row.id)) {
                tids.extend(row.tid);
                cpus.extend(row.cpu);
            }
            SampleScope { only: Some((tids, cpus)), state: state.map(|state| StateTimes::new(timeline.clone(), state, &rows)) }
        });
        let on_clock = |t: u64| i64::try_from(reading.origin().saturating_add(t)).unwrap_or(i64::MAX);
        analyst.stacks(&reading.path, &reading, on_clock(range.start)..on_clock(range.end), scope)
    };
    match shared.run_long(read).await {
        Some(Ok(graph)) => Ok(Json(json!({"all": graph.as_ref().map(flame_graph), "path": null})).into_response()),
        Some(Err(error)) => Err(bad(error)),
        None => Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, "internal error: the stacks were not read".to_owned())),
    }
}

/// A range in ns since the timeline's begin.
#[derive(Deserialize)]
pub(super) struct MarksRequest {
    begin: u64,
    end: u64,
}

/// Answers with the places of sampled waits, as a list of three numbers each.
pub(super) async fn sampled_waits(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, Query(request): Query<MarksRequest>) -> Answer {
    computed(&shared, id, move |reading| {
        let marks = reading.timeline.wait_marks((request.begin, request.end));
        let marks: Vec<[u64; 3]> = marks.iter().map(|it| [it.row.0.into(), it.begin, it.end]).collect();
        Ok(Json(json!({"waits": marks})).into_response())
    })
    .await
}

/// A range of a row, in ns since the timeline's begin.
#[derive(Deserialize)]
pub(super) struct WaitRequest {
    row: u32,
    begin: u64,
    end: u64,
}

/// Answers with the stacks of the sampled wait that has most of a range of a row.
pub(super) async fn sampled_wait(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, Query(request): Query<WaitRequest>) -> Answer {
    let (reading, analyst) = (of(&shared, id)?, shared.analyst.clone());
    if !reading.is_over() {
        return Ok((StatusCode::ACCEPTED, Json(reading.described())).into_response());
    }
    let read = move || -> Result<Value, String> {
        let timeline = &reading.timeline;
        let Some(wait) = timeline.sampled_wait(RowId(request.row), (request.begin, request.end)) else { return Ok(Value::Null) };
        let Some(stacks) = analyst.wait_stack(&reading.path, &reading, &wait)? else { return Ok(Value::Null) };
        let since = |t_ns: i64| u64::try_from(t_ns).unwrap_or(0).saturating_sub(reading.origin());
        let row = |tid: i32, t: u64| timeline.row_of_thread(tid, t).map(|row| row.0);
        let woken = stacks.woken_ns.map(since);
        let waker_row = stacks.waker.as_ref().zip(woken).and_then(|(waker, t)| row(waker.tid, t));
        Ok(json!({
            "begin": since(wait.begin_ns), "end": since(wait.end_ns), "kind": stacks.kind, "waiter": stacks.waiter,
            "waker": stacks.waker, "woken": woken, "waker_row": waker_row,
        }))
    };
    match shared.run_long(read).await {
        Some(Ok(wait)) => Ok(Json(json!({"wait": wait})).into_response()),
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
