//! `longpole report`: prints the bottleneck in one sentence, followed by its evidence.
//!
//! One trace is read by [`one_report`]. Several traces are compared with each other.

use crate::input::explained::explained;
use crate::input::subject::SubjectArgs;
use crate::input::Input;
use crate::passes::html_report;
use crate::passes::one_report::{self, OneReport};
use crate::passes::probes;
use crate::render::answer;
use crate::render::cpu_holders;
use crate::render::length::Length;
use crate::render::profile;
use crate::render::repeated;
use crate::render::stacks;
use crate::render::strip;
use crate::render::style::{painted, title, Role};
use crate::render::table::{counted, duration, number, percent, plain, signed_percent, Table};
use crate::render::terminal::screen;
use crate::verbs::answers::{latency, queues};
use crate::WrongUsage;
use anyhow::Context;
use longpole_analysis::compare::repeated::{Repeated, Run};
use longpole_analysis::critical_path::{rows_by_class, Row};
use longpole_analysis::report::profile::may_be_wait;
use longpole_analysis::report::Report;
use longpole_analysis::stats::text::place;
use longpole_analysis::verdict::anchor;
use longpole_analysis::verdict::lost_events::too_many_lost;
use longpole_analysis::verdict::sensitivity::Sensitive;
use longpole_analysis::what_if::Scenario;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Name the bottleneck, with its evidence.
#[derive(clap::Args)]
#[command(mut_arg("full", |full| full.help("Also print up to 15 states, functions, which threads had the CPUs, the path over time, findings, queues, latencies; the default fits on a screen")))]
#[command(after_help = "\
The verdict names what limits the system, by the critical path: a process, a pool, a thread or a
state. Where the path does not decide, it names the stage behind a full and before an empty queue.
Otherwise it says that the system is paced, that the path is spread, or that too little is known.

Examples:
  longpole report                            of the newest recording
  longpole report --full                     with findings, queues, latencies and the path over time
  longpole report --begin +2s                without the first two seconds
  longpole report --html report.html         also as a page to send, which opens without a server
  longpole report run1 run2 run3             of several recordings of one system: what they agree on, and how far they scatter
  longpole report --json | jq .verdict")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    subject: SubjectArgs,

    #[command(flatten)]
    length: Length,

    /// Also list the constants that would change the verdict if a fifth smaller or larger
    #[arg(long)]
    sensitivity: bool,

    /// Also write the report to FILE as an HTML page with charts and a part of the timeline
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let paths = args.input.completed_paths()?;
    let asked = (&args.subject, args.sensitivity);
    match paths.as_slice() {
        [path] => {
            let read = match &args.html {
                Some(file) => html_report::read(&args.input, path, asked, file),
                None => one_report::read(&args.input, path, asked, None),
            };
            show(&args.input, args.length, read.map_err(explained)?)
        }
        _ if args.sensitivity => Err(WrongUsage("--sensitivity accepts only one recording".to_owned()).into()),
        _ if args.html.is_some() => Err(WrongUsage("--html accepts only one recording".to_owned()).into()),
        _ => runs(&args.input, &paths, &args.subject, args.length),
    }
}

fn show(input: &Input, length: Length, OneReport { report, from, .. }: OneReport) -> anyhow::Result<ExitCode> {
    match from {
        Some(read) => probes::write(input, &read, &report, |out, report| print(out, report, length)),
        None => of_machines(input.json, length, &report),
    }
}

/// Reports on several recordings of one system.
fn runs(input: &Input, paths: &[PathBuf], subject: &SubjectArgs, length: Length) -> anyhow::Result<ExitCode> {
    let (mut runs, mut damaged) = (Vec::new(), false);
    for path in paths {
        let shown = path.display().to_string();
        let input = input.of(path);
        let whole = one_report::read(&input, path, (subject, false), None).map_err(explained).with_context(|| shown.clone())?;
        damaged |= whole.from.as_ref().is_some_and(|read| read.trace.is_damaged());
        runs.push(Run { path: shown, report: whole.report });
    }
    let repeated = Repeated::new(runs);
    answer::json_or_text(input.json, &repeated, |out| repeated::print(out, &repeated, length))?;
    Ok(if damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn of_machines(json: bool, length: Length, report: &Report) -> anyhow::Result<ExitCode> {
    answer::json_or_text(json, report, |out| {
        head(out, report, length.is_full())?;
        if length.is_full() {
            findings(out, report)?;
        }
        writeln!(out, "\n{}", counted(report.inputs.events, "interaction"))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Maximum number of states for people; the JSON answer contains all.
const MAX_ROWS: usize = 15;
/// The same for the first screen.
const FIRST_ROWS: usize = 10;
/// The least number of states on the first screen.
const MIN_ROWS: usize = 3;

/// Returns the sentence with the predicted gain of the change of the verdict, or else of the best
/// one.
fn predicted(report: &Report, refused: Option<&String>) -> String {
    let predictions = report.predictions.as_deref().unwrap_or_default();
    let named = report.verdict.gain.as_ref().and_then(|gain| predictions.iter().find(|it| it.change == gain.change));
    let best = named.or_else(|| predictions.iter().find(|it| it.gain.is_some_and(|gain| gain > 0.0)));
    let Some(best) = best else {
        return match refused {
            Some(refused) => format!("The gain of a change cannot be predicted: {refused}."),
            None => "No single change that was tried has a predicted gain.".to_owned(),
        };
    };
    let range = best
        .gain_low
        .zip(best.gain_high)
        .map_or_else(String::new, |(low, high)| format!(" ({} to {})", signed_percent(low), signed_percent(high)));
    let next = best.next.as_ref().map_or_else(String::new, |next| format!("; next bottleneck: {}::{}", next.machine, next.state));
    let is_torn = too_many_lost(report.verdict.lost, report.inputs.events + report.inputs.kernel_events);
    let torn = if is_torn { "; lost events are not included" } else { "" };
    let open = if may_be_wait(report, best) { ", if that is work and no wait" } else { "" };
    let of = report.verdict.gain.as_ref().filter(|gain| gain.change == best.change).and_then(|gain| gain.progress.as_ref());
    let of = of.map_or_else(String::new, |progress| format!(" {progress}"));
    let gain = signed_percent(best.gain.unwrap_or(0.0));
    format!("Predicted gain of {}: {gain}{range}{of}{open}{next}{torn}.", best.change)
}

/// Index of the line about the path, below the verdict, the prediction, the profile and an empty
/// line.
const PATH_LINE: usize = 4;

/// Prints what decides, the predicted gain of a change, and the states with most of the path.
/// Without `full`, all of it fits on a screen of [`screen::LINES`] lines.
fn head(out: &mut impl Write, report: &Report, full: bool) -> io::Result<()> {
    let mut lines = vec![plain(report.verdict.text())];
    let Some(path) = &report.path else { return writeln!(out, "{}", lines[0]) };
    lines.push(plain(predicted(report, path.refused.as_ref())));
    lines.push(plain(profile::first(report)));
    lines.push(String::new());
    let (end, length, unknown) = (plain(path.end_machine.clone()), duration(path.length_ns), percent(path.unknown_share));
    lines.push(format!("CRITICAL PATH to the end of {end}: {length}, {unknown} unknown"));
    if let Some(why) = report.run.as_ref().and_then(|run| why_steady(run.kind)) {
        lines.push(format!("{why}: the path is that of the steady part, to its last reply; start-up and wind-down are left out"));
    }
    for (at, line) in lines.iter().enumerate() {
        match at {
            0 | PATH_LINE => writeln!(out, "{}", title(line))?,
            _ => writeln!(out, "{line}")?,
        }
    }
    // Below the rows: code without names, how many more rows there are, an empty line, and up to
    // two lines of the footer.
    let columns = screen::columns().unwrap_or(screen::COLUMNS);
    // With all details, these lines are among them.
    let unnamed = report.stack_gaps.as_ref().filter(|_| !full).map(stacks::unnamed_runtimes).unwrap_or_default();
    let texts: Vec<String> = lines.into_iter().chain(unnamed.iter().cloned()).collect();
    let above: usize = texts.iter().map(|line| screen::wrapped(line, columns).len()).sum();
    let all = report.criticality.as_deref().unwrap_or_default();
    let by_class = if full { Vec::new() } else { rows_by_class(all) };
    let rows = if full { all } else { &by_class };
    let most = if full { MAX_ROWS } else { screen::LINES.saturating_sub(above + 6).clamp(MIN_ROWS, FIRST_ROWS) };
    let columns = match full {
        true => profile::Columns::of(report),
        false => profile::Columns::of(report).without_functions(),
    };
    states(out, report, &rows[..rows.len().min(most)], &columns)?;
    if let Some(more) = rows.len().checked_sub(most).filter(|&more| more > 0) {
        let hint = if full { "`longpole path` lists them" } else { "longpole report --full: those, findings, and more" };
        writeln!(out, "  … and {} more ({hint})", number(more as u64))?;
    } else if !full {
        writeln!(out, "  (longpole report --full: findings, and more)")?;
    }
    unnamed.into_iter().try_for_each(|line| writeln!(out, "{}", painted(Role::Caveat, line)))?;
    if full {
        details(out, report, all)?;
    }
    sensitivity(out, report)
}

/// Prints a table of states with their share of the path and the gain of halving each.
fn states(out: &mut impl Write, report: &Report, rows: &[Row], columns: &profile::Columns) -> io::Result<()> {
    let predictions = report.predictions.as_deref().unwrap_or_default();
    let mut table = Table::new(&[&["state", ">share of path"], columns.heads(), &[">gain if halved"]].concat());
    for (at, row) in rows.iter().enumerate() {
        let owner = if row.kind.is_link() { &row.machine } else { &row.class };
        let gain = |owner: &str| {
            let text = Scenario::scale(owner, &row.state, 0.5).text;
            predictions.iter().find(|it| it.change == text).and_then(|it| it.gain)
        };
        let gain = gain(owner).or_else(|| gain(&row.machine)).map_or_else(|| "-".to_owned(), signed_percent);
        let state = [format!("{}::{}", place(&row.host, &row.machine), row.state), percent(row.share)];
        table.row(state.into_iter().chain(columns.cells(row)).chain([gain]));
        if at == 0 {
            table.paint(Role::Bottleneck);
        }
    }
    table.print(out)
}

/// Prints what explains the path further: CPU holders, contradictions, the profile, and the path
/// over time.
fn details(out: &mut impl Write, report: &Report, rows: &[Row]) -> io::Result<()> {
    cpu_holders::lines(rows).try_for_each(|line| writeln!(out, "{line}"))?;
    let inputs = &report.inputs;
    if inputs.contradictions > 0 {
        let count = counted(inputs.contradictions, "contradiction");
        writeln!(out, "{count} on the way: their effects are unknown (longpole path lists them)")?;
    }
    for (count, why, what) in [
        (inputs.negative_links, "with an end before the begin: clocks differ, and the verdict may be wrong", "link"),
        (inputs.forgotten_causes, "older than the stored history", "cause"),
        (inputs.cut_waits, "of waits longer than the limit: findings do not include what is beyond (longpole graph --waits)", "chain"),
    ] {
        if count > 0 {
            writeln!(out, "{}", painted(Role::Caveat, format!("{} {why}", counted(count, what))))?;
        }
    }
    profile::discordant(report).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    report.stack_gaps.as_ref().map_or(Ok(()), |gaps| stacks::print_gaps(out, gaps))?;
    stacks::print_ended_waits(out, report.ended_waits.as_deref().unwrap_or_default(), true)?;
    match &report.participation {
        Some(participation) => strip::print(out, participation, report),
        None => Ok(()),
    }
}

fn sensitivity(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let Some(found) = &report.sensitivity else { return Ok(()) };
    if found.is_empty() {
        return writeln!(out, "\nThe verdict is the same with each of its constants 20 % smaller or larger (the subjects, and the division of the path among them, are not varied).");
    }
    writeln!(out, "\nANOTHER VERDICT with another constant of the verdict")?;
    for Sensitive { constant, factor, text } in found {
        let text = text.as_deref().unwrap_or("that of another path, which leads to the replies of another thread");
        writeln!(out, "  {constant} x{factor}: {}", plain(text.to_owned()))?;
    }
    Ok(())
}

/// Returns the reason why the path does not lead to the end of the command.
fn why_steady(run: anchor::Run) -> Option<&'static str> {
    match run {
        anchor::Run::FixedWork => None,
        anchor::Run::FixedTime => Some("a timer that was set before the work ends this run"),
        anchor::Run::Endless => Some("nothing ends this run"),
    }
}

fn findings(out: &mut impl Write, report: &Report) -> io::Result<()> {
    if !report.findings.is_empty() {
        writeln!(out, "\n{}", title("FINDINGS"))?;
        let mut table = Table::new(&["finding", "subject", ">count", ">share"]);
        for finding in &report.findings {
            table.row([finding.kind.clone(), finding.subject.clone(), number(finding.count), percent(finding.share)]);
        }
        table.print(out)?;
        for finding in &report.findings {
            writeln!(out, "  - {}", plain(finding.advice.clone()))?;
        }
    }
    Ok(())
}

fn print(out: &mut impl Write, report: &Report, length: Length) -> io::Result<()> {
    for finding in report.findings.iter().filter(|finding| finding.precedes_verdict()) {
        writeln!(out, "{}.", plain(finding.what.clone()))?;
    }
    head(out, report, length.is_full())?;
    if !length.is_full() {
        return Ok(());
    }
    findings(out, report)?;
    if report.inputs.events == 0 && report.inputs.kernel_events > 0 {
        // Queues and latencies both come from probes, and there are no probe events.
        return Ok(());
    }
    writeln!(out, "\n{}", title("QUEUES"))?;
    queues::print(out, &report.queues, length)?;
    writeln!(out)?;
    latency::print(out, &report.latency, length)
}
