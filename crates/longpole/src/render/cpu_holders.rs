//! CPU holders as text: the threads that had the CPU while the path waited for one.

use crate::render::table::{percent, plain};
use longpole_analysis::critical_path::Row;

/// Share of the path below which a wait is not explained to people.
const MIN_SHARE: f64 = 0.05;
const MAX_CPU_HOLDERS: usize = 4;

/// Returns a line for each wait for a CPU that matters.
pub fn lines(rows: &[Row]) -> impl Iterator<Item = String> + '_ {
    rows.iter().filter(|row| row.share >= MIN_SHARE).filter_map(|row| {
        let kept = row.kept_by.as_ref().filter(|kept| !kept.is_empty())?;
        let by: Vec<String> = kept.iter().take(MAX_CPU_HOLDERS).map(|it| format!("{} {}", it.name, percent(it.share))).collect();
        Some(plain(format!("during {}::{} the CPU had: {}", row.machine, row.state, by.join(", "))))
    })
}
