//! Conditions on a difference: their functions, the values of names in them, and which conditions
//! hold.

use super::{Diff, Failed, LatencyChange, StateChange, REMEDY};
use crate::stats::nearest::nearest;
use longpole_model::kinds::{LinkKind, StateKind};
use longpole_predicate::{Datum, Name, Predicate};

/// Largest number of suggestions for a name that does not occur.
const MAX_NAMED: usize = 5;

/// Functions of conditions, each with a description of its argument and value.
pub const FUNCTIONS: [(&str, &str); 7] = [
    ("criticality", "MACHINE::STATE or CLASS::STATE: the state's share of the second recording's critical path"),
    ("more_critical", "MACHINE::STATE or CLASS::STATE: by how much that share grew"),
    ("mean", "NAME of a call or span: its mean time in the second recording, in ns, in all threads together"),
    ("p99", "NAME: its 99th percentile in ns"),
    ("slower", "NAME: by how much its mean grew, relative to the first"),
    ("rate", "QUEUE: items per second"),
    ("less_rate", "QUEUE: by how much they fell, relative to the first"),
];

/// Splits a name in a condition, `criticality("worker::parse")`, into function and subject. The
/// error is a message for a function that does not exist, or without a subject.
fn function_and_subject(name: &Name) -> Result<(&str, &str), String> {
    let known = || FUNCTIONS.map(|(name, _)| name).join(", ");
    let function = name.name.as_str();
    if !FUNCTIONS.iter().any(|(name, _)| *name == function) {
        return Err(format!("there is no \"{function}\"; there are {}", known()));
    }
    match name.argument.as_deref() {
        Some(subject) if !subject.is_empty() => Ok((function, subject)),
        _ => Err(format!("{function} needs a name: {function}(\"NAME\")")),
    }
}

/// Returns an error if a condition uses unknown functions, before any trace is read.
pub fn check_functions(predicate: &Predicate) -> Result<(), String> {
    if predicate.names().is_empty() {
        return Err("the condition does not use the traces".to_owned());
    }
    predicate.names().iter().try_for_each(|name| function_and_subject(name).map(drop))
}

impl Diff {
    /// Returns the value of a name in a condition; `None` if its subject does not occur where
    /// needed.
    fn value(&self, name: &Name) -> Result<Option<f64>, String> {
        let (function, subject) = function_and_subject(name)?;
        let state = |value: fn(&StateChange) -> f64| self.lines_of(subject).into_iter().map(value).sum::<f64>();
        // A call, a span and a signal may have one name; then the largest value decides.
        let latency = |value: fn(&LatencyChange) -> Option<f64>| {
            self.together.iter().filter(|line| line.name == subject).filter_map(value).reduce(f64::max)
        };
        let queue = || self.queues.iter().find(|queue| queue.name == subject);
        Ok(match function {
            // A state that is not on the path has share 0.
            "criticality" => Some(state(|line| line.share_b)),
            "more_critical" => Some(state(|line| line.change.change)),
            "mean" => latency(|line| line.mean_b_ns),
            "p99" => latency(|line| line.p99_b_ns.map(|ns| ns as f64)),
            "slower" => latency(|line| line.change.map(|change| change.change)),
            "rate" => queue().and_then(|queue| queue.items_per_s_b),
            _ => queue().and_then(|queue| queue.change).map(|change| -change.change),
        })
    }

    /// Returns the changes of a state of a machine; if no machine has that name, of all machines of
    /// that class, or of the links of a call and its reply.
    fn lines_of(&self, subject: &str) -> Vec<&StateChange> {
        let named = |name: &str, state: &str| subject.strip_suffix(state).and_then(|rest| rest.strip_suffix("::")) == Some(name);
        match self.machines.iter().find(|line| named(&line.machine, &line.state)) {
            Some(line) => vec![line],
            None => {
                let is_of = |line: &&StateChange| line.owners.iter().any(|name| named(name, &line.state));
                self.machines.iter().filter(is_of).collect()
            }
        }
    }

    /// Adds the conditions that hold to `failed`. The error is a condition that cannot be decided,
    /// because its subject does not occur where it must or because too much is missing.
    pub fn check(&mut self, conditions: &[(String, Predicate)]) -> Result<(), String> {
        for (text, predicate) in conditions {
            let mut values = Vec::new();
            for name in predicate.names() {
                let value = self.occurs(name).and_then(|()| self.value(name)).and_then(|value| match value {
                    Some(value) => Ok(value),
                    None => Err(self.why_unknown(name)?),
                });
                values.push((name.to_string(), value.map_err(|error| format!("--fail-if {text}: {error}"))?));
            }
            if predicate.holds(|at| values.get(at).map_or(Datum::Unknown, |(_, value)| Datum::Real(*value))) {
                let values = values.into_iter().map(|(name, value)| (name, Some(value))).collect();
                self.failed.push(Failed { condition: text.clone(), values });
            }
        }
        Ok(())
    }

    fn occurs(&self, name: &Name) -> Result<(), String> {
        let (function, subject) = function_and_subject(name)?;
        let is_of_states = matches!(function, "criticality" | "more_critical");
        if self.path_only && !is_of_states {
            return Err(format!("{function}(…) cannot be evaluated: queues and latencies are not compared for machine logs"));
        }
        if let Some(why) = if is_of_states { self.obstacles.of_shares() } else { self.obstacles.of_times() } {
            return Err(format!("{function}(…) is unknown: {why}. {REMEDY}"));
        }
        let known: Vec<&str> = match function {
            "criticality" | "more_critical" => self.seen.iter().flatten().map(String::as_str).collect(),
            "rate" | "less_rate" => self.queues.iter().map(|queue| queue.name.as_str()).collect(),
            _ => self.together.iter().map(|line| line.name.as_str()).collect(),
        };
        if known.contains(&subject) {
            return match is_of_states && !self.is_in_second(subject) {
                true => Err(format!("nothing in the second trace has the name \"{subject}\", so its share is unknown")),
                false => Ok(()),
            };
        }
        let near: Vec<String> = nearest(subject, known, MAX_NAMED).into_iter().map(|name| format!("\"{name}\"")).collect();
        match near.is_empty() {
            true => Err(format!("there is no \"{subject}\" in either trace, nor anything else for {function}(…)")),
            false => Err(format!("there is no \"{subject}\" in either trace; the nearest: {}", near.join(", "))),
        }
    }

    /// Returns true if the subject's owner occurs in the second trace. The state itself need not
    /// occur, but if the machine is gone or has another name, a share of 0 would look like an
    /// improvement.
    fn is_in_second(&self, subject: &str) -> bool {
        let [_, second] = &self.seen;
        // States that every machine and every queue may have
        // ([`crate::critical_path::keys::name_index`]).
        let of_all = [StateKind::Run.text(), LinkKind::Queued.text()];
        let owner = |at| of_all.iter().flatten().any(|state| second.contains(&format!("{}::{state}", &subject[..at])));
        second.contains(subject) || subject.match_indices("::").any(|(at, _)| owner(at))
    }

    /// Returns the reason why something that occurs in one of the traces has no value.
    fn why_unknown(&self, name: &Name) -> Result<String, String> {
        let (function, subject) = function_and_subject(name)?;
        let lines = || self.together.iter().filter(|line| line.name == subject);
        let queue = self.queues.iter().find(|queue| queue.name == subject);
        let (first, second) = match function {
            "rate" | "less_rate" => {
                (queue.is_some_and(|it| it.items_per_s_a.is_some()), queue.is_some_and(|it| it.items_per_s_b.is_some()))
            }
            _ => (lines().any(|line| line.count_a > 0), lines().any(|line| line.count_b > 0)),
        };
        let lacks = match (first, second) {
            (_, false) => "it is not in the second trace",
            (false, true) => "it is not in the first trace",
            (true, true) => "it occurs too rarely to be compared",
        };
        Ok(format!("{function}(\"{subject}\") is unknown: {lacks}"))
    }
}
