//! The settings of a replay.

use super::grammar::Scenario;

/// Settings of a replay: the question, and limits of memory.
#[derive(Clone, Debug)]
pub struct Options {
    pub scenarios: Vec<Scenario>,
    /// Name of the machine whose last interaction is the end: MACHINE or HOST/MACHINE. With `None`,
    /// the machine of the last end that the trace marks or, without one, the last machine that did
    /// something.
    pub machine: Option<String>,
    /// Limit of memory in bytes for tokens in flight and for the recent pasts of machines.
    pub most_bytes: usize,
    /// The scenarios are guesses: those whose names do not occur are left out instead of being an
    /// error.
    pub guessed: bool,
    /// Cost of recording one event of a probe, in ns. It is not part of the system, so it is left
    /// out of all worlds but the observed one, the gate and the one with recording.
    pub probe_ns: f64,
    /// CPUs of each host; 0 if unknown, or if the system is simulated.
    pub cpus: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { scenarios: Vec::new(), machine: None, most_bytes: 128 << 20, guessed: false, probe_ns: 0.0, cpus: 0 }
    }
}
