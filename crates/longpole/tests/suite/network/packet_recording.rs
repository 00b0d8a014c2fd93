//! `longpole record --packets`: the captured frames of a device, compared with the sent datagrams,
//! with Wireshark's output, and with the events that the kernel traced.

use crate::support::host::is_root;
use crate::support::place;
use crate::support::place::{ok, Place};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

fn ready(what: &str, tools: &[&str]) -> bool {
    let root = is_root();
    let missing: Vec<&&str> = tools.iter().filter(|tool| !Path::new("/usr/bin").join(tool).exists() && !has(tool)).collect();
    if !root || !missing.is_empty() {
        println!("skipped: {what} (needs root and {tools:?}; missing: {missing:?})");
    }
    root && missing.is_empty()
}

fn has(tool: &str) -> bool {
    Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().is_ok_and(|output| output.status.success())
}

fn run(words: &[&str]) {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Two network namespaces of this test, joined by a pair of devices. They are removed when dropped.
struct Net {
    a: String,
    b: String,
    /// Name of the device in `a`. The kernel's events do not contain the namespace, so each test
    /// has device names of its own.
    left: String,
    right: String,
}

impl Net {
    fn new(tag: &str) -> Net {
        let net = Net {
            a: format!("lp{}{tag}a", std::process::id()),
            b: format!("lp{}{tag}b", std::process::id()),
            left: format!("left{tag}"),
            right: format!("right{tag}"),
        };
        run(&["ip", "netns", "add", &net.a]);
        run(&["ip", "netns", "add", &net.b]);
        run(&["ip", "-n", &net.a, "link", "add", &net.left, "type", "veth", "peer", "name", &net.right, "netns", &net.b]);
        let sides = [(&net.a, &net.left, "10.77.0.1", "02:00:00:00:77:01"), (&net.b, &net.right, "10.77.0.2", "02:00:00:00:77:02")];
        for (at, (name, device, address, hardware)) in sides.into_iter().enumerate() {
            run(&["ip", "-n", name, "address", "add", &format!("{address}/24"), "dev", device]);
            run(&["ip", "-n", name, "link", "set", device, "address", hardware, "up"]);
            // With a permanent neighbour entry no datagram waits for address resolution: the queue
            // for that is small, and the answer may be late.
            let (_, _, other, hardware) = sides[1 - at];
            run(&["ip", "-n", name, "neigh", "replace", other, "lladdr", hardware, "dev", device, "nud", "permanent"]);
        }
        net
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in [&self.a, &self.b] {
            let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
        }
    }
}

/// Sends numbered datagrams from the namespace `a` to a receiver in `b`, and prints how many
/// arrived.
const SENDER: &str = "
import subprocess, sys
count, a, b = sys.argv[1:4]
receive = '''
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET, 33, 1 << 25) # SO_RCVBUFFORCE: more than net.core.rmem_max
s.settimeout(20); s.bind((\"10.77.0.2\", 7000)); print(\"up\", flush=True); n = 0
while s.recv(4000) != b\"end\": n += 1
print(n)
'''
send = '''
import socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(int(sys.argv[1])):
    s.sendto(struct.pack(\"!Q\", i) + b\"x\" * (i % 500), (\"10.77.0.2\", 7000))
    if i % 50 == 49: time.sleep(0.001) # a CPU's backlog holds 1000, and who serves it may have to wait for the CPU
s.sendto(b\"end\", (\"10.77.0.2\", 7000))
'''
receiver = subprocess.Popen(['ip', 'netns', 'exec', b, sys.executable, '-c', receive], stdout=subprocess.PIPE)
receiver.stdout.readline()
subprocess.check_call(['ip', 'netns', 'exec', a, sys.executable, '-c', send, count])
print(receiver.stdout.read().decode().strip())
";

/// Frames of a capture as Wireshark reads them: interface, direction, length, captured length, and
/// number of the datagram.
fn frames(capture: &Path) -> Vec<(String, u32, u64, u64, Option<u64>)> {
    let fields = ["frame.interface_name", "frame.packet_flags_direction", "frame.len", "frame.cap_len", "udp.payload"];
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-r"]).arg(capture);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = ok(command.stdin(Stdio::null()).output().unwrap());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!errors.contains("cut short") && !errors.contains("damaged"), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut all = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        let number = words.get(4).filter(|hex| hex.len() >= 16).and_then(|hex| u64::from_str_radix(&hex[..16], 16).ok());
        let direction = u32::from_str_radix(words[1].trim_start_matches("0x"), 16).unwrap_or(0) & 3;
        all.push((words[0].to_owned(), direction, words[2].parse().unwrap(), words[3].parse().unwrap(), number));
    }
    all
}

fn record(place: &Place, arguments: &[&str]) -> (std::path::PathBuf, String) {
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    let output = ok(command.arg("record").args(arguments).output().unwrap());
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    (place.newest(), String::from_utf8(output.stdout).unwrap())
}

fn described(recording: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(recording.join("longpole.json")).unwrap()).unwrap()
}

#[test]
fn every_datagram_is_captured_on_both_sides_with_its_direction_and_length() {
    if !ready("packets of two namespaces", &["ip", "tshark", "python3"]) {
        return;
    }
    let (place, net) = (Place::new(), Net::new("d"));
    let request = format!("{}/{},{}/r*", net.a, net.left, net.b);
    let (recording, said) =
        record(&place, &["--kernel", "none", "--packets", &request, "--", "python3", "-c", SENDER, "2000", &net.a, &net.b]);
    assert_eq!(said.trim(), "2000");
    let frames = frames(&recording.join("packets/interfaces.pcapng"));
    for (name, direction) in [(format!("{}/{}", net.a, net.left), 2), (format!("{}/{}", net.b, net.right), 1)] {
        let numbered = frames.iter().filter(|frame| frame.0 == name && frame.1 == direction);
        let numbers: Vec<u64> = numbered.filter_map(|frame| frame.4).collect();
        assert_eq!(numbers, (0..2000).collect::<Vec<u64>>(), "{name}");
    }
    for (_, _, length, captured, number) in frames.iter().filter(|frame| frame.4.is_some()) {
        let expected = 42 + 8 + number.unwrap() % 500;
        assert_eq!((*length, *captured), (expected, expected.min(100)));
    }
    let told = described(&recording);
    assert_eq!(told["sources"], serde_json::json!(["user", "packets"]));
    for interface in told["interface_packets"]["interfaces"].as_array().unwrap() {
        assert_eq!(interface["dropped"], 0, "{told}");
    }
    assert_eq!(told["interface_packets"]["packets"].as_u64().unwrap(), frames.len() as u64);
    // `--packets none` captures nothing, even if the configuration names interfaces.
    let config = place.path("packets.toml");
    std::fs::write(&config, format!("packets = {{ interfaces = [\"{}/{}\"], snaplen = 60 }}\n", net.a, net.left)).unwrap();
    let config = config.to_str().unwrap();
    let (recording, _) = record(&place, &["--kernel", "none", "-c", config, "--", "python3", "-c", SENDER, "10", &net.a, &net.b]);
    let snapped = self::frames(&recording.join("packets/interfaces.pcapng"));
    assert!(snapped.len() >= 11 && snapped.iter().all(|frame| frame.3 <= 60), "{snapped:?}");
    let mut none = place.command(env!("CARGO_BIN_EXE_longpole"));
    none.args(["record", "--kernel", "none", "-c", config, "--packets", "none", "--", "true"]);
    assert_eq!(none.output().unwrap().status.code(), Some(1), "nothing was to be captured");
    assert!(!place.newest().join("packets").exists());
}

#[test]
fn frames_without_room_in_the_ring_are_counted_and_all_frames_are_accounted_for() {
    if !ready("packets that are dropped", &["ip", "python3"]) {
        return;
    }
    let (place, net) = (Place::new(), Net::new("o"));
    let config = place.path("packets.toml");
    std::fs::write(&config, format!("packets = {{ interfaces = [\"{}/{}\"], snaplen = 1500, buffer = \"1MiB\" }}\n", net.a, net.left))
        .unwrap();
    let recorder = place.recorder(&["-c", config.to_str().unwrap()]);
    let sent = |net: &Net| -> u64 {
        let counter = format!("/sys/class/net/{}/statistics/tx_packets", net.left);
        let words = ["netns", "exec", &net.a, "cat", &counter];
        let output = ok(Command::new("ip").args(words).output().unwrap());
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    };
    let before = sent(&net);
    // 20,000 frames are more than 1 MiB, even if only their headers are stored.
    place::signal(&recorder, "-STOP");
    ok(Command::new("python3").args(["-c", SENDER, "20000", &net.a, &net.b]).output().unwrap());
    place::signal(&recorder, "-CONT");
    ok(Command::new("python3").args(["-c", SENDER, "100", &net.a, &net.b]).output().unwrap());
    let all = sent(&net);
    place::signal(&recorder, "-INT");
    let recording = place.newest();
    place::wait_for(|| described(&recording)["end_ns"].is_u64());
    drop(recorder);
    let told = &described(&recording)["interface_packets"];
    let interface = &told["interfaces"][0];
    let (received, dropped) = (interface["received"].as_u64().unwrap(), interface["dropped"].as_u64().unwrap());
    assert!(dropped > 1000, "{told}");
    assert_eq!(told["packets"].as_u64().unwrap() + dropped, received);
    assert_eq!(described(&recording)["loss"]["packets"], dropped);
    // The direction `out` has the frames that the link counts as sent. The other direction has few.
    let answer = place.answer("packets", &recording);
    let direction = |name: &str| {
        let all = answer["interfaces"][0]["directions"].as_array().unwrap().iter();
        all.filter(|way| way["direction"] == name).map(|way| way["packets"].as_u64().unwrap()).sum::<u64>()
    };
    assert!(direction("out") + dropped >= all - before && direction("out") <= all, "{answer}: {before} {all} {dropped}");
    assert_eq!(answer["interfaces"][0]["dropped"].as_u64(), Some(dropped));
}

#[test]
fn a_killed_recorder_leaves_a_readable_capture_and_a_vanished_device_does_not_end_a_recording() {
    if !ready("packets after a kill", &["ip", "tshark", "python3"]) {
        return;
    }
    let (place, net) = (Place::new(), Net::new("k"));
    let request = format!("{}/{},lo", net.a, net.left);
    let killed = place.recorder(&["--packets", &request]);
    ok(Command::new("python3").args(["-c", SENDER, "300", &net.a, &net.b]).output().unwrap());
    let first = place.newest();
    place::wait_for(|| described(&first)["interface_packets"]["packets"].as_u64().is_some_and(|packets| packets >= 300));
    place::signal(&killed, "-KILL");
    drop(killed);
    // The next recorder makes a file of its own.
    let recorder = place.recorder(&["--packets", &request]);
    run(&["ip", "-n", &net.a, "link", "del", &net.left]);
    let second = place.newest();
    place::wait_for(|| described(&second)["interface_packets"]["interfaces"][0]["vanished"] == true);
    place::signal(&recorder, "-INT");
    place::wait_for(|| described(&second)["end_ns"].is_u64());
    drop(recorder);
    assert!(described(&second)["diagnostics"].to_string().contains("leftk disappeared"));
    let numbers: Vec<u64> = frames(&first.join("packets/interfaces.pcapng")).into_iter().filter_map(|frame| frame.4).collect();
    assert_eq!(numbers, (0..300).collect::<Vec<u64>>());
    frames(&second.join("packets/interfaces.pcapng"));
}

/// Times and lengths of the lines of `print --json` that have this name, device and direction.
fn times(lines: &[Value], name: &str, device: &str, direction: Option<u64>) -> Vec<(i64, u64)> {
    let of = |line: &&Value| {
        let fields = &line["fields"];
        let named = fields["name"] == device || fields["interface"].as_str().is_some_and(|full| full.ends_with(&format!("/{device}")));
        line["name"] == name && named && direction.is_none_or(|direction| fields["direction"] == direction)
    };
    let length = |line: &Value| line["fields"]["len"].as_u64().or(line["fields"]["length"].as_u64()).unwrap();
    lines.iter().filter(of).map(|line| (line["t_ns"].as_i64().unwrap(), length(line))).collect()
}

#[test]
fn the_time_of_a_frame_lies_between_the_kernels_events_for_the_same_packet() {
    if !ready("packets next to the kernel's events", &["ip", "python3"]) || !Path::new("/sys/kernel/tracing/instances").exists() {
        return;
    }
    const COUNT: u64 = 400;
    let (place, net) = (Place::new(), Net::new("c"));
    let request = format!("{}/{},{}/{}", net.a, net.left, net.b, net.right);
    let count = COUNT.to_string();
    let (recording, said) =
        record(&place, &["--kernel", "net", "--packets", &request, "--", "python3", "-c", SENDER, &count, &net.a, &net.b]);
    assert_eq!(said.trim(), count);
    let output = ok(place.longpole(&["print", "--json"]).arg(&recording).output().unwrap());
    let lines: Vec<Value> = output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    // There is one flow through devices without queues, so all events keep the order of sending.
    // The lengths show which event belongs to which datagram.
    let numbered = |all: Vec<(i64, u64)>, header: u64| -> Vec<i64> {
        let mut next = 0;
        let mut found = Vec::new();
        for (time, length) in all {
            if next < COUNT && length == header + 8 + next % 500 {
                found.push(time);
                next += 1;
            }
        }
        assert_eq!(next, COUNT);
        found
    };
    let queued = numbered(times(&lines, "net_dev_queue", &net.left, None), 42);
    let out = numbered(times(&lines, "packet", &net.left, Some(2)), 42);
    // The Ethernet header has been removed at this event.
    let received = numbered(times(&lines, "net_if_receive_skb", &net.right, None), 28);
    let into = numbered(times(&lines, "packet", &net.right, Some(1)), 42);
    // Reading a pair of clocks takes a moment, for which the slack has 500 ns.
    let slack = described(&recording)["clock"]["residual_ns"].as_i64().unwrap().abs() + 500;
    for at in 0..COUNT as usize {
        let all = [queued[at], out[at], received[at], into[at]];
        assert!(all.windows(2).all(|pair| pair[0] <= pair[1] + slack), "datagram {at}: {all:?}, slack {slack}");
    }
}
