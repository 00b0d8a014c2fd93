//! Changes of functions for `what-if`: `parse x0.5` for a function `parse` of sampled stacks.
//!
//! A name that is no machine or program of the trace may be the name of a function. The stacks on
//! the path say which part of each state it has, and the change becomes one of those states.

use super::{predictions, samples};
use crate::input::Input;
use anyhow::{anyhow, bail};
use longpole_analysis::critical_path;
use longpole_analysis::pipeline::samples::{has_samples, path_stacks, StackSamples};
use longpole_analysis::pipeline::{Error, Interactions, PathEnd, SPILL};
use longpole_analysis::what_if::functions::{joined, only_waits, SCENARIOS};
use longpole_analysis::what_if::{Answer, NoAnswer, Options, Prediction, Scenario};
use std::collections::HashSet;

/// Predicts these scenarios as [`predictions::at_path_end`], also those of functions.
pub fn at_path_end(
    input: &Input,
    interactions: &Interactions,
    end: &PathEnd,
    mut scenarios: Vec<Scenario>,
    options: impl Fn(Vec<Scenario>) -> Options,
) -> anyhow::Result<(Answer, Vec<Prediction>)> {
    let count = scenarios.len();
    let changed = replace(input, interactions, end, &mut scenarios)?;
    let (mut answer, order) = predictions::at_path_end(interactions, end, scenarios, options)?;
    if !changed.is_empty() {
        let ends = answer.predictions.split_off(count);
        for (&at, ends) in changed.iter().zip(ends.chunks(SCENARIOS - 1)) {
            let estimated = answer.predictions[at].clone();
            answer.predictions[at] = joined(estimated, ends);
        }
    }
    Ok((answer, order))
}

/// Returns the error about an unknown name, with the reason why functions were not looked up if it
/// may be one.
pub fn explained(interactions: &Interactions, scenarios: &[Scenario], error: Error) -> anyhow::Error {
    let Error::NoPrediction { source: NoAnswer::NoSuchName { change, .. }, .. } = &error else { return error.into() };
    let of_functions = of_functions(interactions, scenarios);
    let is_function = of_functions.iter().any(|&at| scenarios[at].text == *change);
    match is_function && interactions.trace().is_some_and(has_samples) {
        true => anyhow!("{error}; functions are looked up only without --begin, --end and --machine"),
        false => error.into(),
    }
}

/// Replaces the scenarios of functions, and appends those with the ends of the intervals. Returns
/// the indices of the replaced ones. An error if nothing of a function can be scaled.
fn replace(input: &Input, interactions: &Interactions, end: &PathEnd, scenarios: &mut Vec<Scenario>) -> anyhow::Result<Vec<usize>> {
    let asked = of_functions(interactions, scenarios);
    if asked.is_empty() || !interactions.trace().is_some_and(has_samples) {
        return Ok(Vec::new());
    }
    let options = critical_path::Options { segments: true, spill: Some(SPILL), ..critical_path::Options::default() };
    let answer = interactions.path_from_spool(&end.spool, options)?;
    let runs_on = interactions.runs_on();
    let read = |samples: &mut StackSamples| samples::read_quietly(input, samples).map(drop);
    let (of_path, ..) = path_stacks(&runs_on, answer.segments.as_ref(), (&end.waits, input.sampled()?), read)?;
    let mut changed = Vec::new();
    for at in asked {
        let scenario = scenarios[at].clone();
        let Some((name, factor)) = scenario.of_name() else { continue };
        let within = of_path.within(name);
        match scenario.of_function(factor, &within) {
            Some([estimated, ends @ ..]) => {
                scenarios[at] = estimated;
                scenarios.extend(ends);
                changed.push(at);
            }
            None if within.is_empty() => {}
            None => bail!("'{}': {}", scenario.text, only_waits(name, &within)),
        }
    }
    Ok(changed)
}

/// Returns the indices of the scenarios that may be of functions: what they name is no machine and
/// no program.
fn of_functions(interactions: &Interactions, scenarios: &[Scenario]) -> Vec<usize> {
    let names = names(interactions);
    let is_function = |scenario: &Scenario| {
        let first = |name: &str| name.split("::").next().is_some_and(|first| names.contains(first));
        scenario.of_name().is_some_and(|(name, _)| !first(name) && !names.contains(name))
    };
    (0..scenarios.len()).filter(|&at| is_function(&scenarios[at])).collect()
}

/// Returns the names that are no functions: those of machines and programs.
fn names(interactions: &Interactions) -> HashSet<&str> {
    let vocabulary = interactions.vocabulary();
    let names = vocabulary.machines().map(|machine| vocabulary.machine_name(machine));
    names.flat_map(|name| [name, name.split('/').next().unwrap_or(name)]).collect()
}
