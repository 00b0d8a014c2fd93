//! Two recordings of the same system: what changed from the first to the second, and how surely.
//!
//! Each side is cut into windows of equal width, to the ns. What is compared is the mean over the windows: of a state's share of the critical path, of
//! the mean time of a call or span, of a queue's items per second. A change is told as certain where its interval leaves zero out, and as much is known of both
//! sides as a verdict needs ([`known`]).

mod conditions;
mod known;

use crate::change::Change;
use crate::findings::Finding;
use crate::latency::{Kind, Latency};
use crate::lineage::path::queue_of_calls;
use crate::lineage::{Answer, Row};
use crate::queues::QueueAnswer;
use crate::report::Inputs;
use crate::text::{percent, place};
use known::Doubts;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};

pub use conditions::{can_be_asked, FUNCTIONS};
pub use known::Known;

/// Windows of a side.
pub const WINDOWS: usize = 12;

/// A share of the path changes by at least so much, or nobody wants to hear of it; of a time or a rate, relative to what it was.
const LEAST_SHARE: f64 = 0.01;
const LEAST_RELATIVE: f64 = 0.02;

/// What is known of one recording.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// Of the whole path.
    shares: BTreeMap<State, f64>,
    /// Of each window, and how long the windows are.
    windows: BTreeMap<State, Vec<f64>>,
    widths: Vec<f64>,
    latency: BTreeMap<Timed, Times>,
    queues: BTreeMap<String, Rates>,
    findings: BTreeMap<(String, String), f64>,
    /// States that occur, on the path or not, as `MACHINE::STATE` and `CLASS::STATE`.
    seen: BTreeSet<String>,
    /// Of each state on the path.
    classes: BTreeMap<State, String>,
    /// Of a machine log, which tells of nothing but the path.
    path_only: bool,
    known: Known,
}

type State = (String, String);
type Timed = (Kind, String, Option<String>);

#[derive(Clone, Debug, Default)]
struct Times {
    /// Of each window that has one, with the number of times that it is of.
    means: Vec<(f64, f64)>,
    whole: Option<Latency>,
}

#[derive(Clone, Debug, Default)]
struct Rates {
    /// Per second, each with weight 1.
    items: Vec<(f64, f64)>,
    whole: Option<QueueAnswer>,
}

impl Side {
    /// The critical path.
    pub fn path(&mut self, answer: &Answer) {
        let (begin, length) = (answer.start_ns, answer.end_ns.saturating_sub(answer.start_ns));
        self.known.unknown_share = Some(answer.unknown_ns as f64 / length.max(1) as f64);
        self.known.contradictions = Some(answer.contradictions);
        (self.known.events, self.known.lost) = (answer.interactions, answer.lost);
        for row in &answer.criticality {
            let name = (place(&row.host, &row.machine), row.state.clone());
            self.classes.entry(name.clone()).or_insert_with(|| class(row).to_owned());
            *self.shares.entry(name).or_default() += row.share;
        }
        let Some(path) = answer.segments.as_ref().filter(|_| length > 0) else { return };
        let bound = |window: usize| begin + (u128::from(length) * window as u128 / WINDOWS as u128) as u64;
        let width = |window: usize| bound(window + 1) - bound(window);
        let mut times: BTreeMap<State, Vec<u64>> = BTreeMap::new();
        let mut window = 0;
        for segment in path.segments() {
            let name = (place(segment.host, segment.machine), segment.state.to_owned());
            let times = times.entry(name).or_insert_with(|| vec![0; WINDOWS]);
            let mut at = segment.start_ns;
            while at < segment.end_ns && window < WINDOWS {
                let until = segment.end_ns.min(bound(window + 1));
                times[window] += until.saturating_sub(at);
                at = at.max(until);
                if until == bound(window + 1) {
                    window += 1;
                }
            }
        }
        // In a path of few ns some windows are empty.
        self.widths = (0..WINDOWS).map(width).filter(|&width| width > 0).map(|width| width as f64).collect();
        for (name, times) in times {
            let shares = (0..WINDOWS).filter(|&window| width(window) > 0).map(|window| times[window] as f64 / width(window) as f64);
            self.windows.insert(name, shares.collect());
        }
    }

    /// What occurs, as `MACHINE::STATE` and `CLASS::STATE`.
    pub fn seen(&mut self, names: BTreeSet<String>) {
        self.seen = names;
    }

    /// How many events there are and are missing, also where there is no path.
    pub fn events(&mut self, inputs: &Inputs) {
        self.known.events = inputs.events + inputs.kernel_events;
        self.known.lost = inputs.lost + inputs.kernel_lost;
        self.known.uncounted_losses = inputs.uncounted_losses + inputs.uncounted_kernel_losses;
    }

    /// There is nothing but the path.
    pub fn is_path_only(&mut self) {
        self.path_only = true;
    }

    /// What the whole of the recording says.
    pub fn whole(&mut self, latency: &[Latency], queues: &[QueueAnswer], findings: &[Finding]) {
        for line in latency {
            self.latency.entry(timed(line)).or_default().whole = Some(line.clone());
        }
        for queue in queues {
            self.queues.entry(queue.name.clone()).or_default().whole = Some(queue.clone());
        }
        self.findings = findings.iter().map(|finding| ((finding.kind.clone(), finding.subject.clone()), finding.share)).collect();
    }

    /// One window of it.
    pub fn window(&mut self, latency: &[Latency], queues: &[QueueAnswer]) {
        for line in latency {
            if let Some(mean) = line.times.mean_ns {
                self.latency.entry(timed(line)).or_default().means.push((mean, line.times.count as f64));
            }
        }
        for queue in queues {
            if let Some(rate) = queue.items_per_s {
                self.queues.entry(queue.name.clone()).or_default().items.push((rate, 1.0));
            }
        }
    }

    /// The state's share of each window, with the window's length.
    fn weighted(&self, state: &State) -> Vec<(f64, f64)> {
        let shares = self.windows.get(state);
        self.widths.iter().enumerate().map(|(at, &width)| (shares.map_or(0.0, |shares| shares[at]), width)).collect()
    }

    fn share(&self, state: &State) -> f64 {
        self.shares.get(state).copied().unwrap_or(0.0)
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    pub verdict: Verdict,
    pub states: Vec<StateChange>,
    pub latency: Vec<LatencyChange>,
    pub queues: Vec<QueueChange>,
    pub findings: Vec<FindingChange>,
    /// The conditions that hold.
    pub failed: Vec<Failed>,
    /// What there is of each side, and what is missing.
    pub known_a: Known,
    pub known_b: Known,
    #[serde(skip)]
    doubts: Doubts,
    #[serde(skip)]
    seen: BTreeSet<String>,
    #[serde(skip)]
    path_only: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    pub kind: VerdictKind,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VerdictKind {
    Changed,
    Nothing,
    /// Too much is missing to say either.
    Unsure,
}

/// A state's share of the critical path.
#[derive(Clone, Debug, Serialize)]
pub struct StateChange {
    pub machine: String,
    pub state: String,
    pub share_a: f64,
    pub share_b: f64,
    #[serde(flatten)]
    pub change: Change,
    pub certain: bool,
    #[serde(skip)]
    class: String,
}

/// The mean of a latency; the change is relative to the first.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyChange {
    pub kind: Kind,
    pub name: String,
    pub machine: Option<String>,
    pub count_a: u64,
    pub count_b: u64,
    pub mean_a_ns: Option<f64>,
    pub mean_b_ns: Option<f64>,
    pub p99_a_ns: Option<u64>,
    pub p99_b_ns: Option<u64>,
    /// None: it occurs on one side only.
    #[serde(flatten, serialize_with = "nulls")]
    pub change: Option<Change>,
    pub certain: bool,
}

/// What went through a queue; the change is that of the items per second, relative to the first.
#[derive(Clone, Debug, Serialize)]
pub struct QueueChange {
    pub name: String,
    pub items_per_s_a: Option<f64>,
    pub items_per_s_b: Option<f64>,
    pub full_share_a: Option<f64>,
    pub full_share_b: Option<f64>,
    pub empty_share_a: Option<f64>,
    pub empty_share_b: Option<f64>,
    #[serde(flatten, serialize_with = "nulls")]
    pub change: Option<Change>,
    pub certain: bool,
}

/// Unknown is null, and not left out.
fn nulls<S: Serializer>(change: &Option<Change>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Shown {
        change: Option<f64>,
        low: Option<f64>,
        high: Option<f64>,
    }
    let (low, high) = (change.and_then(|it| it.low), change.and_then(|it| it.high));
    Shown { change: change.map(|it| it.change), low, high }.serialize(serializer)
}

/// A finding that only one side has, or both.
#[derive(Clone, Debug, Serialize)]
pub struct FindingChange {
    pub kind: String,
    pub subject: String,
    pub share_a: Option<f64>,
    pub share_b: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    pub condition: String,
    /// What its names stood for.
    pub values: Vec<(String, Option<f64>)>,
}

/// What changed from `a` to `b`. The largest certain change first. Where more than `max_unknown` of a path is unknown, no share of it is certain.
pub fn diff(a: &Side, b: &Side, max_unknown: f64) -> Diff {
    let doubts = Doubts::of(&a.known, &b.known, max_unknown);
    let states = states(a, b, doubts.of_shares().is_none());
    let (latency, queues) = (latency(a, b, !doubts.of_times()), queues(a, b, !doubts.of_times()));
    Diff {
        verdict: verdict(&states, &latency, &queues, &doubts),
        states,
        latency,
        queues,
        findings: findings(a, b),
        failed: Vec::new(),
        known_a: a.known.clone(),
        known_b: b.known.clone(),
        doubts,
        seen: a.seen.union(&b.seen).cloned().collect(),
        path_only: a.path_only && b.path_only,
    }
}

/// As a report names it: that of a link is its queue.
fn class(row: &Row) -> &str {
    match row.class.as_str() {
        "link" => queue_of_calls(&row.machine),
        class => class,
    }
}

fn states(a: &Side, b: &Side, may_be_certain: bool) -> Vec<StateChange> {
    let names: BTreeSet<&State> = a.shares.keys().chain(b.shares.keys()).collect();
    let mut out: Vec<StateChange> = names
        .into_iter()
        .filter_map(|name| {
            let change = Change::weighted(&a.weighted(name), &b.weighted(name))?;
            let certain = may_be_certain && change.is_certain() && change.change.abs() >= LEAST_SHARE;
            let (machine, state) = name.clone();
            let class = b.classes.get(name).or(a.classes.get(name)).cloned().unwrap_or_default();
            Some(StateChange { machine, state, share_a: a.share(name), share_b: b.share(name), change, certain, class })
        })
        .collect();
    out.sort_by(|x, y| y.certain.cmp(&x.certain).then(y.change.change.abs().total_cmp(&x.change.change.abs())));
    out
}

/// Relative to what it was; of values with their weights.
fn relative(a: &[(f64, f64)], b: &[(f64, f64)]) -> Option<Change> {
    let all: f64 = a.iter().map(|(_, weight)| weight).sum();
    let mean = a.iter().map(|(value, weight)| value * weight).sum::<f64>() / all;
    let scaled = |values: &[(f64, f64)]| values.iter().map(|(value, weight)| (value / mean, *weight)).collect::<Vec<_>>();
    (mean > 0.0).then(|| Change::weighted(&scaled(a), &scaled(b)))?
}

fn is_certain(change: Option<Change>) -> bool {
    change.is_some_and(|change| change.is_certain() && change.change.abs() >= LEAST_RELATIVE)
}

fn latency(a: &Side, b: &Side, may_be_certain: bool) -> Vec<LatencyChange> {
    let names: BTreeSet<&Timed> = a.latency.keys().chain(b.latency.keys()).collect();
    let nothing = Times::default();
    let mut out: Vec<LatencyChange> = names
        .into_iter()
        .map(|key| {
            let (from, to) = (a.latency.get(key).unwrap_or(&nothing), b.latency.get(key).unwrap_or(&nothing));
            let change = relative(&from.means, &to.means);
            let times = |side: &Times| side.whole.as_ref().map(|line| line.times.clone()).unwrap_or_default();
            let (x, y) = (times(from), times(to));
            let (kind, name, machine) = key.clone();
            let certain = may_be_certain && is_certain(change);
            LatencyChange {
                kind,
                name,
                machine,
                count_a: x.count,
                count_b: y.count,
                mean_a_ns: x.mean_ns,
                mean_b_ns: y.mean_ns,
                p99_a_ns: x.p99_ns,
                p99_b_ns: y.p99_ns,
                change,
                certain,
            }
        })
        .collect();
    out.sort_by(|x, y| y.certain.cmp(&x.certain).then(size(y.change).total_cmp(&size(x.change))));
    out
}

fn queues(a: &Side, b: &Side, may_be_certain: bool) -> Vec<QueueChange> {
    let names: BTreeSet<&String> = a.queues.keys().chain(b.queues.keys()).collect();
    let nothing = Rates::default();
    let mut out: Vec<QueueChange> = names
        .into_iter()
        .map(|name| {
            let (from, to) = (a.queues.get(name).unwrap_or(&nothing), b.queues.get(name).unwrap_or(&nothing));
            let change = relative(&from.items, &to.items);
            let (x, y) = (from.whole.as_ref(), to.whole.as_ref());
            QueueChange {
                name: name.clone(),
                items_per_s_a: x.and_then(|queue| queue.items_per_s),
                items_per_s_b: y.and_then(|queue| queue.items_per_s),
                full_share_a: x.and_then(|queue| queue.full_share),
                full_share_b: y.and_then(|queue| queue.full_share),
                empty_share_a: x.and_then(|queue| queue.empty_share),
                empty_share_b: y.and_then(|queue| queue.empty_share),
                change,
                certain: may_be_certain && is_certain(change),
            }
        })
        .collect();
    out.sort_by(|x, y| y.certain.cmp(&x.certain).then(size(y.change).total_cmp(&size(x.change))));
    out
}

fn size(change: Option<Change>) -> f64 {
    change.map_or(0.0, |change| change.change.abs())
}

fn findings(a: &Side, b: &Side) -> Vec<FindingChange> {
    let names: BTreeSet<&(String, String)> = a.findings.keys().chain(b.findings.keys()).collect();
    names
        .into_iter()
        .map(|key| {
            let (kind, subject) = key.clone();
            FindingChange { kind, subject, share_a: a.findings.get(key).copied(), share_b: b.findings.get(key).copied() }
        })
        .collect()
}

fn verdict(states: &[StateChange], latency: &[LatencyChange], queues: &[QueueChange], doubts: &Doubts) -> Verdict {
    let mut said = Vec::new();
    if let Some(queue) = queues.iter().find(|queue| queue.certain) {
        if let Some(change) = queue.change {
            said.push(format!("{} passes {} items per second", queue.name, more(change, "more", "fewer")));
        }
    }
    if let Some(state) = states.iter().find(|state| state.certain) {
        said.push(format!(
            "{}::{} takes {} of the critical path instead of {} (± {})",
            state.machine,
            state.state,
            percent(state.share_b),
            percent(state.share_a),
            percent(half(state.change)),
        ));
    }
    if let Some(line) = latency.iter().find(|line| line.certain) {
        if let Some(change) = line.change {
            said.push(format!("{} takes {} time", line.name, more(change, "more", "less")));
        }
    }
    let said = said.join("; ");
    match (said.is_empty(), doubts.of_shares()) {
        (true, None) => Verdict { kind: VerdictKind::Nothing, text: "Nothing changed beyond the noise.".to_owned() },
        (true, Some(why)) => Verdict { kind: VerdictKind::Unsure, text: format!("What changed cannot be told: {why}. {REMEDY}.") },
        (false, None) => Verdict { kind: VerdictKind::Changed, text: format!("{said}.") },
        (false, Some(why)) => {
            let text = format!("{said}. How the critical path changed cannot be told: {why}. {REMEDY}.");
            Verdict { kind: VerdictKind::Changed, text }
        }
    }
}

/// What to do where too much is missing.
const REMEDY: &str = "`longpole path` tells what is missing; record it again, with larger rings (--buffer 4MiB) where events are lost";

fn more(change: Change, up: &str, down: &str) -> String {
    let which = if change.change < 0.0 { down } else { up };
    format!("{} (± {}) {which}", percent(change.change.abs()), percent(half(change)))
}

fn half(change: Change) -> f64 {
    change.low.map_or(0.0, |low| change.change - low)
}

fn timed(line: &Latency) -> Timed {
    (line.kind, line.name.clone(), line.machine.clone())
}
