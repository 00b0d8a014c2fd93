//! Predicts the effects of changes on the part of a trace that a report shows, for `what-if` and
//! `view`.

use longpole_analysis::pipeline::{Error, Interactions, PathEnd};
use longpole_analysis::what_if::{Answer, Options, Prediction, Scenario};

/// Predicts these scenarios. Without any, tries what probably helps, and returns in the second
/// place the fixes in their order.
pub fn at_path_end(
    interactions: &Interactions,
    end: &PathEnd,
    scenarios: Vec<Scenario>,
    options: impl Fn(Vec<Scenario>) -> Options,
) -> Result<(Answer, Vec<Prediction>), Error> {
    let PathEnd { spool, parts, stations, .. } = end;
    let mut at_stations = Vec::new();
    let (mut answer, mut order) = match scenarios.is_empty() {
        false => {
            let has_more_places = |scenario: &Scenario| scenario.changes.iter().any(|change| change.at_once().is_some());
            let unchanged = match scenarios.iter().any(has_more_places) {
                true => Some(interactions.what_if_from_spool(spool, options(Vec::new()))?),
                false => None,
            };
            let mut replayed = Vec::new();
            for (at, scenario) in scenarios.into_iter().enumerate() {
                match unchanged.as_ref().and_then(|unchanged| stations.predict(unchanged, &scenario)) {
                    Some(prediction) => at_stations.push((at, prediction)),
                    None => replayed.push(scenario),
                }
            }
            let answer = match unchanged.filter(|_| replayed.is_empty()) {
                Some(unchanged) => unchanged,
                None => interactions.what_if_from_spool(spool, options(replayed))?,
            };
            (answer, Vec::new())
        }
        true => {
            let unchanged = interactions.what_if_from_spool(spool, options(Vec::new()))?;
            interactions.propose_from_spool(unchanged, spool, options)?
        }
    };
    if let Some(parts) = parts {
        parts.widen(&mut answer.predictions);
        parts.widen(&mut order);
    }
    for (at, prediction) in at_stations {
        answer.predictions.insert(at, prediction);
    }
    Ok((answer, order))
}
