//! Reads one trace for the report on it, for `report` and `view`.
//!
//! A trace is read once. Every item goes to the composer, whose interactions yield the critical
//! path, and to the analyses of probes, packets and the kernel. If a timeline is to be shown, the
//! same reading fills it.

use super::kernel;
use super::probes::ProbeReading;
use super::samples;
use crate::in_one_line;
use crate::input::explained::explained;
use crate::input::interactions;
use crate::input::subject::SubjectArgs;
use crate::input::Input;
use crate::render::table::plain;
use anyhow::bail;
use longpole_analysis::critical_path::Answer;
use longpole_analysis::pipeline::report_pass::{path_of_log, Also, ReportPass};
use longpole_analysis::pipeline::samples::has_samples;
use longpole_analysis::pipeline::{timeline, Follower, Interactions, Request};
use longpole_analysis::report::Report;
use longpole_analysis::timeline::{add_path, Timeline, TimelineWriter};
use longpole_analysis::verdict;
use longpole_analysis::verdict::limits::Limits;
use std::path::Path;
use std::sync::Arc;

/// A report, and what it was made from; `None` for a machine log.
pub struct OneReport {
    pub report: Report,
    pub from: Option<ProbeReading>,
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
    let follower = writer.as_mut().map(|writer| writer as &mut dyn Follower);
    let Some(read) = ReportPass::read(&mut interactions, subject.progress_times(), is_ranged, Also { follower, cpu_times: false })? else {
        return of_log(&mut interactions, (subject, sensitivity), shown);
    };
    if let (Some(shown), Some(writer)) = (shown, writer) {
        timeline::finish(writer, &shown.timeline, &interactions, Some(read.occupancy()))?;
        (shown.states_known)(read.events(), read.lost());
    }
    let (mut critical, answers) = read.second_pass(&interactions, Request { selection, progress: None, keep_end: is_ranged, sensitivity });
    if let (Some(shown), Ok(critical)) = (shown, &critical) {
        shown.add_path(&interactions, &critical.answer);
    }
    let functions = match &mut critical {
        Ok(critical) if interactions.trace().is_some_and(has_samples) => {
            match samples::functions(input, &interactions, &mut critical.answer, samples::read_quietly) {
                Ok((sampled, _)) => Some(sampled.rows),
                Err(error) => {
                    eprintln!("longpole: note: the answer has no functions of sampled stacks: {}", plain(format!("{error:#}")));
                    None
                }
            }
        }
        _ => None,
    };
    let symbols = |addresses: &[u64]| kernel::symbols(&[path.to_owned()], addresses);
    let events = answers.events;
    let Some((mut report, pass, trace)) = answers.report(interactions, symbols)? else { bail!("internal error: the trace is gone") };
    match critical {
        Ok(mut critical) => {
            if let Some(functions) = &functions {
                verdict::add_code(&mut critical.verdict, functions, &Limits::built_in()?);
            }
            report = Report { functions, ..report.with(critical) };
        }
        Err(error) if subject.is_given() => return Err(error.into()),
        // A trace without interactions still has a report.
        Err(error) => eprintln!("longpole: note: without critical path: {}", in_one_line(&explained(error))),
    }
    Ok(OneReport { report, from: Some(ProbeReading { pass, trace, events, from_begin: true }) })
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
    if let (Some(shown), Some(writer)) = (shown, writer) {
        timeline::finish(writer, &shown.timeline, interactions, None)?;
        shown.add_path(interactions, &critical.answer);
        (shown.states_known)(critical.answer.interactions, critical.answer.lost);
    }
    Ok(OneReport { report: Report::of_machines(critical), from: None })
}
