//! `longpole irq`: measures interrupts and softirqs: how often they occur, how long they take, and
//! how soon the threads start that they wake.

use crate::input::Input;
use crate::passes::kernel;
use crate::render::length::Length;
use crate::render::style::title;
use crate::render::table::{duration, number, Table};
use longpole_analysis::scheduling::interrupts::{Interrupts, IrqLine};
use std::io::{self, Write};
use std::process::ExitCode;

/// Measure interrupts and softirqs: handling time, and the delay to the start of the threads that
/// they wake
#[derive(clap::Args)]
#[command(mut_arg("all", crate::input::all_without_effect))]
#[command(after_help = "\
Percentiles are within 1 %; count, min, mean, max and total are exact. Needs kernel events: `longpole record --kernel sched,irq,softirq`.

Examples:
  longpole irq                               of the newest recording
  longpole irq --threads                     which threads they woke, and where those ran
  longpole irq --json | jq '.[] | select(.kind == \"softirq\") | {name, start}'")]
pub struct Args {
    /// List the delay for each thread, and the CPUs on which it started
    #[arg(long)]
    threads: bool,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    length: Length,
}

/// Number of rows for which the first screen has room, of each table.
const FIRST_HANDLING: usize = 6;
const FIRST_TIMERS: usize = 2;
const FIRST_STARTS: usize = 4;
const FIRST_THREADS: usize = 15;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut interrupts = Interrupts::default();
    let reading = kernel::read(&args.input, &mut interrupts, |_, _| {})?;
    kernel::needs(&args.input, reading.linux.counts.interrupts + reading.linux.counts.expiries, "interrupts", "sched,irq,softirq")?;
    let functions: Vec<u64> = interrupts.functions().collect();
    let symbols = kernel::symbols(&args.input.completed_paths()?, &functions);
    let answer = interrupts.answer(&reading.linux, |address| symbols.name(address));
    kernel::write(&args.input, &reading, &answer, |out, answer| print(out, answer, args.threads, args.length))
}

fn print_late(out: &mut impl Write, answer: &[IrqLine], length: Length) -> io::Result<()> {
    let exact = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    let mut table = Table::new(&["timer", ">count", "~>min", ">mean", "~>p50", ">p99", ">max"]);
    for (line, late) in answer.iter().filter_map(|line| Some((line, line.late.as_ref()?))) {
        table.row([
            line.name.clone(),
            number(late.count),
            exact(late.min_ns),
            exact(late.mean_ns.map(|ns| ns.round() as u64)),
            exact(late.p50_ns),
            exact(late.p99_ns),
            exact(late.max_ns),
        ]);
    }
    if table.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", title("TIMERS: FROM THE EXPIRY TIME TO THE CALL OF THE FUNCTION"))?;
    table.print_first(out, length.rows(FIRST_TIMERS))
}

fn print(out: &mut impl Write, answer: &[IrqLine], threads: bool, length: Length) -> io::Result<()> {
    let exact = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    let cpus = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    if threads && !length.is_full() {
        return print_threads(out, answer, length);
    }
    writeln!(out, "{}", title("HANDLING"))?;
    let mut table = Table::new(&[
        "interrupt",
        "used CPUs",
        ">count",
        ">total",
        "~>min",
        ">mean",
        "~>p50",
        ">p99",
        "~>max",
        "~>raised before p50",
        "~>p99",
    ]);
    for line in answer {
        let times = &line.handling;
        table.row([
            line.name.clone(),
            cpus(&line.cpus),
            number(times.count),
            duration(times.total_ns),
            exact(times.min_ns),
            exact(times.mean_ns.map(|ns| ns.round() as u64)),
            exact(times.p50_ns),
            exact(times.p99_ns),
            exact(times.max_ns),
            exact(line.raise.p50_ns),
            exact(line.raise.p99_ns),
        ]);
    }
    table.print_first(out, length.rows(FIRST_HANDLING))?;
    print_late(out, answer, length)?;
    writeln!(out, "\n{}", title("FROM ITS BEGIN TO THE START OF THE THREAD THAT IT WOKE"))?;
    let mut table = Table::new(&["interrupt", ">count", "~>min", ">mean", "~>p50", ">p99", ">max", "worst"]);
    for line in answer.iter().filter(|line| line.start.count > 0) {
        let times = &line.start;
        let worst = line.worst.first().map_or_else(String::new, |worst| format!("{} ({}) on CPU {}", worst.name, worst.tid, worst.cpu));
        table.row([
            line.name.clone(),
            number(times.count),
            exact(times.min_ns),
            exact(times.mean_ns.map(|ns| ns.round() as u64)),
            exact(times.p50_ns),
            exact(times.p99_ns),
            exact(times.max_ns),
            worst,
        ]);
    }
    if table.is_empty() {
        return writeln!(out, "  none woke a thread whose start was seen");
    }
    table.print_first(out, length.rows(FIRST_STARTS))?;
    match threads {
        true => {
            writeln!(out)?;
            print_threads(out, answer, length)
        }
        false => Ok(()),
    }
}

fn print_threads(out: &mut impl Write, answer: &[IrqLine], length: Length) -> io::Result<()> {
    let exact = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    let cpus = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    writeln!(out, "{}", title("FROM ITS BEGIN TO THE START, BY THREAD"))?;
    let mut table =
        Table::new(&["interrupt", "~used CPUs", "thread", ">tid", "~on CPU", ">count", "~>min", ">mean", "~>p50", ">p99", ">max"]);
    for line in answer {
        for thread in &line.threads {
            table.row([
                line.name.clone(),
                cpus(&thread.irq_cpus),
                thread.name.clone(),
                thread.tid.to_string(),
                cpus(&thread.cpus),
                number(thread.start.count),
                exact(thread.start.min_ns),
                exact(thread.start.mean_ns.map(|ns| ns.round() as u64)),
                exact(thread.start.p50_ns),
                exact(thread.start.p99_ns),
                exact(thread.start.max_ns),
            ]);
        }
    }
    table.print_first(out, length.rows(FIRST_THREADS))
}
