//! The Trace Server Protocol, version 0.6.0, for the viewers and scripts of others.
//!
//! Clients open traces, put them into experiments, and ask for the outputs of these: rows with
//! their states, charts, tables. docs/reference/trace-server.md describes what they get; the
//! protocol is at <https://github.com/eclipse-cdt-cloud/trace-server-protocol>.
//!
//! Each request is answered from the timelines that the traces have filled. Files of this room: one
//! for each kind of answer; [`parameters`] for what clients send, and [`reply`] for the form of
//! answers. This room opens no path itself: [`crate::roots`] decides which paths may be opened.

mod annotations;
mod bookmarks;
mod entries;
mod experiment_request;
mod experiments;
mod filter;
mod generic_xy;
mod grid;
mod outputs;
mod parameters;
mod reply;
mod server_info;
mod statistics;
mod styles;
mod table;
mod time_graph;
mod tooltip;
mod traces;
mod value_xy;
mod xy;

use crate::shared::Shared;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::Router;
use experiment_request::ExperimentRequest;
use experiments::Experiments;
use outputs::{Output, Shape};
use reply::{Answer, Refused, Status};
use serde_json::json;
use std::sync::Arc;

/// Place of the protocol below the server's address.
pub(crate) const PLACE: &str = "/tsp/api";

/// Maximum size in bytes of a request. The longest ones list the numbers of all rows.
const MAX_REQUEST: usize = 2 << 20;

/// What the requests of the protocol share.
pub(crate) struct Protocol {
    shared: Arc<Shared>,
    experiments: Experiments,
}

/// Returns the requests of the protocol. Each trace that is open already gets an experiment.
pub(crate) fn router<S>(shared: Arc<Shared>) -> Router<S> {
    let experiments = Experiments::of(&shared.traces());
    // One route, because clients differ in whether they end a path with a slash.
    Router::new()
        .route(&format!("{PLACE}/{{*path}}"), any(answer))
        .layer(DefaultBodyLimit::max(MAX_REQUEST))
        .with_state(Arc::new(Protocol { shared, experiments }))
}

async fn answer(
    State(protocol): State<Arc<Protocol>>,
    Path(path): Path<String>,
    method: Method,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Response {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let answer = match (&method, parts.as_slice()) {
        (&Method::POST, ["traces"]) => traces::open(&protocol, &body).await,
        // A server that is busy is still healthy, so this does not wait for its turn.
        (&Method::GET, ["health"]) => server_info::health(),
        _ => {
            let is_long = parts.contains(&Output::Events.id());
            let (computing, asked) = (protocol.clone(), path.clone());
            let answer = move || computed(&computing, &method, &asked, &query.unwrap_or_default(), &body);
            // A search of events reads the trace, and must not take a turn from the pictures.
            let computed = if is_long { protocol.shared.run_long(answer).await } else { protocol.shared.run(answer).await };
            computed.unwrap_or_else(|| Err(Refused::internal("the answer was not computed")))
        }
    };
    match answer {
        Ok(body) => reply::respond(StatusCode::OK, body),
        Err(refused) => refused.into_response(),
    }
}

/// Answers what takes time or memory.
fn computed(protocol: &Protocol, method: &Method, path: &str, query: &str, body: &[u8]) -> Answer {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match (method.as_str(), parts.as_slice()) {
        ("GET", ["identifier"]) => server_info::identifier(),
        ("GET", ["traces"]) => traces::all(&protocol.shared),
        ("GET", ["traces", uuid]) => traces::one(&protocol.shared, uuid),
        ("DELETE", ["traces", uuid]) => traces::close(protocol, uuid, query),
        ("GET", ["experiments"]) => protocol.experiments.all(),
        ("POST", ["experiments"]) => protocol.experiments.create(&protocol.shared, body),
        ("GET", ["experiments", uuid]) => protocol.experiments.one(uuid),
        ("DELETE", ["experiments", uuid]) => protocol.experiments.delete(uuid),
        (_, ["experiments", uuid, "bookmarks", rest @ ..]) => bookmark(protocol, method, uuid, rest, body),
        (_, ["experiments", uuid, "outputs", rest @ ..]) => output(protocol, method, uuid, rest, query, body),
        (_, ["config", "types", rest @ ..]) => configuration(method, rest),
        _ => Err(unknown(method, path)),
    }
}

fn unknown(method: &Method, path: &str) -> Refused {
    Refused::not_found("No such request", format!("version 0.6.0 of the protocol has no {method} {path}"))
}

fn bookmark(protocol: &Protocol, method: &Method, uuid: &str, rest: &[&str], body: &[u8]) -> Answer {
    let experiment = protocol.experiments.find(uuid)?;
    let bookmarks = &experiment.bookmarks;
    match (method.as_str(), rest) {
        ("GET", []) => bookmarks.all(),
        ("POST", []) => bookmarks.create(body),
        ("GET", [bookmark]) => bookmarks.one(bookmark),
        ("PUT", [bookmark]) => bookmarks.update(bookmark, body),
        ("DELETE", [bookmark]) => bookmarks.delete(bookmark),
        _ => Err(unknown(method, "bookmarks")),
    }
}

/// Answers a request below `experiments/UUID/outputs`.
fn output(protocol: &Protocol, method: &Method, experiment: &str, rest: &[&str], query: &str, body: &[u8]) -> Answer {
    let read = |output: &str, shape| ExperimentRequest::read(protocol, experiment, output, shape, body);
    match (method.as_str(), rest) {
        ("GET", []) => protocol.experiments.find(experiment).and_then(|_| outputs::all()),
        ("GET", ["markerSets"]) => protocol.experiments.find(experiment).and_then(|_| reply::model(&json!([]), &Status::Completed)),
        ("GET", [output]) => protocol.experiments.find(experiment).and_then(|_| outputs::one(output)),
        ("POST", ["timeGraph", output, "tree"]) => time_graph::tree(&read(output, Some(Shape::TimeGraph))?),
        ("POST", ["timeGraph", output, "states"]) => time_graph::states(&read(output, Some(Shape::TimeGraph))?),
        ("POST", ["timeGraph", output, "arrows"]) => time_graph::arrows(&read(output, Some(Shape::TimeGraph))?),
        ("POST", ["timeGraph", output, "tooltip"]) => tooltip::tooltip(&read(output, Some(Shape::TimeGraph))?),
        ("POST", ["XY", output, "tree"]) => xy::tree(&read(output, Some(Shape::Xy))?),
        ("POST", ["XY", output, "xy"]) => xy::points(&read(output, Some(Shape::Xy))?),
        ("GET", ["XY", output, "tooltip"]) => xy::tooltip(&read(output, Some(Shape::Xy))?, query),
        ("POST", ["genericXY", output, "tree"]) => generic_xy::tree(&read(output, Some(Shape::GenericXy))?),
        ("POST", ["genericXY", output, "xy"]) => generic_xy::points(&read(output, Some(Shape::GenericXy))?),
        ("POST", ["data", output, "tree"]) => statistics::tree(&read(output, Some(Shape::DataTree))?),
        ("POST", ["table", output, "columns"]) => table::columns(&read(output, Some(Shape::Table))?),
        ("POST", ["table", output, "lines"]) => table::lines(&read(output, Some(Shape::Table))?, &protocol.shared.analyst),
        ("GET", [output, "annotations"]) => annotations::categories(&read(output, None)?),
        ("POST", [output, "annotations"]) => annotations::annotations(&read(output, None)?),
        ("POST", [output, "style"]) => read(output, None).and_then(|_| styles::all(output)),
        ("GET", [output, "configTypes"]) => read(output, None).and_then(|_| reply::plain(&json!([]))),
        ("GET", [output, "configTypes", kind]) => read(output, None).and_then(|_| Err(no_configuration(kind))),
        // Outputs that a client configures itself.
        ("POST", [output]) => read(output, None).and_then(|_| Err(Refused::bad(format!("the output {output:?} cannot be configured")))),
        ("DELETE", [output, derived]) => {
            let detail = format!("no output was derived from {output:?} under the name {derived:?}");
            read(output, None).and_then(|_| Err(Refused::not_found("No such output", detail)))
        }
        _ => Err(unknown(method, &format!("outputs/{}", rest.join("/")))),
    }
}

/// Answers a request below `config/types`: there is nothing to configure.
fn configuration(method: &Method, rest: &[&str]) -> Answer {
    match (method.as_str(), rest) {
        ("GET", []) => reply::plain(&json!([])),
        (_, [kind, ..]) => Err(no_configuration(kind)),
        _ => Err(unknown(method, "config/types")),
    }
}

fn no_configuration(kind: &str) -> Refused {
    Refused::not_found("No such configuration type", format!("there is no type {kind:?} of configuration; this server has none"))
}
