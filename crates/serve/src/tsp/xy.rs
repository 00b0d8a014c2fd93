//! XY charts over time: how busy each CPU was, and how many rows ran at once. Values of queues and
//! counters are in [`value_xy`].

use super::entries::{self, Shown};
use super::experiment_request::ExperimentRequest;
use super::grid::{self, Bins};
use super::outputs::Output;
use super::parameters::TimeRange;
use super::reply::{self, Answer, Refused};
use super::value_xy;
use longpole_analysis::timeline::{RowId, RowItems};
use serde::Serialize;
use serde_json::{json, Value};
use std::collections::{HashMap, HashSet};

/// Number of rows that are read at once.
const ROWS_AT_ONCE: usize = 256;

/// A series of a trace: the rows whose busy time it adds up, as a share of `divisor` rows.
struct Series {
    entry: u64,
    parent: i64,
    name: String,
    detail: String,
    rows: Vec<RowId>,
    divisor: f64,
    is_default: bool,
}

/// Returns the series that the output has of one trace: the sum, and one for each CPU, process or
/// other group.
fn series_of(request: &ExperimentRequest, shown: &Shown) -> Vec<Series> {
    let is_cpu = request.output == Output::CpuUsage;
    let leaves: Vec<_> = shown.rows().filter(|row| entries::has_states(row.kind)).collect();
    if leaves.is_empty() {
        return Vec::new();
    }
    let head = entries::of_head(shown.trace);
    let trace = &request.experiment.traces[shown.trace].name;
    let detail = if request.experiment.traces.len() > 1 { trace.clone() } else { String::new() };
    let divisor = |rows: usize| if is_cpu { rows as f64 / 100.0 } else { 1.0 };
    let name = if is_cpu { "all CPUs" } else { "all" };
    let all = Series {
        entry: head,
        parent: -1,
        name: name.to_owned(),
        detail,
        rows: leaves.iter().map(|row| row.id).collect(),
        divisor: divisor(leaves.len()),
        is_default: true,
    };
    let below = |entry: RowId, name: &str, detail: &str, rows: Vec<RowId>| Series {
        entry: entries::of_row(shown.trace, entry),
        parent: head as i64,
        name: name.to_owned(),
        detail: detail.to_owned(),
        divisor: divisor(rows.len()),
        rows,
        is_default: is_cpu,
    };
    let parts: Vec<Series> = if is_cpu {
        leaves.iter().map(|row| below(row.id, &row.name, &row.detail, vec![row.id])).collect()
    } else {
        let mut by_group: HashMap<RowId, Vec<RowId>> = HashMap::new();
        for leaf in &leaves {
            leaf.parent.into_iter().for_each(|group| by_group.entry(group).or_default().push(leaf.id));
        }
        shown.rows().filter_map(|group| Some(below(group.id, &group.name, &group.detail, by_group.remove(&group.id)?))).collect()
    };
    std::iter::once(all).chain(parts).collect()
}

pub(crate) fn tree(request: &ExperimentRequest) -> Answer {
    if value_xy::shows(request.output) {
        return value_xy::tree(request);
    }
    let shown = Shown::of(&request.experiment, request.output);
    let entry = |series: Series| {
        json!({
            "id": series.entry, "parentId": series.parent, "labels": [series.name, series.detail],
            "hasData": true, "isDefault": series.is_default,
        })
    };
    let entries: Vec<Value> = shown.iter().flat_map(|shown| series_of(request, shown)).map(entry).collect();
    let headers = json!([{"name": "Name", "tooltip": ""}, {"name": "Details", "tooltip": ""}]);
    reply::model(&json!({"headers": headers, "entries": entries, "autoExpandLevel": -1}), &request.experiment.status())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Points {
    series_id: u64,
    series_name: String,
    x_values: Vec<u64>,
    y_values: Vec<f64>,
    x_values_description: Axis,
    y_values_description: Axis,
    style: Value,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct Axis {
    label: &'static str,
    unit: &'static str,
    data_type: &'static str,
}

pub(crate) const TIME: (&str, &str, &str) = ("Time", "ns", "TIMESTAMP");

fn axis((label, unit, data_type): (&'static str, &'static str, &'static str)) -> Axis {
    Axis { label, unit, data_type }
}

/// The points of the requested series. Each is the mean from its time to the next one's.
pub(crate) fn points(request: &ExperimentRequest) -> Answer {
    if value_xy::shows(request.output) {
        return value_xy::points(request);
    }
    let experiment = &request.experiment;
    let range = request.range()?;
    let items: Option<HashSet<u64>> = request.parameters.items().map(|items| items.into_iter().collect());
    let y = if request.output == Output::CpuUsage { ("Busy", "%", "NUMBER") } else { ("Running", "", "NUMBER") };
    let mut all: Vec<Points> = Vec::new();
    for shown in Shown::of(experiment, request.output) {
        let reading = &experiment.traces[shown.trace];
        let Some(bins) = Bins::of(reading, range) else { continue };
        let is_requested = |series: &Series| match &items {
            Some(items) => items.contains(&series.entry),
            None => series.is_default,
        };
        for series in series_of(request, &shown).into_iter().filter(is_requested) {
            let mut busy = BusyTime::new(bins);
            for rows in series.rows.chunks(ROWS_AT_ONCE) {
                let picture = reading.timeline.picture(rows, bins.grid)?;
                picture.rows.iter().for_each(|(items, _)| busy.add(items));
            }
            let (x_values, y_values) = busy.means(series.divisor).into_iter().unzip();
            all.push(Points {
                series_id: series.entry,
                series_name: series.name,
                x_values,
                y_values,
                x_values_description: axis(TIME),
                y_values_description: axis(y),
                style: json!({"values": {"series-type": "line", "width": 1}}),
            });
        }
    }
    reply::model(&json!({"title": request.output.name(), "series": all}), &experiment.status())
}

/// The busy time of rows in each bin.
struct BusyTime {
    bins: Bins,
    ns: Vec<f64>,
}

impl BusyTime {
    fn new(bins: Bins) -> BusyTime {
        BusyTime { bins, ns: vec![0.0; bins.grid.count as usize] }
    }

    /// Adds the items of a row; the time of an item that spans several bins is spread over them.
    fn add(&mut self, items: &RowItems) {
        let grid = self.bins.grid;
        for item in items.items.iter().filter(|item| item.busy_ns > 0 && item.begin < item.end) {
            let (from, to) = (item.begin.max(grid.begin()), item.end.min(grid.end()));
            if from >= to {
                continue;
            }
            let share = item.busy_ns as f64 / (item.end - item.begin) as f64;
            let bin = |t: u64| (t >> grid.level) - grid.first;
            for at in bin(from)..=bin(to - 1) {
                let begin = (grid.first + at) << grid.level;
                let overlap = to.min(begin + (1 << grid.level)) - from.max(begin);
                self.ns[at as usize] += overlap as f64 * share;
            }
        }
    }

    /// Returns time and mean of each bin: busy time by the bin's length, by the divisor. The part
    /// of a bin after the end of the trace does not count.
    fn means(&self, divisor: f64) -> Vec<(u64, f64)> {
        let Bins { grid, origin, length } = self.bins;
        let mean = |(at, ns): (usize, &f64)| {
            let begin = (grid.first + at as u64) << grid.level;
            let counted = (begin + (1 << grid.level)).min(length).saturating_sub(begin).max(1);
            (origin + begin, reply::rounded(ns / counted as f64 / divisor))
        };
        self.ns.iter().enumerate().map(mean).collect()
    }
}

/// What a CPU, or the rows of a group, did at a moment.
pub(crate) fn tooltip(request: &ExperimentRequest, query: &str) -> Answer {
    let parameter = |name: &str| query.split('&').find_map(|one| one.strip_prefix(name)?.strip_prefix('='));
    // As a number with a fraction, a time of today is exact only to 256 ns.
    let of_fraction = |t: &str| t.parse::<f64>().ok().filter(|t| t.is_finite()).map(|t| t as u64);
    let t = parameter("xValue").and_then(|t| t.parse::<u64>().ok().or_else(|| of_fraction(t)));
    let t = t.ok_or_else(|| Refused::bad("name a time: `xValue`"))?;
    let mut model = json!({"Time": format!("{t} ns")});
    let entry = parameter("seriesId").and_then(|id| id.parse::<u64>().ok());
    if let Some(entry) = entry.filter(|_| value_xy::shows(request.output)) {
        for (name, value) in value_xy::value_at(request, entry, t)? {
            model[name] = value;
        }
        return reply::model(&model, &request.experiment.status());
    }
    if let Some((entry, reading)) = entry.and_then(|entry| Some((entry, request.experiment.traces.get(entries::row_of(entry).0)?))) {
        let shown = Shown::of(&request.experiment, request.output);
        let series = shown.iter().flat_map(|shown| series_of(request, shown)).find(|series| series.entry == entry);
        let series = series.ok_or_else(|| Refused::not_found("No such series", format!("there is no series {entry}")))?;
        let moment = grid::relative(reading, TimeRange { begin: t, end: t.saturating_add(1), samples: 1 });
        let states = reading.timeline.listing().states;
        let mut running: Vec<String> = Vec::new();
        for &row in &series.rows {
            let (now, _) = reading.timeline.states(row, moment, 1)?;
            let state = now.first().and_then(|state| states.get(state.state.0 as usize));
            running.extend(state.filter(|state| state.class.is_busy()).map(|state| state.name.clone()));
        }
        model[series.name.as_str()] = format!("{} of {} run", running.len(), series.rows.len()).into();
        if let [one] = running.as_slice() {
            model["State"] = one.as_str().into();
        }
    }
    reply::model(&model, &request.experiment.status())
}

#[cfg(test)]
mod tests {
    use super::*;
    use longpole_analysis::timeline::{Grid, Item, StateId};

    #[test]
    fn busy_time_is_spread_over_the_bins_and_the_end_of_the_trace_is_respected() {
        let bins = Bins { grid: Grid { level: 2, first: 1, count: 3 }, origin: 1000, length: 14 };
        let item = |begin, end, busy_ns| Item { begin, end, state: StateId(0), worst: StateId(0), count: 1, busy_ns };
        let mut busy = BusyTime::new(bins);
        // Bins: 4 to 8, 8 to 12, 12 to 14.
        busy.add(&RowItems { is_exact: true, items: vec![item(0, 6, 6), item(8, 12, 2), item(13, 14, 1)], ..RowItems::default() });
        assert_eq!(busy.means(1.0), [(1004, 0.5), (1008, 0.5), (1012, 0.5)]);
        assert_eq!(busy.means(0.01)[0], (1004, 50.0));
    }
}
