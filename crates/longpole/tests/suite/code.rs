//! Functions: where a program spends its time and where it waits, from stacks, probes and profiles.

mod code_places;
mod functions;
mod missing_names;
mod path_stacks;
mod profiler;
mod stacks;
mod wait_stacks;
