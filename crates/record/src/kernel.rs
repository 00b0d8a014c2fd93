//! What the kernel does, beside what programs with probes say: its tracepoints, recorded by a private instance of its tracer.
//!
//! While the recording runs, pages go from the kernel to the disk as they are ([`source`]); nobody looks at an event. What is needed to
//! understand them later (formats, names, who was there at the start) is saved before the first one ([`dump`]). At the
//! end the pages become CTF. A recorder that is killed leaves pages and an instance behind; [`tidy`] brings both to their end.
//!
//! Everything here may be missing: no tracefs, no right to use it, a kernel without some of the events. Then the rest is recorded,
//! and what is missing is said with its remedy. Nobody else's tracing is touched: all happens in an instance of our own.

mod convert;
mod counters;
mod ctf;
mod dump;
mod exclude_self;
mod faults;
mod groups;
mod importance;
mod layout;
mod light;
mod masks;
mod names;
mod namespaces;
mod netlink;
mod overload;
mod pause;
mod plan;
pub mod reap;
mod rotate;
mod source;
mod survey;

pub use convert::{convert, convert_while, is_pending, ConvertError, Converted};
pub use groups::{Context, EventRequest, Group, RequestError};
pub use importance::{steps, Step};
pub use overload::{Advice, Fill, Overload, SwitchedOff};
pub use plan::{KernelError, Request};
pub use source::CpuLoss;
pub use survey::{survey, Survey, Trouble};

pub(crate) use dump::symbols as save_symbols;
pub(crate) use dump::write as dump_state;
pub(crate) use names::write as write_names;
pub use pause::Frozen;
pub(crate) use plan::Plan;
pub(crate) use source::Source;

/// What names of our instances begin with.
pub const PREFIX: &str = "longpole";

/// Where the pages of a recording lie until they are converted.
pub const RAW: &str = "kernel/raw";

/// What is said of the pages; see [`Source`](source::Source) for its content.
pub const DESCRIPTION: &str = "source.json";

/// The kernel's tracer, if this process may use it. The error says what to do.
pub fn available() -> Result<longpole_ftrace::TraceFs, longpole_ftrace::TraceFsError> {
    let tracefs = longpole_ftrace::TraceFs::find()?;
    // Reading may be allowed where making an instance is not.
    let folder = tracefs.path().join("instances");
    match rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK) {
        Ok(()) => Ok(tracefs),
        Err(_) => Err(longpole_ftrace::TraceFsError::NoPermission { path: folder }),
    }
}

/// The number of the first pid namespace, the same on every machine (`PROC_PID_INIT_INO` of linux/proc_ns.h).
pub(crate) const FIRST_PIDS: u64 = 0xEFFF_FFFC;

/// Whether the kernel numbers threads otherwise than this process sees them: it is in a pid namespace of its own, as in a container.
pub fn has_foreign_pids() -> bool {
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|found| std::os::unix::fs::MetadataExt::ino(&found) != FIRST_PIDS)
}

/// Brings the kernel events of a recording to their end: saves what a killed recorder left in the tracer, and converts the pages. Where a
/// living process is at it, that is an error; where there are no pages, nothing happens. `progress` ends it by saying false.
pub fn complete(recording: &std::path::Path, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Converted, ConvertError> {
    let saved = reap::recording(recording);
    let mut done = convert_while(recording, progress)?;
    done.diagnostics.extend(saved);
    Ok(done)
}
