//! Reads the stack samples of a trace: all of them, or those on its critical path.

use crate::input::{self, Input};
use crate::render::diagnostics::print_one;
use anyhow::bail;
use longpole_analysis::critical_path::Answer;
use longpole_analysis::pipeline::pictures::MAX_FRAMES;
use longpole_analysis::pipeline::samples::{has_samples, path_functions, sampling_period_ns, PathFunctions, SampleScope, StackSamples};
use longpole_analysis::pipeline::wait_stacks::{WaitStacks, WaitStacksReader};
use longpole_analysis::pipeline::Interactions;
use longpole_analysis::scheduling::flame_graph::FlameGraph;
use longpole_analysis::scheduling::sampled_waits::{SampledWait, SampledWaits};
use longpole_trace::Moment;
use longpole_trace::Options;
use longpole_trace::Shifts;
use longpole_trace::Trace;
use std::ops::Range;
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
    let mut trace = input::open(&input.completed_paths()?, Options { begin: None, ..input.options() })?;
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

/// Reads the stacks of running code and of waits in a range of a trace, which is on the trace's
/// clock in ns; `None` if it has no samples. `waits` are those which the samples are of.
pub fn flame_graph(input: &Input, waits: &[SampledWait], range: Range<i64>, scope: SampleScope) -> anyhow::Result<Option<FlameGraph>> {
    let input = &input.whole();
    let mut samples = StackSamples::new(input.sampled()?, None, true).of(scope).waits(waits, range, true);
    let trace = read_up_to_last(input, &mut samples)?;
    Ok(has_samples(&trace).then(|| samples.flame_graph(sampling_period_ns(&trace)).limited(MAX_FRAMES)))
}

/// Reads the samples up to the last one that counts. `input` names the whole trace.
pub fn read_up_to_last(input: &Input, samples: &mut StackSamples) -> anyhow::Result<Trace> {
    // The end of a part belongs to it.
    let end = samples.last_ns();
    read_quietly(&Input { end: (end < i64::MAX).then_some(Moment::At(end)), ..input.whole() }, samples)
}

/// Reads the stacks of all waits of a trace. `waits` are those which the samples are of.
pub fn wait_stacks(input: &Input, waits: &[SampledWait]) -> anyhow::Result<WaitStacks> {
    let input = &input.whole();
    let recording = input.sampled()?;
    let mut reader = WaitStacksReader::new(recording.as_deref(), waits);
    // The other streams of a recording have no samples.
    let (paths, options) = match &recording {
        Some(recording) => (vec![recording.join("samples")], Options { end: None, ..input.options() }),
        None => (input.completed_paths()?, input.options()),
    };
    let mut trace = input::open(&paths, options)?;
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        reader.item(catalogue, &item);
    }
    Ok(reader.finish())
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
