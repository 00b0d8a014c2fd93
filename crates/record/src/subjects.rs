//! The processes with probes that a recorder knows, with their rings, by runtime directory.
//!
//! A [`Subject`] is a process with its rings; a ring with the recorder's decisions and counters is
//! a [`ring_source::RingSource`]. The subjects of one runtime directory, and what they have in
//! common, are a [`directory::RecordedRuntimeDir`]. This room holds the data; `attach` takes
//! processes up and lets them go, `drain` takes their events. `list` is for commands that only
//! look.

pub(crate) mod directory;
pub mod list;
pub(crate) mod ring_source;
pub(crate) mod writer;

use crate::runtime_dir::process::Process;
use crate::runtime_dir::session::Order;
use ring_source::{Decision, RingSource};
use std::time::Instant;

/// A process with probes, and its rings.
#[derive(Debug)]
pub(crate) struct Subject {
    pub process: Process,
    pub rings: Vec<RingSource>,
    /// The process is within the scope of this recording.
    pub wanted: bool,
    /// This recorder holds the lock of the process. `rings` is empty otherwise.
    pub claimed: bool,
    /// A diagnostic has reported that another recorder holds the process.
    pub reported_as_held: bool,
    /// Time of the next attempt to claim the process. Set if another recorder's command started the
    /// process and that recorder is running.
    pub next_claim_attempt: Option<Instant>,
    /// Number of turns without an event from the process, although it is claimed; counted only
    /// while it has nothing to record.
    pub silent_turns: u32,
    pub order: Order,
    /// Ring size in bytes that its policies ask for.
    pub buffer: Option<u64>,
    pub ended: bool,
    /// File names of rings that cannot be read; they are removed together with the process's files.
    pub ignored: Vec<String>,
    /// Number of turns since the process ended.
    pub turns_dead: u32,
}

impl Subject {
    /// A process that is neither decided about nor claimed yet.
    pub fn new(process: Process, lives: bool) -> Subject {
        Subject {
            process,
            rings: Vec::new(),
            wanted: false,
            claimed: false,
            reported_as_held: false,
            next_claim_attempt: None,
            silent_turns: 0,
            order: Order::default(),
            buffer: None,
            ended: !lives,
            ignored: Vec::new(),
            turns_dead: 0,
        }
    }

    /// Sets its orders, which the next visit writes. Policies also select threads, so the decisions
    /// about its rings are made again.
    pub fn set_order(&mut self, (order, buffer): (Order, Option<u64>)) {
        (self.order, self.buffer) = (order, buffer);
        for source in &mut self.rings {
            source.decision = Decision::Undecided;
        }
    }
}
