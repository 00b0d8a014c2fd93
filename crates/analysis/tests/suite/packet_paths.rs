//! Packet paths and losses with known truth: small cases by hand, and a toy network with random
//! events.

mod clock_sync;
mod loss_places;

use crate::support::linux::{text, Kernel, Val, BEGIN_NS};
use crate::support::Random;
use longpole_analysis::network::in_flight::{End, Leg};
use longpole_analysis::network::packet_loss::{LossLine, Places};
use longpole_analysis::network::packet_paths::{PacketPaths, Wanted};
use longpole_analysis::network::packet_rows::add_flows;
use longpole_analysis::network::packets::{Packets, PacketsAnswer};
use longpole_analysis::timeline::{RowKind, Timeline};
use longpole_model::linux::Linux;
use longpole_trace::event::Item;
use proptest::prelude::*;
use std::collections::VecDeque;

const SENDER: i32 = 10;
const READER: i32 = 20;
const UDP: i64 = 17;
const SOCKET: i64 = 0x5000;

/// A kernel that sends on CPU 0 and reads on CPU 1, and the number of segments into which packets
/// are split.
struct Net(Kernel, i64);

impl Net {
    fn new() -> Net {
        let mut kernel = Kernel::new(2);
        kernel.switch(BEGIN_NS, 0, 0, 0, SENDER);
        kernel.switch(BEGIN_NS, 1, 0, 0, READER);
        Net(kernel, 0)
    }

    fn device(&mut self, t: i64, cpu: u32, event: &str, packet: i64, length: i64, device: &str) {
        let mut fields = vec![("skbaddr", Val::I(packet)), ("len", Val::I(length)), ("name", text(device))];
        match event {
            "net_dev_xmit" => fields.push(("rc", Val::I(0))),
            "net_dev_start_xmit" => fields.push(("gso_segs", Val::I(self.1))),
            _ => {}
        }
        self.0.event(BEGIN_NS + t, cpu, event, &fields);
    }

    fn softirq(&mut self, t: i64, cpu: u32, what: &str) {
        self.0.softirq(BEGIN_NS + t, cpu, 3, what);
    }

    /// Sends a packet; 50 ns pass from the call to the arrival at the other device.
    fn send(&mut self, t: i64, packet: i64, length: i64) {
        self.0.syscall(BEGIN_NS + t, 0, "sendto", None);
        self.device(t + 10, 0, "net_dev_queue", packet, length + 14, "left");
        self.transmit(t + 30, packet, length);
        self.0.syscall(BEGIN_NS + t + 60, 0, "sendto", Some(length));
    }

    fn transmit(&mut self, t: i64, packet: i64, length: i64) {
        self.device(t, 0, "net_dev_start_xmit", packet, length + 14, "left");
        self.device(t + 10, 0, "net_if_rx", packet, length, "right");
        self.device(t + 20, 0, "net_dev_xmit", packet, length + 14, "left");
    }

    fn receive(&mut self, t: i64, packet: i64, length: i64) {
        self.softirq(t, 0, "entry");
        self.device(t + 5, 0, "net_if_receive_skb", packet, length, "right");
    }

    fn ready(&mut self, t: i64, socket: i64) {
        let fields = [("skaddr", Val::I(socket)), ("family", Val::I(2)), ("protocol", Val::I(UDP))];
        self.0.event(BEGIN_NS + t, 0, "sk_data_ready", &fields);
    }

    /// Delivers a packet: reception at t + 5, the socket at t + 10.
    fn deliver(&mut self, t: i64, packet: i64, length: i64) {
        self.receive(t, packet, length);
        self.ready(t + 10, SOCKET);
        self.softirq(t + 20, 0, "exit");
    }

    fn take(&mut self, t: i64, socket: i64, result: i64) {
        self.take_by(READER, t, socket, result);
    }

    fn take_by(&mut self, tid: i32, t: i64, socket: i64, result: i64) {
        self.0.syscall(BEGIN_NS + t, 1, "recvfrom", None);
        let fields = [
            ("sk", Val::I(socket)),
            ("family", Val::I(2)),
            ("protocol", Val::I(UDP)),
            ("ret", Val::I(result)),
            ("flags", Val::I(0)),
            ("tid", Val::I(i64::from(tid))),
        ];
        self.0.event(BEGIN_NS + t + 5, 1, "sock_recv_length", &fields);
        self.0.syscall(BEGIN_NS + t + 10, 1, "recvfrom", Some(result));
    }

    fn drop(&mut self, t: i64, packet: i64, location: i64, socket: i64, reason: Val) {
        self.drop_of(0x800, t, packet, location, socket, reason);
    }

    fn drop_of(&mut self, protocol: i64, t: i64, packet: i64, location: i64, socket: i64, reason: Val) {
        let fields = [
            ("skbaddr", Val::I(packet)),
            ("location", Val::I(location)),
            ("protocol", Val::I(protocol)),
            ("rx_sk", Val::I(socket)),
            ("reason", reason),
        ];
        self.0.event(BEGIN_NS + t, 0, "skb_kfree", &fields);
    }

    fn read(&self, wanted: Option<Wanted>) -> (Linux, PacketPaths) {
        let mut linux = Linux::new(i64::MIN, i64::MAX).unwrap();
        let mut packet_paths = PacketPaths::new(wanted);
        self.replay(&mut linux, &mut packet_paths);
        (linux, packet_paths)
    }

    fn replay(&self, linux: &mut Linux, packet_paths: &mut PacketPaths) {
        self.0.replay(|catalogue, item| match item {
            Item::Event(event) => linux.event(catalogue, event, packet_paths),
            Item::Loss(loss) => linux.loss(catalogue, loss, packet_paths),
        });
        linux.finish(packet_paths);
        packet_paths.finish();
    }

    fn answer(&self) -> (PacketsAnswer, Vec<LossLine>, PacketPaths) {
        let (linux, packet_paths) = self.read(None);
        let symbol = |address: u64| match address {
            77 => Some("enqueue_to_backlog+0x5".to_owned()),
            78 => Some("ip6_pkt_discard+0x11".to_owned()),
            _ => None,
        };
        let packets = Packets { packet_paths: &packet_paths, linux: &linux, symbol: &symbol };
        let (answer, losses) = (packets.paths(), packets.losses(&Places::built_in().unwrap()));
        (answer, losses, packet_paths)
    }
}

fn sum(packet_paths: &PacketPaths, leg: Leg) -> u64 {
    packet_paths.legs[leg as usize].sum()
}

#[test]
fn a_datagram_is_followed_from_the_send_call_to_the_receive_call() {
    let mut net = Net::new();
    net.send(100, 0x1000, 128);
    net.deliver(200, 0x1000, 128);
    net.take(300, SOCKET, 100);
    let (answer, losses, packet_paths) = net.answer();
    assert_eq!((answer.count, answer.complete, answer.ends.read, losses.len()), (1, 1, 1, 0));
    let legs = [Leg::Send, Leg::Queue, Leg::Wire, Leg::Protocols, Leg::Socket, Leg::Whole].map(|leg| sum(&packet_paths, leg));
    assert_eq!(legs, [10, 20, 75, 5, 95, 205]);
    assert_eq!(answer.complete_share, Some(1.0));
    let flow = &answer.flows[0];
    assert_eq!((flow.from.as_ref().unwrap().tid, flow.to.as_ref().unwrap().tid, flow.protocol), (SENDER, READER, Some("UDP")));
}

#[test]
fn packets_of_one_flow_with_equal_ends_are_found_again_from_their_row() {
    let mut net = Net::new();
    net.send(100, 0x1000, 128);
    net.send(200, 0x2000, 256);
    for packet in [0x1000, 0x2000] {
        net.drop(300, packet, 77, 0, Val::I(2));
    }
    let (mut linux, mut packet_paths) = (Linux::new(i64::MIN, i64::MAX).unwrap(), PacketPaths::new(None));
    packet_paths.log = Some(Box::default());
    net.replay(&mut linux, &mut packet_paths);
    let timeline = Timeline::default();
    // Both begin before the timeline does.
    timeline.set_empty_range(BEGIN_NS + 250, BEGIN_NS + 1000);
    add_flows(&timeline, &Packets { packet_paths: &packet_paths, linux: &linux, symbol: &|_| None }).unwrap();
    let rows = timeline.listing().rows;
    let [row] = rows.iter().filter(|row| row.kind == RowKind::Flow).collect::<Vec<_>>()[..] else { panic!("{rows:?}") };
    let (states, _) = timeline.states(row.id, (0, u64::MAX), 10).unwrap();
    let opened: Vec<(i64, i64, u32)> = states
        .iter()
        .map(|state| {
            let number = timeline.packet_at(row.id, state.begin).unwrap().unwrap().number;
            let path = net.read(Some(Wanted::Number(number))).1.found.unwrap();
            (path.begin_ns - BEGIN_NS, path.end_ns - BEGIN_NS, path.length)
        })
        .collect();
    assert_eq!(opened, [(100, 300, 128), (200, 300, 256)]);
}

#[test]
fn a_sleeping_reader_was_woken_by_its_packet() {
    let mut net = Net::new();
    net.0.switch(BEGIN_NS + 50, 1, READER, 1, 0);
    net.send(100, 0x1000, 128);
    net.receive(200, 0x1000, 128);
    net.ready(210, SOCKET);
    net.0.waking(BEGIN_NS + 215, 0, READER, 1);
    net.softirq(220, 0, "exit");
    net.0.switch(BEGIN_NS + 265, 1, 0, 0, READER);
    net.take(300, SOCKET, 100);
    let (linux, packet_paths) = net.read(Some(Wanted::Number(1)));
    assert_eq!(sum(&packet_paths, Leg::Wakeup), 50);
    let path = packet_paths.found.as_ref().unwrap();
    assert_eq!((path.end, path.complete, path.steps.len()), (End::Read, true, 7));
    let symbol = |_| None;
    let line = Packets { packet_paths: &packet_paths, linux: &linux, symbol: &symbol }.path_line(path);
    assert_eq!(line.wakeup.unwrap().waker, "softirq NET_RX");
    // A reader that is awake is not woken.
    let mut net = Net::new();
    net.send(100, 0x1000, 128);
    net.deliver(200, 0x1000, 128);
    net.take(300, SOCKET, 100);
    assert!(net.read(None).1.legs[Leg::Wakeup as usize].is_empty());
}

#[test]
fn a_packet_in_a_reused_buffer_is_another_packet() {
    let mut net = Net::new();
    // The first packet leaves the traced system; the second is sent and read; the third arrives
    // with a greater length than was sent, so it comes from outside.
    net.device(10, 0, "net_dev_queue", 0x1000, 142, "eth0");
    net.device(20, 0, "net_dev_start_xmit", 0x1000, 142, "eth0");
    net.device(25, 0, "net_dev_xmit", 0x1000, 142, "eth0");
    net.send(100, 0x1000, 128);
    net.deliver(200, 0x1000, 128);
    net.take(300, SOCKET, 100);
    net.device(400, 0, "net_dev_queue", 0x1000, 142, "eth0");
    net.device(410, 0, "net_dev_start_xmit", 0x1000, 142, "eth0");
    net.device(420, 0, "net_dev_xmit", 0x1000, 142, "eth0");
    net.deliver(500, 0x1000, 1000);
    net.take(600, SOCKET, 972);
    let (answer, _, _) = net.answer();
    let ends = answer.ends;
    assert_eq!((answer.count, ends.left, ends.read, ends.unknown), (4, 2, 2, 0));
}

#[test]
fn a_forwarded_packet_has_one_packet_path() {
    let mut net = Net::new();
    net.send(100, 0x1000, 128);
    net.receive(200, 0x1000, 128);
    for (t, event, length, device) in [
        (210, "net_dev_queue", 142, "out"),
        (220, "net_dev_start_xmit", 142, "out"),
        (230, "net_if_rx", 128, "far"),
        (240, "net_dev_xmit", 142, "out"),
    ] {
        net.device(t, 0, event, 0x1000, length, device);
    }
    net.softirq(250, 0, "exit");
    net.deliver(300, 0x1000, 128);
    net.take(400, SOCKET, 100);
    let (answer, _, packet_paths) = net.answer();
    assert_eq!((answer.count, answer.complete, answer.ends.read), (1, 1, 1));
    assert_eq!((packet_paths.legs[Leg::Wire as usize].count(), sum(&packet_paths, Leg::Whole)), (2, 305));
}

#[test]
fn a_socket_that_is_found_empty_starts_again() {
    let mut net = Net::new();
    // The call that took the first packet is not in the trace.
    net.send(100, 0x1000, 128);
    net.deliver(200, 0x1000, 128);
    net.take(250, SOCKET, -11);
    net.send(300, 0x2000, 128);
    net.deliver(400, 0x2000, 128);
    net.take(500, SOCKET, 100);
    let (answer, _, packet_paths) = net.answer();
    assert_eq!((answer.ends.read, answer.ends.unknown), (1, 1));
    assert_eq!(sum(&packet_paths, Leg::Socket), 95);
}

#[test]
fn lost_events_make_packets_unknown_and_are_never_bridged() {
    let mut net = Net::new();
    net.send(100, 0x1000, 128);
    net.deliver(200, 0x1000, 128);
    net.take(300, SOCKET, 100);
    net.send(400, 0x2000, 128);
    net.deliver(500, 0x2000, 128);
    net.take(600, SOCKET, 100);
    net.send(700, 0x3000, 128);
    net.deliver(800, 0x3000, 128);
    net.take(900, SOCKET, 100);
    // The call that took the first packet is among the missing events.
    net.0.lose(1, BEGIN_NS + 290, BEGIN_NS + 320);
    let (answer, _, packet_paths) = net.answer();
    assert_eq!((answer.count, answer.ends.read, answer.complete), (3, 2, 2));
    assert_eq!((answer.ends.waiting + answer.ends.unknown, answer.lost_events), (1, 3));
    assert_eq!(sum(&packet_paths, Leg::Socket), 190);
}

#[test]
fn lost_packets_are_named_by_place_and_by_receiver() {
    let mut net = Net::new();
    net.0.event(BEGIN_NS + 5, 0, "qdisc_create", &[("dev", text("left")), ("kind", text("tbf")), ("parent", Val::I(0xffff_ffff))]);
    for n in 0..10 {
        net.send(100 + 300 * n, 0x1000, 128);
        net.deliver(200 + 300 * n, 0x1000, 128);
        net.take(300 + 300 * n, SOCKET, 100);
    }
    // No room in the socket.
    net.send(5000, 0x2000, 128);
    net.receive(5100, 0x2000, 128);
    net.0.event(BEGIN_NS + 5110, 0, "udp_fail_queue_rcv_skb", &[("rc", Val::I(-12)), ("dport", Val::I(5201))]);
    net.drop(5111, 0x2000, 1, SOCKET, Val::E(6, "SOCKET_RCVBUFF"));
    net.softirq(5120, 0, "exit");
    // No room in the queue of the device.
    net.0.syscall(BEGIN_NS + 6000, 0, "sendto", None);
    net.device(6010, 0, "net_dev_queue", 0x3000, 142, "left");
    net.drop(6020, 0x3000, 2, 0, Val::E(64, "QDISC_DROP"));
    // Without a reason, but with a function.
    net.drop(7000, 0x4000, 77, 0, Val::E(2, "NOT_SPECIFIED"));
    // A packet for another host, and a buffer that is no network packet at all.
    net.drop(7100, 0x5000, 3, 0, Val::E(13, "OTHERHOST"));
    net.drop_of(0, 7200, 0x6000, 3, 0, Val::E(2, "NOT_SPECIFIED"));
    let (answer, losses, _) = net.answer();
    let sockets: Vec<(&str, &str, u64, bool)> =
        losses.iter().map(|line| (line.place.as_str(), line.text.as_str(), line.count, line.lost)).collect();
    assert_eq!(
        sockets,
        [
            ("backlog", "backlog of CPU 0", 1, true),
            ("qdisc", "qdisc tbf of left", 1, true),
            ("socket_buffer", "socket buffer full (UDP port 5201, t20/20)", 1, true),
            ("not_wanted", "not wanted (OTHERHOST)", 1, false),
        ]
    );
    assert_eq!(losses[1].owner.as_ref().unwrap().tid, READER, "all else went there");
    assert_eq!(losses[1].sender.as_ref().unwrap().tid, SENDER);
    assert_eq!((answer.ends.read, answer.ends.lost, answer.complete), (10, 2, 12));
}

#[test]
fn packets_before_the_requested_begin_and_after_the_end_are_not_counted() {
    let mut net = Net::new();
    for t in [1000, 2000, 3000] {
        net.send(t, 0x1000, 128);
        net.drop(t + 100, 0x1000, 77, 0, Val::E(2, "NOT_SPECIFIED"));
    }
    let mut linux = Linux::new(i64::MIN, i64::MAX).unwrap();
    let mut packet_paths = PacketPaths::new(None);
    packet_paths.since_ns = Some(BEGIN_NS + 1500);
    net.0.replay(|catalogue, item| {
        if let Item::Event(event) = item {
            packet_paths.is_over = event.t_ns > BEGIN_NS + 2500;
            linux.event(catalogue, event, &mut packet_paths);
        }
    });
    packet_paths.finish();
    assert_eq!((packet_paths.losses.count, packet_paths.count, packet_paths.ends[End::Lost as usize]), (1, 1, 1));
    assert_eq!(packet_paths.losses.single[0].t_ns, BEGIN_NS + 2100);
}

#[test]
fn packets_that_the_kernel_sends_to_find_neighbours_are_not_lost_and_those_of_programs_are() {
    let mut net = Net::new();
    net.device(100, 0, "net_dev_queue", 0x1000, 90, "left");
    net.transmit(110, 0x1000, 76);
    net.receive(200, 0x1000, 76);
    net.drop_of(0x86dd, 210, 0x1000, 78, 0, Val::E(14, "IP_INNOROUTES"));
    net.softirq(220, 0, "exit");
    net.send(300, 0x2000, 128);
    net.receive(400, 0x2000, 128);
    net.drop_of(0x86dd, 410, 0x2000, 78, 0, Val::E(14, "IP_INNOROUTES"));
    net.softirq(420, 0, "exit");
    let (_, losses, _) = net.answer();
    let found: Vec<(&str, u64, bool)> = losses.iter().map(|line| (line.place.as_str(), line.count, line.lost)).collect();
    assert_eq!(found, [("route", 1, true), ("not_wanted", 1, false)]);
}

/// Sends a datagram for which the socket of this port has no room.
fn refuse(net: &mut Net, t: i64, packet: i64, port: i64) {
    net.send(t, packet, 128);
    net.receive(t + 100, packet, 128);
    net.0.event(BEGIN_NS + t + 110, 0, "udp_fail_queue_rcv_skb", &[("rc", Val::I(-12)), ("dport", Val::I(port))]);
    net.drop(t + 111, packet, 1, SOCKET, Val::E(6, "SOCKET_RCVBUFF"));
    net.softirq(t + 120, 0, "exit");
}

#[test]
fn a_socket_at_a_reused_address_is_another_socket() {
    let mut net = Net::new();
    // The first socket is never read; its content is dropped when it is closed.
    net.send(100, 0x1000, 128);
    net.deliver(200, 0x1000, 128);
    refuse(&mut net, 300, 0x2000, 7101);
    net.drop(500, 0x1000, 9, 0, Val::E(90, "QUEUE_PURGE"));
    // The second socket is read, and full once.
    net.send(1000, 0x1000, 128);
    net.deliver(1100, 0x1000, 128);
    net.take(1200, SOCKET, 100);
    refuse(&mut net, 1300, 0x2000, 7201);
    // The third socket has another port.
    refuse(&mut net, 2000, 0x2000, 7102);
    net.0.switch(BEGIN_NS + 2200, 1, READER, 1, 30);
    net.send(2300, 0x1000, 128);
    net.deliver(2400, 0x1000, 128);
    net.take_by(30, 2500, SOCKET, 100);
    // The reader of the fourth socket has ended before the fifth exists.
    net.0.event(BEGIN_NS + 2600, 1, "sched_process_exit", &[("tid", Val::I(30)), ("comm", text("t30")), ("prio", Val::I(20))]);
    net.0.switch(BEGIN_NS + 2610, 1, 30, 16, 40);
    refuse(&mut net, 3000, 0x2000, 7102);
    net.send(3300, 0x1000, 128);
    net.deliver(3400, 0x1000, 128);
    net.take_by(40, 3500, SOCKET, 100);
    let (answer, losses, _) = net.answer();
    let mut found: Vec<(Option<u16>, Option<i32>, u64)> = losses
        .iter()
        .filter(|line| line.place == "socket_buffer")
        .map(|line| (line.port, line.owner.as_ref().map(|owner| owner.tid), line.count))
        .collect();
    found.sort();
    assert_eq!(found, [(Some(7101), None, 1), (Some(7102), Some(30), 1), (Some(7102), Some(40), 1), (Some(7201), Some(READER), 1)]);
    let mut readers: Vec<(i32, u64)> = answer.flows.iter().filter_map(|flow| Some((flow.to.as_ref()?.tid, flow.ends.read))).collect();
    readers.sort();
    assert_eq!(readers, [(READER, 1), (30, 1), (40, 1)]);
}

#[test]
fn a_truncated_datagram_is_the_first_of_the_queue() {
    let mut net = Net::new();
    for (n, length) in [1028, 328, 228].into_iter().enumerate() {
        net.send(100 + 300 * n as i64, 0x1000 + n as i64, length);
        net.deliver(200 + 300 * n as i64, 0x1000 + n as i64, length);
    }
    for n in 0..3 {
        net.take(1000 + 100 * n, SOCKET, 200);
    }
    let (answer, _, packet_paths) = net.answer();
    assert_eq!((answer.ends.read, answer.complete), (3, 3));
    assert_eq!(sum(&packet_paths, Leg::Socket), (1005 - 210) + (1105 - 510) + (1205 - 810));
}

#[test]
fn all_datagrams_of_a_split_buffer_wait_although_another_packet_reuses_its_memory() {
    let mut net = Net::new();
    // The second buffer has the address of the first one, and one of its four datagrams finds no
    // room.
    net.1 = 4;
    for n in 0..3 {
        let t = 100 + 300 * n;
        net.send(t, 0x1000, 4 * 100 + 28);
        net.receive(t + 100, 0x1000, 4 * 100 + 28);
        for piece in 0..4 {
            if (n, piece) == (1, 3) {
                net.drop(t + 120, 0x7000, 1, SOCKET, text("SOCKET_RCVBUFF"));
            } else {
                net.ready(t + 110 + piece, SOCKET);
            }
        }
        net.softirq(t + 130, 0, "exit");
    }
    for n in 0..11 {
        net.take(2000 + 100 * n, SOCKET, 100);
    }
    let (answer, _, packet_paths) = net.answer();
    assert_eq!((answer.count, answer.ends.read, answer.complete), (3, 3, 3), "{:?}", answer.ends);
    // The last datagram of each buffer: the 4th, the 7th and the 11th read.
    assert_eq!(sum(&packet_paths, Leg::Whole), (2305 - 100) + (2605 - 400) + (3005 - 700));
    let (_, packet_paths) = net.read(Some(Wanted::Number(1)));
    let path = packet_paths.found.unwrap();
    assert_eq!((path.steps.last().unwrap().what, path.end_ns), ("receive call", BEGIN_NS + 2305));
}

#[test]
fn datagrams_that_wait_for_long_are_given_up_and_counted_and_keep_their_place() {
    let mut net = Net::new();
    let many = 70_000;
    for n in 0..many {
        net.send(100 + 300 * n, 0x1000 + n, 128);
        net.deliver(200 + 300 * n, 0x1000 + n, 128);
    }
    // The first ones are known to have waited, but not for how long; for the last one the time is
    // known.
    let t = 100 + 300 * many;
    for n in 0..many {
        net.take(t + 100 * n, SOCKET, 100);
    }
    let (answer, _, _) = net.answer();
    let given_up = many as u64 - (1 << 16);
    assert_eq!((answer.given_up, answer.ends.read), (given_up, 1 << 16));
    let (_, packet_paths) = net.read(Some(Wanted::Number(many as u64)));
    let path = packet_paths.found.unwrap();
    assert_eq!(path.end_ns, BEGIN_NS + t + 100 * (many - 1) + 5);
}

#[test]
fn packets_that_are_never_taken_need_bounded_memory_and_are_counted() {
    let mut net = Net::new();
    for n in 0..70_000 {
        net.device(10 + n, 0, "net_dev_queue", 0x1000 + n, 142, "left");
    }
    let (answer, _, _) = net.answer();
    assert_eq!(answer.given_up, 70_000 - (1 << 16));
    assert_eq!(answer.ends.waiting, 1 << 16);
}

/// A toy network: a queue that drops, a wire, a socket that drops, and a reader. Buffers are reused
/// as soon as they are free.
fn toy(seed: u64, count: i64) -> (Net, [u64; 4], u64) {
    let mut random = Random::new(seed);
    let mut net = Net::new();
    let (mut free, mut wire, mut socket): (Vec<i64>, VecDeque<(i64, i64)>, VecDeque<(i64, i64, i64)>) =
        ((1..40).collect(), VecDeque::new(), VecDeque::new());
    // Packets read, lost in the queue, lost in the socket, and in the socket at the end.
    let (mut truth, mut waited) = ([0; 4], 0);
    let (mut t, mut sent) = (100, 0);
    while sent < count || !wire.is_empty() {
        t += 1000;
        match random.below(3) {
            0 if sent < count && !free.is_empty() => {
                let packet = free.swap_remove(random.below(free.len() as u64) as usize);
                sent += 1;
                let length = 28 + 1 + random.below(3) as i64;
                if random.below(8) == 0 {
                    net.0.syscall(BEGIN_NS + t, 0, "sendto", None);
                    net.device(t + 10, 0, "net_dev_queue", packet, length + 14, "left");
                    net.drop(t + 20, packet, 1, 0, Val::E(64, "QDISC_DROP"));
                    net.0.syscall(BEGIN_NS + t + 30, 0, "sendto", Some(0));
                    truth[1] += 1;
                    free.push(packet);
                } else {
                    net.send(t, packet, length);
                    wire.push_back((packet, length));
                }
            }
            1 => {
                let Some((packet, length)) = wire.pop_front() else { continue };
                if random.below(8) == 0 {
                    net.receive(t, packet, length);
                    net.drop(t + 10, packet, 1, SOCKET, Val::E(6, "SOCKET_RCVBUFF"));
                    net.softirq(t + 20, 0, "exit");
                    truth[2] += 1;
                    free.push(packet);
                } else {
                    net.deliver(t, packet, length);
                    socket.push_back((packet, length, t + 10));
                }
            }
            2 => match socket.pop_front() {
                Some((packet, length, ready)) => {
                    net.take(t, SOCKET, length - 28);
                    truth[0] += 1;
                    waited += (t + 5 - ready) as u64;
                    free.push(packet);
                }
                None => net.take(t, SOCKET, -11),
            },
            _ => {}
        }
    }
    truth[3] = socket.len() as u64;
    (net, truth, waited)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_packet_of_a_toy_network_is_accounted_for(seed in any::<u64>(), count in 1i64..300) {
        let (net, truth, waited) = toy(seed, count);
        let (answer, losses, packet_paths) = net.answer();
        let of = |place: &str| losses.iter().filter(|line| line.place == place).map(|line| line.count).sum::<u64>();
        prop_assert_eq!([answer.ends.read, of("qdisc"), of("socket_buffer"), answer.ends.waiting], truth);
        prop_assert_eq!(answer.count, count as u64);
        prop_assert_eq!(answer.complete, count as u64 - truth[3]);
        prop_assert_eq!(sum(&packet_paths, Leg::Socket), waited);
    }
}
