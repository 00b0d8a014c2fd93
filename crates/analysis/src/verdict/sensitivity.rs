//! How far the verdict depends on each of its constants.
//!
//! The judgement and the choice of the path are tried again. Who is one subject, how the path is
//! divided among the subjects, and which pairs are tried stay as they are.

use super::data::Verdict;
use super::limits::Limits;
use super::Case;
use serde::Serialize;

/// By how much a constant is changed.
const CHANGE: f64 = 0.2;

/// A constant with which, when it is a fifth smaller or larger, the verdict is another one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitive {
    pub constant: String,
    pub factor: f64,
    /// The verdict with it. None: it is that of another path, since another thread counts as the
    /// one that gets the replies.
    pub text: Option<String>,
}

/// The constants with one of them changed.
pub struct Variation {
    constant: String,
    factor: f64,
    limits: Limits,
    is_same_path: bool,
}

/// All variations of the constants. `is_same_path` says whether the path with other ones leads to
/// the same thread.
pub fn variations(limits: &Limits, is_same_path: impl Fn(&Limits) -> bool) -> Vec<Variation> {
    let variation = |(constant, factor, limits)| Variation { constant, factor, is_same_path: is_same_path(&limits), limits };
    limits.varied(CHANGE).map(variation).collect()
}

/// Those with which the verdict of the case is another one.
pub fn sensitivity(case: &Case<'_>, verdict: &Verdict, variations: Vec<Variation>) -> Vec<Sensitive> {
    let sensitive = |Variation { constant, factor, limits, is_same_path }| {
        if !is_same_path {
            return Some(Sensitive { constant, factor, text: None });
        }
        let other = Case { limits: &limits, ..case.clone() }.judge();
        (!are_same(&other, verdict)).then_some(Sensitive { constant, factor, text: Some(other.text()) })
    };
    variations.into_iter().filter_map(sensitive).collect()
}

/// Whether an engineer would do the same after both.
fn are_same(a: &Verdict, b: &Verdict) -> bool {
    fn answer(of: &Verdict) -> impl PartialEq + '_ {
        (of.outcome, &of.subject, of.state.as_ref().map(|state| &state.kind), of.mechanism)
    }
    answer(a) == answer(b)
}
