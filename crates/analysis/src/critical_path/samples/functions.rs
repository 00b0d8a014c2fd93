//! Functions on the path: those that ran, next to their rank in the ordinary profile, and those in
//! which threads waited.
//!
//! A function that ran is the one on top of the stack, as in a profile, except that the frames of
//! an interpreter and the inlined functions of a library count for the function below. The function
//! that waited is chosen by [`super::WaitFunctions`].

use super::path_stacks::{own_frame, Divided, Estimate, PathStack};
use crate::critical_path::{Path, Row};
use crate::scheduling::stacks::FunctionShare;
use crate::scheduling::time_kind::TimeKind;
use longpole_symbols::{Frame, FrameId, Origin, Stacks};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::rc::Rc;

/// Largest number of functions of a state.
const MAX_TOPS: usize = 3;

/// A function, summed up over all processes of one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CriticalFunction {
    pub process: String,
    pub function: String,
    pub module: String,
    /// Source file and line with most of the time; `None` without debug information.
    pub file: Option<String>,
    pub line: Option<u32>,
    /// Function from which it was called for most of the time.
    pub caller: Option<String>,
    /// Whether the function runs, or what it waits for.
    pub time: TimeKind,
    /// Estimated share of the path.
    pub share: f64,
    /// Bounds of the share with 95 % confidence.
    pub low: f64,
    pub high: f64,
    pub path_samples: u64,
    /// Rank among all functions of the system, by samples of busy CPUs; `None` for a wait.
    pub profile_rank: Option<u64>,
    pub profile_share: Option<f64>,
    pub profile_samples: u64,
    /// False if the function's file has no symbols: the name is that of the file.
    #[serde(skip)]
    pub is_named: bool,
}

/// The function in which most of a state's time on the path is spent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Top {
    pub process: String,
    pub function: String,
    pub module: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub caller: Option<String>,
    /// Samples of the state on the path: in this function, and in all functions.
    pub samples: u64,
    pub state_samples: u64,
    /// Share of the state's sampled time, with its bounds with 95 % confidence.
    pub share: f64,
    pub low: f64,
    pub high: f64,
    /// Rank of the function among all functions of the system; `None` for a wait.
    pub profile_rank: Option<u64>,
    pub profile_share: Option<f64>,
}

/// A function of a program's own code in one state of the path, for the verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Code {
    pub process: String,
    /// Class of the thread to which the time belongs; for a link that no state follows, the link's.
    pub class: String,
    pub state: String,
    pub time: TimeKind,
    /// Name of the function; `None` if it is not known.
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub caller: Option<String>,
    /// The outermost and the innermost function that it called for most of this time, directly or
    /// through others; only one if they are the same.
    pub callees: Vec<String>,
    pub estimate: Estimate,
}

/// A function of a process, running or waiting. In sums, the order of keys is fixed, because the
/// order of additions changes the last digit.
type FunctionKey = (Rc<str>, FrameId, TimeKind);

/// The sums over the stacks of one function.
#[derive(Debug, Default)]
struct Sums {
    estimate: Estimate,
    places: HashMap<FrameId, f64>,
    callers: HashMap<FrameId, f64>,
    /// Functions within the function.
    callees: HashMap<FrameId, Callee>,
    /// Number of stacks whose functions were added.
    stacks: usize,
}

/// A function within another one.
#[derive(Clone, Copy, Debug, Default)]
struct Callee {
    ns: f64,
    /// The time multiplied by the function's position in the stack.
    positions: f64,
    /// Number of the last stack that has it. In one stack, a function counts once, at its innermost
    /// position.
    last_stack: usize,
}

impl Sums {
    /// Adds a stack that counts for its function at this position.
    fn add(&mut self, stack: &PathStack, at: Option<usize>) {
        self.estimate = [self.estimate, stack.time].into_iter().sum();
        for place in stack.places.iter().filter(|place| Some(place.at) == at) {
            *self.places.entry(place.place).or_default() += place.ns;
        }
        if let Some(&caller) = at.and_then(|at| stack.frames.get(at + 1)) {
            *self.callers.entry(caller).or_default() += stack.time.ns;
        }
    }

    /// Adds the functions of a stack that are within the function at this position. The functions
    /// with which an interpreter executes that one are left out.
    fn add_callees(&mut self, stack: &PathStack, at: usize, stacks: &Stacks) {
        self.stacks += 1;
        let within = &stack.frames[..at];
        let interpreter = within.last().filter(|_| stacks.frame(stack.frames[at]).interpreted).map(|inner| &stacks.frame(*inner).module);
        for (position, frame) in within.iter().enumerate().filter(|(_, frame)| Some(&stacks.frame(**frame).module) != interpreter) {
            let callee = self.callees.entry(*frame).or_default();
            if callee.last_stack != self.stacks {
                callee.ns += stack.time.ns;
                callee.positions += position as f64 * stack.time.ns;
                callee.last_stack = self.stacks;
            }
        }
    }

    /// The outermost and the innermost function within the function with more than half of the
    /// time, if their names are known; only one if they are the same.
    fn callees(&self, stacks: &Stacks) -> Vec<String> {
        let is_meant = |frame: &Frame| frame.named && matches!(frame.origin, Origin::File | Origin::Made);
        let most = self.callees.iter().filter(|(frame, callee)| callee.ns > 0.5 * self.estimate.ns && is_meant(stacks.frame(**frame)));
        let mut most: Vec<(f64, FrameId)> = most.map(|(&frame, callee)| (callee.positions / callee.ns, frame)).collect();
        most.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let ends = [most.first(), most.last().filter(|_| most.len() > 1)];
        ends.into_iter().flatten().map(|(_, frame)| stacks.frame(*frame).function.clone()).collect()
    }

    /// The file and line with most of the time.
    fn place(&self, stacks: &Stacks) -> (Option<String>, Option<u32>) {
        let most = self.places.iter().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)));
        let frame = most.map(|(&place, _)| stacks.frame(place));
        (frame.and_then(|frame| frame.file.as_deref().map(str::to_owned)), frame.and_then(|frame| frame.line))
    }

    /// The caller with more than half of the time, if its name is known.
    fn caller(&self, stacks: &Stacks) -> Option<String> {
        let (&caller, _) = self.callers.iter().find(|(_, &ns)| ns > 0.5 * self.estimate.ns)?;
        let frame = stacks.frame(caller);
        (frame.named && !frame.of_system && frame.origin != Origin::Unknown).then(|| frame.function.clone())
    }
}

/// The functions on a path.
pub struct FunctionTable<'a> {
    pub(super) path: &'a Path,
    pub(super) stacks: &'a Stacks,
    pub(super) divided: &'a Divided,
    /// Functions of the profile by process, name and module: samples, and rank.
    profile: HashMap<[String; 3], (u64, u64)>,
    profile_samples: u64,
}

impl<'a> FunctionTable<'a> {
    /// `all` are all functions of the system, by samples of busy CPUs.
    pub fn new(path: &'a Path, stacks: &'a Stacks, divided: &'a Divided, all: &[FunctionShare]) -> FunctionTable<'a> {
        let mut profile: HashMap<[String; 3], (u64, u64)> = HashMap::new();
        for row in all {
            let names = [&row.process, &row.function, &row.module].map(String::clone);
            profile.entry(names).or_default().0 += row.self_samples;
        }
        let mut order: Vec<u64> = profile.values().map(|(samples, _)| *samples).collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        for (samples, rank) in profile.values_mut() {
            *rank = 1 + order.partition_point(|other| other > samples) as u64;
        }
        FunctionTable { path, stacks, divided, profile, profile_samples: order.iter().sum() }
    }

    /// Returns the functions by their share of the path, descending. `length_ns` is the length of
    /// the path.
    pub fn functions(&self, length_ns: u64) -> Vec<CriticalFunction> {
        let all = self.divided.with_stacks;
        let covered = all.ns / length_ns.max(1) as f64;
        let share = |estimate: Estimate| if all.ns > 0.0 { covered * estimate.ns / all.ns } else { 0.0 };
        let mut rows: Vec<CriticalFunction> = Vec::new();
        let mut profile = self.profile.clone();
        for ((process, frame, time), sums) in self.sums() {
            let Frame { function, module, named, .. } = self.stacks.frame(frame);
            let names = [process.to_string(), function.clone(), module.clone()];
            let profiled = if time == TimeKind::Running { profile.remove(&names) } else { None };
            let (low, high) = sums.estimate.interval(all);
            let (file, line) = sums.place(self.stacks);
            let [process, function, module] = names;
            rows.push(CriticalFunction {
                process,
                function,
                module,
                file,
                line,
                caller: sums.caller(self.stacks),
                time,
                share: share(sums.estimate),
                low: covered * low,
                high: covered * high,
                path_samples: sums.estimate.samples,
                profile_rank: profiled.map(|(_, rank)| rank),
                profile_share: profiled.map(|(samples, _)| self.profile_share(samples)),
                profile_samples: profiled.map_or(0, |(samples, _)| samples),
                is_named: *named,
            });
        }
        let (_, high) = Estimate::default().interval(all);
        // A function with samples only as a caller is no part of the profile.
        for ([process, function, module], (samples, rank)) in profile.into_iter().filter(|(_, (samples, _))| *samples > 0) {
            rows.push(CriticalFunction {
                is_named: function != module,
                process,
                function,
                module,
                file: None,
                line: None,
                caller: None,
                time: TimeKind::Running,
                share: 0.0,
                low: 0.0,
                high: covered * high,
                path_samples: 0,
                profile_rank: Some(rank),
                profile_share: Some(self.profile_share(samples)),
                profile_samples: samples,
            });
        }
        let words = |row: &CriticalFunction| [row.process.clone(), row.module.clone(), row.function.clone()];
        rows.sort_by(|a, b| {
            let order = b.share.total_cmp(&a.share).then(b.profile_samples.cmp(&a.profile_samples));
            order.then_with(|| (words(a), a.time).cmp(&(words(b), b.time)))
        });
        rows
    }

    fn profile_share(&self, samples: u64) -> f64 {
        samples as f64 / self.profile_samples.max(1) as f64
    }

    /// Returns the position of the function that a stack counts for.
    fn counted_frame(&self, stack: &PathStack) -> Option<usize> {
        match stack.group.time {
            TimeKind::Running => self.stacks.running_frame(&stack.frames),
            kind => self.divided.wait_functions.counted(self.stacks, &stack.process, &stack.frames, kind),
        }
    }

    /// Sums up the stacks by process, function and kind of time.
    fn sums(&self) -> BTreeMap<FunctionKey, Sums> {
        let mut sums: BTreeMap<FunctionKey, Sums> = BTreeMap::new();
        for stack in &self.divided.stacks {
            let Some(at) = self.counted_frame(stack) else { continue };
            let key = (Rc::clone(&stack.process), stack.frames[at], stack.group.time);
            sums.entry(key).or_default().add(stack, Some(at));
        }
        sums
    }

    /// Sets [`Row::function`] of each row of the path.
    pub fn set_functions(&self, rows: &mut [Row]) {
        let states = self.sums_by(|of| {
            let (class, state) = self.path.class_and_state(of);
            ([self.path.machine(of), class, state], self.path.kind(of))
        });
        for row in rows {
            let class = if row.kind.is_link() { &row.owner } else { &row.class };
            let Some(functions) = states.get(&([row.machine.as_str(), class, &row.state], row.kind.into())) else { continue };
            row.function = self.tops(functions, 1).pop().map(Box::new);
        }
    }

    /// Returns the functions with most of the time of each state of a class, by class and state.
    pub fn of_states(&self) -> HashMap<[&'a str; 2], Vec<Top>> {
        let states = self.sums_by(|of| {
            let (class, state) = self.path.class_and_state(of);
            [class, state]
        });
        states.into_iter().map(|(state, functions)| (state, self.tops(&functions, MAX_TOPS))).collect()
    }

    /// Sums up the stacks by function, apart for each key that a stretch's number has.
    fn sums_by<K: Eq + Hash>(&self, key: impl Fn(u32) -> K) -> HashMap<K, BTreeMap<FunctionKey, Sums>> {
        let mut states: HashMap<K, BTreeMap<FunctionKey, Sums>> = HashMap::new();
        for stack in &self.divided.stacks {
            let Some(at) = self.counted_frame(stack) else { continue };
            let functions = states.entry(key(stack.group.key)).or_default();
            let sums = functions.entry((Rc::clone(&stack.process), stack.frames[at], stack.group.time)).or_default();
            sums.add(stack, Some(at));
        }
        states
    }

    /// Returns the functions with the most time, at most this number of them.
    fn tops(&self, functions: &BTreeMap<FunctionKey, Sums>, most: usize) -> Vec<Top> {
        let all: Estimate = functions.values().map(|sums| sums.estimate).sum();
        let order = |(process, frame, _): &FunctionKey| (process.clone(), self.stacks.frame(*frame).function.clone());
        let mut ranked: Vec<(&FunctionKey, &Sums)> = functions.iter().collect();
        ranked.sort_by(|a, b| b.1.estimate.ns.total_cmp(&a.1.estimate.ns).then_with(|| order(a.0).cmp(&order(b.0))));
        ranked.into_iter().take(most).map(|(key, sums)| self.top(key, sums, all)).collect()
    }

    fn top(&self, (process, frame, time): &FunctionKey, sums: &Sums, all: Estimate) -> Top {
        let Frame { function, module, .. } = self.stacks.frame(*frame);
        let names = [process.to_string(), function.clone(), module.clone()];
        let profiled = self.profile.get(&names).filter(|_| *time == TimeKind::Running);
        let (low, high) = sums.estimate.interval(all);
        let (file, line) = sums.place(self.stacks);
        let [process, function, module] = names;
        Top {
            process,
            function,
            module,
            file,
            line,
            caller: sums.caller(self.stacks),
            samples: sums.estimate.samples,
            state_samples: all.samples,
            share: if all.ns > 0.0 { sums.estimate.ns / all.ns } else { 0.0 },
            low,
            high,
            profile_rank: profiled.map(|(_, rank)| *rank),
            profile_share: profiled.map(|(samples, _)| self.profile_share(*samples)),
        }
    }

    /// Returns the program's own functions in each state.
    pub fn codes(&self) -> Vec<Code> {
        type OfState<'a> = (Rc<str>, [&'a str; 2], TimeKind, Option<FrameId>);
        let mut sums: HashMap<OfState, Sums> = HashMap::new();
        for stack in &self.divided.stacks {
            let (_, state) = self.path.class_and_state(stack.group.key);
            let (class, _) = self.path.class_and_state(stack.group.owner);
            let is_running = stack.group.time == TimeKind::Running;
            let own = own_frame(self.stacks, &stack.frames);
            let own = own.and_then(|own| if is_running { Some(own) } else { self.counted_frame(stack) });
            // The functions of the script are the program's code, and these have no names.
            let own = own.filter(|&own| !self.stacks.is_of_runtime_without_names(&stack.frames, own));
            let key = (Rc::clone(&stack.process), [class, state], stack.group.time, own.map(|own| stack.frames[own]));
            let sums = sums.entry(key).or_default();
            sums.add(stack, own);
            if let Some(own) = own.filter(|_| is_running) {
                sums.add_callees(stack, own, self.stacks);
            }
        }
        let code = |((process, [class, state], time, frame), sums): (OfState, Sums)| {
            let frame = frame.map(|frame| self.stacks.frame(frame)).filter(|frame| frame.named);
            let (file, line) = sums.place(self.stacks);
            Code {
                process: process.to_string(),
                class: class.to_owned(),
                state: state.to_owned(),
                time,
                function: frame.map(|frame| frame.function.clone()),
                file,
                line,
                caller: sums.caller(self.stacks),
                callees: sums.callees(self.stacks),
                estimate: sums.estimate,
            }
        };
        let mut codes: Vec<Code> = sums.into_iter().map(code).collect();
        let words = |code: &Code| (code.process.clone(), code.class.clone(), code.state.clone(), code.function.clone());
        codes.sort_by(|a, b| b.estimate.ns.total_cmp(&a.estimate.ns).then_with(|| words(a).cmp(&words(b))));
        codes
    }
}
