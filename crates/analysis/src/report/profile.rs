//! The code at which a profiler would have pointed, and its disagreement with the critical path: by
//! the functions of stack samples if there are any, otherwise by the running time of states.
//!
//! A profiler ranks code by the time that it runs. The critical path ranks it by the time that
//! nothing else could have hidden. Example: a logger that computes all the time next to a
//! server tops the profile and has nothing of the path; it is busy, but hardly critical.

use crate::critical_path::samples::CriticalFunction;
use crate::critical_path::{Profiled, Row};
use crate::report::Report;
use crate::what_if::{Prediction, Scenario};

/// Share of the path below which a state is called hardly critical.
const HARDLY_CRITICAL: f64 = 0.05;
/// Share of the running time, or of the path, below which a state is not mentioned.
const WORTH_A_WORD: f64 = 0.1;
/// Number of top entries that a user of a profiler would look at.
const LOOKED_AT: usize = 5;

/// What a user of a profiler would take for the bottleneck.
#[derive(Clone, Copy, Debug)]
pub enum TopOfProfile<'a> {
    /// The function with the most samples, and the numbers of all samples and of those on the path.
    Function { function: &'a CriticalFunction, samples: u64, on_path: u64 },
    /// The state with the most running time.
    State(&'a Profiled),
    /// The state with the most time; the trace does not show whether a thread ran or waited in it.
    StateOrWait(&'a Profiled),
    /// Nothing runs.
    Nothing,
}

/// Returns the top of the profile.
pub fn top(report: &Report) -> TopOfProfile<'_> {
    let functions = functions(report).unwrap_or_default();
    let profiled = functions.iter().filter(|it| it.profile_rank.is_some());
    if let Some(function) = profiled.clone().min_by_key(|it| it.profile_rank) {
        let samples = profiled.clone().map(|it| it.profile_samples).sum();
        let on_path = profiled.map(|it| it.path_samples).sum();
        return TopOfProfile::Function { function, samples, on_path };
    }
    match report.path.as_ref().and_then(|path| path.profile.first()) {
        Some(state) if report.inputs.tells_running => TopOfProfile::State(state),
        Some(state) => TopOfProfile::StateOrWait(state),
        None => TopOfProfile::Nothing,
    }
}

/// Returns true if the trace does not show whether the time that the change shortens is work or a
/// wait.
pub fn may_be_wait(report: &Report, prediction: &Prediction) -> bool {
    let rows = report.criticality.iter().flatten().filter(|row| row.profile_rank.is_some());
    let owners = rows.flat_map(|row| [(&row.class, &row.state), (&row.machine, &row.state)]);
    !report.inputs.tells_running && owners.into_iter().any(|(owner, state)| prediction.is_of(&Scenario::scale(owner, state, 0.5)))
}

/// Returns the sampled functions; `None` if the trace has no samples.
pub fn functions(report: &Report) -> Option<&[CriticalFunction]> {
    report.functions.as_deref().filter(|functions| !functions.is_empty())
}

/// A part of the critical path that is not visible in a profile.
#[derive(Clone, Copy, Debug)]
pub enum Hidden<'a> {
    Function(&'a CriticalFunction),
    /// A state of a class, which a profile counts as one: its share of the path, and its rank and
    /// share in the profile. `row` is the row of one machine of the class.
    State {
        row: &'a Row,
        share: f64,
        profile_rank: u64,
        profile_share: f64,
    },
}

/// A part of the profile's top that is hardly critical.
#[derive(Clone, Copy, Debug)]
pub enum Busy<'a> {
    Function(&'a CriticalFunction),
    State(&'a Profiled),
}

/// Returns what is critical but not visible in a profile, and what is at the top of a profile but
/// hardly critical. Both are empty if the trace does not show when threads run: the state with most
/// of the time may then have been a wait.
pub fn discordant(report: &Report) -> (Vec<Hidden<'_>>, Vec<Busy<'_>>) {
    match (functions(report), &report.path) {
        (Some(functions), _) => {
            let busy = busy_functions(functions).into_iter().map(Busy::Function).collect();
            (hidden_functions(functions).map(Hidden::Function).collect(), busy)
        }
        (None, Some(path)) if report.inputs.tells_running => {
            (hidden_states(report.criticality.as_deref().unwrap_or_default()), busy_states(&path.profile).map(Busy::State).collect())
        }
        (None, _) => (Vec::new(), Vec::new()),
    }
}

/// Returns the functions at the top of the profile that are hardly critical.
pub fn busy_functions(functions: &[CriticalFunction]) -> Vec<&CriticalFunction> {
    let is_busy = |row: &&CriticalFunction| {
        let (Some(rank), Some(share)) = (row.profile_rank, row.profile_share) else { return false };
        rank <= LOOKED_AT as u64 && share >= HARDLY_CRITICAL && row.high < 0.5 * share
    };
    functions.iter().filter(is_busy).collect()
}

fn hidden_functions(functions: &[CriticalFunction]) -> impl Iterator<Item = &CriticalFunction> {
    let is_hidden = |row: &&CriticalFunction| {
        let (Some(rank), Some(share)) = (row.profile_rank, row.profile_share) else { return false };
        rank > 1 && row.low >= HARDLY_CRITICAL && share < 0.5 * row.low
    };
    functions.iter().filter(is_hidden).take(LOOKED_AT)
}

fn busy_states(profile: &[Profiled]) -> impl Iterator<Item = &Profiled> {
    let is_busy = |it: &&Profiled| it.profile_share >= WORTH_A_WORD && it.path_share < HARDLY_CRITICAL;
    profile.iter().take(LOOKED_AT).filter(is_busy)
}

fn hidden_states(rows: &[Row]) -> Vec<Hidden<'_>> {
    // A profile counts all machines of a class as one.
    let mut sums: Vec<(&Row, f64)> = Vec::new();
    for row in rows.iter().filter(|row| row.profile_rank.is_some()) {
        match sums.iter().position(|(of, _)| (&of.class, &of.state) == (&row.class, &row.state)) {
            Some(at) => sums[at].1 += row.share,
            None if sums.len() < 4 * LOOKED_AT => sums.push((row, row.share)),
            None => {}
        }
    }
    let mut hidden = Vec::new();
    for (row, share) in sums {
        let (Some(profile_rank), Some(profile_share)) = (row.profile_rank, row.profile_share) else { continue };
        if profile_rank > 1 && share >= WORTH_A_WORD && profile_share < 0.5 * share {
            hidden.push(Hidden::State { row, share, profile_rank, profile_share });
        }
    }
    hidden.truncate(LOOKED_AT);
    hidden
}
