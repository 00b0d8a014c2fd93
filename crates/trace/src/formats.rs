//! Readers of trace formats, one module per format.
//!
//! Each reader is a source for [`Trace`](crate::Trace): `advance` decodes the next item and returns
//! its time, and `item` returns that item as an [`Item`](crate::Item). A reader interns the
//! classes, streams and subjects that it finds, and reports damage as diagnostics. This folder also
//! holds what several readers share: one stream of any format (`source`), call sites (`site`),
//! fields of kernel tracepoints (`tracepoint`), kernel symbols (`kallsyms`), and the unpacking of
//! archives (`archive`).
//!
//! Detection of formats belongs in `open/`, and the order of events among streams in `merge/`.
//! Nothing here interprets an event: that belongs in the `model` crate. The decoders of CTF
//! packets, of pcapng blocks and of pages of the kernel's ring buffer are crates of their own
//! (`ctf`, `pcapng`, `ftrace`); the modules here connect them to a trace.

pub(crate) mod archive;
pub(crate) mod capture;
pub(crate) mod ctf;
pub(crate) mod ftrace_text;
pub(crate) mod json;
pub(crate) mod kallsyms;
pub(crate) mod perf_data;
pub(crate) mod sel4;
pub(crate) mod site;
pub(crate) mod source;
pub(crate) mod trace_dat;
pub(crate) mod tracepoint;
