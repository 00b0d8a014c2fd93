//! The stacks on the path, each with the time that it stands for.
//!
//! Samples of running code are taken at a fixed rate, so each stands for the same time. A sampled
//! wait of length L was taken with probability p = min(1, L / period), so its time on the path
//! counts 1 / p times. The sums over samples are then scaled to the known time of each group of
//! stretches: the path says how long a state took, and the samples how this time is divided among
//! stacks.
//!
//! The error of a share comes from what might have been sampled and was not. A sample with
//! probability p and time t contributes (1 - p) t² to the variance of a sum; a wait that is
//! certainly sampled contributes nothing.

use super::on_path::{Group, OfWait, OnPath};
use super::wait_functions::WaitFunctions;
use crate::scheduling::sampled_waits::SampledWait;
use crate::scheduling::stacks::interval_of;
use crate::scheduling::time_kind::TimeKind;
use longpole_symbols::{FrameId, Origin, Stacks};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Largest number of frames of all different stacks that are distinguished.
const MAX_STACK_FRAMES: usize = 1 << 25;
/// Largest number of the program's own functions of a stack, the innermost first, and of different
/// places in each, that are kept.
const MAX_PLACED: usize = 8;
const MAX_PLACES: usize = 16;

/// A sample, copied from the reader of stacks.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    pub process: Rc<str>,
    /// Functions, the innermost first, and the place in each of them.
    pub frames: Vec<FrameId>,
    pub places: Vec<FrameId>,
    /// True if the outermost functions are missing; `None` if that is unknown.
    pub truncated: Option<bool>,
}

/// A time that is estimated from samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    pub ns: f64,
    pub variance: f64,
    pub samples: u64,
}

impl Estimate {
    fn add(&mut self, other: Estimate) {
        self.ns += other.ns;
        self.variance += other.variance;
        self.samples += other.samples;
    }

    fn scaled(self, factor: f64) -> Estimate {
        Estimate { ns: self.ns * factor, variance: self.variance * factor * factor, ..self }
    }

    /// Returns the interval of the share that this part has of `all`, with 95 % confidence.
    pub fn interval(self, all: Estimate) -> (f64, f64) {
        if all.ns <= 0.0 {
            return (0.0, 1.0);
        }
        let share = (self.ns / all.ns).clamp(0.0, 1.0);
        let rest = (all.variance - self.variance).max(0.0);
        let variance = ((1.0 - share).powi(2) * self.variance + share * share * rest) / (all.ns * all.ns);
        // The number of equal samples that would have this variance.
        let of_all = if all.variance > 0.0 { all.ns * all.ns / all.variance } else { f64::INFINITY };
        let count = if variance > 0.0 { share * (1.0 - share) / variance } else { of_all };
        interval_of(share, count.min(of_all.max(all.samples as f64)))
    }
}

impl std::iter::Sum for Estimate {
    fn sum<I: Iterator<Item = Estimate>>(all: I) -> Estimate {
        all.fold(Estimate::default(), |mut sum, it| {
            sum.add(it);
            sum
        })
    }
}

#[derive(Debug, Default)]
struct Counted {
    estimate: Estimate,
    places: Vec<Place>,
}

/// A place in one of the program's own functions, and its time.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Position of the function in the stack.
    pub at: usize,
    pub place: FrameId,
    pub ns: f64,
}

/// A stack of a group.
#[derive(Clone, Debug)]
pub struct PathStack {
    pub group: Group,
    pub process: Rc<str>,
    /// Functions, the innermost first.
    pub frames: Box<[FrameId]>,
    /// True if the outermost functions are missing; `None` if that is unknown.
    pub truncated: Option<bool>,
    /// Time on the path.
    pub time: Estimate,
    /// Places in the program's own functions, with their parts of the time.
    pub places: Vec<Place>,
}

/// Group, process and frames of a stack, and whether its outermost functions are missing.
type Key = (Group, Rc<str>, Box<[FrameId]>, Option<bool>);

/// Stacks of the path, before their times are scaled.
#[derive(Debug, Default)]
pub struct PathStacks {
    stacks: HashMap<Key, Counted>,
    frames: usize,
    wait_functions: WaitFunctions,
    /// Numbers of samples of running code, of waits, of those whose outermost functions are
    /// missing, and of those beyond the limit.
    pub running: u64,
    pub waits: u64,
    pub truncated: u64,
    pub beyond: u64,
}

/// The stacks of the whole path.
#[derive(Clone, Debug, Default)]
pub struct Divided {
    pub stacks: Vec<PathStack>,
    /// Time of the groups without stacks.
    pub without: Vec<(Group, u64)>,
    /// The functions in which threads wait, in the whole recording.
    pub wait_functions: WaitFunctions,
    /// Time of all groups with stacks.
    pub with_stacks: Estimate,
    /// Time of running code, and of waits that have stacks, in ns.
    pub running_ns: f64,
    pub waiting_ns: f64,
}

impl PathStacks {
    /// Adds a sample of running code.
    pub fn run(&mut self, group: Group, stacks: &Stacks, sampled: &Sampled) {
        self.running += 1;
        self.truncated += u64::from(sampled.truncated == Some(true));
        self.add(group, stacks, sampled, Estimate { ns: 1.0, variance: 1.0, samples: 1 });
    }

    /// Adds a sampled wait that need not be on the path, for the functions in which threads wait.
    pub fn any_wait(&mut self, wait: &SampledWait, probability: f64, stacks: &Stacks, sampled: &Sampled) {
        self.wait_functions.add(wait, 1.0 / probability, stacks, sampled);
    }

    /// Adds a sampled wait. `probability` is the one with which it was sampled.
    pub fn wait(&mut self, of_wait: &OfWait, probability: f64, stacks: &Stacks, sampled: &Sampled) {
        let is_on_path = !of_wait.pieces.is_empty();
        self.waits += u64::from(is_on_path);
        self.truncated += u64::from(is_on_path && sampled.truncated == Some(true));
        for piece in &of_wait.pieces {
            let ns = piece.ns as f64 / probability;
            self.add(piece.group, stacks, sampled, Estimate { ns, variance: (1.0 - probability) * ns * ns, samples: 1 });
        }
    }

    fn add(&mut self, group: Group, stacks: &Stacks, sampled: &Sampled, estimate: Estimate) {
        let Sampled { process, frames, places, truncated } = sampled;
        let key = (group, Rc::clone(process), Box::from(&frames[..]), *truncated);
        if self.frames >= MAX_STACK_FRAMES && !self.stacks.contains_key(&key) {
            self.beyond += 1;
            return;
        }
        let counted = self.stacks.entry(key).or_insert_with(|| {
            self.frames += frames.len() + 1;
            Counted::default()
        });
        counted.estimate.add(estimate);
        let own = places.iter().enumerate().filter(|(at, _)| frames.get(*at).is_some_and(|frame| is_own(stacks, *frame)));
        for (at, &place) in own.take(MAX_PLACED) {
            match counted.places.iter().position(|known| known.at == at && known.place == place) {
                Some(known) => counted.places[known].ns += estimate.ns,
                None if counted.places.iter().filter(|known| known.at == at).count() < MAX_PLACES => {
                    counted.places.push(Place { at, place, ns: estimate.ns });
                }
                None => {}
            }
        }
    }

    /// Divides the time of the path among the stacks. The path is walked to its end.
    pub fn divide(self, on_path: &mut OnPath<'_>) -> Divided {
        on_path.finish();
        // The order of additions changes the last digit.
        let mut stacks: Vec<_> = self.stacks.into_iter().collect();
        stacks.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut sums: BTreeMap<Group, f64> = BTreeMap::new();
        for ((group, ..), counted) in &stacks {
            *sums.entry(*group).or_default() += counted.estimate.ns;
        }
        // A state in which a thread runs and waits: its samples say how long it waited.
        let state = |group: Group| Group { time: TimeKind::Running, ..group };
        let is_in_running = |group: &Group| group.time != TimeKind::Running && on_path.can_run(*group);
        let mut waited: HashMap<Group, f64> = HashMap::new();
        for (group, ns) in sums.iter().filter(|(group, _)| is_in_running(group)) {
            *waited.entry(state(*group)).or_default() += ns;
        }
        let length = |group: Group| on_path.sums.get(&group).copied().unwrap_or(0) as f64;
        let running = on_path.sums.keys().filter(|group| on_path.can_run(**group));
        let running_ns: f64 = running.map(|group| (length(*group) - waited.get(group).copied().unwrap_or(0.0)).max(0.0)).sum();
        let factor = |group: Group| match group.time {
            TimeKind::Running => running_ns / self.running.max(1) as f64,
            _ if is_in_running(&group) => (length(state(group)) / waited.get(&state(group)).copied().unwrap_or(1.0)).min(1.0),
            _ => length(group) / sums.get(&group).copied().unwrap_or(1.0).max(1.0),
        };
        let has_running = self.running > 0;
        let is_covered = |group: &Group| if on_path.can_run(*group) { has_running } else { sums.contains_key(group) };
        let mut without: Vec<(Group, u64)> =
            on_path.sums.iter().filter(|(group, _)| !is_covered(group)).map(|(group, ns)| (*group, *ns)).collect();
        without.sort_unstable();
        let stack = |((group, process, frames, truncated), counted): (Key, Counted)| {
            let factor = factor(group);
            let places = counted.places.into_iter().map(|place| Place { ns: place.ns * factor, ..place }).collect();
            PathStack { group, process, frames, truncated, time: counted.estimate.scaled(factor), places }
        };
        let stacks: Vec<PathStack> = stacks.into_iter().map(stack).collect();
        let with_stacks = stacks.iter().map(|stack| stack.time).sum();
        let waits = stacks.iter().filter(|stack| stack.group.time != TimeKind::Running);
        let waiting_ns = waits.map(|stack| stack.time.ns).sum();
        let running_ns = if has_running { running_ns } else { 0.0 };
        Divided { stacks, without, wait_functions: self.wait_functions, with_stacks, running_ns, waiting_ns }
    }
}

/// Returns the position of the innermost function of the program's own code: code that the process
/// generated, such as that of a script, else the first function that is in no shared library of the
/// system.
pub fn own_frame(stacks: &Stacks, frames: &[FrameId]) -> Option<usize> {
    let of_file = |frame: &FrameId| stacks.frame(*frame).origin == Origin::File && is_own(stacks, *frame);
    frames.iter().position(|frame| is_script(stacks, *frame)).or_else(|| frames.iter().position(of_file))
}

/// Returns whether a function is one of a script.
pub(super) fn is_script(stacks: &Stacks, frame: FrameId) -> bool {
    let frame = stacks.frame(frame);
    !frame.of_system && (frame.interpreted || frame.origin == Origin::Made && frame.named)
}

/// Returns whether a function belongs to the program's own code.
pub(super) fn is_own(stacks: &Stacks, frame: FrameId) -> bool {
    stacks.frame(frame).origin == Origin::File && !stacks.frame(frame).of_system || is_script(stacks, frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(ns: f64, variance: f64, samples: u64) -> Estimate {
        Estimate { ns, variance, samples }
    }

    #[test]
    fn equal_samples_have_the_interval_of_wilson_and_certain_ones_have_none() {
        let (low, high) = estimate(10.0, 10.0, 10).interval(estimate(100.0, 100.0, 100));
        assert!((low - 0.0552).abs() < 1e-4 && (high - 0.1744).abs() < 1e-4, "{low} {high}");
        let (low, high) = estimate(10.0, 0.0, 2).interval(estimate(40.0, 0.0, 9));
        assert_eq!((low, high), (0.25, 0.25));
        let (low, high) = estimate(0.0, 0.0, 0).interval(estimate(10.0, 10.0, 10));
        assert!(low == 0.0 && (high - 0.2775).abs() < 1e-4, "{low} {high}");
    }

    #[test]
    fn a_few_long_samples_have_a_wider_interval_than_many_short_ones() {
        let many = estimate(50.0, 50.0, 50).interval(estimate(100.0, 100.0, 100));
        let few = estimate(50.0, 1250.0, 2).interval(estimate(100.0, 2500.0, 4));
        assert!(few.0 < many.0 && few.1 > many.1, "{few:?} {many:?}");
    }
}
