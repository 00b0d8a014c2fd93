//! `longpole diff`: shows what changed between two recordings of the same system.

use crate::input;
use crate::input::memory_dump::Raw;
use crate::input::rules;
use crate::passes::compared;
use crate::passes::path_flames::{self, PathFlames};
use crate::render::answer;
use crate::render::length::Length;
use crate::render::pictures::flame_graph;
use crate::render::profile;
use crate::render::stacks::report_gaps;
use crate::render::style::{painted, title, Role};
use crate::render::table::{counted, duration, number, percent, plain, rate, signed_percent, Table};
use crate::render::terminal::output;
use crate::render::terminal::progress;
use crate::WrongUsage;
use anyhow::{anyhow, Context};
use longpole_analysis::compare::change::Change;
use longpole_analysis::compare::diff::{
    check_functions, Diff, DiffOutcome, Failed, FindingChange, FunctionChange, LatencyChange, QueueChange, StateChange,
};
use longpole_analysis::pipeline::samples::PathCounts;
use longpole_analysis::scheduling::flame_difference::FlameDifference;
use longpole_predicate::Predicate;
use longpole_trace::Moment;
use longpole_trace::Options;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what changed between two recordings of the same system, and how certain that is
#[derive(clap::Args)]
#[command(after_help = "\
Conditions are about the second recording, or about the change to it:
  criticality(\"MACHINE::STATE\")    the state's share of the critical path
  more_critical(…)                 by how much that share grew
  mean(\"NAME\"), p99(\"NAME\")        of a call or span, in ns
  slower(…)                        by how much the mean grew, relative
  rate(\"QUEUE\")                    items per second
  less_rate(…)                     by how much the rate fell, relative
Times are those of all threads together. If a name does not occur or events were lost, the condition
cannot be checked: the reason is printed and the exit status is 1.

Examples:
  longpole diff before after
  longpole diff before after --fail-if 'criticality(\"router::lookup\") > 0.10'
  longpole diff before after --fail-if 'slower(\"parse\") > 0.05 || less_rate(\"submit\") > 0.05'
  longpole diff before after --flame change.svg       the stacks on the path of both, as one picture
  longpole diff before after --json | jq .verdict")]
pub struct Args {
    /// The first recording, and the second
    #[arg(value_name = "TRACE", num_args = 2, required = true)]
    traces: Vec<PathBuf>,

    /// Leave out what is before TIME, in both
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    begin: Option<Moment>,

    /// Leave out what is after TIME, in both
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    end: Option<Moment>,

    /// Exit with status 3 if this condition holds; may be given several times
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<String>,

    /// Write the sampled stacks on the second path to FILE as a flame graph (SVG), coloured by the
    /// change of their shares
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fail_if", "json"])]
    flame: Option<PathBuf>,

    /// Print only the sampled stacks on both paths, folded: `process;frame;frame ns ns`
    #[arg(long, conflicts_with_all = ["fail_if", "json"])]
    folded: bool,

    /// From the begin of both recordings; the default is the begin of the commands
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    length: Length,

    /// Answer in JSON, for programs
    #[arg(long)]
    json: bool,

    /// Rules for what events mean, read before ~/.config/longpole/rules and the built-in ones
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,

    /// Damage is an error, and so is what deviates from a format without loss
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    raw: Raw,
}

const FAILED: u8 = 3;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let conditions = args.fail_if.iter().map(|text| parsed(text)).collect::<Result<Vec<_>, WrongUsage>>()?;
    let part =
        Options { begin: args.begin, end: args.end, dump: args.raw.dump(), damage: input::damage(args.strict), ..Options::default() };
    let [a, b] = args.traces.as_slice() else {
        return Err(WrongUsage("diff compares two traces; name two".to_owned()).into());
    };
    let rules = rules::read(&rules::files(&args.rules)?)?;
    progress::begin(&args.traces);
    if args.folded || args.flame.is_some() {
        let [first, second] = [path_flames::read(a, part.clone(), &rules, args.all)?, path_flames::read(b, part, &rules, args.all)?];
        return stacks(&args, first, second);
    }
    let (a, b) = (compared::side(a, part.clone(), &rules, args.all)?, compared::side(b, part, &rules, args.all)?);
    let mut answer = compared::difference(&a, &b)?;
    answer.check(&conditions).map_err(|error| anyhow!(error))?;
    answer::json_or_text(args.json, &answer, |out| print(out, &answer, args.length))?;
    Ok(if answer.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Prints or draws the stacks on both paths.
fn stacks(args: &Args, first: PathFlames, second: PathFlames) -> anyhow::Result<ExitCode> {
    if args.folded {
        let mut out = output::raw();
        let names: BTreeSet<&String> = first.folded.keys().chain(second.folded.keys()).collect();
        let ns = |of: &PathFlames, stack: &String| of.folded.get(stack).copied().unwrap_or(0);
        names.into_iter().try_for_each(|stack| writeln!(out, "{stack} {} {}", ns(&first, stack), ns(&second, stack)))?;
        out.flush()?;
    }
    for (of, which) in [(&first, "first"), (&second, "second")] {
        let PathCounts { running, waits, lost, .. } = of.counts;
        let (running, waits, lost) = (number(running), number(waits), number(lost));
        eprintln!("longpole: {which}: {running} samples of running code and {waits} sampled waits lie on the path, {lost} lost");
        report_gaps(&of.gaps);
    }
    let is_damaged = first.is_damaged || second.is_damaged;
    if let Some(to) = &args.flame {
        let file = File::create(to).with_context(|| format!("{} cannot be written", to.display()))?;
        let mut out = BufWriter::new(file);
        let title = format!("critical path: {}, before {}", duration(second.length_ns), duration(first.length_ns));
        flame_graph::difference_svg(&mut out, &title, &FlameDifference::new(&first.graph, second.graph))?;
        out.flush()?;
    }
    Ok(if is_damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn parsed(text: &str) -> Result<(String, Predicate), WrongUsage> {
    let predicate = Predicate::parse(text).map_err(|error| WrongUsage(format!("--fail-if: {error:#}")))?;
    check_functions(&predicate).map_err(|error| WrongUsage(format!("--fail-if {text}: {error}")))?;
    Ok((text.to_owned(), predicate))
}

/// Number of rows for which the first screen has room: of the path if there is no other table, of
/// the path at least, and of each other table.
const FIRST_ALONE: usize = 12;
const FIRST_LEAST: usize = 2;
const FIRST_OTHERS: usize = 1;
/// Number of lines of another table: an empty line, title, head, a row, the number of further rows.
const LINES_OF_TABLE: usize = 5;

fn print(out: &mut impl Write, answer: &Diff, length: Length) -> io::Result<()> {
    print_verdict(out, answer)?;
    let others = usize::from(!answer.latency.is_empty()) + usize::from(!answer.queues.is_empty());
    let first = FIRST_ALONE.saturating_sub(others * LINES_OF_TABLE).max(FIRST_LEAST);
    if !answer.states.is_empty() {
        print_states(out, &answer.states, length.rows(first))?;
    }
    if !answer.functions.is_empty() {
        print_functions(out, &answer.functions, length.rows(FIRST_OTHERS))?;
    }
    if !answer.latency.is_empty() {
        print_latency(out, &answer.latency, length.rows(FIRST_OTHERS))?;
    }
    if !answer.queues.is_empty() {
        print_queues(out, &answer.queues, length.rows(FIRST_OTHERS))?;
    }
    if !answer.findings.is_empty() && !length.is_full() {
        writeln!(out, "  … {}: --full", counted(answer.findings.len() as u64, "finding"))?;
    } else if !answer.findings.is_empty() {
        print_findings(out, &answer.findings)?;
    }
    print_failed(out, &answer.failed)
}

fn print_verdict(out: &mut impl Write, answer: &Diff) -> io::Result<()> {
    writeln!(out, "{}", title(plain(answer.verdict.text.clone())))?;
    for (known, which) in [(&answer.known_a, "first"), (&answer.known_b, "second")] {
        if let Some(missing) = known.missing() {
            writeln!(out, "{}", painted(Role::Caveat, format!("  {which}: {missing}")))?;
        }
    }
    if answer.verdict.kind == DiffOutcome::Changed {
        let caveat = "  \"certain\" refers to these two runs only; record the first system twice to see how its own runs differ";
        writeln!(out, "{}", painted(Role::Caveat, caveat))?;
    }
    Ok(())
}

fn print_states(out: &mut impl Write, states: &[StateChange], most: Option<usize>) -> io::Result<()> {
    writeln!(out, "\n{}", title("CRITICAL PATH"))?;
    let mut table = Table::new(&["state", ">first", ">second", ">change", "~>95 % interval", ""]);
    for line in states {
        let name = format!("{}::{}", line.machine, line.state);
        table.row([
            name,
            percent(line.share_a),
            percent(line.share_b),
            signed_percent(line.change.change),
            interval(Some(line.change)),
            sure(line.certain),
        ]);
    }
    table.print_first(out, most)
}

fn print_functions(out: &mut impl Write, functions: &[FunctionChange], most: Option<usize>) -> io::Result<()> {
    writeln!(out, "\n{}", title("FUNCTIONS ON THE PATH (sampled)"))?;
    let mut table = Table::new(&["function", "time", "~process", ">first", ">second", ">change", "~>95 % interval", ""]);
    for line in functions {
        table.row([
            profile::shortened(&line.function),
            line.time.text().to_owned(),
            line.process.clone(),
            percent(line.share_a),
            percent(line.share_b),
            signed_percent(line.change.change),
            interval(Some(line.change)),
            sure(line.certain),
        ]);
    }
    table.print_first(out, most)
}

fn print_latency(out: &mut impl Write, latency: &[LatencyChange], most: Option<usize>) -> io::Result<()> {
    writeln!(out, "\n{}", title("LATENCY (means)"))?;
    let mut table =
        Table::new(&["name", "~class", "~>count, first", "~>count, second", ">first", ">second", ">change", "~>95 % interval", ""]);
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| duration(ns.round() as u64));
    for line in latency {
        table.row([
            line.name.clone(),
            line.machine.clone().unwrap_or_default(),
            number(line.count_a),
            number(line.count_b),
            time(line.mean_a_ns),
            time(line.mean_b_ns),
            line.change.map_or_else(|| "-".to_owned(), |change| signed_percent(change.change)),
            interval(line.change),
            sure(line.certain),
        ]);
    }
    table.print_first(out, most)
}

fn print_queues(out: &mut impl Write, queues: &[QueueChange], most: Option<usize>) -> io::Result<()> {
    writeln!(out, "\n{}", title("QUEUES"))?;
    let mut table = Table::new(&[
        "queue",
        ">first",
        ">second",
        ">change",
        "~>95 % interval",
        "",
        "~>full, first",
        "~>full, second",
        "~>empty, first",
        "~>empty, second",
    ]);
    let speed = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| rate(value, "items"));
    for line in queues {
        table.row([
            line.name.clone(),
            speed(line.items_per_s_a),
            speed(line.items_per_s_b),
            line.change.map_or_else(|| "-".to_owned(), |change| signed_percent(change.change)),
            interval(line.change),
            sure(line.certain),
            share(line.full_share_a),
            share(line.full_share_b),
            share(line.empty_share_a),
            share(line.empty_share_b),
        ]);
    }
    table.print_first(out, most)
}

fn print_findings(out: &mut impl Write, findings: &[FindingChange]) -> io::Result<()> {
    writeln!(out, "\n{}", title("FINDINGS"))?;
    let mut table = Table::new(&["finding", "subject", ">first", ">second"]);
    for line in findings {
        table.row([line.kind.clone(), line.subject.clone(), share(line.share_a), share(line.share_b)]);
    }
    table.print(out)
}

fn print_failed(out: &mut impl Write, failed_conditions: &[Failed]) -> io::Result<()> {
    for failed in failed_conditions {
        let values: Vec<String> = failed
            .values
            .iter()
            .map(|(name, value)| format!("{name} = {}", value.map_or_else(|| "unknown".to_owned(), |value| format!("{value:.4}"))))
            .collect();
        writeln!(out, "\nfails: {}", plain(format!("{} ({})", failed.condition, values.join(", "))))?;
    }
    Ok(())
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), percent)
}

fn sure(certain: bool) -> String {
    if certain { "certain" } else { "" }.to_owned()
}

fn interval(change: Option<Change>) -> String {
    match change.and_then(|change| change.low.zip(change.high)) {
        Some((low, high)) => format!("{} to {}", signed_percent(low), signed_percent(high)),
        None => "-".to_owned(),
    }
}
