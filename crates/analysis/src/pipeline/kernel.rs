//! Reads a trace once through the Linux model, for questions about threads, CPUs, interrupts and
//! system calls.

use super::Error;
use longpole_model::linux::watch::Watch;
use longpole_model::linux::Linux;
use longpole_trace::{Catalogue, Item, Moment, Stream, StreamKind, Trace};
use std::path::{Path, PathBuf};

/// The Linux model for a trace that the caller reads from its very begin, because earlier events
/// determine the state at the begin of the requested part.
pub struct KernelModel {
    pub linux: Linux,
    begin_ns: i64,
}

impl KernelModel {
    /// Returns a model in its initial state. `begin` is the begin of the requested part.
    pub fn new(begin: Option<Moment>, trace: &Trace) -> Result<KernelModel, Error> {
        let begin_ns = begin_ns(begin, trace);
        let linux = Linux::new(begin_ns, trace.range().1)?;
        Ok(KernelModel { linux, begin_ns })
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

/// The model after the trace's last item.
pub struct KernelReading {
    pub linux: Linux,
    /// Number of events that were read.
    pub events: u64,
    /// True if the trace has items, but none at or after the begin of the requested part.
    pub missed: bool,
}

/// Reads a trace, which must be opened from its begin on. `watch` observes the model. `other`
/// receives all items, also those before the requested part, with the model after the item, and
/// true if the item is in the requested part.
///
/// # Errors
///
/// [`Error::SeveralKernels`] if more than one of `paths` has kernel events.
pub fn read<W: Watch>(
    trace: &mut Trace,
    paths: &[PathBuf],
    begin: Option<Moment>,
    watch: &mut W,
    mut other: impl FnMut(&mut Linux, &mut W, &Catalogue, &Item<'_>, bool),
) -> Result<KernelReading, Error> {
    if let several @ 2.. = kernel_sources(paths, trace) {
        return Err(Error::SeveralKernels(several));
    }
    let mut model = KernelModel::new(begin, trace)?;
    let (mut has_item, mut has_item_in_part, mut events) = (false, false, 0);
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        let in_part = model.item(catalogue, &item, watch);
        has_item = true;
        events += u64::from(matches!(item, Item::Event(_)));
        has_item_in_part |= in_part;
        other(&mut model.linux, watch, catalogue, &item, in_part);
    }
    model.linux.finish(watch);
    Ok(KernelReading { linux: model.linux, events, missed: has_item && !has_item_in_part })
}

/// Returns the begin of the requested part of a trace in ns; `i64::MIN` without a limit.
pub fn begin_ns(begin: Option<Moment>, trace: &Trace) -> i64 {
    begin.map_or(i64::MIN, |begin| begin.resolve(trace.start_ns().unwrap_or(0)))
}

/// Returns the number of paths that contain kernel events. `trace` was opened from `paths`.
pub fn kernel_sources(paths: &[PathBuf], trace: &Trace) -> usize {
    let kernel: Vec<&Stream> = trace.catalogue().streams.iter().filter(|stream| stream.kind == StreamKind::Kernel).collect();
    match paths {
        [_] => usize::from(!kernel.is_empty()),
        several => several.iter().filter(|path| kernel.iter().any(|stream| Path::new(&stream.name).starts_with(path))).count(),
    }
}
