//! Participation: each state's share of the critical path in windows of equal width.
//!
//! A whole run has one path, but the states on it change as the load does. Participation shows when
//! a state is on the path, and whether the first state stays the first in other parts of the path
//! ([`Participation::stability`]). A link is a state of its queue here; machines of one class are
//! one.

use crate::critical_path::path_windows::Cut;
use crate::critical_path::Numbered;
use crate::critical_path::{Answer, Kind, Path};
use crate::stats::evidence::Evidence;
use serde::Serialize;

/// Number of windows; their bars fit into one line of any terminal.
pub const WINDOWS: usize = 60;
/// Largest number of states in rows of their own; the others are summed up.
const MAX_ROWS: usize = 8;
/// Width of a part of the path for [`Participation::stability`], in windows: a quarter of the path.
const PART: usize = WINDOWS / 4;

/// Shares of the critical path over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Participation {
    pub start_ns: u64,
    pub end_ns: u64,
    /// Number of windows, all of equal width.
    pub windows: usize,
    /// States with the most time on the path, descending, at most 8.
    pub rows: Vec<ParticipationRow>,
    /// Shares of all other states together, so that the shares of each window sum to 1.
    pub others: Vec<f64>,
    #[serde(skip)]
    all: Vec<PathState>,
}

/// One state, with its shares of the windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParticipationRow {
    pub machine: String,
    pub state: String,
    /// Share of each window, 0 to 1.
    pub shares: Vec<f64>,
}

/// A state on the path, with the values that findings use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathState {
    pub class: String,
    pub state: String,
    pub kind: Kind,
    pub ns: u64,
    pub share: f64,
    /// Number of visits of the path to this state.
    pub count: u64,
    pub evidence: Evidence,
    windows: Vec<u64>,
}

impl Participation {
    pub fn new(answer: &Answer, path: &Path) -> Participation {
        let mut cut = Cut::new(answer, WINDOWS);
        let mut found: Vec<((&str, &str), Kind, u64, Vec<u64>)> = Vec::new();
        let mut names = Numbered::new(path.key_count());
        let mut last = None;
        for stretch in path.stretches() {
            let at = names.number(stretch.key, || path.class_and_state(stretch.key));
            if at == found.len() {
                found.push((path.class_and_state(stretch.key), path.kind(stretch.key), 0, vec![0; WINDOWS]));
            }
            let (.., count, windows) = &mut found[at];
            *count += u64::from(last.replace(stretch.key) != Some(stretch.key));
            cut.add(&stretch, windows);
        }
        let mut all: Vec<PathState> = found
            .into_iter()
            .map(|((class, state), kind, count, windows)| {
                let ns: u64 = windows.iter().sum();
                PathState {
                    class: class.to_owned(),
                    state: state.to_owned(),
                    kind,
                    ns,
                    share: ns as f64 / cut.length() as f64,
                    count,
                    evidence: cut.evidence(&windows),
                    windows,
                }
            })
            .collect();
        all.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| (&a.class, &a.state).cmp(&(&b.class, &b.state))));
        let rows = all.iter().take(MAX_ROWS);
        let rows = rows
            .map(|it| ParticipationRow { machine: it.class.clone(), state: it.state.clone(), shares: cut.shares(&it.windows) })
            .collect();
        let mut others = vec![0; WINDOWS];
        for state in all.iter().skip(MAX_ROWS) {
            others.iter_mut().zip(&state.windows).for_each(|(sum, ns)| *sum += ns);
        }
        let (start_ns, end_ns) = (answer.start_ns, answer.start_ns + answer.length_ns);
        Participation { start_ns, end_ns, windows: WINDOWS, rows, others: cut.shares(&others), all }
    }

    pub(crate) fn states(&self) -> &[PathState] {
        &self.all
    }

    /// Returns the share of all quarters of the path in which this state has the most time. The
    /// quarters overlap: each begins one window after the previous one. `None` if the state is not
    /// on the path.
    pub fn stability(&self, machine: &str, state: &str) -> Option<f64> {
        let of = self.all.iter().position(|it| it.class == machine && it.state == state)?;
        let parts = 0..=WINDOWS - PART;
        let count = parts.clone().count();
        let part = |state: &PathState, from: usize| state.windows[from..from + PART].iter().sum::<u64>();
        let first = parts.filter(|&from| {
            let own = part(&self.all[of], from);
            own > 0 && self.all.iter().enumerate().all(|(at, other)| at == of || part(other, from) <= own)
        });
        Some(first.count() as f64 / count as f64)
    }
}
