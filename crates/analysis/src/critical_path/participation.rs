//! Which state has the critical path at which time: its share of each of equal windows, and whether what is first stays first when one looks elsewhere.
//!
//! A whole run has one path; what it goes through changes as the load does. Links are states of their queue here, machines of one class are one.

use crate::critical_path::path_windows::Cut;
use crate::critical_path::Numbered;
use crate::critical_path::{Answer, Kind, Path};
use crate::findings::Evidence;
use serde::Serialize;

/// Windows of a path: a line on any terminal.
pub const WINDOWS: usize = 60;
/// States that are told apart; the others are one.
const MOST_ROWS: usize = 8;
/// Windows of a shifted part of the path: a quarter of it.
const PART: usize = WINDOWS / 4;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Participation {
    pub start_ns: u64,
    pub end_ns: u64,
    /// Windows of equal width.
    pub windows: usize,
    /// The states with the most of the path, the largest first.
    pub rows: Vec<Row>,
    /// All other states together, so that the shares of each window sum to 1.
    pub others: Vec<f64>,
    #[serde(skip)]
    all: Vec<State>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub machine: String,
    pub state: String,
    /// Of each window.
    pub shares: Vec<f64>,
}

/// A state on the path, with what findings ask for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    pub class: String,
    pub state: String,
    pub kind: Kind,
    pub ns: u64,
    pub share: f64,
    /// How often the path comes to it.
    pub count: u64,
    pub evidence: Evidence,
    windows: Vec<u64>,
}

impl Participation {
    pub fn new(answer: &Answer, path: &Path) -> Participation {
        let mut cut = Cut::new(answer, WINDOWS);
        let mut found: Vec<((&str, &str), Kind, u64, Vec<u64>)> = Vec::new();
        let mut names = Numbered::new(path.kinds());
        let mut last = None;
        for stretch in path.stretches() {
            let at = names.number(stretch.of, || path.class_and_state(stretch.of));
            if at == found.len() {
                found.push((path.class_and_state(stretch.of), path.kind(stretch.of), 0, vec![0; WINDOWS]));
            }
            let (.., count, windows) = &mut found[at];
            *count += u64::from(last.replace(stretch.of) != Some(stretch.of));
            cut.add(&stretch, windows);
        }
        let mut all: Vec<State> = found
            .into_iter()
            .map(|((class, state), kind, count, windows)| {
                let ns: u64 = windows.iter().sum();
                State {
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
        let rows = all.iter().take(MOST_ROWS);
        let rows = rows.map(|it| Row { machine: it.class.clone(), state: it.state.clone(), shares: cut.shares(&it.windows) }).collect();
        let mut others = vec![0; WINDOWS];
        for state in all.iter().skip(MOST_ROWS) {
            others.iter_mut().zip(&state.windows).for_each(|(sum, ns)| *sum += ns);
        }
        let (start_ns, end_ns) = (answer.start_ns, answer.start_ns + answer.length_ns);
        Participation { start_ns, end_ns, windows: WINDOWS, rows, others: cut.shares(&others), all }
    }

    pub(crate) fn states(&self) -> &[State] {
        &self.all
    }

    /// Of all parts of the path that are a quarter of it long, each a window later than the one before, the share of those in which this state has the most.
    /// None: it is not on the path.
    pub fn stability(&self, machine: &str, state: &str) -> Option<f64> {
        let of = self.all.iter().position(|it| it.class == machine && it.state == state)?;
        let parts = 0..=WINDOWS - PART;
        let count = parts.clone().count();
        let part = |state: &State, from: usize| state.windows[from..from + PART].iter().sum::<u64>();
        let first = parts.filter(|&from| {
            let own = part(&self.all[of], from);
            own > 0 && self.all.iter().enumerate().all(|(at, other)| at == of || part(other, from) <= own)
        });
        Some(first.count() as f64 / count as f64)
    }
}
