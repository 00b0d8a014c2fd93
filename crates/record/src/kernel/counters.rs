//! What the kernel counts of packets by itself, beside its events: of each network interface and its queueing discipline, of UDP, IP and TCP, of the CPUs' backlogs.
//!
//! They are read when the recording has begun and before it ends, of every network namespace that can be entered; what they grew by is told in
//! `longpole.json`. Whoever names losses by events can be held against them. A difference is told only where both of its ends are known: a counter whose beginning
//! nobody read may have been large long before. The moments of both readings are told, too, of each the first and the last:
//! an event between them may be in the difference, or not.

mod space;

use super::namespaces::{self, Missed};
use crate::clock::Clock;
use serde_json::{json, Value};
use space::{Of, Space};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Differences that are told; of what is beyond them only the number.
const MOST_TOLD: usize = 1024;
/// Names that are told of what was not read, and of what is gone.
const MOST_NAMES: usize = 16;

/// All counters at one time, in the clock's ticks.
#[derive(Debug, Default)]
pub struct Counters {
    first: u64,
    last: u64,
    /// By their cookies.
    spaces: BTreeMap<u64, Space>,
    missed: Missed,
    backlog: Option<u64>,
}

/// By how much they grew.
#[derive(Debug, Default)]
pub struct Grown {
    begin: [u64; 2],
    end: [u64; 2],
    rows: Vec<(String, Of, &'static str, u64)>,
    /// Counters that grew by nobody knows what.
    unknown: usize,
    /// Interfaces whose counters were read both times.
    interfaces: BTreeSet<String>,
    not_read: BTreeSet<String>,
    /// Namespaces and interfaces that were there at the begin only.
    gone: BTreeSet<String>,
}

/// What a counter was at the begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Was(u64),
    /// It began with 0 meanwhile.
    New,
    Unknown,
}

impl Counters {
    pub fn read(now: &dyn Fn() -> u64) -> Counters {
        let mut read = Counters { first: now(), ..Counters::default() };
        let mut room = space::MOST_INTERFACES;
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
        // It might be another one at the end.
        read.missed.names.extend(nameless);
        read.backlog = fs::read_to_string("/proc/net/softnet_stat").ok().as_deref().and_then(space::backlog);
        read.last = now();
        read
    }

    /// Everything that could be counted was read.
    fn whole(&self) -> bool {
        self.missed.none() && self.spaces.values().all(|space| space.whole)
    }

    /// From these to later ones. What is not there any more is not told: nobody knows how far it came.
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
                    let there: BTreeSet<&Of> = now.links().collect();
                    grown.gone.extend(space.links().filter(|link| !there.contains(link)).map(|link| link.shown(&space.name)));
                }
            }
        }
        let gone = self.gone_links(later);
        for (cookie, space) in &later.spaces {
            let bases: BTreeMap<&Of, Moved<'_>> = space.links().map(|of| (of, self.moved(&gone, space, of))).collect();
            for ((of, counter), value) in &space.values {
                grown.add(&space.name, of, counter, self.base(*cookie, of, counter, bases.get(of).copied()), *value);
            }
        }
        if let (Some(begin), Some(end)) = (self.backlog, later.backlog) {
            grown.add("", &Of::Backlog, "dropped", Base::Was(begin), end);
        }
        grown
    }

    fn base(&self, cookie: u64, of: &Of, counter: &'static str, moved: Option<Moved<'_>>) -> Base {
        let space = self.spaces.get(&cookie);
        let known = |space: &Space, of: &Of| space.values.get(&(of.clone(), counter)).copied();
        if let Some(value) = space.and_then(|space| known(space, of).or_else(|| of_discipline(space, of))) {
            return Base::Was(value);
        }
        match (space, moved) {
            (Some(space), _) if !space.whole => Base::Unknown,
            // It may be one that was not read.
            (None, _) if !self.whole() => Base::Unknown,
            // An interface that moves leaves it behind.
            _ if matches!(of, Of::Qdisc { .. }) => Base::New,
            (_, Some(Moved::No)) | (None, None) => Base::New,
            (_, Some(Moved::From(space, of))) => known(space, of).map_or(Base::Unknown, Base::Was),
            (_, Some(Moved::Maybe)) | (Some(_), None) => Base::Unknown,
        }
    }

    /// Interfaces that are not any more where they were. Loopback stays.
    fn gone_links<'a>(&'a self, later: &Counters) -> Vec<Known<'a>> {
        let there: BTreeSet<(u64, &Of)> = later.spaces.iter().flat_map(|(cookie, space)| space.links().map(|of| (*cookie, of))).collect();
        let all = self.spaces.iter().flat_map(|(cookie, space)| space.links().map(move |of| (*cookie, space, of)));
        all.filter(|(cookie, _, of)| !of.is_loopback() && !there.contains(&(*cookie, *of)))
            .map(|(_, space, of)| Known::new(space, of))
            .collect()
    }

    /// An interface may move to another namespace, where it may get another name and number, and takes its counters with it.
    fn moved<'a>(&self, gone: &[Known<'a>], space: &Space, of: &Of) -> Moved<'a> {
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
        // None of its counters can have been larger.
        let may = |was: &Known<'_>| was.values.iter().zip(&now.values).all(|(was, now)| was <= now);
        if gone.iter().any(may) || !self.whole() {
            return Moved::Maybe;
        }
        Moved::No
    }
}

/// An interface as it was or is.
struct Known<'a> {
    space: &'a Space,
    of: &'a Of,
    address: Option<&'a Vec<u8>>,
    values: [Option<u64>; space::LINK.len()],
}

impl<'a> Known<'a> {
    fn new(space: &'a Space, of: &'a Of) -> Known<'a> {
        let address = of.index().and_then(|index| space.addresses.get(&index));
        let values = space::LINK.map(|(counter, _)| space.values.get(&(of.clone(), counter)).copied());
        Known { space, of, address, values }
    }
}

/// Of the same one, whatever its interface was called.
fn of_discipline(space: &Space, of: &Of) -> Option<u64> {
    fn identity(of: &Of) -> Option<(u32, &str, u32)> {
        if let Of::Qdisc { index, kind, handle, .. } = of {
            Some((*index, kind, *handle))
        } else {
            None
        }
    }
    let this = identity(of)?;
    space.values.iter().find(|((known, _), _)| identity(known) == Some(this)).map(|(_, value)| *value)
}

/// Where an interface was before.
#[derive(Clone, Copy)]
enum Moved<'a> {
    /// Nowhere.
    No,
    From(&'a Space, &'a Of),
    Maybe,
}

impl Of {
    fn index(&self) -> Option<u32> {
        match self {
            Of::Link { index, .. } => Some(*index),
            _ => None,
        }
    }

    fn is_loopback(&self) -> bool {
        matches!(self, Of::Link { index: 1, name } if name == "lo")
    }

    fn interface(&self) -> Option<&str> {
        match self {
            Of::Link { name, .. } | Of::Qdisc { name, .. } => Some(name),
            _ => None,
        }
    }

    /// `blue/eth0`.
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
    fn add(&mut self, space: &str, of: &Of, counter: &'static str, base: Base, value: u64) {
        let delta = match base {
            Base::New => Some(value),
            // One that went back was set to 0 meanwhile.
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

    pub fn to_json(&self, clock: &Clock) -> Value {
        // What tells of losses comes first, should there be too many.
        let (traffic, losses): (Vec<_>, Vec<_>) = self.rows.iter().partition(|row| row.2.ends_with("_packets"));
        let rows = losses.iter().chain(&traffic).take(MOST_TOLD).map(|(namespace, of, counter, delta)| {
            let kind = match of {
                Of::Link { .. } => "link",
                Of::Qdisc { .. } => "qdisc",
                Of::Udp => "udp",
                Of::Ip => "ip",
                Of::Tcp => "tcp",
                Of::Backlog => "backlog",
            };
            json!({ "of": kind, "namespace": namespace, "interface": of.interface(), "counter": counter, "delta": delta })
        });
        let rows: Vec<Value> = rows.collect();
        let names = |names: &BTreeSet<String>| json!({ "count": names.len(), "names": names.iter().take(MOST_NAMES).collect::<Vec<_>>() });
        json!({
            "begin_ns": clock.unix_ns(self.begin[0]),
            "begin_read_ns": clock.unix_ns(self.begin[1]),
            "end_read_ns": clock.unix_ns(self.end[0]),
            "end_ns": clock.unix_ns(self.end[1]),
            "left_out": self.rows.len() - rows.len() + self.unknown,
            "not_read": names(&self.not_read),
            "gone": names(&self.gone),
            "interfaces": self.interfaces.iter().take(MOST_TOLD).collect::<Vec<_>>(),
            "rows": rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Calibration, Source};

    /// A namespace with interfaces: index, name, address, dropped packets.
    fn space(name: &str, links: &[(u32, &str, u8, u64)]) -> Space {
        let mut space = Space { name: name.to_owned(), whole: true, ..Space::default() };
        for (index, name, address, value) in links {
            space.values.insert((Of::Link { index: *index, name: (*name).to_owned() }, "tx_dropped"), *value);
            space.addresses.insert(*index, vec![*address; 6]);
        }
        space
    }

    fn counters(spaces: &[(u64, Space)]) -> Counters {
        Counters { spaces: spaces.iter().cloned().collect(), ..Counters::default() }
    }

    /// Namespace, interface and difference, and what is unknown.
    fn told(before: &Counters, later: &Counters) -> (Vec<(String, String, u64)>, usize) {
        let grown = before.grown(later);
        let name = |of: &Of| of.interface().unwrap().to_owned();
        (grown.rows.iter().map(|row| (row.0.clone(), name(&row.1), row.3)).collect(), grown.unknown)
    }

    fn row(space: &str, name: &str, delta: u64) -> (String, String, u64) {
        (space.to_owned(), name.to_owned(), delta)
    }

    #[test]
    fn what_grew_is_told_also_of_an_interface_that_is_new_or_moved_and_not_of_one_that_was_reset() {
        let here = [(2, "a", 2, 5), (3, "b", 3, 5), (4, "moved", 4, 40), (5, "gone", 5, 9), (6, "same", 6, 9)];
        let before = counters(&[(1, space("", &here)), (2, space("blue", &[]))]);
        let later = [(2, "a", 2, 8), (3, "b", 3, 2), (6, "same", 6, 9)];
        let later = counters(&[(1, space("", &later)), (2, space("blue", &[(4, "eth0", 4, 41), (7, "new", 7, 6)]))]);
        assert_eq!(told(&before, &later), (vec![row("", "a", 3), row("blue", "eth0", 1), row("blue", "new", 6)], 1));
        let grown = before.grown(&later);
        assert_eq!(grown.gone, BTreeSet::from(["gone".to_owned(), "moved".to_owned()]));
        let told = grown.to_json(&Calibration::begin(Source::MonoRaw).finish());
        assert_eq!((&told["left_out"], &told["not_read"]["count"], &told["gone"]["count"]), (&json!(1), &json!(0), &json!(2)));
        assert_eq!(told["interfaces"], json!(["a", "eth0", "new", "same"]));
    }

    #[test]
    fn counters_of_a_dead_namespace_are_nobody_s_beginning() {
        // The new namespaces have interfaces of the same numbers and names.
        let before = counters(&[(1, space("", &[])), (2, space("dead", &[(1, "lo", 0, 100), (2, "eth0", 7, 100)]))]);
        let later = counters(&[(1, space("", &[])), (3, space("new", &[(1, "lo", 0, 130), (2, "eth0", 8, 30)]))]);
        assert_eq!(told(&before, &later), (vec![row("new", "lo", 130), row("new", "eth0", 30)], 0));
        assert_eq!(before.grown(&later).gone, BTreeSet::from(["dead".to_owned()]));
        // It might be the other one with a new address and a new name.
        let later = counters(&[(1, space("", &[])), (3, space("new", &[(1, "lo", 0, 130), (2, "eth9", 8, 130)]))]);
        assert_eq!(told(&before, &later), (vec![row("new", "lo", 130)], 1));
    }

    #[test]
    fn what_was_not_read_at_the_begin_does_not_count_from_0() {
        let later = counters(&[(1, space("", &[(3, "new", 3, 7), (9, "old", 9, 9)])), (2, space("blue", &[(1, "lo", 0, 50)]))]);
        let whole = counters(&[(1, space("", &[(9, "old", 9, 4)]))]);
        assert_eq!(told(&whole, &later), (vec![row("", "new", 7), row("", "old", 5), row("blue", "lo", 50)], 0));
        // One was not entered: it may be the one that is there now, and an interface may be from there.
        let mut missed = counters(&[(1, space("", &[(9, "old", 9, 4)]))]);
        missed.missed.names.push("blue".to_owned());
        assert_eq!(told(&missed, &later), (vec![row("", "old", 5)], 2));
        assert_eq!(missed.grown(&later).not_read, BTreeSet::from(["blue".to_owned()]));
        // A part of its interfaces only.
        let part = Space { whole: false, ..space("blue", &[]) };
        let part = counters(&[(1, space("", &[(9, "old", 9, 4)])), (2, part)]);
        assert_eq!(told(&part, &later), (vec![row("", "old", 5)], 2));
    }

    #[test]
    fn a_discipline_counts_on_under_another_name_of_its_interface_and_anew_in_another_s_place() {
        let with = |name: &str, kind: &str, value: u64| {
            let mut space = space("", &[(2, name, 2, 9)]);
            space.values.insert((Of::Qdisc { index: 2, name: name.to_owned(), kind: kind.to_owned(), handle: 1 }, "drops"), value);
            counters(&[(1, space)])
        };
        assert_eq!(told(&with("a", "tbf", 5), &with("a", "tbf", 7)), (vec![row("", "a", 2)], 0));
        assert_eq!(told(&with("a", "tbf", 5), &with("b", "tbf", 7)), (vec![row("", "b", 2)], 0));
        assert_eq!(told(&with("a", "tbf", 5), &with("a", "sfq", 3)), (vec![row("", "a", 3)], 0));
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
