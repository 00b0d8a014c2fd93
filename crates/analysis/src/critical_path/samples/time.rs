//! What the time of a stretch of the path is: running, or one kind of waiting.

use crate::scheduling::time_kind::TimeKind;
use longpole_model::kinds::{LinkKind, SegmentKind, StateKind};

pub(super) fn of_segment(kind: SegmentKind) -> TimeKind {
    match kind {
        SegmentKind::State(kind) => match kind {
            StateKind::Runnable | StateKind::Preempted | StateKind::Throttled => TimeKind::Cpu,
            StateKind::Asleep => TimeKind::Timer,
            StateKind::Blocked | StateKind::Unknown | StateKind::Outside => TimeKind::Waiting,
            _ => TimeKind::Running,
        },
        SegmentKind::Link(kind) => match kind {
            LinkKind::Timer => TimeKind::Timer,
            kind if kind.is_kernel_timer() && kind != LinkKind::IoQuota => TimeKind::Timer,
            LinkKind::Disk | LinkKind::IoQuota => TimeKind::Disk,
            LinkKind::Wire => TimeKind::Network,
            _ => TimeKind::Waiting,
        },
    }
}
