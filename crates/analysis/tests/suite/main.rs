//! The tests of this crate's public interface, one module per theme. A single program is built and
//! linked faster than one for each theme; `scripts/test` runs each theme in a process of its own.

mod any_names;
mod causes;
mod critical_path;
mod exchanges;
mod linux;
mod losses;
mod machine_log;
mod oracles;
mod packet_paths;
mod pipeline;
mod probe_causes;
mod steps;
mod support;
mod timeline;
mod verdicts;
mod wait_stacks;
mod waits;
mod what_if;
mod worlds;
