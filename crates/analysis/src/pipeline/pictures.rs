//! What pictures of a trace show in addition to the timeline and the report: sampled stacks, and
//! latencies over time.

use super::Interactions;
use crate::latency::LatencyCases;
use crate::report::ProbePass;
use crate::scheduling::flame_graph::FlameGraphs;
use crate::timeline::{RowId, Timeline};
use longpole_model::actors::ActorId;
use longpole_model::causes::Composer;

/// Number of frames of a flame graph that are kept. More cannot be told apart on a screen.
const MAX_FRAMES: usize = 20_000;

/// What is shown of a trace, limited in its size: a server keeps it as long as the trace is open.
#[derive(Debug, Default)]
pub struct Pictures {
    /// `None` if the trace has no stack samples.
    pub flames: Option<FlameGraphs>,
    pub latencies: Vec<PicturedLatency>,
}

/// A latency with single cases, and the timeline's row on which they are.
#[derive(Debug)]
pub struct PicturedLatency {
    pub of: LatencyCases,
    pub row: Option<RowId>,
}

impl Pictures {
    /// Takes what the analyses of probes have kept ([`ProbePass::keep_for_pictures`]).
    pub fn new(pass: &ProbePass, interactions: &Interactions, timeline: &Timeline) -> Pictures {
        let row = |actor: ActorId| timeline.row_of(interactions.composer().and_then(|composer: &Composer| composer.machine_of_actor(actor))?);
        let latencies = pass.latency_cases().into_iter().map(|of| PicturedLatency { row: of.actor.and_then(row), of });
        Pictures { flames: None, latencies: latencies.collect() }
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
