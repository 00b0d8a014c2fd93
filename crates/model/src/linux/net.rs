//! Packets on their way through the kernel, event by event: rules (`rules/linux_net.toml`) compiled once per event class, and an event as a [`Step`].
//!
//! Nothing is remembered here. Which steps belong to one packet is the question of those who listen (`longpole_analysis::network::packet_paths`): a packet has no
//! name but the address of its buffer, and that is given to another packet as soon as the first one is gone.

use crate::linux::watch::{CpuId, ThreadId, Waker};
use crate::names::NameId;
use crate::rules::{parse, Pattern, RuleError};
use longpole_trace::event::{Class, Value};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// One step, and who made it.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    pub t_ns: i64,
    pub cpu: CpuId,
    /// A thread, or the interrupt on top of it.
    pub by: Waker,
    /// The system call that the thread is in, with its begin.
    pub call: Option<(NameId, i64)>,
    /// It lies in the range that was asked for.
    pub covered: bool,
    pub step: Step<'a>,
}

/// Texts borrow from the event. Lengths are those that the event states: with the header of the link on the way out, without it on the way in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'a> {
    /// Handed to a device; its queueing discipline comes next.
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
    /// The root discipline of a device, or one below it.
    Discipline {
        device: &'a [u8],
        name: &'a [u8],
        root: bool,
    },
    /// The device's driver gets it. `segments`: how many packets of the wire it stands for; 0: one.
    Transmit {
        packet: u64,
        length: u32,
        device: &'a [u8],
        segments: u32,
    },
    /// The driver has it, or (not 0) refused it.
    Transmitted {
        packet: u64,
        result: i64,
    },
    /// Came from a device and waits for the softirq.
    Arrive {
        packet: u64,
        length: Option<u32>,
        device: &'a [u8],
    },
    /// The protocols get it.
    Receive {
        packet: u64,
        length: u32,
        device: &'a [u8],
    },
    /// A socket has something to read.
    Ready {
        socket: u64,
        protocol: Option<i64>,
    },
    /// A receiving call returns so many bytes, or a negative error.
    Take {
        socket: u64,
        protocol: Option<i64>,
        result: i64,
        flags: i64,
    },
    /// A receiving call copies from this packet.
    Copy {
        packet: u64,
    },
    /// Freed without having served its purpose. `protocol` is that of the network layer (0x800: IPv4).
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
    /// The port of a socket, and the state in which it is from now on (`TCP_LISTEN` …, include/net/tcp_states.h).
    State {
        socket: u64,
        protocol: Option<i64>,
        port: u16,
        state: Option<i64>,
    },
    /// An acknowledgement has come to a sender of TCP: its port and that of its peer, what it has in flight, and what the peer has room for.
    Window {
        port: u16,
        peer: u16,
        in_flight: u32,
        window: u32,
    },
    /// The thread ends. No event of the network.
    Exit {
        thread: ThreadId,
    },
    /// Of the dump of the system's state: a process has a socket with this port.
    Socket {
        protocol: i64,
        port: u16,
        tid: i32,
        /// As in include/net/tcp_states.h. None: an older recording does not tell.
        state: Option<i64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
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

const KINDS: [(&str, Kind); 16] = [
    ("queue", Kind::Queue),
    ("enqueue", Kind::Enqueue),
    ("dequeue", Kind::Dequeue),
    ("discipline", Kind::Discipline),
    ("transmit", Kind::Transmit),
    ("transmitted", Kind::Transmitted),
    ("arrive", Kind::Arrive),
    ("receive", Kind::Receive),
    ("ready", Kind::Ready),
    ("take", Kind::Take),
    ("copied", Kind::Copy),
    ("drop", Kind::Drop),
    ("refuse", Kind::Refuse),
    ("state", Kind::State),
    ("window", Kind::Window),
    ("socket", Kind::Socket),
];

/// What a rule may take from an event. Index into [`HopPlan::at`].
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

/// `TC_H_ROOT`: the parent of a device's own discipline.
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
    kind: Kind,
    fields: Vec<(usize, String)>,
}

#[derive(Debug)]
pub struct HopRules {
    rules: Vec<Rule>,
}

impl HopRules {
    pub fn built_in() -> Result<HopRules, RuleError> {
        HopRules::read("linux_net.toml", include_str!("../../rules/linux_net.toml"))
    }

    pub fn read(file: &str, text: &str) -> Result<HopRules, RuleError> {
        let parsed: File = parse(file, text)?;
        let mut rules = Vec::new();
        for entry in parsed.rule {
            let hop = entry.hop.get_ref();
            let Some(&(_, kind)) = KINDS.iter().find(|(name, _)| name == hop) else {
                let names = KINDS.map(|(name, _)| name).join(", ");
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

    /// None: no rule knows the class.
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

/// What a class tells: where in its events the parts of a step are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HopPlan {
    kind: Kind,
    at: [Option<u8>; ROLES.len()],
}

impl HopPlan {
    /// The thread that was running, if the event tells.
    #[inline]
    pub(crate) fn tid(&self, fields: &[Value<'_>]) -> Option<i32> {
        let at = self.at[TID].filter(|_| self.kind != Kind::Socket)?;
        fields.get(usize::from(at)).and_then(Value::as_i64).and_then(|tid| i32::try_from(tid).ok())
    }

    /// None if the event lacks what its meaning needs.
    #[inline]
    pub(crate) fn step<'a>(&self, fields: &'a [Value<'a>]) -> Option<Step<'a>> {
        let value = |role: usize| self.at[role].and_then(|at| fields.get(usize::from(at)));
        let number = |role: usize| value(role).and_then(Value::as_i64);
        // Addresses have their highest bit set: they are more than an i64 holds.
        let address = |role: usize| value(role).and_then(Value::as_u64).filter(|&address| address != 0);
        let text = |role: usize| match value(role) {
            Some(Value::Str(text)) => text,
            _ => &[][..],
        };
        // Sockets of other families (captures, netlink, those within the machine) hold no packets of a network.
        let internet = || number(FAMILY).is_none_or(|family| matches!(family, AF_INET | AF_INET6)).then_some(());
        let length = |role: usize| number(role).and_then(|length| u32::try_from(length).ok());
        let packet = || address(PACKET);
        let port = || number(PORT).and_then(|port| u16::try_from(port).ok());
        Some(match self.kind {
            Kind::Queue => Step::Queue { packet: packet()?, length: length(LENGTH)?, device: text(DEVICE) },
            Kind::Enqueue => Step::Enqueue { packet: packet()? },
            Kind::Dequeue => Step::Dequeue { packet: packet()? },
            Kind::Discipline => Step::Discipline { device: text(DEVICE), name: text(NAME), root: number(PARENT) == Some(ROOT) },
            Kind::Transmit => {
                let segments = length(SEGMENTS).unwrap_or(0);
                Step::Transmit { packet: packet()?, length: length(LENGTH)?, device: text(DEVICE), segments }
            }
            Kind::Transmitted => Step::Transmitted { packet: packet()?, result: number(RESULT)? },
            Kind::Arrive => Step::Arrive { packet: packet()?, length: length(LENGTH), device: text(DEVICE) },
            Kind::Receive => Step::Receive { packet: packet()?, length: length(LENGTH)?, device: text(DEVICE) },
            Kind::Ready => {
                internet()?;
                Step::Ready { socket: address(SOCKET)?, protocol: number(PROTOCOL) }
            }
            Kind::Take => {
                internet()?;
                let flags = number(FLAGS).unwrap_or(0);
                Step::Take { socket: address(SOCKET)?, protocol: number(PROTOCOL), result: number(RESULT)?, flags }
            }
            Kind::Copy => Step::Copy { packet: packet()? },
            Kind::Drop => Step::Drop {
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
            Kind::Refuse => Step::Refuse { port: port()? },
            Kind::State => Step::State { socket: address(SOCKET)?, protocol: number(PROTOCOL), port: port()?, state: number(STATE) },
            Kind::Window => {
                // Sequence numbers have 32 bits and wrap.
                let sequence = |role: usize| number(role).map(|number| number as u32);
                let in_flight = sequence(NEXT)?.wrapping_sub(sequence(UNACKNOWLEDGED)?);
                let peer = number(PEER).and_then(|port| u16::try_from(port).ok())?;
                Step::Window { port: port()?, peer, in_flight, window: length(WINDOW)? }
            }
            Kind::Socket => {
                let tid = number(TID).and_then(|tid| i32::try_from(tid).ok())?;
                Step::Socket { protocol: number(PROTOCOL)?, port: port()?, tid, state: number(STATE) }
            }
        })
    }
}
