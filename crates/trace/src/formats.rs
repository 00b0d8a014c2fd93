//! TODO room formats

pub(crate) mod archive;
pub(crate) mod capture;
pub(crate) mod ctf;
pub(crate) mod ftrace_text;
pub(crate) mod json;
pub(crate) mod kallsyms;
pub(crate) mod perf_data;
pub(crate) mod sel4;
pub(crate) mod site;
pub(crate) mod subject;
pub(crate) mod trace_dat;
pub(crate) mod tracepoint;
