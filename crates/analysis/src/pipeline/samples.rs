//! Collects stack samples in a pass: the functions that took the time, or all stacks folded; of a
//! whole trace, or of its critical path.

use super::{Error, Interactions};
use crate::critical_path::samples::{
    Code as CodeOnPath, CriticalFunction, Divided, EndedWait, EndedWaits, FunctionTable, OnPath, PathStack, PathStacks, Sampled, Within,
};
use crate::critical_path::{Answer, Path};
use crate::scheduling::flame_graph::{Code, FlameGraph, FlameGraphs, Unit, WeighedStack};
use crate::scheduling::probed::Cpu;
use crate::scheduling::sampled_waits::{find, SampledWait, SampledWaits};
use crate::scheduling::stack_gaps::{SampledStack, StackGaps, StackGapsCollector};
use crate::scheduling::stacks::{folded, lines, shown, Counts, Folded, FunctionShare, Functions};
use crate::scheduling::time_kind::TimeKind;
use crate::timeline::StateTimes;
use longpole_model::causes::RunsOn;
use longpole_symbols::{Cause, Stack, Stacks};
use longpole_trace::event::Event;
use longpole_trace::{Catalogue, EnvValue, Item, StreamKind, Trace};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path as FilePath, PathBuf};
use std::rc::Rc;

/// The samples that a pass collects from a part of a trace.
pub struct StackSamples<'a> {
    recording: Option<PathBuf>,
    /// Opened at the first sample, after the caller has completed the recording, which looks up the
    /// names.
    stacks: Option<Stacks>,
    /// Functions of all samples of running code.
    functions: Functions,
    /// Stacks, collected instead of functions.
    folded: Option<FoldedSamples<'a>>,
    /// Process to which the samples are limited.
    pid: Option<i32>,
    scope: SampleScope,
    on_path: Option<PathSamples<'a>>,
    /// All stacks of the whole trace, in addition to the functions.
    flames: Option<Box<Flames<'a>>>,
    /// What the collected stacks lack; those of the path have their own.
    gaps: StackGapsCollector,
    sampled: Sampled,
    lost: u64,
}

/// The samples on a critical path.
struct PathSamples<'a> {
    on_path: OnPath<'a>,
    waits: &'a SampledWaits,
    stacks: PathStacks,
    ended_waits: EndedWaits,
}

/// Stacks of running code, of waits, or of both.
struct FoldedSamples<'a> {
    folded: Folded,
    has_running: bool,
    waits: &'a [SampledWait],
    /// Time to which they are limited. Of a wait, the part within it counts.
    range: Range<i64>,
}

/// The stacks of a whole trace, and the time between two samples of running code.
struct Flames<'a> {
    all: FoldedSamples<'a>,
    period_ns: Option<u64>,
}

/// What the samples are limited to. By default, they are not limited.
#[derive(Clone, Debug, Default)]
pub struct SampleScope {
    /// Threads, and CPUs on which code ran; `None` for all.
    pub only: Option<(HashSet<i32>, HashSet<u32>)>,
    /// The state in which the threads are, on a timeline.
    pub state: Option<StateTimes>,
}

impl SampleScope {
    fn has_thread(&self, tid: i32) -> bool {
        self.only.as_ref().is_none_or(|(tids, _)| tids.contains(&tid))
    }

    fn has_run(&self, stack: &Stack<'_>) -> bool {
        let on_cpu = |(_, cpus): &(_, HashSet<u32>)| stack.cpu.is_some_and(|cpu| cpus.contains(&cpu));
        let is_of = self.has_thread(stack.tid) || self.only.as_ref().is_some_and(on_cpu);
        is_of && self.state.as_ref().is_none_or(|state| state.runs_in(stack.tid, stack.t_ns))
    }

    /// Returns the part of this time of a thread that counts, in ns.
    fn ns_of(&self, tid: i32, range: Range<i64>) -> u64 {
        match &self.state {
            _ if range.is_empty() || !self.has_thread(tid) => 0,
            Some(state) => state.ns_in(tid, range),
            None => range.end.abs_diff(range.start),
        }
    }
}

impl<'a> FoldedSamples<'a> {
    /// Returns a collection of all running code, and of these waits.
    fn whole(waits: &'a [SampledWait]) -> FoldedSamples<'a> {
        FoldedSamples { folded: Folded::default(), has_running: true, waits, range: i64::MIN..i64::MAX }
    }

    /// Adds a sample if it is one of those that are collected. Returns what it counts: 1 if it is
    /// of running code, and of a wait, the time in ns that it represents.
    fn add(&mut self, stack: &Stack<'_>, scope: &SampleScope) -> Option<f64> {
        match stack.cause {
            Cause::Running => self.run(stack, scope).then_some(1.0),
            Cause::Waited => self.wait(stack, scope),
            Cause::Woke { .. } => None,
        }
    }

    /// Returns true if the sample is one of those that are collected.
    fn run(&mut self, stack: &Stack<'_>, scope: &SampleScope) -> bool {
        let is_meant = self.has_running && self.range.contains(&stack.t_ns) && scope.has_run(stack);
        if is_meant {
            self.folded.run(stack);
        }
        is_meant
    }

    /// Adds the part of a wait that is in the range and the scope. A wait of length L that was
    /// sampled with the probability L / period stands for period / L waits. Returns the time in ns
    /// that it stands for.
    fn wait(&mut self, stack: &Stack<'_>, scope: &SampleScope) -> Option<f64> {
        let wait = find(self.waits, stack.t_ns, stack.tid)?;
        let length = wait.length_ns();
        let represents = length.max(stack.waiting_period_ns.unwrap_or(0)) as f64 / length as f64;
        let part = |(kind, part): (TimeKind, Range<i64>)| {
            let within = part.start.max(self.range.start)..part.end.min(self.range.end);
            (kind, scope.ns_of(stack.tid, within) as f64 * represents)
        };
        let [blocked, ready] = wait.parts().map(part);
        let all = blocked.1 + ready.1;
        if all > 0.0 {
            self.folded.wait(stack, [blocked, ready].into_iter().map(|(kind, ns)| (kind, ns.round() as u64)));
        }
        (all > 0.0).then_some(all)
    }
}

impl<'a> StackSamples<'a> {
    /// Returns a collection without samples. `recording` has the names of functions; without one,
    /// functions have no names. `pid` limits the samples to a process. With `fold`, stacks are
    /// collected instead of functions.
    pub fn new(recording: Option<PathBuf>, pid: Option<i32>, fold: bool) -> StackSamples<'a> {
        StackSamples {
            recording,
            stacks: None,
            functions: Functions::default(),
            folded: fold.then(|| FoldedSamples::whole(&[])),
            pid,
            scope: SampleScope::default(),
            on_path: None,
            flames: None,
            gaps: StackGapsCollector::default(),
            sampled: Sampled::default(),
            lost: 0,
        }
    }

    /// Limits the stacks that are collected instead of functions.
    pub fn of(self, scope: SampleScope) -> StackSamples<'a> {
        StackSamples { scope, ..self }
    }

    /// Also collects the samples on a path. `waits` are those that the first reading of the trace
    /// has found.
    pub fn on_path(self, on_path: OnPath<'a>, waits: &'a SampledWaits) -> StackSamples<'a> {
        let on_path = PathSamples { on_path, waits, stacks: PathStacks::default(), ended_waits: EndedWaits::default() };
        StackSamples { on_path: Some(on_path), ..self }
    }

    /// Collects the stacks of waits in a range: of `waits`, those which the samples are of. With
    /// `has_running`, those of running code are collected, too. Must be passed all items of the
    /// trace up to [`StackSamples::last_ns`].
    pub fn waits(self, waits: &'a [SampledWait], range: Range<i64>, has_running: bool) -> StackSamples<'a> {
        StackSamples { folded: Some(FoldedSamples { has_running, range, ..FoldedSamples::whole(waits) }), ..self }
    }

    /// Returns the time after which no sample counts. A wait that begins in the range is sampled at
    /// its end.
    pub fn last_ns(&self) -> i64 {
        let Some(FoldedSamples { waits, range, .. }) = &self.folded else { return i64::MAX };
        let within = waits.iter().filter(|wait| wait.begin_ns < range.end && wait.end_ns > range.start);
        within.map(|wait| wait.t_ns).fold(range.end, i64::max)
    }

    /// Collects a flame graph of the whole trace, too: of running code and, if the samples on a
    /// path are collected, of waits. `period_ns` is that of [`StackSamples::flame_graph`].
    pub fn collect_flames(&mut self, period_ns: Option<u64>) {
        let waits = self.on_path.as_ref().filter(|_| period_ns.is_some()).map_or(&[][..], |of| of.waits.all());
        self.flames = Some(Box::new(Flames { all: FoldedSamples::whole(waits), period_ns }));
    }

    /// The recording that has the names of functions.
    pub fn recording(&self) -> Option<&FilePath> {
        self.recording.as_deref()
    }

    /// Processes the next item of the trace. Items before the requested part must be passed, too,
    /// because mappings that were made before it are valid in it.
    pub fn item(&mut self, catalogue: &Catalogue, item: &Item<'_>, in_part: bool) {
        let stream = match item {
            Item::Event(event) => event.stream,
            Item::Loss(loss) => loss.stream,
        };
        if catalogue.streams.get(stream.0 as usize).is_none_or(|stream| stream.kind != StreamKind::Samples) {
            return;
        }
        match item {
            Item::Event(event) => self.event(catalogue, event, in_part),
            Item::Loss(loss) => {
                let t_ns = item.t_ns();
                if in_part && self.folded.as_ref().is_none_or(|of| of.range.contains(&t_ns)) {
                    self.lost = self.lost.saturating_add(loss.events.unwrap_or(0));
                }
            }
        }
    }

    fn event(&mut self, catalogue: &Catalogue, event: &Event<'_>, in_part: bool) {
        let stacks = self.stacks.get_or_insert_with(|| Stacks::open(self.recording.as_deref()));
        let Some(stack) = stacks.follow(catalogue, event) else { return };
        if !in_part || self.pid.is_some_and(|pid| pid != stack.pid) {
            return;
        }
        let Stack { t_ns, tid, cpu, cause, waiting_period_ns, truncated, copied, .. } = stack;
        // What the stack counts, in samples or ns, if it was collected.
        let collected = match &mut self.folded {
            Some(folded) => folded.add(&stack, &self.scope),
            None if cause == Cause::Running => {
                self.functions.sample(&stack);
                Some(1.0)
            }
            None => None,
        };
        if let Some(flames) = &mut self.flames {
            flames.all.add(&stack, &SampleScope::default());
        }
        self.sampled.process = Rc::clone(&stack.process);
        self.sampled.truncated = copied.then_some(truncated);
        for (own, of_stack) in [(&mut self.sampled.frames, stack.frames), (&mut self.sampled.places, stack.places)] {
            own.clear();
            own.extend_from_slice(of_stack);
        }
        if let Some(weight) = collected {
            let Sampled { process, frames, truncated, .. } = &self.sampled;
            self.gaps.add(stacks, SampledStack { process, frames, truncated: *truncated, samples: 1, weight });
        }
        let Some(PathSamples { on_path, waits, stacks: of_path, ended_waits }) = &mut self.on_path else { return };
        match cause {
            Cause::Running => {
                if let Some(group) = on_path.holds(t_ns, tid, cpu) {
                    of_path.run(group, stacks, &self.sampled);
                }
            }
            Cause::Woke { tid } => ended_waits.wake(tid, t_ns, &self.sampled),
            Cause::Waited => {
                let Some(wait) = find(waits.all(), t_ns, tid) else { return };
                let certain = waiting_period_ns.unwrap_or(0).max(1) as f64;
                let probability = (wait.length_ns() as f64 / certain).min(1.0);
                of_path.any_wait(wait, probability, stacks, &self.sampled);
                let Some(of_wait) = on_path.wait(wait) else { return };
                of_path.wait(&of_wait, probability, stacks, &self.sampled);
                ended_waits.wait(wait, &self.sampled, of_wait.for_others_ns, probability);
            }
        }
    }

    /// Returns the numbers of samples, also of lost ones.
    pub fn counts(&self) -> Counts {
        let counts = self.folded.as_ref().map_or(self.functions.counts, |of| of.folded.counts);
        Counts { lost: self.lost, ..counts }
    }

    /// Returns the functions with their shares of the samples.
    pub fn functions(&self) -> Vec<FunctionShare> {
        self.stacks.as_ref().map_or_else(Vec::new, |stacks| self.functions.answer(stacks))
    }

    /// Returns what the collected stacks lack.
    pub fn gaps(&self) -> StackGaps {
        self.stacks.as_ref().map(|stacks| self.gaps.answer(stacks)).unwrap_or_default()
    }

    /// Returns all stacks, folded into one line each.
    pub fn lines(&self) -> Vec<String> {
        self.folded.as_ref().zip(self.stacks.as_ref()).map_or_else(Vec::new, |(of, stacks)| lines(of.folded.stacks(1), stacks))
    }

    /// Returns the flame graph of the stacks that were collected instead of functions. `period_ns`
    /// is the time between two samples of running code; without one, the graph counts samples.
    pub fn flame_graph(&self, period_ns: Option<u64>) -> FlameGraph {
        self.folded.as_ref().map(|of| self.joined(&of.folded, period_ns)).unwrap_or_default()
    }

    /// Returns the flame graph of the whole trace; `None` if it was not requested.
    pub fn flames(&self) -> Option<FlameGraphs> {
        let Flames { all, period_ns } = self.flames.as_deref()?;
        Some(FlameGraphs { all: self.joined(&all.folded, *period_ns), on_path: None })
    }

    fn joined(&self, folded: &Folded, period_ns: Option<u64>) -> FlameGraph {
        let (unit, run_weight) = period_ns.map_or((Unit::Samples, 1), |period_ns| (Unit::Ns, period_ns));
        let graph = |stacks: &Stacks| FlameGraph::of(folded.stacks(run_weight), stacks, unit);
        let graph = self.stacks.as_ref().map(graph).unwrap_or_default();
        FlameGraph { unit, counts: Counts { lost: self.lost, ..folded.counts }, ..graph }
    }

    /// Divides the path among its stacks. `None` without a path, or without samples.
    fn divide(&mut self) -> Option<PathStacksOf<'a>> {
        let PathSamples { mut on_path, stacks, ended_waits, .. } = self.on_path.take()?;
        let PathStacks { running, waits, truncated, beyond, .. } = stacks;
        let counts = PathCounts { running, waits, truncated, lost: self.lost, beyond };
        let divided = stacks.divide(&mut on_path);
        Some(PathStacksOf { path: on_path.path(), stacks: self.stacks.take().unwrap_or_default(), divided, ended_waits, counts })
    }

    /// Adds samples and functions to the answer, if there are samples.
    pub fn add(&self, answer: &mut Cpu) {
        let counts = self.counts();
        if counts.busy > 0 {
            answer.samples = Some(counts);
            answer.stack_gaps = Some(self.gaps());
            answer.functions = Some(self.functions());
        }
    }
}

/// Returns true if the trace contains stack samples.
pub fn has_samples(trace: &Trace) -> bool {
    trace.catalogue().streams.iter().any(|stream| stream.kind == StreamKind::Samples)
}

/// Returns the time in ns between two samples of running code on a CPU, 0 if it was not sampled;
/// `None` if the trace does not tell it.
pub fn sampling_period_ns(trace: &Trace) -> Option<u64> {
    let rate = trace.ctf_traces().iter().flat_map(|of| &of.environment).find_map(|(key, value)| match value {
        EnvValue::Int(hz) if key == "sample_hz" => u64::try_from(*hz).ok(),
        _ => None,
    });
    rate.map(|hz| (1_000_000_000 + hz / 2).checked_div(hz).unwrap_or(0))
}

/// Counts of the samples on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Samples of running code, and sampled waits.
    pub running: u64,
    pub waits: u64,
    /// Samples whose outermost functions are missing.
    pub truncated: u64,
    pub lost: u64,
    pub beyond: u64,
}

/// The stacks of a path.
pub struct PathStacksOf<'a> {
    path: &'a Path,
    stacks: Stacks,
    divided: Divided,
    ended_waits: EndedWaits,
    pub counts: PathCounts,
}

impl PathStacksOf<'_> {
    /// Returns the shares of the path in which code runs, and which waits with stacks have.
    pub fn shares(&self, length_ns: u64) -> (f64, f64) {
        let length = length_ns.max(1) as f64;
        (self.divided.running_ns / length, self.divided.waiting_ns / length)
    }

    /// The stacks of the whole path with their time in ns. Parts without stacks have the name of
    /// their machine and their state.
    fn weighed(&self) -> impl Iterator<Item = WeighedStack<'_>> {
        let with_stack = self.divided.stacks.iter().map(|stack| WeighedStack {
            process: shown(&stack.process),
            truncated: stack.truncated == Some(true),
            frames: &stack.frames,
            leaf: stack.group.time.code().map(|code| (stack.group.time.text(), code)),
            count: stack.time.ns.round() as u64,
        });
        let without = self.divided.without.iter().map(|&(group, ns)| {
            let machine = self.path.machine(group.owner);
            let process = machine.split('/').next().unwrap_or(machine);
            let (_, state) = self.path.class_and_state(group.key);
            WeighedStack { process, truncated: false, frames: &[], leaf: Some((state, Code::WithoutStack)), count: ns }
        });
        with_stack.chain(without)
    }

    /// Returns the table of functions. `all` are those of all samples of running code.
    pub fn table(&self, all: &[FunctionShare]) -> FunctionTable<'_> {
        FunctionTable::new(self.path, &self.stacks, &self.divided, all)
    }

    /// Returns the part of each state that is spent within a function.
    pub fn within(&self, function: &str) -> Vec<Within> {
        self.table(&[]).within(function)
    }

    /// Returns both ends of the waits that other threads ended.
    pub fn ended_waits(&self, length_ns: u64) -> Vec<EndedWait> {
        self.ended_waits.answer(&self.stacks, &self.divided.wait_functions, length_ns)
    }

    /// Returns what the stacks lack.
    pub fn gaps(&self) -> StackGaps {
        let mut gaps = StackGapsCollector::default();
        for PathStack { process, frames, truncated, time, .. } in &self.divided.stacks {
            gaps.add(&self.stacks, SampledStack { process, frames, truncated: *truncated, samples: time.samples, weight: time.ns });
        }
        let gaps = gaps.answer(&self.stacks);
        // A sample of a wait may be in several stacks, one for each state of the wait.
        StackGaps { truncated: gaps.truncated.map(|_| self.counts.truncated), ..gaps }
    }

    /// Returns the stacks, folded into one line each, with their time in ns.
    pub fn lines(&self) -> Vec<String> {
        lines(self.weighed(), &self.stacks)
    }

    /// Returns the folded stacks, with their time in ns.
    pub fn folded(&self) -> BTreeMap<String, u64> {
        folded(self.weighed(), &self.stacks)
    }

    pub fn flame_graph(&self) -> FlameGraph {
        let PathCounts { running, waits, lost, beyond, .. } = self.counts;
        let counts = Counts { busy: running + waits, lost, beyond };
        FlameGraph { counts, ..FlameGraph::of(self.weighed(), &self.stacks, Unit::Ns) }
    }
}

/// Functions on a path, and what they are from.
pub struct PathFunctions {
    pub rows: Vec<CriticalFunction>,
    pub codes: Vec<CodeOnPath>,
    pub ended_waits: Vec<EndedWait>,
    pub counts: PathCounts,
    pub gaps: StackGaps,
    /// Shares of the path in which code runs, and which waits with stacks have.
    pub running: f64,
    pub waiting: f64,
    /// `None` if they were not requested.
    pub flames: Option<FlameGraphs>,
}

/// Returns the stacks on the path of `answer`. `read` passes the items of the trace to the samples,
/// which are named by `recording`; `waits` are those that the first reading has found.
///
/// # Errors
///
/// The error of `read`, or [`Error::NoSegments`] if the path was computed without segments.
pub fn path_stacks<'a, E: From<Error>>(
    runs_on: &'a HashMap<&str, Vec<RunsOn>>,
    path: Option<&'a Path>,
    (waits, recording): (&'a SampledWaits, Option<PathBuf>),
    read: impl FnOnce(&mut StackSamples) -> Result<(), E>,
) -> Result<(PathStacksOf<'a>, Vec<FunctionShare>, Option<FlameGraphs>), E> {
    let Some(path) = path else { return Err(Error::NoSegments.into()) };
    let mut samples = StackSamples::new(recording, None, false).on_path(OnPath::new(path, runs_on), waits);
    read(&mut samples)?;
    let (all, flames) = (samples.functions(), samples.flames());
    let of_path = samples.divide().ok_or(Error::NoSegments)?;
    let on_path = flames.is_some().then(|| of_path.flame_graph());
    Ok((of_path, all, flames.map(|flames| FlameGraphs { on_path, ..flames })))
}

/// Returns the functions on the path of `answer`, and sets the function of each of its rows. The
/// arguments are those of [`path_stacks`].
///
/// # Errors
///
/// Those of [`path_stacks`].
pub fn path_functions<E: From<Error>>(
    interactions: &Interactions,
    answer: &mut Answer,
    (waits, recording): (&SampledWaits, Option<PathBuf>),
    read: impl FnOnce(&mut StackSamples) -> Result<(), E>,
) -> Result<PathFunctions, E> {
    let runs_on = interactions.runs_on();
    let (of_path, all, flames) = path_stacks(&runs_on, answer.segments.as_ref(), (waits, recording), read)?;
    let table = of_path.table(&all);
    table.set_functions(&mut answer.criticality);
    let (running, waiting) = of_path.shares(answer.length_ns);
    Ok(PathFunctions {
        rows: table.functions(answer.length_ns),
        codes: table.codes(),
        ended_waits: of_path.ended_waits(answer.length_ns),
        counts: of_path.counts,
        gaps: of_path.gaps(),
        running,
        waiting,
        flames,
    })
}
