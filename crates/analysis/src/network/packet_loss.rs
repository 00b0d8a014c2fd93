//! Lost packets: the place and the cause of each loss, and the thread that should have received the
//! packet.
//!
//! Each loss is one `skb_kfree` event. A table (`rules/packet_losses.toml`) gives its meaning.
//! Losses of one kind form one row; single losses are kept up to a limit, and further ones are only
//! counted.

use crate::findings::{Facts, Scope};
use crate::stats::evidence::Evidence;
use longpole_model::linux::watch::ThreadId;
use longpole_model::rules::{parse, Pattern, RuleError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Largest number of rows; losses of further kinds form one row without a name.
const MAX_ROWS: usize = 4096;
/// Largest distance between the time at which the kernel counts a loss and that of its event, in
/// nanoseconds.
const APART_NS: i64 = 100_000;
/// Largest number of losses that are kept individually.
const MAX_SINGLE: usize = 200_000;

/// A packet that the kernel dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Loss {
    pub t_ns: i64,
    pub length: Option<u32>,
    /// Number of datagrams or segments in the buffer.
    pub segments: Segments,
    pub kind: LossKind,
}

/// Number of packets on the wire that a buffer contains. If `estimated` is true, there may be more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segments {
    pub count: u32,
    pub estimated: bool,
}

impl Segments {
    pub const ONE: Segments = Segments { count: 1, estimated: false };
}

/// The common properties of the losses in one row. Indices refer to the tables of [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LossKind {
    pub cpu: u32,
    pub location: Option<u64>,
    pub reason: Option<i64>,
    pub label: Option<u32>,
    pub device: Option<u32>,
    /// Socket that should have received the packet.
    pub socket: Option<u32>,
    /// Last thread that read from that socket.
    pub reader: Option<ThreadId>,
    pub sender: Option<ThreadId>,
    pub port: Option<u16>,
    /// Protocol number of the network layer.
    pub protocol: Option<i64>,
    /// True if the kernel itself made the packet.
    pub by_kernel: bool,
    /// True if the packet was leaving through the device, false if it was arriving; `None` if
    /// unknown.
    pub outbound: Option<bool>,
}

/// Sums over the losses of one kind.
#[derive(Clone, Copy, Debug)]
struct KindSum {
    count: u64,
    segments: u64,
    estimated: bool,
    first_ns: i64,
    last_ns: i64,
    /// Number of these losses while the kernel's counters were observed.
    watched: Watched,
}

/// Times at which the kernel's counters were read, from the first to the last counter, at the begin
/// and at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    pub begin_ns: [i64; 2],
    pub end_ns: [i64; 2],
}

/// Losses that may be contained in the differences of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Upper bound of their number.
    pub count: u64,
    /// Number of those that are uncertain, because they occurred while the counters were read.
    pub unsure: u64,
}

impl Watch {
    fn of(&self, t_ns: i64) -> Watched {
        let within = |[first, last]: [i64; 2]| (first.saturating_sub(APART_NS)..=last.saturating_add(APART_NS)).contains(&t_ns);
        let count = u64::from(within([self.begin_ns[0], self.end_ns[1]]));
        Watched { count, unsure: u64::from(within(self.begin_ns) || within(self.end_ns)).min(count) }
    }
}

impl std::ops::AddAssign for Watched {
    fn add_assign(&mut self, other: Watched) {
        self.count += other.count;
        self.unsure += other.unsure;
    }
}

/// Collects losses during the pass.
#[derive(Debug, Default)]
pub struct Losses {
    pub watch: Option<Watch>,
    rows: HashMap<LossKind, KindSum>,
    others: u64,
    /// Number of those losses while the kernel's counters were observed.
    pub others_watched: u64,
    pub single: Vec<Loss>,
    /// Number of losses that are not in `single`.
    pub not_listed: u64,
    pub count: u64,
}

impl Losses {
    pub fn add(&mut self, loss: Loss) {
        self.count += 1;
        let full = self.rows.len() >= MAX_ROWS;
        let fresh =
            KindSum { count: 0, segments: 0, estimated: false, first_ns: loss.t_ns, last_ns: loss.t_ns, watched: Watched::default() };
        let watched = self.watch.map_or_else(Watched::default, |watch| watch.of(loss.t_ns));
        match self.rows.get_mut(&loss.kind) {
            Some(row) => row.add(&loss, watched),
            None if full => {
                self.others += 1;
                self.others_watched += watched.count;
            }
            None => self.rows.entry(loss.kind).or_insert(fresh).add(&loss, watched),
        }
        if self.single.len() < MAX_SINGLE {
            self.single.push(loss);
        } else {
            self.not_listed += 1;
        }
    }

    /// Returns the addresses of code for which a name is needed.
    pub fn locations(&self) -> BTreeSet<u64> {
        self.rows.keys().filter_map(|kind| kind.location).collect()
    }

    /// Returns the kinds of losses that occurred while the kernel's counters were observed, with
    /// their numbers.
    pub fn watched(&self) -> impl Iterator<Item = (&LossKind, Watched)> {
        self.rows.iter().map(|(kind, row)| (kind, row.watched)).filter(|(_, watched)| watched.count > 0)
    }

    /// Returns the table: losses first, then by number. Rows with the same text are merged.
    pub fn table(&self, places: &Places, names: &dyn Names) -> Vec<LossLine> {
        let mut lines: BTreeMap<(String, String, Option<String>), LossLine> = BTreeMap::new();
        // Of merged rows, the text of the first one is used.
        let mut rows: Vec<(&LossKind, &KindSum)> = self.rows.iter().collect();
        rows.sort_by_key(|(kind, row)| (row.first_ns, row.last_ns, kind.cpu, kind.location, kind.device, kind.socket));
        for (kind, row) in rows {
            let line = places.line(kind, names);
            let key = (line.text.clone(), line.reason.clone().unwrap_or_default(), line.symbol.clone());
            let known = lines.entry(key).or_insert_with(|| LossLine { first_ns: row.first_ns, last_ns: row.last_ns, ..line.clone() });
            known.count += row.count;
            known.datagrams += row.segments;
            known.estimated |= row.estimated;
            known.first_ns = known.first_ns.min(row.first_ns);
            known.last_ns = known.last_ns.max(row.last_ns);
            if known.sender != line.sender {
                known.sender = None;
            }
        }
        let mut out: Vec<LossLine> = lines.into_values().collect();
        out.sort_by(|a, b| b.lost.cmp(&a.lost).then(b.count.cmp(&a.count)).then_with(|| a.text.cmp(&b.text)));
        if self.others > 0 {
            let (first_ns, last_ns) = (out.iter().map(|line| line.first_ns).min(), out.iter().map(|line| line.last_ns).max());
            out.push(LossLine {
                place: "others".to_owned(),
                text: "others".to_owned(),
                count: self.others,
                datagrams: self.others,
                estimated: true,
                first_ns: first_ns.unwrap_or(0),
                last_ns: last_ns.unwrap_or(0),
                lost: true,
                ..LossLine::default()
            });
        }
        out
    }
}

impl KindSum {
    fn add(&mut self, loss: &Loss, watched: Watched) {
        let t_ns = loss.t_ns;
        self.watched += watched;
        self.count += 1;
        self.segments += u64::from(loss.segments.count);
        self.estimated |= loss.segments.estimated;
        self.first_ns = self.first_ns.min(t_ns);
        self.last_ns = self.last_ns.max(t_ns);
    }
}

/// Resolves ids to names, with the knowledge at the end of the trace.
pub trait Names {
    fn cpu(&self, cpu: u32) -> u32;
    fn label(&self, label: u32) -> &str;
    fn device(&self, device: u32) -> Device;
    fn socket(&self, socket: u32) -> Socket;
    /// Returns the socket to which nearly all packets of this sender went.
    fn destination(&self, sender: ThreadId) -> Option<u32>;
    fn person(&self, thread: ThreadId) -> Person;
    /// Returns the function at an address.
    fn symbol(&self, address: u64) -> Option<String>;
}

/// A network device, with its queueing discipline if known.
pub struct Device {
    pub name: String,
    pub discipline: Option<String>,
}

/// A socket, as far as it is known.
pub struct Socket {
    pub protocol: Option<&'static str>,
    pub port: Option<u16>,
    pub owner: Option<ThreadId>,
    /// Main threads of the processes that have a socket with this port, if the owner is one of
    /// them.
    pub candidates: Vec<ThreadId>,
}

/// A thread, with its process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Person {
    pub pid: Option<i32>,
    pub tid: i32,
    pub name: String,
    /// Script that its process runs, if the process is an interpreter.
    #[serde(skip)]
    pub script: Option<String>,
}

impl Person {
    /// Returns the name as users know it: `python3 orders.py`.
    fn known_as(&self) -> String {
        match self.script.as_ref().filter(|script| !self.name.contains(script.as_str())) {
            Some(script) => format!("{} {script}", self.name),
            None => self.name.clone(),
        }
    }
}

impl LossLine {
    /// Returns the facts for the rules of findings, if this counts as a loss. `packets` is the
    /// number of all packets.
    pub fn facts(&self, packets: u64) -> Option<Facts> {
        let name = |person: &Option<Person>, unknown: &str| person.as_ref().map_or_else(|| unknown.to_owned(), Person::known_as);
        self.lost.then(|| Facts {
            scope: Scope::Loss,
            texts: vec![
                ("place", self.place.clone()),
                ("where", self.text.clone()),
                ("owner", name(&self.owner, "its owner")),
                ("sender", name(&self.sender, "the sender")),
            ],
            numbers: vec![("count", self.count as f64), ("share", self.count as f64 / packets.max(1) as f64)],
            error: None,
            process: None,
            evidence: Evidence { start_ns: self.first_ns, end_ns: self.last_ns },
        })
    }
}

/// Losses of one kind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LossLine {
    pub place: String,
    pub text: String,
    /// Number of buffers.
    pub count: u64,
    /// Number of packets on the wire that the buffers contain: a large buffer would have been split
    /// later.
    pub datagrams: u64,
    /// True if there may be more.
    pub estimated: bool,
    pub first_ns: i64,
    pub last_ns: i64,
    /// True if some receiver should have had the packet.
    pub lost: bool,
    /// Reason as the kernel names it; its number if the trace has no name.
    pub reason: Option<String>,
    /// Function that freed the packet.
    pub symbol: Option<String>,
    pub device: Option<String>,
    pub cpu: Option<u32>,
    pub protocol: Option<&'static str>,
    pub port: Option<u16>,
    /// Thread that should have received it.
    pub owner: Option<Person>,
    /// Thread that sent it; null if unknown, or if there were several.
    pub sender: Option<Person>,
    /// Kernel counters that contain these losses as well, in the notation of the table.
    #[serde(skip)]
    pub counters: Vec<String>,
}

/// The table of places.
#[derive(Debug)]
pub struct Places {
    places: Vec<(LossPlace, Vec<Pattern>)>,
}

/// One entry of the table; `rules/packet_losses.toml` describes the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LossPlace {
    place: String,
    text: String,
    #[serde(default = "yes")]
    lost: bool,
    /// True if the entry applies only to packets that the kernel itself made.
    #[serde(default)]
    by_kernel: bool,
    #[serde(default)]
    reasons: Vec<String>,
    /// Functions to which the reasons are limited; empty for all.
    #[serde(default, rename = "in")]
    functions: Vec<String>,
    #[serde(default)]
    symbols: Vec<String>,
    #[serde(default)]
    counters: Vec<String>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    place: Vec<LossPlace>,
}

impl Places {
    /// Returns the table that is part of the program.
    pub fn built_in() -> Result<Places, RuleError> {
        Places::read("packet_losses.toml", include_str!("../../rules/packet_losses.toml"))
    }

    /// Parses a table. Errors name the line in `file`.
    pub fn read(file: &str, text: &str) -> Result<Places, RuleError> {
        let parsed: File = parse(file, text)?;
        let patterns = |place: &LossPlace| place.reasons.iter().map(|reason| Pattern::new(reason)).collect();
        Ok(Places {
            places: parsed.place.into_iter().map(|place| (patterns(&place), place)).map(|(patterns, place)| (place, patterns)).collect(),
        })
    }

    fn find(&self, reason: Option<&str>, symbol: Option<&str>, by_kernel: bool) -> Option<&LossPlace> {
        let places = || self.places.iter().filter(|(place, _)| by_kernel || !place.by_kernel);
        let begins = |all: &[String]| symbol.is_some_and(|symbol| all.iter().any(|begin| symbol.starts_with(begin.as_str())));
        let by_reason = |reason: &str| {
            let mut places = places().filter(|(place, _)| place.functions.is_empty() || begins(&place.functions));
            places.find(|(_, patterns)| patterns.iter().any(|pattern| pattern.captures(reason).is_some()))
        };
        let found = reason.and_then(by_reason).or_else(|| places().find(|(place, _)| begins(&place.symbols)));
        found.map(|(place, _)| place)
    }

    /// Returns the row for losses of this kind, without its numbers.
    pub fn line(&self, kind: &LossKind, names: &dyn Names) -> LossLine {
        let label = kind.label.map(|label| names.label(label)).filter(|label| !label.is_empty());
        let named_reason = label.filter(|label| *label != "NOT_SPECIFIED");
        let symbol = kind.location.and_then(|address| names.symbol(address));
        let plain = symbol.as_deref().map(|symbol| symbol.split('+').next().unwrap_or(symbol));
        let device = kind.device.map(|device| names.device(device));
        let socket = kind.socket.or_else(|| kind.sender.and_then(|sender| names.destination(sender))).map(|socket| names.socket(socket));
        let protocol = socket.as_ref().and_then(|socket| socket.protocol).or_else(|| protocol_of(plain));
        let port = kind.port.or(socket.as_ref().and_then(|socket| socket.port));
        let owner = kind.reader.or(socket.as_ref().and_then(|socket| socket.owner)).map(|thread| names.person(thread));
        let candidates = socket.as_ref().map_or(&[][..], |socket| &socket.candidates);
        let owners = match &owner {
            Some(owner) => vec![owner.clone()],
            None => candidates.iter().map(|&thread| names.person(thread)).collect(),
        };
        let reason = label.map(str::to_owned).or_else(|| kind.reason.map(|reason| reason.to_string()));
        let found = self.find(named_reason, plain, kind.by_kernel);
        let cpu = names.cpu(kind.cpu);
        let template = match (found, &symbol) {
            (Some(place), _) => place.text.as_str(),
            (None, Some(_)) => "dropped by {symbol} ({reason})",
            (None, None) => "dropped ({reason})",
        };
        let unknown = || "unknown".to_owned();
        let mut text = template.replace("{reason}", &reason.clone().unwrap_or_else(unknown));
        text = text.replace("{symbol}", plain.unwrap_or("unknown")).replace("{cpu}", &cpu.to_string());
        text = text.replace("{protocol}", &protocol.map_or_else(|| protocol_name(kind.protocol), str::to_owned));
        if let Some(device) = &device {
            text = text.replace("{device}", &device.name).replace("{discipline} ", &discipline(device));
        }
        text = text.replace("{discipline} of {device}", "of an unknown device").replace("{device}", "an unknown device");
        text = text.replace("{socket}", &described(protocol, port, &owners));
        let place = found.map_or("other", |place| place.place.as_str());
        LossLine {
            place: place.to_owned(),
            text,
            lost: found.is_none_or(|place| place.lost),
            reason,
            symbol,
            device: device.map(|device| device.name),
            cpu: (place == "backlog").then_some(cpu),
            protocol,
            port,
            owner,
            sender: kind.sender.map(|thread| names.person(thread)),
            counters: found.map_or_else(|| vec!["link".to_owned()], |place| place.counters.clone()),
            ..LossLine::default()
        }
    }
}

fn discipline(device: &Device) -> String {
    device.discipline.as_ref().map_or_else(String::new, |name| format!("{name} "))
}

/// Returns a description such as `UDP port 5201, iperf3/1234`.
fn described(protocol: Option<&str>, port: Option<u16>, owners: &[Person]) -> String {
    /// Largest number of listed owners of a shared port.
    const MAX_OWNERS: usize = 3;
    let mut parts = Vec::new();
    match (protocol, port) {
        (Some(protocol), Some(port)) => parts.push(format!("{protocol} port {port}")),
        (Some(protocol), None) => parts.push(protocol.to_owned()),
        (None, Some(port)) => parts.push(format!("port {port}")),
        (None, None) => {}
    }
    let named: Vec<String> = owners.iter().take(MAX_OWNERS).map(|owner| format!("{}/{}", owner.known_as(), owner.tid)).collect();
    let others = if owners.len() > MAX_OWNERS { " or others" } else { "" };
    parts.push(if named.is_empty() { "owner unknown".to_owned() } else { named.join(" or ") + others });
    parts.join(", ")
}

/// Returns the protocol that the function's name indicates.
fn protocol_of(symbol: Option<&str>) -> Option<&'static str> {
    let symbol = symbol?;
    [("udp", "UDP"), ("tcp", "TCP"), ("icmp", "ICMP"), ("ndisc", "ICMP"), ("arp_", "ARP")]
        .iter()
        .find(|(part, _)| symbol.contains(part))
        .map(|(_, name)| *name)
}

fn protocol_name(protocol: Option<i64>) -> String {
    match protocol {
        Some(0x0800) => "IPv4".to_owned(),
        Some(0x86dd) => "IPv6".to_owned(),
        Some(0x0806) => "ARP".to_owned(),
        Some(number) => format!("protocol {number:#06x}"),
        None => "protocol unknown".to_owned(),
    }
}
