//! The stages of a trace with everything from which they are judged: their facts, blame, pools, and
//! the shares of their states.
//!
//! The facts for findings and the verdict by queues are computed from it.

use super::shares::Share;
use super::{Rules, Thresholds};
use crate::latency::Latencies;
use crate::queues::Queues;
use crate::stages::pools::Pools;
use crate::stages::Stages;
use crate::stats::evidence::Evidence;
use crate::stats::windows::Window;
use crate::step_pass::StepPass;
use crate::wait_graph::blame::{is_stage, Blame};
use longpole_model::actors::ActorId;
use longpole_model::interaction::{QueueId, Vocabulary};
use longpole_model::system::activity::State;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The data from which the stages are judged.
pub struct StageEvidence<'a> {
    pub step_pass: &'a StepPass,
    pub vocabulary: &'a Vocabulary,
    pub queues: &'a Queues,
    pub stages: &'a Stages,
    pub latencies: &'a Latencies,
    pub probe_cost_ps: u64,
    /// Advice for a new recording if events were lost ([`crate::verdict::lost_events::remedy`]).
    pub again: &'a str,
    pub rules: &'a Rules,
}

/// Results that are computed once for the verdict and the facts.
pub(crate) struct Prepared {
    /// Names of all machines; those of one pool have one name.
    pub names: Vec<String>,
    pub windows: Vec<Window>,
    /// For each queue, the shares of the time in which it is full and empty; `None` if unknown.
    pub fullness: Vec<(Option<f64>, Option<f64>)>,
    pub blame: Blame,
    pub pools: Pools,
    /// The whole range.
    pub whole: Evidence,
    /// Indices of each machine's cells.
    pub cells: Vec<Vec<usize>>,
    /// Cache that [`StageEvidence::shares`] fills.
    pub shares: RefCell<HashMap<ActorId, Rc<Vec<Share>>>>,
}

impl Prepared {
    /// Returns the window in which these cells (indices into the activity's) have the most time.
    pub fn strongest(&self, cells: &[usize]) -> Evidence {
        let part = |window: &Window| cells.iter().filter_map(|&at| window.added.get(at)).map(|total| total.ns).sum::<u64>();
        let best = self.windows.iter().map(|window| (part(window), window)).filter(|&(ns, _)| ns > 0).max_by_key(|&(ns, _)| ns);
        best.map_or(self.whole, |(_, window)| Evidence { start_ns: window.begin_ns, end_ns: window.end_ns })
    }

    pub fn cells_of(&self, machine: ActorId) -> &[usize] {
        self.cells.get(machine.0 as usize).map_or(&[], Vec::as_slice)
    }
}

/// The reason for which no state of a machine leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoLead {
    NoWork,
    /// The work has too many names to count each of them.
    ManyNames,
    /// Most of the work is outside of all named states.
    NotNamed,
    /// The next state has nearly as much; `is_ahead` is true if the first one is ahead by more than
    /// the error.
    Close {
        is_ahead: bool,
    },
    /// The first state is a call that the machine makes once per batch, and whose callee hardly
    /// works.
    FewCalls,
}

impl StageEvidence<'_> {
    /// Computes what the verdict and the facts have in common.
    pub(crate) fn prepare(&self) -> Prepared {
        let (begin, end) = self.step_pass.range().unwrap_or((0, 0));
        let vocabulary = self.vocabulary;
        let queues = || (0..vocabulary.queue_count() as u32).map(QueueId);
        let fullness: Vec<_> = queues().map(|queue| self.queues.fullness(queue, vocabulary.shape(queue).capacity, end)).collect();
        let activity = &self.step_pass.activity;
        let near: Vec<_> = queues().map(|queue| self.queues.near(queue, vocabulary.shape(queue).capacity, end)).collect();
        let mut blame = Blame::compute(vocabulary, activity, activity.totals(), self.queues, self.stages, &near);
        let work: Vec<u64> = blame.total_ns.iter().zip(&blame.busy).map(|(&total, busy)| (total as f64 * busy) as u64).collect();
        let pools = Pools::find(&vocabulary.actors, self.stages, &work);
        let mut names = self.step_pass.scene(vocabulary).names();
        for (&leader, members) in &pools.members {
            blame.merge_members(leader, members);
            let tid = vocabulary.actors.all()[leader].tid.map(|tid| format!(".{tid}")).unwrap_or_default();
            let name = names[leader].strip_suffix(&tid).unwrap_or(&names[leader]).to_owned();
            members.iter().for_each(|&member| names[member].clone_from(&name));
        }
        let mut cells = vec![Vec::new(); vocabulary.actors.all().len()];
        for (at, cell) in activity.cells().iter().enumerate() {
            if let Some(of) = cells.get_mut(cell.actor.0 as usize) {
                of.push(at);
            }
        }
        Prepared {
            names,
            windows: self.step_pass.windows.finish(end, activity),
            fullness,
            blame,
            pools,
            whole: Evidence { start_ns: begin, end_ns: end },
            cells,
            shares: RefCell::default(),
        }
    }

    /// Returns one machine per stage.
    pub(crate) fn stages(&self, prepared: &Prepared) -> Vec<usize> {
        let count = self.vocabulary.actors.all().len();
        let is_stage = |&at: &usize| self.stages.of(ActorId(at as u32)).is_some_and(is_stage);
        (0..count).filter(|&at| prepared.pools.is_leader(at)).filter(is_stage).collect()
    }

    /// Returns the reason for which no state of the machine leads, or `None` if one does.
    pub(crate) fn no_lead(&self, machine: ActorId, shares: &[Share]) -> Option<NoLead> {
        let thresholds = &self.rules.stages;
        let Some(Share { state: State::Call(call), .. }) = shares.first() else { return no_lead(shares, thresholds) };
        // A caller that calls once per batch, and waits long although the callee hardly works,
        // waits for a CPU and not for the callee.
        let few_calls = || {
            let served = self.latencies.service(*call, machine).is_some_and(|(_, share)| share >= thresholds.min_service);
            let is_called_rarely = self.calls_per_item(machine, *call) < thresholds.min_calls;
            (!served && is_called_rarely).then_some(NoLead::FewCalls)
        };
        no_lead(shares, thresholds).or_else(few_calls)
    }
}

fn no_lead(shares: &[Share], thresholds: &Thresholds) -> Option<NoLead> {
    let Some(first) = shares.first() else { return Some(NoLead::NoWork) };
    let second = shares.get(1);
    if first.gathered {
        return Some(NoLead::ManyNames);
    }
    if !first.named {
        return Some(NoLead::NotNamed);
    }
    let (next, next_error) = second.map_or((0.0, 0.0), |second| (second.share, second.error));
    // Both are two standard errors; `hypot` yields that of the difference.
    if first.share - next < first.error.hypot(next_error) {
        return Some(NoLead::Close { is_ahead: false });
    }
    let lead = if next > 0.0 { first.share / next } else { f64::INFINITY };
    let enough = thresholds.stands_out.iter().any(|needed| first.share >= needed.share && lead >= needed.lead)
        && (!first.enclosing || first.share >= thresholds.min_enclosing_share);
    (!enough).then_some(NoLead::Close { is_ahead: true })
}
