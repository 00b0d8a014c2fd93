//! `longpole graph`: folds the critical path into a graph that contains each state once; or shows
//! which machine waits for which.

use crate::input::interactions;
use crate::input::Input;
use crate::passes::samples;
use crate::render::answer;
use crate::render::length::Length;
use crate::render::pictures::path_graph;
use crate::render::pictures::wait_graph_svg;
use crate::render::profile;
use crate::render::stacks;
use crate::render::style;
use crate::render::table::{duration, number, percent, plain, Table};
use crate::render::terminal::output;
use crate::render::wait_graph;
use crate::WrongUsage;
use anyhow::Context;
use longpole_analysis::critical_path::folded::{fold, Graph, Limits, Node, DEFAULT_SIZE};
use longpole_analysis::critical_path::samples::Top;
use longpole_analysis::critical_path::{Answer, Mode, Options};
use longpole_analysis::pipeline::samples::{path_stacks, StackSamples};
use longpole_analysis::pipeline::SPILL;
use longpole_analysis::scheduling::sampled_waits::SampledWaits;
use longpole_analysis::scheduling::stack_gaps::StackGaps;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Fold the critical path into a graph of its states: text, JSON, DOT, SVG
// `--format` is the output format here, so the format of raw logs gets another name.
#[derive(clap::Args)]
#[command(mut_arg(crate::input::memory_dump::FORMAT, |format| format.long("input-format")))]
#[command(after_help = "\
Each pair of class and state on the path is one node, each pair of neighbours on it one edge,
whatever the length of the path. Beyond --most, the rarest states of each process become one node,
and the rarest edges are only counted.

Examples:
  longpole graph                                              nodes, edges and loops of the newest recording's path
  longpole graph -o path.svg simulation.jsonl                 as a picture; the suffix gives the format
  longpole graph --format dot simulation.jsonl | dot -Tpdf -o path.pdf
  longpole graph --json simulation.jsonl | jq '.nodes[0]'
  longpole graph --functions -o path.svg                      with the functions in which the states spend their time
  longpole graph --waits                                      which thread waits for which, and which one slows a system that never ends
  longpole graph --waits -o waits.svg                         the same as a picture")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    length: Length,

    /// Show which machine waits for which: chains, and mutual waits (only for each other)
    #[arg(long, conflicts_with_all = ["mode", "machine", "top", "most", "functions"])]
    waits: bool,

    /// Also show the functions in which most of each state's time is spent, from sampled stacks
    #[arg(long)]
    functions: bool,

    /// Output format [default: that of the suffix of FILE, else text]
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Write the output to FILE; its suffix gives the format: .txt, .json, .dot, .gv, .svg
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Show the K loops that take the most time
    #[arg(long, value_name = "K", default_value_t = 10)]
    top: usize,

    /// Show at most N nodes and edges together, at least 6 [default: 545; 150 in a picture]
    #[arg(long, value_name = "N", value_parser = at_least_six)]
    most: Option<usize>,

    /// global: the path back from the end of the run. active: the time of one thread or device,
    /// with each wait replaced by its cause
    #[arg(long, value_name = "MODE", default_value = "global")]
    mode: Way,

    /// Machine at whose end the path ends (global), or to analyse (active): [HOST/]MACHINE
    #[arg(long, value_name = "MACHINE", required_if_eq("mode", "active"))]
    machine: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Dot,
    Svg,
}

impl Format {
    /// Returns the format that the file's suffix names. `None` for a name without a suffix, such as
    /// `/dev/stdout`.
    fn of_suffix(file: &Path) -> anyhow::Result<Option<Format>> {
        let Some(suffix) = file.extension().map(|suffix| suffix.to_string_lossy().to_ascii_lowercase()) else { return Ok(None) };
        match suffix.as_str() {
            "txt" => Ok(Some(Format::Text)),
            "json" => Ok(Some(Format::Json)),
            "dot" | "gv" => Ok(Some(Format::Dot)),
            "svg" => Ok(Some(Format::Svg)),
            _ => Err(WrongUsage(format!(
                "{}: no format has the suffix .{suffix}; the known ones are .txt, .json, .dot, .gv and .svg, or name one with --format",
                file.display()
            ))
            .into()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Way {
    Global,
    Active,
}

fn at_least_six(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(most) if most >= 6 => Ok(most),
        _ => Err("an integer from 6".to_owned()),
    }
}

/// The graph as JSON: the path's end and length, followed by the graph.
#[derive(Serialize)]
struct GraphAnswer<'a> {
    mode: &'a str,
    end_host: &'a str,
    end_machine: &'a str,
    start_ns: u64,
    end_ns: u64,
    length_ns: u64,
    unknown_ns: u64,
    lost: u64,
    #[serde(flatten)]
    graph: &'a Graph,
    /// What the sampled stacks lack, only with the functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    stack_gaps: Option<&'a StackGaps>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let format = match (args.input.json, args.format) {
        (true, None | Some(Format::Text | Format::Json)) => Format::Json,
        (true, Some(_)) => return Err(WrongUsage("--json and --format exclude each other".to_owned()).into()),
        (false, Some(format)) => format,
        (false, None) => match &args.output {
            Some(file) => Format::of_suffix(file)?.unwrap_or(Format::Text),
            None => Format::Text,
        },
    };
    if args.waits {
        return of_waits(&args, format);
    }
    let mode = match args.mode {
        Way::Global => Mode::Global,
        Way::Active => Mode::Active,
    };
    let options = Options { mode, machine: args.machine, segments: true, spill: Some(SPILL), ..Options::default() };
    let input = args.input.of_command()?;
    let mut interactions = interactions::open(&input)?;
    if args.functions && interactions.trace().is_none() {
        anyhow::bail!("--functions needs the samples of a recording: a machine log has none");
    }
    let mut waits = SampledWaits::default();
    let mut answer = interactions.sampled_critical_path(options, &mut (), &mut waits)?;
    answer.lost = interactions.counters().map_or(0, |counters| counters.lost);
    let Some(segments) = &answer.segments else { anyhow::bail!("internal error: a path without segments") };
    let most = args.most.unwrap_or(if format == Format::Svg { path_graph::MAX_DRAWN } else { DEFAULT_SIZE });
    let mut graph = fold(segments, Limits { most, loops: args.top });
    let (mut gaps, mut is_damaged) = (None, false);
    if args.functions {
        let runs_on = interactions.runs_on();
        let read = |samples: &mut StackSamples| -> anyhow::Result<()> {
            is_damaged = samples::read(&input, samples)?.is_damaged();
            Ok(())
        };
        let (of_path, all, _) = path_stacks(&runs_on, answer.segments.as_ref(), (&waits, input.sampled()?), read)?;
        graph.set_functions(&of_path.table(&all));
        gaps = Some(of_path.gaps());
    }
    let exit = to(args.output.as_deref(), format, |out| write((format, args.length), &answer, (&graph, gaps.as_ref()), out))?;
    if let Some(gaps) = gaps.filter(|_| args.output.is_some() || matches!(format, Format::Dot | Format::Svg)) {
        stacks::report_gaps(&gaps);
    }
    Ok(if is_damaged { ExitCode::FAILURE } else { exit })
}

fn of_waits(args: &Args, format: Format) -> anyhow::Result<ExitCode> {
    let answer = interactions::open(&args.input.of_command()?)?.waits()?;
    to(args.output.as_deref(), format, |mut out| {
        match format {
            Format::Json => {
                answer::write_json(&mut out, &answer)?;
            }
            Format::Dot => wait_graph::dot(&mut out, &answer)?,
            Format::Svg => wait_graph_svg::svg(&mut out, &answer)?,
            Format::Text => wait_graph::print(&mut out, &answer, args.length)?,
        }
        Ok(out.flush()?)
    })
}

/// Writes to the file, or to stdout.
fn to(file: Option<&Path>, format: Format, write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    match file {
        None if format == Format::Text => write(&mut output::text())?,
        None => write(&mut output::raw())?,
        Some(file) => {
            let shown = || format!("{} cannot be written", file.display());
            let out = File::create(file).with_context(shown)?;
            write(&mut output::file(out)).with_context(shown)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write(
    (format, length): (Format, Length),
    answer: &Answer,
    (graph, stack_gaps): (&Graph, Option<&StackGaps>),
    mut out: &mut dyn Write,
) -> anyhow::Result<()> {
    match format {
        Format::Text => print(&mut out, answer, (graph, stack_gaps), length)?,
        Format::Json => {
            let whole = GraphAnswer {
                mode: answer.mode,
                end_host: &answer.end_host,
                end_machine: &answer.end_machine,
                start_ns: answer.start_ns,
                end_ns: answer.end_ns,
                length_ns: answer.length_ns,
                unknown_ns: answer.unknown_ns,
                lost: answer.lost,
                graph,
                stack_gaps,
            };
            answer::write_json(&mut out, &whole)?;
        }
        Format::Dot => dot(&mut out, &path_graph::title(answer, graph), graph)?,
        Format::Svg => path_graph::svg(&mut out, &path_graph::title(answer, graph), graph)?,
    }
    Ok(out.flush()?)
}

/// Number of rows for which the first screen has room, of each of the three tables.
const FIRST_NODES: usize = 4;
const FIRST_EDGES: usize = 3;
const FIRST_LOOPS: usize = 3;

fn print(out: &mut impl Write, answer: &Answer, (graph, stack_gaps): (&Graph, Option<&StackGaps>), length: Length) -> io::Result<()> {
    writeln!(out, "{}\n\n{}", style::title(path_graph::title(answer, graph)), style::title("NODES"))?;
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    let functions: &[&str] = if stack_gaps.is_some() { &["function (sampled)", ">of it", "~>95 %"] } else { &[] };
    let rest = [">time", ">count", "~>threads", "~>min", ">p50", "~>p90", ">p99", "~>max"];
    let mut table = Table::new(&[&["state", ">share"], functions, &rest].concat());
    for node in &graph.nodes {
        let times = &node.times;
        let mut cells = vec![path_graph::full_name(node), percent(node.share)];
        if stack_gaps.is_some() {
            let top = node.functions.iter().flatten().next();
            let of = |text: fn(&Top) -> String| top.map_or_else(|| "-".to_owned(), text);
            let interval = |top: &Top| format!("{} - {}", percent(top.low), percent(top.high));
            cells.extend([of(|top| profile::shortened(&top.function)), of(|top| percent(top.share)), of(interval)]);
        }
        cells.extend([
            duration(times.total_ns),
            number(times.count),
            number(node.machines),
            time(times.min_ns),
            time(times.p50_ns),
            time(times.p90_ns),
            time(times.p99_ns),
            time(times.max_ns),
        ]);
        table.row(cells);
    }
    table.print_first(out, length.rows(FIRST_NODES))?;
    stack_gaps.map_or(Ok(()), |gaps| stacks::print_gaps(out, gaps))?;
    writeln!(out, "\n{} (times are those of the segments before the arrow)", style::title("EDGES"))?;
    let named = |node: u32| graph.nodes.get(node as usize).map_or_else(String::new, path_graph::full_name);
    let mut table = Table::new(&["from", "", "to", ">count", ">time", "~>min", "~>p50", "~>p90", "~>p99", "~>max"]);
    for edge in &graph.edges {
        let times = &edge.times;
        table.row([
            named(edge.from),
            "->".to_owned(),
            named(edge.to),
            number(times.count),
            duration(times.total_ns),
            time(times.min_ns),
            time(times.p50_ns),
            time(times.p90_ns),
            time(times.p99_ns),
            time(times.max_ns),
        ]);
    }
    table.print_first(out, length.rows(FIRST_EDGES))?;
    if graph.rare_edges.distinct > 0 && length.is_full() {
        let rare = graph.rare_edges;
        writeln!(out, "  {} rare edges are left out; the path took one {} times", number(rare.distinct), number(rare.count))?;
    }
    let heading = style::title("LOOPS");
    writeln!(out, "\n{heading} (what the path goes through between two visits of a state; {} different)", number(graph.distinct_loops))?;
    let mut table = Table::new(&[">share", ">time", ">count", ">mean", "through"]);
    for it in &graph.loops {
        let through = it.nodes.iter().map(|&node| named(node)).collect::<Vec<_>>().join(" -> ");
        table.row([percent(it.share), duration(it.total_ns), number(it.count), duration(it.total_ns / it.count.max(1)), through]);
    }
    table.print_first(out, length.rows(FIRST_LOOPS))
}

fn dot(out: &mut impl Write, title: &str, graph: &Graph) -> io::Result<()> {
    let functions = |node: &Node| node.functions.iter().flatten().map(|top| path_graph::function(top, usize::MAX)).collect::<Vec<String>>();
    let text = |text: String| plain(text).replace('\\', "\\\\").replace('"', "\\\"");
    writeln!(out, "digraph path {{")?;
    writeln!(out, "  graph [label=\"{}\", labelloc=t, fontname=\"sans-serif\"];", text(title.to_owned()))?;
    writeln!(out, "  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=11];")?;
    writeln!(out, "  edge [color=\"#7b8794\", fontname=\"sans-serif\", fontsize=9];")?;
    for (at, node) in graph.nodes.iter().enumerate() {
        let (fill, border) = path_graph::colours(node.kind);
        let label = format!(
            "{}\\n{}, {}, {} x{}",
            text(path_graph::full_name(node)),
            percent(node.share),
            duration(node.times.total_ns),
            number(node.times.count),
            functions(node).first().map_or_else(String::new, |function| format!("\\n{}", text(function.clone())))
        );
        let tooltip = functions(node).into_iter().map(text).collect::<Vec<_>>().join("\\n");
        let tooltip = if tooltip.is_empty() { tooltip } else { format!(", tooltip=\"{tooltip}\"") };
        let style = if path_graph::is_hatched(node.kind) { ", style=\"rounded,filled,dashed\"" } else { "" };
        writeln!(out, "  n{at} [label=\"{label}\", fillcolor=\"{fill}\", color=\"{border}\"{style}{tooltip}];")?;
    }
    let all = graph.nodes.iter().map(|node| node.times.total_ns).sum::<u64>().max(1);
    for edge in &graph.edges {
        let width = 0.5 + 7.0 * (edge.times.total_ns as f64 / all as f64).sqrt();
        writeln!(out, "  n{} -> n{} [label=\"{} x\", penwidth={width:.1}];", edge.from, edge.to, number(edge.times.count))?;
    }
    writeln!(out, "}}")
}
