//! How fast lines are read: `lines_rate LOG` reads a machine log from memory, ten times, and prints
//! the ns per line of the fastest pass: each line parsed, and with those that repeat an earlier one
//! taken from what was kept.

use longpole_machine_log::{Next, Reader, Repeats};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: lines_rate LOG")?;
    let log = std::fs::read(path)?;
    let (mut parsed, mut kept, mut repeats) = (f64::INFINITY, f64::INFINITY, 0);
    for _ in 0..10 {
        let begin = Instant::now();
        let (mut reader, mut lines) = (Reader::new(&log[..]), 0u64);
        while reader.next_line()?.is_some() {
            lines += 1;
        }
        parsed = parsed.min(begin.elapsed().as_nanos() as f64 / lines as f64);

        let begin = Instant::now();
        let (mut reader, mut known) = (Reader::new(&log[..]), Repeats::default());
        repeats = 0;
        while let Some(next) = reader.next_with(&mut known)? {
            match next {
                Next::Line { slot, .. } => slot.keep(()),
                Next::Repeat { .. } => repeats += 100,
            }
        }
        kept = kept.min(begin.elapsed().as_nanos() as f64 / lines as f64);
        repeats /= lines.max(1);
    }
    println!("parsed: {parsed:.0} ns a line; kept: {kept:.0} ns a line, {repeats} % of the lines are repeats");
    Ok(())
}
