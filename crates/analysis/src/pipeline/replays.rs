//! Replays with the changes that may be worth it, and the verdict by states of machines, which
//! needs the prediction for the best candidate.

use super::{Error, Interactions, Spool};
use crate::critical_path::{Answer, Path};
use crate::findings::Rules;
use crate::verdict::data::Verdict;
use crate::verdict::limits::Limits;
use crate::verdict::lost_events;
use crate::verdict::pairs::{PairPrediction, Pairs};
use crate::verdict::questions::machine_states::{self, Candidate, Surroundings};
use crate::what_if::likely_scenarios::{self, Proposals};
use crate::what_if::{self, propose, FullQueue, Prediction, Scenario};
use longpole_trace::Trace;

/// Memory for tokens in flight, in bytes. This is less than in a run that only predicts, because
/// the path needs memory at the same time.
const MAX_BYTES: usize = 64 << 20;

fn options(scenarios: Vec<Scenario>) -> what_if::Options {
    what_if::Options { scenarios, most_bytes: MAX_BYTES, ..what_if::Options::default() }
}

/// The path that is replayed, and what is known of it before the replays.
pub(super) struct Replays<'a> {
    pub interactions: &'a Interactions,
    pub spool: &'a Spool,
    pub answer: &'a Answer,
    pub segments: &'a Path,
    /// Machines that waited while a CPU was idle, with their shares.
    pub idle: &'a [(String, f64)],
    /// Queues in which a machine waited for room.
    pub full: &'a [FullQueue],
    /// Changes of whole subjects.
    pub of_subjects: &'a [Scenario],
    pub lost: u64,
    pub tells_running: bool,
    pub rules: &'a Rules,
    pub limits: &'a Limits,
}

/// The result of the replays.
pub(super) struct Replayed {
    /// The verdict by states of machines.
    pub by_states: Verdict,
    pub predictions: Vec<Prediction>,
    /// The replay without changes.
    pub unchanged: what_if::Answer,
    /// The best pair of changes.
    pub together: Option<PairPrediction>,
}

/// The predictions of a round of guessed changes.
struct Guessed {
    /// `None` if the guesses do not suffice, and the changes must be predicted one by one.
    predictions: Option<Vec<Prediction>>,
    unchanged: what_if::Answer,
    of_subjects: Vec<Prediction>,
    together: Option<PairPrediction>,
}

impl Replays<'_> {
    pub fn run(&self, mut candidates: Vec<Candidate>) -> Result<Replayed, Error> {
        let is_recorder = self.interactions.knows_recorder();
        candidates.retain(|candidate| !is_recorder(candidate.owner()));
        let fix = candidates.first().map(Candidate::fix);
        // If a change makes a machine call less often, the replay distinguishes more states than a
        // replay without changes; such a fix is not guessed, but predicted in a replay of its own.
        let guessed = fix.as_ref().filter(|fix| !fix.batches()).map(|fix| self.guess(fix)).transpose()?;
        let (mut predictions, unchanged, of_subjects, together) = match guessed {
            Some(Guessed { predictions: Some(predictions), unchanged, of_subjects, together }) => {
                (predictions, unchanged, of_subjects, together)
            }
            guessed => {
                let (predictions, unchanged) = self.propose(fix.as_ref())?;
                let (of_subjects, together) = guessed.map_or_else(Default::default, |it| (it.of_subjects, it.together));
                (predictions, unchanged, of_subjects, together)
            }
        };
        let is_new = |prediction: &Prediction| predictions.iter().all(|known| known.changes != prediction.changes);
        let new: Vec<Prediction> = of_subjects.into_iter().filter(is_new).collect();
        predictions.extend(new);
        let brings = fix.and_then(|fix| predictions.iter().find(|prediction| prediction.is_of(&fix)));
        let context = Surroundings {
            is_recorder: &is_recorder,
            idle: self.idle,
            predictions: &predictions,
            again: &lost_events::remedy(self.interactions.trace().and_then(Trace::full_ring)),
            shows_running: self.tells_running,
        };
        let by_states = machine_states::verdict(self.answer, self.segments, &candidates, brings, self.lost, &context, &self.rules.path);
        Ok(Replayed { by_states, predictions, unchanged, together })
    }

    /// Predicts guessed changes of states and subjects, alone and in pairs, in one replay.
    fn guess(&self, fix: &Scenario) -> Result<Guessed, Error> {
        let mut guessed = likely_scenarios::scenarios(self.answer, self.segments, self.full);
        guessed.extend(Some(fix).filter(|fix| !guessed.contains(fix)).cloned());
        let pairs = Pairs::of(&guessed, self.of_subjects);
        guessed.extend(self.of_subjects.iter().cloned());
        guessed.extend(pairs.scenarios());
        let replay = |scenarios: Vec<Scenario>| self.replay(what_if::Options { guessed: true, ..options(scenarios) });
        let unchanged = replay(guessed)?;
        let is_of_subject = |prediction: &&Prediction| self.of_subjects.iter().any(|scenario| prediction.is_of(scenario));
        let of_subjects = unchanged.predictions.iter().filter(is_of_subject).cloned().collect();
        let together = pairs.best(&unchanged.predictions, self.limits);
        let mut proposals = Proposals::new(unchanged.clone(), Some(fix));
        let missed = proposals.missed();
        if !missed.is_empty() {
            proposals.add(replay(missed)?.predictions);
        }
        Ok(Guessed { predictions: proposals.predictions(), unchanged, of_subjects, together })
    }

    /// Predicts the changes that a replay without changes proposes, and the fix. Also returns that
    /// replay's answer.
    fn propose(&self, fix: Option<&Scenario>) -> Result<(Vec<Prediction>, what_if::Answer), Error> {
        let unchanged = self.replay(options(Vec::new()))?;
        let first = propose::first(&unchanged);
        let mut tried = first.clone();
        tried.extend(fix.filter(|fix| !tried.contains(fix)).cloned());
        // Some fixes cannot be replayed: a link without a queue, for example, has no name that can
        // be typed.
        let predicted = self.replay(options(tried)).or_else(|_| self.replay(options(first)))?;
        Ok((predicted.predictions, unchanged))
    }

    /// Replays the spool. Changes of the recorder's own work are not proposed.
    fn replay(&self, options: what_if::Options) -> Result<what_if::Answer, Error> {
        let is_recorder = self.interactions.knows_recorder();
        let mut answer = self.interactions.what_if_from_spool(self.spool, options)?;
        answer.shares.retain(|share| !is_recorder(&share.machine));
        Ok(answer)
    }
}
