//! Prints stack samples: the functions that took the time, of all samples or of a critical path.

use crate::render::profile;
use crate::render::style::{painted, title, Role};
use crate::render::table::{number, percent, plain, Table};
use longpole_analysis::critical_path::samples::{CriticalFunction, EndedWait};
use longpole_analysis::report::profile::busy_functions;
use longpole_analysis::scheduling::stack_gaps::{Remedy, StackGaps, Unnamed};
use longpole_analysis::scheduling::stacks::{Counts, FunctionShare};
use longpole_analysis::scheduling::time_kind::TimeKind;
use longpole_symbols::Runtime;
use std::io::{self, Write};

pub fn print(out: &mut impl Write, functions: &[FunctionShare], counts: Counts, most: usize) -> io::Result<()> {
    if counts.busy > 0 {
        let mut table = Table::new(&["function", "~module", "process", "~>pid", ">self", "~>95 %", ">total", ">samples"]);
        for row in functions {
            table.row([
                profile::shortened(&row.function),
                row.module.clone(),
                row.process.clone(),
                row.pid.map_or_else(String::new, |pid| pid.to_string()),
                percent(row.self_share),
                format!("{} - {}", percent(row.self_low), percent(row.self_high)),
                percent(row.total_share),
                number(row.samples),
            ]);
        }
        table.print_first(out, Some(most))?;
    }
    footer(out, counts)
}

/// Prints shares of a critical path, next to those of a profile.
pub fn print_critical(out: &mut impl Write, functions: &[CriticalFunction], most: Option<usize>) -> io::Result<()> {
    let has_waits = functions.iter().any(|row| row.time != TimeKind::Running);
    let waits: &[&str] = if has_waits { &["time"] } else { &[] };
    let rest = ["~module", "~place", "process", ">share of path", "~>95 %", ">CPU-sample rank", "~>share"];
    let mut table = Table::new(&[&["function (sampled)"], waits, &rest].concat());
    for row in functions.iter().filter(|row| row.path_samples > 0) {
        let mut cells = vec![profile::shortened(&row.function)];
        cells.extend(has_waits.then(|| row.time.text().to_owned()));
        cells.extend([
            row.module.clone(),
            place(row),
            row.process.clone(),
            percent(row.share),
            format!("{} - {}", percent(row.low), percent(row.high)),
            row.profile_rank.map_or_else(|| "-".to_owned(), number),
            row.profile_share.map_or_else(|| "-".to_owned(), percent),
        ]);
        table.row(cells);
    }
    table.print_first(out, most)?;
    let busy: Vec<String> = busy_functions(functions).into_iter().map(profile::busy_function).collect();
    if !busy.is_empty() {
        writeln!(out, "busy, but hardly critical: {}", plain(busy.join(", ")))?;
    }
    Ok(())
}

/// Returns the file and line of a function, as far as they are known.
fn place(row: &CriticalFunction) -> String {
    let file = row.file.as_deref().map_or("", |file| file.rsplit('/').next().unwrap_or(file));
    row.line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"))
}

/// Number of pairs of functions for which the first screen has room.
const FIRST_PAIRS: usize = 5;
/// Maximum number for people; the JSON answer contains all.
const MAX_PAIRS: usize = 15;
/// Number of functions of a stack that are shown.
const SHOWN_FRAMES: usize = 12;

/// Prints where threads waited for other threads, and where those ended the waits; with the stacks
/// of both if all rows are shown.
pub fn print_ended_waits(out: &mut impl Write, ended_waits: &[EndedWait], full: bool) -> io::Result<()> {
    if ended_waits.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", title("WAITS FOR OTHER THREADS (they may contain each other)"))?;
    let mut table = Table::new(&["waits in", "process", "woken from", "process", ">waits", ">share of path"]);
    for row in ended_waits {
        table.row([
            profile::shortened(&row.waiter.function),
            row.waiter.process.clone(),
            profile::shortened(&row.waker.function),
            row.waker.process.clone(),
            number(row.count.round() as u64),
            percent(row.share),
        ]);
    }
    table.print_first(out, Some(if full { MAX_PAIRS } else { FIRST_PAIRS }))?;
    if !full {
        return Ok(());
    }
    for EndedWait { waiter, waker, .. } in ended_waits.iter().take(FIRST_PAIRS) {
        for (what, end) in [("waits", waiter), ("woken", waker)] {
            let stack: Vec<String> = end.stack.iter().take(SHOWN_FRAMES).map(|name| profile::shortened(name)).collect();
            writeln!(out, "  {what}: {}: {}", plain(end.process.clone()), plain(stack.join(" < ")))?;
        }
    }
    Ok(())
}

/// Share of the stacks from which processes and modules are mentioned, and their largest number in
/// a line.
const WORTH_A_WORD: f64 = 0.01;
const MAX_LISTED: usize = 3;

/// Prints which part of the stacks lacks its outermost functions, and which code has no names, with
/// what would bring them.
pub fn print_gaps(out: &mut impl Write, gaps: &StackGaps) -> io::Result<()> {
    for line in gap_lines(gaps) {
        writeln!(out, "{}", painted(Role::Caveat, plain(line)))?;
    }
    Ok(())
}

/// Prints the same on stderr, for verbs whose output is for other programs.
pub fn report_gaps(gaps: &StackGaps) {
    gap_lines(gaps).into_iter().for_each(|line| eprintln!("longpole: {}", plain(line)));
}

fn gap_lines(gaps: &StackGaps) -> Vec<String> {
    let mut lines = Vec::new();
    if let (Some(count @ 1..), Some(share)) = (gaps.truncated, gaps.truncated_share) {
        let (share, count) = (percent(share), number(count));
        let most = gaps.truncated_in.iter().filter(|it| it.share >= WORTH_A_WORD).take(MAX_LISTED);
        let of: Vec<String> = most.map(|it| format!("{} {}", it.process, percent(it.share))).collect();
        let of = if of.is_empty() { String::new() } else { format!(": {}", of.join(", ")) };
        lines.push(format!("{share} of the stacks ({count} samples{of}) end before the first function of their thread"));
    }
    lines.extend(runtimes(gaps, WORTH_A_WORD).map(runtime_line));
    let of = |remedy: Remedy| {
        let unnamed = gaps.unnamed.iter().filter(move |it| it.remedy == remedy && it.share >= WORTH_A_WORD);
        unnamed.take(MAX_LISTED).map(called).collect::<Vec<_>>().join(", ")
    };
    for (remedy, how) in [
        (Remedy::DebugInformation, "their debug packages, or `debuginfod-find debuginfo FILE`, name them in recordings made afterwards"),
        (Remedy::KernelSymbols, "a recording by root, or with kernel.kptr_restrict=0, has the names of the kernel's functions"),
    ] {
        let unnamed = of(remedy);
        if !unnamed.is_empty() {
            lines.push(format!("without names: {unnamed}; {how}"));
        }
    }
    lines
}

/// Runtimes whose functions have no names in this share of the stacks.
fn runtimes(gaps: &StackGaps, least: f64) -> impl Iterator<Item = (&Unnamed, Runtime)> {
    let meant = gaps.unnamed.iter().filter(move |it| it.share >= least);
    meant.filter_map(|it| Some((it, it.runtime?))).take(MAX_LISTED)
}

fn runtime_line((it, runtime): (&Unnamed, Runtime)) -> String {
    let of = match runtime {
        Runtime::Other => "functions that were generated".to_owned(),
        runtime => format!("functions of {}", runtime.name()),
    };
    let process = it.process.as_ref().map_or_else(String::new, |process| format!(" in {process}"));
    format!("without names: {of}{process} ({} of the stacks); {}", percent(it.share), runtime.remedy())
}

/// Share of the stacks from which a report mentions the runtime whose functions have no names.
const WORTH_A_LINE: f64 = 0.05;

/// Returns a line for each runtime whose functions are a considerable part and have no names.
pub fn unnamed_runtimes(gaps: &StackGaps) -> Vec<String> {
    runtimes(gaps, WORTH_A_LINE).map(|it| plain(runtime_line(it))).collect()
}

fn called(it: &Unnamed) -> String {
    let share = percent(it.share);
    match &it.process {
        Some(process) if *process != it.module => format!("{} in {process} ({share} of the stacks)", it.module),
        _ => format!("{} ({share} of the stacks)", it.module),
    }
}

pub fn footer(out: &mut impl Write, counts: Counts) -> io::Result<()> {
    writeln!(
        out,
        "\n{} samples of busy CPUs, {} lost; interrupts of an idle CPU are not among them",
        number(counts.busy),
        number(counts.lost)
    )?;
    if counts.beyond > 0 {
        writeln!(out, "{} samples are more than this answer can hold; some are left out", number(counts.beyond))?;
    }
    Ok(())
}
