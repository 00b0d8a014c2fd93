//! Reads one trace for the report on it, for `report` and `view`.
//!
//! Every event is read once: it goes to the composer, whose interactions yield the critical path,
//! and to the analyses of probes, packets and the kernel. If a timeline is to be shown, the same
//! reading fills it. Stack samples are read a second time, because their functions are added up by
//! parts of the path: of a recording only the folder `samples`, of another trace everything.

use super::kernel;
use super::probes::ProbeReading;
use super::samples;
use crate::in_one_line;
use crate::input::explained::explained;
use crate::input::interactions;
use crate::input::subject::SubjectArgs;
use crate::input::Input;
use crate::render::pictures::path_graph;
use crate::render::table::plain;
use anyhow::bail;
use longpole_analysis::critical_path::folded::{fold, Limits as GraphLimits};
use longpole_analysis::critical_path::Answer;
use longpole_analysis::pipeline::passes::report_pass::{path_of_log, Also, ReportPass};
use longpole_analysis::pipeline::pictures::Pictures;
use longpole_analysis::pipeline::samples::{has_samples, sampling_period_ns, PathFunctions, StackSamples};
use longpole_analysis::pipeline::{timeline, Follower, Interactions, Request};
use longpole_analysis::report::{Critical, Report};
use longpole_analysis::scheduling::flame_graph::FlameGraphs;
use longpole_analysis::scheduling::sampled_waits::SampledWaits;
use longpole_analysis::timeline::{add_path, Timeline, TimelineWriter};
use longpole_trace::EventIndex;
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A report, and what it was made from; `None` for a machine log.
pub struct OneReport {
    pub report: Report,
    pub from: Option<ProbeReading>,
    /// What is shown in addition to the timeline; empty if no timeline is shown.
    pub pictures: Pictures,
    /// The places of the events; empty if no timeline is shown.
    pub index: EventIndex,
    /// The folded graph of the critical path for the page; `None` if no timeline is shown, or
    /// without a path.
    pub graph: Option<Value>,
}

/// A timeline that the reading fills.
pub struct Shown<'a> {
    pub timeline: Arc<Timeline>,
    /// Callback when all states are known; receives the numbers of events and of lost events.
    pub states_known: &'a dyn Fn(u64, u64),
}

impl Shown<'_> {
    fn add_path(&self, interactions: &Interactions, answer: &Answer) {
        add_path(&self.timeline, interactions.vocabulary(), answer);
    }

    /// Folds the path to the graph that the page shows.
    fn graph(answer: &Answer) -> Option<Value> {
        let graph = fold(answer.segments.as_ref()?, GraphLimits { most: path_graph::MAX_DRAWN, loops: 0 });
        Some(path_graph::for_page(&path_graph::title(answer, &graph), &graph))
    }
}

/// Reports on one trace, which is read once, and fills the timeline that is shown.
pub fn read(
    input: &Input,
    path: &Path,
    (subject, sensitivity): (&SubjectArgs, bool),
    shown: Option<&Shown<'_>>,
) -> anyhow::Result<OneReport> {
    let is_ranged = input.begin.is_some() || input.end.is_some();
    let input = &input.of(path).of_command()?;
    let mut interactions = interactions::of(path, input.options(), input.rules()?)?;
    let selection = &subject.selection();
    let mut writer = shown.map(|shown| TimelineWriter::new(shown.timeline.clone()));
    let picture = writer.as_mut().map(|writer| writer as &mut dyn Follower);
    let mut index = EventIndex::default();
    let also = Also { picture, index: shown.is_some().then_some(&mut index), cpu_times: false };
    let Some(mut read) = ReportPass::read(&mut interactions, subject.progress_times(), is_ranged, also)? else {
        return of_log(&mut interactions, (subject, sensitivity), shown);
    };
    let mut queue_rows = HashMap::new();
    if let (Some(shown), Some(writer)) = (shown, writer) {
        timeline::finish(writer, &shown.timeline, &interactions, Some(read.occupancy()))?;
        queue_rows = read.add_value_rows(&shown.timeline)?;
        if let Some(why) = read.add_packet_rows(&shown.timeline, &interactions)? {
            eprintln!("longpole: note: the timeline lacks captured packets: {}", plain(why));
        }
        (shown.states_known)(read.events(), read.lost());
    }
    if let Some(trace) = interactions.trace() {
        index.finish(trace.catalogue());
    }
    let (mut critical, answers) = read.second_pass(&interactions, Request { selection, progress: None, keep_end: is_ranged, sensitivity });
    if let (Some(shown), Ok(critical)) = (shown, &critical) {
        shown.add_path(&interactions, &critical.answer);
    }
    if let Some(shown) = shown {
        shown.timeline.set_sampled_waits(answers.waits.all());
    }
    let graph = critical.as_ref().ok().filter(|_| shown.is_some()).and_then(|critical| Shown::graph(&critical.answer));
    let (functions, flames) = sampled(input, &interactions, critical.as_mut().ok(), &answers.waits, shown.is_some());
    let pictures = shown.map_or_else(Pictures::default, |Shown { timeline, .. }| {
        let waits = critical.as_ref().ok().map(|critical| critical.waits.clone());
        Pictures::new(&answers.pass, &interactions, timeline, &queue_rows).with_waits(waits, &interactions, timeline)
    });
    let symbols = |addresses: &[u64]| kernel::symbols(&[path.to_owned()], addresses);
    let events = answers.events;
    let Some((mut report, pass, trace)) = answers.report(interactions, symbols)? else { bail!("internal error: the trace is gone") };
    match critical {
        Ok(mut critical) => {
            let (functions, ended_waits, stack_gaps) = match functions {
                Some(PathFunctions { rows, codes, ended_waits, gaps, .. }) => {
                    critical.add_functions(&codes, &ended_waits)?;
                    (Some(rows), Some(ended_waits), Some(gaps))
                }
                None => (None, None, None),
            };
            report = Report { functions, ended_waits, stack_gaps, ..report.with_path(critical) };
        }
        Err(error) if subject.is_given() => return Err(error.into()),
        // A trace without interactions still has a report.
        Err(error) => eprintln!("longpole: note: without critical path: {}", in_one_line(&explained(error))),
    }
    let from = Some(ProbeReading { pass, trace, events, from_begin: true });
    Ok(OneReport { report, from, pictures: pictures.with_flames(flames), graph, index })
}

/// Returns the functions on the path from stack samples, and with `with_flames` the flame graphs.
fn sampled(
    input: &Input,
    interactions: &Interactions,
    critical: Option<&mut Critical>,
    waits: &SampledWaits,
    with_flames: bool,
) -> (Option<PathFunctions>, Option<FlameGraphs>) {
    if !interactions.trace().is_some_and(has_samples) {
        return (None, None);
    }
    let period_ns = interactions.trace().and_then(sampling_period_ns);
    let read = |input: &Input, samples: &mut StackSamples| {
        if with_flames {
            samples.collect_flames(period_ns);
        }
        samples::read_quietly(input, samples)
    };
    let sampled = match critical {
        Some(critical) => samples::functions(input, interactions, (&mut critical.answer, waits), read).map(|(mut on_path, _)| {
            let flames = on_path.flames.take();
            (Some(on_path), flames)
        }),
        None if with_flames => input.sampled().and_then(|recording| {
            let mut samples = StackSamples::new(recording, None, false);
            read(input, &mut samples)?;
            Ok((None, samples.flames()))
        }),
        None => return (None, None),
    };
    sampled.unwrap_or_else(|error| {
        eprintln!("longpole: note: the answer has no functions of sampled stacks: {}", plain(format!("{error:#}")));
        (None, None)
    })
}

/// Reports on a machine log.
fn of_log(
    interactions: &mut Interactions,
    (subject, sensitivity): (&SubjectArgs, bool),
    shown: Option<&Shown<'_>>,
) -> anyhow::Result<OneReport> {
    let selection = &subject.selection();
    let request = Request { selection, progress: subject.progress_times(), keep_end: true, sensitivity };
    let mut writer = shown.map(|shown| TimelineWriter::new(shown.timeline.clone()));
    let critical = path_of_log(interactions, request, writer.as_mut().map(|writer| writer as &mut dyn Follower))?;
    let graph = shown.and_then(|_| Shown::graph(&critical.answer));
    if let (Some(shown), Some(writer)) = (shown, writer) {
        timeline::finish(writer, &shown.timeline, interactions, None)?;
        shown.add_path(interactions, &critical.answer);
        (shown.states_known)(critical.answer.interactions, critical.answer.lost);
    }
    let (pictures, index) = (Pictures::default(), EventIndex::default());
    Ok(OneReport { report: Report::of_machines(critical), from: None, pictures, graph, index })
}
