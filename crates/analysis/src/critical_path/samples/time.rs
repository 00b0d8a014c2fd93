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
            LinkKind::Timer | LinkKind::DelayedAck | LinkKind::Transmission | LinkKind::Retransmission => TimeKind::Timer,
            LinkKind::WindowProbe | LinkKind::Keepalive | LinkKind::Pacing | LinkKind::RateLimit => TimeKind::Timer,
            LinkKind::QuotaRefill | LinkKind::DelayedWork | LinkKind::GracePeriod | LinkKind::KernelTimer => TimeKind::Timer,
            LinkKind::Disk | LinkKind::IoQuota => TimeKind::Disk,
            LinkKind::Wire | LinkKind::Outside => TimeKind::Network,
            LinkKind::Queued | LinkKind::Wakeup | LinkKind::Interrupt | LinkKind::Raise | LinkKind::Workqueue => TimeKind::Waiting,
            LinkKind::Signal | LinkKind::Run | LinkKind::Unknown | LinkKind::Named => TimeKind::Waiting,
        },
    }
}
