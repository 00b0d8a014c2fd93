//! Several recordings of the same system: what they have in common, and how much it scatters.
//!
//! Each recording is analysed on its own; nothing of one influences another. The verdict is what
//! most of them name. Its error is the interval of Student's t over the recordings, which includes
//! what the windows of a single recording cannot show: how much the system differs from run to run.
//! Machines of a class are one here, since the numbers of threads differ between runs.

use crate::compare::change::half_95;
use crate::critical_path;
use crate::findings::Finding;
use crate::report::{Inputs, Report};
use crate::stages::left_out;
use crate::stats::evidence::Evidence;
use crate::verdict::data::because::Because;
use crate::verdict::data::caveat::Contradictions;
use crate::verdict::data::figures::Agreed;
use crate::verdict::data::{Basis, Named, Outcome, StateNamed, SubjectLevel, SubjectState, Verdict};
use crate::what_if::predicted;
use crate::what_if::Prediction;
use longpole_model::kinds::{self, SegmentKind};
use serde::Serialize;
use std::collections::BTreeMap;

/// The common answer of several recordings.
#[derive(Debug, Serialize)]
pub struct Repeated {
    pub verdict: Verdict,
    /// Share of the recordings that have this verdict.
    pub agreement: f64,
    /// States of the critical path by their mean share; `None` if no recording has a path.
    pub criticality: Option<Vec<RepeatedRow>>,
    pub findings: Vec<RepeatedFinding>,
    /// Predictions: means over the recordings in which the change is predicted; the interval
    /// includes those of all of them.
    #[serde(serialize_with = "predicted::alone")]
    pub predictions: Option<Vec<Prediction>>,
    /// Always `None`: queues and latencies are reported for each recording separately.
    pub queues: Option<()>,
    pub latency: Option<()>,
    pub probe_cost_ns: Option<f64>,
    pub inputs: Inputs,
    pub runs: Vec<Run>,
}

/// One recording: its path in the file system, and its own report.
#[derive(Debug, Serialize)]
pub struct Run {
    pub path: String,
    #[serde(flatten)]
    pub report: Report,
}

/// A state on the path, over all recordings that have a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RepeatedRow {
    pub host: String,
    /// Class of the machine; for a link, its queue.
    pub machine: String,
    pub class: String,
    pub state: String,
    pub kind: SegmentKind,
    /// A profiler adds up this state under its name over all programs.
    #[serde(skip)]
    is_symbol: bool,
    pub ns: u64,
    pub share: f64,
    /// Half the width of the 95 % interval of the mean; `None` if only one recording has a path.
    pub share_error: Option<f64>,
    pub share_min: f64,
    pub share_max: f64,
    /// Number of recordings with the state on the path.
    pub runs: u64,
    /// Rank of its mean share of the running time.
    pub profile_rank: Option<u64>,
    pub profile_share: Option<f64>,
    pub slack_ns: Option<u64>,
    pub near_critical_share: Option<f64>,
}

/// A finding of at least one recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RepeatedFinding {
    pub kind: String,
    pub subject: String,
    /// Number in all recordings together.
    pub count: u64,
    /// Mean over the recordings that have the finding.
    pub share: f64,
    pub evidence: Evidence,
    pub advice: String,
    /// Number of recordings that have the finding.
    pub runs: u64,
}

impl Repeated {
    /// Combines the reports of the recordings.
    pub fn new(runs: Vec<Run>) -> Repeated {
        let criticality = criticality(&runs);
        let (verdict, agreement) = verdict(&runs, criticality.as_deref());
        let verdict = verdict.with_contradictions(contradictions(&runs));
        let costs: Vec<f64> = runs.iter().filter_map(|run| run.report.probe_cost_ns).collect();
        Repeated {
            verdict,
            agreement,
            findings: findings(&runs),
            predictions: runs.iter().any(|run| run.report.predictions.is_some()).then(|| predictions(&runs)),
            criticality,
            queues: None,
            latency: None,
            probe_cost_ns: mean(&costs),
            inputs: inputs(&runs),
            runs,
        }
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Subject and state that a recording's verdict names.
#[derive(Clone, PartialEq)]
struct Bottleneck {
    subject: Option<String>,
    state: Option<String>,
}

fn named(run: &Run) -> Option<Bottleneck> {
    let verdict = Some(&run.report.verdict).filter(|verdict| verdict.outcome == Outcome::Bottleneck)?;
    let (subject, state) = verdict.origin.row.clone().map(|row| (row.class, row.state)).unzip();
    Some(Bottleneck { subject: subject.or_else(|| verdict.subject.as_ref().map(|subject| subject.name.clone())), state })
}

fn declared(name: String) -> StateNamed {
    StateNamed { kind: SubjectState::Declared, name }
}

/// Returns the verdict of more than half of the recordings, and the share that agrees.
fn verdict(runs: &[Run], rows: Option<&[RepeatedRow]>) -> (Verdict, f64) {
    let count = |wanted: &Option<Bottleneck>| runs.iter().filter(|run| named(run) == *wanted).count();
    let most = runs.iter().max_by_key(|run| count(&named(run)));
    let agreed = most.map_or(0, |run| count(&named(run)));
    let agreement = agreed as f64 / runs.len().max(1) as f64;
    let of: Vec<&Verdict> =
        runs.iter().filter(|run| most.is_some_and(|most| named(most) == named(run))).map(|run| &run.report.verdict).collect();
    let unknown: Vec<f64> = of.iter().filter_map(|verdict| verdict.unknown_share).collect();
    let strongest = of.iter().max_by(|a, b| a.share.unwrap_or(0.0).total_cmp(&b.share.unwrap_or(0.0)));
    let are_of_stages = of.iter().all(|verdict| verdict.basis == Basis::Stages);
    let verdict = |outcome, because| Verdict {
        because: vec![because],
        unknown_share: mean(&unknown),
        lost: runs.iter().map(|run| run.report.verdict.lost).fold(0, u64::saturating_add),
        evidence: strongest.map(|verdict| verdict.evidence).unwrap_or_default(),
        ..Verdict::new(outcome, if are_of_stages { Basis::Stages } else { Basis::States })
    };
    let Some(most) = most.filter(|_| 2 * agreed > runs.len()) else {
        return (verdict(Outcome::Spread, Because::Disagreement { verdicts: disagreement(runs) }), agreement);
    };
    let recordings = Because::Recordings { count: runs.len() as u64, agreeing: agreed as u64 };
    let Some(Bottleneck { subject, state }) = named(most) else {
        let unknown_count = of.iter().filter(|verdict| verdict.outcome == Outcome::Unknown).count();
        let outcome = if 2 * unknown_count > of.len() { Outcome::Unknown } else { Outcome::Spread };
        return (verdict(outcome, recordings), agreement);
    };
    // Mean over all recordings, also those that name something else, if it is a state of their
    // paths.
    let row = rows.and_then(|rows| rows.iter().find(|row| Some(&row.machine) == subject.as_ref() && Some(&row.state) == state.as_ref()));
    let own: Vec<f64> = of.iter().filter_map(|verdict| verdict.share).collect();
    let (share, error) = match row.filter(|_| !are_of_stages) {
        Some(row) => (Some(row.share), row.share_error),
        None => (mean(&own), half_95(&own).map(|half| half.min(1.0))),
    };
    let verdict = verdict(Outcome::Bottleneck, recordings).with_share(share, error);
    let verdict = match subject {
        Some(subject) => verdict.about(&subject, state.map(declared)),
        None => verdict,
    };
    (verdict, agreement)
}

/// Returns what the recordings name, with the number of recordings, in the order of the recordings.
fn disagreement(runs: &[Run]) -> Vec<Agreed> {
    let mut counts: Vec<(Option<Bottleneck>, u64)> = Vec::new();
    for run in runs.iter().map(named) {
        match counts.iter_mut().find(|(known, _)| *known == run) {
            Some((_, count)) => *count += 1,
            None => counts.push((run, 1)),
        }
    }
    let agreed = |(named, runs): (Option<Bottleneck>, u64)| {
        let Bottleneck { subject, state } = named.unwrap_or(Bottleneck { subject: None, state: None });
        Agreed { subject: subject.map(|name| Named::of_name(SubjectLevel::Thread, &name)), state: state.map(declared), runs }
    };
    counts.into_iter().map(agreed).collect()
}

/// Returns the contradictions, negative links and ignored wake-ups of all recordings together.
fn contradictions(runs: &[Run]) -> Option<Contradictions> {
    let sum = |a: Contradictions, b: Contradictions| Contradictions {
        contradictions: a.contradictions + b.contradictions,
        negative_links: a.negative_links + b.negative_links,
        ignored_wakeups: a.ignored_wakeups + b.ignored_wakeups,
    };
    runs.iter().filter_map(|run| run.report.verdict.contradictions).reduce(sum)
}

#[derive(Default)]
struct StateInRun {
    ns: u64,
    share: f64,
    profile: Option<f64>,
    slack: Option<u64>,
    near: Option<f64>,
    /// Kind of the state, and whether a profiler adds it up by name.
    kind_and_symbol: Option<(SegmentKind, bool)>,
}

/// Returns mean shares over all recordings that have a path; a state that is not on a path has
/// share 0 there.
fn criticality(runs: &[Run]) -> Option<Vec<RepeatedRow>> {
    let paths: Vec<_> = runs.iter().filter_map(|run| run.report.criticality.as_ref()).collect();
    if paths.is_empty() {
        return None;
    }
    let mut found: BTreeMap<([String; 4], critical_path::Kind), Vec<StateInRun>> = BTreeMap::new();
    for (at, rows) in paths.iter().enumerate() {
        for row in *rows {
            let machine = if row.kind.is_link() { &row.machine } else { &row.class };
            let key = ([row.host.clone(), machine.clone(), row.class.clone(), row.state.clone()], critical_path::Kind::from(row.kind));
            let of = found.entry(key).or_default();
            of.resize_with(paths.len(), StateInRun::default);
            let this = &mut of[at];
            this.kind_and_symbol.get_or_insert((row.kind, row.is_symbol));
            this.ns += row.ns;
            this.share += row.share;
            this.profile = this.profile.or(row.profile_share);
            this.slack = this.slack.into_iter().chain(row.slack_ns).min();
            this.near = this.near.or(row.near_critical_share);
        }
    }
    let mut out: Vec<RepeatedRow> = found
        .into_iter()
        .map(|(([host, machine, class, state], _), of)| {
            let shares: Vec<f64> = of.iter().map(|run| run.share).collect();
            let (kind, is_symbol) =
                of.iter().find_map(|run| run.kind_and_symbol).unwrap_or((SegmentKind::State(kinds::StateKind::Named), true));
            let some = |value: fn(&StateInRun) -> Option<f64>| mean(&of.iter().filter_map(value).collect::<Vec<_>>());
            RepeatedRow {
                host,
                machine,
                class,
                state,
                kind,
                is_symbol,
                ns: of.iter().map(|run| run.ns).sum::<u64>() / of.len() as u64,
                share: mean(&shares).unwrap_or(0.0),
                share_error: half_95(&shares).map(|half| half.min(1.0)),
                share_min: shares.iter().copied().fold(f64::INFINITY, f64::min),
                share_max: shares.iter().copied().fold(0.0, f64::max),
                runs: of.iter().filter(|run| run.ns > 0).count() as u64,
                profile_rank: None,
                profile_share: some(|run| run.profile),
                slack_ns: of.iter().filter_map(|run| run.slack).min(),
                near_critical_share: some(|run| run.near),
            }
        })
        .collect();
    // A profiler adds up states with one name.
    let symbol = |row: &RepeatedRow| [if row.is_symbol { String::new() } else { row.class.clone() }, row.state.clone()];
    let mut profile: BTreeMap<[String; 2], f64> = BTreeMap::new();
    for row in &out {
        if let Some(share) = row.profile_share {
            let known = profile.entry(symbol(row)).or_insert(0.0);
            *known = known.max(share);
        }
    }
    for row in &mut out {
        let own = row.profile_share.and_then(|_| profile.get(&symbol(row)));
        row.profile_rank = own.map(|own| profile.values().filter(|share| *share > own).count() as u64 + 1);
    }
    out.sort_by(|a, b| b.share.total_cmp(&a.share));
    Some(out)
}

/// Returns the findings by the number of recordings that have them, descending.
fn findings(runs: &[Run]) -> Vec<RepeatedFinding> {
    let mut out: Vec<RepeatedFinding> = Vec::new();
    for Finding { kind, subject, count, share, evidence, advice, .. } in runs.iter().flat_map(|run| &run.report.findings) {
        match out.iter_mut().find(|known| known.kind == *kind && known.subject == *subject) {
            Some(known) => {
                known.share = (known.share * known.runs as f64 + share) / (known.runs + 1) as f64;
                known.count += count;
                known.runs += 1;
            }
            None => out.push(RepeatedFinding {
                kind: kind.clone(),
                subject: subject.clone(),
                count: *count,
                share: *share,
                evidence: *evidence,
                advice: advice.clone(),
                runs: 1,
            }),
        }
    }
    out.sort_by_key(|found| std::cmp::Reverse(found.runs));
    out
}

fn predictions(runs: &[Run]) -> Vec<Prediction> {
    let all: Vec<&Prediction> = runs.iter().flat_map(|run| run.report.predictions.iter().flatten()).collect();
    let mut out: Vec<Prediction> = Vec::new();
    for first in &all {
        if out.iter().any(|known| known.changes == first.changes) {
            continue;
        }
        let same: Vec<&&Prediction> = all.iter().filter(|other| other.changes == first.changes).collect();
        let predicted: Vec<&&&Prediction> = same.iter().filter(|other| other.refused.is_none()).collect();
        let of = |value: fn(&Prediction) -> Option<f64>| predicted.iter().filter_map(|it| value(it)).collect::<Vec<f64>>();
        let ns = |value: fn(&Prediction) -> Option<u64>| {
            let values: Vec<f64> = predicted.iter().filter_map(|it| value(it)).map(|ns| ns as f64).collect();
            mean(&values).map(|ns| ns.round() as u64)
        };
        out.push(Prediction {
            baseline_ns: ns(|it| Some(it.baseline_ns)).unwrap_or(first.baseline_ns),
            baseline_error: mean(&of(|it| Some(it.baseline_error))).unwrap_or(first.baseline_error),
            replayed_ns: ns(|it| Some(it.replayed_ns)).unwrap_or(first.replayed_ns),
            predicted_ns: ns(|it| it.predicted_ns),
            gain: mean(&of(|it| it.gain)),
            gain_low: of(|it| it.gain_low).into_iter().reduce(f64::min),
            gain_high: of(|it| it.gain_high).into_iter().reduce(f64::max),
            next: predicted.first().and_then(|it| it.next.clone()),
            refused: if predicted.is_empty() { first.refused.clone() } else { None },
            ..(*first).clone()
        });
    }
    out.sort_by(|a, b| b.gain.unwrap_or(f64::MIN).total_cmp(&a.gain.unwrap_or(f64::MIN)));
    out
}

fn inputs(runs: &[Run]) -> Inputs {
    let sum = |value: fn(&Inputs) -> u64| runs.iter().map(|run| value(&run.report.inputs)).fold(0, u64::saturating_add);
    Inputs {
        start_ns: runs.iter().filter_map(|run| run.report.inputs.start_ns).min(),
        end_ns: runs.iter().filter_map(|run| run.report.inputs.end_ns).max(),
        events: sum(|it| it.events),
        lost: sum(|it| it.lost),
        uncounted_losses: sum(|it| it.uncounted_losses),
        other_names: sum(|it| it.other_names),
        kernel_events: sum(|it| it.kernel_events),
        kernel_lost: sum(|it| it.kernel_lost),
        uncounted_kernel_losses: sum(|it| it.uncounted_kernel_losses),
        contradictions: sum(|it| it.contradictions),
        negative_links: sum(|it| it.negative_links),
        forgotten_causes: sum(|it| it.forgotten_causes),
        cut_waits: sum(|it| it.cut_waits),
        left_out: left_out::together(runs.iter().flat_map(|run| &run.report.inputs.left_out)),
        tells_running: runs.iter().all(|run| run.report.inputs.tells_running),
    }
}
