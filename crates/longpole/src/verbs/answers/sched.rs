//! `longpole sched`: measures the time from a thread's wake-up to its start, and shows which
//! threads had the CPU meanwhile.

use crate::input::scope::Scope;
use crate::input::Input;
use crate::passes::kernel;
use crate::render::length::Length;
use crate::render::table::{duration, number, percent, Table};
use longpole_analysis::scheduling::wakeups::{Delays, SchedLine};
use std::io::{self, Write};
use std::process::ExitCode;

/// Measure how long woken threads wait for a CPU, and which threads have it meanwhile
#[derive(clap::Args)]
#[command(mut_arg("all", crate::input::all_of_threads))]
#[command(after_help = "\
Percentiles are within 1 %; count, min, mean, max and total are exact. Needs kernel events: `longpole record --kernel sched,irq,softirq`.

Examples:
  longpole sched                             the threads of the command in the newest recording
  longpole sched --all --full                all threads of the host
  longpole sched --begin +1s --end +2s       only the second second
  longpole sched --json | jq '.[] | select(.p99_ns > 1000000) | .name'")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    length: Length,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut delays = Delays::default();
    let reading = kernel::read(&args.input, &mut delays, |_, _| {})?;
    kernel::needs_switches(&args.input, &reading.linux)?;
    let mut answer = delays.answer(&reading.linux);
    let all = answer.len();
    let scope = Scope::of(&args.input, &reading.trace);
    answer.retain(|line| scope.covers(&reading.linux, line.pid, line.tid));
    kernel::write(&args.input, &reading, &answer, |out, answer| {
        print(out, answer, args.length)?;
        match scope.is_command() {
            true => threads_of_others(out, all - answer.len()),
            false => Ok(()),
        }
    })
}

/// Prints how many threads of other programs the answer leaves out.
pub fn threads_of_others(out: &mut impl Write, count: usize) -> io::Result<()> {
    match count {
        0 => Ok(()),
        1 => writeln!(out, "  1 thread of the rest of the host: --all"),
        count => writeln!(out, "  {} threads of the rest of the host: --all", number(count as u64)),
    }
}

/// Number of rows for which the first screen has room.
const FIRST_ROWS: usize = 16;

fn print(out: &mut impl Write, answer: &[SchedLine], length: Length) -> io::Result<()> {
    if answer.is_empty() {
        return writeln!(out, "no thread was woken and started");
    }
    let mut table = Table::new(&[
        "thread",
        ">tid",
        ">wake-ups",
        "~>min",
        ">mean",
        "~>p50",
        ">p99",
        "~>max",
        ">total",
        "~>preempted",
        "~>for",
        "CPU used by",
        "~blocked in",
    ]);
    for line in answer {
        let exact = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
        let delay = &line.delay;
        let kept = line.kept_by.iter().take(3).map(|keeper| format!("{} {}", keeper.name, percent(keeper.share)));
        table.row([
            line.name.clone(),
            line.tid.to_string(),
            number(delay.count),
            exact(delay.min_ns),
            exact(delay.mean_ns.map(|ns| ns.round() as u64)),
            exact(delay.p50_ns),
            exact(delay.p99_ns),
            exact(delay.max_ns),
            duration(delay.total_ns),
            number(line.preempted.count),
            duration(line.preempted.total_ns),
            kept.collect::<Vec<_>>().join(", "),
            line.blocked
                .iter()
                .take(2)
                .map(|blocked| format!("{} {}", blocked.reason, percent(blocked.share)))
                .collect::<Vec<_>>()
                .join(", "),
        ]);
    }
    table.print_first(out, length.rows(FIRST_ROWS))
}
