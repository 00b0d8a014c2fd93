//! What the user asks of a recording, from the command line.

use crate::control::policy::Mode;
use crate::control::selection::Selection;
use crate::control::steady::Steady;
use crate::interfaces;
use crate::kernel;
use crate::stacks;
use std::path::PathBuf;
use std::time::Duration;

/// The processes whose events are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All programs of the user.
    Everything,
    /// One process, by its pid.
    Process(i32),
    /// The processes that a command starts; see [`Recorder::follow`](crate::Recorder::follow).
    Descendants,
}

impl Scope {
    /// The pid of the process, if the scope is a single process.
    pub(crate) fn alone(self) -> Option<i32> {
        match self {
            Scope::Process(pid) => Some(pid),
            _ => None,
        }
    }
}

/// What the user asked for. Options override the configuration file.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder for new recordings (`-o`). Default: the folder named by the configuration, else by
    /// `LONGPOLE_ROOT`, else `traces`.
    pub root: Option<PathBuf>,
    /// Path of the configuration file.
    pub config: Option<PathBuf>,
    pub scope: Scope,
    /// Filter that can be changed during the recording: only processes and threads that it enables
    /// are recorded.
    pub selection: Option<Selection>,
    /// Size of every ring in bytes; overrides the policies.
    pub buffer: Option<u64>,
    /// Action of a full ring; overrides the policies. [`Mode::Overwrite`] applies also to the
    /// kernel's buffers.
    pub mode: Option<Mode>,
    /// Limit of the recording's bytes on the disk; beyond it the oldest chunk is deleted.
    pub max_size: Option<u64>,
    /// Limit of the recording's bytes on the disk if neither the options nor the configuration set
    /// a limit of size or age. It is not used in overwrite mode, in which the kernel's buffers
    /// cannot be divided into chunks.
    pub default_max_size: Option<u64>,
    /// Limit of the age of the oldest event; beyond it the oldest chunk is deleted.
    pub max_age: Option<Duration>,
    /// Command line of the recorded command, for `longpole.json`.
    pub command: Vec<String>,
    /// Cost of one event for the thread that writes it, in nanoseconds, if it was measured.
    pub probe_cost_ns: Option<f64>,
    /// Request for kernel events; `None` records no kernel events.
    pub kernel: Option<kernel::Request>,
    /// How often stacks are sampled; `None` takes no samples.
    pub stacks: Option<stacks::Rates>,
    /// Interfaces whose packets are captured; overrides the configuration. An empty list captures
    /// none.
    pub packets: Option<Vec<interfaces::Pattern>>,
    /// Scheduling policy for the command, and the nice value that it would have had without it.
    pub steady: Option<(Steady, i32)>,
    /// Bytes recorded of each packet of an interface; overrides the configuration.
    pub snaplen: Option<u32>,
}
