//! The light form of each group: the events that are recorded if the user chose no groups. It
//! contains what the critical path and the verdict need.
//!
//! Two things slow a program with many system calls down under the tracer: events for calls that
//! never wait, and seven of the nine events of each packet. No answer about causes depends on them,
//! so they are left out. [`left_out`] lists them for the recording's description.
//!
//! Calls are left out by recording the kernel's events of single calls (`syscalls`) instead of
//! those of all calls (`raw_syscalls`). A call without an event then costs some 13 ns, a call with
//! both events 160 ns. A filter on the events of all calls costs 45 ns in each call that passes it,
//! and 80 ns in each one that it stops.

use super::groups::{EventSelection, Group};
use serde_json::{json, Value};

/// Network events that are rare on a host without problems.
const NET: &[&str] = &[
    "net:net_dev_xmit_timeout",
    "skb:kfree_skb",
    "sock:inet_sock_set_state",
    "sock:sock_rcvqueue_full",
    "sock:sock_exceed_buf_limit",
    "udp:udp_fail_queue_rcv_skb",
    "qdisc:qdisc_create",
    "qdisc:qdisc_destroy",
];

/// Events of each packet: queued for its device, and received. They connect the sender of a packet
/// with the thread that the packet wakes. Without them, a third of the critical path of a server
/// and its client was attributed to the client alone, even on the loopback interface, because one
/// softirq handles packets of both.
const PACKETS: &[&str] = &["net:net_dev_queue", "net:netif_receive_skb"];
/// What the driver gets to send, for devices that may cut packets into smaller ones. The loopback
/// interface does not.
const TRANSMIT: (&[&str], &str) = (&["net:net_dev_start_xmit"], "name != \"lo\"");

/// Events of memory reclaim, rare while memory is free.
const RECLAIM: &[&str] = &[
    "vmscan:mm_vmscan_direct_reclaim_*",
    "vmscan:mm_vmscan_memcg_reclaim_*",
    "compaction:mm_compaction_begin",
    "compaction:mm_compaction_end",
];

/// The kernel's events of single system calls.
const SINGLE_CALLS: &[&str] = &["syscalls:sys_enter_*", "syscalls:sys_exit_*"];
/// System calls that neither wait nor change what is known of threads, files and sockets, and that
/// programs make very often.
const UNRECORDED_CALLS: &[&str] = &["epoll_ctl", "clock_gettime"];
/// Returns the parts of a group that are recorded by default. `single_calls` is true if the
/// kernel's events of single system calls can be recorded.
pub fn parts_with(group: Group, single_calls: bool) -> Vec<EventSelection> {
    match group {
        Group::Syscall if single_calls => vec![EventSelection::except(SINGLE_CALLS, UNRECORDED_CALLS)],
        group => parts(group),
    }
}

fn parts(group: Group) -> Vec<EventSelection> {
    match group {
        Group::Net => {
            let mut parts =
                vec![EventSelection::all(NET), EventSelection::all(PACKETS), EventSelection::some(TRANSMIT.0, TRANSMIT.1.to_owned())];
            parts.extend(group.parts().into_iter().filter(|part| part.filter.is_some()));
            parts
        }
        // Page faults in kernel mode are not recorded: they count as time of the system call in
        // which they occur.
        Group::Fault => vec![EventSelection::all(&["exceptions:page_fault_user"]), EventSelection::all(RECLAIM)],
        group => group.parts(),
    }
}

/// Lists what these groups record in their full form but not in the light form, for the recording's
/// description: event patterns, system calls, and the groups that have such events.
pub fn left_out(groups: &[Group], single_calls: bool) -> Value {
    let mut events: Vec<&str> = Vec::new();
    let mut of = serde_json::Map::new();
    let kept: Vec<&str> = groups.iter().flat_map(|group| parts(*group)).flat_map(|part| part.patterns.iter().copied()).collect();
    for &group in groups {
        let full = group.parts();
        let dropped = full.iter().flat_map(|part| part.patterns.iter().copied()).filter(|pattern| !kept.contains(pattern));
        let dropped: Vec<&str> = dropped.collect();
        events.extend(&dropped);
        let missing = if group == Group::Syscall && single_calls { UNRECORDED_CALLS.to_vec() } else { dropped };
        if !missing.is_empty() {
            of.insert(group.name().to_owned(), json!(missing));
        }
    }
    let calls = of.get(Group::Syscall.name()).cloned().unwrap_or_else(|| json!([]));
    let asked: Vec<&str> = groups.iter().map(|group| group.name()).filter(|name| of.contains_key(*name)).collect();
    json!({ "events": events, "calls": calls, "groups": asked, "of": of })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_default_leaves_out_is_listed_with_the_groups_that_record_it() {
        let left_out = left_out(&Group::DEFAULT, true);
        let has = |key: &str, name: &str| left_out[key].as_array().is_some_and(|all| all.iter().any(|one| one == name));
        assert!(has("events", "sock:sock_recv_length") && has("events", "exceptions:page_fault_*"), "{left_out}");
        assert!(!has("events", "net:net_dev_queue") && has("calls", "epoll_ctl"), "{left_out}");
        assert_eq!(left_out["groups"], json!(["net", "syscall", "fault"]));
        assert_eq!(left_out["of"]["syscall"], json!(["epoll_ctl", "clock_gettime"]));
        // A kernel without events of single calls records all calls.
        assert_eq!(super::left_out(&Group::DEFAULT, false)["of"]["syscall"], Value::Null);
    }

    #[test]
    fn every_event_of_the_default_is_one_of_its_group() {
        for group in Group::DEFAULT {
            let full: Vec<&str> = group.parts().iter().flat_map(|part| part.patterns.iter().copied()).collect();
            for pattern in parts(group).iter().flat_map(|part| part.patterns.iter().copied()) {
                assert!(full.iter().any(|known| longpole_predicate::glob::matches(known, pattern)), "{pattern}");
            }
        }
    }
}
