//! Changes of functions: their shares of the critical path, by sampled stacks.

use super::MIN_SHARE;
use crate::compare::change::Change;
use crate::critical_path::samples::CriticalFunction;
use crate::scheduling::time_kind::TimeKind;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Process, function, and whether it runs or for what it waits.
type Name = (String, String, TimeKind);

/// Shares of functions with the bounds of their intervals.
#[derive(Clone, Debug, Default)]
pub(super) struct FunctionShares(BTreeMap<Name, [f64; 3]>);

/// Change of a function's share of the critical path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FunctionChange {
    pub process: String,
    pub function: String,
    pub time: TimeKind,
    pub share_a: f64,
    pub share_b: f64,
    #[serde(flatten)]
    pub change: Change,
    pub certain: bool,
}

impl FunctionShares {
    pub(super) fn of(functions: &[CriticalFunction]) -> FunctionShares {
        let mut shares: BTreeMap<Name, [f64; 3]> = BTreeMap::new();
        for row in functions.iter().filter(|row| row.path_samples > 0) {
            let sums = shares.entry((row.process.clone(), row.function.clone(), row.time)).or_default();
            sums.iter_mut().zip([row.share, row.low, row.high]).for_each(|(sum, value)| *sum += value);
        }
        FunctionShares(shares)
    }
}

/// Returns the changes from `a` to `b`, the largest certain one first. The interval of a difference
/// is Newcombe's, from the intervals of the two shares.
pub(super) fn changes(a: &FunctionShares, b: &FunctionShares, may_be_certain: bool) -> Vec<FunctionChange> {
    if a.0.is_empty() || b.0.is_empty() {
        return Vec::new();
    }
    let names: BTreeSet<&Name> = a.0.keys().chain(b.0.keys()).collect();
    let of = |side: &FunctionShares, name: &Name| side.0.get(name).copied().unwrap_or_default();
    let change = |name: &Name| {
        let ([from, from_low, from_high], [to, to_low, to_high]) = (of(a, name), of(b, name));
        let change = to - from;
        let change = Change {
            change,
            low: Some(change - (to - to_low).hypot(from_high - from)),
            high: Some(change + (to_high - to).hypot(from - from_low)),
        };
        let (process, function, time) = name.clone();
        let certain = may_be_certain && change.is_certain() && change.change.abs() >= MIN_SHARE;
        FunctionChange { process, function, time, share_a: from, share_b: to, change, certain }
    };
    let mut changes: Vec<FunctionChange> = names.into_iter().map(change).collect();
    changes.sort_by(|x, y| y.certain.cmp(&x.certain).then(y.change.change.abs().total_cmp(&x.change.change.abs())));
    changes
}
