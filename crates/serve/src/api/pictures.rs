//! Requests for what is shown in addition to the states: sampled stacks, latencies, queues, and who
//! waits for whom.

use super::{of, Answer, Refused};
use crate::picture_answers::PictureAnswers;
use crate::reading::Phase;
use crate::shared::Shared;
use axum::extract::{Path, State};
use axum::http::{header, StatusCode};
use axum::response::IntoResponse;
use axum::Json;
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

pub(super) async fn stacks(State(shared): State<Arc<Shared>>, Path(id): Path<u32>) -> Answer {
    answered(&shared, id, |pictures| Ok(pictures.stacks.clone()))
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
