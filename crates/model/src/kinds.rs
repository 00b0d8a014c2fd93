//! Kinds of states, links, queues and names.
//!
//! Analyses compare kinds; texts are for people. No logic compares names.
//!
//! The *kind* of a state says what a machine does in that state. The *kind* of a link says what the
//! time between a cause and its effect is. A kind is fixed when a name is interned
//! ([`crate::names::Names::intern_as`]), so two names with the same text and different kinds are
//! two names: a program's span `read` is not the system call `read`.
//!
//! People also type names (`longpole what-if 'worker::run x0.5'`), and a machine log contains only
//! texts. A name from a program that would read like a name of the model therefore gets a label:
//! the span `run` is shown and typed as `span:run`, the queue `rpc:x` as `queue:rpc:x`, the thread
//! `link` as `thread:link` ([`state_label`], [`queue_label`], [`machine_label`]). No analysis
//! depends on a label.

use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// The activity, or the wait, of a machine in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StateKind {
    /// Work about which nothing else is known; also the state of a machine before its first
    /// declared state.
    Run,
    /// A thread runs code of its program.
    User,
    /// A thread is in the system call that the state is named after.
    SystemCall,
    /// A kernel thread works.
    Kernel,
    /// A span of the program is open; the state is named after the innermost one.
    Span,
    /// A thread serves a call.
    Call,
    /// The last state that a program declared for its machine.
    Declared,
    /// A thread polls for what it waits for and does not block. As the reason of a block: the thing
    /// that is waited for.
    Waits,
    /// A thread waits for a CPU because it was woken, or because it gave up its CPU voluntarily.
    Runnable,
    /// A thread waits for a CPU because the scheduler gave its CPU to another thread.
    Preempted,
    /// A thread is ready but must not run because the CPU quota of its control group is used up.
    Throttled,
    /// The kernel provides a page that a thread's code accessed.
    Fault,
    /// A thread has left its CPU until a time that it set itself.
    Asleep,
    /// A machine waits, and the cause that ended the wait is unknown.
    Blocked,
    /// An interrupt or softirq runs on top of the machine.
    Interrupted,
    /// An interrupt or softirq handles the device or softirq that the state is named after.
    Interrupt,
    /// The activity is outside of the trace.
    Outside,
    /// Events are missing, or the machine did not exist.
    Unknown,
    /// A state in a machine log about which only its name is known.
    Named,
}

impl StateKind {
    pub const ALL: [StateKind; 19] = [
        StateKind::Run,
        StateKind::User,
        StateKind::SystemCall,
        StateKind::Kernel,
        StateKind::Span,
        StateKind::Call,
        StateKind::Declared,
        StateKind::Waits,
        StateKind::Runnable,
        StateKind::Preempted,
        StateKind::Throttled,
        StateKind::Fault,
        StateKind::Asleep,
        StateKind::Blocked,
        StateKind::Interrupted,
        StateKind::Interrupt,
        StateKind::Outside,
        StateKind::Unknown,
        StateKind::Named,
    ];

    /// The word for this kind in JSON, and for `x_kind` in a machine log.
    pub fn word(self) -> &'static str {
        match self {
            StateKind::Run => "run",
            StateKind::User => "user",
            StateKind::SystemCall => "system_call",
            StateKind::Kernel => "kernel",
            StateKind::Span => "span",
            StateKind::Call => "call",
            StateKind::Declared => "declared",
            StateKind::Waits => "waits",
            StateKind::Runnable => "runnable",
            StateKind::Preempted => "preempted",
            StateKind::Throttled => "throttled",
            StateKind::Fault => "fault",
            StateKind::Asleep => "asleep",
            StateKind::Blocked => "blocked",
            StateKind::Interrupted => "interrupted",
            StateKind::Interrupt => "interrupt",
            StateKind::Outside => "outside",
            StateKind::Unknown => "unknown",
            StateKind::Named => "named",
        }
    }

    pub fn of_word(word: &str) -> Option<StateKind> {
        StateKind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// True if each state of this kind has its own name, so that the name does not determine the
    /// kind.
    pub fn is_of_any_name(self) -> bool {
        self.text().is_none() && self != StateKind::Blocked
    }

    /// The name of the only state of this kind; `None` if states of this kind have names of their
    /// own.
    pub fn text(self) -> Option<&'static str> {
        Some(match self {
            StateKind::Run => "run",
            StateKind::User => "user",
            StateKind::Kernel => "kernel",
            StateKind::Runnable => "runnable",
            StateKind::Preempted => "preempted",
            StateKind::Throttled => "throttled",
            StateKind::Fault => "page fault",
            StateKind::Asleep => "asleep",
            StateKind::Interrupted => "interrupted",
            StateKind::Outside => "outside",
            StateKind::Unknown => "UNKNOWN",
            _ => return None,
        })
    }

    /// The kind of the state that has this name in a machine log.
    pub fn of_text(text: &str) -> StateKind {
        match text {
            "run" => StateKind::Run,
            "user" => StateKind::User,
            "kernel" => StateKind::Kernel,
            "runnable" => StateKind::Runnable,
            "preempted" => StateKind::Preempted,
            "throttled" => StateKind::Throttled,
            "page fault" => StateKind::Fault,
            "asleep" => StateKind::Asleep,
            "interrupted" => StateKind::Interrupted,
            "outside" => StateKind::Outside,
            "UNKNOWN" => StateKind::Unknown,
            _ => StateKind::Named,
        }
    }

    /// True if the machine is ready and waits for a CPU.
    pub fn waits_for_cpu(self) -> bool {
        matches!(self, StateKind::Runnable | StateKind::Preempted | StateKind::Throttled)
    }

    /// True if the machine executes code in this state, so that a profiler could see it.
    pub fn is_code(self) -> bool {
        match self {
            StateKind::Run | StateKind::User | StateKind::SystemCall | StateKind::Kernel | StateKind::Span | StateKind::Call => true,
            StateKind::Declared | StateKind::Waits | StateKind::Interrupt | StateKind::Named => true,
            StateKind::Fault => true,
            StateKind::Runnable | StateKind::Preempted | StateKind::Throttled | StateKind::Asleep | StateKind::Outside => false,
            StateKind::Blocked | StateKind::Interrupted | StateKind::Unknown => false,
        }
    }

    /// True if the state has a name of its own, so that a profiler sums up the time under that name
    /// over all machines. False if the state is any code of the machine's program.
    pub fn is_symbol(self) -> bool {
        !matches!(self, StateKind::Run | StateKind::User | StateKind::Kernel)
    }
}

/// The meaning of the time between a cause and its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkKind {
    /// Time from a put to the get on the same host; the token waits in the queue.
    Queued,
    /// Time from a sender to a receiver through a network.
    Wire,
    /// Time from a wake-up, or a fork, to the woken or new thread.
    Wakeup,
    /// Time until a timer expires that the woken thread, or another thread, set.
    Timer,
    /// Time until a receiver's timer for a delayed acknowledgement expires.
    DelayedAck,
    /// Time until one of the timers expires that a TCP connection has for data it sent; no event
    /// says which of them.
    Transmission,
    /// Time until an unacknowledged TCP segment is sent again.
    Retransmission,
    /// Time until a sender probes whether the closed window of its receiver is open again.
    WindowProbe,
    /// Time until the keepalive timer of a TCP connection expires.
    Keepalive,
    /// Time until TCP pacing permits the next segment.
    Pacing,
    /// Time until a queueing discipline permits the next packet.
    RateLimit,
    /// Time until the CPU quota of a control group is refilled.
    QuotaRefill,
    /// Time until the disk limit of a control group permits the next request.
    IoQuota,
    /// Time until delayed work of the kernel is due, for example writeback.
    DelayedWork,
    /// Time until every CPU has been through the kernel's scheduler (an RCU grace period).
    GracePeriod,
    /// Time until another timer expires that the kernel set for itself.
    KernelTimer,
    /// Time until an interrupt for which the trace has no event.
    Interrupt,
    /// Time from the raise of a softirq to its handler.
    Raise,
    /// Time from queueing work for a kernel worker to the moment at which a worker begins with it.
    Workqueue,
    /// Time from the issue of a request to its completion by the device.
    Disk,
    /// Time in which a thread waits for a device whose work no event of the trace caused, such as
    /// for packets from another host.
    Outside,
    /// Time from sending a signal to the end of the thread that the signal kills.
    Signal,
    /// Time in which the machine was assumed to wait but did not.
    Run,
    /// Events are missing: what the machine did in this time is unknown.
    Unknown,
    /// A link in a machine log about which only its name is known.
    Named,
}

impl LinkKind {
    pub const ALL: [LinkKind; 25] = [
        LinkKind::Queued,
        LinkKind::Wire,
        LinkKind::Wakeup,
        LinkKind::Timer,
        LinkKind::DelayedAck,
        LinkKind::Transmission,
        LinkKind::Retransmission,
        LinkKind::WindowProbe,
        LinkKind::Keepalive,
        LinkKind::Pacing,
        LinkKind::RateLimit,
        LinkKind::QuotaRefill,
        LinkKind::IoQuota,
        LinkKind::DelayedWork,
        LinkKind::GracePeriod,
        LinkKind::KernelTimer,
        LinkKind::Interrupt,
        LinkKind::Raise,
        LinkKind::Workqueue,
        LinkKind::Disk,
        LinkKind::Outside,
        LinkKind::Signal,
        LinkKind::Run,
        LinkKind::Unknown,
        LinkKind::Named,
    ];

    /// The name of links of this kind; `None` if they have names of their own.
    pub fn text(self) -> Option<&'static str> {
        Some(match self {
            LinkKind::Queued => "queued",
            LinkKind::Wire => "wire",
            LinkKind::Wakeup => "wakeup",
            LinkKind::Timer => "timer",
            LinkKind::DelayedAck => "delayed ACK",
            LinkKind::Transmission => "transmission timer",
            LinkKind::Retransmission => "retransmission timer",
            LinkKind::WindowProbe => "window probe",
            LinkKind::Keepalive => "keepalive timer",
            LinkKind::Pacing => "pacing",
            LinkKind::RateLimit => "rate limit",
            LinkKind::QuotaRefill => "quota refill",
            LinkKind::IoQuota => "disk quota",
            LinkKind::DelayedWork => "delayed work",
            LinkKind::GracePeriod => "grace period",
            LinkKind::KernelTimer => "kernel timer",
            LinkKind::Interrupt => "interrupt",
            LinkKind::Raise => "raise",
            LinkKind::Workqueue => "workqueue",
            LinkKind::Disk => "disk",
            LinkKind::Outside => "outside",
            LinkKind::Signal => "signal",
            LinkKind::Run => "run",
            LinkKind::Unknown => "UNKNOWN",
            LinkKind::Named => return None,
        })
    }

    /// Kinds of links whose name may contain a detail: the system call in which the thread waits,
    /// for example `timer epoll_wait`, or the device for which it waits.
    const WITH_DETAIL: [LinkKind; 3] = [LinkKind::Timer, LinkKind::GracePeriod, LinkKind::Outside];

    /// Returns the system call, or the device, in the name of a link of this kind.
    pub fn detail_of(self, text: &str) -> Option<&str> {
        text.strip_prefix(self.text()?)?.strip_prefix(' ')
    }

    /// The kind of the link that has this name in a machine log, with or without a detail.
    pub fn of_text(text: &str) -> LinkKind {
        if let Some(kind) = LinkKind::WITH_DETAIL.into_iter().find(|kind| kind.detail_of(text).is_some()) {
            return kind;
        }
        LinkKind::ALL.into_iter().find(|kind| kind.text() == Some(text)).unwrap_or(LinkKind::Named)
    }

    /// The word for this kind in JSON.
    pub fn word(self) -> &'static str {
        match self {
            LinkKind::Queued => "link_queued",
            LinkKind::Wire => "link_wire",
            LinkKind::Wakeup => "link_wakeup",
            LinkKind::Timer => "link_timer",
            LinkKind::DelayedAck => "link_delayed_ack",
            LinkKind::Transmission => "link_transmission_timer",
            LinkKind::Retransmission => "link_retransmission",
            LinkKind::WindowProbe => "link_window_probe",
            LinkKind::Keepalive => "link_keepalive",
            LinkKind::Pacing => "link_pacing",
            LinkKind::RateLimit => "link_rate_limit",
            LinkKind::QuotaRefill => "link_quota_refill",
            LinkKind::IoQuota => "link_disk_quota",
            LinkKind::DelayedWork => "link_delayed_work",
            LinkKind::GracePeriod => "link_grace_period",
            LinkKind::KernelTimer => "link_kernel_timer",
            LinkKind::Interrupt => "link_interrupt",
            LinkKind::Raise => "link_raise",
            LinkKind::Workqueue => "link_workqueue",
            LinkKind::Disk => "link_disk",
            LinkKind::Outside => "link_outside",
            LinkKind::Signal => "link_signal",
            LinkKind::Run => "link_run",
            LinkKind::Unknown => "link_unknown",
            LinkKind::Named => "link_named",
        }
    }
}

/// The kind of a path segment, and of a row or share that sums up segments: a machine's state, or a
/// link between two machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentKind {
    State(StateKind),
    Link(LinkKind),
}

impl SegmentKind {
    pub fn word(self) -> &'static str {
        match self {
            SegmentKind::State(kind) => kind.word(),
            SegmentKind::Link(kind) => kind.word(),
        }
    }

    pub fn is_link(self) -> bool {
        matches!(self, SegmentKind::Link(_))
    }

    /// True if a machine is ready and waits for a CPU.
    pub fn waits_for_cpu(self) -> bool {
        matches!(self, SegmentKind::State(kind) if kind.waits_for_cpu())
    }

    /// See [`StateKind::is_code`]; false for links.
    pub fn is_code(self) -> bool {
        matches!(self, SegmentKind::State(kind) if kind.is_code())
    }

    /// See [`StateKind::is_symbol`]; true for links, since a link's name is its own.
    pub fn is_symbol(self) -> bool {
        match self {
            SegmentKind::State(kind) => kind.is_symbol(),
            SegmentKind::Link(_) => true,
        }
    }
}

impl Serialize for SegmentKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// The kind of the tokens in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueKind {
    /// Items of a program, bytes, requests to a disk, packets.
    #[default]
    Items,
    /// Calls on their way to a server.
    Calls,
    /// The reply to one call.
    Replies,
    /// Submissions of a signal.
    Signals,
}

/// The kind of a queue, from its name in a machine log, and the name of the call or signal.
///
/// The second value is the whole name if the queue is one of [`QueueKind::Items`].
pub fn queue_of_text(text: &str) -> (QueueKind, &str) {
    match (text.strip_prefix("rpc:"), text.strip_prefix("signal:")) {
        (Some(call), _) => match call.rfind(REPLY) {
            Some(end) => (QueueKind::Replies, &call[..end]),
            None => (QueueKind::Calls, call),
        },
        (None, Some(context)) => (QueueKind::Signals, context),
        (None, None) => (QueueKind::Items, text),
    }
}

const REPLY: &str = ":reply:";

/// The kind of thing that a name refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NameKind {
    /// A host, machine, class, queue or flow.
    #[default]
    Plain,
    /// The machine that represents all machines whose events are missing.
    LostEvents,
    State(StateKind),
    Link(LinkKind),
}

/// Name of the machine that represents all machines whose events are missing.
pub const LOST_EVENTS: &str = "lost events";
/// Name of the machine for what happens outside of the trace.
pub const OUTSIDE: &str = "outside";
/// Names in the place of a machine: a link that belongs to no queue, and the CPUs as the thing that
/// decides if all of them are busy.
pub const LINK: &str = "link";
pub const CPUS: &str = "cpus";
/// Prefix of the state of a thread that is blocked; the reason follows.
pub const BLOCKED: &str = "blocked:";

/// The label of a program's state (span, service, declared state).
///
/// The label is the name itself, or `span:NAME` if the model gives that name to a state. A name
/// `span:NAME` gets one more `span:` if it would otherwise be taken for such a label.
pub fn state_label(name: &str) -> Cow<'_, str> {
    label(name, "span:", |bare| {
        let is_of_probes = matches!(bare, "wait" | "re-entry" | "lost" | "signal") || bare.starts_with("wait: ");
        StateKind::of_text(bare) != StateKind::Named || is_of_probes || bare.starts_with(BLOCKED)
    })
}

/// The label of a program's queue: its name, or `queue:NAME` if that is the name of a queue of
/// calls or signals, or of a link that belongs to no queue.
pub fn queue_label(name: &str) -> Cow<'_, str> {
    label(name, "queue:", |bare| bare == LINK || queue_of_text(bare).0 != QueueKind::Items)
}

/// The label of a thread: its name, or `thread:NAME` if that is the name of a machine that the
/// model adds.
pub fn machine_label(name: &str) -> Cow<'_, str> {
    label(name, "thread:", |bare| matches!(bare, LINK | CPUS | LOST_EVENTS | OUTSIDE))
}

/// The label of a call in the names of its queues; [`queue_of_text`] can read it back.
pub fn call_label(name: &str) -> Cow<'_, str> {
    match name.contains(REPLY) {
        true => Cow::Owned(name.replace(REPLY, ":reply;")),
        false => Cow::Borrowed(name),
    }
}

fn label<'a>(name: &'a str, prefix: &str, is_given: impl Fn(&str) -> bool) -> Cow<'a, str> {
    let mut bare = name;
    while let Some(rest) = bare.strip_prefix(prefix) {
        bare = rest;
    }
    match is_given(bare) {
        true => Cow::Owned(format!("{prefix}{name}")),
        false => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_found_from_its_word_and_its_text() {
        for kind in StateKind::ALL {
            assert_eq!(StateKind::of_word(kind.word()), Some(kind));
            assert_eq!(kind.text().map(StateKind::of_text), kind.text().map(|_| kind));
        }
        for kind in LinkKind::ALL {
            assert_eq!(kind.text().map(LinkKind::of_text), kind.text().map(|_| kind));
        }
    }

    #[test]
    fn a_label_is_never_read_as_a_name_of_the_model() {
        for name in ["run", "UNKNOWN", "blocked:x", "wait", "wait: x", "span:run", "span:span:run", "parse", "span:parse", ""] {
            assert_eq!(StateKind::of_text(&state_label(name)), StateKind::Named, "{name}");
        }
        assert_eq!([state_label("run"), state_label("span:run")], ["span:run", "span:span:run"]);
        assert_eq!([state_label("parse"), state_label("span:parse")], ["parse", "span:parse"]);
        for name in ["wait", "re-entry", "lost", "signal", "wait: x", "span:wait"] {
            assert_eq!(state_label(name), format!("span:{name}"), "the analyses of probes give this name to a state");
        }
        assert_eq!(state_label("waiter"), "waiter");
        for name in ["rpc:x", "rpc:x:reply:1", "signal:x", "link", "queue:rpc:x", "jobs", "rpc"] {
            assert_eq!(queue_of_text(&queue_label(name)).0, QueueKind::Items, "{name}");
        }
        assert_eq!([queue_label("rpc:x"), queue_label("jobs")], ["queue:rpc:x", "jobs"]);
        assert_eq!([machine_label("link"), machine_label("linker")], ["thread:link", "linker"]);
    }

    #[test]
    fn a_call_is_found_from_the_names_of_its_queues() {
        for call in ["x", "", "a:reply:1", "a:reply:", ":reply:"] {
            let label = call_label(call);
            assert_eq!(queue_of_text(&format!("rpc:{label}")), (QueueKind::Calls, &*label));
            assert_eq!(queue_of_text(&format!("rpc:{label}:reply:7")), (QueueKind::Replies, &*label));
        }
    }
}
