//! The difference of two recordings of the same system: what changed, and how certain that is.
//!
//! Each side is cut into windows of equal width, exact to the ns. The means over the windows are
//! compared: of a state's share of the critical path, of the mean time of a call or span, of a
//! queue's items per second. A change is certain if its interval excludes 0, and if as much is
//! known about both sides as a verdict needs ([`known`]).
//!
//! Machines of a class are one here, as in a report of several recordings, since the numbers of
//! threads differ between runs. A condition may still name a single machine.

mod conditions;
mod functions;
mod known;

use crate::compare::change::Change;
use crate::critical_path::samples::CriticalFunction;
use crate::critical_path::Answer;
use crate::findings::Finding;
use crate::latency::{Kind, LatencySum};
use crate::queues::QueueAnswer;
use crate::report::Inputs;
use crate::stats::histogram::Times;
use crate::stats::text::{percent, place};
use functions::FunctionShares;
use known::Obstacles;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};

pub use conditions::{check_functions, FUNCTIONS};
pub use functions::FunctionChange;
pub use known::Known;

/// Number of windows of each side.
pub const WINDOWS: usize = 12;

/// Least changes that are reported as certain: of a share of the path, absolute; of a time or a
/// rate, relative to the first side.
const MIN_SHARE: f64 = 0.01;
const MIN_RELATIVE: f64 = 0.02;

/// Everything that is compared of one recording.
#[derive(Clone, Debug, Default)]
pub struct Side {
    of_classes: Shares,
    of_machines: Shares,
    /// Widths of the windows in ns.
    widths: Vec<f64>,
    /// Latencies by class, and of all threads together.
    latency: [BTreeMap<LatencyName, Means>; 2],
    queues: BTreeMap<String, Rates>,
    findings: BTreeMap<(String, String), f64>,
    functions: FunctionShares,
    /// States that occur, on the path or not, as `MACHINE::STATE` and `CLASS::STATE`.
    seen: BTreeSet<String>,
    /// Classes of the machines that are not named like their class.
    classes: BTreeMap<String, String>,
    /// The recording is a machine log, which has nothing but the path.
    path_only: bool,
    known: Known,
}

type StateName = (String, String);
type LatencyName = (Kind, String, Option<String>);

/// Shares of the critical path.
#[derive(Clone, Debug, Default)]
struct Shares {
    /// Shares of the whole path.
    whole: BTreeMap<StateName, f64>,
    /// Shares of each window.
    windows: BTreeMap<StateName, Vec<f64>>,
    /// Owners of each state on the path: its class (for a link, the class of its queue), and the
    /// same with the links of a call and of its reply combined.
    owners: BTreeMap<StateName, [String; 2]>,
}

#[derive(Clone, Debug, Default)]
struct Means {
    /// Mean time of each window that has one, with the number of times as weight.
    means: Vec<(f64, f64)>,
    whole: Option<Times>,
}

#[derive(Clone, Debug, Default)]
struct Rates {
    /// Items per second of each window, with weight 1.
    items: Vec<(f64, f64)>,
    whole: Option<QueueAnswer>,
}

impl Side {
    /// Adds the critical path.
    pub fn add_path(&mut self, answer: &Answer) {
        let (begin, length) = (answer.start_ns, answer.end_ns.saturating_sub(answer.start_ns));
        self.known.unknown_share = Some(answer.unknown_ns as f64 / length.max(1) as f64);
        self.known.contradictions = Some(answer.contradictions);
        (self.known.events, self.known.lost) = (answer.interactions, answer.lost);
        for row in &answer.criticality {
            self.set_class(&row.host, &row.machine, &row.owner);
            for (shares, name) in [(&mut self.of_classes, &row.owner), (&mut self.of_machines, &row.machine)] {
                shares.add((place(&row.host, name), row.state.clone()), [&row.owner, &row.pool], row.share);
            }
        }
        let Some(path) = answer.segments.as_ref().filter(|_| length > 0) else { return };
        let bound = |window: usize| begin + (u128::from(length) * window as u128 / WINDOWS as u128) as u64;
        let width = |window: usize| bound(window + 1) - bound(window);
        let mut times: BTreeMap<[&str; 4], [u64; WINDOWS]> = BTreeMap::new();
        let mut window = 0;
        for segment in path.segments() {
            let times = times.entry([segment.host, segment.machine, segment.owner, segment.state]).or_default();
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
        let wide: Vec<usize> = (0..WINDOWS).filter(|&window| width(window) > 0).collect();
        self.widths = wide.iter().map(|&window| width(window) as f64).collect();
        for ([host, machine, owner, state], times) in times {
            let shares: Vec<f64> = wide.iter().map(|&window| times[window] as f64 / width(window) as f64).collect();
            for (all, name) in [(&mut self.of_classes, owner), (&mut self.of_machines, machine)] {
                let sums = all.windows.entry((place(host, name), state.to_owned())).or_insert_with(|| vec![0.0; shares.len()]);
                sums.iter_mut().zip(&shares).for_each(|(sum, share)| *sum += share);
            }
        }
    }

    fn set_class(&mut self, host: &str, machine: &str, class: &str) {
        if machine != class {
            self.classes.insert(place(host, machine), place(host, class));
        }
    }

    /// Sets the functions on the path, from sampled stacks.
    pub fn set_functions(&mut self, functions: &[CriticalFunction]) {
        self.functions = FunctionShares::of(functions);
    }

    /// Adds machines that are not on the path, with their classes.
    pub fn add_classes(&mut self, all: impl Iterator<Item = (String, String)>) {
        all.for_each(|(machine, class)| self.set_class("", &machine, &class));
    }

    /// Sets the states that occur, as `MACHINE::STATE` and `CLASS::STATE`.
    pub fn set_seen(&mut self, names: BTreeSet<String>) {
        self.seen = names;
    }

    /// Sets the numbers of events and of lost events, also if there is no path.
    pub fn set_events(&mut self, inputs: &Inputs) {
        self.known.events = inputs.events + inputs.kernel_events;
        self.known.lost = inputs.lost.saturating_add(inputs.kernel_lost);
        self.known.uncounted_losses = inputs.uncounted_losses + inputs.uncounted_kernel_losses;
    }

    /// Notes that there is nothing but the path.
    pub fn set_path_only(&mut self) {
        self.path_only = true;
    }

    /// Adds the results for the whole recording; latencies by class and of all threads together.
    pub fn add_whole(&mut self, latency: [Vec<LatencySum>; 2], queues: &[QueueAnswer], findings: &[Finding]) {
        for (known, lines) in self.latency.iter_mut().zip(latency) {
            for line in lines {
                known.entry((line.kind, line.name, line.class)).or_default().whole = Some(line.times);
            }
        }
        for queue in queues {
            self.queues.entry(queue.name.clone()).or_default().whole = Some(queue.clone());
        }
        for finding in findings {
            let share = self.findings.entry((finding.kind.clone(), subject(&finding.subject, &self.classes))).or_default();
            *share = share.max(finding.share);
        }
    }

    /// Adds the results for one window.
    pub fn add_window(&mut self, latency: [Vec<LatencySum>; 2], queues: &[QueueAnswer]) {
        for (known, lines) in self.latency.iter_mut().zip(latency) {
            for line in lines {
                if let Some(mean) = line.times.mean_ns {
                    known.entry((line.kind, line.name, line.class)).or_default().means.push((mean, line.times.count as f64));
                }
            }
        }
        for queue in queues {
            if let Some(rate) = queue.items_per_s {
                self.queues.entry(queue.name.clone()).or_default().items.push((rate, 1.0));
            }
        }
    }
}

impl Shares {
    fn add(&mut self, name: StateName, owners: [&String; 2], share: f64) {
        self.owners.entry(name.clone()).or_insert_with(|| owners.map(String::clone));
        *self.whole.entry(name).or_default() += share;
    }

    /// Returns the state's share in each window, with the window's width as weight.
    fn weighted(&self, widths: &[f64], state: &StateName) -> Vec<(f64, f64)> {
        let shares = self.windows.get(state);
        widths.iter().enumerate().map(|(at, &width)| (shares.map_or(0.0, |shares| shares[at]), width)).collect()
    }

    fn share(&self, state: &StateName) -> f64 {
        self.whole.get(state).copied().unwrap_or(0.0)
    }
}

/// Replaces machines by their classes in the subject of a finding: `MACHINE`, `MACHINE::STATE`, or
/// several.
fn subject(text: &str, classes: &BTreeMap<String, String>) -> String {
    let one = |part: &str| {
        let cuts = std::iter::once(part.len()).chain(part.match_indices("::").map(|(at, _)| at));
        let found = cuts.into_iter().find_map(|at| Some((classes.get(&part[..at])?, &part[at..])));
        found.map_or_else(|| part.to_owned(), |(class, rest)| format!("{class}{rest}"))
    };
    text.split(", ").map(one).collect::<Vec<_>>().join(", ")
}

/// The difference of two recordings: changes with their certainty, and the conditions that hold.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    pub verdict: DiffVerdict,
    pub states: Vec<StateChange>,
    pub latency: Vec<LatencyChange>,
    pub queues: Vec<QueueChange>,
    pub findings: Vec<FindingChange>,
    /// Functions on the path; empty if one of the recordings has no stacks on it.
    pub functions: Vec<FunctionChange>,
    /// Conditions that hold.
    pub failed: Vec<Failed>,
    /// What is known of each side, and what is missing.
    pub known_a: Known,
    pub known_b: Known,
    /// Further subjects of conditions: single machines, and all threads together.
    #[serde(skip)]
    machines: Vec<StateChange>,
    #[serde(skip)]
    together: Vec<LatencyChange>,
    #[serde(skip)]
    obstacles: Obstacles,
    /// States that occur on each side.
    #[serde(skip)]
    seen: [BTreeSet<String>; 2],
    #[serde(skip)]
    path_only: bool,
}

/// The most important certain changes, in one sentence.
#[derive(Clone, Debug, Serialize)]
pub struct DiffVerdict {
    pub kind: DiffOutcome,
    pub text: String,
}

/// Outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiffOutcome {
    Changed,
    Nothing,
    /// Too much is missing to say either.
    Unsure,
}

/// Change of a state's share of the critical path.
#[derive(Clone, Debug, Serialize)]
pub struct StateChange {
    /// Class of the machine; for a link, its queue.
    pub machine: String,
    pub state: String,
    pub share_a: f64,
    pub share_b: f64,
    #[serde(flatten)]
    pub change: Change,
    pub certain: bool,
    #[serde(skip)]
    owners: [String; 2],
}

/// Change of the mean of a latency, relative to the first side.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyChange {
    pub kind: Kind,
    pub name: String,
    /// Class of the threads.
    pub machine: Option<String>,
    pub count_a: u64,
    pub count_b: u64,
    pub mean_a_ns: Option<f64>,
    pub mean_b_ns: Option<f64>,
    pub p99_a_ns: Option<u64>,
    pub p99_b_ns: Option<u64>,
    /// `None` if it occurs on one side only.
    #[serde(flatten, serialize_with = "nulls")]
    pub change: Option<Change>,
    pub certain: bool,
}

/// Change of a queue's items per second, relative to the first side.
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

/// Serializes an unknown change as nulls instead of leaving the fields out.
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

/// A finding of one side or of both.
#[derive(Clone, Debug, Serialize)]
pub struct FindingChange {
    pub kind: String,
    pub subject: String,
    pub share_a: Option<f64>,
    pub share_b: Option<f64>,
}

/// A condition that holds; in the command's `--fail-if` this is a failure.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    pub condition: String,
    /// Values of the names in the condition.
    pub values: Vec<(String, Option<f64>)>,
}

/// Returns the changes from `a` to `b`, the largest certain change first. If more than
/// `max_unknown` of a path is unknown, no change of a share is certain.
pub fn diff(a: &Side, b: &Side, max_unknown: f64) -> Diff {
    let obstacles = Obstacles::of(&a.known, &b.known, max_unknown);
    let shares = |of: fn(&Side) -> &Shares| states(a, b, of, obstacles.of_shares().is_none());
    let (states, machines) = (shares(|side| &side.of_classes), shares(|side| &side.of_machines));
    let times = |at| latency(&a.latency[at], &b.latency[at], obstacles.of_times().is_none());
    let (latency, queues) = (times(0), queues(a, b, obstacles.of_times().is_none()));
    Diff {
        verdict: verdict(&states, &latency, &queues, &obstacles),
        states,
        latency,
        queues,
        findings: findings(a, b),
        functions: functions::changes(&a.functions, &b.functions, obstacles.of_shares().is_none()),
        failed: Vec::new(),
        machines,
        together: times(1),
        known_a: a.known.clone(),
        known_b: b.known.clone(),
        obstacles,
        seen: [a.seen.clone(), b.seen.clone()],
        path_only: a.path_only && b.path_only,
    }
}

fn states(a: &Side, b: &Side, of: fn(&Side) -> &Shares, may_be_certain: bool) -> Vec<StateChange> {
    let (from, to) = (of(a), of(b));
    let names: BTreeSet<&StateName> = from.whole.keys().chain(to.whole.keys()).collect();
    let mut out: Vec<StateChange> = names
        .into_iter()
        .filter_map(|name| {
            let change = Change::weighted(&from.weighted(&a.widths, name), &to.weighted(&b.widths, name))?;
            let certain = may_be_certain && change.is_certain() && change.change.abs() >= MIN_SHARE;
            let (machine, state) = name.clone();
            let owners = to.owners.get(name).or(from.owners.get(name)).cloned().unwrap_or_default();
            Some(StateChange { machine, state, share_a: from.share(name), share_b: to.share(name), change, certain, owners })
        })
        .collect();
    out.sort_by(|x, y| y.certain.cmp(&x.certain).then(y.change.change.abs().total_cmp(&x.change.change.abs())));
    out
}

/// Returns the change of a weighted mean relative to the mean of `a`.
fn relative(a: &[(f64, f64)], b: &[(f64, f64)]) -> Option<Change> {
    let all: f64 = a.iter().map(|(_, weight)| weight).sum();
    let mean = a.iter().map(|(value, weight)| value * weight).sum::<f64>() / all;
    let scaled = |values: &[(f64, f64)]| values.iter().map(|(value, weight)| (value / mean, *weight)).collect::<Vec<_>>();
    (mean > 0.0).then(|| Change::weighted(&scaled(a), &scaled(b)))?
}

fn is_certain(change: Option<Change>) -> bool {
    change.is_some_and(|change| change.is_certain() && change.change.abs() >= MIN_RELATIVE)
}

fn latency(a: &BTreeMap<LatencyName, Means>, b: &BTreeMap<LatencyName, Means>, may_be_certain: bool) -> Vec<LatencyChange> {
    let names: BTreeSet<&LatencyName> = a.keys().chain(b.keys()).collect();
    let nothing = Means::default();
    let mut out: Vec<LatencyChange> = names
        .into_iter()
        .map(|key| {
            let (from, to) = (a.get(key).unwrap_or(&nothing), b.get(key).unwrap_or(&nothing));
            let change = relative(&from.means, &to.means);
            let times = |side: &Means| side.whole.clone().unwrap_or_default();
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

fn verdict(states: &[StateChange], latency: &[LatencyChange], queues: &[QueueChange], obstacles: &Obstacles) -> DiffVerdict {
    let mut clauses = Vec::new();
    if let Some(queue) = queues.iter().find(|queue| queue.certain) {
        if let Some(change) = queue.change {
            clauses.push(format!("{} passes {} items per second", queue.name, more(change, "more", "fewer")));
        }
    }
    if let Some(state) = states.iter().find(|state| state.certain) {
        clauses.push(format!(
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
            clauses.push(format!("{} takes {} time", line.name, more(change, "more", "less")));
        }
    }
    let text = clauses.join("; ");
    match (text.is_empty(), obstacles.of_shares()) {
        (true, None) => DiffVerdict { kind: DiffOutcome::Nothing, text: "Nothing changed beyond the noise.".to_owned() },
        (true, Some(why)) => DiffVerdict { kind: DiffOutcome::Unsure, text: format!("What changed is unknown: {why}. {REMEDY}.") },
        (false, None) => DiffVerdict { kind: DiffOutcome::Changed, text: format!("{text}.") },
        (false, Some(why)) => {
            let text = format!("{text}. How the critical path changed is unknown: {why}. {REMEDY}.");
            DiffVerdict { kind: DiffOutcome::Changed, text }
        }
    }
}

/// Advice if too much is missing.
const REMEDY: &str = "`longpole path` lists what is missing; record again, with larger rings (--buffer) if events are lost";

fn more(change: Change, up: &str, down: &str) -> String {
    let which = if change.change < 0.0 { down } else { up };
    format!("{} (± {}) {which}", percent(change.change.abs()), percent(half(change)))
}

fn half(change: Change) -> f64 {
    change.low.map_or(0.0, |low| change.change - low)
}
