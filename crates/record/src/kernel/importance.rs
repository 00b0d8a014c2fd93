//! The order in which kinds of kernel events are given up on a host that cannot store them all:
//! first those whose absence harms the answer least.
//!
//! The order is one of events, not of the groups that contain them, because one group may hold both
//! important and unimportant events. For example, `sched` has the switches, without which there is
//! no critical path, and the moves between CPUs, which only add detail. Two kinds of events are
//! never given up: those that the user requested by their full name, and those in
//! [`NEVER_GIVEN_UP`]. So whatever is given up, the critical path still leads from each wait to the
//! thread or device that ended it.

use super::layout::Layout;
use super::single_calls::SingleCall;
use longpole_predicate::glob;

/// Events that are never given up. Without any of these, a critical path is wrong or ends early;
/// without the others, an answer is right but has less detail.
const NEVER_GIVEN_UP: &[&str] = &[
    // Which thread runs, which one wakes another, and which ones begin and end.
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup_new",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "task:*",
    // If an interrupt is missing from the trace, the thread that it interrupted is taken for the
    // waker.
    "irq:*",
    "irq_vectors:*",
    // Which timer ended a wait, and which thread set it.
    "timer:timer_start",
    "timer:timer_expire_entry",
    "timer:hrtimer_start",
    "timer:hrtimer_expire_entry",
    "tcp:tcp_retransmit_*",
    // Which disk a thread waits for, and whose request an interrupt completes.
    "block:block_rq_*",
    "block:block_getrq",
    // Rare, and needed to know which process ended another one.
    "signal:*",
];

/// Events that are given up together.
struct Row {
    /// Text for people: what is missing afterwards.
    what: &'static str,
    patterns: &'static [&'static str],
    /// For a row of system calls, the calls that are still recorded afterwards.
    calls: &'static [&'static str],
}

/// The rows in the order in which they are given up. Events that match no row and are not in
/// [`NEVER_GIVEN_UP`] are given up before all rows, because the critical path needs none of them.
const ROWS: [Row; 7] = [
    // A page fault that waits is visible as a wait without these events. Any other one is about a
    // microsecond of its thread's time.
    Row { what: "page faults", patterns: &["exceptions:*"], calls: &[] },
    // The queue of which CPU a thread was in. `sched_waking` already has the waker, and the next
    // switch the CPU on which the thread runs.
    Row {
        what: "moves between the queues of CPUs",
        patterns: &[
            "sched:sched_wakeup",
            "sched:sched_migrate_task",
            "sched:sched_pi_setprio",
            "sched:sched_process_wait",
            "sched:sched_process_free",
        ],
        calls: &[],
    },
    // A call that does not wait is time of its thread, with or without an event for it.
    Row { what: "system calls that do not wait", patterns: &["raw_syscalls:*", "syscalls:*"], calls: &WAITING_CALLS },
    // Two kinds: the steps between the begin and the end of a block request, and what a thread does
    // inside a system call or page fault, which is its own time in any case. Events of the second
    // kind are too few for a row of their own: giving them up alone would relieve nothing.
    Row { what: "steps of block requests, direct reclaim and compaction", patterns: &["block:*", "vmscan:*", "compaction:*"], calls: &[] },
    // Afterwards a wait has no name any more, but it is still known what ended it.
    Row { what: "system calls", patterns: &["raw_syscalls:*", "syscalls:*"], calls: &[] },
    // Without these, if one interrupt handles packets of several senders, all of its work counts as
    // the work of one sender.
    Row { what: "packets", patterns: &["net:*", "skb:*", "sock:*", "udp:*", "tcp:*", "qdisc:*", "napi:*"], calls: &[] },
    // Without these, work that a kernel worker does for one thread may count as done for another.
    Row { what: "work of kernel threads for others", patterns: &["workqueue:*"], calls: &[] },
];

/// Name of the step before all rows.
const REST_STEP: &str = "events that no answer needs";

/// System calls that may wait, and those that change what is known of files, signals, threads and
/// their numbers.
const WAITING_CALLS: [&str; 96] = [
    "read",
    "write",
    "futex",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "nanosleep",
    "clock_nanosleep",
    "futex_waitv",
    "futex_wait",
    "io_uring_enter",
    "io_getevents",
    "io_pgetevents",
    "accept",
    "accept4",
    "connect",
    "wait4",
    "waitid",
    "fsync",
    "fdatasync",
    "sync",
    "syncfs",
    "sync_file_range",
    "msync",
    "sendfile64",
    "splice",
    "copy_file_range",
    "flock",
    "ioctl",
    "pause",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "msgsnd",
    "msgrcv",
    "semop",
    "semtimedop",
    "mq_timedsend",
    "mq_timedreceive",
    "vfork",
    "fork",
    "clone",
    "clone3",
    "open",
    "openat",
    "openat2",
    "creat",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "fcntl",
    "socket",
    "socketpair",
    "pipe",
    "pipe2",
    "eventfd",
    "eventfd2",
    "timerfd_create",
    "epoll_create",
    "epoll_create1",
    "inotify_init",
    "inotify_init1",
    "memfd_create",
    "pidfd_open",
    "pidfd_getfd",
    "signalfd",
    "signalfd4",
    "kill",
    "tkill",
    "tgkill",
    "setpgid",
    "setsid",
    "unshare",
    "setns",
    "sched_setaffinity",
    "setitimer",
    "alarm",
];

/// Events that are given up together, as a step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Text for people: what is not recorded from then on.
    pub what: &'static str,
    /// Names of the events, as `subsystem:name`.
    pub events: Vec<String>,
    /// Filter for events that are still recorded. `None` if the events are switched off altogether.
    pub filter: Option<String>,
    /// System calls that are still recorded, if only some are switched off.
    pub calls: Vec<&'static str>,
}

/// Returns the steps by which these events are given up, in order. `events` must not contain events
/// that the user requested by their full name.
pub fn steps<'a>(events: impl IntoIterator<Item = &'a str>) -> Vec<Step> {
    let mut rest = Vec::new();
    let mut rows: Vec<Vec<String>> = vec![Vec::new(); ROWS.len()];
    let mut single_calls = false;
    for event in events.into_iter().filter(|event| !fits(NEVER_GIVEN_UP, event)) {
        let mut known = false;
        let call = SingleCall::parse(event).map(|call| call.name);
        single_calls |= call.is_some();
        for (row, found) in ROWS.iter().zip(&mut rows).filter(|(row, _)| fits(row.patterns, event)) {
            known = true;
            if call.is_some_and(|call| row.calls.contains(&call)) {
                continue;
            }
            found.push(event.to_owned());
            if row.calls.is_empty() || call.is_some() {
                break;
            }
        }
        if !known {
            rest.push(event.to_owned());
        }
    }
    let step = |what, events| Step { what, events, filter: None, calls: Vec::new() };
    let mut steps = vec![step(REST_STEP, rest)];
    for (row, events) in ROWS.iter().zip(rows) {
        match (row.calls, filter(row.calls)) {
            ([], _) => steps.push(step(row.what, events)),
            // Each call has events of its own, so those of the other calls are switched off.
            (calls, _) if single_calls => steps.push(Step { calls: calls.to_vec(), ..step(row.what, events) }),
            (_, Some((filter, calls))) => steps.push(Step { filter: Some(filter), calls, ..step(row.what, events) }),
            // The system call numbers of this processor are not known, so the calls cannot be
            // filtered. A later step gives all of them up.
            (_, None) => {}
        }
    }
    steps.retain(|step| !step.events.is_empty());
    steps
}

fn fits(patterns: &[&str], event: &str) -> bool {
    patterns.iter().any(|pattern| glob::matches(pattern, event))
}

/// Makes a filter that lets these calls pass by their numbers. Returns also those calls that this
/// processor has, or `None` if there are none or the numbers are not known.
fn filter(calls: &[&'static str]) -> Option<(String, Vec<&'static str>)> {
    let layout = Layout::new(std::env::consts::ARCH).ok()?;
    let number = |call: &&'static str| Some((layout.calls.iter().find(|row| row.name == **call)?.number, *call));
    let known: Vec<(u32, &'static str)> = calls.iter().filter_map(number).collect();
    let mut numbers: Vec<u32> = known.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    (!known.is_empty()).then(|| (one_of(&numbers), known.into_iter().map(|(_, call)| call).collect()))
}

/// Makes a filter by halving the sorted numbers repeatedly, so that the kernel compares a call with
/// a dozen numbers instead of with all of them.
fn one_of(numbers: &[u32]) -> String {
    match numbers {
        [] => "0".to_owned(),
        [_] | [_, _] | [_, _, _] => numbers.iter().map(|number| format!("id == {number}")).collect::<Vec<_>>().join(" || "),
        _ => {
            let (low, high) = numbers.split_at(numbers.len() / 2);
            let middle = high[0];
            format!("(id < {middle} && ({})) || (id >= {middle} && ({}))", one_of(low), one_of(high))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Group;

    /// The default's events. A pattern is replaced by the name of one event that it matches.
    fn default() -> Vec<String> {
        let parts = Group::DEFAULT.into_iter().flat_map(|group| super::super::light::parts_with(group, true));
        parts.flat_map(|part| part.patterns).map(|pattern| pattern.replace('*', "x")).collect()
    }

    #[test]
    fn every_default_event_is_either_needed_by_the_path_or_given_up_in_one_step() {
        let events = default();
        let steps = steps(events.iter().map(String::as_str));
        let given_up =
            |event: &str| steps.iter().filter(|step| step.filter.is_none()).filter(|step| step.events.iter().any(|it| it == event)).count();
        for event in &events {
            assert_eq!(given_up(event), usize::from(!fits(NEVER_GIVEN_UP, event)), "{event}");
        }
        for kept in ["sched:sched_switch", "sched:sched_waking", "irq:softirq_x", "block:block_rq_issue", "timer:hrtimer_expire_entry"] {
            assert!(fits(NEVER_GIVEN_UP, kept), "{kept}");
        }
        // All events of the default are in a row, so the step before all rows is empty and left
        // out.
        assert_eq!(steps[0].what, "page faults", "{:?}: add them to ROWS or to NEVER_GIVEN_UP", steps[0].events);
    }

    #[test]
    fn a_filter_halves_the_numbers() {
        assert_eq!(one_of(&[1, 5]), "id == 1 || id == 5");
        assert_eq!(one_of(&[1, 5, 7, 9]), "(id < 7 && (id == 1 || id == 5)) || (id >= 7 && (id == 7 || id == 9))");
    }

    #[test]
    fn the_least_important_events_are_given_up_first_and_waiting_calls_after_the_others() {
        let events = ["raw_syscalls:sys_exit", "net:net_dev_queue", "sched:sched_wakeup", "exceptions:page_fault_user", "foo:bar"];
        let steps = steps(events);
        let whats: Vec<&str> = steps.iter().map(|step| step.what).collect();
        let mut expected = vec![REST_STEP, "page faults", "moves between the queues of CPUs", "system calls", "packets"];
        if cfg!(target_arch = "x86_64") {
            expected.insert(3, "system calls that do not wait");
            assert_eq!(steps[3].events, steps[4].events);
            assert!(steps[3].calls.contains(&"futex") && !steps[3].calls.contains(&"getppid"));
            assert!(steps[3].filter.as_ref().is_some_and(|filter| filter.contains("(id == 0 || id == 1")));
        }
        assert_eq!(whats, expected);
    }

    #[test]
    fn events_of_single_calls_that_do_not_wait_are_switched_off_before_those_of_calls_that_wait() {
        let events = ["syscalls:sys_enter_getppid", "syscalls:sys_exit_getppid", "syscalls:sys_enter_futex", "syscalls:sys_exit_futex"];
        let owned = events.map(str::to_owned);
        let steps = steps(events);
        let [swift, waiting] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!((swift.what, &swift.events[..]), ("system calls that do not wait", &owned[..2]));
        assert!(swift.filter.is_none() && swift.calls.contains(&"futex") && !swift.calls.contains(&"getppid"));
        assert_eq!((waiting.what, &waiting.events[..]), ("system calls", &owned[2..]));
    }
}
