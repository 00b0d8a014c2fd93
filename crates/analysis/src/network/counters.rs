//! Losses that events name, beside what the kernel itself counted in the same time.
//!
//! A recording says by how much the counters of its interfaces, their queueing disciplines, its protocols and the CPUs' backlogs grew, and when they were read. Some losses have no event
//! at all, such as those inside of a driver; they show here as a difference. The kernel's events name interfaces without their namespace: those
//! of equal name are one. A loss while the counters were read is in the difference or not, so both agree within the number of these.

use crate::network::packet_loss::{LossKind, LossLine, Names, Places, Watch, Watched};
use crate::network::packets::Packets;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a recording says. Nothing in it is believed to be complete.
#[derive(Clone, Debug, Deserialize)]
pub struct Counted {
    begin_ns: i64,
    /// When all were read; older recordings do not say it.
    begin_read_ns: Option<i64>,
    /// When the first was read again.
    end_read_ns: Option<i64>,
    end_ns: i64,
    #[serde(default)]
    left_out: u64,
    #[serde(default)]
    not_read: Listed,
    #[serde(default)]
    gone: Listed,
    /// Those that were read both times; older recordings do not say it.
    interfaces: Option<BTreeSet<String>>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Deserialize)]
struct Row {
    of: String,
    #[serde(default)]
    namespace: String,
    interface: Option<String>,
    counter: String,
    delta: u64,
}

/// So many, and the names of some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Listed {
    pub count: u64,
    pub names: Vec<String>,
}

/// A counter that grew, or should have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CounterLine {
    pub of: String,
    /// Null: of several, or of an unknown one. Empty: the one in which the recorder was.
    pub namespace: Option<String>,
    /// Null: of none.
    pub interface: Option<String>,
    pub counter: String,
    /// Null: it was not read both times.
    pub delta: Option<u64>,
    /// Losses that events name and that this counter has, too; null: it counts no losses, or what events do not tell apart.
    pub named: Option<u64>,
    /// Of the named ones, those while the counters were read: each is in the difference, or not.
    pub unsure: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CountersAnswer {
    pub begin_ns: i64,
    pub end_ns: i64,
    pub counters: Vec<CounterLine>,
    /// Losses at a device of which no event tells the name.
    pub without_interface: u64,
    /// Losses of more kinds than are kept: no counter is held against them.
    pub unplaced: u64,
    /// Counters that are not in the recording, because there were too many, or because nobody knows where they began.
    pub left_out: u64,
    /// Namespaces.
    pub not_read: Listed,
    /// Namespaces and interfaces that were there at the begin only.
    pub gone: Listed,
}

impl CounterLine {
    /// How many more than events name.
    pub fn unnamed(&self) -> u64 {
        self.delta.zip(self.named).map_or(0, |(delta, named)| delta.saturating_sub(named))
    }

    /// How many more events name, at least.
    pub fn uncounted(&self) -> u64 {
        self.delta.zip(self.named).map_or(0, |(delta, named)| named.saturating_sub(self.unsure).saturating_sub(delta))
    }
}

impl Counted {
    /// None: a recording says nothing of it, or nothing that is understood.
    pub fn read<'a>(said: impl Deserializer<'a>) -> Option<Counted> {
        Counted::deserialize(said).ok()
    }

    pub fn watch(&self) -> Watch {
        Watch {
            begin_ns: [self.begin_ns, self.begin_read_ns.unwrap_or(self.begin_ns)],
            end_ns: [self.end_read_ns.unwrap_or(self.end_ns), self.end_ns],
        }
    }

    /// A counter that is in no row: 0 if it was read and stood still.
    fn still(&self, of: &str, interface: Option<&str>) -> Option<u64> {
        let read = self.interfaces.as_ref()?;
        let of_interface = matches!(of, "link" | "qdisc");
        (!of_interface || interface.is_some_and(|name| read.contains(name))).then_some(0)
    }
}

type Key = (String, Option<String>, String);

/// Losses by the counters that have them.
#[derive(Debug, Default)]
struct Named {
    by_counter: BTreeMap<Key, Watched>,
    /// For which an interface had no handler: it counts them in one of two counters.
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

    /// What is in `rx_dropped` of the packets without a handler. The rest is in `rx_nohandler`.
    fn dropped_unhandled(&self, interface: &str, nohandler: u64) -> Watched {
        let all = self.unhandled.get(interface).copied().unwrap_or_default();
        let count = all.count.saturating_sub(nohandler);
        Watched { count, unsure: all.unsure.min(count) }
    }

    /// Losses of which this counter tells. None: it tells of no losses, or of a part of those that another one tells.
    fn of(&self, key: &Key) -> Option<Watched> {
        let counts_losses = match (key.0.as_str(), key.2.as_str()) {
            // What a driver drops so has no event.
            ("link", "rx_dropped" | "tx_dropped" | "rx_missed_errors" | "rx_errors" | "tx_errors") => true,
            ("udp", "NoPorts" | "RcvbufErrors" | "MemErrors" | "InErrors" | "InCsumErrors") => true,
            ("ip", "InAddrErrors" | "InNoRoutes") | ("tcp", "ListenDrops" | "TCPBacklogDrop") => true,
            ("qdisc", "drops") | ("backlog", "dropped") => true,
            // Such as SndbufErrors, OutNoRoutes and OutDiscards: refused calls, of which there was no packet, count, too. TCPRcvQDrop has its reason in common with
            // another counter.
            _ => false,
        };
        counts_losses.then(|| self.by_counter.get(key).copied().unwrap_or_default())
    }
}

impl Packets<'_> {
    /// The counters beside the losses, which were counted in the same time ([`crate::network::packet_loss::Losses::watch`]).
    pub fn counters(&self, counted: &Counted, places: &Places) -> CountersAnswer {
        let mut named = Named::default();
        for (kind, watched) in self.journeys.losses.watched() {
            named.add(kind, &places.line(kind, self as &dyn Names), watched);
        }
        answer(counted, &named, self.journeys.losses.others_watched)
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
    // An older recording does not say what was read.
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

    /// Without namespaces.
    fn counted(rows: &[(&str, &str, u64)], interfaces: Option<&[&str]>) -> Counted {
        let row = |&(of, counter, delta): &(&str, &str, u64)| Row {
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
    fn what_the_kernel_counted_and_what_events_name_are_held_against_each_other_within_what_is_unsure() {
        let of = |count, unsure| lines(&[("udp", "NoPorts", 7)], Some(&[]), &named(&[("udp", None, "NoPorts", count, unsure)])).remove(0);
        let told = |line: &CounterLine| (line.unnamed(), line.uncounted());
        assert_eq!(told(&of(7, 0)), (0, 0));
        assert_eq!(told(&of(9, 2)), (0, 0));
        assert_eq!(told(&of(9, 1)), (0, 1));
        assert_eq!(told(&of(5, 2)), (2, 0));
    }

    #[test]
    fn packets_without_a_handler_are_in_one_of_two_counters_and_others_are_not_taken_for_them() {
        let mut named = named(&[("link", Some("a"), "rx_dropped", 30, 0)]);
        let told = |named: &Named, nohandler: u64| {
            let rows = [("a", "rx_dropped", 30), ("a", "rx_nohandler", nohandler)];
            let rows = rows.map(|(name, counter, delta)| Row {
                of: "link".to_owned(),
                namespace: String::new(),
                interface: Some(name.to_owned()),
                counter: counter.to_owned(),
                delta,
            });
            let counted = Counted { rows: rows.to_vec(), ..counted(&[], Some(&["a"])) };
            answer(&counted, named, 0).counters.iter().map(|line| line.named).collect::<Vec<_>>()
        };
        assert_eq!(told(&named, 100), [Some(30), None]);
        named.unhandled.insert("a".to_owned(), Watched { count: 7, unsure: 0 });
        assert_eq!(told(&named, 7), [Some(30), None]);
        assert_eq!(told(&named, 5), [Some(32), None]);
    }

    #[test]
    fn a_counter_that_stood_still_while_events_name_losses_is_told_and_one_that_was_not_read_is_unknown() {
        let named =
            named(&[("link", Some("a"), "tx_dropped", 4, 0), ("link", Some("b"), "tx_dropped", 5, 0), ("udp", None, "NoPorts", 6, 0)]);
        let all = lines(&[], Some(&["a"]), &named);
        let told: Vec<_> = all.iter().map(|line| (line.interface.as_deref(), line.delta, line.named, line.uncounted())).collect();
        assert_eq!(told, [(Some("a"), Some(0), Some(4), 4), (Some("b"), None, Some(5), 0), (None, Some(0), Some(6), 6)]);
        assert_eq!(lines(&[], None, &named), []);
    }
}
