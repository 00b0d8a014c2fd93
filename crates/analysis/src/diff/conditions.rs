//! Conditions on a difference: what they may ask for, what a name stands for, and which of them hold.

use super::{Diff, Failed, StateChange, REMEDY};
use crate::nearest::nearest;
use crate::standout::there_and_back;
use longpole_model::predicate::{Datum, Predicate};

/// Names that are told where one does not occur.
const MOST_NAMED: usize = 5;

/// What a condition may ask for, each with the name of its subject in parentheses.
pub const FUNCTIONS: [(&str, &str); 7] = [
    ("criticality", "MACHINE::STATE or CLASS::STATE: the state's share of the second recording's critical path"),
    ("more_critical", "MACHINE::STATE or CLASS::STATE: by how much that share grew"),
    ("mean", "NAME of a call or span: its mean time in the second recording, in ns"),
    ("p99", "NAME: its 99th percentile in ns"),
    ("slower", "NAME: by how much its mean grew, relative to the first"),
    ("rate", "QUEUE: items per second"),
    ("less_rate", "QUEUE: by how much they fell, relative to the first"),
];

/// The function and the subject of a name in a condition, `criticality("worker::parse")`. An error: it asks for what is not to be asked.
fn asked(name: &str) -> Result<(&str, &str), String> {
    let known = || FUNCTIONS.map(|(name, _)| name).join(", ");
    let (function, subject) = match name.split_once("(\"") {
        Some((function, rest)) => (function, rest.strip_suffix("\")")),
        None => (name, None),
    };
    if !FUNCTIONS.iter().any(|(name, _)| *name == function) {
        return Err(format!("there is no \"{function}\"; there are {}", known()));
    }
    match subject {
        Some(subject) if !subject.is_empty() => Ok((function, subject)),
        _ => Err(format!("{function} of what? {function}(\"NAME\") is how it is asked for")),
    }
}

/// Whether a condition asks only for what there is to ask for, before any trace is read.
pub fn can_be_asked(predicate: &Predicate) -> Result<(), String> {
    if predicate.names().is_empty() {
        return Err("it asks for nothing of the traces".to_owned());
    }
    predicate.names().iter().try_for_each(|name| asked(name).map(drop))
}

impl Diff {
    /// What a name of a condition stands for; none: it does not occur in the second recording.
    fn value(&self, name: &str) -> Result<Option<f64>, String> {
        let (function, subject) = asked(name)?;
        let state = |value: fn(&StateChange) -> f64| self.lines_of(subject).into_iter().map(value).sum::<f64>();
        let latency = || self.latency.iter().filter(|line| line.name == subject).max_by_key(|line| line.count_b);
        let queue = || self.queues.iter().find(|queue| queue.name == subject);
        Ok(match function {
            // A state that is not on the path has no share of it.
            "criticality" => Some(state(|line| line.share_b)),
            "more_critical" => Some(state(|line| line.change.change)),
            "mean" => latency().and_then(|line| line.mean_b_ns),
            "p99" => latency().and_then(|line| line.p99_b_ns).map(|ns| ns as f64),
            "slower" => latency().and_then(|line| line.change).map(|change| change.change),
            "rate" => queue().and_then(|queue| queue.items_per_s_b),
            _ => queue().and_then(|queue| queue.change).map(|change| -change.change),
        })
    }

    /// The state of a machine; where none is named so, of all machines of a class, or the way of a call there and back.
    fn lines_of(&self, subject: &str) -> Vec<&StateChange> {
        let named = |name: &str, state: &str| subject.strip_suffix(state).and_then(|rest| rest.strip_suffix("::")) == Some(name);
        match self.states.iter().find(|line| named(&line.machine, &line.state)) {
            Some(line) => vec![line],
            None => {
                let is_of =
                    |line: &&StateChange| [line.class.as_str(), there_and_back(&line.class)].iter().any(|name| named(name, &line.state));
                self.states.iter().filter(is_of).collect()
            }
        }
    }

    /// Notes which of the conditions hold. An error is a condition that could never hold: it asks for what occurs on neither side.
    pub fn check(&mut self, conditions: &[(String, Predicate)]) -> Result<(), String> {
        for (text, predicate) in conditions {
            let mut values = Vec::new();
            for name in predicate.names() {
                self.occurs(name).map_err(|error| format!("--fail-if {text}: {error}"))?;
                values.push((name.clone(), self.value(name)?));
            }
            if predicate.holds(|at| values.get(at).and_then(|(_, value)| *value).map_or(Datum::Unknown, Datum::Real)) {
                self.failed.push(Failed { condition: text.clone(), values });
            }
        }
        Ok(())
    }

    fn occurs(&self, name: &str) -> Result<(), String> {
        let (function, subject) = asked(name)?;
        let is_of_states = matches!(function, "criticality" | "more_critical");
        if self.path_only && !is_of_states {
            return Err(format!("{function}(…) cannot be told: queues and latencies are not compared for machine logs"));
        }
        if let (true, Some(why)) = (is_of_states, self.doubts.of_shares()) {
            return Err(format!("{function}(…) cannot be told: {why}. {REMEDY}"));
        }
        let known: Vec<&str> = match function {
            "criticality" | "more_critical" => self.seen.iter().map(String::as_str).collect(),
            "rate" | "less_rate" => self.queues.iter().map(|queue| queue.name.as_str()).collect(),
            _ => self.latency.iter().map(|line| line.name.as_str()).collect(),
        };
        if known.contains(&subject) {
            return Ok(());
        }
        let near: Vec<String> = nearest(subject, known, MOST_NAMED).into_iter().map(|name| format!("\"{name}\"")).collect();
        match near.is_empty() {
            true => Err(format!("there is no \"{subject}\" in either trace, nor anything else that {function}(…) could be asked of")),
            false => Err(format!("there is no \"{subject}\" in either trace; the nearest: {}", near.join(", "))),
        }
    }
}
