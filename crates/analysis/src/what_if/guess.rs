//! What will be proposed, guessed from the critical path, so that one replay tells it and answers it.
//!
//! What is proposed follows from a replay without changes ([`propose::first`]); that world stands beside the others in each replay. So a replay of what the
//! path lets expect says itself whether it answers all that is to be asked. What it does not is asked in a second one.

use super::propose::{self, LEAST_SHARE, STATES};
use super::{Answer, FullQueue, Prediction, Scenario, Share};
use crate::critical_path::{self, Path, Row};
use longpole_model::kinds::{LinkKind, SegmentKind, StateKind, LINK};

/// Path and replay differ a little: so many states more, and by so much smaller ones.
const MORE_STATES: usize = 2;
const MARGIN: f64 = 0.9;
/// Where they differ more, the replay goes through what is busy, or what is on its way without a queue.
const BUSY: usize = 6;
const LINKS: usize = 4;

/// What is likely to be asked.
pub fn scenarios(answer: &critical_path::Answer, path: &Path, full: &[FullQueue]) -> Vec<Scenario> {
    let shares: Vec<Share> = answer.criticality.iter().map(share).collect();
    let mut likely = propose::worth_trying(&shares, full, STATES + MORE_STATES, MARGIN * LEAST_SHARE);
    let busy =
        answer.busy.iter().filter(|busy| busy.share >= LEAST_SHARE).take(BUSY).map(|busy| (busy.class.as_str(), busy.state.as_str()));
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

/// What is to be asked after all, and what a replay of guesses has answered of it.
#[derive(Clone, Debug)]
pub struct Asked {
    scenarios: Vec<Scenario>,
    answered: Vec<Prediction>,
}

impl Asked {
    /// `fix` is asked beside what is proposed, if its names occur.
    pub fn new(answer: Answer, fix: Option<&Scenario>) -> Asked {
        let mut scenarios = propose::first(&answer);
        let answered = answer.predictions;
        let is_answered = |scenario: &Scenario| answered.iter().any(|prediction| prediction.change == scenario.text);
        scenarios.extend(fix.filter(|fix| !scenarios.contains(fix) && is_answered(fix)).cloned());
        Asked { scenarios, answered }
    }

    /// What nobody guessed. A replay of that alone answers the rest, since no world knows of the others.
    pub fn missed(&self) -> Vec<Scenario> {
        self.scenarios.iter().filter(|scenario| self.of(scenario).is_none()).cloned().collect()
    }

    /// That replay's answers.
    pub fn learn(&mut self, more: Vec<Prediction>) {
        self.answered.extend(more);
    }

    /// None: something is missed.
    pub fn predictions(&self) -> Option<Vec<Prediction>> {
        self.scenarios.iter().map(|scenario| self.of(scenario).cloned()).collect()
    }

    fn of(&self, scenario: &Scenario) -> Option<&Prediction> {
        self.answered.iter().find(|prediction| prediction.change == scenario.text)
    }
}
