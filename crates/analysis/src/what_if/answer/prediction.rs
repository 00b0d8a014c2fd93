//! One prediction: the effect of a scenario as an interval, or the reason why it is refused.

use super::demand_bounds::Bound;
use crate::what_if::grammar::{Change, Scenario};
use longpole_model::kinds::SegmentKind;
use serde::Serialize;

/// A run of a real system can be shorter than a recorded one by this share of its time, because the
/// recorder has its cost and two runs are never equal. Of 79 systems of bench/truth/wild with half
/// of their fault, 77 differ by less.
const OTHER_RUN: f64 = 0.03;

/// A run can be longer than predicted by this share, because a change saves less than the time of
/// what it changes: CPUs sleep in between, and other threads start to wait. Of the same systems, 73
/// differ by less.
const SAVED_LESS: f64 = 0.08;

/// A run after a change takes at least this part of the predicted time, even if that is short
/// compared with [`OTHER_RUN`].
const MIN_LEFT: f64 = 1.0 / 3.0;

/// An interval whose ends differ by a larger factor does not say the order of magnitude of the rate
/// after the change. It is refused if its lower end is also below [`WORTH_IT`].
const MAX_SPAN: f64 = 20.0;

/// A change that multiplies the rate by at least this factor is worth making, even if it may bring
/// much more.
const WORTH_IT: f64 = 2.0;

/// What limits a system: a machine in a state, or the CPUs as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitingState {
    pub machine: String,
    pub state: String,
    /// `None` if all CPUs are busy, which is not a state.
    pub kind: Option<SegmentKind>,
}

/// The predicted effect of one scenario, or the reason why it is refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Text of the scenario, for people; [`Prediction::is_of`] identifies it.
    pub change: String,
    /// The scenario's changes.
    #[serde(skip)]
    pub changes: Vec<Change>,
    /// Observed time from the start to the last interaction of the machine whose end counts, in ns.
    pub baseline_ns: u64,
    /// Relative difference of the gate replay from that time; negative if the replay is shorter.
    pub baseline_error: f64,
    /// Duration in ns of the unchanged replay that predictions start from: waits of unknown cause
    /// keep their duration, and the cost of probes is left out.
    pub replayed_ns: u64,
    /// Duration after the change, in ns.
    pub predicted_ns: Option<u64>,
    /// Throughput after the change relative to before, less 1: baseline_ns / predicted_ns − 1.
    /// `None` if refused, or if no time would be left.
    pub gain: Option<f64>,
    pub gain_low: Option<f64>,
    pub gain_high: Option<f64>,
    /// The state that limits the system after the change.
    pub next: Option<LimitingState>,
    /// The reason why nothing is predicted.
    pub refused: Option<String>,
}

impl Prediction {
    /// Returns true if this is the prediction of the scenario.
    pub fn is_of(&self, scenario: &Scenario) -> bool {
        self.changes == scenario.changes
    }

    /// Refuses an interval that says nothing: its ends differ by more than a factor of
    /// [`MAX_SPAN`], and the lower one is less than [`WORTH_IT`].
    pub fn unless_far(self, bound: &Bound) -> Prediction {
        let (Some(low), Some(high)) = (self.gain_low, self.gain_high) else { return self };
        if 1.0 + high <= MAX_SPAN * (1.0 + low) || 1.0 + low >= WORTH_IT {
            return self;
        }
        let next = self.next.as_ref().map_or_else(String::new, |next| format!(" with {}::{} next", next.machine, next.state));
        let refused = format!(
            "it is too far from the recording: in the recorded order the rate would be at least {:.1} times as high{next}, and {bound} allows {:.0} times",
            1.0 + low,
            1.0 + high
        );
        let (predicted_ns, gain, gain_low, gain_high, next) = Default::default();
        Prediction { predicted_ns, gain, gain_low, gain_high, next, refused: Some(refused), ..self }
    }

    /// Raises the prediction to that of a subset of its changes, since an added change takes away
    /// nothing of what the others are certain to bring.
    pub fn at_least(mut self, alone: &Prediction) -> Prediction {
        if self.refused.is_some() || alone.refused.is_some() {
            return self;
        }
        let more = |own: Option<f64>, other: Option<f64>| own.zip(other).map(|(own, other)| own.max(other));
        if alone.gain.is_some_and(|gain| self.gain.is_some_and(|own| own < gain)) {
            (self.gain, self.predicted_ns) = (alone.gain, alone.predicted_ns);
            self.next.clone_from(&alone.next);
        }
        self.gain_low = more(self.gain_low, alone.gain_low);
        self.gain_high = more(self.gain_high, alone.gain_high);
        self
    }
}

/// Returns the lower end of a gain in another run of the same system.
pub fn lower_in_another_run(gain: f64) -> f64 {
    1.0 / (1.0 / (1.0 + gain) + SAVED_LESS) - 1.0
}

/// Returns the upper end of a gain in another run of the same system.
pub fn higher_in_another_run(gain: f64) -> f64 {
    let left = 1.0 / (1.0 + gain);
    1.0 / (left - OTHER_RUN).max(left * MIN_LEFT) - 1.0
}
