//! `longpole packets` on real traffic between two network namespaces, compared with the programs'
//! own counts and the kernel's counters.

use crate::support::host::{alone, can_trace};
use crate::support::place::Place;
use crate::support::schema;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two network namespaces with a pair of devices, `left` in one and `right` in the other; they are
/// removed when dropped.
struct Net {
    names: [String; 2],
    devices: [String; 2],
    /// A lock for the tests of this file, because a recording contains all traffic of the host.
    _alone: std::sync::MutexGuard<'static, ()>,
}

/// Shell functions. `bound PORT` waits until the program that was started last has bound the port;
/// a slow host may need a while for that. `over` signals that program that nothing more is sent,
/// and waits for its end.
const BOUND: &str = "
bound() {
    n=0
    until grep -qs \":$(printf %04X $1) \" /proc/$!/net/udp; do n=$((n + 1)); [ $n -lt 1000 ]; sleep 0.02; done
}
over() { kill -USR1 $!; wait $!; }
";

impl Net {
    /// Returns `None`, and prints the reason, if the test cannot run here.
    fn new(test: &str) -> Option<Net> {
        if !can_trace(test) {
            return None;
        }
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let id = format!("{}x{}", std::process::id(), NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        let _alone = alone();
        let net = Net { names: [format!("lpl{id}"), format!("lpr{id}")], devices: [format!("l{id}"), format!("r{id}")], _alone };
        let [left, right] = &net.names;
        let [at_left, at_right] = &net.devices;
        let pair = ["link", "add", at_left, "netns", left, "type", "veth", "peer", "name", at_right, "netns", right];
        let made = ip(&["netns", "add", left]) && ip(&["netns", "add", right]) && ip(&pair);
        if !made {
            println!("skipped: {test} (needs `ip` and network namespaces)");
            return None;
        }
        let sides = [(left, at_left, "10.76.0.1", "02:00:00:00:76:01"), (right, at_right, "10.76.0.2", "02:00:00:00:76:02")];
        for (at, (name, device, address, hardware)) in sides.into_iter().enumerate() {
            assert!(ip(&["-n", name, "addr", "add", &format!("{address}/24"), "dev", device]));
            assert!(ip(&["-n", name, "link", "set", device, "address", hardware, "up"]) && ip(&["-n", name, "link", "set", "lo", "up"]));
            // With a permanent neighbour entry no address resolution is needed. A datagram that
            // waited for it would be sent by the kernel and not by its sender.
            let (_, _, other, hardware) = sides[1 - at];
            assert!(ip(&["-n", name, "neigh", "replace", other, "lladdr", hardware, "dev", device, "nud", "permanent"]));
        }
        Some(net)
    }

    fn run(&self, side: usize, words: &[&str]) -> String {
        let output = Command::new("ip").args(["netns", "exec", &self.names[side]]).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A UDP counter of /proc/net/snmp.
    fn udp(&self, side: usize, name: &str) -> u64 {
        let text = self.run(side, &["cat", "/proc/net/snmp"]);
        let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let at = names.split_whitespace().position(|word| word == name).unwrap();
        values.split_whitespace().nth(at).unwrap().parse().unwrap()
    }

    /// Records a shell script that has the namespaces' names as `$L` and `$R`.
    fn record(&self, place: &Place, script: &str) -> (PathBuf, String) {
        self.record_with(place, &[], script)
    }

    fn record_with(&self, place: &Place, options: &[&str], script: &str) -> (PathBuf, String) {
        let script = &format!("{BOUND}{script}");
        let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
        command.args(["record", "--kernel", "sched,irq,softirq,net,block,syscall"]).args(options).args(["--", "sh", "-ec", script]);
        let output = command.env("L", &self.names[0]).env("R", &self.names[1]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (place.newest(), String::from_utf8(output.stdout).unwrap())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.names.iter().for_each(|name| {
            ip(&["netns", "del", name]);
        });
    }
}

fn ip(words: &[&str]) -> bool {
    Command::new("ip").args(words).output().is_ok_and(|output| output.status.success())
}

/// The number behind a word in a program's output.
fn said(text: &str, word: &str) -> u64 {
    let mut words = text.split_whitespace().skip_while(|known| *known != word);
    words.nth(1).unwrap_or_else(|| panic!("no {word} in {text}")).parse().unwrap()
}

fn packets(place: &Place, recording: &Path) -> Value {
    let answer = place.answer("packets", recording);
    schema::check(&schema::schema("packets"), &answer);
    answer
}

/// Packets lost at a place, in the rows that `with` accepts.
fn lost(answer: &Value, place: &str, with: impl Fn(&Value) -> bool) -> u64 {
    let rows = answer["losses"].as_array().unwrap();
    rows.iter().filter(|row| row["place"] == place && with(row)).map(|row| row["count"].as_u64().unwrap()).sum()
}

/// The flow between two programs.
fn flow(answer: &Value, from: u64, to: u64) -> &Value {
    let flows = answer["journeys"]["flows"].as_array().unwrap();
    flows.iter().find(|flow| flow["from"]["tid"] == from && flow["to"]["tid"] == to).unwrap_or_else(|| panic!("no flow in {answer:#}"))
}

/// Packets that the backlogs of all CPUs have dropped.
fn softnet() -> u64 {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").unwrap();
    text.lines().map(|line| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()).sum()
}

#[test]
fn every_datagram_has_a_path_and_those_that_a_full_socket_refused_are_shown_with_their_reader() {
    let Some(net) = Net::new("packets of a socket without room") else { return };
    let place = Place::new();
    let program = place.build("datagrams", &[]);
    let backlog = softnet();
    // The second sender sends to a port without a socket.
    let script = format!(
        "ip netns exec $R {program} receive 7000 4096 20 & bound 7000
         ip netns exec $L {program} send 10.76.0.2 7000 6000 600 200
         over
         ip netns exec $L {program} send 10.76.0.2 7001 50 100 0"
    );
    let (recording, output) = net.record(&place, &script);
    let backlog = softnet() - backlog;
    let answer = packets(&place, &recording);
    let (sender, reader) = {
        let mut pids = output.lines().map(|line| said(line, "pid"));
        (pids.next().unwrap(), pids.next().unwrap())
    };
    let (sent, received) = (said(&output, "sent"), said(&output, "received"));
    assert_eq!((sent, said(&output, "disorder")), (6000, 0));
    let missing = sent - received;
    assert!(missing > 100, "the socket had room for all: {output}");

    let here = |row: &Value| row["device"] == *net.devices[1];
    let of_reader = |row: &Value| row["owner"]["tid"] == reader && row["port"] == 7000 && row["protocol"] == "UDP";
    assert_eq!(lost(&answer, "socket_buffer", of_reader), missing, "{answer:#}");
    assert_eq!(missing, net.udp(1, "RcvbufErrors"));
    assert_eq!(lost(&answer, "no_socket", |row| row["protocol"] == "UDP" && here(row)), net.udp(1, "NoPorts"));
    assert_eq!(net.udp(1, "InErrors"), missing);
    assert_eq!(lost(&answer, "backlog", |_| true), backlog);
    // The answer also contains the kernel's counters, and they agree with the losses.
    let counters = answer["counters"]["counters"].as_array().unwrap();
    let full = counters.iter().find(|line| line["of"] == "udp" && line["counter"] == "RcvbufErrors").unwrap();
    assert_eq!((&full["delta"], &full["named"]), (&missing.into(), &missing.into()));
    assert_eq!(lost(&answer, "qdisc", here) + lost(&answer, "ring", here), 0);
    let row = &answer["losses"][0];
    assert!(row["symbol"].as_str().unwrap().contains("udp"), "{row}");
    assert_eq!((&row["reason"], &row["sender"]["tid"]), (&"SOCKET_RCVBUFF".into(), &sender.into()));

    // All packet paths of this flow are complete.
    let flow = flow(&answer, sender, reader);
    assert_eq!((&flow["packets"], &flow["complete"]), (&sent.into(), &sent.into()), "{flow:#}");
    assert_eq!((&flow["ends"]["read"], &flow["ends"]["lost"]), (&received.into(), &missing.into()), "{flow:#}");
    // Other programs send too, and some of their packets leave the host.
    let all = &answer["journeys"];
    let (count, complete) = (all["count"].as_f64().unwrap(), all["complete"].as_f64().unwrap());
    assert!(complete >= sent as f64 && all["complete_share"].as_f64().unwrap() >= complete / count - 1e-6, "{all:#}");
    let legs = answer["journeys"]["legs"].as_array().unwrap();
    let count = |leg: &str| legs.iter().find(|line| line["leg"] == leg).unwrap()["count"].as_u64().unwrap();
    assert!(count("socket") >= received && count("send") >= sent && count("wire") >= sent, "{legs:#?}");
    assert!(count("wakeup") > 0, "the reader slept at times");

    // The first line of the report names the losses.
    let report = String::from_utf8(place.longpole(&["report"]).arg(&recording).output().unwrap().stdout).unwrap();
    let first = report.lines().next().unwrap();
    assert!(first.contains("packets lost: socket buffer full (UDP port 7000, datagrams/"), "{report}");
    let report = place.answer("report", &recording);
    assert_eq!((&report["findings"][0]["kind"], &report["findings"][0]["count"]), (&"packets_lost".into(), &missing.into()));
}

/// After the command's end its sender continues, while the recorder still reads the kernel's
/// counters.
#[test]
fn losses_after_the_end_of_the_command_are_counted_but_are_no_finding() {
    let Some(net) = Net::new("packets that are lost after the command's end") else { return };
    let place = Place::new();
    let program = place.build("datagrams", &[]);
    let [left, right] = &net.names;
    let sends = format!(
        "until ip netns exec {right} grep -q ':1B58 ' /proc/net/udp; do sleep 0.02; done
         exec ip netns exec {left} {program} send 10.76.0.2 7000 1000000 100 500"
    );
    let mut sender = place.command("sh").args(["-c", &sends]).spawn().unwrap();
    let receives = format!("(sleep 0.6; kill -9 $$) & exec {program} receive 7000 8388608 0");
    let recorder =
        place.command(env!("CARGO_BIN_EXE_longpole")).args(["record", "--", "ip", "netns", "exec", right, "sh", "-c", &receives]).output();
    sender.kill().unwrap();
    sender.wait().unwrap();
    assert_eq!(recorder.unwrap().status.code(), Some(128 + 9));
    let recording = place.newest();
    let after = lost(&packets(&place, &recording), "no_socket", |row| row["protocol"] == "UDP" && row["device"] == *net.devices[1]);
    assert!(after > 0, "the recording ended with the command");
    let findings = |options: &[&str]| {
        let output = place.longpole(&["report", "--json"]).args(options).arg(&recording).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let all = report["findings"].as_array().unwrap().clone();
        all.into_iter()
            .filter(|finding| finding["kind"] == "packets_lost" && finding["subject"].as_str().unwrap().contains("UDP"))
            .collect::<Vec<_>>()
    };
    assert_eq!(findings(&[]), [] as [Value; 0]);
    // With an explicit range from the begin of the recording, the losses are a finding.
    assert_eq!(findings(&["--begin", "+0"])[0]["count"], after);
}

/// The sender never pauses, and the reader sleeps after each datagram.
#[test]
fn a_socket_that_refuses_most_of_its_datagrams_is_the_verdict() {
    let Some(net) = Net::new("packets of a socket without room, most of them lost") else { return };
    let place = Place::new();
    let program = place.build("datagrams", &[]);
    let script = format!(
        "ip netns exec $R {program} receive 7000 4096 2000 & bound 7000
         ip netns exec $L {program} send 10.76.0.2 7000 6000 600 0
         over"
    );
    let (recording, output) = net.record(&place, &script);
    let (sent, received) = (said(&output, "sent"), said(&output, "received"));
    assert!(2 * received < sent, "{output}");
    let verdict = &place.answer("report", &recording)["verdict"];
    let machine = verdict["subject"]["name"].as_str().unwrap_or_default();
    assert!(machine.starts_with("socket buffer full (UDP port 7000, datagrams/") && verdict["state"]["kind"] == "lost", "{verdict:#}");
    assert!(verdict["share"].as_f64().unwrap() > 0.25, "{verdict:#}");
    // The folder that contains the recording gives the same answer.
    assert_eq!(packets(&place, &recording), packets(&place, recording.parent().unwrap()));
}

#[test]
fn datagrams_that_a_token_bucket_drops_are_shown_with_qdisc_device_and_receiver() {
    let Some(net) = Net::new("packets through a token bucket") else { return };
    if Command::new("tc").arg("-V").output().is_err() {
        println!("skipped: packets through a token bucket (needs `tc`)");
        return;
    }
    let place = Place::new();
    let program = place.build("datagrams", &[]);
    let left = &net.devices[0];
    // The token bucket exists before the recording begins. The socket has room for all datagrams,
    // even if its reader waits long for a CPU.
    net.run(0, &["tc", "qdisc", "add", "dev", left, "root", "tbf", "rate", "40mbit", "burst", "16kb", "limit", "32kb"]);
    let script = format!(
        "ip netns exec $R {program} receive 7000 16000000 0 & bound 7000
         ip netns exec $L {program} send 10.76.0.2 7000 4000 1000 500
         over"
    );
    let (recording, output) = net.record(&place, &script);
    let answer = packets(&place, &recording);
    let missing = said(&output, "sent") - said(&output, "received");
    assert!(missing > 100, "the bucket let all pass: {output}");
    let reader = said(output.lines().find(|line| line.starts_with("received")).unwrap(), "pid");
    let bucket = |row: &Value| row["device"] == *left && row["owner"]["tid"] == reader && row["text"] == format!("qdisc tbf of {left}");
    assert_eq!(lost(&answer, "qdisc", bucket), missing, "{answer:#}");
    let counters: Value = serde_json::from_str(&net.run(0, &["tc", "-s", "-j", "qdisc", "show", "dev", left])).unwrap();
    assert_eq!(lost(&answer, "qdisc", bucket), counters[0]["drops"].as_u64().unwrap());
    assert_eq!(lost(&answer, "socket_buffer", |row| row["port"] == 7000), net.udp(1, "RcvbufErrors"));
    let report = String::from_utf8(place.longpole(&["report"]).arg(&recording).output().unwrap().stdout).unwrap();
    assert!(report.lines().next().unwrap().contains(&format!("packets lost: qdisc tbf of {left}")), "{report}");
}

#[test]
fn a_packet_path_is_shown_step_by_step_with_frames_and_probes_and_each_loss_with_its_time() {
    let Some(net) = Net::new("a single journey") else { return };
    let place = Place::new();
    let program = place.build("datagrams", &[]);
    let device = format!("{}/{}", net.names[1], net.devices[1]);
    let script = format!(
        "ip netns exec $R {program} receive 7000 0 0 & bound 7000
         ip netns exec $L {program} send 10.76.0.2 7000 20 333 1000
         ip netns exec $L {program} send 10.76.0.2 7001 5 444 0
         over"
    );
    let (recording, _) = net.record_with(&place, &["--packets", &device], &script);
    let answer = packets(&place, &recording);
    let count = answer["journeys"]["count"].as_u64().unwrap();
    let mut found = 0u32;
    for number in 1..=count {
        let output = place.longpole(&["packets", "--json", "--journey", &number.to_string()]).arg(&recording).output().unwrap();
        let journey: Value = serde_json::from_slice(&output.stdout).unwrap();
        schema::check(&schema::schema("packets-journey"), &journey);
        assert_eq!(journey["number"], number);
        if journey["length"] != 333 + 28 {
            continue;
        }
        let all = journey["steps"].as_array().unwrap();
        let steps: Vec<&str> = all.iter().map(|step| step["step"].as_str().unwrap()).collect();
        let expected = ["device queue", "transmission", "arrival", "transmitted", "reception", "socket queue", "receive call"];
        assert_eq!(steps, expected, "{journey:#}");
        assert_eq!((&journey["send_call"], &journey["end"], &journey["complete"]), (&"sendto".into(), &"read".into(), &true.into()));
        let times: Vec<i64> = all.iter().map(|step| step["t_ns"].as_i64().unwrap()).collect();
        assert!(times.is_sorted() && journey["begin_ns"].as_i64().unwrap() <= times[0], "{journey:#}");
        assert_eq!((&all[5]["by"], &all[6]["call"]), (&"softirq NET_RX".into(), &"recvfrom".into()));
        // The reader was in the span around the receive call, and the end of that span is its next
        // event.
        assert_eq!(
            (&journey["probes"]["open"], &journey["probes"]["after"][0]["name"]),
            (&serde_json::json!(["take"]), &"span_end:take".into())
        );
        {
            // The number of the datagram follows the headers of link, network and transport.
            let bytes = journey["frames"][0]["bytes"].as_str().unwrap();
            assert_eq!(
                (&journey["frames"][0]["device"], journey["frames"][0]["length"].as_u64()),
                (&net.devices[1].clone().into(), Some(375))
            );
            assert_eq!(bytes[84..92], found.to_le_bytes().map(|byte| format!("{byte:02x}")).concat(), "{journey:#}");
        }
        found += 1;
    }
    assert_eq!(found, 20);
    let text = place.longpole(&["packets", "--journey", "slowest"]).arg(&recording).output().unwrap();
    assert!(String::from_utf8_lossy(&text.stdout).contains("receive call"), "{text:?}");
    let none = place.longpole(&["packets", "--journey", &(count + 1).to_string()]).arg(&recording).output().unwrap();
    assert_eq!(none.status.code(), Some(1));
    let losses = place.longpole(&["packets", "--losses", "--json"]).arg(&recording).output().unwrap();
    let losses: Value = serde_json::from_slice(&losses.stdout).unwrap();
    schema::check(&schema::schema("packets-losses"), &losses);
    let single = losses["lost_packets"].as_array().unwrap();
    assert_eq!(single.iter().filter(|loss| loss["place"] == "no_socket" && loss["length"] == 444 + 28).count(), 5, "{losses:#}");
}

#[test]
fn losses_belong_to_the_socket_that_had_the_address_at_that_time() {
    let Some(net) = Net::new("sockets one after another") else { return };
    let place = Place::new();
    let program = place.build("datagrams", &[]);
    // On one CPU, the next socket gets the memory of the previous one.
    let mut script = String::new();
    for n in 1..=4 {
        for (port, room, pause, count) in [(7100 + n, 2304, 30_000, 60), (7200 + n, 0, 0, 20)] {
            script += &format!(
                "taskset -c 0 ip netns exec $R {program} receive {port} {room} {pause} & bound {port}
                 ip netns exec $L {program} send 10.76.0.2 {port} {count} 200 100
                 over
                 "
            );
        }
    }
    let (recording, output) = net.record(&place, &script);
    let answer = packets(&place, &recording);
    let received: Vec<&str> = output.lines().filter(|line| line.starts_with("received")).collect();
    assert_eq!(received.len(), 8, "{output}");
    for (n, line) in received.iter().enumerate() {
        let (count, reader) = (said(line, "received"), said(line, "pid"));
        let (port, sent) = if n % 2 == 0 { (7101 + n / 2, 60) } else { (7201 + n / 2, 20) };
        let mine = |row: &Value| row["owner"]["tid"] == reader && row["port"] == port;
        assert_eq!(lost(&answer, "socket_buffer", mine), sent - count, "{line}: {:#}", answer["losses"]);
        let read: u64 = answer["journeys"]["flows"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|flow| flow["to"]["tid"] == reader)
            .map(|flow| flow["ends"]["read"].as_u64().unwrap())
            .sum();
        assert_eq!(read, count, "{line}: {:#}", answer["journeys"]["flows"]);
    }
    assert_eq!(lost(&answer, "socket_buffer", |_| true), net.udp(1, "RcvbufErrors"));
}

#[test]
fn a_lost_buffer_of_many_datagrams_counts_as_many_datagrams() {
    let Some(net) = Net::new("large buffers") else { return };
    if !["tc", "python3"].iter().all(|tool| Command::new(tool).arg("-V").output().is_ok()) {
        println!("skipped: large buffers (needs `tc` and `python3`)");
        return;
    }
    let place = Place::new();
    let program = place.build("datagrams", &[]);
    net.run(0, &["tc", "qdisc", "add", "dev", &net.devices[0], "root", "tbf", "rate", "40mbit", "burst", "70kb", "limit", "140kb"]);
    // With UDP_SEGMENT the kernel cuts each send into datagrams of 1000 bytes.
    let send = "import socket,time
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.connect((\"10.76.0.2\",7301)); s.setsockopt(17,103,1000)
for i in range(150): s.send(b\"x\"*20000); time.sleep(0.0002)";
    let script = format!(
        "ip netns exec $R {program} receive 7301 16000000 0 & bound 7301
         ip netns exec $L python3 -c '{send}'
         over"
    );
    let (recording, output) = net.record(&place, &script);
    let answer = packets(&place, &recording);
    let missing = 150 * 20 - said(&output, "received");
    assert!((400..2800).contains(&missing), "{output}");
    let rows: Vec<&Value> = answer["losses"].as_array().unwrap().iter().filter(|row| row["place"] == "qdisc").collect();
    let sum = |key: &str| rows.iter().map(|row| row[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("count") * 20, sum("datagrams")), (missing, missing), "{rows:#?}");
    let text = place.longpole(&["packets"]).arg(&recording).output().unwrap();
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.starts_with(&format!("LOST: {} buffers, ", missing / 20)) && text.lines().next().unwrap().contains(" datagrams or more"),
        "{text}"
    );
    // The rest was read. The flow counts each buffer as one packet.
    let reader = said(output.lines().find(|line| line.starts_with("received")).unwrap(), "pid");
    let flow = answer["journeys"]["flows"].as_array().unwrap().iter().find(|flow| flow["to"]["tid"] == reader).unwrap();
    let (read, passed) = (flow["ends"]["read"].as_u64().unwrap(), (3000 - missing) / 20);
    assert_eq!(read, passed, "{flow:#}");
}
