//! Requests for what was measured in addition to the states: sampled stacks.

use super::{computed, Answer};
use crate::measured::Measured;
use crate::reading::{Phase, Reading};
use crate::shared::Shared;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::Json;
use longpole_analysis::scheduling::flame_graph::{FlameGraph, Frame};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// Answers from the measurements; 202 and TRACE until they are known.
async fn answered(shared: &Shared, id: u32, answer: impl FnOnce(&Reading, &Measured) -> Value + Send + 'static) -> Answer {
    computed(shared, id, |reading| match reading.measured() {
        Some(measured) => Ok(Json(answer(reading, measured)).into_response()),
        // A trace that could not be read has no measurements, and never will.
        None if reading.phase() == Phase::Failed => Ok(Json(answer(reading, &Measured::default())).into_response()),
        None => Ok((StatusCode::ACCEPTED, Json(reading.described())).into_response()),
    })
    .await
}

pub(super) async fn stacks(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    answered(&shared, id, |_, measured| {
        let flames = measured.flames.as_ref();
        let on_path = flames.and_then(|flames| flames.on_path.as_ref());
        json!({"all": flames.map(|flames| flame_graph(&flames.all)), "path": on_path.map(flame_graph)})
    })
    .await
}

/// A frame is five numbers, since there may be many of them; a name is sent once.
fn flame_graph(graph: &FlameGraph) -> Value {
    let (mut names, mut places) = (Vec::new(), HashMap::new());
    let packed = |frame: &'_ Frame, place: usize| json!([frame.depth, place, frame.code as u8, frame.count, frame.own]);
    let mut frames = Vec::new();
    for frame in &graph.frames {
        let place = *places.entry(frame.name.as_str()).or_insert_with(|| {
            names.push(frame.name.as_str());
            names.len() - 1
        });
        frames.push(packed(frame, place));
    }
    json!({
        "samples": graph.counts.busy, "lost": graph.counts.lost, "beyond": graph.counts.beyond, "left_out": graph.left_out,
        "least": graph.least, "names": names, "frames": frames,
    })
}
