//! Changes of functions: `parse x0.5` for a function `parse` that samples of stacks show on the
//! path.
//!
//! The replay knows states and not functions. The samples say which part of each state is spent
//! within the function, and that part of the state's time is scaled. The part has an error; the
//! prediction is also made with both ends of its interval.

use super::{Prediction, Scenario};
use crate::critical_path::samples::Within;
use crate::what_if::Change;

/// Largest number of states that one change of a function scales. Those with most of the function's
/// time are taken.
const MAX_STATES: usize = 64;

/// Largest number of states that a message names.
const MAX_NAMED: usize = 3;

/// Number of scenarios that predict the change of a function: with the estimated parts, and with
/// the ends of their intervals.
pub const SCENARIOS: usize = 3;

impl Scenario {
    /// Returns the name and the factor, if the only change scales something that has one name: a
    /// machine, a program, or a function.
    pub fn of_name(&self) -> Option<(&str, f64)> {
        let [Change::Scale { target, factor }] = &self.changes[..] else { return None };
        let is_whole = matches!(&target.ways[..], [(name, None)] if *name == target.text);
        // A name of C++ or Rust contains `::`, so that the function may look like a state.
        (is_whole || target.text.contains("::")).then_some((target.text.as_str(), *factor))
    }

    /// Returns the scenarios of a function that has these parts of states; `None` if none of them
    /// can be scaled.
    pub fn of_function(&self, factor: f64, states: &[Within]) -> Option<[Scenario; SCENARIOS]> {
        let of = |part: fn(&Within) -> f64| {
            let scaled = |it: &Within| Scenario::scale(&it.class, &it.state, 1.0 - part(it) * (1.0 - factor));
            let all = states.iter().filter(|it| it.is_scalable).take(MAX_STATES).map(scaled).reduce(|all, next| all.with(&next))?;
            Some(Scenario { text: self.text.clone(), changes: all.changes })
        };
        Some([of(|it| it.part)?, of(|it| it.low)?, of(|it| it.high)?])
    }
}

/// Returns why a function that has only these parts of states cannot be scaled.
pub fn only_waits(function: &str, states: &[Within]) -> String {
    let names: Vec<String> = states.iter().take(MAX_NAMED).map(|it| format!("{}::{}", it.class, it.state)).collect();
    let more = if states.len() > MAX_NAMED { ", …" } else { "" };
    let names = names.join(", ");
    format!("{function} only waits on the path ({names}{more}): its time depends on what it waits for; change that instead")
}

/// Returns the prediction with the interval of those with the ends of the parts' intervals.
pub fn joined(estimated: Prediction, ends: &[Prediction]) -> Prediction {
    let all = || ends.iter().chain([&estimated]);
    let low = all().map(|it| it.gain_low).reduce(|a, b| Some(a?.min(b?))).flatten();
    let high = all().map(|it| it.gain_high).reduce(|a, b| Some(a?.max(b?))).flatten();
    Prediction { gain_low: low, gain_high: high, ..estimated }
}
