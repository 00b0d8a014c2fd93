//! Formats of other tools: each is read as its documentation or its own tool reads it, intact and
//! damaged.

mod archives;
mod captures;
mod foreign;
mod ftrace_text;
mod json;
mod kernel_live;
mod perf;
mod perf_made;
mod perf_script;
mod raw_pages;
mod trace_dat;
