//! `longpole path`: shows the critical path, the chain of states and links that nothing else could
//! have hidden.

use crate::global;
use crate::input::interactions;
use crate::input::subject::SubjectArgs;
use crate::input::Input;
use crate::passes::samples;
use crate::render::answer;
use crate::render::cpu_holders;
use crate::render::event_count::EventCount;
use crate::render::length::Length;
use crate::render::pictures::flame_graph;
use crate::render::stacks;
use crate::render::style::{painted, title, Role};
use crate::render::table::{counted, duration, number, percent, plain, Table};
use crate::render::terminal::output;
use crate::WrongUsage;
use anyhow::{bail, Context};
use longpole_analysis::critical_path::samples::{CriticalFunction, EndedWait};
use longpole_analysis::critical_path::{Answer, Mode, Options, Row};
use longpole_analysis::pipeline::samples::{path_stacks, PathCounts, PathFunctions, StackSamples};
use longpole_analysis::pipeline::{self, spool_to_end, Interactions, SPILL, WINDOW};
use longpole_analysis::scheduling::sampled_waits::SampledWaits;
use longpole_analysis::scheduling::stack_gaps::StackGaps;
use longpole_analysis::stats::text::place;
use longpole_analysis::verdict::not_recorded;
use longpole_model::causes::Counters;
use longpole_trace::Trace;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show the critical path: the states and links that nothing else could have hidden
#[derive(clap::Args)]
#[command(after_help = "\
The global path leads back from the end: at the end of every wait it continues with the cause. Its
shares sum up to 100 %, UNKNOWN included. The active path of a machine is its own time, with each of
its waits replaced by what it waited for.

Examples:
  longpole path                                               of the newest recording
  longpole path simulation.jsonl                              of a machine log, from its end
  longpole path --machine sink --segments simulation.jsonl    from the end of one machine, with each segment
  longpole path --mode active --machine sink simulation.jsonl
  longpole path client/ server/                               of one run, recorded by two recorders on one clock
  longpole path --functions                                   the functions on the path, by samples (`longpole record --stacks 999`)
  longpole path --flame path.svg                              only the stacks sampled on the path
  longpole path --json --no-segments simulation.jsonl | jq '.criticality[0]'")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    subject: SubjectArgs,

    #[command(flatten)]
    length: Length,

    /// global: the path back from the end of the run. active: the time of one thread or device,
    /// with each wait replaced by its cause
    #[arg(long, value_name = "MODE", default_value = "global")]
    mode: Way,

    /// Machine at whose end the path ends (global), or to analyse (active): [HOST/]MACHINE
    #[arg(long, value_name = "MACHINE", required_if_eq("mode", "active"))]
    machine: Option<String>,

    /// Also show the segments
    #[arg(long)]
    segments: bool,

    /// With --json: omit the segments (null); a long path has millions of them
    #[arg(long, requires = "json", conflicts_with = "segments")]
    no_segments: bool,

    /// Print only the sampled stacks on the path, folded: `process;frame;frame count`
    #[arg(long, conflicts_with_all = ["segments", "json"])]
    folded: bool,

    /// Write the sampled stacks on the path to FILE as a flame graph (SVG)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["segments", "json"])]
    flame: Option<PathBuf>,

    /// Show the functions on the path, from sampled stacks, with their rank in a profile
    #[arg(long, conflicts_with_all = ["segments", "folded", "flame"])]
    functions: bool,

    /// Compute the times of the path in N threads (global)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,

    /// Compute the times in windows of N interactions; the answer is the same
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    window: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Way {
    Global,
    Active,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let input = args.input.of_command()?;
    let mut interactions = interactions::open(&input)?;
    let is_trace = interactions.trace().is_some();
    let asked = [(args.functions, "--functions"), (args.folded, "--folded"), (args.flame.is_some(), "--flame")];
    if let (false, Some((_, option))) = (is_trace, asked.into_iter().find(|asked| asked.0)) {
        bail!("{option} needs the samples of a recording: a machine log has none");
    }
    let mode = match args.mode {
        Way::Global => Mode::Global,
        Way::Active => Mode::Active,
    };
    let sampled = args.folded || args.flame.is_some();
    let with_segments = args.segments || input.json && !args.no_segments;
    let jobs = usize::from(args.jobs);
    let options = Options {
        mode,
        machine: args.machine,
        segments: with_segments || sampled || args.functions || is_trace,
        window: args.window.map(|window| window as usize).or((jobs > 1).then_some(WINDOW)),
        jobs,
        spill: Some(SPILL),
        ..Options::default()
    };
    let (mut occupancy, mut waits) = (pipeline::cpu_holders::occupancy_log(), SampledWaits::default());
    let mut answer = match args.subject.is_given() {
        false => interactions.sampled_critical_path(options, &mut occupancy, &mut waits)?,
        true if mode == Mode::Active || options.machine.is_some() => {
            bail!(WrongUsage("--process, --thread and --port lead to replies; --machine leads to one machine's end".to_owned()))
        }
        true => {
            let end = spool_to_end(&mut interactions, &args.subject.selection(), args.subject.progress_times())?;
            waits = end.waits;
            interactions.path_from_spool(&end.spool, options)?
        }
    };
    if !sampled {
        pipeline::cpu_holders::add(&interactions, &occupancy, &mut answer)?;
    }
    if sampled {
        return sampled_stacks(&input, args.folded, args.flame.as_deref(), &interactions, (&answer, &waits));
    }
    if args.functions && !input.json {
        return functions(&input, args.length, &interactions, (&mut answer, &waits));
    }
    let mut of_functions = OfFunctions::default();
    if args.functions {
        let (found, _) = samples::functions(&input, &interactions, (&mut answer, &waits), samples::read)?;
        let PathFunctions { rows, ended_waits, gaps, .. } = found;
        of_functions = OfFunctions { functions: Some(rows), ended_waits: Some(ended_waits), stack_gaps: Some(gaps) };
    }
    if args.no_segments {
        answer.segments = None;
    }
    let counters = interactions.counters().cloned().unwrap_or_default();
    let Counters { events, uncounted_losses, ref unknown_by, from_before, size_mismatches, .. } = counters;
    let inputs = EventCounts { events, uncounted_losses, from_before, size_mismatches };
    answer::json_or_text(input.json, &PathAnswer { answer: &answer, of_functions, unknown_by: unknown_by.clone(), inputs }, |out| {
        print(out, &answer, args.segments, args.length)?;
        print_counters(out, &input, &answer, &counters)?;
        let not_recorded =
            interactions.composer().and_then(|composer| not_recorded::sentence(&not_recorded::not_recorded(composer.linux())));
        not_recorded.map_or(Ok(()), |sentence| writeln!(out, "{}", painted(Role::Caveat, plain(sentence))))
    })?;
    Ok(if interactions.trace().is_some_and(Trace::is_damaged) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints or draws the stacks on the path.
fn sampled_stacks(
    input: &Input,
    folded: bool,
    to: Option<&Path>,
    interactions: &Interactions,
    (answer, waits): (&Answer, &SampledWaits),
) -> anyhow::Result<ExitCode> {
    let (runs_on, mut is_damaged) = (interactions.runs_on(), false);
    let read = |samples: &mut StackSamples| -> anyhow::Result<()> {
        is_damaged = samples::read(input, samples)?.is_damaged();
        Ok(())
    };
    let (of_path, ..) = path_stacks(&runs_on, answer.segments.as_ref(), (waits, input.sampled()?), read)?;
    if let Some(to) = to {
        let file = File::create(to).with_context(|| format!("{} cannot be written", to.display()))?;
        let mut out = BufWriter::new(file);
        let title = format!("critical path to the end of {}: {}", answer.end_machine, duration(answer.length_ns));
        flame_graph::svg(&mut out, &title, &of_path.flame_graph())?;
        out.flush()?;
    }
    if folded {
        let mut out = output::raw();
        of_path.lines().iter().try_for_each(|line| writeln!(out, "{line}"))?;
        out.flush()?;
    }
    stacks::report_gaps(&of_path.gaps());
    print_counts(of_path.counts, of_path.shares(answer.length_ns))?;
    Ok(if is_damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn functions(
    input: &Input,
    length: Length,
    interactions: &Interactions,
    (answer, waits): (&mut Answer, &SampledWaits),
) -> anyhow::Result<ExitCode> {
    let (found, is_damaged) = samples::functions(input, interactions, (answer, waits), samples::read)?;
    let PathFunctions { rows, ended_waits, counts, gaps, running, waiting, .. } = found;
    let mut out = output::text();
    stacks::print_critical(&mut out, &rows, length.rows(FIRST_ALONE))?;
    stacks::print_gaps(&mut out, &gaps)?;
    stacks::print_ended_waits(&mut out, &ended_waits, length.is_full())?;
    out.flush()?;
    drop(out);
    print_counts(counts, (running, waiting))?;
    Ok(if is_damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// `running` and `waiting` are the shares of the path in which code runs, and of waits with stacks.
fn print_counts(counts: PathCounts, (running, waiting): (f64, f64)) -> anyhow::Result<()> {
    let (stacks, share) = (number(counts.running), percent(running));
    match counts.waits {
        0 => eprintln!(
            "longpole: {stacks} samples lie on the path, {} lost; something runs on {share} of it, the rest of it has no stacks",
            number(counts.lost)
        ),
        waits => eprintln!(
            "longpole: {stacks} samples of running code lie on the path ({share} of it) and {} sampled waits ({} of it), {} lost",
            number(waits),
            percent(waiting),
            number(counts.lost)
        ),
    }
    if counts.running + counts.waits == 0 {
        bail!("no sample is on the path; record more samples (`longpole record --stacks 999`), or record for longer");
    }
    Ok(())
}

#[derive(Serialize)]
struct PathAnswer<'a> {
    #[serde(flatten)]
    answer: &'a Answer,
    #[serde(flatten)]
    of_functions: OfFunctions,
    unknown_by: BTreeMap<&'static str, u64>,
    inputs: EventCounts,
}

/// Functions on the path; all `None` if they were not requested.
#[derive(Default, Serialize)]
struct OfFunctions {
    #[serde(skip_serializing_if = "Option::is_none")]
    functions: Option<Vec<CriticalFunction>>,
    /// Both ends of waits that other threads ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_waits: Option<Vec<EndedWait>>,
    /// What the stacks lack.
    #[serde(skip_serializing_if = "Option::is_none")]
    stack_gaps: Option<StackGaps>,
}

/// Counts of what the path was made from; all zero for a machine log.
#[derive(Serialize)]
struct EventCounts {
    events: u64,
    uncounted_losses: u64,
    from_before: u64,
    size_mismatches: u64,
}

/// Number of rows for which the first screen has room: of states, with the lines below them, and of
/// functions. The same of the lines about CPU holders.
const FIRST_ROWS: usize = 10;
const FIRST_ALONE: usize = 15;
const FIRST_HOLDERS: usize = 2;

fn print(out: &mut impl Write, answer: &Answer, with_segments: bool, length: Length) -> io::Result<()> {
    let end = match answer.end_host.as_str() {
        "" => answer.end_machine.clone(),
        host => format!("{host}/{}", answer.end_machine),
    };
    let which = if answer.mode == "active" { "active path of" } else { "path to the end of" };
    writeln!(out, "{}\n", title(format!("{which} {}: {}", plain(end), duration(answer.length_ns))))?;
    let mut table = Table::new(&["state", ">share of path", ">time", ">thread-time rank", "~>share", "~>slack"]);
    for (at, row) in answer.criticality.iter().enumerate() {
        table.row([
            state(row),
            percent(row.share),
            duration(row.ns),
            row.profile_rank.map_or_else(|| "-".to_owned(), number),
            row.profile_share.map_or_else(|| "-".to_owned(), percent),
            row.slack_ns.map_or_else(|| "-".to_owned(), duration),
        ]);
        if at == 0 {
            table.paint(Role::Bottleneck);
        }
    }
    table.print_first(out, length.rows(FIRST_ROWS))?;
    let holders = cpu_holders::lines(&answer.criticality).take(length.rows(FIRST_HOLDERS).unwrap_or(usize::MAX));
    holders.into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
    if let (Some(segments), true) = (&answer.segments, with_segments) {
        writeln!(out, "\n{}", title("SEGMENTS"))?;
        for segment in segments.segments() {
            let state = format!("{}::{}", place(segment.host, segment.machine), segment.state);
            writeln!(out, "  {} - {} ns  {}", number(segment.start_ns), number(segment.end_ns), plain(state))?;
        }
    }
    let unknown = if answer.length_ns == 0 { 0.0 } else { answer.unknown_ns as f64 / answer.length_ns as f64 };
    writeln!(out, "\n{}, {} of the path unknown", counted(answer.interactions, "interaction"), percent(unknown))?;
    if answer.contradictions > 0 {
        writeln!(out, "{}; their effects are unknown:", counted(answer.contradictions, "contradiction"))?;
        for contradiction in &answer.contradiction_list {
            writeln!(out, "  line {}: {}", contradiction.line, plain(contradiction.what.clone()))?;
        }
    }
    for (count, what) in [
        (answer.negative_links, "links were negative and count as 0: clocks differ"),
        (answer.ignored_wakeups, "wake-ups of machines that were not blocked were ignored"),
        (answer.forgotten_causes, "causes are unknown because they are older than the stored history"),
    ] {
        if count > 0 {
            writeln!(out, "{} {what}", number(count))?;
        }
    }
    Ok(())
}

/// Prints what is known about the events of a recording in addition to the path.
fn print_counters(out: &mut impl Write, input: &Input, answer: &Answer, counters: &Counters) -> io::Result<()> {
    if counters.events > 0 {
        let count = EventCount { events: counters.events, lost: counters.lost, gaps: counters.uncounted_losses };
        writeln!(out, "{}", count.line(input, true))?;
    }
    for (count, what) in [
        (counters.from_before, "items were taken that had been put before the trace began, or where events are missing"),
        (counters.size_mismatches, "times a queue held another number of items than its program reported"),
    ] {
        if count > 0 && global::is_verbose() {
            writeln!(out, "{}", painted(Role::Caveat, format!("{} {what}", number(count))))?;
        }
    }
    if answer.unknown_ns > 0 && !counters.unknown_by.is_empty() {
        let by: Vec<String> = counters.unknown_by.iter().map(|(why, count)| format!("{why} {}", number(*count))).collect();
        writeln!(out, "blocks that ended without a known cause, by what would have shown it: {}", by.join(", "))?;
    }
    Ok(())
}

fn state(row: &Row) -> String {
    format!("{}::{}", place(&row.host, &row.machine), row.state)
}
