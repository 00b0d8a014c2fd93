//! In which order kernel events are given up where a host cannot store them all: first what costs
//! the answer least.
//!
//! The order is one of events, not of the groups that ask for them, since a group may hold both:
//! `sched` has the switches, without which there is no path, and the moves between CPUs, which only
//! detail it. An event that the user asked for by its whole name is never given up, and neither is
//! what [`KEPT`] names: whatever goes, the critical path still leads from each wait to the thread
//! or device that ended it.

use super::layout::Layout;
use crate::control::glob;

/// Never given up. Without any of these, a path is wrong or ends; what the others tell is missing
/// from an answer that is right.
const KEPT: &[&str] = &[
    // Who runs, who is woken by whom, who is born and ends.
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup_new",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "task:*",
    // An interrupt that is not known makes a waker of the thread that it hits.
    "irq:*",
    "irq_vectors:*",
    // Which timer ended a wait, and who had set it.
    "timer:timer_start",
    "timer:timer_expire_entry",
    "timer:hrtimer_start",
    "timer:hrtimer_expire_entry",
    "tcp:tcp_retransmit_*",
    // Which disk a thread waits for, and whose request an interrupt completes.
    "block:block_rq_issue",
    "block:block_rq_complete",
    // Rare, and who ends whom.
    "signal:*",
];

/// Events that are given up together.
struct Row {
    /// What is missing afterwards, for people.
    what: &'static str,
    patterns: &'static [&'static str],
    /// Of system calls, those that are recorded further.
    calls: &'static [&'static str],
}

/// The first is given up first. What fits no row and is not kept goes before all of them: nothing
/// of it is part of the path.
const ROWS: [Row; 7] = [
    // A page fault that waits is a wait all the same; else it is a microsecond of its thread.
    Row { what: "page faults", patterns: &["exceptions:*"], calls: &[] },
    // In which CPU's queue a thread stood. `sched_waking` tells who woke it, and the next switch
    // where it runs.
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
    // A call that does not wait is time of its thread, inside the kernel or not.
    Row { what: "system calls that do not wait", patterns: &["raw_syscalls:*"], calls: &WAITING_CALLS },
    // The steps between a request's begin and its end; and what a thread does in a system call or
    // page fault, which is its own time all the same. The latter are too few for a step of their own:
    // it would relieve nothing.
    Row { what: "steps of block requests, direct reclaim and compaction", patterns: &["block:*", "vmscan:*", "compaction:*"], calls: &[] },
    // Then a wait has no name any more; who ended it is known further.
    Row { what: "system calls", patterns: &["raw_syscalls:*", "syscalls:*"], calls: &[] },
    // Where one interrupt takes packets of several senders, all of it counts as the work of one.
    Row { what: "packets", patterns: &["net:*", "skb:*", "sock:*", "udp:*", "tcp:*", "qdisc:*", "napi:*"], calls: &[] },
    // Work that a worker does for one counts as that of another.
    Row { what: "work of kernel threads for others", patterns: &["workqueue:*"], calls: &[] },
];

/// What is given up before all rows.
const REST: &str = "events beside the groups' own";

/// Calls that may wait, and those that change what is known of files, signals, threads and their
/// numbers.
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
    "sendfile",
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

/// Events that are given up at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is not recorded from then on, for people.
    pub what: &'static str,
    /// `subsystem:name` of the events that are concerned.
    pub events: Vec<String>,
    /// They are not switched off: those that fit this filter are recorded further.
    pub filter: Option<String>,
    /// The system calls that the filter leaves. Empty without a filter.
    pub calls: Vec<&'static str>,
}

/// The steps by which these events are given up, the first one first. `events` are those that may
/// be: nobody asked for one by its whole name.
pub fn steps<'a>(events: impl IntoIterator<Item = &'a str>) -> Vec<Step> {
    let mut rest = Vec::new();
    let mut rows: Vec<Vec<String>> = vec![Vec::new(); ROWS.len()];
    for event in events.into_iter().filter(|event| !fits(KEPT, event)) {
        let mut known = false;
        for (row, found) in ROWS.iter().zip(&mut rows).filter(|(row, _)| fits(row.patterns, event)) {
            known = true;
            found.push(event.to_owned());
            if row.calls.is_empty() {
                break;
            }
        }
        if !known {
            rest.push(event.to_owned());
        }
    }
    let step = |what, events| Step { what, events, filter: None, calls: Vec::new() };
    let mut steps = vec![step(REST, rest)];
    for (row, events) in ROWS.iter().zip(rows) {
        match (row.calls, filter(row.calls)) {
            ([], _) => steps.push(step(row.what, events)),
            (_, Some((filter, calls))) => steps.push(Step { filter: Some(filter), calls, ..step(row.what, events) }),
            // On this processor nobody knows the calls' numbers: they go all at once.
            (_, None) => {}
        }
    }
    steps.retain(|step| !step.events.is_empty());
    steps
}

fn fits(patterns: &[&str], event: &str) -> bool {
    patterns.iter().any(|pattern| glob::matches(pattern, event))
}

/// Chooses these calls by their numbers. Returns also which of them this processor has.
fn filter(calls: &[&'static str]) -> Option<(String, Vec<&'static str>)> {
    let layout = Layout::new(std::env::consts::ARCH).ok()?;
    let number = |call: &&'static str| Some((layout.calls.iter().find(|row| row.name == **call)?.number, *call));
    let known: Vec<(u32, &'static str)> = calls.iter().filter_map(number).collect();
    let mut numbers: Vec<u32> = known.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    (!known.is_empty()).then(|| (one_of(&numbers), known.into_iter().map(|(_, call)| call).collect()))
}

/// Halves the numbers, which are sorted: the kernel then compares a call with a dozen of them
/// instead of with all.
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

    /// The default's events as their patterns name them; a pattern stands for one event.
    fn default() -> Vec<String> {
        let parts = Group::DEFAULT.into_iter().flat_map(super::super::light::parts);
        parts.flat_map(|part| part.patterns).map(|pattern| pattern.replace('*', "x")).collect()
    }

    #[test]
    fn what_the_path_needs_is_in_no_step_and_all_else_of_the_default_in_one() {
        let events = default();
        let steps = steps(events.iter().map(String::as_str));
        let given_up =
            |event: &str| steps.iter().filter(|step| step.filter.is_none()).filter(|step| step.events.iter().any(|it| it == event)).count();
        for event in &events {
            assert_eq!(given_up(event), usize::from(!fits(KEPT, event)), "{event}");
        }
        for kept in ["sched:sched_switch", "sched:sched_waking", "irq:softirq_x", "block:block_rq_issue", "timer:hrtimer_expire_entry"] {
            assert!(fits(KEPT, kept), "{kept}");
        }
        // Nothing of the default is beside the groups' own.
        assert_eq!(steps[0].what, "page faults");
    }

    #[test]
    fn a_filter_halves_the_numbers() {
        assert_eq!(one_of(&[1, 5]), "id == 1 || id == 5");
        assert_eq!(one_of(&[1, 5, 7, 9]), "(id < 7 && (id == 1 || id == 5)) || (id >= 7 && (id == 7 || id == 9))");
    }

    #[test]
    fn what_costs_the_answer_least_goes_first_and_the_wait_outlives_the_other_calls() {
        let events = ["raw_syscalls:sys_exit", "net:net_dev_queue", "sched:sched_wakeup", "exceptions:page_fault_user", "foo:bar"];
        let steps = steps(events);
        let whats: Vec<&str> = steps.iter().map(|step| step.what).collect();
        let mut expected = vec![REST, "page faults", "moves between the queues of CPUs", "system calls", "packets"];
        if cfg!(target_arch = "x86_64") {
            expected.insert(3, "system calls that do not wait");
            assert_eq!(steps[3].events, steps[4].events);
            assert!(steps[3].calls.contains(&"futex") && !steps[3].calls.contains(&"getppid"));
            assert!(steps[3].filter.as_ref().is_some_and(|filter| filter.contains("(id == 0 || id == 1")));
        }
        assert_eq!(whats, expected);
    }
}
