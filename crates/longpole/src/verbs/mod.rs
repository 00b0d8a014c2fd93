//! One file per verb. A verb defines its arguments, calls the libraries and prints the result. It
//! contains no format of traces and no analysis.

pub mod check;
pub mod completions;
pub mod convert;
pub mod cpu;
pub mod demo;
pub mod diff;
pub mod graph;
pub mod info;
pub mod irq;
pub mod latency;
pub mod list;
pub mod man;
pub mod merge;
pub mod model;
pub mod mount;
pub mod overhead;
pub mod packets;
pub mod path;
pub mod print;
pub mod queues;
pub mod record;
pub mod report;
pub mod rules;
pub mod sched;
pub mod serve;
pub mod snapshot;
pub mod start;
pub mod status;
pub mod stop;
pub mod syscalls;
pub mod top;
pub mod util;
pub mod view;
pub mod what_if;
