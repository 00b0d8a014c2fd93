//! Predictions from the ends of the changed worlds.
//!
//! A prediction compares the end of the changed world with that of the unchanged one, and widens
//! the result to an interval by what the trace does not determine: waits of unknown cause, the
//! order of service, work that could run in parallel, the noise of a real system.

use super::demand_bounds::Bound;
use super::path_states::{is_unexplained, PathStates};
use super::prediction::{higher_in_another_run, lower_in_another_run, LimitingState, Prediction};
use crate::what_if::grammar::Change;
use crate::what_if::options::Options;
use crate::what_if::replay::state::{EndMark, Replay};
use crate::what_if::worlds::time_vector::{Layout, GATE, OBSERVED, UNCHANGED, WITH_RECORDING};
use longpole_model::kinds::CPUS;

/// Largest difference between the observed end and each of two replays of the unchanged trace, as a
/// share of the observed end: the gate, where only what is explained takes time, and the replay
/// that predictions start from. Beyond it nothing is predicted.
pub const GATE_SHARE: f64 = 0.05;

/// Largest factor by which the remaining cost of each item may fall if a state is removed entirely:
/// polls and retries disappear with the wait, CPUs do not sleep in between, caches stay warm,
/// runtimes compile the code, one wake-up serves several items. The cost falls at most by the
/// factor by which the rate grows. With a factor of five, 51 of 59 measured removals of
/// bench/truth/wild were below the upper end.
const MAX_CHEAPER_FACTOR: f64 = 25.0;

/// The CPUs decide the end if it is at most this factor later than the earliest end that the CPUs
/// allow.
const ALL_BUSY: f64 = 1.01;

/// What the predictions of all scenarios have in common.
pub struct Predictor<'a> {
    pub options: &'a Options,
    pub states: PathStates<'a>,
    pub replay: &'a Replay,
    pub end: &'a EndMark,
    /// Earliest end of each lane that the CPUs allow.
    pub soonest: Vec<f64>,
    /// Time until the end that depends on the order of service, by scenario.
    pub order_dependent: Vec<f64>,
    /// Largest factor of the rate in any order, by scenario.
    pub most: Vec<Option<(f64, Bound)>>,
    /// The states on the path of each kept lane, the largest first.
    pub profiles: Vec<Vec<(u32, f64)>>,
}

impl Predictor<'_> {
    /// Observed time until the end, in ns.
    pub fn observed(&self) -> f64 {
        self.end.v[OBSERVED]
    }

    /// Relative difference of the gate replay from the observed time.
    pub fn error(&self) -> f64 {
        self.difference(GATE)
    }

    fn difference(&self, lane: usize) -> f64 {
        let observed = self.observed();
        if observed > 0.0 {
            (self.end.v[lane] - observed) / observed
        } else {
            0.0
        }
    }

    /// The states on the path of the unchanged replay.
    pub fn baseline(&self) -> &[(u32, f64)] {
        self.profiles.first().map_or(&[], Vec::as_slice)
    }

    /// Returns the reason why nothing can be predicted from this trace.
    pub fn refused(&self) -> Option<String> {
        let (observed, error, begins) = (self.observed(), self.error(), self.difference(WITH_RECORDING));
        if observed <= 0.0 {
            return Some(self.states.trace.end_machine.no_end.clone().unwrap_or_else(|| "no time passes until the end".to_owned()));
        }
        let differs =
            |error: f64| format!("{:.1} % {} than what was observed", 100.0 * error.abs(), if error < 0.0 { "shorter" } else { "longer" });
        if error.abs() <= GATE_SHARE {
            let reason = "the replay of the unchanged trace from which changes are predicted is ";
            return (begins.abs() > GATE_SHARE).then(|| reason.to_owned() + &differs(begins));
        }
        let mut reason = format!("the replay of the unchanged trace is {}", differs(error));
        let unexplained = self.baseline().iter().find(|entry| self.states.is(entry.0, is_unexplained));
        if let Some(&(key, ns)) = unexplained {
            let [_, machine, _, state] = self.states.words(key);
            let line =
                self.states.trace.states.first_unexplained.get(&key).map(|line| format!(", first at line {line}")).unwrap_or_default();
            reason += &format!(
                "; most of it is {machine}::{state}, whose cause is not in the trace ({:.1} % of the path{line})",
                100.0 * ns / observed
            );
        }
        Some(reason)
    }

    /// Returns the reason if a change batches a machine that makes no calls.
    fn nothing_to_batch(&self, at: usize) -> Option<String> {
        let batched = self.options.scenarios[at].changes.iter().find_map(|change| match change {
            Change::Batch { target, .. } => Some(target),
            _ => None,
        })?;
        let reason = || format!("{} makes no calls and sends no signals, so there is nothing to batch", batched.text);
        (!self.replay.calls.is_paid(at) && !self.options.guessed).then(reason)
    }

    /// Returns the prediction of a scenario; `refused` is the reason why the trace allows none.
    pub fn predict(&self, at: usize, refused: Option<String>) -> Prediction {
        let end = self.end;
        let [kept, bare] = self.replay.layout.of(at);
        let refused = refused.or_else(|| self.replay.held.given_up[at].map(|why| format!("with so little room {why}")));
        let refused = refused.or_else(|| self.nothing_to_batch(at));
        let mut prediction = Prediction {
            change: self.options.scenarios[at].text.clone(),
            changes: self.options.scenarios[at].changes.clone(),
            baseline_ns: self.observed() as u64,
            baseline_error: self.error(),
            replayed_ns: end.v[UNCHANGED].round() as u64,
            predicted_ns: None,
            gain: None,
            gain_low: None,
            gain_high: None,
            next: None,
            refused,
        };
        if prediction.refused.is_some() {
            return prediction;
        }
        let until = self.ends(kept);
        let gain = |lane: usize, unchanged: usize| (self.ends(lane) > 0.0).then(|| end.v[unchanged] / self.ends(lane) - 1.0);
        let point = gain(kept, UNCHANGED);
        let range = point.into_iter().chain(gain(bare, self.replay.layout.bare().start)).collect();
        prediction.predicted_ns = Some((self.observed() * until / end.v[UNCHANGED].max(f64::MIN_POSITIVE)).round() as u64);
        prediction.gain = point;
        (prediction.gain_low, prediction.gain_high) = self.interval(at, point, range);
        prediction.next = self.next(at);
        match &self.most[at] {
            Some((_, bound)) => prediction.unless_far(bound),
            None => prediction,
        }
    }

    /// End of a lane, as far as the CPUs allow it.
    fn ends(&self, lane: usize) -> f64 {
        self.end.v[lane].max(self.soonest[lane])
    }

    /// Returns both ends of the interval of a gain. `point` is the gain itself, `range` the gains
    /// with and without waits of unknown cause.
    fn interval(&self, at: usize, point: Option<f64>, mut range: Vec<f64>) -> (Option<f64>, Option<f64>) {
        let [kept, _] = self.replay.layout.of(at);
        if self.replay.cpus.more[at] > 0 {
            // How the kernel would use more CPUs is unknown: anything between no thread getting one
            // in time and all threads getting one.
            range.push(0.0);
        }
        let order_dependent = self.order_dependent[at];
        if let (Some(gain), true) = (point, order_dependent > 0.0) {
            let until = self.ends(kept);
            range.extend([until - order_dependent, until + order_dependent].map(|other| (1.0 + gain) * until / other - 1.0));
        }
        let replayed = range.iter().copied().reduce(f64::max).unwrap_or(0.0);
        // Faster than in the order of the trace, as far as the remaining demand allows.
        range.extend(self.most[at].as_ref().zip(point).map(|((most, _), gain)| (most - 1.0).max(gain)));
        let slack = |gain: f64| (1.0 + gain) * self.error().abs();
        let mut low = range.iter().copied().reduce(f64::min).map(|low| low - slack(low));
        let mut high = range.iter().copied().reduce(f64::max).map(|high| high + slack(high));
        if self.options.cpus > 0 {
            // A real system does not do the same twice.
            low = low.map(lower_in_another_run);
            high = high.map(higher_in_another_run);
            if self.options.scenarios[at].leaves_out() {
                let cheaper = (1.0 + replayed) * (1.0 + replayed).min(MAX_CHEAPER_FACTOR) - 1.0;
                high = high.map(|high| high.max(cheaper));
            }
        }
        (low, high)
    }

    /// Returns the state that limits the system after the change.
    fn next(&self, at: usize) -> Option<LimitingState> {
        let layout = self.replay.layout;
        let [kept, _] = layout.of(at);
        if self.end.v[kept] < ALL_BUSY * self.soonest[kept] {
            return Some(LimitingState { machine: CPUS.to_owned(), state: "busy".to_owned(), kind: None });
        }
        let &(key, _) = self.profiles[Layout::world(at)].first()?;
        let [_, machine, _, state] = self.states.words(key);
        Some(LimitingState { machine, state, kind: Some(self.states.segment_kind(key)) })
    }
}
