//! The critical path and what is derived from it or from the same events: latencies, queues,
//! predictions, graphs, and the differences of traces.

mod answers;
mod causes;
mod diff;
mod diff_recordings;
mod diff_served;
mod graph;
mod large_inputs;
mod losses;
mod machine_logs;
mod means;
mod path;
mod runs;
mod what_if;
