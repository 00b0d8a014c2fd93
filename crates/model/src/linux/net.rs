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
        /// `None` if the recording does not contain it.
        inode: Option<u32>,
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

/// A value that a rule may take from an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Packet,
    Length,
    Device,
    Name,
    Parent,
    Segments,
    Result,
    Socket,
    Protocol,
    Flags,
    Location,
    Reason,
    Port,
    Tid,
    Family,
    State,
    Peer,
    Window,
    Next,
    Unacknowledged,
    Inode,
}

/// The names of the roles in a rules file.
const ROLES: [(&str, Role); 21] = [
    ("packet", Role::Packet),
    ("length", Role::Length),
    ("device", Role::Device),
    ("name", Role::Name),
    ("parent", Role::Parent),
    ("segments", Role::Segments),
    ("result", Role::Result),
    ("socket", Role::Socket),
    ("protocol", Role::Protocol),
    ("flags", Role::Flags),
    ("location", Role::Location),
    ("reason", Role::Reason),
    ("port", Role::Port),
    ("tid", Role::Tid),
    ("family", Role::Family),
    ("state", Role::State),
    ("peer", Role::Peer),
    ("window", Role::Window),
    ("next", Role::Next),
    ("unacknowledged", Role::Unacknowledged),
    ("inode", Role::Inode),
];

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
    #[serde(rename = "do")]
    hop: Spanned<String>,
    fields: BTreeMap<Spanned<String>, Spanned<String>>,
}

#[derive(Debug)]
struct Rule {
    pattern: Pattern,
    kind: HopKind,
    fields: Vec<(Role, String)>,
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
                let Some(&(_, known)) = ROLES.iter().find(|(name, _)| name == role.get_ref()) else {
                    let names = ROLES.map(|(name, _)| name).join(", ");
                    let message = format!("unknown role \"{}\": expected one of {names}", role.get_ref());
                    return Err(RuleError::at(file, text, role.span().start, message));
                };
                let Some(name) = field.get_ref().strip_prefix('@') else {
                    let message = "expected `@` and the name of a field".to_owned();
                    return Err(RuleError::at(file, text, field.span().start, message));
                };
                fields.push((known, name.to_owned()));
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
            plan.at[*role as usize] = field.split('|').find_map(|name| {
                let plain = |field: &String| field == name || field.strip_prefix('_') == Some(name);
                class.fields.iter().position(plain).and_then(|at| u8::try_from(at).ok())
            });
        }
        Some(plan)
    }
}

/// The compiled meaning of an event class: for each role, the position of its value in the event's
/// fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HopPlan {
    kind: HopKind,
    at: [Option<u8>; ROLES.len()],
}

impl HopPlan {
    /// The thread that was running, if the event names it.
    #[inline]
    pub(crate) fn tid(&self, fields: &[Value<'_>]) -> Option<i32> {
        let at = self.at[Role::Tid as usize].filter(|_| self.kind != HopKind::Socket)?;
        fields.get(usize::from(at)).and_then(Value::as_i64).and_then(|tid| i32::try_from(tid).ok())
    }

    /// The step that the event describes; `None` if the event lacks a required field.
    #[inline]
    pub(crate) fn step<'a>(&self, fields: &'a [Value<'a>]) -> Option<PacketStep<'a>> {
        let value = |role: Role| self.at[role as usize].and_then(|at| fields.get(usize::from(at)));
        let number = |role: Role| value(role).and_then(Value::as_i64);
        // Addresses have their highest bit set, so they do not fit into an i64.
        let address = |role: Role| value(role).and_then(Value::as_u64).filter(|&address| address != 0);
        let text = |role: Role| match value(role) {
            Some(Value::Str(text)) => text,
            _ => &[][..],
        };
        // Sockets of other families (packet captures, netlink, sockets within the host) have no
        // packets of a network.
        let internet = || number(Role::Family).is_none_or(|family| matches!(family, AF_INET | AF_INET6)).then_some(());
        let length = |role: Role| number(role).and_then(|length| u32::try_from(length).ok());
        let packet = || address(Role::Packet);
        let port = || number(Role::Port).and_then(|port| u16::try_from(port).ok());
        Some(match self.kind {
            HopKind::Queue => PacketStep::Queue { packet: packet()?, length: length(Role::Length)?, device: text(Role::Device) },
            HopKind::Enqueue => PacketStep::Enqueue { packet: packet()? },
            HopKind::Dequeue => PacketStep::Dequeue { packet: packet()? },
            HopKind::Discipline => {
                PacketStep::Discipline { device: text(Role::Device), name: text(Role::Name), root: number(Role::Parent) == Some(ROOT) }
            }
            HopKind::Transmit => {
                let segments = length(Role::Segments).unwrap_or(0);
                PacketStep::Transmit { packet: packet()?, length: length(Role::Length)?, device: text(Role::Device), segments }
            }
            HopKind::Transmitted => PacketStep::Transmitted { packet: packet()?, result: number(Role::Result)? },
            HopKind::Arrive => PacketStep::Arrive { packet: packet()?, length: length(Role::Length), device: text(Role::Device) },
            HopKind::Receive => PacketStep::Receive { packet: packet()?, length: length(Role::Length)?, device: text(Role::Device) },
            HopKind::Ready => {
                internet()?;
                PacketStep::Ready { socket: address(Role::Socket)?, protocol: number(Role::Protocol) }
            }
            HopKind::Take => {
                internet()?;
                let flags = number(Role::Flags).unwrap_or(0);
                PacketStep::Take { socket: address(Role::Socket)?, protocol: number(Role::Protocol), result: number(Role::Result)?, flags }
            }
            HopKind::Copy => PacketStep::Copy { packet: packet()? },
            HopKind::Drop => PacketStep::Drop {
                packet: packet()?,
                location: address(Role::Location),
                socket: address(Role::Socket),
                protocol: number(Role::Protocol),
                reason: number(Role::Reason),
                label: match value(Role::Reason) {
                    Some(Value::Enum { label, .. }) => label,
                    _ => "",
                },
            },
            HopKind::Refuse => PacketStep::Refuse { port: port()? },
            HopKind::State => PacketStep::State {
                socket: address(Role::Socket)?,
                protocol: number(Role::Protocol),
                port: port()?,
                state: number(Role::State),
            },
            HopKind::Window => {
                // Sequence numbers have 32 bits and wrap around.
                let sequence = |role: Role| number(role).map(|number| number as u32);
                let in_flight = sequence(Role::Next)?.wrapping_sub(sequence(Role::Unacknowledged)?);
                let peer = number(Role::Peer).and_then(|port| u16::try_from(port).ok())?;
                PacketStep::Window { port: port()?, peer, in_flight, window: length(Role::Window)? }
            }
            HopKind::Socket => {
                let tid = number(Role::Tid).and_then(|tid| i32::try_from(tid).ok())?;
                let inode = number(Role::Inode).and_then(|inode| u32::try_from(inode).ok());
                PacketStep::Socket { protocol: number(Role::Protocol)?, port: port()?, tid, state: number(Role::State), inode }
            }
        })
    }
}
