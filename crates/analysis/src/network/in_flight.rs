//! A packet in flight, and the facts that are known about it.

use crate::network::packet_paths::Wanted;
use longpole_model::linux::net::Hop;
use longpole_model::linux::watch::{CpuId, ThreadId, Waker};
use longpole_model::names::NameId;
use serde::Serialize;

/// The last place at which a packet was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In the queue of a device.
    Queued,
    /// On its way from the queue to the driver.
    Transmitting,
    /// In the driver.
    Sent,
    /// Arrived at a device.
    Arrived,
    /// Received by the protocols.
    Received,
    /// In a socket's queue.
    Ready,
}

/// A measured part of the packet path. Its value is an index into an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// From the send call to the device queue.
    Send,
    /// From the device queue to the transmission.
    Queue,
    /// From the transmission to the reception.
    Wire,
    /// From the reception to the socket's queue.
    Protocols,
    /// From the socket's queue to the receive call.
    Socket,
    /// From the reader's wake-up to its start.
    Wakeup,
    /// From the send call to the receive call.
    Whole,
}

impl Leg {
    pub const ALL: [Leg; 7] = [Leg::Send, Leg::Queue, Leg::Wire, Leg::Protocols, Leg::Socket, Leg::Wakeup, Leg::Whole];

    pub fn name(self) -> &'static str {
        match self {
            Leg::Send => "send",
            Leg::Queue => "queue",
            Leg::Wire => "wire",
            Leg::Protocols => "protocols",
            Leg::Socket => "socket",
            Leg::Wakeup => "wakeup",
            Leg::Whole => "whole",
        }
    }

    /// Returns begin and end of this part as text.
    pub fn text(self) -> &'static str {
        match self {
            Leg::Send => "send call to device queue",
            Leg::Queue => "device queue to transmission",
            Leg::Wire => "transmission to reception",
            Leg::Protocols => "reception to socket queue",
            Leg::Socket => "socket queue to receive call",
            Leg::Wakeup => "wake-up to the reader's start",
            Leg::Whole => "send call to receive call",
        }
    }
}

/// The end of a packet path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Read by a receive call.
    Read,
    /// Delivered to the socket of a stream, in which bytes continue without their packets.
    Stream,
    /// Dropped.
    Lost,
    /// Sent by a device after which no event follows.
    Left,
    /// Split into segments, each with a packet path of its own.
    Split,
    /// Delivered to the protocols but to no socket: acknowledgements, ARP, ICMP, fragments.
    Kernel,
    /// In a device's or socket's queue at the end of the trace.
    Waiting,
    /// Unknown, for example because events were lost.
    Unknown,
}

impl End {
    pub const ALL: [End; 8] = [End::Read, End::Stream, End::Lost, End::Left, End::Split, End::Kernel, End::Waiting, End::Unknown];

    pub fn text(self) -> &'static str {
        match self {
            End::Read => "read by a receive call",
            End::Stream => "delivered to a stream's socket",
            End::Lost => "lost or thrown away",
            End::Left => "left by a device",
            End::Split => "cut into segments",
            End::Kernel => "taken by the kernel itself",
            End::Waiting => "still in transit at the end",
            End::Unknown => "unknown",
        }
    }

    /// Returns whether the end is fully known.
    pub fn is_known(self) -> bool {
        matches!(self, End::Read | End::Stream | End::Lost | End::Left | End::Split)
    }
}

/// The origin of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A system call of this thread.
    Call {
        thread: ThreadId,
        call: NameId,
        begin_ns: i64,
    },
    /// An interrupt, or a thread outside of system calls.
    Kernel,
    /// A device from which the packet arrived.
    Outside,
    Unknown,
}

impl Origin {
    pub fn thread(self) -> Option<ThreadId> {
        match self {
            Origin::Call { thread, .. } => Some(thread),
            Origin::Kernel | Origin::Outside | Origin::Unknown => None,
        }
    }
}

/// One step of a packet path that is reported in full.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub t_ns: i64,
    pub cpu: CpuId,
    pub by: Waker,
    pub call: Option<(NameId, i64)>,
    pub what: &'static str,
    pub device: Option<u32>,
    pub length: Option<u32>,
    pub socket: Option<u32>,
}

/// A packet in flight.
#[derive(Clone, Debug)]
pub struct PacketInFlight {
    /// Id that distinguishes a packet from the next one in the same buffer.
    pub id: u64,
    /// Number among the packets that began in the range, from 1.
    pub number: Option<u64>,
    pub begin_ns: i64,
    pub origin: Origin,
    pub stage: Stage,
    /// Time of the last step.
    pub t_ns: i64,
    pub length: u32,
    pub segments: u32,
    pub device: Option<u32>,
    pub socket: Option<u32>,
    /// True if a step is missing from the trace.
    pub gap: bool,
    pub steps: Vec<Seen>,
}

impl PacketInFlight {
    /// Adds a step, if this packet's steps are wanted.
    pub fn see(&mut self, wanted: Wanted, hop: &Hop<'_>, what: &'static str) {
        let is_wanted = match wanted {
            Wanted::Number(wanted) => self.number == Some(wanted),
            Wanted::Slowest => self.number.is_some(),
        };
        if !is_wanted || self.steps.len() >= 256 {
            return;
        }
        let PacketInFlight { device, length, socket, .. } = *self;
        let Hop { t_ns, cpu, by, call, .. } = *hop;
        self.steps.push(Seen { t_ns, cpu, by, call, what, device, length: Some(length), socket });
    }
}

/// A packet path, reported in full.
#[derive(Clone, Debug)]
pub struct PacketPath {
    pub number: u64,
    pub begin_ns: i64,
    pub end_ns: i64,
    pub origin: Origin,
    pub end: End,
    pub complete: bool,
    pub length: u32,
    pub reader: Option<ThreadId>,
    /// Wake-up of the reader: its time, its waker, and the start of the reader.
    pub wakeup: Option<Wakeup>,
    pub steps: Vec<Seen>,
}

/// A wake-up of a thread, and its start.
#[derive(Clone, Copy, Debug)]
pub struct Wakeup {
    pub wake_ns: i64,
    pub start_ns: i64,
    pub waker: Waker,
}
