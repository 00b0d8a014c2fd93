//! Proposes changes if the user named none, and the order in which to make them.

use super::{Error, Interactions, Spool};
use crate::what_if::propose::{self, Order};
use crate::what_if::{Answer, Options, Prediction, Scenario};

impl Interactions {
    /// Proposes changes. The trace is read once; its spooled interactions are read once per round.
    /// `options` returns the options of a replay with these scenarios. Returns the predictions of
    /// the single changes, and the steps of the best order, each with all earlier changes.
    pub fn propose(&mut self, options: impl Fn(Vec<Scenario>) -> Options) -> Result<(Answer, Vec<Prediction>), Error> {
        let (unchanged, spool) = self.what_if_and_spool(options(Vec::new()))?;
        self.propose_from_spool(unchanged, &spool, options)
    }

    /// Like [`Interactions::propose`], from spooled interactions. `unchanged` is the answer without
    /// a change.
    pub fn propose_from_spool(
        &self,
        mut unchanged: Answer,
        spool: &Spool,
        options: impl Fn(Vec<Scenario>) -> Options,
    ) -> Result<(Answer, Vec<Prediction>), Error> {
        let is_recorder = self.knows_recorder();
        unchanged.shares.retain(|share| !is_recorder(&share.machine));
        let pass = |scenarios| self.what_if_from_spool(spool, options(scenarios));
        let candidates = propose::first(&unchanged);
        if candidates.is_empty() {
            return Ok((unchanged, Vec::new()));
        }
        let mut answer = Answer { lost: unchanged.lost, ..pass(candidates.clone())? };
        let mut order = Order::new(candidates, &answer.predictions);
        loop {
            let next = order.next();
            if next.is_empty() || !order.step(&pass(next)?.predictions) {
                break;
            }
        }
        answer.predictions.sort_by(|a, b| b.gain.unwrap_or(f64::MIN).total_cmp(&a.gain.unwrap_or(f64::MIN)));
        Ok((answer, order.steps))
    }
}
