//! What a thread does in a part of its time: it runs, or it waits in one of several ways.

use super::flame_graph::Code;
use serde::{Deserialize, Serialize};

/// Kind of a part of a thread's time, or of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeKind {
    /// Code runs.
    Running,
    /// A thread waits for a CPU.
    Cpu,
    /// A thread waits until a time that it, or the kernel, set.
    Timer,
    Disk,
    Network,
    /// A thread waits for something else, or an effect is on its way to a thread.
    Waiting,
}

impl TimeKind {
    /// The words for this kind.
    pub fn text(self) -> &'static str {
        match self {
            TimeKind::Running => "runs",
            TimeKind::Cpu => "waits for a CPU",
            TimeKind::Timer => "waits for a timer",
            TimeKind::Disk => "waits for a disk",
            TimeKind::Network => "waits for a network",
            TimeKind::Waiting => "waits",
        }
    }

    /// Returns what the innermost frame of a wait belongs to in a flame graph; `None` for running
    /// code.
    pub fn code(self) -> Option<Code> {
        Some(match self {
            TimeKind::Running => return None,
            TimeKind::Cpu => Code::WaitsForCpu,
            TimeKind::Timer => Code::WaitsForTimer,
            TimeKind::Disk => Code::WaitsForDisk,
            TimeKind::Network => Code::WaitsForNetwork,
            TimeKind::Waiting => Code::Waits,
        })
    }
}
