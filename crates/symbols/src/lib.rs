//! What the addresses of sampled stacks mean.
//!
//! A recording says where the CPUs were (`samples/`), which files each process had mapped where at every moment, and what the kernel's
//! functions are (`symbols/kallsyms`). Three steps lead from an address to a name:
//!
//! * [`Spaces`] follows processes and their mappings: an address of a process is a place in a module.
//! * [`complete`] looks the places of all samples up, once, on the machine that was recorded, while its files are still there:
//!   `symbols/functions.jsonl`. What it cannot find keeps its module and offset; nothing fails for it.
//! * [`Stacks`] is what analyses use: it hands out each sample as a stack of named frames, on any machine.
//!
//! Functions that were recorded as spans get their names in the same way ([`complete_probes`]).
//!
//! Modules, maps of functions that programs write, and recordings may be hostile: sizes are bounded, and foreign files are
//! looked into by a process of its own, whose end costs names only.

mod apart;
mod collect;
mod complete;
mod jit;
mod kernel;
mod open;
mod probes;
mod resolve;
mod spaces;
mod stacks;
mod table;

pub use complete::{complete, is_pending, CompleteError, Completed};
pub use probes::{complete_probes, probes_are_pending};
pub use spaces::{Module, ModuleId, Place, Spaces};
pub use stacks::{Frame, FrameId, Origin, Stack, Stacks};
pub use table::{Function, FILE};
