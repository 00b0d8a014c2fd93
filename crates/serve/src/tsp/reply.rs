//! Answers of the protocol: a model with its status, or an error with a title and a text.

use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{json, Value};

/// The bytes of an answer in JSON, or the reason why there is none.
pub(crate) type Answer = Result<Vec<u8>, Refused>;

/// An error of the protocol.
#[derive(Debug)]
pub(crate) struct Refused {
    pub status: StatusCode,
    title: &'static str,
    detail: String,
    /// The trace or experiment with which a new one would conflict.
    conflict: Option<(&'static str, Value)>,
}

impl Refused {
    pub fn new(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Refused {
        Refused { status, title, detail: detail.into(), conflict: None }
    }

    pub fn bad(detail: impl Into<String>) -> Refused {
        Refused::new(StatusCode::BAD_REQUEST, "Invalid query parameters", detail)
    }

    pub fn not_found(title: &'static str, detail: impl Into<String>) -> Refused {
        Refused::new(StatusCode::NOT_FOUND, title, detail)
    }

    pub fn internal(detail: impl Into<String>) -> Refused {
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal error", detail)
    }

    pub fn conflict(title: &'static str, detail: impl Into<String>, with: (&'static str, Value)) -> Refused {
        Refused { conflict: Some(with), ..Refused::new(StatusCode::CONFLICT, title, detail) }
    }
}

/// The states of a timeline are in a temporary file if they are many.
impl From<std::io::Error> for Refused {
    fn from(error: std::io::Error) -> Refused {
        Refused::internal(format!("the states cannot be read from the temporary file: {error}; open the trace again"))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut body = json!({"title": self.title, "detail": self.detail});
        if let Some((key, with)) = self.conflict {
            body[key] = with;
        }
        respond(self.status, body.to_string().into_bytes())
    }
}

/// Returns a response in JSON. Clients compare the content type literally, so it has no parameters.
pub(crate) fn respond(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Writes an answer that has no status of its own.
pub(crate) fn plain(model: &impl Serialize) -> Answer {
    serde_json::to_vec(model).map_err(|error| Refused::internal(error.to_string()))
}

/// Rounds a value of a chart to six decimals. The parser of the TypeScript client takes numbers of
/// more than 15 characters for whole ones, and refuses those with a fraction.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// How complete a model is. Clients ask again while it is `Running`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The trace is being read. Its reading always ends, so this does, too.
    Running,
    Completed,
    /// The trace could not be read to its end, for this reason.
    Failed(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Modelled<'a, T> {
    model: &'a T,
    status: &'static str,
    status_message: &'a str,
}

/// Writes a model with its status.
pub(crate) fn model(model: &impl Serialize, status: &Status) -> Answer {
    let (status, status_message) = match status {
        Status::Running => ("RUNNING", "The trace is being read"),
        Status::Completed => ("COMPLETED", "Completed"),
        Status::Failed(error) => ("FAILED", error.as_str()),
    };
    plain(&Modelled { model, status, status_message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_values_have_at_most_15_characters() {
        for value in [1.0 / 3.0, 100.0 / 7.0, 1e-7, 2.0 / 3e6, 100.0, 1234.0 + 1.0 / 3.0, 0.0] {
            let text = serde_json::to_string(&rounded(value)).unwrap();
            assert!(text.len() <= 15 && (rounded(value) - value).abs() < 1e-6, "{value} {text}");
        }
    }
}
