//! The kernel events that can be requested: groups by subject, and single events by name.
//!
//! A group contains what an analysis of its subject needs, not all events that the kernel has for
//! it. Events that cost much and say little are left out; `--event` records them.

use std::fmt;
use std::str::FromStr;

/// A group of kernel events, by what they are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    Sched,
    Irq,
    Softirq,
    Ipi,
    Timer,
    Net,
    Skb,
    Block,
    Syscall,
    Futex,
    Lock,
    Fault,
    Workqueue,
    IoUring,
    Signal,
    Power,
}

/// Events about processes that begin, end and change their names. They are always recorded: they
/// are few, and without them it is not known to which process the other events belong.
pub const ALWAYS_RECORDED: &[&str] =
    &["sched:sched_process_fork", "sched:sched_process_exec", "sched:sched_process_exit", "task:task_newtask", "task:task_rename"];

/// Entries and exits of interrupts, except for those by which CPUs send messages to each other. The
/// other events of this subsystem are about the administration of interrupts.
const VECTORS: &[&str] = &[
    "irq:irq_handler_*",
    "irq_vectors:local_timer_*",
    "irq_vectors:irq_work_*",
    "irq_vectors:spurious_apic_*",
    "irq_vectors:error_apic_*",
    "irq_vectors:x86_platform_ipi_*",
    "irq_vectors:thermal_apic_*",
    "irq_vectors:deferred_error_apic_*",
    "irq_vectors:threshold_apic_*",
];

impl Group {
    /// Groups that are recorded if the user chose none, each in its light form ([`super::light`]).
    pub const DEFAULT: [Group; 8] =
        [Group::Sched, Group::Irq, Group::Softirq, Group::Net, Group::Block, Group::Workqueue, Group::Syscall, Group::Fault];

    pub const ALL: [Group; 16] = [
        Group::Sched,
        Group::Irq,
        Group::Softirq,
        Group::Ipi,
        Group::Timer,
        Group::Net,
        Group::Skb,
        Group::Block,
        Group::Syscall,
        Group::Futex,
        Group::Lock,
        Group::Fault,
        Group::Workqueue,
        Group::IoUring,
        Group::Signal,
        Group::Power,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Group::Sched => "sched",
            Group::Irq => "irq",
            Group::Softirq => "softirq",
            Group::Ipi => "ipi",
            Group::Timer => "timer",
            Group::Net => "net",
            Group::Skb => "skb",
            Group::Block => "block",
            Group::Syscall => "syscall",
            Group::Futex => "futex",
            Group::Lock => "lock",
            Group::Fault => "fault",
            Group::Workqueue => "workqueue",
            Group::IoUring => "io_uring",
            Group::Signal => "signal",
            Group::Power => "power",
        }
    }

    /// Patterns of the group's events that are recorded without a filter, in the form that
    /// [`TraceFs::matching`](longpole_ftrace::TraceFs::matching) accepts.
    fn patterns(self) -> &'static [&'static str] {
        match self {
            Group::Sched => &[
                "sched:sched_switch",
                "sched:sched_waking",
                "sched:sched_wakeup",
                "sched:sched_wakeup_new",
                "sched:sched_migrate_task",
                "sched:sched_pi_setprio",
                "sched:sched_process_free",
                "sched:sched_process_wait",
            ],
            Group::Irq => VECTORS,
            Group::Softirq => &["irq:softirq_*", "irq:tasklet_*"],
            Group::Ipi => &["ipi:*", "irq_vectors:reschedule_*", "irq_vectors:call_function_*"],
            Group::Timer => &["timer:*"],
            Group::Net => &[
                "net:net_dev_queue",
                "net:net_dev_start_xmit",
                "net:net_dev_xmit",
                "net:net_dev_xmit_timeout",
                "net:netif_rx",
                "net:netif_receive_skb",
                "net:napi_gro_receive_entry",
                "napi:napi_poll",
                "skb:kfree_skb",
                "skb:skb_copy_datagram_iovec",
                // The socket that a packet reached, and the call that received it: a datagram that
                // a reader copies whole leaves no other trace.
                "sock:sk_data_ready",
                "sock:sock_recv_length",
                "sock:inet_sock_set_state",
                "sock:sock_rcvqueue_full",
                "sock:sock_exceed_buf_limit",
                "udp:udp_fail_queue_rcv_skb",
                "tcp:tcp_retransmit_skb",
                "tcp:tcp_retransmit_synack",
                "qdisc:qdisc_create",
                "qdisc:qdisc_destroy",
            ],
            Group::Skb => &["skb:*", "qdisc:*"],
            Group::Block => &["block:block_rq_*", "block:block_bio_*", "block:block_getrq", "block:block_split"],
            Group::Syscall => &["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"],
            // System calls of futexes are a filter on the events of all system calls; see
            // `Group::filtered`.
            Group::Futex | Group::Lock => &["lock:contention_begin", "lock:contention_end"],
            // Includes direct reclaim, because a thread that finds no free memory frees some
            // itself.
            Group::Fault => &[
                "exceptions:page_fault_*",
                "vmscan:mm_vmscan_direct_reclaim_*",
                "vmscan:mm_vmscan_memcg_reclaim_*",
                "compaction:mm_compaction_begin",
                "compaction:mm_compaction_end",
            ],
            Group::Workqueue => &["workqueue:*"],
            Group::IoUring => &["io_uring:*"],
            Group::Signal => &["signal:*"],
            Group::Power => &[
                "power:cpu_idle",
                "power:cpu_idle_miss",
                "power:cpu_frequency",
                "power:cpu_frequency_limits",
                "power:pstate_sample",
                "power:suspend_resume",
            ],
        }
    }

    /// The group's other events: those with a filter, and those that belong to them.
    fn filtered(self) -> Vec<EventSelection> {
        match self {
            Group::Futex => {
                // futex, futex_waitv, futex_wake, futex_wait, futex_requeue. All but the first have
                // the same number on every architecture.
                let numbers = [libc::SYS_futex, 449, 454, 455, 456];
                let filter = numbers.map(|number| format!("id == {number}")).join(" || ");
                vec![EventSelection::some(&["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"], filter)]
            }
            // A softirq that runs because of a timer works for the thread that set the timer.
            Group::Softirq => vec![
                // TCP sends again and probes a closed window by the same timer; these events
                // distinguish them.
                EventSelection::all(&["timer:timer_expire_entry", "tcp:tcp_retransmit_skb", "tcp:tcp_retransmit_synack"]),
                EventSelection::some(&["timer:timer_start"], format!("function.function != {OWN_TIMER}")),
                EventSelection::some(&["timer:hrtimer_expire_entry"], format!("function.function != {TICK}")),
                EventSelection::some(&["timer:hrtimer_start"], one_of(&FINE_TIMERS)),
            ],
            // A small window delays a sender that has more to send. It is rare unless a program
            // chose a small buffer.
            Group::Net => vec![EventSelection::some(&["tcp:tcp_probe"], format!("snd_wnd < {SMALL_WINDOW}"))],
            _ => Vec::new(),
        }
    }

    /// Returns all events of the group in its full form.
    pub fn parts(self) -> Vec<EventSelection> {
        let mut parts = vec![EventSelection::all(self.patterns())];
        parts.extend(self.filtered());
        parts
    }
}

/// Events that are recorded, either all of them or those that match a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSelection {
    pub patterns: &'static [&'static str],
    /// System calls whose events match a pattern and are not meant.
    pub except: &'static [&'static str],
    pub filter: Option<String>,
}

impl EventSelection {
    /// All events that match the patterns.
    pub fn all(patterns: &'static [&'static str]) -> EventSelection {
        EventSelection { patterns, except: &[], filter: None }
    }

    /// All events that match the patterns, except the events of these system calls.
    pub fn except(patterns: &'static [&'static str], except: &'static [&'static str]) -> EventSelection {
        EventSelection { except, ..EventSelection::all(patterns) }
    }

    /// The events that match the patterns and the filter.
    pub fn some(patterns: &'static [&'static str], filter: String) -> EventSelection {
        EventSelection { filter: Some(filter), ..EventSelection::all(patterns) }
    }
}

/// Functions of high-resolution timers that work for others: TCP's pacing and its acknowledgements,
/// rate limits, timers of programs, quotas of CPU time. All others either wake the thread that set
/// them or are the tick.
const FINE_TIMERS: [&str; 8] = [
    "tcp_pace_kick",
    "tcp_compressed_ack_kick",
    "qdisc_watchdog",
    "timerfd_tmrproc",
    "it_real_fn",
    "posix_timer_fn",
    "sched_cfs_period_timer",
    "sched_cfs_slack_timer",
];
/// Function of the tick, which expires some hundred times per second on each CPU.
const TICK: &str = "tick_nohz_handler";
/// Function of a timer that only wakes the thread that set it.
const OWN_TIMER: &str = "process_timeout";
/// TCP window in bytes below which events are recorded. A connection begins with 64 KiB, and the
/// kernel enlarges that unless a program has chosen a small buffer.
const SMALL_WINDOW: u32 = 32 << 10;

fn one_of(functions: &[&str]) -> String {
    functions.iter().map(|function| format!("function.function == {function}")).collect::<Vec<_>>().join(" || ")
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Group {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Group, RequestError> {
        Group::ALL.into_iter().find(|group| group.name() == text).ok_or_else(|| RequestError::Group(text.to_owned()))
    }
}

/// A single event in a request: `SUBSYSTEM:NAME[:FILTER]`, or `all`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRequest {
    /// Subsystem and name, separated by a colon. May contain the wildcards `*` and `?`.
    pub pattern: String,
    /// Filter in the kernel's language.
    pub filter: Option<String>,
}

impl EventRequest {
    /// True if several events may match.
    pub fn is_pattern(&self) -> bool {
        self.pattern == "all" || self.pattern.contains(['*', '?'])
    }
}

impl FromStr for EventRequest {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<EventRequest, RequestError> {
        let wrong = || RequestError::Event(text.to_owned());
        if text == "all" {
            return Ok(EventRequest { pattern: "all".to_owned(), filter: None });
        }
        let mut parts = text.splitn(3, ':');
        let (Some(system), Some(name)) = (parts.next(), parts.next()) else { return Err(wrong()) };
        // Both become parts of a path in tracefs, so only harmless characters are accepted.
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.*?".contains(&b));
        if !plain(system) || !plain(name) {
            return Err(wrong());
        }
        let filter = parts.next().map(str::trim);
        if filter == Some("") {
            return Err(wrong());
        }
        Ok(EventRequest { pattern: format!("{system}:{name}"), filter: filter.map(str::to_owned) })
    }
}

impl fmt::Display for EventRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.filter {
            Some(filter) => write!(f, "{}:{filter}", self.pattern),
            None => f.write_str(&self.pattern),
        }
    }
}

/// A field that every event in the converted trace contains about its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    Pid,
    Ppid,
    Comm,
    Prio,
}

impl Context {
    pub const ALL: [Context; 4] = [Context::Pid, Context::Ppid, Context::Comm, Context::Prio];

    pub fn name(self) -> &'static str {
        match self {
            Context::Pid => "pid",
            Context::Ppid => "ppid",
            Context::Comm => "comm",
            Context::Prio => "prio",
        }
    }
}

impl FromStr for Context {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Context, RequestError> {
        Context::ALL.into_iter().find(|context| context.name() == text).ok_or_else(|| RequestError::Context(text.to_owned()))
    }
}

/// A request that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("{0:?} is not a group of kernel events; groups are {list}, and none", list = names(&Group::ALL.map(Group::name)))]
    Group(String),
    #[error("{0:?} is not an event; write SUBSYSTEM:NAME or SUBSYSTEM:NAME:FILTER (* and ? stand for any text and any letter), or all")]
    Event(String),
    #[error("{0:?} is not a context; contexts are {list}", list = names(&Context::ALL.map(Context::name)))]
    Context(String),
}

fn names(all: &[&str]) -> String {
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_is_found_by_its_name_and_an_error_lists_all_names() {
        for group in Group::ALL {
            assert_eq!(group.name().parse(), Ok(group));
            assert!(group.parts().iter().any(|part| !part.patterns.is_empty()));
        }
        let error = "shed".parse::<Group>().unwrap_err().to_string();
        assert!(error.contains("\"shed\"") && error.contains("sched, irq, softirq") && error.contains("power, and none"), "{error}");
    }

    #[test]
    fn an_event_has_a_subsystem_a_name_and_an_optional_filter_with_colons() {
        let request = |text: &str| text.parse::<EventRequest>();
        assert_eq!(request("sched:sched_w*"), Ok(EventRequest { pattern: "sched:sched_w*".into(), filter: None }));
        let filtered = request("sched:sched_switch:prev_comm ~ \"a:b\"").unwrap();
        assert_eq!((filtered.pattern.as_str(), filtered.filter.as_deref()), ("sched:sched_switch", Some("prev_comm ~ \"a:b\"")));
        assert_eq!(request("all").unwrap().pattern, "all");
        for wrong in ["", "sched", "sched:", ":x", "a/..:b", "a:b:", "a:b: ", "../x:y"] {
            assert!(request(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn groups_record_some_events_only_in_part() {
        let filter = |group: Group, event: &str| {
            let part = group.parts().into_iter().find(|part| part.patterns.contains(&event));
            part.unwrap_or_else(|| panic!("{event}")).filter
        };
        let calls = filter(Group::Futex, "raw_syscalls:sys_exit").unwrap();
        assert!(calls.starts_with(&format!("id == {} || ", libc::SYS_futex)), "{calls}");
        assert!(filter(Group::Softirq, "timer:hrtimer_start").unwrap().contains("tcp_pace_kick"));
        assert_eq!(filter(Group::Softirq, "timer:timer_expire_entry"), None);
        assert_eq!(filter(Group::Syscall, "raw_syscalls:sys_exit"), None);
    }
}
