//! Losses that events name, beside what the kernel itself counted in the same time.
//!
//! A recording says by how much the counters of its interfaces, of UDP and of the CPUs' backlogs grew, and when they were read. Some losses have no event
//! at all, such as those inside of a driver; they show here as a difference. The kernel's events name interfaces without their namespace: those
//! of equal name are one.

use crate::packet_loss::{LossKind, LossLine, Names, Places, LINK};
use crate::packets::Packets;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a recording says. Nothing in it is believed to be complete.
#[derive(Clone, Debug, Deserialize)]
pub struct Counted {
    begin_ns: i64,
    end_ns: i64,
    #[serde(default)]
    left_out: u64,
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

/// A counter that grew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CounterLine {
    pub of: String,
    /// Null: of several. Empty: the one in which the recorder was.
    pub namespace: Option<String>,
    /// Null: of none.
    pub interface: Option<String>,
    pub counter: String,
    pub delta: u64,
    /// Losses that events name and that this counter has, too; null: it counts no losses, or what events do not tell apart.
    pub named: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CountersAnswer {
    pub begin_ns: i64,
    pub end_ns: i64,
    pub counters: Vec<CounterLine>,
    /// Losses at a device of which no event tells the name.
    pub without_interface: u64,
    /// Counters that are not in the recording, because there were too many.
    pub left_out: u64,
}

impl CounterLine {
    /// How many more than events name.
    pub fn unnamed(&self) -> u64 {
        self.named.map_or(0, |named| self.delta.saturating_sub(named))
    }
}

impl Counted {
    /// None: a recording says nothing of it, or nothing that is understood.
    pub fn read<'a>(said: impl Deserializer<'a>) -> Option<Counted> {
        Counted::deserialize(said).ok()
    }

    /// When the counters were read, first and last.
    pub fn range(&self) -> (i64, i64) {
        (self.begin_ns, self.end_ns)
    }
}

/// Where a loss is counted: an interface and the direction, or a counter by its name.
#[derive(Debug, Default)]
struct Named {
    /// By interface: on the way in and out.
    links: BTreeMap<String, [u64; 2]>,
    udp: BTreeMap<String, u64>,
    backlog: u64,
    without_interface: u64,
}

impl Named {
    fn add(&mut self, kind: &LossKind, line: &LossLine, count: u64) {
        self.backlog += if line.place == "backlog" { count } else { 0 };
        match (line.counter.as_str(), &line.device, line.protocol) {
            ("", ..) => {}
            (LINK, Some(device), _) => {
                self.links.entry(device.clone()).or_default()[usize::from(kind.outbound == Some(true))] += count;
            }
            (LINK, None, _) => self.without_interface += count,
            (counter, _, Some("UDP")) => *self.udp.entry(counter.to_owned()).or_default() += count,
            _ => {}
        }
    }

    /// Losses of which this counter tells. None: it tells of no losses, or of a part of those that another one tells.
    fn of(&self, of: &str, interface: Option<&str>, counter: &str) -> Option<u64> {
        let link = |way: usize| interface.and_then(|name| self.links.get(name)).map_or(0, |ways| ways[way]);
        match (of, counter) {
            ("link", "rx_dropped") => Some(link(0)),
            ("link", "tx_dropped") => Some(link(1)),
            // What a driver drops so has no event.
            ("link", "rx_missed_errors" | "rx_errors" | "tx_errors") => Some(0),
            ("udp", counter) => Some(self.udp.get(counter).copied().unwrap_or(0)),
            ("backlog", _) => Some(self.backlog),
            _ => None,
        }
    }
}

impl Packets<'_> {
    /// The counters beside the losses, which were counted in the same time ([`crate::packet_loss::Losses::watch`]).
    pub fn counters(&self, counted: &Counted, places: &Places) -> CountersAnswer {
        let mut named = Named::default();
        for (kind, count) in self.journeys.losses.watched() {
            named.add(kind, &places.line(kind, self as &dyn Names), count);
        }
        let mut sums: BTreeMap<(&str, Option<&str>, &str), (u64, BTreeSet<&str>)> = BTreeMap::new();
        for row in &counted.rows {
            let (sum, namespaces) = sums.entry((&row.of, row.interface.as_deref(), &row.counter)).or_default();
            *sum = sum.saturating_add(row.delta);
            namespaces.insert(&row.namespace);
        }
        let lines = sums.iter().map(|((of, interface, counter), (delta, namespaces))| {
            // What nobody here had a handler for counts as not wanted in either of two.
            let nohandler = sums.get(&("link", *interface, "rx_nohandler")).map_or(0, |(sum, _)| *sum);
            let named = named.of(of, *interface, counter);
            CounterLine {
                of: (*of).to_owned(),
                namespace: namespaces.first().filter(|_| namespaces.len() == 1 && *of != "backlog").map(|name| (*name).to_owned()),
                interface: interface.map(str::to_owned),
                counter: (*counter).to_owned(),
                delta: *delta,
                named: if *counter == "rx_dropped" { named.map(|named| named.saturating_sub(nohandler)) } else { named },
            }
        });
        CountersAnswer {
            begin_ns: counted.begin_ns,
            end_ns: counted.end_ns,
            counters: lines.collect(),
            without_interface: named.without_interface,
            left_out: counted.left_out,
        }
    }
}
