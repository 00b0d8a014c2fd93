//! What the reading of a trace measured in addition to the states and the report.

use longpole_analysis::scheduling::flame_graph::FlameGraphs;

/// Number of frames of a flame graph that are kept. More cannot be told apart on a screen.
const MAX_FRAMES: usize = 20_000;

/// Measurements of a trace, limited in their size: they are kept as long as the trace is open.
#[derive(Debug, Default)]
pub struct Measured {
    /// `None` if the trace has no stack samples.
    pub flames: Option<FlameGraphs>,
}

impl Measured {
    pub(crate) fn limited(self) -> Measured {
        let flames = self.flames.map(|FlameGraphs { all, on_path }| FlameGraphs {
            all: all.limited(MAX_FRAMES),
            on_path: on_path.map(|graph| graph.limited(MAX_FRAMES)),
        });
        Measured { flames }
    }
}
