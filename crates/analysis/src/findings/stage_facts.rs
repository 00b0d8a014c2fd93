//! The facts about stages for the rules of findings ([`crate::findings`]): per call, signal, batch
//! and state of the stages for which others wait, and per queue. Rules use the names of facts as
//! they are given here.

use super::stage_evidence::{Prepared, StageEvidence};
use crate::findings::shares::{without_long_stays, Share};
use crate::findings::{Facts, Scope};
use crate::scheduling::probed::state_name;
use crate::stages::Stage;
use crate::stats::windows::net;
use longpole_model::actors::ActorId;
use longpole_model::interaction::QueueId;
use longpole_model::names::NameId;
use longpole_model::system::activity::{State, Total};
use std::collections::HashMap;

impl StageEvidence<'_> {
    pub(crate) fn facts(&self, prepared: &Prepared, verdict: bool) -> Vec<Facts> {
        let vocabulary = self.vocabulary;
        let verdict = if verdict { 1.0 } else { 0.0 };
        let stages = self.stages(prepared);
        let thresholds = &self.rules.verdict;
        let blamed: Vec<usize> = stages.iter().copied().filter(|&at| prepared.blame.share[at] >= thresholds.min_stage_blame).collect();
        let judged = if blamed.is_empty() {
            stages.into_iter().filter(|&at| prepared.blame.busy[at] >= thresholds.min_busy).collect()
        } else {
            blamed
        };
        let mut out = Vec::new();
        for at in judged {
            let machine = ActorId(at as u32);
            let Some(stage) = self.stages.of(machine) else { continue };
            let shares = self.shares(prepared, machine);
            let work: u64 = shares.iter().map(|share| share.ns).sum();
            // Counts of a pool are those of all members; shares are those of the leader.
            let pool = prepared.pools.of(at);
            let summed = (pool.len() > 1).then(|| Stage::sum(pool.iter().filter_map(|&at| self.stages.of(ActorId(at as u32)))));
            let all = summed.as_ref().unwrap_or(stage);
            let items = all.items();
            // No facts about stages of which little is known.
            if work == 0 || items == 0 || self.unseen_share(machine, &shares) > thresholds.max_unknown {
                continue;
            }
            let blame = prepared.blame.share[at].max(1e-9);
            let name = prepared.names[at].clone();
            let by_state: HashMap<State, &Share> = shares.iter().map(|share| (share.state, share)).collect();
            let signalling: u64 = stage
                .signalling
                .iter()
                .filter(|(state, _)| by_state.contains_key(state))
                .map(|(_, total)| net(without_long_stays(*total), self.probe_cost_ps))
                .sum();
            let share_of = |total: Total| net(without_long_stays(total), self.probe_cost_ps) as f64 / work as f64;
            let unit = if self.takes_portions(stage) { "portions" } else { "units" };
            let per_item = |count: u64| count as f64 / items as f64;
            let facts =
                |scope, texts: Vec<(&'static str, String)>, share: f64, count: u64, more: &[(&'static str, f64)], error, evidence| {
                    let mut numbers = vec![("share", share), ("count", count as f64), ("verdict", verdict), ("blame", blame)];
                    numbers.extend_from_slice(more);
                    let mut named = vec![("machine", name.clone())];
                    named.extend(texts);
                    Facts { scope, texts: named, numbers, error, process: None, evidence }
                };
            let mut calls: Vec<(NameId, u64)> = all.calls.iter().map(|(&call, &count)| (call, count)).collect();
            calls.sort_unstable();
            for (call, count) in calls {
                let of_call = by_state.get(&State::Call(call));
                out.push(facts(
                    Scope::Call,
                    vec![("call", vocabulary.names.text(call).to_owned()), ("items", unit.to_owned())],
                    of_call.map_or(0.0, |share| share.share),
                    count,
                    &[("calls_per_item", per_item(count))],
                    of_call.map(|share| share.error),
                    of_call.map_or(prepared.whole, |share| share.evidence),
                ));
            }
            let submits: u64 = all.signals.iter().map(|signal| signal.submits - signal.self_sent).sum();
            let mut cost = Total::default();
            for signal in stage.signals.iter().filter(|signal| signal.submits > signal.self_sent) {
                cost.ns += signal.cost.ns;
                cost.probes += signal.cost.probes;
                cost.long_ns += signal.cost.long_ns;
                cost.longs += signal.cost.longs;
            }
            let cells = self.session.activity.cells();
            let of_states = |wanted: &dyn Fn(State) -> bool| -> Vec<usize> {
                prepared.cells_of(machine).iter().copied().filter(|&at| wanted(cells[at].state)).collect()
            };
            if let (true, Some(inner)) = (submits > 0, all.inner_signals_per_item()) {
                let cells = of_states(&|state| stage.signalling.contains_key(&state));
                out.push(facts(
                    Scope::Signal,
                    Vec::new(),
                    share_of(cost),
                    submits,
                    &[("signals_per_item", per_item(submits)), ("inner_per_item", inner)],
                    self.error_within(prepared, machine, &cells, share_of(cost)),
                    prepared.strongest(&cells),
                ));
            }
            let cells = of_states(&|state| state == State::Reentry);
            let largest = all.inputs.iter().map(|input| input.items).max().unwrap_or(0);
            for input in all.inputs.iter().filter(|input| input.items >= largest / 2 && input.resubmitted.batches > 0) {
                let ended = &input.resubmitted;
                let of = |part: u64, whole: u64| if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
                let (limit, at_limit) = ended.sizes.buckets().max_by_key(|&(_, count)| count).unwrap_or((0, 0));
                let queue = input.queue.map_or("", |queue| vocabulary.program_queue_name(queue));
                // State in which items are submitted again.
                let state = stage.resubmits.iter().max_by_key(|&(&state, &count)| (count, state_name(vocabulary, state)));
                let mut texts = vec![("queue", queue.to_owned())];
                texts.extend(state.map(|(&state, _)| ("state", state_name(vocabulary, state))));
                out.push(facts(
                    Scope::Batch,
                    texts,
                    share_of(stage.reentry),
                    ended.batches,
                    &[
                        ("resubmitted", of(ended.batches, input.batches)),
                        ("at_limit", of(at_limit, ended.batches)),
                        ("with_more", of(ended.with_more, ended.batches)),
                        ("limit", limit as f64),
                        ("of_loop", share_of(stage.reentry) * work as f64 / work.saturating_sub(signalling).max(1) as f64),
                    ],
                    self.error_within(prepared, machine, &cells, share_of(stage.reentry)),
                    prepared.strongest(&cells),
                ));
            }
            let stands_out = self.no_lead(machine, &shares).is_none();
            for (rank, share) in shares.iter().enumerate() {
                out.push(facts(
                    Scope::State,
                    vec![("state", share.name.clone())],
                    share.share,
                    items,
                    &[("stands_out", f64::from(u8::from(rank == 0 && stands_out)))],
                    Some(share.error),
                    share.evidence,
                ));
            }
        }
        let mut waits: HashMap<State, Vec<usize>> = HashMap::new();
        for (at, cell) in self.session.activity.cells().iter().enumerate() {
            if let State::WaitFull(_) | State::WaitEmpty(_) = cell.state {
                waits.entry(cell.state).or_default().push(at);
            }
        }
        for (at, &(full, empty)) in prepared.fullness.iter().enumerate() {
            let queue = QueueId(at as u32);
            if self.queues.producers(queue).is_empty() || self.queues.consumers(queue).is_empty() {
                continue;
            }
            let (full, empty) = (full.unwrap_or(0.0), empty.unwrap_or(0.0));
            let waiting = if full >= empty { State::WaitFull(queue) } else { State::WaitEmpty(queue) };
            out.push(Facts {
                scope: Scope::Queue,
                texts: vec![("queue", vocabulary.program_queue_name(queue).to_owned())],
                numbers: vec![
                    ("share", full.max(empty)),
                    ("count", self.queues.puts(queue) as f64),
                    ("verdict", verdict),
                    ("full", full),
                    ("empty", empty),
                ],
                error: None,
                process: None,
                evidence: waits.get(&waiting).map_or(prepared.whole, |cells| prepared.strongest(cells)),
            });
        }
        out
    }

    /// Returns the number of calls per item. A queue of bytes has portions instead of items: one
    /// call per portion is then what a batch should do, so each call counts half.
    pub(crate) fn calls_per_item(&self, machine: ActorId, call: NameId) -> f64 {
        let Some(stage) = self.stages.of(machine) else { return 0.0 };
        let calls = stage.calls.get(&call).copied().unwrap_or(0);
        let per_item = calls as f64 / stage.items().max(1) as f64;
        if self.takes_portions(stage) {
            per_item / 2.0
        } else {
            per_item
        }
    }

    pub(crate) fn takes_portions(&self, stage: &Stage) -> bool {
        let main = stage.main_input().and_then(|at| stage.inputs[at].queue);
        let queue = main.or(stage.outputs.first().map(|output| output.queue));
        queue.is_some_and(|queue| self.session.scene(self.vocabulary).is_of_bytes(queue))
    }
}
