//! What the kernel counts of packets by itself, beside its events: of each network interface, of UDP, of the CPUs' backlogs.
//!
//! They are read when the recording has begun and before it ends, of every network namespace that can be entered; what they grew by is told in
//! `longpole.json`. Whoever names losses by events can be held against them. The moments of both readings are told, too: an event
//! before the first or after the second one is in no difference.

use super::dump::network;
use crate::clock::Clock;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
/// Bytes of `struct ifinfomsg`; the index is at 4.
const IFINFOMSG: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_STATS64: u16 = 23;

/// Fields of `struct rtnl_link_stats64` (linux/if_link.h), by their place in it. An interface adds up what its driver counts and what the kernel counts for it.
const LINK: [(&str, usize); 11] = [
    ("rx_packets", 0),
    ("tx_packets", 1),
    ("rx_errors", 4),
    ("tx_errors", 5),
    ("rx_dropped", 6),
    ("tx_dropped", 7),
    ("rx_over_errors", 11),
    ("rx_fifo_errors", 14),
    ("rx_missed_errors", 15),
    ("tx_fifo_errors", 18),
    ("rx_nohandler", 24),
];
/// Of /proc/net/snmp, and with a 6 of snmp6.
const UDP: [&str; 3] = ["NoPorts", "RcvbufErrors", "MemErrors"];

/// Interfaces of all namespaces together.
const MOST_INTERFACES: usize = 4096;
/// Differences that are told; of what is beyond them only the number.
const MOST_TOLD: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    /// By index and name: both stay as long as the interface does.
    Link {
        index: u32,
        name: String,
    },
    Udp,
    Backlog,
}

/// A namespace's inode, whose counter, and which.
type Key = (u64, Of, &'static str);

/// All counters at one moment, in the clock's ticks. Those that begin to be counted later begin with 0.
#[derive(Debug, Default)]
pub struct Counters {
    ticks: u64,
    values: BTreeMap<Key, u64>,
    /// As one would write them: the own one is empty.
    names: BTreeMap<u64, String>,
}

/// By how much they grew.
#[derive(Debug)]
pub struct Grown {
    begin: u64,
    end: u64,
    rows: Vec<(String, Of, &'static str, u64)>,
}

impl Counters {
    pub fn read(now: &dyn Fn() -> u64) -> Counters {
        let mut read = Counters { ticks: now(), ..Counters::default() };
        let Counters { values, names, .. } = &mut read;
        network::in_each_namespace(&mut |inode, path| {
            names.insert(inode, path.map_or_else(String::new, name));
            let _ = links(&mut |of, counter, value| {
                if values.len() < MOST_INTERFACES * LINK.len() {
                    values.insert((inode, of, counter), value);
                }
            });
            let snmp = fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
            let snmp6 = fs::read_to_string("/proc/thread-self/net/snmp6").unwrap_or_default();
            for counter in UDP {
                let both = [udp(&snmp, counter), udp6(&snmp6, counter)];
                if both.iter().any(Option::is_some) {
                    values.insert((inode, Of::Udp, counter), both.into_iter().flatten().fold(0, u64::saturating_add));
                }
            }
        });
        // Of all CPUs, whatever namespace asks.
        if let Some(dropped) = fs::read_to_string("/proc/net/softnet_stat").ok().as_deref().and_then(backlog) {
            values.insert((0, Of::Backlog, "dropped"), dropped);
        }
        read
    }

    /// From these to later ones. What is not there any more is not told: nobody knows how far it came.
    pub fn grown(&self, later: &Counters) -> Grown {
        let base = |key: &Key| {
            self.values.get(key).copied().or_else(|| {
                // An interface may move to another namespace, and takes its counters with it.
                let (_, of @ Of::Link { .. }, counter) = key else { return None };
                let elsewhere = |known: &Key| known.1 == *of && known.2 == *counter && !later.values.contains_key(known);
                self.values.iter().find(|(known, _)| elsewhere(known)).map(|(_, value)| *value)
            })
        };
        // A counter that went back was set to 0 meanwhile.
        let by = |key: &Key, value: u64| value.checked_sub(base(key).unwrap_or(0)).filter(|by| *by > 0);
        let named = |inode: u64| later.names.get(&inode).cloned().unwrap_or_default();
        let rows = later.values.iter().filter_map(|(key, value)| Some((named(key.0), key.1.clone(), key.2, by(key, *value)?)));
        Grown { begin: self.ticks, end: later.ticks, rows: rows.collect() }
    }
}

impl Grown {
    pub fn to_json(&self, clock: &Clock) -> Value {
        // What tells of losses comes first, should there be too many.
        let (traffic, losses): (Vec<_>, Vec<_>) = self.rows.iter().partition(|row| row.2.ends_with("_packets"));
        let rows = losses.iter().chain(&traffic).take(MOST_TOLD).map(|(namespace, of, counter, delta)| {
            let (of, interface) = match of {
                Of::Link { name, .. } => ("link", Some(name)),
                Of::Udp => ("udp", None),
                Of::Backlog => ("backlog", None),
            };
            json!({ "of": of, "namespace": namespace, "interface": interface, "counter": counter, "delta": delta })
        });
        let rows: Vec<Value> = rows.collect();
        json!({
            "begin_ns": clock.unix_ns(self.begin),
            "end_ns": clock.unix_ns(self.end),
            "left_out": self.rows.len() - rows.len(),
            "rows": rows,
        })
    }
}

/// `blue`, as `ip netns` has it, or `pid:1234`.
fn name(path: &Path) -> String {
    let parts: Vec<Component<'_>> = path.components().collect();
    match parts.as_slice() {
        [_, Component::Normal(top), Component::Normal(pid), ..] if *top == "proc" => format!("pid:{}", pid.to_string_lossy()),
        _ => path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
    }
}

fn links(each: &mut dyn FnMut(Of, &'static str, u64)) -> std::io::Result<()> {
    network::ask(RTM_GETLINK, IFINFOMSG, RTM_NEWLINK, &mut |body| {
        let Some((of, stats)) = link(body) else { return true };
        for (counter, at) in LINK {
            // Kernels have appended fields.
            if let Some(bytes) = stats.get(at * 8..at * 8 + 8).and_then(|bytes| bytes.try_into().ok()) {
                each(of.clone(), counter, u64::from_ne_bytes(bytes));
            }
        }
        true
    })
}

fn link(body: &[u8]) -> Option<(Of, &[u8])> {
    let attributes = body.get(IFINFOMSG..)?;
    let name = network::text(network::attribute(attributes, IFLA_IFNAME)?)?;
    Some((Of::Link { index: network::word(body, 4), name }, network::attribute(attributes, IFLA_STATS64)?))
}

/// Two lines, names and values: `Udp: InDatagrams NoPorts …`.
fn udp(text: &str, counter: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let at = lines.next()?.split_whitespace().position(|name| name == counter)?;
    lines.next()?.split_whitespace().nth(at)?.parse().ok()
}

/// A line each: `Udp6NoPorts 3`.
fn udp6(text: &str, counter: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Udp6")?.strip_prefix(counter))?;
    line.trim().parse().ok()
}

/// The second column of each CPU's line, in hexadecimal digits.
fn backlog(text: &str) -> Option<u64> {
    text.lines().map(|line| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok()).try_fold(0, |sum: u64, value| Some(sum + value?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Calibration, Source};
    use std::collections::BTreeSet;

    fn of(name: &str) -> Of {
        Of::Link { index: 7, name: name.to_owned() }
    }

    fn interfaces(grown: &Grown) -> BTreeSet<&str> {
        let name = |of| if let &Of::Link { ref name, .. } = of { Some(name.as_str()) } else { None };
        grown.rows.iter().filter_map(|row| name(&row.1)).collect()
    }

    fn counters(ticks: u64, values: &[(u64, Of, u64)]) -> Counters {
        let values = values.iter().map(|(inode, of, value)| ((*inode, of.clone(), "tx_dropped"), *value)).collect();
        Counters { ticks, values, names: BTreeMap::from([(1, String::new()), (2, "blue".to_owned())]) }
    }

    #[test]
    fn what_grew_is_told_also_of_an_interface_that_is_new_or_moved_and_not_of_one_that_was_reset() {
        let before = counters(10, &[(1, of("a"), 5), (1, of("b"), 5), (1, of("moved"), 40), (1, of("gone"), 9), (1, of("same"), 9)]);
        let later = counters(20, &[(1, of("a"), 8), (1, of("b"), 2), (2, of("moved"), 41), (2, of("new"), 6), (1, of("same"), 9)]);
        let grown = before.grown(&later);
        assert_eq!(interfaces(&grown), BTreeSet::from(["a", "moved", "new"]));
        let told = grown.to_json(&Calibration::begin(Source::MonoRaw).finish());
        let row = |name: &str| told["rows"].as_array().unwrap().iter().find(|row| row["interface"] == name).unwrap();
        assert_eq!((&row("a")["delta"], &row("a")["namespace"]), (&json!(3), &json!("")));
        assert_eq!((&row("moved")["delta"], &row("moved")["namespace"]), (&json!(1), &json!("blue")));
        assert_eq!((&row("new")["delta"], &told["left_out"]), (&json!(6), &json!(0)));
    }

    #[test]
    fn the_loopback_interface_counts_what_is_sent_through_it() {
        let begin = Counters::read(&|| 1);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..50 {
            socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        }
        let grown = begin.grown(&Counters::read(&|| 2));
        let sent = grown
            .rows
            .iter()
            .find(|row| row.0.is_empty() && matches!(&row.1, Of::Link { name, .. } if name == "lo") && row.2 == "tx_packets");
        assert!(sent.is_some_and(|row| row.3 >= 50), "{grown:?}");
    }

    #[test]
    fn counters_of_text_are_found_by_their_names_and_broken_text_tells_none() {
        let text = "Tcp: NoPorts\nTcp: 9\nUdp: InDatagrams NoPorts RcvbufErrors\nUdp: 4 3 2\nUdpLite: NoPorts\nUdpLite: 7\n";
        assert_eq!((udp(text, "NoPorts"), udp(text, "RcvbufErrors"), udp(text, "MemErrors")), (Some(3), Some(2), None));
        assert_eq!(udp6("Udp6InDatagrams\t1\nUdp6NoPorts   \t5\n", "NoPorts"), Some(5));
        assert_eq!(backlog("0001 0000000a 0\n0001 00000002 0\n"), Some(12));
        for broken in ["", "Udp:\n", "Udp: NoPorts\nUdp:\n", "Udp: NoPorts\nUdp: x\n"] {
            assert_eq!((udp(broken, "NoPorts"), udp6(broken, "NoPorts")), (None, None));
        }
        assert_eq!(backlog("0001\n"), None);
        assert_eq!((name(Path::new("/proc/12/ns/net")), name(Path::new("/run/netns/blue"))), ("pid:12".to_owned(), "blue".to_owned()));
    }
}
