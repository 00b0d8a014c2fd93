//! The verdict by queues: the stage after a full queue and before an empty one, and the state in
//! which it spends its time.
//!
//! The stage is the one that causes most of the waiting ([`crate::wait_graph::blame`]): stages
//! before it wait for space in its input queue, and stages after it for its items. Its state is the
//! one with the largest share of its work ([`crate::findings::shares`]). Both must lead by more
//! than the statistical error; otherwise the verdict is that none leads, with the reason.

use crate::findings::shares::Share;
use crate::findings::stage_evidence::{NoLead, Prepared, StageEvidence};
use crate::findings::{Finding, Thresholds};
use crate::stats::windows::probe_ns;
use crate::verdict::data::because::Because;
use crate::verdict::data::caveat::Caveat;
use crate::verdict::data::figures::{Found, StateShare, WaitedFor};
use crate::verdict::data::{Basis, Named, Outcome, StateNamed, SubjectLevel, SubjectState, Verdict};
use crate::verdict::limits::MIN_NEIGHBOUR_WAIT;
use crate::verdict::lost_events::too_many_lost;
use longpole_model::actors::ActorId;
use longpole_model::interaction::QueueId;
use longpole_model::system::activity::State;

/// Largest number of nested calls that are followed from a caller to the callee that works.
const MAX_CALLS: usize = 8;

impl StageEvidence<'_> {
    /// Returns the verdict by queues, and all findings about stages and queues.
    pub fn verdict_and_findings(&self) -> (Verdict, Vec<Finding>) {
        let prepared = self.prepare();
        let (verdict, slowest) = self.verdict(&prepared);
        let found = verdict.outcome == Outcome::Bottleneck;
        let findings = self.rules.findings(&self.facts(&prepared, found));
        // A stage may be slow because of its activity between its states. A finding then gives the
        // cause.
        let first = findings.first().filter(|finding| finding.share >= self.rules.stages.min_finding);
        let cause = first.filter(|finding| finding.is_cause());
        // A single thread for which no other waits may still waste its time.
        if let (false, Some(alone), true) = (found, first.filter(|finding| finding.machine.is_some()), self.stages(&prepared).len() < 2) {
            let because = [verdict.because, vec![Because::ByItself(Found::of(alone))]].concat();
            return (Verdict { because, ..verdict }, findings);
        }
        let verdict = match (found, slowest, cause) {
            (false, Some(stage), Some(cause)) if cause.machine.as_deref() == Some(&prepared.names[stage]) => {
                self.of_finding(&prepared, stage, cause)
            }
            _ => verdict,
        };
        (verdict, findings)
    }

    /// Returns a verdict with a finding about the slowest stage as the cause.
    fn of_finding(&self, prepared: &Prepared, stage: usize, cause: &Finding) -> Verdict {
        let machine = ActorId(stage as u32);
        let because = [vec![Because::Finding(Found::of_it(cause))], self.further_reasons(prepared, stage)].concat();
        let verdict = self.of_stages(prepared, Outcome::Bottleneck, because);
        Verdict { unknown_share: Some(self.unknown_share(machine, &self.shares(prepared, machine))), evidence: cause.evidence, ..verdict }
            .about(&prepared.names[stage], cause.state.as_deref().map(declared))
            .with_share(Some(cause.share), cause.error)
    }

    /// Returns a verdict about the stages as such.
    fn of_stages(&self, prepared: &Prepared, outcome: Outcome, because: Vec<Because>) -> Verdict {
        Verdict {
            because,
            lost: self.step_pass.lost,
            uncounted_losses: self.step_pass.uncounted_losses,
            evidence: prepared.whole,
            ..Verdict::new(outcome, Basis::Stages)
        }
    }

    /// Returns the verdict, and the slowest stage if there is one but none of its states leads.
    fn verdict(&self, prepared: &Prepared) -> (Verdict, Option<usize>) {
        let thresholds = &self.rules.stages;
        let lossy = too_many_lost(self.step_pass.lost, self.step_pass.events) || self.step_pass.uncounted_losses > 0;
        let lost_events = || Caveat::LostEvents { count: self.step_pass.lost, remedy: self.again.to_owned() };
        let no = |outcome: Outcome, because: Vec<Because>| Verdict {
            caveats: lossy.then(lost_events).into_iter().collect(),
            ..self.of_stages(prepared, outcome, because)
        };
        let stages = self.stages(prepared);
        let blame = &prepared.blame;
        let most = stages.iter().max_by(|&&a, &&b| blame.share[a].total_cmp(&blame.share[b]));
        let Some(&stage) = most.filter(|_| stages.len() >= 2) else {
            let why = if self.step_pass.events == 0 { Because::NoProbes } else { Because::NoStages };
            return (Verdict { basis: Basis::Probes, ..no(Outcome::Unknown, vec![why]) }, None);
        };
        let nothing = |because: Vec<Because>| no(if lossy { Outcome::Unknown } else { Outcome::Spread }, because);
        let named = || Named::of_name(SubjectLevel::Thread, &prepared.names[stage]);
        let (mut waited, mut lived) = (0.0, 0.0);
        for &other in stages.iter().filter(|&&other| other != stage) {
            waited += blame.waits[other] * blame.total_ns[other] as f64;
            lived += blame.total_ns[other] as f64;
        }
        let waiting = if lived > 0.0 { waited / lived } else { 0.0 };
        if waiting < thresholds.min_wait {
            return (nothing(vec![Because::LittleWaiting { share: waiting }]), None);
        }
        if blame.share[stage] < thresholds.min_blame {
            return (nothing(vec![Because::NoSingleCause { most: named(), share: blame.share[stage] }]), None);
        }
        if blame.busy[stage] < thresholds.min_busy {
            return (nothing(vec![Because::LittleWork { stage: named(), share: blame.busy[stage] }]), None);
        }
        let shares = self.shares(prepared, ActorId(stage as u32));
        let unknown = self.unknown_share(ActorId(stage as u32), &shares);
        let unseen = self.unseen_share(ActorId(stage as u32), &shares);
        if unseen > thresholds.max_unknown {
            let lost = prepared.pools.of(stage).iter().any(|&at| self.step_pass.lost_of.contains_key(&ActorId(at as u32)));
            let caveats = (lossy || lost).then(lost_events).into_iter().collect();
            let verdict = no(Outcome::Unknown, vec![Because::LittleKnown { stage: named(), share: unseen }]);
            return (Verdict { unknown_share: Some(unknown), caveats, ..verdict }, None);
        }
        if let Some(reason) = self.why_no_state_leads(ActorId(stage as u32), &shares) {
            return (nothing(vec![Because::SlowestStage { stage: named() }, reason]), Some(stage));
        }
        // The list is not empty: an empty one would have yielded a reason above.
        let first = &shares[0];
        let blamed = self.follow_calls(prepared, ActorId(stage as u32), first, thresholds);
        let called_by = blamed.as_ref().map(|_| Because::CalledBy { caller: named(), call: first.name.clone() });
        let because = called_by.into_iter().chain(self.further_reasons(prepared, stage)).collect();
        let (machine, state, share) = match &blamed {
            Some((machine, share)) => (machine.0 as usize, &share.name, share.share),
            None => (stage, &first.name, first.share),
        };
        let verdict =
            Verdict { unknown_share: Some(unknown), evidence: first.evidence, ..self.of_stages(prepared, Outcome::Bottleneck, because) };
        (verdict.about(&prepared.names[machine], Some(declared(state))).with_share(Some(share), Some(first.error)), None)
    }

    /// Returns the reason for which no state of the machine leads, or `None` if one does.
    fn why_no_state_leads(&self, machine: ActorId, shares: &[Share]) -> Option<Because> {
        let measured = |share: &Share| StateShare { state: declared(&share.name), share: share.share, error: share.error };
        let first = shares.first();
        let (name, share) = first.map_or(("", 0.0), |first| (first.name.as_str(), first.share));
        Some(match (self.no_lead(machine, shares)?, first) {
            (NoLead::ManyNames, _) => Because::ManyNames { share },
            (NoLead::NotNamed, _) => Because::WorkNotNamed { share },
            (NoLead::FewCalls, _) => Because::FewCalls { call: name.to_owned() },
            (NoLead::Close { is_ahead }, Some(first)) => {
                Because::NoStateLeads { first: measured(first), next: shares.get(1).map(measured), is_ahead }
            }
            (NoLead::NoWork | NoLead::Close { .. }, _) => Because::NoWork,
        })
    }

    /// Returns the callee and its state if the time of a call is the callee's work, which is then
    /// the cause.
    fn follow_calls(&self, prepared: &Prepared, caller: ActorId, first: &Share, thresholds: &Thresholds) -> Option<(ActorId, Share)> {
        let mut blamed = None;
        let (mut caller, mut state, mut share) = (caller, first.state, first.share);
        for _ in 0..MAX_CALLS {
            let State::Call(call) = state else { break };
            let Some((callee, served)) = self.latencies.service(call, caller) else { break };
            if served < thresholds.min_service || callee == caller {
                break;
            }
            let shares = self.shares(prepared, callee);
            // The other work of the callee does not belong to this call.
            let Some(next) = shares.iter().find(|share| share.named && share.state != State::Reentry) else { break };
            share *= served * next.share;
            let mut next = next.clone();
            (caller, state) = (callee, next.state);
            next.share = share;
            blamed = Some((callee, next));
        }
        blamed
    }

    /// Returns the share of the stage's time that the probes took, which is left out of all shares.
    /// `None` if it was not measured.
    fn probe_share(&self, machine: ActorId) -> Option<f64> {
        if self.probe_cost_ps == 0 {
            return None;
        }
        let (mut probes, mut all) = (0, 0);
        for (cell, total) in self.step_pass.activity.cells().iter().zip(self.step_pass.activity.totals()) {
            if cell.actor == machine && !cell.state.is_idle() {
                probes += probe_ns(*total, self.probe_cost_ps);
                all += total.ns;
            }
        }
        Some(if all > 0 { probes as f64 / all as f64 } else { 0.0 })
    }

    /// Returns further reasons about a stage that is the bottleneck: the probes' cost, the number
    /// of threads that do the same, and the waits of stages next to it.
    fn further_reasons(&self, prepared: &Prepared, stage: usize) -> Vec<Because> {
        let mut out = vec![Because::ProbeCost { share: self.probe_share(ActorId(stage as u32)) }];
        out.extend(prepared.pools.members.get(&stage).map(|members| Because::SameThreads { count: members.len() as u64 }));
        out.extend(self.neighbours(prepared, stage));
        out
    }

    /// Returns the two stages that wait most for this stage.
    fn neighbours(&self, prepared: &Prepared, stage: usize) -> Vec<Because> {
        let Some(facts) = self.stages.of(ActorId(stage as u32)) else { return Vec::new() };
        let cells = self.step_pass.activity.cells().iter().zip(self.step_pass.activity.totals());
        let leader = |machine: ActorId| prepared.pools.leader[machine.0 as usize];
        // Entries of waiting stage, object of the wait, queue, and time.
        let mut waits: Vec<(usize, WaitedFor, QueueId, u64)> = Vec::new();
        for (cell, total) in cells {
            let waits_for = match cell.state {
                _ if leader(cell.actor) == stage => continue,
                State::WaitFull(queue) if facts.inputs.iter().any(|input| input.queue == Some(queue)) => WaitedFor::Space,
                State::WaitEmpty(queue) if facts.outputs.iter().any(|output| output.queue == queue) => WaitedFor::Items,
                _ => continue,
            };
            let (State::WaitFull(queue) | State::WaitEmpty(queue)) = cell.state else { continue };
            let who = leader(cell.actor);
            match waits.iter_mut().find(|known| (known.0, known.1, known.2) == (who, waits_for, queue)) {
                Some(known) => known.3 += total.ns,
                None => waits.push((who, waits_for, queue, total.ns)),
            }
        }
        for (at, left) in prepared.blame.backlog.iter().enumerate() {
            if let Some((queue, ns)) = left.filter(|(queue, _)| facts.inputs.iter().any(|input| input.queue == Some(*queue))) {
                waits.push((prepared.pools.leader[at], WaitedFor::Backlog, queue, ns));
            }
        }
        let of_time = |&(who, _, _, ns): &(usize, WaitedFor, QueueId, u64)| ns as f64 / prepared.blame.total_ns[who].max(1) as f64;
        waits.retain(|wait| of_time(wait) >= MIN_NEIGHBOUR_WAIT);
        waits.sort_by_key(|&(who, _, queue, ns)| (std::cmp::Reverse(ns), who, queue));
        waits.truncate(2);
        let because = |wait: &(usize, WaitedFor, QueueId, u64)| {
            let (who, waits_for, queue, _) = *wait;
            let waiter = Named::of_name(SubjectLevel::Thread, &prepared.names[who]);
            let queue = self.vocabulary.program_queue_name(queue).to_owned();
            Because::Waits { waiter, share: of_time(wait), waits_for, queue }
        };
        waits.iter().map(because).collect()
    }
}

/// Returns a state with the name that a probe gave it.
fn declared(name: &str) -> StateNamed {
    StateNamed { kind: SubjectState::Declared, name: name.to_owned() }
}
