//! Which state has the critical path at which time, as lines of blocks.

use crate::table::{duration, percent, Table};
use longpole_analysis::participation::Participation;
use std::io::{self, Write};

const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Who has less than this share in every window is not worth a line.
const LEAST: f64 = 0.1;

pub fn print(out: &mut impl Write, path: &Participation, stability: Option<f64>) -> io::Result<()> {
    let width = (path.end_ns - path.start_ns) / path.windows.max(1) as u64;
    writeln!(out, "\nOVER TIME (share of the path in {} windows of {})", path.windows, duration(width))?;
    let mut table = Table::new(&["", ""]);
    for row in path.rows.iter().filter(|row| row.shares.iter().any(|&share| share >= LEAST)) {
        table.row([format!("{}::{}", row.machine, row.state), blocks(&row.shares)]);
    }
    if path.others.iter().any(|&share| share >= LEAST) {
        table.row(["(others)".to_owned(), blocks(&path.others)]);
    }
    table.print(out)?;
    match stability {
        Some(share) => {
            writeln!(out, "what is first has the most in {} of all parts that are a quarter of it long", percent(share))
        }
        None => Ok(()),
    }
}

/// What is there is seen.
fn blocks(shares: &[f64]) -> String {
    let most = (BLOCKS.len() - 1) as f64;
    let block = |share: f64| if share > 0.0 { (share * most).round().clamp(1.0, most) as usize } else { 0 };
    shares.iter().map(|&share| BLOCKS[block(share)]).collect()
}
