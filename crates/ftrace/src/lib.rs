//! The event tracer of the Linux kernel: its formats, its pages, its files, and the recordings that trace-cmd makes of them.
//!
//! Six parts, each usable alone:
//!
//! * [`format`]: the text of `events/*/*/format` becomes an [`EventFormat`], which reads fields from a record's bytes;
//! * [`page`] and [`stream`]: ring-buffer pages as `trace_pipe_raw` gives them become events and losses;
//! * [`printk`]: what `trace_printk` stores becomes the text that it would have printed;
//! * [`text`]: lines of `trace` and `trace_pipe`, and of `trace-cmd report`, become names, times and fields;
//! * [`tracefs`] and [`instance`]: a private instance of the tracer, which goes away when it is dropped;
//! * [`dat`]: trace.dat, versions 6 and 7, through the same page decoder.
//!
//! Formats and pages are pure: bytes in, values out. Nothing about a layout is assumed that the kernel states, and no byte
//! is believed: a length is used only where the bytes behind it are there. The crate knows of no program that uses it; names
//! of instances begin with what the caller says.
//!
//! Sources of the layouts: the kernel's `Documentation/trace/ring-buffer-design.rst`, `events/header_page`, `events/header_event`,
//! and the manual pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5).

pub mod dat;
mod error;
pub mod format;
pub mod instance;
pub mod page;
pub mod printk;
mod raw;
pub mod stream;
pub mod text;
pub mod tracefs;

pub use dat::{perf_formats, Dat, ReadAt};
pub use error::{DatError, DatErrorKind, FieldError, FormatError, FormatErrorKind, PageError, PageErrorKind, TraceFsError};
pub use format::{EventFormat, Field, Formats};
pub use instance::{CpuStats, DeadInstance, Instance};
pub use page::{ByteOrder, Loss, Page, PageLayout, Record};
pub use raw::RawReader;
pub use stream::{Item, PageStream};
pub use tracefs::{EventName, TraceFs};
