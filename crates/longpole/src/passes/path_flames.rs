//! Reads the stacks on the path of one trace, for the differential flame graph of `diff`.

use super::compared::{begin_of, with_stacks};
use crate::input;
use crate::input::command;
use crate::input::explained::explained;
use crate::input::interactions;
use anyhow::bail;
use longpole_analysis::critical_path;
use longpole_analysis::pipeline::samples::PathCounts;
use longpole_analysis::pipeline::SPILL;
use longpole_analysis::scheduling::flame_graph::FlameGraph;
use longpole_analysis::scheduling::sampled_waits::SampledWaits;
use longpole_analysis::scheduling::stack_gaps::StackGaps;
use longpole_model::rules::Rules;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::collections::BTreeMap;
use std::path::Path;

/// The stacks on the path of one trace, running and waiting.
pub struct PathFlames {
    pub graph: FlameGraph,
    /// Folded stacks with their time in ns.
    pub folded: BTreeMap<String, u64>,
    pub length_ns: u64,
    pub counts: PathCounts,
    pub gaps: StackGaps,
    pub is_damaged: bool,
}

/// Reads a trace from the recorded command's begin on, unless `all` is true.
pub fn read(path: &Path, part: Options, rules: &Rules, all: bool) -> anyhow::Result<PathFlames> {
    input::complete(path);
    let part = if all { part } else { command::part(path, part) };
    let mut interactions = interactions::of(path, part.clone(), rules.clone())?;
    let begin_ns = begin_of(&interactions, &part);
    let options = critical_path::Options { segments: true, spill: Some(SPILL), ..critical_path::Options::default() };
    let mut waits = SampledWaits::default();
    let answer = interactions.sampled_critical_path(options, &mut (), &mut waits).map_err(explained)?;
    let length_ns = answer.length_ns;
    let found = with_stacks(path, &interactions, (&answer, &waits), (begin_ns, &part), |of_path, _| {
        let (graph, folded, counts) = (of_path.flame_graph(), of_path.folded(), of_path.counts);
        PathFlames { graph, folded, length_ns, counts, gaps: of_path.gaps(), is_damaged: false }
    })?;
    let Some(flames) = found.filter(|flames| flames.counts.running + flames.counts.waits > 0) else {
        bail!("{}: no sampled stack is on the path; record as root with `longpole record --stacks 99`", path.display());
    };
    Ok(PathFlames { is_damaged: interactions.trace().is_some_and(Trace::is_damaged), ..flames })
}
