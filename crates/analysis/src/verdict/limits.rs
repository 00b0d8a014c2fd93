//! The constants that decide the verdict. They are read from `rules/verdict.toml`, which gives the
//! reason for each.

use longpole_model::rules::{self, RuleError};
use serde::{Deserialize, Serialize};
use toml::Value;

/// The constants. `rules/verdict.toml` gives the meaning of, and the reason for, each.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub lead: f64,
    pub least_share: f64,
    pub most: f64,
    pub max_unknown: f64,
    pub left_out_at_ends: f64,
    pub connected_share: f64,
    pub least_replies: u64,
    pub many_replies: u64,
    pub similar: f64,
    pub waiters: f64,
    pub idle_share: f64,
    pub min_gain: f64,
    pub considerable: f64,
    pub fault_share: f64,
    pub least_alike: usize,
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
