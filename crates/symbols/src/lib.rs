//! The meaning of the addresses in sampled stacks.
//!
//! A recording contains the samples (`samples/`), the files that each process had mapped at any
//! time, and the kernel's functions (`symbols/kallsyms`). Three steps lead from an address to a
//! name:
//!
//! * [`Spaces`] follows processes and their mappings. It converts an address of a process to a
//!   place in a module.
//! * [`complete`] first unwinds the stacks that were copied as bytes. Then it looks up the places
//!   of all samples, once, on the recorded host, while the files are still there. It writes
//!   `symbols/functions.jsonl`. A place that cannot be looked up keeps its module and offset; this
//!   is no error.
//! * [`Stacks`] is the interface for analyses, on any host. It returns each sample as a stack of
//!   named frames.
//!
//! Functions that were recorded as spans are named in the same way ([`complete_probes`]).
//!
//! Modules, the function lists that programs write, and recordings may be hostile. Therefore sizes
//! are limited, and foreign files are read in a sandbox, which is a separate process; if it dies,
//! only names are lost.

mod collect;
mod complete;
mod convert;
mod debug_file;
mod elf;
mod error;
mod frame;
mod jit;
mod kernel;
mod library;
mod open;
mod probes;
mod resolve;
mod runtime;
mod sandbox;
mod spaces;
mod stacks;
mod table;
mod unwind;

pub use complete::{complete, is_pending, remaining, Completed, Remaining};
pub use error::CompleteError;
pub use frame::{Frame, FrameId, Origin};
pub use jit::generated_functions;
pub use probes::{complete_probes, probes_are_pending};
pub use runtime::Runtime;
pub use spaces::{Cause, Module, ModuleId, Place, Spaces};
pub use stacks::{Stack, Stacks};
pub use table::{Function, FILE};
pub use unwind::unwind_alone;
