//! Packets on their way through the kernel, event by event.
//!
//! The rules (`rules/linux_net.toml`) are compiled once per event class into a `HopPlan`, which
//! turns each event into a [`PacketStep`]. This module remembers nothing from one event to the
//! next. The receiver of the steps determines which of them belong to one packet
//! (`longpole_analysis::network::packet_paths`): the only identity of a packet is the address of
//! its buffer, and that is given to another packet as soon as the first one is freed.

use crate::linux::watch::{CpuId, ThreadId, Waker};
use crate::names::NameId;
use crate::rules::{parse, Pattern, RuleError};
use longpole_trace::event::{Class, Value};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// A step of a packet, with the thread or context that made it.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    pub t_ns: i64,
    pub cpu: CpuId,
    /// The thread, or the interrupt on top of it.
    pub by: Waker,
    /// The name of the system call that the thread is in, and its begin in ns.
    pub call: Option<(NameId, i64)>,
    /// True if the step lies in the requested range.
    pub covered: bool,
    pub step: PacketStep<'a>,
}

/// A step of a packet. Texts borrow from the event. Lengths in bytes are those in the event: with
/// the link header on the way out, without it on the way in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PacketStep<'a> {
    /// A packet is handed to a device; the device's queueing discipline comes next.
    Queue {
        packet: u64,
        length: u32,
        device: &'a [u8],
    },
    Enqueue {
        packet: u64,
    },
    Dequeue {
        packet: u64,
    },
    /// A queueing discipline of a device: its root discipline, or one below it.
    Discipline {
        device: &'a [u8],
        name: &'a [u8],
        root: bool,
    },
    /// The device's driver gets a packet. `segments` is the number of packets on the wire that it
    /// represents; 0 means one.
    Transmit {
        packet: u64,
        length: u32,
        device: &'a [u8],
        segments: u32,
    },
    /// The driver has accepted a packet (`result` is 0) or refused it.
    Transmitted {
        packet: u64,
        result: i64,
    },
    /// A packet came from a device and waits for the softirq.
    Arrive {
        packet: u64,
        length: Option<u32>,
        device: &'a [u8],
    },
    /// The protocols get a packet.
    Receive {
        packet: u64,
        length: u32,
        device: &'a [u8],
    },
    /// A socket has data to read.
    Ready {
        socket: u64,
        protocol: Option<i64>,
    },
    /// A receiving call returns; `result` is the number of bytes or a negative error.
    Take {
        socket: u64,
        protocol: Option<i64>,
        result: i64,
        flags: i64,
    },
    /// A receiving call copies data from this packet.
    Copy {
        packet: u64,
    },
    /// A packet was freed without having served its purpose. `protocol` is that of the network
    /// layer (0x800: IPv4).
    Drop {
        packet: u64,
        location: Option<u64>,
        socket: Option<u64>,
        protocol: Option<i64>,
        reason: Option<i64>,
        label: &'a str,
    },
    /// The socket of this port has no room; the drop of the packet follows.
    Refuse {
        port: u16,
    },
    /// The port of a socket, and its new state (`TCP_LISTEN` …, include/net/tcp_states.h).
    State {
        socket: u64,
        protocol: Option<i64>,
        port: u16,
        state: Option<i64>,
    },
    /// An acknowledgement has arrived at a TCP sender: its port and that of its peer, the bytes in
    /// flight, and the bytes that the peer has room for.
    Window {
        port: u16,
        peer: u16,
        in_flight: u32,
        window: u32,
    },
    /// A thread ends. This is not an event of the network.
    Exit {
        thread: ThreadId,
    },
    /// In the dump of the system's state: a process has a socket with this port.
    Socket {
        protocol: i64,
        port: u16,
        tid: i32,
        /// The state as in include/net/tcp_states.h; `None` in older recordings, which do not
        /// contain it.
        state: Option<i64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HopKind {
    Queue,
    Enqueue,
    Dequeue,
    Discipline,
    Transmit,
    Transmitted,
    Arrive,
    Receive,
    Ready,
    Take,
    Copy,
    Drop,
    Refuse,
    State,
    Window,
    Socket,
}

const HOP_KINDS: [(&str, HopKind); 16] = [
    ("queue", HopKind::Queue),
    ("enqueue", HopKind::Enqueue),
    ("dequeue", HopKind::Dequeue),
    ("discipline", HopKind::Discipline),
    ("transmit", HopKind::Transmit),
    ("transmitted", HopKind::Transmitted),
    ("arrive", HopKind::Arrive),
    ("receive", HopKind::Receive),
    ("ready", HopKind::Ready),
    ("take", HopKind::Take),
    ("copied", HopKind::Copy),
    ("drop", HopKind::Drop),
    ("refuse", HopKind::Refuse),
    ("state", HopKind::State),
    ("window", HopKind::Window),
    ("socket", HopKind::Socket),
];

/// Names of the values that a rule may take from an event. The position in this array is an index
/// into [`HopPlan::at`].
const ROLES: [&str; 20] = [
    "packet",
    "length",
    "device",
    "name",
    "parent",
    "segments",
    "result",
    "socket",
    "protocol",
    "flags",
    "location",
    "reason",
    "port",
    "tid",
    "family",
    "state",
    "peer",
    "window",
    "next",
    "unacknowledged",
];
const PACKET: usize = 0;
const LENGTH: usize = 1;
const DEVICE: usize = 2;
const NAME: usize = 3;
const PARENT: usize = 4;
const SEGMENTS: usize = 5;
const RESULT: usize = 6;
const SOCKET: usize = 7;
const PROTOCOL: usize = 8;
const FLAGS: usize = 9;
const LOCATION: usize = 10;
const REASON: usize = 11;
const PORT: usize = 12;
const TID: usize = 13;
const FAMILY: usize = 14;
const STATE: usize = 15;
const PEER: usize = 16;
const WINDOW: usize = 17;
const NEXT: usize = 18;
const UNACKNOWLEDGED: usize = 19;

/// `TC_H_ROOT`: the parent of a device's root discipline.
const ROOT: i64 = 0xffff_ffff;
const AF_INET: i64 = 2;
const AF_INET6: i64 = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    event: String,
    hop: Spanned<String>,
    fields: BTreeMap<Spanned<String>, String>,
}

#[derive(Debug)]
struct Rule {
    pattern: Pattern,
    kind: HopKind,
    fields: Vec<(usize, String)>,
}

/// The rules about events of packets.
#[derive(Debug)]
pub struct HopRules {
    rules: Vec<Rule>,
}

impl HopRules {
    pub fn built_in() -> Result<HopRules, RuleError> {
        HopRules::read("linux_net.toml", include_str!("../../rules/linux_net.toml"))
    }

    /// Parses a rules file.
    ///
    /// # Errors
    ///
    /// The first wrong rule, with its line.
    pub fn read(file: &str, text: &str) -> Result<HopRules, RuleError> {
        let parsed: File = parse(file, text)?;
        let mut rules = Vec::new();
        for entry in parsed.rule {
            let hop = entry.hop.get_ref();
            let Some(&(_, kind)) = HOP_KINDS.iter().find(|(name, _)| name == hop) else {
                let names = HOP_KINDS.map(|(name, _)| name).join(", ");
                return Err(RuleError::at(file, text, entry.hop.span().start, format!("unknown hop \"{hop}\": expected one of {names}")));
            };
            let mut fields = Vec::new();
            for (role, field) in entry.fields {
                let Some(at) = ROLES.iter().position(|known| known == role.get_ref()) else {
                    let message = format!("unknown role \"{}\": expected one of {}", role.get_ref(), ROLES.join(", "));
                    return Err(RuleError::at(file, text, role.span().start, message));
                };
                fields.push((at, field));
            }
            rules.push(Rule { pattern: Pattern::new(&entry.event), kind, fields });
        }
        Ok(HopRules { rules })
    }

    /// Compiles the plan of an event class; `None` if no rule matches it.
    pub(crate) fn compile(&self, class: &Class) -> Option<HopPlan> {
        let rule = self.rules.iter().find(|rule| rule.pattern.captures(&class.event_name).is_some())?;
        let mut plan = HopPlan { kind: rule.kind, at: [None; ROLES.len()] };
        for (role, field) in &rule.fields {
            plan.at[*role] = field.split('|').find_map(|name| {
                let plain = |field: &String| field == name || field.strip_prefix('_') == Some(name);
                class.fields.iter().position(plain).and_then(|at| u8::try_from(at).ok())
            });
        }
        Some(plan)
    }
}

/// The compiled meaning of an event class: the positions of a step's parts in the event's fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HopPlan {
    kind: HopKind,
    at: [Option<u8>; ROLES.len()],
}

impl HopPlan {
    /// The thread that was running, if the event names it.
    #[inline]
    pub(crate) fn tid(&self, fields: &[Value<'_>]) -> Option<i32> {
        let at = self.at[TID].filter(|_| self.kind != HopKind::Socket)?;
        fields.get(usize::from(at)).and_then(Value::as_i64).and_then(|tid| i32::try_from(tid).ok())
    }

    /// The step that the event describes; `None` if the event lacks a required field.
    #[inline]
    pub(crate) fn step<'a>(&self, fields: &'a [Value<'a>]) -> Option<PacketStep<'a>> {
        let value = |role: usize| self.at[role].and_then(|at| fields.get(usize::from(at)));
        let number = |role: usize| value(role).and_then(Value::as_i64);
        // Addresses have their highest bit set, so they do not fit into an i64.
        let address = |role: usize| value(role).and_then(Value::as_u64).filter(|&address| address != 0);
        let text = |role: usize| match value(role) {
            Some(Value::Str(text)) => text,
            _ => &[][..],
        };
        // Sockets of other families (packet captures, netlink, sockets within the host) have no
        // packets of a network.
        let internet = || number(FAMILY).is_none_or(|family| matches!(family, AF_INET | AF_INET6)).then_some(());
        let length = |role: usize| number(role).and_then(|length| u32::try_from(length).ok());
        let packet = || address(PACKET);
        let port = || number(PORT).and_then(|port| u16::try_from(port).ok());
        Some(match self.kind {
            HopKind::Queue => PacketStep::Queue { packet: packet()?, length: length(LENGTH)?, device: text(DEVICE) },
            HopKind::Enqueue => PacketStep::Enqueue { packet: packet()? },
            HopKind::Dequeue => PacketStep::Dequeue { packet: packet()? },
            HopKind::Discipline => PacketStep::Discipline { device: text(DEVICE), name: text(NAME), root: number(PARENT) == Some(ROOT) },
            HopKind::Transmit => {
                let segments = length(SEGMENTS).unwrap_or(0);
                PacketStep::Transmit { packet: packet()?, length: length(LENGTH)?, device: text(DEVICE), segments }
            }
            HopKind::Transmitted => PacketStep::Transmitted { packet: packet()?, result: number(RESULT)? },
            HopKind::Arrive => PacketStep::Arrive { packet: packet()?, length: length(LENGTH), device: text(DEVICE) },
            HopKind::Receive => PacketStep::Receive { packet: packet()?, length: length(LENGTH)?, device: text(DEVICE) },
            HopKind::Ready => {
                internet()?;
                PacketStep::Ready { socket: address(SOCKET)?, protocol: number(PROTOCOL) }
            }
            HopKind::Take => {
                internet()?;
                let flags = number(FLAGS).unwrap_or(0);
                PacketStep::Take { socket: address(SOCKET)?, protocol: number(PROTOCOL), result: number(RESULT)?, flags }
            }
            HopKind::Copy => PacketStep::Copy { packet: packet()? },
            HopKind::Drop => PacketStep::Drop {
                packet: packet()?,
                location: address(LOCATION),
                socket: address(SOCKET),
                protocol: number(PROTOCOL),
                reason: number(REASON),
                label: match value(REASON) {
                    Some(Value::Enum { label, .. }) => label,
                    _ => "",
                },
            },
            HopKind::Refuse => PacketStep::Refuse { port: port()? },
            HopKind::State => {
                PacketStep::State { socket: address(SOCKET)?, protocol: number(PROTOCOL), port: port()?, state: number(STATE) }
            }
            HopKind::Window => {
                // Sequence numbers have 32 bits and wrap around.
                let sequence = |role: usize| number(role).map(|number| number as u32);
                let in_flight = sequence(NEXT)?.wrapping_sub(sequence(UNACKNOWLEDGED)?);
                let peer = number(PEER).and_then(|port| u16::try_from(port).ok())?;
                PacketStep::Window { port: port()?, peer, in_flight, window: length(WINDOW)? }
            }
            HopKind::Socket => {
                let tid = number(TID).and_then(|tid| i32::try_from(tid).ok())?;
                PacketStep::Socket { protocol: number(PROTOCOL)?, port: port()?, tid, state: number(STATE) }
            }
        })
    }
}
