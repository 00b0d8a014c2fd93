//! The verdict from the critical path: whether its largest state stands out.
//!
//! It does if it is ahead of the next beyond the noise, if somebody waits for what it does, and if the system would be faster were it shorter. What sleeps by
//! its own timer, or waits for what the trace does not tell, holds nothing back that could be named. Machines of one class are one: threads of a pool
//! take turns on the path. The way of calls there and back belongs to who calls. The error is two standard errors over windows of equal width.

use crate::cut::Cut;
use crate::findings::{Evidence, Lead, PathThresholds};
use crate::lineage::{Answer, Call, Kind, Numbered, Path, Row};
use crate::text::{number, percent};
use crate::verdict::{too_many_lost, Reason, Verdict, VerdictKind};
use crate::what_if::{Prediction, Scenario};
use longpole_model::hash::IdMap;
use longpole_model::kinds::{state_label, LinkKind, SegmentKind, StateKind};
use std::collections::{HashMap, HashSet};

const WINDOWS: usize = 12;
/// Items for each call, where one for each is what is tried.
const FEWER_CALLS: u64 = 16;
/// Of the path: who has less has no part in it.
const LITTLE: f64 = 0.01;
/// Who has more has most of it.
const MOST: f64 = 0.6;

/// Said of a state where nothing tells when threads run.
const OPEN: &str = "; whether it runs or waits there the trace does not tell (`longpole record --kernel sched`, as root, does)";

/// A state on the path, of all machines of its class.
#[derive(Clone, Debug)]
pub struct Standing {
    pub class: String,
    pub state: String,
    pub kind: Kind,
    pub segment: SegmentKind,
    pub share: f64,
    pub error: f64,
    /// The way of calls, there and back: the class calls, the state is what it calls.
    pub is_call: bool,
    /// The one machine that has nearly all of it.
    machine: Option<String>,
    /// Of each window.
    shares: Vec<f64>,
    evidence: Evidence,
}

impl Standing {
    /// The machine, or the class of several.
    pub fn owner(&self) -> &str {
        self.machine.as_deref().unwrap_or(&self.class)
    }

    /// What would show whether anything is gained here.
    pub fn fix(&self) -> Scenario {
        match self.kind {
            Kind::Link if self.is_call => Scenario::batch(&self.class, &state_label(&self.state), FEWER_CALLS),
            Kind::Runnable => Scenario::cpus(1),
            _ => Scenario::scale(self.owner(), &self.state, 0.5),
        }
    }

    /// Whether another machine takes turns with this one: it has a considerable part of the path, or most of it for a while.
    fn is_rival(&self, second: &Standing) -> bool {
        let turns = || self.shares.iter().zip(&second.shares).any(|(first, second)| second > first);
        let considerable = second.share + second.error >= 0.5 * self.share;
        self.kind != Kind::Runnable && !self.is_call && second.class != self.class && (considerable || turns())
    }

    /// What half of its time would bring if nothing else held back then.
    fn promise(&self) -> f64 {
        1.0 / (1.0 - 0.5 * self.share) - 1.0
    }
}

/// The states of a path, the largest first.
pub fn standings(answer: &Answer, path: &Path) -> Vec<Standing> {
    let mut cut = Cut::new(answer, WINDOWS);
    let mut sums: Vec<((&str, &str), [u64; WINDOWS])> = Vec::new();
    let mut names = Numbered::new(path.kinds());
    let mut calling = Calling::new(path);
    for stretch in path.stretches() {
        calling.stretch(stretch.of);
        let at = names.number(stretch.of, || pooled(path, stretch.of));
        if at == sums.len() {
            sums.push((pooled(path, stretch.of), [0; WINDOWS]));
        }
        cut.add(&stretch, &mut sums[at].1);
    }
    let callers = calling.callers(path);
    let mut most: Vec<Option<(u64, u32)>> = vec![None; sums.len()];
    for (of, &ns) in (0..).zip(path.times()).filter(|&(_, &ns)| ns > 0) {
        let most = &mut most[names.number(of, || pooled(path, of))];
        if most.is_none_or(|(largest, _)| ns > largest) {
            *most = Some((ns, of));
        }
    }
    let mut out: Vec<Standing> = sums
        .into_iter()
        .zip(most)
        .map(|(((class, state), windows), most)| {
            let whole: u64 = windows.iter().sum();
            let alone = most.filter(|&(ns, _)| ns as f64 >= 0.9 * whole as f64).map(|(_, of)| path.machine(of).to_owned());
            let call = most.and_then(|(_, of)| callers.of(call(path, of)?));
            let (class, state) = match most {
                // As most of it is called.
                Some((_, of)) if path.kind(of) == Kind::Runnable => (class, path.class_and_state(of).1),
                _ => call.unwrap_or((class, state)),
            };
            let shares = cut.shares(&windows);
            Standing {
                class: class.to_owned(),
                state: state.to_owned(),
                is_call: call.is_some(),
                kind: most.map_or(Kind::Unknown, |(_, of)| path.kind(of)),
                segment: most.map_or(SegmentKind::State(StateKind::Unknown), |(_, of)| path.segment_kind(of)),
                share: whole as f64 / cut.length() as f64,
                error: error(&shares),
                machine: alone,
                shares,
                evidence: cut.evidence(&windows),
            }
        })
        .collect();
    out.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| (&a.class, &a.state).cmp(&(&b.class, &b.state))));
    out
}

/// What is one: the way of a call there and back, and all that a class waits for a CPU, never put on one or taken off it.
fn pooled(path: &Path, of: u32) -> (&str, &str) {
    let (class, state) = path.class_and_state(of);
    let runnable = StateKind::Runnable.text().filter(|_| path.kind(of) == Kind::Runnable);
    (path.call(of).map_or(class, |call| call.queue), runnable.unwrap_or(state))
}

/// Who calls: whom the path left last before it went the way of a call.
#[derive(Default)]
struct Callers<'a> {
    counts: HashMap<&'a str, HashMap<&'a str, u64>>,
}

/// The same, as stretches come.
struct Calling {
    /// Of each number of stretches.
    ways: Vec<Way>,
    last: Option<u32>,
    counts: IdMap<(u32, u32), u64>,
}

#[derive(Clone, Copy)]
enum Way {
    Call,
    /// What comes back was left by who is called.
    Machine,
    Other,
}

impl Calling {
    fn new(path: &Path) -> Calling {
        let way = |of: u32| match call(path, of) {
            Some(call) if !call.is_reply => Way::Call,
            _ if path.kind(of) != Kind::Link => Way::Machine,
            _ => Way::Other,
        };
        Calling { ways: (0..path.kinds() as u32).map(way).collect(), last: None, counts: IdMap::default() }
    }

    #[inline]
    fn stretch(&mut self, of: u32) {
        match self.ways.get(of as usize) {
            Some(Way::Call) => {
                if let Some(last) = self.last {
                    *self.counts.entry((of, last)).or_default() += 1;
                }
            }
            Some(Way::Machine) => self.last = Some(of),
            Some(Way::Other) | None => {}
        }
    }

    fn callers(self, path: &Path) -> Callers<'_> {
        let mut callers = Callers::default();
        for ((of, last), count) in self.counts {
            let by = callers.counts.entry(path.class_and_state(of).0).or_default();
            *by.entry(path.class_and_state(last).0).or_default() += count;
        }
        callers
    }
}

impl<'a> Callers<'a> {
    /// The class that calls most often, and what it calls.
    fn of(&self, call: Call<'a>) -> Option<(&'a str, &'a str)> {
        let caller = self.counts.get(call.queue)?.iter().max_by_key(|&(name, &count)| (count, std::cmp::Reverse(*name)))?;
        Some((caller.0, call.name))
    }
}

/// The call that is on its way there or back.
fn call(path: &Path, of: u32) -> Option<Call<'_>> {
    path.call(of).filter(|_| path.segment_kind(of) == SegmentKind::Link(LinkKind::Queued))
}

/// Two standard errors of the mean.
fn error(shares: &[f64]) -> f64 {
    let count = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / count;
    let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
    2.0 * (squares / (count - 1.0) / count).sqrt()
}

/// Whether the path goes from one machine to another. The recorder has only begun the command. Where others than the first one have next to nothing of the path, only another
/// program counts: a page that had to be read once does not make an interrupt or a thread of the kernel one that waits.
fn anybody_waits(path: &Path, first: &Standing, is_recorder: &dyn Fn(&str) -> bool) -> bool {
    let (mut others_ns, mut whole_ns) = (0, 0);
    let mut of_kernel = HashSet::new();
    let mut recorded = vec![false; path.kinds()];
    for (of, &ns) in (0..).zip(path.times()).filter(|&(_, &ns)| ns > 0) {
        let (machine, (class, _)) = (path.machine(of), path.class_and_state(of));
        recorded[of as usize] = is_recorder(machine);
        whole_ns += ns;
        others_ns += if class == first.class || recorded[of as usize] { 0 } else { ns };
        if matches!(path.segment_kind(of), SegmentKind::State(StateKind::Interrupt | StateKind::Kernel)) {
            of_kernel.insert(machine);
        }
    }
    let little = (others_ns as f64) < LITTLE * whole_ns as f64;
    let mut last = None;
    path.stretches().filter(|stretch| path.kind(stretch.of) != Kind::Link).any(|stretch| {
        let (machine, by_recorder) = (path.machine(stretch.of), recorded[stretch.of as usize]);
        if little && of_kernel.contains(machine) {
            return false;
        }
        let before = last.replace((machine, by_recorder));
        before.is_some_and(|(last, recorder)| last != machine && !recorder && !by_recorder)
    })
}

/// Whether the path mostly comes to this machine from others before it sleeps: then it lets them wait. Who sleeps of its own accord makes the pace, as does the one whose
/// end counts.
fn is_asked(answer: &Answer, path: &Path, first: &Standing) -> bool {
    let (mut sleeps, mut asked) = (0u64, 0u64);
    let (mut last, mut from_others) = (None, false);
    for stretch in path.stretches().filter(|stretch| path.kind(stretch.of) != Kind::Link) {
        let machine = path.machine(stretch.of);
        from_others |= last.is_some_and(|last| last != machine);
        last = Some(machine);
        if path.class_and_state(stretch.of) == (first.class.as_str(), first.state.as_str()) && machine != answer.end_machine {
            sleeps += 1;
            asked += u64::from(std::mem::take(&mut from_others));
        }
    }
    2 * asked > sleeps
}

/// Whether the path tells enough to overrule what the queues say.
pub fn decides(verdict: &Verdict, thresholds: &PathThresholds) -> bool {
    verdict.kind == VerdictKind::Bottleneck && verdict.unknown_share.is_some_and(|share| share <= thresholds.max_unknown)
}

/// What is known beside the path.
pub struct Beside<'a> {
    /// The machines that have recorded.
    pub is_recorder: &'a dyn Fn(&str) -> bool,
    /// Classes of threads that wait although a CPU is idle, and which part of the path that is: no further CPU would help them.
    pub idle: &'a [(String, f64)],
    /// What changes would bring.
    pub predictions: &'a [Prediction],
    /// What helps where events are lost ([`crate::verdict::again`]).
    pub again: &'a str,
    /// Something tells when threads run.
    pub tells_running: bool,
}

/// `fix` is what [`Standing::fix`] of the first would bring, if that was asked.
pub fn judge(
    answer: &Answer,
    path: &Path,
    standings: &[Standing],
    fix: Option<&Prediction>,
    lost: u64,
    beside: &Beside<'_>,
    thresholds: &PathThresholds,
) -> Verdict {
    let unknown = answer.unknown_ns as f64 / answer.length_ns.max(1) as f64;
    let whole = Evidence { start_ns: answer.start_ns as i64, end_ns: answer.end_ns as i64 };
    let end = format!(", {} of the path unknown, {} events lost", percent(unknown), number(lost));
    let first = standings.first();
    let torn = too_many_lost(lost, answer.interactions);
    let too_little = match (unknown > thresholds.max_unknown, torn) {
        (false, false) => None,
        (_, true) => Some(beside.again),
        (true, false) if lost > 0 => Some(beside.again),
        (true, false) if answer.contradictions > 0 => Some("; `longpole path` says what contradicts itself"),
        (true, false) => Some("; `longpole path` says which events would tell it"),
    };
    let reason = if too_little.is_some() { Reason::CannotBeTold } else { Reason::NothingStandsOut };
    let nothing = |why: String| Verdict {
        kind: VerdictKind::Nothing,
        reason: Some(reason),
        machine: None,
        state: None,
        share: None,
        share_error: None,
        unknown_share: Some(unknown),
        lost,
        doubts: None,
        evidence: whole,
        text: format!("{}: {why}{end}{}.", reason.begin(), too_little.unwrap_or_default()),
        of_stages: false,
        of_cause: false,
    };
    let Some(first) = first else { return nothing("nothing happens".to_owned()) };
    let name = format!("{}::{}", first.class, first.state);
    let said = format!("{} ± {} of the critical path", percent(first.share), percent(first.error));
    if let Some(why) = why_not(answer, path, standings, first, fix, beside, thresholds) {
        return nothing(match spread(standings, first) {
            Some(whole) => {
                let (whole, share, error) = (percent(whole), percent(first.share), percent(first.error));
                format!(
                    "{} has {whole} of the critical path, and {} is the largest part ({share} ± {error}), but {why}",
                    first.class, first.state
                )
            }
            None => format!("{name} has the most, {said}, but {why}"),
        });
    }
    let what = match first.kind {
        Kind::Runnable if beside.mostly_idle(first) => format!("{} waits for a CPU, although one is idle, for {said}", first.class),
        Kind::Runnable => format!("{} waits for a CPU for {said}", first.class),
        Kind::Link if first.is_call => {
            format!("{} is the bottleneck: its calls of {} are on their way there and back for {said}", first.class, first.state)
        }
        Kind::Link => format!("{} is the bottleneck: the way through it ({}) takes {said}", first.class, first.state),
        _ => format!("{} is the bottleneck: {} takes {said}", first.class, first.state),
    };
    let timer = timer(answer, &first.class).map_or_else(String::new, |(machine, call)| {
        format!("; {machine} has set a timer ({call}): if that is what ends it, no change makes it shorter")
    });
    let open = if first.kind == Kind::Running && !beside.tells_running { OPEN } else { "" };
    Verdict {
        kind: VerdictKind::Bottleneck,
        reason: None,
        machine: Some(first.class.clone()),
        state: Some(first.state.clone()),
        share: Some(first.share),
        share_error: Some(first.error),
        unknown_share: Some(unknown),
        lost,
        doubts: None,
        evidence: first.evidence,
        text: format!("{what}{end}{}{timer}{open}.", if torn { beside.again } else { "" }),
        of_stages: false,
        of_cause: false,
    }
}

/// What the first one's class has of the path, where that is most of it, and in several states.
fn spread(standings: &[Standing], first: &Standing) -> Option<f64> {
    let whole: f64 = standings.iter().filter(|other| other.class == first.class).map(|other| other.share).sum();
    (whole >= MOST && first.share <= 0.75 * whole && first.kind != Kind::Link).then_some(whole)
}

/// Calls after which the kernel sends a signal when the time has come.
const TIMERS: [&str; 3] = ["alarm", "setitimer", "timer_settime"];

/// The thread of this one's program that has set a timer on the way to that program's end, and the call. Its signal may be what
/// ends a loop; no event tells whether it is.
pub(crate) fn timer<'a>(answer: &'a Answer, class: &str) -> Option<(&'a str, &'a str)> {
    let ends = program(&answer.end_machine) == program(class);
    let is_call = |row: &Row| matches!(row.kind, SegmentKind::State(StateKind::SystemCall | StateKind::Named));
    let sets = |row: &&Row| is_call(row) && TIMERS.contains(&row.state.as_str()) && program(&row.class) == program(class);
    let row = answer.criticality.iter().filter(|_| ends).find(sets)?;
    Some((&row.class, &row.state))
}

/// Threads are named PROGRAM/THREAD.
fn program(machine: &str) -> &str {
    machine.split('/').next().unwrap_or(machine)
}

/// Why the first state does not stand out.
fn why_not(
    answer: &Answer,
    path: &Path,
    standings: &[Standing],
    first: &Standing,
    fix: Option<&Prediction>,
    beside: &Beside<'_>,
    thresholds: &PathThresholds,
) -> Option<String> {
    if matches!(first.kind, Kind::Unknown | Kind::Blocked) || first.segment == SegmentKind::Link(LinkKind::Unknown) {
        return Some("what it waits for is not in the trace".to_owned());
    }
    if !first.is_call && matches!(first.segment, SegmentKind::Link(LinkKind::Queued | LinkKind::Wakeup)) {
        return Some("what is on its way for so long waits for somebody whom the trace does not tell".to_owned());
    }
    if matches!(first.segment, SegmentKind::Link(LinkKind::Timer | LinkKind::KernelTimer)) {
        return Some("it sleeps until a time that it set itself".to_owned());
    }
    if first.segment == SegmentKind::State(StateKind::Asleep) && !is_asked(answer, path, first) {
        let gain = fix.and_then(|fix| fix.gain).filter(|&gain| gain >= thresholds.min_gain);
        let gain = gain.map_or_else(String::new, |gain| format!("; if that is not on purpose, half of it would bring {}", percent(gain)));
        return Some(format!("it sleeps until a time that it set itself, as one does that makes the pace{gain}"));
    }
    let beyond = first.share - first.error;
    let second = standings.get(1);
    // What one gains, the other loses: their errors go together.
    let next = second.map_or(0.0, |second| second.share + second.error);
    if let Some(second) = second.filter(|_| beyond < next) {
        return Some(format!(
            "{}::{} is not behind it beyond the noise ({} ± {})",
            second.class,
            second.state,
            percent(second.share),
            percent(second.error)
        ));
    }
    if !thresholds.stands_out.iter().any(|needed| beyond >= needed.share && beyond >= needed.lead * next) {
        let needed = |of: &Lead| match of.lead > 1.0 {
            true => format!("{} times the next above {}", of.lead, percent(of.share)),
            false => percent(of.share),
        };
        let needed: Vec<String> = thresholds.stands_out.iter().map(needed).collect();
        return Some(format!("that is not beyond the noise above {}", needed.join(", nor ")));
    }
    // Who waits for a CPU waits for those that have it.
    if first.kind != Kind::Runnable && !anybody_waits(path, first, beside.is_recorder) {
        return Some("no machine waits for another".to_owned());
    }
    if beside.mostly_idle(first) {
        return None;
    }
    // Who calls once for more items than were tried loses by that; nothing follows from it.
    // Nor does it where a timer or a device is what decides then: in a replay they come when they came, which in a system that is faster they need not.
    let fix = fix.filter(|fix| !is_fixed(fix));
    // How the kernel would use another CPU is not known: it brings so much at most.
    let gain = if first.kind == Kind::Runnable { fix.and_then(|fix| fix.gain_high) } else { fix.and_then(|fix| fix.gain) };
    let gain = gain.filter(|&gain| !first.is_call || gain > 0.0)?;
    let change = fix.map_or("", |fix| fix.change.as_str());
    if gain < thresholds.min_gain {
        return Some(format!("{change} would bring {} only", percent(gain.max(0.0))));
    }
    if let Some(rival) = standings.get(1).filter(|second| first.is_rival(second) && gain < thresholds.min_of_promise * first.promise()) {
        return Some(format!("{change} would bring {} only, since {}::{} is nearly as slow", percent(gain), rival.class, rival.state));
    }
    let (other, more) = beside.best_of_others(standings, first)?;
    (more > thresholds.max_of_others * gain).then(|| format!("{change} would bring {} only, and {other} {}", percent(gain), percent(more)))
}

impl Beside<'_> {
    /// Whether a thread waits for a CPU mostly while one is idle.
    fn mostly_idle(&self, first: &Standing) -> bool {
        let idle: f64 = self.idle.iter().filter(|(class, _)| *class == first.class).map(|(_, share)| share).sum();
        first.kind == Kind::Runnable && idle >= 0.5 * first.share
    }

    /// What half of the work of another machine's state would bring at most, where the first is work, too.
    fn best_of_others(&self, standings: &[Standing], first: &Standing) -> Option<(String, f64)> {
        let is_work = |standing: &Standing| !matches!(standing.kind, Kind::Runnable | Kind::Link | Kind::Blocked | Kind::Unknown);
        let others = standings.iter().filter(|other| is_work(first) && is_work(other) && other.class != first.class);
        // As they are proposed: machines of a class have their states together.
        let changes: HashSet<String> = others.map(|other| Scenario::scale(&other.class, &other.state, 0.5).text).collect();
        let gains = self.predictions.iter().filter(|prediction| changes.contains(&prediction.change));
        gains.filter_map(|of| Some((of.change.clone(), of.gain?))).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

fn is_fixed(fix: &Prediction) -> bool {
    let is_fixed = |kind| matches!(kind, SegmentKind::Link(LinkKind::Timer | LinkKind::KernelTimer | LinkKind::Interrupt));
    fix.next.as_ref().and_then(|next| next.kind).is_some_and(is_fixed)
}
