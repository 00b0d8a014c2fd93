//! Pairs of changes that bring much only together.
//!
//! If two sides limit the pace in turns, a change of one of them moves the limit to the other: two
//! stages that take equally long, or two programs that poll for one another's work, each after a
//! sleep. Each change alone then brings little, and no single state seems to be the bottleneck.
//! Therefore the changes with the largest shares of the path are also tried in pairs.
//!
//! Changes of states that follow one another save together what each saves alone. Changes that save
//! more together, by the factor that a leader needs ([`Limits::min_lead`]), limit the pace only
//! together.
//!
//! Example: halving one of two equal stages saves nothing; halving both saves half of the time.

use super::limits::Limits;
use super::TRIED_SUBJECTS;
use crate::verdict::data::because::Because;
use crate::what_if::{Prediction, Scenario};

/// Two changes that bring much only together.
#[derive(Clone, Debug, PartialEq)]
pub struct PairPrediction {
    /// Predictions for each change alone.
    pub alone: [Prediction; 2],
    pub both: Prediction,
    /// Names of the states that the changes affect.
    pub states: [String; 2],
}

impl PairPrediction {
    pub(super) fn because(&self) -> Because {
        let [one, other] = &self.alone;
        Because::OnlyTogether {
            changes: vec![one.change.clone(), other.change.clone()],
            states: self.states.to_vec(),
            gains: vec![one.gain.unwrap_or(0.0), other.gain.unwrap_or(0.0)],
            gain: self.both.gain.unwrap_or(0.0),
        }
    }
}

/// Pairs of changes of the states, and of the subjects, with the largest shares of the path.
#[derive(Clone, Debug, Default)]
pub struct Pairs(Vec<[Scenario; 2]>);

impl Pairs {
    /// Returns each pair of the first states, and of the first subjects; both lists begin with the
    /// largest share.
    pub fn of(states: &[Scenario], subjects: &[Scenario]) -> Pairs {
        let mut pairs: Vec<[Scenario; 2]> = Vec::new();
        for of in [states, subjects] {
            let tried = &of[..of.len().min(TRIED_SUBJECTS)];
            for (at, one) in tried.iter().enumerate() {
                pairs.extend(tried[at + 1..].iter().map(|other| [one.clone(), other.clone()]));
            }
        }
        Pairs(pairs)
    }

    /// Returns a scenario for each pair, with both of its changes.
    pub fn scenarios(&self) -> impl Iterator<Item = Scenario> + '_ {
        self.0.iter().map(|[one, other]| one.with(other))
    }

    /// Returns the pair with the largest gain among those that bring it only together.
    pub fn best(&self, predictions: &[Prediction], limits: &Limits) -> Option<PairPrediction> {
        let known = |scenario: &Scenario| predictions.iter().find(|prediction| prediction.is_of(scenario) && prediction.gain.is_some());
        let of = |[one, other]: &[Scenario; 2]| {
            let both = known(&one.with(other))?;
            let alone = [known(one)?, known(other)?];
            let saved = |of: &Prediction| of.gain.map_or(0.0, |gain| 1.0 - 1.0 / (1.0 + gain)).max(0.0);
            let is_more = saved(both) > limits.min_lead * alone.iter().map(|of| saved(of)).sum::<f64>();
            // The gain must exceed what each change certainly brings alone.
            let best_alone = alone.iter().filter_map(|of| of.gain_low).fold(limits.min_gain, f64::max);
            let is_certain = both.gain_low.is_some_and(|low| low > best_alone);
            (is_more && is_certain).then(|| PairPrediction {
                alone: alone.map(Prediction::clone),
                both: both.clone(),
                states: [one, other].map(Scenario::of),
            })
        };
        let found = self.0.iter().filter_map(of);
        found.max_by(|a, b| a.both.gain.unwrap_or(0.0).total_cmp(&b.both.gain.unwrap_or(0.0)))
    }
}
