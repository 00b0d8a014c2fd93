//! `longpole latency`: measures how long calls, spans, signals and activities take, or the time
//! between any two events.

use crate::input::interactions;
use crate::input::machine_log;
use crate::input::Input;
use crate::passes::probes;
use crate::render::length::Length;
use crate::render::style::title;
use crate::render::table::{duration, more_rows, number, Table};
use crate::WrongUsage;
use longpole_analysis::latency::event_pairs::{Pairs, Point};
use longpole_analysis::latency::{Kind, LatenciesOfMachines, Latency, Part};
use longpole_analysis::pipeline::Interactions;
use std::io::{self, Write};
use std::process::ExitCode;

/// Number of lines for which the first screen has room, and number of a table's lines that are not
/// rows: an empty line, its title and its head.
const FIRST_LINES: usize = 19;
const LINES_OF_TABLE: usize = 3;

/// Measure latencies: calls, spans, signals, activity, objects, or between any two events.
#[derive(clap::Args)]
#[command(mut_arg("all", crate::input::all_without_effect))]
#[command(after_help = "\
Percentiles are within 1 %; count, min, mean, max and total are exact.

Examples:
  longpole latency                                                       all latencies of the newest recording
  longpole latency --from event:request --to event:response --by id      between two events with the same id
  longpole latency --from 'span_begin:parse:arg > 100' --to span_end:parse
  longpole latency simulation.jsonl                                      stays in states, calls and signals of a machine log
  longpole latency --json traces/latest | jq '.[] | select(.kind == \"rpc\")'")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    length: Length,

    /// Begin of a latency: event name, optionally with a condition on its fields (`len > 100`)
    #[arg(long, value_name = "EVENT[:PRED]", requires = "to", value_parser = parse_point)]
    from: Option<Point>,

    /// End of a latency, in the same form
    #[arg(long, value_name = "EVENT[:PRED]", requires = "from", value_parser = parse_point)]
    to: Option<Point>,

    /// Pair only events with the same value of this field
    #[arg(long, value_name = "FIELD", requires = "from")]
    by: Option<String>,
}

fn parse_point(text: &str) -> Result<Point, String> {
    Point::parse(text).map_err(|error| error.to_string())
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(log) = interactions::of_named_log(&args.input)? {
        if args.from.is_some() {
            return Err(WrongUsage("a machine log holds no events, so --from and --to have no meaning for it".to_owned()).into());
        }
        return of_log(&args.input, args.length, log);
    }
    let mut pairs = match (args.from, args.to) {
        (Some(from), Some(to)) => Some(Pairs::new(from, to, args.by)),
        _ => None,
    };
    let whole = probes::read_net(&args.input, pairs.as_mut())?;
    let answer = match &pairs {
        Some(pairs) => pairs.answer(),
        None => whole.pass.latency(),
    };
    probes::write(&args.input, &whole, &answer, |out, answer| {
        print(out, answer, args.length)?;
        match &pairs {
            None => Ok(()),
            Some(Pairs { unmatched_from, unmatched_to, .. }) => {
                let (from, to) = (number(*unmatched_from), number(*unmatched_to));
                writeln!(out, "\n{from} begins without an end, {to} ends without a begin")
            }
        }
    })
}

fn of_log(input: &Input, length: Length, mut log: Interactions) -> anyhow::Result<ExitCode> {
    let mut latency = LatenciesOfMachines::default();
    let count = log.each(|vocabulary, interaction, begin| {
        latency.begin_at(begin);
        latency.interaction(vocabulary, interaction);
    })?;
    let answer = latency.answer(log.vocabulary());
    machine_log::write(input, count, &answer, |out| print(out, &answer, length))
}

/// Prints the lines of all kinds, one table per kind.
pub fn print(out: &mut impl Write, answer: &[Latency], length: Length) -> io::Result<()> {
    const TITLES: [(Kind, &str); 6] = [
        (Kind::Custom, "BETWEEN"),
        (Kind::Rpc, "CALLS"),
        (Kind::Span, "SPANS"),
        (Kind::Signal, "SIGNALS"),
        (Kind::Activity, "ACTIVITY (from wake-up to wait)"),
        (Kind::Object, "OBJECTS"),
    ];
    let of = |kind: Kind| answer.iter().filter(move |line| line.kind == kind);
    let tables: Vec<(Kind, &str)> = TITLES.into_iter().filter(|&(kind, _)| of(kind).next().is_some()).collect();
    if tables.is_empty() {
        return writeln!(out, "nothing in this trace begins and ends");
    }
    // At least one row of each table, so that no kind of latency is hidden.
    let room = (FIRST_LINES / tables.len()).saturating_sub(LINES_OF_TABLE).max(1);
    let mut more = 0;
    for (at, &(kind, name)) in tables.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", title(name))?;
        let mut table =
            Table::new(&["name", "thread", ">count", "~>min", ">mean", "~>std dev", ">p50", "~>p90", ">p99", "~>max", ">total", "~parts"]);
        let shown = length.rows(room).unwrap_or(usize::MAX);
        more += of(kind).count().saturating_sub(shown);
        for line in of(kind).take(shown) {
            let times = &line.times;
            let exact = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
            let real = |ns: Option<f64>| exact(ns.map(|ns| ns.round() as u64));
            let thread = match (&line.machine, &line.peer) {
                (Some(machine), Some(peer)) if kind == Kind::Signal => format!("{peer} -> {machine}"),
                (Some(machine), Some(peer)) => format!("{machine} -> {peer}"),
                (Some(machine), None) => machine.clone(),
                _ => String::new(),
            };
            table.row([
                line.name.clone(),
                thread,
                number(times.count),
                exact(times.min_ns),
                real(times.mean_ns),
                real(times.stddev_ns),
                exact(times.p50_ns),
                exact(times.p90_ns),
                exact(times.p99_ns),
                exact(times.max_ns),
                duration(times.total_ns),
                parts(line),
            ]);
        }
        table.print(out)?;
    }
    more_rows(out, more)
}

fn parts(line: &Latency) -> String {
    let mean = |key: &str| match line.parts.get(key) {
        Some(Part::Times(times)) => times.mean_ns.map_or_else(|| "-".to_owned(), |ns| duration(ns.round() as u64)),
        _ => "-".to_owned(),
    };
    let count = |key: &str| match line.parts.get(key) {
        Some(Part::Count(count)) => *count,
        _ => 0,
    };
    match line.kind {
        Kind::Rpc if line.parts.is_empty() => String::new(),
        Kind::Rpc => format!("dispatch {}, service {}, return {}", mean("dispatch"), mean("service"), mean("return")),
        Kind::Span => match line.parts.get("self") {
            Some(Part::Times(own)) => {
                let mut text = format!("self {}", duration(own.total_ns));
                for key in ["net", "interrupted", "runnable", "blocked", "unknown"] {
                    match line.parts.get(key) {
                        Some(Part::Times(times)) if times.total_ns > 0 => text.push_str(&format!(", {key} {}", duration(times.total_ns))),
                        _ => {}
                    }
                }
                text
            }
            _ => String::new(),
        },
        Kind::Signal => {
            let mut text = Vec::new();
            if count("merged") > 0 {
                text.push(format!("{} merged ({} submits)", number(count("merged")), number(count("submits"))));
            }
            if count("self_sent") > 0 {
                text.push(format!("{} self-sent", number(count("self_sent"))));
            }
            text.join(", ")
        }
        Kind::Activity | Kind::Object | Kind::Custom => String::new(),
    }
}
