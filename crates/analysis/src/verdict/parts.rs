//! The critical path by subject: the states of each subject on it, with their times.
//!
//! A link has no owner on the path: a `timer` may belong to any thread. Here each link is assigned
//! to the thread that continues after it. The time of a timer is a wait of the thread that set it,
//! named by the system call in which the thread waited. The time of a disk request is a wait of the
//! thread that made the request.
//!
//! Example: `link::timer 5 ms, pgbench::runnable, pgbench::ppoll` is a wait of pgbench in `ppoll`,
//! until a time that it set itself.

use super::subjects::{SubjectId, Subjects};
use crate::critical_path::path_windows::Cut;
use crate::critical_path::{Answer, Path};
use crate::evidence::Evidence;
use crate::what_if::{Prediction, Scenario};
use longpole_model::kinds::{LinkKind, SegmentKind, StateKind, LINK};
use longpole_model::system_calls::CallFamily;
use std::collections::{HashMap, HashSet};

/// Number of windows of equal width from which the error of a share is computed.
pub const WINDOWS: usize = 12;

/// The activity or wait of a subject in a part of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Does {
    /// Executes its own code.
    Runs,
    /// Is in a system call.
    SystemCall,
    /// Waits while the kernel provides a page that it accesses.
    Faults,
    /// Is in a state that a program or a log declared.
    Declared,
    /// Waits for a CPU.
    Runnable,
    /// Waits until a time that it set itself.
    Sleeps,
    /// Waits until one of the kernel's timers expires: delayed acknowledgement, retransmission, …
    KernelTimer(LinkKind),
    /// Is ready to run, and held back by a CPU quota.
    Throttled,
    /// Waits for a disk.
    Disk,
    /// An interrupt or softirq works, or interrupts this thread.
    Interrupt,
    /// An effect is in transit from its cause.
    Transit,
    /// A call or its reply is in transit.
    Call,
    /// Waits for something that no event identifies.
    Unknown,
}

impl Does {
    /// Returns whether work is done during this time.
    pub fn is_work(self) -> bool {
        matches!(self, Does::Runs | Does::SystemCall | Does::Faults | Does::Declared | Does::Interrupt)
    }
}

/// All stretches of one subject in one state.
#[derive(Clone, Debug)]
pub struct Part {
    pub subject: SubjectId,
    /// Common name of threads of the subject that do the same work, without their numbers. `None`
    /// for threads with the name of the subject.
    pub role: Option<String>,
    pub does: Does,
    /// Text for display: the name of the state, or the system call of a wait.
    pub state: String,
    pub ns: u64,
    pub share: f64,
    /// Two standard errors of the share.
    pub error: f64,
    pub windows: Vec<u64>,
    /// Number of stretches; `longest` is the begin and end of the longest one.
    pub count: u64,
    /// Sum of the squares of the times, in ns².
    pub squares: f64,
    pub longest: (u64, u64),
    /// Number of stretches before which the path came from another subject.
    pub asked: u64,
    pub evidence: Evidence,
    /// Machine with nearly all of the time, if there is one.
    pub machine: Option<String>,
    /// Class (or link) and state in the form that what-if scenarios use.
    pub class: String,
    pub class_state: String,
    /// True if packets are in flight from a sender to a receiver.
    pub is_on_wire: bool,
    /// Family of the system call that is executed, or in which the subject waits.
    pub call: CallFamily,
    /// True for a sleep for which no system call is known.
    pub is_bare_sleep: bool,
    machines: HashMap<u32, u64>,
}

impl Part {
    pub fn mean_ns(&self) -> u64 {
        self.ns / self.count.max(1)
    }

    /// Returns whether the path mostly comes to this part from other subjects.
    pub fn is_asked(&self) -> bool {
        2 * self.asked > self.count
    }
}

/// A subject on the path, over all its parts.
#[derive(Clone, Debug)]
pub struct Whole {
    pub subject: SubjectId,
    pub share: f64,
    pub error: f64,
    pub ns: u64,
    /// Number of times that the path comes to it from other subjects.
    pub visits: u64,
    pub evidence: Evidence,
}

/// The path, divided by subjects and their states.
#[derive(Clone, Debug)]
pub struct Parts {
    /// All parts, the largest first.
    pub parts: Vec<Part>,
    pub wholes: Vec<Whole>,
    pub length_ns: u64,
    /// Number of times that the path passes from a thread directly to another one of the same
    /// subject.
    pub handed_over: HashMap<SubjectId, u64>,
    /// Number of times that the path comes to a subject (first) from another one (second).
    pub entered_from: HashMap<(SubjectId, SubjectId), u64>,
    /// Number of times that a thread of a subject (first) directly wakes a thread of a subject
    /// (second) on the path, without an interrupt between them.
    pub woken_by: HashMap<(SubjectId, SubjectId), u64>,
}

/// A link that is not assigned yet, because the thread that continues after it is unknown.
struct Pending {
    does: Does,
    of: u32,
    start: u64,
    end: u64,
    windows: [u64; WINDOWS],
}

/// Assembles parts, stretch by stretch in the order of time.
struct Gather<'a> {
    path: &'a Path,
    cut: Cut,
    parts: Vec<Part>,
    index: HashMap<(SubjectId, Option<String>, Does, String), usize>,
    /// Part of each stretch number that is not a link.
    part_of: Vec<Option<usize>>,
    visits: HashMap<SubjectId, u64>,
    /// Subjects, with the note whether the path came to them from others since their last sleep.
    from_others: HashMap<SubjectId, bool>,
    considerable: f64,
}

impl Gather<'_> {
    fn part(&mut self, (subject, role): (SubjectId, Option<String>), does: Does, state: String, of: u32) -> usize {
        let (class, class_state) = self.path.class_and_state(of);
        let (kind, parts) = (self.path.segment_kind(of), &mut self.parts);
        let is_in_call = matches!(does, Does::SystemCall | Does::Sleeps | Does::Disk);
        *self.index.entry((subject, role, does, state)).or_insert_with_key(|(_, role, _, state)| {
            parts.push(Part {
                subject,
                role: role.clone(),
                does,
                state: state.clone(),
                ns: 0,
                share: 0.0,
                error: 0.0,
                windows: vec![0; WINDOWS],
                count: 0,
                squares: 0.0,
                longest: (0, 0),
                asked: 0,
                evidence: Evidence::default(),
                machine: None,
                class: class.to_owned(),
                class_state: class_state.to_owned(),
                call: if is_in_call { CallFamily::of(state) } else { CallFamily::Other },
                is_bare_sleep: kind == SegmentKind::State(StateKind::Asleep),
                is_on_wire: self.path.segment_kind(of) == SegmentKind::Link(LinkKind::Wire),
                machines: HashMap::new(),
            });
            parts.len() - 1
        })
    }

    fn count(&mut self, at: usize, of: u32, (start, end): (u64, u64), asked: bool) {
        let part = &mut self.parts[at];
        part.ns += end - start;
        part.count += 1;
        part.squares += ((end - start) as f64).powi(2);
        part.asked += u64::from(asked);
        if end - start > part.longest.1 - part.longest.0 {
            part.longest = (start, end);
        }
        *part.machines.entry(of).or_default() += end - start;
    }

    fn is_asked(&mut self, subject: SubjectId, does: Does) -> bool {
        does != Does::Sleeps || self.from_others.insert(subject, false).unwrap_or(false)
    }

    /// Assigns all pending links to this thread, which was in the given system call.
    fn assign_pending(&mut self, pending: &mut Vec<Pending>, thread: &(SubjectId, Option<String>), call: Option<&str>) {
        for Pending { does, of, start, end, windows } in pending.drain(..) {
            let (class, state) = self.path.class_and_state(of);
            let state = match (does, call) {
                (Does::Sleeps | Does::Disk, Some(call)) => call.to_owned(),
                (Does::Disk, None) => "disk".to_owned(),
                // The link's name may contain the system call in which its thread waited.
                (Does::Sleeps, None) => LinkKind::Timer.call_of(state).unwrap_or(state).to_owned(),
                (Does::KernelTimer(kind), _) => kind.call_of(state).unwrap_or(state).to_owned(),
                _ if class == LINK => state.to_owned(),
                _ => format!("{class} ({state})"),
            };
            let asked = self.is_asked(thread.0, does);
            let at = self.part(thread.clone(), does, state, of);
            self.count(at, of, (start, end), asked);
            self.parts[at].windows.iter_mut().zip(windows).for_each(|(sum, ns)| *sum += ns);
        }
    }
}

impl Parts {
    /// Divides a path into parts. A machine with at least `1 - considerable` of a part's time is
    /// named as its machine.
    pub fn new(answer: &Answer, path: &Path, subjects: &mut Subjects, considerable: f64) -> Parts {
        let kinds = path.kinds();
        // Interrupts and softirqs, including those whose work is unknown.
        let is_interrupt = |&of: &u32| path.segment_kind(of) == SegmentKind::State(StateKind::Interrupt);
        let contexts: HashSet<&str> = (0..kinds as u32).filter(is_interrupt).map(|of| path.machine(of)).collect();
        let mut owners: Vec<Option<(SubjectId, Option<String>)>> = vec![None; kinds];
        let mut gather = Gather {
            path,
            cut: Cut::new(answer, WINDOWS),
            parts: Vec::new(),
            index: HashMap::new(),
            part_of: vec![None; kinds],
            visits: HashMap::new(),
            from_others: HashMap::new(),
            considerable,
        };
        let mut pending: Vec<Pending> = Vec::new();
        let mut handed_over: HashMap<SubjectId, u64> = HashMap::new();
        let mut entered_from: HashMap<(SubjectId, SubjectId), u64> = HashMap::new();
        let mut woken_by: HashMap<(SubjectId, SubjectId), u64> = HashMap::new();
        let mut by_context = false;
        let mut last: Option<(u32, (SubjectId, Option<String>))> = None;
        // Thread that continues after the pending links, and whose system call may still follow.
        let mut resumes: Option<(SubjectId, Option<String>)> = None;
        for stretch in path.stretches() {
            let of = stretch.of;
            let (class, state) = path.class_and_state(of);
            let kind = path.segment_kind(of);
            let does = does(kind, path.call(of).is_some());
            if matches!(kind, SegmentKind::Link(_)) {
                if let Some(subject) = resumes.take() {
                    gather.assign_pending(&mut pending, &subject, None);
                }
                let mut windows = [0; WINDOWS];
                gather.cut.add(&stretch, &mut windows);
                pending.push(Pending { does, of, start: stretch.start, end: stretch.end, windows });
                continue;
            }
            let is_context = contexts.contains(path.machine(of));
            let owner = owners[of as usize].get_or_insert_with(|| {
                let subject = subjects.of(path.host(of), path.machine(of), class, is_context);
                (subject, subjects.role(subject, path.machine(of)))
            });
            let subject = owner.0;
            by_context |= is_context;
            if !is_context {
                if last.as_ref().is_none_or(|(last, _)| path.machine(*last) != path.machine(of)) {
                    let within = last.as_ref().is_some_and(|(_, last)| last.0 == subject);
                    let is_woken = pending.iter().all(|link| link.does == Does::Transit);
                    if within && is_woken {
                        *handed_over.entry(subject).or_default() += 1;
                    }
                    if let Some((_, (from, _))) = last.as_ref().filter(|_| is_woken && !by_context) {
                        *woken_by.entry((*from, subject)).or_default() += 1;
                    }
                    if last.is_some() {
                        gather.from_others.insert(subject, true);
                    }
                    if let Some((_, (from, _))) = last.as_ref().filter(|_| !within) {
                        *entered_from.entry((subject, *from)).or_default() += 1;
                    }
                    if !within {
                        *gather.visits.entry(subject).or_default() += 1;
                    }
                }
                by_context = false;
                if last.as_ref().is_none_or(|(last, _)| *last != of) {
                    last = Some((of, owner.clone()));
                }
                if !pending.is_empty() {
                    resumes = matches!(does, Does::Runnable | Does::Throttled).then(|| owner.clone());
                    if resumes.is_none() {
                        gather.assign_pending(&mut pending, owner, (does == Does::SystemCall).then_some(state));
                    }
                }
            }
            let at = match gather.part_of[of as usize] {
                Some(at) => at,
                None => {
                    let runnable = StateKind::Runnable.text().filter(|_| does == Does::Runnable);
                    let state = runnable.unwrap_or(state);
                    let at = gather.part(owner.clone(), does, state.to_owned(), of);
                    *gather.part_of[of as usize].insert(at)
                }
            };
            let asked = gather.is_asked(subject, does);
            gather.count(at, of, (stretch.start, stretch.end), asked);
            let Gather { cut, parts, .. } = &mut gather;
            cut.add(&stretch, &mut parts[at].windows);
        }
        // Links after which no thread continues are assigned to the last thread.
        if let (Some((_, thread)), false) = (last, pending.is_empty()) {
            gather.assign_pending(&mut pending, &thread, None);
        }
        gather.finish(Crossings { handed_over, entered_from, woken_by })
    }
}

impl Parts {
    /// Widens the interval of each prediction by the error of the path's shares. Halving a state
    /// with a share of s ± e of the path brings 1 / (1 - s / 2) - 1, and e changes that by (1 +
    /// gain)² e / 2.
    pub fn widen(&self, predictions: &mut [Prediction]) {
        let errors = |change: &str| {
            let own = self.parts.iter().filter(|part| Scenario::scale(&part.class, &part.class_state, 0.5).text == change);
            own.map(|part| part.error).fold(0.0, f64::max)
        };
        let most = self.wholes.iter().map(|whole| whole.error).fold(0.0, f64::max);
        for prediction in predictions {
            let (Some(low), Some(high)) = (prediction.gain_low, prediction.gain_high) else { continue };
            let error = match errors(&prediction.change) {
                0.0 => most,
                error => error,
            };
            // The first term of the series keeps the upper end finite.
            let lower = 1.0 / (1.0 / (1.0 + low) + error / 2.0) - 1.0;
            let higher = high + (1.0 + high).powi(2) * error / 2.0;
            (prediction.gain_low, prediction.gain_high) = (Some(lower), Some(higher));
        }
    }

    /// Returns the same path without some parts, with shares and errors of the rest. Returns `None`
    /// if nothing remains, or if the rest lies in less than half of the windows, so that its error
    /// is unknown.
    pub fn without(&self, is_out: impl Fn(&Part) -> bool) -> Option<Parts> {
        let mut rest = self.clone();
        rest.parts.retain(|part| !is_out(part));
        let mut windows = [0u64; WINDOWS];
        rest.parts.iter().for_each(|part| windows.iter_mut().zip(&part.windows).for_each(|(sum, ns)| *sum += ns));
        let length: u64 = rest.parts.iter().map(|part| part.ns).sum();
        if length == 0 || 2 * windows.iter().filter(|&&ns| ns > 0).count() < WINDOWS {
            return None;
        }
        let scatter = |own: &[u64]| -> f64 {
            let shares = own.iter().zip(&windows).filter(|(_, &all)| all > 0).map(|(&ns, &all)| ns as f64 / all as f64);
            error(&shares.collect::<Vec<f64>>())
        };
        let mut sums: HashMap<SubjectId, Vec<u64>> = HashMap::new();
        for part in &mut rest.parts {
            (part.share, part.error) = (part.ns as f64 / length as f64, scatter(&part.windows));
            let sum = sums.entry(part.subject).or_insert_with(|| vec![0; WINDOWS]);
            sum.iter_mut().zip(&part.windows).for_each(|(sum, ns)| *sum += ns);
        }
        rest.wholes.retain(|whole| sums.contains_key(&whole.subject));
        for whole in &mut rest.wholes {
            let own = &sums[&whole.subject];
            whole.ns = own.iter().sum();
            (whole.share, whole.error) = (whole.ns as f64 / length as f64, scatter(own));
        }
        rest.wholes.sort_by(|a, b| b.ns.cmp(&a.ns).then(a.subject.cmp(&b.subject)));
        Some(rest)
    }

    pub fn whole(&self, subject: SubjectId) -> Option<&Whole> {
        self.wholes.iter().find(|whole| whole.subject == subject)
    }

    /// Returns the parts of one subject.
    pub fn of(&self, subject: SubjectId) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| part.subject == subject)
    }

    /// Returns the subject from which the path mostly comes to this one.
    pub fn asked_by(&self, subject: SubjectId) -> Option<SubjectId> {
        let from = self.entered_from.iter().filter(|((to, _), _)| *to == subject);
        from.max_by_key(|&((_, from), &count)| (count, std::cmp::Reverse(*from))).map(|((_, from), _)| *from)
    }
}

/// Counts of passages of the path between threads, as in [`Parts`].
struct Crossings {
    handed_over: HashMap<SubjectId, u64>,
    entered_from: HashMap<(SubjectId, SubjectId), u64>,
    woken_by: HashMap<(SubjectId, SubjectId), u64>,
}

impl Gather<'_> {
    fn finish(self, crossings: Crossings) -> Parts {
        let Crossings { handed_over, entered_from, woken_by } = crossings;
        let Gather { path, cut, mut parts, visits, considerable, .. } = self;
        let length = cut.length() as f64;
        let mut sums: HashMap<SubjectId, Vec<u64>> = HashMap::new();
        for part in &mut parts {
            part.share = part.ns as f64 / length;
            part.error = error(&cut.shares(&part.windows));
            part.evidence = cut.evidence(&part.windows);
            let most = part.machines.iter().max_by_key(|&(&of, &ns)| (ns, std::cmp::Reverse(of)));
            part.machine =
                most.filter(|&(_, &ns)| ns as f64 >= (1.0 - considerable) * part.ns as f64).map(|(&of, _)| path.machine(of).to_owned());
            let sum = sums.entry(part.subject).or_insert_with(|| vec![0; WINDOWS]);
            sum.iter_mut().zip(&part.windows).for_each(|(sum, ns)| *sum += ns);
        }
        parts.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| (a.subject, &a.state).cmp(&(b.subject, &b.state))));
        let whole = |(subject, windows): (SubjectId, Vec<u64>)| {
            let ns: u64 = windows.iter().sum();
            Whole {
                subject,
                share: ns as f64 / length,
                error: error(&cut.shares(&windows)),
                ns,
                visits: visits.get(&subject).copied().unwrap_or(0),
                evidence: cut.evidence(&windows),
            }
        };
        let mut wholes: Vec<Whole> = sums.into_iter().map(whole).collect();
        wholes.sort_by(|a, b| b.ns.cmp(&a.ns).then(a.subject.cmp(&b.subject)));
        Parts { parts, wholes, length_ns: cut.length(), handed_over, entered_from, woken_by }
    }
}

/// Returns two standard errors of the mean over windows, computed from their quartiles, so that a
/// window of start-up or shutdown does not affect it.
fn error(shares: &[f64]) -> f64 {
    let mut sorted = shares.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quartile = |part: usize| sorted[(sorted.len() - 1) * part / 4];
    // In a normal distribution, 1.349 standard deviations lie between the quartiles.
    2.0 * (quartile(3) - quartile(1)) / 1.349 / (shares.len() as f64).sqrt()
}

fn does(kind: SegmentKind, is_call: bool) -> Does {
    match kind {
        SegmentKind::State(kind) => match kind {
            StateKind::Run | StateKind::User | StateKind::Kernel => Does::Runs,
            StateKind::SystemCall => Does::SystemCall,
            StateKind::Runnable | StateKind::Preempted => Does::Runnable,
            StateKind::Throttled => Does::Throttled,
            StateKind::Fault => Does::Faults,
            StateKind::Asleep => Does::Sleeps,
            StateKind::Interrupted | StateKind::Interrupt => Does::Interrupt,
            StateKind::Blocked | StateKind::Unknown | StateKind::Outside => Does::Unknown,
            StateKind::Span | StateKind::Call | StateKind::Declared | StateKind::Waits | StateKind::Named => Does::Declared,
        },
        SegmentKind::Link(_) if is_call => Does::Call,
        SegmentKind::Link(kind) => match kind {
            LinkKind::Timer => Does::Sleeps,
            kind if kind.is_kernel_timer() => Does::KernelTimer(kind),
            LinkKind::Disk => Does::Disk,
            LinkKind::Unknown => Does::Unknown,
            _ => Does::Transit,
        },
    }
}
