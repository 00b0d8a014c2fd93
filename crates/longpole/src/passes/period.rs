//! Reads the recording of one period, for `top`: the same reading as for `report`, with the times
//! of CPUs and threads.

use crate::in_one_line;
use crate::input::explained::explained;
use crate::render::table::plain;
use anyhow::Context;
use longpole_analysis::live::{Length, Numbers, Period};
use longpole_analysis::pipeline::passes::report_pass::{Also, ReportPass};
use longpole_analysis::pipeline::{Interactions, Request, Selection};
use longpole_model::rules::Rules;
use longpole_record::kernel;
use longpole_trace::{Kallsyms, Moment, Options, Recording, Trace};
use std::path::{Path, PathBuf};

/// What was recorded of a period.
pub struct Recorded {
    pub path: PathBuf,
    /// Number of the period, and of the periods skipped before it.
    pub number: u64,
    pub skipped: u64,
    /// True if the kernel was recorded.
    pub has_kernel: bool,
    /// Recording in progress that has the probes; `None` if they are in `path`.
    pub probes_of: Option<PathBuf>,
}

/// Time after which a recorder in progress has certainly written the events of its programs.
const WRITTEN_AFTER_NS: i64 = 250_000_000;

/// Reads the recording. `is_over` returns true when nobody waits for the answer any more. `notes`
/// receives what the user should know beyond the answer.
pub fn read(recorded: &Recorded, rules: &Rules, (is_over, notes): (&dyn Fn() -> bool, &mut dyn FnMut(String))) -> anyhow::Result<Period> {
    if let Err(error) = kernel::complete(&recorded.path, &mut |_, _| !is_over()) {
        notes(format!("the kernel's events of a period are not shown: {error}"));
    }
    let length = length(&recorded.path);
    let numbers = Numbers { number: recorded.number, skipped: recorded.skipped };
    let Some(other) = &recorded.probes_of else {
        return read_trace(&recorded.path, Options::default(), (numbers, length), rules, notes);
    };
    // The part of the other recording that is certainly written.
    let at = |ns: i64| Some(Moment::At(ns.saturating_sub(WRITTEN_AFTER_NS)));
    let part = Options { begin: at(length.begin_ns), end: at(length.end_ns), ..Options::default() };
    let probes = read_trace(&other.join("user"), part, (numbers, length), rules, notes);
    match recorded.has_kernel {
        false => probes,
        true => {
            let period = read_trace(&recorded.path, Options::default(), (numbers, length), rules, notes)?;
            // There may be no program with probes.
            Ok(probes.map_or_else(|_| period.clone(), |probes| period.clone().with_probes(probes)))
        }
    }
}

fn read_trace(
    path: &Path,
    part: Options,
    (numbers, length): (Numbers, Length),
    rules: &Rules,
    notes: &mut dyn FnMut(String),
) -> anyhow::Result<Period> {
    let paths = [path.to_owned()];
    let trace = Trace::open(&paths, part)?;
    let mut interactions = Interactions::of_trace(trace, &paths, Options::default(), rules.clone())?;
    let also = Also { cpu_times: true, ..Also::default() };
    let read = ReportPass::read(&mut interactions, None, false, also)?.context("internal error: a period is no trace")?;
    let cpu = read.cpu(&interactions);
    let selection = &Selection::default();
    let request = Request { selection, progress: None, keep_end: false, sensitivity: false };
    let (critical, answers) = read.second_pass(&interactions, request);
    let (mut report, _, _) = answers.report(interactions, |_| Kallsyms::default())?.context("internal error: the trace is gone")?;
    match critical {
        Ok(critical) => report = report.with_path(critical),
        // A period in which nothing happens has no path.
        Err(error) if report.inputs.events + report.inputs.kernel_events > 0 => {
            notes(plain(format!("a period without a critical path: {}", in_one_line(&explained(error)))));
        }
        Err(_) => {}
    }
    Ok(Period::new(numbers, length, &cpu, &report))
}

/// The time that the recording covers, by its description.
fn length(path: &Path) -> Length {
    let described = Recording::read(path).ok().flatten();
    let begin_ns = described.as_ref().and_then(|recording| recording.start_ns).unwrap_or(0);
    Length { begin_ns, end_ns: described.and_then(|recording| recording.end_ns).unwrap_or(begin_ns) }
}
