//! XY charts of rows with values over time: fill levels of queues, and counters.

use super::entries::{self, Shown};
use super::experiment_request::ExperimentRequest;
use super::grid::{self, Bins};
use super::outputs::Output;
use super::parameters::TimeRange;
use super::reply::{self, Answer};
use super::xy;
use crate::reading::Reading;
use longpole_analysis::timeline::{Row, RowId, ValueItems};
use serde_json::{json, Map, Value};
use std::collections::HashSet;
use std::io;

/// Returns true if the output shows rows with values.
pub(crate) fn shows(output: Output) -> bool {
    matches!(output, Output::Queues | Output::Counters)
}

/// The rows, each with its own series, and their groups.
pub(crate) fn tree(request: &ExperimentRequest) -> Answer {
    let shown = Shown::of(&request.experiment, request.output);
    let entry = |trace: usize, row: &Row| {
        json!({
            "id": entries::of_row(trace, row.id), "parentId": entries::parent_of(&request.experiment, trace, row),
            "labels": [row.name, row.detail], "hasData": row.values.is_some(), "isDefault": row.values.is_some(),
        })
    };
    let entries: Vec<Value> = shown.iter().flat_map(|shown| shown.rows().map(|row| entry(shown.trace, row))).collect();
    let headers = json!([{"name": "Name", "tooltip": ""}, {"name": "Details", "tooltip": ""}]);
    reply::model(&json!({"headers": headers, "entries": entries, "autoExpandLevel": -1}), &request.experiment.status())
}

/// The points of the requested rows. Each is the mean from its time to the next one's.
pub(crate) fn points(request: &ExperimentRequest) -> Answer {
    let experiment = &request.experiment;
    let range = request.range()?;
    let items: Option<HashSet<u64>> = request.parameters.items().map(|items| items.into_iter().collect());
    let mut all: Vec<Value> = Vec::new();
    for shown in Shown::of(experiment, request.output) {
        let reading = &experiment.traces[shown.trace];
        let Some(bins) = Bins::of(reading, range) else { continue };
        let is_requested = |row: &&Row| items.as_ref().is_none_or(|items| items.contains(&entries::of_row(shown.trace, row.id)));
        for row in shown.rows().filter(|row| row.values.is_some()).filter(is_requested) {
            let (x, y) = means(reading, row.id, bins)?;
            let unit = row.values.as_ref().and_then(|values| values.unit.as_deref()).unwrap_or("");
            let (label, time_unit, data_type) = xy::TIME;
            all.push(json!({
                "seriesId": entries::of_row(shown.trace, row.id), "seriesName": row.name, "xValues": x, "yValues": y,
                "xValuesDescription": {"label": label, "unit": time_unit, "dataType": data_type},
                "yValuesDescription": {"label": "Value", "unit": unit, "dataType": "NUMBER"},
                "style": {"values": {"series-type": "line", "width": 1}},
            }));
        }
    }
    reply::model(&json!({"title": request.output.name(), "series": all}), &experiment.status())
}

/// Returns the time of each bin in which the row has a value, and the mean in it.
fn means(reading: &Reading, row: RowId, bins: Bins) -> io::Result<(Vec<u64>, Vec<f64>)> {
    let picture = reading.timeline.picture(&[row], bins.grid)?;
    let empty = ValueItems::default();
    let values = picture.values.get(&row).unwrap_or(&empty);
    let mut means = Means { bins, at: None, sum: 0.0, ns: 0, points: (Vec::new(), Vec::new()) };
    for item in &values.items {
        means.add((item.begin, item.end), item.mean);
    }
    means.close();
    Ok(means.points)
}

/// Adds up items bin by bin, in the order of time.
struct Means {
    bins: Bins,
    at: Option<u64>,
    sum: f64,
    ns: u64,
    points: (Vec<u64>, Vec<f64>),
}

impl Means {
    fn add(&mut self, (begin, end): (u64, u64), value: f64) {
        let grid = self.bins.grid;
        let (mut from, to) = (begin.max(grid.begin()), end.min(grid.end()));
        while from < to {
            let bin = from >> grid.level;
            let edge = ((bin + 1) << grid.level).min(to);
            if self.at != Some(bin) {
                self.close();
                self.at = Some(bin);
            }
            self.sum += value * (edge - from) as f64;
            self.ns += edge - from;
            from = edge;
        }
    }

    fn close(&mut self) {
        if let Some(bin) = self.at.take() {
            self.points.0.push(self.bins.origin + (bin << self.bins.grid.level));
            self.points.1.push(reply::rounded(self.sum / self.ns.max(1) as f64));
            (self.sum, self.ns) = (0.0, 0);
        }
    }
}

/// Returns the value of a row at a moment, for a tooltip.
pub(crate) fn value_at(request: &ExperimentRequest, entry: u64, t: u64) -> io::Result<Map<String, Value>> {
    let mut model = Map::new();
    let (trace, row) = entries::row_of(entry);
    let (Some(reading), Some(row)) = (request.experiment.traces.get(trace), row) else { return Ok(model) };
    let moment = grid::relative(reading, TimeRange { begin: t, end: t.saturating_add(1), samples: 1 });
    let (steps, _) = reading.timeline.steps(row, moment, 1)?;
    if let Some(step) = steps.first() {
        let name = reading.timeline.listing().rows.into_iter().find(|known| known.id == row).map_or_else(String::new, |row| row.name);
        model.insert(name, json!(step.value.to_string()));
    }
    Ok(model)
}
