//! Reads the stack samples of a trace: all of them, or those on its critical path.

use crate::input::{self, Input};
use crate::render::diagnostics::print_one;
use anyhow::bail;
use longpole_analysis::critical_path::Answer;
use longpole_analysis::pipeline::pictures::MAX_FRAMES;
use longpole_analysis::pipeline::samples::{has_samples, path_functions, PathFunctions, SampleScope, StackSamples};
use longpole_analysis::pipeline::Interactions;
use longpole_analysis::scheduling::flame_graph::FlameGraph;
use longpole_analysis::scheduling::sampled_waits::SampledWaits;
use longpole_trace::Moment;
use longpole_trace::Options;
use longpole_trace::Shifts;
use longpole_trace::Trace;
use std::path::Path;

/// Reads the samples only, for a verb that needs nothing else. Prints the trace's diagnostics. An
/// error if there are no samples.
pub fn read(input: &Input, samples: &mut StackSamples) -> anyhow::Result<Trace> {
    let trace = read_quietly(input, samples)?;
    trace.diagnostics().iter().for_each(print_one);
    if !has_samples(&trace) {
        bail!("the trace holds no samples of stacks; record them as root with `longpole record --stacks 99`");
    }
    Ok(trace)
}

/// Reads the samples only. The trace is read from its begin, because mappings made before the
/// requested part are still valid in it.
pub fn read_quietly(input: &Input, samples: &mut StackSamples) -> anyhow::Result<Trace> {
    let mut trace = input::open(&input.paths()?, Options { begin: None, ..input.options() })?;
    let start_ns = trace.start_ns().unwrap_or(0);
    let begin_ns = input.begin.map_or(i64::MIN, |begin| begin.resolve(start_ns));
    if let Some(recording) = samples.recording().filter(|_| has_samples(&trace)).map(Path::to_owned) {
        // A relative end was resolved against the begin of the whole trace.
        let end = input.end.map(|end| Moment::At(end.resolve(start_ns)));
        return read_recording(&recording, (begin_ns, end), input.options().shifts, samples);
    }
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        samples.item(catalogue, &item, item.t_ns() >= begin_ns);
    }
    Ok(trace)
}

/// Reads the samples of a recording, without all other streams. `shifts` are those with which the
/// whole trace was read.
pub fn read_recording(
    recording: &Path,
    (begin_ns, end): (i64, Option<Moment>),
    shifts: Shifts,
    samples: &mut StackSamples,
) -> anyhow::Result<Trace> {
    let mut trace = input::open(&[recording.join("samples")], Options { end, shifts, ..Options::default() })?;
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        samples.item(catalogue, &item, item.t_ns() >= begin_ns);
    }
    Ok(trace)
}

/// Reads the stacks of some threads or CPUs in a part of a trace; `None` if it has no samples.
/// `input` names the trace and the part.
pub fn flame_graph(input: &Input, scope: SampleScope) -> anyhow::Result<Option<FlameGraph>> {
    let mut samples = StackSamples::new(input.sampled()?, None, true).of(scope);
    let trace = read_quietly(input, &mut samples)?;
    Ok(has_samples(&trace).then(|| samples.flame_graph().limited(MAX_FRAMES)))
}

/// Returns the functions on the path, and sets the function of each row in `answer`. `waits` are
/// those of the first reading; `read` reads the samples from the trace. Also returns true if the
/// trace is damaged.
pub fn functions(
    input: &Input,
    interactions: &Interactions,
    (answer, waits): (&mut Answer, &SampledWaits),
    read: impl FnOnce(&Input, &mut StackSamples) -> anyhow::Result<Trace>,
) -> anyhow::Result<(PathFunctions, bool)> {
    let mut is_damaged = false;
    let functions = path_functions(interactions, answer, (waits, input.sampled()?), |samples| -> anyhow::Result<()> {
        is_damaged = read(input, samples)?.is_damaged();
        Ok(())
    })?;
    Ok((functions, is_damaged))
}
