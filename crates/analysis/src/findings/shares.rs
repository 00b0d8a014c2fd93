//! The shares of a machine's states in its work, without the probes' own cost, each with its error.
//!
//! Work is a machine's time without waits and without losses. Two more parts are left out:
//! exceptionally long stays, in which the thread was probably not running, and states that wake
//! others once per batch. Both depend on the scheduler and not on the machine.

use super::stage_evidence::{Prepared, StageEvidence};
use crate::scheduling::probed::state_name;
use crate::stats::distinct::OTHER_NAMES;
use crate::stats::evidence::Evidence;
use crate::stats::windows::net;
use longpole_model::actors::ActorId;
use longpole_model::system::activity::{Cell, State, Total};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Number of long stays below which they prove nothing about their state.
const MIN_OWN_LONGS: u64 = 20;

/// A state of one machine by name, with its net time.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub name: String,
    pub state: State,
    pub ns: u64,
    /// Time of long stays, in which the thread was probably not running; not part of `ns`.
    pub interrupted_ns: u64,
    pub share: f64,
    pub error: f64,
    pub evidence: Evidence,
    pub named: bool,
    /// True for the sum of very many names beyond the limit.
    pub gathered: bool,
    /// True for a span of which other spans take most: its own time is what remains between them.
    pub enclosing: bool,
}

impl StageEvidence<'_> {
    /// Returns the work of a machine by state names, the longest first. It is computed once per
    /// machine.
    pub(crate) fn shares(&self, prepared: &Prepared, machine: ActorId) -> Rc<Vec<Share>> {
        if let Some(known) = prepared.shares.borrow().get(&machine) {
            return Rc::clone(known);
        }
        let shares = Rc::new(self.compute_shares(prepared, machine));
        prepared.shares.borrow_mut().insert(machine, Rc::clone(&shares));
        shares
    }

    /// Takes time proportional to the machine's cells times the windows: names may be made at run
    /// time, so there may be very many.
    fn compute_shares(&self, prepared: &Prepared, machine: ActorId) -> Vec<Share> {
        let cells = self.step_pass.activity.cells();
        let totals = self.step_pass.activity.totals();
        let mut found: Vec<(String, State, Vec<usize>)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for &at in prepared.cells_of(machine) {
            let state = cells[at].state;
            if state.is_idle() || state == State::Lost || totals[at].ns == 0 {
                continue;
            }
            let name = state_name(self.vocabulary, state);
            match places.get(&name) {
                Some(&place) => {
                    let (_, known, members) = &mut found[place];
                    members.push(at);
                    // A call within a span of the same name counts as the call.
                    if matches!(state, State::Call(_)) {
                        *known = state;
                    }
                }
                None => {
                    places.insert(name.clone(), found.len());
                    found.push((name, state, vec![at]));
                }
            }
        }
        found.retain(|(_, _, members)| !self.is_waking(machine, members));
        let all: Vec<usize> = found.iter().flat_map(|(.., members)| members.iter().copied()).collect();
        let own = self.own_long_stays(&all, &found.iter().map(|(.., members)| members.as_slice()).collect::<Vec<_>>());
        let sum = |added: &[Total], members: &[usize]| -> u64 {
            let net = |&at: &usize| {
                let total = added.get(at).copied().unwrap_or_default();
                net(if own.contains(&at) { total } else { without_long_stays(total) }, self.probe_cost_ps)
            };
            members.iter().map(net).sum()
        };
        let work = sum(totals, &all);
        // Windows in which the machine worked, with its working time.
        let windows: Vec<_> =
            prepared.windows.iter().map(|window| (window, sum(&window.added, &all))).filter(|&(_, worked)| worked > 0).collect();
        let mut shares: Vec<Share> = found
            .iter()
            .map(|(name, state, members)| {
                let ns = sum(totals, members);
                let share = if work > 0 { ns as f64 / work as f64 } else { 0.0 };
                let mut squares = 0.0;
                let mut best = (0, prepared.whole);
                for &(window, worked) in &windows {
                    let part = sum(&window.added, members);
                    squares += (part as f64 - share * worked as f64).powi(2);
                    if part > best.0 {
                        best = (part, Evidence { start_ns: window.begin_ns, end_ns: window.end_ns });
                    }
                }
                let error = error_of_ratio(squares, windows.len(), work);
                Share {
                    name: name.clone(),
                    state: *state,
                    ns,
                    interrupted_ns: members.iter().map(|&at| net(totals[at], self.probe_cost_ps)).sum::<u64>().saturating_sub(ns),
                    share,
                    error,
                    evidence: best.1,
                    gathered: name == OTHER_NAMES,
                    named: !matches!(state, State::Run | State::Lost),
                    enclosing: ns < self.latencies.inner_ns(machine, *state),
                }
            })
            .collect();
        shares.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
        shares
    }

    /// Returns the error of a share that lies within some of a machine's cells. It follows from the
    /// spread of these cells over the run: their time per window is known, that of the share itself
    /// is not.
    pub(crate) fn error_within(&self, prepared: &Prepared, machine: ActorId, cells: &[usize], share: f64) -> Option<f64> {
        let known = self.step_pass.activity.cells();
        let works = |at: usize| !known[at].state.is_idle() && known[at].state != State::Lost;
        let all: Vec<usize> = prepared.cells_of(machine).iter().copied().filter(|&at| works(at)).collect();
        let sum = |added: &[Total], cells: &[usize]| -> u64 {
            let of = |&at: &usize| net(without_long_stays(added.get(at).copied().unwrap_or_default()), self.probe_cost_ps);
            cells.iter().map(of).sum()
        };
        let totals = self.step_pass.activity.totals();
        let (part, work) = (sum(totals, cells), sum(totals, &all));
        if part == 0 || work == 0 {
            return None;
        }
        let ratio = part as f64 / work as f64;
        let windows = prepared.windows.iter().map(|window| (sum(&window.added, cells), sum(&window.added, &all)));
        let squares: Vec<f64> =
            windows.filter(|&(_, worked)| worked > 0).map(|(part, worked)| (part as f64 - ratio * worked as f64).powi(2)).collect();
        Some((share * error_of_ratio(squares.iter().sum(), squares.len(), work) / ratio).min(1.0))
    }

    /// Returns the cells whose long stays count as their own time. A thread that is not running may
    /// be interrupted in any state, so interruptions are spread over its states like its time. A
    /// state with far more than its share of them is slow by itself now and then.
    fn own_long_stays(&self, all: &[usize], groups: &[&[usize]]) -> HashSet<usize> {
        let totals = self.step_pass.activity.totals();
        let sums = |members: &[usize]| {
            members
                .iter()
                .map(|&at| totals[at])
                .fold((0u64, 0u64), |(usual, longs), total| (usual + total.ns - total.long_ns, longs + total.longs))
        };
        let (usual, all_longs) = sums(all);
        let mut own = HashSet::new();
        for members in groups {
            let (part, longs) = sums(members);
            let expected = part as f64 / usual.max(1) as f64;
            let found = longs as f64 / all_longs.max(1) as f64;
            if longs >= MIN_OWN_LONGS && found >= 3.0 * expected + 0.2 {
                own.extend(members.iter().copied());
            }
        }
        own
    }

    /// Returns the share of a machine's time without waits that is outside of all named states, or
    /// lost.
    pub(crate) fn unknown_share(&self, machine: ActorId, shares: &[Share]) -> f64 {
        let lost = self.total_of(Cell { actor: machine, state: State::Lost }).ns;
        let work: u64 = shares.iter().map(|share| share.ns).sum();
        let unnamed: u64 = shares.iter().filter(|share| !share.named).map(|share| share.ns).sum();
        let cells = self.step_pass.activity.cells().iter().zip(self.step_pass.activity.totals());
        let all: u64 = cells
            .filter(|(cell, _)| cell.actor == machine && !cell.state.is_idle() && cell.state != State::Lost)
            .map(|(_, total)| net(*total, self.probe_cost_ps))
            .sum();
        let interrupted = all.saturating_sub(work);
        (lost + unnamed + interrupted) as f64 / (lost + work + interrupted).max(1) as f64
    }

    /// Returns the share of the same time that is lost or interrupted. Time outside of named states
    /// was at least observed.
    pub(crate) fn unseen_share(&self, machine: ActorId, shares: &[Share]) -> f64 {
        let lost = self.total_of(Cell { actor: machine, state: State::Lost }).ns;
        let interrupted: u64 = shares.iter().map(|share| share.interrupted_ns).sum();
        let work: u64 = shares.iter().map(|share| share.ns).sum();
        (lost + interrupted) as f64 / (lost + work + interrupted).max(1) as f64
    }

    /// Returns whether a state wakes others once per batch. The woken thread may take the CPU, so
    /// this time depends on the scheduler rather than on the state, and is left out of the work as
    /// interruptions are. Signals per item are not left out.
    fn is_waking(&self, machine: ActorId, members: &[usize]) -> bool {
        let Some(stage) = self.stages.of(machine) else { return false };
        let (cells, totals) = (self.step_pass.activity.cells(), self.step_pass.activity.totals());
        let usual = |total: Total| net(without_long_stays(total), self.probe_cost_ps) as f64;
        let own: f64 = members.iter().map(|&at| usual(totals[at])).sum();
        let signalling: f64 = members.iter().filter_map(|&at| stage.signalling.get(&cells[at].state)).map(|&total| usual(total)).sum();
        let thresholds = &self.rules.stages;
        signalling > thresholds.min_signalling * own
            && stage.inner_signals_per_item().is_some_and(|per_item| per_item < thresholds.min_calls)
    }

    fn total_of(&self, wanted: Cell) -> Total {
        let cells = self.step_pass.activity.cells().iter().zip(self.step_pass.activity.totals());
        cells.filter(|(cell, _)| **cell == wanted).map(|(_, total)| *total).next().unwrap_or_default()
    }
}

/// Returns two standard errors of a ratio of sums over independent windows. `squares` is the sum of
/// the squared deviations of each window's part.
fn error_of_ratio(squares: f64, windows: usize, work: u64) -> f64 {
    if windows < 3 {
        return 1.0;
    }
    let used = windows as f64;
    2.0 * (squares * used / (used - 1.0)).sqrt() / work.max(1) as f64
}

pub(crate) fn without_long_stays(total: Total) -> Total {
    Total { ns: total.ns - total.long_ns, probes: total.probes - total.longs, long_ns: 0, longs: 0 }
}
