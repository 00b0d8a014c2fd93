//! The answer of `packets` from kernel events: losses, packet paths, and one packet path in full.

use crate::network::in_flight::{End, Leg, Origin, PacketPath};
use crate::network::packet_loss::{Device, LossLine, Names, Person, Places, Socket};
use crate::network::packet_paths::{Flow, FlowKey, PacketPaths};
use crate::stages::consumer::Probes;
use crate::stats::histogram::Times;
use longpole_model::linux::watch::{ThreadId, Waker};
use longpole_model::linux::Linux;
use longpole_model::names::NameId;
use longpole_trace::Frame;
use serde::Serialize;

/// Sums over all packet paths.
#[derive(Debug, Serialize)]
pub struct PacketsAnswer {
    /// Number of packets whose first step is in the range.
    pub count: u64,
    /// Number of packets for which each step from the origin to the end is known.
    pub complete: u64,
    /// Share of complete paths among all packets, except for those that the kernel itself took and
    /// those in flight at the end.
    pub complete_share: Option<f64>,
    /// Number of packets by the end of their path.
    pub ends: Ends,
    /// Number of packets on the wire: the device splits a large buffer.
    pub segments: u64,
    pub legs: Vec<LegLine>,
    pub flows: Vec<FlowLine>,
    /// Number of packets that were dropped from the analysis because too many were in flight.
    pub given_up: u64,
    /// Number of kernel events that are missing: packets may have been lost without an event.
    pub lost_events: u64,
    pub uncounted_losses: u64,
}

/// Numbers of packets by the end of their path ([`End`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ends {
    pub read: u64,
    pub stream: u64,
    pub lost: u64,
    pub left: u64,
    pub split: u64,
    pub kernel: u64,
    pub waiting: u64,
    pub unknown: u64,
}

impl Ends {
    fn new(counts: &[u64; End::ALL.len()]) -> Ends {
        let of = |end: End| counts[end as usize];
        Ends {
            read: of(End::Read),
            stream: of(End::Stream),
            lost: of(End::Lost),
            left: of(End::Left),
            split: of(End::Split),
            kernel: of(End::Kernel),
            waiting: of(End::Waiting),
            unknown: of(End::Unknown),
        }
    }
}

/// Times of one part of the packet path.
#[derive(Debug, Serialize)]
pub struct LegLine {
    pub leg: &'static str,
    pub text: &'static str,
    #[serde(flatten)]
    pub times: Times,
}

/// Packets from one thread to one socket, or to a device.
#[derive(Debug, Serialize)]
pub struct FlowLine {
    /// Sender; null for the kernel, and for packets from outside.
    pub from: Option<Person>,
    pub to: Option<Person>,
    pub protocol: Option<&'static str>,
    pub port: Option<u16>,
    pub device: Option<String>,
    pub packets: u64,
    pub complete: u64,
    pub ends: Ends,
    /// Times from the send call to the receive call.
    pub whole: Times,
}

/// One packet path in full.
#[derive(Debug, Serialize)]
pub struct PacketPathLine {
    pub number: u64,
    pub begin_ns: i64,
    pub end_ns: i64,
    pub end: End,
    pub complete: bool,
    pub length: u32,
    pub sender: Option<Person>,
    pub send_call: Option<String>,
    pub reader: Option<Person>,
    pub wakeup: Option<WakeupLine>,
    pub steps: Vec<StepLine>,
    /// Captured frames of the packet, one per device and direction.
    pub frames: Vec<FrameLine>,
    /// Probes of the reader; null if the trace has none, or if no thread read the packet.
    pub probes: Option<Probes>,
}

/// A captured frame that is matched to the packet: of the same device, direction and length, and
/// nearest in time to the step at which the kernel stamps frames.
#[derive(Clone, Debug, Serialize)]
pub struct FrameLine {
    pub t_ns: i64,
    pub capture: String,
    pub device: String,
    pub outbound: Option<bool>,
    pub length: u32,
    /// Captured bytes, in hexadecimal digits.
    pub bytes: String,
    /// True if another frame is equally near, so that it may be the packet's.
    pub ambiguous: bool,
    /// Name of the device in the capture, and type of its link.
    #[serde(skip)]
    pub interface: String,
    #[serde(skip)]
    pub link_type: u16,
    /// Distance from the step in nanoseconds, plus `WRONG_SIDE_NS` on the wrong side of it.
    #[serde(skip)]
    pub far_ns: u64,
}

/// The wake-up of a packet's reader.
#[derive(Debug, Serialize)]
pub struct WakeupLine {
    pub wake_ns: i64,
    pub start_ns: i64,
    pub waker: String,
}

/// One step of a packet path.
#[derive(Debug, Serialize)]
pub struct StepLine {
    pub t_ns: i64,
    pub step: &'static str,
    pub cpu: u32,
    /// Thread, interrupt, or `idle`; null if unknown.
    pub by: Option<String>,
    /// System call in which the thread is.
    pub call: Option<String>,
    pub device: Option<String>,
    pub length: Option<u32>,
    pub socket: Option<String>,
}

/// One loss.
#[derive(Debug, Serialize)]
pub struct SingleLine {
    pub t_ns: i64,
    pub length: Option<u32>,
    #[serde(flatten)]
    pub kind: LossLine,
}

/// The data in which names are looked up.
pub struct Packets<'a> {
    pub packet_paths: &'a PacketPaths,
    pub linux: &'a Linux,
    pub symbol: &'a dyn Fn(u64) -> Option<String>,
}

impl Packets<'_> {
    pub fn paths(&self) -> PacketsAnswer {
        let packet_paths = self.packet_paths;
        let ends = Ends::new(&packet_paths.ends);
        let of = packet_paths.count.saturating_sub(ends.kernel + ends.waiting);
        let mut flows: Vec<FlowLine> = packet_paths.flows.iter().map(|(key, flow)| self.flow(key, flow)).collect();
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.packets));
        let others = &packet_paths.other_flows;
        if others.ends.iter().any(|count| *count > 0) {
            flows.push(self.flow(&FlowKey { sender: None, socket: None, device: None }, others));
        }
        PacketsAnswer {
            count: packet_paths.count,
            complete: packet_paths.complete,
            complete_share: (of > 0).then(|| packet_paths.complete as f64 / of as f64),
            ends,
            segments: packet_paths.segments,
            legs: Leg::ALL
                .iter()
                .map(|&leg| LegLine { leg: leg.name(), text: leg.text(), times: packet_paths.legs[leg as usize].times() })
                .collect(),
            flows,
            given_up: packet_paths.given_up,
            lost_events: self.linux.counts.lost,
            uncounted_losses: self.linux.counts.uncounted_losses,
        }
    }

    fn flow(&self, key: &FlowKey, flow: &Flow) -> FlowLine {
        let socket = key.socket.map(|socket| self.socket(socket));
        FlowLine {
            from: key.sender.map(|thread| self.person(thread)),
            to: socket.as_ref().and_then(|socket| socket.owner).map(|thread| self.person(thread)),
            protocol: socket.as_ref().and_then(|socket| socket.protocol),
            port: socket.as_ref().and_then(|socket| socket.port),
            device: key.device.map(|device| self.device(device).name),
            packets: flow.ends.iter().sum(),
            complete: flow.complete,
            ends: Ends::new(&flow.ends),
            whole: flow.whole.times(),
        }
    }

    pub fn losses(&self, places: &Places) -> Vec<LossLine> {
        self.packet_paths.losses.table(places, self)
    }

    /// Returns each loss that was kept, in the order of time.
    pub fn single_losses<'b>(&'b self, places: &'b Places) -> impl Iterator<Item = SingleLine> + 'b {
        self.packet_paths.losses.single.iter().map(move |loss| {
            let (datagrams, estimated) = (loss.segments.count.into(), loss.segments.estimated);
            let kind =
                LossLine { count: 1, datagrams, estimated, first_ns: loss.t_ns, last_ns: loss.t_ns, ..places.line(&loss.kind, self) };
            SingleLine { t_ns: loss.t_ns, length: loss.length, kind }
        })
    }

    pub fn path_line(&self, path: &PacketPath) -> PacketPathLine {
        let call = |call: NameId| self.linux.names.text(call).to_owned();
        let send_call = match path.origin {
            Origin::Call { call: name, .. } => Some(call(name)),
            Origin::Kernel | Origin::Outside | Origin::Unknown => None,
        };
        let steps = path.steps.iter().map(|seen| StepLine {
            t_ns: seen.t_ns,
            step: seen.what,
            cpu: self.cpu(seen.cpu.0),
            by: self.context(seen.by),
            call: seen.call.map(|(name, _)| call(name)),
            device: seen.device.map(|device| self.device(device).name),
            length: seen.length,
            socket: seen.socket.map(|socket| {
                let socket = self.socket(socket);
                let protocol = socket.protocol.unwrap_or("socket");
                socket.port.map_or_else(|| protocol.to_owned(), |port| format!("{protocol} port {port}"))
            }),
        });
        PacketPathLine {
            number: path.number,
            begin_ns: path.begin_ns,
            end_ns: path.end_ns,
            end: path.end,
            complete: path.complete,
            length: path.length,
            sender: path.origin.thread().map(|thread| self.person(thread)),
            send_call,
            reader: path.reader.map(|thread| self.person(thread)),
            wakeup: path.wakeup.map(|wakeup| WakeupLine {
                wake_ns: wakeup.wake_ns,
                start_ns: wakeup.start_ns,
                waker: self.context(wakeup.waker).unwrap_or_else(|| "unknown".to_owned()),
            }),
            steps: steps.collect(),
            frames: Vec::new(),
            probes: None,
        }
    }

    fn context(&self, by: Waker) -> Option<String> {
        match by {
            Waker::Thread(thread) => {
                let person = self.person(thread);
                Some(format!("{}/{}", person.name, person.tid))
            }
            Waker::Context { id, .. } => self.linux.contexts.get(id.0 as usize).map(|context| context.name.clone()),
            Waker::UntracedInterrupt => Some("idle".to_owned()),
            Waker::Unknown => None,
        }
    }
}

/// Returns the value if all values are equal.
fn one<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

impl Names for Packets<'_> {
    fn cpu(&self, cpu: u32) -> u32 {
        self.linux.cpus.get(cpu as usize).map_or(cpu, |cpu| cpu.number)
    }

    fn label(&self, label: u32) -> &str {
        self.packet_paths.labels.get(label as usize).map_or("", String::as_str)
    }

    fn device(&self, device: u32) -> Device {
        Device {
            name: self.packet_paths.devices.get(device as usize).cloned().unwrap_or_default(),
            discipline: self.packet_paths.disciplines.get(&device).cloned(),
        }
    }

    fn socket(&self, socket: u32) -> Socket {
        let known = self.packet_paths.sockets.get(socket as usize);
        let protocol = known.and_then(|socket| socket.protocol).and_then(|protocol| match protocol {
            6 => Some("TCP"),
            17 => Some("UDP"),
            1 | 58 => Some("ICMP"),
            132 => Some("SCTP"),
            136 => Some("UDP-Lite"),
            255 => Some("raw"),
            262 => Some("MPTCP"),
            _ => None,
        });
        let Some(known) = known else { return Socket { protocol, port: None, owner: None, candidates: Vec::new() } };
        // If the events do not contain the data, the socket dump may, provided that its answer is
        // unique.
        let dumped = &self.packet_paths.dumped;
        let process = known.reader.and_then(|thread| self.linux.threads.get(thread.0 as usize)).and_then(|thread| thread.process);
        let port =
            || one(dumped.iter().filter(|(of, _, pid)| known.protocol == Some(*of) && process == Some(*pid)).map(|(_, port, _)| *port));
        let owners = || -> Vec<i32> {
            let same = dumped.iter().filter(|(of, port, _)| known.protocol.is_none_or(|known| known == *of) && known.port == Some(*port));
            let mut pids: Vec<i32> = same.map(|(_, _, pid)| *pid).collect();
            pids.sort_unstable();
            pids.dedup();
            pids
        };
        let owners = if known.first.is_some() { Vec::new() } else { owners() };
        let of_owners = owners.iter().filter_map(|&pid| self.linux.thread_of(pid));
        let candidates: Vec<ThreadId> = of_owners.collect();
        let owner = known.first.or_else(|| candidates.first().copied().filter(|_| owners.len() == 1));
        Socket { protocol, port: known.port.or_else(port), owner, candidates }
    }

    fn destination(&self, sender: ThreadId) -> Option<u32> {
        self.packet_paths.destination(sender)
    }

    fn person(&self, thread: ThreadId) -> Person {
        match self.linux.threads.get(thread.0 as usize) {
            Some(thread) => {
                let process = thread.process.and_then(|process| self.linux.processes.get(process));
                let script = process.and_then(|process| process.script.clone());
                Person { pid: thread.process, tid: thread.tid, name: thread.name(), script }
            }
            None => Person { pid: None, tid: 0, name: "unknown".to_owned(), script: None },
        }
    }

    fn symbol(&self, address: u64) -> Option<String> {
        (self.symbol)(address)
    }
}

/// Size of a link header in bytes, which captures include and steps of incoming packets do not.
const LONGEST_LINK: u32 = 18;
/// Largest distance in time between a frame and its step.
const NEAR_NS: u64 = 5_000_000;
/// Largest difference between the clocks of captures and of steps.
const CLOCK_NS: i64 = 2_000;
/// Penalty for a frame on the side of the step on which the kernel does not stamp: it more likely
/// belongs to another packet.
const WRONG_SIDE_NS: u64 = 100_000;
/// Difference in distance below which frames cannot be distinguished.
const LIKE_NS: u64 = 3_000;

impl PacketPathLine {
    /// Returns the time in which its frames can have been captured.
    pub fn span(&self) -> Option<(i64, i64)> {
        let (first, last) = (self.steps.first()?, self.steps.last()?);
        Some((first.t_ns.saturating_sub(NEAR_NS as i64), last.t_ns.saturating_add(NEAR_NS as i64)))
    }

    /// Keeps the frame if no earlier one was nearer to the moment at which the kernel stamps: just
    /// before the transmission of an outgoing packet, and at the reception of an incoming one.
    pub fn frame(&mut self, capture: &str, frame: &Frame<'_>) {
        // The recorder prefixes names of devices in other namespaces with the namespace.
        let device = frame.interface.rsplit('/').next().unwrap_or(frame.interface);
        let near = |step: &StepLine| {
            let length = step.length.filter(|_| step.device.as_deref() == Some(device))?;
            let (out, rank) = match step.step {
                "transmission" => (true, 0),
                "device queue" => (true, 1),
                "reception" => (false, 0),
                "arrival" => (false, 1),
                _ => return None,
            };
            let same = match out {
                true => frame.outbound != Some(false) && frame.length == length,
                false => frame.outbound != Some(true) && (length..=length + LONGEST_LINK).contains(&frame.length),
            };
            same.then_some((rank, out, step.t_ns))
        };
        let Some((_, out, stamped_ns)) = self.steps.iter().filter_map(near).min() else { return };
        let late = frame.t_ns.saturating_sub(stamped_ns);
        let wrong_side = if out { late > CLOCK_NS } else { late < -CLOCK_NS };
        let ns = late.unsigned_abs() + if wrong_side { WRONG_SIDE_NS } else { 0 };
        if late.unsigned_abs() > NEAR_NS {
            return;
        }
        let line = |ambiguous| FrameLine {
            t_ns: frame.t_ns,
            capture: capture.to_owned(),
            device: device.to_owned(),
            interface: frame.interface.to_owned(),
            link_type: frame.link_type,
            outbound: frame.outbound,
            length: frame.length,
            bytes: frame.bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            ambiguous,
            far_ns: ns,
        };
        let same =
            |known: &&mut FrameLine| known.capture == capture && known.interface == frame.interface && known.outbound == frame.outbound;
        match self.frames.iter_mut().find(same) {
            Some(known) => {
                let ambiguous = known.far_ns.abs_diff(ns) < LIKE_NS;
                match ns < known.far_ns {
                    true => *known = line(ambiguous),
                    false => known.ambiguous |= ambiguous,
                }
            }
            None => self.frames.push(line(false)),
        }
    }
}
