//! The requests of the page: docs/internals/viewer-interface.md.

mod events;
mod pictures;

use crate::notes;
use crate::reading::{Phase, Reading};
use crate::shared::Shared;
use crate::tiles;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use longpole_analysis::timeline::{Grid, Listing, PathSegment, RowId, MAX_GROUP_ROWS};
use serde::Deserialize;
use serde_json::{json, Value};
use std::sync::Arc;

/// Limits of one request.
const MAX_ROWS: usize = 512;
const MAX_BINS: u64 = 8192;
const MAX_ROW_BINS: u64 = 1 << 20;
/// Bins of the rows that are added up for groups, together.
const MAX_GROUP_BINS: u64 = 1 << 24;
const MAX_LISTED: usize = 100_000;
const MAX_CHANGES: usize = 64;

pub(crate) fn router() -> Router<Arc<Shared>> {
    Router::new()
        .route("/traces", get(traces))
        .route("/traces/{id}", get(trace))
        .route("/traces/{id}/rows", get(rows))
        .route("/traces/{id}/tiles", get(tiles))
        .route("/traces/{id}/states", get(states))
        .route("/traces/{id}/path", get(path))
        .route("/traces/{id}/sums", get(sums))
        .route("/traces/{id}/search", get(search))
        .route("/traces/{id}/report", get(report))
        .route("/traces/{id}/events", get(events::lines))
        .route("/traces/{id}/event-names", get(events::names))
        .route("/traces/{id}/instance", get(events::instance))
        .route("/traces/{id}/stacks", get(pictures::stacks))
        .route("/traces/{id}/sampled-waits", get(pictures::sampled_waits))
        .route("/traces/{id}/sampled-wait", get(pictures::sampled_wait))
        .route("/traces/{id}/latency", get(pictures::latencies))
        .route("/traces/{id}/latency/{place}", get(pictures::latency))
        .route("/traces/{id}/queues", get(pictures::queues))
        .route("/traces/{id}/queues/{place}", get(pictures::queue))
        .route("/traces/{id}/waits", get(pictures::waits))
        .route("/traces/{id}/graph", get(pictures::graph))
        .route("/traces/{id}/packet", get(packet))
        .route("/traces/{id}/what-if", post(what_if))
        .route("/traces/{id}/notes", get(read_notes).put(write_notes))
        .route("/diff", get(diff))
        .layer(DefaultBodyLimit::max(notes::MAX_NOTES))
}

/// An error of a request, with a text for people.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(json!({"error": self.1}))).into_response()
    }
}

type Answer = Result<Response, Refused>;

fn bad(text: impl Into<String>) -> Refused {
    Refused(StatusCode::BAD_REQUEST, text.into())
}

fn of(shared: &Shared, id: u32) -> Result<Arc<Reading>, Refused> {
    shared.trace(id).ok_or_else(|| Refused(StatusCode::NOT_FOUND, format!("there is no trace {id}; GET api/traces lists them")))
}

/// Computes an answer from the states in a thread for blocking work, since it may read a file.
async fn computed(shared: &Shared, id: u32, answer: impl FnOnce(&Reading) -> Answer + Send + 'static) -> Answer {
    let reading = of(shared, id)?;
    let computed = shared.run(move || answer(&reading)).await;
    computed.unwrap_or_else(|| Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, "internal error: the answer was not computed".to_owned())))
}

fn unreadable(error: std::io::Error) -> Refused {
    Refused(StatusCode::INTERNAL_SERVER_ERROR, format!("the states cannot be read from the temporary file: {error}; open the trace again"))
}

async fn traces(State(shared): State<Arc<Shared>>) -> Response {
    let all: Vec<Value> = shared.traces().iter().map(|reading| reading.described()).collect();
    Json(json!({"traces": all})).into_response()
}

async fn trace(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    Ok(Json(of(&shared, id)?.described()).into_response())
}

async fn rows(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    computed(&shared, id, |reading| {
        let status = if reading.is_reading() { StatusCode::ACCEPTED } else { StatusCode::OK };
        let listing = reading.timeline.listing();
        let Listing { version, generation, rows, states, path } = listing;
        let path = path.map(|path| path.0);
        let answer = json!({"version": version, "generation": generation, "path": path, "rows": rows, "states": states});
        Ok((status, Json(answer)).into_response())
    })
    .await
}

#[derive(Deserialize)]
struct TileRequest {
    level: u32,
    first: u64,
    count: u64,
    rows: String,
}

async fn tiles(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, Query(request): Query<TileRequest>) -> Answer {
    let rows = row_list(&request.rows)?;
    let ends_early = |level: u32| request.first.checked_add(request.count).is_some_and(|end| end <= 1 << (62 - level));
    if request.level > Grid::MAX_LEVEL || !(1..=MAX_BINS).contains(&request.count) || !ends_early(request.level) {
        return Err(bad(format!("a tile has 1 to {MAX_BINS} bins of at most 2^{} ns, and ends before 2^62 ns", Grid::MAX_LEVEL)));
    }
    if rows.len() as u64 * request.count > MAX_ROW_BINS {
        return Err(bad(format!("a tile has at most {MAX_ROW_BINS} bins in all of its rows; ask for fewer rows at once")));
    }
    let grid = Grid { level: request.level, first: request.first, count: request.count };
    computed(&shared, id, move |reading| {
        let groups = reading.timeline.group_rows(&rows);
        // A row that is named twice is computed twice.
        let in_groups = rows.iter().filter_map(|row| groups.get(row)).map(Vec::len);
        let summed: usize = in_groups.filter(|&rows| rows <= MAX_GROUP_ROWS).sum();
        if summed as u64 * grid.count > MAX_GROUP_BINS {
            return Err(bad(format!("the rows of all groups have at most {MAX_GROUP_BINS} bins; ask for fewer groups at once")));
        }
        let picture = reading.timeline.picture_with_groups(&rows, grid).map_err(unreadable)?;
        Ok(([(header::CONTENT_TYPE, "application/octet-stream")], tiles::packed(&rows, grid, &picture)).into_response())
    })
    .await
}

fn row_list(text: &str) -> Result<Vec<RowId>, Refused> {
    let rows: Result<Vec<RowId>, _> = text.split(',').filter(|text| !text.is_empty()).map(|text| text.parse().map(RowId)).collect();
    match rows {
        Ok(rows) if rows.len() <= MAX_ROWS => Ok(rows),
        Ok(_) => Err(bad(format!("at most {MAX_ROWS} rows in one request"))),
        Err(_) => Err(bad("rows are numbers, separated by commas")),
    }
}

/// A range in ns; without an end, up to the end of the trace.
#[derive(Deserialize)]
struct RangeRequest {
    #[serde(default)]
    begin: u64,
    end: Option<u64>,
    limit: Option<usize>,
    row: Option<u32>,
    rows: Option<String>,
    q: Option<String>,
}

impl RangeRequest {
    fn range(&self) -> (u64, u64) {
        (self.begin, self.end.unwrap_or(u64::MAX))
    }

    fn limit(&self) -> usize {
        self.limit.unwrap_or(1000).min(MAX_LISTED)
    }
}

async fn states(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, Query(request): Query<RangeRequest>) -> Answer {
    let row = request.row.map(RowId).ok_or_else(|| bad("name a row: row=R"))?;
    computed(&shared, id, move |reading| {
        if reading.timeline.has_values(row) {
            let (steps, more) = reading.timeline.steps(row, request.range(), request.limit()).map_err(unreadable)?;
            let steps: Vec<Value> = steps.iter().map(|it| json!({"begin": it.begin, "end": it.end, "value": it.value})).collect();
            return Ok(Json(json!({"states": steps, "more": more})).into_response());
        }
        let (states, more) = reading.timeline.states(row, request.range(), request.limit()).map_err(unreadable)?;
        let states: Vec<Value> = states.iter().map(|it| json!({"begin": it.begin, "end": it.end, "state": it.state.0})).collect();
        Ok(Json(json!({"states": states, "more": more})).into_response())
    })
    .await
}

async fn path(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, Query(request): Query<RangeRequest>) -> Answer {
    computed(&shared, id, move |reading| {
        let drawn = reading.timeline.drawn_path(request.range(), request.limit()).map_err(unreadable)?;
        let segment = |((it, joined), text): (&(PathSegment, u64), &String)| {
            let (begin, end, state) = (it.interval.begin, it.interval.end, it.interval.state.0);
            json!({"begin": begin, "end": end, "row": it.row.map(|row| row.0), "state": state, "text": text, "joined": joined})
        };
        let segments: Vec<Value> = drawn.segments.iter().zip(&drawn.names).map(segment).collect();
        Ok(Json(json!({"segments": segments, "more": !drawn.is_exact})).into_response())
    })
    .await
}

async fn sums(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, Query(request): Query<RangeRequest>) -> Answer {
    let rows = row_list(request.rows.as_deref().unwrap_or_default())?;
    computed(&shared, id, move |reading| {
        let sums = reading.timeline.distributions(&rows, request.range()).map_err(unreadable)?;
        let values = reading.timeline.range_values(&rows, request.range()).map_err(unreadable)?;
        Ok(Json(json!({"sums": sums, "values": values})).into_response())
    })
    .await
}

async fn search(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, Query(request): Query<RangeRequest>) -> Answer {
    let text = request.q.clone().filter(|text| !text.is_empty()).ok_or_else(|| bad("name a text: q=TEXT"))?;
    computed(&shared, id, move |reading| {
        let found = reading.timeline.search(&text, request.range(), request.limit()).map_err(unreadable)?;
        let matches: Vec<Value> = found
            .matches
            .iter()
            .map(|it| json!({"row": it.row.0, "begin": it.interval.begin, "end": it.interval.end, "state": it.interval.state.0}))
            .collect();
        let more = found.count > matches.len() as u64;
        Ok(Json(json!({"count": found.count, "total_ns": found.total_ns, "matches": matches, "more": more})).into_response())
    })
    .await
}

async fn report(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    let reading = of(&shared, id)?;
    Ok(match reading.report() {
        Some(report) => Json(&*report).into_response(),
        None => (StatusCode::ACCEPTED, Json(reading.described())).into_response(),
    })
}

/// A moment of a row.
#[derive(Deserialize)]
struct MomentRequest {
    row: u32,
    t: u64,
}

async fn packet(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, Query(request): Query<MomentRequest>) -> Answer {
    let (analyst, reading) = (shared.analyst.clone(), of(&shared, id)?);
    let read = move || {
        let found = reading.timeline.packet_at(RowId(request.row), request.t).map_err(unreadable)?;
        let found = found.ok_or_else(|| Refused(StatusCode::NOT_FOUND, "there is no packet at this time of the row".to_owned()))?;
        analyst.packet(&reading.path, &reading, &found).map_err(bad)
    };
    match shared.run_long(read).await {
        Some(packet) => Ok(Json(packet?).into_response()),
        None => Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, "internal error: the packet was not read".to_owned())),
    }
}

#[derive(Deserialize)]
struct Changes {
    changes: Vec<String>,
}

async fn what_if(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, Json(request): Json<Changes>) -> Answer {
    if request.changes.is_empty() || request.changes.len() > MAX_CHANGES {
        return Err(bad(format!("name 1 to {MAX_CHANGES} changes")));
    }
    let (analyst, reading) = (shared.analyst.clone(), of(&shared, id)?);
    if reading.phase() == Phase::Live {
        return Err(bad("the trace is still being recorded; ask again when the recording has ended"));
    }
    match shared.run_long(move || analyst.what_if(&reading.path, &request.changes)).await {
        Some(Ok(predictions)) => Ok(Json(json!({"predictions": predictions})).into_response()),
        Some(Err(error)) => Err(bad(error)),
        None => Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, "internal error: the replay was not computed".to_owned())),
    }
}

/// Numbers of the traces before and after a change.
#[derive(Deserialize)]
struct DiffRequest {
    base: u32,
    new: u32,
}

async fn diff(State(shared): State<Arc<Shared>>, Query(request): Query<DiffRequest>) -> Answer {
    let (base, new) = (of(&shared, request.base)?, of(&shared, request.new)?);
    // Both traces are read once more for the windows that are compared, so not before the first
    // reading is over.
    if let Some(unread) = [&base, &new].into_iter().find(|reading| !reading.is_over()) {
        return Ok((StatusCode::ACCEPTED, Json(unread.described())).into_response());
    }
    let analyst = shared.analyst.clone();
    match shared.run_long(move || analyst.diff(&base.path, &new.path)).await {
        Some(Ok(diff)) => Ok(Json(diff).into_response()),
        Some(Err(error)) => Err(bad(error)),
        None => Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, "internal error: the difference was not computed".to_owned())),
    }
}

async fn read_notes(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    computed(&shared, id, |reading| match notes::read(&reading.path) {
        Ok(notes) => Ok(Json(notes).into_response()),
        Err(error) => Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, format!("the notes of the trace cannot be read: {error}"))),
    })
    .await
}

async fn write_notes(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, Json(all): Json<Value>) -> Answer {
    if !all["notes"].is_array() {
        return Err(bad("notes are {\"notes\": […]}"));
    }
    computed(&shared, id, move |reading| match notes::write(&reading.path, &all) {
        Ok(()) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(error) => Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, format!("the notes cannot be written next to the trace: {error}"))),
    })
    .await
}
