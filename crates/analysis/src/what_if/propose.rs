//! What to try where nobody said it: the states that decide, the queues that were full; then, which fixes in which order.

use super::answer::{Answer, FullQueue, Prediction, Share};
use super::grammar::Scenario;

/// States that are tried.
pub(super) const STATES: usize = 8;
/// Queues that are tried.
const QUEUES: usize = 4;
/// Below this share of the path nothing is tried.
pub(super) const LEAST_SHARE: f64 = 0.01;
/// Fixes in a row.
const FIXES: usize = 5;
/// A fix that brings less is none.
const LEAST_GAIN: f64 = 0.01;

/// Which scenarios to try first, from an answer without any.
pub fn first(answer: &Answer) -> Vec<Scenario> {
    worth_trying(&answer.shares, &answer.full, STATES, LEAST_SHARE)
}

/// At most so many states, and none with less than this share of the path.
pub(super) fn worth_trying(shares: &[Share], full: &[FullQueue], states: usize, least: f64) -> Vec<Scenario> {
    let mut tried: Vec<Scenario> = Vec::new();
    for share in shares.iter().filter(|share| share.scales && share.share >= least && !is_wait_for_cpu(share)) {
        // Machines of a class have their states together.
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

/// It waits for a CPU, which is no state that a fix could make shorter by itself.
pub fn is_wait_for_cpu(share: &Share) -> bool {
    matches!(share.state.as_str(), "runnable" | "preempted" | "throttled") && share.class != "link"
}

/// Fixes, each the best one after those before it.
#[derive(Clone, Debug, Default)]
pub struct Order {
    candidates: Vec<Scenario>,
    done: Option<Scenario>,
    pub steps: Vec<Prediction>,
}

impl Order {
    /// The first step is the best of what was tried.
    pub fn new(candidates: Vec<Scenario>, predictions: &[Prediction]) -> Order {
        let mut order = Order { candidates, ..Order::default() };
        order.step(predictions);
        order
    }

    /// What to try next; nothing: this was all.
    pub fn next(&self) -> Vec<Scenario> {
        match &self.done {
            Some(done) if self.steps.len() < FIXES => self.candidates.iter().map(|candidate| done.with(candidate)).collect(),
            _ => Vec::new(),
        }
    }

    /// Takes the best of them. Says whether it brought anything.
    pub fn step(&mut self, predictions: &[Prediction]) -> bool {
        let gained = |prediction: &Prediction| prediction.gain.filter(|_| prediction.refused.is_none());
        let best = predictions
            .iter()
            .enumerate()
            .filter_map(|(at, it)| Some((at, it, gained(it)?)))
            .max_by(|a, b| a.2.total_cmp(&b.2).then(b.0.cmp(&a.0)));
        let so_far = self.steps.last().and_then(gained).unwrap_or(0.0);
        match best {
            Some((at, prediction, gain)) if (1.0 + gain) / (1.0 + so_far) >= 1.0 + LEAST_GAIN && at < self.candidates.len() => {
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
