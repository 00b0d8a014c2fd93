//! XY charts over something else than time: the share of the critical path that each state has.

use super::entries;
use super::experiment_request::ExperimentRequest;
use super::grid;
use super::parameters::TimeRange;
use super::reply::{self, Answer, Refused};
use crate::reading::Reading;
use serde_json::{json, Value};

/// Number of states that are shown; the rest is one category.
const MAX_STATES: usize = 50;

pub(crate) fn tree(request: &ExperimentRequest) -> Answer {
    let traces = request.experiment.traces.iter().enumerate();
    let entry = |(trace, reading): (usize, &std::sync::Arc<Reading>)| json!({"id": entries::of_head(trace), "parentId": -1, "labels": [reading.name], "hasData": true, "isDefault": true});
    let entries: Vec<Value> = traces.map(entry).collect();
    let headers = json!([{"name": "Trace", "tooltip": ""}]);
    reply::model(&json!({"headers": headers, "entries": entries, "autoExpandLevel": -1}), &request.experiment.status())
}

pub(crate) fn points(request: &ExperimentRequest) -> Answer {
    let range = request.range()?;
    let items = request.parameters.items();
    let mut series: Vec<Value> = Vec::new();
    for (trace, reading) in request.experiment.traces.iter().enumerate() {
        let entry = entries::of_head(trace);
        if items.as_ref().is_some_and(|items| !items.contains(&entry)) {
            continue;
        }
        let (states, shares): (Vec<String>, Vec<f64>) = shares(reading, range)?.into_iter().unzip();
        series.push(json!({
            "seriesId": entry, "seriesName": reading.name,
            "xCategories": states, "yValues": shares,
            "xValuesDescription": {
                "label": "State", "unit": "", "dataType": "STRING", "axisDomain": {"type": "categorical", "categories": states},
            },
            "yValuesDescription": {"label": "Share of the path", "unit": "%", "dataType": "NUMBER"},
            "style": {"values": {"series-type": "bar"}},
        }));
    }
    reply::model(&json!({"title": request.output.name(), "series": series}), &request.experiment.status())
}

/// Returns the states of the path in a range with their shares in percent, the largest first.
fn shares(reading: &Reading, range: TimeRange) -> Result<Vec<(String, f64)>, Refused> {
    let listing = reading.timeline.listing();
    let Some(path) = listing.path else { return Ok(Vec::new()) };
    let sums = reading.timeline.distributions(&[path], grid::relative(reading, range))?;
    let all: u64 = sums.iter().map(|sum| sum.total_ns).sum();
    let percent = |ns: u64| reply::rounded(ns as f64 * 100.0 / all.max(1) as f64);
    let name = |state: u32| listing.states.get(state as usize).map_or_else(String::new, |state| state.name.clone());
    let mut shares: Vec<(String, f64)> = sums.iter().take(MAX_STATES).map(|sum| (name(sum.state), percent(sum.total_ns))).collect();
    if sums.len() > MAX_STATES {
        let rest = sums[MAX_STATES..].iter().map(|sum| sum.total_ns).sum();
        shares.push((format!("{} other states", sums.len() - MAX_STATES), percent(rest)));
    }
    Ok(shares)
}
