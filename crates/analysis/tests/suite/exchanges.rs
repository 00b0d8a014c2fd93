//! Requests and replies on sockets: on which side of a connection a process is.

use crate::support::linux::{text, Kernel, Val, ALL};
use longpole_analysis::verdict::exchanges::{Exchanges, SocketActivities};
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
    kernel.event(t_ns - 1, 0, &format!("syscall_entry_{call}"), &[("fd", Val::I(fd))]);
    kernel.event(t_ns, 0, &format!("syscall_exit_{call}"), &[("ret", Val::I(1))]);
}

fn activities(kernel: &Kernel) -> SocketActivities {
    let mut linux = Linux::new(ALL.0, ALL.1).unwrap();
    let mut exchanges = Exchanges::default();
    kernel.replay(|catalogue, item| {
        if let Item::Event(event) = item {
            linux.event(catalogue, event, &mut exchanges);
            exchanges.after(&linux);
        }
    });
    exchanges.finish().0
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
    let sums = |gaps: &longpole_analysis::verdict::exchanges::Gaps| (gaps.count, gaps.total_ns);
    assert_eq!((sums(&activity.served), sums(&activity.asked)), ((3, 3 * 79), (3, 3 * 41)));
    assert_eq!((found.port(SERVER as i32), activity.accepted.connections), (Some(8080), 0), "nothing was accepted meanwhile");
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
