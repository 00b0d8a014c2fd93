//! Reads the kernel's own packet counters, independently of its events: those of each network
//! interface and its queueing discipline, of UDP, IP and TCP, and of the CPUs' backlogs.
//!
//! The counters are read after the recording has begun and before it ends, in every network
//! namespace that can be entered. Their growth is written to `longpole.json`, so that losses found
//! by events can be compared with it. A difference is reported only if both of its values are
//! known: a counter whose first value is missing may have been large long before the recording.
//!
//! Both readings take time, so the begin and end of each is recorded. An event during a reading may
//! be in the difference or not.

mod space;

use super::namespaces::{self, Missed};
use crate::clock::Clock;
use serde_json::{json, Value};
use space::{CounterOwner, Space};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Largest number of differences that are reported. Of the others, only the number is reported.
const MAX_REPORTED: usize = 1024;
/// Largest number of names that are listed as not read, and as gone.
const MAX_NAMES: usize = 16;

/// All counters at one time.
#[derive(Debug, Default)]
pub struct Counters {
    /// Time in ticks at which the reading began.
    first: u64,
    /// Time in ticks at which the reading ended.
    last: u64,
    /// Counters of each network namespace, by its cookie.
    spaces: BTreeMap<u64, Space>,
    /// Namespaces that could not be read.
    missed: Missed,
    /// Packets dropped from the CPUs' backlogs.
    backlog: Option<u64>,
}

/// Growth of the counters between two readings.
#[derive(Debug, Default)]
pub struct Grown {
    /// Begin and end of the first reading, in ticks.
    begin: [u64; 2],
    /// Begin and end of the second reading, in ticks.
    end: [u64; 2],
    /// Namespace, owner and name of each counter that grew, with its growth.
    rows: Vec<(String, CounterOwner, &'static str, u64)>,
    /// Number of counters whose growth is not known.
    unknown: usize,
    /// Interfaces whose counters were read both times.
    interfaces: BTreeSet<String>,
    /// Namespaces that were not read, or not completely.
    not_read: BTreeSet<String>,
    /// Namespaces and interfaces that were present at the begin and not at the end.
    gone: BTreeSet<String>,
}

/// Value of a counter at the begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Was(u64),
    /// The counter began with 0 during the recording.
    New,
    Unknown,
}

impl Counters {
    /// Reads all counters. `now` returns the time in ticks.
    pub fn read(now: &dyn Fn() -> u64) -> Counters {
        let mut read = Counters { first: now(), ..Counters::default() };
        let mut room = space::MAX_INTERFACES;
        let mut nameless = Vec::new();
        let spaces = &mut read.spaces;
        read.missed = namespaces::in_each(&mut |namespace| {
            let name = namespace.name();
            if namespace.cookie == 0 && !namespace.is_own() {
                nameless.push(name);
            } else {
                spaces.entry(namespace.cookie).or_insert_with(|| Space::read(name, &mut room));
            }
        });
        // A namespace without a cookie cannot be recognized: the one at the end might be a
        // different one.
        read.missed.names.extend(nameless);
        read.backlog = fs::read_to_string("/proc/net/softnet_stat").ok().as_deref().and_then(space::backlog);
        read.last = now();
        read
    }

    /// True if every counter was read.
    fn whole(&self) -> bool {
        self.missed.none() && self.spaces.values().all(|space| space.whole)
    }

    /// Computes the growth from this reading to a later one. A counter that is gone at the end is
    /// left out, because its last value is not known.
    pub fn grown(&self, later: &Counters) -> Grown {
        let mut grown = Grown { begin: [self.first, self.last], end: [later.first, later.last], ..Grown::default() };
        let not_read = |counters: &Counters| {
            let parts = counters.spaces.values().filter(|space| !space.whole).map(|space| shown(&space.name));
            let more = counters.missed.files.then(|| "more open files than are looked at".to_owned());
            counters.missed.names.iter().cloned().chain(parts).chain(more).collect::<Vec<_>>()
        };
        grown.not_read = not_read(self).into_iter().chain(not_read(later)).collect();
        for (cookie, space) in &self.spaces {
            match later.spaces.get(cookie) {
                None => _ = grown.gone.insert(shown(&space.name)),
                Some(now) => {
                    let there: BTreeSet<&CounterOwner> = now.links().collect();
                    grown.gone.extend(space.links().filter(|link| !there.contains(link)).map(|link| link.shown(&space.name)));
                }
            }
        }
        let gone = self.gone_links(later);
        for (cookie, space) in &later.spaces {
            let bases: BTreeMap<&CounterOwner, Moved<'_>> = space.links().map(|of| (of, self.moved(&gone, space, of))).collect();
            for ((of, counter), value) in &space.values {
                grown.add(&space.name, of, counter, self.base(*cookie, of, counter, bases.get(of).copied()), *value);
            }
        }
        if let (Some(begin), Some(end)) = (self.backlog, later.backlog) {
            grown.add("", &CounterOwner::Backlog, "dropped", Base::Was(begin), end);
        }
        grown
    }

    fn base(&self, cookie: u64, of: &CounterOwner, counter: &'static str, moved: Option<Moved<'_>>) -> Base {
        let space = self.spaces.get(&cookie);
        let known = |space: &Space, of: &CounterOwner| space.values.get(&(of.clone(), counter)).copied();
        if let Some(value) = space.and_then(|space| known(space, of).or_else(|| value_of_same_discipline(space, of))) {
            return Base::Was(value);
        }
        match (space, moved) {
            (Some(space), _) if !space.whole => Base::Unknown,
            // The namespace may have existed at the begin without being read.
            (None, _) if !self.whole() => Base::Unknown,
            // A discipline does not move with its interface, so this one is new.
            _ if matches!(of, CounterOwner::Qdisc { .. }) => Base::New,
            (_, Some(Moved::No)) | (None, None) => Base::New,
            (_, Some(Moved::From(space, of))) => known(space, of).map_or(Base::Unknown, Base::Was),
            (_, Some(Moved::Maybe)) | (Some(_), None) => Base::Unknown,
        }
    }

    /// Returns the interfaces that are not in their namespace any more, without loopback
    /// interfaces, which never move.
    fn gone_links<'a>(&'a self, later: &Counters) -> Vec<Known<'a>> {
        let there: BTreeSet<(u64, &CounterOwner)> =
            later.spaces.iter().flat_map(|(cookie, space)| space.links().map(|of| (*cookie, of))).collect();
        let all = self.spaces.iter().flat_map(|(cookie, space)| space.links().map(move |of| (*cookie, space, of)));
        all.filter(|(cookie, _, of)| !of.is_loopback() && !there.contains(&(*cookie, *of)))
            .map(|(_, space, of)| Known::new(space, of))
            .collect()
    }

    /// Finds out where an interface was at the begin. An interface may move to another namespace,
    /// where it may get another name and index; it keeps its counters.
    fn moved<'a>(&self, gone: &[Known<'a>], space: &Space, of: &CounterOwner) -> Moved<'a> {
        if of.is_loopback() {
            return Moved::No;
        }
        let now = Known::new(space, of);
        let mut same = gone.iter().filter(|was| was.address.is_some() && (was.of.index(), was.address) == (of.index(), now.address));
        match (same.next(), same.next()) {
            (Some(was), None) => return Moved::From(was.space, was.of),
            (Some(_), Some(_)) => return Moved::Maybe,
            (None, _) => {}
        }
        // A moved interface keeps its counters, so a gone interface with a larger value is not this
        // one.
        let may = |was: &Known<'_>| was.values.iter().zip(&now.values).all(|(was, now)| was <= now);
        if gone.iter().any(may) || !self.whole() {
            return Moved::Maybe;
        }
        Moved::No
    }
}

/// An interface at one of the two readings.
struct Known<'a> {
    space: &'a Space,
    of: &'a CounterOwner,
    address: Option<&'a Vec<u8>>,
    values: [Option<u64>; space::LINK.len()],
}

impl<'a> Known<'a> {
    fn new(space: &'a Space, of: &'a CounterOwner) -> Known<'a> {
        let address = of.index().and_then(|index| space.addresses.get(&index));
        let values = space::LINK.map(|(counter, _)| space.values.get(&(of.clone(), counter)).copied());
        Known { space, of, address, values }
    }
}

/// Returns the value of the same discipline under an earlier name of its interface.
fn value_of_same_discipline(space: &Space, of: &CounterOwner) -> Option<u64> {
    fn identity(of: &CounterOwner) -> Option<(u32, &str, u32)> {
        if let CounterOwner::Qdisc { index, kind, handle, .. } = of {
            Some((*index, kind, *handle))
        } else {
            None
        }
    }
    let this = identity(of)?;
    space.values.iter().find(|((known, _), _)| identity(known) == Some(this)).map(|(_, value)| *value)
}

/// Earlier place of an interface.
#[derive(Clone, Copy)]
enum Moved<'a> {
    /// The interface is new.
    No,
    From(&'a Space, &'a CounterOwner),
    Maybe,
}

impl CounterOwner {
    fn index(&self) -> Option<u32> {
        match self {
            CounterOwner::Link { index, .. } => Some(*index),
            _ => None,
        }
    }

    fn is_loopback(&self) -> bool {
        matches!(self, CounterOwner::Link { index: 1, name } if name == "lo")
    }

    fn interface(&self) -> Option<&str> {
        match self {
            CounterOwner::Link { name, .. } | CounterOwner::Qdisc { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Text for people: `blue/eth0`.
    fn shown(&self, space: &str) -> String {
        let name = self.interface().unwrap_or_default();
        if space.is_empty() {
            name.to_owned()
        } else {
            format!("{space}/{name}")
        }
    }
}

fn shown(space: &str) -> String {
    if space.is_empty() {
        "the recorder's own".to_owned()
    } else {
        space.to_owned()
    }
}

impl Grown {
    fn add(&mut self, space: &str, of: &CounterOwner, counter: &'static str, base: Base, value: u64) {
        let delta = match base {
            Base::New => Some(value),
            // A counter that decreased was reset meanwhile, so its growth is not known.
            Base::Was(was) => value.checked_sub(was),
            Base::Unknown => None,
        };
        if delta.is_some() {
            self.interfaces.extend(of.interface().map(str::to_owned));
        }
        match delta {
            Some(0) => {}
            Some(delta) => self.rows.push((space.to_owned(), of.clone(), counter, delta)),
            None => self.unknown += usize::from(value > 0),
        }
    }

    /// Returns the growth in the form of `longpole.json`. Counters that did not grow are left out.
    pub fn to_json(&self, clock: &Clock) -> Value {
        // Counters of losses come first, because only a limited number is reported.
        let (traffic, losses): (Vec<_>, Vec<_>) = self.rows.iter().partition(|row| row.2.ends_with("_packets"));
        let rows = losses.iter().chain(&traffic).take(MAX_REPORTED).map(|(namespace, of, counter, delta)| {
            let kind = match of {
                CounterOwner::Link { .. } => "link",
                CounterOwner::Qdisc { .. } => "qdisc",
                CounterOwner::Udp => "udp",
                CounterOwner::Ip => "ip",
                CounterOwner::Tcp => "tcp",
                CounterOwner::Backlog => "backlog",
            };
            json!({ "of": kind, "namespace": namespace, "interface": of.interface(), "counter": counter, "delta": delta })
        });
        let rows: Vec<Value> = rows.collect();
        let names = |names: &BTreeSet<String>| json!({ "count": names.len(), "names": names.iter().take(MAX_NAMES).collect::<Vec<_>>() });
        json!({
            "begin_ns": clock.unix_ns(self.begin[0]),
            "begin_read_ns": clock.unix_ns(self.begin[1]),
            "end_read_ns": clock.unix_ns(self.end[0]),
            "end_ns": clock.unix_ns(self.end[1]),
            "left_out": self.rows.len() - rows.len() + self.unknown,
            "not_read": names(&self.not_read),
            "gone": names(&self.gone),
            "interfaces": self.interfaces.iter().take(MAX_REPORTED).collect::<Vec<_>>(),
            "rows": rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Calibration, ClockSource};

    /// Makes a namespace. Each interface has an index, a name, an address and a number of dropped
    /// packets.
    fn space(name: &str, links: &[(u32, &str, u8, u64)]) -> Space {
        let mut space = Space { name: name.to_owned(), whole: true, ..Space::default() };
        for (index, name, address, value) in links {
            space.values.insert((CounterOwner::Link { index: *index, name: (*name).to_owned() }, "tx_dropped"), *value);
            space.addresses.insert(*index, vec![*address; 6]);
        }
        space
    }

    fn counters(spaces: &[(u64, Space)]) -> Counters {
        Counters { spaces: spaces.iter().cloned().collect(), ..Counters::default() }
    }

    /// Returns namespace, interface and growth of each counter, and the number of unknown ones.
    fn added(before: &Counters, later: &Counters) -> (Vec<(String, String, u64)>, usize) {
        let grown = before.grown(later);
        let name = |of: &CounterOwner| of.interface().unwrap().to_owned();
        (grown.rows.iter().map(|row| (row.0.clone(), name(&row.1), row.3)).collect(), grown.unknown)
    }

    fn row(space: &str, name: &str, delta: u64) -> (String, String, u64) {
        (space.to_owned(), name.to_owned(), delta)
    }

    #[test]
    fn growth_is_reported_also_for_new_and_moved_interfaces_and_not_for_reset_counters() {
        let here = [(2, "a", 2, 5), (3, "b", 3, 5), (4, "moved", 4, 40), (5, "gone", 5, 9), (6, "same", 6, 9)];
        let before = counters(&[(1, space("", &here)), (2, space("blue", &[]))]);
        let later = [(2, "a", 2, 8), (3, "b", 3, 2), (6, "same", 6, 9)];
        let later = counters(&[(1, space("", &later)), (2, space("blue", &[(4, "eth0", 4, 41), (7, "new", 7, 6)]))]);
        assert_eq!(added(&before, &later), (vec![row("", "a", 3), row("blue", "eth0", 1), row("blue", "new", 6)], 1));
        let grown = before.grown(&later);
        assert_eq!(grown.gone, BTreeSet::from(["gone".to_owned(), "moved".to_owned()]));
        let added = grown.to_json(&Calibration::begin(ClockSource::MonoRaw).finish());
        assert_eq!((&added["left_out"], &added["not_read"]["count"], &added["gone"]["count"]), (&json!(1), &json!(0), &json!(2)));
        assert_eq!(added["interfaces"], json!(["a", "eth0", "new", "same"]));
    }

    #[test]
    fn counters_of_a_dead_namespace_are_not_used_for_a_new_one() {
        // The new namespace has interfaces with the same indexes and names.
        let before = counters(&[(1, space("", &[])), (2, space("dead", &[(1, "lo", 0, 100), (2, "eth0", 7, 100)]))]);
        let later = counters(&[(1, space("", &[])), (3, space("new", &[(1, "lo", 0, 130), (2, "eth0", 8, 30)]))]);
        assert_eq!(added(&before, &later), (vec![row("new", "lo", 130), row("new", "eth0", 30)], 0));
        assert_eq!(before.grown(&later).gone, BTreeSet::from(["dead".to_owned()]));
        // The interface might be the gone one with a new address and a new name.
        let later = counters(&[(1, space("", &[])), (3, space("new", &[(1, "lo", 0, 130), (2, "eth9", 8, 130)]))]);
        assert_eq!(added(&before, &later), (vec![row("new", "lo", 130)], 1));
    }

    #[test]
    fn counters_that_were_not_read_at_the_begin_do_not_count_from_0() {
        let later = counters(&[(1, space("", &[(3, "new", 3, 7), (9, "old", 9, 9)])), (2, space("blue", &[(1, "lo", 0, 50)]))]);
        let whole = counters(&[(1, space("", &[(9, "old", 9, 4)]))]);
        assert_eq!(added(&whole, &later), (vec![row("", "new", 7), row("", "old", 5), row("blue", "lo", 50)], 0));
        // One namespace was not entered. It may be the present one, and an interface may have come
        // from it.
        let mut missed = counters(&[(1, space("", &[(9, "old", 9, 4)]))]);
        missed.missed.names.push("blue".to_owned());
        assert_eq!(added(&missed, &later), (vec![row("", "old", 5)], 2));
        assert_eq!(missed.grown(&later).not_read, BTreeSet::from(["blue".to_owned()]));
        // Only a part of the namespace's interfaces was read.
        let part = Space { whole: false, ..space("blue", &[]) };
        let part = counters(&[(1, space("", &[(9, "old", 9, 4)])), (2, part)]);
        assert_eq!(added(&part, &later), (vec![row("", "old", 5)], 2));
    }

    #[test]
    fn a_discipline_continues_under_a_new_interface_name_and_a_replacement_counts_from_0() {
        let with = |name: &str, kind: &str, value: u64| {
            let mut space = space("", &[(2, name, 2, 9)]);
            space
                .values
                .insert((CounterOwner::Qdisc { index: 2, name: name.to_owned(), kind: kind.to_owned(), handle: 1 }, "drops"), value);
            counters(&[(1, space)])
        };
        assert_eq!(added(&with("a", "tbf", 5), &with("a", "tbf", 7)), (vec![row("", "a", 2)], 0));
        assert_eq!(added(&with("a", "tbf", 5), &with("b", "tbf", 7)), (vec![row("", "b", 2)], 0));
        assert_eq!(added(&with("a", "tbf", 5), &with("a", "sfq", 3)), (vec![row("", "a", 3)], 0));
    }

    #[test]
    fn the_loopback_interface_counts_what_is_sent_through_it() {
        let begin = Counters::read(&|| 1);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..50 {
            socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        }
        let grown = begin.grown(&Counters::read(&|| 2));
        let sent = grown.rows.iter().find(|row| row.0.is_empty() && row.1.interface() == Some("lo") && row.2 == "tx_packets");
        assert!(sent.is_some_and(|row| row.3 >= 50), "{grown:?}");
    }
}
