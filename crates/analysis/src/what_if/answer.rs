//! The predictions, or the reason why there are none.
//!
//! A prediction compares the end of the changed world with that of the unchanged one, and widens
//! the result to an interval by what the trace does not determine: waits of unknown cause, the
//! order of service, work that could run in parallel, the noise of a real system.

use super::demand::{Bound, Bounds};
use super::lanes::{Layout, GATE, KEPT, OBSERVED, WHOLE};
use super::{Change, EndMark, WhatIf};
use crate::critical_path::key::{Key, Link, State};
use crate::critical_path::Kind;
use crate::stats::nearest::{ends_nowhere, no_such_machine};
use longpole_model::interaction::{MachineId, Vocabulary};
use longpole_model::kinds::{SegmentKind, StateKind, CPUS};
use longpole_model::names::NameId;
use serde::Serialize;
use std::collections::hash_map::Entry;
use std::collections::HashMap;

/// Largest difference between the observed end and each of two replays of the unchanged trace, as a
/// share of the observed end: the gate, where only what is explained takes time, and the replay
/// that predictions start from. Beyond it nothing is predicted.
pub const GATE_SHARE: f64 = 0.05;

/// A run of a real system can be shorter than a recorded one by this share of its time, because the
/// recorder has its cost and two runs are never equal. Of 79 systems of bench/truth/wild with half
/// of their fault, 77 differ by less.
const OTHER_RUN: f64 = 0.03;

/// A run can be longer than predicted by this share, because a change saves less than the time of
/// what it changes: CPUs sleep in between, and other threads start to wait. Of the same systems, 73
/// differ by less.
const SAVED_LESS: f64 = 0.08;

/// Largest factor by which the remaining cost of each item may fall if a state is removed entirely:
/// polls and retries disappear with the wait, CPUs do not sleep in between, caches stay warm,
/// runtimes compile the code, one wake-up serves several items. The cost falls at most by the
/// factor by which the rate grows. With a factor of five, 51 of 59 measured removals of
/// bench/truth/wild were below the upper end.
const CHEAPER: f64 = 25.0;

/// A run after a change takes at least this part of the predicted time, even if that is short
/// compared with [`OTHER_RUN`].
const LEAST_LEFT: f64 = 1.0 / 3.0;

/// An interval whose ends differ by a larger factor does not say the order of magnitude of the rate
/// after the change. It is refused if its lower end is also below [`WORTH_IT`].
const FAR: f64 = 20.0;

/// A change that multiplies the rate by at least this factor is worth making, even if it may bring
/// much more.
const WORTH_IT: f64 = 2.0;

/// The CPUs decide the end if it is at most this factor later than the earliest end that the CPUs
/// allow.
const ALL_BUSY: f64 = 1.01;

/// A machine in a state, or the CPUs as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    pub machine: String,
    pub state: String,
    /// `None` for the place "all CPUs are busy", which is not a state.
    pub kind: Option<SegmentKind>,
}

/// The predicted effect of one scenario, or the reason why it is refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    pub change: String,
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
    pub next: Option<Place>,
    /// The reason why nothing is predicted.
    pub refused: Option<String>,
}

impl Prediction {
    /// Refuses an interval that says nothing: its ends differ by more than a factor of [`FAR`], and
    /// the lower one is less than [`WORTH_IT`].
    fn unless_far(self, bound: &Bound) -> Prediction {
        let (Some(low), Some(high)) = (self.gain_low, self.gain_high) else { return self };
        if 1.0 + high <= FAR * (1.0 + low) || 1.0 + low >= WORTH_IT {
            return self;
        }
        let next = self.next.as_ref().map_or_else(String::new, |next| format!(" with {}::{} next", next.machine, next.state));
        let refused = format!(
            "it is too far from what was recorded: in the order of the recording the rate would be at least {:.1} times as high{next}, \
             and {bound} lets it be {:.0} times as high",
            1.0 + low,
            1.0 + high
        );
        let (predicted_ns, gain, gain_low, gain_high, next) = Default::default();
        Prediction { predicted_ns, gain, gain_low, gain_high, next, refused: Some(refused), ..self }
    }

    /// Raises the prediction to that of a subset of its changes, since an added change takes away
    /// nothing of what the others are certain to bring.
    fn at_least(mut self, alone: &Prediction) -> Prediction {
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

/// A state on the path to the end in the replay of the unchanged trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    pub host: String,
    pub machine: String,
    pub class: String,
    pub state: String,
    pub kind: SegmentKind,
    pub share: f64,
    /// The state may be scaled: it is not a wait.
    pub scales: bool,
}

impl Share {
    /// Name under which all states of this kind are changed.
    pub fn class_or_link(&self) -> &str {
        if self.kind.is_link() {
            &self.machine
        } else {
            &self.class
        }
    }
}

/// A bounded queue in which machines waited for room: name, capacity, number of waits.
pub type FullQueue = (String, u64, u64);

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
    /// Makes a prediction of a change that no replay computes. `rate` is the factor of the rate
    /// (lower end, estimate, upper end), or the reason why it cannot be known.
    pub fn predict(&self, change: String, rate: Result<[f64; 3], String>) -> Prediction {
        let (rates, refused) = match rate {
            Ok(rates) => (rates.map(Some), None),
            Err(why) => ([None; 3], Some(why)),
        };
        let [low, rate, high] = rates.map(|rate| rate.map(|rate| rate - 1.0));
        Prediction {
            change,
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
    #[error("no machine does anything in it")]
    Empty,
    #[error("nothing lies in this range")]
    NothingInRange,
    /// The whole message, with the nearest names.
    #[error("{0}")]
    NoSuchMachine(String),
    #[error("\"{0}\" is the name of machines on several hosts; name it as HOST/MACHINE")]
    Namesakes(String),
    #[error("'{change}': {what}")]
    NoSuchName { change: String, what: String },
}

impl WhatIf {
    /// Returns the prediction of each scenario.
    ///
    /// # Errors
    ///
    /// [`NoAnswer`] if the machine or the range is empty, unknown or ambiguous, or if a name of a
    /// scenario does not occur.
    pub fn answer(mut self, vocabulary: &Vocabulary) -> Result<Answer, NoAnswer> {
        let asked = self.options.machine.clone().unwrap_or_default();
        if self.namesake.is_some() {
            return Err(NoAnswer::Namesakes(asked));
        }
        self.finish(vocabulary);
        let mut occurs = vec![true; self.layout.scenarios];
        for (at, scenario) in self.options.scenarios.iter().enumerate() {
            match self.scale.missing(at) {
                Some(_) if self.options.guessed => occurs[at] = false,
                Some(what) => return Err(NoAnswer::NoSuchName { change: scenario.text.clone(), what }),
                None => {}
            }
        }
        let Some(end) = self.end.take() else {
            return Err(match self.options.machine {
                Some(_) => NoAnswer::NoSuchMachine(no_such_machine(vocabulary, &asked)),
                None => NoAnswer::Empty,
            });
        };
        let observed = end.v[OBSERVED];
        if self.asked_begin > 0 && observed <= 0.0 {
            return Err(NoAnswer::NothingInRange);
        }
        let error = if observed > 0.0 { (end.v[GATE] - observed) / observed } else { 0.0 };
        let profiles = self.trail.profiles(end.node, &self.rows);
        let (most, bounds) = self.most_by_demand(vocabulary, &end, profiles.first().map_or(&[][..], |profile| profile));
        let profiles: Vec<_> = profiles.into_iter().map(|profile| self.largest_first(vocabulary, profile)).collect();
        let baseline = profiles.first().map_or(&[][..], |profile| profile);
        let soonest = self.soonest(vocabulary, &end);
        let hangs = self.hangs(&end);
        let begins = if observed > 0.0 { (end.v[WHOLE] - observed) / observed } else { 0.0 };
        let refused = self.refused(vocabulary, observed, (error, begins), baseline);
        let scenarios = (0..self.layout.scenarios).filter(|&at| occurs[at]);
        let predict = |at: usize| {
            self.predict(
                vocabulary,
                at,
                (&end, &soonest, hangs[at], most[at].as_ref()),
                &profiles[Layout::world(at)],
                error,
                refused.clone(),
            )
        };
        let predictions = scenarios
            .filter(|&at| at < self.alone.len())
            .map(|at| match self.alone[at] {
                Some(alone) => predict(at).at_least(&predict(alone)),
                None => predict(at),
            })
            .collect();
        let full = self.full.full(vocabulary);
        Ok(Answer {
            end_host: vocabulary.host(end.machine).to_owned(),
            end_machine: vocabulary.machine_name(end.machine).to_owned(),
            baseline_ns: observed as u64,
            replayed_ns: end.v[KEPT].round() as u64,
            baseline_error: error,
            predictions,
            shares: self.shares(vocabulary, baseline),
            full,
            contradictions: self.counts.contradictions,
            lost: 0,
            forgotten_causes: self.counts.too_old + self.queues.forgotten(),
            interactions: self.interactions,
            bounds,
        })
    }

    /// Marks the end at the last machine's last interaction if no end was marked, and ends all
    /// waits.
    fn finish(&mut self, vocabulary: &Vocabulary) {
        if let (None, Some(last)) = (&self.end, self.last.or(self.asked)) {
            self.mark_end(vocabulary, last);
        }
        if self.held > 0 {
            self.relax("the machines stand still: each waits for room that only a later interaction gives");
        }
    }

    fn words(&self, vocabulary: &Vocabulary, key: u32) -> [String; 4] {
        self.keys.iter().nth(key as usize).map(|key| key.words(vocabulary)).unwrap_or_default()
    }

    fn is(&self, key: u32, what: impl Fn(&Key) -> bool) -> bool {
        self.keys.iter().nth(key as usize).is_some_and(what)
    }

    /// Returns the keys on the path to the end in a world, the largest first. A machine's states of
    /// one name and kind of work are one entry.
    fn largest_first(&self, vocabulary: &Vocabulary, profile: Vec<f64>) -> Vec<(u32, f64)> {
        let mut named: HashMap<(MachineId, NameId, Kind), usize> = HashMap::new();
        let mut largest: Vec<(u32, f64)> = Vec::new();
        for (key, ns) in (0u32..).zip(profile).filter(|entry| entry.1 > 0.0) {
            let of = match self.keys.iter().nth(key as usize) {
                Some(&Key::State { machine, state: State::Named(name), .. }) => Some((machine, vocabulary.names.first_of_same(name))),
                _ => None,
            };
            match of.map(|(machine, name)| named.entry((machine, name, self.segment_kind(vocabulary, key).into()))) {
                Some(Entry::Occupied(known)) => largest[*known.get()].1 += ns,
                of => {
                    if let Some(Entry::Vacant(of)) = of {
                        of.insert(largest.len());
                    }
                    largest.push((key, ns));
                }
            }
        }
        largest.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        largest
    }

    fn segment_kind(&self, vocabulary: &Vocabulary, key: u32) -> SegmentKind {
        let known = self.keys.iter().nth(key as usize).map(|key| {
            let is_context = match *key {
                Key::State { machine, .. } => self.lives.get(machine.0 as usize).is_some_and(|life| life.has_been_context),
                Key::Link { .. } => false,
            };
            key.kind(vocabulary, is_context)
        });
        known.unwrap_or(SegmentKind::State(StateKind::Unknown))
    }

    fn shares(&self, vocabulary: &Vocabulary, profile: &[(u32, f64)]) -> Vec<Share> {
        let all: f64 = profile.iter().map(|entry| entry.1).sum();
        let share = |&(key, ns): &(u32, f64)| {
            let [host, machine, class, state] = self.words(vocabulary, key);
            Share { host, machine, class, state, kind: self.segment_kind(vocabulary, key), share: ns / all, scales: self.is(key, scales) }
        };
        profile.iter().map(share).collect()
    }

    /// Returns the reason why nothing can be predicted from this trace.
    fn refused(&self, vocabulary: &Vocabulary, observed: f64, (error, begins): (f64, f64), baseline: &[(u32, f64)]) -> Option<String> {
        if observed <= 0.0 {
            return Some(self.no_end.clone().unwrap_or_else(|| "no time passes until the end".to_owned()));
        }
        let differs =
            |error: f64| format!("{:.1} % {} than what was observed", 100.0 * error.abs(), if error < 0.0 { "shorter" } else { "longer" });
        if error.abs() <= GATE_SHARE {
            let said = "the replay of the unchanged trace from which changes are predicted is ";
            return (begins.abs() > GATE_SHARE).then(|| said.to_owned() + &differs(begins));
        }
        let mut said = format!("the replay of the unchanged trace is {}", differs(error));
        let unexplained = baseline.iter().find(|entry| self.is(entry.0, is_unexplained));
        if let Some(&(key, ns)) = unexplained {
            let [_, machine, _, state] = self.words(vocabulary, key);
            let line = self.first_unexplained.get(&key).map(|line| format!(", first in line {line}")).unwrap_or_default();
            said += &format!(
                "; most of it is {machine}::{state}, whose cause the trace does not tell ({:.1} % of the path{line})",
                100.0 * ns / observed
            );
        }
        Some(said)
    }

    /// Notes a contradiction if the machine whose end counts has done nothing.
    pub(super) fn check_end(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let seen = |id: &MachineId| self.lives.get(id.0 as usize).is_some_and(|life| life.seen);
        let doubted = self.options.machine.is_none() && !seen(&machine);
        self.no_end = doubted.then(|| ends_nowhere(vocabulary, machine, seen));
        self.counts.contradictions += u64::from(doubted);
    }

    /// Returns the reason if a change batches a machine that makes no calls.
    fn nothing_to_batch(&self, at: usize) -> Option<String> {
        let batched = self.options.scenarios[at].changes.iter().find_map(|change| match change {
            Change::Batch { target, .. } => Some(target),
            _ => None,
        })?;
        let said = || format!("{} pays for no call and no signal, so there is nothing to batch", batched.text);
        (!self.is_paid[at] && !self.options.guessed).then(said)
    }

    fn predict(
        &self,
        vocabulary: &Vocabulary,
        at: usize,
        (end, soonest, hangs, most): (&EndMark, &[f64], f64, Option<&(f64, Bound)>),
        profile: &[(u32, f64)],
        error: f64,
        refused: Option<String>,
    ) -> Prediction {
        let (observed, layout) = (end.v[OBSERVED], self.layout);
        let [kept, bare] = layout.of(at);
        let refused = refused.or_else(|| self.still[at].map(|why| format!("with so little room {why}")));
        let refused = refused.or_else(|| self.nothing_to_batch(at));
        let mut prediction = Prediction {
            change: self.options.scenarios[at].text.clone(),
            baseline_ns: observed as u64,
            baseline_error: error,
            replayed_ns: end.v[KEPT].round() as u64,
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
        let ends = |lane: usize| end.v[lane].max(soonest[lane]);
        let gain = |lane: usize, unchanged: usize| (ends(lane) > 0.0).then(|| end.v[unchanged] / ends(lane) - 1.0);
        let point = gain(kept, KEPT);
        let mut range: Vec<f64> = point.into_iter().chain(gain(bare, layout.bare().start)).collect();
        if self.scale.cpus(at) > 0 {
            // How the kernel would use more CPUs is unknown: anything between no thread getting one
            // in time and all threads getting one.
            range.push(0.0);
        }
        if let (Some(gain), true) = (point, hangs > 0.0) {
            let until = ends(kept);
            range.extend([until - hangs, until + hangs].map(|other| (1.0 + gain) * until / other - 1.0));
        }
        let replayed = range.iter().copied().reduce(f64::max).unwrap_or(0.0);
        // Faster than in the order of the trace, as far as the remaining demand allows.
        range.extend(most.zip(point).map(|((most, _), gain)| (most - 1.0).max(gain)));
        let low = range.iter().copied().reduce(f64::min);
        let high = range.iter().copied().reduce(f64::max);
        let slack = |gain: f64| (1.0 + gain) * error.abs();
        prediction.predicted_ns = Some((observed * ends(kept) / end.v[KEPT].max(f64::MIN_POSITIVE)).round() as u64);
        prediction.gain = point;
        prediction.gain_low = low.map(|low| low - slack(low));
        prediction.gain_high = high.map(|high| high + slack(high));
        if self.options.cpus > 0 {
            // A real system does not do the same twice.
            prediction.gain_low = prediction.gain_low.map(lower_in_another_run);
            prediction.gain_high = prediction.gain_high.map(higher_in_another_run);
            if self.options.scenarios[at].leaves_out() {
                let cheaper = (1.0 + replayed) * (1.0 + replayed).min(CHEAPER) - 1.0;
                prediction.gain_high = prediction.gain_high.map(|high| high.max(cheaper));
            }
        }
        prediction.next = profile.first().map(|&(key, _)| {
            let [_, machine, _, state] = self.words(vocabulary, key);
            Place { machine, state, kind: Some(self.segment_kind(vocabulary, key)) }
        });
        if end.v[kept] < ALL_BUSY * soonest[kept] {
            prediction.next = Some(Place { machine: CPUS.to_owned(), state: "busy".to_owned(), kind: None });
        }
        match most {
            Some((_, bound)) => prediction.unless_far(bound),
            None => prediction,
        }
    }
}

fn lower_in_another_run(gain: f64) -> f64 {
    1.0 / (1.0 / (1.0 + gain) + SAVED_LESS) - 1.0
}

fn higher_in_another_run(gain: f64) -> f64 {
    let left = 1.0 / (1.0 + gain);
    1.0 / (left - OTHER_RUN).max(left * LEAST_LEFT) - 1.0
}

fn is_unexplained(key: &Key) -> bool {
    matches!(key, Key::State { state: State::Blocked(_) | State::Unknown, .. })
}

fn scales(key: &Key) -> bool {
    match key {
        Key::State { state, .. } => !matches!(state, State::Blocked(_) | State::Unknown | State::Interrupted | State::Runnable),
        Key::Link { kind, .. } => *kind != Link::Queued,
    }
}
