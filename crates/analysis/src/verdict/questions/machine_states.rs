//! The verdict by states of machines, for traces in which no process is known, and for states that
//! a program declared: it decides whether the largest state of the critical path leads.
//!
//! A state leads if its share is larger than the next one by more than the statistical error, if
//! another machine waits for it, and if the system would be faster with less of it. A machine that
//! sleeps by its own timer, or waits for something for which the trace has no event, is not named.
//!
//! Machines of one class count as one, because threads of a pool take turns on the path. The time
//! of calls and replies in transit belongs to the caller. The error is two standard errors over
//! `WINDOWS` windows of equal width.

use crate::critical_path::path_windows::Cut;
use crate::critical_path::{Answer, Call, Kind, Numbered, Path, Row};
use crate::findings::PathThresholds;
use crate::stats::evidence::Evidence;
use crate::verdict::data::because::Because;
use crate::verdict::data::caveat::Caveat;
use crate::verdict::data::figures::{Change, Measured, RequiredShare};
use crate::verdict::data::{Basis, Named, Outcome, RunnerUp, StateNamed, SubjectLevel, SubjectState, Verdict};
use crate::verdict::limits::{
    MAX_PART_OF_WHOLE, MIN_IDLE_PART, MIN_PART_OF_MACHINE, MIN_PART_OF_RIVAL, MIN_SHARE_OF_OTHERS, MIN_WHOLE_SHARE,
};
use crate::verdict::lost_events::too_many_lost;
use crate::verdict::parts::WINDOWS;
use crate::what_if::{Prediction, Scenario};
use longpole_model::hash::IdMap;
use longpole_model::kinds::{state_label, LinkKind, SegmentKind, StateKind};
use longpole_model::system_calls::CallFamily;
use std::collections::{HashMap, HashSet};

/// Number of items per call to try where each item makes one call.
const ITEMS_PER_CALL: u64 = 16;

/// A state on the path, added up over all machines of its class.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub class: String,
    pub state: String,
    pub kind: Kind,
    pub segment: SegmentKind,
    pub share: f64,
    pub error: f64,
    /// True for the time of calls and replies in transit: `class` is the caller, and `state` is the
    /// name of the call.
    pub is_call: bool,
    /// Machine that has nearly all of this state's time, if there is one.
    machine: Option<String>,
    /// Share in each window.
    shares: Vec<f64>,
    evidence: Evidence,
}

impl Candidate {
    /// Returns the machine, or the class if several machines have the state.
    pub fn owner(&self) -> &str {
        self.machine.as_deref().unwrap_or(&self.class)
    }

    /// Returns the change that shows whether anything is gained here.
    pub fn fix(&self) -> Scenario {
        match self.kind {
            Kind::Link if self.is_call => Scenario::batch(&self.class, &state_label(&self.state), ITEMS_PER_CALL),
            Kind::Runnable => Scenario::cpus(1),
            _ => Scenario::scale(self.owner(), &self.state, 0.5),
        }
    }

    /// Returns whether another machine takes turns with this one: it has a considerable share of
    /// the path, or most of it in some window.
    fn is_rival(&self, second: &Candidate) -> bool {
        let turns = || self.shares.iter().zip(&second.shares).any(|(first, second)| second > first);
        let considerable = second.share + second.error >= MIN_PART_OF_RIVAL * self.share;
        self.kind != Kind::Runnable && !self.is_call && second.class != self.class && (considerable || turns())
    }

    fn subject(&self) -> Named {
        Named::of_name(SubjectLevel::Thread, &self.class)
    }

    fn state(&self) -> StateNamed {
        let kind = match self.kind {
            Kind::Runnable => SubjectState::Runnable,
            Kind::Link if self.is_call => SubjectState::Call,
            Kind::Link => SubjectState::Transit,
            Kind::Blocked | Kind::Unknown => SubjectState::Unknown,
            _ => SubjectState::Declared,
        };
        StateNamed { kind, name: self.state.clone() }
    }

    fn measured(&self) -> Measured {
        Measured { subject: self.subject(), state: self.state(), share: self.share, error: self.error }
    }

    /// Returns the gain of halving the time if nothing else became the limit.
    fn promise(&self) -> f64 {
        1.0 / (1.0 - 0.5 * self.share) - 1.0
    }
}

/// Returns the states of a path, the largest first.
pub fn candidates(answer: &Answer, path: &Path) -> Vec<Candidate> {
    let mut cut = Cut::new(answer, WINDOWS);
    let mut sums: Vec<((&str, &str), [u64; WINDOWS])> = Vec::new();
    let mut names = Numbered::new(path.key_count());
    let mut calling = Calling::new(path);
    for stretch in path.stretches() {
        calling.stretch(stretch.key);
        let at = names.number(stretch.key, || pooled(path, stretch.key));
        if at == sums.len() {
            sums.push((pooled(path, stretch.key), [0; WINDOWS]));
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
    let mut out: Vec<Candidate> = sums
        .into_iter()
        .zip(most)
        .map(|(((class, state), windows), most)| {
            let whole: u64 = windows.iter().sum();
            let alone = most.filter(|&(ns, _)| ns as f64 >= MIN_PART_OF_MACHINE * whole as f64).map(|(_, of)| path.machine(of).to_owned());
            let call = most.and_then(|(_, of)| callers.of(call(path, of)?));
            let (class, state) = match most {
                // A wait for a CPU gets the name that most of its time has.
                Some((_, of)) if path.kind(of) == Kind::Runnable => (class, path.class_and_state(of).1),
                _ => call.unwrap_or((class, state)),
            };
            let shares = cut.shares(&windows);
            Candidate {
                class: class.to_owned(),
                state: state.to_owned(),
                is_call: call.is_some(),
                kind: most.map_or(Kind::Unknown, |(_, of)| path.kind(of)),
                segment: most.map_or(SegmentKind::State(StateKind::Unknown), |(_, of)| path.segment_kind(of)),
                share: whole as f64 / cut.length() as f64,
                error: error_of_mean(&shares),
                machine: alone,
                shares,
                evidence: cut.evidence(&windows),
            }
        })
        .collect();
    out.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| (&a.class, &a.state).cmp(&(&b.class, &b.state))));
    out
}

/// Returns the class and state under which a stretch is counted. A call and its reply in transit
/// are one state, and so is all the time for which a class waits for a CPU, whether preempted or
/// woken.
fn pooled(path: &Path, of: u32) -> (&str, &str) {
    let (class, state) = path.class_and_state(of);
    let runnable = StateKind::Runnable.text().filter(|_| path.kind(of) == Kind::Runnable);
    (path.call(of).map_or(class, |call| call.queue), runnable.unwrap_or(state))
}

/// Callers of each call: the machines that the path left last before it followed a call.
#[derive(Default)]
struct Callers<'a> {
    counts: HashMap<&'a str, HashMap<&'a str, u64>>,
}

/// Collects [`Callers`] stretch by stretch.
struct Calling {
    /// Kind of each stretch number.
    kinds: Vec<StretchKind>,
    /// Number of the machine's stretch that the path left last.
    last: Option<u32>,
    counts: IdMap<(u32, u32), u64>,
}

/// The role of a stretch in the search for callers.
#[derive(Clone, Copy)]
enum StretchKind {
    /// A call in transit.
    Call,
    /// Work of a machine. A reply comes from the machine that was called, so it does not count as a
    /// call.
    Machine,
    /// Any other link.
    Other,
}

impl Calling {
    fn new(path: &Path) -> Calling {
        let kind = |of: u32| match call(path, of) {
            Some(call) if !call.is_reply => StretchKind::Call,
            _ if path.kind(of) != Kind::Link => StretchKind::Machine,
            _ => StretchKind::Other,
        };
        Calling { kinds: (0..path.key_count() as u32).map(kind).collect(), last: None, counts: IdMap::default() }
    }

    #[inline]
    fn stretch(&mut self, of: u32) {
        match self.kinds.get(of as usize) {
            Some(StretchKind::Call) => {
                if let Some(last) = self.last {
                    *self.counts.entry((of, last)).or_default() += 1;
                }
            }
            Some(StretchKind::Machine) => self.last = Some(of),
            Some(StretchKind::Other) | None => {}
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
    /// Returns the class that makes this call most often, and the name of the call.
    fn of(&self, call: Call<'a>) -> Option<(&'a str, &'a str)> {
        let caller = self.counts.get(call.queue)?.iter().max_by_key(|&(name, &count)| (count, std::cmp::Reverse(*name)))?;
        Some((caller.0, call.name))
    }
}

/// Returns the call that is in transit, as a call or a reply.
fn call(path: &Path, of: u32) -> Option<Call<'_>> {
    path.call(of).filter(|_| path.segment_kind(of) == SegmentKind::Link(LinkKind::Queued))
}

/// Returns two standard errors of the mean.
fn error_of_mean(shares: &[f64]) -> f64 {
    let count = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / count;
    let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
    2.0 * (squares / (count - 1.0) / count).sqrt()
}

/// Returns whether the path passes from one machine to another. The recorder does not count, since
/// it only started the command. If the machines outside of the first class have next to nothing of
/// the path, only another program counts: because a page is read once, neither an interrupt nor a
/// kernel thread becomes a machine that waits.
fn machines_wait(path: &Path, first: &Candidate, is_recorder: &dyn Fn(&str) -> bool) -> bool {
    let (mut others_ns, mut whole_ns) = (0, 0);
    let mut of_kernel = HashSet::new();
    let mut recorded = vec![false; path.key_count()];
    for (of, &ns) in (0..).zip(path.times()).filter(|&(_, &ns)| ns > 0) {
        let (machine, (class, _)) = (path.machine(of), path.class_and_state(of));
        recorded[of as usize] = is_recorder(machine);
        whole_ns += ns;
        others_ns += if class == first.class || recorded[of as usize] { 0 } else { ns };
        if matches!(path.segment_kind(of), SegmentKind::State(StateKind::Interrupt | StateKind::Kernel)) {
            of_kernel.insert(machine);
        }
    }
    let little = (others_ns as f64) < MIN_SHARE_OF_OTHERS * whole_ns as f64;
    let mut last = None;
    path.stretches().filter(|stretch| path.kind(stretch.key) != Kind::Link).any(|stretch| {
        let (machine, by_recorder) = (path.machine(stretch.key), recorded[stretch.key as usize]);
        if little && of_kernel.contains(machine) {
            return false;
        }
        let before = last.replace((machine, by_recorder));
        before.is_some_and(|(last, recorder)| last != machine && !recorder && !by_recorder)
    })
}

/// Returns whether the path mostly comes to this machine from others before it sleeps, so that its
/// sleeps let them wait. A machine that sleeps without a request sets the pace, and so does the
/// machine whose end ends the run.
fn is_waited_for(answer: &Answer, path: &Path, first: &Candidate) -> bool {
    let (mut sleeps, mut asked) = (0u64, 0u64);
    let (mut last, mut from_others) = (None, false);
    for stretch in path.stretches().filter(|stretch| path.kind(stretch.key) != Kind::Link) {
        let machine = path.machine(stretch.key);
        from_others |= last.is_some_and(|last| last != machine);
        last = Some(machine);
        if path.class_and_state(stretch.key) == (first.class.as_str(), first.state.as_str()) && machine != answer.end_machine {
            sleeps += 1;
            asked += u64::from(std::mem::take(&mut from_others));
        }
    }
    2 * asked > sleeps
}

/// Returns whether the path shows enough to overrule the verdict by queues.
pub fn decides(verdict: &Verdict, thresholds: &PathThresholds) -> bool {
    verdict.outcome == Outcome::Bottleneck && verdict.unknown_share.is_some_and(|share| share <= thresholds.max_unknown)
}

/// Facts from outside of the path.
pub struct Surroundings<'a> {
    /// Returns true for a machine that belongs to the recorder.
    pub is_recorder: &'a dyn Fn(&str) -> bool,
    /// Classes of threads that wait for a CPU although one is idle, with the share of the path for
    /// which they do: another CPU would not help them.
    pub idle: &'a [(String, f64)],
    /// Predicted gains of changes.
    pub predictions: &'a [Prediction],
    /// Advice for a new recording if events were lost ([`crate::verdict::lost_events::remedy`]).
    pub again: &'a str,
    /// True if the trace shows when threads run.
    pub shows_running: bool,
}

/// Returns the verdict by states. `fix` is the prediction for [`Candidate::fix`] of the first
/// candidate, if it was made.
pub fn verdict(
    answer: &Answer,
    path: &Path,
    candidates: &[Candidate],
    fix: Option<&Prediction>,
    lost: u64,
    context: &Surroundings<'_>,
    thresholds: &PathThresholds,
) -> Verdict {
    let unknown = answer.unknown_ns as f64 / answer.length_ns.max(1) as f64;
    let is_torn = too_many_lost(lost, answer.interactions);
    let is_unknown = unknown > thresholds.max_unknown;
    let lost_events = || Caveat::LostEvents { count: lost, remedy: context.again.to_owned() };
    let verdict = Verdict {
        unknown_share: Some(unknown),
        lost,
        evidence: Evidence { start_ns: answer.start_ns as i64, end_ns: answer.end_ns as i64 },
        ..Verdict::new(Outcome::Spread, Basis::States)
    };
    let nothing = |because: Vec<Because>| {
        let caveat = match (is_unknown, is_torn) {
            (false, false) => None,
            (true, false) if lost == 0 => Some(Caveat::UnknownTime { share: unknown, contradictory: answer.contradictions > 0 }),
            _ => Some(lost_events()),
        };
        let outcome = if caveat.is_some() { Outcome::Unknown } else { Outcome::Spread };
        Verdict { outcome, because, caveats: caveat.into_iter().collect(), ..verdict.clone() }
    };
    let Some(first) = candidates.first() else { return nothing(vec![Because::NothingHappens]) };
    if let Some(why) = why_not(answer, path, candidates, first, fix, context, thresholds) {
        return nothing(vec![Because::Largest { part: first.measured(), whole: whole_of_several_states(candidates, first) }, why]);
    }
    let timer = timer(answer, &first.class);
    let timer = timer.map(|(machine, call)| Caveat::Timer { machine: machine.to_owned(), call: call.to_owned() });
    let is_open = first.kind == Kind::Running && !context.shows_running;
    let caveats = is_torn.then(lost_events).into_iter().chain(timer).chain(is_open.then_some(Caveat::RunningUnknown));
    let idle = context.is_mostly_idle(first).then(|| Because::CpuIdle { share: context.idle_share(first) });
    Verdict {
        outcome: Outcome::Bottleneck,
        because: idle.into_iter().collect(),
        caveats: caveats.collect(),
        evidence: first.evidence,
        ..verdict.about(&first.class, Some(first.state())).with_share(Some(first.share), Some(first.error))
    }
}

/// Returns the share of the first candidate's class, if that is most of the path and lies in
/// several states.
fn whole_of_several_states(candidates: &[Candidate], first: &Candidate) -> Option<f64> {
    let whole: f64 = candidates.iter().filter(|other| other.class == first.class).map(|other| other.share).sum();
    (whole >= MIN_WHOLE_SHARE && first.share <= MAX_PART_OF_WHOLE * whole && first.kind != Kind::Link).then_some(whole)
}

/// Returns the thread of this class's program that set a timer on the path to the program's end,
/// and the system call. The timer's signal may be what ends a loop; no event shows whether it is.
pub(crate) fn timer<'a>(answer: &'a Answer, class: &str) -> Option<(&'a str, &'a str)> {
    let ends = program(&answer.end_machine) == program(class);
    let is_call = |row: &Row| matches!(row.kind, SegmentKind::State(StateKind::SystemCall | StateKind::Named));
    let sets = |row: &&Row| is_call(row) && CallFamily::of(&row.state) == CallFamily::SetTimer && program(&row.class) == program(class);
    let row = answer.criticality.iter().filter(|_| ends).find(sets)?;
    Some((&row.class, &row.state))
}

/// Returns the program of a thread's name, which has the form `PROGRAM/THREAD`.
fn program(machine: &str) -> &str {
    machine.split('/').next().unwrap_or(machine)
}

/// Returns the reason for which the first state does not lead, or `None` if it does.
fn why_not(
    answer: &Answer,
    path: &Path,
    candidates: &[Candidate],
    first: &Candidate,
    fix: Option<&Prediction>,
    context: &Surroundings<'_>,
    thresholds: &PathThresholds,
) -> Option<Because> {
    if matches!(first.kind, Kind::Unknown | Kind::Blocked) || first.segment == SegmentKind::Link(LinkKind::Unknown) {
        return Some(Because::WaitUnknown);
    }
    if !first.is_call && matches!(first.segment, SegmentKind::Link(LinkKind::Queued | LinkKind::Wakeup)) {
        return Some(Because::TransitUnknown);
    }
    if matches!(first.segment, SegmentKind::Link(LinkKind::Timer | LinkKind::KernelTimer | LinkKind::Outside)) {
        return Some(Because::OwnTimer { sets_pace: false, gain: None });
    }
    if first.segment == SegmentKind::State(StateKind::Asleep) && !is_waited_for(answer, path, first) {
        let gain = fix.and_then(|fix| fix.gain).filter(|&gain| gain >= thresholds.min_gain);
        return Some(Because::OwnTimer { sets_pace: true, gain });
    }
    let beyond = first.share - first.error;
    let second = candidates.get(1);
    // A larger share of one is a smaller share of the other: their errors have opposite signs.
    let next = second.map_or(0.0, |second| second.share + second.error);
    if let Some(second) = second.filter(|_| beyond < next) {
        return Some(Because::NotAhead { next: second.measured() });
    }
    if !thresholds.stands_out.iter().any(|needed| beyond >= needed.share && beyond >= needed.lead * next) {
        let enough = thresholds.stands_out.iter().map(|needed| RequiredShare { share: needed.share, lead: needed.lead });
        return Some(Because::TooSmall { enough: enough.collect() });
    }
    // A machine that waits for a CPU waits for the machines that occupy the CPUs.
    if first.kind != Kind::Runnable && !machines_wait(path, first, context.is_recorder) {
        return Some(Because::NobodyWaits);
    }
    if context.is_mostly_idle(first) {
        return None;
    }
    // A machine that already passes more items per call than were tried loses by that change, so
    // nothing follows from it. The same holds if a timer or a device decides after the change: the
    // replay keeps their times, while they may come sooner in a faster system.
    let fix = fix.filter(|fix| !is_fixed(fix))?;
    // The kernel's use of another CPU is unknown: the upper end is the most that it brings.
    let gain = if first.kind == Kind::Runnable { fix.gain_high } else { fix.gain };
    let gain = gain.filter(|&gain| !first.is_call || gain > 0.0)?;
    let little = |rival, other| Because::LittleGain { change: fix.change.clone(), gain: gain.max(0.0), rival, other };
    if gain < thresholds.min_gain {
        return Some(little(None, None));
    }
    if let Some(rival) = second.filter(|second| first.is_rival(second) && gain < thresholds.min_of_promise * first.promise()) {
        return Some(little(Some(RunnerUp { subject: rival.subject(), state: rival.state(), share: rival.share }), None));
    }
    let (change, more) = context.best_of_others(candidates, first)?;
    (more > thresholds.max_of_others * gain).then(|| little(None, Some(Change { change, gain: more })))
}

impl Surroundings<'_> {
    /// Returns the share of the path in which a CPU is idle while this class waits for one.
    fn idle_share(&self, first: &Candidate) -> f64 {
        self.idle.iter().filter(|(class, _)| *class == first.class).map(|(_, share)| share).sum()
    }

    /// Returns whether this class waits for a CPU mostly while one is idle.
    fn is_mostly_idle(&self, first: &Candidate) -> bool {
        first.kind == Kind::Runnable && self.idle_share(first) >= MIN_IDLE_PART * first.share
    }

    /// Returns the largest gain from halving a state of another machine, if the first state is work
    /// as well.
    fn best_of_others(&self, candidates: &[Candidate], first: &Candidate) -> Option<(String, f64)> {
        let is_work = |candidate: &Candidate| !matches!(candidate.kind, Kind::Runnable | Kind::Link | Kind::Blocked | Kind::Unknown);
        let others = candidates.iter().filter(|other| is_work(first) && is_work(other) && other.class != first.class);
        // In the form in which changes are proposed: machines of a class share their states.
        let changes: Vec<Scenario> = others.map(|other| Scenario::scale(&other.class, &other.state, 0.5)).collect();
        let gains = self.predictions.iter().filter(|prediction| changes.iter().any(|change| prediction.is_of(change)));
        gains.filter_map(|of| Some((of.change.clone(), of.gain?))).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

fn is_fixed(fix: &Prediction) -> bool {
    let is_fixed =
        |kind| matches!(kind, SegmentKind::Link(LinkKind::Timer | LinkKind::KernelTimer | LinkKind::Interrupt | LinkKind::Outside));
    fix.next.as_ref().and_then(|next| next.kind).is_some_and(is_fixed)
}
