//! Comparison of the losses that events report with the kernel's own counters for the same time.
//!
//! A recording contains the growth of the counters of its interfaces, their queueing disciplines,
//! its protocols and the CPUs' backlogs, and the times at which they were read. Some losses have no
//! event at all, such as those inside a driver; they appear here as a difference. Kernel events
//! name interfaces without their namespace, so interfaces with the same name are treated as one. A
//! loss that occurred while the counters were read may or may not be in the difference, so the two
//! numbers agree up to the number of such losses.

use crate::network::packet_loss::{LossKind, LossLine, Names, Places, Watch, Watched};
use crate::network::packets::Packets;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The counters in a recording. The data may be incomplete.
#[derive(Clone, Debug, Deserialize)]
pub struct Counted {
    begin_ns: i64,
    /// Time at which all counters had been read; absent in older recordings.
    begin_read_ns: Option<i64>,
    /// Time at which the first counter was read again.
    end_read_ns: Option<i64>,
    end_ns: i64,
    #[serde(default)]
    left_out: u64,
    #[serde(default)]
    not_read: Listed,
    #[serde(default)]
    gone: Listed,
    /// Interfaces whose counters were read both times; absent in older recordings.
    interfaces: Option<BTreeSet<String>>,
    #[serde(default)]
    rows: Vec<CounterRow>,
}

/// The growth of one counter.
#[derive(Clone, Debug, Deserialize)]
struct CounterRow {
    of: String,
    #[serde(default)]
    namespace: String,
    interface: Option<String>,
    counter: String,
    delta: u64,
}

/// A number of names, and some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Listed {
    pub count: u64,
    pub names: Vec<String>,
}

/// A counter that grew, or that should have grown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CounterLine {
    pub of: String,
    /// Network namespace. Null if there are several, or if it is unknown. Empty for the recorder's
    /// own.
    pub namespace: Option<String>,
    /// Interface; null for counters that belong to none.
    pub interface: Option<String>,
    pub counter: String,
    /// Growth of the counter; null if it was not read both times.
    pub delta: Option<u64>,
    /// Number of losses in events that this counter contains as well. Null if the counter does not
    /// count losses, or counts losses that events do not distinguish.
    pub named: Option<u64>,
    /// Number of those losses that occurred while the counters were read, so that each may or may
    /// not be in the difference.
    pub unsure: u64,
}

/// The counters, compared with the losses in events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CountersAnswer {
    pub begin_ns: i64,
    pub end_ns: i64,
    pub counters: Vec<CounterLine>,
    /// Number of losses at a device for which no event contains the name.
    pub without_interface: u64,
    /// Number of losses of kinds beyond the limit; they are compared with no counter.
    pub unplaced: u64,
    /// Number of counters that are not in the recording, because there were too many, or because
    /// their initial values are unknown.
    pub left_out: u64,
    /// Namespaces whose counters could not be read.
    pub not_read: Listed,
    /// Namespaces and interfaces that existed only at the begin.
    pub gone: Listed,
}

impl CounterLine {
    /// Returns the number of counted losses without an event.
    pub fn unnamed(&self) -> u64 {
        self.delta.zip(self.named).map_or(0, |(delta, named)| delta.saturating_sub(named))
    }

    /// Returns the least number of losses in events that the counter does not contain.
    pub fn uncounted(&self) -> u64 {
        self.delta.zip(self.named).map_or(0, |(delta, named)| named.saturating_sub(self.unsure).saturating_sub(delta))
    }
}

impl Counted {
    /// Reads the counters. Returns `None` if a recording has none, or if they cannot be parsed.
    pub fn read<'a>(json: impl Deserializer<'a>) -> Option<Counted> {
        Counted::deserialize(json).ok()
    }

    pub fn watch(&self) -> Watch {
        Watch {
            begin_ns: [self.begin_ns, self.begin_read_ns.unwrap_or(self.begin_ns)],
            end_ns: [self.end_read_ns.unwrap_or(self.end_ns), self.end_ns],
        }
    }

    /// Returns the growth of a counter that has no row: 0 if it was read and did not change.
    fn still(&self, of: &str, interface: Option<&str>) -> Option<u64> {
        let read = self.interfaces.as_ref()?;
        let of_interface = matches!(of, "link" | "qdisc");
        (!of_interface || interface.is_some_and(|name| read.contains(name))).then_some(0)
    }
}

type Key = (String, Option<String>, String);

/// Losses in events, by the counters that contain them.
#[derive(Debug, Default)]
struct Named {
    by_counter: BTreeMap<Key, Watched>,
    /// Losses at an interface without a handler, which the kernel counts in one of two counters.
    unhandled: BTreeMap<String, Watched>,
    without_interface: u64,
}

impl Named {
    fn add(&mut self, kind: &LossKind, line: &LossLine, watched: Watched) {
        let mut without_interface = false;
        for counter in &line.counters {
            let key = match (counter.split_once(':').unwrap_or((counter, "")), &line.device) {
                (("link", _), Some(device)) => {
                    let way = if kind.outbound == Some(true) { "tx_dropped" } else { "rx_dropped" };
                    ("link", Some(device.clone()), way)
                }
                (("qdisc", _), Some(device)) => ("qdisc", Some(device.clone()), "drops"),
                (("handler", _), Some(device)) => {
                    *self.unhandled.entry(device.clone()).or_default() += watched;
                    continue;
                }
                (("link" | "qdisc" | "handler", _), None) => {
                    without_interface = true;
                    continue;
                }
                (("backlog", _), _) => ("backlog", None, "dropped"),
                (("Udp", name), _) if line.protocol == Some("UDP") => ("udp", None, name),
                (("Tcp", name), _) if line.protocol == Some("TCP") => ("tcp", None, name),
                (("Ip", name), _) => ("ip", None, name),
                _ => continue,
            };
            *self.by_counter.entry((key.0.to_owned(), key.1, key.2.to_owned())).or_default() += watched;
        }
        self.without_interface += if without_interface { watched.count } else { 0 };
    }

    /// Returns the packets without a handler that are in `rx_dropped`. The others are in
    /// `rx_nohandler`.
    fn dropped_unhandled(&self, interface: &str, nohandler: u64) -> Watched {
        let all = self.unhandled.get(interface).copied().unwrap_or_default();
        let count = all.count.saturating_sub(nohandler);
        Watched { count, unsure: all.unsure.min(count) }
    }

    /// Returns the losses that this counter contains. `None` if the counter does not count losses,
    /// or only some of those that another counter contains.
    fn of(&self, key: &Key) -> Option<Watched> {
        let counts_losses = match (key.0.as_str(), key.2.as_str()) {
            // Drops inside a driver have no event.
            ("link", "rx_dropped" | "tx_dropped" | "rx_missed_errors" | "rx_errors" | "tx_errors") => true,
            ("udp", "NoPorts" | "RcvbufErrors" | "MemErrors" | "InErrors" | "InCsumErrors") => true,
            ("ip", "InAddrErrors" | "InNoRoutes") | ("tcp", "ListenDrops" | "TCPBacklogDrop") => true,
            ("qdisc", "drops") | ("backlog", "dropped") => true,
            // Counters such as SndbufErrors, OutNoRoutes and OutDiscards also count refused calls,
            // for which there was no packet. TCPRcvQDrop shares its reason with another counter.
            _ => false,
        };
        counts_losses.then(|| self.by_counter.get(key).copied().unwrap_or_default())
    }
}

impl Packets<'_> {
    /// Returns the counters with the losses of the same time
    /// ([`crate::network::packet_loss::Losses::watch`]).
    pub fn counters(&self, counted: &Counted, places: &Places) -> CountersAnswer {
        let mut named = Named::default();
        for (kind, watched) in self.packet_paths.losses.watched() {
            named.add(kind, &places.line(kind, self as &dyn Names), watched);
        }
        answer(counted, &named, self.packet_paths.losses.others_watched)
    }
}

fn answer(counted: &Counted, named: &Named, unplaced: u64) -> CountersAnswer {
    let mut sums: BTreeMap<Key, (Option<u64>, BTreeSet<&str>)> = BTreeMap::new();
    for row in &counted.rows {
        let key = (row.of.clone(), row.interface.clone(), row.counter.clone());
        let (sum, namespaces) = sums.entry(key).or_insert((Some(0), BTreeSet::new()));
        *sum = sum.map(|sum| sum.saturating_add(row.delta));
        namespaces.insert(&row.namespace);
    }
    // An older recording does not list which counters were read.
    for key in named.by_counter.keys().filter(|_| counted.interfaces.is_some()) {
        sums.entry(key.clone()).or_insert_with(|| (counted.still(&key.0, key.1.as_deref()), BTreeSet::new()));
    }
    let nohandler = |interface: &str| {
        let key = ("link".to_owned(), Some(interface.to_owned()), "rx_nohandler".to_owned());
        sums.get(&key).and_then(|(sum, _)| *sum).unwrap_or(0)
    };
    let lines = sums.iter().map(|(key, (delta, namespaces))| {
        let (of, interface, counter) = key;
        let mut of_counter = named.of(key);
        if let (Some(known), Some(interface), "rx_dropped") = (&mut of_counter, interface, counter.as_str()) {
            *known += named.dropped_unhandled(interface, nohandler(interface));
        }
        let named = of_counter;
        CounterLine {
            of: of.clone(),
            namespace: namespaces.first().filter(|_| namespaces.len() == 1 && of != "backlog").map(|name| (*name).to_owned()),
            interface: interface.clone(),
            counter: counter.clone(),
            delta: *delta,
            named: named.map(|named| named.count),
            unsure: named.map_or(0, |named| named.unsure),
        }
    });
    CountersAnswer {
        begin_ns: counted.begin_ns,
        end_ns: counted.end_ns,
        counters: lines.filter(|line| line.delta.is_none_or(|delta| delta > 0) || line.named.is_some_and(|named| named > 0)).collect(),
        without_interface: named.without_interface,
        unplaced,
        left_out: counted.left_out,
        not_read: counted.not_read.clone(),
        gone: counted.gone.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(all: &[(&str, Option<&str>, &str, u64, u64)]) -> Named {
        let entry = |&(of, interface, counter, count, unsure): &(&str, Option<&str>, &str, u64, u64)| {
            ((of.to_owned(), interface.map(str::to_owned), counter.to_owned()), Watched { count, unsure })
        };
        Named { by_counter: all.iter().map(entry).collect(), ..Named::default() }
    }

    /// Returns counters without namespaces.
    fn counted(rows: &[(&str, &str, u64)], interfaces: Option<&[&str]>) -> Counted {
        let row = |&(of, counter, delta): &(&str, &str, u64)| CounterRow {
            of: of.to_owned(),
            namespace: String::new(),
            interface: None,
            counter: counter.to_owned(),
            delta,
        };
        Counted {
            begin_ns: 1,
            begin_read_ns: Some(2),
            end_read_ns: Some(8),
            end_ns: 9,
            left_out: 0,
            not_read: Listed::default(),
            gone: Listed::default(),
            interfaces: interfaces.map(|all| all.iter().map(|name| (*name).to_owned()).collect()),
            rows: rows.iter().map(row).collect(),
        }
    }

    fn lines(rows: &[(&str, &str, u64)], interfaces: Option<&[&str]>, named: &Named) -> Vec<CounterLine> {
        answer(&counted(rows, interfaces), named, 0).counters
    }

    #[test]
    fn counters_and_events_agree_up_to_the_losses_while_the_counters_were_read() {
        let of = |count, unsure| lines(&[("udp", "NoPorts", 7)], Some(&[]), &named(&[("udp", None, "NoPorts", count, unsure)])).remove(0);
        let counts = |line: &CounterLine| (line.unnamed(), line.uncounted());
        assert_eq!(counts(&of(7, 0)), (0, 0));
        assert_eq!(counts(&of(9, 2)), (0, 0));
        assert_eq!(counts(&of(9, 1)), (0, 1));
        assert_eq!(counts(&of(5, 2)), (2, 0));
    }

    #[test]
    fn packets_without_a_handler_are_in_one_of_two_counters_and_distinct_from_others() {
        let mut named = named(&[("link", Some("a"), "rx_dropped", 30, 0)]);
        let named_of = |named: &Named, nohandler: u64| {
            let rows = [("a", "rx_dropped", 30), ("a", "rx_nohandler", nohandler)];
            let rows = rows.map(|(name, counter, delta)| CounterRow {
                of: "link".to_owned(),
                namespace: String::new(),
                interface: Some(name.to_owned()),
                counter: counter.to_owned(),
                delta,
            });
            let counted = Counted { rows: rows.to_vec(), ..counted(&[], Some(&["a"])) };
            answer(&counted, named, 0).counters.iter().map(|line| line.named).collect::<Vec<_>>()
        };
        assert_eq!(named_of(&named, 100), [Some(30), None]);
        named.unhandled.insert("a".to_owned(), Watched { count: 7, unsure: 0 });
        assert_eq!(named_of(&named, 7), [Some(30), None]);
        assert_eq!(named_of(&named, 5), [Some(32), None]);
    }

    #[test]
    fn an_unchanged_counter_with_losses_in_events_is_reported_and_an_unread_one_is_unknown() {
        let named =
            named(&[("link", Some("a"), "tx_dropped", 4, 0), ("link", Some("b"), "tx_dropped", 5, 0), ("udp", None, "NoPorts", 6, 0)]);
        let all = lines(&[], Some(&["a"]), &named);
        let found: Vec<_> = all.iter().map(|line| (line.interface.as_deref(), line.delta, line.named, line.uncounted())).collect();
        assert_eq!(found, [(Some("a"), Some(0), Some(4), 4), (Some("b"), None, Some(5), 0), (None, Some(0), Some(6), 6)]);
        assert_eq!(lines(&[], None, &named), []);
    }
}
