//! The predictions of all scenarios, or the reason why there are none.

mod cpu_limit;
mod demand_bounds;
mod order_dependence;
mod path_states;
mod prediction;
mod predictor;

pub use demand_bounds::Bounds;
pub use path_states::Share;
pub use prediction::{LimitingState, Prediction};

use super::full_queues::FullQueue;
use super::grammar::Scenario;
use super::options::Options;
use super::translate::state::Translation;
use super::worlds::time_vector::UNCHANGED;
use crate::stats::nearest::no_such_machine;
use longpole_model::interaction::Vocabulary;
use path_states::PathStates;
use prediction::{higher_in_another_run, lower_in_another_run};
use predictor::Predictor;

/// The predictions of all scenarios, and what the unchanged replay shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub end_host: String,
    pub end_machine: String,
    pub baseline_ns: u64,
    /// Duration in ns of the unchanged replay in which waits of unknown cause keep their duration.
    pub replayed_ns: u64,
    pub baseline_error: f64,
    pub predictions: Vec<Prediction>,
    /// States of the unchanged replay, the largest first.
    pub shares: Vec<Share>,
    pub full: Vec<FullQueue>,
    pub contradictions: u64,
    /// Number of events missing in the trace, if its reader reports them.
    pub lost: u64,
    pub forgotten_causes: u64,
    pub interactions: u64,
    /// Upper bounds of the rate in any order of execution.
    pub bounds: Bounds,
}

impl Answer {
    /// Makes a prediction of a scenario that no replay computes. `rate` is the factor of the rate
    /// (lower end, estimate, upper end), or the reason why it cannot be known.
    pub fn predict(&self, scenario: &Scenario, rate: Result<[f64; 3], String>) -> Prediction {
        let (rates, refused) = match rate {
            Ok(rates) => (rates.map(Some), None),
            Err(why) => ([None; 3], Some(why)),
        };
        let [low, rate, high] = rates.map(|rate| rate.map(|rate| rate - 1.0));
        Prediction {
            change: scenario.text.clone(),
            changes: scenario.changes.clone(),
            baseline_ns: self.baseline_ns,
            baseline_error: self.baseline_error,
            replayed_ns: self.replayed_ns,
            predicted_ns: rate.map(|gain| (self.baseline_ns as f64 / (1.0 + gain)).round() as u64),
            gain: rate,
            gain_low: low.map(lower_in_another_run),
            gain_high: high.map(higher_in_another_run),
            next: None,
            refused,
        }
    }
}

/// Reasons why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    #[error("it has no interactions")]
    Empty,
    #[error("there is nothing in this range")]
    NothingInRange,
    /// The whole message, with the nearest names.
    #[error("{0}")]
    NoSuchMachine(String),
    #[error("\"{0}\" is the name of machines on several hosts; name it as HOST/MACHINE")]
    Namesakes(String),
    #[error("'{change}': {what}")]
    NoSuchName { change: String, what: String },
}

/// Answers from a finished replay. `alone` has, for each requested scenario that adds CPUs and
/// makes other changes, the index of the same scenario without the CPUs.
///
/// # Errors
///
/// [`NoAnswer`] if the machine or the range is empty, unknown or ambiguous, or if a name of a
/// scenario does not occur.
pub fn answer(mut trace: Translation, options: &Options, alone: &[Option<usize>], vocabulary: &Vocabulary) -> Result<Answer, NoAnswer> {
    let asked = options.machine.clone().unwrap_or_default();
    if trace.end_machine.namesake.is_some() {
        return Err(NoAnswer::Namesakes(asked));
    }
    trace.finish(vocabulary);
    let occurs = occurring(&trace, options)?;
    let mut replay = trace.replay.take();
    let Some(end) = replay.end.take() else {
        return Err(match options.machine {
            Some(_) => NoAnswer::NoSuchMachine(no_such_machine(vocabulary, &asked)),
            None => NoAnswer::Empty,
        });
    };
    let members = trace.groups.members(end.machine, trace.machines.len());
    let profiles = replay.paths.profiles(end.node, &replay.factors);
    let on_path = profiles.first().map_or(&[][..], Vec::as_slice);
    let (most, bounds) = demand_bounds::by_demand((&trace, &replay, vocabulary), options.cpus, &end, &members, on_path);
    let states = PathStates { trace: &trace, vocabulary };
    let predictor = Predictor {
        options,
        states,
        replay: &replay,
        end: &end,
        soonest: cpu_limit::soonest(&replay, vocabulary, &end, &members),
        order_dependent: order_dependence::order_dependent(&replay, &end, &members),
        most,
        profiles: profiles.into_iter().map(|profile| states.largest_first(profile)).collect(),
    };
    if trace.clock.requested_begin > 0 && predictor.observed() <= 0.0 {
        return Err(NoAnswer::NothingInRange);
    }
    let refused = predictor.refused();
    let predict = |at: usize| predictor.predict(at, refused.clone());
    let requested = alone.iter().enumerate().filter(|&(at, _)| occurs[at]);
    let predictions = requested
        .map(|(at, alone)| match *alone {
            Some(alone) => predict(at).at_least(&predict(alone)),
            None => predict(at),
        })
        .collect();
    Ok(Answer {
        end_host: vocabulary.host(end.machine).to_owned(),
        end_machine: vocabulary.machine_name(end.machine).to_owned(),
        baseline_ns: predictor.observed() as u64,
        replayed_ns: end.v[UNCHANGED].round() as u64,
        baseline_error: predictor.error(),
        predictions,
        shares: states.shares(predictor.baseline()),
        full: trace.full.full(vocabulary),
        contradictions: trace.contradictions,
        lost: 0,
        forgotten_causes: replay.too_old + trace.forgotten_causes + trace.queues.forgotten(),
        interactions: trace.interactions,
        bounds,
    })
}

/// Returns for each scenario whether its names occur; of guesses, some may not.
fn occurring(trace: &Translation, options: &Options) -> Result<Vec<bool>, NoAnswer> {
    let missing = |at: usize| trace.changes.missing(at);
    let occurs = |(at, scenario): (usize, &Scenario)| match missing(at) {
        Some(_) if options.guessed => Ok(false),
        Some(what) => Err(NoAnswer::NoSuchName { change: scenario.text.clone(), what }),
        None => Ok(true),
    };
    options.scenarios.iter().enumerate().map(occurs).collect()
}
