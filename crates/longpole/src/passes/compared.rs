//! Reads what is compared of one trace, for `diff` and `view`.
//!
//! A trace is read once for its critical path and for all that its probes show, and its programs'
//! events once more for the windows whose means are compared.

use super::probes;
use super::samples;
use crate::input;
use crate::input::command;
use crate::input::explained::explained;
use crate::input::interactions;
use crate::input::machine_log;
use crate::render::table::plain;
use anyhow::{bail, Context};
use longpole_analysis::compare::diff::{diff, Diff, Side, WINDOWS};
use longpole_analysis::critical_path::keys::name_index::OccurringNames;
use longpole_analysis::critical_path::samples::CriticalFunction;
use longpole_analysis::critical_path::{self, Answer, CriticalPath};
use longpole_analysis::findings::Rules as Thresholds;
use longpole_analysis::pipeline::follow::follow_fed;
use longpole_analysis::pipeline::samples::{has_samples, path_stacks, PathStacksOf, StackSamples};
use longpole_analysis::pipeline::{alongside, begin_ns, Follower, Interactions, SPILL};
use longpole_analysis::report::ProbePass;
use longpole_analysis::scheduling::sampled_waits::SampledWaits;
use longpole_analysis::scheduling::stacks::FunctionShare;
use longpole_model::causes::Composer;
use longpole_model::kinds::StateKind;
use longpole_model::rules::Rules;
use longpole_trace::Catalogue;
use longpole_trace::Item;
use longpole_trace::Moment;
use longpole_trace::Options;
use longpole_trace::StreamKind;
use longpole_trace::Trace;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is compared of traces that stay as they are. Each is read at its first comparison.
#[derive(Default)]
pub struct Sides(Mutex<HashMap<PathBuf, Arc<Mutex<Option<Arc<Side>>>>>>);

impl Sides {
    /// Returns what is compared of a trace. If another thread reads the trace, waits for it.
    pub fn of(&self, path: &Path, read: impl FnOnce() -> anyhow::Result<Side>) -> anyhow::Result<Arc<Side>> {
        let known = locked(&self.0).entry(path.to_owned()).or_default().clone();
        let mut side = locked(&known);
        if let Some(side) = &*side {
            return Ok(side.clone());
        }
        Ok(side.insert(Arc::new(read()?)).clone())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns everything that is compared of one trace, from the recorded command's begin on unless
/// `all` is true.
pub fn side(path: &Path, part: Options, rules: &Rules, all: bool) -> anyhow::Result<Side> {
    let is_log = part.dump.is_none() && (machine_log::is_one(path) || machine_log::is_pipe(path));
    input::complete(path);
    let ranged = part.begin.is_some() || part.end.is_some();
    let part = if all { part } else { command::part(path, part) };
    let mut side = Side::default();
    let mut pass = pass_with(rules)?;
    match path_with(path, part.clone(), rules, &mut pass) {
        Ok((answer, seen, functions)) => {
            side.add_path(&answer);
            side.set_seen(seen);
            side.set_functions(&functions);
        }
        Err(NoPath { error, .. }) if is_log => return Err(error),
        Err(NoPath { error, unread }) => {
            if unread {
                pass = pass_with(rules)?;
                // A trace that cannot be opened at all is an error and not a note.
                probes::feed(&mut input::open(&[path.to_owned()], part.clone())?, &mut pass, None)?;
            }
            eprintln!("longpole: note: without critical path: {}", plain(error.to_string()));
        }
    }
    if is_log {
        side.set_path_only();
        return Ok(side);
    }
    let range = pass.step_pass.range();
    if range.is_none() && ranged {
        bail!("{}: there is nothing in this range", path.display());
    }
    side.set_events(&pass.inputs());
    let report = pass.report(None);
    side.add_classes(pass.classes());
    side.add_whole(pass.latency_together(), &report.queues, &report.findings);
    if let Some(range) = range {
        windows(&mut side, path, (range, part), rules)?;
    }
    Ok(side)
}

/// Returns the changes from `a` to `b`.
pub fn difference(a: &Side, b: &Side) -> anyhow::Result<Diff> {
    let thresholds = Thresholds::built_in().context("a built-in rule file is wrong")?.path;
    Ok(diff(a, b, thresholds.max_unknown))
}

/// The path, the states that occur, and the functions on the path.
type PathOf = (Answer, BTreeSet<String>, Vec<CriticalFunction>);

/// The reason why there is no path; `unread` is set if the trace was therefore not read to its end.
struct NoPath {
    error: anyhow::Error,
    unread: bool,
}

/// States that any thread in a trace with events may be in, even if none of them was. A condition
/// may name them: a share of 0 is then an answer.
const OF_THREADS: [StateKind; 1] = [StateKind::Preempted];

/// Reads the trace once: computes the critical path and the names of all states, and passes the
/// same part to all other analyses.
fn path_with(path: &Path, part: Options, rules: &Rules, pass: &mut ProbePass) -> Result<PathOf, NoPath> {
    let unread = |error| NoPath { error, unread: true };
    let mut interactions = interactions::of(path, part.clone(), rules.clone()).map_err(unread)?;
    let begin_ns = begin_of(&interactions, &part);
    let mut critical_path =
        CriticalPath::new(critical_path::Options { segments: true, spill: Some(SPILL), ..critical_path::Options::default() });
    let (mut seen, mut waits) = (OccurringNames::default(), SampledWaits::default());
    let read = alongside(|probes| {
        let feed = |composer: &mut Composer, catalogue: &Catalogue, item: &Item<'_>| {
            composer.item_with(catalogue, item, &mut waits);
            waits.item(composer.linux(), catalogue, item);
            if item.t_ns() >= begin_ns {
                probes.item(composer, catalogue, item);
            }
        };
        let mut followers: [&mut dyn Follower; 2] = [&mut critical_path, &mut seen];
        follow_fed(&mut interactions, feed, followers.iter_mut().map(std::slice::from_mut))?;
        probes.send(interactions.vocabulary());
        Ok(())
    });
    ((), *pass) = read.map_err(|error| unread(explained(error)))?;
    let answer = interactions.path(critical_path).map_err(|error| NoPath { error: explained(error), unread: false })?;
    let of_threads = if interactions.trace().is_some() { &OF_THREADS[..] } else { &[] };
    let functions = functions(path, &interactions, (&answer, &waits), (begin_ns, &part)).unwrap_or_else(|error| {
        eprintln!("longpole: note: functions are not compared: {}", plain(format!("{error:#}")));
        Vec::new()
    });
    Ok((answer, seen.names(interactions.vocabulary(), of_threads), functions))
}

/// Returns the begin of a part on the trace's clock.
pub(super) fn begin_of(interactions: &Interactions, part: &Options) -> i64 {
    interactions.trace().map_or(i64::MIN, |trace| begin_ns(part.begin, trace))
}

/// Returns the functions on the path, from the sampled stacks of a recording.
fn functions(
    path: &Path,
    interactions: &Interactions,
    of_path: (&Answer, &SampledWaits),
    part: (i64, &Options),
) -> anyhow::Result<Vec<CriticalFunction>> {
    let length_ns = of_path.0.length_ns;
    let found = with_stacks(path, interactions, of_path, part, |of_path, all| of_path.table(all).functions(length_ns))?;
    Ok(found.unwrap_or_default())
}

/// Passes the sampled stacks on the path of a recording, and the functions of all samples, to
/// `evaluate`. `None` if the recording has no samples.
pub(super) fn with_stacks<T>(
    path: &Path,
    interactions: &Interactions,
    (answer, waits): (&Answer, &SampledWaits),
    (begin_ns, part): (i64, &Options),
    evaluate: impl FnOnce(&PathStacksOf<'_>, &[FunctionShare]) -> T,
) -> anyhow::Result<Option<T>> {
    let has_samples = interactions.trace().is_some_and(has_samples);
    let recording = longpole_trace::recording_at(path).filter(|recording| has_samples && recording.join("samples/metadata").is_file());
    let Some(recording) = recording else { return Ok(None) };
    let start_ns = interactions.trace().and_then(Trace::start_ns).unwrap_or(0);
    let end = part.end.map(|end| Moment::At(end.resolve(start_ns)));
    let runs_on = interactions.runs_on();
    let read = |samples: &mut StackSamples| samples::read_recording(&recording, (begin_ns, end), part.shifts.clone(), samples).map(drop);
    let (of_path, all, _) = path_stacks(&runs_on, answer.segments.as_ref(), (waits, Some(recording.clone())), read)?;
    Ok(Some(evaluate(&of_path, &all)))
}

/// Adds what the programs' events show in each window. The windows' bounds are known only after the
/// first pass, so this needs a second one; kernel events are not read again.
fn windows(side: &mut Side, path: &Path, ((begin, end), part): ((i64, i64), Options), rules: &Rules) -> anyhow::Result<()> {
    let width = (end - begin) / WINDOWS as i64;
    if width == 0 {
        return Ok(());
    }
    let bound = |window: usize| begin + window as i64 * width;
    let mut passes = (0..WINDOWS).map(|_| pass_with(rules)).collect::<anyhow::Result<Vec<ProbePass>>>()?;
    let part = Options { begin: Some(Moment::At(begin)), end: Some(Moment::At(bound(WINDOWS))), ..part };
    let mut trace = input::open(&[path.to_owned()], part)?;
    trace.leave_out(&[StreamKind::Kernel, StreamKind::Samples]);
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        let (from, to) = match &item {
            Item::Event(event) => (event.t_ns, event.t_ns),
            Item::Loss(loss) => (loss.begin_ns, loss.end_ns),
        };
        for (window, pass) in passes.iter_mut().enumerate() {
            if bound(window) <= to && from <= bound(window + 1) {
                pass.item(catalogue, &item);
            }
        }
    }
    passes.iter().for_each(|pass| side.add_window(pass.latency_together(), &pass.queues()));
    Ok(())
}

/// Returns all analyses in their initial state.
fn pass_with(rules: &Rules) -> anyhow::Result<ProbePass> {
    ProbePass::with_rules(rules.clone()).context("a built-in rule file is wrong")
}
