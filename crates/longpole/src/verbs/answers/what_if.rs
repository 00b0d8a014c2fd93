//! `longpole what-if`: predicts the effects of changes before they are made.

use crate::input::interactions;
use crate::input::memory_dump::Raw;
use crate::input::offset::Offset;
use crate::input::subject::SubjectArgs;
use crate::input::Input;
use crate::passes::function_changes;
use crate::render::answer;
use crate::render::length::Length;
use crate::render::style::{painted, title, Role};
use crate::render::table::{counted, duration, number, percent, plain, Table};
use crate::WrongUsage;
use longpole_analysis::pipeline::spool_to_end;
use longpole_analysis::verdict::lost_events::{self, too_many_lost};
use longpole_analysis::what_if::predicted::Predicted;
use longpole_analysis::what_if::{Answer, Options, Prediction, Scenario};
use longpole_trace::Moment;
use longpole_trace::Trace;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Predict the effect of a change by replaying the trace with it
#[derive(clap::Args)]
#[command(after_help = "\
A scenario is one argument; changes that are made together are joined by `and`:
  'MACHINE::STATE x0.5'     the state takes half of its time; MACHINE may be a class; a link is QUEUE::wire or link::timer
  'queue NAME capacity N'   the queue holds N
  'cpus +N'                 each host has N CPUs more
  'batch MACHINE N'         the machine makes a call or gives a signal once per N items
  'concurrency NAME N'      the program, thread group, `port P`, pool or lock of that name does N pieces of work at once
  'lock NAME split'         nobody waits for that lock any more; the work in it stays
Names with spaces or `::` must be in double quotes. Without a scenario, what decides is made twice as fast, one after the other.

Examples:
  longpole what-if simulation.jsonl                            what would bring most, and which fixes in which order
  longpole what-if simulation.jsonl 'server::parse x0.5' 'queue inbox capacity 2048'
  longpole what-if simulation.jsonl 'server::parse x0.5 and cpus +1'
  longpole what-if --json simulation.jsonl 'link::wire x2' | jq '.[0].gain'")]
pub struct Args {
    /// Trace [default: newest recording] and scenarios; any word that is no scenario is a trace
    #[arg(value_name = "TRACE|SCENARIO")]
    words: Vec<String>,

    #[command(flatten)]
    subject: SubjectArgs,

    /// The machine whose last interaction ends the replay; MACHINE, or HOST/MACHINE
    #[arg(long, value_name = "MACHINE", conflicts_with_all = ["process", "thread", "port"])]
    machine: Option<String>,

    /// Leave out what is before TIME: +1.5s from the trace's begin, or ns on its clock
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    begin: Option<Moment>,

    /// Leave out what is after TIME
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    end: Option<Moment>,

    /// From the begin of the recording; the default is the begin of the command
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

    /// Add TIME (s, ms, us, ns) to all times of PATH, the trace or a part: DIR/kernel=-1.5ms
    #[arg(long = "offset", value_name = "PATH=TIME", value_parser = Offset::parse)]
    offsets: Vec<Offset>,

    /// Damage is an error, and so is what deviates from a format without loss
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    raw: Raw,
}

/// Maximum number of scenarios in one pass.
const MAX_SCENARIOS: usize = 256;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (input, scenarios) = asked(&args)?;
    let input = input.of_command()?;
    let options = |scenarios: Vec<Scenario>| Options { scenarios, machine: args.machine.clone(), ..Options::default() };
    let mut interactions = interactions::open(&input)?;
    let as_report = interactions.trace().is_some() && args.machine.is_none() && args.begin.is_none() && args.end.is_none();
    let full_ring = interactions.trace().and_then(Trace::full_ring);
    let (answer, order) = match scenarios.is_empty() {
        // The replay ends where the path of `report` ends: if a timer or nothing ends the run, the
        // work until then counts, and not the command's end.
        _ if args.subject.is_given() || as_report => {
            let end = spool_to_end(&mut interactions, &args.subject.selection(), args.subject.progress_times())?;
            function_changes::at_path_end(&input, &interactions, &end, scenarios, options)?
        }
        false => {
            let answer = interactions.what_if(options(scenarios.clone()));
            let explained = |error| function_changes::explained(&interactions, &scenarios, error);
            (answer.map_err(explained)?, Vec::new())
        }
        true => interactions.propose(options)?,
    };
    let tried = answer.predictions.iter().map(|prediction| Predicted { prediction, step: None });
    // The change of a step includes all earlier fixes.
    let steps = (1..).zip(&order).map(|(step, prediction)| Predicted { prediction, step: Some(step) });
    let rows: Vec<Predicted> = tried.chain(steps).collect();
    answer::json_or_text(input.json, &rows, |out| print(out, &answer, &order, (full_ring, args.length)))?;
    Ok(ExitCode::SUCCESS)
}

/// Divides the words into traces and scenarios.
fn asked(args: &Args) -> anyhow::Result<(Input, Vec<Scenario>)> {
    let mut scenarios = Vec::new();
    let mut traces = Vec::new();
    for word in &args.words {
        match Scenario::parse(word) {
            Ok(scenario) if !Path::new(word).exists() => scenarios.push(scenario),
            Err(error) if !Path::new(word).exists() && (!traces.is_empty() || word.contains(char::is_whitespace)) => {
                return Err(WrongUsage(error).into());
            }
            _ => traces.push(PathBuf::from(word)),
        }
    }
    if scenarios.len() > MAX_SCENARIOS {
        return Err(WrongUsage(format!("more than {MAX_SCENARIOS} scenarios")).into());
    }
    Ok((
        Input {
            traces,
            begin: args.begin,
            end: args.end,
            all: args.all,
            json: args.json,
            rules: args.rules.clone(),
            offsets: args.offsets.clone(),
            strict: args.strict,
            raw: args.raw.clone(),
        },
        scenarios,
    ))
}

/// Number of rows for which the first screen has room: of each of two tables, and of one alone.
const FIRST_ROWS: usize = 6;
const FIRST_ALONE: usize = 15;

fn print(out: &mut impl Write, answer: &Answer, order: &[Prediction], (full_ring, length): (Option<u64>, Length)) -> io::Result<()> {
    let end = match answer.end_host.as_str() {
        "" => answer.end_machine.clone(),
        host => format!("{host}/{}", answer.end_machine),
    };
    let error = 100.0 * answer.baseline_error;
    let baseline = duration(answer.baseline_ns);
    let head = format!("to the end of {}: {baseline}; the unchanged replay differs by {error:+.1} %", plain(end));
    writeln!(out, "{}\n", title(head))?;
    // If all predictions were refused for the same reason, it is printed once.
    let refused = answer.predictions.first().and_then(|it| it.refused.as_ref());
    let refused = refused.filter(|_| answer.predictions.iter().all(|it| it.refused.as_ref() == refused));
    if answer.predictions.is_empty() {
        writeln!(out, "nothing on the path to it can be changed")?;
    } else if let Some(refused) = refused {
        writeln!(out, "cannot be predicted: {}", plain(refused.clone()))?;
    } else {
        let mut table = Table::new(&["change", ">gain", ">from", ">to", "~>then", "next bottleneck"]);
        for (at, prediction) in answer.predictions.iter().enumerate() {
            table.row(row(prediction));
            if at == 0 && prediction.gain.is_some_and(|gain| gain > 0.0) {
                table.paint(Role::Bottleneck);
            }
        }
        table.print_first(out, length.rows(if order.is_empty() { FIRST_ALONE } else { FIRST_ROWS }))?;
    }
    if !order.is_empty() {
        writeln!(out, "\n{}", title("FIX THESE IN THIS ORDER"))?;
        let mut table = Table::new(&[">", "change", ">gain of all", ">from", ">to", "~>then", "next bottleneck"]);
        let mut before = "";
        for (at, step) in order.iter().enumerate() {
            let [_, cells @ ..] = row(step);
            let change = step.change.strip_prefix(before).map_or(step.change.as_str(), |rest| rest.strip_prefix(" and ").unwrap_or(rest));
            table.row([number(at as u64 + 1), change.to_owned()].into_iter().chain(cells));
            before = &step.change;
        }
        table.print_first(out, length.rows(FIRST_ROWS))?;
    }
    writeln!(out, "\n{}", counted(answer.interactions, "interaction"))?;
    if too_many_lost(answer.lost, answer.interactions) {
        let (lost, remedy) = (number(answer.lost), lost_events::remedy(full_ring));
        writeln!(
            out,
            "{}",
            painted(Role::Caveat, format!("{lost} events are lost, and predictions do not include their effects; {remedy}"))
        )?;
    }
    if answer.contradictions > 0 {
        writeln!(out, "{}: see `longpole path`", counted(answer.contradictions, "contradiction"))?;
    }
    if answer.forgotten_causes > 0 {
        writeln!(out, "{} causes are older than the stored history", number(answer.forgotten_causes))?;
    }
    Ok(())
}

fn row(prediction: &Prediction) -> [String; 6] {
    let share =
        |gain: Option<f64>| gain.map_or_else(|| "-".to_owned(), |gain| format!("{}{}", if gain >= 0.0 { "+" } else { "" }, percent(gain)));
    let next = match (&prediction.refused, &prediction.next) {
        (Some(refused), _) => format!("cannot be predicted: {refused}"),
        (None, Some(next)) => format!("{}::{}", next.machine, next.state),
        (None, None) => "-".to_owned(),
    };
    [
        prediction.change.clone(),
        share(prediction.gain),
        share(prediction.gain_low),
        share(prediction.gain_high),
        prediction.predicted_ns.map_or_else(|| "-".to_owned(), duration),
        next,
    ]
}
