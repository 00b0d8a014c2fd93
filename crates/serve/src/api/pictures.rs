//! Requests for what is shown in addition to the states: sampled stacks, latencies,
//! queues, and who waits for whom.

use super::{computed, Answer, Refused};
use crate::reading::{Phase, Reading};
use crate::shared::Shared;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::Json;
use longpole_analysis::latency::Case;
use longpole_analysis::pipeline::pictures::Pictures;
use longpole_analysis::scheduling::flame_graph::FlameGraph;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// Answers from the pictures; 202 and TRACE until they are known.
async fn answered(shared: &Shared, id: u32, answer: impl FnOnce(&Reading, &Pictures) -> Result<Value, Refused> + Send + 'static) -> Answer {
    computed(shared, id, |reading| {
        let none = Pictures::default();
        let pictures = match reading.pictures() {
            Some(pictures) => pictures,
            // Of a trace that could not be read, nothing will ever be known.
            None if reading.phase() == Phase::Failed => &none,
            None => return Ok((StatusCode::ACCEPTED, Json(reading.described())).into_response()),
        };
        Ok(Json(answer(reading, pictures)?).into_response())
    })
    .await
}

pub(super) async fn stacks(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    answered(&shared, id, |_, pictures| {
        let flames = pictures.flames.as_ref();
        let on_path = flames.and_then(|flames| flames.on_path.as_ref());
        Ok(json!({"all": flames.map(|flames| flame_graph(&flames.all)), "path": on_path.map(flame_graph)}))
    })
    .await
}

/// A frame is five numbers, since there may be many of them; a name is sent once.
fn flame_graph(graph: &FlameGraph) -> Value {
    let (mut names, mut places) = (Vec::new(), HashMap::new());
    let mut frames = Vec::new();
    for frame in &graph.frames {
        let place = *places.entry(frame.name.as_str()).or_insert_with(|| {
            names.push(frame.name.as_str());
            names.len() - 1
        });
        frames.push(json!([frame.depth, place, frame.code as u8, frame.count, frame.own]));
    }
    json!({
        "samples": graph.counts.busy, "lost": graph.counts.lost, "beyond": graph.counts.beyond, "left_out": graph.left_out,
        "least": graph.least, "names": names, "frames": frames,
    })
}

pub(super) async fn latencies(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    answered(&shared, id, |_, pictures| {
        let rows = pictures.latencies.iter().map(|it| json!({"latency": it.of.latency, "row": it.row.map(|row| row.0)}));
        Ok(json!({"latencies": rows.collect::<Vec<Value>>()}))
    })
    .await
}

pub(super) async fn latency(State(shared): State<Arc<Shared>>, Path((id, place)): Path<(u32, usize)>) -> Answer {
    answered(&shared, id, move |reading, pictures| {
        let unknown = || Refused(StatusCode::NOT_FOUND, format!("there is no latency {place}; GET latency lists them"));
        let of = &pictures.latencies.get(place).ok_or_else(unknown)?.of;
        let origin = reading.origin();
        let times = |case: &Case| json!([u64::try_from(case.begin_ns).unwrap_or(0).saturating_sub(origin), case.ns]);
        let cases: Vec<Value> = of.cases.iter().map(times).collect();
        let left_out = of.latency.times.count.saturating_sub(cases.len() as u64);
        Ok(json!({"cases": cases, "left_out": left_out, "buckets": of.buckets}))
    })
    .await
}

pub(super) async fn queues(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    answered(&shared, id, |_, pictures| {
        let queues: Vec<_> = pictures.queues.iter().map(|it| &it.queue).collect();
        Ok(json!({"queues": queues}))
    })
    .await
}

pub(super) async fn queue(State(shared): State<Arc<Shared>>, Path((id, place)): Path<(u32, usize)>) -> Answer {
    answered(&shared, id, move |reading, pictures| {
        let unknown = || Refused(StatusCode::NOT_FOUND, format!("there is no queue {place}; GET queues lists them"));
        let Some(depths) = &pictures.queues.get(place).ok_or_else(unknown)?.depths else {
            return Ok(json!({"begin": 0, "width": 0, "depths": []}));
        };
        let begin = u64::try_from(depths.begin_ns).unwrap_or(0).saturating_sub(reading.origin());
        Ok(json!({"begin": begin, "width": depths.width_ns, "depths": depths.bins}))
    })
    .await
}

pub(super) async fn waits(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    answered(&shared, id, |_, pictures| {
        let Some(waits) = &pictures.waits else { return Ok(json!({"waits": null, "rows": []})) };
        let rows = waits.rows.iter().map(|rows| rows.map(|row| row.map(|row| row.0)));
        Ok(json!({"waits": waits.of, "rows": rows.collect::<Vec<_>>()}))
    })
    .await
}
