//! The tests of this crate's public interface, one module per theme. A single program is built and
//! linked faster than one for each theme; `scripts/test` runs each theme in a process of its own.

mod affinity_masks;
mod any_names;
mod causes;
mod clock_sync;
mod critical_path;
mod critical_path_limits;
mod endings;
mod folded;
mod kernel_facts;
mod likely_scenarios;
mod linux;
mod loss_places;
mod losses;
mod machine_log;
mod oracles;
mod packet_paths;
mod pairs;
mod pipeline;
mod probe_causes;
mod processes;
mod steps;
mod support;
mod timeline;
mod timeline_packets;
mod timeline_values;
mod verdicts;
mod wait_stacks;
mod waits;
mod what_if;
mod what_if_at_once;
mod what_if_batch;
mod what_if_independent_work;
mod what_if_orders;
mod what_if_shared;
mod worlds;
