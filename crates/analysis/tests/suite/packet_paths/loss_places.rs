//! The place of a lost packet, and its intended receiver, by the table of places.

use longpole_analysis::network::packet_loss::{Device, LossKind, Names, Person, Places, Socket};
use longpole_model::linux::watch::ThreadId;

/// Names for a loss with this reason in this function, on a port that `candidates` processes have.
struct Host {
    reason: &'static str,
    function: &'static str,
    candidates: u32,
}

impl Names for Host {
    fn cpu(&self, cpu: u32) -> u32 {
        cpu
    }

    fn label(&self, _label: u32) -> &str {
        self.reason
    }

    fn device(&self, _device: u32) -> Device {
        Device { name: "lo".to_owned(), discipline: None }
    }

    fn socket(&self, _socket: u32) -> Socket {
        let candidates: Vec<ThreadId> = (0..self.candidates).map(ThreadId).collect();
        let owner = candidates.first().copied().filter(|_| self.candidates == 1);
        Socket { protocol: Some("UDP"), port: Some(53), owner, candidates }
    }

    fn destination(&self, _sender: ThreadId) -> Option<u32> {
        None
    }

    fn person(&self, thread: ThreadId) -> Person {
        let script = (thread.0 == 1).then(|| "names.py".to_owned());
        let name = if thread.0 == 1 { "python3" } else { "unbound" };
        Person { pid: Some(thread.0 as i32), tid: thread.0 as i32, name: name.to_owned(), script }
    }

    fn symbol(&self, _address: u64) -> Option<String> {
        Some(format!("{}+0x4e5", self.function))
    }
}

const KIND: LossKind = LossKind {
    cpu: 0,
    location: Some(1),
    reason: Some(3),
    label: Some(0),
    device: Some(0),
    socket: Some(0),
    reader: None,
    sender: None,
    port: None,
    protocol: Some(0x0800),
    by_kernel: false,
    outbound: None,
};

#[test]
fn a_connection_by_syn_cookie_without_room_is_a_full_listen_queue_and_not_a_refused_one() {
    let places = Places::built_in().unwrap();
    let place = |function| places.line(&KIND, &Host { reason: "NO_SOCKET", function, candidates: 1 }).place;
    assert_eq!((place("cookie_v4_check"), place("cookie_v6_check")), ("listen_queue".to_owned(), "listen_queue".to_owned()));
    assert_eq!((place("tcp_v4_rcv"), place("__udp4_lib_rcv")), ("refused".to_owned(), "no_socket".to_owned()));
}

#[test]
fn processes_that_share_a_port_are_all_named_and_none_of_them_is_the_owner() {
    let places = Places::built_in().unwrap();
    let line = |candidates| places.line(&KIND, &Host { reason: "SOCKET_RCVBUFF", function: "udp_queue_rcv_one_skb", candidates });
    let texts = [0, 1, 2, 4].map(|candidates| line(candidates).text);
    let of = |owners: &str| format!("socket buffer full (UDP port 53, {owners})");
    let several = "unbound/0 or python3 names.py/1 or unbound/2 or others";
    assert_eq!(texts, [of("owner unknown"), of("unbound/0"), of("unbound/0 or python3 names.py/1"), of(several)]);
    assert_eq!((line(1).owner.map(|owner| owner.tid), line(2).owner), (Some(0), None));
}
