//! The verdict: the stage behind a full and before an empty queue, and the state in which it spends its time.
//!
//! A stage is chosen by blame ([`crate::blame`]): upstream waits for its space, downstream for its tokens. Its state is the one that takes
//! most of its work ([`crate::shares`]). Both must stand out beyond the noise; else the verdict is that nothing stands out, with the reason.

use crate::blame::{is_stage, Blame};
use crate::findings::{Evidence, Finding, Rules, Thresholds};
use crate::latency::Latencies;
use crate::lineage::Answer;
use crate::pools::Pools;
use crate::queues::Queues;
use crate::session::Session;
use crate::shares::Share;
use crate::stages::Stages;
use crate::text::{number, percent};
use crate::windows::{probe_ns, Window};
use longpole_model::activity::State;
use longpole_model::actors::ActorId;
use longpole_model::interaction::{QueueId, Vocabulary};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    pub kind: VerdictKind,
    /// Why it is none. None: it is one.
    pub reason: Option<Reason>,
    pub machine: Option<String>,
    pub state: Option<String>,
    /// Of the stage's work, net of the probes' cost.
    pub share: Option<f64>,
    /// Two standard errors over the windows of the run.
    pub share_error: Option<f64>,
    /// Of the stage's time: in no state that a probe names, lost, interrupted, or spent waking others.
    pub unknown_share: Option<f64>,
    pub lost: u64,
    /// What in the trace does not fit together. None: there is no path, which would show it.
    pub doubts: Option<Doubts>,
    pub evidence: Evidence,
    pub text: String,
    /// The trace tells of stages, whatever is said of them.
    #[serde(skip)]
    pub of_stages: bool,
    /// Not one state, but why several take long.
    #[serde(skip)]
    pub of_cause: bool,
}

/// What cannot have been as the trace tells it: events are missing, or clocks differ, so that the verdict may be wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Doubts {
    pub contradictions: u64,
    /// Links that end before they begin.
    pub negative_links: u64,
    /// Wake-ups of machines that were not blocked.
    pub ignored_wakeups: u64,
}

impl Doubts {
    pub(crate) fn of(answer: &Answer) -> Doubts {
        Doubts { contradictions: answer.contradictions, negative_links: answer.negative_links, ignored_wakeups: answer.ignored_wakeups }
    }

    /// Whether so much is odd that nobody can say that nothing stands out.
    pub(crate) fn weigh(&self, interactions: u64) -> bool {
        (self.contradictions + self.negative_links) as f64 > MOST_ODD * interactions as f64
    }

    /// None: everything fits together.
    pub(crate) fn said(&self) -> Option<String> {
        let counts = [
            (self.contradictions, "contradiction", "contradictions"),
            (self.negative_links, "link that ends before it begins", "links that end before they begin"),
            (self.ignored_wakeups, "wake-up of what did not wait", "wake-ups of what did not wait"),
        ];
        let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
        let said: Vec<String> =
            counts.map(|(count, one, many)| format!("{} {}", number(count), if count == 1 { one } else { many })).collect();
        (!said.is_empty()).then(|| format!("{} in the trace: clocks, losses or misplaced probes", said.join(", ")))
    }
}

impl Verdict {
    /// Where nothing else stands out, the place at which most packets are lost does.
    pub(crate) fn or_lost(self, losses: Option<&Finding>) -> Verdict {
        let Some(finding) = losses.filter(|_| self.kind == VerdictKind::Nothing) else { return self };
        Verdict {
            kind: VerdictKind::Bottleneck,
            reason: None,
            machine: Some(finding.subject.clone()),
            state: Some("lost".to_owned()),
            share: Some(finding.share),
            share_error: finding.error,
            evidence: finding.evidence,
            text: format!(
                "{} is the bottleneck: {} of all packets are lost there, {} events lost; {}.",
                finding.subject,
                percent(finding.share),
                number(self.lost),
                finding.remedy
            ),
            ..self
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VerdictKind {
    Bottleneck,
    Nothing,
}

/// Why no bottleneck is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// What happens is known, and none of it is ahead of the rest.
    NothingStandsOut,
    /// Too little is known: it may be in what is lost or unknown.
    CannotBeTold,
}

impl Reason {
    /// How the sentence begins.
    pub fn begin(self) -> &'static str {
        match self {
            Reason::NothingStandsOut => "Nothing stands out",
            Reason::CannotBeTold => "No bottleneck can be told",
        }
    }
}

/// Of the events: where more of them are lost, that nothing is found says nothing.
const MOST_LOST: f64 = 0.01;

/// Of the interactions: where more of them contradict what came before, or end before they begin, the path is not what happened.
const MOST_ODD: f64 = 1e-5;

/// Whether nothing should be said that rests on these events without saying that many are missing.
pub fn too_many_lost(lost: u64, events: u64) -> bool {
    lost as f64 > MOST_LOST * (lost as f64 + events as f64)
}

pub struct Judge<'a> {
    pub session: &'a Session,
    pub vocabulary: &'a Vocabulary,
    pub queues: &'a Queues,
    pub stages: &'a Stages,
    pub latencies: &'a Latencies,
    pub probe_cost_ps: u64,
    /// What [`again`] says.
    pub again: &'a str,
    pub rules: &'a Rules,
}

/// A busy thread gets one of this size from the recorder. Where it is full, it is not room that is missing: four threads of 8 M events/s lost more with rings of
/// 16 MiB.
const LARGE: u64 = 4 << 20;

/// What helps where events are lost. `full`: the largest ring that lost some, if that is known.
pub fn again(full: Option<u64>) -> String {
    match full {
        Some(size @ LARGE..) => format!("; rings of {} MiB were full: record fewer events, or into memory (-o /dev/shm)", size >> 20),
        _ => "; record again with --buffer 4MiB".to_owned(),
    }
}

/// What is computed once for the verdict and the facts.
pub(crate) struct Prepared {
    pub names: Vec<String>,
    pub windows: Vec<Window>,
    pub fullness: Vec<(Option<f64>, Option<f64>)>,
    pub blame: Blame,
    pub pools: Pools,
    pub whole: Evidence,
    /// Per machine: where its cells stand.
    cells: Vec<Vec<usize>>,
    /// Filled by [`Judge::shares`].
    pub shares: RefCell<HashMap<ActorId, Rc<Vec<Share>>>>,
}

impl Prepared {
    /// The window in which these cells (in the order of the activity's) took most.
    pub fn strongest(&self, cells: &[usize]) -> Evidence {
        let part = |window: &Window| cells.iter().filter_map(|&at| window.added.get(at)).map(|total| total.ns).sum::<u64>();
        let best = self.windows.iter().map(|window| (part(window), window)).filter(|&(ns, _)| ns > 0).max_by_key(|&(ns, _)| ns);
        best.map_or(self.whole, |(_, window)| Evidence { start_ns: window.begin_ns, end_ns: window.end_ns })
    }

    pub fn cells_of(&self, machine: ActorId) -> &[usize] {
        self.cells.get(machine.0 as usize).map_or(&[], Vec::as_slice)
    }
}

impl Judge<'_> {
    pub fn judge(&self) -> (Verdict, Vec<Finding>) {
        let prepared = self.prepare();
        let (verdict, slowest) = self.verdict(&prepared);
        let found = verdict.kind == VerdictKind::Bottleneck;
        let findings = self.rules.judge(&self.facts(&prepared, found));
        // A stage may be slow by what it does between its states: then a finding says it.
        let first = findings.first().filter(|finding| finding.share >= self.rules.verdict.min_finding);
        let cause = first.filter(|finding| finding.is_cause());
        // One thread that nobody waits for may still waste its time.
        if let (false, Some(alone), true) = (found, first.filter(|finding| finding.machine.is_some()), self.stages(&prepared).len() < 2) {
            let text = format!("{} By itself, {}", verdict.text, alone.advice);
            return (Verdict { text, ..verdict }, findings);
        }
        match (found, slowest, cause) {
            (false, Some(stage), Some(cause)) if cause.machine.as_deref() == Some(&prepared.names[stage]) => {
                let shares = self.shares(&prepared, ActorId(stage as u32));
                let text = format!(
                    "{} is the bottleneck: it{}, {} of its time unknown{}{}; {}.{}",
                    prepared.names[stage],
                    cause.what.strip_prefix(&prepared.names[stage]).unwrap_or(&cause.what),
                    percent(self.unknown_share(ActorId(stage as u32), &shares)),
                    self.loss_text(),
                    self.probe_text(ActorId(stage as u32)),
                    cause.remedy,
                    self.neighbours(&prepared, stage),
                );
                let verdict = Verdict {
                    kind: VerdictKind::Bottleneck,
                    reason: None,
                    machine: cause.machine.clone(),
                    state: cause.state.clone(),
                    share: Some(cause.share),
                    share_error: cause.error,
                    unknown_share: Some(self.unknown_share(ActorId(stage as u32), &shares)),
                    doubts: None,
                    evidence: cause.evidence,
                    text,
                    of_cause: true,
                    ..verdict
                };
                (verdict, findings)
            }
            _ => (verdict, findings),
        }
    }

    fn prepare(&self) -> Prepared {
        let (begin, end) = self.session.range().unwrap_or((0, 0));
        let vocabulary = self.vocabulary;
        let queues = || (0..vocabulary.queue_count() as u32).map(QueueId);
        let fullness: Vec<_> = queues().map(|queue| self.queues.fullness(queue, vocabulary.shape(queue).capacity, end)).collect();
        let activity = &self.session.activity;
        let near: Vec<_> = queues().map(|queue| self.queues.near(queue, vocabulary.shape(queue).capacity, end)).collect();
        let mut blame = Blame::compute(vocabulary, activity, activity.totals(), self.queues, self.stages, &near);
        let work: Vec<u64> = blame.total_ns.iter().zip(&blame.busy).map(|(&total, busy)| (total as f64 * busy) as u64).collect();
        let pools = Pools::find(&vocabulary.actors, self.stages, &work);
        let mut names = self.session.scene(vocabulary).names();
        for (&leader, members) in &pools.members {
            blame.unite(leader, members);
            let tid = vocabulary.actors.all()[leader].tid.map(|tid| format!(".{tid}")).unwrap_or_default();
            let name = names[leader].strip_suffix(&tid).unwrap_or(&names[leader]).to_owned();
            members.iter().for_each(|&member| names[member].clone_from(&name));
        }
        let mut cells = vec![Vec::new(); vocabulary.actors.all().len()];
        for (at, cell) in activity.cells().iter().enumerate() {
            if let Some(of) = cells.get_mut(cell.actor.0 as usize) {
                of.push(at);
            }
        }
        Prepared {
            names,
            windows: self.session.windows.finish(end, activity),
            fullness,
            blame,
            pools,
            whole: Evidence { start_ns: begin, end_ns: end },
            cells,
            shares: RefCell::default(),
        }
    }

    /// One machine per stage.
    pub(crate) fn stages(&self, prepared: &Prepared) -> Vec<usize> {
        let count = self.vocabulary.actors.all().len();
        let is_stage = |&at: &usize| self.stages.of(ActorId(at as u32)).is_some_and(is_stage);
        (0..count).filter(|&at| prepared.pools.is_leader(at)).filter(is_stage).collect()
    }

    /// With the slowest stage, where there is one but none of its states stands out.
    fn verdict(&self, prepared: &Prepared) -> (Verdict, Option<usize>) {
        let thresholds = &self.rules.verdict;
        let lossy = too_many_lost(self.session.lost, self.session.events) || self.session.uncounted_losses > 0;
        let no = |reason: Reason, text: String| Verdict {
            kind: VerdictKind::Nothing,
            reason: Some(reason),
            machine: None,
            state: None,
            share: None,
            share_error: None,
            unknown_share: None,
            lost: self.session.lost,
            doubts: None,
            evidence: prepared.whole,
            text: format!(
                "{}: {text}{}{}.",
                reason.begin(),
                self.loss_text(),
                if lossy && !text.ends_with(self.again) { self.again } else { "" }
            ),
            of_stages: false,
            of_cause: false,
        };
        let stages = self.stages(prepared);
        if stages.len() < 2 {
            let why = match self.session.events {
                0 => "there are no probes in it",
                _ => "no two threads with queue probes hand items to each other",
            };
            return (no(Reason::CannotBeTold, why.to_owned()), None);
        }
        let blame = &prepared.blame;
        let Some(&stage) = stages.iter().max_by(|&&a, &&b| blame.share[a].total_cmp(&blame.share[b])) else {
            return (no(Reason::CannotBeTold, "there is no stage".to_owned()), None);
        };
        let reason = if lossy { Reason::CannotBeTold } else { Reason::NothingStandsOut };
        let nothing = |text: String| Verdict { of_stages: true, ..no(reason, text) };
        let name = &prepared.names[stage];
        let (mut waited, mut lived) = (0.0, 0.0);
        for &other in stages.iter().filter(|&&other| other != stage) {
            waited += blame.waits[other] * blame.total_ns[other] as f64;
            lived += blame.total_ns[other] as f64;
        }
        let waiting = if lived > 0.0 { waited / lived } else { 0.0 };
        if waiting < thresholds.min_wait {
            return (nothing(format!("the stages wait for each other for only {} of their time", percent(waiting))), None);
        }
        if blame.share[stage] < thresholds.min_blame {
            let share = percent(blame.share[stage]);
            return (nothing(format!("the waiting has no single cause ({name} accounts for {share} of it, the most)")), None);
        }
        if blame.busy[stage] < thresholds.min_busy {
            let share = percent(blame.busy[stage]);
            return (nothing(format!("{name} is waited for most, but works for only {share} of its time")), None);
        }
        let shares = self.shares(prepared, ActorId(stage as u32));
        let unknown = self.unknown_share(ActorId(stage as u32), &shares);
        let unseen = self.unseen_share(ActorId(stage as u32), &shares);
        if unseen > thresholds.max_unknown {
            let lost = prepared.pools.of(stage).iter().any(|&at| self.session.lost_of.contains_key(&ActorId(at as u32)));
            let again = if lost { self.again } else { "" };
            let text = format!("{name} is waited for most, but of {} of its time nothing is known{again}", percent(unseen));
            let verdict = Verdict { of_stages: true, ..no(Reason::CannotBeTold, text) };
            return (Verdict { unknown_share: Some(unknown), ..verdict }, None);
        }
        if let Err(reason) = self.stands_out(ActorId(stage as u32), &shares) {
            return (nothing(format!("{name} is the slowest stage, but {reason}")), Some(stage));
        }
        let first = &shares[0]; // stands_out refuses an empty list
        let blamed = self.follow_calls(prepared, ActorId(stage as u32), first, thresholds);
        let (machine, state, share, via) = match &blamed {
            Some((machine, share)) => (
                prepared.names[machine.0 as usize].clone(),
                share.name.clone(),
                share.share,
                format!(" (called by {name} as {})", first.name),
            ),
            None => (name.clone(), first.name.clone(), first.share, String::new()),
        };
        let text = format!(
            "{machine} is the bottleneck: {state}{via} takes {} ± {} of {}, {} of its time unknown{}{}.{}",
            percent(share),
            percent(first.error),
            if blamed.is_some() { format!("the work of {name}") } else { "its work".to_owned() },
            percent(unknown),
            self.loss_text(),
            self.probe_text(ActorId(stage as u32)),
            self.neighbours(prepared, stage),
        );
        let verdict = Verdict {
            kind: VerdictKind::Bottleneck,
            reason: None,
            machine: Some(machine),
            state: Some(state),
            share: Some(share),
            share_error: Some(first.error),
            unknown_share: Some(unknown),
            lost: self.session.lost,
            doubts: None,
            evidence: first.evidence,
            text,
            of_stages: true,
            of_cause: false,
        };
        (verdict, None)
    }

    pub(crate) fn stands_out(&self, machine: ActorId, shares: &[Share]) -> Result<(), String> {
        let thresholds = &self.rules.verdict;
        stands_out(shares, thresholds)?;
        // Who calls once per batch and waits long although the callee hardly works waits for a CPU, not for the callee.
        if let Some(Share { state: State::Call(call), name, .. }) = shares.first() {
            let served = self.latencies.service(*call, machine).is_some_and(|(_, share)| share >= thresholds.min_service);
            if !served && self.calls_per_item(machine, *call) < thresholds.min_calls {
                return Err(format!("what it waits for most, {name}, is neither called once per item nor slow by itself"));
            }
        }
        Ok(())
    }

    /// Where a call's time is the callee's work, the callee is to blame, and what it does then.
    fn follow_calls(&self, prepared: &Prepared, caller: ActorId, first: &Share, thresholds: &Thresholds) -> Option<(ActorId, Share)> {
        let mut blamed = None;
        let (mut caller, mut state, mut share) = (caller, first.state, first.share);
        for _ in 0..8 {
            let State::Call(call) = state else { break };
            let Some((callee, served)) = self.latencies.service(call, caller) else { break };
            if served < thresholds.min_service || callee == caller {
                break;
            }
            let shares = self.shares(prepared, callee);
            // What else the callee does is not this call's.
            let Some(next) = shares.iter().find(|share| share.named && share.state != State::Reentry) else { break };
            share *= served * next.share;
            let mut next = next.clone();
            (caller, state) = (callee, next.state);
            next.share = share;
            blamed = Some((callee, next));
        }
        blamed
    }

    fn loss_text(&self) -> String {
        match (self.session.lost, self.session.uncounted_losses) {
            (lost, 0) => format!(", {} events lost", number(lost)),
            (lost, more) => format!(", {} events lost and {} losses that nobody counted", number(lost), number(more)),
        }
    }

    /// What of this stage's time the probes took, which is left out of all shares.
    fn probe_text(&self, machine: ActorId) -> String {
        if self.probe_cost_ps == 0 {
            return ", probe cost not measured".to_owned();
        }
        let (mut probes, mut all) = (0, 0);
        for (cell, total) in self.session.activity.cells().iter().zip(self.session.activity.totals()) {
            if cell.actor == machine && !cell.state.is_idle() {
                probes += probe_ns(*total, self.probe_cost_ps);
                all += total.ns;
            }
        }
        let share = if all > 0 { probes as f64 / all as f64 } else { 0.0 };
        format!(", {} probe cost left out", percent(share))
    }

    fn neighbours(&self, prepared: &Prepared, stage: usize) -> String {
        let machine = ActorId(stage as u32);
        let Some(facts) = self.stages.of(machine) else { return String::new() };
        let mut pool = String::new();
        if let Some(members) = prepared.pools.members.get(&stage) {
            pool = format!(" {} threads do the same; the shares are those of the busiest.", members.len());
        }
        let cells = self.session.activity.cells().iter().zip(self.session.activity.totals());
        let leader = |machine: ActorId| prepared.pools.leader[machine.0 as usize];
        // (who, text, queue) to the time.
        let mut waits: Vec<(usize, &str, QueueId, u64)> = Vec::new();
        for (cell, total) in cells {
            let text = match cell.state {
                _ if leader(cell.actor) == stage => continue,
                State::WaitFull(queue) if facts.inputs.iter().any(|input| input.queue == Some(queue)) => "space in",
                State::WaitEmpty(queue) if facts.outputs.iter().any(|output| output.queue == queue) => "items from",
                _ => continue,
            };
            let (State::WaitFull(queue) | State::WaitEmpty(queue)) = cell.state else { continue };
            let who = leader(cell.actor);
            match waits.iter_mut().find(|known| (known.0, known.1, known.2) == (who, text, queue)) {
                Some(known) => known.3 += total.ns,
                None => waits.push((who, text, queue, total.ns)),
            }
        }
        for (at, left) in prepared.blame.backlog.iter().enumerate() {
            if let Some((queue, ns)) = left.filter(|(queue, _)| facts.inputs.iter().any(|input| input.queue == Some(*queue))) {
                waits.push((prepared.pools.leader[at], "what it left behind in", queue, ns));
            }
        }
        let of_time = |&(who, _, _, ns): &(usize, &str, QueueId, u64)| ns as f64 / prepared.blame.total_ns[who].max(1) as f64;
        waits.retain(|wait| of_time(wait) >= 0.05);
        waits.sort_by_key(|&(who, _, queue, ns)| (std::cmp::Reverse(ns), who, queue));
        waits.truncate(2);
        let said = |wait: &(usize, &str, QueueId, u64)| {
            let (who, text, queue, _) = *wait;
            let (who, queue) = (&prepared.names[who], self.vocabulary.program_queue_name(queue));
            format!("{who} waits {} of its time for {text} {queue}", percent(of_time(wait)))
        };
        let waits = waits.iter().map(said).collect::<Vec<_>>().join("; ");
        format!("{pool}{}{waits}{}", if waits.is_empty() { "" } else { " " }, if waits.is_empty() { "" } else { "." })
    }
}

fn stands_out(shares: &[Share], thresholds: &Thresholds) -> Result<(), String> {
    let Some(first) = shares.first() else { return Err("it shows no work".to_owned()) };
    let second = shares.get(1);
    if first.gathered {
        return Err(format!("{} of its work is spread over very many names", percent(first.share)));
    }
    if !first.named {
        return Err(format!("{} of its work lies outside of its probes' states", percent(first.share)));
    }
    let best = match second {
        Some(second) => format!("{}, {}", first.text(), second.text()),
        None => first.text(),
    };
    let (next, next_error) = second.map_or((0.0, 0.0), |second| (second.share, second.error));
    // Both errors are two standard errors, so is that of the difference.
    if first.share - next < first.error.hypot(next_error) {
        return Err(format!("no state is ahead beyond the noise ({best})"));
    }
    let lead = if next > 0.0 { first.share / next } else { f64::INFINITY };
    let enough = thresholds.stands_out.iter().any(|needed| first.share >= needed.share && lead >= needed.lead)
        && (!first.enclosing || first.share >= thresholds.min_enclosing_share);
    match enough {
        true => Ok(()),
        false => Err(format!("no state dominates it ({best})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_rings_are_advised_where_those_that_lost_were_small() {
        for small in [None, Some(32 << 10), Some(2 << 20)] {
            assert_eq!(again(small), "; record again with --buffer 4MiB");
        }
        assert!(again(Some(4 << 20)).starts_with("; rings of 4 MiB were full: record fewer events"));
        assert!(again(Some(1 << 30)).starts_with("; rings of 1024 MiB were full"));
    }
}
