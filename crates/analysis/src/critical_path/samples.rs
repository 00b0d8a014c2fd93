//! Which samples of stacks lie on the critical path: those of the thread, or the interrupt's CPU, that the path goes through at that moment.
//!
//! Samples are too few to say when a path was where, and the path does not say which function it was; together they are a flame graph of nothing
//! but what holds the system back, and each function's share of it beside its rank in the ordinary profile. Path and samples are walked side by side, once.
//! Which function has the most samples of a state on the path tells where a profiler puts that state ([`Tops`]).

use crate::critical_path::{Kind, Path, Row, Stretch};
use crate::scheduling::stacks::{interval, FunctionShare};
use longpole_model::causes::Seat;
use longpole_model::kinds::{SegmentKind, StateKind};
use longpole_symbols::{Frame, FrameId, Stack, Stacks};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Samples must come in the order of time.
pub struct OnPath<'a> {
    stretches: Box<dyn Iterator<Item = Stretch> + 'a>,
    at: Option<Stretch>,
    path: &'a Path,
    /// The last stretch in which its machine ran without being interrupted.
    own: Option<u32>,
    /// Of each number of the path's; empty where nothing runs that a sample could find.
    seats: Vec<&'a [Seat]>,
    /// Time on the path that a sample could find.
    pub running_ns: u64,
}

impl<'a> OnPath<'a> {
    /// `seats` are those of the machines by name.
    pub fn new(path: &'a Path, seats: &'a HashMap<&str, Vec<Seat>>) -> OnPath<'a> {
        let known = |of: u32| match path.kind(of) {
            Kind::Running | Kind::SystemCall | Kind::Interrupt => seats.get(path.machine(of)).map_or(&[][..], Vec::as_slice),
            _ => &[],
        };
        let seats: Vec<&[Seat]> = (0..path.kinds() as u32).map(known).collect();
        let running_ns = seats.iter().zip(path.times()).filter(|(seats, _)| !seats.is_empty()).map(|(_, ns)| ns).sum();
        let stretches: Box<dyn Iterator<Item = Stretch>> = Box::new(path.stretches());
        let mut on_path = OnPath { at: None, stretches, path, own: None, seats, running_ns };
        on_path.advance();
        on_path
    }

    fn advance(&mut self) {
        self.at = self.stretches.next();
        self.own = self.at.map(|at| at.of).filter(|&of| !self.seats[of as usize].is_empty() && !self.is_interrupted(of)).or(self.own);
    }

    fn is_interrupted(&self, of: u32) -> bool {
        self.path.segment_kind(of) == SegmentKind::State(StateKind::Interrupted)
    }

    /// The stretch of the path (its number) that goes through what was sampled. Samples are taken in an interrupt: what it interrupted is what they show.
    pub fn holds(&mut self, t_ns: i64, tid: i32, cpu: Option<u32>) -> Option<u32> {
        let t = u64::try_from(t_ns).ok()?;
        while self.at.as_ref().is_some_and(|stretch| stretch.end <= t) {
            self.advance();
        }
        let stretch = self.at.as_ref().filter(|stretch| stretch.start <= t)?;
        let is_here = |seat: &Seat| match *seat {
            Seat::Thread(thread) => thread == tid,
            Seat::Cpu(number) => Some(number) == cpu,
        };
        let of = stretch.of;
        let own = self.own.filter(|&own| self.is_interrupted(of) && self.path.machine(own) == self.path.machine(of));
        self.seats[of as usize].iter().any(is_here).then_some(own.unwrap_or(of))
    }
}

/// The function in which most samples of a state on the path were taken: where a profiler shows that state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Top {
    pub process: String,
    pub function: String,
    pub module: String,
    /// Of the state on the path: in this function, and in all.
    pub samples: u64,
    pub state_samples: u64,
    /// Of the function among all functions of the system.
    pub profile_rank: u64,
    pub profile_share: f64,
}

/// How often each function was on top of the stack in each state on the path.
#[derive(Debug, Default)]
pub struct Tops(HashMap<(u32, Rc<str>, FrameId), u64>);

impl Tops {
    /// `of`: the stretch that it lies in.
    pub fn sample(&mut self, of: u32, stack: &Stack<'_>) {
        if let Some(&top) = stack.frames.first() {
            *self.0.entry((of, Rc::clone(&stack.process), top)).or_default() += 1;
        }
    }

    /// Says in each row of the path which function that is. `functions` are all of the system.
    pub fn tell(&self, path: &Path, stacks: &Stacks, functions: &[CriticalFunction], rows: &mut [Row]) {
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

/// A function in all processes of a name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CriticalFunction {
    pub process: String,
    pub function: String,
    pub module: String,
    /// Of the path, by the samples with the function on top of the stack.
    pub share: f64,
    /// Where it is with 95 % certainty.
    pub low: f64,
    pub high: f64,
    pub path_samples: u64,
    /// Among all functions of the system, by samples of busy CPUs.
    pub profile_rank: u64,
    pub profile_share: f64,
    pub profile_samples: u64,
}

/// What is critical first. `running` is the share of the path in which something runs that a sample could find.
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

/// A file without symbols is one function.
fn name<'a>(function: &'a str, module: &str) -> &'a str {
    match function.strip_prefix(module) {
        Some(address) if address.starts_with("+0x") => "(no symbols)",
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
    fn processes_of_a_name_are_one_and_what_is_busy_may_be_off_the_path() {
        let all = [
            share("p", "hot", 1, 60),
            share("p", "slow", 1, 10),
            share("p", "slow", 2, 10),
            share("q", "slow", 3, 20),
            share("q", "caller", 3, 0),
        ];
        let on_path = [share("p", "slow", 1, 5), share("p", "slow", 2, 5), share("q", "slow", 3, 0)];
        let rows = functions(&on_path, &all, 0.5);
        let told: Vec<_> = rows.iter().map(|row| (row.process.as_str(), row.function.as_str(), row.share, row.profile_rank)).collect();
        assert_eq!(told, [("p", "slow", 0.5, 2), ("p", "hot", 0.0, 1), ("q", "slow", 0.0, 2)]);
        // 10 of 10, and of none: the same interval from above and from below, of half of the path.
        assert!((rows[0].low - 0.5 * 0.7225).abs() < 1e-4 && rows[0].high == 0.5 && (rows[1].high - 0.5 * 0.2775).abs() < 1e-4);
    }
}
