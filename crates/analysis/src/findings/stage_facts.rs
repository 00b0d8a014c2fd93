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

/// One stage whose facts are collected.
struct OneStage<'a> {
    evidence: &'a StageEvidence<'a>,
    prepared: &'a Prepared,
    machine: ActorId,
    stage: &'a Stage,
    /// Sum of the stages of its pool; `stage` if there is no pool. Counts are those of the pool,
    /// and shares are those of `stage`, its leader.
    all: &'a Stage,
    /// Shares of the stage's work, by state.
    shares: &'a [Share],
    /// Working time of the stage in ns.
    work: u64,
    /// 1 if there is a bottleneck among the stages, otherwise 0; a fact of all rules.
    verdict: f64,
    /// The stage's part of the others' waiting; a fact of all rules.
    blame: f64,
}

impl StageEvidence<'_> {
    /// Returns all facts. `has_bottleneck` is true if one of the stages is the bottleneck.
    pub(crate) fn facts(&self, prepared: &Prepared, has_bottleneck: bool) -> Vec<Facts> {
        let verdict = if has_bottleneck { 1.0 } else { 0.0 };
        let stages = self.stages(prepared);
        let thresholds = &self.rules.stages;
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
            let pool = prepared.pools.of(at);
            let summed = (pool.len() > 1).then(|| Stage::sum(pool.iter().filter_map(|&at| self.stages.of(ActorId(at as u32)))));
            let all = summed.as_ref().unwrap_or(stage);
            // No facts about stages of which little is known.
            if work == 0 || all.items() == 0 || self.unseen_share(machine, &shares) > thresholds.max_unknown {
                continue;
            }
            let blame = prepared.blame.share[at].max(1e-9);
            let one = OneStage { evidence: self, prepared, machine, stage, all, shares: &shares, work, verdict, blame };
            one.calls(&mut out);
            out.extend(one.signals());
            one.batches(&mut out);
            one.states(&mut out);
        }
        self.queue_facts(prepared, verdict, &mut out);
        out
    }

    /// Adds the facts of each queue that has a producer and a consumer: how long it is full or
    /// empty.
    fn queue_facts(&self, prepared: &Prepared, verdict: f64, out: &mut Vec<Facts>) {
        let mut waits: HashMap<State, Vec<usize>> = HashMap::new();
        for (at, cell) in self.step_pass.activity.cells().iter().enumerate() {
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
            let numbers = vec![
                ("share", full.max(empty)),
                ("count", self.queues.puts(queue) as f64),
                ("verdict", verdict),
                ("full", full),
                ("empty", empty),
            ];
            let evidence = waits.get(&waiting).map_or(prepared.whole, |cells| prepared.strongest(cells));
            out.push(Facts::new(Scope::Queue, vec![("queue", self.vocabulary.program_queue_name(queue).to_owned())], numbers, evidence));
        }
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
        queue.is_some_and(|queue| self.step_pass.scene(self.vocabulary).is_of_bytes(queue))
    }
}

impl OneStage<'_> {
    /// Returns facts with a share of the stage's work and a count; `texts` and `more` are those of
    /// the scope. The error and the evidence are added by the caller.
    fn facts(&self, scope: Scope, texts: Vec<(&'static str, String)>, share: f64, count: u64, more: &[(&'static str, f64)]) -> Facts {
        let mut numbers = vec![("share", share), ("count", count as f64), ("verdict", self.verdict), ("blame", self.blame)];
        numbers.extend_from_slice(more);
        let mut named = vec![("machine", self.prepared.names[self.machine.0 as usize].clone())];
        named.extend(texts);
        Facts::new(scope, named, numbers, self.prepared.whole)
    }

    fn per_item(&self, count: u64) -> f64 {
        count as f64 / self.all.items() as f64
    }

    /// Returns the time in ns without long stays and without the probes' own cost.
    fn net(&self, total: Total) -> u64 {
        net(without_long_stays(total), self.evidence.probe_cost_ps)
    }

    fn share_of(&self, total: Total) -> f64 {
        self.net(total) as f64 / self.work as f64
    }

    /// Returns the positions of the stage's cells in the given states.
    fn cells(&self, wanted: impl Fn(State) -> bool) -> Vec<usize> {
        let cells = self.evidence.step_pass.activity.cells();
        self.prepared.cells_of(self.machine).iter().copied().filter(|&at| wanted(cells[at].state)).collect()
    }

    /// Returns the facts with the error and the strongest evidence of `cells`.
    fn with_cells(&self, facts: Facts, share: f64, cells: &[usize]) -> Facts {
        let error = self.evidence.error_within(self.prepared, self.machine, cells, share);
        Facts { error, evidence: self.prepared.strongest(cells), ..facts }
    }

    fn calls(&self, out: &mut Vec<Facts>) {
        let unit = if self.evidence.takes_portions(self.stage) { "portions" } else { "units" };
        let mut calls: Vec<(NameId, u64)> = self.all.calls.iter().map(|(&call, &count)| (call, count)).collect();
        calls.sort_unstable();
        for (call, count) in calls {
            let of_call = self.shares.iter().find(|share| share.state == State::Call(call));
            let texts = vec![("call", self.evidence.vocabulary.names.text(call).to_owned()), ("items", unit.to_owned())];
            let per_item = [("calls_per_item", self.per_item(count))];
            let facts = self.facts(Scope::Call, texts, of_call.map_or(0.0, |share| share.share), count, &per_item);
            out.push(match of_call {
                Some(share) => Facts { error: Some(share.error), evidence: share.evidence, ..facts },
                None => facts,
            });
        }
    }

    /// Returns the facts of the signals that the stage sends to others.
    fn signals(&self) -> Option<Facts> {
        let submits: u64 = self.all.signals.iter().map(|signal| signal.submits - signal.self_sent).sum();
        let inner = self.all.inner_signals_per_item().filter(|_| submits > 0)?;
        let mut cost = Total::default();
        for signal in self.stage.signals.iter().filter(|signal| signal.submits > signal.self_sent) {
            cost.ns += signal.cost.ns;
            cost.probes += signal.cost.probes;
            cost.long_ns += signal.cost.long_ns;
            cost.longs += signal.cost.longs;
        }
        let share = self.share_of(cost);
        let numbers = [("signals_per_item", self.per_item(submits)), ("inner_per_item", inner)];
        let cells = self.cells(|state| self.stage.signalling.contains_key(&state));
        Some(self.with_cells(self.facts(Scope::Signal, Vec::new(), share, submits, &numbers), share, &cells))
    }

    /// Adds the facts of the batches of the largest inputs that end at a limit and submit the rest
    /// again.
    fn batches(&self, out: &mut Vec<Facts>) {
        let OneStage { stage, all, work, .. } = *self;
        let vocabulary = self.evidence.vocabulary;
        let of = |part: u64, whole: u64| if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
        let signalling = stage.signalling.iter().filter(|(state, _)| self.shares.iter().any(|share| share.state == **state));
        let signalling: u64 = signalling.map(|(_, total)| self.net(*total)).sum();
        let share = self.share_of(stage.reentry);
        let of_loop = share * work as f64 / work.saturating_sub(signalling).max(1) as f64;
        let cells = self.cells(|state| state == State::Reentry);
        let largest = all.inputs.iter().map(|input| input.items).max().unwrap_or(0);
        for input in all.inputs.iter().filter(|input| input.items >= largest / 2 && input.resubmitted.batches > 0) {
            let ended = &input.resubmitted;
            let (limit, at_limit) = ended.sizes.buckets().max_by_key(|&(_, count)| count).unwrap_or((0, 0));
            let queue = input.queue.map_or("", |queue| vocabulary.program_queue_name(queue));
            // State in which items are submitted again.
            let state = stage.resubmits.iter().max_by_key(|&(&state, &count)| (count, state_name(vocabulary, state)));
            let mut texts = vec![("queue", queue.to_owned())];
            texts.extend(state.map(|(&state, _)| ("state", state_name(vocabulary, state))));
            let numbers = [
                ("resubmitted", of(ended.batches, input.batches)),
                ("at_limit", of(at_limit, ended.batches)),
                ("with_more", of(ended.with_more, ended.batches)),
                ("limit", limit as f64),
                ("of_loop", of_loop),
            ];
            out.push(self.with_cells(self.facts(Scope::Batch, texts, share, ended.batches, &numbers), share, &cells));
        }
    }

    fn states(&self, out: &mut Vec<Facts>) {
        let stands_out = self.evidence.no_lead(self.machine, self.shares).is_none();
        for (rank, share) in self.shares.iter().enumerate() {
            let numbers = [("stands_out", f64::from(u8::from(rank == 0 && stands_out)))];
            let facts = self.facts(Scope::State, vec![("state", share.name.clone())], share.share, self.all.items(), &numbers);
            out.push(Facts { error: Some(share.error), evidence: share.evidence, ..facts });
        }
    }
}
