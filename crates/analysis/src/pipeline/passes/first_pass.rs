//! The first of two passes: reads the trace once, and spools the interactions.
//!
//! The second pass ([`FirstPass::second_pass`]) chooses the anchor, that is, the thread whose path
//! counts, and replays the spool with each change that may be worth it. The anchor is known only
//! when the whole trace was read, and its path is then computed from the spool. A recorded command
//! probably needs no anchor, since the path leads to its end: so that path is computed while the
//! trace is read.

use crate::critical_path::cpu_holders::OccupancyLog;
use crate::critical_path::{self, CriticalPath};
use crate::findings::kernel_facts::KernelFacts;
use crate::pipeline::follow::{self, Follower};
use crate::pipeline::{Error, Interactions, ProgressTimes, Selection, SpoolWriter, SPILL};
use crate::verdict::facts::off_path::OffPathCollector;
use crate::verdict::facts::traffic::Traffic;
use crate::wait_graph::Waits;
use longpole_model::causes::Composer;
use longpole_model::interaction::block::Block;
use longpole_model::interaction::{Interaction, Vocabulary};
use longpole_model::linux::Linux;
use longpole_trace::{Catalogue, Item};

/// The analyses after the first pass: each of them has seen all interactions.
pub struct FirstPass {
    /// The path to the end of the command; `None` if there is no command.
    pub(in crate::pipeline) critical_path: Option<CriticalPath>,
    pub(in crate::pipeline) waits: Waits,
    pub(in crate::pipeline) writer: SpoolWriter,
    pub(in crate::pipeline) traffic: Traffic,
}

/// Facts about a trace that its interactions do not contain. They are collected in the first pass,
/// from the items that its feed sees.
pub struct TraceFacts<'a> {
    /// Number of events that are missing in the trace.
    pub lost: u64,
    /// True if the trace shows when threads run.
    pub tells_running: bool,
    /// Facts from the kernel's events; `None` if the trace has none.
    pub kernel: Option<(&'a KernelFacts, &'a Linux)>,
    pub off_path: OffPathCollector,
    /// The CPU occupancy over time.
    pub occupancy: &'a OccupancyLog,
}

/// What the user wants to know beyond the verdict, and of which path.
pub struct Request<'a> {
    /// Threads to whose replies the path leads.
    pub selection: &'a Selection,
    /// The events that count as progress, after the first pass; they replace the end of the path.
    pub progress: Option<ProgressTimes<'a>>,
    /// True if the path to the end of the command, or of the part, is requested, whatever ends it:
    /// the user named a part or a machine.
    pub keep_end: bool,
    /// True if the answer must list the constants that the verdict depends on.
    pub sensitivity: bool,
}

impl FirstPass {
    /// Reads the interactions once, for all analyses at the same time, and spools them for the path
    /// to an anchor and for the replays with changes. Each item of the trace goes to `feed`, which
    /// passes it on to the composer; the interactions also go to `also`, in a thread of its own.
    pub fn read(
        interactions: &mut Interactions,
        feed: impl FnMut(&mut Composer, &Catalogue, &Item<'_>),
        also: Option<&mut dyn Follower>,
    ) -> Result<FirstPass, Error> {
        let options = critical_path::Options { segments: true, spill: Some(SPILL), ..critical_path::Options::default() };
        let mut pass = FirstPass {
            critical_path: interactions.has_command().then(|| CriticalPath::new(options)),
            waits: Waits::default(),
            writer: SpoolWriter::default(),
            traffic: Traffic::default(),
        };
        let FirstPass { critical_path, waits, writer, traffic } = &mut pass;
        // The path needs a thread of its own; the others together need less time than it does.
        let mut path: Vec<&mut dyn Follower> = critical_path.iter_mut().map(|path| path as &mut dyn Follower).collect();
        let mut others: [&mut dyn Follower; 3] = [waits, writer, traffic];
        let mut also = also.map(Forwarding);
        let mut also: Vec<&mut dyn Follower> = also.iter_mut().map(|also| also as &mut dyn Follower).collect();
        let all = [&mut path[..], &mut others, &mut also].into_iter().filter(|followers| !followers.is_empty());
        follow::follow_fed(interactions, feed, all)?;
        Ok(pass)
    }
}

/// Passes everything on to a follower of the caller, which may live longer than this pass.
struct Forwarding<'a>(&'a mut dyn Follower);

impl Follower for Forwarding<'_> {
    fn begin_at(&mut self, t: u64) {
        self.0.begin_at(t);
    }

    fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) {
        self.0.interaction(vocabulary, interaction);
    }

    fn until(&mut self, t: u64) {
        self.0.until(t);
    }

    fn block(&mut self, vocabulary: &mut Vocabulary, block: &Block) {
        self.0.block(vocabulary, block);
    }
}
