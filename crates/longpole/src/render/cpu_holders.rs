//! CPU holders: the threads that had the CPU while the path waited for one. Computed only if such
//! waits have a considerable share of the path.

use crate::interactions::{self, Interactions};
use crate::render::table::{percent, plain};
use anyhow::Context;
use longpole_analysis::critical_path::cpu_holders::{self, CpuHolders, OccupancyLog};
use longpole_analysis::critical_path::{Answer, Path as Segments, Row};

/// Returns the recorder of CPU occupancy, which must receive the trace while it is read.
pub fn turns() -> OccupancyLog {
    OccupancyLog::new(interactions::SPILL)
}

/// Returns the holders; `None` if waits for a CPU do not matter on this path.
fn find(interactions: &Interactions, turns: &OccupancyLog, answer: &Answer, segments: &Segments) -> anyhow::Result<Option<CpuHolders>> {
    let Some(composer) = interactions.composer().filter(|_| cpu_holders::matter(answer)) else { return Ok(None) };
    let mut found = CpuHolders::new(segments, &interactions.seats());
    turns.tell(composer.linux(), &mut found).context("who had the CPUs cannot be read again")?;
    Ok(Some(found))
}

/// Adds the holders to the rows of the answer. Rows for which the trace does not show them stay
/// without.
pub fn tell(interactions: &Interactions, turns: &OccupancyLog, answer: &mut Answer) -> anyhow::Result<()> {
    let Some(segments) = answer.segments.take() else { return Ok(()) };
    let found = find(interactions, turns, answer, &segments);
    if let (Ok(Some(found)), Some(composer)) = (&found, interactions.composer()) {
        found.tell(composer.linux(), &segments, answer);
    }
    answer.segments = Some(segments);
    found.map(drop)
}

/// Share of the path below which a wait is not explained to people.
const LEAST_SHARE: f64 = 0.05;
const MOST_CPU_HOLDERS: usize = 4;

/// Returns a line for each wait for a CPU that matters.
pub fn lines(rows: &[Row]) -> impl Iterator<Item = String> + '_ {
    rows.iter().filter(|row| row.share >= LEAST_SHARE).filter_map(|row| {
        let kept = row.kept_by.as_ref().filter(|kept| !kept.is_empty())?;
        let by: Vec<String> = kept.iter().take(MOST_CPU_HOLDERS).map(|it| format!("{} {}", it.name, percent(it.share))).collect();
        Some(plain(format!("during {}::{} the CPU had: {}", row.machine, row.state, by.join(", "))))
    })
}
