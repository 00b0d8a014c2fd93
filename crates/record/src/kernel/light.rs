//! The light form of each group: the events that are recorded if the user chose no groups. It
//! contains what the critical path and the verdict need.
//!
//! Two things slow a program with many system calls down under the tracer: an event for each call
//! that never waits, and seven of the nine events of each packet. No answer about causes depends on
//! them, so they are left out. [`left_out`] lists them for the recording's description.

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

/// System calls that neither wait nor change what is known of threads, files and sockets. The list
/// is short on purpose: the kernel compares each call with each entry, and ten entries cost a
/// server as much time as they saved.
const UNRECORDED_CALLS: [(&str, i64); 2] = [("epoll_ctl", libc::SYS_epoll_ctl), ("clock_gettime", libc::SYS_clock_gettime)];

/// Returns the parts of a group that are recorded by default.
pub fn parts(group: Group) -> Vec<EventSelection> {
    match group {
        Group::Net => {
            let mut parts =
                vec![EventSelection::all(NET), EventSelection::all(PACKETS), EventSelection::some(TRANSMIT.0, TRANSMIT.1.to_owned())];
            parts.extend(group.parts().into_iter().filter(|part| part.filter.is_some()));
            parts
        }
        Group::Syscall => {
            let filter = UNRECORDED_CALLS.map(|(_, number)| format!("id != {number}")).join(" && ");
            vec![EventSelection::some(super::exclude_self::CALLS_OF_TRACER, filter)]
        }
        // Page faults in kernel mode are not recorded: they count as time of the system call in
        // which they occur.
        Group::Fault => vec![EventSelection::all(&["exceptions:page_fault_user"]), EventSelection::all(RECLAIM)],
        group => group.parts(),
    }
}

/// Lists what these groups record in their full form but not in the light form, for the recording's
/// description: event patterns, system calls, and the groups that have such events.
pub fn left_out(groups: &[Group]) -> Value {
    let mut events: Vec<&str> = Vec::new();
    let mut calls: Vec<&str> = Vec::new();
    let mut of = serde_json::Map::new();
    let kept: Vec<&str> = groups.iter().flat_map(|group| parts(*group)).flat_map(|part| part.patterns.iter().copied()).collect();
    for &group in groups {
        let full = group.parts();
        let dropped = full.iter().flat_map(|part| part.patterns.iter().copied()).filter(|pattern| !kept.contains(pattern));
        let (dropped, swift): (Vec<&str>, Vec<&str>) = match group {
            Group::Syscall => (dropped.collect(), UNRECORDED_CALLS.map(|(name, _)| name).to_vec()),
            _ => (dropped.collect(), Vec::new()),
        };
        if !dropped.is_empty() || !swift.is_empty() {
            of.insert(group.name().to_owned(), json!([&dropped[..], &swift[..]].concat()));
        }
        events.extend(dropped);
        calls.extend(swift);
    }
    let asked: Vec<&str> = groups.iter().map(|group| group.name()).filter(|name| of.contains_key(*name)).collect();
    json!({ "events": events, "calls": calls, "groups": asked, "of": of })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_default_leaves_out_is_listed_with_the_groups_that_record_it() {
        let left_out = left_out(&Group::DEFAULT);
        let has = |key: &str, name: &str| left_out[key].as_array().is_some_and(|all| all.iter().any(|one| one == name));
        assert!(has("events", "sock:sock_recv_length") && has("events", "exceptions:page_fault_*"), "{left_out}");
        assert!(!has("events", "net:net_dev_queue") && has("calls", "epoll_ctl"), "{left_out}");
        assert_eq!(left_out["groups"], json!(["net", "syscall", "fault"]));
        assert_eq!(left_out["of"]["syscall"], json!(["epoll_ctl", "clock_gettime"]));
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
