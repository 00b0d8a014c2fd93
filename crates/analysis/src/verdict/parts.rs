//! The critical path by subject: the states of each subject on it, with their times.
//!
//! A link has no owner on the path: a `timer` may belong to any thread. Here each link is assigned
//! to the thread that continues after it. The time of a timer is a wait of the thread that set it,
//! named by the system call in which the thread waited. The time of a disk request is a wait of the
//! thread that made the request.
//!
//! Example: `link::timer 5 ms, pgbench::runnable, pgbench::ppoll` is a wait of pgbench in `ppoll`,
//! until a time that it set itself.

use super::data::ClassState;
use super::subjects::{FromTo, SubjectId, Subjects};
use crate::critical_path::path_windows::Cut;
use crate::critical_path::{Answer, Path, Stretch};
use crate::stats::evidence::Evidence;
use crate::what_if::{Change, Prediction};
use longpole_model::kinds::{LinkKind, SegmentKind, StateKind, LINK};
use longpole_model::system_calls::CallFamily;
use std::collections::{HashMap, HashSet};

/// Number of windows of equal width into which the path is cut; the error of a share is computed
/// from its values in them.
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
    /// Waits for a device whose work is caused outside of the trace.
    Outside,
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

/// All stretches of one subject, or of one group of its threads, in one state.
#[derive(Clone, Debug)]
pub struct Part {
    pub subject: SubjectId,
    /// Common name of threads of the subject that do the same work, without their numbers. `None`
    /// for threads with the name of the subject.
    pub thread_group: Option<String>,
    /// Machine with nearly all of the time, if there is one.
    pub machine: Option<String>,
    pub does: Does,
    /// Text for display: the name of the state, or the system call of a wait.
    pub state: String,
    /// Family of the system call that is executed, or in which the subject waits.
    pub call: CallFamily,
    /// Name of the call that is in transit, for [`Does::Call`].
    pub rpc: Option<String>,
    /// Class (or link) and state of the part's first stretch.
    pub row: ClassState,
    /// Kind of the part's first stretch.
    segment: SegmentKind,
    pub ns: u64,
    pub share: f64,
    /// Two standard errors of the share.
    pub error: f64,
    /// Time in each of the [`WINDOWS`] windows, in ns.
    pub windows: Vec<u64>,
    /// Number of stretches.
    pub count: u64,
    /// Sum of the squares of the stretches' times, in ns².
    pub squares: f64,
    /// Number of sleeps that another thread has asked for: since the subject's sleep before, the
    /// path has come to it from another thread. 0 for a part that is no sleep.
    pub asked_sleeps: u64,
    /// Window with most of the time.
    pub evidence: Evidence,
}

impl Part {
    /// Returns whether packets are in flight from a sender to a receiver.
    pub fn is_on_wire(&self) -> bool {
        self.segment == SegmentKind::Link(LinkKind::Wire)
    }

    /// Returns whether this is a sleep for which no system call is known.
    pub fn is_bare_sleep(&self) -> bool {
        self.segment == SegmentKind::State(StateKind::Asleep)
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
    /// All subjects, the one with the largest share first.
    pub wholes: Vec<Whole>,
    pub length_ns: u64,
    pub crossings: Crossings,
}

/// Numbers of times that the path passes from one thread to another one.
#[derive(Clone, Debug, Default)]
pub struct Crossings {
    /// Passages directly between two threads of one subject.
    pub handed_over: HashMap<SubjectId, u64>,
    /// Passages from one subject to another one.
    pub entries: HashMap<FromTo, u64>,
    /// Direct wake-ups of a thread of a subject (`to`) by a thread of a subject (`from`), which may
    /// be the same one, without an interrupt between them.
    pub wakes: HashMap<FromTo, u64>,
}

/// A link that is not assigned yet, because the thread that continues after it is unknown.
struct Pending {
    does: Does,
    of: u32,
    start: u64,
    end: u64,
    windows: [u64; WINDOWS],
}

/// The subject to which a machine belongs, and the group of its threads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Owner {
    subject: SubjectId,
    thread_group: Option<String>,
}

/// Assembles parts, stretch by stretch in the order of time.
struct Gather<'a> {
    path: &'a Path,
    cut: Cut,
    parts: Vec<Part>,
    /// For each part, the time of each stretch number in it, in ns.
    machines: Vec<HashMap<u32, u64>>,
    index: HashMap<(Owner, Does, String), usize>,
    /// Part of each stretch number that is not a link.
    part_of: Vec<Option<usize>>,
    visits: HashMap<SubjectId, u64>,
    crossings: Crossings,
    /// Subjects to which the path came from another thread since their last sleep.
    entered_since_sleep: HashSet<SubjectId>,
    pending: Vec<Pending>,
    /// Thread that continues after the pending links, and whose system call may still follow.
    resumes: Option<Owner>,
    /// The last thread: its stretch number and owner.
    last: Option<(u32, Owner)>,
    /// True if an interrupt or softirq has worked since the last stretch of a thread.
    by_context: bool,
    considerable: f64,
}

impl<'a> Gather<'a> {
    fn new(answer: &Answer, path: &'a Path, considerable: f64) -> Gather<'a> {
        Gather {
            path,
            cut: Cut::new(answer, WINDOWS),
            parts: Vec::new(),
            machines: Vec::new(),
            index: HashMap::new(),
            part_of: vec![None; path.key_count()],
            visits: HashMap::new(),
            crossings: Crossings::default(),
            entered_since_sleep: HashSet::new(),
            pending: Vec::new(),
            resumes: None,
            last: None,
            by_context: false,
            considerable,
        }
    }

    /// Returns the index of a part; a new part gets its names and kind from the stretch number
    /// `of`.
    fn part(&mut self, owner: Owner, does: Does, state: String, of: u32) -> usize {
        let (class, class_state) = self.path.class_and_state(of);
        let (path, parts, machines) = (self.path, &mut self.parts, &mut self.machines);
        let is_in_call = matches!(does, Does::SystemCall | Does::Sleeps | Does::Disk);
        *self.index.entry((owner, does, state)).or_insert_with_key(|(owner, _, state)| {
            parts.push(Part {
                subject: owner.subject,
                thread_group: owner.thread_group.clone(),
                machine: None,
                does,
                state: state.clone(),
                call: if is_in_call { CallFamily::of(state) } else { CallFamily::Other },
                rpc: path.call(of).filter(|_| does == Does::Call).map(|call| call.name.to_owned()),
                row: ClassState::new(class, class_state),
                segment: path.segment_kind(of),
                ns: 0,
                share: 0.0,
                error: 0.0,
                windows: vec![0; WINDOWS],
                count: 0,
                squares: 0.0,
                asked_sleeps: 0,
                evidence: Evidence::default(),
            });
            machines.push(HashMap::new());
            parts.len() - 1
        })
    }

    fn count(&mut self, at: usize, of: u32, (start, end): (u64, u64)) {
        let part = &mut self.parts[at];
        part.ns += end - start;
        part.count += 1;
        part.squares += ((end - start) as f64).powi(2);
        if part.does == Does::Sleeps {
            part.asked_sleeps += u64::from(self.entered_since_sleep.remove(&part.subject));
        }
        *self.machines[at].entry(of).or_default() += end - start;
    }

    /// Adds a link, which waits for its owner.
    fn add_link(&mut self, stretch: &Stretch, does: Does) {
        if let Some(thread) = self.resumes.take() {
            self.assign_pending(&thread, None);
        }
        let mut windows = [0; WINDOWS];
        self.cut.add(stretch, &mut windows);
        self.pending.push(Pending { does, of: stretch.key, start: stretch.start, end: stretch.end, windows });
    }

    /// Adds a state of a thread, or of an interrupt context.
    fn add_state(&mut self, stretch: &Stretch, does: Does, owner: &Owner, is_context: bool) {
        let of = stretch.key;
        let (_, state) = self.path.class_and_state(of);
        if is_context {
            self.by_context = true;
        } else {
            self.enter(of, owner.subject);
            self.by_context = false;
            if self.last.as_ref().is_none_or(|(last, _)| *last != of) {
                self.last = Some((of, owner.clone()));
            }
            if !self.pending.is_empty() {
                self.resumes = matches!(does, Does::Runnable | Does::Throttled).then(|| owner.clone());
                if self.resumes.is_none() {
                    self.assign_pending(owner, (does == Does::SystemCall).then_some(state));
                }
            }
        }
        let at = match self.part_of[of as usize] {
            Some(at) => at,
            None => {
                let runnable = StateKind::Runnable.text().filter(|_| does == Does::Runnable);
                let at = self.part(owner.clone(), does, runnable.unwrap_or(state).to_owned(), of);
                *self.part_of[of as usize].insert(at)
            }
        };
        self.count(at, of, (stretch.start, stretch.end));
        self.cut.add(stretch, &mut self.parts[at].windows);
    }

    /// Counts the passage of the path to a thread, if another thread was the last one.
    fn enter(&mut self, of: u32, subject: SubjectId) {
        let last = self.last.as_ref().map(|(last, owner)| (self.path.machine(*last), owner.subject));
        if last.is_some_and(|(machine, _)| machine == self.path.machine(of)) {
            return;
        }
        let Some((_, from)) = last else {
            *self.visits.entry(subject).or_default() += 1;
            return;
        };
        self.entered_since_sleep.insert(subject);
        let pair = FromTo { from, to: subject };
        let is_woken = self.pending.iter().all(|link| link.does == Does::Transit);
        if is_woken && from == subject {
            *self.crossings.handed_over.entry(subject).or_default() += 1;
        }
        if is_woken && !self.by_context {
            *self.crossings.wakes.entry(pair).or_default() += 1;
        }
        if from != subject {
            *self.crossings.entries.entry(pair).or_default() += 1;
            *self.visits.entry(subject).or_default() += 1;
        }
    }

    /// Assigns all pending links to this thread, which was in the given system call.
    fn assign_pending(&mut self, thread: &Owner, call: Option<&str>) {
        for Pending { does, of, start, end, windows } in std::mem::take(&mut self.pending) {
            let (class, state) = self.path.class_and_state(of);
            let state = match (does, call) {
                (Does::Sleeps | Does::Disk, Some(call)) => call.to_owned(),
                (Does::Disk, None) => "disk".to_owned(),
                // The name of the link may contain the system call in which its thread waited, or
                // the device.
                (Does::Sleeps, None) => LinkKind::Timer.detail_of(state).unwrap_or(state).to_owned(),
                (Does::KernelTimer(kind), _) => kind.detail_of(state).unwrap_or(state).to_owned(),
                (Does::Outside, _) => LinkKind::Outside.detail_of(state).unwrap_or(state).to_owned(),
                _ if class == LINK => state.to_owned(),
                _ => format!("{class} ({state})"),
            };
            let at = self.part(thread.clone(), does, state, of);
            self.count(at, of, (start, end));
            self.parts[at].windows.iter_mut().zip(windows).for_each(|(sum, ns)| *sum += ns);
        }
    }

    fn finish(mut self) -> Parts {
        // Links after which no thread continues are assigned to the last thread.
        if let (Some((_, thread)), false) = (self.last.take(), self.pending.is_empty()) {
            self.assign_pending(&thread, None);
        }
        let Gather { path, cut, mut parts, machines, visits, crossings, considerable, .. } = self;
        let length = cut.length() as f64;
        let mut sums: HashMap<SubjectId, Vec<u64>> = HashMap::new();
        for (part, machines) in parts.iter_mut().zip(&machines) {
            part.share = part.ns as f64 / length;
            part.error = error_from_quartiles(&cut.shares(&part.windows));
            part.evidence = cut.evidence(&part.windows);
            let most = machines.iter().max_by_key(|&(&of, &ns)| (ns, std::cmp::Reverse(of)));
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
                error: error_from_quartiles(&cut.shares(&windows)),
                ns,
                visits: visits.get(&subject).copied().unwrap_or(0),
                evidence: cut.evidence(&windows),
            }
        };
        let mut wholes: Vec<Whole> = sums.into_iter().map(whole).collect();
        wholes.sort_by(|a, b| b.ns.cmp(&a.ns).then(a.subject.cmp(&b.subject)));
        Parts { parts, wholes, length_ns: cut.length(), crossings }
    }
}

impl Parts {
    /// Divides a path into parts. A machine with at least `1 - considerable` of a part's time is
    /// named as its machine.
    pub fn new(answer: &Answer, path: &Path, subjects: &mut Subjects, considerable: f64) -> Parts {
        let kinds = path.key_count();
        // Interrupts and softirqs, including those whose work is unknown.
        let is_interrupt = |&of: &u32| path.segment_kind(of) == SegmentKind::State(StateKind::Interrupt);
        let contexts: HashSet<&str> = (0..kinds as u32).filter(is_interrupt).map(|of| path.machine(of)).collect();
        let mut owners: Vec<Option<Owner>> = vec![None; kinds];
        let mut gather = Gather::new(answer, path, considerable);
        for stretch in path.stretches() {
            let of = stretch.key;
            let kind = path.segment_kind(of);
            let does = does(kind, path.call(of).is_some());
            if matches!(kind, SegmentKind::Link(_)) {
                gather.add_link(&stretch, does);
                continue;
            }
            let is_context = contexts.contains(path.machine(of));
            let owner = owners[of as usize].get_or_insert_with(|| {
                let (class, _) = path.class_and_state(of);
                let subject = subjects.of(path.host(of), path.machine(of), class, is_context);
                Owner { subject, thread_group: subjects.thread_group(subject, path.machine(of)) }
            });
            gather.add_state(&stretch, does, owner, is_context);
        }
        gather.finish()
    }
}

impl Parts {
    /// Widens the interval of each prediction by the error of the path's shares. Halving a state
    /// with a share of s ± e of the path brings 1 / (1 - s / 2) - 1, and e changes that by (1 +
    /// gain)² e / 2.
    pub fn widen(&self, predictions: &mut [Prediction]) {
        let error_of = |prediction: &Prediction| {
            let own = self.parts.iter().filter(|part| halves(prediction, &part.row));
            own.map(|part| part.error).fold(0.0, f64::max)
        };
        let most = self.wholes.iter().map(|whole| whole.error).fold(0.0, f64::max);
        for prediction in predictions {
            let (Some(low), Some(high)) = (prediction.gain_low, prediction.gain_high) else { continue };
            let error = match error_of(prediction) {
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
    pub fn without(&self, is_left_out: impl Fn(&Part) -> bool) -> Option<Parts> {
        let mut rest = self.clone();
        rest.parts.retain(|part| !is_left_out(part));
        let mut windows = [0u64; WINDOWS];
        rest.parts.iter().for_each(|part| windows.iter_mut().zip(&part.windows).for_each(|(sum, ns)| *sum += ns));
        let length: u64 = rest.parts.iter().map(|part| part.ns).sum();
        if length == 0 || 2 * windows.iter().filter(|&&ns| ns > 0).count() < WINDOWS {
            return None;
        }
        let scatter = |own: &[u64]| -> f64 {
            let shares = own.iter().zip(&windows).filter(|(_, &all)| all > 0).map(|(&ns, &all)| ns as f64 / all as f64);
            error_from_quartiles(&shares.collect::<Vec<f64>>())
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

    /// Returns the subjects from which the path comes to this one, with the numbers of times.
    pub fn entries_into(&self, subject: SubjectId) -> impl Iterator<Item = (SubjectId, u64)> + '_ {
        self.crossings.entries.iter().filter(move |(pair, _)| pair.to == subject).map(|(pair, &count)| (pair.from, count))
    }
}

/// Returns whether a prediction is about half of the time of this state alone, however the user
/// wrote the state's name.
fn halves(prediction: &Prediction, row: &ClassState) -> bool {
    let is_row = |(class, state): &(String, Option<String>)| *class == row.class && state.as_ref() == Some(&row.state);
    matches!(&prediction.changes[..], [Change::Scale { target, factor }] if *factor == 0.5 && target.ways.iter().any(is_row))
}

/// Returns two standard errors of the mean over windows, computed from their quartiles, so that a
/// window of start-up or shutdown does not affect it.
fn error_from_quartiles(shares: &[f64]) -> f64 {
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
            LinkKind::DelayedAck | LinkKind::Transmission | LinkKind::Retransmission | LinkKind::WindowProbe => Does::KernelTimer(kind),
            LinkKind::Keepalive | LinkKind::Pacing | LinkKind::RateLimit | LinkKind::QuotaRefill => Does::KernelTimer(kind),
            LinkKind::IoQuota | LinkKind::DelayedWork | LinkKind::GracePeriod | LinkKind::KernelTimer => Does::KernelTimer(kind),
            LinkKind::Disk => Does::Disk,
            LinkKind::Outside => Does::Outside,
            LinkKind::Unknown => Does::Unknown,
            LinkKind::Queued | LinkKind::Wire | LinkKind::Wakeup | LinkKind::Interrupt | LinkKind::Raise => Does::Transit,
            LinkKind::Workqueue | LinkKind::Signal | LinkKind::Run | LinkKind::Named => Does::Transit,
        },
    }
}
