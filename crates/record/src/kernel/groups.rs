//! Which of the kernel's events are recorded: groups by subject, and single events by name.
//!
//! A group names what its subject needs, not all that the kernel has of it: what costs much and says little is left out
//! and can be had by `--event`.

use std::fmt;
use std::str::FromStr;

/// A subject.
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

/// Processes that come, go and change their names: few events, and without them nobody knows whose the others are.
pub const ALWAYS: &[&str] =
    &["sched:sched_process_fork", "sched:sched_process_exec", "sched:sched_process_exit", "task:task_newtask", "task:task_rename"];

/// Entries and exits of the interrupts that are no messages between CPUs. The other events of this subsystem tell of their administration.
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
    /// What is recorded where nobody says otherwise, each in its light form ([`super::light`]).
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

    /// Its events, as patterns that [`TraceFs::matching`](longpole_ftrace::TraceFs::matching) understands.
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
                // To which socket a packet came, and which call took it: a datagram that a reader copies whole leaves no other trace.
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
            // Its system calls are a filter on the two events of all; see `Group::filtered`.
            Group::Futex | Group::Lock => &["lock:contention_begin", "lock:contention_end"],
            // A thread that finds no free memory frees some itself.
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

    /// Further events of which only a part is wanted, with the filter that chooses it.
    fn filtered(self) -> Vec<Part> {
        match self {
            Group::Futex => {
                // futex, futex_waitv, futex_wake, futex_wait, futex_requeue: but for the first they have one number on every architecture.
                let numbers = [libc::SYS_futex, 449, 454, 455, 456];
                let filter = numbers.map(|number| format!("id == {number}")).join(" || ");
                vec![Part::some(&["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"], filter)]
            }
            // A softirq that a timer has led to acts for who set that.
            Group::Softirq => vec![
                // The timer by which TCP sends again is also the one by which it probes a closed window.
                Part::all(&["timer:timer_expire_entry", "tcp:tcp_retransmit_skb", "tcp:tcp_retransmit_synack"]),
                Part::some(&["timer:timer_start"], format!("function.function != {OWN_TIMER}")),
                Part::some(&["timer:hrtimer_expire_entry"], format!("function.function != {TICK}")),
                Part::some(&["timer:hrtimer_start"], one_of(&FINE_TIMERS)),
            ],
            // A small window holds up a sender that has more to send; it is rare where nobody chose a small buffer.
            Group::Net => vec![Part::some(&["tcp:tcp_probe"], format!("snd_wnd < {SMALL_WINDOW}"))],
            _ => Vec::new(),
        }
    }

    /// All of it.
    pub fn parts(self) -> Vec<Part> {
        let mut parts = vec![Part::all(self.patterns())];
        parts.extend(self.filtered());
        parts
    }
}

/// Events that are wanted, all of them or those that a filter chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub patterns: &'static [&'static str],
    pub filter: Option<String>,
}

impl Part {
    pub fn all(patterns: &'static [&'static str]) -> Part {
        Part { patterns, filter: None }
    }

    pub fn some(patterns: &'static [&'static str], filter: String) -> Part {
        Part { patterns, filter: Some(filter) }
    }
}

/// Functions of fine timers that act for others: TCP's pace and its acknowledgements, rate limits, timers of programs, quotas of CPU time. All others wake whoever
/// set them, or are the tick.
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
/// The tick, some hundred times a second on each CPU.
const TICK: &str = "tick_nohz_handler";
/// Wakes the thread of the kernel that set it.
const OWN_TIMER: &str = "process_timeout";
/// Bytes. A connection begins with 64 KiB, and the kernel enlarges that unless a program has chosen a small buffer.
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

/// `SUBSYSTEM:NAME[:FILTER]`, or `all`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRequest {
    /// With `*` and `?`.
    pub pattern: String,
    /// In the kernel's language.
    pub filter: Option<String>,
}

impl EventRequest {
    /// Whether it can mean several events.
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
        // These are parts of a path in the kernel's folder.
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

/// What every event tells of its thread in the converted trace.
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

/// A wish that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("{0:?} is no group of kernel events; there are {list}, and none", list = names(&Group::ALL.map(Group::name)))]
    Group(String),
    #[error("{0:?} is no event; write SUBSYSTEM:NAME or SUBSYSTEM:NAME:FILTER (* and ? stand for any text and any letter), or all")]
    Event(String),
    #[error("{0:?} is no context; there are {list}", list = names(&Context::ALL.map(Context::name)))]
    Context(String),
}

fn names(all: &[&str]) -> String {
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_is_found_by_its_name_and_a_wrong_one_is_told_all_names() {
        for group in Group::ALL {
            assert_eq!(group.name().parse(), Ok(group));
            assert!(group.parts().iter().any(|part| !part.patterns.is_empty()));
        }
        let error = "shed".parse::<Group>().unwrap_err().to_string();
        assert!(error.contains("\"shed\"") && error.contains("sched, irq, softirq") && error.contains("power, and none"), "{error}");
    }

    #[test]
    fn an_event_has_a_subsystem_a_name_and_perhaps_a_filter_with_colons() {
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
    fn of_some_events_a_group_wants_a_part() {
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
