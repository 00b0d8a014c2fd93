//! Predictions for changes of a machine log.

use longpole_analysis::machine_log::Reader;
use longpole_analysis::what_if::{Answer, NoAnswer, Options, Prediction, Scenario, WhatIf};

pub fn ask(log: &str, scenarios: &[&str]) -> Result<Answer, NoAnswer> {
    ask_recorded(log, scenarios, 0.0)
}

/// The same for a log in which each event cost `probe_ns` nanoseconds.
pub fn ask_recorded(log: &str, scenarios: &[&str], probe_ns: f64) -> Result<Answer, NoAnswer> {
    let scenarios = scenarios.iter().map(|text| Scenario::parse(text).unwrap()).collect();
    let mut reader = Reader::new(log.as_bytes());
    let mut worlds = WhatIf::new(Options { scenarios, probe_ns, ..Options::default() });
    while let Some(interaction) = reader.next_interaction().unwrap() {
        worlds.interaction(reader.vocabulary(), &interaction);
    }
    worlds.answer(reader.vocabulary())
}

pub fn predicted(log: &str, change: &str) -> Prediction {
    ask(log, &[change]).unwrap().predictions.remove(0)
}

pub fn ns(log: &str, change: &str) -> u64 {
    let prediction = predicted(log, change);
    prediction.predicted_ns.unwrap_or_else(|| panic!("{prediction:?}"))
}
