//! Verbs that answer questions about a trace: what it waited for, how long things took, what would
//! change.

pub mod cpu;
pub mod diff;
pub mod graph;
pub mod irq;
pub mod latency;
pub mod packets;
pub mod path;
pub mod queues;
pub mod report;
pub mod sched;
pub mod syscalls;
pub mod what_if;
