//! `longpole cpu`: shows the time of CPUs and threads, from the kernel's events and from probes,
//! and the time of functions, from stack samples.

use crate::input::scope::Scope;
use crate::input::Input;
use crate::passes::kernel::{self, Reading};
use crate::passes::probes;
use crate::passes::samples as stack_samples;
use crate::render::length::Length;
use crate::render::stacks;
use crate::render::style::{title, Role};
use crate::render::table::{duration, number, percent, Table};
use crate::render::terminal::output;
use crate::verbs::answers::sched::threads_of_others;
use anyhow::{bail, Context};
use longpole_analysis::pipeline::kernel_sources;
use longpole_analysis::pipeline::samples::StackSamples;
use longpole_analysis::report::ProbePass;
use longpole_analysis::scheduling::cpus::{CpuTimes, WakerLine};
use longpole_analysis::scheduling::probed::{Cpu, CpuTime, KernelTime, ThreadTime};
use longpole_analysis::scheduling::sampled_waits::SampledWaits;
use longpole_trace::Moment;
use std::io::{self, Write};
use std::process::ExitCode;

/// Maximum number of states per thread in the table, because programs can make names at run time.
const MAX_ROWS: usize = 100;

/// Measure the time of CPUs, and of threads in each state
#[derive(clap::Args)]
#[command(mut_arg("all", crate::input::all_of_threads))]
#[command(after_help = "\
With kernel events (`longpole record --kernel sched,irq,softirq`): the time of each CPU, and for
each thread how long it ran, waited for a CPU, and was blocked. Probes do not see the scheduler: a
thread that is ready but not running counts as being in its state.

Examples:
  longpole cpu                               of the newest recording
  longpole cpu --begin +1s --end +2s         only the second second
  longpole cpu --functions                   by samples (`longpole record --stacks 99`): the functions that took the time
  longpole cpu --folded | flamegraph.pl      all stacks, a line each, as flame graphs take them
  longpole cpu --folded --off-cpu            where threads waited, by time
  longpole cpu --json | jq '.threads[0].states'")]
pub struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    length: Length,
    /// Show the functions that took the time, from stack samples
    #[arg(long)]
    functions: bool,
    /// Print all sampled stacks, folded: `process;frame;frame count`; kernel frames have `_[k]`
    #[arg(long, conflicts_with_all = ["functions", "json"])]
    folded: bool,
    /// With --folded: the stacks in which threads waited, with the time in ns instead of a count
    #[arg(long, requires = "folded")]
    off_cpu: bool,
    /// With --functions or --folded: only this process
    #[arg(short, long, value_name = "PID")]
    pid: Option<i32>,
    /// With --functions: number of functions to show [default: 15; with --full all]
    #[arg(short = 'n', long, value_name = "COUNT")]
    top: Option<usize>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    for (given, option) in [(args.pid.is_some(), "--pid"), (args.top.is_some(), "-n")] {
        if given && !args.functions && !args.folded {
            let text = format!("{option} needs stack samples: longpole cpu --functions {option} …");
            return Err(crate::WrongUsage(text).into());
        }
    }
    if args.off_cpu {
        return waits(&args);
    }
    if args.folded || (args.functions && !args.input.json) {
        return functions(&args);
    }
    let mut pass = ProbePass::with_rules(args.input.rules()?).context("a built-in rule file is wrong")?;
    let mut times = CpuTimes::default();
    let mut samples = StackSamples::new(args.input.sampled()?, args.pid, false);
    let reading = kernel::read_with(&args.input, &mut times, |_, _, catalogue, item, in_part| {
        samples.item(catalogue, item, in_part);
        if in_part {
            pass.item(catalogue, item);
        }
    })?;
    let Reading { linux, trace, events } = &reading;
    let mut answer = pass.cpu(trace.probe_cost_ns());
    samples.add(&mut answer);
    if linux.counts.switches.in_all == 0 {
        // The parts of the answer from probes and samples need no scheduler events.
        let others = !answer.threads.is_empty() || answer.samples.is_some();
        match &linux.switch_filter {
            Some(filter) if others => eprintln!("longpole: note: {}", kernel::filtered(filter)),
            _ if others || kernel_sources(&args.input.completed_paths()?, trace) == 0 => {}
            _ => kernel::needs_switches(&args.input, linux)?,
        }
        let whole = probes::ProbeReading { pass, events: *events, trace: reading.trace, from_begin: true };
        return probes::write(&args.input, &whole, &answer, |out, answer| match (&answer.functions, answer.samples) {
            // The trace contains nothing but samples.
            (Some(functions), Some(counts)) if answer.threads.is_empty() => {
                stacks::print(out, functions, counts, args.functions_shown())?;
                answer.stack_gaps.as_ref().map_or(Ok(()), |gaps| stacks::print_gaps(out, gaps))
            }
            _ => print_probes(out, answer, args.length.rows(FIRST_ALONE)),
        });
    }
    if answer.threads.is_empty() && answer.samples.is_none() {
        // The trace has switches, but possibly none in the requested part.
        kernel::needs_switches(&args.input, linux)?;
    }
    answer.add_kernel(&times, linux, !trace.catalogue().foreign_pids);
    let scope = Scope::of(&args.input, trace);
    let covers = |thread: &ThreadTime| thread.tid.is_none_or(|tid| scope.covers(linux, thread.pid, tid));
    let has_probes = answer.threads.iter().any(|thread| !thread.states.is_empty());
    kernel::write(&args.input, &reading, &answer, |out, answer| {
        print_kernel(out, answer, covers, (args.length, has_probes))?;
        if has_probes {
            writeln!(out, "\n{}", title("BY THEIR PROBES"))?;
            print_probes(out, answer, args.length.rows(FIRST_OF_TWO))?;
        }
        Ok(())
    })
}

impl Args {
    fn functions_shown(&self) -> usize {
        self.top.or(self.length.rows(FIRST_ALONE)).unwrap_or(usize::MAX)
    }
}

/// Reads and prints only the samples.
fn functions(args: &Args) -> anyhow::Result<ExitCode> {
    let mut samples = StackSamples::new(args.input.sampled()?, args.pid, args.folded);
    let trace = stack_samples::read(&args.input, &mut samples)?;
    let mut out = if args.folded { output::raw() } else { output::text() };
    if args.folded {
        samples.lines().iter().try_for_each(|line| writeln!(out, "{line}"))?;
        stacks::footer(&mut io::stderr(), samples.counts())?;
        stacks::report_gaps(&samples.gaps());
    } else {
        stacks::print(&mut out, &samples.functions(), samples.counts(), args.functions_shown())?;
        stacks::print_gaps(&mut out, &samples.gaps())?;
    }
    out.flush()?;
    Ok(if trace.is_damaged() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints the stacks of waits. The kernel's events say how long each wait was, so that the trace is
/// read twice. Of a wait that is not completely in the requested part, the time within counts; its
/// sample may come after that part.
fn waits(args: &Args) -> anyhow::Result<ExitCode> {
    let mut waits = SampledWaits::default();
    let whole = args.input.whole();
    let reading = kernel::read_with(&whole, &mut waits, |linux, waits, catalogue, item, _| waits.item(linux, catalogue, item))?;
    kernel::needs_switches(&whole, &reading.linux)?;
    let start_ns = reading.trace.start_ns().unwrap_or(0);
    let resolved = |moment: Option<Moment>| moment.map(|moment| moment.resolve(start_ns));
    // The end of a part belongs to it.
    let end = resolved(args.input.end).map_or(i64::MAX, |end| end.saturating_add(1));
    let range = resolved(args.input.begin).unwrap_or(i64::MIN)..end;
    let mut samples = StackSamples::new(whole.sampled()?, args.pid, true).waits(waits.all(), range, false);
    let trace = stack_samples::read_up_to_last(&whole, &mut samples)?;
    let counts = samples.counts();
    if counts.busy == 0 {
        match args.input.begin.or(args.input.end) {
            Some(_) => bail!("the requested part holds no stacks of waits; leave --begin and --end out to see if the trace holds some"),
            None => bail!("the trace holds no stacks of waits; record them as root with `longpole record --stacks-waiting HZ`"),
        }
    }
    let mut out = output::raw();
    samples.lines().iter().try_for_each(|line| writeln!(out, "{line}"))?;
    out.flush()?;
    eprintln!("longpole: {} sampled waits, {} lost; each line ends with the time in ns", number(counts.busy), number(counts.lost));
    stacks::report_gaps(&samples.gaps());
    Ok(if trace.is_damaged() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Number of rows for which the first screen has room: of CPUs, of threads, of threads if the trace
/// has probes, and of a table that stands alone.
const FIRST_CPUS: usize = 4;
const FIRST_THREADS: usize = 10;
const FIRST_OF_TWO: usize = 4;
const FIRST_ALONE: usize = 15;
/// Share of a CPU's time from which the CPU counts as fully used.
const FULLY_USED: f64 = 0.95;

fn print_kernel(
    out: &mut impl Write,
    answer: &Cpu,
    covers: impl Fn(&ThreadTime) -> bool,
    (length, has_probes): (Length, bool),
) -> io::Result<()> {
    cpu_table(&answer.cpus).print_first(out, length.rows(FIRST_CPUS))?;
    writeln!(out)?;
    let with_kernel = answer.threads.iter().filter_map(|thread| Some((thread, thread.kernel.as_ref()?)));
    let of_scope = with_kernel.clone().filter(|(thread, _)| covers(thread));
    let others = with_kernel.count() - of_scope.clone().count();
    let (active, still): (Vec<(&ThreadTime, &KernelTime)>, Vec<_>) =
        of_scope.partition(|(thread, _)| thread.running_ns.unwrap_or(0) + thread.runnable_ns.unwrap_or(0) > 0);
    thread_table(&active).print_first(out, length.rows(if has_probes { FIRST_OF_TWO } else { FIRST_THREADS }))?;
    threads_of_others(out, others)?;
    if !length.is_full() {
        return Ok(());
    }
    if !still.is_empty() {
        writeln!(out, "  {} threads neither ran nor were ready to run", number(still.len() as u64))?;
    }
    print_blocked(out, &active)
}

fn cpu_table(cpus: &[CpuTime]) -> Table {
    let mut table = Table::new(&[
        "CPU",
        ">time",
        "~>threads",
        ">% threads",
        "~>irq",
        ">% irq",
        "~>softirq",
        ">% softirq",
        "~>idle",
        ">% idle",
        ">unknown",
        ">lost",
    ]);
    for cpu in cpus {
        let share = |ns: u64| if cpu.total_ns > 0 { percent(ns as f64 / cpu.total_ns as f64) } else { "-".to_owned() };
        table.row([
            cpu.cpu.to_string(),
            duration(cpu.total_ns),
            duration(cpu.thread_ns),
            share(cpu.thread_ns),
            duration(cpu.irq_ns),
            share(cpu.irq_ns),
            duration(cpu.softirq_ns),
            share(cpu.softirq_ns),
            duration(cpu.idle_ns),
            share(cpu.idle_ns),
            duration(cpu.unknown_ns),
            number(cpu.lost),
        ]);
        table.mark_if(cpu.lost > 0, LOST_COLUMN, Role::Limit);
        table.mark_if(cpu.thread_ns as f64 >= FULLY_USED * cpu.total_ns.max(1) as f64, USED_COLUMN, Role::Limit);
    }
    table
}

fn thread_table(threads: &[(&ThreadTime, &KernelTime)]) -> Table {
    let mut table = Table::new(&[
        "thread",
        ">tid",
        ">running",
        "~>in calls",
        "~>interrupted",
        ">runnable",
        ">blocked",
        "~>unknown",
        "~>runs",
        "~>mean",
        "~>max",
        "~used CPUs",
        "~allowed CPUs",
        "~>migrations",
        "~woken by",
    ]);
    let exact = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    for (thread, kernel) in threads {
        let cpus: Vec<String> = thread.used_cpus.iter().flatten().map(u32::to_string).collect();
        let instances = thread.instance_ns.as_ref();
        table.row([
            thread.name.clone(),
            thread.tid.map_or_else(String::new, |tid| tid.to_string()),
            exact(thread.running_ns),
            exact(kernel.syscall_ns),
            duration(kernel.interrupted_ns),
            exact(thread.runnable_ns),
            exact(thread.blocked_ns),
            duration(kernel.unknown_ns),
            thread.instances.map_or_else(String::new, number),
            exact(instances.map(|times| times.mean.round() as u64)),
            exact(instances.map(|times| times.max)),
            cpus.join(","),
            allowed(thread, kernel),
            thread.migrations.map_or_else(String::new, number),
            kernel.wakers.first().map_or_else(String::new, waker),
        ]);
    }
    table
}

/// Maximum number of reasons per thread in the table.
const MAX_REASONS: usize = 3;

fn print_blocked(out: &mut impl Write, active: &[(&ThreadTime, &KernelTime)]) -> io::Result<()> {
    writeln!(out, "\n{}", title("BLOCKED IN"))?;
    let mut table = Table::new(&["thread", ">tid", "reason", ">time", ">share", ">count"]);
    for (thread, _) in active {
        for (at, blocked) in thread.blocked.iter().flatten().take(MAX_REASONS).enumerate() {
            let first = |text: String| if at == 0 { text } else { String::new() };
            table.row([
                first(thread.name.clone()),
                first(thread.tid.map_or_else(String::new, |tid| tid.to_string())),
                blocked.reason.clone(),
                duration(blocked.ns),
                percent(blocked.share),
                number(blocked.count),
            ]);
        }
    }
    table.print(out)
}

fn list(cpus: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for range in cpus.chunk_by(|a, b| a + 1 == *b) {
        match range {
            [one] => parts.push(one.to_string()),
            [first, .., last] => parts.push(format!("{first}-{last}")),
            [] => {}
        }
    }
    parts.join(",")
}

/// Maximum number of changes of a CPU mask that are shown one by one.
const MAX_MASKS: u64 = 4;

/// Returns the CPUs on which the thread may run: at the begin, and after each change, or else the
/// number of changes.
fn allowed(thread: &ThreadTime, kernel: &KernelTime) -> String {
    let begin = thread.allowed_cpus.as_ref().map_or_else(|| "-".to_owned(), |cpus| list(cpus));
    match kernel.allowed_change_count {
        0 => begin,
        1..=MAX_MASKS => {
            let mask = |cpus: &Option<Vec<u32>>| cpus.as_ref().map_or_else(|| "?".to_owned(), |cpus| list(cpus));
            let masks: Vec<String> = kernel.allowed_changes.iter().map(|change| mask(&change.allowed_cpus)).collect();
            format!("{begin}, then {}", masks.join(", then "))
        }
        changes => format!("{begin}, changed {} times", number(changes)),
    }
}

/// Positions in the table of CPUs.
const USED_COLUMN: usize = 3;
const LOST_COLUMN: usize = 11;

/// Returns the name of an interrupt, the CPUs on which it ran, and those on which it may run.
fn waker(waker: &WakerLine) -> String {
    let mask = waker.allowed_cpus.as_ref().map_or_else(String::new, |cpus| format!(" of {}", list(cpus)));
    format!("{} on {}{mask}", waker.name, list(&waker.cpus))
}

fn print_probes(out: &mut impl Write, answer: &Cpu, most: Option<usize>) -> io::Result<()> {
    if answer.threads.is_empty() {
        return writeln!(out, "no thread of this trace has an event");
    }
    let mut table = Table::new(&["thread", ">tid", ">time", "~>activities", "state", ">in it", ">share", "~>probes", "", ">lost"]);
    for thread in &answer.threads {
        for (at, state) in thread.states.iter().take(MAX_ROWS).enumerate() {
            let first = |text: String| if at == 0 { text } else { String::new() };
            // With kernel events, the instances are the scheduler's and not activities.
            let activities = thread.instances.filter(|_| thread.kernel.is_none());
            table.row([
                first(thread.name.clone()),
                first(thread.tid.map_or_else(String::new, |tid| tid.to_string())),
                first(duration(thread.total_ns)),
                first(activities.map_or_else(String::new, number)),
                state.state.clone(),
                duration(state.ns),
                percent(state.share),
                if answer.probe_cost_ns.is_some() { duration(state.probe_ns) } else { "-".to_owned() },
                if state.idle { "idle".to_owned() } else { String::new() },
                first(number(thread.lost)),
            ]);
        }
        if let Some(more) = thread.states.len().checked_sub(MAX_ROWS).filter(|&more| more > 0) {
            table.row(["", "", "", "", &format!("({} more states: --json)", number(more as u64))]);
        }
    }
    table.print_first(out, most)?;
    if !answer.machines.is_empty() {
        writeln!(out, "\n{}", title("DECLARED MACHINES"))?;
        let mut table = Table::new(&["machine", "state", ">in it"]);
        for machine in &answer.machines {
            table.row([machine.machine.clone(), machine.state.clone(), duration(machine.ns)]);
        }
        table.print_first(out, most)?;
    }
    Ok(())
}
