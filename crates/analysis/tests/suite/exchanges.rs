//! Requests and replies on sockets: on which side of a connection a process is, and requests that
//! wait for a thread that serves another one.

use crate::support::linux::{text, Kernel, Val, ALL};
use longpole_analysis::verdict::facts::exchanges::{Gaps, SocketActivities};
use longpole_analysis::verdict::facts::off_path::OffPathCollector;
use longpole_model::linux::Linux;
use longpole_trace::event::Item;

const TCP: i64 = 6;
const ESTABLISHED: i64 = 1;
const LISTENING: i64 = 10;
/// The process that is observed, and its sockets: file descriptor, inode, port, and state.
const SERVER: i64 = 10;
const SOCKETS: [(i64, i64, i64, i64); 3] = [(3, 70, 8080, LISTENING), (4, 71, 8080, ESTABLISHED), (5, 72, 40_000, ESTABLISHED)];

fn dump(kernel: &mut Kernel, with_inodes: bool) {
    kernel.dump(10, SERVER as i32, 5, 0);
    for (fd, inode, port, state) in SOCKETS {
        let path = format!("socket:[{inode}]");
        let file = [("pid", Val::I(SERVER)), ("fd", Val::I(fd)), ("filename", text(&path)), ("flags", Val::I(0))];
        kernel.event(20, 0, "lttng_statedump_file_descriptor", &file);
        let mut socket = vec![("pid", Val::I(SERVER)), ("protocol", Val::I(TCP)), ("port", Val::I(port)), ("state", Val::I(state))];
        socket.extend(with_inodes.then_some(("inode", Val::I(inode))));
        kernel.event(30, 0, "longpole_statedump_socket", &socket);
    }
}

/// A call on a file descriptor that transfers a byte at this time.
fn transfer(kernel: &mut Kernel, t_ns: i64, call: &str, fd: i64) {
    transfer_on(kernel, 0, t_ns, call, fd);
}

fn transfer_on(kernel: &mut Kernel, cpu: u32, t_ns: i64, call: &str, fd: i64) {
    kernel.event(t_ns - 1, cpu, &format!("syscall_entry_{call}"), &[("fd", Val::I(fd))]);
    kernel.event(t_ns, cpu, &format!("syscall_exit_{call}"), &[("ret", Val::I(1))]);
}

fn activities(kernel: &Kernel) -> SocketActivities {
    let mut linux = Linux::new(ALL.0, ALL.1).unwrap();
    let mut facts = OffPathCollector::default();
    kernel.replay(|catalogue, item| {
        if let Item::Event(event) = item {
            linux.event(catalogue, event, &mut facts);
            facts.after(&linux);
        }
    });
    facts.finish().sockets
}

/// A server reads each request long after the reply before it, and asks another server for each. By
/// the lengths of the gaps alone it would be a client of its own clients.
#[test]
fn the_port_of_an_older_connection_tells_whether_the_process_is_client_or_server() {
    let mut kernel = Kernel::new(1);
    dump(&mut kernel, true);
    kernel.switch(100, 0, 0, 0, SERVER as i32);
    for round in 0..3 {
        let begin = 1_000 * (round + 1);
        transfer(&mut kernel, begin, "recvfrom", 4);
        transfer(&mut kernel, begin + 20, "sendto", 5);
        transfer(&mut kernel, begin + 60, "recvfrom", 5);
        transfer(&mut kernel, begin + 80, "sendto", 4);
    }
    let found = activities(&kernel);
    let activity = found.of(SERVER as i32).unwrap();
    let sums = |gaps: &Gaps| (gaps.count, gaps.total_ns);
    assert_eq!((sums(&activity.served), sums(&activity.asked)), ((3, 3 * 79), (3, 3 * 41)));
    assert_eq!((found.port(SERVER as i32), activity.accepted.connections), (Some(8080), 0), "nothing was accepted meanwhile");
}

/// A call that is given some bytes to send, and takes fewer, or refuses to wait for space.
#[test]
fn sends_are_short_if_the_buffer_takes_less_than_it_is_given() {
    // Call, the name of its third argument, its value, the result, and whether the send is short.
    let calls = [
        ("sendto", "len", 100, 100, false),
        ("sendto", "len", 100, 60, true),
        ("write", "count", 100, -11, true),
        ("write", "count", 100, -32, false),
        ("writev", "vlen", 100, 7, false),
        ("writev", "vlen", 2, -11, true),
        ("recvfrom", "len", 100, 60, false),
    ];
    for (call, third, value, result, short) in calls {
        let mut kernel = Kernel::new(1);
        dump(&mut kernel, true);
        kernel.switch(100, 0, 0, 0, SERVER as i32);
        let given = [("fd", Val::I(4)), ("buff", Val::I(0x7000)), (third, Val::I(value))];
        kernel.event(1_000, 0, &format!("syscall_entry_{call}"), &given);
        kernel.event(1_010, 0, &format!("syscall_exit_{call}"), &[("ret", Val::I(result))]);
        let found = activities(&kernel).of(SERVER as i32).map_or(0, |activity| activity.short_sends);
        assert_eq!(found, u64::from(short), "{call} {value} {result}");
    }
}

/// Older recordings do not say which port an open socket has.
#[test]
fn without_the_inodes_of_sockets_the_longer_gaps_tell_the_side() {
    let mut kernel = Kernel::new(1);
    dump(&mut kernel, false);
    kernel.switch(100, 0, 0, 0, SERVER as i32);
    for round in 0..3 {
        let begin = 1_000 * (round + 1);
        transfer(&mut kernel, begin, "recvfrom", 4);
        transfer(&mut kernel, begin + 800, "sendto", 4);
        transfer(&mut kernel, begin + 10, "sendto", 5);
        transfer(&mut kernel, begin + 700, "recvfrom", 5);
    }
    let found = activities(&kernel);
    let activity = found.of(SERVER as i32).unwrap();
    assert_eq!((activity.served.count, activity.asked.count), (3, 3));
}

/// Thread 10 serves the connection 4, and waits in `futex` for 40 ns within each of three requests,
/// until thread 11 wakes it. If `asks_first`, thread 10 has woken that one before, which serves no
/// request itself. `others` are further connections from which thread 10 receives.
fn two_threads(asks_first: bool, others: &[i64]) -> Option<(String, u64)> {
    let mut kernel = Kernel::new(2);
    dump(&mut kernel, true);
    kernel.dump(10, 11, 5, 1);
    for (fd, inode) in [(6, 73), (7, 74)] {
        let path = format!("socket:[{inode}]");
        let file = [("pid", Val::I(SERVER)), ("fd", Val::I(fd)), ("filename", text(&path)), ("flags", Val::I(0))];
        kernel.event(20, 0, "lttng_statedump_file_descriptor", &file);
        let (protocol, port) = (Val::I(TCP), Val::I(8080));
        let socket =
            [("pid", Val::I(SERVER)), ("protocol", protocol), ("port", port), ("state", Val::I(ESTABLISHED)), ("inode", Val::I(inode))];
        kernel.event(30, 0, "longpole_statedump_socket", &socket);
    }
    kernel.switch(100, 0, 0, 0, 10);
    kernel.switch(101, 1, 0, 0, 11);
    for round in 0..3 {
        let begin = 1_000 * (round + 1);
        if !asks_first {
            transfer_on(&mut kernel, 1, begin, "recvfrom", 6);
        }
        for (at, fd) in others.iter().enumerate() {
            transfer(&mut kernel, begin + 2 + 4 * at as i64, "recvfrom", *fd);
            transfer(&mut kernel, begin + 4 + 4 * at as i64, "sendto", *fd);
        }
        transfer(&mut kernel, begin + 15, "recvfrom", 4);
        if asks_first {
            kernel.syscall(begin + 5, 1, "futex", None);
            kernel.switch(begin + 6, 1, 11, 1, 0);
            kernel.waking(begin + 17, 0, 11, 1);
            kernel.switch(begin + 18, 1, 0, 0, 11);
            kernel.syscall(begin + 18, 1, "futex", Some(0));
        }
        kernel.syscall(begin + 19, 0, "futex", None);
        kernel.switch(begin + 20, 0, 10, 1, 0);
        kernel.waking(begin + 60, 1, 10, 0);
        kernel.switch(begin + 65, 0, 0, 0, 10);
        kernel.syscall(begin + 66, 0, "futex", Some(0));
        transfer(&mut kernel, begin + 80, "sendto", 4);
        if !asks_first {
            transfer_on(&mut kernel, 1, begin + 90, "sendto", 6);
        }
    }
    let found = activities(&kernel);
    let held = &found.of(SERVER as i32).unwrap().held;
    assert!(held.len() <= 1);
    held.iter().next().map(|(&(holder, call), &ns)| {
        assert_eq!(holder, SERVER as i32);
        (found.held_in(call).to_owned(), ns)
    })
}

#[test]
fn a_request_is_held_while_its_thread_waits_for_another_one() {
    assert_eq!(two_threads(false, &[]), Some(("futex".to_owned(), 3 * 40)));
}

#[test]
fn a_request_is_not_held_by_a_thread_that_works_for_it() {
    assert_eq!(two_threads(true, &[]), None);
}

/// An event loop is woken for any of its connections.
#[test]
fn waits_of_a_thread_that_serves_several_connections_belong_to_no_request() {
    assert_eq!(two_threads(false, &[7]), None);
}
