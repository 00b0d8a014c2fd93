//! The share of each state on the critical path over time, as lines of block characters.

use crate::render::style::title;
use crate::render::table::{duration, percent, plain, Table};
use longpole_analysis::critical_path::participation::Participation;
use longpole_analysis::report::Report;
use std::io::{self, Write};

const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Share of the path that a state must reach in at least one window to get a line.
const MIN_SHARE: f64 = 0.1;

pub fn print(out: &mut impl Write, path: &Participation, report: &Report) -> io::Result<()> {
    let width = (path.end_ns - path.start_ns) / path.windows.max(1) as u64;
    if width == 0 {
        return Ok(());
    }
    writeln!(out, "\n{} (share of the path in {} windows of {})", title("OVER TIME"), path.windows, duration(width))?;
    let mut table = Table::new(&["", ""]);
    for row in path.rows.iter().filter(|row| row.shares.iter().any(|&share| share >= MIN_SHARE)) {
        table.row([format!("{}::{}", row.machine, row.state), blocks(&row.shares)]);
    }
    if path.others.iter().any(|&share| share >= MIN_SHARE) {
        table.row(["(others)".to_owned(), blocks(&path.others)]);
    }
    table.print(out)?;
    match report.stability.zip(report.foremost()) {
        Some((share, (machine, state))) => {
            let state = plain(format!("{machine}::{state}"));
            writeln!(out, "of all stretches of a quarter of the path, {state} has the largest share in {}", percent(share))
        }
        None => Ok(()),
    }
}

/// Returns a block character per window. A share above 0 is always visible.
fn blocks(shares: &[f64]) -> String {
    let most = (BLOCKS.len() - 1) as f64;
    let block = |share: f64| if share > 0.0 { (share * most).round().clamp(1.0, most) as usize } else { 0 };
    shares.iter().map(|&share| BLOCKS[block(share)]).collect()
}
