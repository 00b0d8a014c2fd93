//! Reads the recording of one period, for `top`: the same reading as for `report`, with the times
//! of CPUs and threads.

use crate::in_one_line;
use crate::input::explained::explained;
use crate::render::table::plain;
use anyhow::Context;
use longpole_analysis::live::{Length, Period};
use longpole_analysis::pipeline::report_pass::{Also, ReportPass};
use longpole_analysis::pipeline::{Interactions, Request, Selection};
use longpole_model::rules::Rules;
use longpole_record::kernel;
use longpole_trace::{Kallsyms, Options, Recording, Trace};
use std::path::Path;

/// Reads the recording. `numbers`: the number of the period, and of those skipped before it.
/// `notes` receives what the user should know beyond the answer.
pub fn read(path: &Path, numbers: (u64, u64), rules: Rules, notes: &mut dyn FnMut(String)) -> anyhow::Result<Period> {
    if let Err(error) = kernel::complete(path, &mut |_, _| true) {
        notes(format!("the kernel's events of a period are not shown: {error}"));
    }
    let paths = [path.to_owned()];
    let trace = Trace::open(&paths, Options::default())?;
    let recorded = length(path, &trace);
    let mut interactions = Interactions::of_trace(trace, &paths, Options::default(), rules)?;
    let also = Also { follower: None, cpu_times: true };
    let read = ReportPass::read(&mut interactions, None, false, also)?.context("internal error: a period is no trace")?;
    let cpu = read.cpu(&interactions);
    let selection = &Selection::default();
    let request = Request { selection, progress: None, keep_end: true, sensitivity: false };
    let (critical, answers) = read.second_pass(&interactions, request);
    let (mut report, _, _) = answers.report(interactions, |_| Kallsyms::default())?.context("internal error: the trace is gone")?;
    match critical {
        Ok(critical) => report = report.with(critical),
        // A period in which nothing happens has no path.
        Err(error) => notes(plain(format!("a period without a critical path: {}", in_one_line(&explained(error))))),
    }
    Ok(Period::new(numbers, recorded, &cpu, &report))
}

/// The time that the recording covers: by its description, or else by its events.
fn length(path: &Path, trace: &Trace) -> Length {
    let described = Recording::read(path).ok().flatten();
    let begin_ns = described.as_ref().and_then(|recording| recording.start_ns).or(trace.start_ns()).unwrap_or(0);
    Length { begin_ns, end_ns: described.and_then(|recording| recording.end_ns).unwrap_or(begin_ns) }
}
