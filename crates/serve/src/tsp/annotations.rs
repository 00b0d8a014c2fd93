//! Annotations: where events were lost, and the intervals to which findings and the verdict of the
//! report refer.

use super::entries;
use super::experiment_request::ExperimentRequest;
use super::grid::Bins;
use super::outputs::{Output, Shape};
use super::parameters::TimeRange;
use super::reply::{self, Answer, Refused, Status};
use super::styles::{self, StyleKey};
use crate::reading::Reading;
use longpole_analysis::timeline::{RowId, RowKind, StateClass, StateId};
use serde::Serialize;
use serde_json::{json, Map, Value};

const LOST: &str = "Lost events";
const FINDINGS: &str = "Findings";
const VERDICT: &str = "Verdict";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Annotation {
    time: u64,
    duration: u64,
    /// -1 for the whole chart.
    entry_id: i64,
    #[serde(rename = "type")]
    place: &'static str,
    label: String,
    style: StyleKey,
}

impl Annotation {
    fn new((begin, end): (u64, u64), entry_id: i64, label: String, style: &'static str) -> Annotation {
        Annotation { time: begin, duration: end - begin, entry_id, place: "CHART", label, style: StyleKey(style) }
    }
}

fn is_annotated(output: Output) -> bool {
    matches!(output.shape(), Shape::TimeGraph | Shape::Xy)
}

pub(crate) fn categories(request: &ExperimentRequest) -> Answer {
    let all: &[&str] = if is_annotated(request.output) { &[LOST, FINDINGS, VERDICT] } else { &[] };
    // The categories do not depend on the traces, so they are complete at any time.
    reply::model(&json!({"annotationCategories": all}), &Status::Completed)
}

pub(crate) fn annotations(request: &ExperimentRequest) -> Answer {
    let range = request.range()?;
    let categories = request.parameters.texts("requested_marker_categories");
    let is_requested = |category: &str| categories.as_ref().is_none_or(|all| all.contains(&category));
    let mut model: Map<String, Value> = Map::new();
    let mut add = |category: &str, annotations: Vec<Annotation>| -> Result<(), Refused> {
        let annotations = serde_json::to_value(annotations).map_err(|error| Refused::internal(error.to_string()))?;
        model.insert(category.to_owned(), annotations);
        Ok(())
    };
    if is_annotated(request.output) {
        if is_requested(LOST) {
            add(LOST, lost(request, range)?)?;
        }
        let traces = request.experiment.traces.iter();
        if is_requested(FINDINGS) {
            add(FINDINGS, traces.clone().flat_map(|reading| findings(reading, range)).collect())?;
        }
        if is_requested(VERDICT) {
            add(VERDICT, traces.filter_map(|reading| verdict(reading, range)).collect())?;
        }
    }
    reply::model(&json!({"annotations": model}), &request.experiment.status())
}

/// Returns the stretches in which events were lost, which the rows of CPUs show: on these rows if
/// the output has them, else on the whole chart.
fn lost(request: &ExperimentRequest, range: TimeRange) -> Result<Vec<Annotation>, Refused> {
    let experiment = &request.experiment;
    let mut all = Vec::new();
    for (trace, reading) in experiment.traces.iter().enumerate() {
        let listing = reading.timeline.listing();
        let is_lost = |state: StateId| listing.states.get(state.0 as usize).is_some_and(|state| state.class == StateClass::Lost);
        let Some(bins) = Bins::of(reading, range) else { continue };
        let cpus: Vec<RowId> = listing.rows.iter().filter(|row| row.kind == RowKind::Cpu).map(|row| row.id).collect();
        let mut of_chart: Vec<(u64, u64)> = Vec::new();
        let picture = reading.timeline.picture(&cpus, bins.grid)?;
        for (cpu, (items, _)) in cpus.iter().zip(&picture.rows) {
            // The worst state of a bin is a loss even if the loss takes little of its time.
            let stretches = joined(items.items.iter().filter(|item| is_lost(item.worst)).map(|item| bins.times(item)));
            if request.output == Output::Cpus {
                let entry = entries::of_row(trace, *cpu) as i64;
                all.extend(stretches.into_iter().map(|stretch| Annotation::new(stretch, entry, "lost events".to_owned(), styles::LOSS)));
            } else {
                of_chart.extend(stretches);
            }
        }
        of_chart.sort_unstable();
        all.extend(joined(of_chart).into_iter().map(|stretch| Annotation::new(stretch, -1, "lost events".to_owned(), styles::LOSS)));
    }
    Ok(all)
}

/// Joins stretches in the order of their begins that overlap or touch.
fn joined(stretches: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in stretches {
        match all.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => all.push((begin, end)),
        }
    }
    all
}

fn findings(reading: &Reading, range: TimeRange) -> Vec<Annotation> {
    let report = reading.report();
    let all = report.as_ref().and_then(|report| report["findings"].as_array());
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let finding = |finding: &Value| {
        let interval = evidence(finding, range)?;
        let label = format!("{}: {}; {}", text(finding, "subject"), text(finding, "kind"), text(finding, "advice"));
        Some(Annotation::new(interval, -1, label, styles::FINDING))
    };
    all.into_iter().flatten().filter_map(finding).collect()
}

fn verdict(reading: &Reading, range: TimeRange) -> Option<Annotation> {
    let report = reading.report()?;
    let verdict = &report["verdict"];
    let interval = evidence(verdict, range)?;
    Some(Annotation::new(interval, -1, verdict["text"].as_str()?.to_owned(), styles::FINDING))
}

/// Returns the interval to look at, if there is one and it overlaps the range.
fn evidence(of: &Value, range: TimeRange) -> Option<(u64, u64)> {
    let interval = (of["evidence"]["start_ns"].as_u64()?, of["evidence"]["end_ns"].as_u64()?);
    (interval.0 < interval.1 && interval.0 <= range.end && interval.1 >= range.begin).then_some(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_touch_are_one() {
        assert_eq!(joined([(1, 2), (2, 5), (3, 4), (6, 7)]), [(1, 5), (6, 7)]);
        assert_eq!(joined([]), []);
    }

    #[test]
    fn only_evidence_with_a_length_in_the_range_is_an_interval() {
        let of = |start: i64, end: i64| {
            let range = TimeRange { begin: 10, end: 20, samples: 1 };
            evidence(&json!({"evidence": {"start_ns": start, "end_ns": end}}), range)
        };
        assert_eq!((of(5, 11), of(12, 30), of(15, 15), of(1, 9), of(21, 22)), (Some((5, 11)), Some((12, 30)), None, None, None));
        assert_eq!(evidence(&json!({}), TimeRange { begin: 0, end: 1, samples: 1 }), None);
    }
}
