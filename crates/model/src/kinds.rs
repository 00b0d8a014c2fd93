//! Kinds of states, links, queues and names. Analyses compare kinds; texts are for people.
//!
//! The *kind* of a state says what a machine does in it, and the *kind* of a link what the time from a cause to its effect is. They are fixed when a
//! name is interned ([`crate::names::Names::intern_as`]), so two names of one text and different kinds are two names: a program's span `read`
//! is not the system call `read`.
//!
//! People also type names (`longpole what-if 'worker::run x0.5'`), and a machine log holds nothing but texts. A program's name that would read as one of the
//! model's therefore gets a label: its span `run` is shown and typed as `span:run`, its queue `rpc:x` as `queue:rpc:x`, its thread `link` as
//! `thread:link` ([`state_label`], [`queue_label`], [`machine_label`]). No analysis depends on a label.

use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// What a machine does, or waits for, in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StateKind {
    /// Work of which nothing else is known; also what a machine does before it states anything.
    Run,
    /// A thread runs code of its program.
    User,
    /// A thread is in this system call.
    SystemCall,
    /// A thread of the kernel itself works.
    Kernel,
    /// A span of the program is the innermost one that is open.
    Span,
    /// A thread serves a call.
    Call,
    /// The state that a program declared last.
    Declared,
    /// A thread looks for what it waits for, and does not block. As a block's reason: what is waited for.
    Waits,
    /// A thread was woken, or put off its CPU of its own accord, and waits for a CPU.
    Runnable,
    /// The scheduler gave a thread's CPU to another one; it waits for a CPU.
    Preempted,
    /// A thread is ready and may not run: its control group's CPU quota is used up.
    Throttled,
    /// The kernel brings a page that a thread's code wants.
    Fault,
    /// A thread has left its CPU until a time that it set itself.
    Asleep,
    /// A machine waits, and what ended the wait is not known.
    Blocked,
    /// An interrupt or softirq is on top of the machine.
    Interrupted,
    /// What an interrupt or softirq handles.
    Interrupt,
    /// What happens is outside of the trace.
    Outside,
    /// Events are missing, or the machine was not there.
    Unknown,
    /// A state of a machine log of which no more is known than its name.
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

    /// The word in JSON, and for `x_kind` in a machine log.
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

    /// States of this kind have names of their own, so that a name does not tell the kind.
    pub fn is_of_any_name(self) -> bool {
        self.text().is_none() && self != StateKind::Blocked
    }

    /// The name of the one state of this kind; none: states of this kind have names of their own.
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

    /// The kind of the state that a machine log calls so.
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

    /// The machine is ready and waits for a CPU.
    pub fn waits_for_cpu(self) -> bool {
        matches!(self, StateKind::Runnable | StateKind::Preempted | StateKind::Throttled)
    }

    /// A profiler could see it: the machine executes code.
    pub fn is_code(self) -> bool {
        match self {
            StateKind::Run | StateKind::User | StateKind::SystemCall | StateKind::Kernel | StateKind::Span | StateKind::Call => true,
            StateKind::Declared | StateKind::Waits | StateKind::Interrupt | StateKind::Named => true,
            StateKind::Fault => true,
            StateKind::Runnable | StateKind::Preempted | StateKind::Throttled | StateKind::Asleep | StateKind::Outside => false,
            StateKind::Blocked | StateKind::Interrupted | StateKind::Unknown => false,
        }
    }

    /// The state has a name of its own, so that a profiler adds up what bears it anywhere. Else it is whatever code of its program.
    pub fn is_symbol(self) -> bool {
        !matches!(self, StateKind::Run | StateKind::User | StateKind::Kernel)
    }
}

/// What the time from a cause to its effect is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkKind {
    /// From a put to the get on the same host: the token waits in the queue.
    Queued,
    /// From a sender to a receiver, through a network.
    Wire,
    /// From a wake-up, or a fork, to the one who was woken.
    Wakeup,
    /// Until a timer that the woken thread set itself, or that another thread set.
    Timer,
    /// Until a receiver's timer for a delayed acknowledgement goes off.
    DelayedAck,
    /// Until one of a TCP connection's timers for what it has sent goes off; which of them no event tells.
    Transmission,
    /// Until a TCP segment that nobody acknowledged is sent again.
    Retransmission,
    /// Until a sender asks whether its receiver's closed window is open again.
    WindowProbe,
    /// Until a TCP connection's keepalive timer goes off.
    Keepalive,
    /// Until TCP's pacing lets the next segment go.
    Pacing,
    /// Until a queueing discipline lets the next packet go.
    RateLimit,
    /// Until a control group's CPU quota is filled again.
    QuotaRefill,
    /// Until a control group's limit for its disks lets the next request go.
    IoQuota,
    /// Until the kernel's delayed work is due: writeback and the like.
    DelayedWork,
    /// Until another timer that the kernel set for itself.
    KernelTimer,
    /// Until an interrupt that no event of the trace tells.
    Interrupt,
    /// From where a softirq was raised to where it runs.
    Raise,
    /// From where work was queued for the kernel's workers to where one begins with it.
    Workqueue,
    /// From the issue of a request to its completion by the device.
    Disk,
    /// From sending a signal to the end of the thread that it ends.
    Signal,
    /// Time in which the machine was taken to wait, and did not.
    Run,
    /// Events are missing: what the machine did in this time is not known.
    Unknown,
    /// A link of a machine log of which no more is known than its name.
    Named,
}

impl LinkKind {
    pub const ALL: [LinkKind; 23] = [
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
        LinkKind::KernelTimer,
        LinkKind::Interrupt,
        LinkKind::Raise,
        LinkKind::Workqueue,
        LinkKind::Disk,
        LinkKind::Signal,
        LinkKind::Run,
        LinkKind::Unknown,
        LinkKind::Named,
    ];

    /// The name of links of this kind; none: they have names of their own.
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
            LinkKind::KernelTimer => "kernel timer",
            LinkKind::Interrupt => "interrupt",
            LinkKind::Raise => "raise",
            LinkKind::Workqueue => "workqueue",
            LinkKind::Disk => "disk",
            LinkKind::Signal => "signal",
            LinkKind::Run => "run",
            LinkKind::Unknown => "UNKNOWN",
            LinkKind::Named => return None,
        })
    }

    /// Until a timer of the kernel's goes off.
    pub fn is_kernel_timer(self) -> bool {
        match self {
            LinkKind::DelayedAck | LinkKind::Transmission | LinkKind::Retransmission | LinkKind::WindowProbe => true,
            LinkKind::Keepalive | LinkKind::Pacing | LinkKind::RateLimit | LinkKind::QuotaRefill => true,
            LinkKind::IoQuota | LinkKind::DelayedWork | LinkKind::KernelTimer => true,
            LinkKind::Queued | LinkKind::Wire | LinkKind::Wakeup | LinkKind::Timer | LinkKind::Interrupt | LinkKind::Raise => false,
            LinkKind::Workqueue | LinkKind::Disk | LinkKind::Signal | LinkKind::Run | LinkKind::Unknown | LinkKind::Named => false,
        }
    }

    /// The kind of the link that a machine log calls so. A thread's own timer may say in which call it waited: `timer epoll_wait`.
    pub fn of_text(text: &str) -> LinkKind {
        if text.strip_prefix("timer ").is_some() {
            return LinkKind::Timer;
        }
        LinkKind::ALL.into_iter().find(|kind| kind.text() == Some(text)).unwrap_or(LinkKind::Named)
    }

    /// The word in JSON.
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
            LinkKind::KernelTimer => "link_kernel_timer",
            LinkKind::Interrupt => "link_interrupt",
            LinkKind::Raise => "link_raise",
            LinkKind::Workqueue => "link_workqueue",
            LinkKind::Disk => "link_disk",
            LinkKind::Signal => "link_signal",
            LinkKind::Run => "link_run",
            LinkKind::Unknown => "link_unknown",
            LinkKind::Named => "link_named",
        }
    }
}

/// What a path segment is, and the row or share that sums up segments: a machine's state, or a link between two machines.
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

    /// A machine is ready and waits for a CPU.
    pub fn waits_for_cpu(self) -> bool {
        matches!(self, SegmentKind::State(kind) if kind.waits_for_cpu())
    }

    /// See [`StateKind::is_code`]; links are none.
    pub fn is_code(self) -> bool {
        matches!(self, SegmentKind::State(kind) if kind.is_code())
    }

    /// See [`StateKind::is_symbol`]; the name of a link is its own.
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

/// What a queue is to those who use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueKind {
    /// Tokens: items of a program, bytes, requests to a disk, packets.
    #[default]
    Items,
    /// Calls, on their way to a server.
    Calls,
    /// The reply to one call.
    Replies,
    /// Submits of a signal.
    Signals,
}

/// The kind of a queue by its name in a machine log, with the name of the call or signal.
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

/// What a name is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NameKind {
    /// A host, machine, class, queue or flow.
    #[default]
    Plain,
    /// The machine that stands for all whose events are missing.
    LostEvents,
    State(StateKind),
    Link(LinkKind),
}

/// The machine that stands for all whose events are missing.
pub const LOST_EVENTS: &str = "lost events";
/// The machine of what happens outside of the trace.
pub const OUTSIDE: &str = "outside";
/// In the place of a machine: a link that is of no queue; and what decides if all CPUs are busy.
pub const LINK: &str = "link";
pub const CPUS: &str = "cpus";
/// A thread that is blocked for a reason is in the state that is called so.
pub const BLOCKED: &str = "blocked:";

/// The label of a program's state (span, service, declared state): its name, or `span:NAME` if that is the name of a state that the models give. A name
/// `span:NAME` gets one more `span:` if it would be taken for that.
pub fn state_label(name: &str) -> Cow<'_, str> {
    label(name, "span:", |bare| {
        let is_of_probes = matches!(bare, "wait" | "re-entry" | "lost" | "signal") || bare.starts_with("wait: ");
        StateKind::of_text(bare) != StateKind::Named || is_of_probes || bare.starts_with(BLOCKED)
    })
}

/// The label of a program's queue: its name, or `queue:NAME` if that is the name of a queue of calls or signals, or of a link that is of no queue.
pub fn queue_label(name: &str) -> Cow<'_, str> {
    label(name, "queue:", |bare| bare == LINK || queue_of_text(bare).0 != QueueKind::Items)
}

/// The label of a thread: its name, or `thread:NAME` if that is the name of a machine that the model adds.
pub fn machine_label(name: &str) -> Cow<'_, str> {
    label(name, "thread:", |bare| matches!(bare, LINK | CPUS | LOST_EVENTS | OUTSIDE))
}

/// The label of a call in the names of its queues, from which it can be read again.
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
    fn a_kind_is_known_from_its_word_and_its_text() {
        for kind in StateKind::ALL {
            assert_eq!(StateKind::of_word(kind.word()), Some(kind));
            assert_eq!(kind.text().map(StateKind::of_text), kind.text().map(|_| kind));
        }
        for kind in LinkKind::ALL {
            assert_eq!(kind.text().map(LinkKind::of_text), kind.text().map(|_| kind));
        }
    }

    #[test]
    fn no_label_reads_as_a_name_that_the_model_gives() {
        for name in ["run", "UNKNOWN", "blocked:x", "wait", "wait: x", "span:run", "span:span:run", "parse", "span:parse", ""] {
            assert_eq!(StateKind::of_text(&state_label(name)), StateKind::Named, "{name}");
        }
        assert_eq!([state_label("run"), state_label("span:run")], ["span:run", "span:span:run"]);
        assert_eq!([state_label("parse"), state_label("span:parse")], ["parse", "span:parse"]);
        for name in ["rpc:x", "rpc:x:reply:1", "signal:x", "link", "queue:rpc:x", "jobs", "rpc"] {
            assert_eq!(queue_of_text(&queue_label(name)).0, QueueKind::Items, "{name}");
        }
        assert_eq!([queue_label("rpc:x"), queue_label("jobs")], ["queue:rpc:x", "jobs"]);
        assert_eq!([machine_label("link"), machine_label("linker")], ["thread:link", "linker"]);
    }

    #[test]
    fn a_call_is_known_from_the_names_of_its_queues() {
        for call in ["x", "", "a:reply:1", "a:reply:", ":reply:"] {
            let label = call_label(call);
            assert_eq!(queue_of_text(&format!("rpc:{label}")), (QueueKind::Calls, &*label));
            assert_eq!(queue_of_text(&format!("rpc:{label}:reply:7")), (QueueKind::Replies, &*label));
        }
    }
}
