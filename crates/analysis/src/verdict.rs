//! The verdict: the stage behind a full and before an empty queue, and the state in which it spends its time.
//!
//! A stage is chosen by blame ([`crate::blame`]): upstream waits for its space, downstream for its tokens. Its state is the one that takes
//! most of its work. Both must stand out beyond the noise; else the verdict is that nothing stands out, with the reason.

use crate::blame::{is_stage, Blame};
use crate::cpu::state_name;
use crate::findings::{Evidence, Facts, Finding, Rules, Scope, Thresholds};
use crate::latency::Latencies;
use crate::queues::Queues;
use crate::session::Session;
use crate::stages::{Stage, Stages};
use crate::windows::{net, probe_ns, Window};
use longpole_model::activity::{Cell, State, Total};
use longpole_model::names::NameId;
use longpole_model::step::{MachineId, QueueId};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    pub kind: VerdictKind,
    pub machine: Option<String>,
    pub state: Option<String>,
    /// Of the stage's work, net of the probes' cost.
    pub share: Option<f64>,
    /// Two standard errors over the windows of the run.
    pub share_error: Option<f64>,
    /// Of the stage's time: in no state that a probe names, lost, interrupted, or spent waking others.
    pub unknown_share: Option<f64>,
    pub lost: u64,
    pub evidence: Evidence,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VerdictKind {
    Bottleneck,
    Nothing,
}

pub struct Judge<'a> {
    pub session: &'a Session,
    pub queues: &'a Queues,
    pub stages: &'a Stages,
    pub latencies: &'a Latencies,
    pub probe_cost_ps: u64,
    pub rules: &'a Rules,
}

/// Fewer long stays prove nothing about their state.
const MIN_OWN_LONGS: u64 = 20;

/// A state of one machine by name, with its net time.
#[derive(Clone, Debug)]
struct Share {
    name: String,
    state: State,
    ns: u64,
    share: f64,
    error: f64,
    evidence: Evidence,
    named: bool,
    /// A span that other spans take most of: its own time is the rest between them.
    enclosing: bool,
}

impl Share {
    fn text(&self) -> String {
        format!("{} takes {} ± {}", self.name, percent(self.share), percent(self.error))
    }
}

struct Prepared {
    names: Vec<String>,
    windows: Vec<Window>,
    fullness: Vec<(Option<f64>, Option<f64>)>,
    blame: Blame,
    whole: Evidence,
}

impl Judge<'_> {
    pub fn judge(&self) -> (Verdict, Vec<Finding>) {
        let prepared = self.prepare();
        let (verdict, slowest) = self.verdict(&prepared);
        let found = verdict.kind == VerdictKind::Bottleneck;
        let findings = self.rules.judge(&self.facts(&prepared, found));
        // A stage may be slow by what it does between its states: then a finding says it.
        let cause = findings.first().filter(|finding| finding.is_cause() && finding.share >= self.rules.verdict.min_finding);
        match (found, slowest, cause) {
            (false, Some(stage), Some(cause)) if cause.machine.as_deref() == Some(&prepared.names[stage]) => {
                let shares = self.shares(&prepared, MachineId(stage as u32));
                let text = format!(
                    "{} is the bottleneck: it{} {} unknown{}{}.{}",
                    prepared.names[stage],
                    cause.advice.strip_prefix(&prepared.names[stage]).unwrap_or(&cause.advice),
                    percent(self.unknown_share(MachineId(stage as u32), &shares)),
                    self.loss_text(),
                    self.probe_text(MachineId(stage as u32)),
                    self.neighbours(&prepared, stage),
                );
                let verdict = Verdict {
                    kind: VerdictKind::Bottleneck,
                    machine: cause.machine.clone(),
                    share: Some(cause.share),
                    unknown_share: Some(self.unknown_share(MachineId(stage as u32), &shares)),
                    evidence: cause.evidence,
                    text,
                    ..verdict
                };
                (verdict, findings)
            }
            _ => (verdict, findings),
        }
    }

    fn prepare(&self) -> Prepared {
        let (begin, end) = self.session.range().unwrap_or((0, 0));
        let system = &self.session.system;
        let fullness: Vec<_> = (0..system.queues.len())
            .map(|at| self.queues.fullness(QueueId(at as u32), system.queues[at].capacity, end))
            .collect();
        let activity = &self.session.activity;
        let near: Vec<_> = (0..system.queues.len())
            .map(|at| self.queues.near(QueueId(at as u32), system.queues[at].capacity, end))
            .collect();
        let blame = Blame::compute(system, activity, activity.totals(), self.queues, self.stages, &near);
        Prepared {
            names: system.machine_names(),
            windows: self.session.windows.finish(end, activity),
            fullness,
            blame,
            whole: Evidence { start_ns: begin, end_ns: end },
        }
    }

    fn stages(&self) -> Vec<usize> {
        let count = self.session.system.machines.len();
        (0..count).filter(|&at| self.stages.of(MachineId(at as u32)).is_some_and(is_stage)).collect()
    }

    /// With the slowest stage, where there is one but none of its states stands out.
    fn verdict(&self, prepared: &Prepared) -> (Verdict, Option<usize>) {
        let thresholds = &self.rules.verdict;
        let nothing = |text: String| Verdict {
            kind: VerdictKind::Nothing,
            machine: None,
            state: None,
            share: None,
            share_error: None,
            unknown_share: None,
            lost: self.session.lost,
            evidence: prepared.whole,
            text: format!("Nothing stands out: {text}{}.", self.loss_text()),
        };
        let stages = self.stages();
        if stages.len() < 2 {
            return (nothing("no two threads with queue probes hand items to each other".to_owned()), None);
        }
        let blame = &prepared.blame;
        let Some(&stage) = stages.iter().max_by(|&&a, &&b| blame.share[a].total_cmp(&blame.share[b])) else {
            return (nothing("there is no stage".to_owned()), None);
        };
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
        let shares = self.shares(prepared, MachineId(stage as u32));
        let unknown = self.unknown_share(MachineId(stage as u32), &shares);
        if let Err(reason) = self.stands_out(MachineId(stage as u32), &shares) {
            return (nothing(format!("{name} is the slowest stage, but {reason}")), Some(stage));
        }
        let first = &shares[0]; // stands_out refuses an empty list
        let blamed = self.follow_calls(prepared, MachineId(stage as u32), first, thresholds);
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
            "{machine} is the bottleneck: {state}{via} takes {} ± {} of {}, {} unknown{}{}.{}",
            percent(share),
            percent(first.error),
            if blamed.is_some() { format!("the work of {name}") } else { "its work".to_owned() },
            percent(unknown),
            self.loss_text(),
            self.probe_text(MachineId(stage as u32)),
            self.neighbours(prepared, stage),
        );
        let verdict = Verdict {
            kind: VerdictKind::Bottleneck,
            machine: Some(machine),
            state: Some(state),
            share: Some(share),
            share_error: Some(first.error),
            unknown_share: Some(unknown),
            lost: self.session.lost,
            evidence: first.evidence,
            text,
        };
        (verdict, None)
    }

    /// The work of a machine by the names of its states, the longest first.
    fn shares(&self, prepared: &Prepared, machine: MachineId) -> Vec<Share> {
        let cells = self.session.activity.cells();
        let totals = self.session.activity.totals();
        let mut found: Vec<(String, State, Vec<usize>)> = Vec::new();
        for (at, cell) in cells.iter().enumerate() {
            if cell.machine != machine || cell.state.is_idle() || cell.state == State::Lost || totals[at].ns == 0 {
                continue;
            }
            let name = state_name(&self.session.system, cell.state);
            match found.iter_mut().find(|(known, ..)| *known == name) {
                Some((_, state, members)) => {
                    members.push(at);
                    // A call within a span of the same name is a call.
                    if matches!(cell.state, State::Call(_)) {
                        *state = cell.state;
                    }
                }
                None => found.push((name, cell.state, vec![at])),
            }
        }
        found.retain(|(_, _, members)| !self.is_waking(machine, members));
        let all: Vec<usize> = found.iter().flat_map(|(.., members)| members.clone()).collect();
        let own = self.own_long_stays(&all, &found.iter().map(|(.., members)| members.as_slice()).collect::<Vec<_>>());
        let sum = |added: &[Total], members: &[usize]| -> u64 {
            let net = |&at: &usize| {
                let total = added.get(at).copied().unwrap_or_default();
                net(if own.contains(&at) { total } else { without_long_stays(total) }, self.probe_cost_ps)
            };
            members.iter().map(net).sum()
        };
        let work = sum(totals, &all);
        let mut shares: Vec<Share> = found
            .iter()
            .map(|(name, state, members)| {
                let ns = sum(totals, members);
                let share = if work > 0 { ns as f64 / work as f64 } else { 0.0 };
                let mut squares = 0.0;
                let mut used = 0u32;
                let mut best = (0, prepared.whole);
                for window in &prepared.windows {
                    let (part, of) = (sum(&window.added, members), sum(&window.added, &all));
                    if of == 0 {
                        continue;
                    }
                    used += 1;
                    squares += (part as f64 - share * of as f64).powi(2);
                    if part > best.0 {
                        best = (part, Evidence { start_ns: window.begin_ns, end_ns: window.end_ns });
                    }
                }
                // The error of a ratio of sums over independent windows.
                let error = if used > 2 && work > 0 {
                    2.0 * (squares * f64::from(used) / f64::from(used - 1)).sqrt() / work as f64
                } else {
                    1.0
                };
                Share {
                    name: name.clone(),
                    state: *state,
                    ns,
                    share,
                    error,
                    evidence: best.1,
                    named: !matches!(state, State::Run | State::Lost),
                    enclosing: ns < self.latencies.inner_ns(machine, *state),
                }
            })
            .collect();
        shares.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
        shares
    }

    /// The cells whose outstandingly long stays are their own. A thread that is not running is interrupted anywhere, so interruptions
    /// spread over its states as its time does; where one state has far more than its part of them, it is slow by itself now and then.
    fn own_long_stays(&self, all: &[usize], groups: &[&[usize]]) -> Vec<usize> {
        let totals = self.session.activity.totals();
        let sums = |members: &[usize]| {
            members.iter().map(|&at| totals[at]).fold((0u64, 0u64), |(usual, longs), total| {
                (usual + total.ns - total.long_ns, longs + total.longs)
            })
        };
        let (usual, all_longs) = sums(all);
        let mut own = Vec::new();
        for members in groups {
            let (part, longs) = sums(members);
            let expected = part as f64 / usual.max(1) as f64;
            let found = longs as f64 / all_longs.max(1) as f64;
            if longs >= MIN_OWN_LONGS && found >= 3.0 * expected + 0.2 {
                own.extend_from_slice(members);
            }
        }
        own
    }

    /// Of a machine's time without waiting for work: outside of all named states, or lost.
    fn unknown_share(&self, machine: MachineId, shares: &[Share]) -> f64 {
        let lost = self.total_of(Cell { machine, state: State::Lost }).ns;
        let work: u64 = shares.iter().map(|share| share.ns).sum();
        let unnamed: u64 = shares.iter().filter(|share| !share.named).map(|share| share.ns).sum();
        let cells = self.session.activity.cells().iter().zip(self.session.activity.totals());
        let all: u64 = cells
            .filter(|(cell, _)| cell.machine == machine && !cell.state.is_idle() && cell.state != State::Lost)
            .map(|(_, total)| net(*total, self.probe_cost_ps))
            .sum();
        let interrupted = all.saturating_sub(work);
        (lost + unnamed + interrupted) as f64 / (lost + work + interrupted).max(1) as f64
    }

    /// Whether a state is one of waking others once per batch. Whoever is woken may take the CPU, so this time says more of the scheduler than
    /// of the state: it is left out of the work, as interruptions are. Signals per item are another matter.
    fn is_waking(&self, machine: MachineId, members: &[usize]) -> bool {
        let Some(stage) = self.stages.of(machine) else { return false };
        let (cells, totals) = (self.session.activity.cells(), self.session.activity.totals());
        let usual = |total: Total| net(without_long_stays(total), self.probe_cost_ps) as f64;
        let own: f64 = members.iter().map(|&at| usual(totals[at])).sum();
        let signalling: f64 = stage
            .signalling
            .iter()
            .filter(|(state, _)| members.iter().any(|&at| cells[at].state == *state))
            .map(|(_, total)| usual(*total))
            .sum();
        let thresholds = &self.rules.verdict;
        signalling > thresholds.min_signalling * own
            && stage.inner_signals_per_item().is_some_and(|per_item| per_item < thresholds.min_calls)
    }

    fn stands_out(&self, machine: MachineId, shares: &[Share]) -> Result<(), String> {
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

    /// A queue of bytes knows portions, not items: then one call per portion is what a batch should do, and counts half.
    fn calls_per_item(&self, machine: MachineId, call: NameId) -> f64 {
        let Some(stage) = self.stages.of(machine) else { return 0.0 };
        let calls = stage.calls.iter().find(|(known, _)| *known == call).map_or(0, |(_, count)| *count);
        let per_item = calls as f64 / stage.items().max(1) as f64;
        if self.takes_portions(stage) {
            per_item / 2.0
        } else {
            per_item
        }
    }

    fn takes_portions(&self, stage: &Stage) -> bool {
        let main = stage.main_input().and_then(|at| stage.inputs[at].queue);
        let queue = main.or(stage.outputs.first().map(|output| output.queue));
        queue.is_some_and(|queue| self.session.system.queues[queue.0 as usize].bytes)
    }

    /// Where a call's time is the callee's work, the callee is to blame, and what it does then.
    fn follow_calls(&self, prepared: &Prepared, caller: MachineId, first: &Share, thresholds: &Thresholds) -> Option<(MachineId, Share)> {
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

    fn facts(&self, prepared: &Prepared, verdict: bool) -> Vec<Facts> {
        let system = &self.session.system;
        let verdict = if verdict { 1.0 } else { 0.0 };
        let stages = self.stages();
        let thresholds = &self.rules.verdict;
        let blamed: Vec<usize> =
            stages.iter().copied().filter(|&at| prepared.blame.share[at] >= thresholds.min_stage_blame).collect();
        let judged = if blamed.is_empty() {
            stages.into_iter().filter(|&at| prepared.blame.busy[at] >= thresholds.min_busy).collect()
        } else {
            blamed
        };
        let mut out = Vec::new();
        for at in judged {
            let machine = MachineId(at as u32);
            let Some(stage) = self.stages.of(machine) else { continue };
            let shares = self.shares(prepared, machine);
            let work: u64 = shares.iter().map(|share| share.ns).sum();
            let items = stage.items();
            if work == 0 || items == 0 {
                continue;
            }
            let blame = prepared.blame.share[at].max(1e-9);
            let name = prepared.names[at].clone();
            let signalling: u64 = stage
                .signalling
                .iter()
                .filter(|(state, _)| shares.iter().any(|share| share.state == *state))
                .map(|(_, total)| net(without_long_stays(*total), self.probe_cost_ps))
                .sum();
            let share_of = |total: Total| net(without_long_stays(total), self.probe_cost_ps) as f64 / work as f64;
            let unit = if self.takes_portions(stage) { "portions" } else { "units" };
            let per_item = |count: u64| count as f64 / items as f64;
            let facts = |scope, texts: Vec<(&'static str, String)>, share: f64, count: u64, more: &[(&'static str, f64)], evidence| {
                let mut numbers =
                    vec![("share", share), ("count", count as f64), ("verdict", verdict), ("blame", blame)];
                numbers.extend_from_slice(more);
                let mut all = vec![("machine", name.clone())];
                all.extend(texts);
                Facts { scope, texts: all, numbers, evidence }
            };
            for &(call, count) in &stage.calls {
                let of_call = shares.iter().find(|share| share.state == State::Call(call));
                out.push(facts(
                    Scope::Call,
                    vec![("call", system.names.text(call).to_owned()), ("items", unit.to_owned())],
                    of_call.map_or(0.0, |share| share.share),
                    count,
                    &[("calls_per_item", per_item(count))],
                    of_call.map_or(prepared.whole, |share| share.evidence),
                ));
            }
            let others = stage.signals.iter().filter(|signal| signal.submits > signal.self_sent);
            let (mut submits, mut cost) = (0, Total::default());
            for signal in others {
                submits += signal.submits - signal.self_sent;
                cost.ns += signal.cost.ns;
                cost.probes += signal.cost.probes;
                cost.long_ns += signal.cost.long_ns;
                cost.longs += signal.cost.longs;
            }
            if let (true, Some(inner)) = (submits > 0, stage.inner_signals_per_item()) {
                out.push(facts(
                    Scope::Signal,
                    Vec::new(),
                    share_of(cost),
                    submits,
                    &[
                        ("signals_per_item", per_item(submits)),
                        ("inner_per_item", inner),
                    ],
                    prepared.whole,
                ));
            }
            let largest = stage.inputs.iter().map(|input| input.items).max().unwrap_or(0);
            for input in stage.inputs.iter().filter(|input| input.items >= largest / 2 && input.resubmitted.batches > 0) {
                let ended = &input.resubmitted;
                let of = |part: u64, whole: u64| if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
                let (limit, at_limit) = ended.sizes.buckets().max_by_key(|&(_, count)| count).unwrap_or((0, 0));
                let queue = input.queue.map_or("", |queue| system.queue_name(queue));
                out.push(facts(
                    Scope::Batch,
                    vec![("queue", queue.to_owned())],
                    share_of(stage.reentry),
                    ended.batches,
                    &[
                        ("resubmitted", of(ended.batches, input.batches)),
                        ("at_limit", of(at_limit, ended.batches)),
                        ("with_more", of(ended.with_more, ended.batches)),
                        ("limit", limit as f64),
                        ("of_loop", share_of(stage.reentry) * work as f64 / work.saturating_sub(signalling).max(1) as f64),
                    ],
                    prepared.whole,
                ));
            }
            let stands_out = self.stands_out(machine, &shares).is_ok();
            for (rank, share) in shares.iter().enumerate() {
                out.push(facts(
                    Scope::State,
                    vec![("state", share.name.clone())],
                    share.share,
                    items,
                    &[("stands_out", f64::from(u8::from(rank == 0 && stands_out)))],
                    share.evidence,
                ));
            }
        }
        for (at, &(full, empty)) in prepared.fullness.iter().enumerate() {
            let queue = QueueId(at as u32);
            if self.queues.producers(queue).is_empty() || self.queues.consumers(queue).is_empty() {
                continue;
            }
            let (full, empty) = (full.unwrap_or(0.0), empty.unwrap_or(0.0));
            out.push(Facts {
                scope: Scope::Queue,
                texts: vec![("queue", system.queue_name(queue).to_owned())],
                numbers: vec![
                    ("share", full.max(empty)),
                    ("count", 1.0),
                    ("verdict", verdict),
                    ("full", full),
                    ("empty", empty),
                ],
                evidence: prepared.whole,
            });
        }
        out
    }

    fn total_of(&self, wanted: Cell) -> Total {
        let cells = self.session.activity.cells().iter().zip(self.session.activity.totals());
        cells.filter(|(cell, _)| **cell == wanted).map(|(_, total)| *total).next().unwrap_or_default()
    }

    fn loss_text(&self) -> String {
        match (self.session.lost, self.session.uncounted_losses) {
            (lost, 0) => format!(", {lost} events lost"),
            (lost, more) => format!(", {lost} events lost and {more} losses that nobody counted"),
        }
    }

    /// What of this stage's time the probes took, which is left out of all shares.
    fn probe_text(&self, machine: MachineId) -> String {
        if self.probe_cost_ps == 0 {
            return ", probe cost not measured".to_owned();
        }
        let (mut probes, mut all) = (0, 0);
        for (cell, total) in self.session.activity.cells().iter().zip(self.session.activity.totals()) {
            if cell.machine == machine && !cell.state.is_idle() {
                probes += probe_ns(*total, self.probe_cost_ps);
                all += total.ns;
            }
        }
        let share = if all > 0 { probes as f64 / all as f64 } else { 0.0 };
        format!(", {} probe cost left out", percent(share))
    }

    fn neighbours(&self, prepared: &Prepared, stage: usize) -> String {
        let machine = MachineId(stage as u32);
        let Some(facts) = self.stages.of(machine) else { return String::new() };
        let cells = self.session.activity.cells().iter().zip(self.session.activity.totals());
        let mut waits: Vec<(u64, String)> = Vec::new();
        for (cell, total) in cells {
            let text = match cell.state {
                _ if cell.machine == machine => continue,
                State::WaitFull(queue) if facts.inputs.iter().any(|input| input.queue == Some(queue)) => "space in",
                State::WaitEmpty(queue) if facts.outputs.iter().any(|output| output.queue == queue) => "items from",
                _ => continue,
            };
            let (State::WaitFull(queue) | State::WaitEmpty(queue)) = cell.state else { continue };
            let whole = prepared.blame.total_ns[cell.machine.0 as usize].max(1);
            let share = total.ns as f64 / whole as f64;
            if share >= 0.05 {
                let who = &prepared.names[cell.machine.0 as usize];
                let queue = self.session.system.queue_name(queue);
                waits.push((total.ns, format!("{who} waits {} of its time for {text} {queue}", percent(share))));
            }
        }
        waits.sort_by(|a, b| b.cmp(a));
        waits.truncate(2);
        match waits.len() {
            0 => String::new(),
            _ => format!(" {}.", waits.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("; ")),
        }
    }
}

fn without_long_stays(total: Total) -> Total {
    Total { ns: total.ns - total.long_ns, probes: total.probes - total.longs, long_ns: 0, longs: 0 }
}

fn stands_out(shares: &[Share], thresholds: &Thresholds) -> Result<(), String> {
    let Some(first) = shares.first() else { return Err("it shows no work".to_owned()) };
    let second = shares.get(1);
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

fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent >= 0.05 => format!("{percent:.1} %"),
        percent if percent > 0.0 => "<0.1 %".to_owned(),
        _ => "0 %".to_owned(),
    }
}
