//! The kernel's own packet counters in the answer of `longpole packets`, compared with /proc.

use crate::support::host::{alone, can_trace};
use crate::support::place::{Place, Running};
use crate::support::schema;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::MutexGuard;

/// Number of datagrams that are sent into the device (`SENT`), and to a port without a socket
/// (`UNWANTED`).
const SENT: u64 = 200;
const UNWANTED: u64 = 7;

/// A network namespace with a TUN device whose ring holds ten packets; it is removed when dropped.
struct Net {
    name: String,
    device: String,
    /// A lock for the tests that record, because a recording contains all traffic of the host.
    _alone: Option<MutexGuard<'static, ()>>,
}

impl Net {
    /// Returns `None`, and prints the reason, if the test cannot run here.
    fn new(test: &str) -> Option<Net> {
        if !can_trace(test) {
            return None;
        }
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = format!("{}{}", std::process::id(), ["", "b", "c", "d"][MADE.fetch_add(1, Ordering::Relaxed) as usize % 4]);
        let net = Net { name: format!("lpt{number}"), device: format!("t{number}"), _alone: Some(alone()) };
        let (name, device) = (&*net.name, &*net.device);
        // IPv6 sends packets unprompted, also between the end of a recording and the reading of the
        // counters.
        let quiet = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
        let made = ip(&["netns", "add", name])
            && (ip(&["netns", "exec", name, "sh", "-c", quiet]) || !Path::new("/proc/sys/net/ipv6").exists())
            && ip(&["-n", name, "tuntap", "add", "dev", device, "mode", "tun"])
            && ip(&["-n", name, "addr", "add", "10.77.0.1/24", "dev", device])
            && ip(&["-n", name, "link", "set", device, "up", "txqueuelen", "10"])
            && ip(&["-n", name, "link", "set", "lo", "up"]);
        if !made {
            println!("skipped: {test} (needs `ip`, network namespaces and TUN devices)");
            return None;
        }
        Some(net)
    }

    /// The counter in column `at` behind the device's name in /proc/net/dev.
    fn dev(&self, at: usize) -> u64 {
        let output = Command::new("ip").args(["netns", "exec", &self.name, "cat", "/proc/net/dev"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{}:", self.device))).unwrap();
        line.split_whitespace().nth(at).unwrap().parse().unwrap()
    }

    /// The number of UDP datagrams to a port without a socket in a namespace, and the number of
    /// packets that its loopback interface sent.
    fn loopback(name: &str) -> (u64, u64) {
        let output = Command::new("ip").args(["netns", "exec", name, "cat", "/proc/net/snmp", "/proc/net/dev"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let number = |begin: &str, at: usize| {
            let line = text.lines().rfind(|line| line.trim().starts_with(begin)).unwrap();
            line.split_whitespace().nth(at).unwrap().parse().unwrap()
        };
        (number("Udp:", 2), number("lo:", 10))
    }

    fn record(&self, place: &Place, events: &[&str]) -> PathBuf {
        let program = place.build("tunnel", &[]);
        let other = place.build("datagrams", &[]);
        let script = format!(
            "ip netns exec $N {program} {} 10.77.0.2 {SENT}
             ip netns exec $N {other} send 127.0.0.1 7009 {UNWANTED} 100 0",
            self.device
        );
        let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
        command.args(["record", "--stacks", "none"]).args(events).args(["--", "sh", "-ec", &script]).env("N", &self.name);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        place.newest()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.name]);
    }
}

fn ip(words: &[&str]) -> bool {
    Command::new("ip").args(words).output().is_ok_and(|output| output.status.success())
}

fn packets(place: &Place, recording: &Path) -> Value {
    let answer = place.answer("packets", recording);
    schema::check(&schema::schema("packets"), &answer);
    answer
}

fn text(place: &Place, recording: &Path) -> String {
    String::from_utf8(place.longpole(&["packets"]).arg(recording).output().unwrap().stdout).unwrap()
}

fn counter<'a>(answer: &'a Value, interface: Value, counter: &str) -> &'a Value {
    let all = answer["counters"]["counters"].as_array().unwrap();
    all.iter()
        .find(|line| line["interface"] == interface && line["counter"] == counter)
        .unwrap_or_else(|| panic!("no {counter}: {answer:#}"))
}

/// The kernel may give a new namespace the inode number of a removed one.
#[test]
fn a_namespace_is_not_mistaken_for_a_removed_one_with_the_same_inode() {
    let Some(net) = Net::new("namespaces one after the other") else { return };
    let place = Place::new();
    let program = place.build("datagrams", &[]);
    let dead = format!("{}d", net.name);
    let sent = |name: &str, count: u64| format!("ip netns exec {name} {program} send 127.0.0.1 7009 {count} 100 0");
    let made = |name: &str| format!("ip netns add {name}; ip -n {name} link set lo up");
    let new = Net { name: format!("{}n", net.name), device: String::new(), _alone: None };
    assert!(Command::new("sh").args(["-ec", &format!("{}; {}", made(&dead), sent(&dead, 100))]).status().unwrap().success());
    let script = format!("{}; ip netns del {dead}; sleep 0.5; {}; {}", sent(&dead, 50), made(&new.name), sent(&new.name, 30));
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    command.args(["record", "--stacks", "none", "--kernel", "sched,net", "--", "sh", "-ec", &script]);
    let output = command.output().unwrap();
    ip(&["netns", "del", &dead]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let description: Value = serde_json::from_slice(&std::fs::read(place.newest().join("longpole.json")).unwrap()).unwrap();
    let counters = &description["kernel_events"]["counters"];
    let delta = |interface: Value, counter: &str| {
        let mut rows = counters["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["namespace"] == *new.name && row["interface"] == interface && row["counter"] == counter);
        row.map(|row| row["delta"].as_u64().unwrap())
    };
    let (no_port, through_lo) = Net::loopback(&new.name);
    assert_eq!((no_port, delta(Value::Null, "NoPorts")), (30, Some(30)), "{counters:#}");
    assert_eq!(delta(json!("lo"), "tx_packets"), Some(through_lo), "{counters:#}");
    assert!(counters["gone"]["names"].as_array().unwrap().contains(&json!(dead)), "{counters:#}");

    // Only events show what was lost in the removed namespace.
    let answer = packets(&place, &place.newest());
    let line = counter(&answer, Value::Null, "NoPorts");
    let number = |key: &str| line[key].as_u64().unwrap();
    assert!(number("named") - number("unsure") >= number("delta") + 50, "{line}");
    let said = text(&place, &place.newest());
    assert!(
        said.contains("UDP: events name") && said.contains("gone before the end, with their counters: ") && said.contains(&dead),
        "{said}"
    );
    assert!(!said.contains("as UDP NoPorts"), "{said}");
}

/// Packets are lost also while the counters are being read.
#[test]
fn losses_while_the_counters_are_read_are_not_reported_as_losses_without_an_event() {
    let Some(net) = Net::new("losses all the time") else { return };
    let place = Place::new();
    let program = place.build("datagrams", &[]);
    // The sender sends 16 datagrams at a time, with pauses that are shorter than reading the
    // counters takes. It would run for about ten seconds if it were not ended.
    let sender = ["netns", "exec", &net.name, &program, "send", "127.0.0.1", "7009", "1600000", "100", "60"];
    let sender = Running::start(Command::new("ip").args(sender).stdout(Stdio::null()));
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    command.args(["record", "--stacks", "none", "--kernel", "sched,net", "--", "sleep", "0.2"]);
    let output = command.output().unwrap();
    drop(sender);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer = packets(&place, &place.newest());
    if answer["journeys"]["lost_events"] != 0 {
        println!("skipped: losses all the time (the kernel lost events)");
        return;
    }
    let line = counter(&answer, Value::Null, "NoPorts");
    let number = |key: &str| line[key].as_u64().unwrap();
    assert!(number("unsure") > 0 && number("delta") > 500, "{line}");
    assert!(number("delta") <= number("named"), "{line}");
    if answer["counters"]["gone"]["count"] == 0 && answer["counters"]["not_read"]["count"] == 0 {
        assert!(number("named") - number("unsure") <= number("delta"), "{line}");
    }
    let said = text(&place, &place.newest());
    assert!(!said.contains("UDP dropped"), "{said}");
}

#[test]
fn losses_in_the_kernels_counters_match_the_events_or_are_reported_as_without_events() {
    let Some(net) = Net::new("counters of interfaces") else { return };
    let place = Place::new();

    let recording = net.record(&place, &["--kernel", "sched,irq,softirq,net,syscall"]);
    let answer = packets(&place, &recording);
    let dropped = net.dev(11);
    assert!(SENT - 20 < dropped && dropped <= SENT, "{dropped}");
    let of_device = json!({
        "of": "link", "namespace": net.name, "interface": net.device, "counter": "tx_dropped", "delta": dropped, "named": dropped, "unsure": 0,
    });
    assert_eq!(counter(&answer, json!(net.device), "tx_dropped"), &of_device);
    let no_port = counter(&answer, Value::Null, "NoPorts");
    // Other programs send datagrams too. Those whose namespace was removed are in no counter.
    let number = |key: &str| no_port[key].as_u64().unwrap();
    assert!(number("delta") >= UNWANTED && number("delta") <= number("named"), "{no_port}");
    let said = text(&place, &recording);
    assert!(said.contains(&format!("{}/{} tx_dropped {dropped}", net.name, net.device)), "{said}");
    let ours = |line: &&str| line.starts_with(&net.name) || line.starts_with("UDP");
    assert!(!said.lines().filter(ours).any(|line| line.contains("than events show")), "{said}");
    // The counters cover the whole recording and are left out for a part of it.
    let part = place.longpole(&["packets", "--json", "--begin", "+0.01s"]).arg(&recording).output().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&part.stdout).unwrap()["counters"], Value::Null);

    // Without the events of group skb, the recording does not contain which packets the kernel
    // frees.
    let recording = net.record(&place, &["--kernel", "sched,irq,softirq,syscall", "--event", "net:*"]);
    let answer = packets(&place, &recording);
    let again = net.dev(11) - dropped;
    let line = counter(&answer, json!(net.device), "tx_dropped");
    assert_eq!((&line["delta"], &line["named"]), (&json!(again), &json!(0)));
    let said = text(&place, &recording);
    let told = format!("{}/{} dropped {again} more packets than events show (tx_dropped {again}, events 0)", net.name, net.device);
    assert!(said.contains(&told), "{said}");

    // The description of a recording may contain anything. Counters that cannot be parsed are left
    // out and do no harm.
    let description = recording.join("longpole.json");
    let mut changed: Value = serde_json::from_slice(&std::fs::read(&description).unwrap()).unwrap();
    for counters in [json!(7), json!([]), json!({ "begin_ns": 1, "end_ns": 2, "rows": [{ "delta": -1 }] }), Value::Null] {
        changed["kernel_events"]["counters"] = counters;
        std::fs::write(&description, changed.to_string()).unwrap();
        assert_eq!(packets(&place, &recording)["counters"], Value::Null);
    }
}

/// A queueing discipline on a device pair, and a full backlog, in a namespace of the test.
#[test]
fn drops_of_a_token_bucket_and_of_a_full_backlog_equal_the_kernels_counters() {
    let Some(net) = Net::new("drops of disciplines and backlogs") else { return };
    let place = Place::new();
    let program = place.build("datagrams", &[]);
    let tc = |words: &[&str]| {
        let output = Command::new("tc").args(["-n", &net.name]).args(words).output();
        output.ok().filter(|output| output.status.success()).map(|output| String::from_utf8(output.stdout).unwrap())
    };
    let flood = place.path("flood");
    std::fs::write(&flood, many_copies("bl0")).unwrap();
    let pair = format!(
        "ip -n {} link add bl0 type veth peer name bl1 && ip -n {} link set bl1 up && ip -n {} link set bl0 up",
        net.name, net.name, net.name
    );
    let made = Command::new("sh").args(["-c", &pair]).status().is_ok_and(|status| status.success())
        && tc(&["qdisc", "add", "dev", "bl1", "root", "tbf", "rate", "1mbit", "burst", "2kb", "limit", "4kb"]).is_some()
        && tc(&["qdisc", "add", "dev", "lo", "clsact"]).is_some()
        && tc(&["-batch", flood.to_str().unwrap()]).is_some();
    if !made {
        println!("skipped: drops of disciplines and backlogs (needs `tc`, tbf, clsact, u32 and mirred)");
        return;
    }
    // One datagram to the loopback interface becomes more copies than a backlog holds. The many
    // datagrams to the other device go into the token bucket.
    let script = format!(
        "ip -n $N addr add 10.77.1.1/24 dev bl1; ip -n $N neigh add 10.77.1.2 lladdr 02:00:00:00:00:02 dev bl1
         ip netns exec $N {program} send 10.77.1.2 7009 100 900 0
         ip netns exec $N {program} send 127.0.0.1 7009 1 100 0"
    );
    let before = softnet();
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    command.args(["record", "--stacks", "none", "--kernel", "sched,irq,softirq,net", "--", "sh", "-ec", &script]).env("N", &net.name);
    let output = command.output().unwrap();
    let refused = softnet() - before;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let answer = packets(&place, &place.newest());
    let said: Value = serde_json::from_str(&tc(&["-s", "-j", "qdisc", "show", "dev", "bl1"]).unwrap()).unwrap();
    let dropped = said[0]["drops"].as_u64().unwrap();
    assert!(dropped > 50, "the bucket let nearly all pass: {said}");
    let bucket = counter(&answer, json!("bl1"), "drops");
    let expected = json!({
        "of": "qdisc", "namespace": net.name, "interface": "bl1", "counter": "drops", "delta": dropped, "named": dropped, "unsure": 0,
    });
    assert_eq!(bucket, &expected);
    // The backlog counters are those of the whole host.
    let all = answer["counters"]["counters"].as_array().unwrap();
    let backlog = all.iter().find(|line| line["of"] == "backlog").unwrap();
    assert!(backlog["delta"].as_u64().unwrap() <= refused, "{backlog}");
    // `rx_dropped` counts the drops of the backlog. The packets that get through are for another
    // host, and the interface counts these in another counter.
    for line in [backlog, counter(&answer, json!("bl1"), "rx_dropped")] {
        let number = |key: &str| line[key].as_u64().unwrap();
        assert!(number("delta") > 300, "{line}");
        assert!(number("named") >= number("delta") && number("named") - number("unsure") <= number("delta"), "{line}");
    }
    let said = text(&place, &place.newest());
    assert!(said.contains(&format!("qdisc of {}/bl1 drops {dropped}", net.name)), "{said}");
}

/// Packets that the backlogs of all CPUs have dropped.
fn softnet() -> u64 {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").unwrap();
    text.lines().map(|line| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()).sum()
}

/// A batch for tc(8). It copies each datagram to the loopback interface to a device, more often
/// than a CPU's backlog has room for. All copies are made before the CPU can take one from the
/// backlog.
fn many_copies(device: &str) -> String {
    let room: usize = std::fs::read_to_string("/proc/sys/net/core/netdev_max_backlog").unwrap().trim().parse().unwrap();
    // The largest number of actions that one filter may have.
    let copy = format!("action mirred egress mirror dev {device}");
    let copies = format!("{}{copy} continue", format!("{copy} pipe ").repeat(30));
    let filter = |n: usize| format!("filter add dev lo egress protocol all pref {n} u32 match u32 0 0 {copies}\n");
    (1..=room / 31 + 12).map(filter).collect()
}
