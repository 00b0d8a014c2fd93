//! CPU holders: the threads that had the CPU while the path waited for one. They are computed only
//! if such waits have a considerable share of the path.

use super::{Error, Interactions, SPILL};
use crate::critical_path::cpu_holders::{self, CpuHolders, OccupancyLog};
use crate::critical_path::{Answer, Path};

/// Returns an empty log of CPU occupancy. It must observe the kernel's model while the trace is
/// read.
pub fn occupancy_log() -> OccupancyLog {
    OccupancyLog::new(SPILL)
}

/// Adds the holders to the rows of the answer, from the log that observed the kernel's model. Rows
/// for which the trace does not show them stay without, and so does an answer without segments.
///
/// # Errors
///
/// [`Error::Spool`] if the log cannot be read again.
pub fn add(interactions: &Interactions, occupancy: &OccupancyLog, answer: &mut Answer) -> Result<(), Error> {
    let Some(segments) = answer.segments.take() else { return Ok(()) };
    let found = find(interactions, occupancy, answer, &segments);
    if let (Ok(Some(found)), Some(composer)) = (&found, interactions.composer()) {
        found.add_to(composer.linux(), &segments, answer);
    }
    answer.segments = Some(segments);
    found.map(drop)
}

/// Returns the holders; `None` if waits for a CPU do not matter on this path.
fn find(interactions: &Interactions, occupancy: &OccupancyLog, answer: &Answer, segments: &Path) -> Result<Option<CpuHolders>, Error> {
    let Some(composer) = interactions.composer().filter(|_| cpu_holders::matter(answer)) else { return Ok(None) };
    let mut found = CpuHolders::new(segments, &interactions.runs_on());
    let read = occupancy.replay(composer.linux(), &mut found);
    read.map_err(|source| Error::Spool { name: "the CPU occupancy".to_owned(), source })?;
    Ok(Some(found))
}
