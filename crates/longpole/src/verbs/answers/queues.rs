//! `longpole queues`: measures how deep queues are, how often they are full and empty, and in which
//! batches items are taken.

use crate::input::interactions;
use crate::input::machine_log;
use crate::input::Input;
use crate::passes::probes;
use crate::render::length::Length;
use crate::render::style::{painted, Role};
use crate::render::table::{bytes, duration, number, percent, plain, rate, Table};
use longpole_analysis::pipeline::Interactions;
use longpole_analysis::queues::{QueueAnswer, QueuesOfMachines};
use longpole_analysis::report::ProbePass;
use std::collections::HashSet;
use std::io::{self, Write};
use std::process::ExitCode;

/// Measure queues: depth, full and empty shares, batches, residence, signals per item.
#[derive(clap::Args)]
#[command(mut_arg("all", crate::input::all_without_effect))]
#[command(after_help = "\
Examples:
  longpole queues                            of the newest recording
  longpole queues --begin +1s --end +2s      only the second second
  longpole queues simulation.jsonl           of a machine log
  longpole queues --json | jq '.[] | select(.full_share > 0.5).name'")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    length: Length,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(log) = interactions::of_named_log(&args.input)? {
        return of_log(&args.input, args.length, log);
    }
    let whole = probes::read(&args.input, None)?;
    let mut answer = whole.pass.queues();
    answer.extend(of_rules(&args.input, &whole.pass, &answer)?);
    probes::write(&args.input, &whole, &answer, |out, answer| print(out, answer, args.length))
}

/// Returns the queues that only the user's rules for kernel events define. Which thread puts and
/// takes is known from the model of the kernel.
fn of_rules(input: &Input, pass: &ProbePass, known: &[QueueAnswer]) -> anyhow::Result<Vec<QueueAnswer>> {
    let paths = input.completed_paths()?;
    let [path] = paths.as_slice() else { return Ok(Vec::new()) };
    let rules = input.rules()?;
    if !rules.has_of_user() || pass.inputs().kernel_events == 0 {
        return Ok(Vec::new());
    }
    let mut interactions = interactions::of(path, input.options(), rules)?;
    let (_, mut answer) = measured(&mut interactions)?;
    let vocabulary = interactions.vocabulary();
    let by_program: HashSet<&str> = vocabulary.program_queues().map(|queue| vocabulary.program_queue_name(queue)).collect();
    answer.retain(|queue| by_program.contains(queue.name.as_str()) && known.iter().all(|other| other.name != queue.name));
    Ok(answer)
}

/// Returns the number of interactions, and the queues measured from them.
fn measured(interactions: &mut Interactions) -> anyhow::Result<(u64, Vec<QueueAnswer>)> {
    let mut queues = QueuesOfMachines::default();
    let count = interactions.each(|_, interaction, begin| {
        queues.begin_at(begin);
        queues.interaction(interaction);
    })?;
    if let Some(end) = interactions.until() {
        queues.until(end);
    }
    Ok((count, queues.answer(interactions.vocabulary())))
}

fn of_log(input: &Input, length: Length, mut log: Interactions) -> anyhow::Result<ExitCode> {
    let (count, answer) = measured(&mut log)?;
    machine_log::write(input, count, &answer, |out| match answer.is_empty() {
        true => writeln!(out, "this machine log has no queue"),
        false => print(out, &answer, length),
    })
}

/// Number of rows for which the first screen has room, and of sentences about uncertain depths.
const FIRST_ROWS: usize = 15;
const FIRST_SENTENCES: usize = 2;
/// Share of the time from which a full queue counts as a limit.
const OFTEN_FULL_SHARE: f64 = 0.5;
/// Positions of columns.
const FULL_COLUMN: usize = 4;
const LOST_COLUMN: usize = 14;

pub fn print(out: &mut impl Write, answer: &[QueueAnswer], length: Length) -> io::Result<()> {
    if answer.is_empty() {
        return writeln!(out, "this trace has no queue probes");
    }
    let mut table = Table::new(&[
        "queue",
        "from -> to",
        "~>capacity",
        ">rate",
        ">full",
        ">empty",
        ">depth p50",
        "~>p99",
        "~>max",
        "~>batch p50",
        "~>max",
        "~>residence p50",
        "~>p99",
        "~>signals/item",
        ">lost",
    ]);
    for queue in answer {
        let whole = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), number);
        let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
        let time = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), duration);
        let speed = match (queue.bytes_per_s, queue.items_per_s) {
            (Some(speed), _) => format!("{}/s", bytes(speed as u64)),
            (None, Some(speed)) => rate(speed, "items"),
            (None, None) => "-".to_owned(),
        };
        table.row([
            queue.name.clone(),
            format!("{} -> {}", thread_names(&queue.producers), thread_names(&queue.consumers)),
            whole(queue.capacity),
            speed,
            share(queue.full_share),
            share(queue.empty_share),
            whole(queue.depth.p50),
            whole(queue.depth.p99),
            whole(queue.depth.max),
            whole(queue.batch.p50),
            whole(queue.batch.max),
            time(queue.residence_ns.p50_ns),
            time(queue.residence_ns.p99_ns),
            queue.signals_per_item.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}")),
            number(queue.lost),
        ]);
        table.mark_if(queue.full_share.is_some_and(|share| share >= OFTEN_FULL_SHARE), FULL_COLUMN, Role::Limit);
        table.mark_if(queue.lost > 0, LOST_COLUMN, Role::Limit);
    }
    table.print_first(out, length.rows(FIRST_ROWS))?;
    let uncertain = answer.iter().filter_map(|queue| Some((queue, queue.uncertain_share.filter(|&share| share > 0.0)?)));
    for (queue, share) in uncertain.take(length.rows(FIRST_SENTENCES).unwrap_or(usize::MAX)) {
        let text = format!(
            "  {}: after lost events the depth was not reported again for {} of the time; there it is an estimate",
            plain(queue.name.clone()),
            percent(share)
        );
        writeln!(out, "{}", painted(Role::Caveat, text))?;
    }
    Ok(())
}

fn thread_names(names: &[String]) -> String {
    match names {
        [] => "?".to_owned(),
        [one] => one.clone(),
        [one, rest @ ..] => format!("{one} +{}", rest.len()),
    }
}
