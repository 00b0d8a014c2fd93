//! Requests for the events of a trace: some of them as lines, their numbers by name, and what led
//! to an execution.

use super::{bad, of, Answer, Refused};
use crate::event_places;
use crate::events::{EventFrom, EventLine, EventQuery, MAX_LINES};
use crate::instance;
use crate::shared::Shared;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::Json;
use longpole_analysis::timeline::RowId;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// Maximum number of names in an answer.
const MAX_NAMES: usize = 10_000;

/// A number or a time.
#[derive(Deserialize)]
pub(super) struct LinesRequest {
    from: Option<u64>,
    at: Option<u64>,
    #[serde(default)]
    backwards: bool,
    limit: Option<usize>,
    filter: Option<String>,
    row: Option<u32>,
}

pub(super) async fn lines(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, Query(request): Query<LinesRequest>) -> Answer {
    let from = match (request.from, request.at) {
        (Some(number), None) => EventFrom::Number(number),
        (None, Some(t)) => EventFrom::Time(t),
        _ => return Err(bad("name either the number of an event, from=N, or a time in ns, at=T")),
    };
    let reading = of(&shared, id)?;
    if !reading.is_over() {
        return Ok((StatusCode::ACCEPTED, Json(reading.described())).into_response());
    }
    let limit = request.limit.unwrap_or(100).clamp(1, MAX_LINES);
    let filter = request.filter.filter(|filter| !filter.trim().is_empty());
    let query = EventQuery { backwards: request.backwards, limit, filter, ..EventQuery::all(from) };
    let analyst = shared.analyst.clone();
    let accept = move |line: &EventLine| request.row.is_none_or(|row| line.row == Some(row));
    match shared.run_long(move || event_places::read(&*analyst, &reading, &query, &accept)).await {
        Some(Ok(lines)) => Ok(Json(lines).into_response()),
        Some(Err(error)) => Err(bad(error)),
        None => Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, "internal error: the events were not read".to_owned())),
    }
}

/// A row, and a time in ns since the timeline's begin.
#[derive(Deserialize)]
pub(super) struct InstanceRequest {
    row: u32,
    at: u64,
}

pub(super) async fn instance(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, Query(request): Query<InstanceRequest>) -> Answer {
    let reading = of(&shared, id)?;
    if !reading.is_over() {
        return Ok((StatusCode::ACCEPTED, Json(reading.described())).into_response());
    }
    let analyst = shared.analyst.clone();
    match shared.run_long(move || instance::at(&*analyst, &reading, RowId(request.row), request.at)).await {
        Some(Ok(instance)) => Ok(Json(json!({"instance": instance})).into_response()),
        Some(Err(error)) => Err(bad(error)),
        None => Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, "internal error: the execution was not found".to_owned())),
    }
}

pub(super) async fn names(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    let reading = of(&shared, id)?;
    if !reading.is_over() {
        return Ok((StatusCode::ACCEPTED, Json(reading.described())).into_response());
    }
    let index = reading.event_index();
    let all = index.map_or(&[][..], |index| index.names());
    let names: Vec<_> = all.iter().take(MAX_NAMES).map(|(name, count)| json!({"name": name, "count": count})).collect();
    let items = index.map_or(0, |index| index.items());
    Ok(Json(json!({"items": items, "names": names, "left_out": all.len() - names.len()})).into_response())
}
