//! The matcher of samples to the path: the two are walked in parallel, once, in the order of time.
//!
//! A sample of running code belongs to the stretch of the path that goes through its thread, or
//! through the interrupt's CPU, at that moment. A sample of a wait belongs to the stretches in
//! which the path went through the wait: states of the thread in which it had no CPU, and links
//! after which it continued. The part of a wait in which the path went through other machines is
//! the time that the thread waited for them; it is theirs.

use super::time::of_segment;
use crate::critical_path::{Path, Stretch};
use crate::scheduling::sampled_waits::SampledWait;
use crate::scheduling::time_kind::TimeKind;
use longpole_model::causes::RunsOn;
use longpole_model::kinds::{SegmentKind, StateKind};
use std::collections::{HashMap, VecDeque};

/// Stretches that are alike for samples: of one key, and for links also before one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// Key of the stretches.
    pub key: u32,
    /// A key of the machine to which the time belongs.
    pub owner: u32,
    pub time: TimeKind,
}

/// A part of a wait that is on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub group: Group,
    pub ns: u64,
}

/// The parts of a wait, if the path goes through its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfWait {
    /// Time in which the path goes through the wait itself.
    pub pieces: Vec<Piece>,
    /// Time in which the path goes through other machines, for which the thread waited.
    pub for_others_ns: u64,
}

/// Largest number of stretches of a thread that are remembered until its next sample. A wait
/// consists of few.
const MAX_RECENT: usize = 64;

/// Matcher of samples to the path. Samples must come in the order of time.
pub struct OnPath<'a> {
    stretches: Box<dyn Iterator<Item = Stretch> + 'a>,
    at: Option<Stretch>,
    path: &'a Path,
    /// Key of the last stretch in which the machine on the path ran without being interrupted.
    own: Option<u32>,
    /// Seats for each key; empty for links, and if no sample could be taken there.
    seats: Vec<&'a [RunsOn]>,
    times: Vec<TimeKind>,
    /// For each key, the first key of the same machine.
    machines: Vec<u32>,
    /// Links after the last state, which belong to the thread that continues.
    links: Vec<Stretch>,
    recent: HashMap<i32, VecDeque<(Group, u64, u64)>>,
    /// Time on the path of each group, up to the current stretch.
    pub(super) sums: HashMap<Group, u64>,
}

impl<'a> OnPath<'a> {
    /// `runs_on` maps the names of machines to their threads and CPUs.
    pub fn new(path: &'a Path, runs_on: &'a HashMap<&str, Vec<RunsOn>>) -> OnPath<'a> {
        let all = 0..path.key_count() as u32;
        let seats = |of: u32| match path.segment_kind(of) {
            SegmentKind::State(_) => runs_on.get(path.machine(of)).map_or(&[][..], Vec::as_slice),
            SegmentKind::Link(_) => &[],
        };
        let mut first: HashMap<(&str, &str), u32> = HashMap::new();
        let machines = all.clone().map(|of| *first.entry((path.host(of), path.machine(of))).or_insert(of)).collect();
        let mut on_path = OnPath {
            stretches: Box::new(path.stretches()),
            at: None,
            path,
            own: None,
            seats: all.clone().map(seats).collect(),
            times: all.map(|of| of_segment(path.segment_kind(of))).collect(),
            machines,
            links: Vec::new(),
            recent: HashMap::new(),
            sums: HashMap::new(),
        };
        on_path.advance();
        on_path
    }

    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// Walks to the end of the path.
    pub(super) fn finish(&mut self) {
        while self.at.is_some() {
            self.advance();
        }
        self.assign_links(None);
    }

    fn advance(&mut self) {
        self.at = self.stretches.next();
        let Some(stretch) = self.at else { return };
        let at = stretch.key as usize;
        match self.path.segment_kind(stretch.key) {
            SegmentKind::Link(_) => self.links.push(stretch),
            SegmentKind::State(kind) => {
                let is_thread = self.seats[at].iter().any(|seat| matches!(seat, RunsOn::Thread(_)));
                if (is_thread || self.seats[at].is_empty()) && !self.links.is_empty() {
                    self.assign_links(Some(stretch.key));
                }
                let group = Group { key: stretch.key, owner: self.machines[at], time: self.times[at] };
                *self.sums.entry(group).or_default() += stretch.end - stretch.start;
                if may_wait(kind) {
                    self.remember(stretch.key, (group.waiting(), stretch.start, stretch.end));
                }
            }
        }
        let runs = self.runs(stretch.key) && !self.is_interrupted(stretch.key);
        self.own = Some(stretch.key).filter(|_| runs).or(self.own);
    }

    /// Assigns the links to the machine of a state that follows them, if there is one.
    fn assign_links(&mut self, next: Option<u32>) {
        for Stretch { key, start, end } in std::mem::take(&mut self.links) {
            let owner = next.map_or(key, |next| self.machines[next as usize]);
            let group = Group { key, owner, time: self.times[key as usize] };
            *self.sums.entry(group).or_default() += end - start;
            if let Some(next) = next {
                self.remember(next, (group, start, end));
            }
        }
    }

    fn remember(&mut self, state: u32, stretch: (Group, u64, u64)) {
        for seat in self.seats[state as usize] {
            if let RunsOn::Thread(tid) = *seat {
                let recent = self.recent.entry(tid).or_default();
                if recent.len() >= MAX_RECENT {
                    recent.pop_front();
                }
                recent.push_back(stretch);
            }
        }
    }

    /// Returns whether a timer may sample running code in stretches with this key.
    fn runs(&self, key: u32) -> bool {
        self.times[key as usize] == TimeKind::Running && !self.seats[key as usize].is_empty()
    }

    /// Returns whether samples of running code can be taken in stretches of this group.
    pub(super) fn can_run(&self, group: Group) -> bool {
        self.runs(group.key)
    }

    fn is_interrupted(&self, key: u32) -> bool {
        self.path.segment_kind(key) == SegmentKind::State(StateKind::Interrupted)
    }

    fn walk_to(&mut self, t: u64) {
        while self.at.as_ref().is_some_and(|stretch| stretch.end <= t) {
            self.advance();
        }
    }

    /// Returns the group of the stretch that goes through the sampled thread or CPU. Samples are
    /// taken in an interrupt but show the interrupted code, so the stretch before the interrupt is
    /// returned if it is of the same machine.
    pub fn holds(&mut self, t_ns: i64, tid: i32, cpu: Option<u32>) -> Option<Group> {
        let t = u64::try_from(t_ns).ok()?;
        self.walk_to(t);
        let key = self.at.filter(|stretch| stretch.start <= t && self.runs(stretch.key))?.key;
        let is_here = |seat: &RunsOn| match *seat {
            RunsOn::Thread(thread) => thread == tid,
            RunsOn::Cpu(number) => Some(number) == cpu,
        };
        let is_of_same = |own: &u32| self.is_interrupted(key) && self.machines[*own as usize] == self.machines[key as usize];
        let group = |key: u32| Group { key, owner: self.machines[key as usize], time: TimeKind::Running };
        self.seats[key as usize].iter().any(is_here).then(|| group(self.own.filter(is_of_same).unwrap_or(key)))
    }

    /// Returns the parts of a wait; `None` if the path does not go through its end.
    pub fn wait(&mut self, wait: &SampledWait) -> Option<OfWait> {
        let time = |t_ns: i64| u64::try_from(t_ns).ok();
        let (t, begin, end) = (time(wait.t_ns)?, time(wait.begin_ns)?, time(wait.end_ns)?);
        self.walk_to(t);
        let through = |key: u32| self.seats[key as usize].contains(&RunsOn::Thread(wait.tid));
        let is_at = self.at.is_some_and(|stretch| stretch.start <= t && through(stretch.key));
        let mut of_wait = OfWait::default();
        for &(group, from, to) in self.recent.get(&wait.tid).into_iter().flatten() {
            let ns = to.min(end).saturating_sub(from.max(begin));
            if ns > 0 {
                of_wait.pieces.push(Piece { group, ns });
            }
        }
        let own: u64 = of_wait.pieces.iter().map(|piece| piece.ns).sum();
        of_wait.for_others_ns = (end - begin).saturating_sub(own);
        (is_at || own > 0).then_some(of_wait)
    }
}

impl Group {
    /// The time in which a thread in this state has no CPU.
    fn waiting(self) -> Group {
        let time = if self.time == TimeKind::Running { TimeKind::Timer } else { self.time };
        Group { time, ..self }
    }
}

/// Returns whether a thread may be without a CPU in a state of this kind. A thread that sleeps
/// until a time that it set itself stays in its span.
fn may_wait(kind: StateKind) -> bool {
    !matches!(kind, StateKind::User | StateKind::SystemCall | StateKind::Kernel | StateKind::Interrupted | StateKind::Interrupt)
}
