//! A packet that is under way, and what is known of it.

use crate::network::packet_paths::Wanted;
use longpole_model::linux::net::Hop;
use longpole_model::linux::watch::{CpuId, ThreadId, Waker};
use longpole_model::names::NameId;
use serde::Serialize;

/// Where a packet was seen last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Queued,
    Transmitting,
    /// The driver has it.
    Sent,
    Arrived,
    Received,
    /// In a socket's queue.
    Ready,
}

/// A part of the way that is measured. Index into an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    Send,
    Queue,
    Wire,
    Protocols,
    Socket,
    Wakeup,
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

    /// From where to where.
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

/// How a journey ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// A receiving call took it.
    Read,
    /// It came to the socket of a stream, in which bytes go on without their packets.
    Stream,
    Lost,
    /// By a device behind which nothing is seen.
    Left,
    /// Cut into segments, each with a journey of its own.
    Split,
    /// The protocols got it and no socket: acknowledgements, ARP, ICMP, fragments.
    Kernel,
    /// Still on its way at the end of the trace: in a device's or socket's queue.
    Waiting,
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
            End::Waiting => "still under way at the end",
            End::Unknown => "unknown",
        }
    }

    /// Whether there is more to be known of how it ended.
    pub fn is_known(self) -> bool {
        matches!(self, End::Read | End::Stream | End::Lost | End::Left | End::Split)
    }
}

/// Who let it begin.
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
    /// It came from a device.
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

/// One step of a journey that is told in full.
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

#[derive(Clone, Debug)]
pub struct Flight {
    /// Tells a packet from the next one in the same buffer.
    pub id: u64,
    /// Its number among those that began in the range, from 1.
    pub number: Option<u64>,
    pub begin_ns: i64,
    pub origin: Origin,
    pub stage: Stage,
    /// Of the last step.
    pub t_ns: i64,
    pub length: u32,
    pub segments: u32,
    pub device: Option<u32>,
    pub socket: Option<u32>,
    /// A step of it is not in the trace.
    pub gap: bool,
    pub steps: Vec<Seen>,
}

impl Flight {
    /// A step of it, if it is to be told.
    pub fn see(&mut self, wanted: Wanted, hop: &Hop<'_>, what: &'static str) {
        if self.number.is_none_or(|number| wanted != Wanted::Number(number) && wanted != Wanted::Slowest) || self.steps.len() >= 256 {
            return;
        }
        let Flight { device, length, socket, .. } = *self;
        let Hop { t_ns, cpu, by, call, .. } = *hop;
        self.steps.push(Seen { t_ns, cpu, by, call, what, device, length: Some(length), socket });
    }
}

/// A journey, told in full.
#[derive(Clone, Debug)]
pub struct Journey {
    pub number: u64,
    pub begin_ns: i64,
    pub end_ns: i64,
    pub origin: Origin,
    pub end: End,
    pub complete: bool,
    pub length: u32,
    pub reader: Option<ThreadId>,
    /// When it was woken, by whom, and when it ran.
    pub wakeup: Option<Wakeup>,
    pub steps: Vec<Seen>,
}

#[derive(Clone, Copy, Debug)]
pub struct Wakeup {
    pub wake_ns: i64,
    pub start_ns: i64,
    pub waker: Waker,
}
