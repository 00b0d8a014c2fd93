//! Samples of stacks on the critical path: those of the thread, or of the interrupt's CPU, that the
//! path goes through at that moment.
//!
//! Samples are too rare to say when the path was where, and the path does not know functions.
//! Together they yield a flame graph of only what limits the system, and the share of each function
//! on the path next to its rank in the ordinary profile. Path and samples are walked in parallel,
//! once. The function with the most samples of a state on the path is where a profiler shows that
//! state ([`Tops`]).

use crate::critical_path::{Kind, Path, Row, Stretch};
use crate::scheduling::stacks::{interval, FunctionShare};
use longpole_model::causes::RunsOn;
use longpole_model::kinds::{SegmentKind, StateKind};
use longpole_symbols::{Frame, FrameId, Stack, Stacks};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Matcher of samples to the path. Samples must come in the order of time.
pub struct OnPath<'a> {
    stretches: Box<dyn Iterator<Item = Stretch> + 'a>,
    at: Option<Stretch>,
    path: &'a Path,
    /// Number of the last stretch in which the machine on the path ran without being interrupted.
    own: Option<u32>,
    /// Seats for each number of stretches; empty if no sample could be taken of that stretch.
    runs_on: Vec<&'a [RunsOn]>,
    /// Time on the path in which samples can be taken, in ns.
    pub running_ns: u64,
}

impl<'a> OnPath<'a> {
    /// `runs_on` maps the names of machines to their threads and CPUs.
    pub fn new(path: &'a Path, runs_on: &'a HashMap<&str, Vec<RunsOn>>) -> OnPath<'a> {
        let known = |of: u32| match path.kind(of) {
            Kind::Running | Kind::SystemCall | Kind::Interrupt => runs_on.get(path.machine(of)).map_or(&[][..], Vec::as_slice),
            _ => &[],
        };
        let runs_on: Vec<&[RunsOn]> = (0..path.kinds() as u32).map(known).collect();
        let running_ns = runs_on.iter().zip(path.times()).filter(|(runs_on, _)| !runs_on.is_empty()).map(|(_, ns)| ns).sum();
        let stretches: Box<dyn Iterator<Item = Stretch>> = Box::new(path.stretches());
        let mut on_path = OnPath { at: None, stretches, path, own: None, runs_on, running_ns };
        on_path.advance();
        on_path
    }

    fn advance(&mut self) {
        self.at = self.stretches.next();
        self.own = self.at.map(|at| at.of).filter(|&of| !self.runs_on[of as usize].is_empty() && !self.is_interrupted(of)).or(self.own);
    }

    fn is_interrupted(&self, of: u32) -> bool {
        self.path.segment_kind(of) == SegmentKind::State(StateKind::Interrupted)
    }

    /// Returns the number of the stretch that goes through the sampled thread or CPU. Samples are
    /// taken in an interrupt but show the interrupted code, so the stretch before the interrupt is
    /// returned if it is of the same machine.
    pub fn holds(&mut self, t_ns: i64, tid: i32, cpu: Option<u32>) -> Option<u32> {
        let t = u64::try_from(t_ns).ok()?;
        while self.at.as_ref().is_some_and(|stretch| stretch.end <= t) {
            self.advance();
        }
        let stretch = self.at.as_ref().filter(|stretch| stretch.start <= t)?;
        let is_here = |place: &RunsOn| match *place {
            RunsOn::Thread(thread) => thread == tid,
            RunsOn::Cpu(number) => Some(number) == cpu,
        };
        let of = stretch.of;
        let own = self.own.filter(|&own| self.is_interrupted(of) && self.path.machine(own) == self.path.machine(of));
        self.runs_on[of as usize].iter().any(is_here).then_some(own.unwrap_or(of))
    }
}

/// The function in which most samples of a state on the path were taken: a profiler shows the state
/// there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Top {
    pub process: String,
    pub function: String,
    pub module: String,
    /// Samples of the state on the path: in this function, and in all functions.
    pub samples: u64,
    pub state_samples: u64,
    /// Rank of the function among all functions of the system.
    pub profile_rank: u64,
    pub profile_share: f64,
}

/// Samples of each function on top of the stack, for each state on the path.
#[derive(Debug, Default)]
pub struct Tops(HashMap<(u32, Rc<str>, FrameId), u64>);

impl Tops {
    /// Counts a sample. `of` is the number of its stretch.
    pub fn sample(&mut self, of: u32, stack: &Stack<'_>) {
        if let Some(&top) = stack.frames.first() {
            *self.0.entry((of, Rc::clone(&stack.process), top)).or_default() += 1;
        }
    }

    /// Sets [`Row::function`] of each row of the path. `functions` are all functions of the system.
    pub fn set_functions(&self, path: &Path, stacks: &Stacks, functions: &[CriticalFunction], rows: &mut [Row]) {
        let mut counts: HashMap<([&str; 3], Kind), BTreeMap<[&str; 3], u64>> = HashMap::new();
        for ((of, process, frame), count) in &self.0 {
            let (class, state) = path.class_and_state(*of);
            let Frame { function, module, .. } = stacks.frame(*frame);
            let of_state = counts.entry(([path.machine(*of), class, state], path.kind(*of))).or_default();
            *of_state.entry([process, name(function, module), module]).or_default() += count;
        }
        let known: HashMap<[&str; 3], &CriticalFunction> =
            functions.iter().map(|it| ([it.process.as_str(), &it.function, &it.module], it)).collect();
        for row in rows {
            let Some(of_state) = counts.get(&([row.machine.as_str(), &row.class, &row.state], row.kind.into())) else { continue };
            let most = of_state.iter().max_by_key(|&(names, &samples)| (samples, std::cmp::Reverse(names)));
            row.function = most.and_then(|(names, &samples)| {
                let CriticalFunction { process, function, module, profile_rank, profile_share, .. } = (*known.get(names)?).clone();
                let state_samples = of_state.values().sum();
                Some(Box::new(Top { process, function, module, samples, state_samples, profile_rank, profile_share }))
            });
        }
    }
}

/// Name of the function in a file without symbols.
const NO_SYMBOLS: &str = "(no symbols)";

/// A function, summed up over all processes of one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CriticalFunction {
    pub process: String,
    pub function: String,
    pub module: String,
    /// Estimated share of the path, by the samples with the function on top of the stack.
    pub share: f64,
    /// Bounds of the share with 95 % confidence.
    pub low: f64,
    pub high: f64,
    pub path_samples: u64,
    /// Rank among all functions of the system, by samples of busy CPUs.
    pub profile_rank: u64,
    pub profile_share: f64,
    pub profile_samples: u64,
}

impl CriticalFunction {
    /// Returns whether the function's file has symbols, so that its name is known.
    pub fn has_symbols(&self) -> bool {
        self.function != NO_SYMBOLS
    }
}

/// Returns the functions by their samples on the path, descending. `running` is the share of the
/// path in which samples can be taken.
pub fn functions(on_path: &[FunctionShare], all: &[FunctionShare], running: f64) -> Vec<CriticalFunction> {
    let mut counts: HashMap<[&str; 3], (u64, u64)> = HashMap::new();
    for row in on_path {
        counts.entry([&row.process, name(&row.function, &row.module), &row.module]).or_default().0 += row.self_samples;
    }
    for row in all {
        counts.entry([&row.process, name(&row.function, &row.module), &row.module]).or_default().1 += row.self_samples;
    }
    let (found, busy) = counts.values().fold((0, 0), |(found, busy), &(on, of_all)| (found + on, busy + of_all));
    let mut order: Vec<u64> = counts.values().map(|&(_, all)| all).collect();
    order.sort_unstable_by(|a, b| b.cmp(a));
    let of = |hits: u64, all: u64| if all > 0 { hits as f64 / all as f64 } else { 0.0 };
    let mut rows: Vec<CriticalFunction> = counts
        .into_iter()
        .filter(|&(_, (_, all))| all > 0)
        .map(|([process, function, module], (path_samples, profile_samples))| {
            let (low, high) = interval(path_samples, found);
            CriticalFunction {
                process: process.to_owned(),
                function: function.to_owned(),
                module: module.to_owned(),
                share: running * of(path_samples, found),
                low: running * low,
                high: running * high,
                path_samples,
                profile_rank: 1 + order.partition_point(|&other| other > profile_samples) as u64,
                profile_share: of(profile_samples, busy),
                profile_samples,
            }
        })
        .collect();
    let words = |row: &CriticalFunction| [row.process.clone(), row.module.clone(), row.function.clone()];
    rows.sort_by(|a, b| {
        (b.path_samples, b.profile_samples).cmp(&(a.path_samples, a.profile_samples)).then_with(|| words(a).cmp(&words(b)))
    });
    rows
}

/// All addresses of a file without symbols are one function.
fn name<'a>(function: &'a str, module: &str) -> &'a str {
    match function.strip_prefix(module) {
        Some(address) if address.starts_with("+0x") => NO_SYMBOLS,
        _ => function,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(process: &str, function: &str, pid: i32, own: u64) -> FunctionShare {
        let (function, process, module) = (function.to_owned(), process.to_owned(), "m".to_owned());
        FunctionShare {
            pid: Some(pid),
            process,
            function,
            module,
            samples: own,
            self_samples: own,
            self_share: 0.0,
            total_share: 0.0,
            self_low: 0.0,
            self_high: 0.0,
        }
    }

    #[test]
    fn functions_are_summed_by_process_name_and_a_busy_function_may_be_off_the_path() {
        let all = [
            share("p", "hot", 1, 60),
            share("p", "slow", 1, 10),
            share("p", "slow", 2, 10),
            share("q", "slow", 3, 20),
            share("q", "caller", 3, 0),
        ];
        let on_path = [share("p", "slow", 1, 5), share("p", "slow", 2, 5), share("q", "slow", 3, 0)];
        let rows = functions(&on_path, &all, 0.5);
        let found: Vec<_> = rows.iter().map(|row| (row.process.as_str(), row.function.as_str(), row.share, row.profile_rank)).collect();
        assert_eq!(found, [("p", "slow", 0.5, 2), ("p", "hot", 0.0, 1), ("q", "slow", 0.0, 2)]);
        // Hits of 10 in 10 and of 0 in 10: the same interval from above and from below, times half
        // of the path.
        assert!((rows[0].low - 0.5 * 0.7225).abs() < 1e-4 && rows[0].high == 0.5 && (rows[1].high - 0.5 * 0.2775).abs() < 1e-4);
    }
}
