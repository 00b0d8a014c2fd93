//! The constants that decide the verdict, read from `rules/verdict.toml`, where each has its reason.

use longpole_model::rules::{self, RuleError};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub lead: f64,
    pub least_share: f64,
    pub most: f64,
    pub max_unknown: f64,
    pub timed_share: f64,
    pub left_out_at_ends: f64,
    pub connected_share: f64,
    pub least_replies: u64,
    pub waiters: f64,
    pub idle_share: f64,
    pub min_gain: f64,
    pub considerable: f64,
    pub fault_share: f64,
}

impl Limits {
    pub fn built_in() -> Result<Limits, RuleError> {
        rules::parse("verdict.toml", include_str!("../../rules/verdict.toml"))
    }
}
