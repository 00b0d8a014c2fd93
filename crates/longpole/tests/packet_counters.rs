//! What `longpole packets` says of the kernel's own counters, beside what /proc says of them.

#[path = "support/place.rs"]
#[allow(dead_code)]
mod place;
#[path = "support/schema.rs"]
mod schema;

use place::Place;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Datagrams that are sent into the device, and to a port that nobody has.
const SENT: u64 = 200;
const UNWANTED: u64 = 7;

/// A namespace with a TUN device whose ring holds ten packets; gone when dropped.
struct Net {
    name: String,
    device: String,
}

impl Net {
    /// None, and why, where this cannot be tested.
    fn new(test: &str) -> Option<Net> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        if !status.lines().any(|line| line.starts_with("Uid:\t0\t0\t")) || std::fs::read_dir("/sys/kernel/tracing/instances").is_err() {
            println!("skipped: {test} (needs root and tracefs)");
            return None;
        }
        let net = Net { name: format!("lpt{}", std::process::id()), device: format!("t{}", std::process::id()) };
        let (name, device) = (&*net.name, &*net.device);
        let made = ip(&["netns", "add", name])
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

    /// A counter of /proc/net/dev, by its place behind the name.
    fn dev(&self, at: usize) -> u64 {
        let output = Command::new("ip").args(["netns", "exec", &self.name, "cat", "/proc/net/dev"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{}:", self.device))).unwrap();
        line.split_whitespace().nth(at).unwrap().parse().unwrap()
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

/// The recordings hear all of the machine, so they are made one after the other.
#[test]
fn losses_that_the_kernel_counts_are_those_that_events_name_or_said_to_have_none() {
    let Some(net) = Net::new("counters of interfaces") else { return };
    let place = Place::new();

    let recording = net.record(&place, &["--kernel", "sched,irq,softirq,net,syscall"]);
    let answer = packets(&place, &recording);
    let dropped = net.dev(11);
    assert!(SENT - 20 < dropped && dropped <= SENT, "{dropped}");
    let of_device = json!({
        "of": "link", "namespace": net.name, "interface": net.device, "counter": "tx_dropped", "delta": dropped, "named": dropped,
    });
    assert_eq!(counter(&answer, json!(net.device), "tx_dropped"), &of_device);
    let no_port = counter(&answer, Value::Null, "NoPorts");
    assert!(no_port["delta"].as_u64().unwrap() >= UNWANTED && no_port["delta"] == no_port["named"], "{no_port}");
    let said = text(&place, &recording);
    assert!(said.contains(&format!("{}/{} tx_dropped {dropped}", net.name, net.device)), "{said}");
    assert!(!said.contains("than any event tells"), "{said}");
    // The counters are those of the whole recording, not of a part.
    let part = place.longpole(&["packets", "--json", "--begin", "+0.01s"]).arg(&recording).output().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&part.stdout).unwrap()["counters"], Value::Null);

    // Nothing says now which packets the kernel frees.
    let recording = net.record(&place, &["--kernel", "sched,irq,softirq,syscall", "--event", "net:*"]);
    let answer = packets(&place, &recording);
    let again = net.dev(11) - dropped;
    let line = counter(&answer, json!(net.device), "tx_dropped");
    assert_eq!((&line["delta"], &line["named"]), (&json!(again), &json!(0)));
    let said = text(&place, &recording);
    let told = format!("{}/{} dropped {again} more packets than any event tells (tx_dropped {again}, events 0)", net.name, net.device);
    assert!(said.contains(&told), "{said}");

    // A recording says what it likes; what is not understood is not told, and hinders nothing.
    let description = recording.join("longpole.json");
    let mut changed: Value = serde_json::from_slice(&std::fs::read(&description).unwrap()).unwrap();
    for counters in [json!(7), json!([]), json!({ "begin_ns": 1, "end_ns": 2, "rows": [{ "delta": -1 }] }), Value::Null] {
        changed["kernel_events"]["counters"] = counters;
        std::fs::write(&description, changed.to_string()).unwrap();
        assert_eq!(packets(&place, &recording)["counters"], Value::Null);
    }
}
