//! Reads a trace once through the Linux model, for `cpu`, `sched`, `irq` and `syscalls`.
//!
//! The trace is read from its very begin even if only a later part is requested, because earlier
//! events determine the state at the begin of that part.

pub use crate::render::answer::write;

use crate::input::empty_range;
use crate::input::{self, Input};
use crate::render::answer::Told;
use crate::render::table::{number, plain, plain_lines};
use anyhow::{bail, Context};
use longpole_analysis::verdict::not_recorded;
use longpole_model::linux::watch::Watch;
use longpole_model::linux::{Count, Linux};
use longpole_trace::recording_at;
use longpole_trace::Catalogue;
use longpole_trace::Item;
use longpole_trace::Kallsyms;
use longpole_trace::Moment;
use longpole_trace::Options;
use longpole_trace::Stream;
use longpole_trace::StreamKind;
use longpole_trace::Trace;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The model after the trace's last event, and the trace with its descriptions.
pub struct Reading {
    pub linux: Linux,
    pub trace: Trace,
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
    let paths = input.paths()?;
    let mut trace = input::open(&paths, Options { begin: None, ..input.options() })?;
    if let several @ 2.. = sources(&paths, &trace) {
        bail!("the kernel's events of {several} recordings cannot be told as one, since their threads and times are not the same; ask each by itself");
    }
    let mut model = Model::of(input, &trace)?;
    let (mut has_item, mut has_item_in_part) = (false, false);
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        let in_part = model.item(catalogue, &item, watch);
        has_item = true;
        has_item_in_part |= in_part;
        other(&mut model.linux, watch, catalogue, &item, in_part);
    }
    model.linux.finish(watch);
    crate::verbs::convert::tell_no_event(&trace);
    for diagnostic in trace.diagnostics() {
        eprintln!("longpole: {}", plain_lines(diagnostic.to_string()));
    }
    empty_range::check(&trace, &paths, &input.options())?;
    if has_item && !has_item_in_part {
        return Err(empty_range::refused(&paths, &input.options()));
    }
    Ok(Reading { linux: model.linux, trace })
}

/// The Linux model for a trace that the caller reads from its very begin.
pub struct Model {
    pub linux: Linux,
    begin_ns: i64,
}

impl Model {
    pub fn of(input: &Input, trace: &Trace) -> anyhow::Result<Model> {
        let begin_ns = begin_ns(input, trace);
        let linux = Linux::new(begin_ns, trace.range().1).context("a built-in rule file is wrong")?;
        Ok(Model { linux, begin_ns })
    }

    /// Passes an item to the model. Returns true if the item is in the requested part.
    #[inline]
    pub fn item<W: Watch>(&mut self, catalogue: &Catalogue, item: &Item<'_>, watch: &mut W) -> bool {
        match item {
            Item::Event(event) => self.linux.event(catalogue, event, watch),
            Item::Loss(loss) => self.linux.loss(catalogue, loss, watch),
        }
        item.t_ns() >= self.begin_ns
    }
}

/// Returns the begin of the requested part of a trace, in ns.
pub fn begin_ns(input: &Input, trace: &Trace) -> i64 {
    begin_of(input.begin, trace)
}

pub fn begin_of(begin: Option<Moment>, trace: &Trace) -> i64 {
    begin.map_or(i64::MIN, |begin| begin.resolve(trace.start_ns().unwrap_or(0)))
}

/// Returns the number of paths that contain kernel events.
pub fn sources(paths: &[PathBuf], trace: &Trace) -> usize {
    let kernel: Vec<&Stream> = trace.catalogue().streams.iter().filter(|stream| stream.kind == StreamKind::Kernel).collect();
    match paths {
        [_] => usize::from(!kernel.is_empty()),
        several => several.iter().filter(|path| kernel.iter().any(|stream| Path::new(&stream.name).starts_with(path))).count(),
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
        (0, before, _) => bail!("no {what} in the part that was asked for; the trace holds {} before it", number(before)),
    }
}

/// Returns an error if the trace does not show which threads had the CPUs.
pub fn needs_switches(input: &Input, linux: &Linux) -> anyhow::Result<()> {
    match &linux.switch_filter {
        Some(filter) => bail!("{}", filtered(filter)),
        None => needs(input, linux.switches, "switches between threads", "sched,irq,softirq"),
    }
}

/// Returns the reason why switches that were recorded with a filter are useless.
pub fn filtered(filter: &str) -> String {
    format!(
        "the trace holds sched_switch only where `{filter}`: who had the CPUs cannot be told from a part of the switches; record them all with `longpole record --kernel sched,irq,softirq`"
    )
}

impl Told for &Reading {
    fn trace(&self) -> &Trace {
        &self.trace
    }

    fn footer(&self, out: &mut dyn Write) -> io::Result<()> {
        footer(out, self)
    }

    fn note(&self) -> Option<String> {
        let Linux { lost, uncounted_losses, contradictions, .. } = self.linux;
        let told = [
            (lost, "kernel events are lost"),
            (uncounted_losses, "gaps in the kernel's events nobody counted"),
            (contradictions, "events do not follow from what came before them"),
        ];
        let told: Vec<String> =
            told.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{} {what}", number(*count))).collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

/// Prints the number of lost events, and what else makes the numbers uncertain.
pub fn footer(out: &mut dyn Write, reading: &Reading) -> io::Result<()> {
    let linux = &reading.linux;
    let lost = match (linux.lost, linux.uncounted_losses) {
        (lost, 0) => format!("{} lost", number(lost)),
        (lost, gaps) => format!("{} lost and {} gaps that nobody counted", number(lost), number(gaps)),
    };
    writeln!(out, "\n{} kernel events, {lost}", number(linux.events))?;
    if let Some(not_recorded) = not_recorded::sentence(&not_recorded::not_recorded(linux)) {
        writeln!(out, "{}", plain(not_recorded))?;
    }
    if linux.unseen_idle_ends > 0 {
        writeln!(
            out,
            "{} times the trace does not hold the end of a CPU's idleness; there it ends when a thread is woken on that CPU, or with the next event of another thread",
            number(linux.unseen_idle_ends)
        )?;
    }
    if linux.unseen_switches > 0 && linux.switch_filter.is_none() {
        writeln!(
            out,
            "{} switches between threads are not in the trace; whose the CPU was since the event before is unknown",
            number(linux.unseen_switches)
        )?;
    }
    if linux.contradictions > 0 {
        writeln!(
            out,
            "{} events do not follow from what came before them: something is missing that nobody counted",
            number(linux.contradictions)
        )?;
    }
    Ok(())
}
