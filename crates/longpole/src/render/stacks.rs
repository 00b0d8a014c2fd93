//! Prints stack samples: the functions that took the time, of all samples or of a critical path.

use crate::render::profile;
use crate::render::table::{number, percent, plain, Table};
use longpole_analysis::critical_path::samples::CriticalFunction;
use longpole_analysis::profile::busy_functions;
use longpole_analysis::scheduling::stacks::{Counts, FunctionShare};
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
    let mut table = Table::new(&["function (sampled)", "~module", "process", ">share of path", "~>95 %", ">CPU-sample rank", "~>share"]);
    for row in functions.iter().filter(|row| row.path_samples > 0) {
        table.row([
            profile::shortened(&row.function),
            row.module.clone(),
            row.process.clone(),
            percent(row.share),
            format!("{} - {}", percent(row.low), percent(row.high)),
            number(row.profile_rank),
            percent(row.profile_share),
        ]);
    }
    table.print_first(out, most)?;
    let busy: Vec<String> = busy_functions(functions).into_iter().map(profile::busy_function).collect();
    if !busy.is_empty() {
        writeln!(out, "busy, but hardly critical: {}", plain(busy.join(", ")))?;
    }
    Ok(())
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
