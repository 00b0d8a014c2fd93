//! One stream of any format.

use crate::error::Error;
use crate::event::{Item, Loss};
use crate::formats::capture::CaptureSource;
use crate::formats::ctf::CtfSource;
use crate::formats::ftrace_text::TextSource;
use crate::formats::json::chrome::ChromeSource;
use crate::formats::json::lines::LogSource;
use crate::formats::perf_data::PerfSource;
use crate::formats::sel4::DumpSource;
use crate::formats::trace_dat::PageSource;
use crate::merge::sort_window::Sequence;
use crate::shared::Shared;
use crate::value_buffer::ValueBuffer;

/// One sequence of items. It holds one decoded item at a time.
pub(crate) enum Source {
    Ctf(Box<CtfSource>),
    Capture(Box<CaptureSource>),
    Perf(Box<PerfSource>),
    Sel4Log(Box<DumpSource>),
    ChromeJson(Box<ChromeSource>),
    MachineLog(Box<LogSource>),
    /// Pages of the kernel's tracer, in a trace.dat or raw.
    FtracePages(Box<PageSource>),
    FtraceText(Box<TextSource>),
    /// Events that exist but cannot be read yet. They are yielded as one loss without a count.
    Missing {
        loss: Loss,
        passed: bool,
    },
}

impl Sequence for Source {
    #[inline]
    fn advance(&mut self, shared: &mut Shared) -> Result<Option<i64>, Error> {
        match self {
            Source::Ctf(source) => source.advance(shared),
            Source::Capture(source) => source.advance(shared),
            Source::Perf(source) => source.advance(shared),
            Source::Sel4Log(source) => source.advance(),
            Source::ChromeJson(source) => source.advance(shared),
            Source::MachineLog(source) => source.advance(shared),
            Source::FtracePages(source) => source.advance(shared),
            Source::FtraceText(source) => source.advance(shared),
            Source::Missing { loss, passed } => Ok((!std::mem::replace(passed, true)).then_some(loss.end_ns)),
        }
    }

    #[inline]
    fn item<'a>(&'a self, value_buffer: &'a mut ValueBuffer) -> Item<'a> {
        match self {
            Source::Ctf(source) => source.item(value_buffer),
            Source::Capture(source) => source.item(value_buffer),
            Source::Perf(source) => source.item(value_buffer),
            Source::Sel4Log(source) => source.item(value_buffer),
            Source::ChromeJson(source) => source.item(value_buffer),
            Source::MachineLog(source) => source.item(value_buffer),
            Source::FtracePages(source) => source.item(value_buffer),
            Source::FtraceText(source) => source.item(value_buffer),
            Source::Missing { loss, .. } => Item::Loss(*loss),
        }
    }

    #[inline]
    fn has_event(&self) -> bool {
        match self {
            Source::Ctf(source) => source.has_event(),
            Source::Capture(_)
            | Source::Perf(_)
            | Source::Sel4Log(_)
            | Source::ChromeJson(_)
            | Source::MachineLog(_)
            | Source::FtracePages(_)
            | Source::FtraceText(_)
            | Source::Missing { .. } => true,
        }
    }
}

impl Source {
    /// Returns true if the stream has ended at damage. All variants are listed, so that a new
    /// format does not compile until it states whether its streams can end there.
    pub fn is_broken(&self) -> bool {
        match self {
            Source::Ctf(source) => source.broken,
            Source::Capture(source) => source.broken,
            Source::ChromeJson(source) => source.broken,
            Source::MachineLog(source) => source.broken,
            Source::Perf(_) | Source::Sel4Log(_) | Source::FtracePages(_) | Source::FtraceText(_) | Source::Missing { .. } => false,
        }
    }

    /// Makes the loss of the current packet the current item if that loss began at or before
    /// `end_ns`. Returns false if there is no such loss.
    #[cold]
    pub fn yield_pending_loss_before(&mut self, end_ns: i64) -> bool {
        match self {
            Source::Ctf(source) => source.yield_pending_loss_before(end_ns),
            Source::Capture(_)
            | Source::Perf(_)
            | Source::Sel4Log(_)
            | Source::ChromeJson(_)
            | Source::MachineLog(_)
            | Source::FtracePages(_)
            | Source::FtraceText(_)
            | Source::Missing { .. } => false,
        }
    }
}
