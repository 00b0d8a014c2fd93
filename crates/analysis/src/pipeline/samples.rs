//! Collects stack samples in a pass: the functions that took the time, or all stacks folded; of a
//! whole trace, or of its critical path.

use super::{Error, Interactions};
use crate::critical_path::samples::{self, CriticalFunction, OnPath, Tops};
use crate::critical_path::{Answer, Path, Row};
use crate::scheduling::flame_graph::{FlameGraph, FlameGraphs};
use crate::scheduling::probed::Cpu;
use crate::scheduling::stacks::{Counts, Folded, FunctionShare, Functions};
use longpole_symbols::Stacks;
use longpole_trace::{Catalogue, Item, StreamKind, Trace};
use std::collections::HashSet;
use std::path::{Path as FilePath, PathBuf};

/// The samples that a pass collects from a part of a trace.
pub struct StackSamples<'a> {
    recording: Option<PathBuf>,
    /// Opened at the first sample, after the caller has completed the recording, which looks up the
    /// names.
    stacks: Option<Stacks>,
    functions: Functions,
    folded: Option<Folded>,
    /// Process to which the samples are limited.
    pid: Option<i32>,
    /// Threads and CPUs to which the samples are limited.
    scope: Option<SampleScope>,
    /// Matcher for samples on a critical path. If it is set, `functions` has only the samples on
    /// the path, and `all` has the profile of all samples.
    on_path: Option<OnPath<'a>>,
    tops: Tops,
    all: Functions,
    /// Stacks of all samples, and of those on the path, in addition to the functions.
    flames: Option<Box<[Folded; 2]>>,
    lost: u64,
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
            pid,
            scope: None,
            on_path: None,
            tops: Tops::default(),
            all: Functions::default(),
            flames: None,
            lost: 0,
        }
    }

    /// Limits the samples to those of some threads or CPUs.
    pub fn of(self, scope: SampleScope) -> StackSamples<'a> {
        StackSamples { scope: Some(scope), ..self }
    }

    /// Limits the samples to those on a path.
    pub fn on_path(self, path: OnPath<'a>) -> StackSamples<'a> {
        StackSamples { on_path: Some(path), ..self }
    }

    /// Collects flame graphs, too: of all samples, and of those on the path.
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
            Item::Event(event) => {
                let stacks = self.stacks.get_or_insert_with(|| Stacks::open(self.recording.as_deref()));
                let Some(stack) = stacks.follow(catalogue, event) else { return };
                if !in_part || self.pid.is_some_and(|pid| pid != stack.pid) {
                    return;
                }
                if self.scope.as_ref().is_some_and(|scope| !scope.holds(stack.tid, stack.cpu)) {
                    return;
                }
                if let Some(flames) = &mut self.flames {
                    flames[0].sample(&stack);
                }
                if let Some(path) = &mut self.on_path {
                    if self.folded.is_none() {
                        self.all.sample(&stack);
                    }
                    let Some(of) = path.holds(stack.t_ns, stack.tid, stack.cpu) else { return };
                    if let Some(flames) = &mut self.flames {
                        flames[1].sample(&stack);
                    }
                    if self.folded.is_none() {
                        self.tops.sample(of, &stack);
                    }
                }
                match &mut self.folded {
                    Some(folded) => folded.sample(&stack),
                    None => self.functions.sample(&stack),
                }
            }
            Item::Loss(loss) => {
                if in_part {
                    self.lost = self.lost.saturating_add(loss.events.unwrap_or(0));
                }
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

    /// Returns the functions on the path with their rank in the profile. `running` is the share of
    /// the path in which samples can be taken.
    pub fn critical(&self, running: f64) -> Vec<CriticalFunction> {
        let Some(stacks) = &self.stacks else { return Vec::new() };
        samples::functions(&self.functions.answer(stacks), &self.all.answer(stacks), running)
    }

    /// Sets in each row of the path the function with most of the row's samples. `functions` is the
    /// result of [`StackSamples::critical`].
    fn name_rows(&self, path: &Path, functions: &[CriticalFunction], rows: &mut [Row]) {
        if let Some(stacks) = &self.stacks {
            self.tops.set_functions(path, stacks, functions, rows);
        }
    }

    /// Returns all stacks, folded into one line each.
    pub fn lines(&self) -> Vec<String> {
        self.folded.as_ref().zip(self.stacks.as_ref()).map_or_else(Vec::new, |(folded, stacks)| folded.lines(stacks))
    }

    /// Returns the flame graph of the stacks that were collected instead of functions.
    pub fn flame_graph(&self) -> FlameGraph {
        self.folded.as_ref().map(|folded| self.joined(folded)).unwrap_or_default()
    }

    /// Returns the flame graphs; `None` if they were not requested.
    pub fn flames(&self) -> Option<FlameGraphs> {
        let [all, on_path] = &**self.flames.as_ref()?;
        Some(FlameGraphs { all: self.joined(all), on_path: self.on_path.is_some().then(|| self.joined(on_path)) })
    }

    fn joined(&self, folded: &Folded) -> FlameGraph {
        let graph = self.stacks.as_ref().map(|stacks| FlameGraph::new(folded, stacks)).unwrap_or_default();
        FlameGraph { counts: Counts { lost: self.lost, ..folded.counts }, ..graph }
    }

    /// Adds samples and functions to the answer, if there are samples.
    pub fn add(&self, answer: &mut Cpu) {
        let counts = self.counts();
        if counts.busy > 0 {
            answer.samples = Some(counts);
            answer.functions = Some(self.functions());
        }
    }
}

/// Returns true if the trace contains stack samples.
pub fn has_samples(trace: &Trace) -> bool {
    trace.catalogue().streams.iter().any(|stream| stream.kind == StreamKind::Samples)
}

/// Functions on a path, and the counts of the samples that they are from.
pub struct PathFunctions {
    pub rows: Vec<CriticalFunction>,
    pub counts: Counts,
    /// Share of the path in which samples can be taken.
    pub running: f64,
    /// `None` if they were not requested.
    pub flames: Option<FlameGraphs>,
}

/// Returns the functions on the path of `answer`, and sets the function of each of its rows. `read`
/// passes the items of the trace to the samples, which are named by `recording`.
///
/// # Errors
///
/// The error of `read`, or [`Error::NoSegments`] if the path was computed without segments.
pub fn path_functions<E: From<Error>>(
    interactions: &Interactions,
    answer: &mut Answer,
    recording: Option<PathBuf>,
    read: impl FnOnce(&mut StackSamples) -> Result<(), E>,
) -> Result<PathFunctions, E> {
    let Some(path) = &answer.segments else { return Err(Error::NoSegments.into()) };
    let runs_on = interactions.runs_on();
    let on_path = OnPath::new(path, &runs_on);
    let running = on_path.running_ns as f64 / answer.length_ns.max(1) as f64;
    let mut samples = StackSamples::new(recording, None, false).on_path(on_path);
    read(&mut samples)?;
    let rows = samples.critical(running);
    samples.name_rows(path, &rows, &mut answer.criticality);
    Ok(PathFunctions { rows, counts: samples.counts(), running, flames: samples.flames() })
}
