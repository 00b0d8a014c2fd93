//! The constants that decide the verdict. Those of [`Limits`] are read from `rules/verdict.toml`,
//! which gives the reason for each, and `--sensitivity` varies them. The others are constants, each
//! with its reason: [`MAX_LOST_SHARE`] and [`MAX_CONTRADICTORY_SHARE`] turn a verdict into one of
//! unknown outcome, those after them decide on caveats and on what is named, and limits of single
//! searches are next to them. The constants of verdicts without processes are `[path]` and
//! `[stages]` in `rules/findings.toml`. None of these are varied.

use longpole_model::rules::{self, RuleError};
use serde::{Deserialize, Serialize};
use toml::Value;

/// Largest share of lost events at which the absence of a result is still meaningful.
pub(super) const MAX_LOST_SHARE: f64 = 0.01;

/// Largest share of interactions that contradict earlier ones, or end before they begin. With more,
/// the path does not show what happened.
pub(super) const MAX_CONTRADICTORY_SHARE: f64 = 1e-5;

/// Least share of the path from which on a subject is related to it. The CPU time of others is that
/// of unrelated programs.
pub(super) const MIN_SHARE_OF_RELATED: f64 = 0.01;

/// If all machines outside of the first class have a smaller share of the path, they are not
/// evidence that a machine waits for another one: a page that is read once wakes an interrupt, too.
pub(super) const MIN_SHARE_OF_OTHERS: f64 = 0.01;

/// Least part of a state's time that one machine of a class must have to be named in place of the
/// class.
pub(super) const MIN_PART_OF_MACHINE: f64 = 0.9;

/// Least part of the first state's share that another one must have to take turns with it: two
/// states that differ by more than a factor of two are not equally slow.
pub(super) const MIN_PART_OF_RIVAL: f64 = 0.5;

/// Least part of a class's waiting for CPUs during which one is idle. With more, another CPU does
/// not help.
pub(super) const MIN_IDLE_PART: f64 = 0.5;

/// Least share of the path of a class from which on the class is named with its own share, and
/// the largest part of that share that its first state may then have.
pub(super) const MIN_WHOLE_SHARE: f64 = 0.6;
pub(super) const MAX_PART_OF_WHOLE: f64 = 0.75;

/// Least share of a stage's time for which it must wait to be stated as a waiting neighbour.
pub(super) const MIN_NEIGHBOUR_WAIT: f64 = 0.05;

/// The constants that `--sensitivity` varies. `rules/verdict.toml` gives the meaning of, and the
/// reason for, each.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub min_lead: f64,
    pub min_share: f64,
    pub majority: f64,
    pub max_unknown: f64,
    pub left_out_at_ends: f64,
    pub min_connected_share: f64,
    pub min_occurrences: u64,
    pub min_repetitions: u64,
    pub max_similar_ratio: f64,
    pub min_waiting: f64,
    pub max_idle_share: f64,
    pub min_gain: f64,
    pub considerable_share: f64,
    pub min_fault_share: f64,
    pub min_varying_roles: usize,
}

impl Limits {
    /// Returns the constants that are part of the program.
    pub fn built_in() -> Result<Limits, RuleError> {
        rules::parse("verdict.toml", include_str!("../../rules/verdict.toml"))
    }

    /// Returns copies of these limits, each with one constant smaller or larger by the factor
    /// `change` (0.2: a fifth), with the name of the constant and its factor. Counts change by at
    /// least one.
    pub fn varied(&self, change: f64) -> impl Iterator<Item = (String, f64, Limits)> {
        let all = toml::Table::try_from(self).unwrap_or_default();
        let names: Vec<String> = all.keys().cloned().collect();
        names.into_iter().flat_map(move |name| [1.0 - change, 1.0 + change].map(|factor| (name.clone(), factor))).filter_map(
            move |(name, factor)| {
                let mut varied = all.clone();
                let value = varied.get_mut(&name)?;
                *value = match *value {
                    Value::Float(value) => Value::Float(value * factor),
                    Value::Integer(value) if factor < 1.0 => Value::Integer((value as f64 * factor).floor() as i64),
                    Value::Integer(value) => Value::Integer((value as f64 * factor).ceil() as i64),
                    _ => return None,
                };
                Some((name, factor, varied.try_into().ok()?))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_constant_is_varied_alone_in_both_directions() {
        let built_in = Limits::built_in().unwrap();
        let all = toml::Table::try_from(&built_in).unwrap();
        let varied: Vec<_> = built_in.varied(0.2).collect();
        assert_eq!(varied.len(), 2 * all.len());
        for (name, factor, limits) in varied {
            let number = |value: &Value| value.as_float().unwrap_or_else(|| value.as_integer().unwrap() as f64);
            for (other, value) in toml::Table::try_from(&limits).unwrap() {
                let expected = number(&all[&other]) * if other == name { factor } else { 1.0 };
                let most = if value.is_integer() { 1.0 } else { 1e-9 };
                assert!((number(&value) - expected).abs() < most, "{name} x{factor}: {other} is {value}");
            }
        }
    }
}
