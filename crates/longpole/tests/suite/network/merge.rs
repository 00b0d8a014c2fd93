//! `merge --sync packets` on captures of two hosts whose clocks differ by a known offset and drift.

use crate::support::schema;
use longpole_pcapng::{Direction, Interface, Packet, Section, Writer};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const BEGIN: i64 = 1_700_000_000_000_000_000;

/// A small pseudo-random generator, so that every run has the same numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// An Ethernet frame with an IPv4 UDP datagram or TCP segment. `hops` and the checksums depend on
/// the place where the frame is seen.
fn frame(from: u8, to: u8, id: u16, tcp: bool, hops: u8, checksum: u16) -> Vec<u8> {
    let payload = [b"payload ".as_slice(), &id.to_be_bytes()].concat();
    let header = if tcp { 20 } else { 8 };
    let length = (20 + header + payload.len()) as u16;
    let mut frame = vec![hops; 12];
    frame.extend([0x08, 0x00, 0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend(id.to_be_bytes());
    frame.extend([0x40, 0, hops, if tcp { 6 } else { 17 }]);
    frame.extend(checksum.to_be_bytes());
    frame.extend([10, 0, 0, from, 10, 0, 0, to]);
    frame.extend(4000u16.to_be_bytes());
    frame.extend(5000u16.to_be_bytes());
    if tcp {
        frame.extend([0, 0, id.to_be_bytes()[0], id.to_be_bytes()[1], 0, 0, 0, 1, 0x50, 0x18, 1, 0]);
        frame.extend(checksum.to_be_bytes());
        frame.extend([0, 0]);
    } else {
        frame.extend((length - 20).to_be_bytes());
        frame.extend(checksum.to_be_bytes());
    }
    frame.extend(payload);
    frame
}

/// A host, its clock and its capture.
struct Host {
    path: PathBuf,
    number: u8,
    offset_ns: i64,
    drift: f64,
    packets: Vec<(i64, Direction, Vec<u8>)>,
}

impl Host {
    fn new(directory: &Path, number: u8, offset_ns: i64, drift: f64) -> Host {
        Host { path: directory.join(format!("host{number}.pcapng")), number, offset_ns, drift, packets: Vec::new() }
    }

    /// The reading of this host's clock at a true time.
    fn clock(&self, true_ns: i64) -> i64 {
        true_ns - self.offset_ns - ((true_ns - BEGIN) as f64 * self.drift).round() as i64
    }

    fn sees(&mut self, true_ns: i64, direction: Direction, frame: Vec<u8>) {
        self.packets.push((self.clock(true_ns), direction, frame));
    }

    fn write(&mut self, directions: bool) {
        self.packets.sort_by_key(|packet| packet.0);
        let mut writer = Writer::new(File::create(&self.path).unwrap(), &Section::default()).unwrap();
        let interface = writer.add_interface(&Interface::ethernet("eth0", 128)).unwrap();
        for (t_ns, direction, data) in &self.packets {
            let direction = if directions { *direction } else { Direction::Unknown };
            writer.packet(&Packet { direction, ..Packet::new(interface, u64::try_from(*t_ns).unwrap(), data) }).unwrap();
        }
        writer.flush().unwrap();
    }
}

/// Makes `count` packets in each direction over ten seconds. `lost` percent of them are seen by the
/// sender only, and as many of the others are seen twice.
fn talk(a: &mut Host, b: &mut Host, count: u64, random: &mut Random, lost: u64, back: bool) {
    for n in 0..count {
        for forward in [true, false] {
            if !forward && !back {
                continue;
            }
            let (sender, receiver) = if forward { (&mut *a, &mut *b) } else { (&mut *b, &mut *a) };
            let sent = BEGIN + (n * (10_000_000_000 / count) + random.below(1_000_000)) as i64;
            let delay = (15_000 + random.below(400_000)) as i64;
            let (from, to, id, tcp) = (sender.number, receiver.number, n as u16, n % 3 == 0);
            sender.sees(sent, Direction::Outbound, frame(from, to, id, tcp, 64, 1));
            if random.below(100) >= lost {
                receiver.sees(sent + delay, Direction::Inbound, frame(from, to, id, tcp, 63, 2));
                if random.below(100) < lost {
                    receiver.sees(sent + 2 * delay, Direction::Inbound, frame(from, to, id, tcp, 63, 2));
                }
            }
        }
    }
}

fn merge(arguments: &[&str], hosts: &[&Host]) -> Output {
    let paths = hosts.iter().map(|host| &host.path);
    Command::new(env!("CARGO_BIN_EXE_longpole")).args(["merge", "--sync", "packets"]).args(arguments).args(paths).output().unwrap()
}

fn synced(hosts: &[&Host]) -> Value {
    let output = merge(&["--json"], hosts);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer = serde_json::from_slice(&output.stdout).unwrap();
    schema::check(&schema::schema("merge"), &answer);
    answer
}

/// Checks that the offset and drift found for a host map its clock to that of the reference host
/// within the stated error.
fn assert_within(found: &Value, host: &Host, reference: &Host, most_error: u64) {
    let number = |key: &str| found[key].as_i64().unwrap();
    let (error, drift) = (found["error_ns"].as_u64().unwrap(), found["drift_ppm"].as_f64().unwrap() / 1e6);
    for true_ns in [BEGIN, BEGIN + 5_000_000_000, BEGIN + 10_000_000_000] {
        let t_ns = host.clock(true_ns);
        let corrected = t_ns + number("offset_ns") + ((t_ns - number("since_ns")) as f64 * drift).round() as i64;
        let wrong = corrected.abs_diff(reference.clock(true_ns));
        assert!(wrong <= error, "{wrong} > {error}: {found}");
    }
    assert!(error < most_error, "{found}");
}

#[test]
fn the_clock_of_another_host_is_found_within_the_stated_error() {
    for (directions, lost, offset_ns, drift) in
        [(true, 0, -3_600_000_000_000, 3e-5), (false, 0, 1_234_567, -8e-5), (true, 10, 77, 0.0), (false, 20, 0, 2e-4)]
    {
        let directory = TempDir::new().unwrap();
        let mut a = Host::new(directory.path(), 1, 0, 0.0);
        let mut b = Host::new(directory.path(), 2, offset_ns, drift);
        talk(&mut a, &mut b, 2_000, &mut Random(7), lost, true);
        a.write(directions);
        b.write(directions);
        let answer = synced(&[&a, &b]);
        let found = &answer["inputs"][1];
        assert_within(found, &b, &a, 40_000);
        let counts = ["packets_from", "packets_to"].map(|key| found[key].as_u64().unwrap());
        assert!(counts.iter().all(|count| (1_200..=2_000).contains(count)), "{found}");
        assert_eq!(found["ambiguous"].as_u64().unwrap() > 0, lost > 0, "{found}");
        assert_eq!(answer["inputs"][0]["reference"], true);

        // The printed option corrects the clock for every verb that reads traces.
        let option = found["option"].as_str().unwrap();
        let printed = Command::new(env!("CARGO_BIN_EXE_longpole"))
            .args(["print", "--json", "--offset", option])
            .args([&a.path, &b.path])
            .output()
            .unwrap();
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let lines = String::from_utf8(printed.stdout).unwrap();
        let times = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|line| line["stream"].as_str().unwrap().ends_with("host2.pcapng"));
        let first = times.map(|line| line["t_ns"].as_i64().unwrap()).next().unwrap();
        let truth = a.clock(BEGIN) - b.clock(BEGIN) + b.packets[0].0;
        assert!(first.abs_diff(truth) <= found["error_ns"].as_u64().unwrap() + 2_000, "{first} {truth}");
    }
}

#[test]
fn a_host_that_exchanges_packets_only_with_another_one_is_corrected_through_that_one() {
    let directory = TempDir::new().unwrap();
    let mut a = Host::new(directory.path(), 1, 0, 0.0);
    let mut b = Host::new(directory.path(), 2, 5_000_000, 1e-5);
    let mut c = Host::new(directory.path(), 3, -70_000_000, -2e-5);
    let mut random = Random(3);
    talk(&mut a, &mut b, 1_000, &mut random, 0, true);
    talk(&mut b, &mut c, 1_000, &mut random, 0, true);
    [&mut a, &mut b, &mut c].into_iter().for_each(|host| host.write(true));
    let answer = synced(&[&a, &b, &c]);
    assert_within(&answer["inputs"][1], &b, &a, 40_000);
    assert_within(&answer["inputs"][2], &c, &a, 80_000);
    assert!(answer["inputs"][2]["compared_with"].as_str().unwrap().ends_with("host2.pcapng"));
}

#[test]
fn packets_in_one_direction_give_a_bound_and_no_answer() {
    let directory = TempDir::new().unwrap();
    let mut a = Host::new(directory.path(), 1, 0, 0.0);
    let mut b = Host::new(directory.path(), 2, 1_000_000_000, 0.0);
    talk(&mut a, &mut b, 500, &mut Random(5), 0, false);
    a.write(true);
    b.write(true);
    let output = merge(&[], &[&a, &b]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr).unwrap();
    for part in ["host2.pcapng", "one way", "500 from it, none to it", "at least +0.99998", "--offset"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    a.write(false);
    b.write(false);
    let said = String::from_utf8(merge(&[], &[&a, &b]).stderr).unwrap();
    assert!(said.contains("on one side only"), "{said}");
}

#[test]
fn hosts_without_a_common_packet_are_not_synchronised() {
    let directory = TempDir::new().unwrap();
    let mut hosts: Vec<Host> = (1..=4).map(|number| Host::new(directory.path(), number, 0, 0.0)).collect();
    let (ab, cd) = hosts.split_at_mut(2);
    let ([a, b], [c, d]) = (ab, cd) else { panic!() };
    talk(a, b, 100, &mut Random(1), 0, true);
    talk(c, d, 100, &mut Random(1), 0, true);
    hosts.iter_mut().for_each(|host| host.write(true));
    let output = merge(&[], &[&hosts[0], &hosts[2]]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("no packet is in both captures"));
}

#[test]
fn a_clock_that_was_set_during_the_capture_is_reported() {
    let directory = TempDir::new().unwrap();
    let mut a = Host::new(directory.path(), 1, 0, 0.0);
    let mut b = Host::new(directory.path(), 2, 0, 0.0);
    talk(&mut a, &mut b, 500, &mut Random(9), 0, true);
    let half = b.packets.len() / 2;
    b.packets[half..].iter_mut().for_each(|packet| packet.0 += 50_000_000);
    a.write(true);
    b.write(true);
    let output = merge(&[], &[&a, &b]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("before it was sent"), "{said}");
}
