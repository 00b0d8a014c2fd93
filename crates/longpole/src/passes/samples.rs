//! The functions on the critical path, from stack samples, with their rank in a profile. Used by
//! `path --functions` and `report`.

use crate::input::Input;
use crate::interactions::Interactions;
use crate::render::stacks::Gathered;
use anyhow::bail;
use longpole_analysis::critical_path::samples::{CriticalFunction, OnPath};
use longpole_analysis::critical_path::Answer;
use longpole_analysis::scheduling::stacks::Counts;
use longpole_trace::Trace;

/// Functions, and the counts of the samples that they are from.
pub struct Sampled {
    pub rows: Vec<CriticalFunction>,
    pub counts: Counts,
    /// Share of the path in which samples can be taken.
    pub running: f64,
    pub is_damaged: bool,
}

/// Returns the functions on the path, and sets the function of each row in `answer`. `read` reads
/// the samples from the trace.
pub fn functions(
    input: &Input,
    interactions: &Interactions,
    answer: &mut Answer,
    read: impl FnOnce(&Input, &mut Gathered) -> anyhow::Result<Trace>,
) -> anyhow::Result<Sampled> {
    let Some(path) = &answer.segments else { bail!("internal error: a path without segments") };
    let seats = interactions.seats();
    let on_path = OnPath::new(path, &seats);
    let running = on_path.running_ns as f64 / answer.length_ns.max(1) as f64;
    let mut gathered = Gathered::new(input, None, false)?.on_path(on_path);
    let trace = read(input, &mut gathered)?;
    let rows = gathered.critical(running);
    gathered.tell(path, &rows, &mut answer.criticality);
    Ok(Sampled { rows, counts: gathered.counts(), running, is_damaged: trace.is_damaged() })
}
