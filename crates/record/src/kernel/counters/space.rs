//! Reads the counters of one network namespace, the one that this thread is in: those of its
//! interfaces, their queueing disciplines, and its protocols.

use crate::kernel::netlink;
use crate::kernel::state_reader::network::{RTM_GETQDISC, RTM_NEWQDISC, TCA_KIND, TCMSG};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
/// Size of `struct ifinfomsg` in bytes. The index is at offset 4.
const IFINFOMSG: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_STATS64: u16 = 23;

/// Fields of `struct rtnl_link_stats64` (`linux/if_link.h`), by their position in it. The counters
/// of an interface are the sum of its driver's and the kernel's own.
pub const LINK: [(&str, usize); 12] = [
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
    ("rx_nohandler", 23),
    ("rx_otherhost_dropped", 24),
];

const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
/// Offset of `drops` in `struct gnet_stats_queue` (`linux/gen_stats.h`), after `qlen` and
/// `backlog`.
const DROPS: usize = 8;
/// Parent of the discipline of a whole device. That discipline also counts what those below it
/// drop.
const TC_H_ROOT: u32 = u32::MAX;

/// Counters of protocols: owner, line of /proc/net/snmp or netstat, name of the counter, and name
/// of the protocol in snmp6.
const PROTOCOLS: [(CounterOwner, &str, &str, Option<&str>); 14] = [
    (CounterOwner::Udp, "Udp", "NoPorts", Some("Udp6")),
    (CounterOwner::Udp, "Udp", "RcvbufErrors", Some("Udp6")),
    (CounterOwner::Udp, "Udp", "MemErrors", Some("Udp6")),
    (CounterOwner::Udp, "Udp", "InErrors", Some("Udp6")),
    (CounterOwner::Udp, "Udp", "InCsumErrors", Some("Udp6")),
    (CounterOwner::Udp, "Udp", "SndbufErrors", Some("Udp6")),
    (CounterOwner::Ip, "Ip", "InAddrErrors", Some("Ip6")),
    (CounterOwner::Ip, "Ip", "InDiscards", Some("Ip6")),
    (CounterOwner::Ip, "Ip", "OutDiscards", Some("Ip6")),
    (CounterOwner::Ip, "Ip", "OutNoRoutes", Some("Ip6")),
    (CounterOwner::Ip, "IpExt", "InNoRoutes", Some("Ip6")),
    // These counters already cover IPv4 and IPv6.
    (CounterOwner::Tcp, "TcpExt", "ListenDrops", None),
    (CounterOwner::Tcp, "TcpExt", "TCPBacklogDrop", None),
    (CounterOwner::Tcp, "TcpExt", "TCPRcvQDrop", None),
];

/// Largest number of interfaces in all namespaces together.
pub const MAX_INTERFACES: usize = 4096;
/// Number of attempts if something changes while the kernel answers.
const TRIES: usize = 5;

/// Owner of a counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CounterOwner {
    /// An interface. Index and name stay the same while the interface stays in its namespace.
    Link {
        index: u32,
        name: String,
    },
    /// The root discipline of an interface. If it is replaced by another one, counting begins with
    /// 0.
    Qdisc {
        index: u32,
        name: String,
        kind: String,
        handle: u32,
    },
    Udp,
    Ip,
    Tcp,
    Backlog,
}

/// Counters by owner and name.
pub type Values = BTreeMap<(CounterOwner, &'static str), u64>;

/// The counters of one network namespace.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// Name of the namespace in the form that users write. Empty for our own.
    pub name: String,
    pub values: Values,
    /// Hardware addresses of the interfaces, by index. Loopback has none.
    pub addresses: BTreeMap<u32, Vec<u8>>,
    /// True if all counters of the namespace were read.
    pub whole: bool,
}

impl Space {
    /// Reads the counters of this thread's namespace. `room` is the number of interfaces that may
    /// still be read; it is reduced by those that are read.
    pub fn read(name: String, room: &mut usize) -> Space {
        let mut space = Space { name, ..Space::default() };
        space.whole = space.read_links(room).is_ok() & space.read_disciplines().is_ok() & space.read_protocols().is_ok();
        space
    }

    /// Returns each interface once.
    pub fn links(&self) -> impl Iterator<Item = &CounterOwner> {
        let mut before = None;
        self.values.keys().map(|(of, _)| of).filter(move |of| matches!(of, CounterOwner::Link { .. }) && before.replace(*of) != Some(*of))
    }

    fn read_links(&mut self, room: &mut usize) -> io::Result<()> {
        let links = whole(RTM_GETLINK, IFINFOMSG, RTM_NEWLINK, *room, &link)?;
        *room -= links.len();
        for link in links {
            let CounterOwner::Link { index, .. } = link.of else { continue };
            self.addresses.extend(Some((index, link.address)).filter(|(_, address)| address.iter().any(|byte| *byte != 0)));
            self.values.extend(link.values.into_iter().map(|(counter, value)| ((link.of.clone(), counter), value)));
        }
        Ok(())
    }

    /// Reads the disciplines of the interfaces that are known by now.
    fn read_disciplines(&mut self) -> io::Result<()> {
        let names: BTreeMap<u32, String> = self
            .links()
            .filter_map(|of| if let CounterOwner::Link { index, name } = of { Some((*index, name.clone())) } else { None })
            .collect();
        let all = whole(RTM_GETQDISC, TCMSG, RTM_NEWQDISC, MAX_INTERFACES, &discipline)?;
        for Discipline { index, kind, handle, drops } in all {
            if let Some(name) = names.get(&index) {
                self.values.insert((CounterOwner::Qdisc { index, name: name.clone(), kind, handle }, "drops"), drops.into());
            }
        }
        Ok(())
    }

    fn read_protocols(&mut self) -> io::Result<()> {
        let lines = proc_net("snmp")? + &proc_net("netstat")?;
        let snmp6 = proc_net("snmp6")?;
        for (of, protocol, counter, protocol6) in PROTOCOLS {
            let both = [line_of(&lines, protocol, counter), protocol6.and_then(|protocol| line6(&snmp6, protocol, counter))];
            if both.iter().any(Option::is_some) {
                self.values.insert((of, counter), both.into_iter().flatten().fold(0, u64::saturating_add));
            }
        }
        Ok(())
    }
}

/// Returns all objects of a kind. Asks again if something changed while the kernel answered.
fn whole<T>(request: u16, body: usize, answer: u16, room: usize, read: &dyn Fn(&[u8]) -> Option<T>) -> io::Result<Vec<T>> {
    for _ in 0..TRIES {
        let (mut found, mut full) = (Vec::new(), false);
        let asked = netlink::ask(request, body, answer, &mut |body| {
            let one = read(body);
            full |= one.is_some() && found.len() >= room;
            found.extend(one.filter(|_| !full));
            !full
        });
        match asked {
            Ok(()) if full => return Err(ErrorKind::StorageFull.into()),
            Ok(()) => return Ok(found),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::Interrupted.into())
}

struct Link {
    of: CounterOwner,
    address: Vec<u8>,
    values: Vec<(&'static str, u64)>,
}

fn link(body: &[u8]) -> Option<Link> {
    let attributes = body.get(IFINFOMSG..)?;
    let name = netlink::text(netlink::attribute(attributes, IFLA_IFNAME)?)?;
    let stats = netlink::attribute(attributes, IFLA_STATS64)?;
    // The length of the attribute depends on the kernel, because later versions appended fields.
    let value = |at: usize| Some(u64::from_ne_bytes(stats.get(at * 8..at * 8 + 8)?.try_into().ok()?));
    Some(Link {
        of: CounterOwner::Link { index: netlink::word(body, 4), name },
        address: netlink::attribute(attributes, IFLA_ADDRESS).unwrap_or_default().to_vec(),
        values: LINK.iter().filter_map(|(counter, at)| Some((*counter, value(*at)?))).collect(),
    })
}

struct Discipline {
    index: u32,
    kind: String,
    handle: u32,
    drops: u32,
}

/// Parses a root discipline. `None` for all others.
fn discipline(body: &[u8]) -> Option<Discipline> {
    let attributes = body.get(TCMSG..)?;
    let queue = netlink::attribute(netlink::attribute(attributes, TCA_STATS2)?, TCA_STATS_QUEUE)?;
    let drops = u32::from_ne_bytes(queue.get(DROPS..DROPS + 4)?.try_into().ok()?);
    let kind = netlink::text(netlink::attribute(attributes, TCA_KIND)?)?;
    let root = netlink::word(body, 12) == TC_H_ROOT;
    root.then(|| Discipline { index: netlink::word(body, 4), kind, handle: netlink::word(body, 8), drops })
}

/// Reads a file of /proc/net. A missing file has no counters; for example, a kernel without IPv6
/// has no `snmp6`.
fn proc_net(name: &str) -> io::Result<String> {
    match fs::read_to_string(format!("/proc/thread-self/net/{name}")) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// Finds a counter in two lines, one with names and one with values: `Udp: InDatagrams NoPorts …`.
fn line_of(text: &str, protocol: &str, counter: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(':'));
    let at = lines.next()?.split_whitespace().position(|name| name == counter)?;
    lines.next()?.split_whitespace().nth(at)?.parse().ok()
}

/// Finds a counter in a text with one counter per line: `Udp6NoPorts 3`.
fn line6(text: &str, protocol: &str, counter: &str) -> Option<u64> {
    let line =
        text.lines().find_map(|line| line.strip_prefix(protocol)?.strip_prefix(counter).filter(|rest| rest.starts_with([' ', '\t'])))?;
    line.trim().parse().ok()
}

/// Returns the sum over all CPUs, which is the same in each namespace: the second column of each
/// line, in hexadecimal digits.
pub fn backlog(text: &str) -> Option<u64> {
    text.lines().map(|line| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok()).try_fold(0, |sum: u64, value| Some(sum + value?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_too_many_interfaces_is_not_whole() {
        assert!(Space::read(String::new(), &mut 1000).whole);
        assert!(!Space::read(String::new(), &mut 0).whole);
    }

    #[test]
    fn counters_of_an_interface_are_at_the_offsets_of_the_kernels_header() {
        let header = fs::read_to_string("/usr/include/linux/if_link.h").unwrap_or_default();
        let Some((_, rest)) = header.split_once("struct rtnl_link_stats64 {") else {
            println!("skipped: places of the counters (needs the kernel's headers for programs)");
            return;
        };
        let fields =
            rest.split('}').next().unwrap_or_default().lines().filter_map(|line| line.trim().strip_prefix("__u64")?.split(';').next());
        let fields: Vec<&str> = fields.map(str::trim).collect();
        for (counter, at) in LINK {
            // Older headers have fewer fields.
            assert!(fields.get(at).is_none_or(|field| *field == counter), "{counter}: {fields:?}");
        }
    }

    #[test]
    fn the_drops_of_a_root_discipline_are_found_and_broken_messages_are_ignored() {
        let put = |kind: u16, value: &[u8]| [&(value.len() as u16 + 4).to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        let queue: Vec<u8> = [0u32, 0, 77, 0, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
        let message = |parent: u32| {
            let words = [0u32, 3, 0x8001_0000, parent, 0].into_iter().flat_map(u32::to_ne_bytes);
            words.chain(put(TCA_KIND, b"tbf\0")).chain(put(TCA_STATS2, &put(TCA_STATS_QUEUE, &queue))).collect::<Vec<u8>>()
        };
        let sound = message(TC_H_ROOT);
        let found = discipline(&sound).unwrap();
        assert_eq!((found.index, &*found.kind, found.handle, found.drops), (3, "tbf", 0x8001_0000, 77));
        assert!(discipline(&message(0x8001_0000)).is_none());
        for cut in 0..sound.len() {
            assert!(discipline(&sound[..cut]).is_none());
        }
    }

    #[test]
    fn counters_in_text_are_found_by_name_and_broken_text_has_none() {
        let text = "Tcp: NoPorts\nTcp: 9\nUdp: InDatagrams NoPorts RcvbufErrors\nUdp: 4 3 2\nUdpLite: NoPorts\nUdpLite: 7\n";
        let udp = |counter| line_of(text, "Udp", counter);
        assert_eq!((udp("NoPorts"), udp("RcvbufErrors"), udp("MemErrors")), (Some(3), Some(2), None));
        assert_eq!(line6("Udp6NoPortsX 7\nUdp6InDatagrams\t1\nUdp6NoPorts   \t5\n", "Udp6", "NoPorts"), Some(5));
        assert_eq!(backlog("0001 0000000a 0\n0001 00000002 0\n"), Some(12));
        for broken in ["", "Udp:\n", "Udp: NoPorts\nUdp:\n", "Udp: NoPorts\nUdp: x\n"] {
            assert_eq!((line_of(broken, "Udp", "NoPorts"), line6(broken, "Udp6", "NoPorts")), (None, None));
        }
        assert_eq!(backlog("0001\n"), None);
    }
}
