//! The dependence of the verdict on each of its constants.
//!
//! For each varied constant, the judgement and the choice of the path are repeated. The division of
//! processes into subjects, the division of the path among them, and the pairs of changes that are
//! tried do not vary.

use super::data::Verdict;
use super::limits::Limits;
use super::Case;
use serde::Serialize;

/// Relative change of a constant.
const CHANGE: f64 = 0.2;

/// A constant that, made a fifth smaller or larger, changes the verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitive {
    pub constant: String,
    pub factor: f64,
    /// Verdict with the changed constant. `None` if another thread then counts as the receiver of
    /// the replies, so that the verdict would be about another path.
    pub text: Option<String>,
}

/// The limits with one constant changed.
pub struct Variation {
    constant: String,
    factor: f64,
    limits: Limits,
    is_same_path: bool,
}

/// Returns all variations of the constants. `is_same_path` tells whether the path leads to the same
/// thread with the given limits.
pub fn variations(limits: &Limits, is_same_path: impl Fn(&Limits) -> bool) -> Vec<Variation> {
    let variation = |(constant, factor, limits)| Variation { constant, factor, is_same_path: is_same_path(&limits), limits };
    limits.varied(CHANGE).map(variation).collect()
}

/// Returns the variations with which the verdict of the case changes.
pub fn sensitivity(case: &Case<'_>, verdict: &Verdict, variations: Vec<Variation>) -> Vec<Sensitive> {
    let sensitive = |Variation { constant, factor, limits, is_same_path }| {
        if !is_same_path {
            return Some(Sensitive { constant, factor, text: None });
        }
        let other = Case { limits: &limits, ..case.clone() }.verdict();
        (!are_same(&other, verdict)).then_some(Sensitive { constant, factor, text: Some(other.text()) })
    };
    variations.into_iter().filter_map(sensitive).collect()
}

/// Returns whether an engineer would act the same way on both verdicts.
fn are_same(a: &Verdict, b: &Verdict) -> bool {
    fn answer(of: &Verdict) -> impl PartialEq + '_ {
        (of.outcome, &of.subject, of.state.as_ref().map(|state| &state.kind), of.mechanism)
    }
    answer(a) == answer(b)
}
