//! Collects stack samples in a pass: the functions that took the time, or all stacks folded; of a
//! whole trace, or of its critical path.

use super::{Error, Interactions};
use crate::critical_path::samples::{
    Code as CodeOnPath, CriticalFunction, Divided, EndedWait, EndedWaits, FunctionTable, OnPath, PathStack, PathStacks, Sampled, Within,
};
use crate::critical_path::{Answer, Path};
use crate::scheduling::flame_graph::{Code, FlameGraph, FlameGraphs, Unit, WeighedStack};
use crate::scheduling::probed::Cpu;
use crate::scheduling::sampled_waits::{SampledWait, SampledWaits};
use crate::scheduling::stack_gaps::{SampledStack, StackGaps, StackGapsCollector};
use crate::scheduling::stacks::{folded, lines, shown, Counts, Folded, FunctionShare, Functions};
use longpole_model::causes::RunsOn;
use longpole_model::rules::RuleError;
use longpole_symbols::{Cause, Stack, Stacks};
use longpole_trace::event::Event;
use longpole_trace::{Catalogue, Item, StreamKind, Trace};
use std::collections::{BTreeMap, HashMap, HashSet};
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
    /// Stacks of the same samples, or of waits; collected instead of functions.
    folded: Option<Folded>,
    /// Waits whose stacks `folded` collects instead of those of running code.
    off_cpu: Option<&'a SampledWaits>,
    /// Process to which the samples are limited.
    pid: Option<i32>,
    /// Threads and CPUs to which the samples are limited.
    scope: Option<SampleScope>,
    on_path: Option<PathSamples<'a>>,
    /// Stacks of all samples of running code, in addition to the functions.
    flames: Option<Box<Folded>>,
    /// What the collected stacks lack; those of the path have their own.
    gaps: Result<StackGapsCollector, RuleError>,
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

/// Threads and CPUs whose samples count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleScope {
    pub tids: HashSet<i32>,
    pub cpus: HashSet<u32>,
}

impl SampleScope {
    fn holds(&self, tid: i32, cpu: Option<u32>) -> bool {
        self.tids.contains(&tid) || cpu.is_some_and(|cpu| self.cpus.contains(&cpu))
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
            folded: fold.then(Folded::default),
            off_cpu: None,
            pid,
            scope: None,
            on_path: None,
            flames: None,
            gaps: StackGapsCollector::built_in(),
            sampled: Sampled::default(),
            lost: 0,
        }
    }

    /// Limits the samples to those of some threads or CPUs.
    pub fn of(self, scope: SampleScope) -> StackSamples<'a> {
        StackSamples { scope: Some(scope), ..self }
    }

    /// Also collects the samples on a path. `waits` are those that the first reading of the trace
    /// has found.
    pub fn on_path(self, on_path: OnPath<'a>, waits: &'a SampledWaits) -> StackSamples<'a> {
        let on_path = PathSamples { on_path, waits, stacks: PathStacks::default(), ended_waits: EndedWaits::default() };
        StackSamples { on_path: Some(on_path), ..self }
    }

    /// Collects the stacks of waits instead of those of running code.
    pub fn off_cpu(self, waits: &'a SampledWaits) -> StackSamples<'a> {
        StackSamples { folded: Some(Folded::default()), off_cpu: Some(waits), ..self }
    }

    /// Collects a flame graph, too.
    pub fn collect_flames(&mut self) {
        self.flames = Some(Box::default());
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
                if in_part {
                    self.lost = self.lost.saturating_add(loss.events.unwrap_or(0));
                }
            }
        }
    }

    fn event(&mut self, catalogue: &Catalogue, event: &Event<'_>, in_part: bool) {
        let stacks = self.stacks.get_or_insert_with(|| Stacks::open(self.recording.as_deref()));
        let Some(stack) = stacks.follow(catalogue, event) else { return };
        let is_other = self.pid.is_some_and(|pid| pid != stack.pid);
        if !in_part || is_other || self.scope.as_ref().is_some_and(|scope| !scope.holds(stack.tid, stack.cpu)) {
            return;
        }
        let Stack { t_ns, tid, cpu, cause, waiting_period_ns, truncated, copied, .. } = stack;
        let found = |waits: &SampledWaits| waits.find(t_ns, tid).filter(|_| cause == Cause::Waited);
        let length = |wait: SampledWait| (wait.end_ns - wait.begin_ns).unsigned_abs();
        let mut collected = None;
        if cause == Cause::Running && self.off_cpu.is_none() {
            if let Some(flames) = &mut self.flames {
                flames.sample(&stack, 1);
            }
            match &mut self.folded {
                Some(folded) => folded.sample(&stack, 1),
                None => self.functions.sample(&stack),
            }
            collected = Some(1);
        }
        if let (Some(wait), Some(folded)) = (self.off_cpu.and_then(found), &mut self.folded) {
            let weight = length(wait).max(waiting_period_ns.unwrap_or(0));
            folded.sample(&stack, weight);
            collected = Some(weight);
        }
        self.sampled.process = Rc::clone(&stack.process);
        self.sampled.truncated = copied.then_some(truncated);
        for (own, of_stack) in [(&mut self.sampled.frames, stack.frames), (&mut self.sampled.places, stack.places)] {
            own.clear();
            own.extend_from_slice(of_stack);
        }
        if let (Some(weight), Ok(gaps)) = (collected, &mut self.gaps) {
            let Sampled { process, frames, truncated, .. } = &self.sampled;
            gaps.add(stacks, SampledStack { process, frames, truncated: *truncated, samples: 1, weight: weight as f64 });
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
                let Some(wait) = found(waits) else { return };
                let Some(of_wait) = on_path.wait(&wait) else { return };
                let certain = waiting_period_ns.unwrap_or(0).max(1) as f64;
                let probability = (length(wait) as f64 / certain).min(1.0);
                of_path.wait(&of_wait, probability, stacks, &self.sampled);
                ended_waits.wait(&wait, &self.sampled, of_wait.for_others_ns, probability);
            }
        }
    }

    /// Returns the numbers of samples, also of lost ones.
    pub fn counts(&self) -> Counts {
        let counts = self.folded.as_ref().map_or(self.functions.counts, |folded| folded.counts);
        Counts { lost: self.lost, ..counts }
    }

    /// Returns the functions with their shares of the samples.
    pub fn functions(&self) -> Vec<FunctionShare> {
        self.stacks.as_ref().map_or_else(Vec::new, |stacks| self.functions.answer(stacks))
    }

    /// Returns what the collected stacks lack.
    ///
    /// # Errors
    ///
    /// A built-in rule file is wrong.
    pub fn gaps(&self) -> Result<StackGaps, RuleError> {
        let gaps = self.gaps.as_ref().map_err(RuleError::clone)?;
        Ok(self.stacks.as_ref().map(|stacks| gaps.answer(stacks)).unwrap_or_default())
    }

    /// Returns all stacks, folded into one line each.
    pub fn lines(&self) -> Vec<String> {
        self.folded.as_ref().zip(self.stacks.as_ref()).map_or_else(Vec::new, |(folded, stacks)| folded.lines(stacks))
    }

    /// Returns the flame graph of the stacks that were collected instead of functions.
    pub fn flame_graph(&self) -> FlameGraph {
        let unit = if self.off_cpu.is_some() { Unit::Ns } else { Unit::Samples };
        FlameGraph { unit, ..self.folded.as_ref().map(|folded| self.joined(folded)).unwrap_or_default() }
    }

    /// Returns the flame graph of all samples of running code; `None` if it was not requested.
    pub fn flames(&self) -> Option<FlameGraphs> {
        Some(FlameGraphs { all: self.joined(self.flames.as_ref()?), on_path: None })
    }

    fn joined(&self, folded: &Folded) -> FlameGraph {
        let graph = self.stacks.as_ref().map(|stacks| FlameGraph::new(folded, stacks)).unwrap_or_default();
        FlameGraph { counts: Counts { lost: self.lost, ..folded.counts }, ..graph }
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
    ///
    /// # Errors
    ///
    /// A built-in rule file is wrong.
    pub fn add(&self, answer: &mut Cpu) -> Result<(), RuleError> {
        let counts = self.counts();
        if counts.busy > 0 {
            answer.samples = Some(counts);
            answer.stack_gaps = Some(self.gaps()?);
            answer.functions = Some(self.functions());
        }
        Ok(())
    }
}

/// Returns true if the trace contains stack samples.
pub fn has_samples(trace: &Trace) -> bool {
    trace.catalogue().streams.iter().any(|stream| stream.kind == StreamKind::Samples)
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
            let (_, state) = self.path.class_and_state(group.of);
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
        self.ended_waits.answer(&self.stacks, length_ns)
    }

    /// Returns what the stacks lack.
    ///
    /// # Errors
    ///
    /// A built-in rule file is wrong.
    pub fn gaps(&self) -> Result<StackGaps, RuleError> {
        let mut gaps = StackGapsCollector::built_in()?;
        for PathStack { process, frames, truncated, time, .. } in &self.divided.stacks {
            gaps.add(&self.stacks, SampledStack { process, frames, truncated: *truncated, samples: time.samples, weight: time.ns });
        }
        let gaps = gaps.answer(&self.stacks);
        // A sample of a wait may be in several stacks, one for each state of the wait.
        Ok(StackGaps { truncated: gaps.truncated.map(|_| self.counts.truncated), ..gaps })
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
        gaps: of_path.gaps().map_err(Error::from)?,
        running,
        waiting,
        flames,
    })
}
