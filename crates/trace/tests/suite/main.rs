//! The tests of this crate's public interface, one module per theme. A single program is built and
//! linked faster than one for each theme; `scripts/test` runs each theme in a process of its own.

mod archives;
mod by_values;
mod captures;
mod contradictions;
mod derived;
mod foreign;
mod ftrace_text;
mod index;
mod json;
mod kernel_live;
mod live;
mod order;
mod perf;
mod perf_made;
mod perf_script;
mod raw_pages;
mod recording;
mod rewritten;
mod tolerance;
mod trace_dat;
mod unmerged;
mod written;
