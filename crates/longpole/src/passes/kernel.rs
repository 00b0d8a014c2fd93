//! Reads a trace once through the Linux model, for `cpu`, `sched`, `irq` and `syscalls`.
//!
//! The trace is read from its very begin even if only a later part is requested, because earlier
//! events determine the state at the begin of that part.

pub use crate::render::answer::write;

use crate::global;
use crate::input::empty_range;
use crate::input::{self, Input};
use crate::render::answer::{Asked, Source};
use crate::render::diagnostics;
use crate::render::event_count::EventCount;
use crate::render::style::{painted, Role};
use crate::render::table::{number, plain};
use anyhow::bail;
use longpole_analysis::pipeline::kernel::{self, KernelReading};
use longpole_analysis::verdict::not_recorded;
use longpole_model::linux::watch::Watch;
use longpole_model::linux::{Count, Counts, Linux};
use longpole_trace::recording_at;
use longpole_trace::Catalogue;
use longpole_trace::Item;
use longpole_trace::Kallsyms;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::io::{self, Write};
use std::path::PathBuf;

/// The model after the trace's last event, and the trace with its descriptions.
pub struct Reading {
    pub linux: Linux,
    pub trace: Trace,
    /// Number of events that were read, of all kinds.
    pub events: u64,
}

/// Reads the trace; `watch` observes the model, and `other` also receives every item of the
/// requested part.
pub fn read<W: Watch>(input: &Input, watch: &mut W, mut other: impl FnMut(&Catalogue, &Item<'_>)) -> anyhow::Result<Reading> {
    read_with(input, watch, |_, _, catalogue, item, in_part| {
        if in_part {
            other(catalogue, item);
        }
    })
}

/// Like [`read`], but `other` receives all items, also those before the requested part. Its other
/// arguments are the model after the item, and true if the item is in the requested part.
pub fn read_with<W: Watch>(
    input: &Input,
    watch: &mut W,
    mut other: impl FnMut(&mut Linux, &mut W, &Catalogue, &Item<'_>, bool),
) -> anyhow::Result<Reading> {
    let paths = input.completed_paths()?;
    let mut trace = input::open(&paths, Options { begin: None, ..input.options() })?;
    let KernelReading { linux, events, missed } = kernel::read(&mut trace, &paths, input.begin, watch, &mut other)?;
    diagnostics::print(&trace);
    empty_range::check(&trace, &paths, &input.options())?;
    match missed {
        true => Err(empty_range::refused(&paths, &input.options())),
        false => Ok(Reading { linux, trace, events }),
    }
}

/// Returns names for these kernel addresses, from the recordings that have a symbol table.
pub fn symbols(paths: &[PathBuf], addresses: &[u64]) -> Kallsyms {
    let mut symbols = Kallsyms::default();
    for path in paths.iter().filter(|_| !addresses.is_empty()) {
        // The named path may be the directory that contains the recording.
        let path = recording_at(path).unwrap_or_else(|| path.clone());
        match Kallsyms::of_recording(&path, addresses.iter().copied()) {
            Ok(found) if !found.is_empty() => symbols = found,
            Ok(_) => {}
            Err(error) => eprintln!("longpole: note: functions have no names: {}: {error}", path.join("symbols/kallsyms").display()),
        }
    }
    symbols
}

/// Returns an error if the trace lacks the events that a question needs. `found` counts those
/// events, `groups` are the groups of kernel events that record them.
pub fn needs(input: &Input, found: Count, what: &str, groups: &str) -> anyhow::Result<()> {
    match (found.in_range, found.in_all, input.end) {
        (1.., ..) => Ok(()),
        (0, 0, Some(_)) => bail!("the trace holds no {what} before --end"),
        (0, 0, None) => bail!("the trace holds no {what}; record them as root with `longpole record --kernel {groups}`"),
        (0, before, _) => bail!("no {what} in the requested part; the trace holds {} before it", number(before)),
    }
}

/// Returns an error if the trace does not show which threads had the CPUs.
pub fn needs_switches(input: &Input, linux: &Linux) -> anyhow::Result<()> {
    match &linux.switch_filter {
        Some(filter) => bail!("{}", filtered(filter)),
        None => needs(input, linux.counts.switches, "switches between threads", "sched,irq,softirq"),
    }
}

/// Returns the reason why switches that were recorded with a filter are useless.
pub fn filtered(filter: &str) -> String {
    format!(
        "the trace holds sched_switch only where `{filter}`: a part of the switches does not show which threads had the CPUs; record them all with `longpole record --kernel sched,irq,softirq`"
    )
}

impl Source for &Reading {
    fn trace(&self) -> &Trace {
        &self.trace
    }

    fn footer(&self, asked: &dyn Asked, out: &mut dyn Write) -> io::Result<()> {
        footer(out, asked, self)
    }

    fn note(&self) -> Option<String> {
        let Counts { lost, uncounted_losses, contradictions, .. } = self.linux.counts;
        let parts = [
            (lost, "kernel events are lost"),
            (uncounted_losses, "gaps of unknown size in the kernel's events"),
            (if global::is_verbose() { contradictions } else { 0 }, "events contradict the events before them"),
        ];
        let parts: Vec<String> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{} {what}", number(*count))).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Prints the number of events. What the answer does not cover is said in any case; gaps in the
/// kernel's events, which the model bridges, only if the user asked for notes.
pub fn footer(out: &mut dyn Write, asked: &dyn Asked, reading: &Reading) -> io::Result<()> {
    let linux = &reading.linux;
    let count = EventCount { events: reading.events, lost: linux.counts.lost, gaps: linux.counts.uncounted_losses };
    writeln!(out, "\n{}", count.line(asked, true))?;
    if let Some(not_recorded) = not_recorded::sentence(&not_recorded::not_recorded(linux)) {
        writeln!(out, "{}", painted(Role::Caveat, plain(not_recorded)))?;
    }
    let notes = [
        (
            linux.counts.unseen_idle_ends,
            "times the end of a CPU's idle time is not in the trace; it is taken to end when a thread is woken on that CPU, or with the next event of another thread",
        ),
        (
            if linux.switch_filter.is_none() { linux.counts.unseen_switches } else { 0 },
            "switches between threads are not in the trace; which thread had the CPU since the event before is unknown",
        ),
        (linux.counts.contradictions, "events contradict the events before them: some are missing that were not counted as lost"),
    ];
    for (count, what) in notes.into_iter().filter(|(count, _)| *count > 0 && global::is_verbose()) {
        writeln!(out, "{}", painted(Role::Caveat, format!("{} {what}", number(count))))?;
    }
    Ok(())
}
