//! `longpole syscalls`: measures entries into the kernel (system calls, page faults, interrupts):
//! number, duration, and errors.

use crate::input::scope::Scope;
use crate::input::Input;
use crate::passes::kernel;
use crate::render::left_out_events;
use crate::render::length::Length;
use crate::render::style::{painted, Role};
use crate::render::table::{duration, number, plain, Table};
use longpole_analysis::scheduling::system_calls::{Calls, SyscallLine};
use std::io::{self, Write};
use std::process::ExitCode;

/// Measure entries into the kernel: system calls with their errors, page faults, interrupts
#[derive(clap::Args)]
#[command(mut_arg("all", crate::input::all_of_threads))]
#[command(after_help = "\
Percentiles are within 1 %; count, min, mean, max and total are exact. Needs kernel events: `longpole record --kernel sched,syscall,fault,irq,softirq`.

Examples:
  longpole syscalls                          of the command in the newest recording
  longpole syscalls --all                    of the whole host
  longpole syscalls --by process             a line per call and process
  longpole syscalls --json | jq '.[] | select(.kind == \"fault\")'
  longpole syscalls --json | jq '.[] | select(.errors != []) | {name, errors}'")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    /// One line per call, or per call and process
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Call)]
    by: By,

    #[command(flatten)]
    length: Length,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    Call,
    Process,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    // Counting by thread takes memory, so it is done only if threads are left out.
    let scope = Scope::of(&args.input, &args.input.open()?);
    let calls = Calls::new(args.by == By::Process);
    let mut calls = if scope.leaves_out() { calls.by_thread() } else { calls };
    let reading = kernel::read(&args.input, &mut calls, |_, _| {})?;
    kernel::needs(&args.input, reading.linux.counts.system_calls + reading.linux.counts.faults, "system calls", "sched,syscall,fault")?;
    let answer = calls.answer_of(&reading.linux, |thread| match thread {
        Some(thread) => scope.covers(&reading.linux, thread.process, thread.tid),
        None => !scope.is_command(),
    });
    let left_out = left_out_events::line(reading.trace.recordings(), &["syscall", "fault"], "sched,syscall,fault,irq,softirq");
    kernel::write(&args.input, &reading, &answer, |out, answer| {
        print(out, answer, args.by, args.length)?;
        left_out.as_ref().map_or(Ok(()), |line| writeln!(out, "\n{}", painted(Role::Caveat, plain(line.clone()))))
    })
}

/// Number of rows for which the first screen has room.
const FIRST_ROWS: usize = 15;

fn print(out: &mut impl Write, answer: &[SyscallLine], by: By, length: Length) -> io::Result<()> {
    let exact = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    let mut columns = vec!["call", ">count", ">total", "~>min", ">mean", "~>p50", ">p99", "~>max", "errors"];
    if by == By::Process {
        columns.splice(0..0, ["process", ">pid"]);
    }
    let mut table = Table::new(&columns);
    for line in answer {
        let errors: Vec<String> = line.errors.iter().map(|error| format!("{} {}", number(error.count), error.name)).collect();
        let mut row = vec![
            line.name.clone(),
            number(line.count),
            exact(line.times.total_ns),
            exact(line.times.min_ns),
            exact(line.times.mean_ns.map(|ns| ns.round() as u64)),
            exact(line.times.p50_ns),
            exact(line.times.p99_ns),
            exact(line.times.max_ns),
            errors.join(", "),
        ];
        if by == By::Process {
            let name = line.process.clone().unwrap_or_else(|| "unknown".to_owned());
            row.splice(0..0, [name, line.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string())]);
        }
        table.row(row);
    }
    table.print_first(out, length.rows(FIRST_ROWS))
}
