//! What pictures of a trace show in addition to the timeline and the report: sampled stacks,
//! latencies and queues over time, and who waits for whom.

use super::Interactions;
use crate::latency::LatencyCases;
use crate::queues::QueueSeries;
use crate::report::ProbePass;
use crate::scheduling::flame_graph::FlameGraphs;
use crate::timeline::{RowId, Timeline};
use crate::wait_graph::{self, Who};
use longpole_model::actors::ActorId;
use longpole_model::causes::Composer;
use longpole_model::interaction::{MachineId, QueueId};
use std::collections::HashMap;

/// Number of frames of a flame graph that are kept. More cannot be told apart on a screen.
pub const MAX_FRAMES: usize = 20_000;

/// What is shown of a trace, limited in its size: a server keeps it as long as the trace is open.
#[derive(Debug, Default)]
pub struct Pictures {
    /// `None` if the trace has no stack samples.
    pub flames: Option<FlameGraphs>,
    pub latencies: Vec<PicturedLatency>,
    pub queues: Vec<PicturedQueue>,
    /// `None` if there is no path.
    pub waits: Option<PicturedWaits>,
}

/// Who waits for whom, and the timeline's rows of the two machines of each edge.
#[derive(Debug)]
pub struct PicturedWaits {
    pub of: wait_graph::Answer,
    pub rows: Vec<[Option<RowId>; 2]>,
}

/// A latency with single cases, and the timeline's row on which they are.
#[derive(Debug)]
pub struct PicturedLatency {
    pub of: LatencyCases,
    pub row: Option<RowId>,
}

/// A queue, and the timeline's row with its depth.
#[derive(Debug)]
pub struct PicturedQueue {
    pub of: QueueSeries,
    pub row: Option<RowId>,
}

impl Pictures {
    /// Takes what the analyses of probes have kept ([`ProbePass::keep_for_pictures`]).
    /// `queue_rows` are the timeline's rows of the queues.
    pub fn new(pass: &ProbePass, interactions: &Interactions, timeline: &Timeline, queue_rows: &HashMap<QueueId, RowId>) -> Pictures {
        let row =
            |actor: ActorId| timeline.row_of(interactions.composer().and_then(|composer: &Composer| composer.machine_of_actor(actor))?);
        let latencies = pass.latency_cases().into_iter().map(|of| PicturedLatency { row: of.actor.and_then(row), of });
        let queues = pass.queue_series().into_iter().map(|of| PicturedQueue { row: queue_rows.get(&of.id).copied(), of });
        Pictures { flames: None, latencies: latencies.collect(), queues: queues.collect(), waits: None }
    }

    /// Adds who waits for whom.
    pub fn with_waits(self, waits: Option<wait_graph::Answer>, interactions: &Interactions, timeline: &Timeline) -> Pictures {
        let vocabulary = interactions.vocabulary();
        let place = |machine: MachineId| (vocabulary.host(machine), vocabulary.machine_name(machine));
        let machines: HashMap<(&str, &str), MachineId> = vocabulary.machines().map(|machine| (place(machine), machine)).collect();
        let row = |who: &Who| machines.get(&(who.host.as_str(), who.machine.as_str())).and_then(|&machine| timeline.row_of(machine));
        let pictured =
            |of: wait_graph::Answer| PicturedWaits { rows: of.edges.iter().map(|it| [row(&it.from), row(&it.to)]).collect(), of };
        Pictures { waits: waits.map(pictured), ..self }
    }

    /// Adds flame graphs, limited in their size.
    pub fn with_flames(self, flames: Option<FlameGraphs>) -> Pictures {
        let flames = flames.map(|FlameGraphs { all, on_path }| FlameGraphs {
            all: all.limited(MAX_FRAMES),
            on_path: on_path.map(|graph| graph.limited(MAX_FRAMES)),
        });
        Pictures { flames, ..self }
    }
}
