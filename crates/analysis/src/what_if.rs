//! Predictions of changes: the trace is replayed in many worlds at the same time.
//!
//! A *world* is one variant of the run: the unchanged trace, or the trace after one scenario's
//! changes. Each machine has a simulated time in each world ([`worlds`]). A state adds its
//! duration, times the factor that the world gives it. A get completes when both the machine and
//! the token are there, even if one of them did not have to wait in the trace. A put completes when
//! the queue has room *in that world*. The same rule holds for locks, replies, wake-ups and CPUs
//! that are handed over. Blocked time is never copied from the trace; it follows. A change
//! therefore moves the bottleneck as it would in the real system; subtracting a share from the
//! critical path would not.
//!
//! Example: a client and a server alternate, 1 ms each. In the world `client x0.5` the client's
//! states add 0.5 ms; the server receives each request 0.5 ms earlier, still needs 1 ms, and the
//! run takes three quarters of the time.
//!
//! Machines that share a server, a lock, the room of a queue or a host's only CPU get it in the
//! order of their arrival in that world ([`service`]); as long as nothing changes, that is the
//! order of the trace.
//!
//! What the trace does not say cannot follow from it. Which of several machines takes which token,
//! or has which of several CPUs, stays as observed. A wait without a known cause takes no time in
//! one replay of the unchanged trace, the gate. If the end of the gate differs by more than 5 %
//! from the observed end, nothing is predicted. In the predictions such waits keep their observed
//! duration, and the interval of a prediction covers the case that they take no time.
//!
//! Interactions come in the order of the trace and become operations of machines ([`translate`]),
//! which run in all worlds ([`replay`]). An operation may need something that another machine has
//! not done yet in this replay, for example room in a queue that is smaller than it was. It then
//! waits, together with all later operations of its machine.

mod answer;
mod full_queues;
pub mod functions;
pub(crate) mod grammar;
pub mod likely_scenarios;
mod operation;
mod options;
pub mod predicted;
pub mod propose;
mod replay;
mod service;
mod translate;
mod worlds;

pub use answer::{Answer, Bounds, LimitingState, NoAnswer, Prediction, Share};
pub use full_queues::FullQueue;
pub(crate) use full_queues::FullQueues;
pub use grammar::{Change, Scenario, Target, GRAMMAR};
pub use options::Options;

use longpole_model::interaction::{Interaction, Vocabulary};
use translate::state::Translation;

/// The replay of a trace in all worlds. It sees each interaction once, in the order of time.
pub struct WhatIf {
    options: Options,
    /// For each requested scenario that adds CPUs and makes other changes: the index of the same
    /// scenario without the CPUs. Those scenarios follow the requested ones.
    alone: Vec<Option<usize>>,
    trace: Translation,
}

impl WhatIf {
    pub fn new(mut options: Options) -> WhatIf {
        // A scenario with more CPUs is at least as good as its other changes alone, so these are
        // replayed too.
        let without_cpus: Vec<Option<Scenario>> = options.scenarios.iter().map(Scenario::without_cpus).collect();
        let mut alone = Vec::with_capacity(without_cpus.len());
        for scenario in without_cpus {
            alone.push(scenario.is_some().then_some(options.scenarios.len()));
            options.scenarios.extend(scenario);
        }
        let trace = Translation::new(&options);
        WhatIf { options, alone, trace }
    }

    /// Sets the start of the range to `t` ns. What is before only establishes the state at that
    /// time. Must be called before the first interaction.
    pub fn begin_at(&mut self, t: u64) {
        self.trace.clock.requested_begin = t;
    }

    /// Processes the next interaction; interactions must be in the order of time.
    pub fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) {
        self.trace.interaction(vocabulary, interaction);
    }

    /// Advances the clock to `t` ns without an interaction.
    pub fn until(&mut self, t: u64) {
        let clock = &mut self.trace.clock;
        clock.now = clock.now.max(t.saturating_sub(clock.begin.unwrap_or(t)));
    }

    /// Number of vectors that are held, of machines, tokens, room and free CPUs.
    pub fn held(&mut self) -> usize {
        self.trace.held_vectors()
    }

    /// Returns the prediction of each scenario.
    ///
    /// # Errors
    ///
    /// [`NoAnswer`] if the machine or the range is empty, unknown or ambiguous, or if a name of a
    /// scenario does not occur.
    pub fn answer(self, vocabulary: &Vocabulary) -> Result<Answer, NoAnswer> {
        answer::answer(self.trace, &self.options, &self.alone, vocabulary)
    }
}
