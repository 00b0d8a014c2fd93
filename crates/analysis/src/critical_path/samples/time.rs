//! What the time of a stretch of the path is: running, or one kind of waiting.

use crate::scheduling::flame_graph::Code;
use longpole_model::kinds::{LinkKind, SegmentKind, StateKind};
use serde::Serialize;

/// Kind of time on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathTime {
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

impl PathTime {
    /// The words for this kind.
    pub fn text(self) -> &'static str {
        match self {
            PathTime::Running => "runs",
            PathTime::Cpu => "waits for a CPU",
            PathTime::Timer => "waits for a timer",
            PathTime::Disk => "waits for a disk",
            PathTime::Network => "waits for a network",
            PathTime::Waiting => "waits",
        }
    }

    /// Returns what the innermost frame of a wait belongs to in a flame graph; `None` for running
    /// code.
    pub fn code(self) -> Option<Code> {
        Some(match self {
            PathTime::Running => return None,
            PathTime::Cpu => Code::WaitsForCpu,
            PathTime::Timer => Code::WaitsForTimer,
            PathTime::Disk => Code::WaitsForDisk,
            PathTime::Network => Code::WaitsForNetwork,
            PathTime::Waiting => Code::Waits,
        })
    }
}

pub(super) fn of_segment(kind: SegmentKind) -> PathTime {
    match kind {
        SegmentKind::State(kind) => match kind {
            StateKind::Runnable | StateKind::Preempted | StateKind::Throttled => PathTime::Cpu,
            StateKind::Asleep => PathTime::Timer,
            StateKind::Blocked | StateKind::Unknown | StateKind::Outside => PathTime::Waiting,
            _ => PathTime::Running,
        },
        SegmentKind::Link(kind) => match kind {
            LinkKind::Timer => PathTime::Timer,
            kind if kind.is_kernel_timer() && kind != LinkKind::IoQuota => PathTime::Timer,
            LinkKind::Disk | LinkKind::IoQuota => PathTime::Disk,
            LinkKind::Wire => PathTime::Network,
            _ => PathTime::Waiting,
        },
    }
}
