//! Likely scenarios: guesses of the changes that will be proposed, so that one replay both finds
//! and answers them.
//!
//! The proposals follow from a replay without changes ([`propose::first`]), and that world is part
//! of each replay. So a replay of the changes that the critical path suggests also yields the
//! proposals, and shows which of them were guessed. The others need a second replay.

use super::answer::{Answer, Prediction, Share};
use super::full_queues::FullQueue;
use super::grammar::Scenario;
use super::propose::{self, MIN_SHARE, STATES};
use crate::critical_path::{self, Path, Row};
use longpole_model::kinds::{LinkKind, SegmentKind, StateKind, LINK};

/// The path and the replay differ, so some more states, and smaller ones, are tried. A state that
/// is missed costs another replay, which takes as long as dozens of further changes in this one.
const MORE_STATES: usize = 4;
const MARGIN: f64 = 0.7;
/// If they differ more, the replay's path goes through busy states, or through links without a
/// queue.
const BUSY: usize = 6;
const LINKS: usize = 4;

/// Returns the scenarios that are likely to be proposed.
pub fn scenarios(answer: &critical_path::Answer, path: &Path, full: &[FullQueue]) -> Vec<Scenario> {
    let shares: Vec<Share> = answer.criticality.iter().map(share).collect();
    let mut likely = propose::worth_trying(&shares, full, STATES + MORE_STATES, MARGIN * MIN_SHARE);
    let busy = answer.busy.iter().filter(|busy| busy.share >= MIN_SHARE).take(BUSY).map(|busy| (busy.class.as_str(), busy.state.as_str()));
    let mut links: Vec<&str> = path.wakeups().collect();
    links.sort_unstable();
    links.dedup();
    let links = links.into_iter().take(LINKS).map(|state| (LINK, state));
    let more = busy.chain(links).map(|(of, state)| Scenario::scale(of, state, 0.5));
    let has_waits = shares.iter().any(propose::is_wait_for_cpu);
    for scenario in more.chain(has_waits.then(|| Scenario::cpus(1))) {
        if !likely.contains(&scenario) {
            likely.push(scenario);
        }
    }
    likely
}

fn share(row: &Row) -> Share {
    let is_wait = match row.kind {
        SegmentKind::Link(kind) => kind == LinkKind::Queued,
        SegmentKind::State(kind) => {
            matches!(kind, StateKind::Blocked | StateKind::Unknown | StateKind::Interrupted | StateKind::Runnable)
        }
    };
    let [host, machine, class, state] = [&row.host, &row.machine, &row.class, &row.state].map(String::clone);
    Share { host, machine, class, state, kind: row.kind, share: row.share, scales: !is_wait }
}

/// The proposals, and the predictions for them that a replay of guesses has made.
#[derive(Clone, Debug)]
pub struct Proposals {
    scenarios: Vec<Scenario>,
    answered: Vec<Prediction>,
}

impl Proposals {
    /// Computes the proposals. `fix` is added if its names occur.
    pub fn new(answer: Answer, fix: Option<&Scenario>) -> Proposals {
        let mut scenarios = propose::first(&answer);
        let answered = answer.predictions;
        let is_answered = |scenario: &Scenario| answered.iter().any(|prediction| prediction.is_of(scenario));
        scenarios.extend(fix.filter(|fix| !scenarios.contains(fix) && is_answered(fix)).cloned());
        Proposals { scenarios, answered }
    }

    /// Returns the proposals that were not guessed. A replay of these alone answers them, since
    /// worlds do not depend on each other.
    pub fn missed(&self) -> Vec<Scenario> {
        self.scenarios.iter().filter(|scenario| self.of(scenario).is_none()).cloned().collect()
    }

    /// Adds the predictions of that replay.
    pub fn add(&mut self, more: Vec<Prediction>) {
        self.answered.extend(more);
    }

    /// Returns the predictions; `None` if some are missing.
    pub fn predictions(&self) -> Option<Vec<Prediction>> {
        self.scenarios.iter().map(|scenario| self.of(scenario).cloned()).collect()
    }

    fn of(&self, scenario: &Scenario) -> Option<&Prediction> {
        self.answered.iter().find(|prediction| prediction.is_of(scenario))
    }
}
