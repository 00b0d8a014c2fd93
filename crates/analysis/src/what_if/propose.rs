//! Proposals: changes to try if none were requested. Candidates are the states with the most time
//! on the path, and the queues that were full; then the order in which to make the best of them.

use super::answer::{Answer, Prediction, Share};
use super::full_queues::FullQueue;
use super::grammar::Scenario;

/// Largest number of states that are tried. Each scenario takes two lanes of each time vector, so
/// the time of a replay grows with it.
pub(super) const STATES: usize = 8;
/// Largest number of queues that are tried.
const QUEUES: usize = 4;
/// Least share of the path for a state to be tried.
pub(super) const MIN_SHARE: f64 = 0.01;
/// Largest number of changes made one after the other.
const MAX_CHANGES: usize = 5;
/// Least relative gain of a further change.
const MIN_GAIN: f64 = 0.01;

/// Returns the scenarios to try first, given an answer without scenarios.
pub fn first(answer: &Answer) -> Vec<Scenario> {
    worth_trying(&answer.shares, &answer.full, STATES, MIN_SHARE)
}

/// Returns scenarios for at most `states` states, none with less than the share `least` of the
/// path.
pub(super) fn worth_trying(shares: &[Share], full: &[FullQueue], states: usize, least: f64) -> Vec<Scenario> {
    let mut tried: Vec<Scenario> = Vec::new();
    for share in shares.iter().filter(|share| share.scales && share.share >= least && !is_wait_for_cpu(share)) {
        // The states of machines of one class are changed together.
        let scenario = Scenario::scale(share.class_or_link(), &share.state, 0.5);
        if tried.len() < states && !tried.contains(&scenario) {
            tried.push(scenario);
        }
    }
    tried.extend(full.iter().take(QUEUES).map(|(queue, capacity, _)| Scenario::capacity(queue, capacity.saturating_mul(4))));
    let waits = shares.iter().filter(|share| is_wait_for_cpu(share)).map(|share| share.share);
    if waits.sum::<f64>() >= least {
        tried.push(Scenario::cpus(1));
    }
    tried
}

/// The state is a wait for a CPU, which a change cannot shorten by itself.
pub fn is_wait_for_cpu(share: &Share) -> bool {
    share.kind.waits_for_cpu()
}

/// Changes in their best order: each is the best one after those before it.
#[derive(Clone, Debug, Default)]
pub struct Order {
    candidates: Vec<Scenario>,
    done: Option<Scenario>,
    pub steps: Vec<Prediction>,
}

impl Order {
    /// Begins with the best of the candidates; `predictions` are in the same order.
    pub fn new(candidates: Vec<Scenario>, predictions: &[Prediction]) -> Order {
        let mut order = Order { candidates, ..Order::default() };
        order.step(predictions);
        order
    }

    /// Returns what to try next; nothing if the order is complete.
    pub fn next(&self) -> Vec<Scenario> {
        match &self.done {
            Some(done) if self.steps.len() < MAX_CHANGES => self.candidates.iter().map(|candidate| done.with(candidate)).collect(),
            _ => Vec::new(),
        }
    }

    /// Takes the best of the candidates. Returns false if none brought anything.
    pub fn step(&mut self, predictions: &[Prediction]) -> bool {
        let gained = |prediction: &Prediction| prediction.gain.filter(|_| prediction.refused.is_none());
        let best = predictions
            .iter()
            .enumerate()
            .filter_map(|(at, it)| Some((at, it, gained(it)?)))
            .max_by(|a, b| a.2.total_cmp(&b.2).then(b.0.cmp(&a.0)));
        let before = self.steps.last().and_then(gained).unwrap_or(0.0);
        match best {
            Some((at, prediction, gain)) if (1.0 + gain) / (1.0 + before) >= 1.0 + MIN_GAIN && at < self.candidates.len() => {
                let fix = self.candidates.remove(at);
                self.done = Some(self.done.take().map_or_else(|| fix.clone(), |done| done.with(&fix)));
                self.steps.push(prediction.clone());
                true
            }
            _ => {
                self.done = None;
                false
            }
        }
    }
}
