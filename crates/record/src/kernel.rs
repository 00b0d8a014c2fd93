//! Records the kernel's tracepoints with a private instance of its tracer (ftrace), in addition to
//! the events of programs with probes.
//!
//! While the recording runs, whole pages of events go from the kernel to the disk unchanged
//! ([`source`]); no code looks at a single event. What is needed to understand the pages later is
//! saved as well ([`state_reader`]): the events' formats before the first event, and the processes,
//! files and devices that existed when the recording began. At the end, [`convert`](fn@convert)
//! turns the pages into CTF; a process that follows the recording does so meanwhile, in memory
//! ([`LivePages`]). A recorder that is killed leaves pages and an instance behind;
//! [`reap`] saves and removes them.
//!
//! [`groups`] and [`light`] list the events, [`plan`] chooses those that this kernel has,
//! [`importance`] says which are given up first, and [`layout`] how they are named in the trace.
//!
//! Everything here may be missing: no tracefs, no permission to use it, a kernel without some of
//! the events. Then all other sources are recorded, and what is missing is reported with its
//! remedy. The tracing of other users is never touched, because all happens in an instance of our
//! own.

mod convert;
mod counters;
mod ctf;
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
mod plan;
pub mod reap;
mod single_calls;
mod source;
mod state_reader;
mod survey;

use longpole_ftrace::{TraceFs, TraceFsError};
use std::sync::{Mutex, PoisonError};

pub use convert::{convert, convert_while, is_pending, ConvertError, Converted, LivePages};
pub use groups::{Context, EventRequest, Group, RequestError};
pub use importance::{steps, Step};
pub use overload::{Advice, Fill, Overload, SwitchedOff};
pub use plan::{KernelError, Request};
pub use source::cpu_loss::CpuLoss;
pub use survey::{survey, Survey, Trouble};

pub(crate) use names::write as write_names;
pub(crate) use plan::Plan;
pub use source::pause::Pause;
pub(crate) use source::KernelSource;
pub(crate) use state_reader::symbols as save_symbols;
pub(crate) use state_reader::write as dump_state;

/// Prefix of the names of our tracer instances.
pub const PREFIX: &str = "longpole";

/// Folder of a recording, relative to it, that holds the kernel's pages until they are converted.
pub const RAW: &str = "kernel/raw";

/// Name of the file in [`RAW`] that describes the pages. [`KernelSource`] writes it.
pub const DESCRIPTION: &str = "source.json";

/// The mount of tracefs that this process made for itself. The process keeps it to its end, because
/// paths of instances lead through it.
static OWN_MOUNT: Mutex<Option<TraceFs>> = Mutex::new(None);

/// Finds tracefs; root mounts it for this process alone if it is not mounted. The host's mounts
/// stay unchanged, and the kernel removes the mount when the process ends, also if it is killed.
fn find() -> Result<TraceFs, TraceFsError> {
    match TraceFs::find() {
        Err(TraceFsError::NotMounted) if rustix::process::geteuid().is_root() => {
            let mut own = OWN_MOUNT.lock().unwrap_or_else(PoisonError::into_inner);
            if own.is_none() {
                *own = Some(TraceFs::mount()?);
            }
            own.clone().ok_or(TraceFsError::NotMounted)
        }
        found => found,
    }
}

/// Returns the kernel's tracer if this process may use it. The error says what to do otherwise.
pub fn available() -> Result<TraceFs, TraceFsError> {
    let tracefs = find()?;
    // A user who may read tracefs is not necessarily allowed to make an instance.
    let folder = tracefs.path().join("instances");
    match rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK) {
        Ok(()) => Ok(tracefs),
        Err(_) => Err(TraceFsError::NoPermission { path: folder }),
    }
}

/// Inode number of the initial pid namespace, the same on every host (`PROC_PID_INIT_INO` in
/// `linux/proc_ns.h`).
pub(crate) const FIRST_PIDS: u64 = 0xEFFF_FFFC;

/// True if this process is in a pid namespace of its own, as in a container. The kernel then
/// numbers threads differently from what this process sees.
pub fn has_foreign_pids() -> bool {
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|found| std::os::unix::fs::MetadataExt::ino(&found) != FIRST_PIDS)
}

/// Finishes the kernel events of a recording: saves what a killed recorder left in the tracer, and
/// converts the pages.
///
/// A recording without pages is left unchanged. `progress` gets the bytes done and the total; if it
/// returns false, the conversion ends with [`ConvertError::Ended`].
///
/// # Errors
///
/// [`ConvertError::Busy`] if a living process records or converts these pages,
/// [`ConvertError::NotSaved`] if not all of them could be saved, and all other errors of the
/// conversion.
pub fn complete(recording: &std::path::Path, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Converted, ConvertError> {
    // The pages that were moved before stay unconverted, because the description by which the rest
    // is found is removed with them.
    let saved = reap::recording(recording).map_err(ConvertError::NotSaved)?;
    let mut done = convert_while(recording, progress)?;
    done.diagnostics.extend(saved);
    Ok(done)
}
