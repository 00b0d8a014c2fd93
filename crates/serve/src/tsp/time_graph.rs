//! Time graphs: rows with their states, and the critical path as arrows between them.

use super::entries::{self, Shown};
use super::experiment_request::ExperimentRequest;
use super::filter::Filter;
use super::grid::{self, Bins};
use super::outputs::Output;
use super::reply::{self, Answer};
use super::styles::{self, StyleKey};
use crate::path_walk::PathWalk;
use longpole_analysis::timeline::{Item, PathSegment, Row, RowId, RowKind, StateId, StateName};
use serde::Serialize;
use serde_json::json;
use std::collections::{HashMap, HashSet};

/// Maximum number of states in an answer, about 120 bytes each. The more rows are requested, the
/// coarser their bins are.
const MAX_STATES: u64 = 1_000_000;

/// Number of rows of one picture. While a picture is made, the reader of the trace waits.
const ROWS_AT_ONCE: usize = 256;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    id: u64,
    parent_id: i64,
    labels: [&'a str; 2],
    has_data: bool,
    start: u64,
    end: u64,
}

/// The rows of the output as a tree.
pub(crate) fn tree(request: &ExperimentRequest) -> Answer {
    let experiment = &request.experiment;
    // All entries begin and end with the experiment: clients take the first entry's begin for that
    // of the time axis.
    let (start, end) = experiment.range();
    let all = Shown::of(experiment, request.output);
    let mut entries = Vec::new();
    for shown in &all {
        if all.len() > 1 {
            let name = experiment.traces[shown.trace].name.as_str();
            entries.push(Entry { id: entries::of_head(shown.trace), parent_id: -1, labels: [name, ""], has_data: false, start, end });
        }
        entries.extend(shown.rows().map(|row| Entry {
            id: entries::of_row(shown.trace, row.id),
            parent_id: entries::parent_of(experiment, shown.trace, row),
            labels: [&row.name, &row.detail],
            has_data: entries::has_states(row.kind),
            start,
            end,
        }));
    }
    let headers =
        json!([{"name": "Name", "tooltip": ""}, {"name": "Details", "tooltip": "ids of threads and processes, and what they run"}]);
    reply::model(&json!({"headers": headers, "entries": entries, "autoExpandLevel": -1}), &experiment.status())
}

#[derive(Serialize)]
struct State<'a> {
    start: u64,
    end: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    tags: u32,
    style: StyleKey,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StateRow<'a> {
    entry_id: u64,
    states: Vec<State<'a>>,
}

#[derive(Serialize)]
struct Rows<'a> {
    rows: Vec<StateRow<'a>>,
}

/// The states of the requested rows: at most one per sample and row.
pub(crate) fn states(request: &ExperimentRequest) -> Answer {
    let experiment = &request.experiment;
    let mut range = request.range()?;
    let items: Option<HashSet<u64>> = request.parameters.items().map(|items| items.into_iter().collect());
    let filter = Filter::read(request.parameters.object("filter_query_parameters"));
    let all = Shown::of(experiment, request.output);
    let rows: usize = all.iter().map(|shown| shown.requested(items.as_ref()).len()).sum();
    range.samples = range.samples.min(MAX_STATES / rows.max(1) as u64).max(1);
    let mut answer = Rows { rows: Vec::with_capacity(rows) };
    for shown in &all {
        let graph = Graph { shown, filter: &filter, bins: Bins::of(&experiment.traces[shown.trace], range) };
        let requested = shown.requested(items.as_ref());
        let timeline = &experiment.traces[shown.trace].timeline;
        let on_path = match request.output {
            Output::CriticalPath => {
                graph.on_path(timeline.path(grid::relative(&experiment.traces[shown.trace], range), range.samples as usize)?)
            }
            _ => None,
        };
        for rows in requested.chunks(ROWS_AT_ONCE) {
            let ids: Vec<RowId> = rows.iter().map(|row| row.id).collect();
            let picture = graph.bins.map(|bins| timeline.picture(&ids, bins.grid)).transpose()?;
            for (at, row) in rows.iter().enumerate() {
                let states = match (&on_path, picture.as_ref().map(|picture| &picture.rows[at])) {
                    (Some(on_path), _) => on_path.get(&row.id).map(|items| graph.states(row, items, true)),
                    (None, Some((_, times))) if request.output == Output::CriticalPath && row.kind != RowKind::Path => {
                        Some(graph.states(row, &times.items, times.is_exact))
                    }
                    (None, Some((states, _))) => Some(graph.states(row, &states.items, states.is_exact)),
                    (None, None) => None,
                };
                answer.rows.push(StateRow { entry_id: entries::of_row(shown.trace, row.id), states: states.unwrap_or_default() });
            }
        }
    }
    reply::model(&answer, &experiment.status())
}

/// Makes states for the client from the items of a picture.
struct Graph<'a> {
    shown: &'a Shown,
    filter: &'a Filter,
    bins: Option<Bins>,
}

impl<'a> Graph<'a> {
    fn name(&self, state: StateId) -> Option<&'a StateName> {
        self.shown.listing.states.get(state.0 as usize)
    }

    fn states(&self, row: &Row, items: &[Item], is_exact: bool) -> Vec<State<'a>> {
        let Some(bins) = self.bins else { return Vec::new() };
        let state = |item: &Item| {
            let (start, end) = bins.times(item);
            let StateName { name, class } = self.name(item.state)?;
            let tags = self.filter.tags(&[name, &row.name], end - start)?;
            // A bin with several states is named after none of them.
            let label = (is_exact || item.count <= 1).then_some(name.as_str());
            (start < end).then_some(State { start, end, label, tags, style: StyleKey(styles::key(*class)) })
        };
        items.iter().filter_map(state).collect()
    }

    /// Returns the segments of the path, by the row that they are on and in the lane of the path;
    /// `None` if there are more of them than samples.
    fn on_path(&self, (segments, more): (Vec<PathSegment>, bool)) -> Option<HashMap<RowId, Vec<Item>>> {
        if more {
            return None;
        }
        let mut all: HashMap<RowId, Vec<Item>> = HashMap::new();
        for PathSegment { interval, row } in segments {
            let item =
                Item { begin: interval.begin, end: interval.end, state: interval.state, worst: interval.state, count: 1, busy_ns: 0 };
            for row in self.shown.listing.path.into_iter().chain(row) {
                all.entry(row).or_default().push(item);
            }
        }
        Some(all)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Arrow {
    source_id: u64,
    target_id: u64,
    start: u64,
    end: u64,
    style: StyleKey,
}

/// The steps of the critical path from one row of the output to another, at most one per sample.
pub(crate) fn arrows(request: &ExperimentRequest) -> Answer {
    let experiment = &request.experiment;
    let range = request.range()?;
    let mut arrows: Vec<Arrow> = Vec::new();
    let has_path = matches!(request.output, Output::CriticalPath | Output::Threads | Output::Machines);
    for shown in Shown::of(experiment, request.output).iter().filter(|_| has_path) {
        let reading = &experiment.traces[shown.trace];
        let Some(bins) = Bins::of(reading, range) else { continue };
        let rows: HashSet<RowId> = shown.rows().map(|row| row.id).collect();
        let mut steps = Steps { rows: &rows, from: None, last_bin: None };
        for segment in PathWalk::new(&reading.timeline, grid::relative(reading, range)) {
            let Some((from, to)) = steps.next(segment?, bins.grid.level) else { continue };
            arrows.push(Arrow {
                source_id: entries::of_row(shown.trace, from.0),
                target_id: entries::of_row(shown.trace, to.0),
                start: bins.origin + from.1,
                end: bins.origin + to.1,
                style: StyleKey(styles::ARROW),
            });
        }
    }
    reply::model(&arrows, &experiment.status())
}

/// Finds where the path passes from one row to another.
struct Steps<'a> {
    rows: &'a HashSet<RowId>,
    /// The last row that was on the path, and the time until which it was.
    from: Option<(RowId, u64)>,
    /// The bin of the last arrow.
    last_bin: Option<u64>,
}

impl Steps<'_> {
    /// Receives the next segment. Returns the rows and times of a step, unless another one was
    /// returned for the same bin. Links take the time between the two rows.
    fn next(&mut self, segment: PathSegment, level: u32) -> Option<((RowId, u64), (RowId, u64))> {
        let to = (segment.row?, segment.interval.begin);
        let from = self.from.replace((to.0, segment.interval.end));
        let from = from.filter(|from| from.0 != to.0 && self.rows.contains(&from.0) && self.rows.contains(&to.0))?;
        let bin = Some(to.1 >> level);
        (bin != std::mem::replace(&mut self.last_bin, bin)).then_some((from, to))
    }
}
